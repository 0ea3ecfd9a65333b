//! The options of a mount, and their form for the kernel.
//!
//! Takes   `MountOptions`
//! Gives   flags and option strings for mount(2) and for fusermount3
//! Never   passes on text of the caller except the name of the source: every option is built from numbers and fixed words

use std::time::Duration;

use rustix::mount::MountFlags;

use crate::attributes::View;
use crate::error::MountError;
use crate::limits;

/// The file system's name in mount tables.
pub(crate) const NAME: &str = "strongroom";
/// Its type there.
pub(crate) const TYPE: &str = "fuse.strongroom";

/// Whether set-user-id bits and device nodes in the mount have their power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpecialFiles {
    /// They are stored and shown, and do nothing (`nosuid,nodev`). Who can write the vault could else
    /// become root.
    #[default]
    Powerless,
    /// They work as on any disk. Only root can ask for it.
    Honoured,
}

/// How a mount behaves. `default()` suits one person on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Refuse every change.
    pub read_only: bool,
    /// Let other users in; the kernel checks permissions.
    pub allow_other: bool,
    /// Show everything as belonging to this user. Changes of owner are taken and ignored.
    pub uid: Option<u32>,
    /// Show everything as belonging to this group. Changes of owner are taken and ignored.
    pub gid: Option<u32>,
    /// Show everything with the permissions that this mask leaves. Changes of mode are taken and ignored.
    pub umask: Option<u32>,
    /// Offer no extended attributes: a request less per new file, two less per line of `ls -l`.
    pub no_xattr: bool,
    /// Event loops, 1 to 16.
    pub threads: usize,
    /// Unmount when nothing was open and nobody looked for this long.
    pub idle_unmount: Option<Duration>,
    /// Let the kernel gather small writes before it sends them: many small writes become one request. What is written
    /// reaches the vault, and with it other users of the vault, only with `fsync`, with the last unmapping or within
    /// half a minute, in any order; closing a file costs a request more; the kernel keeps the times of changed files.
    pub writeback: bool,
    /// Let idle processors sleep between requests that follow one another closely: less power, fewer requests a
    /// second. Only root can ask for the contrary, so for others it is always so.
    pub save_power: bool,
    /// The kernel checks permissions. Without it nobody does, not even 0444 against the owner, and each
    /// creation and removal costs one request less; never together with `allow_other`.
    pub default_permissions: bool,
    /// Whether set-user-id bits and device nodes have their power.
    pub special_files: SpecialFiles,
    /// What `df` and mount tables show as the source: printable, 1 to 1,024 bytes; else `strongroom`.
    pub source: String,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            allow_other: false,
            uid: None,
            gid: None,
            umask: None,
            no_xattr: false,
            threads: limits::LOOPS_DEFAULT,
            idle_unmount: None,
            writeback: false,
            save_power: false,
            default_permissions: true,
            special_files: SpecialFiles::default(),
            source: NAME.to_owned(),
        }
    }
}

impl MountOptions {
    /// Refuses what cannot be or is not yet.
    pub(crate) fn check(&self) -> Result<(), MountError> {
        if self.allow_other && !self.default_permissions {
            return Err(MountError::OptionConflict(
                "allow-other without permission checks would open every file to everybody: use allow-other or no-permissions, not both",
            ));
        }
        if self.threads == 0 || self.threads > limits::LOOPS_MAX {
            return Err(MountError::OptionConflict("threads must be 1 to 16"));
        }
        if self.umask.is_some_and(|umask| umask > 0o777) {
            return Err(MountError::OptionConflict(
                "umask must be 000 to 777, in octal digits",
            ));
        }
        if self.idle_unmount.is_some_and(|idle| idle.is_zero()) {
            return Err(MountError::OptionConflict(
                "the idle time must be more than 0 seconds",
            ));
        }
        Ok(())
    }

    pub(crate) fn view(&self) -> View {
        View {
            uid: self.uid,
            gid: self.gid,
            umask: self.umask,
        }
    }

    /// The source in mount tables.
    pub(crate) fn source(&self) -> &str {
        let fits = (1..=limits::SOURCE_BYTES_MAX).contains(&self.source.len());
        match fits && !self.source.chars().any(char::is_control) {
            true => &self.source,
            false => NAME,
        }
    }

    /// Flags of mount(2). No access times are kept, so the kernel need not think of them.
    pub(crate) fn flags(&self) -> MountFlags {
        let mut flags = MountFlags::NOATIME;
        if self.special_files == SpecialFiles::Powerless {
            flags |= MountFlags::NOSUID | MountFlags::NODEV;
        }
        if self.read_only {
            flags |= MountFlags::RDONLY;
        }
        flags
    }

    /// The data of mount(2).
    pub(crate) fn data(&self, descriptor: i32, uid: u32, gid: u32) -> String {
        let mut data = format!("fd={descriptor},rootmode=40000,user_id={uid},group_id={gid}");
        self.push_shared(&mut data);
        data
    }

    /// The options of fusermount3, which adds `nosuid,nodev` for everybody but root.
    pub(crate) fn helper_options(&self) -> String {
        // Its parser takes a comma for the end of an option, and a backslash for the beginning of an escape.
        let source = self.source().replace('\\', "\\\\").replace(',', "\\,");
        let mut options = format!("fsname={source},subtype={NAME},noatime");
        options.push_str(match self.special_files {
            SpecialFiles::Powerless => ",nosuid,nodev",
            SpecialFiles::Honoured => ",suid,dev",
        });
        if self.read_only {
            options.push_str(",ro");
        }
        self.push_shared(&mut options);
        options
    }

    fn push_shared(&self, options: &mut String) {
        if self.default_permissions {
            options.push_str(",default_permissions");
        }
        if self.allow_other {
            options.push_str(",allow_other");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_the_descriptor_and_who_checks() {
        let options = MountOptions::default();
        let data = "fd=9,rootmode=40000,user_id=0,group_id=0,default_permissions";
        assert_eq!(options.data(9, 0, 0), data);
        let open = MountOptions {
            allow_other: true,
            ..options
        };
        assert_eq!(open.data(9, 0, 0), format!("{data},allow_other"));
    }

    #[test]
    fn the_helper_is_told_the_same_in_its_words() {
        let options = MountOptions {
            read_only: true,
            default_permissions: false,
            ..MountOptions::default()
        };
        assert_eq!(
            options.helper_options(),
            "fsname=strongroom,subtype=strongroom,noatime,nosuid,nodev,ro"
        );
    }

    #[test]
    fn the_source_is_escaped_for_the_helper_and_what_cannot_be_one_is_not_passed_on() {
        let named = |source: &str| MountOptions {
            source: source.to_owned(),
            ..MountOptions::default()
        };
        let options = named("/a,suid\\b").helper_options();
        assert!(
            options.starts_with("fsname=/a\\,suid\\\\b,subtype="),
            "{options}"
        );
        for wrong in ["", "a\nb", &"x".repeat(1025)] {
            assert_eq!(named(wrong).source(), NAME);
        }
    }

    #[test]
    fn special_files_are_powerless_unless_asked_for() {
        let safe = MountFlags::NOSUID | MountFlags::NODEV;
        assert!(MountOptions::default().flags().contains(safe));
        let asked = MountOptions {
            special_files: SpecialFiles::Honoured,
            ..MountOptions::default()
        };
        assert!(!asked.flags().intersects(safe));
    }

    #[test]
    fn what_is_not_there_or_unsafe_is_refused() {
        let default = MountOptions::default;
        assert!(default().check().is_ok());
        for (bad, word) in [
            (
                MountOptions {
                    allow_other: true,
                    default_permissions: false,
                    ..default()
                },
                "allow-other",
            ),
            (
                MountOptions {
                    threads: 0,
                    ..default()
                },
                "threads",
            ),
            (
                MountOptions {
                    threads: 17,
                    ..default()
                },
                "threads",
            ),
            (
                MountOptions {
                    umask: Some(0o1000),
                    ..default()
                },
                "umask",
            ),
            (
                MountOptions {
                    idle_unmount: Some(Duration::ZERO),
                    ..default()
                },
                "idle",
            ),
        ] {
            let message = bad.check().unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}

//! The properties of a node, besides its content, that `put` and `get` keep; and how they are applied to a local file.
//!
//! Takes   attributes, names of extended attributes, and nodes with several names
//! Gives   the original owners, modes, times, extended attributes and hard links, as far as this user may set them
//! Never   leaves a set-user-id bit on a file that gets another owner, or follows a link in the path

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod,
    fchown, fsetxattr, futimens, lsetxattr, utimensat,
};
use rustix::io::Errno;
use strongroom::filesystem::{Attributes, NodeKind, Timestamp};

use super::account::Account;
use crate::terminal::failure::Result;

/// The longest value and the longest list of names that Linux knows, in bytes.
const XATTR_BYTES_MAX: usize = 64 * 1024;

/// Files with several names that are remembered; of more, further names become copies.
const LINKS_MAX: usize = 256 * 1024;

const SUID_SGID: u32 = 0o6000;

/// What one copy keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    /// Owner, group, and the extended attributes that only the superuser may set.
    Kept,
    /// Everything belongs to who copies.
    Dropped,
}

impl Owners {
    /// Only the superuser can give files away.
    pub(crate) fn of(no_owner: bool) -> Self {
        if no_owner || !rustix::process::geteuid().is_root() {
            Self::Dropped
        } else {
            Self::Kept
        }
    }

    /// The mode a node of this owner keeps: a program must not begin to run as somebody else.
    pub(crate) fn mode(self, kind: NodeKind, mode: u32, uid: u32, gid: u32) -> u32 {
        let own = uid == rustix::process::geteuid().as_raw()
            && gid == rustix::process::getegid().as_raw();
        if self == Self::Kept || own || kind == NodeKind::Directory {
            mode
        } else {
            mode & !SUID_SGID
        }
    }

    /// Whether an extended attribute is kept. What is not, and is not reported either, belongs to the machine.
    pub(crate) fn keep_xattr(self, name: &[u8]) -> Keeping {
        if name.starts_with(b"user.") {
            Keeping::Yes
        } else if name.starts_with(b"trusted.") || name == b"security.capability" {
            match self {
                Self::Kept => Keeping::Yes,
                Self::Dropped => Keeping::No("only the superuser can keep it"),
            }
        } else if name.starts_with(b"system.posix_acl_") {
            Keeping::No("a vault holds no access control lists")
        } else {
            Keeping::Silently
        }
    }
}

/// Whether what comes out of a vault may give rights. Who filled the vault is not always who empties it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// As they are in the vault: it was asked for.
    Given,
    /// No program runs as somebody else or with capabilities, no device opens the machine. As in a mount.
    Withheld,
}

impl Rights {
    /// What a copy gets, and whether something is missing. The set-group-id bit of a directory gives no rights: it
    /// says to whom new files belong.
    pub(crate) fn attributes(self, attributes: &Attributes) -> (Attributes, bool) {
        let mut copy = attributes.clone();
        if self == Self::Withheld && copy.kind != NodeKind::Directory {
            copy.mode &= !SUID_SGID;
        }
        let withheld = copy.mode != attributes.mode;
        (copy, withheld)
    }

    /// Capabilities of programs, and what the superuser's tools believe in without a further look.
    pub(crate) fn withholds_xattr(self, name: &[u8]) -> bool {
        self == Self::Withheld && (name == b"security.capability" || name.starts_with(b"trusted."))
    }
}

/// Whether something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    Yes,
    /// It is not, for this reason.
    No(&'static str),
    /// It is not, and nobody misses it: labels that a security module puts on every file.
    Silently,
}

/// Files with several names: where the first one was copied to.
#[derive(Debug)]
pub(crate) struct LinkTable<K, P> {
    seen: HashMap<K, (P, u64)>,
}

impl<K: Eq + Hash, P: Clone> LinkTable<K, P> {
    pub(crate) fn new() -> Self {
        Self {
            seen: HashMap::new(),
        }
    }

    /// The copy of the node `key`. After its last name it is forgotten.
    pub(crate) fn take(&mut self, key: &K) -> Option<P> {
        let (place, left) = self.seen.get_mut(key)?;
        *left -= 1;
        if *left == 0 {
            return self.seen.remove(key).map(|(place, _)| place);
        }
        Some(place.clone())
    }

    /// The first of `names` names of the node `key` was copied to `place`.
    pub(crate) fn put(&mut self, key: K, place: P, names: u64) {
        if names > 1 && (self.seen.len() < LINKS_MAX || self.seen.contains_key(&key)) {
            self.seen.insert(key, (place, names - 1));
        }
    }
}

/// The extended attributes of a local file that is open.
pub(crate) fn xattrs_of(
    file: &File,
    owners: Owners,
    subject: &Path,
    account: &mut Account,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = vec![0; XATTR_BYTES_MAX];
    let len = match rustix::fs::flistxattr(file, &mut names[..]) {
        Ok(len) => len,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(error) => return Err(io::Error::from(error).into()),
    };
    let mut found = Vec::new();
    let names = names[..len].split(|byte| *byte == 0);
    for name in names.filter(|name| !name.is_empty()) {
        match owners.keep_xattr(name) {
            Keeping::Yes => {}
            Keeping::No(why) => {
                account.left_out(subject.as_os_str().as_bytes(), name, why);
                continue;
            }
            Keeping::Silently => continue,
        }
        let mut value = vec![0; XATTR_BYTES_MAX];
        match rustix::fs::fgetxattr(file, name, &mut value[..]) {
            Ok(len) => {
                value.truncate(len);
                value.shrink_to_fit();
                found.push((name.to_vec(), value));
            }
            // Removed meanwhile.
            Err(Errno::NODATA) => {}
            Err(error) => {
                account.left_out(subject.as_os_str().as_bytes(), name, io::Error::from(error));
            }
        }
    }
    Ok(found)
}

/// Where attributes are put.
enum Onto<'a> {
    /// A file or directory that is open.
    File(&'a File),
    /// A symbolic link, pipe, socket or device, by its name.
    Name(&'a Path),
}

/// What a local copy gets besides its content.
pub(crate) struct Dress<'a> {
    pub(crate) attributes: &'a Attributes,
    pub(crate) xattrs: &'a [(Vec<u8>, Vec<u8>)],
    pub(crate) owners: Owners,
    /// What notes are about.
    pub(crate) subject: &'a [u8],
}

impl Dress<'_> {
    /// Puts everything onto an open file or directory.
    pub(crate) fn file(&self, file: &File, account: &mut Account) -> Result<()> {
        self.put(&Onto::File(file), account)
    }

    /// Puts everything onto what has the name `local`.
    pub(crate) fn name(&self, local: &Path, account: &mut Account) -> Result<()> {
        self.put(&Onto::Name(local), account)
    }

    /// Owner first, as a change of it takes bits from the mode and capabilities. The mode after the extended attributes, as it
    /// may forbid to set them; times last.
    fn put(&self, onto: &Onto<'_>, account: &mut Account) -> Result<()> {
        let Attributes { kind, uid, gid, .. } = *self.attributes;
        let mut owners = self.owners;
        if owners == Owners::Kept
            && let Err(error) = own(onto, uid, gid)
        {
            account.left_out(self.subject, "the owner", io::Error::from(error));
            owners = Owners::Dropped;
        }
        let mode = owners.mode(kind, self.attributes.mode, uid, gid);
        if mode != self.attributes.mode {
            let why = "the copy has another owner than the file";
            account.left_out(self.subject, "the set-user-id bits", why);
        }
        for (name, value) in self.xattrs {
            let set = match onto {
                Onto::File(file) => fsetxattr(file, name.as_slice(), value, XattrFlags::empty()),
                Onto::Name(path) => lsetxattr(*path, name.as_slice(), value, XattrFlags::empty()),
            };
            if let Err(error) = set {
                account.left_out(self.subject, name, io::Error::from(error));
            }
        }
        set_mode(onto, kind, mode)?;
        set_times(onto, self.attributes)
    }
}

fn own(onto: &Onto<'_>, uid: u32, gid: u32) -> rustix::io::Result<()> {
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    match onto {
        Onto::File(file) => fchown(file, uid, gid),
        Onto::Name(path) => chownat(CWD, *path, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
    }
}

fn set_mode(onto: &Onto<'_>, kind: NodeKind, mode: u32) -> Result<()> {
    let mode = Mode::from_raw_mode(mode);
    let set = match onto {
        Onto::File(file) => fchmod(file, mode),
        Onto::Name(_) if kind == NodeKind::Symlink => Ok(()),
        Onto::Name(path) => set_mode_of_name(path, mode),
    };
    Ok(set.map_err(io::Error::from)?)
}

/// Without opening a pipe or device, and without following a link that somebody put in its place.
fn set_mode_of_name(path: &Path, mode: Mode) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd;
    let node = rustix::fs::open(
        path,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&node)?.st_mode);
    if kind == rustix::fs::FileType::Symlink {
        return Err(Errno::LOOP);
    }
    let name = format!("/proc/self/fd/{}", node.as_fd().as_raw_fd());
    rustix::fs::chmod(name, mode)
}

fn set_times(onto: &Onto<'_>, attributes: &Attributes) -> Result<()> {
    let times = Timestamps {
        last_access: timespec(attributes.atime),
        last_modification: timespec(attributes.mtime),
    };
    let set = match onto {
        Onto::File(file) => futimens(file, &times),
        Onto::Name(path) => utimensat(CWD, *path, &times, AtFlags::SYMLINK_NOFOLLOW),
    };
    Ok(set.map_err(io::Error::from)?)
}

fn timespec(time: Timestamp) -> Timespec {
    Timespec {
        tv_sec: time.0.div_euclid(1_000_000_000),
        tv_nsec: time.0.rem_euclid(1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_name_finds_the_first_one_and_after_the_last_nothing_is_kept() {
        let mut links = LinkTable::new();
        links.put(7, "first", 3);
        assert_eq!(links.take(&7), Some("first"));
        assert_eq!(links.take(&8), None);
        assert_eq!(links.take(&7), Some("first"));
        assert_eq!(links.take(&7), None);
        assert!(links.seen.is_empty());
        links.put(9, "only", 1);
        assert!(links.seen.is_empty());
    }

    #[test]
    fn a_program_of_somebody_else_loses_the_bits_that_would_run_it_as_who_copies() {
        let (uid, gid) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let file = NodeKind::File;
        assert_eq!(Owners::Dropped.mode(file, 0o6755, uid, gid), 0o6755);
        assert_eq!(Owners::Dropped.mode(file, 0o6755, uid + 1, gid), 0o755);
        assert_eq!(Owners::Dropped.mode(file, 0o6755, uid, gid + 1), 0o755);
        assert_eq!(Owners::Kept.mode(file, 0o6755, uid + 1, gid), 0o6755);
        let directory = NodeKind::Directory;
        assert_eq!(
            Owners::Dropped.mode(directory, 0o2755, uid + 1, gid),
            0o2755
        );
    }

    #[test]
    fn users_attributes_are_kept_by_all_and_those_of_the_superuser_by_the_superuser() {
        assert_eq!(Owners::Dropped.keep_xattr(b"user.x"), Keeping::Yes);
        assert_eq!(
            Owners::Kept.keep_xattr(b"security.capability"),
            Keeping::Yes
        );
        for name in [
            &b"trusted.x"[..],
            b"security.capability",
            b"system.posix_acl_access",
        ] {
            assert!(matches!(Owners::Dropped.keep_xattr(name), Keeping::No(_)));
        }
        assert_eq!(
            Owners::Kept.keep_xattr(b"security.selinux"),
            Keeping::Silently
        );
    }
}

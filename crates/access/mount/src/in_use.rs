//! Describes in words what keeps a mount in use, and what an unmount waits for.
//!
//! Takes   the findings of other modules
//! Gives   sentences for people
//! Never   inspects a process or a mount

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// What it calls itself.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// Names of `holders`, or what to say if none can be seen.
fn list(holders: &[Holder], nobody: &str) -> String {
    if holders.is_empty() {
        return nobody.to_owned();
    }
    let named: Vec<_> = holders.iter().map(ToString::to_string).collect();
    named.join(", ")
}

/// Why a mount cannot be taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Where it is.
    pub path: PathBuf,
    /// Who uses it: those that could be seen.
    pub by: Vec<Holder>,
    /// What is mounted inside of it; its own path stands for what is mounted over it.
    pub mounts: Vec<PathBuf>,
}

impl InUse {
    /// Nobody looked who it is.
    pub(crate) fn somehow(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            by: Vec::new(),
            mounts: Vec::new(),
        }
    }
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is in use", self.path.display())?;
        if !self.by.is_empty() {
            write!(f, " by {}", list(&self.by, ""))?;
        }
        for mount in &self.mounts {
            if *mount == self.path {
                write!(f, "; another file system is mounted over it")?;
            } else {
                write!(f, "; {} is mounted in it", show(mount.as_os_str()))?;
            }
        }
        let close = match self.mounts.is_empty() {
            true => "close the programs that use it",
            false => "unmount and close everything in it",
        };
        write!(f, "; {close}, or unmount with --lazy")
    }
}

/// What an `unmount` waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The kernel hands over what it keeps of the mount.
    Kernel,
    /// It is unmounted here, but seen elsewhere: by these processes, each in a mount namespace of its own.
    SeenElsewhere(Vec<Holder>),
    /// So many bytes that were accepted are not stored yet; none means that the disk is waited for.
    Storing(u64),
    /// All is stored; the process closes the vault.
    Closing,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("the kernel is still writing cached data to the vault"),
            Self::SeenElsewhere(holders) => {
                let unseen = "processes that you may not inspect";
                let holders = list(holders, unseen);
                write!(
                    f,
                    "these processes still have the mount in their own mount namespace (a container, for example): {holders}"
                )
            }
            Self::Storing(0) => f.write_str("the disk is still storing the last writes"),
            Self::Storing(bytes) => write!(f, "{} MiB are not stored yet", bytes.div_ceil(1 << 20)),
            Self::Closing => f.write_str("everything is stored, the vault is being closed"),
        }
    }
}

fn show(name: &OsStr) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_the_way_is_named_with_what_to_do() {
        let mut busy = InUse::somehow(Path::new("/mnt"));
        assert_eq!(
            busy.to_string(),
            "/mnt is in use; close the programs that use it, or unmount with --lazy"
        );
        busy.by = vec![
            Holder {
                pid: 7,
                name: "vim".to_owned(),
            },
            Holder {
                pid: 9,
                name: "bash".to_owned(),
            },
        ];
        busy.mounts = vec!["/mnt/x".into()];
        assert_eq!(
            busy.to_string(),
            "/mnt is in use by vim (process 7), bash (process 9); /mnt/x is mounted in it; unmount and close everything in it, or unmount \
             with --lazy"
        );
        busy.by.clear();
        busy.mounts = vec!["/mnt".into()];
        let said = busy.to_string();
        let over = "/mnt is in use; another file system is mounted over it; ";
        assert!(said.starts_with(over), "{said}");
    }
}

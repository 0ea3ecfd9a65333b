//! Unmounts from another process, and waits for the one behind the mount.
//!
//! Takes   the folder
//! Gives   back when the process behind the mount has made everything durable
//! Never   signals or kills that process

use std::path::Path;

use crate::detach::{Detach, detach};
use crate::error::MountError;
use crate::mountinfo::mount_at;
use crate::mountpoint;
use crate::options::TYPE;
use crate::record::{Ending, Watched};

/// What to do about files that are open in the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Refuse.
    IfUnused,
    /// Take the mount out of sight now, and wait for its last user.
    Lazily,
}

/// Unmounts `directory` and waits until its process has ended the mount with everything durable.
///
/// A mount whose process has died is removed, and `Unconfirmed` says so.
///
/// # Errors
/// `NotMounted`, `Busy`, `Permission`; `EndedBadly`, `Unconfirmed` and `NoRecord` when it was unmounted
/// but durability is not certain.
pub fn unmount(directory: &Path, how: Unmount) -> Result<(), MountError> {
    let path = mountpoint::resolve(directory)?;
    let entry = mount_at(&path)?.filter(|entry| entry.file_system_type == TYPE);
    let Some(entry) = entry else {
        return Err(MountError::NotMounted(path));
    };
    // Opened before the unmount, as the process removes it at its end.
    let watched = Watched::open(&path, entry.user_id.unwrap_or(0));
    detach(
        &path,
        match how {
            Unmount::IfUnused => Detach::IfUnused,
            Unmount::Lazily => Detach::Lazily,
        },
    )?;
    let Some(watched) = watched else {
        return Err(MountError::NoRecord(path));
    };
    match watched.wait()? {
        Ending::Durable => Ok(()),
        Ending::Failed(reason) => Err(MountError::EndedBadly(reason)),
        Ending::Unconfirmed => Err(MountError::Unconfirmed(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_mount_of_ours_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            unmount(folder.path(), Unmount::IfUnused),
            Err(MountError::NotMounted(_))
        ));
        assert!(matches!(
            unmount(Path::new("/proc"), Unmount::IfUnused),
            Err(MountError::NotMounted(_))
        ));
        let missing = unmount(&folder.path().join("no/such"), Unmount::Lazily);
        assert!(matches!(missing, Err(MountError::MountPointMissing(_))));
    }
}

//! Counts the requests of an operation.
//!
//! Requests that the kernel sends once per connection (OPEN, OPENDIR, CREATE and FLUSH, each answered ENOSYS) are
//! caused by `warm` before the count begins. FORGET comes at any time, and is left out.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use strongroom_mount::{MountError, MountOptions, Mounted, Opcode};

use super::Drive;

/// Requests by name, in the order of the counters; none that did not come.
pub(crate) type Cost = Vec<(&'static str, u64)>;

/// A drive that was asked what is asked once.
pub(crate) fn warm(options: &MountOptions) -> Drive {
    let drive = Drive::with(options);
    fs::write(drive.at("warm"), b"warm").unwrap();
    fs::read(drive.at("warm")).unwrap();
    fs::read_dir(drive.at("")).unwrap().count();
    rustix::fs::access(drive.at("warm"), rustix::fs::Access::READ_OK).unwrap();
    fs::remove_file(drive.at("warm")).unwrap();
    drive
}

/// What `operation` costs.
pub(crate) fn cost(drive: &Drive, operation: impl FnOnce()) -> Cost {
    let before = drive.mounted.requests();
    operation();
    let all = drive.mounted.requests().since(&before);
    let forget = Opcode::Forget.name();
    all.iter().filter(|(name, _)| *name != forget).collect()
}

/// How many requests of one kind `costs` has.
pub(crate) fn of(costs: &Cost, opcode: Opcode) -> u64 {
    let found = costs.iter().find(|(name, _)| *name == opcode.name());
    found.map_or(0, |(_, count)| *count)
}

/// Ends the mount. A child of another test may hold a file of this one between its fork and its exec: the mount is busy for
/// that moment.
fn unmount(mounted: &Mounted) {
    for _ in 0..100 {
        match mounted.unmount() {
            Err(MountError::Busy(_)) => std::thread::sleep(Duration::from_millis(50)),
            ended => return ended.unwrap(),
        }
    }
    mounted.unmount().unwrap();
}

/// Makes the kernel forget names and content, as after a mount.
pub(crate) fn cold(drive: Drive, options: &MountOptions) -> Drive {
    let Drive {
        mounted,
        filesystem,
        vault,
        folder,
    } = drive;
    unmount(&mounted);
    drop(mounted);
    let mounted = Mounted::start(filesystem.clone(), &folder.path().join("mnt"), options).unwrap();
    let drive = Drive {
        mounted,
        filesystem,
        vault,
        folder,
    };
    fs::write(drive.at("warm"), b"warm").unwrap();
    fs::remove_file(drive.at("warm")).unwrap();
    // Its own: a listing of the root would make known what is to be cold.
    fs::create_dir(drive.at("warm")).unwrap();
    assert_eq!(fs::read_dir(drive.at("warm")).unwrap().count(), 0);
    rustix::fs::access(drive.at("warm"), rustix::fs::Access::EXEC_OK).unwrap();
    fs::remove_dir(drive.at("warm")).unwrap();
    drive
}

/// A tree of 4 directories with 50 files each.
pub(crate) fn tree(drive: &Drive) {
    for directory in 0..4 {
        fs::create_dir_all(drive.at(&format!("tree/{directory}"))).unwrap();
        for file in 0..50 {
            fs::write(drive.at(&format!("tree/{directory}/{file}")), b"content").unwrap();
        }
    }
}

/// Lists all below `folder` and looks at each entry, as `ls -lR` does.
pub(crate) fn walk(folder: &Path) -> usize {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let counts = entries.map(|path| {
        let found = fs::symlink_metadata(&path).unwrap();
        1 + if found.is_dir() { walk(&path) } else { 0 }
    });
    counts.sum()
}

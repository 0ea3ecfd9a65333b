//! A disk that is really full while a vault is opened, or asked.
//!
//! It needs the right to mount a small file system in memory; without it the test reports that and ends.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use strongroom_filesystem::SeekTarget;

use crate::support::{Lab, ROOT};
use crate::{all, pattern};

/// A file system of 24 MiB, gone with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        let mounted = mount("tmpfs", at, "tmpfs", MountFlags::empty(), Some(c"size=24m"));
        mounted.ok().map(|()| Self(at.to_owned()))
    }

    /// Takes all that is left of it; gives the file that does.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut filler = fs::File::create(&path).expect("made");
        while filler.write_all(&[7; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// The segment files, and what they hold.
fn segments(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let folders = fs::read_dir(folder).expect("lists").flatten();
    let folders = folders.filter(|entry| entry.path().is_dir());
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).expect("lists").flatten());
    files
        .map(|file| {
            let bytes = fs::read(file.path()).expect("reads");
            (file.path(), bytes)
        })
        .collect()
}

/// Goal: a full disk keeps no vault from being opened, for who opens it removes something. Method: of two segments that a crash left
/// open the first is full and is to be ended, for which there is no room.
/// Failed before: the opening ended with the words that there is no space left.
#[test]
fn a_vault_opens_on_a_full_disk_with_a_segment_to_end() {
    let mut lab = Lab::new();
    let content = pattern(1, 20 << 20);
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &content).expect("writes");
    // Nobody ends the segment that this fills.
    lab.sync().expect("durable");
    let folder = lab.path().join("segments");
    let left = segments(&folder);
    assert_eq!(left.len(), 2);
    let Some(disk) = SmallDisk::mount(&folder) else {
        eprintln!("skipped: mounting is not permitted here");
        return;
    };
    for (path, bytes) in &left {
        fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
        fs::write(path, bytes).expect("written");
    }
    let filler = disk.fill();
    lab.crash();
    assert!(all(&lab, file) == content);
    fs::remove_file(filler).expect("removed");
    lab.tick().expect("ends the segment");
    let now = segments(&folder);
    let has_grown = |(path, then): &(PathBuf, Vec<u8>)| {
        let mut now = now.iter().filter(|(now, _)| now == path);
        now.any(|(_, now)| now.len() > then.len())
    };
    assert!(
        left.iter().any(has_grown),
        "what had to wait is done when there is room"
    );
}

/// Goal: where a file holds data is told on a full disk too, for who copies it away asks that first. Method: content that there is no room
/// to store.
/// Failed before: the question was refused for want of room.
#[test]
fn a_full_disk_refuses_no_question_for_data() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(1, 1 << 20)).expect("writes");
    lab.sync().expect("durable");
    let folder = lab.path().join("segments");
    let left = segments(&folder);
    let Some(disk) = SmallDisk::mount(&folder) else {
        eprintln!("skipped: mounting is not permitted here");
        return;
    };
    for (path, bytes) in &left {
        fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
        fs::write(path, bytes).expect("written");
    }
    let filler = disk.fill();
    lab.crash();
    let content = pattern(2, 1 << 20);
    lab.write(file, 0, &content).expect("taken");
    for (target, found) in [(SeekTarget::Data, 0), (SeekTarget::Hole, 1 << 20)] {
        assert_eq!(lab.seek(file, 0, target).expect("told"), found);
    }
    assert!(all(&lab, file) == content);
    fs::remove_file(filler).expect("removed");
    lab.sync().expect("there is room");
    // It looks at its segments once more.
    drop(lab);
    drop(disk);
}

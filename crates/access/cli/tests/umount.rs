//! `strongroom umount` does what its help says, with real mounts of the real binary.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{Pid, Signal};
use support::Place;

/// How often a round trip is made where one of some failed before.
const ROUNDS: usize = 12;

/// A mount of the vault `v` of a place. Its process is killed at the end, also of a test that fails, and the place freed.
struct Drive<'a> {
    place: &'a Place,
    pid: Pid,
}

impl<'a> Drive<'a> {
    fn mount(place: &'a Place) -> Self {
        fs::create_dir_all(place.path("mnt")).unwrap();
        place.done(&["mount", "v", "mnt", "--key-file", "key"]);
        let text = place.done(&["info", "v", "--json"]);
        let information: serde_json::Value = serde_json::from_str(&text).unwrap();
        let pid = information["owner_pid"].as_i64().unwrap();
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        Self { place, pid }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path("mnt").join(name)
    }

    /// One that has ended holds nothing any more, also before somebody asked how it ended.
    fn lives(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_nonzero()));
        status.is_ok_and(|status| !status.contains("State:\tZ"))
    }
}

impl Drop for Drive<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.place.path("mnt"), UnmountFlags::DETACH);
        if self.lives() {
            let _ = rustix::process::kill_process(self.pid, Signal::KILL);
        }
    }
}

/// A disk of its own below the vault, which keeps what is on it while it is not mounted.
struct Disk {
    at: PathBuf,
    kept: PathBuf,
}

impl Disk {
    fn new(place: &Place, at: &str) -> Self {
        let (at, kept) = (place.path(at), place.path("disk"));
        for path in [&at, &kept] {
            fs::create_dir(path).unwrap();
        }
        rustix::mount::mount("none", &kept, "tmpfs", MountFlags::empty(), None).unwrap();
        let disk = Self { at, kept };
        disk.come();
        disk
    }

    fn come(&self) {
        rustix::mount::mount_bind(&self.kept, &self.at).unwrap();
    }

    /// Unmounts it as `umount` does, and mounts it again.
    fn leave(&self) -> rustix::io::Result<()> {
        rustix::mount::unmount(&self.at, UnmountFlags::empty())?;
        self.come();
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for path in [&self.at, &self.kept] {
            let _ = rustix::mount::unmount(path, UnmountFlags::DETACH);
        }
    }
}

/// Goal: `umount && umount` of the disk below, as a stick is unplugged. Failed before: the process was still there in 16 of 20
/// rounds, and the disk busy in 5.
#[test]
fn when_umount_returns_the_process_is_gone_and_the_disk_below_can_be_unmounted() {
    let place = Place::empty();
    let disk = Disk::new(&place, "v");
    place.done(&["init", "v", "--key-file", "key"]);
    for round in 0..ROUNDS {
        let drive = Drive::mount(&place);
        fs::write(drive.at("file"), vec![7; 100_000]).unwrap();
        let ended = place.run(&["umount", "mnt"]);
        assert!(ended.status.success(), "{ended:?}");
        assert!(!drive.lives(), "round {round}");
        drop(drive);
        // A disk on which anything is open is refused as busy; this one goes and comes.
        assert_eq!(disk.leave(), Ok(()), "round {round}");
    }
}

/// Failed before: nobody was named; `--lazy` returned with the last user.
#[test]
fn a_busy_file_is_refused_with_who_has_it_and_lazily_let_go_at_once() {
    let place = Place::new();
    let drive = Drive::mount(&place);
    let mut file = File::create(drive.at("file")).unwrap();
    let refused = place.fails(7, &["umount", "mnt"]);
    let own = format!("(process {})", std::process::id());
    assert!(refused.contains("in use by"), "{refused}");
    assert!(refused.contains(&own), "{refused}");
    place.done(&["umount", "--lazy", "mnt"]);
    assert!(drive.lives());
    file.write_all(b"still works").unwrap();
    file.sync_all().unwrap();
    drop(file);
    // The next command finds the vault free, once the process has ended by itself.
    place.done(&["mount", "v", "mnt", "--key-file", "key"]);
    assert_eq!(fs::read(drive.at("file")).unwrap(), b"still works");
    place.done(&["umount", "mnt"]);
}

#[test]
fn a_mount_whose_process_died_is_removed_and_that_is_said() {
    let place = Place::new();
    let drive = Drive::mount(&place);
    rustix::process::kill_process(drive.pid, Signal::KILL).unwrap();
    let said = place.fails(13, &["umount", "mnt"]);
    assert!(said.contains("without confirming"), "{said}");
    place.fails(13, &["umount", "mnt"]);
}

/// Goal: a mount outlives the session in which it was made, and its folder of sockets. Failed before: commands ended with 7, and
/// `umount` with 13.
#[test]
fn a_mount_whose_folder_of_sockets_vanished_is_reached_and_unmounted() {
    let place = Place::new();
    let drive = Drive::mount(&place);
    fs::write(drive.at("file"), "file").unwrap();
    for _ in 0..3 {
        // The mount may be making its socket again in it at that moment.
        while let Err(error) = fs::remove_dir_all(place.path("run")) {
            assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
        }
        assert_eq!(place.keyed(&["cat", "v:/file"]), "file");
        fs::create_dir(place.path("run")).unwrap();
        // As tidied up by somebody else: the folder is there, and what was in it is not.
        assert_eq!(place.keyed(&["cat", "v:/file"]), "file");
    }
    place.done(&["umount", "mnt"]);
    assert!(!drive.lives());
}

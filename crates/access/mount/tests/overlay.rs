//! The file system of a container: overlayfs with its upper layer on the drive. Only root can run it, because overlayfs
//! needs root.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use support::Drive;

/// A mounted overlay. Taken away before the drive that it stands on.
struct Overlay {
    merged: PathBuf,
    drive: Drive,
}

impl Overlay {
    /// Over a layer with a file `file`, a file `moved` and a directory `directory` with a file `inside`. `None` where the kernel has no
    /// overlayfs or this user may not mount it.
    fn new() -> Option<Self> {
        let known = fs::read_to_string("/proc/filesystems").unwrap();
        if !known.contains("\toverlay") || !rustix::process::geteuid().is_root() {
            eprintln!("left out: this needs root and overlayfs");
            return None;
        }
        let drive = Drive::new();
        let lower = drive.folder.path().join("lower");
        fs::create_dir_all(lower.join("directory")).unwrap();
        for name in ["file", "moved", "directory/inside"] {
            fs::write(lower.join(name), name).unwrap();
        }
        fs::create_dir(drive.at("upper")).unwrap();
        fs::create_dir(drive.at("work")).unwrap();
        let merged = drive.folder.path().join("merged");
        fs::create_dir(&merged).unwrap();
        let overlay = Self { merged, drive };
        overlay.mount();
        Some(overlay)
    }

    fn mount(&self) {
        let shown = |path: PathBuf| path.to_str().unwrap().to_owned();
        let lower = shown(self.drive.folder.path().join("lower"));
        let (upper, work) = (shown(self.upper("")), shown(self.drive.at("work")));
        let data = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let data = CString::new(data).unwrap();
        let mounted = rustix::mount::mount(
            "overlay",
            &self.merged,
            "overlay",
            MountFlags::empty(),
            data.as_c_str(),
        );
        mounted.expect("the drive has what the upper layer of an overlay needs");
    }

    fn unmount(&self) {
        rustix::mount::unmount(&self.merged, UnmountFlags::empty()).unwrap();
    }

    fn at(&self, name: &str) -> PathBuf {
        self.merged.join(name)
    }

    fn upper(&self, name: &str) -> PathBuf {
        self.drive.at("upper").join(name)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        // It is gone already when the test has unmounted it.
        let _ = rustix::mount::unmount(&self.merged, UnmountFlags::DETACH);
    }
}

/// The mark of a name that the upper layer takes from the lower one: a character device with the number 0.
fn is_whiteout(path: &Path) -> bool {
    let found = fs::symlink_metadata(path).unwrap();
    found.file_type().is_char_device() && found.rdev() == 0
}

/// Failed before: the kernel refused the mount, as a rename that leaves a whiteout was invalid.
#[test]
fn a_container_works_on_an_overlay_whose_upper_layer_is_on_the_drive() {
    let Some(overlay) = Overlay::new() else {
        return;
    };
    let at = |name| overlay.at(name);
    fs::write(at("new"), "new").unwrap();
    fs::write(at("file"), "changed").unwrap();
    fs::rename(at("moved"), at("there")).unwrap();
    fs::remove_file(at("directory/inside")).unwrap();
    fs::remove_dir(at("directory")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    fs::write(at("directory/other"), "other").unwrap();
    fs::remove_file(at("new")).unwrap();
    let look = || {
        assert_eq!(fs::read(at("file")).unwrap(), b"changed");
        assert_eq!(fs::read(at("there")).unwrap(), b"moved");
        assert!(!at("moved").exists() && !at("new").exists());
        assert!(is_whiteout(&overlay.upper("moved")));
        let names: Vec<_> = fs::read_dir(at("directory")).unwrap().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0].as_ref().unwrap().file_name(), "other");
    };
    look();
    overlay.unmount();
    overlay.mount();
    look();
    overlay.unmount();
}

/// Devices have no power on the drive, but this one is made, shown and found again, by its number.
#[test]
fn whiteouts_are_made_and_seen_on_the_drive() {
    let drive = Drive::new();
    rustix::fs::mknodat(
        CWD,
        drive.at("mark"),
        FileType::CharacterDevice,
        Mode::empty(),
        0,
    )
    .unwrap();
    assert!(is_whiteout(&drive.at("mark")));
    for folder in ["left", "right", "left/directory"] {
        fs::create_dir(drive.at(folder)).unwrap();
    }
    for file in ["left/file", "left/other", "right/other"] {
        fs::write(drive.at(file), file).unwrap();
    }
    for (from, to) in [
        ("left/file", "left/renamed"),
        ("left/other", "right/other"),
        ("left/directory", "right/directory"),
    ] {
        let (from, to) = (drive.at(from), drive.at(to));
        let was = fs::symlink_metadata(&from).unwrap().ino();
        rustix::fs::renameat_with(CWD, &from, CWD, &to, RenameFlags::WHITEOUT).unwrap();
        assert!(is_whiteout(&from), "{from:?}");
        assert_eq!(fs::symlink_metadata(&to).unwrap().ino(), was);
    }
    let links = |folder| fs::metadata(drive.at(folder)).unwrap().nlink();
    assert_eq!((links("left"), links("right")), (2, 3));
    let found = drive.filesystem.check().unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
}

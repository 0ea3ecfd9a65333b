//! `strongroom backup`: copies a vault folder while the vault is in use.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::mount::{MountFlags, UnmountFlags};
use support::{MountPoint, Place, copy_folder};

/// Makes, changes, syncs, moves and removes files until it is dropped.
struct Writer {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(folder: &Path) -> Self {
        let (folder, ends) = (folder.to_owned(), Arc::new(AtomicBool::new(false)));
        let (began, begins) = std::sync::mpsc::channel();
        let end = Arc::clone(&ends);
        let work = move || {
            for round in 0_usize.. {
                if end.load(Ordering::Acquire) {
                    return;
                }
                let directory = folder.join(format!("d{}", round % 7));
                fs::create_dir_all(&directory).unwrap();
                let path = directory.join(format!("{}", round % 50));
                let mut file = File::create(&path).unwrap();
                file.write_all(&noise(90_000, round as u64)).unwrap();
                file.sync_all().unwrap();
                fs::rename(&path, directory.join(format!("m{}", round % 50))).unwrap();
                if round % 5 == 0 {
                    let _ = fs::remove_dir_all(folder.join(format!("d{}", (round + 3) % 7)));
                }
                let _ = began.send(());
            }
        };
        let thread = Some(std::thread::spawn(work));
        begins.recv().unwrap();
        Self { ends, thread }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// Bytes that are not twice there.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn number(place: &Place, name: &str, arguments: &[&str]) -> u64 {
    let text = place.keyed(&[arguments, &["--json"]].concat());
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value[name].as_u64().unwrap()
}

/// A disk of a fixed size, unmounted at the end.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn at(path: std::path::PathBuf, options: &std::ffi::CStr) -> Self {
        fs::create_dir(&path).unwrap();
        rustix::mount::mount("none", &path, "tmpfs", MountFlags::empty(), options).unwrap();
        Self(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// Goal: what was there before the backup began is in it, and it is sound, whatever is written meanwhile. Failed before: the folder
/// could be copied by other tools only, and 1 of 7 copies of a busy vault was damaged.
#[test]
fn a_busy_vault_is_copied_to_a_sound_one_again_and_again_and_what_is_there_stays() {
    let place = Place::new();
    fs::create_dir(place.path("m")).unwrap();
    place.keyed(&["mount", "v", "m"]);
    let _mount = MountPoint::new(&place);
    // More than one segment, so that one has its end.
    let kept = noise(20 << 20, 3);
    fs::write(place.path("m/kept"), &kept).unwrap();
    let writer = Writer::start(&place.path("m"));
    let mut had = 0;
    for round in 0..4 {
        fs::write(place.path("m/round"), format!("{round}")).unwrap();
        had += number(&place, "segments_kept", &["backup", "v", "b"]);
        let read = place.keyed(&["cat", "b:/round"]);
        assert_eq!(read, format!("{round}"));
        assert_eq!(place.keyed_bytes(&["cat", "b:/kept"]), kept);
        place.keyed(&["verify", "--structure", "b"]);
    }
    drop(writer);
    place.done(&["umount", "m"]);
    // Not mounted, and nothing new: all that has an end is there already.
    place.keyed(&["compact", "v"]);
    place.keyed(&["backup", "v", "b"]);
    had += number(&place, "segments_kept", &["backup", "v", "b"]);
    assert!(had > 0);
    place.keyed(&["verify", "b", "--deep"]);
}

/// Runs a real program in the folder of `place`.
fn program(place: &Place, words: &[&str]) {
    let ran = Command::new(words[0])
        .args(&words[1..])
        .current_dir(place.path(""))
        .output();
    let ran = ran.unwrap_or_else(|error| panic!("{}: {error}; `make setup` has it", words[0]));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{words:?}: {said}");
}

/// Puts the folder `name` into the repository of restic, and what came of it into an empty folder; gives where.
fn through_restic(place: &Place, name: &str) -> String {
    let (folder, target) = (place.path(name), place.path("restored"));
    let _ = fs::remove_dir_all(&target);
    let (folder, target) = (folder.to_str().unwrap(), target.to_str().unwrap());
    program(place, &[&RESTIC[..], &["backup", folder]].concat());
    let restore = ["restore", "latest", "--path", folder, "--target", target];
    program(place, &[&RESTIC[..], &restore].concat());
    format!("{target}{folder}")
}

const RESTIC: [&str; 7] = [
    "restic",
    "-q",
    "--no-cache",
    "-r",
    "repository",
    "--password-file",
    "key",
];

/// Goal: the ways of docs/guide/backup.md for other tools end in a sound vault with what was there, while a writer is busy. The copy
/// of rsync is looked at between its two steps too, as if it had been interrupted there. Method: the real programs.
#[test]
fn rsync_and_restic_copy_the_folder_of_a_backup_of_a_busy_vault() {
    let place = Place::new();
    fs::create_dir(place.path("m")).unwrap();
    fs::create_dir_all(place.path("c/segments")).unwrap();
    program(&place, &[&RESTIC[..], &["init"]].concat());
    place.keyed(&["mount", "v", "m"]);
    let _mount = MountPoint::new(&place);
    let kept = noise(20 << 20, 5);
    fs::write(place.path("m/kept"), &kept).unwrap();
    let writer = Writer::start(&place.path("m"));
    let sound = |folder: &str, round: usize| {
        let said = place.keyed(&["cat", &format!("{folder}:/round")]);
        assert_eq!(said, round.to_string(), "{folder}");
        assert_eq!(
            place.keyed_bytes(&["cat", &format!("{folder}:/kept")]),
            kept
        );
        place.keyed(&["verify", "--deep", folder]);
    };
    for round in 0..3 {
        fs::write(place.path("m/round"), round.to_string()).unwrap();
        place.keyed(&["backup", "v", "b"]);
        program(&place, &["rsync", "-a", "b/segments/", "c/segments/"]);
        if let Some(before) = usize::checked_sub(round, 1) {
            sound("c", before);
        }
        let rsync = ["rsync", "-a", "--delay-updates", "--delete-after"];
        program(&place, &[&rsync[..], &["b/", "c/"]].concat());
        sound("c", round);
        sound(&through_restic(&place, "b"), round);
    }
    drop(writer);
    place.done(&["umount", "m"]);
    program(&place, &[&RESTIC[..], &["check", "--read-data"]].concat());
    // A vault that nobody uses is copied as it is, in any order.
    program(&place, &["rsync", "-a", "v/", "cold"]);
    sound("cold", 2);
    sound(&through_restic(&place, "v"), 2);
}

#[test]
fn a_backup_that_is_cut_off_leaves_the_earlier_one_and_the_next_goes_on() {
    let place = Place::new();
    let disk = SmallDisk::at(place.path("disk"), c"size=90m");
    fs::write(place.path("old"), vec![1; 1000]).unwrap();
    place.keyed(&["put", "old", "v:/old"]);
    place.keyed(&["backup", "v", "disk/b"]);
    let noise = noise(60 << 20, 7);
    fs::write(place.path("new"), &noise).unwrap();
    place.keyed(&["put", "new", "v:/new"]);
    fs::write(place.path("disk/filler"), vec![1; 50 << 20]).unwrap();
    place.keyed_fails(6, &["backup", "v", "disk/b"]);
    assert_eq!(place.keyed_bytes(&["cat", "disk/b:/old"]), vec![1; 1000]);
    place.keyed(&["verify", "disk/b"]);
    place.keyed_fails(3, &["stat", "disk/b:/new"]);
    fs::remove_file(place.path("disk/filler")).unwrap();
    let kept = number(&place, "segments_kept", &["backup", "v", "disk/b"]);
    assert!(
        kept > 0,
        "what was copied before the cut is not copied again"
    );
    assert_eq!(place.keyed_bytes(&["cat", "disk/b:/new"]), noise);
    drop(disk);
}

/// Failed before: once the old keys were gone from the vault, its backups were refused as ones in which keys were changed.
#[test]
fn a_backup_goes_on_after_a_change_of_keys_and_opens_with_the_new_ones() {
    let place = Place::new();
    for (name, command) in [
        ("first", &["key", "rotate", "v"][..]),
        ("second", &["key", "rotate", "v"]),
        ("third", &["key", "add", "v", "--new-key-file", "other"]),
        ("fourth", &["ls", "v"]),
    ] {
        fs::write(place.path(name), name).unwrap();
        place.keyed(&["put", name, &format!("v:/{name}")]);
        place.keyed(&["snapshot", "create", "v"]);
        place.keyed(&["backup", "v", "b"]);
        assert_eq!(place.keyed(&["cat", &format!("b:/{name}")]), name);
        place.keyed(&["verify", "--deep", "b"]);
        place.keyed(command);
    }
    // Keys that only the backup has are no older ones.
    copy_folder(&place.path("b"), &place.path("used"));
    fs::remove_file(place.path("used/backup")).unwrap();
    place.keyed(&["key", "rotate", "used"]);
    place.keyed(&["key", "rotate", "v"]);
    fs::write(place.path("used/backup"), "").unwrap();
    let refused = place.keyed_fails(9, &["backup", "v", "used"]);
    assert!(
        refused.contains("keys were changed in the backup"),
        "{refused}"
    );
}

#[test]
fn no_backup_goes_where_anything_would_be_lost() {
    let place = Place::new();
    let refused = |target: &str| place.keyed_fails(9, &["backup", "v", target]);
    assert!(refused("v").contains("the vault itself"));
    assert!(refused("v/b").contains("inside"));
    fs::remove_dir(place.path("v/b")).unwrap();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/mine"), "mine").unwrap();
    assert!(refused("full").contains("neither empty"));
    place.done(&["init", "w", "--key-file", "other"]);
    assert!(refused("w").contains("another vault"));
    place.keyed(&["backup", "v", "b"]);
    copy_folder(&place.path("v"), &place.path("earlier"));
    fs::write(place.path("file"), "file").unwrap();
    place.keyed(&["put", "file", "v:/file"]);
    place.keyed(&["backup", "v", "b"]);
    // A backup is only read, until somebody goes on in it.
    let only_read = place.keyed_fails(10, &["put", "file", "b:/mine"]);
    assert!(
        only_read.contains("remove the file `backup`"),
        "{only_read}"
    );
    // Failed before: keys were added to it, and it was repaired; what a backup of it was refused with said nothing of that.
    for change in [
        &["key", "add", "b", "--new-key-file", "other"][..],
        &["key", "rotate", "b"],
        &["repair", "b"],
        &["repair", "--yes", "b"],
        &["compact", "b"],
        &["backup", "b", "c"],
    ] {
        let refused = place.keyed_fails(10, change);
        assert!(refused.contains("remove the file `backup`"), "{refused}");
    }
    place.keyed(&["repair", "b", "--dry-run"]);
    copy_folder(&place.path("b"), &place.path("used"));
    fs::remove_file(place.path("used/backup")).unwrap();
    place.keyed(&["put", "file", "used:/mine"]);
    assert!(refused("used").contains("used as a vault"));
    fs::write(place.path("used/backup"), "").unwrap();
    assert!(refused("used").contains("have diverged"));
    // Somebody put an older state of the vault back.
    fs::rename(place.path("v"), place.path("newer")).unwrap();
    fs::rename(place.path("earlier"), place.path("v")).unwrap();
    let mut command = place.command(&["backup", "v", "b", "--key-file", "key"]);
    // By somebody who saw neither before.
    let output = command
        .env("XDG_STATE_HOME", place.path("nobody"))
        .output()
        .unwrap();
    let older = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(9), "{older}");
    assert!(older.contains("newer than the vault"), "{older}");
    assert_eq!(place.keyed(&["cat", "b:/file"]), "file");
}

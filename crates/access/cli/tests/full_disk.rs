//! Commands on a disk that is full, or was full before. Needs root, to make a disk of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use support::Place;
use support::serving::Serving;

/// A small file system in memory, on a folder of a place; gone with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// On the folder `d`.
    fn new(place: &Place, size: &std::ffi::CStr) -> Self {
        Self::on(place, "d", size)
    }

    fn on(place: &Place, folder: &str, size: &std::ffi::CStr) -> Self {
        let at = place.path(folder);
        fs::create_dir(&at).unwrap();
        mount("tmpfs", &at, "tmpfs", MountFlags::empty(), Some(size)).unwrap();
        Self(at)
    }

    /// Fills it with a file beside the vault.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("other")).unwrap();
        while file.write_all(&[1; 65_536]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn write_random(path: &Path, seed: u64, bytes: usize) {
    let mut state = seed | 1;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    let content: Vec<u8> = std::iter::repeat_with(next).take(bytes).collect();
    fs::write(path, content).unwrap();
}

/// Failed before: "No space left on device", and nothing else.
#[test]
fn a_change_of_keys_on_a_full_disk_says_what_to_do() {
    let place = Place::empty();
    let disk = SmallDisk::new(&place, c"size=130m");
    place.done(&["init", "d/v", "--key-file", "key"]);
    fs::write(place.path("words"), "words to remember").unwrap();
    let add = ["key", "add", "d/v", "--new-passphrase-file", "words"];
    place.keyed(&add);
    let listed = place.done(&["key", "list", "d/v"]);
    let line = listed.lines().find(|line| line.contains("passphrase"));
    let key = line.unwrap().split_whitespace().next().unwrap();
    disk.fill();
    let remove = ["key", "remove", "d/v", key];
    for change in [&remove[..], &add[..]] {
        let words = place.keyed_fails(6, change);
        assert!(words.contains("remove something"), "{words}");
    }
    fs::remove_file(place.path("d/other")).unwrap();
    place.keyed(&remove);
}

/// Goal: each command is a process of its own, which knows nothing of what the one before it removed.
/// Failed before: `put` right after `rm` was refused.
#[test]
fn what_rm_removed_makes_room_for_the_next_put() {
    let place = Place::empty();
    let _disk = SmallDisk::new(&place, c"size=240m");
    place.done(&["init", "d/v", "--key-file", "key"]);
    // The snapshot of this hour is taken now; it would keep the first of the files.
    place.keyed(&["mkdir", "d/v:/first"]);
    for round in 0..4 {
        write_random(&place.path("file"), round, 70_000_000);
        place.keyed(&["put", "file", "d/v:/"]);
        let found = place.keyed_bytes(&["cat", "d/v:/file"]);
        assert!(found == fs::read(place.path("file")).unwrap(), "{round}");
        place.keyed(&["rm", "d/v:/file"]);
    }
}

/// Goal: a push to a full remote ends with a code and words of its own, publishes nothing and leaves nothing half there; when there is room, the
/// next one goes through.
#[test]
fn a_push_to_a_full_remote_says_so_and_the_next_one_goes_through() {
    let place = Place::new();
    let _disk = SmallDisk::new(&place, c"size=60m");
    let stick = place.path("d/stick");
    fs::create_dir(&stick).unwrap();
    let url = format!("folder:{}", stick.display());
    place.keyed(&["remote", "add", "v", "stick", &url]);
    write_random(&place.path("file"), 3, 30_000_000);
    place.keyed(&["put", "file", "v:/"]);
    // It leaves room for a part of that.
    fs::write(place.path("d/other"), vec![1; 45 << 20]).unwrap();
    let said = place.keyed_fails(6, &["push", "v"]);
    assert!(said.contains("the remote is full"), "{said}");
    assert!(!stick.join("publications").exists());
    for object in fs::read_dir(stick.join("segments")).unwrap() {
        let name = object.unwrap().file_name().into_string().unwrap();
        assert!(!name.starts_with('.'), "{name} is left");
    }
    fs::remove_file(place.path("d/other")).unwrap();
    place.keyed(&["push", "v"]);
    place.keyed(&["clone", "-q", &url, "w"]);
    let cloned = place.keyed_bytes(&["cat", "w:/file"]);
    assert!(cloned == fs::read(place.path("file")).unwrap());
}

/// Goal: the same of a server whose disk is full; it serves what it has meanwhile.
#[test]
fn a_push_to_a_server_on_a_full_disk_says_so_and_the_next_one_goes_through() {
    let place = Place::new();
    let _disk = SmallDisk::on(&place, "srv", c"size=60m");
    let mut serving = Serving::start(&place, "127.0.0.1:0");
    let url = serving.url("photos");
    fs::write(place.path("letter"), "dear reader").unwrap();
    place.keyed(&["put", "letter", "v:/"]);
    place.keyed(&["remote", "add", "v", "home", &url]);
    place.keyed(&["push", "v"]);
    write_random(&place.path("file"), 5, 30_000_000);
    place.keyed(&["put", "file", "v:/"]);
    // It leaves room for a part of that.
    fs::write(place.path("srv/other"), vec![1; 45 << 20]).unwrap();
    let said = place.keyed_fails(6, &["push", "v"]);
    assert!(said.contains("the remote is full"), "{said}");
    place.keyed(&["clone", "-q", &url, "early"]);
    assert_eq!(place.keyed(&["ls", "early:/"]), "letter\n");
    let moving = fs::read_dir(place.path("srv/moving")).unwrap();
    assert_eq!(moving.count(), 0);
    fs::remove_file(place.path("srv/other")).unwrap();
    // It hears of the clone before it pushes.
    place.keyed(&["sync", "v"]);
    place.keyed(&["clone", "-q", &url, "w"]);
    let cloned = place.keyed_bytes(&["cat", "w:/file"]);
    assert!(cloned == fs::read(place.path("file")).unwrap());
}

/// Goal: a pull onto a full disk ends with a code of its own and changes nothing; when there is room, the next one goes through.
#[test]
fn a_pull_onto_a_full_disk_changes_nothing_and_the_next_one_goes_through() {
    let place = Place::new();
    let disk = SmallDisk::new(&place, c"size=240m");
    fs::create_dir(place.path("stick")).unwrap();
    let url = format!("folder:{}", place.path("stick").display());
    fs::write(place.path("letter"), "dear reader").unwrap();
    place.keyed(&["put", "letter", "v:/"]);
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["push", "v"]);
    place.keyed(&["clone", "-q", &url, "d/w"]);
    write_random(&place.path("file"), 4, 30_000_000);
    place.keyed(&["put", "file", "v:/"]);
    // It hears of the clone before it pushes.
    place.keyed(&["sync", "v"]);
    disk.fill();
    let said = place.keyed_fails(6, &["pull", "d/w"]);
    assert!(said.contains("space"), "{said}");
    fs::remove_file(place.path("d/other")).unwrap();
    assert_eq!(place.keyed(&["ls", "d/w:/"]), "letter\n");
    assert_eq!(place.keyed(&["cat", "d/w:/letter"]), "dear reader");
    place.keyed(&["pull", "d/w"]);
    let pulled = place.keyed_bytes(&["cat", "d/w:/file"]);
    assert!(pulled == fs::read(place.path("file")).unwrap());
    place.keyed(&["verify", "d/w"]);
}

/// A file system on a file that promises more room than there is: what does not fit is noticed only when it goes to the disk.
struct Promising(PathBuf);

impl Promising {
    /// On the folder `disk` of a place; `None` where this machine has no loop devices.
    fn new(place: &Place, below: &Path) -> Option<Self> {
        if !Path::new("/dev/loop-control").exists() {
            eprintln!("left out: no loop devices here");
            return None;
        }
        let (image, at) = (below.join("image"), place.path("disk"));
        fs::create_dir(&at).unwrap();
        fs::File::create(&image)
            .unwrap()
            .set_len(128 << 20)
            .unwrap();
        let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
            let ended = std::process::Command::new(program).args(arguments).status();
            assert!(ended.unwrap().success(), "{program}");
        };
        // Nothing is written behind the beginning before it is used.
        let options = "lazy_itable_init=1,lazy_journal_init=1,nodiscard";
        let features = ["-q", "-F", "-O", "^has_journal", "-E", options].map(std::ffi::OsStr::new);
        run("mkfs.ext4", &[&features[..], &[image.as_os_str()]].concat());
        let loops = ["-o", "loop"].map(std::ffi::OsStr::new);
        run(
            "mount",
            &[&loops[..], &[image.as_os_str(), at.as_os_str()]].concat(),
        );
        Some(Self(at))
    }
}

impl Drop for Promising {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// Goal: a copy out of a vault that did not reach the disk is no success. Method: a disk that takes each write and fails later. Failed before:
/// nobody asked the disk, and the command ended with 0.
#[test]
fn a_get_that_does_not_reach_the_disk_fails() {
    let place = Place::new();
    let small = SmallDisk::on(&place, "d", c"size=24m");
    let Some(_disk) = Promising::new(&place, &small.0) else {
        return;
    };
    write_random(&place.path("file"), 9, 1_000_000);
    place.keyed(&["put", "file", "v:/"]);
    place.keyed(&["get", "v:/file", "disk/small"]);
    write_random(&place.path("file"), 10, 40_000_000);
    place.keyed(&["put", "file", "v:/"]);
    let output = place.run_keyed(&["get", "v:/file", "disk/large"]);
    assert!(!output.status.success());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("disk/large"), "{words}");
}

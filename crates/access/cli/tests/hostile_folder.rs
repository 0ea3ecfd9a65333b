//! An attacker who can write to a vault folder puts links, pipes, sockets, devices and folders in the places of files.
//! Nothing outside of the folder is read or written because of that, no command waits, and the strange entry is named.
//!
//! Before folders were opened through `strongroom-folder`, all tests here but one failed. Commands followed
//! links that had replaced a folder, a rewritten file, `reserve` or `lock`. They wrote to hard links and waited on
//! pipes. A strange file among the segments stopped the vault.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use support::Place;

/// Only ends a command that would wait for ever: no test is judged by it.
const SAFETY_NET: Duration = Duration::from_secs(120);

/// What can be in the place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strange {
    Link,
    DanglingLink,
    HardLink,
    Pipe,
    Socket,
    Device,
    Folder,
}

const ALL: [Strange; 7] = [
    Strange::Link,
    Strange::DanglingLink,
    Strange::HardLink,
    Strange::Pipe,
    Strange::Socket,
    Strange::Device,
    Strange::Folder,
];

impl Strange {
    /// How it is told.
    fn words(self) -> &'static str {
        match self {
            Self::Link | Self::DanglingLink => "a symbolic link",
            Self::HardLink => "a file with several names (hard links)",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Folder => "a folder, not a file",
        }
    }

    /// Puts one at `path`; whether this machine lets it be made.
    fn put(self, outside: &Outside, path: &Path) -> bool {
        let mode = Mode::from_raw_mode(0o600);
        match self {
            Self::Link => symlink(outside.file(), path).unwrap(),
            Self::DanglingLink => symlink(outside.folder.join("none"), path).unwrap(),
            Self::HardLink => fs::hard_link(outside.file(), path).unwrap(),
            Self::Pipe => mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap(),
            Self::Socket => drop(UnixListener::bind(path).unwrap()),
            Self::Folder => fs::create_dir(path).unwrap(),
            // Only the superuser may make one.
            Self::Device => {
                let null = rustix::fs::makedev(1, 3);
                return mknodat(CWD, path, FileType::CharacterDevice, mode, null).is_ok();
            }
        }
        true
    }
}

/// What lies outside of the vault folder, and must stay as it is.
struct Outside {
    folder: PathBuf,
}

/// Names, contents and times of everything outside.
type Canaries = Vec<(PathBuf, Vec<u8>, i64, i64)>;

impl Outside {
    fn new(place: &Place) -> Self {
        let folder = place.path("outside");
        fs::create_dir(&folder).unwrap();
        fs::create_dir(folder.join("ab")).unwrap();
        // What another vault folder has, to be moved away or cut.
        for name in [
            "thesis",
            "metadata.db",
            "metadata.db-wal",
            "reserve",
            "ab/file",
        ] {
            fs::write(folder.join(name), format!("canary {name}")).unwrap();
        }
        Self { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("thesis")
    }

    fn canaries(&self) -> Canaries {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                if metadata.is_dir() {
                    folders.push(path.clone());
                }
                let bytes = match metadata.is_file() {
                    true => fs::read(&path).unwrap(),
                    false => Vec::new(),
                };
                found.push((path, bytes, metadata.mtime(), metadata.mtime_nsec()));
            }
        }
        found.sort();
        found
    }
}

/// What a command ended with, and what it said.
struct Ended {
    code: Option<i32>,
    said: String,
}

/// Runs a command with the key file.
fn run(place: &Place, arguments: &[&str]) -> Ended {
    let arguments = [arguments, &["--key-file", "key"]].concat();
    let mut command = place.command(&arguments);
    let (out, errors) = (place.path("out"), place.path("errors"));
    command.stdout(Stdio::from(fs::File::create(&out).unwrap()));
    command.stderr(Stdio::from(fs::File::create(&errors).unwrap()));
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + SAFETY_NET;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{arguments:?} waits for ever");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    Ended {
        code: status.code(),
        said: format!("{}{}", text(&out), text(&errors)),
    }
}

/// Puts something strange at `path` while `tried` runs; what is there waits at `aside`. Nothing outside may change, and the
/// strange thing stays as it is.
fn with_strange(
    outside: &Outside,
    path: &Path,
    aside: &Path,
    strange: Strange,
    tried: impl FnOnce(),
) {
    let was_there = path.symlink_metadata().is_ok();
    if was_there {
        fs::rename(path, aside).unwrap();
    }
    if strange.put(outside, path) {
        let (before, kind) = (outside.canaries(), path.symlink_metadata().unwrap());
        tried();
        assert_eq!(outside.canaries(), before, "{strange:?} {}", path.display());
        let after = path.symlink_metadata().unwrap();
        assert_eq!(
            (kind.ino(), kind.mode()),
            (after.ino(), after.mode()),
            "{strange:?}"
        );
        match strange {
            Strange::Folder => fs::remove_dir(path).unwrap(),
            _ => fs::remove_file(path).unwrap(),
        }
    }
    if was_there {
        fs::rename(aside, path).unwrap();
    }
}

/// A vault with a file of its own segment, and what lies outside.
fn scene() -> (Place, Outside) {
    let place = Place::new();
    let bytes: Vec<u8> = (0..400_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(place.path("big"), bytes).unwrap();
    place.keyed(&["put", "big", "v:/big"]);
    place.keyed(&["snapshot", "create", "v", "--tag", "one"]);
    let outside = Outside::new(&place);
    (place, outside)
}

fn segment(place: &Place) -> PathBuf {
    let folders = fs::read_dir(place.path("v/segments")).unwrap();
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    let files = files.map(|file| file.unwrap().path());
    files
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap()
}

fn below(place: &Place, path: &Path) -> String {
    let path = path.strip_prefix(place.path("v")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// SECURITY.md, claim 8.
#[test]
fn a_strange_thing_in_the_place_of_a_file_is_named_and_nothing_outside_is_touched() {
    let (place, outside) = scene();
    let aside = place.path("aside");
    for name in [
        "vault.json",
        "replica.json",
        "lock",
        "reserve",
        "metadata.db",
        "metadata.db-wal",
        "metadata.db-shm",
        "metadata.db-journal",
        "intents",
    ] {
        let path = place.path("v").join(name);
        for strange in ALL {
            with_strange(&outside, &path, &aside, strange, || {
                for arguments in [
                    &["ls", "v:/"][..],
                    &["put", "big", "v:/other"],
                    &["verify", "v"],
                    &["repair", "v"],
                    &["repair", "--yes", "v"],
                ] {
                    let ended = run(&place, arguments);
                    let context = format!("{name} {strange:?} {arguments:?}: {}", ended.said);
                    assert_eq!(ended.code, Some(5), "{context}");
                    let told = format!("{name} is {}", strange.words());
                    assert!(ended.said.contains(&told), "{context}");
                    let said = ended.said.to_lowercase();
                    assert!(
                        said.contains("move it out of the vault folder"),
                        "{context}"
                    );
                }
            });
        }
    }
    assert_eq!(run(&place, &["verify", "v"]).code, Some(0));
}

#[test]
fn what_reads_only_the_header_does_not_wait_for_a_pipe_or_follow_a_link() {
    let (place, outside) = scene();
    let (path, aside) = (place.path("v/vault.json"), place.path("aside"));
    for strange in ALL {
        with_strange(&outside, &path, &aside, strange, || {
            for arguments in [&["info", "v"][..], &["key", "list", "v"]] {
                let output = place.run(arguments);
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(
                    output.status.code(),
                    Some(5),
                    "{strange:?} {arguments:?}: {said}"
                );
                assert!(said.contains(strange.words()), "{said}");
            }
        });
    }
}

#[test]
fn a_link_in_the_place_of_a_folder_is_named_and_nothing_outside_is_touched() {
    let (place, outside) = scene();
    let aside = place.path("aside");
    for name in [
        "segments",
        "revisions",
        "unexplained",
        "recovering",
        "recovered-1",
    ] {
        let path = place.path("v").join(name);
        for (target, words) in [
            (Some(outside.folder.clone()), "a symbolic link"),
            (Some(outside.folder.join("none")), "a symbolic link"),
            (None, "a pipe"),
        ] {
            let was_there = path.exists();
            if was_there {
                fs::rename(&path, &aside).unwrap();
            }
            match target {
                Some(target) => symlink(target, &path).unwrap(),
                None => assert!(Strange::Pipe.put(&outside, &path)),
            }
            let before = outside.canaries();
            for arguments in [
                &["ls", "v:/"][..],
                &["snapshot", "create", "v"],
                &["repair", "v"],
                &["repair", "--yes", "v"],
                &["repair", "--rebuild", "v"],
            ] {
                let ended = run(&place, arguments);
                let context = format!("{name} {arguments:?}: {}", ended.said);
                assert_eq!(ended.code, Some(5), "{context}");
                assert!(
                    ended.said.contains(&format!("{name} is {words}")),
                    "{context}"
                );
                assert_eq!(outside.canaries(), before, "{context}");
            }
            fs::remove_file(&path).unwrap();
            if was_there {
                fs::rename(&aside, &path).unwrap();
            }
        }
    }
    assert_eq!(run(&place, &["verify", "v"]).code, Some(0));
}

/// What a replacement was written to had a fixed name: whoever put a link there had the header's bytes written anywhere.
#[test]
fn names_that_files_were_written_to_before_lead_nowhere() {
    let (place, outside) = scene();
    let before = outside.canaries();
    for name in [
        "vault.json",
        "vault.json.saved",
        "replica.json",
        "replica.json.saved",
    ] {
        symlink(outside.file(), place.path("v").join(format!("{name}.new"))).unwrap();
    }
    symlink(outside.file(), place.path("v/segments/.probe")).unwrap();
    fs::remove_file(place.path("v/vault.json.saved")).unwrap();
    fs::remove_file(place.path("v/replica.json.saved")).unwrap();
    place.keyed(&["ls", "v:/"]);
    assert!(place.path("v/vault.json.saved").exists());
    place.keyed(&["key", "rotate", "v", "--wait"]);
    assert_eq!(outside.canaries(), before);
}

/// SECURITY.md, claim 8.
#[test]
fn a_strange_second_copy_is_named_by_a_verification_and_stops_nothing() {
    let (place, outside) = scene();
    let aside = place.path("aside");
    for name in ["vault.json.saved", "replica.json.saved"] {
        let path = place.path("v").join(name);
        for strange in ALL {
            with_strange(&outside, &path, &aside, strange, || {
                place.keyed(&["ls", "v:/"]);
                let ended = run(&place, &["verify", "v"]);
                assert_eq!(ended.code, Some(14), "{strange:?}: {}", ended.said);
                assert!(ended.said.contains(name), "{}", ended.said);
                assert!(ended.said.contains(strange.words()), "{}", ended.said);
            });
        }
    }
}

/// SECURITY.md, claim 8.
#[test]
fn a_strange_file_among_the_segments_costs_only_what_lay_in_it() {
    let (place, outside) = scene();
    fs::write(place.path("small"), "small").unwrap();
    let (path, aside) = (segment(&place), place.path("aside"));
    let name = below(&place, &path);
    for strange in ALL {
        with_strange(&outside, &path, &aside, strange, || {
            place.keyed(&["ls", "v:/"]);
            place.keyed(&["put", "small", "v:/small"]);
            assert_eq!(place.keyed_bytes(&["cat", "v:/small"]), b"small");
            let ended = run(&place, &["cat", "v:/big"]);
            assert_eq!(ended.code, Some(5), "{strange:?}: {}", ended.said);
            let ended = run(&place, &["verify", "v"]);
            assert_eq!(ended.code, Some(14), "{strange:?}: {}", ended.said);
            assert!(ended.said.contains(&name), "{strange:?}: {}", ended.said);
            assert!(
                ended.said.contains(strange.words()),
                "{strange:?}: {}",
                ended.said
            );
        });
    }
    place.keyed(&["get", "v:/big", "back"]);
    assert_eq!(
        fs::read(place.path("back")).unwrap(),
        fs::read(place.path("big")).unwrap()
    );
}

#[test]
fn a_strange_folder_among_the_segments_costs_only_what_lay_in_it() {
    let (place, outside) = scene();
    fs::write(place.path("small"), "small").unwrap();
    let holder = segment(&place).parent().unwrap().to_owned();
    let aside = place.path("aside");
    let name = below(&place, &holder);
    fs::rename(&holder, &aside).unwrap();
    // Every name that is free, so that the next run would begin its segments behind one.
    for byte in 0..=255_u8 {
        let free = place.path("v/segments").join(format!("{byte:02x}"));
        if byte.is_multiple_of(2) && !free.exists() {
            symlink(&outside.folder, free).unwrap();
        }
    }
    if !holder.is_symlink() {
        symlink(&outside.folder, &holder).unwrap();
    }
    let before = outside.canaries();
    place.keyed(&["ls", "v:/"]);
    for _ in 0..4 {
        place.keyed(&["put", "small", "big", "v:/"]);
    }
    assert_eq!(place.keyed_bytes(&["cat", "v:/small"]), b"small");
    let ended = run(&place, &["verify", "v"]);
    assert_eq!(ended.code, Some(14), "{}", ended.said);
    let told = format!("{name}: it is a symbolic link");
    assert!(ended.said.contains(&told), "{}", ended.said);
    assert_eq!(outside.canaries(), before);
}

/// SECURITY.md, claim 8.
#[test]
fn a_strange_file_among_the_revisions_costs_only_itself() {
    let (place, outside) = scene();
    let record = fs::read_dir(place.path("v/revisions")).unwrap().next();
    let record = record.unwrap().unwrap().path();
    let aside = place.path("aside");
    let epoch = record.extension().unwrap().to_str().unwrap();
    let unknown = place.path(&format!("v/revisions/{}.{epoch}", "0".repeat(64)));
    for path in [&record, &unknown] {
        for strange in ALL {
            with_strange(&outside, path, &aside, strange, || {
                let listed = place.keyed(&["snapshot", "list", "v"]);
                assert!(listed.contains("one"), "{listed}");
                let ended = run(&place, &["verify", "v"]);
                assert_eq!(ended.code, Some(14), "{strange:?}: {}", ended.said);
                assert!(ended.said.contains(&below(&place, path)), "{}", ended.said);
            });
        }
    }
    // A folder there neither stops a rotation, which removes older records, nor a removal.
    fs::create_dir(&unknown).unwrap();
    place.keyed(&["key", "rotate", "v", "--wait"]);
    place.keyed(&["snapshot", "remove", "v", "t:one"]);
}

/// The way to the vault folder is the user's own.
#[test]
fn a_link_that_leads_to_a_vault_is_followed() {
    let (place, _outside) = scene();
    symlink(place.path("v"), place.path("w")).unwrap();
    assert!(place.keyed(&["ls", "w:/"]).contains("big"));
    place.keyed(&["get", "w:/big", "back"]);
    assert_eq!(run(&place, &["verify", "w"]).code, Some(0));
}

/// The words say what to do next; done, it helps.
#[test]
fn a_vault_whose_database_was_replaced_by_a_link_is_recovered_once_the_link_is_moved_away() {
    let (place, outside) = scene();
    fs::rename(place.path("v/metadata.db"), place.path("lost")).unwrap();
    symlink(
        outside.folder.join("metadata.db"),
        place.path("v/metadata.db"),
    )
    .unwrap();
    let before = outside.canaries();
    assert_eq!(run(&place, &["repair", "--yes", "v"]).code, Some(5));
    fs::rename(place.path("v/metadata.db"), place.path("strange")).unwrap();
    // What was newer than the newest snapshot is lost, if anything was.
    assert_eq!(run(&place, &["repair", "--yes", "v"]).code, Some(14));
    place.keyed(&["get", "v:/big", "back"]);
    assert_eq!(
        fs::read(place.path("back")).unwrap(),
        fs::read(place.path("big")).unwrap()
    );
    assert_eq!(outside.canaries(), before);
}

#[test]
fn leftovers_of_a_crash_go_at_the_next_opening_and_links_of_such_names_are_left_alone() {
    let (place, outside) = scene();
    let before = outside.canaries();
    let left =
        |folder: &str, digit: &str| place.path(&format!("v/{folder}.new-{}", digit.repeat(32)));
    for folder in ["", "segments/", "revisions/"] {
        fs::write(left(folder, "1"), "half").unwrap();
        symlink(outside.file(), left(folder, "2")).unwrap();
    }
    place.keyed(&["ls", "v:/"]);
    for folder in ["", "segments/", "revisions/"] {
        assert!(!left(folder, "1").exists(), "{folder}");
        assert!(left(folder, "2").is_symlink(), "{folder}");
    }
    assert_eq!(outside.canaries(), before);
}

//! Calls like those of `std::fs`: paths of every kind, whole trees, text.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use strongroom::filesystem::{Durability, Error as FileError, NodeKind};
use strongroom::{Change, Error, Links, Observer, OpenOptions, Vault};

use support::{Place, content};

/// The owner and a client of it: each call must do the same for both.
fn both(place: &Place, owner: &Vault) -> [Vault; 2] {
    let client = Vault::connect_if_owned(place.folder(), OpenOptions::default());
    [owner.clone(), client.unwrap().expect("it is owned")]
}

#[test]
fn a_path_is_text_bytes_or_a_path_of_the_standard_library() {
    let (place, owner) = Place::new();
    for vault in both(&place, &owner) {
        vault.write("/text", "1").unwrap();
        assert_eq!(vault.read(String::from("/text")).unwrap(), b"1");
        assert_eq!(vault.read(b"/text").unwrap(), b"1");
        assert_eq!(vault.read(&b"/text"[..]).unwrap(), b"1");
        assert_eq!(vault.read(b"/text".to_vec()).unwrap(), b"1");
        assert_eq!(vault.read(Path::new("/text")).unwrap(), b"1");
        assert_eq!(vault.read(PathBuf::from("/text")).unwrap(), b"1");
        let path = PathBuf::from("/text");
        assert_eq!(vault.read(&path).unwrap(), vault.read(path).unwrap());
        assert_eq!(vault.read(OsStr::new("/text")).unwrap(), b"1");
        assert_eq!(vault.read(OsString::from("/text")).unwrap(), b"1");
        // No UTF-8: as on Unix.
        let raw = Path::new(OsStr::from_bytes(b"/\xff\xfe name"));
        vault.write(raw, "raw").unwrap();
        let names: Vec<_> = vault
            .list("/")
            .unwrap()
            .map(|one| one.unwrap().name)
            .collect();
        assert!(names.contains(&b"\xff\xfe name".to_vec()));
        vault.make_symlink(raw, Path::new("/link")).unwrap();
        assert_eq!(vault.read("/link").unwrap(), b"raw");
        vault.remove_file("/link").unwrap();
        vault.remove_file(raw).unwrap();
    }
}

#[test]
fn text_is_read_as_text_and_other_bytes_are_refused_by_name() {
    let (_place, vault) = Place::new();
    vault.write("/text", "häuser").unwrap();
    vault.write("/bytes", [0xff, 0xfe]).unwrap();
    assert_eq!(vault.read_to_string("/text").unwrap(), "häuser");
    assert!(matches!(
        vault.read_to_string("/bytes"),
        Err(Error::NotText)
    ));
}

#[test]
fn what_is_there_exists_and_a_dangling_symlink_does_not() {
    let (_place, vault) = Place::new();
    vault.write("/file", "").unwrap();
    vault.make_symlink("file", "/link").unwrap();
    vault.make_symlink("nothing", "/dangling").unwrap();
    assert!(vault.exists("/file").unwrap() && vault.exists("/link").unwrap());
    assert!(vault.exists("/").unwrap());
    assert!(!vault.exists("/dangling").unwrap() && !vault.exists("/none/deep").unwrap());
    let below_a_file = std::io::Error::from(vault.exists("/file/x").unwrap_err());
    assert_eq!(below_a_file.kind(), ErrorKind::NotADirectory);
}

#[test]
fn directories_are_made_with_all_that_lead_to_them_once() {
    let (place, owner) = Place::new();
    for (number, vault) in both(&place, &owner).into_iter().enumerate() {
        let top = format!("/{number}");
        let mode = |path: &str| vault.attributes(path, Links::Follow).unwrap().mode;
        vault
            .create_dir_all(Path::new(&top).join("a/b//c/"), 0o750)
            .unwrap();
        vault.create_dir_all(format!("{top}/a/b/c"), 0o700).unwrap();
        assert_eq!((mode(&top), mode(&format!("{top}/a/b/c"))), (0o750, 0o750));
        vault.create_dir_all("/", 0o700).unwrap();
        vault
            .create_dir_all(format!("{top}/a/./x/../y"), 0o755)
            .unwrap();
        assert!(vault.exists(format!("{top}/a/y")).unwrap());
        // Through a symlink to a directory; a file is in the way.
        vault.make_symlink("a/b", format!("{top}/link")).unwrap();
        vault
            .create_dir_all(format!("{top}/link/new/er"), 0o755)
            .unwrap();
        assert!(vault.exists(format!("{top}/a/b/new/er")).unwrap());
        vault.write(format!("{top}/file"), "").unwrap();
        for path in [format!("{top}/file"), format!("{top}/file/x/y")] {
            let error = std::io::Error::from(vault.create_dir_all(&path, 0o755).unwrap_err());
            let kinds = [ErrorKind::AlreadyExists, ErrorKind::NotADirectory];
            assert!(kinds.contains(&error.kind()), "{path}: {error}");
        }
        let relative = vault.create_dir_all("a/b", 0o755);
        let refused = matches!(relative, Err(Error::File(FileError::InvalidArgument(_))));
        assert!(refused, "{relative:?}");
    }
}

/// Longer than one request removes, deeper than one, with symlinks that lead out.
#[test]
fn a_tree_goes_whole_and_what_its_symlinks_point_to_stays() {
    let (place, owner) = Place::new();
    for vault in both(&place, &owner) {
        vault.create_dir_all("/keep/inner", 0o755).unwrap();
        vault.write("/keep/inner/file", "kept").unwrap();
        vault
            .create_dir_all(format!("/tree{}", "/d".repeat(40)), 0o755)
            .unwrap();
        for number in 0..1500 {
            vault
                .make_node(format!("/tree/{number}"), NodeKind::File, 0o644, 0)
                .unwrap();
        }
        vault.make_symlink("/keep", "/tree/d/out").unwrap();
        vault.make_symlink("/keep", "/link").unwrap();
        vault.link("/keep/inner/file", "/tree/d/d/second").unwrap();
        for path in ["/link", "/keep/inner/file"] {
            let refused = vault.remove_dir_all(path);
            assert!(
                matches!(refused, Err(Error::File(FileError::NotADirectory))),
                "{refused:?}"
            );
        }
        vault.remove_dir_all("/tree").unwrap();
        assert!(!vault.exists("/tree").unwrap());
        assert_eq!(vault.read("/keep/inner/file").unwrap(), b"kept");
        assert_eq!(
            vault
                .attributes("/keep/inner/file", Links::Stay)
                .unwrap()
                .nlink,
            1
        );
        let missing = vault.remove_dir_all("/tree");
        assert!(
            matches!(missing, Err(Error::File(FileError::NotFound))),
            "{missing:?}"
        );
        assert!(matches!(
            vault.remove_dir_all("/"),
            Err(Error::File(FileError::InvalidArgument(_)))
        ));
        vault.remove_file("/link").unwrap();
        vault.remove_dir_all("/keep").unwrap();
        assert!(vault.check().unwrap().problems.is_empty());
    }
}

#[test]
fn a_walk_is_sorted_gives_symlinks_and_does_not_follow_them() {
    let (place, owner) = Place::new();
    owner.create_dir_all("/top/b/inner", 0o755).unwrap();
    owner.create_dir_all("/other/x", 0o755).unwrap();
    owner.write("/top/b/inner/file", "1").unwrap();
    owner.write("/top/a", "2").unwrap();
    owner.write("/top/b-not-below-b", "3").unwrap();
    owner.make_symlink("/other", "/top/c").unwrap();
    owner.make_symlink(".", "/top/b/self").unwrap();
    owner.make_symlink("top", "/way").unwrap();
    for vault in both(&place, &owner) {
        let met: Vec<(String, usize, NodeKind)> = vault
            .walk(Path::new("/way"))
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let path = String::from_utf8(entry.path).unwrap();
                (path, entry.depth, entry.attributes.kind)
            })
            .collect();
        let expected = [
            ("/way/a", 1, NodeKind::File),
            ("/way/b", 1, NodeKind::Directory),
            ("/way/b/inner", 2, NodeKind::Directory),
            ("/way/b/inner/file", 3, NodeKind::File),
            ("/way/b/self", 2, NodeKind::Symlink),
            ("/way/b-not-below-b", 1, NodeKind::File),
            ("/way/c", 1, NodeKind::Symlink),
        ];
        assert_eq!(
            met,
            expected.map(|(path, depth, kind)| (path.to_owned(), depth, kind))
        );
        assert!(matches!(
            vault.walk("/top/a"),
            Err(Error::File(FileError::NotADirectory))
        ));
        assert!(matches!(
            vault.walk("/none"),
            Err(Error::File(FileError::NotFound))
        ));
    }
}

/// What was a directory when it was met is a symlink to another tree when its turn comes.
#[test]
fn a_walk_does_not_go_where_a_directory_was_replaced() {
    let (_place, vault) = Place::new();
    vault.create_dir_all("/top/a", 0o755).unwrap();
    vault.write("/top/a/own", "").unwrap();
    vault.create_dir_all("/other", 0o755).unwrap();
    vault.write("/other/foreign", "").unwrap();
    let mut walk = vault.walk("/top").unwrap();
    assert_eq!(walk.next().unwrap().unwrap().path, b"/top/a");
    vault.remove_dir_all("/top/a").unwrap();
    vault.make_symlink("/other", "/top/a").unwrap();
    assert!(walk.next().is_none());
}

#[derive(Default)]
struct Record(Mutex<Vec<Change>>);

impl Observer for Record {
    fn changed(&self, change: &Change) {
        self.0.lock().unwrap().push(change.clone());
    }
}

/// Goal: a mount shows nothing that is gone, and counts the links that are left. Failed before: nobody heard that a removed file had
/// lost a link, and its other names kept the old count in a mount for ever.
#[test]
fn observers_hear_of_all_that_a_removed_tree_and_a_replaced_file_change() {
    let (place, owner) = Place::new();
    owner.create_dir_all("/tree/inner", 0o755).unwrap();
    owner.write("/tree/inner/file", "").unwrap();
    owner.write("/file", "old").unwrap();
    let number = |path: &str| owner.attributes(path, Links::Stay).unwrap().inode;
    let expected = [("/", "tree"), ("/tree", "inner"), ("/tree/inner", "file")];
    let expected = expected.map(|(parent, name)| Change::Entry {
        parent: number(parent),
        name: name.into(),
    });
    owner.link("/tree/inner/file", "/other name").unwrap();
    let linked = Change::Attributes {
        inode: number("/other name"),
    };
    let record = Arc::new(Record::default());
    let _subscription = owner.subscribe(Arc::clone(&record) as Arc<dyn Observer>);
    let [_, client] = both(&place, &owner);
    client.remove_dir_all("/tree").unwrap();
    for change in expected.into_iter().chain([linked]) {
        assert!(record.0.lock().unwrap().contains(&change), "{change:?}");
    }
    let new = content(3 << 20, 1);
    client
        .replace("/file", &new, Durability::WriteBehind)
        .unwrap();
    let inode = number("/file");
    for len in [u64::MAX, new.len() as u64] {
        let change = Change::Content {
            inode,
            offset: 0,
            len,
        };
        assert!(record.0.lock().unwrap().contains(&change), "{change:?}");
    }
}

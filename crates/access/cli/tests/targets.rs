//! Copies and moves onto targets that exist: targets that the user named, that two sources share, that are of another kind, or
//! that look unchanged.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};
use support::Place;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// Failed before: with --delete the link was removed, and a new directory got the files; without it: "File exists".
#[test]
fn a_target_that_is_named_by_a_link_to_a_directory_is_that_directory() {
    let place = Place::new();
    fs::write(place.path("a"), "a").unwrap();
    place.keyed(&["put", "a", "v:/"]);
    fs::create_dir(place.path("disk")).unwrap();
    fs::write(place.path("disk/old"), "").unwrap();
    symlink("disk", place.path("backup")).unwrap();
    place.keyed(&["get", "v:/", "backup"]);
    assert_eq!(fs::read(place.path("disk/a")).unwrap(), b"a");
    assert!(place.path("disk/old").exists());
    place.keyed(&["get", "--delete", "v:/", "backup"]);
    assert!(place.path("backup").is_symlink());
    assert!(place.path("disk/a").exists() && !place.path("disk/old").exists());
}

/// Goal: no `get` destroys the vault that it reads. Method: the vault lies in the target: the source has a directory of its name, then none;
/// and the target is in the vault. Failed before: files of the vault were replaced, and --delete removed the vault.
#[test]
fn a_get_neither_deletes_the_vault_that_it_reads_nor_writes_into_it() {
    let place = Place::empty();
    fs::create_dir(place.path("h")).unwrap();
    place.done(&["init", "h/v", "--key-file", "key"]);
    fs::create_dir_all(place.path("t/v")).unwrap();
    fs::write(place.path("t/v/metadata.db"), "an old copy").unwrap();
    fs::write(place.path("t/a"), "a").unwrap();
    place.keyed(&["put", "t", "h/v:/h"]);
    let is_there = || {
        assert_eq!(place.keyed(&["cat", "h/v:/h/a"]), "a");
        place.keyed(&["verify", "--structure", "h/v"]);
    };
    let mirror = ["get", "--delete", "h/v:/h", "."];
    let message = place.keyed_fails(2, &mirror);
    assert!(message.contains("of the vault itself"), "{message}");
    is_there();
    place.keyed(&["rm", "-r", "h/v:/h/v"]);
    fs::write(place.path("h/other"), "").unwrap();
    place.keyed(&mirror);
    assert!(place.path("h/a").exists() && !place.path("h/other").exists());
    is_there();
    for (source, target) in [
        ("h/v:/h/a", "h/v"),
        ("h/v:/h/a", "h/v/new"),
        ("h/v:/", "h/v"),
        ("h/v:/h", "h/v/segments"),
    ] {
        let message = place.keyed_fails(2, &["get", "--delete", source, target]);
        assert!(message.contains("of the vault itself"), "{message}");
        is_there();
    }
    assert!(!place.path("h/v/new").exists() && !place.path("h/v/a").exists());
}

/// Failed before: `get` replaced each of them; run by root, also `/dev/null`.
#[test]
fn a_named_target_that_is_a_device_a_pipe_or_a_link_to_one_stays() {
    let place = Place::new();
    fs::create_dir(place.path("t")).unwrap();
    fs::write(place.path("t/file"), "content").unwrap();
    symlink("nowhere", place.path("t/link")).unwrap();
    place.keyed(&["put", "t", "v:/"]);
    rustix::fs::mknodat(CWD, place.path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    symlink("pipe", place.path("to-pipe")).unwrap();
    symlink("nowhere", place.path("to-nothing")).unwrap();
    let mut targets = vec!["pipe", "to-pipe", "to-nothing"];
    if rustix::process::geteuid().is_root() {
        let (kind, null) = (FileType::CharacterDevice, rustix::fs::makedev(1, 3));
        rustix::fs::mknodat(CWD, place.path("null"), kind, Mode::RUSR, null).unwrap();
        targets.push("null");
    }
    let kind = |name: &str| fs::symlink_metadata(place.path(name)).unwrap().file_type();
    for target in targets {
        let before = kind(target);
        for source in ["v:/t/file", "v:/t"] {
            for option in ["--quiet", "--delete"] {
                let message = place.keyed_fails(9, &["get", option, source, target]);
                assert!(message.contains("choose another target"), "{message}");
                assert_eq!(kind(target), before, "{target}");
            }
        }
    }
    assert!(kind("pipe").is_fifo());
    // A link to a file is replaced, and the file stays. A link that came from the vault is replaced by itself.
    fs::write(place.path("other"), "other").unwrap();
    symlink("other", place.path("to-file")).unwrap();
    place.keyed(&["get", "v:/t/file", "to-file"]);
    assert!(kind("to-file").is_file());
    assert_eq!(fs::read(place.path("other")).unwrap(), b"other");
    place.keyed(&["get", "v:/t/link", "link"]);
    place.keyed(&["get", "v:/t/link", "link"]);
    let target = fs::read_link(place.path("link")).unwrap();
    assert_eq!(target, Path::new("nowhere"));
}

/// Failed before: the second file replaced the first one. With `mv`, the first one was lost.
#[test]
fn two_sources_of_one_name_do_not_replace_one_another() {
    let place = Place::new();
    for (directory, content) in [("one", "1"), ("two", "2")] {
        fs::create_dir(place.path(directory)).unwrap();
        fs::write(place.path(directory).join("x"), content).unwrap();
    }
    fs::create_dir(place.path("out")).unwrap();
    place.keyed(&["put", "one", "two", "v:/"]);
    place.keyed(&["mkdir", "v:/put", "v:/cp", "v:/mv"]);
    for arguments in [
        &["put", "one/x", "two/x", "v:/put"][..],
        &["get", "v:/one/x", "v:/two/x", "out"],
        &["cp", "v:/one/x", "v:/two/x", ":/cp"],
        &["mv", "v:/one/x", "v:/two/x", ":/mv"],
    ] {
        let message = place.keyed_fails(9, arguments);
        assert!(message.contains("two/x: another source"), "{message}");
    }
    for copy in ["v:/put/x", "v:/cp/x", "v:/mv/x"] {
        assert_eq!(place.keyed(&["cat", copy]), "1", "{copy}");
    }
    assert_eq!(fs::read(place.path("out/x")).unwrap(), b"1");
    assert_eq!(place.keyed(&["cat", "v:/two/x"]), "2");
}

/// Goal: --delete leaves what the same command copied from another source. Method: one target lies in the other, which is that of a source
/// without a name. Failed before: the first copy was deleted, and the command ended with success.
#[test]
fn what_a_command_copied_is_not_deleted_for_its_next_source() {
    let place = Place::new();
    fs::create_dir_all(place.path("all")).unwrap();
    fs::create_dir_all(place.path("other")).unwrap();
    fs::write(place.path("all/a"), "a").unwrap();
    fs::write(place.path("other/x"), "x").unwrap();
    place.keyed(&["mkdir", "v:/d", "v:/d/goes"]);
    let key = place.path("key");
    let put = place
        .command(&["put", "--delete", "../other", ".", "../v:/d", "--key-file"])
        .arg(key)
        .current_dir(place.path("all"))
        .output()
        .unwrap();
    assert!(put.status.success(), "{put:?}");
    let all = "/d\n/d/a\n/d/other\n/d/other/x\n";
    assert_eq!(place.keyed(&["find", "v:/d"]), all);
    // The same out of the vault, into a directory that is named by a link.
    place.keyed(&["mkdir", "v:/e"]);
    place.keyed(&["mv", "v:/d/other/x", ":/e"]);
    fs::create_dir(place.path("disk")).unwrap();
    fs::write(place.path("disk/goes"), "").unwrap();
    symlink("disk", place.path("out")).unwrap();
    place.keyed(&["get", "--delete", "v:/d/a", "v:/", "out"]);
    assert_eq!(fs::read(place.path("disk/a")).unwrap(), b"a");
    assert!(place.path("disk/e/x").exists() && !place.path("disk/goes").exists());
}

/// Unmounts at the end, also of a test that fails.
struct Mounted<'a>(&'a Place);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        self.0.run(&["umount", "h/mnt"]);
    }
}

/// Goal: no copy goes on into itself by way of a mount. Method: what is copied holds a mount of the vault that is copied into, and the other
/// way round. Failed before: each level was copied into the next one until the paths were too long.
#[test]
fn a_copy_does_not_go_on_into_itself_through_a_mount() {
    let place = Place::new();
    fs::create_dir_all(place.path("h/mnt")).unwrap();
    fs::write(place.path("h/a"), "a").unwrap();
    place.keyed(&["mkdir", "v:/b"]);
    place.keyed(&["mount", "v", "h/mnt"]);
    let mounted = Mounted(&place);
    let message = place.keyed_fails(2, &["put", "h", "v:/b"]);
    assert!(message.contains("into itself"), "{message}");
    let all = "/\n/b\n/b/h\n/b/h/a\n/b/h/mnt\n/b/h/mnt/b\n";
    assert_eq!(place.keyed(&["find", "v:/"]), all);
    for source in ["v:/", "v:/b"] {
        for target in ["h/mnt/b", "h/mnt/b/new"] {
            let message = place.keyed_fails(2, &["get", source, target]);
            assert!(message.contains("into itself"), "{message}");
        }
    }
    assert_eq!(place.keyed(&["find", "v:/"]), all);
    // Through the mount, and not into itself.
    place.keyed(&["get", "v:/b/h/a", "h/mnt/b"]);
    place.keyed(&["put", "h/mnt/b/h", "v:/"]);
    assert_eq!(place.keyed(&["cat", "v:/b/a", "v:/h/a"]), "aa");
    drop(mounted);
}

/// Failed before: the file got the mode, owner and times of the directory, also with -n and through a link.
#[test]
fn a_directory_that_finds_a_file_in_its_place_leaves_it_as_it_is() {
    let place = Place::new();
    fs::create_dir(place.path("d")).unwrap();
    fs::write(place.path("d/inside"), "inside").unwrap();
    fs::write(place.path("x"), "x").unwrap();
    symlink("x", place.path("l")).unwrap();
    place.keyed(&["put", "d", "x", "l", "v:/"]);
    let stat = || place.keyed(&["stat", "--json", "v:/x"]);
    let before = stat();
    for target in [":/x", ":/l"] {
        for arguments in [&["cp", "v:/d", target][..], &["cp", "-n", "v:/d", target]] {
            let message = place.keyed_fails(9, arguments);
            assert_eq!(message.lines().count(), 1, "{message}");
            assert_eq!(stat(), before, "{arguments:?}");
        }
    }
}

/// Failed before: in a directory that a file takes the place of, the pattern was compared with paths that began with a slash.
#[test]
fn what_an_anchored_pattern_names_stays_where_a_file_takes_the_place_of_its_directory() {
    let place = Place::new();
    fs::create_dir_all(place.path("t/cache")).unwrap();
    fs::write(place.path("t/cache/stays"), "stays").unwrap();
    fs::write(place.path("t/goes"), "goes").unwrap();
    place.keyed(&["put", "t", "v:/"]);
    fs::remove_dir_all(place.path("t")).unwrap();
    fs::write(place.path("t"), "a file now").unwrap();
    let output = place.run_keyed(&["put", "--delete", "--exclude", "/cache", "t", "v:/"]);
    assert!(!output.status.success());
    let all = "/\n/t\n/t/cache\n/t/cache/stays\n";
    assert_eq!(place.keyed(&["find", "v:/"]), all);
}

fn dated_link(target: &str, path: &Path) {
    // The one before, if there was one.
    let _ = fs::remove_file(path);
    symlink(target, path).unwrap();
    let time = Timespec {
        tv_sec: 1_000_000_000,
        tv_nsec: 5,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Failed before: a link with the size and the time of its copy was skipped, also with --checksum.
#[test]
fn a_link_that_leads_elsewhere_is_copied_again() {
    let place = Place::new();
    fs::create_dir(place.path("t")).unwrap();
    let (link, back) = (place.path("t/link"), place.path("back/link"));
    let account = |arguments: &[&str]| {
        json(&place.keyed(&[arguments, &["--json"]].concat()))["symlinks"].clone()
    };
    for (target, option) in [
        ("one", "--checksum"),
        ("two", "--checksum"),
        ("six", "--quiet"),
    ] {
        dated_link(target, &link);
        assert_eq!(account(&["put", option, "t", "v:/"]), 1, "{target}");
        assert_eq!(account(&["put", option, "t", "v:/"]), 0, "{target}");
        let tree = place.keyed(&["tree", "v"]);
        assert!(tree.contains(&format!("link -> {target}")), "{tree}");
        fs::create_dir_all(place.path("back")).unwrap();
        dated_link("old", &back);
        assert_eq!(account(&["get", option, "v:/t/link", "back"]), 1);
        assert_eq!(account(&["get", option, "v:/t/link", "back"]), 0);
        assert_eq!(fs::read_link(&back).unwrap(), Path::new(target));
    }
}

/// Failed before: the comparison ended with an error, and the content stayed lost.
#[test]
fn a_comparison_stores_again_what_its_remote_has_lost() {
    let place = Place::new();
    fs::write(place.path("file"), vec![9; 300_000]).unwrap();
    place.keyed(&["put", "file", "v:/"]);
    fs::create_dir(place.path("stick")).unwrap();
    let url = format!("folder:{}", place.path("stick").display());
    place.keyed(&["remote", "add", "v", "stick", &url]);
    place.keyed(&["push", "v"]);
    place.keyed(&["evict", "v"]);
    let mut folders = vec![place.path("stick/segments")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => fs::remove_file(path).unwrap(),
            }
        }
    }
    place.keyed_fails(5, &["cat", "v:/file"]);
    let again = json(&place.keyed(&["put", "--checksum", "--json", "file", "v:/"]));
    assert_eq!(again["files"], 1, "{again}");
    place.keyed(&["get", "v:/file", "back"]);
    assert_eq!(fs::read(place.path("back")).unwrap(), vec![9; 300_000]);
}

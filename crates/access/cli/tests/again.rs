//! Repeated copies: what `put` and `get` skip, leave out and remove, and where they stop.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::path::Path;

use rustix::fs::inotify;
use rustix::fs::{Timespec, Timestamps};
use support::Place;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// The account of a copy.
fn account(place: &Place, arguments: &[&str]) -> serde_json::Value {
    json(&place.keyed(&[arguments, &["--json"]].concat()))
}

fn set_modified(path: &Path, seconds: i64) {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: 5,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::futimens(File::open(path).unwrap(), &times).unwrap();
}

/// `t` with files at three depths.
fn with_tree() -> Place {
    let place = Place::new();
    for (path, content) in [
        ("a/one.txt", "one"),
        ("a/b/two.tmp", "two"),
        ("a/b/three.txt", "three"),
        ("cache/four.txt", "four"),
        ("five.txt", "five"),
    ] {
        let path = place.path("t").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    std::os::unix::fs::symlink("five.txt", place.path("t/link")).unwrap();
    place
}

/// How many files in `folders` were opened while `work` ran.
fn openings(folders: &[&Path], work: impl FnOnce()) -> usize {
    let watching = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    for folder in folders {
        inotify::add_watch(&watching, *folder, inotify::WatchFlags::OPEN).unwrap();
    }
    work();
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut events = inotify::Reader::new(&watching, &mut buffer);
    let mut count = 0;
    while let Ok(event) = events.next() {
        let of_file = !event.events().contains(inotify::ReadFlags::ISDIR);
        count += usize::from(of_file && event.file_name().is_some());
    }
    count
}

/// Goal: a tree that is there already costs no opening of a file, on either side. Method: the kernel reports openings.
/// Failed before: every file was copied each time.
#[test]
fn what_is_there_already_is_passed_by_without_being_opened() {
    let place = with_tree();
    let tree = [place.path("t"), place.path("t/a"), place.path("t/a/b")];
    let watched: Vec<&Path> = tree.iter().map(|path| path.as_path()).collect();
    let first = account(&place, &["put", "t", "v:/"]);
    assert_eq!(
        (&first["files"], &first["unchanged"]),
        (&5.into(), &0.into())
    );
    let opened = openings(&watched, || {
        let again = account(&place, &["put", "t", "v:/"]);
        assert_eq!(
            (&again["files"], &again["unchanged"]),
            (&0.into(), &6.into())
        );
        assert_eq!(again["bytes"], 0);
    });
    assert_eq!(opened, 0);
    // That the kernel does tell.
    assert_eq!(
        openings(&watched, || drop(fs::read(tree[0].join("five.txt")))),
        1
    );
    place.keyed(&["get", "v:/t", "back"]);
    let back = [
        place.path("back"),
        place.path("back/a"),
        place.path("back/a/b"),
    ];
    let watched: Vec<&Path> = back.iter().map(|path| path.as_path()).collect();
    let opened = openings(&watched, || {
        let again = account(&place, &["get", "v:/t/a", "back"]);
        assert_eq!(
            (&again["files"], &again["unchanged"]),
            (&0.into(), &3.into())
        );
    });
    assert_eq!(opened, 0);
}

/// Failed before: every file was copied each time.
#[test]
fn what_changed_is_copied_again_and_of_the_rest_mode_and_owner_follow() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let place = with_tree();
    place.keyed(&["put", "t", "v:/"]);
    // Longer; of the same length but later; of the same length and time.
    fs::write(place.path("t/five.txt"), "five and more").unwrap();
    fs::write(place.path("t/a/one.txt"), "ONE").unwrap();
    set_modified(&place.path("t/a/one.txt"), 1_000_000_000);
    let three = place.path("t/a/b/three.txt");
    let modified = fs::metadata(&three).unwrap().modified().unwrap();
    fs::write(&three, "THREE").unwrap();
    File::options()
        .write(true)
        .open(&three)
        .unwrap()
        .set_modified(modified)
        .unwrap();
    let four = place.path("t/cache/four.txt");
    fs::set_permissions(&four, fs::Permissions::from_mode(0o600)).unwrap();
    let again = account(&place, &["put", "t", "v:/"]);
    assert_eq!(
        (&again["files"], &again["unchanged"]),
        (&2.into(), &4.into())
    );
    assert_eq!(
        place.keyed(&["cat", "v:/t/five.txt", "v:/t/a/one.txt"]),
        "five and moreONE"
    );
    assert_eq!(place.keyed(&["cat", "v:/t/a/b/three.txt"]), "three");
    assert!(
        place
            .keyed(&["stat", "v:/t/cache/four.txt"])
            .contains("(0600)")
    );
    let again = account(&place, &["put", "--checksum", "t", "v:/"]);
    assert_eq!(
        (&again["files"], &again["unchanged"]),
        (&1.into(), &5.into())
    );
    assert_eq!(place.keyed(&["cat", "v:/t/a/b/three.txt"]), "THREE");

    place.keyed(&["get", "v:/t", "back"]);
    let three = place.path("back/a/b/three.txt");
    fs::write(&three, "xxxxx").unwrap();
    File::options()
        .write(true)
        .open(&three)
        .unwrap()
        .set_modified(modified)
        .unwrap();
    let four = place.path("back/cache/four.txt");
    fs::set_permissions(&four, fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(place.path("back/five.txt")).unwrap();
    fs::rename(place.path("back"), place.path("t2")).unwrap();
    fs::create_dir(place.path("out")).unwrap();
    fs::rename(place.path("t2"), place.path("out/t")).unwrap();
    let again = account(&place, &["get", "v:/t", "out"]);
    assert_eq!(
        (&again["files"], &again["unchanged"]),
        (&1.into(), &5.into())
    );
    let mode = fs::metadata(place.path("out/t/cache/four.txt"))
        .unwrap()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    let three = place.path("out/t/a/b/three.txt");
    assert_eq!(fs::read_to_string(&three).unwrap(), "xxxxx");
    let again = account(&place, &["get", "--checksum", "v:/t", "out"]);
    assert_eq!(
        (&again["files"], &again["unchanged"]),
        (&1.into(), &5.into())
    );
    assert_eq!(fs::read_to_string(&three).unwrap(), "THREE");
}

/// Goal: content that cannot be read any more is stored again when it is compared.
#[test]
fn a_comparison_stores_again_what_cannot_be_read() {
    let place = Place::new();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(place.path("file"), content).unwrap();
    place.keyed(&["put", "file", "v:/"]);
    let mut folders = vec![place.path("v/segments")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mut bytes = fs::read(&path).unwrap();
            let quarter = bytes.len() / 4;
            bytes[quarter..3 * quarter].fill(0xa5);
            fs::write(&path, bytes).unwrap();
        }
    }
    assert!(!place.run_keyed(&["cat", "v:/file"]).status.success());
    let again = account(&place, &["put", "file", "v:/"]);
    assert_eq!(again["unchanged"], 1, "nothing was read");
    let again = account(&place, &["put", "--checksum", "file", "v:/"]);
    assert_eq!(
        (&again["files"], &again["unchanged"]),
        (&1.into(), &0.into())
    );
}

/// Failed before: there was no such option.
#[test]
fn what_a_pattern_names_is_neither_copied_nor_removed() {
    let place = with_tree();
    let exclude = ["--exclude", "*.tmp", "--exclude", "/cache/"];
    let put = account(&place, &[&["put", "t", "v:/"], &exclude[..]].concat());
    assert_eq!((&put["files"], &put["excluded"]), (&3.into(), &2.into()));
    let all = "/t\n/t/a\n/t/a/b\n/t/a/b/three.txt\n/t/a/one.txt\n/t/five.txt\n/t/link\n";
    assert_eq!(place.keyed(&["find", "v:/t"]), all);
    place.keyed(&["put", "t", "v:/"]);
    let get = account(&place, &[&["get", "v:/t", "back"], &exclude[..]].concat());
    assert_eq!((&get["files"], &get["excluded"]), (&3.into(), &2.into()));
    assert!(!place.path("back/cache").exists() && !place.path("back/a/b/two.tmp").exists());
    // Gone from the source, but named: it stays.
    fs::remove_dir_all(place.path("t/cache")).unwrap();
    fs::remove_dir_all(place.path("t/a")).unwrap();
    let put = account(
        &place,
        &[&["put", "--delete", "t", "v:/"], &exclude[..]].concat(),
    );
    assert_eq!(put["removed"], 2, "{put}");
    let all =
        "/t\n/t/a\n/t/a/b\n/t/a/b/two.tmp\n/t/cache\n/t/cache/four.txt\n/t/five.txt\n/t/link\n";
    assert_eq!(place.keyed(&["find", "v:/t"]), all);
    place.keyed_fails(2, &["put", "--exclude", "!x", "t", "v:/"]);
}

/// Failed before: there was no such option.
#[test]
fn what_the_source_has_not_goes_and_a_snapshot_has_it() {
    let place = with_tree();
    place.keyed(&["put", "t", "v:/"]);
    place.keyed(&["put", "key", "v:/beside"]);
    fs::remove_dir_all(place.path("t/a")).unwrap();
    // A file where a directory was, and the other way round.
    fs::remove_dir_all(place.path("t/cache")).unwrap();
    fs::write(place.path("t/cache"), "a file now").unwrap();
    fs::remove_file(place.path("t/five.txt")).unwrap();
    fs::create_dir(place.path("t/five.txt")).unwrap();
    let output = place.run_keyed(&["put", "--delete", "t", "v:/"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && said.contains("files and directories; the snapshot "),
        "{said}"
    );
    let all = "/beside\n/t\n/t/cache\n/t/five.txt\n/t/link\n";
    assert_eq!(place.keyed(&["find", "v:/"]).strip_prefix("/\n"), Some(all));
    let snapshots = json(&place.keyed(&["snapshot", "list", "v", "--json"]));
    let mut taken = snapshots.as_array().unwrap().clone();
    // Every command that stores files takes one of the schedule, if it is time.
    taken.retain(|one| one["message"] != "scheduled");
    assert_eq!(taken.len(), 1, "{snapshots}");
    let id = taken[0]["id"].as_str().unwrap();
    let kept = place.keyed(&["cat", &format!("v:/.history/{id}/t/a/b/three.txt")]);
    assert_eq!(kept, "three");
    // Nothing to remove: no further snapshot.
    let again = account(&place, &["put", "--delete", "t", "v:/"]);
    assert_eq!(
        (&again["removed"], &again["snapshot"]),
        (&0.into(), &serde_json::Value::Null)
    );

    fs::create_dir_all(place.path("out/t/more/deep")).unwrap();
    fs::write(place.path("out/t/more/deep/file"), "").unwrap();
    fs::write(place.path("out/stays"), "").unwrap();
    let get = account(&place, &["get", "--delete", "v:/t", "out"]);
    assert_eq!(get["removed"], 3);
    assert!(!place.path("out/t/more").exists() && place.path("out/stays").exists());
    assert_eq!(
        fs::read_to_string(place.path("out/t/cache")).unwrap(),
        "a file now"
    );
}

/// Failed before: a line for every file, and no word of what was done.
#[test]
fn a_full_vault_stops_a_copy_with_one_error_and_a_summary() {
    let place = Place::new();
    fs::create_dir(place.path("t")).unwrap();
    for number in 0..60_u64 {
        let mut state = number * 2 + 1;
        let content: Vec<u8> = (0..1_000_000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        fs::write(place.path("t").join(format!("{number:02}")), content).unwrap();
    }
    place.keyed(&["quota", "v", "20M"]);
    let output = place.run_keyed(&["put", "t", "v:/"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(
        said.contains("strongroom: stopped: ") && said.contains(", 1 failed; "),
        "{said}"
    );
    let there = place
        .keyed(&["find", "v:/t", "--type", "f"])
        .lines()
        .count();
    assert!((1..60).contains(&there), "{there}");
    // With room again, it goes on where it stopped.
    place.keyed(&["quota", "v", "none"]);
    let again = account(&place, &["put", "t", "v:/"]);
    assert_eq!(
        (&again["unchanged"], &again["files"]),
        (&there.into(), &(60 - there).into())
    );
}

/// Failed before: an option between two operands made the first one the target.
#[test]
fn options_stand_anywhere_between_operands() {
    let place = Place::new();
    fs::write(place.path("a"), "a").unwrap();
    fs::write(place.path("b"), "b").unwrap();
    place.done(&["put", "a", "--key-file", "key", "b", "--quiet", "v:/"]);
    place.done(&["cp", "v:/a", "--key-file", "key", ":/c"]);
    place.done(&["mv", "v:/b", "-n", ":/d", "--key-file", "key"]);
    assert_eq!(
        place.done(&["ls", "v:/a", "--key-file", "key", "v:/c"]),
        "a\nc\n"
    );
    place.done(&["get", "v:/a", "--key-file", "key", "v:/d", "--quiet", "."]);
    assert!(place.path("d").exists());
    let message = place.keyed_fails(2, &["put", "a"]);
    assert!(message.contains("then where to copy it"), "{message}");
}

/// Failed before: `a: no such file`, and `/a` for a local folder that is missing.
#[test]
fn an_error_names_the_side_where_something_is_missing() {
    let place = Place::new();
    fs::write(place.path("a"), "a").unwrap();
    place.keyed(&["put", "a", "v:/"]);
    let message = place.keyed_fails(3, &["put", "a", "v:/x/y/z"]);
    assert!(
        message.contains("/x/y: no such directory in the vault"),
        "{message}"
    );
    for command in ["cp", "mv"] {
        let message = place.keyed_fails(3, &[command, "v:/a", ":/x/y"]);
        assert!(
            message.contains("/x: no such directory in the vault"),
            "{message}"
        );
    }
    let message = place.keyed_fails(3, &["get", "v:/a", "nonexistent/x"]);
    assert!(
        message.contains("nonexistent: no such local directory"),
        "{message}"
    );
}

/// Failed before: `the vault is open for reading only`, of a vault that is open for writing.
#[test]
fn a_change_of_a_kept_state_says_what_it_is() {
    let place = Place::new();
    fs::write(place.path("a"), "a").unwrap();
    place.keyed(&["put", "a", "v:/"]);
    place.keyed(&["snapshot", "create", "v", "--tag", "one"]);
    let inside = "v:/.history/t:one/a";
    for command in [
        &["put", "key", inside][..],
        &["rm", inside],
        &["mv", "v:/a", ":/.history/t:one/b"],
        &["mkdir", "v:/.history/t:one/d"],
    ] {
        let message = place.keyed_fails(10, command);
        assert!(message.contains("snapshots cannot be changed"), "{message}");
    }
}

/// Failed before: the objects of both directories stood in one array, and `sync` printed nothing.
#[test]
fn json_tells_what_is_in_which_place() {
    let place = with_tree();
    place.keyed(&["put", "t", "v:/"]);
    let names = |entries: &serde_json::Value| -> Vec<String> {
        let entries = entries.as_array().unwrap().iter();
        entries
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let one = json(&place.keyed(&["ls", "--json", "v:/t/a"]));
    assert_eq!(names(&one), ["b", "one.txt"]);
    let listed = json(&place.keyed(&["ls", "--json", "v:/t/a", "v:/t/five.txt", "v:/t/a/b"]));
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 3);
    assert_eq!(listed[0]["path"], "/t/a");
    assert_eq!(names(&listed[0]["entries"]), ["b", "one.txt"]);
    assert_eq!(names(&listed[1]["entries"]), ["five.txt"]);
    assert_eq!(names(&listed[2]["entries"]), ["three.txt", "two.tmp"]);
    assert_eq!(
        json(&place.keyed(&["sync", "--json", "v"]))["durable"],
        true
    );
}

/// Failed before: hours of UTC that did not say so, with nanoseconds.
#[test]
fn times_are_those_of_this_zone_and_say_so() {
    let place = Place::new();
    fs::write(place.path("a"), "").unwrap();
    set_modified(&place.path("a"), 1_000_000_000);
    place.keyed(&["put", "a", "v:/"]);
    let in_zone = |arguments: &[&str]| {
        let arguments = [arguments, &["--key-file", "key"]].concat();
        let output = place
            .command(&arguments)
            .env("TZ", "XYZ-05:30")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let line = in_zone(&["ls", "-l", "v:/"]);
    assert!(line.contains(" 2001-09-09 07:16 +0530 a"), "{line}");
    let stat = in_zone(&["stat", "v:/a"]);
    assert!(
        stat.contains("modified   2001-09-09 07:16:40 +0530\n"),
        "{stat}"
    );
    // What is shown can be typed.
    place.keyed(&["snapshot", "create", "v"]);
    let log = in_zone(&["log", "v"]);
    // The oldest: `put` may have taken one too.
    let mut lines = log
        .lines()
        .filter_map(|line| line.strip_prefix("time     "));
    let shown = lines.next_back().unwrap().trim_end_matches(" +0530");
    assert!(
        !in_zone(&["log", "v", &format!("d:{shown}")]).is_empty(),
        "{shown}"
    );
    assert!(!in_zone(&["log", "v", "d:today"]).is_empty());
    assert_eq!(in_zone(&["log", "v", &format!("e:{shown}")]), "");
    let found = json(&in_zone(&["stat", "--json", "v:/a"]));
    assert_eq!(found[0]["modified"], "2001-09-09T07:16:40.000000005+05:30");
}

/// Failed before: it went without a word.
#[test]
fn the_last_passphrase_goes_with_a_warning() {
    let place = Place::new();
    fs::write(place.path("pass"), "correct horse").unwrap();
    place.keyed(&["key", "add", "v", "--new-passphrase-file", "pass"]);
    place.keyed(&["key", "add", "v", "--new-passphrase-file", "pass"]);
    let passphrases = || -> Vec<String> {
        let all = json(&place.done(&["key", "list", "--json", "v"]));
        let all = all.as_array().unwrap().iter();
        let all = all.filter(|key| key["kind"] == "passphrase");
        all.map(|key| key["key"].as_str().unwrap().to_owned())
            .collect()
    };
    for warned in [false, true] {
        let key = &passphrases()[0];
        let output = place.run_keyed(&["key", "remove", "v", key]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        assert_eq!(
            said.contains("the vault's last passphrase"),
            warned,
            "{said}"
        );
        assert!(!warned || said.contains("key file"), "{said}");
    }
    assert!(passphrases().is_empty());
}

//! Snapshots with the real binary: the output and effects of `log`, `diff` and `restore`, the snapshots that a rule
//! removes, and `.history` on a real mount.
//!
//! The tests of the mount need root; without it they report that and skip this part.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use support::{MountPoint, Place};

fn may_mount() -> bool {
    let may = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !may {
        eprintln!("left out: this needs root and /dev/fuse");
    }
    may
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// Puts `content` at `path` of the vault.
fn put(place: &Place, path: &str, content: &str) {
    fs::write(place.path("local"), content).unwrap();
    place.keyed(&["put", "local", &format!("v:{path}")]);
}

fn take(place: &Place, tag: &str) {
    place.keyed(&["snapshot", "create", "v", "--tag", tag]);
}

/// A vault with the snapshot that the first command takes, of a single empty folder.
fn begun() -> Place {
    let place = Place::new();
    place.keyed(&["mkdir", "v:/begun"]);
    place.keyed(&["rm", "-r", "v:/begun"]);
    place
}

/// A vault with two states: a text that changed, a file that went, one that came, one that moved and one that stayed.
fn two_states() -> Place {
    let place = Place::new();
    place.keyed(&["mkdir", "v:/d"]);
    put(&place, "/d/text", "one\ntwo\nthree\n");
    put(&place, "/gone", "gone");
    put(&place, "/moves", "moved content");
    put(&place, "/stays", "stays");
    take(&place, "before");
    put(&place, "/d/text", "one\n2\nthree\n");
    place.keyed(&["rm", "v:/gone"]);
    put(&place, "/new", "new");
    place.keyed(&["mv", "v:/moves", "v:/moved"]);
    take(&place, "after");
    place
}

#[test]
fn diff_prints_what_came_went_moved_and_changed_as_lines_as_counts_and_as_json() {
    let place = two_states();
    let lines = place.keyed(&["diff", "v", "t:before", "t:after"]);
    for wanted in ["/d/text", "/gone", "/new", "/moved"] {
        assert!(lines.contains(wanted), "{wanted} is missing in {lines}");
    }
    assert!(!lines.contains("/stays"), "{lines}");
    let patch = place.keyed(&["diff", "--patch", "v:/d", "t:before", "t:after"]);
    assert!(
        patch.contains("-two\n") && patch.contains("+2\n"),
        "{patch}"
    );
    assert!(
        patch.contains(" one\n") && !patch.contains("gone"),
        "{patch}"
    );
    let stat = place.keyed(&["diff", "--stat", "v", "t:before"]);
    assert!(stat.contains("/d/text"), "{stat}");
    let found = json(&place.keyed(&["diff", "--json", "v", "t:before", "h:"]));
    let paths: Vec<&str> = found
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["path"].as_str())
        .collect();
    assert!(
        paths.contains(&"/new") && !paths.contains(&"/stays"),
        "{found}"
    );
    let same = place.keyed(&["diff", "v", "t:after", "t:after"]);
    assert_eq!(same, "");
}

#[test]
fn restore_brings_back_a_file_a_directory_and_everything_and_keeps_what_was_there() {
    let place = two_states();
    let text = |path: &str| place.keyed(&["cat", path]);
    let said = place.keyed(&["restore", "v:/gone", "t:before"]);
    assert!(
        said.starts_with("files and directories restored: 1"),
        "{said}"
    );
    assert_eq!(text("v:/gone"), "gone");
    place.keyed(&["restore", "v:/d/text", "t:before", "--to", "/text-before"]);
    assert_eq!(text("v:/text-before"), "one\ntwo\nthree\n");
    assert_eq!(text("v:/d/text"), "one\n2\nthree\n");
    let whole = json(&place.keyed(&["restore", "v", "t:before", "--json"]));
    assert!(whole["nodes"].as_u64().unwrap() >= 5, "{whole}");
    assert_eq!(text("v:/d/text"), "one\ntwo\nthree\n");
    assert_eq!(text("v:/moves"), "moved content");
    place.keyed_fails(3, &["cat", "v:/new"]);
    // What was there is the newest snapshot, and comes back.
    let kept = whole["snapshot"].as_str().unwrap();
    place.keyed(&["restore", "v", kept, "--no-snapshot"]);
    assert_eq!(text("v:/new"), "new");
    assert_eq!(text("v:/text-before"), "one\ntwo\nthree\n");
    place.keyed_fails(3, &["restore", "v:/never", "t:before"]);
    place.keyed(&["verify", "--structure", "v"]);
}

#[test]
fn log_of_a_path_shows_the_snapshots_in_which_it_changed() {
    let place = two_states();
    put(&place, "/stays", "stays");
    take(&place, "third");
    let all = json(&place.keyed(&["log", "v", "--json"]));
    // One was taken by the first command.
    assert_eq!(all.as_array().unwrap().len(), 4);
    let of_text = json(&place.keyed(&["log", "v:/d/text", "--json"]));
    let tags: Vec<&str> = of_text
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["tags"][0].as_str().unwrap())
        .collect();
    assert_eq!(tags, ["after", "before"], "newest first");
    let gone = place.keyed(&["log", "v:/gone"]);
    assert!(
        gone.contains("removed") && gone.contains("4 bytes"),
        "{gone}"
    );
}

#[test]
fn a_rule_lets_unnamed_snapshots_go_and_a_trial_changes_nothing() {
    let place = begun();
    for number in 0..4 {
        put(&place, "/file", &number.to_string());
        place.keyed(&["snapshot", "create", "v"]);
    }
    put(&place, "/file", "named");
    take(&place, "named");
    let count = || {
        json(&place.keyed(&["snapshot", "list", "v", "--json"]))
            .as_array()
            .unwrap()
            .len()
    };
    let shown = place.keyed(&["snapshot", "keep", "v"]);
    assert!(
        shown.contains("24 hourly, 30 daily and 12 monthly"),
        "{shown}"
    );
    assert!(shown.contains("no rule was set"), "{shown}");
    let trial = place.keyed(&["snapshot", "keep", "v", "--last", "1", "--dry-run"]);
    assert!(trial.ends_with("4 would be removed\n"), "{trial}");
    assert_eq!(count(), 6);
    place.keyed(&["snapshot", "keep", "v", "--last", "1", "--scheduled-only"]);
    assert_eq!(count(), 6, "one was taken by the clock, and stays");
    let done = json(&place.keyed(&["snapshot", "keep", "v", "--hourly", "1", "--json"]));
    assert_eq!(done["snapshots"].as_array().unwrap().len(), 4);
    assert_eq!(count(), 2);
    let shown = place.keyed(&["snapshot", "keep", "v"]);
    assert_eq!(
        shown,
        "automatic snapshots and snapshots without tag and message: 1 hourly stay; other snapshots: all stay\n"
    );
    place.keyed_fails(2, &["snapshot", "keep", "v", "--daily", "0"]);
    assert_eq!(place.keyed(&["cat", "v:/.history/h:/file"]), "named");
    assert_eq!(place.keyed(&["cat", "v:/.history/p:/file"]), "3");
    place.keyed(&["verify", "--structure", "v"]);
}

#[test]
fn a_list_with_sizes_says_what_each_alone_holds_and_a_removal_gives_that_back() {
    let place = begun();
    let noise = |seed: u8, len: usize| {
        let mut bytes = vec![0; len];
        blake3::Hasher::new()
            .update(&[seed])
            .finalize_xof()
            .fill(&mut bytes);
        bytes
    };
    for (seed, len) in [(1, 1_000_000), (2, 2_000_000)] {
        fs::write(place.path("local"), noise(seed, len)).unwrap();
        place.keyed(&["put", "local", "v:/file"]);
        take(&place, &format!("n{seed}"));
    }
    let alone = |place: &Place| -> Vec<u64> {
        let list = json(&place.keyed(&["snapshot", "list", "v", "--size", "--json"]));
        let list = list.as_array().unwrap().clone();
        list.iter()
            .map(|one| one["alone_bytes"].as_u64().unwrap())
            .collect()
    };
    let sizes = alone(&place);
    assert!((1_000_000..1_010_000).contains(&sizes[1]), "{sizes:?}");
    assert!(sizes[2] < 10_000, "its file is there still: {sizes:?}");
    place.keyed(&["rm", "v:/file"]);
    assert!((2_000_000..2_010_000).contains(&alone(&place)[2]));
    let text = place.keyed(&["snapshot", "list", "v", "--size"]);
    assert!(text.contains("only in snapshots"), "{text}");
    place.keyed(&["snapshot", "remove", "v", "t:n1"]);
    let left = place.keyed(&["snapshot", "list", "v", "--size"]);
    assert!(left.contains("1.9 MiB only in snapshots"), "{left}");
}

#[test]
fn erase_takes_content_out_of_every_snapshot_and_leaves_what_others_have() {
    let place = begun();
    let noise = |seed: u8| {
        let mut bytes = vec![0; 300_000];
        blake3::Hasher::new()
            .update(&[seed])
            .finalize_xof()
            .fill(&mut bytes);
        bytes
    };
    fs::write(place.path("secret"), noise(1)).unwrap();
    fs::write(place.path("other"), noise(2)).unwrap();
    place.keyed(&["put", "secret", "other", "v:/"]);
    take(&place, "one");
    place.keyed(&["mv", "v:/secret", "v:/renamed"]);
    take(&place, "two");
    let refused = place.run(&["erase", "v:/renamed", "--key-file", "key"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && message.contains("still exists"),
        "{message}"
    );
    place.keyed(&["rm", "v:/renamed"]);
    place.keyed_fails(3, &["erase", "v:/never"]);
    let trial = json(&place.keyed(&["erase", "v:/secret", "--dry-run", "--json"]));
    assert_eq!(trial["erased"], false);
    assert!(trial["bytes"].as_u64().unwrap() >= 300_000, "{trial}");
    assert_eq!(
        place.keyed_bytes(&["cat", "v:/.history/t:two/renamed"]),
        noise(1)
    );
    let said = place.keyed(&["erase", "v:/secret"]);
    assert!(said.contains("of 1 file in 1 snapshot erased"), "{said}");
    assert!(said.contains("still have the content"), "{said}");
    assert!(!said.contains("rotate"), "no rotation reaches them: {said}");
    // Failed before: it said once more what was gone already.
    let trial = json(&place.keyed(&["erase", "v:/secret", "--dry-run", "--json"]));
    assert_eq!(trial["bytes"], 0, "{trial}");
    for path in ["v:/.history/t:one/secret", "v:/.history/t:two/renamed"] {
        assert!(
            !place
                .run(&["cat", path, "--key-file", "key"])
                .status
                .success()
        );
    }
    assert_eq!(
        place.keyed_bytes(&["cat", "v:/.history/t:one/other"]),
        noise(2)
    );
    // It says what was done, not that something is damaged; and what is brought back is what there is.
    for arguments in [
        &["restore", "v:/secret", "t:one"][..],
        &["get", "v:/.history/t:one/secret", "back"],
        &["hash", "--at", "t:one", "v:/secret"],
    ] {
        let told = place.keyed_fails(3, arguments);
        assert!(told.contains("erased from all snapshots on 20"), "{told}");
    }
    place.keyed_fails(3, &["stat", "v:/secret"]);
    let said = place.keyed(&["restore", "v:/", "t:one"]);
    assert!(
        said.contains("left out: /secret was erased on 20"),
        "{said}"
    );
    assert_eq!(place.keyed(&["ls", "v:/"]), "other\n");
    let listed = place.keyed(&["ls", "v:/.history/t:two"]);
    assert!(listed.contains("renamed"), "names stay: {listed}");
    // What was erased takes no space, and nothing of it would come back.
    let space = json(&place.keyed(&["df", "v", "--json"]));
    let bytes = |name: &str| space[name].as_u64().unwrap();
    assert!((300_000..400_000).contains(&bytes("live_bytes")), "{space}");
    assert!(bytes("kept_bytes") < 10_000, "{space}");
    for snapshot in space["snapshots"].as_array().unwrap() {
        assert!(
            snapshot["alone_bytes"].as_u64().unwrap() < 10_000,
            "{space}"
        );
    }
    place.keyed(&["verify", "--structure", "v"]);
    place.keyed(&["verify", "v", "--deep"]);
}

#[test]
fn df_says_what_files_snapshots_and_each_snapshot_alone_hold() {
    let place = begun();
    let noise = |seed: u8, len: usize| {
        let mut bytes = vec![0; len];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[seed]).finalize_xof().fill(&mut bytes);
        bytes
    };
    for (seed, len, tag) in [(1, 500_000, "one"), (2, 300_000, "two")] {
        fs::write(place.path("file"), noise(seed, len)).unwrap();
        place.keyed(&["put", "file", "v:/"]);
        take(&place, tag);
    }
    fs::write(place.path("file"), noise(3, 200_000)).unwrap();
    place.keyed(&["put", "file", "v:/"]);
    let space = json(&place.keyed(&["df", "v", "--json"]));
    let near = |bytes: &serde_json::Value, expected: u64| {
        let bytes = bytes.as_u64().unwrap();
        assert!((expected..expected + 20_000).contains(&bytes), "{space}");
    };
    near(&space["live_bytes"], 200_000);
    near(&space["kept_bytes"], 800_000);
    near(&space["snapshots"][1]["alone_bytes"], 500_000);
    near(&space["snapshots"][2]["alone_bytes"], 300_000);
    let shown = place.keyed(&["df", "v"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[2].contains(" only in snapshots, "), "{shown}");
    assert_eq!(lines[3], "used by each snapshot alone:");
    assert!(
        lines[5].contains(" KiB  one") && lines[6].contains("two"),
        "{shown}"
    );
    place.keyed(&["snapshot", "remove", "v", "t:one", "t:two"]);
    place.keyed(&["snapshot", "remove", "v", "h:"]);
    place.keyed(&["compact", "v"]);
    let space = json(&place.keyed(&["df", "v", "--json"]));
    assert_eq!(space["kept_bytes"], 0);
    assert!(space["waste_bytes"].as_u64().unwrap() < 1_000, "{space}");
}

#[test]
fn dot_history_of_a_mount_shows_each_state_as_it_was_and_changes_with_what_others_do() {
    if !may_mount() {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("m")).unwrap();
    place.keyed(&["mount", "v", "m", "-o", "snapshot=off"]);
    let mounted = MountPoint::new(&place);
    let at = |path: &str| place.path("m").join(path);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/file"), "one").unwrap();
    fs::set_permissions(at("d/file"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("file", at("d/link")).unwrap();
    fs::hard_link(at("d/file"), at("hard")).unwrap();
    rustix::fs::setxattr(
        at("d/file"),
        "user.x",
        b"y",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    let before = fs::metadata(at("d/file")).unwrap();
    take(&place, "one");
    fs::write(at("d/file"), "two").unwrap();
    fs::remove_file(at("hard")).unwrap();
    take(&place, "two");

    let kept = at(".history/t:one");
    assert_eq!(fs::read(kept.join("d/file")).unwrap(), b"one");
    assert_eq!(fs::read(kept.join("hard")).unwrap(), b"one");
    assert_eq!(
        fs::read_link(kept.join("d/link")).unwrap(),
        Path::new("file")
    );
    assert_eq!(fs::read(kept.join("d/link")).unwrap(), b"one");
    let then = fs::metadata(kept.join("d/file")).unwrap();
    assert_eq!((then.mode(), then.nlink()), (before.mode(), 2));
    assert_eq!(
        (then.mtime(), then.mtime_nsec()),
        (before.mtime(), before.mtime_nsec())
    );
    assert_ne!(then.ino(), before.ino(), "numbers of its own");
    let mut value = [0; 8];
    let len = rustix::fs::getxattr(kept.join("d/file"), "user.x", &mut value).unwrap();
    assert_eq!(&value[..len], b"y");
    let refused = fs::write(kept.join("d/file"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30), "EROFS");
    let names = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&at("")), ["d"], "hidden unless asked for");
    assert_eq!(names(&kept), ["d", "hard"]);
    assert_eq!(fs::read(at(".history/h:/d/file")).unwrap(), b"two");
    assert_eq!(fs::read(at(".history/p:/d/file")).unwrap(), b"one");
    assert!(names(&at(".history")).contains(&"t:two".to_owned()));

    // What others restore and remove shows at once.
    place.done(&["restore", "v:/hard", "t:one", "--no-snapshot"]);
    assert_eq!(fs::read(at("hard")).unwrap(), b"one");
    place.done(&["snapshot", "remove", "v", "t:one"]);
    assert!(!names(&at(".history")).contains(&"t:one".to_owned()));
    place.done(&["umount", "m"]);
    drop(mounted);
    place.keyed(&["verify", "--structure", "v"]);
}

/// Failed before: the right side was the newest snapshot, and what changed since was not shown.
#[test]
fn diff_compares_with_now_and_leaves_nothing_behind() {
    let place = two_states();
    let all = || place.keyed(&["snapshot", "list", "v", "--json"]);
    let before = all();
    assert_eq!(place.keyed(&["diff", "v"]), "");
    put(&place, "/d/text", "one\n2\n3\n");
    put(&place, "/later", "later");
    place.keyed(&["rm", "v:/new"]);
    let changed = place.keyed(&["diff", "v"]);
    let mut changed: Vec<&str> = changed.lines().collect();
    changed.sort_unstable();
    assert_eq!(changed, ["A /later", "D /new", "M /d/text"]);
    let patch = place.keyed(&["diff", "--patch", "v:/d/text"]);
    assert!(
        patch.contains("\n-three\n+3\n") && patch.contains("+++ now/d/text\n"),
        "{patch}"
    );
    let since = place.keyed(&["diff", "v", "t:before"]);
    assert!(
        since.contains("A /later\n") && since.contains("D /gone\n"),
        "{since}"
    );
    assert_eq!(place.keyed(&["diff", "v", "t:after", "h:"]), "");
    assert_eq!(all(), before);
    // What was stored for the comparison is taken up by the next snapshot, or goes.
    place.keyed(&["verify", "--structure", "v"]);
    take(&place, "third");
    assert_eq!(place.keyed(&["diff", "v"]), "");
    place.keyed(&["verify", "--deep", "v"]);
}

/// Failed before: both had it, and `t:` with it meant neither.
#[test]
fn a_tag_that_a_snapshot_has_is_not_given_to_another() {
    let place = Place::new();
    let create = ["snapshot", "create", "v", "--tag", "one"];
    let first = place.keyed(&create);
    let message = place.keyed_fails(9, &create);
    assert!(
        message.contains(&first[..16]) && message.contains("already has the tag `one`"),
        "{message}"
    );
    place.keyed(&["snapshot", "remove", "v", "t:one"]);
    place.keyed(&create);
}

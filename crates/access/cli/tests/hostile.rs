//! How each command treats deceptive names, impossible names, circles of directories, and headers that keep a machine busy.
//!
//! Method: names that a file system accepts are added by `put`. Names that no file system accepts are written directly
//! into the database with its key. A decaying disk, or a person who has a key, could cause the same.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use rustix::fs::XattrFlags;
use strongroom_metadata::{
    BlockNumber, Entry, Inode, InodeId, NodeKind, Place as Stored, Store, Transaction,
};
use support::Place;

/// Controls, a C1 sequence, DEL, what turns text around, hides it, or ends a line for some.
const EVIL: &str = "e\u{1b}[2J\u{7}\u{7f}\u{9b}31m\u{202e}\u{2066}\u{61c}\u{ad}\u{200b}\u{2028}\u{2029}\u{feff}\u{3164}\
                    \u{115f}\u{ffa0}\u{180e}\u{fe0f}\u{fff9}\u{e0041}\u{e000}\n\rd";

/// The same in the URL of a remote.
const EVIL_URL: &str = "folder:/e\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{2028}\n\rd";

/// The id of a deposit that nobody made.
const NO_DEPOSIT: &str = "00000000000000000000000000000000";

/// A list of its own, so that a hole in the program's is found.
fn is_forbidden(one: char) -> bool {
    let others = [
        0xad..=0xad,
        0x34f..=0x34f,
        0x61c..=0x61c,
        0x115f..=0x1160,
        0x17b4..=0x17b5,
        0x180b..=0x180f,
        0x200b..=0x200f,
        0x2028..=0x202e,
        0x2060..=0x206f,
        0x3164..=0x3164,
        0xe000..=0xf8ff,
        0xfe00..=0xfe0f,
        0xfeff..=0xfeff,
        0xffa0..=0xffa0,
        0xfff0..=0xfffb,
        0xe0000..=0xe0fff,
    ];
    (one.is_control() && one != '\n') || others.iter().any(|range| range.contains(&(one as u32)))
}

fn assert_clean(what: &[&str], output: &Output) {
    for bytes in [&output.stdout, &output.stderr] {
        let text = std::str::from_utf8(bytes).unwrap_or_else(|_| panic!("{what:?}: no text"));
        let found = text.chars().find(|one| is_forbidden(*one));
        assert_eq!(found, None, "{what:?}: {text:?}");
        // A name cannot begin a line of its own.
        assert!(
            !text
                .lines()
                .any(|line| line.starts_with("\rd") || line == "d")
        );
    }
}

/// The commands that `--help` lists, with those below them.
fn commands(place: &Place, above: &[&str]) -> Vec<Vec<String>> {
    let help = place.done(&[above, &["--help"]].concat());
    let listed = help.split_once("Commands:\n").map_or("", |(_, rest)| rest);
    let listed = listed.split("\n\n").next().unwrap_or_default();
    let names = listed
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next());
    let mut all = Vec::new();
    for name in names {
        let path = [above, &[name]].concat();
        let below = commands(place, &path);
        if below.is_empty() {
            all.push(path.into_iter().map(str::to_owned).collect());
        }
        all.extend(below);
    }
    all
}

/// Ways to have a command speak of the evil vault `v`, a path `p` in it, one that is `missing`, and local names.
fn ways<'a>(command: &str, [v, p, missing, local, no_local]: [&'a str; 5]) -> Vec<Vec<&'a str>> {
    let key = ["--key-file", "key"];
    let with = |ways: &[&[&'a str]]| -> Vec<Vec<&'a str>> {
        ways.iter().map(|way| [*way, &key].concat()).collect()
    };
    let bare = |ways: &[&[&'a str]]| ways.iter().map(|way| way.to_vec()).collect();
    match command {
        "init" => with(&[
            &[v],
            &["--suite", EVIL, "x"],
            &["--recipient", EVIL, no_local],
        ]),
        "mount" => with(&[&[v, no_local], &["-o", EVIL, v, no_local], &[v, local]]),
        "unlock" => with(&[&[no_local], &["--for", EVIL, v]]),
        "lock" => bare(&[&[v], &[no_local], &["--json", v]]),
        "umount" => bare(&[&[no_local], &[local]]),
        "ls" => with(&[
            &[v],
            &["-l", v],
            &["--json", v],
            &["--json", v, p],
            &[v, p],
            &[missing],
            &["-0", v],
        ]),
        "tree" | "find" => with(&[&[v], &["--json", v], &[missing]]),
        "cat" | "mkdir" | "erase" => with(&[&[missing], &[p], &[v]]),
        "pin" => with(&[&[missing], &["--list", v], &["--json", p]]),
        "unpin" => with(&[&[missing], &["--json", p]]),
        "evict" => with(&[
            &[v],
            &[missing],
            &["--undo", missing],
            &["--json", p],
            &["--keep-at-most", "1G", v],
            &["--keep-at-most", "none", "--json", v],
        ]),
        "stat" => with(&[&[p], &["--json", p], &[missing]]),
        "put" => with(&[
            &[no_local, v],
            &[local, missing],
            &["--json", local, v],
            &[local, p],
        ]),
        "get" => with(&[
            &[missing, "out"],
            &[p, no_local],
            &[v, "out"],
            &["--json", v, "out"],
        ]),
        "cp" | "mv" => with(&[&[missing, p], &[p, missing]]),
        "rm" => with(&[&[missing], &[v], &[p]]),
        // As lines, it is for a program: `--check` of b3sum needs names as they are.
        "hash" => with(&[&["-r", "--json", v], &["--json", missing]]),
        "info" | "stats" => with(&[&[v], &["--json", v], &[no_local]]),
        "verify" => with(&[
            &[v],
            &["--json", v],
            &["--structure", v],
            &["--structure", "--json", v],
            &[no_local],
        ]),
        "df" | "quota" | "compression" | "sync" | "compact" => {
            with(&[&[v], &["--json", v], &[no_local]])
        }
        "backup" => with(&[
            &[v, "copy"],
            &["--json", v, "copy"],
            &[v, local],
            &[no_local, "x"],
        ]),
        "repair" => with(&[
            &["--dry-run", v],
            &["--dry-run", "--json", v],
            &["--rebuild", v],
            &["--json", v],
            &[no_local],
        ]),
        "bench" => bare(&[&["--quick", no_local], &["--only", EVIL, "."]]),
        "tune" => bare(&[
            &["--prefer", EVIL],
            &["--chart", no_local, "--threads", EVIL],
        ]),
        "log" => with(&[&[v], &["--json", v], &[p], &[missing], &[v, EVIL]]),
        "diff" => with(&[
            &[v, "h:"],
            &["--json", v, "t:one"],
            &["--stat", v, "t:one"],
            &[v, EVIL],
        ]),
        "restore" => with(&[&[missing, "t:one"], &[p, EVIL], &["--json", p, "t:one"]]),
        "snapshot create" => with(&[&[v, "-m", EVIL], &[v, "--tag", EVIL], &[no_local]]),
        "snapshot list" | "snapshot keep" => with(&[&[v], &["--json", v], &[no_local]]),
        "snapshot remove" => with(&[&[v, EVIL], &[no_local, "t:one"]]),
        "key list" => bare(&[&[v], &["--json", v], &[no_local]]),
        "key add" => with(&[
            &[v, "--label", EVIL],
            &[v, "--recipient", EVIL],
            &[no_local],
        ]),
        "key remove" | "key change" => with(&[&[v, EVIL], &[no_local, EVIL]]),
        "key rotate" => with(&[&[no_local], &[v]]),
        "device list" => bare(&[&[v], &["--json", v], &[no_local]]),
        "device add" => with(&[&[v, EVIL], &["--json", v, EVIL], &[v], &[no_local]]),
        "device remove" => with(&[&[v, EVIL], &[no_local]]),
        "device rename" => with(&[
            &[v, EVIL, "name"],
            &["--json", v, EVIL, "name"],
            &[v, "0", EVIL],
            &[no_local, "0", "name"],
        ]),
        "device accept" => with(&[&[v], &[no_local]]),
        "device compare" => with(&[&[v], &["--json", v], &[no_local]]),
        "remote add" => with(&[
            &[v, EVIL, "folder:/nowhere"],
            &[v, "name", EVIL],
            &[v, "name", EVIL_URL],
            &[no_local, "name", "folder:/nowhere"],
        ]),
        "remote list" | "pull" | "push" | "remote check" | "remote prune" => {
            with(&[&[v], &["--json", v], &[no_local]])
        }
        "remote guessable" => with(&[&[v, "yes"], &[v, EVIL], &[no_local, "no"]]),
        "remote remove" => with(&[&[v, EVIL], &[no_local, "name"]]),
        "conflicts keep" => with(&[&["theirs", p], &["mine", missing], &[EVIL, p]]),
        "clone" => with(&[
            &[EVIL_URL, "out"],
            &[EVIL, no_local],
            &["folder:/", local],
            &["--pair", "--name", EVIL, EVIL_URL, "out"],
            &["--pair", "folder:/", local],
            &["--on-demand", EVIL, no_local],
        ]),
        "inbox add" => with(&[&[v, EVIL], &[v, "post", EVIL], &[no_local, "post"]]),
        "inbox address" | "inbox remove" => {
            with(&[&[v, EVIL], &["--json", v, "post"], &[no_local, "post"]])
        }
        "inbox list" => with(&[&[v], &["--json", v], &[no_local]]),
        "inbox discard" | "inbox retry" => {
            with(&[&[v, EVIL], &[v, NO_DEPOSIT], &[no_local, NO_DEPOSIT]])
        }
        "deposit" => bare(&[
            &[EVIL, local],
            &[EVIL_URL, no_local],
            &["--json", EVIL_URL, "-", "--name", EVIL],
            &["folder:/", "-", "--from", EVIL],
        ]),
        // Each is refused before it serves.
        "serve" => bare(&[
            &[v],
            &["--account", EVIL, "out"],
            &["--listen", EVIL, "out"],
            &["--name", EVIL, v],
            &["--certificate", no_local, "--key", no_local, "out"],
        ]),
        "completions" => bare(&[&[EVIL]]),
        "man" => bare(&[&[local]]),
        other => panic!("{other}: say in this test how it is made to speak of names"),
    }
}

/// Failed before: errors of `put`, the vault's path in every error, `--json`, and what clap says of a wrong word.
/// SECURITY.md, claim 15.
#[test]
fn no_command_lets_a_name_from_outside_reach_a_terminal_as_it_is() {
    let place = Place::empty();
    let vault = format!("v{EVIL}");
    place.done(&["init", &vault, "--key-file", "key"]);
    let local = format!("local{EVIL}");
    let tree = place.path(&local);
    fs::create_dir_all(tree.join(EVIL)).unwrap();
    fs::write(tree.join(EVIL).join(EVIL), "content").unwrap();
    fs::write(
        tree.join(std::ffi::OsStr::from_bytes(b"raw\xff\xc2\x9b")),
        "raw",
    )
    .unwrap();
    let conflict = format!("{EVIL} (conflict, 5f2c9a01, 2026-11-23 14.03)");
    fs::write(tree.join(conflict), "").unwrap();
    std::os::unix::fs::symlink(EVIL, tree.join("link")).unwrap();
    std::os::unix::net::UnixListener::bind(tree.join("s")).unwrap();
    let name = format!("user.{EVIL}");
    let set = rustix::fs::setxattr(
        tree.join("link").parent().unwrap(),
        name,
        b"",
        XattrFlags::empty(),
    );
    if set.is_err() {
        eprintln!("left out: this file system takes no extended attributes");
    }
    let v = vault.as_str();
    let (all, p) = (format!("{v}:/"), format!("{v}:/{local}/{EVIL}"));
    let missing = format!("{v}:/no/{EVIL}");
    let no_local = format!("no{EVIL}/{EVIL}");
    place.keyed(&["put", &local, &all]);
    place.keyed(&["snapshot", "create", v, "-m", EVIL, "--tag", "one"]);
    place.keyed(&["put", &local, &format!("{v}:/again{EVIL}")]);
    // It has one below it, so it is not among those that follow.
    for json in [&[][..], &["--json"]] {
        let arguments = [&["conflicts", v, "--key-file", "key"], json].concat();
        let output = place.run_on_terminal(&arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("(conflict, 5f2c9a01"), "{text}");
        assert_clean(&arguments, &output);
    }
    let listed = commands(&place, &[]);
    assert!(listed.len() > 40, "{listed:?}");
    for command in listed {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let mut ways = ways(&words.join(" "), [v, &p, &missing, &local, &no_local]);
        let wrong = format!("--no{EVIL}");
        ways.push(vec![&wrong]);
        for way in ways {
            let arguments = [&words[..], &way[..]].concat();
            assert_clean(&arguments, &place.run_on_terminal(&arguments));
        }
    }
}

/// Goal: what JSON has instead of such characters is read back as they are, and what is no UTF-8 is there as bytes.
/// SECURITY.md, claim 15.
#[test]
fn a_program_gets_every_name_exactly() {
    let place = Place::new();
    fs::create_dir(place.path("t")).unwrap();
    fs::write(place.path("t").join(EVIL), "").unwrap();
    let raw = b"raw\xff\xc2\x9b";
    fs::write(place.path("t").join(std::ffi::OsStr::from_bytes(raw)), "").unwrap();
    std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(raw), place.path("t/l")).unwrap();
    place.keyed(&["put", "t", "v:/"]);
    let found = place.keyed(&["find", "--json", "v:/t"]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let found = found.as_array().unwrap();
    let hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(found.iter().any(|one| one["name"] == EVIL));
    assert!(found.iter().any(|one| one["bytes"] == hex));
    assert!(found.iter().any(|one| one["target_bytes"] == hex));
    let path: String = b"/t/".iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(
        found
            .iter()
            .any(|one| one["path_bytes"] == path.clone() + &hex)
    );
    // Two names that differ are shown differently.
    fs::write(place.path("a\u{1b}"), "").unwrap();
    fs::write(place.path("a\\u{1b}"), "").unwrap();
    place.keyed(&["put", "a\u{1b}", "a\\u{1b}", "v:/"]);
    let ls = ["ls", "v:/", "--key-file", "key"];
    let listed = String::from_utf8(place.run_on_terminal(&ls).stdout).unwrap();
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        ["a\\u{1b}", "a\\\\u{1b}", "t"]
    );
    // Into a pipe they go as they are; with --null, line breaks in them too.
    assert_eq!(place.keyed(&["ls", "v:/"]), "a\u{1b}\na\\u{1b}\nt\n");
    let found = place.keyed_bytes(&["find", "-0", "v:/t"]);
    let mut found: Vec<&[u8]> = found.split(|byte| *byte == 0).collect();
    assert_eq!(found.pop(), Some(&b""[..]));
    let path = |name: &[u8]| [b"/t/", name].concat();
    assert!(found.contains(&&path(raw)[..]) && found.contains(&&path(EVIL.as_bytes())[..]));
    let listed = place.keyed_bytes(&["ls", "--null", "v:/t"]);
    assert!(
        listed
            .split(|byte| *byte == 0)
            .any(|name| name == EVIL.as_bytes())
    );
    for command in ["ls", "find"] {
        let refused = place.run_on_terminal(&[command, "-0", "v:/", "--key-file", "key"]);
        assert_eq!(refused.status.code(), Some(2), "{command}");
    }
}

// ---- what only a key holder or decay writes

/// Changes rows of the closed vault `v`, past every check of the engine.
fn write(place: &Place, change: impl FnOnce(&mut Transaction<'_>)) {
    let key = fs::read(place.path("key")).unwrap();
    let secret = strongroom::Secret::KeyFile(strongroom::KeyFile::parse(&key).unwrap());
    let header = fs::read(place.path("v/vault.json")).unwrap();
    let keyring = strongroom_crypto::unlock(&header, &secret, None).unwrap();
    let replica = fs::read(place.path("v/replica.json")).unwrap();
    let replica = keyring.open_replica(&replica).unwrap();
    let key = replica.metadata_key().bytes();
    let store = Store::open(&place.path("v"), key, Default::default()).unwrap();
    let mut transaction = store.lock();
    change(&mut transaction);
    transaction.commit().unwrap();
    drop(transaction);
    store.sync_log().unwrap();
}

fn find(writer: &Transaction<'_>, path: &str) -> Inode {
    let mut at = InodeId::ROOT;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        at = writer.entry(at, name.as_bytes()).unwrap().unwrap().inode;
    }
    writer.inode(at).unwrap().unwrap()
}

fn name(writer: &mut Transaction<'_>, directory: InodeId, name: &[u8], node: &Inode) {
    let entry = Entry {
        name: name.to_vec(),
        inode: node.id,
        kind: node.kind,
        cookie: writer.next_cookie(),
    };
    writer.insert_entry(directory, &entry).unwrap();
}

fn with_tree() -> Place {
    let place = Place::new();
    for path in ["a/b/c", "a/d"] {
        fs::create_dir_all(place.path("t").join(path)).unwrap();
    }
    for path in ["a/one", "a/b/two", "a/b/c/three", "a/d/four", "last"] {
        fs::write(place.path("t").join(path), path).unwrap();
    }
    place.keyed(&["put", "t", "v:/"]);
    place
}

/// Names that lead elsewhere, of the file `a/one`, in the directory `a`.
const IMPOSSIBLE: [&[u8]; 5] = [b"..", b".", b"../../../escaped", b"x/y", b"nul\0"];

/// Failed before: `verify` said nothing, and a mount gave EIO for the whole directory.
/// SECURITY.md, claim 17.
#[test]
fn names_that_cannot_be_are_told_and_never_used() {
    let place = with_tree();
    write(&place, |writer| {
        let (directory, file) = (find(writer, "t/a"), find(writer, "t/a/one"));
        for wrong in IMPOSSIBLE {
            name(writer, directory.id, wrong, &file);
        }
    });
    for (command, code) in [("verify --structure", 14), ("verify", 14)] {
        let words: Vec<&str> = command.split(' ').collect();
        let output = place.run_keyed(&[&words, &["v"][..]].concat());
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        for wrong in [
            "\"..\"",
            "\".\"",
            "\"../../../escaped\"",
            "\"x/y\"",
            "\"nul\\x00\"",
        ] {
            let told = said
                .lines()
                .any(|line| line.contains(wrong) && line.contains("is not allowed"));
            assert!(told, "{command}: {wrong}: {said}");
        }
    }
    assert_eq!(place.keyed(&["ls", "v:/t/a"]), "b\nd\none\n");
    assert_eq!(place.keyed(&["tree", "v:/t"]).lines().count(), 10);
    assert_eq!(place.keyed(&["find", "v:/t"]).lines().count(), 10);
    place.keyed(&["get", "v:/t", "out"]);
    place.keyed(&["cp", "v:/t", "v:/copy"]);
    place.keyed(&["hash", "-r", "v:/t"]);
    place.keyed(&["snapshot", "create", "v", "--tag", "one"]);
    assert_eq!(place.keyed(&["ls", "v:/.history/t:one/t/a"]), "b\nd\none\n");
    place.keyed(&["restore", "v:/t", "t:one", "--to", "/back"]);
    assert_eq!(place.keyed(&["ls", "v:/back/a"]), "b\nd\none\n");
    let files = |folder: &str| walked(&place.path(folder));
    assert_eq!(files("out"), files("t"));
    assert!(!place.path("escaped").exists() && !place.path("out/escaped").exists());
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("left out: this needs root and /dev/fuse");
        return;
    }
    fs::create_dir(place.path("m")).unwrap();
    let mounted = support::MountPoint::new(&place);
    place.keyed(&["mount", "v", "m"]);
    assert_eq!(walked(&place.path("m/t")), files("t"));
    place.done(&["umount", "m"]);
    drop(mounted);
}

/// Every path below `folder`, in order.
fn walked(folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            paths.push(
                path.strip_prefix(folder)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned(),
            );
            if path.is_dir() {
                waiting.push(path);
            }
        }
    }
    paths.sort();
    paths
}

/// Failed before: `find` and `get` went round until the path was too long; `snapshot create` until it was 8,192 levels deep.
/// SECURITY.md, claim 17.
#[test]
fn a_directory_that_contains_itself_is_told_and_the_rest_is_done() {
    let place = with_tree();
    write(&place, |writer| {
        let (top, middle) = (find(writer, "t/a"), find(writer, "t/a/b"));
        // Into itself, and into what lies below it; twice, so that the ways double with each round.
        name(writer, middle.id, b"self", &middle);
        name(writer, middle.id, b"up", &top);
        name(writer, middle.id, b"up-again", &top);
    });
    let begun = Instant::now();
    for (command, code) in [("verify --structure", 14), ("verify", 14)] {
        let words: Vec<&str> = command.split(' ').collect();
        let output = place.run_keyed(&[&words, &["v"][..]].concat());
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(code), "{command}: {said}");
        assert!(
            said.contains(" names, not one\n") && said.contains(" is in directory "),
            "{said}"
        );
    }
    let again = ["/t/a/b/self", "/t/a/b/up", "/t/a/b/up-again"];
    let told = |arguments: &[&str]| {
        let output = place.run_keyed(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(5), "{arguments:?}: {said}");
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("left out"))
            .collect();
        assert_eq!(lines.len(), again.len(), "{arguments:?}: {said}");
        for path in again {
            let start = format!("strongroom: {path}: ");
            assert!(lines.iter().any(|line| line.starts_with(&start)), "{said}");
        }
        String::from_utf8(output.stdout).unwrap()
    };
    // Ten of the tree, and the three names that are not gone into.
    assert_eq!(told(&["find", "v:/t"]).lines().count(), 13);
    assert_eq!(told(&["tree", "v:/t"]).lines().count(), 13);
    assert_eq!(told(&["hash", "-r", "v:/t"]).lines().count(), 5);
    told(&["get", "v:/t", "out"]);
    assert_eq!(walked(&place.path("out")), walked(&place.path("t")));
    // What could not be copied is not taken for something that the vault has not.
    fs::create_dir(place.path("out/a/b/self")).unwrap();
    fs::create_dir(place.path("into")).unwrap();
    fs::rename(place.path("out"), place.path("into/t")).unwrap();
    told(&["get", "--delete", "v:/t", "into"]);
    assert!(place.path("into/t/a/b/self").exists());
    told(&["cp", "v:/t", "v:/copy"]);
    assert_eq!(place.keyed(&["find", "v:/copy"]).lines().count(), 10);
    place.keyed(&["snapshot", "create", "v", "--tag", "one"]);
    let kept = place.keyed(&["find", "v:/.history/t:one/t"]);
    assert!(
        kept.lines().count() >= 10 && kept.lines().count() < 100,
        "{kept}"
    );
    place.keyed(&["get", "v:/t/a/b/c/three", "three"]);
    let output = place.run_keyed(&["rm", "-r", "v:/t"]);
    assert_ne!(output.status.code(), Some(0));
    assert_eq!(place.keyed(&["ls", "v"]), "copy\nt\n");
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
}

/// Goal: names that double at every level, without a circle, cost no more than the directories there are.
#[test]
fn directories_with_two_names_each_do_not_double_the_work_at_every_level() {
    const LEVELS: usize = 40;
    let place = Place::new();
    let path: String = (0..LEVELS).map(|level| format!("/{level}")).collect();
    place.keyed(&["mkdir", "-p", &format!("v:{path}")]);
    write(&place, |writer| {
        let mut above = String::new();
        for level in 0..LEVELS {
            let (holder, path) = (find(writer, &above), format!("{above}/{level}"));
            let node = find(writer, &path);
            name(writer, holder.id, b"again", &node);
            above = path;
        }
    });
    let begun = Instant::now();
    for command in ["find", "tree", "hash"] {
        let recursive: &[&str] = if command == "hash" { &["-r"] } else { &[] };
        let output = place.run_keyed(&[&[command], recursive, &["v:/"]].concat());
        let vault = place.run_keyed(&[command, "v"]);
        assert!(
            output.status.code() == Some(5) || vault.status.code() == Some(5),
            "{command}"
        );
    }
    for command in [&["verify", "v"][..], &["verify", "--structure", "v"]] {
        let output = place.run_keyed(command);
        assert_eq!(output.status.code(), Some(14), "{command:?}");
    }
    place.keyed(&["snapshot", "create", "v"]);
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
}

/// Failed before: `verify` said nothing of a size that no file has, nor `--structure` of a block that no key opens.
#[test]
fn sizes_and_epochs_that_cannot_be_are_told_with_and_without_content() {
    let place = Place::new();
    fs::write(place.path("a"), vec![7; 300_000]).unwrap();
    fs::write(place.path("b"), "b").unwrap();
    place.keyed(&["put", "a", "b", "v:/"]);
    write(&place, |writer| {
        let mut node = find(writer, "b");
        assert_eq!(node.kind, NodeKind::File);
        node.size = i64::MAX.cast_unsigned();
        writer.put_inode(&node).unwrap();
        let blocks = (1..=writer.newest_block().0).map(BlockNumber);
        let mut blocks = blocks.filter_map(|number| writer.block(number).unwrap());
        let stored = blocks.find(|block| matches!(block.place, Stored::Segment(..)));
        let block = stored.unwrap();
        let epoch = strongroom_format::Epoch(9);
        writer.move_block(block.number, epoch, block.place).unwrap();
    });
    for (command, code) in [("verify --structure", 14), ("verify", 14)] {
        let words: Vec<&str> = command.split(' ').collect();
        let output = place.run_keyed(&[&words, &["v"][..]].concat());
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(
            said.contains("more than any file can have"),
            "{command}: {said}"
        );
        assert!(said.contains("sealed under epoch 9"), "{command}: {said}");
    }
}

/// Failed before: `verify` read all of a database that was extended without taking any disk, and kept a line
/// in memory for each page.
/// SECURITY.md, claim 17.
#[test]
fn a_database_extended_to_a_tebibyte_is_told_at_once() {
    let place = with_tree();
    for (command, code) in [("ls", 0), ("verify --structure", 14), ("verify", 14)] {
        let database = fs::File::options()
            .write(true)
            .open(place.path("v/metadata.db"))
            .unwrap();
        // A command that changes something cuts it off again.
        if database.set_len(1 << 40).is_err() {
            eprintln!("left out: no file of this file system is as long as that");
            return;
        }
        let begun = Instant::now();
        let words: Vec<&str> = command.split(' ').collect();
        let output = place.run_keyed(&[&words, &["v"][..]].concat());
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(code), "{command}: {said}");
        assert!(
            command == "ls" || said.contains("1099511627776 bytes long"),
            "{said}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{command}: {:?}",
            begun.elapsed()
        );
    }
}

// ---- headers that keep a machine busy

/// Failed before: one wrong passphrase took 4 GiB and a minute.
/// SECURITY.md, claim 17.
#[test]
fn a_header_that_wants_more_than_a_gibibyte_is_refused_unless_it_is_allowed() {
    let place = Place::empty();
    fs::write(place.path("words"), "correct horse\n").unwrap();
    place.done(&["init", "v", "--passphrase-file", "words"]);
    let header = place.path("v/vault.json");
    let text = fs::read_to_string(&header).unwrap();
    let start = text.find("\"memory_kib\": ").unwrap() + "\"memory_kib\": ".len();
    let end = start
        + text[start..]
            .find(|one: char| !one.is_ascii_digit())
            .unwrap();
    assert!(
        text[start..end].parse::<u32>().unwrap() <= 1024 * 1024,
        "made unasked"
    );
    let changed = format!("{}{}{}", &text[..start], 4 * 1024 * 1024, &text[end..]);
    let covered = changed.split("  \"checksum\": \"").next().unwrap();
    let sum = blake3::hash(covered.as_bytes()).to_hex();
    fs::write(&header, format!("{covered}  \"checksum\": \"{sum}\"\n}}\n")).unwrap();
    fs::remove_file(place.path("v/vault.json.saved")).unwrap();
    for command in [
        &["ls", "v"][..],
        &["verify", "v"],
        &["key", "rotate", "v"],
        &["info", "--unlock", "v"],
        &["repair", "v"],
        &["ls", "v", "--allow-memory", "2G"],
    ] {
        let begun = Instant::now();
        let message = place.fails(8, &[command, &["--passphrase-file", "words"]].concat());
        assert!(
            message.contains("--allow-memory 4096M"),
            "{command:?}: {message}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
    }
}

// ---- one way out

/// Goal: whoever adds a line of output sends it through `output.rs`, `failure.rs` or `logging.rs`, which escape.
#[test]
fn nothing_is_printed_past_what_escapes_it() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut looked = 0;
    for file in walked(&sources) {
        if !file.ends_with(".rs") {
            continue;
        }
        looked += 1;
        let text = fs::read_to_string(sources.join(&file)).unwrap();
        for (number, line) in text.lines().enumerate() {
            let allowed = match file.as_str() {
                "terminal/output.rs" => {
                    line.contains("io::stdout().lock()") || line.contains("is_terminal()")
                }
                "terminal/failure.rs" | "terminal/logging.rs" => line.contains("io::stderr()"),
                // Content of files, and what clap writes.
                "commands/show.rs" | "commands/get.rs" | "commands/generate.rs" => {
                    line.contains("io::stdout()") && !line.contains("write!(")
                }
                _ => line.contains("is_terminal()"),
            };
            let prints = [
                "println!",
                "eprint",
                " print!",
                "io::stdout()",
                "io::stderr()",
                ".display()",
            ];
            let found = prints.iter().find(|one| line.contains(**one));
            assert!(
                allowed || found.is_none(),
                "{file}:{}: {line}: print by output.rs or failure.rs, show paths by printable.rs",
                number + 1
            );
        }
    }
    assert!(looked > 50, "{looked}");
}

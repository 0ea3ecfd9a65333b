//! The attributes that `put` and `get` keep, their reports of the others, and what an interruption leaves.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use rustix::process::{Pid, Signal, kill_process};
use support::{MountPoint, NOBODY, Place, as_nobody};

const GIB: u64 = 1 << 30;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

fn set_times(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = |tv_sec| Timespec {
        tv_sec,
        tv_nsec: nanoseconds as _,
    };
    let times = Timestamps {
        last_access: time(seconds - 5),
        last_modification: time(seconds),
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// A tree with one of everything; whether the file system below takes extended attributes.
fn make_tree(tree: &Path) -> bool {
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("file"), "content").unwrap();
    fs::hard_link(tree.join("file"), tree.join("sub/again")).unwrap();
    symlink("nowhere", tree.join("link")).unwrap();
    fs::hard_link(tree.join("link"), tree.join("link-again")).unwrap();
    rustix::fs::mknodat(CWD, tree.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let sparse = File::create(tree.join("sparse")).unwrap();
    sparse.set_len(GIB).unwrap();
    sparse.write_all_at(b"in the middle", GIB / 2).unwrap();
    let xattr = |path: &Path, name: &str, value: &[u8]| {
        rustix::fs::setxattr(path, name, value, XattrFlags::empty()).is_ok()
    };
    let has_xattrs = xattr(&tree.join("file"), "user.colour", b"blue\0green")
        && xattr(&tree.join("sub"), "user.of.directory", b"");
    fs::set_permissions(tree.join("file"), fs::Permissions::from_mode(0o4750)).unwrap();
    fs::set_permissions(tree.join("pipe"), fs::Permissions::from_mode(0o626)).unwrap();
    fs::set_permissions(tree.join("sub"), fs::Permissions::from_mode(0o2711)).unwrap();
    if is_root() {
        let null = rustix::fs::makedev(1, 3);
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(
            CWD,
            tree.join("null"),
            FileType::CharacterDevice,
            mode,
            null,
        )
        .unwrap();
        for (name, owner) in [("link", 1001), ("pipe", 1002), ("sub", 1003)] {
            std::os::unix::fs::lchown(tree.join(name), Some(owner), Some(owner + 1)).unwrap();
        }
    }
    for (number, name) in ["file", "link", "pipe", "sparse", "sub"]
        .into_iter()
        .enumerate()
    {
        set_times(&tree.join(name), 1_000_000_000 + number as i64, 123_456_789);
    }
    has_xattrs
}

fn xattr(path: &Path, name: &str) -> Vec<u8> {
    let mut value = vec![0; 100];
    let len = rustix::fs::getxattr(path, name, &mut value[..]).unwrap();
    value.truncate(len);
    value
}

/// Compares everything but the content of the nodes of `tree` with the copies in `back`.
fn assert_kept(tree: &Path, back: &Path, has_xattrs: bool) {
    for name in ["file", "link", "pipe", "sparse", "sub", "sub/again"] {
        let (one, two) = (
            fs::symlink_metadata(tree.join(name)).unwrap(),
            fs::symlink_metadata(back.join(name)).unwrap(),
        );
        assert_eq!(one.file_type(), two.file_type(), "{name}");
        assert_eq!(one.mode(), two.mode(), "{name}");
        assert_eq!((one.uid(), one.gid()), (two.uid(), two.gid()), "{name}");
        assert_eq!(
            (one.mtime(), one.mtime_nsec()),
            (two.mtime(), two.mtime_nsec()),
            "{name}"
        );
        assert_eq!(one.nlink(), two.nlink(), "{name}");
        assert_eq!(one.rdev(), two.rdev(), "{name}");
    }
    let inode = |name: &str| fs::symlink_metadata(back.join(name)).unwrap().ino();
    assert_eq!(inode("file"), inode("sub/again"));
    assert_eq!(inode("link"), inode("link-again"));
    if has_xattrs {
        assert_eq!(xattr(&back.join("file"), "user.colour"), b"blue\0green");
        assert_eq!(xattr(&back.join("sub"), "user.of.directory"), b"");
    } else {
        eprintln!("left out: this file system takes no extended attributes");
    }
}

/// Failed before: the mode came first, and forbade a normal user to set the attributes.
#[test]
fn what_may_only_be_read_keeps_its_extended_attributes() {
    if !is_root() {
        eprintln!("left out: this needs root");
        return;
    }
    let place = Place::new();
    let tree = place.path("t");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("file"), "content").unwrap();
    for (name, mode) in [("file", 0o444), ("sub", 0o555)] {
        let path = tree.join(name);
        if rustix::fs::setxattr(&path, "user.colour", b"blue", XattrFlags::empty()).is_err() {
            eprintln!("left out: this file system takes no extended attributes");
            return;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    place.keyed(&["put", "t", "v:/"]);
    let output = as_nobody(&place, &["get", "--json", "v:/t", "mine"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let account = json(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(account["left_out_count"], 0, "{account}");
    for (name, mode) in [("file", 0o444), ("sub", 0o555)] {
        let path = place.path("mine").join(name);
        assert_eq!(xattr(&path, "user.colour"), b"blue");
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, mode);
    }
}

/// Failed before: a copy inside the vault had no extended attributes, its hard links were separate files, and symbolic links, pipes
/// and devices had other owners and times.
#[test]
fn a_copy_inside_the_vault_keeps_what_put_and_get_keep() {
    let place = Place::new();
    let tree = place.path("t");
    let has_xattrs = make_tree(&tree);
    place.keyed(&["put", "t", "v:/"]);
    place.keyed(&["cp", "v:/t", ":/copy"]);
    place.keyed(&["get", "--special", "v:/copy", "back"]);
    assert_kept(&tree, &place.path("back"), has_xattrs);
    // From a snapshot, and as two sources of one command.
    place.keyed(&["snapshot", "create", "v", "--tag", "one"]);
    place.keyed(&["cp", "v:/.history/t:one/t", ":/copy"]);
    place.keyed(&["get", "--special", "v:/copy/t", "again"]);
    assert_kept(&tree, &place.path("again"), has_xattrs);
    place.keyed(&["mkdir", "v:/two"]);
    place.keyed(&["cp", "v:/t/file", "v:/t/sub", ":/two"]);
    let inside = json(&place.keyed(&["stat", "--json", "v:/two/file", "v:/two/sub/again"]));
    assert_eq!(inside[0]["inode"], inside[1]["inode"]);
    place.keyed(&["verify", "--structure", "v"]);
    let found = place.keyed(&["find", "v", "--name", ".strongroom*"]);
    assert_eq!(found, "", "names used on the way");
}

/// Failed before: the copy had another time than the file, and nobody was told.
#[test]
fn times_that_a_vault_cannot_hold_are_told_and_counted() {
    const SECONDS_OF_2300: i64 = 10_413_792_000;
    let place = Place::new();
    fs::create_dir(place.path("t")).unwrap();
    for name in ["t/late", "t/usual"] {
        fs::write(place.path(name), "content").unwrap();
    }
    symlink("late", place.path("t/link")).unwrap();
    for name in ["t/late", "t/link"] {
        set_times(&place.path(name), SECONDS_OF_2300, 0);
    }
    let local = fs::metadata(place.path("t/late")).unwrap();
    if local.mtime() != SECONDS_OF_2300 {
        eprintln!("left out: the disk below cannot hold such a time either");
        return;
    }
    let output = place.run_keyed(&["put", "t", "v:/"]);
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("t/late: not kept: its times ("), "{told}");
    assert!(!told.contains("usual"), "{told}");
    assert!(
        told.contains("files and directories with a time that a vault cannot store: 2"),
        "{told}"
    );
    let account = json(&place.keyed(&["put", "--json", "t", "v:/"]));
    assert_eq!(account["nearest_times"], 2, "{account}");
    let late = json(&place.keyed(&["stat", "--json", "v:/t/late"]));
    let modified = late[0]["modified"].as_str().unwrap();
    assert!(modified.starts_with("2262-04-11"), "{modified}");
}

#[test]
fn a_tree_that_went_in_and_came_out_is_the_same_in_everything_that_can_be_kept() {
    let place = Place::new();
    let (tree, back) = (place.path("t"), place.path("back"));
    let has_xattrs = make_tree(&tree);
    let account = json(&place.keyed(&["put", "--json", "t", "v:/"]));
    assert_eq!(account["left_out_count"], 0, "{account}");
    assert_eq!(
        (&account["files"], &account["hard_links"]),
        (&2.into(), &2.into())
    );
    // A hole is not read: what was moved is little.
    assert!(account["bytes"].as_u64().unwrap() < 1 << 21, "{account}");
    let inside = json(&place.keyed(&[
        "stat",
        "--json",
        "v:/t/file",
        "v:/t/sub/again",
        "v:/t/sparse",
    ]));
    assert_eq!(inside[0]["inode"], inside[1]["inode"]);
    assert_eq!(inside[0]["nlink"], 2);
    assert_eq!(inside[2]["size"], GIB);
    assert!(inside[2]["allocated"].as_u64().unwrap() < 1 << 21);

    let account = json(&place.keyed(&["get", "--special", "--json", "v:/t", "back"]));
    assert_eq!(account["left_out_count"], 0, "{account}");
    assert!(account["bytes"].as_u64().unwrap() < 1 << 21, "{account}");
    assert_kept(&tree, &back, has_xattrs);
    let sparse = fs::metadata(back.join("sparse")).unwrap();
    assert_eq!(sparse.len(), GIB);
    assert!(
        sparse.blocks() * 512 < 1 << 21,
        "{} blocks",
        sparse.blocks()
    );
    let mut middle = [0; 13];
    let file = File::open(back.join("sparse")).unwrap();
    file.read_exact_at(&mut middle, GIB / 2).unwrap();
    assert_eq!(&middle, b"in the middle");
    if is_root() {
        let null = fs::metadata(back.join("null")).unwrap();
        assert!(null.file_type().is_char_device());
        assert_eq!(null.rdev(), rustix::fs::makedev(1, 3));
    }
    // Once more onto what is there now: names that belong together still do, and nothing is left beside them.
    place.keyed(&["put", "t", "v:/"]);
    place.keyed(&["get", "--special", "v:/t", "back-again"]);
    place.keyed(&["get", "--special", "v:/t", "back-again"]);
    let names = fs::read_dir(place.path("back-again/t")).unwrap().count();
    assert_eq!(names, fs::read_dir(&tree).unwrap().count());
    place.keyed(&["verify", "--structure", "v"]);
    assert_eq!(
        place.keyed(&["find", "v", "--name", ".strongroom*"]),
        "",
        "names used on the way"
    );
}

#[test]
fn names_of_one_file_given_twice_or_replaced_stay_one_file() {
    let place = Place::new();
    fs::write(place.path("a"), "1").unwrap();
    fs::hard_link(place.path("a"), place.path("b")).unwrap();
    place.keyed(&["put", "a", "b", "v:/"]);
    place.keyed(&["put", "a", "a", "v:/"]);
    place.keyed(&["put", "a", "b", "v:/"]);
    assert_eq!(place.keyed(&["ls", "v"]), "a\nb\n");
    place.keyed(&["get", "v:/a", "v:/a", "."]);
    place.keyed(&["get", "v:/a", "v:/b", "."]);
    let of = |name: &str| fs::metadata(place.path(name)).unwrap();
    assert_eq!(of("a").ino(), of("b").ino());
    assert!(
        place
            .keyed(&["verify", "--structure", "v"])
            .contains("2 inodes, 2 entries")
    );
}

#[test]
fn without_owners_a_copy_belongs_to_who_copies_and_a_strangers_program_loses_its_bits() {
    if !is_root() {
        eprintln!("left out: this needs root");
        return;
    }
    let place = Place::new();
    fs::write(place.path("program"), "x").unwrap();
    std::os::unix::fs::chown(place.path("program"), Some(1001), Some(1002)).unwrap();
    fs::set_permissions(place.path("program"), fs::Permissions::from_mode(0o4755)).unwrap();
    place.keyed(&["put", "program", "v:/"]);
    let account = json(&place.keyed(&[
        "get",
        "--special",
        "--no-owner",
        "--json",
        "v:/program",
        "out",
    ]));
    assert_eq!(account["left_out"][0]["what"], "the set-user-id bits");
    assert_eq!(account["left_out"][0]["path"], "/program");
    let out = fs::metadata(place.path("out")).unwrap();
    assert_eq!((out.uid(), out.gid(), out.mode() & 0o7777), (0, 0, 0o755));
    let output = place.run(&[
        "put",
        "--no-owner",
        "program",
        "v:/own",
        "--key-file",
        "key",
    ]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success());
    assert_eq!(
        said,
        "strongroom: program: not kept: the set-user-id bits (the copy has another owner than the file)\n"
    );
    let inside = json(&place.keyed(&["stat", "--json", "v:/own"]));
    assert_eq!(
        (&inside[0]["uid"], &inside[0]["mode"]),
        (&0.into(), &"0755".into())
    );
}

/// Failed before: for the superuser `get` made set-user-id programs of root, capabilities and devices, which a mount of
/// the same vault refuses.
/// SECURITY.md, claim 16.
#[test]
fn what_gives_rights_comes_out_only_when_asked_for() {
    const CAPABILITY: &[u8] = b"\x01\0\0\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let place = Place::new();
    let tree = place.path("t");
    fs::create_dir(&tree).unwrap();
    for (name, mode) in [("suid", 0o4755), ("sgid", 0o2755), ("both", 0o6711)] {
        fs::write(tree.join(name), name).unwrap();
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o3775)).unwrap();
    let mut rights = 3;
    if is_root() {
        let null = rustix::fs::makedev(1, 3);
        for (name, kind) in [
            ("null", FileType::CharacterDevice),
            ("disk", FileType::BlockDevice),
        ] {
            rustix::fs::mknodat(CWD, tree.join(name), kind, Mode::RUSR, null).unwrap();
        }
        fs::write(tree.join("able"), "able").unwrap();
        let name = "security.capability";
        if rustix::fs::setxattr(tree.join("able"), name, CAPABILITY, XattrFlags::empty()).is_ok() {
            rights += 1;
        } else {
            eprintln!("left out: this file system takes no capabilities");
        }
    }
    place.keyed(&["put", "t", "v:/"]);
    let account = json(&place.keyed(&["get", "--json", "v:/t", "plain"]));
    assert_eq!(account["withheld_rights"], rights, "{account}");
    assert_eq!(account["withheld_devices"], 2 * u64::from(is_root()));
    let of = |copy: &str, name: &str| fs::symlink_metadata(place.path(copy).join(name));
    let mode = |copy: &str, name: &str| of(copy, name).unwrap().mode() & 0o7777;
    let modes = |copy: &str| ["suid", "sgid", "both"].map(|name| mode(copy, name));
    assert_eq!(modes("plain"), [0o755, 0o755, 0o711]);
    // It says to whom new files belong, and runs nothing.
    assert_eq!(mode("plain", ""), 0o3775);
    assert!(of("plain", "null").is_err() && of("plain", "disk").is_err());
    let said = place.run_keyed(&["get", "v:/t", "again"]);
    let said = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.lines().count(), 1 + usize::from(is_root()), "{said}");
    assert!(said.contains("--special keeps them"), "{said}");
    place.keyed(&["get", "--special", "v:/t", "asked"]);
    assert_eq!(modes("asked"), [0o4755, 0o2755, 0o6711]);
    if is_root() {
        assert!(of("asked", "null").unwrap().file_type().is_char_device());
    }
    if rights == 4 {
        assert_eq!(
            xattr(&place.path("asked/able"), "security.capability"),
            CAPABILITY
        );
        let mut value = [0; 100];
        let name = "security.capability";
        assert!(rustix::fs::getxattr(place.path("plain/able"), name, &mut value[..]).is_err());
    }
}

#[test]
fn a_device_that_this_user_cannot_make_is_left_out_with_its_reason_and_the_rest_is_copied() {
    if !is_root() {
        eprintln!("left out: this needs root");
        return;
    }
    let place = Place::new();
    make_tree(&place.path("t"));
    place.keyed(&["put", "t", "v:/"]);
    let output = as_nobody(&place, &["get", "--special", "v:/t", "mine", "--json"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(8), "{said}");
    assert_eq!(
        said,
        "strongroom: /t/null: left out: only the superuser can make devices\n"
    );
    let account = json(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(
        (&account["failed"], &account["files"]),
        (&1.into(), &2.into())
    );
    let file = fs::metadata(place.path("mine/file")).unwrap();
    assert_eq!((file.uid(), file.mode() & 0o7777), (NOBODY, 0o750));
    let pipe = fs::metadata(place.path("mine/pipe")).unwrap();
    assert!(pipe.file_type().is_fifo());
}

fn signal(child: &Child, signal: Signal) {
    // One that has just ended is not there any more.
    let _ = kill_process(Pid::from_child(child), signal);
}

/// Goal: an interrupted `get` leaves no half file under its name, and nothing beside it unless it is killed with -9.
/// Method: signals as soon as something of the file is there, until one of them met it half-way.
#[test]
fn an_interrupted_get_leaves_nothing_half_under_the_final_name() {
    let place = Place::new();
    let content: Vec<u8> = (0..64 << 20).map(|at: usize| (at / 4093) as u8).collect();
    fs::write(place.path("big"), &content).unwrap();
    place.keyed(&["put", "big", "v"]);
    for how in [Signal::INT, Signal::TERM, Signal::KILL] {
        let half = (0..20).any(|_| {
            let out = place.path("out");
            let _ = fs::remove_dir_all(&out);
            fs::create_dir(&out).unwrap();
            let mut child = place
                .command(&["get", "v:/big", "out", "--key-file", "key"])
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            while fs::read_dir(&out).unwrap().count() == 0 && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            signal(&child, how);
            let status = child.wait().unwrap();
            let names: Vec<_> = fs::read_dir(&out)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            if out.join("big").exists() {
                assert!(fs::read(out.join("big")).unwrap() == content, "{how:?}");
                return false;
            }
            assert_eq!(status.signal(), Some(how.as_raw()));
            if how == Signal::KILL {
                assert!(names.iter().all(|name| name.starts_with(".strongroom-")));
            } else {
                assert!(names.is_empty(), "{how:?}: {names:?}");
            }
            true
        });
        assert!(half, "one of twenty {how:?} comes before the end");
    }
    place.keyed(&["verify", "--structure", "v"]);
}

/// Goal: a command that a signal ended before each of its sources had its turn does not end with 0: a script would go on and remove them.
/// Method: the key comes through a pipe, so the signal comes when the command already watches for it, and before the first source. That
/// one takes no step that looks for a signal: it is unchanged, or its hash is stored.
/// Failed before: the sources behind it were left out, and the code was 0.
#[test]
fn a_signal_between_two_sources_is_no_success() {
    let place = Place::new();
    for name in ["one", "two"] {
        fs::write(place.path(name), name).unwrap();
    }
    place.keyed(&["put", "one", "two", "v:/"]);
    place.keyed(&["hash", "v:/one", "v:/two"]);
    fs::write(place.path("two"), "newer").unwrap();
    let (pipe, mode) = (place.path("pipe"), Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
    for words in [
        &["put", "one", "two", "v:/"][..],
        &["hash", "v:/one", "v:/two"],
    ] {
        let child = place
            .command(&[words, &["--key-file", "pipe"]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Waits until the command opens it, too.
        let mut key = File::options().write(true).open(&pipe).unwrap();
        signal(&child, Signal::TERM);
        key.write_all(&fs::read(place.path("key")).unwrap())
            .unwrap();
        drop(key);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let ended = (output.status.signal(), said.contains("interrupted"));
        assert_eq!(
            ended,
            (Some(Signal::TERM.as_raw()), true),
            "{words:?}: {said}"
        );
    }
    assert_eq!(place.keyed(&["cat", "v:/two"]), "two");
}

#[test]
fn a_put_killed_while_it_reads_leaves_the_old_file_and_a_sound_vault() {
    let place = Place::new();
    fs::write(place.path("old"), "old").unwrap();
    place.keyed(&["put", "old", "v:/file"]);
    let mut child = place
        .command(&["put", "-", "v:/file", "--key-file", "key"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // More than a pipe holds: when this returns, the command is reading.
    pipe.write_all(&vec![b'n'; 3 << 20]).unwrap();
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert_eq!(place.keyed(&["cat", "v:/file"]), "old");
    assert_eq!(place.keyed(&["ls", "v"]), "file\n");
    place.keyed(&["verify", "--structure", "v"]);
}

/// Goal: an interrupted `put` leaves whole files only, in a vault that others use meanwhile.
#[test]
fn an_interrupted_put_leaves_whole_files_and_no_names_used_on_the_way() {
    const FILES: usize = 3000;
    if !Path::new("/dev/fuse").exists() {
        eprintln!("left out: this machine has no /dev/fuse");
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("m")).unwrap();
    fs::create_dir(place.path("t")).unwrap();
    for number in 0..FILES {
        fs::write(place.path("t").join(number.to_string()), vec![b'x'; 5000]).unwrap();
    }
    place.keyed(&["mount", "v", "m"]);
    let mounted = MountPoint::new(&place);
    let half = (0..10).any(|attempt| {
        let target = format!("v:/{attempt}");
        place.done(&["mkdir", &target]);
        let copied = place.path("m").join(attempt.to_string()).join("t");
        let count = || fs::read_dir(&copied).map_or(0, Iterator::count);
        let mut child = place
            .command(&["put", "t", &target])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while count() == 0 && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        signal(&child, Signal::INT);
        let status = child.wait().unwrap();
        let there = count();
        for entry in fs::read_dir(&copied).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            assert!(name.parse::<usize>().is_ok(), "{name}");
            assert_eq!(fs::read(entry.path()).unwrap(), vec![b'x'; 5000]);
        }
        let half = there < FILES && status.signal() == Some(Signal::INT.as_raw());
        if half {
            // Run again, it goes on where it was.
            let again = json(&place.done(&["put", "--json", "t", &target]));
            assert_eq!(again["unchanged"], there, "{again}");
            assert_eq!(again["files"], FILES - there, "{again}");
        }
        half
    });
    assert!(half, "one of ten signals comes before the end");
    place.done(&["umount", "m"]);
    drop(mounted);
    place.keyed(&["verify", "--structure", "v"]);
}

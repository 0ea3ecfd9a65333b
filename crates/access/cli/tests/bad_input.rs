//! Mistakes and accidents of users, with the real binary: each gives its exit code and a message that says what to do,
//! and none harms stored data.
//!
//! Tests that mount need root and /dev/fuse; without them they report that and skip.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};
use support::{MountPoint, Place, copy_folder, copy_program, give};

/// Whether this process may mount; says so if not.
fn may_mount() -> bool {
    let may = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !may {
        eprintln!("left out: this needs root and /dev/fuse");
    }
    may
}

/// Something mounted by the test itself; taken away also when the test fails.
struct Mount(PathBuf);

impl Mount {
    fn tmpfs(path: PathBuf, options: &str) -> Self {
        fs::create_dir(&path).unwrap();
        let options = std::ffi::CString::new(options).unwrap();
        mount(
            "none",
            &path,
            "tmpfs",
            MountFlags::empty(),
            options.as_c_str(),
        )
        .unwrap();
        Self(path)
    }

    fn read_only(of: &Path, path: PathBuf) -> Self {
        fs::create_dir(&path).unwrap();
        mount_bind(of, &path).unwrap();
        let mounted = Self(path);
        mount_remount(&mounted.0, MountFlags::BIND | MountFlags::RDONLY, "").unwrap();
        mounted
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a vault that a failed test left open must not keep it.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// Bytes that no two seeds share a block of.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A vault `v` with the files `a` (200,000 bytes) and `b` (5), and a second vault `other` under `other-key`.
fn two_vaults() -> Place {
    let place = Place::new();
    fs::write(place.path("a"), noise(1, 200_000)).unwrap();
    fs::write(place.path("b"), "small").unwrap();
    place.keyed(&["put", "a", "v"]);
    place.keyed(&["put", "b", "v"]);
    place.done(&["init", "other", "--key-file", "other-key"]);
    place
}

/// Copies `v` to `w` again, and does `harm` to the copy.
fn harmed(place: &Place, harm: impl FnOnce(&Path)) {
    let copy = place.path("w");
    let _ = fs::remove_dir_all(&copy);
    // What it was before is not what is put there now.
    place.done(&["info", "--forget", "w"]);
    copy_folder(&place.path("v"), &copy);
    harm(&copy);
}

fn alter(path: &Path, offset: u64) {
    let mut file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(&[byte[0] ^ 0x40]).unwrap();
}

fn cut(path: &Path, len: u64) {
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(len)
        .unwrap();
}

/// The only segment of a vault.
fn segment(vault: &Path) -> PathBuf {
    let only = |path: PathBuf| {
        let mut entries = fs::read_dir(path).unwrap();
        let first = entries.next().unwrap().unwrap().path();
        assert!(entries.next().is_none(), "one segment");
        first
    };
    only(only(vault.join("segments")))
}

/// `ls w` fails with `code`, and its message has `words`.
fn refused(place: &Place, code: i32, words: &str) {
    let message = place.keyed_fails(code, &["ls", "w"]);
    assert!(message.contains(words), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn a_damaged_missing_or_foreign_metadata_database_is_told_by_name_and_code() {
    let place = two_vaults();
    let database = |vault: &Path| vault.join("metadata.db");
    harmed(&place, |w| fs::remove_file(database(w)).unwrap());
    refused(
        &place,
        5,
        "damaged metadata.db: the file is missing; run `strongroom repair`",
    );
    harmed(&place, |w| cut(&database(w), 5000));
    refused(&place, 5, "damaged metadata.db");
    harmed(&place, |w| cut(&database(w), 0));
    refused(&place, 5, "damaged metadata.db");
    // Not the first 16: the salt there is repeated in the key, and the key's counts.
    for offset in [16, 100, 5000, 9000] {
        harmed(&place, |w| alter(&database(w), offset));
        let listed = place.run(&["ls", "w", "--key-file", "key"]);
        let checked = place.run(&["verify", "--structure", "w", "--key-file", "key"]);
        let message = String::from_utf8(checked.stderr).unwrap();
        // A page that listing does not need is found by the check.
        assert!(matches!(listed.status.code(), Some(0 | 5)), "byte {offset}");
        assert_eq!(checked.status.code(), Some(5), "byte {offset}: {message}");
    }
    harmed(&place, |w| {
        fs::copy(database(&place.path("other")), database(w)).unwrap();
    });
    refused(&place, 5, "a page is not of the newest state");
    harmed(&place, |w| {
        for name in ["metadata.db", "metadata.db-tree"] {
            fs::copy(place.path("other").join(name), w.join(name)).unwrap();
        }
    });
    refused(&place, 5, "it is from another vault");
}

#[test]
fn a_truncated_or_foreign_header_or_replica_file_is_told_by_name_and_code() {
    let place = two_vaults();
    harmed(&place, |w| cut(&w.join("vault.json"), 1000));
    refused(&place, 5, "damaged vault.json");
    // Failed before: "restore it from a backup", and no word of what mends it.
    refused(
        &place,
        5,
        "`strongroom repair` restores it from its second copy",
    );
    place.keyed(&["repair", "w"]);
    place.keyed(&["ls", "w"]);
    harmed(&place, |w| cut(&w.join("vault.json"), 0));
    refused(&place, 5, "damaged vault.json");
    let swapped = |w: &Path, name: &str| {
        fs::copy(place.path("other").join(name), w.join(name)).unwrap();
    };
    harmed(&place, |w| swapped(w, "vault.json"));
    refused(&place, 5, "damaged vault.json: it is from another vault");
    let message = place.fails(5, &["ls", "w", "--key-file", "other-key"]);
    assert!(message.contains("damaged replica.json"), "{message}");
    harmed(&place, |w| swapped(w, "replica.json"));
    refused(&place, 5, "damaged replica.json");
    harmed(&place, |w| fs::remove_file(w.join("replica.json")).unwrap());
    refused(&place, 5, "run `strongroom repair`");
    harmed(&place, |w| cut(&w.join("replica.json"), 50));
    refused(&place, 5, "damaged replica.json");
    assert_eq!(place.keyed(&["ls", "v"]), "a\nb\n");
}

#[test]
fn an_older_header_put_back_is_noticed_and_the_newer_one_heals_it() {
    let place = two_vaults();
    let header = place.path("v/vault.json");
    let older = fs::read(&header).unwrap();
    place.keyed(&["key", "add", "v", "--new-key-file", "second"]);
    let newer = fs::read(&header).unwrap();
    fs::write(&header, older).unwrap();
    let message = place.keyed_fails(5, &["ls", "v"]);
    assert!(
        message.contains("older than the one this folder had"),
        "{message}"
    );
    fs::write(&header, newer).unwrap();
    assert_eq!(place.done(&["ls", "v", "--key-file", "second"]), "a\nb\n");
}

/// Writes a header with a change in its text and a checksum that is right again.
fn rewritten(header: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(header).unwrap();
    assert!(text.contains(from), "{from}");
    let changed = text.replacen(from, to, 1);
    let covered = changed.split("  \"checksum\": \"").next().unwrap();
    let sum = blake3::hash(covered.as_bytes()).to_hex();
    fs::write(header, format!("{covered}  \"checksum\": \"{sum}\"\n}}\n")).unwrap();
}

#[test]
fn a_header_of_another_version_or_with_an_unknown_flag_asks_for_a_newer_program() {
    let place = two_vaults();
    for (from, to, words) in [
        ("\"format\": 1", "\"format\": 7", "format 7"),
        ("\"flags\": []", "\"flags\": [\"holes\"]", "holes"),
        ("\"suite\": 1", "\"suite\": 99", "99"),
    ] {
        harmed(&place, |w| rewritten(&w.join("vault.json"), from, to));
        refused(&place, 12, words);
    }
}

/// Goal: such a vault does not look damaged, nor its printed secrets mistyped, which had another checksum.
#[test]
fn a_vault_of_format_0_is_refused_before_its_secret_is_read_with_what_to_do() {
    let place = two_vaults();
    let harm = |w: &Path| {
        rewritten(&w.join("vault.json"), "\"format\": 1", "\"format\": 0");
    };
    let words = "copy the files out with the version that made the vault";
    harmed(&place, harm);
    refused(&place, 12, words);
    fs::write(place.path("code"), "0000-0000").unwrap();
    for command in [&["ls"][..], &["repair"], &["verify"], &["key", "rotate"]] {
        let arguments = [command, &["w", "--recovery-code", "code"]].concat();
        let message = place.fails(12, &arguments);
        assert!(message.contains(words), "{command:?}: {message}");
    }
    // The second copy says the same, and the first one's loss does not look like that of the vault.
    harmed(&place, |w| {
        harm(w);
        fs::rename(w.join("vault.json"), w.join("vault.json.saved")).unwrap();
    });
    let message = place.keyed_fails(12, &["repair", "w"]);
    assert!(message.contains(words), "{message}");
}

#[test]
fn damage_in_a_segment_costs_the_files_in_it_and_no_other() {
    let place = two_vaults();
    let lost = |words: &str| {
        let message = place.keyed_fails(5, &["get", "w:a", "out"]);
        assert!(message.contains(words), "{message}");
        // No half of a file is left where a whole one was asked for.
        assert!(!place.path("out").exists());
        assert_eq!(place.keyed(&["ls", "w"]), "a\nb\n");
    };
    harmed(&place, |w| alter(&segment(w), 30_000));
    lost("damaged content");
    harmed(&place, |w| cut(&segment(w), 20_000));
    lost("damaged content");
    assert!(
        place
            .keyed_fails(14, &["verify", "--structure", "w"])
            .contains("run `strongroom verify`")
    );
    harmed(&place, |w| fs::remove_file(segment(w)).unwrap());
    lost("damaged content");
    place.keyed_fails(14, &["verify", "--structure", "w"]);
    harmed(&place, |w| {
        fs::write(segment(w), noise(3, 300_000)).unwrap()
    });
    lost("damaged content");
    assert!(fs::read(place.path("a")).unwrap().as_slice() == place.keyed_bytes(&["cat", "v:a"]));
}

#[test]
fn a_read_only_folder_is_read_and_every_change_is_refused() {
    if !may_mount() {
        return;
    }
    let place = two_vaults();
    let _mounted = Mount::read_only(&place.path("v"), place.path("ro"));
    assert_eq!(place.keyed(&["ls", "ro"]), "a\nb\n");
    place.keyed(&["get", "ro:a", "out"]);
    assert!(fs::read(place.path("out")).unwrap() == fs::read(place.path("a")).unwrap());
    place.keyed(&["verify", "--structure", "ro"]);
    fs::create_dir(place.path("m")).unwrap();
    for change in [
        &["put", "b", "ro:/c"][..],
        &["rm", "ro:/a"],
        &["mkdir", "ro:/d"],
        &["compact", "ro"],
        &["key", "add", "ro", "--new-key-file", "k2"],
        &["mount", "ro", "m"],
    ] {
        let message = place.keyed_fails(10, change);
        assert!(
            message.contains("Read-only file system"),
            "{change:?}: {message}"
        );
    }
    assert!(!place.path("k2").exists());
    place.keyed(&["mount", "ro", "m", "-o", "ro"]);
    let mount_point = MountPoint::new(&place);
    assert_eq!(fs::read_to_string(place.path("m/b")).unwrap(), "small");
    let refused = fs::write(place.path("m/c"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    place.done(&["umount", "m"]);
    drop(mount_point);
    assert_eq!(place.keyed(&["ls", "v"]), "a\nb\n");
}

/// Bytes of the files of the tests of a full disk. Large against what a vault keeps free.
const FULL_FILE_BYTES: usize = 12_000_000;

#[test]
fn put_on_a_full_disk_says_so_and_harms_nothing_and_removing_makes_room_again() {
    if !may_mount() {
        return;
    }
    let place = Place::empty();
    let _disk = Mount::tmpfs(place.path("disk"), "size=128m");
    place.done(&["init", "disk/v", "--key-file", "key"]);
    let mut stored = Vec::new();
    let message = loop {
        let number = stored.len();
        assert!(number < 20, "128 MiB are full at some time");
        let content = noise(number as u64, FULL_FILE_BYTES);
        fs::write(place.path("file"), &content).unwrap();
        let inside = format!("disk/v:/{number}");
        let output = place.run(&["put", "file", &inside, "--key-file", "key"]);
        if !output.status.success() {
            assert_eq!(output.status.code(), Some(6));
            break String::from_utf8(output.stderr).unwrap();
        }
        stored.push(content);
    };
    assert!(message.contains("no space left"), "{message}");
    assert!(stored.len() > 1, "two files fit");
    let names: String = (0..stored.len())
        .map(|number| format!("{number}\n"))
        .collect();
    assert_eq!(place.keyed(&["ls", "disk/v"]), names);
    for (number, content) in stored.iter().enumerate() {
        let inside = format!("disk/v:/{number}");
        assert!(
            place.keyed_bytes(&["cat", &inside]) == *content,
            "file {number}"
        );
    }
    // What is small still works: names, and removing.
    place.keyed(&["mv", "disk/v:/0", ":/renamed"]);
    place.keyed(&["rm", "disk/v:/1"]);
    place.keyed(&["verify", "--structure", "disk/v"]);
    for number in 2..stored.len() {
        place.keyed(&["rm", &format!("disk/v:/{number}")]);
    }
    place.keyed(&["compact", "disk/v"]);
    place.keyed(&["put", "file", "disk/v:/after"]);
    place.keyed(&["verify", "--structure", "disk/v"]);
    assert!(place.keyed_bytes(&["cat", "disk/v:/renamed"]) == stored[0]);
    assert!(place.keyed_bytes(&["cat", "disk/v:/after"]) == fs::read(place.path("file")).unwrap());
}

#[test]
fn with_no_byte_left_on_the_disk_reading_and_removing_still_work() {
    if !may_mount() {
        return;
    }
    let place = Place::empty();
    let _disk = Mount::tmpfs(place.path("disk"), "size=128m");
    place.done(&["init", "disk/v", "--key-file", "key"]);
    fs::write(place.path("file"), noise(1, FULL_FILE_BYTES)).unwrap();
    place.keyed(&["put", "file", "disk/v:/1"]);
    place.keyed(&["put", "file", "disk/v:/2"]);
    // Somebody else takes all there is.
    let mut others = File::create(place.path("disk/others")).unwrap();
    while others.write_all(&[1; 4096]).is_ok() {}
    drop(others);

    place.keyed_fails(6, &["put", "key", "disk/v:/3"]);
    assert_eq!(place.keyed(&["ls", "disk/v"]), "1\n2\n");
    place.keyed(&["rm", "disk/v:/1"]);
    assert!(place.keyed_bytes(&["cat", "disk/v:/2"]) == noise(1, FULL_FILE_BYTES));
    place.keyed(&["verify", "--structure", "disk/v"]);
    fs::remove_file(place.path("disk/others")).unwrap();
    place.keyed(&["put", "file", "disk/v:/3"]);
    assert_eq!(place.keyed(&["ls", "disk/v"]), "2\n3\n");
}

/// Writes a file through a mount and makes it durable.
fn store(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[test]
fn a_full_disk_under_a_mount_loses_nothing_fsynced_and_space_comes_back_with_deletions() {
    if !may_mount() {
        return;
    }
    let place = Place::empty();
    let _disk = Mount::tmpfs(place.path("disk"), "size=160m");
    place.done(&["init", "disk/v", "--key-file", "key"]);
    fs::create_dir(place.path("m")).unwrap();
    place.keyed(&["mount", "disk/v", "m"]);
    let mounted = MountPoint::new(&place);
    let file = |number: usize| place.path(&format!("m/{number}"));
    let content = |number: usize| noise(number as u64, FULL_FILE_BYTES);
    let mut stored = 0;
    let full = loop {
        assert!(stored < 20, "160 MiB are full at some time");
        match store(&file(stored), &content(stored)) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    assert!(stored > 2, "three files fit");
    for number in 0..stored {
        assert!(
            fs::read(file(number)).unwrap() == content(number),
            "file {number}"
        );
    }
    fs::remove_file(file(stored)).unwrap();
    for number in 1..stored {
        fs::remove_file(file(number)).unwrap();
    }
    // Segments are given back in the background; each try makes the vault commit, which is what that waits for.
    let deadline = Instant::now() + Duration::from_secs(120);
    while let Err(error) = store(&file(100), &content(100)) {
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        assert!(
            Instant::now() < deadline,
            "the space of the removed files comes back"
        );
    }
    place.done(&["umount", "m"]);
    drop(mounted);
    place.keyed(&["verify", "--structure", "disk/v"]);
    assert_eq!(place.keyed(&["ls", "disk/v"]), "0\n100\n");
    assert!(place.keyed_bytes(&["cat", "disk/v:/0"]) == content(0));
    assert!(place.keyed_bytes(&["cat", "disk/v:/100"]) == content(100));
}

#[test]
fn a_vault_copied_under_a_working_mount_opens_and_checks_clean() {
    if !may_mount() {
        return;
    }
    let place = two_vaults();
    fs::create_dir(place.path("m")).unwrap();
    place.keyed(&["mount", "v", "m"]);
    let mounted = MountPoint::new(&place);
    store(&place.path("m/synced"), &noise(5, 3_000_000)).unwrap();
    fs::write(place.path("m/pending"), noise(6, 500_000)).unwrap();
    copy_folder(&place.path("v"), &place.path("copy"));
    place.keyed(&["verify", "--structure", "copy"]);
    assert!(place.keyed_bytes(&["cat", "copy:/synced"]) == noise(5, 3_000_000));
    assert_eq!(place.keyed(&["cat", "copy:/b"]), "small");
    place.done(&["umount", "m"]);
    drop(mounted);
    assert!(place.keyed_bytes(&["cat", "v:/pending"]) == noise(6, 500_000));
}

#[test]
fn a_mount_point_that_cannot_be_one_is_refused_by_its_reason() {
    if !may_mount() {
        return;
    }
    let place = two_vaults();
    for name in ["m", "full", "second"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    fs::write(place.path("full/x"), "x").unwrap();
    let refused = |code, mount_point: &str, words: &str| {
        let message = place.keyed_fails(code, &["mount", "v", mount_point]);
        assert!(message.contains(words), "{message}");
    };
    refused(3, "none", "does not exist; make it with mkdir");
    refused(9, "full", "is not empty; choose an empty directory");
    refused(13, "a", "is not a directory");
    place.fails(13, &["umount", "m"]);
    place.keyed(&["mount", "v", "m"]);
    let mounted = MountPoint::new(&place);
    // Failed before: "open in another process", and not where.
    refused(7, "second", "/m; unmount it with `strongroom umount`");
    let message = place.fails(7, &["mount", "other", "m", "--key-file", "other-key"]);
    assert!(message.contains("is mounted already"), "{message}");
    let long = "n".repeat(256);
    let error = fs::write(place.path("m").join(&long), "x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidFilename);
    fs::write(place.path("m").join(&long[1..]), "x").unwrap();
    place.done(&["umount", "m"]);
    drop(mounted);
}

#[test]
fn without_fuse_in_the_kernel_the_message_says_how_to_get_it() {
    if !may_mount() {
        return;
    }
    let place = two_vaults();
    fs::create_dir(place.path("m")).unwrap();
    // In a mount namespace of its own /dev holds nothing but what starting a process needs.
    let script =
        "mount -t tmpfs none /dev && mknod /dev/null c 1 3 && exec \"$0\" mount v m --key-file key";
    let output = Command::new("unshare")
        .args([
            "--mount",
            "sh",
            "-c",
            script,
            env!("CARGO_BIN_EXE_strongroom"),
        ])
        .current_dir(place.path(""))
        .env("XDG_RUNTIME_DIR", place.path("run"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(13), "{message}");
    assert!(
        message.contains("/dev/fuse is missing; load the kernel module"),
        "{message}"
    );
    assert_eq!(place.keyed(&["ls", "v"]), "a\nb\n");
}

#[test]
fn without_fusermount3_another_user_than_root_is_told_what_to_install() {
    if !may_mount() {
        return;
    }
    let place = two_vaults();
    fs::create_dir(place.path("m")).unwrap();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    give(&place.path(""), NOBODY);
    let run = place.path("run");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = place.command(&["mount", "v", "m", "--key-file", "key"]);
    // The binary may lie where that user may not look; a copy does not.
    let binary = place.path("strongroom");
    copy_program(env!("CARGO_BIN_EXE_strongroom"), &binary);
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    command = Command::new(binary);
    command
        .args(arguments)
        .current_dir(place.path(""))
        .env("XDG_RUNTIME_DIR", run)
        .env("PATH", "/nonexistent")
        .stdin(Stdio::null())
        .uid(NOBODY)
        .gid(NOBODY);
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(13), "{message}");
    assert!(
        message.contains("fusermount3 is missing; install the package fuse3"),
        "{message}"
    );
}

/// Goal: whatever moment an `init` is killed at, the folder says by itself what to do, and doing that works.
/// Method: kills it when a certain file has appeared; the last one is the header, which makes a folder a vault.
#[test]
fn an_init_killed_at_any_moment_leaves_either_a_vault_or_a_folder_that_says_what_to_do() {
    let place = Place::empty();
    let mut vaults = 0;
    for mark in [
        "",
        "lock",
        "init-unfinished",
        "metadata.db",
        "segments",
        "replica.json",
        "vault.json",
    ] {
        let _ = fs::remove_dir_all(place.path("v"));
        let _ = fs::remove_file(place.path("key"));
        let mut child = place
            .command(&["init", "v", "--key-file", "key"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let awaited = place.path("v").join(mark);
        while !awaited.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();

        if place.path("v/vault.json").exists() {
            vaults += 1;
            assert_eq!(place.keyed(&["ls", "v"]), "", "killed at {mark:?}");
            place.keyed(&["verify", "--structure", "v"]);
            place.fails(9, &["init", "v", "--key-file", "again"]);
        } else {
            let message = place.keyed_fails(11, &["ls", "v"]);
            let tells = message.contains("make one with `strongroom init`")
                || message.contains("remove the folder and run `strongroom init` again");
            assert!(tells, "killed at {mark:?}: {message}");
            if message.contains("remove the folder") {
                place.fails(11, &["init", "v", "--key-file", "again"]);
                fs::remove_dir_all(place.path("v")).unwrap();
            }
            place.done(&["init", "v", "--key-file", "again"]);
            place.done(&["ls", "v", "--key-file", "again"]);
        }
        let _ = fs::remove_file(place.path("again"));
    }
    assert!(vaults > 0, "the last moment is one with a vault");
}

#[test]
fn a_disk_too_small_for_a_vault_is_refused_before_anything_is_made() {
    if !may_mount() {
        return;
    }
    let place = Place::empty();
    let disk = Mount::tmpfs(place.path("disk"), "size=80m");
    for vault in ["disk/v", "disk"] {
        let message = place.fails(6, &["init", vault, "--key-file", "key"]);
        assert!(
            message.contains("the disk has 80 MiB free; a vault needs 88 MiB"),
            "{message}"
        );
    }
    assert!(!place.path("key").exists());
    assert_eq!(fs::read_dir(place.path("disk")).unwrap().count(), 0);
    drop(disk);
    fs::remove_dir(place.path("disk")).unwrap();
    // On one that is just large enough, something can be stored.
    let _disk = Mount::tmpfs(place.path("disk"), "size=88m");
    place.done(&["init", "disk/v", "--key-file", "key"]);
    fs::write(place.path("file"), noise(1, 2_000_000)).unwrap();
    place.keyed(&["put", "file", "disk/v"]);
}

#[test]
fn clients_of_an_owner_that_is_killed_get_a_clear_error_and_the_next_command_works() {
    if !may_mount() {
        return;
    }
    let place = two_vaults();
    fs::create_dir(place.path("m")).unwrap();
    place.keyed(&["mount", "v", "m"]);
    let mounted = MountPoint::new(&place);
    let info: serde_json::Value =
        serde_json::from_str(&place.done(&["info", "v", "--json"])).unwrap();
    let owner = i32::try_from(info["owner_pid"].as_i64().unwrap()).unwrap();
    // One without a secret and one that could take over: what they had open is gone for both.
    let mut clients = [
        &["put", "-", "v:/x"][..],
        &["put", "-", "v:/y", "--key-file", "key"],
    ]
    .map(|arguments| {
        place
            .command(arguments)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    for client in &mut clients {
        // More than a pipe holds: the client is at work.
        let pipe = client.stdin.as_mut().unwrap();
        pipe.write_all(&noise(7, 3 << 20)).unwrap();
    }
    let pid = rustix::process::Pid::from_raw(owner).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    for client in clients {
        let output = client.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(
            message.contains("the process that had the vault open has ended, and it is not known"),
            "{message}"
        );
    }
    assert_eq!(place.keyed(&["ls", "v"]), "a\nb\n");
    place.keyed(&["verify", "--structure", "v"]);
    // Over the dead mount point.
    place.keyed(&["mount", "v", "m"]);
    assert_eq!(fs::read_to_string(place.path("m/b")).unwrap(), "small");
    place.done(&["umount", "m"]);
    drop(mounted);
}

const NOBODY: u32 = 65_534;

/// A greeting as a client sends it: 4 bytes, then the protocol's version, no session, read and write, no secret.
const GREETING: [u8; 8] = [4, 0, 0, 0, 3, 0, 0, 1];

/// What the owner answers to a greeting.
fn knock(socket: &Path) -> Vec<u8> {
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut answer = [0; 64];
    // An owner that hangs up may do so before or after this arrives.
    let _ = stream.write_all(&GREETING);
    match stream.read(&mut answer) {
        Ok(count) => answer[..count].to_vec(),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
#[ignore = "another test starts this as another user"]
fn knocks_on_the_socket_of_another_user() {
    let answer = knock(Path::new(&std::env::var_os("SOCKET").unwrap()));
    println!("answered with {} bytes", answer.len());
}

/// Goal: even where the folder of the socket does not keep others out, its owner does not talk to them.
/// SECURITY.md, claim 20.
#[test]
fn another_user_gets_no_word_from_the_owner_of_a_vault() {
    if !may_mount() {
        return;
    }
    let place = two_vaults();
    fs::create_dir(place.path("m")).unwrap();
    place.keyed(&["mount", "v", "m"]);
    let mounted = MountPoint::new(&place);
    let run = place.path("run/strongroom");
    let socket = fs::read_dir(&run)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "sock")
        })
        .unwrap();
    assert!(!knock(&socket).is_empty(), "the same user is answered");
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    for path in [
        place.path(""),
        place.path("run"),
        run.clone(),
        place.path("v"),
    ] {
        open(&path, 0o755).unwrap();
    }
    open(&socket, 0o777).unwrap();
    let test = place.path("test");
    copy_program(std::env::current_exe().unwrap(), &test);
    let output = Command::new(&test)
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "knocks_on_the_socket_of_another_user",
        ])
        .current_dir("/")
        .env("SOCKET", &socket)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("answered with 0 bytes"), "{said}");
    // The command does not even try: it trusts no folder of another user.
    let binary = place.path("strongroom");
    copy_program(env!("CARGO_BIN_EXE_strongroom"), &binary);
    let output = Command::new(&binary)
        .args(["ls", "v"])
        .current_dir(place.path(""))
        .env("XDG_RUNTIME_DIR", place.path("run"))
        .stdin(Stdio::null())
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(8), "{message}");
    open(&run, 0o700).unwrap();
    place.done(&["umount", "m"]);
    drop(mounted);
}

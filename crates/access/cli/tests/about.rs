//! What the command shows of a whole vault: `info`, `stats`, `quota`, and the log of a mount.
//!
//! Tests that mount need /dev/fuse; without it they report that and skip.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::Path;

use support::{MountPoint, Place};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// The vault `v` mounted on `m`; `None` where that cannot be.
fn mounted(place: &Place) -> Option<MountPoint<'_>> {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("left out: this machine has no /dev/fuse");
        return None;
    }
    fs::create_dir(place.path("m")).unwrap();
    place.keyed(&["mount", "v", "m"]);
    Some(MountPoint::new(place))
}

#[test]
fn info_without_a_secret_shows_what_everybody_may_know_and_says_that_nobody_vouches() {
    let place = Place::empty();
    let made = json(&place.done(&["init", "v", "--key-file", "key", "--json"]));
    let wished = "AES-256-GCM=ring,BLAKE3=simd,Argon2id=rustcrypto,Ed25519=dalek";
    let mut command = place.command(&["info", "v"]);
    let output = command
        .env("STRONGROOM_PROVIDERS", wished)
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = shown.lines().collect();
    let is_device = |line: &&&str| line.starts_with("device       ");
    assert_eq!(lines.iter().filter(is_device).count(), 1, "{shown}");
    let lines: Vec<_> = lines.into_iter().filter(|line| !is_device(&line)).collect();
    assert!(lines[7].starts_with("last seen    20"), "{shown}");
    assert!(lines[8].starts_with("known at     /"), "{shown}");
    assert!(lines[9].starts_with("record       /"), "{shown}");
    assert_eq!(lines.len(), 11, "{shown}");
    assert_eq!(
        lines[..7],
        [
            "format       1",
            &format!("fingerprint  {}", made["fingerprint"].as_str().unwrap()),
            "suite        AES-256-GCM and BLAKE3",
            "providers    AES-256-GCM by ring, BLAKE3 by simd, Argon2id by rustcrypto, Ed25519 by dalek",
            "generation   1",
            "keys         key file, recovery code",
            "open in      no process",
        ]
    );
    assert!(
        lines[10].starts_with("verified     no: anyone who can write"),
        "{shown}"
    );
    let public = json(&place.done(&["info", "v", "--json"]));
    assert_eq!(public["verified"], false);
    assert_eq!(public["epoch"], serde_json::Value::Null);
    assert_eq!(public["keys"].as_array().unwrap().len(), 2);

    let verified = json(&place.keyed(&["info", "v", "--json"]));
    assert_eq!(verified["verified"], true);
    assert_eq!(
        (&verified["epoch"], &verified["owner"]),
        (&0.into(), &"none".into())
    );
    assert_eq!(verified["fingerprint"], public["fingerprint"]);
    let wrong = place.path("other");
    place.done(&["init", "w", "--key-file", wrong.to_str().unwrap()]);
    place.fails(4, &["info", "v", "--key-file", "other"]);
    place.fails(11, &["info", "none"]);
}

#[test]
fn info_of_a_mounted_vault_is_verified_by_its_owner_and_names_process_and_mount_point() {
    let place = Place::new();
    let Some(mounted) = mounted(&place) else {
        return;
    };
    let found = json(&place.done(&["info", "v", "--json"]));
    assert_eq!(found["verified"], true);
    let mount_point = place.path("m").canonicalize().unwrap();
    assert_eq!(
        found["mounts"][0]["mount_point"],
        mount_point.to_str().unwrap()
    );
    let pid = found["owner_pid"].as_u64().unwrap();
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    assert_eq!(program.file_name().unwrap(), "strongroom");
    let shown = place.done(&["info", "v"]);
    assert!(shown.contains(&format!("open in      process {pid}\n")));
    assert!(shown.contains(&format!("mounted on   {}\n", mount_point.display())));
    place.done(&["umount", "m"]);
    drop(mounted);
    assert_eq!(
        json(&place.done(&["info", "v", "--json"]))["verified"],
        false
    );
}

#[test]
fn stats_of_a_vault_that_nobody_has_open_says_so_and_asks_for_no_secret() {
    let place = Place::new();
    assert_eq!(
        place.done(&["stats", "v"]),
        "no process has the vault open; counting begins when it is mounted or opened\n"
    );
    assert_eq!(json(&place.done(&["stats", "v", "--json"])), json("{}"));
    place.fails(11, &["stats", "none"]);
}

#[test]
fn stats_count_kernel_requests_the_database_and_segments_and_the_help_has_every_row() {
    let place = Place::new();
    let Some(mounted) = mounted(&place) else {
        return;
    };
    let count = |name: &str| {
        let counters = json(&place.done(&["stats", "v", "--json"]));
        counters[name].as_u64().unwrap_or(0)
    };
    let (mkdirs, transactions) = (count("mount.MKDIR"), count("metadata.transactions"));
    fs::create_dir(place.path("m/one")).unwrap();
    fs::create_dir(place.path("m/two")).unwrap();
    fs::write(place.path("m/one/file"), vec![7; 3_000_000]).unwrap();
    place.done(&["sync", "v"]);
    assert_eq!(count("mount.MKDIR"), mkdirs + 2);
    assert!(count("metadata.transactions") > transactions);
    assert!(count("segments.bytes_appended") > 0);
    for name in [
        "metadata.log_writes",
        "metadata.log_syncs",
        "metadata.database_reads",
    ] {
        assert!(count(name) > 0, "{name}");
    }

    place.done(&["snapshot", "create", "v"]);
    fs::remove_file(place.path("m/one/file")).unwrap();
    place.done(&["sync", "v"]);
    let space = json(&place.done(&["stats", "v", "--json"]));
    let of_snapshot = |(name, _): &(&String, _)| name.starts_with("space.snapshot.");
    let snapshots = space.as_object().unwrap().iter().filter(of_snapshot);
    assert_eq!(snapshots.count(), 1);
    assert!(space["space.live_bytes"].is_u64(), "{space}");

    let help = place.done(&["stats", "--help"]);
    let shown = place.done(&["stats", "v"]);
    assert!(shown.lines().count() > 20, "{shown}");
    for line in shown.lines() {
        let name = line.split_whitespace().next().unwrap();
        let row = if name.starts_with("mount.") {
            "mount.OPCODE"
        } else if name.starts_with("space.snapshot.") {
            "space.snapshot.ID"
        } else {
            name
        };
        let documented = help
            .lines()
            .any(|line| line.split_whitespace().next() == Some(row));
        assert!(documented, "{name} is in the help");
    }
    place.done(&["umount", "m"]);
    drop(mounted);
}

#[test]
fn a_quota_is_set_at_init_or_later_shown_kept_to_and_taken_away_in_a_closed_or_mounted_vault() {
    let place = Place::empty();
    place.done(&["init", "v", "--key-file", "key", "--quota", "2M"]);
    let quota = |arguments: &[&str]| {
        let all = [&["quota", "v"], arguments, &["--json"]].concat();
        json(&place.keyed(&all))["quota_bytes"].clone()
    };
    assert_eq!(quota(&[]), 2 << 20);
    // No two blocks are equal: those would be stored once.
    let large: Vec<u8> = (0..1_250_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(place.path("large"), large).unwrap();
    let message = place.keyed_fails(6, &["put", "large", "v"]);
    assert!(message.contains("quota"), "{message}");
    assert_eq!(place.keyed(&["ls", "v"]), "");
    assert_eq!(quota(&["none"]), serde_json::Value::Null);
    assert_eq!(place.keyed(&["quota", "v"]), "quota  none\n");
    place.keyed(&["put", "large", "v"]);
    place.keyed_fails(2, &["quota", "v", "0"]);
    place.keyed_fails(2, &["quota", "v", "lots"]);
    let Some(mounted) = mounted(&place) else {
        return;
    };
    assert_eq!(
        place.done(&["quota", "v", "1G"]),
        "quota  1073741824 bytes (1.0 GiB)\n"
    );
    place.done(&["quota", "v", "6M"]);
    // Equal blocks are stored once, so all are different: else it depends on when they are stored whether they fit.
    let more: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let refused = fs::write(place.path("m/more"), more).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::QuotaExceeded);
    fs::remove_file(place.path("m/large")).unwrap();
    place.done(&["umount", "m"]);
    drop(mounted);
    assert_eq!(quota(&[]), 6 << 20);
}

#[test]
fn compression_is_set_at_init_or_later_shown_and_works_in_a_closed_or_mounted_vault() {
    let place = Place::empty();
    let space = |name: &str| -> u64 {
        let files = fs::read_dir(place.path(name)).unwrap();
        let of_folder = |folder: fs::DirEntry| fs::read_dir(folder.path()).unwrap();
        let files = files.flat_map(|folder| of_folder(folder.unwrap()));
        files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum()
    };
    let text: String = (0..40_000).map(|n| format!("line {n} of many\n")).collect();
    fs::write(place.path("text"), &text).unwrap();
    place.done(&["init", "v", "--key-file", "key", "--compression", "zstd"]);
    assert_eq!(place.keyed(&["compression", "v"]), "compression  zstd\n");
    let info = json(&place.keyed(&["info", "v", "--json"]));
    assert_eq!(info["compression"], "zstd");
    assert!(place.keyed(&["info", "v"]).contains("compression  zstd\n"));
    let public = json(&place.done(&["info", "v", "--json"]));
    assert_eq!(public["compression"], serde_json::Value::Null);
    place.keyed(&["put", "text", "v:/one"]);
    assert!(space("v/segments") < text.len() as u64 / 2);
    assert_eq!(place.keyed(&["cat", "v:/one"]), text);
    let changed = json(&place.keyed(&["compression", "v", "none", "--json"]));
    assert_eq!(changed["compression"], "none");
    place.keyed(&["put", "text", "v:/two"]);
    assert!(space("v/segments") > text.len() as u64);
    place.keyed_fails(2, &["compression", "v", "lots"]);
    let Some(mounted) = mounted(&place) else {
        return;
    };
    assert_eq!(
        place.done(&["compression", "v", "zstd"]),
        "compression  zstd\n"
    );
    let changed = text.replace("many", "more");
    fs::write(place.path("m/three"), &changed).unwrap();
    place.done(&["sync", "v"]);
    let stats = json(&place.done(&["stats", "v", "--json"]));
    let saved = stats.to_string();
    assert!(saved.contains("filesystem.bytes_saved"), "{saved}");
    assert_eq!(fs::read_to_string(place.path("m/one")).unwrap(), text);
    assert_eq!(fs::read_to_string(place.path("m/three")).unwrap(), changed);
    place.done(&["umount", "m"]);
    drop(mounted);
    assert_eq!(place.keyed(&["cat", "v:/three"]), changed);
    assert_eq!(place.keyed(&["compression", "v"]), "compression  zstd\n");
}

/// Failed before: `strongroom` for every vault.
#[test]
fn a_mount_names_its_vault_as_its_source() {
    let place = Place::empty();
    place.done(&["init", "v", "--key-file", "key"]);
    let Some(mounted) = mounted(&place) else {
        return;
    };
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let vault = place.path("v").canonicalize().unwrap();
    let point = place.path("m").canonicalize().unwrap();
    let line = format!("{} {} fuse.strongroom ", vault.display(), point.display());
    assert!(table.contains(&line), "{line}: {table}");
    place.done(&["umount", "m"]);
    drop(mounted);
}

/// Goal: an operator finds what went wrong, and a thief of the log no name.
/// SECURITY.md, claim 7.
#[test]
fn a_mount_logs_what_goes_wrong_to_a_file_that_info_names_and_no_name_of_the_vault() {
    let place = Place::empty();
    place.done(&["init", "v", "--key-file", "key", "--quota", "1M"]);
    let Some(mounted) = mounted(&place) else {
        return;
    };
    let found = json(&place.done(&["info", "v", "--json"]));
    let log = Path::new(found["mounts"][0]["log_file"].as_str().unwrap());
    assert_eq!(log, place.path("state/strongroom/strongroom.log"));
    fs::write(place.path("m/canary-name"), vec![b'c'; 4 << 20]).unwrap_err();
    let pid = found["owner_pid"].as_u64().unwrap();
    place.done(&["umount", "m"]);
    drop(mounted);
    let logged = fs::read_to_string(log).unwrap();
    let lines: Vec<_> = logged.lines().collect();
    assert!(
        lines.iter().all(|line| line.contains(&format!(" {pid} "))),
        "{logged}"
    );
    assert!(lines[0].contains("info: the mount of ") && lines[0].ends_with("/v begins"));
    assert!(
        logged.contains("error: the vault's quota is used up"),
        "{logged}"
    );
    assert!(lines[lines.len() - 1].ends_with("info: the mount has ended; everything is stored"));
    assert!(
        !logged.contains("canary") && !logged.contains("ccc"),
        "{logged}"
    );

    // Another file on request, and all there is to tell.
    place.keyed(&["mount", "-vv", "--log-file", "my.log", "v", "m"]);
    let mounted = MountPoint::new(&place);
    fs::write(place.path("m/canary-name"), "c").unwrap();
    place.done(&["umount", "m"]);
    drop(mounted);
    let logged = fs::read_to_string(place.path("my.log")).unwrap();
    assert!(
        logged.contains("begins") && !logged.contains("canary"),
        "{logged}"
    );
}

#[test]
fn a_mount_in_the_foreground_tells_on_standard_error_as_much_as_was_asked() {
    let place = Place::new();
    if !Path::new("/dev/fuse").exists() {
        eprintln!("left out: this machine has no /dev/fuse");
        return;
    }
    fs::create_dir(place.path("m")).unwrap();
    for (options, told) in [(&[][..], false), (&["-v"], true)] {
        let command = [&["mount", "-f", "v", "m", "--key-file", "key"], options].concat();
        let mut child = place
            .command(&command)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let _mounted = MountPoint::new(&place);
        let is_mounted = || {
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
            mounts.contains(place.path("m").to_str().unwrap())
        };
        while !is_mounted() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        place.done(&["umount", "m"]);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        assert_eq!(
            said.contains("strongroom: info: the mount of v begins\n"),
            told,
            "{said}"
        );
        assert!(told || said.is_empty(), "{said}");
    }
    place.keyed_fails(2, &["mount", "-f", "--log-file", "x", "v", "m"]);
}

//! Finds out on real mounts what an fsync keeps. It needs root, /dev/fuse, and a `strongroom` built beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use strongroom_bench::Content;
use strongroom_bench::kept::Kept;
use strongroom_bench::probe::{Asked, probe_all};
use strongroom_bench::system::{PEERS, PLAIN, STRONGROOM, Served, System};

const RECORDS: usize = 5;

/// A file system in memory: all of it is gone when it is detached. Its server is a script that `mount` gives to `sh`.
const fn forgetful(mount: &'static [&'static str]) -> System {
    System {
        name: "forgetful",
        program: "sh",
        package: "",
        version: &[],
        served: Served::Program {
            create: &[],
            mount,
            environment: &[],
        },
        ..PEERS[0]
    }
}

/// What is found of each, by name, and what was told.
fn found(systems: &[&System]) -> (BTreeMap<String, Kept>, String) {
    let work = tempfile::tempdir().unwrap();
    let strongroom = Path::new(env!("CARGO_BIN_EXE_strongroom-bench")).with_file_name("strongroom");
    let asked: Vec<_> = systems
        .iter()
        .map(|system| Asked {
            system,
            program: match system.name {
                "strongroom" => strongroom.clone(),
                _ => system.find(None).unwrap(),
            },
            options: None,
        })
        .collect();
    let mut told = String::new();
    let mut tell = |text: &str| told = format!("{told}{text}\n");
    let mut content = Content::new(fs::metadata(&strongroom).unwrap().len());
    let found = probe_all(&asked, work.path(), RECORDS, &mut content, &mut tell).unwrap();
    assert_eq!(left_in(work.path()), [""; 0], "{told}");
    (found, told)
}

/// What lies in `folder`, and what is mounted below it.
fn left_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let entries = entries.map(|entry| entry.unwrap().path());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let name = folder.to_str().unwrap();
    let mounts = mounts.lines().filter(|line| line.contains(name));
    let mounts: Vec<_> = mounts.map(PathBuf::from).collect();
    let all = entries.chain(mounts);
    all.map(|path| path.display().to_string()).collect()
}

/// Goal: what this project says of itself, and of what it stands on, is found and not claimed.
#[test]
fn strongroom_keeps_every_record_and_none_in_clear() {
    let (found, told) = found(&[&PLAIN, &STRONGROOM]);
    let (plain, ours) = (&found["plain"], &found["strongroom"]);
    assert_eq!(ours.shortfall(), None, "{ours:?} {told}");
    assert_eq!(ours.records, RECORDS);
    assert_eq!(ours.records_after_kill, Some(RECORDS), "{ours:?}");
    assert_eq!(ours.in_clear, Some(false));
    assert_eq!(plain.in_clear, Some(true));
    assert_eq!(plain.records_after_kill, None);
    assert_eq!(plain.failure, None);
    // Counted for both, or for neither: whatever the disk of a test is.
    let counted = |kept: &Kept| kept.flushes_per_fsync.is_some();
    assert_eq!(counted(plain), counted(ours), "{found:?}");
}

#[test]
fn what_a_kill_loses_is_counted() {
    const FORGETFUL: System = forgetful(&[
        "-c",
        "mount -t tmpfs none \"$0\" && while mountpoint -q \"$0\"; do sleep 0.05; done",
        "MOUNT",
        "STORE",
    ]);
    let (found, told) = found(&[&FORGETFUL]);
    let kept = &found["forgetful"];
    assert_eq!(kept.records_after_kill, Some(0), "{kept:?} {told}");
    assert_eq!(kept.failure, None);
    assert_eq!(kept.in_clear, Some(false));
    let short = kept.shortfall().unwrap();
    assert!(short.contains("0 of 5 records after a kill"), "{short}");
}

/// Goal: a file system that a kill breaks ends the probe, not the run.
#[test]
fn who_does_not_come_back_after_a_kill_is_told() {
    const BROKEN: System = forgetful(&[
        "-c",
        "mkdir \"$1/once\" 2>/dev/null || { echo the store is broken >&2; exit 1; }; mount -t tmpfs none \"$0\" && while mountpoint -q \"$0\"; do sleep 0.05; done",
        "MOUNT",
        "STORE",
    ]);
    let (found, told) = found(&[&BROKEN]);
    let kept = &found["forgetful"];
    assert_eq!(kept.records_after_kill, Some(0), "{kept:?} {told}");
    let failure = kept.failure.as_ref().unwrap();
    assert!(failure.contains("did not come back"), "{failure}");
    assert!(failure.contains("the store is broken"), "{failure}");
}

#[test]
fn who_does_not_start_is_told_and_the_next_one_is_looked_at() {
    const ABSENT: System = forgetful(&["-c", "echo no such device >&2; exit 1"]);
    let (found, _) = found(&[&ABSENT, &PLAIN]);
    let failure = found["forgetful"].shortfall().unwrap();
    assert!(failure.contains("no such device"), "{failure}");
    assert_eq!(found["plain"].records, RECORDS);
}

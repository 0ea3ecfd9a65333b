//! Ordinary programs, including SQLite, run on the simulated disk, and find after a cut everything that was promised.
//!
//! These tests need root and the FUSE device, and report if they lack them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rusqlite::Connection;
use strongroom_simulator::disk::{
    Call, Disk, Failure, Fault, Frozen, Mark, MountedDisk, NameSync, Policy, Reached,
};
use tempfile::TempDir;

fn mounted(mode: NameSync) -> (Disk, MountedDisk, TempDir) {
    let folder = TempDir::new().unwrap();
    let disk = Disk::new(mode);
    let mount = MountedDisk::mount(&disk, folder.path()).expect("needs root and the FUSE device");
    (disk, mount, folder)
}

/// What a cut leaves, in a plain folder.
fn left_by(frozen: &Frozen, policy: Policy, seed: u64) -> TempDir {
    let folder = TempDir::new().unwrap();
    frozen
        .after_cut(policy, seed)
        .write_to(folder.path())
        .unwrap();
    folder
}

#[test]
fn files_behave_as_files() {
    let (_disk, mount, _folder) = mounted(NameSync::Directory);
    let path = mount.path().join("file");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    file.write_all(b"hello").unwrap();
    file.write_all_at(b"far", 100_000).unwrap();
    let mut back = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut back).unwrap();
    assert_eq!(
        (back.len(), &back[..5], &back[100_000..]),
        (100_003, &b"hello"[..], &b"far"[..])
    );
    file.set_len(3).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hel");
    fs::create_dir(mount.path().join("d")).unwrap();
    fs::rename(&path, mount.path().join("d/moved")).unwrap();
    fs::hard_link(mount.path().join("d/moved"), mount.path().join("other")).unwrap();
    assert_eq!(fs::metadata(mount.path().join("other")).unwrap().nlink(), 2);
    fs::remove_file(mount.path().join("d/moved")).unwrap();
    fs::remove_dir(mount.path().join("d")).unwrap();
    let names: Vec<_> = fs::read_dir(mount.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["other"]);
    file.write_all_at(b"still open", 0).unwrap();
    assert_eq!(fs::read(mount.path().join("other")).unwrap(), b"still open");
}

#[test]
fn direct_writes_and_reservations_work() {
    use rustix::fs::{FallocateFlags, OFlags};
    let (disk, mount, _folder) = mounted(NameSync::Directory);
    let path = mount.path().join("segment");
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(direct)
        .open(&path)
        .unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 0);
    assert_eq!(file.metadata().unwrap().blocks(), 2048);
    let block = vec![5_u8; 8192];
    let aligned = &block[block.as_ptr().align_offset(4096)..][..4096];
    file.write_all_at(aligned, 4096).unwrap();
    assert_eq!(fs::read(&path).unwrap()[4096..], *aligned);
    assert!(disk.calls() >= 3);
}

#[test]
fn content_without_a_sync_may_vanish_and_with_one_may_not() {
    let (disk, mount, _folder) = mounted(NameSync::Directory);
    let file = File::create(mount.path().join("file")).unwrap();
    file.write_all_at(b"one", 0).unwrap();
    file.sync_data().unwrap();
    File::open(mount.path()).unwrap().sync_all().unwrap();
    file.write_all_at(b"two", 0).unwrap();
    let read = |policy| fs::read(left_by(&disk.freeze(), policy, 1).path().join("file")).unwrap();
    assert_eq!(
        (read(Policy::LOSE_ALL), read(Policy::KEEP_ALL)),
        (b"one".to_vec(), b"two".to_vec())
    );
}

#[test]
fn a_short_write_and_an_error_reach_the_program() {
    let (disk, mount, _folder) = mounted(NameSync::Directory);
    let file = File::create(mount.path().join("file")).unwrap();
    disk.plan(Fault {
        call: Some(Call::Write),
        nth: 1,
        failure: Failure::Short,
        lasting: false,
    });
    assert_eq!(file.write_at(&[1; 4096], 0).unwrap(), 2048);
    disk.plan(Fault {
        call: Some(Call::Write),
        nth: 1,
        failure: Failure::NoSpace,
        lasting: false,
    });
    assert_eq!(
        file.write_at(&[1; 4096], 0).unwrap_err().kind(),
        std::io::ErrorKind::StorageFull
    );
    disk.plan(Fault {
        call: Some(Call::Sync),
        nth: 1,
        failure: Failure::Io,
        lasting: false,
    });
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(5));
}

#[test]
fn a_program_whose_power_was_cut_gets_errors_and_the_mount_goes_away() {
    let (disk, mount, folder) = mounted(NameSync::Directory);
    let file = File::create(mount.path().join("file")).unwrap();
    disk.cut();
    assert!(file.write_at(b"x", 0).is_err() && file.sync_all().is_err());
    drop(mount);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

fn open_database(folder: &Path) -> Connection {
    let connection = Connection::open(folder.join("data.db")).unwrap();
    connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        .unwrap();
    connection
        .pragma_update(None, "synchronous", "FULL")
        .unwrap();
    connection
}

/// What the child process of the tests below runs on the mounted disk; without its variable, no test.
#[test]
fn worker() {
    let Ok(folder) = std::env::var("SIMULATED_DISK") else {
        return;
    };
    let folder = Path::new(&folder);
    let connection = open_database(folder);
    connection
        .execute("CREATE TABLE row(n INTEGER PRIMARY KEY, data BLOB)", [])
        .unwrap();
    File::open(folder).unwrap().sync_all().unwrap();
    if std::env::var("SIMULATED_SYNC").unwrap() == "off" {
        connection
            .pragma_update(None, "synchronous", "OFF")
            .unwrap();
    }
    // Descriptor 2, because the test harness owns the first one.
    let mut mark = std::io::stderr();
    for n in 0..40_i64 {
        mark.write_all(&[Mark::Start.byte(0)]).unwrap();
        connection
            .execute("INSERT INTO row VALUES(?1, ?2)", (n, vec![n as u8; 3000]))
            .unwrap();
        mark.write_all(&[Mark::Return.byte(0)]).unwrap();
        if n % 15 == 14 {
            connection
                .pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |_| Ok(()))
                .unwrap();
        }
    }
}

/// Runs `worker` on `disk`, frozen before every request, and gives the moments.
fn run_worker(disk: &Disk, mount: &MountedDisk, sync: &str) -> Vec<Frozen> {
    for call in 1..2000 {
        disk.freeze_before(call);
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "worker", "--nocapture", "--test-threads=1"])
        .env("SIMULATED_DISK", mount.path())
        .env("SIMULATED_SYNC", sync)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    disk.progress()
        .listen(child.stderr.take().unwrap().into())
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(
        disk.progress().now().0[0],
        Reached {
            started: 40,
            returned: 40
        }
    );
    disk.take_frozen()
}

fn rows_in(folder: &Path) -> u64 {
    let connection = open_database(folder);
    let check: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    connection
        .query_row("SELECT count(*) FROM row", [], |row| row.get::<_, i64>(0))
        .unwrap()
        .try_into()
        .unwrap()
}

/// Goal: the disk is neither too kind nor too cruel for a program known to be crash-safe.
/// Method: SQLite commits rows one by one, with checkpoints in between; the disk is frozen before every request;
/// of each moment several cuts are reopened. Every row whose commit had returned must be there, in order.
#[test]
fn sqlite_keeps_every_committed_row_through_every_cut() {
    let (disk, mount, _folder) = mounted(NameSync::Directory);
    let frozen = run_worker(&disk, &mount, "full");
    let mut lost_something = 0;
    let mut looked_at = 0;
    for (at, moment) in frozen
        .iter()
        .enumerate()
        .filter(|(_, moment)| moment.threads[0].started > 0)
    {
        for policy in [Policy::LOSE_ALL, Policy::RANDOM, Policy::TORN] {
            let left = left_by(moment, policy, at as u64);
            let rows = rows_in(left.path());
            assert!(
                rows >= moment.threads[0].returned,
                "moment {at} {}: {rows} of {} rows",
                policy.name(),
                moment.threads[0].returned
            );
            assert!(rows <= moment.threads[0].started);
            lost_something += u64::from(rows < moment.threads[0].started);
        }
        looked_at += 1;
    }
    assert!(
        looked_at > 100 && lost_something > 20,
        "too kind: {looked_at} moments, {lost_something} losses"
    );
}

/// The counterpart: without syncs the same program does lose rows, so the test above can fail.
#[test]
fn sqlite_without_syncs_loses_committed_rows() {
    let (disk, mount, _folder) = mounted(NameSync::Directory);
    let frozen = run_worker(&disk, &mount, "off");
    let lost = frozen
        .iter()
        .filter(|moment| moment.threads[0].returned > 20 && moment.threads[0].returned < 29)
        .any(|moment| {
            let left = left_by(moment, Policy::LOSE_ALL, 1);
            rows_in(left.path()) < moment.threads[0].returned
        });
    assert!(lost);
}

//! Content that is written or read through the drive is in the kernel's memory once, in clear; its ciphertext is not.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use strongroom_mount::{MountOptions, Mounted, Opcode};
use support::Drive;

const LEN: u64 = 16 << 20;

/// Eight bytes of the content.
fn content_at(offset: u64) -> [u8; 8] {
    (offset / 8)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_le_bytes()
}

fn content() -> Vec<u8> {
    (0..LEN).step_by(8).flat_map(content_at).collect()
}

/// What this thread has had fetched from disks so far, in bytes. `None` where the system does not count.
fn fetched_bytes() -> Option<u64> {
    let counts = fs::read_to_string("/proc/thread-self/io").ok()?;
    let line = counts
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "))?;
    line.parse().ok()
}

/// How many bytes of the vault's segments and database are in memory: those that reading them does not fetch.
/// Ask once: it changes the answer.
fn resident_bytes(folder: &Path) -> u64 {
    let mut resident = 0;
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            resident += resident_bytes(&entry.path());
        } else if entry.path().parent().unwrap().ends_with("vault")
            && !name.starts_with("metadata.db")
        {
            // The header and the reserve hold no content.
        } else {
            let before = fetched_bytes().unwrap();
            let len = fs::read(entry.path()).unwrap().len() as u64;
            resident += len.saturating_sub(fetched_bytes().unwrap() - before);
        }
    }
    resident
}

/// Whether what is cached can be told here. Says so if not.
fn can_tell(folder: &Path) -> bool {
    let in_memory = rustix::fs::statfs(folder).unwrap().f_type as u64 == 0x0102_1994;
    if in_memory || fetched_bytes().is_none() {
        eprintln!(
            "skipped: a file system in memory, or a system that does not count what is fetched"
        );
        return false;
    }
    true
}

#[test]
fn the_ciphertext_of_a_written_file_does_not_stay_in_memory() {
    let drive = Drive::new();
    if !can_tell(drive.folder.path()) {
        return;
    }
    fs::write(drive.at("file"), content()).unwrap();
    drive.vault.sync().unwrap();
    let segments = drive.folder.path().join("vault/segments");
    assert!(fs::read_dir(&segments).unwrap().count() > 0);
    assert_eq!(resident_bytes(&segments), 0);
    // That look has left them there, and a second one sees it.
    assert!(resident_bytes(&segments) >= LEN);
}

#[test]
fn a_byte_that_is_read_grows_the_page_cache_by_at_most_1_1() {
    let drive = Drive::new();
    if !can_tell(drive.folder.path()) {
        return;
    }
    fs::write(drive.at("file"), content()).unwrap();
    drive.vault.sync().unwrap();
    let Drive {
        mounted,
        filesystem,
        vault: _vault,
        folder,
    } = drive;
    mounted.unmount().unwrap();
    drop(mounted);
    let mounted = Mounted::start(
        filesystem,
        &folder.path().join("mnt"),
        &MountOptions::default(),
    )
    .unwrap();

    let read = || assert!(fs::read(mounted.path().join("file")).unwrap() == content());
    read();
    let before = mounted.requests();
    read();
    // All of the plain bytes are in memory, once: a file's pages are no more than the file.
    assert_eq!(mounted.requests().since(&before).of(Opcode::Read), 0);
    let resident = resident_bytes(&folder.path().join("vault"));
    assert!(
        resident <= LEN / 10,
        "{resident} bytes of ciphertext beside {LEN} of content"
    );
}

/// Read-ahead would fetch more than was asked for, so it is declined, as by a database.
#[test]
fn random_reads_leave_no_ciphertext_in_memory() {
    let drive = Drive::new();
    if !can_tell(drive.folder.path()) {
        return;
    }
    fs::write(drive.at("file"), content()).unwrap();
    drive.vault.sync().unwrap();
    let Drive {
        mounted,
        filesystem,
        vault: _vault,
        folder,
    } = drive;
    mounted.unmount().unwrap();
    drop(mounted);
    let mounted = Mounted::start(
        filesystem,
        &folder.path().join("mnt"),
        &MountOptions::default(),
    )
    .unwrap();
    let file = File::open(mounted.path().join("file")).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    let (pages, count) = (LEN / 4096, 500);
    let before = mounted.requests();
    for index in 0..count {
        // No factor in common, so that no page comes twice.
        let page = index * 1_021 % pages;
        let mut part = [0; 4096];
        file.read_exact_at(&mut part, page * 4096).unwrap();
        assert_eq!(part[..8], content_at(page * 4096));
    }
    assert_eq!(mounted.requests().since(&before).of(Opcode::Read), count);
    assert_eq!(resident_bytes(&folder.path().join("vault/segments")), 0);
}

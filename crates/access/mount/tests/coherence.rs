//! Writes that neither the mount nor the kernel notices, and what other programs see of them: asynchronous direct
//! writes, and memory that is shared with a file.
//!
//! `STRONGROOM_ROUNDS` sets how often each race is run; `make coherence` runs them a thousand times.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::mount::UnmountFlags;
use rustix::process::Signal;
use strongroom::filesystem::{Caller, InodeId};
use strongroom::{FileOptions, Subscription};
use support::Drive;
use support::daemon::Daemon;
use support::libaio::Queue;
use support::mapped::{Mapped, PAGE, Page};

/// Not a test: the process that the tests below start.
#[test]
#[ignore = "started by the other tests"]
fn daemon() {
    support::daemon::serve();
}

/// By default, and with writes that the kernel gathers.
const WRITEBACK: [bool; 2] = [false, true];

fn rounds(otherwise: usize) -> usize {
    std::env::var("STRONGROOM_ROUNDS").map_or(otherwise, |rounds| rounds.parse().unwrap())
}

/// Ends the threads that look at it, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A new sparse file. It takes no blocks, as one that was truncated may for a while.
fn sparse(path: &Path, len: usize) -> File {
    // The one of the round before, if there was one.
    let _ = fs::remove_file(path);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true);
    let file = file.open(path).unwrap();
    file.set_len(len as u64).unwrap();
    file
}

/// Goal: who reads a file sees what a database wrote to it with `O_DIRECT`. Method: one thread overwrites it through libaio while two
/// others read it all the time, so that its pages are in memory; after each completion everything is compared.
/// Failed before: the kernel does not drop pages after asynchronous direct writes, so a third of the reads gave what was there before.
#[test]
fn direct_writes_that_were_under_way_at_once_are_read_by_everybody() {
    const LEN: usize = 160 * PAGE;
    for writeback in WRITEBACK {
        let drive = Daemon::start_with(writeback);
        let path = drive.at("file");
        fs::write(&path, vec![0; LEN]).unwrap();
        let direct = OFlags::DIRECT.bits().cast_signed();
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(direct)
            .open(&path)
            .unwrap();
        let queue = Queue::new(10);
        let stop = AtomicBool::new(false);
        let mut stale = 0;
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        fs::read(&path).unwrap();
                    }
                });
            }
            for round in 0..rounds(100) {
                let fill = u8::try_from(round % 255).unwrap() + 1;
                queue.write(&file, &vec![Page([fill; PAGE]); LEN / PAGE]);
                let read = fs::read(&path).unwrap();
                stale += usize::from(read.len() != LEN || read.iter().any(|byte| *byte != fill));
            }
        });
        assert_eq!(stale, 0, "writeback: {writeback}");
    }
}

/// Goal: the mount answers, however many direct writes are under way. Method: more of them than the kernel once was allowed to have in
/// flight, and two readers whose read-ahead holds pages of the same file. That it ends is the test; the content that is read is compared, too.
/// Failed before: the mount allowed 64 requests in the background. That many direct writes waited until their pages were dropped, and
/// that for a read-ahead, which waited for one of the 64 to end.
#[test]
fn very_many_direct_writes_at_once_come_to_an_end_beside_readers() {
    const DEPTH: usize = 128;
    const LEN: usize = 8 * DEPTH * PAGE;
    for writeback in WRITEBACK {
        let drive = Daemon::start_with(writeback);
        let path = drive.at("file");
        fs::write(&path, vec![0; LEN]).unwrap();
        let direct = OFlags::DIRECT.bits().cast_signed();
        let mut options = OpenOptions::new();
        let options = options.write(true).custom_flags(direct);
        let file = options.open(&path).unwrap();
        let queue = Queue::new(DEPTH);
        let stop = AtomicBool::new(false);
        let mut stale = 0;
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        fs::read(&path).unwrap();
                    }
                });
            }
            for round in 0..rounds(50) {
                let fill = u8::try_from(round % 255).unwrap() + 1;
                queue.write(&file, &vec![Page([fill; PAGE]); LEN / PAGE]);
                let read = fs::read(&path).unwrap();
                stale += usize::from(read.len() != LEN || read.iter().any(|byte| *byte != fill));
            }
        });
        assert_eq!(stale, 0, "writeback: {writeback}");
    }
}

/// Goal: no request waits for one that waits for it, though the mount has the kernel drop pages before it answers some. Method: all
/// ways to a file at once; that it ends is the test. What is written last is there.
#[test]
fn all_ways_to_one_file_at_once_come_to_an_end() {
    const LEN: usize = 64 * PAGE;
    for writeback in WRITEBACK {
        let drive = Daemon::start_with(writeback);
        let path = &drive.at("live");
        let file = &sparse(path, LEN);
        let count = rounds(100);
        let place = |round: usize, thread: usize| (round * 37 + thread * 11) % 60 * PAGE;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let direct = OFlags::DIRECT.bits().cast_signed();
                let mut options = OpenOptions::new();
                let file = options.write(true).custom_flags(direct).open(path).unwrap();
                let queue = Queue::new(8);
                (0..count).for_each(|_| queue.write(&file, &[Page([1; PAGE]); 32]));
            });
            scope.spawn(move || {
                // Parts of pages, which the kernel keeps locked until they are written.
                let part = |round| file.write_all_at(&[2; 100], place(round, 1) as u64 + 50);
                (0..8 * count).for_each(|round| part(round).unwrap());
            });
            scope.spawn(move || {
                let mapped = Mapped::of(
                    File::options().read(true).write(true).open(path).unwrap(),
                    LEN,
                );
                (0..8 * count).for_each(|round| mapped.write(place(round, 2), &[3; 8]));
            });
            scope.spawn(move || (0..4 * count).for_each(|_| drop(fs::read(path).unwrap())));
            scope.spawn(move || {
                for round in 0..4 * count {
                    let at = place(round, 3) as u64;
                    // None follow where the file ends in a hole.
                    let _ = rustix::fs::seek(file, SeekFrom::Data(at));
                    let _ = rustix::fs::seek(file, SeekFrom::Hole(at));
                    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    rustix::fs::fallocate(file, punch, at, 2 * PAGE as u64).unwrap();
                }
            });
            scope.spawn(move || {
                for round in 0..count {
                    // Behind what is mapped, which must not lose its file.
                    file.set_len((LEN + round % 3 * PAGE) as u64).unwrap();
                    file.sync_all().unwrap();
                }
            });
        });
        file.set_len(LEN as u64).unwrap();
        file.write_all_at(&[4; LEN], 0).unwrap();
        assert!(fs::read(path).unwrap() == [4; LEN]);
    }
}

/// Goal: a program that looks at a file while the library changes it sees the change in the end. Method: in each round the kernel forgets
/// the file; then one thread looks it up while another appends to it as the library does, and announces that.
/// Failed before: if the kernel took in the look-up's answer after it had heard of the change, the old size stayed for good.
#[test]
fn a_file_that_grows_while_it_is_looked_up_is_seen_with_its_new_size() {
    let drive = Drive::new();
    let path = &drive.at("file");
    fs::write(path, b"").unwrap();
    let invalidator = drive.mounted.invalidator();
    let found = drive
        .filesystem
        .lookup(&Caller::root(), InodeId::ROOT, b"file");
    let inode = found.unwrap().inode;
    for len in 1..=rounds(100) as u64 {
        invalidator.entry(InodeId::ROOT, b"file");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                fs::metadata(path).unwrap();
            });
            drive.filesystem.write(inode, len - 1, b"x").unwrap();
            invalidator.content(inode, len - 1, 1);
        });
        let deadline = Instant::now() + Duration::from_secs(20);
        while fs::metadata(path).unwrap().len() != len {
            assert!(Instant::now() < deadline, "an old size after {len} bytes");
            std::thread::yield_now();
        }
    }
    drive.filesystem.forget(inode, 1);
}

/// A file that a program on the drive and one with the library keep open to append to.
struct Log {
    on_drive: File,
    in_library: strongroom::File,
    _subscription: Subscription,
    drive: Drive,
}

impl Log {
    /// A new one. `flags`: more of how it is open on the drive.
    fn new(flags: OFlags) -> Self {
        let drive = Drive::new();
        let invalidator = Arc::new(drive.mounted.invalidator());
        let subscription = drive.vault.subscribe(invalidator).unwrap();
        let on_drive = OpenOptions::new()
            .append(true)
            .create(true)
            .custom_flags(flags.bits().cast_signed())
            .open(drive.at("log"))
            .unwrap();
        let append = FileOptions::new().append();
        let in_library = drive.vault.open_file("/log", append).unwrap();
        Self {
            on_drive,
            in_library,
            _subscription: subscription,
            drive,
        }
    }

    fn content(&self) -> Vec<u8> {
        self.drive.vault.read("/log").unwrap()
    }

    /// Reads it on the drive until it is what the vault has: after an append the kernel still has to drop what it holds.
    fn read_in_the_end(&self) {
        let content = self.content();
        let deadline = Instant::now() + Duration::from_secs(20);
        while fs::read(self.drive.at("log")).unwrap() != content {
            assert!(Instant::now() < deadline, "old content or an old size");
            std::thread::yield_now();
        }
    }
}

/// Appends `bytes` to a file that should hold `expected`.
fn append(mut to: impl Write, expected: &mut Vec<u8>, bytes: &[u8]) {
    to.write_all(bytes).unwrap();
    expected.extend_from_slice(bytes);
}

/// Bytes of which each page differs from its neighbours.
fn pages(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / PAGE % 251) as u8).collect()
}

/// Goal: a log to which a program on the mount and one with the library append in turn keeps every byte. Method: the one on the mount
/// seldom looks at the file, so that the kernel takes an old end for the end. Some appends take several requests.
/// Failed before: an append on the mount went over what the library had appended since the kernel was last told the length.
#[test]
fn a_log_keeps_what_the_mount_and_the_library_append_in_turn() {
    let log = Log::new(OFlags::empty());
    let mut expected = Vec::new();
    for round in 0..rounds(100) {
        let fill = u8::try_from(round % 100).unwrap();
        let other = vec![100 + fill; 20 + round % 60];
        append(&log.in_library, &mut expected, &other);
        let own = match round {
            5 => pages(3 << 20),
            _ if round % 7 == 0 => pages(10_000),
            _ => vec![fill; 30 + round % 100],
        };
        append(&log.on_drive, &mut expected, &own);
        if round % 3 == 0 {
            append(&log.on_drive, &mut expected, b"and more");
        }
        if round % 10 == 3 {
            log.read_in_the_end();
        }
    }
    assert!(log.content() == expected);
    log.read_in_the_end();
}

/// Goal: the same while both append at once. Method: the bytes of both differ in their highest bit. The kernel sends what crosses a page
/// in two requests, so it is the bytes of each that must be complete and in order.
/// Failed before: as above.
#[test]
fn a_log_keeps_what_the_mount_and_the_library_append_at_once() {
    let log = Log::new(OFlags::empty());
    let count = rounds(500);
    let record = |round: usize, high: u8| vec![high + (round % 101) as u8; 10 + round % 90];
    std::thread::scope(|scope| {
        let (mut in_library, mut on_drive) = (&log.in_library, &log.on_drive);
        scope.spawn(move || {
            (0..count).for_each(|round| in_library.write_all(&record(round, 128)).unwrap());
        });
        (0..count).for_each(|round| on_drive.write_all(&record(round, 0)).unwrap());
    });
    let (of_library, of_mount): (Vec<u8>, Vec<u8>) =
        log.content().into_iter().partition(|byte| *byte >= 128);
    let all = |high| {
        (0..count)
            .flat_map(|round| record(round, high))
            .collect::<Vec<_>>()
    };
    assert!(of_library == all(128));
    assert!(of_mount == all(0));
    log.read_in_the_end();
}

/// Failed before: the append went to where the end had been, behind a hole.
#[test]
fn an_append_to_a_file_that_the_library_has_cut_goes_to_its_new_end() {
    let log = Log::new(OFlags::empty());
    let write = FileOptions::new().write();
    let cutter = log.drive.vault.open_file("/log", write).unwrap();
    for round in 0..rounds(50) {
        let mut expected = log.content();
        append(&log.on_drive, &mut expected, &pages(5_000 + round));
        let len = 10 + round * 37 % 4_500;
        cutter.set_len(len as u64).unwrap();
        expected.truncate(len);
        append(&log.on_drive, &mut expected, b"the end");
        assert!(log.content() == expected, "round {round}");
        log.read_in_the_end();
    }
}

/// Goal: direct appends go to the end, too, and a long one, whose parts reach the mount in any order, stays whole. Method: the long ones
/// come after a look at the file, as the guide to the mount asks.
/// Failed before: a direct append went over what the library had appended. The long ones are here so that they stay in order.
#[test]
fn a_log_keeps_what_is_appended_to_it_directly() {
    let log = Log::new(OFlags::DIRECT);
    let mut expected = Vec::new();
    for round in 0..rounds(50) {
        let fill = u8::try_from(round % 100).unwrap();
        let other = vec![100 + fill; 20 + round % 60];
        append(&log.in_library, &mut expected, &other);
        append(&log.on_drive, &mut expected, &Page([fill; PAGE]).0);
        append(&log.on_drive, &mut expected, &pages(64 << 10));
        if round < 50 && round % 10 == 3 {
            fs::metadata(log.drive.at("log")).unwrap();
            append(&log.on_drive, &mut expected, &pages(3 << 20));
        }
    }
    assert!(log.content() == expected);
    log.read_in_the_end();
}

/// The programs that leave holes out when they copy.
const COPIERS: [&str; 4] = [
    "cp live copy",
    "cp --reflink=auto live copy",
    "cp --sparse=always live copy",
    "tar -S -cf - live | tar -C out -xf - && mv out/live copy",
];

/// Copies `live` in the root of the drive by `copier`; gives what the copy holds.
fn copied(drive: &Daemon, copier: &str) -> Vec<u8> {
    let _ = fs::create_dir(drive.at("out"));
    let mut shell = Command::new("sh");
    // `tar` says that the file changed meanwhile, as it did.
    let done = shell
        .args(["-c", copier])
        .current_dir(drive.mount_point())
        .stderr(Stdio::null());
    assert!(done.status().unwrap().success(), "{copier}");
    let copy = fs::read(drive.at("copy")).unwrap();
    fs::remove_file(drive.at("copy")).unwrap();
    copy
}

/// Failed before: by default the mount reported a hole where memory was written, and each of the programs left it out; `tar` does not
/// even look into a file that takes no blocks.
#[test]
fn what_a_mapping_holds_is_copied() {
    const LEN: usize = 4 << 20;
    for (writeback, stored) in [
        (false, &b"stored"[..]),
        (false, b""),
        (true, b"stored"),
        (true, b""),
    ] {
        let drive = Daemon::start_with(writeback);
        for copier in COPIERS {
            let file = sparse(&drive.at("live"), LEN);
            file.write_all_at(stored, 2 << 20).unwrap();
            let mapped = Mapped::of(file, LEN);
            let mut expected = vec![0; LEN];
            expected[2 << 20..][..stored.len()].copy_from_slice(stored);
            for place in [0, PAGE, (1 << 20) + 5, (3 << 20) - 3, LEN - 4] {
                mapped.write(place, b"data");
                expected[place..place + 4].copy_from_slice(b"data");
            }
            let copy = copied(&drive, copier);
            assert!(
                copy == expected,
                "{copier}, {stored:?}, writeback: {writeback}"
            );
        }
    }
}

/// Goal: a database in mapped memory is copied with all that was in it when the copy began. Method: while a thread writes one page of
/// a sparse file after another, in an order without neighbours, programs copy it.
/// Failed before: by default the copies lacked what the kernel had not sent yet.
#[test]
fn a_database_in_mapped_memory_is_copied_with_all_that_was_in_it() {
    const PAGES: usize = 1024;
    let page_at = |step: usize| step * 389 % PAGES;
    let content = |page: usize| (page as u64 + 1).to_le_bytes();
    for writeback in WRITEBACK {
        let drive = Daemon::start_with(writeback);
        let mut missing = 0;
        for round in 0..rounds(12) {
            let written = &AtomicUsize::new(0);
            let live = &drive.at("live");
            std::thread::scope(|scope| {
                // Hears when the copy is complete; until then the memory stays mapped.
                let (_copying, complete) = channel::<()>();
                scope.spawn(move || {
                    let mapped = Mapped::of(sparse(live, PAGES * PAGE), PAGES * PAGE);
                    for step in 0..PAGES {
                        mapped.write(page_at(step) * PAGE, &content(page_at(step)));
                        written.store(step + 1, Ordering::Release);
                    }
                    let _ = complete.recv();
                });
                while written.load(Ordering::Acquire) < 32 {
                    std::thread::yield_now();
                }
                let before = written.load(Ordering::Acquire);
                let copy = copied(&drive, COPIERS[round % COPIERS.len()]);
                let lacks = |page: usize| copy[page * PAGE..][..8] != content(page);
                missing += (0..before).map(page_at).filter(|page| lacks(*page)).count();
            });
        }
        assert_eq!(missing, 0, "writeback: {writeback}");
    }
}

/// Failed before: with writes that the kernel gathers, all of a sparse file was data.
#[test]
fn holes_are_found_beside_what_a_mapping_holds() {
    const LEN: usize = 1 << 40;
    for writeback in WRITEBACK {
        let drive = Daemon::start_with(writeback);
        let file = sparse(&drive.at("live"), LEN);
        let mapped = Mapped::of(file, 1 << 20);
        let file = File::open(drive.at("live")).unwrap();
        mapped.write(10 * PAGE, b"data");
        let seek = |to| rustix::fs::seek(&file, to).ok();
        let page = PAGE as u64;
        assert_eq!(seek(SeekFrom::Data(0)), Some(10 * page));
        assert_eq!(seek(SeekFrom::Hole(10 * page)), Some(11 * page));
        assert_eq!(seek(SeekFrom::Hole(0)), Some(0));
        assert_eq!(seek(SeekFrom::Data(11 * page)), None);
        // What is filled in memory alone: the first hole is the one behind.
        for page in 11..40 {
            mapped.write(page * PAGE, b"data");
        }
        assert_eq!(seek(SeekFrom::Hole(10 * page)), Some(40 * page));
        let copy = drive.at("copy");
        let done = Command::new("cp").arg(drive.at("live")).arg(&copy).status();
        assert!(done.unwrap().success());
        let copy = fs::metadata(copy).unwrap();
        assert_eq!(copy.len(), LEN as u64);
        assert!(copy.blocks() * 512 <= 1 << 20, "{} blocks", copy.blocks());
    }
}

/// Failed before: by default what was written to mapped memory was not there when the vault was opened again.
#[test]
fn a_signal_ends_a_mount_with_everything_that_a_mapping_holds() {
    const LEN: usize = 1 << 20;
    for round in 0..rounds(8) {
        let (writeback, lazily) = (round % 2 == 1, round % 4 > 1);
        let mut drive = Daemon::start_with(writeback);
        let mapped = Mapped::of(sparse(&drive.at("live"), LEN), LEN);
        let mut expected = vec![0; LEN];
        for place in [0, 500_000, LEN - 8] {
            mapped.write(place, &round.to_le_bytes());
            expected[place..place + 8].copy_from_slice(&round.to_le_bytes());
        }
        if lazily {
            // Out of sight, and kept alive by the mapping.
            rustix::mount::unmount(drive.mount_point(), UnmountFlags::DETACH).unwrap();
        }
        let signal = [Signal::TERM, Signal::INT][round / 4 % 2];
        drive.signal(signal);
        assert!(drive.says("ended"));
        assert!(drive.child.wait().unwrap().success());
        let kept = fs::read(drive.folder.path().join("kept")).unwrap();
        assert!(
            kept == expected,
            "{signal:?}, writeback: {writeback}, lazily: {lazily}"
        );
    }
}

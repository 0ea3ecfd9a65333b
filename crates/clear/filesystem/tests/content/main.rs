//! The content half of the file system, through its public methods. Each test ends in a sound vault (`Lab`).

mod copies;
mod costs;
mod erasures;
mod forged;
mod full_disk;
mod hashes;
mod healing;
mod intents;
mod many_files;
mod memory;
mod quota;
mod reservation;
mod space;
#[path = "../support/mod.rs"]
mod support;
mod tree_reads;
mod truncation;

mod epochs;

use strongroom_filesystem::{AllocateMode, Caller, Error, InodeId, SeekTarget, SetAttributes};
use strongroom_metadata::SegmentState;
use support::{Lab, ROOT, assert_refused};

const CELL: u64 = 64 * 1024;

/// Bytes that differ at every offset and for every seed, so that no two blocks are equal by accident.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

fn all(lab: &Lab, inode: InodeId) -> Vec<u8> {
    let size = usize::try_from(lab.stat(inode).size).expect("fits memory");
    let mut buffer = vec![0xAA; size + 10];
    let count = lab.read(inode, 0, &mut buffer).expect("reads");
    assert_eq!(count, size, "a read ends at the end of the file");
    buffer.truncate(count);
    buffer
}

fn truncate(lab: &Lab, inode: InodeId, size: u64) {
    let set = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    lab.set_attributes(&Caller::root(), inode, &set)
        .expect("truncates");
}

#[test]
fn content_is_the_same_before_and_after_sync_reopen_and_crash() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let content = pattern(1, 5_000_123);
    for (index, part) in content.chunks(70_001).enumerate() {
        lab.write(file, index as u64 * 70_001, part)
            .expect("writes");
    }
    assert!(all(&lab, file) == content, "from memory");
    lab.sync_inode(file).expect("syncs");
    assert!(all(&lab, file) == content, "from blocks");
    lab.crash();
    assert!(all(&lab, file) == content, "after a crash");
    lab.reopen();
    assert!(all(&lab, file) == content, "after a clean close");
}

#[test]
fn what_no_sync_covered_may_go_and_leaves_a_sound_vault() {
    let mut lab = Lab::new();
    let kept = lab.file(ROOT, "kept");
    lab.write(kept, 0, &pattern(2, 300_000)).expect("writes");
    lab.sync_inode(kept).expect("syncs");
    let lost = lab.file(ROOT, "lost");
    lab.write(lost, 0, &pattern(3, 9_000_000)).expect("writes");
    lab.crash();
    assert_eq!(lab.names(ROOT), ["kept"]);
    assert!(all(&lab, kept) == pattern(2, 300_000));
}

#[test]
fn overwrites_of_every_alignment_show_the_newest_bytes() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let mut model = vec![0; 400_000];
    for round in 0..300_u64 {
        let start = (round * 7_919) % 390_000;
        let len = usize::try_from(1 + (round * 331) % 9_000).expect("small");
        let bytes = pattern(round, len);
        lab.write(file, start, &bytes).expect("writes");
        let start = usize::try_from(start).expect("small");
        model.resize(model.len().max(start + len), 0);
        model[start..start + len].copy_from_slice(&bytes);
        if round % 20 == 7 {
            lab.sync_inode(file).expect("syncs");
        }
        if round % 90 == 50 {
            lab.tick().expect("background work");
        }
    }
    let size = usize::try_from(lab.stat(file).size).expect("small");
    assert!(all(&lab, file) == model[..size]);
    lab.reopen();
    assert!(all(&lab, file) == model[..size]);
}

/// Goal: a file cut into many small blocks is rewritten in the background, and that is no edit.
#[test]
fn a_fragmented_cell_heals_without_looking_like_an_edit() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(4, 65_536)).expect("writes");
    lab.sync_inode(file).expect("syncs");
    let mut model = pattern(4, 65_536);
    for index in 0..60_usize {
        let at = index * 1_000;
        let bytes = pattern(100 + index as u64, 400);
        lab.write(file, at as u64, &bytes).expect("writes");
        model[at..at + 400].copy_from_slice(&bytes);
        lab.sync_inode(file).expect("syncs");
    }
    let before = lab.check().expect("checks");
    let mtime = lab.stat(file).mtime;
    lab.tick().expect("background work");
    let after = lab.check().expect("checks");
    assert!(
        before.extents > 60 && after.extents < before.extents / 2,
        "{} {}",
        before.extents,
        after.extents
    );
    assert_eq!(lab.stat(file).mtime, mtime);
    assert!(all(&lab, file) == model);
    lab.reopen();
    assert!(all(&lab, file) == model);
}

#[test]
fn an_append_goes_to_the_end_but_not_before_where_it_is_told() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let append = |from, bytes: &[u8]| lab.append_from(file, from, bytes).expect("appends");
    assert_eq!(append(3, b"abc"), 3);
    assert_eq!(append(4, b"def"), 6);
    assert_eq!(append(10, b"ghi"), 10);
    assert_eq!(all(&lab, file), b"\0\0\0abcdef\0ghi");
}

#[test]
fn a_truncated_and_extended_file_reads_zeros_where_content_was() {
    for synced in [false, true] {
        let mut lab = Lab::new();
        let file = lab.file(ROOT, "file");
        lab.write(file, 0, &pattern(5, 200_000)).expect("writes");
        if synced {
            lab.sync_inode(file).expect("syncs");
        }
        truncate(&lab, file, 70_000);
        truncate(&lab, file, 150_000);
        let mut model = pattern(5, 70_000);
        model.resize(150_000, 0);
        assert!(all(&lab, file) == model, "synced {synced}");
        lab.reopen();
        assert!(all(&lab, file) == model, "synced {synced}, reopened");
    }
}

#[test]
fn a_copy_shares_blocks_until_one_side_changes() {
    let mut lab = Lab::new();
    let (from, to) = (lab.file(ROOT, "from"), lab.file(ROOT, "to"));
    let content = pattern(6, 1_000_000);
    lab.write(from, 0, &content).expect("writes");
    lab.sync().expect("syncs");
    let appended = lab.counters().segments.bytes_appended;
    assert_eq!(
        lab.copy_range(from, 0, to, 0, u64::MAX / 4)
            .expect("copies"),
        1_000_000
    );
    lab.sync().expect("syncs");
    assert_eq!(
        lab.counters().segments.bytes_appended,
        appended,
        "a copy stores no content"
    );
    assert!(all(&lab, to) == content);
    // Another offset inside the cells, over what is there already.
    assert_eq!(
        lab.copy_range(from, 1_234, to, 500_001, 300_000)
            .expect("copies"),
        300_000
    );
    let mut model = content.clone();
    model[500_001..800_001].copy_from_slice(&content[1_234..301_234]);
    assert!(all(&lab, to) == model);
    lab.write(from, 0, &pattern(7, 400_000)).expect("writes");
    lab.unlink(&Caller::root(), ROOT, b"from").expect("unlinks");
    lab.reopen();
    assert!(all(&lab, to) == model);
}

#[test]
fn a_copy_within_one_file_works_unless_the_ranges_overlap() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let content = pattern(8, 300_000);
    lab.write(file, 0, &content).expect("writes");
    assert_refused!(
        lab.copy_range(file, 0, file, 1_000, 2_000),
        Error::InvalidArgument(_)
    );
    assert_eq!(
        lab.copy_range(file, 10, file, 200_000, 150_000)
            .expect("copies"),
        150_000
    );
    let mut model = content[..200_000].to_vec();
    model.extend_from_slice(&content[10..150_010]);
    assert!(all(&lab, file) == model);
}

#[test]
fn holes_are_found_punched_and_take_no_space() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 10 * CELL, &pattern(9, 3 * 65_536))
        .expect("writes");
    assert_eq!(
        lab.seek(file, 0, SeekTarget::Data).expect("seeks"),
        10 * CELL
    );
    assert_eq!(lab.seek(file, 0, SeekTarget::Hole).expect("seeks"), 0);
    lab.allocate(file, AllocateMode::PunchHole, 11 * CELL, CELL)
        .expect("punches");
    assert_eq!(
        lab.seek(file, 10 * CELL, SeekTarget::Hole).expect("seeks"),
        11 * CELL
    );
    assert_eq!(
        lab.seek(file, 11 * CELL, SeekTarget::Data).expect("seeks"),
        12 * CELL
    );
    assert_eq!(
        lab.seek(file, 12 * CELL, SeekTarget::Hole).expect("seeks"),
        13 * CELL
    );
    assert_refused!(
        lab.seek(file, 13 * CELL, SeekTarget::Data),
        Error::NoSuchOffset
    );
    lab.sync().expect("syncs");
    assert_eq!(lab.stat(file).blocks, 2 * CELL / 512);
    assert_eq!(lab.stat(file).size, 13 * CELL);
    truncate(&lab, file, 1 << 40);
    assert_refused!(
        lab.seek(file, 13 * CELL, SeekTarget::Data),
        Error::NoSuchOffset
    );
    lab.reopen();
    assert_eq!(lab.stat(file).size, 1 << 40);
    assert_eq!(
        lab.seek(file, 1 << 39, SeekTarget::Hole).expect("seeks"),
        1 << 39
    );
}

#[test]
fn an_unlinked_file_lives_until_its_last_reference_and_then_gives_its_space_back() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let content = pattern(10, 2_000_000);
    lab.write(file, 0, &content).expect("writes");
    lab.sync().expect("syncs");
    lab.unlink(&Caller::root(), ROOT, b"file").expect("unlinks");
    lab.write(file, 5, b"still here").expect("writes");
    lab.sync().expect("syncs");
    assert_eq!(lab.stat(file).size, 2_000_000);
    lab.forget(file, u64::MAX);
    for _ in 0..4 {
        lab.tick().expect("background work");
    }
    assert_refused!(lab.attributes(file), Error::Stale);
    let report = lab.check().expect("checks");
    assert_eq!((report.inodes, report.blocks), (1, 0));
    lab.crash();
    assert_eq!(lab.check().expect("checks").blocks, 0);
}

#[test]
fn an_orphan_of_a_crash_is_purged_at_open() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(11, 500_000)).expect("writes");
    lab.unlink(&Caller::root(), ROOT, b"file").expect("unlinks");
    lab.sync().expect("syncs");
    assert_eq!(lab.check().expect("checks").inodes, 2);
    lab.crash();
    let report = lab.check().expect("checks");
    assert_eq!((report.inodes, report.blocks), (1, 0));
}

/// Goal: a small fsync costs one disk flush: its block travels in the commit.
#[test]
fn a_small_fsync_costs_one_flush_and_a_second_one_none() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.sync().expect("syncs");
    let flushes = |lab: &Lab| {
        let counters = lab.counters();
        counters.segments.data_syncs
            + counters.segments.directory_syncs
            + counters.metadata.disk.log.syncs
            + counters.metadata.disk.database.syncs
    };
    let before = flushes(&lab);
    lab.write(file, 0, &pattern(12, 4_096)).expect("writes");
    lab.sync_inode(file).expect("syncs");
    assert_eq!(flushes(&lab), before + 1);
    lab.sync_inode(file).expect("syncs");
    assert_eq!(
        flushes(&lab),
        before + 1,
        "nothing changed, nothing to flush"
    );
}

/// SECURITY.md, claim 3.
#[test]
fn equal_blocks_are_stored_once() {
    let mut lab = Lab::new();
    let content = pattern(13, 1 << 20);
    let first = lab.file(ROOT, "first");
    lab.write(first, 0, &content).expect("writes");
    lab.sync().expect("syncs");
    let stored = lab.check().expect("checks").blocks;
    let second = lab.file(ROOT, "second");
    lab.write(second, 0, &content).expect("writes");
    lab.sync().expect("syncs");
    assert_eq!(lab.check().expect("checks").blocks, stored);
    lab.unlink(&Caller::root(), ROOT, b"first")
        .expect("unlinks");
    lab.forget(first, u64::MAX);
    lab.tick().expect("background work");
    lab.reopen();
    assert!(all(&lab, second) == content);
}

/// Goal: what was deleted gives its space back, whole segments at once and sparse ones by compaction, and
/// what remains stays readable through all of it.
#[test]
fn deleting_and_compacting_give_space_back_and_keep_the_rest() {
    let mut lab = Lab::new();
    let mut kept = Vec::new();
    for index in 0..60_u64 {
        let file = lab.file(ROOT, &format!("file{index}"));
        lab.write(file, 0, &pattern(1_000 + index, 1_000_000))
            .expect("writes");
        if index % 10 == 0 {
            kept.push((index, file));
        }
    }
    lab.sync().expect("syncs");
    lab.tick().expect("background work");
    let before = disk_usage(&lab);
    for index in (0..60_u64).filter(|index| index % 10 != 0) {
        let name = format!("file{index}");
        let file = lab.find(ROOT, &name).expect("there");
        lab.unlink(&Caller::root(), ROOT, name.as_bytes())
            .expect("unlinks");
        lab.forget(file, u64::MAX);
    }
    lab.tick().expect("background work");
    for (index, file) in &kept {
        // So that it is remembered where they were.
        assert!(all(&lab, *file) == pattern(1_000 + index, 1_000_000));
    }
    lab.compact().expect("compacts");
    let after = disk_usage(&lab);
    assert!(after < before / 4, "{before} bytes before, {after} after");
    for (index, file) in &kept {
        assert!(
            all(&lab, *file) == pattern(1_000 + index, 1_000_000),
            "file {index}"
        );
    }
    lab.crash();
    for (index, file) in &kept {
        assert!(
            all(&lab, *file) == pattern(1_000 + index, 1_000_000),
            "file {index} after a crash"
        );
    }
}

fn disk_usage(lab: &Lab) -> u64 {
    let mut total = 0;
    let mut folders = vec![lab.path().join("segments")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)
            .expect("lists")
            .map(|entry| entry.expect("an entry"))
        {
            let meta = entry.metadata().expect("stats");
            if meta.is_dir() {
                folders.push(entry.path())
            } else {
                total += meta.len()
            }
        }
    }
    total
}

#[test]
fn a_full_disk_shows_at_the_write_and_deleting_still_works() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(14, 100_000)).expect("writes");
    lab.sync().expect("syncs");
    lab.fill_disk(true);
    let refused = (0..600).find_map(|_| lab.write(file, 200_000, &pattern(15, 10_000)).err());
    assert_refused!(
        Err::<(), _>(refused.expect("a full disk is noticed")),
        Error::NoSpace
    );
    assert!(all(&lab, file)[..100_000] == pattern(14, 100_000));
    lab.unlink(&Caller::root(), ROOT, b"file")
        .expect("deleting needs no room");
    lab.sync().expect("syncs");
    lab.fill_disk(false);
}

/// Goal: many threads on one file system neither deadlock nor lose a byte.
#[test]
fn eight_threads_write_sync_rename_and_read_at_once() {
    let mut lab = Lab::new();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let lab = &lab;
            scope.spawn(move || {
                let directory = lab.directory(ROOT, &format!("thread{thread}"));
                for round in 0..20_u64 {
                    let name = format!("file{round}");
                    let file = lab.file(directory, "new");
                    let content = pattern(thread * 1_000 + round, 150_000);
                    lab.write(file, 0, &content).expect("writes");
                    if round % 3 == 0 {
                        lab.sync_inode(file).expect("syncs");
                    }
                    let mode = strongroom_filesystem::RenameMode::Replace;
                    lab.rename(
                        &Caller::root(),
                        directory,
                        b"new",
                        directory,
                        name.as_bytes(),
                        mode,
                    )
                    .expect("renames");
                    assert!(all(lab, file) == content);
                    if round % 7 == 0 {
                        lab.sync().expect("syncs");
                    }
                }
            });
        }
    });
    lab.reopen();
    for thread in 0..8_u64 {
        let directory = lab.find(ROOT, &format!("thread{thread}")).expect("there");
        for round in 0..20_u64 {
            let file = lab.find(directory, &format!("file{round}")).expect("there");
            assert!(all(&lab, file) == pattern(thread * 1_000 + round, 150_000));
        }
    }
}

fn segment_files(lab: &Lab) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![lab.path().join("segments")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)
            .expect("lists")
            .map(|entry| entry.expect("an entry").path())
        {
            if entry.is_dir() {
                folders.push(entry)
            } else {
                files.push(entry)
            }
        }
    }
    files
}

/// Goal: writing the same bytes again mends a damaged block instead of naming new content after it.
#[test]
fn content_written_again_takes_the_place_of_damaged_blocks() {
    let mut lab = Lab::new();
    let content = pattern(16, 300_000);
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &content).expect("writes");
    lab.sync().expect("syncs");
    lab.tick().expect("background work");
    for path in segment_files(&lab) {
        let mut bytes = std::fs::read(&path).expect("reads");
        // Every sealed byte behind the header and the first batch header.
        bytes[8_192..].iter_mut().for_each(|byte| *byte ^= 0x55);
        std::fs::write(&path, bytes).expect("writes");
    }
    let mut buffer = vec![0; content.len()];
    assert_refused!(lab.read(file, 0, &mut buffer), Error::Damaged { .. });
    for cell in 0..5 {
        let _ = lab.read(file, cell * CELL, &mut buffer[..1]);
    }
    let again = lab.file(ROOT, "again");
    lab.write(again, 0, &content).expect("writes");
    lab.sync().expect("syncs");
    assert!(all(&lab, again) == content);
    assert!(
        all(&lab, file) == content,
        "the old file names the same blocks"
    );
    lab.reopen();
    assert!(all(&lab, again) == content);
}

/// Goal: the same where the new bytes travel in the commit, and move to a segment later.
#[test]
fn small_content_carried_by_a_commit_takes_the_place_of_damaged_blocks() {
    let mut lab = Lab::new();
    let content = pattern(18, 20_000);
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &content).expect("writes");
    lab.sync().expect("syncs");
    for path in segment_files(&lab) {
        let mut bytes = std::fs::read(&path).expect("reads");
        bytes[8_192..].iter_mut().for_each(|byte| *byte ^= 0x55);
        std::fs::write(&path, bytes).expect("writes");
    }
    assert_refused!(lab.read(file, 0, &mut [0; 20_000]), Error::Damaged { .. });
    let again = lab.file(ROOT, "again");
    lab.write(again, 0, &content).expect("writes");
    lab.sync_inode(again).expect("syncs");
    for round in ["carried", "after a crash", "in a segment"] {
        assert!(all(&lab, again) == content, "{round}");
        assert!(all(&lab, file) == content, "{round}");
        if round == "carried" {
            lab.crash();
        } else {
            lab.compact().expect("moves what is carried");
            lab.reopen();
        }
    }
}

/// Goal: closing after much writing leaves one unfinished segment at most, so that nothing keeps its waste for ever.
#[test]
fn segments_that_were_full_at_close_or_crash_are_finished() {
    let mut lab = Lab::new();
    for round in 0..2 {
        let name = format!("file{round}");
        let file = lab.file(ROOT, &name);
        lab.write(file, 0, &pattern(17 + round, 50_000_000))
            .expect("writes");
        if round == 0 {
            lab.reopen()
        } else {
            lab.sync().expect("syncs");
            lab.crash()
        }
        lab.unlink(&Caller::root(), ROOT, name.as_bytes())
            .expect("unlinks");
        lab.tick().expect("background work");
        lab.compact().expect("compacts");
        assert!(
            disk_usage(&lab) < 1_000_000,
            "round {round}: {} bytes left",
            disk_usage(&lab)
        );
    }
}

/// Goal: a push is not refused for a segment whose file is gone: what is lost is reported where it is read. Method: the row says that the
/// segment has no end, and nothing of it was read since the opening. Failed before: its contents were looked for in the file first.
#[test]
fn a_segment_whose_file_is_gone_keeps_no_other_from_its_end() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(18, 50_000)).expect("writes");
    lab.end_segments().expect("ends it");
    lab.reopen();
    let (engine, path) = (lab.engine(), segment_files(&lab).remove(0));
    let rows = || engine.reader().expect("reads").segments().expect("reads");
    let row = rows().remove(0);
    engine
        .change(|writer| -> Result<(), Error> {
            Ok(writer.set_segment_state(row.number, SegmentState::Open)?)
        })
        .expect("said");
    let bytes = std::fs::read(&path).expect("reads");
    std::fs::remove_file(&path).expect("removed");
    lab.end_segments().expect("passes over it");
    assert!(rows().iter().all(|row| row.state != SegmentState::Open));
    // What looks at the vault in the end finds all.
    std::fs::write(&path, bytes).expect("written");
}

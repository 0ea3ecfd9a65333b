//! The costs of operations: seals, bytes, disk flushes, SQL statements. Unlike times, counts are the same in every run.

use strongroom_filesystem::{Caller, Counters, InodeId, SetAttributes};

use crate::support::{Lab, ROOT};
use crate::{CELL, all, pattern, truncate};

const MIB: u64 = 1 << 20;

/// What `work` adds to the counts.
struct Cost {
    blocks_sealed: u64,
    bytes_sealed: u64,
    bytes_appended: u64,
    /// To the log of the database.
    log_bytes: u64,
    log_writes: u64,
    statements: u64,
    flushes: u64,
}

fn flushes(counters: &Counters) -> u64 {
    let disk = counters.metadata.disk;
    let segments = counters.segments;
    let of_segments = segments.data_syncs + segments.directory_syncs;
    // One thread: nobody shares the sync of a record.
    of_segments + disk.log.syncs + disk.database.syncs + counters.intents
}

fn cost(lab: &Lab, work: impl FnOnce()) -> Cost {
    let before = lab.counters();
    work();
    let after = lab.counters();
    Cost {
        blocks_sealed: after.blocks_sealed - before.blocks_sealed,
        bytes_sealed: after.bytes_sealed - before.bytes_sealed,
        bytes_appended: after.segments.bytes_appended - before.segments.bytes_appended,
        log_bytes: after.metadata.disk.log.bytes - before.metadata.disk.log.bytes,
        log_writes: after.metadata.disk.log.writes - before.metadata.disk.log.writes,
        statements: after.metadata.statements - before.metadata.statements,
        flushes: flushes(&after) - flushes(&before),
    }
}

fn write(lab: &Lab, file: InodeId, seed: u64, len: u64) {
    lab.write(
        file,
        0,
        &pattern(seed, usize::try_from(len).expect("fits memory")),
    )
    .expect("writes");
}

#[test]
fn a_byte_of_a_large_file_is_sealed_once_and_stored_once() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let len = 16 * MIB;
    let cost = cost(&lab, || {
        write(&lab, file, 1, len);
        lab.sync().expect("durable");
    });
    assert_eq!((cost.blocks_sealed, cost.bytes_sealed), (len / CELL, len));
    let stored = cost.bytes_appended + cost.log_bytes;
    assert!(
        stored <= len + len / 50,
        "{stored} bytes stored for {len} written"
    );
}

/// Goal: a large drain looks for equal blocks, block by block, and stores none of them again.
#[test]
fn of_a_large_file_only_the_cells_that_are_new_are_stored() {
    let mut lab = Lab::new();
    let (old, new) = (lab.file(ROOT, "old"), lab.file(ROOT, "new"));
    let len = 16 * MIB;
    let cell = |number: u64| usize::try_from(number * CELL).expect("fits memory");
    write(&lab, old, 1, len);
    lab.sync().expect("durable");
    // Every third cell is as in the other file; so is a run of several batches.
    let (mut content, other) = (pattern(1, cell(len / CELL)), pattern(2, cell(len / CELL)));
    let is_new = |number: u64| !number.is_multiple_of(3) && !(64..160).contains(&number);
    let numbers: Vec<u64> = (0..len / CELL).filter(|number| is_new(*number)).collect();
    for number in &numbers {
        let place = cell(*number)..cell(number + 1);
        content[place.clone()].copy_from_slice(&other[place]);
    }
    let cost = cost(&lab, || {
        lab.write(new, 0, &content).expect("writes");
        lab.sync().expect("durable");
    });
    let fresh = numbers.len() as u64 * CELL;
    assert!(
        (fresh..fresh + fresh / 20).contains(&cost.bytes_appended),
        "{} bytes appended for {fresh} that are new",
        cost.bytes_appended
    );
    for _ in 0..2 {
        assert!(all(&lab, old) == pattern(1, cell(len / CELL)));
        assert!(all(&lab, new) == content);
        lab.crash();
    }
}

/// Goal: what was looked up once is not asked again, and what is remembered never hides damage.
#[test]
fn what_was_read_once_is_read_again_without_the_database_and_damage_is_still_seen() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    for number in 0..100 {
        lab.write(file, number * 4 * MIB, &pattern(number, 131_072))
            .expect("writes");
    }
    lab.sync().expect("durable");
    let read = |offset: u64| {
        let mut bytes = vec![0; 4096];
        lab.read(file, offset, &mut bytes)
    };
    let places = || (0..100).map(|number| number * 4 * MIB + 70_000);
    let first = cost(&lab, || {
        places().for_each(|offset| assert!(read(offset).is_ok()))
    });
    assert!(first.statements >= 100, "{}", first.statements);
    let second = cost(&lab, || {
        places().for_each(|offset| assert!(read(offset).is_ok()))
    });
    assert_eq!(second.statements, 0);

    for segment in crate::segment_files(&lab) {
        let mut bytes = std::fs::read(&segment).expect("reads");
        bytes[4096..].iter_mut().for_each(|byte| *byte ^= 1);
        std::fs::write(&segment, bytes).expect("writes");
    }
    for offset in places() {
        assert!(
            matches!(
                read(offset),
                Err(strongroom_filesystem::Error::Damaged { .. })
            ),
            "{offset}"
        );
    }
}

/// Goal: to find the blocks of a file that was written at once does not cost a statement a block.
#[test]
fn a_large_read_asks_the_database_about_all_its_blocks_at_once() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let len = 8 * MIB;
    write(&lab, file, 1, len);
    lab.reopen();
    let mut bytes = vec![0xAA; usize::try_from(MIB).expect("fits memory")];
    for number in 0..len / MIB {
        let read = cost(&lab, || {
            let count = lab.read(file, number * MIB, &mut bytes).expect("reads");
            assert_eq!(count, bytes.len());
        });
        // The blocks, the extents once in 4 MiB, and for the first the inode and the name of a segment; three batches of blocks are
        // three segments' parts at most.
        assert!(
            read.statements <= 6,
            "{} statements to read MiB {number}",
            read.statements
        );
    }
}

/// Goal: memory that a read is given holds nothing of its last use afterwards, wherever the holes are.
#[test]
fn whatever_a_buffer_held_is_written_over_by_content_and_by_holes() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let mut expected = vec![0; 3 * 65_536 + 777];
    // Cells with a hole before, between and behind their content, and a last one that is all hole.
    for (number, range) in [700..9_000, 20_000..30_000, 65_536..70_000, 130_000..131_073]
        .into_iter()
        .enumerate()
    {
        let part = pattern(number as u64, range.len());
        lab.write(file, range.start as u64, &part).expect("writes");
        expected[range].copy_from_slice(&part);
    }
    truncate(&lab, file, expected.len() as u64);
    for turn in 0..4 {
        for (from, to) in [
            (0, expected.len()),
            (1, 701),
            (8_999, 20_001),
            (60_000, 131_000),
            (131_072, 196_000),
        ] {
            let mut buffer = vec![0xAA; to - from];
            let count = lab.read(file, from as u64, &mut buffer).expect("reads");
            assert_eq!(count, to - from);
            assert!(buffer == expected[from..to], "{from}..{to}, turn {turn}");
        }
        match turn {
            0 => lab.sync().expect("durable"),
            1 => lab.reopen(),
            // Something in memory again, between holes and what is stored.
            _ => {
                let part = pattern(9, 100);
                lab.write(file, 40_000, &part).expect("writes");
                expected[40_000..40_100].copy_from_slice(&part);
            }
        }
    }
}

/// Goal: who reads pages at random pays for little else. A chunk of a page and its tag lie in two sectors.
#[test]
fn a_page_read_at_random_fetches_two_sectors() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    write(&lab, file, 7, 16 * MIB);
    lab.sync().expect("durable");
    let before = lab.counters().segments.bytes_read;
    let count = 100;
    for index in 0..count {
        // Never near the pages before: neighbours would be fetched together.
        let page = index * 37 % 128 * 32 + index % 32;
        let mut bytes = vec![0; 4096];
        lab.read(file, page * 4096, &mut bytes).expect("reads");
    }
    let fetched = lab.counters().segments.bytes_read - before;
    assert_eq!(fetched, count * 2 * 4096);
}

#[test]
fn a_file_written_in_small_parts_is_sealed_in_whole_cells_once() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let cost = cost(&lab, || {
        for (index, part) in pattern(2, 2 << 20).chunks(256).enumerate() {
            lab.write(file, index as u64 * 256, part).expect("writes");
        }
        lab.sync_inode(file).expect("durable");
    });
    assert_eq!(
        (cost.blocks_sealed, cost.bytes_sealed),
        (2 * MIB / CELL, 2 * MIB)
    );
}

#[test]
fn a_small_change_of_a_large_file_seals_and_stores_no_more_than_itself() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    write(&lab, file, 3, 4 * MIB);
    lab.sync().expect("durable");
    let cost = cost(&lab, || {
        lab.write(file, 5 * CELL + 8192, &pattern(4, 4096))
            .expect("writes");
        lab.sync_inode(file).expect("durable");
    });
    assert_eq!((cost.blocks_sealed, cost.bytes_sealed), (1, 4096));
    assert_eq!((cost.bytes_appended, cost.flushes), (0, 1));
    // The block, and the pages of six tables and their indexes.
    assert!(
        cost.log_bytes <= 24 * 4096,
        "{} bytes of log",
        cost.log_bytes
    );
}

#[test]
fn random_writes_before_one_sync_are_stored_once_each() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    write(&lab, file, 5, 16 * MIB);
    lab.sync().expect("durable");
    let count = 512;
    let cost = cost(&lab, || {
        for index in 0..count {
            let page = index * 1_021 % (16 * MIB / 4096);
            lab.write(file, page * 4096, &pattern(100 + index, 4096))
                .expect("writes");
        }
        lab.sync_inode(file).expect("durable");
    });
    assert_eq!(cost.bytes_sealed, count * 4096);
    assert!(
        cost.bytes_appended <= count * 4096 * 11 / 10,
        "{} bytes appended",
        cost.bytes_appended
    );
    // Segments, and the log.
    assert!(cost.flushes <= 3, "{} flushes", cost.flushes);
}

#[test]
fn a_new_file_that_is_synced_costs_one_flush() {
    let lab = Lab::new();
    lab.sync().expect("durable");
    let cost = cost(&lab, || {
        let file = lab.file(ROOT, "file");
        write(&lab, file, 6, 5000);
        lab.sync_inode(file).expect("durable");
    });
    assert_eq!(cost.flushes, 1);
}

#[test]
fn what_is_written_again_before_a_sync_is_sealed_once() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.sync().expect("durable");
    let cost = cost(&lab, || {
        for seed in 0..10 {
            write(&lab, file, 20 + seed, CELL);
        }
        lab.sync_inode(file).expect("durable");
    });
    assert_eq!((cost.blocks_sealed, cost.bytes_sealed), (1, CELL));
}

#[test]
fn a_sync_of_what_is_durable_costs_nothing() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    write(&lab, file, 30, MIB);
    lab.sync().expect("durable");
    let cost = cost(&lab, || {
        lab.sync_inode(file).expect("durable");
        lab.sync().expect("durable");
    });
    assert_eq!((cost.blocks_sealed, cost.flushes), (0, 0));
    assert_eq!((cost.bytes_appended, cost.log_bytes), (0, 0));
}

#[test]
fn each_append_that_is_synced_costs_one_flush_and_its_block_is_sealed_once_for_all() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.sync().expect("durable");
    let (count, len) = (50, 4096);
    let cost = cost(&lab, || {
        for index in 0..count {
            let part = pattern(200 + index, 4096);
            lab.write(file, index * len, &part).expect("writes");
            lab.sync_inode(file).expect("durable");
        }
    });
    // The first one finds no log yet, and is a commit.
    assert_eq!((cost.bytes_sealed, cost.flushes), (len, count));
    let before = lab.counters();
    lab.sync().expect("durable");
    let sealed = lab.counters().bytes_sealed - before.bytes_sealed;
    assert_eq!(sealed, (count - 1) * len);
}

/// Goal: what a sync costs that needs a commit does not drift. Method: what SQLite does with the journal of each transaction.
#[test]
fn a_new_file_that_is_synced_and_removed_is_two_writes_of_few_pages() {
    let lab = Lab::new();
    lab.file(ROOT, "database");
    lab.sync().expect("durable");
    let count = 100;
    let cost = cost(&lab, || {
        for seed in 0..count {
            let journal = lab.file(ROOT, "journal");
            write(&lab, journal, 1000 + seed, 4096);
            lab.sync_inode(journal).expect("durable");
            lab.unlink(&Caller::root(), ROOT, b"journal")
                .expect("unlinks");
            lab.sync_inode(ROOT).expect("durable");
        }
    });
    let commits = 2 * count;
    assert_eq!((cost.flushes, cost.log_writes), (commits, commits));
    let frames = cost.log_bytes / 4120;
    assert!(frames <= 9 * commits, "{frames} frames");
    assert!(
        cost.statements <= 12 * commits,
        "{} statements",
        cost.statements
    );
}

#[test]
fn a_copy_inside_the_vault_seals_and_stores_no_content() {
    let lab = Lab::new();
    let source = lab.file(ROOT, "source");
    let target = lab.file(ROOT, "target");
    write(&lab, source, 40, 4 * MIB);
    lab.sync().expect("durable");
    let cost = cost(&lab, || {
        let copied = lab.copy_range(source, 0, target, 0, 4 * MIB);
        assert_eq!(copied.expect("copies"), 4 * MIB);
        lab.sync_inode(target).expect("durable");
    });
    assert_eq!((cost.blocks_sealed, cost.bytes_appended), (0, 0));
    assert_eq!(cost.flushes, 1);
    assert!(cost.statements <= 20, "{} statements", cost.statements);
    // The pages of extents and of counts of references, of 64 blocks.
    assert!(
        cost.log_bytes <= 8 * 4096,
        "{} bytes of log",
        cost.log_bytes
    );
}

#[test]
fn a_thousand_files_are_removed_with_as_many_flushes_as_one() {
    let lab = Lab::new();
    let root = &Caller::root();
    let count = 1_000;
    for index in 0..count {
        let file = lab.file(ROOT, &index.to_string());
        write(&lab, file, 3_000 + index, 5_000);
    }
    lab.sync().expect("durable");
    let cost = cost(&lab, || {
        for index in 0..count {
            let name = index.to_string();
            lab.unlink(root, ROOT, name.as_bytes()).expect("unlinks");
        }
        lab.sync().expect("durable");
    });
    assert_eq!((cost.blocks_sealed, cost.bytes_appended), (0, 0));
    assert_eq!(cost.flushes, 1);
    assert!(
        cost.statements <= 3 * count + 20,
        "{} statements for {count} files",
        cost.statements
    );
}

#[test]
fn a_thousand_small_files_before_one_sync_are_packed() {
    let lab = Lab::new();
    lab.sync().expect("durable");
    let (count, len) = (1_000, 5_000);
    let cost = cost(&lab, || {
        for index in 0..count {
            let file = lab.file(ROOT, &index.to_string());
            write(&lab, file, 1_000 + index, len);
        }
        lab.sync().expect("durable");
    });
    assert_eq!(
        (cost.blocks_sealed, cost.bytes_sealed),
        (count, count * len)
    );
    assert!(
        cost.bytes_appended <= count * len * 105 / 100,
        "{} bytes appended for {}",
        cost.bytes_appended,
        count * len
    );
    // A segment and its folder, the log; however many files.
    assert!(cost.flushes <= 6, "{} flushes", cost.flushes);
}

#[test]
fn names_cost_the_statements_that_their_rows_need() {
    let lab = Lab::new();
    let root = &Caller::root();
    let directory = lab.directory(ROOT, "directory");
    lab.sync().expect("durable");
    // The first after a commit opens the transaction.
    lab.file(directory, "first");
    let statements = |work: &dyn Fn()| cost(&lab, work).statements;
    let create = || assert_ne!(lab.file(directory, "file"), directory);
    // The inode and its name.
    assert_eq!(statements(&create), 2);
    assert_eq!(
        statements(&|| assert!(lab.find(directory, "file").is_some())),
        1
    );
    assert_eq!(
        statements(&|| assert!(lab.find(directory, "none").is_none())),
        1
    );
    let rename = || {
        let (from, to) = (b"file".as_slice(), b"other".as_slice());
        let mode = strongroom_filesystem::RenameMode::Replace;
        lab.rename(root, directory, from, directory, to, mode)
            .expect("renames");
    };
    assert_eq!(statements(&rename), 4);
    let unlink = || lab.unlink(root, directory, b"other").expect("unlinks");
    assert_eq!(statements(&unlink), 2);
}

#[test]
fn what_is_known_of_a_file_is_told_and_changed_without_a_statement() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    write(&lab, file, 7, 4 * CELL);
    lab.sync().expect("durable");
    lab.stat(file);
    let cost = cost(&lab, || {
        for index in 0..10 {
            lab.stat(file);
            lab.write(file, index * 5_000, b"more").expect("writes");
        }
    });
    assert_eq!((cost.statements, cost.flushes), (0, 0));
}

#[test]
fn a_first_read_costs_two_statements_per_block_and_the_next_none() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    write(&lab, file, 8, MIB);
    lab.sync().expect("durable");
    let mut buffer = vec![0; usize::try_from(MIB).expect("fits memory")];
    let mut read = || {
        cost(&lab, || {
            assert_eq!(lab.read(file, 0, &mut buffer).expect("reads"), buffer.len());
        })
        .statements
    };
    // Where each block is, and in which segment; and once the extents.
    let first = read();
    assert!((1..=2 * (MIB / CELL) + 1).contains(&first), "{first}");
    assert_eq!(read(), 0);
}

/// Goal: small files beside one another are not fetched one by one, and what was fetched with a neighbour hides no damage.
#[test]
fn small_neighbours_are_fetched_together_and_damage_is_still_seen() {
    // Several times what is kept in memory of what was fetched.
    const FILES: u64 = 2_000;
    let lab = Lab::new();
    let files: Vec<InodeId> = (0..FILES)
        .map(|number| lab.file(ROOT, &format!("file{number:04}")))
        .collect();
    for (seed, file) in (1..).zip(&files) {
        write(&lab, *file, seed, 5_000);
    }
    lab.sync().expect("durable");
    let read = |file: InodeId| {
        let mut bytes = vec![0; 5_000];
        lab.read(file, 0, &mut bytes).map(|count| (count, bytes))
    };
    let before = lab.counters().segments;
    for (seed, file) in (1..).zip(&files) {
        assert_eq!(read(*file).expect("reads"), (5_000, pattern(seed, 5_000)));
    }
    let after = lab.counters().segments;
    let reads = after.reads - before.reads;
    assert!(reads <= FILES / 10, "{reads} reads for {FILES} files");
    let bytes = after.bytes_read - before.bytes_read;
    assert!(
        bytes <= 2 * FILES * 5_000,
        "{bytes} bytes for {FILES} files of 5,000"
    );

    for segment in crate::segment_files(&lab) {
        let mut bytes = std::fs::read(&segment).expect("reads");
        bytes[4096..].iter_mut().for_each(|byte| *byte ^= 1);
        std::fs::write(&segment, bytes).expect("writes");
    }
    let damaged = files.iter().filter(|file| read(**file).is_err()).count();
    // Other stretches have taken the place of those that were kept by the time they would be asked for.
    assert_eq!(damaged as u64, FILES);
}

/// Failed before: what nobody synced waited for the timer, however long ago it was written.
#[test]
fn what_changed_is_committed_once_nothing_more_changes() {
    let mut lab = Lab::new();
    lab.reopen_to_commit_when_quiet();
    for seed in 1..4 {
        let commits = lab.counters().metadata.commits;
        let file = lab.file(ROOT, &format!("file{seed}"));
        write(&lab, file, seed, 5_000);
        while lab.counters().metadata.commits == commits || lab.counters().dirty_bytes > 0 {
            std::thread::yield_now();
        }
    }
}

/// What SQLite does with a journal that it keeps (`PERSIST`), as the superuser. Failed before: each transaction took a commit, as the
/// directory was synced, and as the journal was given to the owner that it had.
#[test]
fn a_transaction_with_a_journal_that_is_kept_takes_no_commit() {
    let lab = Lab::new();
    let journal = lab.file(ROOT, "journal");
    let database = lab.file(ROOT, "database");
    lab.sync().expect("durable");
    let to_root = SetAttributes {
        uid: Some(0),
        gid: Some(0),
        ..SetAttributes::default()
    };
    let transaction = |seed: u64| {
        lab.set_attributes(&Caller::root(), journal, &to_root)
            .expect("set");
        lab.write(journal, 0, &pattern(seed, 8720)).expect("writes");
        lab.sync_inode(journal).expect("durable");
        lab.sync_inode(ROOT).expect("durable");
        lab.write(journal, 0, &pattern(seed, 12)).expect("writes");
        lab.sync_inode(journal).expect("durable");
        lab.write(database, 0, &pattern(seed, 4096))
            .expect("writes");
        lab.sync_inode(database).expect("durable");
        lab.write(journal, 0, &[0; 28]).expect("writes");
        lab.sync_inode(journal).expect("durable");
    };
    // The first ones find no log yet.
    transaction(1);
    transaction(2);
    let count = 50;
    let cost = cost(&lab, || (0..count).for_each(|seed| transaction(10 + seed)));
    assert_eq!((cost.log_writes, cost.log_bytes), (0, 0), "no commit");
    assert_eq!(cost.flushes, 4 * count);
    assert_eq!(cost.blocks_sealed, 0);
}

//! The cost of many small files together, as in a large source tree: reads of segments, statements, pages, flushes.

use strongroom_filesystem::{Caller, InodeId};

use crate::pattern;
use crate::support::{Lab, ROOT};

const COUNT: u64 = 2_000;
const LEN: u64 = 5_000;

/// As many as wait in memory at once: drained in some fifteen parts.
const CROWD: u64 = 12_000;

fn name(number: u64) -> String {
    format!("file-{number:05}")
}

fn content(number: u64) -> Vec<u8> {
    pattern(7_000 + number, usize::try_from(LEN).expect("small"))
}

/// Files made one after the other, stored by one sync.
fn make_all(lab: &Lab, count: u64) -> Vec<InodeId> {
    let make = |number| {
        let file = lab.file(ROOT, &name(number));
        lab.write(file, 0, &content(number)).expect("writes");
        lab.forget(file, 1);
        file
    };
    let files = (0..count).map(make).collect();
    lab.sync().expect("durable");
    files
}

/// Failed before: a drain took files in no order, so that of 12,000 that were made and are read in one order nearly every read
/// went to the disk by itself.
#[test]
fn files_that_are_read_in_the_order_they_were_made_are_fetched_many_at_once() {
    let mut lab = Lab::new();
    let files = make_all(&lab, CROWD);
    lab.reopen();
    let before = lab.counters().segments;
    let mut buffer = content(0);
    for (number, file) in (0..).zip(files) {
        let count = lab.read(file, 0, &mut buffer).expect("reads");
        assert_eq!(count, buffer.len());
        assert!(buffer == content(number), "file {number}");
    }
    let after = lab.counters().segments;
    let (reads, bytes) = (
        after.reads - before.reads,
        after.bytes_read - before.bytes_read,
    );
    assert!(reads <= CROWD / 10, "{reads} reads for {CROWD} files");
    assert!(bytes <= 2 * CROWD * LEN, "{bytes} bytes read");
}

/// Goal: what a file of a large tree costs the database does not grow: made and stored, looked up, removed.
#[test]
fn each_of_many_files_costs_few_statements_and_pages() {
    let lab = Lab::new();
    let root = &Caller::root();
    let counts = || {
        let metadata = lab.counters().metadata;
        (metadata.statements, metadata.disk.log.bytes)
    };
    let per_file = |work: &mut dyn FnMut()| {
        let before = counts();
        work();
        let after = counts();
        let (statements, bytes) = (after.0 - before.0, after.1 - before.1);
        (statements as f64 / COUNT as f64, bytes / COUNT)
    };
    // Is the name free, the name; is there an equal block, the block; its extents, the inode.
    let (statements, bytes) = per_file(&mut || drop(make_all(&lab, COUNT)));
    assert!(statements <= 6.1, "{statements} statements to make a file");
    assert!(bytes <= 400, "{bytes} bytes of log to make a file");

    let look = |number| assert!(lab.find(ROOT, &name(number)).is_some());
    let (statements, _) = per_file(&mut || (0..COUNT).for_each(look));
    assert!(statements <= 1.0, "{statements} statements to look it up");

    // The name twice; extents found, read and dropped, the block counted and dropped, attributes, inode and hash.
    let (statements, bytes) = per_file(&mut || {
        for number in 0..COUNT {
            let name = name(number);
            lab.unlink(root, ROOT, name.as_bytes()).expect("unlinks");
        }
        lab.tick().expect("purged");
        lab.sync().expect("durable");
    });
    assert!(statements <= 10.1, "{statements} statements to remove it");
    assert!(bytes <= 400, "{bytes} bytes of log to remove it");
}

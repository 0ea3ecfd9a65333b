//! Epochs that begin while the file system is used: content sealed before still opens, and later content belongs to the new epoch.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use strongroom_filesystem::{Caller, Proof, Resealed, Strangers, VerifyRange};
use strongroom_format::index::decode_contents;
use strongroom_format::segment::BatchLengths;
use strongroom_format::{Epoch, Kind, SegmentId, SuiteId};
use strongroom_segments::{Access, Scanned, ScannedBatch, SegmentStore, StoreOptions, Tail};

use super::{CELL, all, pattern};
use crate::support::{Lab, ROOT, sealer};

/// What the segment files tell by themselves.
fn segments(lab: &Lab) -> BTreeMap<SegmentId, Scanned> {
    let options = StoreOptions {
        access: Access::ReadOnly,
        ..StoreOptions::new(SuiteId::Aes256GcmBlake3)
    };
    let store = SegmentStore::open(&lab.path().join("segments"), options).expect("opens");
    let ids = store.list().expect("lists");
    ids.into_iter()
        .filter_map(|id| Some((id, store.scan(id).ok()?)))
        .collect()
}

/// What a verification of every segment finds.
fn problems(lab: &Lab) -> Vec<String> {
    let range = VerifyRange {
        after: None,
        only: Vec::new(),
        bytes_max: u64::MAX,
        proof: Proof::Full,
        strangers: Strangers::Told,
    };
    let part = lab.verify_segments(&range).expect("verifies");
    part.problems.into_iter().map(|found| found.what).collect()
}

fn of_epoch(lab: &Lab, epoch: Epoch) -> Vec<Scanned> {
    let mut found: Vec<_> = segments(lab).into_values().collect();
    found.retain(|scanned| scanned.header.epoch == epoch);
    found
}

#[test]
fn what_is_stored_after_an_epoch_began_is_sealed_under_it_and_what_was_before_still_opens() {
    let mut lab = Lab::new();
    let before = lab.file(ROOT, "before");
    lab.write(before, 0, &pattern(1, 300_000)).expect("writes");
    lab.sync().expect("syncs");
    let pending = lab.file(ROOT, "pending");
    lab.write(pending, 0, &pattern(2, 300_000)).expect("writes");
    assert_eq!(lab.next_epoch(), Epoch(1));
    let old = of_epoch(&lab, Epoch(0));
    let after = lab.file(ROOT, "after");
    lab.write(after, 0, &pattern(3, 300_000)).expect("writes");
    lab.sync().expect("syncs");
    assert_eq!(of_epoch(&lab, Epoch(0)), old, "the old epoch got nothing");
    let new = of_epoch(&lab, Epoch(1));
    let count = |batch: &ScannedBatch| {
        let sealed = &batch.sealed_lengths;
        let clear = sealer(1).open_record(Epoch(1), Kind::BatchLengths, sealed);
        let lengths = BatchLengths::decode(&clear.expect("opens")).expect("lengths");
        lengths.count
    };
    let blocks: u32 = new[0].batches.iter().map(count).sum();
    assert_eq!((new.len(), blocks), (1, 10), "both files' blocks are new");
    for round in 0..2 {
        assert_eq!(all(&lab, before), pattern(1, 300_000), "{round}");
        assert_eq!(all(&lab, pending), pattern(2, 300_000), "{round}");
        assert_eq!(all(&lab, after), pattern(3, 300_000), "{round}");
        lab.reopen();
    }
}

/// Goal: a reader that has only the segment finds its blocks. So the table must be sealed under the segment's epoch.
#[test]
fn the_open_segment_is_ended_with_its_contents_under_its_own_epoch() {
    let lab = Lab::new();
    for number in 0..3 {
        let file = lab.file(ROOT, &number.to_string());
        lab.write(file, 0, &pattern(number, 200_000))
            .expect("writes");
        lab.sync().expect("syncs");
    }
    lab.next_epoch();
    let old = of_epoch(&lab, Epoch(0));
    let [segment] = old.as_slice() else {
        panic!("{old:?}")
    };
    let Tail::Finished { sealed_contents } = &segment.tail else {
        panic!("{:?}", segment.tail)
    };
    let clear = sealer(0)
        .open_record(Epoch(0), Kind::SegmentTable, sealed_contents)
        .expect("opens under the old epoch alone");
    let contents = decode_contents(&clear).expect("decodes");
    assert_eq!(contents.len(), segment.batches.len());
}

/// Goal: a sound vault is said to be sound. A segment that is ended once its epoch has passed has an empty table of contents,
/// sealed under the newest keys.
/// Failed before: "its table of contents does not open".
#[test]
fn a_segment_that_was_ended_after_its_epoch_is_sound() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "first");
    lab.write(file, 0, &pattern(1, 200_000)).expect("writes");
    lab.reopen_in_next_epoch();
    lab.write(file, 400_000, &pattern(2, 200_000))
        .expect("writes");
    lab.reopen();
    let old = of_epoch(&lab, Epoch(0));
    assert!(matches!(old[0].tail, Tail::Finished { .. }));
    assert_eq!(problems(&lab), Vec::<String>::new());
}

#[test]
fn small_content_that_travels_in_the_commit_outlives_the_epoch_it_was_sealed_in() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "small");
    lab.write(file, 0, b"carried").expect("writes");
    lab.sync_inode(file).expect("syncs");
    assert!(segments(&lab).is_empty(), "it is carried");
    lab.next_epoch();
    assert_eq!(all(&lab, file), b"carried");
    lab.crash();
    let file = lab.find(ROOT, "small").expect("there");
    assert_eq!(all(&lab, file), b"carried");
    lab.compact().expect("compacts");
    assert_eq!(of_epoch(&lab, Epoch(0)), []);
    assert_eq!(of_epoch(&lab, Epoch(1)).len(), 1);
    assert_eq!(all(&lab, file), b"carried");
}

/// Re-seals all that is of earlier epochs; gives what came of it and how many steps it took.
fn reseal(lab: &Lab) -> (Resealed, usize) {
    for step in 1..10_000 {
        match lab.reseal().expect("seals anew") {
            Resealed::More => {}
            other => return (other, step),
        }
    }
    panic!("no end")
}

#[test]
fn what_earlier_epochs_sealed_is_sealed_anew_and_then_their_keys_are_needed_by_nothing() {
    let mut lab = Lab::new();
    let large = lab.file(ROOT, "large");
    let small = lab.file(ROOT, "small");
    for number in 0..3 {
        // A segment and a half of 16 MiB, with some waste, over two epochs.
        lab.write(large, number * 8_000_000, &pattern(number, 8_000_000))
            .expect("writes");
        lab.sync().expect("syncs");
        lab.next_epoch();
    }
    lab.write(small, 0, b"carried").expect("writes");
    lab.sync_inode(small).expect("syncs");
    let epoch = lab.next_epoch();
    let old: u64 = segments(&lab).len() as u64;
    assert!(lab.older().expect("counts").bytes > 24_000_000 && old >= 3);
    let before = lab.attributes(large).expect("there");
    // So that it is remembered under which keys, and where, they were.
    assert_eq!(all(&lab, large).len(), 24_000_000);
    let (done, steps) = reseal(&lab);
    assert_eq!(done, Resealed::Done(epoch));
    assert!(steps > 6, "{steps}: a batch at a time");
    assert_eq!(lab.older().expect("counts").bytes, 0);
    assert_eq!(
        segments(&lab)
            .values()
            .filter(|one| one.header.epoch < epoch)
            .count(),
        0
    );
    assert_eq!(lab.attributes(large).expect("there"), before, "no edit");
    lab.forget_epochs_before(epoch);
    for round in 0..2 {
        for number in 0..3 {
            let mut read = vec![0; 8_000_000];
            lab.read(large, number * 8_000_000, &mut read)
                .expect("reads");
            assert!(read == pattern(number, 8_000_000), "{round}");
        }
        assert_eq!(all(&lab, small), b"carried", "{round}");
        lab.crash();
    }
    // Once more costs nothing.
    assert_eq!(reseal(&lab), (Resealed::Done(epoch), 1));
}

#[test]
fn sealing_anew_goes_on_after_a_crash_where_the_rows_say_that_it_stopped() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(1, 20_000_000)).expect("writes");
    lab.sync().expect("syncs");
    let epoch = lab.next_epoch();
    let mut left = lab.older().expect("counts").bytes;
    let mut rounds = 0;
    loop {
        let done = lab.reseal().expect("seals anew");
        lab.sync().expect("syncs");
        rounds += 1;
        if done == Resealed::Done(epoch) {
            break;
        }
        // What is committed stays done.
        let now = lab.older().expect("counts").bytes;
        assert!(now <= left, "{now} of {left}");
        left = now;
        lab.crash();
        assert_eq!(lab.older().expect("counts").bytes, left);
    }
    assert!(rounds > 4, "{rounds}");
    lab.forget_epochs_before(epoch);
    let file = lab.find(ROOT, "file").expect("there");
    assert!(all(&lab, file) == pattern(1, 20_000_000));
}

/// Goal: a damaged block keeps the old keys, and everything else is re-sealed. When it is gone, so are they.
#[test]
fn a_block_that_does_not_open_keeps_its_keys_until_it_is_removed() {
    let lab = Lab::new();
    let sound = lab.file(ROOT, "sound");
    let damaged = lab.file(ROOT, "damaged");
    lab.write(damaged, 0, &pattern(1, 60_000)).expect("writes");
    lab.sync().expect("syncs");
    let (id, _) = segments(&lab).pop_first().expect("one segment");
    lab.write(sound, 0, &pattern(2, 200_000)).expect("writes");
    lab.sync().expect("syncs");
    let name: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = lab.path().join("segments").join(&name[..2]).join(&name);
    let file = File::options().write(true).open(path).expect("the segment");
    file.write_all_at(&[7; 9], 5_000).expect("altered");
    let epoch = lab.next_epoch();
    assert_eq!(reseal(&lab).0, Resealed::Stuck);
    let older = lab.older().expect("counts");
    assert_eq!(older.bytes, older.unreadable_bytes);
    assert!(older.bytes >= 60_000 && older.bytes < 70_000, "{older:?}");
    assert_eq!(all(&lab, sound), pattern(2, 200_000));
    assert!(lab.read(damaged, 0, &mut [0; 100]).is_err());
    lab.unlink(&Caller::root(), ROOT, b"damaged")
        .expect("unlinks");
    lab.forget(damaged, 1);
    lab.tick().expect("purges");
    assert_eq!(reseal(&lab).0, Resealed::Done(epoch));
}

/// Goal: nobody who reads or writes notices that everything is re-sealed and that the old keys go, again and again.
#[test]
fn readers_and_writers_go_on_while_everything_is_sealed_anew() {
    let mut lab = Lab::new();
    lab.reopen_with_thread();
    let fixed = lab.file(ROOT, "fixed");
    lab.write(fixed, 0, &pattern(9, 2_000_000)).expect("writes");
    lab.sync().expect("syncs");
    let files: Vec<_> = (0..2).map(|n| lab.file(ROOT, &n.to_string())).collect();
    let stop = AtomicBool::new(false);
    let written: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let writers: Vec<_> = files
            .iter()
            .zip(0u64..)
            .map(|(file, number)| {
                let (lab, stop, file) = (&lab, &stop, *file);
                scope.spawn(move || write_until(lab, file, number, stop))
            })
            .collect();
        let (lab, stop) = (&lab, &stop);
        scope.spawn(move || {
            while !stop.load(Ordering::Acquire) {
                assert!(all(lab, fixed) == pattern(9, 2_000_000));
            }
        });
        for _ in 0..6 {
            let epoch = lab.next_epoch();
            assert_eq!(reseal(lab).0, Resealed::Done(epoch));
            lab.forget_epochs_before(epoch);
        }
        stop.store(true, Ordering::Release);
        writers
            .into_iter()
            .map(|writer| writer.join().expect("the writer ends"))
            .collect()
    });
    lab.reopen();
    for (file, content) in files.iter().zip(written) {
        assert!(all(&lab, *file) == content);
    }
}

/// Goal: no drain, settling, compaction or defragmentation seals under an epoch that is over, or notes the wrong one.
/// Method: four writers sync, overwrite in small pieces and remove while epochs begin. After each beginning no segment
/// of an older epoch may grow; at the end every file is what was written, read from the disk.
#[test]
fn epochs_begin_under_writers_and_no_older_segment_grows_after() {
    let mut lab = Lab::new();
    lab.reopen_with_thread();
    let files: Vec<_> = (0..4).map(|n| lab.file(ROOT, &n.to_string())).collect();
    let stop = AtomicBool::new(false);
    let written: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let writers: Vec<_> = files
            .iter()
            .zip(0u64..)
            .map(|(file, number)| {
                let (lab, stop, file) = (&lab, &stop, *file);
                scope.spawn(move || write_until(lab, file, number, stop))
            })
            .collect();
        for _ in 0..8 {
            let epoch = lab.next_epoch();
            let older: BTreeMap<_, _> = segments(&lab)
                .into_iter()
                .filter(|(_, scanned)| scanned.header.epoch < epoch)
                .collect();
            lab.sync().expect("syncs");
            lab.compact().expect("compacts");
            for (id, now) in segments(&lab) {
                assert!(now.header.epoch >= epoch || now.batches == older[&id].batches);
            }
        }
        stop.store(true, Ordering::Release);
        writers
            .into_iter()
            .map(|writer| writer.join().expect("the writer ends"))
            .collect()
    });
    lab.reopen();
    for (file, content) in files.iter().zip(written) {
        assert!(all(&lab, *file) == content);
    }
}

/// Writes, in pieces of every size, until told to stop; gives what the file holds then.
fn write_until(
    lab: &Lab,
    file: strongroom_filesystem::InodeId,
    number: u64,
    stop: &AtomicBool,
) -> Vec<u8> {
    let mut content = pattern(1000 * number, 3 * CELL as usize);
    lab.write(file, 0, &content).expect("writes");
    for round in 1.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let len = [40, 3000, 70_000][round as usize % 3];
        let start = (round as usize * 7919) % (content.len() - len);
        let piece = pattern(1000 * number + round, len);
        lab.write(file, start as u64, &piece).expect("writes");
        content[start..start + len].copy_from_slice(&piece);
        if round % 4 == 0 {
            lab.sync_inode(file).expect("syncs");
        }
    }
    content
}

//! The hash of a content covers the bytes that a reader sees now, and never bytes that a reader saw before.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use strongroom_crypto::{ContentHasher, HashAlgorithm};
use strongroom_filesystem::{
    AllocateMode, Caller, Content, Durability, Error, Hashed, InodeId, SetAttributes,
};

use crate::support::{Lab, ROOT, assert_refused};
use crate::{CELL, all, pattern, truncate};

const BLAKE3: HashAlgorithm = HashAlgorithm::Blake3;

fn hash_of(algorithm: HashAlgorithm, bytes: &[u8]) -> [u8; 32] {
    let mut hasher = ContentHasher::new(algorithm);
    hasher.update(bytes);
    hasher.finish()
}

/// The hash of one file and whether it is stored, and how many bytes were read for it.
fn hashed(lab: &Lab, inode: InodeId, algorithm: HashAlgorithm) -> ([u8; 32], bool, u64) {
    let mut done = lab.hash_files(&[inode], algorithm, u64::MAX);
    match done.files.pop().expect("one answer").expect("hashes") {
        Hashed::Whole { hash, size, stored } => {
            assert_eq!(size, lab.stat(inode).size);
            (hash, stored, done.bytes)
        }
        other => panic!("{other:?}"),
    }
}

/// Asserts that the hash is that of what a reader sees.
fn assert_true(lab: &Lab, inode: InodeId) {
    let (hash, ..) = hashed(lab, inode, BLAKE3);
    assert!(hash == hash_of(BLAKE3, &all(lab, inode)), "{inode:?}");
}

/// Stores the hashes of `files`.
fn hash_them(lab: &Lab, files: &[InodeId]) {
    let done = lab.hash_files(files, BLAKE3, u64::MAX);
    let whole = |one: &Result<Hashed, Error>| matches!(one, Ok(Hashed::Whole { stored: true, .. }));
    assert!(done.files.iter().all(whole), "{:?}", done.files);
}

/// How many bytes another call reads.
fn read_again(lab: &Lab, inode: InodeId) -> u64 {
    hashed(lab, inode, BLAKE3).2
}

/// The files whose hash is stored and of their content of now.
fn found(lab: &Lab, algorithm: HashAlgorithm) -> Vec<InodeId> {
    let first = ([0; 32], InodeId(0));
    let (files, next) = lab
        .files_with_hash(algorithm, &first, &[0xff; 32])
        .expect("finds");
    assert_eq!(next, None);
    let mut inodes: Vec<InodeId> = files.into_iter().map(|file| file.inode).collect();
    inodes.sort_unstable();
    inodes
}

#[test]
fn a_hash_is_that_of_the_bytes_and_a_second_call_reads_nothing_also_after_reopening() {
    let mut lab = Lab::new();
    let sizes = [0, 1, 65_536, 1_048_577, 20_000_003];
    let files = sizes.map(|size| {
        let file = lab.file(ROOT, &size.to_string());
        lab.write(
            file,
            0,
            &pattern(size, usize::try_from(size).expect("small")),
        )
        .expect("writes");
        file
    });
    let sparse = lab.file(ROOT, "sparse");
    lab.write(sparse, 5_000_000, b"far").expect("writes");
    truncate(&lab, sparse, 12_000_000);
    let files = [&files[..], &[sparse]].concat();
    for algorithm in HashAlgorithm::ALL {
        for file in &files {
            let (hash, stored, read) = hashed(&lab, *file, algorithm);
            assert!(hash == hash_of(algorithm, &all(&lab, *file)), "{file:?}");
            assert!(stored);
            assert_eq!(read, lab.stat(*file).size);
        }
    }
    for round in ["at once", "after a clean close", "after a crash"] {
        for file in &files {
            for algorithm in HashAlgorithm::ALL {
                let (hash, _, read) = hashed(&lab, *file, algorithm);
                assert!(hash == hash_of(algorithm, &all(&lab, *file)), "{round}");
                assert_eq!(read, 0, "{round}");
            }
        }
        if round == "at once" {
            lab.reopen();
        } else {
            lab.crash();
        }
    }
}

#[test]
fn whatever_changes_a_content_voids_its_hash() {
    let lab = Lab::new();
    let source = lab.file(ROOT, "source");
    lab.write(source, 0, &pattern(1, 300_000)).expect("writes");
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(2, 400_000)).expect("writes");
    let allocate = |mode, offset, len| lab.allocate(file, mode, offset, len).expect("allocates");
    let content = [Content {
        offset: 70_000,
        data: pattern(3, 9_000).into(),
    }];
    let set_size = |size| SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    let root = Caller::root();
    let changes: [(&str, &dyn Fn()); 12] = [
        ("write", &|| {
            lab.write(file, 100_000, b"other bytes").expect("writes");
        }),
        ("append", &|| {
            lab.append(file, b"more").expect("appends");
        }),
        ("cut", &|| truncate(&lab, file, 350_000)),
        ("cut to nothing and extend", &|| {
            truncate(&lab, file, 0);
            truncate(&lab, file, 350_000);
        }),
        ("write into the hole", &|| {
            lab.write(file, 0, &pattern(4, 300_000)).expect("writes");
        }),
        ("extend", &|| truncate(&lab, file, 500_000)),
        ("punch", &|| allocate(AllocateMode::PunchHole, 10, 66_000)),
        ("zero", &|| allocate(AllocateMode::ZeroRange, 90_000, 5_000)),
        ("reserve beyond the end", &|| {
            allocate(AllocateMode::Reserve, 490_000, 30_000);
        }),
        ("share blocks", &|| {
            lab.copy_range(source, 0, file, CELL, 200_000)
                .expect("copies");
        }),
        ("write in a transaction", &|| {
            lab.transaction(&root, &content, Durability::WriteBehind, |draft| {
                draft.write(file, 0)
            })
            .expect("applies");
        }),
        ("cut in a transaction", &|| {
            lab.transaction(&root, &[], Durability::WriteBehind, |draft| {
                draft.set_attributes(file, &set_size(80_000))
            })
            .expect("applies");
        }),
    ];
    assert_true(&lab, file);
    let mut seen = HashSet::from([hashed(&lab, file, BLAKE3).0]);
    for (name, change) in changes {
        change();
        assert!(
            found(&lab, BLAKE3).is_empty(),
            "{name}: found by the hash of before"
        );
        assert_true(&lab, file);
        assert!(
            seen.insert(hashed(&lab, file, BLAKE3).0),
            "{name} changed nothing"
        );
        assert_eq!(found(&lab, BLAKE3), [file], "{name}");
    }
}

#[test]
fn what_leaves_the_content_as_it_is_leaves_the_hash() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(1, 3_000_000)).expect("writes");
    lab.sync().expect("syncs");
    for index in 0..60_u64 {
        lab.write(file, index * 1_000, &pattern(index, 400))
            .expect("writes");
        lab.sync_inode(file).expect("syncs");
    }
    assert_true(&lab, file);
    lab.chmod(file, 0o600);
    lab.rename(
        &Caller::root(),
        ROOT,
        b"file",
        ROOT,
        b"renamed",
        strongroom_filesystem::RenameMode::Replace,
    )
    .expect("renames");
    lab.tick().expect("joins fragments");
    lab.compact().expect("compacts");
    let epoch = lab.next_epoch();
    while lab.reseal().expect("seals anew") != strongroom_filesystem::Resealed::Done(epoch) {}
    assert_eq!(read_again(&lab, file), 0);
    assert_true(&lab, file);
}

/// Goal: after any crash a stored hash is of the content that is there.
/// Method: seeded lists of writes, cuts, copies, hashes, syncs, background work and crashes over three files; each hash is
/// compared with what a reader sees, and so are all after each crash.
#[test]
fn no_crash_leaves_a_hash_of_another_content() {
    for seed in 0..12 {
        let mut lab = Lab::new();
        let files = ["a", "b", "c"].map(|name| lab.file(ROOT, name));
        lab.sync().expect("syncs");
        for (step, number) in pattern(seed, 400).into_iter().enumerate() {
            let file = files[usize::from(number) % files.len()];
            match number % 12 {
                0..=3 => {
                    let at = u64::from(number) * 1_500;
                    let bytes = pattern(seed * 1_000 + step as u64, 2_000);
                    lab.write(file, at, &bytes).expect("writes");
                }
                4 => truncate(&lab, file, u64::from(number) * 700),
                5 | 6 => assert_true(&lab, file),
                7 => lab.sync_inode(file).expect("syncs"),
                8 => lab.tick().expect("background work"),
                9 => lab.sync().expect("syncs"),
                10 => {
                    let from = files[usize::from(number / 12) % files.len()];
                    let (at, until) = (u64::from(number) * 300, u64::from(number) * 1_100);
                    drop(lab.copy_range(from, at, file, until, 5_000));
                }
                _ => {
                    lab.crash();
                    files.iter().for_each(|file| assert_true(&lab, *file));
                }
            }
        }
    }
}

/// Goal: a copy is stored with the version of its content, also where something is pending on top of it.
/// Failed before: the row kept the version before the copy, whose hash was then that of other content.
#[test]
fn no_crash_leaves_a_copy_with_the_hash_of_what_it_replaced() {
    let mut lab = Lab::new();
    let files = ["source", "copy", "other"].map(|name| lab.file(ROOT, name));
    for (seed, file) in files.iter().enumerate() {
        let bytes = pattern(seed as u64, 100_000);
        lab.write(*file, 0, &bytes).expect("writes");
    }
    lab.sync().expect("syncs");
    let [source, copy, other] = files;
    hash_them(&lab, &[copy]);
    lab.copy_range(source, 0, copy, 0, 65_536).expect("copies");
    lab.write(copy, 1, b"pending").expect("writes");
    lab.write(other, 0, &pattern(9, 90_000)).expect("writes");
    lab.sync_inode(other).expect("commits the copy too");
    lab.crash();
    assert_true(&lab, copy);
    assert!(all(&lab, copy)[..65_536] == pattern(0, 65_536));
}

#[test]
fn a_call_reads_no_more_than_it_may_and_the_next_goes_on() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(1, 30_000_000)).expect("writes");
    let small: Vec<InodeId> = (0..40)
        .map(|number| {
            let file = lab.file(ROOT, &format!("small {number}"));
            lab.write(file, 0, &pattern(number, 5_000)).expect("writes");
            file
        })
        .collect();
    let all_files = [&[file], &small[..]].concat();
    let (mut calls, mut read) = (0, 0);
    let files = loop {
        let done = lab.hash_files(&all_files, BLAKE3, 4 << 20);
        assert!(done.bytes <= 8 << 20, "{}", done.bytes);
        (calls, read) = (calls + 1, read + done.bytes);
        let unfinished = |one: &_| matches!(one, Ok(Hashed::Unfinished));
        if !done.files.iter().any(unfinished) {
            break done.files;
        }
        assert!(calls < 100, "it comes to an end");
    };
    assert!(calls > 3, "{calls}");
    assert_eq!(read, 30_000_000 + 40 * 5_000, "nothing was read twice");
    for (file, done) in all_files.iter().zip(files) {
        let Ok(Hashed::Whole { hash, .. }) = done else {
            panic!("{done:?}");
        };
        assert!(hash == hash_of(BLAKE3, &all(&lab, *file)));
    }
}

#[test]
fn a_large_file_that_is_written_between_two_calls_begins_anew() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(1, 20_000_000)).expect("writes");
    let begun = lab.hash_files(&[file], BLAKE3, 6 << 20);
    assert!(matches!(begun.files[..], [Ok(Hashed::Unfinished)]));
    lab.write(file, 1, b"!").expect("writes");
    assert_true(&lab, file);
}

/// Goal: never a hash of bytes that were not there together. Method: each write fills the whole file with one byte.
#[test]
fn a_file_that_is_written_all_the_time_has_a_hash_of_one_moment_or_none() {
    let mut lab = Lab::new();
    lab.reopen_with_thread();
    let file = lab.file(ROOT, "file");
    let len = 3_000_000;
    let filled = |byte: u8| vec![byte; len];
    lab.write(file, 0, &filled(0)).expect("writes");
    let moments: HashSet<[u8; 32]> = (0..8).map(|byte| hash_of(BLAKE3, &filled(byte))).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in (0..8).cycle() {
                lab.write(file, 0, &filled(round)).expect("writes");
                if stop.load(Ordering::Acquire) {
                    return;
                }
            }
        });
        for _ in 0..40 {
            let mut done = lab.hash_files(&[file], BLAKE3, u64::MAX);
            match done.files.pop().expect("one answer").expect("hashes") {
                Hashed::Whole { hash, .. } => assert!(moments.contains(&hash), "torn"),
                other => assert_eq!(other, Hashed::Changing),
            }
        }
        stop.store(true, Ordering::Release);
    });
    assert_true(&lab, file);
}

#[test]
fn a_damaged_file_is_told_and_the_others_are_hashed() {
    let lab = Lab::new();
    let damaged = lab.file(ROOT, "damaged");
    lab.write(damaged, 0, &pattern(1, 60_000)).expect("writes");
    lab.sync().expect("syncs");
    let folders = std::fs::read_dir(lab.path().join("segments")).expect("segments");
    let segment = folders
        .flat_map(|folder| std::fs::read_dir(folder.expect("a folder").path()).expect("lists"))
        .next()
        .expect("one segment")
        .expect("a file");
    let segment = File::options()
        .write(true)
        .open(segment.path())
        .expect("opens");
    segment.write_all_at(&[7; 9], 5_000).expect("altered");
    let sound = lab.file(ROOT, "sound");
    lab.write(sound, 0, &pattern(2, 60_000)).expect("writes");
    let directory = lab.directory(ROOT, "directory");
    let inodes = [damaged, directory, InodeId(999), sound];
    let mut done = lab.hash_files(&inodes, BLAKE3, u64::MAX).files.into_iter();
    assert_refused!(done.next().expect("one"), Error::Damaged { offset: 0, .. });
    assert_refused!(done.next().expect("two"), Error::IsADirectory);
    assert_refused!(done.next().expect("three"), Error::Stale);
    assert!(matches!(done.next(), Some(Ok(Hashed::Whole { .. }))));
}

#[test]
fn a_vault_that_takes_nothing_more_tells_hashes_and_stores_none() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(1, 100_000)).expect("writes");
    lab.sync().expect("syncs");
    let expected = hash_of(BLAKE3, &pattern(1, 100_000));
    lab.fill_disk(true);
    // The disk is asked again after so many questions.
    for _ in 0..300 {
        let _ = lab.write(file, 0, b"");
    }
    assert_eq!(hashed(&lab, file, BLAKE3), (expected, false, 100_000));
    lab.fill_disk(false);
    lab.reopen();
    lab.set_quota(Some(1)).expect("sets");
    assert_eq!(hashed(&lab, file, BLAKE3), (expected, false, 100_000));
    lab.set_quota(None).expect("sets");
    lab.reopen_read_only();
    assert_eq!(hashed(&lab, file, BLAKE3), (expected, false, 100_000));
    assert_eq!(found(&lab, BLAKE3), [InodeId(0); 0]);
    assert_eq!(
        lab.named_files(&[(file, expected), (InodeId(999), expected)])
            .expect("names")
            .len(),
        1
    );
    lab.reopen();
    assert_eq!(hashed(&lab, file, BLAKE3), (expected, true, 100_000));
}

#[test]
fn files_to_hash_are_those_whose_content_of_now_has_no_hash() {
    let lab = Lab::new();
    let files = ["a", "b", "c"].map(|name| {
        let file = lab.file(ROOT, name);
        lab.write(file, 0, name.as_bytes()).expect("writes");
        file
    });
    lab.directory(ROOT, "directory");
    let missing = |after| lab.files_without_hash(BLAKE3, after, 100).expect("looks");
    assert_eq!(missing(InodeId(0)), files.map(|file| (file, 1)));
    assert_eq!(missing(files[0]), [(files[1], 1), (files[2], 1)]);
    hash_them(&lab, &files);
    assert_eq!(missing(InodeId(0)), []);
    lab.write(files[1], 0, b"other").expect("writes");
    assert_eq!(missing(InodeId(0)), [(files[1], 5)]);
    assert_eq!(found(&lab, BLAKE3), [files[0], files[2]]);
    lab.unlink(&Caller::root(), ROOT, b"a").expect("unlinks");
    assert_eq!(found(&lab, BLAKE3), [files[2]], "a file without a name");
    lab.forget(files[0], 1);
    lab.tick().expect("purges");
    assert_eq!(found(&lab, BLAKE3), [files[2]]);
}

#[test]
fn equal_files_are_found_with_what_they_take_beyond_one_of_them() {
    let lab = Lab::new();
    let content = pattern(1, 200_000);
    let first = lab.file(ROOT, "first");
    lab.write(first, 0, &content).expect("writes");
    let shared = lab.file(ROOT, "shared");
    lab.copy_range(first, 0, shared, 0, 200_000)
        .expect("copies");
    // The same bytes in pieces of another size are other blocks.
    let pieces = lab.file(ROOT, "pieces");
    for (index, piece) in content.chunks(50_000).enumerate() {
        lab.write(pieces, index as u64 * 50_000, piece)
            .expect("writes");
        lab.sync().expect("syncs");
    }
    let other = lab.file(ROOT, "other");
    lab.write(other, 0, &pattern(2, 200_000)).expect("writes");
    let empty = ["empty", "void"].map(|name| lab.file(ROOT, name));
    let two = ["one", "two"].map(|name| {
        let file = lab.file(ROOT, name);
        lab.write(file, 0, b"small").expect("writes");
        file
    });
    let all_files = [&[first, shared, pieces, other], &empty[..], &two[..]].concat();
    hash_them(&lab, &all_files);
    let (mut groups, next) = lab.equal_files(BLAKE3, None, 0).expect("finds");
    assert_eq!(next, None);
    groups.sort_by_key(|group| group.files[0].inode);
    let inodes = |group: usize| -> Vec<InodeId> {
        groups[group].files.iter().map(|file| file.inode).collect()
    };
    assert_eq!(groups.len(), 2);
    assert_eq!(inodes(0), [first, shared, pieces]);
    assert!(
        (190_000..210_000).contains(&groups[0].extra_bytes),
        "{}",
        groups[0].extra_bytes
    );
    assert_eq!(inodes(1), two);
    assert_eq!(groups[1].extra_bytes, 0, "equal blocks are stored once");
    let (large, _) = lab.equal_files(BLAKE3, None, 6).expect("finds");
    assert_eq!(large.len(), 1);
    let (behind, _) = lab.equal_files(BLAKE3, Some([0xff; 32]), 0).expect("finds");
    assert_eq!(behind, []);
    lab.write(two[1], 0, b"SMALL").expect("writes");
    let (left, _) = lab.equal_files(BLAKE3, None, 0).expect("finds");
    assert_eq!(left.len(), 1, "one of the two has another content now");
}

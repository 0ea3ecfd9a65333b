//! Extents of all files together stay within their bound in memory.

use crate::support::{Lab, ROOT};
use crate::{all, pattern};

/// Bytes of extents that a test allows: those of some ten files.
const EXTENT_BYTES: usize = 24_000;

#[test]
fn extents_of_all_files_together_stay_within_their_bound_and_the_used_ones_stay() {
    let mut lab = Lab::new();
    let files: Vec<_> = (0..60_u64)
        .map(|index| {
            let file = lab.file(ROOT, &format!("file{index}"));
            // Apart, so that each cell has an extent of its own: 64 of them.
            for cell in 0..64 {
                lab.write(file, cell * 65_536, &pattern(index, 100))
                    .expect("writes");
            }
            file
        })
        .collect();
    lab.sync().expect("syncs");
    lab.reopen_with_extents(EXTENT_BYTES);
    let hot = files[0];
    let statements_of_a_read = |file| {
        let before = lab.counters().metadata.statements;
        lab.read(file, 0, &mut [0; 100]).expect("reads");
        lab.counters().metadata.statements - before
    };
    let cold = statements_of_a_read(hot);
    let warm = statements_of_a_read(hot);
    assert!(warm < cold, "{warm} {cold}");
    let mut most = 0;
    for file in &files[1..] {
        statements_of_a_read(*file);
        assert_eq!(statements_of_a_read(hot), warm, "what is used stays");
        most = most.max(lab.counters().extent_bytes);
    }
    assert!(most <= EXTENT_BYTES && most > EXTENT_BYTES / 2, "{most}");
    for (index, file) in files.iter().enumerate() {
        assert!(all(&lab, *file)[..100] == pattern(index as u64, 100));
        // Through a drain as well.
        lab.write(*file, 7, b"changed").expect("writes");
        lab.sync_inode(*file).expect("syncs");
        assert!(lab.counters().extent_bytes <= EXTENT_BYTES);
        assert_eq!(&all(&lab, *file)[7..14], b"changed");
    }
    lab.reopen_with_extents(0);
    assert_eq!(&all(&lab, hot)[7..14], b"changed");
    assert_eq!(lab.counters().extent_bytes, 0);
}

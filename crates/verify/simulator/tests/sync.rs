//! A small part of `strongroom-sim sync`; `make sync-sim` runs its thousands of histories.

use strongroom_simulator::sync::{Story, mode, run};

/// Seeds that met most of what can happen, a folder that is put back among them.
const SEEDS: std::ops::Range<u64> = 0..16;
/// One in which a copy of a folder is used beside its original.
const WITH_A_COPY: u64 = 52;

/// Several devices write, sync over a bad line, are killed, come and go: all come to one tree with everything that was acknowledged.
#[test]
fn devices_that_are_cut_and_killed_come_to_one_tree_and_lose_nothing() {
    let mut counts = Story::default().counts;
    for seed in SEEDS.chain([WITH_A_COPY]) {
        let place = tempfile::tempdir().unwrap();
        let mut story = Story::default();
        let done = run(seed, mode(seed), place.path(), &mut story);
        assert_eq!(done, Ok(()), "seed {seed}: {:#?}", story.lines);
        let both = counts.iter_mut().zip(story.counts);
        both.for_each(|(sum, count)| *sum += count);
    }
    assert!(!counts.contains(&0), "something never happened: {counts:?}");
}

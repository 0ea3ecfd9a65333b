//! A small part of `strongroom-sim sync`; `make sync-sim` runs its thousands of histories.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use strongroom_simulator::sync::{Mode, RemoteKind, Story, mode, run};

/// So many histories at least, and further ones until everything that is counted happened, a folder that is put back and a copy that is used
/// beside its original among it. Few histories have such copies.
const HISTORIES: u64 = 16;
/// So many at the most.
const HISTORIES_MAX: u64 = 96;

/// Seeds at a server: several of these servers are put back to a backup.
const AT_A_SERVER: std::ops::Range<u64> = 0..10;
/// So many of them at a time: they wait for disks and for starts.
const JOBS: usize = 4;

/// Several devices write, erase, sync over a bad line, are killed, come and go: all come to one tree with everything that was acknowledged, and
/// without what was erased.
#[test]
fn devices_that_are_cut_and_killed_come_to_one_tree_and_lose_nothing() {
    let mut counts = Story::default().counts;
    for seed in 0..HISTORIES_MAX {
        // What only histories with copies of folders count: others need not be run for it.
        if seed >= HISTORIES && (!counts.contains(&0) || mode(seed) == Mode::Usual) {
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let mut story = Story::default();
        let done = run(
            seed,
            mode(seed),
            &RemoteKind::Memory,
            place.path(),
            &mut story,
        );
        assert_eq!(done, Ok(()), "seed {seed}: {:#?}", story.lines);
        let both = counts.iter_mut().zip(story.counts);
        both.for_each(|(sum, count)| *sum += count);
    }
    assert!(!counts.contains(&0), "something never happened: {counts:?}");
}

/// Goal: devices need no help at a server that is killed and started again at any moment, all notice that a server was put back to a
/// backup, nothing is lost, each deposit comes once, and the folder of the server is sound. Method: the same histories, each at a process of
/// `strongroom-server`.
/// SECURITY.md, claim 25.
#[test]
fn devices_at_a_server_that_is_killed_and_put_back_come_to_one_tree_and_lose_nothing() {
    let kind = RemoteKind::server_beside(Path::new(env!("CARGO_BIN_EXE_strongroom-sim"))).unwrap();
    let next = AtomicU64::new(AT_A_SERVER.start);
    let sums = Mutex::new((0, 0, 0));
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= AT_A_SERVER.end {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let mut story = Story::default();
        let done = run(seed, mode(seed), &kind, place.path(), &mut story);
        assert_eq!(done, Ok(()), "seed {seed}: {:#?}", story.lines);
        let mut sums = sums.lock().unwrap();
        let (kills, put_back, deposits) = *sums;
        *sums = (
            kills + story.server_kills,
            put_back + story.server_put_back,
            deposits + story.deposits,
        );
    };
    thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(work);
        }
    });
    let (kills, put_back, deposits) = sums.into_inner().unwrap();
    assert!(
        kills > 0 && put_back > 0 && deposits > 0,
        "{kills} kills, {put_back} put back, {deposits} deposits"
    );
}

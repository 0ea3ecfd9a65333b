//! The crash contract holds at a sample of cuts and faults; the long runs are those of `strongroom-sim`.
//!
//! These tests need root and the FUSE device, and fail without them.

use strongroom_simulator::disk::{Call, Failure, Fault, NameSync, Policy};
use strongroom_simulator::run::{NOT_MADE, Trial, run};
use strongroom_simulator::worker::Scale;

fn trial() -> Trial {
    Trial {
        acts: 60,
        policies: Policy::ALL.to_vec(),
        stride: 23,
        names: NameSync::Directory,
        threads: 1,
        scale: Scale::Small,
        ledger: None,
        lies: false,
        recut: true,
        fault: None,
        program: env!("CARGO_BIN_EXE_strongroom-sim").into(),
    }
}

#[test]
fn whatever_a_cut_leaves_keeps_the_contract() {
    let mut trees = 0;
    for seed in 0..4 {
        trees += run(seed, &trial())
            .unwrap_or_else(|complaint| panic!("seed {seed}: {complaint}"))
            .trees;
    }
    assert!(trees > 100, "only {trees} trees were judged");
}

#[test]
fn it_does_so_for_several_threads_at_once() {
    let several = Trial {
        threads: 3,
        stride: 41,
        ..trial()
    };
    let seen = run(1, &several).unwrap_or_else(|complaint| panic!("{complaint}"));
    assert!(seen.returned == 180 && seen.trees > 20, "{seen:?}");
}

/// The counterpart of the tests above: they can fail.
#[test]
fn a_disk_that_only_pretends_to_sync_is_found_out() {
    let lying = Trial {
        lies: true,
        policies: vec![Policy::LOSE_ALL, Policy::RANDOM],
        ..trial()
    };
    for seed in 0..3 {
        let complaint = run(seed, &lying).expect_err("a violation");
        assert!(complaint.starts_with("cut before"), "{complaint}");
    }
}

/// Every request of a small run fails once; the vault may stop, but what a sync covered is there.
#[test]
fn a_request_that_fails_loses_nothing_that_was_synced() {
    let mut struck = 0;
    for (failure, call, lasting) in [
        (Failure::Io, None, false),
        (Failure::NoSpace, None, true),
        (Failure::Short, Some(Call::Write), false),
    ] {
        for nth in (1..250).step_by(31) {
            let fault = Some(Fault {
                call,
                nth,
                failure,
                lasting,
            });
            let faulty = Trial {
                acts: 40,
                stride: u64::MAX,
                fault,
                policies: vec![Policy::KEEP_ALL, Policy::LOSE_ALL],
                ..trial()
            };
            match run(2, &faulty) {
                Ok(seen) => struck += seen.faults,
                Err(complaint) if complaint == NOT_MADE => struck += 1,
                Err(complaint) => panic!("{failure:?} at request {nth}: {complaint}"),
            }
        }
    }
    assert!(struck > 10, "only {struck} faults struck");
}

//! A cut leaves a transaction whole or not at all; `strongroom-sim transactions` has the long runs.
//!
//! These tests need root and the FUSE device, and fail without them.

use strongroom_simulator::disk::{NameSync, Policy};
use strongroom_simulator::run::Trial;
use strongroom_simulator::transactions::run;
use strongroom_simulator::worker::Scale;

fn trial() -> Trial {
    Trial {
        acts: 20,
        policies: Policy::ALL.to_vec(),
        stride: 37,
        names: NameSync::Directory,
        threads: 1,
        scale: Scale::Small,
        ledger: None,
        recut: false,
        lies: false,
        fault: None,
        program: env!("CARGO_BIN_EXE_strongroom-sim").into(),
    }
}

#[test]
fn whatever_a_cut_leaves_is_the_state_after_a_whole_transaction() {
    // Side by side: the worker of each waits for its disk.
    let trees = std::thread::scope(|scope| {
        let judged = |seed: u64| {
            let scale = [Scale::Small, Scale::Real][seed as usize % 2];
            let seen = run(seed, &Trial { scale, ..trial() });
            let seen = seen.unwrap_or_else(|complaint| panic!("seed {seed}: {complaint}"));
            assert_eq!(seen.returned, 20);
            seen.trees
        };
        let lanes = [[0, 1], [3, 2]].map(|seeds| scope.spawn(move || seeds.map(judged)));
        let judged = lanes.map(|lane| lane.join().unwrap());
        judged.as_flattened().iter().sum::<u64>()
    });
    assert!(trees > 60, "only {trees} trees were judged");
}

/// The counterpart of the test above: it can fail.
#[test]
fn a_disk_that_only_pretends_to_sync_is_found_out() {
    let lying = Trial {
        lies: true,
        policies: vec![Policy::LOSE_ALL, Policy::RANDOM],
        ..trial()
    };
    let complaint = run(1, &lying).expect_err("a violation");
    assert!(complaint.starts_with("cut before"), "{complaint}");
}

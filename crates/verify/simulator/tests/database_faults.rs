//! A fault of the database during an operation: the operation happens as a whole or not at all, or the vault stops; and
//! nothing synced is lost.

use strongroom_metadata::DiskFault;
use strongroom_simulator::database_faults::{Outcome, Plan, Target, run};

/// Every `step`-th use of the database's files of a small scenario fails once; gives how each ended.
fn sweep(seed: u64, target: Target, fault: DiskFault, step: usize) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for nth in (1..).step_by(step) {
        let plan = Plan { target, nth, fault };
        match run(seed, 40, plan) {
            Ok(Outcome::NotReached) => return outcomes,
            Ok(outcome) => outcomes.push(outcome),
            Err(complaint) => panic!("seed {seed}, {plan:?}: {complaint}"),
        }
    }
    outcomes
}

#[test]
fn a_failed_read_stops_the_vault_or_one_operation() {
    let outcomes: Vec<_> = (0..3)
        .flat_map(|seed| sweep(seed, Target::Read, DiskFault::Failure, 1))
        .collect();
    let count = |wanted| {
        outcomes
            .iter()
            .filter(|outcome| **outcome == wanted)
            .count()
    };
    assert!(outcomes.len() > 50, "{} faults", outcomes.len());
    assert!(
        count(Outcome::Alone) + count(Outcome::Stopped) > 20,
        "{outcomes:?}"
    );
}

#[test]
fn a_failed_write_of_the_database_stops_the_vault() {
    for fault in [DiskFault::Failure, DiskFault::NoSpace] {
        let outcomes = sweep(4, Target::Write, fault, 3);
        assert!(outcomes.contains(&Outcome::Stopped), "{outcomes:?}");
    }
}

#[test]
fn a_failed_sync_of_the_database_stops_the_vault() {
    let outcomes = sweep(4, Target::Sync, DiskFault::Failure, 1);
    assert!(outcomes.contains(&Outcome::Stopped), "{outcomes:?}");
}

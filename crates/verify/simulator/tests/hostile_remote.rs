//! A part of `strongroom-sim remote`; `make sync-sim` runs all of its lies.

use strongroom_simulator::sync::hostile::{count, sweep};

/// Of so many lies one is told: every command and every object comes up.
const STEP: usize = 37;
/// So many at a time: this is the only test of its program.
const JOBS: usize = 2;

/// SECURITY.md, claim 21.
#[test]
fn a_hostile_remote_is_named_and_no_byte_is_wrong_or_lost() {
    let place = tempfile::tempdir().unwrap();
    let (said, broken) = sweep(0..count(), STEP, JOBS, place.path()).unwrap();
    assert_eq!(broken, [""; 0]);
    assert!(said.len() > 30, "{said:?}");
}

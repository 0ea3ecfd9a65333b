//! A small part of `strongroom-sim alarms`; its thousand runs are for releases.

use strongroom_simulator::alarms::{self, Request};

/// Verifications, deep ones and checks while files come and go, segments are compacted, snapshots come and go, content is
/// erased and keys rotate, at openings too. Failed before: a snapshot that was taken or removed meanwhile was told as a
/// damaged record, and blocks that were appended meanwhile as lost content.
#[test]
fn a_sound_vault_is_never_called_damaged_whatever_happens_beside() {
    let place = tempfile::tempdir().unwrap();
    let outcome = alarms::run(place.path(), Request { runs: 30, seed: 1 }).unwrap();
    assert_eq!(outcome.alarms, [] as [String; 0]);
    assert_eq!(outcome.runs, 30);
    let idle: Vec<_> = outcome
        .beside
        .iter()
        .filter(|(_, count)| **count == 0)
        .collect();
    assert!(idle.is_empty(), "never done beside them: {idle:?}");
}

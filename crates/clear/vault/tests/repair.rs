//! What a repair mends, what it sets apart, and what it says of the rest. The sweep over all damages is the simulator's.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

use strongroom::{
    Brought, Error, GoOn, NewRevision, RepairOptions, RepairReport, Vault, VerifyOptions, repair,
};

use support::{Place, content};

impl Place {
    fn repair(&self, dry_run: bool) -> RepairReport {
        let options = RepairOptions {
            dry_run,
            ..RepairOptions::default()
        };
        repair(self.folder(), &self.secret, options, &mut |_| {}).unwrap()
    }
}

fn take(vault: &Vault, tag: &str) {
    let new = NewRevision {
        tags: vec![tag.to_owned()],
        ..NewRevision::default()
    };
    vault.take_revision(&new).unwrap().unwrap();
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn assert_sound(vault: &Vault) {
    let deep = VerifyOptions {
        deep: true,
        resume: false,
    };
    let report = vault.verify(deep, &mut |_| GoOn::Yes).unwrap();
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn a_sound_vault_needs_nothing_and_is_left_as_it_is() {
    let (place, vault) = Place::new();
    vault.write("/file", content(100 << 10, 1)).unwrap();
    take(&vault, "one");
    vault.close().unwrap();
    for dry_run in [true, false] {
        let report = place.repair(dry_run);
        assert!(report.needs_nothing() && report.is_whole(), "{report:?}");
    }
    assert_eq!(place.open().read("/file").unwrap(), content(100 << 10, 1));
}

/// Goal: a block that is damaged in one segment comes back from a copy of it in another file, which the database does not
/// know: as a segment put back from a backup is.
#[test]
fn a_damaged_block_is_mended_from_a_segment_that_was_put_back() {
    let (place, vault) = Place::new();
    let bytes = content(300 << 10, 2);
    vault.write("/file", &bytes).unwrap();
    vault.compact().unwrap();
    vault.close().unwrap();
    let path = place.segments().pop().unwrap();
    let sound = std::fs::read(&path).unwrap();
    flip(&path, 100_000);
    let report = place.repair(true);
    assert_eq!((report.mended_blocks, report.lost_blocks), (0, 1));
    let report = place.repair(false);
    assert!(!report.is_whole() && report.lost_blocks == 1, "{report:?}");
    assert!(place.open().read("/file").is_err());
    std::fs::write(&path, &sound).unwrap();
    let report = place.repair(false);
    assert!(report.is_whole(), "{report:?}");
    let vault = place.open();
    assert_eq!(vault.read("/file").unwrap(), bytes);
    assert_sound(&vault);
}

/// Goal: after a lost block is remembered, the same content stored anew is stored, also by a later run, and mends it.
#[test]
fn what_stays_lost_is_mended_by_storing_the_same_content_again() {
    let (place, vault) = Place::new();
    let bytes = content(300 << 10, 3);
    vault.write("/file", &bytes).unwrap();
    vault.compact().unwrap();
    vault.close().unwrap();
    std::fs::remove_file(place.segments().pop().unwrap()).unwrap();
    let report = place.repair(false);
    assert!(report.lost_blocks >= 4, "{report:?}");
    let again = place.repair(false);
    assert_eq!(again.left.damages, report.left.damages);
    let vault = place.open();
    assert!(vault.read("/file").is_err());
    vault.write("/copy", &bytes).unwrap();
    vault.sync().unwrap();
    vault.close().unwrap();
    let vault = place.open();
    assert_eq!(vault.read("/copy").unwrap(), bytes);
    assert_eq!(
        vault.read("/file").unwrap(),
        bytes,
        "one content, one block"
    );
    assert_sound(&vault);
}

#[test]
fn damage_beside_the_blocks_costs_nothing_and_the_file_is_replaced() {
    let (place, vault) = Place::new();
    let bytes = content(300 << 10, 4);
    vault.write("/file", &bytes).unwrap();
    vault.compact().unwrap();
    vault.close().unwrap();
    let path = place.segments().pop().unwrap();
    // The footer.
    flip(
        &path,
        usize::try_from(path.metadata().unwrap().len()).unwrap() - 30,
    );
    let report = place.repair(false);
    assert!(report.is_whole() && report.lost_blocks == 0, "{report:?}");
    assert!(!path.exists());
    let vault = place.open();
    assert_eq!(vault.read("/file").unwrap(), bytes);
    assert_sound(&vault);
}

/// Goal: nodes of the newest kept state that are lost are built anew, because the living state is still the same.
#[test]
fn lost_nodes_of_a_kept_state_come_back_from_the_living_one() {
    let (place, vault) = Place::new();
    for number in 0..300 {
        vault
            .write(format!("/{number}"), content(50, number))
            .unwrap();
    }
    vault.compact().unwrap();
    let before = place.segments();
    take(&vault, "one");
    vault.compact().unwrap();
    vault.close().unwrap();
    let nodes = place
        .segments()
        .into_iter()
        .find(|path| !before.contains(path));
    std::fs::remove_file(nodes.unwrap()).unwrap();
    let report = place.repair(false);
    assert!(report.mended_blocks > 0, "{report:?}");
    let vault = place.open();
    assert_eq!(vault.read("/.history/t:one/7").unwrap(), content(50, 7));
    assert_sound(&vault);
}

#[test]
fn a_ruined_database_is_rebuilt_and_a_dry_run_only_says_so() {
    let (place, vault) = Place::new();
    vault.write("/file", content(100 << 10, 5)).unwrap();
    take(&vault, "one");
    vault.close().unwrap();
    let database = place.folder().join("metadata.db");
    std::fs::write(&database, b"no database").unwrap();
    let report = place.repair(true);
    assert!(matches!(report.recovered.database, Brought::Anew(_)));
    assert_eq!(std::fs::read(&database).unwrap(), b"no database");
    let report = place.repair(false);
    assert!(report.is_whole(), "{report:?}");
    assert_eq!(place.open().read("/file").unwrap(), content(100 << 10, 5));
    assert!(place.folder().join("metadata.db.damaged-1").exists());
}

#[test]
fn a_vault_that_is_open_is_not_repaired() {
    let (place, vault) = Place::new();
    let refused = repair(
        place.folder(),
        &place.secret,
        RepairOptions::default(),
        &mut |_| {},
    );
    assert!(matches!(refused, Err(Error::InUse)), "{refused:?}");
    vault.close().unwrap();
}

/// Goal: what lies in a batch whose index, or the record of its lengths, is damaged is sound, but no file says so any more; it is
/// stored anew from where the database says that it lies, and the damaged file goes.
#[test]
fn sound_blocks_leave_a_segment_whose_index_or_lengths_are_damaged() {
    for from_end in [false, true] {
        let (place, vault) = Place::new();
        let bytes = content(300 << 10, 5);
        vault.write("/file", &bytes).unwrap();
        take(&vault, "one");
        vault.close().unwrap();
        let path = place.segments().pop().unwrap();
        let segment = std::fs::read(&path).unwrap();
        // The first batch begins behind the header; its index lies behind its head and its blocks, a tag for each chunk.
        let blocks = (300 << 10) + 75 * 16;
        let sectors = u32::from_le_bytes(segment[4124..4128].try_into().unwrap()) as usize;
        assert!(sectors * 4096 > blocks, "the batch of the file");
        let index = 4096 + 64 + blocks + 20;
        flip(
            &path,
            if from_end {
                (1 + sectors) * 4096 - 9
            } else {
                index
            },
        );
        let report = place.repair(false);
        assert!(!report.found.is_sound() && report.found.damages.is_empty());
        assert!(report.is_whole(), "{report:?}");
        assert!(!path.exists());
        let vault = place.open();
        assert_eq!(vault.read("/file").unwrap(), bytes);
        assert_sound(&vault);
    }
}

//! What a repair repairs, what it sets aside, and what it reports of the rest. The simulator tests every kind of damage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

use strongroom::{
    Brought, Error, FileOptions, GoOn, NewRevision, OpenOptions, RecoverOptions, RepairOptions,
    RepairReport, SeenRecords, Trust, Vault, VerifyOptions, recover, repair,
};

use support::{Place, content, copy_folder};

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

/// Goal: after a lost block is remembered, the same content is stored when it is written again, also by a later run, and mends it.
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

/// Goal: who knows more of the disk may get more out of it. [7.7.7] Failed before: the file was deleted.
#[test]
fn a_segment_of_which_blocks_are_lost_is_set_aside_and_not_deleted() {
    let (place, vault) = Place::new();
    vault.write("/file", content(300 << 10, 6)).unwrap();
    vault.compact().unwrap();
    vault.close().unwrap();
    let path = place.segments().pop().unwrap();
    let mut damaged = std::fs::read(&path).unwrap();
    let end = damaged.len() - 8192;
    damaged[4096..end].fill(0);
    std::fs::write(&path, &damaged).unwrap();
    let report = place.repair(false);
    assert!(
        report.lost_blocks > 0 && report.set_aside.len() == 1,
        "{report:?}"
    );
    let aside = place
        .folder()
        .join("unexplained")
        .join(path.file_name().unwrap());
    assert!(!path.exists());
    assert!(std::fs::read(aside).unwrap() == damaged);
    let again = place.repair(false);
    assert!(again.set_aside.is_empty(), "{again:?}");
}

/// Goal: nodes of the newest snapshot that are lost are rebuilt, because the living state is still the same.
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
    assert!(matches!(report.recovered.database, Brought::Rebuilt(_)));
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
/// stored again from where the database says that it lies, and the damaged file goes.
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

/// Goal: a database that is sound but for what somebody put behind its last page is cut to its pages, and nothing of it is lost.
/// Failed before: it was rebuilt from the newest snapshot, and what was newer was gone.
#[test]
fn a_database_with_bytes_behind_its_last_page_is_cut_and_nothing_is_lost() {
    for surplus in [1, 512, 4096, 3 * 4096 + 5] {
        let (place, vault) = Place::new();
        vault.write("/file", content(100 << 10, 1)).unwrap();
        take(&vault, "one");
        vault.write("/newer", "newer").unwrap();
        vault.close().unwrap();
        let path = place.folder().join("metadata.db");
        let sound = std::fs::read(&path).unwrap();
        let longer = [&sound[..], &vec![7; surplus]].concat();
        std::fs::write(&path, &longer).unwrap();
        let report = place.repair(true);
        assert_eq!(report.recovered.database, Brought::Cut, "{surplus}");
        assert!(!report.needs_nothing());
        assert_eq!(std::fs::read(&path).unwrap(), longer, "a dry run");
        let report = place.repair(false);
        assert_eq!(report.recovered.database, Brought::Cut, "{surplus}");
        assert!(report.is_whole(), "{report:?}");
        let vault = place.open();
        assert_eq!(vault.read("/newer").unwrap(), b"newer");
        assert_sound(&vault);
        vault.close().unwrap();
        assert!(place.repair(false).needs_nothing());
    }
}

fn nowhere() -> Trust {
    Trust {
        seen: SeenRecords::Nowhere,
        ..Trust::default()
    }
}

/// A vault as a crash leaves it, with small syncs in its log that are in no commit.
fn crashed() -> Place {
    let (place, vault) = Place::new();
    vault.write("/kept", content(100 << 10, 1)).unwrap();
    take(&vault, "one");
    let file = vault
        .open_file("/kept", FileOptions::new().write())
        .unwrap();
    for round in 0..4 {
        file.write_all_at(b"small", round * 100).unwrap();
        file.sync_all().unwrap();
    }
    let copied = place.directory.path().join("copied");
    copy_folder(&place.folder(), &copied);
    drop(file);
    vault.close().unwrap();
    std::fs::remove_dir_all(place.folder()).unwrap();
    std::fs::rename(copied, place.folder()).unwrap();
    place
}

/// Goal: a verification names the log of small syncs if something in it was lost. Failed before: that was a warning only, and
/// the vault was said to be sound.
#[test]
fn a_damaged_log_of_small_syncs_is_named_by_a_verification() {
    let place = crashed();
    flip(&place.folder().join("intents"), 700);
    let vault = place.open_with(OpenOptions {
        trust: nowhere(),
        ..OpenOptions::default()
    });
    let report = vault
        .verify(VerifyOptions::default(), &mut |_| GoOn::Yes)
        .unwrap();
    let named: Vec<&str> = report.files.iter().map(|one| one.file.as_str()).collect();
    assert_eq!(named, ["intents"], "{report:?}");
}

/// As a verification, of a vault whose database is sound. Failed before: nothing was said, and the next opening lost it.
#[test]
fn a_recovery_takes_in_the_log_of_small_syncs_and_says_what_is_lost_of_it() {
    for (harm, named) in [("none", 0), ("damaged", 1), ("missing", 1)] {
        let place = crashed();
        let log = place.folder().join("intents");
        match harm {
            "none" => {}
            "damaged" => flip(&log, 700),
            _ => std::fs::remove_file(&log).unwrap(),
        }
        let options = RecoverOptions {
            rebuild: strongroom::Rebuild::IfLost,
            trust: nowhere(),
        };
        let report = recover(place.folder(), &place.secret, options, &mut |_| {}).unwrap();
        assert_eq!(report.database, Brought::Sound);
        assert_eq!(report.files.len(), named, "{report:?}");
        assert_eq!(report.is_whole(), named == 0);
        assert!(!place.folder().join("intents").exists());
    }
}

/// Goal: a rebuilt database cannot take in the log of small syncs of the old one: it stays under another name, and that is said.
/// Failed before: the next opening removed it, and nothing was said.
#[test]
fn a_log_of_small_syncs_that_a_rebuilt_database_cannot_take_in_stays_and_is_named() {
    let place = crashed();
    let log = std::fs::read(place.folder().join("intents")).unwrap();
    std::fs::remove_file(place.folder().join("metadata.db")).unwrap();
    let options = RecoverOptions {
        rebuild: strongroom::Rebuild::IfLost,
        trust: nowhere(),
    };
    let report = recover(place.folder(), &place.secret, options, &mut |_| {}).unwrap();
    assert!(!report.is_whole(), "{report:?}");
    assert!(report.files.iter().any(|one| one.file == "intents"));
    place
        .open_with(OpenOptions {
            trust: nowhere(),
            ..OpenOptions::default()
        })
        .close()
        .unwrap();
    let kept = std::fs::read(place.folder().join("intents.unreadable")).unwrap();
    assert_eq!(kept, log);
}

/// Goal: the header of another vault is called that, and a repair puts the right one back. Failed before: the secret was said to be
/// wrong.
#[test]
fn the_header_of_another_vault_is_named_and_put_right_from_the_second_copy() {
    let (place, vault) = Place::new();
    vault.write("/file", "bytes").unwrap();
    vault.close().unwrap();
    let (other, vault) = Place::new();
    vault.close().unwrap();
    let header = |place: &Place| place.folder().join("vault.json");
    std::fs::copy(header(&other), header(&place)).unwrap();
    let opened = Vault::open(place.folder(), place.secret.clone(), OpenOptions::default());
    let why = match opened {
        Err(Error::Damaged {
            what: "vault.json",
            why,
        }) => why,
        other => panic!("{other:?}"),
    };
    assert!(why.contains("another vault"), "{why}");
    let report = place.repair(false);
    assert_eq!(report.recovered.header, Brought::PutBack);
    assert_eq!(place.open().read("/file").unwrap(), b"bytes");
}

/// Goal: who puts the mark of an unfinished `init` into a vault does not make anybody remove it. Failed before: a repair said that
/// nothing was stored there and that the folder should be removed, and so did every command once vault.json was gone, too.
#[test]
fn the_mark_of_an_unfinished_init_in_a_vault_stops_no_repair() {
    let (place, vault) = Place::new();
    vault.write("/file", "bytes").unwrap();
    vault.close().unwrap();
    std::fs::write(place.folder().join("init-unfinished"), "").unwrap();
    assert!(place.repair(false).is_whole());
    std::fs::remove_file(place.folder().join("vault.json")).unwrap();
    let opened = Vault::open(place.folder(), place.secret.clone(), OpenOptions::default());
    assert!(
        matches!(opened, Err(Error::HeaderLost { saved: true })),
        "{opened:?}"
    );
    assert_eq!(place.repair(false).recovered.header, Brought::PutBack);
    assert_eq!(place.open().read("/file").unwrap(), b"bytes");
}

/// Goal: a database cut to less than a page, its log beside it, is rebuilt. Failed before: the disk was said to have failed.
#[test]
fn a_database_shorter_than_a_page_beside_its_log_is_rebuilt() {
    for len in [0, 1, 4095] {
        let place = crashed();
        let database = std::fs::File::options()
            .write(true)
            .open(place.folder().join("metadata.db"));
        database.unwrap().set_len(len).unwrap();
        let options = RecoverOptions {
            rebuild: strongroom::Rebuild::IfLost,
            trust: nowhere(),
        };
        let report = recover(place.folder(), &place.secret, options, &mut |_| {}).unwrap();
        let aside = Some("metadata.db.damaged-1".to_owned());
        assert_eq!(report.database, Brought::Rebuilt(aside), "{len}");
    }
}

/// Goal: an older replica file that was put back costs nothing while its second copy has the key of the database.
/// Failed before: the database was given up and rebuilt, and the second copy overwritten.
#[test]
fn a_database_that_only_the_second_replica_file_opens_is_kept() {
    let (place, vault) = Place::new();
    vault.write("/file", content(100 << 10, 8)).unwrap();
    vault.close().unwrap();
    let replica = place.folder().join("replica.json");
    let older = std::fs::read(&replica).unwrap();
    strongroom::Keys::open_with(place.folder(), &place.secret, nowhere())
        .unwrap()
        .rotate()
        .unwrap();
    let options = || {
        let mut options = OpenOptions {
            trust: nowhere(),
            ..OpenOptions::default()
        };
        options.engine.background = strongroom::filesystem::Background::Manual;
        options
    };
    place.open_with(options()).close().unwrap();
    std::fs::write(&replica, older).unwrap();
    let report = repair(
        place.folder(),
        &place.secret,
        RepairOptions {
            trust: nowhere(),
            ..RepairOptions::default()
        },
        &mut |_| {},
    );
    let report = report.unwrap();
    assert_eq!(report.recovered.replica, Brought::PutBack, "{report:?}");
    assert_eq!(report.recovered.database, Brought::Sound);
    let vault = place.open_with(options());
    assert_eq!(vault.read("/file").unwrap(), content(100 << 10, 8));
}

/// The files of the database, to be put back.
fn database_files(place: &Place) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(place.folder()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_of_database = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("metadata.db")
    };
    paths
        .filter(is_of_database)
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

/// A vault whose database does not know its only snapshot, the segment with the snapshot's content, and that content.
fn with_unknown_snapshot(beside: bool) -> (Place, std::path::PathBuf, Vec<u8>) {
    let (place, vault) = Place::new();
    vault.write("/stays", "stays").unwrap();
    vault.compact().unwrap();
    vault.close().unwrap();
    let older = database_files(&place);
    let vault = place.open();
    let bytes = content(2 << 20, 71);
    vault.write("/kept", &bytes).unwrap();
    if beside {
        vault.write("/beside", content(1 << 20, 72)).unwrap();
    }
    vault.compact().unwrap();
    let segment = place.segments().pop().unwrap();
    if beside {
        vault.remove_file("/beside").unwrap();
    }
    take(&vault, "one");
    vault.remove_file("/kept").unwrap();
    vault.close().unwrap();
    for (path, _) in database_files(&place) {
        std::fs::remove_file(path).unwrap();
    }
    for (path, bytes) in older {
        std::fs::write(path, bytes).unwrap();
    }
    (place, segment, bytes)
}

fn repair_older(place: &Place) -> RepairReport {
    let options = RepairOptions {
        trust: nowhere(),
        ..RepairOptions::default()
    };
    repair(place.folder(), &place.secret, options, &mut |_| {}).unwrap()
}

fn open_older(place: &Place) -> Vault {
    place.open_with(OpenOptions {
        trust: nowhere(),
        ..OpenOptions::default()
    })
}

/// Goal: lost content of a snapshot that a repair adopts counts. Failed before: as after a rebuilding, the living file was damaged.
#[test]
fn removing_an_adopted_snapshot_whose_content_was_lost_costs_no_living_file() {
    let (place, segment, lost) = with_unknown_snapshot(false);
    std::fs::remove_file(segment).unwrap();
    let report = repair_older(&place);
    assert_eq!(report.adopted.len(), 1, "{report:?}");
    let vault = open_older(&place);
    vault.write("/again", &lost).unwrap();
    vault.sync().unwrap();
    let one = vault.select_revision("t:one").unwrap();
    vault.remove_revision(one.id).unwrap();
    vault.compact().unwrap();
    vault.close().unwrap();
    let vault = open_older(&place);
    assert!(vault.read("/again").unwrap() == lost);
    assert_sound(&vault);
}

/// Goal: content that no snapshot names gets a name, though an adopted snapshot names other content of the same segment.
/// Failed before: the segment had a row by then, so nobody looked into it, and the content counted as waste.
#[test]
fn content_beside_that_of_an_adopted_snapshot_goes_to_lost_and_found() {
    let (place, segment, kept) = with_unknown_snapshot(true);
    let report = repair_older(&place);
    assert_eq!(report.adopted.len(), 1, "{report:?}");
    assert!(report.unnamed >= 1, "{report:?}");
    assert!(
        segment.exists() && report.set_aside.is_empty(),
        "{report:?}"
    );
    let vault = open_older(&place);
    let id = segment.file_name().unwrap().to_str().unwrap();
    let found = vault.read(format!("/lost+found/{id}")).unwrap();
    assert!(found == content(1 << 20, 72));
    assert!(vault.read("/.history/t:one/kept").unwrap() == kept);
    assert_sound(&vault);
    vault.close().unwrap();
    let again = repair_older(&place);
    assert_eq!((again.unnamed, again.adopted.len()), (0, 0), "{again:?}");
}

/// Goal: what an earlier repair has put into `lost+found` stays. Method: a file has the name that the content of the segment would get, as
/// after a kill in the middle of writing it: what is in it has rows, and is not written again. Failed before: that file was emptied first.
#[test]
fn what_a_killed_repair_had_put_into_lost_and_found_stays_there() {
    let (place, segment, _) = with_unknown_snapshot(true);
    let id = segment.file_name().unwrap().to_str().unwrap();
    let vault = open_older(&place);
    vault.make_directory("/lost+found", 0o700).unwrap();
    vault
        .write(format!("/lost+found/{id}"), "of a killed repair")
        .unwrap();
    vault.close().unwrap();
    let report = repair_older(&place);
    assert!(report.unnamed >= 1, "{report:?}");
    let vault = open_older(&place);
    let earlier = vault.read(format!("/lost+found/{id}")).unwrap();
    assert_eq!(earlier, b"of a killed repair");
    let found = vault.read(format!("/lost+found/{id}-2")).unwrap();
    assert!(found == content(1 << 20, 72));
    assert_sound(&vault);
}

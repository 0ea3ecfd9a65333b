//! What a repair fetches: damaged and lost segments, and blocks that compaction removed here; it uses only proven bytes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use strongroom::{
    Error, FromRemote, GoOn, NewRevision, RecoverProgress, RepairOptions, RepairReport, UseRemotes,
    Vault, VerifyOptions, repair,
};

use support::{Place, content};

/// A vault that was pushed to folders beside it.
struct Pushed {
    place: Place,
    /// The longest segment and its bytes.
    segment: PathBuf,
    bytes: Vec<u8>,
}

impl Pushed {
    /// To each of these remotes.
    fn to(remotes: &[&str]) -> Self {
        let (place, vault) = Place::new();
        vault.write("/small", content(300, 1)).unwrap();
        vault.write("/large", content(3 << 20, 2)).unwrap();
        let new = NewRevision {
            tags: vec!["one".to_owned()],
            ..NewRevision::default()
        };
        vault.take_revision(&new).unwrap().unwrap();
        vault.compact().unwrap();
        for name in remotes {
            fs::create_dir(place.directory.path().join(name)).unwrap();
            add(&place, &vault, name);
            vault.push(name, &mut |_| GoOn::Yes).unwrap();
        }
        vault.close().unwrap();
        let segment = place.segments().pop().unwrap();
        let bytes = fs::read(&segment).unwrap();
        Self {
            place,
            segment,
            bytes,
        }
    }

    fn at(&self, remote: &str) -> PathBuf {
        self.place.directory.path().join(remote)
    }

    /// The longest segment, as a remote has it.
    fn object(&self, remote: &str) -> PathBuf {
        let objects = fs::read_dir(self.at(remote).join("segments")).unwrap();
        let mut objects = objects.map(|one| one.unwrap().path());
        let is_it = |path: &PathBuf| fs::read(path).unwrap() == self.bytes;
        objects.find(is_it).unwrap()
    }

    fn damage(&self, how: Damage) {
        let mut bytes = self.bytes.clone();
        let middle = bytes.len() / 2;
        match how {
            Damage::Flipped => bytes[middle] ^= 1,
            Damage::Cut => bytes.truncate(middle),
            Damage::Zero => bytes[middle..middle + 200_000].fill(0),
            Damage::Removed => return fs::remove_file(&self.segment).unwrap(),
        }
        fs::write(&self.segment, bytes).unwrap();
    }

    fn try_repair(
        &self,
        options: RepairOptions,
        told: &mut dyn FnMut(RecoverProgress),
    ) -> Result<RepairReport, Error> {
        repair(self.place.folder(), &self.place.secret, options, told)
    }

    fn repair(&self) -> RepairReport {
        self.try_repair(RepairOptions::default(), &mut |_| {})
            .unwrap()
    }

    fn assert_sound(&self) {
        let vault = self.place.open();
        assert!(vault.read("/large").unwrap() == content(3 << 20, 2));
        assert_eq!(vault.read("/small").unwrap(), content(300, 1));
        assert!(vault.read("/.history/t:one/large").unwrap() == content(3 << 20, 2));
        let deep = VerifyOptions {
            deep: true,
            resume: false,
        };
        let report = vault.verify(deep, &mut |_| GoOn::Yes).unwrap();
        assert!(report.is_sound(), "{report:?}");
        vault.close().unwrap();
    }
}

fn add(place: &Place, vault: &Vault, name: &str) {
    let address = format!("folder:{}", place.directory.path().join(name).display());
    vault.add_remote(name, &address).unwrap();
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flipped,
    Cut,
    Zero,
    Removed,
}

const DAMAGES: [Damage; 4] = [Damage::Flipped, Damage::Cut, Damage::Zero, Damage::Removed];

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn with(remotes: UseRemotes) -> RepairOptions {
    RepairOptions {
        remotes,
        ..RepairOptions::default()
    }
}

/// Goal: the file is the same again, byte for byte. Method: everything else is taken away from the remote before, so nothing else can
/// be asked of it.
/// SECURITY.md, claim 21.
#[test]
fn a_damaged_segment_is_replaced_by_what_was_pushed_and_nothing_else_is_fetched() {
    for how in DAMAGES {
        let pushed = Pushed::to(&["stick"]);
        let object = pushed.object("stick");
        for kind in ["segments", "revisions", "publications", "headers"] {
            for one in fs::read_dir(pushed.at("stick").join(kind)).unwrap() {
                let path = one.unwrap().path();
                if path != object {
                    fs::remove_file(path).unwrap();
                }
            }
        }
        pushed.damage(how);
        let report = pushed.repair();
        assert!(report.is_whole(), "{how:?}: {report:?}");
        let id = pushed.segment.file_name().unwrap().to_str().unwrap();
        let took = FromRemote {
            name: "stick".to_owned(),
            files: vec![format!("segments/{}/{id}", &id[..2])],
            blocks: 0,
            bytes: pushed.bytes.len() as u64,
            problems: Vec::new(),
        };
        assert_eq!(report.remotes, [took], "{how:?}");
        assert_eq!((report.lost_blocks, report.mended_blocks), (0, 0));
        assert!(
            fs::read(&pushed.segment).unwrap() == pushed.bytes,
            "{how:?}"
        );
        let again = pushed.repair();
        assert!(
            again.needs_nothing() && again.remotes.is_empty(),
            "{again:?}"
        );
        pushed.assert_sound();
    }
}

/// Goal: without the remote a repair is what it is without any, and what is lost then comes back when the remote is there again: the
/// file where one is left, else its blocks.
#[test]
fn a_remote_that_is_away_is_named_and_mends_the_rest_when_it_is_back() {
    for how in DAMAGES {
        let pushed = Pushed::to(&["stick"]);
        pushed.damage(how);
        let away = pushed.at("away");
        fs::rename(pushed.at("stick"), &away).unwrap();
        let report = pushed.repair();
        assert!(!report.is_whole() && report.lost_blocks > 0, "{report:?}");
        let [asked] = &report.remotes[..] else {
            panic!("{:?}", report.remotes);
        };
        let said = "the remote cannot be reached: there is no folder ";
        assert!(
            asked.problems.len() == 1 && asked.problems[0].starts_with(said),
            "{asked:?}"
        );
        fs::rename(away, pushed.at("stick")).unwrap();
        let report = pushed.repair();
        assert!(report.is_whole(), "{how:?}: {report:?}");
        let took = &report.remotes[0];
        assert!(took.problems.is_empty(), "{took:?}");
        assert!(took.blocks > 0 || !took.files.is_empty(), "{took:?}");
        pushed.assert_sound();
    }
}

/// Goal: a repair while the remote is away leaves the remote's good copy to the next one, whatever is pushed in between.
/// Failed before: lost blocks waited for no segment any more, so the push retired it, and what was swept then was nowhere.
#[test]
fn a_push_after_a_repair_without_the_remote_leaves_the_good_copy_there() {
    for how in DAMAGES {
        let pushed = Pushed::to(&["stick"]);
        pushed.damage(how);
        let away = pushed.at("away");
        fs::rename(pushed.at("stick"), &away).unwrap();
        assert!(pushed.repair().lost_blocks > 0);
        fs::rename(away, pushed.at("stick")).unwrap();
        let vault = pushed.place.open();
        vault.write("/new", content(100 << 10, 9)).unwrap();
        vault.push("stick", &mut |_| GoOn::Yes).unwrap();
        let no_grace = std::time::Duration::ZERO;
        vault
            .prune_remote("stick", no_grace, &mut |_| GoOn::Yes)
            .unwrap();
        vault.close().unwrap();
        let report = pushed.repair();
        assert!(report.is_whole(), "{how:?}: {report:?}");
        pushed.assert_sound();
    }
}

/// Goal: the way of docs/guide/damage.md after the database was rebuilt brings the content of old snapshots back.
/// Failed before: the segment that a sync brought held nothing that had a row, so it was removed here and retired at the remote.
#[test]
fn content_of_an_old_snapshot_comes_back_after_a_rebuilding_and_a_sync() {
    let pushed = Pushed::to(&["stick"]);
    let vault = pushed.place.open();
    vault.remove_file("/large").unwrap();
    let new = NewRevision {
        tags: vec!["two".to_owned()],
        ..NewRevision::default()
    };
    vault.take_revision(&new).unwrap().unwrap();
    vault.push("stick", &mut |_| GoOn::Yes).unwrap();
    vault.close().unwrap();
    pushed.damage(Damage::Removed);
    for name in ["metadata.db", "metadata.db-wal", "metadata.db-tree"] {
        let _ = fs::remove_file(pushed.place.folder().join(name));
    }
    assert!(!pushed.repair().is_whole());
    let vault = pushed.place.open();
    add(&pushed.place, &vault, "stick");
    vault.sync_with("stick", &mut |_| GoOn::Yes).unwrap();
    vault.compact().unwrap();
    vault.push("stick", &mut |_| GoOn::Yes).unwrap();
    vault.close().unwrap();
    let report = pushed.repair();
    assert_eq!(report.lost_blocks, 0, "{report:?}");
    let vault = pushed.place.open();
    let no_grace = std::time::Duration::ZERO;
    vault
        .prune_remote("stick", no_grace, &mut |_| GoOn::Yes)
        .unwrap();
    assert!(vault.read("/.history/t:one/large").unwrap() == content(3 << 20, 2));
    assert!(pushed.object("stick").exists());
}

/// SECURITY.md, claim 21.
#[test]
fn what_a_remote_lies_or_lost_is_named_and_not_used_and_another_remote_has_it() {
    for is_lost in [false, true] {
        let pushed = Pushed::to(&["first", "second"]);
        let object = pushed.object("first");
        match is_lost {
            true => fs::remove_file(&object).unwrap(),
            false => flip(&object),
        }
        pushed.damage(Damage::Cut);
        let broken = fs::read(&pushed.segment).unwrap();
        let only = |name: &str| with(UseRemotes::Only(name.to_owned()));
        let dry_run = RepairOptions {
            dry_run: true,
            ..only("first")
        };
        pushed.try_repair(dry_run, &mut |_| {}).unwrap();
        assert!(fs::read(&pushed.segment).unwrap() == broken);
        let report = pushed.repair();
        assert!(report.is_whole(), "{report:?}");
        let [first, second] = &report.remotes[..] else {
            panic!("{:?}", report.remotes);
        };
        let name = object.file_name().unwrap().to_str().unwrap();
        assert!(
            first.files.is_empty() && first.problems.iter().all(|one| one.contains(name)),
            "{first:?}"
        );
        assert_eq!((first.problems.len(), second.files.len()), (1, 1));
        pushed.assert_sound();
        // Both at once lie.
        pushed.damage(Damage::Cut);
        if !is_lost {
            flip(&pushed.object("second"));
            let report = pushed.repair();
            assert!(!report.is_whole() && report.lost_blocks > 0, "{report:?}");
            // Each says it once, although it was asked for the segment and for its blocks.
            assert!(report.remotes.iter().all(|one| one.problems.len() == 1));
            assert!(report.remotes.iter().all(|one| one.files.is_empty()));
            assert!(pushed.place.open().read("/large").is_err());
        }
    }
}

/// Goal: what moved here into a segment that was never pushed comes out of the one that was. [7.7.12]
#[test]
fn blocks_that_were_compacted_here_come_out_of_the_segments_that_were_pushed() {
    let pushed = Pushed::to(&["stick"]);
    let vault = pushed.place.open();
    vault.write("/later", content(100_000, 3)).unwrap();
    vault.sync().unwrap();
    vault.compact().unwrap();
    vault.remove_file("/later").unwrap();
    vault.compact().unwrap();
    vault.close().unwrap();
    for path in pushed.place.segments() {
        fs::remove_file(path).unwrap();
    }
    let report = pushed.repair();
    assert!(report.is_whole(), "{report:?}");
    let took = &report.remotes[0];
    assert!(took.blocks + took.files.len() as u64 > 0, "{took:?}");
    pushed.assert_sound();
}

#[test]
fn what_was_never_pushed_stays_lost_and_a_dry_run_fetches_nothing() {
    let pushed = Pushed::to(&["stick"]);
    let vault = pushed.place.open();
    let before = pushed.place.segments();
    vault.write("/later", content(2 << 20, 3)).unwrap();
    vault.compact().unwrap();
    vault.close().unwrap();
    let fresh = |path: &PathBuf| !before.contains(path);
    let later = pushed.place.segments().into_iter().rfind(fresh).unwrap();
    fs::remove_file(later).unwrap();
    pushed.damage(Damage::Zero);
    let broken = fs::read(&pushed.segment).unwrap();
    let dry_run = RepairOptions {
        dry_run: true,
        ..RepairOptions::default()
    };
    let report = pushed.try_repair(dry_run, &mut |_| {}).unwrap();
    let took = &report.remotes[0];
    assert_eq!((took.files.len(), took.blocks, took.bytes), (1, 0, 0));
    assert!(report.lost_blocks > 0, "{report:?}");
    assert!(fs::read(&pushed.segment).unwrap() == broken);
    let report = pushed.repair();
    assert!(!report.is_whole() && report.lost_blocks > 0, "{report:?}");
    assert_eq!(report.remotes[0].files.len(), 1);
    let vault = pushed.place.open();
    assert!(vault.read("/large").unwrap() == content(3 << 20, 2));
    assert!(vault.read("/later").is_err());
}

#[test]
fn only_the_remotes_that_are_meant_are_asked() {
    let pushed = Pushed::to(&["first", "second"]);
    pushed.damage(Damage::Flipped);
    let unknown = with(UseRemotes::Only("third".to_owned()));
    let refused = pushed.try_repair(unknown, &mut |_| {});
    assert!(
        matches!(refused, Err(Error::UnknownRemote(_))),
        "{refused:?}"
    );
    let dry_run = RepairOptions {
        dry_run: true,
        ..with(UseRemotes::None)
    };
    let report = pushed.try_repair(dry_run, &mut |_| {}).unwrap();
    assert!(
        report.remotes.is_empty() && report.lost_blocks > 0,
        "{report:?}"
    );
    let second = with(UseRemotes::Only("second".to_owned()));
    let report = pushed.try_repair(second, &mut |_| {}).unwrap();
    assert!(report.is_whole(), "{report:?}");
    assert_eq!(report.remotes.len(), 1);
    assert_eq!(report.remotes[0].name, "second");
    pushed.assert_sound();
}

/// Goal: the rows have what records say, so no remote is needed for them.
#[test]
fn damaged_records_are_written_again_without_a_remote() {
    let pushed = Pushed::to(&["stick"]);
    let records = pushed.place.folder().join("revisions");
    for record in fs::read_dir(&records).unwrap() {
        flip(&record.unwrap().path());
    }
    let report = pushed.repair();
    assert!(report.is_whole() && report.records > 0, "{report:?}");
    assert!(report.remotes.is_empty(), "{report:?}");
    pushed.assert_sound();
}

/// Goal: whenever it is cut off, the segment file is the damaged or the right one, and the next repair ends it.                (1)
#[test]
fn a_repair_that_is_cut_off_anywhere_is_ended_by_the_next() {
    for how in [Damage::Cut, Damage::Removed] {
        let mut calls = 1;
        for cut_at in 0.. {
            if cut_at >= calls {
                break;
            }
            let pushed = Pushed::to(&["stick"]);
            pushed.damage(how);
            let broken = fs::read(&pushed.segment).ok();
            let mut count = 0;
            let cut = catch_unwind(AssertUnwindSafe(|| {
                pushed.try_repair(RepairOptions::default(), &mut |_| {
                    count += 1;
                    assert!(count != cut_at + 1, "cut off here");
                })
            }));
            assert!(cut.is_err(), "{how:?} at {cut_at}");
            let left = fs::read(&pushed.segment).ok();
            assert!(left == broken || left.as_ref() == Some(&pushed.bytes));
            count = 0;
            let report = pushed.try_repair(RepairOptions::default(), &mut |_| count += 1);
            let report = report.unwrap();
            assert!(report.is_whole(), "{how:?} at {cut_at}: {report:?}");
            if cut_at == 0 {
                calls = count;
            }
            pushed.assert_sound();
        }
        assert!(calls > 3, "{calls}");
    }
}

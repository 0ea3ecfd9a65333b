//! What a backup does with segments that the vault lost or that are damaged in it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use strongroom::{
    BackupProgress, BackupReport, Error, GoOn, OpenOptions, SeenRecords, Trust, Vault,
    VerifyOptions,
};

use support::{Place, content};

fn back_up(vault: &Vault, target: &Path) -> Result<BackupReport, Error> {
    vault.backup(target, &mut |_| GoOn::Yes)
}

/// A closed vault with two finished segments and a backup of both; the longest segment of the vault, and the backup's copy of it.
fn backed_up() -> (Place, PathBuf, PathBuf) {
    let (place, vault) = Place::new();
    vault.write("/file", content(2 << 20, 1)).unwrap();
    vault.compact().unwrap();
    vault.write("/other", content(1 << 20, 2)).unwrap();
    vault.compact().unwrap();
    let target = place.directory.path().join("backup");
    back_up(&vault, &target).unwrap();
    vault.close().unwrap();
    let segment = place.segments().pop().unwrap();
    let copy = target.join(segment.strip_prefix(place.folder()).unwrap());
    (place, segment, copy)
}

/// What the vault is asked to be that is a copy of another.
fn copied() -> OpenOptions {
    OpenOptions {
        trust: Trust {
            seen: SeenRecords::Nowhere,
            ..Trust::default()
        },
        ..OpenOptions::default()
    }
}

fn assert_whole_backup(place: &Place) {
    let target = place.directory.path().join("backup");
    let options = OpenOptions {
        access: strongroom::Access::ReadOnly,
        ..copied()
    };
    let backup = Vault::open(&target, place.secret.clone(), options).unwrap();
    assert!(backup.read("/file").unwrap() == content(2 << 20, 1));
    let report = backup
        .verify(VerifyOptions::default(), &mut |_| GoOn::Yes)
        .unwrap();
    assert!(report.is_sound(), "{report:?}");
}

/// What becomes of the bytes of a segment; `None` if its file is gone.
type Harm<'a> = &'a dyn Fn(&[u8]) -> Option<Vec<u8>>;

/// Goal: the only good copy of a segment survives the next backup, which says what is wrong. Method: each way in which a file
/// can be lost; one of them in its end only.
/// Failed before: the good copy was removed, or replaced by what was left of the vault's, and the backup said that all was well.
#[test]
fn a_good_copy_of_a_segment_that_the_vault_lost_stays_and_the_backup_fails() {
    let flip_at = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        Some(bytes)
    };
    let ways: [(&str, Harm<'_>); 4] = [
        ("missing", &|_| None),
        ("truncated", &|bytes| {
            Some(bytes[..bytes.len() / 2].to_vec())
        }),
        ("its footer", &|bytes| flip_at(bytes, bytes.len() - 64)),
        ("its table of contents and a block", &|bytes| {
            let mut bytes = bytes.to_vec();
            let end = bytes.len();
            bytes[end - 64..].fill(0);
            flip_at(&bytes, 100_000)
        }),
    ];
    for (how, damage) in ways {
        let (place, segment, copy) = backed_up();
        let good = fs::read(&segment).unwrap();
        match damage(&good) {
            None => fs::remove_file(&segment).unwrap(),
            Some(bytes) => fs::write(&segment, bytes).unwrap(),
        }
        let vault = place.open();
        vault.write("/new", "new").unwrap();
        let target = place.directory.path().join("backup");
        let error = back_up(&vault, &target).unwrap_err();
        let id = segment.file_name().unwrap().to_str().unwrap();
        assert!(
            matches!(&error, Error::Damaged { why, .. } if why.contains(id)),
            "{how}: {error:?}"
        );
        assert!(fs::read(&copy).is_ok_and(|kept| kept == good), "{how}");
        assert_whole_backup(&place);
        vault.close().unwrap();
        // As the message says.
        fs::copy(&copy, &segment).unwrap();
        let vault = place.open();
        back_up(&vault, &target).unwrap();
        assert!(vault.read("/file").unwrap() == content(2 << 20, 1), "{how}");
    }
}

/// Goal: one file that cannot be read costs no backup of all others. Method: a segment with a second name is strange, and not read.
/// Failed before: every backup ended at that file, and the backup stayed as old as it was.
#[test]
fn a_segment_that_cannot_be_read_keeps_no_other_out_of_the_backup() {
    let (place, segment, copy) = backed_up();
    let good = fs::read(&segment).unwrap();
    fs::hard_link(&segment, place.directory.path().join("second-name")).unwrap();
    let vault = place.open();
    vault.write("/new", "new").unwrap();
    let target = place.directory.path().join("backup");
    let error = back_up(&vault, &target).unwrap_err();
    let id = segment.file_name().unwrap().to_str().unwrap();
    assert!(
        matches!(&error, Error::Damaged { why, .. } if why.contains(id)),
        "{error:?}"
    );
    assert!(fs::read(&copy).is_ok_and(|kept| kept == good));
    assert_whole_backup(&place);
    let options = OpenOptions {
        access: strongroom::Access::ReadOnly,
        ..copied()
    };
    let backup = Vault::open(&target, place.secret.clone(), options).unwrap();
    assert_eq!(backup.read("/new").unwrap(), b"new");
}

/// Goal: a backup has as much of a damaged segment as there is. Method: the segment is in the backup as far as it was written then, and is
/// damaged behind that. Failed before: the short copy stayed, and all that was written since was in no backup.
#[test]
fn a_segment_that_is_damaged_behind_what_the_backup_has_is_copied() {
    let (place, vault) = Place::new();
    vault.write("/file", content(1 << 20, 1)).unwrap();
    let target = place.directory.path().join("backup");
    back_up(&vault, &target).unwrap();
    vault.write("/other", content(3 << 20, 2)).unwrap();
    vault.sync().unwrap();
    let len = |path: &Path| fs::metadata(path).unwrap().len();
    let segment = place.segments().pop().unwrap();
    let copy = target.join(segment.strip_prefix(place.folder()).unwrap());
    let (before, now) = (len(&copy), len(&segment));
    assert!(before < now);
    let at = before + 100_000;
    let mut both = fs::OpenOptions::new();
    let file = both.read(true).write(true).open(&segment).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    let error = back_up(&vault, &target).unwrap_err();
    assert!(matches!(&error, Error::Damaged { .. }), "{error:?}");
    let copied = fs::read(&copy).unwrap();
    assert!(copied.len() as u64 >= now);
    assert!(fs::read(&segment).unwrap().starts_with(&copied));
}

/// Goal: what a repair had to give up can still come from a backup. Failed before: the next backup removed it there too.
#[test]
fn a_backup_after_a_repair_keeps_what_the_vault_lost() {
    let (place, segment, copy) = backed_up();
    let good = fs::read(&segment).unwrap();
    fs::remove_file(&segment).unwrap();
    let repair = || {
        let options = strongroom::RepairOptions::default();
        strongroom::repair(place.folder(), &place.secret, options, &mut |_| {}).unwrap()
    };
    assert!(repair().lost_blocks > 0);
    let vault = place.open();
    let target = place.directory.path().join("backup");
    back_up(&vault, &target).unwrap();
    vault.close().unwrap();
    assert!(fs::read(&copy).is_ok_and(|kept| kept == good));
    fs::copy(&copy, &segment).unwrap();
    let report = repair();
    assert!(report.is_whole(), "{report:?}");
    let vault = place.open();
    assert!(vault.read("/file").unwrap() == content(2 << 20, 1));
    // Nothing is lost any more: what the vault has no more goes.
    assert!(back_up(&vault, &target).unwrap().removed > 0);
}

/// Goal: no backup loses what the owner keeps for it. Method: a second one begins while the first reports its progress.
/// Failed before: the second took the place of the first at the owner. Segments could go from the vault before the first had copied
/// them, and the end of the first removed the records of snapshots from its folder; it said that all was well.
#[test]
fn a_second_backup_through_one_opened_vault_is_refused_until_the_first_has_ended() {
    let (place, vault) = Place::new();
    vault.write("/file", content(1 << 20, 1)).unwrap();
    let first = place.directory.path().join("first");
    let second = place.directory.path().join("second");
    let clone = vault.clone();
    let mut refused = 0;
    let mut told = |_: &BackupProgress| {
        let error = back_up(&clone, &second).unwrap_err();
        assert!(matches!(error, Error::BackupTarget(_)), "{error:?}");
        refused += 1;
        GoOn::Yes
    };
    vault.backup(&first, &mut told).unwrap();
    assert!(refused > 0 && !second.exists());
    back_up(&vault, &second).unwrap();
}

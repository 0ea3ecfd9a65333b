//! A limit for the content on a device: what was least recently read goes at a sync, and nothing that has to stay.

use std::fs::{self, FileTimes};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use strongroom::filesystem::limits::JUST_READ_SEGMENTS;
use strongroom::{GoOn, Vault};

use super::evict::{assert_sound, open_copy};
use super::{Devices, NAME, content, copy_folder};

/// Each file is in a segment of its own, which is not small enough to be joined with others.
const FILE_BYTES: usize = 1_200_000;

const FILE: u64 = FILE_BYTES as u64;

const FILES: u64 = 20;

fn name(number: u64) -> String {
    format!("/part{number}")
}

fn write(vault: &Vault, number: u64) {
    vault
        .write(&*name(number), content(FILE_BYTES, 100 + number))
        .unwrap();
    vault.filesystem().unwrap().end_segments().unwrap();
}

fn fill_parts(vault: &Vault) {
    (0..FILES).for_each(|number| write(vault, number));
}

fn is_right(vault: &Vault, number: u64) -> bool {
    vault.read(&*name(number)).unwrap() == content(FILE_BYTES, 100 + number)
}

fn here(vault: &Vault) -> u64 {
    vault.information().unwrap().here_bytes
}

fn away(vault: &Vault) -> u64 {
    vault.information().unwrap().away_bytes
}

/// Takes the remote away while `work` runs.
fn without_remote<T>(devices: &Devices, work: impl FnOnce() -> T) -> T {
    let [remote, hidden] =
        ["remote", "hidden"].map(|name| devices.place.directory.path().join(name));
    fs::rename(&remote, &hidden).unwrap();
    let done = work();
    fs::rename(&hidden, &remote).unwrap();
    done
}

/// Goal: a sync keeps the limit, with room left for what is read next, evicts what was read least recently, and nothing beyond that.
#[test]
fn a_sync_evicts_what_was_least_recently_read_down_below_the_limit() {
    let devices = Devices::new(1, fill_parts);
    let vault = &devices.vaults[0];
    assert!(here(vault) > FILES * FILE);
    let limit = 15 * FILE;
    vault.set_keep_at_most(Some(limit)).unwrap();
    assert_eq!(vault.keep_at_most().unwrap(), Some(limit));
    assert_eq!(away(vault), 0, "it is the sync that evicts");
    let read = 3..3 + JUST_READ_SEGMENTS as u64;
    assert!(read.clone().all(|number| is_right(vault, number)));
    let report = devices.sync(0);
    assert!(report.evicted_segments > 0);
    assert!(report.evicted_bytes >= (FILES - 15) * FILE, "{report:?}");
    let after = here(vault);
    assert!((12 * FILE..limit - limit / 10).contains(&after), "{after}");
    without_remote(&devices, || {
        assert!(read.clone().all(|number| is_right(vault, number)));
    });
    assert_eq!(devices.sync(0).evicted_segments, 0);
    // Reading more than the limit fetches it, and the next sync evicts again.
    for _ in 0..2 {
        assert!((0..FILES).all(|number| is_right(vault, number)));
        assert!(here(vault) > limit);
        assert!(devices.sync(0).evicted_segments > 0);
        assert!(here(vault) < limit);
        // What was read last is here.
        let last = FILES - JUST_READ_SEGMENTS as u64..FILES;
        without_remote(&devices, || {
            assert!(last.clone().all(|number| is_right(vault, number)));
        });
    }
    assert_sound(vault);
}

/// Goal: of what this process has not read, what was used last stays. Method: the files of segments get times.
#[test]
fn what_was_used_last_before_the_vault_was_opened_stays() {
    let mut devices = Devices::new(1, fill_parts);
    devices.open_quietly(0);
    let segments = devices.folder(0).join("segments");
    // Nothing reads them: that would be a use.
    let large = || {
        let folders = fs::read_dir(&segments).unwrap();
        let folders = folders.map(|folder| folder.unwrap().path());
        let mut files: Vec<PathBuf> = folders
            .filter(|folder| folder.is_dir())
            .flat_map(|folder| fs::read_dir(folder).unwrap())
            .map(|file| file.unwrap().path())
            .filter(|file| fs::metadata(file).unwrap().len() > FILE)
            .collect();
        files.sort();
        files
    };
    let before = large();
    assert_eq!(before.len() as u64, FILES);
    for (file, day) in before.iter().zip(1..) {
        let file = fs::File::options().write(true).open(file).unwrap();
        let (early, late) = (
            UNIX_EPOCH,
            UNIX_EPOCH + Duration::from_secs(day * 24 * 60 * 60),
        );
        // The later of the two counts.
        let times = match day % 2 {
            0 => FileTimes::new().set_accessed(early).set_modified(late),
            _ => FileTimes::new().set_accessed(late).set_modified(early),
        };
        file.set_times(times).unwrap();
    }
    devices.vaults[0].set_keep_at_most(Some(15 * FILE)).unwrap();
    let report = devices.sync(0);
    let after = large();
    assert_eq!(after.len() as u64, FILES - report.evicted_segments);
    assert!(report.evicted_segments > 5, "{report:?}");
    assert_eq!(after[..], before[before.len() - after.len()..]);
}

/// Goal: however low the limit is, what is pinned, not pushed or was just read stays.
#[test]
fn what_is_pinned_not_pushed_or_just_read_stays_whatever_the_limit_is() {
    let devices = Devices::new(1, fill_parts);
    let vault = &devices.vaults[0];
    vault.pin("/part0", &mut |_| GoOn::Yes).unwrap();
    write(vault, FILES);
    vault.set_keep_at_most(Some(1)).unwrap();
    assert!(is_right(vault, 1));
    let report = vault.evict_to_limit(&mut |_| GoOn::Yes).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    assert_eq!(report.segments, FILES - 2);
    assert!(here(vault) > 3 * FILE);
    without_remote(&devices, || {
        assert!([0, 1, FILES].iter().all(|number| is_right(vault, *number)));
        assert!(vault.read(&*name(2)).is_err());
    });
    // Once it is pushed it may go: a sync does both.
    let report = devices.sync(0);
    assert_eq!(report.pushed.publications, 1);
    // It was read above, as one of the last.
    assert_eq!(report.evicted_segments, 0);
    vault.set_keep_at_most(None).unwrap();
    vault.set_keep_at_most(Some(1)).unwrap();
    assert_eq!(devices.sync(0).evicted_segments, 2);
    assert_eq!(devices.sync(0).evicted_segments, 0);
    without_remote(&devices, || assert!(is_right(vault, 0)));
    assert!((0..=FILES).all(|number| is_right(vault, number)));
    assert_sound(vault);
}

#[test]
fn without_its_remote_nothing_goes_and_the_next_sync_evicts() {
    let devices = Devices::new(1, fill_parts);
    let vault = &devices.vaults[0];
    vault.set_keep_at_most(Some(5 * FILE)).unwrap();
    without_remote(&devices, || {
        devices.try_sync(0).unwrap_err();
        let report = vault.evict_to_limit(&mut |_| GoOn::Yes).unwrap();
        assert_eq!(report.segments, 0);
        assert!(
            matches!(&report.problems[..], [one] if one.starts_with(NAME)),
            "{report:?}"
        );
        assert_eq!(away(vault), 0);
        assert!((0..FILES).all(|number| is_right(vault, number)));
    });
    // What the remote lost does not go, and keeps nothing else from going.
    let segments = devices.place.directory.path().join("remote/segments");
    let lost = fs::read_dir(&segments)
        .unwrap()
        .map(|one| one.unwrap().path());
    let lost = lost.max_by_key(|path| fs::metadata(path).unwrap().len());
    let lost = lost.unwrap();
    let bytes = fs::read(&lost).unwrap();
    fs::remove_file(&lost).unwrap();
    vault.set_keep_at_most(None).unwrap();
    vault.set_keep_at_most(Some(1)).unwrap();
    assert_eq!(devices.sync(0).evicted_segments, FILES - 1);
    fs::write(&lost, bytes).unwrap();
    assert_eq!(devices.sync(0).evicted_segments, 1);
    assert!((0..FILES).all(|number| is_right(vault, number)));
    assert_sound(vault);
}

/// Goal: the limit belongs to one copy of the vault, is there after it was opened again, and ends.
#[test]
fn a_limit_belongs_to_one_device_and_is_raised_and_removed() {
    let mut devices = Devices::new(2, fill_parts);
    devices.settle();
    devices.vaults[0].set_keep_at_most(Some(5 * FILE)).unwrap();
    devices.open_quietly(0);
    devices.settle();
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    assert_eq!(one.keep_at_most().unwrap(), Some(5 * FILE));
    assert!(here(one) <= 5 * FILE);
    assert_eq!((two.keep_at_most().unwrap(), away(two)), (None, 0));
    let all = |vault: &Vault| (0..FILES).all(|number| is_right(vault, number));
    for limit in [Some(30 * FILE), None] {
        one.set_keep_at_most(Some(5 * FILE)).unwrap();
        devices.sync(0);
        assert!(here(one) <= 5 * FILE || away(one) > 0);
        one.set_keep_at_most(limit).unwrap();
        assert!(all(one));
        assert_eq!(devices.sync(0).evicted_segments, 0);
        assert_eq!((one.keep_at_most().unwrap(), away(one)), (limit, 0));
    }
    // Nobody removes at the remote what the one device needs there.
    one.set_keep_at_most(Some(1)).unwrap();
    devices.sync(0);
    assert!(all(two) && all(one));
    devices.assert_same();
}

/// Goal: readers get what was written while a low limit evicts beside them, again and again.
#[test]
fn readers_beside_a_limit_read_what_was_written() {
    let devices = Devices::new(1, fill_parts);
    let vault = &devices.vaults[0];
    vault.set_keep_at_most(Some(2 * FILE)).unwrap();
    let mut evicted = 0;
    std::thread::scope(|scope| {
        let readers = [false, true].map(|backwards| {
            scope.spawn(move || {
                let place = |number| match backwards {
                    true => FILES - 1 - number,
                    false => number,
                };
                assert!((0..3 * FILES).all(|at| is_right(vault, place(at % FILES))));
            })
        });
        while readers.iter().any(|reader| !reader.is_finished()) {
            evicted += devices.sync(0).evicted_segments;
        }
    });
    evicted += devices.sync(0).evicted_segments;
    assert!(evicted >= FILES - JUST_READ_SEGMENTS as u64, "{evicted}");
    assert!((0..FILES).all(|number| is_right(vault, number)));
    assert_sound(vault);
}

/// Method: the folder is copied before the files go, after that, and with the files back whose removal was not durable.
#[test]
fn killed_while_it_keeps_its_limit_a_device_has_lost_nothing() {
    let devices = Devices::new(1, fill_parts);
    let vault = &devices.vaults[0];
    vault.set_keep_at_most(Some(3 * FILE)).unwrap();
    let folder = devices.folder(0);
    let place = |name: &str| devices.place.directory.path().join(name);
    let mut copies = vec![place("before")];
    copy_folder(&folder, &copies[0]);
    let report = vault.evict_to_limit(&mut |_| {
        let to = place(&format!("during{}", copies.len()));
        copy_folder(&folder, &to);
        copies.push(to);
        GoOn::Yes
    });
    assert!(report.unwrap().segments > 0);
    for name in ["after", "back"] {
        copies.push(place(name));
        copy_folder(&folder, &place(name));
    }
    copy_folder(
        &place("before").join("segments"),
        &place("back").join("segments"),
    );
    assert!(copies.len() > 3);
    for folder in &copies {
        let vault = open_copy(&devices, folder);
        assert_eq!(vault.keep_at_most().unwrap(), Some(3 * FILE));
        assert_sound(&vault);
        assert!((0..FILES).all(|number| is_right(&vault, number)));
        vault.close().unwrap();
    }
}

/// Goal: what somebody pins while a limit evicts is here afterwards. Method: the pin comes after the segments were chosen, and before the first
/// of them goes.
#[test]
fn what_is_pinned_while_a_limit_evicts_is_here_afterwards() {
    let devices = Devices::new(1, fill_parts);
    let vault = &devices.vaults[0];
    vault.set_keep_at_most(Some(1)).unwrap();
    let mut is_pinned = false;
    let report = vault.evict_to_limit(&mut |_| {
        if !is_pinned {
            is_pinned = true;
            let brought = vault.pin(&*name(0), &mut |_| GoOn::Yes).unwrap();
            assert_eq!(brought.segments, 0, "nothing has gone yet");
        }
        GoOn::Yes
    });
    assert_eq!(report.unwrap().problems, [""; 0]);
    assert!(away(vault) >= FILE);
    without_remote(&devices, || assert!(is_right(vault, 0)));
    assert_sound(vault);
}

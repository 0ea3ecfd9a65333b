//! What a device knows of a remote without asking it.

use std::fs;

use strongroom::filesystem::RenameMode;
use strongroom::{CLONED_FROM, GoOn, NewRevision, RemoteStatus, Vault};
use strongroom_metadata::Remote;
use strongroom_sync::RemoteState;

use crate::support::content;
use crate::{Devices, NAME};

fn status(devices: &Devices, number: usize) -> RemoteStatus {
    let name = if number == 0 { NAME } else { CLONED_FROM };
    devices.vaults[number].remote_status(name).unwrap()
}

/// Who published what and when, as a device knows it.
fn newest(status: &RemoteStatus) -> Vec<(String, u64, u64)> {
    let newest = status.newest.iter();
    let fields = newest.map(|one| (one.device.clone(), one.number, one.time_s));
    fields.collect()
}

/// Goal: while its remote is out of reach, a device knows what waits for it, and the newest publication of each device; two devices in step know
/// the same, also one that cloned, and know it after they were opened again. Method: the folder of the remote has another name meanwhile.
#[test]
fn what_waits_and_who_published_is_known_without_the_remote() {
    let mut devices = Devices::new(2, |vault| {
        vault.make_directory("/letters", 0o755).unwrap();
        vault.write("/letters/kept", "kept").unwrap();
        vault.write("/gone", "gone").unwrap();
    });
    devices.open_quietly(0);
    devices.open_quietly(1);
    devices.settle();
    let remote = devices.place.directory.path().join("remote");
    let hidden = devices.place.directory.path().join("hidden");
    fs::rename(&remote, &hidden).unwrap();
    let (one, two) = (status(&devices, 0), status(&devices, 1));
    for rest in [&one, &two] {
        assert!(!rest.is_waiting, "{rest:?}");
        let waiting = (rest.waiting_bytes, rest.waiting_files);
        assert_eq!(waiting, (0, Some(0)), "{rest:?}");
        assert_eq!((rest.away_bytes, rest.alone_bytes), (0, 0));
        assert!(rest.contact_s.is_some());
        let own = rest.newest.iter().filter(|one| one.is_this);
        assert_eq!((own.count(), rest.newest.len()), (1, 2), "{rest:?}");
        assert_eq!(rest.newest[0].number, rest.remote.publications);
    }
    assert_eq!(newest(&one), newest(&two));
    let own = |status: &RemoteStatus| {
        let mut all = status.newest.iter();
        all.find(|one| one.is_this).unwrap().device.clone()
    };
    assert_ne!(own(&one), own(&two));
    // New, changed, and elsewhere; in a snapshot or not.
    let vault = &devices.vaults[0];
    vault.write("/new", content(100_000, 1)).unwrap();
    vault.write("/letters/kept", "changed").unwrap();
    let waits = status(&devices, 0);
    assert!(waits.is_waiting && waits.waiting_bytes > 99_000);
    assert_eq!(waits.waiting_files, Some(2));
    vault.take_revision(&NewRevision::default()).unwrap();
    assert_eq!(status(&devices, 0).waiting_files, Some(2));
    vault
        .rename("/gone", "/moved", RenameMode::Replace)
        .unwrap();
    assert_eq!(status(&devices, 0).waiting_files, Some(3));
    assert_eq!(newest(&status(&devices, 0)), newest(&one));
    fs::rename(&hidden, &remote).unwrap();
    devices.settle();
    // A removal waits, and no file.
    devices.vaults[0].remove_file("/moved").unwrap();
    let waits = status(&devices, 0);
    assert_eq!((waits.is_waiting, waits.waiting_files), (true, Some(0)));
    devices.settle();
    let before = newest(&status(&devices, 0));
    devices.open_quietly(0);
    let after = status(&devices, 0);
    assert_eq!(newest(&after), before);
    assert!(after.contact_s.is_some());
}

/// Goal: what waits is known while a snapshot is taken. Method: the turn of snapshots is held. Failed before: it waited until the turn ended.
#[test]
fn what_waits_is_known_while_a_snapshot_is_taken() {
    let devices = Devices::new(1, |vault| vault.write("/kept", "kept").unwrap());
    devices.vaults[0].write("/new", "new").unwrap();
    let filesystem = devices.vaults[0].filesystem().unwrap();
    let turn = filesystem.hold_revisions();
    let waits = status(&devices, 0);
    drop(turn);
    assert_eq!((waits.is_waiting, waits.waiting_files), (true, Some(1)));
}

/// Goal: content that is not here counts for each remote that has it, and as only there if no other has it.
#[test]
fn what_is_only_at_a_remote_is_known_of_each() {
    let devices = Devices::new(1, |vault| {
        vault.write("/big", content(1 << 20, 1)).unwrap();
    });
    let vault = &devices.vaults[0];
    let evict = || vault.evict(None, &mut |_| GoOn::Yes).unwrap();
    evict();
    let alone = status(&devices, 0);
    assert!(alone.away_bytes > 1_000_000, "{alone:?}");
    assert_eq!(alone.alone_bytes, alone.away_bytes);
    let other = devices.place.directory.path().join("other");
    fs::create_dir(&other).unwrap();
    let address = format!("folder:{}", other.display());
    vault.add_remote("other", &address).unwrap();
    assert_eq!(vault.remote_status("other").unwrap().away_bytes, 0);
    vault.push("other", &mut |_| GoOn::Yes).unwrap();
    devices.sync(0);
    evict();
    for name in [NAME, "other"] {
        let status = vault.remote_status(name).unwrap();
        assert!(status.away_bytes > 1_000_000, "{status:?}");
        assert_eq!(status.alone_bytes, 0, "{status:?}");
    }
    assert!(vault.remote_status("none").is_err());
}

/// What is stored of the first remote.
fn stored(vault: &Vault) -> (Remote, RemoteState) {
    let filesystem = vault.filesystem().unwrap();
    let row = filesystem.engine().reader().unwrap().remotes().unwrap();
    let row = row.into_iter().next().unwrap();
    let state = RemoteState::decode(&row.state).unwrap();
    (row, state)
}

/// Goal: a pull that finds nothing stores that the remote answered once an hour and no more. Method: the stored time is put back.
#[test]
fn a_pull_that_finds_nothing_stores_the_contact_once_an_hour() {
    let mut devices = Devices::new(1, |_| {});
    devices.open_quietly(0);
    let vault = &devices.vaults[0];
    let pull = || vault.pull(NAME, &mut |_| GoOn::Yes).unwrap();
    for (earlier_s, is_stored) in [(30 * 60, false), (2 * 60 * 60, true)] {
        let (row, state) = stored(vault);
        let put_back = RemoteState {
            contact_s: state.contact_s - earlier_s,
            ..state
        };
        let changed = Remote {
            state: put_back.encode(),
            ..row
        };
        let filesystem = vault.filesystem().unwrap();
        filesystem
            .change_remotes(|writer| writer.put_remote(&changed))
            .unwrap();
        drop(filesystem);
        pull();
        let after = stored(vault).1.contact_s;
        assert_eq!(after > put_back.contact_s, is_stored, "{earlier_s}");
        assert!(status(&devices, 0).contact_s > Some(put_back.contact_s));
    }
}

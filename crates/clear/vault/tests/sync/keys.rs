//! Keys that change, and devices that are removed, while devices sync: no device is held up, and no removed device comes back.

use std::fs;
use std::path::{Path, PathBuf};

use strongroom::{
    AddKey, CLONED_FROM, CloneOptions, Error, GoOn, Guessable, Keys, NewKey, NewRevision,
    OpenOptions, RecoveryCode, Secret, SystemRandom, Vault, VerifyOptions, clone,
};

use crate::support::{content, copy_folder};
use crate::{Devices, NAME, fill, tree};

/// Goal: keys that one device changes reach the others, and nothing that is sealed under the old ones is lost.
#[test]
fn a_change_of_keys_reaches_every_device() {
    let devices = Devices::new(2, fill);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    devices.settle();
    two.write("/unpushed", content(500_000, 9)).unwrap();
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    keys.rotate().unwrap();
    drop(keys);
    one.write("/under new keys", b"new").unwrap();
    // What is sealed under old keys is sealed again before it is published, on each device.
    for number in [0, 1, 0, 1, 0, 1] {
        devices.sync_once_sealed(number);
    }
    let has_old = |vault: &Vault| {
        let rotation = vault.rotation().unwrap();
        rotation.oldest_epoch != rotation.newest_epoch
    };
    let mut tries = 0;
    while devices.vaults.iter().any(has_old) {
        tries += 1;
        assert!(tries < 1_000);
        std::thread::sleep(std::time::Duration::from_millis(20));
        for number in 0..2 {
            let _ = devices.try_sync(number);
        }
    }
    devices.settle();
    devices.assert_same();
    assert_eq!(one.read("/unpushed").unwrap(), content(500_000, 9));
    assert_eq!(two.read("/under new keys").unwrap(), b"new");
}

/// Seals again what a change of keys has left to be sealed again, and forgets the old keys if nothing needs them any more.
fn seal_again(devices: &Devices, number: usize) {
    while devices.vaults[number].rotate_step().unwrap() {}
}

/// Lets a device sync until it is done with what it has to seal again.
fn sync_patiently(devices: &Devices, number: usize) {
    for _ in 0..16 {
        match devices.try_sync(number) {
            Err(Error::KeysInUse) => seal_again(devices, number),
            done => {
                done.unwrap();
                return;
            }
        }
    }
    panic!("keys are in use for ever");
}

/// Lets a device, in which nothing works by itself, forget its old keys: what it sealed again is published first, where it was not.
fn forget_old_keys(devices: &Devices, number: usize) {
    let has_old = || {
        let rotation = devices.vaults[number].rotation().unwrap();
        rotation.oldest_epoch != rotation.newest_epoch
    };
    seal_again(devices, number);
    if has_old() {
        sync_patiently(devices, number);
        seal_again(devices, number);
    }
    assert!(!has_old(), "old keys stay for ever");
}

/// Goal: a device that comes late reads what was published under keys that are gone since. Method: the other publishes, rotates,
/// publishes under both, forgets, and publishes that.
#[test]
fn a_device_that_comes_after_old_keys_are_gone_pulls_what_was_published_under_them() {
    let mut devices = Devices::new(2, fill);
    devices.open_quietly(0);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    devices.settle();
    two.write("/unpushed", content(50_000, 7)).unwrap();
    for turn in 0..2 {
        let path = format!("/under keys {turn}");
        one.write(&*path, content(60_000, 60 + turn)).unwrap();
        devices.sync(0);
        let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
        keys.rotate().unwrap();
        drop(keys);
        sync_patiently(&devices, 0);
        forget_old_keys(&devices, 0);
        one.write("/newest", [turn as u8]).unwrap();
        sync_patiently(&devices, 0);
    }
    sync_patiently(&devices, 1);
    assert_eq!(two.read("/under keys 1").unwrap(), content(60_000, 61));
    for number in [0, 1, 0] {
        sync_patiently(&devices, number);
    }
    assert_eq!(one.read("/unpushed").unwrap(), content(50_000, 7));
    devices.assert_same();
}

/// Goal: what was said of guessing, and published, keeps nobody from following a change of keys that knew nothing of it: that header
/// has more records, and the lower generation. Seen failing: before, devices that looked for keys passed over such a header.
#[test]
fn keys_that_were_changed_beside_what_was_published_of_guessing_are_found() {
    for said in [2, 3] {
        let devices = Devices::new(2, fill);
        devices.settle();
        let keys = |number| Keys::open(devices.folder(number), &devices.place.secret).unwrap();
        for time in 0..said {
            let wish = [Guessable::Yes, Guessable::No][time % 2];
            assert!(keys(0).set_guessable(wish).unwrap());
        }
        devices.sync(0);
        keys(1).rotate().unwrap();
        devices.vaults[1].write("/under new keys", b"new").unwrap();
        for number in [1, 0, 1, 0, 1] {
            sync_patiently(&devices, number);
        }
        devices.assert_same();
        assert_eq!(devices.vaults[0].read("/under new keys").unwrap(), b"new");
        for vault in &devices.vaults {
            assert_eq!(vault.information().unwrap().guessable, said % 2 == 1);
        }
    }
}

/// Goal: that a device forgets old keys by itself is no change of keys that stands against one of a person. Method: a clone is made
/// before the other device says that it forgot.
#[test]
fn a_device_that_joins_while_another_forgets_old_keys_holds_nobody_up() {
    let mut devices = Devices::new(1, fill);
    devices.open_quietly(0);
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    keys.rotate().unwrap();
    drop(keys);
    sync_patiently(&devices, 0);
    forget_old_keys(&devices, 0);
    devices.add(1);
    sync_patiently(&devices, 0);
    for number in [1, 0, 1] {
        sync_patiently(&devices, number);
    }
    forget_old_keys(&devices, 0);
    devices.assert_same();
}

/// Goal: a vault comes back from its remote although the last push was cut off between its header, which lacks keys of before, and its
/// publication. Method: that publication is taken away from the remote.
#[test]
fn a_push_that_was_cut_off_behind_its_header_keeps_nobody_from_cloning() {
    let mut devices = Devices::new(1, fill);
    devices.open_quietly(0);
    let before = tree(&devices.vaults[0]);
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    keys.rotate().unwrap();
    drop(keys);
    let remote = devices.place.directory.path().join("remote");
    let count = |kind: &str| fs::read_dir(remote.join(kind)).unwrap().count();
    let headers = count("headers");
    sync_patiently(&devices, 0);
    forget_old_keys(&devices, 0);
    assert_eq!(count("headers"), headers + 1);
    let published = count("publications");
    sync_patiently(&devices, 0);
    assert_eq!(count("headers"), headers + 2);
    let publications = fs::read_dir(remote.join("publications")).unwrap();
    let mut publications: Vec<_> = publications.map(|one| one.unwrap().path()).collect();
    publications.sort();
    assert!(publications.len() > published);
    for cut in &publications[published..] {
        fs::remove_file(cut).unwrap();
    }
    let folder = devices.folder(1);
    let secret = &devices.place.secret;
    let cloned = clone(
        &devices.address(),
        &folder,
        secret,
        CloneOptions::default(),
        &mut |_| GoOn::Yes,
    );
    cloned.unwrap();
    let cloned = Vault::open(&folder, secret.clone(), OpenOptions::default()).unwrap();
    assert_eq!(tree(&cloned), before);
}

/// Goal: a remote cannot let a newcomer fall back to members of before a removal. Method: it withholds the header of the removal and
/// what was published since, and leaves the newest header, which lacks the keys of before.
#[test]
fn a_clone_does_not_use_a_header_from_before_a_device_was_removed() {
    let mut devices = Devices::new(2, fill);
    devices.open_quietly(0);
    devices.settle();
    let remote = devices.place.directory.path().join("remote");
    let names = |kind: &str| {
        let listed = fs::read_dir(remote.join(kind)).unwrap();
        let listed = listed.map(|one| one.unwrap().path());
        listed.collect::<std::collections::BTreeSet<_>>()
    };
    let (headers, publications) = (names("headers"), names("publications"));
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    let members = devices.vaults[0].information().unwrap().members;
    let removed = members.iter().find(|one| one.is_device && !one.is_this);
    keys.remove_device(&removed.unwrap().id).unwrap();
    keys.rotate().unwrap();
    drop(keys);
    sync_patiently(&devices, 0);
    forget_old_keys(&devices, 0);
    sync_patiently(&devices, 0);
    let newest = names("headers").pop_last().unwrap();
    for new in names("publications").difference(&publications) {
        fs::remove_file(new).unwrap();
    }
    for new in names("headers").difference(&headers) {
        if *new != newest {
            fs::remove_file(new).unwrap();
        }
    }
    let (folder, secret) = (devices.folder(2), &devices.place.secret);
    let options = CloneOptions::default();
    let cloned = clone(&devices.address(), &folder, secret, options, &mut |_| {
        GoOn::Yes
    });
    let error = cloned.unwrap_err();
    assert!(error.to_string().contains("does not open"), "{error}");
    assert!(!folder.exists());
}

/// Goal: a push finds out that another device changed keys, and says that a sync is needed, not that the remote lies. Method: nothing
/// is pulled between the change and the push; and a sync gets over it by itself.
#[test]
fn a_push_after_another_device_changed_keys_asks_for_a_sync() {
    let devices = Devices::new(2, fill);
    devices.settle();
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    keys.rotate().unwrap();
    drop(keys);
    sync_patiently(&devices, 0);
    let two = &devices.vaults[1];
    two.write("/mine", b"mine").unwrap();
    let refused = two.push(CLONED_FROM, &mut |_| GoOn::Yes).unwrap_err();
    assert!(matches!(refused, Error::RemoteAhead), "{refused}");
    sync_patiently(&devices, 1);
    sync_patiently(&devices, 0);
    assert!(devices.assert_same().contains_key("/mine"));
}

/// Goal: of two headers of one generation a clone uses the one whose records go on from those of the other, whatever they are called: a
/// device may have forgotten old keys while another changed them. Method: the header of before gets a name behind the newest.
#[test]
fn a_clone_takes_the_header_that_goes_on_from_the_other_of_its_generation() {
    let devices = Devices::new(1, fill);
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    keys.rotate().unwrap();
    drop(keys);
    sync_patiently(&devices, 0);
    let headers = devices.place.directory.path().join("remote/headers");
    let names = fs::read_dir(&headers).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    let (before, newest) = (&names[0], &names[names.len() - 1]);
    let misleading = format!("{}-{}", &newest[..16], "f".repeat(64));
    fs::copy(headers.join(before), headers.join(misleading)).unwrap();
    let cloned = clone(
        &devices.address(),
        devices.folder(1),
        &devices.place.secret,
        CloneOptions::default(),
        &mut |_| GoOn::Yes,
    );
    assert!(cloned.is_ok(), "{cloned:?}");
}

/// Removes all snapshots of a vault but one that is taken now.
fn forget_the_past(vault: &Vault) {
    vault.take_revision(&NewRevision::default()).unwrap();
    let mut revisions = vault.revisions().unwrap();
    revisions.sort_by_key(|revision| revision.time);
    revisions.pop();
    for revision in revisions {
        vault.remove_revision(revision.id).unwrap();
    }
}

/// Goal: what one device needs still is not lost with the keys that another forgets. Method: one has let go of content that two has in
/// a snapshot, under the old keys, and forgets them if it may; then two gives a file that content again.
#[test]
fn old_keys_stay_until_nothing_at_the_remote_is_under_them() {
    let mut devices = Devices::new(2, fill);
    devices.settle();
    devices.open_quietly(0);
    devices.open_quietly(1);
    let (one, two) = (&devices.vaults[0], &devices.vaults[1]);
    two.write("/second", content(60_000, 7)).unwrap();
    devices.settle();
    one.remove_file("/second").unwrap();
    forget_the_past(one);
    devices.settle();
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    keys.rotate().unwrap();
    drop(keys);
    sync_patiently(&devices, 0);
    two.pull(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    one.filesystem().unwrap().tick().unwrap();
    seal_again(&devices, 0);
    two.write("/again", content(60_000, 7)).unwrap();
    devices.sync(1);
    let synced = devices.try_sync(0);
    assert!(synced.is_ok(), "{synced:?}");
    assert_eq!(one.read("/again").unwrap(), content(60_000, 7));
    for number in [0, 1, 0, 1, 0, 1] {
        seal_again(&devices, number);
        sync_patiently(&devices, number);
    }
    for vault in &devices.vaults {
        let rotation = vault.rotation().unwrap();
        assert_eq!(rotation.oldest_epoch, rotation.newest_epoch);
    }
    devices.assert_same();
}

/// Goal: a snapshot that one device removed does not come back there when keys change, although its record is sealed again on another.
#[test]
fn a_snapshot_that_was_let_go_does_not_come_back_under_new_keys() {
    let mut devices = Devices::new(2, fill);
    devices.settle();
    devices.open_quietly(0);
    devices.open_quietly(1);
    let (one, two) = (&devices.vaults[0], &devices.vaults[1]);
    forget_the_past(one);
    devices.settle();
    let kept = one.revisions().unwrap().len();
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    keys.rotate().unwrap();
    drop(keys);
    for _ in 0..3 {
        for number in 0..2 {
            seal_again(&devices, number);
            sync_patiently(&devices, number);
        }
    }
    assert_eq!(one.revisions().unwrap().len(), kept);
    assert!(two.revisions().unwrap().len() > kept);
    devices.assert_same();
}

/// Goal: what a publication names as the newest state is there, also if another device removed that snapshot. Method: one removes the
/// snapshot that both had last, and has another of the same state; two has nothing newer, and publishes new keys.
#[test]
fn the_newest_state_is_published_again_although_it_was_let_go() {
    let mut devices = Devices::new(2, fill);
    devices.open_quietly(1);
    let one = &devices.vaults[0];
    for _ in 0..2 {
        one.take_revision(&NewRevision::default()).unwrap();
    }
    devices.settle();
    let revisions = one.revisions().unwrap();
    let newest = revisions.iter().max_by_key(|revision| revision.time);
    one.remove_revision(newest.unwrap().id).unwrap();
    devices.settle();
    let mut keys = Keys::open(devices.folder(1), &devices.place.secret).unwrap();
    keys.rotate().unwrap();
    drop(keys);
    sync_patiently(&devices, 1);
    seal_again(&devices, 1);
    sync_patiently(&devices, 1);
    sync_patiently(&devices, 0);
    for number in [1, 0, 1, 0] {
        sync_patiently(&devices, number);
    }
    devices.assert_same();
}

/// The headers in the folder of a remote, oldest first.
fn headers_in(remote: &Path) -> Vec<PathBuf> {
    let headers = fs::read_dir(remote.join("headers")).unwrap();
    let mut headers: Vec<PathBuf> = headers.map(|header| header.unwrap().path()).collect();
    headers.sort();
    headers
}

/// Pushes to a remote until nothing under old keys keeps that from ending.
fn push_patiently(devices: &Devices, number: usize, remote: &str) {
    for _ in 0..16 {
        match devices.vaults[number].push(remote, &mut |_| GoOn::Yes) {
            Err(Error::KeysInUse) => seal_again(devices, number),
            done => {
                done.unwrap();
                return;
            }
        }
    }
    panic!("keys are in use for ever");
}

/// Three devices, of which the first two have changed keys, each by itself, and one has published that. The header of the other, which came
/// too late, lies at the remote, too. Gives the one that has published. `late_is_first`: the name of the late header comes first.
fn with_late_header(change: fn(&mut Keys), late_is_first: bool) -> (Devices, usize) {
    let mut devices = Devices::new(3, |vault| vault.write("/file", b"at first").unwrap());
    devices.settle();
    let top = devices.place.directory.path().to_owned();
    let mut made: Vec<(PathBuf, usize)> = Vec::new();
    for number in 0..2 {
        devices.open_quietly(number);
        let mut keys = Keys::open(devices.folder(number), &devices.place.secret).unwrap();
        change(&mut keys);
        drop(keys);
        let vault = &devices.vaults[number];
        let path = format!("/of {number}");
        vault.write(&*path, b"new").unwrap();
        // What it would push as its header is found at a remote of its own.
        let own = top.join(format!("own{number}"));
        fs::create_dir(&own).unwrap();
        let address = format!("folder:{}", own.display());
        vault.add_remote("own", &address).unwrap();
        push_patiently(&devices, number, "own");
        made.push((headers_in(&own).pop().unwrap(), number));
    }
    made.sort_by_key(|(header, _)| header.file_name().map(ToOwned::to_owned));
    let [first, second] = &made[..] else { panic!() };
    let (late, (_, publisher)) = match late_is_first {
        true => (&first.0, second),
        false => (&second.0, first),
    };
    sync_patiently(&devices, *publisher);
    let remote = top.join("remote");
    let late_there = remote.join("headers").join(late.file_name().unwrap());
    fs::copy(late, late_there).unwrap();
    let names = |headers: &[PathBuf]| -> Vec<_> {
        headers
            .iter()
            .map(|header| header.file_name().unwrap().to_owned())
            .collect()
    };
    let both: Vec<PathBuf> = made.iter().map(|(header, _)| header.clone()).collect();
    let there = names(&headers_in(&remote));
    assert!(there.ends_with(&names(&both)), "{there:?}");
    (devices, *publisher)
}

/// Changes keys, as somebody does who removes one.
fn new_keys(keys: &mut Keys) {
    keys.rotate().unwrap();
}

/// Changes who opens the vault, under the same keys.
fn new_slot(keys: &mut Keys) {
    let code = RecoveryCode::random(&SystemRandom).unwrap();
    keys.add("one more", AddKey::Other(NewKey::RecoveryCode(code)))
        .unwrap();
}

/// Goal: of two headers that were made at the same time, the one that was published is followed, whatever they are called: by a clone, and by
/// a device that has neither. Method: the header of a push that came too late is put beside the published one, with a name before or
/// behind it; under new keys, which the publication needs, and under the same.
/// Failed before: a device took the one whose name came first, a clone the one whose name came last, and had keys of its own for ever; under
/// new keys nothing opened that had been published.
#[test]
fn a_header_that_came_too_late_is_followed_by_nobody() {
    for change in [new_keys as fn(&mut Keys), new_slot] {
        for late_is_first in [true, false] {
            let (mut devices, publisher) = with_late_header(change, late_is_first);
            let path = format!("/of {publisher}");
            let (folder, secret) = (devices.folder(3), devices.place.secret.clone());
            let options = CloneOptions::default();
            let cloned = clone(&devices.address(), &folder, &secret, options, &mut |_| {
                GoOn::Yes
            });
            assert!(cloned.is_ok(), "late first: {late_is_first}: {cloned:?}");
            let newcomer = Vault::open(folder, secret, OpenOptions::default()).unwrap();
            assert_eq!(newcomer.read(&*path).unwrap(), b"new");
            devices.vaults.push(newcomer);
            for number in [2, 3, publisher, 2, 3] {
                sync_patiently(&devices, number);
            }
            let expected = tree(&devices.vaults[publisher]);
            assert!(expected.contains_key(&path));
            for number in [2, 3] {
                assert_eq!(tree(&devices.vaults[number]), expected, "{number}");
            }
        }
    }
}

/// Goal: a key that one device removed is out at another one, too, once that one was replaced; until then both say so. Method: someone who
/// had the key kept the folder of the second device. Failed before: no device said anything, and nothing told how to close it.
/// SECURITY.md, claim 5.
#[test]
fn a_removed_key_is_out_at_another_device_once_that_is_replaced() {
    let mut devices = Devices::new(2, fill);
    devices.settle();
    let code = RecoveryCode::random(&SystemRandom).unwrap();
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    keys.add("his", AddKey::Other(NewKey::RecoveryCode(code.clone())))
        .unwrap();
    let slots = keys.slots();
    let his = slots.iter().find(|slot| slot.label == "his").unwrap().id;
    drop(keys);
    devices.settle();
    for vault in &devices.vaults {
        vault.accept_records().unwrap();
    }
    devices.vaults[1].close().unwrap();
    let kept = devices.place.directory.path().join("kept");
    copy_folder(&devices.folder(1), &kept);
    devices.open_quietly(1);
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    keys.remove(his).unwrap();
    assert_eq!(keys.other_devices().len(), 1);
    drop(keys);
    sync_patiently(&devices, 0);
    sync_patiently(&devices, 1);
    let said = |device: usize| {
        devices.vaults[device]
            .information()
            .unwrap()
            .unknown_records
    };
    assert!(
        said(1)[0].contains("`strongroom device remove` here without an id"),
        "{:?}",
        said(1)
    );
    assert!(
        devices.vaults[1]
            .verify(VerifyOptions::default(), &mut |_| GoOn::Yes)
            .is_ok()
    );
    let old = fs::read(kept.join("replica.json")).unwrap();
    let header = |device: usize| fs::read(devices.folder(device).join("vault.json")).unwrap();
    // With the keys of the second device, which he has, he opens what the remover sealed since.
    let reads = |header: &[u8]| acts_as(&kept, &old, header, &Secret::RecoveryCode(code.clone()));
    assert!(reads(&header(0)), "the second device is still a member");
    let mut keys = Keys::open(devices.folder(1), &devices.place.secret).unwrap();
    keys.renew_device().unwrap();
    drop(keys);
    assert!(!said(1)[0].contains("without an id"), "{:?}", said(1));
    sync_patiently(&devices, 1);
    sync_patiently(&devices, 0);
    for device in 0..2 {
        assert!(!reads(&header(device)), "device {device}");
    }
    devices.settle();
    devices.assert_same();
}

/// Whether the device in the replica file `old`, which `secret` opened with the header in `kept`, opens the newest keys of `header`.
fn acts_as(kept: &Path, old: &[u8], header: &[u8], secret: &Secret) -> bool {
    let own = fs::read(kept.join("vault.json")).unwrap();
    let mut keyring = strongroom_crypto::unlock(&own, secret, None).unwrap();
    let replica = keyring.open_replica(old).unwrap();
    keyring.act_as(&replica).unwrap();
    keyring.follow(header).is_ok()
}

/// Goal: after a rotation nothing of the folder is sealed under an earlier key, nor what an interrupted pull brought from a remote that was
/// removed since. Method: the pull is stopped after its first object; for the second half, what had come is put back as an earlier version
/// left it. Failed before: the folder `incoming` stayed for ever, under the keys of its time.
/// SECURITY.md, claim 6.
#[test]
fn what_came_from_a_remote_that_was_removed_does_not_stay_under_keys_that_go() {
    let mut devices = Devices::new(2, fill);
    devices.settle();
    let two = &devices.vaults[1];
    for number in 0..3 {
        two.write(format!("/new{number}"), content(3 << 20, 40 + number))
            .unwrap();
        devices.sync(1);
    }
    devices.open_quietly(0);
    let one = &devices.vaults[0];
    let mut steps = 0;
    let stopped = one.pull(NAME, &mut |_| {
        steps += 1;
        match steps {
            1 => GoOn::Yes,
            _ => GoOn::No,
        }
    });
    assert!(matches!(stopped, Err(Error::RemoteStopped)), "{stopped:?}");
    let came = devices.folder(0).join("incoming");
    let aside = devices.place.directory.path().join("aside");
    copy_folder(&came, &aside);
    assert!(fs::read_dir(&aside).unwrap().count() > 0);
    one.remove_remote(NAME).unwrap();
    assert!(!came.exists());
    copy_folder(&aside, &came);
    let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
    keys.rotate().unwrap();
    drop(keys);
    seal_again(&devices, 0);
    let rotation = one.rotation().unwrap();
    assert_eq!((rotation.oldest_epoch, rotation.newest_epoch), (1, 1));
    assert!(!came.exists());
    // Where the header of a segment says its epoch: [3.2].
    for (path, bytes) in crate::evict::files(&devices.folder(0).join("segments")) {
        assert_eq!(bytes[28..32], [1, 0, 0, 0], "{path:?}");
    }
    assert_eq!(one.read("/big").unwrap(), content(9 << 20, 2));
}

/// Goal: a device that is removed in the middle of its push publishes no more, and what it had sent is joined by nobody and in nobody's way.
/// Method: it pushes in pages of one object; behind its first publication another device removes it, and publishes that.
#[test]
fn a_device_that_is_removed_in_the_middle_of_its_push_publishes_no_more() {
    let mut devices = Devices::new(2, fill);
    devices.settle();
    devices.open_quietly(0);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    let publications = devices.place.directory.path().join("remote/publications");
    let count = || fs::read_dir(&publications).unwrap().count();
    two.write("/from the removed", content(20 << 20, 90))
        .unwrap();
    two.push_in_pages_of(1);
    let (before, mut behind) = (count(), None);
    let pushed = two.push(CLONED_FROM, &mut |_| {
        if count() > before && behind.is_none() {
            let mut keys = Keys::open(devices.folder(0), &devices.place.secret).unwrap();
            let members = one.information().unwrap().members;
            let removed = members.iter().find(|one| one.is_device && !one.is_this);
            keys.remove_device(&removed.unwrap().id).unwrap();
            drop(keys);
            sync_patiently(&devices, 0);
            behind = Some(count());
        }
        GoOn::Yes
    });
    assert!(pushed.is_err(), "{pushed:?}");
    assert_eq!(Some(count()), behind, "it publishes nothing any more");
    for _ in 0..2 {
        let error = devices.try_sync(1).unwrap_err();
        assert!(error.to_string().contains("removed"), "{error}");
    }
    assert_eq!(Some(count()), behind);
    one.write("/after", b"not for who was removed").unwrap();
    sync_patiently(&devices, 0);
    assert!(!one.exists("/from the removed").unwrap());
    let check = one.check_remote(NAME, true, &mut |_| GoOn::Yes);
    assert_eq!(check.unwrap().problems, [] as [String; 0]);
    let (folder, secret) = (devices.folder(2), devices.place.secret.clone());
    let options = CloneOptions::default();
    let cloned = clone(&devices.address(), &folder, &secret, options, &mut |_| {
        GoOn::Yes
    });
    cloned.unwrap();
    let newcomer = Vault::open(folder, secret, OpenOptions::default()).unwrap();
    assert_eq!(tree(&newcomer), tree(one));
}

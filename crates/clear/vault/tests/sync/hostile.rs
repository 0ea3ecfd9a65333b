//! Changes that a remote makes to its log, headers and names, and how they are reported. The simulator tests every other lie.

use std::path::Path;

use strongroom::{AddKey, KeyFile, NewKey, SystemRandom};
use strongroom_format::Epoch;
use strongroom_metadata::{Published, PublishedAs};

use super::*;

fn remote(devices: &Devices) -> PathBuf {
    devices.place.directory.path().join("remote")
}

/// The newest object of a kind.
fn newest(devices: &Devices, kind: &str) -> PathBuf {
    let found = fs::read_dir(remote(devices).join(kind)).unwrap();
    found.map(|entry| entry.unwrap().path()).max().unwrap()
}

fn name_of(path: &Path) -> String {
    let mut parts = path.iter().rev().map(|part| part.to_str().unwrap());
    let (name, kind) = (parts.next().unwrap(), parts.next().unwrap());
    format!("{kind}/{name}")
}

fn add_key(devices: &Devices, number: usize) {
    let mut keys = Keys::open(devices.folder(number), &devices.place.secret).unwrap();
    let key = KeyFile::random(&SystemRandom).unwrap();
    keys.add("later", AddKey::Other(NewKey::KeyFile(key)))
        .unwrap();
}

fn push(devices: &Devices) -> Result<strongroom::PushReport, Error> {
    devices.vaults[0].push(NAME, &mut |_| GoOn::Yes)
}

fn try_clone(devices: &Devices, name: &str) -> Result<strongroom::CloneReport, Error> {
    let folder = devices.place.directory.path().join(name);
    let options = CloneOptions::default();
    let secret = &devices.place.secret;
    clone(&devices.address(), folder, secret, options, &mut |_| {
        GoOn::Yes
    })
}

/// Goal: where another publication has the number of the last one that a device has seen, that device publishes nothing: what it would
/// put behind it nobody else could read, nor anything after it.
/// SECURITY.md, claim 21.
#[test]
fn a_remote_that_was_put_back_and_used_since_is_named_before_anything_is_published_there() {
    let devices = Devices::new(2, fill);
    devices.settle();
    let older = devices.place.directory.path().join("older");
    copy_folder(&remote(&devices), &older);
    devices.vaults[0].write("/of one", b"1").unwrap();
    devices.sync(0);
    fs::remove_dir_all(remote(&devices)).unwrap();
    copy_folder(&older, &remote(&devices));
    devices.vaults[1].write("/of two", b"2").unwrap();
    devices.sync(1);
    devices.vaults[0].write("/later", b"3").unwrap();
    for error in [
        push(&devices).unwrap_err(),
        devices.try_sync(0).unwrap_err(),
    ] {
        assert!(error.to_string().contains("a different history"), "{error}");
    }
    try_clone(&devices, "newcomer").unwrap();
    // As the message says.
    devices.vaults[0].remove_remote(NAME).unwrap();
    devices.vaults[0]
        .add_remote(NAME, &devices.address())
        .unwrap();
    devices.settle();
    let tree = devices.assert_same();
    for name in ["/of one", "/of two", "/later"] {
        assert!(tree.contains_key(name), "{name}");
    }
}

/// Goal: where a publication is missing and later ones are there, a device that has not seen it says so, and publishes nothing in its place.
/// Failed before: a push, which asks for no more than the next publication, published there, and parted the log.
/// SECURITY.md, claim 21.
#[test]
fn a_gap_in_the_log_is_named_and_filled_by_nobody() {
    let devices = Devices::new(2, fill);
    devices.settle();
    devices.vaults[1].write("/first", b"1").unwrap();
    devices.sync(1);
    let hidden = newest(&devices, "publications");
    devices.vaults[1].write("/second", b"2").unwrap();
    devices.sync(1);
    let bytes = fs::read(&hidden).unwrap();
    fs::remove_file(&hidden).unwrap();
    devices.vaults[0].write("/mine", b"3").unwrap();
    let lost = format!("the remote has lost {}", name_of(&hidden));
    let before = evict::files(&remote(&devices).join("publications"));
    for error in [
        push(&devices).unwrap_err(),
        devices.try_sync(0).unwrap_err(),
    ] {
        assert!(error.to_string().contains(&lost), "{error}");
    }
    let now = evict::files(&remote(&devices).join("publications"));
    assert!(now == before, "nothing is published");
    let check = devices.vaults[1].check_remote(CLONED_FROM, false, &mut |_| GoOn::Yes);
    let error = check.unwrap_err().to_string();
    assert!(error.contains(&lost), "{error}");
    fs::write(&hidden, bytes).unwrap();
    devices.settle();
    devices.assert_same();
}

/// Goal: what is wrong with a header at a remote is said of the remote, not of the vault here, which a person would begin to repair.
/// SECURITY.md, claim 21.
#[test]
fn a_header_that_a_remote_changed_or_lost_is_named_by_all_who_need_it() {
    let devices = Devices::new(2, fill);
    devices.settle();
    add_key(&devices, 1);
    devices.sync(1);
    let header = newest(&devices, "headers");
    let (name, bytes) = (name_of(&header), fs::read(&header).unwrap());
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    let check = || {
        let check = devices.vaults[1].check_remote(CLONED_FROM, true, &mut |_| GoOn::Yes);
        check.unwrap().problems
    };
    assert_eq!(check(), [""; 0]);
    for (number, lie) in [Some(&flipped[..]), Some(b""), None]
        .into_iter()
        .enumerate()
    {
        match lie {
            Some(lie) => fs::write(&header, lie).unwrap(),
            None => fs::remove_file(&header).unwrap(),
        }
        let cloned = try_clone(&devices, &format!("clone{number}"));
        let pulled = devices.vaults[0].pull(NAME, &mut |_| GoOn::Yes);
        for error in [cloned.map(drop).unwrap_err(), pulled.map(drop).unwrap_err()] {
            let error = error.to_string();
            assert!(error.contains(&name), "{error}");
            assert!(error.contains("has lost") == lie.is_none(), "{error}");
        }
        let problems = check();
        assert!(
            problems.iter().any(|one| one.contains(&name)),
            "{problems:?}"
        );
        fs::write(&header, &bytes).unwrap();
    }
    devices.settle();
    devices.assert_same();
}

/// Goal: a stick that is another one of the same vault, and one that lost its marker, are called what they are.
#[test]
fn another_remote_of_the_vault_and_one_without_a_marker_are_told_apart() {
    let devices = Devices::new(1, fill);
    let second = devices.place.directory.path().join("second");
    fs::create_dir(&second).unwrap();
    let address = format!("folder:{}", second.display());
    devices.vaults[0].add_remote("second", &address).unwrap();
    let kept = devices.place.directory.path().join("kept");
    fs::rename(remote(&devices), &kept).unwrap();
    fs::rename(&second, remote(&devices)).unwrap();
    let error = push(&devices).unwrap_err().to_string();
    assert!(error.contains("another remote of this vault"), "{error}");
    fs::rename(remote(&devices), &second).unwrap();
    fs::rename(&kept, remote(&devices)).unwrap();
    fs::remove_file(remote(&devices).join("strongroom.json")).unwrap();
    let error = push(&devices).unwrap_err().to_string();
    assert!(error.contains("has lost strongroom.json"), "{error}");
}

/// Goal: a device to which a remote is new fills no gap at its beginning either. Method: the remote is removed, and added again when its first
/// publication is lost. Failed before: a push made another first publication.
#[test]
fn a_gap_at_the_beginning_of_a_log_is_filled_by_nobody_to_whom_it_is_new() {
    let devices = Devices::new(1, |vault| vault.write("/first", b"1").unwrap());
    devices.vaults[0].write("/second", b"2").unwrap();
    devices.sync(0);
    let publications = remote(&devices).join("publications");
    let oldest = publications.join(format!("{:016}", 1));
    fs::remove_file(&oldest).unwrap();
    devices.vaults[0].remove_remote(NAME).unwrap();
    devices.vaults[0]
        .add_remote(NAME, &devices.address())
        .unwrap();
    let error = push(&devices).unwrap_err().to_string();
    let lost = format!("the remote has lost {}", name_of(&oldest));
    assert!(error.contains(&lost), "{error}");
    assert!(!oldest.exists());
}

/// Goal: a remote that lost only its marker is the same one for all devices when a device removes and adds it. Failed before: the marker got
/// another id, and every other device refused the remote from then on.
#[test]
fn a_remote_that_lost_its_marker_gets_it_again_when_it_is_added() {
    let devices = Devices::new(2, fill);
    devices.settle();
    let marker = remote(&devices).join("strongroom.json");
    let bytes = fs::read(&marker).unwrap();
    let one = &devices.vaults[0];
    fs::remove_file(&marker).unwrap();
    one.remove_remote(NAME).unwrap();
    one.add_remote(NAME, &devices.address()).unwrap();
    assert!(fs::read(&marker).unwrap() == bytes);
    // Under another name too: a remote that alone has content which is away cannot be removed.
    fs::remove_file(&marker).unwrap();
    one.add_remote("again", &devices.address()).unwrap();
    assert!(fs::read(&marker).unwrap() == bytes);
    one.remove_remote("again").unwrap();
    one.write("/later", b"1").unwrap();
    devices.settle();
    devices.assert_same();
}

/// Goal: a place that has something and says neither by a marker nor by its log which remote it is becomes no other one. Method: a vault that
/// has no key for the log adds it, then one that finds no more than a header there. Failed before: it got a marker with another id.
#[test]
fn a_remote_without_a_marker_that_proves_nothing_is_refused_and_nothing_is_written() {
    let devices = Devices::new(1, fill);
    let one = &devices.vaults[0];
    fs::remove_file(remote(&devices).join("strongroom.json")).unwrap();
    let (_place, stranger) = Place::new();
    let refused = |vault: &Vault| {
        let before = evict::files(&remote(&devices));
        let error = vault.add_remote("again", &devices.address()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("has lost strongroom.json"), "{said}");
        assert!(evict::files(&remote(&devices)) == before);
    };
    refused(&stranger);
    fs::remove_dir_all(remote(&devices).join("publications")).unwrap();
    refused(one);
}

/// Goal: files that other programs put into the folder of a remote are in nobody's way.
#[test]
fn files_that_are_no_objects_disturb_nobody() {
    let devices = Devices::new(2, fill);
    devices.settle();
    add_key(&devices, 1);
    devices.vaults[1].write("/more", b"1").unwrap();
    devices.sync(1);
    fs::create_dir_all(remote(&devices).join("pairing")).unwrap();
    for kind in [
        "headers",
        "segments",
        "revisions",
        "publications",
        "pairing",
    ] {
        for name in [
            "desktop.ini",
            "Thumbs.db",
            "copy of 1",
            "zzzz",
            "z-1",
            "z-2",
            "z-3",
        ] {
            fs::write(remote(&devices).join(kind).join(name), b"?").unwrap();
        }
    }
    devices.settle();
    devices.assert_same();
    try_clone(&devices, "newcomer").unwrap();
    let invited = devices.vaults[0].invite(NAME, std::time::Instant::now());
    invited.unwrap();
}

/// Goal: what a removed device seals under keys that were replaced at a remote is refused, also if it could guess what it has to link to.
/// Method: a device has seen a record there under newer keys than those of the next publication, which another one pushes.
/// Failed before: it was joined. SECURITY.md, claim 21.
#[test]
fn a_publication_under_keys_that_were_replaced_before_is_refused() {
    let devices = Devices::new(2, fill);
    devices.settle();
    let filesystem = devices.vaults[0].filesystem().unwrap();
    let number = filesystem.engine().reader().unwrap().remotes().unwrap()[0].number;
    let how = PublishedAs {
        hash: [7; 32],
        publication: 1,
    };
    let newer = Published::Revision([7; 32], Epoch(1));
    let noted = filesystem.change_remotes(|writer| writer.put_published(number, newer, how));
    noted.unwrap();
    drop(filesystem);
    devices.vaults[1].write("/evil", b"1").unwrap();
    devices.sync(1);
    let refused = devices.try_sync(0).unwrap_err();
    assert!(
        refused.to_string().contains("already replaced"),
        "{refused}"
    );
    assert!(devices.vaults[0].read("/evil").is_err());
}

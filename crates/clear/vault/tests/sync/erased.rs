//! Content that one device erased, or moved, before another had it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use strongroom::filesystem::{Error as FileError, RenameMode, XattrMode};
use strongroom::{
    CLONED_FROM, CloneContent, CloneOptions, CloneReport, Error, FileOptions, GoOn, Links, Loss,
    NewRevision, OpenOptions, Removal, SystemRandom, Vault, clone,
};
use strongroom_format::hex;
use strongroom_format::publication::Publication;
use strongroom_sync::{object_hash, publication_name, seal_publication};

use crate::support::content;
use crate::unfinished::log;
use crate::{Devices, NAME, fill, forget_history, tree};

/// Goal: content that was erased after it was pushed, and that only a snapshot names, stops no device that had not pulled it. Method: one
/// device pushes a snapshot, erases a file in it and pushes again; another pulls, has the snapshot but for that file, and gets the content
/// once somebody writes it again.
/// Failed before only the head had to be whole: "a snapshot at the remote lacks blocks", for ever.
#[test]
fn what_was_erased_after_a_push_stops_no_device() {
    let devices = Devices::new(2, fill);
    devices.settle();
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    let secret = || content(400_000, 77);
    one.write("/secret", secret()).unwrap();
    one.write("/kept", content(100_000, 78)).unwrap();
    let tagged = NewRevision {
        tags: vec!["both".to_owned()],
        ..NewRevision::default()
    };
    one.take_revision(&tagged).unwrap().unwrap();
    devices.sync(0);
    one.remove_file("/secret").unwrap();
    let erased = one.erase("/secret", false).unwrap();
    assert!(erased.bytes >= 400_000, "{erased:?}");
    devices.sync(0);
    devices.sync(1);
    assert_eq!(tree(two), tree(one));
    let in_snapshot = |vault: &Vault, name: &str| vault.read(format!("/.history/t:both/{name}"));
    assert_eq!(in_snapshot(two, "kept").unwrap(), content(100_000, 78));
    assert!(in_snapshot(two, "secret").is_err() && in_snapshot(one, "secret").is_err());
    two.write("/by two", b"two").unwrap();
    devices.settle();
    assert_eq!(in_snapshot(one, "kept").unwrap(), content(100_000, 78));
    assert_eq!(tree(two), tree(one));
    for vault in [one, two] {
        let check = vault.check().unwrap();
        assert!(check.problems.is_empty(), "{check:?}");
    }
    // What is lost here came back by another file, and is the same content.
    one.write("/again", secret()).unwrap();
    devices.settle();
    assert_eq!(two.read("/again").unwrap(), secret());
    devices.assert_same();
}

/// Goal: content that a remote lost stops no pull that looks for something else. Method: a device lets everything go, and the remote loses that;
/// then it pulls a snapshot with content that another device has erased, which it looks for everywhere. The same once it gave up what was lost.
/// Failed before: each pull failed, for ever.
#[test]
fn what_a_remote_lost_stops_no_pull_of_a_snapshot_with_erased_content() {
    for gives_up in [false, true] {
        let devices = Devices::new(2, fill);
        devices.settle();
        let [one, two] = &devices.vaults[..] else {
            panic!()
        };
        let listed = fs::read_dir(remote(&devices).join("segments")).unwrap();
        let mut segments: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
        segments.retain(|path| path.metadata().unwrap().len() > 300_000);
        let gone = two.evict(None, &mut |_| GoOn::Yes).unwrap();
        assert!(gone.bytes > 9 << 20, "{gone:?}");
        one.write("/secret", content(SECRET, 77)).unwrap();
        one.write("/kept", content(100_000, 78)).unwrap();
        tagged(one, "both");
        devices.sync(0);
        erase_secret(one);
        devices.sync(0);
        for path in segments.iter().filter(|path| path.exists()) {
            fs::remove_file(path).unwrap();
        }
        let give_up = || {
            let report = two.bring_back(None, &mut |_| GoOn::Yes).unwrap();
            assert!(report.lost > 0, "{report:?}");
        };
        if gives_up {
            give_up();
        }
        devices.sync(1);
        assert_eq!(two.read("/kept").unwrap(), content(100_000, 78));
        let kept = two.read("/.history/t:both/kept").unwrap();
        assert_eq!(kept, content(100_000, 78));
        assert!(in_snapshot(two, "both").is_err());
        assert!(two.read("/big").is_err());
        if !gives_up {
            give_up();
        }
    }
}

/// A length whose extents lie beside the name, and one with a list of them, which is a block by itself.
const LENS: [usize; 2] = [400_000, 9 << 20];

/// Two devices that have `/f`, also in a snapshot. One removes and erases it, and syncs; before that the other one, which does not know
/// of it, published what `change` does.
fn erased_beside(len: usize, change: impl FnOnce(&Vault)) -> Devices {
    let devices = Devices::new(2, |vault| {
        vault.write("/f", content(len, 91)).unwrap();
        let tagged = NewRevision {
            tags: vec!["both".to_owned()],
            ..NewRevision::default()
        };
        vault.take_revision(&tagged).unwrap().unwrap();
    });
    devices.settle();
    change(&devices.vaults[1]);
    devices.sync(1);
    let one = &devices.vaults[0];
    one.remove_file("/f").unwrap();
    let erased = one.erase("/f", false).unwrap();
    assert!(erased.bytes >= len as u64, "{erased:?}");
    assert!(one.read("/.history/t:both/f").is_err());
    devices.sync(0);
    devices
}

/// All devices have the content as `/g`, and so has the remote.
fn assert_everywhere(mut devices: Devices, len: usize) {
    assert!(devices.vaults[0].read("/g").unwrap() == content(len, 91));
    devices.settle();
    devices.add(2);
    devices.settle();
    for vault in &devices.vaults {
        assert!(vault.read("/g").unwrap() == content(len, 91));
    }
    devices.assert_same();
}

/// Goal: a file that comes back can be read, although its content was erased here, and the published content stays. Method: one device
/// renames a file that another one erases.
/// Failed before a block with a row counted as being here: the file was there and said that it was erased, and the next push retired the
/// only published content.
#[test]
fn a_file_that_was_renamed_elsewhere_comes_back_with_the_content_that_was_erased_here() {
    for len in LENS {
        let rename = |two: &Vault| two.rename("/f", "/g", RenameMode::NoReplace).unwrap();
        assert_everywhere(erased_beside(len, rename), len);
    }
}

/// Goal: another file with content that was erased here can be read. Method: one device copies a file that another one erases.
/// Failed before a block with a row counted as being here: the file was there and said that it was erased.
#[test]
fn another_file_with_the_content_that_was_erased_here_comes_with_it() {
    for len in LENS {
        let copy = |two: &Vault| two.write("/g", content(len, 91)).unwrap();
        let devices = erased_beside(len, copy);
        assert!(!devices.vaults[0].exists("/f").unwrap());
        assert_everywhere(devices, len);
    }
}

/// Goal: what a published state has, and the joined state has not, stays erased. Method: one device changes another file than the one
/// that is erased. It bounds what the two tests above ask for.
#[test]
fn content_that_only_the_published_state_has_stays_erased() {
    let devices = erased_beside(LENS[0], |two| two.write("/other", b"other").unwrap());
    let one = &devices.vaults[0];
    assert_eq!(one.read("/other").unwrap(), b"other");
    assert!(!one.exists("/f").unwrap());
    assert!(one.read("/.history/t:both/f").is_err());
}

/// Goal: good content is not given up for a place where it does not open. Method: one device removes and compacts; in the segment to which
/// it moved what stays a bit is wrong, and its publication names just that. Another device, which has the content, pulls.
/// Failed before the block was opened there: the file could not be read any more.
#[test]
fn content_that_does_not_open_where_others_moved_it_stays_where_it_is() {
    let devices = Devices::new(2, |vault| {
        vault.write("/goes", content(6 << 20, 1)).unwrap();
        vault.write("/stays", content(1 << 20, 2)).unwrap();
    });
    devices.settle();
    let two = &devices.vaults[1];
    two.remove_file("/goes").unwrap();
    forget_history(two);
    devices.sync(1);
    let log = log(&devices);
    let mut body = log.all.last().unwrap().body.clone();
    assert!(!body.retired_segments.is_empty());
    let remote = devices.place.directory.path().join("remote");
    let moved = body.segments.iter_mut().max_by_key(|one| one.len).unwrap();
    let path = |hash: &[u8; 32]| remote.join("segments").join(hex::encode(hash));
    let mut bytes = fs::read(path(&moved.hash)).unwrap();
    assert!(bytes.len() > 1 << 20);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    moved.hash = object_hash(&bytes);
    fs::write(path(&moved.hash), &bytes).unwrap();
    body.segments.sort_unstable_by_key(|one| one.hash);
    let object = remote.join(publication_name(body.number).as_str());
    let sealed = seal_publication(body, &log.signer, &log.sealer, &SystemRandom).unwrap();
    fs::write(object, sealed).unwrap();
    let one = &devices.vaults[0];
    one.pull(NAME, &mut |_| GoOn::Yes).unwrap();
    assert!(!one.exists("/goes").unwrap());
    assert_eq!(one.read("/stays").unwrap(), content(1 << 20, 2));
    // It goes elsewhere with what this device publishes next, and not with what another one retired.
    one.write("/more", b"more").unwrap();
    devices.sync(0);
    forget_history(one);
    assert_eq!(one.read("/stays").unwrap(), content(1 << 20, 2));
}

/// The attribute of the root directory that says what was erased. [6.11.7]
const ERASURES: &str = "trusted.strongroom.erased";

const SECRET: usize = 400_000;

fn tagged(vault: &Vault, tag: &str) {
    let new = NewRevision {
        tags: vec![tag.to_owned()],
        ..NewRevision::default()
    };
    vault.take_revision(&new).unwrap().unwrap();
}

/// Sealed bytes of the content of `/secret`, which all devices get with a snapshot: those in the middle of the one long segment that came
/// with it. They are the same wherever that content lies.
fn publish_secret(devices: &Devices) -> Vec<u8> {
    let folder = remote(devices).join("segments");
    let names = || -> BTreeSet<PathBuf> {
        let listed = fs::read_dir(&folder).unwrap();
        listed.map(|entry| entry.unwrap().path()).collect()
    };
    devices.settle();
    let before = names();
    let one = &devices.vaults[0];
    one.write("/secret", content(SECRET, 77)).unwrap();
    tagged(one, "both");
    devices.settle();
    let new = names().difference(&before).cloned().collect::<Vec<_>>();
    let longest = new.iter().max_by_key(|path| path.metadata().unwrap().len());
    let bytes = fs::read(longest.unwrap()).unwrap();
    assert!(bytes.len() >= SECRET);
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].to_vec()
}

fn remote(devices: &Devices) -> PathBuf {
    devices.place.directory.path().join("remote")
}

/// Whether a file in that folder has these bytes.
fn holds(folder: &Path, sample: &[u8]) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        match kind.is_dir() {
            true => holds(&entry.path(), sample),
            // A file may go meanwhile, and a socket cannot be read.
            false if kind.is_file() => fs::read(entry.path())
                .is_ok_and(|bytes| bytes.windows(sample.len()).any(|part| part == sample)),
            false => false,
        }
    })
}

fn in_snapshot(vault: &Vault, tag: &str) -> Result<Vec<u8>, Error> {
    vault.read(format!("/.history/t:{tag}/secret"))
}

fn is_erased(vault: &Vault, tag: &str) -> bool {
    let read = in_snapshot(vault, tag);
    matches!(read, Err(Error::File(FileError::Erased { .. })))
}

/// One device removes and erases the secret; nobody else knows yet.
fn erase_secret(one: &Vault) {
    one.remove_file("/secret").unwrap();
    let erased = one.erase("/secret", false).unwrap();
    assert!(erased.bytes >= SECRET as u64, "{erased:?}");
    assert_eq!(erased.segments_left, 0, "{erased:?}");
}

/// Goal: what one device erases leaves the remote with its next push, and every other device with its next pull, also one that changed
/// other things meanwhile; a device that comes later is told that it was erased. Method: three devices with a snapshot, and one that is
/// cloned afterwards; sealed bytes of the content are looked for in all files.
/// Failed before the content stayed at the other devices for ever, and at the remote for a week at least.
#[test]
fn what_one_device_erases_leaves_the_remote_and_the_other_devices() {
    let mut devices = Devices::new(3, |vault| {
        vault.write("/kept", content(100_000, 78)).unwrap();
    });
    let sample = publish_secret(&devices);
    let folders = [0, 1, 2].map(|number| devices.folder(number));
    let remote = remote(&devices);
    for folder in folders.iter().chain([&remote]) {
        assert!(holds(folder, &sample), "{}", folder.display());
    }
    devices.vaults[2].write("/by three", b"three").unwrap();
    erase_secret(&devices.vaults[0]);
    assert!(!holds(&folders[0], &sample));
    assert!(holds(&remote, &sample));
    devices.sync(0);
    assert!(!holds(&remote, &sample));
    for number in [1, 2] {
        let pulled = devices.sync(number).pulled;
        assert!(pulled.erased_bytes >= SECRET as u64, "{pulled:?}");
        assert_eq!(pulled.unerased_bytes, 0, "{pulled:?}");
        assert!(pulled.erase_problems.is_empty(), "{pulled:?}");
        assert!(!holds(&folders[number], &sample), "device {number}");
        assert!(!holds(&remote, &sample), "device {number}");
    }
    devices.add(3);
    devices.settle();
    for vault in &devices.vaults {
        assert!(is_erased(vault, "both"));
        let kept = vault.read("/.history/t:both/kept").unwrap();
        assert_eq!(kept, content(100_000, 78));
    }
    devices.assert_same();
    devices.assert_at_rest();
    assert!(!holds(&remote, &sample));
}

/// Goal: content that another device wrote meanwhile stays, and what it replaced goes all the same. Method: one device erases a file that
/// another one writes before it learns of that.
#[test]
fn what_another_device_wrote_meanwhile_stays_and_what_was_erased_goes() {
    let devices = Devices::new(2, |_| {});
    let sample = publish_secret(&devices);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    two.write("/secret", content(100_000, 5)).unwrap();
    erase_secret(one);
    devices.sync(0);
    devices.settle();
    for vault in [one, two] {
        assert_eq!(vault.read("/secret").unwrap(), content(100_000, 5));
        assert!(is_erased(vault, "both"));
    }
    for folder in [devices.folder(0), devices.folder(1), remote(&devices)] {
        assert!(!holds(&folder, &sample), "{}", folder.display());
    }
    devices.assert_same();
    devices.assert_at_rest();
}

/// Goal: the content goes from snapshots too that another device took before it learned of the erasure, and stays where that device has
/// it in another file, which it says. Method: one device erases two files; another one has copied one of them, and taken a snapshot.
#[test]
fn snapshots_of_meanwhile_lose_the_content_and_other_files_keep_it() {
    let devices = Devices::new(2, |vault| {
        vault.write("/other", content(300_000, 79)).unwrap();
    });
    let sample = publish_secret(&devices);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    two.write("/copy", content(300_000, 79)).unwrap();
    tagged(two, "own");
    erase_secret(one);
    one.remove_file("/other").unwrap();
    one.erase("/other", false).unwrap();
    devices.sync(0);
    let pulled = devices.sync(1).pulled;
    assert!(pulled.erased_bytes >= SECRET as u64, "{pulled:?}");
    assert!(pulled.unerased_bytes >= 300_000, "{pulled:?}");
    devices.settle();
    for vault in [one, two] {
        assert_eq!(vault.read("/copy").unwrap(), content(300_000, 79));
        assert!(is_erased(vault, "both") && is_erased(vault, "own"));
    }
    assert!(!holds(&devices.folder(1), &sample));
    assert!(!holds(&remote(&devices), &sample));
    devices.assert_same();
    devices.assert_at_rest();
}

/// Goal: two devices that erase at the same time both erase what the other did. Method: each erases a file of its own before either syncs.
#[test]
fn two_devices_that_erase_at_the_same_time_erase_both() {
    let devices = Devices::new(2, |vault| {
        vault.write("/other", content(300_000, 79)).unwrap();
    });
    let sample = publish_secret(&devices);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    erase_secret(one);
    two.remove_file("/other").unwrap();
    assert!(two.erase("/other", false).unwrap().bytes >= 300_000);
    devices.settle();
    for vault in [one, two] {
        assert!(is_erased(vault, "both"));
        assert!(vault.read("/.history/t:both/other").is_err());
    }
    assert!(!holds(&devices.folder(1), &sample));
    assert!(!holds(&remote(&devices), &sample));
    devices.assert_same();
    devices.assert_at_rest();
}

/// Goal: an erasure that came is carried out also if the process ends right after the pull has shown it. Method: a vault gets the attribute
/// that a pull would bring, and is closed before anything is erased; the next opening erases.
#[test]
fn an_erasure_that_came_is_carried_out_by_the_next_opening() {
    let mut devices = Devices::new(2, |_| {});
    let sample = publish_secret(&devices);
    erase_secret(&devices.vaults[0]);
    let noted = devices.vaults[0].xattr("/", Links::Stay, ERASURES).unwrap();
    let two = &devices.vaults[1];
    two.remove_file("/secret").unwrap();
    two.set_xattr("/", Links::Stay, ERASURES, noted, XattrMode::Set)
        .unwrap();
    two.sync().unwrap();
    assert!(in_snapshot(two, "both").is_ok());
    devices.open_quietly(1);
    let folder = devices.folder(1);
    assert!(!holds(&folder, &sample));
    assert!(is_erased(&devices.vaults[1], "both"));
    devices.settle();
    assert!(!holds(&remote(&devices), &sample));
    devices.assert_same();
}

/// Goal: content that a device kept under another name, in a snapshot after it knew of the erasure, is not erased by a device that was away.
/// Method: one device erases a file that another one has renamed; that one takes a snapshot after both have synced, and removes the file; a
/// third one comes back then.
/// Failed before the third took the content out of that snapshot, and retired it at the remote.
#[test]
fn a_device_that_was_away_erases_nothing_that_later_snapshots_have() {
    let devices = Devices::new(3, |_| {});
    publish_secret(&devices);
    let [one, two, three] = &devices.vaults[..] else {
        panic!()
    };
    two.rename("/secret", "/kept", RenameMode::NoReplace)
        .unwrap();
    erase_secret(one);
    devices.sync(0);
    devices.sync(1);
    devices.sync(0);
    tagged(two, "later");
    two.remove_file("/kept").unwrap();
    devices.sync(1);
    devices.sync(0);
    let pulled = devices.sync(2).pulled;
    assert_eq!(pulled.erased_bytes, 0, "{pulled:?}");
    assert!(pulled.unerased_bytes >= SECRET as u64, "{pulled:?}");
    devices.settle();
    for vault in [one, two, three] {
        let kept = vault.read("/.history/t:later/kept").unwrap();
        assert_eq!(kept, content(SECRET, 77));
    }
    devices.assert_same();
    devices.assert_at_rest();
}

/// Goal: an erasure that cannot be carried out now does not keep others waiting. Method: a device has the content of one file only at the
/// remote, which is not there when it opens; another file that was erased later is here. Then the remote comes back.
/// Failed before nothing was erased as long as one segment could not be fetched.
#[test]
fn an_erasure_that_cannot_be_carried_out_now_keeps_no_other_waiting() {
    let mut devices = Devices::new(2, |_| {});
    let sample = publish_secret(&devices);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    let gone = two.evict(None, &mut |_| GoOn::Yes).unwrap();
    assert!(gone.bytes >= SECRET as u64, "{gone:?}");
    two.write("/other", content(300_000, 79)).unwrap();
    tagged(two, "other");
    devices.settle();
    erase_secret(one);
    one.remove_file("/other").unwrap();
    one.erase("/other", false).unwrap();
    let noted = one.xattr("/", Links::Stay, ERASURES).unwrap();
    two.remove_file("/secret").unwrap();
    two.remove_file("/other").unwrap();
    two.set_xattr("/", Links::Stay, ERASURES, noted, XattrMode::Set)
        .unwrap();
    two.sync().unwrap();
    let remote = remote(&devices);
    let aside = remote.with_extension("aside");
    fs::rename(&remote, &aside).unwrap();
    devices.open_quietly(1);
    let two = &devices.vaults[1];
    let other = two.read("/.history/t:other/other");
    assert!(
        matches!(other, Err(Error::File(FileError::Erased { .. }))),
        "{other:?}"
    );
    assert!(!is_erased(two, "both"));
    fs::rename(&aside, &remote).unwrap();
    devices.settle();
    devices.settle();
    assert!(is_erased(&devices.vaults[1], "both"));
    assert!(!holds(&devices.folder(1), &sample));
    devices.assert_same();
}

/// Goal: what nobody can read in the attribute stops no erasure from coming to the other devices. Method: bytes are put there that are none.
/// Failed before every later erasure stayed on the device where it was made, and that device did not say so.
#[test]
fn an_attribute_that_nobody_can_read_stops_no_erasure() {
    let devices = Devices::new(2, |_| {});
    let sample = publish_secret(&devices);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    two.set_xattr("/", Links::Stay, ERASURES, b"x", XattrMode::Set)
        .unwrap();
    devices.settle();
    erase_secret(one);
    devices.settle();
    assert!(is_erased(two, "both"));
    assert!(!holds(&devices.folder(1), &sample));
    devices.assert_same();
    devices.assert_at_rest();
}

/// Goal: who erases hears that other devices do not learn of it, where a later version has to note that; here the content is gone, and what is
/// noted stays as it is. Method: a value of format 2. Failed before: the erasure ended well.
#[test]
fn an_erasure_that_only_a_later_version_can_note_says_so() {
    const LATER: [u8; 3] = [0x82, 0x02, 0x80];
    let devices = Devices::new(2, |_| {});
    publish_secret(&devices);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    one.set_xattr("/", Links::Stay, ERASURES, LATER, XattrMode::Set)
        .unwrap();
    one.remove_file("/secret").unwrap();
    // By a client of the owner, too.
    let beside = Vault::connect_if_owned(devices.folder(0), OpenOptions::default());
    let beside = beside.unwrap().unwrap();
    for vault in [one, &beside] {
        let error = vault.erase("/secret", false).unwrap_err();
        let says = |why: &str| why.contains("later version") && why.contains("other devices");
        assert!(
            matches!(&error, Error::UnknownFormat(why) if says(why)),
            "{error:?}"
        );
    }
    beside.close().unwrap();
    assert!(is_erased(one, "both"));
    devices.settle();
    assert!(!is_erased(two, "both"));
    assert_eq!(two.xattr("/", Links::Stay, ERASURES).unwrap(), LATER);
}

/// Goal: a push that is stopped anywhere leaves what the next one does. Method: it is stopped at each of its steps in turn, until one comes
/// to its end.
#[test]
fn a_push_of_an_erasure_that_is_stopped_anywhere_is_ended_by_the_next() {
    let devices = Devices::new(2, |_| {});
    let sample = publish_secret(&devices);
    let one = &devices.vaults[0];
    erase_secret(one);
    let mut ended = false;
    for stop in 0..100 {
        let mut calls = 0;
        let pushed = one.push(NAME, &mut |_| {
            calls += 1;
            match calls > stop {
                true => GoOn::No,
                false => GoOn::Yes,
            }
        });
        match pushed {
            Ok(_) => {
                ended = true;
                break;
            }
            Err(error) => assert!(matches!(error, Error::RemoteStopped), "{error}"),
        }
    }
    assert!(ended);
    assert!(!holds(&remote(&devices), &sample));
    devices.settle();
    assert!(!holds(&devices.folder(1), &sample));
    devices.assert_same();
    devices.assert_at_rest();
}

/// Goal: a device that has let content go, and was away, loses nothing that it needs; what was erased goes once it has followed. Method: one
/// device lets everything go; another one erases a part and pushes; the first comes back.
#[test]
fn what_a_device_needs_that_let_content_go_stays_until_it_has_followed() {
    let devices = Devices::new(2, |vault| {
        vault.write("/kept", content(100_000, 78)).unwrap();
    });
    let sample = publish_secret(&devices);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    let gone = two.evict(None, &mut |_| GoOn::Yes).unwrap();
    assert!(gone.bytes >= SECRET as u64, "{gone:?}");
    erase_secret(one);
    devices.sync(0);
    assert!(holds(&remote(&devices), &sample));
    assert_eq!(two.read("/kept").unwrap(), content(100_000, 78));
    devices.settle();
    devices.settle();
    assert!(!holds(&remote(&devices), &sample));
    assert!(!holds(&devices.folder(1), &sample));
    assert!(is_erased(two, "both"));
    devices.assert_same();
}

/// Goal: nothing goes from a remote where this device is to remove nothing, and everything from the others. Method: two remotes, one of
/// them kept.
#[test]
fn where_nothing_is_to_be_removed_erased_content_stays_at_the_remote() {
    let devices = Devices::new(1, |_| {});
    let kept = devices.place.directory.path().join("kept");
    fs::create_dir(&kept).unwrap();
    let one = &devices.vaults[0];
    let address = format!("folder:{}", kept.display());
    one.add_remote_with("kept", &address, Removal::Never)
        .unwrap();
    let sample = publish_secret(&devices);
    one.push("kept", &mut |_| GoOn::Yes).unwrap();
    erase_secret(one);
    for _ in 0..2 {
        one.push("kept", &mut |_| GoOn::Yes).unwrap();
    }
    assert!(holds(&kept, &sample));
    assert!(holds(&remote(&devices), &sample));
    devices.sync(0);
    assert!(!holds(&remote(&devices), &sample));
}

fn clone_as(
    devices: &Devices,
    name: &str,
    content: CloneContent,
) -> Result<(CloneReport, Vault), Error> {
    let folder = devices.place.directory.path().join(name);
    let secret = &devices.place.secret;
    let options = CloneOptions {
        content,
        ..CloneOptions::default()
    };
    let report = clone(&devices.address(), &folder, secret, options, &mut |_| {
        GoOn::Yes
    })?;
    let vault = Vault::open(folder, secret.clone(), OpenOptions::default())?;
    Ok((report, vault))
}

/// Longer than a segment: the first segment with it has nothing else.
const LONG: usize = 17 << 20;

/// Publishes, as the second device, that no long segment is live any more: those have only content.
fn retire_long_segments(devices: &Devices) {
    let log = log(devices);
    let last = log.all.last().unwrap();
    let retired = log.all.iter().flat_map(|one| &one.body.retired_segments);
    let retired: BTreeSet<[u8; 32]> = retired.copied().collect();
    let long = log.all.iter().flat_map(|one| &one.body.segments);
    let long = long.filter(|one| one.len > 8 << 20 && !retired.contains(&one.hash));
    let long: BTreeSet<[u8; 32]> = long.map(|one| one.hash).collect();
    assert!(!long.is_empty());
    let body = Publication {
        number: last.body.number + 1,
        link: last.id,
        device: log.signer.device(),
        sequence: 1_000,
        segments: Vec::new(),
        revisions: Vec::new(),
        retired_segments: long.into_iter().collect(),
        retired_revisions: Vec::new(),
        ..last.body.clone()
    };
    let object = remote(devices).join(publication_name(body.number).as_str());
    let sealed = seal_publication(body, &log.signer, &log.sealer, &SystemRandom).unwrap();
    fs::write(object, sealed).unwrap();
}

fn is_refused_on_demand(devices: &Devices, name: &str) -> bool {
    let cloned = clone_as(devices, name, CloneContent::AtRemote);
    matches!(&cloned, Err(Error::RemoteUntrue(why)) if why.contains("without --on-demand"))
}

/// Bytes that a clone names as lost, all of them of that file.
fn lost_bytes(report: &CloneReport, path: &str) -> u64 {
    let damages = report.made.damages.iter();
    let bytes = damages.map(|damage| match damage.what {
        Loss::Content(start, end) if damage.path == path.as_bytes() => end - start,
        _ => panic!("{damage:?}"),
    });
    bytes.sum()
}

/// Goal: erased content is not lost for a device that is cloned later, on demand or not; other content that is lost is named, and no clone
/// leaves content at a remote that lacks some of it. Method: a snapshot has a file that was erased, and another one that is there still;
/// then the segment of that one is not live any more. Failed before: a clone on demand was refused, and a full one counted the blocks of
/// the erased file as lost.
#[test]
fn what_was_erased_is_not_lost_for_a_clone_and_what_is_lost_beside_it_is() {
    let devices = Devices::new(2, |vault| {
        vault.write("/other", content(LONG, 6)).unwrap();
    });
    publish_secret(&devices);
    erase_secret(&devices.vaults[0]);
    devices.settle();
    for (name, how) in [
        ("here", CloneContent::Here),
        ("away", CloneContent::AtRemote),
    ] {
        let (report, vault) = clone_as(&devices, name, how).unwrap();
        assert_eq!(report.made.missing_blocks, 0, "{name}: {report:?}");
        assert!(report.made.is_whole(), "{name}: {report:?}");
        assert_eq!(report.away.bytes > 0, how == CloneContent::AtRemote);
        assert!(is_erased(&vault, "both"), "{name}");
        assert!(vault.read("/.history/t:both/other").unwrap() == content(LONG, 6));
        assert_eq!(tree(&vault), tree(&devices.vaults[0]));
        let check = vault.check().unwrap();
        assert!(check.problems.is_empty(), "{name}: {check:?}");
        vault.close().unwrap();
    }
    retire_long_segments(&devices);
    assert!(is_refused_on_demand(&devices, "refused"));
    let (report, vault) = clone_as(&devices, "lacking", CloneContent::Here).unwrap();
    let lost = lost_bytes(&report, "/other");
    assert!(lost > 8 << 20, "{report:?}");
    // All of its blocks are as long as they can be. None of the erased file is counted.
    assert_eq!(report.made.missing_blocks * 65_536, lost, "{report:?}");
    assert!(is_erased(&vault, "both"));
    let read = vault.read("/other").unwrap_err();
    assert!(
        !matches!(read, Error::File(FileError::Erased { .. })),
        "{read:?}"
    );
}

/// Goal: content that a file of now has is lost if it is nowhere, whatever the tree says of an erasure. Method: one device renames a file that
/// another one erases, so that both have it; then its segment is not live any more. It bounds the test above.
#[test]
fn content_of_a_file_of_now_is_lost_and_not_erased() {
    let rename = |two: &Vault| two.rename("/f", "/g", RenameMode::NoReplace).unwrap();
    let devices = erased_beside(LONG, rename);
    devices.settle();
    retire_long_segments(&devices);
    assert!(is_refused_on_demand(&devices, "refused"));
    let (report, vault) = clone_as(&devices, "lacking", CloneContent::Here).unwrap();
    let lost = lost_bytes(&report, "/g");
    assert!(lost > 8 << 20, "{report:?}");
    assert_eq!(report.made.missing_blocks * 65_536, lost, "{report:?}");
    let read = vault.read("/g").unwrap_err();
    assert!(
        !matches!(read, Error::File(FileError::Erased { .. })),
        "{read:?}"
    );
}

/// Goal: unless the tree notes an erasure, no content that is nowhere counts as erased. Method: a file that only a snapshot has, and whose
/// segment is not live any more. It bounds the tests above.
#[test]
fn what_nobody_erased_is_lost_for_a_clone() {
    let devices = Devices::new(2, |vault| {
        vault.write("/secret", content(LONG, 6)).unwrap();
        tagged(vault, "both");
    });
    devices.vaults[0].remove_file("/secret").unwrap();
    devices.settle();
    retire_long_segments(&devices);
    assert!(is_refused_on_demand(&devices, "refused"));
    let (report, vault) = clone_as(&devices, "lacking", CloneContent::Here).unwrap();
    assert!(report.made.missing_blocks > 100, "{report:?}");
    assert!(!is_erased(&vault, "both"));
    assert!(in_snapshot(&vault, "both").is_err());
}

/// Goal: a clone on demand erases what the remote still has of erased content, and does without the rest. Method: a device publishes a tree
/// that notes an erasure before it carries it out; of the two segments with the content the long one is not live any more.
/// Failed before: the clone was refused.
#[test]
fn a_clone_on_demand_erases_what_is_left_of_erased_content() {
    let devices = Devices::new(2, |vault| {
        vault.write("/secret", content(LONG, 6)).unwrap();
        tagged(vault, "both");
    });
    devices.settle();
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    one.remove_file("/secret").unwrap();
    one.erase("/secret", false).unwrap();
    let noted = one.xattr("/", Links::Stay, ERASURES).unwrap();
    two.remove_file("/secret").unwrap();
    two.set_xattr("/", Links::Stay, ERASURES, noted, XattrMode::Set)
        .unwrap();
    two.push(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    assert!(in_snapshot(two, "both").is_ok());
    retire_long_segments(&devices);
    let (report, vault) = clone_as(&devices, "away", CloneContent::AtRemote).unwrap();
    assert_eq!(report.made.missing_blocks, 0, "{report:?}");
    let path = "/.history/t:both/secret";
    let file = vault.open_file(path, FileOptions::new().read()).unwrap();
    for at in [0, LONG as u64 - 1] {
        let read = file.read_at(&mut [0], at);
        assert!(
            matches!(read, Err(Error::File(FileError::Erased { .. }))),
            "{at}: {read:?}"
        );
    }
}

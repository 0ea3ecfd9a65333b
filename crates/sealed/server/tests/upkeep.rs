//! Check, garbage collection and backup of a server's folder, beside a running server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use strongroom_remote::{Created, ObjectName};
use strongroom_server::{
    BackupReport, CheckReport, Collecting, Error, GarbageReport, Reading, Tls, Upkeep,
};
use support::{Ends, Place, start};

fn segment(bytes: &[u8]) -> ObjectName {
    ObjectName::new(format!("segments/{}", blake3::hash(bytes).to_hex())).unwrap()
}

fn publication(number: u64) -> ObjectName {
    ObjectName::new(format!("publications/{number:016}")).unwrap()
}

fn check(folder: &Path, reading: Reading) -> CheckReport {
    Upkeep::open(folder)
        .unwrap()
        .check(reading, &mut |_| {})
        .unwrap()
}

fn backup(from: &Path, to: &Path) -> Result<BackupReport, Error> {
    Upkeep::open(from).unwrap().backup(from, to, &mut |_| {})
}

/// A server with three objects: 20,000 and 3 bytes of segments, and a publication.
fn filled() -> Place {
    let place = Place::new();
    let vault = place.vault("v");
    for bytes in [vec![7; 20_000], b"abc".to_vec()] {
        assert_eq!(vault.create(&segment(&bytes), bytes).unwrap(), Created::New);
    }
    assert_eq!(
        vault.create(&publication(1), b"one".to_vec()).unwrap(),
        Created::New
    );
    place
}

/// The files with bytes of objects, by their length.
fn files(folder: &Path) -> BTreeMap<u64, PathBuf> {
    let shelves = fs::read_dir(folder.join("objects")).unwrap();
    shelves
        .flat_map(|shelf| fs::read_dir(shelf.unwrap().path()).unwrap())
        .map(|file| file.unwrap())
        .map(|file| (file.metadata().unwrap().len(), file.path()))
        .collect()
}

/// Goal: everything that can be wrong between database and files is named, and nothing on a sound folder. Method: one thing after the other,
/// beside the running server.
#[test]
fn a_check_names_what_is_wrong_and_nothing_else() {
    let place = filled();
    let folder = place.folder.path();
    for reading in [Reading::Content, Reading::Lengths] {
        let expected = CheckReport {
            objects: 3,
            bytes: 20_006,
            ..CheckReport::default()
        };
        assert_eq!(check(folder, reading), expected);
    }
    // Two objects have three bytes: the map keeps one of them.
    let long = files(folder)[&20_000].clone();
    let name = segment(&vec![7; 20_000]);
    let whole = fs::read(&long).unwrap();
    let mut flipped = whole.clone();
    flipped[10_000] ^= 1;
    for (bytes, what, quick) in [
        (
            Some(flipped),
            "its bytes do not have the hash in its name",
            0,
        ),
        (
            Some(whole[..19_999].to_vec()),
            "it has 19999 bytes instead of 20000",
            1,
        ),
        (
            Some([&whole[..], b"x"].concat()),
            "it has 20001 bytes instead of 20000",
            1,
        ),
        (None, "its file is missing from the folder of objects", 1),
    ] {
        match bytes {
            Some(bytes) => fs::write(&long, bytes).unwrap(),
            None => fs::remove_file(&long).unwrap(),
        }
        let found = check(folder, Reading::Content);
        assert_eq!(
            (found.problem_count, found.problems.len()),
            (1, 1),
            "{what}"
        );
        let problem = &found.problems[0];
        let about = (&*problem.account, &*problem.vault, &*problem.object);
        assert_eq!(about, ("anna", "v", name.as_str()));
        assert_eq!(problem.what, what);
        assert_eq!(
            check(folder, Reading::Lengths).problem_count,
            quick,
            "{what}"
        );
    }
    fs::write(&long, whole).unwrap();
    let database = rusqlite::Connection::open(folder.join("server.db")).unwrap();
    for (damage, mend, what) in [
        (
            "UPDATE account SET bytes = bytes + 1",
            "UPDATE account SET bytes = bytes - 1",
            "its usage is not the sum of its objects",
        ),
        (
            "UPDATE vault SET last = 2",
            "UPDATE vault SET last = 1",
            "its newest publication, number 2, is missing",
        ),
    ] {
        database.execute(damage, []).unwrap();
        let found = check(folder, Reading::Lengths);
        assert_eq!(found.problem_count, 1, "{what}");
        assert_eq!(found.problems[0].what, what);
        database.execute(mend, []).unwrap();
    }
    assert_eq!(check(folder, Reading::Content).problem_count, 0);
}

/// Goal: `collect` takes files without an object and nothing else. Method: a file of that kind, one with another name, and objects.
#[test]
fn garbage_is_what_no_object_has() {
    let place = filled();
    let folder = place.folder.path();
    let shelf = folder.join("objects/ab");
    let (garbage, other) = (shelf.join("ab".repeat(16)), shelf.join("notes.txt"));
    fs::write(&garbage, "12345").unwrap();
    fs::write(&other, "somebody's").unwrap();
    let found = check(folder, Reading::Content);
    assert_eq!(
        (
            found.problem_count,
            found.garbage_files,
            found.garbage_bytes
        ),
        (0, 1, 5)
    );
    let upkeep = Upkeep::open(folder).unwrap();
    let one = GarbageReport { files: 1, bytes: 5 };
    assert_eq!(upkeep.collect(Collecting::Count).unwrap(), one);
    assert!(garbage.exists());
    assert_eq!(upkeep.collect(Collecting::Remove).unwrap(), one);
    assert!(!garbage.exists() && other.exists());
    assert_eq!(
        upkeep.collect(Collecting::Remove).unwrap(),
        GarbageReport::default()
    );
    let read = place.vault("v").read(&segment(b"abc"), 3).unwrap();
    assert_eq!(read.unwrap(), b"abc");
}

/// Goal: a backup is a server as good as the first, takes only what is new, and drops what was removed.
#[test]
fn a_backup_serves_what_the_server_had_and_the_next_one_copies_what_is_new() {
    let mut place = filled();
    let folder = place.folder.path().to_owned();
    // With a certificate of its own, which devices know by its fingerprint.
    place.server.take().unwrap().stop();
    let server = start(&folder, Tls::SelfSigned);
    let print = server.fingerprint().unwrap().to_owned();
    server.stop();
    place.server = Some(start(&folder, Tls::Off));
    let vault = place.vault("v");
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("backup");
    let first = backup(&folder, &to).unwrap();
    assert_eq!(
        (
            first.objects,
            first.copied,
            first.copied_bytes,
            first.problem_count
        ),
        (3, 3, 20_006, 0)
    );
    vault.create(&segment(b"new"), b"new".to_vec()).unwrap();
    vault.remove(&segment(b"abc")).unwrap();
    // What an interrupted backup leaves.
    fs::write(to.join("server.db.new"), "half a database").unwrap();
    fs::write(to.join("moving").join("cd".repeat(16)), "half an object").unwrap();
    let next = backup(&folder, &to).unwrap();
    assert_eq!((next.objects, next.copied, next.copied_bytes), (3, 1, 3));
    let found = check(&to, Reading::Content);
    assert_eq!(
        (found.objects, found.problem_count, found.garbage_files),
        (3, 0, 0)
    );
    assert!(!to.join("server.db.new").exists());
    assert_eq!(fs::read_dir(to.join("moving")).unwrap().count(), 0);
    let served = start(&to, Tls::SelfSigned);
    assert_eq!(served.fingerprint().unwrap(), print);
    served.stop();
    let served = start(&to, Tls::Off);
    let url = format!("http://{}@{}/anna/v", place.token, served.address());
    let copy = strongroom_remote::Address::parse(&url)
        .unwrap()
        .open()
        .unwrap();
    assert_eq!(copy.read(&segment(b"new"), 3).unwrap().unwrap(), b"new");
    assert!(!copy.has(&segment(b"abc")).unwrap());
    assert_eq!(
        copy.create(&publication(1), b"1".to_vec()).unwrap(),
        Created::AlreadyThere
    );
    assert!(
        matches!(backup(&folder, &to), Err(Error::InUse)),
        "a server runs on it"
    );
    served.stop();
    assert_eq!(backup(&folder, &to).unwrap().copied, 0);
}

#[test]
fn a_backup_goes_to_a_folder_of_its_own_and_says_what_is_lost() {
    let place = filled();
    let folder = place.folder.path();
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(backup(folder, folder), Err(Error::SameFolder)));
    fs::write(directory.path().join("thesis.txt"), "").unwrap();
    assert!(matches!(
        backup(folder, directory.path()),
        Err(Error::Foreign)
    ));
    assert!(matches!(
        Upkeep::open(directory.path()),
        Err(Error::NoServer)
    ));
    fs::remove_file(&files(folder)[&20_000]).unwrap();
    let made = backup(folder, &directory.path().join("new")).unwrap();
    assert_eq!((made.objects, made.copied, made.problem_count), (3, 2, 1));
    assert_eq!(made.problems[0].object, segment(&vec![7; 20_000]).as_str());
}

/// Goal: a backup beside clients is one state of the server: its database and the bytes of all its objects agree, and publications have no
/// gap. Nothing stays behind at the server. Method: clients that create and remove as fast as they can, and backups into one folder
/// meanwhile. Failed before: where objects were removed faster than they were copied, there was no backup.
#[test]
fn a_backup_beside_clients_is_one_state() {
    let place = filled();
    let folder = place.folder.path();
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("backup");
    let (done, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for client in 0..3_u64 {
            let vault = place.vault("v");
            let (done, changes) = (&done, &changes);
            scope.spawn(move || {
                let _ends = Ends(done);
                let mut last: Option<ObjectName> = None;
                for number in (0_u64..).take_while(|_| !done.load(Ordering::Relaxed)) {
                    let bytes = format!("{client} {number} ").repeat(5_000).into_bytes();
                    let name = segment(&bytes);
                    vault.create(&name, bytes).unwrap();
                    if let Some(last) = last.replace(name) {
                        vault.remove(&last).unwrap();
                    }
                    if client == 0 {
                        vault
                            .create(&publication(number + 2), vec![1; 100])
                            .unwrap();
                    }
                    changes.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let ends = Ends(&done);
        for round in 0..8 {
            let made = backup(folder, &to).unwrap();
            assert_eq!((made.problem_count, made.problems), (0, vec![]), "{round}");
            let found = check(&to, Reading::Content);
            assert_eq!(
                (found.problem_count, found.problems),
                (0, vec![]),
                "{round}"
            );
            assert_eq!(
                (found.objects, found.garbage_files),
                (made.objects, 0),
                "{round}"
            );
            let before = changes.load(Ordering::Relaxed);
            while changes.load(Ordering::Relaxed) < before + 3 {
                assert!(!done.load(Ordering::Relaxed), "a client failed");
                thread::yield_now();
            }
        }
        drop(ends);
    });
    backup(folder, &to).unwrap();
    assert_eq!((place.files("kept"), place.files("moving")), (0, 0));
    assert_eq!(check(folder, Reading::Content).garbage_files, 0);
}

/// Goal: an object that is removed while a backup is made is in the backup, and its file goes afterwards; what came after the backup began
/// takes no space. One backup is made at a time. Method: the removals happen whenever an object was copied.
#[test]
fn what_is_removed_during_a_backup_is_kept_for_it() {
    let place = filled();
    let folder = place.folder.path();
    let vault = place.vault("v");
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("backup");
    // Objects of the second in which the database is copied are kept, too.
    let database = rusqlite::Connection::open(folder.join("server.db")).unwrap();
    database
        .execute("UPDATE object SET created_s = created_s - 60", [])
        .unwrap();
    let mut kept = Vec::new();
    let made = Upkeep::open(folder).unwrap().backup(folder, &to, &mut |_| {
        for bytes in [vec![7; 20_000], b"abc".to_vec()] {
            vault.remove(&segment(&bytes)).unwrap();
        }
        vault.create(&segment(b"new"), b"new".to_vec()).unwrap();
        vault.remove(&segment(b"new")).unwrap();
        let second = backup(folder, &directory.path().join("second"));
        assert!(matches!(second, Err(Error::BackupRunning)), "{second:?}");
        let upkeep = Upkeep::open(folder).unwrap();
        let garbage = upkeep.collect(Collecting::Remove).unwrap();
        assert_eq!(garbage, GarbageReport::default());
        kept.push((place.files("kept"), place.files("moving")));
    });
    let made = made.unwrap();
    assert_eq!((made.objects, made.copied, made.problem_count), (3, 3, 0));
    assert_eq!(kept, [(2, 0); 3]);
    assert_eq!((place.files("kept"), place.files("objects")), (0, 1));
    let found = check(&to, Reading::Content);
    assert_eq!((found.objects, found.problem_count), (3, 0));
}

/// Goal: a killed backup leaves nothing for good. Method: what it may leave, a file of an object that is gone and one whose removal was
/// interrupted, in the folder of a server that starts, and in that of `gc`.
#[test]
fn what_a_killed_backup_kept_is_released() {
    let mut place = filled();
    let folder = place.folder.path().to_owned();
    let object = files(&folder)[&20_000].clone();
    let kept = folder.join("kept");
    for is_restarted in [true, false] {
        fs::write(kept.join("ab".repeat(16)), "garbage").unwrap();
        fs::rename(&object, kept.join(object.file_name().unwrap())).unwrap();
        let read = place.vault("v").read(&segment(&vec![7; 20_000]), 20_000);
        assert_eq!(read.unwrap().unwrap(), vec![7; 20_000]);
        let report = GarbageReport { files: 1, bytes: 7 };
        match is_restarted {
            true => place.restart(),
            false => {
                let upkeep = Upkeep::open(&folder).unwrap();
                assert_eq!(upkeep.collect(Collecting::Count).unwrap(), report);
                assert_eq!(upkeep.collect(Collecting::Remove).unwrap(), report);
            }
        }
        assert_eq!((place.files("kept"), place.files("objects")), (0, 3));
        assert!(object.exists());
    }
}

/// Goal: what somebody puts into the folder of a server in the place of its lock gets nothing changed outside, and who examines a folder
/// changes no owner in it. A lock with a second name, as `cp -al` leaves it, is one: only a backup would write it. Method: as root, with files
/// of another user. Failed before: the file behind a link was given to the owner of the folder, and emptied by a backup; later the server
/// refused every removal while the lock had a second name.
#[test]
fn a_lock_that_is_none_is_refused_and_owners_stay() {
    const OTHER: u32 = 65_534;
    let place = filled();
    let folder = place.folder.path();
    let directory = tempfile::tempdir().unwrap();
    let outside = directory.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    let owner = |path: &Path| fs::symlink_metadata(path).unwrap().uid();
    let before = owner(&outside);
    let is_root = before == 0;
    if is_root {
        chown(folder.join("objects"), Some(OTHER), None).unwrap();
        chown(folder.join("server.db"), Some(OTHER), None).unwrap();
        fs::remove_dir(folder.join("kept")).unwrap();
    }
    let lock = folder.join("backup");
    fs::remove_file(&lock).unwrap();
    Upkeep::open(folder).unwrap();
    if is_root {
        // What is new belongs to the owner of the database; what was there, to whom it did.
        let owners = ["kept", "backup", "objects", "moving"].map(|name| owner(&folder.join(name)));
        assert_eq!(owners, [OTHER, OTHER, OTHER, 0]);
    }
    let is_as_before = || fs::read(&outside).unwrap() == b"precious" && owner(&outside) == before;
    fs::remove_file(&lock).unwrap();
    symlink(&outside, &lock).unwrap();
    let refused = Upkeep::open(folder).unwrap_err().to_string();
    let is_it = refused.starts_with("opening the lock of backups");
    assert!(is_it && is_as_before(), "{refused}");
    fs::remove_file(&lock).unwrap();
    fs::hard_link(&outside, &lock).unwrap();
    let vault = place.vault("v");
    vault.remove(&segment(b"abc")).unwrap();
    let refused = backup(folder, &directory.path().join("to")).unwrap_err();
    let refused = refused.to_string();
    let is_it = refused.starts_with("writing the lock of backups") && refused.contains("2 names");
    assert!(is_it && is_as_before(), "{refused}");
    assert_eq!(check(folder, Reading::Content).objects, 2);
}

/// Goal: a bad sector in one object ends neither a check nor a backup. Method: in the place of its file stands something of which the system
/// gives no byte: the memory of a process, where it begins. Failed before: both ended there, and the backup stayed as old as it was.
#[test]
fn an_object_that_cannot_be_read_ends_neither_a_check_nor_a_backup() {
    let place = filled();
    let folder = place.folder.path();
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("backup");
    let name = segment(&vec![7; 20_000]);
    let long = files(folder)[&20_000].clone();
    let whole = fs::read(&long).unwrap();
    fs::remove_file(&long).unwrap();
    symlink("/proc/self/mem", &long).unwrap();
    let found = check(folder, Reading::Content);
    assert_eq!((found.objects, found.problem_count), (3, 1));
    assert_eq!(found.problems[0].object, name.as_str());
    let what = &found.problems[0].what;
    assert!(what.starts_with("it cannot be read: "), "{what}");
    let made = backup(folder, &to).unwrap();
    assert_eq!((made.objects, made.problem_count), (3, 1));
    assert_eq!(made.problems, found.problems);
    assert_eq!(check(&to, Reading::Content).problem_count, 1);
    fs::remove_file(&long).unwrap();
    fs::write(&long, whole).unwrap();
    let made = backup(folder, &to).unwrap();
    assert_eq!((made.copied, made.problem_count), (1, 0));
    assert_eq!(check(&to, Reading::Content).problem_count, 0);
}

/// Goal: every backup names a damaged object until the backup has it whole, and has meanwhile what there is of it. Failed before: the first
/// one copied it as it was, and the next one took that copy for a good one, also once the server had a good one again.
#[test]
fn a_backup_takes_no_damaged_copy_for_a_good_one() {
    let place = filled();
    let folder = place.folder.path();
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("backup");
    let name = segment(&vec![7; 20_000]);
    let long = files(folder)[&20_000].clone();
    let whole = fs::read(&long).unwrap();
    let mut flipped = whole.clone();
    flipped[10_000] ^= 1;
    fs::write(&long, &flipped).unwrap();
    for _ in 0..2 {
        let made = backup(folder, &to).unwrap();
        assert_eq!((made.objects, made.problem_count), (3, 1));
        assert_eq!(made.problems[0].object, name.as_str());
        let copy = fs::read(&files(&to)[&20_001]).unwrap();
        assert!(copy.starts_with(&flipped));
    }
    fs::write(&long, whole).unwrap();
    let made = backup(folder, &to).unwrap();
    assert_eq!((made.copied, made.problem_count), (1, 0));
    assert_eq!(check(&to, Reading::Content).problem_count, 0);
}

/// Goal: `gc` in the folder of a backup takes nothing from a backup that is being made. Method: `gc` whenever an object was copied; afterwards,
/// beside what an interrupted backup leaves. Failed before: it removed the copies, and the backup lacked them and said nothing.
#[test]
fn gc_takes_no_copy_of_a_backup_that_is_being_made() {
    let place = filled();
    let folder = place.folder.path();
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("backup");
    let gc = || Upkeep::open(&to).unwrap().collect(Collecting::Remove);
    let mut refused = 0;
    let made = Upkeep::open(folder).unwrap().backup(folder, &to, &mut |_| {
        assert!(matches!(gc(), Err(Error::BackupRunning)));
        refused += 1;
    });
    assert_eq!((made.unwrap().problem_count, refused), (0, 3));
    let found = check(&to, Reading::Content);
    assert_eq!((found.objects, found.problem_count), (3, 0));
    fs::write(to.join("server.db.new"), "half a database").unwrap();
    fs::write(to.join("objects/ab").join("ab".repeat(16)), "garbage").unwrap();
    assert_eq!(gc().unwrap(), GarbageReport { files: 1, bytes: 7 });
}

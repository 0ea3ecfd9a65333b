//! A database whose key changes while it is in use.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use strongroom_crypto::{MetadataKey, SystemRandom, reseal_page};
use strongroom_metadata::{Error, InodeId, Rekey, Store};

use crate::fixture::{Folder, create_file, names, small_options};

const ROUNDS: usize = 3;

fn key() -> MetadataKey {
    MetadataKey::random(&SystemRandom).unwrap()
}

/// Puts what was made in `new` in the place of the database in `folder`.
fn put(folder: &Folder, new: &Folder) -> io::Result<()> {
    assert!(
        !folder.file("metadata.db-wal").exists(),
        "(2): nobody has the old database open"
    );
    for name in ["metadata.db-tree", "metadata.db"] {
        fs::rename(new.file(name), folder.file(name))?;
    }
    Ok(())
}

fn rekey(
    store: &Store,
    folder: &Folder,
    old: &MetadataKey,
    new: &MetadataKey,
) -> Result<u64, Error> {
    let into = Folder::new();
    let pages = AtomicU64::new(0);
    store.rekey(&Rekey {
        key: new.bytes(),
        into: &strongroom_folder::Folder::open(into.path()).unwrap(),
        reseal: &|number, page| reseal_page(old, new, &SystemRandom, number, page),
        progress: &|done, count| {
            assert!(done <= count);
            pages.store(done, Ordering::Relaxed);
        },
        put: &|| put(folder, &into),
    })?;
    Ok(pages.into_inner())
}

/// Goal: after the change everything is there under the new key, nothing under the old one, and SQLCipher proves every page that
/// was re-sealed. Method: three changes in a row, with commits in between and behind, and a kill at the end. Failed before: the key of the
/// database stayed for the life of a vault.
/// SECURITY.md, claim 5.
#[test]
fn everything_is_there_under_the_new_key_and_nothing_under_the_old_one() {
    let folder = Folder::new();
    let mut keys = vec![key()];
    let store = Store::create(folder.path(), keys[0].bytes(), small_options()).unwrap();
    let mut expected = Vec::new();
    for round in 0..ROUNDS {
        for number in 0..200 {
            expected.push(format!("{round} {number} {}", "x".repeat(100)));
            create_file(&store, expected.last().unwrap());
        }
        store.lock().commit().unwrap();
        let new = key();
        let pages = rekey(&store, &folder, &keys[round], &new).unwrap();
        assert!(pages > 20, "{pages} pages");
        keys.push(new);
        create_file(&store, &format!("{round} behind"));
        expected.push(format!("{round} behind"));
        store.lock().commit().unwrap();
        assert_eq!(names(&store), expected);
        assert_eq!(
            store
                .reader()
                .unwrap()
                .entries(InodeId::ROOT, 0, usize::MAX)
                .unwrap()
                .len(),
            expected.len()
        );
        assert_eq!(store.integrity_check().unwrap(), [] as [String; 0]);
    }
    let newest = keys.pop().unwrap();
    let killed = folder.copy();
    drop(store);
    for left in [&killed, &folder] {
        for old in &keys {
            let opened = Store::open(left.path(), old.bytes(), small_options());
            assert!(matches!(opened, Err(Error::WrongKey)), "{opened:?}");
        }
        let store = Store::open(left.path(), newest.bytes(), small_options()).unwrap();
        assert_eq!(names(&store), expected);
    }
}

#[test]
fn readers_go_on_during_a_change_and_are_waited_for_at_its_end() {
    let folder = Folder::new();
    let (old, new) = (key(), key());
    let store = Store::create(folder.path(), old.bytes(), small_options()).unwrap();
    create_file(&store, "a");
    store.lock().commit().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let reader = store.reader().unwrap();
                    assert!(reader.entry(InodeId::ROOT, b"a").unwrap().is_some());
                }
            });
        }
        let rekeyed = rekey(&store, &folder, &old, &new);
        done.store(true, Ordering::Relaxed);
        rekeyed.unwrap();
    });
    assert_eq!(names(&store), ["a"]);
}

#[test]
fn a_change_that_cannot_be_made_leaves_the_store_as_it_was() {
    let folder = Folder::new();
    let (old, new) = (key(), key());
    let store = Store::create(folder.path(), old.bytes(), small_options()).unwrap();
    create_file(&store, "a");
    // A snapshot that somebody keeps.
    let reader = store.reader().unwrap();
    let snapshot = reader.snapshot().unwrap();
    assert!(matches!(
        rekey(&store, &folder, &old, &new),
        Err(Error::Busy)
    ));
    drop(snapshot);
    drop(reader);
    // A key that is not the database's opens no page.
    assert!(matches!(
        rekey(&store, &folder, &new, &old),
        Err(Error::Damaged(_))
    ));
    create_file(&store, "b");
    store.lock().commit().unwrap();
    drop(store);
    let store = Store::open(folder.path(), old.bytes(), small_options()).unwrap();
    assert_eq!(names(&store), ["a", "b"]);
}

/// Once the old database is closed there is no way back: the store says that it failed, and the folder opens.
#[test]
fn a_change_that_breaks_off_at_its_end_fails_the_store_and_loses_nothing() {
    let folder = Folder::new();
    let (old, new, into) = (key(), key(), Folder::new());
    let store = Store::create(folder.path(), old.bytes(), small_options()).unwrap();
    create_file(&store, "a");
    let rekeyed = store.rekey(&Rekey {
        key: new.bytes(),
        into: &strongroom_folder::Folder::open(into.path()).unwrap(),
        reseal: &|number, page| reseal_page(&old, &new, &SystemRandom, number, page),
        progress: &|_, _| {},
        put: &|| Err(io::ErrorKind::PermissionDenied.into()),
    });
    assert!(rekeyed.is_err());
    assert!(store.has_failed());
    drop(store);
    let store = Store::open(folder.path(), old.bytes(), small_options()).unwrap();
    assert_eq!(names(&store), ["a"]);
}

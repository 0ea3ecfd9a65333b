//! The database is one state: pages, log and page tree of different states are never read together as one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;

use strongroom_metadata::{
    DiskEvent, DiskFault, DiskObserver, Error, InodeId, MissingTree, Options, Store,
};

use crate::fixture::{FILES, Folder, KEY, create_file, small_options};

const PAGE: usize = 4096;

/// A database of several pages whose settings say which branch they are of, closed.
fn grown(folder: &Folder) {
    let store = folder.create();
    let mut transaction = store.lock();
    for number in 0..60 {
        transaction
            .put_setting(&format!("s{number}"), &value("base", number))
            .unwrap();
    }
    transaction.commit().unwrap();
}

fn value(branch: &str, number: usize) -> Vec<u8> {
    format!("{branch} {number} ").repeat(40).into_bytes()
}

/// Changes some settings; the pages of two branches differ, whole or not.
fn branch(folder: &Folder, name: &str) {
    let store = folder.open();
    let mut transaction = store.lock();
    for number in (0..60).step_by(2) {
        transaction
            .put_setting(&format!("s{number}"), &value(name, number))
            .unwrap();
    }
    transaction.commit().unwrap();
}

/// All that the database says, as far as it says anything.
fn all(store: &Store) -> BTreeMap<usize, Vec<u8>> {
    let reader = store.reader().unwrap();
    let read = |number| Some((number, reader.setting(&format!("s{number}")).ok()??));
    (0..60).filter_map(read).collect()
}

/// Whether what opens in `folder` says nothing that `state` does not say. Gives whether all of it was said.
fn judge(folder: &Folder, state: &BTreeMap<usize, Vec<u8>>, what: &str) -> bool {
    let store = match Store::open(folder.path(), &KEY, small_options()) {
        Ok(store) => store,
        Err(Error::Damaged(_) | Error::WrongKey) => return false,
        Err(error) => panic!("{what}: {error}"),
    };
    let found = all(&store);
    for (number, value) in &found {
        assert_eq!(Some(value), state.get(number), "{what}: setting {number}");
    }
    if found.len() == 60 && !store.integrity_check().unwrap_or_default().is_empty() {
        return false;
    }
    found.len() == 60
}

fn state(folder: &Folder) -> BTreeMap<usize, Vec<u8>> {
    all(&folder.copy().open())
}

fn pages(folder: &Folder) -> u64 {
    fs::metadata(folder.file("metadata.db")).unwrap().len() / PAGE as u64
}

fn put_page(folder: &Folder, number: u64, from: &Folder) {
    let mut page = [0; PAGE];
    let offset = number * PAGE as u64;
    fs::File::open(from.file("metadata.db"))
        .unwrap()
        .read_exact_at(&mut page, offset)
        .unwrap();
    let file = fs::File::options()
        .write(true)
        .open(folder.file("metadata.db"))
        .unwrap();
    file.write_all_at(&page, offset).unwrap();
}

/// Goal: pages of another branch, or of an older state, are never read as if they were this one's. Method: every page, and
/// every pair of pages, of two databases that went on from one. Failed before: each page proved only itself.
/// SECURITY.md, claim 9.
#[test]
fn a_page_of_another_state_is_never_read() {
    let (older, one) = (Folder::new(), Folder::new());
    grown(&older);
    for name in FILES {
        let _ = fs::copy(older.file(name), one.file(name));
    }
    let other = older.copy();
    branch(&one, "one");
    branch(&other, "other");
    let said = state(&one);
    assert_eq!(said.len(), 60);
    let count = pages(&one).min(pages(&other)).min(pages(&older));
    let mut refused = 0;
    for from in [&older, &other] {
        for first in 0..count {
            for second in first..count {
                let mixed = one.copy();
                put_page(&mixed, first, from);
                put_page(&mixed, second, from);
                let differs = [first, second]
                    .iter()
                    .any(|number| page(&one, *number) != page(from, *number));
                let whole = judge(&mixed, &said, &format!("pages {first} and {second}"));
                assert_eq!(
                    whole, !differs,
                    "pages {first} and {second} are not as they were and nothing says so"
                );
                refused += u32::from(!whole);
            }
        }
    }
    assert!(refused > 20, "{refused} mixtures differ");
}

fn page(folder: &Folder, number: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    fs::File::open(folder.file("metadata.db"))
        .unwrap()
        .read_exact_at(&mut page, number * PAGE as u64)
        .unwrap();
    page
}

/// Goal: each file of another state, and each file missing, is an older whole state or an error. Failed before, when a
/// database without its log, or with an older one, was read as far as its pages went together.
/// SECURITY.md, claim 9.
#[test]
fn a_file_of_another_state_gives_that_state_or_an_error() {
    let older = Folder::new();
    grown(&older);
    // Left as a kill leaves them: the newest commit is in the log.
    let one = older.copy();
    let store = one.open();
    store.lock().put_setting("s1", &value("one", 1)).unwrap();
    store.lock().commit().unwrap();
    let killed = one.copy();
    let (old, new) = (state(&older), state(&killed));
    assert_ne!(old, new);
    let sets: Vec<Vec<&str>> = (1..8)
        .map(|set: usize| {
            (0..3)
                .filter(|bit| set >> bit & 1 == 1)
                .map(|bit| FILES[bit])
                .collect()
        })
        .collect();
    for set in sets {
        for missing in [false, true] {
            let mixed = killed.copy();
            for name in &set {
                let _ = fs::remove_file(mixed.file(name));
                if !missing {
                    let _ = fs::copy(older.file(name), mixed.file(name));
                }
            }
            let opened = Store::open(mixed.path(), &KEY, small_options());
            match opened {
                Ok(store) => assert!([&old, &new].contains(&&all(&store)), "{set:?} {missing}"),
                Err(Error::Damaged(_) | Error::Missing) => {}
                Err(error) => panic!("{set:?} {missing}: {error}"),
            }
        }
    }
}

#[test]
fn each_byte_of_the_file_of_leaves_counts() {
    let folder = Folder::new();
    grown(&folder);
    let said = state(&folder);
    let len = fs::metadata(folder.file("metadata.db-tree")).unwrap().len();
    for offset in (0..128).chain((PAGE as u64..len).step_by(7)) {
        let flipped = folder.copy();
        let file = fs::File::options()
            .read(true)
            .write(true)
            .open(flipped.file("metadata.db-tree"))
            .unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
        let within = offset < PAGE as u64 + pages(&folder) * 16;
        let whole = judge(&flipped, &said, &format!("byte {offset}"));
        assert_eq!(whole, !within, "byte {offset}");
    }
}

/// What lies behind the last page is not of the database: however long the file, nothing more is read, and the check says that it
/// is there. Failed before: the check of a database whose file was extended to 1 TiB never ended.
#[test]
fn a_database_file_that_was_extended_costs_nothing() {
    let folder = Folder::new();
    grown(&folder);
    let said = state(&folder);
    for (name, problems) in [("metadata.db", 1), ("metadata.db-tree", 0)] {
        let longer = folder.copy();
        let file = fs::File::options()
            .write(true)
            .open(longer.file(name))
            .unwrap();
        file.set_len(1 << 40).unwrap();
        let store = longer.open();
        assert_eq!(all(&store), said, "{name}");
        assert_eq!(store.integrity_check().unwrap().len(), problems, "{name}");
    }
}

/// Copies the folder before every event.
struct Killer {
    folder: PathBuf,
    copies: Mutex<Vec<Vec<Option<Vec<u8>>>>>,
}

impl DiskObserver for Killer {
    fn before(&self, event: &DiskEvent<'_>) -> Result<(), DiskFault> {
        if !matches!(event, DiskEvent::Read { .. }) {
            let files = FILES
                .iter()
                .map(|name| fs::read(self.folder.join(name)).ok())
                .collect();
            self.copies.lock().unwrap().push(files);
        }
        Ok(())
    }
}

/// Goal: a kill at any moment leaves a database that opens, with a prefix of the commits. Method: the files are copied before
/// each write, sync and truncation of commits, partial and whole checkpoints, and each copy is opened.
#[test]
fn a_kill_before_any_change_of_a_file_leaves_a_prefix_of_the_commits() {
    let folder = Folder::new();
    folder.create();
    let killer = std::sync::Arc::new(Killer {
        folder: folder.path().to_owned(),
        copies: Mutex::default(),
    });
    let options = Options {
        observer: Some(std::sync::Arc::clone(&killer) as _),
        log_bytes: 0,
        ..small_options()
    };
    let store = Store::open(folder.path(), &KEY, options).unwrap();
    let mut names = Vec::new();
    for round in 0..12 {
        let name = format!("file {round}");
        create_file(&store, &name);
        store.lock().commit().unwrap();
        names.push(name);
        if round % 3 == 0 {
            // A reader that looks at an older commit keeps the log from restarting.
            let reader = store.reader().unwrap();
            let snapshot = (round % 2 == 0).then(|| reader.snapshot().unwrap());
            create_file(&store, &format!("between {round}"));
            store.lock().commit().unwrap();
            names.push(format!("between {round}"));
            store.checkpoint().unwrap();
            drop(snapshot);
        }
    }
    drop(store);
    let copies = std::mem::take(&mut *killer.copies.lock().unwrap());
    assert!(copies.len() > 60, "{} moments", copies.len());
    let mut seen = 0;
    for (moment, files) in copies.into_iter().enumerate() {
        let left = Folder::new();
        for (name, bytes) in FILES.iter().zip(files) {
            if let Some(bytes) = bytes {
                fs::write(left.file(name), bytes).unwrap();
            }
        }
        let store = Store::open(left.path(), &KEY, small_options());
        let store = store.unwrap_or_else(|error| panic!("moment {moment}: {error}"));
        let found = names.iter().filter(|name| {
            store
                .lock()
                .entry(InodeId::ROOT, name.as_bytes())
                .unwrap()
                .is_some()
        });
        let found: Vec<_> = found.collect();
        assert_eq!(
            found,
            names.iter().take(found.len()).collect::<Vec<_>>(),
            "moment {moment}"
        );
        assert!(
            found.len() >= seen,
            "moment {moment}: a commit that was there is gone"
        );
        seen = found.len();
        assert_eq!(
            store.integrity_check().unwrap(),
            [] as [String; 0],
            "moment {moment}"
        );
    }
    assert_eq!(seen, names.len());
}

#[test]
fn a_database_without_a_tree_gets_one_only_if_asked_to() {
    let folder = Folder::new();
    grown(&folder);
    let said = state(&folder);
    fs::remove_file(folder.file("metadata.db-tree")).unwrap();
    assert!(matches!(
        Store::open(folder.path(), &KEY, small_options()),
        Err(Error::Damaged(_))
    ));
    let options = Options {
        missing_tree: MissingTree::Made,
        ..small_options()
    };
    let store = Store::open(folder.path(), &KEY, options).unwrap();
    assert_eq!(all(&store), said);
    drop(store);
    assert_eq!(state(&folder), said);
}

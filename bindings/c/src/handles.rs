//! The one table of everything that is open, and the handles that refer to it.
//!
//! Takes   an opened object
//! Gives   a number for it; and later the object for that number
//! Never   uses a number as an address: it is looked up
//!
//! A handle is an index into the table and the generation of that entry. So a handle that was closed, or that a program made
//! up, is noticed. Pointers with a magic number could not ensure that: to check the number, freed memory would be read.
//!
//! Invariants
//!  (1) A generation is used once: an entry that has used up its generations is never filled again.
//!  (2) An object is dropped outside the lock of the table, because closing may wait for a disk or for other processes.
//!  (3) In a process that was forked while anything was open, nothing is open, because the parent's threads and locks
//!      do not exist there.

use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use strongroom::{Directory, File, Keys, Snapshot, Transaction, Vault, Walk};

use crate::border::{Fail, Outcome};
use crate::joining::{Inviting, Joining};
use crate::syncing::Syncing;
use crate::types::{
    sr_continuous_sync, sr_directory, sr_file, sr_invitation, sr_keys, sr_new_device, sr_snapshot,
    sr_transaction, sr_vault, sr_walk,
};

/// Something open.
#[derive(Clone)]
pub(crate) enum Object {
    Vault(Vault),
    File(Arc<File>),
    Directory(Arc<Mutex<Directory>>),
    Walk(Arc<Mutex<Walk>>),
    Snapshot(Snapshot),
    Transaction(Arc<Mutex<Option<Transaction>>>),
    Keys(Arc<Mutex<Keys>>),
    ContinuousSync(Arc<Syncing>),
    Invitation(Arc<Mutex<Inviting>>),
    NewDevice(Arc<Mutex<Joining>>),
}

/// A place of the table.
struct Place {
    generation: u32,
    /// The handle of the vault through which it was opened, 0 for none.
    vault: u64,
    object: Option<Object>,
}

struct Places {
    all: Vec<Place>,
    free: Vec<u32>,
}

static PLACES: RwLock<Places> = RwLock::new(Places {
    all: Vec::new(),
    free: Vec::new(),
});
/// How many places are filled, for the child of a fork, which must not wait for a lock.
static OPEN: AtomicUsize = AtomicUsize::new(0);
static FORKED: AtomicBool = AtomicBool::new(false);
static HOOKED: Once = Once::new();

extern "C" fn in_child() {
    if OPEN.load(Ordering::Acquire) > 0 {
        FORKED.store(true, Ordering::Release); // (3)
    }
}

/// Refuses to open anything in a process that cannot use it.
pub(crate) fn check_not_forked() -> Outcome<()> {
    // SAFETY: the function does nothing but reading and writing an atomic, which every child may.
    HOOKED.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
    match FORKED.load(Ordering::Acquire) {
        true => Err(Fail::Here(
            libc::EOPNOTSUPP,
            "this process was forked while a vault was open; fork before you open a vault, or exec",
        )),
        false => Ok(()),
    }
}

const CLOSED: Fail = Fail::Here(
    libc::EBADF,
    "the handle is closed, was never opened, or is of another kind",
);

fn split(handle: u64) -> (usize, u32) {
    let index = (handle >> 32) as usize;
    (index, handle as u32)
}

/// The generations start at 1, so that a handle of zeros means nothing.
fn join(index: usize, generation: u32) -> u64 {
    ((index as u64) << 32) | u64::from(generation)
}

/// Keeps `object`; gives its handle. `vault`: the handle of the vault that it belongs to, or 0.
///
/// If that vault was closed meanwhile, nothing is kept.
pub(crate) fn keep(object: Object, vault: u64) -> Outcome<u64> {
    let mut places = PLACES.write();
    if vault != 0 && find(&places, vault).is_none() {
        drop(places);
        drop(object); // (2)
        return Err(CLOSED);
    }
    let index = match places.free.pop() {
        Some(index) => index as usize,
        None => {
            let index = places.all.len();
            if u32::try_from(index).is_err() {
                drop(places);
                drop(object);
                return Err(Fail::Here(libc::EMFILE, "too many handles; close some"));
            }
            places.all.push(Place {
                generation: 0,
                vault: 0,
                object: None,
            });
            index
        }
    };
    let place = &mut places.all[index];
    place.generation += 1;
    place.vault = vault;
    place.object = Some(object);
    OPEN.fetch_add(1, Ordering::AcqRel);
    Ok(join(index, place.generation))
}

fn find(places: &Places, handle: u64) -> Option<&Object> {
    let (index, generation) = split(handle);
    let place = places.all.get(index)?;
    place
        .object
        .as_ref()
        .filter(|_| place.generation == generation)
}

/// What `handle` means.
pub(crate) fn get(handle: u64) -> Outcome<Object> {
    if FORKED.load(Ordering::Acquire) {
        return Err(CLOSED);
    }
    find(&PLACES.read(), handle).cloned().ok_or(CLOSED)
}

/// The handle of the vault through which `handle` was opened.
pub(crate) fn vault_of(handle: u64) -> Outcome<u64> {
    get(handle)?;
    let vault = PLACES
        .read()
        .all
        .get(split(handle).0)
        .map(|place| place.vault);
    vault.ok_or(CLOSED)
}

fn empty(places: &mut Places, index: usize) -> Option<Object> {
    let place = &mut places.all[index];
    let object = place.object.take()?;
    OPEN.fetch_sub(1, Ordering::AcqRel);
    if place.generation < u32::MAX {
        // (1)
        places
            .free
            .push(u32::try_from(index).expect("`keep` made it below 2^32"));
    }
    Some(object)
}

/// Closes `handle` if `is_kind` says that it is of the right kind; gives what it meant.
pub(crate) fn take(handle: u64, is_kind: impl Fn(&Object) -> bool) -> Outcome<Object> {
    if FORKED.load(Ordering::Acquire) {
        return Err(CLOSED);
    }
    let mut places = PLACES.write();
    if !find(&places, handle).is_some_and(is_kind) {
        return Err(CLOSED);
    }
    empty(&mut places, split(handle).0).ok_or(CLOSED)
}

/// Closes everything that was opened through the vault `handle`, and that itself; gives it.
pub(crate) fn take_vault(handle: u64) -> Outcome<Vault> {
    let Object::Vault(vault) = take(handle, |object| matches!(object, Object::Vault(_)))? else {
        return Err(CLOSED);
    };
    let mut places = PLACES.write();
    let belonging: Vec<usize> = (0..places.all.len())
        .filter(|index| places.all[*index].vault == handle)
        .collect();
    let objects: Vec<_> = belonging
        .into_iter()
        .filter_map(|index| empty(&mut places, index))
        .collect();
    drop(places);
    drop(objects); // (2)
    Ok(vault)
}

/// For each kind of handle: what it means, and what closes it.
macro_rules! handles {
    ($($name:ident, $variant:ident, $held:ty;)+) => {
        $(impl $name {
            /// What it means.
            pub(crate) fn get(self) -> Outcome<$held> {
                match get(self.id)? {
                    Object::$variant(held) => Ok(held),
                    _ => Err(CLOSED),
                }
            }

            /// Closes it.
            #[allow(dead_code, reason = "vaults are closed by `take_vault`")]
            pub(crate) fn take(self) -> Outcome<$held> {
                match take(self.id, |object| matches!(object, Object::$variant(_)))? {
                    Object::$variant(held) => Ok(held),
                    _ => Err(CLOSED),
                }
            }
        })+
    };
}

handles! {
    sr_vault, Vault, Vault;
    sr_file, File, Arc<File>;
    sr_directory, Directory, Arc<Mutex<Directory>>;
    sr_walk, Walk, Arc<Mutex<Walk>>;
    sr_snapshot, Snapshot, Snapshot;
    sr_transaction, Transaction, Arc<Mutex<Option<Transaction>>>;
    sr_keys, Keys, Arc<Mutex<Keys>>;
    sr_continuous_sync, ContinuousSync, Arc<Syncing>;
    sr_invitation, Invitation, Arc<Mutex<Inviting>>;
    sr_new_device, NewDevice, Arc<Mutex<Joining>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use strongroom::{CreateOptions, SeenRecords};

    fn vault() -> (tempfile::TempDir, Vault) {
        let place = tempfile::tempdir().expect("a folder");
        let options = CreateOptions::new().seen(SeenRecords::Nowhere);
        let created = Vault::create(place.path().join("vault"), options).expect("a vault");
        (place, created.vault)
    }

    /// One table for all tests of this process: each looks at handles of its own only.
    #[test]
    fn a_handle_means_what_was_kept_until_it_is_closed_and_nothing_else() {
        let (_place, vault) = vault();
        let first = sr_vault {
            id: keep(Object::Vault(vault.clone()), 0).ok().expect("room"),
        };
        assert!(first.get().is_ok());
        assert!(sr_file { id: first.id }.get().is_err(), "another kind");
        assert!(sr_file { id: first.id }.take().is_err(), "another kind");
        assert!(sr_vault { id: 0 }.get().is_err());
        assert!(sr_vault { id: first.id + 1 }.get().is_err());
        assert!(sr_vault { id: u64::MAX }.get().is_err());
        assert!(take_vault(first.id).is_ok());
        assert!(first.get().is_err() && take_vault(first.id).is_err());
        // The same place is filled again, under another number.
        let mut handles = Vec::new();
        for _ in 0..1000 {
            let handle = keep(Object::Vault(vault.clone()), 0).ok().expect("room");
            assert!(first.get().is_err());
            assert!(!handles.contains(&handle));
            handles.push(handle);
            assert!(take_vault(handle).is_ok());
        }
    }

    #[test]
    fn what_a_vault_opened_goes_with_it() {
        let (_place, vault) = vault();
        let handle = keep(Object::Vault(vault.clone()), 0).ok().expect("room");
        let listed = || Object::Directory(Arc::new(Mutex::new(vault.list("/").expect("a root"))));
        let listing = keep(listed(), handle).ok().expect("room");
        assert!(get(listing).is_ok());
        assert!(take_vault(handle).is_ok());
        assert!(get(listing).is_err());
        assert!(keep(listed(), handle).is_err(), "the vault is closed");
    }

    /// A place of the last generation is not filled any more.
    #[test]
    fn a_generation_is_used_once() {
        let (_place, vault) = vault();
        let mut places = Places {
            all: vec![Place {
                generation: u32::MAX,
                vault: 0,
                object: Some(Object::Vault(vault)),
            }],
            free: Vec::new(),
        };
        OPEN.fetch_add(1, Ordering::AcqRel);
        assert!(empty(&mut places, 0).is_some());
        assert!(places.free.is_empty());
    }
}

//! The one table of everything that is open, and the handles of Java that refer to it.
//!
//! Takes   an opened object
//! Gives   a number for it; and later the object for that number
//! Never   uses a number as an address: it is looked up
//!
//! Invariants
//!  (1) A number refers to the object that it was given for, or to nothing, because it has the generation of its entry.
//!  (2) An object is dropped outside the lock of the table, because closing may wait for a disk or for other processes.

use std::sync::{Arc, LazyLock};

use jni::sys::jlong;
use parking_lot::{Mutex, RwLock};
use slotmap::{DefaultKey, Key, KeyData, SlotMap};
use strongroom::{ContinuousSync, File, Keys, Snapshot, Transaction, Vault};

use crate::border::{EBADF, Fail, Outcome};
use crate::joining::{Inviting, Joining};
use crate::listings::Listing;

/// Something open.
#[derive(Clone)]
pub(crate) enum Object {
    Vault(Vault),
    Snapshot(Snapshot),
    Transaction(Arc<Mutex<Option<Transaction>>>),
    File(Arc<File>),
    Listing(Arc<Mutex<Listing>>),
    Keys(Arc<Mutex<Keys>>),
    ContinuousSync(Arc<Mutex<Option<ContinuousSync>>>),
    Invitation(Arc<Mutex<Inviting>>),
    NewDevice(Arc<Mutex<Joining>>),
}

struct Open {
    object: Object,
    /// The handle of the vault through which it was opened, 0 for none.
    vault: jlong,
}

static OPEN: LazyLock<RwLock<SlotMap<DefaultKey, Open>>> = LazyLock::new(RwLock::default);

const CLOSED: Fail = Fail::Here(EBADF, "it is closed");

fn key(handle: jlong) -> DefaultKey {
    KeyData::from_ffi(handle.cast_unsigned()).into()
}

/// Keeps `object`; gives its handle. `vault`: the handle of the vault that it belongs to, or 0.
///
/// If that vault was closed meanwhile, nothing is kept.
pub(crate) fn keep(object: Object, vault: jlong) -> Outcome<jlong> {
    let mut open = OPEN.write();
    if vault != 0 && !open.contains_key(key(vault)) {
        drop(open);
        drop(object); // (2)
        return Err(CLOSED);
    }
    let key = open.insert(Open { object, vault });
    Ok(key.data().as_ffi().cast_signed())
}

/// What `handle` means.
pub(crate) fn get(handle: jlong) -> Outcome<Object> {
    let open = OPEN.read();
    let found = open.get(key(handle)).ok_or(CLOSED)?;
    Ok(found.object.clone())
}

/// The handle of the vault that `handle` belongs to; itself if it is one.
pub(crate) fn vault_of(handle: jlong) -> Outcome<jlong> {
    let open = OPEN.read();
    let found = open.get(key(handle)).ok_or(CLOSED)?;
    Ok(match found.object {
        Object::Vault(_) => handle,
        _ => found.vault,
    })
}

/// Closes anything but a vault; gives it, or nothing if it was closed before.
pub(crate) fn take(handle: jlong) -> Option<Object> {
    let mut open = OPEN.write();
    match open.get(key(handle))?.object {
        Object::Vault(_) => None,
        _ => open.remove(key(handle)).map(|taken| taken.object),
    }
}

/// Closes everything that was opened through the vault `handle`, and that itself; gives it, or nothing if it was closed before.
pub(crate) fn take_vault(handle: jlong) -> Option<Vault> {
    let mut open = OPEN.write();
    let Object::Vault(vault) = open.get(key(handle))?.object.clone() else {
        return None;
    };
    let of_vault = |(one, open): (DefaultKey, &Open)| (open.vault == handle).then_some(one);
    let mut going: Vec<DefaultKey> = open.iter().filter_map(of_vault).collect();
    going.push(key(handle));
    let going: Vec<_> = going.into_iter().map(|one| open.remove(one)).collect();
    drop(open);
    drop(going); // (2)
    Some(vault)
}

/// The vault that `handle` means.
pub(crate) fn vault(handle: jlong) -> Outcome<Vault> {
    match get(handle)? {
        Object::Vault(vault) => Ok(vault),
        _ => Err(CLOSED),
    }
}

/// The file that `handle` means.
pub(crate) fn file(handle: jlong) -> Outcome<Arc<File>> {
    match get(handle)? {
        Object::File(file) => Ok(file),
        _ => Err(CLOSED),
    }
}

/// Calls `call` with the transaction that `handle` means.
pub(crate) fn transaction<T>(
    handle: jlong,
    call: impl FnOnce(&mut Transaction) -> Outcome<T>,
) -> Outcome<T> {
    let Object::Transaction(held) = get(handle)? else {
        return Err(CLOSED);
    };
    let mut held = held.lock();
    call(held.as_mut().ok_or(CLOSED)?)
}

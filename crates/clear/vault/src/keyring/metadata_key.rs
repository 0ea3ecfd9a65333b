//! Gives the database a new metadata key after an epoch has begun: anyone who had keys of an earlier epoch may know
//! the old metadata key.
//!
//! Takes   a vault folder whose lock is held, its keys, and the file system that has the database open
//! Gives   a replica file with the new key, put in place together with the database under that key
//! Never   leaves a database that no replica file opens, or uses the old key after it has returned without an error
//! Spec    spec/4-metadata.md, 4.13; spec/1-keys.md, 1.8
//!
//! Invariants
//!  (1) Database and replica file are exchanged in one step. If that step is interrupted, the next opening finishes it.

use std::cell::Cell;
use std::io;
use std::path::Path;

use strongroom_crypto::{Keyring, MetadataKey, Replica, SystemRandom, reseal_page};
use strongroom_metadata::{DATABASE_FILE, MissingTree, Rekey};

use crate::Result;
use crate::folder::switch;
use crate::folder::{Folder, REPLICA, below};

/// What a database without a page tree is: the replica file says whether it is of an earlier version.         [4.12.8]
pub(crate) fn missing_tree(replica: &Replica) -> MissingTree {
    match replica.metadata_key_epoch() {
        Some(_) => MissingTree::Refused,
        None => MissingTree::Made,
    }
}

/// Whether the key may be known to somebody who has no other key of the vault any more.                     [4.13.3]
fn is_behind(keyring: &Keyring, replica: &Replica) -> bool {
    replica
        .metadata_key_epoch()
        .is_none_or(|drawn| drawn < keyring.epoch())
}

/// How many bytes of the database of the vault in `vault` have its new key already, and of how many; `None` if its key does
/// not change at this moment.
///
/// For the eyes of a person who waits for a change of keys, in whatever process it is made: only lengths of files are looked at.
#[must_use]
pub fn rekey_progress(vault: &Path) -> Option<(u64, u64)> {
    let folder = Folder::new(vault);
    let len = |folder: &Folder| folder.hold().ok()?.check_file(DATABASE_FILE).ok()?;
    let done = len(&switch::making(&folder))?;
    Some((done, len(&folder)?.max(done)))
}

/// Gives the database another key if its own was drawn in an earlier epoch than the newest; gives the replica in use then.
///
/// O(pages of the database); needs room for a second one. `rekey` carries it out on whatever has the database open.
///
/// # Errors
/// Those of the disk, and of a database that somebody reads for too long. The old key stays in use then; the next opening for
/// writing tries again.
pub(crate) fn renew(
    folder: &Folder,
    keyring: &Keyring,
    replica: &Replica,
    rekey: impl FnOnce(&Rekey<'_>) -> Result<()>,
) -> Result<Option<Replica>> {
    if !is_behind(keyring, replica) {
        return Ok(None);
    }
    let renewed = replica.clone();
    let renewed = renewed.with_metadata_key(MetadataKey::random(&SystemRandom)?, keyring.epoch());
    let sealed = keyring.seal_replica(&renewed, &SystemRandom)?;
    let making = switch::begin(folder)?;
    making.replace(REPLICA, &sealed)?;
    let into = making.hold().map_err(below("making the new database"))?;
    let is_put = Cell::new(false);
    let (old, new) = (replica.metadata_key(), renewed.metadata_key());
    let done = rekey(&Rekey {
        key: new.bytes(),
        into: &into,
        reseal: &|number, page| reseal_page(old, new, &SystemRandom, number, page),
        progress: &|done, pages| log::debug!("{done} of {pages} pages have the new key"),
        put: &|| {
            is_put.set(true);
            switch::commit_rekeyed(folder, &making).map_err(io::Error::other) // (1)
        },
    });
    if !is_put.get() {
        switch::abandon(folder)?;
        return done.map(|()| None);
    }
    done?;
    Ok(Some(keyring.open_replica(&sealed)?))
}

//! Brings the header and the replica file of a vault back: the newest that is left, or a new replica file.
//!
//! Takes   a vault folder that nobody has open, and a secret
//! Gives   an unlocked keyring, the facts of this copy, and the files to write for them
//! Never   writes anything. Never uses a database key that is known to somebody whose own key was removed, unless the
//!         user accepts the folder
//! Spec    spec/7-recovery.md, 7.6

use strongroom_crypto::{
    Changed, Keyring, MetadataKey, Replica, Secret, SystemRandom, UnlockError, unlock,
};
use strongroom_format::ReplicaFile;

use crate::folder::{Folder, HEADER, REPLICA};
use crate::keyring::own_replica::Files;
use crate::recovery::report::Brought;
use crate::request::Access;
use crate::seen::{Trust, Watch};
use crate::{Error, Result};

/// Files to be replaced, in this order.
pub(super) type Writes = Vec<(&'static str, Vec<u8>)>;

/// Unlocks the newest header that is left.
pub(super) fn bring_header(
    folder: &Folder,
    secret: &Secret,
    trust: &Trust,
    writes: &mut Writes,
) -> Result<(Keyring, Brought)> {
    // Before anything is put back: nothing is done in a vault that nobody means.
    let watch = |keyring: &Keyring| Watch::begin(folder, keyring, Access::ReadOnly, trust);
    let check = |keyring: &Keyring| watch(keyring)?.check_head(keyring);
    let present = folder.header();
    let saved = folder.saved(HEADER).ok().flatten();
    // Each try at a passphrase costs a second: the same bytes are tried once.
    let differs = |saved: &&[u8]| !matches!(&present, Ok(present) if present == saved);
    let from_saved = saved
        .as_deref()
        .filter(differs)
        .map(|saved| unlock(saved, secret, None));
    let unlocked = present.and_then(|_| Files::read(folder)?.unlock(secret));
    match (unlocked, from_saved) {
        // An older header was put in the place of a newer one.
        (Ok(keyring), Some(Ok(newer)))
            if newer.generation() > keyring.generation() && newer.includes(&keyring) =>
        {
            check(&newer)?;
            writes.extend(saved.map(|saved| (HEADER, saved)));
            Ok((newer, Brought::PutBack))
        }
        (Ok(keyring), _) => watch(&keyring).map(|_| (keyring, Brought::Sound)),
        (Err(Error::Damaged { .. } | Error::HeaderLost { .. }), Some(Ok(keyring))) => {
            check(&keyring)?;
            writes.extend(saved.map(|saved| (HEADER, saved)));
            Ok((keyring, Brought::PutBack))
        }
        (
            Err(Error::Damaged { .. } | Error::HeaderLost { .. }),
            Some(Err(error @ (UnlockError::WrongSecret { .. } | UnlockError::Format(_)))),
        ) => Err(error.into()),
        (Err(error), _) => Err(error),
    }
}

/// Who can know the key of the database that a replica file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatabaseKey {
    /// Members, or nobody yet.
    OfMembers,
    /// Somebody whose key was removed, too: the file was replaced by a new one with another key.
    KnownToRemoved,
}

/// The replica file, its second copy, or a new one, which acts as a new device. `accepts_older`: the user says that what lies in the folder
/// is what they put there.                                                                              [7.6.2]
pub(super) fn bring_replica(
    folder: &Folder,
    keyring: &mut Keyring,
    accepts_older: bool,
    writes: &mut Writes,
) -> Result<(Replica, Brought, DatabaseKey)> {
    let files = Files::beside_header(folder);
    match files.replica_of(keyring) {
        Ok(replica) => return Ok((replica, Brought::Sound, DatabaseKey::OfMembers)),
        // Not the replica file is at fault: a new one would give the vault to whoever put that header there.
        Err(error @ Error::Damaged { what: HEADER, .. }) => return Err(error),
        Err(_) => {}
    }
    let saved = folder.saved(REPLICA).ok().flatten();
    let opened = saved.as_deref().map(|saved| keyring.open_replica(saved));
    if let Some(Ok(replica)) = &opened
        && keyring.act_as(replica).is_ok()
    {
        let replica = replica.clone();
        writes.extend(saved.map(|saved| (REPLICA, saved)));
        return Ok((replica, Brought::PutBack, DatabaseKey::OfMembers));
    }
    for bytes in [files.replica.as_deref().ok(), saved.as_deref()] {
        check_is_ruined(keyring, bytes)?;
    }
    // One whose device was removed still has the name of this copy and the key of its database.
    let present = files.replica.ok();
    let present = present.and_then(|bytes| keyring.open_replica(&bytes).ok());
    let kept = present.or_else(|| opened.and_then(std::result::Result::ok));
    let Changed {
        header,
        keyring: next,
        ..
    } = keyring
        .add_device(&SystemRandom)
        .map_err(|error| Error::Keys(error.to_string()))?;
    let mut database_key = DatabaseKey::OfMembers;
    let replica = match kept {
        Some(kept) if accepts_older || next.is_unknown_to_retired(&kept) => {
            next.replica_of_device(&kept)
        }
        Some(kept) => {
            database_key = DatabaseKey::KnownToRemoved;
            let key = MetadataKey::random(&SystemRandom)?;
            next.replica_of_device(&kept)
                .with_metadata_key(key, next.epoch())
        }
        None => next
            .new_replica(&SystemRandom)
            .map_err(|error| Error::Keys(error.to_string()))?,
    };
    // The header first: it opens every replica file, and a device without one harms nobody.
    writes.push((HEADER, header));
    writes.push((REPLICA, next.seal_replica(&replica, &SystemRandom)?));
    *keyring = next;
    Ok((replica, Brought::Rebuilt(None), database_key))
}

/// Refuses to give up a replica file that is as it was written, of this vault, of an epoch that the header knows, and does not
/// open: somebody put another header in the place of this vault's, and would get a database of its own.
fn check_is_ruined(keyring: &Keyring, replica: Option<&[u8]>) -> Result<()> {
    let Some(Ok(file)) = replica.map(ReplicaFile::decode) else {
        return Ok(());
    };
    let is_known = file.vault == keyring.vault_id() && keyring.epoch_key(file.epoch).is_some();
    let opened = replica.map(|bytes| keyring.open_replica(bytes));
    if !is_known || matches!(opened, Some(Ok(_))) {
        return Ok(());
    }
    let why = "it does not belong to vault.json: one of the two was replaced, perhaps by the header of an earlier state or of another vault; put the \
         right file back. If you know that vault.json is the right one, remove replica.json and replica.json.saved, then run `strongroom repair` \
         again";
    Err(Error::Damaged {
        what: REPLICA,
        why: why.to_owned(),
    })
}

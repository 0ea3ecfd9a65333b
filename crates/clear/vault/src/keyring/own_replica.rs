//! Finds the replica file that belongs to the header, even if a change of keys was interrupted while it wrote these two.
//!
//! Takes   a vault folder
//! Gives   the header and the replica file of one moment; if an interruption left a replica file as
//!         `replica.json.next`, it is renamed to `replica.json`
//! Never   writes if the caller only looks
//! Spec    spec/1-keys.md, [1.8.5]
//!
//! Invariants
//!  (1) A replica file is used only if its device is a member according to the header in use.

use strongroom_crypto::{Keyring, Replica, Secret, SystemRandom, UnlockError};
use strongroom_format::{Header, ReplicaFile};

use crate::folder::{Folder, HEADER, REPLICA, REPLICA_NEXT};
use crate::{Error, Result};

/// How often the files are read until nobody changes keys meanwhile.
const READS_MAX: u32 = 64;

/// The small files of a vault, of one moment.
pub(crate) struct Files {
    pub(crate) header: Vec<u8>,
    pub(crate) replica: Result<Vec<u8>>,
    /// What a change of keys wrote beside the replica file.
    pub(crate) next: Option<Vec<u8>>,
}

impl Files {
    /// Reads them. A process that changes keys makes the next replica durable, then the header, then renames the replica: read in
    /// the same order under an unchanged header, one of the two replica files is the header's.
    pub(crate) fn read(folder: &Folder) -> Result<Self> {
        let mut header = folder.header()?;
        for _ in 0..READS_MAX {
            let next = folder.next_replica();
            let replica = folder.replica();
            let again = folder.header()?;
            if again == header {
                return Ok(Self {
                    header,
                    replica,
                    next,
                });
            }
            header = again;
        }
        Err(Error::KeysContended)
    }

    /// The same without the header, for one who holds the lock and knows what becomes of the header.
    pub(crate) fn beside_header(folder: &Folder) -> Self {
        Self {
            header: Vec::new(),
            replica: folder.replica(),
            next: folder.next_replica(),
        }
    }

    /// Unlocks the header with the secret alone. Where that fails, and the replica file is of another vault than the header, one of
    /// them was replaced, and the secret need not be wrong.
    pub(crate) fn unlock(&self, secret: &Secret) -> Result<Keyring> {
        let kind = match strongroom_crypto::unlock(&self.header, secret, None) {
            Err(UnlockError::WrongSecret { kind }) => kind,
            unlocked => return Ok(unlocked?),
        };
        let header = Header::decode(&self.header).map(|header| header.header.vault);
        let replica = self.replica.as_deref().ok().map(ReplicaFile::decode);
        match (header, replica) {
            (Ok(header), Some(Ok(replica))) if header != replica.vault => Err(Error::Damaged {
                what: HEADER,
                why: format!(
                    "it is from another vault than replica.json, so one of the two files was replaced; put the right file back (the {kind} does not open the vault of this vault.json)"
                ),
            }),
            _ => Err(UnlockError::WrongSecret { kind }.into()),
        }
    }

    /// The replica that belongs to `keyring`, which acts as its device from then on.                          (1)
    pub(crate) fn replica_of(&self, keyring: &mut Keyring) -> Result<Replica> {
        let in_place = match &self.replica {
            Ok(bytes) => open(keyring, bytes).map_err(of_replica),
            Err(error) => Err(again(error)),
        };
        if let Ok(bytes) = &self.replica {
            check_header_is_as_new(keyring, bytes)?;
        }
        let failed = match in_place {
            Ok(replica) => return Ok(replica),
            Err(error) => error,
        };
        // Only where the file in its place does not serve, and only one that was sealed for this very header.
        let next = self.next.as_deref().map(|bytes| open(keyring, bytes));
        match next {
            Some(Ok(replica)) if replica.epoch() == keyring.epoch() => Ok(replica),
            _ => Err(failed),
        }
    }
}

fn open(keyring: &mut Keyring, bytes: &[u8]) -> std::result::Result<Replica, UnlockError> {
    let replica = keyring.open_replica(bytes)?;
    keyring.act_as(&replica)?;
    Ok(replica)
}

/// A replica file of a later epoch than the header knows says that the header is not the newest: without this it would seem that
/// the replica file is the wrong one, and a recovery would give it up.
fn check_header_is_as_new(keyring: &Keyring, replica: &[u8]) -> Result<()> {
    let Ok(file) = ReplicaFile::decode(replica) else {
        return Ok(());
    };
    if file.vault != keyring.vault_id() || file.epoch <= keyring.epoch() {
        return Ok(());
    }
    let (found, epoch) = (keyring.epoch().0, file.epoch.0);
    Err(Error::Damaged {
        what: HEADER,
        why: format!(
            "this is an older or foreign header (of an earlier state, or of another vault): it ends with epoch {found}, but replica.json has epoch \
             {epoch}; put the newer vault.json back"
        ),
    })
}

/// The same error once more: those of the system cannot be cloned.
fn again(error: &Error) -> Error {
    match error {
        Error::Damaged { what, why } => Error::Damaged {
            what,
            why: why.clone(),
        },
        Error::Io { what, source } => Error::Io {
            what,
            source: source.kind().into(),
        },
        other => Error::Damaged {
            what: REPLICA,
            why: other.to_string(),
        },
    }
}

/// Makes `replica` the file in the folder, sealed under the newest epoch, and clears what a cut left; gives it as it is
/// there then.
pub(crate) fn settle(folder: &Folder, keyring: &Keyring, replica: &Replica) -> Result<Replica> {
    let in_place = folder.replica().ok();
    let in_place = in_place.and_then(|bytes| keyring.open_replica(&bytes).ok());
    let serves = in_place.is_some_and(|found| {
        found.device() == replica.device() && found.epoch() == keyring.epoch()
    });
    let mut settled = replica.clone();
    if !serves {
        let sealed = keyring.seal_replica(replica, &SystemRandom)?;
        folder.replace(REPLICA, &sealed)?;
        settled = keyring.open_replica(&sealed)?;
    }
    // What is left there belongs to a change that never was, or is in its place by now.
    folder.remove_if_there(REPLICA_NEXT)?;
    Ok(settled)
}

/// Names the file that it was about: the same error of the header names that.
fn of_replica(error: UnlockError) -> Error {
    match error.into() {
        Error::Damaged { why, .. } => Error::Damaged { what: REPLICA, why },
        other => other,
    }
}

/// Writes the second copies of header and replica file: no older header, with its keys, stays beside a newer one.
pub(crate) fn save_copies(folder: &Folder) -> Result<()> {
    folder.save(HEADER, &folder.header()?)?;
    folder.save(REPLICA, &folder.replica()?)
}

//! Turns the private data of one copy of a vault into `replica.json` and back: its random name (the instance id),
//! its device, its metadata key.
//!
//! Takes   a keyring, and the bytes of the file or the values for it
//! Gives   the reverse: values for bytes, bytes for values
//! Never   gives out the metadata key or the device's seed unsealed
//! Spec    spec/1-keys.md, section 1.8
//!
//! Invariants
//!  (1) The sealed part repeats the instance id, so that parts of two files cannot be combined.  [1.8.3]
//!  (2) A file is refused if it says that its metadata key is from a later epoch than the one under which the file is
//!      sealed.                                                                                  [1.8.1]

use crate::keyring::Keyring;
use crate::keyring::error::{KeyError, UnlockError};
use crate::keyring::unlock::open_grants;
use crate::locked::Locked;
use crate::membership::principal::{Principal, SEED_BYTES};
use crate::random::{Random, RandomError};
use strongroom_format::{Epoch, InstanceId, Kind, PrincipalId, ReplicaFile, ReplicaFormat, Role};
use zeroize::Zeroizing;

/// Bytes of a metadata key: what SQLCipher takes as key (32), HMAC key (32) and salt (16).
pub const METADATA_KEY_BYTES: usize = 80;
/// Bytes of an instance id.
const INSTANCE_BYTES: usize = 16;
/// Bytes of the sealed part in format 1: instance id, device seed, metadata key.
const CLEAR_BYTES_ONE: usize = INSTANCE_BYTES + SEED_BYTES + METADATA_KEY_BYTES;
/// In format 2: these, and the epoch of the metadata key.
const CLEAR_BYTES: usize = CLEAR_BYTES_ONE + 4;

/// The raw key of one replica's metadata database. Wiped when dropped, never shown.
#[derive(Clone)]
pub struct MetadataKey(Locked<METADATA_KEY_BYTES>);

/// What one copy of a vault keeps for itself.
#[derive(Clone)]
pub struct Replica {
    instance: InstanceId,
    device: Principal,
    metadata_key: MetadataKey,
    /// `None`: nobody kept it, as in files of format 1.
    metadata_key_epoch: Option<Epoch>,
    epoch: Epoch,
}

impl std::fmt::Debug for MetadataKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MetadataKey(..)")
    }
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Replica({:?}, {:?}, ..)",
            self.instance, self.device
        )
    }
}

impl MetadataKey {
    /// A new key.
    ///
    /// # Errors
    /// `RandomError` if the source fails.
    pub fn random(random: &dyn Random) -> Result<Self, RandomError> {
        Locked::filled(|bytes| random.fill(bytes)).map(Self)
    }

    /// The key itself, for the database and nothing else.
    #[must_use]
    pub fn bytes(&self) -> &[u8; METADATA_KEY_BYTES] {
        self.0.bytes()
    }
}

impl Replica {
    /// The name of this copy.
    #[must_use]
    pub const fn instance(&self) -> InstanceId {
        self.instance
    }

    /// The device that this copy acts as.
    #[must_use]
    pub const fn device(&self) -> PrincipalId {
        self.device.id()
    }

    /// The key of its metadata database.
    #[must_use]
    pub const fn metadata_key(&self) -> &MetadataKey {
        &self.metadata_key
    }

    /// The epoch its file is sealed under. If it is behind the keyring's, seal and write the file again.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// This replica under a new name, for a folder that is a copy of another one.
    ///
    /// # Errors
    /// `RandomError` if `random` fails.
    pub fn with_new_instance(mut self, random: &dyn Random) -> Result<Self, RandomError> {
        random.fill(&mut self.instance.0)?;
        Ok(self)
    }

    /// The epoch in which the metadata key was drawn: whoever was removed since may know it if it is behind the
    /// keyring's. `None` in a file of format 1, which did not keep it.
    #[must_use]
    pub const fn metadata_key_epoch(&self) -> Option<Epoch> {
        self.metadata_key_epoch
    }

    /// This replica with another metadata key, drawn in `epoch`, for when the database was encrypted under it.
    #[must_use]
    pub fn with_metadata_key(mut self, metadata_key: MetadataKey, epoch: Epoch) -> Self {
        self.metadata_key = metadata_key;
        self.metadata_key_epoch = Some(epoch);
        self
    }
}

impl Keyring {
    /// A new replica of this vault: a new name, a new metadata key, and the device that this keyring acts as.
    ///
    /// # Errors
    /// `NotADevice` if only a key slot unlocked it (`add_device` comes first), or `Random`.
    pub fn new_replica(&self, random: &dyn Random) -> Result<Replica, KeyError> {
        self.device().ok_or(KeyError::NotADevice)?;
        let mut instance = InstanceId([0; INSTANCE_BYTES]);
        random.fill(&mut instance.0)?;
        let metadata_key = MetadataKey::random(random)?;
        Ok(Replica {
            instance,
            device: self.signer.clone(),
            metadata_key,
            metadata_key_epoch: Some(self.epoch()),
            epoch: self.epoch(),
        })
    }

    /// `replica` as the device that this keyring acts as: same name, same metadata key.
    #[must_use]
    pub fn replica_of_device(&self, replica: &Replica) -> Replica {
        Replica {
            device: match self.device() {
                Some(_) => self.signer.clone(),
                None => replica.device.clone(),
            },
            ..replica.clone()
        }
    }

    /// The content of `replica.json` for `replica`, sealed under the newest epoch.
    ///
    /// # Errors
    /// `RandomError` if `random` fails.
    pub fn seal_replica(
        &self,
        replica: &Replica,
        random: &dyn Random,
    ) -> Result<Vec<u8>, RandomError> {
        // What format 1 did not keep cannot be said in format 2.
        let format = match replica.metadata_key_epoch {
            None => ReplicaFormat::One,
            Some(_) => ReplicaFormat::Two,
        };
        let mut clear = Zeroizing::new(Vec::with_capacity(CLEAR_BYTES));
        clear.extend_from_slice(&replica.instance.0);
        clear.extend_from_slice(replica.device.seed().as_slice());
        clear.extend_from_slice(replica.metadata_key.bytes());
        if let Some(epoch) = replica.metadata_key_epoch {
            clear.extend_from_slice(&epoch.0.to_le_bytes());
        }
        let sealer = self.block_sealer();
        let sealed = sealer.seal_record(random, Kind::ReplicaKey, clear.as_slice())?;
        let file = ReplicaFile {
            format,
            vault: self.vault_id(),
            instance: replica.instance,
            epoch: sealer.epoch(),
            sealed,
        };
        Ok(file.encode())
    }

    /// The replica in `bytes`, the content of a `replica.json`.
    ///
    /// # Errors
    /// `Damaged` or `Format` about the file, `ReplicaForged` if it is another vault's, was edited, is sealed under an
    /// epoch that was forgotten, or says that its metadata key was drawn in a later one.
    pub fn open_replica(&self, bytes: &[u8]) -> Result<Replica, UnlockError> {
        let file = ReplicaFile::decode(bytes)?;
        if file.vault != self.vault_id() {
            return Err(UnlockError::ReplicaForged);
        }
        let opened = self
            .block_sealer()
            .open_record(file.epoch, Kind::ReplicaKey, &file.sealed);
        let clear = opened.map_err(|_| UnlockError::ReplicaForged)?;
        let clear_bytes = match file.format {
            ReplicaFormat::One => CLEAR_BYTES_ONE,
            ReplicaFormat::Two => CLEAR_BYTES,
        };
        if clear.len() != clear_bytes || clear[..INSTANCE_BYTES] != file.instance.0 {
            return Err(UnlockError::ReplicaForged);
        }
        let (own, epoch) = clear.split_at(CLEAR_BYTES_ONE);
        let (seed, key) = own[INSTANCE_BYTES..].split_at(SEED_BYTES);
        let fits = "the length was compared";
        let metadata_key = MetadataKey(Locked::copy_of(key.try_into().expect(fits)));
        let device = Principal::from_seed(Locked::copy_of(seed.try_into().expect(fits)));
        let metadata_key_epoch = epoch.first_chunk();
        let metadata_key_epoch = metadata_key_epoch.map(|epoch| Epoch(u32::from_le_bytes(*epoch)));
        // Whoever was removed can seal under the epochs before that, and would have a key of his taken for a later one.     (2)
        if metadata_key_epoch.is_some_and(|drawn| drawn > file.epoch) {
            return Err(UnlockError::ReplicaForged);
        }
        Ok(Replica {
            instance: file.instance,
            device,
            metadata_key,
            metadata_key_epoch,
            epoch: file.epoch,
        })
    }

    /// Whether nobody who is retired by now can know the key of the database in `replica`.
    #[must_use]
    pub fn is_unknown_to_retired(&self, replica: &Replica) -> bool {
        let drawn_in = replica.metadata_key_epoch().unwrap_or(Epoch(0));
        drawn_in >= self.membership.unknown_to_retired_from()
    }

    /// Acts as the device of `replica` from now on, so that keys can be changed. Each grant to it is opened.
    ///
    /// # Errors
    /// `DeviceRemoved` if that device is not or no longer a member: `add_device` makes a new one. `GrantMissing` or
    /// `GrantForged` if it lacks the keys of an epoch that is in use.
    pub fn act_as(&mut self, replica: &Replica) -> Result<(), UnlockError> {
        if !self.membership.is(replica.device(), Role::Device) {
            return Err(UnlockError::DeviceRemoved);
        }
        open_grants(&self.header, &self.membership, &replica.device)?;
        self.signer = replica.device.clone();
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Turns what one copy of a vault keeps for itself into `replica.json` and back: its name, its device, its metadata key.
//!
//! Takes   a keyring, and the bytes of the file or the values for it
//! Gives   the other of the two
//! Never   lets the metadata key or the device's seed out unsealed
//! Spec    spec/1-keys.md, section 1.8
//!
//! Invariants
//!  (1) The sealed part repeats the instance id, so parts of two files cannot be put together.  [1.8.3]

use crate::error::{KeyError, UnlockError};
use crate::keyring::Keyring;
use crate::locked::Locked;
use crate::principal::{Principal, SEED_BYTES};
use crate::random::{Random, RandomError};
use strongroom_format::{Epoch, InstanceId, Kind, PrincipalId, ReplicaFile, Role};
use zeroize::Zeroizing;

/// Bytes of a metadata key: what SQLCipher takes as key (32), HMAC key (32) and salt (16).
pub const METADATA_KEY_BYTES: usize = 80;
/// Bytes of an instance id.
const INSTANCE_BYTES: usize = 16;
/// Bytes of the sealed part: instance id, device seed, metadata key.
const CLEAR_BYTES: usize = INSTANCE_BYTES + SEED_BYTES + METADATA_KEY_BYTES;

/// The raw key of one replica's metadata database. Wiped when dropped, never shown.
#[derive(Clone)]
pub struct MetadataKey(Locked<METADATA_KEY_BYTES>);

/// What one copy of a vault keeps for itself.
#[derive(Clone)]
pub struct Replica {
    instance: InstanceId,
    device: Principal,
    metadata_key: MetadataKey,
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

    /// The key as SQLCipher's `PRAGMA key` takes a raw one: `x'` and exactly 160 hexadecimal digits and `'`.
    ///
    /// SQLCipher takes a text of any other length for a passphrase, without a word.
    #[must_use]
    pub fn to_sqlcipher_raw_key(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(2 * METADATA_KEY_BYTES + 3));
        text.push_str("x'");
        for byte in self.bytes() {
            for nibble in [byte >> 4, byte & 15] {
                text.push(
                    char::from_digit(u32::from(nibble), 16)
                        .expect("(hex) holds: four bits are a digit"),
                );
            }
        }
        text.push('\'');
        assert_eq!(
            text.len(),
            2 * METADATA_KEY_BYTES + 3,
            "a raw key of another length would be taken for a passphrase"
        );
        text
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

    /// This replica with another metadata key, for when the database was exported under it.
    #[must_use]
    pub fn with_metadata_key(mut self, metadata_key: MetadataKey) -> Self {
        self.metadata_key = metadata_key;
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
            epoch: self.epoch(),
        })
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
        let mut clear = Zeroizing::new([0; CLEAR_BYTES]);
        let (instance, rest) = clear.split_at_mut(INSTANCE_BYTES);
        let (seed, key) = rest.split_at_mut(SEED_BYTES);
        instance.copy_from_slice(&replica.instance.0);
        seed.copy_from_slice(replica.device.seed());
        key.copy_from_slice(replica.metadata_key.bytes());
        let sealer = self.block_sealer();
        let sealed = sealer.seal_record(random, Kind::ReplicaKey, clear.as_slice())?;
        let file = ReplicaFile {
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
    /// `Damaged` or `Format` about the file, `ReplicaForged` if it is another vault's, was edited, or is sealed
    /// under an epoch that was forgotten.
    pub fn open_replica(&self, bytes: &[u8]) -> Result<Replica, UnlockError> {
        let file = ReplicaFile::decode(bytes)?;
        if file.vault != self.vault_id() {
            return Err(UnlockError::ReplicaForged);
        }
        let opened = self
            .block_sealer()
            .open_record(file.epoch, Kind::ReplicaKey, &file.sealed);
        let clear = opened.map_err(|_| UnlockError::ReplicaForged)?;
        if clear.len() != CLEAR_BYTES || clear[..INSTANCE_BYTES] != file.instance.0 {
            return Err(UnlockError::ReplicaForged);
        }
        let (seed, key) = clear[INSTANCE_BYTES..].split_at(SEED_BYTES);
        let fits = "the length was compared";
        let metadata_key = MetadataKey(Locked::copy_of(key.try_into().expect(fits)));
        let device = Principal::from_seed(Locked::copy_of(seed.try_into().expect(fits)));
        Ok(Replica {
            instance: file.instance,
            device,
            metadata_key,
            epoch: file.epoch,
        })
    }

    /// Acts as the device of `replica` from now on, so that keys can be changed.
    ///
    /// # Errors
    /// `NoSuchDevice` if that device is not or no longer a member: `add_device` makes a new one.
    pub fn act_as(&mut self, replica: &Replica) -> Result<(), KeyError> {
        if !self.membership.is(replica.device(), Role::Device) {
            return Err(KeyError::NoSuchDevice);
        }
        self.signer = replica.device.clone();
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! The messages of pairing, by which an old device lets a new one into a vault: the new one's request and the old one's answer.
//!
//! Takes   the values of a message, or bytes from anywhere
//! Gives   bytes for values, values for bytes
//! Never   judges keys or a slot: the crates above, which have keys, do
//! Spec    spec/11-sync.md, section 11.7
//!
//! Invariants
//!  (1) A request has one encoding, so that both devices show the same fingerprint of it.      [11.7.6]

use crate::cbor::{Decoder, Encoder};
use crate::limits::{KEM_PUBLIC_BYTES, LABEL_BYTES_MAX, SLOT_SEALED_BYTES_MAX};
use crate::{Argon2Parameters, FormatError, Lock, PublicKeys, Slot, SlotId, VaultId, hex};

/// What errors call both.
const WHAT: &str = "pairing message";

/// BLAKE3 context of the hash of a request that people compare. It hashes public bytes, so it is no key.
const FINGERPRINT_CONTEXT: &str = "strongroom format 1 2026-11-25 pairing fingerprint";

/// Bytes of that hash that are shown. Whoever sits between two devices has minutes to find another request with the same ones.
const FINGERPRINT_BYTES: usize = 10;

/// The version inside each message.
const FORMAT: u64 = 1;

/// What a new device asks for: to be a member, with a key slot of its own. All of it is public.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// The vault that it means.
    pub vault: VaultId,
    /// The public keys of the device.
    pub device: PublicKeys,
    /// The public keys of the slot.
    pub slot_keys: PublicKeys,
    /// The slot; its label is the name of the device.
    pub slot: Slot,
}

/// What the old device answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The person said no.
    Refused,
    /// The device is a member.
    Admitted {
        /// The generation of the header that says so.
        generation: u64,
        /// The newest publication at the remote then.
        publication: u64,
    },
}

impl Newcomer {
    /// The canonical bytes. (1)
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.array(11).unsigned(FORMAT).bytes(&self.vault.0);
        for keys in [&self.device, &self.slot_keys] {
            encoder.bytes(&keys.signing).bytes(keys.kem.as_slice());
        }
        encoder
            .bytes(&self.slot.id.0)
            .bytes(self.slot.label.as_bytes())
            .unsigned(self.slot.created_s);
        match &self.slot.lock {
            Lock::Passphrase(argon2) => encoder
                .array(5)
                .unsigned(1)
                .unsigned(argon2.memory_kib.into())
                .unsigned(argon2.passes.into())
                .unsigned(argon2.lanes.into())
                .bytes(&argon2.salt),
            // No reader takes it: who asks to be let in has what its own slot takes.
            Lock::Withheld => encoder.array(1).unsigned(0),
            Lock::RecoveryCode => encoder.array(1).unsigned(2),
            Lock::KeyFile => encoder.array(1).unsigned(3),
            Lock::Age => encoder.array(1).unsigned(4),
            Lock::Ssh => encoder.array(1).unsigned(5),
        };
        encoder.bytes(&self.slot.sealed);
        encoder.finish()
    }

    /// What people compare on both devices: five groups of four hexadecimal digits.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = blake3::derive_key(FINGERPRINT_CONTEXT, &self.encode());
        let groups = hash[..FINGERPRINT_BYTES].chunks(2).map(hex::encode);
        groups.collect::<Vec<_>>().join("-")
    }

    /// The request that `bytes` are.
    ///
    /// # Errors
    /// Any `FormatError` about a pairing message.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut decoder = begin(bytes, 11)?;
        let vault = VaultId(*decoder.bytes_exact()?);
        let device = keys(&mut decoder)?;
        let slot_keys = keys(&mut decoder)?;
        let id = SlotId(*decoder.bytes_exact()?);
        let label = std::str::from_utf8(decoder.bytes(LABEL_BYTES_MAX)?)
            .map_err(|_| decoder.invalid("has a name that is not UTF-8"))?;
        let label = label.to_owned();
        let created_s = decoder.unsigned()?;
        let lock = lock(&mut decoder)?;
        let sealed = decoder.bytes(SLOT_SEALED_BYTES_MAX)?.to_vec();
        decoder.finish()?;
        Ok(Self {
            vault,
            device,
            slot: Slot {
                id,
                label,
                created_s,
                principal: slot_keys.id(),
                lock,
                sealed,
            },
            slot_keys,
        })
    }
}

impl Admission {
    /// The canonical bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (verdict, generation, publication) = match *self {
            Self::Refused => (0, 0, 0),
            Self::Admitted {
                generation,
                publication,
            } => (1, generation, publication),
        };
        let mut encoder = Encoder::new();
        encoder
            .array(4)
            .unsigned(FORMAT)
            .unsigned(verdict)
            .unsigned(generation)
            .unsigned(publication);
        encoder.finish()
    }

    /// The answer that `bytes` are.
    ///
    /// # Errors
    /// Any `FormatError` about a pairing message.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut decoder = begin(bytes, 4)?;
        let verdict = decoder.unsigned()?;
        let (generation, publication) = (decoder.unsigned()?, decoder.unsigned()?);
        let answer = match (verdict, generation, publication) {
            (0, 0, 0) => Self::Refused,
            (1, ..) => Self::Admitted {
                generation,
                publication,
            },
            _ => return Err(decoder.invalid("has no answer")),
        };
        decoder.finish()?;
        Ok(answer)
    }
}

fn begin(bytes: &[u8], items: usize) -> Result<Decoder<'_>, FormatError> {
    let mut decoder = Decoder::new(WHAT, bytes);
    decoder.array_exact(items)?;
    match decoder.unsigned()? {
        FORMAT => Ok(decoder),
        found => Err(FormatError::UnknownFormat {
            what: WHAT,
            found,
            known: FORMAT,
        }),
    }
}

fn keys(decoder: &mut Decoder<'_>) -> Result<PublicKeys, FormatError> {
    Ok(PublicKeys {
        signing: *decoder.bytes_exact()?,
        kem: Box::new(*decoder.bytes_exact::<KEM_PUBLIC_BYTES>()?),
    })
}

fn lock(decoder: &mut Decoder<'_>) -> Result<Lock, FormatError> {
    let items = decoder.array(5)?;
    let kind = decoder.unsigned()?;
    match (kind, items) {
        (1, 5) => {
            let mut number = || {
                let number = decoder.unsigned()?;
                u32::try_from(number).map_err(|_| decoder.invalid("has too high a cost"))
            };
            let (memory_kib, passes, lanes) = (number()?, number()?, number()?);
            let argon2 = Argon2Parameters {
                memory_kib,
                passes,
                lanes,
                salt: *decoder.bytes_exact()?,
            };
            argon2.check_ceiling()?;
            Ok(Lock::Passphrase(argon2))
        }
        (2, 1) => Ok(Lock::RecoveryCode),
        (3, 1) => Ok(Lock::KeyFile),
        (4, 1) => Ok(Lock::Age),
        (5, 1) => Ok(Lock::Ssh),
        _ => Err(decoder.invalid("has a slot of an unknown kind")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_of(byte: u8) -> PublicKeys {
        PublicKeys {
            signing: [byte; 32],
            kem: Box::new([byte; KEM_PUBLIC_BYTES]),
        }
    }

    fn newcomer(lock: Lock) -> Newcomer {
        Newcomer {
            vault: VaultId([1; 32]),
            device: keys_of(2),
            slot_keys: keys_of(3),
            slot: Slot {
                id: SlotId([4; 8]),
                label: "läptop".to_owned(),
                created_s: 1_800_000_000,
                principal: keys_of(3).id(),
                lock,
                sealed: vec![5; 200],
            },
        }
    }

    fn locks() -> Vec<Lock> {
        let argon2 = Argon2Parameters {
            memory_kib: 1 << 20,
            passes: 3,
            lanes: 4,
            salt: [6; 16],
        };
        vec![
            Lock::Passphrase(argon2),
            Lock::RecoveryCode,
            Lock::KeyFile,
            Lock::Age,
            Lock::Ssh,
        ]
    }

    #[test]
    fn a_request_comes_back_whatever_its_lock() {
        for lock in locks() {
            let newcomer = newcomer(lock);
            assert_eq!(Newcomer::decode(&newcomer.encode()), Ok(newcomer));
        }
    }

    /// Goal: nobody can change what is asked for without changing what people compare.
    /// SECURITY.md, claim 23.
    #[test]
    fn every_field_of_a_request_is_in_its_fingerprint() {
        let asked = newcomer(Lock::KeyFile);
        let changes: [fn(&mut Newcomer); 7] = [
            |one| one.vault.0[0] ^= 1,
            |one| one.device.signing[0] ^= 1,
            |one| one.slot_keys.kem[0] ^= 1,
            |one| one.slot.id.0[0] ^= 1,
            |one| one.slot.label.push('x'),
            |one| one.slot.lock = Lock::RecoveryCode,
            |one| one.slot.sealed[0] ^= 1,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut other = asked.clone();
            change(&mut other);
            assert_ne!(other.fingerprint(), asked.fingerprint(), "{number}");
        }
        assert_eq!(asked.fingerprint().len(), 24);
    }

    #[test]
    fn an_answer_comes_back() {
        let admitted = Admission::Admitted {
            generation: 7,
            publication: 300,
        };
        for answer in [Admission::Refused, admitted] {
            assert_eq!(Admission::decode(&answer.encode()), Ok(answer));
        }
        assert!(Admission::decode(&[0x84, 1, 2, 0, 0]).is_err());
        assert!(Admission::decode(&[0x84, 1, 0, 1, 0]).is_err());
    }

    /// Invariant (1): a message that is cut is refused, and one that decodes after any change is spelled as it would be encoded.
    #[test]
    fn what_decodes_encodes_to_the_same_bytes_and_nothing_cut_decodes() {
        for lock in locks() {
            let bytes = newcomer(lock).encode();
            for place in 0..bytes.len() {
                assert!(Newcomer::decode(&bytes[..place]).is_err(), "{place}");
                for change in [1, 0x20, 0x80] {
                    let mut bytes = bytes.clone();
                    bytes[place] ^= change;
                    if let Ok(newcomer) = Newcomer::decode(&bytes) {
                        assert_eq!(newcomer.encode(), bytes);
                    }
                }
            }
        }
    }

    #[test]
    fn a_cost_beyond_the_ceiling_and_a_later_format_are_refused() {
        let argon2 = Argon2Parameters {
            memory_kib: u32::MAX,
            passes: 3,
            lanes: 4,
            salt: [6; 16],
        };
        let bytes = newcomer(Lock::Passphrase(argon2)).encode();
        assert!(matches!(
            Newcomer::decode(&bytes),
            Err(FormatError::Argon2OutOfRange { .. })
        ));
        let mut later = newcomer(Lock::KeyFile).encode();
        later[1] = 2;
        assert!(matches!(
            Newcomer::decode(&later),
            Err(FormatError::UnknownFormat { found: 2, .. })
        ));
    }
}

//! Turns membership records into their canonical bytes and back.
//!
//! Takes   a `RecordBody` and a signature, or bytes from a header
//! Gives   bytes for a record, a record for bytes; or a `FormatError`
//! Never   checks a signature, the right of a device to sign, or the place of a record in its chain: the crate `membership` does
//! Spec    spec/1-keys.md, section 1.4
//!
//! Invariants
//!  (1) A body has one encoding, so that its hash names it.    [1.2.1]
//!  (2) Every list is bounded before it is read.               [1.4.3]

use crate::cbor::{Decoder, Encoder};
use crate::limits::{CHANGES_MAX, KEM_PUBLIC_BYTES, RECORD_BYTES_MAX};
use crate::{Epoch, FormatError};

/// BLAKE3 context that names a record by its body. It hashes public bytes, so it is no key.
const RECORD_ID_CONTEXT: &str = "strongroom format 1 2026-11-21 membership record id";
/// BLAKE3 context that names a principal by its public keys.
const PRINCIPAL_ID_CONTEXT: &str = "strongroom format 1 2026-11-21 membership principal id";
/// The version inside each body.
const RECORD_FORMAT: u64 = 1;
/// What errors call a record.
const WHAT: &str = "membership record";

/// The hash of a record's body. The id of the first record is the vault id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(pub [u8; 32]);

/// The hash of a principal's public keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PrincipalId(pub [u8; 32]);

/// A public value that fixes one epoch's keys without telling them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commitment(pub [u8; 32]);

/// What a principal is, which decides what it may sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// One installation; may change membership in every way.
    Device = 1,
    /// One key slot; may add devices, nothing else.
    Slot = 2,
}

/// The public halves of a principal's two key pairs.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKeys {
    /// Ed25519, for signatures.
    pub signing: [u8; 32],
    /// X-Wing, for grants.
    pub kem: Box<[u8; KEM_PUBLIC_BYTES]>,
}

/// One change of membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new principal.
    Add {
        /// What it is.
        role: Role,
        /// Its public keys.
        keys: PublicKeys,
    },
    /// A principal that no longer counts.
    Retire {
        /// Which one.
        principal: PrincipalId,
    },
    /// New keys from here on.
    Begin {
        /// The number of the new epoch.
        epoch: Epoch,
        /// What its keys must match.
        commitment: Commitment,
    },
}

/// What a record says, without its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordBody {
    /// Its place in the chain, from 0.
    pub sequence: u64,
    /// The id of the record before; in the first record, random bytes.
    pub link: [u8; 32],
    /// Who signs.
    pub author: PrincipalId,
    /// What changes, in this order; at least one.
    pub changes: Vec<Change>,
}

/// A body as its exact bytes, and the signature over its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it says.
    pub body: RecordBody,
    /// The hash of the body's bytes.
    pub id: RecordId,
    /// Ed25519, by the author. Not checked here.
    pub signature: [u8; 64],
}

impl std::fmt::Debug for PublicKeys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "PublicKeys({})",
            crate::hex::encode(&self.id().0)
        )
    }
}

impl PublicKeys {
    /// The name of the principal that has these keys.
    #[must_use]
    pub fn id(&self) -> PrincipalId {
        let mut hasher = blake3::Hasher::new_derive_key(PRINCIPAL_ID_CONTEXT);
        hasher.update(&self.signing).update(self.kem.as_slice());
        PrincipalId(*hasher.finalize().as_bytes())
    }
}

impl RecordBody {
    /// The canonical bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder
            .array(5)
            .unsigned(RECORD_FORMAT)
            .unsigned(self.sequence);
        encoder
            .bytes(&self.link)
            .bytes(&self.author.0)
            .array(self.changes.len());
        for change in &self.changes {
            change.encode(&mut encoder);
        }
        encoder.finish()
    }

    /// The hash that names this record.
    #[must_use]
    pub fn id(&self) -> RecordId {
        RecordId(blake3::derive_key(RECORD_ID_CONTEXT, &self.encode()))
    }

    /// This body with the author's signature over its id.
    #[must_use]
    pub fn signed(self, signature: [u8; 64]) -> Record {
        Record {
            id: self.id(),
            body: self,
            signature,
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut decoder = Decoder::new(WHAT, bytes);
        decoder.array_exact(5)?;
        match decoder.unsigned()? {
            RECORD_FORMAT => {}
            found => {
                return Err(FormatError::UnknownFormat {
                    what: WHAT,
                    found,
                    known: RECORD_FORMAT,
                });
            }
        }
        let sequence = decoder.unsigned()?;
        let link = *decoder.bytes_exact()?;
        let author = PrincipalId(*decoder.bytes_exact()?);
        let count = decoder.array(CHANGES_MAX)?;
        if count == 0 {
            return Err(decoder.invalid("changes nothing"));
        }
        let changes = (0..count)
            .map(|_| Change::decode(&mut decoder))
            .collect::<Result<_, _>>()?;
        decoder.finish()?;
        Ok(Self {
            sequence,
            link,
            author,
            changes,
        })
    }
}

impl Record {
    /// The canonical bytes: body and signature.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder
            .array(2)
            .bytes(&self.body.encode())
            .bytes(&self.signature);
        encoder.finish()
    }

    /// The record that `bytes` spell.
    ///
    /// # Errors
    /// Any `FormatError` about a membership record.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut decoder = Decoder::new(WHAT, bytes);
        decoder.array_exact(2)?;
        let body = RecordBody::decode(decoder.bytes(RECORD_BYTES_MAX)?)?;
        let signature = *decoder.bytes_exact()?;
        decoder.finish()?;
        Ok(body.signed(signature))
    }
}

impl Change {
    fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Add { role, keys } => {
                encoder.array(4).unsigned(1).unsigned(*role as u64);
                encoder.bytes(&keys.signing).bytes(keys.kem.as_slice())
            }
            Self::Retire { principal } => encoder.array(2).unsigned(2).bytes(&principal.0),
            Self::Begin { epoch, commitment } => encoder
                .array(3)
                .unsigned(3)
                .unsigned(epoch.0.into())
                .bytes(&commitment.0),
        };
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, FormatError> {
        let len = decoder.array(4)?;
        match (decoder.unsigned()?, len) {
            (1, 4) => {
                let role = match decoder.unsigned()? {
                    1 => Role::Device,
                    2 => Role::Slot,
                    _ => return Err(decoder.invalid("has an unknown role")),
                };
                let signing = *decoder.bytes_exact()?;
                let kem = Box::new(*decoder.bytes_exact()?);
                Ok(Self::Add {
                    role,
                    keys: PublicKeys { signing, kem },
                })
            }
            (2, 2) => Ok(Self::Retire {
                principal: PrincipalId(*decoder.bytes_exact()?),
            }),
            (3, 3) => {
                let number = decoder.unsigned()?;
                let epoch =
                    u32::try_from(number).map_err(|_| decoder.invalid("has too high an epoch"))?;
                Ok(Self::Begin {
                    epoch: Epoch(epoch),
                    commitment: Commitment(*decoder.bytes_exact()?),
                })
            }
            _ => Err(decoder.invalid("has an unknown change")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let keys = PublicKeys {
            signing: [1; 32],
            kem: Box::new([2; KEM_PUBLIC_BYTES]),
        };
        let changes = vec![
            Change::Add {
                role: Role::Slot,
                keys,
            },
            Change::Retire {
                principal: PrincipalId([3; 32]),
            },
            Change::Begin {
                epoch: Epoch(7),
                commitment: Commitment([4; 32]),
            },
        ];
        RecordBody {
            sequence: 300,
            link: [5; 32],
            author: PrincipalId([6; 32]),
            changes,
        }
        .signed([7; 64])
    }

    #[test]
    fn a_record_comes_back() {
        let record = record();
        assert_eq!(Record::decode(&record.encode()), Ok(record));
    }

    #[test]
    fn a_record_cut_anywhere_is_refused() {
        let bytes = record().encode();
        for len in 0..bytes.len() {
            assert!(Record::decode(&bytes[..len]).is_err(), "{len}");
        }
    }

    /// Invariant (1): whatever decodes is spelled exactly as it would be encoded, after any change of one byte.
    #[test]
    fn what_decodes_encodes_to_the_same_bytes() {
        let bytes = record().encode();
        for place in 0..bytes.len() {
            for change in [1, 0x20, 0x80] {
                let mut bytes = bytes.clone();
                bytes[place] ^= change;
                if let Ok(record) = Record::decode(&bytes) {
                    assert_eq!(record.encode(), bytes);
                }
            }
        }
    }

    #[test]
    fn unknown_versions_roles_and_changes_are_refused() {
        let mut bytes = record().body.encode();
        bytes[1] = 9;
        assert!(matches!(
            RecordBody::decode(&bytes),
            Err(FormatError::UnknownFormat { found: 9, .. })
        ));
        let decode = |bytes: &[u8]| Change::decode(&mut Decoder::new(WHAT, bytes));
        assert_eq!(
            decode(&[0x81, 9]),
            Err(FormatError::Invalid {
                what: WHAT,
                why: "has an unknown change"
            })
        );
        assert_eq!(
            decode(&[0x84, 1, 3]),
            Err(FormatError::Invalid {
                what: WHAT,
                why: "has an unknown role"
            })
        );
        assert!(decode(&[0x85, 1]).is_err());
    }

    #[test]
    fn a_body_without_changes_is_refused() {
        let mut body = record().body;
        body.changes.clear();
        assert_eq!(
            RecordBody::decode(&body.encode()),
            Err(FormatError::Invalid {
                what: WHAT,
                why: "changes nothing"
            })
        );
    }
}

//! The public side of an inbox: the document of an address, the code in its URL, the names of deposits, and what an envelope shows.
//!
//! Takes   the values of a document, or bytes from anywhere
//! Gives   bytes for values, values for bytes
//! Never   opens an envelope, or knows what is in one: the crate `crypto` does
//! Spec    spec/12-inbox.md, sections 12.1 to 12.3
//!
//! Invariants
//!  (1) A document has one encoding, so that one code stands for one key of one vault.                    [12.1.3]

use std::fmt;

use crate::cbor::{Decoder, Encoder};
use crate::limits::{ENVELOPE_BYTES, GRANT_ENCAPSULATED_BYTES, KEM_PUBLIC_BYTES, TAG_BYTES};
use crate::{Epoch, FormatError, VaultId, hex};

/// What errors call the document.
const ADDRESS: &str = "address of an inbox";

/// What errors call an envelope.
const ENVELOPE: &str = "envelope of a deposit";

/// The version inside the document.
const FORMAT: u64 = 1;

/// BLAKE3 context of the code of an address.
const CODE_CONTEXT: &str = "strongroom format 1 2026-11-27 inbox address";

/// BLAKE3 context of the id of a deposit that its depositor can repeat.
const DEPOSIT_CONTEXT: &str = "strongroom format 1 2026-11-27 deposit id";

/// What the token of an address begins with, so that people and scanners know what was found somewhere.
pub const ADDRESS_PREFIX: &str = "sra-";

/// Bytes of an envelope before what is sealed: epoch and address.
const HEAD_BYTES: usize = 4 + 16;

/// Bytes of what an envelope holds.
pub const ENVELOPE_CLEAR_BYTES: usize =
    ENVELOPE_BYTES - HEAD_BYTES - GRANT_ENCAPSULATED_BYTES - TAG_BYTES;

/// The random name of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressId(pub [u8; 16]);

/// The name of a deposit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DepositId(pub [u8; 16]);

/// What tells the pieces of one attempt to deposit something from those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub [u8; 8]);

/// The code of an address: whoever has it can deposit, and knows the right public key. `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AddressCode(pub [u8; 32]);

impl fmt::Debug for AddressCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("AddressCode")
    }
}

impl AddressCode {
    /// The token that a depositor shows to the server.
    #[must_use]
    pub fn token(&self) -> String {
        format!("{ADDRESS_PREFIX}{}", hex::encode(&self.0))
    }

    /// The code in `token`; `None` if it is that of no address.
    #[must_use]
    pub fn of_token(token: &str) -> Option<Self> {
        hex::decode(token.strip_prefix(ADDRESS_PREFIX)?).map(Self)
    }

    /// The id of a deposit that whoever knows this code and `text` can find again.                       [12.2.1]
    #[must_use]
    pub fn deposit_id(&self, text: &[u8]) -> DepositId {
        let mut hasher = blake3::Hasher::new_derive_key(DEPOSIT_CONTEXT);
        hasher.update(&self.0).update(text);
        let hash = *hasher.finalize().as_bytes();
        DepositId(*hash.first_chunk().expect("a hash has 32 bytes"))
    }
}

/// An address of an inbox: what a depositor seals to. All of it is public.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxAddress {
    /// The vault.
    pub vault: VaultId,
    /// From whose key the vault derives the secret half.
    pub epoch: Epoch,
    /// Its own name.
    pub id: AddressId,
    /// The X-Wing public key.
    pub kem: Box<[u8; KEM_PUBLIC_BYTES]>,
}

impl InboxAddress {
    /// The canonical bytes. (1)
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder
            .array(5)
            .unsigned(FORMAT)
            .bytes(&self.vault.0)
            .unsigned(self.epoch.0.into())
            .bytes(&self.id.0)
            .bytes(self.kem.as_slice());
        encoder.finish()
    }

    /// The document that `bytes` are.
    ///
    /// # Errors
    /// Any `FormatError` about it.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut decoder = Decoder::new(ADDRESS, bytes);
        decoder.array_exact(5)?;
        match decoder.unsigned()? {
            FORMAT => {}
            found => {
                return Err(FormatError::UnknownFormat {
                    what: ADDRESS,
                    found,
                    known: FORMAT,
                });
            }
        }
        let vault = VaultId(*decoder.bytes_exact()?);
        let epoch = u32::try_from(decoder.unsigned()?);
        let epoch = Epoch(epoch.map_err(|_| decoder.invalid("has an epoch out of range"))?);
        let address = Self {
            vault,
            epoch,
            id: AddressId(*decoder.bytes_exact()?),
            kem: Box::new(*decoder.bytes_exact()?),
        };
        decoder.finish()?;
        Ok(address)
    }

    /// The code that stands for it.
    #[must_use]
    pub fn code(&self) -> AddressCode {
        AddressCode(blake3::derive_key(CODE_CONTEXT, &self.encode()))
    }
}

/// What an envelope shows, and what is sealed in it.
///
/// # Errors
/// `Invalid` for another length.
pub fn parts_of_envelope(envelope: &[u8]) -> Result<(Epoch, AddressId, &[u8]), FormatError> {
    let wrong = FormatError::Invalid {
        what: ENVELOPE,
        why: "has another length than every envelope",
    };
    if envelope.len() != ENVELOPE_BYTES {
        return Err(wrong);
    }
    let (epoch, rest) = envelope.split_first_chunk::<4>().ok_or(wrong.clone())?;
    let (address, sealed) = rest.split_first_chunk::<16>().ok_or(wrong)?;
    Ok((
        Epoch(u32::from_le_bytes(*epoch)),
        AddressId(*address),
        sealed,
    ))
}

/// An envelope that shows these, with `sealed` in it.
///
/// # Panics
/// If `sealed` has another length than what `ENVELOPE_CLEAR_BYTES` seal to.
#[must_use]
pub fn envelope_of(epoch: Epoch, address: AddressId, sealed: &[u8]) -> Vec<u8> {
    let envelope = [&epoch.0.to_le_bytes()[..], &address.0, sealed].concat();
    assert_eq!(
        envelope.len(),
        ENVELOPE_BYTES,
        "every envelope has one length"
    );
    envelope
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> InboxAddress {
        InboxAddress {
            vault: VaultId([1; 32]),
            epoch: Epoch(7),
            id: AddressId([2; 16]),
            kem: Box::new([3; KEM_PUBLIC_BYTES]),
        }
    }

    #[test]
    fn a_document_comes_back_and_has_no_second_form() {
        let bytes = address().encode();
        assert_eq!(InboxAddress::decode(&bytes), Ok(address()));
        for len in 0..bytes.len() {
            assert!(InboxAddress::decode(&bytes[..len]).is_err(), "{len}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(InboxAddress::decode(&longer).is_err());
        let mut other = bytes.clone();
        other[1] = 2;
        let decoded = InboxAddress::decode(&other);
        let is_unknown = matches!(decoded, Err(FormatError::UnknownFormat { found: 2, .. }));
        assert!(is_unknown, "{decoded:?}");
    }

    #[test]
    fn every_field_of_a_document_is_in_its_code() {
        let code = address().code();
        for other in [
            InboxAddress {
                vault: VaultId([9; 32]),
                ..address()
            },
            InboxAddress {
                epoch: Epoch(8),
                ..address()
            },
            InboxAddress {
                id: AddressId([9; 16]),
                ..address()
            },
            InboxAddress {
                kem: Box::new([9; KEM_PUBLIC_BYTES]),
                ..address()
            },
        ] {
            assert!(other.code() != code, "{other:?}");
        }
    }

    #[test]
    fn a_code_comes_back_from_its_token_and_is_not_shown() {
        let code = address().code();
        let token = code.token();
        assert_eq!(token.len(), 4 + 64);
        assert_eq!(AddressCode::of_token(&token), Some(code));
        for bad in ["", "sra-", "srt-00", &token[4..], &token.to_uppercase()] {
            assert_eq!(AddressCode::of_token(bad), None, "{bad}");
        }
        assert_eq!(format!("{code:?}"), "AddressCode");
    }

    #[test]
    fn the_same_text_gives_the_same_deposit_at_one_address_only() {
        let (one, other) = (AddressCode([1; 32]), AddressCode([2; 32]));
        assert_eq!(one.deposit_id(b"a"), one.deposit_id(b"a"));
        assert_ne!(one.deposit_id(b"a"), one.deposit_id(b"b"));
        assert_ne!(one.deposit_id(b"a"), other.deposit_id(b"a"));
    }

    #[test]
    fn an_envelope_has_one_length_and_gives_its_parts() {
        let sealed = vec![5; ENVELOPE_BYTES - HEAD_BYTES];
        let envelope = envelope_of(Epoch(3), AddressId([4; 16]), &sealed);
        let parts = parts_of_envelope(&envelope).expect("an envelope");
        assert_eq!(parts, (Epoch(3), AddressId([4; 16]), &sealed[..]));
        for len in [0, 4, 20, ENVELOPE_BYTES - 1] {
            assert!(parts_of_envelope(&envelope[..len]).is_err(), "{len}");
        }
        assert!(parts_of_envelope(&[&envelope[..], &[0]].concat()).is_err());
    }
}

//! The content of a revision, its id and its signature.
//!
//! Takes   a body and a device that signs, or stored bytes
//! Gives   the reverse: bytes for a body, a verified body for bytes
//! Never   gives a body that no device of the vault signed
//! Spec    spec/6-history.md, section 6.2
//!
//! Invariants
//!  (1) A body has one encoding, so that its hash names it.       [6.2.1]
//!  (2) The signature covers the id, and so the whole tree.       [6.2.3]

use serde::{Deserialize, Serialize};
use strongroom_crypto::RevisionSigner;
use strongroom_format::cbor::{Decoder, Encoder};
use strongroom_format::{BlockId, PrincipalId, RecordId, VaultId, hex};
use strongroom_metadata::Timestamp;

use crate::error::{Error, Result};
use crate::limits::{MESSAGE_BYTES_MAX, REVISION_BYTES_MAX, TAG_BYTES_MAX, TAGS_MAX};
use crate::select::Candidate;

/// BLAKE3 context that names a revision by its body. It is no key.
const ID_CONTEXT: &str = "strongroom format 1 2026-11-22 revision id";
/// The version inside each body.
const FORMAT: u64 = 1;
/// What errors call it.
const WHAT: &str = "revision";

/// The hash of a revision's body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RevisionId(pub [u8; 32]);

impl std::fmt::Display for RevisionId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&hex::encode(&self.0))
    }
}

impl std::fmt::Debug for RevisionId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RevisionId({self})")
    }
}

/// What a revision says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionBody {
    /// The vault that it is a state of.
    pub vault: VaultId,
    /// What it follows: none, one, or two that it joins.
    pub parents: Vec<RevisionId>,
    /// The root of its tree.
    pub root: BlockId,
    /// Who took and signs it.
    pub device: PrincipalId,
    /// Which one of that device, from 1.
    pub sequence: u64,
    /// The newest membership record that the device knew.
    pub membership_head: RecordId,
    /// When it was taken.
    pub time: Timestamp,
    /// What a person said about it.
    pub message: String,
    /// Names that a person gave it, sorted.
    pub tags: Vec<String>,
}

/// What a revision is to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRevision {
    /// What a person says about it.
    pub message: String,
    /// Names for it, sorted.
    pub tags: Vec<String>,
    /// Take none if nothing changed since the newest. A newest one without message and tags may be there only to be read, and go: for one that
    /// has either it does not count.
    pub only_if_changed: bool,
}

impl NewRevision {
    /// The body of a first revision with an empty root: the rest is known once its tree is.
    ///
    /// # Errors
    /// `Error::Invalid` for a message or tags beyond their bounds.
    pub fn draft(&self, signer: &RevisionSigner, now: Timestamp) -> Result<RevisionBody> {
        let body = RevisionBody {
            vault: signer.vault(),
            parents: Vec::new(),
            root: BlockId([0; 32]),
            device: signer.device(),
            sequence: 0,
            membership_head: signer.membership_head(),
            time: now,
            message: self.message.clone(),
            tags: self.tags.clone(),
        };
        body.check()?;
        Ok(body)
    }
}

/// A body, its name, and the signature, which has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The hash of the body.
    pub id: RevisionId,
    /// What it says.
    pub body: RevisionBody,
    /// Ed25519, by the device.
    pub signature: [u8; 64],
}

impl RevisionBody {
    /// What is wrong with a message or tags, before they are signed.
    fn check(&self) -> Result<()> {
        if self.message.len() > MESSAGE_BYTES_MAX {
            return Err(Error::Invalid("the message is longer than 16 KiB"));
        }
        if self.tags.len() > TAGS_MAX {
            return Err(Error::Invalid("a snapshot has at most 32 tags"));
        }
        let sound = |tag: &String| {
            !tag.is_empty()
                && tag.len() <= TAG_BYTES_MAX
                && !tag.contains(['/', '|', '\0'])
                && !tag.chars().any(char::is_control)
        };
        if !self.tags.iter().all(sound) {
            return Err(Error::Invalid(
                "a tag has 1 to 128 bytes, none of them `/` or `|`",
            ));
        }
        if !self.tags.is_sorted_by(|one, next| one < next) {
            return Err(Error::Invalid("a tag is given twice"));
        }
        Ok(())
    }

    /// The canonical bytes. (1)
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder
            .array(10)
            .unsigned(FORMAT)
            .bytes(&self.vault.0)
            .array(self.parents.len());
        for parent in &self.parents {
            encoder.bytes(&parent.0);
        }
        let time = self.time.0;
        encoder
            .bytes(&self.root.0)
            .bytes(&self.device.0)
            .unsigned(self.sequence)
            .bytes(&self.membership_head.0)
            .unsigned((time.wrapping_shl(1) ^ (time >> 63)).cast_unsigned())
            .bytes(self.message.as_bytes())
            .array(self.tags.len());
        for tag in &self.tags {
            encoder.bytes(tag.as_bytes());
        }
        encoder.finish()
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::new(WHAT, bytes);
        decoder.array_exact(10)?;
        if decoder.unsigned()? != FORMAT {
            return Err(Error::Damaged(
                "the record of a snapshot has an unknown format",
            ));
        }
        let vault = VaultId(*decoder.bytes_exact()?);
        let mut parents = Vec::new();
        for _ in 0..decoder.array(2)? {
            parents.push(RevisionId(*decoder.bytes_exact()?));
        }
        let root = BlockId(*decoder.bytes_exact()?);
        let device = PrincipalId(*decoder.bytes_exact()?);
        let sequence = decoder.unsigned()?;
        let membership_head = RecordId(*decoder.bytes_exact()?);
        let time = decoder.unsigned()?;
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec()).map_err(|_| Error::Damaged("a text is not UTF-8"))
        };
        let message = text(decoder.bytes(MESSAGE_BYTES_MAX)?)?;
        let mut tags = Vec::new();
        for _ in 0..decoder.array(TAGS_MAX)? {
            tags.push(text(decoder.bytes(TAG_BYTES_MAX)?)?);
        }
        decoder.finish()?;
        let body = Self {
            vault,
            parents,
            root,
            device,
            sequence,
            membership_head,
            time: Timestamp((time >> 1).cast_signed() ^ -(time & 1).cast_signed()),
            message,
            tags,
        };
        body.check().map_err(|_| {
            Error::Damaged("the record of a snapshot has a value that is not allowed")
        })?;
        Ok(body)
    }
}

impl Revision {
    /// Signs `body`.
    ///
    /// # Errors
    /// `Error::Invalid` for a message or tags beyond their bounds.
    pub fn sign(body: RevisionBody, signer: &RevisionSigner) -> Result<Self> {
        body.check()?;
        let id = id_of(&body.encode());
        let signature = signer.sign(&id.0);
        Ok(Self {
            id,
            body,
            signature,
        })
    }

    /// What selectors and rules ask of it.
    #[must_use]
    pub fn candidate(&self) -> Candidate<'_> {
        Candidate {
            id: self.id,
            parents: &self.body.parents,
            device: &self.body.device.0,
            time: self.body.time,
            message: &self.body.message,
            tags: &self.body.tags,
        }
    }

    /// The bytes that are stored: body and signature.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder
            .array(2)
            .bytes(&self.body.encode())
            .bytes(&self.signature);
        encoder.finish()
    }

    /// Reads stored bytes and proves them: of this vault, and signed by one of its devices. (2)
    ///
    /// # Errors
    /// `Error::Damaged`, `Error::Forged`.
    pub fn decode(bytes: &[u8], signer: &RevisionSigner) -> Result<Self> {
        let mut decoder = Decoder::new(WHAT, bytes);
        decoder.array_exact(2)?;
        let body = decoder.bytes(REVISION_BYTES_MAX)?;
        let signature = *decoder.bytes_exact()?;
        decoder.finish()?;
        let id = id_of(body);
        let body = RevisionBody::decode(body)?;
        if body.vault != signer.vault() || !signer.verify(body.device, &id.0, &signature) {
            return Err(Error::Forged);
        }
        Ok(Self {
            id,
            body,
            signature,
        })
    }
}

/// The stored form that `bytes` begin with; `None` if there is none, or anything but zeros behind it.                 [6.2.7]
#[must_use]
pub fn stored_form(bytes: &[u8]) -> Option<&[u8]> {
    let mut decoder = Decoder::new(WHAT, bytes);
    decoder.array_exact(2).ok()?;
    let body = decoder.bytes(REVISION_BYTES_MAX).ok()?;
    let signature: &[u8; 64] = decoder.bytes_exact().ok()?;
    let mut encoder = Encoder::new();
    // There is one encoding, so this is as long as what was read.
    encoder.array(2).bytes(body).bytes(signature);
    let len = encoder.finish().len();
    let (stored, zeros) = bytes.split_at_checked(len)?;
    zeros.iter().all(|byte| *byte == 0).then_some(stored)
}

fn id_of(body: &[u8]) -> RevisionId {
    RevisionId(blake3::derive_key(ID_CONTEXT, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> RevisionSigner {
        RevisionSigner::from_seed([1; 32], VaultId([9; 32]))
    }

    fn body() -> RevisionBody {
        RevisionBody {
            vault: VaultId([9; 32]),
            parents: vec![RevisionId([3; 32])],
            root: BlockId([4; 32]),
            device: signer().device(),
            sequence: 7,
            membership_head: RecordId([5; 32]),
            time: Timestamp(-1_000),
            message: "before the move".to_owned(),
            tags: vec!["a".to_owned(), "b".to_owned()],
        }
    }

    #[test]
    fn a_revision_comes_back_and_every_changed_byte_is_refused() {
        let revision = Revision::sign(body(), &signer()).unwrap();
        let bytes = revision.encode();
        assert_eq!(Revision::decode(&bytes, &signer()).unwrap(), revision);
        for place in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[place] ^= 1;
            assert!(Revision::decode(&bytes, &signer()).is_err(), "{place}");
        }
        for len in 0..bytes.len() {
            assert!(Revision::decode(&bytes[..len], &signer()).is_err());
        }
    }

    #[test]
    fn a_revision_of_another_vault_or_of_a_stranger_is_forged() {
        let stranger = RevisionSigner::from_seed([2; 32], VaultId([9; 32]));
        let foreign = RevisionSigner::from_seed([1; 32], VaultId([8; 32]));
        let bytes = Revision::sign(body(), &signer()).unwrap().encode();
        for other in [stranger, foreign] {
            assert!(matches!(
                Revision::decode(&bytes, &other),
                Err(Error::Forged)
            ));
        }
    }

    #[test]
    fn messages_and_tags_are_bounded_before_they_are_signed() {
        let long = "x".repeat(MESSAGE_BYTES_MAX + 1);
        let bad = |change: fn(&mut RevisionBody)| {
            let mut body = body();
            change(&mut body);
            assert!(Revision::sign(body, &signer()).is_err());
        };
        let mut body = body();
        body.message = long;
        assert!(Revision::sign(body, &signer()).is_err());
        bad(|body| body.tags = vec!["b".into(), "a".into()]);
        bad(|body| body.tags = vec!["a".into(), "a".into()]);
        bad(|body| body.tags = vec![String::new()]);
        bad(|body| body.tags = vec!["a/b".into()]);
        bad(|body| body.tags = vec!["a|b".into()]);
        bad(|body| body.tags = (0..=TAGS_MAX).map(|n| format!("{n:04}")).collect());
    }
}

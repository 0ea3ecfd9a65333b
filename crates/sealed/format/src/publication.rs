//! The publication, which says what a push added to a remote: its bytes and its hash.
//!
//! Takes   the values of a publication, or bytes from anywhere
//! Gives   bytes for values, values for bytes; the hash that names the publication, and that the next one refers to
//! Never   checks a signature or trusts an order: the crates above, which have keys, check both
//! Spec    spec/11-sync.md, sections 11.2 and 11.3
//!
//! Invariants
//!  (1) A body has one encoding, so that its hash names it.                                    [11.2.2]

use crate::cbor::{Decoder, Encoder};
use crate::limits::{PUBLICATION_BYTES_MAX, PUBLISHED_MAX};
use crate::{Epoch, FormatError, PrincipalId, RecordId, SegmentId, VaultId};

/// What errors call it.
const WHAT: &str = "publication";

/// The version inside each body.
const FORMAT: u64 = 1;

/// BLAKE3 context that names a publication by its body. It is no key.
const ID_CONTEXT: &str = "strongroom format 1 2026-11-23 publication id";

/// The random name of a remote, drawn when it is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteId(pub [u8; 16]);

/// The hash of a publication's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicationId(pub [u8; 32]);

/// A segment at a remote: whole, finished, the same bytes as on the disk of whoever wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedSegment {
    /// BLAKE3 of its bytes, which names the object.
    pub hash: [u8; 32],
    /// The name that it has in a vault folder.
    pub id: SegmentId,
    /// Length in bytes.
    pub len: u64,
    /// What seals it.
    pub epoch: Epoch,
}

/// The record of a revision at a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedRevision {
    /// The hash that names the revision.
    pub id: [u8; 32],
    /// BLAKE3 of the record's bytes.
    pub hash: [u8; 32],
    /// What seals its record.
    pub epoch: Epoch,
}

/// What one push added to a remote, and what it took back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The vault.
    pub vault: VaultId,
    /// The remote: a publication counts nowhere else.
    pub remote: RemoteId,
    /// Its place in the log of the remote, from 1.
    pub number: u64,
    /// The publication before; zeros for the first.
    pub link: PublicationId,
    /// The device that made and signs it.
    pub device: PrincipalId,
    /// Which one of that device at that remote, from 1.
    pub sequence: u64,
    /// From which publication on everything is named that is live once this one counts; at most `number`.
    pub base: u64,
    /// Nanoseconds since 1970.
    pub time: i64,
    /// The newest membership record that the device knew.
    pub membership_head: RecordId,
    /// Generation of the header that belongs to it, and BLAKE3 of its bytes.
    pub header: (u64, [u8; 32]),
    /// The revision that is the state of the device: the head. Zeros in the middle of a push, of which more publications follow.
    pub head: [u8; 32],
    /// Revisions that the remote has from here on, sorted.
    pub revisions: Vec<PublishedRevision>,
    /// Hashes of records that do not count any more, sorted.
    pub retired_revisions: Vec<[u8; 32]>,
    /// Segments that the remote has from here on, sorted by hash.
    pub segments: Vec<PublishedSegment>,
    /// Hashes of segments that nothing refers to any more, sorted.
    pub retired_segments: Vec<[u8; 32]>,
}

impl Publication {
    /// The canonical bytes. (1)
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder
            .array(15)
            .unsigned(FORMAT)
            .bytes(&self.vault.0)
            .bytes(&self.remote.0)
            .unsigned(self.number)
            .bytes(&self.link.0)
            .bytes(&self.device.0)
            .unsigned(self.sequence)
            .unsigned(self.base)
            .unsigned((self.time.wrapping_shl(1) ^ (self.time >> 63)).cast_unsigned())
            .bytes(&self.membership_head.0)
            .array(3)
            .unsigned(self.header.0)
            .bytes(&self.header.1)
            .bytes(&self.head);
        encoder.array(self.revisions.len());
        for revision in &self.revisions {
            encoder
                .array(3)
                .bytes(&revision.id)
                .bytes(&revision.hash)
                .unsigned(revision.epoch.0.into());
        }
        encoder.array(self.retired_revisions.len());
        for id in &self.retired_revisions {
            encoder.bytes(id);
        }
        encoder.array(self.segments.len());
        for segment in &self.segments {
            encoder
                .array(4)
                .bytes(&segment.hash)
                .bytes(&segment.id.0)
                .unsigned(segment.len)
                .unsigned(segment.epoch.0.into());
        }
        encoder.array(self.retired_segments.len());
        for hash in &self.retired_segments {
            encoder.bytes(hash);
        }
        encoder.finish()
    }

    /// The hash that names it.
    #[must_use]
    pub fn id(&self) -> PublicationId {
        id_of(&self.encode())
    }

    fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut decoder = Decoder::new(WHAT, bytes);
        decoder.array_exact(15)?;
        match decoder.unsigned()? {
            FORMAT => {}
            found => {
                return Err(FormatError::UnknownFormat {
                    what: WHAT,
                    found,
                    known: FORMAT,
                });
            }
        }
        let vault = VaultId(*decoder.bytes_exact()?);
        let remote = RemoteId(*decoder.bytes_exact()?);
        let number = decoder.unsigned()?;
        let link = PublicationId(*decoder.bytes_exact()?);
        let device = PrincipalId(*decoder.bytes_exact()?);
        let sequence = decoder.unsigned()?;
        let base = decoder.unsigned()?;
        let time = decoder.unsigned()?;
        let membership_head = RecordId(*decoder.bytes_exact()?);
        decoder.array_exact(3)?;
        let header = (decoder.unsigned()?, *decoder.bytes_exact()?);
        let head = *decoder.bytes_exact()?;
        let mut revisions = Vec::new();
        for _ in 0..decoder.array(PUBLISHED_MAX)? {
            decoder.array_exact(3)?;
            revisions.push(PublishedRevision {
                id: *decoder.bytes_exact()?,
                hash: *decoder.bytes_exact()?,
                epoch: epoch(&mut decoder)?,
            });
        }
        let retired_revisions = hashes(&mut decoder)?;
        let mut segments = Vec::new();
        for _ in 0..decoder.array(PUBLISHED_MAX)? {
            decoder.array_exact(4)?;
            segments.push(PublishedSegment {
                hash: *decoder.bytes_exact()?,
                id: SegmentId(*decoder.bytes_exact()?),
                len: decoder.unsigned()?,
                epoch: epoch(&mut decoder)?,
            });
        }
        let retired_segments = hashes(&mut decoder)?;
        let sorted = revisions.is_sorted_by(|one, next| one.hash < next.hash)
            && retired_revisions.is_sorted_by(|one, next| one < next)
            && segments.is_sorted_by(|one, next| one.hash < next.hash)
            && retired_segments.is_sorted_by(|one, next| one < next);
        if !sorted {
            return Err(decoder.invalid("is not in order"));
        }
        if number == 0 || sequence == 0 || base == 0 || base > number {
            return Err(decoder.invalid("has no number"));
        }
        decoder.finish()?;
        Ok(Self {
            vault,
            remote,
            number,
            link,
            device,
            sequence,
            base,
            time: (time >> 1).cast_signed() ^ -(time & 1).cast_signed(),
            membership_head,
            header,
            head,
            revisions,
            retired_revisions,
            segments,
            retired_segments,
        })
    }
}

fn epoch(decoder: &mut Decoder<'_>) -> Result<Epoch, FormatError> {
    let number = decoder.unsigned()?;
    let number = u32::try_from(number).map_err(|_| decoder.invalid("has too high an epoch"))?;
    Ok(Epoch(number))
}

fn hashes(decoder: &mut Decoder<'_>) -> Result<Vec<[u8; 32]>, FormatError> {
    let count = decoder.array(PUBLISHED_MAX)?;
    (0..count).map(|_| Ok(*decoder.bytes_exact()?)).collect()
}

/// A publication with its signature, which is not checked here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPublication {
    /// What it says.
    pub body: Publication,
    /// The hash of the body's bytes.
    pub id: PublicationId,
    /// Ed25519, by the device.
    pub signature: [u8; 64],
}

impl SignedPublication {
    /// The bytes that are sealed: body and signature.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder
            .array(2)
            .bytes(&self.body.encode())
            .bytes(&self.signature);
        encoder.finish()
    }

    /// The publication that `bytes` begin with. Behind it there are only zeros, which hide its length.
    ///
    /// # Errors
    /// Any `FormatError` about a publication.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut decoder = Decoder::new(WHAT, bytes);
        decoder.array_exact(2)?;
        let body = decoder.bytes(PUBLICATION_BYTES_MAX)?;
        let signature: [u8; 64] = *decoder.bytes_exact()?;
        let signed = Self {
            id: id_of(body),
            body: Publication::decode(body)?,
            signature,
        };
        // There is one encoding, so this is as long as what was read.
        match bytes.split_at_checked(signed.encode().len()) {
            Some((_, zeros)) if zeros.iter().all(|byte| *byte == 0) => Ok(signed),
            _ => Err(FormatError::Invalid {
                what: WHAT,
                why: "has bytes after its end",
            }),
        }
    }
}

fn id_of(body: &[u8]) -> PublicationId {
    PublicationId(blake3::derive_key(ID_CONTEXT, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed() -> SignedPublication {
        let body = Publication {
            vault: VaultId([1; 32]),
            remote: RemoteId([2; 16]),
            number: 300,
            link: PublicationId([3; 32]),
            device: PrincipalId([4; 32]),
            sequence: 7,
            base: 300,
            time: -1_000,
            membership_head: RecordId([5; 32]),
            header: (9, [6; 32]),
            head: [7; 32],
            revisions: vec![
                PublishedRevision {
                    id: [7; 32],
                    hash: [15; 32],
                    epoch: Epoch(1),
                },
                PublishedRevision {
                    id: [8; 32],
                    hash: [16; 32],
                    epoch: Epoch(0),
                },
            ],
            retired_revisions: vec![[9; 32]],
            segments: vec![PublishedSegment {
                hash: [10; 32],
                id: SegmentId([11; 16]),
                len: 16 << 20,
                epoch: Epoch(1),
            }],
            retired_segments: vec![[12; 32], [13; 32]],
        };
        SignedPublication {
            id: body.id(),
            body,
            signature: [14; 64],
        }
    }

    #[test]
    fn a_publication_comes_back_with_zeros_behind_it_and_nothing_else() {
        let signed = signed();
        let mut bytes = signed.encode();
        assert_eq!(SignedPublication::decode(&bytes), Ok(signed.clone()));
        bytes.resize(bytes.len() + 999, 0);
        assert_eq!(SignedPublication::decode(&bytes), Ok(signed));
        *bytes.last_mut().unwrap_or(&mut 0) = 1;
        assert!(SignedPublication::decode(&bytes).is_err());
    }

    #[test]
    fn a_publication_cut_anywhere_is_refused() {
        let bytes = signed().encode();
        for len in 0..bytes.len() {
            assert!(SignedPublication::decode(&bytes[..len]).is_err(), "{len}");
        }
    }

    /// Invariant (1): whatever decodes is spelled exactly as it would be encoded, after any change of one byte.
    #[test]
    fn what_decodes_encodes_to_the_same_bytes() {
        let bytes = signed().encode();
        for place in 0..bytes.len() {
            for change in [1, 0x20, 0x80] {
                let mut bytes = bytes.clone();
                bytes[place] ^= change;
                if let Ok(signed) = SignedPublication::decode(&bytes) {
                    assert_eq!(signed.encode(), bytes);
                }
            }
        }
    }

    #[test]
    fn what_is_not_in_order_or_has_no_number_is_refused() {
        let refused = |change: &dyn Fn(&mut Publication)| {
            let mut signed = signed();
            change(&mut signed.body);
            assert!(SignedPublication::decode(&signed.encode()).is_err());
        };
        refused(&|body| body.revisions.reverse());
        refused(&|body| body.retired_segments = vec![[1; 32], [1; 32]]);
        refused(&|body| body.segments.push(body.segments[0]));
        refused(&|body| body.number = 0);
        refused(&|body| body.sequence = 0);
        refused(&|body| body.base = 0);
        refused(&|body| body.base = body.number + 1);
    }
}

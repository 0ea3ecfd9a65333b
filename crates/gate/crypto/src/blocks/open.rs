//! Opens sealed blocks, or refuses them.
//!
//! Takes   the epoch, kind, id and clear length from a trusted caller, and sealed bytes from anywhere
//! Gives   clear bytes that are proven authentic, or an `OpenError`
//! Never   gives a byte that is not proven, panics on hostile bytes, or says why a proof failed
//! Spec    spec/2-block.md, [2.20] to [2.23]
//!
//! Two strengths of proof [2.22] [2.23]. `open` proves that exactly these bytes, of this kind, in this compartment,
//! were sealed under this id. `open_range` proves that a holder of the epoch's key sealed the chunks under this id.
//! That is enough if the id comes from authenticated metadata and every holder of that key is still a member. If a
//! member was removed since, `open_range` opens the whole block and makes the full proof too.

use crate::blocks::block_sealer::{BlockSealer, Parts};
use crate::blocks::compression;
use crate::blocks::suite::{BlockSecret, ChunkPlace, NO_SALT, block_id};
use crate::providers::{ChunkKey, Nonce, Refused};
use std::ops::Range;
use strongroom_format::limits::{BLOCK_BYTES_MAX, CHUNK_BYTES, TAG_BYTES};
use strongroom_format::span::{chunk_count, chunk_span, chunks_covering, sealed_len};
use strongroom_format::{BlockId, Epoch, Kind};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// Why sealed bytes were not opened. None holds a byte of content, key or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Tampering or damage: a tag or the name does not fit.
    #[error(
        "sealed data ({kind:?}) does not open: it was damaged, altered or swapped; run `strongroom verify`"
    )]
    Tampered {
        /// What it should have been.
        kind: Kind,
    },
    /// Tampering or damage: there are more or fewer sealed bytes than its length asks for.
    #[error("sealed data ({kind:?}) has {found} bytes, not {expected}; run `strongroom verify`")]
    WrongLength {
        /// What it should have been.
        kind: Kind,
        /// Sealed bytes that its clear length asks for.
        expected: usize,
        /// Sealed bytes given.
        found: usize,
    },
    /// Tampering or damage: a clear length that nothing is ever sealed with.
    #[error(
        "sealed data ({kind:?}) states {clear_len} bytes, more than is allowed; run `strongroom verify`"
    )]
    TooLong {
        /// What it should have been.
        kind: Kind,
        /// The claim.
        clear_len: usize,
    },
    /// Caller: the range does not lie inside the block.
    #[error("the range {start}..{end} is not inside a block of {clear_len} bytes")]
    RangeOutside {
        /// First byte asked for.
        start: usize,
        /// End asked for.
        end: usize,
        /// Bytes there are.
        clear_len: usize,
    },
    /// Caller or environment: no key for this epoch; it was never granted here, or destroyed after a rotation.
    #[error("this copy has no key for epoch {}", epoch.0)]
    UnknownEpoch {
        /// The epoch.
        epoch: Epoch,
    },
}

impl BlockSealer {
    /// Opens a whole block, recomputes its name (the full proof), and gives the content, whether it was compressed or not.
    ///
    /// Allocates `clear_len` bytes once the lengths are found to agree, and at most `BLOCK_BYTES_MAX` for what was
    /// compressed.
    ///
    /// # Errors
    /// Every `OpenError` but `RangeOutside`; a compressed block that holds no such frame is `Tampered`.
    pub fn open(
        &self,
        epoch: Epoch,
        kind: Kind,
        id: &BlockId,
        clear_len: usize,
        sealed: &[u8],
    ) -> Result<Vec<u8>, OpenError> {
        let exactly = self.open_exactly(epoch, kind, id, clear_len, sealed)?;
        decompressed(kind, exactly)
    }

    /// As `open`, but gives the very bytes that were sealed: of a compressed kind its frame, to be re-sealed.
    ///
    /// # Errors
    /// Every `OpenError` but `RangeOutside`.
    pub fn open_exactly(
        &self,
        epoch: Epoch,
        kind: Kind,
        id: &BlockId,
        clear_len: usize,
        sealed: &[u8],
    ) -> Result<Vec<u8>, OpenError> {
        let secret = self.secret(epoch, kind, id, clear_len)?;
        check_len(kind, sealed_len(clear_len), sealed.len())?;
        let mut clear = open_chunks(self.parts(), &secret, kind, clear_len, sealed)?;
        if self.verify_id(kind, id, &clear) {
            return Ok(clear);
        }
        clear.zeroize();
        Err(OpenError::Tampered { kind })
    }

    /// Opens the content bytes of `range` into `out`; proves their chunks by their tags alone, where that suffices.
    ///
    /// `sealed`: exactly the bytes of the block that `sealed_span` of the same arguments names. A tag does not prove
    /// `kind`. An empty range proves nothing. No allocation, and a chunk that is asked for in part costs a copy; but what
    /// was compressed or needs the full proof is opened as a whole.
    ///
    /// # Errors
    /// Every `OpenError`; then `out` is all zero.
    ///
    /// # Panics
    /// If `out` is not as long as `range`.
    #[expect(
        clippy::too_many_arguments,
        reason = "what names a block, what part of it, and from where to where"
    )]
    pub fn open_range(
        &self,
        epoch: Epoch,
        kind: Kind,
        id: &BlockId,
        clear_len: usize,
        range: Range<usize>,
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<(), OpenError> {
        assert_eq!(out.len(), range.len(), "the buffer is as long as the range");
        let opened = self.try_open_range(epoch, kind, id, clear_len, range, sealed, out);
        if opened.is_err() {
            out.zeroize();
        }
        opened
    }

    #[expect(clippy::too_many_arguments, reason = "the same as open_range")]
    fn try_open_range(
        &self,
        epoch: Epoch,
        kind: Kind,
        id: &BlockId,
        clear_len: usize,
        range: Range<usize>,
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<(), OpenError> {
        if self.proves_fully(epoch) {
            return copy_part(self.open(epoch, kind, id, clear_len, sealed)?, range, out);
        }
        let secret = self.secret(epoch, kind, id, clear_len)?;
        if kind.is_compressed() {
            check_len(kind, sealed_len(clear_len), sealed.len())?;
            let frame = open_chunks(self.parts(), &secret, kind, clear_len, sealed)?;
            return copy_part(decompressed(kind, frame)?, range, out);
        }
        if range.start > range.end || range.end > clear_len {
            return Err(OpenError::RangeOutside {
                start: range.start,
                end: range.end,
                clear_len,
            });
        }
        check_len(
            kind,
            chunk_span(clear_len, range.clone()).len(),
            sealed.len(),
        )?;
        let last = chunk_count(clear_len) - 1;
        let mut result = Ok(());
        let parts = self.parts();
        parts
            .chosen
            .decrypt(range.len())
            .with_key(secret.key(), &mut |key| {
                let (mut sealed, mut out) = (sealed, &mut *out);
                for number in chunks_covering(clear_len, range.clone()) {
                    let place = if number == last {
                        ChunkPlace::Last
                    } else {
                        ChunkPlace::Inner
                    };
                    let from = number * CHUNK_BYTES;
                    let chunk = from..clear_len.min(from + CHUNK_BYTES);
                    let part = range.start.max(chunk.start) - from..range.end.min(chunk.end) - from;
                    let (this_sealed, rest_sealed) = sealed.split_at(chunk.len() + TAG_BYTES);
                    let (this_out, rest_out) = std::mem::take(&mut out).split_at_mut(part.len());
                    if open_part(
                        key,
                        &secret.nonce(number, place),
                        this_sealed,
                        part,
                        this_out,
                    )
                    .is_err()
                    {
                        result = Err(OpenError::Tampered { kind });
                        return;
                    }
                    (sealed, out) = (rest_sealed, rest_out);
                }
            });
        result
    }

    /// Which sealed bytes of a block `open_range` needs for the content bytes of `range`: those of its chunks, or all where it
    /// was compressed or needs the full proof.
    #[must_use]
    pub fn sealed_span(
        &self,
        epoch: Epoch,
        kind: Kind,
        clear_len: usize,
        range: Range<usize>,
    ) -> Range<usize> {
        match kind.is_compressed() || self.proves_fully(epoch) {
            true => 0..sealed_len(clear_len),
            false => chunk_span(clear_len, range),
        }
    }

    /// Whether `clear` is what `id` names, in constant time for its length.
    #[must_use]
    pub fn verify_id(&self, kind: Kind, id: &BlockId, clear: &[u8]) -> bool {
        let parts = self.parts();
        let blake3 = parts.chosen.blake3(clear.len());
        let found = block_id(
            blake3,
            parts.id_key.bytes(),
            kind,
            &parts.compartment,
            &NO_SALT,
            clear,
        );
        found.0.ct_eq(&id.0).into()
    }

    fn secret(
        &self,
        epoch: Epoch,
        kind: Kind,
        id: &BlockId,
        clear_len: usize,
    ) -> Result<BlockSecret, OpenError> {
        if clear_len > BLOCK_BYTES_MAX {
            return Err(OpenError::TooLong { kind, clear_len });
        }
        let parts = self.parts();
        let secrets = parts
            .secrets(epoch)
            .ok_or(OpenError::UnknownEpoch { epoch })?;
        let blake3 = parts.chosen.blake3(0);
        Ok(BlockSecret::of(blake3, &secrets.block, parts.suite, id))
    }
}

/// Copies `range` of `content`, which is wiped, to `out`.
fn copy_part(mut content: Vec<u8>, range: Range<usize>, out: &mut [u8]) -> Result<(), OpenError> {
    let part = content
        .get(range.clone())
        .map(|part| out.copy_from_slice(part));
    let clear_len = content.len();
    content.zeroize();
    part.ok_or(OpenError::RangeOutside {
        start: range.start,
        end: range.end,
        clear_len,
    })
}

/// The content of what was sealed as `kind`.
fn decompressed(kind: Kind, mut exactly: Vec<u8>) -> Result<Vec<u8>, OpenError> {
    if !kind.is_compressed() {
        return Ok(exactly);
    }
    let content = compression::content_of(&exactly);
    exactly.zeroize();
    content.ok_or(OpenError::Tampered { kind })
}

fn check_len(kind: Kind, expected: usize, found: usize) -> Result<(), OpenError> {
    if found == expected {
        Ok(())
    } else {
        Err(OpenError::WrongLength {
            kind,
            expected,
            found,
        })
    }
}

/// Opens every chunk of a block or record by tag. `sealed` is `sealed_len(clear_len)` bytes.
pub(crate) fn open_chunks(
    parts: &Parts,
    secret: &BlockSecret,
    kind: Kind,
    clear_len: usize,
    sealed: &[u8],
) -> Result<Vec<u8>, OpenError> {
    let last = chunk_count(clear_len) - 1;
    let mut clear = Vec::with_capacity(clear_len);
    let mut result = Ok(());
    parts
        .chosen
        .decrypt(clear_len)
        .with_key(secret.key(), &mut |key| {
            for (number, chunk) in sealed.chunks(CHUNK_BYTES + TAG_BYTES).enumerate() {
                let place = if number == last {
                    ChunkPlace::Last
                } else {
                    ChunkPlace::Inner
                };
                let (text, tag) = chunk
                    .split_last_chunk()
                    .expect("the length was checked: each chunk has its tag");
                let start = clear.len();
                clear.extend_from_slice(text);
                if key
                    .open(&secret.nonce(number, place), &mut clear[start..], tag)
                    .is_err()
                {
                    result = Err(OpenError::Tampered { kind });
                    return;
                }
            }
        });
    if result.is_err() {
        clear.zeroize();
    }
    result.map(|()| clear)
}

/// Opens one sealed chunk and puts the clear bytes of `part` of it into `out`.
fn open_part(
    key: &dyn ChunkKey,
    nonce: &Nonce,
    sealed: &[u8],
    part: Range<usize>,
    out: &mut [u8],
) -> Result<(), Refused> {
    let (text, tag) = sealed
        .split_last_chunk()
        .expect("the length was checked: each chunk has its tag");
    if part.len() == text.len() {
        out.copy_from_slice(text);
        return key.open(nonce, out, tag);
    }
    let mut whole = [0; CHUNK_BYTES];
    let whole = &mut whole[..text.len()];
    whole.copy_from_slice(text);
    key.open(nonce, whole, tag)?;
    out.copy_from_slice(&whole[part]);
    Ok(())
}

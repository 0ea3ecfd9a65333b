//! Fills the last sector of a batch, so that outsiders see its length in whole sectors only.
//!
//! Takes   the index of a batch, and the length of its blocks
//! Gives   sealed index ‖ noise ‖ sealed lengths, which fill the batch's last sector; and the index again from these
//! Never   leaves zeros after sealed bytes
//! Spec    spec/3-segment.md, [3.13] to [3.15]

use crate::blocks::block_sealer::BlockSealer;
use crate::blocks::open::OpenError;
use crate::blocks::record::record_len;
use crate::random::{Random, RandomError, noise};
use strongroom_format::index::{IndexEntry, decode_index, encode_index};
use strongroom_format::limits::SECTOR_BYTES;
use strongroom_format::segment::{
    BATCH_HEADER_BYTES, BatchLengths, BatchPayload, SEALED_LENGTHS_BYTES, SaidLengths,
};
use strongroom_format::{Epoch, Kind};

/// What follows the blocks of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchTail {
    /// As many bytes as the batch needs to fill whole sectors.
    pub bytes: Vec<u8>,
    /// How many of them are the sealed index.
    pub index_len: usize,
}

/// Room for a tail of `count` blocks, but for the noise, in bytes.
#[must_use]
pub const fn tail_room(count: usize) -> usize {
    record_len(strongroom_format::index::index_len(count)) + SEALED_LENGTHS_BYTES
}

impl BlockSealer {
    /// Seals what follows `blocks_len` bytes of blocks, those of `entries`, under the newest epoch.
    ///
    /// O(count of entries), and at most a sector of noise.
    ///
    /// # Errors
    /// `RandomError` if `random` fails; then nothing was sealed.
    ///
    /// # Panics
    /// If there are more blocks or bytes than a batch may have: the caller bounds it.
    pub fn seal_tail(
        &self,
        random: &dyn Random,
        entries: &[IndexEntry],
        blocks_len: usize,
    ) -> Result<BatchTail, RandomError> {
        let index = self.seal_record(random, Kind::BatchIndex, &encode_index(entries))?;
        let index_len = index.len();
        let narrow =
            |len: usize| u32::try_from(len).expect("a batch is bounded before it is sealed");
        let lengths = BatchLengths {
            count: narrow(entries.len()),
            blocks_len: narrow(blocks_len),
            index_len: narrow(index_len),
        };
        let lengths = self.seal_record(random, Kind::BatchLengths, &lengths.encode())?;
        let end = BATCH_HEADER_BYTES + blocks_len + index_len + lengths.len();
        let padding = end.next_multiple_of(SECTOR_BYTES) - end;
        let mut bytes = index;
        bytes.resize(index_len + padding, 0);
        noise(random, &mut bytes[index_len..])?;
        bytes.extend_from_slice(&lengths);
        Ok(BatchTail { bytes, index_len })
    }

    /// The lengths of a batch.
    ///
    /// # Errors
    /// As `open_record`; `Tampered` for what is no lengths.
    pub fn open_lengths(
        &self,
        epoch: Epoch,
        payload: &BatchPayload<'_>,
    ) -> Result<BatchLengths, OpenError> {
        let kind = Kind::BatchLengths;
        match payload.lengths().ok_or(OpenError::Tampered { kind })? {
            SaidLengths::Told(lengths) => Ok(lengths),
            SaidLengths::Sealed(record) => {
                let clear = self.open_record(epoch, kind, record)?;
                BatchLengths::decode(&clear).ok_or(OpenError::Tampered { kind })
            }
        }
    }

    /// The index of a batch.
    ///
    /// # Errors
    /// As `open_record`; `Tampered` for what is no index.
    pub fn open_index(
        &self,
        epoch: Epoch,
        payload: &BatchPayload<'_>,
    ) -> Result<Vec<IndexEntry>, OpenError> {
        let kind = Kind::BatchIndex;
        let tampered = OpenError::Tampered { kind };
        let lengths = self.open_lengths(epoch, payload)?;
        let sealed = payload.sealed_index(&lengths).ok_or(tampered)?;
        let clear = self.open_record(epoch, kind, sealed)?;
        decode_index(&clear).map_err(|_| tampered)
    }
}

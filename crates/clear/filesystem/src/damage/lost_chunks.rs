//! Finds the lost chunks of a block, so that the others can still be read.
//!
//! Takes   the remaining sealed bytes of a block that does not open
//! Gives   a bit for each of its chunks
//! Never   counts a chunk as sound if the block can only be proven as a whole
//! Spec    spec/2-block.md, [2.20] to [2.23]

use std::ops::Range;

use strongroom_crypto::BlockSealer;
use strongroom_format::limits::{BLOCK_BYTES_MAX, CHUNK_BYTES};
use strongroom_format::span::{chunk_count, chunk_span};
use strongroom_format::{BlockId, Epoch, Kind};

/// Chunks of a block, the first in the lowest bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostChunks(pub u16);

const _: () = assert!(
    chunk_count(BLOCK_BYTES_MAX) <= u16::BITS as usize,
    "every chunk of a block has its bit"
);

impl LostChunks {
    /// None.
    pub const NONE: Self = Self(0);
    /// Every one that a block can have.
    pub const ALL: Self = Self(u16::MAX);

    /// The first `count`.
    #[must_use]
    pub const fn first(count: usize) -> Self {
        match count {
            0..16 => Self((1 << count) - 1),
            _ => Self::ALL,
        }
    }

    /// The ranges of clear bytes that they are, in order.
    #[must_use]
    pub fn ranges(self) -> Vec<Range<u32>> {
        let chunk = CHUNK_BYTES as u32;
        let lost = (0..u16::BITS).filter(|index| self.0 >> index & 1 == 1);
        lost.map(|index| index * chunk..(index + 1) * chunk)
            .collect()
    }

    /// Those of `sealed`, which should be the block, that do not open; a node of a tree, what was compressed, and what only the
    /// full proof opens, is lost as a whole.
    #[must_use]
    pub fn of(
        sealer: &BlockSealer,
        epoch: Epoch,
        kind: Kind,
        id: &BlockId,
        clear_len: u32,
        sealed: Option<&[u8]>,
    ) -> Self {
        let (Some(sealed), Kind::Data, false) = (sealed, kind, sealer.proves_fully(epoch)) else {
            return Self::ALL;
        };
        let len = clear_len as usize;
        let mut clear = vec![0; CHUNK_BYTES];
        let mut lost = 0;
        for index in 0..chunk_count(len).min(u16::BITS as usize) {
            let range = index * CHUNK_BYTES..len.min((index + 1) * CHUNK_BYTES);
            let part = sealed.get(chunk_span(len, range.clone()));
            let opens = part.is_some_and(|part| {
                let clear = &mut clear[..range.len()];
                !range.is_empty()
                    && sealer
                        .open_range(epoch, kind, id, len, range, part, clear)
                        .is_ok()
            });
            lost |= u16::from(!opens) << index;
        }
        // All tags fit, and still it is not the block of that name.
        if lost == 0 { Self::ALL } else { Self(lost) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strongroom_crypto::{EpochKey, IdKey};
    use strongroom_format::SuiteId;

    /// Goal: every chunk of the longest block has its bit, the last one too.
    #[test]
    fn each_chunk_of_a_full_block_is_lost_alone() {
        let keys = vec![(Epoch(0), EpochKey::from_bytes([1; 32]))];
        let suite = SuiteId::Aes256GcmBlake3;
        let sealer = BlockSealer::new(suite, [0; 16], IdKey::from_bytes([2; 32]), keys);
        let block = sealer.seal(Kind::Data, &[7; BLOCK_BYTES_MAX]);
        for index in 0..chunk_count(BLOCK_BYTES_MAX) {
            let start = index * CHUNK_BYTES;
            let mut sealed = block.bytes.clone();
            sealed[chunk_span(BLOCK_BYTES_MAX, start..start + 1).start] ^= 1;
            let lost = LostChunks::of(
                &sealer,
                Epoch(0),
                Kind::Data,
                &block.id,
                block.clear_len,
                Some(&sealed),
            );
            assert_eq!(lost, LostChunks(1 << index));
        }
        let all = LostChunks::first(chunk_count(BLOCK_BYTES_MAX));
        assert_eq!(all.ranges().last().unwrap().end as usize, BLOCK_BYTES_MAX);
        assert_eq!(
            LostChunks::first(9).ranges().last().unwrap().end as usize,
            9 * CHUNK_BYTES
        );
    }
}

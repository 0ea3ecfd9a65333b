//! Which chunks of a block do not open.
//!
//! Takes   the sealed bytes that should be a block
//! Gives   a bit for each chunk, and the ranges of clear bytes that are lost with them
//! Never   says that a block is sound
//! Spec    spec/7-recovery.md

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

    /// Those of `sealed`, which should be the block, that do not open; a node of a tree, and what was compressed, is lost
    /// as a whole.
    #[must_use]
    pub fn of(
        sealer: &BlockSealer,
        epoch: Epoch,
        kind: Kind,
        id: &BlockId,
        clear_len: u32,
        sealed: Option<&[u8]>,
    ) -> Self {
        let (Some(sealed), Kind::Data) = (sealed, kind) else {
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

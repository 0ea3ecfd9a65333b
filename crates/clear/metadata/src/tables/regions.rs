//! Turns the extents of one region of a file into the bytes of one row, and back.
//!
//! Takes   sorted extents of one region, or the bytes of a row
//! Gives   the reverse: bytes for extents, extents for bytes; or what is wrong with the bytes
//! Never   panics on any input, or allocates more than eight times its length
//! Spec    spec/4-metadata.md, 4.5
//!
//! Invariants
//!  (1) Decoded extents are sorted and do not overlap, and each is inside one cell and one block.  [4.5.3]
//!  (2) A list of extents has exactly one encoding. Decoding anything else fails.                   [4.5.4]

use strongroom_format::cbor::{unzigzag, zigzag};
use strongroom_format::limits::BLOCK_BYTES_MAX;

use crate::limits::{REGION_BYTES, REGION_EXTENTS_MAX, REGION_ROW_BYTES_MAX};
use crate::rows::{BlockNumber, Extent};

/// The fewest bytes an extent takes: gap, length, block, offset.
const EXTENT_BYTES_MIN: usize = 4;

/// What is wrong with a list of extents or with the bytes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RegionError(pub &'static str);

/// Gives the bytes of the row that holds `extents`, all of which start in `region`.
///
/// # Errors
/// `RegionError` if `extents` break invariant (1) or one lies outside `region`.
pub fn encode(region: u64, extents: &[Extent]) -> Result<Vec<u8>, RegionError> {
    let mut bytes = Vec::with_capacity(extents.len() * 5 + 4);
    let mut cursor = Cursor::at(region)?;
    if extents.len() > REGION_EXTENTS_MAX {
        return Err(RegionError("more extents than bytes"));
    }
    for extent in extents {
        let gap = cursor.step(extent)?;
        put_varint(&mut bytes, gap);
        put_varint(&mut bytes, BLOCK_BYTES_MAX as u64 - u64::from(extent.len));
        let hop = extent.block.0.wrapping_sub(cursor.block).cast_signed();
        put_varint(&mut bytes, zigzag(hop));
        put_varint(&mut bytes, u64::from(extent.block_offset));
        cursor.block = extent.block.0;
    }
    Ok(bytes)
}

/// Gives the extents that `bytes`, the row of `region`, holds.
///
/// # Errors
/// `RegionError` if `encode` never gives these bytes for this region.
pub fn decode(region: u64, bytes: &[u8]) -> Result<Vec<Extent>, RegionError> {
    if bytes.len() > REGION_ROW_BYTES_MAX {
        return Err(RegionError("a row of extents is too long"));
    }
    let mut cursor = Cursor::at(region)?;
    let mut extents = Vec::with_capacity(bytes.len() / EXTENT_BYTES_MIN);
    let mut rest = bytes;
    while !rest.is_empty() {
        let gap = take_varint(&mut rest)?;
        let missing = take_varint(&mut rest)?;
        let hop = unzigzag(take_varint(&mut rest)?);
        let block_offset = take_varint(&mut rest)?;
        let len = (BLOCK_BYTES_MAX as u64)
            .checked_sub(missing)
            .ok_or(RegionError("an extent is too short"))?;
        let extent = Extent {
            start: cursor
                .end
                .checked_add(gap)
                .ok_or(RegionError("an extent starts beyond its region"))?,
            len: u32::try_from(len).map_err(|_| RegionError("an extent is too long"))?,
            block: BlockNumber(cursor.block.wrapping_add_signed(hop)),
            block_offset: u32::try_from(block_offset)
                .map_err(|_| RegionError("an extent is outside its block"))?,
        };
        cursor.step(&extent)?;
        cursor.block = extent.block.0;
        extents.push(extent);
    }
    Ok(extents)
}

/// Where the extent before ended, and which block it named: what the next is written relative to.
struct Cursor {
    end: u64,
    block: u64,
    region_end: u64,
}

impl Cursor {
    /// At the beginning of `region`.
    fn at(region: u64) -> Result<Self, RegionError> {
        let end = region
            .checked_mul(REGION_BYTES)
            .ok_or(RegionError("the region is beyond 2^64 bytes"))?;
        let region_end = end
            .checked_add(REGION_BYTES)
            .ok_or(RegionError("the region is beyond 2^64 bytes"))?;
        Ok(Self {
            end,
            block: 0,
            region_end,
        })
    }

    /// Checks invariant (1) for `extent`, moves behind it and gives the gap before it.
    fn step(&mut self, extent: &Extent) -> Result<u64, RegionError> {
        const CELL: u64 = BLOCK_BYTES_MAX as u64;
        let len = u64::from(extent.len);
        if len == 0 || len > CELL {
            return Err(RegionError("an extent has no valid length"));
        }
        if extent.start >= self.region_end {
            return Err(RegionError("an extent starts beyond its region"));
        }
        let gap = extent
            .start
            .checked_sub(self.end)
            .ok_or(RegionError("extents overlap or are not sorted"))?;
        if extent.start % CELL + len > CELL {
            return Err(RegionError("an extent crosses a cell"));
        }
        if u64::from(extent.block_offset) + len > CELL {
            return Err(RegionError("an extent is outside its block"));
        }
        self.end = extent.start + len;
        Ok(gap)
    }
}

/// Appends `value` in groups of seven bits, lowest first; the top bit says that more follow.
fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes one number off the front of `rest`; refuses a longer form than `put_varint` writes.
fn take_varint(rest: &mut &[u8]) -> Result<u64, RegionError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest
            .split_first()
            .ok_or(RegionError("a row of extents ends too early"))?;
        *rest = tail;
        let bits = u64::from(byte & 0x7f);
        if (bits << shift) >> shift != bits {
            return Err(RegionError("a number is too large"));
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            let padded = byte == 0 && shift > 0;
            return if padded {
                Err(RegionError("a number is not in its shortest form"))
            } else {
                Ok(value)
            };
        }
    }
    Err(RegionError("a number is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CELL: u64 = BLOCK_BYTES_MAX as u64;

    /// Extents that keep invariant (1), from gaps and lengths of any size.
    fn extents(region: u64, pieces: Vec<(u32, u32, u64, u32)>) -> Vec<Extent> {
        let mut extents = Vec::new();
        let mut end = region * REGION_BYTES;
        for (gap, len, block, offset) in pieces {
            let start = end + u64::from(gap);
            let len = u64::from(len).clamp(1, CELL - start % CELL);
            if start >= (region + 1) * REGION_BYTES {
                break;
            }
            let block_offset = u64::from(offset) % (CELL - len + 1);
            end = start + len;
            extents.push(Extent {
                start,
                len: len as u32,
                block: BlockNumber(block),
                block_offset: block_offset as u32,
            });
        }
        extents
    }

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(
            region in 0..u64::MAX / REGION_BYTES,
            pieces in prop::collection::vec((0..70_000u32, 1..70_000u32, any::<u64>(), any::<u32>()), 0..200),
        ) {
            let extents = extents(region, pieces);
            let bytes = encode(region, &extents).unwrap();
            prop_assert_eq!(decode(region, &bytes).unwrap(), extents);
        }

        #[test]
        fn hostile_bytes_are_refused_or_are_the_one_encoding_of_what_they_give(
            region in prop_oneof![0..4u64, any::<u64>()],
            bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0x80), Just(0xff), any::<u8>()], 0..100),
        ) {
            if let Ok(extents) = decode(region, &bytes) {
                prop_assert_eq!(encode(region, &extents).unwrap(), bytes);
            }
        }

        #[test]
        fn a_changed_row_never_decodes_to_extents_that_break_the_rules(
            pieces in prop::collection::vec((0..70_000u32, 1..70_000u32, 0..1000u64, any::<u32>()), 1..50),
            position in any::<prop::sample::Index>(),
            flip in 1..=255u8,
        ) {
            let mut bytes = encode(3, &extents(3, pieces)).unwrap();
            prop_assume!(!bytes.is_empty());
            let position = position.index(bytes.len());
            bytes[position] ^= flip;
            if let Ok(changed) = decode(3, &bytes) {
                prop_assert!(encode(3, &changed).is_ok());
            }
        }
    }

    #[test]
    fn a_file_written_in_one_run_takes_four_bytes_an_extent() {
        let run: Vec<Extent> = (0..64)
            .map(|cell| Extent {
                start: cell * CELL,
                len: CELL as u32,
                block: BlockNumber(500 + cell),
                block_offset: 0,
            })
            .collect();
        assert_eq!(encode(0, &run).unwrap().len(), 64 * 4 + 1);
    }

    #[test]
    fn each_rule_is_kept_when_encoding() {
        let fine = Extent {
            start: CELL,
            len: 100,
            block: BlockNumber(1),
            block_offset: 0,
        };
        assert!(encode(0, &[fine]).is_ok());
        let broken = [
            vec![Extent { len: 0, ..fine }],
            vec![Extent {
                len: CELL as u32 + 1,
                ..fine
            }],
            vec![Extent {
                start: CELL - 1,
                ..fine
            }],
            vec![Extent {
                block_offset: CELL as u32 - 99,
                ..fine
            }],
            vec![Extent {
                block_offset: u32::MAX,
                ..fine
            }],
            vec![Extent {
                start: REGION_BYTES,
                ..fine
            }],
            vec![Extent {
                start: u64::MAX,
                ..fine
            }],
            vec![fine, fine],
            vec![
                Extent {
                    start: 2 * CELL,
                    ..fine
                },
                fine,
            ],
            vec![
                fine,
                Extent {
                    start: CELL + 99,
                    ..fine
                },
            ],
        ];
        for extents in broken {
            assert!(encode(0, &extents).is_err(), "{extents:?}");
        }
        assert!(encode(1, &[fine]).is_err(), "another region's");
        assert!(encode(u64::MAX, &[]).is_err(), "a region beyond 2^64 bytes");
    }

    #[test]
    fn each_way_a_row_can_be_wrong_is_named() {
        let cases: [(&[u8], &str); 8] = [
            (&[0], "a row of extents ends too early"),
            (&[0, 0, 0], "a row of extents ends too early"),
            (&[0x80, 0, 0, 0, 0], "a number is not in its shortest form"),
            (&[0xff; 12], "a number is too large"),
            (&[0, 0xff, 0xff, 0x7f, 0, 0], "an extent is too short"),
            (
                &[0, 0x80, 0x80, 0x04, 0, 0],
                "an extent has no valid length",
            ),
            (&[0, 0, 0, 1], "an extent is outside its block"),
            (&[1, 0, 0, 0], "an extent crosses a cell"),
        ];
        for (bytes, says) in cases {
            assert_eq!(decode(0, bytes), Err(RegionError(says)), "{bytes:?}");
        }
        assert_eq!(
            decode(0, &vec![0; REGION_ROW_BYTES_MAX + 1]),
            Err(RegionError("a row of extents is too long"))
        );
    }
}

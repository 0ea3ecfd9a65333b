//! Converts lengths and ranges of clear content to those of its sealed bytes: pure arithmetic.
//!
//! Takes   a clear length, a clear range or a sealed length
//! Gives   the range of the sealed bytes inside their block
//! Never   overflows or panics, whatever the numbers
//! Spec    spec/2-block.md, [2.15] and [2.16]

use crate::limits::{CHUNK_BYTES, TAG_BYTES};
use std::ops::Range;

/// Bytes of a sealed chunk that is full.
const SEALED_CHUNK_BYTES: usize = CHUNK_BYTES + TAG_BYTES;

/// Count of chunks that `clear_len` bytes are cut into.
///
/// No bytes still make one chunk, so that its tag exists.
#[must_use]
pub const fn chunk_count(clear_len: usize) -> usize {
    if clear_len == 0 {
        1
    } else {
        clear_len.div_ceil(CHUNK_BYTES)
    }
}

/// Length in bytes of what is sealed from `clear_len` bytes.
#[must_use]
pub const fn sealed_len(clear_len: usize) -> usize {
    clear_len.saturating_add(chunk_count(clear_len) * TAG_BYTES)
}

/// Length in bytes of the content that `sealed_len` sealed bytes hold; `None` if no content seals to that length.
#[must_use]
pub const fn clear_len(sealed_len: usize) -> Option<usize> {
    let rest = sealed_len % SEALED_CHUNK_BYTES;
    let full = sealed_len / SEALED_CHUNK_BYTES;
    match (full, rest) {
        (0, TAG_BYTES) => Some(0),
        (1.., 0) => Some(full * CHUNK_BYTES),
        (_, 0..=TAG_BYTES) => None,
        (_, _) => Some(full * CHUNK_BYTES + rest - TAG_BYTES),
    }
}

/// The numbers of the chunks that hold the clear bytes of `range`; none for an empty range.
///
/// What of `range` lies beyond `clear_len` is cut off.
#[must_use]
pub fn chunks_covering(clear_len: usize, range: Range<usize>) -> Range<usize> {
    let end = range.end.min(clear_len);
    if range.start >= end {
        return 0..0;
    }
    range.start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)
}

/// Where the sealed bytes of the chunks that hold the clear bytes of `range` lie, counted from the block's first byte.
///
/// Empty for an empty range. What of `range` lies beyond `clear_len` is cut off.
#[must_use]
pub fn chunk_span(clear_len: usize, range: Range<usize>) -> Range<usize> {
    let chunks = chunks_covering(clear_len, range);
    if chunks.is_empty() {
        return 0..0;
    }
    let end = chunks
        .end
        .saturating_mul(SEALED_CHUNK_BYTES)
        .min(sealed_len(clear_len));
    (chunks.start.saturating_mul(SEALED_CHUNK_BYTES)).min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BLOCK_BYTES_MAX;

    #[test]
    fn worked_sizes_of_the_specification_hold() {
        let sizes = [
            (0, 16),
            (1, 17),
            (100, 116),
            (4095, 4111),
            (4096, 4112),
            (4097, 4129),
            (8192, 8224),
            (20_000, 20_080),
            (65_535, 65_791),
            (65_536, 65_792),
        ];
        for (clear, sealed) in sizes {
            assert_eq!(sealed_len(clear), sealed, "of {clear} clear bytes");
        }
    }

    #[test]
    fn a_sealed_length_gives_back_the_clear_one_or_nothing() {
        let mut possible = std::collections::HashMap::new();
        for clear in 0..=3 * CHUNK_BYTES {
            possible.insert(sealed_len(clear), clear);
        }
        for sealed in 0..=sealed_len(3 * CHUNK_BYTES) {
            assert_eq!(
                clear_len(sealed),
                possible.get(&sealed).copied(),
                "of {sealed} sealed bytes"
            );
        }
    }

    #[test]
    fn the_whole_range_spans_the_whole_block() {
        for clear in [
            1,
            16,
            CHUNK_BYTES - 1,
            CHUNK_BYTES,
            CHUNK_BYTES + 1,
            BLOCK_BYTES_MAX - 1,
            BLOCK_BYTES_MAX,
        ] {
            assert_eq!(chunk_span(clear, 0..clear), 0..sealed_len(clear));
        }
    }

    #[test]
    fn a_range_spans_exactly_the_chunks_it_touches() {
        let whole = BLOCK_BYTES_MAX;
        assert_eq!(chunk_span(whole, 0..1), 0..4112);
        assert_eq!(chunk_span(whole, 4095..4096), 0..4112);
        assert_eq!(chunk_span(whole, 4095..4097), 0..8224);
        assert_eq!(chunk_span(whole, 4096..4097), 4112..8224);
        assert_eq!(chunk_span(whole, 65_535..65_536), 61_680..65_792);
        assert_eq!(chunk_span(20_000, 16_384..20_000), 16_448..20_080);
    }

    #[test]
    fn an_empty_range_spans_nothing() {
        assert_eq!(chunk_span(0, 0..0), 0..0);
        assert_eq!(chunk_span(100, 100..100), 0..0);
        assert_eq!(chunk_span(100, 200..300), 0..0);
    }

    #[test]
    fn no_number_is_too_large_for_the_arithmetic() {
        let max = usize::MAX;
        for clear in [0, 1, max - 1, max] {
            for start in [0, 1, max - 1, max] {
                for end in [0, 1, max - 1, max] {
                    let span = chunk_span(clear, start..end);
                    assert!(span.start <= span.end && span.end <= sealed_len(clear));
                }
            }
            assert!(sealed_len(clear) >= clear);
            assert!(clear_len(clear).is_none_or(|found| found <= clear));
        }
    }
}

//! Content that is newer than the stored extents: an ordered map of byte ranges that do not overlap.
//!
//! Takes   writes and holes
//! Gives   pieces, each inside one 64 KiB cell, or a hole of any length
//! Never   does I/O
//!
//! Invariants
//!  (1) Pieces do not overlap, and none is empty.
//!  (2) A data piece lies inside one cell, so that it becomes at most one block.
//!  (3) `data_bytes` is the sum of the lengths of all data pieces.

use std::collections::BTreeMap;
use std::ops::Range;

use strongroom_format::limits::BLOCK_BYTES_MAX;

/// Cells in bytes: the grid that content is cut on.
pub(crate) const CELL_BYTES: u64 = BLOCK_BYTES_MAX as u64;

/// Bytes of memory that a piece takes besides its data, roughly: its node in the map and its allocation.
const PIECE_COST: u64 = 96;

/// What a range holds.
#[derive(Debug)]
pub(crate) enum Piece {
    /// These bytes.
    Data(Vec<u8>),
    /// Zeros, for so many bytes, whatever the extents say.
    Hole(u64),
}

impl Piece {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Data(bytes) => bytes.len() as u64,
            Self::Hole(len) => *len,
        }
    }
}

/// What a part of a range is, seen from one overlay.
pub(crate) enum Part<'a> {
    /// These bytes.
    Data(&'a [u8]),
    /// Zeros.
    Hole,
    /// Not here: look further down.
    Below,
}

/// Pending content of one file.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    pieces: BTreeMap<u64, Piece>,
    data_bytes: u64,
}

impl Overlay {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes of data, holes not counted.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// What it costs in memory: data, and a fixed amount per piece, so that holes and crumbs are bounded too.
    pub(crate) fn cost(&self) -> u64 {
        self.data_bytes + self.pieces.len() as u64 * PIECE_COST
    }

    /// All pieces in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u64, &Piece)> {
        self.pieces.iter().map(|(start, piece)| (*start, piece))
    }

    /// The bytes of the data piece that begins at `start`; none if there is no such piece.
    pub(crate) fn data_at(&self, start: u64) -> &[u8] {
        match self.pieces.get(&start) {
            Some(Piece::Data(bytes)) => bytes,
            _ => &[],
        }
    }

    /// Lays `data` over whatever is at `offset`.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let room = CELL_BYTES - at % CELL_BYTES;
            let take = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
            self.write_in_cell(at, &rest[..take]);
            at += take as u64;
            rest = &rest[take..];
        }
    }

    fn write_in_cell(&mut self, at: u64, data: &[u8]) {
        let end = at + data.len() as u64;
        let cell = at - at % CELL_BYTES;
        if let Some((&start, Piece::Data(bytes))) = self.pieces.range_mut(cell..=at).next_back() {
            let inside = usize::try_from(at - start).unwrap_or(usize::MAX);
            if inside <= bytes.len() {
                let overlap = data.len().min(bytes.len() - inside);
                bytes[inside..inside + overlap].copy_from_slice(&data[..overlap]);
                if overlap < data.len() {
                    let from = start + bytes.len() as u64;
                    self.cut(from..end);
                    self.extend(start, &data[overlap..]);
                }
                return;
            }
        }
        self.cut(at..end);
        let mut bytes = Vec::with_capacity(data.len());
        bytes.extend_from_slice(data);
        self.pieces.insert(at, Piece::Data(bytes));
        self.data_bytes += data.len() as u64;
        self.join_next(at);
    }

    /// Appends to the data piece at `start`, whose end nothing follows directly.
    fn extend(&mut self, start: u64, data: &[u8]) {
        if let Some(Piece::Data(bytes)) = self.pieces.get_mut(&start) {
            bytes.extend_from_slice(data);
            self.data_bytes += data.len() as u64;
        }
        self.join_next(start);
    }

    /// Joins the data piece at `start` with a data piece that follows it directly in the same cell.
    fn join_next(&mut self, start: u64) {
        let Some(Piece::Data(bytes)) = self.pieces.get(&start) else {
            return;
        };
        let end = start + bytes.len() as u64;
        if end.is_multiple_of(CELL_BYTES) || !matches!(self.pieces.get(&end), Some(Piece::Data(_)))
        {
            return;
        }
        let Some(Piece::Data(next)) = self.pieces.remove(&end) else {
            return;
        };
        if let Some(Piece::Data(bytes)) = self.pieces.get_mut(&start) {
            bytes.extend_from_slice(&next);
        }
    }

    /// Makes `range` read as zeros, whatever lies below.
    pub(crate) fn punch(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        self.cut(range.clone());
        self.pieces
            .insert(range.start, Piece::Hole(range.end - range.start));
    }

    /// Forgets what is here of `range`; what lies below shows again.
    pub(crate) fn cut(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        self.split_at(range.start);
        self.split_at(range.end);
        let inside: Vec<u64> = self.pieces.range(range).map(|(start, _)| *start).collect();
        for start in inside {
            if let Some(Piece::Data(bytes)) = self.pieces.remove(&start) {
                self.data_bytes -= bytes.len() as u64;
            }
        }
    }

    /// Splits the piece that `at` lies strictly inside of.
    fn split_at(&mut self, at: u64) {
        let Some((&start, piece)) = self.pieces.range_mut(..at).next_back() else {
            return;
        };
        let inside = at - start;
        if inside >= piece.len() {
            return;
        }
        let tail = match piece {
            Piece::Data(bytes) => {
                Piece::Data(bytes.split_off(usize::try_from(inside).unwrap_or(0)))
            }
            Piece::Hole(len) => {
                let tail = *len - inside;
                *len = inside;
                Piece::Hole(tail)
            }
        };
        self.pieces.insert(at, tail);
    }

    /// Cuts `range` into parts, in order and without gaps, and hands each to `visit`.
    pub(crate) fn visit<'a>(
        &'a self,
        range: Range<u64>,
        mut visit: impl FnMut(Range<u64>, Part<'a>),
    ) {
        let mut at = range.start;
        let first = self
            .pieces
            .range(..=at)
            .next_back()
            .map_or(at, |(start, _)| *start);
        for (&start, piece) in self.pieces.range(first.min(at)..range.end) {
            let end = start + piece.len();
            if end <= at {
                continue;
            }
            if start > at {
                visit(at..start, Part::Below);
                at = start;
            }
            let until = end.min(range.end);
            let part = match piece {
                Piece::Data(bytes) => {
                    let from = usize::try_from(at - start).unwrap_or(usize::MAX);
                    let to = usize::try_from(until - start).unwrap_or(usize::MAX);
                    Part::Data(&bytes[from..to])
                }
                Piece::Hole(_) => Part::Hole,
            };
            visit(at..until, part);
            at = until;
        }
        if at < range.end {
            visit(at..range.end, Part::Below);
        }
    }

    /// Puts the pieces of an older overlay below this one's: a drain failed, its content is pending again.
    pub(crate) fn lay_below(&mut self, older: &Self) {
        for (start, piece) in older.pieces() {
            let mut gaps = Vec::new();
            self.visit(start..start + piece.len(), |range, part| {
                if matches!(part, Part::Below) {
                    gaps.push(range);
                }
            });
            for gap in gaps {
                match piece {
                    Piece::Data(bytes) => {
                        let from = usize::try_from(gap.start - start).unwrap_or(0);
                        let to = usize::try_from(gap.end - start).unwrap_or(0);
                        self.write(gap.start, &bytes[from..to]);
                    }
                    Piece::Hole(_) => self.punch(gap),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(overlay: &Overlay, range: Range<u64>) -> Vec<Option<u8>> {
        let mut out = Vec::new();
        overlay.visit(range, |range, part| match part {
            Part::Data(bytes) => out.extend(bytes.iter().map(|byte| Some(*byte))),
            Part::Hole => out.extend((range.start..range.end).map(|_| Some(0))),
            Part::Below => out.extend((range.start..range.end).map(|_| None)),
        });
        out
    }

    /// Goal: the overlay equals an array of optional bytes under any sequence of operations.
    #[test]
    fn behaves_as_an_array_of_optional_bytes() {
        const SPAN: u64 = 3 * CELL_BYTES;
        let mut seed = 7_u64;
        let mut next = move |bound: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % bound
        };
        let mut overlay = Overlay::default();
        let mut model = vec![None; SPAN as usize];
        for round in 0..4_000_u64 {
            // Half of the ranges hug a cell border, where the arithmetic is.
            let start = if round % 2 == 0 {
                next(SPAN)
            } else {
                (CELL_BYTES - 20 + next(40)).min(SPAN - 1)
            };
            let len = if round % 3 == 0 {
                next(90_000)
            } else {
                next(60)
            };
            let end = (start + len).min(SPAN);
            let (from, to) = (start as usize, end as usize);
            match next(4) {
                0 => {
                    overlay.punch(start..end);
                    model[from..to].fill(Some(0));
                }
                1 => {
                    overlay.cut(start..end);
                    model[from..to].fill(None);
                }
                _ => {
                    let byte = next(255) as u8 + 1;
                    overlay.write(start, &vec![byte; to - from]);
                    model[from..to].fill(Some(byte));
                }
            }
            if round % 50 == 0 {
                assert_eq!(read(&overlay, 0..SPAN), model, "round {round}");
            }
            let mut sum = 0;
            let mut last_end = 0;
            for (start, piece) in overlay.pieces() {
                assert!(start >= last_end && piece.len() > 0, "(1) round {round}");
                last_end = start + piece.len();
                if let Piece::Data(bytes) = piece {
                    sum += bytes.len() as u64;
                    assert_eq!(
                        start / CELL_BYTES,
                        (last_end - 1) / CELL_BYTES,
                        "(2) round {round}"
                    );
                }
            }
            assert_eq!(sum, overlay.data_bytes(), "(3) round {round}");
        }
    }

    #[test]
    fn older_pieces_show_only_where_nothing_newer_is() {
        let mut older = Overlay::default();
        older.write(0, b"aaaaaaaa");
        older.punch(20..30);
        let mut newer = Overlay::default();
        newer.write(2, b"bb");
        newer.lay_below(&older);
        assert_eq!(
            read(&newer, 0..8),
            b"aabbaaaa"
                .iter()
                .map(|byte| Some(*byte))
                .collect::<Vec<_>>()
        );
        assert_eq!(read(&newer, 20..30), vec![Some(0); 10]);
    }
}

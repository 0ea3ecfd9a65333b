//! The layout of SQLite's log in its file, and which of its frames are valid.
//!
//! Takes   offsets as SQLite counts them; the bytes of a log that an earlier run left
//! Gives   offsets in the file, where a seal follows each frame; the frames that SQLite would accept
//! Never   needs a key
//! Spec    spec/4-metadata.md, 4.9 and 4.12; SQLite's file format, chapter 4
//!
//! Invariants
//!  (1) A frame is valid exactly if SQLite's own recovery would accept it: it has the salts of the header, and the right checksum
//!      over everything since the header.

use std::io::{self, Read};

use crate::limits::PAGE_BYTES;
use crate::pages::tree::{LEAF_BYTES, Leaf};

/// Bytes of the log's header.
pub(crate) const HEADER_BYTES: usize = 32;
/// Bytes of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: usize = 24;
/// Bytes of a frame as SQLite has it.
pub(crate) const FRAME_BYTES: usize = FRAME_HEADER_BYTES + PAGE_BYTES;
/// Bytes behind each frame: the root and its seal behind the last frame of a commit, zeros behind the others.
pub(crate) const SEAL_BYTES: usize = 64;
/// Bytes from one frame to the next.
pub(crate) const STRIDE: usize = FRAME_BYTES + SEAL_BYTES;

/// Where the HMAC of a page begins, which SQLCipher writes at its end.
const TAG_OFFSET: usize = PAGE_BYTES - 64;

/// The first number of a log, but for its last bit: whether checksums are of big-endian words, those of the machine.
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// What stands for a page as SQLCipher sealed it.
pub(crate) fn leaf_of(page: &[u8]) -> Leaf {
    let tag = page.get(TAG_OFFSET..TAG_OFFSET + LEAF_BYTES);
    tag.and_then(|tag| tag.try_into().ok())
        .map_or(Leaf::NONE, Leaf)
}

/// A part of the log as SQLite asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// In the header.
    Header,
    /// In the frame with this number, counted from 0, from this byte of it on.
    Frame(u32, usize),
}

/// What lies at `offset` of SQLite's log; `None` if `len` bytes from there belong to more than one part.
pub(crate) fn part(offset: u64, len: usize) -> Option<Part> {
    let Some(in_frames) = offset.checked_sub(HEADER_BYTES as u64) else {
        let end = offset as usize + len;
        return (end <= HEADER_BYTES).then_some(Part::Header);
    };
    let frame = u32::try_from(in_frames / FRAME_BYTES as u64).ok()?;
    let within = (in_frames % FRAME_BYTES as u64) as usize;
    (within + len <= FRAME_BYTES).then_some(Part::Frame(frame, within))
}

/// Where the frame with this number begins in the file.
pub(crate) const fn frame_start(frame: u32) -> u64 {
    HEADER_BYTES as u64 + frame as u64 * STRIDE as u64
}

/// How long SQLite believes a log of so many frames to be.
pub(crate) const fn len_of(frames: u32) -> u64 {
    HEADER_BYTES as u64 + frames as u64 * FRAME_BYTES as u64
}

/// The header of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogHeader {
    pub(crate) salts: [u8; 8],
    order: Order,
    checksum: [u32; 2],
}

/// The order of bytes in the words that checksums are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl LogHeader {
    /// What SQLite would take for the header of a log of these pages; `None` for anything else, which it takes for no log. (1)
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let number =
            |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if number(0) & !1 != MAGIC || number(4) != VERSION || number(8) as usize != PAGE_BYTES {
            return None;
        }
        let order = if number(0) == MAGIC {
            Order::Little
        } else {
            Order::Big
        };
        let checksum = checksum(order, [0; 2], &bytes[..24]);
        if checksum != [number(24), number(28)] {
            return None;
        }
        let salts = bytes[16..24].try_into().expect("eight bytes");
        Some(Self {
            salts,
            order,
            checksum,
        })
    }
}

/// A frame that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) page: u32,
    pub(crate) leaf: Leaf,
    /// Pages of the database after the commit that this frame ends; 0 for any other frame.
    pub(crate) pages_after: u32,
    pub(crate) seal: [u8; SEAL_BYTES],
}

/// The frames of a log that count, those of a commit that was cut off included.                                    (1)
pub(crate) struct Frames<R> {
    log: R,
    salts: [u8; 8],
    order: Order,
    checksum: [u32; 2],
    bytes: Box<[u8; STRIDE]>,
}

impl<R: Read> Frames<R> {
    /// Those behind `header`, which was just read from `log`.
    pub(crate) fn new(log: R, header: &LogHeader) -> Self {
        Self {
            log,
            salts: header.salts,
            order: header.order,
            checksum: header.checksum,
            bytes: Box::new([0; STRIDE]),
        }
    }

    /// The next frame; `None` behind the last.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        self.bytes.fill(0);
        let len = read_up_to(&mut self.log, &mut self.bytes[..])?;
        if len < FRAME_BYTES {
            return Ok(None);
        }
        let (frame, seal) = self.bytes.split_at(FRAME_BYTES);
        let (header, page) = frame.split_at(FRAME_HEADER_BYTES);
        let number =
            |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
        if number(0) == 0 || header[8..16] != self.salts {
            return Ok(None);
        }
        let before = checksum(self.order, self.checksum, &header[..8]);
        self.checksum = checksum(self.order, before, page);
        if self.checksum != [number(16), number(20)] {
            return Ok(None);
        }
        Ok(Some(Frame {
            page: number(0),
            leaf: leaf_of(page),
            pages_after: number(4),
            seal: seal.try_into().expect("(1) holds: the rest of a stride"),
        }))
    }
}

/// Fills `out` as far as `source` goes.
pub(crate) fn read_up_to(source: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < out.len() {
        match source.read(&mut out[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// SQLite's checksum, carried on over `bytes`, whose length is a multiple of eight.
fn checksum(order: Order, [mut first, mut second]: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    let word = |bytes: [u8; 4]| match order {
        Order::Little => u32::from_le_bytes(bytes),
        Order::Big => u32::from_be_bytes(bytes),
    };
    let (words, _) = bytes.as_chunks::<4>();
    for pair in words.chunks_exact(2) {
        first = first.wrapping_add(word(pair[0])).wrapping_add(second);
        second = second.wrapping_add(word(pair[1])).wrapping_add(first);
    }
    [first, second]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_log_are_told_apart_and_nothing_spans_two() {
        assert_eq!(part(0, 32), Some(Part::Header));
        assert_eq!(part(24, 8), Some(Part::Header));
        assert_eq!(part(24, 9), None);
        assert_eq!(part(32, FRAME_BYTES), Some(Part::Frame(0, 0)));
        assert_eq!(part(len_of(7) + 24, PAGE_BYTES), Some(Part::Frame(7, 24)));
        assert_eq!(part(len_of(7) + 25, PAGE_BYTES), None);
        assert_eq!(part(u64::MAX, 1), None);
        assert_eq!(frame_start(2) - frame_start(1), STRIDE as u64);
    }

    /// Computed by hand from the loop in SQLite's file format, 4.2, over words 1, 2, 3, 4.
    #[test]
    fn the_checksum_is_that_of_sqlite() {
        let words = [1u32, 2, 3, 4];
        let little: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let big: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        // first = 1 + 0 = 1, second = 2 + 1 = 3; first = 1 + 3 + 3 = 7, second = 3 + 4 + 7 = 14.
        assert_eq!(checksum(Order::Little, [0; 2], &little), [7, 14]);
        assert_eq!(checksum(Order::Big, [0; 2], &big), [7, 14]);
    }
}

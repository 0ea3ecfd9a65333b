//! Gathers the frames that a commit writes to the log, so that they are written together.
//!
//! Takes   SQLite's writes to the log: for each frame its header, then its page
//! Gives   the bytes to write now, and their offset
//! Never   holds frames back after SQLite may rely on them, or holds more than `GATHERED_BYTES_MAX`
//! Spec    spec/4-metadata.md, 4.8.6
//!
//! SQLite makes a commit visible to other connections when the write of its last page has returned. The header of that page
//! marks it as the last (its second number is not 0), so at that page at the latest all gathered frames are written.
//!
//! Invariants
//!  (1) Gathered frames are contiguous in the file.
//!  (2) No gathered frame ends a commit, except during the call that writes the frames.

use crate::limits::PAGE_BYTES;
use crate::pages::NewFrame;
use crate::pages::log_layout::{
    self, FRAME_BYTES, FRAME_HEADER_BYTES as HEADER_BYTES, Part, SEAL_BYTES, leaf_of,
};

/// Where a header says how many pages the database has after the commit that the frame ends; 0 for any other frame.
const COMMIT_FIELD: std::ops::Range<usize> = 4..8;

/// Gathered frames are due once they are this long, in bytes.
const GATHERED_BYTES_MAX: usize = 120 * 1024;

/// The most that the system's VFS of SQLite writes in one call, in bytes; it takes a longer write for a full disk.
const CALL_BYTES_MAX: usize = 0x1ffff;

const _: () = assert!(
    GATHERED_BYTES_MAX + FRAME_BYTES + SEAL_BYTES <= CALL_BYTES_MAX,
    "the frame that triggers the write fits into it"
);

/// Frames of one log file that SQLite has written and the file does not have yet.
pub(crate) struct Frames {
    /// As they lie in the file: where the log has seals, there is room for one behind each frame.
    bytes: Vec<u8>,
    noted: Vec<NewFrame>,
    seal_bytes: usize,
    /// Where the next write must go, as SQLite counts.
    next: u64,
    /// Where the first frame begins, as SQLite counts, and in the file.
    first: u32,
    start: u64,
    expects: Expects,
}

/// What the next write to the log may be, to be gathered.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Expects {
    #[default]
    Header,
    Page {
        number: u32,
        /// Pages of the database after the commit that the frame ends; 0 for any other.
        pages_after: u32,
    },
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// It is kept; more of the same commit follows.
    Kept,
    /// It is kept, and all that is kept must be written before the call returns.
    Due,
    /// It is not kept: what is must be written first, then this.
    Not,
}

/// Frames that are due.
pub(crate) struct Due<'f> {
    /// Where they go in the file.
    pub(crate) start: u64,
    pub(crate) bytes: &'f mut [u8],
    /// The number of the first, counted from 0.
    pub(crate) first: u32,
    pub(crate) frames: &'f [NewFrame],
}

impl Frames {
    /// None yet, of a log with or without seals.
    pub(crate) const fn new(has_seals: bool) -> Self {
        Self {
            bytes: Vec::new(),
            noted: Vec::new(),
            seal_bytes: if has_seals { SEAL_BYTES } else { 0 },
            next: 0,
            first: 0,
            start: 0,
            expects: Expects::Header,
        }
    }

    /// Takes a write of `bytes` at `offset`, if it is the next part of a frame.
    pub(crate) fn gather(&mut self, offset: u64, bytes: &[u8]) -> Gathered {
        if !self.is_empty() && offset != self.next {
            return Gathered::Not; // (1)
        }
        let result = match self.expects {
            Expects::Header if bytes.len() == HEADER_BYTES => self.begin_frame(offset, bytes),
            Expects::Page {
                number,
                pages_after,
            } if bytes.len() == PAGE_BYTES => self.end_frame(number, pages_after, bytes),
            _ => return Gathered::Not,
        };
        if result != Gathered::Not {
            self.next = offset + bytes.len() as u64;
        }
        result
    }

    fn begin_frame(&mut self, offset: u64, header: &[u8]) -> Gathered {
        let number =
            |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
        if self.is_empty() {
            let Some(Part::Frame(first, 0)) = log_layout::part(offset, header.len()) else {
                return Gathered::Not;
            };
            self.first = first;
            self.start = match self.seal_bytes {
                0 => offset,
                _ => log_layout::frame_start(first),
            };
        }
        self.bytes.extend_from_slice(header);
        self.expects = Expects::Page {
            number: number(0),
            pages_after: number(COMMIT_FIELD.start),
        };
        Gathered::Kept
    }

    fn end_frame(&mut self, page: u32, pages_after: u32, content: &[u8]) -> Gathered {
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len() + self.seal_bytes, 0);
        let leaf = leaf_of(content);
        self.noted.push(NewFrame {
            page,
            leaf,
            pages_after,
        });
        self.expects = Expects::Header;
        if pages_after != 0 || self.bytes.len() >= GATHERED_BYTES_MAX {
            Gathered::Due // (2)
        } else {
            Gathered::Kept
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All that is gathered.
    pub(crate) fn due(&mut self) -> Due<'_> {
        Due {
            start: self.start,
            bytes: &mut self.bytes,
            first: self.first,
            frames: &self.noted,
        }
    }

    /// Forgets what is gathered: it was written, or SQLite knows that it was not. Keeps the memory for the next commit.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.noted.clear();
        self.expects = Expects::Header;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: [u8; PAGE_BYTES] = [7; PAGE_BYTES];
    const FRAME: u64 = FRAME_BYTES as u64;

    fn header(pages_after: u32) -> [u8; HEADER_BYTES] {
        let mut header = [9; HEADER_BYTES];
        header[COMMIT_FIELD].copy_from_slice(&pages_after.to_be_bytes());
        header
    }

    /// Gives `frames` a whole frame; what became of its page.
    fn frame(frames: &mut Frames, offset: u64, pages_after: u32) -> Gathered {
        let begun = frames.gather(offset, &header(pages_after));
        assert_eq!(begun, Gathered::Kept);
        frames.gather(offset + HEADER_BYTES as u64, &PAGE)
    }

    #[test]
    fn a_commit_is_due_with_its_last_page_and_not_before() {
        let mut frames = Frames::new(false);
        for number in 0..5 {
            assert_eq!(frame(&mut frames, 32 + number * FRAME, 0), Gathered::Kept);
        }
        assert_eq!(frame(&mut frames, 32 + 5 * FRAME, 3), Gathered::Due);
        let Due { start, bytes, .. } = frames.due();
        assert_eq!((start, bytes.len() as u64), (32, 6 * FRAME));
        assert_eq!(bytes[..HEADER_BYTES], header(0));
        assert_eq!(bytes[HEADER_BYTES..FRAME as usize], PAGE);
        frames.clear();
        assert!(frames.is_empty());
        assert_eq!(frame(&mut frames, 32, 1), Gathered::Due);
        assert_eq!(frames.due().start, 32);
    }

    #[test]
    fn in_a_log_with_seals_frames_lie_apart_and_are_noted() {
        let mut frames = Frames::new(true);
        assert_eq!(frame(&mut frames, 32 + 2 * FRAME, 0), Gathered::Kept);
        assert_eq!(frame(&mut frames, 32 + 3 * FRAME, 9), Gathered::Due);
        let due = frames.due();
        assert_eq!((due.first, due.start), (2, log_layout::frame_start(2)));
        assert_eq!(due.bytes.len(), 2 * log_layout::STRIDE);
        let noted: Vec<_> = due
            .frames
            .iter()
            .map(|frame| (frame.page, frame.pages_after))
            .collect();
        assert_eq!(noted, [(0x0909_0909, 0), (0x0909_0909, 9)]);
    }

    #[test]
    fn a_long_commit_is_due_in_parts_of_bounded_length() {
        let mut frames = Frames::new(false);
        let mut offset = 32;
        while frame(&mut frames, offset, 0) == Gathered::Kept {
            offset += FRAME;
        }
        let len = frames.due().bytes.len();
        assert!((GATHERED_BYTES_MAX..=CALL_BYTES_MAX).contains(&len));
    }

    #[test]
    fn what_is_no_next_part_of_a_frame_is_not_kept() {
        let mut frames = Frames::new(false);
        // The header of the log; a page, an overwritten one, without a header before it.
        assert_eq!(frames.gather(0, &[1; 32]), Gathered::Not);
        assert_eq!(frames.gather(56, &PAGE), Gathered::Not);
        assert!(frames.is_empty());
        assert_eq!(frame(&mut frames, 32, 0), Gathered::Kept);
        let end = 32 + FRAME;
        // Elsewhere; where it ends, but no header; a second header in place of a page.
        assert_eq!(frames.gather(end + FRAME, &header(0)), Gathered::Not);
        assert_eq!(frames.gather(32, &header(0)), Gathered::Not);
        assert_eq!(frames.gather(end, &PAGE), Gathered::Not);
        assert_eq!(frames.gather(end, &header(0)), Gathered::Kept);
        let page_at = end + HEADER_BYTES as u64;
        assert_eq!(frames.gather(page_at, &header(0)), Gathered::Not);
        assert_eq!(frames.gather(page_at, &[]), Gathered::Not);
        assert_eq!(frames.due().bytes.len() as u64, FRAME + HEADER_BYTES as u64);
    }
}

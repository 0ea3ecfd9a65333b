//! Gathers what a commit writes to the log, so that all of it goes there in one write.
//!
//! Takes   SQLite's writes to the log: for each frame its header, then its page
//! Gives   the bytes that are due, and where they go
//! Never   holds anything back once SQLite could believe that it is in the file, nor more than `GATHERED_BYTES_MAX`
//! Spec    spec/4-metadata.md, 4.8.6
//!
//! SQLite makes a commit visible to other connections when the write of its last page has returned. The header of that
//! page says so (its second number is not 0), so a run of frames is due with it at the latest.
//!
//! Invariants
//!  (1) Frames that are gathered follow one another in the file.
//!  (2) None of them ends a commit, but in the call in which they become due.

use crate::limits::PAGE_BYTES;

/// Bytes of a frame's header, which no other write to a log has: that of the log has 32, a page more.
const HEADER_BYTES: usize = 24;

/// Where a header says how many pages the database has after the commit that the frame ends; 0 for any other frame.
const COMMIT_FIELD: std::ops::Range<usize> = 4..8;

/// Gathered frames are due once they are this long, in bytes.
const GATHERED_BYTES_MAX: usize = 120 * 1024;

/// The most that the system's VFS of SQLite writes in one call, in bytes; it takes a longer write for a full disk.
const CALL_BYTES_MAX: usize = 0x1ffff;

const _: () = assert!(
    GATHERED_BYTES_MAX + HEADER_BYTES + PAGE_BYTES <= CALL_BYTES_MAX,
    "the frame that makes the others due fits the same write"
);

/// Frames of one log file that SQLite has written and the file does not have yet.
#[derive(Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    start: u64,
    expects: Expects,
}

/// What the next write to the log may be, to be gathered.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Expects {
    #[default]
    Header,
    Page {
        /// Whether its frame ends a commit.
        last: bool,
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

impl Frames {
    /// Takes a write of `bytes` at `offset`, if it is the next part of a frame.
    pub(crate) fn gather(&mut self, offset: u64, bytes: &[u8]) -> Gathered {
        if !self.is_empty() && offset != self.start + self.bytes.len() as u64 {
            return Gathered::Not; // (1)
        }
        let (expects, result) = match self.expects {
            Expects::Header if bytes.len() == HEADER_BYTES => {
                let last = bytes[COMMIT_FIELD] != [0; 4];
                (Expects::Page { last }, Gathered::Kept)
            }
            Expects::Page { last } if bytes.len() == PAGE_BYTES => {
                let due = last || self.bytes.len() + bytes.len() >= GATHERED_BYTES_MAX; // (2)
                let result = if due { Gathered::Due } else { Gathered::Kept };
                (Expects::Header, result)
            }
            _ => return Gathered::Not,
        };
        if self.is_empty() {
            self.start = offset;
        }
        self.bytes.extend_from_slice(bytes);
        self.expects = expects;
        result
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All that is gathered, and the offset that it goes to.
    pub(crate) fn due(&self) -> (u64, &[u8]) {
        (self.start, &self.bytes)
    }

    /// Forgets what is gathered: it was written, or SQLite was told that it was not. Keeps the memory for the next commit.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.expects = Expects::Header;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: [u8; PAGE_BYTES] = [7; PAGE_BYTES];
    const FRAME: u64 = (PAGE_BYTES + HEADER_BYTES) as u64;

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
        let mut frames = Frames::default();
        for number in 0..5 {
            assert_eq!(frame(&mut frames, 32 + number * FRAME, 0), Gathered::Kept);
        }
        assert_eq!(frame(&mut frames, 32 + 5 * FRAME, 3), Gathered::Due);
        let (start, bytes) = frames.due();
        assert_eq!((start, bytes.len() as u64), (32, 6 * FRAME));
        assert_eq!(bytes[..HEADER_BYTES], header(0));
        assert_eq!(bytes[HEADER_BYTES..FRAME as usize], PAGE);
        frames.clear();
        assert!(frames.is_empty());
        assert_eq!(frame(&mut frames, 32, 1), Gathered::Due);
        assert_eq!(frames.due().0, 32);
    }

    #[test]
    fn a_long_commit_is_due_in_parts_of_bounded_length() {
        let mut frames = Frames::default();
        let mut offset = 32;
        while frame(&mut frames, offset, 0) == Gathered::Kept {
            offset += FRAME;
        }
        let len = frames.due().1.len();
        assert!((GATHERED_BYTES_MAX..=CALL_BYTES_MAX).contains(&len));
    }

    #[test]
    fn what_is_no_next_part_of_a_frame_is_not_kept() {
        let mut frames = Frames::default();
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
        assert_eq!(frames.due().1.len() as u64, FRAME + HEADER_BYTES as u64);
    }
}

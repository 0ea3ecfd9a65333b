//! The log of an SQLite database, as an attacker without a key reads and changes it: its checksums need no key.
//!
//! Takes   the bytes of a `-wal` file
//! Gives   its frames, and a log of other frames with correct checksums
//! Never   knows the content of a page
//! Spec    https://www.sqlite.org/fileformat2.html#the_write_ahead_log; spec/4-metadata.md, 4.12.4

/// Bytes of a page.
pub const PAGE: usize = 4096;
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const FRAME: usize = FRAME_HEADER + PAGE;
/// Bytes behind each frame, which SQLite does not see.
const SEAL: usize = 64;

/// One frame: which page, how many pages the database has after it if it ends a commit, and the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The number of the page, from 1.
    pub page: u32,
    /// Pages of the database after the commit that the frame ends; else 0.
    pub ends: u32,
    /// The sealed page.
    pub bytes: Vec<u8>,
    /// What comes after it: root and seal, if it ends a commit.
    pub seal: Vec<u8>,
}

/// A log in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    header: [u8; LOG_HEADER],
    /// The frames that are valid by their checksums.
    pub frames: Vec<Frame>,
    /// What follows them: what another kind of record may be kept in.
    pub rest: Vec<u8>,
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    if let Some(found) = bytes.get(at..at + 4) {
        four.copy_from_slice(found);
    }
    u32::from_be_bytes(four)
}

impl Log {
    /// Takes a log apart; `None` if it is none.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header: [u8; LOG_HEADER] = bytes.get(..LOG_HEADER)?.try_into().ok()?;
        let mut log = Self {
            header,
            frames: Vec::new(),
            rest: Vec::new(),
        };
        let mut sums = log.sums((0, 0), &header[..24]);
        let mut at = LOG_HEADER;
        while let Some(frame) = bytes.get(at..at + FRAME + SEAL) {
            let (frame, seal) = frame.split_at(FRAME);
            sums = log.sums(sums, &frame[..8]);
            sums = log.sums(sums, &frame[FRAME_HEADER..]);
            let is_of_this_log = frame[8..16] == header[16..24];
            if !is_of_this_log || (number(frame, 16), number(frame, 20)) != sums {
                break;
            }
            log.frames.push(Frame {
                page: number(frame, 0),
                ends: number(frame, 4),
                bytes: frame[FRAME_HEADER..].to_vec(),
                seal: seal.to_vec(),
            });
            at += FRAME + SEAL;
        }
        log.rest = bytes[at..].to_vec();
        Some(log)
    }

    /// The bytes of the log, every checksum right.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.header.to_vec();
        let mut sums = self.sums((0, 0), &self.header[..24]);
        out[24..28].copy_from_slice(&sums.0.to_be_bytes());
        out[28..32].copy_from_slice(&sums.1.to_be_bytes());
        for frame in &self.frames {
            let start = out.len();
            out.extend_from_slice(&frame.page.to_be_bytes());
            out.extend_from_slice(&frame.ends.to_be_bytes());
            out.extend_from_slice(&self.header[16..24]);
            sums = self.sums(sums, &out[start..start + 8]);
            sums = self.sums(sums, &frame.bytes);
            out.extend_from_slice(&sums.0.to_be_bytes());
            out.extend_from_slice(&sums.1.to_be_bytes());
            out.extend_from_slice(&frame.bytes);
            out.extend_from_slice(&frame.seal);
        }
        out.extend_from_slice(&self.rest);
        out
    }

    /// The log as it was behind each of its commits, oldest first.
    #[must_use]
    pub fn commits(&self) -> Vec<usize> {
        let ends = self.frames.iter().enumerate();
        ends.filter(|(_, frame)| frame.ends > 0)
            .map(|(index, _)| index + 1)
            .collect()
    }

    fn sums(&self, (mut first, mut second): (u32, u32), bytes: &[u8]) -> (u32, u32) {
        let is_big = self.header[3] & 1 == 1;
        for pair in bytes.chunks_exact(8) {
            let word = |at: usize| {
                let four = number(pair, at);
                if is_big { four } else { four.swap_bytes() }
            };
            first = first.wrapping_add(word(0)).wrapping_add(second);
            second = second.wrapping_add(word(4)).wrapping_add(first);
        }
        (first, second)
    }
}

//! Compresses content before it is sealed, if that saves enough, and decompresses it. `seal_into` in `seal.rs` calls it.
//!
//! Takes   the content of a block; or an opened frame, which a key holder must have sealed
//! Gives   a zstd frame that is at least an eighth shorter, or nothing; or the content again
//! Never   seals or opens anything, or allocates more than a block can hold
//! Spec    spec/2-block.md, [2.29] to [2.33]
//!
//! Invariants
//!  (1) A frame states the length of its content. If that length is more than a block holds, the frame is refused before
//!      anything is allocated.                                                                 [2.31]
//!  (2) A frame is refused if bytes follow it, or if it needs a dictionary.                    [2.31]

use std::cell::RefCell;

use strongroom_format::Kind;
use strongroom_format::limits::BLOCK_BYTES_MAX;
use zeroize::{Zeroize, Zeroizing};
use zstd_safe::{CCtx, CParameter, DCtx};

/// Whether what is sealed from now on is compressed first. What was sealed before stays as it is, and readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Nothing is: the length of a block tells the length of its content, and no more.
    #[default]
    None,
    /// What gets an eighth shorter by zstd.
    Zstd,
}

impl Compression {
    /// Every one there is.
    pub const ALL: [Self; 2] = [Self::None, Self::Zstd];

    /// Its name, as settings and people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zstd => "zstd",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// The one that made blocks of `kind`.
    #[must_use]
    pub const fn of_kind(kind: Kind) -> Self {
        match kind.is_compressed() {
            true => Self::Zstd,
            false => Self::None,
        }
    }
}

/// Content below this is never compressed: the row and the tag of a block weigh more than what could be saved.
const BYTES_MIN: usize = 256;

/// Of content from this length on a sample is tried first.
const SAMPLED_FROM_BYTES: usize = 16 * 1024;

/// A sample's length.
const SAMPLE_BYTES: usize = 4 * 1024;

/// The most that may be left of a sample by `SAMPLE_LEVEL`, which finds less than `LEVEL` does.
const SAMPLE_FRAME_BYTES_MAX: usize = SAMPLE_BYTES - SAMPLE_BYTES / 16;

/// zstd's own default. Where the levels come from says docs/adr/0018-compression.md.
const LEVEL: i32 = 3;

/// Fast above all: what cannot be compressed is to cost next to nothing.
const SAMPLE_LEVEL: i32 = -1;

/// What a frame may be long for content of `len` bytes: an eighth less.                                      [2.30]
const fn frame_bytes_max(len: usize) -> usize {
    len - len / 8
}

/// The memory of one thread, used again from block to block.
struct Compressor {
    context: CCtx<'static>,
    level: i32,
    frame: Zeroizing<Vec<u8>>,
}

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

impl Compressor {
    fn new() -> Option<Self> {
        Some(Self {
            context: CCtx::try_create()?,
            level: 0,
            frame: Zeroizing::new(vec![0; frame_bytes_max(BLOCK_BYTES_MAX)]),
        })
    }

    /// The frame of `clear`, if it is at most `bytes_max` long.
    fn frame(&mut self, clear: &[u8], level: i32, bytes_max: usize) -> Option<&[u8]> {
        if self.level != level {
            let parameter = CParameter::CompressionLevel(level);
            self.context.set_parameter(parameter).ok()?;
            self.level = level;
        }
        let room = self.frame.get_mut(..bytes_max)?;
        // That there is not room enough is the usual error, and the answer.
        let len = self.context.compress2(room, clear).ok()?;
        self.frame.get(..len)
    }

    fn shorter(&mut self, clear: &[u8]) -> Option<&[u8]> {
        if clear.len() >= SAMPLED_FROM_BYTES {
            // From the middle: what cannot be compressed often has a head that can.
            let from = (clear.len() - SAMPLE_BYTES) / 2;
            let sample = &clear[from..from + SAMPLE_BYTES];
            self.frame(sample, SAMPLE_LEVEL, SAMPLE_FRAME_BYTES_MAX)?;
        }
        self.frame(clear, LEVEL, frame_bytes_max(clear.len()))
    }
}

/// Calls `with` with `clear` as a frame, if it is long enough and gets an eighth shorter.
///
/// `clear`: at most `BLOCK_BYTES_MAX` bytes.
pub(crate) fn with_shorter<T>(clear: &[u8], with: impl FnOnce(&[u8]) -> T) -> Option<T> {
    if clear.len() < BYTES_MIN {
        return None;
    }
    let shortened = COMPRESSOR.try_with(|compressor| {
        let compressor = &mut *compressor.borrow_mut();
        if compressor.is_none() {
            *compressor = Compressor::new();
        }
        // Without memory for it content is sealed as it is.
        Some(with(compressor.as_mut()?.shorter(clear)?))
    });
    // A thread that is ending has none any more.
    shortened.ok().flatten()
}

/// The content of `frame`; `None` if it is no frame as a block holds one. (1) (2)
///
/// Public for tests that bring hostile frames; everybody else opens blocks.
#[must_use]
pub fn content_of(frame: &[u8]) -> Option<Vec<u8>> {
    let len = content_len(frame)?;
    let is_all = zstd_safe::find_frame_compressed_size(frame) == Ok(frame.len());
    if !is_all || zstd_safe::get_dict_id_from_frame(frame).is_some() {
        return None;
    }
    let mut content = vec![0; len];
    let mut decompress = |context: &mut DCtx<'static>| {
        let done = context.decompress(&mut content[..], frame);
        done.ok()
    };
    let found = DECOMPRESSOR.try_with(|context| {
        let context = &mut *context.borrow_mut();
        if context.is_none() {
            *context = DCtx::try_create();
        }
        decompress(context.as_mut()?)
    });
    // A thread that is ending has none any more.
    let found = found.unwrap_or_else(|_| decompress(&mut DCtx::try_create()?));
    if found == Some(len) {
        return Some(content);
    }
    content.zeroize();
    None
}

/// How long the content of `frame` is, by its head.
fn content_len(frame: &[u8]) -> Option<usize> {
    let said = zstd_safe::get_frame_content_size(frame).ok()??;
    let len = usize::try_from(said).ok()?;
    (1..=BLOCK_BYTES_MAX).contains(&len).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that no compressor makes shorter.
    fn noise(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    /// Lines that differ a little.
    fn text(len: usize) -> Vec<u8> {
        let line = |n: usize| format!("{n}: a line that others resemble, {}\n", n * n % 97);
        let mut bytes: Vec<u8> = (0..).flat_map(|n| line(n).into_bytes()).take(len).collect();
        bytes.truncate(len);
        bytes
    }

    fn frame(clear: &[u8]) -> Option<Vec<u8>> {
        with_shorter(clear, <[u8]>::to_vec)
    }

    #[test]
    fn what_gets_shorter_comes_back_and_is_an_eighth_shorter_at_least() {
        for len in [256, 1000, 4096, 16 * 1024, 65_535, BLOCK_BYTES_MAX] {
            let clear = text(len);
            let frame = frame(&clear).expect("text gets shorter");
            assert!(frame.len() <= frame_bytes_max(len), "{len}");
            assert_eq!(content_of(&frame), Some(clear), "{len}");
        }
    }

    #[test]
    fn what_would_not_pay_is_left_as_it_is() {
        assert_eq!(frame(&text(255)), None);
        for len in [0, 256, 5000, BLOCK_BYTES_MAX] {
            assert_eq!(frame(&noise(len)), None, "{len}");
        }
        // Less than an eighth is saved.
        let mut nearly = noise(BLOCK_BYTES_MAX);
        nearly[..6000].fill(0);
        nearly[BLOCK_BYTES_MAX / 2 - 1000..][..2000].fill(0);
        assert_eq!(frame(&nearly), None);
    }

    #[test]
    fn one_content_has_one_frame_whatever_the_thread_did_before() {
        let first = frame(&text(50_000));
        let _ = frame(&text(6_000));
        let _ = frame(&noise(60_000));
        assert_eq!(frame(&text(50_000)), first);
        let other = std::thread::spawn(|| frame(&text(50_000)));
        assert_eq!(other.join().expect("it runs"), first);
    }

    /// A frame made with one property more or less than ours.
    fn frame_with(parameters: &[CParameter], clear: &[u8]) -> Vec<u8> {
        let mut context = CCtx::create();
        for parameter in parameters {
            context.set_parameter(*parameter).expect("zstd has it");
        }
        let mut room = vec![0; zstd_safe::compress_bound(clear.len())];
        let len = context.compress2(&mut room[..], clear).expect("it fits");
        room.truncate(len);
        room
    }

    #[test]
    fn a_hostile_frame_is_refused() {
        let good = frame_with(&[], &text(3000));
        assert_eq!(content_of(&good), Some(text(3000)));
        let with_more = [good.clone(), vec![0]].concat();
        let twice = [good.clone(), good.clone()].concat();
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 7][..], &good].concat();
        let nameless = frame_with(&[CParameter::ContentSizeFlag(false)], &text(3000));
        let too_long = frame_with(&[], &vec![0; BLOCK_BYTES_MAX + 1]);
        let bomb = frame_with(&[], &vec![0; 64 << 20]);
        let empty = frame_with(&[], &[]);
        let cut = good[..good.len() - 1].to_vec();
        // A head that says 2999 bytes: magic, descriptor, then the length less 256 in two bytes.
        let mut lies = good.clone();
        assert_eq!(lies[5..7], (3000_u16 - 256).to_le_bytes());
        lies[5] -= 1;
        // A head that asks for dictionary 9: the descriptor says one byte of it, in front of the length.
        let mut foreign = good.clone();
        foreign[4] |= 1;
        foreign.insert(5, 9);
        for hostile in [
            with_more, twice, skipped, nameless, too_long, bomb, empty, cut, lies, foreign,
        ] {
            assert_eq!(content_of(&hostile), None);
        }
        assert_eq!(content_of(&[]), None);
    }

    #[test]
    fn no_damage_of_a_frame_panics_or_gives_more_than_a_block() {
        let good = frame_with(&[], &text(2000));
        for index in 0..good.len() {
            for bit in 0..8 {
                let mut damaged = good.clone();
                damaged[index] ^= 1 << bit;
                assert!(content_of(&damaged).is_none_or(|found| found.len() <= BLOCK_BYTES_MAX));
                assert!(content_of(&good[..index]).is_none());
            }
        }
    }

    #[test]
    fn names_come_back() {
        for one in Compression::ALL {
            assert_eq!(Compression::of_name(one.name()), Some(one));
        }
        assert_eq!(Compression::of_name("lzma"), None);
    }
}

//! Reusable memory that begins on a sector boundary, as direct I/O requires.
//!
//! Takes   a length
//! Gives   a buffer of at least that length, with whatever bytes its last user left in it
//! Never   keeps more than `IDLE_BUFFER_BYTES_MAX` idle
//!
//! New memory is slow at its first use; a buffer that was used before is not. The bytes left in a buffer are
//! ciphertext, so nothing is wiped.
//!
//! Long buffers use huge pages if the system has them. The reason: a disk request lists each contiguous piece of
//! memory, and many disks accept only about 250 pieces in one request. A buffer of 1 MiB is 256 pieces in pages of 4
//! KiB, and one piece in a huge page (docs/adr/0017).

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use memmap2::{Advice, MmapMut};
use parking_lot::Mutex;
use strongroom_format::limits::SECTOR_BYTES;

use crate::limits::IDLE_BUFFER_BYTES_MAX;

/// A huge page, in bytes, as x86-64 and most others have it.
const HUGE_BYTES: usize = 2 << 20;

/// The sizes that buffers come in, in bytes: the largest is a whole segment. Between 256 KiB and a huge page there is
/// none, because a part of a huge page costs as much memory as all of it.
const CLASSES: [usize; 10] = [
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    HUGE_BYTES,
    2 * HUGE_BYTES,
    4 * HUGE_BYTES,
    8 * HUGE_BYTES,
];

/// Idle buffers, by size.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    bytes: usize,
    by_class: [Vec<Aligned>; CLASSES.len()],
}

/// Memory with a sector boundary at `start`, a boundary of huge pages if it is that long, and `usable` bytes behind it.
/// Its length never changes, so that it never moves.
struct Aligned {
    bytes: Memory,
    start: usize,
    usable: usize,
}

enum Memory {
    Heap(Vec<u8>),
    /// Of the system itself, in huge pages where it has them.
    Pages(MmapMut),
}

/// A buffer of exactly the length asked for. Goes back to its pool when dropped.
pub(crate) struct Buffer {
    memory: Aligned,
    len: usize,
    pool: Arc<Pool>,
}

impl Pool {
    /// A buffer of `len` bytes, beginning on a sector boundary.
    ///
    /// `len`: at most one segment; lengths beyond get memory of their own that is not kept.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let idle = class_of(len).and_then(|class| self.pop(class));
        let memory =
            idle.unwrap_or_else(|| Aligned::new(class_of(len).map_or(len, |class| CLASSES[class])));
        Buffer {
            memory,
            len,
            pool: Arc::clone(self),
        }
    }

    fn pop(&self, class: usize) -> Option<Aligned> {
        let mut idle = self.idle.lock();
        let memory = idle.by_class[class].pop()?;
        idle.bytes -= memory.usable;
        Some(memory)
    }

    fn give_back(&self, memory: Aligned) {
        let usable = memory.usable;
        let Some(class) = class_of(usable) else {
            return;
        };
        let mut idle = self.idle.lock();
        if idle.bytes + usable <= IDLE_BUFFER_BYTES_MAX {
            idle.bytes += usable;
            idle.by_class[class].push(memory);
        }
    }
}

impl Buffer {
    /// Keeps the first `len` bytes only.
    pub(crate) fn shorten(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

/// The smallest class that holds `len` bytes, if any does.
fn class_of(len: usize) -> Option<usize> {
    CLASSES.iter().position(|&usable| len <= usable)
}

impl Aligned {
    fn new(usable: usize) -> Self {
        if usable >= HUGE_BYTES
            && let Ok(pages) = MmapMut::map_anon(usable + HUGE_BYTES)
        {
            // A kernel without huge pages refuses, and gives small ones, which are as good but for their number.
            let _ = pages.advise(Advice::HugePage);
            let start = pages.as_ptr().align_offset(HUGE_BYTES).min(HUGE_BYTES);
            return Self {
                bytes: Memory::Pages(pages),
                start,
                usable,
            };
        }
        let bytes = vec![0; usable + SECTOR_BYTES];
        // May answer `usize::MAX` by its contract; then direct I/O fails with an error, nothing worse.
        let start = bytes.as_ptr().align_offset(SECTOR_BYTES).min(SECTOR_BYTES);
        Self {
            bytes: Memory::Heap(bytes),
            start,
            usable,
        }
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Pages(bytes) => bytes,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Pages(bytes) => bytes,
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory.bytes[self.memory.start..self.memory.start + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes[self.memory.start..self.memory.start + self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::replace(
            &mut self.memory,
            Aligned {
                bytes: Memory::Heap(Vec::new()),
                start: 0,
                usable: 0,
            },
        );
        self.pool.give_back(memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_begins_on_a_sector_boundary_and_has_the_length_asked_for() {
        let pool = Arc::new(Pool::default());
        for len in [0, 1, 4096, 8192, 8193, 100_000, 1 << 24, (1 << 24) + 1] {
            let mut buffer = pool.take(len);
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr().align_offset(SECTOR_BYTES), 0, "{len} bytes");
            buffer.fill(1);
        }
    }

    #[test]
    fn a_long_buffer_begins_on_a_boundary_of_huge_pages() {
        let pool = Arc::new(Pool::default());
        for len in [(256 << 10) + 1, 1 << 20, 3 << 20] {
            let mut buffer = pool.take(len);
            assert_eq!(buffer.as_ptr().align_offset(HUGE_BYTES), 0, "{len} bytes");
            buffer.fill(1);
        }
    }

    #[test]
    fn a_returned_buffer_is_used_again() {
        let pool = Arc::new(Pool::default());
        let first = pool.take(10_000);
        let place = first.as_ptr();
        drop(first);
        assert_eq!(pool.take(9_000).as_ptr(), place);
    }

    #[test]
    fn idle_buffers_stay_below_their_limit() {
        let pool = Arc::new(Pool::default());
        let held: Vec<Buffer> = (0..10).map(|_| pool.take(8 << 20)).collect();
        drop(held);
        let idle = pool.idle.lock();
        assert_eq!(idle.bytes, IDLE_BUFFER_BYTES_MAX);
        assert_eq!(idle.by_class.iter().map(Vec::len).sum::<usize>(), 4);
    }
}

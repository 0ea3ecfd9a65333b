//! Keeps root keys in memory of their own, where no other code writes, and out of swap and core dumps.
//!
//! Takes   secret bytes of a fixed length
//! Gives   a value that lends them; all its clones share one copy
//! Never   moves them, or copies them for a clone
//!
//! Invariants
//!  (1) Every page with a secret is locked into memory and excluded from core dumps, as far as the system permits. It
//!      lies between pages that cannot be accessed.
//!  (2) The memory of a secret is written once, before other code can know it, and wiped when the last clone is dropped.
//!  (3) Two values never share the same memory.
//!
//! `unsafe` is needed because the heap cannot provide pages with other access rights. Secrets share pages, because a
//! system may permit as little as 64 KiB of locked memory. If it permits none, the pages stay unlocked.

use parking_lot::Mutex;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mlock, mmap_anonymous, mprotect,
};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zeroize::Zeroize as _;

/// Bytes of one place, at least those of the longest secret.
const PLACE_BYTES: usize = 128;
/// Places of one piece of memory.
const PLACES: usize = 128;
/// Bytes of one piece of memory, without its two guard pages, where a page is not larger.
const PIECE_BYTES: usize = PLACE_BYTES * PLACES;

/// Every piece of memory there is. A piece that was got is kept: there are few, and another secret takes the place.
static PIECES: Mutex<Vec<Piece>> = Mutex::new(Vec::new());
/// Whether some page could not be locked; said once.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// `N` secret bytes. A clone shares them.
#[derive(Clone)]
pub(crate) struct Locked<const N: usize> {
    place: Arc<Place>,
}

/// Locked pages between two guards, cut into places.
struct Piece {
    start: NonNull<u8>,
    is_taken: [bool; PLACES],
}

// SAFETY: the pointer is only handed out place by place under the mutex of `PIECES`.
#[allow(unsafe_code, reason = "see the head of this file")]
unsafe impl Send for Piece {}

/// One place, taken until it is dropped.
struct Place {
    start: NonNull<u8>,
}

// SAFETY: `Locked` writes it while it is the only one to know it, and lends it for reading afterwards.        (2)
#[allow(unsafe_code, reason = "see the head of this file")]
unsafe impl Send for Place {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "see the head of this file")]
unsafe impl Sync for Place {}

impl<const N: usize> std::fmt::Debug for Locked<N> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Locked(..)")
    }
}

impl<const N: usize> Locked<N> {
    /// The bytes that `fill` makes of zeros.
    ///
    /// # Errors
    /// That of `fill`; what it wrote is wiped.
    pub(crate) fn filled<E>(fill: impl FnOnce(&mut [u8; N]) -> Result<(), E>) -> Result<Self, E> {
        const { assert!(N <= PLACE_BYTES) };
        let place = Place::take();
        #[allow(unsafe_code, reason = "see the head of this file")]
        // SAFETY: the place has at least `N` bytes, which are zero, and nobody else knows it yet.        (2) (3)
        let bytes = unsafe { place.start.cast::<[u8; N]>().as_mut() };
        fill(bytes)?;
        Ok(Self {
            place: Arc::new(place),
        })
    }

    /// A copy of `bytes`, which stay the caller's to wipe.
    pub(crate) fn copy_of(bytes: &[u8; N]) -> Self {
        let copied = Self::filled(|place| {
            place.copy_from_slice(bytes);
            Ok::<_, std::convert::Infallible>(())
        });
        match copied {
            Ok(locked) => locked,
            Err(never) => match never {},
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8; N] {
        #[allow(unsafe_code, reason = "see the head of this file")]
        // SAFETY: the place has at least `N` bytes, lives as long as `self`, and is not written any more.    (2)
        unsafe {
            self.place.start.cast::<[u8; N]>().as_ref()
        }
    }
}

impl Place {
    /// A place that is free, all zero.
    fn take() -> Self {
        let mut pieces = PIECES.lock();
        for piece in pieces.iter_mut() {
            if let Some(place) = piece.take() {
                return place;
            }
        }
        let mut piece = Piece::new();
        let place = piece
            .take()
            .expect("(3) holds: all places of a new piece are free");
        pieces.push(piece);
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        #[allow(unsafe_code, reason = "see the head of this file")]
        // SAFETY: the last clone is being dropped, so nobody reads; the place has these bytes.           (2) (3)
        unsafe {
            self.start.cast::<[u8; PLACE_BYTES]>().as_mut().zeroize();
        }
        for piece in PIECES.lock().iter_mut() {
            piece.give_back(self.start);
        }
    }
}

impl Piece {
    /// New pages.                                                                                             (1)
    fn new() -> Self {
        let page = rustix::param::page_size();
        let inner = PIECE_BYTES.next_multiple_of(page);
        #[allow(unsafe_code, reason = "see the head of this file")]
        // SAFETY: the mapping is new, so that nothing else lies in it; the inner part lies within it, page by page.
        let start = unsafe {
            let flags = MapFlags::PRIVATE;
            let outer = mmap_anonymous(
                std::ptr::null_mut(),
                inner + 2 * page,
                ProtFlags::empty(),
                flags,
            );
            let outer = outer.unwrap_or_else(|_| out_of_memory());
            let start = outer.byte_add(page);
            let rights = MprotectFlags::READ | MprotectFlags::WRITE;
            if mprotect(start, inner, rights).is_err() {
                out_of_memory();
            }
            let locked = mlock(start, inner);
            let hidden = madvise(start, inner, Advice::LinuxDontDump);
            if locked.and(hidden).is_err() && !IS_REFUSED.swap(true, Ordering::Relaxed) {
                log::info!(
                    "the system locks no more memory for this process (`ulimit -l`): keys may reach swap space"
                );
            }
            start.cast::<u8>()
        };
        Self {
            start: NonNull::new(start).expect("(1) holds: a mapping does not lie at zero"),
            is_taken: [false; PLACES],
        }
    }

    fn take(&mut self) -> Option<Place> {
        let index = self.is_taken.iter().position(|is_taken| !is_taken)?;
        self.is_taken[index] = true;
        #[allow(unsafe_code, reason = "see the head of this file")]
        // SAFETY: `index` is below `PLACES`, so the place lies within the piece.
        let start = unsafe { self.start.byte_add(index * PLACE_BYTES) };
        Some(Place { start })
    }

    /// Notes that the place at `start` is free, if it is one of this piece.
    fn give_back(&mut self, start: NonNull<u8>) {
        let offset = start.addr().get().wrapping_sub(self.start.addr().get());
        if let Some(is_taken) = self.is_taken.get_mut(offset / PLACE_BYTES) {
            *is_taken = false;
        }
    }
}

/// Whether every page with a root key is locked into memory.
#[must_use]
pub fn keys_are_locked() -> bool {
    !IS_REFUSED.load(Ordering::Relaxed)
}

/// Ends the process as the heap does.
fn out_of_memory() -> ! {
    std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; PIECE_BYTES]>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the kernel's table about the mapping that `address` lies in.
    fn mapping(address: usize) -> String {
        let table = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut found = String::new();
        let mut is_it = false;
        for line in table.lines() {
            let range = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'));
            let ends = range.map(|(start, end)| {
                let number = |text| usize::from_str_radix(text, 16);
                (number(start), number(end))
            });
            if let Some((Ok(start), Ok(end))) = ends {
                is_it = (start..end).contains(&address);
            }
            if is_it {
                found += line;
                found.push('\n');
            }
        }
        found
    }

    /// SECURITY.md, claim 19.
    #[test]
    fn a_secret_lies_in_locked_pages_between_guards_and_in_no_dump() {
        let secret = Locked::copy_of(&[7; 32]);
        let at = secret.bytes().as_ptr().addr();
        let found = mapping(at);
        let flags = found
            .lines()
            .find(|line| line.starts_with("VmFlags"))
            .unwrap();
        assert!(flags.contains(" dd"), "{found}");
        assert!(flags.contains(" lo") || !keys_are_locked(), "{found}");
        let first = found.split('-').next().unwrap();
        let before = mapping(usize::from_str_radix(first, 16).unwrap() - 1);
        assert!(
            before.lines().next().unwrap().contains(" ---p "),
            "{before}"
        );
    }

    #[test]
    fn a_clone_shares_the_bytes_and_another_value_has_its_own() {
        let secret = Locked::copy_of(&[7; 80]);
        let clone = secret.clone();
        assert_eq!(clone.bytes().as_ptr(), secret.bytes().as_ptr());
        drop(secret);
        let others: Vec<_> = (0..2 * PLACES)
            .map(|byte| Locked::copy_of(&[byte as u8; PLACE_BYTES]))
            .collect();
        assert_eq!(clone.bytes(), &[7; 80]);
        for (byte, other) in others.iter().enumerate() {
            assert_eq!(other.bytes(), &[byte as u8; PLACE_BYTES]);
        }
    }

    /// SECURITY.md, claim 7.
    #[test]
    fn a_place_that_comes_free_is_all_zero() {
        for _ in 0..3 * PLACES {
            let filled = Locked::<PLACE_BYTES>::filled(|bytes| {
                assert_eq!(bytes, &[0; PLACE_BYTES]);
                bytes.fill(9);
                Ok::<_, ()>(())
            });
            drop(filled.unwrap());
            let refused = Locked::<32>::filled(|bytes| {
                assert_eq!(bytes, &[0; 32]);
                bytes.fill(9);
                Err(())
            });
            assert!(refused.is_err());
        }
    }

    #[test]
    fn debug_shows_no_byte() {
        assert_eq!(format!("{:?}", Locked::copy_of(&[0xab; 32])), "Locked(..)");
    }
}

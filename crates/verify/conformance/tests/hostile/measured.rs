//! Counts the allocations of one thread, so that a test can check "never allocates beyond its bound".
//!
//! Takes   every allocation of the test binary
//! Gives   the most bytes that this thread held at once, above what it held at the start of the measurement
//! Never   changes an allocation
//!
//! Invariants
//!  (1) The counters are plain cells without destructors: accessing them allocates nothing and cannot fail.
#![allow(
    unsafe_code,
    reason = "an allocator can be written in no other way; test only"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn add(len: usize) {
    // `Layout` keeps every length below isize::MAX. A thread that is ending counts no more.
    let len = isize::try_from(len).unwrap_or(isize::MAX);
    let _ = HELD.try_with(|held| {
        held.set(held.get().saturating_add(len));
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

fn remove(len: usize) {
    let len = isize::try_from(len).unwrap_or(isize::MAX);
    let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(len)));
}

// SAFETY: every call goes on to the system's allocator with the arguments as they came, and its answer goes back
// unchanged; counting neither allocates nor unwinds (1).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        remove(layout.size());
        // SAFETY: what the caller got from us it got from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Old and new may exist side by side while the bytes are copied.
        add(new_size);
        remove(layout.size());
        // SAFETY: what the caller got from us it got from the system's allocator.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// What `work` gives, and the most bytes that it held at once.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let result = work();
    let most = MOST.get().saturating_sub(before);
    (result, usize::try_from(most).unwrap_or(0))
}

#[test]
fn the_most_that_is_held_at_once_is_counted_and_not_the_sum() {
    let ((), bytes) = measured(|| {
        for _ in 0..10 {
            drop(std::hint::black_box(vec![1_u8; 10_000]));
        }
    });
    assert_eq!(bytes, 10_000);
    let (held, bytes) = measured(|| std::hint::black_box(vec![0_u8; 1 << 20]));
    assert_eq!((held.len(), bytes), (1 << 20, 1 << 20));
}

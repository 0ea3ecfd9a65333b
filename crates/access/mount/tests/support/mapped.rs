//! Memory that is shared with a file, and pages that direct input and output accepts.
#![allow(unsafe_code, reason = "shared memory of a file has no safe interface")]

use std::fs::File;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The unit of both, in bytes.
pub(crate) const PAGE: usize = 4096;

/// Aligned memory.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
pub(crate) struct Page(pub(crate) [u8; PAGE]);

/// A file in memory. What is written here is the kernel's until it likes to send it.
pub(crate) struct Mapped {
    first: *mut u8,
    len: usize,
}

impl Mapped {
    /// Maps the first `len` bytes of `file`, which must keep at least that length. Closes it: when a process closes a file, one that is
    /// being started from this one too, the kernel sends what it holds of it.
    pub(crate) fn of(file: File, len: usize) -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; `drop` unmaps it, once.
        let memory = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        let memory = memory.expect("a file that was opened for both");
        // For the same reason no other process is to let go of the mapping.
        // SAFETY: advice about the mapping that was just made.
        unsafe { rustix::mm::madvise(memory, len, Advice::LinuxDontFork) }.expect("advice");
        Self {
            first: memory.cast(),
            len,
        }
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len);
        // SAFETY: within the mapping, and the test writes it from one thread.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.first.add(offset), bytes.len());
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping of `of`, after its last use. A mount that has ended takes nothing any more, which is no error here.
        let _ = unsafe { rustix::mm::munmap(self.first.cast(), self.len) };
    }
}

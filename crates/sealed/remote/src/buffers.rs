//! Buffers for objects that are uploaded; each serves one object after another.
//!
//! Takes   buffers that were dropped once their object was sent
//! Gives   them again, empty
//! Never   has more buffers than were in use at a time
//!
//! A segment has up to 16 MiB. If each were read into newly allocated memory, the allocator would keep several times as
//! much as is in use (some for each thread), and every page would cost a page fault again.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers that come back.
#[derive(Clone, Debug, Default)]
pub struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// The bytes of one object. Their memory goes back when this is dropped.
pub struct Buffer {
    bytes: Vec<u8>,
    home: Buffers,
}

impl Buffers {
    /// An empty buffer.
    #[must_use]
    pub fn take(&self) -> Buffer {
        let bytes = self.idle().pop().unwrap_or_default();
        Buffer {
            bytes,
            home: self.clone(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        // A list of memory is whole whenever somebody panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Vec<u8>> for Buffer {
    /// A buffer that comes back to nobody.
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            home: Buffers::default(),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Buffer({} bytes)", self.bytes.len())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        self.home.idle().push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_empty_and_there_is_as_much_as_was_in_use_at_a_time() {
        let buffers = Buffers::default();
        let filled = || {
            let mut buffer = buffers.take();
            assert!(buffer.as_ref().is_empty());
            buffer.bytes_mut().extend_from_slice(&[7; 1000]);
            buffer
        };
        let (one, two) = (filled(), filled());
        let places = [one.as_ref().as_ptr(), two.as_ref().as_ptr()];
        drop((one, two));
        for _ in 0..10 {
            let (one, two) = (filled(), filled());
            for one in [one, two] {
                assert!(places.contains(&one.as_ref().as_ptr()));
            }
        }
        assert_eq!(buffers.idle().len(), 2);
    }
}

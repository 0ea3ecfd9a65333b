//! Why the segment store could not carry out a request, and whose fault that is.

use std::io;

use rustix::io::Errno;
use strongroom_folder::{Odd, odd_of};
use strongroom_format::SegmentId;

/// What the segment store gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the segment store could not do what was asked. The side at fault is said with each variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Caller: a batch holds at least one block.
    #[error("a batch without blocks")]
    EmptyBatch,
    /// Caller: blocks and index together are longer than `BATCH_BYTES_MAX`, or the index than `INDEX_BYTES_MAX`.
    #[error("a batch of {len} bytes, more than {max}")]
    BatchTooLong {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// Caller: what is sealed for a batch or an ending leaves a part of a sector, whose length would show.
    #[error("{len} bytes do not fill whole sectors")]
    PartOfSector {
        /// Bytes given, header or footer included.
        len: usize,
    },
    /// Caller: a block whose bytes are not `sealed_len(clear_len)` long.
    #[error("a sealed block of {len} bytes instead of {expected}")]
    BlockLength {
        /// Bytes given.
        len: usize,
        /// Bytes that its clear length asks for.
        expected: usize,
    },
    /// Caller: a table of contents longer than the room kept for it.
    #[error("a table of contents of {len} bytes, more than {max}")]
    ContentsTooLong {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// Caller: only a segment begun or recovered by this store, and not finished yet, can be finished.
    #[error("the segment is not being written")]
    NotUnfinished(SegmentId),
    /// Caller, or damaged metadata: a place that no segment can have.
    #[error("no block of {len} bytes can be at offset {offset}")]
    InvalidLocation {
        /// First byte.
        offset: u32,
        /// Count of bytes.
        len: u32,
    },
    /// Caller: the store was opened for reading only.
    #[error("the segments are open for reading only")]
    ReadOnly,
    /// Caller or environment: no such file. It may have been compacted: look the block up again.
    #[error("a segment file is missing")]
    Missing(SegmentId),
    /// Environment: the disk is full. Nothing of the batch counts; older data are intact.
    #[error("no space left on the disk that holds the segments")]
    NoSpace,
    /// Environment: an earlier sync failed, so that what is durable is unknown. Reading goes on.
    #[error("an earlier sync of the segments failed; open the vault again")]
    Failed,
    /// Environment or tampering: the file ends before the bytes asked for.
    #[error("a segment file ends before the bytes that should be in it")]
    Truncated(SegmentId),
    /// Tampering or damage: the bytes are no segment.
    #[error("a segment file is damaged: {1}")]
    Damaged(
        SegmentId,
        #[source] strongroom_format::segment::SegmentFormatError,
    ),
    /// Tampering: something lies in the place of a segment file, or of a folder of them, that no vault has.
    #[error("{0}; nothing was read from it: move it out of the vault folder")]
    Odd(Odd),
    /// Environment: the system's random generator.
    #[error("no random name for a new segment could be made: {0}")]
    Random(#[source] io::Error),
    /// Environment: this process, or the system, may have no more files open.
    #[error(
        "too many open files: raise the limit (`ulimit -n 1024`, `LimitNOFILE=` in a unit of systemd)"
    )]
    Descriptors,
    /// Environment: the disk.
    #[error("segments: {0}")]
    Io(#[source] io::Error),
}

impl Error {
    /// Whether something is lacking that may be there again soon: descriptors, memory, an answer of the disk's server. It says nothing
    /// about a file.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        match self {
            Self::Descriptors => true,
            Self::Io(error) => error.kind() == io::ErrorKind::OutOfMemory || is_of_server(error),
            _ => false,
        }
    }

    /// What an error of the system, about something in the vault folder, means.
    #[must_use]
    pub fn of_io(error: io::Error) -> Self {
        match odd_of(&error) {
            Some(odd) => Self::Odd(odd.clone()),
            None if is_of_descriptors(&error) => Self::Descriptors,
            None => Self::Io(error),
        }
    }
}

fn is_of_server(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::AGAIN | Errno::STALE | Errno::TIMEDOUT))
}

fn is_of_descriptors(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

//! Counts requests by opcode, so that a test can check how many an operation costs.
//!
//! Takes   one `count` per request that the adapter answers
//! Gives   `RequestCounts`, a copy of all counters
//! Never   counts requests that `fuser`, the FUSE library, answers: each opcode that it does not know (STATX, TMPFILE,
//!         COPY_FILE_RANGE_64, SYNCFS) gets one ENOSYS per connection

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! opcodes {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// A kind of request, in the kernel's words.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Opcode {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Opcode {
            /// All of them, in the order of the counters.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The kernel's name of it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

opcodes! {
    Lookup = "LOOKUP", Forget = "FORGET", Getattr = "GETATTR", Setattr = "SETATTR", Readlink = "READLINK",
    Symlink = "SYMLINK", Mknod = "MKNOD", Mkdir = "MKDIR", Unlink = "UNLINK", Rmdir = "RMDIR",
    Rename = "RENAME", Link = "LINK", Open = "OPEN", Read = "READ", Write = "WRITE", Statfs = "STATFS",
    Release = "RELEASE", Fsync = "FSYNC", Setxattr = "SETXATTR", Getxattr = "GETXATTR",
    Listxattr = "LISTXATTR", Removexattr = "REMOVEXATTR", Flush = "FLUSH", Opendir = "OPENDIR",
    Readdir = "READDIR", Readdirplus = "READDIRPLUS", Releasedir = "RELEASEDIR", Fsyncdir = "FSYNCDIR",
    Access = "ACCESS", Create = "CREATE", Ioctl = "IOCTL", Fallocate = "FALLOCATE", Lseek = "LSEEK",
    CopyFileRange = "COPY_FILE_RANGE",
}

const COUNT: usize = Opcode::ALL.len();

/// The live counters of one mount.
pub(crate) struct Counters([AtomicU64; COUNT]);

impl Counters {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    pub(crate) fn count(&self, opcode: Opcode) {
        self.0[opcode as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> RequestCounts {
        RequestCounts(std::array::from_fn(|index| {
            self.0[index].load(Ordering::Relaxed)
        }))
    }
}

/// Reads the counters of a mount, from any thread.
#[derive(Clone)]
pub struct RequestCounter(pub(crate) Arc<Counters>);

impl std::fmt::Debug for RequestCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RequestCounter").field(&self.now()).finish()
    }
}

impl RequestCounter {
    /// The counts up to now.
    #[must_use]
    pub fn now(&self) -> RequestCounts {
        self.0.snapshot()
    }
}

/// How many requests of each kind a mount has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCounts([u64; COUNT]);

impl RequestCounts {
    /// The count of one kind.
    #[must_use]
    pub fn of(&self, opcode: Opcode) -> u64 {
        self.0[opcode as usize]
    }

    /// The count of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Every kind that occurred, by the kernel's name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Opcode::ALL
            .iter()
            .map(|opcode| (opcode.name(), self.of(*opcode)))
            .filter(|(_, count)| *count > 0)
    }

    /// What came since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|index| {
            self.0[index].saturating_sub(earlier.0[index])
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_exactly_what_was_counted_between() {
        let counters = Counters::new();
        counters.count(Opcode::Lookup);
        let before = counters.snapshot();
        counters.count(Opcode::Lookup);
        counters.count(Opcode::CopyFileRange);
        let between = counters.snapshot().since(&before);
        let named: Vec<_> = between.iter().collect();
        assert_eq!(named, [("LOOKUP", 1), ("COPY_FILE_RANGE", 1)]);
        assert_eq!(between.total(), 2);
    }

    #[test]
    fn an_opcode_is_the_index_of_its_counter() {
        for (index, opcode) in Opcode::ALL.iter().enumerate() {
            assert_eq!(*opcode as usize, index);
        }
    }
}

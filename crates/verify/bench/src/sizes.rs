//! The amount of work in a run.

use serde::Serialize;

/// How much work each workload is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sizes {
    /// Of the file that is read and written in sequence and at random, in MiB.
    pub big_mib: u64,
    /// Of the file that is copied.
    pub copy_bytes: u64,
    /// Random reads of each job, and random writes.
    pub random_operations: usize,
    /// Appends with fsync.
    pub appends: usize,
    /// Files of 5 KB, 100 in a directory.
    pub files: usize,
    /// Files of the source tree.
    pub sources: usize,
    /// Files of the large tree.
    pub tree_files: usize,
    /// Transactions of each kind of journal.
    pub transactions: usize,
    /// Records, with an fsync after each, by which it is found out what an fsync keeps; with none nobody looks.
    pub records: usize,
}

impl Sizes {
    /// What the tables are made of.
    pub const FULL: Self = Self {
        big_mib: 1024,
        copy_bytes: 725_106_140,
        random_operations: 5000,
        appends: 500,
        files: 10_000,
        sources: 8000,
        tree_files: 50_000,
        transactions: 300,
        records: 100,
    };
    /// A look, in less than three minutes with every peer; too small to compare with others' figures.
    pub const QUICK: Self = Self {
        big_mib: 128,
        copy_bytes: 64 << 20,
        random_operations: 1000,
        appends: 100,
        files: 1000,
        sources: 800,
        tree_files: 3000,
        transactions: 50,
        records: 0,
    };
    /// As little as exercises everything: for tests.
    pub const LEAST: Self = Self {
        big_mib: 1,
        copy_bytes: 100_001,
        random_operations: 10,
        appends: 3,
        files: 12,
        sources: 9,
        tree_files: 120,
        transactions: 2,
        records: 3,
    };
}

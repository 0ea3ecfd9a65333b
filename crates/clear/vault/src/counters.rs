//! The numbers that are counted while a vault is open: the name and the meaning of each, in one place.
//!
//! Takes   the counters of the file system
//! Gives   names and numbers, in the order of this table
//! Never   counts anything itself

use strongroom_filesystem::Counters;

/// One number that `Vault::counters` gives.
pub struct Counter {
    /// Its name.
    pub name: &'static str,
    /// What it says, in one line.
    pub meaning: &'static str,
    read: fn(&Counters) -> u64,
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counter")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

macro_rules! counters {
    ($($name:literal: $meaning:literal = $read:expr;)*) => {
        /// Every number that is counted from the opening of a vault. A mount adds numbers of its own to them.
        pub const COUNTERS: &[Counter] = &[
            $(Counter { name: $name, meaning: $meaning, read: $read },)*
        ];
    };
}

counters! {
    "metadata.transactions": "transactions committed to the database" = |c| c.metadata.commits;
    "metadata.statements": "SQL statements run" = |c| c.metadata.statements;
    "metadata.checkpoints": "times the write-ahead log (metadata.db-wal) was copied into metadata.db" = |c| c.metadata.checkpoints;
    "metadata.database_reads": "reads of metadata.db, a page each" = |c| c.metadata.disk.database.reads;
    "metadata.database_bytes_read": "bytes read from metadata.db" = |c| c.metadata.disk.database.bytes_read;
    "metadata.database_writes": "writes of metadata.db, a page each" = |c| c.metadata.disk.database.writes;
    "metadata.database_bytes_written": "bytes written to metadata.db" = |c| c.metadata.disk.database.bytes;
    "metadata.database_syncs": "syncs of metadata.db" = |c| c.metadata.disk.database.syncs;
    "metadata.log_reads": "reads of metadata.db-wal" = |c| c.metadata.disk.log.reads;
    "metadata.log_bytes_read": "bytes read from metadata.db-wal" = |c| c.metadata.disk.log.bytes_read;
    "metadata.log_writes": "writes of metadata.db-wal" = |c| c.metadata.disk.log.writes;
    "metadata.log_bytes_written": "bytes written to metadata.db-wal" = |c| c.metadata.disk.log.bytes;
    "metadata.log_syncs": "syncs of metadata.db-wal: one for each commit that a program waited for" = |c| c.metadata.disk.log.syncs;
    "segments.bytes_appended": "bytes of sealed content written, headers and padding included" = |c| c.segments.bytes_appended;
    "segments.batches": "writes of sealed content, a batch each" = |c| c.segments.batches;
    "segments.begun": "segment files created" = |c| c.segments.segments_begun;
    "segments.data_syncs": "syncs of segment files" = |c| c.segments.data_syncs;
    "segments.directory_syncs": "syncs of the folders of segment files" = |c| c.segments.directory_syncs;
    "segments.reads": "reads of sealed content" = |c| c.segments.reads;
    "segments.bytes_read": "bytes of sealed content read, alignment included" = |c| c.segments.bytes_read;
    "segments.reads_cached": "small reads, not counted above, that the page cache answered" = |c| c.segments.reads_cached;
    "segments.came_back": "segments fetched from remotes because their content was needed" = |c| c.segments_came_back;
    "filesystem.blocks_sealed": "blocks of content sealed when written content was stored, or when stored content was rewritten; blocks that a copied file shares with its source are not counted" = |c| c.blocks_sealed;
    "filesystem.bytes_sealed": "bytes of these blocks before sealing; if they exceed what programs wrote, content was sealed twice" = |c| c.bytes_sealed;
    "filesystem.bytes_saved": "bytes that compression saved" = |c| c.bytes_saved;
    "filesystem.dirty_bytes": "bytes of content in memory that are not sealed yet (present value)" = |c| c.dirty_bytes;
    "filesystem.nodes": "files and directories in memory (present value)" = |c| c.nodes as u64;
    "filesystem.extent_bytes": "bytes of memory that record where content is stored (present value)" = |c| c.extent_bytes as u64;
}

/// All of them, with their present values.
pub(crate) fn read(counters: &Counters) -> Vec<(String, u64)> {
    COUNTERS
        .iter()
        .map(|counter| (counter.name.to_owned(), (counter.read)(counters)))
        .collect()
}

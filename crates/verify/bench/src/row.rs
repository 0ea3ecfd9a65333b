//! The rows of a run, with their units and targets. `docs/performance.md` explains each.

use serde::Serialize;

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A rate.
    More,
    /// A time, or a cost.
    Less,
}

/// What a file system must hold to for its figure to be compared with that of one that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Promise {
    /// What was synced is encrypted, and there after a crash.
    Durable,
    /// Nothing: what is there is read.
    Nothing,
}

/// What is known of a row before it is measured.
#[derive(Clone, Copy, Debug)]
pub struct RowFacts {
    /// The row.
    pub row: Row,
    /// Its name on the command line and in JSON.
    pub name: &'static str,
    /// Its name in tables.
    pub title: &'static str,
    /// Of its figures.
    pub unit: &'static str,
    /// Which way is better.
    pub better: Better,
    /// What its figure stands for.
    pub promise: Promise,
    /// How many times as fast as the plain file system it is to be; a time 1.5 times as long is 1 / 1.5 here.
    pub against_plain: Option<f64>,
    /// How many times as fast as the best of the peers.
    pub against_peers: Option<f64>,
    /// The figure itself is to be no more than this.
    pub at_most: Option<f64>,
}

macro_rules! rows {
    ($($row:ident $name:literal $title:literal $unit:literal $better:ident $promise:ident $plain:expr, $peers:expr, $most:expr;)*) => {
        /// One figure of a directory.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Row { $(#[doc = $title] $row,)* }

        /// All rows, in the order in which they are shown.
        pub const ROWS: &[RowFacts] = &[$(RowFacts {
            row: Row::$row,
            name: $name,
            title: $title,
            unit: $unit,
            better: Better::$better,
            promise: Promise::$promise,
            against_plain: $plain,
            against_peers: $peers,
            at_most: $most,
        },)*];
    };
}

rows! {
    WriteSequential "write-sequential" "sequential write + fsync" "MB/s" More Durable Some(1.0), Some(1.5), None;
    ReadCold "read-cold" "sequential read, cold" "MB/s" More Nothing Some(0.9), Some(1.5), None;
    ReadWarm "read-warm" "sequential read, warm" "MB/s" More Nothing Some(1.0), Some(1.0), None;
    ReadFourStreams "read-four-streams" "four readers at once, cold" "MB/s" More Nothing Some(0.9), Some(1.5), None;
    ReadRandom "read-random" "random 4 KiB read, cold, 1 job" "IOPS" More Nothing Some(0.7), Some(1.5), None;
    ReadRandomFour "read-random-four" "random 4 KiB read, cold, 4 jobs" "IOPS" More Nothing Some(0.7), Some(1.5), None;
    WriteRandom "write-random" "random 4 KiB write, fsync at the end" "IOPS" More Durable Some(1.5), Some(3.0), None;
    Append "append" "4 KiB append + fsync" "per s" More Durable Some(0.8), Some(1.2), None;
    WriteTiny "write-256b" "2 MiB file in 256-byte writes + fsync" "s" Less Durable Some(1.0 / 1.5), Some(2.0), None;
    WriteSmall "write-8k" "2 MiB file in 8 KiB writes + fsync" "s" Less Durable Some(1.0 / 1.5), Some(2.0), None;
    Create "create" "create files of 5 KB + sync" "files/s" More Durable Some(0.5), Some(3.0), None;
    CopyTree "copy-tree" "`cp -r` of them + sync" "s" Less Durable Some(1.0), Some(3.0), None;
    ReadFiles "read-files" "read them all, cold" "files/s" More Nothing Some(0.7), Some(2.0), None;
    WalkCold "walk-cold" "walk + lstat, cold" "entries/s" More Nothing Some(0.7), Some(2.0), None;
    WalkWarm "walk-warm" "walk + lstat, warm" "entries/s" More Nothing Some(1.0), Some(2.0), None;
    Remove "remove" "`rm -r` + sync" "files/s" More Durable Some(0.5), Some(2.0), None;
    CopyBlocks "copy-dd" "copy a file with `dd bs=1M` + fsync" "MB/s" More Durable Some(0.9), Some(1.5), None;
    CopyFile "copy-cp" "copy a file with `cp` + fsync" "MB/s" More Durable Some(20.0), Some(20.0), None;
    Untar "untar" "untar source files + sync" "s" Less Durable Some(0.5), Some(2.0), None;
    GitAdd "git-add" "`git add -A` + sync" "s" Less Durable Some(0.5), Some(2.0), None;
    GitStatus "git-status" "`git status`, warm" "s" Less Nothing Some(1.0 / 1.05), Some(2.0), None;
    TreeClone "tree-clone" "`git clone` of a large tree + sync" "s" Less Durable Some(1.0 / 1.5), Some(2.0), None;
    TreeCheckout "tree-checkout" "`git checkout` of an old state + sync" "s" Less Durable Some(1.0 / 1.5), Some(2.0), None;
    TreeBack "tree-back" "`git checkout` back + sync" "s" Less Durable Some(1.0 / 1.5), Some(2.0), None;
    TreeGrep "tree-grep" "`git grep` of a large tree, first time" "s" Less Nothing Some(1.0 / 1.5), Some(2.0), None;
    TreeGrepCold "tree-grep-cold" "`git grep` of a large tree, cold" "s" Less Nothing Some(1.0 / 1.5), Some(2.0), None;
    TreeStatus "tree-status" "`git status` of a large tree, first time" "s" Less Nothing Some(1.0 / 1.5), Some(2.0), None;
    TreeStatusCold "tree-status-cold" "`git status` of a large tree, cold" "s" Less Nothing Some(1.0 / 1.5), Some(2.0), None;
    TreeCommit "tree-commit" "`git commit -a` of every 50th file + sync" "s" Less Durable Some(1.0 / 1.5), Some(2.0), None;
    TreeWorktree "tree-worktree" "`git worktree add` of an old state + sync" "s" Less Durable Some(1.0 / 1.5), Some(2.0), None;
    TreeCopy "tree-copy" "`cp -r` of a large tree + sync" "s" Less Durable Some(1.0 / 1.5), Some(2.0), None;
    TreeRemove "tree-rm" "`rm -r` of a large tree + sync" "s" Less Durable Some(1.0 / 1.5), Some(2.0), None;
    SqliteRollback "sqlite-rollback" "SQLite, rollback journal, 1 row per transaction" "txn/s" More Durable Some(0.7), Some(1.2), None;
    SqliteWal "sqlite-wal" "SQLite, WAL, 1 row per transaction" "txn/s" More Durable Some(0.7), Some(1.2), None;
    CacheGrowth "cache-growth" "page cache growth per byte read" "ratio" Less Nothing None, None, Some(1.1);
    CpuWrite "cpu-write" "processor time of the server, written" "s/GiB" Less Durable None, Some(1.0), None;
    CpuRead "cpu-read" "processor time of the server, read" "s/GiB" Less Nothing None, Some(1.0), None;
    Library "library" "library without a mount: create, sync, read 5 KB files" "files/s" More Durable Some(1.0), None, None;
}

impl Row {
    /// What is known of it.
    #[must_use]
    pub fn facts(self) -> &'static RowFacts {
        &ROWS[self as usize]
    }
}

/// The rows that `names`, separated by commas, names.
///
/// # Errors
/// The first name that is none, with all that there are.
pub fn parse_rows(names: &str) -> Result<Vec<Row>, String> {
    let parse = |name: &str| {
        let found = ROWS.iter().find(|facts| facts.name == name);
        found.map(|facts| facts.row).ok_or_else(|| {
            let all: Vec<_> = ROWS.iter().map(|facts| facts.name).collect();
            format!("no row {name:?}; there are {}", all.join(", "))
        })
    };
    names.split(',').map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_found_by_its_name_and_names_differ() {
        for facts in ROWS {
            assert_eq!(parse_rows(facts.name), Ok(vec![facts.row]));
            assert_eq!(facts.row.facts().name, facts.name);
        }
        assert!(
            parse_rows("write-sequential,none")
                .unwrap_err()
                .contains("read-cold")
        );
    }
}

//! Outcomes that the design intends, with the reason for each: they are counted, and never skipped silently.
//!
//! Takes   an operation, and the file that it changed
//! Gives   why a vault need not report the change, or may show an older whole state

use super::operations::Operation;

/// What a vault may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// Say nothing: nothing was lost by it.
    BeSilent,
    /// Show an older whole state: nothing in the folder can tell.
    BeOlder,
}

/// One row: the file, the operations (none: every), what may be, why.
type Row = (&'static str, &'static [Operation], May, &'static str);

use Operation as O;

/// The operations that change what a file says, and leave it a file.
const CONTENT: &[Operation] = &[
    O::FlipStart,
    O::FlipMiddle,
    O::FlipEnd,
    O::FlipRandom,
    O::CutAll,
    O::CutHalf,
    O::CutByte,
    O::CutSector,
    O::ExtendByte,
    O::ExtendSector,
    O::ExtendSparse,
    O::ZeroSector,
    O::ZeroAll,
    O::Older,
    O::Branch,
    O::OtherVault,
    O::Planted,
    O::Missing,
    O::Doubled,
];

/// Those that take something away from a log, or make its end unreadable.
const LOG: &[Operation] = &[
    O::FlipStart,
    O::FlipMiddle,
    O::FlipEnd,
    O::FlipRandom,
    O::CutAll,
    O::CutHalf,
    O::CutByte,
    O::CutSector,
    O::ZeroSector,
    O::ZeroAll,
    O::Missing,
    O::OtherVault,
    O::Branch,
    O::Older,
];

const ROWS: &[Row] = &[
    (
        "lock",
        CONTENT,
        May::BeSilent,
        "it holds nothing; only its lock counts",
    ),
    (
        "reserve",
        CONTENT,
        May::BeSilent,
        "it holds nothing; it is made long enough by every opening",
    ),
    (
        "metadata.db-shm",
        CONTENT,
        May::BeSilent,
        "nothing reads it: the index of the log is in memory",
    ),
    (
        "metadata.db-journal",
        CONTENT,
        May::BeSilent,
        "nothing reads it: a vault never leaves one, so it is not rolled back",
    ),
    (
        "metadata.db-wal",
        LOG,
        May::BeOlder,
        "the whole state before the last commits; a user who has seen the newer state is warned, by the record outside of the vault folder",
    ),
    (
        "metadata.db-wal",
        &[O::ExtendByte, O::ExtendSector, O::ExtendSparse],
        May::BeSilent,
        "what follows the last commit of a log is no part of it",
    ),
    (
        "verify-state.json",
        CONTENT,
        May::BeSilent,
        "a saved state that does not open counts as missing: the verification begins at the start",
    ),
    (
        "vault.json.saved",
        &[O::Missing, O::Older, O::OtherVault],
        May::BeSilent,
        "every opening makes it again from the header",
    ),
    (
        "replica.json.saved",
        &[O::Missing, O::Older, O::OtherVault],
        May::BeSilent,
        "every opening makes it again from the replica file",
    ),
    (
        "revisions/",
        &[O::Missing],
        May::BeSilent,
        "the database holds it; every opening for writing makes it again",
    ),
    (
        ".",
        &[O::Older, O::Branch],
        May::BeOlder,
        "the whole folder is another state; a user who has seen the newer state is warned, by the record outside of the vault folder",
    ),
    (
        ".",
        &[O::OtherVault],
        May::BeSilent,
        "it is another vault, whose key is another",
    ),
    (
        "vault.json.new",
        &O::ALL,
        May::BeSilent,
        "a name that belongs to nobody: nothing opens it",
    ),
    (
        "vault.json.saved.new",
        &O::ALL,
        May::BeSilent,
        "a name that belongs to nobody: nothing opens it",
    ),
    (
        "replica.json.new",
        &O::ALL,
        May::BeSilent,
        "a name that belongs to nobody: nothing opens it",
    ),
    (
        "replica.json.saved.new",
        &O::ALL,
        May::BeSilent,
        "a name that belongs to nobody: nothing opens it",
    ),
    (
        "intents.unreadable",
        &O::ALL,
        May::BeSilent,
        "nothing opens it: a log that lost something is put there, and the loss was reported then",
    ),
    (
        ".new-0123456789abcdef0123456789abcdef",
        &O::ALL,
        May::BeSilent,
        "nothing opens it: a file goes at the next opening for writing, anything else stays",
    ),
    (
        "recovering",
        &[O::Directory],
        May::BeSilent,
        "what an interrupted rebuilding left; the next one begins by removing it",
    ),
    (
        "recovered-1",
        &[O::Directory],
        May::BeSilent,
        "it is an empty folder, so nothing of it is put in place; the next opening removes it",
    ),
    (
        "rekeyed",
        &[O::Directory],
        May::BeSilent,
        "it is an empty folder, so nothing of it is put in place; the next opening removes it",
    ),
    (
        "unexplained",
        &[O::Directory],
        May::BeSilent,
        "an empty folder for what a repair sets aside",
    ),
    (
        "replica.json.next",
        &[O::Planted],
        May::BeSilent,
        "it is read only where replica.json does not serve; the opening removes it",
    ),
    (
        "intents",
        &[O::FlipLastRecord],
        May::BeOlder,
        "decay of exactly the last record looks like a torn write (claim 14)",
    ),
    (
        "init-unfinished",
        &[O::Planted],
        May::BeSilent,
        "it means nothing beside a header",
    ),
    (
        "metadata.db-tree",
        &[
            O::ExtendByte,
            O::ExtendSector,
            O::ExtendSparse,
            O::CutByte,
            O::CutSector,
            O::FlipEnd,
            O::FlipRandom,
        ],
        May::BeSilent,
        "what is behind the leaf of the last page is no part of it",
    ),
    (
        "metadata.db-tree",
        &[O::FlipStart],
        May::BeSilent,
        "its header counts for nothing while the log has a commit",
    ),
    (
        "metadata.db",
        &[O::FlipStart],
        May::BeSilent,
        "it begins with a salt that nothing reads: the key is given with its own",
    ),
    (
        "metadata.db",
        &[O::ExtendSparse],
        May::BeSilent,
        "what is behind the last page is ignored, and cut off once the log has been taken over",
    ),
    (
        "segments/segment-1",
        &[O::ExtendByte, O::ExtendSector, O::ExtendSparse],
        May::BeSilent,
        "it is the open one: what follows its committed end is cut by every opening, as after a crash",
    ),
    (
        "segments/folder-0",
        &[O::Doubled],
        May::BeSilent,
        "the names in it are those of another folder, so nothing reads them",
    ),
    (
        "revisions",
        &[O::Directory, O::Missing, O::Older],
        May::BeSilent,
        "the database holds the records; every opening for writing makes them again",
    ),
    (
        "",
        &[O::Doubled],
        May::BeSilent,
        "a name that nothing reads",
    ),
];

/// Why it may be.
#[must_use]
pub fn by_design(file: &str, operation: Operation, may: May) -> Option<&'static str> {
    ROWS.iter().find_map(|(name, operations, what, why)| {
        let is_file = match *name {
            // Of the top; among segments and records it has a meaning.
            "" => !file.contains('/'),
            "revisions/" => file.starts_with("revisions/"),
            name => name == file,
        };
        (is_file && operations.contains(&operation) && *what == may).then_some(*why)
    })
}

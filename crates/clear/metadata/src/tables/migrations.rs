//! The schema, version by version.
//!
//! Takes   a connection that has its key
//! Gives   the same connection with the newest schema, or a refusal
//! Never   changes a version that was released: additions are a further step
//! Spec    spec/4-metadata.md, 4.3 and 4.4
//!
//! Invariants
//!  (1) `user_version` is the number of steps applied. The transaction of a step changes it.   [4.3.1]

use rusqlite::Connection;

use crate::ending::Running;
use crate::error::{Error, Result};

/// Step n brings version n to version n + 1.
const STEPS: &[&str] = &[
    VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7,
];

/// The newest schema version this build knows.
pub const SCHEMA_VERSION: u32 = STEPS.len() as u32;

// Why these shapes:
// - entry: the primary key answers a look-up with one descent. `entry_order` repeats the row in the order of
//   listing, so that a listing is one scan of neighbours however large the directory is; cookies rise, so new
//   rows go to the end of their directory's part. Removal descends both.
// - inode_orphan and block_segment hold only the rows that are asked for.
// - waiting is apart from block, so that blocks stay small and dense.
// - entry_inode: from a changed node to its names, for the next revision. Numbers of new nodes rise, so their rows
//   go to the end.
/// The newest schema as SQL, step by step, for checks of how statements run.
pub const SCHEMA: &[&str] = STEPS;

const VERSION_1: &str = "
CREATE TABLE setting (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID, STRICT;
CREATE TABLE inode (
    id INTEGER PRIMARY KEY,
    birth INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    mode INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    gid INTEGER NOT NULL,
    rdev INTEGER NOT NULL,
    nlink INTEGER NOT NULL,
    size INTEGER NOT NULL,
    allocated INTEGER NOT NULL,
    atime INTEGER NOT NULL,
    mtime INTEGER NOT NULL,
    ctime INTEGER NOT NULL,
    btime INTEGER NOT NULL,
    content_version INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    target BLOB
) STRICT;
CREATE INDEX inode_orphan ON inode (nlink) WHERE nlink = 0;
CREATE TABLE entry (
    parent INTEGER NOT NULL,
    name BLOB NOT NULL,
    inode INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    cookie INTEGER NOT NULL,
    folded BLOB,
    PRIMARY KEY (parent, name)
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX entry_order ON entry (parent, cookie, inode, kind);
CREATE TABLE xattr (
    inode INTEGER NOT NULL,
    name BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (inode, name)
) WITHOUT ROWID, STRICT;
CREATE TABLE extent (
    inode INTEGER NOT NULL,
    region INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (inode, region)
) WITHOUT ROWID, STRICT;
CREATE TABLE block (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    clear_len INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    refs INTEGER NOT NULL,
    segment INTEGER,
    start INTEGER
) STRICT;
CREATE INDEX block_segment ON block (segment) WHERE segment IS NOT NULL;
CREATE TABLE waiting (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
CREATE TABLE segment (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    state INTEGER NOT NULL,
    live_bytes INTEGER NOT NULL,
    total_bytes INTEGER NOT NULL,
    committed_len INTEGER NOT NULL
) STRICT;
CREATE TABLE truncation (inode INTEGER PRIMARY KEY, size INTEGER NOT NULL) STRICT;
";

// `truncation` was never written: a cut is a hole of whole regions, and holes are punched in the middle too.
const VERSION_2: &str = "
DROP TABLE truncation;
CREATE TABLE hole (
    inode INTEGER NOT NULL,
    first INTEGER NOT NULL,
    past INTEGER NOT NULL,
    PRIMARY KEY (inode, first)
) WITHOUT ROWID, STRICT;
";

const VERSION_3: &str = "
CREATE TABLE reservation (
    inode INTEGER PRIMARY KEY,
    bytes INTEGER NOT NULL,
    ranges BLOB NOT NULL
) STRICT;
";

const VERSION_4: &str = "
ALTER TABLE block ADD COLUMN kind INTEGER NOT NULL DEFAULT 1;
CREATE INDEX entry_inode ON entry (inode);
CREATE TABLE changed (
    generation INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    item BLOB NOT NULL,
    was INTEGER NOT NULL,
    PRIMARY KEY (generation, inode, item)
) WITHOUT ROWID, STRICT;
CREATE TABLE released (number INTEGER PRIMARY KEY) STRICT;
CREATE TABLE revision (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    root INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
";

// Two orders: by file, to see whether its hash is known; by hash, to find the files of a content, equal ones as neighbours.
const VERSION_5: &str = "
CREATE TABLE content_hash (
    inode INTEGER NOT NULL,
    algorithm INTEGER NOT NULL,
    version INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (inode, algorithm)
) WITHOUT ROWID, STRICT;
CREATE INDEX content_hash_order ON content_hash (algorithm, hash, inode, version);
";

// `published` answers two questions: whether a remote has an item, and what it has, in one order.
const VERSION_6: &str = "
CREATE TABLE remote (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    id BLOB NOT NULL,
    state BLOB NOT NULL
) STRICT;
CREATE TABLE published (
    remote INTEGER NOT NULL,
    item BLOB NOT NULL,
    hash BLOB NOT NULL,
    publication INTEGER NOT NULL,
    PRIMARY KEY (remote, item)
) WITHOUT ROWID, STRICT;
";

// The tables are the same. A segment may be in a fourth state, `Away`, which earlier programs take for damage: the number keeps them out.
const VERSION_7: &str = "";

/// The schema version of the database behind `connection`; 0 has no tables yet.
///
/// # Errors
/// `Error::NewerVersion` if this build does not know it; whatever reading the first page gives.
pub(crate) fn version(connection: &Connection) -> Result<u32> {
    let _running = Running::begin()?;
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let found =
        u32::try_from(found).map_err(|_| Error::Damaged("the schema version is negative"))?;
    if found > SCHEMA_VERSION {
        return Err(Error::NewerVersion {
            found,
            known: SCHEMA_VERSION,
        });
    }
    Ok(found)
}

/// Brings the database to `SCHEMA_VERSION`, each step in a transaction of its own.
///
/// # Errors
/// As `version`; whatever writing gives: then the database has the version of the last whole step.
pub(crate) fn migrate(connection: &Connection) -> Result<()> {
    let _running = Running::begin()?;
    let found = version(connection)?;
    for (step, sql) in STEPS.iter().enumerate().skip(found as usize) {
        let next = step + 1;
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {sql} PRAGMA user_version = {next}; COMMIT;"
        ))?;
    }
    Ok(())
}

//! The tables of the database of a server, and how they came to be.
//!
//! Takes   a database of any version
//! Gives   one with the tables of this version
//! Never   touches the database of another program, or of a newer version

use rusqlite::{Connection, TransactionBehavior};

use crate::error::{Error, Result};

/// What marks a file as such a database: `srsv`.
const APPLICATION: i64 = 0x7372_7376;

/// The schema in steps; `user_version` says how many were taken.
const SCHEMA: &[&str] = &[
    "
CREATE TABLE account (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    token BLOB NOT NULL UNIQUE,
    suspended INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    objects INTEGER NOT NULL DEFAULT 0,
    bytes_max INTEGER NOT NULL,
    objects_max INTEGER NOT NULL,
    created_s INTEGER NOT NULL
) STRICT;
CREATE TABLE vault (
    id INTEGER PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES account,
    name TEXT NOT NULL,
    last INTEGER NOT NULL DEFAULT 0,
    UNIQUE (account, name)
) STRICT;
CREATE TABLE object (
    vault INTEGER NOT NULL REFERENCES vault,
    name TEXT NOT NULL,
    file BLOB NOT NULL UNIQUE,
    len INTEGER NOT NULL,
    created_s INTEGER NOT NULL,
    PRIMARY KEY (vault, name)
) STRICT, WITHOUT ROWID;
",
    "
CREATE TABLE chain (
    vault INTEGER PRIMARY KEY REFERENCES vault,
    header TEXT NOT NULL,
    records BLOB NOT NULL
) STRICT;
CREATE TABLE member (
    vault INTEGER NOT NULL REFERENCES vault,
    principal BLOB NOT NULL,
    role INTEGER NOT NULL,
    signing BLOB NOT NULL,
    PRIMARY KEY (vault, principal)
) STRICT, WITHOUT ROWID;
",
];

/// Brings the schema to what this version knows.
pub(super) fn migrate(writer: &mut Connection) -> Result<()> {
    // Most of the time nothing changes: then nobody who writes is waited for.
    if steps_taken(writer)? == SCHEMA.len() {
        return Ok(());
    }
    let change = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in SCHEMA.iter().skip(steps_taken(&change)?) {
        change.execute_batch(step)?;
    }
    change.pragma_update(None, "application_id", APPLICATION)?;
    change.pragma_update(None, "user_version", SCHEMA.len() as i64)?;
    Ok(change.commit()?)
}

/// How many steps of the schema a database has.
fn steps_taken(database: &Connection) -> Result<usize> {
    let pragma = |name: &str| database.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0));
    let (found, application): (i64, i64) = (pragma("user_version")?, pragma("application_id")?);
    let known = SCHEMA.len() as i64;
    if found > known || found > 0 && application != APPLICATION {
        return Err(Error::NewerSchema { found, known });
    }
    Ok(usize::try_from(found).unwrap_or(0))
}

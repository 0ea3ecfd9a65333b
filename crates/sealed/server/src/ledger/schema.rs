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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    /// A database after that many steps.
    fn after(steps: usize) -> Connection {
        let database = Connection::open_in_memory().unwrap();
        for step in &SCHEMA[..steps] {
            database.execute_batch(step).unwrap();
        }
        if steps > 0 {
            database
                .pragma_update(None, "application_id", APPLICATION)
                .unwrap();
            let version = i64::try_from(steps).unwrap();
            database
                .pragma_update(None, "user_version", version)
                .unwrap();
        }
        database
    }

    fn tables(database: &Connection) -> Vec<String> {
        let query = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
        let mut query = database.prepare(query).unwrap();
        let rows = query.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    }

    /// Goal: a server continues with the database of every earlier version, with what is in it. Method: an account in each of them.
    #[test]
    fn a_database_of_each_earlier_version_gets_the_tables_of_this_one() {
        let whole = tables(&after(SCHEMA.len()));
        assert!(whole.len() >= 5, "{whole:?}");
        for steps in 0..=SCHEMA.len() {
            let mut database = after(steps);
            if steps > 0 {
                let account = "INSERT INTO account (name, token, bytes_max, objects_max, created_s) VALUES ('anna', x'00', 1, 1, 0)";
                database.execute_batch(account).unwrap();
            }
            for _ in 0..2 {
                migrate(&mut database).unwrap();
                assert_eq!(tables(&database), whole, "{steps}");
                assert_eq!(steps_taken(&database).unwrap(), SCHEMA.len());
            }
            let count = "SELECT count(*) FROM account";
            let accounts: i64 = database.query_row(count, [], |row| row.get(0)).unwrap();
            assert_eq!(accounts, i64::from(steps > 0));
        }
    }

    #[test]
    fn a_database_of_a_newer_version_or_of_another_program_stays_as_it_is() {
        let newer = SCHEMA.len() as i64 + 1;
        for (application, version) in [(APPLICATION, newer), (0, 1), (7, 1)] {
            let mut database = after(0);
            database
                .pragma_update(None, "application_id", application)
                .unwrap();
            database
                .pragma_update(None, "user_version", version)
                .unwrap();
            let refused = migrate(&mut database);
            assert!(matches!(refused, Err(Error::NewerSchema { .. })));
            assert_eq!(tables(&database), [""; 0]);
        }
    }
}

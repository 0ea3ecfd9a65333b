//! What the instances of a server know of one another's files and publications, through their common database.
//!
//! Takes   files that come and go; notifications
//! Gives   rows by which every instance knows these files; the vault and the number in a notification
//! Never   lets an object refer to a file that `gc` may take
//!
//! A file is in one of three tables for as long as anything of it may be in the object store:
//!
//! | table | since | until |
//! |---|---|---|
//! | `coming` | before its first byte is sent there | the transaction that adds the object, or it is known to be gone |
//! | `object` | that transaction | the transaction that removes the object |
//! | `going` | that transaction | it is known to be gone |
//!
//! So what the store has and no table knows is garbage, whatever any clock says. `gc` takes an upload that has taken too long out of `coming`;
//! if it was still under way, its object is not added.

use crate::database::postgres::Held;
use crate::database::{Database, View, values};
use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::ledger::{Ledger, VaultKey};

/// Held by who makes a backup; shared by who frees files.
pub(crate) const BACKUP: i64 = (0x7372_7376 << 16) | 2;

/// The vault of a notification, and its newest publication; `None` for one of somebody else.
pub(crate) fn notified(text: &str) -> Option<(VaultKey, u64)> {
    let mut parts = text.split(' ');
    let (account, name, number) = (parts.next()?, parts.next()?, parts.next()?);
    let key = VaultKey {
        account: account.parse().ok()?,
        name: name.to_owned(),
    };
    Some((key, number.parse().ok()?))
}

/// Notes the files of objects that go; gives whether no backup needs them, so that they may be removed once the change is made.
pub(crate) fn leave(change: &View<'_>, files: &[FileId]) -> Result<bool> {
    for file in files {
        change.execute("INSERT INTO going (file) VALUES (?1)", values![file])?;
    }
    // Until the change is made no backup begins: one that begins then has none of these objects.
    change.value(
        "SELECT pg_try_advisory_xact_lock_shared(?1)",
        values![BACKUP],
    )
}

impl Ledger {
    /// A lock that no other instance has; `None` if one has it, also shared.
    ///
    /// # Errors
    /// `OnlyFolder` for a database that is not shared.
    pub(crate) fn hold(&self, lock: i64) -> Result<Option<Held<'_>>> {
        match &*self.database {
            Database::Postgres(own) => own.hold(lock),
            Database::Sqlite(_) => Err(Error::OnlyFolder),
        }
    }

    /// The same, which several may have at once.
    ///
    /// # Errors
    /// As `hold`.
    pub(crate) fn share(&self, lock: i64) -> Result<Option<Held<'_>>> {
        match &*self.database {
            Database::Postgres(own) => own.share(lock),
            Database::Sqlite(_) => Err(Error::OnlyFolder),
        }
    }

    /// Notes a file before its first byte is sent anywhere.
    pub(crate) fn begin_file(&self, file: FileId) -> Result<()> {
        let sql = "INSERT INTO coming (file, began_s) VALUES (?1, unixepoch())";
        (self.database).read(|view| view.execute(sql, values![&file]).map(drop))
    }

    /// Nothing is left of that file.
    pub(crate) fn forget_file(&self, file: FileId) -> Result<()> {
        self.database.read(|view| {
            view.execute("DELETE FROM coming WHERE file = ?1", values![&file])?;
            view.execute("DELETE FROM going WHERE file = ?1", values![&file])?;
            Ok(())
        })
    }

    /// Takes uploads that began before so many seconds for cut off; gives how many. One that began later than now, because a clock jumped,
    /// is taken by the same measure.
    pub(crate) fn give_up_uploads(&self, after_s: u64) -> Result<u64> {
        self.database.read(|view| {
            view.execute(
                "WITH late AS (DELETE FROM coming WHERE abs(unixepoch() - began_s) >= ?1 RETURNING file)
                 INSERT INTO going (file) SELECT file FROM late ON CONFLICT (file) DO NOTHING",
                values![after_s],
            )
        })
    }

    /// How many uploads seem to be cut off.
    pub(crate) fn late_uploads(&self, after_s: u64) -> Result<u64> {
        let sql = "SELECT count(*) FROM coming WHERE abs(unixepoch() - began_s) >= ?1";
        (self.database).read(|view| view.value(sql, values![after_s]))
    }

    /// Files that go, in the order of their ids, behind `after`.
    pub(crate) fn going_after(&self, after: &[u8], count: usize) -> Result<Vec<FileId>> {
        let sql = "SELECT file FROM going WHERE file > ?1 ORDER BY file LIMIT ?2";
        (self.database).read(|view| view.rows(sql, values![after, count], |row| row.get(0)))
    }

    /// Those of `files` that no table knows.
    pub(crate) fn unknown_files(&self, files: &[FileId]) -> Result<Vec<FileId>> {
        let bytes: Vec<&[u8]> = files.iter().map(FileId::bytes).collect();
        // One statement: it sees one state, in which a file is in one table or in none.
        let sql = "SELECT file FROM unnest(CAST(?1 AS BYTEA[])) AS listed (file)
                   WHERE NOT EXISTS (SELECT 1 FROM object WHERE object.file = listed.file)
                     AND NOT EXISTS (SELECT 1 FROM coming WHERE coming.file = listed.file)
                     AND NOT EXISTS (SELECT 1 FROM going WHERE going.file = listed.file)";
        (self.database).read(|view| view.rows(sql, values![bytes.as_slice()], |row| row.get(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_says_what_it_said_or_is_somebody_elses() {
        let key = VaultKey {
            account: -7,
            name: "v".to_owned(),
        };
        assert_eq!(notified("-7 v 12"), Some((key, 12)));
        for text in ["", "7", "7 v", "x v 1", "7 v -1", "7 v x"] {
            assert_eq!(notified(text), None, "{text}");
        }
    }
}

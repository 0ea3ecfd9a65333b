//! The whole database, for its administrator: every object, what contradicts itself, a copy.
//!
//! Takes   a database that a server may use meanwhile
//! Gives   objects with their names, contradictions, what is to be removed, one state of the database in a new file
//! Never   locks out the server for longer than one page of objects is read

use std::path::Path;

use strongroom_remote::protocol::PAGE_NAMES_MAX;

use crate::database::{View, values};
use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::ledger::{Ledger, Quota};

/// An object, with the names that lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedObject {
    vault_id: i64,
    pub(crate) account: String,
    pub(crate) vault: String,
    pub(crate) name: String,
    pub(crate) file: FileId,
    pub(crate) len: u64,
}

/// What all accounts have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) accounts: u64,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

impl Ledger {
    /// What the accounts use; O(accounts).
    pub(crate) fn totals(&self) -> Result<Totals> {
        let sums = "SELECT count(*), CAST(coalesce(sum(objects), 0) AS BIGINT), CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM account";
        let found = self.database.read(|view| {
            view.row(sums, values![], |row| {
                Ok(Totals {
                    accounts: row.get(0)?,
                    objects: row.get(1)?,
                    bytes: row.get(2)?,
                })
            })
        })?;
        found.ok_or(Error::Unsound("an answer without a row"))
    }

    /// All objects, by vault and name. Nothing is locked while `each` runs, so it meets what happens meanwhile, or does not.
    ///
    /// # Errors
    /// Those of `each`.
    pub(crate) fn each_object(
        &self,
        mut each: impl FnMut(&ListedObject) -> Result<()>,
    ) -> Result<()> {
        let (mut vault, mut name) = (i64::MIN, String::new());
        loop {
            let objects = self.objects_after(vault, &name)?;
            objects.iter().try_for_each(&mut each)?;
            let Some(last) = objects.last() else {
                return Ok(());
            };
            (vault, name) = (last.vault_id, last.name.clone());
        }
    }

    fn objects_after(&self, vault: i64, name: &str) -> Result<Vec<ListedObject>> {
        self.database.read(|view| {
            view.rows(
                "SELECT object.vault, account.name, vault.name, object.name, object.file, object.len
                 FROM object JOIN vault ON vault.id = object.vault JOIN account ON account.id = vault.account
                 WHERE (object.vault, object.name) > (?1, ?2) ORDER BY object.vault, object.name LIMIT ?3",
                values![vault, name, PAGE_NAMES_MAX],
                |row| {
                    Ok(ListedObject {
                        vault_id: row.get(0)?,
                        account: row.get(1)?,
                        vault: row.get(2)?,
                        name: row.get(3)?,
                        file: row.get(4)?,
                        len: row.get(5)?,
                    })
                },
            )
        })
    }

    /// What clients have asked to remove of an account, and is there. O(objects of the account).
    pub(crate) fn asked_for(&self, name: &str) -> Result<Quota> {
        let found = self.database.read(|view| {
            view.row(
                "SELECT CAST(coalesce(sum(object.len), 0) AS BIGINT), count(*)
                 FROM account JOIN vault ON vault.account = account.id JOIN object ON object.vault = vault.id
                 WHERE account.name = ?1 AND object.asked_s > 0",
                values![name],
                |row| {
                    Ok(Quota {
                        bytes: row.get(0)?,
                        objects: row.get(1)?,
                    })
                },
            )
        })?;
        found.ok_or(Error::Unsound("an answer without a row"))
    }

    /// How many objects there are.
    pub(crate) fn count(&self) -> Result<u64> {
        let count = "SELECT count(*) FROM object";
        self.database.read(|view| view.value(count, values![]))
    }

    /// The time of the newest object; O(objects).
    pub(crate) fn newest_s(&self) -> Result<u64> {
        let newest = "SELECT coalesce(max(created_s), 0) FROM object";
        self.database.read(|view| view.value(newest, values![]))
    }

    /// What the database itself finds wrong with it. Of PostgreSQL nothing: it has tools of its own for that.
    pub(crate) fn unsound(&self) -> Result<Vec<String>> {
        self.database.read(|view| {
            if view.is_shared() {
                return Ok(Vec::new());
            }
            let check = "PRAGMA integrity_check(100)";
            let mut found: Vec<String> = view.rows(check, values![], |row| row.get(0))?;
            found.retain(|line| line != "ok");
            if view.exists("PRAGMA foreign_key_check", values![])? {
                found.push("a row refers to one that does not exist".to_owned());
            }
            Ok(found)
        })
    }

    /// Accounts whose usage is not what (3) says.
    pub(crate) fn miscounted(&self) -> Result<Vec<String>> {
        self.database.read(|view| {
            view.rows(
                "SELECT account.name FROM account LEFT JOIN vault ON vault.account = account.id
                 LEFT JOIN object ON object.vault = vault.id
                 GROUP BY account.id
                 HAVING account.bytes <> coalesce(sum(object.len), 0) OR account.objects <> count(object.name)
                 ORDER BY account.name",
                values![],
                |row| row.get(0),
            )
        })
    }

    /// Vaults without the publication that (2) keeps: account, vault, number.
    pub(crate) fn without_newest(&self) -> Result<Vec<(String, String, u64)>> {
        // The number in 16 digits, spelled as both databases can.
        self.database.read(|view| {
            view.rows(
                "SELECT account.name, vault.name, vault.last FROM vault JOIN account ON account.id = vault.account
                 WHERE vault.last > 0 AND NOT EXISTS (
                     SELECT 1 FROM object WHERE object.vault = vault.id AND object.name =
                         'publications/' || substr('0000000000000000' || CAST(vault.last AS TEXT), length(CAST(vault.last AS TEXT)) + 1)
                 ) ORDER BY account.name, vault.name",
                values![],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
        })
    }

    /// Writes one state of a SQLite database to a new file at `path`.
    ///
    /// # Errors
    /// `NoFolder` for another one.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<()> {
        let text = path.to_str().ok_or(Error::PathNotText)?;
        self.database.read(|view| match view {
            View::Sqlite(reader) => {
                reader.execute("VACUUM INTO ?1", [text])?;
                Ok(())
            }
            View::Postgres(_) => Err(Error::NoFolder),
        })
    }
}

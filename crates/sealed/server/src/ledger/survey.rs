//! The whole database, for its administrator: every object, what contradicts itself, a copy.
//!
//! Takes   a database that a server may use meanwhile
//! Gives   objects with their names, contradictions, one state of the database in a new file
//! Never   locks out the server for longer than one page of objects is read

use std::path::Path;

use rusqlite::params;
use strongroom_remote::protocol::PAGE_NAMES_MAX;

use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::ledger::{Ledger, number};

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
        let reader = self.reader.lock();
        let sums =
            "SELECT count(*), coalesce(sum(objects), 0), coalesce(sum(bytes), 0) FROM account";
        Ok(reader.query_row(sums, [], |row| {
            Ok(Totals {
                accounts: number(row, 0)?,
                objects: number(row, 1)?,
                bytes: number(row, 2)?,
            })
        })?)
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
        let reader = self.reader.lock();
        let mut query = reader.prepare_cached(
            "SELECT object.vault, account.name, vault.name, object.name, object.file, object.len
             FROM object JOIN vault ON vault.id = object.vault JOIN account ON account.id = vault.account
             WHERE (object.vault, object.name) > (?1, ?2) ORDER BY object.vault, object.name LIMIT ?3",
        )?;
        let rows = query.query_map(params![vault, name, PAGE_NAMES_MAX as i64], |row| {
            Ok(ListedObject {
                vault_id: row.get(0)?,
                account: row.get(1)?,
                vault: row.get(2)?,
                name: row.get(3)?,
                file: row.get(4)?,
                len: number(row, 5)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// How many objects there are.
    pub(crate) fn count(&self) -> Result<u64> {
        let reader = self.reader.lock();
        let count = "SELECT count(*) FROM object";
        Ok(reader.query_row(count, [], |row| number(row, 0))?)
    }

    /// The time of the newest object; O(objects).
    pub(crate) fn newest_s(&self) -> Result<u64> {
        let reader = self.reader.lock();
        let newest = "SELECT coalesce(max(created_s), 0) FROM object";
        Ok(reader.query_row(newest, [], |row| number(row, 0))?)
    }

    /// What SQLite finds wrong with the database.
    pub(crate) fn unsound(&self) -> Result<Vec<String>> {
        let reader = self.reader.lock();
        let mut query = reader.prepare("PRAGMA integrity_check(100)")?;
        let rows = query.query_map([], |row| row.get(0))?;
        let mut found: Vec<String> = rows.collect::<rusqlite::Result<_>>()?;
        found.retain(|line| line != "ok");
        if reader.prepare("PRAGMA foreign_key_check")?.exists([])? {
            found.push("a row refers to one that does not exist".to_owned());
        }
        Ok(found)
    }

    /// Accounts whose usage is not what (3) says.
    pub(crate) fn miscounted(&self) -> Result<Vec<String>> {
        let reader = self.reader.lock();
        let mut query = reader.prepare(
            "SELECT account.name FROM account LEFT JOIN vault ON vault.account = account.id
             LEFT JOIN object ON object.vault = vault.id
             GROUP BY account.id
             HAVING account.bytes <> coalesce(sum(object.len), 0) OR account.objects <> count(object.name)
             ORDER BY account.name",
        )?;
        let rows = query.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Vaults without the publication that (2) keeps: account, vault, number.
    pub(crate) fn without_newest(&self) -> Result<Vec<(String, String, u64)>> {
        let reader = self.reader.lock();
        let mut query = reader.prepare(
            "SELECT account.name, vault.name, vault.last FROM vault JOIN account ON account.id = vault.account
             WHERE vault.last > 0 AND NOT EXISTS (
                 SELECT 1 FROM object WHERE object.vault = vault.id AND object.name = printf('publications/%016d', vault.last)
             ) ORDER BY account.name, vault.name",
        )?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, number(row, 2)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Writes one state of the database to a new file at `path`.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<()> {
        let text = path.to_str().ok_or(Error::PathNotText)?;
        self.reader.lock().execute("VACUUM INTO ?1", [text])?;
        Ok(())
    }
}

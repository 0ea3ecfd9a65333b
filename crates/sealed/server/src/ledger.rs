//! The database of a server: accounts, vaults, the list of objects, and the order of publications.
//!
//! Takes   names, quotas, hashes of tokens; names, lengths, times and file ids of objects; numbers of publications
//! Gives   the stored entries; refusals
//! Never   has a token, or bytes of an object
//!
//! Invariants
//!  (1) If several clients create an object with the same name, one succeeds: the transaction decides.
//!  (2) A publication is admitted only with the number after the last one of its vault, and the last number never decreases.
//!  (3) The usage of an account is the sum of its objects. Whenever it creates an object, the usage stays within its quota.

pub(crate) mod chains;
mod schema;
mod survey;

use std::path::Path;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, TransactionBehavior, params};
use strongroom_remote::ObjectName;
use strongroom_remote::protocol::{PAGE_NAMES_MAX, Page, PageObject, Refusal};

use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::header_chain::HeaderChain;
use crate::inbox_rows;
use crate::limits::{ACCOUNTS_MAX, DATABASE_BUSY, TURN_TRIES, VAULTS_MAX};
use crate::named::Named;
use crate::rights::{Asker, Deed, Kind};
use crate::token::{TokenHash, fill};

pub(crate) use survey::{ListedObject, Totals};

/// The database, in the folder of the server.
pub(crate) const DATABASE: &str = "server.db";

/// The bits of an account's id, which is random.
const ACCOUNT_IDS: i64 = (1 << 62) - 1;

/// What an account may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all objects.
    pub bytes: u64,
    /// Objects.
    pub objects: u64,
}

impl Default for Quota {
    /// No limit.
    fn default() -> Self {
        Self {
            bytes: i64::MAX as u64,
            objects: i64::MAX as u64,
        }
    }
}

/// Whether an account may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Active,
    /// Every request of it is refused.
    Suspended,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub(crate) id: i64,
    /// What it is called.
    pub name: String,
    /// Whether it may be used.
    pub standing: Standing,
    /// What it uses.
    pub used: Quota,
    /// What it may use.
    pub quota: Quota,
}

/// An object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) file: FileId,
    pub(crate) len: u64,
    pub(crate) created_s: u64,
}

/// A vault of an account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VaultKey {
    pub(crate) account: i64,
    pub(crate) name: String,
}

/// The database.
#[derive(Debug)]
pub(crate) struct Ledger {
    // Closed first: only the writer can end the log of the database.
    reader: Mutex<Connection>,
    writer: Mutex<Connection>,
}

impl Ledger {
    /// The database at `path`, which is made if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut writer = Connection::open(path)?;
        writer.busy_timeout(DATABASE_BUSY)?;
        writer.pragma_update(None, "journal_mode", "WAL")?;
        writer.pragma_update(None, "synchronous", "FULL")?;
        writer.pragma_update(None, "foreign_keys", "ON")?;
        schema::migrate(&mut writer)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader = Connection::open_with_flags(path, flags)?;
        reader.busy_timeout(DATABASE_BUSY)?;
        Ok(Self {
            reader: Mutex::new(reader),
            writer: Mutex::new(writer),
        })
    }

    /// Adds an account, with an id that no other ever had: an upload of a removed account that is under way finds no account.
    pub(crate) fn add_account(&self, name: &str, token: TokenHash, quota: Quota) -> Result<()> {
        let mut random = [0; 8];
        fill(&mut random).map_err(Error::io("asking the system for random bytes"))?;
        let id = i64::from_le_bytes(random) & ACCOUNT_IDS;
        let mut writer = self.writer.lock();
        let change = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let count: i64 = change.query_row("SELECT count(*) FROM account", [], |row| row.get(0))?;
        if count >= ACCOUNTS_MAX {
            return Err(Error::TooManyAccounts);
        }
        let added = change.execute(
            "INSERT INTO account (id, name, token, bytes_max, objects_max, created_s) VALUES (?1, ?2, ?3, ?4, ?5, unixepoch())
             ON CONFLICT (name) DO NOTHING",
            params![id, name, token.0, stored(quota.bytes), stored(quota.objects)],
        )?;
        if added == 0 {
            return Err(Error::AccountExists(name.to_owned()));
        }
        Ok(change.commit()?)
    }

    /// All accounts, in order of their names.
    pub(crate) fn accounts(&self) -> Result<Vec<Account>> {
        let reader = self.reader.lock();
        let mut query = reader.prepare_cached(&format!("{ACCOUNT} ORDER BY name"))?;
        let rows = query.query_map([], account)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub(crate) fn account(&self, name: &str) -> Result<Account> {
        let reader = self.reader.lock();
        let mut query = reader.prepare_cached(&format!("{ACCOUNT} WHERE name = ?1"))?;
        let found = query.query_row([name], account).optional()?;
        found.ok_or_else(|| Error::UnknownAccount(name.to_owned()))
    }

    /// The account whose token has that hash.
    pub(crate) fn account_of(&self, token: TokenHash) -> Result<Option<Account>> {
        let reader = self.reader.lock();
        let mut query = reader.prepare_cached(&format!("{ACCOUNT} WHERE token = ?1"))?;
        Ok(query.query_row([token.0], account).optional()?)
    }

    /// The vault of that name of that account, and whether the account may be used, if the vault has that address of an inbox.
    pub(crate) fn inbox(
        &self,
        account: &str,
        vault: &str,
        token: TokenHash,
    ) -> Result<Option<(VaultKey, Standing)>> {
        let reader = self.reader.lock();
        let found = inbox_rows::account_of(&reader, (account, vault), token)?;
        Ok(found.map(|(account, is_suspended)| {
            let name = vault.to_owned();
            let standing = match is_suspended {
                true => Standing::Suspended,
                false => Standing::Active,
            };
            (VaultKey { account, name }, standing)
        }))
    }

    pub(crate) fn set_standing(&self, name: &str, standing: Standing) -> Result<()> {
        let suspended = standing == Standing::Suspended;
        let change = "UPDATE account SET suspended = ?2 WHERE name = ?1";
        self.change_account(name, change, params![name, suspended])
    }

    pub(crate) fn set_quota(&self, name: &str, quota: Quota) -> Result<()> {
        let change = "UPDATE account SET bytes_max = ?2, objects_max = ?3 WHERE name = ?1";
        let values = params![name, stored(quota.bytes), stored(quota.objects)];
        self.change_account(name, change, values)
    }

    pub(crate) fn set_token(&self, name: &str, token: TokenHash) -> Result<()> {
        let change = "UPDATE account SET token = ?2 WHERE name = ?1";
        self.change_account(name, change, params![name, token.0])
    }

    fn change_account(
        &self,
        name: &str,
        change: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<()> {
        match self.writer.lock().execute(change, values)? {
            0 => Err(Error::UnknownAccount(name.to_owned())),
            _ => Ok(()),
        }
    }

    /// Removes at most `count` objects of an account; gives the files that had their bytes. `moved` is called before that is so, with the
    /// time of the oldest of them, too.
    ///
    /// # Errors
    /// Those of `moved`.
    pub(crate) fn remove_some(
        &self,
        account: i64,
        count: usize,
        moved: impl FnOnce(&[FileId], u64) -> Result<()>,
    ) -> Result<Vec<FileId>> {
        let mut writer = self.writer.lock();
        let change = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let removed: Vec<(FileId, u64, u64)> = {
            let mut removal = change.prepare_cached(
                "DELETE FROM object WHERE (vault, name) IN (
                     SELECT object.vault, object.name FROM vault JOIN object ON object.vault = vault.id
                     WHERE vault.account = ?1 LIMIT ?2
                 ) RETURNING file, len, created_s",
            )?;
            let rows = removal.query_map(params![account, count as i64], |row| {
                Ok((row.get(0)?, number(row, 1)?, number(row, 2)?))
            })?;
            rows.collect::<rusqlite::Result<_>>()?
        };
        let len = removed.iter().map(|(_, len, _)| len).sum();
        let oldest_s = removed.iter().map(|(.., created_s)| *created_s).min();
        change.execute(
            "UPDATE account SET bytes = bytes - ?2, objects = objects - ?3 WHERE id = ?1",
            params![account, stored(len), removed.len() as i64],
        )?;
        let files: Vec<FileId> = removed.into_iter().map(|(file, ..)| file).collect();
        moved(&files, oldest_s.unwrap_or(0))?;
        change.commit()?;
        Ok(files)
    }

    /// Removes an account that has no object left.
    pub(crate) fn remove_account(&self, account: i64) -> Result<()> {
        let mut writer = self.writer.lock();
        let change = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        chains::forget(&change, account)?;
        change.execute("DELETE FROM vault WHERE account = ?1", [account])?;
        change.execute("DELETE FROM account WHERE id = ?1", [account])?;
        Ok(change.commit()?)
    }

    /// Runs `during` while no change of the database is under way. A server that always changes it leaves few gaps, so this waits longer
    /// than a change.
    ///
    /// # Errors
    /// Those of `during`.
    pub(crate) fn between_changes<T>(&self, during: impl FnOnce() -> Result<T>) -> Result<T> {
        let writer = self.writer.lock();
        let mut tries = 0;
        while let Err(error) = writer.execute_batch("BEGIN IMMEDIATE") {
            tries += 1;
            let is_busy = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
            if !is_busy || tries == TURN_TRIES {
                return Err(error.into());
            }
        }
        let done = during();
        // Nothing was changed.
        writer.execute_batch("ROLLBACK")?;
        done
    }

    /// Whether an object has its bytes in that file.
    pub(crate) fn has_file(&self, file: FileId) -> Result<bool> {
        let reader = self.reader.lock();
        let mut query = reader.prepare_cached("SELECT 1 FROM object WHERE file = ?1")?;
        Ok(query.exists([file])?)
    }

    pub(crate) fn find(&self, vault: &VaultKey, name: &str) -> Result<Option<Found>> {
        let reader = self.reader.lock();
        let mut query = reader.prepare_cached(
            "SELECT object.file, object.len, object.created_s FROM vault JOIN object ON object.vault = vault.id
             WHERE vault.account = ?1 AND vault.name = ?2 AND object.name = ?3",
        )?;
        let found = query.query_row(params![vault.account, vault.name, name], |row| {
            Ok(Found {
                file: row.get(0)?,
                len: number(row, 1)?,
                created_s: number(row, 2)?,
            })
        });
        Ok(found.optional()?)
    }

    /// The number of the newest publication; 0 before the first.
    pub(crate) fn last(&self, vault: &VaultKey) -> Result<u64> {
        let reader = self.reader.lock();
        let mut query =
            reader.prepare_cached("SELECT last FROM vault WHERE account = ?1 AND name = ?2")?;
        let last = query.query_row(params![vault.account, vault.name], |row| number(row, 0));
        Ok(last.optional()?.unwrap_or(0))
    }

    /// Objects of `kind` with names behind `after`, in order.
    pub(crate) fn page(&self, vault: &VaultKey, kind: &str, after: &str) -> Result<Page> {
        let reader = self.reader.lock();
        let mut query = reader.prepare_cached(
            "SELECT object.name, object.len, object.created_s FROM vault JOIN object ON object.vault = vault.id
             WHERE vault.account = ?1 AND vault.name = ?2 AND object.name > ?3 AND object.name < ?4
             ORDER BY object.name LIMIT ?5",
        )?;
        let (first, end) = (format!("{kind}/{after}"), format!("{kind}0"));
        let values = params![
            vault.account,
            vault.name,
            first,
            end,
            PAGE_NAMES_MAX as i64 + 1
        ];
        let rows = query.query_map(values, |row| {
            let name: String = row.get(0)?;
            Ok(PageObject {
                name: name[kind.len() + 1..].to_owned(),
                len: number(row, 1)?,
                created_s: number(row, 2)?,
            })
        })?;
        let mut objects: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
        let more = objects.len() > PAGE_NAMES_MAX;
        objects.truncate(PAGE_NAMES_MAX);
        Ok(Page { objects, more })
    }

    /// Whether an object of that length could be added now.
    ///
    /// # Errors
    /// `Refused`, as `add`.
    pub(crate) fn may_add(
        &self,
        (vault, asker): (&VaultKey, &Asker),
        name: &ObjectName,
        len: u64,
    ) -> Result<()> {
        let mut reader = self.reader.lock();
        let view = reader.transaction()?;
        may_add(&view, (vault, asker), name, len).map(drop)
    }

    /// Adds an object, whose bytes are in `file`; gives the number of the newest publication of the vault then. `header`: its chain, if it is
    /// a header of a vault that is followed.
    ///
    /// # Errors
    /// `Uncertain`: it may have been added. After any other, as `Refused`, nothing has changed.
    pub(crate) fn add(
        &self,
        (vault, asker): (&VaultKey, &Asker),
        name: &ObjectName,
        (file, len): (FileId, u64),
        header: Option<&HeaderChain>,
    ) -> Result<u64> {
        let mut writer = self.writer.lock();
        let change = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut state = may_add(&change, (vault, asker), name, len)?; // (1) (2) (3)
        let id = match state.vault {
            Some(id) => id,
            None => {
                let vaults: i64 = change.query_row(
                    "SELECT count(*) FROM vault WHERE account = ?1",
                    [vault.account],
                    |row| row.get(0),
                )?;
                if vaults >= VAULTS_MAX {
                    return Err(Refusal::VaultsUsed.into());
                }
                change.execute(
                    "INSERT INTO vault (account, name) VALUES (?1, ?2)",
                    params![vault.account, vault.name],
                )?;
                change.last_insert_rowid()
            }
        };
        change.execute(
            "INSERT INTO object (vault, name, file, len, created_s) VALUES (?1, ?2, ?3, ?4, unixepoch())",
            params![id, name.as_str(), file, stored(len)],
        )?;
        change.execute(
            "UPDATE account SET bytes = bytes + ?2, objects = objects + 1 WHERE id = ?1",
            params![vault.account, stored(len)],
        )?;
        if name.split().0 == Some("headers") {
            chains::admit(&change, id, name, header)?;
        }
        if let Named::Publication(number) = Named::of(name) {
            change.execute(
                "UPDATE vault SET last = ?2 WHERE id = ?1",
                params![id, stored(number)],
            )?;
            state.last = number;
        }
        change.commit().map_err(Error::Uncertain)?;
        Ok(state.last)
    }

    /// Removes an object; gives the file that had its bytes, if there was one. `moved` is called before that is so, with the time of the
    /// object, too.
    ///
    /// # Errors
    /// `Refused` for the newest publication, and for who may not; those of `moved`.
    pub(crate) fn remove(
        &self,
        (vault, asker): (&VaultKey, &Asker),
        name: &ObjectName,
        moved: impl FnOnce(FileId, u64) -> Result<()>,
    ) -> Result<Option<FileId>> {
        let mut writer = self.writer.lock();
        let change = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        chains::check(&change, (vault, asker), Deed::Remove(Kind::of(name)))?;
        let row = change
            .query_row(
                "SELECT vault.id, vault.last, object.file, object.len, object.created_s FROM vault JOIN object ON object.vault = vault.id
                 WHERE vault.account = ?1 AND vault.name = ?2 AND object.name = ?3",
                params![vault.account, vault.name, name.as_str()],
                |row| {
                    let (file, len, created_s) = (row.get(2)?, number(row, 3)?, number(row, 4)?);
                    Ok((row.get::<_, i64>(0)?, number(row, 1)?, file, len, created_s))
                },
            )
            .optional()?;
        let Some((id, last, file, len, created_s)) = row else {
            return Ok(None);
        };
        if Named::of(name) == Named::Publication(last) {
            return Err(Refusal::NewestStays.into());
        }
        change.execute(
            "DELETE FROM object WHERE vault = ?1 AND name = ?2",
            params![id, name.as_str()],
        )?;
        change.execute(
            "UPDATE account SET bytes = bytes - ?2, objects = objects - 1 WHERE id = ?1",
            params![vault.account, stored(len)],
        )?;
        moved(file, created_s)?;
        change.commit()?;
        Ok(Some(file))
    }
}

/// What an addition finds.
struct State {
    vault: Option<i64>,
    last: u64,
}

fn may_add(
    view: &rusqlite::Transaction<'_>,
    (vault, asker): (&VaultKey, &Asker),
    name: &ObjectName,
    len: u64,
) -> Result<State> {
    let mut query = view.prepare_cached(&format!("{ACCOUNT} WHERE id = ?1"))?;
    let found = query.query_row([vault.account], account).optional()?;
    let account = found.ok_or(Refusal::WrongToken)?;
    if account.standing == Standing::Suspended {
        return Err(Refusal::Suspended.into());
    }
    chains::check(view, (vault, asker), Deed::Create(Kind::of(name), len))?;
    let mut query =
        view.prepare_cached("SELECT id, last FROM vault WHERE account = ?1 AND name = ?2")?;
    let row = query.query_row(params![vault.account, vault.name], |row| {
        Ok((row.get::<_, i64>(0)?, number(row, 1)?))
    });
    let row = row.optional()?;
    let (id, last) = row.map_or((None, 0), |(id, last)| (Some(id), last));
    if let Some(id) = id {
        let mut query =
            view.prepare_cached("SELECT 1 FROM object WHERE vault = ?1 AND name = ?2")?;
        if query.exists(params![id, name.as_str()])? {
            return Err(Refusal::AlreadyThere.into());
        }
    }
    inbox_rows::admit(view, id, asker, (name, len))?;
    match Named::of(name) {
        Named::NoPublication => return Err(Refusal::Name.into()),
        Named::Publication(number) if number <= last => return Err(Refusal::AlreadyThere.into()),
        Named::Publication(number) if number > last + 1 => return Err(Refusal::OutOfOrder.into()),
        _ => {}
    }
    if account.used.objects >= account.quota.objects {
        return Err(Refusal::ObjectsUsed.into());
    }
    if account.used.bytes.saturating_add(len) > account.quota.bytes {
        return Err(Refusal::BytesUsed.into());
    }
    Ok(State { vault: id, last })
}

const ACCOUNT: &str =
    "SELECT id, name, suspended, bytes, objects, bytes_max, objects_max FROM account";

fn account(row: &Row<'_>) -> rusqlite::Result<Account> {
    let quota = |bytes, objects| -> rusqlite::Result<Quota> {
        Ok(Quota {
            bytes: number(row, bytes)?,
            objects: number(row, objects)?,
        })
    };
    Ok(Account {
        id: row.get(0)?,
        name: row.get(1)?,
        standing: match row.get(2)? {
            true => Standing::Suspended,
            false => Standing::Active,
        },
        used: quota(3, 4)?,
        quota: quota(5, 6)?,
    })
}

/// A number that is never negative here.
fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// As SQLite has numbers: what is beyond is as good as without a limit.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

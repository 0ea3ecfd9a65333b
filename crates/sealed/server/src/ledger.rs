//! The database of a server: accounts, vaults, the list of objects, and the order of publications.
//!
//! Takes   names, quotas, hashes of tokens; names, lengths, times and file ids of objects; numbers of publications
//! Gives   the stored entries; refusals
//! Never   has a token, or bytes of an object
//!
//! The same statements serve SQLite and PostgreSQL (`database.rs`).
//!
//! Invariants
//!  (1) If several clients create an object with the same name, one succeeds: the transaction decides.
//!  (2) A publication is admitted only with the number after the last one of its vault, and the last number never decreases.
//!  (3) The usage of an account is the sum of its objects. Whenever it creates an object, the usage stays within its quota.
//!  (4) Two changes of one account never overlap: one has ended before the other reads anything. Each begins with the row of the
//!      account, and locks it if the database can have two changes at once.
//!  (5) An object that an account keeps is not removed before its days are over, whoever asks (`ledger/keeping.rs`).

pub(crate) mod chains;
mod keeping;
pub(crate) mod passes;
mod schema;
pub(crate) mod shared;
mod survey;

use std::path::Path;
use std::sync::Arc;

use strongroom_remote::ObjectName;
use strongroom_remote::protocol::{PAGE_NAMES_MAX, Page, PageObject, Refusal};

use crate::database::{Database, Row, Value, View, values};
use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::header_chain::HeaderChain;
use crate::inbox_rows;
use crate::ledger::keeping::Kept;
use crate::limits::{ACCOUNTS_MAX, VAULTS_MAX};
use crate::named::Named;
use crate::rights::{Asker, Deed, Kind};
use crate::token::{TokenHash, fill};

pub(crate) use survey::{ListedObject, Totals};

/// The database, in the folder of the server.
pub(crate) const DATABASE: &str = "server.db";

/// What instances are notified by that share a database, and listen.
pub(crate) const CHANNEL: &str = "strongroom";

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
    /// For how many days it keeps what clients ask to remove; 0 if it does not.
    pub keep_days: u64,
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

/// What came of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    /// There is no such object.
    Nothing,
    /// It is gone; this file had its bytes.
    File(FileId),
    /// Its account keeps it for now.
    Kept,
}

/// The database.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) database: Arc<Database>,
}

impl Ledger {
    /// The database at `path`, which is made if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let database = Arc::new(Database::sqlite(path, schema::migrate)?);
        Ok(Self { database })
    }

    /// A database of PostgreSQL, which gets its tables if it has none. Of several instances that start at once one makes them.
    ///
    /// # Errors
    /// `ForeignDatabase`, `NewerSchema`.
    pub(crate) fn shared(database: Arc<Database>) -> Result<Self> {
        schema::migrate_shared(&database)?;
        Ok(Self { database })
    }

    /// Adds an account, with an id that no other ever had: an upload of a removed account that is under way finds no account.
    pub(crate) fn add_account(&self, name: &str, token: TokenHash, quota: Quota) -> Result<()> {
        let mut random = [0; 8];
        fill(&mut random).map_err(Error::io("asking the system for random bytes"))?;
        let id = i64::from_le_bytes(random) & ACCOUNT_IDS;
        self.database.change(|change| {
            let count: i64 = change.value("SELECT count(*) FROM account", values![])?;
            if count >= ACCOUNTS_MAX {
                return Err(Error::TooManyAccounts);
            }
            let added = change.execute(
                "INSERT INTO account (id, name, token, bytes_max, objects_max, created_s) VALUES (?1, ?2, ?3, ?4, ?5, unixepoch())
                 ON CONFLICT (name) DO NOTHING",
                values![id, name, &token.0, quota.bytes, quota.objects],
            )?;
            match added {
                0 => Err(Error::AccountExists(name.to_owned())),
                _ => Ok(()),
            }
        })
    }

    /// All accounts, in order of their names.
    pub(crate) fn accounts(&self) -> Result<Vec<Account>> {
        let sql = format!("{ACCOUNT} ORDER BY name");
        self.database
            .read(|view| view.rows(&sql, values![], account))
    }

    pub(crate) fn account(&self, name: &str) -> Result<Account> {
        let sql = format!("{ACCOUNT} WHERE name = ?1");
        let found = self
            .database
            .read(|view| view.row(&sql, values![name], account))?;
        found.ok_or_else(|| Error::UnknownAccount(name.to_owned()))
    }

    /// The account whose token has that hash.
    pub(crate) fn account_of(&self, token: TokenHash) -> Result<Option<Account>> {
        let sql = format!("{ACCOUNT} WHERE token = ?1");
        self.database
            .read(|view| view.row(&sql, values![&token.0], account))
    }

    /// The vault of that name of that account, and whether the account may be used, if the vault has that address of an inbox.
    pub(crate) fn inbox(
        &self,
        account: &str,
        vault: &str,
        token: TokenHash,
    ) -> Result<Option<(VaultKey, Standing)>> {
        let found = self
            .database
            .read(|view| inbox_rows::account_of(view, (account, vault), token))?;
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
        self.change_account(name, change, values![name, suspended])
    }

    pub(crate) fn set_quota(&self, name: &str, quota: Quota) -> Result<()> {
        let change = "UPDATE account SET bytes_max = ?2, objects_max = ?3 WHERE name = ?1";
        let values = values![name, quota.bytes, quota.objects];
        self.change_account(name, change, values)
    }

    pub(crate) fn set_token(&self, name: &str, token: TokenHash) -> Result<()> {
        let change = "UPDATE account SET token = ?2 WHERE name = ?1";
        self.change_account(name, change, values![name, &token.0])
    }

    /// Keeps from now on for so many days what clients ask to remove. The days of what they have asked for begin again.
    pub(crate) fn set_keep_days(&self, name: &str, days: u32) -> Result<()> {
        self.database.change(|change| {
            let sql = "SELECT id FROM account WHERE name = ?1";
            let found: Option<i64> = change.row(sql, values![name], |row| row.get(0))?;
            let id = found.ok_or_else(|| Error::UnknownAccount(name.to_owned()))?;
            lock(change, id)?;
            let sql = "UPDATE account SET keep_days = ?2 WHERE id = ?1";
            change.execute(sql, values![id, u64::from(days)])?;
            // Without days what was noted stays: the order of publications is kept by it.
            if days > 0 {
                change.execute(
                    "UPDATE object SET asked_s = 0 WHERE asked_s > 0 AND vault IN (SELECT id FROM vault WHERE account = ?1)",
                    values![id],
                )?;
            }
            Ok(())
        })
    }

    fn change_account(&self, name: &str, change: &str, values: &[Value<'_>]) -> Result<()> {
        self.database
            .change(|view| match view.execute(change, values)? {
                0 => Err(Error::UnknownAccount(name.to_owned())),
                _ => Ok(()),
            })
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
        moved: impl FnOnce(&View<'_>, &[FileId], u64) -> Result<()>,
    ) -> Result<Vec<FileId>> {
        self.database.change(|change| {
            lock(change, account)?;
            let removed: Vec<(FileId, u64, u64)> = change.rows(
                "DELETE FROM object WHERE (vault, name) IN (
                     SELECT object.vault, object.name FROM vault JOIN object ON object.vault = vault.id
                     WHERE vault.account = ?1 LIMIT ?2
                 ) RETURNING file, len, created_s",
                values![account, count],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )?;
            let len: u64 = removed.iter().map(|(_, len, _)| len).sum();
            let oldest_s = removed.iter().map(|(.., created_s)| *created_s).min();
            change.execute(
                "UPDATE account SET bytes = bytes - ?2, objects = objects - ?3 WHERE id = ?1",
                values![account, len, removed.len()],
            )?;
            let files: Vec<FileId> = removed.into_iter().map(|(file, ..)| file).collect();
            moved(change, &files, oldest_s.unwrap_or(0))?;
            Ok(files)
        })
    }

    /// Removes an account that has no object left.
    pub(crate) fn remove_account(&self, account: i64) -> Result<()> {
        self.database.change(|change| {
            lock(change, account)?;
            chains::forget(change, account)?;
            change.execute("DELETE FROM vault WHERE account = ?1", values![account])?;
            change.execute("DELETE FROM account WHERE id = ?1", values![account])?;
            Ok(())
        })
    }

    /// Whether an object has its bytes in that file.
    pub(crate) fn has_file(&self, file: FileId) -> Result<bool> {
        let sql = "SELECT 1 FROM object WHERE file = ?1";
        self.database.read(|view| view.exists(sql, values![&file]))
    }

    pub(crate) fn find(&self, vault: &VaultKey, name: &str) -> Result<Option<Found>> {
        self.database.read(|view| {
            view.row(
                "SELECT object.file, object.len, object.created_s FROM vault JOIN object ON object.vault = vault.id
                 WHERE vault.account = ?1 AND vault.name = ?2 AND object.name = ?3",
                values![vault.account, &vault.name, name],
                |row| {
                    Ok(Found {
                        file: row.get(0)?,
                        len: row.get(1)?,
                        created_s: row.get(2)?,
                    })
                },
            )
        })
    }

    /// The number of the newest publication; 0 before the first.
    pub(crate) fn last(&self, vault: &VaultKey) -> Result<u64> {
        let sql = "SELECT last FROM vault WHERE account = ?1 AND name = ?2";
        let values = values![vault.account, &vault.name];
        let last = (self.database).read(|view| view.row(sql, values, |row| row.get(0)))?;
        Ok(last.unwrap_or(0))
    }

    /// Objects of `kind` with names behind `after`, in order.
    pub(crate) fn page(&self, vault: &VaultKey, kind: &str, after: &str) -> Result<Page> {
        let (first, end) = (format!("{kind}/{after}"), format!("{kind}0"));
        let mut objects: Vec<_> = self.database.read(|view| {
            view.rows(
                "SELECT object.name, object.len, object.created_s, object.asked_s, (SELECT keep_days FROM account WHERE account.id = ?1)
                 FROM vault JOIN object ON object.vault = vault.id
                 WHERE vault.account = ?1 AND vault.name = ?2 AND object.name > ?3 AND object.name < ?4
                 ORDER BY object.name LIMIT ?5",
                values![vault.account, &vault.name, &first, &end, PAGE_NAMES_MAX + 1],
                |row| {
                    let name: String = row.get(0)?;
                    Ok(PageObject {
                        name: name[kind.len() + 1..].to_owned(),
                        len: row.get(1)?,
                        created_s: row.get(2)?,
                        kept_until_s: keeping::until_s(row.get(3)?, row.get(4)?),
                    })
                },
            )
        })?;
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
        self.database
            .read(|view| may_add(view, (vault, asker), name, len).map(drop))
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
        self.database.change(|change| {
            lock(change, vault.account)?;
            let mut state = may_add(change, (vault, asker), name, len)?; // (1) (2) (3)
            let id = match state.vault {
                Some(id) => id,
                None => new_vault(change, vault)?,
            };
            change.execute(
                "INSERT INTO object (vault, name, file, len, created_s) VALUES (?1, ?2, ?3, ?4, unixepoch())",
                values![id, name.as_str(), &file, len],
            )?;
            arrived(change, file)?;
            inbox_rows::count(change, id, asker, name)?;
            change.execute(
                "UPDATE account SET bytes = bytes + ?2, objects = objects + 1 WHERE id = ?1",
                values![vault.account, len],
            )?;
            if name.split().0 == Some("headers") {
                chains::admit(change, id, name, header)?;
            }
            if let Named::Publication(number) = Named::of(name) {
                change.execute("UPDATE vault SET last = ?2 WHERE id = ?1", values![id, number])?;
                notify(change, vault, number)?;
                state.last = number;
            }
            Ok(state.last)
        })
    }

    /// Removes an object, unless its account keeps it for now. `moved` is called before that is so, with the file that has its bytes and the
    /// time of the object. (5)
    ///
    /// # Errors
    /// `Refused` for the newest publication, and for who may not; those of `moved`.
    pub(crate) fn remove(
        &self,
        (vault, asker): (&VaultKey, &Asker),
        name: &ObjectName,
        moved: impl FnOnce(&View<'_>, FileId, u64) -> Result<()>,
    ) -> Result<Removed> {
        self.database.change(|change| {
            lock(change, vault.account)?;
            chains::check(change, (vault, asker), Deed::Remove(Kind::of(name)))?;
            let row: Option<(i64, u64, FileId, u64, Kept)> = change.row(
                "SELECT vault.id, vault.last, object.file, object.len, object.created_s, object.asked_s,
                     (SELECT keep_days FROM account WHERE account.id = ?1)
                 FROM vault JOIN object ON object.vault = vault.id
                 WHERE vault.account = ?1 AND vault.name = ?2 AND object.name = ?3",
                values![vault.account, &vault.name, name.as_str()],
                |row| {
                    let kept = Kept {
                        created_s: row.get(4)?,
                        asked_s: row.get(5)?,
                        days: row.get(6)?,
                    };
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, kept))
                },
            )?;
            let Some((id, last, file, len, kept)) = row else {
                return Ok(Removed::Nothing);
            };
            if Named::of(name) == Named::Publication(last) {
                return Err(Refusal::NewestStays.into());
            }
            if keeping::stays(change, (id, name), kept)? {
                return Ok(Removed::Kept);
            }
            change.execute(
                "DELETE FROM object WHERE vault = ?1 AND name = ?2",
                values![id, name.as_str()],
            )?;
            inbox_rows::forget(change, id, name)?;
            change.execute(
                "UPDATE account SET bytes = bytes - ?2, objects = objects - 1 WHERE id = ?1",
                values![vault.account, len],
            )?;
            moved(change, file, kept.created_s)?;
            Ok(Removed::File(file))
        })
    }
}

/// Waits until no other change of the account is under way. (4)
fn lock(change: &View<'_>, account: i64) -> Result<()> {
    if change.is_shared() {
        // What is read from here on is what the change before has left.
        let sql = "SELECT 1 FROM account WHERE id = ?1 FOR UPDATE";
        change.exists(sql, values![account])?;
    }
    Ok(())
}

/// The object of that file is there: so nothing takes it any more.
///
/// # Errors
/// `Busy` if it was taken for an upload that was cut off.
fn arrived(change: &View<'_>, file: FileId) -> Result<()> {
    if !change.is_shared() {
        return Ok(());
    }
    let sql = "DELETE FROM coming WHERE file = ?1";
    match change.execute(sql, values![&file])? {
        1 => Ok(()),
        _ => Err(Refusal::Busy.into()),
    }
}

/// Notifies who follows the vault, at whichever instance, once the change is made.
fn notify(change: &View<'_>, vault: &VaultKey, number: u64) -> Result<()> {
    if !change.is_shared() {
        return Ok(());
    }
    let text = format!("{} {} {number}", vault.account, vault.name);
    change.exists("SELECT pg_notify(?1, ?2)", values![CHANNEL, &text])?;
    Ok(())
}

/// A vault that is made with its first object.
fn new_vault(change: &View<'_>, vault: &VaultKey) -> Result<i64> {
    let sql = "SELECT count(*) FROM vault WHERE account = ?1";
    let vaults: i64 = change.value(sql, values![vault.account])?;
    if vaults >= VAULTS_MAX {
        return Err(Refusal::VaultsUsed.into());
    }
    change.value(
        "INSERT INTO vault (account, name) VALUES (?1, ?2) RETURNING id",
        values![vault.account, &vault.name],
    )
}

/// What an addition finds.
struct State {
    vault: Option<i64>,
    last: u64,
}

fn may_add(
    view: &View<'_>,
    (vault, asker): (&VaultKey, &Asker),
    name: &ObjectName,
    len: u64,
) -> Result<State> {
    let sql = format!("{ACCOUNT} WHERE id = ?1");
    let found = view.row(&sql, values![vault.account], account)?;
    let account = found.ok_or(Refusal::WrongToken)?;
    if account.standing == Standing::Suspended {
        return Err(Refusal::Suspended.into());
    }
    chains::check(view, (vault, asker), Deed::Create(Kind::of(name), len))?;
    let row: Option<(i64, u64)> = view.row(
        "SELECT id, last FROM vault WHERE account = ?1 AND name = ?2",
        values![vault.account, &vault.name],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let (id, last) = row.map_or((None, 0), |(id, last)| (Some(id), last));
    if let Some(id) = id {
        let sql = "SELECT 1 FROM object WHERE vault = ?1 AND name = ?2";
        if view.exists(sql, values![id, name.as_str()])? {
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
    "SELECT id, name, suspended, bytes, objects, bytes_max, objects_max, keep_days FROM account";

fn account(row: &Row<'_>) -> Result<Account> {
    let quota = |bytes, objects| -> Result<Quota> {
        Ok(Quota {
            bytes: row.get(bytes)?,
            objects: row.get(objects)?,
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
        keep_days: row.get(7)?,
    })
}

//! Turns a database file and its key into a connection that leaks no plaintext.
//!
//! Takes   a URI that names the VFS of this crate, and the raw key
//! Gives   a connection that has read its first page
//! Never   treats the key as a passphrase, writes a page before its commit, or puts a temporary table on the disk
//! Spec    spec/4-metadata.md, 4.2
//!
//! Invariants
//!  (1) The key text has exactly `KEY_DIGITS` digits: SQLCipher would treat any other length as a passphrase.  [4.2.2]
//!  (2) A statement is prepared once per connection, whatever values are bound to it.

use std::time::Duration;

use memmap2::{Advice, MmapMut};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use zeroize::{Zeroize as _, Zeroizing};

use crate::ending::{self, Running};
use crate::error::{Error, Result};
use crate::limits::{BUSY_TIMEOUT_MS, KEY_BYTES, ROW_BYTES_MAX, STATEMENTS_CACHED};
use crate::vfs;

/// Hex digits of a raw key.
const KEY_DIGITS: usize = KEY_BYTES * 2;

/// The format of SQLCipher 4, said aloud so that a later default cannot change it. Temporary tables stay in
/// memory. Nothing spills: an uncommitted page is never written. Syncs of commits are ours; the ones that
/// order a checkpoint remain. A freed cell is overwritten where its page is written anyway.
const SETTINGS: &str = "
PRAGMA cipher_compatibility = 4;
PRAGMA temp_store = MEMORY;
PRAGMA cache_spill = OFF;
PRAGMA mmap_size = 0;
PRAGMA foreign_keys = OFF;
PRAGMA secure_delete = FAST;
PRAGMA wal_autocheckpoint = 0;
PRAGMA trusted_schema = OFF;
";

/// How a database file is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// As the owner.
    ReadWrite,
    /// For reading only; takes read locks.
    ReadOnly,
    /// On media that nobody can change: no locks, no shared index.
    Frozen,
}

/// The key of a database, in a page that reaches neither swap nor a memory image where the system grants that. Wiped when
/// dropped.
pub(crate) struct Key(Place);

enum Place {
    Page(MmapMut),
    Heap(Zeroizing<Vec<u8>>),
}

impl Key {
    pub(crate) fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        let Ok(mut page) = MmapMut::map_anon(KEY_BYTES) else {
            return Self(Place::Heap(Zeroizing::new(bytes.to_vec())));
        };
        // Refused where little memory may be locked; the key is needed all the same.
        let _ = page.lock();
        let _ = page.advise(Advice::DontDump);
        page.copy_from_slice(bytes);
        Self(Place::Page(page))
    }

    fn bytes(&self) -> &[u8] {
        match &self.0 {
            Place::Page(page) => page,
            Place::Heap(bytes) => bytes,
        }
    }

    /// The statement that gives SQLCipher the raw key.
    fn pragma(&self) -> Zeroizing<String> {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = Zeroizing::new(String::with_capacity(KEY_DIGITS + 32));
        text.push_str("PRAGMA key = \"x'");
        let before = text.len();
        for byte in self.bytes() {
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 15)]));
        }
        assert_eq!(
            text.len() - before,
            KEY_DIGITS,
            "(1) holds: two digits for each byte"
        );
        text.push_str("'\"");
        text
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        if let Place::Page(page) = &mut self.0 {
            page.zeroize();
        }
    }
}

/// Opens the database at `uri`.
///
/// # Errors
/// `Error::WrongKey` if the first page does not authenticate; the disk's.
pub(crate) fn connect(
    uri: &str,
    key: &Key,
    access: Access,
    cache_bytes: usize,
) -> Result<Connection> {
    let mode = match access {
        Access::ReadWrite => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Access::ReadOnly | Access::Frozen => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let flags = mode | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    ending::count_here();
    let _running = Running::begin()?;
    let connection = Connection::open_with_flags_and_vfs(uri, flags, vfs::NAME)?;
    connection.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, ROW_BYTES_MAX)?;
    // Else SQLite prepares a statement again, at ten times the cost of running it, whenever a value that a plan may depend on
    // is bound: that of every LIMIT.                                                                            (2)
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // SQLCipher would write to the standard error stream of whatever program this is.
    connection.execute_batch("PRAGMA cipher_log_level = NONE;")?;
    connection.execute_batch(&key.pragma())?;
    if access == Access::Frozen {
        // Before anything is read, so that the index of the log is kept in memory and not in a file.
        connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE;")?;
    }
    connection
        .execute_batch(SETTINGS)
        .map_err(first_page_error)?;
    connection
        .execute_batch(&format!("PRAGMA cache_size = -{};", cache_bytes / 1024))
        .map_err(first_page_error)?;
    connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        .map_err(first_page_error)?;
    if access == Access::ReadWrite {
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")?;
    }
    Ok(connection)
}

/// A first page that does not authenticate most likely means another key.
fn first_page_error(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Error::WrongKey,
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use crate::tables::sql::Statement;
    use crate::{Options, Store};

    /// Goal: (2). Method: every statement that has parameters runs three times, on other values each time, and SQLite says
    /// how often it prepared it again. What it says to values that fit no row does not matter.
    #[test]
    fn no_statement_is_prepared_anew_for_other_values() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            reserve_bytes: 0,
            ..Options::default()
        };
        let store = Store::create(folder.path(), &[1; 80], options).unwrap();
        let writer = store.lock();
        let connection = &writer.connection;
        let mut seen = 0;
        for statement in Statement::ALL {
            let mut prepared = connection.prepare(statement.text()).unwrap();
            if prepared.parameter_count() == 0 {
                continue;
            }
            let change = connection.unchecked_transaction().unwrap();
            for round in 1..=3 {
                for parameter in 1..=prepared.parameter_count() {
                    let value = round * 1000 + parameter as i64;
                    prepared.raw_bind_parameter(parameter, value).unwrap();
                }
                let _ = prepared.raw_query().next();
            }
            let again = prepared.get_status(StatementStatus::RePrepare);
            assert_eq!(again, 0, "{statement:?}");
            seen += 1;
            drop(prepared);
            change.rollback().unwrap();
        }
        assert!(seen > 50, "{seen} statements have parameters");
    }
}

//! The database of a server: SQLite in its folder, or PostgreSQL, which several instances share.
//!
//! Takes   statements in the SQL that both understand, with `?1`, `?2` and so on for values
//! Gives   rows; changes that are made whole or not at all
//! Never   waits for a database without bound, or shows its password
//!
//! Invariants
//!  (1) Two changes of one account never overlap: one has ended before the other reads anything. SQLite has one writer; with PostgreSQL
//!      each change first locks the row of the account (`ledger.rs`).

pub(crate) mod postgres;

use std::path::Path;

use bytes::BytesMut;
use parking_lot::Mutex;
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params_from_iter};
use tokio_postgres::types::{IsNull, Type, to_sql_checked};

use crate::database::postgres::{Postgres, Session};
use crate::error::{Error, Result};
use crate::limits::{DATABASE_BUSY, TURN_TRIES};

/// The database.
#[derive(Debug)]
pub(crate) enum Database {
    Sqlite(Box<Sqlite>),
    Postgres(Box<Postgres>),
}

/// A database in a file.
#[derive(Debug)]
pub(crate) struct Sqlite {
    // Closed first: only the writer can end the log of the database.
    reader: Mutex<Connection>,
    writer: Mutex<Connection>,
}

/// What statements are made in: a connection, or a change on it.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    Sqlite(&'a Connection),
    Postgres(&'a Session<'a>),
}

/// A value in a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Number(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// With PostgreSQL only.
    List(&'a [&'a [u8]]),
}

/// A row of an answer.
pub(crate) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

/// What a column can be read as.
pub(crate) trait Column: Sized {
    fn of(row: &Row<'_>, at: usize) -> Result<Self>;
}

/// The values of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::database::Value::from($value)),*] };
}
pub(crate) use values;

impl Database {
    /// The SQLite database at `path`, which is made if it is not there; `migrate` gives it its tables.
    pub(crate) fn sqlite(
        path: &Path,
        migrate: impl FnOnce(&mut Connection) -> Result<()>,
    ) -> Result<Self> {
        let mut writer = Connection::open(path)?;
        writer.busy_timeout(DATABASE_BUSY)?;
        writer.pragma_update(None, "journal_mode", "WAL")?;
        writer.pragma_update(None, "synchronous", "FULL")?;
        writer.pragma_update(None, "foreign_keys", "ON")?;
        migrate(&mut writer)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader = Connection::open_with_flags(path, flags)?;
        reader.busy_timeout(DATABASE_BUSY)?;
        Ok(Self::Sqlite(Box::new(Sqlite {
            reader: Mutex::new(reader),
            writer: Mutex::new(writer),
        })))
    }

    /// Looks at the database. Each statement stands alone; with PostgreSQL one that changes something is a change by itself.
    ///
    /// # Errors
    /// Those of `look`.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&View<'_>) -> Result<T>) -> Result<T> {
        match self {
            Self::Sqlite(own) => look(&View::Sqlite(&own.reader.lock())),
            Self::Postgres(own) => look(&View::Postgres(&own.session()?)),
        }
    }

    /// Makes a change, whole or not at all.
    ///
    /// # Errors
    /// Those of `change`: then nothing has changed. `Uncertain`: it may have been made.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&View<'_>) -> Result<T>) -> Result<T> {
        match self {
            Self::Sqlite(own) => {
                let mut writer = own.writer.lock();
                let begun = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let done = change(&View::Sqlite(&begun))?;
                begun
                    .commit()
                    .map_err(Error::from)
                    .map_err(Error::uncertain)?;
                Ok(done)
            }
            Self::Postgres(own) => {
                let session = own.session()?;
                session.begin()?;
                match change(&View::Postgres(&session)) {
                    Ok(done) => session.commit().map(|()| done).map_err(Error::uncertain),
                    Err(error) => {
                        // One that is away is not asked once more: the connection ends, and the change with it.
                        if !matches!(error, Error::DatabaseAway(_)) {
                            session.roll_back();
                        }
                        Err(error)
                    }
                }
            }
        }
    }

    /// Runs `during` while no change of a SQLite database is under way. A server that always changes it leaves few gaps, so this waits
    /// longer than a change.
    ///
    /// # Errors
    /// Those of `during`.
    pub(crate) fn between_changes<T>(&self, during: impl FnOnce() -> Result<T>) -> Result<T> {
        let Self::Sqlite(own) = self else {
            return during();
        };
        let writer = own.writer.lock();
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
}

impl View<'_> {
    /// Whether several instances share the database.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// All rows of an answer. A statement that changes something may answer, too.
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        of: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        match self {
            Self::Sqlite(connection) => {
                let mut query = connection.prepare_cached(sql)?;
                let mut rows = query.query(params_from_iter(values))?;
                let mut all = Vec::new();
                while let Some(row) = rows.next()? {
                    all.push(of(&Row::Sqlite(row))?);
                }
                Ok(all)
            }
            Self::Postgres(session) => {
                let rows = session.query(sql, values)?;
                rows.iter().map(|row| of(&Row::Postgres(row))).collect()
            }
        }
    }

    /// Statements without values, for which nobody waits twice.
    pub(crate) fn batch(&self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            Self::Postgres(session) => session.batch(sql),
        }
    }

    /// The first row of an answer; `None` if there is none.
    pub(crate) fn row<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        of: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.rows(sql, values, of)?.into_iter().next())
    }

    /// The first column of the one row of an answer that always has one.
    pub(crate) fn value<T: Column>(&self, sql: &str, values: &[Value<'_>]) -> Result<T> {
        let found = self.row(sql, values, |row| row.get(0))?;
        found.ok_or(Error::Unsound("an answer without a row"))
    }

    /// Whether an answer has a row.
    pub(crate) fn exists(&self, sql: &str, values: &[Value<'_>]) -> Result<bool> {
        Ok(self.row(sql, values, |_| Ok(()))?.is_some())
    }

    /// Changes rows; gives how many.
    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                Ok(statement.execute(params_from_iter(values))? as u64)
            }
            Self::Postgres(session) => session.execute(sql, values),
        }
    }
}

impl Row<'_> {
    /// The column at that index.
    ///
    /// # Errors
    /// `Unsound` if it is of another form.
    pub(crate) fn get<T: Column>(&self, at: usize) -> Result<T> {
        T::of(self, at)
    }
}

/// What both databases read themselves.
macro_rules! columns {
    ($($kind:ty),*) => {
        $(impl Column for $kind {
            fn of(row: &Row<'_>, at: usize) -> Result<Self> {
                match row {
                    Row::Sqlite(row) => row.get(at).map_err(of_another_form),
                    Row::Postgres(row) => row.try_get(at).map_err(of_another_form),
                }
            }
        })*
    };
}
columns!(i64, String, Vec<u8>);

fn of_another_form<E>(_: E) -> Error {
    Error::Unsound("a value of another form")
}

impl Column for u64 {
    /// A number that is never negative here.
    fn of(row: &Row<'_>, at: usize) -> Result<Self> {
        Self::try_from(row.get::<i64>(at)?).map_err(of_another_form)
    }
}

impl Column for bool {
    /// A number that is 0 or not; of PostgreSQL a truth, too.
    fn of(row: &Row<'_>, at: usize) -> Result<Self> {
        if let Row::Postgres(row) = row
            && let Ok(truth) = row.try_get(at)
        {
            return Ok(truth);
        }
        Ok(row.get::<i64>(at)? != 0)
    }
}

impl<const N: usize> Column for [u8; N] {
    fn of(row: &Row<'_>, at: usize) -> Result<Self> {
        Self::try_from(row.get::<Vec<u8>>(at)?).map_err(of_another_form)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Value<'_> {
    /// As databases have numbers: what is beyond is as good as without a limit.
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value<'_> {
    fn from(number: usize) -> Self {
        Self::from(number as u64)
    }
}

impl From<bool> for Value<'_> {
    fn from(truth: bool) -> Self {
        Self::Number(i64::from(truth))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Value<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a [&'a [u8]]> for Value<'a> {
    fn from(list: &'a [&'a [u8]]) -> Self {
        Self::List(list)
    }
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Number(number) => Ok(ToSqlOutput::from(*number)),
            Self::Text(text) => Ok(ToSqlOutput::from(*text)),
            Self::Bytes(bytes) => Ok(ToSqlOutput::from(*bytes)),
            Self::List(_) => Err(rusqlite::Error::ToSqlConversionFailure(
                "SQLite has no lists".into(),
            )),
        }
    }
}

impl tokio_postgres::types::ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        use tokio_postgres::types::ToSql;
        match self {
            Self::Number(number) => ToSql::to_sql(number, kind, out),
            Self::Text(text) => ToSql::to_sql(text, kind, out),
            Self::Bytes(bytes) => ToSql::to_sql(bytes, kind, out),
            Self::List(list) => ToSql::to_sql(list, kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::BYTEA, Type::BYTEA_ARRAY].contains(kind)
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn database(folder: &Path) -> Database {
        let made = |writer: &mut Connection| {
            writer.execute_batch("CREATE TABLE IF NOT EXISTS one (number INTEGER, name BLOB)")?;
            Ok(())
        };
        Database::sqlite(&folder.join("a.db"), made).unwrap()
    }

    #[test]
    fn a_change_is_made_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        let put = |number: u64| {
            database.change(|view| {
                view.execute(
                    "INSERT INTO one (number, name) VALUES (?1, ?2)",
                    values![number, b"name"],
                )?;
                match number > 1 {
                    true => Err(Error::Unsound("a test")),
                    false => Ok(()),
                }
            })
        };
        assert!(put(1).is_ok() && put(2).is_err());
        let all: Vec<(u64, [u8; 4])> = database
            .read(|view| {
                view.rows("SELECT number, name FROM one", values![], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
            })
            .unwrap();
        assert_eq!(all, [(1, *b"name")]);
    }

    #[test]
    fn a_value_of_another_form_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        let one = |sql: &str| database.read(|view| view.value::<u64>(sql, values![]));
        assert_eq!(one("SELECT 7").unwrap(), 7);
        for sql in ["SELECT -1", "SELECT 'a'", "SELECT NULL", "SELECT 1 WHERE 0"] {
            assert!(matches!(one(sql), Err(Error::Unsound(_))), "{sql}");
        }
        let short = database.read(|view| view.value::<[u8; 2]>("SELECT x'00'", values![]));
        assert!(matches!(short, Err(Error::Unsound(_))));
    }
}

//! SQLite in the directory: one row per transaction, each durable before the next begins.

use std::io;
use std::path::Path;

use rusqlite::Connection;

use crate::place::timed;
use crate::{Content, Figures, Place, Row, interrupt};

pub(super) const ROWS: &[Row] = &[Row::SqliteRollback, Row::SqliteWal];

pub(super) fn run(
    place: &Place<'_>,
    content: &mut Content,
    figures: &mut Figures,
) -> io::Result<()> {
    for (row, journal) in [(Row::SqliteRollback, "delete"), (Row::SqliteWal, "wal")] {
        if figures.want(&[row]) {
            let path = place.directory.join(format!("{journal}.db"));
            let rate = transactions(&path, journal, place.sizes.transactions, content);
            figures.add(row, rate.map_err(io::Error::other)?);
        }
    }
    Ok(())
}

/// Transactions a second.
fn transactions(
    path: &Path,
    journal: &str,
    count: usize,
    content: &mut Content,
) -> rusqlite::Result<f64> {
    let connection = Connection::open(path)?;
    // SQLite answers with the mode that it has; where a file system cannot do it, that is another.
    let mode: String =
        connection.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |row| {
            row.get(0)
        })?;
    if mode != journal {
        return Err(rusqlite::Error::InvalidParameterName(format!(
            "journal mode {mode}"
        )));
    }
    connection.execute_batch(
        "PRAGMA synchronous = FULL; CREATE TABLE event (id INTEGER PRIMARY KEY, text BLOB)",
    )?;
    let mut insert = connection.prepare("INSERT INTO event (text) VALUES (?1)")?;
    insert.execute([content.take(100)])?;
    let mut result = Ok(());
    let seconds = timed(|| {
        // An interrupted run drops what it has, so it does not matter that some are missing.
        let mut wanted = (0..count).take_while(|_| !interrupt::came());
        result = wanted.try_for_each(|_| insert.execute([content.take(100)]).map(drop));
        Ok(())
    });
    result?;
    Ok(count as f64 / seconds.expect("an insertion's failure is kept apart"))
}

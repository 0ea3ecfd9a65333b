//! Puts a database that was made anew in the place of the old one, so that a kill at any moment leaves one or the other.
//!
//! Takes   a vault folder whose lock is held
//! Gives   the new database in its place, the old one beside it under another name
//! Never   removes or overwrites an old database
//! Spec    spec/7-recovery.md, section 7.5
//!
//! Invariants
//!  (1) Until the folder of the new database is renamed, nothing of the old one was touched. From then on the new one is
//!      meant, and whoever opens the vault for writing finishes.
//!  (2) As long as the new database lies in its folder, what lies in its place is the old one.

use strongroom_folder::{Error as BelowError, Folder as Held};
use strongroom_metadata::{DATABASE_FILE, RESERVE_FILE};

use crate::folder::{Folder, below};
use crate::{Error, Result};

/// Where the new database is made.
const MAKING: &str = "recovering";
/// What that is renamed to, with the number under which the old database is kept.
const MADE: &str = "recovered-";
/// What an old database is renamed to, with that number.
const ASIDE: &str = "metadata.db.damaged-";

fn failed() -> impl FnOnce(BelowError) -> Error {
    below("putting the new database in the place of the old one")
}

/// Whether a folder of this module may have that name.
pub(crate) fn is_folder_of_ours(name: &str) -> bool {
    name == MAKING || number_of(name).is_some()
}

/// The number in the name of a folder that waits.
fn number_of(name: &str) -> Option<&str> {
    let number = name.strip_prefix(MADE)?;
    number.parse::<u32>().is_ok().then_some(number)
}

/// An empty folder for a new database; what an interrupted attempt left there goes.
pub(crate) fn begin(folder: &Folder) -> Result<Folder> {
    abandon(folder)?;
    let making = folder.inside(MAKING);
    making.make()?;
    Ok(making)
}

/// Removes a new database that is not to take the place of the old one.
pub(crate) fn abandon(folder: &Folder) -> Result<()> {
    let removed = folder.hold().and_then(|held| held.remove_tree(MAKING));
    removed.map(drop).map_err(failed())
}

/// Puts the database in `making`, which is closed, in its place. Gives the name under which the old one is kept.  (1)
pub(crate) fn commit(folder: &Folder, making: &Folder) -> Result<Option<String>> {
    making.sync()?;
    let mut number = 1;
    while folder.has(&format!("{ASIDE}{number}")) {
        number += 1;
    }
    let held = folder.hold().map_err(failed())?;
    let made = format!("{MADE}{number}");
    held.move_to(MAKING, &held, &made).map_err(failed())?;
    held.sync().map_err(failed())?;
    finish(folder)?;
    let aside = format!("{ASIDE}{number}");
    Ok(folder.has(&aside).then_some(aside))
}

/// Whether a new database waits to be put in its place.
pub(crate) fn is_pending(folder: &Folder) -> Result<bool> {
    Ok(pending(folder)?.is_some())
}

/// The folder that waits, and its number.
fn pending(folder: &Folder) -> Result<Option<(String, String)>> {
    let entries = folder.list("looking for a database that was made anew")?;
    let mut names = entries.into_iter().map(|entry| entry.name);
    Ok(names.find_map(|name| {
        let number = number_of(&name)?.to_owned();
        Some((name, number))
    }))
}

/// Finishes what `commit` began, if anything waits. Doing it twice does no harm.                              (2)
///
/// # Errors
/// `Odd` if what waits is no real folder, or its database no file: then nothing was touched.
pub(crate) fn finish(folder: &Folder) -> Result<()> {
    match pending(folder)? {
        Some((name, number)) => finish_one(folder, &name, &number).map_err(failed()),
        None => Ok(()),
    }
}

fn finish_one(folder: &Folder, name: &str, number: &str) -> strongroom_folder::Result<()> {
    let held = folder.hold()?;
    let made = held.folder(name)?;
    let log = format!("{DATABASE_FILE}-wal");
    let index = format!("{DATABASE_FILE}-shm");
    // Looked at before anything is touched.
    if made.check_file(DATABASE_FILE)?.is_some() {
        // The log first: a log must never stand beside another database than its own.
        rename(&held, &log, &format!("{ASIDE}{number}-wal"))?;
        held.remove(&index)?;
        rename(&held, DATABASE_FILE, &format!("{ASIDE}{number}"))?;
        held.sync()?;
        made.move_to(DATABASE_FILE, &held, DATABASE_FILE)?;
        held.sync()?;
    }
    for name in [&log, &index, RESERVE_FILE] {
        made.remove(name)?;
    }
    held.remove_folder(name)?;
    held.sync()
}

/// Renames what is there, to what is not.
fn rename(held: &Held, from: &str, to: &str) -> strongroom_folder::Result<()> {
    match held.move_to(from, held, to) {
        Err(error) if error.is_missing() => Ok(()),
        renamed => renamed,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        fs::write(folder.part(DATABASE_FILE), "old").unwrap();
        fs::write(folder.part("metadata.db-wal"), "old log").unwrap();
        (place, folder)
    }

    fn made(folder: &Folder) -> Folder {
        let making = begin(folder).unwrap();
        fs::write(making.part(DATABASE_FILE), "new").unwrap();
        making
    }

    fn read(folder: &Folder, name: &str) -> Option<String> {
        fs::read_to_string(folder.part(name)).ok()
    }

    #[test]
    fn the_new_database_takes_the_place_and_the_old_one_stays_beside_it() {
        let (_place, folder) = folder();
        let making = made(&folder);
        let aside = commit(&folder, &making).unwrap();
        assert_eq!(aside.as_deref(), Some("metadata.db.damaged-1"));
        assert_eq!(read(&folder, DATABASE_FILE).unwrap(), "new");
        assert_eq!(read(&folder, "metadata.db.damaged-1").unwrap(), "old");
        assert_eq!(
            read(&folder, "metadata.db.damaged-1-wal").unwrap(),
            "old log"
        );
        assert!(!folder.has("metadata.db-wal") && !is_pending(&folder).unwrap());
        let making = made(&folder);
        let aside = commit(&folder, &making).unwrap();
        assert_eq!(aside.as_deref(), Some("metadata.db.damaged-2"));
    }

    /// Goal: a kill between any two steps leaves what the next opening finishes; nothing of the old database is lost.
    /// Method: each state in between is made by hand.
    #[test]
    fn a_switch_that_was_cut_anywhere_is_finished() {
        for steps in 0..4 {
            let (_place, folder) = folder();
            let making = made(&folder);
            fs::rename(making.place(), folder.part("recovered-1")).unwrap();
            let moves = [
                ("metadata.db-wal", "metadata.db.damaged-1-wal"),
                ("metadata.db", "metadata.db.damaged-1"),
                ("recovered-1/metadata.db", "metadata.db"),
            ];
            for (from, to) in &moves[..steps] {
                fs::rename(folder.part(from), folder.part(to)).unwrap();
            }
            assert!(is_pending(&folder).unwrap());
            finish(&folder).unwrap();
            finish(&folder).unwrap();
            assert_eq!(read(&folder, DATABASE_FILE).unwrap(), "new", "{steps}");
            assert_eq!(read(&folder, "metadata.db.damaged-1").unwrap(), "old");
            assert!(!is_pending(&folder).unwrap());
        }
    }

    #[test]
    fn what_was_being_made_when_it_was_killed_changes_nothing() {
        let (_place, folder) = folder();
        made(&folder);
        finish(&folder).unwrap();
        assert_eq!(read(&folder, DATABASE_FILE).unwrap(), "old");
        let making = begin(&folder).unwrap();
        assert!(!making.has(DATABASE_FILE));
    }
}

//! Replaces the database with a new one, so that a kill at any moment leaves either the old or the new one.
//!
//! Takes   a vault folder whose lock is held
//! Gives   the new database in its place. After a recovery the old database is kept under another name; after a change of the
//!         database's key the old one is removed
//! Never   removes an old database that was not whole
//! Spec    spec/7-recovery.md, section 7.5
//!
//! Invariants
//!  (1) Until the folder of the new database is renamed, the old database is untouched. From then on the new one is valid, and the
//!      next process that opens the vault for writing finishes the switch.
//!  (2) While the new database is still in its temporary folder, the file at the database's usual path is the old one.
//!  (3) If a header and a replica file belong to the new database, they and their second copies are put in place after it. Until
//!      then the folder of the new database still exists, and nobody opens the vault before the switch is finished.

use strongroom_folder::{Error as BelowError, Folder as HeldFolder};
use strongroom_metadata::{DATABASE_FILE, RESERVE_FILE, TREE_FILE};
use strongroom_segments::put_intents_away;

use crate::folder::{Folder, HEADER, REPLICA, below, saved_name};
use crate::limits::HEADER_BYTES_MAX;
use crate::{Error, Result};

/// Where the new database is made.
const MAKING: &str = "recovering";
/// What that is renamed to, with the number under which the old database is kept.
const MADE: &str = "recovered-";
/// What it is renamed to if the old database is the same under another key, and goes.
const REKEYED: &str = "rekeyed";
/// What an old database is renamed to, with that number.
const ASIDE: &str = "metadata.db.damaged-";

fn failed() -> impl FnOnce(BelowError) -> Error {
    below("putting the new database in the place of the old one")
}

/// Whether a folder of this module may have that name.
pub(crate) fn is_folder_of_ours(name: &str) -> bool {
    name == MAKING || Old::of(name).is_some()
}

/// What becomes of the old database.
enum Old {
    /// It is kept under this name.
    Kept(String),
    Removed,
}

impl Old {
    /// As the name of a folder that waits says.
    fn of(name: &str) -> Option<Self> {
        if name == REKEYED {
            return Some(Self::Removed);
        }
        let number = name.strip_prefix(MADE)?;
        number.parse::<u32>().ok()?;
        Some(Self::Kept(format!("{ASIDE}{number}")))
    }

    /// Whether the old database has made room.
    fn is_gone(&self, held: &HeldFolder) -> strongroom_folder::Result<bool> {
        match self {
            Self::Kept(aside) => Ok(held.check_file(aside)?.is_some()),
            Self::Removed => Ok(true),
        }
    }
}

/// Where a new database is made.
pub(crate) fn making(folder: &Folder) -> Folder {
    folder.inside(MAKING)
}

/// An empty folder for a new database; what an interrupted attempt left there is removed.
pub(crate) fn begin(folder: &Folder) -> Result<Folder> {
    abandon(folder)?;
    let making = making(folder);
    making.make()?;
    Ok(making)
}

/// The folder of a new database that somebody else began.
pub(crate) fn begun(folder: &Folder) -> Folder {
    folder.inside(MAKING)
}

/// Removes a new database that is not to take the place of the old one.
pub(crate) fn abandon(folder: &Folder) -> Result<()> {
    let removed = folder.hold().and_then(|held| held.remove_tree(MAKING));
    removed.map(drop).map_err(failed())
}

/// Removes every database of a folder that is no vault yet: an attempt that goes on makes its own of what is there now.
pub(crate) fn start_over(folder: &Folder) -> Result<()> {
    abandon(folder)?;
    while let Some((name, _)) = pending(folder)? {
        let removed = folder.hold().and_then(|held| held.remove_tree(&name));
        removed.map_err(failed())?;
    }
    let held = folder.hold().map_err(failed())?;
    for name in [&*log(), &*index(), TREE_FILE, DATABASE_FILE, RESERVE_FILE] {
        held.remove(name).map_err(failed())?;
    }
    Ok(())
}

/// Puts the database in `making`, which is closed, in its place. Gives the name under which the old one is kept.  (1)
pub(crate) fn commit(folder: &Folder, making: &Folder) -> Result<Option<String>> {
    making.sync()?;
    let mut number = 1_u32;
    let is_taken = |ending: &str, number| folder.has(&format!("{ASIDE}{number}{ending}"));
    while ["", "-wal", "-tree"]
        .iter()
        .any(|ending| is_taken(ending, number))
    {
        number += 1;
    }
    put(folder, &format!("{MADE}{number}"))?;
    let aside = format!("{ASIDE}{number}");
    Ok(folder.has(&aside).then_some(aside))
}

/// Puts the database in `making` in its place, with the replica file beside it that has its key, and the header if there is one
/// too. The old one is removed, which is the same under another key, or that of an earlier backup.                                                                                  (1)
pub(crate) fn commit_rekeyed(folder: &Folder, making: &Folder) -> Result<()> {
    making.sync()?;
    put(folder, REKEYED)
}

fn put(folder: &Folder, made: &str) -> Result<()> {
    let held = folder.hold().map_err(failed())?;
    held.move_to(MAKING, &held, made).map_err(failed())?;
    held.sync().map_err(failed())?;
    finish(folder)
}

/// Whether a new database waits to be put in its place.
pub(crate) fn is_pending(folder: &Folder) -> Result<bool> {
    Ok(pending(folder)?.is_some())
}

/// The folder that waits, and what becomes of the old database.
fn pending(folder: &Folder) -> Result<Option<(String, Old)>> {
    let entries = folder.list("looking for a new database")?;
    let mut names = entries.into_iter().map(|entry| entry.name);
    Ok(names.find_map(|name| {
        let old = Old::of(&name)?;
        Some((name, old))
    }))
}

/// Finishes what a commit began, if anything waits. Doing it twice does no harm.                              (2)
///
/// # Errors
/// `Odd` if what waits is no real folder, or its database no file: then nothing was touched.
pub(crate) fn finish(folder: &Folder) -> Result<()> {
    match pending(folder)? {
        Some((name, old)) => finish_one(folder, &name, &old).map_err(failed()),
        None => Ok(()),
    }
}

fn finish_one(folder: &Folder, name: &str, old: &Old) -> strongroom_folder::Result<()> {
    let held = folder.hold()?;
    let made = held.folder(name)?;
    // Looked at before anything is touched. A disk may keep what was moved under both names, or one move and not the other.
    let has_database = made.check_file(DATABASE_FILE)?.is_some();
    let has_tree = made.check_file(TREE_FILE)?.is_some();
    let has_moved_tree = held.check_file(TREE_FILE)?.is_some();
    if has_database && (has_tree || !has_moved_tree) {
        put_aside(&held, old)?;
    } else if has_database && old.is_gone(&held)? {
        // Once the page tree has moved, what has the name of the database in the vault is the new one, too.
        held.remove(DATABASE_FILE)?;
    }
    if has_tree && (has_database || !has_moved_tree) {
        made.move_to(TREE_FILE, &held, TREE_FILE)?;
    }
    if has_database {
        made.move_to(DATABASE_FILE, &held, DATABASE_FILE)?;
    }
    held.sync()?;
    // (3). Replaced and not moved: a folder without a header is no vault, not even for a moment.
    for name in [HEADER, REPLICA] {
        if let Some(bytes) = made.read(name, HEADER_BYTES_MAX)? {
            held.replace(name, &bytes)?;
            match held.replace(&saved_name(name), &bytes) {
                // A folder in the place of a second copy stays, and is in nobody's way.                          [10.12]
                Err(BelowError::Odd(_)) => {}
                saved => saved?,
            }
            made.remove(name)?;
        }
    }
    let moved = [TREE_FILE, DATABASE_FILE];
    for name in moved.into_iter().chain([&*log(), &*index(), RESERVE_FILE]) {
        made.remove(name)?;
    }
    held.remove_folder(name)?;
    held.sync()
}

/// Makes room for a new database, durably. The log goes first: a log must never stand beside another database than its own.
fn put_aside(held: &HeldFolder, old: &Old) -> strongroom_folder::Result<()> {
    held.remove(&index())?;
    match old {
        Old::Kept(aside) => {
            // The new database cannot replay it, and the old one needs it until this moment.                  [7.4.8]
            put_intents_away(held)?;
            move_aside(held, &log(), &format!("{aside}-wal"))?;
            move_aside(held, TREE_FILE, &format!("{aside}-tree"))?;
            move_aside(held, DATABASE_FILE, aside)?;
        }
        Old::Removed => {
            for name in [&log(), TREE_FILE, DATABASE_FILE] {
                held.remove(name)?;
            }
        }
    }
    held.sync()
}

fn log() -> String {
    format!("{DATABASE_FILE}-wal")
}

/// The index of the log, which versions before the page tree kept beside the database.
fn index() -> String {
    format!("{DATABASE_FILE}-shm")
}

/// Moves what is there. If something has the new name already, that is the old one, and this the new one.
fn move_aside(held: &HeldFolder, name: &str, new: &str) -> strongroom_folder::Result<()> {
    if held.check_file(new)?.is_some() {
        return held.remove(name).map(drop);
    }
    match held.move_to(name, held, new) {
        Err(error) if error.is_missing() => Ok(()),
        moved => moved,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use strongroom_segments::{INTENT_LOG, INTENTS_UNREADABLE};

    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        fs::write(folder.part(DATABASE_FILE), "old").unwrap();
        fs::write(folder.part("metadata.db-wal"), "old log").unwrap();
        fs::write(folder.part(TREE_FILE), "old tree").unwrap();
        (place, folder)
    }

    fn made(folder: &Folder) -> Folder {
        let making = begin(folder).unwrap();
        fs::write(making.part(DATABASE_FILE), "new").unwrap();
        fs::write(making.part(TREE_FILE), "new tree").unwrap();
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
        for steps in 0..7 {
            let (_place, folder) = folder();
            fs::write(folder.part(INTENT_LOG), "syncs").unwrap();
            let making = made(&folder);
            assert!(folder.has(INTENT_LOG), "the old database may need it");
            fs::rename(making.place(), folder.part("recovered-1")).unwrap();
            let moves = [
                (INTENT_LOG, INTENTS_UNREADABLE),
                ("metadata.db-wal", "metadata.db.damaged-1-wal"),
                ("metadata.db-tree", "metadata.db.damaged-1-tree"),
                ("metadata.db", "metadata.db.damaged-1"),
                ("recovered-1/metadata.db-tree", "metadata.db-tree"),
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
            assert_eq!(read(&folder, TREE_FILE).unwrap(), "new tree");
            // Failed before: it was put away before the switch, and lost if that did not happen.
            assert!(!folder.has(INTENT_LOG));
            assert_eq!(read(&folder, INTENTS_UNREADABLE).unwrap(), "syncs");
            assert_eq!(
                read(&folder, "metadata.db.damaged-1-tree").unwrap(),
                "old tree"
            );
            assert!(!is_pending(&folder).unwrap());
        }
    }

    /// Failed before: the second log replaced the first, and a folder of that name kept the switch from its end.
    #[test]
    fn the_log_of_each_old_database_stays_whatever_has_its_name() {
        let (_place, folder) = folder();
        fs::create_dir(folder.part(INTENTS_UNREADABLE)).unwrap();
        for syncs in ["first", "second"] {
            fs::write(folder.part(INTENT_LOG), syncs).unwrap();
            let making = made(&folder);
            commit(&folder, &making).unwrap();
            assert_eq!(read(&folder, INTENTS_UNREADABLE).unwrap(), syncs);
        }
        assert!(folder.part("intents.unreadable-1").is_dir());
        assert_eq!(read(&folder, "intents.unreadable-2").unwrap(), "first");
        assert!(!is_pending(&folder).unwrap());
    }

    /// Goal: after a change of key the new database is there with the replica file that has its key, and nothing of the old one;
    /// a kill between any two steps leaves what the next opening finishes.
    #[test]
    fn a_database_under_another_key_replaces_the_old_one_with_the_replica_file() {
        let names = [&log(), TREE_FILE, DATABASE_FILE];
        for steps in 0..9 {
            let (_place, folder) = folder();
            fs::write(folder.part(REPLICA), "old replica").unwrap();
            let making = made(&folder);
            fs::write(making.part(REPLICA), "new replica").unwrap();
            fs::rename(making.place(), folder.part(REKEYED)).unwrap();
            for name in names.iter().take(steps) {
                fs::remove_file(folder.part(name)).unwrap();
            }
            let moves = [TREE_FILE, DATABASE_FILE];
            for name in moves.iter().take(steps.saturating_sub(3)) {
                fs::rename(folder.part(&format!("{REKEYED}/{name}")), folder.part(name)).unwrap();
            }
            if steps > 5 {
                fs::write(folder.part(REPLICA), "new replica").unwrap();
            }
            if steps > 6 {
                fs::write(folder.part(&saved_name(REPLICA)), "new replica").unwrap();
                fs::remove_file(folder.part(&format!("{REKEYED}/{REPLICA}"))).unwrap();
            }
            if steps > 7 {
                fs::remove_dir(folder.part(REKEYED)).unwrap();
            }
            finish(&folder).unwrap();
            finish(&folder).unwrap();
            assert_eq!(read(&folder, DATABASE_FILE).unwrap(), "new", "{steps}");
            assert_eq!(read(&folder, TREE_FILE).unwrap(), "new tree", "{steps}");
            assert_eq!(read(&folder, REPLICA).unwrap(), "new replica", "{steps}");
            // No second copy has the old key either.
            assert_eq!(read(&folder, &saved_name(REPLICA)).unwrap(), "new replica");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "{steps}");
            assert!(!is_pending(&folder).unwrap());
        }
    }

    /// Goal: a header that came with the database takes its place too, and a kill between any two steps leaves one there.
    #[test]
    fn a_header_that_comes_with_the_database_replaces_the_old_one() {
        for steps in 0..3 {
            let (_place, folder) = folder();
            fs::write(folder.part(HEADER), "old header").unwrap();
            fs::write(folder.part(REPLICA), "old replica").unwrap();
            let making = made(&folder);
            fs::write(making.part(REPLICA), "new replica").unwrap();
            fs::write(making.part(HEADER), "new header").unwrap();
            fs::rename(making.place(), folder.part(REKEYED)).unwrap();
            if steps > 0 {
                fs::write(folder.part(HEADER), "new header").unwrap();
            }
            if steps > 1 {
                fs::remove_file(folder.part(&format!("{REKEYED}/{HEADER}"))).unwrap();
            }
            finish(&folder).unwrap();
            finish(&folder).unwrap();
            assert_eq!(read(&folder, HEADER).unwrap(), "new header", "{steps}");
            assert_eq!(read(&folder, REPLICA).unwrap(), "new replica", "{steps}");
            assert_eq!(read(&folder, DATABASE_FILE).unwrap(), "new", "{steps}");
            assert!(!is_pending(&folder).unwrap());
        }
    }

    /// Failed before: the switch was never finished, and the vault could not be opened for writing any more.
    #[test]
    fn a_folder_in_the_place_of_a_second_copy_is_in_no_switchs_way() {
        for odd in [HEADER, REPLICA].map(saved_name) {
            let (_place, folder) = folder();
            fs::create_dir(folder.part(&odd)).unwrap();
            let making = made(&folder);
            fs::write(making.part(HEADER), "new header").unwrap();
            fs::write(making.part(REPLICA), "new replica").unwrap();
            commit_rekeyed(&folder, &making).unwrap();
            assert_eq!(read(&folder, HEADER).unwrap(), "new header", "{odd}");
            assert_eq!(read(&folder, REPLICA).unwrap(), "new replica", "{odd}");
            assert!(folder.part(&odd).is_dir());
            assert!(!is_pending(&folder).unwrap());
        }
    }

    /// Goal: where a power cut kept a moved file under both names, the switch is finished all the same.
    /// Failed before: the folder was not empty, and the vault could not be opened any more.
    #[test]
    fn what_a_power_cut_left_under_both_names_or_the_old_one_is_in_nobodys_way() {
        for left in [
            &[TREE_FILE][..],
            &[DATABASE_FILE],
            &[TREE_FILE, DATABASE_FILE],
        ] {
            let (_place, folder) = folder();
            fs::write(folder.part(REPLICA), "old replica").unwrap();
            let making = made(&folder);
            fs::write(making.part(REPLICA), "new replica").unwrap();
            commit_rekeyed(&folder, &making).unwrap();
            fs::create_dir(folder.part(REKEYED)).unwrap();
            for name in left {
                let back = folder.part(&format!("{REKEYED}/{name}"));
                fs::copy(folder.part(name), back).unwrap();
            }
            finish(&folder).unwrap();
            assert_eq!(read(&folder, DATABASE_FILE).unwrap(), "new", "{left:?}");
            assert_eq!(read(&folder, TREE_FILE).unwrap(), "new tree", "{left:?}");
            assert_eq!(read(&folder, REPLICA).unwrap(), "new replica");
            assert!(!is_pending(&folder).unwrap());
        }
        // The database was moved for good, the page tree was not.
        let (_place, folder) = folder();
        fs::create_dir(folder.part(REKEYED)).unwrap();
        fs::write(folder.part(&format!("{REKEYED}/{TREE_FILE}")), "new tree").unwrap();
        fs::write(folder.part(DATABASE_FILE), "new").unwrap();
        fs::remove_file(folder.part(TREE_FILE)).unwrap();
        finish(&folder).unwrap();
        assert_eq!(read(&folder, TREE_FILE).unwrap(), "new tree");
        assert_eq!(read(&folder, DATABASE_FILE).unwrap(), "new");
        assert!(!is_pending(&folder).unwrap());
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

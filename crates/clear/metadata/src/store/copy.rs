//! Writes a second database with the state of the last commit, while others keep reading.
//!
//! Takes   the lock of the writing connection, right after a commit; an empty folder
//! Gives   the same pages with their page tree, under the same key, durable and read back
//! Never   changes the original database
//! Spec    spec/4-metadata.md

use std::fs::File;
use std::io::{BufReader, Read};
use std::time::Instant;

use rustix::fs::{Advice, fadvise};
use strongroom_folder::{Folder, Purpose};

use crate::disk::DATABASE_FILE;
use crate::error::{Error, Result};
use crate::limits::{KEY_BYTES, PAGE_BYTES};
use crate::pages::Pages;
use crate::pages::log_layout::leaf_of;
use crate::pages::tree::Leaf;
use crate::store::rekey::PATIENCE;
use crate::store::transaction::Transaction;
use crate::tables::sql::Statement;

/// What copies a database.
pub struct Copying<'a> {
    /// The key of the database.
    pub key: &'a [u8; KEY_BYTES],
    /// An empty folder for the copy.
    pub into: &'a Folder,
    /// Hears how many pages are done, and how many there are.
    pub progress: &'a dyn Fn(u64, u64),
}

impl std::fmt::Debug for Copying<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Copying").finish_non_exhaustive()
    }
}

impl Transaction<'_> {
    /// Copies the database, for a caller that has just committed. Others read meanwhile, and wait to write.
    ///
    /// O(pages).
    ///
    /// # Errors
    /// `Error::Busy` while somebody reads or checkpoints: call again later; the disks'. Then what is in `into` is of no use.
    pub fn copy(&mut self, copying: &Copying<'_>) -> Result<()> {
        let store = self.store;
        store.shared.writable()?;
        if self.is_dirty() {
            return Err(Error::Invalid("a transaction is open"));
        }
        // Invariant (2) of the store: whoever holds the checkpointer may be waiting for this very guard.
        let mut checkpointer = store.checkpointer.try_lock().ok_or(Error::Busy)?;
        let deadline = Instant::now() + PATIENCE;
        let nobody_reads = store.pool.close(deadline).ok_or(Error::Busy)?;
        if !checkpointer.run(&store.shared, Statement::CheckpointTruncate)? {
            return Err(Error::Busy);
        }
        // The log stays empty, as nobody else writes.
        drop(nobody_reads);
        store.shared.files().disk().set_log_len(0);
        let leaves = self.write_pages(copying.into, &|_, _| Ok(()), copying.progress)?;
        read_back(copying.into, &leaves)?;
        Pages::put(copying.into, copying.key, leaves)?;
        Ok(copying.into.sync()?)
    }
}

/// Compares what the disk has with what was written there.
fn read_back(folder: &Folder, leaves: &[Leaf]) -> Result<()> {
    let file = folder.open_file(DATABASE_FILE, Purpose::Read)?;
    // From the disk, where the system lets go of what it keeps.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    let mut file: BufReader<File> = BufReader::with_capacity(256 * PAGE_BYTES, file);
    let mut page = [0; PAGE_BYTES];
    for leaf in leaves {
        file.read_exact(&mut page)?;
        if leaf_of(&page) != *leaf {
            return Err(Error::Damaged(
                "reading the copy back gave other bytes than were written",
            ));
        }
    }
    Ok(())
}

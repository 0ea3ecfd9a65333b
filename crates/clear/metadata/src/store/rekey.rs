//! Changes the key of the database while it is in use: the old key opens nothing that is written afterwards.
//!
//! Takes   the lock of the writing connection, right after a commit; the new key; a function that re-seals a page
//! Gives   a store that continues under the new key
//! Never   changes the contents of the old database, or leaves a database that neither key opens
//! Spec    spec/4-metadata.md, 4.13
//!
//! Invariants
//!  (1) The new database is whole and durable, with its page tree, before anything replaces the old one with it.
//!  (2) No connection is open while the files are exchanged: closing the last one removes the log by its name, even a new log.
//!  (3) The first state under the new key has a higher commit number than any state that anyone can have recorded under the old
//!      key.

use std::fs::File;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::fs::OFlags;
use strongroom_folder::Folder;

use crate::disk::DATABASE_FILE;
use crate::ending::Running;
use crate::error::{Error, Result};
use crate::limits::{KEY_BYTES, PAGE_BYTES};
use crate::pages::Pages;
use crate::pages::log_layout::leaf_of;
use crate::pages::tree::Leaf;
use crate::pages::tree_file::TREE_FILE;
use crate::store::Store;
use crate::store::transaction::Transaction;
use crate::tables::reads::Reads;
use crate::tables::sql::Statement;
use crate::vfs;

/// A setting that is written only for the commit that it makes.
const REKEYED: &str = "rekeyed";

/// How long readers may take to give their connections back, before the attempt is given up. Short: one of them may be
/// waiting for the writer, which whoever rekeys has, and everybody who writes waits meanwhile.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// Pages that are re-sealed together: 1 MiB for each core that takes part.
const BATCH_PAGES: usize = 256;

/// One page as SQLCipher has it.
pub(crate) type Page = [u8; PAGE_BYTES];

/// Re-seals one page from the old key to the new one: its number, and its bytes as SQLCipher has them. Gives whether it opened.
pub type Reseal<'a> = dyn Fn(u32, &mut [u8; PAGE_BYTES]) -> bool + Sync + 'a;

/// What gives a database another key.
pub struct Rekey<'a> {
    /// The key it shall have.
    pub key: &'a [u8; KEY_BYTES],
    /// An empty folder on the same file system, for the new database.
    pub into: &'a Folder,
    /// Re-seals a page.
    pub reseal: &'a Reseal<'a>,
    /// Hears how many pages are done, and how many there are.
    pub progress: &'a dyn Fn(u64, u64),
    /// Puts the database in `into` in the place of the one that is there, durably.
    pub put: &'a dyn Fn() -> io::Result<()>,
}

impl std::fmt::Debug for Rekey<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Rekey").finish_non_exhaustive()
    }
}

impl Transaction<'_> {
    /// Gives the database another key, for a caller that has just committed. Others read meanwhile, and wait to write.
    ///
    /// O(pages). Needs room on the disk for a second database.
    ///
    /// # Errors
    /// `Error::Busy` while somebody reads or checkpoints: call again later. Until the new database is put in place every error
    /// leaves the store as it was, and what is in `into` of no use; after that the store is `Error::Failed`.
    pub fn rekey(&mut self, rekey: &Rekey<'_>) -> Result<()> {
        let store = self.store;
        store.shared.writable()?;
        if self.is_dirty() {
            return Err(Error::Invalid("a transaction is open"));
        }
        // Another root of the same count of commits would look like another history of the vault.                  (3)
        self.put_setting(REKEYED, &[])?;
        self.commit()?;
        // Invariant (2) of the store: whoever holds the checkpointer may be waiting for this very guard.
        let mut checkpointer = store.checkpointer.try_lock().ok_or(Error::Busy)?;
        let nobody_reads = store
            .pool
            .close(Instant::now() + PATIENCE)
            .ok_or(Error::Busy)?;
        if !checkpointer.run(&store.shared, Statement::CheckpointTruncate)? {
            return Err(Error::Busy);
        }
        // The log stays empty, as nobody else writes.
        drop(nobody_reads);
        self.export(rekey)?;
        let nobody_reads = store
            .pool
            .close(Instant::now() + PATIENCE)
            .ok_or(Error::Busy)?;
        checkpointer.close();
        let taken_over = self.take_over(rekey);
        if taken_over.is_err() {
            store.shared.fail();
        }
        drop(nobody_reads);
        taken_over
    }

    /// Writes the database under the new key, durably.                                                         (1)
    fn export(&self, rekey: &Rekey<'_>) -> Result<()> {
        let reseal = |first, pages: &mut [Page]| reseal_all(rekey.reseal, first, pages);
        let leaves = self.write_pages(rekey.into, &reseal, rekey.progress)?;
        Pages::put(rekey.into, rekey.key, leaves)?;
        Ok(rekey.into.sync()?)
    }

    /// Writes every page of the database, which has no log, into a new one in `into`, after `change` made of it what it shall be.
    pub(crate) fn write_pages(
        &self,
        into: &Folder,
        change: &dyn Fn(u32, &mut [Page]) -> Result<()>,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Vec<Leaf>> {
        let files = self.store.shared.files();
        let pages = files
            .database
            .pages
            .as_ref()
            .ok_or(Error::Invalid("the database has no page tree"))?;
        let count = pages.root().pages;
        // What an attempt that readers ended left there is of another state.
        into.remove(TREE_FILE)?;
        into.remove(DATABASE_FILE)?;
        let mut out = File::from(into.create_with(DATABASE_FILE, OFlags::empty())?);
        let mut leaves = Vec::with_capacity(count as usize);
        let batch_pages = (BATCH_PAGES * cores()) as u32;
        let mut first = 1;
        while first <= count {
            let end = count.min(first.saturating_add(batch_pages - 1));
            let mut batch = self.read_pages(first, end)?;
            change(first, &mut batch)?;
            leaves.extend(batch.iter().map(|page| leaf_of(page)));
            out.write_all(batch.as_flattened())?;
            progress(u64::from(end), u64::from(count));
            first = end + 1;
        }
        out.sync_all()?;
        Ok(leaves)
    }

    fn read_pages(&self, first: u32, last: u32) -> Result<Vec<[u8; PAGE_BYTES]>> {
        let mut pages = vec![[0; PAGE_BYTES]; (last - first + 1) as usize];
        for (number, page) in (first..).zip(&mut pages) {
            vfs::read_page(&self.writer.reads.connection, number, page).map_err(|code| {
                Error::from(rusqlite::Error::SqliteFailure(
                    libsqlite3_sys::Error::new(code),
                    None,
                ))
            })?;
        }
        Ok(pages)
    }

    /// Closes the last connection, puts the new database in place and opens it.                                 (2)
    fn take_over(&mut self, rekey: &Rekey<'_>) -> Result<()> {
        let shared = &self.store.shared;
        let _running = Running::begin()?;
        let nothing = Connection::open_in_memory()?;
        drop(std::mem::replace(
            &mut self.writer.reads,
            Reads::new(nothing, std::sync::Arc::clone(&shared.counts)),
        ));
        (rekey.put)()?;
        shared.take_over(rekey.key)?;
        self.writer.reads = shared.connect(shared.options.cache_bytes)?;
        Ok(())
    }
}

/// Re-seals `pages`, of which the first has the number `first`, on all cores.
fn reseal_all(reseal: &Reseal<'_>, first: u32, pages: &mut [[u8; PAGE_BYTES]]) -> Result<()> {
    let parts = pages
        .chunks_mut(BATCH_PAGES)
        .zip((first..).step_by(BATCH_PAGES));
    let all_opened = std::thread::scope(|scope| {
        let workers: Vec<_> = parts
            .map(|(part, first)| scope.spawn(move || reseal_part(reseal, first, part)))
            .collect();
        workers
            .into_iter()
            .all(|worker| worker.join().unwrap_or(false))
    });
    match all_opened {
        true => Ok(()),
        false => Err(Error::Damaged("a page does not authenticate")),
    }
}

fn reseal_part(reseal: &Reseal<'_>, first: u32, pages: &mut [[u8; PAGE_BYTES]]) -> bool {
    (first..)
        .zip(pages)
        // A page that was never written has nothing to re-seal.
        .filter(|(_, page)| leaf_of(&page[..]) != Leaf::NONE)
        .all(|(number, page)| reseal(number, page))
}

fn cores() -> usize {
    std::thread::available_parallelism()
        .map_or(1, std::num::NonZeroUsize::get)
        .min(8)
}

impl Store {
    /// As `Transaction::rekey`, for a store on which nothing else runs. Commits first.
    ///
    /// # Errors
    /// As `Transaction::rekey`.
    pub fn rekey(&self, rekey: &Rekey<'_>) -> Result<()> {
        let mut writer = self.lock();
        writer.commit()?;
        writer.rekey(rekey)
    }
}

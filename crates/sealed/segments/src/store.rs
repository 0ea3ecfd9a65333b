//! The segment store: how it is opened, and its operations on whole files.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use strongroom_folder::{Folder, Odd};
use strongroom_format::limits::SEGMENT_BYTES_MAX;
use strongroom_format::{SegmentId, SuiteId};

use crate::append::Writer;
use crate::buffer::Pool;
use crate::counters::Counting;
use crate::dense::Dense;
use crate::disk::{Disk, SegmentFile};
use crate::files::Files;
use crate::nearby::Nearby;
use crate::options::{Access, Counters, NameSource, StoreOptions, Transfer};
use crate::sync::Syncing;
use crate::unfinished::write_error;
use crate::{Error, Result};

/// The segment files of one vault. Share it between threads by an `Arc`.
///
/// The caller sees to it that nobody else writes to the folder meanwhile. Dropping it gives back the room
/// set aside in the open file, and syncs nothing.
pub struct SegmentStore {
    pub(crate) disk: Disk,
    pub(crate) access: Access,
    pub(crate) suite: SuiteId,
    pub(crate) names: NameSource,
    pub(crate) segment_bytes_max: u64,
    pub(crate) pool: Arc<Pool>,
    pub(crate) files: Files,
    pub(crate) nearby: Nearby,
    pub(crate) dense: Dense,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) syncing: Syncing,
    pub(crate) counting: Counting,
}

/// A file without a name. Its space comes back when nobody has it open any more, which takes the disk some 10 ms.
pub struct RemovedFile {
    _file: Option<Arc<SegmentFile>>,
}

impl fmt::Debug for RemovedFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("RemovedFile")
    }
}

impl SegmentStore {
    /// Opens the folder of segments at `path`; makes it, durably, if it is missing and may be made. The folder that holds it
    /// is the vault folder, and the way there is the user's; the folder itself must be a real one.
    ///
    /// Tries out how bytes can move, with a file that is removed again. No segment is open then: batches
    /// begin a new one, unless `recover_open` takes one up.
    ///
    /// # Errors
    /// `Odd` if something else has its name; if there is no such folder, or it takes none of the ways that `options` allow.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::Io(io::ErrorKind::InvalidInput.into()))?;
        let vault = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let vault = Folder::open(vault).map_err(|error| Error::of_io(error.into()))?;
        Self::open_in(&vault, name, options)
    }

    /// The same for the folder `name` in the vault folder.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_in(vault: &Folder, name: &str, options: StoreOptions) -> Result<Self> {
        let pool = Arc::default();
        let disk = Disk::open(vault, name, options.access, options.direct, &pool);
        let disk = disk.map_err(write_error)?;
        Ok(Self {
            disk,
            access: options.access,
            suite: options.suite,
            names: options.names,
            segment_bytes_max: options.segment_bytes_max.min(SEGMENT_BYTES_MAX),
            pool,
            files: Files::new(),
            nearby: Nearby::default(),
            dense: Dense::new(),
            writer: Mutex::default(),
            syncing: Syncing::default(),
            counting: Counting::default(),
        })
    }

    /// How bytes move between memory and this disk.
    #[must_use]
    pub fn transfer(&self) -> Transfer {
        self.disk.transfer()
    }

    /// Makes everything acknowledged up to `sequence` durable: batches, endings of finished files, names of
    /// new ones. Later sequences count as the last one. Callers at one time share one sync.
    ///
    /// # Errors
    /// What the disk said, to one caller; `Failed` to the others, and from then on to everyone who writes
    /// or waits for something that is not durable yet.
    pub fn sync(&self, sequence: u64) -> Result<()> {
        self.syncing.sync(sequence, &self.disk, &self.counting)
    }

    /// Removes the file of `id`, whatever its state; nothing happens if there is none. Reads that have
    /// begun go on. After a power cut it may be there again, unless `sync_removals` returned before.
    /// The disk gets the space back when what this gives is dropped: do that without locks.
    ///
    /// # Errors
    /// What the disk said.
    pub fn remove(&self, id: SegmentId) -> Result<RemovedFile> {
        self.check_writable()?;
        let file = self.files.get(&self.disk, id).ok();
        let mut writer = self.writer.lock();
        self.disk.unlink(id).map_err(Error::Io)?;
        writer.unfinished.remove(&id);
        if writer.open == Some(id) {
            writer.open = None;
        }
        self.files.forget(id);
        self.nearby.changed(id, 0);
        self.dense.forget(id);
        // Also if it was gone: an earlier process may have removed it a moment before the power fails.
        self.syncing.record_removal(id);
        Ok(RemovedFile { _file: file })
    }

    /// Puts `bytes`, all of a finished segment, in the place of the file of `id`, or makes it; durable on return. Cut off, what was
    /// there is there.
    ///
    /// # Errors
    /// What the disk said.
    pub fn replace(&self, id: SegmentId, bytes: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.disk.replace(id, bytes).map_err(write_error)?;
        self.files.forget(id);
        self.nearby.changed(id, 0);
        self.dense.forget(id);
        Ok(())
    }

    /// Makes removals durable: for where a key is destroyed next, or where nothing would explain a file that comes back.
    /// Space comes back without it.
    ///
    /// # Errors
    /// What the disk said; then it can be tried again.
    pub fn sync_removals(&self) -> Result<()> {
        self.syncing.sync_removals(&self.disk, &self.counting)
    }

    /// All segments there are, in the order of their names. Files with other names are left out, and what is no real folder.
    ///
    /// # Errors
    /// What the disk said.
    pub fn list(&self) -> Result<Vec<SegmentId>> {
        let mut found = Vec::new();
        for byte in self.disk.folders().map_err(Error::Io)? {
            found.extend(self.disk.segments_in(byte).map_err(Error::Io)?);
        }
        Ok(found)
    }

    /// What has the name of a folder of segments and is none; the segments in it count as missing.
    ///
    /// # Errors
    /// What the disk said.
    pub fn odd_folders(&self) -> Result<Vec<Odd>> {
        self.disk.odd_folders().map_err(Error::Io)
    }

    /// Length of the file of `id` in bytes.
    ///
    /// # Errors
    /// `Missing` if there is none.
    pub fn len(&self, id: SegmentId) -> Result<u64> {
        self.files.get(&self.disk, id)?.len().map_err(Error::Io)
    }

    /// The second since 1970 in which the file of `id` was last written or, as far as the disk notes that, read: most disks note it once a
    /// day at most, some never.
    ///
    /// # Errors
    /// `Missing` if there is none.
    pub fn last_used_s(&self, id: SegmentId) -> Result<u64> {
        let file = self.files.get(&self.disk, id)?;
        file.last_used_s().map_err(Error::Io)
    }

    /// What was done since the store was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counting.now()
    }
}

impl Drop for SegmentStore {
    fn drop(&mut self) {
        if self.access == Access::ReadWrite {
            self.give_back_room();
        }
    }
}

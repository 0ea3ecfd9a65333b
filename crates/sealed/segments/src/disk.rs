//! The only file of this crate with I/O on segments and their folder. The vault crate reads and moves whole files without it.
//!
//! Takes   names below the folder of segments, buffers that begin on a sector boundary
//! Gives   the results of the system calls; an interrupted or partial transfer is continued
//! Never   follows a symbolic link, waits on a pipe, or decides what an error means for a segment

use std::collections::BTreeSet;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{self, FallocateFlags, FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use strongroom_folder::{Error as FolderError, Folder as HeldFolder, Odd, Purpose, odd_of};
use strongroom_format::SegmentId;
use strongroom_format::limits::SECTOR_BYTES;

use crate::buffer::Pool;
use crate::{Access, DirectIo, Transfer, name};

/// `RWF_DONTCACHE`, Linux 6.14 and later: what the transfer brings into the page cache leaves it after.
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
/// How many files are looked at for one that can be read, where none can be made to try with.
const PROBED_MAX: usize = 16;
/// The order of preference. Direct I/O is first: it copies once less, and works on older systems.
const TRANSFERS: [Transfer; 3] = [Transfer::Direct, Transfer::DontCache, Transfer::Buffered];

/// A folder whose list of names can be made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Folder {
    /// The folder of segments.
    Root,
    /// The one below it for names that begin with this byte.
    Named(u8),
}

/// The folder of segments.
pub(crate) struct Disk {
    root: HeldFolder,
    access: Access,
    transfer: Transfer,
    /// Who puts a file into the folder of that first byte, which must be alone there. Says whether the folder's own name is durable.
    replacing: [Mutex<bool>; 256],
    #[cfg(test)]
    pub(crate) faults: Arc<faults::Faults>,
}

/// One open segment file.
pub(crate) struct SegmentFile {
    file: OwnedFd,
    transfer: Transfer,
    #[cfg(test)]
    faults: Arc<faults::Faults>,
}

/// Whether room could be set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocated {
    /// It is there.
    Yes,
    /// The file system does not know how; writes may meet a full disk.
    Unknown,
}

impl Disk {
    /// Opens the folder `name` in `vault`, durably made if it is missing and `access` allows it.
    pub(crate) fn open(
        vault: &HeldFolder,
        name: &str,
        access: Access,
        direct: DirectIo,
        pool: &Arc<Pool>,
    ) -> io::Result<Self> {
        if access == Access::ReadWrite && vault.make_folder(name)? {
            vault.sync()?;
        }
        let root = vault.folder(name)?;
        if access == Access::ReadWrite {
            root.remove_unfinished()?;
        }
        let mut disk = Self {
            root,
            access,
            transfer: Transfer::Buffered,
            replacing: [const { Mutex::new(false) }; 256],
            #[cfg(test)]
            faults: Arc::default(),
        };
        disk.transfer = disk.choose(direct, pool)?;
        Ok(disk)
    }

    pub(crate) fn transfer(&self) -> Transfer {
        self.transfer
    }

    fn choose(&self, direct: DirectIo, pool: &Arc<Pool>) -> io::Result<Transfer> {
        let candidates: &[Transfer] = match &direct {
            DirectIo::Auto => &TRANSFERS,
            DirectIo::Off => &TRANSFERS[1..],
            DirectIo::Only(one) => std::slice::from_ref(one),
        };
        let mut refusal = Errno::OPNOTSUPP;
        for &transfer in candidates {
            match self.try_transfer(transfer, pool) {
                Ok(()) => return Ok(transfer),
                Err(error) => refusal = error,
            }
        }
        Err(refusal.into())
    }

    /// Moves one sector in `transfer` fashion, out and back if writing is allowed.
    fn try_transfer(&self, transfer: Transfer, pool: &Arc<Pool>) -> Result<(), Errno> {
        let mut sector = pool.take(SECTOR_BYTES);
        sector.fill(0);
        let made = match self.access {
            Access::ReadWrite => self.root.new_file_with(transfer_flag(transfer)),
            Access::ReadOnly => Err(Errno::ROFS.into()),
        };
        let probe = match made.map_err(errno_of) {
            Ok(probe) => probe,
            Err(Errno::NOSPC | Errno::DQUOT | Errno::ROFS) => {
                return self.try_reading(transfer, &mut sector);
            }
            Err(error) => return Err(error),
        };
        let held = probe.try_clone().map_err(|error| errno_of(error.into()))?;
        let file = self.wrap(held.into(), transfer);
        match file.write_some(&sector, 0) {
            // A full disk refuses the bytes, not the way they came; the vault must still open.
            Ok(_) | Err(Errno::NOSPC | Errno::DQUOT) => file.read_some(&mut sector, 0).map(drop),
            Err(error) => Err(error),
        }
    }

    /// If there is no file to read, any transfer will do, as nothing will be read.
    fn try_reading(&self, transfer: Transfer, sector: &mut [u8]) -> Result<(), Errno> {
        for id in self.first_segments() {
            let flags = transfer_flag(transfer);
            match self
                .root
                .open_file_with(&name::path(id), Purpose::Read, flags)
            {
                Ok(file) => return self.wrap(file, transfer).read_some(sector, 0).map(drop),
                // One that is strange says nothing of the disk.
                Err(FolderError::Odd(_)) => {}
                Err(error) => return Err(errno_of(error)),
            }
        }
        Ok(())
    }

    fn first_segments(&self) -> Vec<SegmentId> {
        let folders = self.folders().unwrap_or_default();
        let segments = folders
            .into_iter()
            .filter_map(|byte| self.segments_in(byte).ok());
        segments.flatten().take(PROBED_MAX).collect()
    }

    fn wrap(&self, file: OwnedFd, transfer: Transfer) -> SegmentFile {
        SegmentFile {
            file,
            transfer,
            #[cfg(test)]
            faults: Arc::clone(&self.faults),
        }
    }

    /// Makes an empty file for `id`, and the folder for it.
    pub(crate) fn create(&self, id: SegmentId) -> io::Result<SegmentFile> {
        let flags = transfer_flag(self.transfer);
        let path = name::path(id);
        let file = match self.root.create_with(&path, flags) {
            Err(error) if error.is_missing() => {
                self.root.make_folder(&name::folder_name(id.0[0]))?;
                self.root.create_with(&path, flags)?
            }
            created => created?,
        };
        Ok(self.wrap(file, self.transfer))
    }

    /// Opens the file of `id`, for writing too if the store is.
    pub(crate) fn open_segment(&self, id: SegmentId) -> io::Result<SegmentFile> {
        let purpose = match self.access {
            Access::ReadWrite => Purpose::Write,
            Access::ReadOnly => Purpose::Read,
        };
        let flags = transfer_flag(self.transfer);
        let file = self.root.open_file_with(&name::path(id), purpose, flags)?;
        Ok(self.wrap(file, self.transfer))
    }

    /// Opens the file of `id` for reading alone, so that the page cache keeps what is read, and nothing beside it.
    pub(crate) fn open_cached(&self, id: SegmentId) -> io::Result<SegmentFile> {
        let path = name::path(id);
        let file = self
            .root
            .open_file_with(&path, Purpose::Read, OFlags::empty())?;
        // Advice: without it the system guesses what is read next, which is as right.
        let _ = fs::fadvise(&file, 0, None, fs::Advice::Random);
        Ok(self.wrap(file, Transfer::Buffered))
    }

    /// Puts a file with those bytes in the place of that of `id`, durably.
    pub(crate) fn replace(&self, id: SegmentId, bytes: &[u8]) -> io::Result<()> {
        let name = name::folder_name(id.0[0]);
        let mut is_durable = self.replacing[usize::from(id.0[0])].lock();
        self.root.make_folder(&name)?;
        if !*is_durable {
            // Also of one that was there: an append that nobody has synced, or a run that was killed, may have made it.
            self.sync_folder(Folder::Root)?;
            *is_durable = true;
        }
        let folder = self.root.folder(&name)?;
        // Of an earlier one that was cut off.
        folder.remove_unfinished()?;
        Ok(folder.replace(&name::file_name(id), bytes)?)
    }

    /// Whether there was a file to remove. What is no file of a segment stays where it is.
    pub(crate) fn unlink(&self, id: SegmentId) -> io::Result<bool> {
        let folder = match self.open_folder(id.0[0]) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) if odd_of(&error).is_some() => return Ok(false),
            Err(error) => return Err(error),
        };
        match folder.remove(&name::file_name(id)) {
            Err(FolderError::Odd(_)) => Ok(false),
            removed => Ok(removed?),
        }
    }

    /// Makes the names in `folder` durable.
    pub(crate) fn sync_folder(&self, folder: Folder) -> io::Result<()> {
        #[cfg(test)]
        self.faults.strike(faults::Call::Sync)?;
        match folder {
            Folder::Root => self.root.sync()?,
            Folder::Named(byte) => self.open_folder(byte)?.sync()?,
        }
        Ok(())
    }

    fn open_folder(&self, byte: u8) -> io::Result<HeldFolder> {
        Ok(self.root.folder(&name::folder_name(byte))?)
    }

    /// The first bytes of all segment names there can be, in order.
    pub(crate) fn folders(&self) -> io::Result<BTreeSet<u8>> {
        let entries = self.root.list()?.into_iter();
        Ok(entries
            .filter(|entry| entry.kind == FileType::Directory)
            .filter_map(|entry| name::parse_folder(entry.name.as_bytes()))
            .collect())
    }

    /// What has the name of a folder of segments and is none.
    pub(crate) fn odd_folders(&self) -> io::Result<Vec<Odd>> {
        let mut found = Vec::new();
        for entry in self.root.list()? {
            let is_ours = name::parse_folder(entry.name.as_bytes()).is_some();
            if is_ours && let Err(FolderError::Odd(odd)) = self.root.check_folder(&entry.name) {
                found.push(odd);
            }
        }
        found.sort_unstable_by(|one, next| one.path.cmp(&next.path));
        Ok(found)
    }

    /// The segments whose name begins with `byte`, in order. What has another name is left alone.
    pub(crate) fn segments_in(&self, byte: u8) -> io::Result<BTreeSet<SegmentId>> {
        let entries = match self.open_folder(byte) {
            // It became something else since its name was listed.
            Err(error) if odd_of(&error).is_some() => return Ok(BTreeSet::new()),
            folder => folder?.list()?,
        };
        let names = entries.iter().map(|entry| entry.name.as_bytes());
        Ok(names
            .filter_map(|name| name::parse_file(byte, name))
            .collect())
    }
}

impl SegmentFile {
    /// Reads into `buffer` until it is full or the file ends; gives the count of bytes read.
    ///
    /// `buffer`, its length and `offset`: on sector boundaries.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let done = self.read_keeping(buffer, offset)?;
        if self.transfer == Transfer::Buffered {
            self.forget_pages(offset, done as u64)?;
        }
        Ok(done)
    }

    /// The same of a file from `open_cached`: what is read stays in the page cache.
    pub(crate) fn read_keeping(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        #[cfg(test)]
        self.faults.strike(faults::Call::Read)?;
        let mut done = 0;
        while done < buffer.len() {
            let count = match self.read_some(&mut buffer[done..], offset + done as u64) {
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            done += count;
            // Only the end of the file stops a transfer off the sector grid, and the grid must be kept.
            if count == 0 || !done.is_multiple_of(SECTOR_BYTES) {
                break;
            }
        }
        Ok(done)
    }

    /// As `read_keeping`, if the page cache has all of it; gives whether it did. If not, the system may begin to fetch it.
    pub(crate) fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        let mut parts = [IoSliceMut::new(buffer)];
        match rustix::io::preadv2(&self.file, &mut parts, offset, ReadWriteFlags::NOWAIT) {
            Ok(count) => Ok(count == buffer.len()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes all of `buffer` at `offset`; on an error an unknown part of it is written.
    ///
    /// `buffer`, its length and `offset`: on sector boundaries.
    pub(crate) fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            #[cfg(test)]
            self.faults.strike_write(self, buffer, done, offset)?;
            let count = match self.write_some(&buffer[done..], offset + done as u64) {
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            // A partial sector is written again as a whole. Less than a sector is no progress at all.
            let whole = count / SECTOR_BYTES * SECTOR_BYTES;
            if whole == 0 {
                return Err(Errno::NOSPC.into());
            }
            done += whole;
        }
        Ok(())
    }

    fn read_some(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        match self.transfer {
            Transfer::DontCache => rustix::io::preadv2(
                &self.file,
                &mut [IoSliceMut::new(buffer)],
                offset,
                DONT_CACHE,
            ),
            Transfer::Direct | Transfer::Buffered => rustix::io::pread(&self.file, buffer, offset),
        }
    }

    fn write_some(&self, buffer: &[u8], offset: u64) -> Result<usize, Errno> {
        match self.transfer {
            Transfer::DontCache => {
                rustix::io::pwritev2(&self.file, &[IoSlice::new(buffer)], offset, DONT_CACHE)
            }
            Transfer::Direct | Transfer::Buffered => rustix::io::pwrite(&self.file, buffer, offset),
        }
    }

    /// What was written is durable on return, with the length of the file.
    pub(crate) fn sync_data(&self) -> io::Result<()> {
        #[cfg(test)]
        self.faults.strike(faults::Call::Sync)?;
        fs::fdatasync(&self.file)?;
        // `RWF_DONTCACHE` drops what it wrote too, but later than here, and not all.
        if self.transfer != Transfer::Direct {
            self.forget_pages(0, 0)?;
        }
        Ok(())
    }

    /// Drops clean pages from the page cache; `len` 0 means to the end of the file.
    fn forget_pages(&self, offset: u64, len: u64) -> io::Result<()> {
        let advised = fs::fadvise(
            &self.file,
            offset,
            len.try_into().ok(),
            fs::Advice::DontNeed,
        );
        match advised {
            // Advice: a file system without pages to drop may say so.
            Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets room aside up to `end` without changing the length.
    pub(crate) fn allocate(&self, end: u64) -> io::Result<Allocated> {
        match fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, end) {
            Ok(()) => Ok(Allocated::Yes),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(Allocated::Unknown),
            Err(error) => Err(error.into()),
        }
    }

    /// Cuts the file to `len` bytes and gives back the room set aside behind them.
    pub(crate) fn cut(&self, len: u64) -> io::Result<()> {
        Ok(fs::ftruncate(&self.file, len)?)
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(u64::try_from(fs::fstat(&self.file)?.st_size).unwrap_or(0))
    }

    /// The second since 1970 in which it was last written or read, whichever is later.
    pub(crate) fn last_used_s(&self) -> io::Result<u64> {
        let found = fs::fstat(&self.file)?;
        let last = found.st_atime.max(found.st_mtime);
        Ok(u64::try_from(last).unwrap_or(0))
    }

    /// Bytes the file takes on the disk.
    #[cfg(test)]
    pub(crate) fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(u64::try_from(fs::fstat(&self.file)?.st_blocks).unwrap_or(0) * 512)
    }
}

fn transfer_flag(transfer: Transfer) -> OFlags {
    match transfer {
        Transfer::Direct => OFlags::DIRECT,
        Transfer::DontCache | Transfer::Buffered => OFlags::empty(),
    }
}

/// What the system said.
fn errno_of(error: FolderError) -> Errno {
    match error {
        FolderError::Io(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
        _ => Errno::IO,
    }
}

/// Errors on demand, for the tests of this crate.
#[cfg(test)]
pub(crate) mod faults {
    use std::io;
    use std::sync::{Arc, Barrier};

    use parking_lot::Mutex;
    use rustix::io::Errno;

    use super::SegmentFile;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Call {
        Read,
        Write,
        Sync,
    }

    /// What happens to the next calls.
    #[derive(Default)]
    pub(crate) struct Faults {
        /// The kind of call that fails, how many of it succeed first, with what it fails.
        plan: Mutex<Option<(Call, u32, Errno)>>,
        /// A sync that waits in the middle.
        held: Mutex<Option<Arc<Held>>>,
    }

    /// A call held inside the system.
    pub(crate) struct Held {
        entered: Barrier,
        released: Barrier,
    }

    impl Held {
        pub(crate) fn wait_until_held(&self) {
            self.entered.wait();
        }

        pub(crate) fn release(&self) {
            self.released.wait();
        }
    }

    impl Faults {
        pub(crate) fn plan(&self, call: Call, after: u32, error: Errno) {
            *self.plan.lock() = Some((call, after, error));
        }

        pub(crate) fn hold_next_sync(&self) -> Arc<Held> {
            let held = Arc::new(Held {
                entered: Barrier::new(2),
                released: Barrier::new(2),
            });
            *self.held.lock() = Some(Arc::clone(&held));
            held
        }

        pub(super) fn strike(&self, call: Call) -> io::Result<()> {
            let held = if call == Call::Sync {
                self.held.lock().take()
            } else {
                None
            };
            if let Some(held) = held {
                held.entered.wait();
                held.released.wait();
            }
            let mut plan = self.plan.lock();
            match &mut *plan {
                Some((planned, 0, error)) if *planned == call => {
                    let error = *error;
                    *plan = None;
                    Err(error.into())
                }
                Some((planned, after, _)) if *planned == call => {
                    *after -= 1;
                    Ok(())
                }
                _ => Ok(()),
            }
        }

        /// Like `strike`, but leaves half of the buffer on the disk, as a real disk may.
        pub(super) fn strike_write(
            &self,
            file: &SegmentFile,
            buffer: &[u8],
            done: usize,
            offset: u64,
        ) -> io::Result<()> {
            self.strike(Call::Write).inspect_err(|_| {
                let half = (buffer.len() - done) / 2 / 4096 * 4096;
                if half > 0 {
                    file.write_some(&buffer[done..done + half], offset + done as u64)
                        .expect("half is written");
                }
            })
        }
    }
}

//! The only file that speaks to the disk: folders, files, and the ways bytes move.
//!
//! Takes   names below the folder of segments, buffers that begin on a sector boundary
//! Gives   what the system answers; interrupted and partial transfers are carried on
//! Never   follows a symbolic link, waits on a pipe, or decides what an error means for a segment

use std::collections::BTreeSet;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use strongroom_format::SegmentId;
use strongroom_format::limits::SECTOR_BYTES;

use crate::buffer::Pool;
use crate::{Access, DirectIo, Transfer, name};

/// `RWF_DONTCACHE`, Linux 6.14 and later: what the transfer brings into the page cache leaves it after.
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
const PROBE: &str = ".probe";
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
    root: OwnedFd,
    access: Access,
    transfer: Transfer,
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
    /// Opens the folder at `path`, durably made if it is missing and `access` allows it.
    pub(crate) fn open(
        path: &Path,
        access: Access,
        direct: DirectIo,
        pool: &Arc<Pool>,
    ) -> io::Result<Self> {
        if access == Access::ReadWrite {
            match fs::mkdir(path, Mode::RWXU) {
                Ok(()) => sync_parent(path)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let root = fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let mut disk = Self {
            root,
            access,
            transfer: Transfer::Buffered,
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
        let made = if self.access == Access::ReadWrite {
            self.make_probe(transfer)
        } else {
            Err(Errno::ROFS)
        };
        match made {
            Ok(probe) => {
                let tried = match probe.write_some(&sector, 0) {
                    // A full disk refuses the bytes, not the way they came; the vault must still open.
                    Ok(_) | Err(Errno::NOSPC | Errno::DQUOT) => {
                        probe.read_some(&mut sector, 0).map(drop)
                    }
                    Err(error) => Err(error),
                };
                fs::unlinkat(&self.root, PROBE, AtFlags::empty())?;
                tried
            }
            Err(Errno::NOSPC | Errno::DQUOT | Errno::ROFS) => {
                self.try_reading(transfer, &mut sector)
            }
            Err(error) => Err(error),
        }
    }

    fn make_probe(&self, transfer: Transfer) -> Result<SegmentFile, Errno> {
        match fs::unlinkat(&self.root, PROBE, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let file = fs::openat(
            &self.root,
            PROBE,
            create_flags(transfer),
            Mode::RUSR | Mode::WUSR,
        )?;
        Ok(self.wrap(file, transfer))
    }

    /// Without a file to read, anything will do: nothing will be read either.
    fn try_reading(&self, transfer: Transfer, sector: &mut [u8]) -> Result<(), Errno> {
        let Some(id) = self.first_segment() else {
            return Ok(());
        };
        let flags = OFlags::RDONLY | common_flags(transfer);
        let file = fs::openat(&self.root, name::path(id), flags, Mode::empty())?;
        self.wrap(file, transfer).read_some(sector, 0).map(drop)
    }

    fn first_segment(&self) -> Option<SegmentId> {
        let folders = self.folders().ok()?;
        folders
            .into_iter()
            .find_map(|byte| self.segments_in(byte).ok()?.into_iter().next())
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
        match fs::mkdirat(&self.root, name::folder_name(id.0[0]), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = create_flags(self.transfer);
        let file = fs::openat(&self.root, name::path(id), flags, Mode::RUSR | Mode::WUSR)?;
        Ok(self.wrap(file, self.transfer))
    }

    /// Opens the file of `id`, for writing too if the store is.
    pub(crate) fn open_segment(&self, id: SegmentId) -> io::Result<SegmentFile> {
        let access = match self.access {
            Access::ReadWrite => OFlags::RDWR,
            Access::ReadOnly => OFlags::RDONLY,
        };
        let flags = access | common_flags(self.transfer);
        let file = fs::openat(&self.root, name::path(id), flags, Mode::empty())?;
        if FileType::from_raw_mode(fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a segment that is no regular file",
            ));
        }
        Ok(self.wrap(file, self.transfer))
    }

    /// Whether there was a file to remove.
    pub(crate) fn unlink(&self, id: SegmentId) -> io::Result<bool> {
        match fs::unlinkat(&self.root, name::path(id), AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the names in `folder` durable.
    pub(crate) fn sync_folder(&self, folder: Folder) -> io::Result<()> {
        #[cfg(test)]
        self.faults.strike(faults::Call::Sync)?;
        match folder {
            Folder::Root => fs::fsync(&self.root)?,
            Folder::Named(byte) => fs::fsync(self.open_folder(byte)?)?,
        }
        Ok(())
    }

    fn open_folder(&self, byte: u8) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        fs::openat(&self.root, name::folder_name(byte), flags, Mode::empty())
    }

    /// The first bytes of all segment names there can be, in order.
    pub(crate) fn folders(&self) -> io::Result<BTreeSet<u8>> {
        let mut found = BTreeSet::new();
        for entry in Dir::read_from(&self.root)? {
            found.extend(name::parse_folder(entry?.file_name().to_bytes()));
        }
        Ok(found)
    }

    /// The segments whose name begins with `byte`, in order. What has another name is left alone.
    pub(crate) fn segments_in(&self, byte: u8) -> io::Result<BTreeSet<SegmentId>> {
        let mut found = BTreeSet::new();
        for entry in Dir::read_from(self.open_folder(byte)?)? {
            found.extend(name::parse_file(byte, entry?.file_name().to_bytes()));
        }
        Ok(found)
    }
}

impl SegmentFile {
    /// Reads into `buffer` until it is full or the file ends; gives the count of bytes read.
    ///
    /// `buffer`, its length and `offset`: on sector boundaries.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
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
        if self.transfer == Transfer::Buffered {
            self.forget_pages(offset, done as u64)?;
        }
        Ok(done)
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

    /// Bytes the file takes on the disk.
    #[cfg(test)]
    pub(crate) fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(u64::try_from(fs::fstat(&self.file)?.st_blocks).unwrap_or(0) * 512)
    }
}

/// `NONBLOCK` matters only for what is no regular file: opening a pipe must not wait.
fn common_flags(transfer: Transfer) -> OFlags {
    let direct = if transfer == Transfer::Direct {
        OFlags::DIRECT
    } else {
        OFlags::empty()
    };
    OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | direct
}

fn create_flags(transfer: Transfer) -> OFlags {
    OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | common_flags(transfer)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let parent = fs::open(
        parent,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    Ok(fs::fsync(parent)?)
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

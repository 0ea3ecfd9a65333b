//! An open file of a vault.
//!
//! Takes   ranges of bytes
//! Gives   what `std::fs::File` gives: reads and writes at a position or at an offset, from many threads
//! Never   buffers: once a write has returned, every other reader of the vault sees it

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use strongroom_filesystem::{
    self as filesystem, AllocateMode, Attributes, InodeId, SeekTarget, SetAttributes, Timestamp,
};

use crate::limits::TRANSFER_BYTES_MAX;
use crate::owner::client::Unanswered;
use crate::owner::port::Port;
use crate::request::frame::Bytes;
use crate::request::{Creation, Handle, Opening, Request, Response};
use crate::{Error, Result, Vault};

/// How often two files of one copy are brought to the same owner; each time an owner has gone.
const FOLLOWS_MAX: usize = 4;

/// How to open a file: like `std::fs::OpenOptions`.
///
/// ```
/// use strongroom::FileOptions;
/// let options = FileOptions::new().write().create().mode(0o600);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    pub(crate) opening: Opening,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl FileOptions {
    /// Opens nothing yet: add at least `read`, `write` or `append`. New files get mode 0644.
    #[must_use]
    pub fn new() -> Self {
        Self {
            opening: Opening {
                mode: 0o644,
                ..Opening::default()
            },
        }
    }

    /// To read.
    #[must_use]
    pub fn read(mut self) -> Self {
        self.opening.read = true;
        self
    }

    /// To write.
    #[must_use]
    pub fn write(mut self) -> Self {
        self.opening.write = true;
        self
    }

    /// To write at the end only, wherever that is at each write.
    #[must_use]
    pub fn append(mut self) -> Self {
        self.opening.append = true;
        self
    }

    /// To empty it first. Needs `write`.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.opening.truncate = true;
        self
    }

    /// To make it if it does not exist.
    #[must_use]
    pub fn create(mut self) -> Self {
        self.opening.create = Creation::IfMissing;
        self
    }

    /// To make it, and fail if it exists.
    #[must_use]
    pub fn create_new(mut self) -> Self {
        self.opening.create = Creation::Always;
        self
    }

    /// The mode of a new file: the low 12 bits. No umask is applied.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.opening.mode = mode;
        self
    }

    /// # Errors
    /// `InvalidArgument` for combinations that mean nothing.
    pub(crate) fn checked(self) -> Result<Opening> {
        let opening = self.opening;
        let writes = opening.write || opening.append;
        let bad = if !opening.read && !writes {
            "open the file to read, write or append"
        } else if opening.truncate && !opening.write {
            "to truncate, open the file for writing"
        } else if opening.create != Creation::Never && !writes {
            "to create, open the file for writing"
        } else {
            return Ok(opening);
        };
        Err(Error::File(filesystem::Error::InvalidArgument(bad.into())))
    }
}

/// An open file. Closed when dropped; what was written stays write-behind until `sync_all` or the vault's `sync`.
///
/// Usable from many threads; `Read`, `Write` and `Seek` share one position, `read_at` and `write_at` need none.
///
/// If another process owns the vault and goes, the file goes on through the next owner: it is the same file, whatever its name is
/// by then. It does not where that could hide a loss, and says so from then on; open the file again then:
/// - `OwnerGone`: something was written through it that was not synced, and the owner did not close the vault in order. What of it is
///   there, only a look can tell.
/// - `LockLost`: it held a lock, which others may have had since.
/// - `File(Stale)`: the file is not there any more: it had lost its last name, or its creation was not synced.
pub struct File {
    pub(crate) vault: Vault,
    /// Where it is open.
    at: RwLock<(Port, Handle)>,
    node: Identity,
    /// Of a file of a snapshot: its number is known only where its path was looked up.
    snapshot_path: Option<Vec<u8>>,
    /// How to open it again.
    opening: Opening,
    position: Mutex<u64>,
    /// The number of the newest write, and that of the newest write that is durable: see `Shared::writes`.
    written: AtomicU64,
    durable: AtomicU64,
    pub(crate) locked: AtomicBool,
    /// Why it does not go on.
    ended: OnceLock<Ended>,
}

/// Why a file does not go on through the next owner.
#[derive(Clone, Copy)]
enum Ended {
    Unsynced,
    LockLost,
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Unsynced => Self::OwnerGone,
            Ended::LockLost => Self::LockLost,
        }
    }
}

/// The number of a file and when it was made, so that it is not taken for another one that has its number after a crash.
type Identity = (InodeId, Timestamp);

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("inode", &self.node.0.0)
            .finish_non_exhaustive()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A session that has gone has closed everything already.
        let (port, handle) = self.at();
        let _ = port.ask(&Request::Close { handle });
    }
}

impl File {
    /// What an answer of `port` to a request of `vault` opened; `path` if that was one to open it by.
    pub(crate) fn new(
        vault: &Vault,
        (port, response): (Port, Response),
        opening: Opening,
        path: Option<&[u8]>,
    ) -> Result<Self> {
        let (handle, attributes): (_, Attributes) = response.try_into()?;
        let in_snapshot = filesystem::is_in_snapshot(attributes.inode);
        Ok(Self {
            vault: vault.clone(),
            at: RwLock::new((port, handle)),
            node: (attributes.inode, attributes.btime),
            snapshot_path: path.filter(|_| in_snapshot).map(<[u8]>::to_vec),
            opening: Opening {
                create: Creation::Never,
                truncate: false,
                ..opening
            },
            position: Mutex::new(0),
            written: AtomicU64::default(),
            durable: AtomicU64::default(),
            locked: AtomicBool::default(),
            ended: OnceLock::new(),
        })
    }

    pub(crate) fn inode(&self) -> InodeId {
        self.node.0
    }

    /// All that it holds.
    pub(crate) fn read_whole(&self) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        let mut part = vec![0; TRANSFER_BYTES_MAX];
        loop {
            let count = self.read_at(&mut part, content.len() as u64)?;
            content.extend_from_slice(&part[..count]);
            if count < part.len() {
                return Ok(content);
            }
        }
    }

    /// Where it is open now.
    pub(crate) fn at(&self) -> (Port, Handle) {
        self.at.read().clone()
    }

    pub(crate) fn ask<'a, T: TryFrom<Response, Error = Error>>(
        &self,
        request: impl Fn(Handle) -> Request<'a>,
    ) -> Result<T> {
        self.ask_at(request)?.1.try_into()
    }

    /// Asks, and if the owner has gone, goes on through the next one.
    pub(crate) fn ask_at<'a>(
        &self,
        request: impl Fn(Handle) -> Request<'a>,
    ) -> Result<(Port, Response)> {
        self.on_port(|port, handle| port.ask(&request(handle)))
    }

    fn on_port<T>(
        &self,
        mut ask: impl FnMut(&Port, Handle) -> std::result::Result<T, Unanswered>,
    ) -> Result<(Port, T)> {
        loop {
            if let Some(ended) = self.ended.get() {
                return Err((*ended).into());
            }
            let (port, handle) = self.at();
            match ask(&port, handle) {
                Ok(response) => return Ok((port, response)),
                Err(Unanswered::Failed(error)) => return Err(error),
                Err(Unanswered::NotDone) => self.go_on(&port)?,
                // A change that may have been made.
                Err(Unanswered::Unknown) => {
                    self.go_on(&port)?;
                    return Err(Error::OwnerGone);
                }
            }
        }
    }

    /// Opens the file at the next owner, unless that could hide a loss.
    fn go_on(&self, gone: &Port) -> Result<()> {
        let mut at = self.at.write();
        if !at.0.is_same(gone) {
            return Ok(());
        }
        let is_unsynced = {
            let durable = self.durable.load(Ordering::Acquire);
            let durable = durable.max(gone.synced());
            self.written.load(Ordering::Acquire) > durable
        };
        let ended = if self.locked.load(Ordering::Acquire) {
            Some(Ended::LockLost)
        } else {
            is_unsynced.then_some(Ended::Unsynced)
        };
        if let Some(ended) = ended {
            return Err((*self.ended.get_or_init(|| ended)).into());
        }
        let opening = self.opening;
        let (port, response) = self.vault.ask(&match &self.snapshot_path {
            Some(path) => Request::Open {
                path: Bytes(path),
                opening,
            },
            None => Request::Reopen {
                inode: self.node.0.0,
                opening,
            },
        })?;
        let (handle, found): (_, Attributes) = response.try_into()?;
        if (found.inode, found.btime) != self.node {
            // Another one has its number, or the selector in its path means another state now.
            let _ = port.ask(&Request::Close { handle });
            return Err(Error::File(filesystem::Error::Stale));
        }
        *at = (port, handle);
        Ok(())
    }

    /// Asks for a change.
    fn change<'a, T: TryFrom<Response, Error = Error>>(
        &self,
        request: impl Fn(Handle) -> Request<'a>,
    ) -> Result<T> {
        let mut sent_to = None;
        let answer = self.on_port(|port, handle| {
            let answer = port.ask(&request(handle));
            if !matches!(answer, Err(Unanswered::NotDone)) {
                sent_to = Some(port.clone());
            }
            answer
        });
        if let Some(port) = sent_to {
            self.note_written(&port)?;
        }
        answer?.1.try_into()
    }

    /// Notes a change that `port` may have made. After it: a sync that began before covers less.
    fn note_written(&self, port: &Port) -> Result<()> {
        // Here it goes when this process goes, and the file with it.
        if matches!(port, Port::Owner(_)) {
            return Ok(());
        }
        let number = 1 + self.vault.shared.writes.fetch_add(1, Ordering::AcqRel);
        self.written.fetch_max(number, Ordering::AcqRel);
        // Another thread went on to the next owner before it could know of this.
        if self.at().0.is_same(port) {
            Ok(())
        } else {
            Err((*self.ended.get_or_init(|| Ended::Unsynced)).into())
        }
    }

    /// What `stat` tells.
    ///
    /// # Errors
    /// Those of a file whose owner has gone, see `File`; true of every method here.
    pub fn attributes(&self) -> Result<Attributes> {
        self.ask(|handle| Request::HandleAttributes { handle })
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// `NotOpenFor` if the size shall change and the file is not open for writing.
    pub fn set_attributes(&self, set: &SetAttributes) -> Result<Attributes> {
        self.change(|handle| Request::SetHandleAttributes {
            handle,
            set: set.clone(),
        })
    }

    /// Cuts the file, or extends it by a hole, to `len` bytes.
    ///
    /// # Errors
    /// As `set_attributes`.
    pub fn set_len(&self, len: u64) -> Result<()> {
        let set = SetAttributes {
            size: Some(len),
            ..SetAttributes::default()
        };
        self.set_attributes(&set).map(drop)
    }

    /// Fills `buffer` from `offset` as far as the file goes; gives the count of bytes.
    ///
    /// # Errors
    /// `Damaged` names the first byte that cannot be read.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let count = self.read_part(&mut buffer[done..], offset + done as u64)?;
            if count == 0 {
                break;
            }
            done += count;
        }
        Ok(done)
    }

    /// Reads at most `TRANSFER_BYTES_MAX` bytes.
    fn read_part(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.on_port(|port, handle| port.read(handle, offset, buffer))?;
        Ok(read.1)
    }

    /// Writes all of `data` at `offset`, or at the end if the file was opened to append.
    ///
    /// # Errors
    /// `NoSpace`, `FileTooLarge` and the like; then a part of `data` may be written.
    pub fn write_all_at(&self, data: &[u8], offset: u64) -> Result<()> {
        let mut at = offset;
        for part in data.chunks(TRANSFER_BYTES_MAX) {
            self.write_part(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes one part; gives the offset it went to.
    fn write_part(&self, part: &[u8], offset: u64) -> Result<u64> {
        let data = Bytes(part);
        self.change(|handle| Request::Write {
            handle,
            offset,
            data,
        })
    }

    /// Makes content, size, attributes and name durable.
    ///
    /// # Errors
    /// If the disk fails, the vault accepts no change until it is opened again.
    pub fn sync_all(&self) -> Result<()> {
        let written = self.written.load(Ordering::Acquire);
        self.ask::<()>(|handle| Request::SyncHandle { handle })?;
        self.durable.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    /// Makes content and size durable. It costs the same as `sync_all` and does the same: attributes go with them.
    ///
    /// # Errors
    /// As `sync_all`.
    pub fn sync_data(&self) -> Result<()> {
        self.sync_all()
    }

    /// Reserves, punches or zeroes a range, as `fallocate(2)`.
    ///
    /// # Errors
    /// `NoSpace` if the reservation cannot be kept.
    pub fn allocate(&self, mode: AllocateMode, offset: u64, len: u64) -> Result<()> {
        self.change(|handle| Request::Allocate {
            handle,
            mode,
            offset,
            len,
        })
    }

    /// The next data or hole at or behind `offset`.
    ///
    /// # Errors
    /// `NoSuchOffset` beyond the end.
    pub fn find(&self, target: SeekTarget, offset: u64) -> Result<u64> {
        self.ask(|handle| Request::Seek {
            handle,
            target,
            offset,
        })
    }

    /// Copies a range into `target` of the same vault by sharing blocks: no content is moved.
    ///
    /// Gives the count of bytes: fewer than `len` at the end of this file, or if something fails behind those. The next call, which
    /// begins there, gives the error.
    ///
    /// # Errors
    /// `InvalidArgument` if `target` was opened through another `Vault`; `NotOpenFor` if it was opened to append.
    pub fn copy_range(
        &self,
        offset: u64,
        target: &Self,
        target_offset: u64,
        len: u64,
    ) -> Result<u64> {
        if !self.vault.is_same(&target.vault) {
            return Err(Error::File(filesystem::Error::InvalidArgument(
                "the files belong to two vault handles".into(),
            )));
        }
        // One of the two may have to follow the other to the next owner.
        for _ in 0..FOLLOWS_MAX {
            let (port, into) = target.at();
            let (asked, response) = self.on_port(|own, source| match own.is_same(&port) {
                true => {
                    let request = Request::CopyRange {
                        source,
                        source_offset: offset,
                        target: into,
                        target_offset,
                        len,
                    };
                    own.ask(&request).map(Some)
                }
                false => Ok(None),
            })?;
            match response {
                Some(response) => {
                    target.note_written(&port)?;
                    return response.try_into();
                }
                None => {
                    let behind = if asked.is_gone() { self } else { target };
                    behind.attributes()?;
                }
            }
        }
        Err(Error::OwnerGone)
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut position = self.position.lock();
        let count = self.read_part(buffer, *position)?;
        *position += count as u64;
        Ok(count)
    }
}

impl Write for &File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let part = &data[..data.len().min(TRANSFER_BYTES_MAX)];
        if part.is_empty() {
            return Ok(0);
        }
        let mut position = self.position.lock();
        let at = self.write_part(part, *position)?;
        *position = if self.opening.append { at } else { *position } + part.len() as u64;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        let mut position = self.position.lock();
        let to = match target {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => position.checked_add_signed(by),
            SeekFrom::End(by) => self.attributes()?.size.checked_add_signed(by),
        };
        let to = to.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "a position before the start")
        })?;
        *position = to;
        Ok(to)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        (&*self).seek(target)
    }
}

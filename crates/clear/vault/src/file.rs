//! An open file of a vault.
//!
//! Takes   ranges of bytes
//! Gives   what `std::fs::File` gives: reads and writes at a position or at an offset, from many threads
//! Never   buffers: a write that returned is seen by every other reader of the vault

use std::io::{self, Read, Seek, SeekFrom, Write};

use parking_lot::Mutex;
use strongroom_filesystem::{
    self as filesystem, AllocateMode, Attributes, SeekTarget, SetAttributes,
};

use crate::limits::TRANSFER_BYTES_MAX;
use crate::owner::port::{Port, unexpected};
use crate::request::frame::Bytes;
use crate::request::{Creation, Handle, NodeFields, Opening, Request, Response, SetFields};
use crate::{Error, Result};

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
            "a file is opened to read, write or append"
        } else if opening.truncate && !opening.write {
            "to truncate, open the file for writing"
        } else if opening.create != Creation::Never && !writes {
            "to create, open the file for writing"
        } else {
            return Ok(opening);
        };
        Err(Error::File(filesystem::Error::InvalidArgument(bad)))
    }
}

/// An open file. Closed when dropped; what was written stays write-behind until `sync_all` or the vault's `sync`.
///
/// Usable from many threads; `Read`, `Write` and `Seek` share one position, `read_at` and `write_at` need none.
pub struct File {
    port: Port,
    handle: Handle,
    position: Mutex<u64>,
    append: bool,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("handle", &self.handle.0)
            .finish_non_exhaustive()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A session that has gone has closed everything already.
        let _ = self.port.ask(&Request::Close {
            handle: self.handle,
        });
    }
}

impl File {
    pub(crate) fn new(port: Port, handle: Handle, append: bool) -> Self {
        Self {
            port,
            handle,
            position: Mutex::new(0),
            append,
        }
    }

    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    fn ask(&self, request: &Request<'_>) -> Result<Response> {
        self.port.ask_here(request)
    }

    fn ask_attributes(&self, request: &Request<'_>) -> Result<Attributes> {
        match self.ask(request)? {
            Response::Attributes(fields) => fields.try_into(),
            _ => Err(unexpected()),
        }
    }

    /// What `stat` tells.
    ///
    /// # Errors
    /// `OwnerGone` if the process that had the vault open has gone; true of every method here.
    pub fn attributes(&self) -> Result<Attributes> {
        self.ask_attributes(&Request::HandleAttributes {
            handle: self.handle,
        })
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// `NotOpenFor` if the size shall change and the file is not open for writing.
    pub fn set_attributes(&self, set: &SetAttributes) -> Result<Attributes> {
        self.ask_attributes(&Request::SetHandleAttributes {
            handle: self.handle,
            set: SetFields::from(set),
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
            let count = self
                .port
                .read(self.handle, offset + done as u64, &mut buffer[done..])?;
            if count == 0 {
                break;
            }
            done += count;
        }
        Ok(done)
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
        match self.ask(&Request::Write {
            handle: self.handle,
            offset,
            data: Bytes(part),
        })? {
            Response::Count(at) => Ok(at),
            _ => Err(unexpected()),
        }
    }

    /// Makes content, size, attributes and name durable.
    ///
    /// # Errors
    /// If the disk fails, the vault accepts no change until it is opened again.
    pub fn sync_all(&self) -> Result<()> {
        self.ask(&Request::SyncHandle {
            handle: self.handle,
        })
        .map(drop)
    }

    /// Reserves, punches or zeroes a range, as `fallocate(2)`.
    ///
    /// # Errors
    /// `NoSpace` if the reservation cannot be kept.
    pub fn allocate(&self, mode: AllocateMode, offset: u64, len: u64) -> Result<()> {
        self.ask(&Request::Allocate {
            handle: self.handle,
            mode: mode.into(),
            offset,
            len,
        })
        .map(drop)
    }

    /// The next data or hole at or behind `offset`.
    ///
    /// # Errors
    /// `NoSuchOffset` beyond the end.
    pub fn find(&self, target: SeekTarget, offset: u64) -> Result<u64> {
        match self.ask(&Request::Seek {
            handle: self.handle,
            target: target.into(),
            offset,
        })? {
            Response::Count(offset) => Ok(offset),
            _ => Err(unexpected()),
        }
    }

    /// Copies a range into `target` of the same vault by sharing blocks: no content is moved.
    ///
    /// Gives the count of bytes, less than `len` only at the end of this file.
    ///
    /// # Errors
    /// `InvalidArgument` if `target` was opened through another `Vault`.
    pub fn copy_range(
        &self,
        offset: u64,
        target: &Self,
        target_offset: u64,
        len: u64,
    ) -> Result<u64> {
        if !self.port.is_same(&target.port) {
            return Err(Error::File(filesystem::Error::InvalidArgument(
                "files of two openings",
            )));
        }
        let (source, target) = (self.handle, target.handle);
        match self.ask(&Request::CopyRange {
            source,
            source_offset: offset,
            target,
            target_offset,
            len,
        })? {
            Response::Count(count) => Ok(count),
            _ => Err(unexpected()),
        }
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut position = self.position.lock();
        let count = self.port.read(self.handle, *position, buffer)?;
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
        *position = if self.append { at } else { *position } + part.len() as u64;
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

/// What an open request answered.
pub(crate) fn opened(response: Response) -> Result<(Handle, NodeFields)> {
    match response {
        Response::Opened(handle, fields) => Ok((handle, fields)),
        _ => Err(unexpected()),
    }
}

//! The bytes of files.
//!
//! Takes   ranges
//! Gives   bytes
//! Never   distinguishes holes: they are zeros
//! Spec    write(2), ftruncate(2), fallocate(2), lseek(2), copy_file_range(2)

use std::sync::Arc;

use strongroom_filesystem::{AllocateMode, Error, InodeId, Result, SeekTarget};

use super::node::{Contents, State};

/// The model keeps files as they are, so it refuses what no test should ask of it.
const FILE_BYTES_MAX: u64 = 64 << 20;

fn index(offset: u64) -> Result<usize> {
    if offset > FILE_BYTES_MAX {
        return Err(Error::FileTooLarge);
    }
    usize::try_from(offset).map_err(|_| Error::FileTooLarge)
}

impl State {
    fn bytes(&self, inode: InodeId) -> Result<&Arc<Vec<u8>>> {
        match &self.node(inode)?.contents {
            Contents::Bytes(bytes) => Ok(bytes),
            Contents::Entries(_) => Err(Error::IsADirectory),
            Contents::Target(_) | Contents::Nothing => {
                Err(Error::InvalidArgument("not a regular file".into()))
            }
        }
    }

    /// The bytes to be changed; their time is no longer the one somebody set.
    fn bytes_mut(&mut self, inode: InodeId) -> Result<&mut Vec<u8>> {
        self.bytes(inode)?;
        let node = self.node_mut(inode)?;
        node.mtime = None;
        match &mut node.contents {
            Contents::Bytes(bytes) => Ok(Arc::make_mut(bytes)),
            _ => Err(Error::InvalidArgument("not a regular file".into())),
        }
    }

    pub(super) fn read(&mut self, inode: InodeId, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let bytes = self.bytes(inode)?;
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|start| bytes.get(start..))
            .unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.node_mut(inode)?.atime = None;
        Ok(count)
    }

    pub(super) fn write(&mut self, inode: InodeId, offset: u64, data: &[u8]) -> Result<()> {
        self.bytes(inode)?;
        if data.is_empty() {
            return Ok(());
        }
        let (start, end) = (
            index(offset)?,
            index(offset.saturating_add(data.len() as u64))?,
        );
        let bytes = self.bytes_mut(inode)?;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(data);
        Ok(())
    }

    pub(super) fn append(&mut self, inode: InodeId, data: &[u8]) -> Result<u64> {
        let end = self.bytes(inode)?.len() as u64;
        self.write(inode, end, data)?;
        Ok(end)
    }

    pub(super) fn set_size(&mut self, inode: InodeId, size: u64) -> Result<()> {
        let size = index(size)?;
        self.bytes_mut(inode)?.resize(size, 0);
        Ok(())
    }

    pub(super) fn allocate(
        &mut self,
        inode: InodeId,
        mode: AllocateMode,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        if len == 0 {
            return Err(Error::InvalidArgument("a length of zero".into()));
        }
        self.bytes(inode)?;
        let (start, end) = (index(offset)?, index(offset.saturating_add(len))?);
        let bytes = self.bytes_mut(inode)?;
        if matches!(mode, AllocateMode::Reserve | AllocateMode::ZeroRange) && bytes.len() < end {
            bytes.resize(end, 0);
        }
        if matches!(
            mode,
            AllocateMode::PunchHole | AllocateMode::ZeroRange | AllocateMode::ZeroRangeKeepSize
        ) {
            let end = end.min(bytes.len());
            if start < end {
                bytes[start..end].fill(0);
            }
        }
        Ok(())
    }

    /// The model has no holes but the one at the end, which POSIX allows.
    pub(super) fn seek(&self, inode: InodeId, offset: u64, target: SeekTarget) -> Result<u64> {
        let size = self.bytes(inode)?.len() as u64;
        if offset >= size {
            return Err(Error::NoSuchOffset);
        }
        Ok(match target {
            SeekTarget::Data => offset,
            SeekTarget::Hole => size,
        })
    }

    pub(super) fn copy_range(
        &mut self,
        source: InodeId,
        source_offset: u64,
        target: InodeId,
        target_offset: u64,
        len: u64,
    ) -> Result<u64> {
        if source == target
            && source_offset < target_offset.saturating_add(len)
            && target_offset < source_offset.saturating_add(len)
        {
            return Err(Error::InvalidArgument("overlapping ranges".into()));
        }
        let bytes = self.bytes(source)?;
        self.bytes(target)?;
        let start = index(source_offset)?.min(bytes.len());
        let count = (bytes.len() - start).min(usize::try_from(len).unwrap_or(usize::MAX));
        let copied = bytes[start..start + count].to_vec();
        self.write(target, target_offset, &copied)?;
        Ok(count as u64)
    }
}

//! Nodes of kept states: what callers see below `.history`, through the same operations as everything else.
//!
//! Takes   a joined history, numbers of its nodes
//! Gives   attributes, entries and bytes of kept trees
//! Never   changes a kept node: whoever tries learns that it can only be read
//! Spec    spec/6-history.md, section 6.8
//!
//! Invariants
//!  (1) A number of a kept node has its top bit set, a number of a living one never has.

use std::sync::Arc;

use strongroom_format::BlockId;
use strongroom_metadata::{BlockNumber, Extent, Inode, InodeId, NodeKind, Transaction};

use crate::core::Core;
use crate::files::read::{Fetched, fetch_all, fetches_of};
use crate::history::{Engine, History};
use crate::limits::LIST_ENTRIES_MAX;
use crate::rules::name::Name;
use crate::rules::permission::{self, EXECUTE, READ};
use crate::{
    Attributes, Caller, Error, Filesystem, ListedEntry, Listing, Result, SeekTarget, Timestamp,
};

/// The directory of kept states in the root of a vault. It is in no listing.
pub const HISTORY_NAME: &[u8] = b".history";

/// The number of that directory.
pub const HISTORY_INODE: InodeId = InodeId(KEPT | 1);

/// (1)
pub(crate) const KEPT: u64 = 1 << 63;

/// Extents read at a time.
const EXTENTS_AT_ONCE: usize = 1024;

/// A byte range of a kept file and the part of a block that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptExtent {
    /// First byte in the file.
    pub start: u64,
    /// Count of bytes.
    pub len: u32,
    /// The block's name.
    pub block: BlockId,
    /// First byte inside the clear block.
    pub block_offset: u32,
}

/// Whether `inode` is a node of a kept state.
#[must_use]
pub const fn is_kept(inode: InodeId) -> bool {
    inode.0 & KEPT != 0
}

/// A history, asked about its nodes.
pub(crate) struct Kept<'a> {
    core: &'a Core,
    history: &'a Arc<dyn History>,
}

impl Filesystem {
    /// The history, if `inode` is one of its nodes.
    pub(crate) fn kept(&self, inode: InodeId) -> Option<Kept<'_>> {
        if is_kept(inode) { self.history() } else { None }
    }

    /// The history.
    pub(crate) fn history(&self) -> Option<Kept<'_>> {
        let core: &Core = &self.core;
        let history = core.history.get()?;
        Some(Kept { core, history })
    }
}

impl Core {
    /// Whether nothing else may have this name in `parent`.
    pub(crate) fn is_reserved(&self, parent: InodeId, name: Name<'_>) -> bool {
        parent == InodeId::ROOT && name.bytes() == HISTORY_NAME && self.history.get().is_some()
    }
}

impl Kept<'_> {
    fn engine(&self) -> Engine<'_> {
        Engine::of(self.core)
    }

    /// The directory of kept states; takes a reference.
    pub(crate) fn top(&self) -> Result<Attributes> {
        self.history.top(self.engine())
    }

    pub(crate) fn lookup(
        &self,
        caller: &Caller,
        parent: InodeId,
        name: &[u8],
    ) -> Result<Attributes> {
        self.require(caller, parent, EXECUTE)?;
        self.history.lookup(self.engine(), parent, name)
    }

    pub(crate) fn attributes(&self, inode: InodeId) -> Result<Attributes> {
        self.history.attributes(self.engine(), inode)
    }

    pub(crate) fn parent(&self, inode: InodeId) -> Result<InodeId> {
        self.history.parent(inode)
    }

    pub(crate) fn list(
        &self,
        caller: &Caller,
        inode: InodeId,
        after: u64,
        limit: usize,
        listing: Listing,
    ) -> Result<Vec<ListedEntry>> {
        let mask = match listing {
            Listing::Names => READ,
            _ => READ | EXECUTE,
        };
        self.require(caller, inode, mask)?;
        let limit = limit.min(LIST_ENTRIES_MAX);
        self.history
            .list(self.engine(), inode, after, limit, listing)
    }

    pub(crate) fn read_link(&self, inode: InodeId) -> Result<Vec<u8>> {
        self.history.read_link(inode)
    }

    pub(crate) fn access(&self, caller: &Caller, inode: InodeId, mask: u32) -> Result<()> {
        let attributes = self.attributes(inode)?;
        if mask & permission::WRITE != 0 {
            return Err(Error::KeptState);
        }
        if permission::allows(&as_inode(&attributes), caller, mask) {
            Ok(())
        } else {
            Err(Error::PermissionDenied)
        }
    }

    fn require(&self, caller: &Caller, inode: InodeId, mask: u32) -> Result<()> {
        let attributes = self.attributes(inode)?;
        if mask & EXECUTE != 0 && attributes.kind != NodeKind::Directory {
            return Err(Error::NotADirectory);
        }
        permission::require(&as_inode(&attributes), caller, mask)
    }

    pub(crate) fn xattr(&self, caller: &Caller, inode: InodeId, name: &[u8]) -> Result<Vec<u8>> {
        let attributes = as_inode(&self.attributes(inode)?);
        crate::names::xattr::require_kept_readable(&attributes, caller, name)?;
        let all = self.history.xattrs(self.engine(), inode)?;
        let found = all.into_iter().find(|(of, _)| of == name);
        found.map(|(_, value)| value).ok_or(Error::NoAttribute)
    }

    pub(crate) fn xattrs(&self, caller: &Caller, inode: InodeId) -> Result<Vec<Vec<u8>>> {
        let all = self.history.xattrs(self.engine(), inode)?;
        let mut names: Vec<Vec<u8>> = all.into_iter().map(|(name, _)| name).collect();
        if !permission::is_superuser(caller) {
            names.retain(|name| !name.starts_with(b"trusted."));
        }
        Ok(names)
    }

    pub(crate) fn forget(&self, inode: InodeId, count: u64) {
        self.history.forget(inode, count);
    }

    pub(crate) fn retain(&self, inode: InodeId) {
        self.history.retain(inode);
    }

    /// The length of a kept file.
    fn size(&self, inode: InodeId) -> Result<u64> {
        let attributes = self.attributes(inode)?;
        match attributes.kind {
            NodeKind::File => Ok(attributes.size),
            NodeKind::Directory => Err(Error::IsADirectory),
            _ => Err(Error::InvalidArgument("not a regular file".into())),
        }
    }

    pub(crate) fn read(&self, inode: InodeId, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let left = self.size(inode)?.saturating_sub(offset);
        let len = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let buffer = &mut buffer[..len];
        buffer.fill(0);
        let end = offset + len as u64;
        let mut at = offset;
        while at < end {
            let extents = self
                .history
                .extents(self.engine(), inode, at, end, EXTENTS_AT_ONCE)?;
            let Some(last) = extents.last() else { break };
            let behind = last.start + u64::from(last.len);
            let whole = extents.len() < EXTENTS_AT_ONCE;
            self.fill(inode, offset, at..end, buffer, &extents)?;
            at = if whole { end } else { behind };
        }
        Ok(len)
    }

    fn fill(
        &self,
        inode: InodeId,
        offset: u64,
        range: std::ops::Range<u64>,
        buffer: &mut [u8],
        extents: &[KeptExtent],
    ) -> Result<()> {
        let mut attempts = 0;
        loop {
            let fetches = {
                let mut writer = self.core.store.lock();
                let mut parts = Vec::with_capacity(extents.len());
                for extent in extents {
                    let extent = living_extent(&writer, inode, extent)?;
                    parts.extend(crate::content::extents::part(&extent, &range));
                }
                fetches_of(&mut writer, inode, &parts, offset)?
            };
            match fetch_all(self.core, inode, offset, buffer, fetches)? {
                Fetched::Whole => return Ok(()),
                Fetched::Moved if attempts < 3 => attempts += 1,
                Fetched::Moved => return Err(Error::Damaged { inode, offset }),
            }
        }
    }

    pub(crate) fn seek(&self, inode: InodeId, offset: u64, target: SeekTarget) -> Result<u64> {
        let size = self.size(inode)?;
        if offset >= size {
            return Err(Error::NoSuchOffset);
        }
        let mut at = offset;
        loop {
            let page = self
                .history
                .extents(self.engine(), inode, at, size, EXTENTS_AT_ONCE)?;
            if target == SeekTarget::Data {
                let first = page.first().ok_or(Error::NoSuchOffset)?;
                return Ok(first.start.max(offset));
            }
            for extent in &page {
                if extent.start > at {
                    return Ok(at);
                }
                at = extent.start + u64::from(extent.len);
            }
            if page.len() < EXTENTS_AT_ONCE || at >= size {
                return Ok(at.min(size));
            }
        }
    }

    /// The living extents behind a range of a kept file, with the writer held: to be shared. The count of bytes that
    /// they answer for is given with them.
    pub(crate) fn shareable(
        &self,
        inode: InodeId,
        at: u64,
        len: u64,
    ) -> Result<(u64, Vec<KeptExtent>)> {
        let len = len.min(self.size(inode)?.saturating_sub(at));
        let mut all = Vec::new();
        let mut from = at;
        loop {
            let page =
                self.history
                    .extents(self.engine(), inode, from, at + len, EXTENTS_AT_ONCE)?;
            let Some(last) = page.last() else { break };
            from = last.start + u64::from(last.len);
            let whole = page.len() < EXTENTS_AT_ONCE;
            all.extend(page);
            if whole {
                break;
            }
        }
        Ok((len, all))
    }
}

/// The same extent by the number of its block.
pub(crate) fn living_extent(
    writer: &Transaction<'_>,
    inode: InodeId,
    extent: &KeptExtent,
) -> Result<Extent> {
    let block: BlockNumber = writer.block_by_id(&extent.block)?.ok_or(Error::Damaged {
        inode,
        offset: extent.start,
    })?;
    Ok(Extent {
        start: extent.start,
        len: extent.len,
        block,
        block_offset: extent.block_offset,
    })
}

/// As much of an inode as permissions ask for.
fn as_inode(attributes: &Attributes) -> Inode {
    Inode {
        id: attributes.inode,
        birth_id: 0,
        kind: attributes.kind,
        mode: attributes.mode,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: attributes.rdev,
        nlink: attributes.nlink,
        size: attributes.size,
        allocated: 0,
        atime: Timestamp(0),
        mtime: Timestamp(0),
        ctime: Timestamp(0),
        btime: Timestamp(0),
        content_version: 0,
        parent: InodeId(0),
        target: Vec::new(),
        reserved: 0,
    }
}

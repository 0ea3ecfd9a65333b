//! Shows callers the nodes below `.history`, through the same operations as all other nodes.
//!
//! Takes   numbers of nodes of snapshots
//! Gives   attributes, entries and bytes of trees
//! Never   changes such a node: a caller that tries gets the error for a read-only node
//! Spec    spec/6-history.md, section 6.8

use std::sync::Arc;

use strongroom_history::{Body, Extent as TreeExtent, Tree, XattrList};
use strongroom_metadata::{Extent, InodeId, NodeKind, Timestamp, Transaction, can_name};

use super::{names, select_one};
use crate::blocks::away::bring_back;
use crate::blocks::fetch::{Fetched, fetch_all, fetches_of};
use crate::core::Core;
use crate::core::snapshot_nodes::{HISTORY_INODE, Node, is_in_snapshot};
use crate::limits::LIST_ENTRIES_MAX;
use crate::rules::attributes::check_kind;
use crate::rules::permission::{self, EXECUTE, READ};
use crate::rules::xattrs::require_readable_by_name;
use crate::trees::cached::Trees;
use crate::trees::engine::Engine;
use crate::{Attributes, Caller, Error, Filesystem, ListedEntry, Listing, Result, SeekTarget};

/// Extents read at a time.
const EXTENTS_AT_ONCE: usize = 1024;

/// The first cookie of a listing; 1 and 2 are `.` and `..`.
const FIRST_COOKIE: u64 = 3;

/// The nodes of snapshots.
pub(crate) struct Snapshots<'a> {
    core: &'a Core,
}

impl Filesystem {
    /// The nodes of snapshots, if `inode` is one of them.
    pub(crate) fn snapshots(&self, inode: InodeId) -> Option<Snapshots<'_>> {
        is_in_snapshot(inode).then(|| Snapshots { core: &self.core })
    }

    /// The files of snapshots that somebody holds: their content may be kept elsewhere.
    #[must_use]
    pub fn held_in_snapshots(&self) -> Vec<InodeId> {
        self.core.history.nodes.files()
    }

    /// The directory `.history`; takes a reference.
    pub(crate) fn history_top(&self) -> Result<Attributes> {
        Snapshots { core: &self.core }.top()
    }
}

/// What a caller learns of a tree that is not as it should be.
fn shown(error: Error) -> Error {
    match error {
        Error::History(_) => Error::DamagedHistory,
        error => error,
    }
}

impl Snapshots<'_> {
    fn trees(&self) -> Trees<'_> {
        Engine::of(self.core).trees()
    }

    fn node(&self, inode: InodeId) -> Result<Arc<Node>> {
        self.core.history.nodes.find(inode)
    }

    fn top(&self) -> Result<Attributes> {
        let reader = self.core.store.reader()?;
        let newest = reader.revisions()?.pop();
        let root = reader.inode(InodeId::ROOT)?.ok_or(Error::Stale)?;
        let changed = newest.map_or(Timestamp(0), |newest| newest.taken);
        self.core.history.nodes.top(root, changed)
    }

    pub(crate) fn lookup(
        &self,
        caller: &Caller,
        parent: InodeId,
        name: &[u8],
    ) -> Result<Attributes> {
        self.require(caller, parent, EXECUTE)?;
        if parent == HISTORY_INODE {
            return self.lookup_root(name);
        }
        let nodes = &self.core.history.nodes;
        let parent = self.node(parent)?;
        let directory = parent.directory()?;
        match name {
            b"." => return nodes.hold(parent),
            b".." => {
                let above = parent.parent().ok_or(Error::NotFound)?;
                return nodes.hold(Arc::clone(above));
            }
            _ => {}
        }
        let trees = self.trees();
        let found = Tree::new(&trees).lookup(directory, name).map_err(shown)?;
        nodes.hold(Node::child(&parent, found.ok_or(Error::NotFound)?))
    }

    /// The root of the snapshot that the selector `name` means.
    fn lookup_root(&self, name: &[u8]) -> Result<Attributes> {
        match name {
            b"." => return self.top(),
            b".." => return Err(Error::NotFound),
            _ => {}
        }
        let selector = std::str::from_utf8(name).map_err(|_| Error::NotFound)?;
        let selected = select_one(self.core, selector);
        // A name below `.history` that means nothing, or too much, is no name.
        let revision = selected.map_err(|error| match error {
            Error::UnknownRevision(_) => Error::NotFound,
            error => shown(error),
        })?;
        let trees = self.trees();
        let root = Tree::new(&trees).root(&revision.body.root).map_err(shown)?;
        self.core.history.nodes.root(name, revision.id, root)
    }

    pub(crate) fn attributes(&self, inode: InodeId) -> Result<Attributes> {
        Ok(self.node(inode)?.attributes())
    }

    pub(crate) fn parent(&self, inode: InodeId) -> Result<InodeId> {
        let node = self.node(inode)?;
        if node.inode.kind != NodeKind::Directory {
            return Err(Error::NotADirectory);
        }
        Ok(node
            .parent()
            .map_or(InodeId::ROOT, |parent| parent.inode.id))
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
        if inode == HISTORY_INODE {
            return self.list_roots(after, limit, listing);
        }
        let parent = self.node(inode)?;
        let directory = parent.directory()?;
        let trees = self.trees();
        let tree = Tree::new(&trees);
        let mut position = after.saturating_sub(FIRST_COOKIE - 1);
        let page = loop {
            let mut page = tree.list(directory, position, limit).map_err(shown)?;
            let Some(last) = page.last() else {
                return Ok(Vec::new());
            };
            position = last.position;
            // What no file can be called is left out: `/` in it would lead elsewhere. An empty page would say that the listing ends.
            page.retain(|one| can_name(&one.entry.name));
            if !page.is_empty() {
                break page;
            }
        };
        let mut listed = Vec::with_capacity(page.len());
        for one in page {
            let (name, kind) = (one.entry.name.clone(), one.entry.kind);
            let node = Node::child(&parent, one.entry);
            listed.push(ListedEntry {
                name,
                inode: node.inode.id,
                kind,
                cookie: one.position + FIRST_COOKIE - 1,
                attributes: match listing {
                    Listing::Names => None,
                    Listing::WithAttributes => Some(node.attributes()),
                    Listing::WithReferences => Some(self.core.history.nodes.hold(node)?),
                },
            });
        }
        Ok(listed)
    }

    fn list_roots(&self, after: u64, limit: usize, listing: Listing) -> Result<Vec<ListedEntry>> {
        let names = names(self.core);
        let first = usize::try_from(after.saturating_sub(FIRST_COOKIE - 1)).unwrap_or(usize::MAX);
        let mut listed = Vec::new();
        let names = names.map_err(shown)?.into_iter();
        for (name, cookie) in names.zip(FIRST_COOKIE..).skip(first) {
            if listed.len() == limit {
                break;
            }
            let attributes = match self.lookup_root(&name) {
                // Somebody has removed that one meanwhile; the others are there.
                Err(Error::NotFound) => continue,
                found => found?,
            };
            let inode = attributes.inode;
            if listing != Listing::WithReferences {
                self.forget(inode, 1);
            }
            listed.push(ListedEntry {
                name,
                inode,
                kind: NodeKind::Directory,
                cookie,
                attributes: (listing != Listing::Names).then_some(attributes),
            });
        }
        Ok(listed)
    }

    pub(crate) fn read_link(&self, inode: InodeId) -> Result<Vec<u8>> {
        match &self.node(inode)?.entry()?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Error::InvalidArgument("not a symlink".into())),
        }
    }

    pub(crate) fn access(&self, caller: &Caller, inode: InodeId, mask: u32) -> Result<()> {
        let node = self.node(inode)?;
        if mask & permission::WRITE != 0 {
            return Err(Error::InSnapshot);
        }
        if permission::allows(&node.inode, caller, mask) {
            Ok(())
        } else {
            Err(Error::PermissionDenied)
        }
    }

    fn require(&self, caller: &Caller, inode: InodeId, mask: u32) -> Result<()> {
        let node = self.node(inode)?;
        if mask & EXECUTE != 0 && node.inode.kind != NodeKind::Directory {
            return Err(Error::NotADirectory);
        }
        permission::require(&node.inode, caller, mask)
    }

    fn xattr_list(&self, inode: InodeId) -> Result<XattrList> {
        let node = self.node(inode)?;
        if inode == HISTORY_INODE {
            return Ok(Vec::new());
        }
        Tree::new(&self.trees())
            .xattrs(node.entry()?)
            .map_err(shown)
    }

    pub(crate) fn xattr(&self, caller: &Caller, inode: InodeId, name: &[u8]) -> Result<Vec<u8>> {
        require_readable_by_name(&self.node(inode)?.inode, caller, name)?;
        let all = self.xattr_list(inode)?;
        let found = all.into_iter().find(|(of, _)| of == name);
        found.map(|(_, value)| value).ok_or(Error::NoAttribute)
    }

    pub(crate) fn xattrs(&self, caller: &Caller, inode: InodeId) -> Result<Vec<Vec<u8>>> {
        let all = self.xattr_list(inode)?;
        let mut names: Vec<Vec<u8>> = all.into_iter().map(|(name, _)| name).collect();
        if !permission::is_superuser(caller) {
            names.retain(|name| !name.starts_with(b"trusted."));
        }
        Ok(names)
    }

    pub(crate) fn forget(&self, inode: InodeId, count: u64) {
        self.core.history.nodes.forget(inode, count);
    }

    pub(crate) fn retain(&self, inode: InodeId) {
        self.core.history.nodes.retain(inode);
    }

    /// The length of a file.
    fn size(&self, inode: InodeId) -> Result<u64> {
        let node = self.node(inode)?;
        check_kind(&node.inode)?;
        Ok(node.inode.size)
    }

    /// Some extents of a file that touch `from..to`, in order; fewer than `EXTENTS_AT_ONCE` are all of them.
    fn extents(&self, inode: InodeId, from: u64, to: u64) -> Result<Vec<TreeExtent>> {
        let node = self.node(inode)?;
        let found = Tree::new(&self.trees()).extents(node.entry()?, from, to, EXTENTS_AT_ONCE);
        found.map_err(shown)
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
            let extents = self.extents(inode, at, end)?;
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
        extents: &[TreeExtent],
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
                Fetched::Missing(id) if bring_back(self.core, id)? => {}
                Fetched::Moved | Fetched::Missing(_) if attempts < 3 => attempts += 1,
                Fetched::Moved | Fetched::Missing(_) => {
                    return Err(Error::Damaged { inode, offset });
                }
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
            let page = self.extents(inode, at, size)?;
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

    /// How many of `len` bytes of a file at `at` lie before its next extent.
    pub(crate) fn hole(&self, inode: InodeId, at: u64, len: u64) -> Result<u64> {
        let len = len.min(self.size(inode)?.saturating_sub(at));
        let page = self.extents(inode, at, at + len)?;
        Ok(page
            .first()
            .map_or(len, |next| next.start.saturating_sub(at)))
    }

    /// The extents behind a range of a file, with the writer held: to be shared. The count of bytes that
    /// they answer for is given with them.
    pub(crate) fn shareable(
        &self,
        inode: InodeId,
        at: u64,
        len: u64,
    ) -> Result<(u64, Vec<TreeExtent>)> {
        let len = len.min(self.size(inode)?.saturating_sub(at));
        let mut all = Vec::new();
        let mut from = at;
        loop {
            let page = self.extents(inode, from, at + len)?;
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
    extent: &TreeExtent,
) -> Result<Extent> {
    let block = writer.block_by_id(&extent.block)?.ok_or(Error::Damaged {
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

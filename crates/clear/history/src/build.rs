//! Builds the tree of a committed state from the newest tree and the changes since.
//!
//! Takes   a committed state that nothing changes meanwhile, the newest tree, and the changes since that tree
//! Gives   the root of the new tree; its new nodes, stored in batches
//! Never   opens a node that is not on the path to a change, or reads an unchanged directory
//! Spec    spec/6-history.md, section 6.6
//!
//! Invariants
//!  (1) Children are stored before the nodes that refer to them.                        [6.6.4]
//!  (2) Extents are copied from the newest tree unless a user wrote there: content that only moved in the background does
//!      not look edited.                                                                 [6.6.3]

use std::collections::{HashMap, HashSet};
use std::ops::{Range, RangeInclusive};

use strongroom_crypto::BlockSealer;
use strongroom_format::limits::BLOCK_BYTES_MAX;
use strongroom_format::{BlockId, Epoch, Kind, SealedBlock};
use strongroom_metadata::{Base, Inode, InodeId, NodeKind, REGION_BYTES, Reads, can_name};

use crate::blocks::Blocks;
use crate::changes::Changes;
use crate::content::{Content, Extent, ExtentTrie, encode_inline, first_level, place};
use crate::entry::{self, Body, Entry, EntryTrie, Xattrs};
use crate::error::Error;
use crate::limits::{
    BATCH_BYTES, BATCH_NODES, DEPTH_MAX, INLINE_BYTES_MAX, PAGE_ROWS, VALUE_BLOCK_BYTES_MAX,
};
use crate::node::{decode_root, encode_root, encode_value, encode_xattrs};
use crate::trie::{self, Change, Key, Ref, Sink};

/// How many nodes that were put are remembered: 2 MiB of names.
const RECENT_MAX: usize = 64 * 1024;

/// Stores sealed nodes of one epoch, each with the blocks that it names: a new node takes a reference of each of them.
pub type StoreNodes<'a, E> =
    dyn FnMut(Epoch, Vec<SealedBlock>, &[Vec<BlockId>]) -> Result<(), E> + 'a;

/// Builds one tree.
struct Builder<'a, B: Blocks> {
    blocks: &'a B,
    reads: &'a Reads,
    sealer: BlockSealer,
    store: &'a mut StoreNodes<'a, B::Error>,
    changes: Option<Changes>,
    /// The newest tree's root.
    base: Option<Entry>,
    /// Nodes that wait to be stored.
    waiting: Vec<SealedBlock>,
    /// What each of them names.
    waiting_names: Vec<Vec<BlockId>>,
    waiting_bytes: usize,
    /// Some of the nodes that were put.
    recent: HashSet<BlockId>,
    /// Directories of the newest tree that were looked for.
    located: HashMap<InodeId, Option<Option<Ref>>>,
    /// Regions of files that count as empty.
    holes: HashMap<InodeId, Vec<Range<u64>>>,
    /// The directories that are being built, the root first.
    way: Vec<InodeId>,
    /// The same, to ask.
    on_way: HashSet<InodeId>,
    /// All that were built. A directory has one name; what gives it more is damage, and it is empty there.
    visited: HashSet<InodeId>,
}

impl<B: Blocks> Blocks for Builder<'_, B> {
    type Error = B::Error;

    fn open(&self, kind: Kind, id: &BlockId) -> Result<Option<Vec<u8>>, B::Error> {
        self.blocks.open(kind, id)
    }
}

impl<B: Blocks> Sink for Builder<'_, B> {
    fn put(&mut self, kind: Kind, bytes: &[u8], names: Vec<BlockId>) -> Result<BlockId, B::Error> {
        if bytes.len() > BLOCK_BYTES_MAX {
            return Err(Error::Invalid("a node of the tree is longer than a block").into());
        }
        let block = self.sealer.seal(kind, bytes);
        let id = block.id;
        // Sets of attributes, above all, come again and again.
        if self.recent.len() >= RECENT_MAX {
            self.recent.clear();
        }
        if !self.recent.insert(id) {
            return Ok(id);
        }
        self.waiting_bytes += block.bytes.len();
        self.waiting.push(block);
        self.waiting_names.push(names);
        if self.waiting_bytes >= BATCH_BYTES || self.waiting.len() >= BATCH_NODES {
            self.flush()?;
        }
        Ok(id)
    }
}

/// The block of a tree's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    /// That of the newest tree: nothing changed.
    AsBefore(BlockId),
    /// A new one.
    New(BlockId),
}

/// Builds the tree of the state that `reads` shows, and stores its new nodes. `base`: the newest tree, and the generation up to
/// which its marks of changes count; without one the tree is built from nothing.
///
/// # Errors
/// Those of the blocks and of `store`; `Error::Damaged` for rows that no state can have.
pub fn build<'a, B: Blocks>(
    blocks: &'a B,
    reads: &'a Reads,
    sealer: BlockSealer,
    base: Option<(&Base, u64)>,
    store: &'a mut StoreNodes<'a, B::Error>,
) -> Result<Built, B::Error> {
    let mut builder = Builder::new(blocks, reads, sealer, store)?;
    let Some((base, generation)) = base else {
        let root = builder.root()?;
        return Ok(Built::New(builder.finish(&root)?));
    };
    let newest = reads.block_id(base.root)?.ok_or(Error::MissingBlock)?;
    let old = decode_root(&blocks.need(Kind::TreeNode, &newest)?)?;
    let changes = Changes::read(reads, base, generation)?;
    if !changes.any {
        return Ok(Built::AsBefore(newest));
    }
    builder.changes = Some(changes);
    builder.base = Some(old.clone());
    match builder.root()? {
        root if root == old => Ok(Built::AsBefore(newest)),
        root => Ok(Built::New(builder.finish(&root)?)),
    }
}

impl<'a, B: Blocks> Builder<'a, B> {
    fn new(
        blocks: &'a B,
        reads: &'a Reads,
        sealer: BlockSealer,
        store: &'a mut StoreNodes<'a, B::Error>,
    ) -> Result<Self, B::Error> {
        let mut holes: HashMap<InodeId, Vec<Range<u64>>> = HashMap::new();
        for (inode, regions) in reads.holes()? {
            holes.entry(inode).or_default().push(regions);
        }
        Ok(Self {
            blocks,
            reads,
            sealer,
            store,
            changes: None,
            base: None,
            waiting: Vec::new(),
            waiting_names: Vec::new(),
            waiting_bytes: 0,
            recent: HashSet::new(),
            located: HashMap::new(),
            holes,
            way: Vec::new(),
            on_way: HashSet::new(),
            visited: HashSet::new(),
        })
    }

    /// Builds everything below the root.
    fn root(&mut self) -> Result<Entry, B::Error> {
        let row = self
            .reads
            .inode(InodeId::ROOT)?
            .ok_or(Error::Damaged("the root directory is missing"))?;
        let old = self.base.clone();
        self.entry(Vec::new(), &row, old.as_ref())
    }

    /// Stores the root and whatever waits; gives the block of the root.
    fn finish(&mut self, root: &Entry) -> Result<BlockId, B::Error> {
        let mut names = Vec::new();
        root.names(&mut names);
        let block = self.put(Kind::TreeNode, &encode_root(root), names)?;
        self.flush()?;
        Ok(block)
    }

    /// Stores what waits. (1)
    fn flush(&mut self) -> Result<(), B::Error> {
        self.waiting_bytes = 0;
        if self.waiting.is_empty() {
            return Ok(());
        }
        let (blocks, names) = (
            std::mem::take(&mut self.waiting),
            std::mem::take(&mut self.waiting_names),
        );
        (self.store)(self.sealer.epoch(), blocks, &names)
    }

    /// The entry of `name`, which names the node of `row`; `old` is what the newest tree has there, if it is the same
    /// node.
    fn entry(
        &mut self,
        name: Vec<u8>,
        row: &Inode,
        old: Option<&Entry>,
    ) -> Result<Entry, B::Error> {
        let body = match row.kind {
            NodeKind::File => self.file(row, old)?,
            NodeKind::Directory => Body::Directory(self.directory(row.id, old)?),
            NodeKind::Symlink => Body::Symlink(row.target.clone()),
            NodeKind::CharDevice | NodeKind::BlockDevice => Body::Device(row.rdev),
            NodeKind::Fifo | NodeKind::Socket => Body::Nothing,
        };
        Ok(Entry {
            name,
            inode: row.id,
            birth_id: row.birth_id,
            kind: row.kind,
            mode: row.mode & 0o7777,
            uid: row.uid,
            gid: row.gid,
            nlink: row.nlink,
            size: row.size,
            atime: row.atime,
            mtime: row.mtime,
            ctime: row.ctime,
            btime: row.btime,
            content_version: row.content_version,
            xattrs: self.xattrs(row.id)?,
            body,
        })
    }

    /// Extended attributes, in blocks that equal sets share.
    fn xattrs(&mut self, inode: InodeId) -> Result<Xattrs, B::Error> {
        let names = self.reads.xattrs(inode)?;
        if names.is_empty() {
            return Ok(Xattrs::default());
        }
        let mut all = Vec::with_capacity(names.len());
        for name in names {
            let value = self
                .reads
                .xattr(inode, &name)?
                .ok_or(Error::Damaged("an extended attribute is missing"))?;
            all.push((name, value));
        }
        let mut blocks = Vec::new();
        for part in encode_xattrs(&all).chunks(VALUE_BLOCK_BYTES_MAX) {
            blocks.push(self.put(Kind::TreeNode, &encode_value(part), Vec::new())?);
        }
        Ok(Xattrs(blocks))
    }

    // ---- directories

    /// The tree of the entries of `inode`.
    fn directory(&mut self, inode: InodeId, old: Option<&Entry>) -> Result<Option<Ref>, B::Error> {
        if self.visited.contains(&inode) {
            return Ok(None);
        }
        let known = match old {
            Some(old) => Some(old.directory()),
            None => self.locate(inode)?,
        };
        let Some(known) = known else {
            return self.whole_directory(inode);
        };
        let changes = self.changes.as_mut();
        // Each directory is visited once, so its names can be taken.
        let Some(names) = changes.and_then(|changes| changes.names.remove(&inode)) else {
            return Ok(known);
        };
        self.descend(inode)?;
        let mut items: Vec<Change<EntryTrie>> = Vec::with_capacity(names.len());
        for name in names {
            items.push(self.change(inode, known, name)?);
        }
        self.ascend();
        items.sort_unstable_by_key(|(key, _)| *key);
        trie::update::<EntryTrie, Self>(self, known, 0, &items)
    }

    /// What `name` in the directory `inode` is now.
    fn change(
        &mut self,
        inode: InodeId,
        known: Option<Ref>,
        name: Vec<u8>,
    ) -> Result<Change<EntryTrie>, B::Error> {
        let key = entry::place(&name);
        let Some(found) = self.reads.entry(inode, &name)? else {
            return Ok((key, None));
        };
        if self.is_impossible(&name, found.inode) {
            return Ok((key, None));
        }
        let row = self.row(found.inode)?;
        let old = match known {
            Some(known) => trie::get::<EntryTrie, Self>(self, known, 0, &key)?,
            None => None,
        };
        let old = old.filter(|old| old.inode == row.id && old.birth_id == row.birth_id);
        Ok((key, Some(self.entry(name, &row, old.as_ref())?)))
    }

    fn row(&self, inode: InodeId) -> Result<Inode, B::Error> {
        let row = self.reads.inode(inode)?;
        Ok(row.ok_or(Error::Damaged("an entry names a node that is missing"))?)
    }

    /// A directory that the newest tree does not have.
    fn whole_directory(&mut self, inode: InodeId) -> Result<Option<Ref>, B::Error> {
        self.descend(inode)?;
        let mut entries: Vec<(Key, Vec<u8>, InodeId)> = Vec::new();
        let mut after = 0;
        loop {
            let page = self.reads.entries(inode, after, PAGE_ROWS)?;
            let Some(last) = page.last() else { break };
            after = last.cookie;
            let placed = page
                .into_iter()
                .filter(|entry| !self.is_impossible(&entry.name, entry.inode))
                .map(|entry| (entry::place(&entry.name), entry.name, entry.inode));
            entries.extend(placed);
        }
        entries.sort_unstable_by_key(|(key, ..)| *key);
        let keys: Vec<Key> = entries.iter().map(|(key, ..)| *key).collect();
        let built = trie::build::<EntryTrie, Self>(self, 0, &keys, &mut |builder, index| {
            let (_, name, inode) = &mut entries[index];
            let row = builder.row(*inode)?;
            builder.entry(std::mem::take(name), &row, None)
        });
        self.ascend();
        built
    }

    fn descend(&mut self, inode: InodeId) -> Result<(), B::Error> {
        self.way.push(inode);
        self.on_way.insert(inode);
        self.visited.insert(inode);
        if self.way.len() > DEPTH_MAX {
            return Err(Error::Damaged("directories are nested too deep").into());
        }
        Ok(())
    }

    fn ascend(&mut self) {
        if let Some(inode) = self.way.pop() {
            self.on_way.remove(&inode);
        }
    }

    /// Whether an entry is left out of the tree: damage in the rows must not lead the descent in circles, and a name
    /// that cannot be one not into a tree that nobody could then read. The structural check reports both.
    fn is_impossible(&self, name: &[u8], inode: InodeId) -> bool {
        !can_name(name) || self.on_way.contains(&inode)
    }

    /// The entries of a directory in the newest tree, wherever it was there; `None` if it was not.
    fn locate(&mut self, inode: InodeId) -> Result<Option<Option<Ref>>, B::Error> {
        let (Some(base), Some(changes)) = (&self.base, &self.changes) else {
            return Ok(None);
        };
        if inode == base.inode {
            return Ok(Some(base.directory()));
        }
        if changes.is_new(inode) {
            return Ok(None);
        }
        if let Some(known) = self.located.get(&inode) {
            return Ok(*known);
        }
        let mut places = changes.lost.get(&inode).cloned().unwrap_or_default();
        // Names may lead in circles: whoever is being looked for is nowhere, until found.
        self.located.insert(inode, None);
        places.extend(self.reads.names_of(inode, None, 1)?);
        for (parent, name) in places {
            let Some(Some(entries)) = self.locate(parent)? else {
                continue;
            };
            let key = entry::place(&name);
            let found = trie::get::<EntryTrie, Self>(self, entries, 0, &key)?;
            if let Some(found) = found.filter(|found| found.inode == inode) {
                let at = Some(found.directory());
                self.located.insert(inode, at);
                return Ok(at);
            }
        }
        Ok(None)
    }

    // ---- files

    fn file(&mut self, row: &Inode, old: Option<&Entry>) -> Result<Body, B::Error> {
        let old = old.and_then(|old| match &old.body {
            Body::File { content, .. } => Some((old, content)),
            _ => None,
        });
        let content = match old {
            // (2). Two devices may give one version to two contents, but not at the same moment of the same file.
            Some((old, content))
                if (old.content_version, old.size, old.ctime)
                    == (row.content_version, row.size, row.ctime) =>
            {
                content.clone()
            }
            Some((old, Content::Listed(list)))
                if first_level(old.size) == first_level(row.size)
                    && row.allocated / BLOCK_BYTES_MAX as u64 > INLINE_BYTES_MAX as u64 =>
            {
                self.changed_list(row, *list)?
            }
            _ => self.whole_content(row)?,
        };
        let allocated = row.allocated;
        Ok(Body::File { allocated, content })
    }

    /// The extents of a region before the end of the file, unless it is being emptied.
    fn extents(&self, row: &Inode, region: u64) -> Result<Vec<Extent>, B::Error> {
        let mut extents = Vec::new();
        let holes = self.holes.get(&row.id).into_iter().flatten();
        if holes.into_iter().any(|hole| hole.contains(&region)) {
            return Ok(extents);
        }
        for extent in self.reads.region(row.id, region)? {
            let left = row.size.saturating_sub(extent.start);
            if left == 0 {
                break;
            }
            let block = self.reads.block_id(extent.block)?;
            extents.push(Extent {
                start: extent.start,
                len: extent.len.min(u32::try_from(left).unwrap_or(u32::MAX)),
                block: block.ok_or(Error::MissingBlock)?,
                block_offset: extent.block_offset,
            });
        }
        Ok(extents)
    }

    fn whole_content(&mut self, row: &Inode) -> Result<Content, B::Error> {
        let mut list = None;
        let mut waiting: Vec<Extent> = Vec::new();
        let mut from = 0;
        loop {
            let regions = self.reads.regions_from(row.id, from, PAGE_ROWS)?;
            let Some(&last) = regions.last() else { break };
            for region in regions {
                waiting.extend(self.extents(row, region)?);
                // A file of any size is listed in bounded memory.
                if waiting.len() >= 16 * PAGE_ROWS {
                    list = self.listed(row, list, &waiting)?;
                    waiting.clear();
                }
            }
            from = last + 1;
        }
        if list.is_none() && encode_inline(&waiting).is_some() {
            return Ok(Content::Inline(waiting));
        }
        let list = self.listed(row, list, &waiting)?;
        Ok(list.map_or(Content::Inline(Vec::new()), Content::Listed))
    }

    fn listed(
        &mut self,
        row: &Inode,
        list: Option<Ref>,
        extents: &[Extent],
    ) -> Result<Option<Ref>, B::Error> {
        if list.is_some() {
            // The nodes just made are opened again to be added to.
            self.flush()?;
        }
        let changes: Vec<Change<ExtentTrie>> = extents
            .iter()
            .map(|extent| (place(extent.start), Some(*extent)))
            .collect();
        trie::update::<ExtentTrie, Self>(self, list, first_level(row.size), &changes)
    }

    /// A list with `now` in place of all that begins in `range`, in bounded memory.
    fn replaced(
        &mut self,
        list: Ref,
        level: usize,
        range: RangeInclusive<Key>,
        now: Vec<Extent>,
    ) -> Result<Option<Ref>, B::Error> {
        let mut list = Some(list);
        let mut now = Some(now);
        while let (Some(at), true) = (list, now.is_some()) {
            let mut changes: HashMap<Key, Option<Extent>> = HashMap::new();
            let (from, to) = (range.start(), range.end());
            let whole = trie::range::<ExtentTrie, Self>(self, at, level, from, to, &mut |old| {
                changes.insert(place(old.start), None);
                changes.len() < 16 * PAGE_ROWS
            })?;
            if whole {
                let now = now.take().unwrap_or_default();
                changes.extend(now.into_iter().map(|new| (place(new.start), Some(new))));
            }
            let mut changes: Vec<Change<ExtentTrie>> = changes.into_iter().collect();
            changes.sort_unstable_by_key(|(key, _)| *key);
            list = trie::update::<ExtentTrie, Self>(self, Some(at), level, &changes)?;
            // The nodes just made are opened again to be changed.
            self.flush()?;
        }
        if let Some(now) = now.filter(|now| !now.is_empty()) {
            let changes: Vec<Change<ExtentTrie>> = now
                .into_iter()
                .map(|new| (place(new.start), Some(new)))
                .collect();
            list = trie::update::<ExtentTrie, Self>(self, None, level, &changes)?;
            self.flush()?;
        }
        Ok(list)
    }

    /// The list of a large file, with the regions that changed read again.
    fn changed_list(&mut self, row: &Inode, list: Ref) -> Result<Content, B::Error> {
        let changes = self.changes.as_mut();
        let mut regions = changes
            .and_then(|changes| changes.regions.get(&row.id).cloned())
            .unwrap_or_default();
        regions.insert(0);
        let level = first_level(row.size);
        let mut list = Some(list);
        // What lay behind the end has gone, or is about to; and so is what lies in a hole.
        let end = row.size / REGION_BYTES;
        regions.retain(|region| *region < end);
        regions.insert(end);
        let holes = self.holes.get(&row.id).cloned().unwrap_or_default();
        let holes = holes.into_iter().map(|hole| (hole.start, hole.end));
        let single = regions.iter().map(|region| (*region, *region + 1));
        let ranges: Vec<(u64, u64)> = holes.chain(single).collect();
        for (region, past) in ranges {
            // A hole is empty whatever its rows still say.
            let now = self.extents(row, region)?;
            let Some(at) = list else {
                list = self.listed(row, None, &now)?;
                continue;
            };
            let first = region.saturating_mul(REGION_BYTES);
            let last = match past.checked_mul(REGION_BYTES) {
                Some(behind) if region != end => behind - 1,
                _ => u64::MAX,
            };
            list = self.replaced(at, level, place(first)..=place(last), now)?;
        }
        match list {
            Some(list) if list.count > (INLINE_BYTES_MAX / 34) as u64 => Ok(Content::Listed(list)),
            // Few are left: they may belong beside the name again.
            _ => self.whole_content(row),
        }
    }
}

//! A list of operations while it is carried out: its changes are visible to itself only.
//!
//! Takes   operations on names, attributes and content, in order
//! Gives   the state in which they would leave each node; their rows of the database, written after a savepoint
//! Never   changes a node in memory: `transaction.rs` does at the end
//!
//! Invariants
//!  (1) An operation of the list sees the file system as the operations before it left it.
//!  (2) `pending` has the files whose content in memory must be stored first. If it has any, the list is rolled back.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use strongroom_metadata::{Extent, Inode, InodeId, NodeKind, REGION_BYTES, Timestamp, Transaction};

use crate::blocks::equal_blocks::number_of;
use crate::blocks::place::Placed;
use crate::content::extents;
use crate::content::node::Node;
use crate::core::Core;
use crate::drain::edit::RegionEdit;
use crate::files::copy::put_shared;
use crate::names::attributes::CAPABILITY;
use crate::names::namespace::{self, Link, Removal};
use crate::names::scene::{Held, Scene};
use crate::rules::attributes::{self, attributes_of_row, check_kind, content_changed, end_in_file};
use crate::rules::permission;
use crate::transaction::slice_lens;
use crate::{
    Attributes, Caller, Content, Error, NewNode, RenameMode, Result, SetAttributes, XattrMode,
};

/// What the list leaves of one node.
pub(crate) struct Drafted {
    /// The node as others see it; of a new one, a node that nobody else knows.
    pub(crate) node: Arc<Node>,
    pub(crate) inode: Inode,
    pub(crate) is_new: bool,
    /// Its extents changed.
    pub(crate) has_new_content: bool,
    /// Where what was reserved is written or cut off.
    pub(crate) ended: Vec<Range<u64>>,
    /// Its row is written already.
    pub(crate) is_stored: bool,
}

/// What the list leaves of all nodes that it changes.
pub(crate) struct Drafts<'a> {
    core: &'a Core,
    now: Timestamp,
    /// In the order in which nodes are locked.
    pub(crate) nodes: BTreeMap<InodeId, Drafted>,
    /// (2)
    pub(crate) pending: BTreeMap<InodeId, Arc<Node>>,
    /// Cells with too many fragments.
    pub(crate) fragmented: Vec<(InodeId, u64)>,
    /// How many more extents holes may drop; the purge drops the rest.
    drops: usize,
}

impl<'a> Drafts<'a> {
    pub(crate) fn new(core: &'a Core) -> Self {
        Self {
            core,
            now: core.now(),
            nodes: BTreeMap::new(),
            pending: BTreeMap::new(),
            fragmented: Vec::new(),
            drops: core.options.thresholds.purge_extents_per_step,
        }
    }

    pub(crate) const fn core(&self) -> &'a Core {
        self.core
    }

    /// The draft of a node, begun if there is none.
    pub(crate) fn drafted(&mut self, node: &Arc<Node>) -> &mut Drafted {
        match self.nodes.entry(node.id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                // Held by the gate and the writer: nobody changes attributes meanwhile.
                let state = node.lock();
                if state.has_pending_content() && state.holds_back() {
                    // (2): a commit would hold the new attributes back too.
                    self.pending.insert(node.id, Arc::clone(node));
                }
                entry.insert(Drafted {
                    node: Arc::clone(node),
                    inode: state.inode.clone(),
                    is_new: false,
                    has_new_content: false,
                    ended: Vec::new(),
                    is_stored: false,
                })
            }
        }
    }

    /// Changes the extents of a node; gives the cells that have too many fragments.
    pub(crate) fn edit(
        &mut self,
        writer: &mut Transaction<'_>,
        node: &Arc<Node>,
        edit: impl FnOnce(&mut RegionEdit<'_>, &mut Transaction<'_>) -> Result<()>,
    ) -> Result<()> {
        let core = self.core;
        // A node that nobody else knows takes the changes.
        let scratch = core
            .content
            .nodes
            .detached(self.drafted(node).inode.clone());
        let mut state = scratch.lock();
        let mut regions = RegionEdit::new(core, &scratch, &mut state, &mut self.drops);
        edit(&mut regions, writer)?;
        let cells = regions.finish(writer)?;
        self.fragmented
            .extend(cells.into_iter().map(|cell| (node.id, cell)));
        self.drafted(node).inode.allocated = state.inode.allocated;
        Ok(())
    }

    /// (2): what the list does to the extents of a node must come after what memory holds of it.
    pub(crate) fn wait_for_content(&mut self, node: &Arc<Node>) {
        if node.lock().has_pending_content() {
            self.pending.insert(node.id, Arc::clone(node));
        }
    }
}

/// The file system inside a transaction, for the one who carries out its list.
///
/// It looks and changes as `Filesystem` does, with the same rules and errors, but takes no references. After an
/// error nothing that was done through it happens: give the error on. Do not use the `Filesystem` itself
/// meanwhile: it waits for the end of the transaction.
pub struct Draft<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) contents: &'a [Content],
    pub(crate) writer: Transaction<'a>,
    pub(crate) drafts: Drafts<'a>,
    /// Per content its sealed blocks, each once; `None` while it is only found out what must be stored first.
    pub(crate) blocks: Option<Vec<Vec<Placed>>>,
}

impl std::fmt::Debug for Draft<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft")
            .field("nodes", &self.drafts.nodes.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Scene<'a> for Draft<'a> {
    fn core(&self) -> &'a Core {
        self.drafts.core
    }

    fn writer(&mut self) -> &mut Transaction<'a> {
        &mut self.writer
    }

    fn caller(&self) -> &'a Caller {
        self.caller
    }

    fn now(&self) -> Timestamp {
        self.drafts.now
    }

    fn held(&mut self, id: InodeId) -> Result<Held> {
        // (1)
        if let Some(drafted) = self.drafts.nodes.get(&id) {
            return Ok(Held {
                node: Arc::clone(&drafted.node),
                inode: drafted.inode.clone(),
            });
        }
        let node = self.drafts.core.node_in(&mut self.writer, id)?;
        let inode = node.living()?.inode.clone();
        Ok(Held { node, inode })
    }

    fn touch(&mut self, node: &Arc<Node>, change: impl FnOnce(&mut Inode)) {
        change(&mut self.drafts.drafted(node).inode);
    }

    fn adopt(&mut self, inode: Inode) -> Arc<Node> {
        let node = self.drafts.core.content.nodes.detached(inode.clone());
        let drafted = Drafted {
            node: Arc::clone(&node),
            inode,
            is_new: true,
            has_new_content: false,
            ended: Vec::new(),
            is_stored: false,
        };
        self.drafts.nodes.insert(node.id, drafted);
        node
    }

    fn note_capability(&mut self, _: &Arc<Node>, _: bool) {
        // Whoever asks next asks the rows: see `transaction::install`.
    }
}

impl Draft<'_> {
    /// What `stat` shows of `inode`. Content that is in memory only does not count as blocks.
    ///
    /// # Errors
    /// As `Filesystem::attributes`.
    pub fn attributes(&mut self, inode: InodeId) -> Result<Attributes> {
        Ok(attributes_of_row(&self.held(inode)?.inode))
    }

    /// What `name` in `parent` names.
    ///
    /// # Errors
    /// As `Filesystem::lookup`.
    pub fn lookup(&mut self, parent: InodeId, name: &[u8]) -> Result<Attributes> {
        let id = namespace::look_up(self, parent, name)?;
        self.attributes(id)
    }

    /// The target of a symlink.
    ///
    /// # Errors
    /// As `Filesystem::read_link`.
    pub fn read_link(&mut self, inode: InodeId) -> Result<Vec<u8>> {
        let inode = self.held(inode)?.inode;
        if inode.kind != NodeKind::Symlink {
            return Err(Error::InvalidArgument("not a symlink".into()));
        }
        Ok(inode.target)
    }

    /// Makes a node and names it.
    ///
    /// # Errors
    /// As `Filesystem::create`.
    pub fn create(&mut self, parent: InodeId, name: &[u8], node: &NewNode) -> Result<Attributes> {
        let made = namespace::create_in(self, parent, name, node)?;
        self.attributes(made.id)
    }

    /// Gives a node a further name.
    ///
    /// # Errors
    /// As `Filesystem::link`.
    pub fn link(
        &mut self,
        inode: InodeId,
        new_parent: InodeId,
        new_name: &[u8],
    ) -> Result<Attributes> {
        let link = Link::plan(self, inode, new_parent, new_name)?;
        if link.needs_drain() {
            self.drafts.wait_for_content(&link.node.node);
        }
        link.carry_out(self)?;
        self.attributes(inode)
    }

    /// Takes a name from a node that is no directory.
    ///
    /// # Errors
    /// As `Filesystem::unlink`.
    pub fn unlink(&mut self, parent: InodeId, name: &[u8]) -> Result<()> {
        self.remove(parent, name, Removal::Name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As `Filesystem::remove_directory`.
    pub fn remove_directory(&mut self, parent: InodeId, name: &[u8]) -> Result<()> {
        self.remove(parent, name, Removal::Directory)
    }

    fn remove(&mut self, parent: InodeId, name: &[u8], removal: Removal) -> Result<()> {
        namespace::remove_in(self, parent, name, removal).map(drop)
    }

    /// Moves a name.
    ///
    /// # Errors
    /// As `Filesystem::rename`.
    pub fn rename(
        &mut self,
        (parent, name): (InodeId, &[u8]),
        (new_parent, new_name): (InodeId, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let (old, new) = ((parent, name), (new_parent, new_name));
        let plan = crate::names::rename::plan(self, old, new, mode)?;
        let Some(plan) = plan else { return Ok(()) };
        for node in plan.to_drain() {
            self.drafts.pending.insert(node.id, node);
        }
        plan.carry_out(self).map(drop)
    }

    /// Changes attributes, the length of a file among them.
    ///
    /// # Errors
    /// As `Filesystem::set_attributes`.
    pub fn set_attributes(&mut self, inode: InodeId, set: &SetAttributes) -> Result<Attributes> {
        let held = self.held(inode)?;
        if *set == SetAttributes::default() {
            return Ok(attributes_of_row(&held.inode));
        }
        attributes::check(&held.inode, self.caller, set)?;
        if let Some(size) = set.size {
            self.resize(&held.node, size)?;
        }
        if set.uid.is_some() || set.gid.is_some() || set.size.is_some() {
            self.drop_capability(&held)?;
        }
        let (caller, now) = (self.caller, self.drafts.now);
        let inode = &mut self.drafts.drafted(&held.node).inode;
        attributes::apply(inode, caller, set, now);
        Ok(attributes_of_row(inode))
    }

    pub(crate) fn resize(&mut self, node: &Arc<Node>, size: u64) -> Result<()> {
        self.drafts.wait_for_content(node);
        let now = self.drafts.now;
        let old = self.drafts.drafted(node).inode.size;
        if size < old {
            let punch = |edit: &mut RegionEdit<'_>, writer: &mut Transaction<'_>| {
                edit.punch(writer, size..old)
            };
            self.drafts.edit(&mut self.writer, node, punch)?;
            self.drafts.drafted(node).ended.push(size..u64::MAX);
        }
        let drafted = self.drafts.drafted(node);
        drafted.has_new_content = true;
        drafted.inode.size = size;
        content_changed(&mut drafted.inode, now);
        Ok(())
    }

    /// As a change of owner, length or content must.
    fn drop_capability(&mut self, held: &Held) -> Result<()> {
        if held.inode.kind == NodeKind::File {
            self.writer.remove_xattr(held.node.id, CAPABILITY)?;
        }
        Ok(())
    }

    /// Writes the content `index` of the transaction at its offset. A write by anyone but the superuser drops
    /// the suid and sgid bits.
    ///
    /// # Errors
    /// `IsADirectory` or `InvalidArgument` for what is no file; `FileTooLarge`; `InvalidArgument` for a content
    /// that is not there or was written before.
    pub fn write(&mut self, inode: InodeId, index: usize) -> Result<()> {
        let held = self.held(inode)?;
        check_kind(&held.inode)?;
        let content = self
            .contents
            .get(index)
            .ok_or(Error::InvalidArgument("no such content".into()))?;
        let end = end_in_file(content.offset, content.data.len() as u64)?;
        if content.data.is_empty() {
            return Ok(());
        }
        self.drafts.wait_for_content(&held.node);
        self.install(&held, index)?;
        self.written(&held, content.offset..end)
    }

    /// What follows when `range` of a file got new content.
    fn written(&mut self, held: &Held, range: Range<u64>) -> Result<()> {
        let is_superuser = permission::is_superuser(self.caller);
        if !is_superuser {
            self.drop_capability(held)?;
        }
        let now = self.drafts.now;
        let drafted = self.drafts.drafted(&held.node);
        let inode = &mut drafted.inode;
        if !is_superuser {
            inode.mode = permission::mode_after_write(inode);
        }
        inode.size = inode.size.max(range.end);
        content_changed(inode, now);
        drafted.has_new_content = true;
        drafted.ended.push(range);
        Ok(())
    }

    /// Makes the sealed blocks of content `index` the content of its range.
    pub(crate) fn install(&mut self, held: &Held, index: usize) -> Result<()> {
        let Some(blocks) = &mut self.blocks else {
            return Ok(());
        };
        let placed = std::mem::take(&mut blocks[index]);
        if placed.is_empty() {
            return Err(Error::InvalidArgument("a content is written once".into()));
        }
        let mut start = self.contents[index].offset;
        let lens = slice_lens(&self.contents[index]);
        let core = self.drafts.core;
        let put = |edit: &mut RegionEdit<'_>, writer: &mut Transaction<'_>| {
            for (block, len) in placed.into_iter().zip(lens) {
                let extent = Extent {
                    start,
                    len,
                    block: number_of(core, writer, &block, 1)?.0,
                    block_offset: 0,
                };
                edit.put(writer, extent)?;
                start += u64::from(len);
            }
            Ok(())
        };
        self.drafts.edit(&mut self.writer, &held.node, put)
    }

    /// Makes what `source` holds, from its first byte to its last, the content of `inode` at `offset`, by sharing blocks: for
    /// more content than a transaction holds in memory. `source` is not changed by the list and by nobody else meanwhile: who
    /// brings content this way writes it to a file without a name first.
    ///
    /// # Errors
    /// As `write`; `InvalidArgument` if both are one file.
    pub fn share(&mut self, source: InodeId, inode: InodeId, offset: u64) -> Result<()> {
        let (from, held) = (self.held(source)?, self.held(inode)?);
        check_kind(&from.inode)?;
        check_kind(&held.inode)?;
        if source == inode {
            return Err(Error::InvalidArgument(
                "a file shares nothing with itself".into(),
            ));
        }
        let len = from.inode.size;
        let end = end_in_file(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        self.drafts.wait_for_content(&from.node);
        self.drafts.wait_for_content(&held.node);
        // (2): the list is not kept this time; what memory holds of the source is in no extent yet.
        if self.drafts.pending.is_empty() {
            self.share_extents(source, &held, offset, len)?;
        }
        self.written(&held, offset..end)
    }

    pub(crate) fn share_extents(
        &mut self,
        source: InodeId,
        held: &Held,
        at: u64,
        len: u64,
    ) -> Result<()> {
        let core = self.drafts.core;
        let mut parts = Vec::new();
        let mut from = 0;
        while let Some(region) = core
            .content
            .holes
            .next_region(&self.writer, source, from)?
            .filter(|region| region * REGION_BYTES < len)
        {
            let extents = self.writer.region(source, region)?;
            parts.extend(
                extents
                    .iter()
                    .filter_map(|one| extents::part(one, &(0..len))),
            );
            from = region + 1;
        }
        let put = |edit: &mut RegionEdit<'_>, writer: &mut Transaction<'_>| {
            put_shared(edit, writer, &parts, 0, at..at + len)
        };
        self.drafts.edit(&mut self.writer, &held.node, put)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As `Filesystem::set_xattr`.
    pub fn set_xattr(
        &mut self,
        inode: InodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        crate::names::xattr::set_in(self, inode, name, value, mode)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As `Filesystem::remove_xattr`.
    pub fn remove_xattr(&mut self, inode: InodeId, name: &[u8]) -> Result<()> {
        crate::names::xattr::remove_in(self, inode, name)
    }
}

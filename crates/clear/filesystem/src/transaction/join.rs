//! Carries out the plan of a merge: changes names and nodes as decided, in one step for every observer.
//!
//! Takes   a plan made from the newest revision of this device, and the extents and attributes that the plan brings
//! Gives   the current state with the plan carried out, and a list of changes for the callers that watch them
//! Never   changes anything if a name or node differs from the plan's assumption: then the plan is made again
//! Spec    spec/11-sync.md, 11.6
//!
//! Invariants
//!  (1) Every name and node that the plan changes is in the state that it had when the plan was made.  [11.6.5]
//!  (2) If the published revision follows the newest revision of this device, and nothing has changed on this device
//!      since that revision, the published tree becomes the current state and the base of the next revision. It does not
//!      become the base if a new node had to get another number because its own was in use here.         [11.6.4]
//!  (3) Each directory has one name and a way up to the root, whatever was moved since the plan was made.  [11.6.5]
//!  (4) No two nodes get one number, whatever numbers the published tree has.                            [11.6.5]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use strongroom_history::{
    Becomes, Body, Entry, Extent as TreeExtent, Name, NewContent, NodeId, Plan, Revision, XattrList,
};
use strongroom_metadata::{Base, Entry as Row, Inode, InodeId, NodeKind, Transaction, can_name};

use crate::blocks::erased::refuse_erased;
use crate::content::extents;
use crate::core::snapshot_nodes::is_reserved;
use crate::drain::edit::RegionEdit;
use crate::files::copy::put_shared;
use crate::history::living_extent;
use crate::history::take::HEADS;
use crate::names::namespace::ENTRY_BYTES;
use crate::names::scene::{Held, Scene};
use crate::rules::name::Name as RuledName;
use crate::transaction::draft::Draft;
use crate::{Error, Result};

/// What a plan brings that is read from trees.
#[derive(Debug, Default)]
pub struct Brought {
    /// Extents of files whose content becomes a published one.
    pub extents: HashMap<NodeId, Vec<TreeExtent>>,
    /// Files whose content is merged: which content of the transaction it is.
    pub merged: HashMap<NodeId, usize>,
    /// Extended attributes of nodes that get others.
    pub xattrs: HashMap<NodeId, XattrList>,
}

/// What others have to be shown again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Names that mean another node.
    pub names: Vec<(InodeId, Vec<u8>)>,
    /// Files with other content.
    pub contents: Vec<InodeId>,
    /// Nodes with other attributes.
    pub nodes: Vec<InodeId>,
    /// A node got another number than it has in the plan.
    pub renumbered: bool,
}

/// How a plan ends.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    /// The revision that was joined.
    pub theirs: &'a Revision,
    /// The revision of this device that the plan was made from, if theirs does not follow it.
    pub mine: Option<&'a Revision>,
}

/// Carries out one plan.
struct Joiner<'d, 'a, 'p> {
    draft: &'d mut Draft<'a>,
    plan: &'p Plan,
    brought: &'p Brought,
    /// Numbers of nodes that are new here.
    numbers: HashMap<NodeId, InodeId>,
    shown: Shown,
}

impl Draft<'_> {
    /// Whether the rows are what the base of the history says.
    ///
    /// # Errors
    /// Of the store.
    pub fn is_as_base(&self) -> Result<bool> {
        let writer = &self.writer;
        let history = writer.history()?;
        let Some(base) = history.base else {
            return Ok(false);
        };
        let mut changed =
            writer.has_marks() || !writer.inodes_from(InodeId(base.scan_from), 1)?.is_empty();
        for generation in base.generation + 1..=history.generation {
            changed = changed || !writer.changed(generation, None, 1)?.is_empty();
        }
        Ok(!changed)
    }

    /// Carries out `plan`.
    ///
    /// # Errors
    /// `WouldBlock` if something is not as the plan expects: give it on, and make another plan; `InvalidName` for a name that no
    /// file can have; of the store.
    pub fn join(&mut self, plan: &Plan, brought: &Brought) -> Result<Shown> {
        let mut joiner = Joiner {
            draft: self,
            plan,
            brought,
            numbers: HashMap::new(),
            shown: Shown::default(),
        };
        joiner.check()?;
        joiner.make_nodes()?;
        joiner.make_copies()?;
        joiner.names()?;
        for (id, becomes) in &plan.nodes {
            joiner.node(*id, becomes)?;
        }
        Ok(joiner.shown)
    }

    /// Notes what the living state goes on from. `is_as_base`: it was the base before the plan was carried out, and is theirs in every
    /// number now.                                                                                               (2)
    ///
    /// # Errors
    /// Of the store.
    pub fn end_join(&mut self, ending: Ending<'_>, is_as_base: bool) -> Result<()> {
        let heads: Vec<u8> = std::iter::once(ending.theirs)
            .chain(ending.mine)
            .flat_map(|revision| revision.id.0)
            .collect();
        self.writer.put_setting(HEADS, &heads)?;
        if ending.mine.is_some() || !is_as_base {
            return Ok(());
        }
        for drafted in self.drafts.nodes.values_mut() {
            self.writer.put_inode(&drafted.inode)?;
            drafted.is_stored = true;
        }
        let writer: &mut Transaction<'_> = &mut self.writer;
        let root = writer.block_by_id(&ending.theirs.body.root)?;
        let root = root.ok_or(Error::DamagedHistory)?;
        let history = writer.begin_generation()?;
        writer.change_references(root, 1)?;
        if let Some(base) = history.base {
            writer.change_references(base.root, -1)?;
        }
        writer.set_base(Some(Base {
            root,
            generation: history.generation - 1,
            scan_from: history.mark_below,
        }))?;
        Ok(())
    }
}

impl Joiner<'_, '_, '_> {
    /// The number here of a node of the plan.
    fn number(&self, id: NodeId) -> InodeId {
        self.numbers.get(&id).copied().unwrap_or(id.0)
    }

    /// The node as it is here.
    fn held(&mut self, id: NodeId) -> Result<Held> {
        let number = self.number(id);
        let held = match self.draft.held(number) {
            Err(Error::Stale | Error::NotFound) => return Err(Error::WouldBlock),
            held => held?,
        };
        match held.inode.birth_id == id.1 {
            true => Ok(held),
            false => Err(Error::WouldBlock),
        }
    }

    /// (1), after what is new has numbers.
    fn check(&mut self) -> Result<()> {
        self.number_new_nodes()?;
        for (id, becomes) in &self.plan.nodes {
            let Some(mine) = &becomes.mine else { continue };
            self.check_node(*id, mine)?;
            // A directory's own changes do not count, but its attributes are about to be replaced.
            if becomes.xattrs.is_some() && self.held(*id)?.inode.ctime != mine.ctime {
                return Err(Error::WouldBlock);
            }
        }
        for mine in &self.plan.untouched {
            self.check_node(mine.node(), mine)?;
        }
        for copy in &self.plan.copies {
            self.check_node(copy.of.node(), &copy.of)?;
            self.check_name(&copy.at, None)?;
        }
        for (name, (before, _)) in &self.plan.names {
            self.check_name(name, *before)?;
        }
        self.check_directories()
    }

    /// Gives each new node the number that it has in the plan, or another one if that is in use. (4)
    fn number_new_nodes(&mut self) -> Result<()> {
        let plan = self.plan;
        let mut taken = BTreeSet::new();
        let mut others = Vec::new();
        for (id, _) in plan.nodes.iter().filter(|(_, one)| one.mine.is_none()) {
            // Its node here has another birth, or lost its names and is still open somewhere. One that was made since the last
            // commit has no row yet.
            let in_memory = self.draft.core().content.nodes.find(id.0);
            let is_in_use = in_memory.is_some() || self.draft.writer.inode(id.0)?.is_some();
            if is_in_use || !taken.insert(id.0) {
                others.push(*id);
                continue;
            }
            self.draft.writer.skip_inodes(id.0)?;
            self.numbers.insert(*id, id.0);
        }
        // Last: the plan may bring what would have been the next number here, if a copy of this folder gave it.
        for id in others {
            self.shown.renumbered = true;
            let number = self.draft.writer.next_inode()?;
            self.numbers.insert(id, number);
        }
        Ok(())
    }

    /// A directory that is here and gets a name loses the one that it has. (3)
    fn check_directories(&mut self) -> Result<()> {
        let plan = self.plan;
        let names = plan.names.values();
        let losing: BTreeSet<NodeId> = names.clone().filter_map(|(before, _)| *before).collect();
        for id in names.filter_map(|(_, after)| *after) {
            let is_as_planned = self.numbers.contains_key(&id) || losing.contains(&id);
            if !is_as_planned && self.held(id)?.inode.kind == NodeKind::Directory {
                return Err(Error::WouldBlock);
            }
        }
        Ok(())
    }

    fn check_node(&mut self, id: NodeId, mine: &Entry) -> Result<()> {
        let held = self.held(id)?;
        let now = &held.inode;
        let is_same = (now.kind, now.mode, now.uid, now.gid)
            == (mine.kind, mine.mode, mine.uid, mine.gid)
            && now.nlink > 0;
        // What lies in a directory its names say.
        let is_unchanged = mine.kind == NodeKind::Directory
            || (now.content_version, now.size, now.mtime, now.ctime)
                == (mine.content_version, mine.size, mine.mtime, mine.ctime);
        if !is_same || !is_unchanged {
            return Err(Error::WouldBlock);
        }
        self.draft.drafts.wait_for_content(&held.node);
        Ok(())
    }

    fn check_name(&mut self, (parent, name): &Name, before: Option<NodeId>) -> Result<()> {
        if !can_name(name) || is_reserved(parent.0, RuledName::new(name)?) {
            return Err(Error::InvalidName);
        }
        if self.numbers.contains_key(parent) {
            return match before {
                None => Ok(()),
                Some(_) => Err(Error::WouldBlock),
            };
        }
        let now = self.draft.writer.entry(parent.0, name)?;
        let is_as_expected = match (now, before) {
            (None, None) => true,
            (Some(now), Some(before)) => {
                now.inode == before.0 && self.held(before)?.inode.birth_id == before.1
            }
            _ => false,
        };
        match is_as_expected && self.held(*parent)?.inode.nlink > 0 {
            true => Ok(()),
            false => Err(Error::WouldBlock),
        }
    }

    // ---- new nodes

    /// A node with the attributes of `entry`, and without a name.
    fn make(&mut self, number: InodeId, birth_id: u64, entry: &Entry) -> Held {
        let (target, rdev) = match &entry.body {
            Body::Symlink(target) => (target.clone(), 0),
            Body::Device(number) => (Vec::new(), *number),
            _ => (Vec::new(), 0),
        };
        let is_directory = entry.kind == NodeKind::Directory;
        let inode = Inode {
            id: number,
            birth_id,
            kind: entry.kind,
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            rdev,
            nlink: if is_directory { 2 } else { 0 },
            size: match entry.kind {
                NodeKind::Symlink => entry.size,
                _ => 0,
            },
            allocated: 0,
            atime: entry.atime,
            mtime: entry.mtime,
            ctime: entry.ctime,
            btime: entry.btime,
            content_version: entry.content_version,
            parent: InodeId(0),
            target,
            reserved: 0,
        };
        let node = self.draft.adopt(inode.clone());
        Held { node, inode }
    }

    fn make_nodes(&mut self) -> Result<()> {
        let plan = self.plan;
        for (id, becomes) in plan.nodes.iter().filter(|(_, one)| one.mine.is_none()) {
            let number = self.number(*id);
            self.make(number, id.1, &becomes.entry);
        }
        Ok(())
    }

    /// Copies of files that are about to get other content.
    fn make_copies(&mut self) -> Result<()> {
        let plan = self.plan;
        for copy in &plan.copies {
            let from = self.held(copy.of.node())?;
            let number = self.draft.writer.next_inode()?;
            let birth_id = self.draft.core().birth_id()?;
            let made = self.make(number, birth_id, &copy.of);
            // What memory holds of the source is in no extent yet; the list is not kept then.
            if self.draft.drafts.pending.is_empty() && from.inode.size > 0 {
                self.draft
                    .share_extents(from.node.id, &made, 0, from.inode.size)?;
            }
            let drafted = self.draft.drafts.drafted(&made.node);
            drafted.has_new_content = true;
            drafted.inode.size = from.inode.size;
            for name in self.draft.writer.xattrs(from.node.id)? {
                if let Some(value) = self.draft.writer.xattr(from.node.id, &name)? {
                    self.draft.writer.put_xattr(number, &name, &value)?;
                }
            }
            self.add(&copy.at, number, copy.of.kind)?;
        }
        Ok(())
    }

    // ---- names

    fn names(&mut self) -> Result<()> {
        let plan = self.plan;
        let mut gone = BTreeSet::new();
        for (name, (before, _)) in &plan.names {
            if let Some(before) = before {
                self.take(name, *before)?;
                gone.insert(*before);
            }
        }
        for (name, (_, after)) in &plan.names {
            if let Some(after) = after {
                gone.remove(after);
                let held = self.draft.held(self.number(*after))?;
                self.add(name, held.node.id, held.inode.kind)?;
            }
        }
        for id in gone {
            let held = self.held(id)?;
            if held.inode.kind != NodeKind::Directory {
                continue;
            }
            // Somebody put something into it meanwhile.
            if !self.draft.writer.is_empty(held.node.id)? {
                return Err(Error::WouldBlock);
            }
            self.draft.touch(&held.node, |inode| inode.nlink = 0);
        }
        self.check_ways_up()
    }

    /// What the plan moves below a directory may lie above it meanwhile: then neither has a way up. (3)
    fn check_ways_up(&mut self) -> Result<()> {
        let plan = self.plan;
        let mut below_root = BTreeSet::from([InodeId::ROOT]);
        for id in plan.names.values().filter_map(|(_, after)| *after) {
            let mut held = self.draft.held(self.number(id))?;
            if held.inode.kind != NodeKind::Directory {
                continue;
            }
            let mut way = BTreeSet::new();
            while !below_root.contains(&held.node.id) {
                if !way.insert(held.node.id) {
                    return Err(Error::WouldBlock);
                }
                // It has no name and closes no circle.
                if held.inode.parent == InodeId(0) {
                    break;
                }
                held = self.draft.held(held.inode.parent)?;
            }
            below_root.append(&mut way);
        }
        Ok(())
    }

    /// Counts a name that came to a directory, or went from it. Times are those of the plan.
    fn count(&mut self, parent: InodeId, came: bool, kind: NodeKind) -> Result<()> {
        let held = self.draft.held(parent)?;
        let subdirectories = u32::from(kind == NodeKind::Directory);
        self.draft.touch(&held.node, |inode| match came {
            true => {
                inode.size = inode.size.saturating_add(ENTRY_BYTES);
                inode.nlink = inode.nlink.saturating_add(subdirectories);
            }
            false => {
                inode.size = inode.size.saturating_sub(ENTRY_BYTES);
                inode.nlink = inode.nlink.saturating_sub(subdirectories);
            }
        });
        Ok(())
    }

    fn take(&mut self, (parent, name): &Name, id: NodeId) -> Result<()> {
        let held = self.held(id)?;
        let parent = self.number(*parent);
        self.draft.writer.remove_entry(parent, name)?;
        if held.inode.kind != NodeKind::Directory {
            self.draft.touch(&held.node, |inode| {
                inode.nlink = inode.nlink.saturating_sub(1)
            });
        }
        self.shown.nodes.push(held.node.id);
        self.shown.nodes.push(parent);
        self.shown.names.push((parent, name.clone()));
        self.count(parent, false, held.inode.kind)
    }

    fn add(&mut self, (parent, name): &Name, inode: InodeId, kind: NodeKind) -> Result<()> {
        let parent = self.number(*parent);
        let cookie = self.draft.writer.next_cookie();
        let row = Row {
            name: name.clone(),
            inode,
            kind,
            cookie,
        };
        match self.draft.writer.insert_entry(parent, &row) {
            Err(strongroom_metadata::Error::EntryExists) => return Err(Error::WouldBlock),
            inserted => inserted?,
        }
        let held = self.draft.held(inode)?;
        self.draft.touch(&held.node, |inode| match kind {
            NodeKind::Directory => inode.parent = parent,
            _ => inode.nlink = inode.nlink.saturating_add(1),
        });
        self.shown.nodes.push(inode);
        self.shown.nodes.push(parent);
        self.shown.names.push((parent, name.clone()));
        self.count(parent, true, kind)
    }

    // ---- nodes

    fn node(&mut self, id: NodeId, becomes: &Becomes) -> Result<()> {
        let held = self.held(id)?;
        match &becomes.content {
            Some(content) if held.inode.kind == NodeKind::File => {
                match content {
                    NewContent::Of(_) => self.content(&held, id, becomes.entry.size)?,
                    NewContent::Merged(bytes) => self.merged(&held, id, bytes.len() as u64)?,
                }
                self.shown.contents.push(held.node.id);
            }
            _ => {}
        }
        if becomes.xattrs.is_some() {
            self.xattrs(held.node.id, id)?;
        }
        let entry = &becomes.entry;
        self.draft.touch(&held.node, |inode| {
            (inode.mode, inode.uid, inode.gid) = (entry.mode, entry.uid, entry.gid);
            (inode.atime, inode.mtime) = (entry.atime, entry.mtime);
            (inode.ctime, inode.btime) = (entry.ctime, entry.btime);
            inode.content_version = entry.content_version;
        });
        self.shown.nodes.push(held.node.id);
        Ok(())
    }

    /// Makes what was published the content of a file, by its blocks.
    fn content(&mut self, held: &Held, id: NodeId, size: u64) -> Result<()> {
        let brought = self.brought.extents.get(&id);
        let brought = brought.ok_or(Error::DamagedHistory)?;
        let mut parts = Vec::with_capacity(brought.len());
        for extent in brought {
            let extent = living_extent(&self.draft.writer, held.node.id, extent)?;
            parts.extend(extents::part(&extent, &(0..size)));
        }
        match refuse_erased(&self.draft.writer, held.node.id, &parts) {
            // Erased since the plan was made.
            Err(Error::Erased { .. }) => return Err(Error::WouldBlock),
            refused => refused?,
        }
        let end = held.inode.size.max(size);
        if end > 0 {
            let put = |edit: &mut RegionEdit<'_>, writer: &mut Transaction<'_>| {
                put_shared(edit, writer, &parts, 0, 0..end)
            };
            self.draft
                .drafts
                .edit(&mut self.draft.writer, &held.node, put)?;
        }
        let drafted = self.draft.drafts.drafted(&held.node);
        drafted.has_new_content = true;
        drafted.inode.size = size;
        drafted.ended.push(0..u64::MAX);
        Ok(())
    }

    /// Makes what both sides wrote the content of a file: its blocks were sealed for this transaction.
    fn merged(&mut self, held: &Held, id: NodeId, size: u64) -> Result<()> {
        let content = self.brought.merged.get(&id).copied();
        let content = content.ok_or(Error::DamagedHistory)?;
        self.draft.resize(&held.node, 0)?;
        if size > 0 {
            self.draft.install(held, content)?;
        }
        self.draft.drafts.drafted(&held.node).inode.size = size;
        Ok(())
    }

    fn xattrs(&mut self, inode: InodeId, id: NodeId) -> Result<()> {
        let wanted = self.brought.xattrs.get(&id);
        let wanted: BTreeMap<&[u8], &[u8]> = wanted
            .ok_or(Error::DamagedHistory)?
            .iter()
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        for name in self.draft.writer.xattrs(inode)? {
            if !wanted.contains_key(&name[..]) {
                self.draft.writer.remove_xattr(inode, &name)?;
            }
        }
        for (name, value) in wanted {
            self.draft.writer.put_xattr(inode, name, value)?;
        }
        Ok(())
    }
}

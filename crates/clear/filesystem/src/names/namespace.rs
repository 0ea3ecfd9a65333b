//! Names: the node that each directory entry points to, and the number of entries of each node.
//!
//! Takes   a directory, a name and the caller
//! Gives   nodes, including new ones; each returned node has one more reference
//! Never   touches more than a fixed number of rows, however much a directory holds
//!
//! Every operation here first makes all checks that could refuse it, then writes its rows, then changes the nodes in
//! memory. So an error leaves the namespace as it was. The rows of new nodes are written at the next commit.
//!
//! Invariants
//!  (1) `nlink` of a directory is 2 plus the number of its subdirectories; of any other node it is the number of its entries.
//!  (2) A directory with `nlink` 0 is a removed one: it has no entries and accepts none.
//!  (3) References are taken with the open transaction locked, so a node is never purged between its look-up and its return.
//!  (4) The `size` of a directory is `ENTRY_BYTES` for each of its entries.

use std::sync::Arc;

use strongroom_metadata::{Entry, Inode, InodeId, NodeKind, Timestamp, Transaction};

use crate::blocks::place::Reason;
use crate::content::node::Node;
use crate::core::snapshot_nodes::is_reserved;
use crate::drain::drains::drain_node;
use crate::limits::{LINKS_MAX, TARGET_BYTES_MAX};
use crate::names::scene::{Held, Live, Scene};
use crate::rules::name::Name;
use crate::rules::permission::{self, EXECUTE, WRITE};
use crate::upkeep::room::make_room;
use crate::{Attributes, Caller, Error, Filesystem, NewNode, Result};

/// What one entry adds to the size that a directory shows, in bytes: about what an entry with a short name
/// takes elsewhere, and a fixed number, so that the size follows from the count.
pub(crate) const ENTRY_BYTES: u64 = 32;

/// The number of the character device by which overlay file systems mark a name that hides another. It is no device.
pub(crate) const WHITEOUT_DEVICE: u64 = 0;

/// The directory `id`, in which the caller may look names up.
pub(crate) fn searchable<'s>(scene: &mut impl Scene<'s>, id: InodeId) -> Result<Held> {
    let directory = scene.held(id)?;
    if !directory.is_directory() {
        return Err(Error::NotADirectory);
    }
    permission::require(&directory.inode, scene.caller(), EXECUTE)?;
    Ok(directory)
}

/// Demands leave to add a name to `directory`.
///
/// # Errors
/// `NotFound` for a removed directory (2), else `PermissionDenied`.
pub(crate) fn require_growing(directory: &Inode, caller: &Caller) -> Result<()> {
    if directory.nlink == 0 {
        return Err(Error::NotFound);
    }
    permission::require(directory, caller, WRITE | EXECUTE)
}

/// Notes in a directory that `entries` names came (or went, if negative), `subdirectories` of them directories.
pub(crate) fn names_changed<'s>(
    scene: &mut impl Scene<'s>,
    directory: &Arc<Node>,
    now: Timestamp,
    entries: i64,
    subdirectories: i32,
) {
    scene.touch(directory, |inode| {
        let change = entries.unsigned_abs() * ENTRY_BYTES;
        inode.size = if entries < 0 {
            inode.size.saturating_sub(change)
        } else {
            inode.size.saturating_add(change)
        };
        inode.nlink = inode.nlink.saturating_add_signed(subdirectories);
        inode.mtime = now;
        inode.ctime = now;
    });
}

/// Takes one name from a node; gives whether it was the last and nobody refers to the node.
pub(crate) fn name_lost<'s>(scene: &mut impl Scene<'s>, victim: &Held, now: Timestamp) -> bool {
    let mut left = 0;
    scene.touch(&victim.node, |inode| {
        // A directory's only name keeps its own `.` alive too.
        inode.nlink = if inode.kind == NodeKind::Directory {
            0
        } else {
            inode.nlink.saturating_sub(1)
        };
        inode.ctime = now;
        left = inode.nlink;
    });
    left == 0 && scene.core().content.nodes.references(victim.node.id) == 0
}

/// What is wrong with a node to be made, before anyone looks where.
fn check_new(new: &NewNode) -> Result<()> {
    if new.kind != NodeKind::Symlink {
        return if new.target.is_empty() {
            Ok(())
        } else {
            Err(Error::InvalidArgument("only a symlink has a target".into()))
        };
    }
    if new.target.is_empty() {
        return Err(Error::NotFound);
    }
    if new.target.len() > TARGET_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    if new.target.contains(&0) {
        return Err(Error::InvalidArgument(
            "a symlink's target has no NUL".into(),
        ));
    }
    Ok(())
}

/// The inode of a new node in `directory`, with `nlink` names to begin with.
pub(crate) fn new_inode<'s>(
    scene: &impl Scene<'s>,
    id: InodeId,
    directory: &Inode,
    new: &NewNode,
    nlink: u32,
) -> Result<Inode> {
    let (now, caller) = (scene.now(), scene.caller());
    let (mode, gid) = permission::mode_and_group_of_new(directory, caller, new.kind, new.mode);
    let is_device = matches!(new.kind, NodeKind::CharDevice | NodeKind::BlockDevice);
    Ok(Inode {
        id,
        birth_id: scene.core().birth_id()?,
        kind: new.kind,
        mode,
        uid: caller.uid,
        gid,
        rdev: if is_device { new.rdev } else { 0 },
        nlink,
        size: new.target.len() as u64,
        allocated: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        content_version: 0,
        parent: if new.kind == NodeKind::Directory {
            directory.id
        } else {
            InodeId(0)
        },
        target: new.target.clone(),
        reserved: 0,
    })
}

impl Filesystem {
    /// Finds `name` in `parent`; `.` and `..` are allowed here. Takes a reference.
    ///
    /// # Errors
    /// `NotADirectory`, `PermissionDenied`, `NameTooLong`, `InvalidName`, `NotFound`, in this order.
    pub fn lookup(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<Attributes> {
        if let Some(snapshots) = self.snapshots(parent) {
            if name == b".." && snapshots.parent(parent)? == InodeId::ROOT {
                return self.lookup(caller, InodeId::ROOT, b".");
            }
            return snapshots.lookup(caller, parent, name);
        }
        let core = &self.core;
        let mut live = Live::new(core, caller);
        let id = match look_up(&mut live, parent, name) {
            Err(Error::NotFound) if parent == InodeId::ROOT && name == crate::HISTORY_NAME => {
                drop(live);
                return self.history_top();
            }
            id => id?,
        };
        let node = core.node_in(&mut live.writer, id)?;
        self.hand_out(&node)
    }

    /// Makes a node and names it: `mknod`, `mkdir`, `symlink`, `open(O_CREAT | O_EXCL)`. Takes a reference.
    ///
    /// # Errors
    /// `Exists`; those of a look-up; `NotFound` in a removed directory or for an empty symlink target;
    /// `NameTooLong` for a target beyond `TARGET_BYTES_MAX`; `PermissionDenied`; `NotPermitted` for a device,
    /// other than a whiteout, made by other than the superuser; `NoSpace`.
    pub fn create(
        &self,
        caller: &Caller,
        parent: InodeId,
        name: &[u8],
        node: &NewNode,
    ) -> Result<Attributes> {
        let core = &self.core;
        make_room(core, 0);
        let _gate = core.mutate()?;
        let mut live = Live::new(core, caller);
        let made = create_in(&mut live, parent, name, node)?;
        let attributes = self.hand_out(&made);
        core.changed();
        attributes
    }

    /// Makes a regular file without a name, as `open(O_TMPFILE)` does; `link` may name it. Takes a reference.
    ///
    /// # Errors
    /// `NotADirectory`, `NotFound` in a removed directory, `PermissionDenied`, `NoSpace`.
    pub fn create_unnamed(
        &self,
        caller: &Caller,
        parent: InodeId,
        mode: u32,
    ) -> Result<Attributes> {
        let core = &self.core;
        make_room(core, 0);
        let _gate = core.mutate()?;
        let mut live = Live::new(core, caller);
        let directory = searchable(&mut live, parent)?;
        require_growing(&directory.inode, caller)?;
        core.admit(0)?;
        let new = NewNode {
            kind: NodeKind::File,
            mode,
            rdev: 0,
            target: Vec::new(),
        };
        let id = live.writer.next_inode()?;
        let inode = new_inode(&live, id, &directory.inode, &new, 0)?;
        let made = live.adopt(inode);
        made.lock().may_get_first_name = true;
        let attributes = self.hand_out(&made);
        core.changed();
        attributes
    }

    /// Gives a node that is no directory a further name. Takes a reference.
    ///
    /// A file made without a name gets its first one this way, once, while the caller holds a reference on it; what
    /// was written to it so far is stored first, so that the name never points to content that is not there. What lost
    /// its last name gets none any more, as on Linux.
    ///
    /// # Errors
    /// Those of a look-up; `Exists`; `NotFound` in a removed directory or for a node without names but that one;
    /// `PermissionDenied`; `NotPermitted` for a directory; `TooManyLinks` beyond `LINKS_MAX`.
    pub fn link(
        &self,
        caller: &Caller,
        inode: InodeId,
        new_parent: InodeId,
        new_name: &[u8],
    ) -> Result<Attributes> {
        let core = &self.core;
        make_room(core, 0);
        let _gate = core.mutate()?;
        let mut drained = false;
        loop {
            let mut live = Live::new(core, caller);
            let link = Link::plan(&mut live, inode, new_parent, new_name)?;
            if link.needs_drain() && !drained {
                drop(live);
                drain_node(core, &link.node.node, Reason::Namespace)?;
                drained = true;
                continue;
            }
            link.carry_out(&mut live)?;
            link.node.node.lock().may_get_first_name = false;
            let attributes = self.hand_out(&link.node.node);
            core.changed();
            return attributes;
        }
    }

    /// Takes a name from a node that is no directory. The node lives on while it has other names or references.
    ///
    /// # Errors
    /// Those of a look-up; `PermissionDenied`; `NotPermitted` by the sticky bit; `IsADirectory`.
    pub fn unlink(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<()> {
        self.remove(caller, parent, name, Removal::Name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of a look-up; `PermissionDenied`; `NotPermitted` by the sticky bit; `NotADirectory`; `NotEmpty`.
    pub fn remove_directory(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<()> {
        self.remove(caller, parent, name, Removal::Directory)
    }

    fn remove(
        &self,
        caller: &Caller,
        parent: InodeId,
        name: &[u8],
        removal: Removal,
    ) -> Result<()> {
        let core = &self.core;
        let _gate = core.mutate()?;
        let mut live = Live::new(core, caller);
        let unused = remove_in(&mut live, parent, name, removal)?;
        core.changed();
        drop(live);
        if let Some(unused) = unused {
            core.purge_soon(unused);
        }
        Ok(())
    }

    /// The target of a symlink.
    ///
    /// # Errors
    /// `InvalidArgument` for any other node.
    pub fn read_link(&self, inode: InodeId) -> Result<Vec<u8>> {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.read_link(inode);
        }
        let node = self.core.node(inode)?;
        let state = node.living()?;
        if state.inode.kind != NodeKind::Symlink {
            return Err(Error::InvalidArgument("not a symlink".into()));
        }
        Ok(state.inode.target.clone())
    }

    /// The directory that holds directory `inode`; of the root, itself. Takes no reference.
    ///
    /// # Errors
    /// `NotADirectory` for any other node.
    pub fn parent(&self, inode: InodeId) -> Result<InodeId> {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.parent(inode);
        }
        let node = self.core.node(inode)?;
        let state = node.living()?;
        if state.inode.kind != NodeKind::Directory {
            return Err(Error::NotADirectory);
        }
        Ok(state.inode.parent)
    }

    /// Gives back `count` references. The last one on a node without names lets the node go. Memory only.
    pub fn forget(&self, inode: InodeId, count: u64) {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.forget(inode, count);
        }
        let core = &self.core;
        if core.content.nodes.release(inode, count) > 0 || core.options.read_only {
            return;
        }
        // A node that is not in memory has a name: nameless ones are not evicted. Who takes the last name
        // after this look sees that no reference is left.
        let nameless = core.content.nodes.find(inode).is_some_and(|node| {
            let state = node.lock();
            state.inode.nlink == 0 && !state.purged
        });
        if nameless {
            core.purge_soon(inode);
        }
    }

    /// Takes one more reference on a node of which the caller already holds one.
    pub fn retain(&self, inode: InodeId) {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.retain(inode);
        }
        self.core.content.nodes.retain(inode, 1);
    }

    /// Takes a reference on the node of a number that somebody noted earlier, and gives what `stat` shows of it.
    ///
    /// # Errors
    /// `Stale` if there is no such node, or nothing but this number leads to it: its content is being removed. Also for a node of a
    /// snapshot, which has its number only as long as somebody refers to it.
    pub fn refer_again(&self, inode: InodeId) -> Result<Attributes> {
        if self.snapshots(inode).is_some() {
            return Err(Error::Stale);
        }
        let core = &self.core;
        let mut writer = core.store.lock();
        let node = core.node_in(&mut writer, inode)?;
        if node.living()?.inode.nlink == 0 && core.content.nodes.references(inode) == 0 {
            return Err(Error::Stale);
        }
        self.hand_out(&node)
    }

    /// (3): takes a reference and gives the attributes. Call with the writer held.
    fn hand_out(&self, node: &Arc<Node>) -> Result<Attributes> {
        let attributes = node.attributes()?;
        self.core.content.nodes.retain(node.id, 1);
        Ok(attributes)
    }
}

/// The node that `name` names in `parent`; `.` and `..` are allowed here.
pub(crate) fn look_up<'s>(
    scene: &mut impl Scene<'s>,

    parent: InodeId,
    name: &[u8],
) -> Result<InodeId> {
    let directory = searchable(scene, parent)?;
    Ok(match name {
        b"." => parent,
        b".." => directory.inode.parent,
        _ => {
            let entry = scene.writer().entry(parent, Name::new(name)?.bytes())?;
            entry.ok_or(Error::NotFound)?.inode
        }
    })
}

/// Makes a node and names it.
pub(crate) fn create_in<'s>(
    scene: &mut impl Scene<'s>,

    parent: InodeId,
    name: &[u8],
    node: &NewNode,
) -> Result<Arc<Node>> {
    check_new(node)?;
    let directory = searchable(scene, parent)?;
    let name = Name::new(name)?;
    if scene.writer().entry(parent, name.bytes())?.is_some() || is_reserved(parent, name) {
        return Err(Error::Exists);
    }
    require_growing(&directory.inode, scene.caller())?;
    let is_whiteout = node.kind == NodeKind::CharDevice && node.rdev == WHITEOUT_DEVICE;
    if matches!(node.kind, NodeKind::CharDevice | NodeKind::BlockDevice) && !is_whiteout {
        permission::require_superuser(scene.caller())?;
    }
    let is_directory = node.kind == NodeKind::Directory;
    scene.core().admit(node.target.len() as u64)?;
    let nlink = if is_directory { 2 } else { 1 };
    let id = scene.writer().next_inode()?;
    let inode = new_inode(scene, id, &directory.inode, node, nlink)?;
    let now = inode.btime;
    let entry = Entry {
        name: name.bytes().to_vec(),
        inode: inode.id,
        kind: node.kind,
        cookie: scene.writer().next_cookie(),
    };
    scene.writer().insert_entry(parent, &entry)?;
    let made = scene.adopt(inode);
    names_changed(scene, &directory.node, now, 1, i32::from(is_directory));
    Ok(made)
}

/// Which kind of name is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Of anything but a directory.
    Name,
    /// Of an empty directory.
    Directory,
}

impl Removal {
    fn check(self, writer: &Transaction<'_>, victim: &Held) -> Result<()> {
        match (self, victim.is_directory()) {
            (Self::Name, true) => Err(Error::IsADirectory),
            (Self::Directory, false) => Err(Error::NotADirectory),
            (Self::Name, false) => Ok(()),
            (Self::Directory, true) if writer.is_empty(victim.node.id)? => Ok(()),
            (Self::Directory, true) => Err(Error::NotEmpty),
        }
    }
}

/// Removes the entry `name`; gives its node if nothing holds it any more.
pub(crate) fn remove_in<'s>(
    scene: &mut impl Scene<'s>,

    parent: InodeId,
    name: &[u8],
    removal: Removal,
) -> Result<Option<InodeId>> {
    let directory = searchable(scene, parent)?;
    let name = Name::new(name)?;
    let entry = scene
        .writer()
        .entry(parent, name.bytes())?
        .ok_or(Error::NotFound)?;
    let victim = scene.held(entry.inode)?;
    permission::require_removable(&directory.inode, &victim.inode, scene.caller())?;
    removal.check(scene.writer(), &victim)?;
    scene.writer().remove_entry(parent, name.bytes())?;
    let now = scene.now();
    let unused = name_lost(scene, &victim, now);
    let subdirectories = -i32::from(victim.is_directory());
    names_changed(scene, &directory.node, now, -1, subdirectories);
    Ok(unused.then_some(victim.node.id))
}

/// A further name that nothing refuses any more, while the writer is held.
pub(crate) struct Link<'a> {
    pub(crate) node: Held,
    directory: Held,
    name: Name<'a>,
}

impl<'a> Link<'a> {
    pub(crate) fn plan<'s>(
        scene: &mut impl Scene<'s>,

        inode: InodeId,
        new_parent: InodeId,
        new_name: &'a [u8],
    ) -> Result<Self> {
        let node = scene.held(inode)?;
        let directory = searchable(scene, new_parent)?;
        let name = Name::new(new_name)?;
        if is_reserved(new_parent, name) {
            return Err(Error::Exists);
        }
        require_linkable(scene, &node, &directory, name)?;
        Ok(Self {
            node,
            directory,
            name,
        })
    }

    /// Whether a first name would point to content that is in memory only.
    pub(crate) fn needs_drain(&self) -> bool {
        self.node.inode.nlink == 0 && self.node.node.lock().has_pending_content()
    }

    pub(crate) fn carry_out<'s>(&self, scene: &mut impl Scene<'s>) -> Result<()> {
        let entry = Entry {
            name: self.name.bytes().to_vec(),
            inode: self.node.node.id,
            kind: self.node.inode.kind,
            cookie: scene.writer().next_cookie(),
        };
        scene
            .writer()
            .insert_entry(self.directory.node.id, &entry)?;
        let now = scene.now();
        scene.touch(&self.node.node, |inode| {
            inode.nlink = inode.nlink.saturating_add(1);
            inode.ctime = now;
        });
        names_changed(scene, &self.directory.node, now, 1, 0);
        Ok(())
    }
}

/// Everything that can refuse a further name for `node`.
fn require_linkable<'s>(
    scene: &mut impl Scene<'s>,
    node: &Held,
    directory: &Held,
    name: Name<'_>,
) -> Result<()> {
    if scene
        .writer()
        .entry(directory.node.id, name.bytes())?
        .is_some()
    {
        return Err(Error::Exists);
    }
    require_growing(&directory.inode, scene.caller())?;
    if node.is_directory() {
        return Err(Error::NotPermitted);
    }
    // Without names and references it is being purged; with references but a name that it lost, it stays without.
    if node.inode.nlink == 0
        && (!node.node.lock().may_get_first_name
            || scene.core().content.nodes.references(node.node.id) == 0)
    {
        return Err(Error::NotFound);
    }
    if node.inode.nlink >= LINKS_MAX {
        return Err(Error::TooManyLinks);
    }
    scene.core().admit(0)
}

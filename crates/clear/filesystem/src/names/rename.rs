//! Moves a name: to a free name, over another name, in exchange with another, or leaving a whiteout in its place.
//!
//! Takes   two directories and two names
//! Gives   the namespace with the name moved, in one step
//! Never   touches anything below a moved directory
//!
//! Invariants
//!  (1) A name never points to content that is not stored: a file that replaces another is drained first.
//!  (2) No directory is moved below itself.
//!  (3) Within its directory a renamed entry keeps its position in the listing. So a program that reads a directory and
//!      renames its entries meets each of them once.                                           [list]

use std::sync::Arc;

use strongroom_metadata::{Entry, Inode, InodeId, NodeKind, Timestamp, Transaction};

use crate::blocks::place::Reason;
use crate::content::node::Node;
use crate::core::snapshot_nodes::is_reserved;
use crate::drain::drains::drain_node;
use crate::limits::{DIRECTORY_DEPTH_MAX, RENAME_ROUNDS_MAX};
use crate::names::namespace::{
    WHITEOUT_DEVICE, name_lost, names_changed, new_inode, require_growing, searchable,
};
use crate::names::scene::{Held, Live, Scene};
use crate::rules::name::Name;
use crate::rules::permission::{self, WRITE};
use crate::{Caller, Error, Filesystem, NewNode, RenameMode, Result};

/// Where a name is or is to be.
#[derive(Clone, Copy)]
struct Place<'a> {
    directory: InodeId,
    name: Name<'a>,
}

/// A rename that nothing refuses any more, while the writer is held.
pub(crate) struct Plan<'a> {
    old_place: Place<'a>,
    new_place: Place<'a>,
    from: Held,
    to: Held,
    source: Held,
    /// The place of the old name in the listing of its directory.
    cookie: u64,
    target: Option<Held>,
    mode: RenameMode,
}

impl Filesystem {
    /// Moves the name `name` in `parent` to `new_name` in `new_parent`, as `renameat2` does. Two names of one
    /// node stay both. What takes the place of a file is stored first, and so is either side of an exchange.
    ///
    /// # Errors
    /// Those of a look-up; `NotFound` without a source, or for an exchange without a target; `Exists` as `mode`
    /// asks; `InvalidArgument` for a move of a directory below itself; `PermissionDenied`, `NotPermitted`;
    /// `NotADirectory`, `IsADirectory` and `NotEmpty` for a target that the source cannot replace.
    pub fn rename(
        &self,
        caller: &Caller,
        parent: InodeId,
        name: &[u8],
        new_parent: InodeId,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        let core = &self.core;
        let _gate = core.mutate()?;
        let mut drained: Vec<InodeId> = Vec::new();
        for _ in 0..RENAME_ROUNDS_MAX {
            let mut live = Live::new(core, caller);
            let (old, new) = ((parent, name), (new_parent, new_name));
            let Some(plan) = plan(&mut live, old, new, mode)? else {
                return Ok(());
            };
            // (1): drained without the writer; then everything is looked up again, for it may have changed.
            let node = plan.to_drain().find(|node| !drained.contains(&node.id));
            if let Some(node) = node {
                drop(live);
                drain_node(core, &node, Reason::Namespace)?;
                drained.push(node.id);
                continue;
            }
            let unused = plan.carry_out(&mut live)?;
            core.changed();
            drop(live);
            if let Some(unused) = unused {
                core.purge_soon(unused);
            }
            return Ok(());
        }
        Err(Error::WouldBlock)
    }
}

/// Asks everything that can refuse, in the order in which Linux asks. `None`: there is nothing to do.
pub(crate) fn plan<'s, 'a>(
    scene: &mut impl Scene<'s>,

    (parent, name): (InodeId, &'a [u8]),
    (new_parent, new_name): (InodeId, &'a [u8]),
    mode: RenameMode,
) -> Result<Option<Plan<'a>>> {
    let from = searchable(scene, parent)?;
    let to = searchable(scene, new_parent)?;
    let old_place = Place {
        directory: parent,
        name: Name::new(name)?,
    };
    let new_place = Place {
        directory: new_parent,
        name: Name::new(new_name)?,
    };
    if is_reserved(new_parent, new_place.name) {
        return Err(Error::Exists);
    }
    let (source, cookie) = entry_node(scene, old_place)?.ok_or(Error::NotFound)?;
    let target = entry_node(scene, new_place)?.map(|(node, _)| node);
    match (mode, &target) {
        (RenameMode::NoReplace, Some(_)) => return Err(Error::Exists),
        (RenameMode::Exchange, None) => return Err(Error::NotFound),
        _ => {}
    }
    let plan = Plan {
        old_place,
        new_place,
        from,
        to,
        source,
        cookie,
        target,
        mode,
    };
    plan.require_no_cycle(scene)?;
    if plan
        .target
        .as_ref()
        .is_some_and(|target| target.node.id == plan.source.node.id)
    {
        return Ok(None);
    }
    plan.require_permitted(scene.caller())?;
    plan.require_replaceable(scene.writer())?;
    if mode == RenameMode::Whiteout {
        scene.core().admit(0)?;
    }
    Ok(Some(plan))
}

/// What a name names, and its place in the listing.
fn entry_node<'s>(scene: &mut impl Scene<'s>, place: Place<'_>) -> Result<Option<(Held, u64)>> {
    match scene.writer().entry(place.directory, place.name.bytes())? {
        Some(entry) => Ok(Some((scene.held(entry.inode)?, entry.cookie))),
        None => Ok(None),
    }
}

/// Whether `directory` is `ancestor` or lies below it.
fn lies_within<'s>(
    scene: &mut impl Scene<'s>,

    directory: InodeId,
    ancestor: InodeId,
) -> Result<bool> {
    let mut at = directory;
    // Where the way up was after 1, 2, 4, … steps: damaged rows that lead in a circle come by it again.
    let mut marker = InodeId(0);
    for step in 0..DIRECTORY_DEPTH_MAX {
        if at == marker {
            break;
        }
        if step.is_power_of_two() {
            marker = at;
        }
        if at == ancestor {
            return Ok(true);
        }
        if at == InodeId::ROOT {
            return Ok(false);
        }
        at = scene.held(at)?.inode.parent;
    }
    Err(Error::InvalidArgument("directories nested too deep".into()))
}

impl Plan<'_> {
    fn within_one_directory(&self) -> bool {
        self.from.node.id == self.to.node.id
    }

    fn is_exchange(&self) -> bool {
        self.mode == RenameMode::Exchange
    }

    fn target_is_directory(&self) -> bool {
        self.target.as_ref().is_some_and(Held::is_directory)
    }

    /// (2), and its mirror: a target above the source is not empty.
    fn require_no_cycle<'s>(&self, scene: &mut impl Scene<'s>) -> Result<()> {
        // Nothing moves into a removed directory, and what was above it may be gone.
        if self.within_one_directory() || self.to.inode.nlink == 0 {
            return Ok(());
        }
        let (from, to) = (self.from.node.id, self.to.node.id);
        if self.source.is_directory() && lies_within(scene, to, self.source.node.id)? {
            return Err(Error::InvalidArgument(
                "a directory cannot move below itself".into(),
            ));
        }
        if let Some(target) = self.target.as_ref().filter(|target| target.is_directory())
            && lies_within(scene, from, target.node.id)?
        {
            return Err(match self.mode {
                RenameMode::Exchange => {
                    Error::InvalidArgument("a directory cannot move below itself".into())
                }
                _ => Error::NotEmpty,
            });
        }
        Ok(())
    }

    fn require_permitted(&self, caller: &Caller) -> Result<()> {
        permission::require_removable(&self.from.inode, &self.source.inode, caller)?;
        let Some(target) = &self.target else {
            require_growing(&self.to.inode, caller)?;
            return self.require_parent_changeable(caller, &self.source);
        };
        permission::require_removable(&self.to.inode, &target.inode, caller)?;
        if !self.is_exchange() {
            match (self.source.is_directory(), target.is_directory()) {
                (true, false) => return Err(Error::NotADirectory),
                (false, true) => return Err(Error::IsADirectory),
                _ => {}
            }
        }
        self.require_parent_changeable(caller, &self.source)?;
        if self.is_exchange() {
            self.require_parent_changeable(caller, target)?;
        }
        Ok(())
    }

    /// A directory that moves to another one gets another `..`, which is a write to it.
    fn require_parent_changeable(&self, caller: &Caller, moved: &Held) -> Result<()> {
        if moved.is_directory() && !self.within_one_directory() {
            permission::require(&moved.inode, caller, WRITE)?;
        }
        Ok(())
    }

    fn require_replaceable(&self, writer: &Transaction<'_>) -> Result<()> {
        match &self.target {
            Some(target) if !self.is_exchange() && target.is_directory() => {
                if writer.is_empty(target.node.id)? {
                    Ok(())
                } else {
                    Err(Error::NotEmpty)
                }
            }
            _ => Ok(()),
        }
    }

    /// (1): files that take a file's place while some of their content is in memory only.
    pub(crate) fn to_drain(&self) -> impl Iterator<Item = Arc<Node>> {
        let source = self.target.is_some().then_some(&self.source);
        let target = self.target.as_ref().filter(|_| self.is_exchange());
        let moving = source.into_iter().chain(target);
        moving
            .filter(|held| held.inode.kind == NodeKind::File)
            .filter(|held| held.node.lock().has_pending_content())
            .map(|held| Arc::clone(&held.node))
    }

    /// Moves the name; gives the replaced node if nothing holds it any more.
    pub(crate) fn carry_out<'s>(&self, scene: &mut impl Scene<'s>) -> Result<Option<InodeId>> {
        let left = match self.mode {
            RenameMode::Whiteout => Some(self.whiteout(scene)?),
            _ => None,
        };
        self.write_rows(scene.writer(), left.as_ref())?;
        if let Some(left) = left {
            scene.adopt(left);
        }
        Ok(self.change_nodes(scene))
    }

    /// What a rename of that kind leaves at the old name: as overlay file systems mark a name that is to hide another.
    fn whiteout<'s>(&self, scene: &mut impl Scene<'s>) -> Result<Inode> {
        let mark = NewNode {
            kind: NodeKind::CharDevice,
            mode: 0,
            rdev: WHITEOUT_DEVICE,
            target: Vec::new(),
        };
        let (id, directory) = (scene.writer().next_inode()?, &self.from.inode);
        new_inode(scene, id, directory, &mark, 1)
    }

    /// `left`: what takes the old name.
    fn write_rows(&self, writer: &mut Transaction<'_>, left: Option<&Inode>) -> Result<()> {
        let (old, new) = (self.old_place, self.new_place);
        let (source, kind) = (self.source.node.id, self.source.inode.kind);
        let left = left.map(|left| (left.id, left.kind));
        let left = left.or(match &self.target {
            Some(target) if self.is_exchange() => Some((target.node.id, target.inode.kind)),
            _ => None,
        });
        match left {
            Some((left, kind)) => {
                writer.replace_entry(old.directory, old.name.bytes(), left, kind)?;
            }
            None => {
                writer.remove_entry(old.directory, old.name.bytes())?;
            }
        }
        if self.target.is_some() {
            writer.replace_entry(new.directory, new.name.bytes(), source, kind)?;
            return Ok(());
        }
        // (3)
        let keeps_place = self.within_one_directory() && left.is_none();
        let entry = Entry {
            name: new.name.bytes().to_vec(),
            inode: source,
            kind,
            cookie: if keeps_place {
                self.cookie
            } else {
                writer.next_cookie()
            },
        };
        writer.insert_entry(new.directory, &entry)?;
        Ok(())
    }

    /// The same in memory; gives the replaced node if nothing holds it any more.
    fn change_nodes<'s>(&self, scene: &mut impl Scene<'s>) -> Option<InodeId> {
        let now = scene.now();
        let source_directories = i32::from(self.source.is_directory());
        let target_directories = i32::from(self.target_is_directory());
        moved(scene, &self.source, &self.to, now);
        let mut unused = None;
        let left = i64::from(self.mode == RenameMode::Whiteout);
        // What the old place gains and the new place loses, seen from each directory.
        let (entries_out, entries_in, directories_out, directories_in) =
            match (&self.target, self.mode) {
                (None, _) => (left - 1, 1, -source_directories, source_directories),
                (Some(target), RenameMode::Exchange) => {
                    moved(scene, target, &self.from, now);
                    let change = target_directories - source_directories;
                    (0, 0, change, -change)
                }
                (Some(target), _) => {
                    unused = name_lost(scene, target, now).then_some(target.node.id);
                    (
                        left - 1,
                        0,
                        -source_directories,
                        source_directories - target_directories,
                    )
                }
            };
        if self.within_one_directory() {
            let (entries, directories) =
                (entries_out + entries_in, directories_out + directories_in);
            names_changed(scene, &self.from.node, now, entries, directories);
        } else {
            names_changed(scene, &self.from.node, now, entries_out, directories_out);
            names_changed(scene, &self.to.node, now, entries_in, directories_in);
        }
        unused
    }
}

/// A node that has another name now.
fn moved<'s>(scene: &mut impl Scene<'s>, held: &Held, directory: &Held, now: Timestamp) {
    scene.touch(&held.node, |inode| {
        inode.ctime = now;
        if inode.kind == NodeKind::Directory {
            inode.parent = directory.node.id;
        }
    });
}

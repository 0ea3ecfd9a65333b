//! Creates, removes and moves names.
//!
//! Takes   directories and names
//! Gives   nodes, with one more reference if the interface says so
//! Never   touches content
//! Spec    rename(2), link(2), unlink(2); if several errors apply, the one that Linux gives first
//!
//! Invariants
//!  (1) A directory has exactly one name, in `parent`; its `nlink` is 2 plus its subdirectories.
//!  (2) No directory is below itself.

use std::collections::BTreeMap;

use strongroom_filesystem::{
    Attributes, Caller, Error, InodeId, ListedEntry, Listing, NewNode, NodeKind, RenameMode, Result,
};

use super::node::{Contents, Node, State};
use super::permission::{READ, SEARCH, WRITE, may, may_take};

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;

type Place<'a> = (InodeId, &'a [u8]);

fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0)
    {
        return Err(Error::InvalidName);
    }
    Ok(())
}

impl State {
    fn entries(&self, directory: InodeId) -> Result<&BTreeMap<Vec<u8>, (InodeId, u64)>> {
        match &self.node(directory)?.contents {
            Contents::Entries(entries) => Ok(entries),
            _ => Err(Error::NotADirectory),
        }
    }

    fn entries_mut(
        &mut self,
        directory: InodeId,
    ) -> Result<&mut BTreeMap<Vec<u8>, (InodeId, u64)>> {
        match &mut self.node_mut(directory)?.contents {
            Contents::Entries(entries) => Ok(entries),
            _ => Err(Error::NotADirectory),
        }
    }

    /// The node a name stands for, if the caller may look.
    fn find(&self, caller: &Caller, (parent, name): Place<'_>) -> Result<Option<InodeId>> {
        let entries = self.entries(parent)?;
        may(caller, self.node(parent)?, SEARCH)?;
        Ok(entries.get(name).map(|(inode, _)| *inode))
    }

    fn is_directory(&self, inode: InodeId) -> bool {
        self.nodes
            .get(&inode)
            .is_some_and(|node| node.kind == NodeKind::Directory)
    }

    /// Whether names may be added: the caller may, and the directory has not been removed.
    fn may_add(&self, caller: &Caller, parent: InodeId) -> Result<()> {
        let node = self.node(parent)?;
        if node.nlink == 0 {
            return Err(Error::NotFound);
        }
        may(caller, node, WRITE | SEARCH)
    }

    fn may_remove(&self, caller: &Caller, parent: InodeId, inode: InodeId) -> Result<()> {
        may(caller, self.node(parent)?, WRITE | SEARCH)?;
        may_take(caller, self.node(parent)?, self.node(inode)?)
    }

    fn put(&mut self, (parent, name): Place<'_>, inode: InodeId) -> Result<()> {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.entries_mut(parent)?
            .insert(name.to_vec(), (inode, cookie));
        self.node_mut(parent)?.mtime = None;
        if self.is_directory(inode) {
            self.node_mut(parent)?.nlink += 1;
            self.node_mut(inode)?.parent = parent;
        }
        Ok(())
    }

    fn take(&mut self, (parent, name): Place<'_>, inode: InodeId) -> Result<()> {
        self.entries_mut(parent)?.remove(name);
        self.node_mut(parent)?.mtime = None;
        if self.is_directory(inode) {
            self.node_mut(parent)?.nlink -= 1;
        }
        Ok(())
    }

    /// One name less; gone if that was the last and nobody holds a reference.
    fn drop_name(&mut self, inode: InodeId) -> Result<()> {
        let node = self.node_mut(inode)?;
        node.nlink = if node.kind == NodeKind::Directory {
            0
        } else {
            node.nlink - 1
        };
        self.purge(inode);
        Ok(())
    }

    pub(super) fn lookup(
        &mut self,
        caller: &Caller,
        parent: InodeId,
        name: &[u8],
    ) -> Result<Attributes> {
        let found = match name {
            b"." | b".." => {
                self.entries(parent)?;
                may(caller, self.node(parent)?, SEARCH)?;
                if name == b"." {
                    parent
                } else {
                    self.node(parent)?.parent
                }
            }
            _ => {
                self.entries(parent)?;
                check_name(name)?;
                self.find(caller, (parent, name))?.ok_or(Error::NotFound)?
            }
        };
        self.hand_out(found)
    }

    pub(super) fn create(
        &mut self,
        caller: &Caller,
        parent: InodeId,
        name: &[u8],
        new: &NewNode,
    ) -> Result<Attributes> {
        self.entries(parent)?;
        check_name(name)?;
        if self.find(caller, (parent, name))?.is_some() {
            return Err(Error::Exists);
        }
        self.may_add(caller, parent)?;
        let mut node = self.newborn(caller, parent, new.kind, new.mode)?;
        node.rdev = if matches!(new.kind, NodeKind::CharDevice | NodeKind::BlockDevice) {
            new.rdev
        } else {
            0
        };
        if new.kind == NodeKind::Symlink {
            node.contents = Contents::Target(new.target.clone());
            node.mode = 0o777;
        }
        let inode = self.add(node);
        self.put((parent, name), inode)?;
        self.hand_out(inode)
    }

    pub(super) fn create_unnamed(
        &mut self,
        caller: &Caller,
        parent: InodeId,
        mode: u32,
    ) -> Result<Attributes> {
        self.entries(parent)?;
        self.may_add(caller, parent)?;
        let mut node = self.newborn(caller, parent, NodeKind::File, mode)?;
        node.nlink = 0;
        node.may_get_first_name = true;
        let inode = self.add(node);
        self.hand_out(inode)
    }

    fn add(&mut self, node: Node) -> InodeId {
        let inode = InodeId(self.next_inode);
        self.next_inode += 1;
        self.nodes.insert(inode, node);
        inode
    }

    /// A node as its directory's set-group-id bit makes it.
    fn newborn(&self, caller: &Caller, parent: InodeId, kind: NodeKind, mode: u32) -> Result<Node> {
        let directory = self.node(parent)?;
        let inherits = directory.mode & 0o2000 != 0;
        let mut node = Node::new(
            kind,
            mode,
            caller.uid,
            if inherits { directory.gid } else { caller.gid },
        );
        if inherits && kind == NodeKind::Directory {
            node.mode |= 0o2000;
        }
        Ok(node)
    }

    pub(super) fn link(
        &mut self,
        caller: &Caller,
        inode: InodeId,
        parent: InodeId,
        name: &[u8],
    ) -> Result<Attributes> {
        self.entries(parent)?;
        check_name(name)?;
        self.node(inode)?;
        if self.find(caller, (parent, name))?.is_some() {
            return Err(Error::Exists);
        }
        self.may_add(caller, parent)?;
        let node = self.node_mut(inode)?;
        if node.kind == NodeKind::Directory {
            return Err(Error::NotPermitted);
        }
        if node.nlink == 0 && !node.may_get_first_name {
            return Err(Error::NotFound);
        }
        node.may_get_first_name = false;
        node.nlink += 1;
        self.put((parent, name), inode)?;
        self.hand_out(inode)
    }

    pub(super) fn unlink(&mut self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<()> {
        self.entries(parent)?;
        check_name(name)?;
        let inode = self.find(caller, (parent, name))?.ok_or(Error::NotFound)?;
        self.may_remove(caller, parent, inode)?;
        if self.is_directory(inode) {
            return Err(Error::IsADirectory);
        }
        self.take((parent, name), inode)?;
        self.drop_name(inode)
    }

    pub(super) fn remove_directory(
        &mut self,
        caller: &Caller,
        parent: InodeId,
        name: &[u8],
    ) -> Result<()> {
        self.entries(parent)?;
        check_name(name)?;
        let inode = self.find(caller, (parent, name))?.ok_or(Error::NotFound)?;
        self.may_remove(caller, parent, inode)?;
        if !self.entries(inode)?.is_empty() {
            return Err(Error::NotEmpty);
        }
        self.take((parent, name), inode)?;
        self.drop_name(inode)
    }

    /// Whether `inode` is `directory` or lies below it.
    fn lies_within(&self, inode: InodeId, directory: InodeId) -> bool {
        let mut at = inode;
        loop {
            if at == directory {
                return true;
            }
            match self.nodes.get(&at).map(|node| node.parent) {
                Some(parent) if parent != at => at = parent,
                _ => return false,
            }
        }
    }

    pub(super) fn rename(
        &mut self,
        caller: &Caller,
        from: Place<'_>,
        to: Place<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        self.entries(from.0)?;
        self.entries(to.0)?;
        check_name(from.1)?;
        check_name(to.1)?;
        let moved = self.find(caller, from)?.ok_or(Error::NotFound)?;
        let target = self.find(caller, to)?;
        match (mode, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(Error::Exists),
            (RenameMode::Exchange, None) => return Err(Error::NotFound),
            _ => {}
        }
        // Nothing moves into a removed directory, wherever it was: as on Linux, `NotFound` below.
        let is_there = self.node(to.0)?.nlink > 0;
        if is_there && self.is_directory(moved) && self.lies_within(to.0, moved) {
            return Err(Error::InvalidArgument(
                "a directory cannot go below itself".into(),
            ));
        }
        if let Some(target) = target
            && self.is_directory(target)
            && self.lies_within(from.0, target)
        {
            return Err(match mode {
                RenameMode::Exchange => {
                    Error::InvalidArgument("a directory cannot go below itself".into())
                }
                _ => Error::NotEmpty,
            });
        }
        if target == Some(moved) {
            return Ok(());
        }
        self.may_rename(caller, from, to, moved, target)?;
        match (mode, target) {
            (RenameMode::Exchange, Some(target)) => self.exchange(from, to, moved, target),
            (RenameMode::Whiteout, target) => {
                self.replace(from, to, moved, target)?;
                let mark = self.newborn(caller, from.0, NodeKind::CharDevice, 0)?;
                let mark = self.add(mark);
                self.put(from, mark)
            }
            (_, target) => self.replace(from, to, moved, target),
        }
    }

    fn may_rename(
        &self,
        caller: &Caller,
        from: Place<'_>,
        to: Place<'_>,
        moved: InodeId,
        target: Option<InodeId>,
    ) -> Result<()> {
        self.may_remove(caller, from.0, moved)?;
        match target {
            Some(target) => self.may_remove(caller, to.0, target)?,
            None => self.may_add(caller, to.0)?,
        }
        if from.0 == to.0 {
            return Ok(());
        }
        // A directory that changes parents is written to: its `..` changes.
        for inode in [Some(moved), target]
            .into_iter()
            .flatten()
            .filter(|inode| self.is_directory(*inode))
        {
            may(caller, self.node(inode)?, WRITE)?;
        }
        Ok(())
    }

    fn exchange(
        &mut self,
        from: Place<'_>,
        to: Place<'_>,
        moved: InodeId,
        target: InodeId,
    ) -> Result<()> {
        self.take(from, moved)?;
        self.take(to, target)?;
        self.put(from, target)?;
        self.put(to, moved)
    }

    fn replace(
        &mut self,
        from: Place<'_>,
        to: Place<'_>,
        moved: InodeId,
        target: Option<InodeId>,
    ) -> Result<()> {
        if let Some(target) = target {
            match (self.is_directory(moved), self.is_directory(target)) {
                (true, false) => return Err(Error::NotADirectory),
                (false, true) => return Err(Error::IsADirectory),
                (true, true) if !self.entries(target)?.is_empty() => return Err(Error::NotEmpty),
                _ => {}
            }
            self.take(to, target)?;
            self.drop_name(target)?;
        }
        self.take(from, moved)?;
        self.put(to, moved)
    }

    pub(super) fn read_link(&self, inode: InodeId) -> Result<Vec<u8>> {
        match &self.node(inode)?.contents {
            Contents::Target(target) => Ok(target.clone()),
            _ => Err(Error::InvalidArgument("not a symbolic link".into())),
        }
    }

    pub(super) fn list(
        &mut self,
        caller: &Caller,
        inode: InodeId,
        after: u64,
        limit: usize,
        listing: Listing,
    ) -> Result<Vec<ListedEntry>> {
        let mut found: Vec<(u64, Vec<u8>, InodeId)> = self
            .entries(inode)?
            .iter()
            .map(|(name, (child, cookie))| (*cookie, name.clone(), *child))
            .collect();
        may(caller, self.node(inode)?, READ)?;
        found.retain(|(cookie, ..)| *cookie > after);
        found.sort();
        found.truncate(limit);
        let mut listed = Vec::new();
        for (cookie, name, child) in found {
            let attributes = match listing {
                Listing::Names => None,
                Listing::WithReferences => Some(self.hand_out(child)?),
                Listing::WithAttributes => Some(self.attributes(child)?),
            };
            listed.push(ListedEntry {
                name,
                inode: child,
                kind: self.node(child)?.kind,
                cookie,
                attributes,
            });
        }
        Ok(listed)
    }

    pub(super) fn parent(&self, inode: InodeId) -> Result<InodeId> {
        self.entries(inode)?;
        Ok(self.node(inode)?.parent)
    }
}

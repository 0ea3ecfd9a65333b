//! All nodes of the simulated disk.
//!
//! Takes   requests that are to be carried out
//! Gives   their results, with the errors that Linux gives
//! Never   counts requests, injects faults, or handles the power cut
//! Spec    none: test only
//!
//! Invariants
//!  (1) Every change of an entry is reported to `names`, in order.
//!  (2) Numbers are never reused, and a node exists as long as the disk, because a cut may restore its name.

use std::collections::HashMap;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use super::CAPACITY_BYTES;
use super::content::FileState;
use super::cut::{NameSync, Policy};
use super::names::{Entries, NameChange, Names, Number, Slot};

/// The number of the root directory, as FUSE has it.
pub(super) const ROOT: Number = 1;

/// What a node is, and holds.
#[derive(Clone, Debug)]
pub(super) enum Body {
    File(FileState),
    Directory(Entries),
    Symlink(Vec<u8>),
}

/// One node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub body: Body,
    pub mode: u16,
    pub nlink: u32,
    /// Bytes reserved by `fallocate` without a change of size.
    pub reserved: u64,
}

/// The disk's whole state; a clone shares all pages.
#[derive(Clone, Debug)]
pub(super) struct State {
    nodes: HashMap<Number, Node>,
    names: Names,
    mode: NameSync,
    next: Number,
}

/// What a rename does about an existing target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnTarget {
    Replace,
    Refuse,
    Exchange,
}

fn directory(mode: u16) -> Node {
    Node {
        body: Body::Directory(Entries::new()),
        mode,
        nlink: 2,
        reserved: 0,
    }
}

impl State {
    pub(super) fn new(mode: NameSync) -> Self {
        let durable = HashMap::from([(ROOT, Entries::new())]);
        Self {
            nodes: HashMap::from([(ROOT, directory(0o755))]),
            names: Names::new(mode, durable),
            mode,
            next: ROOT + 1,
        }
    }

    pub(super) fn node(&self, number: Number) -> Result<&Node, Errno> {
        self.nodes.get(&number).ok_or(Errno::NOENT)
    }

    fn node_mut(&mut self, number: Number) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&number).ok_or(Errno::NOENT)
    }

    pub(super) fn entries(&self, number: Number) -> Result<&Entries, Errno> {
        match &self.node(number)?.body {
            Body::Directory(entries) => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn entries_mut(&mut self, number: Number) -> Result<&mut Entries, Errno> {
        match &mut self.node_mut(number)?.body {
            Body::Directory(entries) => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub(super) fn file(&self, number: Number) -> Result<&FileState, Errno> {
        match &self.node(number)?.body {
            Body::File(file) => Ok(file),
            Body::Directory(_) => Err(Errno::ISDIR),
            Body::Symlink(_) => Err(Errno::INVAL),
        }
    }

    fn file_mut(&mut self, number: Number) -> Result<&mut FileState, Errno> {
        match &mut self.node_mut(number)?.body {
            Body::File(file) => Ok(file),
            Body::Directory(_) => Err(Errno::ISDIR),
            Body::Symlink(_) => Err(Errno::INVAL),
        }
    }

    pub(super) fn lookup(&self, parent: Number, name: &[u8]) -> Result<Number, Errno> {
        self.entries(parent)?.get(name).copied().ok_or(Errno::NOENT)
    }

    /// Bytes that files hold or have reserved.
    pub(super) fn used_bytes(&self) -> u64 {
        self.nodes
            .values()
            .map(|node| match &node.body {
                Body::File(file) if node.nlink > 0 => file.live().stored_bytes().max(node.reserved),
                _ => 0,
            })
            .sum()
    }

    pub(super) fn at_risk(&self) -> (usize, usize) {
        let dirty = self
            .nodes
            .values()
            .filter(|node| matches!(&node.body, Body::File(file) if file.is_dirty()))
            .count();
        (dirty, self.names.waiting())
    }

    pub(super) fn create(
        &mut self,
        parent: Number,
        name: &[u8],
        body: Body,
        mode: u16,
    ) -> Result<Number, Errno> {
        if self.entries(parent)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        let number = self.next;
        self.next += 1;
        let is_directory = matches!(body, Body::Directory(_));
        self.nodes.insert(
            number,
            Node {
                body,
                mode,
                nlink: if is_directory { 2 } else { 1 },
                reserved: 0,
            },
        );
        self.entries_mut(parent)?.insert(name.to_vec(), number);
        if is_directory {
            self.node_mut(parent)?.nlink += 1;
        }
        self.note(
            vec![((parent, name.to_vec()), Some(number))],
            vec![number],
            None,
            false,
        );
        Ok(number)
    }

    pub(super) fn link(
        &mut self,
        number: Number,
        parent: Number,
        name: &[u8],
    ) -> Result<(), Errno> {
        if matches!(self.node(number)?.body, Body::Directory(_)) {
            return Err(Errno::PERM);
        }
        if self.entries(parent)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        self.entries_mut(parent)?.insert(name.to_vec(), number);
        self.node_mut(number)?.nlink += 1;
        self.note(
            vec![((parent, name.to_vec()), Some(number))],
            vec![number],
            None,
            false,
        );
        Ok(())
    }

    /// unlink, or with `want_directory` rmdir.
    pub(super) fn remove(
        &mut self,
        parent: Number,
        name: &[u8],
        want_directory: bool,
    ) -> Result<(), Errno> {
        let number = self.lookup(parent, name)?;
        let is_directory = self.check_removable(number, want_directory)?;
        self.entries_mut(parent)?.remove(name);
        self.drop_name(number, parent)?;
        self.note(
            vec![((parent, name.to_vec()), None)],
            vec![number],
            is_directory.then_some(number),
            false,
        );
        Ok(())
    }

    fn check_removable(&self, number: Number, want_directory: bool) -> Result<bool, Errno> {
        match (&self.node(number)?.body, want_directory) {
            (Body::Directory(_), false) => Err(Errno::ISDIR),
            (Body::Directory(entries), true) if !entries.is_empty() => Err(Errno::NOTEMPTY),
            (Body::Directory(_), true) => Ok(true),
            (_, true) => Err(Errno::NOTDIR),
            (_, false) => Ok(false),
        }
    }

    fn drop_name(&mut self, number: Number, parent: Number) -> Result<(), Errno> {
        let node = self.node_mut(number)?;
        if matches!(node.body, Body::Directory(_)) {
            node.nlink = 0;
            self.node_mut(parent)?.nlink -= 1;
        } else {
            node.nlink -= 1;
        }
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        from: &Slot,
        to: &Slot,
        on_target: OnTarget,
    ) -> Result<(), Errno> {
        let moved = self.lookup(from.0, &from.1)?;
        let target = self.entries(to.0)?.get(&to.1).copied();
        if from == to || target == Some(moved) {
            return Ok(());
        }
        let is_directory = |state: &Self, number| {
            state
                .node(number)
                .is_ok_and(|node| matches!(node.body, Body::Directory(_)))
        };
        let moved_is_directory = is_directory(self, moved);
        if on_target == OnTarget::Exchange {
            let target = target.ok_or(Errno::NOENT)?;
            let target_is_directory = is_directory(self, target);
            self.entries_mut(from.0)?.insert(from.1.clone(), target);
            self.entries_mut(to.0)?.insert(to.1.clone(), moved);
            self.move_directory_links(
                from.0,
                to.0,
                i64::from(moved_is_directory) - i64::from(target_is_directory),
            )?;
            let crosses = from.0 != to.0 && (moved_is_directory || target_is_directory);
            let slots = vec![(from.clone(), Some(target)), (to.clone(), Some(moved))];
            self.note(slots, vec![moved, target], None, crosses);
            return Ok(());
        }
        let mut removed = None;
        if let Some(target) = target {
            if on_target == OnTarget::Refuse {
                return Err(Errno::EXIST);
            }
            removed = self
                .check_removable(target, moved_is_directory)?
                .then_some(target);
            self.drop_name(target, to.0)?;
        }
        self.entries_mut(from.0)?.remove(&from.1);
        self.entries_mut(to.0)?.insert(to.1.clone(), moved);
        self.move_directory_links(from.0, to.0, i64::from(moved_is_directory))?;
        let nodes = std::iter::once(moved).chain(target).collect();
        self.note(
            vec![(from.clone(), None), (to.clone(), Some(moved))],
            nodes,
            removed,
            from.0 != to.0 && moved_is_directory,
        );
        Ok(())
    }

    fn move_directory_links(&mut self, from: Number, to: Number, count: i64) -> Result<(), Errno> {
        let shift = |nlink: u32, by: i64| u32::try_from(i64::from(nlink) + by).unwrap_or(0);
        self.node_mut(from)?.nlink = shift(self.node(from)?.nlink, -count);
        self.node_mut(to)?.nlink = shift(self.node(to)?.nlink, count);
        Ok(())
    }

    fn note(
        &mut self,
        slots: Vec<(Slot, Option<Number>)>,
        nodes: Vec<Number>,
        removed: Option<Number>,
        moves_directory: bool,
    ) {
        self.names.change(NameChange {
            slots,
            nodes,
            removed_directory: removed,
            moves_directory,
        });
    }

    pub(super) fn write(&mut self, number: Number, offset: u64, data: &[u8]) -> Result<(), Errno> {
        if offset.saturating_add(data.len() as u64) > CAPACITY_BYTES {
            return Err(Errno::FBIG);
        }
        self.file_mut(number)?.write(offset, data);
        Ok(())
    }

    pub(super) fn set_size(&mut self, number: Number, size: u64) -> Result<(), Errno> {
        if size > CAPACITY_BYTES {
            return Err(Errno::FBIG);
        }
        self.file_mut(number)?.set_size(size);
        let node = self.node_mut(number)?;
        node.reserved = node.reserved.min(size);
        Ok(())
    }

    pub(super) fn set_mode(&mut self, number: Number, mode: u16) -> Result<(), Errno> {
        self.node_mut(number)?.mode = mode & 0o7777;
        Ok(())
    }

    /// Mode 0 or keep-size of `fallocate`: room only, no bytes.
    pub(super) fn reserve(
        &mut self,
        number: Number,
        end: u64,
        keep_size: bool,
    ) -> Result<(), Errno> {
        if end > CAPACITY_BYTES {
            return Err(Errno::NOSPC);
        }
        let size = self.file(number)?.live().size();
        if !keep_size && end > size {
            self.file_mut(number)?.set_size(end);
        }
        let node = self.node_mut(number)?;
        node.reserved = node.reserved.max(end);
        Ok(())
    }

    pub(super) fn zero(
        &mut self,
        number: Number,
        offset: u64,
        len: u64,
        keep_size: bool,
    ) -> Result<(), Errno> {
        let end = offset.saturating_add(len);
        if !keep_size && end > self.file(number)?.live().size() {
            self.set_size(number, end)?;
        }
        self.file_mut(number)?.zero(offset, len);
        Ok(())
    }

    pub(super) fn sync(&mut self, number: Number) -> Result<(), Errno> {
        match &mut self.node_mut(number)?.body {
            Body::File(file) => {
                file.sync();
                self.names.sync_file();
            }
            Body::Directory(_) => self.names.sync_directory(number),
            Body::Symlink(_) => {}
        }
        Ok(())
    }

    pub(super) fn fail_sync(&mut self, number: Number) {
        if let Ok(file) = self.file_mut(number) {
            file.fail_sync();
        }
    }

    /// The state a cut leaves: only what can be reached from the root, all of it durable.
    pub(super) fn after_cut(&self, policy: Policy, seed: u64) -> Self {
        let mut directories = self.names.after_cut(policy, seed);
        let mut after = Self {
            nodes: HashMap::new(),
            names: Names::new(self.mode, HashMap::new()),
            mode: self.mode,
            next: self.next,
        };
        let mut durable = HashMap::new();
        let mut open = vec![ROOT];
        while let Some(number) = open.pop() {
            let Some(node) = self.nodes.get(&number) else {
                continue;
            };
            if let Some(known) = after.nodes.get_mut(&number) {
                known.nlink += 1;
                continue;
            }
            let mut left = Node {
                nlink: 1,
                reserved: 0,
                ..node.clone()
            };
            left.body = match &node.body {
                Body::File(file) => {
                    Body::File(FileState::durable(file.after_cut(policy, seed, number)))
                }
                Body::Symlink(target) => Body::Symlink(target.clone()),
                Body::Directory(_) => {
                    let entries = directories.remove(&number).unwrap_or_default();
                    let subdirectories = entries
                        .values()
                        .filter(|child| self.is_directory(**child))
                        .count();
                    left.nlink = 2 + u32::try_from(subdirectories).unwrap_or(u32::MAX - 2);
                    open.extend(entries.values());
                    durable.insert(number, entries.clone());
                    Body::Directory(entries)
                }
            };
            after.nodes.insert(number, left);
        }
        after.names = Names::new(self.mode, durable);
        after
    }

    fn is_directory(&self, number: Number) -> bool {
        self.node(number)
            .is_ok_and(|node| matches!(node.body, Body::Directory(_)))
    }

    pub(super) fn write_to(&self, folder: &Path) -> std::io::Result<()> {
        let mut written = HashMap::new();
        let mut open = vec![(ROOT, folder.to_path_buf())];
        while let Some((number, path)) = open.pop() {
            let Ok(node) = self.node(number) else {
                continue;
            };
            match &node.body {
                Body::Directory(entries) => {
                    if number != ROOT {
                        std::fs::create_dir(&path)?;
                    }
                    open.extend(entries.iter().map(|(name, child)| {
                        (*child, path.join(std::ffi::OsStr::from_bytes(name)))
                    }));
                }
                Body::Symlink(target) => {
                    std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(target), &path)?
                }
                Body::File(file) => match written.get(&number) {
                    Some(first) => std::fs::hard_link::<&std::path::PathBuf, _>(first, &path)?,
                    None => {
                        let mut out = std::fs::File::create_new(&path)?;
                        for (offset, bytes) in file.live().runs() {
                            out.seek(SeekFrom::Start(offset))?;
                            out.write_all(bytes)?;
                        }
                        out.set_len(file.live().size())?;
                        written.insert(number, path);
                    }
                },
            }
        }
        Ok(())
    }
}

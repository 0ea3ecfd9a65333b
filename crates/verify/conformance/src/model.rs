//! A file system in memory: slow, simple, and easily seen to be right.
//!
//! Takes   the operations of the real file system
//! Gives   the results that POSIX and the interface require
//! Never   syncs, caches, seals or shares anything
//! Spec    POSIX.1-2017 and the manual pages of Linux for the order of errors
//!
//! A clone of the model is a snapshot of it. Contents are shared until one side changes them, so that a run can keep one
//! snapshot for every operation. The model has no clock, so it knows a time only if an operation set it.

mod content;
mod namespace;
mod node;
mod permission;

use parking_lot::Mutex;
use strongroom_filesystem::{
    AllocateMode, Attributes, Caller, InodeId, ListedEntry, Listing, NewNode, RenameMode, Result,
    SeekTarget, SetAttributes, XattrMode,
};

pub use node::{Contents, Node, State};

use crate::under_test::FileSystemUnderTest;

/// The reference file system.
#[derive(Debug, Default)]
pub struct Model {
    state: Mutex<State>,
}

impl Model {
    /// An empty file system: a root directory owned by root, mode 0755.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on from a snapshot.
    #[must_use]
    pub fn from_snapshot(state: State) -> Self {
        Self {
            state: Mutex::new(state),
        }
    }

    /// The whole state, sharing contents.
    #[must_use]
    pub fn snapshot(&self) -> State {
        self.state.lock().clone()
    }

    /// What closing does: all references are given back.
    pub fn forget_all(&self) {
        self.state.lock().forget_all();
    }
}

impl FileSystemUnderTest for Model {
    fn lookup(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<Attributes> {
        self.state.lock().lookup(caller, parent, name)
    }
    fn create(
        &self,
        caller: &Caller,
        parent: InodeId,
        name: &[u8],
        node: &NewNode,
    ) -> Result<Attributes> {
        self.state.lock().create(caller, parent, name, node)
    }
    fn create_unnamed(&self, caller: &Caller, parent: InodeId, mode: u32) -> Result<Attributes> {
        self.state.lock().create_unnamed(caller, parent, mode)
    }
    fn link(
        &self,
        caller: &Caller,
        inode: InodeId,
        new_parent: InodeId,
        new_name: &[u8],
    ) -> Result<Attributes> {
        self.state.lock().link(caller, inode, new_parent, new_name)
    }
    fn unlink(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<()> {
        self.state.lock().unlink(caller, parent, name)
    }
    fn remove_directory(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<()> {
        self.state.lock().remove_directory(caller, parent, name)
    }
    fn rename(
        &self,
        caller: &Caller,
        parent: InodeId,
        name: &[u8],
        new_parent: InodeId,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.state
            .lock()
            .rename(caller, (parent, name), (new_parent, new_name), mode)
    }
    fn read_link(&self, inode: InodeId) -> Result<Vec<u8>> {
        self.state.lock().read_link(inode)
    }
    fn list(
        &self,
        caller: &Caller,
        inode: InodeId,
        after: u64,
        limit: usize,
        listing: Listing,
    ) -> Result<Vec<ListedEntry>> {
        self.state.lock().list(caller, inode, after, limit, listing)
    }
    fn parent(&self, inode: InodeId) -> Result<InodeId> {
        self.state.lock().parent(inode)
    }
    fn forget(&self, inode: InodeId, count: u64) {
        self.state.lock().forget(inode, count);
    }
    fn attributes(&self, inode: InodeId) -> Result<Attributes> {
        self.state.lock().attributes(inode)
    }
    fn set_attributes(
        &self,
        caller: &Caller,
        inode: InodeId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        self.state.lock().set_attributes(caller, inode, set)
    }
    fn xattr(&self, caller: &Caller, inode: InodeId, name: &[u8]) -> Result<Vec<u8>> {
        self.state.lock().xattr(caller, inode, name)
    }
    fn set_xattr(
        &self,
        caller: &Caller,
        inode: InodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.state
            .lock()
            .set_xattr(caller, inode, name, value, mode)
    }
    fn remove_xattr(&self, caller: &Caller, inode: InodeId, name: &[u8]) -> Result<()> {
        self.state.lock().remove_xattr(caller, inode, name)
    }
    fn xattrs(&self, _: &Caller, inode: InodeId) -> Result<Vec<Vec<u8>>> {
        self.state.lock().xattrs(inode)
    }
    fn read(&self, inode: InodeId, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.state.lock().read(inode, offset, buffer)
    }
    fn write(&self, inode: InodeId, offset: u64, data: &[u8]) -> Result<()> {
        self.state.lock().write(inode, offset, data)
    }
    fn append(&self, inode: InodeId, data: &[u8]) -> Result<u64> {
        self.state.lock().append(inode, data)
    }
    fn allocate(&self, inode: InodeId, mode: AllocateMode, offset: u64, len: u64) -> Result<()> {
        self.state.lock().allocate(inode, mode, offset, len)
    }
    fn seek(&self, inode: InodeId, offset: u64, target: SeekTarget) -> Result<u64> {
        self.state.lock().seek(inode, offset, target)
    }
    fn copy_range(
        &self,
        source: InodeId,
        source_offset: u64,
        target: InodeId,
        target_offset: u64,
        len: u64,
    ) -> Result<u64> {
        self.state
            .lock()
            .copy_range(source, source_offset, target, target_offset, len)
    }
    fn sync_inode(&self, inode: InodeId) -> Result<()> {
        self.state.lock().node(inode).map(drop)
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;

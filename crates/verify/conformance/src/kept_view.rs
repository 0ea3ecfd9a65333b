//! A snapshot as a file system of its own, for comparison with the state from which it was taken.
//!
//! Takes   a file system with a history, and the name of a revision below `.history`
//! Gives   its tree through the same operations, with erased content as zeros; and which files were erased
//! Never   changes a snapshot: the file system refuses each attempt
//! Spec    spec/6-history.md, section 6.8

use std::cell::RefCell;
use std::collections::BTreeSet;

use strongroom_filesystem::{
    AllocateMode, Attributes, Caller, Error, Filesystem, HISTORY_NAME, InodeId, ListedEntry,
    Listing, NewNode, RenameMode, Result, SeekTarget, SetAttributes, XattrMode,
};

use crate::under_test::FileSystemUnderTest;

/// One snapshot. Gives its references back when dropped.
#[derive(Debug)]
pub struct KeptView {
    system: Filesystem,
    top: InodeId,
    root: InodeId,
    /// Files that were read although they are erased.
    erased: RefCell<BTreeSet<InodeId>>,
}

impl KeptView {
    /// The state that `selector` means.
    ///
    /// # Errors
    /// `NotFound` if it means none.
    pub fn open(system: &Filesystem, selector: &str) -> Result<Self> {
        let caller = Caller::root();
        let top = system.lookup(&caller, InodeId::ROOT, HISTORY_NAME)?.inode;
        let root = match system.lookup(&caller, top, selector.as_bytes()) {
            Ok(root) => root.inode,
            Err(error) => {
                system.forget(top, 1);
                return Err(error);
            }
        };
        Ok(Self {
            system: system.clone(),
            top,
            root,
            erased: RefCell::default(),
        })
    }

    /// Whether something at `path` was read and is erased: then it was given as zeros.
    ///
    /// # Errors
    /// `NotFound`; of the file system.
    pub fn was_erased(&self, path: &[u8]) -> Result<bool> {
        let mut at = InodeId::ROOT;
        for name in path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
        {
            let found = self.lookup(&Caller::root(), at, name);
            if at != InodeId::ROOT {
                self.forget(at, 1);
            }
            at = found?.inode;
        }
        let erased = self.erased.borrow().contains(&at);
        if at != InodeId::ROOT {
            self.forget(at, 1);
        }
        Ok(erased)
    }

    fn at(&self, inode: InodeId) -> InodeId {
        if inode == InodeId::ROOT {
            self.root
        } else {
            inode
        }
    }
}

impl Drop for KeptView {
    fn drop(&mut self) {
        self.system.forget(self.root, 1);
        self.system.forget(self.top, 1);
    }
}

impl FileSystemUnderTest for KeptView {
    fn lookup(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<Attributes> {
        self.system.lookup(caller, self.at(parent), name)
    }
    fn create(
        &self,
        caller: &Caller,
        at: InodeId,
        name: &[u8],
        new: &NewNode,
    ) -> Result<Attributes> {
        self.system.create(caller, self.at(at), name, new)
    }
    fn create_unnamed(&self, caller: &Caller, at: InodeId, mode: u32) -> Result<Attributes> {
        self.system.create_unnamed(caller, self.at(at), mode)
    }
    fn link(
        &self,
        caller: &Caller,
        inode: InodeId,
        at: InodeId,
        name: &[u8],
    ) -> Result<Attributes> {
        self.system.link(caller, self.at(inode), self.at(at), name)
    }
    fn unlink(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<()> {
        self.system.unlink(caller, self.at(parent), name)
    }
    fn remove_directory(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<()> {
        self.system.remove_directory(caller, self.at(parent), name)
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
        let (from, to) = (self.at(parent), self.at(new_parent));
        self.system.rename(caller, from, name, to, new_name, mode)
    }
    fn read_link(&self, inode: InodeId) -> Result<Vec<u8>> {
        self.system.read_link(self.at(inode))
    }
    fn list(
        &self,
        caller: &Caller,
        inode: InodeId,
        after: u64,
        limit: usize,
        listing: Listing,
    ) -> Result<Vec<ListedEntry>> {
        self.system
            .list(caller, self.at(inode), after, limit, listing)
    }
    fn parent(&self, inode: InodeId) -> Result<InodeId> {
        self.system.parent(self.at(inode))
    }
    fn forget(&self, inode: InodeId, count: u64) {
        self.system.forget(self.at(inode), count);
    }
    fn attributes(&self, inode: InodeId) -> Result<Attributes> {
        self.system.attributes(self.at(inode))
    }
    fn set_attributes(
        &self,
        caller: &Caller,
        inode: InodeId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        self.system.set_attributes(caller, self.at(inode), set)
    }
    fn xattr(&self, caller: &Caller, inode: InodeId, name: &[u8]) -> Result<Vec<u8>> {
        self.system.xattr(caller, self.at(inode), name)
    }
    fn set_xattr(
        &self,
        caller: &Caller,
        inode: InodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.system
            .set_xattr(caller, self.at(inode), name, value, mode)
    }
    fn remove_xattr(&self, caller: &Caller, inode: InodeId, name: &[u8]) -> Result<()> {
        self.system.remove_xattr(caller, self.at(inode), name)
    }
    fn xattrs(&self, caller: &Caller, inode: InodeId) -> Result<Vec<Vec<u8>>> {
        self.system.xattrs(caller, self.at(inode))
    }
    fn read(&self, inode: InodeId, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match self.system.read(self.at(inode), offset, buffer) {
            Err(Error::Erased { .. }) => {
                self.erased.borrow_mut().insert(inode);
                let left = self.attributes(inode)?.size.saturating_sub(offset);
                let len = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
                buffer[..len].fill(0);
                Ok(len)
            }
            read => read,
        }
    }
    fn write(&self, inode: InodeId, offset: u64, data: &[u8]) -> Result<()> {
        self.system.write(self.at(inode), offset, data)
    }
    fn append(&self, inode: InodeId, data: &[u8]) -> Result<u64> {
        self.system.append(self.at(inode), data)
    }
    fn allocate(&self, inode: InodeId, mode: AllocateMode, offset: u64, len: u64) -> Result<()> {
        self.system.allocate(self.at(inode), mode, offset, len)
    }
    fn seek(&self, inode: InodeId, offset: u64, target: SeekTarget) -> Result<u64> {
        self.system.seek(self.at(inode), offset, target)
    }
    fn copy_range(&self, _: InodeId, _: u64, _: InodeId, _: u64, _: u64) -> Result<u64> {
        Err(Error::ReadOnly)
    }
    fn sync_inode(&self, inode: InodeId) -> Result<()> {
        self.system.sync_inode(self.at(inode))
    }
    fn sync(&self) -> Result<()> {
        self.system.sync()
    }
}

//! SKELETON for parallel work: signatures only; bodies are being written elsewhere.
#![allow(clippy::todo, unused_variables, missing_docs, clippy::allow_attributes_without_reason)]
use crate::*;

/// One open file system. Cheap to clone; usable from many threads.
#[derive(Clone)]
pub struct Filesystem {}

impl Filesystem {
    // ---- namespace. Every operation that gives Attributes of a named node takes ONE REFERENCE on it
    //      (like the kernel's nlookup); give it back with `forget`. An unlinked node lives until then.
    /// Finds `name` in `parent`; `.` and `..` are allowed here.
    pub fn lookup(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<Attributes> { todo!() }
    /// mknod/mkdir/symlink/create: fails with Exists. Takes a reference.
    pub fn create(&self, caller: &Caller, parent: InodeId, name: &[u8], node: &NewNode) -> Result<Attributes> { todo!() }
    /// O_TMPFILE: a regular file without a name. Takes a reference; `link` may name it.
    pub fn create_unnamed(&self, caller: &Caller, parent: InodeId, mode: u32) -> Result<Attributes> { todo!() }
    /// A further name for a node that is no directory. Takes a reference.
    pub fn link(&self, caller: &Caller, inode: InodeId, new_parent: InodeId, new_name: &[u8]) -> Result<Attributes> { todo!() }
    pub fn unlink(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<()> { todo!() }
    pub fn remove_directory(&self, caller: &Caller, parent: InodeId, name: &[u8]) -> Result<()> { todo!() }
    pub fn rename(&self, caller: &Caller, parent: InodeId, name: &[u8], new_parent: InodeId, new_name: &[u8], mode: RenameMode) -> Result<()> { todo!() }
    pub fn read_link(&self, inode: InodeId) -> Result<Vec<u8>> { todo!() }
    /// Up to `limit` entries with cookie > `after` (0 = from the start), in cookie order, without . and ..
    pub fn list(&self, caller: &Caller, inode: InodeId, after: u64, limit: usize, listing: Listing) -> Result<Vec<ListedEntry>> { todo!() }
    /// The directory that holds directory `inode` (root: itself).
    pub fn parent(&self, inode: InodeId) -> Result<InodeId> { todo!() }
    /// Gives back `count` references.
    pub fn forget(&self, inode: InodeId, count: u64) { todo!() }
    /// Takes one more reference on a node the caller already holds one of.
    pub fn retain(&self, inode: InodeId) { todo!() }
    // ---- attributes
    pub fn attributes(&self, inode: InodeId) -> Result<Attributes> { todo!() }
    pub fn set_attributes(&self, caller: &Caller, inode: InodeId, set: &SetAttributes) -> Result<Attributes> { todo!() }
    /// access(2): `mask` of R=4 W=2 X=1, 0 for existence.
    pub fn access(&self, caller: &Caller, inode: InodeId, mask: u32) -> Result<()> { todo!() }
    pub fn xattr(&self, caller: &Caller, inode: InodeId, name: &[u8]) -> Result<Vec<u8>> { todo!() }
    pub fn set_xattr(&self, caller: &Caller, inode: InodeId, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> { todo!() }
    pub fn remove_xattr(&self, caller: &Caller, inode: InodeId, name: &[u8]) -> Result<()> { todo!() }
    /// Names.
    pub fn xattrs(&self, caller: &Caller, inode: InodeId) -> Result<Vec<Vec<u8>>> { todo!() }
    // ---- content
    /// Fills `buffer` from `offset`; gives the count of bytes before the end of the file (holes read as zeros).
    pub fn read(&self, inode: InodeId, offset: u64, buffer: &mut [u8]) -> Result<usize> { todo!() }
    /// Takes all of `data` (write-behind) or nothing. May wait at the dirty bound: never call on an event loop
    /// without asking `write_would_wait` first.
    pub fn write(&self, inode: InodeId, offset: u64, data: &[u8]) -> Result<()> { todo!() }
    /// Appends at the current end atomically; gives the offset it went to.
    pub fn append(&self, inode: InodeId, data: &[u8]) -> Result<u64> { todo!() }
    /// Whether a write of `len` bytes would wait for memory now.
    pub fn write_would_wait(&self, len: usize) -> bool { todo!() }
    /// Drops suid, sgid and security.capability as a write by an unprivileged caller must.
    pub fn drop_privileges(&self, inode: InodeId) -> Result<()> { todo!() }
    pub fn allocate(&self, inode: InodeId, mode: AllocateMode, offset: u64, len: u64) -> Result<()> { todo!() }
    pub fn seek(&self, inode: InodeId, offset: u64, target: SeekTarget) -> Result<u64> { todo!() }
    /// copy_file_range by sharing blocks; gives the count of bytes copied (short only at the source's end).
    pub fn copy_range(&self, source: InodeId, source_offset: u64, target: InodeId, target_offset: u64, len: u64) -> Result<u64> { todo!() }
    // ---- durability
    /// fsync of one file or directory: content, size, attributes and names reached so far.
    pub fn sync_inode(&self, inode: InodeId) -> Result<()> { todo!() }
    /// Barrier: the whole vault as of now is durable on return.
    pub fn sync(&self) -> Result<()> { todo!() }
    // ---- byte-range locks (fcntl) and whole-file locks (flock) share one table per inode; `owner` names the holder
    pub fn lock(&self, inode: InodeId, owner: u64, lock: ByteRangeLock) -> Result<()> { todo!() }
    /// The first lock that stands in the way of `lock`, if any.
    pub fn conflicting_lock(&self, inode: InodeId, owner: u64, lock: ByteRangeLock) -> Result<Option<ByteRangeLock>> { todo!() }
    /// Drops all locks of `owner` on `inode`.
    pub fn unlock_owner(&self, inode: InodeId, owner: u64) { todo!() }
    // ---- whole
    pub fn space(&self) -> Result<Space> { todo!() }
    /// Registers who is told when an operation of ANOTHER client (see `Origin` at the vault) changes something.
    /// Called without locks. (Details at the vault level.)
    pub fn check(&self) -> Result<CheckReport> { todo!() }
}

/// What the structural check found: every table against every other; empty `problems` means sound.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    pub inodes: u64,
    pub entries: u64,
    pub blocks: u64,
    pub problems: Vec<String>,
}

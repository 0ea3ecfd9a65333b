//! The operations that every implementation of the file system has.
//!
//! Takes   the arguments of `strongroom_filesystem::Filesystem`
//! Gives   the same results
//! Never   adds a meaning of its own: the names are those of the real interface
//! Spec    none: test only

use strongroom_filesystem::{
    AllocateMode, Attributes, Caller, Error, Filesystem, InodeId, ListedEntry, Listing, NewNode,
    RenameMode, Result, SeekTarget, SetAttributes, XattrMode,
};

/// Declares the trait and passes each operation on to the inherent one of `Filesystem`.
macro_rules! operations {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),*) -> $gives:ty;)*) => {
        /// A file system that can be compared with the model. Every method is the one of the same name of
        /// `strongroom_filesystem::Filesystem`.
        pub trait FileSystemUnderTest {
            $($(#[$doc])* fn $name(&self, $($argument: $kind),*) -> $gives;)*
        }

        impl FileSystemUnderTest for Filesystem {
            $(fn $name(&self, $($argument: $kind),*) -> $gives {
                Filesystem::$name(self, $($argument),*)
            })*
        }
    };
}

operations! {
    /// Finds a name; takes a reference.
    fn lookup(caller: &Caller, parent: InodeId, name: &[u8]) -> Result<Attributes>;
    /// Makes a node; takes a reference.
    fn create(caller: &Caller, parent: InodeId, name: &[u8], node: &NewNode) -> Result<Attributes>;
    /// Makes a file without a name; takes a reference.
    fn create_unnamed(caller: &Caller, parent: InodeId, mode: u32) -> Result<Attributes>;
    /// Gives a further name; takes a reference.
    fn link(caller: &Caller, inode: InodeId, new_parent: InodeId, new_name: &[u8]) -> Result<Attributes>;
    /// Removes a name of something that is no directory.
    fn unlink(caller: &Caller, parent: InodeId, name: &[u8]) -> Result<()>;
    /// Removes an empty directory.
    fn remove_directory(caller: &Caller, parent: InodeId, name: &[u8]) -> Result<()>;
    /// Moves a name.
    fn rename(caller: &Caller, parent: InodeId, name: &[u8], new_parent: InodeId, new_name: &[u8], mode: RenameMode) -> Result<()>;
    /// The target of a symlink.
    fn read_link(inode: InodeId) -> Result<Vec<u8>>;
    /// Entries behind a cookie.
    fn list(caller: &Caller, inode: InodeId, after: u64, limit: usize, listing: Listing) -> Result<Vec<ListedEntry>>;
    /// The directory that holds a directory.
    fn parent(inode: InodeId) -> Result<InodeId>;
    /// Gives references back.
    fn forget(inode: InodeId, count: u64) -> ();
    /// What stat tells.
    fn attributes(inode: InodeId) -> Result<Attributes>;
    /// chmod, chown, utimens, truncate.
    fn set_attributes(caller: &Caller, inode: InodeId, set: &SetAttributes) -> Result<Attributes>;
    /// The value of an extended attribute.
    fn xattr(caller: &Caller, inode: InodeId, name: &[u8]) -> Result<Vec<u8>>;
    /// Sets an extended attribute.
    fn set_xattr(caller: &Caller, inode: InodeId, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;
    /// Removes an extended attribute.
    fn remove_xattr(caller: &Caller, inode: InodeId, name: &[u8]) -> Result<()>;
    /// Names of extended attributes.
    fn xattrs(caller: &Caller, inode: InodeId) -> Result<Vec<Vec<u8>>>;
    /// Reads.
    fn read(inode: InodeId, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    /// Writes.
    fn write(inode: InodeId, offset: u64, data: &[u8]) -> Result<()>;
    /// Writes at the end.
    fn append(inode: InodeId, data: &[u8]) -> Result<u64>;
    /// fallocate.
    fn allocate(inode: InodeId, mode: AllocateMode, offset: u64, len: u64) -> Result<()>;
    /// SEEK_DATA and SEEK_HOLE.
    fn seek(inode: InodeId, offset: u64, target: SeekTarget) -> Result<u64>;
    /// copy_file_range.
    fn copy_range(source: InodeId, source_offset: u64, target: InodeId, target_offset: u64, len: u64) -> Result<u64>;
    /// fsync.
    fn sync_inode(inode: InodeId) -> Result<()>;
    /// The barrier.
    fn sync() -> Result<()>;
}

/// Whether two errors are the same variant, whatever they carry.
#[must_use]
pub fn same_error(one: &Error, other: &Error) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

//! Turns each request of the kernel into one call, and the result of the call into the reply.
//!
//! Takes   requests from any event loop
//! Gives   exactly one reply each, from the loop or from a worker
//! Never   answers ENOSYS, except to requests that should never come again: OPEN, OPENDIR, FLUSH, CREATE, ACCESS and,
//!         by an option, extended attributes (invariant 3 of the crate)

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem,
    FopenFlags, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use strongroom::filesystem::{SetAttributes, Space};

use crate::answers::Answer;
use crate::attributes::{GENERATION, inode, set_time};
use crate::capabilities;
use crate::content::{Place, Privileges, Way, Write, reply_empty};
use crate::counters::Opcode;
use crate::limits;
use crate::namespace::{Rename, caller, caller_setting, rename_mode};
use crate::panics::MountId;
use crate::seek::seek;
use crate::shared::{Shared, Xattrs};
use crate::turns::Turn;
use crate::xattrs::reply_with;

/// The protocol library's view of a mount.
pub(crate) struct Adapter {
    shared: Arc<Shared>,
    mount: MountId,
    /// Whether the kernel opens files and directories without asking once it was told ENOSYS.
    opens_alone: bool,
    lists_alone: bool,
}

impl Adapter {
    pub(crate) fn new(shared: Arc<Shared>, mount: MountId) -> Self {
        Self {
            shared,
            mount,
            opens_alone: false,
            lists_alone: false,
        }
    }

    /// A request begins; it ends when what this gives is dropped: first its answer, as the turn may rest.
    fn count(&self, opcode: Opcode) -> (Option<Answer<'_>>, Turn<'_>) {
        self.mount.mark_this_thread();
        self.shared.counters.count(opcode);
        self.shared.wakeful.note();
        (self.shared.answers.begin(opcode), self.shared.turns.begin())
    }

    /// ENOSYS if extended attributes are off.
    fn xattrs(&self) -> Result<(), Errno> {
        match self.shared.xattrs {
            Xattrs::Offered => Ok(()),
            Xattrs::Refused => Err(Errno::ENOSYS),
        }
    }
}

fn reply_entry(result: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match result {
        Ok(attributes) => reply.entry(&limits::TTL, &attributes, GENERATION),
        Err(error) => reply.error(error),
    }
}

fn reply_attributes(result: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match result {
        Ok(attributes) => reply.attr(&limits::TTL, &attributes),
        Err(error) => reply.error(error),
    }
}

fn reply_space(space: &Space, reply: ReplyStatfs) {
    let unit = u64::from(limits::STATFS_BLOCK_BYTES);
    let free = space.free_bytes / unit;
    // Inodes have no bound of their own. The sum stays within 32 bits, which old programs can hold.
    let free_inodes = u64::from(u32::MAX)
        .saturating_sub(space.inodes)
        .min(space.free_bytes / 512);
    reply.statfs(
        space.total_bytes / unit,
        free,
        free,
        space.inodes.saturating_add(free_inodes),
        free_inodes,
        limits::STATFS_BLOCK_BYTES,
        limits::NAME_BYTES_MAX,
        limits::STATFS_BLOCK_BYTES,
    );
}

impl Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let offered = config.capabilities();
        self.opens_alone = offered.contains(InitFlags::FUSE_NO_OPEN_SUPPORT);
        self.lists_alone = offered.contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        capabilities::agree(config, self.shared.writes)
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.count(Opcode::Lookup);
        let ttl = limits::ttl_in(inode(parent));
        match self.shared.lookup(&caller(request), parent, name) {
            Ok(attributes) => reply.entry(ttl, &attributes, GENERATION),
            Err(error) => reply.error(error),
        }
    }

    fn forget(&self, _request: &Request, node: INodeNo, count: u64) {
        let _turn = self.count(Opcode::Forget);
        self.shared.forget(node, count);
    }

    fn getattr(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let _turn = self.count(Opcode::Getattr);
        reply_attributes(self.shared.attributes(node), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _turn = self.count(Opcode::Setattr);
        let caller = caller_setting(request, mode.unwrap_or(0));
        let times = [atime, mtime].map(|time| time.map(set_time).transpose());
        let [Ok(atime), Ok(mtime)] = times else {
            return reply.error(Errno::EOVERFLOW);
        };
        let wanted = SetAttributes {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
        };
        reply_attributes(self.shared.set_attributes(&caller, node, wanted), reply);
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        let _turn = self.count(Opcode::Readlink);
        match self.shared.read_link(node) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.count(Opcode::Mknod);
        let caller = caller_setting(request, mode);
        reply_entry(
            self.shared.make_node(&caller, parent, name, mode, device),
            reply,
        );
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.count(Opcode::Mkdir);
        reply_entry(
            self.shared
                .make_directory(&caller_setting(request, mode), parent, name, mode),
            reply,
        );
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.count(Opcode::Unlink);
        reply_empty(self.shared.unlink(&caller(request), parent, name), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.count(Opcode::Rmdir);
        reply_empty(
            self.shared.remove_directory(&caller(request), parent, name),
            reply,
        );
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let _turn = self.count(Opcode::Symlink);
        reply_entry(
            self.shared
                .make_symlink(&caller(request), parent, name, target.as_os_str()),
            reply,
        );
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        use std::os::unix::ffi::OsStrExt;
        let _turn = self.count(Opcode::Rename);
        let mode = match rename_mode(flags) {
            Ok(mode) => mode,
            Err(error) => return reply.error(error),
        };
        let (name, new_name) = (name.as_bytes().to_vec(), new_name.as_bytes().to_vec());
        let rename = Rename {
            caller: caller(request),
            parent,
            name,
            new_parent,
            new_name,
            mode,
        };
        // A rename over a file drains its source first, so it may wait.
        self.shared
            .where_it_may_wait(reply, ReplyEmpty::error, move |filesystem, reply| {
                reply_empty(rename.run(filesystem), reply);
            });
    }

    fn link(
        &self,
        request: &Request,
        node: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let _turn = self.count(Opcode::Link);
        reply_entry(
            self.shared.link(&caller(request), node, parent, name),
            reply,
        );
    }

    fn open(&self, _request: &Request, _node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let _turn = self.count(Opcode::Open);
        if self.opens_alone {
            reply.error(Errno::ENOSYS);
        } else {
            reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
        }
    }

    fn read(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _turn = self.count(Opcode::Read);
        self.shared.read(node, offset, size, reply);
    }

    fn write(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        opened: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _turn = self.count(Opcode::Write);
        // The kernel names the owner of locks with direct writes only, and also with those of O_DIRECT files that go through pages.
        let way = owner.map_or(Way::Pages, |_| Way::Direct);
        let write = Write {
            node: inode(node),
            offset,
            privileges: if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                Privileges::Drop
            } else {
                Privileges::Keep
            },
            way,
            place: Place::of(opened, write_flags, (way, data.len()), self.shared.writes),
        };
        self.shared.write(write, data, reply);
    }

    fn flush(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let _turn = self.count(Opcode::Flush);
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.count(Opcode::Release);
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.count(Opcode::Fsync);
        self.shared.sync_inode(node, reply);
    }

    fn opendir(&self, _request: &Request, _node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let _turn = self.count(Opcode::Opendir);
        if self.lists_alone {
            reply.error(Errno::ENOSYS);
        } else {
            let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR;
            reply.opened(FileHandle(0), flags);
        }
    }

    fn readdir(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let _turn = self.count(Opcode::Readdir);
        match self.shared.list(&caller(request), node, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _turn = self.count(Opcode::Readdirplus);
        match self
            .shared
            .list_with_attributes(&caller(request), node, offset, &mut reply)
        {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let _turn = self.count(Opcode::Releasedir);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.count(Opcode::Fsyncdir);
        self.shared.sync_inode(node, reply);
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        let _turn = self.count(Opcode::Statfs);
        let filesystem = match self.shared.gate.enter() {
            Ok(filesystem) => filesystem,
            Err(error) => return reply.error(error),
        };
        match filesystem.space() {
            Ok(space) => reply_space(&space, reply),
            Err(error) => reply.error(crate::errno::errno(&error)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.count(Opcode::Setxattr);
        let set = self.xattrs().and_then(|()| {
            self.shared
                .set_xattr(&caller(request), node, name, value, flags)
        });
        reply_empty(set, reply);
    }

    fn getxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let _turn = self.count(Opcode::Getxattr);
        let value = self
            .xattrs()
            .and_then(|()| self.shared.xattr(&caller(request), node, name));
        reply_with(value, size, reply);
    }

    fn listxattr(&self, request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        let _turn = self.count(Opcode::Listxattr);
        let names = self
            .xattrs()
            .and_then(|()| self.shared.xattr_names(&caller(request), node));
        reply_with(names, size, reply);
    }

    fn removexattr(&self, request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.count(Opcode::Removexattr);
        let removed = self
            .xattrs()
            .and_then(|()| self.shared.remove_xattr(&caller(request), node, name));
        reply_empty(removed, reply);
    }

    /// The kernel asks only when it was told not to check permissions; then nobody does, and it need
    /// not ask again.
    fn access(&self, _request: &Request, _node: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        let _turn = self.count(Opcode::Access);
        reply.error(Errno::ENOSYS);
    }

    /// MKNOD and an open without request cost one request less than CREATE with its RELEASE.
    fn create(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let _turn = self.count(Opcode::Create);
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        let _turn = self.count(Opcode::Ioctl);
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.count(Opcode::Fallocate);
        let privileges = Privileges::of(&caller(request));
        self.shared
            .allocate((node, privileges), offset, len, mode, reply);
    }

    fn lseek(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let _turn = self.count(Opcode::Lseek);
        seek(&self.shared, node, offset, whence, reply);
    }

    fn copy_file_range(
        &self,
        request: &Request,
        source: INodeNo,
        _source_handle: FileHandle,
        source_offset: u64,
        target: INodeNo,
        _target_handle: FileHandle,
        target_offset: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _turn = self.count(Opcode::CopyFileRange);
        let privileges = Privileges::of(&caller(request));
        let (from, to) = ((source, source_offset), (target, target_offset));
        self.shared.copy_range(from, to, len, privileges, reply);
    }
}

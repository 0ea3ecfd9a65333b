//! Mounts a simulated disk, so that programs that do not know of it can run on it.
//!
//! Takes   a `Disk` and an empty folder (needs root and the FUSE device)
//! Gives   a mount that is removed when the value is dropped
//! Never   runs in the process of a program that uses it. The reason: unmapping a file waits for its server, and holds
//!         a lock that the server needs if both are one process. Never caches writes: a page reaches the disk when
//!         `write` returns. Only pages that are changed through a memory map (SQLite's index of its log, which is rebuilt
//!         after a crash) arrive when the kernel writes them back
//! Spec    none: test only
//!
//! The kernel handles file locks, because it knows all their users here.

use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno as FuseErrno, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL, TimeOrNow,
    WriteFlags,
};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::content::FileState;
use super::fault::Call;
use super::names::Entries;
use super::state::{Body, OnTarget, State};
use super::{CAPACITY_BYTES, Disk, PAGE_BYTES};

/// How long the kernel may remember a name: nobody else changes them.
const NAME_TTL: Duration = Duration::from_secs(3600);

/// Attributes are asked for each time: a size could come from a memory map.
const ATTRIBUTE_TTL: Duration = Duration::ZERO;

/// `FALLOC_FL_KEEP_SIZE`, `FALLOC_FL_PUNCH_HOLE` and `FALLOC_FL_ZERO_RANGE` of `fallocate(2)`.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

/// A disk at a mount point.
pub struct MountedDisk {
    path: PathBuf,
}

impl MountedDisk {
    /// Mounts `disk` on the folder `path`.
    ///
    /// # Errors
    /// Without root, the FUSE device, or the folder.
    pub fn mount(disk: &Disk, path: &Path) -> std::io::Result<Self> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
            device.as_raw_fd()
        );
        let options = CString::new(options)?;
        rustix::mount::mount(
            "simulated-disk",
            path,
            "fuse.simulated-disk",
            MountFlags::NOSUID | MountFlags::NODEV,
            options.as_c_str(),
        )?;
        let mounted = Self {
            path: path.to_path_buf(),
        };
        serve(disk, device)?;
        Ok(mounted)
    }

    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Answers requests on a thread of its own, until the mount is gone.
fn serve(disk: &Disk, device: File) -> std::io::Result<()> {
    let server = Server { disk: disk.clone() };
    Session::from_fd(
        server,
        device.into(),
        SessionACL::All,
        fuser::Config::default(),
    )?
    .spawn()?;
    Ok(())
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        // Force ends every waiting request, so that a program which still holds a file cannot hang; detach removes the
        // mount even so. The serving thread ends with the connection. Nothing is left to do if either fails.
        let _ = rustix::mount::unmount(&self.path, UnmountFlags::FORCE);
        let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
    }
}

struct Server {
    disk: Disk,
}

fn fuse_errno(error: Errno) -> FuseErrno {
    FuseErrno::from_i32(error.raw_os_error())
}

fn attributes(state: &State, number: u64) -> Result<FileAttr, Errno> {
    let node = state.node(number)?;
    let (kind, size, stored) = match &node.body {
        Body::File(file) => (
            FileType::RegularFile,
            file.live().size(),
            file.live().stored_bytes().max(node.reserved),
        ),
        Body::Directory(_) => (FileType::Directory, 0, 0),
        Body::Symlink(target) => (FileType::Symlink, target.len() as u64, 0),
    };
    Ok(FileAttr {
        ino: INodeNo(number),
        size,
        blocks: stored.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: node.mode,
        nlink: node.nlink,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: PAGE_BYTES as u32,
        flags: 0,
    })
}

fn answer_entry(result: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match result {
        Ok(found) => reply.entry_with_ttls(&NAME_TTL, &ATTRIBUTE_TTL, &found, Generation(0)),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

fn answer_empty(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

impl Server {
    fn create_node(
        &self,
        parent: INodeNo,
        name: &OsStr,
        body: Body,
        mode: u32,
    ) -> Result<FileAttr, Errno> {
        self.disk.change(Call::Create, |state, _| {
            let number = state.create(parent.0, name.as_bytes(), body, (mode & 0o7777) as u16)?;
            attributes(state, number)
        })
    }
}

impl fuser::Filesystem for Server {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(
            self.disk
                .look(|state| attributes(state, state.lookup(parent.0, name.as_bytes())?)),
            reply,
        );
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.disk.look(|state| attributes(state, ino.0)) {
            Ok(found) => reply.attr(&ATTRIBUTE_TTL, &found),
            Err(error) => reply.error(fuse_errno(error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = |state: &mut State, _| {
            if let Some(mode) = mode {
                state.set_mode(ino.0, (mode & 0o7777) as u16)?;
            }
            if let Some(size) = size {
                state.set_size(ino.0, size)?;
            }
            attributes(state, ino.0)
        };
        let result = if size.is_some() || mode.is_some() {
            self.disk.change(Call::Size, set)
        } else {
            self.disk.look(|state| attributes(state, ino.0))
        };
        match result {
            Ok(found) => reply.attr(&ATTRIBUTE_TTL, &found),
            Err(error) => reply.error(fuse_errno(error)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self.disk.look(|state| match &state.node(ino.0)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::INVAL),
        });
        match target {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(fuse_errno(error)),
        }
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        // S_IFREG of inode(7): sockets, pipes and devices have no business under a vault.
        let result = if mode & 0o170_000 == 0o100_000 {
            self.create_node(
                parent,
                name,
                Body::File(FileState::default()),
                mode & !umask,
            )
        } else {
            Err(Errno::PERM)
        };
        answer_entry(result, reply);
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        answer_entry(
            self.create_node(parent, name, Body::Directory(Entries::new()), mode & !umask),
            reply,
        );
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let body = Body::Symlink(target.as_os_str().as_bytes().to_vec());
        answer_entry(self.create_node(parent, name, body, 0o777), reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let result = self.disk.change(Call::Name, |state, _| {
            state.link(ino.0, parent.0, name.as_bytes())?;
            attributes(state, ino.0)
        });
        answer_entry(result, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(
            self.disk.change(Call::Name, |state, _| {
                state.remove(parent.0, name.as_bytes(), false)
            }),
            reply,
        );
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(
            self.disk.change(Call::Name, |state, _| {
                state.remove(parent.0, name.as_bytes(), true)
            }),
            reply,
        );
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let on_target = if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            OnTarget::Exchange
        } else if flags.contains(RenameFlags::RENAME_NOREPLACE) {
            OnTarget::Refuse
        } else {
            OnTarget::Replace
        };
        let from = (parent.0, name.as_bytes().to_vec());
        let to = (newparent.0, newname.as_bytes().to_vec());
        answer_empty(
            self.disk
                .change(Call::Name, |state, _| state.rename(&from, &to, on_target)),
            reply,
        );
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.disk.look(|state| state.node(ino.0).map(drop)) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(fuse_errno(error)),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.create_node(
            parent,
            name,
            Body::File(FileState::default()),
            mode & !umask,
        ) {
            Ok(made) => reply.created(
                &NAME_TTL,
                &made,
                Generation(0),
                FileHandle(0),
                FopenFlags::FOPEN_KEEP_CACHE,
            ),
            Err(error) => reply.error(fuse_errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self
            .disk
            .look(|state| Ok(state.file(ino.0)?.live().read(offset, size as usize)))
        {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(fuse_errno(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let result = if write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            self.disk
                .write_back(ino.0, offset, data)
                .map(|()| data.len())
        } else {
            self.disk.change(Call::Write, |state, half| {
                let taken = if half {
                    data.len().div_ceil(2)
                } else {
                    data.len()
                };
                state.write(ino.0, offset, &data[..taken]).map(|()| taken)
            })
        };
        match result {
            Ok(taken) => reply.written(u32::try_from(taken).unwrap_or(u32::MAX)),
            Err(error) => reply.error(fuse_errno(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer_empty(self.disk.sync(ino.0), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer_empty(self.disk.sync(ino.0), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.disk.look(|state| {
            let mut listed = vec![
                (ino.0, FileType::Directory, b".".to_vec()),
                (ino.0, FileType::Directory, b"..".to_vec()),
            ];
            for (name, number) in state.entries(ino.0)? {
                listed.push((*number, attributes(state, *number)?.kind, name.clone()));
            }
            Ok(listed)
        });
        match listed {
            Ok(listed) => {
                let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
                for (at, (number, kind, name)) in listed.iter().enumerate().skip(skipped) {
                    if reply.add(
                        INodeNo(*number),
                        at as u64 + 1,
                        *kind,
                        OsStr::from_bytes(name),
                    ) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(fuse_errno(error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.disk.look(|state| Ok(state.used_bytes())) {
            Ok(used) => {
                let total = CAPACITY_BYTES / PAGE_BYTES as u64;
                let free = total.saturating_sub(used.div_ceil(PAGE_BYTES as u64));
                reply.statfs(
                    total,
                    free,
                    free,
                    1 << 32,
                    1 << 31,
                    PAGE_BYTES as u32,
                    255,
                    PAGE_BYTES as u32,
                );
            }
            Err(error) => reply.error(fuse_errno(error)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let keep_size = mode & KEEP_SIZE != 0;
        let end = offset.saturating_add(length);
        let result = match mode & !KEEP_SIZE {
            0 => self
                .disk
                .change(Call::Size, |state, _| state.reserve(ino.0, end, keep_size)),
            PUNCH_HOLE | ZERO_RANGE => self.disk.change(Call::Size, |state, _| {
                state.zero(ino.0, offset, length, keep_size)
            }),
            _ => Err(Errno::OPNOTSUPP),
        };
        answer_empty(result, reply);
    }
}

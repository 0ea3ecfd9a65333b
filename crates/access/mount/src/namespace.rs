//! Requests about names and attributes. They are answered on the event loop, except renames, which may have to drain.
//!
//! Takes   a caller, node numbers and names
//! Gives   the reply to the kernel, or an error number
//! Never   keeps a reference that no reply gave to the kernel (invariant 2 of the crate)

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{Errno, FileAttr, INodeNo, RenameFlags, Request};
use strongroom::filesystem::{
    Attributes, Caller, Checks, Error, Filesystem, NewNode, NodeKind, RenameMode, SetAttributes,
};

use crate::attributes::{PERMISSION_BITS, SGID, inode, kind_of_mknod, library_device, nameless};
use crate::errno::errno;
use crate::shared::Shared;

/// Who asks. The kernel has checked permissions, or the mount was made without any checks.
pub(crate) fn caller(request: &Request) -> Caller {
    Caller {
        uid: request.uid(),
        gid: request.gid(),
        groups: Vec::new(),
        checks: Checks::Above,
    }
}

/// Who asks, with supplementary groups: they matter only where a mode sets the set-group-id bit.
pub(crate) fn caller_setting(request: &Request, mode: u32) -> Caller {
    let mut caller = caller(request);
    if mode & SGID != 0 && caller.uid != 0 {
        caller.groups = supplementary_groups(request.pid());
    }
    caller
}

/// The groups of a thread; none if it has gone or lives in another world of process numbers.
fn supplementary_groups(pid: u32) -> Vec<u32> {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .map_or_else(|_| Vec::new(), |status| groups_in(&status))
}

fn groups_in(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.unwrap_or("")
        .split_whitespace()
        .filter_map(|group| group.parse().ok())
        .collect()
}

impl Shared {
    /// The reply for a node on which a reference was just taken.
    fn tell(&self, attributes: &Attributes) -> FileAttr {
        self.references.add(attributes.inode);
        self.view.attributes(attributes)
    }

    /// A name that does not exist is an answer too: number 0, which the kernel remembers.
    pub(crate) fn lookup(
        &self,
        caller: &Caller,
        parent: INodeNo,
        name: &OsStr,
    ) -> Result<FileAttr, Errno> {
        let filesystem = self.gate.enter()?;
        match filesystem.lookup(caller, inode(parent), name.as_bytes()) {
            Ok(attributes) => Ok(self.tell(&attributes)),
            Err(Error::NotFound) => Ok(nameless(0)),
            Err(error) => Err(errno(&error)),
        }
    }

    /// After the end of the mount there is nothing left to give back.
    pub(crate) fn forget(&self, node: INodeNo, count: u64) {
        if let Ok(filesystem) = self.gate.enter() {
            let count = self.references.take(inode(node), count);
            if count > 0 {
                filesystem.forget(inode(node), count);
            }
        }
    }

    pub(crate) fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        let attributes = self
            .gate
            .enter()?
            .attributes(inode(node))
            .map_err(|error| errno(&error))?;
        Ok(self.view.attributes(&attributes))
    }

    /// A view that shows another owner or other permissions takes changes of them and leaves the vault
    /// as it is, as programs that copy files with their attributes expect.
    pub(crate) fn set_attributes(
        &self,
        caller: &Caller,
        node: INodeNo,
        mut wanted: SetAttributes,
    ) -> Result<FileAttr, Errno> {
        if self.view.uid.is_some() || self.view.gid.is_some() {
            (wanted.uid, wanted.gid) = (None, None);
        }
        if self.view.umask.is_some() {
            wanted.mode = None;
        }
        wanted.mode = wanted.mode.map(|mode| mode & PERMISSION_BITS);
        if wanted == SetAttributes::default() {
            return self.attributes(node);
        }
        let filesystem = self.gate.enter()?;
        // With HANDLE_KILLPRIV_V2 the kernel leaves this to us, and the protocol library drops the bit that would say so: who is not
        // root loses the privileges of a file that it truncates. `set_attributes` takes them, unless it refuses the length: then the
        // kernel gets no attributes, and would not know.
        let attributes = filesystem
            .set_attributes(caller, inode(node), &wanted)
            .map_err(|error| errno(&error))?;
        Ok(self.view.attributes(&attributes))
    }

    pub(crate) fn read_link(&self, node: INodeNo) -> Result<Vec<u8>, Errno> {
        self.gate
            .enter()?
            .read_link(inode(node))
            .map_err(|error| errno(&error))
    }

    pub(crate) fn make_node(
        &self,
        caller: &Caller,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        device: u32,
    ) -> Result<FileAttr, Errno> {
        let kind = kind_of_mknod(mode).ok_or(Errno::EINVAL)?;
        let is_device = matches!(kind, NodeKind::CharDevice | NodeKind::BlockDevice);
        let rdev = if is_device { library_device(device) } else { 0 };
        let node = NewNode {
            kind,
            mode: mode & PERMISSION_BITS,
            rdev,
            target: Vec::new(),
        };
        self.create(caller, parent, name, &node)
    }

    pub(crate) fn make_directory(
        &self,
        caller: &Caller,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
    ) -> Result<FileAttr, Errno> {
        let mode = mode & PERMISSION_BITS;
        let node = NewNode {
            kind: NodeKind::Directory,
            mode,
            rdev: 0,
            target: Vec::new(),
        };
        self.create(caller, parent, name, &node)
    }

    pub(crate) fn make_symlink(
        &self,
        caller: &Caller,
        parent: INodeNo,
        name: &OsStr,
        target: &OsStr,
    ) -> Result<FileAttr, Errno> {
        let target = target.as_bytes().to_vec();
        let node = NewNode {
            kind: NodeKind::Symlink,
            mode: 0o777,
            rdev: 0,
            target,
        };
        self.create(caller, parent, name, &node)
    }

    fn create(
        &self,
        caller: &Caller,
        parent: INodeNo,
        name: &OsStr,
        node: &NewNode,
    ) -> Result<FileAttr, Errno> {
        let filesystem = self.gate.enter()?;
        match filesystem.create(caller, inode(parent), name.as_bytes(), node) {
            Ok(attributes) => Ok(self.tell(&attributes)),
            Err(error) => Err(errno(&error)),
        }
    }

    pub(crate) fn link(
        &self,
        caller: &Caller,
        node: INodeNo,
        parent: INodeNo,
        name: &OsStr,
    ) -> Result<FileAttr, Errno> {
        let filesystem = self.gate.enter()?;
        match filesystem.link(caller, inode(node), inode(parent), name.as_bytes()) {
            Ok(attributes) => Ok(self.tell(&attributes)),
            Err(error) => Err(errno(&error)),
        }
    }

    pub(crate) fn unlink(
        &self,
        caller: &Caller,
        parent: INodeNo,
        name: &OsStr,
    ) -> Result<(), Errno> {
        let removed = self
            .gate
            .enter()?
            .unlink(caller, inode(parent), name.as_bytes());
        removed.map_err(|error| errno(&error))
    }

    pub(crate) fn remove_directory(
        &self,
        caller: &Caller,
        parent: INodeNo,
        name: &OsStr,
    ) -> Result<(), Errno> {
        let removed = self
            .gate
            .enter()?
            .remove_directory(caller, inode(parent), name.as_bytes());
        removed.map_err(|error| errno(&error))
    }
}

/// One rename, with names of its own, so that a worker can do it.
pub(crate) struct Rename {
    pub(crate) caller: Caller,
    pub(crate) parent: INodeNo,
    pub(crate) name: Vec<u8>,
    pub(crate) new_parent: INodeNo,
    pub(crate) new_name: Vec<u8>,
    pub(crate) mode: RenameMode,
}

impl Rename {
    pub(crate) fn run(&self, filesystem: &Filesystem) -> Result<(), Errno> {
        let (parent, new_parent) = (inode(self.parent), inode(self.new_parent));
        filesystem
            .rename(
                &self.caller,
                parent,
                &self.name,
                new_parent,
                &self.new_name,
                self.mode,
            )
            .map_err(|error| errno(&error))
    }
}

/// EINVAL for what is not known: ENOSYS would switch renames with flags off for good.
pub(crate) fn rename_mode(flags: RenameFlags) -> Result<RenameMode, Errno> {
    if flags.is_empty() {
        Ok(RenameMode::Replace)
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Ok(RenameMode::NoReplace)
    } else if flags == RenameFlags::RENAME_EXCHANGE {
        Ok(RenameMode::Exchange)
    } else if flags == RenameFlags::RENAME_WHITEOUT {
        Ok(RenameMode::Whiteout)
    } else {
        Err(Errno::EINVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_a_status_file_are_read() {
        assert_eq!(
            groups_in("Name:\tcat\nGroups:\t4 24 1000 \nNStgid:\t1\n"),
            [4, 24, 1000]
        );
        assert_eq!(groups_in("Groups:\t\n"), Vec::<u32>::new());
        assert_eq!(groups_in(""), Vec::<u32>::new());
    }

    #[test]
    fn unknown_rename_flags_are_invalid_and_never_unknown_to_the_kernel() {
        assert_eq!(rename_mode(RenameFlags::empty()), Ok(RenameMode::Replace));
        assert_eq!(
            rename_mode(RenameFlags::RENAME_NOREPLACE),
            Ok(RenameMode::NoReplace)
        );
        assert_eq!(
            rename_mode(RenameFlags::RENAME_EXCHANGE),
            Ok(RenameMode::Exchange)
        );
        assert_eq!(
            rename_mode(RenameFlags::RENAME_WHITEOUT),
            Ok(RenameMode::Whiteout)
        );
        let both = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE;
        assert_eq!(rename_mode(both), Err(Errno::EINVAL));
        assert_eq!(
            rename_mode(RenameFlags::from_bits_retain(0x80)),
            Err(Errno::EINVAL)
        );
    }
}

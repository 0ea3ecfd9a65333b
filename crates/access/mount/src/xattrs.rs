//! Requests about extended attributes.
//!
//! Takes   a node, a name, and the size of the caller's buffer
//! Gives   the value, the names, or only their size
//! Never   stores an attribute that it cannot enforce: `system.*` (POSIX ACLs) is refused

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{Errno, INodeNo, ReplyXattr};
use strongroom::filesystem::{Caller, XattrMode};

use crate::attributes::inode;
use crate::errno::errno;
use crate::limits;
use crate::shared::Shared;

const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;

impl Shared {
    pub(crate) fn xattr(
        &self,
        caller: &Caller,
        node: INodeNo,
        name: &OsStr,
    ) -> Result<Vec<u8>, Errno> {
        refuse_system(name)?;
        self.gate
            .enter()?
            .xattr(caller, inode(node), name.as_bytes())
            .map_err(|error| errno(&error))
    }

    pub(crate) fn set_xattr(
        &self,
        caller: &Caller,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Result<(), Errno> {
        refuse_system(name)?;
        let mode = mode(flags)?;
        let set = self
            .gate
            .enter()?
            .set_xattr(caller, inode(node), name.as_bytes(), value, mode);
        set.map_err(|error| errno(&error))
    }

    pub(crate) fn remove_xattr(
        &self,
        caller: &Caller,
        node: INodeNo,
        name: &OsStr,
    ) -> Result<(), Errno> {
        refuse_system(name)?;
        self.gate
            .enter()?
            .remove_xattr(caller, inode(node), name.as_bytes())
            .map_err(|error| errno(&error))
    }

    pub(crate) fn xattr_names(&self, caller: &Caller, node: INodeNo) -> Result<Vec<u8>, Errno> {
        let names = self
            .gate
            .enter()?
            .xattrs(caller, inode(node))
            .map_err(|error| errno(&error))?;
        Ok(name_list(&names))
    }
}

/// The names one after the other, each ended by a zero byte.
fn name_list(names: &[Vec<u8>]) -> Vec<u8> {
    let mut list = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
    for name in names {
        list.extend_from_slice(name);
        list.push(0);
    }
    list
}

fn refuse_system(name: &OsStr) -> Result<(), Errno> {
    if name.as_bytes().starts_with(b"system.") {
        Err(Errno::EOPNOTSUPP)
    } else {
        Ok(())
    }
}

fn mode(flags: i32) -> Result<XattrMode, Errno> {
    match flags {
        0 => Ok(XattrMode::Set),
        XATTR_CREATE => Ok(XattrMode::CreateOnly),
        XATTR_REPLACE => Ok(XattrMode::ReplaceOnly),
        _ => Err(Errno::EINVAL),
    }
}

/// How an attribute is answered.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Size(u32),
    Data,
    Error(Errno),
}

/// A caller without room asks for the size; one with too little gets ERANGE.
fn answer(len: usize, room: u32) -> Answer {
    match u32::try_from(len) {
        Ok(size) if len <= limits::XATTR_BYTES_MAX => {
            if room == 0 {
                Answer::Size(size)
            } else if size <= room {
                Answer::Data
            } else {
                Answer::Error(Errno::ERANGE)
            }
        }
        _ => Answer::Error(Errno::E2BIG),
    }
}

/// Answers with `value`, its size, or an error.
pub(crate) fn reply_with(value: Result<Vec<u8>, Errno>, room: u32, reply: ReplyXattr) {
    match value {
        Err(error) => reply.error(error),
        Ok(value) => match answer(value.len(), room) {
            Answer::Size(size) => reply.size(size),
            Answer::Data => reply.data(&value),
            Answer::Error(error) => reply.error(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_told_to_who_has_no_room() {
        assert_eq!(answer(5, 0), Answer::Size(5));
        assert_eq!(answer(0, 0), Answer::Size(0));
        assert_eq!(answer(5, 5), Answer::Data);
        assert_eq!(answer(5, 4), Answer::Error(Errno::ERANGE));
        assert_eq!(
            answer(limits::XATTR_BYTES_MAX + 1, 0),
            Answer::Error(Errno::E2BIG)
        );
    }

    #[test]
    fn names_are_ended_by_zero_bytes() {
        assert_eq!(
            name_list(&[b"user.a".to_vec(), b"user.b".to_vec()]),
            b"user.a\0user.b\0"
        );
        assert_eq!(name_list(&[]), b"");
    }

    #[test]
    fn access_lists_that_nobody_would_enforce_are_refused() {
        let refused = Err(Errno::EOPNOTSUPP);
        assert_eq!(
            refuse_system(OsStr::new("system.posix_acl_access")),
            refused
        );
        assert_eq!(refuse_system(OsStr::new("user.system.x")), Ok(()));
    }

    #[test]
    fn both_flags_at_once_are_invalid() {
        assert_eq!(mode(0), Ok(XattrMode::Set));
        assert_eq!(mode(1), Ok(XattrMode::CreateOnly));
        assert_eq!(mode(2), Ok(XattrMode::ReplaceOnly));
        assert_eq!(mode(3), Err(Errno::EINVAL));
    }
}

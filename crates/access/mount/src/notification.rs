//! Asks the kernel to drop what it has cached, in the form of the FUSE protocol.
//!
//! Takes   a name in a directory, or a node and a range of its content
//! Gives   whether the kernel knew the name or the node
//! Never   hides whether the kernel knew it, as the notifier of `fuser` (the FUSE library) does; `answers.rs` says why it matters

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use strongroom::filesystem::InodeId;

/// Codes and sizes are those of linux/fuse.h.
const INVAL_INODE: u32 = 2;
const INVAL_ENTRY: u32 = 3;
const HEADER_BYTES: usize = 16;

/// Whether the kernel had what it was asked to drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Yes,
    No,
}

/// The connection to the kernel, which it keeps open.
pub(crate) struct Kernel(File);

impl Kernel {
    /// `device`: the descriptor on which requests arrive, or a duplicate of it.
    pub(crate) fn new(device: OwnedFd) -> Self {
        Self(device.into())
    }

    /// Drops the entry `name` of `parent`.
    pub(crate) fn drop_entry(&self, parent: InodeId, name: &[u8]) -> io::Result<Known> {
        let len = u32::try_from(name.len()).map_err(io::Error::other)?;
        let (parent, flags, end) = (parent.0.to_ne_bytes(), [0_u8; 4], [0_u8]);
        self.send(
            INVAL_ENTRY,
            &[&parent[..], &len.to_ne_bytes(), &flags, name, &end].concat(),
        )
    }

    /// Drops the attributes of `inode`, and its content from `offset` on, `len` bytes; 0 means to the end. An `offset` below zero
    /// leaves content alone.
    pub(crate) fn drop_inode(&self, inode: InodeId, offset: i64, len: i64) -> io::Result<Known> {
        let (inode, offset, len) = (
            inode.0.to_ne_bytes(),
            offset.to_ne_bytes(),
            len.to_ne_bytes(),
        );
        self.send(INVAL_INODE, &[inode, offset, len].concat())
    }

    fn send(&self, code: u32, body: &[u8]) -> io::Result<Known> {
        let len = u32::try_from(HEADER_BYTES + body.len()).map_err(io::Error::other)?;
        // Number 0 belongs to no request: it marks a notification.
        let (len, code, number) = (len.to_ne_bytes(), code.to_ne_bytes(), [0_u8; 8]);
        let message = [&len[..], &code, &number, body].concat();
        // The kernel takes a message as a whole, or refuses it.
        match rustix::io::write(&self.0, &message) {
            Ok(_) => Ok(Known::Yes),
            Err(Errno::NOENT) => Ok(Known::No),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    #[test]
    fn a_notification_has_the_form_of_the_protocol() {
        let mut file = tempfile::tempfile().unwrap();
        let kernel = Kernel::new(file.try_clone().unwrap().into());
        assert_eq!(kernel.drop_inode(InodeId(0x42), -1, 0).unwrap(), Known::Yes);
        assert_eq!(kernel.drop_entry(InodeId(7), b"name").unwrap(), Known::Yes);
        let mut sent = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut sent).unwrap();
        let numbers = [40_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat();
        let longer = [0, 0x42, u64::MAX, 0].map(u64::to_ne_bytes).concat();
        let inode = [numbers, longer].concat();
        let numbers = [37_u32.to_ne_bytes(), 3_u32.to_ne_bytes()].concat();
        let longer = [0, 7].map(u64::to_ne_bytes).concat();
        let name = [&4_u32.to_ne_bytes()[..], &[0_u8; 4], b"name\0"].concat();
        assert_eq!(sent, [inode, numbers, longer, name].concat());
    }
}

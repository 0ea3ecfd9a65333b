//! Carries out requests about the content of nodes: bytes, attributes and listings.
//!
//! Takes   handles of a session, or the path to open
//! Gives   bytes, counts and attributes; a notice of each change to the observers
//! Never   reads or writes a handle that was not opened for it

use strongroom_filesystem::{
    self as filesystem, AllocateMode, Attributes, InodeId, Listing, NewNode, NodeKind,
    SetAttributes,
};

use crate::execute::namespace::Names;
use crate::execute::session::{OpenNode, Session};
use crate::limits::LIST_ENTRIES_MAX;
use crate::observer::Change;
use crate::path::{HeldNode, Links, Place, resolve, resolve_place, wants_directory};
use crate::request::{Creation, DirectoryEntry, Handle, Opening};
use crate::{Error, Result};

/// How often opening starts again when the name comes and goes under it.
const OPEN_ATTEMPTS_MAX: usize = 100;

/// A handle, and what it opened.
type Opened = (Handle, Attributes);

/// Entries of a directory, each with its cookie.
type Entries = Vec<(u64, DirectoryEntry)>;

/// Opens what `path` names, making it first if `opening` says so.
pub(crate) fn open(session: &Session, path: &[u8], opening: Opening) -> Result<Opened> {
    let node = match opening.create {
        Creation::Never => resolve(session.filesystem(), &session.caller, path, Links::Follow)?,
        Creation::IfMissing | Creation::Always => open_or_make(session, path, opening)?,
    };
    match node.attributes.kind {
        NodeKind::File => {}
        NodeKind::Directory if opening.directory => {}
        NodeKind::Directory => return Err(Error::File(filesystem::Error::IsADirectory)),
        // Pipes, sockets and devices are names in a vault; their content is a matter of the kernel.
        _ => return Err(Error::File(filesystem::Error::NotSupported)),
    }
    let inode = node.inode();
    // First: a session that has too many open files empties none.
    let handle = session.keep(node, opening)?;
    if opening.truncate {
        let set = SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        };
        if let Err(error) = set_attributes(session, inode, &set) {
            session.close(handle);
            return Err(error);
        }
    }
    opened(session, handle, inode)
}

/// Opens a file by its number, as it was open at an owner that has gone.
///
/// Whether it is the same file, and no other one that has its number after a crash, the client sees.
pub(crate) fn reopen(session: &Session, inode: InodeId, opening: Opening) -> Result<Opened> {
    let found = session.filesystem().refer_again(inode)?;
    let held = HeldNode::take(session.filesystem(), found);
    if held.attributes.kind != NodeKind::File {
        return Err(Error::File(filesystem::Error::Stale));
    }
    let handle = session.keep(held, opening)?;
    opened(session, handle, inode)
}

fn opened(session: &Session, handle: Handle, inode: InodeId) -> Result<Opened> {
    match session.filesystem().attributes(inode) {
        Ok(attributes) => Ok((handle, attributes)),
        Err(error) => {
            session.close(handle);
            Err(error.into())
        }
    }
}

fn open_or_make(session: &Session, path: &[u8], opening: Opening) -> Result<HeldNode> {
    if wants_directory(path) {
        return Err(Error::File(filesystem::Error::IsADirectory));
    }
    // As open(2): O_EXCL does not follow a symlink at the end, plain O_CREAT does, even a dangling one.
    let links = if opening.create == Creation::Always {
        Links::Stay
    } else {
        Links::Follow
    };
    let new = NewNode {
        kind: NodeKind::File,
        mode: opening.mode & 0o7777,
        rdev: 0,
        target: Vec::new(),
    };
    for _ in 0..OPEN_ATTEMPTS_MAX {
        let mut place: Place = resolve_place(session.filesystem(), &session.caller, path, links)?;
        match (place.node.take(), opening.create) {
            (Some(_), Creation::Always) => return Err(Error::File(filesystem::Error::Exists)),
            (Some(node), _) => return Ok(node),
            (None, _) => {}
        }
        match (Names { session }.make_at(&place, &new), opening.create) {
            // Somebody made it in between: open that one.
            (Err(Error::File(filesystem::Error::Exists)), Creation::IfMissing) => {}
            (made, _) => return made,
        }
    }
    Err(Error::File(filesystem::Error::WouldBlock))
}

/// Opens a new file without a name, to be named by `Request::Name`.
pub(crate) fn open_unnamed(session: &Session, path: &[u8], mode: u32) -> Result<Opened> {
    let directory = resolve(session.filesystem(), &session.caller, path, Links::Follow)?;
    let attributes =
        session
            .filesystem()
            .create_unnamed(&session.caller, directory.inode(), mode & 0o7777)?;
    let inode = attributes.inode;
    let opening = Opening {
        read: true,
        write: true,
        ..Opening::default()
    };
    let handle = session.keep(HeldNode::take(session.filesystem(), attributes), opening)?;
    opened(session, handle, inode)
}

/// Sets attributes and notifies observers.
pub(crate) fn set_attributes(
    session: &Session,
    inode: InodeId,
    set: &SetAttributes,
) -> Result<Attributes> {
    let before = match set.size {
        Some(_) => Some(session.filesystem().attributes(inode)?.size),
        None => None,
    };
    let attributes = session
        .filesystem()
        .set_attributes(&session.caller, inode, set)?;
    let change = match (set.size, before) {
        (Some(size), Some(before)) => Change::Content {
            inode,
            offset: size.min(before),
            len: u64::MAX,
        },
        _ => Change::Attributes { inode },
    };
    session.tell(&[change]);
    Ok(attributes)
}

/// Lists entries behind the cookie `after`, with attributes.
pub(crate) fn list(session: &Session, handle: Handle, after: u64, limit: u32) -> Result<Entries> {
    let inode = session.readable(handle)?;
    let limit = limit.clamp(1, LIST_ENTRIES_MAX) as usize;
    let mut after = after;
    loop {
        let entries = session.filesystem().list(
            &session.caller,
            inode,
            after,
            limit,
            Listing::WithAttributes,
        )?;
        let Some(last) = entries.last() else {
            return Ok(Vec::new());
        };
        after = last.cookie;
        // Those of which the node is missing are left out. An empty page would be the end.
        let shown: Vec<_> = entries
            .into_iter()
            .filter_map(|entry| {
                let (name, attributes) = (entry.name, entry.attributes?);
                Some((entry.cookie, DirectoryEntry { name, attributes }))
            })
            .collect();
        if !shown.is_empty() {
            return Ok(shown);
        }
    }
}

/// Fills `buffer` from `offset`; gives the count of bytes before the end.
pub(crate) fn read(
    session: &Session,
    handle: Handle,
    offset: u64,
    buffer: &mut [u8],
) -> Result<usize> {
    let inode = session.readable(handle)?;
    Ok(session.filesystem().read(inode, offset, buffer)?)
}

/// Writes all of `data` at `offset`, or at the end if the file was opened to append.
pub(crate) fn write(session: &Session, handle: Handle, offset: u64, data: &[u8]) -> Result<u64> {
    let node = session.writable(handle)?;
    if node.opening.append {
        return append(session, handle, data);
    }
    drop_privileges(session, node.inode)?;
    session.filesystem().write(node.inode, offset, data)?;
    session.tell(&[Change::Content {
        inode: node.inode,
        offset,
        len: data.len() as u64,
    }]);
    Ok(offset)
}

/// Writes all of `data` at the end; answers the offset it went to.
pub(crate) fn append(session: &Session, handle: Handle, data: &[u8]) -> Result<u64> {
    let inode = session.writable(handle)?.inode;
    drop_privileges(session, inode)?;
    let offset = session.filesystem().append(inode, data)?;
    session.tell(&[Change::Content {
        inode,
        offset,
        len: data.len() as u64,
    }]);
    Ok(offset)
}

/// A change of content by anyone but the superuser drops the suid and sgid bits. The change that others hear of next covers it.
fn drop_privileges(session: &Session, inode: InodeId) -> Result<()> {
    if session.caller.uid != 0 {
        session.filesystem().drop_privileges(inode)?;
    }
    Ok(())
}

/// Reserves, punches or zeroes a range.
pub(crate) fn allocate(
    session: &Session,
    handle: Handle,
    mode: AllocateMode,
    offset: u64,
    len: u64,
) -> Result<()> {
    let inode = session.writable(handle)?.inode;
    drop_privileges(session, inode)?;
    session.filesystem().allocate(inode, mode, offset, len)?;
    session.tell(&[Change::Content { inode, offset, len }]);
    Ok(())
}

/// Copies up to `len` bytes between two places by sharing blocks; gives how many.
///
/// A file that was opened to append is written at its end only: it is no target, as for `copy_file_range(2)`.
pub(crate) fn copy_range(
    session: &Session,
    (source, source_offset): (Handle, u64),
    (target, offset): (Handle, u64),
    len: u64,
) -> Result<u64> {
    let from = session.readable(source)?;
    let OpenNode { inode, opening } = session.writable(target)?;
    if opening.append {
        return Err(Error::NotOpenFor("writing"));
    }
    drop_privileges(session, inode)?;
    let filesystem = session.filesystem();
    let len = filesystem.copy_range(from, source_offset, inode, offset, len)?;
    session.tell(&[Change::Content { inode, offset, len }]);
    Ok(len)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::sync::Arc;

    use strongroom_filesystem::{Background, Caller, Checks, Options, XattrMode};

    use super::*;
    use crate::limits::HANDLES_MAX;
    use crate::owner::port::Port;
    use crate::request::Access;
    use crate::{CreateOptions, Vault};

    const CAPABILITY: &[u8] = b"security.capability";

    fn user(uid: u32) -> Caller {
        Caller {
            uid,
            gid: uid,
            groups: Vec::new(),
            checks: Checks::Above,
        }
    }

    /// Goal: an opening that fails changes nothing. Method: a session with as many open files as it may have opens one more, to empty it.
    /// Failed before: the opening was refused, and the file was empty.
    #[test]
    fn a_file_that_cannot_be_opened_is_not_emptied() {
        let place = tempfile::tempdir().unwrap();
        let vault = Vault::create(place.path().join("vault"), CreateOptions::new());
        let vault = vault.unwrap().vault;
        vault.write("/file", b"content").unwrap();
        let Port::Owner(owner) = vault.port() else {
            panic!("it was made here")
        };
        let shared = Arc::clone(&owner.session.vault);
        let session = Session::new(shared, user(0), Access::ReadWrite);
        let reads = Opening {
            read: true,
            ..Opening::default()
        };
        for _ in 0..HANDLES_MAX {
            open(&session, b"/file", reads).unwrap();
        }
        let empties = Opening {
            write: true,
            truncate: true,
            ..Opening::default()
        };
        let refused = open(&session, b"/file", empties);
        assert!(
            matches!(refused, Err(Error::TooManyOpenFiles)),
            "{refused:?}"
        );
        assert_eq!(vault.read("/file").unwrap(), b"content");
    }

    /// Goal: a file that goes on at another owner has all its content. Method: one is opened by its number after it lost its last name:
    /// while nobody has it open, and while somebody has. Failed before: it was opened in both cases, also while a purge had
    /// removed the first part of it, which was read as zeros.
    #[test]
    fn a_file_that_is_being_removed_is_not_opened_by_its_number() {
        let place = tempfile::tempdir().unwrap();
        let by_hand = Options {
            background: Background::Manual,
            ..Options::default()
        };
        let options = CreateOptions::new().engine(by_hand);
        let vault = Vault::create(place.path().join("vault"), options);
        let vault = vault.unwrap().vault;
        let Port::Owner(owner) = vault.port() else {
            panic!("it was made here")
        };
        let shared = Arc::clone(&owner.session.vault);
        let session = Session::new(shared, user(0), Access::ReadWrite);
        let reads = Opening {
            read: true,
            ..Opening::default()
        };
        for is_open in [false, true] {
            vault.write("/file", b"content").unwrap();
            let (handle, Attributes { inode, .. }) = open(&session, b"/file", reads).unwrap();
            if !is_open {
                session.close(handle);
            }
            let again = reopen(&session, inode, reads);
            session.close(again.unwrap().0);
            vault.remove_file("/file").unwrap();
            let again = reopen(&session, inode, reads);
            if is_open {
                let mut buffer = [0; 7];
                let count = read(&session, again.unwrap().0, 0, &mut buffer);
                assert_eq!((count.unwrap(), &buffer), (7, b"content"));
            } else {
                let is_stale = matches!(again, Err(Error::File(filesystem::Error::Stale)));
                assert!(is_stale, "{again:?}");
            }
        }
    }

    /// Goal: whoever is not the superuser takes privileges from a file by a copy into it, as by a write. Method: sessions of both.
    /// Failed before: mode and capability stayed.
    #[test]
    fn a_copied_range_drops_privileges() {
        let place = tempfile::tempdir().unwrap();
        let vault = Vault::create(place.path().join("vault"), CreateOptions::new());
        let vault = vault.unwrap().vault;
        vault.write("/from", b"content").unwrap();
        vault.write("/to", b"").unwrap();
        let Port::Owner(owner) = vault.port() else {
            panic!("it was made here")
        };
        for (uid, mode) in [(0, 0o6777), (1000, 0o777)] {
            let shared = Arc::clone(&owner.session.vault);
            let session = Session::new(shared, user(uid), Access::ReadWrite);
            let reads = Opening {
                read: true,
                ..Opening::default()
            };
            let writes = Opening {
                write: true,
                ..Opening::default()
            };
            let (from, _) = open(&session, b"/from", reads).unwrap();
            let (to, Attributes { inode, .. }) = open(&session, b"/to", writes).unwrap();
            let privileged = SetAttributes {
                mode: Some(0o6777),
                ..SetAttributes::default()
            };
            let (filesystem, root) = (session.filesystem(), &Caller::root());
            filesystem.set_attributes(root, inode, &privileged).unwrap();
            filesystem
                .set_xattr(root, inode, CAPABILITY, b"c", XattrMode::Set)
                .unwrap();
            assert_eq!(copy_range(&session, (from, 0), (to, 0), 7).unwrap(), 7);
            assert_eq!(filesystem.attributes(inode).unwrap().mode, mode, "{uid}");
            let capability = filesystem.xattr(root, inode, CAPABILITY);
            assert_eq!(capability.is_ok(), uid == 0, "{capability:?}");
        }
    }
}

//! Carries out one request: the same way for the process that owns the vault and for its clients.
//!
//! Takes   a session and a request
//! Gives   a response; who watches the vault has heard of every change before it is given
//! Never   answers with more than a frame holds

pub(crate) mod backup;
pub(crate) mod carry_out;
pub(crate) mod content;
pub(crate) mod hash;
mod history;
mod locks;
pub(crate) mod namespace;
mod remove_tree;
pub(crate) mod restore;
pub(crate) mod rotation;
pub(crate) mod session;
pub(crate) mod verify;
pub(crate) mod verify_state;
mod whole;

use strongroom_filesystem::{self as filesystem, Durability, NodeKind};

use crate::execute::namespace::Names;
use crate::execute::session::Session;
use crate::limits::{NAMES_BYTES_MAX, TRANSFER_BYTES_MAX};
use crate::observer::Change;
use crate::path::{Links, resolve};
use crate::request::frame::{ByteBuffer, Bytes};
use crate::request::{Access, Request, Response};
use crate::{Error, Result};

/// Carries out `request` on behalf of `session`.
pub(crate) fn execute(session: &Session, request: &Request<'_>) -> Result<Response> {
    if session.vault.is_closed() {
        return Err(Error::Closed);
    }
    if session.access == Access::ReadOnly && request.changes() {
        return Err(Error::File(filesystem::Error::ReadOnly));
    }
    match request {
        Request::Close { .. }
        | Request::HandleAttributes { .. }
        | Request::SetHandleAttributes { .. }
        | Request::List { .. }
        | Request::Read { .. }
        | Request::Write { .. }
        | Request::Append { .. }
        | Request::Allocate { .. }
        | Request::Seek { .. }
        | Request::CopyRange { .. }
        | Request::SyncHandle { .. }
        | Request::Lock { .. }
        | Request::Unlock { .. } => on_handle(session, request),
        Request::Xattr { .. }
        | Request::SetXattr { .. }
        | Request::RemoveXattr { .. }
        | Request::Xattrs { .. } => on_xattrs(session, request),
        Request::Whole(request) => whole::execute(session, request),
        Request::MakeWay => Ok(Response::MakesWay(session.vault.make_way())),
        Request::Transaction { steps, durable } => {
            let durability = match durable {
                true => Durability::OnReturn,
                false => Durability::WriteBehind,
            };
            carry_out::transaction(session, steps, durability)
        }
        Request::History(request) => history::execute(session, request),
        Request::Verify(request) => verify::execute(session, request),
        Request::Hash(request) => hash::execute(session, request),
        Request::Backup(request) => backup::execute(session, request),
        _ => on_path(session, request),
    }
}

fn on_path(session: &Session, request: &Request<'_>) -> Result<Response> {
    let names = Names { session };
    match *request {
        Request::Attributes { path, links } => {
            let node = resolve(session.filesystem(), &session.caller, path.0, links)?;
            Ok(Response::Attributes(node.attributes.clone()))
        }
        Request::Open { path, opening } => content::open(session, path.0, opening),
        Request::Reopen { inode, opening } => {
            content::reopen(session, filesystem::InodeId(inode), opening)
        }
        Request::OpenUnnamed { path, mode } => content::open_unnamed(session, path.0, mode),
        Request::Name { handle, path } => {
            let node = session.writable(handle)?;
            names
                .link(node.inode, path.0)
                .map(|node| Response::Attributes(node.attributes.clone()))
        }
        Request::MakeNode {
            path,
            kind,
            mode,
            rdev,
            target,
        } => {
            let node = filesystem::NewNode {
                kind,
                mode,
                rdev,
                target: target.0.to_vec(),
            };
            names
                .make(path.0, &node)
                .map(|node| Response::Attributes(node.attributes.clone()))
        }
        Request::Link { path, new_path } => {
            let node = resolve(session.filesystem(), &session.caller, path.0, Links::Stay)?;
            names
                .link(node.inode(), new_path.0)
                .map(|node| Response::Attributes(node.attributes.clone()))
        }
        Request::ReadLink { path } => {
            let node = resolve(session.filesystem(), &session.caller, path.0, Links::Stay)?;
            if node.attributes.kind != NodeKind::Symlink {
                return Err(Error::File(filesystem::Error::InvalidArgument(
                    "not a symbolic link".into(),
                )));
            }
            Ok(Response::Data(ByteBuffer(
                session.filesystem().read_link(node.inode())?,
            )))
        }
        Request::RemoveFile { path } => names.remove_file(path.0).map(|()| Response::Done),
        Request::RemoveDirectory { path } => {
            names.remove_directory(path.0).map(|()| Response::Done)
        }
        Request::RemoveTree { path } => remove_tree::remove(session, path.0),
        Request::Rename {
            path,
            new_path,
            mode,
        } => names
            .rename(path.0, new_path.0, mode)
            .map(|()| Response::Done),
        Request::SetAttributes {
            path,
            links,
            ref set,
        } => {
            let node = resolve(session.filesystem(), &session.caller, path.0, links)?;
            content::set_attributes(session, node.inode(), set)
        }
        _ => Err(Error::Protocol("a request in the wrong place")),
    }
}

fn on_handle(session: &Session, request: &Request<'_>) -> Result<Response> {
    match *request {
        Request::Close { handle } => {
            session.close(handle);
            Ok(Response::Done)
        }
        Request::HandleAttributes { handle } => {
            let attributes = session
                .filesystem()
                .attributes(session.node(handle)?.inode)?;
            Ok(Response::Attributes(attributes))
        }
        Request::SetHandleAttributes { handle, ref set } => {
            let node = if set.size.is_some() {
                session.writable(handle)?
            } else {
                session.node(handle)?
            };
            content::set_attributes(session, node.inode, set)
        }
        Request::List {
            handle,
            after,
            limit,
        } => content::list(session, handle, after, limit),
        Request::Read {
            handle,
            offset,
            len,
        } => {
            let mut data = vec![0; (len as usize).min(TRANSFER_BYTES_MAX)];
            let count = content::read(session, handle, offset, &mut data)?;
            data.truncate(count);
            Ok(Response::Data(ByteBuffer(data)))
        }
        Request::Write {
            handle,
            offset,
            data,
        } => content::write(session, handle, offset, data.0),
        Request::Append { handle, data } => content::append(session, handle, data.0),
        Request::Allocate {
            handle,
            mode,
            offset,
            len,
        } => content::allocate(session, handle, mode, offset, len),
        Request::Seek {
            handle,
            target,
            offset,
        } => {
            let inode = session.readable(handle)?;
            Ok(Response::Count(
                session.filesystem().seek(inode, offset, target)?,
            ))
        }
        Request::CopyRange {
            source,
            source_offset,
            target,
            target_offset,
            len,
        } => {
            let from = session.readable(source)?;
            let to = session.writable(target)?.inode;
            let count =
                session
                    .filesystem()
                    .copy_range(from, source_offset, to, target_offset, len)?;
            session.tell(&[Change::Content {
                inode: to,
                offset: target_offset,
                len: count,
            }]);
            Ok(Response::Count(count))
        }
        Request::SyncHandle { handle } => {
            session
                .filesystem()
                .sync_inode(session.node(handle)?.inode)?;
            Ok(Response::Done)
        }
        Request::Lock {
            handle,
            kind,
            patience,
        } => Ok(Response::Locked(session.lock(handle, kind, patience)?)),
        Request::Unlock { handle } => {
            session.unlock(handle)?;
            Ok(Response::Done)
        }
        _ => Err(Error::Protocol("a request in the wrong place")),
    }
}

fn on_xattrs(session: &Session, request: &Request<'_>) -> Result<Response> {
    let filesystem = session.filesystem();
    let caller = &session.caller;
    let node = |path: Bytes<'_>, links| resolve(filesystem, caller, path.0, links);
    match *request {
        Request::Xattr { path, links, name } => {
            let node = node(path, links)?;
            Ok(Response::Data(ByteBuffer(filesystem.xattr(
                caller,
                node.inode(),
                name.0,
            )?)))
        }
        Request::SetXattr {
            path,
            links,
            name,
            value,
            mode,
        } => {
            let node = node(path, links)?;
            filesystem.set_xattr(caller, node.inode(), name.0, value.0, mode)?;
            session.tell(&[Change::Attributes {
                inode: node.inode(),
            }]);
            Ok(Response::Done)
        }
        Request::RemoveXattr { path, links, name } => {
            let node = node(path, links)?;
            filesystem.remove_xattr(caller, node.inode(), name.0)?;
            session.tell(&[Change::Attributes {
                inode: node.inode(),
            }]);
            Ok(Response::Done)
        }
        Request::Xattrs { path, links } => {
            let node = node(path, links)?;
            let names = filesystem.xattrs(caller, node.inode())?;
            if names.iter().map(Vec::len).sum::<usize>() > NAMES_BYTES_MAX {
                return Err(Error::File(filesystem::Error::ValueTooLarge));
            }
            Ok(Response::Names(names.into_iter().map(ByteBuffer).collect()))
        }
        _ => Err(Error::Protocol("a request in the wrong place")),
    }
}

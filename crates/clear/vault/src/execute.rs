//! Carries out one request: the same way for the process that owns the vault and for its clients.
//!
//! Takes   a session (what one user of the vault holds open, see `execute/session.rs`) and a request
//! Gives   a response; before it, every observer of the vault was notified of every change
//! Never   gives a response that is longer than a frame, which is one message on the owner's socket

mod ancestry;
mod arrived;
pub(crate) mod backup;
mod came;
pub(crate) mod carry_out;
pub(crate) mod content;
mod copied;
mod deposits;
mod device_names;
mod evict;
pub(crate) mod hash;
pub(crate) mod history;
mod join;
mod let_go;
mod limit_looks;
mod locks;
pub(crate) mod namespace;
mod pin;
mod publish;
pub(crate) mod published;
mod push_turn;
pub(crate) mod remote;
mod remote_status;
mod remove_tree;
pub(crate) mod restore;
pub(crate) mod rotation;
pub(crate) mod session;
pub(crate) mod standing;
pub(crate) mod verify;
pub(crate) mod verify_state;
mod waiting;
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
        Request::Whole(request) => whole::execute(session, request),
        Request::MakeWay => Ok(session.vault.make_way(session).into()),
        Request::Transaction { steps, durable } => {
            let durability = match durable {
                true => Durability::OnReturn,
                false => Durability::WriteBehind,
            };
            Ok(carry_out::transaction(session, steps, durability)?.into())
        }
        Request::History(request) => history::execute(session, request),
        Request::Verify(request) => verify::execute(session, request),
        Request::Hash(request) => hash::execute(session, request),
        Request::Backup(request) => backup::execute(session, request),
        Request::Remote(request) => remote::execute(session, request),
        _ => on_handle(session, request),
    }
}

fn on_path(session: &Session, request: &Request<'_>) -> Result<Response> {
    let names = Names { session };
    let node =
        |path: Bytes<'_>, links| resolve(session.filesystem(), &session.caller, path.0, links);
    Ok(match *request {
        Request::Attributes { path, links } => node(path, links)?.attributes.clone().into(),
        Request::Open { path, opening } => content::open(session, path.0, opening)?.into(),
        Request::Reopen { inode, opening } => {
            content::reopen(session, filesystem::InodeId(inode), opening)?.into()
        }
        Request::OpenUnnamed { path, mode } => content::open_unnamed(session, path.0, mode)?.into(),
        Request::Name { handle, path } => {
            let inode = session.writable(handle)?.inode;
            names.link(inode, path.0)?.attributes.clone().into()
        }
        Request::MakeNode {
            path,
            kind,
            mode,
            rdev,
            target,
        } => {
            let new = filesystem::NewNode {
                kind,
                mode,
                rdev,
                target: target.0.to_vec(),
            };
            names.make(path.0, &new)?.attributes.clone().into()
        }
        Request::Link { path, new_path } => {
            let node = node(path, Links::Stay)?;
            let linked = names.link(node.inode(), new_path.0)?;
            linked.attributes.clone().into()
        }
        Request::ReadLink { path } => {
            let node = node(path, Links::Stay)?;
            if node.attributes.kind != NodeKind::Symlink {
                return Err(Error::File(filesystem::Error::InvalidArgument(
                    "not a symbolic link".into(),
                )));
            }
            ByteBuffer(session.filesystem().read_link(node.inode())?).into()
        }
        Request::RemoveFile { path } => names.remove_file(path.0)?.into(),
        Request::RemoveDirectory { path } => names.remove_directory(path.0)?.into(),
        Request::RemoveTree { path } => remove_tree::remove(session, path.0)?.into(),
        Request::Rename {
            path,
            new_path,
            mode,
        } => names.rename(path.0, new_path.0, mode)?.into(),
        Request::SetAttributes {
            path,
            links,
            ref set,
        } => content::set_attributes(session, node(path, links)?.inode(), set)?.into(),
        _ => return Err(Error::Protocol("an unknown request")),
    })
}

fn on_handle(session: &Session, request: &Request<'_>) -> Result<Response> {
    let filesystem = session.filesystem();
    Ok(match *request {
        Request::Close { handle } => {
            session.close(handle);
            ().into()
        }
        Request::HandleAttributes { handle } => {
            filesystem.attributes(session.node(handle)?.inode)?.into()
        }
        Request::SetHandleAttributes { handle, ref set } => {
            let node = if set.size.is_some() {
                session.writable(handle)?
            } else {
                session.node(handle)?
            };
            content::set_attributes(session, node.inode, set)?.into()
        }
        Request::List {
            handle,
            after,
            limit,
        } => content::list(session, handle, after, limit)?.into(),
        Request::Read {
            handle,
            offset,
            len,
        } => {
            let mut data = vec![0; (len as usize).min(TRANSFER_BYTES_MAX)];
            let count = content::read(session, handle, offset, &mut data)?;
            data.truncate(count);
            ByteBuffer(data).into()
        }
        Request::Write {
            handle,
            offset,
            data,
        } => content::write(session, handle, offset, data.0)?.into(),
        Request::Append { handle, data } => content::append(session, handle, data.0)?.into(),
        Request::Allocate {
            handle,
            mode,
            offset,
            len,
        } => content::allocate(session, handle, mode, offset, len)?.into(),
        Request::Seek {
            handle,
            target,
            offset,
        } => {
            let inode = session.readable(handle)?;
            filesystem.seek(inode, offset, target)?.into()
        }
        Request::CopyRange {
            source,
            source_offset,
            target,
            target_offset,
            len,
        } => {
            let (from, to) = ((source, source_offset), (target, target_offset));
            content::copy_range(session, from, to, len)?.into()
        }
        Request::SyncHandle { handle } => {
            filesystem.sync_inode(session.node(handle)?.inode)?.into()
        }
        Request::Lock {
            handle,
            kind,
            patience,
        } => session.lock(handle, kind, patience)?.into(),
        Request::Unlock { handle } => session.unlock(handle)?.into(),
        _ => return on_xattrs(session, request),
    })
}

fn on_xattrs(session: &Session, request: &Request<'_>) -> Result<Response> {
    let filesystem = session.filesystem();
    let caller = &session.caller;
    let node = |path: Bytes<'_>, links| resolve(filesystem, caller, path.0, links);
    let changed = |inode| session.tell(&[Change::Attributes { inode }]);
    Ok(match *request {
        Request::Xattr { path, links, name } => {
            let node = node(path, links)?;
            ByteBuffer(filesystem.xattr(caller, node.inode(), name.0)?).into()
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
            let _: () = changed(node.inode());
            ().into()
        }
        Request::RemoveXattr { path, links, name } => {
            let node = node(path, links)?;
            filesystem.remove_xattr(caller, node.inode(), name.0)?;
            let _: () = changed(node.inode());
            ().into()
        }
        Request::Xattrs { path, links } => {
            let node = node(path, links)?;
            let names = filesystem.xattrs(caller, node.inode())?;
            if names.iter().map(Vec::len).sum::<usize>() > NAMES_BYTES_MAX {
                return Err(Error::File(filesystem::Error::ValueTooLarge));
            }
            names.into_iter().map(ByteBuffer).collect::<Vec<_>>().into()
        }
        _ => return on_path(session, request),
    })
}

//! Removes a directory and everything below it, a bounded part per request.
//!
//! Takes   a path
//! Gives   whether everything is removed; a notice of each change to the observers
//! Never   looks up paths below the directory: if somebody replaces a node there meanwhile, the new node is not followed

use strongroom_filesystem::{self as filesystem, InodeId, Listing, NodeKind};

use crate::execute::session::Session;
use crate::limits::{REMOVE_NODES_MAX, REMOVE_PAGE};
use crate::observer::Change;
use crate::path::{HeldNode, Links, resolve_place};
use crate::{Error, Result};

/// A directory on the way down, held so that its number stays its own.
struct Level {
    parent: InodeId,
    name: Vec<u8>,
    node: HeldNode,
}

/// Removes a part of the tree at `path`, or all of it; gives whether nothing is left.
pub(crate) fn remove(session: &Session, path: &[u8]) -> Result<bool> {
    let filesystem = session.filesystem();
    let mut place = resolve_place(filesystem, &session.caller, path, Links::Stay)?;
    let node = place.node.take();
    let node = node.ok_or(Error::File(filesystem::Error::NotFound))?;
    if node.attributes.kind != NodeKind::Directory {
        return Err(Error::File(filesystem::Error::NotADirectory));
    }
    let mut levels = vec![Level {
        parent: place.parent.inode(),
        name: place.name.clone(),
        node,
    }];
    let mut left = REMOVE_NODES_MAX;
    while let Some(level) = levels.last() {
        if left == 0 {
            return Ok(false);
        }
        match remove_inside(session, level.node.inode(), &mut left)? {
            Inside::Directory(below) => levels.push(below),
            Inside::Empty => {
                left -= 1;
                if remove_emptied(session, level)? {
                    levels.pop();
                }
            }
            Inside::More => {}
        }
    }
    Ok(true)
}

/// What is left in a directory.
enum Inside {
    Empty,
    More,
    /// One that must be emptied first.
    Directory(Level),
}

/// Removes names of `directory` up to the first directory in it.
fn remove_inside(session: &Session, directory: InodeId, left: &mut usize) -> Result<Inside> {
    let (filesystem, caller) = (session.filesystem(), &session.caller);
    let listing = Listing::WithReferences;
    let entries = filesystem.list(caller, directory, 0, REMOVE_PAGE, listing)?;
    if entries.is_empty() {
        return Ok(Inside::Empty);
    }
    // All of them held from the start, so that each reference is given back on every way out.
    let held: Vec<(Vec<u8>, Option<HeldNode>)> = entries
        .into_iter()
        .map(|entry| {
            let node = entry.attributes;
            (
                entry.name,
                node.map(|node| HeldNode::take(filesystem, node)),
            )
        })
        .collect();
    for (name, node) in held {
        if *left == 0 {
            break;
        }
        let inode = node.as_ref().map(HeldNode::inode);
        if let Some(node) = node
            && node.attributes.kind == NodeKind::Directory
        {
            return Ok(Inside::Directory(Level {
                parent: directory,
                name,
                node,
            }));
        }
        *left -= 1;
        match filesystem.unlink(caller, directory, &name) {
            // Its other names show one link less.
            Ok(()) => tell(session, directory, name, inode),
            // Somebody removed it, or put a directory there, which the next look finds.
            Err(filesystem::Error::NotFound | filesystem::Error::IsADirectory) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Inside::More)
}

/// Gives false if somebody put something into it meanwhile.
fn remove_emptied(session: &Session, level: &Level) -> Result<bool> {
    let (filesystem, caller) = (session.filesystem(), &session.caller);
    match filesystem.remove_directory(caller, level.parent, &level.name) {
        Ok(()) => {
            let inode = level.node.inode();
            tell(session, level.parent, level.name.clone(), Some(inode));
            Ok(true)
        }
        Err(filesystem::Error::NotEmpty) => Ok(false),
        // Somebody removed it or moved it away.
        Err(filesystem::Error::NotFound | filesystem::Error::NotADirectory) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn tell(session: &Session, parent: InodeId, name: Vec<u8>, node: Option<InodeId>) {
    let mut changes = vec![
        Change::Entry { parent, name },
        Change::Attributes { inode: parent },
    ];
    changes.extend(node.map(|inode| Change::Attributes { inode }));
    session.tell(&changes);
}

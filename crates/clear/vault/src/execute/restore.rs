//! Restores files and directories from a snapshot.
//!
//! Takes   a snapshot, a path in it, and a target
//! Gives   the same nodes, created beside their target and moved into place in one step; erased files are left out and reported
//! Never   copies content, or removes the old nodes before the new ones are whole
//! Spec    spec/6-history.md, section 6.8
//!
//! Invariants
//!  (1) Restored nodes are created under a temporary name, and take their place by one rename. The nodes that were there before are
//!      removed afterwards.

use std::collections::HashMap;

use strongroom_filesystem::{
    self as filesystem, Attributes, Filesystem, HISTORY_NAME, InodeId, Listing, NewNode, NodeKind,
    RenameMode, SetAttributes, SetTime, XattrMode,
};
use strongroom_history::RevisionId;

use crate::execute::namespace::Names;
use crate::execute::session::Session;
use crate::limits::{LIST_ENTRIES_MAX, VERIFY_LINES_MAX, VERIFY_PAGE_BYTES};
use crate::observer::Change;
use crate::path::{HeldNode, Links, resolve};
use crate::request::history::Restored;
use crate::{Error, Result};

/// What names begin with under which things are brought back, until they are whole.
const UNFINISHED: &str = ".strongroom-restore-";

/// How deep directories may lie below one another, so that the descent fits a thread's stack.
const DEPTH_MAX: usize = 2048;

/// Brings back `path` of the revision to `to`; gives how many nodes it was, and what was left out.
pub(crate) fn restore(
    session: &Session,
    revision: &RevisionId,
    path: &[u8],
    to: &[u8],
) -> Result<Restored> {
    let id = revision.to_string();
    let source = [b"/", HISTORY_NAME, b"/", id.as_bytes(), b"/", path].concat();
    let from = resolve(session.filesystem(), &session.caller, &source, Links::Stay)?;
    let mut names = to
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty());
    let first = names.next();
    if first == Some(HISTORY_NAME) {
        return Err(Error::File(filesystem::Error::InSnapshot));
    }
    let mut restorer = Restorer {
        session,
        links: HashMap::new(),
        at: Vec::new(),
        restored: Restored::default(),
        erased_bytes: 0,
    };
    for name in path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
    {
        restorer.enter(name);
    }
    let done = match first {
        None => restorer.root(&from.attributes),
        Some(_) => restorer.replace(&from.attributes, to),
    };
    for node in restorer.links.into_values() {
        session.filesystem().forget(node, 1);
    }
    done.map(|()| restorer.restored)
}

struct Restorer<'s> {
    session: &'s Session,
    /// Nodes with several names that were made already, by their kept numbers; each holds a reference.
    links: HashMap<InodeId, InodeId>,
    /// The path in the snapshot of what is brought back now.
    at: Vec<u8>,
    restored: Restored,
    /// Bytes of the paths that are told.
    erased_bytes: usize,
}

impl<'s> Restorer<'s> {
    fn filesystem(&self) -> &'s Filesystem {
        self.session.filesystem()
    }

    /// Goes down to `name`; gives what `leave` needs to come up again.
    fn enter(&mut self, name: &[u8]) -> usize {
        let len = self.at.len();
        self.at.push(b'/');
        self.at.extend_from_slice(name);
        len
    }

    fn leave(&mut self, len: usize) {
        self.at.truncate(len);
    }

    /// Notes what is at hand as left out, if it was erased; passes every other error on.
    fn leave_out(&mut self, error: Error) -> Result<()> {
        let Error::File(filesystem::Error::Erased { when, .. }) = error else {
            return Err(error);
        };
        let bytes = self.erased_bytes + self.at.len();
        if self.restored.erased.len() >= VERIFY_LINES_MAX || bytes > VERIFY_PAGE_BYTES {
            self.restored.erased_more += 1;
        } else {
            self.erased_bytes = bytes;
            self.restored.erased.push((self.at.clone(), when));
        }
        Ok(())
    }

    /// (1)
    fn replace(&mut self, from: &Attributes, to: &[u8]) -> Result<()> {
        let len = to
            .iter()
            .rposition(|byte| *byte != b'/')
            .map_or(0, |last| last + 1);
        let trimmed = &to[..len];
        let cut = trimmed
            .iter()
            .rposition(|byte| *byte == b'/')
            .ok_or(Error::File(filesystem::Error::InvalidName))?;
        let parent = if cut == 0 { &b"/"[..] } else { &trimmed[..cut] };
        let parent = resolve(
            self.filesystem(),
            &self.session.caller,
            parent,
            Links::Follow,
        )?;
        let unfinished = self.unfinished_name(parent.inode())?;
        let beside = [&trimmed[..cut], b"/", &unfinished].concat();
        let made = self
            .node(from, parent.inode(), &unfinished, 0)
            .and_then(|()| self.put_in_place(&beside, trimmed));
        // What was replaced, or what there is of something that failed: should it stay, its name says what it is.
        let removed = self.remove(parent.inode(), &unfinished, 0);
        made.and(removed)
    }

    fn put_in_place(&self, made: &[u8], to: &[u8]) -> Result<()> {
        let names = Names {
            session: self.session,
        };
        match names.rename(made, to, RenameMode::Exchange) {
            Err(Error::File(filesystem::Error::NotFound)) => {
                names.rename(made, to, RenameMode::NoReplace)
            }
            result => result,
        }
    }

    /// The root directory stays; each of its names is brought back, and names that it did not have go.
    fn root(&mut self, from: &Attributes) -> Result<()> {
        if from.kind != NodeKind::Directory {
            return Err(Error::File(filesystem::Error::NotADirectory));
        }
        let kept = self.names_in(from.inode)?;
        for name in &kept {
            let child = self.lookup(from.inode, name)?;
            let len = self.enter(name);
            self.replace(&child.attributes, &[b"/", &name[..]].concat())
                .or_else(|error| self.leave_out(error))?;
            self.leave(len);
        }
        for name in self.names_in(InodeId::ROOT)? {
            if !kept.contains(&name) {
                self.remove(InodeId::ROOT, &name, 0)?;
            }
        }
        self.attributes_of(from, InodeId::ROOT)?;
        self.session.tell(&[Change::Attributes {
            inode: InodeId::ROOT,
        }]);
        Ok(())
    }

    fn lookup(&self, parent: InodeId, name: &[u8]) -> Result<HeldNode> {
        let found = self
            .filesystem()
            .lookup(&self.session.caller, parent, name)?;
        Ok(HeldNode::take(self.filesystem(), found))
    }

    fn unfinished_name(&self, parent: InodeId) -> Result<Vec<u8>> {
        for number in 0..1_000 {
            let name = format!("{UNFINISHED}{number}").into_bytes();
            match self.lookup(parent, &name) {
                Err(Error::File(filesystem::Error::NotFound)) => return Ok(name),
                found => drop(found?),
            }
        }
        Err(Error::File(filesystem::Error::Exists))
    }

    fn names_in(&self, directory: InodeId) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        let mut after = 0;
        loop {
            let page = self.filesystem().list(
                &self.session.caller,
                directory,
                after,
                LIST_ENTRIES_MAX as usize,
                Listing::Names,
            )?;
            let Some(last) = page.last() else {
                return Ok(names);
            };
            after = last.cookie;
            names.extend(page.into_iter().map(|entry| entry.name));
        }
    }

    /// Makes the node `from` again as `name` in `parent`, with all below it.
    fn node(
        &mut self,
        from: &Attributes,
        parent: InodeId,
        name: &[u8],
        depth: usize,
    ) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Error::File(filesystem::Error::InvalidArgument(
                "directories nested too deep".into(),
            )));
        }
        let (filesystem, caller) = (self.filesystem(), &self.session.caller);
        if let Some(made) = self.links.get(&from.inode) {
            let linked = filesystem.link(caller, *made, parent, name)?;
            filesystem.forget(linked.inode, 1);
            return Ok(());
        }
        let target = match from.kind {
            NodeKind::Symlink => filesystem.read_link(from.inode)?,
            _ => Vec::new(),
        };
        let new = NewNode {
            kind: from.kind,
            mode: from.mode,
            rdev: from.rdev,
            target,
        };
        let made = filesystem.create(caller, parent, name, &new)?;
        let made = HeldNode::take(filesystem, made);
        match from.kind {
            NodeKind::File => match self.content(from, made.inode()) {
                // What was asked for by its name is an error; below a directory the rest is brought back.
                Err(error) if depth > 0 => {
                    self.leave_out(error)?;
                    return Ok(filesystem.unlink(caller, parent, name)?);
                }
                content => content?,
            },
            NodeKind::Directory => {
                for child in self.names_in(from.inode)? {
                    let entry = self.lookup(from.inode, &child)?;
                    let len = self.enter(&child);
                    self.node(&entry.attributes, made.inode(), &child, depth + 1)?;
                    self.leave(len);
                }
            }
            _ => {}
        }
        self.restored.nodes += 1;
        self.attributes_of(from, made.inode())?;
        if from.kind != NodeKind::Directory && from.nlink > 1 {
            self.links.insert(from.inode, made.keep().inode);
        }
        Ok(())
    }

    /// The content, by sharing its blocks; holes stay holes.
    fn content(&self, from: &Attributes, to: InodeId) -> Result<()> {
        let mut done = 0;
        while done < from.size {
            let left = from.size - done;
            match self
                .filesystem()
                .copy_range(from.inode, done, to, done, left)?
            {
                0 => return Err(Error::File(filesystem::Error::DamagedHistory)),
                copied => done += copied,
            }
        }
        Ok(())
    }

    /// Extended attributes, owner, mode and times.
    fn attributes_of(&self, from: &Attributes, to: InodeId) -> Result<()> {
        let (filesystem, caller) = (self.filesystem(), &self.session.caller);
        let kept = filesystem.xattrs(caller, from.inode)?;
        for name in filesystem.xattrs(caller, to)? {
            if !kept.contains(&name) {
                filesystem.remove_xattr(caller, to, &name)?;
            }
        }
        let owner = SetAttributes {
            uid: Some(from.uid),
            gid: Some(from.gid),
            ..SetAttributes::default()
        };
        // Before the rest: a change of owner takes privileges away.
        filesystem.set_attributes(caller, to, &owner)?;
        for name in kept {
            let value = filesystem.xattr(caller, from.inode, &name)?;
            filesystem.set_xattr(caller, to, &name, &value, XattrMode::Set)?;
        }
        let set = SetAttributes {
            mode: (from.kind != NodeKind::Symlink).then_some(from.mode),
            atime: Some(SetTime::At(from.atime)),
            mtime: Some(SetTime::At(from.mtime)),
            ..SetAttributes::default()
        };
        filesystem.set_attributes(caller, to, &set)?;
        Ok(())
    }

    /// Removes `name` in `parent` with all below it, if it is there.
    fn remove(&self, parent: InodeId, name: &[u8], depth: usize) -> Result<()> {
        let (filesystem, caller) = (self.filesystem(), &self.session.caller);
        let found = match self.lookup(parent, name) {
            Err(Error::File(filesystem::Error::NotFound)) => return Ok(()),
            found => found?,
        };
        if found.attributes.kind != NodeKind::Directory || depth > DEPTH_MAX {
            filesystem.unlink(caller, parent, name)?;
        } else {
            for child in self.names_in(found.inode())? {
                self.remove(found.inode(), &child, depth + 1)?;
            }
            filesystem.remove_directory(caller, parent, name)?;
        }
        self.session.tell(&[
            Change::Entry {
                parent,
                name: name.to_vec(),
            },
            Change::Attributes { inode: parent },
            Change::Attributes {
                inode: found.inode(),
            },
        ]);
        Ok(())
    }
}

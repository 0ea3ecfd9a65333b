//! Restores files and directories from a snapshot.
//!
//! Takes   a snapshot, a path in it, and a target
//! Gives   the same nodes, created beside their target and moved into place in one step; erased files are left out and reported
//! Never   copies content, or removes the old nodes too early: the new nodes must be whole, and a snapshot must have the old
//!         nodes if the caller wants one
//! Spec    spec/6-history.md, section 6.8
//!
//! Invariants
//!  (1) Restored nodes are created under a temporary name, and take their place by one rename. The nodes that were there before are
//!      removed afterwards.
//!  (2) If the caller wants a snapshot of what is replaced (a `Precaution`), that snapshot has everything that is
//!      removed, as it was when it was replaced.

use std::collections::HashMap;

use strongroom_filesystem::{
    self as filesystem, Attributes, Filesystem, HISTORY_NAME, InodeId, Listing, NewNode, NodeKind,
    RenameMode, SetAttributes, SetTime, Taken, XattrMode,
};
use strongroom_history::{ERASURES, NewRevision, RevisionId, SHARED_RETENTION};

use crate::device_name::device_of;
use crate::execute::namespace::Names;
use crate::execute::session::Session;
use crate::inbox_state::{INBOX_STATE, InboxState};
use crate::limits::{LIST_ENTRIES_MAX, VERIFY_LINES_MAX, VERIFY_PAGE_BYTES};
use crate::observer::Change;
use crate::path::{HeldNode, Links, resolve};
use crate::request::history::Restored;
use crate::{Error, Result};

/// What names begin with under which things are brought back, until they are whole.
const UNFINISHED: &str = ".strongroom-restore-";

/// How deep directories may lie below one another, so that the descent fits a thread's stack.
const DEPTH_MAX: usize = 2048;

/// Brings back `path` of the revision to `to`; gives how many nodes it was, and what was left out. `message`: of the snapshot that
/// keeps what goes and is in none.
pub(crate) fn restore(
    session: &Session,
    revision: &RevisionId,
    path: &[u8],
    to: &[u8],
    message: Option<&str>,
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
    let precaution = match message {
        None => None,
        Some(message) => {
            let filesystem = session.filesystem();
            let newest = filesystem.heads()?.into_iter().next();
            Some(Precaution {
                message,
                stays: newest
                    .as_ref()
                    .is_some_and(|newest| !filesystem.may_pass(newest)),
                newest: newest.map(|newest| newest.id),
            })
        }
    };
    let mut restorer = Restorer {
        session,
        precaution,
        replaced: Vec::new(),
        number: 0,
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
        Some(first) => {
            let last = names.next_back().unwrap_or(first).to_vec();
            restorer
                .replace(&from.attributes, to, &[last])
                .and(restorer.remove_replaced())
        }
    };
    for node in restorer.links.into_values() {
        session.filesystem().forget(node, 1);
    }
    done.map(|()| restorer.restored)
}

/// Nothing goes that is in no snapshot.
struct Precaution<'m> {
    /// What the next snapshot says, if one has to be taken.
    message: &'m str,
    /// The newest snapshot when the restore began.
    newest: Option<[u8; 32]>,
    /// Whether that one was not taken only to be read: such a one goes with its last reader.
    stays: bool,
}

/// What lost its place.
struct Replaced {
    parent: HeldNode,
    /// Its name there now.
    name: Vec<u8>,
    /// The path that it had, and the one that it has now.
    paths: (Vec<u8>, Vec<u8>),
}

/// What `put_in_place` found at the target.
enum Displaced {
    /// The name was free: nothing is under the unfinished name now.
    Nothing,
    /// It has the unfinished name now.
    Node,
}

struct Restorer<'s> {
    session: &'s Session,
    precaution: Option<Precaution<'s>>,
    /// What is removed at the end.
    replaced: Vec<Replaced>,
    /// Of the next unfinished name.
    number: usize,
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

    /// (1) `coming`: the names in the same directory that this restore brings back.
    fn replace(&mut self, from: &Attributes, to: &[u8], coming: &[Vec<u8>]) -> Result<()> {
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
        let (unfinished, built) = loop {
            let unfinished = self.unfinished_name(parent.inode(), coming)?;
            match self.node(from, parent.inode(), &unfinished, 0) {
                // Another restore was faster: what has that name now is not this one's.
                Err(Error::File(filesystem::Error::Exists)) => {}
                built => break (unfinished, built),
            }
        };
        let beside = [&trimmed[..cut], b"/", &unfinished].concat();
        let made = built.and_then(|()| self.put_in_place(&beside, trimmed));
        match made {
            Ok(Displaced::Nothing) => {}
            Ok(Displaced::Node) => self.replaced.push(Replaced {
                parent,
                name: unfinished,
                paths: (trimmed.to_vec(), beside),
            }),
            Err(error) => {
                // What there is of it: should it stay, its name says what it is.
                let _ = self.remove(parent.inode(), &unfinished, 0);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes what was replaced.
    fn remove_replaced(&mut self) -> Result<()> {
        // Without a snapshot it stays, under a name that says what it is.
        self.keep_changed()?;
        let mut removed = Ok(());
        for one in &self.replaced {
            removed = removed.and(self.remove(one.parent.inode(), &one.name, 0));
        }
        removed
    }

    /// Takes a snapshot if anything was changed before it lost its place, since the newest was taken. (2)
    fn keep_changed(&mut self) -> Result<()> {
        let Some(precaution) = &self.precaution else {
            return Ok(());
        };
        let mut places = Vec::new();
        for one in &self.replaced {
            match self.lookup(one.parent.inode(), &one.name) {
                // Somebody else removed it.
                Err(Error::File(filesystem::Error::NotFound)) => {}
                found => {
                    drop(found?);
                    places.push(one.paths.clone());
                }
            }
        }
        let is_kept = match precaution.newest {
            _ if places.is_empty() => true,
            Some(newest) if precaution.stays => self.filesystem().has_all(&newest, &places)?,
            _ => false,
        };
        if !is_kept {
            let new = NewRevision {
                message: precaution.message.to_owned(),
                only_if_changed: true,
                ..NewRevision::default()
            };
            let records = &self.session.vault.records;
            self.restored.snapshot_meanwhile = match records.take(self.filesystem(), &new)? {
                Taken::New(revision) => Some(revision.id),
                // Somebody else took it.
                Taken::Unchanged => {
                    let heads = self.filesystem().heads()?;
                    heads.first().map(|head| RevisionId(head.id))
                }
            };
        }
        Ok(())
    }

    fn put_in_place(&self, made: &[u8], to: &[u8]) -> Result<Displaced> {
        let names = Names {
            session: self.session,
        };
        match names.rename(made, to, RenameMode::Exchange) {
            Err(Error::File(filesystem::Error::NotFound)) => names
                .rename(made, to, RenameMode::NoReplace)
                .map(|()| Displaced::Nothing),
            result => result.map(|()| Displaced::Node),
        }
    }

    /// The root directory stays; each of its names is brought back, and names that it did not have go.
    fn root(&mut self, from: &Attributes) -> Result<()> {
        if from.kind != NodeKind::Directory {
            return Err(Error::File(filesystem::Error::NotADirectory));
        }
        self.root_names(from).and(self.remove_replaced())?;
        let set = self.attributes_of(from, InodeId::ROOT);
        self.session.tell(&[Change::Attributes {
            inode: InodeId::ROOT,
        }]);
        set
    }

    /// Names that come to the root directory meanwhile stay.
    fn root_names(&mut self, from: &Attributes) -> Result<()> {
        let there = self.names_before()?;
        let kept = self.names_in(from.inode)?;
        for name in &kept {
            let child = self.lookup(from.inode, name)?;
            let len = self.enter(name);
            self.replace(&child.attributes, &[b"/", &name[..]].concat(), &kept)
                .or_else(|error| self.leave_out(error))?;
            self.leave(len);
        }
        for name in there {
            if !kept.contains(&name) {
                self.put_aside(&name, &kept)?;
            }
        }
        Ok(())
    }

    /// The names that the root directory had before this: with a precaution those that a snapshot has, so that no other goes.
    fn names_before(&self) -> Result<Vec<Vec<u8>>> {
        let precaution = self.precaution.as_ref();
        let Some(newest) = precaution.and_then(|precaution| precaution.newest) else {
            return self.names_in(InodeId::ROOT);
        };
        let id = RevisionId(newest).to_string();
        let path = [b"/", HISTORY_NAME, b"/", id.as_bytes()].concat();
        let root = resolve(
            self.filesystem(),
            &self.session.caller,
            &path,
            Links::Follow,
        )?;
        self.names_in(root.inode())
    }

    /// Takes `name` of the root directory from its place, if it is there.
    fn put_aside(&mut self, name: &[u8], coming: &[Vec<u8>]) -> Result<()> {
        let parent = resolve(self.filesystem(), &self.session.caller, b"/", Links::Follow)?;
        let aside = self.unfinished_name(parent.inode(), coming)?;
        let paths = ([b"/", name].concat(), [b"/", &aside[..]].concat());
        let names = Names {
            session: self.session,
        };
        match names.rename(&paths.0, &paths.1, RenameMode::NoReplace) {
            // Somebody else removed it.
            Err(Error::File(filesystem::Error::NotFound)) => return Ok(()),
            renamed => renamed?,
        }
        self.replaced.push(Replaced {
            parent,
            name: aside,
            paths,
        });
        Ok(())
    }

    fn lookup(&self, parent: InodeId, name: &[u8]) -> Result<HeldNode> {
        let found = self
            .filesystem()
            .lookup(&self.session.caller, parent, name)?;
        Ok(HeldNode::take(self.filesystem(), found))
    }

    /// A free name in `parent` that is none of `coming`: a snapshot may have such names. Each is looked for behind the one before.
    fn unfinished_name(&mut self, parent: InodeId, coming: &[Vec<u8>]) -> Result<Vec<u8>> {
        for _ in 0..coming.len() + 1_000 {
            let name = format!("{UNFINISHED}{}", self.number).into_bytes();
            self.number += 1;
            if coming.contains(&name) {
                continue;
            }
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
            self.told(parent, name, linked.inode);
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
                    filesystem.unlink(caller, parent, name)?;
                    self.told(parent, name, made.inode());
                    return Ok(());
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
        self.told(parent, name, made.inode());
        if from.kind != NodeKind::Directory && from.nlink > 1 {
            self.links.insert(from.inode, made.keep().inode);
        }
        Ok(())
    }

    /// Tells who watches what became of a name and its node. Under the unfinished name others can look at it before it is whole, and a
    /// mount keeps what it saw then.
    fn told(&self, parent: InodeId, name: &[u8], inode: InodeId) {
        self.session.tell(&[
            Change::Entry {
                parent,
                name: name.to_vec(),
            },
            Change::Content {
                inode,
                offset: 0,
                len: u64::MAX,
            },
        ]);
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

    /// Whether the vault says of its inbox what can be read. It goes back to no earlier state: an address that was removed since would be
    /// in use again, one that was made since would never be withdrawn, and what was taken in would come again.         [12.6.8]
    fn has_inbox_state(&self) -> Result<bool> {
        let found = self
            .filesystem()
            .xattr(&self.session.caller, InodeId::ROOT, INBOX_STATE);
        match found {
            Err(filesystem::Error::NoAttribute) => Ok(false),
            value => Ok(InboxState::decode(&value?).is_ok()),
        }
    }

    /// Extended attributes, owner, mode and times.
    fn attributes_of(&self, from: &Attributes, to: InodeId) -> Result<()> {
        let (filesystem, caller) = (self.filesystem(), &self.session.caller);
        let mut kept = filesystem.xattrs(caller, from.inode)?;
        let inbox_stays = to == InodeId::ROOT && self.has_inbox_state()?;
        // No restore takes back that something was erased, a rule, or what a device is called.    [6.10.6] [6.11.7] [1.12.4]
        let stays = |name: &[u8]| {
            let is_lasting =
                name == ERASURES || name == SHARED_RETENTION || device_of(name).is_some();
            inbox_stays && name == INBOX_STATE || to == InodeId::ROOT && is_lasting
        };
        kept.retain(|name| !stays(name));
        for name in filesystem.xattrs(caller, to)? {
            if !stays(&name) && !kept.contains(&name) {
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

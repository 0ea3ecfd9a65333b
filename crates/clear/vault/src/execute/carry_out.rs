//! Carries out the steps of a transaction, on a draft of the file system.
//!
//! Takes   a session and steps
//! Gives   all of them done, and a notice to the observers; or nothing done, and which step failed
//! Never   uses the file system itself while the draft is open: that would be a deadlock
//!
//! Each step follows the same rules as the request of its name (`namespace.rs`, `content.rs`).

use std::collections::BTreeSet;

use strongroom_filesystem::{
    self as filesystem, Attributes, Content, Draft, Durability, InodeId, NewNode, NodeKind,
    RenameMode, SetAttributes,
};

use crate::execute::session::Session;
use crate::limits::TRANSACTION_CONTENT_BYTES_MAX;
use crate::observer::Change;
use crate::path::{Links, Place, Tree, resolve_in, resolve_place_in, wants_directory};
use crate::request::Handle;
use crate::request::steps::{Step, Steps};
use crate::{Error, Result};

/// Carries out `steps`, all or none.
pub(crate) fn transaction(
    session: &Session,
    steps: &Steps<'_>,
    durability: Durability,
) -> Result<()> {
    steps.check_bounds()?;
    let contents = contents(&steps.0);
    let mut told = Told::default();
    let filesystem = session.filesystem();
    let result = filesystem.transaction(&session.caller, &contents, durability, |draft| {
        told = Told::default();
        let mut run = Run {
            session,
            draft,
            told: &mut told,
            contents: 0,
            shared: 0,
        };
        for (index, step) in steps.0.iter().enumerate() {
            let failed = |error| Error::Operation {
                index,
                error: Box::new(error),
            };
            run.step(step).map_err(failed)?;
        }
        Ok::<(), Error>(())
    });
    // Whatever else failed may have failed after it happened; to hear of nothing new does no harm.
    if !matches!(result, Err(Error::Operation { .. })) {
        session.tell(&told.into_changes());
    }
    result
}

/// What the steps write, in their order.
fn contents(steps: &[Step<'_>]) -> Vec<Content> {
    let content = |offset, data: &[u8]| Content {
        offset,
        data: data.into(),
    };
    let written = steps.iter().filter_map(|step| match step {
        Step::WriteFile { content: data, .. } => Some(content(0, data.0)),
        Step::WriteAt { offset, data, .. } => Some(content(*offset, data.0)),
        _ => None,
    });
    written.collect()
}

/// What others must hear of.
#[derive(Default)]
struct Told {
    changes: Vec<Change>,
    /// Once for each node, however many steps touched it.
    attributes: BTreeSet<InodeId>,
}

impl Told {
    fn entry(&mut self, place: &Place<Found>) {
        self.changes.push(Change::Entry {
            parent: place.parent.0.inode,
            name: place.name.clone(),
        });
        self.attributes.insert(place.parent.0.inode);
    }

    fn node(&mut self, node: Option<&Found>) {
        self.attributes.extend(node.map(|node| node.0.inode));
    }

    fn content(&mut self, inode: InodeId, offset: u64, len: u64) {
        self.changes.push(Change::Content { inode, offset, len });
    }

    fn into_changes(mut self) -> Vec<Change> {
        let attributes = self.attributes.into_iter();
        let attributes = attributes.map(|inode| Change::Attributes { inode });
        self.changes.extend(attributes);
        self.changes
    }
}

/// A node in the draft.
struct Found(Attributes);

impl AsRef<Attributes> for Found {
    fn as_ref(&self) -> &Attributes {
        &self.0
    }
}

struct Run<'r, 'd> {
    session: &'r Session,
    draft: &'r mut Draft<'d>,
    told: &'r mut Told,
    /// How many contents were reached.
    contents: usize,
    /// Bytes of content from open files so far.
    shared: u64,
}

impl Tree for Run<'_, '_> {
    type Node = Found;

    fn root(&mut self) -> Result<Found> {
        Ok(Found(self.draft.attributes(InodeId::ROOT)?))
    }

    fn lookup(&mut self, parent: InodeId, name: &[u8]) -> filesystem::Result<Found> {
        self.draft.lookup(parent, name).map(Found)
    }

    fn read_link(&mut self, symlink: InodeId) -> filesystem::Result<Vec<u8>> {
        self.draft.read_link(symlink)
    }
}

impl Run<'_, '_> {
    fn node(&mut self, path: &[u8], links: Links) -> Result<Attributes> {
        Ok(resolve_in(self, path, links)?.0)
    }

    fn place(&mut self, path: &[u8]) -> Result<Place<Found>> {
        resolve_place_in(self, path, Links::Stay)
    }

    fn next_content(&mut self) -> usize {
        self.contents += 1;
        self.contents - 1
    }

    fn step(&mut self, step: &Step<'_>) -> Result<()> {
        match *step {
            Step::RequireMissing { path, links } => self.require_missing(path.0, links),
            Step::RequireUnchanged {
                path,
                links,
                ref seen,
            } => {
                let node = self.node(path.0, links)?;
                require_unchanged(&node, seen)
            }
            Step::MakeDirectory { path, mode } => {
                self.make(path.0, NodeKind::Directory, mode, Vec::new())
            }
            Step::MakeSymlink { path, target } => {
                self.make(path.0, NodeKind::Symlink, 0o777, target.0.to_vec())
            }
            Step::WriteFile {
                path,
                mode,
                content,
            } => {
                let index = self.next_content();
                let inode = self.file_to_write(path.0, mode)?;
                self.draft.write(inode, index)?;
                self.told.content(inode, 0, content.0.len() as u64);
                Ok(())
            }
            Step::WriteFileFrom { path, mode, source } => {
                let inode = self.file_to_write(path.0, mode)?;
                self.share(source, inode, 0)
            }
            Step::WriteAtFrom {
                path,
                offset,
                source,
            } => {
                let inode = self.node(path.0, Links::Follow)?.inode;
                self.share(source, inode, offset)
            }
            Step::NameFrom { path, source } => {
                let inode = self.session.writable(source)?.inode;
                let place = self.place(path.0)?;
                let parent = place.parent.0.inode;
                self.draft.link(inode, parent, &place.name)?;
                self.told.entry(&place);
                self.told.attributes.insert(inode);
                Ok(())
            }
            Step::WriteAt { path, offset, data } => {
                let inode = self.node(path.0, Links::Follow)?.inode;
                let index = self.next_content();
                self.draft.write(inode, index)?;
                self.told.content(inode, offset, data.0.len() as u64);
                Ok(())
            }
            Step::Rename {
                path,
                new_path,
                mode,
            } => self.rename(path.0, new_path.0, mode),
            Step::Link { path, new_path } => {
                let node = self.node(path.0, Links::Stay)?;
                let place = self.place(new_path.0)?;
                let parent = place.parent.0.inode;
                self.draft.link(node.inode, parent, &place.name)?;
                self.told.entry(&place);
                self.told.node(Some(&Found(node)));
                Ok(())
            }
            Step::RemoveFile { path } => {
                let place = self.place(path.0)?;
                self.draft.unlink(place.parent.0.inode, &place.name)?;
                self.removed(&place)
            }
            Step::RemoveDirectory { path } => {
                let place = self.place(path.0)?;
                let parent = place.parent.0.inode;
                self.draft.remove_directory(parent, &place.name)?;
                self.removed(&place)
            }
            Step::SetAttributes {
                path,
                links,
                ref set,
            } => {
                let node = self.node(path.0, links)?;
                self.set_attributes(&node, set)
            }
            Step::SetXattr {
                path,
                links,
                name,
                value,
                mode,
            } => {
                let inode = self.node(path.0, links)?.inode;
                self.draft.set_xattr(inode, name.0, value.0, mode)?;
                self.told.attributes.insert(inode);
                Ok(())
            }
            Step::RemoveXattr { path, links, name } => {
                let inode = self.node(path.0, links)?.inode;
                self.draft.remove_xattr(inode, name.0)?;
                self.told.attributes.insert(inode);
                Ok(())
            }
        }
    }

    fn require_missing(&mut self, path: &[u8], links: Links) -> Result<()> {
        match self.node(path, links) {
            Ok(_) => Err(Error::File(filesystem::Error::Exists)),
            Err(Error::File(filesystem::Error::NotFound)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn make(&mut self, path: &[u8], kind: NodeKind, mode: u32, target: Vec<u8>) -> Result<()> {
        let place = self.place(path)?;
        if wants_directory(path) && kind != NodeKind::Directory {
            return Err(Error::File(filesystem::Error::NotADirectory));
        }
        let node = NewNode {
            kind,
            mode,
            rdev: 0,
            target,
        };
        let parent = place.parent.0.inode;
        self.draft.create(parent, &place.name, &node)?;
        self.told.entry(&place);
        Ok(())
    }

    /// The file at `path`, emptied or made.
    fn file_to_write(&mut self, path: &[u8], mode: u32) -> Result<InodeId> {
        if wants_directory(path) {
            return Err(Error::File(filesystem::Error::IsADirectory));
        }
        let place = resolve_place_in(self, path, Links::Follow)?;
        match &place.node {
            Some(node) => {
                match node.0.kind {
                    NodeKind::File => {}
                    NodeKind::Directory => {
                        return Err(Error::File(filesystem::Error::IsADirectory));
                    }
                    _ => return Err(Error::File(filesystem::Error::NotSupported)),
                }
                let empty = SetAttributes {
                    size: Some(0),
                    ..SetAttributes::default()
                };
                self.set_attributes(&node.0, &empty)?;
                Ok(node.0.inode)
            }
            None => {
                let node = NewNode {
                    kind: NodeKind::File,
                    mode: mode & 0o7777,
                    rdev: 0,
                    target: Vec::new(),
                };
                let parent = place.parent.0.inode;
                let made = self.draft.create(parent, &place.name, &node)?;
                self.told.entry(&place);
                Ok(made.inode)
            }
        }
    }

    /// Brings in what an open file of this session holds.
    fn share(&mut self, source: Handle, inode: InodeId, offset: u64) -> Result<()> {
        let source = self.session.readable(source)?;
        let len = self.draft.attributes(source)?.size;
        self.shared = self.shared.saturating_add(len);
        if self.shared > TRANSACTION_CONTENT_BYTES_MAX as u64 {
            return Err(Error::TransactionTooLarge);
        }
        self.draft.share(source, inode, offset)?;
        self.told.content(inode, offset, len);
        Ok(())
    }

    fn rename(&mut self, path: &[u8], new_path: &[u8], mode: RenameMode) -> Result<()> {
        let from = self.place(path)?;
        let moves_directory = from
            .node
            .as_ref()
            .is_some_and(|node| node.0.kind == NodeKind::Directory);
        if wants_directory(new_path) && !moves_directory {
            return Err(Error::File(filesystem::Error::NotADirectory));
        }
        let to = self.place(new_path)?;
        let old = (from.parent.0.inode, &from.name[..]);
        let new = (to.parent.0.inode, &to.name[..]);
        self.draft.rename(old, new, mode)?;
        for place in [&from, &to] {
            self.told.entry(place);
            self.told.node(place.node.as_ref());
        }
        Ok(())
    }

    fn removed(&mut self, place: &Place<Found>) -> Result<()> {
        self.told.entry(place);
        self.told.node(place.node.as_ref());
        Ok(())
    }

    fn set_attributes(&mut self, node: &Attributes, set: &SetAttributes) -> Result<()> {
        self.draft.set_attributes(node.inode, set)?;
        match set.size {
            Some(size) => self.told.content(node.inode, size.min(node.size), u64::MAX),
            None => {
                self.told.attributes.insert(node.inode);
            }
        }
        Ok(())
    }
}

/// # Errors
/// `Changed`.
fn require_unchanged(now: &Attributes, seen: &Attributes) -> Result<()> {
    let marks = |node: &Attributes| (node.inode, node.kind, node.size, node.mtime, node.ctime);
    if marks(now) == marks(seen) {
        Ok(())
    } else {
        Err(Error::Changed)
    }
}

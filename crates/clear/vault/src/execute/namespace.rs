//! Carries out requests about names: create, remove, move and link.
//!
//! Takes   paths
//! Gives   the changed directory tree, and a notice of each change to the observers
//! Never   looks at content

use strongroom_filesystem::{self as filesystem, InodeId, NewNode, NodeKind, RenameMode};

use crate::execute::session::Session;
use crate::observer::Change;
use crate::path::{HeldNode, Links, Place, resolve_place, wants_directory};
use crate::{Error, Result};

/// The names a session sees and changes.
pub(crate) struct Names<'a> {
    pub(crate) session: &'a Session,
}

impl Names<'_> {
    fn place(&self, path: &[u8]) -> Result<Place> {
        resolve_place(
            self.session.filesystem(),
            &self.session.caller,
            path,
            Links::Stay,
        )
    }

    /// Makes a node; only a directory's path may end in a slash.
    pub(crate) fn make(&self, path: &[u8], node: &NewNode) -> Result<HeldNode> {
        let place = self.place(path)?;
        if wants_directory(path) && node.kind != NodeKind::Directory {
            return Err(Error::File(filesystem::Error::NotADirectory));
        }
        self.make_at(&place, node)
    }

    /// Makes a node at a resolved place.
    pub(crate) fn make_at(&self, place: &Place, node: &NewNode) -> Result<HeldNode> {
        let Session { caller, .. } = self.session;
        let parent = place.parent.inode();
        let attributes = self
            .session
            .filesystem()
            .create(caller, parent, &place.name, node)?;
        let held = HeldNode::take(self.session.filesystem(), attributes);
        self.session
            .tell(&[entry(place), Change::Attributes { inode: parent }]);
        Ok(held)
    }

    /// Gives `inode` the further name `path`.
    pub(crate) fn link(&self, inode: InodeId, path: &[u8]) -> Result<HeldNode> {
        let place = self.place(path)?;
        let parent = place.parent.inode();
        let attributes =
            self.session
                .filesystem()
                .link(&self.session.caller, inode, parent, &place.name)?;
        let held = HeldNode::take(self.session.filesystem(), attributes);
        self.session.tell(&[
            entry(&place),
            Change::Attributes { inode: parent },
            Change::Attributes { inode },
        ]);
        Ok(held)
    }

    /// Removes the name of anything but a directory.
    pub(crate) fn remove_file(&self, path: &[u8]) -> Result<()> {
        let place = self.place(path)?;
        self.session.filesystem().unlink(
            &self.session.caller,
            place.parent.inode(),
            &place.name,
        )?;
        self.told_of_removal(&place);
        Ok(())
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, path: &[u8]) -> Result<()> {
        let place = self.place(path)?;
        self.session.filesystem().remove_directory(
            &self.session.caller,
            place.parent.inode(),
            &place.name,
        )?;
        self.told_of_removal(&place);
        Ok(())
    }

    fn told_of_removal(&self, place: &Place) {
        let mut changes = vec![
            entry(place),
            Change::Attributes {
                inode: place.parent.inode(),
            },
        ];
        changes.extend(place.node.as_ref().map(|node| Change::Attributes {
            inode: node.inode(),
        }));
        self.session.tell(&changes);
    }

    /// Moves, replaces or exchanges names.
    pub(crate) fn rename(&self, path: &[u8], new_path: &[u8], mode: RenameMode) -> Result<()> {
        let from = self.place(path)?;
        let to = self.place_of_new_name(new_path, &from)?;
        self.session.filesystem().rename(
            &self.session.caller,
            from.parent.inode(),
            &from.name,
            to.parent.inode(),
            &to.name,
            mode,
        )?;
        let mut changes = vec![entry(&from), entry(&to)];
        let nodes = [
            Some(&from.parent),
            Some(&to.parent),
            from.node.as_ref(),
            to.node.as_ref(),
        ];
        changes.extend(nodes.into_iter().flatten().map(|node| Change::Attributes {
            inode: node.inode(),
        }));
        self.session.tell(&changes);
        Ok(())
    }

    /// `mv file new/` fails: only a directory may take a name that ends in a slash.
    fn place_of_new_name(&self, path: &[u8], from: &Place) -> Result<Place> {
        let moves_directory = from
            .node
            .as_ref()
            .is_some_and(|node| node.attributes.kind == NodeKind::Directory);
        if wants_directory(path) && !moves_directory {
            return Err(Error::File(filesystem::Error::NotADirectory));
        }
        self.place(path)
    }
}

fn entry(place: &Place) -> Change {
    Change::Entry {
        parent: place.parent.inode(),
        name: place.name.clone(),
    }
}

//! A scene is where an operation reads nodes and puts its changes: the nodes themselves, or drafts of them.
//!
//! Takes   the number of a node
//! Gives   the node as the operation should see it, and a place for its changes
//! Never   decides whether a change is allowed: the rules are the same in every scene

use std::sync::Arc;

use strongroom_metadata::{Inode, InodeId, Timestamp, Transaction};

use crate::content::node::Node;
use crate::content::reservation::Reserved;
use crate::core::Core;
use crate::{Caller, Result};

/// A node and what it was when the writer was taken. Its names, links and parent are still that while the
/// writer is held; the rest may have changed.
pub(crate) struct Held {
    pub(crate) node: Arc<Node>,
    pub(crate) inode: Inode,
}

impl Held {
    pub(crate) fn is_directory(&self) -> bool {
        self.inode.kind == strongroom_metadata::NodeKind::Directory
    }
}

/// The file system as one operation, or one list of them, sees it, with the writer held.
pub(crate) trait Scene<'a> {
    fn core(&self) -> &'a Core;

    fn writer(&mut self) -> &mut Transaction<'a>;

    /// On whose behalf.
    fn caller(&self) -> &'a Caller;

    /// The time of what happens now.
    fn now(&self) -> Timestamp;

    /// The node of `id` as it is now.
    fn held(&mut self, id: InodeId) -> Result<Held>;

    /// Changes attributes of a node.
    fn touch(&mut self, node: &Arc<Node>, change: impl FnOnce(&mut Inode));

    /// Brings a new inode into being.
    fn adopt(&mut self, inode: Inode) -> Arc<Node>;

    /// Notes whether a node has the attribute by which a program runs with capabilities.
    fn note_capability(&mut self, node: &Arc<Node>, present: bool);
}

/// The nodes themselves: a change is seen at once, and the next commit stores it.
pub(crate) struct Live<'a> {
    pub(crate) core: &'a Core,
    pub(crate) writer: Transaction<'a>,
    pub(crate) caller: &'a Caller,
}

impl<'a> Live<'a> {
    /// Takes the writer.
    pub(crate) fn new(core: &'a Core, caller: &'a Caller) -> Self {
        let writer = core.store.lock();
        Self {
            core,
            writer,
            caller,
        }
    }
}

impl<'a> Scene<'a> for Live<'a> {
    fn core(&self) -> &'a Core {
        self.core
    }

    fn writer(&mut self) -> &mut Transaction<'a> {
        &mut self.writer
    }

    fn caller(&self) -> &'a Caller {
        self.caller
    }

    fn now(&self) -> Timestamp {
        self.core.now()
    }

    fn held(&mut self, id: InodeId) -> Result<Held> {
        let node = self.core.node_in(&mut self.writer, id)?;
        let inode = node.living()?.inode.clone();
        Ok(Held { node, inode })
    }

    fn touch(&mut self, node: &Arc<Node>, change: impl FnOnce(&mut Inode)) {
        self.core.content.touch(node, change);
    }

    fn adopt(&mut self, inode: Inode) -> Arc<Node> {
        let content = &self.core.content;
        let node = content.nodes.insert(inode, Reserved::default());
        let mut state = node.lock();
        state.changed();
        state.has_capability = Some(false);
        content.list_dirty(&node, &mut state);
        drop(state);
        node
    }

    fn note_capability(&mut self, node: &Arc<Node>, present: bool) {
        node.lock().has_capability = Some(present);
    }
}

//! The inputs and the result of a merge: names and nodes that change, and copies of content that would be lost.
//!
//! Takes   nothing
//! Gives   the types of `merge.rs` and of the code that carries out a plan
//! Never   decides anything
//! Spec    spec/11-sync.md, 11.6

use std::collections::BTreeMap;
use std::sync::Arc;

use strongroom_metadata::Timestamp;

use crate::delta::{Name, NodeId};
use crate::entry::Entry;

/// The living state of this device, which is *mine*, and contents.
pub trait Living {
    /// Why nothing could be said.
    type Error;

    /// The root directory.
    fn root(&self) -> NodeId;

    /// What a name means when this is asked.
    ///
    /// # Errors
    /// Those of the store.
    fn node(&self, name: &Name) -> Result<Option<NodeId>, Self::Error>;

    /// The names of a node; none of the root, and of what is not there.
    ///
    /// # Errors
    /// Those of the store.
    fn names(&self, node: NodeId) -> Result<Vec<Name>, Self::Error>;

    /// One content with what both sides wrote to a file; `None` if both contents have to stay.
    ///
    /// # Errors
    /// Those of the store.
    fn merged(
        &self,
        base: &Entry,
        mine: &Entry,
        theirs: &Entry,
    ) -> Result<Option<Arc<[u8]>>, Self::Error>;
}

/// What is said of a node where both sides changed it.
#[derive(Clone, Copy, Debug)]
pub struct Conflicts<'a> {
    /// What conflict names say in brackets.
    pub label: &'a str,
    /// When both sides were as they are: the later of the times of their revisions. A content that is new to both is from then, or
    /// from just after either wrote.
    pub time: Timestamp,
}

/// Where the content of a node comes from that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewContent {
    /// From that node, which was published.
    Of(Box<Entry>),
    /// What both sides wrote, merged.
    Merged(Arc<[u8]>),
}

/// What a node is to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Becomes {
    /// What it is here; `None` if it is not.
    pub mine: Option<Entry>,
    /// What it becomes. Its content and extended attributes are those of `content` and `xattrs`; how many names it has is not in it.
    pub entry: Entry,
    /// The content, if it changes.
    pub content: Option<NewContent>,
    /// Where extended attributes come from: what they were in common, and what theirs are.
    pub xattrs: Option<(Option<Entry>, Entry)>,
}

/// A copy of what a file is here, beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictCopy {
    /// The file.
    pub of: Entry,
    /// The name of the copy.
    pub at: Name,
}

/// What has to change here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What each name means here and is to mean.
    pub names: BTreeMap<Name, (Option<NodeId>, Option<NodeId>)>,
    /// What nodes become; those that lose their last name are not in it.
    pub nodes: BTreeMap<NodeId, Becomes>,
    /// What nodes are here that lose a name and are not in `nodes`: a change of theirs that nobody knew of makes another plan.
    pub untouched: Vec<Entry>,
    /// Copies, made before nodes change.
    pub copies: Vec<ConflictCopy>,
    /// Names that were given because of a conflict.
    pub conflicts: Vec<Name>,
    /// Names of files whose content is what both sides wrote, merged.
    pub merged: Vec<Name>,
}

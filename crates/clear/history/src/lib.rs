//! Revisions of the whole tree: named by their hashes, signed, and stored in space proportional to the changes.
//!
//! Takes   rows of one state, and blocks that the file system opens
//! Gives   revisions and the nodes of their trees; the space that they use; the revisions that a selector means
//! Never   changes a row, or knows paths of the disk, other processes, or where a block is stored
//! Spec    spec/6-history.md
#![forbid(unsafe_code)]

mod blocks;
mod build;
mod changes;
mod conflict_name;
mod content;
mod delta;
mod diff;
mod entry;
mod erase;
mod erasures;
mod error;
mod held_alone;
pub mod limits;
mod merge;
mod node;
mod plan;
mod read;
mod retention;
mod revision;
mod salvage;
mod select;
mod shared_retention;
mod survey;
mod text;
mod trie;

pub use blocks::Blocks;
pub use build::{Built, StoreNodes, build};
pub use conflict_name::{ConflictName, labelled};
pub use content::{Content, Extent};
pub use delta::{Delta, Name, NodeId, delta};
pub use diff::{PathDifference, Side, differences, has_same};
pub use entry::{Body, Entry, Xattrs};
pub use erase::{ErasedContent, Erasure, Noted, Target, to_erase, to_erase_noted};
pub use erasures::{ERASURES, ErasureNote, Erasures};
pub use error::{Error, Result};
pub use held_alone::{Usage, each_held_alone, held_alone, usage};
pub use merge::merge;
pub use node::{contents_of_block, names_of_block};
pub use plan::{Becomes, ConflictCopy, Conflicts, Living, NewContent, Plan};
pub use read::{Directory, Listed, Tree, XattrList};
pub use retention::{Retention, SCHEDULED, Whose};
pub use revision::{NewRevision, Revision, RevisionBody, RevisionId, stored_form};
pub use salvage::Salvage;
pub use select::{Candidate, SelectError, select, select_one};
pub use shared_retention::{SHARED_RETENTION, SharedRetention};
pub use survey::{Survey, TreeDamage, TreeLoss};
pub use text::Texts;
pub use trie::Ref;

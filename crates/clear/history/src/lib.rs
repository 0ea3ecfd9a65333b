//! Kept states of the whole tree: named by their hashes, signed, and stored in proportion to what changed.
//!
//! Takes   what changed since the newest tree, and blocks that an engine opens and stores
//! Gives   revisions, what they hold, and the space back of those that are removed
//! Never   knows paths of the disk, other processes, or how a block finds its place
//! Spec    spec/6-history.md
#![forbid(unsafe_code)]

mod build;
mod changes;
mod content;
mod diff;
mod engine;
mod entry;
mod erase;
mod error;
mod give_back;
mod held_alone;
pub mod limits;
mod node;
mod read;
mod retention;
mod revision;
mod salvage;
mod select;
mod survey;
mod take;
mod trie;

pub use content::{Content, Extent};
pub use diff::{Difference, differences};
pub use engine::Engine;
pub use entry::{Body, Entry, Xattrs};
pub use erase::{Erasure, to_erase};
pub use error::{Error, Result};
pub use give_back::{GiveBack, references};
pub use held_alone::{Stored, each_held_alone, held_alone, stored};
pub use node::names_of_block;
pub use read::{Directory, Listed, Tree, XattrList};
pub use retention::{Retention, SCHEDULED, State, Whose};
pub use revision::{Revision, RevisionBody, RevisionId, stored_form};
pub use salvage::{Blocks, Salvage};
pub use select::{Candidate, SelectError, select, select_one};
pub use survey::{Survey, TreeDamage, TreeLoss};
pub use take::{NewRevision, TAKING, Taken, remove, store_nodes, take, with_now};
pub use trie::Ref;

//! What devices and remotes say to one another: publications, the marker of a remote, and objects that go up and come down.
//!
//! Takes   a remote; publications, and what seals and signs them
//! Gives   publications that are proven; objects whose hash is their name
//! Never   believes anything of a remote that is not signed by a device of the vault, or named by something that is
//! Spec    spec/11-sync.md
//!
//! Invariants
//!  (1) An object is taken only if its hash and length are what a proven publication says.                [11.2.3]
//!  (2) A publication is taken only behind the one that it links to, in the log of its own remote.        [11.3.4]
#![forbid(unsafe_code)]

mod error;
pub mod limits;
mod log;
mod mailbox;
mod marker;
mod names;
mod parallel;
mod sealed_publication;
mod state;

pub use error::{Error, Result};
pub use log::{Live, Unfinished, follow, follow_seen, unfinished};
pub use mailbox::{Letter, Mailbox, Run, remove_stale_pairings};
pub use marker::Marker;
pub use names::{
    MARKER, header_name, header_parts, needs_name, needs_of, object_hash, publication_name,
    publication_number, revision_name, segment_name,
};
pub use parallel::in_parallel;
pub use sealed_publication::{open_publication, seal_publication};
pub use state::RemoteState;

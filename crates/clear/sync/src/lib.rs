//! How devices exchange data through remotes: publications, the marker of a remote, and uploads and downloads of objects.
//!
//! Takes   a remote; publications, and the keys that seal and sign them
//! Gives   verified publications; objects whose bytes match the hash in their names
//! Never   trusts anything from a remote unless a device of the vault signed it, or signed something that names it
//! Spec    spec/11-sync.md
//!
//! Invariants
//!  (1) An object is accepted only if a verified publication states its hash and length.                  [11.2.3]
//!  (2) A publication is accepted only right after the publication that it links to, in the log of its own remote.  [11.3.4]
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
    MARKER, address_name, deposit_name, deposit_of, header_name, header_parts, needs_name,
    needs_of, object_hash, piece_name, piece_of, publication_name, publication_number,
    revision_name, segment_name,
};
pub use parallel::in_parallel;
pub use sealed_publication::{open_publication, seal_publication};
pub use state::{NewestOf, RemoteState};

//! Follows the log of a remote, and knows what is live there.

use std::collections::BTreeMap;

use strongroom_format::publication::{
    PublicationId, PublishedRevision, PublishedSegment, RemoteId, SignedPublication,
};

use crate::error::{Error, Result};
use crate::names::publication_name;

/// Whether `next` is the publication behind the one of that number and id, in the log of that remote.             (2)
///
/// # Errors
/// `Damaged`.
pub fn follow(
    remote: RemoteId,
    before: (u64, PublicationId),
    next: &SignedPublication,
) -> Result<()> {
    let damaged = |why| Error::damaged(publication_name(next.body.number), why);
    if next.body.remote != remote {
        return Err(damaged("it is of another remote"));
    }
    if next.body.number != before.0 + 1 || next.body.link != before.1 {
        return Err(damaged("it does not follow the one before it"));
    }
    Ok(())
}

/// What is live at a remote: the sum of its publications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Segments by the hashes of their bytes.
    pub segments: BTreeMap<[u8; 32], PublishedSegment>,
    /// Revisions by the hashes of their records.
    pub revisions: BTreeMap<[u8; 32], PublishedRevision>,
}

impl Live {
    /// Takes in the next publication.
    pub fn add(&mut self, publication: &SignedPublication) {
        let body = &publication.body;
        for hash in &body.retired_revisions {
            self.revisions.remove(hash);
        }
        for hash in &body.retired_segments {
            self.segments.remove(hash);
        }
        for revision in &body.revisions {
            self.revisions.insert(revision.hash, *revision);
        }
        for segment in &body.segments {
            self.segments.insert(segment.hash, *segment);
        }
    }
}

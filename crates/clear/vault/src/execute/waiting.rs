//! Says whether a remote lacks any part of the current state. Frequent calls cost nothing while nothing changes.
//!
//! Takes   a remote
//! Gives   whether a push would publish something
//! Never   takes a revision, or commits anything while nothing changed
//! Spec    spec/11-sync.md, 11.4

use crate::Result;
use crate::execute::published::remote_of;
use crate::execute::session::Session;

/// Whether that remote lacks a change, or the header, or keeps old keys or erased content from going. What was only moved to other segments
/// waits for the next change.
pub(crate) fn is_waiting(session: &Session, remote: u64) -> Result<bool> {
    let filesystem = session.filesystem();
    let (_, state) = remote_of(session, remote)?;
    let header = session.vault.remote_header_hash()?;
    let is_published = match &filesystem.heads()?[..] {
        [head] => head.id == state.head,
        // Joined, and no revision says so yet; or there is none.
        _ => false,
    };
    Ok(state.is_pushing
        || !is_published
        || header != state.header
        || session.vault.rotation_needs_push(remote, state.joined)?
        || filesystem.changed_since_revision(1)? != Some(0)
        || !state.keeps && has_erased(session, remote, state.joined)?)
}

/// Whether segments are live there that are gone here since content was erased.                                    [6.11.11]
fn has_erased(session: &Session, remote: u64, joined: u64) -> Result<bool> {
    if !session.filesystem().remotes_to_prune()?.contains(&remote) {
        return Ok(false);
    }
    let standing = session.vault.standing_at(remote, joined, &[])?;
    Ok(!standing.retired_segments.is_empty())
}

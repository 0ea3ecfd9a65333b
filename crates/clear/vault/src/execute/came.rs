//! Checks the publications that a pull downloaded, before they are joined.
//!
//! Takes   publications in the folder of downloaded objects, and the rows about the remote
//! Gives   their contents, verified in order; which objects are known already, and which ones the publications retire
//! Never   accepts a publication that does not follow those seen before
//! Spec    spec/11-sync.md, 11.3 and 11.6

use std::collections::HashSet;
use std::ops::Range;

use strongroom_format::Epoch;
use strongroom_format::publication::{Publication, RemoteId, SignedPublication};
use strongroom_metadata::{Published, PublishedAs};
use strongroom_sync::{Live, RemoteState, follow, follow_seen, open_publication, publication_name};

use crate::execute::session::Session;
use crate::execute::standing::{each_published, each_published_record};
use crate::folder::Folder;
use crate::incoming::{self, epoch_of};
use crate::{Error, Result};

/// Leaves what was joined and is only named once more: it may have been let go here.
pub(super) fn leave_out_known(
    session: &Session,
    remote: u64,
    live: &mut Live,
    joined: u64,
) -> Result<()> {
    let reader = session.filesystem().engine().reader()?;
    let is_known = |item: Published, hash: &[u8; 32]| {
        let known = reader.published(remote, item);
        let is_it = |how: PublishedAs| how.hash == *hash && how.publication <= joined;
        known.map(|known| known.is_some_and(is_it))
    };
    let mut known = Vec::new();
    for segment in live.segments.values() {
        if is_known(Published::Segment(segment.id.0), &segment.hash)? {
            known.push(segment.hash);
        }
    }
    for revision in live.revisions.values() {
        let item = Published::Revision(revision.id, revision.epoch);
        if is_known(item, &revision.hash)? {
            known.push(revision.hash);
        }
    }
    for hash in known {
        live.segments.remove(&hash);
        live.revisions.remove(&hash);
    }
    Ok(())
}

/// The publications of these numbers, which came, proven against what was seen before.
pub(super) fn publications(
    session: &Session,
    folder: &Folder,
    (row, remote): (u64, RemoteId),
    state: &RemoteState,
    numbers: Range<u64>,
) -> Result<Vec<SignedPublication>> {
    let signer = session
        .vault
        .with_keys(|keys| keys.keyring().revision_signer());
    let sealer = session.filesystem().engine().sealer();
    let mut before = None;
    let mut all = Vec::new();
    let mut newest = newest_published(session, row)?;
    for number in numbers {
        // Missing: another pull was faster.
        let object = incoming::publication(folder, &remote.0, number)?.ok_or(Error::RemoteBusy)?;
        let signed = open_publication(number, &object, &signer, &sealer)?;
        match before {
            _ if number == state.last.0 + 1 && state.last.0 > 0 => {
                follow_seen(remote, state.last, &signed)?;
            }
            // Who comes new cannot look behind the first that it needs.
            None => follow(remote, (number - 1, signed.body.link), &signed)?,
            Some(before) => follow(remote, before, &signed)?,
        }
        if number == state.last.0 && signed.id != state.last.1 {
            return Err(strongroom_sync::Error::Forked { number }.into());
        }
        before = Some((number, signed.id));
        if number > state.last.0 && epoch_of(&object) < newest {
            return Err(of_replaced_keys(number).into());
        }
        newest = newest.max(epoch_of(&object));
        all.push(signed);
    }
    Ok(all)
}

/// What is wrong with a publication under keys that had been replaced in one before it.                              [11.3.7]
pub(super) fn of_replaced_keys(number: u64) -> strongroom_sync::Error {
    strongroom_sync::Error::Damaged {
        object: publication_name(number).to_string(),
        why: "it is sealed under keys that were already replaced",
    }
}

/// The newest epoch under which something was published at a remote, as far as it was taken in.
pub(super) fn newest_published(session: &Session, remote: u64) -> Result<Epoch> {
    let reader = session.filesystem().engine().reader()?;
    let mut newest = Epoch(0);
    each_published_record(&reader, remote, &mut |item, _| {
        if let Published::Revision(_, epoch) = item {
            newest = newest.max(epoch);
        }
    })?;
    Ok(newest)
}

/// The segments here that the publications retire.
pub(super) fn retired<'p>(
    session: &Session,
    remote: u64,
    publications: impl Iterator<Item = &'p Publication>,
) -> Result<HashSet<strongroom_format::SegmentId>> {
    let hashes: HashSet<[u8; 32]> = publications
        .flat_map(|body| body.retired_segments.iter().copied())
        .collect();
    let mut retired = HashSet::new();
    if hashes.is_empty() {
        return Ok(retired);
    }
    let reader = session.filesystem().engine().reader()?;
    each_published(&reader, remote, &mut |item, how| {
        if let Published::Segment(id) = item
            && hashes.contains(&how.hash)
        {
            retired.insert(strongroom_format::SegmentId(id));
        }
    })?;
    Ok(retired)
}

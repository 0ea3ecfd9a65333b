//! Reads and writes the database rows about remotes: where they are, which objects they have, and which they lack.
//!
//! Takes   the session of a process that connects to a remote
//! Gives   rows, read and durably changed; the objects that a push has to upload
//! Never   decides what is done with them
//! Spec    spec/4-metadata.md, 4.14

use std::collections::HashSet;
use std::sync::Arc;

use strongroom_folder::{Folder as HeldFolder, Purpose};
use strongroom_format::Epoch;
use strongroom_format::publication::Publication;
use strongroom_metadata::{
    Published, PublishedAs, Reader, Remote, Segment, SegmentState, Transaction,
};
use strongroom_sync::RemoteState;

use crate::execute::session::Session;
use crate::execute::standing::{LET_GO, each_published};
use crate::folder::{SEGMENTS, below};
use crate::incoming::placed_segment;
use crate::request::remote::VaultObject;
use crate::{Error, Result};

/// All remotes.
pub(super) fn rows(session: &Session) -> Result<Vec<Remote>> {
    Ok(session.filesystem().engine().reader()?.remotes()?)
}

/// A remote, and what is known of it.
pub(super) fn remote_of(session: &Session, number: u64) -> Result<(Remote, RemoteState)> {
    let row = rows(session)?.into_iter().find(|row| row.number == number);
    let row = row.ok_or_else(|| Error::UnknownRemote(number.to_string()))?;
    let state = RemoteState::decode(&row.state).ok_or(Error::Damaged {
        what: strongroom_metadata::DATABASE_FILE,
        why: "the stored state of a remote is invalid".to_owned(),
    })?;
    Ok((row, state))
}

/// Changes rows of remotes; durable on return.
pub(super) fn change<T>(
    session: &Session,
    work: impl FnOnce(&mut Transaction<'_>) -> strongroom_metadata::Result<T>,
) -> Result<T> {
    Ok(session.filesystem().change_remotes(work)?)
}

/// A remote, and what is known of it, as a change finds them; `None` if there is none of that number any more.
pub(super) fn found_by(
    writer: &Transaction<'_>,
    number: u64,
) -> strongroom_metadata::Result<Option<(Remote, RemoteState)>> {
    let row = writer
        .remotes()?
        .into_iter()
        .find(|row| row.number == number);
    Ok(row.and_then(|row| RemoteState::decode(&row.state).map(|state| (row, state))))
}

/// Changes what is known of a remote at this moment, durably: other sessions change it too, and nothing of theirs is put back.
pub(super) fn change_state(
    session: &Session,
    number: u64,
    work: impl FnOnce(RemoteState) -> RemoteState,
) -> Result<()> {
    let changed = change(session, |writer| {
        let Some((row, state)) = found_by(writer, number)? else {
            return Ok(None);
        };
        let state = work(state).encode();
        writer.put_remote(&Remote { state, ..row }).map(Some)
    })?;
    let unknown = || Error::UnknownRemote(number.to_string());
    changed.ok_or_else(unknown).map(drop)
}

/// Segments and records that a remote lacks, or that only unfinished pushes of others named there, at most `limit`: segments first, then records from the oldest on, so that the newest
/// revision is in the last page.
pub(super) fn missing(session: &Session, remote: u64, limit: usize) -> Result<Vec<VaultObject>> {
    let (newest_segment, head, here, unfinished) = match &*session.push.lock() {
        Some(push) => (
            push.newest_segment,
            push.head,
            Arc::clone(&push.revisions),
            push.unfinished.clone(),
        ),
        None => return Err(Error::Protocol("a push that did not begin")),
    };
    let reader = session.filesystem().engine().reader()?;
    let files = segment_files(session)?;
    let mut found = Vec::new();
    for segment in reader.segments()? {
        if found.len() >= limit || segment.number > newest_segment || !is_whole(&files, &segment) {
            continue;
        }
        let lacks = match reader.published(remote, Published::Segment(segment.id.0))? {
            None => segment.epoch >= session.filesystem().engine().sealer().epoch(),
            Some(how) => is_left_out(&unfinished, &how),
        };
        if lacks {
            found.push(VaultObject::Segment {
                id: segment.id.0,
                epoch: segment.epoch.0,
            });
        }
    }
    if found.len() >= limit {
        return Ok(found);
    }
    // Who waits for a second reader with the first may wait for ever.
    drop(reader);
    let records = session.vault.records.names()?;
    let revisions = session.filesystem().revisions()?;
    if revisions.iter().all(|one| one.id.0 != head) {
        // Somebody removed the state that the push is about. What is newer may need segments that do not go up now.
        return Ok(found);
    }
    let reader = session.filesystem().engine().reader()?;
    let let_go = let_go_revisions(&reader, remote)?;
    for revision in revisions {
        let id = revision.id.0;
        let name = revision.id.to_string();
        let of_it = records.iter().filter(|(record, _)| *record == name);
        if found.len() < limit
            && here.contains(&id)
            // A head has to be there for whoever pulls it, also if somebody let it go.                     [11.4.10]
            && (id == head || !let_go.contains(&id))
            && let Some(epoch) = of_it.map(|(_, epoch)| *epoch).max()
            && (reader.published(remote, Published::Revision(id, Epoch(epoch)))?)
                .is_none_or(|how| is_left_out(&unfinished, &how))
        {
            found.push(VaultObject::Revision { id, epoch });
        }
        if id == head {
            break;
        }
    }
    Ok(found)
}

/// Whether readers leave out what names this: another device is in the middle of a push.                            [11.4.8]
pub(super) fn is_left_out(unfinished: &HashSet<u64>, how: &PublishedAs) -> bool {
    !how.is_let_go() && unfinished.contains(&how.publication)
}

/// Revisions of which another device let a record go, and of which none is live: sealed again under newer keys they stay so.
fn let_go_revisions(reader: &Reader<'_>, remote: u64) -> Result<HashSet<[u8; 32]>> {
    let (mut let_go, mut live) = (HashSet::new(), HashSet::new());
    each_published(reader, remote, &mut |item, how| {
        if let Published::Revision(id, _) = item {
            match how.hash == LET_GO {
                true => let_go.insert(id),
                false => live.insert(id),
            };
        }
    })?;
    let_go.retain(|id| !live.contains(id));
    Ok(let_go)
}

/// The folder of segment files. Needs no keys: who asks may hold a reader.
pub(super) fn segment_files(session: &Session) -> Result<HeldFolder> {
    let held = session.vault.folder().inside(SEGMENTS).hold();
    held.map_err(below("examining the segments"))
}

/// Whether a segment has all that it will ever have, in a file. One that is leaving has what moved away from it too: where that went
/// may be open still. Its file is removed before its row, once nothing needs it, and never during a push.
pub(super) fn is_whole(files: &HeldFolder, segment: &Segment) -> bool {
    let is_named = segment.id.0 != [0; 16] && segment.id.0 != [0xff; 16];
    let is_gone = || {
        let file = files.open_file(&placed_segment(segment.id), Purpose::Read);
        file.is_err_and(|error| error.is_missing())
    };
    match segment.state {
        SegmentState::Open | SegmentState::Away => false,
        SegmentState::Finished => is_named,
        SegmentState::Leaving => is_named && !is_gone(),
    }
}

/// Notes what a publication names.
pub(crate) fn put_published(
    writer: &mut Transaction<'_>,
    remote: u64,
    body: &Publication,
) -> strongroom_metadata::Result<()> {
    let publication = body.number;
    for segment in &body.segments {
        let hash = segment.hash;
        let how = PublishedAs { hash, publication };
        writer.put_published(remote, Published::Segment(segment.id.0), how)?;
    }
    for revision in &body.revisions {
        let hash = revision.hash;
        let how = PublishedAs { hash, publication };
        writer.put_published(
            remote,
            Published::Revision(revision.id, revision.epoch),
            how,
        )?;
    }
    Ok(())
}

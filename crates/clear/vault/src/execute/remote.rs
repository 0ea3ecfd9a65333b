//! Does the owner's part of remotes: what is known of them, what they lack, and publications, which need keys.
//!
//! Takes   the session of somebody who reaches a remote
//! Gives   publications sealed and signed; proven ones taken in
//! Never   reaches a remote itself, or notes anything of one that no proven publication says
//! Spec    spec/11-sync.md, 11.3 and 11.4
//!
//! Invariants
//!  (1) What is noted as published is what the publications of that remote say, up to the last one that was taken in.   [4.14]
//!  (2) A publication names a head only if all that the vault has is at the remote then.                     [11.4.3]

use std::collections::HashSet;

use strongroom_crypto::SystemRandom;
use strongroom_folder::{Folder as HeldFolder, Purpose};
use strongroom_format::publication::{Publication, PublishedRevision, PublishedSegment, RemoteId};
use strongroom_format::{Epoch, SegmentId};
use strongroom_history::{NewRevision, SCHEDULED};
use strongroom_metadata::{
    Published, PublishedAs, Remote, Segment, SegmentNumber, SegmentState, Transaction,
};
use strongroom_sync::{RemoteState, follow, object_hash, open_publication, seal_publication};

use crate::clock::now_s;
use crate::execute::join::join;
use crate::execute::session::{Push, Session};
use crate::execute::standing::{LET_GO, PAGE, Standing, each_published};
use crate::execute::waiting::is_waiting;
use crate::folder::{SEGMENTS, below};
use crate::incoming::{epoch_of, placed_segment};
use crate::request::Response;
use crate::request::frame::ByteBuffer;
use crate::request::remote::{
    PublicationFields, PushFields, RemoteFields, RemoteRequest, UploadedObject, VaultObject,
};
use crate::{Error, Result};

/// Carries out what is asked about remotes.
pub(crate) fn execute(session: &Session, request: &RemoteRequest<'_>) -> Result<Response> {
    match request {
        RemoteRequest::List => list(session),
        RemoteRequest::Add { name, address, id } => {
            let state = RemoteState::new(text(address.0)?);
            let remote = Remote {
                number: 0,
                name: text(name.0)?,
                id: *id,
                state: state.encode(),
            };
            if rows(session)?.iter().any(|row| row.name == remote.name) {
                return Err(Error::RemoteNameTaken(remote.name));
            }
            change(session, |writer| writer.put_remote(&remote)).map(Into::into)
        }
        RemoteRequest::Remove { name } => {
            let name = text(name.0)?;
            let row = rows(session)?.into_iter().find(|row| row.name == name);
            let row = row.ok_or(Error::UnknownRemote(name))?;
            change(session, |writer| writer.remove_remote(row.number)).map(Into::into)
        }
        RemoteRequest::BeginPush { remote } => begin_push(session, *remote).map(Into::into),
        RemoteRequest::Missing { remote } => Ok(missing(session, *remote, PAGE)?.into()),
        RemoteRequest::Seal {
            remote,
            header,
            uploaded,
        } => seal(session, *remote, *header, uploaded),
        RemoteRequest::Publication {
            remote,
            number,
            object,
            is_joined,
        } => publication(session, *remote, *number, object.0, *is_joined).map(Into::into),
        RemoteRequest::Open { number, object } => {
            let signer = session
                .vault
                .with_keys(|keys| keys.keyring().revision_signer());
            let sealer = session.filesystem().engine().sealer();
            let opened = open_publication(*number, object.0, &signer, &sealer);
            let clear = opened.map(|signed| ByteBuffer(signed.encode()));
            Ok(Response::Backup(clear.map_err(|error| error.to_string())))
        }
        RemoteRequest::ChangesMark => Ok(session.filesystem().changes_mark().into()),
        RemoteRequest::IsWaiting { remote } => is_waiting(session, *remote).map(Into::into),
        RemoteRequest::TakeHeader { header, needed } => {
            let taken = session.vault.take_header(header.0, Epoch(*needed));
            taken.map(Into::into)
        }
        RemoteRequest::Join {
            remote,
            first,
            behind,
        } => join(session, *remote, *first..*behind).map(Into::into),
        RemoteRequest::EndPush => {
            *session.push.lock() = None;
            Ok(().into())
        }
    }
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::NotText)
}

fn rows(session: &Session) -> Result<Vec<Remote>> {
    Ok(session.filesystem().engine().reader()?.remotes()?)
}

pub(super) fn remote_of(session: &Session, number: u64) -> Result<(Remote, RemoteState)> {
    let row = rows(session)?.into_iter().find(|row| row.number == number);
    let row = row.ok_or_else(|| Error::UnknownRemote(number.to_string()))?;
    let state = RemoteState::decode(&row.state).ok_or(Error::Damaged {
        what: strongroom_metadata::DATABASE_FILE,
        why: "what is kept of a remote is not as written".to_owned(),
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

fn list(session: &Session) -> Result<Response> {
    let reader = session.filesystem().engine().reader()?;
    let mut all = Vec::new();
    for row in reader.remotes()? {
        let (row, state) = remote_of(session, row.number)?;
        all.push(RemoteFields {
            number: row.number,
            name: row.name,
            id: row.id,
            address: state.address,
            last: state.last.0,
            joined: state.joined,
            head: state.head,
            header: state.header,
            published: reader.published_count(row.number)?,
        });
    }
    Ok(all.into())
}

fn begin_push(session: &Session, number: u64) -> Result<PushFields> {
    let filesystem = session.filesystem();
    let (row, state) = remote_of(session, number)?;
    let kept = filesystem.keep_segments();
    // By schedule: what no person asked for goes by the rule.
    let new = NewRevision {
        message: SCHEDULED.to_owned(),
        only_if_changed: true,
        ..NewRevision::default()
    };
    session.vault.records.take(filesystem, &new)?;
    let epoch = filesystem.engine().sealer().epoch();
    let names = session.vault.records.names()?;
    if names.iter().any(|(_, of)| *of < epoch.0) {
        // Others may have forgotten those keys.
        session.vault.records.reseal(filesystem, || Ok(()))?;
    }
    filesystem.end_segments()?;
    let head = filesystem.heads()?.into_iter().next();
    let head = head.ok_or(Error::Protocol("no revision although one was taken"))?;
    let was_pushing = state.is_pushing;
    let published_header = state.header;
    let reader = filesystem.engine().reader()?;
    let files = segment_files(session)?;
    let mut older = false;
    let mut bytes = 0;
    let mut newest_segment = SegmentNumber(0);
    let segments = reader.segments()?;
    let is_open = |segment: &Segment| segment.state == SegmentState::Open && segment.live_bytes > 0;
    // Since the segments were ended a rotation may have moved blocks from one under old keys, which is not pushed, into an open one.
    let is_moving = segments.iter().any(is_open);
    for segment in segments {
        if segment.state != SegmentState::Open {
            newest_segment = newest_segment.max(segment.number);
        }
        let item = Published::Segment(segment.id.0);
        if is_whole(&files, &segment) && reader.published(number, item)?.is_none() {
            if segment.epoch < epoch {
                older = older || segment.live_bytes > 0 || is_moving;
                continue;
            }
            bytes += segment.committed_len;
        }
    }
    drop(reader);
    if older {
        // Others may have forgotten those keys.
        session.vault.seal_again()?;
        return Err(Error::KeysInUse);
    }
    *session.push.lock() = Some(Push {
        segments: kept,
        newest_segment,
        head: head.id,
    });
    if !was_pushing && !missing(session, number, 1)?.is_empty() {
        put_pushing(session, row, state, true)?;
    }
    let (header, generation) = session.vault.with_keys(|keys| {
        let header = keys.folder().header();
        header.map(|header| (header, keys.keyring().generation()))
    })?;
    Ok(PushFields {
        is_header_there: object_hash(&header) == published_header,
        header: ByteBuffer(header),
        generation,
        head: head.id,
        was_pushing,
        bytes,
    })
}

/// Notes whether objects may be at a remote that no publication names yet.
fn put_pushing(session: &Session, row: Remote, state: RemoteState, is_pushing: bool) -> Result<()> {
    let state = RemoteState {
        is_pushing,
        ..state
    };
    change(session, |writer| {
        writer.put_remote(&Remote {
            state: state.encode(),
            ..row
        })
    })
    .map(drop)
}

/// Segments and records that a remote lacks, at most `limit`: segments first, then records from the oldest on, so that the newest
/// revision is in the last page.
fn missing(session: &Session, remote: u64, limit: usize) -> Result<Vec<VaultObject>> {
    let (newest_segment, head) = match &*session.push.lock() {
        Some(push) => (push.newest_segment, push.head),
        None => return Err(Error::Protocol("a push that did not begin")),
    };
    let reader = session.filesystem().engine().reader()?;
    let files = segment_files(session)?;
    let mut found = Vec::new();
    for segment in reader.segments()? {
        let item = Published::Segment(segment.id.0);
        let counts = is_whole(&files, &segment)
            && segment.number <= newest_segment
            && segment.epoch >= session.filesystem().engine().sealer().epoch();
        if counts && found.len() < limit && reader.published(remote, item)?.is_none() {
            found.push(VaultObject::Segment {
                id: segment.id.0,
                epoch: segment.epoch.0,
            });
        }
    }
    if found.len() >= limit {
        return Ok(found);
    }
    let records = session.vault.records.names()?;
    // Under which keys they were published does not matter.                                             [11.4.9]
    let mut let_go = HashSet::new();
    each_published(&reader, remote, &mut |item, how| {
        if let (Published::Revision(id, _), LET_GO) = (item, how.hash) {
            let_go.insert(id);
        }
    })?;
    for revision in session.filesystem().revisions()? {
        let id = revision.id.0;
        let name = revision.id.to_string();
        let of_it = records.iter().filter(|(record, _)| *record == name);
        if found.len() < limit
            && let Some(epoch) = of_it.map(|(_, epoch)| *epoch).max()
        {
            let how = reader.published(remote, Published::Revision(id, Epoch(epoch)))?;
            let is_there = how.is_some_and(|how| how.hash != LET_GO);
            // A head has to be there for whoever pulls it, also if somebody let it go.
            if !is_there && (id == head || !let_go.contains(&id)) {
                found.push(VaultObject::Revision { id, epoch });
            }
        }
        if id == head {
            break;
        }
    }
    Ok(found)
}

/// The folder of segment files.
fn segment_files(session: &Session) -> Result<HeldFolder> {
    let folder = session.vault.with_keys(|keys| keys.folder().clone());
    let held = folder.inside(SEGMENTS).hold();
    held.map_err(below("looking at the segments"))
}

/// Whether a segment has all that it will ever have, in a file. One that is leaving has what moved away from it too: where that went
/// may be open still. Its file is removed before its row, once nothing needs it, and never during a push.
fn is_whole(files: &HeldFolder, segment: &Segment) -> bool {
    let is_named = segment.id.0 != [0; 16] && segment.id.0 != [0xff; 16];
    let is_gone = || {
        let file = files.open_file(&placed_segment(segment.id), Purpose::Read);
        file.is_err_and(|error| error.is_missing())
    };
    match segment.state {
        SegmentState::Open => false,
        SegmentState::Finished => is_named,
        SegmentState::Leaving => is_named && !is_gone(),
    }
}

fn seal(
    session: &Session,
    number: u64,
    header: [u8; 32],
    uploaded: &[UploadedObject],
) -> Result<Response> {
    let (row, state) = remote_of(session, number)?;
    let found = session.vault.with_keys(|keys| {
        let bytes = keys.folder().header();
        bytes.map(|bytes| (object_hash(&bytes), keys.keyring().generation()))
    })?;
    if found.0 != header {
        return Ok(Response::KeysStale);
    }
    let (mut segments, mut revisions) = (Vec::new(), Vec::new());
    for one in uploaded {
        match one.object {
            VaultObject::Segment { id, epoch } => segments.push(PublishedSegment {
                hash: one.hash,
                id: SegmentId(id),
                len: one.len,
                epoch: Epoch(epoch),
            }),
            VaultObject::Revision { id, epoch } => revisions.push(PublishedRevision {
                id,
                hash: one.hash,
                epoch: Epoch(epoch),
            }),
        }
    }
    segments.sort_unstable_by_key(|segment| segment.hash);
    revisions.sort_unstable_by_key(|revision| revision.hash);
    // (2)
    let here: HashSet<VaultObject> = uploaded.iter().map(|one| one.object).collect();
    let left = missing(session, number, uploaded.len() + PAGE)?;
    let is_all = left.iter().all(|object| here.contains(object));
    let head = match &*session.push.lock() {
        Some(push) if is_all => push.head,
        // In the middle of a push: a newcomer passes it over.
        _ => [0; 32],
    };
    let publication = state.last.0 + 1;
    let standing = match is_all {
        true => session.vault.standing_at(number, state.joined)?,
        // In the middle of a push nothing is retired yet.
        false => Standing {
            retired_segments: Vec::new(),
            retired_revisions: Vec::new(),
            has_unknown: false,
            base: Some(state.base).filter(|base| *base > 0),
        },
    };
    let is_same = uploaded.is_empty()
        && standing.retired_segments.is_empty()
        && standing.retired_revisions.is_empty()
        && is_all
        && head == state.head
        && header == state.header;
    if is_same {
        if state.is_pushing {
            put_pushing(session, row, state, false)?;
        }
        return Ok(ByteBuffer(Vec::new()).into());
    }
    session.vault.with_keys(|keys| {
        let signer = keys.keyring().revision_signer();
        let nanoseconds = i64::try_from(now_s().saturating_mul(1_000_000_000));
        let body = Publication {
            vault: signer.vault(),
            remote: RemoteId(row.id),
            number: publication,
            link: state.last.1,
            device: signer.device(),
            sequence: state.sequence + 1,
            base: standing.base.unwrap_or(publication),
            time: nanoseconds.unwrap_or(i64::MAX),
            membership_head: signer.membership_head(),
            header: (found.1, header),
            head,
            revisions,
            retired_revisions: standing.retired_revisions,
            segments,
            retired_segments: standing.retired_segments,
        };
        let sealer = session.filesystem().engine().sealer();
        let object = seal_publication(body, &signer, &sealer, &SystemRandom)?;
        Ok(ByteBuffer(object).into())
    })
}

/// Takes in the next publication of a remote. (1)
fn publication(
    session: &Session,
    remote: u64,
    number: u64,
    object: &[u8],
    is_joined: bool,
) -> Result<PublicationFields> {
    let (row, state) = remote_of(session, remote)?;
    let filesystem = session.filesystem();
    let signer = session
        .vault
        .with_keys(|keys| keys.keyring().revision_signer());
    let sealer = filesystem.engine().sealer();
    let opened = open_publication(number, object, &signer, &sealer).and_then(|signed| {
        let before = match state.last.0 {
            // Who comes new cannot look behind the first that it needs.
            0 => (number - 1, signed.body.link),
            _ => state.last,
        };
        follow(RemoteId(row.id), before, &signed).map(|()| signed)
    });
    let signed = match opened {
        Ok(signed) => signed,
        // The header in which it was added is not here yet.
        Err(strongroom_sync::Error::UnknownDevice { number }) => {
            return Ok(PublicationFields::Ahead { number });
        }
        // Nor are the keys that it is sealed under, or so it says: a pull fetches them, or names the lie.
        Err(_) if epoch_of(object) > sealer.epoch() => {
            return Ok(PublicationFields::Ahead { number });
        }
        Err(error) => return Ok(PublicationFields::Refused(error.to_string())),
    };
    let body = &signed.body;
    let knows =
        |id: &[u8; 32]| Ok::<_, Error>(filesystem.engine().reader()?.revision(id)?.is_some());
    let is_whole = body.head != [0; 32];
    let reader = filesystem.engine().reader()?;
    let is_joined = is_joined || number <= state.joined;
    let mut brings = false;
    for segment in &body.segments {
        brings = brings || !is_joined && reader.segment_by_id(&segment.id)?.is_none();
    }
    drop(reader);
    // The head in the middle of what was joined may have been let go by a later publication: then it never came.
    let is_head_here = is_whole && knows(&body.head)?;
    // What somebody began to push is left until it is whole; it stays live meanwhile.
    if is_whole && !is_joined && (brings || body.head != state.head && !is_head_here) {
        return Ok(PublicationFields::Ahead {
            number: body.number,
        });
    }
    let is_own = body.device == signer.device();
    let next = RemoteState {
        last: (body.number, signed.id),
        sequence: state.sequence.max(if is_own { body.sequence } else { 0 }),
        // The head is named by the last publication of a push.
        is_pushing: state.is_pushing && !is_whole,
        base: body.base,
        head: if is_head_here { body.head } else { state.head },
        header: body.header.1,
        joined: match is_own && state.joined == state.last.0 {
            true => body.number,
            false => state.joined,
        },
        ..state
    };
    let hashes = body.retired_segments.iter().chain(&body.retired_revisions);
    let hashes: HashSet<&[u8; 32]> = hashes.collect();
    let mut retired = Vec::new();
    if !hashes.is_empty() {
        let reader = filesystem.engine().reader()?;
        each_published(&reader, remote, &mut |item, how| {
            if hashes.contains(&how.hash) {
                retired.push(item);
            }
        })?;
    }
    let published = change(session, |writer| {
        writer.put_remote(&Remote {
            state: next.encode(),
            ..row
        })?;
        for item in retired {
            writer.remove_published(remote, item)?;
            // What another device let go is not published again by who still has it.
            if let Published::Revision(id, _) = item
                && !is_own
                && writer.revision(&id)?.is_some()
            {
                let publication = body.number;
                let hash = LET_GO;
                writer.put_published(remote, item, PublishedAs { hash, publication })?;
            }
        }
        put_published(writer, remote, body)
    });
    // It may have waited for that.
    session.vault.rotating.wake();
    published?;
    Ok(PublicationFields::Taken {
        number: body.number,
    })
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

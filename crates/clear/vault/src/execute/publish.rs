//! Seals and signs a publication: which objects are at the remote now, and which ones it retires (declares not live).
//!
//! Takes   the uploaded objects, those to name again, and those at the remote that nobody published
//! Gives   the next publication of that remote, sealed; nothing if that would contain nothing new
//! Never   retires an object that is here, or one that an unfinished push of another device named. Never chooses
//!         so late a `base` (the publication at which new readers start) that some live object is named only by
//!         publications before it
//! Spec    spec/11-sync.md, 11.3, 11.4 and 11.8
//!
//! Invariants
//!  (1) A publication names a head, the revision of the device's state, only if all of the vault is at the remote, with the record of
//!      that revision: somebody may remove the snapshot while a push goes on.                                    [11.4.3]

use std::collections::HashSet;

use strongroom_crypto::SystemRandom;
use strongroom_format::publication::{Publication, PublishedRevision, PublishedSegment, RemoteId};
use strongroom_format::{Epoch, SegmentId};
use strongroom_metadata::{Published, Reader};
use strongroom_sync::{RemoteState, object_hash, seal_publication};

use crate::clock::now_s;
use crate::execute::let_go;
use crate::execute::published::{change_state, missing, remote_of};
use crate::execute::session::Session;
use crate::execute::standing::{LET_GO, Standing, each_published, each_published_record};
use crate::folder::REVISIONS;
use crate::limits::PUSH_PAGE;
use crate::request::Response;
use crate::request::frame::ByteBuffer;
use crate::request::remote::{NamedFields, UploadedObject, VaultObject};
use crate::{Error, Result};

/// The publication behind `last`. `KeysStale` if what was uploaded may not be named any more, somebody removed the head, or another
/// session of this device has published meanwhile: the push begins again.
pub(super) fn seal(
    session: &Session,
    (number, last): (u64, u64),
    header: [u8; 32],
    named: &NamedFields,
) -> Result<Response> {
    let (row, state) = remote_of(session, number)?;
    // What is sealed as one publication is never created under the name of another.                         [11.3.1]
    if state.last.0 != last {
        return Ok(Response::KeysStale);
    }
    let (bytes, generation) = session.vault.remote_header()?;
    if object_hash(&bytes) != header || !let_go::in_use(session, number)?.is_empty() {
        return Ok(Response::KeysStale);
    }
    // (1)
    let here: HashSet<VaultObject> = named.uploaded.iter().map(|one| one.object).collect();
    let left = missing(session, number, named.uploaded.len() + PUSH_PAGE)?;
    let is_all = left.iter().all(|object| here.contains(object));
    let head = match &*session.push.lock() {
        Some(push) if is_all => push.head,
        // In the middle of a push: a newcomer passes it over.
        _ => [0; 32],
    };
    let publication = state.last.0 + 1;
    let renamed = match is_all {
        true => still_live(session, number, &named.renamed)?,
        false => Vec::new(),
    };
    let mut standing = match is_all {
        true => session.vault.standing_at(number, state.joined, &renamed)?,
        // In the middle of a push nothing is retired yet.
        false => Standing::in_the_middle(&state),
    };
    if is_all {
        standing.retire_unnamed(named);
        if !has_record(session, number, &head, named, &standing)? {
            return without_record(session, &head);
        }
    }
    let is_same = named.uploaded.is_empty()
        && renamed.is_empty()
        && standing.retired_segments.is_empty()
        && standing.retired_revisions.is_empty()
        && is_all
        && head == state.head
        && header == state.header;
    if is_same {
        if state.is_pushing {
            change_state(session, number, |state| RemoteState {
                is_pushing: false,
                ..state
            })?;
        }
        return Ok(ByteBuffer(Vec::new()).into());
    }
    let retired = |hash: &[u8; 32]| {
        standing.retired_segments.binary_search(hash).is_ok()
            || standing.retired_revisions.binary_search(hash).is_ok()
    };
    let renamed = renamed.iter().filter(|one| !retired(&one.hash));
    let (segments, revisions) = sorted(named.uploaded.iter().chain(renamed));
    let (id, object) = session.vault.with_keys(|keys| {
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
            header: (generation, header),
            head,
            revisions,
            retired_revisions: standing.retired_revisions,
            segments,
            retired_segments: standing.retired_segments,
        };
        let sealer = session.filesystem().engine().sealer();
        let id = body.id();
        let object = seal_publication(body, &signer, &sealer, &SystemRandom)?;
        Ok::<_, Error>((id, object))
    })?;
    // Before anybody can see it: who made it is known again however this run ends.                    [11.10.1]
    change_state(session, number, |state| state.having_made(id))?;
    Ok(ByteBuffer(object).into())
}

/// Whether the record of `head` was uploaded just now, or stays live at the remote. (1)
fn has_record(
    session: &Session,
    remote: u64,
    head: &[u8; 32],
    named: &NamedFields,
    standing: &Standing,
) -> Result<bool> {
    let is_it = |one: &UploadedObject| matches!(one.object, VaultObject::Revision { id, .. } if id == *head);
    let mut found = named.uploaded.iter().any(is_it);
    let reader = session.filesystem().engine().reader()?;
    each_published_record(&reader, remote, &mut |item, how| {
        let is_it = matches!(item, Published::Revision(id, _) if id == *head);
        found = found || is_it && standing.live.contains(&how.hash);
    })?;
    Ok(found)
}

/// What becomes of a push whose head has no record at the remote: it begins again if somebody removed that snapshot.
fn without_record(session: &Session, head: &[u8; 32]) -> Result<Response> {
    // A removal takes the record first.
    let _turn = session.filesystem().hold_revisions();
    let row = session.filesystem().engine().reader()?.revision(head)?;
    match row {
        None => Ok(Response::KeysStale),
        Some(_) => Err(Error::Damaged {
            what: REVISIONS,
            why: "the record of the newest state is missing; open the vault once, then push again"
                .to_owned(),
        }),
    }
}

/// Those that are noted as live under that hash.
fn still_live(
    session: &Session,
    remote: u64,
    objects: &[UploadedObject],
) -> Result<Vec<UploadedObject>> {
    let reader = session.filesystem().engine().reader()?;
    let mut live = Vec::new();
    for one in objects {
        let item = match one.object {
            VaultObject::Segment { id, .. } => Published::Segment(id),
            VaultObject::Revision { id, epoch } => Published::Revision(id, Epoch(epoch)),
        };
        if (reader.published(remote, item)?).is_some_and(|how| how.hash == one.hash) {
            live.push(*one);
        }
    }
    Ok(live)
}

/// The lists of a publication.
fn sorted<'a>(
    objects: impl Iterator<Item = &'a UploadedObject>,
) -> (Vec<PublishedSegment>, Vec<PublishedRevision>) {
    let (mut segments, mut revisions) = (Vec::new(), Vec::new());
    for one in objects {
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
    (segments, revisions)
}

/// Those of the hashes, of which the first bytes are given, that nothing live at that remote has which a publication up to `last` named.
pub(super) fn not_live(
    session: &Session,
    remote: u64,
    hashes: &[[u8; 8]],
    last: u64,
) -> Result<Vec<[u8; 8]>> {
    let reader: Reader<'_> = session.filesystem().engine().reader()?;
    let mut live = HashSet::new();
    each_published(&reader, remote, &mut |_, how| {
        if how.hash != LET_GO
            && how.publication <= last
            && let Some(front) = how.hash.first_chunk::<8>()
        {
            live.insert(*front);
        }
    })?;
    let not_live = hashes.iter().filter(|front| !live.contains(*front));
    Ok(not_live.copied().collect())
}

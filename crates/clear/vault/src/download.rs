//! Downloads the objects that a clone consists of.
//!
//! Takes   the live objects at a remote, and the folder of an unfinished vault
//! Gives   the vault's segments and records in their places, and nothing else there; for a segment whose content stays at the
//!         remote, a list of its blocks instead
//! Never   keeps an object whose hash is not the published one
//! Spec    spec/11-sync.md, 11.5

use std::collections::HashSet;

use strongroom_crypto::BlockSealer;
use strongroom_folder::Folder as HeldFolder;
use strongroom_format::hex;
use strongroom_format::publication::{PublishedRevision, PublishedSegment};
use strongroom_remote::{ObjectName, Remote};
use strongroom_sync::limits::{REVISION_OBJECT_BYTES_MAX, SEGMENT_OBJECT_BYTES_MAX};
use strongroom_sync::{Live, in_parallel, object_hash, revision_name, segment_name};

use crate::clone::CloneProgress;
use crate::folder::{Folder, REVISIONS, SEGMENTS, below};
use crate::outline::{NodeSegments, Outline, Partly, outline};
use crate::remotes::{RemoteProgress, go_on};
use crate::{Error, GoOn, Result};

/// One object to come down: its name, hash, greatest length, and where it goes.
struct Wanted {
    object: ObjectName,
    hash: [u8; 32],
    bytes_max: u64,
    /// `segments` or `revisions`, the folder in it, and the name.
    to: (&'static str, Option<String>, String),
    /// Of a segment whose content may stay where it is.
    segment: Option<PublishedSegment>,
}

/// What came of one of them, with its bytes.
enum Came {
    /// An earlier attempt had brought it.
    Before(u64),
    Whole(u64),
    InPart(Partly),
}

/// What was brought down.
#[derive(Default)]
pub(crate) struct Download {
    /// Objects that came now, and their bytes; those of an earlier attempt are not counted.
    pub(crate) objects: u64,
    /// See `objects`.
    pub(crate) bytes: u64,
    /// Segments whose content stayed at the remote.
    pub(crate) left: Vec<Outline>,
}

/// Brings down what is live and not here yet. With `sealer` content of files stays where it is, as far as it can.
pub(crate) fn download(
    remote: &dyn Remote,
    folder: &Folder,
    live: &Live,
    sealer: Option<&BlockSealer>,
    told: &mut dyn FnMut(CloneProgress) -> GoOn,
) -> Result<Download> {
    let mut wanted = Vec::new();
    let mut progress = RemoteProgress::default();
    for segment in live.segments.values() {
        let id = hex::encode(&segment.id.0);
        progress.bytes_total += segment.len;
        wanted.push(Wanted {
            object: segment_name(&segment.hash),
            hash: segment.hash,
            bytes_max: segment.len.min(SEGMENT_OBJECT_BYTES_MAX),
            to: (SEGMENTS, Some(id[..2].to_owned()), id),
            segment: Some(*segment),
        });
    }
    for revision in live.revisions.values() {
        let id = hex::encode(&revision.id);
        wanted.push(Wanted {
            object: revision_name(&revision.id, revision.epoch, &revision.hash),
            hash: revision.hash,
            bytes_max: REVISION_OBJECT_BYTES_MAX,
            to: (REVISIONS, None, format!("{id}.{}", revision.epoch.0)),
            segment: None,
        });
    }
    let held = folder.hold().map_err(failed())?;
    let mut nodes = sealer.map(|sealer| NodeSegments::new(&held, sealer));
    let mut download = Download::default();
    in_parallel(
        wanted.into_iter(),
        remote.transfers(),
        |one| bring(remote, &held, sealer, &one).map(|came| (came, one.bytes_max)),
        &mut |(came, bytes_max): (Came, u64)| {
            let (is_new, len) = match &came {
                Came::Before(len) => (false, *len),
                Came::Whole(len) => (true, *len),
                Came::InPart(part) => (true, part.bytes),
            };
            download.objects += u64::from(is_new);
            download.bytes += if is_new { len } else { 0 };
            progress.bytes += match &came {
                Came::InPart(_) => bytes_max,
                Came::Before(len) | Came::Whole(len) => *len,
            };
            progress.bytes = progress.bytes.min(progress.bytes_total);
            if let (Came::InPart(part), Some(nodes)) = (came, &mut nodes) {
                nodes.put(&part.nodes)?;
                download.left.push(part.outline);
            }
            go_on(told(CloneProgress::Down(progress)))
        },
    )?;
    if let Some(nodes) = nodes {
        nodes.sync()?;
    }
    Ok(download)
}

fn bring(
    remote: &dyn Remote,
    held: &HeldFolder,
    sealer: Option<&BlockSealer>,
    one: &Wanted,
) -> Result<Came> {
    let (kind, below_it, name) = &one.to;
    let into = held.folder(kind).map_err(failed())?;
    let into = match below_it {
        Some(below_it) => made(&into, below_it).map_err(failed())?,
        None => into,
    };
    // What an earlier attempt brought is read and compared, not fetched.
    if let Ok(Some(there)) = into.read(name, one.bytes_max)
        && object_hash(&there) == one.hash
    {
        return Ok(Came::Before(there.len() as u64));
    }
    if let (Some(sealer), Some(segment)) = (sealer, &one.segment)
        && let Some(part) = outline(remote, sealer, segment)?
    {
        return Ok(Came::InPart(part));
    }
    let found = remote.read(&one.object, one.bytes_max)?;
    let found = found.ok_or_else(|| strongroom_sync::Error::Missing {
        object: one.object.to_string(),
    })?;
    if object_hash(&found) != one.hash {
        return Err(Error::from(strongroom_sync::Error::Damaged {
            object: one.object.to_string(),
            why: "its content is not what was pushed",
        }));
    }
    into.replace(name, &found).map_err(failed())?;
    Ok(Came::Whole(found.len() as u64))
}

fn failed() -> impl FnOnce(strongroom_folder::Error) -> Error {
    below("writing files from the remote")
}

/// Makes the folders of segments and records, and removes there what an earlier attempt brought down and nobody publishes any more, or
/// took apart: it would come back to all.
pub(crate) fn make_room(folder: &Folder, live: &Live) -> Result<()> {
    let failed = || below("removing files of an earlier attempt");
    let held = folder.hold().map_err(failed())?;
    for kind in [SEGMENTS, REVISIONS] {
        held.make_folder(kind).map_err(failed())?;
    }
    held.sync().map_err(failed())?;
    let named = live.segments.values().map(|one| hex::encode(&one.id.0));
    let named: HashSet<String> = named.collect();
    let segments = held.folder(SEGMENTS).map_err(failed())?;
    for entry in segments.list().map_err(failed())? {
        let Ok(below_it) = segments.folder(&entry.name) else {
            continue;
        };
        for file in below_it.list().map_err(failed())? {
            if !named.contains(&file.name) {
                below_it.remove(&file.name).map_err(failed())?;
            }
        }
        below_it.sync().map_err(failed())?;
    }
    let record = |one: &PublishedRevision| format!("{}.{}", hex::encode(&one.id), one.epoch.0);
    let named: HashSet<String> = live.revisions.values().map(record).collect();
    let records = held.folder(REVISIONS).map_err(failed())?;
    for file in records.list().map_err(failed())? {
        if !named.contains(&file.name) {
            records.remove(&file.name).map_err(failed())?;
        }
    }
    records.sync().map_err(failed())
}

/// The folder of that name in `held`, made if it is missing.
fn made(held: &HeldFolder, name: &str) -> strongroom_folder::Result<HeldFolder> {
    if held.make_folder(name)? {
        held.sync()?;
    }
    held.folder(name)
}

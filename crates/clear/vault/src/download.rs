//! Brings down what a clone is made of.
//!
//! Takes   what is live at a remote, and the folder of a vault that is not finished
//! Gives   its segments and records, in their places; nothing else lies there then
//! Never   keeps an object whose hash is not the one that was published
//! Spec    spec/11-sync.md, 11.5

use std::collections::HashSet;

use strongroom_folder::Folder as HeldFolder;
use strongroom_format::hex;
use strongroom_format::publication::PublishedRevision;
use strongroom_remote::{ObjectName, Remote};
use strongroom_sync::limits::{REVISION_OBJECT_BYTES_MAX, SEGMENT_OBJECT_BYTES_MAX};
use strongroom_sync::{Live, in_parallel, object_hash, revision_name, segment_name};

use crate::clone::CloneProgress;
use crate::folder::{Folder, REVISIONS, SEGMENTS, below};
use crate::remotes::{RemoteProgress, go_on};
use crate::{Error, GoOn, Result};

/// One object to come down: its name, hash, greatest length, and where it goes.
struct Wanted {
    object: ObjectName,
    hash: [u8; 32],
    bytes_max: u64,
    /// `segments` or `revisions`, the folder in it, and the name.
    to: (&'static str, Option<String>, String),
}

/// Brings down what is live and not here yet; gives objects and bytes.
pub(crate) fn download(
    remote: &dyn Remote,
    folder: &Folder,
    live: &Live,
    told: &mut dyn FnMut(CloneProgress) -> GoOn,
) -> Result<(u64, u64)> {
    let failed = || below("writing what comes from the remote");
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
        });
    }
    for revision in live.revisions.values() {
        let id = hex::encode(&revision.id);
        wanted.push(Wanted {
            object: revision_name(&revision.id, revision.epoch, &revision.hash),
            hash: revision.hash,
            bytes_max: REVISION_OBJECT_BYTES_MAX,
            to: (REVISIONS, None, format!("{id}.{}", revision.epoch.0)),
        });
    }
    let held = folder.hold().map_err(failed())?;
    for kind in [SEGMENTS, REVISIONS] {
        held.make_folder(kind).map_err(failed())?;
    }
    held.sync().map_err(failed())?;
    let (mut objects, mut bytes) = (0, 0);
    in_parallel(
        wanted.into_iter(),
        remote.transfers(),
        |one| -> Result<(bool, u64)> {
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
                return Ok((false, there.len() as u64));
            }
            let found = remote.read(&one.object, one.bytes_max)?;
            let found = found.ok_or_else(|| strongroom_sync::Error::Missing {
                object: one.object.to_string(),
            })?;
            if object_hash(&found) != one.hash {
                return Err(Error::from(strongroom_sync::Error::Damaged {
                    object: one.object.to_string(),
                    why: "its bytes are others than were pushed",
                }));
            }
            into.replace(name, &found).map_err(failed())?;
            Ok((true, found.len() as u64))
        },
        &mut |(is_new, len): (bool, u64)| {
            progress.bytes = (progress.bytes + len).min(progress.bytes_total);
            objects += u64::from(is_new);
            bytes += if is_new { len } else { 0 };
            go_on(told(CloneProgress::Down(progress)))
        },
    )?;
    Ok((objects, bytes))
}

/// Removes what an earlier attempt brought down and nobody publishes any more: it would come back to all.
pub(crate) fn remove_strangers(folder: &Folder, live: &Live) -> Result<()> {
    let failed = || below("removing what an earlier attempt left");
    let held = folder.hold().map_err(failed())?;
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

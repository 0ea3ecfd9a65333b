//! The folder `incoming`: objects from a remote wait there until rows refer to them.
//!
//! Takes   objects, and their published hashes
//! Gives   names for the objects. Objects of an interrupted pull stay for the next one; files that it had already moved into place
//!         (see the list in (1)) and that have no row are removed at the next opening
//! Never   removes a file that a row refers to
//! Spec    spec/11-sync.md, 11.6
//!
//! Invariants
//!  (1) Before a file moves from here to its place, its name is durably in a list. The list is removed after the rows that refer to
//!      these files are durable.                                                                           [11.6.5]

use std::io::Read;

use strongroom_filesystem::Filesystem;
use strongroom_folder::{Folder as HeldFolder, Purpose};
use strongroom_format::limits::SEGMENT_BYTES_MAX;
use strongroom_format::{Epoch, SegmentId, hex};
use strongroom_sync::limits::PUBLICATION_OBJECT_BYTES_MAX;

use crate::folder::{Folder, INCOMING, REVISIONS, SEGMENTS, below};
use crate::{Error, Result};

/// The list of what is being put in place: a line each, `segment` or `revision` and its name.
const PLACING: &str = "placing";

/// Above every such list, in bytes.
const PLACING_BYTES_MAX: u64 = 64 << 20;

/// The epoch that a publication says it is sealed under: nothing proves it before it opens.
pub(crate) fn epoch_of(object: &[u8]) -> Epoch {
    let bytes = object.first_chunk().copied();
    Epoch(bytes.map_or(0, u32::from_le_bytes))
}

/// What a segment is called that came.
pub(crate) fn staged_segment(hash: &[u8; 32]) -> String {
    format!("segment-{}", hex::encode(hash))
}

/// What the record of a revision is called that came.
pub(crate) fn staged_revision(hash: &[u8; 32]) -> String {
    format!("revision-{}", hex::encode(hash))
}

/// What a publication is called that came: other processes may pull from other remotes meanwhile.
pub(crate) fn staged_publication(remote: &[u8; 16], number: u64) -> String {
    format!("publication-{}-{number}", hex::encode(remote))
}

/// Why something cannot be written here: if the folder is gone, another process has just ended a pull, and removed it.
pub(crate) fn not_staged(error: strongroom_folder::Error) -> Error {
    match error.is_missing() {
        true => Error::RemoteBusy,
        false => below("writing files from the remote")(error),
    }
}

/// A publication that came.
pub(crate) fn publication(
    folder: &Folder,
    remote: &[u8; 16],
    number: u64,
) -> Result<Option<Vec<u8>>> {
    let held = folder.inside(INCOMING).hold().map_err(not_staged)?;
    let name = staged_publication(remote, number);
    held.read(&name, PUBLICATION_OBJECT_BYTES_MAX)
        .map_err(failed())
}

/// Where a segment lies below the folder of segments.
pub(crate) fn placed_segment(id: SegmentId) -> String {
    let id = hex::encode(&id.0);
    format!("{}/{id}", &id[..2])
}

fn failed() -> impl FnOnce(strongroom_folder::Error) -> Error {
    below("moving files from the remote into place")
}

/// Puts segments and records where rows look for them, durably.                                               (1)
pub(crate) fn put_in_place<'a>(
    folder: &Folder,
    segments: impl Iterator<Item = (&'a SegmentId, &'a String)> + Clone,
    records: &[(String, Vec<u8>)],
) -> Result<()> {
    let incoming = folder.inside(INCOMING);
    incoming.make()?;
    // Before it is in the list: what is listed and has no row is removed by the next opening.
    make_way(folder, segments.clone())?;
    // What an attempt put in place that failed stays in the list.
    let before = incoming
        .hold()
        .and_then(|held| held.read(PLACING, PLACING_BYTES_MAX));
    let before = before.map_err(failed())?.unwrap_or_default();
    let mut list = String::from_utf8_lossy(&before).into_owned();
    for (id, _) in segments.clone() {
        list += &format!("segment {}\n", hex::encode(&id.0));
    }
    for (name, _) in records {
        list += &format!("revision {name}\n");
    }
    incoming.replace(PLACING, list.as_bytes())?;
    let vault = folder.hold().map_err(failed())?;
    let from = incoming.hold().map_err(failed())?;
    vault.make_folder(SEGMENTS).map_err(failed())?;
    let into = vault.folder(SEGMENTS).map_err(failed())?;
    let mut made = std::collections::BTreeMap::new();
    for (id, staged) in segments {
        let path = placed_segment(*id);
        let (below, name) = path.split_once('/').unwrap_or(("", &path));
        if !made.contains_key(below) {
            into.make_folder(below).map_err(failed())?;
            made.insert(below.to_owned(), into.folder(below).map_err(failed())?);
        }
        let target = &made[below];
        // An earlier attempt may have put it there.
        if target.check_file(name).map_err(failed())?.is_none() {
            from.move_to(staged, target, name).map_err(failed())?;
        }
    }
    for target in made.values() {
        target.sync().map_err(failed())?;
    }
    into.sync().map_err(failed())?;
    let kept = folder.inside(REVISIONS);
    kept.make()?;
    for (name, bytes) in records {
        kept.replace(name, bytes)?;
    }
    Ok(())
}

/// Sets aside files that have the name of a segment that came, and other bytes. An older copy of the database that was put back does not know
/// them. Rows would point into the wrong file; and what such a file holds may be nowhere else.
fn make_way<'a>(
    folder: &Folder,
    segments: impl Iterator<Item = (&'a SegmentId, &'a String)>,
) -> Result<()> {
    let from = folder.inside(INCOMING).hold().map_err(failed())?;
    let into = match folder.inside(SEGMENTS).hold() {
        Err(error) if error.is_missing() => return Ok(()),
        held => held.map_err(failed())?,
    };
    for (id, staged) in segments {
        let path = placed_segment(*id);
        let Some(here) = read_segment(&into, &path).map_err(failed())? else {
            continue;
        };
        // What did not come is here with the bytes that were published.
        let came = read_segment(&from, staged).map_err(failed())?;
        if came.is_some_and(|came| came != here) {
            folder.set_aside(&format!("{SEGMENTS}/{path}"))?;
            log::warn!(
                "the file `{SEGMENTS}/{path}`, of which the database does not know, is not the one of that name at the remote: it was moved to \
                 the folder `unexplained`"
            );
        }
    }
    Ok(())
}

/// Removes the folder of what came, when rows name what was put in place, or nothing was.
pub(crate) fn remove(folder: &Folder) -> Result<()> {
    let vault = folder.hold().map_err(failed())?;
    if vault.remove_tree(INCOMING).map_err(failed())? {
        vault.sync().map_err(failed())?;
    }
    Ok(())
}

/// Takes back what an interrupted pull put in place and no row names. What came stays, for the next pull.
pub(crate) fn take_back(folder: &Folder, filesystem: &Filesystem) -> Result<()> {
    let incoming = folder.inside(INCOMING);
    let Ok(held) = incoming.hold() else {
        return Ok(());
    };
    let Some(list) = held.read(PLACING, PLACING_BYTES_MAX).map_err(failed())? else {
        return Ok(());
    };
    let reader = filesystem.engine().reader()?;
    for line in String::from_utf8_lossy(&list).lines() {
        match line.split_once(' ') {
            Some(("segment", id)) => {
                let Some(id) = hex::decode::<16>(id).map(SegmentId) else {
                    continue;
                };
                let segments = folder.inside(SEGMENTS);
                if reader.segment_by_id(&id)?.is_none()
                    && let Ok(held) = segments.hold()
                {
                    let path = placed_segment(id);
                    let (below, name) = path.split_once('/').unwrap_or(("", &path));
                    if let Ok(held) = held.folder(below) {
                        held.remove(name).map_err(failed())?;
                        held.sync().map_err(failed())?;
                    }
                }
            }
            Some(("revision", name)) => {
                let id = name
                    .split_once('.')
                    .and_then(|(id, _)| hex::decode::<32>(id));
                if let Some(id) = id
                    && reader.revision(&id)?.is_none()
                {
                    let kept = folder.inside(REVISIONS);
                    kept.remove(name).map_err(failed())?;
                    kept.sync_if_there()?;
                }
            }
            _ => {}
        }
    }
    held.remove(PLACING).map_err(failed())?;
    held.sync().map_err(failed())
}

/// The content of a segment file; `None` if there is none. What lies behind its greatest length is nothing of a vault's, and
/// stays behind.
pub(crate) fn read_segment(
    held: &HeldFolder,
    path: &str,
) -> strongroom_folder::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let is_there = read_segment_into(held, path, &mut bytes)?;
    Ok(is_there.then_some(bytes))
}

/// The same in memory that may have held another one; gives whether there is a file.
pub(crate) fn read_segment_into(
    held: &HeldFolder,
    path: &str,
    bytes: &mut Vec<u8>,
) -> strongroom_folder::Result<bool> {
    let file = match held.open_file(path, Purpose::Read) {
        Err(error) if error.is_missing() => return Ok(false),
        opened => opened?,
    };
    let len = file.metadata()?.len().min(SEGMENT_BYTES_MAX);
    let len = usize::try_from(len).expect("a segment fits into memory");
    bytes.clear();
    if bytes.capacity() < len {
        // All at once, and not beside what it was: memory that grows takes up to three times as much meanwhile. A power of two, so that it
        // is enough for the next segment, too: most are nearly as long as they may be.
        *bytes = Vec::new();
        bytes.reserve_exact(len.next_power_of_two());
    }
    file.take(SEGMENT_BYTES_MAX).read_to_end(bytes)?;
    Ok(true)
}

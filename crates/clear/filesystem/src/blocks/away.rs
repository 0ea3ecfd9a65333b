//! Fetches the files of segments that are away: a remote has such a file, and this disk does not.
//!
//! Takes   the id of a segment whose file is missing
//! Gives   the whole file, fetched and checked; or that the segment is not away, so that the caller looks its blocks up again
//! Never   waits for a remote with a lock held, or stores a file that differs from the published one
//! Spec    spec/11-sync.md, 11.9
//!
//! Invariants
//!  (1) A fetched file is whole and durable before its row says that it is here.
//!  (2) Callers that need the same segment at the same time wait for one fetch, and all get its result.
//!  (3) A file is stored only while its segment is still away; until the file is stored, the lock `placing` keeps the segment
//!      from being removed.

use strongroom_format::SegmentId;
use strongroom_format::segment::{ScanTail, scan};
use strongroom_metadata::{Published, Segment, SegmentState};

use crate::core::away::Turn;
use crate::core::{AtRemote, Core, NotFetched};
use crate::{Error, Result};

impl From<NotFetched> for Error {
    fn from(why: NotFetched) -> Self {
        match why {
            NotFetched::Now(why) => Self::OnlyAtRemote(why),
            NotFetched::Ever(why) => Self::LostAtRemote(why),
        }
    }
}

/// Brings the file of `id` back; gives whether it is here now. `false`: it is not away. Take no locks: a remote is waited for.
///
/// # Errors
/// `OnlyAtRemote` if no remote can be asked now, `LostAtRemote` if none has it; `NoSpace`; of the stores.
pub(crate) fn bring_back(core: &Core, id: SegmentId) -> Result<bool> {
    bring_back_from(core, id, None)
}

/// The same; only from the remote of that number, if there is one.
pub(crate) fn bring_back_from(core: &Core, id: SegmentId, from: Option<u64>) -> Result<bool> {
    if !is_away(core, id)? {
        return Ok(false);
    }
    let duty = match core.away.turn(id) {
        Turn::Wait(fetch) => return Ok(fetch.wait()?),
        Turn::Fetch(duty) => duty,
    };
    let done = fetch_and_place(core, id, from);
    duty.end(match &done {
        Ok(is_here) => Ok(*is_here),
        Err(Error::LostAtRemote(why)) => Err(NotFetched::Ever(why.clone())),
        Err(Error::OnlyAtRemote(why)) => Err(NotFetched::Now(why.clone())),
        Err(error) => Err(NotFetched::Now(error.to_string())),
    });
    done
}

/// Whether a segment is away.
pub(crate) fn is_away(core: &Core, id: SegmentId) -> Result<bool> {
    let row = core.store.lock().segment_by_id(&id)?;
    Ok(row.is_some_and(|row| row.state == SegmentState::Away))
}

fn fetch_and_place(core: &Core, id: SegmentId, from: Option<u64>) -> Result<bool> {
    if core.options.read_only {
        let why = "the vault is open for reading only, and fetched content can be stored only in a vault that is open for writing";
        return Err(Error::OnlyAtRemote(why.to_owned()));
    }
    // An eviction that was cut off left it here.
    if core.blocks.segments.len(id).is_ok() {
        match place(core, id, None)? {
            Placed::Here => return Ok(true),
            Placed::NotAway => return Ok(false),
            // An eviction was about to remove it.
            Placed::Gone => {}
        }
    }
    let Some(row) = core.store.lock().segment_by_id(&id)? else {
        return Ok(false);
    };
    let mut places = places(core, &row)?;
    // What lay in it moved, and others let it go since: whoever asked finds that in another segment.
    if places.is_empty() && row.live_bytes == 0 {
        return Ok(false);
    }
    let Some(source) = &core.away.source else {
        let why = "this process cannot reach any remote";
        return Err(Error::OnlyAtRemote(why.to_owned()));
    };
    places.retain(|place| from.is_none_or(|number| place.remote.number == number));
    if !core.has_disk_room(row.committed_len) {
        return Err(Error::NoSpace);
    }
    let bytes = source.fetch(&places, &|bytes| is_whole(bytes, &row))?;
    let is_here = place(core, id, Some(&bytes))? == Placed::Here;
    if is_here {
        core.away.note_came();
    }
    Ok(is_here)
}

/// Where the segment is published, remotes in the order in which they were added.
fn places(core: &Core, row: &Segment) -> Result<Vec<AtRemote>> {
    let reader = core.store.reader()?;
    let mut places = Vec::new();
    for remote in reader.remotes()? {
        let published = reader.published(remote.number, Published::Segment(row.id.0))?;
        if let Some(how) = published.filter(|how| !how.is_let_go()) {
            let hash = how.hash;
            places.push(AtRemote { remote, hash });
        }
    }
    Ok(places)
}

/// Whether `bytes` are all of the segment: another device may have published something else under the same name.
fn is_whole(bytes: &[u8], row: &Segment) -> bool {
    scan(bytes).is_ok_and(|found| {
        let is_finished = matches!(found.tail, ScanTail::Finished(_));
        is_finished && found.end >= row.committed_len && found.header.id == row.id
    })
}

/// What came of putting a file in place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Placed {
    Here,
    /// The segment is not away any more.
    NotAway,
    /// There are no bytes, and the file is not here.
    Gone,
}

/// Puts the file in place if the segment is still away, and says that it is here. Without `bytes` it is there already. (1) (3)
fn place(core: &Core, id: SegmentId, bytes: Option<&[u8]>) -> Result<Placed> {
    let _gate = core.mutate()?;
    let _placing = core.blocks.placing.read();
    if !is_away(core, id)? {
        return Ok(Placed::NotAway);
    }
    match bytes {
        Some(bytes) => core.blocks.segments.replace(id, bytes)?,
        // Seen before the lock was taken: it may have gone since.
        None if core.blocks.segments.len(id).is_err() => return Ok(Placed::Gone),
        None => {}
    }
    let mut writer = core.store.lock();
    let row = writer.segment_by_id(&id)?;
    let Some(row) = row.filter(|row| row.state == SegmentState::Away) else {
        return Ok(Placed::NotAway);
    };
    writer.set_segment_state(row.number, SegmentState::Finished)?;
    core.changed();
    Ok(Placed::Here)
}

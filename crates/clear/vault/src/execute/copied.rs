//! Notices that another copy of this folder acts as the same device, and makes this copy a new device.
//!
//! Takes   verified publications; the request to become a new device
//! Gives   a mark, on which the next push acts. If segments of the other copy arrive under the names of segments here,
//!         the live content here is moved to other segments first, so that these names become free
//! Never   calls a copy an attack, or mistakes a publication of this copy for one of another copy
//! Spec    spec/11-sync.md, 11.10
//!
//! Invariants
//!  (1) A publication by the device of this copy was made by another copy if this copy did not seal it.       [11.10.1]

use strongroom_crypto::{Random, SystemRandom};
use strongroom_folder::Purpose;
use strongroom_format::publication::{PublishedSegment, SignedPublication};
use strongroom_format::{PrincipalId, SegmentId};
use strongroom_metadata::{Published, PublishedAs};
use strongroom_sync::{Live, RemoteState};

use crate::execute::evict::bring_back_retired;
use crate::execute::published::{change, rows, segment_files};
use crate::execute::session::{OpenVault, Session};
use crate::execute::standing::LET_GO;
use crate::folder::{Folder, INCOMING, below};
use crate::incoming::{placed_segment, staged_segment};
use crate::keyring::copied::{is_marked, mark, need_under_other_names, number_inodes};
use crate::{Error, Result};

/// Whether another copy may act as the same device.
pub(super) fn is_copied(session: &Session) -> Result<bool> {
    let device = session.vault.with_keys(|keys| keys.replica().device());
    is_marked(session.filesystem(), device)
}

fn is_by_this_device(session: &Session, signed: &SignedPublication) -> bool {
    let device = session.vault.with_keys(|keys| keys.replica().device());
    signed.body.device == device
}

/// Looks at a publication that was not taken in yet, of a remote for which this copy has sealed some. (1)
pub(super) fn look_at(
    session: &Session,
    state: &RemoteState,
    signed: &SignedPublication,
) -> Result<()> {
    let is_known = state.made.is_empty() || state.made.contains(&signed.id);
    match !is_known && is_by_this_device(session, signed) && !is_known_elsewhere(session, signed)? {
        true => note(session, signed.body.device),
        false => Ok(()),
    }
}

/// Whether this copy has made a publication, or looked at it, under another name that it has for the same remote.
fn is_known_elsewhere(session: &Session, signed: &SignedPublication) -> Result<bool> {
    let mut same = rows(session)?.into_iter();
    Ok(same.any(|row| {
        let state = RemoteState::decode(&row.state).filter(|_| row.id == signed.body.remote.0);
        state.is_some_and(|state| {
            let was_looked_at = !state.made.is_empty() && state.last.0 >= signed.body.number;
            was_looked_at || state.made.contains(&signed.id)
        })
    }))
}

/// Notes that another copy acts as `device` too.
fn note(session: &Session, device: PrincipalId) -> Result<()> {
    if is_marked(session.filesystem(), device)? {
        return Ok(());
    }
    let mut random = [0; 16];
    SystemRandom.fill(&mut random)?;
    change(session, |writer| need_under_other_names(writer, random))?;
    mark(session.filesystem(), device)
}

/// The same of all that came, of a remote for which this copy has sealed none: it may be one that was here before and was added again.
/// Then the newest state that its device published is known here. Before anything that came is counted.
pub(super) fn look_at_first(
    session: &Session,
    state: &RemoteState,
    signed: &[SignedPublication],
) -> Result<()> {
    if !state.made.is_empty() {
        return Ok(());
    }
    let mut newest_first = signed.iter().rev();
    let newest = newest_first.find(|one| {
        let body = &one.body;
        body.number > state.last.0 && body.head != [0; 32] && is_by_this_device(session, one)
    });
    let Some(newest) = newest else {
        return Ok(());
    };
    let reader = session.filesystem().engine().reader()?;
    let is_known = reader.revision(&newest.body.head)?.is_some();
    drop(reader);
    match is_known {
        true => Ok(()),
        false => note(session, newest.body.device),
    }
}

/// Removes segments that another copy of this folder wrote on after the copy was made: they came with its name and other bytes, and take
/// the place. What lives in them here moves first, as it is sealed. `remote`: that from which they came.      [11.10.5]
pub(super) fn give_way(session: &Session, folder: &Folder, remote: u64, live: &Live) -> Result<()> {
    let filesystem = session.filesystem();
    let incoming = folder.inside(INCOMING).hold();
    let incoming = incoming.map_err(below("examining files from the remote"))?;
    // What is here with the bytes that were published did not come.
    let has_come = |segment: &&PublishedSegment| {
        let came = incoming.check_file(&staged_segment(&segment.hash));
        matches!(came, Ok(Some(_)))
    };
    let came: Vec<&PublishedSegment> = live.segments.values().filter(has_come).collect();
    for segment in &came {
        // It is found by what is noted of other remotes.
        bring_back_retired(session, segment.id, remote)?;
    }
    // Before the first of them is in its place: a cut in between must not leave it taken for published.
    mark_other_bytes(session, remote, &came)?;
    let reader = filesystem.engine().reader()?;
    let mut others: Vec<SegmentId> = Vec::new();
    for segment in came {
        if reader.segment_by_id(&segment.id)?.is_some() {
            others.push(segment.id);
        }
    }
    drop(reader);
    if others.is_empty() {
        return Ok(());
    }
    // One that was open when the folder was copied is open here still.
    filesystem.end_segments()?;
    for id in &others {
        // What does not open stays, and so does the segment.
        filesystem.vacate(*id)?;
    }
    filesystem.drop_empty_segments()?;
    // A file that somebody keeps, a push or a backup, would be taken for the one that came.
    let (reader, files) = (filesystem.engine().reader()?, segment_files(session)?);
    for id in others {
        let row = reader.segment_by_id(&id)?;
        let is_empty = row.is_some_and(|row| row.live_bytes == 0);
        if is_empty && files.open_file(&placed_segment(id), Purpose::Read).is_ok() {
            return Err(Error::RemoteBusy);
        }
    }
    Ok(())
}

/// Marks at other remotes what they have with such a name and other bytes as let go: before anything is published there, what lives in
/// the one that came moves to segments with names of their own.
fn mark_other_bytes(session: &Session, remote: u64, came: &[&PublishedSegment]) -> Result<()> {
    let reader = session.filesystem().engine().reader()?;
    let mut marks = Vec::new();
    for row in reader.remotes()?.iter().filter(|row| row.number != remote) {
        for segment in came {
            let item = Published::Segment(segment.id.0);
            let how = reader.published(row.number, item)?;
            let other = how.filter(|how| !how.is_let_go() && how.hash != segment.hash);
            marks.extend(other.map(|how| {
                let hash = LET_GO;
                (row.number, item, PublishedAs { hash, ..how })
            }));
        }
    }
    drop(reader);
    if marks.is_empty() {
        return Ok(());
    }
    change(session, |writer| {
        let mut marks = marks.into_iter();
        marks.try_for_each(|(number, item, how)| writer.put_published(number, item, how))
    })
}

impl OpenVault {
    /// Goes on as a new device. `newest`: a header of a remote in which the device of this copy was replaced.    [11.10.2]
    pub(crate) fn become_new_device(&self, newest: Option<&[u8]>) -> Result<()> {
        if newest.is_some() {
            // The database gets another key.
            self.filesystem.wait_for_readers();
        }
        self.on_keys(|keys| keys.become_new_device(newest, &self.filesystem))?;
        self.with_keys(|keys| number_inodes(keys.keyring(), &self.filesystem))?;
        let (oldest, newest) = self.epochs();
        if oldest != newest {
            self.seal_again()?;
        }
        log::warn!(
            "another copy of this vault folder uses the same device keys, so this copy got new ones and is a device of its own from now on; \
             `strongroom device list` shows both"
        );
        Ok(())
    }
}

//! What the owner knows of a remote without asking it: what waits to be pushed, what is only there, who published last.
//!
//! Takes   the number of a remote; when it answered
//! Gives   the state of that remote, from the rows about it
//! Never   commits anything for a look that found nothing new, unless a person asked for that look
//! Spec    spec/4-metadata.md, 4.14
//!
//! Invariants
//!  (1) The time of a remote's last answer is stored together with other facts about that remote. By itself it is stored only if the
//!      caller says so, and at most once an hour.

use strongroom_metadata::{Published, SegmentState, has_no_file};
use strongroom_sync::RemoteState;

use crate::execute::published::{change_state, remote_of};
use crate::execute::session::Session;
use crate::execute::waiting::is_waiting;
use crate::request::remote::StatusFields;
use crate::{Error, Result};

/// A contact that is this much later than the stored one is stored for its own sake, in seconds.                        (1)
const CONTACT_APART_S: u64 = 60 * 60;

/// What is known of that remote.
pub(super) fn status(session: &Session, number: u64) -> Result<StatusFields> {
    let filesystem = session.filesystem();
    let (_, state) = remote_of(session, number)?;
    let head = (state.head != [0; 32]).then_some(&state.head);
    // A damaged snapshot, or nodes that lie at a remote which is away, hide the number and nothing else.
    let waiting_files = filesystem
        .files_changed_since(head)
        .unwrap_or_else(|error| {
            log::debug!("counting the files that wait for a remote: {error}");
            None
        });
    let is_waiting = is_waiting(session, number)?;
    let mut status = StatusFields {
        is_waiting,
        waiting_bytes: 0,
        waiting_files: if is_waiting { waiting_files } else { Some(0) },
        away_bytes: 0,
        alone_bytes: 0,
        contact_s: contact(session, number, &state),
        newest: (state.newest.iter())
            .map(|one| (one.device.0, one.number, one.time_s))
            .collect(),
    };
    let reader = filesystem.engine().reader()?;
    let remotes = reader.remotes()?;
    status.waiting_bytes = reader.waiting_bytes()?;
    for row in reader.segments()? {
        if row.live_bytes == 0 || has_no_file(&row.id) {
            continue;
        }
        let has = |remote: u64| -> Result<bool> {
            let how = reader.published(remote, Published::Segment(row.id.0))?;
            Ok(how.is_some_and(|how| !how.is_let_go()))
        };
        let is_there = has(number)?;
        if row.state != SegmentState::Away {
            status.waiting_bytes += if is_there { 0 } else { row.live_bytes };
        } else if is_there {
            let mut is_elsewhere = false;
            for other in remotes.iter().filter(|other| other.number != number) {
                is_elsewhere |= has(other.number)?;
            }
            status.away_bytes += row.live_bytes;
            status.alone_bytes += if is_elsewhere { 0 } else { row.live_bytes };
        }
    }
    Ok(status)
}

/// When it answered last: what this process knows is later than what is stored.
fn contact(session: &Session, number: u64, state: &RemoteState) -> u64 {
    let contacts = session.vault.contacts.lock();
    contacts.get(&number).copied().unwrap_or(state.contact_s)
}

/// Notes when that remote answered. `stores`: durably, if the last time that is stored is long ago.                     (1)
pub(super) fn note_contact(session: &Session, number: u64, at_s: u64, stores: bool) -> Result<()> {
    session.vault.contacts.lock().insert(number, at_s);
    if !stores {
        return Ok(());
    }
    let state = match remote_of(session, number) {
        // Somebody removed it meanwhile.
        Err(Error::UnknownRemote(_)) => return Ok(()),
        found => found?.1,
    };
    // Also if the clock was wrong then, and ahead.
    if state.contact_s.abs_diff(at_s) < CONTACT_APART_S {
        return Ok(());
    }
    change_state(session, number, |state| RemoteState {
        contact_s: at_s,
        ..state
    })
}

//! Replays the intent log of an earlier run after a crash.
//!
//! Takes   the bytes of the log, and what the database records about it
//! Gives   the files as their last small syncs left them; whether an acknowledged record is lost
//! Never   replays a record over a version that it does not build on, or calls a torn write a loss
//! Spec    spec/8-intents.md, section 8.3; the invariants are those of `intents.rs`

use std::io::{self, ErrorKind};

use strongroom_format::intent::{
    FIRST_INTENT_OFFSET, FoundLog, Intent, IntentVersion, LoggedIntent, encode_header, scan,
};
use strongroom_format::{Epoch, Kind};
use strongroom_metadata::{InodeId, NodeKind, Timestamp};
use strongroom_segments::{IntentLog, WholeLog};

use crate::commit::commits::commit_all;
use crate::commit::intents::{forget, keep_unreadable, of_disk};
use crate::core::Core;
use crate::core::intents::{Named, Replay, ReplayFault, SETTING};
use crate::drain::drains::drain_all;
use crate::limits::FILE_BYTES_MAX;
use crate::{Error, Result};

/// Lays what the log of an earlier run tells over what the database has, and stores it.
pub(crate) fn replay(core: &Core) -> Result<()> {
    let Some(folder) = &core.durability.intents.folder else {
        return Ok(());
    };
    // Something else in its place is no loss of what was synced, and nothing that goes by itself.
    IntentLog::check(folder).map_err(of_disk)?;
    let known = core.store.lock().setting(SETTING)?.unwrap_or_default();
    if known.is_empty() {
        // Left by a run that ended between the two steps of `make` or of `forget`.
        let _ = IntentLog::remove(folder);
        return Ok(());
    }
    let mut replay = match found_log(IntentLog::read(folder))? {
        Ok(log) => lay_over(core, log, &known)?,
        Err(fault) => with_fault(fault),
    };
    match rest(&mut replay, stored(core))? {
        Rest::Forget => {
            keep_unreadable(folder, &replay);
            forget(core)?;
        }
        Rest::Wait => {
            let mut log = core.durability.intents.log.lock();
            log.is_unusable = true;
            // Its records count until these are stored.
            let dirty = core.content.dirty_nodes().into_iter();
            log.nodes = dirty.map(|node| (node.id, node)).collect();
            log.oldest = Some(Epoch(0));
        }
    }
    *core.durability.intents.replay.lock() = replay;
    Ok(())
}

/// What becomes of a log that was replayed.
#[derive(Debug, PartialEq, Eq)]
enum Rest {
    /// It is stored: nobody needs the log any more.
    Forget,
    /// There is no room for it: the log stays.
    Wait,
}

/// What becomes of the log, by what came of storing what it held. That there is no room hides no loss.
fn rest(replay: &mut Replay, stored: Result<()>) -> Result<Rest> {
    match stored {
        Ok(()) => Ok(Rest::Forget),
        Err(Error::NoSpace | Error::QuotaExceeded) => {
            replay.waits_for_room = true;
            Ok(Rest::Wait)
        }
        Err(error) => Err(error),
    }
}

fn stored(core: &Core) -> Result<()> {
    drain_all(core)?;
    commit_all(core)
}

fn with_fault(fault: ReplayFault) -> Replay {
    Replay {
        fault: Some(fault),
        ..Replay::default()
    }
}

/// The log that was read, or what is wrong with it.
///
/// # Errors
/// What says nothing of the log, as that there is no memory: opening fails, the log stays, and the next opening replays it.
fn found_log(
    read: io::Result<Option<WholeLog>>,
) -> Result<std::result::Result<WholeLog, ReplayFault>> {
    match read {
        Ok(log) => Ok(log.ok_or(ReplayFault::Missing)),
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok(Err(ReplayFault::Damaged)),
        Err(error) => Err(of_disk(error)),
    }
}

fn lay_over(core: &Core, mut log: WholeLog, known: &[u8]) -> Result<Replay> {
    let named = Named::decode(known);
    if let Some(named) = named {
        replace_lost_header(&mut log, named);
    }
    let found = match (named, scan(&log.bytes)) {
        (Some(named), Ok(found)) if (found.id, found.version) == (named.id, named.version) => {
            Found::of(core, named, &found, log.unreadable)
        }
        _ => return Ok(with_fault(ReplayFault::Damaged)),
    };
    let mut replay = Replay {
        fault: found.fault,
        ..Replay::default()
    };
    lay_each_over(&mut replay, &found.intents, |intent| {
        lay_one_over(core, intent)
    })?;
    Ok(replay)
}

/// Replays each of `intents` by `lay`, which gives whether one changed anything. One that cannot be replayed, as where the row of its file is
/// damaged, hinders none of other files; those that build on it leave themselves out, by (1). One whose row the disk does not give ends it: the
/// connection reads nothing more, also at the next opening, and a bad sector must not keep the vault from being opened.       [8.10]
///
/// # Errors
/// What says nothing of a record.
fn lay_each_over(
    replay: &mut Replay,
    intents: &[Intent],
    lay: impl Fn(&Intent) -> Result<bool>,
) -> Result<()> {
    for intent in intents {
        match lay(intent) {
            Ok(has_told) => replay.records += usize::from(has_told),
            Err(error) if is_of_process(&error) => return Err(error),
            Err(error) => {
                replay.fault = Some(ReplayFault::Record);
                if matches!(error, Error::Metadata(strongroom_metadata::Error::Disk(_))) {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Whether the process lacks something, or can read the database no more: the next opening may find all as it was written.
fn is_of_process(error: &Error) -> bool {
    use strongroom_metadata::Error as Below;
    matches!(
        error,
        Error::Failed
            | Error::Metadata(
                Below::OutOfMemory
                    | Below::Disk(ErrorKind::OutOfMemory)
                    | Below::ReadFailed
                    | Below::Busy
            )
    )
}

/// Puts the header of the log that the database names in the place of one that the disk has lost: each record says by itself to
/// which log it belongs.
fn replace_lost_header(log: &mut WholeLog, named: Named) {
    let len = log.bytes.len();
    if log.unreadable > 0
        && let Some(header) = log.bytes.get_mut(..FIRST_INTENT_OFFSET)
        && header.iter().all(|byte| *byte == 0)
    {
        header.copy_from_slice(&encode_header(named.id, len));
    }
}

/// What of a log counts.
struct Found {
    /// In the order of their numbers.
    intents: Vec<Intent>,
    fault: Option<ReplayFault>,
}

impl Found {
    /// `unreadable`: sectors that the disk has lost.
    fn of(core: &Core, named: Named, log: &FoundLog<'_>, unreadable: usize) -> Self {
        let mut intents = Vec::new();
        let is_intact = log.is_intact && unreadable == 0;
        let mut fault = (!is_intact).then_some(ReplayFault::Lost);
        for logged in log
            .records
            .iter()
            .filter(|one| one.sequence > named.settled)
        {
            match open(core, log.version, logged) {
                Ok(intent) => intents.push(intent),
                Err(_) => {
                    fault = Some(ReplayFault::Record);
                    if log.version == IntentVersion::Told {
                        break;
                    }
                }
            }
        }
        if log.version == IntentVersion::Told {
            return Self { intents, fault };
        }
        intents.sort_by_key(|intent| intent.number);
        intents.dedup_by_key(|intent| intent.number);
        let numbers = (named.settled + 1..).zip(&intents);
        let in_a_row = numbers.take_while(|(number, intent)| intent.number == *number);
        let in_a_row = in_a_row.count();
        let said = intents.iter().map(|intent| intent.acknowledged).max();
        let acknowledged = said.unwrap_or(0).max(named.acknowledged);
        // (5)
        if acknowledged > named.settled.saturating_add(in_a_row as u64) {
            fault = fault.or(Some(ReplayFault::Lost));
        }
        if fault.is_none() {
            // What lies behind a gap was on its way when the power failed: nobody was told that it is there.
            intents.truncate(in_a_row);
        }
        Self { intents, fault }
    }
}

/// The intent of a record, if its number is the one that was sealed.
fn open(core: &Core, version: IntentVersion, logged: &LoggedIntent<'_>) -> Result<Intent> {
    let sealer = core.blocks.sealers.newest();
    let clear = sealer
        .open_record(logged.epoch, Kind::Intent, logged.sealed)
        .map_err(|_| Error::Failed)?;
    let intent = Intent::decode(version, &clear).map_err(|_| Error::Failed)?;
    match version {
        IntentVersion::Sectors if intent.number != logged.sequence => Err(Error::Failed),
        _ => Ok(intent),
    }
}

/// Gives whether the record told anything that the database does not have.
fn lay_one_over(core: &Core, intent: &Intent) -> Result<bool> {
    let node = match core.node(InodeId(intent.inode)) {
        // Removed since, with all that was to be known of it.
        Err(Error::Stale | Error::ReadOnly) => return Ok(false),
        node => node?,
    };
    let mut state = node.lock();
    let version = state.inode.content_version;
    let is_it = state.inode.kind == NodeKind::File && state.inode.birth_id == intent.birth_id;
    // (1)
    if state.purged || !is_it || !(intent.base..intent.version).contains(&version) {
        return Ok(false);
    }
    let before = state.active.cost();
    for (offset, bytes) in &intent.pieces {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > FILE_BYTES_MAX {
            return Err(Error::FileTooLarge);
        }
        state.active.write(*offset, bytes);
        core.content.end_reservation(&mut state, &(*offset..end));
        state.inode.size = state.inode.size.max(end);
    }
    core.content.recount(before, state.active.cost());
    state.inode.content_version = intent.version;
    // Attributes that were set later than the record stay as they were set.
    if state.inode.ctime.0 <= intent.ctime {
        state.inode.mtime = Timestamp(intent.mtime);
        state.inode.ctime = Timestamp(intent.ctime);
    }
    state.changed();
    core.content.list_dirty(&node, &mut state);
    drop(state);
    core.changed();
    Ok(true)
}

impl crate::Filesystem {
    /// What opening found in the intent log of an earlier run.
    #[must_use]
    pub fn replay(&self) -> Replay {
        *self.core.durability.intents.replay.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failed before: a full disk was said in the place of the loss, with the words that nothing was lost, and the log went when there
    /// was room.
    /// SECURITY.md, claim 14.
    #[test]
    fn a_full_disk_hides_no_loss_in_the_log() {
        for fault in [None, Some(ReplayFault::Lost), Some(ReplayFault::Record)] {
            let mut replay = Replay {
                records: 3,
                fault,
                ..Replay::default()
            };
            assert!(matches!(rest(&mut replay, Ok(())), Ok(Rest::Forget)));
            assert_eq!((replay.fault, replay.waits_for_room), (fault, false));
            for full in [Error::NoSpace, Error::QuotaExceeded] {
                assert!(matches!(rest(&mut replay, Err(full)), Ok(Rest::Wait)));
                assert_eq!((replay.fault, replay.waits_for_room), (fault, true));
            }
            assert!(rest(&mut replay, Err(Error::Failed)).is_err());
        }
    }

    /// Failed before: any error of reading the log let all of it go, as damaged.
    #[test]
    fn what_says_nothing_of_the_log_ends_the_opening() {
        use rustix::io::Errno;
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::ACCESS] {
            let read = Err(errno.into());
            assert!(found_log(read).is_err(), "{errno}");
        }
        let odd = Err(ErrorKind::InvalidData.into());
        let found = found_log(odd).expect("says something of the log");
        assert_eq!(found.err(), Some(ReplayFault::Damaged));
        let found = found_log(Ok(None)).expect("says something of the log");
        assert_eq!(found.err(), Some(ReplayFault::Missing));
    }

    /// Goal: damage to the row of one file costs no other file what its small syncs told; and no memory for a look costs nobody anything.
    /// Failed before: what stood behind the first record that could not be replayed was left out, and the log forgotten.
    #[test]
    fn a_record_that_cannot_be_laid_over_hinders_no_other() {
        use strongroom_metadata::Error as Below;
        let intent = |inode| Intent {
            number: inode,
            acknowledged: 0,
            inode,
            birth_id: 0,
            base: 0,
            version: 1,
            mtime: 0,
            ctime: 0,
            pieces: Vec::new(),
        };
        let intents = [intent(1), intent(2), intent(3)];
        let mut replay = Replay::default();
        lay_each_over(&mut replay, &intents, |one| match one.inode {
            1 => Err(Below::Damaged("a row").into()),
            number => Ok(number == 3),
        })
        .expect("says something of a record");
        assert_eq!(
            (replay.records, replay.fault),
            (1, Some(ReplayFault::Record))
        );
        let none = || Error::from(Below::OutOfMemory);
        let ended = lay_each_over(&mut replay, &intents, |_| Err(none()));
        assert!(ended.is_err(), "the opening ends, and the log stays");
    }

    /// Goal: a bad sector under the row of a file that the log names keeps no vault from being opened. Method: the disk does not give the row
    /// of the first, and the connection reads nothing more.
    /// Failed before: the second ended the opening, and every later one.
    #[test]
    fn a_row_that_the_disk_does_not_give_does_not_end_the_opening() {
        use strongroom_metadata::Error as Below;
        let intent = |inode| Intent {
            number: inode,
            acknowledged: 0,
            inode,
            birth_id: 0,
            base: 0,
            version: 1,
            mtime: 0,
            ctime: 0,
            pieces: Vec::new(),
        };
        let mut replay = Replay::default();
        lay_each_over(&mut replay, &[intent(1), intent(2)], |one| {
            Err(match one.inode {
                1 => Below::Disk(ErrorKind::Other).into(),
                _ => Below::ReadFailed.into(),
            })
        })
        .expect("the vault opens");
        assert_eq!(
            (replay.records, replay.fault),
            (0, Some(ReplayFault::Record))
        );
    }

    /// Failed before: with the sector of the header all records were lost.
    #[test]
    fn a_header_that_cannot_be_read_costs_no_record() {
        use strongroom_format::intent::{IntentLogId, encode_record};
        use strongroom_format::limits::SECTOR_BYTES;
        let named = Named {
            id: IntentLogId([7; 16]),
            version: IntentVersion::Sectors,
            settled: 0,
            acknowledged: 0,
        };
        let record = encode_record(named.id, 1, Epoch(0), &[9; SECTOR_BYTES - 64]);
        let bytes = [vec![0; FIRST_INTENT_OFFSET], record].concat();
        let mut log = WholeLog {
            bytes,
            unreadable: 1,
        };
        replace_lost_header(&mut log, named);
        let found = scan(&log.bytes).expect("a log");
        assert_eq!((found.id, found.records.len()), (named.id, 1));
        // Zeros that were read are damage.
        log.bytes[..FIRST_INTENT_OFFSET].fill(0);
        log.unreadable = 0;
        replace_lost_header(&mut log, named);
        assert!(scan(&log.bytes).is_err());
    }
}

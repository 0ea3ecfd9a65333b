//! Makes a small `fsync` durable by one write to the intent log, instead of a commit of the database.
//!
//! Takes   the ranges written to a file since it was last durable
//! Gives   a durable sealed record of them; after a crash, replay restores the file from it
//! Never   records anything but bytes written to a file that is already durable: every other change needs a commit
//! Spec    spec/8-intents.md
//!
//! How. `upkeep/sync.rs` asks for a record first, and commits only if `sync` here says that a record cannot hold the
//! change. `content/unlogged.rs` (`note_write`, `fits`) decides what a record can hold: only written bytes, at most 64
//! KiB in 64 ranges. The written bytes also stay in the node's overlay, as if nobody had synced, and are drained later
//! together with others. When the log is full, or the timer finds it half full, all nodes with records are drained
//! and committed, and the log starts from its beginning again.
//!
//! Invariants
//!  (1) A record builds on a content version that is durable by a commit or by the record before. It holds every
//!      byte written since that version. So a replay may apply it to that stored version or any later one, and
//!      to no earlier one.                                                                                        [8.5]
//!  (2) The bytes of a record are in `NodeState::active` when the record is made. If a drain took bytes that are in no
//!      record, the node gets no further record until a commit has stored those bytes.
//!  (3) The log starts again only when a durable commit holds everything in its records.                      [8.6]
//!  (4) Records of one node are in the log in the order of their versions, because they are made under the log's lock.
//!  (5) A record counts if its number is above `settled` in the database. A missing record is a loss if the database or
//!      another record says that this or a later record was acknowledged.                                        [8.10]
//!
//! The lock of the log comes before all others (see the head of `core.rs`): it is never taken while another is held.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use std::path::Path;

use strongroom_crypto::record::padded_len;
use strongroom_format::intent::{
    FIRST_INTENT_OFFSET, INTENT_HEAD_BYTES, Intent, IntentLogId, IntentVersion, encode_record,
};
use strongroom_format::{Epoch, Kind};
use strongroom_segments::IntentLog;

use crate::commit::commits::commit_all;
use crate::content::node::{Node, NodeState};
use crate::content::overlay::Part;
use crate::core::intents::{Log, Named, Replay, ReplayFault, SETTING};
use crate::core::{Core, Work};
use crate::drain::drains::drain_grouped;
use crate::limits::INTENT_NOISE_BYTES;
use crate::{Error, Result};

/// Makes what was written to `node` durable by a record; false if only a commit can.
///
/// # Errors
/// `Failed`, now or from now on, if the disk does not say what became of the record.
pub(crate) fn sync(core: &Core, node: &Arc<Node>) -> Result<bool> {
    core.durability.check()?;
    let told = {
        let state = node.lock();
        if core.durability.intents.folder.is_none()
            || !state.unlogged.fits(core.durability.durable())
        {
            return Ok(false);
        }
        let is_told = state.unlogged.ranges.is_empty();
        is_told.then_some(state.unlogged.sequence)
    };
    let told = match told {
        None => record(core, node)?,
        told => told,
    };
    match told {
        Some(sequence) => sync_to(core, sequence),
        None => Ok(false),
    }
}

/// Writes a record, if it is needed; gives the number of the node's last one, 0 if it has none.
fn record(core: &Core, node: &Arc<Node>) -> Result<Option<u64>> {
    let mut log = core.durability.intents.log.lock();
    if log.is_unusable || !is_ready(core, &mut log)? {
        return Ok(None);
    }
    Ok(record_in(core, &mut log, node))
}

/// The same in a log with room for it; `None` if only a commit can make durable what changed.
fn record_in(core: &Core, log: &mut Log, node: &Arc<Node>) -> Option<u64> {
    let sequence = log.sequence + 1;
    let intent = match take(node, core.durability.durable(), sequence)? {
        (Some(intent), _) => intent,
        // All of it is durable, or in the last record.
        (None, last) => return Some(last),
    };
    let _doing = core.options.doing(Work::Logging);
    let intent = Intent {
        acknowledged: core.durability.intents.acknowledged.load(Ordering::Acquire),
        ..intent
    };
    match append(core, log, sequence, &intent) {
        Ok(()) => {
            log.sequence = sequence;
            log.nodes.insert(node.id, Arc::clone(node));
            core.durability.intents.made.fetch_add(1, Ordering::Relaxed);
            Some(sequence)
        }
        Err(_) => {
            // What it would have held is in memory, and a commit can store it. Records before it stay good.
            node.lock().unlogged.note_other();
            log.is_unusable = true;
            None
        }
    }
}

/// Whether there is a log that the database durably knows, with room for the longest record. Makes one, or starts it over.
fn is_ready(core: &Core, log: &mut Log) -> Result<bool> {
    if log.file.is_none() {
        // The commit that the caller makes instead also makes the new log known to the database.
        log.is_unusable = make(core, log).is_err();
        return Ok(false);
    }
    if log.known_at > core.durability.durable() {
        return Ok(false);
    }
    if log.has_room() {
        return Ok(true);
    }
    match begin_anew(core, log) {
        Ok(()) => Ok(true),
        Err(Error::Failed) => Err(Error::Failed),
        // The commit that the caller turns to meets the same, and tells it.
        Err(_) => Ok(false),
    }
}

fn make(core: &Core, log: &mut Log) -> Result<()> {
    let Some(folder) = &core.durability.intents.folder else {
        return Err(Error::ReadOnly);
    };
    let mut id = [0; 16];
    core.random.fill(&mut id)?;
    let len = core.options.thresholds.intent_log_bytes;
    core.admit(len as u64)?;
    let file = IntentLog::create(folder, IntentLogId(id), len, &noise(core)?);
    let file = file.map_err(of_disk)?;
    let named = Named {
        id: file.id(),
        version: IntentVersion::Sectors,
        settled: log.sequence,
        acknowledged: log.sequence,
    };
    name(core, named)?;
    log.known_at = core.durability.changes();
    log.end = FIRST_INTENT_OFFSET;
    log.file = Some(Arc::new(file));
    Ok(())
}

/// What unused room of a log holds, over and over.
fn noise(core: &Core) -> Result<Vec<u8>> {
    let mut noise = vec![0; INTENT_NOISE_BYTES];
    strongroom_crypto::noise(core.random.as_ref(), &mut noise)?;
    Ok(noise)
}

/// Says in the database what counts; durable with the next commit.
fn name(core: &Core, named: Named) -> Result<()> {
    let mut writer = core.store.lock();
    writer.put_setting(SETTING, &named.encode())?;
    *core.durability.intents.named.lock() = Some(named);
    core.changed();
    Ok(())
}

/// (3): all that the records tell goes into a commit; then their place is free.
fn begin_anew(core: &Core, log: &mut Log) -> Result<()> {
    drain_grouped(core, log.nodes.values().cloned().collect())?;
    let named = *core.durability.intents.named.lock();
    if let Some(named) = named.filter(|named| named.settled < log.sequence) {
        // In one commit with the content. (5)
        let (settled, acknowledged) = (log.sequence, log.sequence);
        name(
            core,
            Named {
                settled,
                acknowledged,
                ..named
            },
        )?;
    }
    commit_all(core)?;
    log.nodes.clear();
    log.end = FIRST_INTENT_OFFSET;
    Ok(())
}

/// The intent to log for `node`, none if nothing changed, and the number of its last record; `None` if no record can hold it.
fn take(node: &Node, durable: u64, sequence: u64) -> Option<(Option<Intent>, u64)> {
    let mut state = node.lock();
    if state.purged || !state.unlogged.fits(durable) {
        return None;
    }
    if state.unlogged.ranges.is_empty() {
        return Some((None, state.unlogged.sequence));
    }
    let Some(pieces) = pieces(&state) else {
        state.unlogged.note_other();
        return None;
    };
    let intent = Intent {
        number: sequence,
        acknowledged: 0,
        inode: node.id.0,
        birth_id: state.inode.birth_id,
        base: state.unlogged.base,
        version: state.inode.content_version,
        mtime: state.inode.mtime.0,
        ctime: state.inode.ctime.0,
        pieces,
    };
    let unlogged = &mut state.unlogged;
    unlogged.ranges.clear();
    unlogged.bytes = 0;
    unlogged.times = false;
    unlogged.base = intent.version;
    unlogged.sequence = sequence;
    Some((Some(intent), sequence))
}

/// The bytes of every range; `None` if memory does not have them, against (2).
fn pieces(state: &NodeState) -> Option<Vec<(u64, Vec<u8>)>> {
    let mut pieces = Vec::with_capacity(state.unlogged.ranges.len());
    for range in &state.unlogged.ranges {
        let mut bytes = Vec::with_capacity(usize::try_from(range.end - range.start).ok()?);
        let mut is_whole = true;
        state.active.visit(range.clone(), |_, part| match part {
            Part::Data(data) => bytes.extend_from_slice(data),
            Part::Hole | Part::Below => is_whole = false,
        });
        if !is_whole {
            return None;
        }
        pieces.push((range.start, bytes));
    }
    Some(pieces)
}

fn append(core: &Core, log: &mut Log, sequence: u64, intent: &Intent) -> Result<()> {
    let Some(file) = &log.file else {
        return Err(Error::ReadOnly);
    };
    let (record, epoch) = {
        // Nothing is sealed under an epoch that is over: see `Filesystem::begin_epoch`.
        let sealing = core.blocks.sealers.sealing();
        let mut clear = intent.encode();
        // Its length shows to the sector only.                                                          [8.13]
        clear.resize(padded_len(clear.len(), INTENT_HEAD_BYTES), 0);
        let sealed = sealing.seal_record(core.random.as_ref(), Kind::Intent, &clear)?;
        let epoch = sealing.epoch();
        (encode_record(file.id(), sequence, epoch, &sealed), epoch)
    };
    // Before the write: of one that fails some bytes may be there.
    log.oldest.get_or_insert(epoch);
    let written = file.write(&record, log.end);
    written.map_err(of_disk)?;
    log.end += record.len();
    Ok(())
}

/// The records up to `sequence` are durable on return; false if somebody failed to write that one.
fn sync_to(core: &Core, sequence: u64) -> Result<bool> {
    if sequence == 0 {
        // It is in a durable commit: there was nothing to tell since.
        return Ok(true);
    }
    let mut synced = core.durability.intents.synced.lock();
    if *synced >= sequence {
        return Ok(true);
    }
    core.durability.check()?;
    let (file, last) = {
        let log = core.durability.intents.log.lock();
        (log.file.clone(), log.sequence)
    };
    let _doing = core.options.doing(Work::Logging);
    let done = file.map_or(Ok(()), |file| file.sync());
    if done.is_err() {
        // As after a commit that failed: what is on the disk is unknown now.
        core.durability.fail();
        return Err(Error::Failed);
    }
    *synced = last;
    core.durability
        .intents
        .acknowledged
        .store(last, Ordering::Release);
    Ok(last >= sequence)
}

/// Starts the log over if it is half full, so that nobody has to wait for that.
pub(crate) fn tidy(core: &Core) -> Result<()> {
    let mut log = core.durability.intents.log.lock();
    match &log.file {
        Some(file) if log.end > file.size() / 2 => begin_anew(core, &mut log),
        _ => Ok(()),
    }
}

/// On return no record counts: what they tell is in a durable commit. For whoever gives a file content with a version of others: a replay
/// would take that for content on which a record builds.                                                             [8.5]
pub(crate) fn settle(core: &Core) -> Result<()> {
    let mut log = core.durability.intents.log.lock();
    match &log.file {
        Some(_) if log.end > FIRST_INTENT_OFFSET => begin_anew(core, &mut log),
        Some(_) => Ok(()),
        // What an earlier run left may wait for room.
        None => end(core, &mut log),
    }
}

/// On return nothing in the file is sealed under an epoch before `newest`.
pub(crate) fn end_older(core: &Core, newest: Epoch) -> Result<()> {
    let mut log = core.durability.intents.log.lock();
    match log.oldest {
        Some(oldest) if oldest < newest => wipe_all(core, &mut log),
        _ => Ok(()),
    }
}

/// Nothing of what records told is left in the file, not even sealed. Costs as much as the file is long.
pub(crate) fn wipe(core: &Core) -> Result<()> {
    wipe_all(core, &mut core.durability.intents.log.lock())
}

fn wipe_all(core: &Core, log: &mut Log) -> Result<()> {
    if log.oldest.is_none() {
        return Ok(());
    }
    begin_anew(core, log)?;
    let Some(file) = log.file.clone() else {
        // What an earlier run left, for which there was no room: it is stored now.
        forget(core)?;
        log.oldest = None;
        return Ok(());
    };
    let wiped = file.wipe(&noise(core)?);
    let wiped = wiped.and_then(|()| file.sync());
    match &wiped {
        Ok(()) => log.oldest = None,
        Err(_) => log.is_unusable = true,
    }
    wiped.map_err(of_disk)
}

/// Does `work` while there is no log: small syncs wait for it, and then begin another one.
pub(crate) fn without_log<T>(core: &Core, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut log = core.durability.intents.log.lock();
    end(core, &mut log)?;
    work()
}

/// Takes the log away. Call when everything is durable and nobody changes anything any more.
pub(crate) fn close(core: &Core) -> Result<()> {
    end(core, &mut core.durability.intents.log.lock())
}

fn end(core: &Core, log: &mut Log) -> Result<()> {
    let left = *core.durability.intents.replay.lock();
    if log.file.is_none() && !left.waits_for_room {
        return Ok(());
    }
    begin_anew(core, log)?;
    if log.file.is_none()
        && let Some(folder) = &core.durability.intents.folder
    {
        keep_unreadable(folder, &left);
    }
    forget(core)?;
    log.file = None;
    Ok(())
}

/// Keeps a log that lost something for whoever wants to look at it; nobody waits for it.
pub(crate) fn keep_unreadable(folder: &Path, replay: &Replay) {
    if !matches!(replay.fault, None | Some(ReplayFault::Missing)) {
        let _ = IntentLog::set_aside(folder);
    }
}

/// The database forgets the log; then the file goes.
pub(crate) fn forget(core: &Core) -> Result<()> {
    {
        let mut writer = core.store.lock();
        writer.put_setting(SETTING, &[])?;
        *core.durability.intents.named.lock() = None;
    }
    core.changed();
    commit_all(core)?;
    let Some(folder) = &core.durability.intents.folder else {
        return Ok(());
    };
    // One that stays names nothing that anybody knows.
    let _ = IntentLog::remove(folder);
    Ok(())
}

pub(crate) fn of_disk(error: std::io::Error) -> Error {
    strongroom_segments::Error::of_io(error).into()
}

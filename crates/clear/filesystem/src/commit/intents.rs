//! A small `fsync` as one write to a log, where otherwise the whole database would commit.
//!
//! Takes   what was written to a file since it was last durable
//! Gives   a sealed record of it, durable; after a crash, the file as the record says
//! Never   tells of anything but bytes written to a file that is durable already: everything else takes a commit
//! Spec    spec/8-intents.md
//!
//! How. The written bytes stay in the node's overlay, as if nobody had synced, and go the ordinary way later, many at a time. When
//! the log is full, or half full at a timer, all nodes with records are drained and committed, and the log begins anew.
//!
//! Invariants
//!  (1) A record builds on a content version that is durable, by a commit or by the record before, and tells every byte
//!      written since. So it may be laid over any stored version from there on, and over none before.        [8.5]
//!  (2) What a record tells lies in `NodeState::active` when it is made: a drain of anything that is in no record ends that,
//!      until a commit has it.
//!  (3) The log begins anew only when all that its records tell is in a durable commit.                       [8.6]
//!  (4) Records of one node are in the log in the order of their versions: they are made under the log's lock.
//!  (5) A record counts if its number is above the one that the database has as settled. One that is missing up to the newest
//!      number that a record or the database says was acknowledged is a loss.                              [8.10]
//!
//! The lock of the log comes before all others (see `core.rs`), and is never taken with another held.

pub(crate) mod replay;

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use strongroom_crypto::record::padded_len;
use strongroom_format::intent::{
    FIRST_INTENT_OFFSET, INTENT_HEAD_BYTES, Intent, IntentLogId, encode_record, record_len,
};
use strongroom_format::limits::{BLOCK_BYTES_MAX, INTENT_PIECES_MAX, INTENT_SEALED_BYTES_MAX};
use strongroom_format::{Epoch, Kind};
use strongroom_metadata::{InodeId, Transaction};
use strongroom_segments::IntentLog;

use crate::commit::{commit_covering, durable};
use crate::content::node::{Node, NodeState};
use crate::content::overlay::Part;
use crate::core::{Core, Work};
use crate::drain::drain_grouped;
use crate::limits::INTENT_NOISE_BYTES;
use crate::{Error, Result};

/// The setting that names the log whose records count.
const SETTING: &str = "intent_log";

/// Of one node: what was written that neither a durable commit nor a record has.
#[derive(Debug, Default)]
pub(crate) struct Unlogged {
    /// The count of changes that must be durable before a record may build on it; none while only a commit can tell all
    /// that changed.
    settled_at: Option<u64>,
    /// What was written since. Ranges may overlap: content is taken when the record is made.
    ranges: Vec<Range<u64>>,
    /// Their lengths together.
    bytes: u64,
    /// Times were set since, and nothing else: a record of what is written tells them too.
    times: bool,
    /// The content version of that commit, or of the last record.                                             (1)
    base: u64,
    /// The last record; 0 if there is none.
    sequence: u64,
}

impl Unlogged {
    /// Bytes were written to `range`.
    pub(crate) fn note_write(&mut self, range: Range<u64>) {
        if self.settled_at.is_none() {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => {
                self.bytes += range.end - range.start;
                last.end = range.end;
            }
            Some(last) if last.start <= range.start && range.end <= last.end => {}
            _ => {
                self.bytes += range.end - range.start;
                self.ranges.push(range);
            }
        }
        if self.ranges.len() > INTENT_PIECES_MAX || self.bytes > BLOCK_BYTES_MAX as u64 {
            self.note_other();
        }
    }

    /// Nothing changed but when content and attributes were changed last.
    pub(crate) fn note_times(&mut self) {
        self.times = true;
    }

    /// Something else changed.
    pub(crate) fn note_other(&mut self) {
        self.settled_at = None;
        self.ranges = Vec::new();
        self.bytes = 0;
        self.times = false;
    }

    /// (2): the content begins to leave memory.
    pub(crate) fn note_drain(&mut self) {
        if !self.ranges.is_empty() {
            self.note_other();
        }
    }

    /// The commit that covers `covered` changes has all of the node, content of `version`.
    pub(crate) fn note_stored(&mut self, covered: u64, version: u64) {
        self.settled_at = Some(covered);
        self.ranges.clear();
        self.bytes = 0;
        self.times = false;
        self.base = version;
    }

    /// A commit that covers `covered` changes is durable, and the node was not changed in this run.
    pub(crate) fn note_unchanged(&mut self, covered: u64, version: u64) {
        if self.settled_at.is_none() {
            self.note_stored(covered, version);
        }
    }

    /// Whether a record can tell all that is not durable.
    fn fits(&self, durable: u64) -> bool {
        // A record that tells of times only would have no version of its own.
        let is_telling = !self.times || !self.ranges.is_empty();
        is_telling && self.settled_at.is_some_and(|at| at <= durable)
    }
}

/// What the log of an earlier run that did not end well gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Records that were laid over what the database had.
    pub records: usize,
    /// Something is wrong with the log: what was synced in the last moments before the crash may be lost.
    pub fault: Option<ReplayFault>,
}

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayFault {
    /// The database knows of one, and there is none.
    #[error("the file is missing")]
    Missing,
    /// It is no log, or another one than the database knows of.
    #[error("the file is damaged or of another run, and is kept as `intents.unreadable`")]
    Damaged,
    /// Something that was acknowledged is not there, or not as it was written. All that is there was brought back.
    #[error(
        "of what was acknowledged some is gone from it; the file is kept as `intents.unreadable`"
    )]
    Lost,
    /// A record does not open, or says what no record says.
    #[error("a record in it is damaged; the file is kept as `intents.unreadable`")]
    Record,
    /// What it tells does not fit the disk or the quota now. It stays, and nothing is lost.
    #[error("there is no room to store what it holds; it is shown, and stays until there is")]
    NoRoom,
}

/// The intent log of an open file system.
pub(crate) struct Intents {
    folder: Option<PathBuf>,
    log: Mutex<Log>,
    /// The last record that is durable. Held while the log is synced, so that all who wait share the next sync.
    synced: Mutex<u64>,
    /// The same, for those who must not wait for a flush.
    acknowledged: AtomicU64,
    /// What the setting says. Last of all locks.
    named: Mutex<Option<Named>>,
    /// Records made. For tests and `stats`.
    pub(crate) made: AtomicU64,
    /// What opening found.
    pub(crate) replay: Mutex<Replay>,
}

#[derive(Default)]
struct Log {
    file: Option<Arc<IntentLog>>,
    /// The count of changes that must be durable before the database knows of the file.
    known_at: u64,
    /// Where the next record goes.
    end: usize,
    /// The last record.
    sequence: u64,
    /// Who has records in the log since it began.
    nodes: HashMap<InodeId, Arc<Node>>,
    /// The oldest epoch that anything in the file is sealed under, whether it still counts or not.
    oldest: Option<Epoch>,
    /// The disk refused it: every sync is a commit until the vault is opened again.
    is_unusable: bool,
}

impl Log {
    /// Whether the longest record fits behind the others.
    fn has_room(&self) -> bool {
        let end = self.end + record_len(INTENT_SEALED_BYTES_MAX);
        self.file.as_ref().is_some_and(|file| end <= file.size())
    }
}

/// What the database says of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    id: IntentLogId,
    /// Nothing counts any more that records up to this number tell.
    settled: u64,
    /// The newest number that was acknowledged at the last commit, or before.
    acknowledged: u64,
}

impl Named {
    fn encode(self) -> Vec<u8> {
        let numbers = [self.settled.to_le_bytes(), self.acknowledged.to_le_bytes()];
        [&self.id.0[..], &numbers.concat()].concat()
    }

    /// Of a log of version 0 the setting is the id alone.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk::<16>()?;
        let number = |at: usize| Some(u64::from_le_bytes(*rest.get(at..)?.first_chunk::<8>()?));
        match rest.len() {
            0 | 16 => Some(Self {
                id: IntentLogId(*id),
                settled: number(0).unwrap_or(0),
                acknowledged: number(8).unwrap_or(0),
            }),
            _ => None,
        }
    }
}

impl Intents {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            log: Mutex::default(),
            synced: Mutex::default(),
            acknowledged: AtomicU64::new(0),
            named: Mutex::default(),
            made: AtomicU64::new(0),
            replay: Mutex::default(),
        }
    }
}

/// Makes what was written to `node` durable by a record; false if only a commit can.
///
/// # Errors
/// `Failed`, now or from now on, if the disk does not say what became of the record.
pub(crate) fn sync(core: &Core, node: &Arc<Node>) -> Result<bool> {
    if core.failed.load(Ordering::Acquire) {
        return Err(Error::Failed);
    }
    let told = {
        let state = node.lock();
        if core.intents.folder.is_none() || !state.unlogged.fits(durable(core)) {
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
    let mut log = core.intents.log.lock();
    if log.is_unusable || !is_ready(core, &mut log)? {
        return Ok(None);
    }
    Ok(record_in(core, &mut log, node))
}

/// The same in a log with room for it; none if only a commit can tell what there is to tell.
fn record_in(core: &Core, log: &mut Log, node: &Arc<Node>) -> Option<u64> {
    let sequence = log.sequence + 1;
    let intent = match take(node, durable(core), sequence)? {
        (Some(intent), _) => intent,
        // All of it is durable, or is told by the last record.
        (None, last) => return Some(last),
    };
    let _doing = core.options.doing(Work::Logging);
    let intent = Intent {
        acknowledged: core.intents.acknowledged.load(Ordering::Acquire),
        ..intent
    };
    match append(core, log, sequence, &intent) {
        Ok(()) => {
            log.sequence = sequence;
            log.nodes.insert(node.id, Arc::clone(node));
            core.intents.made.fetch_add(1, Ordering::Relaxed);
            Some(sequence)
        }
        Err(_) => {
            // What it would have told is in memory, and a commit can tell it. Records before it stay good.
            node.lock().unlogged.note_other();
            log.is_unusable = true;
            None
        }
    }
}

/// Whether there is a log that the database durably knows, with room for the longest record. Makes one, or begins it anew.
fn is_ready(core: &Core, log: &mut Log) -> Result<bool> {
    if log.file.is_none() {
        // Known to the database with the commit that the caller turns to.
        log.is_unusable = make(core, log).is_err();
        return Ok(false);
    }
    if log.known_at > durable(core) {
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
    let Some(folder) = &core.intents.folder else {
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
        settled: log.sequence,
        acknowledged: log.sequence,
    };
    name(core, named)?;
    log.known_at = core.changes.load(Ordering::Acquire);
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
    *core.intents.named.lock() = Some(named);
    core.changed();
    Ok(())
}

/// A commit says how far the log was acknowledged, so that its end cannot go missing unnoticed. (5)
pub(crate) fn note_acknowledged(core: &Core, writer: &mut Transaction<'_>) -> Result<()> {
    let mut named = core.intents.named.lock();
    let acknowledged = core.intents.acknowledged.load(Ordering::Acquire);
    match named.as_mut() {
        Some(named) if named.acknowledged < acknowledged => {
            named.acknowledged = acknowledged;
            Ok(writer.put_setting(SETTING, &named.encode())?)
        }
        _ => Ok(()),
    }
}

/// (3): all that the records tell goes into a commit; then their place is free.
fn begin_anew(core: &Core, log: &mut Log) -> Result<()> {
    drain_grouped(core, log.nodes.values().cloned().collect())?;
    let named = *core.intents.named.lock();
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
    commit_covering(core, core.changes.load(Ordering::Acquire))?;
    log.nodes.clear();
    log.end = FIRST_INTENT_OFFSET;
    Ok(())
}

/// What a record has to tell of `node`, none if nothing, and the number of the last one; `None` if a record cannot tell it.
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
        let sealing = core.sealers.sealing();
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
    let mut synced = core.intents.synced.lock();
    if *synced >= sequence {
        return Ok(true);
    }
    if core.failed.load(Ordering::Acquire) {
        return Err(Error::Failed);
    }
    let (file, last) = {
        let log = core.intents.log.lock();
        (log.file.clone(), log.sequence)
    };
    let _doing = core.options.doing(Work::Logging);
    let done = file.map_or(Ok(()), |file| file.sync());
    if done.is_err() {
        // As after a commit that failed: what is on the disk is unknown now.
        core.failed.store(true, Ordering::Release);
        return Err(Error::Failed);
    }
    *synced = last;
    core.intents.acknowledged.store(last, Ordering::Release);
    Ok(last >= sequence)
}

/// Begins the log anew if it is half full, so that nobody has to wait for that.
pub(crate) fn tidy(core: &Core) -> Result<()> {
    let mut log = core.intents.log.lock();
    match &log.file {
        Some(file) if log.end > file.size() / 2 => begin_anew(core, &mut log),
        _ => Ok(()),
    }
}

/// On return nothing in the file is sealed under an epoch before `newest`.
pub(crate) fn end_older(core: &Core, newest: Epoch) -> Result<()> {
    let mut log = core.intents.log.lock();
    match log.oldest {
        Some(oldest) if oldest < newest => wipe_all(core, &mut log),
        _ => Ok(()),
    }
}

/// Nothing of what records told is left in the file, not even sealed. Costs as much as the file is long.
pub(crate) fn wipe(core: &Core) -> Result<()> {
    wipe_all(core, &mut core.intents.log.lock())
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
    let mut log = core.intents.log.lock();
    end(core, &mut log)?;
    work()
}

/// Takes the log away. Call when everything is durable and nobody changes anything any more.
pub(crate) fn close(core: &Core) -> Result<()> {
    end(core, &mut core.intents.log.lock())
}

fn end(core: &Core, log: &mut Log) -> Result<()> {
    let left = *core.intents.replay.lock();
    if log.file.is_none() && left.fault != Some(ReplayFault::NoRoom) {
        return Ok(());
    }
    begin_anew(core, log)?;
    forget(core)?;
    log.file = None;
    Ok(())
}

/// The database forgets the log; then the file goes.
fn forget(core: &Core) -> Result<()> {
    {
        let mut writer = core.store.lock();
        writer.put_setting(SETTING, &[])?;
        *core.intents.named.lock() = None;
    }
    core.changed();
    commit_covering(core, core.changes.load(Ordering::Acquire))?;
    let Some(folder) = &core.intents.folder else {
        return Ok(());
    };
    // One that stays names nothing that anybody knows.
    let _ = IntentLog::remove(folder);
    Ok(())
}

fn of_disk(error: std::io::Error) -> Error {
    strongroom_segments::Error::of_io(error).into()
}

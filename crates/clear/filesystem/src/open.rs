//! Assembles a file system from its parts, and completes the unfinished work of an earlier run; closes the file system again.
//!
//! Takes   a store, segments, keys and the external services as values
//! Gives   a file system whose rows and segments agree
//! Never   deletes a segment file that it cannot explain
//!
//! Invariants
//!  (1) After opening, every segment that is appended to ends with its last whole batch.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use strongroom_metadata::{Inode, InodeId, NodeKind, SegmentNumber, SegmentState, has_no_file};
use strongroom_segments::Recovery;

use strongroom_format::Epoch;
use strongroom_format::segment::BatchPayload;

use crate::blocks::sessions::{SESSIONS, is_of_session};
use crate::content::Content;
use crate::content::holes::Holes;
use crate::content::node::NodeTable;
use crate::core::away::Away;
use crate::core::blocks::Blocks;
use crate::core::durability::Durability;
use crate::core::hashing::Hashing;
use crate::core::keep_limit::KeepLimit;
use crate::core::quota::Quota;
use crate::core::revisions::History;
use crate::core::room::RoomState;
use crate::core::{Core, Parts};
use crate::{Error, Filesystem, Result, Timestamp};

/// What a file system did since it was opened. For tests and `stats`; counts do not drift as times do.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Of the segment files.
    pub segments: strongroom_segments::Counters,
    /// Of the metadata store.
    pub metadata: strongroom_metadata::Counters,
    /// Blocks of content that were sealed, and
    pub blocks_sealed: u64,
    /// their bytes in clear. More than was written is work that was done twice.
    pub bytes_sealed: u64,
    /// How many fewer went to the disk, for they were compressed.
    pub bytes_saved: u64,
    /// Segments that came back from remotes.
    pub segments_came_back: u64,
    /// Syncs that took a record of the intent log and no commit.
    pub intents: u64,
    /// Bytes of content not yet stored.
    pub dirty_bytes: u64,
    /// Nodes in memory.
    pub nodes: usize,
    /// Bytes of extents in memory.
    pub extent_bytes: usize,
}

impl Filesystem {
    /// Makes the root directory of a new vault.
    ///
    /// # Errors
    /// Of the store.
    pub fn format(parts: &Parts, uid: u32, gid: u32) -> Result<()> {
        let mut birth = [0; 8];
        parts.random.fill(&mut birth)?;
        let now: Timestamp = parts.clock.now();
        let mut writer = parts.store.lock();
        writer.put_inode(&Inode {
            id: InodeId::ROOT,
            birth_id: u64::from_le_bytes(birth),
            kind: NodeKind::Directory,
            mode: 0o755,
            uid,
            gid,
            rdev: 0,
            nlink: 2,
            size: 0,
            allocated: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            content_version: 0,
            parent: InodeId::ROOT,
            target: Vec::new(),
            reserved: 0,
        })?;
        writer.commit()?;
        drop(writer);
        Ok(parts.store.sync_log()?)
    }

    /// Opens a file system and finishes what an earlier run left: torn tails, orphans, leaving segments.
    ///
    /// # Errors
    /// Of the stores; nothing acknowledged is touched.
    pub fn open(parts: Parts) -> Result<Self> {
        let Parts {
            store,
            segments,
            sealer,
            signer,
            clock,
            disk,
            random,
            session,
            intents,
            source,
            options,
        } = parts;
        let intents = intents.filter(|_| !options.read_only);
        let threads = options
            .threads
            .or(strongroom_crypto::providers::choice().threads);
        let threads = threads.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
        });
        // The caller of the pool works too.
        let pool = strongroom_crypto::Pool::new(threads.saturating_sub(1));
        let sealer = crate::settings::resume(&store.lock(), sealer)?;
        let quota = Quota::load(&store.lock())?;
        let keep_limit = KeepLimit::load(&store.lock())?;
        let reserved = store.lock().reservations()?;
        let reserved = reserved
            .iter()
            .fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let holes = Holes::load(&store.lock())?;
        let nodes = NodeTable::new(options.nodes_max, options.extent_bytes_max);
        let core = Core {
            store,
            clock,
            disk,
            random,
            options,
            content: Content::new(nodes, holes, reserved),
            blocks: Blocks::new(segments, sealer, pool),
            away: Away::new(source),
            durability: Durability::new(intents),
            work: std::sync::Arc::default(),
            room: RoomState::default(),
            quota,
            keep_limit,
            hashing: Hashing::default(),
            history: History::new(signer),
        };
        if core.store.lock().inode(InodeId::ROOT)?.is_none() {
            return Err(Error::Damaged {
                inode: InodeId::ROOT,
                offset: 0,
            });
        }
        crate::damage::isolate::resume(&core)?;
        if !core.options.read_only {
            recover_segments(&core)?;
            forget_leftovers(&core, session)?;
            crate::upkeep::purge::purge_orphans(&core)?;
            crate::upkeep::purge::resume_holes(&core);
            crate::commit::replay::replay(&core)?;
        }
        let core = std::sync::Arc::new(core);
        let worker = crate::upkeep::background::start(&core).map_err(Error::NoThread)?;
        Ok(Self {
            core,
            worker: std::sync::Arc::new(worker),
        })
    }

    /// Makes everything durable and ends the background work. Handles that remain get `ReadOnly`-like errors
    /// only by reopening; close last.
    ///
    /// # Errors
    /// As `sync`; then what was not durable is still pending and `close` may be called again.
    pub fn close(&self) -> Result<()> {
        self.worker.stop();
        self.sync()?;
        if !self.core.options.read_only {
            // The last drains may have filled segments that nobody has finished yet.
            crate::upkeep::urgent::finish(&self.core)?;
            self.sync()?;
            crate::commit::intents::close(&self.core)?;
            self.core.store.checkpoint()?;
        }
        Ok(())
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let core = &self.core;
        let sealed = &core.blocks.sealed;
        Counters {
            segments: core.blocks.segments.counters(),
            metadata: core.store.counters(),
            blocks_sealed: sealed.blocks.load(Ordering::Relaxed),
            bytes_sealed: sealed.bytes.load(Ordering::Relaxed),
            bytes_saved: sealed.bytes_saved.load(Ordering::Relaxed),
            segments_came_back: core.away.came(),
            intents: core.durability.intents.made.load(Ordering::Relaxed),
            dirty_bytes: core.content.pending_bytes(),
            nodes: core.content.nodes.len(),
            extent_bytes: core.content.nodes.extent_bytes(),
        }
    }
}

/// (1), for segments that were open when the last run ended.
fn recover_segments(core: &Core) -> Result<()> {
    let rows = core.store.lock().segments()?;
    let mut resumed = Vec::new();
    let sealer = core.blocks.sealers.newest();
    let index_len = |epoch: Epoch, payload: &BatchPayload<'_>| {
        let lengths = sealer.open_lengths(epoch, payload);
        lengths.ok().map(|lengths| lengths.index_len)
    };
    let finished = |number: SegmentNumber| -> Result<()> {
        let mut writer = core.store.lock();
        Ok(writer.set_segment_state(number, SegmentState::Finished)?)
    };
    for row in &rows {
        if has_no_file(&row.id) {
            core.blocks.suspect_segment(row.number);
        }
        // It came back, or did not go, before a commit said so: a file goes and comes as a whole.
        if row.state == SegmentState::Away && core.blocks.segments.len(row.id).is_ok() {
            finished(row.number)?;
        }
        if row.state != SegmentState::Open {
            continue;
        }
        let found = core
            .blocks
            .segments
            .recover_open(row.id, row.committed_len, &index_len);
        match found {
            Ok(Recovery::Resumed { .. }) => resumed.push(row.id),
            Ok(Recovery::Finished) => finished(row.number)?,
            Ok(Recovery::Empty) => {
                core.blocks.segments.remove(row.id)?;
                core.store.lock().remove_segment(row.number)?;
            }
            // Its blocks are lost or damaged: reads say so, block by block; nothing more is appended.
            Ok(Recovery::Damaged { .. })
            | Err(strongroom_segments::Error::Missing(_) | strongroom_segments::Error::Odd(_)) => {
                core.blocks.suspect_segment(row.number);
                finished(row.number)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    // Only one goes on being appended to; a crash between filling and finishing leaves others behind.
    let open = core.blocks.segments.open_segment();
    for id in resumed.into_iter().filter(|id| Some(*id) != open) {
        match crate::upkeep::space::finish_segment(core, id) {
            // A full disk keeps no vault from being opened: it is opened to remove something. The segment is whole without its end.
            Err(Error::NoSpace) => core.work.finish_segment(id),
            finished => finished?,
        }
    }
    core.changed();
    Ok(())
}

/// Removes segment files that an earlier run began and never committed a block of. Files of runs that the
/// database does not know stay: an older copy of it may have been put back, and they hold newer content.
fn forget_leftovers(core: &Core, session: [u8; 8]) -> Result<()> {
    let mut writer = core.store.lock();
    let known: HashSet<_> = writer.segments()?.iter().map(|row| row.id).collect();
    let sessions = writer.setting(SESSIONS)?.unwrap_or_default();
    for id in core.blocks.segments.list()? {
        if !known.contains(&id) && is_of_session(&sessions, &id) {
            core.blocks.segments.remove(id)?;
        }
    }
    // The earlier sessions' files are gone for good or have rows, so only this one's name matters from here on.
    core.blocks.segments.sync_removals()?;
    writer.put_setting(SESSIONS, &session)?;
    writer.commit()?;
    drop(writer);
    Ok(core.store.sync_log()?)
}

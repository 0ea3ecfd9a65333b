//! Reads what a pull brought down, before any row says that it is there.
//!
//! Takes   the folder of what came, and the publications that name it
//! Gives   blocks and revisions that prove themselves; what the trees of those revisions need
//! Never   takes an object whose hash is not the one that a proven publication says
//! Spec    spec/11-sync.md, 11.6

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::FileExt;

use strongroom_crypto::BlockSealer;
use strongroom_filesystem::{Arrived, ArrivedBlock, ArrivedSegment, Engine};
use strongroom_folder::{Folder as HeldFolder, Purpose};
use strongroom_format::index::decode_contents;
use strongroom_format::limits::sealed_len;
use strongroom_format::publication::{PublishedRevision, PublishedSegment};
use strongroom_format::survey::survey;
use strongroom_format::{BlockId, Kind, SegmentId};
use strongroom_history::{Blocks, Revision, names_of_block};
use strongroom_sync::limits::{REVISION_OBJECT_BYTES_MAX, SEGMENT_OBJECT_BYTES_MAX};
use strongroom_sync::{object_hash, revision_name, segment_name};

use crate::execute::session::Session;
use crate::folder::{Folder, INCOMING, SEGMENTS, below};
use crate::incoming::{placed_segment, staged_revision, staged_segment};
use crate::records::open_revision;
use crate::{Error, Result};

/// What came, and what is here.
pub(crate) struct Arrival<'a> {
    engine: Engine<'a>,
    sealer: BlockSealer,
    folder: Folder,
    pub(crate) arrived: Arrived,
    /// Hashes of the segments, in the order of `arrived.segments`.
    hashes: Vec<[u8; 32]>,
    /// Records of the revisions, with the epochs that they are sealed under.
    pub(crate) records: Vec<(String, Vec<u8>)>,
}

fn failed() -> impl FnOnce(strongroom_folder::Error) -> Error {
    below("reading what came from the remote")
}

fn untrue(object: impl ToString, why: &'static str) -> Error {
    let object = object.to_string();
    strongroom_sync::Error::Damaged { object, why }.into()
}

impl<'a> Arrival<'a> {
    pub(crate) fn new(session: &'a Session) -> Result<Self> {
        let engine = session.filesystem().engine();
        Ok(Self {
            engine,
            sealer: engine.sealer(),
            folder: session.vault.with_keys(|keys| keys.folder().clone()),
            arrived: Arrived::default(),
            hashes: Vec::new(),
            records: Vec::new(),
        })
    }

    fn incoming(&self) -> Result<HeldFolder> {
        self.folder.inside(INCOMING).hold().map_err(failed())
    }

    /// Takes in a segment; those that have a row are left out.
    pub(crate) fn segment(&mut self, published: &PublishedSegment) -> Result<()> {
        if self
            .engine
            .reader()?
            .segment_by_id(&published.id)?
            .is_some()
        {
            return Ok(());
        }
        let object = segment_name(&published.hash);
        let name = staged_segment(&published.hash);
        let read = self.incoming()?.read(&name, SEGMENT_OBJECT_BYTES_MAX);
        let bytes = read.map_err(failed())?;
        let bytes = bytes.ok_or_else(|| strongroom_sync::Error::Missing {
            object: object.to_string(),
        })?;
        if object_hash(&bytes) != published.hash || bytes.len() as u64 != published.len {
            return Err(untrue(object, "its bytes are others than were pushed"));
        }
        let found = survey(&bytes, published.id);
        let batches = found
            .contents
            .and_then(|contents| {
                let clear = self
                    .sealer
                    .open_record(published.epoch, Kind::SegmentTable, contents);
                decode_contents(&clear.ok()?).ok()
            })
            .ok_or_else(|| untrue(object, "no key of this vault opens what it lists"))?;
        let segment = self.arrived.segments.len();
        let mut total_bytes = 0;
        for (first, entries) in batches {
            let mut offset = first;
            for entry in entries {
                let len = sealed_len(entry.clear_len as usize);
                let block = ArrivedBlock {
                    segment,
                    offset,
                    clear_len: entry.clear_len,
                    kind: Kind::from_number(entry.kind).unwrap_or(Kind::Data),
                };
                total_bytes += len as u64;
                offset = offset.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
                self.arrived.blocks.entry(entry.id).or_insert(block);
            }
        }
        self.arrived.segments.push(ArrivedSegment {
            id: published.id,
            epoch: published.epoch,
            end: found.end,
            total_bytes,
        });
        self.hashes.push(published.hash);
        Ok(())
    }

    /// Takes in a revision; those that have a row are left out.
    pub(crate) fn revision(
        &mut self,
        session: &Session,
        published: &PublishedRevision,
    ) -> Result<()> {
        let is_new = self.engine.reader()?.revision(&published.id)?.is_none();
        let known = |one: &Revision| one.id.0 == published.id;
        if !is_new || self.arrived.revisions.iter().any(known) {
            return Ok(());
        }
        let object = revision_name(&published.id, published.epoch, &published.hash);
        let name = staged_revision(&published.hash);
        let read = self.incoming()?.read(&name, REVISION_OBJECT_BYTES_MAX);
        let bytes = read.map_err(failed())?;
        let bytes = bytes.ok_or_else(|| strongroom_sync::Error::Missing {
            object: object.to_string(),
        })?;
        if object_hash(&bytes) != published.hash {
            return Err(untrue(object, "its bytes are others than were pushed"));
        }
        let clear = open_revision(&self.sealer, published.epoch, &bytes);
        let revision = clear.and_then(|clear| session.filesystem().prove_revision(&clear).ok());
        let revision = revision.filter(|revision| revision.id.0 == published.id);
        let revision = revision.ok_or_else(|| untrue(object, "it is no revision of this vault"))?;
        let name = format!("{}.{}", revision.id, published.epoch.0);
        self.records.push((name, bytes));
        self.arrived.revisions.push(revision);
        Ok(())
    }

    /// Finds the nodes that the trees of the revisions have and the vault does not.
    pub(crate) fn find_nodes(&mut self) -> Result<()> {
        let order = |one: &Revision| (one.body.time, one.body.sequence, one.id);
        self.arrived.revisions.sort_by_key(order);
        let reader = self.engine.reader()?;
        let mut known: HashSet<BlockId> = HashSet::new();
        let mut nodes = Vec::new();
        let roots = self.arrived.revisions.iter().map(|one| one.body.root);
        let mut open: Vec<BlockId> = roots.collect();
        while let Some(id) = open.pop() {
            if !known.insert(id) || reader.block_by_id(&id)?.is_some() {
                continue;
            }
            let lost = || Error::RemoteUntrue("a snapshot at the remote lacks blocks".to_owned());
            let kind = self.arrived.blocks.get(&id).ok_or_else(lost)?.kind;
            if kind.is_data() {
                continue;
            }
            let bytes = self.open_arrived(&id)?.ok_or_else(lost)?;
            let names = names_of_block(kind, &bytes).map_err(|_| lost())?;
            open.extend(&names);
            nodes.push((id, names));
        }
        self.arrived.nodes = nodes;
        Ok(())
    }

    fn open_arrived(&self, id: &BlockId) -> Result<Option<Vec<u8>>> {
        let Some(block) = self.arrived.blocks.get(id) else {
            return Ok(None);
        };
        let segment = &self.arrived.segments[block.segment];
        let staged = staged_segment(&self.hashes[block.segment]);
        let file = match self.incoming()?.open_file(&staged, Purpose::Read) {
            Ok(file) => file,
            Err(_) => {
                let segments = self.folder.inside(SEGMENTS).hold().map_err(failed())?;
                let path = placed_segment(segment.id);
                segments.open_file(&path, Purpose::Read).map_err(failed())?
            }
        };
        let mut sealed = vec![0; sealed_len(block.clear_len as usize)];
        file.read_exact_at(&mut sealed, block.offset.into())
            .map_err(Error::io("reading what came from the remote"))?;
        let clear_len = block.clear_len as usize;
        let opened = self
            .sealer
            .open(segment.epoch, block.kind, id, clear_len, &sealed);
        Ok(opened.ok())
    }

    /// Segments by name, and where they lie in the folder of what came.
    pub(crate) fn staged(&self) -> HashMap<SegmentId, String> {
        let ids = self.arrived.segments.iter().map(|one| one.id);
        ids.zip(self.hashes.iter().map(staged_segment)).collect()
    }
}

impl Blocks for Arrival<'_> {
    type Error = Error;

    fn open(&self, kind: Kind, id: &BlockId) -> Result<Option<Vec<u8>>> {
        match Blocks::open(&self.engine, kind, id)? {
            Some(clear) => Ok(Some(clear)),
            None => self.open_arrived(id),
        }
    }
}

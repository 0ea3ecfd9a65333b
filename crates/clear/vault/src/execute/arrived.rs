//! Reads the objects that a pull downloaded, before any row refers to them.
//!
//! Takes   the folder of downloaded objects, and the publications that name them
//! Gives   verified blocks and revisions, and the blocks that the trees of these revisions need
//! Never   accepts an object whose hash is not the one in a verified publication
//! Spec    spec/11-sync.md, 11.6
//!
//! Invariants
//!  (1) A segment in the state `Leaving` holds nothing live, and its file is removed some time before its row. If its blocks are
//!      needed again, it becomes a finished segment again, with the file that is here or the downloaded one.
//!  (2) The published head is whole, or nothing is taken in. Earlier snapshots may lack blocks of content, but no
//!      blocks of trees. That is accepted only after all segments that are live at the remote were searched.  [11.6.18]
//!  (3) Content that was erased here is stored again if the joined state names it, and for no other reason.   [11.6.18]

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;

use strongroom_crypto::BlockSealer;
use strongroom_filesystem::{Arrived, ArrivedBlock, ArrivedSegment, Engine, Error as FileError};
use strongroom_folder::{Folder as HeldFolder, Purpose};
use strongroom_format::limits::{BLOCK_BYTES_MAX, sealed_len};
use strongroom_format::publication::{PublishedRevision, PublishedSegment};
use strongroom_format::segment::{FOOTER_BYTES, Footer};
use strongroom_format::survey::survey;
use strongroom_format::{BlockId, Epoch, Kind, SegmentId, hex};
use strongroom_history::{Blocks, Revision, contents_of_block, names_of_block};
use strongroom_metadata::{ERASED_SEGMENT, LOST_SEGMENT, Place, SegmentState};
use strongroom_segments::Error as SegmentError;
use strongroom_sync::limits::{REVISION_OBJECT_BYTES_MAX, SEGMENT_OBJECT_BYTES_MAX};
use strongroom_sync::{object_hash, revision_name, segment_name};

use crate::execute::session::Session;
use crate::folder::{Folder, INCOMING, REVISIONS, SEGMENTS, below, damage_in};
use crate::incoming::{placed_segment, staged_revision, staged_segment};
use crate::listing::{Listing, listed, table};
use crate::records::open_revision;
use crate::request::remote::Start;
use crate::{Error, Result};

/// What came, and what is here.
pub(crate) struct Arrival<'a> {
    engine: Engine<'a>,
    sealer: BlockSealer,
    folder: Folder,
    pub(crate) arrived: Arrived,
    /// Hashes of the segments that came, in the order of `arrived.segments`; `None` for one that was here.
    hashes: Vec<Option<[u8; 32]>>,
    /// Records of the revisions, with the epochs that they are sealed under.
    pub(crate) records: Vec<(String, Vec<u8>)>,
    looked: Looked,
}

/// Which segments were listed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// Those that came.
    Came,
    /// Those that are here, too.
    Here,
    /// All.
    Away,
}

impl Looked {
    const fn next(self) -> Option<Self> {
        match self {
            Self::Came => Some(Self::Here),
            Self::Here => Some(Self::Away),
            Self::Away => None,
        }
    }
}

fn failed() -> impl FnOnce(strongroom_folder::Error) -> Error {
    below("reading files from the remote")
}

fn lost() -> Error {
    Error::RemoteUntrue("a snapshot at the remote lacks blocks".to_owned())
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
            looked: Looked::Came,
        })
    }

    fn incoming(&self) -> Result<HeldFolder> {
        self.folder.inside(INCOMING).hold().map_err(failed())
    }

    /// Takes in a segment; those that have a row are left out, but for one that is leaving: its file may be gone already (1); and for one
    /// that is away, if it came.
    pub(crate) fn segment(&mut self, published: &PublishedSegment) -> Result<()> {
        let row = self.engine.reader()?.segment_by_id(&published.id)?;
        let may_come = |state| matches!(state, SegmentState::Leaving | SegmentState::Away);
        let is_away = (row.as_ref()).is_some_and(|row| row.state == SegmentState::Away);
        if row.is_some_and(|row| !may_come(row.state)) {
            return Ok(());
        }
        let object = segment_name(&published.hash);
        let name = staged_segment(&published.hash);
        let read = self.incoming()?.read(&name, SEGMENT_OBJECT_BYTES_MAX);
        let bytes = match read.map_err(failed())? {
            Some(bytes) => bytes,
            None if is_away => return Ok(()),
            // An attempt that failed put it in place; or another pull was faster.
            None => {
                let segments = self.folder.inside(SEGMENTS).hold().map_err(failed())?;
                let placed = placed_segment(published.id);
                let read = segments.read(&placed, SEGMENT_OBJECT_BYTES_MAX);
                read.map_err(failed())?.ok_or(Error::RemoteBusy)?
            }
        };
        if object_hash(&bytes) != published.hash || bytes.len() as u64 != published.len {
            return Err(untrue(object, "its content is not what was pushed"));
        }
        let found = survey(&bytes, published.id);
        let listed = listed(&self.sealer, published.epoch, &found)
            .ok_or_else(|| untrue(object, "no key of this vault opens its list of blocks"))?;
        self.note(published.id, published.epoch, found.end, listed);
        self.hashes.push(Some(published.hash));
        Ok(())
    }

    fn note(&mut self, id: SegmentId, epoch: Epoch, end: u64, listed: Listing) {
        let segment = self.arrived.segments.len();
        let mut total_bytes = 0;
        for (first, entries) in listed {
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
            id,
            epoch,
            end,
            total_bytes,
        });
    }

    /// Lists the segments that are here too: a block in one of them has no row while nothing here names it. Two reads of most segments. With
    /// `Looked::Away` those that are away come back for it, but for those in which every block has a row.
    fn note_segments(&mut self, looked: Looked) -> Result<()> {
        let rows = self.engine.reader()?.segments()?;
        let segments = self.folder.inside(SEGMENTS).hold().map_err(failed())?;
        for row in rows {
            let known = |one: &ArrivedSegment| one.id == row.id;
            if row.state == SegmentState::Open || self.arrived.segments.iter().any(known) {
                continue;
            }
            let path = placed_segment(row.id);
            let has_more = row.live_bytes < row.total_bytes;
            if looked == Looked::Away && row.state == SegmentState::Away && has_more {
                match self.engine.bring_back(row.id) {
                    // What no remote has any more has nothing that could be found; all else goes on.                  [11.9.4]
                    Err(FileError::LostAtRemote(why)) => {
                        log::error!("a segment that was only at a remote is lost ({why})");
                    }
                    brought => drop(brought?),
                }
            }
            // One that is damaged lists nothing; `verify` names it.
            let read = match segments.open_file(&path, Purpose::Read) {
                Ok(file) => read_contents(&file),
                Err(error) => Err(error.into()),
            };
            let contents = match read {
                Ok(contents) => contents,
                Err(error) => damage_in(SegmentError::of_io(error)).map(|_| None)?,
            };
            let found = contents.and_then(|(end, contents)| {
                if let Some(table) = table(&self.sealer, row.epoch, &contents) {
                    return Some((end, table));
                }
                let bytes = segments.read(&path, SEGMENT_OBJECT_BYTES_MAX).ok()??;
                let listed = listed(&self.sealer, row.epoch, &survey(&bytes, row.id))?;
                Some((end, listed))
            });
            if let Some((end, listed)) = found {
                self.note(row.id, row.epoch, end, listed);
                self.hashes.push(None);
            }
        }
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
        let (bytes, has_come) = match read.map_err(failed())? {
            Some(bytes) => (bytes, true),
            None => {
                let kept = self.folder.inside(REVISIONS).hold().map_err(failed())?;
                let placed = format!("{}.{}", hex::encode(&published.id), published.epoch.0);
                let read = kept.read(&placed, REVISION_OBJECT_BYTES_MAX);
                (read.map_err(failed())?.ok_or(Error::RemoteBusy)?, false)
            }
        };
        // One that was here, of which the database does not know, may be sealed otherwise: it proves itself below.
        if has_come && object_hash(&bytes) != published.hash {
            return Err(untrue(object, "its content is not what was pushed"));
        }
        let clear = open_revision(&self.sealer, published.epoch, &bytes);
        let revision = clear.and_then(|clear| session.filesystem().prove_revision(&clear).ok());
        let revision = revision.filter(|revision| revision.id.0 == published.id);
        let revision =
            revision.ok_or_else(|| untrue(object, "it is not the valid record of a snapshot"))?;
        let name = format!("{}.{}", revision.id, published.epoch.0);
        self.records.push((name, bytes));
        self.arrived.revisions.push(revision);
        Ok(())
    }

    /// Finds the nodes that the trees of the revisions have and the vault does not. All that `head` needs is found; content that only
    /// earlier snapshots need may have been erased by another device, and is lost then. (2)
    pub(crate) fn find_nodes(&mut self, head: &[u8; 32], from: Start) -> Result<()> {
        let order = |one: &Revision| (one.body.time, one.body.sequence, one.id);
        self.arrived.revisions.sort_by_key(order);
        let revisions = self.arrived.revisions.iter();
        let (newest, earlier): (Vec<_>, Vec<_>) = revisions.partition(|one| one.id.0 == *head);
        let roots = [newest, earlier].map(|all| all.iter().map(|one| one.body.root).collect());
        let mut known: HashSet<BlockId> = HashSet::new();
        let [newest, earlier]: [Vec<BlockId>; 2] = roots;
        let missing = self.walk(newest, &mut known)?;
        if !missing.is_empty() {
            return Err(lost());
        }
        let missing = self.walk(earlier, &mut known)?;
        match from {
            // Segments that were let go here may have it.                                                     [11.6.11]
            Start::Joined if !missing.is_empty() => Err(lost()),
            _ => self.note_lost(missing),
        }
    }

    /// Goes over the trees below `open`, but for what is `known` or here; gives the blocks that no segment has.
    fn walk(
        &mut self,
        mut open: Vec<BlockId>,
        known: &mut HashSet<BlockId>,
    ) -> Result<HashSet<BlockId>> {
        let mut missing = HashSet::new();
        while let Some(id) = open.pop() {
            // The reader is given back at once: to look for a block takes one.
            if !known.insert(id) || self.engine.reader()?.block_by_id(&id)?.is_some() {
                continue;
            }
            let Some(kind) = self.look_for(&id)? else {
                missing.insert(id);
                continue;
            };
            if kind.is_data() {
                continue;
            }
            let bytes = self.open_arrived(&id)?.ok_or_else(lost)?;
            let names = names_of_block(kind, &bytes).map_err(|_| lost())?;
            open.extend(&names);
            self.arrived.nodes.push((id, names));
        }
        Ok(missing)
    }

    /// Looks for a block in what came, then in what is here, then in what is away; gives its kind.
    fn look_for(&mut self, id: &BlockId) -> Result<Option<Kind>> {
        loop {
            if let Some(block) = self.arrived.blocks.get(id) {
                return Ok(Some(block.kind));
            }
            let Some(next) = self.looked.next() else {
                return Ok(None);
            };
            self.looked = next;
            self.note_segments(next)?;
        }
    }

    /// Finds those of `contents`, which the joined state is about to name, that were erased here. What an earlier call found does not
    /// count any more. (3)
    ///
    /// # Errors
    /// `RemoteUntrue` if one of them is in no segment that is listed, or does not open.
    pub(crate) fn find_erased(&mut self, contents: impl Iterator<Item = BlockId>) -> Result<()> {
        self.arrived.erased.clear();
        let grave = self.engine.reader()?.segment_by_id(&ERASED_SEGMENT)?;
        let Some(grave) = grave else {
            return Ok(());
        };
        for id in contents.collect::<HashSet<_>>() {
            let reader = self.engine.reader()?;
            let number = reader.block_by_id(&id)?;
            let row = number.map(|number| reader.block(number)).transpose()?;
            drop(reader);
            let place = row.flatten().map(|row| row.place);
            if !matches!(place, Some(Place::Segment(at, _)) if at == grave.number) {
                continue;
            }
            if self.look_for(&id)?.is_none() || self.open_arrived(&id)?.is_none() {
                return Err(lost());
            }
            self.arrived.erased.push(id);
        }
        Ok(())
    }

    /// Notes content that is nowhere, with its least length; fails for anything else.
    fn note_lost(&mut self, mut missing: HashSet<BlockId>) -> Result<()> {
        let mut found: HashMap<BlockId, u32> = HashMap::new();
        for (id, names) in &self.arrived.nodes {
            if !names.iter().any(|name| missing.contains(name)) {
                continue;
            }
            let kind = self.arrived.blocks.get(id).ok_or_else(lost)?.kind;
            let bytes = self.open_arrived(id)?.ok_or_else(lost)?;
            let contents = contents_of_block(kind, &bytes).map_err(|_| lost())?;
            for (block, len) in contents.into_iter().filter(|(id, _)| missing.contains(id)) {
                let least = found.entry(block).or_default();
                *least = len.clamp(*least, BLOCK_BYTES_MAX as u32);
            }
        }
        missing.retain(|id| !found.contains_key(id));
        self.arrived.lost = found;
        match missing.is_empty() {
            true => Ok(()),
            false => Err(lost()),
        }
    }

    /// Finds blocks that have a row and get their place where they came, if they open there: those in segments that somebody retired,
    /// those of trees, and contents that are lost here. Call it when `retired` is known.
    pub(crate) fn find_again(&mut self) -> Result<()> {
        let reader = self.engine.reader()?;
        let lost = reader.segment_by_id(&LOST_SEGMENT)?.map(|row| row.number);
        let mut retired = HashSet::new();
        for id in &self.arrived.retired {
            retired.extend(reader.segment_by_id(id)?.map(|row| row.number));
        }
        let (mut moved, mut again) = (HashSet::new(), Vec::new());
        for (id, block) in &self.arrived.blocks {
            let has_come = self.hashes[block.segment].is_some();
            let may_be_again = has_come && (!block.kind.is_data() || lost.is_some());
            if retired.is_empty() && !may_be_again {
                continue;
            }
            let number = reader.block_by_id(id)?;
            let row = number.map(|number| reader.block(number)).transpose()?;
            let Some(Place::Segment(from, _)) = row.flatten().map(|row| row.place) else {
                continue;
            };
            let into = &self.arrived.segments[block.segment].id;
            let moves = retired.contains(&from);
            let is_meant = match moves {
                true => !self.arrived.retired.contains(into),
                false => may_be_again && (!block.kind.is_data() || lost == Some(from)),
            };
            // What does not open would take the place of what does.
            if is_meant && self.open_arrived(id)?.is_some() {
                match moves {
                    true => drop(moved.insert(*id)),
                    false => again.push(*id),
                }
            }
        }
        (self.arrived.moved, self.arrived.again) = (moved, again);
        Ok(())
    }

    fn open_arrived(&self, id: &BlockId) -> Result<Option<Vec<u8>>> {
        let Some(block) = self.arrived.blocks.get(id) else {
            return Ok(None);
        };
        let segment = &self.arrived.segments[block.segment];
        let staged = self.hashes[block.segment].and_then(|hash| {
            let staged = staged_segment(&hash);
            self.incoming().ok()?.open_file(&staged, Purpose::Read).ok()
        });
        let file = match staged {
            Some(file) => file,
            None => {
                let segments = self.folder.inside(SEGMENTS).hold().map_err(failed())?;
                let path = placed_segment(segment.id);
                segments.open_file(&path, Purpose::Read).map_err(failed())?
            }
        };
        let mut sealed = vec![0; sealed_len(block.clear_len as usize)];
        file.read_exact_at(&mut sealed, block.offset.into())
            .map_err(Error::io("reading files from the remote"))?;
        let clear_len = block.clear_len as usize;
        let opened = self
            .sealer
            .open(segment.epoch, block.kind, id, clear_len, &sealed);
        Ok(opened.ok())
    }

    /// Segments by name, and where they lie in the folder of what came.
    pub(crate) fn staged(&self) -> HashMap<SegmentId, String> {
        let ids = self.arrived.segments.iter().map(|one| one.id);
        let staged = ids.zip(&self.hashes);
        staged
            .filter_map(|(id, hash)| Some((id, staged_segment(hash.as_ref()?))))
            .collect()
    }
}

/// Where the batches of a finished segment end, and its sealed table of contents.
fn read_contents(file: &File) -> std::io::Result<Option<(u64, Vec<u8>)>> {
    let len = file.metadata()?.len();
    let mut footer = [0; FOOTER_BYTES];
    let Some(start) = len.checked_sub(FOOTER_BYTES as u64) else {
        return Ok(None);
    };
    file.read_exact_at(&mut footer, start)?;
    let Ok(footer) = Footer::decode(&footer, len) else {
        return Ok(None);
    };
    // It fits the file, which is no longer than a segment may be.
    let mut contents = vec![0; footer.contents_len as usize];
    file.read_exact_at(&mut contents, footer.contents_offset.into())?;
    Ok(Some((footer.contents_offset.into(), contents)))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use strongroom_crypto::{Secret, SystemRandom};

    use super::*;
    use crate::records::Records;
    use crate::seen::{SeenRecords, Trust};
    use crate::{
        CLONED_FROM, CloneOptions, CreateOptions, GoOn, KeyFile, OpenOptions, Vault, clone,
    };

    fn record_names(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder.join(REVISIONS)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    /// Goal: a record that is here already and of which the database does not know keeps no snapshot from being joined, however it is sealed.
    /// Method: another device publishes a snapshot; its record, sealed once more, lies in the folder here, as where an older copy of the
    /// database was put back and keys changed since. Failed before: each pull called the remote damaged.
    #[test]
    fn a_record_that_is_here_and_sealed_otherwise_is_no_damage() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join("remote");
        fs::create_dir(&at).unwrap();
        let address = format!("folder:{}", at.display());
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let secret = Secret::KeyFile(key_file.clone());
        let options = CreateOptions::new().key_file(key_file);
        let vault = Vault::create(place.path().join("vault"), options);
        let vault = vault.unwrap().vault;
        vault.add_remote("stick", &address).unwrap();
        vault.write("/file", b"first").unwrap();
        vault.push("stick", &mut |_| GoOn::Yes).unwrap();
        let trust = Trust {
            seen: SeenRecords::Nowhere,
            ..Trust::default()
        };
        let folder = place.path().join("other");
        let options = CloneOptions {
            trust: trust.clone(),
            ..CloneOptions::default()
        };
        clone(&address, &folder, &secret, options, &mut |_| GoOn::Yes).unwrap();
        vault.write("/file", b"second").unwrap();
        vault.push("stick", &mut |_| GoOn::Yes).unwrap();
        let filesystem = vault.filesystem().unwrap();
        let records = Records::new(vault.folder());
        let new = &record_names(vault.folder()) - &record_names(&folder);
        assert!(!new.is_empty());
        for name in &new {
            let (id, _) = name.split_once('.').unwrap();
            records
                .renew(&filesystem, &hex::decode(id).unwrap())
                .unwrap();
            let file = |folder: &Path| folder.join(REVISIONS).join(name);
            fs::copy(file(vault.folder()), file(&folder)).unwrap();
        }
        drop(filesystem);
        vault.close().unwrap();
        let options = OpenOptions {
            trust,
            ..OpenOptions::default()
        };
        let other = Vault::open(folder, secret, options).unwrap();
        other.pull(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
        assert_eq!(other.read("/file").unwrap(), b"second");
        other.close().unwrap();
    }
}

//! Fetches from remotes the data that a verification finds damaged or lost.
//!
//! Takes   a repair in progress, and the remotes that it may use
//! Gives   segment files with the bytes that were pushed, in place of damaged ones; lost blocks, stored again under their names
//! Never   uses a byte that was not verified, fetches data that is sound here, or fails because a remote fails
//! Spec    spec/7-recovery.md, [7.7.11] to [7.7.13]
//!
//! Invariants
//!  (1) A segment file is replaced in one step, by bytes that have the published hash. After a kill at any moment, the damaged file
//!      or the right one is in place.
//!  (2) A block from another segment is used only if it opens under its name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use strongroom_crypto::BlockSealer;
use strongroom_filesystem::LostChunks;
use strongroom_format::limits::sealed_len;
use strongroom_format::segment::{ScanTail, scan};
use strongroom_format::{BlockId, Epoch, Kind, SegmentId, hex};
use strongroom_metadata::{
    Block, BlockNumber, Place, Published, Segment, SegmentNumber, SegmentState,
};
use strongroom_remote::{Error as RemoteError, Listed, ObjectName, Remote};
use strongroom_sync::limits::SEGMENT_OBJECT_BYTES_MAX;
use strongroom_sync::{in_parallel, object_hash, segment_name};

use crate::execute::standing::{LET_GO, each_published};
use crate::execute::verify::show_segment;
use crate::listing::listed_at;
use crate::recovery::recover::{RecoverProgress, Trial};
use crate::recovery::repair::Repair;
use crate::request::Request;
use crate::request::remote::RemoteFields;
use crate::request::verify::{PartFields, VerifyRequest};
use crate::{Error, Result, Vault};

/// From which remotes a repair takes what is damaged or lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UseRemotes {
    /// From all that the vault has, in the order in which they were added.
    #[default]
    All,
    /// From the one of that name.
    Only(String),
    /// From none.
    None,
}

/// What a repair took from a remote; in a dry run, what it would take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FromRemote {
    /// What the user calls the remote.
    pub name: String,
    /// Segment files that were replaced by what was pushed.
    pub files: Vec<String>,
    /// Blocks that were stored again out of other segments of the remote.
    pub blocks: u64,
    /// Bytes of both that came; none in a dry run.
    pub bytes: u64,
    /// Why something did not come, a line each.
    pub problems: Vec<String>,
}

impl FromRemote {
    /// Says it once: a segment may be asked for as a whole, and then for its blocks.
    fn note(&mut self, problem: impl ToString) {
        let problem = problem.to_string();
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// A remote that a repair may use. It is reached when the first thing is wanted of it.
pub(crate) struct Source {
    row: RemoteFields,
    reached: Reached,
    took: FromRemote,
}

enum Reached {
    NotYet,
    Yes(Arc<dyn Remote>),
    GivenUp,
}

impl Source {
    /// The sources that `wish` names.
    ///
    /// # Errors
    /// `UnknownRemote`.
    pub(crate) fn all(vault: &Vault, wish: &UseRemotes) -> Result<Vec<Self>> {
        let mut rows = match wish {
            UseRemotes::None => Vec::new(),
            UseRemotes::All | UseRemotes::Only(_) => vault.remote_rows()?,
        };
        if let UseRemotes::Only(name) = wish {
            rows.retain(|row| row.name == *name);
            if rows.is_empty() {
                return Err(Error::UnknownRemote(name.clone()));
            }
        }
        let source = |row: RemoteFields| Self {
            took: FromRemote {
                name: row.name.clone(),
                ..FromRemote::default()
            },
            row,
            reached: Reached::NotYet,
        };
        Ok(rows.into_iter().map(source).collect())
    }

    /// What was taken from those that were asked for something.
    pub(crate) fn report(all: Vec<Self>) -> Vec<FromRemote> {
        let asked = |source: &Self| !matches!(source.reached, Reached::NotYet);
        let asked = all.into_iter().filter(asked);
        asked.map(|source| source.took).collect()
    }

    /// The remote, unless it was given up.
    fn reach(&mut self, vault: &Vault) -> Option<Arc<dyn Remote>> {
        if let Reached::NotYet = self.reached {
            match vault.connect(&self.row) {
                Ok(remote) => self.reached = Reached::Yes(remote),
                Err(error) => self.give_up(&error),
            }
        }
        match &self.reached {
            Reached::Yes(remote) => Some(Arc::clone(remote)),
            Reached::NotYet | Reached::GivenUp => None,
        }
    }

    fn give_up(&mut self, error: &Error) {
        self.reached = Reached::GivenUp;
        self.took.note(error);
    }

    /// Gives the remote up if it failed; an error of this side stays one.
    fn settle(&mut self, ended: Result<()>) -> Result<()> {
        match ended {
            Err(error @ Error::Remote(_)) => {
                self.give_up(&error);
                Ok(())
            }
            ended => ended,
        }
    }
}

/// What came of asking for an object.
enum Fetched {
    /// Bytes that proved true; none of them in a dry run.
    Proven(Vec<u8>),
    /// Why it cannot be used.
    Refused(strongroom_sync::Error),
}

/// A segment that a remote should have, and the hash of its bytes.
struct Wanted {
    row: Segment,
    hash: [u8; 32],
}

impl Wanted {
    /// Whether it is these bytes: those that were published, and all of a segment of that name. Another device may have published
    /// something else under the same name; what is left here is worth more than that.
    fn is(&self, bytes: &[u8]) -> bool {
        object_hash(bytes) == self.hash
            && scan(bytes).is_ok_and(|found| {
                let is_finished = matches!(found.tail, ScanTail::Finished(_));
                let is_whole = is_finished && found.end >= self.row.committed_len;
                is_whole && found.header.id == self.row.id
            })
    }
}

impl Repair<'_> {
    /// Gives segments that are not as they were written the bytes that were pushed, and takes the blocks that are sound with that
    /// out of `damaged`.                                                                                          (1)
    pub(crate) fn segments_from_remotes(
        &mut self,
        sources: &mut [Source],
        damaged: &mut HashMap<BlockNumber, LostChunks>,
        told: &mut dyn FnMut(RecoverProgress),
    ) -> Result<()> {
        let mut rows = self.damaged_segments(damaged)?;
        let mut placed: Vec<Segment> = Vec::new();
        for source in sources {
            let wanted = self.pushed(source, &rows)?;
            if wanted.is_empty() {
                continue;
            }
            if let Some(remote) = source.reach(self.vault) {
                let before = placed.len();
                let ended = self.take_segments(source, &*remote, wanted, &mut placed, told);
                source.settle(ended)?;
                rows.retain(|row| !placed[before..].iter().any(|one| one.id == row.id));
            }
        }
        self.look_again(&placed, damaged)
    }

    /// Segments in which a verification found something, and those that are missing.
    fn damaged_segments(&self, damaged: &HashMap<BlockNumber, LostChunks>) -> Result<Vec<Segment>> {
        let reader = self.filesystem().engine().reader()?;
        let mut of_blocks = HashSet::new();
        for number in damaged.keys() {
            if let Some(row) = reader.block(*number)?
                && let Place::Segment(segment, _) = row.place
            {
                of_blocks.insert(segment);
            }
        }
        let mut rows = reader.segments()?;
        rows.retain(|row| {
            let file = show_segment(row.id);
            let is_awaited = row.live_bytes > 0 && row.state != SegmentState::Away;
            let is_missing = || is_awaited && !self.folder.has(&file);
            self.broken.contains(&file) || of_blocks.contains(&row.number) || is_missing()
        });
        Ok(rows)
    }

    /// Those of `rows` that a publication of the remote named.
    fn pushed(&self, source: &Source, rows: &[Segment]) -> Result<Vec<Wanted>> {
        let reader = self.filesystem().engine().reader()?;
        let mut wanted = Vec::new();
        for row in rows {
            let item = Published::Segment(row.id.0);
            // What was let go there is looked for block by block.
            let published = reader.published(source.row.number, item)?;
            if let Some(how) = published.filter(|how| how.hash != LET_GO) {
                wanted.push(Wanted {
                    row: row.clone(),
                    hash: how.hash,
                });
            }
        }
        Ok(wanted)
    }

    fn take_segments(
        &self,
        source: &mut Source,
        remote: &dyn Remote,
        wanted: Vec<Wanted>,
        placed: &mut Vec<Segment>,
        told: &mut dyn FnMut(RecoverProgress),
    ) -> Result<()> {
        let (filesystem, trial, took) = (self.filesystem(), self.trial, &mut source.took);
        let mut done = 0;
        let total = wanted.iter().map(|one| one.row.committed_len).sum();
        told(RecoverProgress::FromRemotes(done, total));
        in_parallel(
            wanted.into_iter(),
            remote.transfers(),
            |one| fetch(remote, &one, trial).map(|fetched| (one.row, fetched)),
            &mut |(row, fetched): (Segment, Fetched)| {
                done += row.committed_len;
                match fetched {
                    Fetched::Refused(why) => took.note(why),
                    Fetched::Proven(bytes) => {
                        if trial == Trial::ForReal {
                            filesystem.replace_segment(row.id, &bytes)?;
                        }
                        took.bytes += bytes.len() as u64;
                        took.files.push(show_segment(row.id));
                        placed.push(row);
                    }
                }
                told(RecoverProgress::FromRemotes(done, total));
                Ok(())
            },
        )
    }

    /// Proves the blocks of segments whose files were replaced; what is wrong with one now is not lost in transit.
    fn look_again(
        &mut self,
        placed: &[Segment],
        damaged: &mut HashMap<BlockNumber, LostChunks>,
    ) -> Result<()> {
        if placed.is_empty() {
            return Ok(());
        }
        let numbers: HashSet<SegmentNumber> = placed.iter().map(|row| row.number).collect();
        let reader = self.filesystem().engine().reader()?;
        let mut sound = Vec::new();
        for number in damaged.keys() {
            if let Some(row) = reader.block(*number)?
                && let Place::Segment(segment, _) = row.place
                && numbers.contains(&segment)
            {
                sound.push(*number);
            }
        }
        drop(reader);
        for number in sound {
            damaged.remove(&number);
        }
        for row in placed {
            self.broken.remove(&show_segment(row.id));
        }
        if self.trial == Trial::OnlyLook {
            return Ok(());
        }
        let part: PartFields = self
            .vault
            .ask_for(&Request::Verify(VerifyRequest::Segments {
                after: None,
                only: placed.iter().map(|row| row.id.0).collect(),
                bytes_max: u64::MAX,
                deep: true,
            }))?;
        let still = part.damaged.into_iter();
        damaged.extend(still.map(|(number, chunks)| (BlockNumber(number), LostChunks(chunks))));
        self.broken
            .extend(part.problems.into_iter().map(|problem| problem.file));
        Ok(())
    }

    /// Stores lost blocks again that are in other segments of a remote, and takes them out of `lost`: segments that were let go
    /// here, and those of other devices.                                                                         (2)
    pub(crate) fn blocks_from_remotes(
        &mut self,
        sources: &mut [Source],
        lost: &mut HashMap<BlockNumber, LostChunks>,
        told: &mut dyn FnMut(RecoverProgress),
    ) -> Result<()> {
        let reader = self.filesystem().engine().reader()?;
        let mut wanted: HashMap<BlockId, Block> = HashMap::new();
        for number in lost.keys() {
            wanted.extend(reader.block(*number)?.map(|row| (row.id, row)));
        }
        drop(reader);
        for source in sources {
            let sound = self.sound_here(source)?;
            // A node that comes back may name blocks that nobody missed before.
            let mut looks = true;
            while std::mem::take(&mut looks) && !wanted.is_empty() {
                if let Some(remote) = source.reach(self.vault) {
                    let mut found_out = Vec::new();
                    let wants = (&mut wanted, &mut found_out);
                    let ended = self.take_blocks(source, &*remote, &sound, wants, told);
                    source.settle(ended)?;
                    let reader = self.filesystem().engine().reader()?;
                    for number in found_out {
                        lost.insert(number, LostChunks::ALL);
                        wanted.extend(reader.block(number)?.map(|row| (row.id, row)));
                        looks = true;
                    }
                }
            }
        }
        let left: HashSet<BlockNumber> = wanted.values().map(|row| row.number).collect();
        lost.retain(|number, _| left.contains(number));
        Ok(())
    }

    /// The names of the segments of a remote that are here too, as they were written.
    fn sound_here(&self, source: &Source) -> Result<HashSet<String>> {
        let reader = self.filesystem().engine().reader()?;
        let rows = reader.segments()?.into_iter();
        let sound: HashSet<SegmentId> = rows
            .map(|row| row.id)
            .filter(|id| {
                let file = show_segment(*id);
                !self.broken.contains(&file) && self.folder.has(&file)
            })
            .collect();
        let mut names = HashSet::new();
        each_published(&reader, source.row.number, &mut |item, how| {
            if let Published::Segment(id) = item
                && sound.contains(&SegmentId(id))
            {
                names.insert(hex::encode(&how.hash));
            }
        })?;
        Ok(names)
    }

    fn take_blocks(
        &self,
        source: &mut Source,
        remote: &dyn Remote,
        sound: &HashSet<String>,
        (wanted, found_out): (&mut HashMap<BlockId, Block>, &mut Vec<BlockNumber>),
        told: &mut dyn FnMut(RecoverProgress),
    ) -> Result<()> {
        let sealer = self.filesystem().engine().sealer();
        let mut listed = remote.list("segments")?;
        listed.retain(|one| !sound.contains(&one.name) && one.len <= SEGMENT_OBJECT_BYTES_MAX);
        let mut holders: Vec<Holder> = Vec::new();
        in_parallel(
            listed.into_iter(),
            remote.transfers(),
            |one| Holder::look(remote, &sealer, &one, wanted),
            &mut |holder: Option<Holder>| {
                holders.extend(holder);
                Ok::<(), Error>(())
            },
        )?;
        let took = &mut source.took;
        for mut holder in holders {
            holder.blocks.retain(|block| wanted.contains_key(&block.id));
            if self.trial == Trial::OnlyLook {
                took.blocks += holder.blocks.len() as u64;
                for block in &holder.blocks {
                    wanted.remove(&block.id);
                }
                continue;
            }
            let (opened, bytes) = holder.open(remote, &sealer)?;
            if opened.len() < holder.blocks.len() {
                let object = holder.name.to_string();
                let why = "its content is not what was pushed";
                took.note(strongroom_sync::Error::Damaged { object, why });
            }
            let mut batch = Vec::with_capacity(opened.len());
            for (id, kind, clear) in opened {
                if wanted.remove(&id).is_some() {
                    let again = self.again(&sealer, kind, &clear)?;
                    found_out.extend(&again.found_out);
                    batch.push(again);
                }
            }
            took.blocks += batch.len() as u64;
            took.bytes += bytes;
            self.store(batch)?;
            told(RecoverProgress::FromRemotes(took.bytes, took.bytes));
        }
        Ok(())
    }
}

/// Fetches a segment; in a dry run, asks whether it is there.                                                      (1)
fn fetch(remote: &dyn Remote, wanted: &Wanted, trial: Trial) -> Result<Fetched> {
    let name = segment_name(&wanted.hash);
    let object = name.to_string();
    let missing = |object| Fetched::Refused(strongroom_sync::Error::Missing { object });
    let found = match trial {
        Trial::ForReal => remote.read(&name, SEGMENT_OBJECT_BYTES_MAX),
        Trial::OnlyLook => remote.has(&name).map(|there| there.then(Vec::new)),
    };
    let why = "its content is not what was pushed";
    Ok(match found {
        Ok(None) => missing(object),
        Ok(Some(_)) if trial == Trial::OnlyLook => Fetched::Proven(Vec::new()),
        Ok(Some(bytes)) if wanted.is(&bytes) => Fetched::Proven(bytes),
        Ok(Some(_)) | Err(RemoteError::TooLong { .. }) => {
            Fetched::Refused(strongroom_sync::Error::Damaged { object, why })
        }
        Err(error) => Fetched::Refused(of_one_object(error)?.into()),
    })
}

/// What is wrong with one object of a remote.
///
/// # Errors
/// What is wrong with all of them: it cannot be reached, or refuses access.
fn of_one_object(error: RemoteError) -> Result<RemoteError> {
    match error {
        RemoteError::Unreachable(_)
        | RemoteError::Refused(_)
        | RemoteError::DeviceRemoved
        | RemoteError::OtherMembers => Err(error.into()),
        error => Ok(error),
    }
}

/// A segment of a remote that lists blocks which are lost here.
struct Holder {
    name: ObjectName,
    epoch: Epoch,
    blocks: Vec<HeldBlock>,
}

struct HeldBlock {
    id: BlockId,
    kind: Kind,
    offset: u64,
    clear_len: usize,
}

impl HeldBlock {
    fn end(&self) -> u64 {
        self.offset + sealed_len(self.clear_len) as u64
    }
}

impl Holder {
    /// Looks into the table of contents of a segment, or into all of one that lists nothing there; `None` if it has nothing that is wanted,
    /// or cannot be read.
    fn look(
        remote: &dyn Remote,
        sealer: &BlockSealer,
        listed: &Listed,
        wanted: &HashMap<BlockId, Block>,
    ) -> Result<Option<Self>> {
        let Ok(name) = ObjectName::new(format!("segments/{}", listed.name)) else {
            return Ok(None);
        };
        let read = listed_at(remote, sealer, &name, listed.len);
        let found = match read {
            Ok(found) => found,
            Err(error) => of_one_object(error).map(|_| None)?,
        };
        let Some((epoch, found)) = found else {
            return Ok(None);
        };
        let mut blocks = Vec::new();
        for (first, entries) in found {
            let mut offset = u64::from(first);
            for entry in entries {
                let block = HeldBlock {
                    id: entry.id,
                    kind: Kind::from_number(entry.kind).unwrap_or(Kind::Data),
                    offset,
                    clear_len: entry.clear_len as usize,
                };
                offset = block.end();
                // Of what was lost with the database nobody knows the kind.
                if wanted.contains_key(&block.id) {
                    blocks.push(block);
                }
            }
        }
        blocks.retain(|block| block.end() <= listed.len);
        let holder = Self {
            name,
            epoch,
            blocks,
        };
        Ok(Some(holder).filter(|holder| !holder.blocks.is_empty()))
    }

    /// Fetches the part of the segment in which the blocks lie; gives those that open under their names, and how long it was.  (2)
    fn open(&self, remote: &dyn Remote, sealer: &BlockSealer) -> Result<(Opened, u64)> {
        let start = self.blocks.iter().map(|block| block.offset).min();
        let end = self.blocks.iter().map(HeldBlock::end).max();
        let (Some(start), Some(end)) = (start, end) else {
            return Ok((Vec::new(), 0));
        };
        let part = match remote.read_range(&self.name, start..end) {
            Ok(part) => part.unwrap_or_default(),
            Err(error) => of_one_object(error).map(|_| Vec::new())?,
        };
        let mut opened = Vec::new();
        for block in &self.blocks {
            let place = (block.offset - start) as usize..(block.end() - start) as usize;
            let clear = part.get(place).and_then(|sealed| {
                let len = block.clear_len;
                sealer
                    .open_exactly(self.epoch, block.kind, &block.id, len, sealed)
                    .ok()
            });
            opened.extend(clear.map(|clear| (block.id, block.kind, clear)));
        }
        Ok((opened, part.len() as u64))
    }
}

/// Blocks by name, with their kinds and what was sealed in them.
type Opened = Vec<(BlockId, Kind, Vec<u8>)>;

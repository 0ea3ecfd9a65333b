//! Repairs what a verification finds: from remotes, other copies and the current state. It sets aside what cannot be repaired.
//!
//! Takes   a vault folder that nobody has open, a secret, and which remotes may be used
//! Gives   a vault in which everything readable can be found, and a report of exactly what is not readable
//! Never   deletes what it cannot explain: such files go to the folder `unexplained`, such content to `lost+found`
//! Spec    spec/7-recovery.md, section 7.7
//!
//! Invariants
//!  (1) A block is repaired by storing its proven content again under its name. Files and snapshots that refer to it do not change.
//!  (2) After a kill at any moment, what was repaired stays repaired, and nothing is worse than before.
//!  (3) A second repair finds nothing to do.
//!  (4) If a publication names the segment of a lost block, the row of the block continues to name that segment. So no push
//!      retires that segment at the remote.  [7.7.8]

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use strongroom_crypto::{BlockSealer, Compression, Secret};
use strongroom_filesystem::{DamagedBlock, Filesystem, LostChunks};
use strongroom_format::{BlockId, Kind, SealedBlock};
use strongroom_history::names_of_block;
use strongroom_metadata::{BlockNumber, Place, Published, Reader, SegmentNumber};

use crate::execute::standing::LET_GO;
use crate::execute::verify::show_segment;
use crate::folder::Folder;
use crate::join::Joining;
use crate::keyring::unlocked::Way;
use crate::open::{self, OpenOptions};
use crate::owner::Owner;
use crate::owner::port::Port;
use crate::recovery::from_remotes::{FromRemote, Source, UseRemotes};
use crate::recovery::inventory::{FoundBlocks, Inventory};
use crate::recovery::recover::{
    Rebuild, RecoverOptions, RecoverProgress, Trial, begin, open_segments, recover_locked,
};
use crate::recovery::report::{Brought, RecoverReport};
use crate::recovery::verify::{VerifyOptions, VerifyReport};
use crate::request::Access;
use crate::request::remote::RemoteFields;
use crate::seen::Trust;
use crate::{GoOn, Result, Vault};

/// Bytes of content mended together.
const MEND_BYTES: usize = 4 * 1024 * 1024;

/// How a vault is repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Only say what would be done.
    pub dry_run: bool,
    /// When the database is rebuilt.
    pub rebuild: Rebuild,
    /// What the vault must be before it is touched.
    pub trust: Trust,
    /// The remotes that may be asked for what is damaged or lost. Nothing is asked of them if nothing is.
    pub remotes: UseRemotes,
}

/// What a repair did, or would do, and what it could not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Header, replica file and database: put back or rebuilt.
    pub recovered: RecoverReport,
    /// What was found before anything was mended.
    pub found: VerifyReport,
    /// What came from remotes, for each that was asked.
    pub remotes: Vec<FromRemote>,
    /// Blocks that were mended from other copies.
    pub mended_blocks: u64,
    /// Blocks that stay lost, or lost in part.
    pub lost_blocks: u64,
    /// Snapshots that the database did not know and knows now.
    pub adopted: Vec<String>,
    /// Records of revisions that were written again.
    pub records: u64,
    /// Files of the folder that were moved to `unexplained`.
    pub set_aside: Vec<String>,
    /// Files in `lost+found` with content that nothing named.
    pub unnamed: u64,
    /// What is left when all is done; nothing for a dry run.
    pub left: VerifyReport,
}

impl RepairReport {
    /// Whether nothing is lost and nothing is left to do.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.recovered.is_whole() && !self.left.is_damaged()
    }

    /// Whether there was nothing to mend.
    #[must_use]
    pub fn needs_nothing(&self) -> bool {
        self.recovered.is_untouched() && !self.found.is_damaged()
    }
}

/// Repairs the vault in `folder`. `told` hears of the progress.
///
/// A remote that cannot be reached or lies is no error: the report says so.
///
/// # Errors
/// As `recover`; `UnknownRemote`.
pub fn repair(
    folder: impl AsRef<Path>,
    secret: &Secret,
    options: RepairOptions,
    told: &mut dyn FnMut(RecoverProgress),
) -> Result<RepairReport> {
    let folder = Folder::new(folder.as_ref()).absolute()?;
    let trial = match options.dry_run {
        true => Trial::OnlyLook,
        false => Trial::ForReal,
    };
    let lock = begin(&folder, trial)?;
    let recovering = RecoverOptions {
        rebuild: options.rebuild,
        trust: options.trust.clone(),
    };
    let recovered = recover_locked(&folder, secret, &recovering, trial, told)?;
    let mut report = RepairReport {
        recovered,
        ..RepairReport::default()
    };
    if trial == Trial::OnlyLook && !report.recovered.is_untouched() {
        // What would be rebuilt cannot be looked into before it is.
        return Ok(report);
    }
    let access = match trial {
        Trial::ForReal => Access::ReadWrite,
        Trial::OnlyLook => Access::ReadOnly,
    };
    let joining = OpenOptions {
        access,
        trust: options.trust,
        ..OpenOptions::default()
    };
    let owner = Arc::new(open::open(
        &folder,
        Some(lock),
        Way::Secret(secret),
        access,
        &joining,
    )?);
    let vault = Vault::new(
        Port::Owner(Arc::clone(&owner)),
        Joining::new(folder.path(), joining, None)?,
    );
    let mended = Repair {
        folder: &folder,
        owner: &owner,
        vault: &vault,
        trial,
        report: &mut report,
        broken: HashSet::new(),
        lost_in: HashSet::new(),
    }
    .run(&options.remotes, told);
    let closed = vault.close();
    mended?;
    closed?;
    Ok(report)
}

/// A block that is stored again.
pub(crate) struct Again {
    block: SealedBlock,
    /// What it names if it is a node.
    names: Vec<BlockId>,
    /// Those of them that had no row: they are lost, and may be found too.
    pub(crate) found_out: Vec<BlockNumber>,
}

/// A repair under way.
pub(crate) struct Repair<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) owner: &'a Owner,
    pub(crate) vault: &'a Vault,
    pub(crate) trial: Trial,
    pub(crate) report: &'a mut RepairReport,
    /// Files of the folder that are not as they were written.
    pub(crate) broken: HashSet<String>,
    /// Segments of which blocks are lost.
    pub(crate) lost_in: HashSet<SegmentNumber>,
}

impl<'a> Repair<'a> {
    pub(crate) fn filesystem(&self) -> &'a Filesystem {
        self.owner.session.filesystem()
    }

    fn run(mut self, remotes: &UseRemotes, told: &mut dyn FnMut(RecoverProgress)) -> Result<()> {
        // A database that was rebuilt has none.
        let mut sources = match self.report.recovered.database {
            Brought::Rebuilt(_) => Vec::new(),
            _ => Source::all(self.vault, remotes)?,
        };
        let (found, mut damaged) = self.verify(told)?;
        let is_damaged = found.is_damaged();
        let broken = found.files.iter().filter(|one| one.is_damage);
        self.broken = broken.map(|one| one.file.clone()).collect();
        self.report.found = found;
        if !is_damaged {
            self.report.left = self.report.found.clone();
            return Ok(());
        }
        // What is stored again has no reference for a moment, and neighbours may be the last to name it: nothing is given back meanwhile.
        let held = self.filesystem().engine().hold();
        self.segments_from_remotes(&mut sources, &mut damaged, told)?;
        let (suite, epochs) = self.owner.session.vault.with_keys(|keys| {
            let keyring = keys.keyring();
            (keyring.suite(), keyring.epochs().collect::<Vec<_>>())
        });
        let segments = open_segments(self.folder, suite)?;
        let sealer = self.filesystem().engine().sealer();
        let inventory = Inventory::take(&segments, &sealer, &epochs, &mut |bytes, total| {
            told(RecoverProgress::Segments(bytes, total));
        })?;
        let blocks = FoundBlocks {
            store: &segments,
            sealer: &sealer,
            inventory: &inventory,
        };
        let damaged = self.with_neighbours(damaged)?;
        let lost = self.mend(&blocks, damaged)?;
        let unknown = self.unknown_segments(&blocks)?;
        self.adopt(&blocks)?;
        self.unexplained_segments(&blocks, unknown)?;
        self.records()?;
        let mut lost = self.mend_nodes(lost)?;
        self.blocks_from_remotes(&mut sources, &mut lost, told)?;
        self.report.remotes = Source::report(sources);
        self.report.lost_blocks = lost.len() as u64;
        if self.trial == Trial::OnlyLook {
            return Ok(());
        }
        self.isolate(&lost)?;
        drop(held);
        self.emptied_segments()?;
        self.filesystem().drop_empty_segments()?;
        self.owner
            .session
            .vault
            .with_keys(|keys| crate::keyring::own_replica::save_copies(keys.folder()))?;
        self.filesystem().sync()?;
        self.report.left = self.verify(told)?.0;
        Ok(())
    }

    fn verify(
        &self,
        told: &mut dyn FnMut(RecoverProgress),
    ) -> Result<(VerifyReport, HashMap<BlockNumber, LostChunks>)> {
        let options = VerifyOptions {
            deep: true,
            resume: false,
        };
        let (report, damaged) = self.vault.verify_blocks(options, &mut |progress| {
            told(RecoverProgress::Segments(
                progress.bytes,
                progress.bytes_total,
            ));
            GoOn::Yes
        })?;
        let damaged = damaged
            .into_iter()
            .map(|(number, chunks)| (BlockNumber(number), LostChunks(chunks)));
        Ok((report, damaged.collect()))
    }

    /// With the sound blocks of every segment that is not as it was written: they move, and the file goes, unless
    /// something of it is lost.
    fn with_neighbours(
        &self,
        mut damaged: HashMap<BlockNumber, LostChunks>,
    ) -> Result<HashMap<BlockNumber, LostChunks>> {
        let engine = self.filesystem().engine();
        let reader = engine.reader()?;
        let mut moving = Vec::new();
        for row in reader.segments()? {
            if !self.broken.contains(&show_segment(row.id)) {
                continue;
            }
            let mut after = BlockNumber(0);
            loop {
                let page = reader.blocks_in_segment(row.number, after, 4096)?;
                let Some(last) = page.last() else { break };
                after = last.number;
                moving.extend(page.iter().map(|block| block.number));
            }
        }
        self.filesystem().suspect(&moving);
        for number in moving {
            damaged.entry(number).or_insert(LostChunks::NONE);
        }
        Ok(damaged)
    }

    /// Stores damaged blocks again of which another copy opens; gives those that stay.                           (1)
    fn mend(
        &mut self,
        blocks: &FoundBlocks<'_>,
        mut damaged: HashMap<BlockNumber, LostChunks>,
    ) -> Result<HashMap<BlockNumber, LostChunks>> {
        let engine = self.filesystem().engine();
        let sealer = engine.sealer();
        let mut numbers: Vec<BlockNumber> = damaged.keys().copied().collect();
        numbers.sort_unstable();
        let mut numbers = VecDeque::from(numbers);
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(number) = numbers.pop_front() {
            let reader = engine.reader()?;
            let Some(row) = reader.block(number)? else {
                damaged.remove(&number);
                continue;
            };
            // As it was sealed: compressed again it might get another name.
            let found = blocks.inventory.blocks.get(&row.id);
            let mut opened = match found {
                Some(found) => blocks
                    .open_exactly(&row.id)?
                    .map(|clear| (found.kind, clear)),
                None => None,
            };
            if let Place::Segment(segment, _) = row.place
                && opened.is_none()
                && let Some(segment) = reader.segment(segment)?
            {
                let clear = blocks.open_as_row_says(&row, segment.id)?;
                opened = clear.map(|clear| (row.kind, clear));
            }
            drop(reader);
            let Some((kind, clear)) = opened else {
                continue;
            };
            let was_lost = damaged.remove(&number) != Some(LostChunks::NONE);
            self.report.mended_blocks += u64::from(was_lost);
            bytes += clear.len();
            let again = self.again(&sealer, kind, &clear)?;
            for number in &again.found_out {
                damaged.insert(*number, LostChunks::ALL);
                numbers.push_back(*number);
            }
            batch.push(again);
            if bytes >= MEND_BYTES {
                bytes = 0;
                self.store(std::mem::take(&mut batch))?;
            }
        }
        self.store(batch)?;
        damaged.retain(|_, chunks| *chunks != LostChunks::NONE);
        Ok(damaged)
    }

    /// The block of `clear`, sealed again under its name. What a node names has rows from now on: lost ones, where it had none.
    pub(crate) fn again(&self, sealer: &BlockSealer, kind: Kind, clear: &[u8]) -> Result<Again> {
        let block = sealer.seal_exactly(kind, clear);
        let names = match kind.is_data() {
            true => Vec::new(),
            false => names_in(sealer, &block),
        };
        let found_out = match self.trial {
            Trial::ForReal if !names.is_empty() => self.filesystem().insert_lost(&names)?,
            Trial::ForReal | Trial::OnlyLook => Vec::new(),
        };
        Ok(Again {
            block,
            names,
            found_out,
        })
    }

    pub(crate) fn store(&self, batch: Vec<Again>) -> Result<()> {
        if batch.is_empty() || self.trial == Trial::OnlyLook {
            return Ok(());
        }
        let engine = self.filesystem().engine();
        let epoch = engine.sealer().epoch();
        let (blocks, names): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|one| (one.block, one.names)).unzip();
        engine.store(epoch, blocks, &names)?;
        Ok(engine.commit()?)
    }

    /// Nodes of snapshots that are lost are rebuilt from the living state, where that still is what they held.
    fn mend_nodes(
        &mut self,
        lost: HashMap<BlockNumber, LostChunks>,
    ) -> Result<HashMap<BlockNumber, LostChunks>> {
        let engine = self.filesystem().engine();
        let mut nodes = Vec::new();
        for number in lost.keys() {
            let row = engine.reader()?.block(*number)?;
            nodes.extend(row.filter(|row| !row.kind.is_data()));
        }
        if nodes.is_empty() || self.trial == Trial::OnlyLook {
            return Ok(lost);
        }
        // Compressed or not they have other names.
        for compression in Compression::ALL {
            if nodes
                .iter()
                .any(|node| Compression::of_kind(node.kind) == compression)
            {
                self.filesystem().store_nodes(compression)?;
            }
        }
        let mut left = lost;
        for node in nodes {
            if engine
                .open(node.kind, &node.id)
                .is_ok_and(|opened| opened.is_some())
            {
                left.remove(&node.number);
                self.report.mended_blocks += 1;
            }
        }
        Ok(left)
    }

    /// What stays lost is remembered, so that nothing new is named after it; blocks of which nothing is left wait for no
    /// file any more. Those of a segment that a remote has wait for it: a segment that nothing waits for would be retired there.  (4)
    fn isolate(&mut self, lost: &HashMap<BlockNumber, LostChunks>) -> Result<()> {
        let remotes = self.vault.remote_rows()?;
        let reader = self.filesystem().engine().reader()?;
        let mut blocks: Vec<DamagedBlock> = Vec::new();
        let mut waiting: Vec<DamagedBlock> = Vec::new();
        for (number, chunks) in lost {
            let Some(row) = reader.block(*number)? else {
                continue;
            };
            let damaged = DamagedBlock {
                number: *number,
                chunks: *chunks,
            };
            if let Place::Segment(segment, _) = row.place {
                self.lost_in.insert(segment);
                if is_pushed(&reader, &remotes, segment)? {
                    waiting.push(damaged);
                    continue;
                }
            }
            blocks.push(damaged);
        }
        drop(reader);
        for blocks in [&mut blocks, &mut waiting] {
            blocks.sort_unstable_by_key(|block| block.number);
        }
        self.wholly_lost_segments(&blocks)?;
        Ok(self.filesystem().isolate(&blocks, &waiting)?)
    }
}

/// What a node names, compressed or not; nothing if it is not as a node must be: whoever reads it finds that.
fn names_in(sealer: &BlockSealer, node: &SealedBlock) -> Vec<BlockId> {
    let len = node.clear_len as usize;
    let clear = sealer.open(sealer.epoch(), node.kind, &node.id, len, &node.bytes);
    let names = clear.map(|clear| names_of_block(node.kind, &clear).unwrap_or_default());
    names.unwrap_or_default()
}

/// Whether a remote should have the whole segment: a publication names it.
fn is_pushed(
    reader: &Reader<'_>,
    remotes: &[RemoteFields],
    segment: SegmentNumber,
) -> Result<bool> {
    let Some(segment) = reader.segment(segment)? else {
        return Ok(false);
    };
    for remote in remotes {
        let published = reader.published(remote.number, Published::Segment(segment.id.0))?;
        if published.is_some_and(|how| how.hash != LET_GO) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::fs;

    use strongroom_crypto::{KeyFile, SystemRandom};

    use super::*;
    use crate::CreateOptions;
    use crate::folder::{SEGMENTS, UNEXPLAINED};

    fn longest_segment(folder: &Folder) -> std::path::PathBuf {
        let folders = fs::read_dir(folder.part(SEGMENTS)).unwrap();
        let files = folders.flat_map(|inside| fs::read_dir(inside.unwrap().path()).unwrap());
        let paths = files.map(|file| file.unwrap().path());
        paths
            .max_by_key(|path| fs::metadata(path).unwrap().len())
            .unwrap()
    }

    /// Goal: a kill right after the commit that says that the blocks of a segment are lost costs nothing that is left of its file. Failed
    /// before: the file was in its place then, empty by its row, and the next opening removed it.
    #[test]
    fn a_segment_goes_aside_before_its_row_says_that_nothing_is_left_in_it() {
        let place = tempfile::tempdir().unwrap();
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let created = CreateOptions::new().key_file(key_file.clone());
        let vault = Vault::create(place.path().join("vault"), created)
            .unwrap()
            .vault;
        let content: Vec<u8> = (0..75_000_u32).flat_map(u32::to_le_bytes).collect();
        vault.write("/file", &content).unwrap();
        vault.compact().unwrap();
        vault.close().unwrap();
        let folder = Folder::new(&place.path().join("vault")).absolute().unwrap();
        let path = longest_segment(&folder);
        let mut damaged = fs::read(&path).unwrap();
        damaged[4096..].fill(0);
        fs::write(&path, &damaged).unwrap();

        let secret = Secret::KeyFile(key_file);
        let lock = begin(&folder, Trial::ForReal).unwrap();
        let (way, joining) = (Way::Secret(&secret), OpenOptions::default());
        let owner = open::open(&folder, Some(lock), way, Access::ReadWrite, &joining).unwrap();
        let owner = Arc::new(owner);
        let joining = Joining::new(folder.path(), joining, None).unwrap();
        let vault = Vault::new(Port::Owner(Arc::clone(&owner)), joining);
        let mut report = RepairReport::default();
        let mut repair = Repair {
            folder: &folder,
            owner: &owner,
            vault: &vault,
            trial: Trial::ForReal,
            report: &mut report,
            broken: HashSet::new(),
            lost_in: HashSet::new(),
        };
        let (_, lost) = repair.verify(&mut |_| {}).unwrap();
        repair.isolate(&lost).unwrap();
        // As after a kill here.
        let aside = folder.part(UNEXPLAINED).join(path.file_name().unwrap());
        assert!(!path.exists());
        assert!(fs::read(aside).unwrap() == damaged);
        assert_eq!(report.set_aside.len(), 1, "{report:?}");
        vault.close().unwrap();
    }
}

//! Erases content from all snapshots, and notes that for the other devices.
//!
//! Takes   a path, or what other devices noted
//! Gives   the path's content erased
//! Never   erases content that anything else refers to
//! Spec    spec/6-history.md, section 6.11
//!
//! Invariants
//!  (1) What another device noted is erased once: this device stores the id of the note for as long as the note exists.  [6.11.8]
//!  (2) An erasure that was interrupted is finished before anything else is erased.                              [6.11.6]

use std::sync::Arc;

use strongroom_format::FormatError;
use strongroom_format::limits::sealed_len;
use strongroom_history::limits::ERASURES_AT_ONCE;
use strongroom_history::{
    self as history, ERASURES, ErasedContent, Erasure, ErasureNote, Erasures, Revision, Target,
};
use strongroom_metadata::{ERASED_SEGMENT, InodeId, Place};

use crate::blocks::erased::seconds;
use crate::upkeep::erase::{PRUNE_NOW, bring_back_segments_of, erase, finish_removals};
use crate::{Caller, Error, Filesystem, Result, XattrMode};

/// The setting that names what is being erased; empty for nothing.                                 [6.11.6]
const ERASING: &str = "erasing";

/// The setting that has the ids of the erasures in the tree that were carried out here, 8 bytes each.               [6.11.8]
const ERASED: &str = "erased";

/// Why an erasure is not noted for other devices.
const NOT_NOTED: &str = "the content was erased on this device, but other devices keep it: the list of erasures in this vault is of a later version \
                         of Strongroom, and this version cannot add to it. Install that version here, then erase the same path again";

/// The setting that is not empty while content is erased that another device noted.                               [6.11.8]
const ERASING_NOTED: &str = "erasing_noted";

impl Filesystem {
    /// Takes the content of what was at `path` out of every snapshot; with `trial`, only says what that would be.
    ///
    /// # Errors
    /// `NotFound` if no snapshot has anything there; of the stores. `UnknownFormat` if it was erased here and cannot be noted for other devices.
    pub fn erase_content(&self, path: &[u8], trial: bool) -> Result<ErasedContent> {
        // None is taken meanwhile that names it again.
        let _turn = self.hold_revisions();
        if !trial {
            self.finish_erasing()?;
        }
        let giving_back = finish_removals(&self.core)?;
        let found = self.find_content(path)?;
        if trial {
            return self.left_to_erase(&found);
        }
        // What is away has to be here to be emptied: without its remote nothing begins.
        bring_back_segments_of(&self.core, &found)?;
        // [6.11.6]
        self.keep_setting(ERASING, path)?;
        let erased = erase(&self.core, found)?;
        drop(giving_back);
        let noted = self.note_erasure(path);
        // It is erased. If it cannot be noted, whoever asked hears of that and may ask again: later there may be another file at the path.
        self.keep_setting(ERASING, &[])?;
        noted.map(|()| erased)
    }

    fn find_content(&self, path: &[u8]) -> Result<Erasure> {
        let engine = self.engine();
        let reader = engine.reader()?;
        let state = reader.snapshot()?;
        let target = Target { path, noted: None };
        history::to_erase(&engine.trees(), &state, target)
    }

    /// Notes for other devices that what was at `path` was erased; where there are none, nothing is noted.         [6.11.7]
    fn note_erasure(&self, path: &[u8]) -> Result<()> {
        if self.engine().reader()?.remotes()?.is_empty() {
            return Ok(());
        }
        // What a later version wrote there stays.
        let Some(erasures) = self.erasures()? else {
            return Err(Error::UnknownFormat(NOT_NOTED.to_owned()));
        };
        let had = self.revisions()?;
        let id = self.core.birth_id()?;
        let time_s = seconds(self.core.now()).into();
        let note = ErasureNote::new((id, time_s), path, had.iter().map(|one| &**one));
        // (1)
        let mut done = self.carried_out(&erasures)?;
        done.push(id);
        self.keep_carried_out(&done)?;
        let value = erasures.with(note).encode();
        let root = InodeId::ROOT;
        self.set_xattr(&Caller::root(), root, ERASURES, &value, XattrMode::Set)
    }

    /// What the tree says of erasures; `None` if it says what only a later version can read.
    fn erasures(&self) -> Result<Option<Erasures>> {
        let value = match self.xattr(&Caller::root(), InodeId::ROOT, ERASURES) {
            Err(Error::NoAttribute) => return Ok(Some(Erasures::default())),
            value => value?,
        };
        match Erasures::decode(&value) {
            Ok(erasures) => Ok(Some(erasures)),
            Err(FormatError::UnknownFormat { .. }) => Ok(None),
            // No version can read it: the next erasure takes its place.
            Err(_) => Ok(Some(Erasures::default())),
        }
    }

    /// The ids of those of `erasures` that were carried out here.
    fn carried_out(&self, erasures: &Erasures) -> Result<Vec<u64>> {
        let mut ids = numbers(self.setting(ERASED)?);
        ids.retain(|id| erasures.all().iter().any(|note| note.id == *id));
        Ok(ids)
    }

    fn keep_carried_out(&self, ids: &[u64]) -> Result<()> {
        let value: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        self.keep_setting(ERASED, &value)
    }

    /// Erases what other devices noted in the tree and this one has not erased yet.                              [6.11.8]
    ///
    /// # Errors
    /// Of the stores, and of what brings content back that is away; then it is tried again by the next opening, and the next call.
    pub fn erase_as_noted(&self) -> Result<ErasedContent> {
        let _turn = self.hold_revisions();
        self.finish_erasing()?;
        self.carry_out_erasures()
    }

    fn carry_out_erasures(&self) -> Result<ErasedContent> {
        let mut all = ErasedContent::default();
        let was_interrupted = self
            .setting(ERASING_NOTED)?
            .is_some_and(|on| !on.is_empty());
        if was_interrupted {
            // As in `finish_erasing`.
            self.compact()?;
            self.keep_setting(ERASING_NOTED, &[])?;
        }
        let Some(erasures) = self.erasures()? else {
            return Ok(all);
        };
        let mut done = self.carried_out(&erasures)?;
        let mut pending = erasures.all().to_vec();
        pending.retain(|note| !done.contains(&note.id));
        if pending.is_empty() {
            return Ok(all);
        }
        let had = self.revisions()?;
        let mut problem = None;
        for notes in pending.chunks(ERASURES_AT_ONCE) {
            // Until all of them are erased, no tree may lose references.
            let _giving_back = finish_removals(&self.core)?;
            for (note, found) in notes.iter().zip(self.find_noted(notes, &had)?) {
                let erased = match found.and_then(|found| self.brought_back(found)) {
                    Ok(found) => self.erase_found(found)?,
                    // The others do not wait for this one.
                    Err(error) => {
                        problem = Some(error);
                        continue;
                    }
                };
                all.states += erased.states;
                all.files += erased.files;
                all.bytes += erased.bytes;
                all.shared_bytes += erased.shared_bytes;
                all.segments_left += erased.segments_left;
                // (1)
                done.push(note.id);
                self.keep_carried_out(&done)?;
            }
        }
        problem.map_or(Ok(all), Err)
    }

    /// What to erase for each of these erasures of other devices, found in one pass over all trees. The blocks of one may be those of
    /// another: whether something else uses a block does not depend on what is erased meanwhile.
    fn find_noted(
        &self,
        notes: &[ErasureNote],
        had: &[Arc<Revision>],
    ) -> Result<Vec<Result<Erasure>>> {
        let had = had.iter().map(|one| &**one);
        let engine = self.engine();
        let reader = engine.reader()?;
        let state = reader.snapshot()?;
        let mut found = history::to_erase_noted(&engine.trees(), &state, notes, had)?;
        for one in &mut found {
            // No snapshot here has it, or the path is none: no later try would do more.
            if let Err(Error::NotFound | Error::InvalidArgument(_)) = one {
                *one = Ok(Erasure::default());
            }
        }
        Ok(found)
    }

    /// The same, once it is here.
    fn brought_back(&self, found: Erasure) -> Result<Erasure> {
        bring_back_segments_of(&self.core, &found)?;
        Ok(found)
    }

    fn erase_found(&self, found: Erasure) -> Result<ErasedContent> {
        if found.blocks.is_empty() {
            return Ok(found.content);
        }
        self.keep_setting(ERASING_NOTED, &[1])?;
        let erased = erase(&self.core, found)?;
        self.keep_setting(ERASING_NOTED, &[])?;
        Ok(erased)
    }

    /// The remotes from which everything that is not live is to go at once, because content was erased that they may have.   [6.11.11]
    ///
    /// # Errors
    /// Of the store.
    pub fn remotes_to_prune(&self) -> Result<Vec<u64>> {
        Ok(numbers(self.setting(PRUNE_NOW)?))
    }

    /// Sealed bytes of all that was erased so far: another number after each erasure.
    ///
    /// # Errors
    /// Of the store.
    pub fn erased_bytes(&self) -> Result<u64> {
        let grave = self.core.store.lock().segment_by_id(&ERASED_SEGMENT)?;
        Ok(grave.map_or(0, |row| row.total_bytes))
    }

    /// Notes that it is gone from that remote, unless something is being erased, or was since `erased_bytes` were `erased`, before the
    /// remote was looked at: that may be there still. Whoever found that it is gone holds `hold_revisions` since then.   [6.11.11]
    ///
    /// # Errors
    /// `ReadOnly`, `Failed`, or of the store.
    pub fn note_pruned(&self, remote: u64, erased: u64) -> Result<()> {
        self.set(|_, writer| {
            let grave = writer.segment_by_id(&ERASED_SEGMENT)?;
            if grave.map_or(0, |row| row.total_bytes) != erased {
                return Ok(());
            }
            for under_way in [ERASING, ERASING_NOTED] {
                if writer.setting(under_way)?.is_some_and(|it| !it.is_empty()) {
                    return Ok(());
                }
            }
            let mut left = numbers(writer.setting(PRUNE_NOW)?);
            left.retain(|number| *number != remote);
            let value: Vec<u8> = left.iter().flat_map(|one| one.to_le_bytes()).collect();
            Ok(writer.put_setting(PRUNE_NOW, &value)?)
        })
    }

    /// What erasing would take now: not what was erased before.
    fn left_to_erase(&self, found: &Erasure) -> Result<ErasedContent> {
        let reader = self.engine().reader()?;
        let grave = reader.segment_by_id(&ERASED_SEGMENT)?.map(|row| row.number);
        let mut content = found.content;
        for (number, _) in &found.blocks {
            if let Some(block) = reader.block(*number)?
                && let Place::Segment(segment, _) = block.place
                && Some(segment) == grave
            {
                content.bytes -= sealed_len(block.clear_len as usize) as u64;
            }
        }
        Ok(content)
    }

    /// Finishes an erasure that was interrupted, and erases what other devices noted: content is erased whole, or not at all. (2)
    ///
    /// # Errors
    /// Of the stores; then it is tried again by the next opening, and before the next erasing.
    pub fn resume_erasing(&self) -> Result<()> {
        self.erase_as_noted().map(drop)
    }

    fn finish_erasing(&self) -> Result<()> {
        let path = self.setting(ERASING)?.unwrap_or_default();
        if path.is_empty() {
            return Ok(());
        }
        let giving_back = finish_removals(&self.core)?;
        match self.find_content(&path) {
            Ok(found) => drop(erase(&self.core, found)?),
            // The snapshots that had it were removed since.
            Err(Error::NotFound) => {}
            Err(error) => return Err(error),
        }
        drop(giving_back);
        // Nobody knows any more which segments held what was erased before the interruption: all waste goes.
        self.compact()?;
        let noted = self.note_erasure(&path);
        // No later try of this version could note it: whoever hears of that erases the path again.
        if matches!(noted, Ok(()) | Err(Error::UnknownFormat(_))) {
            self.keep_setting(ERASING, &[])?;
        }
        noted
    }

    /// Of the blocks that erasing `path` takes: how many are erased, and how many there are. For tests of interruptions.
    ///
    /// # Errors
    /// As `erase_content`.
    #[doc(hidden)]
    pub fn erased_blocks(&self, path: &[u8]) -> Result<(usize, usize)> {
        let _turn = self.hold_revisions();
        let found = self.find_content(path)?;
        let reader = self.engine().reader()?;
        let grave = reader.segment_by_id(&ERASED_SEGMENT)?;
        let mut erased = 0;
        for (number, _) in &found.blocks {
            let place = reader.block(*number)?.map(|block| block.place);
            let is_erased = matches!(
                (&grave, place),
                (Some(grave), Some(Place::Segment(at, _))) if at == grave.number
            );
            erased += usize::from(is_erased);
        }
        Ok((erased, found.blocks.len()))
    }
}

/// The numbers in a setting, 8 bytes each.
fn numbers(value: Option<Vec<u8>>) -> Vec<u64> {
    let value = value.unwrap_or_default();
    let (numbers, _) = value.as_chunks::<8>();
    numbers.iter().map(|one| u64::from_le_bytes(*one)).collect()
}

//! Runs a verification step by step, so that it can report progress, stop, and continue another day.
//!
//! Takes   an open vault, how deep to look, and a function that is called with the progress
//! Gives   a report that names files, bytes and snapshots; or a state from which to continue
//! Never   continues from a state that the vault did not save (`verify_state.rs`)
//! Spec    spec/7-recovery.md

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use strongroom_history::RevisionId;
use strongroom_metadata::DATABASE_FILE;

use crate::limits::{VERIFY_BLOCKS_MAX, VERIFY_STEP_BYTES, VERIFY_SUSPECTS_MAX};
use crate::request::verify::{
    DamagePage, FileProblem, Loss, PartFields, ResumeFields, StoppedAt, VerifyRequest,
};
use crate::request::{CheckReport, Request, Response};
use crate::{Error, Result, Vault};

/// What one step should take.
const STEP: Duration = Duration::from_millis(500);

/// How a vault is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Compute the names of blocks again, and go over every snapshot.
    pub deep: bool,
    /// Go on where an earlier one was stopped, if there is one of the same depth.
    pub resume: bool,
}

/// How far a verification is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Bytes of segments that were read, those before a stop included.
    pub bytes: u64,
    /// Bytes that there are.
    pub bytes_total: u64,
    /// Blocks that were opened, or not.
    pub blocks: u64,
    /// Blocks that do not open.
    pub damaged_blocks: u64,
}

/// Whether a verification shall go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoOn {
    /// Yes.
    Yes,
    /// No: it keeps its state and ends.
    No,
}

/// What a path lost, and in which states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// From the root, beginning with `/`.
    pub path: Vec<u8>,
    /// What is lost.
    pub what: Loss,
    /// Whether the living state lost it.
    pub now: bool,
    /// The snapshots that lost it, oldest first.
    pub revisions: Vec<RevisionId>,
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Whether it reached the end; else a later one can go on.
    pub finished: bool,
    /// Whether it kept where it was stopped.
    pub can_resume: bool,
    /// Tables against each other.
    pub structure: CheckReport,
    /// Files of the vault folder that are not as they were written; and keys and devices in its header that wait for a person's decision.
    pub files: Vec<FileProblem>,
    /// What people lose with them, in the order of paths.
    pub damages: Vec<Damage>,
    /// How far it came.
    pub progress: VerifyProgress,
    /// Nodes of snapshots that were gone over.
    pub nodes: u64,
    /// Blocks that do not open beyond those whose files are named.
    pub damaged_more: u64,
    /// If it went on: when the earlier one was stopped, in seconds since 1970. What that one read is as it was then.
    pub resumed_s: Option<u64>,
    /// If it was to go on and began at the start instead: why.
    pub begun_anew: Option<String>,
}

impl VerifyReport {
    /// Whether everything that was looked at is as it was written, and no key or device waits for a person's decision.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.files.is_empty() && !self.is_damaged()
    }

    /// Whether something that was looked at is not as it was written. A device that nobody here accepted is no damage.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        !self.structure.problems.is_empty()
            || self.files.iter().any(|one| one.is_damage)
            || !self.damages.is_empty()
            || self.progress.damaged_blocks > 0
    }
}

/// A verification under way.
struct Verification<'v> {
    vault: &'v Vault,
    deep: bool,
    report: VerifyReport,
    damaged: Vec<(u64, u16)>,
    suspects: Vec<[u8; 16]>,
    step_bytes: u64,
}

impl Vault {
    /// Reads everything in the vault folder and reports what is not as it was written. Works while others use the vault.
    ///
    /// `told` hears of the progress twice a second or so, and says whether to go on.
    ///
    /// # Errors
    /// Of the disk; damage is no error.
    pub fn verify(
        &self,
        options: VerifyOptions,
        told: &mut dyn FnMut(&VerifyProgress) -> GoOn,
    ) -> Result<VerifyReport> {
        Ok(self.verify_blocks(options, told)?.0)
    }

    /// The same, with the numbers of the blocks that do not open, and their lost chunks.
    pub(crate) fn verify_blocks(
        &self,
        options: VerifyOptions,
        told: &mut dyn FnMut(&VerifyProgress) -> GoOn,
    ) -> Result<(VerifyReport, Vec<(u64, u16)>)> {
        let mut run = Verification {
            vault: self,
            deep: options.deep,
            report: VerifyReport::default(),
            damaged: Vec::new(),
            suspects: Vec::new(),
            step_bytes: VERIFY_STEP_BYTES.0,
        };
        let state = match options.resume {
            true => run.resume()?,
            false => None,
        };
        let stopped = run.segments(state, told)?;
        if let Some(after) = stopped {
            // On media that cannot be written the next one begins at the start.
            run.report.can_resume = run.keep(after)?;
            return Ok((run.report, run.damaged));
        }
        run.rest()?;
        run.report.finished = true;
        run.end()?;
        Ok((run.report, run.damaged))
    }
}

impl Verification<'_> {
    /// What there is to go on from.
    fn resume(&mut self) -> Result<Option<StoppedAt>> {
        let deep = self.deep;
        let found: Option<ResumeFields> = self.ask(VerifyRequest::Resume { deep })?;
        let (state, kept_s, refused) = match found {
            Some(found) => (found.state, found.kept_s, found.refused),
            None => (None, 0, "the database is damaged".to_owned()),
        };
        match state {
            Some(_) => self.report.resumed_s = Some(kept_s),
            None => self.report.begun_anew = Some(refused),
        }
        Ok(state)
    }

    /// Keeps where it was stopped; gives whether the next one can go on there.
    fn keep(&mut self, after: Option<[u8; 16]>) -> Result<bool> {
        let Some(after) = after.filter(|_| self.suspects.len() <= VERIFY_SUSPECTS_MAX) else {
            self.end()?;
            return Ok(false);
        };
        let state = StoppedAt {
            deep: self.deep,
            after,
            bytes: self.report.progress.bytes,
            blocks: self.report.progress.blocks,
            suspects: self.suspects.clone(),
        };
        Ok(self.ask(VerifyRequest::Keep(state))?.unwrap_or(false))
    }

    /// Nothing is left to go on from.
    fn end(&mut self) -> Result<()> {
        self.ask::<()>(VerifyRequest::End).map(drop)
    }

    /// Goes over the segments; gives where it was stopped, if it was.
    fn segments(
        &mut self,
        state: Option<StoppedAt>,
        told: &mut dyn FnMut(&VerifyProgress) -> GoOn,
    ) -> Result<Option<Option<[u8; 16]>>> {
        let mut after = state.as_ref().map(|state| state.after);
        let (bytes_before, blocks_before, suspects) = match state {
            Some(state) => (state.bytes, state.blocks, state.suspects),
            None => (0, 0, Vec::new()),
        };
        let Some(bytes) = self.ask::<u64>(VerifyRequest::Size { after })? else {
            return Ok(None);
        };
        self.report.progress.bytes = bytes_before;
        self.report.progress.blocks = blocks_before;
        self.report.progress.bytes_total = bytes.saturating_add(bytes_before);
        if !suspects.is_empty() {
            let part = self.step(None, suspects, u64::MAX)?;
            self.take(part.unwrap_or_default());
            // They were counted before.
            (self.report.progress.bytes, self.report.progress.blocks) =
                (bytes_before, blocks_before);
        }
        loop {
            if told(&self.report.progress) == GoOn::No {
                return Ok(Some(after));
            }
            let begun = Instant::now();
            let part = self.step(after, Vec::new(), self.step_bytes)?;
            let Some((part, last)) = part.and_then(|part| part.last.map(|last| (part, last)))
            else {
                return Ok(None);
            };
            after = Some(last);
            self.adapt(part.bytes, begun.elapsed());
            self.take(part);
        }
    }

    /// The next step shall take about `STEP`.
    fn adapt(&mut self, bytes: u64, took: Duration) {
        let (_, least, most) = VERIFY_STEP_BYTES;
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
        let step_ms = u64::try_from(STEP.as_millis()).unwrap_or(u64::MAX);
        let wanted = bytes.saturating_mul(step_ms) / took_ms;
        self.step_bytes = wanted.clamp(least, most);
    }

    fn step(
        &mut self,
        after: Option<[u8; 16]>,
        only: Vec<[u8; 16]>,
        bytes_max: u64,
    ) -> Result<Option<PartFields>> {
        self.ask(VerifyRequest::Segments {
            after,
            only,
            bytes_max,
            deep: self.deep,
        })
    }

    /// One step. `None` if the database is so damaged that it cannot be carried out, which is said once: other steps may not
    /// need what is damaged.
    fn ask<T: TryFrom<Response, Error = Error>>(
        &mut self,
        request: VerifyRequest,
    ) -> Result<Option<T>> {
        let what = match self.vault.ask_for(&Request::Verify(request)) {
            Err(Error::Damaged { what, why }) if what == DATABASE_FILE => why,
            answer => return answer.map(Some),
        };
        let problem = FileProblem {
            file: DATABASE_FILE.to_owned(),
            what,
            is_damage: true,
        };
        if !self.report.files.contains(&problem) {
            self.report.files.push(problem);
        }
        Ok(None)
    }

    fn take(&mut self, part: PartFields) {
        let progress = &mut self.report.progress;
        progress.bytes = progress.bytes.saturating_add(part.bytes);
        progress.bytes_total = progress.bytes_total.max(progress.bytes);
        progress.blocks = progress.blocks.saturating_add(part.blocks);
        let damaged = part.damaged.len() as u64 + part.damaged_more;
        progress.damaged_blocks = progress.damaged_blocks.saturating_add(damaged);
        let room = VERIFY_BLOCKS_MAX.saturating_sub(self.damaged.len());
        let taken = part.damaged.len().min(room);
        self.damaged.extend(&part.damaged[..taken]);
        self.report.damaged_more += damaged - taken as u64;
        self.report.files.extend(part.problems);
        self.suspects.extend(part.suspects);
    }

    /// Everything but the segments: it takes little, and names what was found there.
    fn rest(&mut self) -> Result<()> {
        let carried: Option<PartFields> = self.ask(VerifyRequest::Carried { deep: self.deep })?;
        let (bytes, total) = (self.report.progress.bytes, self.report.progress.bytes_total);
        self.take(carried.unwrap_or_default());
        // The progress is that of segments.
        (self.report.progress.bytes, self.report.progress.bytes_total) = (bytes, total.max(bytes));
        let files: Option<Vec<FileProblem>> = self.ask(VerifyRequest::Files)?;
        self.report.files.extend(files.unwrap_or_default());
        self.report.structure = self.ask(VerifyRequest::Structure)?.unwrap_or_default();
        self.damages()
    }

    fn damages(&mut self) -> Result<()> {
        let mut all: BTreeMap<(Vec<u8>, Loss), (bool, Vec<RevisionId>)> = BTreeMap::new();
        let mut skip = 0;
        loop {
            let page = self.damage_page(skip)?;
            skip += page.lines.len() as u64;
            self.report.nodes = page.nodes;
            let more = page.more && !page.lines.is_empty();
            for line in page.lines {
                let (now, revisions) = all.entry((line.path, line.what)).or_default();
                match line.revision {
                    None => *now = true,
                    Some(id) => revisions.push(RevisionId(id)),
                }
            }
            if !more {
                break;
            }
        }
        let damages = all
            .into_iter()
            .map(|((path, what), (now, revisions))| Damage {
                path,
                what,
                now,
                revisions,
            });
        self.report.damages = damages.collect();
        Ok(())
    }

    fn damage_page(&mut self, skip: u64) -> Result<DamagePage> {
        let request = VerifyRequest::Damage {
            blocks: self.damaged.clone(),
            deep: self.deep,
            skip,
        };
        Ok(self.ask(request)?.unwrap_or_default())
    }
}

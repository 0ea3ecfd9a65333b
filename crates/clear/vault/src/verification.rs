//! A verification from outside: step by step, so that it can tell how far it is, stop, and go on another day.
//!
//! Takes   an open vault, how deep to look, who is told of the progress
//! Gives   a report that names files, bytes and kept states; or a state from which to go on
//! Never   writes a name of the vault to the disk: the state holds names of segments, which the folder shows anyway
//! Spec    spec/7-recovery.md

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use strongroom_format::hex;
use strongroom_history::RevisionId;
use strongroom_metadata::DATABASE_FILE;

use crate::folder::Folder;
use crate::limits::{VERIFY_BLOCKS_MAX, VERIFY_STEP_BYTES, VERIFY_SUSPECTS_MAX};
use crate::port::unexpected;
use crate::request::{Request, Response};
use crate::request_verify::{
    DamagePage, FileProblem, Loss, PartFields, VerifyRequest, VerifyResponse,
};
use crate::vault::CheckReport;
use crate::{Error, Result, Vault};

/// The file of a verification that was stopped.
const STATE: &str = "verify-state.json";

/// What one step should take.
const STEP: Duration = Duration::from_millis(500);

/// How a vault is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Compute the names of blocks anew, and go over every kept state.
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
    /// The kept states that lost it, oldest first.
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
    /// Files of the vault folder that are not as they were written.
    pub files: Vec<FileProblem>,
    /// What people lose with them, in the order of paths.
    pub damages: Vec<Damage>,
    /// How far it came.
    pub progress: VerifyProgress,
    /// Nodes of kept states that were gone over.
    pub nodes: u64,
    /// Blocks that do not open beyond those whose files are named.
    pub damaged_more: u64,
}

impl VerifyReport {
    /// Whether everything that was looked at is as it was written.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.structure.problems.is_empty()
            && self.files.is_empty()
            && self.damages.is_empty()
            && self.progress.damaged_blocks == 0
    }
}

/// Where a verification was stopped. Bounded: with more suspects it begins anew.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    deep: bool,
    after: Option<String>,
    bytes: u64,
    blocks: u64,
    suspects: Vec<String>,
}

impl State {
    fn load(folder: &Folder, deep: bool) -> Self {
        // One that cannot be read is none: it costs time, nothing else.
        let bytes = folder.read_state(STATE).unwrap_or_default();
        let state: Option<Self> = serde_json::from_slice(&bytes).ok();
        state.filter(|state| state.deep == deep).unwrap_or_default()
    }

    fn store(&self, folder: &Folder) -> Result<()> {
        let bytes = serde_json::to_vec(self).map_err(std::io::Error::from);
        let bytes = bytes.map_err(Error::io("keeping the state of the verification"))?;
        folder.replace(STATE, &bytes)
    }
}

fn segment_id(text: &str) -> Option<[u8; 16]> {
    hex::decode(text)
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
    /// Reads everything that the vault holds and tells what is not as it was written. Works while others use the vault.
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
        let folder = Folder::new(self.folder());
        let mut run = Verification {
            vault: self,
            deep: options.deep,
            report: VerifyReport::default(),
            damaged: Vec::new(),
            suspects: Vec::new(),
            step_bytes: VERIFY_STEP_BYTES.0,
        };
        let state = match options.resume {
            true => State::load(&folder, options.deep),
            false => State::default(),
        };
        let stopped = run.segments(&state, told)?;
        if let Some(after) = stopped {
            // On media that cannot be written the next one begins anew.
            run.report.can_resume = run.state(after).store(&folder).is_ok();
            return Ok((run.report, run.damaged));
        }
        run.rest()?;
        run.report.finished = true;
        folder.remove_state(STATE);
        Ok((run.report, run.damaged))
    }

    fn ask_verify(&self, request: VerifyRequest) -> Result<VerifyResponse> {
        match self.ask(&Request::Verify(request))? {
            (_, Response::Verify(response)) => Ok(response),
            _ => Err(unexpected()),
        }
    }
}

impl Verification<'_> {
    /// Goes over the segments; gives where it was stopped, if it was.
    fn segments(
        &mut self,
        state: &State,
        told: &mut dyn FnMut(&VerifyProgress) -> GoOn,
    ) -> Result<Option<Option<[u8; 16]>>> {
        let mut after = state.after.as_deref().and_then(segment_id);
        let bytes = match self.vault.ask_verify(VerifyRequest::Size { after })? {
            VerifyResponse::Size { bytes, .. } => bytes,
            VerifyResponse::Ruined(why) => {
                self.ruined(why);
                return Ok(None);
            }
            _ => return Err(unexpected()),
        };
        self.report.progress.bytes = state.bytes;
        self.report.progress.blocks = state.blocks;
        self.report.progress.bytes_total = bytes.saturating_add(state.bytes);
        let suspects: Vec<[u8; 16]> = state
            .suspects
            .iter()
            .filter_map(|id| segment_id(id))
            .collect();
        if !suspects.is_empty() {
            let (bytes, blocks) = (state.bytes, state.blocks);
            let part = self.step(None, suspects, u64::MAX)?;
            self.take(part.unwrap_or_default());
            // They were counted before.
            (self.report.progress.bytes, self.report.progress.blocks) = (bytes, blocks);
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
        self.part(VerifyRequest::Segments {
            after,
            only,
            bytes_max,
            deep: self.deep,
        })
    }

    /// `None` if the database does not let the step be carried out.
    fn part(&mut self, request: VerifyRequest) -> Result<Option<PartFields>> {
        match self.vault.ask_verify(request)? {
            VerifyResponse::Part(part) => Ok(Some(part)),
            VerifyResponse::Ruined(why) => {
                self.ruined(why);
                Ok(None)
            }
            _ => Err(unexpected()),
        }
    }

    /// The database is damaged; told once.
    fn ruined(&mut self, what: String) {
        let problem = FileProblem {
            file: DATABASE_FILE.to_owned(),
            what,
        };
        if !self.report.files.contains(&problem) {
            self.report.files.push(problem);
        }
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

    fn state(&self, after: Option<[u8; 16]>) -> State {
        let many = self.suspects.len() > VERIFY_SUSPECTS_MAX;
        let after = after.filter(|_| !many);
        State {
            deep: self.deep,
            after: after.map(|id| hex::encode(&id)),
            bytes: after.map_or(0, |_| self.report.progress.bytes),
            blocks: after.map_or(0, |_| self.report.progress.blocks),
            suspects: match after {
                Some(_) => self.suspects.iter().map(|id| hex::encode(id)).collect(),
                None => Vec::new(),
            },
        }
    }

    /// Everything but the segments: it takes little, and names what was found there.
    fn rest(&mut self) -> Result<()> {
        let carried = self.part(VerifyRequest::Carried { deep: self.deep })?;
        let (bytes, total) = (self.report.progress.bytes, self.report.progress.bytes_total);
        self.take(carried.unwrap_or_default());
        // The progress is that of segments.
        (self.report.progress.bytes, self.report.progress.bytes_total) = (bytes, total.max(bytes));
        match self.vault.ask_verify(VerifyRequest::Files)? {
            VerifyResponse::Files(files) => self.report.files.extend(files),
            VerifyResponse::Ruined(why) => self.ruined(why),
            _ => return Err(unexpected()),
        }
        match self.vault.ask_verify(VerifyRequest::Structure)? {
            VerifyResponse::Structure(found) => self.report.structure = found.into(),
            VerifyResponse::Ruined(why) => self.ruined(why),
            _ => return Err(unexpected()),
        }
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
        match self.vault.ask_verify(request)? {
            VerifyResponse::Damage(page) => Ok(page),
            VerifyResponse::Ruined(why) => {
                self.ruined(why);
                Ok(DamagePage::default())
            }
            _ => Err(unexpected()),
        }
    }
}

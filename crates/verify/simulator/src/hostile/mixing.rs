//! Mixes the pages of several states of one database.
//!
//! Takes   the images of `pages_base`
//! Gives   every mixture of one and of two pages, and as many random ones as requested; each by its name
//! Never   leaves a checksum wrong that can be computed without a key

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::log::{Log, PAGE};
use super::pages_base::{BRANCHES, Images, killed, last_killed};
use crate::random::Choices;

/// The database, its log, the leaves of its hash tree.
pub const DATABASE: &str = "metadata.db";
const LOG: &str = "metadata.db-wal";
const TREE: &str = "metadata.db-tree";

/// Bytes of a leaf of the hash tree.
const LEAF: usize = 16;
/// Bytes before the first of them.
const HEADER: usize = 4096;

/// What an image holds of its database.
#[derive(Clone, Debug, Default)]
struct Parts {
    pages: Vec<Vec<u8>>,
    log: Option<Log>,
    tree: Option<Vec<u8>>,
}

/// What becomes of the leaves when pages are mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// They stay those of the target.
    Own,
    /// All are those of the state that the pages come from.
    Theirs,
    /// Those at the places of the mixed pages come along with them.
    Mixed,
}

/// One mixture.
#[derive(Clone, Debug)]
pub struct Mixture {
    /// How it is called, to repeat it.
    pub name: String,
    /// The image that is changed.
    pub target: String,
    /// The files of the database, and `None` for one that goes.
    pub files: Vec<(&'static str, Option<Vec<u8>>)>,
    /// Whole states that may be read.
    pub states: Vec<String>,
    /// Whether a verification has something to name.
    pub is_harmed: bool,
}

/// The mixtures of a set of images.
#[derive(Debug)]
pub struct Mixing {
    parts: BTreeMap<String, Parts>,
    seed: u64,
}

/// One of the mixtures, before it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// These pages of the database of `target` are those of `source`.
    Pages {
        /// Whose.
        target: String,
        /// From where.
        source: String,
        /// Numbers from 0.
        pages: Vec<usize>,
    },
    /// These frames of the log of `target` hold the page that `source` has of that number.
    Frames {
        /// Whose.
        target: String,
        /// From where.
        source: String,
        /// Indices of frames.
        frames: Vec<usize>,
    },
    /// The log of `target` ends behind so many frames.
    Cut {
        /// Whose.
        target: String,
        /// How many.
        frames: usize,
    },
    /// The whole log of `source` lies beside the database of `target`.
    OtherLog {
        /// Whose.
        target: String,
        /// From where.
        source: String,
    },
    /// A random set of pages and frames.
    Set(u64),
}

fn pages_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.chunks(PAGE).map(<[u8]>::to_vec).collect()
}

impl Parts {
    fn of(folder: &Path) -> Self {
        let read = |name: &str| fs::read(folder.join(name)).ok();
        Self {
            pages: pages_of(&read(DATABASE).unwrap_or_default()),
            log: read(LOG).and_then(|bytes| Log::parse(&bytes)),
            tree: read(TREE),
        }
    }

    /// The newest page of that number, from 0.
    fn page(&self, page: usize) -> Option<&Vec<u8>> {
        let frames = self.log.iter().flat_map(|log| log.frames.iter().rev());
        let mut logged = frames.filter(|frame| frame.page as usize == page + 1);
        logged
            .next()
            .map(|frame| &frame.bytes)
            .or_else(|| self.pages.get(page))
    }
}

impl Mixing {
    /// Reads the images.
    #[must_use]
    pub fn new(images: &Images, seed: u64) -> Self {
        let mut names = vec!["older".to_owned()];
        for branch in BRANCHES {
            names.push(branch.to_owned());
            names.push(last_killed(branch));
        }
        let parts = names.into_iter().map(|name| {
            let parts = Parts::of(&images.folder(&name));
            (name, parts)
        });
        Self {
            parts: parts.collect(),
            seed,
        }
    }

    /// How many pages and frames there are, in words.
    #[must_use]
    pub fn sizes(&self) -> String {
        let each = self.parts.iter().map(|(name, parts)| {
            let frames = parts.log.as_ref().map_or(0, |log| log.frames.len());
            format!("{name}: {} pages, {frames} frames", parts.pages.len())
        });
        each.collect::<Vec<_>>().join("; ")
    }

    /// Whether an image has a log.
    #[must_use]
    pub fn has_log(&self, image: &str) -> bool {
        self.parts[image].log.is_some()
    }

    /// Every mixture, `sets` random ones last.
    #[must_use]
    pub fn plans(&self, sets: u64) -> Vec<Plan> {
        let mut plans = Vec::new();
        for (own, other) in [(0, 1), (1, 0)] {
            let (own, other) = (BRANCHES[own], BRANCHES[other]);
            for source in [other, "older"] {
                self.page_plans(own, source, &mut plans);
            }
            let own = last_killed(own);
            for source in [&last_killed(other), other, "older"] {
                self.frame_plans(&own, source, &mut plans);
            }
            self.log_plans(&own, &last_killed(other), &mut plans);
        }
        plans.extend((0..sets).map(Plan::Set));
        plans
    }

    fn page_plans(&self, target: &str, source: &str, plans: &mut Vec<Plan>) {
        let differing = self.differing(target, source);
        for_ones_and_pairs(&differing, |pages| {
            plans.push(Plan::Pages {
                target: target.to_owned(),
                source: source.to_owned(),
                pages,
            });
        });
    }

    fn frame_plans(&self, target: &str, source: &str, plans: &mut Vec<Plan>) {
        // Pairs of those that are read: of each page the newest. Of older ones only the checksums of the log tell.
        let differing = self.differing_frames(target, source);
        let newest = self.newest_frames(target);
        let (read, rest): (Vec<usize>, Vec<usize>) =
            differing.iter().partition(|frame| newest.contains(frame));
        for frame in rest {
            plans.push(Plan::Frames {
                target: target.to_owned(),
                source: source.to_owned(),
                frames: vec![frame],
            });
        }
        for_ones_and_pairs(&read, |frames| {
            plans.push(Plan::Frames {
                target: target.to_owned(),
                source: source.to_owned(),
                frames,
            });
        });
    }

    fn log_plans(&self, target: &str, other: &str, plans: &mut Vec<Plan>) {
        let frames = self.parts[target].log.as_ref();
        let frames = frames.map_or(0, |log| log.frames.len());
        plans.extend((0..frames).map(|frames| Plan::Cut {
            target: target.to_owned(),
            frames,
        }));
        plans.push(Plan::OtherLog {
            target: target.to_owned(),
            source: other.to_owned(),
        });
    }

    fn differing(&self, target: &str, source: &str) -> Vec<usize> {
        let (target, source) = (&self.parts[target], &self.parts[source]);
        let pages = 0..target.pages.len().min(source.pages.len());
        pages
            .filter(|page| target.pages[*page] != source.pages[*page])
            .collect()
    }

    /// The last frame of each page.
    fn newest_frames(&self, target: &str) -> Vec<usize> {
        let frames = self.parts[target].log.iter().flat_map(|log| &log.frames);
        let newest: BTreeMap<u32, usize> = frames
            .enumerate()
            .map(|(index, frame)| (frame.page, index))
            .collect();
        newest.into_values().collect()
    }

    fn differing_frames(&self, target: &str, source: &str) -> Vec<usize> {
        let (target, source) = (&self.parts[target], &self.parts[source]);
        let frames = target.log.iter().flat_map(|log| log.frames.iter());
        let differ = frames.enumerate().filter(|(_, frame)| {
            let theirs = source.page(frame.page as usize - 1);
            theirs.is_some_and(|bytes| *bytes != frame.bytes)
        });
        differ.map(|(index, _)| index).collect()
    }

    /// Carries out a plan.
    #[must_use]
    pub fn mixture(&self, plan: &Plan) -> Mixture {
        match plan {
            Plan::Pages {
                target,
                source,
                pages,
            } => self.pages(target, source, pages, Leaves::Own, &plan.to_string()),
            Plan::Frames {
                target,
                source,
                frames,
            } => self.frames(target, source, frames, plan),
            Plan::Cut { target, frames } => {
                let mut log = self.parts[target].log.clone();
                if let Some(log) = &mut log {
                    log.frames.truncate(*frames);
                    log.rest.clear();
                }
                let log = log.map(|log| log.encode());
                self.logged(target, log, plan, Harm::Older)
            }
            Plan::OtherLog { target, source } => {
                let log = self.parts[source].log.as_ref().map(Log::encode);
                self.logged(target, log, plan, Harm::Harmed)
            }
            Plan::Set(number) => self.set(*number, plan),
        }
    }

    fn pages(
        &self,
        target: &str,
        source: &str,
        pages: &[usize],
        leaves: Leaves,
        name: &str,
    ) -> Mixture {
        let (own, theirs) = (&self.parts[target], &self.parts[source]);
        let mut all = own.pages.clone();
        for page in pages {
            all[*page].clone_from(&theirs.pages[*page]);
        }
        let mut files = vec![(DATABASE, Some(all.concat()))];
        let mut states = vec![target.to_owned()];
        if let (Some(own), Some(theirs)) = (&own.tree, &theirs.tree) {
            let tree = match leaves {
                Leaves::Own => own.clone(),
                Leaves::Theirs => {
                    states.push(source.to_owned());
                    theirs.clone()
                }
                Leaves::Mixed => mixed_leaves(own, theirs, pages),
            };
            files.push((TREE, Some(tree)));
        }
        Mixture {
            name: name.to_owned(),
            target: target.to_owned(),
            files,
            states,
            is_harmed: true,
        }
    }

    /// Frames that a later one of the same page hides say nothing, whatever they hold.
    fn frames(&self, target: &str, source: &str, frames: &[usize], plan: &Plan) -> Mixture {
        let newest = self.newest_frames(target);
        let harm = match frames.iter().any(|frame| newest.contains(frame)) {
            true => Harm::Harmed,
            false => Harm::Older,
        };
        let mut log = self.parts[target].log.clone();
        for frame in frames {
            let frame = log.as_mut().and_then(|log| log.frames.get_mut(*frame));
            let Some(frame) = frame else { continue };
            if let Some(theirs) = self.parts[source].page(frame.page as usize - 1) {
                frame.bytes.clone_from(theirs);
            }
        }
        let log = log.map(|log| log.encode());
        self.logged(target, log, plan, harm)
    }

    /// The states of a log may be those behind any of its commits: an end that is gone is an older whole state.
    fn logged(&self, target: &str, log: Option<Vec<u8>>, plan: &Plan, harm: Harm) -> Mixture {
        Mixture {
            name: plan.to_string(),
            target: target.to_owned(),
            files: vec![(LOG, log)],
            states: own_states(target),
            is_harmed: matches!(harm, Harm::Harmed),
        }
    }

    fn set(&self, number: u64, plan: &Plan) -> Mixture {
        let mut choices = Choices::named(self.seed, &[13, number]);
        let own = choices.index(2);
        let (own, other) = (BRANCHES[own], BRANCHES[1 - own]);
        if choices.chance(1, 2) {
            let source = if choices.chance(2, 3) { other } else { "older" };
            let pages = some(&self.differing(own, source), &mut choices);
            let leaves = *choices.one_of(&[Leaves::Own, Leaves::Theirs, Leaves::Mixed]);
            return self.pages(own, source, &pages, leaves, &plan.to_string());
        }
        let target = last_killed(own);
        let source = match choices.below(3) {
            0 => last_killed(other),
            1 => other.to_owned(),
            _ => "older".to_owned(),
        };
        let frames = some(&self.differing_frames(&target, &source), &mut choices);
        let mut mixture = self.frames(&target, &source, &frames, plan);
        if choices.chance(1, 2) {
            let pages = some(&self.differing(&target, &source), &mut choices);
            let beneath = self.pages(&target, &source, &pages, Leaves::Mixed, "");
            mixture.files.extend(beneath.files);
            let log = self.parts[&target].log.as_ref();
            let is_hidden = |page: &usize| {
                let mut frames = log.iter().flat_map(|log| &log.frames);
                frames.any(|frame| frame.page as usize == page + 1)
            };
            mixture.is_harmed |= !pages.iter().all(is_hidden);
        }
        mixture
    }
}

/// Whether a mixture is more than an older whole state.
enum Harm {
    Older,
    Harmed,
}

/// What a killed image may show: what it held behind each commit of its log.
fn own_states(target: &str) -> Vec<String> {
    let branch = target.split(' ').next().unwrap_or(target);
    let mut states = vec![target.to_owned(), branch.to_owned()];
    states.extend((1..4).map(|commit| killed(branch, commit)));
    states
}

fn for_ones_and_pairs(items: &[usize], mut give: impl FnMut(Vec<usize>)) {
    for (index, first) in items.iter().enumerate() {
        give(vec![*first]);
        for second in &items[index + 1..] {
            give(vec![*first, *second]);
        }
    }
}

/// At least one of `items`, never all: all would be a whole other state.
fn some(items: &[usize], choices: &mut Choices) -> Vec<usize> {
    let parts = 1 + choices.below(7);
    let mut chosen: Vec<usize> = items.to_vec();
    chosen.retain(|_| choices.chance(parts, 8));
    if chosen.is_empty() && !items.is_empty() {
        chosen.push(*choices.one_of(items));
    }
    if chosen.len() == items.len() {
        chosen.truncate(items.len().saturating_sub(1));
    }
    chosen
}

/// The leaves of `own` with those of `theirs` at `pages`, counted from the end of whatever precedes them.
fn mixed_leaves(own: &[u8], theirs: &[u8], pages: &[usize]) -> Vec<u8> {
    let mut mixed = own.to_vec();
    let head = HEADER;
    for page in pages {
        let range = head + page * LEAF..head + (page + 1) * LEAF;
        if let (Some(mine), Some(theirs)) = (mixed.get_mut(range.clone()), theirs.get(range)) {
            mine.copy_from_slice(theirs);
        }
    }
    mixed
}

impl std::fmt::Display for Plan {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |numbers: &[usize]| {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            numbers.join(",")
        };
        match self {
            Self::Pages {
                target,
                source,
                pages,
            } => write!(formatter, "{target} <- {source}, pages {}", list(pages)),
            Self::Frames {
                target,
                source,
                frames,
            } => write!(formatter, "{target} <- {source}, frames {}", list(frames)),
            Self::Cut { target, frames } => write!(formatter, "{target}, log of {frames} frames"),
            Self::OtherLog { target, source } => write!(formatter, "{target} <- {source}, log"),
            Self::Set(number) => write!(formatter, "set {number}"),
        }
    }
}

//! Makes one read, write or sync of the database fail in the middle of operations.
//!
//! Takes   a seed, the access to the database's files that fails, and the error
//! Gives   the outcome, or the violation
//! Never   needs a mount or root: the fault is injected by the shim under SQLite
//! Spec    spec/5-crash-contract.md, [5.1] to [5.4] and [5.7]
//!
//! The page cache is so small that pages are read and written in the middle of operations. After the fault, either the operation
//! failed as a whole and the vault continues, or the vault refuses every change. After reopening it satisfies the crash contract.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use strongroom_conformance::Model;
use strongroom_conformance::engine::{self, Setup};
use strongroom_conformance::operation::{Answer, Session};
use strongroom_conformance::tree::{Tree, first_difference, read_tree};
use strongroom_filesystem::{Caller, Error, Filesystem, InodeId, NewNode, NodeKind, Resealed};
use strongroom_metadata::{DiskEvent, DiskFault, DiskObserver};
use tempfile::TempDir;

use crate::history::History;
use crate::judge::{Moment, judge};
use crate::plan::{Act, acts};
use crate::worker::Epochs;

/// The page cache of each connection, in bytes: ten pages, with which hardly any survives two operations.
const CACHE_BYTES: usize = 40 * 1024;

/// What is done with the database's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file is synced.
    Sync,
}

/// Which use fails, and how; once.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What counts.
    pub target: Target,
    /// Which of them, from 1, once the file system was made.
    pub nth: u64,
    /// How.
    pub fault: DiskFault,
}

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not come to it: the run was too short.
    NotReached,
    /// Nobody was told: the work was done by other means, or belongs to nobody.
    Unnoticed,
    /// An operation failed as a whole, and the vault went on.
    Alone,
    /// The vault refused all changes from then on.
    Stopped,
}

#[derive(Debug)]
struct Injector {
    plan: Plan,
    armed: AtomicBool,
    seen: AtomicU64,
}

impl Injector {
    fn has_struck(&self) -> bool {
        self.seen.load(Ordering::SeqCst) >= self.plan.nth
    }
}

impl DiskObserver for Injector {
    fn before(&self, event: &DiskEvent<'_>) -> Result<(), DiskFault> {
        let target = match event {
            DiskEvent::Read { .. } => Target::Read,
            DiskEvent::Write { .. } => Target::Write,
            DiskEvent::Sync { .. } => Target::Sync,
            DiskEvent::Truncate { .. } => return Ok(()),
        };
        let counts = target == self.plan.target && self.armed.load(Ordering::SeqCst);
        if counts && self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.plan.nth {
            return Err(self.plan.fault);
        }
        Ok(())
    }
}

fn setup(injector: &Arc<Injector>) -> Setup {
    let mut setup = engine::small();
    setup.metadata.cache_bytes = CACHE_BYTES;
    setup.metadata.reader_cache_bytes = CACHE_BYTES;
    setup.metadata.reserve_bytes = 0;
    setup.metadata.observer = Some(Arc::clone(injector) as Arc<dyn DiskObserver>);
    setup
}

/// Re-seals everything; the older keys stay.
fn reseal(system: &Filesystem) -> strongroom_filesystem::Result<()> {
    while system.reseal()? == Resealed::More {}
    Ok(())
}

/// Runs `count` acts of `seed` up to the first that fails by `plan`, and looks at what is left.
///
/// # Errors
/// The violation, in words.
pub fn run(seed: u64, count: usize, plan: Plan) -> Result<Outcome, String> {
    let acts = acts(seed, count);
    let history = History::of(&acts);
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    let injector = Arc::new(Injector {
        plan,
        armed: AtomicBool::new(false),
        seen: AtomicU64::new(0),
    });
    let system =
        engine::create(folder.path(), setup(&injector)).map_err(|error| error.to_string())?;
    system.sync().map_err(|error| error.to_string())?;
    injector.armed.store(true, Ordering::SeqCst);
    let mut session = Session::new(system);
    let epochs = Epochs::default();
    let mut failed = None;
    for (at, act) in acts.iter().enumerate() {
        let error = match act {
            Act::Tick => session.system.tick().err(),
            Act::Compact => session.system.compact().err(),
            // Faults of revisions are the business of `faults`; here only their barrier is met.
            Act::Take => session.system.sync().err(),
            Act::Remove(_) | Act::Erase(_) => None,
            Act::Rotate => epochs
                .begin_next(&session.system)
                .and_then(|()| reseal(&session.system))
                .err(),
            Act::BeginEpoch => epochs.begin_next(&session.system).err(),
            Act::Compress(compression) => session.system.set_compression(*compression).err(),
            Act::Operation(operation) => match session.apply(operation) {
                Answer::Refused(error) if is_of_the_disk(&error) => Some(error),
                _ => None,
            },
        };
        if let Some(error) = error {
            if !injector.has_struck() {
                return Err(format!("act {at} failed without a fault: {error}"));
            }
            failed = Some(at);
            break;
        }
    }
    injector.armed.store(false, Ordering::SeqCst);
    let system = session.system.clone();
    if !injector.has_struck() {
        return Ok(Outcome::NotReached);
    }
    let Some(at) = failed else {
        // Whatever failed did so in the background; what was acknowledged is there, and goes on to be.
        return after_all(folder.path(), session, &history).map(|()| Outcome::Unnoticed);
    };
    let moment = Moment {
        started: at + 1,
        returned: at,
    };
    let goes_on = probe(&system).is_ok();
    if goes_on {
        let found = read_tree(&system).map_err(|error| format!("reading goes on: {error}"))?;
        is_before_or_after(&history, at, without_probe(found)).map_err(|difference| {
            format!(
                "act {} failed, but a part of it took effect: {difference}",
                at + 1
            )
        })?;
    }
    let synced = system.sync().is_ok();
    drop((session, system));
    let left = reopened(folder.path())?;
    let has_probe = left.contains_key(PROBE_PATH);
    let left = without_probe(left);
    if !synced {
        judge(&history, moment, &left)?;
        return Ok(Outcome::Stopped);
    }
    is_before_or_after(&history, at, left)
        .map_err(|difference| format!("(3): synced after the fault, but {difference}"))?;
    match (goes_on, has_probe) {
        (true, true) => Ok(Outcome::Alone),
        (false, false) => Ok(Outcome::Stopped),
        _ => Err(
            "a write after the fault was confirmed and is missing, or was refused and is there"
                .to_owned(),
        ),
    }
}

const PROBE: &[u8] = b"probe";
const PROBE_PATH: &[u8] = b"/probe";

/// Whether the vault still takes changes.
fn probe(system: &Filesystem) -> strongroom_filesystem::Result<()> {
    let node = NewNode {
        kind: NodeKind::Directory,
        mode: 0o755,
        rdev: 0,
        target: Vec::new(),
    };
    let made = system.create(&Caller::root(), InodeId::ROOT, PROBE, &node)?;
    system.forget(made.inode, 1);
    Ok(())
}

fn without_probe(mut tree: Tree) -> Tree {
    // The probe is a directory in the root, which counts it.
    if tree.remove(PROBE_PATH).is_some()
        && let Some(root) = tree.get_mut(&b""[..])
    {
        root.nlink -= 1;
    }
    tree
}

/// Whether `found` is the tree before the act numbered `at` (from 0), or after it.
fn is_before_or_after(history: &History, at: usize, found: Tree) -> Result<(), String> {
    let of = |count| {
        read_tree(&Model::from_snapshot(history.state(count).clone()))
            .map_err(|error| error.to_string())
    };
    if first_difference(&of(at + 1)?, &found).is_none() {
        return Ok(());
    }
    first_difference(&of(at)?, &found).map_or(Ok(()), Err)
}

/// The fault struck, but every act returned: the vault is as it should be, and stays so if it can be synced.
fn after_all(folder: &Path, session: Session<Filesystem>, history: &History) -> Result<(), String> {
    let system = session.system.clone();
    let synced = system.sync().is_ok();
    drop((session, system));
    let left = reopened(folder)?;
    let all = history.len();
    let moment = Moment {
        started: all,
        returned: all,
    };
    judge(history, moment, &left)?;
    if synced {
        is_before_or_after(history, all, left)?;
    }
    Ok(())
}

fn reopened(folder: &Path) -> Result<Tree, String> {
    let system = engine::open(folder, engine::small())
        .map_err(|error| format!("the vault does not open: {error}"))?;
    let report = system
        .check()
        .map_err(|error| format!("the check fails: {error}"))?;
    if !report.problems.is_empty() {
        return Err(format!("the check found: {}", report.problems.join("; ")));
    }
    read_tree(&system).map_err(|error| format!("the tree cannot be read: {error}"))
}

/// Whether the world, not the caller, is the reason of `error`.
#[must_use]
pub fn is_of_the_disk(error: &Error) -> bool {
    matches!(
        error,
        Error::NoSpace
            | Error::Failed
            | Error::Metadata(_)
            | Error::Segments(_)
            | Error::Damaged { .. }
            | Error::ReadOnly
    )
}

//! Runs one seed from start to verdict.
//!
//! Takes   a seed, and the effort
//! Gives   counts of what was checked, or the first violation and the command that repeats it
//! Never   ends without removing its mount and its process
//! Spec    spec/5-crash-contract.md

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use strongroom::records::Records;
use strongroom_conformance::engine;
use strongroom_conformance::operation::content;
use strongroom_conformance::tree::{Tree, first_difference, read_tree};
use strongroom_filesystem::{
    Caller, Filesystem, InodeId, NewNode, NodeKind, Proof, VerifyRange, Work,
};
use tempfile::TempDir;

use crate::disk::{Disk, Fault, Frozen, MountedDisk, NameSync, Policy, Reached};
use crate::history::History;
use crate::judge::{Moment, below, judge};
use crate::plan::acts;
use crate::worker::{Scale, thread_name, thread_seed};

/// A worker that has not ended by then hangs.
const WORKER_SECONDS_MAX: u64 = 120;

/// With what code a worker ends that could not make its file system.
pub const NOT_MADE_CODE: u8 = 3;

/// What `run` then says.
pub const NOT_MADE: &str = "the file system could not be made";

/// The vault that a cut left is used further after every so many cuts, and cut again while it recovers after every so many.
const USED_EVERY: u64 = 3;
const RECUT_EVERY: u64 = 24;

/// Between two cuts of a recovery lie this many requests.
const RECUT_STRIDE: u64 = 5;

/// So many of the policies are tried at one moment.
const POLICIES_AT_ONCE: usize = 3;

/// While the worker does something in the background, a cut is tried before every so many requests.
const WITHIN_STRIDE: u32 = 5;

/// How hard to try.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Acts of the worker.
    pub acts: usize,
    /// What the cuts keep.
    pub policies: Vec<Policy>,
    /// A cut is tried before every request whose number divided by this leaves the seed's rest.
    pub stride: u64,
    /// What makes names durable.
    pub names: NameSync,
    /// Threads of the worker; above 1 each has its own directory, and the contract holds for each.
    pub threads: usize,
    /// How large things are.
    pub scale: Scale,
    /// Where all processes of the run keep their nonce ledger, if this build has one.
    pub ledger: Option<std::path::PathBuf>,
    /// Whether the disk only pretends to sync.
    pub lies: bool,
    /// Whether recoveries are cut too.
    pub recut: bool,
    /// A request that fails.
    pub fault: Option<Fault>,
    /// The program that is the worker: `strongroom-sim` itself.
    pub program: std::path::PathBuf,
}

/// What a trial looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Requests that changed the disk.
    pub calls: u64,
    /// Moments at which the power was cut.
    pub moments: u64,
    /// Trees that were reopened and judged.
    pub trees: u64,
    /// Acts the worker finished.
    pub returned: u64,
    /// Requests that failed by plan.
    pub faults: u64,
    /// Vaults that were used further after a cut.
    pub used: u64,
    /// Recoveries that were cut, and trees judged after that.
    pub recoveries: u64,
    /// Moments within each sort of background work, in the order of `Work::ALL`.
    pub within: [u64; Work::ALL.len()],
}

impl Seen {
    /// Counts a moment, and what was going on then.
    pub(crate) fn note(&mut self, moment: &Frozen) {
        self.moments += 1;
        for (cuts, running) in self.within.iter_mut().zip(moment.running) {
            *cuts += u64::from(running > 0);
        }
    }

    /// Counts the outcome of another seed with those before it.
    pub fn add(&mut self, other: &Self) {
        let Self {
            calls,
            moments,
            trees,
            returned,
            faults,
            used,
            recoveries,
            within,
        } = self;
        *calls += other.calls;
        *moments += other.moments;
        *trees += other.trees;
        *returned += other.returned;
        *faults += other.faults;
        *used += other.used;
        *recoveries += other.recoveries;
        for (cuts, others) in within.iter_mut().zip(other.within) {
            *cuts += others;
        }
    }
}

/// Runs `seed`.
///
/// # Errors
/// The violation, in words.
pub fn run(seed: u64, trial: &Trial) -> Result<Seen, String> {
    let disk = Disk::new(trial.names);
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    let mount = MountedDisk::mount(&disk, folder.path())
        .map_err(|error| format!("mounting needs root and /dev/fuse: {error}"))?;
    freeze_at(&disk, seed, trial);
    if let Some(fault) = trial.fault {
        disk.plan(fault);
    }
    if trial.lies {
        disk.lie();
    }
    let arguments = [
        "worker".to_owned(),
        mount.path().display().to_string(),
        trial.scale.name().to_owned(),
        seed.to_string(),
        trial.acts.to_string(),
        trial.threads.to_string(),
    ];
    let worker = Worker::start(&disk, &arguments, trial).map_err(|error| error.to_string())?;
    worker.wait()?;
    let last = disk.cut();
    drop(mount);
    let histories = histories(seed, trial);
    let mut frozen = disk.take_frozen();
    let mut seen = Seen {
        calls: last.calls,
        returned: last.threads.iter().map(|reached| reached.returned).sum(),
        faults: disk.faults_struck(),
        ..Seen::default()
    };
    frozen.push(last);
    let mut judged = 0_u64;
    for (at, moment) in frozen.iter().filter(|moment| has_begun(moment)).enumerate() {
        seen.note(moment);
        for policy in in_turn(&trial.policies, at) {
            let told = |complaint| {
                format!(
                    "cut before request {} ({}): {complaint}",
                    moment.calls + 1,
                    policy.name()
                )
            };
            // Another policy each time, so that all come to all.
            let turn = judged;
            judged += 1;
            let after = if turn.is_multiple_of(USED_EVERY) {
                After::Use
            } else {
                After::Leave
            };
            judge_cut(moment, *policy, seed, &histories, trial.scale, after).map_err(told)?;
            seen.trees += 1;
            seen.used += u64::from(after == After::Use);
            if turn.is_multiple_of(RECUT_EVERY) && trial.recut {
                seen.trees += cut_recovery(moment, *policy, seed, trial, &histories)
                    .map_err(|complaint| told(format!("while it recovered: {complaint}")))?;
                seen.recoveries += 1;
            }
        }
    }
    Ok(seen)
}

pub(crate) fn freeze_at(disk: &Disk, seed: u64, trial: &Trial) {
    let stride = trial.stride.max(1);
    // Beyond any run of `acts` acts: an act needs a few requests, a write of 200,000 bytes some fifty.
    let bound = (trial.acts * trial.threads.max(1)) as u64 * 100;
    if stride < bound {
        disk.freeze_within_work(WITHIN_STRIDE);
    }
    for call in (1..bound).filter(|call| call % stride == seed % stride) {
        disk.freeze_before(call);
    }
}

/// The policies for the moment numbered `at`: some, in turn. One more moment finds more than one more policy for the same.
pub(crate) fn in_turn(policies: &[Policy], at: usize) -> impl Iterator<Item = &Policy> {
    let from = policies.iter().cycle().skip(at * POLICIES_AT_ONCE);
    from.take(policies.len().min(POLICIES_AT_ONCE))
}

/// Whether the file system was made and work on it had begun.
fn has_begun(moment: &Frozen) -> bool {
    moment.threads.iter().any(|reached| reached.started > 0)
}

/// What each thread should have done, with the directory it did it in.
fn histories(seed: u64, trial: &Trial) -> Vec<(String, History)> {
    if trial.threads <= 1 {
        return vec![(String::new(), History::of(&acts(seed, trial.acts)))];
    }
    let of = |thread| {
        let history = History::of(&acts(thread_seed(seed, thread), trial.acts));
        (format!("/{}", thread_name(thread)), history)
    };
    (0..trial.threads).map(of).collect()
}

/// What becomes of a vault that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// Nothing.
    Leave,
    /// It is written to, compacted and opened once more.
    Use,
}

fn judge_cut(
    moment: &Frozen,
    policy: Policy,
    seed: u64,
    histories: &[(String, History)],
    scale: Scale,
    after: After,
) -> Result<(), String> {
    let left = TempDir::new().map_err(|error| error.to_string())?;
    let disk = moment.after_cut(policy, seed ^ moment.calls);
    disk.write_to(left.path())
        .map_err(|error| error.to_string())?;
    // What was re-sealed needs no older keys: then there are none.
    let oldest = match (histories, &moment.threads[..1]) {
        ([(_, history)], [reached]) => history.oldest_epoch(reached_at(reached).returned),
        _ => 0,
    };
    let system = engine::open_from(left.path(), scale.setup(), oldest)
        .map_err(|error| format!("the vault does not open: {error}"))?;
    Records::new(left.path())
        .mend(&system)
        .map_err(|error| format!("the records of revisions: {error}"))?;
    system
        .resume_erasing()
        .map_err(|error| format!("finishing what was being erased: {error}"))?;
    let tree = sound_tree(&system)?;
    judge_tree(moment, histories, &tree)?;
    if let ([(_, history)], [reached]) = (histories, &moment.threads[..1]) {
        let moment = reached_at(reached);
        crate::revisions::judge(&system, Some((history, moment)))?;
        let acts = acts(seed, history.len());
        crate::revisions::judge_erasing(&system, &acts, history, moment)?;
    } else {
        crate::revisions::judge(&system, None)?;
    }
    if after == After::Use {
        use_further(left.path(), system, tree, scale)
            .map_err(|complaint| format!("used further: {complaint}"))?;
    }
    Ok(())
}

/// That opening called nothing lost: a cut loses nothing that was acknowledged.                                  [8.15]
///
/// # Errors
/// What it said of the intent log.
pub fn judge_replay(system: &Filesystem) -> Result<(), String> {
    match system.replay().fault {
        None => Ok(()),
        Some(fault) => Err(format!("a false alarm about the intent log: {fault}")),
    }
}

/// The tree of a file system whose check finds nothing.
fn sound_tree(system: &Filesystem) -> Result<Tree, String> {
    judge_replay(system)?;
    let report = system
        .check()
        .map_err(|error| format!("the check fails: {error}"))?;
    if !report.problems.is_empty() {
        return Err(format!("the check found: {}", report.problems.join("; ")));
    }
    verified(system)?;
    read_tree(system).map_err(|error| format!("the tree cannot be read: {error}"))
}

/// That a verification of all blocks and files tells nothing.
fn verified(system: &Filesystem) -> Result<(), String> {
    let range = VerifyRange {
        strangers: strongroom_filesystem::Strangers::Told,
        after: None,
        only: Vec::new(),
        bytes_max: u64::MAX,
        proof: Proof::Full,
    };
    let segments = system.verify_segments(&range);
    let carried = system.verify_carried(Proof::Full);
    for part in [segments, carried] {
        let part = part.map_err(|error| format!("the verification fails: {error}"))?;
        if !part.damaged.is_empty() || !part.problems.is_empty() {
            return Err(format!(
                "the verification tells of a sound vault: {:?}, {:?}",
                part.problems, part.damaged
            ));
        }
    }
    Ok(())
}

/// Writes into the vault that a cut left, under the same keys and into the same segments, gives back what it wastes, and
/// opens it again: what was there is as it was, and what was written is there too.
fn use_further(
    folder: &Path,
    system: Filesystem,
    before: Tree,
    scale: Scale,
) -> Result<(), String> {
    const NAME: &[u8] = b"after";
    let failed = |what| move |error: strongroom_filesystem::Error| format!("{what}: {error}");
    let node = NewNode {
        kind: NodeKind::File,
        mode: 0o600,
        rdev: 0,
        target: Vec::new(),
    };
    let made = system
        .create(&Caller::root(), InodeId::ROOT, NAME, &node)
        .map_err(failed("create"))?;
    let bytes = content(77, 150_000);
    for (at, part) in bytes.chunks(40_000).enumerate() {
        system
            .write(made.inode, at as u64 * 40_000, part)
            .map_err(failed("write"))?;
        system.sync_inode(made.inode).map_err(failed("fsync"))?;
    }
    system.tick().map_err(failed("tick"))?;
    system.compact().map_err(failed("compact"))?;
    crate::worker::reseal(&system, &Records::new(folder))
        .map_err(|error| format!("sealing anew: {error}"))?;
    // As after another cut that loses nothing: what was synced needs no close; and without any older keys.
    drop(system);
    let system =
        engine::open_from(folder, scale.setup(), engine::EPOCH_MAX).map_err(failed("open"))?;
    let mut now = sound_tree(&system)?;
    let written = now.remove(&[b"/", NAME].concat());
    if written.is_none_or(|leaf| leaf.bytes != bytes) {
        return Err("what was written and synced after the cut is not there".to_owned());
    }
    first_difference(&before, &now).map_or(Ok(()), Err)
}

/// Opens what a cut left on a simulated disk, and cuts that too. Gives how many trees were judged.
fn cut_recovery(
    moment: &Frozen,
    policy: Policy,
    seed: u64,
    trial: &Trial,
    histories: &[(String, History)],
) -> Result<u64, String> {
    let disk = moment.after_cut(policy, seed ^ moment.calls);
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    let mount = MountedDisk::mount(&disk, folder.path()).map_err(|error| error.to_string())?;
    for call in (1..2_000).filter(|call| (call + seed).is_multiple_of(RECUT_STRIDE)) {
        disk.freeze_before(call);
    }
    let arguments = [
        "recover".to_owned(),
        mount.path().display().to_string(),
        trial.scale.name().to_owned(),
    ];
    Worker::start(&disk, &arguments, trial)
        .map_err(|error| error.to_string())?
        .wait()?;
    let last = disk.cut();
    drop(mount);
    let mut frozen = disk.take_frozen();
    frozen.push(last);
    let mut trees = 0;
    for (at, mut again) in frozen.into_iter().enumerate() {
        let calls = again.calls;
        // The program got no further than it was at the first cut.
        again.threads = moment.threads;
        let policy = [Policy::LOSE_ALL, Policy::TORN, Policy::RANDOM][at % 3];
        judge_cut(&again, policy, seed, histories, trial.scale, After::Leave).map_err(
            |complaint| {
                let name = policy.name();
                format!("cut before its request {} ({name}): {complaint}", calls + 1)
            },
        )?;
        trees += 1;
    }
    Ok(trees)
}

fn judge_tree(moment: &Frozen, histories: &[(String, History)], tree: &Tree) -> Result<(), String> {
    for ((top, history), reached) in histories.iter().zip(&moment.threads) {
        judge(history, reached_at(reached), &below(tree, top.as_bytes()))
            .map_err(|complaint| format!("{top} {complaint}"))?;
    }
    Ok(())
}

fn reached_at(reached: &Reached) -> Moment {
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    Moment {
        started: count(reached.started),
        returned: count(reached.returned),
    }
}

/// By which signal a worker ends itself once all its acts are done.
pub const WORKER_DONE: Signal = Signal::TERM;

/// The process on the disk. Killed when dropped.
pub(crate) struct Worker {
    child: Child,
}

impl Worker {
    pub(crate) fn start(disk: &Disk, arguments: &[String], trial: &Trial) -> std::io::Result<Self> {
        let mut child = Command::new(&trial.program)
            .args(arguments)
            .args(trial.ledger.iter())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = child.stdout.take();
        let worker = Self { child };
        if let Some(pipe) = pipe {
            disk.progress().listen(OwnedFd::from(pipe))?;
        }
        Ok(worker)
    }

    /// Until it ends by itself.
    pub(crate) fn wait(mut self) -> Result<(), String> {
        let pid = Pid::from_child(&self.child);
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| error.to_string())?;
        let limit = Timespec::try_from(Duration::from_secs(WORKER_SECONDS_MAX))
            .map_err(|error| error.to_string())?;
        let ended = rustix::event::poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit))
            .map_err(|error| error.to_string())?;
        if ended == 0 {
            return Err(format!(
                "the worker hangs: no end after {WORKER_SECONDS_MAX} seconds"
            ));
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        match status.code() {
            None if status.signal() == Some(WORKER_DONE.as_raw()) => Ok(()),
            Some(code) if code == i32::from(NOT_MADE_CODE) => Err(NOT_MADE.to_owned()),
            _ => Err(format!("the worker ended with {status}")),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail if it has ended, which is the usual case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

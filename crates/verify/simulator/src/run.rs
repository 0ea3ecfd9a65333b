//! One seed from start to verdict.
//!
//! Takes   a seed and how hard to try
//! Gives   what was looked at, or the first violation and the command that repeats it
//! Never   ends without removing its mount and its process
//! Spec    spec/5-crash-contract.md

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use strongroom_conformance::engine;
use strongroom_conformance::tree::read_tree;
use tempfile::TempDir;

use crate::disk::{Disk, Fault, Frozen, MountedDisk, NameSync, Policy, Reached};
use crate::history::History;
use crate::judge::{Moment, below, judge};
use crate::plan::acts;
use crate::worker::{thread_name, thread_seed};

/// A worker that has not ended by then hangs.
const WORKER_SECONDS_MAX: u64 = 120;

/// With what code a worker ends that could not make its file system.
pub const NOT_MADE_CODE: u8 = 3;

/// What `run` then says.
pub const NOT_MADE: &str = "the file system could not be made";

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
    /// Whether the disk only pretends to sync.
    pub lies: bool,
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
    let numbers = [seed, trial.acts as u64, trial.threads as u64];
    let worker = Worker::start(&disk, mount.path(), &trial.program, "worker", &numbers)
        .map_err(|error| error.to_string())?;
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
    for moment in frozen.iter().filter(|moment| has_begun(moment)) {
        seen.moments += 1;
        for policy in &trial.policies {
            judge_cut(moment, *policy, seed, &histories).map_err(|complaint| {
                format!(
                    "cut before request {} ({}): {complaint}",
                    moment.calls + 1,
                    policy.name()
                )
            })?;
            seen.trees += 1;
        }
    }
    Ok(seen)
}

pub(crate) fn freeze_at(disk: &Disk, seed: u64, trial: &Trial) {
    let stride = trial.stride.max(1);
    // Beyond any run of `acts` acts: an act needs a few requests, a write of 200,000 bytes some fifty.
    let bound = (trial.acts * trial.threads.max(1)) as u64 * 100;
    for call in (1..bound).filter(|call| call % stride == seed % stride) {
        disk.freeze_before(call);
    }
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

fn judge_cut(
    moment: &Frozen,
    policy: Policy,
    seed: u64,
    histories: &[(String, History)],
) -> Result<(), String> {
    let left = TempDir::new().map_err(|error| error.to_string())?;
    let disk = moment.after_cut(policy, seed ^ moment.calls);
    disk.write_to(left.path())
        .map_err(|error| error.to_string())?;
    let system = engine::open(left.path(), engine::quiet())
        .map_err(|error| format!("the vault does not open: {error}"))?;
    let kept = crate::revisions::attach(&system, left.path());
    kept.mend_records(&system)
        .map_err(|error| format!("the records of revisions: {error}"))?;
    let report = system
        .check()
        .map_err(|error| format!("the check fails: {error}"))?;
    if !report.problems.is_empty() {
        return Err(format!("the check found: {}", report.problems.join("; ")));
    }
    let tree = read_tree(&system).map_err(|error| format!("the tree cannot be read: {error}"))?;
    if let ([(_, history)], [reached]) = (histories, &moment.threads[..1]) {
        crate::revisions::judge(&kept, &system, Some((history, reached_at(reached))))?;
    } else {
        crate::revisions::judge(&kept, &system, None)?;
    }
    for ((top, history), reached) in histories.iter().zip(&moment.threads) {
        let reached = reached_at(reached);
        judge(history, reached, &below(&tree, top.as_bytes()))
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

/// The process on the disk. Killed when dropped.
pub(crate) struct Worker {
    child: Child,
}

impl Worker {
    pub(crate) fn start(
        disk: &Disk,
        folder: &Path,
        program: &Path,
        verb: &str,
        numbers: &[u64],
    ) -> std::io::Result<Self> {
        let mut child = Command::new(program)
            .arg(verb)
            .arg(folder)
            .args(numbers.iter().map(u64::to_string))
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
            Some(0) => Ok(()),
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

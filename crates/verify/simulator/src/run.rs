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

use crate::disk::{Disk, Fault, Frozen, MountedDisk, NameSync, Outcome, Policy};
use crate::history::History;
use crate::judge::{Moment, judge};
use crate::plan::acts;

/// A worker that has not ended by then hangs.
const WORKER_SECONDS_MAX: u64 = 120;

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
    let worker =
        Worker::start(&disk, mount.path(), seed, trial).map_err(|error| error.to_string())?;
    worker.wait()?;
    let last = disk.cut();
    drop(mount);
    let history = History::of(&acts(seed, trial.acts));
    let mut frozen = disk.take_frozen();
    let mut seen = Seen {
        calls: last.calls,
        returned: disk
            .progress()
            .outcomes()
            .iter()
            .filter(|outcome| **outcome == Outcome::Returned)
            .count() as u64,
        faults: disk.faults_struck(),
        ..Seen::default()
    };
    frozen.push(last);
    for moment in frozen.iter().filter(|moment| moment.started > 0) {
        seen.moments += 1;
        for policy in &trial.policies {
            judge_cut(moment, *policy, seed, &history).map_err(|complaint| {
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

fn freeze_at(disk: &Disk, seed: u64, trial: &Trial) {
    let stride = trial.stride.max(1);
    // Beyond any run of `acts` acts: an act needs a few requests, a write of 200,000 bytes some fifty.
    let bound = trial.acts as u64 * 100;
    for call in (1..bound).filter(|call| call % stride == seed % stride) {
        disk.freeze_before(call);
    }
}

fn judge_cut(moment: &Frozen, policy: Policy, seed: u64, history: &History) -> Result<(), String> {
    let left = TempDir::new().map_err(|error| error.to_string())?;
    moment
        .after_cut(policy, seed ^ moment.calls)
        .write_to(left.path())
        .map_err(|error| error.to_string())?;
    // The act that failed has not returned, as far as the contract goes: it may have happened or not.
    let returned = usize::try_from(moment.returned).unwrap_or(usize::MAX);
    let started = usize::try_from(moment.started).unwrap_or(usize::MAX);
    reopen_and_judge(left.path(), Moment { started, returned }, history)
}

/// Opens what is in `folder` and holds it against the contract.
///
/// # Errors
/// The violation, in words.
pub fn reopen_and_judge(folder: &Path, moment: Moment, history: &History) -> Result<(), String> {
    let system = engine::open(folder, engine::quiet())
        .map_err(|error| format!("the vault does not open: {error}"))?;
    let report = system
        .check()
        .map_err(|error| format!("the check fails: {error}"))?;
    if !report.problems.is_empty() {
        return Err(format!("the check found: {}", report.problems.join("; ")));
    }
    let tree = read_tree(&system).map_err(|error| format!("the tree cannot be read: {error}"))?;
    judge(history, moment, &tree)
}

/// The process on the disk. Killed when dropped.
struct Worker {
    child: Child,
}

impl Worker {
    fn start(disk: &Disk, folder: &Path, seed: u64, trial: &Trial) -> std::io::Result<Self> {
        let mut child = Command::new(&trial.program)
            .arg("worker")
            .arg(folder)
            .args([seed.to_string(), trial.acts.to_string()])
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
    fn wait(mut self) -> Result<(), String> {
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
        if status.success() {
            Ok(())
        } else {
            Err(format!("the worker ended with {status}"))
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

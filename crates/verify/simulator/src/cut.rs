//! Cuts the power under a process that carries out a list of acts on whole vaults.
//!
//! Takes   the verb and the arguments of that process, and a function that judges what is left after a cut
//! Gives   counts of what was checked, or the first violation
//! Never   judges by itself
//! Spec    spec/5-crash-contract.md

use tempfile::TempDir;

use crate::disk::{Disk, Frozen, Mark, MountedDisk, Policy};
use crate::run::{Seen, Trial, Worker, in_turn};
use crate::worker::say;

/// More requests than any list of acts makes.
const REQUESTS_MAX: u64 = 200_000;

/// A run that is over: what was looked at, and the moments at which the power may have failed.
pub(crate) struct Cut {
    pub(crate) seen: Seen,
    moments: Vec<Frozen>,
}

impl Cut {
    /// Runs the worker `verb` on a simulated disk, with a cut before every `stride`-th request, or with a fault, as `trial` says.
    /// The worker gets the folder of the disk, and `arguments`.
    pub(crate) fn run(verb: &str, arguments: &[String], trial: &Trial) -> Result<Self, String> {
        let disk = Disk::new(trial.names);
        let folder = TempDir::new().map_err(|error| error.to_string())?;
        let mount = MountedDisk::mount(&disk, folder.path())
            .map_err(|error| format!("mounting needs root and /dev/fuse: {error}"))?;
        if trial.stride < REQUESTS_MAX {
            (1..REQUESTS_MAX)
                .step_by(usize::try_from(trial.stride.max(1)).unwrap_or(1))
                .for_each(|call| disk.freeze_before(call));
        }
        if let Some(fault) = trial.fault {
            disk.plan(fault);
        }
        if trial.lies {
            disk.lie();
        }
        let place = [verb.to_owned(), mount.path().display().to_string()];
        Worker::start(&disk, &[&place, arguments].concat(), trial)
            .map_err(|error| error.to_string())?
            .wait()?;
        let last = disk.cut();
        drop(mount);
        let seen = Seen {
            calls: last.calls,
            returned: last.threads[0].returned,
            faults: disk.faults_struck(),
            ..Seen::default()
        };
        let mut moments = disk.take_frozen();
        moments.push(last);
        Ok(Self { seen, moments })
    }

    /// Has `judge` look at what each moment leaves from which on `acts` had returned, under some of the policies in turn.
    pub(crate) fn judge(
        &mut self,
        trial: &Trial,
        acts: u64,
        judge: impl Fn(&Frozen, Policy) -> Result<(), String>,
    ) -> Result<(), String> {
        let moments = self.moments.iter();
        let moments = moments.filter(|moment| moment.threads[0].returned >= acts);
        for (at, moment) in moments.enumerate() {
            self.seen.moments += 1;
            for policy in in_turn(&trial.policies, at) {
                judge(moment, *policy).map_err(|complaint| {
                    let (call, name) = (moment.calls + 1, policy.name());
                    format!("cut before request {call} ({name}): {complaint}")
                })?;
                self.seen.trees += 1;
            }
        }
        Ok(())
    }
}

/// What a cut leaves, in a folder of the real disk.
pub(crate) fn left_by(moment: &Frozen, policy: Policy) -> Result<TempDir, String> {
    let left = TempDir::new().map_err(|error| error.to_string())?;
    let disk = moment.after_cut(policy, moment.calls);
    disk.write_to(left.path())
        .map_err(|error| error.to_string())?;
    Ok(left)
}

/// In the worker: carries out the acts numbered below `count`, and says so. Ends at the first error of one.
pub(crate) fn in_turns(
    count: usize,
    act: impl Fn(usize) -> strongroom::Result<()>,
) -> Result<(), String> {
    for number in 0..count {
        say(Mark::Start.byte(0)).map_err(|error| error.to_string())?;
        if let Err(error) = act(number) {
            eprintln!("stopped: {error}");
            return Ok(());
        }
        say(Mark::Return.byte(0)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

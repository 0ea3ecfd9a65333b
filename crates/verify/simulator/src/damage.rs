//! Damages one file of a vault folder at a time. Checks that verification reports the truth about it, and that repair
//! restores everything that can be restored.
//!
//! Takes   a seed, which chooses the file, the damage and the commands that follow
//! Gives   the damage; for a violation, the false statement
//! Never   accepts as content a byte that nobody wrote: that is a violation, whatever else holds
//! Spec    spec/7-recovery.md
//!
//! Invariants
//!  (1) No byte that can be read differs from what was written, before and after a repair.
//!  (2) Data that a report calls lost cannot be read, and all other data can.
//!  (3) A damaged file is named, if it holds any data.
//!  (4) A repair that is run twice, or is killed and run again, leaves the same result as a single run.

pub mod base;
pub mod inflict;
pub mod look;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use strongroom::{
    Error, FileProblem, GoOn, OpenOptions, RepairOptions, RepairReport, Secret, Vault,
    VerifyOptions, VerifyReport, repair,
};

use base::{Base, copy};
use inflict::{Fault, Inflicted, Sort};
use look::{Seen, State, living, lost_of, see};

use crate::random::Choices;
use crate::unseen;

/// What one seed came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was damaged, and how.
    pub what: String,
    /// The sort of file.
    pub sort: Sort,
    /// Whether the bytes of the folder are others than before.
    pub harmed: bool,
    /// Bytes that were lost for good, over the living and the snapshots.
    pub lost_bytes: u64,
}

/// What is not as it must be.
pub type Violation = String;

/// A damage under way.
struct Trial<'a> {
    base: &'a Base,
    folder: PathBuf,
    inflicted: Inflicted,
    choices: Choices,
    program: Option<&'a Path>,
}

/// Damages a copy of `base` as `seed` says. `program`: what is killed half-way by some seeds, as `PROGRAM mend FOLDER KEY`.
///
/// # Errors
/// The violation, with what was damaged.
pub fn run(base: &Base, seed: u64, program: Option<&Path>) -> Result<Outcome, Violation> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = place.path().join("vault");
    copy(&base.now, &folder).map_err(|error| error.to_string())?;
    let mut choices = Choices::named(seed, &[7]);
    let inflicted = inflict::inflict(base, &folder, seed, &mut choices);
    let inflicted = inflicted.map_err(|error| error.to_string())?;
    let what = inflicted.what.clone();
    let trial = Trial {
        base,
        folder,
        inflicted,
        choices,
        program,
    };
    let done = catch_unwind(AssertUnwindSafe(|| trial.judge()));
    let done = done.unwrap_or_else(|_| Err("it panicked".to_owned()));
    done.map_err(|violation| format!("{what}: {violation}"))
}

impl Trial<'_> {
    fn judge(mut self) -> Result<Outcome, Violation> {
        let before = match self.open() {
            Ok(vault) => Some(self.before(&vault)?),
            Err(error) => {
                self.refusal(&error)?;
                None
            }
        };
        if self.choices.chance(1, 4) {
            self.dry_run()?;
        }
        if self.choices.chance(1, 5) {
            self.killed();
        }
        let repaired = match repair(&self.folder, &self.secret(), real(), &mut |_| {}) {
            Ok(report) => report,
            Err(error) => {
                self.no_repair(&error)?;
                return Ok(self.outcome(0));
            }
        };
        let lost = self.after(&repaired, before.as_ref())?;
        self.again(&repaired)?;
        Ok(self.outcome(lost))
    }

    fn outcome(&self, lost_bytes: u64) -> Outcome {
        Outcome {
            what: self.inflicted.what.clone(),
            sort: self.inflicted.sort,
            harmed: self.inflicted.harmed,
            lost_bytes,
        }
    }

    fn secret(&self) -> Secret {
        Secret::KeyFile(self.base.key.clone())
    }

    fn open(&self) -> Result<Vault, Error> {
        let options = OpenOptions {
            trust: unseen(),
            ..OpenOptions::default()
        };
        Vault::open(&self.folder, self.secret(), options)
    }

    /// The vault opens: what a verification says of it, and whether that is true.
    fn before(&self, vault: &Vault) -> Result<VerifyReport, Violation> {
        let deep = self.inflicted.offset.is_multiple_of(2);
        let report = vault
            .verify(
                VerifyOptions {
                    deep,
                    resume: false,
                },
                &mut |_| GoOn::Yes,
            )
            .map_err(|error| format!("verify: {error}"))?;
        self.named(&report)?;
        let seen = see(vault, self.base, None);
        // (1), and of a ruined database no more can be asked for.
        for (state, seen) in &seen {
            seen.wrong(self.base.state(*state, self.inflicted.fault))?;
        }
        if self.inflicted.sort != Sort::Database {
            self.truth(&report, &seen)?;
        }
        vault.close().map_err(|error| format!("close: {error}"))?;
        Ok(report)
    }

    /// (3)
    fn named(&self, report: &VerifyReport) -> Result<(), Violation> {
        let Inflicted { harmed, sort, .. } = self.inflicted;
        let found = !report.is_sound();
        if !harmed || sort == Sort::Nothing {
            return match found {
                true => Err(format!("nothing is damaged, and it says {report:?}")),
                false => Ok(()),
            };
        }
        let named = self.inflicted.files.iter().all(|file| {
            let is_it = |named: &str| named.starts_with(&file[..]) || file.starts_with(named);
            report.files.iter().any(|one| is_it(&one.file))
        });
        match (found, named, sort) {
            (true, true, _) | (true, _, Sort::Database) => Ok(()),
            _ => Err(format!(
                "not named: {:?}, {:?}",
                report.files, report.structure.problems
            )),
        }
    }

    /// (2)
    fn truth(
        &self,
        report: &VerifyReport,
        seen: &[(Option<usize>, Seen)],
    ) -> Result<(), Violation> {
        for (state, seen) in seen {
            let revision = state.map(|index| self.base.revisions[index].id);
            let lost = lost_of(report, revision.as_ref());
            seen.agrees(self.base.state(*state, self.inflicted.fault), &lost)
                .map_err(|violation| format!("in state {state:?}: {violation}"))?;
        }
        Ok(())
    }

    /// The vault does not open: the reason is one of those that say what to do.
    fn refusal(&self, error: &Error) -> Result<(), Violation> {
        let is_told = match self.inflicted.sort {
            Sort::Header => matches!(
                error,
                Error::Damaged { .. }
                    | Error::HeaderLost { .. }
                    | Error::GenerationBehind { .. }
                    | Error::HeaderForeign { .. }
            ),
            Sort::Replica | Sort::Database => matches!(error, Error::Damaged { .. }),
            _ => false,
        };
        if is_told {
            Ok(())
        } else {
            Err(format!("it does not open: {error}"))
        }
    }

    /// A dry run changes nothing.
    fn dry_run(&self) -> Result<(), Violation> {
        let before = base::digest(&self.folder);
        let options = RepairOptions {
            dry_run: true,
            trust: unseen(),
            ..RepairOptions::default()
        };
        // An error is that of the repair, which is judged there.
        let _ = repair(&self.folder, &self.secret(), options, &mut |_| {});
        if base::digest(&self.folder) == before {
            Ok(())
        } else {
            Err("a dry run changed the folder".to_owned())
        }
    }

    /// A repair is killed after a while; whatever that did must be no worse than nothing.
    fn killed(&mut self) {
        let Some(program) = self.program else { return };
        let child = Command::new(program)
            .arg("mend")
            .arg(&self.folder)
            .arg(&self.base.key_path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else { return };
        let wait_ms = self.choices.below(120);
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// No repair is possible: only without any header.
    fn no_repair(&self, error: &Error) -> Result<(), Violation> {
        match (self.inflicted.fault, error) {
            (Fault::DeleteBoth, Error::HeaderLost { saved: false }) => Ok(()),
            _ => Err(format!("repair: {error}")),
        }
    }

    /// After the repair: what is left is true, and it is all that could be left.
    fn after(
        &self,
        repaired: &RepairReport,
        before: Option<&VerifyReport>,
    ) -> Result<u64, Violation> {
        let vault = self
            .open()
            .map_err(|error| format!("after the repair: {error}"))?;
        let deep = VerifyOptions {
            deep: true,
            resume: false,
        };
        let report = vault
            .verify(deep, &mut |_| GoOn::Yes)
            .map_err(|error| format!("verify after the repair: {error}"))?;
        if report.damages != repaired.left.damages {
            return Err(format!(
                "left {:?}, and found {:?}",
                repaired.left.damages, report.damages
            ));
        }
        // Only what follows from a loss may be left: nodes and ends of files that are lost.
        let is_told = |problem: &String| {
            !report.damages.is_empty()
                && (problem.contains("of snapshots cannot be read")
                    || problem.contains("were committed"))
        };
        if !report.structure.problems.iter().all(is_told) {
            return Err(format!("after the repair: {:?}", report.structure.problems));
        }
        // An older database does not know of a key that was added since: that is said until somebody accepts it.
        let is_older = self.inflicted.fault == Fault::OlderDatabase;
        let is_of_keys = |one: &FileProblem| is_older && !one.is_damage;
        let is_sound = report.progress.damaged_blocks == 0 && report.files.iter().all(is_of_keys);
        if report.damages.is_empty() && !is_sound {
            return Err(format!("nothing is lost, and yet {:?}", report.files));
        }
        let seen = see(&vault, self.base, Some(repaired));
        let living = living(self.base, &self.inflicted, repaired);
        for (state, seen) in &seen {
            let model: &State = match state {
                None => living,
                Some(index) => &self.base.states[*index],
            };
            let revision = state.map(|index| self.base.revisions[index].id);
            let lost = lost_of(&report, revision.as_ref());
            seen.agrees(model, &lost)
                .map_err(|violation| format!("repaired, in state {state:?}: {violation}"))?;
        }
        self.bound(&report, before)?;
        vault.close().map_err(|error| format!("close: {error}"))?;
        Ok(report
            .damages
            .iter()
            .map(|damage| match damage.what {
                strongroom::Loss::Content(start, end) => end - start,
                _ => 0,
            })
            .sum())
    }

    /// Only what was damaged can be lost: nothing but segments holds content, and a repair loses nothing.
    fn bound(&self, after: &VerifyReport, before: Option<&VerifyReport>) -> Result<(), Violation> {
        if self.inflicted.sort != Sort::Segment && !after.damages.is_empty() {
            return Err(format!(
                "nothing of it held content, and lost are {:?}",
                after.damages
            ));
        }
        let known = |damage: &strongroom::Damage| {
            before.is_none_or(|before| before.damages.iter().any(|one| one.path == damage.path))
        };
        match after.damages.iter().find(|damage| !known(damage)) {
            Some(damage) => Err(format!("the repair lost {damage:?}")),
            None => Ok(()),
        }
    }

    /// (4)
    fn again(&self, first: &RepairReport) -> Result<(), Violation> {
        let second = repair(&self.folder, &self.secret(), real(), &mut |_| {})
            .map_err(|error| format!("the second repair: {error}"))?;
        let idle = second.recovered.is_untouched()
            && second.mended_blocks == 0
            && second.adopted.is_empty()
            && second.set_aside.is_empty();
        if !idle || second.left.damages != first.left.damages {
            return Err(format!("the second repair did something: {second:?}"));
        }
        Ok(())
    }
}

fn real() -> RepairOptions {
    RepairOptions {
        dry_run: false,
        trust: unseen(),
        ..RepairOptions::default()
    }
}

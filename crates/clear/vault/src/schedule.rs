//! Takes snapshots at regular times, and removes old ones by the vault's rule.
//!
//! Takes   an open vault, and the interval between snapshots
//! Gives   a snapshot each time, if anything changed; reports of the results
//! Never   delays closing the vault by more than the time of one snapshot, or assumes that a clock only goes forward
//! Spec    spec/6-history.md, section 6.10
//!
//! Invariants
//!  (1) The next snapshot is due when the clock differs from the last snapshot's time by the interval or more.  [6.10.1]

use std::time::Duration;

use strongroom_filesystem::Timestamp;
use strongroom_history::{NewRevision, Retention, SCHEDULED};

use crate::request::history::RevisionInfo;
use crate::worker::Worker;
use crate::{Error, Result, Vault};

/// The clock is looked at so often at least: it may jump, or have stood still while the machine slept.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How long after the beginning the first state of a vault is taken that has none.
const FIRST_AFTER: Duration = Duration::from_secs(600);

/// So many nodes may be new or changed since the newest state before who comes and goes takes another. Looking for them reads
/// no more than that.
const CHANGES_MAX: usize = 1_000;

/// When the next is due. (1)
#[derive(Clone, Copy, Debug)]
struct Timetable {
    every: Duration,
    from: Timestamp,
    wait: Duration,
}

impl Timetable {
    /// `newest`: when the newest state of the vault was taken.
    fn new(every: Duration, newest: Option<Timestamp>, now: Timestamp) -> Self {
        Self {
            every,
            from: newest.unwrap_or(now),
            wait: match newest {
                Some(_) => every,
                None => every.min(FIRST_AFTER),
            },
        }
    }

    /// How long until the next; nothing if it is due.
    fn left(&self, now: Timestamp) -> Duration {
        let away = Duration::from_nanos(now.0.abs_diff(self.from.0));
        self.wait.saturating_sub(away)
    }

    /// It was taken, or could not be.
    fn passed(&mut self, now: Timestamp) {
        (self.from, self.wait) = (now, self.every);
    }
}

/// What came of a moment at which a state was due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleStep {
    /// The new one; `None` if nothing had changed.
    pub taken: Option<RevisionInfo>,
    /// Those that the rule let go.
    pub let_go: Vec<RevisionInfo>,
}

/// A schedule as it is carried out, one look at the clock at a time.
struct Running {
    vault: Vault,
    timetable: Timetable,
}

impl Running {
    fn new(vault: Vault, every: Duration) -> Result<Self> {
        let newest = vault.revisions()?.pop().map(|newest| newest.time);
        let now = vault.clock_now()?;
        Ok(Self {
            vault,
            timetable: Timetable::new(every, newest, now),
        })
    }

    /// Does what is due; gives what came of it, or `None` if nothing was due, and how long to wait then.
    fn look(&mut self) -> (Option<Result<ScheduleStep>>, Duration) {
        let now = match self.vault.clock_now() {
            Ok(now) => now,
            Err(error) => return (Some(Err(error)), LOOK_EVERY),
        };
        let left = self.timetable.left(now);
        if !left.is_zero() {
            return (None, left.min(LOOK_EVERY));
        }
        self.timetable.passed(now);
        (Some(self.step()), self.timetable.every.min(LOOK_EVERY))
    }

    fn step(&self) -> Result<ScheduleStep> {
        step(&self.vault)
    }
}

fn step(vault: &Vault) -> Result<ScheduleStep> {
    let taken = vault.take_revision(&NewRevision {
        message: SCHEDULED.to_owned(),
        tags: Vec::new(),
        only_if_changed: true,
    })?;
    let rule = vault.retention()?.unwrap_or(Retention::DEFAULT);
    let let_go = vault.thin(&rule)?;
    Ok(ScheduleStep { taken, let_go })
}

/// A schedule that runs until this is dropped. Drop it before the vault is closed.
#[derive(Debug)]
pub struct Schedule {
    _worker: Worker,
}

impl Vault {
    /// From now on takes a snapshot every so often, if anything changed since the newest, and lets old ones go by the
    /// rule of `retention`. `told` hears of each.
    ///
    /// # Errors
    /// `OwnerOnly` if another process owns the vault; those of `revisions`.
    pub fn keep_on_schedule(
        &self,
        every: Duration,
        told: impl Fn(&Result<ScheduleStep>) + Send + 'static,
    ) -> Result<Schedule> {
        let mut running = Running::new(self.clone(), every)?;
        let worker = Worker::start("vault-schedule", move |_| {
            let (done, wait) = running.look();
            if let Some(done) = &done {
                told(done);
            }
            Some(wait)
        });
        Ok(Schedule { _worker: worker? })
    }

    /// For an owner that comes and goes, as a command does: takes a snapshot if there is none, if the newest is as old as
    /// `every` says, or if a thousand nodes are new or changed since; what no state names comes back without names if the
    /// database is lost. Lets old ones go by the rule of `retention`. `None` if none was due.
    ///
    /// # Errors
    /// `OwnerOnly` if another process owns the vault; those of `take_revision`.
    pub fn keep_if_due(&self, every: Duration) -> Result<Option<ScheduleStep>> {
        let now = self.clock_now()?;
        let newest = self.revisions()?.pop().map(|newest| newest.time);
        let is_due = match newest {
            None => true,
            Some(newest) => {
                let table = Timetable::new(every, Some(newest), now);
                table.left(now).is_zero() || self.changed_much()?
            }
        };
        is_due.then(|| step(self)).transpose()
    }

    /// Whether `CHANGES_MAX` nodes or more are not as the newest state has them.
    fn changed_much(&self) -> Result<bool> {
        let filesystem = self
            .filesystem()
            .ok_or(Error::OwnerOnly("taking snapshots"))?;
        let changed = filesystem.changed_since_revision(CHANGES_MAX)?;
        Ok(changed.is_none_or(|count| count >= CHANGES_MAX))
    }

    /// What the clock of the vault shows.
    fn clock_now(&self) -> Result<Timestamp> {
        let filesystem = self
            .filesystem()
            .ok_or(Error::OwnerOnly("taking snapshots by the clock"))?;
        Ok(filesystem.engine().now())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use strongroom_crypto::{KeyFile, Secret, SystemRandom};
    use strongroom_filesystem::{Background, Clock};

    use super::*;
    use crate::{CreateOptions, OpenOptions};

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(minutes: i64) -> Timestamp {
        Timestamp(minutes * 60_000_000_000)
    }

    /// A clock that shows what it was set to.
    #[derive(Debug, Default)]
    struct Set(AtomicI64);

    impl Clock for Set {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn the_next_is_due_an_interval_after_the_newest_whichever_way_the_clock_went() {
        let table = Timetable::new(HOUR, Some(at(1000)), at(1010));
        assert_eq!(table.left(at(1010)), Duration::from_secs(50 * 60));
        for due in [1060, 9000, 940, -9000] {
            assert_eq!(table.left(at(due)), Duration::ZERO, "{due}");
        }
        let mut ahead = Timetable::new(HOUR, Some(at(900_000)), at(1000));
        assert_eq!(ahead.left(at(1000)), Duration::ZERO, "it was ahead then");
        ahead.passed(at(1000));
        assert_eq!(ahead.left(at(1001)), Duration::from_secs(59 * 60));
        let first = Timetable::new(HOUR, None, at(1000));
        assert_eq!(first.left(at(1000)), FIRST_AFTER);
    }

    /// A vault on a clock of the test's, with a schedule that nobody but the test carries out.
    fn running(every: Duration) -> (tempfile::TempDir, Arc<Set>, Running) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("vault");
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let options = CreateOptions::new().key_file(key_file.clone());
        let created = Vault::create(&path, options).unwrap();
        created.vault.close().unwrap();
        let clock = Arc::new(Set::default());
        let mut options = OpenOptions {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..OpenOptions::default()
        };
        options.engine.background = Background::Manual;
        let vault = Vault::open(&path, Secret::KeyFile(key_file), options).unwrap();
        let running = Running::new(vault, every).unwrap();
        (place, clock, running)
    }

    fn step(running: &mut Running) -> Option<ScheduleStep> {
        running.look().0.map(|done| done.unwrap())
    }

    #[test]
    fn a_state_is_taken_each_hour_if_something_changed_and_the_rule_lets_old_ones_go() {
        let (_place, clock, mut running) = running(HOUR);
        let vault = running.vault.clone();
        let rule = Retention {
            last: 0,
            hourly: 3,
            daily: 3,
            weekly: 0,
            monthly: 0,
            yearly: 0,
            whose: strongroom_history::Whose::Scheduled,
        };
        vault.set_retention(&rule).unwrap();
        assert_eq!(vault.retention().unwrap(), Some(rule));
        assert_eq!(step(&mut running), None);
        let mut let_go = 0;
        for hour in 1..=50_i64 {
            clock.0.store(at(hour * 60).0, Ordering::Relaxed);
            // Every fifth hour nothing happens.
            if hour % 5 != 0 {
                vault.write("/file", hour.to_string()).unwrap();
            }
            let done = step(&mut running).expect("an hour has passed");
            assert_eq!(done.taken.is_some(), hour % 5 != 0, "{hour}");
            let_go += done.let_go.len();
            assert_eq!(step(&mut running), None, "once an hour");
        }
        let kept = vault.revisions().unwrap();
        let hours: Vec<_> = kept.iter().map(|one| one.time.0 / at(60).0).collect();
        assert_eq!(hours, [23, 47, 48, 49]);
        assert_eq!(let_go + kept.len(), 40);
        assert_eq!(vault.read("/.history/h:/file").unwrap(), b"49");
        assert_eq!(vault.check().unwrap().problems, [] as [String; 0]);
    }

    #[test]
    fn what_a_person_named_stays_whatever_the_schedule_does() {
        let (_place, clock, mut running) = running(HOUR);
        let vault = running.vault.clone();
        vault.write("/file", "named").unwrap();
        let new = NewRevision {
            message: "before sorting".to_owned(),
            ..NewRevision::default()
        };
        let named = vault.take_revision(&new).unwrap().unwrap();
        for day in 1..=62_i64 {
            clock.0.store(at(day * 24 * 60).0, Ordering::Relaxed);
            vault.write("/file", day.to_string()).unwrap();
            step(&mut running).expect("due");
        }
        let kept = vault.revisions().unwrap();
        assert_eq!(kept[0].id, named.id);
        // 30 days, and the newest of the month before.
        assert_eq!(kept.len(), 1 + 30 + 1);
    }

    /// Goal: who opens a vault for a moment at a time leaves no more behind the newest state than an hour or a thousand nodes.
    /// Failed before: a vault that was only ever used so had no state at all.
    #[test]
    fn who_comes_and_goes_keeps_a_state_at_first_each_hour_and_after_many_changes() {
        let (_place, clock, running) = running(HOUR);
        let vault = running.vault.clone();
        let kept = |vault: &Vault| vault.keep_if_due(HOUR).unwrap().is_some();
        vault.write("/first", "1").unwrap();
        assert!(kept(&vault), "there was none");
        vault.write("/second", "2").unwrap();
        assert!(!kept(&vault), "a moment later");
        clock.0.store(at(61).0, Ordering::Relaxed);
        assert!(kept(&vault), "an hour later");
        for index in 0..CHANGES_MAX {
            vault.write(format!("/many {index}"), "").unwrap();
        }
        assert!(kept(&vault), "many changes later");
        assert!(!kept(&vault), "nothing since");
        assert_eq!(vault.read("/.history/h:/many 7").unwrap(), b"");
    }

    #[test]
    fn a_schedule_ends_with_its_handle_and_leaves_the_vault_to_be_closed() {
        let (_place, _clock, running) = running(HOUR);
        let vault = running.vault.clone();
        drop(running);
        let schedule = vault.keep_on_schedule(HOUR, |_| {}).unwrap();
        drop(schedule);
        vault.close().unwrap();
        let closed = vault.keep_on_schedule(HOUR, |_| {});
        assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
    }
}

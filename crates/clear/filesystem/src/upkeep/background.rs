//! Background work: drains (when a timer ends or a bound is reached), commits, purges, finishing segments, and freeing
//! space.
//!
//! Takes   notes of work from the operations
//! Gives   that work done, by one thread or by `tick`. Changes are committed 1 to 2 s after the last one, but at least
//!         every 3 s (`QUIET_INTERVAL` and `COMMIT_INTERVAL`); closing a file commits nothing
//! Never   loses a note while the vault is open; after a crash, opening finds the work again from the rows

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::commit::commits::commit_all;
use crate::core::{Background, Core, Options, Work, WorkQueue, Worker};
use crate::drain::drains::drain_all;
use crate::trees::give_back::give_back;
use crate::upkeep::compact::reclaim;
use crate::upkeep::room::{bound_waste_early, wastes_early};
use crate::upkeep::space::settle;
use crate::upkeep::urgent::{finish, urgent};
use crate::{Filesystem, Result};

/// Starts the thread, if the options ask for one.
pub(crate) fn start(core: &Arc<Core>) -> std::io::Result<Worker> {
    let work = Arc::clone(&core.work);
    let mut thread = None;
    if core.options.background == Background::Thread && !core.options.read_only {
        // Weak: a thread that owned the core would keep the database open after the last handle went.
        let weak = Arc::downgrade(core);
        let (queue, options) = (Arc::clone(&work), core.options.clone());
        let builder = std::thread::Builder::new().name("strongroom-background".into());
        thread = Some(builder.spawn(move || run(&weak, &queue, &options))?);
    }
    Ok(Worker::new(work, thread))
}

fn run(core: &Weak<Core>, work: &WorkQueue, options: &Options) {
    let mut last_tick = Instant::now();
    let mut quiet = Quiet::default();
    let mut wastes = false;
    if let Some(core) = core.upgrade() {
        quiet.look(&core, options.quiet_interval);
    }
    loop {
        let due = last_tick + options.commit_interval;
        let look = quiet.since.map(|since| since + options.quiet_interval);
        let next = look.map_or(due, |look| look.min(due));
        if !work.wait(if wastes { Instant::now() } else { next }) {
            return;
        }
        let Some(core) = core.upgrade() else { return };
        let is_quiet = quiet.look(&core, options.quiet_interval);
        // An error is kept where the next caller meets it: in the pending content or in `failed`.
        let done = catch_unwind(AssertUnwindSafe(|| {
            let doing = core.work.doing();
            let notes = core.work.take();
            let commit = notes.commit;
            let _ = urgent(&core, notes);
            drop(doing);
            // What is written meanwhile is drained and committed in time.
            let is_due = || core.work.is_noted() || Instant::now() >= next;
            if wastes {
                wastes = bound_waste_early(&core, &is_due).unwrap_or(false);
            }
            if commit || is_quiet || Instant::now() >= due {
                let _ = periodic(&core);
                // Begun here only: while files are removed from the disk, each sync of a file there takes several times as long.
                wastes = wastes_early(&core);
                last_tick = Instant::now();
                quiet = Quiet::default();
                quiet.look(&core, options.quiet_interval);
            }
        }));
        if done.is_err() {
            // A broken invariant, reported by the panic hook. Nobody may wait for this thread any more.
            core.durability.fail();
            core.content.wake();
            return;
        }
    }
}

/// Whether changes have come to rest.
#[derive(Default)]
struct Quiet {
    /// Changes at the last look.
    changes: u64,
    /// When the last of them was first seen; `None` while all of them are durable.
    since: Option<Instant>,
}

impl Quiet {
    /// Gives whether there are changes that are not durable, and no further one for `interval`.
    fn look(&mut self, core: &Core, interval: Duration) -> bool {
        core.work.wake_by_change(true);
        let changes = core.durability.changes();
        if changes <= core.durability.durable() {
            *self = Self {
                changes,
                since: None,
            };
            return false;
        }
        // Further ones are seen at the next look, however many there are.
        core.work.wake_by_change(false);
        let now = Instant::now();
        if self.changes != changes || self.since.is_none() {
            *self = Self {
                changes,
                since: Some(now),
            };
        }
        self.since.is_some_and(|since| now >= since + interval)
    }
}

/// What happens every few seconds. One part that fails does not keep the others from their work: a file that
/// does not fit the disk must not stop the commits and the reclaiming that would make room for it.
fn periodic(core: &Core) -> Result<()> {
    let drained = drain_all(core);
    let settled = match core.store.waiting_bytes() > core.options.thresholds.waiting_bytes_max {
        true => settle(core),
        false => Ok(()),
    };
    // Moves the bulk of a long log while others work, so that the commit's own part of it is short.
    let moved = {
        let _doing = core.options.doing(Work::Checkpoint);
        let checkpoint = core.store.checkpoint();
        checkpoint.map(drop).map_err(crate::Error::from)
    };
    let committed = commit_all(core);
    let tidied = crate::commit::intents::tidy(core);
    let given_back = give_back(core).map(drop);
    let reclaimed = reclaim(core);
    // The reserve that a commit on a full disk used up is set aside again as soon as it fits.
    let reserved = match core.store.reserve_intact() {
        true => Ok(()),
        false => core.store.restore_reserve().map_err(crate::Error::from),
    };
    drained
        .and(settled)
        .and(moved)
        .and(committed)
        .and(tidied)
        .and(given_back)
        .and(reclaimed)
        .and(reserved)
}

impl Filesystem {
    /// Does all background work that is due, in the caller's thread: for `Background::Manual`.
    ///
    /// # Errors
    /// The first error met; the work that failed is noted again or found again at open.
    pub fn tick(&self) -> Result<()> {
        finish(&self.core)?;
        periodic(&self.core)?;
        bound_waste_early(&self.core, &|| false).map(drop)
    }
}

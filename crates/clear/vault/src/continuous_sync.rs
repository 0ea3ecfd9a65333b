//! Keeps a vault in sync with its remotes while it is in use: it uploads changes and downloads publications within seconds.
//!
//! Takes   an open vault, whichever process owns it, and the longest interval between two looks at a remote
//! Gives   reports of what was transferred, what failed, and what works again
//! Never   asks a remote more than once a second while nothing changes, gives up on an unreachable one, or polls often if the
//!         remote reports news itself
//! Spec    spec/11-sync.md, 11.4 and 11.6
//!
//! Invariants
//!  (1) While nothing changes, a look at the vault commits nothing, and a look at an object store is one request.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use strongroom_remote::{Address, Remote};

use crate::evict::EvictReport;
use crate::follower::{Follower, Works};
use crate::pull::{Reached, SyncReport};
use crate::remote_turn::RemoteTurns;
use crate::remotes::RemoteProgress;
use crate::request::Request;
use crate::request::remote::{LimitLook, RemoteFields, RemoteRequest};
use crate::worker::{Ending, Worker};
use crate::{Error, GoOn, Result, Vault};

/// Behind so long a time without a look, what has gone from a remote is looked for again.
const LOOKED_LONG_AGO: Duration = Duration::from_secs(5 * 60);

/// How often is looked whether the vault was changed. It costs one number.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long nothing must change before it goes up: a program that writes a file does not make a push of each part.
const QUIET: Duration = Duration::from_millis(200);

/// What changes all the time goes up after so long all the same; after a push that took longer, when that time is over twice.
const BUSY: Duration = Duration::from_secs(2);

/// So often the vault is looked at whatever its mark says: keys change without one.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// The same after a push that found nothing to publish: something was changed and changed back.
const CHECK_FRUITLESS: Duration = Duration::from_secs(60);

/// Progress is reported so often.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// A remote is asked so often while things move, and less often the longer nothing does.
const POLL_MIN: Duration = Duration::from_secs(1);

/// A remote at which one hears of what is published is asked so often all the same: it may keep something back, and a push of another
/// device that never ended counts as cut off some time.
const POLL_FOLLOWED: Duration = Duration::from_secs(5 * 60);

/// A remote that failed is left alone for a second, then for twice as long each time, at most for so long.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// After so many looks that found nothing a remote is first asked whether there is anything: a store says that in fewer bytes.
const LOOKS_FRUITLESS: u32 = 3;

/// A failure that needs no help is reported only after so many times.
const FAILURES_SILENT: u32 = 5;

/// What happened in a continuous sync.
#[derive(Debug)]
#[non_exhaustive]
pub enum SyncEvent {
    /// Bytes are on their way; reported about twice a second.
    Moving {
        /// The name of the remote.
        remote: String,
        /// How far it is.
        progress: RemoteProgress,
    },
    /// Something moved, here or there.
    Synced {
        /// The name of the remote.
        remote: String,
        /// What moved.
        report: SyncReport,
    },
    /// It did not work; it is tried again. Reported once for as long as it fails in the same way.
    Failed {
        /// The name of the remote.
        remote: String,
        /// Why.
        error: Error,
        /// When it is tried again.
        again_in: Duration,
    },
    /// It works again.
    Recovered {
        /// The name of the remote.
        remote: String,
    },
    /// The vault itself cannot be used any more: this was the last event.
    Ended {
        /// Why.
        error: Error,
    },
}

/// A continuous sync, until this is dropped. Drop it before the vault is closed.
///
/// Dropped by what hears of its events, it ends as soon as that returns, and nobody waits for it. Dropped by the progress function of a call
/// that moves something to or from a remote, it ends with that call, which waits for it before it returns.
#[derive(Debug)]
pub struct ContinuousSync {
    worker: Worker,
    /// What its thread waits for while a call uses a remote.
    turns: Arc<RemoteTurns>,
}

impl ContinuousSync {
    /// Ends it when what waits has gone to the remotes that work. Where a drop does not wait, this does not either, and is the same.
    pub fn finish(mut self) {
        if !self.turns.is_own() {
            self.worker.finish();
        }
    }
}

impl Drop for ContinuousSync {
    fn drop(&mut self) {
        // Its thread may wait for the turn that this one has.
        if self.turns.is_own()
            && let Some(thread) = self.worker.leave()
        {
            self.turns.wait_later(thread);
        }
    }
}

impl Vault {
    /// From now on brings what changes here to all remotes of the vault, and what others push there into the vault. Remotes are
    /// asked each second while something moves, and less often the longer nothing does, down to `every`. `told` hears of what
    /// happens.
    ///
    /// # Errors
    /// `Io` if the system has no thread left.
    pub fn keep_in_sync(
        &self,
        every: Duration,
        told: impl Fn(SyncEvent) + Send + 'static,
    ) -> Result<ContinuousSync> {
        let mut running = Running {
            vault: self.clone(),
            every: every.max(POLL_MIN),
            told: Box::new(told),
            places: Vec::new(),
            list_at: Instant::now(),
        };
        let worker = Worker::start("vault-sync", move |ending| running.look(ending))?;
        let turns = Arc::clone(&self.shared.remote_turns);
        Ok(ContinuousSync { worker, turns })
    }

    /// A number that is another one after every change of the vault.
    fn changes_mark(&self) -> Result<u64> {
        self.ask_for(&Request::Remote(RemoteRequest::ChangesMark))
    }

    /// Whether a push to that remote would publish something.
    pub(crate) fn is_waiting(&self, remote: u64) -> Result<bool> {
        self.ask_for(&Request::Remote(RemoteRequest::IsWaiting { remote }))
    }
}

struct Running {
    vault: Vault,
    every: Duration,
    told: Box<dyn Fn(SyncEvent) + Send>,
    places: Vec<Place>,
    /// When the list of remotes is looked at next.
    list_at: Instant,
}

/// One remote.
struct Place {
    number: u64,
    name: String,
    /// Once it was reached.
    remote: Option<Arc<dyn Remote>>,
    /// Waits there for what others publish, once it was reached.
    follower: Option<Follower>,
    /// Its disk can be unmounted between two looks: nothing of it is held open.
    is_folder: bool,
    /// An inbox of the vault is there: nobody hears of deposits.
    has_inbox: bool,
    /// The mark of the vault, and since when it is that.
    mark: (u64, Instant),
    /// Since when something changed that was not looked at.
    changed: Option<Instant>,
    check_at: Instant,
    poll_at: Instant,
    /// The mark of the vault when the limit of this device was looked at last; 0 if that failed.
    limit_mark: u64,
    /// It is not looked at before that: the last time above it nothing went.
    limit_at: Instant,
    /// The last look found what may go for the limit, and it did not go yet.
    limit_due: bool,
    /// When it was asked for something new last, by the clock of the machine; unless that failed.
    looked: Option<SystemTime>,
    /// When something moved last.
    moved: Instant,
    /// How many looks for something new have found nothing since.
    fruitless: u32,
    /// How long the last push took.
    took: Duration,
    failures: u32,
    /// What was reported of a failure.
    reported: Option<String>,
}

impl Place {
    fn new(row: &RemoteFields, now: Instant) -> Self {
        Self {
            number: row.number,
            name: row.name.clone(),
            remote: None,
            follower: None,
            is_folder: Address::parse(&row.address).is_ok_and(|address| address.is_folder()),
            has_inbox: false,
            mark: (0, now),
            changed: None,
            check_at: now,
            poll_at: now,
            limit_mark: 0,
            limit_at: now,
            limit_due: false,
            looked: None,
            moved: now,
            fruitless: 0,
            took: Duration::ZERO,
            failures: 0,
            reported: None,
        }
    }

    /// Whether what changed is to go up now.
    fn is_settled(&mut self, mark: u64, now: Instant) -> bool {
        if mark != self.mark.0 {
            self.mark = (mark, now);
            self.changed.get_or_insert(now);
        }
        let busy = BUSY.max(self.took * 2);
        self.changed
            .is_some_and(|since| now - self.mark.1 >= QUIET || now - since >= busy)
    }

    /// Whether others published something that was not looked at.
    fn has_news(&self) -> bool {
        self.follower.as_ref().is_some_and(Follower::take_news)
    }

    /// How long until it is asked again if nothing is heard of it.
    fn rest(&self, now: Instant, every: Duration) -> Duration {
        match self.follower.as_ref().map(Follower::works) {
            Some(Works::Yes) if !self.has_inbox => POLL_FOLLOWED,
            _ => ((now - self.moved) / 10).clamp(POLL_MIN, every),
        }
    }

    /// Whether one may be able to wait there.
    fn can_follow(&self) -> bool {
        self.follower.as_ref().map(Follower::works) != Some(Works::Never)
    }

    /// Holds nothing of a disk until the next look; waits for news where one can.
    fn rests(&mut self, vault: &Vault) -> Result<()> {
        if self.is_folder {
            self.remote = None;
        } else if self.can_follow() {
            self.follow(vault.remote_row(self.number)?.last)?;
        }
        Ok(())
    }

    /// Waits from now on for what is behind publication `last`, if one can wait there.
    fn follow(&mut self, last: u64) -> Result<()> {
        match (&self.follower, &self.remote) {
            (Some(follower), _) => follower.set_known(last),
            (None, Some(remote)) => {
                self.follower = Some(Follower::start(Arc::clone(remote), last)?);
            }
            (None, None) => {}
        }
        Ok(())
    }
}

impl Running {
    /// Does what is due with every remote; gives how long to wait then.
    fn look(&mut self, ending: &Ending) -> Option<Duration> {
        match self.look_at_all(ending) {
            Ok(()) => Some(LOOK_EVERY),
            Err(error) => {
                (self.told)(SyncEvent::Ended { error });
                None
            }
        }
    }

    fn look_at_all(&mut self, ending: &Ending) -> Result<()> {
        let now = Instant::now();
        if now >= self.list_at {
            let rows = self.vault.remote_rows()?;
            self.places
                .retain(|place| rows.iter().any(|row| row.number == place.number));
            for row in &rows {
                if !self.places.iter().any(|place| place.number == row.number) {
                    self.places.push(Place::new(row, now));
                }
            }
            self.list_at = now + CHECK_EVERY;
        }
        let mark = self.vault.changes_mark()?;
        let vault = self.vault.clone();
        for place in &mut self.places {
            if matches!(ending.go_on(), GoOn::No) {
                break;
            }
            let is_last = ending.is_finishing();
            let now = Instant::now();
            let settled = place.is_settled(mark, now);
            let fails = place.failures > 0;
            if !fails {
                // One at which nothing is heard any more is asked as every other.
                let rest = place.rest(now, self.every);
                place.poll_at = place.poll_at.min(now + rest);
            }
            let has_news = place.has_news();
            if has_news {
                place.fruitless = 0;
            }
            let polls = (now >= place.poll_at || has_news) && !is_last;
            let looks = is_last || settled || now >= place.check_at;
            if !polls && (fails || !looks) {
                continue;
            }
            let done = round(&vault, place, looks || fails, polls, ending, &self.told);
            // Somebody may have removed the remote meanwhile: that ends nothing for the others.
            match done.and_then(|done| place.rests(&vault).map(|()| done)) {
                Ok((is_waiting, report)) => {
                    if place.reported.take().is_some() {
                        let remote = place.name.clone();
                        (self.told)(SyncEvent::Recovered { remote });
                    }
                    let now = Instant::now();
                    place.failures = 0;
                    if looks {
                        place.changed = None;
                        place.check_at = now + CHECK_EVERY;
                    }
                    if is_waiting && report.pushed.publications == 0 {
                        place.check_at = now + CHECK_FRUITLESS;
                    }
                    place.fruitless = place.fruitless.saturating_add(u32::from(polls));
                    if report != SyncReport::default() {
                        (place.moved, place.fruitless) = (now, 0);
                        // What was joined goes up.
                        place.check_at = now;
                        let remote = place.name.clone();
                        (self.told)(SyncEvent::Synced { remote, report });
                    }
                    let next = now + place.rest(now, self.every);
                    if polls {
                        place.poll_at = next;
                    } else {
                        place.poll_at = place.poll_at.min(next);
                    }
                    // Idle polls stored nothing of that. It keeps no other remote from its last push.
                    if is_last
                        && let Some(looked) = place.looked
                        && let Err(error) =
                            vault.note_contact(place.number, seconds_at(looked), true)
                    {
                        log::debug!("noting when remote {} answered: {error}", place.name);
                    }
                }
                Err(Error::RemoteStopped) => {}
                Err(Error::Closed) => return Err(Error::Closed),
                Err(error) => {
                    if matches!(error, Error::OwnerGone) {
                        // It went over a request. This one goes to the next owner, which this process may become; without one it ends.
                        vault.changes_mark()?;
                    }
                    (place.remote, place.follower, place.looked) = (None, None, None);
                    place.limit_mark = 0;
                    let again_in = Duration::from_secs(1 << place.failures.min(6)).min(PAUSE_MAX);
                    place.failures = place.failures.saturating_add(1);
                    place.poll_at = Instant::now() + again_in;
                    let text = error.to_string();
                    let passes = is_passing(&error) && place.failures < FAILURES_SILENT;
                    if !passes && place.reported.as_ref() != Some(&text) {
                        place.reported = Some(text);
                        let remote = place.name.clone();
                        (self.told)(SyncEvent::Failed {
                            remote,
                            error,
                            again_in,
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

fn seconds_at(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Whether it passes when what goes on here, or on another device, has ended.
fn is_passing(error: &Error) -> bool {
    matches!(
        error,
        Error::RemoteAhead | Error::RemoteBusy | Error::KeysInUse | Error::KeysContended
    )
}

/// One round with one remote: up if something waits, down if `polls` or if another device was faster. Gives whether something waited,
/// and what moved.
fn round(
    vault: &Vault,
    place: &mut Place,
    looks: bool,
    polls: bool,
    ending: &Ending,
    tell: &dyn Fn(SyncEvent),
) -> Result<(bool, SyncReport)> {
    let _turn = vault.shared.remote_turns.take()?;
    // It may have waited long for it.
    if matches!(ending.go_on(), GoOn::No) {
        return Err(Error::RemoteStopped);
    }
    let name = place.name.clone();
    let mut shown = Instant::now();
    let mut told = |progress: &RemoteProgress| {
        if shown.elapsed() >= SHOW_EVERY && progress.bytes_total > 0 {
            shown = Instant::now();
            let (remote, progress) = (name.clone(), *progress);
            tell(SyncEvent::Moving { remote, progress });
        }
        ending.go_on()
    };
    let mut report = SyncReport::default();
    let is_waiting = looks && vault.is_waiting(place.number)?;
    let is_above = looks && is_above_limit(vault, place, ending)?;
    if !is_waiting && !polls && !is_above {
        return Ok((false, report));
    }
    let row = vault.remote_row(place.number)?;
    // A machine that slept may have missed days.
    let is_recent = |at: SystemTime| at.elapsed().is_ok_and(|time| time < LOOKED_LONG_AGO);
    let reached = match place.looked.is_some_and(is_recent) {
        true if place.fruitless >= LOOKS_FRUITLESS => Reached::AtRest,
        true => Reached::Before,
        false => Reached::Now,
    };
    let remote = match &place.remote {
        Some(remote) => Arc::clone(remote),
        None => Arc::clone(place.remote.insert(vault.connect(&row)?)),
    };
    if polls || is_waiting {
        place.looked = Some(SystemTime::now());
    }
    if is_waiting {
        let begun = Instant::now();
        report = match vault.push_and_clear(&row, &*remote, &mut told) {
            Ok(pushed) => SyncReport {
                pushed,
                ..SyncReport::default()
            },
            Err(Error::RemoteAhead) => vault.sync_at(place.number, &*remote, &mut told)?,
            Err(error) => return Err(error),
        };
        place.took = begun.elapsed();
    } else if polls {
        vault.pull_from(&row, &*remote, reached, &mut report.pulled, &mut told)?;
        let waiting = vault.receive(&row, &*remote, &mut report.pulled, &mut told)?;
        place.has_inbox = waiting.is_asked;
        vault.clear_published(&row, &*remote, &waiting)?;
    }
    if is_above {
        let mut evicted = EvictReport::default();
        let mut hear = |_: &RemoteProgress| ending.go_on();
        match vault.evict_to_limit_at(&row, &*remote, &mut evicted, &mut hear) {
            // Others published meanwhile: that comes first.
            Err(Error::RemoteAhead) => (place.limit_mark, place.poll_at) = (0, Instant::now()),
            // All else is done, and the next look says whether the remote works.
            Err(Error::Remote(_)) => {
                (place.limit_mark, place.limit_at) = (0, Instant::now() + CHECK_FRUITLESS);
            }
            done => {
                done?;
                place.limit_due = evicted.segments == 0;
                if place.limit_due {
                    place.limit_at = Instant::now() + CHECK_FRUITLESS;
                }
            }
        }
        report.note_evicted(&evicted);
    }
    Ok((is_waiting, report))
}

/// Whether something is to go for the limit of this device. Only what changed the vault can have exceeded it: what was read and fetched, too.
fn is_above_limit(vault: &Vault, place: &mut Place, ending: &Ending) -> Result<bool> {
    let mark = place.mark.0;
    let now = Instant::now();
    if ending.is_finishing() || mark == place.limit_mark || now < place.limit_at {
        return Ok(false);
    }
    place.limit_mark = mark;
    // What a remote that failed kept from going is nothing that came since.
    let look = match place.limit_due {
        true => LimitLook::Now,
        false => LimitLook::IfDue,
    };
    place.limit_due = !vault.above_limit(place.number, look)?.is_empty();
    Ok(place.limit_due)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::ops::Range;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::mpsc::TryRecvError;

    use parking_lot::Mutex;
    use strongroom_crypto::{KeyFile, Random, Secret, SystemRandom};
    use strongroom_filesystem::Background;
    use strongroom_remote::{Created, Listed, ObjectName};
    use strongroom_sync::RemoteState;

    use super::*;
    use crate::clock::Moment;
    use crate::observer::{Change, Observer};
    use crate::prune::Pruning;
    use crate::remote_log::Look;
    use crate::{CLONED_FROM, CloneOptions, CreateOptions, FileOptions, OpenOptions, SecretSource};

    /// What was asked of a remote.
    #[derive(Debug, Default)]
    struct Counts {
        requests: AtomicU64,
        /// Those of them that ask only whether there is an object.
        presence: AtomicU64,
        /// Bytes of objects that came and went.
        bytes: AtomicU64,
    }

    impl Counts {
        /// Requests and bytes since this was called last.
        fn take(&self) -> (u64, u64) {
            let requests = self.requests.swap(0, Ordering::Relaxed);
            (requests, self.bytes.swap(0, Ordering::Relaxed))
        }
    }

    /// Counts what is asked of the remote below.
    #[derive(Debug)]
    struct Counting {
        below: Arc<dyn Remote>,
        counts: Arc<Counts>,
    }

    impl Counting {
        fn one(&self) -> &dyn Remote {
            self.counts.requests.fetch_add(1, Ordering::Relaxed);
            &*self.below
        }

        fn moved(&self, bytes: &[u8]) {
            let len = bytes.len() as u64;
            self.counts.bytes.fetch_add(len, Ordering::Relaxed);
        }
    }

    impl Remote for Counting {
        fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> strongroom_remote::Result<Created> {
            self.moved(&bytes);
            self.one().create(name, bytes)
        }

        fn read(&self, name: &ObjectName, max: u64) -> strongroom_remote::Result<Option<Vec<u8>>> {
            let found = self.one().read(name, max)?;
            found.iter().for_each(|bytes| self.moved(bytes));
            Ok(found)
        }

        fn read_range(
            &self,
            name: &ObjectName,
            range: Range<u64>,
        ) -> strongroom_remote::Result<Option<Vec<u8>>> {
            let found = self.one().read_range(name, range)?;
            found.iter().for_each(|bytes| self.moved(bytes));
            Ok(found)
        }

        fn has(&self, name: &ObjectName) -> strongroom_remote::Result<bool> {
            self.counts.presence.fetch_add(1, Ordering::Relaxed);
            self.one().has(name)
        }

        fn list(&self, kind: &str) -> strongroom_remote::Result<Vec<Listed>> {
            self.one().list(kind)
        }

        fn remove(&self, name: &ObjectName) -> strongroom_remote::Result<()> {
            self.one().remove(name)
        }
    }

    /// Two devices whose looks the test makes itself.
    struct Scene {
        directory: tempfile::TempDir,
        devices: [Running; 2],
        secret: Secret,
        events: Arc<Mutex<Vec<String>>>,
        ending: Ending,
    }

    impl Scene {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = |name: &str| directory.path().join(name);
            fs::create_dir(path("remote")).unwrap();
            let address = address_of(directory.path());
            let key_file = KeyFile::random(&SystemRandom).unwrap();
            let options = CreateOptions::new().key_file(key_file.clone());
            Vault::create(path("one"), options)
                .unwrap()
                .vault
                .close()
                .unwrap();
            let secret = Secret::KeyFile(key_file);
            let open = |name: &str| {
                let mut options = OpenOptions::default();
                options.engine.background = Background::Manual;
                Vault::open(path(name), secret.clone(), options).unwrap()
            };
            let one = open("one");
            one.add_remote("stick", &address).unwrap();
            one.push("stick", &mut |_| GoOn::Yes).unwrap();
            let options = CloneOptions::default();
            crate::clone(&address, path("two"), &secret, options, &mut |_| GoOn::Yes).unwrap();
            let two = open("two");
            two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
            one.sync_with("stick", &mut |_| GoOn::Yes).unwrap();
            let events = Arc::new(Mutex::new(Vec::new()));
            let running = |vault: Vault| {
                let events = Arc::clone(&events);
                Running {
                    vault,
                    every: Duration::from_secs(30),
                    told: Box::new(move |event| events.lock().push(said(&event))),
                    places: Vec::new(),
                    list_at: Instant::now(),
                }
            };
            let devices = [running(one), running(two)];
            Self {
                devices,
                directory,
                secret,
                events,
                ending: Ending::default(),
            }
        }

        fn remote(&self) -> PathBuf {
            self.directory.path().join("remote")
        }

        fn address(&self) -> String {
            address_of(self.directory.path())
        }

        /// A look of a device for which everything is due.
        fn look(&mut self, device: usize) {
            let running = &mut self.devices[device];
            let now = Instant::now();
            running.list_at = now;
            for place in &mut running.places {
                (place.check_at, place.poll_at) = (now, now);
            }
            running.look(&self.ending).unwrap();
        }

        /// What a device asks from here on, which reaches its remote as it does a store.
        fn count(&mut self, device: usize) -> Arc<Counts> {
            let counts = Arc::new(Counts::default());
            let below = Address::parse(&self.address()).unwrap().open().unwrap();
            let place = &mut self.devices[device].places[0];
            // Stores are reached once; a folder is not held open.
            assert!(place.is_folder && place.remote.is_none());
            place.is_folder = false;
            place.remote = Some(Arc::new(Counting {
                below,
                counts: Arc::clone(&counts),
            }));
            counts
        }

        fn events(&self) -> Vec<String> {
            std::mem::take(&mut *self.events.lock())
        }
    }

    fn address_of(directory: &Path) -> String {
        format!("folder:{}", directory.join("remote").display())
    }

    fn said(event: &SyncEvent) -> String {
        match event {
            SyncEvent::Moving { .. } => "moving".to_owned(),
            SyncEvent::Synced { remote, report } => format!(
                "{remote} {} down {} up",
                report.pulled.publications, report.pushed.publications
            ),
            SyncEvent::Failed { remote, error, .. } => format!("{remote} failed: {error}"),
            SyncEvent::Recovered { remote } => format!("{remote} recovered"),
            SyncEvent::Ended { error } => format!("ended: {error}"),
        }
    }

    fn commits(vault: &Vault) -> u64 {
        let filesystem = vault.filesystem().unwrap();
        let reader = filesystem.engine().reader().unwrap();
        reader.commits().unwrap()
    }

    /// Bytes of content that a device sealed.
    fn sealed(vault: &Vault) -> u64 {
        let counters = vault.counters().unwrap();
        let found = counters
            .iter()
            .find(|(name, _)| name == "filesystem.bytes_sealed");
        found.unwrap().1
    }

    #[test]
    fn what_changes_on_one_device_comes_to_the_other() {
        let mut scene = Scene::new();
        scene.look(0);
        scene.look(1);
        scene.events();
        scene.devices[0].vault.write("/letter", "dear").unwrap();
        scene.look(0);
        scene.look(1);
        assert_eq!(scene.events(), ["stick 0 down 1 up", "origin 1 down 0 up"]);
        let two = scene.devices[1].vault.clone();
        assert_eq!(two.read("/letter").unwrap(), b"dear");
        // Both change something: who is second joins, and what was joined goes up.
        scene.devices[0].vault.write("/letter", "from one").unwrap();
        two.write("/other", "from two").unwrap();
        for device in [0, 1, 1, 0] {
            scene.look(device);
        }
        let one = &scene.devices[0].vault;
        for vault in [one, &two] {
            assert_eq!(vault.read("/letter").unwrap(), b"from one");
            assert_eq!(vault.read("/other").unwrap(), b"from two");
        }
    }

    /// Goal: a vault that nobody changes costs one request for each look at a store, and no commit.                     (1)
    #[test]
    fn nothing_is_written_and_one_request_is_made_while_nothing_changes() {
        let mut scene = Scene::new();
        scene.look(0);
        let counts = scene.count(0);
        scene.look(0);
        let before = commits(&scene.devices[0].vault);
        counts.take();
        counts.presence.store(0, Ordering::Relaxed);
        for _ in 0..20 {
            scene.look(0);
        }
        assert_eq!(counts.take(), (20, 0));
        // After a few looks it is only asked whether there is anything: a store says that in fewer bytes.
        let presence = counts.presence.load(Ordering::Relaxed);
        assert!(presence >= 20 - u64::from(LOOKS_FRUITLESS), "{presence}");
        assert_eq!(commits(&scene.devices[0].vault), before);
        assert_eq!(scene.events(), [] as [&str; 0]);
        // A look between two polls reaches nothing.
        scene.devices[0].places[0].poll_at = Instant::now() + Duration::from_secs(600);
        scene.devices[0].look(&scene.ending).unwrap();
        assert_eq!(counts.take(), (0, 0));
        // What is behind the last publication; the segment, the record; is the last publication still there; the next one.
        for count in [1, 10] {
            for number in 0..count {
                let name = format!("/letter{number}");
                let content = format!("dear {count}");
                scene.devices[0].vault.write(&name, &content).unwrap();
            }
            scene.look(0);
            assert_eq!(counts.take().0, 5, "{count} files");
        }
        let pushed = ["stick 0 down 1 up"; 2];
        assert_eq!(scene.events(), pushed);
    }

    /// What is stored of the first remote.
    fn stored(vault: &Vault) -> (strongroom_metadata::Remote, RemoteState) {
        let filesystem = vault.filesystem().unwrap();
        let reader = filesystem.engine().reader().unwrap();
        let row = reader.remotes().unwrap().remove(0);
        let state = RemoteState::decode(&row.state).unwrap();
        (row, state)
    }

    /// Lets the answer that is stored of the first remote be a day old; gives when it came then.
    fn put_contact_back(vault: &Vault) -> u64 {
        let (row, mut state) = stored(vault);
        state.contact_s -= 24 * 60 * 60;
        let put_back = strongroom_metadata::Remote {
            state: state.encode(),
            ..row
        };
        let filesystem = vault.filesystem().unwrap();
        let change = filesystem.change_remotes(|writer| writer.put_remote(&put_back));
        change.unwrap();
        state.contact_s
    }

    /// Goal: a look that finds nothing stores nothing, however old the last answer is that is stored; the owner knows of the answer, and the end
    /// of the sync stores it. Method: the stored time is put back.                                                     (1)
    #[test]
    fn an_answer_to_an_idle_look_is_known_at_once_and_stored_at_the_end() {
        let mut scene = Scene::new();
        scene.look(0);
        let vault = scene.devices[0].vault.clone();
        let before_s = put_contact_back(&vault);
        scene.look(0);
        let before = commits(&vault);
        for _ in 0..10 {
            scene.look(0);
        }
        assert_eq!(commits(&vault), before);
        assert_eq!(stored(&vault).1.contact_s, before_s);
        let known = vault.remote_status("stick").unwrap().contact_s;
        assert!(known > Some(before_s), "{known:?}");
        scene.ending = Ending::finishing();
        scene.look(0);
        assert!(stored(&vault).1.contact_s > before_s);
    }

    /// Goal: only an answer is noted as one. Method: the remote goes before the last look, which has something to push.
    #[test]
    fn a_remote_that_is_away_at_the_end_is_not_noted_to_have_answered() {
        let mut scene = Scene::new();
        scene.look(0);
        scene.events();
        let vault = scene.devices[0].vault.clone();
        let before_s = put_contact_back(&vault);
        vault.write("/letter", "dear").unwrap();
        let away = scene.directory.path().join("away");
        fs::rename(scene.remote(), &away).unwrap();
        scene.ending = Ending::finishing();
        scene.look(0);
        let events = scene.events();
        assert!(
            matches!(&events[..], [one] if one.starts_with("stick failed: ")),
            "{events:?}"
        );
        assert_eq!(stored(&vault).1.contact_s, before_s);
    }

    /// Goal: with a limit for this device, a vault at rest costs no more than without one: while it is within the limit, and while nothing
    /// that is above it may go. What is above the limit goes at the next look.
    #[test]
    fn a_limit_costs_nothing_at_rest_and_is_kept_by_the_next_look() {
        let mut scene = Scene::new();
        let vault = scene.devices[0].vault.clone();
        for name in ["/pinned", "/other"] {
            let mut content = vec![0; 1_500_000];
            SystemRandom.fill(&mut content).unwrap();
            vault.write(name, &content).unwrap();
            vault.filesystem().unwrap().end_segments().unwrap();
        }
        vault.pin("/pinned", &mut |_| GoOn::Yes).unwrap();
        scene.look(0);
        let counts = scene.count(0);
        let away = || vault.information().unwrap().away_bytes;
        for (limit, goes) in [(1 << 30, false), (2_000_000, true), (1, false)] {
            vault.set_keep_at_most(Some(limit)).unwrap();
            scene.events();
            let before = away();
            scene.look(0);
            assert_eq!(away() > before, goes, "{limit}");
            let said = scene.events();
            assert_eq!(
                said.iter().any(|said| said == "stick 0 down 0 up"),
                goes,
                "{said:?}"
            );
            for _ in 0..3 {
                scene.look(0);
            }
            counts.take();
            let before = commits(&vault);
            for _ in 0..20 {
                scene.look(0);
            }
            assert_eq!(counts.take(), (20, 0), "{limit}");
            assert_eq!(commits(&vault), before, "{limit}");
        }
        assert!(away() > 1_000_000);
        vault.read("/other").unwrap();
        assert_eq!(away(), 0);
        scene.look(0);
        assert_eq!(away(), 0, "it was read a moment ago");
    }

    /// Goal: while more is pinned than the limit, a change does not cost a look through everything that is pinned. Method: statements of the
    /// database, of looks after a small change each, with a limit that is exceeded and without one. Failed before: each look read every file.
    #[test]
    fn a_change_does_not_cost_a_look_through_all_that_is_pinned() {
        const FILES: u64 = 500;
        let mut scene = Scene::new();
        let vault = scene.devices[0].vault.clone();
        vault.make_directory("/pinned", 0o755).unwrap();
        for number in 0..FILES {
            let mut content = vec![0; 10_000];
            SystemRandom.fill(&mut content).unwrap();
            let name = format!("/pinned/{number}");
            vault.write(&name, &content).unwrap();
        }
        vault.pin("/pinned", &mut |_| GoOn::Yes).unwrap();
        scene.look(0);
        let statements = || {
            let filesystem = vault.filesystem().unwrap();
            filesystem.counters().metadata.statements
        };
        let cost = |scene: &mut Scene| {
            let before = statements();
            for number in 0..5 {
                vault.write("/note", format!("{number}")).unwrap();
                scene.look(0);
            }
            statements() - before
        };
        cost(&mut scene);
        let without = cost(&mut scene);
        vault.set_keep_at_most(Some(2_000_000)).unwrap();
        scene.look(0);
        let with = cost(&mut scene);
        assert!(with < without + 2 * FILES, "{with} {without}");
        // What may go now goes at once.
        assert!(vault.information().unwrap().away_bytes < 100_000);
        vault.unpin("/pinned").unwrap();
        scene.look(0);
        assert!(vault.information().unwrap().away_bytes > 1_000_000);
    }

    /// Goal: what was to go for the limit when a remote failed goes once it is back, although more is pinned than the limit and little came since.
    /// Method: the remote is away during the first look. Failed before: no look was due until a tenth of the limit came.
    #[test]
    fn what_was_to_go_when_a_remote_failed_goes_once_it_is_back() {
        let mut scene = Scene::new();
        let vault = scene.devices[0].vault.clone();
        let write = |name: String, len: usize| {
            let mut content = vec![0; len];
            SystemRandom.fill(&mut content).unwrap();
            vault.write(&name, &content).unwrap();
        };
        vault.make_directory("/pinned", 0o755).unwrap();
        for number in 0..100 {
            write(format!("/pinned/{number}"), 10_000);
        }
        vault.pin("/pinned", &mut |_| GoOn::Yes).unwrap();
        scene.look(0);
        write("/other".to_owned(), 50_000);
        scene.look(0);
        let away = scene.directory.path().join("away");
        fs::rename(scene.remote(), &away).unwrap();
        vault.set_keep_at_most(Some(950_000)).unwrap();
        scene.look(0);
        assert_eq!(vault.information().unwrap().away_bytes, 0);
        fs::rename(&away, scene.remote()).unwrap();
        scene.look(0);
        assert!(vault.information().unwrap().away_bytes > 40_000);
    }

    /// Goal: what changed, and is as it was published, waits for nothing. Method: a file is open while another device removes it; its
    /// content goes when it is closed. Failed before: each look then pushed nothing, with two requests and a commit.
    #[test]
    fn what_is_as_it_was_published_costs_nothing() {
        let mut scene = Scene::new();
        let [one, two] = [0, 1].map(|device| scene.devices[device].vault.clone());
        one.write("/letter", "dear").unwrap();
        for device in [0, 1, 0] {
            scene.look(device);
        }
        let options = FileOptions::new().read();
        let file = one.open_file("/letter", options).unwrap();
        two.remove_file("/letter").unwrap();
        for device in [1, 0] {
            scene.look(device);
        }
        drop(file);
        one.filesystem().unwrap().tick().unwrap();
        assert!(one.is_waiting(scene.devices[0].places[0].number).unwrap());
        scene.look(0);
        assert!(!one.is_waiting(scene.devices[0].places[0].number).unwrap());
        let counts = scene.count(0);
        scene.look(0);
        let before = commits(&one);
        counts.take();
        for _ in 0..5 {
            scene.look(0);
        }
        assert_eq!(counts.take(), (5, 0));
        assert_eq!(commits(&one), before);
    }

    #[test]
    fn a_first_push_asks_for_no_publication_where_there_is_none() {
        let scene = Scene::new();
        let vault = &scene.devices[0].vault;
        let other = scene.directory.path().join("other");
        fs::create_dir(&other).unwrap();
        let address = format!("folder:{}", other.display());
        vault.add_remote("other", &address).unwrap();
        let rows = vault.remote_rows().unwrap();
        let row = rows.iter().find(|row| row.name == "other").unwrap();
        let counts = Arc::new(Counts::default());
        let remote = Counting {
            below: Address::parse(&address).unwrap().open().unwrap(),
            counts: Arc::clone(&counts),
        };
        let report = vault.push_to(row, &remote, &mut |_| GoOn::Yes).unwrap();
        // Publications and segments are listed; it is asked whether somebody else was faster; the header and the publication are created.
        assert_eq!(counts.take().0, 5 + report.objects);
    }

    /// Goal: a sync asks once what is there, not once for the pull and once more for the push.
    #[test]
    fn a_sync_asks_once_what_is_there() {
        let mut scene = Scene::new();
        scene.look(0);
        let counts = scene.count(0);
        let Running { vault, places, .. } = &scene.devices[0];
        let remote = places[0].remote.as_deref().unwrap();
        let sync = || {
            vault
                .sync_at(places[0].number, remote, &mut |_| GoOn::Yes)
                .unwrap()
        };
        sync();
        counts.take();
        // Is there a next publication; is the last one still there; is there a later one.
        assert_eq!(sync(), SyncReport::default());
        assert_eq!(counts.take().0, 3);
        vault.write("/letter", "dear").unwrap();
        // Then the segment, the record and the publication.
        assert_eq!(sync().pushed.publications, 1);
        assert_eq!(counts.take().0, 6);
    }

    /// A remote that does not list publications.
    #[derive(Debug)]
    struct Unlisted(Arc<dyn Remote>);

    impl Remote for Unlisted {
        fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> strongroom_remote::Result<Created> {
            self.0.create(name, bytes)
        }

        fn read(&self, name: &ObjectName, max: u64) -> strongroom_remote::Result<Option<Vec<u8>>> {
            self.0.read(name, max)
        }

        fn read_range(
            &self,
            name: &ObjectName,
            range: Range<u64>,
        ) -> strongroom_remote::Result<Option<Vec<u8>>> {
            self.0.read_range(name, range)
        }

        fn list(&self, kind: &str) -> strongroom_remote::Result<Vec<Listed>> {
            match kind {
                "publications" => Ok(Vec::new()),
                kind => self.0.list(kind),
            }
        }

        fn remove(&self, name: &ObjectName) -> strongroom_remote::Result<()> {
            self.0.remove(name)
        }
    }

    /// Goal: a push that relied on a listing asks by name once it was told that another one was first. Method: two devices publish at a
    /// remote that lists no publication.
    #[test]
    fn a_listing_that_lacks_what_came_keeps_no_device_from_joining_it() {
        let scene = Scene::new();
        let [one, two] = scene.devices.each_ref().map(|device| &device.vault);
        two.write("/theirs", "of two").unwrap();
        two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
        one.write("/mine", "of one").unwrap();
        let remote = Unlisted(Address::parse(&scene.address()).unwrap().open().unwrap());
        let rows = one.remote_rows().unwrap();
        let row = rows.iter().find(|row| row.name == "stick").unwrap();
        let error = one.push_to(row, &remote, &mut |_| GoOn::Yes).unwrap_err();
        assert!(matches!(error, Error::RemoteAhead), "{error:?}");
        let synced = one.sync_at(row.number, &remote, &mut |_| GoOn::Yes);
        assert_eq!(synced.unwrap().pushed.publications, 1);
        two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
        for vault in [one, two] {
            assert_eq!(vault.read("/theirs").unwrap(), b"of two");
            assert_eq!(vault.read("/mine").unwrap(), b"of one");
        }
    }

    /// Goal: the same where nothing was known yet. Method: two devices add one remote, and the second to publish there sees no list.
    /// Failed before: it looked at the list only, each time, and ended with an error about keys.
    #[test]
    fn a_first_push_that_saw_no_list_asks_by_name_once_another_was_first() {
        let scene = Scene::new();
        let [one, two] = scene.devices.each_ref().map(|device| &device.vault);
        let other = scene.directory.path().join("other");
        fs::create_dir(&other).unwrap();
        let address = format!("folder:{}", other.display());
        for vault in [one, two] {
            vault.add_remote("other", &address).unwrap();
        }
        two.write("/theirs", "of two").unwrap();
        two.push("other", &mut |_| GoOn::Yes).unwrap();
        one.write("/mine", "of one").unwrap();
        let remote = Unlisted(Address::parse(&address).unwrap().open().unwrap());
        let row = row_of(one, "other");
        assert_eq!(row.last, 0);
        let error = one.push_to(&row, &remote, &mut |_| GoOn::Yes).unwrap_err();
        assert!(matches!(error, Error::RemoteAhead), "{error:?}");
        let synced = one.sync_at(row.number, &remote, &mut |_| GoOn::Yes);
        assert_eq!(synced.unwrap().pushed.publications, 1);
        two.sync_with("other", &mut |_| GoOn::Yes).unwrap();
        for vault in [one, two] {
            assert_eq!(vault.read("/theirs").unwrap(), b"of two");
            assert_eq!(vault.read("/mine").unwrap(), b"of one");
        }
    }

    fn row_of(vault: &Vault, name: &str) -> RemoteFields {
        let mut rows = vault.remote_rows().unwrap().into_iter();
        rows.find(|row| row.name == name).unwrap()
    }

    /// A remote at which something happens once somebody has looked whether there are publications that were not seen.
    struct Meanwhile<'a> {
        below: Arc<dyn Remote>,
        /// So many looks come before,
        before: u64,
        /// of these.
        looks: AtomicU64,
        then: Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>,
    }

    impl<'a> Meanwhile<'a> {
        /// What happens behind the first look of a push.
        fn in_push(below: Arc<dyn Remote>, then: impl FnOnce() + Send + 'a) -> Self {
            Self {
                below,
                before: 0,
                looks: AtomicU64::new(0),
                then: Mutex::new(Some(Box::new(then))),
            }
        }

        /// What happens between the pull of a sync that finds nothing, which asks for the next publication and for a list, and its push.
        fn behind_pull(below: Arc<dyn Remote>, then: impl FnOnce() + Send + 'a) -> Self {
            Self {
                before: 1,
                ..Self::in_push(below, then)
            }
        }

        fn looked(&self) {
            if self.looks.fetch_add(1, Ordering::Relaxed) < self.before {
                return;
            }
            let then = self.then.lock().take();
            if let Some(then) = then {
                then();
            }
        }
    }

    impl std::fmt::Debug for Meanwhile<'_> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Meanwhile")
        }
    }

    impl Remote for Meanwhile<'_> {
        fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> strongroom_remote::Result<Created> {
            self.below.create(name, bytes)
        }

        fn read(&self, name: &ObjectName, max: u64) -> strongroom_remote::Result<Option<Vec<u8>>> {
            let found = self.below.read(name, max)?;
            if found.is_none() && name.as_str().starts_with("publications/") {
                self.looked();
            }
            Ok(found)
        }

        fn read_range(
            &self,
            name: &ObjectName,
            range: Range<u64>,
        ) -> strongroom_remote::Result<Option<Vec<u8>>> {
            self.below.read_range(name, range)
        }

        fn list(&self, kind: &str) -> strongroom_remote::Result<Vec<Listed>> {
            let listed = self.below.list(kind)?;
            if kind == "publications" {
                self.looked();
            }
            Ok(listed)
        }

        fn remove(&self, name: &ObjectName) -> strongroom_remote::Result<()> {
            self.below.remove(name)
        }
    }

    /// Goal: a push that another device was faster than leaves no header at the remote. Method: two devices change keys; one publishes
    /// after the other has looked for publications, and before it says anything.
    /// Failed before: the header of the late push came before it asked again, and stayed.
    #[test]
    fn a_push_that_comes_too_late_leaves_no_header() {
        let scene = Scene::new();
        for name in ["one", "two"] {
            let folder = scene.directory.path().join(name);
            let mut keys = crate::Keys::open(folder, &scene.secret).unwrap();
            keys.rotate().unwrap();
        }
        let [one, two] = scene.devices.each_ref().map(|device| &device.vault);
        let publish = || {
            for _ in 0..16 {
                match two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes) {
                    Err(Error::KeysInUse) => while two.rotate_step().unwrap() {},
                    done => {
                        done.unwrap();
                        return;
                    }
                }
            }
            panic!("keys are in use for ever");
        };
        let headers = || {
            fs::read_dir(scene.remote().join("headers"))
                .unwrap()
                .count()
        };
        let before = headers();
        let below = Address::parse(&scene.address()).unwrap().open().unwrap();
        let remote = Meanwhile::in_push(below, publish);
        let rows = one.remote_rows().unwrap();
        let row = rows.iter().find(|row| row.name == "stick").unwrap();
        one.push_to(row, &remote, &mut |_| GoOn::Yes).unwrap_err();
        assert!(remote.then.lock().is_none());
        assert_eq!(headers(), before + 1);
    }

    /// Goal: a push behind a pull does not go by what the pull found once another session of this device has published. Method: it does so
    /// behind the last question of the pull; then the push takes the requests of a push that lists, and is not made again.
    #[test]
    fn a_sync_between_whose_pull_and_push_another_session_publishes_begins_no_push_again() {
        let scene = Scene::new();
        let one = &scene.devices[0].vault;
        one.sync_with("stick", &mut |_| GoOn::Yes).unwrap();
        let publish = || {
            one.write("/first", "by the other session").unwrap();
            one.push("stick", &mut |_| GoOn::Yes).unwrap();
            one.write("/second", "by this one").unwrap();
        };
        let counts = Arc::new(Counts::default());
        let counting = Counting {
            below: Address::parse(&scene.address()).unwrap().open().unwrap(),
            counts: Arc::clone(&counts),
        };
        let remote = Meanwhile::behind_pull(Arc::new(counting), publish);
        let row = row_of(one, "stick");
        let synced = one.sync_at(row.number, &remote, &mut |_| GoOn::Yes);
        assert_eq!(synced.unwrap().pushed.publications, 1);
        assert!(remote.then.lock().is_none());
        assert_eq!(row_of(one, "stick").last, row.last + 2);
        // Three of the pull; what is behind the last publication, the segment, the record, is the last one still there, the next one.
        assert_eq!(counts.take().0, 3 + 5);
    }

    /// Goal: what another device publishes between the pull and the push of a sync is joined; and of much content nothing goes up before
    /// that is known, as keys may have been replaced. Method: it publishes behind the last question of the pull, of a push of a few bytes and
    /// of one of many. What an earlier try sent would not count in the last one.
    #[test]
    fn what_another_device_publishes_between_pull_and_push_of_a_sync_is_joined() {
        for (name, len) in [("/small", 100), ("/large", 1_500_000)] {
            let scene = Scene::new();
            let [one, two] = scene.devices.each_ref().map(|device| &device.vault);
            two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
            one.sync_with("stick", &mut |_| GoOn::Yes).unwrap();
            let mut content = vec![0; len];
            SystemRandom.fill(&mut content).unwrap();
            one.write(name, &content).unwrap();
            let publish = || {
                two.write("/theirs", "of two").unwrap();
                two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
            };
            let below = Address::parse(&scene.address()).unwrap().open().unwrap();
            let remote = Meanwhile::behind_pull(below, publish);
            let number = row_of(one, "stick").number;
            let synced = one.sync_at(number, &remote, &mut |_| GoOn::Yes).unwrap();
            assert!(remote.then.lock().is_none());
            assert_eq!(synced.pulled.publications, 1, "{name}: {synced:?}");
            assert_eq!(synced.pushed.publications, 1, "{name}: {synced:?}");
            if name == "/large" {
                assert!(synced.pushed.bytes > 1_500_000, "{synced:?}");
            }
            two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
            for vault in [one, two] {
                assert_eq!(vault.read("/theirs").unwrap(), b"of two");
                assert_eq!(vault.read(name).unwrap(), content);
            }
        }
    }

    /// Goal: what a pull found counts for a push right behind it, and no longer. Method: pushes behind pulls of now and of more
    /// than a minute ago, by the one clock or the other.
    #[test]
    fn what_a_pull_found_long_ago_is_asked_again() {
        let scene = Scene::new();
        let vault = &scene.devices[0].vault;
        vault.sync_with("stick", &mut |_| GoOn::Yes).unwrap();
        let counts = Arc::new(Counts::default());
        let remote = Counting {
            below: Address::parse(&scene.address()).unwrap().open().unwrap(),
            counts: Arc::clone(&counts),
        };
        let push = |look: &dyn Fn(u64) -> Look| {
            let row = row_of(vault, "stick");
            let how = (look(row.last), Pruning::IfDue);
            counts.take();
            let pushed = vault.push_knowing(&row, &remote, how, &mut |_| GoOn::Yes);
            (pushed.unwrap().0.publications, counts.take().0)
        };
        let passed = Duration::from_secs(61);
        let just_now = |last| Look::Known {
            last,
            at: Moment::now(),
        };
        let long_ago = |last| {
            let now = Moment::now();
            let system = now.system - passed;
            let at = Moment { system, ..now };
            Look::Known { last, at }
        };
        let before_clock_went_back = |last| {
            let now = Moment::now();
            let system = now.system + passed;
            let at = Moment { system, ..now };
            Look::Known { last, at }
        };
        assert_eq!(push(&just_now), (0, 0));
        // What is behind the last publication, and is it still there.
        assert_eq!(push(&long_ago), (0, 2));
        assert_eq!(push(&before_clock_went_back), (0, 2));
        // The segment, the record, the next publication.
        vault.write("/one", "the first").unwrap();
        assert_eq!(push(&just_now), (1, 3));
        vault.write("/two", "the second").unwrap();
        assert_eq!(push(&long_ago), (1, 3 + 2));
        vault.write("/three", "the third").unwrap();
        assert_eq!(push(&before_clock_went_back), (1, 3 + 2));
    }

    /// Goal: ten million bytes cost the same in files of every size: those bytes once, sealed once, and a request for each object.
    #[test]
    fn files_of_every_size_go_up_and_down_in_few_requests_and_are_sealed_once() {
        let mut scene = Scene::new();
        scene.look(0);
        scene.look(1);
        let counts = [scene.count(0), scene.count(1)];
        let vaults = scene.devices.each_ref().map(|device| device.vault.clone());
        // What comes with the content: a tag for each 4 KiB, and what each file and block is.
        for (count, size, beside) in [(20, 500_000, 50), (100, 100_000, 50), (1000, 10_000, 33)] {
            let total = count * size;
            let all = total..total + total / beside;
            let before = vaults.each_ref().map(sealed);
            for number in 0..count {
                let name = format!("/{size}-{number}");
                let mut content = vec![0; usize::try_from(size).unwrap()];
                SystemRandom.fill(&mut content).unwrap();
                vaults[0].write(&name, &content).unwrap();
            }
            // What is behind the last publication; the segment, the record; is the last publication still there; the next.
            scene.look(0);
            let up = counts[0].take();
            // The publication, that there is none behind it, the segment, the record.
            scene.look(1);
            let down = counts[1].take();
            let what = format!("{count} files: up {up:?}, down {down:?}");
            assert_eq!((up.0, down.0), (5, 4), "{what}");
            for (_, bytes) in [up, down] {
                assert!(all.contains(&bytes), "{what}");
            }
            let after = vaults.each_ref().map(sealed);
            assert!(all.contains(&(after[0] - before[0])), "{what}");
            assert_eq!(after[1], before[1], "{what}");
        }
    }

    /// Goal: a push of another device that was interrupted makes nobody read again, at each look, what was published since.
    #[test]
    fn a_look_beside_an_interrupted_push_reads_nothing_again() {
        let mut scene = Scene::new();
        scene.look(0);
        let publications = || {
            fs::read_dir(scene.remote().join("publications"))
                .unwrap()
                .count()
        };
        let two = scene.devices[1].vault.clone();
        two.write("/letter", "dear").unwrap();
        two.push_in_pages_of(1);
        let before = publications();
        let stopped = two.push(CLONED_FROM, &mut |_| match publications() == before {
            true => GoOn::Yes,
            false => GoOn::No,
        });
        assert!(matches!(stopped, Err(Error::RemoteStopped)), "{stopped:?}");
        let counts = scene.count(0);
        // What is published behind it would be read again with it.
        for number in 0..3 {
            let name = format!("/mine{number}");
            scene.devices[0].vault.write(name.as_str(), "text").unwrap();
            scene.look(0);
        }
        scene.look(0);
        counts.take();
        for _ in 0..20 {
            scene.look(0);
        }
        let (looks, _) = counts.take();
        assert!(looks <= 40, "{looks}");
        // It is seen all the same when it goes on.
        two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
        scene.look(0);
        let one = &scene.devices[0].vault;
        assert_eq!(one.read("/letter").unwrap(), b"dear");
    }

    /// Goal: a look that has something to push fills no gap in the log of a remote. Method: another device publishes twice, the first of it is
    /// lost, and this device has seen neither. Failed before: it published in the gap, and what was behind it was another history.
    #[test]
    fn a_look_with_something_to_push_fills_no_gap_in_the_log() {
        let mut scene = Scene::new();
        scene.look(0);
        let folder = scene.remote().join("publications");
        let all = || -> BTreeSet<PathBuf> {
            let entries = fs::read_dir(&folder).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect()
        };
        let two = scene.devices[1].vault.clone();
        let publish = |name: &str| {
            two.write(name, "of two").unwrap();
            two.sync_with(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
        };
        publish("/first");
        let lost = all().pop_last().unwrap();
        publish("/second");
        fs::remove_file(&lost).unwrap();
        let before = all();
        scene.events();
        scene.devices[0].vault.write("/mine", "of one").unwrap();
        scene.look(0);
        assert_eq!(all(), before);
        let name = lost.file_name().unwrap().to_str().unwrap();
        let said = format!("stick failed: the remote has lost publications/{name}");
        assert_eq!(scene.events(), [said]);
    }

    #[test]
    fn a_remote_that_is_away_is_reported_once_and_works_again_when_it_is_back() {
        let mut scene = Scene::new();
        scene.look(0);
        scene.events();
        let away = scene.directory.path().join("away");
        fs::rename(scene.remote(), &away).unwrap();
        scene.devices[0].vault.write("/letter", "dear").unwrap();
        for _ in 0..3 {
            scene.look(0);
        }
        let events = scene.events();
        assert!(
            matches!(&events[..], [one] if one.starts_with("stick failed: ")),
            "{events:?}"
        );
        fs::rename(&away, scene.remote()).unwrap();
        scene.look(0);
        assert_eq!(scene.events(), ["stick recovered", "stick 0 down 1 up"]);
    }

    /// Panics at the first change that it hears of once it is armed: so the client that made the change gets no answer.
    struct Fatal(AtomicBool);

    impl Observer for Fatal {
        fn changed(&self, _: &Change) {
            assert!(
                !self.0.swap(false, Ordering::AcqRel),
                "the client shall have no answer"
            );
        }
    }

    /// Goal: an owner that goes over a request ends no sync that can go on through the next one. Method: the request that begins a push has no
    /// answer, and may have been carried out; the next request finds an owner again.
    /// Failed before: the sync ended for good, with the error of that one request.
    #[test]
    fn an_owner_that_goes_over_a_request_does_not_end_the_sync() {
        let mut scene = Scene::new();
        let owner = scene.devices[0].vault.clone();
        let secret = scene.secret.clone();
        let source: SecretSource = Arc::new(move || Ok(secret.clone()));
        let client = Vault::open_or_connect(owner.folder(), source, OpenOptions::default());
        scene.devices[0].vault = client.unwrap();
        scene.look(0);
        scene.events();
        let fatal = Arc::new(Fatal(AtomicBool::new(false)));
        let _told = owner.subscribe(Arc::clone(&fatal) as Arc<dyn Observer>);
        owner.write("/letter", "dear").unwrap();
        fatal.0.store(true, Ordering::Release);
        scene.look(0);
        assert!(!fatal.0.load(Ordering::Acquire));
        let events = scene.events();
        assert!(
            matches!(&events[..], [one] if one.starts_with("stick failed: ")),
            "{events:?}"
        );
        scene.look(0);
        assert_eq!(scene.events(), ["stick recovered", "stick 0 down 1 up"]);
    }

    #[test]
    fn a_file_that_is_being_written_waits_until_it_is_quiet_but_not_for_ever() {
        let begun = Instant::now();
        let row = RemoteFields {
            number: 1,
            name: "stick".to_owned(),
            id: [0; 16],
            address: String::new(),
            last: 0,
            last_id: [0; 32],
            joined: 0,
            head: [0; 32],
            header: [0; 32],
            published: 0,
            base: 0,
            fence: (0, 0),
            keeps: false,
            needs: ([0; 16], 0),
            needs_since_s: 0,
            is_copied: false,
            has_erased: false,
            erased: 0,
        };
        let mut place = Place::new(&row, begun);
        let after = |ms: u64| begun + Duration::from_millis(ms);
        assert!(!place.is_settled(1, after(0)));
        assert!(!place.is_settled(2, after(150)));
        assert!(!place.is_settled(2, after(300)));
        assert!(place.is_settled(2, after(350)), "quiet for 0.2 seconds");
        place.changed = None;
        assert!(!place.is_settled(2, after(10_000)), "nothing changed since");
        for ms in (10_000..12_000).step_by(100) {
            assert!(!place.is_settled(ms, after(ms)), "{ms}");
        }
        assert!(place.is_settled(12_000, after(12_000)), "two seconds");
        (place.changed, place.took) = (None, Duration::from_secs(3));
        for ms in (20_000..26_000).step_by(100) {
            assert!(!place.is_settled(ms, after(ms)), "{ms}: a push takes long");
        }
        assert!(place.is_settled(26_000, after(26_000)));
    }

    /// Goal: the progress function of a call may end a continuous sync whose thread waits for that call, which waits for that thread at its
    /// end: nothing has the vault open behind it. Method: that of a push begins syncs, whose first look takes a turn, and ends them in both
    /// ways; the channel ends with their threads.
    /// Failed before: threads could go on behind the call, with the last clone of the vault, and did a whole round with the remote.
    #[test]
    fn a_sync_that_waits_for_a_call_is_ended_by_its_progress_function() {
        let scene = Scene::new();
        let one = scene.devices[0].vault.clone();
        one.write("/letter", "dear").unwrap();
        let (alive, ended) = std::sync::mpsc::channel::<()>();
        let begin = || {
            let alive = alive.clone();
            let every = Duration::from_secs(1);
            let told = move |_| {
                let _ = alive.send(());
            };
            one.keep_in_sync(every, told).unwrap()
        };
        let mut calls = 0;
        let mut ends_two = |_: &RemoteProgress| {
            drop(begin());
            begin().finish();
            calls += 1;
            GoOn::Yes
        };
        one.push("stick", &mut ends_two).unwrap();
        assert!(calls > 0);
        drop(alive);
        while ended.try_recv().is_ok() {}
        assert_eq!(ended.try_recv(), Err(TryRecvError::Disconnected));
        one.close().unwrap();
    }

    #[test]
    fn threads_do_the_same_and_the_end_takes_what_waits_along() {
        let mut scene = Scene::new();
        let [one, two] = &mut scene.devices;
        let (one, two) = (one.vault.clone(), two.vault.clone());
        let every = Duration::from_secs(1);
        let of_one = one.keep_in_sync(every, |_| {}).unwrap();
        let of_two = two.keep_in_sync(every, |_| {}).unwrap();
        one.write("/letter", "dear").unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while !two.exists("/letter").unwrap() {
            assert!(Instant::now() < patience, "it does not come");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(of_two);
        one.write("/last", "words").unwrap();
        of_one.finish();
        two.pull(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
        assert_eq!(two.read("/last").unwrap(), b"words");
        one.close().unwrap();
        two.close().unwrap();
    }
}

//! Removes from a remote objects that are not live there any more: some pushes do this, and a person can ask for it.
//!
//! Takes   a remote whose log was read to its end
//! Gives   free space there; publications that retire the removed objects, that is, declare them not live
//! Never   removes an object that a publication names as live, or a header. Never fails because a server keeps for some days what it
//!         was asked to remove
//! Spec    spec/11-sync.md, 11.8
//!
//! Invariants
//!  (1) Right before an object is removed, a publication of this device retires it. A device that was about to publish that object
//!      has to take in that publication first, and then publishes the content under another name.  [11.8.2]
//!  (2) An object is removed only when the grace period has passed since this device first retired it: a device that reads the log
//!      now may still fetch it.                                                                    [11.8.3]
//!  (3) A segment is removed only once every device that evicted content has taken in a publication that retires the segment: by
//!      then each has what it needs. A device that was silent for `NEEDS_END` is not waited for.              [11.9.3]

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use strongroom_format::hex;
use strongroom_remote::{Listed, ObjectName, Remote};
use strongroom_sync::limits::{PUBLICATION_OBJECT_BYTES_MAX, REVISION_OBJECT_BYTES_MAX};
use strongroom_sync::{in_parallel, object_hash, publication_name, publication_number};

use crate::clock::now_s;
use crate::remotes::{RemoteProgress, go_on};
use crate::request::Request;
use crate::request::remote::{NamedFields, RemoteFields, RemoteRequest};
use crate::{Error, GoOn, Result, Vault};

/// How long what does not count any more stays at a remote, at the least.
pub const GRACE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The least time for which publications stay, even if everything is to go now: whoever makes one looked at the one before it a minute
/// before at most, and sending it takes no day.
const LEAST: Duration = Duration::from_secs(24 * 60 * 60);

/// Segments, and records, that one publication retires although nobody published them: its lists take 8192 of each.
pub(crate) const UNNAMED_MAX: usize = 4096;

/// What a pruning did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Objects that were removed, and their bytes.
    pub objects: u64,
    /// See `objects`.
    pub bytes: u64,
    /// Objects that do not count any more and stay until the grace is over, and their bytes.
    pub waiting: u64,
    /// See `waiting`.
    pub waiting_bytes: u64,
    /// Objects that do not count any more and that the remote keeps for some days, whoever asks to remove them; and their bytes. A later
    /// pruning removes them.
    pub kept: u64,
    /// See `kept`.
    pub kept_bytes: u64,
}

impl PruneReport {
    /// Counts those that the remote keeps until later, as it says; gives the others.
    fn leave_kept<T>(&mut self, objects: Vec<T>, of: impl Fn(&T) -> &Listed) -> Vec<T> {
        let now_s = now_s();
        let (kept, free): (Vec<T>, Vec<T>) = objects
            .into_iter()
            .partition(|one| of(one).kept_until_s > now_s);
        self.kept += kept.len() as u64;
        // Whatever lengths a remote says.
        for one in &kept {
            self.kept_bytes = self.kept_bytes.saturating_add(of(one).len);
        }
        free
    }
}

/// Whether a push prunes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pruning {
    /// If that was not done for the time of the grace.
    IfDue,
    /// Now, as far as the grace allows.
    Now { grace: Duration },
}

/// What lies at a remote and is not live there.
#[derive(Default)]
pub(crate) struct Unnamed {
    segments: BTreeMap<[u8; 32], Listed>,
    records: BTreeMap<[u8; 32], Listed>,
    /// What the remote keeps until later is in neither, and counted here.
    left: PruneReport,
}

impl Unnamed {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.records.is_empty()
    }

    /// Puts it into what a publication says.
    pub(crate) fn put_into(&self, named: &mut NamedFields) {
        named.unnamed_segments = self.segments.keys().copied().collect();
        named.unnamed_revisions = self.records.keys().copied().collect();
    }

    /// The same where nothing was retired: it only says what the remote keeps.
    pub(crate) fn only_kept(self) -> Self {
        Self {
            left: self.left,
            ..Self::default()
        }
    }

    /// Each with the kind of object that it is.
    fn all(&self) -> impl Iterator<Item = (&'static str, &[u8; 32], &Listed)> {
        let segments = self.segments.iter();
        let records = self.records.iter();
        (segments.map(|(hash, listed)| ("segments", hash, listed)))
            .chain(records.map(|(hash, listed)| ("revisions", hash, listed)))
    }
}

impl Vault {
    /// Removes from the remote of that name what has not counted for `grace`: segments and records that nothing refers to, what
    /// pushes left that did not end, and publications that nobody needs. A push that began takes part: what is missing there goes up
    /// first. `told` hears of the progress and says whether to go on.
    ///
    /// # Errors
    /// `RemoteKept` if nothing may be removed there; else as `push`.
    pub fn prune_remote(
        &self,
        name: &str,
        grace: Duration,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<PruneReport> {
        let _turn = self.shared.remote_turns.take()?;
        let (row, remote) = self.reach(name)?;
        if row.keeps {
            return Err(Error::RemoteKept(row.name));
        }
        let pruning = Pruning::Now { grace };
        if !self.is_due(&row, pruning)? {
            return self.unused(&row, &*remote);
        }
        let mut report = PruneReport::default();
        let mut left = usize::MAX;
        loop {
            let (_, round) = self.push_and_prune(&row, &*remote, pruning, told)?;
            report.objects += round.objects;
            report.bytes = report.bytes.saturating_add(round.bytes);
            (report.waiting, report.waiting_bytes) = (round.waiting, round.waiting_bytes);
            (report.kept, report.kept_bytes) = (round.kept, round.kept_bytes);
            // One publication retires so many; with a grace the rest is for the next time.
            if !grace.is_zero() || round.objects < UNNAMED_MAX as u64 {
                return Ok(report);
            }
            let there = remote.list("segments")?.len() + remote.list("revisions")?.len();
            if there >= left {
                let why = "the remote still lists objects that it reported as removed";
                return Err(Error::RemoteUntrue(why.to_owned()));
            }
            left = there;
        }
    }

    /// What lies at the remote of that name and does not count there: how many objects, and bytes.
    ///
    /// # Errors
    /// As `push`.
    pub fn unused_at_remote(&self, name: &str) -> Result<PruneReport> {
        let (row, remote) = self.reach(name)?;
        self.unused(&row, &*remote)
    }

    fn unused(&self, row: &RemoteFields, remote: &dyn Remote) -> Result<PruneReport> {
        let last = self.catch_up(row, remote)?;
        if self.begins_behind(row, remote, last)? {
            return Err(Error::RemoteAhead);
        }
        let unnamed = self.unnamed(row, remote, &HashSet::new(), Duration::ZERO)?;
        let mut report = unnamed.left;
        for (_, _, listed) in unnamed.all() {
            report.waiting += 1;
            report.waiting_bytes = report.waiting_bytes.saturating_add(listed.len);
        }
        Ok(report)
    }

    /// Whether it is time. The grace is counted from the first push on. A time in the future is that of a clock that was wrong.
    pub(crate) fn is_due(&self, row: &RemoteFields, pruning: Pruning) -> Result<bool> {
        let (number, since) = row.fence;
        match pruning {
            Pruning::Now { grace } => Ok(number == 0 || grace.is_zero() || is_over(since, grace)),
            Pruning::IfDue if row.keeps => Ok(false),
            Pruning::IfDue if since == 0 => {
                self.note_fence(row, 0)?;
                Ok(false)
            }
            Pruning::IfDue => Ok(is_over(since, GRACE)),
        }
    }

    pub(crate) fn note_fence(&self, row: &RemoteFields, number: u64) -> Result<()> {
        let remote = row.number;
        self.ask_for(&Request::Remote(RemoteRequest::Fence { remote, number }))
    }

    /// Those of the hashes that nothing live has which a publication up to `last` named; of each the first bytes are given.
    pub(crate) fn not_live(
        &self,
        remote: u64,
        hashes: &[[u8; 8]],
        last: u64,
    ) -> Result<HashSet<[u8; 8]>> {
        /// A frame takes some more.
        const PAGE: usize = 1 << 16;
        let mut found = HashSet::new();
        for hashes in hashes.chunks(PAGE) {
            let hashes = hashes.to_vec();
            let request = RemoteRequest::NotLive {
                remote,
                hashes,
                last,
            };
            let page: Vec<[u8; 8]> = self.ask_for(&Request::Remote(request))?;
            found.extend(page);
        }
        Ok(found)
    }

    /// What came before the grace began and is not live, but for what is in `uploaded`.
    pub(crate) fn unnamed(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        uploaded: &HashSet<[u8; 32]>,
        grace: Duration,
    ) -> Result<Unnamed> {
        let mut unnamed = Unnamed::default();
        let listed = self.not_live_of(row, remote, "segments", grace, &|name| {
            hex::decode::<32>(name).map(|hash| front(&hash))
        })?;
        let listed = unnamed.left.leave_kept(listed, |one| one);
        for one in listed.into_iter().take(UNNAMED_MAX) {
            if let Some(hash) = hex::decode(&one.name)
                && !uploaded.contains(&hash)
            {
                unnamed.segments.insert(hash, one);
            }
        }
        let listed = self.not_live_of(row, remote, "revisions", grace, &front_of_record)?;
        let listed = unnamed.left.leave_kept(listed, |one| one);
        // The name has the beginning of the hash only.
        let read = |one: Listed| -> Result<Option<([u8; 32], Listed)>> {
            let name = ObjectName::new(format!("revisions/{}", one.name))?;
            let bytes = match one.len > REVISION_OBJECT_BYTES_MAX {
                true => None,
                false => remote.read(&name, REVISION_OBJECT_BYTES_MAX)?,
            };
            let hash = bytes.map(|bytes| object_hash(&bytes));
            Ok(hash
                .filter(|hash| one.name.ends_with(&hex::encode(&hash[..8])))
                .map(|hash| (hash, one)))
        };
        in_parallel(
            listed.into_iter().take(UNNAMED_MAX),
            remote.transfers(),
            read,
            &mut |found| {
                let found = found.filter(|(hash, _)| !uploaded.contains(hash));
                unnamed.records.extend(found);
                Ok::<_, Error>(())
            },
        )?;
        Ok(unnamed)
    }

    /// Objects of a kind that came before the grace began and are not live. `front_of`: the first bytes of the hash in a name.
    fn not_live_of(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        kind: &str,
        grace: Duration,
        front_of: &dyn Fn(&str) -> Option<[u8; 8]>,
    ) -> Result<Vec<Listed>> {
        let mut listed = remote.list(kind)?;
        listed.retain(|one| {
            (grace.is_zero() || passed(one.created_s, grace)) && front_of(&one.name).is_some()
        });
        let fronts: Vec<[u8; 8]> = listed
            .iter()
            .filter_map(|one| front_of(&one.name))
            .collect();
        let not_live = self.not_live(row.number, &fronts, u64::MAX)?;
        listed.retain(|one| front_of(&one.name).is_some_and(|front| not_live.contains(&front)));
        Ok(listed)
    }

    /// Removes what publication `number` just retired of `unnamed`, as far as the grace allows, and publications that nobody needs. (1)
    pub(crate) fn remove_unnamed(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        unnamed: &Unnamed,
        number: u64,
        pruning: Pruning,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<PruneReport> {
        let grace = match pruning {
            Pruning::IfDue => GRACE,
            Pruning::Now { grace } => grace,
        };
        let retired_before = match grace.is_zero() {
            true => None,
            false => Some(self.retired_in(remote, row.fence.0)?),
        };
        let retired_now = match unnamed.is_empty() {
            true => HashSet::new(),
            false => self.retired_in(remote, number)?,
        };
        // What a removal that fails leaves waits for the next.
        self.note_fence(row, if unnamed.is_empty() { 0 } else { number })?;
        let was_retired = |hash: &[u8; 32]| {
            let before = retired_before.as_ref();
            before.is_none_or(|before| before.contains(hash)) // (2)
        };
        let goes = |hash: &[u8; 32]| retired_now.contains(hash) && was_retired(hash);
        let needed = match unnamed.segments.is_empty() {
            true => None,
            false => self.needed_up_to(row, remote, number)?,
        };
        // (3)
        let let_go_by_all = match needed {
            Some(followed) if followed >= row.fence.0 && row.fence.0 > 0 => {
                self.retired_in(remote, row.fence.0)?
            }
            _ => HashSet::new(),
        };
        let is_free = |kind: &str, hash: &[u8; 32]| {
            let followed = needed.is_none_or(|followed| followed >= number);
            kind != "segments" || followed || let_go_by_all.contains(hash)
        };
        let mut report = unnamed.left;
        let mut going = Vec::new();
        for (kind, hash, listed) in unnamed.all() {
            if goes(hash) && is_free(kind, hash) {
                going.push((
                    ObjectName::new(format!("{kind}/{}", listed.name))?,
                    listed.len,
                ));
            } else {
                report.waiting += 1;
                report.waiting_bytes = report.waiting_bytes.saturating_add(listed.len);
            }
        }
        remove(remote, going, remote.transfers(), &mut report, told)?;
        let old = self.old_publications(row, remote, grace.saturating_mul(2).max(LEAST))?;
        // Whoever keeps one keeps those behind it until it is gone.                                            [11.8.8]
        let old = report.leave_kept(old, |(_, listed)| listed);
        let old = old
            .into_iter()
            .map(|(number, listed)| (publication_name(number), listed.len));
        remove(remote, old.collect(), 1, &mut report, told)?;
        let long_ago = now_s().saturating_sub(LEAST.as_secs());
        for kind in [
            "segments",
            "revisions",
            "headers",
            "publications",
            "needs",
            "pairing",
        ] {
            remote.remove_unfinished(kind, long_ago)?;
        }
        Ok(report)
    }

    /// Publications that name nothing live and came at least `time` ago, the first of them first: so the log never has a gap, and whoever
    /// finds the last one that it has seen finds what follows.                                            [11.8.5]
    fn old_publications(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        time: Duration,
    ) -> Result<Vec<(u64, Listed)>> {
        let base = self.remote_row(row.number)?.base;
        let mut old = BTreeMap::new();
        for listed in remote.list("publications")? {
            if let Some(number) = publication_number(&listed.name)
                && number < base
            {
                old.insert(number, listed);
            }
        }
        let old = old.into_iter();
        let old = old.take_while(|(_, listed)| passed(listed.created_s, time));
        Ok(old.collect())
    }

    /// What publication `number` retired; nothing if it does not open any more.
    fn retired_in(&self, remote: &dyn Remote, number: u64) -> Result<HashSet<[u8; 32]>> {
        let object = match number {
            0 => None,
            _ => remote.read(&publication_name(number), PUBLICATION_OBJECT_BYTES_MAX)?,
        };
        let Some(object) = object else {
            return Ok(HashSet::new());
        };
        match self.open_publication(number, &object) {
            Ok(signed) => {
                let body = signed.body;
                let retired = body.retired_segments.into_iter();
                Ok(retired.chain(body.retired_revisions).collect())
            }
            // Its keys are gone: what it retired is retired once more now.
            Err(Error::RemoteUntrue(_)) => Ok(HashSet::new()),
            Err(error) => Err(error),
        }
    }
}

/// The first bytes of the hash in the name of a record; `None` if it is the name of none.
fn front_of_record(name: &str) -> Option<[u8; 8]> {
    let (record, hash) = name.rsplit_once('-')?;
    let (id, epoch) = record.split_once('.')?;
    hex::decode::<32>(id)?;
    epoch.parse::<u32>().ok()?;
    hex::decode(hash)
}

/// Removes objects in order, up to `threads` at a time. One that the remote keeps for some days is left to a later pruning: it has been asked
/// for now.
fn remove(
    remote: &dyn Remote,
    going: Vec<(ObjectName, u64)>,
    threads: usize,
    report: &mut PruneReport,
    told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
) -> Result<()> {
    let mut progress = RemoteProgress {
        bytes: 0,
        bytes_total: (going.iter()).fold(0, |sum: u64, (_, len)| sum.saturating_add(*len)),
    };
    in_parallel(
        going.into_iter(),
        threads,
        |(name, len)| -> Result<(u64, bool)> {
            match remote.remove(&name) {
                Err(strongroom_remote::Error::Kept) => Ok((len, false)),
                removed => Ok(removed.map(|()| (len, true))?),
            }
        },
        &mut |(len, is_gone): (u64, bool)| {
            let (objects, bytes) = match is_gone {
                true => (&mut report.objects, &mut report.bytes),
                false => (&mut report.kept, &mut report.kept_bytes),
            };
            *objects += 1;
            *bytes = bytes.saturating_add(len);
            progress.bytes = progress.bytes.saturating_add(len);
            go_on(told(&progress))
        },
    )
}

/// Whether that much time has passed since then, by the clock of this machine.
pub(crate) fn passed(since_s: u64, time: Duration) -> bool {
    since_s.saturating_add(time.as_secs()) <= now_s()
}

/// The same of a time that this machine noted: one in the future is that of a clock that was wrong.
fn is_over(since_s: u64, time: Duration) -> bool {
    since_s > now_s() || passed(since_s, time)
}

fn front(hash: &[u8; 32]) -> [u8; 8] {
    *hash.first_chunk().expect("a hash has 32 bytes")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::ops::Range;
    use std::sync::Arc;

    use strongroom_crypto::{KeyFile, Secret, SystemRandom};
    use strongroom_history::NewRevision;
    use strongroom_remote::{Created, Result as Answer};

    use super::*;
    use crate::clone::{CloneOptions, clone};
    use crate::{CreateOptions, OpenOptions, SeenRecords, Trust};

    /// A place whose clock was behind by 200 days when objects of these kinds came.
    #[derive(Debug)]
    struct Behind {
        below: Arc<dyn Remote>,
        kinds: &'static [&'static str],
    }

    impl Remote for Behind {
        fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Answer<Created> {
            self.below.create(name, bytes)
        }

        fn read(&self, name: &ObjectName, bytes_max: u64) -> Answer<Option<Vec<u8>>> {
            self.below.read(name, bytes_max)
        }

        fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Answer<Option<Vec<u8>>> {
            self.below.read_range(name, range)
        }

        fn list(&self, kind: &str) -> Answer<Vec<Listed>> {
            let mut listed = self.below.list(kind)?;
            if self.kinds.contains(&kind) {
                for one in &mut listed {
                    one.created_s -= 200 * 24 * 60 * 60;
                }
            }
            Ok(listed)
        }

        fn remove(&self, name: &ObjectName) -> Answer<()> {
            self.below.remove(name)
        }
    }

    /// Goal: what a device needs is not passed over because the clocks of the place and of whoever prunes differ. Method: one device lets
    /// content go that another removes and prunes, at a place that says of all that it came 200 days ago; then only of what is needed.
    /// Failed before: the age was counted by the clock of whoever prunes, and the content was removed while it was needed.
    #[test]
    fn what_is_needed_grows_old_by_the_clock_of_the_place() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join("remote");
        std::fs::create_dir(&at).unwrap();
        let address = format!("folder:{}", at.display());
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let secret = Secret::KeyFile(key_file.clone());
        let options = CreateOptions::new().key_file(key_file);
        let created = Vault::create(place.path().join("one"), options).unwrap();
        let one = created.vault;
        one.add_remote("stick", &address).unwrap();
        let words = (0..3_u64 << 17).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        let content: Vec<u8> = words.flatten().collect();
        one.write("/content", &content).unwrap();
        one.push("stick", &mut |_| GoOn::Yes).unwrap();
        // Each is the vault of a machine of its own.
        let trust = Trust {
            seen: SeenRecords::Nowhere,
            ..Trust::default()
        };
        let options = CloneOptions {
            trust: trust.clone(),
            ..CloneOptions::default()
        };
        let folder = place.path().join("two");
        clone(&address, &folder, &secret, options, &mut |_| GoOn::Yes).unwrap();
        let options = OpenOptions {
            trust,
            ..OpenOptions::default()
        };
        let two = Vault::open(&folder, secret, options).unwrap();
        let gone = two.evict(None, &mut |_| GoOn::Yes).unwrap();
        assert!(gone.bytes > 3 << 20, "{gone:?}");
        one.remove_file("/content").unwrap();
        one.take_revision(&NewRevision::default()).unwrap();
        let mut revisions = one.revisions().unwrap();
        revisions.sort_by_key(|revision| revision.time);
        revisions.pop();
        for revision in revisions {
            one.remove_revision(revision.id).unwrap();
        }
        one.compact().unwrap();
        one.push("stick", &mut |_| GoOn::Yes).unwrap();
        let pruned = |kinds: &'static [&'static str]| {
            let (row, below) = one.reach("stick").unwrap();
            let grace = Duration::ZERO;
            let remote = Behind { below, kinds };
            let pruning = Pruning::Now { grace };
            let (_, report) = one
                .push_and_prune(&row, &remote, pruning, &mut |_| GoOn::Yes)
                .unwrap();
            report
        };
        let young = pruned(&["needs", "publications"]);
        assert!(young.waiting_bytes > 3 << 20, "{young:?}");
        assert_eq!(two.read("/content").unwrap(), content);
        let old = pruned(&["needs"]);
        assert!(old.bytes > 3 << 20, "{old:?}");
        assert_eq!(old.waiting_bytes, 0, "{old:?}");
        for vault in [one, two] {
            vault.close().unwrap();
        }
    }
}

//! Brings the vault to the state of a remote: downloads and verifies what others published, and joins it with the state here.
//!
//! Takes   an open vault, whichever process owns it, and one of its remotes
//! Gives   the current state joined with the changes of others, and conflict names where both sides changed the same thing
//! Never   trusts the remote, or removes anything that somebody wrote here
//! Spec    spec/11-sync.md, 11.6
//!
//! Invariants
//!  (1) No file changes until everything is downloaded; only a change of keys is taken in earlier. An interrupted pull
//!      continues where it stopped.
//!  (2) A key is forgotten only once everything published under it is joined, or does not concern this device.        [11.6.9]

use std::collections::HashSet;

use strongroom_format::publication::SignedPublication;
use strongroom_format::{Change, Epoch, Record};
use strongroom_remote::{ObjectName, Remote};
use strongroom_sync::limits::{
    PUBLICATION_OBJECT_BYTES_MAX, REVISION_OBJECT_BYTES_MAX, SEGMENT_OBJECT_BYTES_MAX,
};
use strongroom_sync::{
    Live, in_parallel, object_hash, publication_name, revision_name, segment_name, unfinished,
};

use crate::clock::{Moment, now_s};
use crate::evict::EvictReport;
use crate::folder::{Folder, INCOMING, SEGMENTS};
use crate::incoming::{
    epoch_of, not_staged, placed_segment, staged_publication, staged_revision, staged_segment,
};
use crate::newest_state::headers_by_records;
use crate::prune::Pruning;
use crate::push::PushReport;
use crate::remote_log::{Look, check_for_gap, headers_at};
use crate::remotes::{RemoteProgress, go_on};
use crate::request::Request;
use crate::request::frame::Bytes;
use crate::request::member::short;
use crate::request::remote::{JoinedFields, RemoteFields, RemoteRequest, Start, WhichSegments};
use crate::waits::Waits;
use crate::{Error, GoOn, Result, Vault};

/// How often a sync begins again because another device published in between.
const ROUNDS: usize = 16;

/// What a pull did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullReport {
    /// Objects that came down, but for publications, and their bytes.
    pub objects: u64,
    /// See `objects`.
    pub bytes: u64,
    /// Publications that were taken in; 0: there was nothing new.
    pub publications: u64,
    /// Names that came, went or mean another file now.
    pub names: u64,
    /// Files, directories and others that are new or were changed.
    pub nodes: u64,
    /// Names that were given because both sides changed one thing.
    pub conflicts: u64,
    /// The paths of the first thousand of them.
    pub conflict_paths: Vec<Vec<u8>>,
    /// Texts that both sides changed in different lines: they have the lines of both.
    pub merged: u64,
    /// The paths of the first thousand of them.
    pub merged_paths: Vec<Vec<u8>>,
    /// Sealed bytes of content that another device erased (`Vault::erase`), and that were erased here, too.
    pub erased_bytes: u64,
    /// Sealed bytes that stay, because a file here has that content now, or another file has it in a snapshot.
    pub unerased_bytes: u64,
    /// Why such content was not erased, a line each; it is tried again later.
    pub erase_problems: Vec<String>,
    /// Deposits that came into `/Inbox`.
    pub received: u64,
    /// The paths of the first thousand of them.
    pub received_paths: Vec<Vec<u8>>,
    /// Deposits that did not come, with the reason, a line each; each is named once while the vault is open.
    pub deposit_problems: Vec<String>,
}

/// What a sync did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// What came.
    pub pulled: PullReport,
    /// What went.
    pub pushed: PushReport,
    /// Segments that were evicted for the limit of this device, and their bytes.
    pub evicted_segments: u64,
    /// See `evicted_segments`.
    pub evicted_bytes: u64,
}

impl SyncReport {
    /// Takes in what was evicted for the limit.
    pub(crate) const fn note_evicted(&mut self, evicted: &EvictReport) {
        self.evicted_segments = evicted.segments;
        self.evicted_bytes = evicted.bytes;
    }
}

/// One object to come down: its name, hash, greatest length, and what it is called until it is counted.
struct Wanted {
    object: ObjectName,
    hash: [u8; 32],
    bytes_max: u64,
    staged: String,
}

/// How much of what there is a pull took in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pulled {
    Whole,
    /// There is nothing behind the last publication that this device has seen, and that is what it was: all of it was asked just now.
    NothingNew,
    /// What is left takes keys that were not taken in before.
    InPart,
    /// The log begins behind what this device has seen.
    Nothing,
}

/// Whether what a pull lacks may be found from the base of the log on: others still have it, or it went since what names it came.
fn may_be_at_base(error: &Error) -> bool {
    let is_missing =
        |error: &strongroom_sync::Error| matches!(error, strongroom_sync::Error::Missing { .. });
    match error {
        Error::RemoteUntrue(_) => true,
        Error::Remote(error) => is_missing(error),
        _ => false,
    }
}

/// When a remote was reached: what has gone from its log meanwhile is looked for once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    Now,
    Before,
    /// Before, and nothing has come for some looks: whether there is anything is asked first, as that answer is shorter than a missing
    /// object's.
    AtRest,
}

impl Vault {
    /// Brings what others pushed to the remote of that name into the vault, and joins it with what changed here; others may use
    /// the vault meanwhile. `told` hears of the progress and says whether to go on; the next pull goes on where this one stopped.
    ///
    /// # Errors
    /// `UnknownRemote`; `Remote` if it cannot be reached, refuses access, lies or lost something; `RemoteUntrue`; `RemoteStopped`;
    /// `RemoteBusy`; `KeysInUse`; `Keys` if keys were changed here and there at once; `CalledBack` in the `told` of such a call.
    pub fn pull(
        &self,
        name: &str,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<PullReport> {
        let _turn = self.shared.remote_turns.take()?;
        let (row, remote) = self.reach(name)?;
        let mut report = PullReport::default();
        self.pull_from(&row, &*remote, Reached::Now, &mut report, told)?;
        self.receive(&row, &*remote, &mut report, told)?;
        self.note_contact(row.number, now_s(), true)?;
        Ok(report)
    }

    /// Pulls, then pushes, until this device and the remote have the same; then evicts for the limit of this device, if it is exceeded.
    ///
    /// # Errors
    /// As `pull` and `push`.
    pub fn sync_with(
        &self,
        name: &str,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<SyncReport> {
        let _turn = self.shared.remote_turns.take()?;
        let (row, remote) = self.reach(name)?;
        let mut report = self.sync_at(row.number, &*remote, told)?;
        let mut evicted = EvictReport::default();
        let mut hear = |_: &RemoteProgress| told(&RemoteProgress::default());
        match self.evict_to_limit_at(&row, &*remote, &mut evicted, &mut hear) {
            // All else is done, and the next sync tries this again.
            Err(Error::Remote(_) | Error::RemoteAhead) => {}
            done => done?,
        }
        report.note_evicted(&evicted);
        // After that: a full disk may have room for it only now.
        self.note_contact(row.number, now_s(), true)?;
        Ok(report)
    }

    /// The same with a remote that was reached, in a turn of the caller.
    pub(crate) fn sync_at(
        &self,
        number: u64,
        remote: &dyn Remote,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<SyncReport> {
        let mut report = SyncReport::default();
        for _ in 0..ROUNDS {
            let row = self.remote_row(number)?;
            let pulled = &mut report.pulled;
            let mut look = self.pull_from(&row, remote, Reached::Now, pulled, told)?;
            let before = pulled.received;
            let waiting = self.receive(&row, remote, pulled, told)?;
            if pulled.received > before {
                // That took a while.
                look = Look::Lists;
            }
            let published = self.inbox_to_publish()?;
            match self.push_knowing(&row, remote, (look, Pruning::IfDue), told) {
                Ok((pushed, _)) => {
                    report.pushed = pushed;
                    self.clear_inbox(&row, remote, &waiting, &published)?;
                    return Ok(report);
                }
                Err(Error::RemoteAhead) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::RemoteAhead)
    }

    /// The same as `pull` from a remote that was reached; gives what a push right behind it need not ask again.
    pub(crate) fn pull_from(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        reached: Reached,
        report: &mut PullReport,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<Look> {
        let mut row = row.clone();
        let mut refused = None;
        let mut start = Start::Joined;
        let mut was_replaced = false;
        let before = report.publications;
        loop {
            let at = Moment::now();
            match self.pull_what_opens(&row, remote, (start, reached), report, told) {
                Ok(pulled @ (Pulled::Whole | Pulled::NothingNew)) => {
                    if report.publications > before {
                        self.bring_pinned()?;
                    }
                    self.say_needs_if_it_hears(row.number, remote)?;
                    self.note_contact(row.number, now_s(), false)?;
                    return Ok(match pulled {
                        Pulled::NothingNew => Look::Known { last: row.last, at },
                        _ => Look::Lists,
                    });
                }
                // There is nothing that could be the answer to what was refused.
                Ok(Pulled::Nothing) if start == Start::Base => {
                    return refused.map_or(Ok(Look::Lists), Err);
                }
                Ok(Pulled::Nothing) => start = Start::Base,
                Ok(Pulled::InPart) => {
                    let before = row.joined;
                    row = self.remote_row(row.number)?;
                    if row.joined == before {
                        // What is behind it does not open, with whatever keys.
                        return Err(refused.unwrap_or(Error::RemoteBusy));
                    }
                    start = Start::Joined;
                }
                // What others still have may lie in segments that were joined long ago and let go here.             [11.6.11]
                Err(error) if start == Start::Joined && may_be_at_base(&error) => {
                    (refused, start) = (Some(error), Start::Base);
                }
                Err(Error::DeviceReplaced) if !was_replaced => {
                    self.become_new_device_in(remote)?;
                    was_replaced = true;
                    // As a newcomer: what is before the base may be sealed under keys that are gone.           [11.3.3]
                    start = Start::Base;
                }
                Err(error @ Error::RemoteUntrue(_)) => return Err(refused.unwrap_or(error)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Goes on as a new device of the newest header, in which the device of this copy was replaced.                [11.10.4]
    fn become_new_device_in(&self, remote: &dyn Remote) -> Result<()> {
        let names = headers_at(remote)?;
        // An older one would have the slot still, and others have gone on from there.
        let mut generations = names.chunk_by(|one, next| one.0 == next.0);
        let newest = generations.next().ok_or(Error::DeviceReplaced)?;
        let (headers, damaged) = headers_by_records(remote, newest)?;
        if let Some(damaged) = damaged {
            return Err(damaged.into());
        }
        // Of one generation, that with the most records: the other only forgot keys. One in which this device still counts came too late.
        //                                                                                           [11.5.5] [11.6.19]
        let members = self.information()?.members;
        let this = members.iter().find(|one| one.is_device && one.is_this);
        let retires = |change: &Change| match (change, this) {
            (Change::Retire { principal }, Some(this)) => this.id == short(&principal.0),
            _ => false,
        };
        let is_replaced = |records: &[Record]| {
            let mut changes = records.iter().flat_map(|record| &record.body.changes);
            changes.any(retires)
        };
        let right = headers.iter().find(|(_, records)| is_replaced(records));
        let (header, _) = right.or(headers.first()).ok_or(Error::DeviceReplaced)?;
        let newest = Some(Bytes(header));
        self.ask_for(&Request::Remote(RemoteRequest::BecomeNewDevice { newest }))
    }

    fn pull_what_opens(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        (start, reached): (Start, Reached),
        report: &mut PullReport,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<Pulled> {
        go_on(told(&RemoteProgress::default()))?;
        // Who reaches a remote looks once whether its log is whole.
        let waits = reached != Reached::Now && self.waits_for_others(row);
        let rests = reached == Reached::AtRest && row.last > 0 && row.joined == row.last;
        if start == Start::Joined
            && (waits || rests)
            && !remote.has(&publication_name(row.last + 1))?
        {
            if rests {
                // As behind a look that found nothing, below.
                self.take_headers_if_other(remote, (0, row.header), Epoch(u32::MAX))?;
            }
            return Ok(Pulled::Whole);
        }
        let first = match (start, row.last) {
            (Start::Base, _) | (Start::Joined, 0) => {
                self.first_needed_knowing(remote, row.header)?.max(1)
            }
            (Start::Joined, last) => last.min(row.joined) + 1,
        };
        let mut found: Vec<(Vec<u8>, SignedPublication)> = Vec::new();
        let mut oldest = Epoch(u32::MAX);
        let mut pulled = Pulled::Whole;
        let is_head = |(_, one): &(Vec<u8>, SignedPublication)| one.body.head != [0; 32];
        loop {
            let number = first + found.len() as u64;
            let object = remote.read(&publication_name(number), PUBLICATION_OBJECT_BYTES_MAX)?;
            let Some(object) = object else { break };
            oldest = oldest.min(epoch_of(&object));
            let before = found
                .last()
                .map_or(row.header, |(_, one)| one.body.header.1);
            match self.open_knowing(remote, (number, &object), before, oldest) {
                Ok(signed) => found.push((object, signed)),
                // Perhaps it takes keys without which those before it do not open: they are joined first. (2)
                Err(Error::RemoteUntrue(_)) if found.iter().any(is_head) => {
                    pulled = Pulled::InPart;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if found.is_empty() && start == Start::Base {
            return Ok(Pulled::Nothing);
        }
        let nothing = found.is_empty() && start == Start::Joined;
        if nothing
            && (first <= row.last || reached == Reached::Now)
            && (self.begins_behind(row, remote, row.last)? || first <= row.last)
        {
            return Ok(Pulled::Nothing);
        }
        let is_asked = nothing && reached == Reached::Now;
        if (is_asked || start == Start::Base) && pulled == Pulled::Whole {
            check_for_gap(remote, first + found.len() as u64)?;
        }
        // A push that has not ended is left until it has.
        let Some(whole) = found.iter().rposition(is_head) else {
            // What was sealed here may have had to be sealed again first.
            self.take_headers_if_other(remote, (0, row.header), oldest)?;
            return Ok(match is_asked {
                true => Pulled::NothingNew,
                false => Pulled::Whole,
            });
        };
        found.truncate(whole + 1);
        // Keys that were changed elsewhere count from here on for what is published here, too.
        let header = found[whole].1.body.header;
        self.take_headers_if_other(remote, header, oldest)?;
        let bodies = found.iter().map(|(_, one)| &one.body);
        let unfinished = unfinished(bodies, now_s());
        let mut live = Live::default();
        let joining = found.iter().map(|(_, one)| one);
        joining
            .filter(|one| !unfinished.numbers.contains(&one.body.number))
            .for_each(|one| live.add(one));
        match start {
            Start::Joined => self.leave_out_known(row.number, &mut live, row.joined)?,
            Start::Base => self.leave_out_lost(remote, &mut live)?,
        }
        self.bring(remote, &live, &found, first, report, told)?;
        let behind = first + found.len() as u64;
        let joined: JoinedFields = self.ask_for(&Request::Remote(RemoteRequest::Join {
            remote: row.number,
            first,
            behind,
            from: start,
        }))?;
        for (number, (object, _)) in (first..)
            .zip(&found)
            .filter(|(number, _)| *number > row.last)
        {
            self.take_publication(row.number, number, object, true)?;
        }
        let is_new = |number: &u64| *number > row.last;
        report.publications += (first..behind).filter(is_new).count() as u64;
        let joined_up_to = unfinished.before.max(row.joined);
        let waits = Waits {
            state: (joined_up_to, row.last.max(behind - 1)),
            until_s: unfinished.until_s,
        };
        self.shared.waits.lock().insert(row.number, waits);
        report.names += joined.names;
        report.nodes += joined.nodes;
        report.conflicts += joined.conflicts;
        report.conflict_paths.extend(joined.conflict_paths);
        report.merged += joined.merged;
        report.merged_paths.extend(joined.merged_paths);
        report.erased_bytes += joined.erased_bytes;
        report.unerased_bytes += joined.unerased_bytes;
        let problem = Some(joined.erase_problem).filter(|problem| !problem.is_empty());
        report.erase_problems.extend(problem);
        // Nothing more is needed of what they are sealed under. (2)
        self.take_headers_if_other(remote, header, Epoch(u32::MAX))?;
        Ok(pulled)
    }

    /// Whether all that there is was joined but for pushes of others that may still go on: then only what is new says more.
    fn waits_for_others(&self, row: &RemoteFields) -> bool {
        let waits = self.shared.waits.lock();
        let waits = waits.get(&row.number);
        waits.is_some_and(|waits| {
            waits.state == (row.joined, row.last)
                && row.joined < row.last
                && now_s() < waits.until_s
        })
    }

    /// Leaves what was joined and is only named once more.
    fn leave_out_known(&self, remote: u64, live: &mut Live, joined: u64) -> Result<()> {
        let front = |hash: &[u8; 32]| *hash.first_chunk().expect("a hash has 32 bytes");
        let hashes = live.segments.keys().chain(live.revisions.keys());
        let new = self.not_live(remote, &hashes.map(front).collect::<Vec<_>>(), joined)?;
        live.segments.retain(|hash, _| new.contains(&front(hash)));
        live.revisions.retain(|hash, _| new.contains(&front(hash)));
        Ok(())
    }

    /// Leaves out what was given up as lost here and the remote still lacks: it has rows, and nobody waits for it.         [11.9.4]
    fn leave_out_lost(&self, remote: &dyn Remote, live: &mut Live) -> Result<()> {
        let lost = self.segments_of(WhichSegments::GivenUp, None)?.into_iter();
        let lost: HashSet<[u8; 16]> = lost.map(|one| one.id).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let listed = remote.list("segments")?.into_iter();
        let there: HashSet<String> = listed.map(|one| one.name).collect();
        live.segments.retain(|hash, one| {
            !lost.contains(&one.id.0) || there.contains(&strongroom_format::hex::encode(hash))
        });
        Ok(())
    }

    /// Brings down what the publications name and is not here, and the publications.                             (1)
    fn bring(
        &self,
        remote: &dyn Remote,
        live: &Live,
        found: &[(Vec<u8>, SignedPublication)],
        first: u64,
        report: &mut PullReport,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<()> {
        let folder = Folder::new(self.folder()).absolute()?;
        let vault = folder.hold().map_err(not_staged)?;
        vault.make_folder(INCOMING).map_err(not_staged)?;
        let incoming = vault.folder(INCOMING).map_err(not_staged)?;
        let segments = vault.folder(SEGMENTS).ok();
        let mut wanted = Vec::new();
        let mut progress = RemoteProgress::default();
        // What is away is known here, and need not come; but for other bytes, which another copy of this folder wrote under that name.
        let away = self.segments_of(WhichSegments::Away, None)?.into_iter();
        let away: HashSet<([u8; 16], [u8; 32])> = away.map(|one| (one.id, one.hash)).collect();
        // The hash of one that no remote is noted to have is not known.
        let is_away = |id, hash| away.contains(&(id, hash)) || away.contains(&(id, [0; 32]));
        for segment in live.segments.values() {
            if is_away(segment.id.0, segment.hash) {
                continue;
            }
            let path = placed_segment(segment.id);
            let here = segments
                .as_ref()
                .and_then(|segments| segments.read(&path, SEGMENT_OBJECT_BYTES_MAX).ok())
                .flatten();
            if here.is_some_and(|here| object_hash(&here) == segment.hash) {
                continue;
            }
            progress.bytes_total += segment.len;
            wanted.push(Wanted {
                object: segment_name(&segment.hash),
                hash: segment.hash,
                bytes_max: segment.len.min(SEGMENT_OBJECT_BYTES_MAX),
                staged: staged_segment(&segment.hash),
            });
        }
        for revision in live.revisions.values() {
            let name = format!(
                "{}.{}",
                strongroom_format::hex::encode(&revision.id),
                revision.epoch.0
            );
            if folder.inside(crate::folder::REVISIONS).has(&name) {
                continue;
            }
            wanted.push(Wanted {
                object: revision_name(&revision.id, revision.epoch, &revision.hash),
                hash: revision.hash,
                bytes_max: REVISION_OBJECT_BYTES_MAX,
                staged: staged_revision(&revision.hash),
            });
        }
        in_parallel(
            wanted.into_iter(),
            remote.transfers(),
            |one| -> Result<(bool, u64)> {
                // What an earlier attempt brought is read and compared, not fetched.
                if let Ok(Some(there)) = incoming.read(&one.staged, one.bytes_max)
                    && object_hash(&there) == one.hash
                {
                    return Ok((false, there.len() as u64));
                }
                let found = remote.read(&one.object, one.bytes_max)?;
                let found = found.ok_or_else(|| strongroom_sync::Error::Missing {
                    object: one.object.to_string(),
                })?;
                if object_hash(&found) != one.hash {
                    return Err(Error::from(strongroom_sync::Error::Damaged {
                        object: one.object.to_string(),
                        why: "its content is not what was pushed",
                    }));
                }
                incoming.replace(&one.staged, &found).map_err(not_staged)?;
                Ok((true, found.len() as u64))
            },
            &mut |(is_new, len): (bool, u64)| {
                progress.bytes = (progress.bytes + len).min(progress.bytes_total);
                report.objects += u64::from(is_new);
                report.bytes += if is_new { len } else { 0 };
                go_on(told(&progress))
            },
        )?;
        for (number, (object, signed)) in (first..).zip(found) {
            let name = staged_publication(&signed.body.remote.0, number);
            incoming.replace(&name, object).map_err(not_staged)?;
        }
        incoming.sync().map_err(not_staged)
    }
}

//! Revisions in the public API: take, list and remove them.
//!
//! Takes   messages, tags, names of revisions
//! Gives   revisions; the same whether this process owns the vault or another does

use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use strongroom_filesystem::Timestamp;
use strongroom_history::{
    self as history, Candidate, ErasedContent, NewRevision, PathDifference, Retention, RevisionId,
    Usage,
};

use crate::limits::REVISIONS_MAX;
use crate::owner::port::unexpected;
use crate::path::VaultPath;
use crate::request::history::{HistoryRequest, HistoryResponse, Restored, RevisionInfo};
use crate::request::{Request, Response};
use crate::{Error, Result, Vault};

impl Vault {
    /// Takes a revision of everything, durable on return; `None` if nothing changed and `new` asks for none then.
    ///
    /// Writers wait for the moment of a barrier only.
    ///
    /// # Errors
    /// `File(InvalidArgument)` for a message above 16 KiB or tags that are none; `File(NoSpace)`.
    pub fn take_revision(&self, new: &NewRevision) -> Result<Option<RevisionInfo>> {
        let request = HistoryRequest::Take {
            message: new.message.clone(),
            tags: new.tags.clone(),
            only_if_changed: new.only_if_changed,
        };
        match self.ask_history(request)? {
            HistoryResponse::Taken(taken) => Ok(taken),
            _ => Err(unexpected()),
        }
    }

    /// All snapshots, oldest first.
    ///
    /// # Errors
    /// `Damaged` if one is not as it was signed.
    pub fn revisions(&self) -> Result<Vec<RevisionInfo>> {
        let mut all: Vec<RevisionInfo> = Vec::new();
        loop {
            let after = all.last().map(|last| last.id.0);
            match self.ask_history(HistoryRequest::List { after })? {
                HistoryResponse::Revisions(page) if page.is_empty() => return Ok(all),
                HistoryResponse::Revisions(page) => {
                    all.extend(page);
                }
                _ => return Err(unexpected()),
            }
        }
    }

    /// The snapshots that `selector` means, oldest first.
    ///
    /// # Errors
    /// `Revision` if it is no selector.
    pub fn select_revisions(&self, selector: &str) -> Result<Vec<RevisionInfo>> {
        let mut all = self.revisions()?;
        let chosen = history::select(selector, &candidates(&all), now())
            .map_err(|error| Error::Revision(error.to_string()))?;
        let mut place = 0..;
        all.retain(|_| place.next().is_some_and(|place| chosen.contains(&place)));
        Ok(all)
    }

    /// The one snapshot that `selector` means.
    ///
    /// # Errors
    /// `Revision` if it means none or several; then with those that it could mean.
    pub fn select_revision(&self, selector: &str) -> Result<RevisionInfo> {
        let mut all = self.revisions()?;
        let place = history::select_one(selector, &candidates(&all), now())
            .map_err(|error| Error::Revision(error.to_string()))?;
        Ok(all.swap_remove(place))
    }

    /// Removes a snapshot. The space of what only it held comes back in the background.
    ///
    /// # Errors
    /// `Revision` if it is not kept.
    pub fn remove_revision(&self, id: RevisionId) -> Result<()> {
        self.ask_for(&Request::History(HistoryRequest::Remove { id: id.0 }))
    }

    /// The rule by which a schedule lets snapshots go; `None` if none was set, and `Retention::DEFAULT` counts. It is the shared rule; where a
    /// rule was set on this device, it keeps what either of both keeps.
    ///
    /// # Errors
    /// `Damaged` if what is stored is no rule.
    pub fn retention(&self) -> Result<Option<Retention>> {
        self.rule(HistoryRequest::Retention)
    }

    /// The rule that was set last, on whichever device of a vault with remotes, as far as this device has synced.
    ///
    /// # Errors
    /// As `retention`.
    pub fn shared_retention(&self) -> Result<Option<Retention>> {
        self.rule(HistoryRequest::SharedRetention)
    }

    fn rule(&self, request: HistoryRequest) -> Result<Option<Retention>> {
        match self.ask_history(request)? {
            HistoryResponse::Retention(None) => Ok(None),
            HistoryResponse::Retention(Some(bytes)) => {
                Retention::decode(&bytes).map(Some).ok_or_else(unexpected)
            }
            _ => Err(unexpected()),
        }
    }

    /// Sets the rule by which a schedule lets snapshots go, also for the other devices; durable on return. Nothing goes before `thin` is
    /// called or the schedule takes the next.
    ///
    /// # Errors
    /// `File(InvalidArgument)` for a rule that keeps nothing; `File(ReadOnly)`.
    pub fn set_retention(&self, rule: &Retention) -> Result<()> {
        let rule = rule.encode();
        match self.ask_history(HistoryRequest::SetRetention { rule })? {
            HistoryResponse::RuleSet => Ok(()),
            _ => Err(unexpected()),
        }
    }

    /// The snapshots that `rule` lets go, oldest first. Nothing is removed.
    ///
    /// # Errors
    /// As `revisions`.
    pub fn let_go_by(&self, rule: &Retention) -> Result<Vec<RevisionInfo>> {
        let mut all = self.revisions()?;
        let going = places_let_go(rule, &all);
        let mut place = 0..;
        all.retain(|_| place.next().is_some_and(|place| going.contains(&place)));
        // What a remote and this device have in common tells who changed what: that is needed when the two are joined.
        let common: Vec<[u8; 32]> = self.remote_rows()?.iter().map(|row| row.head).collect();
        all.retain(|one| !common.contains(&one.id.0));
        Ok(all)
    }

    /// Removes the snapshots that `rule` lets go; gives them. What a push is about stays until the next time.
    ///
    /// # Errors
    /// As `remove_revision`; those before the one that failed are gone.
    pub fn thin(&self, rule: &Retention) -> Result<Vec<RevisionInfo>> {
        let mut gone = Vec::new();
        for one in self.let_go_by(rule)? {
            let is_gone = match self.let_go_revision(one.id) {
                // Somebody else was faster.
                Err(Error::Revision(_)) => true,
                result => result?,
            };
            gone.extend(is_gone.then_some(one));
        }
        Ok(gone)
    }

    /// Removes a snapshot that nobody asked to remove, unless it is what a remote and this device have in common, or a push is about it;
    /// gives whether it is gone.
    pub(crate) fn let_go_revision(&self, id: RevisionId) -> Result<bool> {
        self.ask_for(&Request::History(HistoryRequest::LetGo { id: id.0 }))
    }

    /// How many sealed bytes would come back if the snapshots `ids` were removed together.
    ///
    /// # Errors
    /// `Revision` if one is not kept.
    pub fn held_alone(&self, ids: &[RevisionId]) -> Result<u64> {
        let ids = ids.iter().map(|id| id.0).collect();
        match self.ask_history(HistoryRequest::HeldAlone { ids })? {
            HistoryResponse::HeldAlone(bytes) => Ok(bytes),
            _ => Err(unexpected()),
        }
    }

    /// The same for each of `ids` by itself, in their order; 0 for one that is kept no more.
    ///
    /// # Errors
    /// Of the stores.
    pub fn each_held_alone(&self, ids: &[RevisionId]) -> Result<Vec<u64>> {
        let mut each = Vec::with_capacity(ids.len());
        for some in ids.chunks(REVISIONS_MAX) {
            let ids = some.iter().map(|id| id.0).collect();
            match self.ask_history(HistoryRequest::EachHeldAlone { ids })? {
                HistoryResponse::EachHeldAlone(bytes) if bytes.len() == some.len() => {
                    each.extend(bytes);
                }
                _ => return Err(unexpected()),
            }
        }
        Ok(each)
    }

    /// Takes the content of the file at `path`, or of all files below it, out of every snapshot, whatever their names
    /// are or were; with `trial`, only says what that would be. Nothing may be at `path` now. Names and attributes stay in the
    /// snapshots; what other files have too stays with them.
    ///
    /// # Errors
    /// `File(NotFound)` if no snapshot has anything there; `File(InvalidArgument)` if there is something now; `UnknownFormat` if it was erased
    /// here, and a later version has to note that for other devices.
    pub fn erase(&self, path: impl VaultPath, trial: bool) -> Result<ErasedContent> {
        let path = path.path_bytes().to_vec();
        match self.ask_history(HistoryRequest::Erase { path, trial })? {
            HistoryResponse::Erased(erased) => Ok(erased),
            _ => Err(unexpected()),
        }
    }

    /// What the stored content is for: files of now, snapshots, nothing.
    ///
    /// # Errors
    /// Of the stores.
    pub fn usage(&self) -> Result<Usage> {
        match self.ask_history(HistoryRequest::Usage)? {
            HistoryResponse::Usage(usage) => Ok(usage),
            _ => Err(unexpected()),
        }
    }

    /// Gives to `take` every path at and below `path` that differs between two revisions, until it fails. In order: a
    /// directory before what lies below it. `after`: `None` for the living state, as it is at each of the moments in which a
    /// thousand of them are found.
    ///
    /// # Errors
    /// `Revision` if one is not kept; `File(ReadOnly)` for the living state of a vault that is open for reading only; those
    /// of `take`.
    pub fn differences<E: From<Error>>(
        &self,
        before: RevisionId,
        after: impl Into<Option<RevisionId>>,
        path: impl VaultPath,
        mut take: impl FnMut(PathDifference) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut behind = None;
        let after = after.into().map(|after| after.0);
        loop {
            let response = self.ask_history(HistoryRequest::Differences {
                before: before.0,
                after,
                path: path.path_bytes().to_vec(),
                behind: behind.take(),
            })?;
            let HistoryResponse::Differences(page) = response else {
                return Err(unexpected().into());
            };
            let Some(last) = page.last() else {
                return Ok(());
            };
            behind = Some(last.path.clone());
            for one in page {
                take(one)?;
            }
        }
    }

    /// Brings back what a revision had at `path`, to the path `to`: content without copying it, hard links among what is
    /// brought back, extended attributes, holes, special files, owners, modes and times. What is at `to` is replaced in
    /// one step; of the root directory, name by name. Files below a directory whose content was erased are left out; at the root,
    /// what is there now stays then. Of what is replaced no snapshot is taken.
    ///
    /// # Errors
    /// `Revision` if it is not kept; `File(NotFound)` if it has nothing at `path`; `File(Erased)` if that is a file whose content
    /// was erased; `File(NoSpace)`.
    pub fn restore(
        &self,
        revision: RevisionId,
        path: impl VaultPath,
        to: impl VaultPath,
    ) -> Result<Restored> {
        self.restore_as(revision, path, to, None)
    }

    /// As `restore`, but nothing goes that is in no snapshot: if anybody changed what is replaced since the newest one, another is
    /// taken, with `message`, before that is removed. It has what was replaced beside its old place, under a name that begins with
    /// `.strongroom-restore-`; `Restored` has its id. Names of the root directory that the newest snapshot lacks stay where they are.
    ///
    /// # Errors
    /// As `restore` and `take_revision`. What could not be kept stays under that name.
    pub fn restore_keeping(
        &self,
        revision: RevisionId,
        path: impl VaultPath,
        to: impl VaultPath,
        message: &str,
    ) -> Result<Restored> {
        self.restore_as(revision, path, to, Some(message.to_owned()))
    }

    fn restore_as(
        &self,
        revision: RevisionId,
        path: impl VaultPath,
        to: impl VaultPath,
        message: Option<String>,
    ) -> Result<Restored> {
        let request = HistoryRequest::Restore {
            id: revision.0,
            path: path.path_bytes().to_vec(),
            to: to.path_bytes().to_vec(),
            message,
        };
        match self.ask_history(request)? {
            HistoryResponse::Restored(restored) => Ok(restored),
            _ => Err(unexpected()),
        }
    }

    fn ask_history(&self, request: HistoryRequest) -> Result<HistoryResponse> {
        match self.ask(&Request::History(request))? {
            (_, Response::History(response)) => Ok(response),
            _ => Err(unexpected()),
        }
    }
}

/// The places in `all` of those that `rule` lets go: of what each device took by itself, in the order in which that device took it.
/// A pull brings those of other devices later than they were taken.                                         [6.10.3]
fn places_let_go(rule: &Retention, all: &[RevisionInfo]) -> HashSet<usize> {
    let mut of_devices: HashMap<&[u8; 32], Vec<usize>> = HashMap::new();
    for (place, one) in all.iter().enumerate() {
        of_devices.entry(&one.device).or_default().push(place);
    }
    let mut going = HashSet::new();
    for mut places in of_devices.into_values() {
        places.sort_by_key(|place| all[*place].sequence);
        let taken: Vec<Candidate<'_>> = places.iter().map(|at| all[*at].candidate()).collect();
        going.extend(rule.lets_go(&taken).into_iter().map(|at| places[at]));
    }
    going
}

fn candidates(all: &[RevisionInfo]) -> Vec<Candidate<'_>> {
    all.iter().map(RevisionInfo::candidate).collect()
}

/// What relative dates count from: a person's clock, not that of the vault.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = since.map_or(0, |since| since.as_nanos());
    Timestamp(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use strongroom_history::{SCHEDULED, Whose};

    use super::*;

    /// What the device `device` took as its `sequence`th, at this hour.
    fn taken(device: u8, sequence: u64, hour: i64) -> RevisionInfo {
        RevisionInfo {
            id: RevisionId([u8::try_from(hour).unwrap(); 32]),
            parents: Vec::new(),
            device: [device; 32],
            sequence,
            time: Timestamp(hour * 3_600_000_000_000),
            message: SCHEDULED.to_owned(),
            tags: Vec::new(),
        }
    }

    /// Goal: what arrives later than it was taken costs a device none of its own newest snapshots. Method: two devices take one each hour
    /// in turn; the other one's arrive after all of this one's, and in another order.
    /// Failed before: the older snapshots of the other device filled every period, and this one's newest went.
    #[test]
    fn a_rule_counts_the_snapshots_of_each_device_in_the_order_in_which_it_took_them() {
        let here = (1..=5).map(|at| taken(1, at, 100 + i64::try_from(at).unwrap()));
        let there = [3, 1, 2, 5, 4].map(|at: u64| taken(2, at, i64::try_from(at).unwrap()));
        let all: Vec<RevisionInfo> = here.chain(there).collect();
        let rule = Retention {
            last: 0,
            hourly: 2,
            daily: 0,
            weekly: 0,
            monthly: 0,
            yearly: 0,
            whose: Whose::Scheduled,
        };
        let going = places_let_go(&rule, &all);
        let stay = (0..all.len()).filter(|place| !going.contains(place));
        let hours: Vec<i64> = stay
            .map(|place| all[place].time.0 / 3_600_000_000_000)
            .collect();
        assert_eq!(hours, [104, 105, 5, 4]);
    }
}

//! Revisions in the public API: taken, listed, removed.
//!
//! Takes   messages, tags, names of revisions
//! Gives   revisions; the same whether this process owns the vault or another does

use std::time::{SystemTime, UNIX_EPOCH};

use strongroom_filesystem::{self as filesystem, Filesystem, HISTORY_INODE, Timestamp};
use strongroom_history::{
    self as history, Candidate, NewRevision, Retention, RevisionId, State, Taken,
};

use crate::limits::{LIST_ENTRIES_MAX, REVISIONS_MAX, TRANSFER_BYTES_MAX};
use crate::observer::Change;
use crate::path::{Links, VaultPath, resolve};
use crate::port::unexpected;
use crate::request::{Request, Response};
use crate::request_history::{
    DifferenceFields, ErasedContent, HistoryRequest, HistoryResponse, PathDifference, Restored,
    RevisionFields, RevisionInfo, Usage,
};
use crate::session::Session;
use crate::{Error, Result, Vault};

/// The setting that keeps the rule for snapshots.                                                  [6.10.4]
const RETENTION: &str = "retention";

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
            HistoryResponse::Taken(taken) => Ok(taken.map(RevisionInfo::from)),
            _ => Err(unexpected()),
        }
    }

    /// All kept revisions, oldest first.
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
                    all.extend(page.into_iter().map(RevisionInfo::from));
                }
                _ => return Err(unexpected()),
            }
        }
    }

    /// The kept revisions that `selector` means, oldest first.
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

    /// The one kept revision that `selector` means.
    ///
    /// # Errors
    /// `Revision` if it means none or several; then with those that it could mean.
    pub fn select_revision(&self, selector: &str) -> Result<RevisionInfo> {
        let mut all = self.revisions()?;
        let place = history::select_one(selector, &candidates(&all), now())
            .map_err(|error| Error::Revision(error.to_string()))?;
        Ok(all.swap_remove(place))
    }

    /// Lets a kept revision go. The space of what only it held comes back in the background.
    ///
    /// # Errors
    /// `Revision` if it is not kept.
    pub fn remove_revision(&self, id: RevisionId) -> Result<()> {
        self.ask_done(&Request::History(HistoryRequest::Remove { id: id.0 }))
    }

    /// The rule by which a schedule lets kept states go; `None` if none was set, and `Retention::DEFAULT` counts.
    ///
    /// # Errors
    /// `Damaged` if what is stored is no rule.
    pub fn retention(&self) -> Result<Option<Retention>> {
        match self.ask_history(HistoryRequest::Retention)? {
            HistoryResponse::Retention(None) => Ok(None),
            HistoryResponse::Retention(Some(bytes)) => {
                Retention::decode(&bytes).map(Some).ok_or_else(unexpected)
            }
            _ => Err(unexpected()),
        }
    }

    /// Sets the rule by which a schedule lets kept states go; durable on return. Nothing goes before `thin` is called or
    /// the schedule takes the next.
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

    /// The kept states that `rule` lets go, oldest first. Nothing is removed.
    ///
    /// # Errors
    /// As `revisions`.
    pub fn let_go_by(&self, rule: &Retention) -> Result<Vec<RevisionInfo>> {
        let mut all = self.revisions()?;
        let states: Vec<State<'_>> = all
            .iter()
            .map(|one| State {
                time: one.time,
                message: &one.message,
                tags: &one.tags,
            })
            .collect();
        let going = rule.lets_go(&states);
        let mut place = 0..;
        all.retain(|_| place.next().is_some_and(|place| going.contains(&place)));
        Ok(all)
    }

    /// Removes the kept states that `rule` lets go; gives them.
    ///
    /// # Errors
    /// As `remove_revision`; those before the one that failed are gone.
    pub fn thin(&self, rule: &Retention) -> Result<Vec<RevisionInfo>> {
        let going = self.let_go_by(rule)?;
        for one in &going {
            match self.remove_revision(one.id) {
                // Somebody else was faster.
                Err(Error::Revision(_)) => {}
                result => result?,
            }
        }
        Ok(going)
    }

    /// How many sealed bytes would come back if the kept states `ids` were removed together.
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

    /// Takes the content of the file at `path`, or of all files below it, out of every kept state, whatever their names
    /// are or were; with `trial`, only says what that would be. Nothing may be at `path` now. Names and attributes stay in the
    /// kept states; what other files have too stays with them.
    ///
    /// # Errors
    /// `File(NotFound)` if no kept state has anything there; `File(InvalidArgument)` if there is something now.
    pub fn erase(&self, path: impl VaultPath, trial: bool) -> Result<ErasedContent> {
        let path = path.path_bytes().to_vec();
        match self.ask_history(HistoryRequest::Erase { path, trial })? {
            HistoryResponse::Erased(erased) => Ok(erased),
            _ => Err(unexpected()),
        }
    }

    /// What the stored content is for: files of now, kept states, nothing.
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
                take(PathDifference::try_from(one)?)?;
            }
        }
    }

    /// Brings back what a revision had at `path`, to the path `to`: content without copying it, hard links among what is
    /// brought back, extended attributes, holes, special files, owners, modes and times. What is at `to` is replaced in
    /// one step; of the root directory, name by name. Files below a directory whose content was erased are left out; at the root,
    /// what is there now stays then.
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
        let request = HistoryRequest::Restore {
            id: revision.0,
            path: path.path_bytes().to_vec(),
            to: to.path_bytes().to_vec(),
        };
        match self.ask_history(request)? {
            HistoryResponse::Restored(restored) => Ok(restored.into()),
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

/// The rule that was set; `None` if none was.
pub(crate) fn stored_rule(filesystem: &Filesystem) -> Result<Option<Retention>> {
    let Some(bytes) = filesystem.setting(RETENTION)? else {
        return Ok(None);
    };
    let damaged = || Error::Damaged {
        what: "metadata.db",
        why: "the rule for snapshots is none; set it anew with `strongroom snapshot keep`"
            .to_owned(),
    };
    Ok(Some(Retention::decode(&bytes).ok_or_else(damaged)?))
}

fn candidates(all: &[RevisionInfo]) -> Vec<Candidate<'_>> {
    all.iter()
        .map(|one| Candidate {
            id: one.id,
            parents: &one.parents,
            device: &one.device,
            time: one.time,
            tags: &one.tags,
        })
        .collect()
}

/// What relative dates count from: a person's clock, not that of the vault.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = since.map_or(0, |since| since.as_nanos());
    Timestamp(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// Tells who watches that `.history` lists others now.
fn told(session: &Session) {
    session.tell(&[Change::Content {
        inode: HISTORY_INODE,
        offset: 0,
        len: u64::MAX,
    }]);
}

/// Carries out a request about revisions.
pub(crate) fn execute(session: &Session, request: &HistoryRequest) -> Result<Response> {
    let (filesystem, kept) = (session.filesystem(), &session.engine.kept);
    let response = match request {
        HistoryRequest::Take {
            message,
            tags,
            only_if_changed,
        } => {
            let mut tags = tags.clone();
            tags.sort();
            let taken = kept.take(
                filesystem,
                &NewRevision {
                    message: message.clone(),
                    tags,
                    only_if_changed: *only_if_changed,
                },
            )?;
            told(session);
            HistoryResponse::Taken(match taken {
                Taken::New(revision) => Some(RevisionFields::from(&*revision)),
                Taken::Unchanged => None,
            })
        }
        HistoryRequest::List { after } => {
            let all = kept.revisions(filesystem)?;
            let first = match after {
                None => 0,
                Some(after) => all
                    .iter()
                    .position(|revision| revision.id.0 == *after)
                    .map(|at| at + 1)
                    .ok_or_else(|| {
                        Error::Revision(
                            "the list of revisions changed while it was read; try again".to_owned(),
                        )
                    })?,
            };
            let mut left = TRANSFER_BYTES_MAX;
            let page = all[first..].iter().map(|one| RevisionFields::from(&**one));
            let page = page.take_while(|revision| {
                let fits = revision.len() <= left;
                left = left.saturating_sub(revision.len());
                fits
            });
            HistoryResponse::Revisions(page.collect())
        }
        HistoryRequest::Differences {
            before,
            after,
            path,
            behind,
        } => {
            let behind = behind.as_deref();
            let limit = LIST_ENTRIES_MAX as usize;
            let sides = (before, after.as_ref());
            let page = kept.differences(filesystem, sides, path, behind, limit)?;
            let mut left = TRANSFER_BYTES_MAX;
            let page = page.iter().map(DifferenceFields::from).take_while(|one| {
                // One path fits by far.
                let fits = one.path.len() + 128 <= left;
                left = left.saturating_sub(one.path.len() + 128);
                fits
            });
            HistoryResponse::Differences(page.collect())
        }
        HistoryRequest::Restore { id, path, to } => {
            let restored = crate::restore::restore(session, &RevisionId(*id), path, to)?;
            HistoryResponse::Restored(restored)
        }
        HistoryRequest::Remove { id } => {
            kept.remove(filesystem, RevisionId(*id))?;
            told(session);
            return Ok(Response::Done);
        }
        _ => rules_and_space(session, request)?,
    };
    Ok(Response::History(response))
}

/// Carries out a request about the rule for kept states, or about what they hold.
fn rules_and_space(session: &Session, request: &HistoryRequest) -> Result<HistoryResponse> {
    let (filesystem, kept) = (session.filesystem(), &session.engine.kept);
    Ok(match request {
        HistoryRequest::Retention => {
            HistoryResponse::Retention(stored_rule(filesystem)?.map(|rule| rule.encode()))
        }
        HistoryRequest::SetRetention { rule } => {
            let why = "a rule that keeps nothing";
            let rule = Retention::decode(rule)
                .ok_or(Error::File(filesystem::Error::InvalidArgument(why)))?;
            filesystem.keep_setting(RETENTION, &rule.encode())?;
            HistoryResponse::RuleSet
        }
        HistoryRequest::HeldAlone { ids } => {
            let ids: Vec<_> = ids.iter().copied().map(RevisionId).collect();
            HistoryResponse::HeldAlone(kept.held_alone(filesystem, &ids)?)
        }
        HistoryRequest::EachHeldAlone { ids } => {
            let ids = ids.iter().copied().map(RevisionId);
            let ids: Vec<_> = ids.take(REVISIONS_MAX).collect();
            HistoryResponse::EachHeldAlone(kept.each_held_alone(filesystem, &ids)?)
        }
        HistoryRequest::Erase { path, trial } => {
            match resolve(filesystem, &session.caller, path, Links::Stay) {
                Err(Error::File(
                    filesystem::Error::NotFound | filesystem::Error::NotADirectory,
                )) => {}
                Ok(_) => {
                    let why = "it is still there: remove it first (`strongroom rm`), then erase it from the snapshots";
                    return Err(Error::File(filesystem::Error::InvalidArgument(why)));
                }
                Err(error) => return Err(error),
            }
            let erased = kept.erase(filesystem, path, *trial)?;
            told(session);
            HistoryResponse::Erased(erased)
        }
        HistoryRequest::Usage => {
            let stored = kept.stored(filesystem)?;
            HistoryResponse::Usage(Usage {
                live_bytes: stored.live_bytes,
                kept_bytes: stored.kept_bytes,
                waste_bytes: stored.waste_bytes,
            })
        }
        _ => return Err(Error::Protocol("a request in the wrong place")),
    })
}

//! Revisions in the public API: taken, listed, removed.
//!
//! Takes   messages, tags, names of revisions
//! Gives   revisions; the same whether this process owns the vault or another does

use std::time::{SystemTime, UNIX_EPOCH};

use strongroom_filesystem::Timestamp;
use strongroom_history::{self as history, Candidate, NewRevision, RevisionId, Taken};

use crate::limits::TRANSFER_BYTES_MAX;
use crate::port::unexpected;
use crate::request::{Request, Response};
use crate::request_history::{HistoryRequest, HistoryResponse, RevisionFields, RevisionInfo};
use crate::session::Session;
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
            HistoryResponse::Taken(taken) => Ok(taken.map(RevisionInfo::from)),
            HistoryResponse::Revisions(_) => Err(unexpected()),
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
                HistoryResponse::Taken(_) => return Err(unexpected()),
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

    fn ask_history(&self, request: HistoryRequest) -> Result<HistoryResponse> {
        match self.ask(&Request::History(request))? {
            (_, Response::History(response)) => Ok(response),
            _ => Err(unexpected()),
        }
    }
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
        HistoryRequest::Remove { id } => {
            kept.remove(filesystem, RevisionId(*id))?;
            return Ok(Response::Done);
        }
    };
    Ok(Response::History(response))
}

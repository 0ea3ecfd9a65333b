//! Carries out requests about revisions in the process that owns the vault.
//!
//! Takes   a session and a request
//! Gives   revisions; their differences, and the space that they hold; the result of a restore or an erasure

use strongroom_filesystem::{
    self as filesystem, Caller, Filesystem, HISTORY_INODE, InodeId, Taken, XattrMode,
};
use strongroom_history::{NewRevision, Retention, RevisionId, SHARED_RETENTION, SharedRetention};
use strongroom_sync::RemoteState;

use crate::execute::restore::restore;
use crate::execute::session::Session;
use crate::limits::{LIST_ENTRIES_MAX, REVISIONS_MAX, TRANSFER_BYTES_MAX};
use crate::observer::Change;
use crate::path::{Links, resolve};
use crate::request::Response;
use crate::request::history::{HistoryRequest, HistoryResponse, RevisionInfo};
use crate::{Error, Result};

/// The setting that keeps the rule for snapshots.                                                  [6.10.4]
pub(crate) const RETENTION: &str = "retention";

/// The setting that is not empty where nobody has set a rule although one is stored: then the shared rule counts, whatever it
/// keeps.                                                                                          [6.10.7]
pub(crate) const FOLLOWS: &str = "retention_follows";

/// The rule that counts here; `None` if none was set.                                              [6.10.7]
fn rule_in_force(filesystem: &Filesystem) -> Result<Option<Retention>> {
    let own = stored_rule(filesystem)?;
    let Some(shared) = shared_rule(filesystem)? else {
        return Ok(own);
    };
    let follows = filesystem
        .setting(FOLLOWS)?
        .is_some_and(|value| !value.is_empty());
    Ok(Some(match own {
        // A person here meant to keep what this rule keeps, and another one what the shared rule keeps.
        Some(own) if !follows => own.with(&shared.rule),
        _ => shared.rule,
    }))
}

/// The rule that was set last, on whichever device.                                                 [6.10.6]
fn shared_rule(filesystem: &Filesystem) -> Result<Option<SharedRetention>> {
    match filesystem.xattr(&Caller::root(), InodeId::ROOT, SHARED_RETENTION) {
        Err(filesystem::Error::NoAttribute) => Ok(None),
        value => Ok(SharedRetention::decode(&value?)),
    }
}

/// Shares a rule that was set here with the other devices; a vault without remotes has none.               [6.10.6]
fn share(session: &Session, rule: Retention) -> Result<()> {
    let filesystem = session.filesystem();
    let before = shared_rule(filesystem)?;
    let is_shared = before.is_some_and(|before| before.rule == rule);
    if is_shared || filesystem.engine().reader()?.remotes()?.is_empty() {
        return Ok(());
    }
    let device = session.vault.with_keys(|keys| keys.replica().device());
    let value = SharedRetention::after(before.as_ref(), device.0, rule).encode();
    let (caller, root) = (Caller::root(), InodeId::ROOT);
    filesystem.set_xattr(&caller, root, SHARED_RETENTION, &value, XattrMode::Set)?;
    Ok(())
}

/// The rule that was set here; `None` if none was.
pub(crate) fn stored_rule(filesystem: &Filesystem) -> Result<Option<Retention>> {
    let Some(bytes) = filesystem.setting(RETENTION)? else {
        return Ok(None);
    };
    let damaged = || Error::Damaged {
        what: "metadata.db",
        why: "the rule for snapshots is invalid; set it again with `strongroom snapshot keep`"
            .to_owned(),
    };
    Ok(Some(Retention::decode(&bytes).ok_or_else(damaged)?))
}

/// Tells who watches that `.history` lists others now.
pub(super) fn told(session: &Session) {
    session.tell(&[Change::Content {
        inode: HISTORY_INODE,
        offset: 0,
        len: u64::MAX,
    }]);
}

/// The same after content may have been erased: a mount keeps what was read of it.
pub(super) fn told_of_erased(session: &Session) {
    told(session);
    let content = |inode| Change::Content {
        inode,
        offset: 0,
        len: u64::MAX,
    };
    let held = session.filesystem().held_in_snapshots().into_iter();
    session.tell(&held.map(content).collect::<Vec<_>>());
}

/// Carries out a request about revisions.
pub(crate) fn execute(session: &Session, request: &HistoryRequest) -> Result<Response> {
    let (filesystem, records) = (session.filesystem(), &session.vault.records);
    let response = match request {
        HistoryRequest::Take {
            message,
            tags,
            only_if_changed,
        } => {
            let mut tags = tags.clone();
            tags.sort();
            let new = NewRevision {
                message: message.clone(),
                tags,
                only_if_changed: *only_if_changed,
            };
            let taken = records.take(filesystem, &new)?;
            told(session);
            HistoryResponse::Taken(match taken {
                Taken::New(revision) => Some(RevisionInfo::from(&*revision)),
                Taken::Unchanged => None,
            })
        }
        HistoryRequest::List { after } => list(session, after.as_ref())?,
        HistoryRequest::Differences {
            before,
            after,
            path,
            behind,
        } => {
            let behind = behind.as_deref();
            let limit = LIST_ENTRIES_MAX as usize;
            let sides = (before, after.as_ref());
            let page = filesystem
                .differences(sides, path, behind, limit)?
                .into_iter();
            // One path fits by far.
            HistoryResponse::Differences(fitting(page, |one| one.path.len() + 128))
        }
        HistoryRequest::Restore {
            id,
            path,
            to,
            message,
        } => {
            let restored = restore(session, &RevisionId(*id), path, to, message.as_deref());
            // It may have taken a snapshot, also where it failed.
            told(session);
            HistoryResponse::Restored(restored?)
        }
        HistoryRequest::Remove { id } => {
            remove(session, id)?;
            told(session);
            return Ok(().into());
        }
        HistoryRequest::LetGo { id } => {
            if is_needed(session, id)? {
                return Ok(false.into());
            }
            remove(session, id)?;
            told(session);
            return Ok(true.into());
        }
        HistoryRequest::Retention => {
            HistoryResponse::Retention(rule_in_force(filesystem)?.map(|rule| rule.encode()))
        }
        HistoryRequest::SharedRetention => {
            let shared = shared_rule(filesystem)?;
            HistoryResponse::Retention(shared.map(|shared| shared.rule.encode()))
        }
        HistoryRequest::SetRetention { rule } => {
            let why = "this rule keeps no snapshot";
            let rule = Retention::decode(rule)
                .ok_or(Error::File(filesystem::Error::InvalidArgument(why.into())))?;
            // First what is durable with the next setting only; and no crash leaves a shared rule in force alone that keeps less.
            share(session, rule)?;
            filesystem.keep_setting(RETENTION, &rule.encode())?;
            filesystem.keep_setting(FOLLOWS, &[])?;
            HistoryResponse::RuleSet
        }
        HistoryRequest::HeldAlone { ids } => {
            let ids: Vec<_> = ids.iter().copied().map(RevisionId).collect();
            HistoryResponse::HeldAlone(filesystem.held_alone(&ids)?)
        }
        HistoryRequest::EachHeldAlone { ids } => {
            let ids = ids.iter().copied().map(RevisionId);
            let ids: Vec<_> = ids.take(REVISIONS_MAX).collect();
            HistoryResponse::EachHeldAlone(filesystem.each_held_alone(&ids)?)
        }
        HistoryRequest::Usage => HistoryResponse::Usage(filesystem.usage()?),
        HistoryRequest::Erase { path, trial } => erase(session, path, *trial)?,
    };
    Ok(Response::History(response))
}

/// Removes a snapshot; what it went on from is remembered as long as a merge may need that.                      [6.7.4]
fn remove(session: &Session, id: &[u8; 32]) -> Result<()> {
    let filesystem = session.filesystem();
    session.vault.records.remove(filesystem, RevisionId(*id))?;
    let remotes = filesystem.engine().reader()?.remotes()?;
    let states = remotes.iter().map(|row| RemoteState::decode(&row.state));
    let heads: Option<Vec<_>> = states
        .map(|state| state.map(|state| RevisionId(state.head)))
        .collect();
    // Of a remote whose state is not known everything may be needed.
    match heads {
        Some(heads) => Ok(filesystem.forget_removed(&heads)?),
        None => Ok(()),
    }
}

/// Whether the next merge with a remote may need this snapshot as its base.
fn is_needed(session: &Session, id: &[u8; 32]) -> Result<bool> {
    // In this order: a push that ends in between has been noted.
    if session.vault.push_turns.are_about(id) {
        return Ok(true);
    }
    let remotes = session.filesystem().engine().reader()?.remotes()?;
    let mut states = remotes.iter().map(|row| RemoteState::decode(&row.state));
    Ok(states.any(|state| state.is_none_or(|state| state.head == *id)))
}

/// A page of revisions, behind `after`.
fn list(session: &Session, after: Option<&[u8; 32]>) -> Result<HistoryResponse> {
    let all = session.filesystem().revisions()?;
    let changed = || {
        let why = "the list of snapshots changed while it was read; try again";
        Error::Revision(why.to_owned())
    };
    let first = match after {
        None => 0,
        Some(after) => {
            let mut ids = all.iter().map(|revision| revision.id.0);
            ids.position(|id| id == *after).ok_or_else(changed)? + 1
        }
    };
    let page = all[first..].iter().map(|one| RevisionInfo::from(&**one));
    Ok(HistoryResponse::Revisions(fitting(
        page,
        RevisionInfo::len_on_its_way,
    )))
}

/// As many of `items` as one answer holds.
fn fitting<T>(items: impl Iterator<Item = T>, len: impl Fn(&T) -> usize) -> Vec<T> {
    let mut left = TRANSFER_BYTES_MAX;
    let fitting = items.take_while(|item| {
        let fits = len(item) <= left;
        left = left.saturating_sub(len(item));
        fits
    });
    fitting.collect()
}

/// Takes what was at `path` out of every snapshot; what is there now has to be removed first.
fn erase(session: &Session, path: &[u8], trial: bool) -> Result<HistoryResponse> {
    let filesystem = session.filesystem();
    match resolve(filesystem, &session.caller, path, Links::Stay) {
        Err(Error::File(filesystem::Error::NotFound | filesystem::Error::NotADirectory)) => {}
        Ok(_) => {
            let why = "the file still exists: remove it first (`strongroom rm`), then erase it from the snapshots";
            return Err(Error::File(filesystem::Error::InvalidArgument(why.into())));
        }
        Err(error) => return Err(error),
    }
    let erased = filesystem.erase_content(path, trial);
    if !trial {
        // Also if it could only not be noted for other devices.
        told_of_erased(session);
    }
    Ok(HistoryResponse::Erased(erased?))
}

//! Keeps the content on this device within a limit: evicts what was least recently read, once a sync has reached a remote.
//!
//! Takes   an open vault, a limit in bytes, and a remote that a sync has reached
//! Gives   content within nine tenths of the limit; evicted content returns when it is read
//! Never   asks a remote while content is within the limit, or while nothing can be evicted; evicts what is pinned, what that remote
//!         does not show, or what was just read
//! Spec    spec/11-sync.md, [11.9.9]
//!
//! Invariants
//!  (1) What is evicted was shown by the remote first, as for any other eviction: see `evict.rs`.               [11.9.1]
//!  (2) What somebody pins during an eviction is fetched again right after it.                                  [11.9.8]

use strongroom_format::hex;
use strongroom_remote::Remote;

use crate::evict::EvictReport;
use crate::remotes::RemoteProgress;
use crate::request::remote::{LimitLook, RemoteFields, RemoteRequest, SegmentFields, Spared};
use crate::request::{Request, WholeRequest};
use crate::{Error, GoOn, Result, Vault};

impl Vault {
    /// How many bytes of segments this device keeps at most; `None` if it keeps all that comes.
    ///
    /// # Errors
    /// `OwnerGone`.
    pub fn keep_at_most(&self) -> Result<Option<u64>> {
        Ok(self.information()?.keep_at_most)
    }

    /// Limits the bytes of segments that this device keeps, for this and every later opening; durable on return. Only this copy of the vault
    /// knows of it. Every sync then evicts what was least recently read, down to nine tenths of the limit, as far as its remote shows that
    /// it has it. What is pinned, what was not pushed, and the last `JUST_READ_SEGMENTS` that were read stay, whatever the limit is.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub fn set_keep_at_most(&self, bytes: Option<u64>) -> Result<()> {
        self.ask_for(&Request::Whole(WholeRequest::SetKeepAtMost { bytes }))
    }

    /// Evicts at once what a sync would evict for the limit; nothing if there is none. `kept` and `pinned` of the report are not counted.
    /// `told` hears of the progress and says whether to go on.
    ///
    /// # Errors
    /// Of the vault. What is wrong with a remote, and that it was stopped, is in the report.
    pub fn evict_to_limit(
        &self,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<EvictReport> {
        let _turn = self.shared.remote_turns.take()?;
        let mut report = EvictReport::default();
        for row in self.remote_rows()? {
            if report.is_stopped {
                break;
            }
            if self.above_limit(row.number, LimitLook::Now)?.is_empty() {
                continue;
            }
            let remote = self.connect(&row);
            let done =
                remote.and_then(|remote| self.evict_to_limit_at(&row, &*remote, &mut report, told));
            match done {
                Ok(()) => {}
                Err(error @ (Error::File(_) | Error::OwnerGone | Error::Closed)) => {
                    return Err(error);
                }
                Err(error) => report.problems.push(format!("{}: {error}", row.name)),
            }
        }
        Ok(report)
    }

    /// The same at a remote that was reached, in a turn of the caller.                                            (1)
    pub(crate) fn evict_to_limit_at(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        report: &mut EvictReport,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<()> {
        let mut chosen = self.above_limit(row.number, LimitLook::Now)?;
        if chosen.is_empty() {
            return Ok(());
        }
        let there = self.proven_at(row, remote)?;
        let before = report.segments;
        while !chosen.is_empty() {
            let information = self.information()?;
            let limit = information.keep_at_most.unwrap_or(u64::MAX);
            // A tenth becomes free at a time, so that a remote is not asked again for each further read.
            let target = limit - limit / 10;
            let mut left = information.here_bytes.saturating_sub(target);
            let total = report.bytes.saturating_add(left);
            chosen.retain(|one| {
                let goes = left > 0 && there.get(&hex::encode(&one.hash)) == Some(&one.len);
                if goes {
                    left = left.saturating_sub(one.len);
                }
                goes
            });
            let lot = (&chosen[..], Spared::JustRead);
            let gone = self.evict_proven((row, remote), lot, total, report, told)?;
            if report.is_stopped || gone.is_empty() {
                break;
            }
            chosen = self.above_limit(row.number, LimitLook::Now)?;
        }
        // Some of it may be at another remote, which cannot be reached now: that is no fault of this one. (2)
        if report.segments > before
            && let Err(error) = self.bring_pinned()
        {
            log::warn!("fetching what is pinned: {error}");
        }
        Ok(())
    }

    /// What may go for the limit and that remote is noted to have, least recently used first; nothing while content is within the limit.
    pub(crate) fn above_limit(&self, remote: u64, look: LimitLook) -> Result<Vec<SegmentFields>> {
        self.ask_for(&Request::Remote(RemoteRequest::AboveLimit { remote, look }))
    }
}

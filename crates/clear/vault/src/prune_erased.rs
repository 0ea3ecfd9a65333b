//! Removes erased content from a remote at once: a push that follows an erasure does this.
//!
//! Takes   a remote to which this vault has just pushed, and what was erased here
//! Gives   a remote without the objects that are not live there
//! Never   removes what a device with evicted content still needs, or anything at a remote where this device removes nothing
//! Spec    spec/6-history.md, section 6.11
//!
//! Invariants
//!  (1) The push before this pruning retires the segments that held erased content. They are removed after a publication that retires them
//!      again, like everything pruned. So the order of spec/11-sync.md, 11.8, holds. After an interruption the next push does the rest. [6.11.11]

use std::time::Duration;

use strongroom_remote::Remote;

use crate::prune::{PruneReport, Pruning, UNNAMED_MAX};
use crate::push::PushReport;
use crate::remote_log::Look;
use crate::remotes::RemoteProgress;
use crate::request::Request;
use crate::request::remote::{RemoteFields, RemoteRequest};
use crate::{Error, GoOn, Result, Vault};

impl Vault {
    /// A push where so much is known of the log; where content was erased, what does not count any more goes at once.
    pub(crate) fn push_knowing(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        known: (Look, Pruning),
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<(PushReport, PruneReport)> {
        let (mut report, mut pruned) = self.push_once(row, remote, known, told)?;
        if self.is_erased_due(row.number, remote)? {
            self.prune_erased(row, remote, (&mut report, &mut pruned), told)?;
        }
        Ok((report, pruned))
    }

    /// Whether erased content may be left at a remote, and can go from there now.
    fn is_erased_due(&self, number: u64, remote: &dyn Remote) -> Result<bool> {
        let row = self.remote_row(number)?;
        if !row.has_erased || row.keeps {
            return Ok(false);
        }
        // As long as somebody who let content go has not followed the last pruning, another one removes no more.        [11.9.3]
        let followed = match row.fence.0 {
            0 => None,
            _ => self.needed_up_to(&row, remote, row.last)?,
        };
        Ok(followed.is_none_or(|followed| followed >= row.fence.0))
    }

    /// Removes everything that is not live there, without a grace. What fails at the remote is left to the next push. (1)
    fn prune_erased(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        (report, pruned): (&mut PushReport, &mut PruneReport),
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<()> {
        let number = row.number;
        // What the push before noted counts.
        let row = self.remote_row(number)?;
        let grace = Duration::ZERO;
        let pruning = Pruning::Now { grace };
        let (pushed, gone) = match self.push_once(&row, remote, (Look::Lists, pruning), told) {
            // The push is done.
            Err(error @ (Error::Remote(_) | Error::RemoteAhead)) => {
                log::warn!("erased content is still at a remote until the next push: {error}");
                return Ok(());
            }
            done => done?,
        };
        report.objects += pushed.objects;
        report.bytes += pushed.bytes;
        report.publications += pushed.publications;
        pruned.objects += gone.objects;
        pruned.bytes += gone.bytes;
        (pruned.waiting, pruned.waiting_bytes) = (gone.waiting, gone.waiting_bytes);
        (pruned.kept, pruned.kept_bytes) = (gone.kept, gone.kept_bytes);
        // What a server keeps for some days goes with a later pruning.
        if gone.waiting == 0 && gone.objects < UNNAMED_MAX as u64 {
            // What was erased since is due again: a push that was cut may have left it there without a name.
            let (remote, erased) = (number, row.erased);
            let request = RemoteRequest::NotePruned { remote, erased };
            self.ask_for::<()>(&Request::Remote(request))?;
        }
        Ok(())
    }
}

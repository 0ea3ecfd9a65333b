//! What an open vault remembers of its looks at inboxes, so that it sends few requests and reports each thing once.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use strongroom_format::deposit::DepositId;

use crate::inbox_state::InboxState;
use crate::limits::PIECES_LOOKED_FOR;

/// By the numbers of remotes.
#[derive(Debug, Default)]
pub(crate) struct InboxLooks {
    /// What had been taken in when deposits were removed there last.
    cleared: HashMap<u64, InboxState>,
    /// When pieces without an envelope were looked for there last.
    pieces: HashMap<u64, Instant>,
    /// The newest epoch when addresses of earlier ones were withdrawn there last.
    withdrawn: HashMap<u64, u32>,
    /// The last state of which it was looked whether a deposit is there twice.
    settled: Option<InboxState>,
    /// Deposits of which was said why they do not come.
    said: HashSet<DepositId>,
    /// Deposits that are noted, and were found gone from their remotes.
    gone: HashSet<DepositId>,
}

impl InboxLooks {
    /// A remote lists these; gives what of all that `state` notes is known to be gone from its remote, whichever that is: at most as many
    /// as are noted.                                                                                          [12.6.6]
    pub(crate) fn gone_after(
        &mut self,
        state: &InboxState,
        remote: &[u8; 16],
        listed: &HashSet<DepositId>,
    ) -> HashSet<DepositId> {
        let noted = state.received.iter().map(|one| one.deposit);
        let noted: HashSet<DepositId> = noted.collect();
        // A depositor may have created one again.
        self.gone
            .retain(|id| noted.contains(id) && !listed.contains(id));
        let here = state.received.iter();
        let here = here.filter(|one| one.remote.as_ref() == Some(remote));
        let gone = here.map(|one| one.deposit);
        self.gone.extend(gone.filter(|id| !listed.contains(id)));
        self.gone.clone()
    }

    /// Whether of that state it was looked whether a deposit is there twice.
    pub(crate) fn is_settled(&self, state: &InboxState) -> bool {
        self.settled.as_ref() == Some(state)
    }

    /// Of that state it was looked.
    pub(crate) fn note_settled(&mut self, state: InboxState) {
        self.settled = Some(state);
    }

    /// Whether something was taken in since deposits were removed from that remote last.
    pub(crate) fn is_due(&self, remote: u64, state: &InboxState) -> bool {
        self.cleared.get(&remote) != Some(state)
    }

    /// Deposits were removed from that remote.
    pub(crate) fn note_cleared(&mut self, remote: u64, state: &InboxState) {
        self.cleared.insert(remote, state.clone());
    }

    /// Whether pieces without an envelope are to be looked for at that remote; then not again for a while.
    pub(crate) fn looks_for_pieces(&mut self, remote: u64, now: Instant) -> bool {
        let is_due = |last: &Instant| now.duration_since(*last) >= PIECES_LOOKED_FOR;
        let is_due = self.pieces.get(&remote).is_none_or(is_due);
        if is_due {
            self.pieces.insert(remote, now);
        }
        is_due
    }

    /// Whether all addresses of epochs before `newest` were withdrawn at that remote.
    pub(crate) fn has_withdrawn(&self, remote: u64, newest: u32) -> bool {
        self.withdrawn.get(&remote) == Some(&newest)
    }

    /// They were.
    pub(crate) fn note_withdrawn(&mut self, remote: u64, newest: u32) {
        self.withdrawn.insert(remote, newest);
    }

    /// Whether nothing was said of that deposit yet.
    pub(crate) fn is_news(&mut self, deposit: DepositId) -> bool {
        self.said.insert(deposit)
    }
}

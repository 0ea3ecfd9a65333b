//! The two sides of a pairing, each with what it has learned from the other so far.

use std::sync::Arc;

use strongroom::{Admitted, Asking, Candidate, Invitation, NewDevice, PAIRING_TRIES, Vault};

/// A device of a vault that shows a code.
pub(crate) struct Inviting {
    pub(crate) vault: Vault,
    pub(crate) invitation: Invitation,
    /// Who asks to be let in.
    pub(crate) candidate: Option<Candidate>,
    /// How many wrong codes may still be tried.
    pub(crate) tries_left: usize,
}

impl Inviting {
    pub(crate) fn new(vault: Vault, invitation: Invitation) -> Self {
        Self {
            vault,
            invitation,
            candidate: None,
            tries_left: PAIRING_TRIES,
        }
    }
}

/// A device that wants to be one of a vault.
pub(crate) struct Joining {
    pub(crate) device: Arc<NewDevice>,
    /// Its question, until it was answered.
    pub(crate) asking: Option<Asking>,
    /// That it was let in.
    pub(crate) admitted: Option<Admitted>,
}

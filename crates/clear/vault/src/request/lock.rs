//! The kind of lock that a request asks for.
//!
//! Takes   what a program asks for
//! Gives   values that are sent with `request.rs`, under its protocol version

use serde::{Deserialize, Serialize};

/// Whom a lock keeps out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LockKind {
    /// Those who want it exclusively.
    Shared,
    /// Everybody else.
    Exclusive,
}

/// What to do while somebody else has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Patience {
    None,
    /// Waits a moment, and gives the lock then or says that somebody else has it.
    AMoment,
}

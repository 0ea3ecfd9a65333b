//! The greeting: the first messages of a client and the owner on a connection.
//!
//! Takes   nothing
//! Gives   values that are sent before those of `request.rs`, under the same protocol version
//! Never   carries a key

use serde::{Deserialize, Serialize};

/// The first message of every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) protocol: u32,
    /// The session to join with a further connection, else `None`.
    pub(crate) session: Option<u64>,
    pub(crate) access: Access,
    /// Whether the client could open the vault by itself if the owner left.
    pub(crate) successor: Successor,
}

/// The owner's answer to a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Welcome {
    /// Taken in.
    Session(u64),
    /// The owner speaks another version.
    OtherVersion,
    /// The session to join has ended, or was another owner's.
    UnknownSession,
    /// The owner serves as many as it can.
    Full,
}

/// What a session may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Everything.
    ReadWrite,
    /// Nothing that changes the vault.
    ReadOnly,
}

/// Whether a client could open the vault by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Successor {
    HasSecret,
    HasNone,
}

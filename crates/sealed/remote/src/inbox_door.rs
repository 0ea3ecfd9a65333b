//! The inbox of a vault at a server, as a depositor uses it: it creates objects there, and does nothing else.
//!
//! Takes   the token of an address; names and bytes of deposits that are already sealed
//! Gives   the document of the address; whether an object was created
//! Never   reads anything else, lists or removes anything, or shows the token
//! Spec    spec/12-inbox.md, section 12.5

use std::fmt;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::protocol::ADDRESS_OBJECT_BYTES_MAX;
use crate::remote::Created;
use crate::server_remote::ServerRemote;

/// An inbox, and what lets somebody deposit there.
pub struct InboxDoor {
    server: ServerRemote,
    token: String,
}

impl fmt::Debug for InboxDoor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "InboxDoor({:?})", self.server)
    }
}

impl InboxDoor {
    pub(crate) fn new(server: ServerRemote, token: String) -> Self {
        Self { server, token }
    }

    /// What is shown to the server: to compare the document with it.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The document of the address, as the server has it.
    ///
    /// # Errors
    /// `Refused` if it is no address, or not any more; `TooLong`; `Unreachable`.
    pub fn document(&self) -> Result<Vec<u8>> {
        let document = self.server.read_at("inbox", ADDRESS_OBJECT_BYTES_MAX)?;
        match document.len() as u64 > ADDRESS_OBJECT_BYTES_MAX {
            true => Err(Error::TooLong {
                name: "inbox".to_owned(),
                max: ADDRESS_OBJECT_BYTES_MAX,
            }),
            false => Ok(document),
        }
    }

    /// Creates an envelope or a piece; durable on return. A request whose answer was lost may be repeated: then its own object is
    /// `AlreadyThere`.
    ///
    /// # Errors
    /// As `document`; `Quota` if the inbox has no room.
    pub fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Created> {
        self.server
            .put_at(&format!("inbox/{name}"), &Bytes::from(bytes))
    }
}

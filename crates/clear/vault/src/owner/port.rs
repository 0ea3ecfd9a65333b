//! The one way from the public API to the file system: in this process, or in the process that owns the vault.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::execute::content;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::owner::Owner;
use crate::owner::client::{Client, Unanswered};
use crate::request::{Handle, Request, Response};
use crate::{Error, Result};

/// Where requests go.
#[derive(Clone)]
pub(crate) enum Port {
    /// This process owns the vault.
    Owner(Arc<Owner>),
    /// Another does.
    Client(Arc<Client>),
    /// This process did, and left it to somebody who asked.
    Left,
    /// Closed by this process.
    Closed,
}

impl Port {
    /// Asks; `Unanswered` says whether asking elsewhere is safe.
    pub(crate) fn ask(&self, request: &Request<'_>) -> std::result::Result<Response, Unanswered> {
        match self {
            Self::Owner(owner) => owner.execute(request).map_err(Unanswered::Failed),
            Self::Client(client) => match client.ask(request)? {
                Response::Failed(failure) => Err(Unanswered::Failed(failure.into())),
                Response::OperationFailed(index, failure) => {
                    Err(Unanswered::Failed(Error::Operation {
                        index: index as usize,
                        error: Box::new(failure.into()),
                    }))
                }
                response => Ok(response),
            },
            Self::Left => Err(Unanswered::NotDone),
            Self::Closed => Err(Unanswered::Failed(Error::Closed)),
        }
    }

    /// Asks about something that only this port's session knows: a handle.
    pub(crate) fn ask_here(&self, request: &Request<'_>) -> Result<Response> {
        self.ask(request).map_err(|unanswered| match unanswered {
            Unanswered::NotDone | Unanswered::Unknown => Error::OwnerGone,
            Unanswered::Failed(error) => error,
        })
    }

    /// Reads into `buffer`, at most `TRANSFER_BYTES_MAX` bytes; here without a copy on the way.
    pub(crate) fn read(
        &self,
        handle: Handle,
        offset: u64,
        buffer: &mut [u8],
    ) -> std::result::Result<usize, Unanswered> {
        let len = buffer.len().min(TRANSFER_BYTES_MAX);
        if let Self::Owner(owner) = self {
            if owner.session.vault.is_closed() {
                return Err(Unanswered::Failed(Error::Closed));
            }
            return content::read(&owner.session, handle, offset, &mut buffer[..len])
                .map_err(Unanswered::Failed);
        }
        let len = u32::try_from(len).expect("TRANSFER_BYTES_MAX fits 32 bits");
        match self.ask(&Request::Read {
            handle,
            offset,
            len,
        })? {
            Response::Data(data) if data.0.len() <= len as usize => {
                buffer[..data.0.len()].copy_from_slice(&data.0);
                Ok(data.0.len())
            }
            _ => Err(Unanswered::Failed(unexpected())),
        }
    }

    /// Notes that a sync of the whole vault through this port covered the first `count` writes of this process.
    pub(crate) fn note_synced(&self, count: u64) {
        if let Self::Client(client) = self {
            client.synced.fetch_max(count, Ordering::AcqRel);
        }
    }

    /// How many writes of this process through this port are durable for certain.
    pub(crate) fn synced(&self) -> u64 {
        match self {
            Self::Client(client) if client.has_left.load(Ordering::Acquire) => u64::MAX,
            Self::Client(client) => client.synced.load(Ordering::Acquire),
            _ => 0,
        }
    }

    /// Whether the owner that this led to is known to have gone.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Client(client) => client.is_gone(),
            Self::Left => true,
            Self::Owner(_) | Self::Closed => false,
        }
    }

    /// Whether both lead to the same session, so that handles of one mean something to the other.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Owner(one), Self::Owner(two)) => Arc::ptr_eq(one, two),
            (Self::Client(one), Self::Client(two)) => Arc::ptr_eq(one, two),
            (Self::Left, Self::Left) => true,
            _ => false,
        }
    }
}

/// An answer of a kind that does not belong to the question.
pub(crate) fn unexpected() -> Error {
    Error::Protocol("an answer to a different request")
}

//! The marker: the object with a fixed name that says which vault a remote belongs to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strongroom_format::publication::RemoteId;
use strongroom_format::{VaultId, hex};
use strongroom_remote::{Address, Created, ObjectName, Remote};

use crate::error::{Error, Result};
use crate::limits::MARKER_BYTES_MAX;
use crate::names::MARKER;

/// The format of remotes that this version writes.
const FORMAT: u64 = 1;

/// Whose remote it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The vault.
    pub vault: VaultId,
    /// The remote itself: a random id.
    pub remote: RemoteId,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    format: u64,
    vault: String,
    remote: String,
}

impl Marker {
    /// What the remote says that it is; `None` if it says nothing.
    ///
    /// # Errors
    /// `NewerFormat`, `Damaged`; those of the remote.
    pub fn read(remote: &dyn Remote) -> Result<Option<Self>> {
        let name = ObjectName::new(MARKER)?;
        let Some(bytes) = remote.read(&name, MARKER_BYTES_MAX)? else {
            return Ok(None);
        };
        let damaged = || Error::damaged(MARKER, "it does not name the vault of the remote");
        let json: serde_json::Value = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        match json.get("format").and_then(serde_json::Value::as_u64) {
            Some(FORMAT) => {}
            Some(found) => return Err(Error::NewerFormat { found }),
            None => return Err(damaged()),
        }
        let json: Json = serde_json::from_value(json).map_err(|_| damaged())?;
        let vault = hex::decode(&json.vault).ok_or_else(damaged)?;
        let remote = hex::decode(&json.remote).ok_or_else(damaged)?;
        Ok(Some(Self {
            vault: VaultId(vault),
            remote: RemoteId(remote),
        }))
    }

    /// The remote at `address`, which says that it is this one of this vault.
    ///
    /// # Errors
    /// As `check`; those of the address.
    pub fn reach(self, address: &str) -> Result<Arc<dyn Remote>> {
        let remote = Address::parse(address)?.open()?;
        self.check(&*remote)?;
        Ok(remote)
    }

    /// Refuses a remote that does not say that it is this one of this vault.
    ///
    /// # Errors
    /// `Missing`, `OtherVault`, `OtherRemote`; those of `read`.
    pub fn check(self, remote: &dyn Remote) -> Result<()> {
        // It was there when the remote was added.
        let found = Self::read(remote)?.ok_or_else(|| Error::Missing {
            object: MARKER.to_owned(),
        })?;
        if found.vault != self.vault {
            return Err(Error::OtherVault);
        }
        match found.remote == self.remote {
            true => Ok(()),
            false => Err(Error::OtherRemote),
        }
    }

    /// Makes an empty remote this vault's; gives what it is then, which another may have said first.
    ///
    /// # Errors
    /// `OtherVault` if another vault has it; those of `read`.
    pub fn write(self, remote: &dyn Remote) -> Result<Self> {
        let json = Json {
            format: FORMAT,
            vault: hex::encode(&self.vault.0),
            remote: hex::encode(&self.remote.0),
        };
        let mut bytes = serde_json::to_vec_pretty(&json).expect("strings and a number are JSON");
        bytes.push(b'\n');
        let found = match remote.create(&ObjectName::new(MARKER)?, bytes)? {
            Created::New => self,
            Created::AlreadyThere => Self::read(remote)?.ok_or(Error::NoVault)?,
        };
        match found.vault == self.vault {
            true => Ok(found),
            false => Err(Error::OtherVault),
        }
    }
}

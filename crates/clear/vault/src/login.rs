//! Asks the process that has the keys of the vault to sign logins at servers.
//!
//! Takes   challenges of servers
//! Gives   the signatures of the owner of the vault
//! Never   has a key, or keeps the vault open
//! Spec    spec/11-sync.md, section 11.11

use std::fmt;
use std::sync::{Arc, Weak};

use strongroom_remote::{
    Challenge, Error as RemoteError, LoginAs, Result as Answer, SignedLogin, Signer,
};

use crate::Vault;
use crate::request::Request;
use crate::request::frame::Bytes;
use crate::request::remote::{LoginFields, RemoteRequest};
use crate::vault::Shared;

/// The owner of an open vault, who signs for it. It does not keep the vault open.
struct OwnersLogin(Weak<Shared>);

impl fmt::Debug for OwnersLogin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("OwnersLogin")
    }
}

impl Signer for OwnersLogin {
    fn sign(&self, role: LoginAs, challenge: &Challenge<'_>) -> Answer<Option<SignedLogin>> {
        let other = |error: crate::Error| RemoteError::Other(error.to_string());
        let shared = self.0.upgrade().ok_or(crate::Error::Closed);
        let vault = Vault {
            shared: shared.map_err(other)?,
        };
        let request = RemoteRequest::SignLogin {
            as_slot: role == LoginAs::Slot,
            server: Bytes(challenge.server.as_bytes()),
            account: Bytes(challenge.account.as_bytes()),
            vault: Bytes(challenge.vault.as_bytes()),
            nonce: challenge.nonce,
            issued_s: challenge.issued_s,
            valid_s: challenge.valid_s,
            records: challenge.records,
        };
        let signed: Option<LoginFields> =
            vault.ask_for(&Request::Remote(request)).map_err(other)?;
        signed.map(LoginFields::signed).transpose().map_err(other)
    }
}

impl Vault {
    /// What logs in at servers for this vault.
    pub(crate) fn login(&self) -> Arc<dyn Signer> {
        Arc::new(OwnersLogin(Arc::downgrade(&self.shared)))
    }
}

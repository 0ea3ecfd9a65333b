//! Signs logins at servers with the keys of this process.
//!
//! Takes   challenges of servers
//! Gives   signatures as the device of this copy, or as the key slot that opened it
//! Never   gives a key to the caller, signs anything but a login, or waits for a change of keys
//! Spec    spec/11-sync.md, section 11.11

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use strongroom_crypto::{Keyring, LoginSigner, LoginTerms};
use strongroom_format::Role;
use strongroom_remote::{Challenge, LoginAs, Result, SignedLogin, Signer};

/// The keys of this process that log in. Beside the keys of the vault, not behind their lock: who changes them waits for those who read,
/// and who reads may fetch from a server.
#[derive(Default)]
pub(crate) struct OwnLogin(Mutex<Vec<LoginSigner>>);

impl fmt::Debug for OwnLogin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("OwnLogin")
    }
}

impl OwnLogin {
    /// Those of `keyring`.
    pub(crate) fn of(keyring: &Keyring) -> Arc<Self> {
        let login = Self::default();
        login.set(keyring, None);
        Arc::new(login)
    }

    /// From now on those of `keyring`, and of the slot that opened the vault, while it is kept.
    pub(crate) fn set(&self, keyring: &Keyring, slot: Option<&Keyring>) {
        let signers = [Some(keyring), slot].into_iter().flatten();
        *self.0.lock() = signers.map(Keyring::login_signer).collect();
    }
}

impl Signer for OwnLogin {
    fn sign(&self, role: LoginAs, challenge: &Challenge<'_>) -> Result<Option<SignedLogin>> {
        let role = match role {
            LoginAs::Device => Role::Device,
            LoginAs::Slot => Role::Slot,
        };
        let signer = {
            let signers = self.0.lock();
            let mut signers = signers.iter();
            signers.find(|one| one.role() == Some(role)).cloned()
        };
        Ok(signer.map(|signer| SignedLogin {
            principal: signer.principal().0,
            signature: signer.sign(&LoginTerms {
                server: challenge.server,
                account: challenge.account,
                name: challenge.vault,
                nonce: challenge.nonce,
                issued_s: challenge.issued_s,
                valid_s: challenge.valid_s,
            }),
            records: signer.records_behind(challenge.records),
        }))
    }
}

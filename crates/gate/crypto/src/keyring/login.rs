//! Signs logins at a server, as the device or the key slot of a keyring.
//!
//! Takes   the challenge of the server, and the address at which the server was reached
//! Gives   a signature, and the membership records that the server has not noted
//! Never   shows a secret key, or signs anything else: a login has a label of its own
//! Spec    spec/11-sync.md, section 11.11

use crate::keyring::Keyring;
use crate::membership::principal::Principal;
use strongroom_format::{PrincipalId, Record, Role, VaultId};
use strongroom_membership::login::Statement;

/// A member of one vault that logs in at servers.
#[derive(Clone)]
pub struct LoginSigner {
    principal: Principal,
    role: Option<Role>,
    vault: VaultId,
    records: Vec<Record>,
}

/// A challenge, with where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginTerms<'a> {
    /// The server, as it was reached.
    pub server: &'a str,
    /// The account there.
    pub account: &'a str,
    /// What the vault is called there.
    pub name: &'a str,
    /// The random bytes of the challenge.
    pub nonce: [u8; 32],
    /// When it was issued, by the clock of the server, in seconds since 1970.
    pub issued_s: u64,
    /// How many seconds it is valid.
    pub valid_s: u64,
}

impl std::fmt::Debug for LoginSigner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "LoginSigner({:?})", self.principal)
    }
}

impl LoginSigner {
    /// As what it is a member; `None` if it is none any more.
    #[must_use]
    pub const fn role(&self) -> Option<Role> {
        self.role
    }

    /// Who signs.
    #[must_use]
    pub const fn principal(&self) -> PrincipalId {
        self.principal.id()
    }

    /// The signature over a login on these terms.
    #[must_use]
    pub fn sign(&self, terms: &LoginTerms<'_>) -> [u8; 64] {
        self.principal.sign_login(&Statement {
            server: terms.server,
            account: terms.account,
            name: terms.name,
            vault: self.vault,
            principal: self.principal.id(),
            nonce: terms.nonce,
            issued_s: terms.issued_s,
            valid_s: terms.valid_s,
        })
    }

    /// The membership records behind the first `known` ones, oldest first.                          [11.11.4]
    #[must_use]
    pub fn records_behind(&self, known: u64) -> Vec<Vec<u8>> {
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        self.records
            .iter()
            .skip(known)
            .map(Record::encode)
            .collect()
    }
}

impl Keyring {
    /// What logs in as who signs with this keyring.
    #[must_use]
    pub fn login_signer(&self) -> LoginSigner {
        let member = self.membership.active().get(&self.signer.id());
        LoginSigner {
            principal: self.signer.clone(),
            role: member.map(|member| member.role),
            vault: self.vault_id(),
            records: self.header.records.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::genesis::create;
    use crate::keyring::slot::{NewKey, NewSlot, Secret};
    use crate::keyring::unlock::unlock;
    use crate::random::SystemRandom;
    use crate::secrets::key_file::KeyFile;
    use strongroom_format::SuiteId;
    use strongroom_membership::by_dalek;

    fn terms() -> LoginTerms<'static> {
        LoginTerms {
            server: "server.example",
            account: "anna",
            name: "photos",
            nonce: [1; 32],
            issued_s: 2,
            valid_s: 3,
        }
    }

    /// Goal: who verifies with public records alone knows who logged in. Method: the device that made a vault, and its slot.
    #[test]
    fn a_device_and_a_slot_log_in_as_what_the_chain_says() {
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let slot = NewSlot {
            label: "file".to_owned(),
            key: NewKey::KeyFile(key_file.clone()),
        };
        let made = create(&[slot], SuiteId::Aes256GcmBlake3, &SystemRandom, 1).unwrap();
        let by_slot = unlock(&made.header, &Secret::KeyFile(key_file), None).unwrap();
        for (keyring, role) in [(&made.keyring, Role::Device), (&by_slot, Role::Slot)] {
            let signer = keyring.login_signer();
            assert_eq!(signer.role(), Some(role));
            let member = &keyring.membership.active()[&signer.principal()];
            let terms = terms();
            let statement = Statement {
                server: terms.server,
                account: terms.account,
                name: terms.name,
                vault: keyring.vault_id(),
                principal: signer.principal(),
                nonce: terms.nonce,
                issued_s: terms.issued_s,
                valid_s: terms.valid_s,
            };
            let key = &member.keys.signing;
            assert!(statement.is_signed_by(key, &signer.sign(&terms), &by_dalek));
            let later = LoginTerms {
                issued_s: 4,
                ..terms
            };
            assert!(!statement.is_signed_by(key, &signer.sign(&later), &by_dalek));
            assert_eq!(signer.records_behind(1), Vec::<Vec<u8>>::new());
            let all: Vec<_> = signer.records_behind(0);
            assert_eq!(all, [keyring.header.records[0].encode()]);
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let slot = NewSlot {
            label: "file".to_owned(),
            key: NewKey::KeyFile(key_file),
        };
        let made = create(&[slot], SuiteId::Aes256GcmBlake3, &SystemRandom, 1).unwrap();
        let shown = format!("{:?}", made.keyring.login_signer());
        assert!(shown.starts_with("LoginSigner(Principal("), "{shown}");
    }
}

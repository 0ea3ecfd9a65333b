//! Lets devices and key slots of a vault log in.
//!
//! Takes   a signed challenge, and membership records that the server has not noted
//! Gives   the member that logs in; from the first login of a vault on, the server follows the vault
//! Never   believes records that no member signed, or notes records that only a login carried
//! Spec    spec/11-sync.md, section 11.11
//!
//! Verifying a chain takes up to a quarter of a second, and a first login verifies the chains of up to `FIRST_HEADERS`
//! headers: `app.rs` bounds how many logins are verified at a time.

use serde::Deserialize;
use strongroom_format::limits::{HEADER_BYTES_MAX, RECORDS_MAX};
use strongroom_format::{PrincipalId, Record, Role, VaultId, hex};
use strongroom_membership::by_dalek;
use strongroom_membership::login::Statement;
use strongroom_remote::SignedLogin;
use strongroom_remote::protocol::{LOGIN_RECORDS_MAX, Refusal};

use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::header_chain::HeaderChain;
use crate::ledger::VaultKey;
use crate::ledger::chains::Noted;
use crate::limits::MARKER_BYTES_MAX;
use crate::rights::{Asker, Shown};
use crate::store::Store;

const _: () = assert!(
    LOGIN_RECORDS_MAX == RECORDS_MAX,
    "whoever logs in may have to show all records of a header"
);

/// What was signed, but for what the server knows of the vault.
#[derive(Clone, Debug)]
pub(crate) struct At {
    /// The server, as the one who logs in reached it: a name of this server.
    pub(crate) server: String,
    pub(crate) account: String,
    pub(crate) nonce: [u8; 32],
    pub(crate) issued_s: u64,
    pub(crate) valid_s: u64,
}

/// What of a marker counts here.
#[derive(Deserialize)]
struct Marker {
    vault: String,
}

impl Store {
    /// How many membership records of a vault are noted; 0 if it is not followed.
    ///
    /// # Errors
    /// `NoHeader` if nobody can log in yet.
    pub(crate) fn records_noted(&self, vault: &VaultKey) -> Result<u64> {
        match self.ledger.noted(vault)? {
            Some(noted) => Ok(noted.count() as u64),
            None if self.ledger.newest_headers(vault)?.is_empty() => Err(Refusal::NoHeader.into()),
            None => Ok(0),
        }
    }

    /// Who made a login.
    ///
    /// # Errors
    /// `Refused`: `DeviceRemoved`, `NotMember`, `OtherMembers`, `WrongLogin`; `NoHeader`.
    pub(crate) fn log_in(&self, vault: &VaultKey, at: &At, signed: &SignedLogin) -> Result<Asker> {
        match self.ledger.noted(vault)? {
            Some(noted) => self.log_in_noted(vault, &noted, at, signed),
            None => self.log_in_first(vault, at, signed),
        }
    }

    /// Into a vault that is followed.
    fn log_in_noted(
        &self,
        vault: &VaultKey,
        noted: &Noted,
        at: &At,
        signed: &SignedLogin,
    ) -> Result<Asker> {
        let id = VaultId(noted.vault());
        if let Some(principal) = self.ledger.principal(vault, &signed.principal)? {
            if principal.role.is_none() {
                return Err(Refusal::DeviceRemoved.into());
            }
            check_signature(vault, id, at, signed, &principal.signing)?;
            return Ok(Asker::Principal {
                id: signed.principal,
                shown: None,
            });
        }
        if signed.records.is_empty() {
            return Err(Refusal::NotMember.into());
        }
        let file = self.ledger.find(vault, &noted.header)?;
        let lost = || Error::Lost("a header whose members are noted".to_owned());
        let file = file.ok_or_else(lost)?.file;
        let bytes = self.bytes(file, HEADER_BYTES_MAX as u64)?;
        // What was noted was verified: who damaged it since is named in the log. Records that are shown go on from what was noted, not from
        // whatever is in the file now.
        let chain = HeaderChain::of_header(&bytes).ok();
        let chain = chain.filter(|chain| chain.ids() == noted.ids);
        let chain = chain.ok_or_else(|| Error::Lost(file.to_string()))?;
        let role = role_shown(vault, chain, noted.count(), at, signed)?;
        let head = noted.head();
        Ok(Asker::Principal {
            id: signed.principal,
            shown: Some(Shown { head, role }),
        })
    }

    /// Into a vault that has headers and is not followed: it is, once a member has logged in.        [11.11.5]
    fn log_in_first(&self, vault: &VaultKey, at: &At, signed: &SignedLogin) -> Result<Asker> {
        let headers = self.ledger.newest_headers(vault)?;
        let longest = self.longest(vault, &headers)?;
        let (header, chain) = longest.ok_or(Refusal::NoHeader)?;
        let principal = PrincipalId(signed.principal);
        if chain.chain.retired().any(|retired| retired == principal) {
            return Err(Refusal::DeviceRemoved.into());
        }
        let is_noted = chain.chain.active().contains_key(&principal);
        let head = chain.chain.head().0;
        let role = role_shown(vault, chain.clone(), 0, at, signed)?;
        self.ledger.follow(vault, (header, &headers), &chain)?;
        Ok(Asker::Principal {
            id: signed.principal,
            shown: (!is_noted).then_some(Shown { head, role }),
        })
    }

    /// The longest chain of these headers, of the vault that the marker names, and the header that has it.
    fn longest<'h>(
        &self,
        vault: &VaultKey,
        headers: &'h [(String, FileId)],
    ) -> Result<Option<(&'h str, HeaderChain)>> {
        let Some(marker) = self.ledger.marker(vault)? else {
            return Ok(None);
        };
        let marker = self.unless_removed(marker, MARKER_BYTES_MAX)?;
        let marker: Option<Marker> = serde_json::from_slice(&marker).ok();
        let Some(id) = marker.and_then(|marker| hex::decode(&marker.vault)) else {
            return Ok(None);
        };
        let mut longest: Option<(&str, HeaderChain)> = None;
        for (name, file) in headers {
            let bytes = self.unless_removed(*file, HEADER_BYTES_MAX as u64)?;
            // What was put there before the vault was followed need not be a header.
            let Ok(chain) = HeaderChain::of_header(&bytes) else {
                continue;
            };
            let is_longer = longest
                .as_ref()
                .is_none_or(|(_, other)| other.chain.count() < chain.chain.count());
            if chain.vault() == VaultId(id) && is_longer {
                longest = Some((name.as_str(), chain));
            }
        }
        Ok(longest)
    }

    /// The bytes of an object of a vault that is not followed: whoever has the token of the account may remove it meanwhile.
    ///
    /// # Errors
    /// `Busy` then; `Lost` if the object is there without its bytes.
    fn unless_removed(&self, file: FileId, bytes_max: u64) -> Result<Vec<u8>> {
        match self.bytes(file, bytes_max) {
            Err(Error::Lost(_)) if !self.ledger.has_file(file)? => Err(Refusal::Busy.into()),
            bytes => bytes,
        }
    }
}

/// As what the one who signed is a member, once the records from `from` on that they showed are taken in.        [11.11.4]
fn role_shown(
    vault: &VaultKey,
    chain: HeaderChain,
    from: usize,
    at: &At,
    signed: &SignedLogin,
) -> Result<Role> {
    let records = signed.records.iter().map(|bytes| Record::decode(bytes));
    let records: std::result::Result<Vec<_>, _> = records.collect();
    let records = records.map_err(|_| Refusal::OtherMembers)?;
    let chain = chain.with(from, &records)?.chain;
    let principal = PrincipalId(signed.principal);
    let member = chain.active().get(&principal).ok_or(Refusal::NotMember)?;
    check_signature(vault, chain.vault(), at, signed, &member.keys.signing)?;
    Ok(member.role)
}

/// Refuses what was not signed with the key of that public key, or says something else.              [11.11.2]
fn check_signature(
    vault: &VaultKey,
    id: VaultId,
    at: &At,
    signed: &SignedLogin,
    public_key: &[u8; 32],
) -> Result<()> {
    let statement = Statement {
        server: &at.server,
        account: &at.account,
        name: &vault.name,
        vault: id,
        principal: PrincipalId(signed.principal),
        nonce: at.nonce,
        issued_s: at.issued_s,
        valid_s: at.valid_s,
    };
    match statement.is_signed_by(public_key, &signed.signature, &by_dalek) {
        true => Ok(()),
        false => Err(Refusal::WrongLogin.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use strongroom_remote::ObjectName;

    use super::*;
    use crate::ledger::Quota;
    use crate::store::Use;
    use crate::token::TokenHash;

    /// Goal: what somebody removes while a login reads it is no damage of the server. Failed before: the log named a lost object, and the answer
    /// was that the server failed.
    #[test]
    fn what_was_removed_meanwhile_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_folder(folder.path(), Use::Serving).unwrap();
        let token = TokenHash::of("srt-00");
        let ledger = &store.ledger;
        ledger.add_account("anna", token, Quota::default()).unwrap();
        let vault = VaultKey {
            account: ledger.account("anna").unwrap().id,
            name: "v".to_owned(),
        };
        let (by, file) = ((&vault, &Asker::Account), FileId::random().unwrap());
        let name = ObjectName::new("headers/a").unwrap();
        ledger.add(by, &name, (file, 1), None).unwrap();
        let lost = store.unless_removed(file, 9);
        assert!(matches!(lost, Err(Error::Lost(_))), "{lost:?}");
        ledger.remove(by, &name, |_, _, _| Ok(())).unwrap();
        let removed = store.unless_removed(file, 9);
        let is_busy = matches!(removed, Err(Error::Refused(Refusal::Busy)));
        assert!(is_busy, "{removed:?}");
    }
}

//! The members of the vaults that the server follows, as far as it has noted them.
//!
//! Takes   verified chains of members, with the header that has them; requests, each with its asker
//! Gives   the noted members; permission or a refusal
//! Never   forgets a noted record, or notes a record that does not continue the noted ones
//! Spec    spec/11-sync.md, [11.11.5] to [11.11.8]
//!
//! Invariants
//!  (1) The noted chain of a vault only grows: each chain that is noted continues the one before.        [11.11.5]
//!  (2) A change, and the check whether its asker may make it, are one transaction.                          [11.11.6]

use strongroom_format::Role;
use strongroom_remote::ObjectName;
use strongroom_remote::protocol::{PAIRING_OBJECTS_MAX, Refusal};

use crate::database::{View, values};
use crate::error::Result;
use crate::file_id::FileId;
use crate::header_chain::{HeaderChain, ID_BYTES};
use crate::inbox_rows;
use crate::ledger::{Ledger, VaultKey, lock};
use crate::limits::FIRST_HEADERS;
use crate::rights::{Asker, Deed, Kind, MARKER, Rights};

/// As roles are numbered in the database: those of the specification, and one for who is no member any more.
const RETIRED: i64 = 0;
const DEVICE: i64 = 1;
const SLOT: i64 = 2;

/// What is noted of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// The ids of the records, one after the other.
    pub(crate) ids: Vec<u8>,
    /// The name of a header that has them.
    pub(crate) header: String,
}

/// A principal that is or was a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    /// As what; `None` if it is none any more.
    pub(crate) role: Option<Role>,
    /// Its public key for signatures.
    pub(crate) signing: [u8; 32],
}

impl Noted {
    /// How many records it has.
    pub(crate) fn count(&self) -> usize {
        self.ids.len() / ID_BYTES
    }

    /// The first record, which is the id of the vault.
    pub(crate) fn vault(&self) -> [u8; ID_BYTES] {
        let id = self.ids.first_chunk();
        *id.expect("(1) holds: a chain is noted with its first record")
    }

    /// The last record.
    pub(crate) fn head(&self) -> [u8; ID_BYTES] {
        let id = self.ids.last_chunk();
        *id.expect("(1) holds: a chain is noted with its first record")
    }
}

impl Ledger {
    /// What is noted of a vault; `None` if it is not followed.
    pub(crate) fn noted(&self, vault: &VaultKey) -> Result<Option<Noted>> {
        self.database.read(|view| {
            view.row(
                "SELECT chain.records, chain.header FROM vault JOIN chain ON chain.vault = vault.id
                 WHERE vault.account = ?1 AND vault.name = ?2",
                values![vault.account, &vault.name],
                |row| {
                    Ok(Noted {
                        ids: row.get(0)?,
                        header: row.get(1)?,
                    })
                },
            )
        })
    }

    /// A principal that is noted; `None` if it never was a member.
    pub(crate) fn principal(
        &self,
        vault: &VaultKey,
        principal: &[u8; 32],
    ) -> Result<Option<Principal>> {
        self.database.read(|view| {
            view.row(
                "SELECT member.role, member.signing FROM vault JOIN member ON member.vault = vault.id
                 WHERE vault.account = ?1 AND vault.name = ?2 AND member.principal = ?3",
                values![vault.account, &vault.name, principal],
                |row| {
                    Ok(Principal {
                        role: role(row.get(0)?),
                        signing: row.get(1)?,
                    })
                },
            )
        })
    }

    /// What somebody may do in a vault now.
    ///
    /// # Errors
    /// `Refused`, as `check`.
    pub(crate) fn rights(&self, vault: &VaultKey, asker: &Asker) -> Result<Rights> {
        self.database.read(|view| rights(view, vault, asker))
    }

    /// The newest headers by their names, newest first, with their files.
    pub(crate) fn newest_headers(&self, vault: &VaultKey) -> Result<Vec<(String, FileId)>> {
        self.database.read(|view| newest_headers(view, vault))
    }

    /// The file of the marker of a vault; `None` if it has none.
    pub(crate) fn marker(&self, vault: &VaultKey) -> Result<Option<FileId>> {
        Ok(self.find(vault, MARKER)?.map(|found| found.file))
    }

    /// Follows a vault from now on, by the chain of `header`, one of its newest headers, which are `looked_at`; nothing if it is followed
    /// already.
    ///
    /// # Errors
    /// `Busy` if its newest headers are others by now: until it is followed, whoever has the token of the account may replace one, and a header
    /// that came meanwhile may say that somebody was removed.
    pub(crate) fn follow(
        &self,
        vault: &VaultKey,
        (header, looked_at): (&str, &[(String, FileId)]),
        chain: &HeaderChain,
    ) -> Result<()> {
        self.database.change(|change| {
            lock(change, vault.account)?;
            let id: Option<i64> = change.row(
                "SELECT id FROM vault WHERE account = ?1 AND name = ?2",
                values![vault.account, &vault.name],
                |row| row.get(0),
            )?;
            let id = id.ok_or(Refusal::NoHeader)?;
            if noted_of(change, id)?.is_none() {
                if newest_headers(change, vault)? != looked_at {
                    return Err(Refusal::Busy.into());
                }
                note(change, id, header, chain)?;
            }
            Ok(())
        })
    }
}

fn newest_headers(view: &View<'_>, vault: &VaultKey) -> Result<Vec<(String, FileId)>> {
    view.rows(
        "SELECT object.name, object.file FROM vault JOIN object ON object.vault = vault.id
         WHERE vault.account = ?1 AND vault.name = ?2 AND object.name > 'headers/' AND object.name < 'headers0'
         ORDER BY object.name DESC LIMIT ?3",
        values![vault.account, &vault.name, FIRST_HEADERS],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Refuses what the asker may not do now. (2)
///
/// # Errors
/// `Refused`: for the token of an account `LoginNeeded`; for a principal `DeviceRemoved`, `LoginOver` if what it showed is not good any
/// more, `OnlyDevices`, `Stays`.
pub(super) fn check(
    view: &View<'_>,
    (vault, asker): (&VaultKey, &Asker),
    deed: Deed,
) -> Result<()> {
    let rights = rights(view, vault, asker)?;
    rights.allow(deed)?;
    if rights == Rights::FirstFetch && matches!(deed, Deed::Create(Kind::Pairing, _)) {
        let there: u64 = view.value(
            "SELECT count(*) FROM (
                 SELECT 1 FROM vault JOIN object ON object.vault = vault.id
                 WHERE vault.account = ?1 AND vault.name = ?2 AND object.name > 'pairing/' AND object.name < 'pairing0'
                 LIMIT ?3
             ) AS these",
            values![vault.account, &vault.name, PAIRING_OBJECTS_MAX],
        )?;
        if there >= PAIRING_OBJECTS_MAX as u64 {
            return Err(Refusal::ObjectsUsed.into());
        }
    }
    Ok(())
}

/// Lets a header in: of a vault that is followed only one that goes on from what is noted, or is the beginning of it; notes what goes on. (1)
///
/// # Errors
/// `OtherMembers`; `Busy` if the vault is followed since `header` was read.
pub(super) fn admit(
    change: &View<'_>,
    vault: i64,
    name: &ObjectName,
    header: Option<&HeaderChain>,
) -> Result<()> {
    let Some(noted) = noted_of(change, vault)? else {
        return Ok(());
    };
    let chain = header.ok_or(Refusal::Busy)?;
    let ids = chain.ids();
    if noted.starts_with(&ids) {
        return Ok(());
    }
    match ids.starts_with(&noted) {
        true => note(change, vault, name.as_str(), chain),
        false => Err(Refusal::OtherMembers.into()),
    }
}

/// Forgets what is noted of the vaults of an account, before they go: members, and what was counted of depositors.
pub(super) fn forget(change: &View<'_>, account: i64) -> Result<()> {
    for table in ["member", "chain", "depositor"] {
        change.execute(
            &format!(
                "DELETE FROM {table} WHERE vault IN (SELECT id FROM vault WHERE account = ?1)"
            ),
            values![account],
        )?;
    }
    Ok(())
}

fn rights(view: &View<'_>, vault: &VaultKey, asker: &Asker) -> Result<Rights> {
    let found: Option<(i64, [u8; ID_BYTES])> = view.row(
        "SELECT vault.id, substr(chain.records, length(chain.records) - 31) FROM vault JOIN chain ON chain.vault = vault.id
         WHERE vault.account = ?1 AND vault.name = ?2",
        values![vault.account, &vault.name],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let (noted, shown) = match (found, asker) {
        (None, Asker::Account) => return Ok(Rights::NotFollowed),
        // The vault is another one now, or its database is an older one.
        (None, Asker::Principal { .. }) => return Err(Refusal::LoginOver.into()),
        (Some(_), Asker::Account) => return Ok(Rights::FirstFetch),
        (_, Asker::Depositor(token)) => {
            return inbox_rows::rights(view, (vault.account, &vault.name), *token);
        }
        (Some((vault, head)), Asker::Principal { id, shown }) => {
            let sql = "SELECT role FROM member WHERE vault = ?1 AND principal = ?2";
            let role: Option<i64> = view.row(sql, values![vault, id], |row| row.get(0))?;
            (role, shown.filter(|shown| shown.head == head))
        }
    };
    match (noted, shown) {
        (Some(number), _) => match role(number) {
            Some(role) => Ok(rights_of(role)),
            None => Err(Refusal::DeviceRemoved.into()),
        },
        (None, Some(shown)) => Ok(rights_of(shown.role)),
        (None, None) => Err(Refusal::LoginOver.into()),
    }
}

/// The number of a role in the database.
pub(super) const fn number_of(role: Role) -> i64 {
    match role {
        Role::Device => DEVICE,
        Role::Slot => SLOT,
    }
}

const fn rights_of(role: Role) -> Rights {
    match role {
        Role::Device => Rights::Device,
        Role::Slot => Rights::Slot,
    }
}

pub(super) const fn role(number: i64) -> Option<Role> {
    match number {
        DEVICE => Some(Role::Device),
        SLOT => Some(Role::Slot),
        _ => None,
    }
}

/// The ids of the records that are noted.
fn noted_of(view: &View<'_>, vault: i64) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT records FROM chain WHERE vault = ?1";
    view.row(sql, values![vault], |row| row.get(0))
}

fn note(change: &View<'_>, vault: i64, header: &str, chain: &HeaderChain) -> Result<()> {
    change.execute(
        "INSERT INTO chain (vault, header, records) VALUES (?1, ?2, ?3)
         ON CONFLICT (vault) DO UPDATE SET header = excluded.header, records = excluded.records",
        values![vault, header, &chain.ids()],
    )?;
    let put = "INSERT INTO member (vault, principal, role, signing) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (vault, principal) DO UPDATE SET role = excluded.role";
    for (id, member) in chain.chain.active() {
        let role = number_of(member.role);
        change.execute(put, values![vault, &id.0, role, &member.keys.signing])?;
    }
    // Of those who came and went before the server followed the vault no key is noted: nobody logs in as one of them.
    for id in chain.chain.retired() {
        change.execute(put, values![vault, &id.0, RETIRED, &[0_u8; ID_BYTES]])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use strongroom_crypto::{KeyFile, Keyring, NewKey, NewSlot, SystemRandom, create};
    use strongroom_format::SuiteId;

    use super::*;
    use crate::error::Error;
    use crate::ledger::{DATABASE, Quota};
    use crate::token::TokenHash;

    fn chain_of(keyring: &Keyring) -> HeaderChain {
        HeaderChain::of_header(&keyring.remote_header().unwrap()).unwrap()
    }

    fn keyring() -> Keyring {
        let slot = NewSlot {
            label: "file".to_owned(),
            key: NewKey::KeyFile(KeyFile::random(&SystemRandom).unwrap()),
        };
        let made = create(&[slot], SuiteId::Aes256GcmBlake3, &SystemRandom, 1).unwrap();
        made.keyring
    }

    /// Goal: a vault is followed by headers that are there at that moment, none older. Method: after somebody looked at the headers, one of
    /// them is replaced by another object of its name, or a newer one comes. Failed before: the object was looked for by its name alone.
    #[test]
    fn a_vault_is_not_followed_by_headers_that_were_replaced_since_somebody_looked() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&folder.path().join(DATABASE)).unwrap();
        let token = TokenHash::of("srt-00");
        ledger.add_account("anna", token, Quota::default()).unwrap();
        let vault = VaultKey {
            account: ledger.account("anna").unwrap().id,
            name: "v".to_owned(),
        };
        let by = (&vault, &Asker::Account);
        let put = |name: &str| {
            let file = (FileId::random().unwrap(), 1);
            let name = ObjectName::new(name).unwrap();
            ledger.add(by, &name, file, None).unwrap();
        };
        let (first, added) = (keyring(), keyring().add_device(&SystemRandom).unwrap());
        let chain = chain_of(&first);
        let is_busy = |looked_at: &[(String, FileId)]| {
            let followed = ledger.follow(&vault, ("headers/a", looked_at), &chain);
            assert_eq!(ledger.noted(&vault).unwrap(), None);
            matches!(followed, Err(Error::Refused(Refusal::Busy)))
        };
        put("headers/a");
        let before = ledger.newest_headers(&vault).unwrap();
        let name = ObjectName::new("headers/a").unwrap();
        ledger.remove(by, &name, |_, _, _| Ok(())).unwrap();
        assert!(is_busy(&before));
        put("headers/a");
        assert!(is_busy(&before));
        let before = ledger.newest_headers(&vault).unwrap();
        put("headers/b");
        assert!(is_busy(&before));
        let now = ledger.newest_headers(&vault).unwrap();
        ledger.follow(&vault, ("headers/a", &now), &chain).unwrap();
        let noted = ledger.noted(&vault).unwrap().unwrap();
        assert_eq!((noted.vault(), noted.count()), (chain.vault().0, 1));
        // Whoever comes a moment later changes nothing.
        let other = chain_of(&added.keyring);
        ledger
            .follow(&vault, ("headers/b", &before), &other)
            .unwrap();
        assert_eq!(ledger.noted(&vault).unwrap(), Some(noted));
    }
}

//! Challenges and logins that several instances of a server know (`logins.rs` keeps those of one instance in memory).
//!
//! Takes   the vault and the account of the request
//! Gives   challenges, each once; the asker to whom a token belongs
//! Never   keeps a token, only its hash
//! Spec    spec/11-sync.md, [11.11.1] and [11.11.9]
//!
//! Times are those of the clock of the database. A challenge or a login counts only while this clock is between its beginning and its
//! end. So a jump of the clock does not make either valid for longer.

use strongroom_remote::protocol::Refusal;

use crate::database::{View, values};
use crate::error::{Error, Result};
use crate::ledger::chains::{number_of, role};
use crate::ledger::{Ledger, VaultKey, lock};
use crate::limits::{CHALLENGE, CHALLENGES_OF_ACCOUNT, LOGIN, LOGINS_OF_ACCOUNT, PASSED_AT_ONCE};
use crate::rights::{Asker, Shown};
use crate::token::TokenHash;

/// A challenge that was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issued {
    pub(crate) nonce: [u8; 32],
    /// By the clock of this machine: it is signed, and nothing is decided by it.
    pub(crate) issued_s: u64,
    pub(crate) vault: VaultKey,
}

/// Somebody who is logged in.
#[derive(Clone)]
pub(crate) struct LoggedIn {
    pub(crate) vault: VaultKey,
    pub(crate) asker: Asker,
    /// Of the token of the account with which the login was begun.
    pub(crate) account_token: TokenHash,
}

impl Ledger {
    /// Keeps a challenge; gives when that was. The oldest of an account that has too many goes for it.
    pub(crate) fn put_challenge(&self, nonce: &[u8; 32], vault: &VaultKey) -> Result<u64> {
        self.database.change(|change| {
            make_room(
                change,
                ("challenge", "nonce"),
                vault.account,
                CHALLENGES_OF_ACCOUNT,
            )?;
            change.value(
                "INSERT INTO challenge (nonce, account, vault, began_s, until_s)
                 SELECT ?1, ?2, ?3, now_s, now_s + ?4 FROM unixepoch() AS now_s RETURNING began_s",
                values![nonce, vault.account, &vault.name, CHALLENGE.as_secs()],
            )
        })
    }

    /// Takes the challenge with that nonce; `None` if there is none, or its time is over.
    pub(crate) fn take_challenge(&self, nonce: &[u8; 32]) -> Result<Option<Issued>> {
        let found = self.database.read(|view| {
            view.row(
                "DELETE FROM challenge WHERE nonce = ?1
                 RETURNING account, vault, began_s, unixepoch() BETWEEN began_s AND until_s - 1",
                values![nonce],
                |row| {
                    let issued = Issued {
                        nonce: *nonce,
                        issued_s: row.get(2)?,
                        vault: VaultKey {
                            account: row.get(0)?,
                            name: row.get(1)?,
                        },
                    };
                    Ok((issued, row.get::<bool>(3)?))
                },
            )
        })?;
        Ok(found.and_then(|(issued, is_good)| is_good.then_some(issued)))
    }

    /// Keeps a login; the oldest of an account that has too many goes for it.
    pub(crate) fn put_login(&self, token: TokenHash, login: &LoggedIn) -> Result<()> {
        let LoggedIn { vault, asker, .. } = login;
        // Without a principal, and without what it showed, there are no bytes.
        let (principal, shown) = match asker {
            Asker::Account => (&[][..], None),
            Asker::Principal { id, shown } => (&id[..], shown.as_ref()),
            // Whoever has an address does not log in.
            Asker::Depositor(_) => return Err(Refusal::WrongToken.into()),
        };
        let head = shown.map_or(&[][..], |shown| &shown.head[..]);
        let role = shown.map_or(0, |shown| number_of(shown.role));
        self.database.change(|change| {
            make_room(change, ("login", "token"), vault.account, LOGINS_OF_ACCOUNT)?;
            change.execute(
                "INSERT INTO login (token, account, vault, principal, head, role, account_token, began_s, until_s)
                 SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, now_s, now_s + ?8 FROM unixepoch() AS now_s",
                values![
                    &token.0,
                    vault.account,
                    &vault.name,
                    principal,
                    head,
                    role,
                    &login.account_token.0,
                    LOGIN.as_secs()
                ],
            )?;
            Ok(())
        })
    }

    /// Whose token that is; `None` if nobody's, or its time is over.
    pub(crate) fn login_of(&self, token: TokenHash) -> Result<Option<LoggedIn>> {
        self.database.read(|view| {
            view.row(
                "SELECT account, vault, principal, head, role, account_token FROM login
                 WHERE token = ?1 AND began_s <= unixepoch() AND unixepoch() < until_s",
                values![&token.0],
                |row| {
                    let (principal, head): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(3)?);
                    Ok(LoggedIn {
                        vault: VaultKey {
                            account: row.get(0)?,
                            name: row.get(1)?,
                        },
                        asker: asker(&principal, &head, row.get(4)?)?,
                        account_token: TokenHash(row.get(5)?),
                    })
                },
            )
        })
    }
}

/// Whom these bytes mean.
fn asker(principal: &[u8], head: &[u8], number: i64) -> Result<Asker> {
    if principal.is_empty() {
        return Ok(Asker::Account);
    }
    let odd = || Error::Unsound("a login of another form");
    let shown = match head.is_empty() {
        true => None,
        false => Some(Shown {
            head: head.try_into().map_err(|_| odd())?,
            role: role(number).ok_or_else(odd)?,
        }),
    };
    Ok(Asker::Principal {
        id: principal.try_into().map_err(|_| odd())?,
        shown,
    })
}

/// Removes what an account has too many of for one more, and some of what is over, of anybody. What another instance removes just now is
/// left to it.
fn make_room(
    change: &View<'_>,
    (table, key): (&str, &str),
    account: i64,
    of_account: usize,
) -> Result<()> {
    lock(change, account)?;
    if !change.exists("SELECT 1 FROM account WHERE id = ?1", values![account])? {
        return Err(Refusal::WrongToken.into());
    }
    let oldest = format!(
        "DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE account = ?1 ORDER BY number DESC OFFSET ?2)"
    );
    change.execute(&oldest, values![account, of_account - 1])?;
    let past = format!(
        "DELETE FROM {table} WHERE {key} IN (
             SELECT {key} FROM {table} WHERE until_s <= unixepoch() ORDER BY until_s LIMIT ?1 FOR UPDATE SKIP LOCKED
         )"
    );
    change.execute(&past, values![PASSED_AT_ONCE])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use strongroom_format::Role;

    use super::*;

    #[test]
    fn who_logged_in_comes_back_from_the_bytes_of_a_row_and_nobody_else_does() {
        assert_eq!(asker(&[], &[], 0).unwrap(), Asker::Account);
        let id = [7; 32];
        let noted = Asker::Principal { id, shown: None };
        assert_eq!(asker(&id, &[], 0).unwrap(), noted);
        for role in [Role::Device, Role::Slot] {
            let shown = Some(Shown {
                head: [8; 32],
                role,
            });
            let found = asker(&id, &[8; 32], number_of(role)).unwrap();
            assert_eq!(found, Asker::Principal { id, shown });
        }
        for (principal, head, number) in [
            (&id[1..], &[][..], 0),
            (&id[..], &[8; 31][..], 1),
            (&id[..], &[8; 32][..], 9),
        ] {
            assert!(asker(principal, head, number).is_err());
        }
    }
}

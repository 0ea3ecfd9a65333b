//! What the database says of inboxes: which addresses there are, what waits, and whether an address may create another deposit or piece now.
//!
//! Takes   the database; hashes of tokens; names and lengths of objects that a depositor wants to create
//! Gives   the account of an address; nothing if the object may be created, or a refusal
//! Never   shows anything of a vault to somebody without an address of it
//! Spec    spec/12-inbox.md, section 12.5
//!
//! No instance of a server has any of this in memory, so the bounds hold for all instances together. Times are by the clock of the database.
//!
//! Invariants
//!  (1) An object is created for a depositor only while the address is there, in the same transaction.       [12.5.2]
//!  (2) What waits in the inbox of a vault stays within its bounds, whoever deposits.                         [12.5.3]
//!  (3) Through one address `DEPOSITS_AT_ONCE` deposits may come at once, then one every `DEPOSIT_EVERY_S` seconds. `PIECES_AT_ONCE` and
//!      `PIECE_EVERY_S` bound pieces in the same way.                                                                             [12.5.3]

use strongroom_remote::ObjectName;
use strongroom_remote::protocol::{INBOX_DEPOSITS_MAX, Refusal};

use crate::database::{View, values};
use crate::error::Result;
use crate::limits::{
    DEPOSIT_EVERY_S, DEPOSITS_AT_ONCE, INBOX_BYTES_MAX, INBOX_OBJECTS_MAX, PIECE_EVERY_S,
    PIECES_AT_ONCE,
};
use crate::rights::{Asker, Rights};
use crate::token::TokenHash;

/// The kind of the objects of addresses.
const ADDRESSES: &str = "addresses";

/// How fast something may come by one address. (3)
#[derive(Clone, Copy)]
struct Rate {
    at_once: u64,
    every_s: u64,
    /// Where the table says until when an address is busy with it.
    column: &'static str,
}

const DEPOSITS: Rate = Rate {
    at_once: DEPOSITS_AT_ONCE,
    every_s: DEPOSIT_EVERY_S,
    column: "busy_until_s",
};

const PIECES: Rate = Rate {
    at_once: PIECES_AT_ONCE,
    every_s: PIECE_EVERY_S,
    column: "pieces_until_s",
};

/// The name of the object of the address whose token has that hash.
pub(crate) fn address_name(token: TokenHash) -> String {
    format!("{ADDRESSES}/{}", blake3::Hash::from_bytes(token.0).to_hex())
}

/// The account of that name, and whether it is suspended, if its vault of that name has that address.
pub(crate) fn account_of(
    view: &View<'_>,
    (account, vault): (&str, &str),
    token: TokenHash,
) -> Result<Option<(i64, bool)>> {
    view.row(
        "SELECT account.id, account.suspended FROM account JOIN vault ON vault.account = account.id
         JOIN object ON object.vault = vault.id
         WHERE account.name = ?1 AND vault.name = ?2 AND object.name = ?3",
        values![account, vault, &address_name(token)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// What whoever shows the token of an address may do in a vault of an account. (1)
///
/// # Errors
/// `NoAddress`.
pub(crate) fn rights(
    view: &View<'_>,
    (account, vault): (i64, &str),
    token: TokenHash,
) -> Result<Rights> {
    let there = view.exists(
        "SELECT 1 FROM vault JOIN object ON object.vault = vault.id
         WHERE vault.account = ?1 AND vault.name = ?2 AND object.name = ?3",
        values![account, vault, &address_name(token)],
    )?;
    match there {
        true => Ok(Rights::Deposit),
        false => Err(Refusal::NoAddress.into()),
    }
}

/// Lets an object of a depositor in; of anybody else every one. (2) (3)
///
/// # Errors
/// `InboxFull`; `TooMany`; `AlreadyThere` for a piece of a deposit whose envelope is there.
pub(crate) fn admit(
    view: &View<'_>,
    vault: Option<i64>,
    asker: &Asker,
    (name, len): (&ObjectName, u64),
) -> Result<()> {
    let (Some(vault), Asker::Depositor(token)) = (vault, asker) else {
        return Ok(());
    };
    if !is_envelope(name) {
        let id = name.split().1.split('.').next().unwrap_or_default();
        let sql = "SELECT 1 FROM object WHERE vault = ?1 AND name = ?2";
        if view.exists(sql, values![vault, &format!("deposits/{id}")])? {
            return Err(Refusal::AlreadyThere.into());
        }
    }
    let (deposits, of_deposits) = waiting(view, vault, "deposits")?;
    let (pieces, of_pieces) = waiting(view, vault, "pieces")?;
    let bytes = of_deposits.saturating_add(of_pieces).saturating_add(len);
    let is_full = deposits.saturating_add(pieces) >= INBOX_OBJECTS_MAX
        || bytes > INBOX_BYTES_MAX
        || is_envelope(name) && deposits >= INBOX_DEPOSITS_MAX as u64;
    if is_full {
        return Err(Refusal::InboxFull.into());
    }
    busy_after(view, vault, *token, rate_of(name)).map(drop)
}

/// Counts a deposit or piece that was added in this change for the address by which it came. (3)
///
/// # Errors
/// `TooMany`.
pub(crate) fn count(change: &View<'_>, vault: i64, asker: &Asker, name: &ObjectName) -> Result<()> {
    let Asker::Depositor(token) = asker else {
        return Ok(());
    };
    let rate = rate_of(name);
    let until_s = busy_after(change, vault, *token, rate)?;
    let (address, column) = (address_name(*token), rate.column);
    let there = format!("UPDATE depositor SET {column} = ?3 WHERE vault = ?1 AND address = ?2");
    let values = values![vault, &address, until_s];
    if change.execute(&there, values)? == 0 {
        let first = match is_envelope(name) {
            true => "INSERT INTO depositor (vault, address, busy_until_s) VALUES (?1, ?2, ?3)",
            false => {
                "INSERT INTO depositor (vault, address, busy_until_s, pieces_until_s) VALUES (?1, ?2, 0, ?3)"
            }
        };
        change.execute(first, values)?;
    }
    Ok(())
}

/// Forgets what was counted for an address, if the object that was removed in this change is one.
pub(crate) fn forget(change: &View<'_>, vault: i64, name: &ObjectName) -> Result<()> {
    if name.split().0 == Some(ADDRESSES) {
        let sql = "DELETE FROM depositor WHERE vault = ?1 AND address = ?2";
        change.execute(sql, values![vault, name.as_str()])?;
    }
    Ok(())
}

/// Whether a depositor completes a deposit with an object of that name.
fn is_envelope(name: &ObjectName) -> bool {
    name.split().0 == Some("deposits")
}

/// How fast objects of that kind may come.
fn rate_of(name: &ObjectName) -> Rate {
    match is_envelope(name) {
        true => DEPOSITS,
        false => PIECES,
    }
}

/// How many objects of that kind a vault has, and their bytes; of more than may wait only so many. O(`INBOX_OBJECTS_MAX`): the devices of a
/// vault may create more of them.
fn waiting(view: &View<'_>, vault: i64, kind: &str) -> Result<(u64, u64)> {
    let (first, end) = (format!("{kind}/"), format!("{kind}0"));
    let found = view.row(
        "SELECT count(*), CAST(coalesce(sum(len), 0) AS BIGINT) FROM (
             SELECT len FROM object WHERE vault = ?1 AND name > ?2 AND name < ?3 LIMIT ?4
         ) AS these",
        values![vault, &first, &end, INBOX_OBJECTS_MAX],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(found.unwrap_or_default())
}

/// Until when one more makes an address busy.
///
/// # Errors
/// `TooMany` if none may come now.
fn busy_after(view: &View<'_>, vault: i64, token: TokenHash, rate: Rate) -> Result<u64> {
    let now_s: u64 = view.value("SELECT unixepoch()", values![])?;
    let column = rate.column;
    let until_s: Option<u64> = view.row(
        &format!("SELECT {column} FROM depositor WHERE vault = ?1 AND address = ?2"),
        values![vault, &address_name(token)],
        |row| row.get(0),
    )?;
    let after = one_more(rate, until_s.unwrap_or(0), now_s);
    after.ok_or_else(|| Refusal::TooMany.into())
}

/// Until when an address is busy that was so until `until_s`, after one more at `now_s`; `None` if that would be too long. (3)
fn one_more(rate: Rate, until_s: u64, now_s: u64) -> Option<u64> {
    let latest_s = now_s.saturating_add(rate.every_s * rate.at_once);
    // What no deposit can have caused comes from a clock that was wrong: it holds nobody up.
    let begin_s = match until_s <= latest_s {
        true => until_s.max(now_s),
        false => now_s,
    };
    let after_s = begin_s.saturating_add(rate.every_s);
    (after_s <= latest_s).then_some(after_s)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::error::Error;
    use crate::file_id::FileId;
    use crate::ledger::{DATABASE, Ledger, Quota, VaultKey};

    #[test]
    fn by_one_address_so_many_come_at_once_and_then_one_now_and_then() {
        for rate in [DEPOSITS, PIECES] {
            let now_s = 1_000_000;
            let mut until_s = 0;
            for _ in 0..rate.at_once {
                until_s = one_more(rate, until_s, now_s).unwrap();
            }
            assert_eq!(one_more(rate, until_s, now_s), None);
            assert_eq!(one_more(rate, until_s, now_s + rate.every_s - 1), None);
            let later_s = now_s + rate.every_s;
            until_s = one_more(rate, until_s, later_s).unwrap();
            assert_eq!(one_more(rate, until_s, later_s), None);
            // Nothing of it counts once the address was at rest for long enough, or the clock was wrong.
            for at_s in [until_s, until_s + 1, 5] {
                assert_eq!(one_more(rate, until_s, at_s), Some(at_s + rate.every_s));
            }
            assert_eq!(one_more(rate, u64::MAX, u64::MAX), Some(u64::MAX));
        }
    }

    /// Goal: what was counted for an address ends with it, and with its account. Method: the rows of a database.
    #[test]
    fn a_deposit_is_counted_for_its_address_until_that_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&folder.path().join(DATABASE)).unwrap();
        let of_account = TokenHash::of("srt-00");
        ledger
            .add_account("anna", of_account, Quota::default())
            .unwrap();
        let vault = VaultKey {
            account: ledger.account("anna").unwrap().id,
            name: "v".to_owned(),
        };
        let token = TokenHash::of("sra-00");
        let address = ObjectName::new(address_name(token)).unwrap();
        let put = |asker: &Asker, name: &str| {
            let file = (FileId::random().unwrap(), 1);
            ledger.add((&vault, asker), &ObjectName::new(name).unwrap(), file, None)
        };
        let rows = |condition: &str| -> u64 {
            let sql = format!("SELECT count(*) FROM depositor WHERE {condition}");
            let counted = ledger.database.read(|view| view.value(&sql, values![]));
            counted.unwrap()
        };
        let counted = || (rows("busy_until_s > 0"), rows("pieces_until_s > 0"));
        let by_address = Asker::Depositor(token);
        let refused = put(&by_address, "deposits/0");
        assert!(matches!(refused, Err(Error::Refused(Refusal::NoAddress))));
        put(&Asker::Account, address.as_str()).unwrap();
        put(&Asker::Account, "deposits/of-the-owner").unwrap();
        assert_eq!(counted(), (0, 0));
        put(&by_address, "pieces/0.0.0").unwrap();
        assert_eq!(counted(), (0, 1));
        put(&by_address, "deposits/0").unwrap();
        // What is there already counts no more, and a piece of it is none.
        for name in ["deposits/0", "pieces/0.0.1"] {
            let refused = put(&by_address, name);
            assert!(matches!(
                refused,
                Err(Error::Refused(Refusal::AlreadyThere))
            ));
        }
        assert_eq!((counted(), rows("true")), ((1, 1), 1));
        let by = (&vault, &Asker::Account);
        ledger.remove(by, &address, |_, _, _| Ok(())).unwrap();
        assert_eq!(rows("true"), 0);
        put(&Asker::Account, address.as_str()).unwrap();
        put(&by_address, "deposits/1").unwrap();
        assert_eq!(counted(), (1, 0));
        let all = ledger.remove_some(vault.account, 100, |_, _, _| Ok(()));
        assert_eq!(all.unwrap().len(), 5);
        ledger.remove_account(vault.account).unwrap();
        assert_eq!(rows("true"), 0);
    }
}

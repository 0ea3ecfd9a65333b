//! What the database says of inboxes: which addresses there are, and what waits.
//!
//! Takes   the database; hashes of tokens; names and lengths of objects that a depositor wants to create
//! Gives   the account of an address; nothing or a refusal
//! Never   shows anything of a vault to whoever has no address of it
//! Spec    spec/12-inbox.md, section 12.5
//!
//! Invariants
//!  (1) An object is created for a depositor only while the address is there, in the same transaction.       [12.5.2]
//!  (2) What waits in the inbox of a vault stays within its bounds, whoever deposits.                         [12.5.3]

use rusqlite::{Connection, OptionalExtension, params};
use strongroom_remote::ObjectName;
use strongroom_remote::protocol::{INBOX_DEPOSITS_MAX, Refusal};

use crate::error::Result;
use crate::limits::{INBOX_BYTES_MAX, INBOX_OBJECTS_MAX};
use crate::rights::{Asker, Rights};
use crate::token::TokenHash;

/// The name of the object of the address whose token has that hash.
pub(crate) fn address_name(token: TokenHash) -> String {
    format!("addresses/{}", blake3::Hash::from_bytes(token.0).to_hex())
}

/// The account of that name, and whether it is suspended, if its vault of that name has that address.
pub(crate) fn account_of(
    view: &Connection,
    (account, vault): (&str, &str),
    token: TokenHash,
) -> Result<Option<(i64, bool)>> {
    let mut query = view.prepare_cached(
        "SELECT account.id, account.suspended FROM account JOIN vault ON vault.account = account.id
         JOIN object ON object.vault = vault.id
         WHERE account.name = ?1 AND vault.name = ?2 AND object.name = ?3",
    )?;
    let found = query.query_row(params![account, vault, address_name(token)], |row| {
        Ok((row.get(0)?, row.get(1)?))
    });
    Ok(found.optional()?)
}

/// What whoever shows the token of an address may do in a vault of an account. (1)
///
/// # Errors
/// `NoAddress`.
pub(crate) fn rights(
    view: &Connection,
    (account, vault): (i64, &str),
    token: TokenHash,
) -> Result<Rights> {
    let mut query = view.prepare_cached(
        "SELECT 1 FROM vault JOIN object ON object.vault = vault.id
         WHERE vault.account = ?1 AND vault.name = ?2 AND object.name = ?3",
    )?;
    match query.exists(params![account, vault, address_name(token)])? {
        true => Ok(Rights::Deposit),
        false => Err(Refusal::NoAddress.into()),
    }
}

/// Lets an object of a depositor in; of anybody else every one. (2)
///
/// # Errors
/// `InboxFull`; `AlreadyThere` for a piece of a deposit whose envelope is there.
pub(crate) fn admit(
    view: &Connection,
    vault: Option<i64>,
    asker: &Asker,
    (name, len): (&ObjectName, u64),
) -> Result<()> {
    let (Some(vault), Asker::Depositor(_)) = (vault, asker) else {
        return Ok(());
    };
    let (kind, last) = name.split();
    let is_envelope = kind == Some("deposits");
    if !is_envelope {
        let id = last.split('.').next().unwrap_or_default();
        let mut query =
            view.prepare_cached("SELECT 1 FROM object WHERE vault = ?1 AND name = ?2")?;
        if query.exists(params![vault, format!("deposits/{id}")])? {
            return Err(Refusal::AlreadyThere.into());
        }
    }
    let mut query = view.prepare_cached(
        "SELECT count(*), coalesce(sum(len), 0), coalesce(sum(name < 'deposits0'), 0) FROM (
             SELECT name, len FROM object WHERE vault = ?1 AND name > 'deposits/' AND name < 'deposits0'
             UNION ALL
             SELECT name, len FROM object WHERE vault = ?1 AND name > 'pieces/' AND name < 'pieces0'
         )",
    )?;
    // None is negative.
    let number = |value: i64| u64::try_from(value).unwrap_or(u64::MAX);
    let (objects, bytes, deposits) = query.query_row([vault], |row| {
        Ok((
            number(row.get(0)?),
            number(row.get(1)?),
            number(row.get(2)?),
        ))
    })?;
    let is_full = objects >= INBOX_OBJECTS_MAX
        || bytes.saturating_add(len) > INBOX_BYTES_MAX
        || is_envelope && deposits >= INBOX_DEPOSITS_MAX as u64;
    match is_full {
        true => Err(Refusal::InboxFull.into()),
        false => Ok(()),
    }
}

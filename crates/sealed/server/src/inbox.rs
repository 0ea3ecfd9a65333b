//! The inbox: the requests of depositors, who have an address of a vault, and no token of its account.
//!
//! Takes   requests that show the token of an address
//! Gives   the object of that address; sealed objects, created
//! Never   lists, reads or removes anything else for depositors, or shows them what else there is
//! Spec    spec/12-inbox.md, section 12.5
//!
//! Invariants
//!  (1) Somebody without an address always gets the same answer, whatever accounts, vaults and addresses there are.  [12.5.1]
//!
//! The bounds of deposits are in the database (`inbox_rows.rs`); only the turns of transfers belong to one instance.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use strongroom_remote::ObjectName;
use strongroom_remote::protocol::{ADDRESS_OBJECT_BYTES_MAX, Refusal, is_part};

use crate::answers::Refused;
use crate::app::{Answer, App, named};
use crate::authority::token_of;
use crate::ledger::{Standing, VaultKey};
use crate::request_rates::Caller;
use crate::rights::Asker;
use crate::token::TokenHash;
use crate::upload::{Said, Upload, apart};

/// Somebody with an address, and the vault that it is of.
struct Depositor {
    key: VaultKey,
    token: TokenHash,
}

/// Who makes a request. (1)
async fn depositor(
    app: &App,
    headers: &HeaderMap,
    account: &str,
    vault: &str,
) -> Result<Depositor, Refused> {
    let token = TokenHash::of(token_of(headers)?);
    if !is_part(account) || !is_part(vault) {
        return Err(Refusal::Name.into());
    }
    let (store, account, vault) = (Arc::clone(&app.store), account.to_owned(), vault.to_owned());
    let found = apart(move || store.ledger.inbox(&account, &vault, token)).await?;
    match found {
        None => Err(Refusal::NoAddress.into()),
        Some((_, Standing::Suspended)) => Err(Refusal::Suspended.into()),
        Some((key, Standing::Active)) => {
            let caller = Caller::Depositors(key.account);
            app.rates.take(caller, Instant::now())?;
            Ok(Depositor { key, token })
        }
    }
}

pub(crate) async fn address(
    State(app): State<Arc<App>>,
    Path((account, vault)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let Depositor { key, token } = depositor(&app, &headers, &account, &vault).await?;
    let _turn = app.deposits.take(key.account).await?;
    let store = Arc::clone(&app.store);
    let bytes = apart(move || store.address(&key, token, ADDRESS_OBJECT_BYTES_MAX)).await?;
    let bytes = bytes.ok_or(Refusal::NoAddress)?;
    let kinds = [
        (CONTENT_TYPE, "application/octet-stream"),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok(named((kinds, bytes).into_response(), account))
}

pub(crate) async fn deposit(
    State(app): State<Arc<App>>,
    Path((account, vault, name)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let Depositor { key, token } = depositor(&app, &headers, &account, &vault).await?;
    let name = object_of(&name)?;
    let said = Said::by(&headers)?;
    let upload = Upload::new(body, said);
    let by = Asker::Depositor(token);
    let (store, asked) = (
        Arc::clone(&app.store),
        (key.clone(), by.clone(), name.clone()),
    );
    let may = apart(move || {
        let (key, by, name) = asked;
        store.may_create((&key, &by), &name, said.len)
    });
    if let Err(Refused(refusal)) = may.await {
        return Err(upload.refuse(for_depositors(refusal)).await);
    }
    let _turn = match app.deposits.take(key.account).await {
        Ok(turn) => turn,
        Err(refusal) => return Err(upload.refuse(refusal).await),
    };
    let incoming = upload.into_file(&app.store.objects, said).await?;
    // From here on all of it is carried out even if nobody waits for the answer.
    let created = apart(move || {
        let len = incoming.len();
        app.store.create((&key, &by), &name, incoming)?;
        app.metrics.received(len);
        Ok(())
    });
    created
        .await
        .map_err(|Refused(refusal)| Refused(for_depositors(refusal)))?;
    Ok(named(StatusCode::CREATED.into_response(), account))
}

/// What a depositor is told: what the account of the vault has left is none of their business.
const fn for_depositors(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::BytesUsed | Refusal::ObjectsUsed | Refusal::VaultsUsed => Refusal::InboxFull,
        // The account was removed since the address was looked for. (1)
        Refusal::WrongToken => Refusal::NoAddress,
        other => other,
    }
}

/// The object that a depositor calls so: an envelope, or a piece.
fn object_of(name: &str) -> Result<ObjectName, Refusal> {
    let is_hex = |part: &str, digits: usize| {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        part.len() == digits && part.bytes().all(is_digit)
    };
    let is_number = |part: &str| part.len() == 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = name.split('.').take(4).collect();
    let kind = match parts[..] {
        [id] if is_hex(id, 32) => "deposits",
        [id, run, number] if is_hex(id, 32) && is_hex(run, 16) && is_number(number) => "pieces",
        _ => return Err(Refusal::Name),
    };
    ObjectName::new(format!("{kind}/{name}")).map_err(|_| Refusal::Name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn a_depositor_names_envelopes_and_pieces_and_nothing_else() {
        let (id, run) = ("0f".repeat(16), "a1".repeat(8));
        assert_eq!(object_of(&id).unwrap().as_str(), format!("deposits/{id}"));
        let piece = format!("{id}.{run}.0017");
        assert_eq!(
            object_of(&piece).unwrap().as_str(),
            format!("pieces/{piece}")
        );
        for bad in [
            String::new(),
            "..".to_owned(),
            id.to_uppercase(),
            id[1..].to_owned(),
            format!("{id}."),
            format!("{id}.{run}"),
            format!("{id}.{run}.17"),
            format!("{id}.{run}.00017"),
            format!("{id}.{run}.0017."),
            format!("{id}.{run}.00a7"),
            format!("../{id}"),
        ] {
            assert_eq!(object_of(&bad), Err(Refusal::Name), "{bad}");
        }
    }
}

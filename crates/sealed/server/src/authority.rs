//! Finds out who makes a request, and what they may do.
//!
//! Takes   the head of a request, with the account and the vault in its path
//! Gives   the account, the asker (a member of the vault, or somebody with only the token of the account), and its
//!         rights; or a refusal, also if the account makes too many requests
//! Never   reveals more of a vault or an account than that the request is refused
//! Spec    spec/11-sync.md, section 11.11

use std::sync::Arc;
use std::time::Instant;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use strongroom_remote::protocol::{PASS_PREFIX, Refusal, TOKEN_BYTES_MAX, is_part};

use crate::answers::Refused;
use crate::ledger::{Account, VaultKey};
use crate::logins::{LoggedIn, Logins};
use crate::request_rates::{Caller, RequestRates};
use crate::rights::{Asker, Deed, Rights};
use crate::store::Store;
use crate::token::TokenHash;
use crate::upload::apart;

/// What knows the accounts, and who is logged in.
pub(crate) struct Authority {
    store: Arc<Store>,
    pub(crate) logins: Arc<Logins>,
    rates: Arc<RequestRates>,
}

/// What a request shows.
#[derive(Clone, Copy)]
struct ShownToken {
    token: TokenHash,
    /// Whether that is the token of a login, and not of an account.
    is_login: bool,
}

/// The account of a request, and how that is known.
pub(crate) struct Known {
    pub(crate) account: Account,
    /// Of what the request shows.
    token: TokenHash,
    /// If that is the token of a login.
    login: Option<LoggedIn>,
}

/// Who asks for something in which vault.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) key: VaultKey,
    pub(crate) by: Asker,
    rights: Rights,
    shown: ShownToken,
    /// The account in the path.
    account: String,
}

impl Asked {
    pub(crate) fn may(&self, deed: Deed) -> Result<(), Refusal> {
        self.rights.allow(deed)
    }
}

impl Authority {
    pub(crate) fn new(store: Arc<Store>, rates: Arc<RequestRates>) -> Self {
        let logins = Arc::new(Logins::of(&store));
        Self {
            store,
            logins,
            rates,
        }
    }

    /// The account in the path, whose token the request shows, or that of a login there.
    pub(crate) async fn authorise(
        &self,
        headers: &HeaderMap,
        account: &str,
    ) -> Result<Known, Refused> {
        self.counted(ShownToken::of(headers)?, account).await
    }

    /// The same of a token. The request counts for the account.
    async fn counted(&self, shown: ShownToken, account: &str) -> Result<Known, Refused> {
        let known = self.known(shown, account).await?;
        let caller = Caller::Account(known.account.id);
        self.rates.take(caller, Instant::now())?;
        Ok(known)
    }

    async fn known(&self, shown: ShownToken, account: &str) -> Result<Known, Refused> {
        let ShownToken { token, is_login } = shown;
        let (store, logins) = (Arc::clone(&self.store), Arc::clone(&self.logins));
        let account = account.to_owned();
        let found = apart(move || {
            let login = match is_login {
                true => Some(logins.login(token, Instant::now())?),
                false => None,
            };
            if !is_part(&account) {
                return Err(Refusal::Name.into());
            }
            let of_account = login.as_ref().map_or(token, |one| one.account_token);
            Ok(Known {
                account: store.authorise(of_account, &account)?,
                token,
                login,
            })
        });
        match found.await {
            // The account has another token since.                                             [11.11.9]
            Err(Refused(Refusal::WrongToken)) if is_login => Err(Refusal::LoginOver.into()),
            found => found,
        }
    }

    /// A vault of that account, and who asks.
    pub(crate) async fn vault(
        &self,
        headers: &HeaderMap,
        account: &str,
        vault: &str,
    ) -> Result<Asked, Refused> {
        let shown = ShownToken::of(headers)?;
        let known = self.counted(shown, account).await?;
        self.asked(shown, known, account, vault).await
    }

    /// The same after a while: whether what was shown is still good, and for what.
    pub(crate) async fn again(&self, asked: &Asked) -> Result<Asked, Refused> {
        let known = self.known(asked.shown, &asked.account).await?;
        self.asked(asked.shown, known, &asked.account, &asked.key.name)
            .await
    }

    async fn asked(
        &self,
        shown: ShownToken,
        known: Known,
        account: &str,
        vault: &str,
    ) -> Result<Asked, Refused> {
        if !is_part(vault) {
            return Err(Refusal::Name.into());
        }
        let key = VaultKey {
            account: known.account.id,
            name: vault.to_owned(),
        };
        let by = match known.login {
            Some(login) if login.vault != key => return Err(Refusal::OtherVault.into()),
            Some(login) => login.asker,
            None => Asker::Account,
        };
        let rights = self.rights(&key, &by).await?;
        Ok(Asked {
            key,
            by,
            rights,
            shown,
            account: account.to_owned(),
        })
    }

    /// What somebody may do now.
    async fn rights(&self, vault: &VaultKey, by: &Asker) -> Result<Rights, Refused> {
        let (store, vault, by) = (Arc::clone(&self.store), vault.clone(), by.clone());
        apart(move || store.ledger.rights(&vault, &by)).await
    }

    /// The same for who logs in: with the token of the account.
    pub(crate) async fn before_login(
        &self,
        headers: &HeaderMap,
        account: &str,
        vault: &str,
    ) -> Result<(VaultKey, TokenHash), Refused> {
        let known = self.authorise(headers, account).await?;
        if known.login.is_some() {
            return Err(Refusal::WrongToken.into());
        }
        if !is_part(vault) {
            return Err(Refusal::Name.into());
        }
        let key = VaultKey {
            account: known.account.id,
            name: vault.to_owned(),
        };
        Ok((key, known.token))
    }
}

impl ShownToken {
    fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let token = token_of(headers)?;
        Ok(Self {
            token: TokenHash::of(token),
            is_login: token.starts_with(PASS_PREFIX),
        })
    }
}

pub(crate) fn token_of(headers: &HeaderMap) -> Result<&str, Refusal> {
    let value = headers.get(AUTHORIZATION).ok_or(Refusal::NoToken)?;
    let token = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token)
    });
    match token {
        Some(token) if !token.is_empty() && token.len() <= TOKEN_BYTES_MAX => Ok(token),
        _ => Err(Refusal::WrongToken),
    }
}

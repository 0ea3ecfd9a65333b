//! The challenges that were issued, and who is logged in. A server with a folder keeps them in memory, so all logins end with it.
//! Several instances keep them in their database (`ledger/passes.rs`), so that each knows what another has issued.
//!
//! Takes   the vault and the account of the request; the time
//! Gives   challenges, each once; tokens, and the asker of each
//! Never   keeps a token (it keeps the hash), or anything for longer than it is valid
//! Spec    spec/11-sync.md, [11.11.1] and [11.11.9]
//!
//! Invariants
//!  (1) A challenge is accepted once, for the vault for which it was issued.                     [11.11.1]
//!  (2) The memory that one account can make the server use is bounded, and so is that of all accounts together.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use strongroom_remote::protocol::Refusal;

use crate::error::{Error, Result};
use crate::ledger::VaultKey;
pub(crate) use crate::ledger::passes::{Issued, LoggedIn};
use crate::limits::{
    CHALLENGE, CHALLENGES, CHALLENGES_OF_ACCOUNT, LOGIN, LOGINS, LOGINS_OF_ACCOUNT,
};
use crate::store::Store;
use crate::token::{Token, TokenHash, fill};

/// All of both. Its calls may wait for the database.
pub(crate) enum Logins {
    Own(Box<Own>),
    Shared(Arc<Store>),
}

/// Those of a server that is alone.
pub(crate) struct Own {
    challenges: Mutex<Passing<Issued>>,
    logged_in: Mutex<Passing<LoggedIn>>,
}

impl Default for Logins {
    /// In memory.
    fn default() -> Self {
        Self::Own(Box::new(Own {
            challenges: Mutex::new(Passing::new(CHALLENGE, CHALLENGES_OF_ACCOUNT, CHALLENGES)),
            logged_in: Mutex::new(Passing::new(LOGIN, LOGINS_OF_ACCOUNT, LOGINS)),
        }))
    }
}

impl Logins {
    /// Those of a server that stores everything there.
    pub(crate) fn of(store: &Arc<Store>) -> Self {
        match store.is_shared() {
            true => Self::Shared(Arc::clone(store)),
            false => Self::default(),
        }
    }

    /// A challenge for that vault.
    ///
    /// # Errors
    /// `Busy` if too many are open.
    pub(crate) fn challenge(&self, vault: &VaultKey, now: Instant) -> Result<Issued> {
        let mut nonce = [0; 32];
        fill(&mut nonce).map_err(Error::io("asking the system for random bytes"))?;
        let mut issued = Issued {
            nonce,
            issued_s: 0,
            vault: vault.clone(),
        };
        match self {
            Self::Own(own) => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                issued.issued_s = since.map_or(0, |since| since.as_secs());
                let mut challenges = own.challenges.lock();
                match challenges.put(nonce, vault.account, issued.clone(), now) {
                    true => Ok(issued),
                    false => Err(Refusal::Busy.into()),
                }
            }
            Self::Shared(store) => {
                issued.issued_s = store.ledger.put_challenge(&nonce, vault)?;
                Ok(issued)
            }
        }
    }

    /// The challenge with that nonce, which does not count any more. (1)
    ///
    /// # Errors
    /// `NoChallenge`.
    pub(crate) fn answered(
        &self,
        nonce: &[u8; 32],
        vault: &VaultKey,
        now: Instant,
    ) -> Result<Issued> {
        let issued = match self {
            Self::Own(own) => own.challenges.lock().take(nonce, now),
            Self::Shared(store) => store.ledger.take_challenge(nonce)?,
        };
        let issued = issued.filter(|issued| issued.vault == *vault);
        issued.ok_or_else(|| Refusal::NoChallenge.into())
    }

    /// The token of somebody who logged in.
    ///
    /// # Errors
    /// `Busy` if too many are logged in.
    pub(crate) fn begin(&self, login: LoggedIn, now: Instant) -> Result<Token> {
        let token = Token::of_login()?;
        let hash = TokenHash::of(token.reveal());
        match self {
            Self::Own(own) => {
                let account = login.vault.account;
                if !own.logged_in.lock().put(hash.0, account, login, now) {
                    return Err(Refusal::Busy.into());
                }
            }
            Self::Shared(store) => store.ledger.put_login(hash, &login)?,
        }
        Ok(token)
    }

    /// Whose token that is.
    ///
    /// # Errors
    /// `LoginOver`.
    pub(crate) fn login(&self, token: TokenHash, now: Instant) -> Result<LoggedIn> {
        let login = match self {
            Self::Own(own) => own.logged_in.lock().get(&token.0, now).cloned(),
            Self::Shared(store) => store.ledger.login_of(token)?,
        };
        login.ok_or_else(|| Refusal::LoginOver.into())
    }
}

/// Values that are good for some time: so many of each account, of which the oldest goes for a new one, and so many of all.
pub(crate) struct Passing<V> {
    good: Duration,
    of_account: usize,
    of_all: usize,
    values: HashMap<[u8; 32], Passed<V>>,
    /// The keys of each account that has some, oldest first.
    order: HashMap<i64, VecDeque<[u8; 32]>>,
}

struct Passed<V> {
    until: Instant,
    account: i64,
    value: V,
}

impl<V> Passing<V> {
    fn new(good: Duration, of_account: usize, of_all: usize) -> Self {
        Self {
            good,
            of_account,
            of_all,
            values: HashMap::new(),
            order: HashMap::new(),
        }
    }

    /// Keeps `value`; gives whether there was room. (2)
    fn put(&mut self, key: [u8; 32], account: i64, value: V, now: Instant) -> bool {
        if self.values.len() >= self.of_all {
            self.forget_all_past(now);
        }
        let values = &mut self.values;
        let order = self.order.entry(account).or_default();
        while let Some(oldest) = order.front() {
            let is_good = values.get(oldest).is_some_and(|one| now < one.until);
            if is_good && order.len() < self.of_account {
                break;
            }
            values.remove(oldest);
            order.pop_front();
        }
        let has_room = values.len() < self.of_all;
        if has_room {
            order.push_back(key);
            let until = now + self.good;
            let passed = Passed {
                until,
                account,
                value,
            };
            values.insert(key, passed);
        } else if order.is_empty() {
            self.order.remove(&account);
        }
        has_room
    }

    fn get(&self, key: &[u8; 32], now: Instant) -> Option<&V> {
        let one = self.values.get(key)?;
        (now < one.until).then_some(&one.value)
    }

    fn take(&mut self, key: &[u8; 32], now: Instant) -> Option<V> {
        let one = self.values.remove(key)?;
        if let Some(keys) = self.order.get_mut(&one.account) {
            keys.retain(|other| other != key);
            if keys.is_empty() {
                self.order.remove(&one.account);
            }
        }
        (now < one.until).then_some(one.value)
    }

    fn forget_all_past(&mut self, now: Instant) {
        let Self { values, order, .. } = self;
        values.retain(|_, one| now < one.until);
        order.retain(|_, keys| {
            keys.retain(|key| values.contains_key(key));
            !keys.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::rights::Asker;

    fn vault(account: i64, name: &str) -> VaultKey {
        VaultKey {
            account,
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_challenge_counts_once_for_its_vault_and_for_a_while() {
        let (logins, now) = (Logins::default(), Instant::now());
        let issue = || logins.challenge(&vault(1, "v"), now).unwrap().nonce;
        let nonce = issue();
        assert!(logins.answered(&nonce, &vault(1, "v"), now).is_ok());
        let is_refused = |answered: Result<Issued>| {
            matches!(answered, Err(Error::Refused(Refusal::NoChallenge)))
        };
        assert!(is_refused(logins.answered(&nonce, &vault(1, "v"), now)));
        for other in [vault(1, "w"), vault(2, "v")] {
            let nonce = issue();
            assert!(is_refused(logins.answered(&nonce, &other, now)));
            // It was answered.
            assert!(is_refused(logins.answered(&nonce, &vault(1, "v"), now)));
        }
        let nonce = issue();
        let late = now + CHALLENGE;
        assert!(is_refused(logins.answered(&nonce, &vault(1, "v"), late)));
        let nonce = issue();
        let just = late - Duration::from_millis(1);
        assert!(logins.answered(&nonce, &vault(1, "v"), just).is_ok());
        assert!(is_refused(logins.answered(&[0; 32], &vault(1, "v"), now)));
    }

    #[test]
    fn a_login_ends() {
        let (logins, now) = (Logins::default(), Instant::now());
        let login = LoggedIn {
            vault: vault(1, "v"),
            asker: Asker::Account,
            account_token: TokenHash([0; 32]),
        };
        let token = logins.begin(login, now).unwrap();
        let hash = TokenHash::of(token.reveal());
        let is_good = |at| logins.login(hash, at).is_ok();
        assert!(is_good(now) && is_good(now + LOGIN / 2) && !is_good(now + LOGIN));
        let other = TokenHash::of("srd-00");
        let over = logins.login(other, now);
        assert!(matches!(over, Err(Error::Refused(Refusal::LoginOver))));
    }

    /// Goal: no account makes the server keep without bound, or takes the room of another. Method: small bounds; one account that asks again
    /// and again, answering or not; then many accounts.
    #[test]
    fn what_is_kept_is_bounded_for_an_account_and_for_all() {
        let now = Instant::now();
        let key = |number: u8| [number; 32];
        let mut kept: Passing<u8> = Passing::new(Duration::from_secs(9), 3, 5);
        for number in 0..100 {
            assert!(kept.put(key(number), 1, number, now));
            if number % 2 == 0 {
                assert_eq!(kept.take(&key(number), now), Some(number));
            }
            assert!(kept.values.len() <= 3);
            let keys = kept.order.get(&1).map_or(0, VecDeque::len);
            assert_eq!(keys, kept.values.len());
        }
        // The newest stay, and others have their room.
        assert_eq!(kept.get(&key(99), now), Some(&99));
        assert!(kept.put(key(200), 2, 200, now));
        let room = 5 - kept.values.len();
        for number in 0..room {
            let number = u8::try_from(number).unwrap();
            assert!(kept.put(key(100 + number), 3 + i64::from(number), 0, now));
        }
        assert!(!kept.put(key(201), 99, 0, now));
        assert!(!kept.order.contains_key(&99));
        // An account that has some replaces its own.
        assert!(kept.get(&key(200), now).is_some());
        // Nothing is kept of an account whose values were all taken.
        assert_eq!(kept.take(&key(200), now), Some(200));
        assert!(!kept.order.contains_key(&2));
        assert!(kept.put(key(200), 2, 200, now));
        // All end, and there is room again.
        let later = now + Duration::from_secs(9);
        assert_eq!(kept.get(&key(200), later), None);
        assert!(kept.put(key(201), 99, 0, later));
        assert_eq!((kept.values.len(), kept.order.len()), (1, 1));
    }
}

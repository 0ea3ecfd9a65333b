//! Logs in at a server when a login is needed, and gives the token that the next request carries.
//!
//! Takes   the token of the account; a signer, if there is one; the two requests of a login (`Asks`)
//! Gives   the token of a login if the server follows the vault, otherwise the token of the account
//! Never   reveals a token in a message or log, or signs anything that is valid for long
//! Spec    spec/11-sync.md, section 11.11
//!
//! Invariants
//!  (1) There is one login at a time: a request that needs one meanwhile waits, and uses the token of that login.
//!  (2) A signer is asked outside of the runtime that runs the requests: it may ask another process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::HeaderValue;
use url::Url;

use crate::error::{Error, Result};
use crate::limits::LOOK_FOR_LOGIN;
use crate::login::{
    Challenge, ChallengeDocument, LoginAs, LoginDocument, PassDocument, Signer, exact,
};
use crate::pinned::Fingerprint;
use crate::protocol::{LOGIN_VALID_S_MAX, Refusal};

/// Why no login came of it.
pub(crate) enum NoLogin {
    Refused(Refusal),
    Error(Error),
    /// Nobody wants to wait any more.
    Unwanted,
}

type Asked<T> = std::result::Result<T, NoLogin>;

/// The two requests of a login, with the token of the account.
pub(crate) trait Asks {
    /// A challenge.
    fn challenge(&self) -> Asked<ChallengeDocument>;
    /// The answer to one.
    fn log_in(&self, document: &LoginDocument) -> Asked<PassDocument>;
}

/// Who logs in, and where.
pub(crate) struct Login {
    /// As the URL has it.                                                                            [11.11.3]
    server: String,
    account: String,
    vault: String,
    /// The token of the account.
    token: HeaderValue,
    signer: Mutex<Option<Arc<dyn Signer>>>,
    /// Held during a login. (1)
    state: Mutex<State>,
}

enum State {
    /// Nobody has asked.
    Unknown,
    /// The server does not follow the vault, as it said.
    NotFollowed {
        until: Instant,
    },
    In {
        pass: HeaderValue,
        until: Instant,
    },
}

impl Login {
    /// At `server`, into the vault at `path`, which is ACCOUNT/VAULT.
    pub(crate) fn new(server: String, path: &str, token: &str) -> Result<Self> {
        let (account, vault) = path.split_once('/').unwrap_or((path, ""));
        Ok(Self {
            server,
            account: account.to_owned(),
            vault: vault.to_owned(),
            token: bearer(token)
                .ok_or_else(|| Error::Address("the token in the URL is invalid".to_owned()))?,
            signer: Mutex::new(None),
            state: Mutex::new(State::Unknown),
        })
    }

    /// The token of the account.
    pub(crate) const fn of_account(&self) -> &HeaderValue {
        &self.token
    }

    /// From now on `signer` signs.
    pub(crate) fn sign_with(&self, signer: Arc<dyn Signer>) {
        *locked(&self.signer) = Some(signer);
        *locked(&self.state) = State::Unknown;
    }

    /// What the next request shows.
    pub(crate) fn pass(&self, asks: &dyn Asks) -> Asked<HeaderValue> {
        let signer = locked(&self.signer).clone();
        let Some(signer) = signer else {
            return Ok(self.token.clone());
        };
        let mut state = locked(&self.state); // (1)
        let now = Instant::now();
        match &*state {
            State::In { pass, until } if now < *until => return Ok(pass.clone()),
            State::NotFollowed { until } if now < *until => return Ok(self.token.clone()),
            _ => {}
        }
        *state = State::Unknown;
        *state = self.log_in(&*signer, asks)?;
        match &*state {
            State::In { pass, .. } => Ok(pass.clone()),
            _ => Ok(self.token.clone()),
        }
    }

    /// Whether another try may help after a request that showed `pass` was refused so; then it logs in again. A device that replaced itself is
    /// removed by its own header, and a slot may have added one: who signs has the new one.
    pub(crate) fn is_over(&self, pass: &HeaderValue, refusal: Refusal) -> bool {
        let may_help = matches!(
            refusal,
            Refusal::LoginOver
                | Refusal::LoginNeeded
                | Refusal::DeviceRemoved
                | Refusal::OnlyDevices
        );
        if !may_help || locked(&self.signer).is_none() {
            return false;
        }
        let mut state = locked(&self.state);
        // Another request may have logged in since.
        if matches!(&*state, State::In { pass: newer, .. } if newer != pass) {
            return true;
        }
        *state = State::Unknown;
        true
    }

    /// A header was created: the server may follow the vault from the next login on.
    pub(crate) fn ask_again(&self) {
        let mut state = locked(&self.state);
        if matches!(*state, State::NotFollowed { .. }) {
            *state = State::Unknown;
        }
    }

    fn log_in(&self, signer: &dyn Signer, asks: &dyn Asks) -> Asked<State> {
        let mut refused = Refusal::NotMember;
        for role in [LoginAs::Device, LoginAs::Slot] {
            let mut given = self.log_in_as(role, signer, asks);
            if let Err(NoLogin::Refused(Refusal::NoChallenge)) = given {
                // The answer was lost, and the request repeated: a challenge counts once.
                given = self.log_in_as(role, signer, asks);
            }
            match given {
                Ok(None) => {}
                // A key slot that stays may find out what became of the device.
                Err(NoLogin::Refused(Refusal::DeviceRemoved)) if role == LoginAs::Device => {
                    refused = Refusal::DeviceRemoved;
                }
                Ok(Some(state)) => return Ok(state),
                Err(no_login) => return Err(no_login),
            }
        }
        Err(NoLogin::Refused(refused))
    }

    /// The same in that role; `None` if nobody has a key for it.
    fn log_in_as(
        &self,
        role: LoginAs,
        signer: &dyn Signer,
        asks: &dyn Asks,
    ) -> Asked<Option<State>> {
        let tried = asks.challenge().and_then(|challenge| {
            let signed = self.signed(signer, role, &challenge);
            match signed.map_err(NoLogin::Error)? {
                Some(document) => logged_in(&asks.log_in(&document)?).map(Some),
                None => Ok(None),
            }
        });
        match tried {
            // It has no header that says who is a member; or it is of an earlier version.
            Err(NoLogin::Refused(
                Refusal::NoHeader | Refusal::NoSuchPath | Refusal::NoSuchMethod,
            )) => {
                let until = Instant::now() + LOOK_FOR_LOGIN;
                Ok(Some(State::NotFollowed { until }))
            }
            tried => tried,
        }
    }

    /// The answer to a challenge; `None` if nobody has a key for that role. (2)
    fn signed(
        &self,
        signer: &dyn Signer,
        role: LoginAs,
        challenge: &ChallengeDocument,
    ) -> Result<Option<LoginDocument>> {
        let odd = || Error::Other("the challenge of the server is invalid".to_owned());
        if challenge.valid_s > LOGIN_VALID_S_MAX {
            return Err(odd()); // [11.11.1]
        }
        let signed = signer.sign(
            role,
            &Challenge {
                server: &self.server,
                account: &self.account,
                vault: &self.vault,
                nonce: exact(&challenge.nonce).ok_or_else(odd)?,
                issued_s: challenge.issued_s,
                valid_s: challenge.valid_s,
                records: challenge.records,
            },
        )?;
        Ok(signed.map(|signed| LoginDocument::new(&self.server, &challenge.nonce, &signed)))
    }
}

/// The server in a statement: by the fingerprint of its certificate if the URL has one, else by its host.        [11.11.3]
pub(crate) fn name_of(server: &Url, fingerprint: Option<Fingerprint>) -> String {
    match fingerprint {
        Some(fingerprint) => format!("sha256:{}", fingerprint.digits()),
        None => {
            let host = server.host_str().unwrap_or_default();
            host.trim_matches(['[', ']']).to_ascii_lowercase()
        }
    }
}

/// What a login gave.
fn logged_in(pass: &PassDocument) -> Asked<State> {
    let odd = || Error::Other("the server answered a login with an invalid token".to_owned());
    let good = Duration::from_secs(pass.valid_s.min(24 * 3600));
    Ok(State::In {
        pass: bearer(&pass.token).ok_or_else(|| NoLogin::Error(odd()))?,
        // A little sooner than the server, for what is under way.
        until: Instant::now() + good - good / 8,
    })
}

/// What a request shows.
fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// What is in there is whole whenever somebody panics.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::collections::VecDeque;

    use super::*;
    use crate::login::{SignedLogin, encoded};

    /// Has a key for these roles.
    #[derive(Debug)]
    struct Keys(&'static [LoginAs]);

    impl Signer for Keys {
        fn sign(&self, role: LoginAs, challenge: &Challenge<'_>) -> Result<Option<SignedLogin>> {
            assert_eq!(
                (challenge.server, challenge.account, challenge.vault),
                ("here", "anna", "v")
            );
            Ok(self.0.contains(&role).then(|| SignedLogin {
                principal: [role as u8; 32],
                signature: [9; 64],
                records: Vec::new(),
            }))
        }
    }

    /// Answers in this order, and counts.
    struct Server {
        valid_s: u64,
        challenges: Mutex<u32>,
        answers: Mutex<VecDeque<std::result::Result<&'static str, Refusal>>>,
        follows: bool,
    }

    impl Server {
        fn of(answers: &[std::result::Result<&'static str, Refusal>]) -> Self {
            Self {
                valid_s: 60,
                challenges: Mutex::new(0),
                answers: Mutex::new(answers.iter().copied().collect()),
                follows: true,
            }
        }
    }

    impl Asks for Server {
        fn challenge(&self) -> Asked<ChallengeDocument> {
            *self.challenges.lock().unwrap() += 1;
            match self.follows {
                false => Err(NoLogin::Refused(Refusal::NoHeader)),
                true => Ok(ChallengeDocument {
                    nonce: encoded(&[1; 32]),
                    issued_s: 0,
                    valid_s: self.valid_s,
                    records: 0,
                }),
            }
        }

        fn log_in(&self, _: &LoginDocument) -> Asked<PassDocument> {
            match self.answers.lock().unwrap().pop_front().unwrap() {
                Ok(token) => Ok(PassDocument {
                    token: token.to_owned(),
                    valid_s: 600,
                }),
                Err(refusal) => Err(NoLogin::Refused(refusal)),
            }
        }
    }

    fn login(roles: &'static [LoginAs]) -> Login {
        let login = Login::new("here".to_owned(), "anna/v", "account").unwrap();
        login.sign_with(Arc::new(Keys(roles)));
        login
    }

    fn shown(login: &Login, server: &Server) -> std::result::Result<String, Option<Refusal>> {
        match login.pass(server) {
            Ok(pass) => Ok(pass.to_str().unwrap().to_owned()),
            Err(NoLogin::Refused(refusal)) => Err(Some(refusal)),
            Err(_) => Err(None),
        }
    }

    #[test]
    fn who_has_no_key_shows_the_token_of_the_account_and_asks_for_no_challenge() {
        let login = Login::new("here".to_owned(), "anna/v", "account").unwrap();
        let server = Server::of(&[]);
        assert_eq!(shown(&login, &server), Ok("Bearer account".to_owned()));
        assert_eq!(*server.challenges.lock().unwrap(), 0);
    }

    #[test]
    fn one_login_is_used_until_it_is_over() {
        let login = login(&[LoginAs::Device]);
        let server = Server::of(&[Ok("one"), Ok("two")]);
        for _ in 0..3 {
            assert_eq!(shown(&login, &server), Ok("Bearer one".to_owned()));
        }
        let one = bearer("one").unwrap();
        assert!(!login.is_over(&one, Refusal::NoObject));
        assert!(!login.is_over(&one, Refusal::Suspended));
        assert!(login.is_over(&one, Refusal::LoginOver));
        assert_eq!(shown(&login, &server), Ok("Bearer two".to_owned()));
        // A request that had shown the first one is refused later: the second one stays.
        assert!(login.is_over(&one, Refusal::LoginOver));
        assert_eq!(shown(&login, &server), Ok("Bearer two".to_owned()));
        assert_eq!(*server.challenges.lock().unwrap(), 2);
    }

    #[test]
    fn a_vault_that_is_not_followed_is_used_with_the_token_of_the_account_until_a_header_comes() {
        let login = login(&[LoginAs::Device]);
        let mut server = Server::of(&[Ok("one")]);
        server.follows = false;
        assert_eq!(shown(&login, &server), Ok("Bearer account".to_owned()));
        assert_eq!(shown(&login, &server), Ok("Bearer account".to_owned()));
        assert_eq!(*server.challenges.lock().unwrap(), 1);
        server.follows = true;
        login.ask_again();
        assert_eq!(shown(&login, &server), Ok("Bearer one".to_owned()));
    }

    #[test]
    fn a_slot_logs_in_where_there_is_no_device_or_it_was_removed() {
        let server = Server::of(&[Ok("slot")]);
        assert_eq!(
            shown(&login(&[LoginAs::Slot]), &server),
            Ok("Bearer slot".to_owned())
        );
        let server = Server::of(&[Err(Refusal::DeviceRemoved), Ok("slot")]);
        let both = login(&[LoginAs::Device, LoginAs::Slot]);
        assert_eq!(shown(&both, &server), Ok("Bearer slot".to_owned()));
        let server = Server::of(&[Err(Refusal::DeviceRemoved)]);
        let removed = shown(&login(&[LoginAs::Device]), &server);
        assert_eq!(removed, Err(Some(Refusal::DeviceRemoved)));
        let server = Server::of(&[Err(Refusal::OtherServer)]);
        let other = shown(&both_again(), &server);
        assert_eq!(other, Err(Some(Refusal::OtherServer)));
    }

    fn both_again() -> Login {
        login(&[LoginAs::Device, LoginAs::Slot])
    }

    #[test]
    fn a_challenge_that_was_used_by_a_lost_answer_is_asked_for_again_once() {
        let server = Server::of(&[Err(Refusal::NoChallenge), Ok("one")]);
        let device = login(&[LoginAs::Device]);
        assert_eq!(shown(&device, &server), Ok("Bearer one".to_owned()));
        let server = Server::of(&[Err(Refusal::NoChallenge), Err(Refusal::NoChallenge)]);
        let device = login(&[LoginAs::Device]);
        assert_eq!(shown(&device, &server), Err(Some(Refusal::NoChallenge)));
    }

    #[test]
    fn what_would_be_valid_for_long_is_not_signed() {
        let mut server = Server::of(&[Ok("one")]);
        server.valid_s = LOGIN_VALID_S_MAX + 1;
        assert_eq!(shown(&login(&[LoginAs::Device]), &server), Err(None));
        server.valid_s = LOGIN_VALID_S_MAX;
        assert!(shown(&login(&[LoginAs::Device]), &server).is_ok());
    }

    /// What is signed names the server as the URL does, whatever the server says of itself.
    #[test]
    fn a_server_is_named_by_its_fingerprint_or_its_host() {
        let of = |url: &str| name_of(&Url::parse(url).unwrap(), None);
        assert_eq!(of("https://Server.Example:8443/"), "server.example");
        assert_eq!(of("http://127.0.0.1:1/"), "127.0.0.1");
        assert_eq!(of("http://[::1]:1/"), "::1");
        let digits = "0F".repeat(32);
        let pinned = name_of(
            &Url::parse("https://server.example/").unwrap(),
            Fingerprint::parse(&digits),
        );
        assert_eq!(pinned, format!("sha256:{}", digits.to_lowercase()));
    }
}

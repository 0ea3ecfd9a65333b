//! The messages of a server and a client at a login, and the `Signer` of the client.
//!
//! Takes   a challenge; a signature of the holder of a key
//! Gives   the JSON documents of a login (challenge, answer, token), and the values in them
//! Never   has a key: a `Signer` has it
//! Spec    spec/11-sync.md, section 11.11

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Result;
use crate::protocol::LOGIN_RECORDS_MAX;

/// What a server says to who wants to log in.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ChallengeDocument {
    /// 32 random bytes in base64.
    pub nonce: String,
    /// The second since 1970 in which it was issued.
    pub issued_s: u64,
    /// For how many seconds it is valid.
    pub valid_s: u64,
    /// How many membership records of the vault the server has noted.
    pub records: u64,
}

/// What a client answers.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct LoginDocument {
    /// That of the challenge.
    pub nonce: String,
    /// The server, as the client reached it.
    pub server: String,
    /// The id of the principal, in base64.
    pub principal: String,
    /// Its signature, in base64.
    pub signature: String,
    /// The membership records behind those that the server has noted, oldest first, in base64; at most `LOGIN_RECORDS_MAX`.
    #[serde(deserialize_with = "some_records")]
    pub records: Vec<String>,
}

/// What a login gives.
#[derive(Clone, Serialize, Deserialize)]
pub struct PassDocument {
    /// What the client shows from now on instead of the token of the account.
    pub token: String,
    /// For how many seconds it is good.
    pub valid_s: u64,
}

/// A challenge, with what the client knows of where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// The server, as the URL has it.                                                               [11.11.3]
    pub server: &'a str,
    /// The account there.
    pub account: &'a str,
    /// What the vault is called there.
    pub vault: &'a str,
    /// The random bytes.
    pub nonce: [u8; 32],
    /// The second since 1970 in which it was issued.
    pub issued_s: u64,
    /// For how many seconds it is valid.
    pub valid_s: u64,
    /// How many membership records the server has noted.
    pub records: u64,
}

/// In which role somebody logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginAs {
    /// As a device.
    Device,
    /// As a key slot, which may read: before there is a device, or if the device does not count any more.
    Slot,
}

/// A signed challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedLogin {
    /// Who signed.
    pub principal: [u8; 32],
    /// The signature.
    pub signature: [u8; 64],
    /// The membership records behind those that the server has noted, oldest first.
    pub records: Vec<Vec<u8>>,
}

/// Who has the keys of a vault, and signs for it.
pub trait Signer: Send + Sync + fmt::Debug {
    /// Signs a challenge in that role; `None` if there is no key for it here.
    ///
    /// # Errors
    /// Whatever keeps it from signing now.
    fn sign(&self, role: LoginAs, challenge: &Challenge<'_>) -> Result<Option<SignedLogin>>;
}

impl fmt::Debug for PassDocument {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PassDocument({} s)", self.valid_s)
    }
}

impl LoginDocument {
    /// The answer to the challenge from `server` with that nonce.
    #[must_use]
    pub fn new(server: &str, nonce: &str, signed: &SignedLogin) -> Self {
        Self {
            nonce: nonce.to_owned(),
            server: server.to_owned(),
            principal: encoded(&signed.principal),
            signature: encoded(&signed.signature),
            records: signed.records.iter().map(|one| encoded(one)).collect(),
        }
    }

    /// Nonce and signature; `None` if something in the document is not what it has to be.
    #[must_use]
    pub fn signed(&self) -> Option<([u8; 32], SignedLogin)> {
        let records: Option<Vec<_>> = self.records.iter().map(|one| decoded(one)).collect();
        let signed = SignedLogin {
            principal: exact(&self.principal)?,
            signature: exact(&self.signature)?,
            records: records?,
        };
        Some((exact(&self.nonce)?, signed))
    }
}

/// No more records than a header has: many empty ones would take far more memory than the document that says so.
fn some_records<'de, D: Deserializer<'de>>(
    document: D,
) -> std::result::Result<Vec<String>, D::Error> {
    document.deserialize_seq(Records)
}

struct Records;

impl<'de> Visitor<'de> for Records {
    type Value = Vec<String>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at most {LOGIN_RECORDS_MAX} records")
    }

    fn visit_seq<A: SeqAccess<'de>>(
        self,
        mut records: A,
    ) -> std::result::Result<Vec<String>, A::Error> {
        let mut all = Vec::new();
        while let Some(record) = records.next_element()? {
            if all.len() == LOGIN_RECORDS_MAX {
                return Err(A::Error::custom("too many records"));
            }
            all.push(record);
        }
        Ok(all)
    }
}

/// The base64 of `bytes`.
#[must_use]
pub fn encoded(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// The bytes that `text` spells.
fn decoded(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// The same, if they are `N`.
#[must_use]
pub fn exact<const N: usize>(text: &str) -> Option<[u8; N]> {
    decoded(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn a_login_comes_back_from_its_document_and_what_is_none_does_not() {
        let signed = SignedLogin {
            principal: [1; 32],
            signature: [2; 64],
            records: vec![vec![3; 5], Vec::new()],
        };
        let document = LoginDocument::new("server.example", &encoded(&[4; 32]), &signed);
        assert_eq!(document.signed(), Some(([4; 32], signed)));
        for wrong in ["", "AAAA", "?", &encoded(&[4; 33])] {
            let wrong = wrong.to_owned();
            let of = |change: fn(&mut LoginDocument, String)| {
                let mut document = document.clone();
                change(&mut document, wrong.clone());
                document.signed()
            };
            assert_eq!(of(|one, text| one.nonce = text), None, "{wrong}");
            assert_eq!(of(|one, text| one.principal = text), None, "{wrong}");
            assert_eq!(of(|one, text| one.signature = text), None, "{wrong}");
        }
        let mut document = document;
        document.records.push("?".to_owned());
        assert_eq!(document.signed(), None);
    }

    /// Goal: a short document takes little memory. Method: records without a byte, as many as there may be, and one more.
    #[test]
    fn a_login_has_no_more_records_than_a_header() {
        let read = |records: usize| {
            let records = vec!["\"\""; records].join(",");
            let text = format!(
                r#"{{"nonce":"","server":"","principal":"","signature":"","records":[{records}]}}"#
            );
            serde_json::from_str::<LoginDocument>(&text)
        };
        let most = read(LOGIN_RECORDS_MAX).unwrap();
        assert_eq!(most.records.len(), LOGIN_RECORDS_MAX);
        let refused = read(LOGIN_RECORDS_MAX + 1).unwrap_err().to_string();
        assert!(refused.contains("too many records"), "{refused}");
    }

    #[test]
    fn a_token_is_not_shown() {
        let pass = PassDocument {
            token: "canary".to_owned(),
            valid_s: 7,
        };
        assert!(!format!("{pass:?}").contains("canary"));
    }
}

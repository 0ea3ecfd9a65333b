//! The token of an account, which proves that a request comes from the user of the account; and the token of a login,
//! which is valid for a while.
//!
//! Takes   random bytes from the system
//! Gives   a token, once; its hash, which the server keeps
//! Never   keeps the token itself, or shows it again
//!
//! A token has so many random bytes that its hash reveals nothing about it, and that nobody finds it by guessing.

use std::fmt;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};
use strongroom_remote::protocol::PASS_PREFIX;

use crate::error::{Error, Result};
use crate::limits::TOKEN_RANDOM_BYTES;

/// What is before the digits, so that people and scanners know what was found somewhere.
const PREFIX: &str = "srt-";

/// What a client shows. `Debug` does not show it.
pub struct Token(String);

/// What is kept of a token: BLAKE3 of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenHash(pub(crate) [u8; 32]);

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// `Io` if the system has no chance to give.
    pub(crate) fn random() -> Result<Self> {
        Self::beginning(PREFIX)
    }

    /// A new one of a login.
    ///
    /// # Errors
    /// As `random`.
    pub(crate) fn of_login() -> Result<Self> {
        Self::beginning(PASS_PREFIX)
    }

    fn beginning(prefix: &str) -> Result<Self> {
        let mut bytes = [0; TOKEN_RANDOM_BYTES];
        fill(&mut bytes).map_err(Error::io("asking the system for random bytes"))?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(format!("{prefix}{digits}")))
    }

    /// The token, to be shown to its owner.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token")
    }
}

impl TokenHash {
    pub(crate) fn of(token: &str) -> Self {
        Self(*blake3::hash(token.as_bytes()).as_bytes())
    }
}

/// Fills `bytes` with chance.
pub(crate) fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(())
}

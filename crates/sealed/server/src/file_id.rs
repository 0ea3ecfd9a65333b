//! The name of the file with an object's bytes: random, so that a client's name is never used as a path.

use std::fmt;

use crate::database::{Column, Row, Value};
use crate::error::{Error, Result};

/// Random bytes in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId([u8; 16]);

impl FileId {
    pub(crate) fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        crate::token::fill(&mut bytes).map_err(Error::io("asking the system for random bytes"))?;
        Ok(Self(bytes))
    }

    /// The one that `name` spells.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if name.len() != 32 || !name.bytes().all(is_digit) {
            return None;
        }
        u128::from_str_radix(name, 16)
            .ok()
            .map(|number| Self(number.to_be_bytes()))
    }

    /// Its bytes.
    pub(crate) const fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first two digits: which folder it is in.
    pub(crate) fn shelf(self) -> u8 {
        self.0[0]
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "FileId({self})")
    }
}

impl<'a> From<&'a FileId> for Value<'a> {
    fn from(id: &'a FileId) -> Self {
        Self::Bytes(&id.0)
    }
}

impl Column for FileId {
    fn of(row: &Row<'_>, at: usize) -> Result<Self> {
        row.get(at).map(Self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn an_id_comes_back_from_its_name_and_nothing_else_is_one() {
        let id = FileId::random().unwrap();
        assert_eq!(FileId::parse(&id.to_string()), Some(id));
        assert_ne!(FileId::random().unwrap(), id);
        let zeros = "0".repeat(32);
        assert_eq!(FileId::parse(&zeros).unwrap().shelf(), 0);
        for bad in [
            "",
            "00",
            "..",
            &zeros[1..],
            &"A".repeat(32),
            &"+".repeat(32),
        ] {
            assert_eq!(FileId::parse(bad), None, "{bad}");
        }
    }
}

//! The name of an object.

use std::fmt;

use crate::error::{Error, Result};
use crate::limits::NAME_BYTES_MAX;

/// The name of an object: `name` or `kind/name`, of small letters, digits, `.` and `-`, so that every store and every disk
/// can have it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName(String);

impl ObjectName {
    /// The name that `name` spells.
    ///
    /// # Errors
    /// `Error::Name` if it is none.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let is_plain = |part: &str| {
            let known = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(known)
        };
        let parts = name.split('/');
        match parts.clone().count() <= 2 && parts.clone().all(is_plain) {
            true if name.len() <= NAME_BYTES_MAX => Ok(Self(name)),
            _ => Err(Error::Name(name)),
        }
    }

    /// The whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the slash, if there is one, and the rest.
    #[must_use]
    pub fn split(&self) -> (Option<&str>, &str) {
        match self.0.split_once('/') {
            Some((kind, name)) => (Some(kind), name),
            None => (None, &self.0),
        }
    }
}

/// Whether an object of that kind can have that name: somebody else may keep files in the same place.
pub(crate) fn is_object(kind: &str, name: &str) -> bool {
    ObjectName::new(format!("{kind}/{name}")).is_ok()
}

impl fmt::Display for ObjectName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ObjectName({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn a_name_has_one_slash_at_most_and_nothing_that_leads_elsewhere() {
        for good in ["strongroom.json", "segments/00ff", "headers/12-ab", "a"] {
            assert_eq!(ObjectName::new(good).unwrap().as_str(), good);
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for bad in [
            "", "/", "a/", "/a", "a/b/c", "..", "a/..", ".new-1", "A", "a b", "ä", "a\0", &long,
        ] {
            assert!(ObjectName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(ObjectName::new("a/b").unwrap().split(), (Some("a"), "b"));
        assert_eq!(ObjectName::new("b").unwrap().split(), (None, "b"));
    }
}

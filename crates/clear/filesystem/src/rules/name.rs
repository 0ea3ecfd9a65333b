//! Checks bytes from a caller and makes them the name of a directory entry.
//!
//! Takes   any bytes
//! Gives   a `Name`, or the rule that they break
//! Never   interprets them: a name has no encoding and no case

use strongroom_metadata::can_name;

use crate::limits::NAME_BYTES_MAX;
use crate::{Error, Result};

/// A name that an entry may have: 1 to 255 bytes, neither `.` nor `..`, without `/` and NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// Checks `bytes`.
    ///
    /// # Errors
    /// `NameTooLong`, else `InvalidName`.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        if bytes.len() > NAME_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        if !can_name(bytes) {
            return Err(Error::InvalidName);
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    pub(crate) const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_any_bytes_up_to_255() {
        let longest = [b'n'; 255];
        let accepted: [&[u8]; 7] = [
            b"a",
            b"...",
            b".a",
            b"a b\n",
            b"\xff\xfe",
            "ключ".as_bytes(),
            &longest,
        ];
        for bytes in accepted {
            assert_eq!(Name::new(bytes).expect("allowed").bytes(), bytes);
        }
    }

    #[test]
    fn names_that_a_path_could_not_hold_are_refused() {
        for bytes in [&b""[..], b".", b"..", b"/", b"a/b", b"a/", b"\0", b"a\0b"] {
            assert!(
                matches!(Name::new(bytes), Err(Error::InvalidName)),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn length_is_judged_before_content() {
        assert!(matches!(Name::new(&[b'n'; 256]), Err(Error::NameTooLong)));
        assert!(matches!(Name::new(&[b'/'; 256]), Err(Error::NameTooLong)));
    }
}

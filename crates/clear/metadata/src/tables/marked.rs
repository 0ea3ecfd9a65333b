//! Adds an end mark to every value that may be longer than a page.
//!
//! Takes   the bytes of a value, or of a column
//! Gives   the reverse: a column for a value, a value for a column
//! Never   mistakes a page that failed authentication for zeros at the end of a value
//! Spec    spec/4-metadata.md, 4.2.5
//!
//! For a page that does not authenticate, SQLCipher hands zeros to SQLite, and fails later accesses. In the middle of a tree
//! or of a chain of pages zeros are malformed, so SQLite reports them at once. On the last page of a long value zeros are
//! well-formed. So such a value is the last column of its row, and ends with `MARK`, which is not zero.

use crate::error::{Error, Result};

/// The last byte of a marked value.
const MARK: u8 = 1;

/// What is stored for `value`.
pub(crate) fn mark(value: &[u8]) -> Vec<u8> {
    let mut marked = Vec::with_capacity(value.len() + 1);
    marked.extend_from_slice(value);
    marked.push(MARK);
    marked
}

/// The value that was stored as `marked`.
///
/// # Errors
/// `Error::Damaged` unless `mark` gives these bytes for some value.
pub(crate) fn unmark(marked: &[u8]) -> Result<&[u8]> {
    match marked.split_last() {
        Some((&MARK, value)) => Ok(value),
        _ => Err(Error::Damaged("the end of a value is lost")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_and_one_whose_end_is_zeros_does_not() {
        for value in [&b""[..], b"\0", b"\x01", &[0; 5000]] {
            assert_eq!(unmark(&mark(value)).unwrap(), value);
            let mut lost = mark(value);
            let end = lost.len();
            lost[end - 1] = 0;
            assert!(unmark(&lost).is_err());
        }
        assert!(unmark(b"").is_err());
    }
}

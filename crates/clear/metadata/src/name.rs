//! Which bytes can name an entry: the one rule that storing, showing and checking names follow.

use crate::limits::NAME_BYTES_MAX;

/// Whether `name` can name an entry of a directory: 1 to `NAME_BYTES_MAX` bytes, neither `.` nor `..`, no `/` and no NUL.
///
/// Only damage, or somebody with the keys, puts another one into the database. Nothing may use such a name as a part of
/// a path: it would lead elsewhere.
#[must_use]
pub fn can_name(name: &[u8]) -> bool {
    let is_reserved = matches!(name, b"" | b"." | b"..");
    name.len() <= NAME_BYTES_MAX
        && !is_reserved
        && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

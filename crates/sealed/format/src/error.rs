//! The errors of bytes that should be part of a vault.

/// Why bytes were refused. None of these says that someone tampered: the bytes alone cannot show it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Longer, or more of them, than the format allows.
    #[error("the {what} is too long: {len}, at most {max} allowed")]
    TooLong {
        /// The thing.
        what: &'static str,
        /// What was found: bytes or a count.
        len: u64,
        /// What the format allows.
        max: u64,
    },
    /// The unkeyed checksum does not fit, or the outer shape is gone: an accident on disk or on the way.
    #[error(
        "the {what} is damaged; `strongroom repair` restores it from its second copy; if there is none, restore it from a backup or another device"
    )]
    Damaged {
        /// The thing.
        what: &'static str,
    },
    /// Written by another version.
    #[error(
        "the {what} has format {found}, but this version reads only format {known}; {}",
        who_reads(*.found, *.known)
    )]
    UnknownFormat {
        /// The thing.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The number this build reads.
        known: u64,
    },
    /// A flag that this version must not ignore.
    #[error("the {what} has the unknown flag {flag:?}; use a newer version")]
    UnknownFlag {
        /// The thing.
        what: &'static str,
        /// The flag, cut to a printable length.
        flag: String,
    },
    /// A suite that this version cannot compute.
    #[error("the {what} uses the unknown suite {suite}; use a newer version")]
    UnknownSuite {
        /// The thing.
        what: &'static str,
        /// Its number.
        suite: u64,
    },
    /// JSON that is well-formed but has an unknown, missing, double or mistyped field.
    #[error("the {what} has a wrong field: {why}")]
    Field {
        /// The thing.
        what: &'static str,
        /// Which field and why, cut to a printable length.
        why: String,
    },
    /// Argon2id parameters of a passphrase slot that no honest version writes.
    #[error(
        "the Argon2id cost of passphrase slots is out of range: {parameter} is {found}, but only {min} to {max} is allowed; choose another cost. If the header was edited, restore the unedited one"
    )]
    Argon2OutOfRange {
        /// Which parameter.
        parameter: &'static str,
        /// What the header asks for.
        found: u64,
        /// The floor.
        min: u64,
        /// The ceiling.
        max: u64,
    },
    /// A value that the specification does not allow.
    #[error("the {what} {why}")]
    Invalid {
        /// The thing.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// What to do about a format that is not the known one.
const fn who_reads(found: u64, known: u64) -> &'static str {
    if found < known {
        "copy the files out with the version that made the vault, then put them into a new vault"
    } else {
        "use a newer version"
    }
}

/// `text` with control characters escaped and cut, fit for an error message about hostile bytes.
pub(crate) fn printable(text: &str) -> String {
    const CHARACTERS_MAX: usize = 200;
    let mut shown: String = text
        .chars()
        .take(CHARACTERS_MAX)
        .flat_map(char::escape_default)
        .collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

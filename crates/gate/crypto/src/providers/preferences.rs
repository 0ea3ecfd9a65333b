//! Turns the text that names a provider per algorithm into a value, and back.
//!
//! Takes   `AES-256-GCM=ring,BLAKE3=simd`, from the environment, a configuration or a command line
//! Gives   `Preferences`, which name only providers of this build
//! Never   checks whether a provider works here: registry.rs does

use super::catalog::provider_named;
use super::{Algorithm, PreferenceError, Provider};
use std::collections::BTreeMap;
use std::str::FromStr;

/// The longest text that is read, in bytes: every algorithm with room to spare.
const TEXT_BYTES_MAX: usize = 1024;

/// Algorithms that had providers once, though no vault used them: wishes for them are still saved somewhere, and mean nothing.
const RETIRED: [&str; 2] = ["SHA-256", "HMAC-SHA-256"];

/// At most one provider for each algorithm, of those that this build has.
#[derive(Clone, Debug, Default)]
pub struct Preferences(BTreeMap<Algorithm, &'static dyn Provider>);

impl Preferences {
    /// The provider wished for, if there is one.
    #[must_use]
    pub fn get(&self, algorithm: Algorithm) -> Option<&'static dyn Provider> {
        self.0.get(&algorithm).copied()
    }

    /// Puts `provider` in the place of whichever was wished for before.
    ///
    /// # Errors
    /// `UnknownProvider` if this build has none of that name for `algorithm`.
    pub fn put(&mut self, algorithm: Algorithm, provider: &str) -> Result<(), PreferenceError> {
        self.0
            .insert(algorithm, provider_named(algorithm, provider)?);
        Ok(())
    }

    /// Takes a wish back.
    pub fn remove(&mut self, algorithm: Algorithm) {
        self.0.remove(&algorithm);
    }

    /// What is wished for, in the order of the algorithms.
    pub fn iter(&self) -> impl Iterator<Item = (Algorithm, &'static dyn Provider)> {
        self.0
            .iter()
            .map(|(algorithm, provider)| (*algorithm, *provider))
    }
}

impl PartialEq for Preferences {
    fn eq(&self, other: &Self) -> bool {
        let named = |of: &Self| -> Vec<_> { of.iter().map(|(of, by)| (of, by.name())).collect() };
        named(self) == named(other)
    }
}

impl Eq for Preferences {}

impl FromStr for Preferences {
    type Err = PreferenceError;

    /// Reads `ALGORITHM=PROVIDER`, separated by commas; spaces around a part and empty parts mean nothing.
    fn from_str(text: &str) -> Result<Self, PreferenceError> {
        let mut preferences = Self::default();
        if text.len() > TEXT_BYTES_MAX {
            let start = text.chars().take(32).collect::<String>();
            return Err(PreferenceError::Form {
                part: format!("{start}…"),
            });
        }
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (name, provider) = part.split_once('=').ok_or_else(|| PreferenceError::Form {
                part: part.to_owned(),
            })?;
            let name = name.trim();
            if RETIRED.iter().any(|old| old.eq_ignore_ascii_case(name)) {
                continue;
            }
            let algorithm =
                Algorithm::from_name(name).ok_or_else(|| PreferenceError::UnknownAlgorithm {
                    name: name.to_owned(),
                })?;
            if preferences.get(algorithm).is_some() {
                return Err(PreferenceError::Twice { algorithm });
            }
            preferences.put(algorithm, provider.trim())?;
        }
        Ok(preferences)
    }
}

impl std::fmt::Display for Preferences {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (algorithm, provider)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(formatter, "{comma}{algorithm}={}", provider.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Preferences, PreferenceError> {
        text.parse()
    }

    #[test]
    fn the_text_form_is_read_and_written() {
        for (text, written) in [
            ("", ""),
            ("AES-256-GCM=ring", "AES-256-GCM=ring"),
            ("SHA-256=ring,hmac-sha-256=openssl", ""),
            (
                " blake3 = simd , aes-256-gcm=RING,",
                "AES-256-GCM=ring,BLAKE3=simd",
            ),
        ] {
            let preferences = parsed(text).unwrap();
            assert_eq!(preferences.to_string(), written);
            assert_eq!(parsed(written).unwrap(), preferences);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, message) in [
            ("ring", "`ring` is not of the form"),
            ("AES=ring", "no algorithm `AES`; there are: AES-256-GCM, "),
            (
                "AES-256-GCM=rign",
                "no provider `rign` of AES-256-GCM; it has: ring",
            ),
            ("AES-256-GCM=dalek", "no provider `dalek` of AES-256-GCM"),
            ("AES-256-GCM=", "no provider `` of AES-256-GCM"),
            ("BLAKE3=simd,BLAKE3=simd", "BLAKE3 is named twice"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
        assert!(parsed(&"x".repeat(TEXT_BYTES_MAX + 1)).is_err());
    }
}

//! The preferences for providers that a user saved: the file `providers.conf`, which can be edited by hand.
//!
//! Takes   preferences
//! Gives   lines `ALGORITHM=PROVIDER`, and preferences from them; what follows a `#` is a comment

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use strongroom_crypto::providers::Preferences;

use super::cache::{is_absent, read_bounded, replace};
use crate::{Error, Result};

const FILE: &str = "providers.conf";
/// What is written before it takes the place of `FILE`.
const UNFINISHED: &str = "providers.conf.new";

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024;

const HEAD: &str = "\
# Provider of each algorithm, for every vault of this user: ALGORITHM=PROVIDER, one a line.
# `strongroom tune` lists them; `strongroom tune --prefer` adds a line, `strongroom tune --reset` removes this file.
";

/// The folder that holds the file.
pub(super) struct Wishes(PathBuf);

impl Wishes {
    pub(super) fn in_folder(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// What is wished for; nothing, if there is no file.
    ///
    /// # Errors
    /// `Preference` if a line is not as it should be, `Io`.
    pub(super) fn read(&self) -> Result<Preferences> {
        let text = match read_bounded(&self.0.join(FILE), FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => return Ok(Preferences::default()),
            Err(error) => return Err(Error::io("reading providers.conf")(error)),
        };
        let text = String::from_utf8_lossy(&text);
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or(""));
        Ok(lines.collect::<Vec<_>>().join(",").parse()?)
    }

    /// Puts `wished` in the place of what was wished for.
    pub(super) fn write(&self, wished: &Preferences) -> Result<()> {
        let lines = wished
            .iter()
            .map(|(algorithm, by)| format!("{algorithm}={}\n", by.name()));
        let text: String = std::iter::once(HEAD.to_owned()).chain(lines).collect();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .and_then(|()| replace(&self.0, FILE, UNFINISHED, text.as_bytes()))
            .map_err(Error::io("saving the preference"))
    }

    /// Removes the file; gives whether there was one.
    pub(super) fn forget(&self) -> Result<bool> {
        match fs::remove_file(self.0.join(FILE)) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(Error::io("removing providers.conf")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_comments_mean_nothing() {
        let place = tempfile::tempdir().unwrap();
        let wishes = Wishes::in_folder(place.path().join("config/strongroom"));
        assert_eq!(wishes.read().unwrap(), Preferences::default());
        let wished: Preferences = "AES-256-GCM=ring,BLAKE3=portable".parse().unwrap();
        wishes.write(&wished).unwrap();
        assert_eq!(wishes.read().unwrap(), wished);
        let file = wishes.0.join(FILE);
        fs::write(&file, "\n# by hand\n aes-256-gcm = ring # quick\n\n").unwrap();
        assert_eq!(wishes.read().unwrap().to_string(), "AES-256-GCM=ring");
        assert!(wishes.forget().unwrap());
        assert!(!wishes.forget().unwrap());
    }

    #[test]
    fn a_line_that_cannot_be_understood_is_named_and_a_long_file_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let wishes = Wishes::in_folder(place.path().to_owned());
        let file = place.path().join(FILE);
        fs::write(&file, "AES-256-GCM=ring\nnonsense\n").unwrap();
        let message = wishes.read().unwrap_err().to_string();
        assert!(message.contains("`nonsense`"), "{message}");
        fs::write(&file, vec![b'#'; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(wishes.read().is_err());
    }
}

//! Turns `VAULT[:PATH]` into a vault folder and a path in it.
//!
//! Takes   an argument
//! Gives   the folder before the colon, and the path after it, which begins with `/`
//! Never   guesses: the rule is in `--help`

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::terminal::printable::show;

/// A place in a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The vault folder.
    pub(crate) vault: PathBuf,
    /// Absolute.
    pub(crate) path: Vec<u8>,
    /// Whether a path was given at all.
    pub(crate) explicit: bool,
}

impl Location {
    /// Cuts `argument` at the first colon that follows a vault folder, else at the first colon.
    pub(crate) fn parse(argument: &OsStr) -> Self {
        Self::parse_with(argument, &|folder| {
            folder.join("vault.json").symlink_metadata().is_ok()
        })
    }

    fn parse_with(argument: &OsStr, is_vault: &dyn Fn(&Path) -> bool) -> Self {
        let bytes = argument.as_bytes();
        if is_vault(Path::new(argument)) {
            return Self {
                vault: argument.into(),
                path: b"/".to_vec(),
                explicit: false,
            };
        }
        let colons: Vec<usize> = bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b':')
            .map(|(at, _)| at)
            .collect();
        let fits = |at: &&usize| is_vault(Path::new(OsStr::from_bytes(&bytes[..**at])));
        match colons.iter().find(fits).or(colons.first()) {
            Some(at) => Self::new(&bytes[..*at], &bytes[at + 1..]),
            None => Self {
                vault: argument.into(),
                path: b"/".to_vec(),
                explicit: false,
            },
        }
    }

    fn new(vault: &[u8], path: &[u8]) -> Self {
        let explicit = !path.is_empty();
        let path = if path.first() == Some(&b'/') {
            path.to_vec()
        } else {
            [b"/", path].concat()
        };
        Self {
            vault: OsString::from_vec(vault.to_vec()).into(),
            path,
            explicit,
        }
    }

    /// The path as people read it.
    pub(crate) fn shown(&self) -> String {
        show(&self.path)
    }
}

impl clap::builder::ValueParserFactory for Location {
    type Parser = LocationParser;

    fn value_parser() -> Self::Parser {
        LocationParser
    }
}

/// Makes clap parse locations, also ones that are not UTF-8.
#[derive(Clone, Debug)]
pub(crate) struct LocationParser;

impl clap::builder::TypedValueParser for LocationParser {
    type Value = Location;

    fn parse_ref(
        &self,
        _command: &clap::Command,
        _argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Location, clap::Error> {
        Ok(Location::parse(value))
    }
}

/// The path of `name` in the directory `path`.
pub(crate) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = path.to_vec();
    if joined.last() != Some(&b'/') {
        joined.push(b'/');
    }
    joined.extend_from_slice(name);
    joined
}

/// The last name of a path; `None` for the root and paths that end in `.` or `..`.
pub(crate) fn last_name(path: &[u8]) -> Option<&[u8]> {
    let name = path
        .split(|byte| *byte == b'/')
        .rfind(|name| !name.is_empty())?;
    (name != b"." && name != b"..").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(argument: &str, vaults: &[&str]) -> (String, String) {
        let location = Location::parse_with(OsStr::new(argument), &|path| {
            vaults.contains(&path.to_str().unwrap())
        });
        (
            location.vault.to_str().unwrap().to_owned(),
            location.shown(),
        )
    }

    #[test]
    fn a_location_is_cut_at_the_first_colon_behind_a_vault() {
        assert_eq!(parse("v", &[]), ("v".into(), "/".into()));
        assert_eq!(parse("v:", &[]), ("v".into(), "/".into()));
        assert_eq!(parse("v:a/b", &[]), ("v".into(), "/a/b".into()));
        assert_eq!(parse("v:/a:b", &[]), ("v".into(), "/a:b".into()));
        assert_eq!(
            parse("my:vault", &["my:vault"]),
            ("my:vault".into(), "/".into())
        );
        assert_eq!(
            parse("my:vault:/x:y", &["my:vault"]),
            ("my:vault".into(), "/x:y".into())
        );
    }

    #[test]
    fn the_last_name_of_a_path_is_a_real_name_or_none() {
        assert_eq!(last_name(b"/a/b/"), Some(&b"b"[..]));
        assert_eq!(last_name(b"/"), None);
        assert_eq!(last_name(b"/a/.."), None);
    }
}

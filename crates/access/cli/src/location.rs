//! Turns `VAULT[:PATH]` into a vault folder and a path in it.
//!
//! Takes   an argument
//! Gives   the folder before a colon and the path behind it, which begins with `/`
//! Never   guesses: the rule is in `--help`

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

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

/// A name or path as people read it: control characters, which could fool a terminal, are escaped.
pub(crate) fn show(path: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || is_invisible(character) {
                shown.extend(character.escape_unicode());
            } else {
                shown.push(character);
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// Characters that reorder or hide the text around them.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
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
    fn what_could_fool_a_terminal_is_shown_escaped() {
        assert_eq!(show(b"a\x1b[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(show("txt\u{202e}exe".as_bytes()), "txt\\u{202e}exe");
        assert_eq!(show(b"\xff\xfeok"), "\\xff\\xfeok");
        assert_eq!(show("größe".as_bytes()), "größe");
    }

    #[test]
    fn the_last_name_of_a_path_is_a_real_name_or_none() {
        assert_eq!(last_name(b"/a/b/"), Some(&b"b"[..]));
        assert_eq!(last_name(b"/"), None);
        assert_eq!(last_name(b"/a/.."), None);
    }
}

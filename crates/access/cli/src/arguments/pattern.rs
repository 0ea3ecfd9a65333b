//! Matches names against shell patterns, and paths against patterns of names.
//!
//! Takes   a pattern with `*`, `?`, `[set]`, `[!set]`, and `\` before a literal character
//! Gives   whether a whole name or path matches, byte by byte
//! Never   takes more than pattern × name steps for a name, whatever the pattern is

/// The part of a pattern that stands for any number of directories.
const DIRECTORIES: &[u8] = b"**";

/// A pattern of what a copy leaves out, as .gitignore has them, but for `!`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exclude {
    /// Of the path, from its beginning.
    parts: Vec<Vec<u8>>,
    directories_only: bool,
}

impl Exclude {
    /// Reads a pattern of the command line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('!') {
            return Err(
                "patterns that begin with ! are not supported; write \\! for a name that begins with !".to_owned(),
            );
        }
        let text = text.as_bytes();
        let inner = text.strip_suffix(b"/").unwrap_or(text);
        let mut parts = Vec::new();
        if !inner.contains(&b'/') {
            // A name, wherever it is.
            parts.push(DIRECTORIES.to_vec());
        }
        let names = inner.split(|byte| *byte == b'/');
        parts.extend(names.filter(|name| !name.is_empty()).map(<[u8]>::to_vec));
        if parts.iter().all(|part| part == DIRECTORIES) {
            return Err("the pattern is empty".to_owned());
        }
        if parts.last().is_some_and(|last| last == DIRECTORIES) {
            // What is below a directory, and not the directory itself.
            parts.push(b"*".to_vec());
        }
        Ok(Self {
            parts,
            directories_only: inner.len() < text.len(),
        })
    }

    /// Whether it names `path`, which is relative to what is copied.
    pub(crate) fn names(&self, path: &[u8], is_directory: bool) -> bool {
        if self.directories_only && !is_directory {
            return false;
        }
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        self.fits(&names)
    }

    /// As `matches`, with names for characters and `**` for the star.
    fn fits(&self, names: &[&[u8]]) -> bool {
        let (mut at, mut next) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        loop {
            match self.parts.get(at) {
                Some(part) if part == DIRECTORIES => {
                    star = Some((at, next));
                    at += 1;
                    continue;
                }
                None if next == names.len() => return true,
                Some(part) if next < names.len() && matches(part, names[next]) => {
                    at += 1;
                    next += 1;
                    continue;
                }
                _ => {}
            }
            match star {
                Some((place, taken)) if taken < names.len() => {
                    star = Some((place, taken + 1));
                    (at, next) = (place + 1, taken + 1);
                }
                _ => return false,
            }
        }
    }
}

/// Whether one of `patterns` names `path`.
pub(crate) fn excludes(patterns: &[Exclude], path: &[u8], is_directory: bool) -> bool {
    patterns.iter().any(|one| one.names(path, is_directory))
}

/// Whether `name` matches `pattern`.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut next) = (0, 0);
    // Where the last star stands, and how much of the name it has taken so far. An earlier star never needs to
    // take more: the later one can take whatever it would have left.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, next));
            at += 1;
            continue;
        }
        if at == pattern.len() && next == name.len() {
            return true;
        }
        if let Some((used, true)) = name.get(next).and_then(|byte| one(&pattern[at..], *byte)) {
            at += used;
            next += 1;
            continue;
        }
        match star {
            Some((place, taken)) if taken < name.len() => {
                star = Some((place, taken + 1));
                (at, next) = (place + 1, taken + 1);
            }
            _ => return false,
        }
    }
}

/// How many bytes the first element of `pattern` has, and whether `byte` matches it.
fn one(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    match pattern.first()? {
        b'?' => Some((1, true)),
        b'\\' => match pattern.get(1) {
            Some(literal) => Some((2, *literal == byte)),
            None => Some((1, byte == b'\\')),
        },
        b'[' => set(pattern, byte).or(Some((1, byte == b'['))),
        literal => Some((1, *literal == byte)),
    }
}

/// A set in brackets; `None` if it does not end and the bracket is meant literally.
fn set(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let first = if negated { 2 } else { 1 };
    let mut at = first;
    let mut found = false;
    loop {
        let low = *pattern.get(at)?;
        if low == b']' && at > first {
            return Some((at + 1, found != negated));
        }
        let is_range = pattern.get(at + 1) == Some(&b'-')
            && pattern.get(at + 2).is_some_and(|high| *high != b']');
        let high = if is_range { *pattern.get(at + 2)? } else { low };
        found |= (low..=high).contains(&byte);
        at += if is_range { 3 } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, matching) in [
            ("*", "", true),
            ("*", "anything", true),
            ("*.jpg", "a.jpg", true),
            ("*.jpg", "a.jpeg", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?", "", false),
            ("??", "ab", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("[a-]", "-", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("", "", true),
            ("", "x", false),
            ("**a", "bba", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                matching,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn an_excluding_pattern_means_what_it_means_in_gitignore() {
        for (pattern, path, is_directory, named) in [
            ("*.o", "a.o", false, true),
            ("*.o", "deep/er/a.o", false, true),
            ("*.o", "a.o/b", false, false),
            ("target/", "x/target", true, true),
            ("target/", "x/target", false, false),
            ("/top", "top", false, true),
            ("/top", "x/top", false, false),
            ("a/b", "a/b", false, true),
            ("a/b", "x/a/b", false, false),
            ("a/*", "a/b", false, true),
            ("a/*", "a/b/c", false, false),
            ("**/a/b", "x/y/a/b", false, true),
            ("**/a/b", "a/b", false, true),
            ("a/**/z", "a/z", false, true),
            ("a/**/z", "a/b/c/z", false, true),
            ("a/**/z", "a/b/c", false, false),
            ("a/**", "a", true, false),
            ("a/**", "a/b/c", false, true),
            ("\\!x", "!x", false, true),
        ] {
            let exclude = Exclude::parse(pattern).unwrap();
            assert_eq!(
                exclude.names(path.as_bytes(), is_directory),
                named,
                "{pattern} {path}"
            );
        }
        for wrong in ["", "/", "**", "**/", "!x"] {
            assert!(Exclude::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_path_pattern_of_many_stars_ends_soon() {
        let exclude = Exclude::parse(&format!("{}x", "**/a/".repeat(300))).unwrap();
        let path = "a/".repeat(2000);
        assert!(!exclude.names(path.trim_end_matches('/').as_bytes(), false));
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        let pattern = b"*a".repeat(1000);
        assert!(!matches(&pattern, &[b'a'; 255]));
    }
}

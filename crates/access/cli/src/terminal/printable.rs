//! Makes text from outside safe to show: names, targets, labels, messages, error texts.
//!
//! Takes   bytes or text from a vault, a local tree, the command line or another process
//! Gives   text without characters that are invisible, reverse the direction of text, or only look like a plain space
//! Never   shows two different names alike because one of them contains an invisible character
//!
//! Invariants
//!  (1) No character for which `deceives` is true reaches a terminal. A line break reaches it only if this program added it.
//!  (2) `show` gives different text for different names; `printable` does not change the output of `show`.

use std::borrow::Cow;
use std::io::{self, Write};

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Whether `character` controls a terminal, turns text around, cannot be seen, or looks like a space and is none.
///
/// By its general category: controls, formats, line and paragraph separators, private use (every font shows another
/// thing), and what the tables of this build do not know (no terminal agrees how wide it is). Besides these, spaces but
/// the plain one and the wide one of East Asia, and what Unicode calls ignorable or blank in spite of its category.
pub(crate) fn deceives(character: char) -> bool {
    use GeneralCategory as Is;
    if matches!(character, ' '..='~') {
        return false;
    }
    match character.general_category() {
        Is::Control | Is::Format | Is::LineSeparator | Is::ParagraphSeparator => true,
        Is::Surrogate | Is::PrivateUse | Is::Unassigned => true,
        Is::SpaceSeparator => character != '\u{3000}',
        _ => is_blank(character),
    }
}

/// Letters, marks and symbols that show nothing: `Default_Ignorable_Code_Point` of Unicode 17 outside of the categories
/// above, and the empty Braille pattern.
const fn is_blank(character: char) -> bool {
    matches!(
        character,
        '\u{34f}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{e0100}'..='\u{e01ef}'
    )
}

/// A name or path as people read it. What deceives becomes `\u{…}`, a byte that is no UTF-8 `\x…`, a backslash two.
pub(crate) fn show(path: impl AsRef<[u8]>) -> String {
    let mut shown = String::new();
    for chunk in path.as_ref().utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => shown.push_str("\\\\"),
                one if deceives(one) => shown.extend(one.escape_unicode()),
                one => shown.push(one),
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// A device as people read it: its id, and its name if it has one. No name has a quotation mark.
pub(crate) fn with_name(device: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{device} \"{name}\""),
        None => device.to_owned(),
    }
}

/// A local path as people read it.
pub(crate) fn show_path(path: impl AsRef<std::path::Path>) -> String {
    use std::os::unix::ffi::OsStrExt;
    show(path.as_ref().as_os_str().as_bytes())
}

/// One line of text that may hold names which somebody else did not escape.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape(text, deceives)
}

/// Text of several lines, which this program broke.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |character| deceives(character) && character != '\n')
}

fn escape(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_bad(character) {
            escaped.extend(character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Standard output for people: the last place where something deceptive can be stopped.                           (1)
///
/// Every call brings whole characters, as `write!` does.
pub(crate) struct Text<W>(pub(crate) W);

impl<W: Write> Write for Text<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
            self.0.write_all(bytes)?;
            return Ok(bytes.len());
        }
        for chunk in bytes.utf8_chunks() {
            let is_bad = |one| deceives(one) && !matches!(one, '\n' | '\t');
            self.0.write_all(escape(chunk.valid(), is_bad).as_bytes())?;
            for byte in chunk.invalid() {
                write!(self.0, "\\x{byte:02x}")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A JSON document on its way out: what deceives becomes `\uXXXX`, which every reader of JSON turns back.
///
/// Outside of strings JSON is printable ASCII and line breaks, so no place but a string is ever changed.
pub(crate) struct Json<W>(pub(crate) W);

impl<W: Write> Write for Json<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
            self.0.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        let mut units = [0; 2];
        for character in text.chars() {
            if !deceives(character) || character == '\n' {
                write!(self.0, "{character}")?;
                continue;
            }
            for unit in character.encode_utf16(&mut units) {
                write!(self.0, "\\u{unit:04x}")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One or more of each kind that has ever been used to fool somebody.
    const HOSTILE: &str = "\u{0}\u{7}\u{1b}\u{7f}\u{80}\u{9b}\u{9d}\u{a0}\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\
        \u{180b}\u{180e}\u{2003}\u{200b}\u{200d}\u{200e}\u{2028}\u{2029}\u{202e}\u{2060}\u{2064}\u{2066}\u{2069}\
        \u{206f}\u{2800}\u{3164}\u{e000}\u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{fffb}\u{ffff}\u{e0001}\u{e007f}\u{e01ef}\
        \u{10ffff}";

    /// Failed before for U+061C, U+2028, U+00AD, U+3164, U+115F, U+FFA0, U+180E, the tags and others.
    /// SECURITY.md, claim 15.
    #[test]
    fn every_character_that_could_fool_somebody_is_escaped() {
        for character in HOSTILE.chars() {
            let name = character.to_string();
            assert!(deceives(character), "{character:?}");
            let escaped: String = character.escape_unicode().collect();
            assert_eq!(show(&name), escaped);
            assert_eq!(line(&name), escaped);
        }
        assert_eq!(show(b"a\x1b[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(show("txt\u{202e}exe"), "txt\\u{202e}exe");
    }

    #[test]
    fn what_people_write_stays_as_it_is() {
        for name in [
            "größe",
            "naïve ~name (1).txt",
            "日本語\u{3000}名",
            "ไทย",
            "עברית",
            "हिन्दी",
            "😀",
        ] {
            assert_eq!(show(name), name);
            assert_eq!(printable(name), name);
        }
        assert_eq!(printable("a\n  b"), "a\n  b");
        assert_eq!(line("a\n  b"), "a\\u{a}  b");
    }

    #[test]
    fn two_names_are_never_shown_alike() {
        let names: [&[u8]; 6] = [
            b"\xff\xfeok",
            b"\\xff\\xfeok",
            b"\x1b",
            b"\\u{1b}",
            b"\\",
            b"\\\\",
        ];
        let mut shown: Vec<_> = names.iter().map(show).collect();
        for one in &shown {
            assert_eq!(printable(one), one.as_str()); // (2)
        }
        shown.sort_unstable();
        shown.dedup();
        assert_eq!(shown.len(), names.len());
    }

    #[test]
    fn a_json_document_is_printable_and_says_the_same() {
        let value = serde_json::json!({ "name": HOSTILE, "plain": "größe\n\t\"" });
        let mut bytes = Vec::new();
        serde_json::to_writer_pretty(Json(&mut bytes), &value).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            !text.chars().any(|one| deceives(one) && one != '\n'),
            "{text}"
        );
        assert!(text.contains("größe"));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }

    #[test]
    fn standard_output_stops_what_was_not_escaped_before() {
        let mut bytes = Vec::new();
        write!(Text(&mut bytes), "a\tb\n{HOSTILE}").unwrap();
        Text(&mut bytes).write_all(b"\xff").unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("a\tb\n\\u{0}\\u{7}") && text.ends_with("\\xff"));
        assert!(
            !text
                .chars()
                .any(|one| deceives(one) && !"\n\t".contains(one))
        );
    }
}

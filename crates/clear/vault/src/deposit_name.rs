//! Turns the name that a depositor gave a deposit into one that a directory can have and that deceives nobody.
//!
//! Takes   any bytes
//! Gives   a name: one part of a path, visible from the beginning to the end
//! Never   leads out of a directory, hides a file, or says that it is a conflict copy
//! Spec    spec/12-inbox.md, [12.7.1] and [12.7.2]

use std::collections::HashSet;

use strongroom_history::labelled;

/// The longest name that is made, in bytes: there is room for a number, and for the label of a conflict.
const NAME_BYTES: usize = 200;

/// What a deposit without a name is called.
const NAMELESS: &str = "deposit";

/// What a deposit of that name is called.
pub(crate) fn plain_name(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let last = text.rsplit(['/', '\\']).next().unwrap_or_default();
    let seen = |one: char| if is_deceptive(one) { '_' } else { one };
    let text: String = last.chars().map(seen).collect();
    // With another sign in its place: without one, what is left could be that text again.
    let text = text.replace("(conflict,", "(conflict;");
    let text = text.trim().trim_end_matches(['.', ' ']);
    let dots = text.bytes().take_while(|byte| *byte == b'.').count();
    let text = format!("{}{}", "_".repeat(dots), &text[dots..]);
    match cut(&text) {
        cut if cut.is_empty() => NAMELESS.to_owned(),
        cut => cut,
    }
}

/// `name`, or the first of `name (2)`, `name (3)` … that is not among `taken`, which holds names as `folded` gives them.
pub(crate) fn free_name(name: &str, taken: &HashSet<String>) -> String {
    let mut free = name.to_owned();
    for number in 2_u32.. {
        if !taken.contains(&folded(&free)) {
            break;
        }
        let numbered = labelled(name.as_bytes(), format!(" ({number})").as_bytes());
        free = String::from_utf8_lossy(&numbered).into_owned();
    }
    free
}

/// Equal for names that differ in case only.
pub(crate) fn folded(name: &str) -> String {
    name.to_lowercase()
}

/// At most `NAME_BYTES` of `name`, with its extension.
fn cut(name: &str) -> String {
    let extension = match name.rfind('.') {
        Some(dot) if dot > 0 && name.len() - dot <= 16 => &name[dot..],
        _ => "",
    };
    let stem = &name[..name.len() - extension.len()];
    let end = floor(stem, NAME_BYTES - extension.len());
    format!("{}{extension}", stem[..end].trim_end())
}

/// The last place up to `most` where a character of `text` begins or all end.
fn floor(text: &str, most: usize) -> usize {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

/// Whether a character moves something, turns text around, or is not seen.
pub(crate) fn is_deceptive(one: char) -> bool {
    one.is_control()
        || matches!(
            one,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{e000}'..='\u{f8ff}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use strongroom_history::ConflictName;

    use super::*;

    #[test]
    fn a_name_is_one_visible_part_of_a_path() {
        for (said, name) in [
            (&b"letter.txt"[..], "letter.txt"),
            (b"", "deposit"),
            (b"/", "deposit"),
            (b".", "deposit"),
            (b"..", "deposit"),
            (b"../../etc/passwd", "passwd"),
            (b"C:\\temp\\a.txt", "a.txt"),
            (b"/abs/olute/", "deposit"),
            (b".bashrc", "_bashrc"),
            (b"...hidden", "___hidden"),
            (b"a\0b\nc\x1b[2J\x7f", "a_b_c_[2J_"),
            (b"raw\xff.txt", "raw\u{fffd}.txt"),
            (b"  spaces.txt .. ", "spaces.txt"),
            ("gro\u{df}e\u{202e}txt.exe".as_bytes(), "gro\u{df}e_txt.exe"),
            ("\u{200b}\u{2066}\u{2800}\u{1d173}".as_bytes(), "____"),
            (b"a:b*c?", "a:b*c?"),
        ] {
            assert_eq!(plain_name(said), name, "{said:?}");
        }
    }

    #[test]
    fn no_deposit_passes_for_the_copy_of_a_conflict() {
        let label = ", 5f2c9a01, 2026-11-23 14.03).txt";
        let said = format!("a (conflict{label}");
        assert!(ConflictName::read(said.as_bytes()).is_some());
        for before in ["", ",", ",,", "(conflict,", " (conflict"] {
            let said = format!("a (conflict{before}{label}");
            let name = plain_name(said.as_bytes());
            assert!(ConflictName::read(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        for stem in ["n", "\u{e4}", "\u{1f511}"] {
            let said = format!("{}.tar", stem.repeat(700));
            let name = plain_name(said.as_bytes());
            assert!(
                name.len() <= NAME_BYTES && name.len() > NAME_BYTES - 8,
                "{name}"
            );
            assert!(name.ends_with(&format!("{stem}.tar")), "{name}");
        }
        let name = plain_name(".".repeat(1000).as_bytes());
        assert_eq!(name, "deposit");
        assert_eq!(plain_name("x".repeat(1000).as_bytes()).len(), NAME_BYTES);
    }

    #[test]
    fn a_name_that_is_taken_but_for_case_gets_a_number_before_its_end() {
        let taken = ["letter.txt", "letter (2).txt", "\u{fc}ber"];
        let taken: HashSet<String> = taken.map(folded).into();
        assert_eq!(free_name("new.txt", &taken), "new.txt");
        assert_eq!(free_name("Letter.TXT", &taken), "Letter (3).TXT");
        assert_eq!(free_name("\u{dc}BER", &taken), "\u{dc}BER (2)");
    }
}

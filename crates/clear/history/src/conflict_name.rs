//! Conflict names: such a name says that two devices changed one thing, which of them made this version, and when.
//!
//! Takes   a name and a label to put into it; or a name that may have a label
//! Gives   the name with the label, within the length limit of names; or what the label says
//! Never   splits a character, loses the file extension, or accepts a label that no merge writes
//! Spec    spec/11-sync.md, [11.6.3]

use strongroom_metadata::limits::NAME_BYTES_MAX;

/// What the label of a conflict begins with.
const BEGIN: &[u8] = b" (conflict, ";

/// Characters of a time in it, `YYYY-MM-DD HH.MM`.
const TIME_LEN: usize = 16;

/// What a conflict name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictName {
    /// The name that it was made of; its beginning, if `is_cut`.
    pub of: Vec<u8>,
    /// Whether the name that it was made of may have been longer.
    pub is_cut: bool,
    /// The first 8 hexadecimal digits of the device that made what bears it.
    pub device: String,
    /// When, in UTC: `YYYY-MM-DD HH.MM`.
    pub time: String,
    label: Vec<u8>,
}

impl ConflictName {
    /// What `name` says; `None` if no merge gives such a name.
    #[must_use]
    pub fn read(name: &[u8]) -> Option<Self> {
        let start = name.windows(BEGIN.len()).rposition(|part| part == BEGIN)?;
        let said = &name[start + BEGIN.len()..];
        let (device, rest) = said.split_at_checked(8)?;
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let rest = rest.strip_prefix(b", ")?;
        let (time, rest) = rest.split_at_checked(TIME_LEN)?;
        let close = rest.iter().position(|byte| *byte == b')')?;
        let (number, extension) = (&rest[..close], &rest[close + 1..]);
        if !device.iter().all(is_digit) || !is_time(time) || !is_number(number) {
            return None;
        }
        let end = name.len() - extension.len();
        let label = name[start..end].to_vec();
        let of = [&name[..start], extension].concat();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        // A cut leaves less room than the longest character takes.
        let is_cut = name.len() > NAME_BYTES_MAX - 4;
        // Nothing has such a name.
        if matches!(&of[..], b"" | b"." | b"..") {
            return None;
        }
        (labelled(&of, &label) == name).then_some(Self {
            of,
            is_cut,
            device: text(device)?,
            time: text(time)?,
            label,
        })
    }

    /// Whether the conflict name that this was read from, `name`, was made of `other`. A conflict name that was cut as long as `name`
    /// becomes `name` with this label, as does `name` itself: neither says what it was made of.
    #[must_use]
    pub fn is_made_of(&self, name: &[u8], other: &[u8]) -> bool {
        // Of a name that bears a label itself, the beginning of that label must be left. Names that were made of one name differ
        // by less: by the numbers in their labels.
        let is_left = |other: Self| self.of.len() >= other.of.len() + BEGIN.len();
        labelled(other, &self.label) == name && Self::read(other).is_none_or(is_left)
    }
}

/// Whether it is a time as labels have it.
fn is_time(time: &[u8]) -> bool {
    let form = b"dddd-dd-dd dd.dd";
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        form => byte == form,
    };
    let number = |range: std::ops::Range<usize>| {
        let digits = time[range].iter();
        digits.fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0'))
    };
    time.len() == form.len()
        && time.iter().zip(form).all(fits)
        && (1..=12).contains(&number(5..7))
        && (1..=31).contains(&number(8..10))
        && number(11..13) < 24
        && number(14..16) < 60
}

/// Whether it is what follows the time: nothing, or a space and a number from 2 on.
fn is_number(number: &[u8]) -> bool {
    let Some(digits) = number.strip_prefix(b" ") else {
        return number.is_empty();
    };
    let is_plain = digits.iter().all(u8::is_ascii_digit) && digits.first() != Some(&b'0');
    is_plain && !digits.is_empty() && digits != b"1" && digits.len() <= 10
}

/// `name` with `label` before its extension, cut where it would be too long.
#[must_use]
pub fn labelled(name: &[u8], label: &[u8]) -> Vec<u8> {
    let dot = name.iter().rposition(|byte| *byte == b'.');
    // A name that begins with its only dot has no extension. One with a space in it is none, nor is the time in a conflict name.
    let is_one = |extension: &[u8]| !extension.iter().any(|byte| matches!(byte, b' ' | b')'));
    let dot = dot.filter(|dot| *dot > 0 && name.len() - dot <= 16 && is_one(&name[*dot..]));
    let (stem, extension) = name.split_at(dot.unwrap_or(name.len()));
    let room = NAME_BYTES_MAX.saturating_sub(label.len() + extension.len());
    let mut len = stem.len().min(room);
    // No character is cut in two.
    while len > 0 && len < stem.len() && stem[len] & 0xc0 == 0x80 {
        len -= 1;
    }
    [&stem[..len], label, extension].concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    const LABEL: &str = "conflict, 5f2c9a01, 2026-11-23 14.03";

    fn named(name: &[u8], label: &str) -> Vec<u8> {
        labelled(name, format!(" ({label})").as_bytes())
    }

    #[test]
    fn what_a_merge_names_is_read_again_and_leads_to_the_name_it_was_made_of() {
        let long = [b'x'; 255];
        let plain = [
            &b"letter.txt"[..],
            b"letter",
            b".profile",
            b"a (b).tar.gz",
            "\u{e9}\u{e9}".as_bytes(),
        ];
        let again = named(b"README", LABEL);
        for name in plain.into_iter().chain([&long[..], &again]) {
            for label in [
                LABEL.to_owned(),
                format!("{LABEL} 2"),
                format!("{LABEL} 17"),
            ] {
                let conflict = named(name, &label);
                let read = ConflictName::read(&conflict).unwrap();
                assert!(read.is_made_of(&conflict, name), "{read:?}");
                assert_eq!(
                    (read.device.as_str(), read.time.as_str()),
                    ("5f2c9a01", "2026-11-23 14.03")
                );
                assert_eq!(read.is_cut, name.len() == 255);
                assert!(read.is_cut || read.of == name, "{read:?}");
            }
        }
    }

    /// Goal: of long names, a conflict name leads to what it was made of, also if that is a conflict name, and to no other conflict
    /// name. Failed before: each led to itself, and to those beside it that were made of the same name.
    #[test]
    fn a_cut_conflict_name_was_made_of_no_name_that_was_cut_with_it() {
        let other = "conflict, 0a1b2c3d, 2026-11-24 09.00";
        let long = [b'x'; 255];
        let labels = [
            LABEL.to_owned(),
            format!("{LABEL} 2"),
            format!("{LABEL} 10"),
            other.to_owned(),
        ];
        let made: Vec<Vec<u8>> = labels.iter().map(|label| named(&long, label)).collect();
        for name in &made {
            let read = ConflictName::read(name).unwrap();
            assert!(read.is_made_of(name, &long));
            for beside in &made {
                assert!(!read.is_made_of(name, beside), "{read:?}");
            }
        }
        let of_one = named(&[b'y'; 200], LABEL);
        for label in [other, LABEL] {
            let again = named(&of_one, label);
            let read = ConflictName::read(&again).unwrap();
            assert!(read.is_cut && read.is_made_of(&again, &of_one), "{read:?}");
            assert!(!read.is_made_of(&again, &again), "{read:?}");
        }
    }

    #[test]
    fn what_only_looks_like_a_conflict_name_is_none() {
        for name in [
            "letter (conflict).txt",
            "letter (conflict, 5f2c9a01).txt",
            "letter (conflict, 5F2C9A01, 2026-11-23 14.03).txt",
            "letter (conflict, 5f2c9a0, 2026-11-23 14.03).txt",
            "letter (conflict, 5f2c9a01, 2026-13-23 14.03).txt",
            "letter (conflict, 5f2c9a01, 2026-11-23 24.03).txt",
            "letter (conflict, 5f2c9a01, 2026-11-23 14:03).txt",
            "letter (conflict, 5f2c9a01, 2026-11-23 14.03 1).txt",
            "letter (conflict, 5f2c9a01, 2026-11-23 14.03 02).txt",
            "letter (conflict, 5f2c9a01, 2026-11-23 14.03 ).txt",
            "letter (conflict, 5f2c9a01, 2026-11-23 14.03",
            // The label is not where a merge puts it.
            "letter.txt (conflict, 5f2c9a01, 2026-11-23 14.03)",
            "letter (conflict, 5f2c9a01, 2026-11-23 14.03) and more",
            "letter(conflict, 5f2c9a01, 2026-11-23 14.03).txt",
            "",
        ] {
            assert_eq!(ConflictName::read(name.as_bytes()), None, "{name}");
        }
    }

    /// What a name ends with is no extension if it is the time in a conflict name.
    #[test]
    fn a_conflict_name_comes_into_a_conflict_without_being_torn_apart() {
        let label = b" (conflict, b, 2026-11-24 09.00)";
        for (name, conflict) in [
            ("one.txt", "one (conflict, b, 2026-11-24 09.00).txt"),
            (".one", ".one (conflict, b, 2026-11-24 09.00)"),
            (
                "one (conflict, a, 2026-11-23 14.03)",
                "one (conflict, a, 2026-11-23 14.03) (conflict, b, 2026-11-24 09.00)",
            ),
            (
                "one (conflict, a, 2026-11-23 14.03).txt",
                "one (conflict, a, 2026-11-23 14.03) (conflict, b, 2026-11-24 09.00).txt",
            ),
        ] {
            assert_eq!(labelled(name.as_bytes(), label), conflict.as_bytes());
        }
    }
}

//! Merges the changes that two sides made to one text, line by line.
//!
//! Takes   three contents of a file: the common base, and what each side made of it
//! Gives   one content with the changes of both; nothing if changes touch, or if one of the three contents is not text
//! Never   leaves out a change, applies one twice, alters a line or its end, or exceeds its bounds, whatever the files hold
//! Spec    spec/11-sync.md, [11.6.14]
//!
//! Invariants
//!  (1) A result has every change of either side once. All other lines are unchanged.
//!  (2) The result does not depend on which side is called mine: two devices that merge the same two contents get the same bytes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use similar::{Algorithm, DiffTag, capture_diff_slices};

use crate::blocks::Blocks;
use crate::entry::Entry;
use crate::limits::{
    TEXT_BYTES_MAX, TEXT_EXTENTS_MAX, TEXT_LINES_MAX, TEXTS_BYTES_MAX, TEXTS_LINES_MAX,
};
use crate::read::Tree;

/// A line, by its number: equal lines have one.
type Line = u32;

/// Lines of the base, and those that a side has in their place.
type Edit = (Range<usize>, Range<usize>);

/// Merges texts, as many as one merge of two states may: whoever publishes files cannot keep another device busy with them.
#[derive(Debug)]
pub struct Texts {
    bytes_left: u64,
    lines_left: usize,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            bytes_left: TEXTS_BYTES_MAX,
            lines_left: TEXTS_LINES_MAX,
        }
    }
}

impl Texts {
    /// What the file `base` becomes, of which one side made `mine` and the other `theirs`; `None` if both contents have to stay, which
    /// is so too where one of the three cannot be read.
    pub fn merged<B: Blocks>(
        &mut self,
        tree: &Tree<'_, B>,
        base: &Entry,
        mine: &Entry,
        theirs: &Entry,
    ) -> Option<Arc<[u8]>> {
        let all = [base, mine, theirs];
        if all.iter().any(|one| one.size > TEXT_BYTES_MAX) {
            return None;
        }
        let bytes = all.iter().map(|one| one.size).sum();
        self.bytes_left = self.bytes_left.checked_sub(bytes)?;
        let read = |one| tree.content(one, TEXT_EXTENTS_MAX).ok().flatten();
        let [base, mine, theirs] = all.map(read);
        let (base, mine, theirs) = (base?, mine?, theirs?);
        self.merge(&base, &mine, &theirs).map(Arc::from)
    }

    fn merge(&mut self, base: &[u8], mine: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
        let mut lines = Lines::default();
        let mut numbered = Vec::new();
        for text in [base, mine, theirs] {
            let numbers = lines.numbers(text)?;
            self.lines_left = self.lines_left.checked_sub(numbers.len())?;
            numbered.push(numbers);
        }
        let merged = merge(&numbered[0], &numbered[1], &numbered[2])?;
        Some(
            merged
                .iter()
                .flat_map(|line| lines.text(*line))
                .copied()
                .collect(),
        )
    }
}

/// The lines of several texts, each with its end, if it has one.
#[derive(Default)]
struct Lines<'t> {
    numbers: HashMap<&'t [u8], Line>,
    texts: Vec<&'t [u8]>,
}

impl<'t> Lines<'t> {
    /// The lines of `text`; `None` if it is none, or has too many.
    fn numbers(&mut self, text: &'t [u8]) -> Option<Vec<Line>> {
        if text.contains(&0) || std::str::from_utf8(text).is_err() {
            return None;
        }
        let mut numbers = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            if numbers.len() == TEXT_LINES_MAX {
                return None;
            }
            let next = Line::try_from(self.texts.len()).ok()?;
            let number = *self.numbers.entry(line).or_insert(next);
            if number == next {
                self.texts.push(line);
            }
            numbers.push(number);
        }
        Some(numbers)
    }

    fn text(&self, line: Line) -> &'t [u8] {
        self.texts[line as usize]
    }
}

/// The lines of `base` with the edits of both sides; `None` if an edit of one touches another of the other: then no line between
/// them says that they have nothing to do with each other. The same edit of both is one.
fn merge(base: &[Line], mine: &[Line], theirs: &[Line]) -> Option<Vec<Line>> {
    let mut edits = Vec::new();
    for side in [mine, theirs] {
        let found = edits_of(base, side);
        if !lead(base, side, &found) {
            return None;
        }
        edits.extend(found.into_iter().map(|(from, to)| (from, &side[to])));
    }
    // Those of one side do not touch.
    edits.sort_by_key(|(from, _)| (from.start, from.end));
    let mut merged = Vec::with_capacity(base.len());
    let mut last: Option<&(Range<usize>, &[Line])> = None;
    for edit in &edits {
        match last {
            Some(last) if edit == last => continue,
            Some((before, _)) if edit.0.start <= before.end => return None,
            _ => {}
        }
        let at = last.map_or(0, |(before, _)| before.end);
        merged.extend_from_slice(&base[at..edit.0.start]);
        merged.extend_from_slice(edit.1);
        last = Some(edit);
    }
    let at = last.map_or(0, |(before, _)| before.end);
    merged.extend_from_slice(&base[at..]);
    Some(merged)
}

/// How `side` comes from `base`, in order; at least one line that stays lies between two edits.
fn edits_of(base: &[Line], side: &[Line]) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    // It gives up looking for the shortest way after a count of steps, and so does not become quadratic.
    for part in capture_diff_slices(Algorithm::Myers, base, side) {
        let (from, to) = (part.old_range(), part.new_range());
        match edits.last_mut() {
            _ if part.tag() == DiffTag::Equal => {}
            Some(last) if last.0.end == from.start && last.1.end == to.start => {
                *last = (last.0.start..from.end, last.1.start..to.end);
            }
            _ => edits.push((from, to)),
        }
    }
    edits
}

/// Whether the edits make `side` out of `base`: a wrong one would lose lines that somebody wrote.                    (1)
fn lead(base: &[Line], side: &[Line], edits: &[Edit]) -> bool {
    let (mut from, mut to) = (0, 0);
    let end = (base.len()..base.len(), side.len()..side.len());
    for (before, after) in edits.iter().chain([&end]) {
        let stays = base.get(from..before.start);
        if stays.is_none() || stays != side.get(to..after.start) {
            return false;
        }
        (from, to) = (before.end, after.end);
    }
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merged(base: &str, mine: &str, theirs: &str) -> Option<String> {
        let merge = |mine: &str, theirs: &str| {
            let merged =
                Texts::default().merge(base.as_bytes(), mine.as_bytes(), theirs.as_bytes());
            merged.map(|bytes| String::from_utf8(bytes).unwrap())
        };
        let found = merge(mine, theirs);
        // (2)
        assert_eq!(found, merge(theirs, mine));
        found
    }

    #[test]
    fn changes_of_both_sides_are_in_the_result() {
        for (base, mine, theirs, result) in [
            ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"),
            ("a\nb\nc\n", "b\nc\n", "a\nb\nc\nd\n", "b\nc\nd\n"),
            ("a\nb\nc\n", "x\na\nb\nc\n", "a\nb\n", "x\na\nb\n"),
            // Line ends are parts of lines, and a last line without one stays so.
            ("a\r\nb\r\nc", "A\r\nb\r\nc", "a\r\nb\r\nC", "A\r\nb\r\nC"),
            ("a\nb\nc", "a\nb\nc\nd", "A\nb\nc", "A\nb\nc\nd"),
            (
                "\u{feff}a\n\nb\n",
                "\u{feff}a\n\nä\n",
                "\u{feff}€\n\nb\n",
                "\u{feff}€\n\nä\n",
            ),
            // The same change of both is one.
            (
                "a\nb\nc\nd\n",
                "A\nb\nc\nD\n",
                "A\nb\nc\nd\n",
                "A\nb\nc\nD\n",
            ),
            ("a\n", "b\n", "b\n", "b\n"),
        ] {
            let found = merged(base, mine, theirs);
            assert_eq!(
                found.as_deref(),
                Some(result),
                "{base:?} {mine:?} {theirs:?}"
            );
        }
    }

    #[test]
    fn changes_that_touch_are_not_merged() {
        for (base, mine, theirs) in [
            ("a\nb\nc\n", "a\nB\nc\n", "a\n?\nc\n"),
            // No line lies between the two.
            ("a\nb\nc\n", "A\nb\nc\n", "a\nB\nc\n"),
            ("a\nb\n", "a\nb\nx\n", "a\nb\ny\n"),
            ("a\nb\n", "a\nx\nb\n", "a\nB\n"),
            ("a\nb\nc\n", "a\nc\n", "a\nB\nc\n"),
            ("a\nb\nc", "a\nb\nc\n", "a\nb\nC"),
            ("", "x\n", "y\n"),
            ("a\n", "", "b\n"),
        ] {
            assert_eq!(
                merged(base, mine, theirs),
                None,
                "{base:?} {mine:?} {theirs:?}"
            );
        }
    }

    #[test]
    fn what_is_no_text_or_too_long_is_not_merged() {
        let text = |first: &str, last: &str, lines: usize| {
            format!("{first}\n{}{last}\n", "x\n".repeat(lines - 2))
        };
        let try_all = |lines| {
            let (base, mine) = (text("a", "b", lines), text("A", "b", lines));
            merged(&base, &mine, &text("a", "B", lines))
        };
        let most = try_all(TEXT_LINES_MAX);
        assert_eq!(most, Some(text("A", "B", TEXT_LINES_MAX)));
        assert_eq!(try_all(TEXT_LINES_MAX + 1), None);
        for bytes in [&b"a\n\0\nb\n"[..], b"a\n\xff\nb\n"] {
            let edit = |from: u8, to: u8| -> Vec<u8> {
                let each = bytes
                    .iter()
                    .map(|byte| if *byte == from { to } else { *byte });
                each.collect()
            };
            let (mine, theirs) = (edit(b'a', b'A'), edit(b'b', b'B'));
            assert_eq!(Texts::default().merge(bytes, &mine, &theirs), None);
        }
    }

    #[test]
    fn one_merge_of_states_compares_so_many_lines_and_no_more() {
        let mut texts = Texts::default();
        let base = "x\n".repeat(TEXT_LINES_MAX - 2);
        let texts_of = |first: &str, last: &str| format!("{first}\n{base}{last}\n");
        let sides = [texts_of("a", "b"), texts_of("A", "b"), texts_of("a", "B")];
        let mut merge = || {
            let [base, mine, theirs] = sides.each_ref().map(|text| text.as_bytes());
            texts.merge(base, mine, theirs).is_some()
        };
        let merged = (0..10).filter(|_| merge()).count();
        assert_eq!(merged, TEXTS_LINES_MAX / (3 * TEXT_LINES_MAX));
    }

    /// A text, and how each side changed it: by a line of its own, or by none, in the place of some lines or before one.
    #[derive(Clone, Debug)]
    struct Case {
        base: Vec<String>,
        edits: Vec<(usize, bool, bool, usize)>,
    }

    /// With few kinds of line, so that many are equal, or with no two that are.
    fn cases() -> impl Strategy<Value = Case> {
        let edit = (0..40_usize, any::<bool>(), any::<bool>(), 0..3_usize);
        let kinds = proptest::collection::vec(0..5_usize, 0..40);
        let edits = proptest::collection::vec(edit, 0..8);
        (kinds, any::<bool>(), edits).prop_map(|(kinds, all_differ, edits)| {
            let line = |(number, kind)| format!("{}\n", if all_differ { number } else { kind });
            let base = kinds.into_iter().enumerate().map(line).collect();
            Case { base, edits }
        })
    }

    impl Case {
        /// What the side made of the base: its edits from the last on, so that places stay.
        fn side(&self, side: &str) -> Vec<String> {
            let mut lines = self.base.clone();
            let mut edits: Vec<_> = self.edits.iter().enumerate().collect();
            edits.sort_by_key(|(_, edit)| std::cmp::Reverse(edit.0));
            for (number, (at, is_mine, adds, count)) in edits {
                if *is_mine == (side == "mine") && *at <= lines.len() {
                    let end = (at + count).min(lines.len());
                    let new = adds.then(|| format!("{side} {number}\n"));
                    lines.splice(at..&end, new);
                }
            }
            lines
        }
    }

    fn count(lines: &[String], line: &String) -> isize {
        let count = lines.iter().filter(|one| *one == line).count();
        count.try_into().unwrap()
    }

    proptest! {
        /// SECURITY.md, claim 21. (1): the lines that a side made are in the result once and in their order; of each line of the base so many are gone as the
        /// two took away, of which those count once that both took away in one place.
        #[test]
        fn a_merged_text_has_every_change_of_either_side_once(case in cases()) {
            let (base, mine, theirs) = (&case.base, case.side("mine"), case.side("theirs"));
            let found = merged(&base.concat(), &mine.concat(), &theirs.concat());
            if let Some(found) = found {
                let found: Vec<String> = found.split_inclusive('\n').map(str::to_owned).collect();
                for (side, lines) in [("mine", &mine), ("theirs", &theirs)] {
                    let made = |lines: &[String]| -> Vec<String> {
                        lines.iter().filter(|line| line.starts_with(side)).cloned().collect()
                    };
                    prop_assert_eq!(made(&found), made(lines));
                }
                for line in base {
                    let gone = |lines: &[String]| count(base, line) - count(lines, line);
                    let (here, there) = (gone(&mine), gone(&theirs));
                    let all = here.max(there)..=here + there;
                    prop_assert!(all.contains(&gone(&found)), "{line:?}");
                }
                // Those that no other is equal to keep their order too.
                let kept: Vec<&String> = found.iter().filter(|line| count(base, line) == 1).collect();
                let before: Vec<&String> = base.iter().filter(|line| kept.contains(line) && count(base, line) == 1).collect();
                prop_assert_eq!(kept, before);
            }
        }

        /// Where the sides keep to parts of the text that a line divides which is there once, everything is merged.
        #[test]
        fn changes_in_parts_of_their_own_are_always_merged(
            base in proptest::collection::vec(0..5_u8, 0..30),
            mine in proptest::collection::vec(0..9_u8, 0..30),
            after in proptest::collection::vec(0..5_u8, 0..30),
            theirs in proptest::collection::vec(0..9_u8, 0..30),
        ) {
            let text = |lines: &[u8]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            let [base, mine, after, theirs] = [base, mine, after, theirs].map(|lines| text(&lines));
            let middle = "the only line of its kind\n";
            let found = merged(
                &[&base, middle, &after].concat(),
                &[&mine, middle, &after].concat(),
                &[&base, middle, &theirs].concat(),
            );
            prop_assert_eq!(found, Some([&mine, middle, &theirs].concat()));
        }
    }
}

//! Finds the parts of the project's documents that a reader sees: links, headings, fenced blocks and words.
//!
//! Takes   the text of a document
//! Gives   these parts, for comparison with the files of the project
//! Never   reads or changes a file

use std::collections::BTreeSet;

/// A link of a document: the file it leads to, empty for the document itself, and the heading in it, if it names one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// A path relative to the folder of the document.
    pub file: String,
    /// As in `#words-that-do-not-appear`, without the `#`.
    pub heading: Option<String>,
}

/// The text of `document` outside of its fenced blocks.
fn outside_of_blocks(document: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    document.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// Every link of `document` that leads to a file of the repository.
#[must_use]
pub fn links_in(document: &str) -> BTreeSet<Link> {
    let mut links = BTreeSet::new();
    for line in outside_of_blocks(document) {
        for part in line.split("](").skip(1) {
            let target = part.split(')').next().unwrap_or_default();
            if target.contains("://") {
                continue;
            }
            let (file, heading) = target
                .split_once('#')
                .map_or((target, None), |(file, heading)| (file, Some(heading)));
            links.insert(Link {
                file: file.to_owned(),
                heading: heading.map(str::to_owned),
            });
        }
    }
    links
}

/// What links to the headings of `document` end with, as code hosts make it of each.
#[must_use]
pub fn headings_in(document: &str) -> BTreeSet<String> {
    let headings = outside_of_blocks(document).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words
                .chars()
                .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
            kept.map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
        .collect()
}

/// A fenced block: its language, and its lines.
#[must_use]
pub fn blocks_in(document: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks = Vec::new();
    let mut open = None;
    for line in document.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language, Vec::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    blocks
}

/// The words of the first column of the table that follows the heading `heading`.
#[must_use]
pub fn first_column<'a>(document: &'a str, heading: &str) -> Vec<&'a str> {
    let Some((_, after)) = document.split_once(heading) else {
        return Vec::new();
    };
    let rows = after.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split(','))
        .map(str::trim)
        .collect()
}

/// Lines of `text` that have one of `words` between two borders of words, case aside: number, from 1, and word.
/// What `_` or `:` touches is a name of the code, and no word.
#[must_use]
pub fn lines_with<'a>(text: &str, words: &[&'a str]) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        let borders = |start: usize, length: usize| {
            let before = line[..start].chars().next_back();
            let after = line[start + length..].chars().next();
            [before, after]
                .iter()
                .flatten()
                .all(|letter| !letter.is_alphanumeric() && !"_:".contains(*letter))
        };
        let has = |word: &str| {
            line.match_indices(word)
                .any(|(start, _)| borders(start, word.len()))
        };
        found.extend(
            words
                .iter()
                .filter(|word| has(word))
                .map(|word| (index + 1, *word)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# A `title`, with words\n[one](a/b.md#there) and [two](#here), [three](https://example.org)\n```sh\n[no](link)\n```\n## Words that do not appear\n\n| not | but |\n|---|---|\n| anew | again |\n| told of, tells of | names |\n";

    #[test]
    fn links_headings_and_blocks_are_found() {
        let links: Vec<_> = links_in(DOCUMENT).into_iter().collect();
        let link = |file: &str, heading: &str| Link {
            file: file.to_owned(),
            heading: Some(heading.to_owned()),
        };
        assert_eq!(links, [link("", "here"), link("a/b.md", "there")]);
        assert_eq!(
            headings_in(DOCUMENT),
            ["a-title-with-words", "words-that-do-not-appear"]
                .map(str::to_owned)
                .into()
        );
        assert_eq!(blocks_in(DOCUMENT), [("sh", vec!["[no](link)"])]);
    }

    #[test]
    fn words_are_found_whole_and_whatever_their_case() {
        let words = first_column(DOCUMENT, "## Words that do not appear");
        assert_eq!(words, ["anew", "told of", "tells of"]);
        let text = "Anew it is\na new one\nrenewed, anewed, seal_anew, Brought::Rebuilt\nhe was told of it";
        assert_eq!(lines_with(text, &words), [(1, "anew"), (4, "told of")]);
    }
}

//! Compares the statements of the documents with the files of the project.
//!
//! Takes   the text of a document, and the facts
//! Gives   the contradictions, one line each
//! Never   changes either
//! Spec    CONTRIBUTING.md, "Changes": a fact has one home

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Which crate may depend on which others, by the last part of their folders.
pub type Edges = BTreeMap<String, BTreeSet<String>>;

/// Lines of a source file without its tests, at most.
pub const FILE_LINES_MAX: usize = 600;

/// The fenced block named `name` of `document`; `None` if it has no such block.
#[must_use]
pub fn block<'d>(document: &'d str, name: &str) -> Option<&'d str> {
    let start = format!("```{name}\n");
    document.split_once(&start)?.1.split("```").next()
}

/// The edges in the fenced block named `edges` of `document`; `None` if it has no such block.
#[must_use]
pub fn edges_in(document: &str) -> Option<Edges> {
    Some(edges_of(block(document, "edges")?))
}

/// The lines `from -> to to` of `block`.
#[must_use]
pub fn edges_of(block: &str) -> Edges {
    let mut edges = Edges::new();
    for line in block.lines() {
        if let Some((from, to)) = line.split_once("->") {
            edges.insert(
                from.trim().to_owned(),
                to.split_whitespace().map(str::to_owned).collect(),
            );
        }
    }
    edges
}

/// What differs between the edges a document allows and those that are.
///
/// A crate that the document names and the workspace does not have yet is no difference, and neither is an edge to it.
#[must_use]
pub fn edge_differences(allowed: &Edges, actual: &Edges) -> Vec<String> {
    let mut differences = Vec::new();
    for (from, to) in actual {
        let Some(allowed) = allowed.get(from) else {
            differences.push(format!("{from} is not in the document"));
            continue;
        };
        differences.extend(
            to.difference(allowed)
                .map(|to| format!("{from} -> {to} is not allowed")),
        );
        let present = allowed.iter().filter(|to| actual.contains_key(*to));
        differences.extend(
            present
                .filter(|allowed| !to.contains(*allowed))
                .map(|to| format!("{from} -> {to} is allowed but not there")),
        );
    }
    differences
}

/// The paths of this repository that `document` names in backquotes or in links: those that begin with one of `roots`
/// and have no placeholder in them.
#[must_use]
pub fn paths_in(document: &str, roots: &[&str]) -> BTreeSet<PathBuf> {
    let words =
        document.split(|letter: char| letter.is_whitespace() || "`()[]|,;\"".contains(letter));
    words
        .map(|word| {
            word.trim_end_matches(['.', ':'])
                .split('#')
                .next()
                .unwrap_or_default()
        })
        .filter(|word| {
            roots.iter().any(|root| {
                word.strip_prefix(root)
                    .is_some_and(|rest| rest.starts_with('/'))
            })
        })
        .filter(|word| !word.contains(['*', '<', '{', '…', '$']))
        .map(PathBuf::from)
        .collect()
}

/// Lines of `source` before its tests: the module at its foot that only tests compile.
#[must_use]
pub fn lines_without_tests(source: &str) -> usize {
    let lines: Vec<&str> = source.lines().collect();
    lines
        .windows(2)
        .position(|pair| {
            pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
        })
        .unwrap_or(lines.len())
}

/// The lines of code that `document` gives each crate at most, in its table with the column `lines at most`; `None` if it has none.
#[must_use]
pub fn budget_in(document: &str) -> Option<BTreeMap<String, usize>> {
    let table = document.split_once("| lines at most |\n")?.1;
    let rows = table
        .lines()
        .skip(1)
        .map_while(|line| line.strip_prefix("| "));
    rows.map(|row| {
        let mut cells = row.split(" | ");
        let name = cells.next()?.trim_matches('`').to_owned();
        let lines = cells.next()?.trim_end_matches([' ', '|']).replace(',', "");
        Some((name, lines.parse().ok()?))
    })
    .collect()
}

/// Every Rust source below `folder`, except those that only hold tests.
///
/// # Errors
/// Of reading the folder.
pub fn sources(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                let entry = entry?.path();
                if !["tests", "benches", "examples"]
                    .iter()
                    .any(|skipped| entry.file_name().is_some_and(|name| name == *skipped))
                {
                    open.push(entry);
                }
            }
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !is_test_file(&path)
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn is_test_file(path: &Path) -> bool {
    path.file_stem()
        .is_some_and(|stem| stem == "tests" || stem.as_encoded_bytes().ends_with(b"_tests"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(text: &str) -> Edges {
        edges_in(&format!("before\n```edges\n{text}\n```\nafter")).unwrap()
    }

    #[test]
    fn an_edge_too_many_and_one_too_few_are_both_told() {
        let allowed = edges("cli -> vault mount\nmount -> vault\nvault ->");
        let actual = edges("cli -> vault\nmount -> vault\nvault -> mount");
        assert_eq!(
            edge_differences(&allowed, &actual),
            [
                "cli -> mount is allowed but not there",
                "vault -> mount is not allowed"
            ]
        );
        assert_eq!(edge_differences(&allowed, &allowed), [""; 0]);
    }

    #[test]
    fn a_crate_that_does_not_exist_yet_is_no_difference() {
        let allowed = edges("vault -> history\nhistory ->");
        assert_eq!(edge_differences(&allowed, &edges("vault ->")), [""; 0]);
        assert_eq!(
            edge_differences(&edges("vault ->"), &edges("vault ->\nnew ->")),
            ["new is not in the document"]
        );
    }

    #[test]
    fn paths_are_found_in_text_tables_and_links() {
        let text = "see `crates/a/src/lib.rs`, [spec](spec/1-keys.md#sizes) | `crates/b/` | crates/*/src and `other/c`.";
        let found = paths_in(text, &["crates", "spec"]);
        assert_eq!(
            found,
            ["crates/a/src/lib.rs", "crates/b/", "spec/1-keys.md"]
                .map(PathBuf::from)
                .into()
        );
    }

    #[test]
    fn a_budget_is_read_to_the_end_of_its_table() {
        let text = "a\n\n| crate | lines at most |\n|---|---|\n| `vault` | 19,900 |\n| `cli` | 12 |\n\n| b | 3 |\n";
        let expected = [("cli".to_owned(), 12), ("vault".to_owned(), 19_900)];
        assert_eq!(budget_in(text), Some(expected.into()));
        assert_eq!(
            budget_in("| crate | lines at most |\n|---|---|\n| `vault` | many |\n"),
            None
        );
    }

    #[test]
    fn tests_at_the_foot_do_not_count() {
        assert_eq!(
            lines_without_tests("a\nb\n#[cfg(test)]\nmod tests {\n}\n"),
            2
        );
        assert_eq!(lines_without_tests("a\n#[cfg(test)]\nmod tests;\nb\n"), 4);
    }
}

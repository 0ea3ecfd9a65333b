//! The texts that readers see first are true and short: README, guides, links, the tables of decisions and of words,
//! and the list of changes.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use strongroom_conformance::prose::{blocks_in, first_column, headings_in, lines_with, links_in};

/// Lines of the README, at most: who reads more wants a guide.
const README_LINES_MAX: usize = 120;

/// Which test runs the fenced blocks of a language in the README and the guides; `text` shows what nobody runs.
const RUN_BY: [(&str, &str); 3] = [
    ("sh", "crates/access/cli/tests/guides.rs"),
    ("rust", "crates/clear/vault/src/lib.rs"),
    ("text", ""),
];

/// Where words of the glossary's second table are looked for.
const PROSE: [&str; 12] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "Makefile",
    "changes",
    "docs",
    "spec",
    "tools",
    "bindings",
    "crates",
];

/// What of that is left out, and why.
const LEFT_OUT: [(&str, &str); 11] = [
    ("docs/glossary.md", "it has the list"),
    (
        "docs/adr/0",
        "a decision stays as it was written; what it says is in the table",
    ),
    ("docs/performance/2", "a saved run stays as it was written"),
    ("tools/vectors", "not mended yet"),
    ("spec/vectors", "their texts come from tools/vectors"),
    (
        "crates/clear/filesystem/benches/engine/report.rs",
        "its texts are not mended yet",
    ),
    (
        "crates/clear/filesystem/tests/content/epochs.rs",
        "its texts are not mended yet",
    ),
    (
        "crates/clear/filesystem/tests/content/hashes.rs",
        "its texts are not mended yet",
    ),
    ("crates/verify/bench", "its texts are not mended yet"),
    (
        "crates/verify/simulator/src/arguments.rs",
        "its texts are not mended yet",
    ),
    (
        "crates/verify/simulator/src/run.rs",
        "its texts are not mended yet",
    ),
];

/// The checkout.
fn top() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).unwrap().to_path_buf()
}

fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|_| panic!("{path} is missing"))
}

/// Every file below `path` of the checkout, or that file, by its path from the top, in order.
fn files(path: &str) -> Vec<String> {
    if top().join(path).is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(top().join(path)).unwrap();
    let names: BTreeSet<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let inside = names.iter().map(|name| format!("{path}/{name}"));
    inside.flat_map(|path| files(&path)).collect()
}

/// The Markdown files that people read here.
fn documents() -> Vec<String> {
    let folders = ["docs", "spec", "changes", "bindings"]
        .into_iter()
        .flat_map(files);
    let top = fs::read_dir(top()).unwrap();
    let at_top = top.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    folders
        .chain(at_top)
        .filter(|path| path.ends_with(".md"))
        .collect()
}

/// README and guides.
fn front() -> Vec<String> {
    let mut front = files("docs/guide");
    front.push("README.md".to_owned());
    front
}

#[test]
fn the_readme_is_short_and_shows_nothing_that_is_meant_for_machines() {
    let readme = read("README.md");
    let lines = readme.lines().count();
    assert!(lines <= README_LINES_MAX, "{lines} lines");
    for path in front() {
        let text = read(&path);
        assert!(!text.contains("<!--"), "{path} has a comment for a machine");
        for (language, lines) in blocks_in(&text) {
            let hidden = lines
                .iter()
                .find(|line| **line == "#" || line.starts_with("# "));
            assert!(
                !language.starts_with("rust") || hidden.is_none(),
                "{path} shows a line that rustdoc hides: {hidden:?}"
            );
        }
    }
}

#[test]
fn every_block_of_the_readme_and_the_guides_is_run_by_a_test() {
    let runners: BTreeMap<&str, &str> = RUN_BY.into();
    let doctests = read(runners["rust"]);
    let mut blocks = 0;
    for path in front() {
        for (language, _) in blocks_in(&read(&path)) {
            blocks += 1;
            assert!(
                runners.contains_key(language),
                "{path} has a block of `{language}`: name the test that runs it in RUN_BY"
            );
            assert!(
                language != "rust" || doctests.contains(&format!("../{path}\")")),
                "{path} has Rust: let {} run it as it runs the README",
                runners["rust"]
            );
        }
    }
    assert!(blocks > 20, "{blocks} blocks");
}

#[test]
fn every_guide_is_linked_from_the_readme() {
    let links = links_in(&read("README.md"));
    for guide in files("docs/guide") {
        assert!(links.iter().any(|link| link.file == guide), "{guide}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let mut links = 0;
    for path in documents() {
        let folder = Path::new(&path).parent().unwrap().to_path_buf();
        for link in links_in(&read(&path)) {
            links += 1;
            let file = match link.file.as_str() {
                "" => PathBuf::from(&path),
                file => folder.join(file),
            };
            let target = top().join(&file);
            assert!(target.exists(), "{path} links to {}", link.file);
            if let Some(heading) = link.heading {
                let headings = headings_in(&fs::read_to_string(target).unwrap());
                assert!(
                    headings.contains(&heading),
                    "{path}: {file:?} has no #{heading}"
                );
            }
        }
    }
    assert!(links > 100, "{links} links");
}

#[test]
fn figures_of_the_readme_and_the_guide_are_those_of_the_run_they_link() {
    for path in ["README.md", "docs/guide/performance.md"] {
        let text = read(path);
        let links = links_in(&text);
        let mut runs = links
            .iter()
            .filter(|link| link.file.contains("performance/2") && link.file.ends_with("README.md"));
        let run = top()
            .join(path)
            .parent()
            .unwrap()
            .join(&runs.next().unwrap().file);
        assert!(runs.next().is_none(), "{path} links one run");
        let run = fs::read_to_string(run).unwrap();
        let in_run: BTreeSet<&str> = run
            .split(|letter: char| letter.is_whitespace() || "(|×".contains(letter))
            .collect();
        let heading = if path == "README.md" {
            "## How fast"
        } else {
            "## Speed"
        };
        let (_, after) = text.split_once(heading).unwrap();
        let rows: Vec<&str> = after
            .lines()
            .skip_while(|line| !line.starts_with("|-") && !line.starts_with("|--"))
            .skip(1)
            .take_while(|line| line.starts_with('|'))
            .collect();
        assert!(rows.len() >= 5, "{path}: {rows:?}");
        let cells = rows.iter().flat_map(|row| row.split('|').skip(2));
        for figure in cells.flat_map(|cell| cell.split(", ")).map(str::trim) {
            let is_there = figure.is_empty() || in_run.contains(figure);
            assert!(is_there, "{path}: {figure} is not in the run");
        }
    }
}

#[test]
fn one_saved_run_of_each_kind_is_kept() {
    let entries = fs::read_dir(top().join("docs/performance")).unwrap();
    let mut kinds = BTreeSet::new();
    for entry in entries {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (_date, kind) = name.split_at(10);
        assert!(
            kinds.insert(kind.to_owned()),
            "{name} is older or newer than another run of its kind: keep the newest"
        );
    }
    assert!(kinds.len() >= 3, "{kinds:?}");
}

#[test]
fn every_decision_is_in_the_table_with_its_title() {
    let table = read("docs/adr/README.md");
    let pages = files("docs/adr")
        .into_iter()
        .filter(|path| !path.ends_with("README.md"));
    let mut rows = 0;
    for path in pages {
        rows += 1;
        let page = read(&path);
        let head = page.lines().next().unwrap();
        let (number, title) = head.strip_prefix("# ").unwrap().split_once(" · ").unwrap();
        let file = Path::new(&path).file_name().unwrap().to_str().unwrap();
        let row = format!("| [{number}]({file}) | {title} | ");
        let found = table.lines().find(|line| line.starts_with(&row));
        let state = found.unwrap_or_else(|| panic!("no row `{row}`"));
        assert!(state[row.len()..].len() > 5, "{state} has no state");
    }
    let in_table = table.lines().filter(|line| line.starts_with("| [")).count();
    assert_eq!(rows, in_table);
}

#[test]
fn words_that_may_not_appear_do_not() {
    let glossary = read("docs/glossary.md");
    let words = first_column(&glossary, "## Words that do not appear");
    assert!(words.len() > 5, "{words:?}");
    let mut looked_at = 0;
    let mut found = Vec::new();
    for path in PROSE.into_iter().flat_map(files) {
        let is_left_out = LEFT_OUT.iter().any(|(start, _)| path.starts_with(start));
        let is_text = ["md", "rs", "sh", "py", "Makefile"]
            .iter()
            .any(|end| path.ends_with(end));
        if is_left_out || !is_text || path.ends_with("conformance/src/prose.rs") {
            continue;
        }
        looked_at += 1;
        let lines = lines_with(&read(&path), &words);
        found.extend(
            lines
                .iter()
                .map(|(line, word)| format!("{path}:{line}: {word}")),
        );
    }
    assert!(looked_at > 100, "{looked_at} files");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_is_new_is_collected_newest_first_and_each_change_once() {
    let top = top();
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("changes")).unwrap();
    let changes = [
        ("0001-a.md", "Added: one\nthing.\n"),
        ("0002-b.md", "Mended: another.\n"),
        ("0003-c.md", "Added: a newer one.\n"),
        ("0004-d.md", "Without a group.\n"),
    ];
    for (name, text) in changes {
        fs::write(place.path().join("changes").join(name), text).unwrap();
    }
    let changelog = place.path().join("CHANGELOG.md");
    fs::write(
        &changelog,
        "# What is new\n\nWords.\n\n## 0.1.0, 2026-01-01\n\nOld.\n",
    )
    .unwrap();
    let collect = |version: &str| {
        let mut tool = Command::new(top.join("tools/changelog.py"));
        tool.args([version, "2026-02-02"]);
        tool.env("STRONGROOM_TOP", place.path()).output().unwrap()
    };
    let output = collect("0.2.0");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        fs::read_to_string(&changelog).unwrap(),
        "# What is new\n\nWords.\n\n## 0.2.0, 2026-02-02\n\n### Added\n\n- a newer one.\n- one thing.\n\n### Changed\n\n- Without a group.\n\n### Mended\n\n- another.\n\n## 0.1.0, 2026-01-01\n\nOld.\n"
    );
    let left = fs::read_dir(place.path().join("changes")).unwrap().count();
    assert_eq!(left, 0, "what was collected is gone");
    assert!(!collect("0.2.0").status.success(), "a release is made once");
}

#[test]
fn each_change_has_a_number_of_its_own_and_words() {
    let mut numbers = BTreeSet::new();
    for path in files("changes") {
        let name = path.strip_prefix("changes/").unwrap();
        let (number, rest) = name.split_once('-').unwrap_or_default();
        let is_named = number.len() == 4 && number.parse::<u16>().is_ok() && rest.ends_with(".md");
        assert!(is_named, "{name}: call it 0123-what-it-is.md");
        assert!(
            numbers.insert(number.to_owned()),
            "{name}: that number is taken"
        );
        assert!(read(&path).len() > 20, "{name} says nothing");
    }
}

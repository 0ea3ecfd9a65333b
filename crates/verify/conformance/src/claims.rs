//! Compares the claims of SECURITY.md with the tests that must fail if a claim is false.
//!
//! Takes   the text of SECURITY.md; the source files named in its table of tests
//! Gives   the claims, the rows of the table, and the contradictions, one line each
//! Never   runs a test, or judges whether it tests the claim
//! Spec    CONTRIBUTING.md, "Tests": each promise of SECURITY.md has rows in its table of tests

/// A row of the table of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The number of the claim.
    pub claim: u32,
    /// The function.
    pub test: String,
    /// Where it stands, from the top of the checkout.
    pub file: String,
}

/// The part of `document` below the heading `## title`, up to the next one.
fn section<'a>(document: &'a str, title: &str) -> Option<&'a str> {
    let after = document.split(&format!("\n## {title}\n")).nth(1)?;
    after.split("\n## ").next()
}

/// The numbers of the claims, in their order; `None` if there is no section of that name.
#[must_use]
pub fn claims_in(document: &str) -> Option<Vec<u32>> {
    let numbers = section(document, "Claims")?
        .lines()
        .filter_map(|line| line.split_once(". ")?.0.parse().ok());
    Some(numbers.collect())
}

/// The rows of the table of tests; `None` if there is no such section, or one of its rows is none.
#[must_use]
pub fn rows_in(document: &str) -> Option<Vec<Row>> {
    let table = section(document, "Which test fails if a claim is broken")?;
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let row = Row {
            claim: cells.next()?.parse().ok()?,
            test: cells.next()?.trim_matches('`').to_owned(),
            file: cells.next()?.trim_matches('`').to_owned(),
        };
        cells.next().is_none().then_some(row)
    })
    .collect()
}

/// What is wrong with the claims and rows by themselves: numbers that do not count from 1, a claim without a row, a row
/// without a claim, a row that stands twice.
#[must_use]
pub fn differences(claims: &[u32], rows: &[Row]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (expected, claim) in (1..).zip(claims) {
        if expected != *claim {
            wrong.push(format!("claim {claim} stands where {expected} should"));
        }
    }
    for claim in claims {
        if !rows.iter().any(|row| row.claim == *claim) {
            wrong.push(format!("claim {claim} has no test"));
        }
    }
    for (at, row) in rows.iter().enumerate() {
        if !claims.contains(&row.claim) {
            wrong.push(format!(
                "{} is for claim {}, but there is no such claim",
                row.test, row.claim
            ));
        }
        if rows[..at].contains(row) {
            wrong.push(format!("{} stands twice for claim {}", row.test, row.claim));
        }
    }
    wrong
}

/// What is wrong with the function that `row` names in `source`: it is not there, is no test, is left out of a run, or its doc
/// does not cite the claim.
#[must_use]
pub fn fault(row: &Row, source: &str) -> Option<String> {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let head = format!("fn {}(", row.test);
    let Some(at) = lines.iter().position(|line| line.starts_with(&head)) else {
        return Some(format!("{} has no function {}", row.file, row.test));
    };
    let is_above = |line: &&&str| line.starts_with("//") || line.starts_with("#[");
    let above: Vec<_> = lines[..at].iter().rev().take_while(is_above).collect();
    let has = |start: &str| above.iter().any(|line| line.starts_with(start));
    if !has("#[test]") {
        return Some(format!("{} in {} is no test", row.test, row.file));
    }
    if has("#[ignore") {
        return Some(format!("{} in {} is not run", row.test, row.file));
    }
    let cited = format!("SECURITY.md, claim {}", row.claim);
    let cites = |line: &str| {
        line.split_once(&cited)
            .is_some_and(|(_, rest)| !rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    let mut docs = above.iter().filter(|line| line.starts_with("///"));
    if docs.any(|line| cites(line)) {
        return None;
    }
    Some(format!(
        "{} in {} does not cite \"{cited}\"",
        row.test, row.file
    ))
}

/// The claims that the docs of a source cite: each number behind `SECURITY.md, claim `.
#[must_use]
pub fn cited_in(source: &str) -> Vec<u32> {
    let docs = source.lines().map(str::trim);
    let cited = docs
        .filter(|line| line.starts_with("///"))
        .flat_map(|line| {
            line.split("SECURITY.md, claim ")
                .skip(1)
                .filter_map(|rest| {
                    let end = rest.find(|next: char| !next.is_ascii_digit());
                    rest[..end.unwrap_or(rest.len())].parse().ok()
                })
        });
    cited.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# Security\n\n## Claims\n\n1. One. Really.\n   more of it\n2. Two.\n\n## Which test fails if a claim is broken\n\n\
        Text.\n\n| claim | test | file |\n|--:|---|---|\n| 1 | `first` | `a.rs` |\n| 2 | `second` | `b.rs` |\n\n## Non-claims\n\n3. None.\n";
    const SOURCE: &str =
        "    /// What it does.\n    /// SECURITY.md, claim 1.\n    #[test]\n    fn first() {}\n";

    fn row() -> Row {
        rows_in(DOCUMENT).unwrap().remove(0)
    }

    #[test]
    fn claims_and_rows_are_found_and_agree() {
        let (claims, rows) = (claims_in(DOCUMENT).unwrap(), rows_in(DOCUMENT).unwrap());
        assert_eq!(claims, [1, 2]);
        assert_eq!(rows[1].test, "second");
        assert_eq!(rows[1].file, "b.rs");
        assert_eq!(differences(&claims, &rows), [""; 0]);
        assert_eq!(fault(&row(), SOURCE), None);
        assert_eq!(cited_in(SOURCE), [1]);
        assert_eq!(claims_in("# Security\n"), None);
        assert_eq!(rows_in(&DOCUMENT.replace("| 2 |", "| two |")), None);
    }

    #[test]
    fn each_way_not_to_agree_is_told() {
        let rows = rows_in(DOCUMENT).unwrap();
        for (claims, rows, told) in [
            (vec![1, 2, 3], rows.clone(), "claim 3 has no test"),
            (vec![1], rows.clone(), "there is no such claim"),
            (vec![2, 1], rows.clone(), "stands where 1 should"),
            (vec![1, 2], [&rows[..], &rows[..1]].concat(), "stands twice"),
        ] {
            let found = differences(&claims, &rows);
            assert!(
                found.iter().any(|one| one.contains(told)),
                "{told}: {found:?}"
            );
        }
    }

    #[test]
    fn what_is_no_test_of_the_claim_is_told() {
        for (from, to, told) in [
            ("fn first()", "fn other()", "has no function"),
            ("fn first()", "fn first_of_all()", "has no function"),
            ("#[test]", "#[inline]", "is no test"),
            ("#[test]", "#[test]\n    #[ignore = \"slow\"]", "is not run"),
            ("claim 1.", "claim 12.", "does not cite"),
            ("/// SEC", "// SEC", "does not cite"),
        ] {
            let found = fault(&row(), &SOURCE.replace(from, to)).unwrap_or_default();
            assert!(found.contains(told), "{to}: {found}");
        }
    }
}

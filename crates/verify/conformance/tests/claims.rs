//! Each claim of SECURITY.md has tests, and each of these tests names its claim.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use std::fs;
use std::path::{Path, PathBuf};

use strongroom_conformance::claims::{Row, cited_in, claims_in, differences, fault, rows_in};

/// The checkout.
fn top() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    crates.ancestors().nth(3).unwrap().to_path_buf()
}

/// Every source below `folder`, tests too.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn document() -> (Vec<u32>, Vec<Row>) {
    let text =
        fs::read_to_string(top().join("SECURITY.md")).expect("SECURITY.md stands at the top");
    let claims = claims_in(&text).expect("SECURITY.md has claims");
    let rows = rows_in(&text).expect("SECURITY.md has a table of tests, each row of three cells");
    assert!(claims.len() >= 20, "the claims were not read: {claims:?}");
    (claims, rows)
}

#[test]
fn every_claim_has_a_test_that_cites_it() {
    let (claims, rows) = document();
    let mut wrong = differences(&claims, &rows);
    for row in &rows {
        match fs::read_to_string(top().join(&row.file)) {
            Ok(source) => wrong.extend(fault(row, &source)),
            Err(error) => wrong.push(format!("{}: {error}", row.file)),
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// A citation that the table does not know is of a claim that changed its number, or of a test that changed its name.
#[test]
fn every_citation_stands_in_the_table() {
    let (_, rows) = document();
    let mut met = 0;
    for path in ["crates", "bindings"]
        .map(|folder| sources(&top().join(folder)))
        .concat()
    {
        let file = path
            .strip_prefix(top())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        // Its examples cite claims that are none.
        if file.ends_with("conformance/src/claims.rs") {
            continue;
        }
        let mut cited = cited_in(&fs::read_to_string(&path).unwrap());
        let of_file = rows.iter().filter(|row| row.file == file);
        let mut known: Vec<_> = of_file.map(|row| row.claim).collect();
        cited.sort_unstable();
        known.sort_unstable();
        assert_eq!(cited, known, "{file}");
        met += cited.len();
    }
    assert_eq!(met, rows.len());
}

//! Third-party crates: their licences, duplicates and sources are exactly those that `deny.toml` allows.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The checkout.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .unwrap()
        .to_path_buf()
}

/// The strings of the list `name` in `deny.toml`, or those of the field `field` of its tables.
fn listed(name: &str, field: Option<&str>) -> BTreeSet<String> {
    let text = std::fs::read_to_string(top().join("deny.toml")).unwrap();
    let start = format!("\n{name} = [\n");
    let list = text.split_once(&start).unwrap().1;
    let list = list.split_once("\n]").unwrap().0;
    let entry = |line: &str| {
        let line = match field {
            Some(field) => line.split_once(&format!("{field} = "))?.1,
            None => line.trim(),
        };
        Some(line.strip_prefix('"')?.split_once('"')?.0.to_owned())
    };
    let found: BTreeSet<_> = list.lines().filter_map(entry).collect();
    assert!(!found.is_empty(), "{name} has entries");
    found
}

/// What `Cargo.lock` says of each package: name, version, source.
fn locked() -> Vec<(String, String, Option<String>)> {
    let text = std::fs::read_to_string(top().join("Cargo.lock")).unwrap();
    let packages = text.split("[[package]]\n").skip(1);
    let field = |package: &str, name: &str| {
        let start = format!("{name} = \"");
        let line = package.lines().find_map(|line| line.strip_prefix(&start))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    packages
        .map(|package| {
            let required = |name| field(package, name).unwrap();
            (
                required("name"),
                required("version"),
                field(package, "source"),
            )
        })
        .collect()
}

/// Whether a licence expression holds when only `allowed` may be used.
fn permits(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let holds = any(&mut rest, allowed);
    assert!(rest.is_empty(), "{expression} is no licence expression");
    holds
}

fn any(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut holds = all(rest, allowed);
    while let ["OR", tail @ ..] = rest {
        *rest = tail;
        holds |= all(rest, allowed);
    }
    holds
}

fn all(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut holds = one(rest, allowed);
    while let ["AND", tail @ ..] = rest {
        *rest = tail;
        holds &= one(rest, allowed);
    }
    holds
}

fn one(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let holds = any(rest, allowed);
            assert_eq!(rest.first(), Some(&")"));
            *rest = &rest[1..];
            holds
        }
        [licence, "WITH", exception, tail @ ..] => {
            *rest = tail;
            allowed.contains(&format!("{licence} WITH {exception}"))
        }
        [licence, tail @ ..] => {
            *rest = tail;
            allowed.contains(*licence)
        }
        [] => panic!("an expression ends with a licence"),
    }
}

/// The licences of the crates that are built here, by crate.
fn licences() -> BTreeMap<String, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked"])
        // Without it, cargo would have to fetch what is only built elsewhere.
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(top())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let text = |field: &str| package[field].as_str();
            let name = format!("{}@{}", text("name").unwrap(), text("version").unwrap());
            let licence = text("license");
            (name, licence.unwrap_or("none").to_owned())
        })
        .collect()
}

/// Goal: a build of the whole workspace, which joins the features that its crates ask for, is the product without test code.
/// Method: no crate asks for a feature that only tests may have, and no such feature is on by default.
#[test]
fn no_crate_switches_a_test_only_feature_on() {
    const TEST_ONLY: [&str; 3] = ["nonce-ledger", "cheap-argon2", "testing"];
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--no-deps"])
        .current_dir(top())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut declared = BTreeSet::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            for feature in dependency["features"].as_array().unwrap() {
                assert!(
                    !TEST_ONLY.contains(&feature.as_str().unwrap()),
                    "{name}: {feature}"
                );
            }
        }
        for (feature, enables) in package["features"].as_object().unwrap() {
            let enables = enables.as_array().unwrap().iter();
            let reaches_one = enables
                .map(|enabled| enabled.as_str().unwrap())
                .any(|enabled| TEST_ONLY.iter().any(|only| enabled.ends_with(only)));
            let is_one = TEST_ONLY.contains(&feature.as_str());
            assert!(is_one || !reaches_one, "{name}: {feature} switches one on");
            declared.extend(is_one.then(|| feature.clone()));
        }
    }
    assert_eq!(declared.len(), TEST_ONLY.len(), "all still exist");
}

#[test]
fn every_licence_is_allowed_and_every_allowance_is_needed() {
    let allowed = listed("allow", None);
    let licences = licences();
    assert!(licences.len() > 100, "{} crates", licences.len());
    for (name, licence) in &licences {
        assert!(permits(licence, &allowed), "{name}: {licence}");
    }
    for licence in &allowed {
        let mut others = allowed.clone();
        others.remove(licence);
        let needed = licences.values().any(|of| !permits(of, &others));
        assert!(needed, "no crate needs {licence}");
    }
}

#[test]
fn every_second_copy_of_a_crate_has_a_reason_and_every_reason_a_copy() {
    let mut versions: BTreeMap<String, BTreeSet<(Vec<u64>, String)>> = BTreeMap::new();
    for (name, version, _) in locked() {
        let numbers = version.split(['.', '+', '-']).take(3);
        let order = numbers.map(|number| number.parse().unwrap()).collect();
        versions.entry(name).or_default().insert((order, version));
    }
    let mut older = BTreeSet::new();
    for (name, versions) in versions {
        let newest = versions.len() - 1;
        let of_name = versions.iter().take(newest);
        older.extend(of_name.map(|(_, version)| format!("{name}@{version}")));
    }
    assert_eq!(older, listed("skip", Some("crate")));
}

#[test]
fn every_crate_comes_from_crates_io_or_from_this_repository() {
    for (name, _, source) in locked() {
        match source {
            Some(source) => assert_eq!(source, CRATES_IO, "{name}"),
            None => assert!(name.starts_with("strongroom"), "{name}"),
        }
    }
}

/// What cargo builds for this machine, each package with its features; procedural macros left out, as they are built apart.
fn built(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--prefix", "none"])
        .args(["--format", "{p} {f}"])
        .args(arguments)
        .current_dir(top())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    lines.map(str::to_owned).collect()
}

/// Goal: the bindings, which are built by themselves for their tests, compile nothing again that a build of the workspace has compiled.
/// Failed before: the server had brought more features of four crates, and most of the product was compiled once more for Python and Java.
#[test]
fn bindings_are_built_of_what_the_workspace_has_built() {
    let mut all = vec!["--workspace", "--edges", "normal,dev,no-proc-macro"];
    // They have a build of their own in `tools/test.sh`.
    all.extend(
        ["strongroom-conformance", "strongroom-simulator"]
            .map(|name| ["--exclude", name])
            .concat(),
    );
    let workspace = built(&all);
    assert!(workspace.len() > 200, "{} packages", workspace.len());
    for package in ["strongroom-python", "strongroom-java"] {
        let features = ["--features", "as-in-workspace"];
        let edges = ["--edges", "normal,no-proc-macro"];
        let mut own = built(&[["--package", package], features, edges].concat());
        own.retain(|line| !line.starts_with(package) && !workspace.contains(line));
        assert!(
            own.is_empty(),
            "{package}: `as-in-workspace` misses {own:?}"
        );
    }
}

#[test]
fn licence_expressions_are_read_as_spdx_means_them() {
    let allowed = ["MIT", "ISC", "A WITH e"].map(str::to_owned).into();
    for (expression, holds) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("MIT AND ISC", true),
        ("GPL-3.0 AND ISC OR MIT", true),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("(GPL-3.0 OR MIT) AND X", false),
        ("A", false),
        ("A WITH e", true),
    ] {
        assert_eq!(permits(expression, &allowed), holds, "{expression}");
    }
}

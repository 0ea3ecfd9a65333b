//! What a user of the library depends on can be published: each of these crates, and nothing else, is one that `cargo publish` takes.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The crate that users depend on.
const LIBRARY: &str = "strongroom";

type Packages = BTreeMap<String, Value>;

/// The packages of the workspace, by their names.
fn packages() -> Packages {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| (text(package, "name").to_owned(), package.clone()))
        .collect()
}

/// A field; empty if there is none.
fn text<'p>(package: &'p Value, field: &str) -> &'p str {
    package[field].as_str().unwrap_or_default()
}

/// What a package takes from this workspace: for itself, or for its tests.
fn of_here(package: &Value, for_tests: bool) -> impl Iterator<Item = &Value> {
    let all = package["dependencies"].as_array().unwrap().iter();
    all.filter(move |one| one["path"].is_string() && (one["kind"] == "dev") == for_tests)
}

/// The library, and all that it needs of this workspace.
fn needed(packages: &Packages) -> BTreeSet<String> {
    let mut needed = BTreeSet::new();
    let mut open = vec![LIBRARY.to_owned()];
    while let Some(name) = open.pop() {
        let package = &packages[&name];
        open.extend(of_here(package, false).map(|one| text(one, "name").to_owned()));
        needed.insert(name);
    }
    needed
}

#[test]
fn what_the_library_needs_may_be_published_and_nothing_else() {
    let packages = packages();
    let needed = needed(&packages);
    assert!(needed.len() > 5, "{needed:?}");
    // `cargo metadata`: null is anywhere, an empty list is nowhere.
    let may: BTreeSet<String> = packages
        .iter()
        .filter(|(_, package)| package["publish"].is_null())
        .map(|(name, _)| name.clone())
        .collect();
    assert_eq!(needed, may, "`publish = true` is for these");
}

#[test]
fn each_published_crate_says_what_it_is() {
    let packages = packages();
    for name in needed(&packages) {
        let package = &packages[&name];
        for field in ["description", "license", "documentation"] {
            assert!(text(package, field).len() > 5, "{name} has no {field}");
        }
    }
    let readme = text(&packages[LIBRARY], "readme");
    assert!(readme.ends_with("docs/guide/library.md"), "{readme}");
}

/// A path means nothing to who downloads a crate: the registry finds its dependencies by their versions.
#[test]
fn each_published_crate_names_the_versions_of_those_it_needs() {
    let packages = packages();
    let needed = needed(&packages);
    for name in &needed {
        for one in of_here(&packages[name], false) {
            let other = text(one, "name");
            let version = format!("^{}", text(&packages[other], "version"));
            assert_eq!(text(one, "req"), version, "{name} needs {other}");
        }
        // cargo leaves out what is for tests and has no version.
        for one in of_here(&packages[name], true) {
            let other = text(one, "name");
            let is_left_out = text(one, "req") == "*";
            assert!(is_left_out || needed.contains(other), "{name}: {other}");
        }
    }
}

//! The documents agree with the files of the project.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use strongroom_conformance::documents::{
    Edges, FILE_LINES_MAX, edge_differences, edges_in, lines_without_tests, paths_in, sources,
};

/// The checkout.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .unwrap()
        .to_path_buf()
}

/// Dependencies among the crates of the workspace: not those of tests, and not those of `crates/verify`.
fn actual_edges() -> Edges {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(top())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut edges = Edges::new();
    for package in metadata["packages"].as_array().unwrap() {
        let folder = Path::new(package["manifest_path"].as_str().unwrap())
            .parent()
            .unwrap();
        if folder.parent().unwrap().ends_with("verify") {
            continue;
        }
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let to = dependencies
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| dependency["path"].as_str())
            .map(|path| {
                Path::new(path)
                    .file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned()
            });
        edges.insert(
            folder.file_name().unwrap().to_str().unwrap().to_owned(),
            to.collect(),
        );
    }
    edges
}

#[test]
fn crates_depend_on_one_another_as_architecture_says() {
    let text = std::fs::read_to_string(top().join("ARCHITECTURE.md"))
        .expect("ARCHITECTURE.md stands at the top");
    let allowed = edges_in(&text).expect("ARCHITECTURE.md has a block of edges");
    let actual = actual_edges();
    assert!(actual.len() >= 6, "the workspace was not read: {actual:?}");
    assert_eq!(edge_differences(&allowed, &actual), [""; 0]);
}

#[test]
fn nothing_sealed_depends_on_the_gate_or_on_plaintext() {
    let above: BTreeSet<String> = ["crypto", "metadata", "filesystem", "vault"]
        .map(str::to_owned)
        .into();
    for sealed in [
        "format",
        "membership",
        "segments",
        "folder",
        "remote",
        "server",
    ] {
        assert!(
            actual_edges()[sealed].is_disjoint(&above),
            "{sealed} reaches above the seal"
        );
    }
}

#[test]
fn every_path_the_guides_name_exists() {
    for guide in ["ARCHITECTURE.md", "docs/reader-test.md", "SECURITY.md"] {
        let text = std::fs::read_to_string(top().join(guide))
            .unwrap_or_else(|_| panic!("{guide} is missing"));
        let named = paths_in(&text, &["bindings", "crates", "spec", "tools", "docs"]);
        assert!(!named.is_empty(), "{guide} names no path");
        let missing: Vec<_> = named
            .iter()
            .filter(|path| !top().join(path).exists())
            .collect();
        assert!(missing.is_empty(), "{guide} names {missing:?}");
    }
}

#[test]
fn no_source_file_is_longer_than_a_reader_can_hold() {
    let folders = ["crates", "bindings"].map(|folder| top().join(folder));
    let sources: Vec<_> = folders
        .iter()
        .flat_map(|folder| sources(folder).unwrap())
        .collect();
    assert!(sources.len() > 50, "only {} sources found", sources.len());
    let long: Vec<_> = sources
        .iter()
        .map(|path| {
            (
                lines_without_tests(&std::fs::read_to_string(path).unwrap()),
                path,
            )
        })
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .collect();
    assert!(
        long.is_empty(),
        "longer than {FILE_LINES_MAX} lines: {long:?}"
    );
}

//! All files below a vault folder are opened through `strongroom-folder`: no source of the crates that work there opens
//! one in another way. The few sources that open something else are listed, each with what it opens.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use strongroom_conformance::documents::{lines_without_tests, sources};

/// Crates that work in a vault folder.
const CRATES: [&str; 5] = [
    "crates/sealed/segments/src",
    "crates/clear/metadata/src",
    "crates/clear/filesystem/src",
    "crates/clear/history/src",
    "crates/clear/vault/src",
];

/// What reaches a file by a path, or looks at one.
const WAYS: [&str; 36] = [
    "std::fs::",
    "use std::fs",
    "File::open",
    "File::create",
    "File::options",
    "fs::OpenOptions",
    "OpenOptionsExt",
    "DirBuilder",
    " fs::read",
    " fs::write",
    " fs::rename",
    " fs::copy",
    " fs::remove",
    " fs::create_dir",
    " fs::metadata",
    " fs::symlink_metadata",
    " fs::hard_link",
    "UnixListener::bind",
    "UnixStream::connect",
    ".canonicalize()",
    ".symlink_metadata()",
    ".exists()",
    ".try_exists()",
    ".is_dir()",
    ".is_file()",
    ".read_dir()",
    "fs::open",
    "fs::access(",
    "statvfs(",
    "openat",
    "mkdirat(",
    "mknodat(",
    "renameat",
    "unlinkat(",
    "linkat(",
    "statat(",
];

/// Sources that may, and why.
const ALLOWED: [(&str, &str); 11] = [
    (
        "crates/clear/metadata/src/store.rs",
        "whether the vault folder itself can be written",
    ),
    (
        "crates/clear/vault/src/create.rs",
        "the vault folder itself, whether it is there, and away again if nothing was made",
    ),
    (
        "crates/clear/vault/src/folder.rs",
        "the vault folder itself, by the user's path: made, listed, named, measured",
    ),
    (
        "crates/clear/vault/src/open.rs",
        "how full the disk of the vault folder is",
    ),
    (
        "crates/clear/vault/src/private_folder.rs",
        "folders of this user for sockets and mounts, outside of every vault",
    ),
    (
        "crates/clear/vault/src/owner/socket.rs",
        "the folder of sockets, which is this user's alone",
    ),
    (
        "crates/clear/vault/src/seen/shelf.rs",
        "this user's records of what was seen, outside of every vault",
    ),
    (
        "crates/clear/vault/src/take_over.rs",
        "tests alone: they play who can write the folder",
    ),
    (
        "crates/clear/vault/src/tuning/cache.rs",
        "this user's cache of measurements",
    ),
    (
        "crates/clear/vault/src/tuning/machine.rs",
        "what the kernel says of the processor",
    ),
    (
        "crates/clear/vault/src/tuning/wishes.rs",
        "this user's wishes for providers",
    ),
];

/// The checkout.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .unwrap()
        .to_path_buf()
}

/// The lines of `source`, its tests apart, that reach something by another way.
fn other_ways(source: &str) -> Vec<&str> {
    let is_other = |line: &&str| {
        // Of the type alone nothing is opened: its functions are in the list.
        let is_type = line.trim() == "use std::fs::File;";
        let is_comment = line.trim_start().starts_with("//");
        !is_type && !is_comment && WAYS.iter().any(|way| line.contains(way))
    };
    source
        .lines()
        .take(lines_without_tests(source))
        .filter(is_other)
        .collect()
}

/// SECURITY.md, claim 8.
#[test]
fn nothing_below_the_vault_folder_is_opened_in_another_way() {
    let mut met = BTreeSet::new();
    let mut seen = 0;
    for folder in CRATES {
        for path in sources(&top().join(folder)).unwrap() {
            seen += 1;
            let name = path
                .strip_prefix(top())
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let source = std::fs::read_to_string(&path).unwrap();
            let found = other_ways(&source);
            if ALLOWED.iter().any(|(allowed, _)| *allowed == name) {
                assert!(!found.is_empty(), "{name} needs no leave any more");
                met.insert(name);
            } else {
                assert!(found.is_empty(), "{name} opens by itself: {found:?}");
            }
        }
    }
    assert!(seen > 100, "{seen} sources");
    assert_eq!(met.len(), ALLOWED.len(), "each of them is there");
}

#[test]
fn other_ways_are_met_and_what_only_looks_like_one_is_not() {
    for line in [
        "use std::fs::{self, File};",
        "let file = File::open(path)?;",
        "    fs::rename(a, b)?;",
        "match fs::read_dir(folder) {",
        "let x = rustix::fs::open(path, flags, mode)?;",
        "rustix::fs::unlinkat(&root, name, flags)?;",
        "if place.symlink_metadata().is_err() {",
        "std::os::unix::fs::OpenOptionsExt;",
    ] {
        assert_eq!(other_ways(line), [line]);
    }
    for line in [
        "use std::fs::File;",
        "// File::open is not used here",
        "let folder = held.folder(name)?;",
        "fs::fdatasync(&self.file)?;",
        "OpenOptions::default()",
    ] {
        assert!(other_ways(line).is_empty(), "{line}");
    }
    let tests = "let a = 1;\n#[cfg(test)]\nmod tests {\n    fs::write(a, b);\n}\n";
    assert!(other_ways(tests).is_empty());
}

//! Runs the README line by line, as a user with an empty home directory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Program, Watched, crate_folder, said, valgrind};

/// One fenced block: what its fence says, and its lines.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            continue;
        };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        found.push((kind, inside.join("\n") + "\n"));
    }
    found
}

fn top() -> PathBuf {
    crate_folder().join("../..").canonicalize().unwrap()
}

/// `make` as the README types it, on the library that is built already.
fn make(home: &Path) {
    let built = std::env::var_os("BUILT").map_or_else(
        || std::env::current_exe().unwrap().parent().unwrap().into(),
        PathBuf::from,
    );
    let script = format!(
        "#!/bin/sh\nset -eu\n[ \"$1\" = bindings ] && shift\nexec env \"$@\" BUILT='{}' '{}/tools/bindings_c.sh' install\n",
        built.display(),
        top().display()
    );
    fs::create_dir(home.join("bin")).unwrap();
    let path = home.join("bin/make");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Goal: each block works as written. Method: sources are written to files of their names, all commands run in one shell.
#[test]
fn every_block_of_the_readme_works() {
    let text = fs::read_to_string(crate_folder().join("README.md")).unwrap();
    let home = tempfile::tempdir().unwrap();
    make(home.path());
    let mut commands = String::from("set -euo pipefail\n");
    let (mut sources, mut shells) = (0, 0);
    for (kind, block) in blocks(&text) {
        match kind.split_once(' ') {
            Some(("c", name)) => {
                fs::write(home.path().join(name), block).unwrap();
                sources += 1;
            }
            _ => {
                assert_eq!(kind, "sh", "a block of another kind is not run");
                commands.push_str(&block);
                shells += 1;
            }
        }
    }
    assert!(sources >= 4 && shells >= 6, "{sources} and {shells} blocks");
    let path = format!(
        "{}:{}",
        home.path().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let output = Command::new("bash")
        .args(["-c", &commands])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("XDG_STATE_HOME", home.path().join("state"))
        .env("PATH", path)
        .env("SOURCE", top())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "recovery code",
        "dear\n",
        "milk, bread, salt\n",
        "milk, bread\n",
    ] {
        assert!(printed.contains(expected), "{expected} in\n{printed}");
    }
}

/// Every call of libsqlfs, on a vault; nothing is left behind, nothing undefined.
#[test]
fn a_program_written_for_libsqlfs_runs_on_a_vault() {
    let place = tempfile::tempdir().unwrap();
    let program = Program::compile(&[Path::new("examples/sqlfs.c")], Watched::Sanitizers);
    let vault = place.path().join("vault");
    let output = Command::new(program.path())
        .arg(&vault)
        .env("HOME", place.path())
        .env("XDG_STATE_HOME", place.path().join("state"))
        .envs(program.environment())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(output.stdout, b"all as with libsqlfs\n");
}

/// Calls `program`, which is `examples/notes.c`, on a vault in `place`, under `before` if that names a program; gives what it printed.
fn notes(program: &Program, before: &[&str], place: &Path, words: &[&str], text: &str) -> String {
    let input = place.join("input");
    fs::write(&input, text).unwrap();
    let mut all: Vec<OsString> = before.iter().map(Into::into).collect();
    all.extend([program.path().into(), place.join("vault").into()]);
    all.extend(words.iter().map(Into::into));
    let output = Command::new(&all[0])
        .args(&all[1..])
        .stdin(fs::File::open(&input).unwrap())
        .env("HOME", place)
        .env("XDG_STATE_HOME", place.join("state"))
        .env("NOTES_PASSPHRASE", "correct horse battery staple")
        .envs(program.environment())
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Each command of the example.
fn keeps_notes(program: &Program, before: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    let call = |words: &[&str], text: &str| notes(program, before, place.path(), words, text);
    call(&["add", "shopping"], "milk\n");
    call(&["keep", "monday"], "");
    // Longer than what it reads at once.
    let long = "salt\n".repeat(2_000);
    call(&["add", "shopping"], &long);
    assert_eq!(call(&["show", "shopping"], ""), long);
    assert_eq!(call(&["show", "shopping", "t:monday"], ""), "milk\n");
    assert_eq!(call(&["list"], ""), " 10000  /notes/shopping.txt\n");
    call(&["remove", "shopping"], "");
    assert_eq!(call(&["list"], ""), "");
}

/// Nothing is left behind, nothing undefined.
#[test]
fn the_larger_example_is_clean_under_the_sanitizers() {
    let program = Program::compile(&[Path::new("examples/notes.c")], Watched::Sanitizers);
    keeps_notes(&program, &[]);
}

/// Minutes: only by `make bindings-test`.
#[test]
#[ignore = "takes minutes"]
fn the_larger_example_is_clean_under_valgrind() {
    let words = valgrind();
    let before: Vec<&str> = words.iter().map(String::as_str).collect();
    let program = Program::compile(&[Path::new("examples/notes.c")], Watched::No);
    keeps_notes(&program, &before);
}

/// What a crate inside exports for programs in C of its own; cargo has no way to take it back.
const OF_OTHERS: &str = "crc_fast_";

/// The symbols that a program gets with the library are those of the header: neither SQLite nor OpenSSL inside may get in the way of its own.
#[test]
fn the_shared_library_exports_its_functions_and_nothing_else() {
    let library = std::env::current_exe().unwrap();
    let library = library.with_file_name("libstrongroom_c.so");
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(&library)
        .output()
        .expect("nm, which comes with the C compiler");
    let listed = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.rsplit(' ').next())
        .collect();
    let others: Vec<_> = names
        .iter()
        .filter(|name| !name.starts_with("sr_") && !name.starts_with(OF_OTHERS))
        .collect();
    assert!(names.len() > 80 && others.is_empty(), "{others:?}");
}

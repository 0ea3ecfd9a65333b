//! The shell examples of the README, run in their order in an empty home.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use support::{MountPoint, Place};

const README: &str = include_str!("../../../../README.md");

/// Lines that this test does not run, and why.
const LEFT_OUT: [(&str, &str); 2] = [
    (
        "make demo",
        "installs packages and builds everything; it is a test of its own",
    ),
    ("make test", "runs this test"),
];

/// The fenced blocks of shell commands.
fn blocks() -> Vec<&'static str> {
    let mut blocks = Vec::new();
    let mut rest = README;
    while let Some((_, after)) = rest.split_once("\n```sh\n") {
        let (block, after) = after.split_once("\n```").expect("a block ends");
        blocks.push(block);
        rest = after;
    }
    blocks
}

/// What a reader has: files of his own, and a passphrase to type. It comes from a file here, through a program of the
/// same name before the real one.
fn make_home(place: &Place) {
    let folders = ["home/Documents/letters", "home/photos", "bin"];
    for folder in folders {
        fs::create_dir_all(place.path(folder)).unwrap();
    }
    fs::write(place.path("home/Documents/letters/one.txt"), "dear reader").unwrap();
    fs::write(place.path("home/photos/1.jpg"), vec![7; 200_000]).unwrap();
    fs::write(place.path("home/notes.txt"), "a note").unwrap();
    fs::write(place.path("passphrase"), "correct horse battery\n").unwrap();
    fs::write(place.path("another"), "another horse battery\n").unwrap();
    let program = format!(
        "#!/bin/sh\ncase \"$1 $2\" in\n\"umount \"*|\"lock \"*) exec {real} \"$@\" ;;\n\"key add\") exec {real} \"$@\" --passphrase-file {file} --new-passphrase-file {another} ;;\n*) exec {real} \"$@\" --passphrase-file {file} ;;\nesac\n",
        real = env!("CARGO_BIN_EXE_strongroom"),
        file = place.path("passphrase").display(),
        another = place.path("another").display(),
    );
    let path = place.path("bin/strongroom");
    fs::write(&path, program).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_shell_examples_of_the_readme_work_in_their_order() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("left out: this machine has no /dev/fuse");
        return;
    }
    let place = Place::empty();
    make_home(&place);
    let left_out = |line: &str| LEFT_OUT.iter().any(|(start, _)| line.starts_with(start));
    let mut lines_run = 0;
    let _mounted = MountPoint {
        place: &place,
        on: "home/private",
    };
    for block in blocks() {
        let lines: Vec<_> = block.lines().filter(|line| !left_out(line)).collect();
        lines_run += lines.len();
        let output = std::process::Command::new("sh")
            .args(["-eux", "-c", &lines.join("\n")])
            .current_dir(place.path("home"))
            .env("HOME", place.path("home"))
            .env(
                "PATH",
                format!(
                    "{}:/usr/sbin:/usr/bin:/sbin:/bin",
                    place.path("bin").display()
                ),
            )
            .env("XDG_RUNTIME_DIR", place.path("run"))
            .env("XDG_STATE_HOME", place.path("state"))
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
    assert!(lines_run >= 10, "{lines_run} lines");
    let home = place.path("home");
    assert!(fs::read(home.join("1.jpg")).unwrap() == fs::read(home.join("photos/1.jpg")).unwrap());
    let secret = ["--passphrase-file", "passphrase"];
    let letter = [
        &["cat", "home/vault:/Documents/letters/one.txt"],
        &secret[..],
    ]
    .concat();
    assert_eq!(place.done(&letter), "dear reader");
}

#[test]
fn what_is_left_out_stands_in_the_readme() {
    for (line, why) in LEFT_OUT {
        assert!(
            blocks().iter().any(|block| block.contains(line)),
            "{line}: {why}"
        );
    }
}

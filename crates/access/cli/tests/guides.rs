//! Runs the shell examples of the README and of every guide in docs/guide in order, each document with a home directory
//! of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use support::{MountPoint, Place};

/// Lines that this test does not run, and why.
const LEFT_OUT: [(&str, &str); 7] = [
    (
        "make demo",
        "installs packages and builds everything; it is a test of its own",
    ),
    ("make build", "builds what this test runs"),
    (
        "sudo make install",
        "writes to the system; tests/install.rs does it in a folder",
    ),
    ("rsync ", "needs another machine; tests/backup.rs does it"),
    (
        "strongroom backup ~/vault ~/vault.backup && restic",
        "needs a repository; tests/backup.rs does it",
    ),
    (
        "strongroom tune",
        "takes half a minute; tests/tune.rs does it",
    ),
    ("strongroom bench", "tests/bench.rs does it"),
];

fn top() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).unwrap().to_path_buf()
}

/// The README and every guide: path from the top, and text.
fn documents() -> Vec<(String, String)> {
    let mut guides: Vec<_> = fs::read_dir(top().join("docs/guide"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| format!("docs/guide/{name}"))
        .collect();
    guides.sort();
    guides.insert(0, "README.md".to_owned());
    let read = |path: String| {
        let text = fs::read_to_string(top().join(&path)).unwrap();
        (path, text)
    };
    guides.into_iter().map(read).collect()
}

/// The fenced blocks of shell commands.
fn blocks(document: &str) -> Vec<&str> {
    let mut blocks = Vec::new();
    let mut rest = document;
    while let Some((_, after)) = rest.split_once("\n```sh\n") {
        let (block, after) = after.split_once("\n```").expect("a block ends");
        blocks.push(block);
        rest = after;
    }
    blocks
}

/// What a reader has: files of his own, and passphrases to type. These come from files here, through a program of the
/// same name before the real one.
fn make_home(place: &Place) {
    for folder in ["home/Documents/letters", "home/photos", "media", "bin"] {
        fs::create_dir_all(place.path(folder)).unwrap();
    }
    fs::write(place.path("home/Documents/letters/one.txt"), "dear reader").unwrap();
    fs::write(place.path("home/photos/1.jpg"), vec![7; 200_000]).unwrap();
    fs::write(place.path("home/notes.txt"), "a note").unwrap();
    fs::write(place.path("passphrase"), "correct horse battery\n").unwrap();
    fs::write(place.path("another"), "another horse battery\n").unwrap();
    let program = format!(
        r#"#!/bin/sh
real={real} secret={secret} another={another}
asks() {{ "$real" "$@" --help | grep -q -e "$option"; }}
option=--new-passphrase-file; asks "$@" && ! echo "$@" | grep -q -e --new- && new=1
option=--passphrase-file; asks "$@" && ! echo "$@" | grep -q -e " --key-file" && set -- "$@" --passphrase-file "$secret"
[ -z "$new" ] || set -- "$@" --new-passphrase-file "$another"
"$real" "$@" || exit
[ "$1 $2" != "key change" ] || cp "$another" "$secret"
"#,
        real = env!("CARGO_BIN_EXE_strongroom"),
        secret = place.path("passphrase").display(),
        another = place.path("another").display(),
    );
    let path = place.path("bin/strongroom");
    fs::write(&path, program).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs `script` with the shell in the home of `place`, and stops at its first command that fails.
fn shell(place: &Place, script: &str) -> Output {
    let path = format!(
        "{}:/usr/sbin:/usr/bin:/sbin:/bin",
        place.path("bin").display()
    );
    let media = place.path("media").display().to_string();
    Command::new("sh")
        .args(["-eux", "-c", &script.replace("/media/stick", &media)])
        .current_dir(place.path("home"))
        .env("HOME", place.path("home"))
        .env("PATH", path)
        .env("XDG_RUNTIME_DIR", place.path("run"))
        .env("XDG_STATE_HOME", place.path("state"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs the blocks of one document in their order in `place`. Gives how many lines were run.
///
/// A document that does not make its vault gets one, with a reader's files in it.
fn run(place: &Place, name: &str, document: &str) -> usize {
    let mounted = MountPoint {
        place,
        on: "home/private",
    };
    let session = Session(place);
    let blocks = blocks(document);
    if !blocks.is_empty() && !document.contains("strongroom init ") {
        let given =
            "strongroom init ~/vault && strongroom put Documents photos notes.txt ~/vault:/";
        let output = shell(place, given);
        assert!(output.status.success(), "{output:?}");
    }
    let left_out = |line: &str| LEFT_OUT.iter().any(|(start, _)| line.starts_with(start));
    let mut lines_run = 0;
    for block in blocks {
        let lines: Vec<_> = block.lines().filter(|line| !left_out(line)).collect();
        lines_run += lines.len();
        let output = shell(place, &lines.join("\n"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
    }
    drop((session, mounted));
    lines_run
}

/// `work` of each item, each on a thread of its own, in the order of the items.
fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let begin = |item| scope.spawn(move || work(item));
        let threads: Vec<_> = items.iter().map(begin).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// Ends the session that a document began and did not end.
struct Session<'a>(&'a Place);

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let _ = self.0.run(&["lock", "home/vault"]);
    }
}

#[test]
fn the_shell_examples_of_the_readme_and_the_guides_work_in_their_order() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("left out: this machine has no /dev/fuse");
        return;
    }
    let documents = documents();
    assert!(documents.len() > 5, "{} documents", documents.len());
    // All homes are made first: no program is written while a thread starts another, which would hold it open for writing.
    let home = |(name, text): (String, String)| {
        let place = Place::empty();
        make_home(&place);
        (place, name, text)
    };
    let homes: Vec<_> = documents.into_iter().map(home).collect();
    let run_one = |(place, name, text): &(Place, String, String)| run(place, name, text);
    // Side by side: each spends most of its time on checking passphrases.
    let lines: Vec<usize> = homes
        .chunks(4)
        .flat_map(|few| side_by_side(few, run_one))
        .collect();
    assert!(lines.iter().sum::<usize>() >= 50, "{lines:?}");
    assert!(lines[0] >= 10, "{} lines of the README", lines[0]);
    let readme = &homes[0].0;
    let letter = ["cat", "home/vault:/Documents/letters/one.txt"];
    let secret = ["--passphrase-file", "passphrase"];
    let letter = readme.done(&[&letter[..], &secret[..]].concat());
    assert_eq!(letter, "dear reader", "what was removed was restored");
}

#[test]
fn what_is_left_out_stands_in_a_document() {
    let documents = documents();
    for (start, why) in LEFT_OUT {
        let mut lines = documents.iter().flat_map(|(_, text)| text.lines());
        assert!(lines.any(|line| line.starts_with(start)), "{start}: {why}");
    }
}

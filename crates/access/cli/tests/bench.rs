//! The command `bench`, as a user runs it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use support::Place;

#[test]
fn a_directory_is_measured_and_left_as_it_was() {
    let place = Place::empty();
    fs::create_dir(place.path("d")).unwrap();
    let text = place.done(&[
        "bench",
        "--quick",
        "--only",
        "write-8k,append",
        "d",
        "--json",
    ]);
    let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
    let names: Vec<_> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["row"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["append", "write-8k"]);
    for row in rows.as_array().unwrap() {
        assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(fs::read_dir(place.path("d")).unwrap().count(), 0);
}

#[test]
fn a_row_or_directory_that_is_none_is_refused_before_anything_runs() {
    let place = Place::empty();
    let message = place.fails(2, &["bench", "--only", "none", "."]);
    assert!(message.contains("write-sequential"), "{message}");
    place.fails(3, &["bench", "--quick", "missing"]);
}

/// Method: the whole of it, which takes longer than anybody looks; a signal as soon as it reports the first round.
#[test]
fn an_interrupted_run_leaves_the_directory_as_it_was_and_says_so() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::empty();
        fs::create_dir(place.path("d")).unwrap();
        fs::write(place.path("d/mine"), "mine").unwrap();
        let mut child = place
            .command(&["bench", "d"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        told.read_line(&mut text).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        told.read_to_string(&mut text).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{text}");
        assert!(
            text.contains("interrupted; ") && text.contains(" is removed"),
            "{text}"
        );
        let left: Vec<_> = fs::read_dir(place.path("d"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["mine"]);
    }
}

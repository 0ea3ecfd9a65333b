//! `bench` from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;

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

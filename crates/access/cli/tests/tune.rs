//! The command `tune`, as a user runs it. The fastest provider differs from run to run, so no test here depends on a time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;
use support::Place;

/// One run for everything that a measurement shows: it takes half a minute.
#[test]
fn a_measurement_is_whole_consistent_drawn_and_remembered() {
    let place = Place::unmeasured();
    let text = place.done(&["tune", "--json", "--chart", "chart.svg"]);
    let found: Value = serde_json::from_str(&text).unwrap();
    let rows = found["rows"].as_array().unwrap();
    every_row_has_one_provider_in_use_and_it_is_the_fastest(rows);
    every_work_is_there(rows);
    let cores = found["machine"]["cores"].as_u64().unwrap();
    let scaling = found["scaling"].as_array().unwrap();
    assert_eq!(scaling.last().unwrap()["threads"], cores);
    assert!(found["sharing"].as_array().unwrap().len() > 5);
    let svg = fs::read_to_string(place.path("chart.svg")).unwrap();
    assert!(svg.contains("<svg") && svg.contains("AES-256-GCM, seal"));
    remembered_is_what_was_shown(&place, &found);
}

fn every_row_has_one_provider_in_use_and_it_is_the_fastest(rows: &[Value]) {
    let mut grouped: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for row in rows {
        let key = ["algorithm", "work", "bytes", "threads"].map(|key| row[key].to_string());
        grouped.entry(key.join(" ")).or_default().push(row);
    }
    for (key, rows) in grouped {
        let median = |row: &Value| row["median"].as_f64().unwrap();
        let chosen: Vec<_> = rows.iter().filter(|row| row["chosen"] == true).collect();
        assert_eq!(chosen.len(), 1, "{key}");
        assert!(chosen[0]["reason"].is_string(), "{key}");
        let decides = !["\"seal\"", "\"open\""]
            .iter()
            .any(|work| key.contains(work));
        if decides && key.ends_with(" 1") {
            let most = rows.iter().map(|row| median(row)).fold(0.0, f64::max);
            assert!(median(chosen[0]) >= most, "{key}");
        }
        for row in rows {
            let ends = (row["low"].as_f64().unwrap(), row["high"].as_f64().unwrap());
            assert!(ends.0 <= median(row) && median(row) <= ends.1, "{row}");
            assert!(row["rounds"].as_u64().unwrap() > 0);
        }
    }
}

fn every_work_is_there(rows: &[Value]) {
    let of = |algorithm: &str, key: &str| -> BTreeSet<String> {
        let mine = rows.iter().filter(|row| row["algorithm"] == algorithm);
        mine.map(|row| row[key].to_string()).collect()
    };
    let set = |values: &[&str]| -> BTreeSet<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    };
    let works = set(&["\"encrypt\"", "\"decrypt\"", "\"seal\"", "\"open\""]);
    for aead in ["AES-256-GCM", "ChaCha20-Poly1305"] {
        assert_eq!(of(aead, "work"), works);
        assert_eq!(of(aead, "bytes"), set(&["4096", "65536", "1048576"]));
        assert!(of(aead, "provider").len() > 1, "{aead}");
    }
    assert_eq!(of("BLAKE3", "work"), set(&["\"hash\""]));
    assert_eq!(of("Ed25519", "work"), set(&["\"sign\"", "\"verify\""]));
    assert_eq!(of("Argon2id", "work"), set(&["\"stretch\""]));
}

/// The next command finds the choice of the table and measures nothing.
fn remembered_is_what_was_shown(place: &Place, found: &Value) {
    let file = place.path("cache/strongroom/providers.json");
    let before = fs::read(&file).unwrap();
    let kept: Value = serde_json::from_slice(&before).unwrap();
    let entry = &kept["measurements"][0];
    assert_eq!(entry["machine"], found["machine"]);
    assert_eq!(entry["threads"], found["threads"]);
    assert_eq!(entry["inline_below_bytes"], found["inline_below_bytes"]);
    for named in entry["providers"].as_array().unwrap() {
        let shown = found["rows"].as_array().unwrap().iter().find(|row| {
            let same = |key| row[key] == named[key];
            // Works with a size of their own are kept for every size.
            let size = same("bytes") || row["bytes"] == 256 || row["bytes"] == 8 << 20;
            same("algorithm")
                && same("work")
                && size
                && row["threads"] == 1
                && row["chosen"] == true
        });
        assert_eq!(shown.unwrap()["provider"], named["provider"], "{named}");
    }
    place.done(&["init", "v", "--key-file", "key"]);
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn the_first_vault_measures_and_the_second_does_not() {
    let place = Place::unmeasured();
    let file = place.path("cache/strongroom/providers.json");
    place.done(&["init", "v", "--key-file", "key"]);
    let first = fs::read(&file).unwrap();
    place.done(&["init", "w", "--key-file", "key2"]);
    assert_eq!(fs::read(&file).unwrap(), first);
}

#[test]
fn a_damaged_or_unwritable_cache_fails_no_command() {
    let place = Place::unmeasured();
    let folder = place.path("cache/strongroom");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("providers.json"), b"{\"version\": 1, ").unwrap();
    let output = place.run(&["init", "v", "--key-file", "key"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("cannot be read; they are measured again"),
        "{told}"
    );
    fs::remove_dir_all(place.path("cache")).unwrap();
    fs::write(place.path("cache"), b"no folder").unwrap();
    place.keyed(&["put", "-q", "key", "v:/"]);
    // It lasts until the next start of the machine instead.
    assert!(place.path("run/strongroom/providers.json").exists());
}

#[test]
fn wishes_are_saved_shown_and_forgotten() {
    let place = Place::unmeasured();
    let text = place.done(&["tune", "--prefer", "argon2id=rustcrypto"]);
    assert_eq!(text, "Argon2id is computed by rustcrypto from now on\n");
    let text = place.done(&[
        "tune",
        "--prefer",
        "AES-256-GCM=ring,BLAKE3=portable",
        "--json",
    ]);
    let found: Value = serde_json::from_str(&text).unwrap();
    let expected = serde_json::json!({
        "AES-256-GCM": "ring", "Argon2id": "rustcrypto", "BLAKE3": "portable"
    });
    assert_eq!(found["preferred"], expected);
    let file = place.path("config/strongroom/providers.conf");
    assert!(
        fs::read_to_string(&file)
            .unwrap()
            .contains("BLAKE3=portable\n")
    );
    place.done(&["tune", "--reset"]);
    assert!(!file.exists());
    assert_eq!(
        place.done(&["tune", "--reset"]),
        "there was nothing to forget\n"
    );
}

#[test]
fn a_wish_that_cannot_be_met_is_refused_with_those_that_can() {
    let place = Place::unmeasured();
    let message = place.fails(2, &["tune", "--prefer", "AES-256-GCM=rign"]);
    assert!(message.contains("it has: ring"), "{message}");
    let message = place.fails(2, &["tune", "--prefer", "AES=ring"]);
    assert!(message.contains("there are: AES-256-GCM"), "{message}");
    place.fails(2, &["tune", "--prefer", ""]);
    assert!(!place.path("config").exists());
}

#[test]
fn a_file_of_wishes_that_cannot_be_understood_is_told_and_does_not_count() {
    let place = Place::unmeasured();
    let folder = place.path("config/strongroom");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("providers.conf"), "AES-256-GCM=none\n").unwrap();
    let output = place.run(&["init", "v", "--key-file", "key"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("are ignored") && told.contains("no provider `none`"),
        "{told}"
    );
}

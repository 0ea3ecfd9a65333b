//! `remote`, `push` and `clone` as a user types them: what they say, how they end, and that no credential is shown.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;

use support::Place;

/// A vault `v` with two files, and an empty folder for its remote; gives the remote's URL.
fn kept() -> (Place, String) {
    let place = Place::new();
    fs::write(place.path("letter"), "dear reader").unwrap();
    fs::write(place.path("picture"), vec![9; 300_000]).unwrap();
    place.keyed(&["put", "letter", "picture", "v:/"]);
    fs::create_dir(place.path("stick")).unwrap();
    let url = format!("folder:{}", place.path("stick").display());
    (place, url)
}

#[test]
fn a_vault_goes_to_a_remote_and_comes_back_from_it() {
    let (place, url) = kept();
    let none = place.keyed_fails(2, &["push", "v"]);
    assert!(none.contains("remote add"), "{none}");
    let added = place.keyed(&["remote", "add", "v", "stick", &url]);
    assert!(added.contains("strongroom push"), "{added}");
    assert!(
        place
            .keyed(&["remote", "list", "v"])
            .contains("nothing pushed yet")
    );
    let early = place.keyed_fails(3, &["clone", &url, "early"]);
    assert!(
        early.contains("no push to this remote has ended"),
        "{early}"
    );
    assert!(!place.path("early").exists());
    let pushed = place.keyed(&["push", "v"]);
    assert!(
        pushed.starts_with("pushed ") && pushed.contains("to stick"),
        "{pushed}"
    );
    assert_eq!(
        place.keyed(&["push", "v", "stick"]),
        "stick has everything already\n"
    );
    let check = place.keyed(&["remote", "check", "--deep", "v"]);
    assert!(
        check.starts_with("sound: ") && check.contains(" compared"),
        "{check}"
    );
    let cloned = place.keyed(&["clone", &url, "copy"]);
    assert!(cloned.contains("the fingerprint is "), "{cloned}");
    assert_eq!(place.keyed(&["cat", "copy:/letter"]), "dear reader");
    place.keyed(&["verify", "--deep", "copy"]);
    assert!(
        place
            .keyed(&["remote", "list", "copy"])
            .starts_with("origin  folder:")
    );
    let exists = place.keyed_fails(9, &["clone", &url, "copy"]);
    assert!(exists.contains("a vault already"), "{exists}");
    let json: serde_json::Value =
        serde_json::from_str(&place.keyed(&["remote", "list", "v", "--json"])).unwrap();
    assert_eq!(json["remotes"][0]["name"], "stick");
    place.keyed(&["remote", "remove", "v", "stick"]);
    place.keyed_fails(3, &["remote", "remove", "v", "stick"]);
}

#[test]
fn what_is_wrong_with_a_remote_is_said_with_a_code_of_its_own() {
    let (place, url) = kept();
    for (url, code, why) in [
        ("stick", 2, "folder:/PATH"),
        ("folder:stick", 2, "whole path"),
        ("folder:/nowhere/at/all", 15, "/nowhere/at/all"),
        (
            "ftp://canary:canary@host/path",
            2,
            "no remote is reached that way",
        ),
        ("s3://canary:canary@bucket/p?acl=1", 2, "unknown option"),
    ] {
        let said = place.keyed_fails(code, &["remote", "add", "v", "other", url]);
        assert!(
            said.contains(why) && !said.contains("canary"),
            "{url}: {said}"
        );
    }
    place.keyed(&["remote", "add", "v", "stick", &url]);
    let twice = place.keyed_fails(9, &["remote", "add", "v", "stick", &url]);
    assert!(twice.contains("already"), "{twice}");
    place.keyed(&["push", "v"]);
    let segment = fs::read_dir(place.path("stick/segments"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    fs::remove_file(segment.path()).unwrap();
    let lost = place.keyed_fails(14, &["remote", "check", "v"]);
    assert!(lost.contains("push to an empty place"), "{lost}");
    let clone = place.keyed_fails(5, &["clone", &url, "copy"]);
    assert!(clone.contains("has lost segments/"), "{clone}");
    fs::rename(place.path("stick"), place.path("away")).unwrap();
    let away = place.keyed_fails(15, &["push", "v"]);
    assert!(away.contains("cannot be reached"), "{away}");
    // A store that nobody listens at.
    let nobody = "s3://canary-key:canary-secret@bucket/path?endpoint=http://127.0.0.1:9&region=r";
    let refused = place.keyed_fails(15, &["-vv", "remote", "add", "v", "cloud", nobody]);
    assert!(!refused.contains("canary"), "{refused}");
}

//! `hash`, `find --hash` and `find --duplicates`, as a user types them.
//!
//! Tests that mount need /dev/fuse; without it they report that and skip.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::Path;

use support::{MountPoint, Place};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// A vault with a folder, two equal files, a hard link's worth of names and one snapshot.
fn filled() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("tree/sub")).unwrap();
    fs::write(place.path("tree/one"), "one").unwrap();
    fs::write(place.path("tree/sub/same"), "one").unwrap();
    fs::hard_link(place.path("tree/one"), place.path("tree/link")).unwrap();
    fs::write(place.path("tree/sub/odd\\name\n"), "odd").unwrap();
    fs::write(place.path("tree/empty"), "").unwrap();
    place.keyed(&["put", "tree", "v:/tree"]);
    place
}

fn blake3(content: &str) -> String {
    blake3::hash(content.as_bytes()).to_hex().to_string()
}

#[test]
fn hashes_are_printed_as_b3sum_and_sha256sum_print_them() {
    let place = filled();
    let one = place.keyed(&["hash", "v:/tree/one"]);
    assert_eq!(one, format!("{}  tree/one\n", blake3("one")));
    let sha = place.keyed(&["hash", "--sha256", "v:/tree/empty", "v:/tree/one"]);
    let lines: Vec<&str> = sha.lines().collect();
    assert_eq!(
        lines[0],
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  tree/empty"
    );
    assert_eq!(
        lines[1],
        "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed  tree/one"
    );
    let all = place.keyed(&["hash", "-r", "v:/tree"]);
    let expected = [
        format!("{}  tree/empty", blake3("")),
        format!("{}  tree/link", blake3("one")),
        format!("{}  tree/one", blake3("one")),
        format!("\\{}  tree/sub/odd\\\\name\\n", blake3("odd")),
        format!("{}  tree/sub/same", blake3("one")),
    ];
    assert_eq!(all.lines().collect::<Vec<_>>(), expected);
    let found = json(&place.keyed(&["hash", "-r", "--json", "v"]));
    assert_eq!(found.as_array().unwrap().len(), 5);
    assert_eq!(found[2]["path"], "/tree/one");
    assert_eq!(found[2]["hash"], blake3("one"));
    assert_eq!(
        (&found[2]["algorithm"], &found[2]["size"]),
        (&"BLAKE3".into(), &3.into())
    );
}

#[test]
fn what_sha256sum_checks_it_finds_in_order() {
    let place = filled();
    let list = place.keyed_bytes(&["hash", "-r", "--sha256", "v:/tree"]);
    fs::write(place.path("list"), list).unwrap();
    let checked = std::process::Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "list"])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn what_cannot_be_hashed_is_told_and_the_rest_is_hashed() {
    let place = filled();
    let output = place.run_keyed(&["hash", "v:/none", "v:/tree", "v:/tree/one"]);
    assert_eq!(output.status.code(), Some(3), "that of the first failure");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("/none: no such file") && errors.contains("/tree: is a directory; add -r"),
        "{errors}"
    );
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(shown, format!("{}  tree/one\n", blake3("one")));
}

#[test]
fn a_kept_state_is_hashed_and_searched_as_it_was() {
    let place = filled();
    place.keyed(&["snapshot", "create", "v", "--tag", "then"]);
    place.keyed(&["rm", "-r", "v:/tree/sub"]);
    fs::write(place.path("new"), "new").unwrap();
    place.keyed(&["put", "new", "v:/tree/one"]);
    let then = place.keyed(&["hash", "--at", "t:then", "v:/tree/one"]);
    assert_eq!(then, format!("{}  tree/one\n", blake3("one")));
    let now = place.keyed(&["hash", "v:/tree/one"]);
    assert_eq!(now, format!("{}  tree/one\n", blake3("new")));
    let odd = &blake3("odd")[..8];
    place.keyed_fails(3, &["find", "v", "--hash", odd]);
    let found = place.keyed(&["find", "v", "--hash", odd, "--at", "t:then"]);
    assert_eq!(found, "/tree/sub/odd\\name\n\n");
    let all = place.keyed(&["hash", "-r", "--at", "t:then", "v:/tree/sub"]);
    assert_eq!(all.lines().count(), 2);
    place.keyed_fails(3, &["hash", "--at", "t:never", "v:/tree/one"]);
}

#[test]
fn every_path_of_a_content_is_found_by_a_few_digits_of_either_hash() {
    let place = filled();
    let hash = blake3("one");
    for digits in [&hash[..8], &hash.to_uppercase()[..20], &hash[..]] {
        let found = place.keyed(&["find", "v", "--hash", digits]);
        assert_eq!(found, "/tree/link\n/tree/one\n/tree/sub/same\n");
    }
    let below = place.keyed(&["find", "v:/tree/sub", "--hash", &hash]);
    assert_eq!(below, "/tree/sub/same\n");
    let found = json(&place.keyed(&["find", "v", "--hash", &hash, "--json"]));
    assert_eq!(found.as_array().unwrap().len(), 3);
    assert_eq!(found[0]["hash"], hash);
    // SHA-256 counts once it is known.
    let sha = "7692c3ad3540bb80";
    let unknown = place.keyed_fails(3, &["find", "v", "--hash", sha]);
    assert!(unknown.contains("--sha256"), "{unknown}");
    place.keyed(&["hash", "--sha256", "v:/tree/one"]);
    let found = place.keyed(&["find", "v", "--hash", sha]);
    assert_eq!(found, "/tree/link\n/tree/one\n");
    let found = place.keyed(&["find", "v", "--sha256", "--hash", sha]);
    assert_eq!(found.lines().count(), 3);
    place.keyed_fails(3, &["find", "v", "--hash", "00000000"]);
    place.keyed_fails(3, &["find", "v:/none", "--hash", &hash]);
}

/// Two short texts whose BLAKE3 hashes begin with the same four digits.
fn ambiguous() -> (String, String, String) {
    let mut seen = std::collections::HashMap::new();
    for number in 0_u32.. {
        let text = number.to_string();
        let digits = blake3(&text)[..4].to_owned();
        if let Some(other) = seen.insert(digits.clone(), text.clone()) {
            return (digits, other, text);
        }
    }
    unreachable!("there are only 65,536 of them")
}

#[test]
fn digits_that_fit_several_contents_are_refused_with_the_contents() {
    let place = Place::new();
    let (digits, one, other) = ambiguous();
    fs::write(place.path("one"), &one).unwrap();
    fs::write(place.path("other"), &other).unwrap();
    place.keyed(&["put", "one", "other", "v:/"]);
    let told = place.keyed_fails(3, &["find", "v", "--hash", &digits]);
    for (text, path) in [(&one, "/one"), (&other, "/other")] {
        let line = format!("{}  {path}", blake3(text));
        assert!(told.contains(&line), "{told}");
    }
    assert!(told.contains("give more digits"), "{told}");
    let found = place.keyed(&["find", "v", "--hash", &blake3(&one)]);
    assert_eq!(found, "/one\n");
    for (wrong, why) in [
        ("abc", "at least 4"),
        ("xyzw", "digits 0 to 9 and a to f"),
        (&"0".repeat(65), "64 digits"),
    ] {
        let told = place.keyed_fails(2, &["find", "v", "--hash", wrong]);
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn duplicates_are_grouped_and_hard_links_are_one_file() {
    let place = filled();
    let shown = place.keyed(&["find", "v", "--duplicates"]);
    assert_eq!(
        shown,
        "2 files of 3 B, already stored only once\n  /tree/link\n  /tree/one  (the same file)\n  /tree/sub/same\n\
         groups of files with the same content: 1; 0 B could be saved\n"
    );
    let found = json(&place.keyed(&["find", "v", "--duplicates", "--json"]));
    assert_eq!(found[0]["hash"], blake3("one"));
    assert_eq!(found[0]["stored_once"], true);
    assert_eq!(found[0]["files"][0]["paths"].as_array().unwrap().len(), 2);
    let none = json(&place.keyed(&["find", "v", "--duplicates", "--min-size", "4", "--json"]));
    assert_eq!(none.as_array().unwrap().len(), 0);
    place.keyed_fails(2, &["find", "v", "--duplicates", "--hash", "abcd"]);
}

#[test]
fn a_mounted_vault_is_asked_through_its_mount_and_sees_what_the_mount_wrote() {
    let place = filled();
    if !Path::new("/dev/fuse").exists() {
        eprintln!("left out: this machine has no /dev/fuse");
        return;
    }
    fs::create_dir(place.path("m")).unwrap();
    place.keyed(&["mount", "v", "m"]);
    let mounted = MountPoint::new(&place);
    let hash = |path: &str| place.done(&["hash", path]);
    assert_eq!(
        hash("v:/tree/one"),
        format!("{}  tree/one\n", blake3("one"))
    );
    fs::write(place.path("m/tree/one"), "written through the mount").unwrap();
    let expected = blake3("written through the mount");
    assert_eq!(hash("v:/tree/one"), format!("{expected}  tree/one\n"));
    let found = place.done(&["find", "v", "--hash", &expected]);
    assert_eq!(found, "/tree/link\n/tree/one\n");
    drop(mounted);
}

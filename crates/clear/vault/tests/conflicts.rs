//! Conflict copies: which ones are listed, what remains after a choice, and which choices are refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use strongroom::{Error, Keep, Links, Vault, filesystem};
use strongroom_history::labelled;

use support::Place;

const LABEL: &str = "conflict, 5f2c9a01, 2026-11-23 14.03";

/// The conflict name of `name`.
fn conflict_of(name: &str) -> String {
    let name = labelled(name.as_bytes(), format!(" ({LABEL})").as_bytes());
    String::from_utf8(name).unwrap()
}

/// Writes what was published as `/folder/NAME` and the copy beside it; gives the path of the copy.
fn write_both(vault: &Vault, name: &str) -> String {
    vault.create_dir_all("/folder", 0o755).unwrap();
    vault.write(format!("/folder/{name}"), "published").unwrap();
    let copy = format!("/folder/{}", conflict_of(name));
    vault.write(&copy, "mine").unwrap();
    copy
}

fn names(vault: &Vault) -> Vec<String> {
    let walk = vault.walk("/folder").unwrap();
    let path = |entry: strongroom::WalkEntry| String::from_utf8(entry.path).unwrap();
    walk.map(|entry| path(entry.unwrap())).collect()
}

#[test]
fn every_copy_is_listed_with_what_it_lies_beside_and_nothing_else_is() {
    let (_place, vault) = Place::new();
    let long = "x".repeat(255);
    let mut copies: Vec<String> = ["letter.txt", "README", "ä.tar.gz", &long]
        .into_iter()
        .map(|name| write_both(&vault, name))
        .collect();
    copies.sort();
    // What a person may have written.
    for name in [
        "a (conflict).txt",
        "a (conflict, 5f2c9a01).txt",
        "a.txt (conflict, 5f2c9a01, 2026-11-23 14.03)",
    ] {
        vault.write(format!("/{name}"), "").unwrap();
    }
    let alone = format!("/{}", conflict_of("gone"));
    vault.write(&alone, "the only content").unwrap();
    let found = vault.conflicts(&mut |_| {}).unwrap();
    let paths: Vec<&[u8]> = found.iter().map(|one| &one.path[..]).collect();
    let mut expected: Vec<&[u8]> = copies.iter().map(String::as_bytes).collect();
    expected.push(alone.as_bytes());
    assert_eq!(paths, expected);
    for one in &found {
        assert_eq!(
            (&one.device[..], &one.time[..]),
            ("5f2c9a01", "2026-11-23 14.03")
        );
        let beside = vault.attributes(&one.beside, Links::Stay).ok();
        assert_eq!(one.published, beside);
        assert_eq!(one.published.is_none(), one.path == alone.as_bytes());
    }
    assert!(
        found
            .iter()
            .any(|one| one.beside.ends_with(long.as_bytes()))
    );
}

#[test]
fn a_choice_leaves_what_was_chosen_under_the_published_name_or_both() {
    for name in ["letter.txt", &"x".repeat(255)] {
        let published = format!("/folder/{name}");
        for (keep, content) in [(Keep::Mine, "mine"), (Keep::Theirs, "published")] {
            let (_place, vault) = Place::new();
            let copy = write_both(&vault, name);
            assert_eq!(
                vault.settle_conflict(&copy, keep).unwrap(),
                published.as_bytes()
            );
            assert_eq!(names(&vault), std::slice::from_ref(&published), "{keep:?}");
            assert_eq!(vault.read_to_string(&published).unwrap(), content);
            assert!(vault.conflicts(&mut |_| {}).unwrap().is_empty());
        }
    }
    let (_place, vault) = Place::new();
    let mut kept = Vec::new();
    for _ in 0..3 {
        let copy = write_both(&vault, "letter.txt");
        kept.push(vault.settle_conflict(&copy, Keep::Both).unwrap());
    }
    let named = [
        "/folder/letter (copy).txt",
        "/folder/letter (copy 2).txt",
        "/folder/letter (copy 3).txt",
    ];
    assert_eq!(kept, named.map(|name| name.as_bytes().to_vec()));
    assert_eq!(names(&vault).len(), 4);
    assert_eq!(vault.read_to_string(named[2]).unwrap(), "mine");
    assert!(vault.conflicts(&mut |_| {}).unwrap().is_empty());
}

#[test]
fn what_cannot_be_chosen_is_refused_and_left_as_it_is() {
    let (_place, vault) = Place::new();
    let copy = write_both(&vault, "letter.txt");
    for keep in [Keep::Mine, Keep::Theirs, Keep::Both] {
        let refused = vault.settle_conflict("/folder/letter.txt", keep);
        assert!(matches!(refused, Err(Error::NoConflict)), "{refused:?}");
        let missing = vault.settle_conflict(format!("/{}", conflict_of("none")), keep);
        assert!(
            matches!(missing, Err(Error::File(filesystem::Error::NotFound))),
            "{missing:?}"
        );
    }
    vault.remove_file("/folder/letter.txt").unwrap();
    for keep in [Keep::Mine, Keep::Theirs, Keep::Both] {
        let refused = vault.settle_conflict(&copy, keep);
        assert!(matches!(refused, Err(Error::ConflictAlone)), "{refused:?}");
    }
    vault.make_directory("/folder/letter.txt", 0o755).unwrap();
    for keep in [Keep::Mine, Keep::Theirs] {
        let refused = vault.settle_conflict(&copy, keep);
        assert!(
            matches!(refused, Err(Error::ConflictOfDirectories)),
            "{refused:?}"
        );
    }
    assert_eq!(vault.read_to_string(&copy).unwrap(), "mine");
    vault.settle_conflict(&copy, Keep::Both).unwrap();
    assert_eq!(
        vault.read_to_string("/folder/letter (copy).txt").unwrap(),
        "mine"
    );
}

/// Goal: a choice between two files with a long name leaves what was chosen, whichever is listed first, and nothing goes where the
/// copies are all that is left. Method: the copies, one with a number, are written before the file that they were made of.
/// Failed before: a copy was taken for what it was made of itself, and `Keep::Mine` removed it.
#[test]
fn a_copy_with_a_long_name_is_never_taken_for_what_it_was_made_of() {
    let long = "x".repeat(255);
    let numbered = labelled(long.as_bytes(), format!(" ({LABEL} 2)").as_bytes());
    let numbered = format!("/folder/{}", String::from_utf8(numbered).unwrap());
    let copy = format!("/folder/{}", conflict_of(&long));
    let published = format!("/folder/{long}");
    for (keep, content) in [(Keep::Mine, "mine"), (Keep::Theirs, "published")] {
        for chosen in [&copy, &numbered] {
            let (_place, vault) = Place::new();
            vault.make_directory("/folder", 0o755).unwrap();
            for copy in [&copy, &numbered] {
                vault.write(copy, "mine").unwrap();
            }
            for keep in [Keep::Mine, Keep::Theirs, Keep::Both] {
                let refused = vault.settle_conflict(chosen, keep);
                assert!(matches!(refused, Err(Error::ConflictAlone)), "{refused:?}");
            }
            vault.write(&published, "published").unwrap();
            let kept = vault.settle_conflict(chosen, keep).unwrap();
            assert_eq!(kept, published.as_bytes());
            assert_eq!(vault.read_to_string(&published).unwrap(), content);
            assert_eq!(names(&vault).len(), 2, "{keep:?}");
        }
    }
}

/// Goal: a rename of one name of a file over another is none; the copy has to go all the same.
#[test]
fn a_copy_that_is_the_published_file_itself_goes() {
    for keep in [Keep::Mine, Keep::Theirs] {
        let (_place, vault) = Place::new();
        let copy = write_both(&vault, "letter.txt");
        vault.remove_file(&copy).unwrap();
        vault.link("/folder/letter.txt", &copy).unwrap();
        vault.settle_conflict(&copy, keep).unwrap();
        assert_eq!(names(&vault), ["/folder/letter.txt"]);
        assert_eq!(
            vault.read_to_string("/folder/letter.txt").unwrap(),
            "published"
        );
    }
}

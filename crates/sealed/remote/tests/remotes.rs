//! The behaviour of every remote, checked for three kinds: a folder, a store of the crate `object_store` (in memory), and an S3 server, if
//! `tools/server_test.py` has started one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod contract;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contract::name;
use strongroom_remote::{Address, Created, Error, Limited, Pace, Rates, Remote, memory};
use url::Url;

fn folder(place: &tempfile::TempDir) -> Arc<dyn Remote> {
    let address = Address::parse(&format!("folder:{}", place.path().display())).unwrap();
    address.open().unwrap()
}

/// An empty place at the S3 server that the environment names; `None`, and a word, if it names none.
fn s3() -> Option<Arc<dyn Remote>> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Ok(url) = std::env::var("STRONGROOM_TEST_S3") else {
        let required = std::env::var_os("STRONGROOM_TEST_SCALED");
        assert!(required.is_none(), "STRONGROOM_TEST_S3 is not set");
        eprintln!("skipped: an S3 server; tools/server_test.py starts one");
        return None;
    };
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut url = Url::parse(&url).unwrap();
    url.set_path(&format!("/remote-{}-{number}", std::process::id()));
    Some(Address::parse(url.as_str()).unwrap().open().unwrap())
}

/// Goal: a store that checks who asks refuses a wrong secret and a name that it does not know, and the error says so. Method: an S3 server that
/// checks signatures, if `tools/server_test.py` has started one.
#[test]
fn a_store_that_checks_credentials_refuses_wrong_ones() {
    let Ok(url) = std::env::var("STRONGROOM_TEST_OBJECTS") else {
        let required = std::env::var_os("STRONGROOM_TEST_SCALED");
        assert!(required.is_none(), "STRONGROOM_TEST_OBJECTS is not set");
        eprintln!("skipped: an S3 server; tools/server_test.py starts one");
        return;
    };
    let mut right = Url::parse(&url).unwrap();
    right.set_path("/credentials");
    let open = |url: &Url| Address::parse(url.as_str()).unwrap().open().unwrap();
    assert!(!open(&right).has(&name("segments/1")).unwrap());
    let (mut secret, mut user) = (right.clone(), right.clone());
    secret.set_password(Some("canary")).unwrap();
    user.set_username("canary").unwrap();
    for wrong in [secret, user] {
        let remote = open(&wrong);
        for error in [
            remote.read(&name("segments/1"), 9).unwrap_err(),
            remote.list("segments").unwrap_err(),
            remote
                .create(&name("segments/1"), b"one".to_vec())
                .unwrap_err(),
        ] {
            let said = error.to_string();
            assert!(matches!(error, Error::Refused(_)), "{said}");
            assert!(!said.contains("canary"), "{said}");
        }
    }
    assert!(open(&right).list("segments").unwrap().is_empty());
}

/// Runs `check` with an empty remote of each kind.
fn each(check: impl Fn(&dyn Remote)) {
    let place = tempfile::tempdir().unwrap();
    check(&*folder(&place));
    check(&*memory().unwrap());
    if let Some(remote) = s3() {
        check(&*remote);
    }
    // So fast that nobody waits.
    let rates = Rates {
        up: Some(1 << 40),
        down: Some(1 << 40),
    };
    check(&Limited::new(memory().unwrap(), Pace::new(rates)));
}

#[test]
fn an_object_is_created_once_and_read_whole_or_in_part() {
    each(contract::objects_are_created_once);
}

#[test]
fn a_listing_has_names_and_lengths_of_one_kind_and_a_removed_object_is_gone() {
    each(contract::objects_are_listed_and_removed);
}

#[test]
fn of_several_that_create_one_object_one_does_and_the_probe_says_so_and_leaves_nothing() {
    each(contract::one_creator_wins);
}

/// Goal: whoever can write the folder cannot make a device read or write anything outside of it, or wait.
/// SECURITY.md, claim 21.
#[test]
fn what_is_odd_in_a_folder_is_named_and_neither_read_nor_followed() {
    use std::os::unix::fs::symlink;
    let place = tempfile::tempdir().unwrap();
    let remote = folder(&place);
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("file"), b"canary").unwrap();
    std::fs::create_dir(place.path().join("segments")).unwrap();
    let segments = place.path().join("segments");
    symlink(outside.path().join("file"), segments.join("link")).unwrap();
    std::fs::hard_link(outside.path().join("file"), segments.join("hard")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        segments.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    symlink(outside.path(), place.path().join("headers")).unwrap();
    for odd in [
        "segments/link",
        "segments/hard",
        "segments/pipe",
        "headers/file",
    ] {
        let error = remote.read(&name(odd), 100).unwrap_err().to_string();
        assert!(
            error.contains(odd.split('/').next().unwrap()),
            "{odd}: {error}"
        );
        assert!(remote.read_range(&name(odd), 0..3).is_err());
        assert!(remote.create(&name(odd), b"new".to_vec()).is_err());
    }
    assert!(remote.list("segments").unwrap().is_empty());
    assert!(remote.list("headers").is_err());
    assert!(
        remote
            .create(&name("headers/new"), b"new".to_vec())
            .is_err()
    );
    assert!(!outside.path().join("new").exists());
    assert_eq!(
        std::fs::read(outside.path().join("file")).unwrap(),
        b"canary"
    );
}

#[test]
fn what_was_being_written_when_the_power_failed_is_no_object() {
    let place = tempfile::tempdir().unwrap();
    let remote = folder(&place);
    remote.create(&name("segments/1"), b"one".to_vec()).unwrap();
    let left = format!(".new-{}", "0".repeat(32));
    std::fs::write(place.path().join("segments").join(left), b"half").unwrap();
    assert_eq!(remote.list("segments").unwrap().len(), 1);
}

/// Goal: an object whose creation was cut off between its two names, on a file system where it takes both, can be read, listed and created
/// again. Method: a hard link to it under a temporary name, made once before each call. Failed before: it was refused for ever.
#[test]
fn an_object_that_a_cut_left_with_two_names_is_an_object() {
    let place = tempfile::tempdir().unwrap();
    let remote = folder(&place);
    let one = name("segments/1");
    remote.create(&one, b"one".to_vec()).unwrap();
    let segments = place.path().join("segments");
    let second = segments.join(format!(".new-{}", "0".repeat(32)));
    let cut = || std::fs::hard_link(segments.join("1"), &second).unwrap();
    cut();
    assert_eq!(remote.read(&one, 3).unwrap().unwrap(), b"one");
    cut();
    assert_eq!(remote.read_range(&one, 1..2).unwrap().unwrap(), b"n");
    cut();
    assert_eq!(remote.list("segments").unwrap().len(), 1);
    cut();
    let created = remote.create(&one, b"one".to_vec()).unwrap();
    assert_eq!(created, Created::AlreadyThere);
    cut();
    remote.remove_unfinished("segments", u64::MAX).unwrap();
    assert!(!second.exists());
}

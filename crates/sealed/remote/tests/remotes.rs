//! What every remote does, for each kind of them: a folder, and a store of the crate `object_store` (in memory).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use strongroom_remote::{
    Address, CreateOnly, Created, Error, Limited, ObjectName, Pace, Rates, Remote, memory, probe,
};

fn name(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

fn folder(place: &tempfile::TempDir) -> Arc<dyn Remote> {
    let address = Address::parse(&format!("folder:{}", place.path().display())).unwrap();
    address.open().unwrap()
}

/// Runs `check` with an empty remote of each kind.
fn each(check: impl Fn(&dyn Remote)) {
    let place = tempfile::tempdir().unwrap();
    check(&*folder(&place));
    check(&*memory().unwrap());
    // So fast that nobody waits.
    let rates = Rates {
        up: Some(1 << 40),
        down: Some(1 << 40),
    };
    check(&Limited::new(memory().unwrap(), Pace::new(rates)));
}

#[test]
fn an_object_is_created_once_and_read_whole_or_in_part() {
    each(|remote| {
        let one = name("segments/00");
        assert_eq!(remote.read(&one, 9).unwrap(), None);
        assert_eq!(remote.read_range(&one, 0..9).unwrap(), None);
        assert!(!remote.has(&one).unwrap());
        assert_eq!(
            remote.create(&one, b"0123456789".to_vec()).unwrap(),
            Created::New
        );
        assert_eq!(
            remote.create(&one, b"other".to_vec()).unwrap(),
            Created::AlreadyThere
        );
        assert!(remote.has(&one).unwrap());
        assert_eq!(remote.read(&one, 10).unwrap().unwrap(), b"0123456789");
        assert!(matches!(
            remote.read(&one, 9),
            Err(Error::TooLong { max: 9, .. })
        ));
        assert_eq!(remote.read_range(&one, 3..6).unwrap().unwrap(), b"345");
        assert_eq!(remote.read_range(&one, 8..60).unwrap().unwrap(), b"89");
        assert_eq!(
            remote.create(&name("a.json"), b"".to_vec()).unwrap(),
            Created::New
        );
        assert_eq!(remote.read(&name("a.json"), 0).unwrap().unwrap(), b"");
    });
}

#[test]
fn a_listing_has_names_and_lengths_of_one_kind_and_a_removed_object_is_gone() {
    each(|remote| {
        assert!(remote.list("segments").unwrap().is_empty());
        for number in 0..20 {
            remote
                .create(&name(&format!("segments/{number}")), vec![1; number])
                .unwrap();
        }
        remote.create(&name("segment"), b"beside".to_vec()).unwrap();
        remote.create(&name("headers/1-a"), b"x".to_vec()).unwrap();
        let mut listed = remote.list("segments").unwrap();
        listed.sort_by_key(|object| object.len);
        assert_eq!(listed.len(), 20);
        for (len, object) in listed.iter().enumerate() {
            assert_eq!((object.len, &object.name), (len as u64, &len.to_string()));
        }
        remote.remove(&name("segments/7")).unwrap();
        remote.remove(&name("segments/7")).unwrap();
        remote.remove(&name("nothing/7")).unwrap();
        assert_eq!(remote.list("segments").unwrap().len(), 19);
        assert_eq!(
            remote
                .create(&name("segments/7"), b"again".to_vec())
                .unwrap(),
            Created::New
        );
    });
}

#[test]
fn of_several_that_create_one_object_one_does_and_the_probe_says_so_and_leaves_nothing() {
    each(|remote| {
        assert_eq!(probe(remote).unwrap(), CreateOnly::Holds);
        assert!(remote.list("probes").unwrap().is_empty());
    });
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

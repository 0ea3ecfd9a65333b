//! The behaviour of every remote: checks that are run on an empty one of each kind, here and in the tests of the server.

use strongroom_remote::{Buffers, CreateOnly, Created, Error, ObjectName, Remote, probe};

/// A name of an object.
pub(crate) fn name(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

pub(crate) fn objects_are_created_once(remote: &dyn Remote) {
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
    let buffers = Buffers::default();
    let created = |of: &str, bytes: &[u8]| {
        let mut buffer = buffers.take();
        buffer.bytes_mut().extend_from_slice(bytes);
        let created = remote.create_from(&name(of), buffer).unwrap();
        (created, remote.read(&name(of), 9).unwrap().unwrap())
    };
    // What is in a buffer later does not change what was created from it.
    let new = |bytes: &[u8]| (Created::New, bytes.to_vec());
    assert_eq!(created("segments/01", b"longer"), new(b"longer"));
    assert_eq!(created("segments/02", b"short"), new(b"short"));
    let there = (Created::AlreadyThere, b"longer".to_vec());
    assert_eq!(created("segments/01", b"other"), there);
}

pub(crate) fn objects_are_listed_and_removed(remote: &dyn Remote) {
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
    // In the order of bytes, as names of publications are in that of their numbers.
    let behind = |after| {
        let listed = remote.list_behind("segments", after).unwrap();
        let mut names: Vec<_> = listed.into_iter().map(|one| one.name).collect();
        names.sort_unstable();
        names
    };
    let names = ["18", "19", "2", "3", "4", "5", "6", "7", "8", "9"];
    assert_eq!(behind("17"), names);
    // One that is not there, the last, and one behind that.
    assert_eq!(behind("7x"), ["8", "9"]);
    for last in ["9", "99"] {
        assert_eq!(behind(last), [""; 0]);
    }
    assert!(remote.list_behind("nothing", "7").unwrap().is_empty());
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
}

pub(crate) fn one_creator_wins(remote: &dyn Remote) {
    assert_eq!(probe(remote).unwrap(), CreateOnly::Holds);
    assert!(remote.list("probes").unwrap().is_empty());
}

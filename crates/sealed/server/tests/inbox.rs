//! The inbox of a vault at a server: who has an address deposits, and nobody but the owner of the vault has anything of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::Write;

use strongroom_remote::{Address, Created, Error, InboxDoor, ObjectName, Remote};
use strongroom_server::Quota;
use support::{Answer, Place, accounts, answer, ask, said, send};

const ENVELOPE: &str = "00112233445566778899aabbccddeeff";

fn token() -> String {
    format!("sra-{}", "7".repeat(64))
}

fn object(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

/// The object of the address that has this token.
fn address_of(token: &str) -> ObjectName {
    let hash = blake3::hash(token.as_bytes()).to_hex();
    object(&format!("addresses/{hash}"))
}

/// A server where the vault `v` of `anna` has an address, and its door.
fn place_with(quota: Quota) -> (Place, InboxDoor) {
    let place = Place::with(quota);
    let created = place
        .vault("v")
        .create(&address_of(&token()), b"document".to_vec());
    assert_eq!(created.unwrap(), Created::New);
    let url = format!("http://{}@{}/anna/v", token(), place.address());
    let door = Address::parse(&url).unwrap().open_inbox().unwrap();
    (place, door)
}

fn put(place: &Place, name: &str, body: &[u8]) -> Answer {
    let head = format!("authorization: Bearer {}\r\n{}", token(), said(body));
    let path = format!("/v1/vaults/anna/v/inbox/{name}");
    ask(place.address(), "PUT", &path, &head, body)
}

fn names(remote: &dyn Remote, kind: &str) -> Vec<String> {
    let listed = remote.list(kind).unwrap().into_iter();
    let mut names: Vec<_> = listed.map(|one| one.name).collect();
    names.sort();
    names
}

/// Goal: the door takes what is deposited, once, and gives nothing. Method: the requests that a client makes, each twice.
/// SECURITY.md, claim 27.
#[test]
fn what_is_deposited_is_there_once_and_for_the_owner_alone() {
    let (place, door) = place_with(Quota::default());
    assert_eq!(door.document().unwrap(), b"document");
    let pieces = [0, 1].map(|number| format!("{ENVELOPE}.{}.{number:04}", "a".repeat(16)));
    for piece in &pieces {
        assert_eq!(door.create(piece, b"piece".to_vec()).unwrap(), Created::New);
        let again = door.create(piece, b"other".to_vec());
        assert_eq!(again.unwrap(), Created::AlreadyThere);
    }
    let created = door.create(ENVELOPE, b"envelope".to_vec());
    assert_eq!(created.unwrap(), Created::New);
    let again = door.create(ENVELOPE, b"another".to_vec());
    assert_eq!(again.unwrap(), Created::AlreadyThere);
    // It is complete: no run of the same deposit goes on.
    let late = format!("{ENVELOPE}.{}.0002", "b".repeat(16));
    let refused = door.create(&late, b"late".to_vec());
    assert_eq!(refused.unwrap(), Created::AlreadyThere);

    let owner = place.vault("v");
    assert_eq!(names(&*owner, "deposits"), [ENVELOPE]);
    assert_eq!(names(&*owner, "pieces"), pieces);
    let read = owner.read(&object(&format!("deposits/{ENVELOPE}")), 100);
    assert_eq!(read.unwrap().unwrap(), b"envelope");
    // What it is good for at any other request is in isolation.rs: nothing.
    let at = place.address();
    let head = format!("authorization: Bearer {}\r\n", token());
    for path in [
        format!("/v1/vaults/anna/v/inbox/{ENVELOPE}"),
        "/v1/vaults/anna/v/inbox/".to_owned(),
    ] {
        let answer = ask(at, "GET", &path, &head, b"");
        assert!(matches!(answer.status, 404 | 405), "{path}: {answer:?}");
    }
}

/// Goal: an address that is withdrawn is of no use from then on, also for what is on its way. Method: half of a piece comes, then the address
/// goes, then the rest comes.
/// SECURITY.md, claim 27.
#[test]
fn what_comes_while_its_address_is_withdrawn_is_not_created() {
    let (place, door) = place_with(Quota::default());
    let body = vec![7; 100_000];
    let head = format!("authorization: Bearer {}\r\n{}", token(), said(&body));
    let path = format!("/v1/vaults/anna/v/inbox/{ENVELOPE}");
    let mut line = send(
        place.address(),
        "PUT",
        &path,
        head.as_bytes(),
        &body[..50_000],
    );
    place.vault("v").remove(&address_of(&token())).unwrap();
    line.write_all(&body[50_000..]).unwrap();
    let refused = answer(line);
    assert_eq!(refused.code(), "no-address", "{refused:?}");
    let error = door.document().unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("withdrawn"), "{error}");
    assert_eq!(names(&*place.vault("v"), "deposits"), [""; 0]);
    assert_eq!(place.files("moving"), 0);
    assert_eq!(place.files("objects"), 0);
}

/// Goal: an inbox has a bound of its own, and a depositor learns nothing of what the account has left. Method: what waits is put into the
/// database; and an account with a small quota.
#[test]
fn an_inbox_that_is_full_says_so_and_nothing_of_the_account() {
    let (place, door) = place_with(Quota::default());
    let database = rusqlite::Connection::open(place.folder.path().join("server.db")).unwrap();
    let put_row = |name: &str, len: u64| {
        database
            .execute(
                "INSERT INTO object (vault, name, file, len, created_s) SELECT id, ?1, randomblob(16), ?2, 0 FROM vault",
                rusqlite::params![name, i64::try_from(len).unwrap()],
            )
            .unwrap();
    };
    // A segment counts for nothing there.
    put_row("segments/a", 8 << 30);
    assert_eq!(put(&place, ENVELOPE, b"envelope").status, 201);
    put_row("pieces/a", (4 << 30) - 100);
    let other = "f".repeat(32);
    assert_eq!(put(&place, &other, &[0; 90]).status, 201);
    let refused = put(&place, &"e".repeat(32), &[0; 90]);
    assert_eq!((refused.status, refused.code()), (507, "inbox-full"));
    let error = door.create(&"d".repeat(32), vec![0; 90]).unwrap_err();
    assert!(matches!(error, Error::Quota(_)), "{error:?}");
    drop(place);

    let (place, _) = place_with(Quota {
        bytes: 20,
        objects: 10,
    });
    let refused = put(&place, ENVELOPE, &[0; 30]);
    assert_eq!(refused.code(), "inbox-full", "{refused:?}");
    accounts(place.folder.path())
        .set_quota(
            "anna",
            Quota {
                bytes: 1000,
                objects: 1,
            },
        )
        .unwrap();
    let refused = put(&place, ENVELOPE, &[0; 30]);
    assert_eq!(refused.code(), "inbox-full", "{refused:?}");
}

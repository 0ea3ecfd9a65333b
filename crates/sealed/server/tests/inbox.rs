//! The inbox of a vault at a server: who has an address deposits, and nobody but the owner of the vault has anything of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use strongroom_remote::{Address, Created, Error, InboxDoor, ObjectName, Remote};
use strongroom_server::{Collecting, GarbageReport, Quota, Reading, Server, Unfinished, Upkeep};
use support::scaled::Services;
use support::{Answer, Place, answer, ask, said, send};

/// How long is waited for what a server does meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// Gives the vault `v` of `anna` an address; its door.
fn door_of(place: &Place) -> InboxDoor {
    let created = place
        .vault("v")
        .create(&address_of(&token()), b"document".to_vec());
    assert_eq!(created.unwrap(), Created::New);
    door_at(place.address())
}

/// The door at a server, or at an instance of one.
fn door_at(at: SocketAddr) -> InboxDoor {
    let url = format!("http://{}@{at}/anna/v", token());
    Address::parse(&url).unwrap().open_inbox().unwrap()
}

/// Runs statements in the database of a server.
fn sql(place: &Place, statements: &str) {
    if let Some(services) = &place.services {
        services.sql(statements);
    } else {
        let database = rusqlite::Connection::open(place.folder.path().join("server.db")).unwrap();
        database.execute_batch(statements).unwrap();
    }
}

/// Waits until a server has begun to take an object.
fn wait_for_upload(place: &Place) {
    let begun = Instant::now();
    let coming = || match &place.services {
        Some(services) => services.sql("SELECT file FROM coming").len(),
        None => place.files("moving"),
    };
    while coming() == 0 {
        assert!(begun.elapsed() < PATIENCE);
        thread::yield_now();
    }
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
    Place::each().for_each(|place| is_there_once(&place));
}

fn is_there_once(place: &Place) {
    let door = door_of(place);
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
    Place::each().for_each(|place| is_not_created(&place));
}

fn is_not_created(place: &Place) {
    let door = door_of(place);
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
    wait_for_upload(place);
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

/// Goal: an inbox has bounds of its own, and a depositor learns nothing of what the account has left. Method: what waits is put into the
/// database; and an account with a small quota.
#[test]
fn an_inbox_that_is_full_says_so_and_nothing_of_the_account() {
    Place::each().for_each(|place| says_that_it_is_full(&place));
    let quota = Quota {
        bytes: 20,
        objects: 10,
    };
    let small = |services: Option<Services>| {
        let place = Place::on(services, quota);
        door_of(&place);
        let refused = put(&place, ENVELOPE, &[0; 30]);
        assert_eq!(refused.code(), "inbox-full", "{refused:?}");
        let quota = Quota {
            bytes: 1000,
            objects: 1,
        };
        place.accounts().set_quota("anna", quota).unwrap();
        let refused = put(&place, ENVELOPE, &[0; 30]);
        assert_eq!(refused.code(), "inbox-full", "{refused:?}");
    };
    small(None);
    if let Some(services) = Services::new() {
        small(Some(services));
    }
}

fn says_that_it_is_full(place: &Place) {
    let door = door_of(place);
    let put_rows = |objects: &[(String, u64)]| {
        let insert = |(number, (name, len)): (usize, &(String, u64))| {
            // Files that nothing else has.
            let file = format!("{:016x}{number:016x}", blake3_head(name));
            let file = match place.services {
                Some(_) => format!("decode('{file}', 'hex')"),
                None => format!("x'{file}'"),
            };
            format!(
                "INSERT INTO object (vault, name, file, len, created_s) SELECT id, '{name}', {file}, {len}, 0 FROM vault;"
            )
        };
        let rows: String = objects.iter().enumerate().map(insert).collect();
        sql(place, &format!("BEGIN;{rows}COMMIT;"));
    };
    let is_full_for = |name: &str| {
        let refused = put(place, name, &[0; 90]);
        assert_eq!(
            (refused.status, refused.code()),
            (507, "inbox-full"),
            "{name}"
        );
    };
    // A segment counts for nothing there.
    put_rows(&[("segments/a".to_owned(), 8 << 30)]);
    assert_eq!(put(place, ENVELOPE, b"envelope").status, 201);
    put_rows(&[("pieces/a".to_owned(), (4 << 30) - 100)]);
    let other = "f".repeat(32);
    assert_eq!(put(place, &other, &[0; 90]).status, 201);
    is_full_for(&"e".repeat(32));
    let error = door.create(&"d".repeat(32), vec![0; 90]).unwrap_err();
    assert!(matches!(error, Error::Quota(_)), "{error:?}");
    // Many that are short.
    sql(place, "DELETE FROM object WHERE name = 'pieces/a'");
    let named = |kind: &str, count: u64| -> Vec<(String, u64)> {
        (0..count)
            .map(|number| (format!("{kind}/x{number:04}"), 0))
            .collect()
    };
    put_rows(&named("deposits", 998));
    is_full_for(&"e".repeat(32));
    let piece = |number: usize| format!("{}.{}.{number:04}", "e".repeat(32), "a".repeat(16));
    assert_eq!(put(place, &piece(0), &[0; 90]).status, 201);
    put_rows(&named("pieces", 8192 - 1001));
    is_full_for(&piece(1));
}

/// The first digits of the hash of a name, as a number.
fn blake3_head(name: &str) -> u64 {
    let hash = blake3::hash(name.as_bytes());
    u64::from_be_bytes(*hash.as_bytes().first_chunk().unwrap())
}

/// Goal: by one address so many deposits come at once, however many instances take them. What is counted goes with the address, and a clock
/// that was wrong holds nobody up. Method: two instances take turns; time is only what more of them could have let in.
#[test]
fn deposits_by_one_address_are_bounded_at_all_instances_together() {
    const ATTEMPTS: usize = 120;
    let Some(place) = Place::scaled() else { return };
    let other = place.instance();
    door_of(&place);
    let at = [place.address(), other.address()];
    let deposit = |number: usize| {
        let head = format!("authorization: Bearer {}\r\n{}", token(), said(b"e"));
        let path = format!("/v1/vaults/anna/v/inbox/{number:032x}");
        ask(at[number % 2], "PUT", &path, &head, b"e")
    };
    let begun = Instant::now();
    let mut taken = 0;
    for number in 0..ATTEMPTS {
        let answer = deposit(number);
        match answer.status {
            201 => taken += 1,
            status => assert_eq!((status, answer.code()), (429, "too-many")),
        }
    }
    let most = 60 + begun.elapsed().as_secs() / 6 + 1;
    assert!((60..=most).contains(&taken), "{taken} of {most}");
    let services = place.services.as_ref().unwrap();
    let counted = || services.sql("SELECT address FROM depositor");
    assert_eq!(counted(), [address_of(&token()).as_str()]);
    services.sql("UPDATE depositor SET busy_until_s = unixepoch() + 100000");
    assert_eq!(deposit(ATTEMPTS).status, 201);
    place.vault("v").remove(&address_of(&token())).unwrap();
    assert_eq!(counted(), [""; 0]);
    assert_eq!(deposit(ATTEMPTS + 1).code(), "no-address");
    door_of(&place);
    assert_eq!(deposit(ATTEMPTS + 2).status, 201);
}

/// Goal: pieces by one address are bounded too, at all instances together, and the envelope of what came is not held up by that. Method: the
/// database says that all but ten have come; then more come, by turns; time is only what more of them could have let in.
#[test]
fn pieces_by_one_address_are_bounded_at_all_instances_together() {
    const LEFT: u64 = 10;
    Place::each().for_each(|place| {
        let other = place.services.as_ref().map(|_| place.instance());
        door_of(&place);
        let at = [Some(place.address()), other.as_ref().map(Server::address)];
        let at: Vec<SocketAddr> = at.into_iter().flatten().collect();
        let deposit = |number: usize, name: &str| {
            let head = format!("authorization: Bearer {}\r\n{}", token(), said(b"p"));
            let path = format!("/v1/vaults/anna/v/inbox/{name}");
            let answer = ask(at[number % at.len()], "PUT", &path, &head, b"p");
            (answer.status, answer.code().to_owned())
        };
        let piece = |number: usize| format!("{ENVELOPE}.{}.{number:04}", "a".repeat(16));
        assert_eq!(deposit(0, &piece(0)).0, 201);
        let begun = Instant::now();
        let until = format!("unixepoch() + {}", 2048 - LEFT);
        sql(
            &place,
            &format!("UPDATE depositor SET pieces_until_s = {until}"),
        );
        let mut taken = 0;
        for number in 1..60 {
            match deposit(number, &piece(number)) {
                (201, _) => taken += 1,
                refused => assert_eq!(refused, (429, "too-many".to_owned())),
            }
        }
        let most = LEFT + begun.elapsed().as_secs() + 1;
        assert!((LEFT..=most).contains(&taken), "{taken} of {most}");
        assert_eq!(deposit(0, ENVELOPE).0, 201);
        // A clock that was wrong holds nobody up.
        sql(
            &place,
            "UPDATE depositor SET pieces_until_s = unixepoch() + 100000",
        );
        let another = piece(60).replace(ENVELOPE, &"e".repeat(32));
        assert_eq!(deposit(1, &another).0, 201);
    });
}

/// Goal: one deposit that comes at several instances at once is one, and what waits stays within its bounds there, too. Method: eight
/// depositors send the same envelope, and then each another one, with room for three.
#[test]
fn deposits_that_race_at_two_instances_are_one_each_and_stay_within_their_bounds() {
    let Some(place) = Place::scaled() else { return };
    let other = place.instance();
    door_of(&place);
    let at = [place.address(), other.address()];
    let race = |name: &(dyn Fn(usize) -> String + Sync)| -> usize {
        thread::scope(|scope| {
            let senders: Vec<_> = (0..8)
                .map(|number| {
                    scope.spawn(move || {
                        let door = door_at(at[number % 2]);
                        let created = door.create(&name(number), vec![7; 1000]);
                        usize::from(matches!(created, Ok(Created::New)))
                    })
                })
                .collect();
            let joined = senders.into_iter().map(|sender| sender.join().unwrap());
            joined.sum()
        })
    };
    assert_eq!(race(&|_| ENVELOPE.to_owned()), 1);
    let rows: String = (0..996)
        .map(|number| {
            let file = format!("decode('{:032x}', 'hex')", number + 1);
            format!("INSERT INTO object (vault, name, file, len, created_s) SELECT id, 'deposits/x{number}', {file}, 0, 0 FROM vault;")
        })
        .collect();
    sql(&place, &format!("BEGIN;{rows}COMMIT;"));
    assert_eq!(race(&|number| format!("{number:032x}")), 3);
    // What was refused leaves nothing.
    assert_eq!((place.files("moving"), place.files("objects")), (0, 5));
}

/// Goal: what waits in an inbox is no garbage, and is in a backup; what was cut off is garbage. Method: an upkeep while a deposit waits, and
/// one is on its way; then half of it is missing.
#[test]
fn what_waits_in_an_inbox_is_no_garbage() {
    Place::each().for_each(|place| is_no_garbage(&place));
}

fn is_no_garbage(place: &Place) {
    let door = door_of(place);
    let piece = format!("{ENVELOPE}.{}.0000", "a".repeat(16));
    for name in [piece.as_str(), ENVELOPE] {
        assert_eq!(door.create(name, b"sealed".to_vec()).unwrap(), Created::New);
    }
    let body = vec![7; 100_000];
    let head = format!("authorization: Bearer {}\r\n{}", token(), said(&body));
    let path = format!("/v1/vaults/anna/v/inbox/{}", "f".repeat(32));
    let line = send(
        place.address(),
        "PUT",
        &path,
        head.as_bytes(),
        &body[..50_000],
    );
    line.shutdown(Shutdown::Write).unwrap();
    assert_eq!(answer(line).code(), "length");
    let upkeep = Upkeep::open(place.storage()).unwrap();
    assert_eq!((place.files("moving"), place.files("objects")), (0, 3));
    let found = upkeep.check(Reading::Content, &mut |_| {}).unwrap();
    assert_eq!(
        (found.objects, found.problem_count, found.garbage_files),
        (3, 0, 0)
    );
    let removed = upkeep.collect_with(Collecting::Remove, Unfinished::All);
    assert_eq!(removed.unwrap(), GarbageReport::default());
    let owner = place.vault("v");
    let envelope = object(&format!("deposits/{ENVELOPE}"));
    assert_eq!(owner.read(&envelope, 100).unwrap().unwrap(), b"sealed");
    if place.services.is_some() {
        // Taken in while a backup is made, its bytes stay for that.
        let kept = upkeep.during_backup(|| {
            owner.remove(&envelope).unwrap();
            place.files("objects")
        });
        assert_eq!(kept.unwrap(), 3);
        let removed = upkeep.collect_with(Collecting::Remove, Unfinished::Late);
        assert_eq!(removed.unwrap(), GarbageReport { files: 1, bytes: 6 });
        return;
    }
    let to = tempfile::tempdir().unwrap();
    let copied = upkeep.backup(place.folder.path(), to.path(), &mut |_| {});
    let copied = copied.unwrap();
    assert_eq!((copied.objects, copied.problem_count), (3, 0));
    let backup = Upkeep::open(to.path()).unwrap();
    let found = backup.check(Reading::Content, &mut |_| {}).unwrap();
    assert_eq!((found.objects, found.problem_count), (3, 0));
}

//! A real server on loopback: the behaviour of every remote, and requests that only a server gets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../remote/tests/contract/mod.rs"]
mod contract;
mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use contract::name;
use strongroom_remote::protocol::WAIT_S_MAX;
use strongroom_remote::{Address, Created, Error, Limited, Pace, Rates, Remote, Waited};
use strongroom_server::limits::REQUESTS_PER_SECOND;
use strongroom_server::{Error as ServerError, Quota, Server, Settings, Standing, Tls};
use support::{Place, accounts, answer, ask, said, start};

/// Runs `check` with an empty vault at a server, in clear, with TLS, and at a pace; and at an instance of several.
fn each(check: impl Fn(&dyn Remote)) {
    let place = Place::new();
    check(&*place.vault("plain"));
    let rates = Rates {
        up: Some(1 << 40),
        down: Some(1 << 40),
    };
    check(&Limited::new(place.vault("paced"), Pace::new(rates)));
    let folder = tempfile::tempdir().unwrap();
    let token = accounts(folder.path())
        .add("anna", Quota::default())
        .unwrap();
    let server = start(folder.path(), Tls::SelfSigned);
    let print = server.fingerprint().unwrap();
    let url = format!(
        "https://{}@{}/anna/v?fingerprint={print}",
        token.reveal(),
        server.address()
    );
    check(&*Address::parse(&url).unwrap().open().unwrap());
    if let Some(place) = Place::scaled() {
        check(&*place.vault("scaled"));
    }
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

/// Lengths around a page of names and around a piece of what is read.
#[test]
fn a_long_listing_comes_in_pages_and_a_long_object_in_pieces() {
    let place = Place::new();
    let vault = place.vault("v");
    let mut names: Vec<String> = (0..4097)
        .map(|number| format!("needs/{number:05}"))
        .collect();
    thread::scope(|scope| {
        for part in names.chunks(600) {
            let vault = &vault;
            scope.spawn(move || {
                for one in part {
                    vault.create(&name(one), Vec::new()).unwrap();
                }
            });
        }
    });
    let mut listed: Vec<String> = vault
        .list("needs")
        .unwrap()
        .into_iter()
        .map(|one| one.name)
        .collect();
    listed.sort();
    names
        .iter_mut()
        .for_each(|name| *name = name.replace("needs/", ""));
    assert_eq!(listed, names);
    for len in [256 * 1024, 256 * 1024 + 1, 16 << 20] {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let one = name(&format!("segments/{}", blake3::hash(&bytes).to_hex()));
        assert_eq!(vault.create(&one, bytes.clone()).unwrap(), Created::New);
        assert!(vault.read(&one, len).unwrap().unwrap() == bytes);
        let part = vault.read_range(&one, len - 7..len).unwrap().unwrap();
        assert_eq!(part, bytes[bytes.len() - 7..]);
        assert!(
            vault
                .read_range(&one, len..len + 1)
                .unwrap()
                .unwrap()
                .is_empty()
        );
    }
}

/// Goal: of several devices that publish the next number exactly one does, a thousand times. Method: eight that begin together.
/// SECURITY.md, claim 25.
#[test]
fn of_racing_publications_each_number_has_one_winner() {
    const NUMBERS: u64 = 1000;
    const DEVICES: usize = 8;
    let place = Place::new();
    let barrier = Barrier::new(DEVICES);
    let wins: Vec<Vec<u64>> = thread::scope(|scope| {
        let devices: Vec<_> = (0..DEVICES)
            .map(|device| {
                let (place, barrier) = (&place, &barrier);
                scope.spawn(move || {
                    let vault = place.vault("v");
                    let mut won = Vec::new();
                    for number in 1..=NUMBERS {
                        barrier.wait();
                        let one = name(&format!("publications/{number:016}"));
                        let bytes = format!("{device}").into_bytes();
                        if vault.create(&one, bytes).unwrap() == Created::New {
                            won.push(number);
                        }
                    }
                    won
                })
            })
            .collect();
        devices
            .into_iter()
            .map(|device| device.join().unwrap())
            .collect()
    });
    let mut all: Vec<u64> = wins.iter().flatten().copied().collect();
    all.sort_unstable();
    assert_eq!(all, (1..=NUMBERS).collect::<Vec<_>>());
    let vault = place.vault("v");
    for (device, won) in wins.iter().enumerate() {
        for number in won.iter().step_by(50) {
            let one = name(&format!("publications/{number:016}"));
            let kept = vault.read(&one, 1).unwrap().unwrap();
            assert_eq!(kept, device.to_string().as_bytes());
        }
    }
    assert_eq!((place.files("objects"), place.files("moving")), (1000, 0));
}

#[test]
fn publications_come_in_order_and_their_numbers_never_come_back() {
    let place = Place::new();
    let vault = place.vault("v");
    let publication = |number: u64| name(&format!("publications/{number:016}"));
    let create = |number| vault.create(&publication(number), b"p".to_vec());
    let out_of_order = create(2).unwrap_err().to_string();
    assert!(
        out_of_order.contains("not the next publication"),
        "{out_of_order}"
    );
    for number in 1..=3 {
        assert_eq!(create(number).unwrap(), Created::New);
        assert_eq!(create(number).unwrap(), Created::AlreadyThere);
    }
    assert!(create(5).is_err());
    let newest = vault.remove(&publication(3)).unwrap_err().to_string();
    assert!(newest.contains("newest publication"), "{newest}");
    vault.remove(&publication(1)).unwrap();
    assert_eq!(create(1).unwrap(), Created::AlreadyThere);
    assert!(!vault.has(&publication(1)).unwrap());
    for odd in [
        "publications/4",
        "publications/00000000000000004",
        "publications/x",
    ] {
        assert!(vault.create(&name(odd), b"p".to_vec()).is_err(), "{odd}");
    }
}

/// Every request × every wrong identity.
/// SECURITY.md, claim 25.
#[test]
fn who_has_not_the_token_of_the_account_gets_nothing() {
    let place = Place::new();
    let folder = place.folder.path();
    let other = accounts(folder).add("bert", Quota::default()).unwrap();
    let old = accounts(folder).add("cora", Quota::default()).unwrap();
    accounts(folder).renew_token("cora").unwrap();
    let suspended = accounts(folder).add("dora", Quota::default()).unwrap();
    accounts(folder)
        .set_standing("dora", Standing::Suspended)
        .unwrap();
    place
        .vault("v")
        .create(&name("a"), b"canary".to_vec())
        .unwrap();
    let bearer = |token: &str| format!("authorization: Bearer {token}\r\n");
    let basic = format!("authorization: Basic {}\r\n", place.token);
    let identities = [
        (String::new(), "anna", 401, "no-token"),
        (bearer(&"x".repeat(10)), "anna", 401, "wrong-token"),
        (bearer(&"x".repeat(1000)), "anna", 401, "wrong-token"),
        (basic, "anna", 401, "wrong-token"),
        (bearer(""), "anna", 401, "wrong-token"),
        (bearer(other.reveal()), "anna", 403, "other-account"),
        (bearer(other.reveal()), "nobody", 403, "other-account"),
        (bearer(old.reveal()), "cora", 401, "wrong-token"),
        (bearer(suspended.reveal()), "dora", 403, "suspended"),
    ];
    let requests = [
        ("GET", "objects/a"),
        ("HEAD", "objects/a"),
        ("PUT", "objects/b"),
        ("DELETE", "objects/a"),
        ("GET", "objects?kind=segments"),
        ("GET", "publications?after=0&wait=30"),
        ("GET", "publications/events?after=0"),
    ];
    for (head, account, status, code) in &identities {
        for (method, below) in requests {
            let path = format!("/v1/vaults/{account}/v/{below}");
            let body: &[u8] = if method == "PUT" { b"bytes" } else { b"" };
            let head = format!("{head}{}", said(body));
            let answer = ask(place.address(), method, &path, &head, body);
            assert_eq!(
                (answer.status, answer.code()),
                (*status, *code),
                "{method} {path} {head}"
            );
            assert!(!answer.body.windows(6).any(|six| six == b"canary"));
        }
        let path = format!("/v1/accounts/{account}");
        let answer = ask(place.address(), "GET", &path, head, b"");
        assert_eq!((answer.status, answer.code()), (*status, *code), "{path}");
    }
    assert_eq!(place.files("objects"), 1);
    assert_eq!(
        place.vault("v").read(&name("a"), 9).unwrap().unwrap(),
        b"canary"
    );
    // And the words that a person reads.
    let words = |token: &str, account: &str| {
        place
            .remote(token, account, "v")
            .has(&name("a"))
            .unwrap_err()
            .to_string()
    };
    assert!(words("wrong", "anna").contains("does not know this token"));
    assert!(words(other.reveal(), "anna").contains("belongs to another account"));
    assert!(words(suspended.reveal(), "dora").contains("suspended"));
    accounts(folder)
        .set_standing("dora", Standing::Active)
        .unwrap();
    assert!(
        !place
            .remote(suspended.reveal(), "dora", "v")
            .has(&name("a"))
            .unwrap()
    );
}

#[test]
fn one_vault_shows_nothing_of_another_of_the_same_account() {
    let place = Place::new();
    let (one, two) = (place.vault("one"), place.vault("two"));
    one.create(&name("segments/a"), b"one".to_vec()).unwrap();
    assert!(two.list("segments").unwrap().is_empty() && !two.has(&name("segments/a")).unwrap());
    two.remove(&name("segments/a")).unwrap();
    assert_eq!(
        two.create(&name("segments/a"), b"two".to_vec()).unwrap(),
        Created::New
    );
    assert_eq!(one.read(&name("segments/a"), 9).unwrap().unwrap(), b"one");
}

/// SECURITY.md, claim 25.
#[test]
fn no_path_leads_out_of_a_vault() {
    let place = Place::new();
    place.vault("v").create(&name("a"), b"a".to_vec()).unwrap();
    let long = "a".repeat(201);
    for below in [
        "objects/..",
        "objects/../../anna/v/objects/a",
        "objects/%2e%2e",
        "objects/%2e%2e%2fserver.db",
        "objects/..%2f..%2fserver.db",
        "objects/segments/..",
        "objects/segments/../a",
        "objects/segments//a",
        "objects//etc/passwd",
        "objects/a%00",
        "objects/A",
        "objects/a%0d%0ax:y",
        "objects/.a",
        "objects/a/b/c",
        "objects/%ff",
        "objects/",
        "objects/a%2f%2e%2e",
        &format!("objects/{long}"),
    ] {
        for method in ["GET", "PUT", "DELETE"] {
            let body: &[u8] = if method == "PUT" { b"x" } else { b"" };
            let answer = place.ask(method, below, &said(body), body);
            assert!(
                (400..500).contains(&answer.status) && answer.code() != "none",
                "{method} {below}: {answer:?}"
            );
        }
    }
    for path in [
        "/v1/vaults/anna/..%2fx/objects/a",
        "/v1/vaults/anna/V/objects/a",
        "/v1/vaults/..%2fx/v/objects/a",
        "/",
        "/v2",
        "/v1/vaults",
    ] {
        let head = format!("authorization: Bearer {}\r\n", place.token);
        let answer = ask(place.address(), "GET", path, &head, b"");
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
        assert!(
            answer.head.contains("application/problem+json"),
            "{path}: {answer:?}"
        );
    }
    let wrong = place.ask("POST", "objects/a", "", b"");
    assert_eq!((wrong.status, wrong.code()), (405, "no-such-method"));
    assert_eq!((place.files("objects"), place.files("moving")), (1, 0));
    for query in [
        "",
        "?kind=a/b",
        "?kind=..",
        "?kind=segments&after=../x",
        "?kind=segments&kind=b",
        "?kind=segments&x=1",
        "?kind",
    ] {
        let answer = place.ask("GET", &format!("objects{query}"), "", b"");
        assert_eq!(
            (answer.status, answer.code()),
            (400, "parameter"),
            "{query}"
        );
    }
    for query in [
        "?after=-1",
        "?after=x",
        "?wait=99999999999999999999999",
        "?after=1&after=2",
    ] {
        let answer = place.ask("GET", &format!("publications{query}"), "", b"");
        assert_eq!(
            (answer.status, answer.code()),
            (400, "parameter"),
            "{query}"
        );
    }
}

#[test]
fn bytes_that_are_not_what_was_said_are_no_object_and_leave_no_file() {
    let place = Place::new();
    let hash = blake3::hash(b"bytes").to_hex();
    let header =
        |len: &str, hash: &str| format!("content-length: {len}\r\nstrongroom-blake3: {hash}\r\n");
    let other = format!("objects/segments/{}", blake3::hash(b"other").to_hex());
    let record = format!("objects/revisions/{}.1-{}", "0".repeat(64), "f".repeat(16));
    let head = format!("objects/headers/0000000000000001-{}", "f".repeat(64));
    for (below, header, code) in [
        ("objects/a", header("5", &"0".repeat(64)), "hash"),
        ("objects/a", header("5", "xyz"), "no-hash"),
        ("objects/a", "content-length: 5\r\n".to_owned(), "no-hash"),
        (
            "objects/a",
            format!("strongroom-blake3: {hash}\r\ntransfer-encoding: chunked\r\n"),
            "no-length",
        ),
        ("objects/a", header("67108865", &hash), "too-long"),
        (
            "objects/a",
            header("9223372036854775807", &hash),
            "too-long",
        ),
        (&other, header("5", &hash), "hash"),
        (&record, header("5", &hash), "hash"),
        (&head, header("5", &hash), "hash"),
    ] {
        let answer = place.ask("PUT", below, &header, b"bytes");
        assert_eq!(answer.code(), code, "{below} {header}");
    }
    // More than was said is the beginning of another request, which is none.
    let longer = place.ask("PUT", "objects/b", &header("5", &hash), b"bytes and more");
    assert_eq!(longer.status, 201);
    // The line breaks in the middle.
    let mut line = TcpStream::connect(place.address()).unwrap();
    let request = format!(
        "PUT /v1/vaults/anna/v/objects/c HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n{}\r\n",
        place.token,
        header("500000", &hash),
    );
    line.write_all(request.as_bytes()).unwrap();
    line.write_all(&[7; 300_000]).unwrap();
    line.shutdown(std::net::Shutdown::Write).unwrap();
    let broken = answer(line);
    assert_eq!((broken.status, broken.code()), (400, "length"));
    assert_eq!((place.files("objects"), place.files("moving")), (1, 0));
    let right = place.ask("PUT", "objects/a", &said(b"bytes"), b"bytes");
    assert_eq!(right.status, 201, "{right:?}");
}

#[test]
fn a_quota_is_kept_told_in_words_and_free_again_after_a_removal() {
    let place = Place::with(Quota {
        bytes: 100,
        objects: 3,
    });
    let vault = place.vault("v");
    let create =
        |number: u32, len| vault.create(&name(&format!("segments/{number}")), vec![1; len]);
    assert_eq!(create(1, 60).unwrap(), Created::New);
    let full = create(2, 41).unwrap_err();
    assert!(
        matches!(&full, Error::Quota(words) if words.contains("no space left")),
        "{full}"
    );
    // It is there already: nothing more would be used.
    assert_eq!(create(1, 60).unwrap(), Created::AlreadyThere);
    assert_eq!(create(2, 40).unwrap(), Created::New);
    assert_eq!(create(3, 0).unwrap(), Created::New);
    let many = create(4, 0).unwrap_err();
    assert!(
        matches!(&many, Error::Quota(words) if words.contains("no more objects")),
        "{many}"
    );
    vault.remove(&name("segments/1")).unwrap();
    assert_eq!(create(4, 60).unwrap(), Created::New);
    accounts(place.folder.path())
        .set_quota(
            "anna",
            Quota {
                bytes: 200,
                objects: 4,
            },
        )
        .unwrap();
    assert_eq!(create(5, 100).unwrap(), Created::New);
    let head = format!("authorization: Bearer {}\r\n", place.token);
    let own = ask(place.address(), "GET", "/v1/accounts/anna", &head, b"");
    let text = String::from_utf8(own.body).unwrap();
    assert!(
        text.contains(r#""bytes":200,"objects":4,"bytes_max":200,"objects_max":4,"keep_days":0"#),
        "{text}"
    );
    assert_eq!(place.files("moving"), 0);
}

/// Goal: many at once use no more than one may. Method: twenty that send ten bytes of a hundred.
#[test]
fn a_quota_holds_for_many_at_once() {
    let place = Place::with(Quota {
        bytes: 100,
        objects: 1000,
    });
    let created: usize = thread::scope(|scope| {
        let senders: Vec<_> = (0..20)
            .map(|number| {
                let place = &place;
                scope.spawn(move || {
                    let one = name(&format!("segments/{number}"));
                    usize::from(place.vault("v").create(&one, vec![number; 10]).is_ok())
                })
            })
            .collect();
        senders
            .into_iter()
            .map(|sender| sender.join().unwrap())
            .sum()
    });
    assert_eq!(created, 10);
    assert_eq!((place.files("objects"), place.files("moving")), (10, 0));
}

#[test]
fn a_restart_keeps_everything_and_ends_what_was_cut() {
    let mut place = Place::new();
    let vault = place.vault("v");
    vault.create(&name("segments/a"), b"a".to_vec()).unwrap();
    vault
        .create(&name("publications/0000000000000001"), b"p".to_vec())
        .unwrap();
    place.server.take().unwrap().stop();
    // A cut between the transaction and the move of the file; a cut before the transaction; what is no file of ours.
    let (objects, moving) = (
        place.folder.path().join("objects"),
        place.folder.path().join("moving"),
    );
    for shelf in std::fs::read_dir(&objects).unwrap() {
        for file in std::fs::read_dir(shelf.unwrap().path()).unwrap() {
            let file = file.unwrap();
            std::fs::rename(file.path(), moving.join(file.file_name())).unwrap();
        }
    }
    std::fs::write(moving.join("0".repeat(32)), b"half").unwrap();
    std::fs::write(moving.join("README"), b"not ours").unwrap();
    place.server = Some(start(place.folder.path(), Tls::Off));
    assert_eq!((place.files("objects"), place.files("moving")), (2, 1));
    let vault = place.vault("v");
    assert_eq!(vault.read(&name("segments/a"), 9).unwrap().unwrap(), b"a");
    assert_eq!(vault.list("publications").unwrap().len(), 1);
    let next = name("publications/0000000000000002");
    assert_eq!(vault.create(&next, b"p".to_vec()).unwrap(), Created::New);
    place.restart();
    assert_eq!(place.vault("v").read(&next, 9).unwrap().unwrap(), b"p");
}

#[test]
fn one_server_at_a_time_has_a_folder_and_only_one_that_knows_it() {
    let place = Place::new();
    let settings = Settings {
        storage: place.folder.path().into(),
        listen: "127.0.0.1:0".parse().unwrap(),
        tls: Tls::Off,
        metrics: None,
        names: Vec::new(),
        requests_per_second: REQUESTS_PER_SECOND,
    };
    assert!(matches!(Server::start(&settings), Err(ServerError::InUse)));
    let beyond = Settings {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..settings.clone()
    };
    assert!(matches!(
        Server::start(&beyond),
        Err(ServerError::ClearBeyond)
    ));
    // A vault, or a home, is no folder of a server; nothing is left in it.
    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("vault.json"), "{}").unwrap();
    let other = Settings {
        storage: foreign.path().into(),
        ..settings.clone()
    };
    assert!(matches!(Server::start(&other), Err(ServerError::Foreign)));
    assert_eq!(std::fs::read_dir(foreign.path()).unwrap().count(), 1);
    let newer = tempfile::tempdir().unwrap();
    drop(accounts(newer.path()));
    let database = rusqlite::Connection::open(newer.path().join("server.db")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let settings = Settings {
        storage: newer.path().into(),
        ..settings
    };
    assert!(matches!(
        Server::start(&settings),
        Err(ServerError::NewerSchema { found: 99, .. })
    ));
}

/// SECURITY.md, claim 22.
#[test]
fn a_server_with_another_certificate_gets_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let token = accounts(folder.path())
        .add("anna", Quota::default())
        .unwrap();
    let server = start(folder.path(), Tls::SelfSigned);
    let (at, token) = (server.address(), token.reveal());
    let right = server.fingerprint().unwrap().to_owned();
    let open = |query: &str| {
        let url = format!("https://{token}@localhost:{}/anna/v{query}", at.port());
        Address::parse(&url).unwrap().open().unwrap()
    };
    assert!(
        !open(&format!("?fingerprint={right}"))
            .has(&name("a"))
            .unwrap()
    );
    let before = server.requests();
    for query in [format!("?fingerprint={}", "0".repeat(64)), String::new()] {
        let error = open(&query).has(&name("a")).unwrap_err();
        assert!(matches!(&error, Error::Refused(_)), "{error}");
        assert!(
            error.to_string().contains("not the expected server"),
            "{error}"
        );
    }
    assert_eq!(server.requests(), before);
}

/// Goal: who waits hears at once, asks nothing meanwhile, and stops when told to.
#[test]
fn who_waits_for_a_publication_hears_of_it_with_one_request() {
    let place = Place::new();
    let vault = place.vault("v");
    let publish = |number: u64| {
        let one = name(&format!("publications/{number:016}"));
        vault.create(&one, b"p".to_vec()).unwrap();
    };
    publish(1);
    assert_eq!(
        vault.wait_behind(0, &|| true).unwrap(),
        Waited::Published(1)
    );
    let before = place.server.as_ref().unwrap().requests();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| place.vault("v").wait_behind(1, &|| true).unwrap());
        // Another vault, and objects that are none of the log, wake nobody.
        while place.server.as_ref().unwrap().requests() == before {
            thread::yield_now();
        }
        let other = place.vault("other");
        other
            .create(&name("publications/0000000000000001"), b"p".to_vec())
            .unwrap();
        vault.create(&name("segments/a"), b"a".to_vec()).unwrap();
        publish(2);
        assert_eq!(waiting.join().unwrap(), Waited::Published(2));
    });
    assert_eq!(place.server.as_ref().unwrap().requests() - before, 4);
    let begun = Instant::now();
    assert_eq!(vault.wait_behind(2, &|| false).unwrap(), Waited::Nothing);
    assert!(begun.elapsed() < Duration::from_secs(WAIT_S_MAX));
}

#[test]
fn a_server_that_ends_lets_nobody_wait_and_ends_what_is_under_way() {
    let mut place = Place::new();
    let vault = place.vault("v");
    let server = place.server.take().unwrap();
    let asked = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            vault.wait_behind(0, &|| {
                asked.store(true, Ordering::Relaxed);
                true
            })
        });
        while server.requests() == 0 || !asked.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        server.stop();
        assert_eq!(waiting.join().unwrap().unwrap(), Waited::Nothing);
    });
}

#[test]
fn events_say_each_publication_behind_the_one_that_is_known() {
    let place = Place::new();
    let vault = Arc::new(place.vault("v"));
    let publish = |number: u64| {
        let one = name(&format!("publications/{number:016}"));
        vault.create(&one, b"p".to_vec()).unwrap();
    };
    publish(1);
    publish(2);
    let mut line = TcpStream::connect(place.address()).unwrap();
    line.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let request = format!(
        "GET /v1/vaults/anna/v/publications/events?after=1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
        place.token
    );
    line.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(line).lines().map(Result::unwrap);
    let mut next = || lines.find(|line| line.starts_with("data:")).unwrap();
    assert_eq!(next(), r#"data: {"last":2}"#);
    publish(3);
    assert_eq!(next(), r#"data: {"last":3}"#);
}

#[test]
fn a_removed_account_is_gone_with_all_that_it_had() {
    let place = Place::new();
    let folder = place.folder.path();
    let other = accounts(folder).add("bert", Quota::default()).unwrap();
    place
        .remote(other.reveal(), "bert", "v")
        .create(&name("a"), b"bert".to_vec())
        .unwrap();
    for number in 1..=30 {
        let one = name(&format!("publications/{number:016}"));
        place.vault("v").create(&one, vec![1; 10]).unwrap();
    }
    accounts(folder).remove("anna").unwrap();
    assert!(place.vault("v").has(&name("a")).is_err());
    assert_eq!((place.files("objects"), place.files("moving")), (1, 0));
    let left = accounts(folder).list().unwrap();
    assert_eq!(
        (left.len(), &*left[0].name, left[0].used.bytes),
        (1, "bert", 4)
    );
    assert!(matches!(
        accounts(folder).remove("anna"),
        Err(ServerError::UnknownAccount(_))
    ));
    assert!(matches!(
        accounts(folder).add("bert", Quota::default()),
        Err(ServerError::AccountExists(_))
    ));
    for bad in ["", "..", "a/b", "Anna"] {
        assert!(
            matches!(
                accounts(folder).add(bad, Quota::default()),
                Err(ServerError::AccountName(_))
            ),
            "{bad}"
        );
    }
}

#[test]
fn whether_it_lives_and_what_it_sees_is_said_to_everybody() {
    let place = Place::new();
    for (path, text) in [
        ("/healthz", "alive"),
        ("/readyz", "ready"),
        ("/v1/what-we-see", "What this server sees"),
    ] {
        let answer = ask(place.address(), "GET", path, "", b"");
        assert_eq!(answer.status, 200, "{path}");
        assert!(
            String::from_utf8(answer.body).unwrap().contains(text),
            "{path}"
        );
    }
}

//! What happens at a server at the same time: clients that do not read, uploads during changes, a database that others use.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;

use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use rusqlite::Connection;
use strongroom_remote::{Created, ObjectName};
use strongroom_server::{Quota, Tls};
use support::{Place, accounts, answer, said, start};

/// Downloads of one account at a time.
const TURNS: usize = 32;

fn name(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

/// The database of a server, as somebody else has it.
fn database(place: &Place) -> Connection {
    Connection::open(place.folder.path().join("server.db")).unwrap()
}

/// Waits until `is_so`.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

/// Goal: who asks for objects and does not read them takes no more than their own turns, and nobody else's. Method: downloads of one account
/// that are longer than what the system holds for a connection; the turn that ends is the next one's. Failed before: each took a file and
/// a piece of memory at once.
#[test]
fn downloads_that_nobody_reads_wait_for_their_turn_and_hold_up_no_other_account() {
    let place = Place::new();
    let other = accounts(place.folder.path())
        .add("bert", Quota::default())
        .unwrap();
    let long = vec![7; 32 << 20];
    let created = place.vault("v").create(&name("segments/long"), long);
    assert_eq!(created.unwrap(), Created::New);
    let begin = || place.begin("GET", "objects/segments/long", "");
    let answered = |mut line: TcpStream| {
        let mut status = [0; 12];
        line.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        line
    };
    let mut reading: Vec<_> = (0..TURNS).map(|_| answered(begin())).collect();
    let before = place.server.as_ref().unwrap().requests();
    let waiting = begin();
    until(|| place.server.as_ref().unwrap().requests() > before);
    let bert = place.remote(other.reveal(), "bert", "v");
    bert.create(&name("a"), b"bert's".to_vec()).unwrap();
    assert_eq!(bert.read(&name("a"), 9).unwrap().unwrap(), b"bert's");
    assert_eq!(place.metric("strongroom_downloads"), TURNS as u64);
    drop(reading.pop());
    answered(waiting);
}

/// Goal: no client gets HTTP/2, whose streams nothing ends that are not read. Failed before: whoever offered it got it.
#[test]
fn a_server_speaks_http_1_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), Tls::SelfSigned);
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    connector.set_alpn_protos(b"\x02h2\x08http/1.1").unwrap();
    let line = TcpStream::connect(server.address()).unwrap();
    let mut line = connector.build().connect("localhost", line).unwrap();
    assert_eq!(line.ssl().selected_alpn_protocol(), Some(&b"http/1.1"[..]));
    line.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    line.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

/// Goal: an account gets nothing of one that was removed. Method: the newest account is removed while an upload of it is under way, and
/// another one is added. Failed before: the new account had the id of the old one, and the object.
#[test]
fn an_upload_of_a_removed_account_does_not_reach_the_next_one() {
    let place = Place::new();
    let bytes = vec![1; 1000];
    let head = format!("{}connection: close\r\n", said(&bytes));
    let mut line = place.begin("PUT", "objects/segments/a", &head);
    line.write_all(&bytes[..500]).unwrap();
    until(|| place.files("moving") == 1);
    let accounts = accounts(place.folder.path());
    accounts.remove("anna").unwrap();
    accounts.add("bert", Quota::default()).unwrap();
    line.write_all(&bytes[500..]).unwrap();
    let refused = answer(line);
    assert_eq!((refused.status, refused.code()), (401, "wrong-token"));
    assert_eq!(accounts.list().unwrap()[0].used.objects, 0);
    assert_eq!((place.files("objects"), place.files("moving")), (0, 0));
}

/// Goal: an upload that the database refuses for a reason of its own leaves no file. Method: a trigger in the place of a full disk. Failed
/// before: the file stayed until the next start.
#[test]
fn an_object_that_the_database_cannot_add_leaves_no_file() {
    let place = Place::new();
    let trigger =
        "CREATE TRIGGER refusal BEFORE INSERT ON object BEGIN SELECT RAISE(ABORT, 'full'); END";
    database(&place).execute_batch(trigger).unwrap();
    let failed = place.ask("PUT", "objects/segments/a", &said(b"bytes"), b"bytes");
    assert_eq!((failed.status, failed.code()), (500, "failed"));
    assert_eq!((place.files("objects"), place.files("moving")), (0, 0));
}

/// Commits in the log of the database: frames that say how long the database is then.
fn commits(place: &Place) -> usize {
    const HEAD: usize = 32;
    const FRAME: usize = 24 + 4096;
    let log = std::fs::read(place.folder.path().join("server.db-wal")).unwrap();
    let salt = &log[16..24];
    log[HEAD..]
        .chunks_exact(FRAME)
        .filter(|frame| frame[8..16] == *salt && frame[4..8] != [0; 4])
        .count()
}

/// Goal: the removal of an account holds up no other. Method: the commits of it are counted. Failed before: each object took one of its own,
/// with a sync of a folder.
#[test]
fn an_account_is_removed_in_few_steps() {
    const OBJECTS: usize = 40;
    let place = Place::new();
    // While somebody reads, the log does not begin again.
    let reader = database(&place);
    reader.execute_batch("BEGIN").unwrap();
    let count = "SELECT count(*) FROM account";
    let _: i64 = reader.query_row(count, [], |row| row.get(0)).unwrap();
    for number in 0..OBJECTS {
        let one = name(&format!("segments/{number}"));
        place.vault("v").create(&one, vec![1; 10]).unwrap();
    }
    let before = commits(&place);
    assert!(before >= OBJECTS, "{before}");
    accounts(place.folder.path()).remove("anna").unwrap();
    // It is suspended, its objects are removed, it is removed.
    assert_eq!(commits(&place) - before, 3);
    assert_eq!((place.files("objects"), place.files("moving")), (0, 0));
}

/// Goal: a command for accounts that only reads does not wait for who writes. Failed before: each opening of the database wrote to it.
#[test]
fn accounts_are_listed_while_somebody_writes() {
    let place = Place::new();
    let writer = database(&place);
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let listed = accounts(place.folder.path()).list().unwrap();
    assert_eq!(listed.len(), 1);
}

/// Goal: whoever follows a vault hears of each publication, also of one whose sender is gone. Method: the database is held while the server
/// adds the publication, and the sender's connection ends meanwhile. Failed before: nobody heard of it.
#[test]
fn a_publication_whose_sender_is_gone_is_heard_of() {
    let place = Place::new();
    let events = place.begin("GET", "publications/events?after=0", "");
    let mut lines = BufReader::new(events).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");
    until(|| place.metric("strongroom_followers") == 1);
    // That of the follower, and that of who asks.
    let is_quiet = || place.metric("strongroom_connections") == 2;
    let one = name("publications/0000000000000001");
    // Whether the server had begun to add it cannot be seen from here: if not, the next attempt counts.
    for _ in 0..100 {
        let holder = database(&place);
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        until(is_quiet);
        let mut line = place.begin("PUT", &format!("objects/{one}"), &said(b"one"));
        line.write_all(b"one").unwrap();
        until(|| place.files("moving") == 1);
        drop(line);
        until(is_quiet);
        holder.execute_batch("ROLLBACK").unwrap();
        until(|| place.files("moving") == 0);
        if place.vault("v").has(&one).unwrap() {
            let event = lines.find(|line| line.starts_with("data:")).unwrap();
            assert_eq!(event, r#"data: {"last":1}"#);
            return;
        }
    }
    panic!("no attempt was late enough");
}

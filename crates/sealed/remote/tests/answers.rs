//! Refusals of stores, and answers that break off: what is said of them, and that no part of an object passes for the object.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use strongroom_remote::{Address, Created, Error, ObjectName, Remote};

/// An object of ten bytes, and the answer that has it whole.
const OBJECT: &[u8] = b"0123456789";
const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\nconnection: close\r\n\r\n0123456789";

/// The same answer, which breaks off in the middle of the object.
const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\nconnection: close\r\n\r\n01234";

/// No answer at all: the line is closed.
const NOTHING: &str = "";

/// A proxy whose server is away.
const AWAY: &str =
    "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Reads one request with its body.
fn take(stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    let mut body_len = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(len) = line.to_lowercase().strip_prefix("content-length:") {
            body_len = len.trim().parse().unwrap();
        }
    }
    // Whoever has gone sends no more.
    let _ = reader.read_exact(&mut vec![0; body_len]);
}

/// Somebody on this machine who gives each request the next of `answers`, and the last one for ever.
fn answering(answers: Vec<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    // It ends with the process.
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let stream = stream.unwrap();
            take(&stream);
            let answer = &answers[number.min(answers.len() - 1)];
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    at
}

fn open(url: &str) -> Arc<dyn Remote> {
    Address::parse(url).unwrap().open().unwrap()
}

fn store(answers: Vec<String>) -> Arc<dyn Remote> {
    let at = answering(answers);
    let url = format!("s3://key:canary@bucket/vault?endpoint=http://{at}&region=here");
    open(&url)
}

fn server(answers: Vec<String>) -> Arc<dyn Remote> {
    let at = answering(answers);
    open(&format!("http://canary@{at}/anna/photos"))
}

fn object() -> ObjectName {
    ObjectName::new("segments/00").unwrap()
}

/// What a store answers that refuses a request.
fn refusal(status: &str, code: &str) -> String {
    let document = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>no</Message></Error>"
    );
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/xml\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{document}",
        document.len()
    )
}

/// What each kind of request ends with.
fn errors(remote: &dyn Remote) -> [Error; 3] {
    [
        remote.read(&object(), 100).unwrap_err(),
        remote.create(&object(), b"bytes".to_vec()).unwrap_err(),
        remote.list("segments").unwrap_err(),
    ]
}

/// Goal: an object counts as there only if it is. Method: a store answers twice that another request works on the name, and each time that
/// there is no such object; then it takes the object. Another has the object when it is asked. A third fails the condition of the request,
/// and is not asked again. Failed before: the first two counted as there, so a segment could be published that nobody had.
#[test]
fn an_object_that_was_being_deleted_is_created() {
    let contested = refusal("409 Conflict", "ConditionalRequestConflict");
    let none = AWAY.replace("503 Service Unavailable", "404 Not Found");
    let created =
        "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let there = "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 10\r\nlast-modified: Sat, 28 Nov 2026 06:00:00 GMT\r\nconnection: close\r\n\r\n";
    let unasked = refusal("500 Internal Server Error", "InternalError");
    for (answers, expected) in [
        (
            vec![
                contested.clone(),
                none.clone(),
                contested.clone(),
                none,
                created.to_owned(),
                unasked.clone(),
            ],
            Created::New,
        ),
        (
            vec![contested, there.to_owned(), unasked.clone()],
            Created::AlreadyThere,
        ),
        (
            vec![
                refusal("412 Precondition Failed", "PreconditionFailed"),
                unasked,
            ],
            Created::AlreadyThere,
        ),
    ] {
        let created = store(answers).create(&object(), OBJECT.to_vec());
        assert_eq!(created.unwrap(), expected);
    }
}

/// Goal: credentials that are wrong, or expired since the last request, a clock that is wrong, and a quota that is used up are called
/// what they are, whatever status a store has for them. Failed before: expired ones and quotas were some other error, and the words were
/// the first line of a document.
#[test]
fn what_a_store_refuses_is_said_by_its_name() {
    for (status, code, words) in [
        (
            "403 Forbidden",
            "SignatureDoesNotMatch",
            "refuses access: SignatureDoesNotMatch",
        ),
        (
            "403 Forbidden",
            "InvalidAccessKeyId",
            "refuses access: InvalidAccessKeyId",
        ),
        (
            "400 Bad Request",
            "ExpiredToken",
            "credentials are no longer valid",
        ),
        (
            "403 Forbidden",
            "RequestTimeTooSkewed",
            "clock of this machine",
        ),
    ] {
        for error in errors(&*store(vec![refusal(status, code)])) {
            let said = error.to_string();
            assert!(matches!(error, Error::Refused(_)), "{code}: {said}");
            assert!(said.contains(words) && said.contains(code), "{said}");
            assert!(!said.contains("canary"), "{said}");
        }
    }
    for (status, code) in [
        ("403 Forbidden", "QuotaExceeded"),
        ("400 Bad Request", "XMinioAdminBucketQuotaExceeded"),
    ] {
        for error in errors(&*store(vec![refusal(status, code)])) {
            let said = error.to_string();
            assert!(matches!(error, Error::Quota(_)), "{code}: {said}");
        }
    }
    // What is no name of an error is not repeated as one.
    for odd in ["", "\u{1b}[2J", &"x".repeat(65)] {
        let remote = store(vec![refusal("403 Forbidden", odd)]);
        let error = remote.read(&object(), 100).unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error}");
        assert!(!error.to_string().contains('\u{1b}'), "{error}");
    }
}

/// Goal: a part of an object is never taken for the object, and a request that failed is made again. Method: the line breaks in the middle of
/// the answer, before it, and a proxy says that the server is away; then the answer comes.
#[test]
fn an_answer_that_breaks_off_is_asked_for_again_or_is_an_error() {
    let broken = [HALF, NOTHING, AWAY, WHOLE].map(str::to_owned);
    let whole = server(broken.to_vec()).read(&object(), 10).unwrap();
    assert_eq!(whole.unwrap(), OBJECT);
    let created = "HTTP/1.1 201 Created\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let broken = [NOTHING, AWAY, created].map(str::to_owned);
    let created = server(broken.to_vec()).create(&object(), OBJECT.to_vec());
    assert_eq!(created.unwrap(), Created::New);
    let broken = [NOTHING, AWAY, WHOLE].map(str::to_owned);
    let whole = store(broken.to_vec()).read(&object(), 10).unwrap();
    assert_eq!(whole.unwrap(), OBJECT);
    // Without a name of the version that it began with, a store is not asked for the rest. Failed before: it was not asked again at all.
    let broken = [HALF, HALF, WHOLE].map(str::to_owned);
    let remote = store(broken.to_vec());
    assert_eq!(remote.read(&object(), 10).unwrap().unwrap(), OBJECT);
    let part = "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 2-5/10\r\ncontent-length: 4\r\nconnection: close\r\n\r\n23";
    let broken = [part.to_owned(), format!("{part}45")];
    for remote in [store(broken.to_vec()), server(broken.to_vec())] {
        let came = remote.read_range(&object(), 2..6).unwrap();
        assert_eq!(came.unwrap(), b"2345");
    }
}

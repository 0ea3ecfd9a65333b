//! A client that makes too many requests comes again when the server says, and does not wait without bound.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use strongroom_remote::{Address, Error, ObjectName, Remote};

const HAS_IT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// An answer that refuses for the number of requests, with this in its head.
fn refusal(head: &str) -> String {
    format!(
        "HTTP/1.1 429 Too Many Requests\r\n{head}content-length: 0\r\nconnection: close\r\n\r\n"
    )
}

/// Somebody on this machine who gives these answers, one after the other and then the last again, and notes when each request came.
struct Listener {
    port: u16,
    came: Arc<Mutex<Vec<Instant>>>,
}

impl Listener {
    fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let came = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&came);
        // It ends with the process.
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let stream = stream.unwrap();
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let _head = lines.take_while(|line| !line.is_empty()).count();
                noted.lock().unwrap().push(Instant::now());
                let answer = &answers[number.min(answers.len() - 1)];
                // Whoever has gone needs no answer.
                let _ = (&stream).write_all(answer.as_bytes());
            }
        });
        Self { port, came }
    }

    fn vault(&self) -> Arc<dyn Remote> {
        let url = format!("http://token@127.0.0.1:{}/anna/photos", self.port);
        Address::parse(&url).unwrap().open().unwrap()
    }

    fn came(&self) -> Vec<Instant> {
        self.came.lock().unwrap().clone()
    }
}

fn object() -> ObjectName {
    ObjectName::new("segments/00").unwrap()
}

/// Goal: whoever is refused for the number of requests gives the server the time that it asks for, and then gets what was asked for. Method: a
/// server of ours, and a proxy before one, which names no refusal.
#[test]
fn a_server_that_asks_for_time_gets_it() {
    for head in [
        "strongroom-refusal: too-fast\r\nretry-after: 1\r\n",
        "retry-after: 1\r\n",
    ] {
        let server = Listener::start(vec![refusal(head), HAS_IT.to_owned()]);
        assert!(server.vault().has(&object()).unwrap());
        let came = server.came();
        assert_eq!(came.len(), 2, "{head}");
        let between = came[1] - came[0];
        assert!(between >= Duration::from_secs(1), "{head}: {between:?}");
    }
}

/// Goal: no server keeps a client waiting for longer than a request is repeated at all. Method: a time that is beyond every bound, and one
/// that is none.
#[test]
fn a_time_without_end_is_not_waited_for() {
    for after in ["100000", "18446744073709551615"] {
        let head = format!("strongroom-refusal: too-fast\r\nretry-after: {after}\r\n");
        let server = Listener::start(vec![refusal(&head)]);
        let error = server.vault().has(&object()).unwrap_err();
        let is_it = |words: &str| words.contains("too many requests");
        assert!(
            matches!(&error, Error::Unreachable(words) if is_it(words)),
            "{error}"
        );
        assert_eq!(server.came().len(), 1, "{after}");
    }
    let odd = refusal("strongroom-refusal: too-fast\r\nretry-after: soon\r\n");
    let server = Listener::start(vec![odd, HAS_IT.to_owned()]);
    assert!(server.vault().has(&object()).unwrap());
}

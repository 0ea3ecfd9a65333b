//! Uploads over lines on which not all that begin at a time can arrive: they arrive, at every kind of remote over a network.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use strongroom_remote::limits::TRANSFERS;
use strongroom_remote::{Address, ObjectName, Remote};

const OBJECTS: usize = 10;
const LEN: usize = 4 << 20;

/// As 20 MiB are to a segment of 16 MiB.
const BUDGET: usize = LEN + LEN / 4;

const CREATED: &str =
    "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const SLOW: &str = "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It ends, for all who use it, whenever `BUDGET` bytes have come.
    Drops,
    /// An upload is too slow beside which more came of others than of itself; and so are the first ones.
    Slow,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of objects.
    came: usize,
    /// Of these, since the line ended last.
    since: usize,
    begun: usize,
    open: Vec<TcpStream>,
    created: BTreeSet<String>,
    faults: usize,
}

/// Somebody on this machine who creates what is sent over such a line, and speaks as a store and as a server.
#[derive(Debug)]
struct Place {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Place {
    fn behind(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<Mutex<State>>::default();
        let noted = Arc::clone(&state);
        // It ends with the process.
        thread::spawn(move || {
            for line in listener.incoming().map(Result::unwrap) {
                let state = Arc::clone(&noted);
                thread::spawn(move || {
                    take(&line, fault, &state);
                    let _ = line.shutdown(Shutdown::Both);
                });
            }
        });
        Self { port, state }
    }

    fn open(&self, url: &str) -> Arc<dyn Remote> {
        let url = url.replace("PORT", &self.port.to_string());
        Address::parse(&url).unwrap().open().unwrap()
    }
}

/// Takes one upload, and answers it; nothing if the line ends.
fn take(line: &TcpStream, fault: Fault, state: &Mutex<State>) {
    let mut reader = BufReader::new(line);
    let (mut head, mut left) = (Vec::new(), 0);
    loop {
        let mut text = String::new();
        if reader.read_line(&mut text).unwrap_or(0) == 0 {
            return;
        }
        if text == "\r\n" {
            break;
        }
        if let Some(len) = text.to_lowercase().strip_prefix("content-length:") {
            left = len.trim().parse().unwrap();
        }
        head.push(text);
    }
    let path = head[0].split(' ').nth(1).unwrap().to_owned();
    let (number, before) = {
        let mut state = state.lock().unwrap();
        state.open.push(line.try_clone().unwrap());
        state.begun += 1;
        (state.begun, state.came)
    };
    let (len, mut piece) = (left, vec![0; 64 << 10]);
    while left > 0 {
        let Ok(count @ 1..) = reader.read(&mut piece[..left.min(64 << 10)]) else {
            return;
        };
        left -= count;
        let mut state = state.lock().unwrap();
        state.came += count;
        state.since += count;
        if fault == Fault::Drops && state.since > BUDGET {
            (state.since, state.faults) = (0, state.faults + 1);
            for line in std::mem::take(&mut state.open) {
                let _ = line.shutdown(Shutdown::Both);
            }
            return;
        }
    }
    let answer = {
        let mut state = state.lock().unwrap();
        let of_others = state.came - before - len;
        match fault == Fault::Slow && (number <= TRANSFERS || of_others > len) {
            true => {
                state.faults += 1;
                SLOW
            }
            false => {
                state.created.insert(path);
                CREATED
            }
        }
    };
    let mut line = line;
    let _ = line.write_all(answer.as_bytes());
}

/// Creates all objects, as many at a time as a push does.
fn create_all(remote: &dyn Remote) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..TRANSFERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= OBJECTS {
                        break;
                    }
                    let name = ObjectName::new(format!("segments/{number}")).unwrap();
                    remote.create(&name, vec![7; LEN]).unwrap();
                }
            });
        }
    });
}

/// Goal: on a line that carries one upload, all of them arrive in the end, at a server as at an object store, with a bounded number of
/// uploads that break off. Method: ten objects, six at a time; a line that drops after little more than one object, and somebody who refuses
/// what came more slowly than what came beside it. Everything is counted, nothing timed. Failed before: six went on side by side, and
/// none arrived.
#[test]
fn uploads_arrive_on_a_line_that_carries_one_at_a_time() {
    // First six break off, then three; beside another one each object at most once more, and never more than twice as often as that.
    const FAULTS_MAX: usize = 2 * (TRANSFERS + TRANSFERS / 2 + OBJECTS);
    for url in [
        "http://token@127.0.0.1:PORT/anna/photos",
        "s3://key:secret@bucket/vault?endpoint=http://127.0.0.1:PORT&region=here",
    ] {
        for fault in [Fault::Drops, Fault::Slow] {
            let place = Place::behind(fault);
            create_all(&*place.open(url));
            let state = place.state.lock().unwrap();
            assert_eq!(state.created.len(), OBJECTS, "{url} {fault:?}");
            assert!(state.faults > 0, "{url} {fault:?}");
            assert!(
                state.faults <= FAULTS_MAX,
                "{url} {fault:?}: {}",
                state.faults
            );
        }
    }
}

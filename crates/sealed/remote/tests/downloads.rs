//! Downloads over lines on which not all that begin at a time can arrive: they arrive, from every kind of remote over a network.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use strongroom_remote::limits::TRANSFERS;
use strongroom_remote::{Address, Created, ObjectName, Remote};

const OBJECTS: usize = 10;
const LEN: usize = 4 << 20;
const PIECE: usize = 64 << 10;

/// As 20 MiB are to a segment of 16 MiB.
const BUDGET: usize = LEN + LEN / 4;

const CREATED: &str =
    "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Longer than six downloads take to begin: only where fewer go, which fails the test anyway, does somebody wait for so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It ends, for all who use it, whenever `BUDGET` bytes have gone.
    Drops,
    /// A download is too slow, and ends before its last piece, beside which more went of others than of itself; and so do the first ones.
    Slow,
}

/// A download that is under way.
#[derive(Debug)]
struct Going {
    line: TcpStream,
    /// How much of the line it had, as those had beside which it began.
    share: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of objects.
    went: usize,
    /// Of these, since the line ended last.
    since: usize,
    begun: usize,
    going: BTreeMap<usize, Going>,
    /// The most downloads that went at a time.
    most: usize,
    whole: usize,
    faults: usize,
    uploads: usize,
}

/// Somebody on this machine who sends objects over such a line, and speaks as a store and as a server.
#[derive(Debug)]
struct Place {
    port: u16,
    line: Arc<Line>,
}

#[derive(Debug)]
struct Line {
    fault: Fault,
    state: Mutex<State>,
    changed: Condvar,
}

impl Place {
    fn behind(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = Arc::new(Line {
            fault,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let noted = Arc::clone(&line);
        // It ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                let line = Arc::clone(&noted);
                thread::spawn(move || {
                    line.serve(&stream);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        });
        Self { port, line }
    }

    fn open(&self, url: &str) -> Arc<dyn Remote> {
        let url = url.replace("PORT", &self.port.to_string());
        Address::parse(&url).unwrap().open().unwrap()
    }
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Answers one request.
    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let (mut head, mut body_len) = (Vec::new(), 0);
        loop {
            let mut text = String::new();
            if reader.read_line(&mut text).unwrap_or(0) == 0 {
                return;
            }
            if text == "\r\n" {
                break;
            }
            if let Some(len) = text.to_lowercase().strip_prefix("content-length:") {
                body_len = len.trim().parse().unwrap();
            }
            head.push(text);
        }
        match head[0].split_once(' ').unwrap() {
            ("PUT", _) => self.take(&mut reader, body_len),
            ("GET", rest) => {
                let path = rest.split(' ').next().unwrap();
                let number = path.rsplit('/').next().unwrap();
                let number: u8 = number.split('?').next().unwrap().parse().unwrap();
                self.send(stream, number);
            }
            _ => {}
        }
    }

    /// Takes an upload; the first one breaks off in its middle.
    fn take(&self, reader: &mut BufReader<&TcpStream>, len: usize) {
        let is_first = {
            let mut state = self.state();
            state.uploads += 1;
            state.uploads == 1
        };
        let len = if is_first { len / 2 } else { len };
        if reader.read_exact(&mut vec![0; len]).is_ok() && !is_first {
            let mut stream: &TcpStream = reader.get_ref();
            let _ = stream.write_all(CREATED.as_bytes());
        }
    }

    /// Sends an object. The first ones begin together, and all that go at a time get the same share of the line.
    fn send(&self, mut stream: &TcpStream, object: u8) {
        let (id, before) = {
            let mut state = self.state();
            state.begun += 1;
            let id = state.begun;
            let share = state.going.values().map(|one| one.share).min();
            let going = Going {
                line: stream.try_clone().unwrap(),
                share: share.unwrap_or(0),
            };
            state.going.insert(id, going);
            state.most = state.most.max(state.going.len());
            self.changed.notify_all();
            let few = |state: &mut State| state.begun < TRANSFERS;
            let waited = self.changed.wait_timeout_while(state, PATIENCE, few);
            (id, waited.unwrap().0.went)
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LEN}\r\nconnection: close\r\n\r\n");
        let mut is_open = stream.write_all(head.as_bytes()).is_ok();
        let piece = [object; PIECE];
        for left in (0..LEN / PIECE).rev() {
            is_open = is_open && self.goes(id, before, left) && stream.write_all(&piece).is_ok();
        }
        let mut state = self.state();
        state.going.remove(&id);
        state.whole += usize::from(is_open);
        self.changed.notify_all();
    }

    /// Waits until it is the turn of that download, and says whether its next piece goes, behind which there are `left` more.
    fn goes(&self, id: usize, before: usize, left: usize) -> bool {
        let is_ahead = |state: &mut State| {
            let least = state.going.values().map(|one| one.share).min();
            let own = state.going.get(&id).map(|one| one.share);
            own > least
        };
        let waited = self.changed.wait_while(self.state(), is_ahead);
        let mut state = waited.unwrap();
        let Some(own) = state.going.get_mut(&id) else {
            return false;
        };
        own.share += PIECE;
        state.went += PIECE;
        state.since += PIECE;
        self.changed.notify_all();
        match self.fault {
            Fault::Drops if state.since > BUDGET => {
                (state.since, state.faults) = (0, state.faults + 1);
                for (_, one) in std::mem::take(&mut state.going) {
                    let _ = one.line.shutdown(Shutdown::Both);
                }
                false
            }
            Fault::Slow if left == 0 => {
                let of_others = (state.went - before).saturating_sub(LEN);
                let is_slow = id <= TRANSFERS || of_others > LEN;
                state.faults += usize::from(is_slow);
                !is_slow
            }
            _ => true,
        }
    }
}

/// Reads all objects, as many at a time as a pull does.
fn read_all(remote: &dyn Remote) {
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
                    let bytes = remote.read(&name, LEN as u64).unwrap().unwrap();
                    assert_eq!(bytes.len(), LEN);
                    assert!(bytes.iter().all(|byte| usize::from(*byte) == number));
                }
            });
        }
    });
}

/// Goal: on a line that carries one download, all of them arrive in the end, from a server as from an object store, with a bounded number of
/// downloads that break off; and six go at a time at first although an upload broke off before. Method: ten objects, six at a time; a line
/// that drops after little more than one object, and somebody who cuts what went more slowly than what went beside it. No store names a
/// version, so that a download that breaks off begins again. Everything is counted, nothing timed. Failed before: six went on side by side,
/// and none arrived.
#[test]
fn downloads_arrive_on_a_line_that_carries_one_at_a_time() {
    // First six break off, then three; beside another one each object at most once more, and never more than twice as often as that.
    const FAULTS_MAX: usize = 2 * (TRANSFERS + TRANSFERS / 2 + OBJECTS);
    for url in [
        "http://token@127.0.0.1:PORT/anna/photos",
        "s3://key:secret@bucket/vault?endpoint=http://127.0.0.1:PORT&region=here",
    ] {
        for fault in [Fault::Drops, Fault::Slow] {
            let place = Place::behind(fault);
            let remote = place.open(url);
            let name = ObjectName::new("segments/up").unwrap();
            let created = remote.create(&name, vec![7; LEN]);
            assert_eq!(created.unwrap(), Created::New, "{url} {fault:?}");
            read_all(&*remote);
            let state = place.line.state();
            assert!(state.uploads > 1, "{url} {fault:?}");
            assert!(state.whole >= OBJECTS, "{url} {fault:?}");
            assert!(state.most >= TRANSFERS, "{url} {fault:?}: {}", state.most);
            assert!(state.faults > 0, "{url} {fault:?}");
            assert!(
                state.faults <= FAULTS_MAX,
                "{url} {fault:?}: {}",
                state.faults
            );
        }
    }
}

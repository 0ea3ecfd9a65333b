//! Connections that end, or rest, at any stage of a request.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use strongroom_remote::{Address, Created, ObjectName};
use strongroom_server::{Tls, raise_open_files};
use support::{Place, first, said, start};

/// Connections that are half open at a time.
const HALF_OPEN: usize = 10_000;

/// Threads that open them.
const OPENING: usize = 8;

/// Files that this process needs beside them.
const OTHER_FILES: u64 = 500;

/// How long the end of a connection may take that rests: twice as long as the server lets it rest.
const PATIENCE: Duration = Duration::from_secs(60);

fn name(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

/// Waits until `is_so`.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

/// Nothing is under way but the request that asks for this.
fn is_quiet(place: &Place) -> bool {
    let metric = |name: &str| place.metric(&format!("strongroom_{name}"));
    metric("connections") == 1
        && ["uploads", "downloads", "followers"]
            .iter()
            .all(|name| metric(name) == 0)
}

/// Goal: whoever goes at any stage of a request leaves nothing: no file, no turn, no connection, and no object but a whole one. Method: an
/// upload is cut behind so many bytes; a download behind so many that came; those who wait go.
#[test]
fn who_goes_at_any_stage_of_a_request_leaves_nothing() {
    let place = Place::new();
    let long = vec![7_u8; 8 << 20];
    let created = place.vault("v").create(&name("segments/long"), long);
    assert_eq!(created.unwrap(), Created::New);
    until(|| is_quiet(&place));
    let bytes = vec![1_u8; 600_000];
    let token = &place.token;
    let head = format!(
        "PUT /v1/vaults/anna/v/objects/segments/a HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{}\r\n",
        said(&bytes)
    );
    let whole = [head.as_bytes(), &bytes].concat();
    let requests = || place.server.as_ref().unwrap().requests();
    for end in [
        0,
        1,
        head.len() - 1,
        head.len(),
        head.len() + 1,
        head.len() + 300_000,
        whole.len() - 1,
        whole.len(),
    ] {
        let before = requests();
        let mut line = TcpStream::connect(place.address()).unwrap();
        line.write_all(&whole[..end]).unwrap();
        if end >= head.len() {
            until(|| requests() > before);
        }
        drop(line);
        // What came whole may be created although its sender has gone.
        until(|| is_quiet(&place) && place.files("moving") == 0);
        let vault = place.vault("v");
        let read = vault.read(&name("segments/a"), 1 << 20).unwrap();
        match read {
            Some(read) => {
                assert!(end == whole.len() && read == bytes, "{end}");
                vault.remove(&name("segments/a")).unwrap();
            }
            None => assert_eq!(place.files("objects"), 1, "{end}"),
        }
    }
    for count in [0, 1, 100_000] {
        let mut line = place.begin("GET", "objects/segments/long", "");
        let mut came = vec![0; count];
        line.read_exact(&mut came).unwrap();
        drop(line);
        until(|| is_quiet(&place));
    }
    for below in ["publications?after=0&wait=50", "publications/events"] {
        let line = place.begin("GET", below, "");
        until(|| place.metric("strongroom_followers") == 1);
        drop(line);
        until(|| is_quiet(&place));
    }
    let mut line = place.begin("POST", "login", "content-length: 1000\r\n");
    line.write_all(b"{").unwrap();
    drop(line);
    until(|| is_quiet(&place));
}

/// Passes connections on to `at`, and cuts the first one on which so many bytes have come; gives where it listens, and counts what comes.
fn cut_once(at: SocketAddr, behind: u64) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let (counted, is_cut) = (Arc::clone(&sent), Arc::new(AtomicBool::new(false)));
    thread::spawn(move || {
        for near in listener.incoming().map(Result::unwrap) {
            let far = TcpStream::connect(at).unwrap();
            let (mut back, mut to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut back, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
            let (counted, is_cut) = (Arc::clone(&counted), Arc::clone(&is_cut));
            let passed = move |on_this: u64, more: u64| {
                counted.fetch_add(more, Ordering::SeqCst);
                on_this < behind || is_cut.swap(true, Ordering::SeqCst)
            };
            thread::spawn(move || pass_on(&near, &far, passed));
        }
    });
    (own, sent)
}

/// Passes on what comes, until one of both ends, or `goes_on` says no: it hears how much came in all, and how much of it just now.
fn pass_on(mut near: &TcpStream, mut far: &TcpStream, goes_on: impl Fn(u64, u64) -> bool) {
    let (mut piece, mut passed) = (vec![0; 1 << 16], 0);
    while let Ok(count @ 1..) = near.read(&mut piece) {
        passed += count as u64;
        if far.write_all(&piece[..count]).is_err() || !goes_on(passed, count as u64) {
            break;
        }
    }
    for one in [near, far] {
        let _ = one.shutdown(Shutdown::Both);
    }
}

/// Goal: an upload whose line drops begins again by itself, and costs what had gone before and nothing else. Method: the longest object that
/// devices send, and a line that ends once most of it has gone; what passed is counted.
/// ADR 43.
#[test]
fn an_upload_whose_line_drops_begins_again_and_costs_no_more_than_itself() {
    const LEN: usize = 16 << 20;
    const CUT_AT: u64 = 12 << 20;
    // Heads of requests, and the piece that passes the mark.
    const BESIDE: u64 = 256 << 10;
    let place = Place::new();
    let (at, sent) = cut_once(place.address(), CUT_AT);
    let url = format!("http://{}@{at}/anna/v", place.token);
    let device = Address::parse(&url).unwrap().open().unwrap();
    let bytes = vec![5_u8; LEN];
    let created = device.create(&name("segments/long"), bytes.clone());
    assert_eq!(created.unwrap(), Created::New);
    let (sent, len) = (sent.load(Ordering::SeqCst), LEN as u64);
    let expected = len + CUT_AT..=len + CUT_AT + BESIDE;
    assert!(expected.contains(&sent), "{sent}");
    let read = place.vault("v").read(&name("segments/long"), len).unwrap();
    assert!(read.unwrap() == bytes);
    until(|| place.files("moving") == 0);
    assert_eq!(place.files("objects"), 1);
}

/// A connection on which so much comes, and no more.
fn half_open(at: SocketAddr, begins: &[u8]) -> TcpStream {
    let mut line = TcpStream::connect(at).unwrap();
    line.set_read_timeout(Some(PATIENCE)).unwrap();
    line.write_all(begins).unwrap();
    line
}

/// Whether the server has ended the connection, or refused what came on it.
fn has_ended(line: &TcpStream) -> bool {
    line.set_nonblocking(true).unwrap();
    let peeked = line.peek(&mut [0]);
    line.set_nonblocking(false).unwrap();
    !matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// Fails unless the server ends the connection.
fn assert_ends(mut line: TcpStream) {
    let mut rest = Vec::new();
    if let Err(error) = line.read_to_end(&mut rest) {
        let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        assert!(!is_late, "it rests for longer than it may");
    }
}

/// Goal: ten thousand connections on which nothing more comes hold nobody up, and end; so does a body that does not come, and a handshake. Method:
/// all rest at once, for half a minute; fewer where the system allows no more open files.
#[test]
fn connections_that_rest_hold_nobody_up_and_end() {
    raise_open_files();
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Both ends are in this process.
    let room = files.saturating_sub(OTHER_FILES) / 2;
    let count = usize::try_from(room).map_or(HALF_OPEN, |room| room.min(HALF_OPEN));
    if count < HALF_OPEN {
        eprintln!(
            "only {count} connections instead of {HALF_OPEN}: the system allows {files} open files (ulimit -Hn)"
        );
    }
    let place = Place::new();
    let at = place.address();
    let open = |number: usize| match number % 2 {
        0 => half_open(at, b""),
        _ => half_open(at, b"GET /healthz HTTP/1.1\r\nhost: "),
    };
    // From several threads: on a busy machine one would need longer than the first connection may rest.
    let resting: Vec<TcpStream> = thread::scope(|scope| {
        let parts: Vec<_> = (0..OPENING)
            .map(|part| scope.spawn(move || (part..count).step_by(OPENING).map(open).collect()))
            .collect();
        let opened = parts.into_iter().map(|part| part.join().unwrap());
        opened.flat_map(|part: Vec<TcpStream>| part).collect()
    });
    let folder = tempfile::tempdir().unwrap();
    let with_tls = start(folder.path(), Tls::SelfSigned);
    let handshakes = [
        half_open(with_tls.address(), b""),
        // The beginning of a greeting.
        half_open(with_tls.address(), &[0x16, 3, 1, 1, 0, 1]),
    ];
    let mut object = place.begin("PUT", "objects/segments/slow", &said(b"0123456789"));
    object.write_all(b"01234").unwrap();
    let mut login = place.begin("POST", "login", "content-length: 10\r\n");
    login.write_all(b"{").unwrap();
    let metric = || usize::try_from(place.metric("strongroom_connections")).unwrap();
    until(|| metric() > count || has_ended(&resting[0]));
    // Others are served meanwhile.
    let vault = place.vault("v");
    let one = name("segments/a");
    let bytes = vec![3_u8; 700_000];
    assert_eq!(vault.create(&one, bytes.clone()).unwrap(), Created::New);
    assert!(vault.read(&one, 1 << 20).unwrap().unwrap() == bytes);
    drop(vault);
    for line in [object, login] {
        let refused = first(line);
        assert_eq!((refused.status, refused.code()), (408, "slow"));
    }
    resting.into_iter().chain(handshakes).for_each(assert_ends);
    until(|| is_quiet(&place));
    assert_eq!((place.files("objects"), place.files("moving")), (1, 0));
}

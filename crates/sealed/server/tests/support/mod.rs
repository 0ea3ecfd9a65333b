//! Servers on loopback for tests, and requests written by hand.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod document;
pub(crate) mod scaled;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scaled::Services;
use strongroom_remote::{Address, Remote};
use strongroom_server::limits::REQUESTS_PER_SECOND;
use strongroom_server::{Accounts, Quota, Server, Settings, Storage, Tls};

/// A server with the account `anna`, and what it keeps.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) token: String,
    pub(crate) server: Option<Server>,
    /// What it has in the place of the folder, if it is an instance of several.
    pub(crate) services: Option<Services>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(Quota::default())
    }

    pub(crate) fn with(quota: Quota) -> Self {
        Self::on(None, quota)
    }

    /// An instance with a database and an object store; `None` if there are none.
    pub(crate) fn scaled() -> Option<Self> {
        Some(Self::on(Some(Services::new()?), Quota::default()))
    }

    /// One that is alone, and one that is an instance of several.
    pub(crate) fn each() -> impl Iterator<Item = Self> {
        [Some(Self::new()), Self::scaled()].into_iter().flatten()
    }

    pub(crate) fn on(services: Option<Services>, quota: Quota) -> Self {
        let mut place = Self {
            folder: tempfile::tempdir().unwrap(),
            token: String::new(),
            server: None,
            services,
        };
        let token = place.accounts().add("anna", quota).unwrap();
        token.reveal().clone_into(&mut place.token);
        place.server = Some(place.instance());
        place
    }

    pub(crate) fn storage(&self) -> Storage {
        match &self.services {
            Some(services) => services.storage(),
            None => self.folder.path().into(),
        }
    }

    pub(crate) fn accounts(&self) -> Accounts {
        Accounts::open(self.storage()).unwrap()
    }

    /// A further server on the same.
    pub(crate) fn instance(&self) -> Server {
        start(self.storage(), Tls::Off)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().address()
    }

    /// The vault of that name of `anna`.
    pub(crate) fn vault(&self, name: &str) -> Arc<dyn Remote> {
        self.remote(&self.token, "anna", name)
    }

    pub(crate) fn remote(&self, token: &str, account: &str, vault: &str) -> Arc<dyn Remote> {
        remote_at(self.address(), token, account, vault)
    }

    /// The vault of that name of `anna` at another instance.
    pub(crate) fn vault_at(&self, server: &Server, name: &str) -> Arc<dyn Remote> {
        remote_at(server.address(), &self.token, "anna", name)
    }

    pub(crate) fn restart(&mut self) {
        self.server.take().unwrap().stop();
        self.server = Some(self.instance());
    }

    /// Asks below `/v1/vaults/anna/v/` with the token of `anna`, with these further lines of the head.
    pub(crate) fn ask(&self, method: &str, below: &str, head: &str, body: &[u8]) -> Answer {
        let path = format!("/v1/vaults/anna/v/{below}");
        let head = format!("authorization: Bearer {}\r\n{head}", self.token);
        ask(self.address(), method, &path, &head, body)
    }

    /// Begins a request below `/v1/vaults/anna/v/` with the token of `anna`; its body and its answer are left to the caller.
    pub(crate) fn begin(&self, method: &str, below: &str, head: &str) -> TcpStream {
        let mut line = TcpStream::connect(self.address()).unwrap();
        line.set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let head = format!(
            "{method} /v1/vaults/anna/v/{below} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n{head}\r\n",
            self.token
        );
        line.write_all(head.as_bytes()).unwrap();
        line
    }

    /// The value of a metric of the server.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let at = self.server.as_ref().unwrap().metrics().unwrap();
        let text = String::from_utf8(ask(at, "GET", "/metrics", "", b"").body).unwrap();
        let value = |line: &str| {
            let rest = line.strip_prefix(name)?.strip_prefix(' ')?;
            rest.parse().ok()
        };
        text.lines().find_map(value).unwrap()
    }

    /// Files below a folder of the server, or what corresponds to it.
    pub(crate) fn files(&self, below: &str) -> usize {
        match (&self.services, below) {
            (None, _) => count(&self.folder.path().join(below)),
            (Some(services), "objects") => services.stored().len(),
            (Some(services), "moving") => services.moving(),
            (Some(_), _) => panic!("there is no {below}"),
        }
    }
}

fn remote_at(at: SocketAddr, token: &str, account: &str, vault: &str) -> Arc<dyn Remote> {
    let url = format!("http://{token}@{at}/{account}/{vault}");
    Address::parse(&url).unwrap().open().unwrap()
}

/// Says so when it is dropped, also by a failed test: those who go on until then end.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn count(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => count(&entry.path()),
            false => 1,
        })
        .sum()
}

pub(crate) fn accounts(folder: &Path) -> Accounts {
    Accounts::open(folder).unwrap()
}

/// A server that answers with its metrics, too.
pub(crate) fn start(storage: impl Into<Storage>, tls: Tls) -> Server {
    start_at(storage, tls, "127.0.0.1:0".parse().unwrap())
}

/// The same at that address.
pub(crate) fn start_at(storage: impl Into<Storage>, tls: Tls, listen: SocketAddr) -> Server {
    start_bounded(storage, tls, listen, REQUESTS_PER_SECOND)
}

/// The same with another bound for requests.
pub(crate) fn start_bounded(
    storage: impl Into<Storage>,
    tls: Tls,
    listen: SocketAddr,
    requests_per_second: u32,
) -> Server {
    let anywhere = "127.0.0.1:0".parse().unwrap();
    Server::start(&Settings {
        storage: storage.into(),
        listen,
        tls,
        metrics: Some(anywhere),
        names: Vec::new(),
        requests_per_second,
    })
    .unwrap()
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The code of the refusal.
    pub(crate) fn code(&self) -> &str {
        let line = self
            .head
            .lines()
            .find_map(|line| line.strip_prefix("strongroom-refusal: "));
        line.unwrap_or("none")
    }

    /// The value of a header, whose name is in small letters; nothing if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        let lines = self.head.lines();
        let found = lines.filter_map(|line| line.split_once(": "));
        let mut own = found.filter(|(of, _)| *of == name);
        own.next().map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

/// A request whose head is as it is given, but for host and connection. Its answer is as the document of the server says.
pub(crate) fn ask(at: SocketAddr, method: &str, path: &str, head: &str, body: &[u8]) -> Answer {
    let line = send(at, method, path, head.as_bytes(), body);
    if path == "/metrics" {
        return answer(line);
    }
    let answer = match method == "GET" && path.contains("/events") {
        true => first(line),
        false => answer(line),
    };
    document::check(method, path, &answer);
    answer
}

/// Sends a request whose head is as it is given, but for host and connection.
pub(crate) fn send(
    at: SocketAddr,
    method: &str,
    path: &str,
    head: &[u8],
    body: &[u8],
) -> TcpStream {
    let mut line = TcpStream::connect(at).unwrap();
    line.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let first = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    let whole = [first.as_bytes(), head, b"\r\n"].concat();
    // The server may have answered and closed already.
    let _ = line.write_all(&whole).and_then(|()| line.write_all(body));
    line
}

/// What comes until the end of the head, and as much of the body as the head says.
pub(crate) fn first(line: TcpStream) -> Answer {
    let mut line = BufReader::new(line);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(
            line.read_line(&mut head).unwrap(),
            0,
            "an answer has a head"
        );
    }
    let mut answer = of_head(head.trim_end().to_owned());
    answer.body = vec![0; answer.header("content-length").parse().unwrap_or(0)];
    line.read_exact(&mut answer.body).unwrap();
    answer
}

fn of_head(head: String) -> Answer {
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head,
        body: Vec::new(),
    }
}

/// What comes until the end of the line.
pub(crate) fn answer(mut line: TcpStream) -> Answer {
    let mut came = Vec::new();
    // Broken off by who does not read what was sent: what came before counts.
    let _ = line.read_to_end(&mut came);
    let end = came
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("an answer has a head");
    let mut answer = of_head(String::from_utf8(came[..end].to_vec()).unwrap());
    answer.body = came[end + 4..].to_vec();
    answer
}

/// What a request says about these bytes.
pub(crate) fn said(bytes: &[u8]) -> String {
    let hash = blake3::hash(bytes).to_hex();
    format!(
        "content-length: {}\r\nstrongroom-blake3: {hash}\r\n",
        bytes.len()
    )
}

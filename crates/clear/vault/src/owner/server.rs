//! Serves the clients of a vault that this process owns.
//!
//! Takes   connections of processes of the same user
//! Gives   a session for each client, and answers to its requests, in order on each connection
//! Never   lets a client that vanishes keep anything open, or loses a request when the owner leaves
//!
//! Invariants
//!  (1) A request that was read whole is answered: with its result, or with `Leaving` if it was not carried out.
//!  (2) After `stop` no thread of the server uses the file system.

use std::collections::HashMap;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use strongroom_filesystem::{Caller, Checks};

use crate::execute::execute;
use crate::execute::session::{OpenVault, Session};
use crate::limits::{CLOSE_WAIT_MS, CONNECTIONS_MAX, SESSION_IDLE_MS};
use crate::owner::socket::{Listener, is_same_user};
use crate::request::failure::Failure;
use crate::request::frame::{self, Arrival};
use crate::request::lock::Patience;
use crate::request::{Access, Greeting, PROTOCOL, Request, Response, Successor, Welcome};
use crate::{Error, Result};

/// How long a client may take to greet, or to take an answer, before it is cut off.
const SOCKET_WAIT: Duration = Duration::from_secs(30);

/// The serving side of an owner.
pub(crate) struct Server {
    shared: Arc<Shared>,
    /// The accepting thread, and what is dropped to end it.
    accepting: Mutex<Option<(JoinHandle<()>, UnixStream)>>,
    /// The connections at the time of `stop`: they wait for a last word.
    stopped: Mutex<Vec<UnixStream>>,
}

struct Shared {
    vault: Arc<OpenVault>,
    listener: Listener,
    clients: Mutex<Clients>,
    /// Told when a session gets idle or a connection ends.
    changed: Condvar,
}

#[derive(Default)]
struct Clients {
    next: u64,
    sessions: HashMap<u64, ClientSession>,
    streams: HashMap<u64, UnixStream>,
    threads: HashMap<u64, JoinHandle<()>>,
    leaving: bool,
}

struct ClientSession {
    session: Arc<Session>,
    successor: Successor,
    connections: usize,
    busy: usize,
    last_request: Instant,
}

impl ClientSession {
    /// Whether the owner can leave without this client losing anything, now or at the time given back.
    fn is_ready(&self, now: Instant) -> std::result::Result<(), Instant> {
        let idle_at = self.last_request + Duration::from_millis(SESSION_IDLE_MS);
        // Who waits for the push of another session is idle.
        let turns = &self.session.vault.push_turns;
        let is_idle = self.busy <= turns.waiting_count(self.session.number);
        let free =
            is_idle && self.session.holds_nothing() && self.successor == Successor::HasSecret;
        if free || (is_idle && idle_at <= now) {
            Ok(())
        } else {
            Err(idle_at)
        }
    }
}

impl Server {
    /// Begins to serve those who connect to `listener`.
    pub(crate) fn start(vault: Arc<OpenVault>, listener: Listener) -> Result<Self> {
        let (wake, woken) = UnixStream::pair().map_err(Error::io("making a socket pair"))?;
        let clients = Mutex::default();
        let shared = Arc::new(Shared {
            vault,
            listener,
            clients,
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        let thread = thread::Builder::new().name("vault-accept".to_owned());
        let started = thread.spawn(move || accept(&accepting, &woken));
        let started = started.map_err(Error::io("starting a thread"))?;
        Ok(Self {
            shared,
            accepting: Mutex::new(Some((started, wake))),
            stopped: Mutex::default(),
        })
    }

    /// How many sessions there are.
    pub(crate) fn session_count(&self) -> usize {
        self.shared.clients.lock().sessions.len()
    }

    /// Whether every client but session `asker` can do without this owner now, and go on at one with the access `next`; then all that
    /// they ask is answered with `Leaving`.
    pub(crate) fn refuses_if_free(&self, asker: u64, next: Access) -> bool {
        let mut clients = self.shared.clients.lock();
        let now = Instant::now();
        let is_free = clients.sessions.values().all(|client| {
            let keeps_push = next == Access::ReadOnly && client.session.is_pushing();
            client.session.number == asker || (client.is_ready(now).is_ok() && !keeps_push)
        });
        if is_free {
            clients.leaving = true;
            // Before the push of this process ends: nobody begins one here instead.
            self.shared.vault.push_turns.end();
        }
        is_free
    }

    /// Waits until every client can do without this owner, then ends all sessions.                           (2)
    ///
    /// Waits for a session that is busy, holds files open or cannot open the vault by itself, but not for one that
    /// asks nothing for `SESSION_IDLE_MS`, and for none longer than `CLOSE_WAIT_MS`.
    pub(crate) fn stop(&self) {
        let deadline = Instant::now() + Duration::from_millis(CLOSE_WAIT_MS);
        let mut clients = self.shared.clients.lock();
        loop {
            let now = Instant::now();
            let waits = clients
                .sessions
                .values()
                .filter_map(|session| session.is_ready(now).err());
            let Some(next) = waits.min().filter(|_| now < deadline) else {
                break;
            };
            self.shared.changed.wait_until(
                &mut clients,
                next.max(now + Duration::from_millis(1)).min(deadline),
            );
        }
        clients.leaving = true;
        self.shared.listener.hide();
        let open = clients.streams.values();
        self.stopped
            .lock()
            .extend(open.filter_map(|stream| stream.try_clone().ok()));
        for stream in clients.streams.values() {
            // What arrived before is still read, and answered with `Leaving`; nothing arrives after.           (1)
            let _ = stream.shutdown(Shutdown::Read);
        }
        drop(clients);
        self.shared.vault.push_turns.end();
        // Waited for to the very end: a thread that drops the last part of the file system while the process exits
        // meets libraries that have cleaned up already.
        if let Some((thread, wake)) = self.accepting.lock().take() {
            drop(wake);
            join(thread);
        }
        let threads = std::mem::take(&mut self.shared.clients.lock().threads);
        threads.into_values().for_each(join);
    }
}

impl Server {
    /// Ends the connections that were open at `stop`; tells those who are there that nothing is lost, if `is_durable`.
    pub(crate) fn part(&self, is_durable: bool) {
        let mut frame = Vec::new();
        for mut stream in self.stopped.lock().drain(..) {
            if is_durable {
                // Who has gone needs it no more, and who does not read must not hold this up.
                let told = stream
                    .set_nonblocking(true)
                    .map_err(Error::io("setting up a socket"))
                    .and_then(|()| frame::send(&mut stream, &mut frame, &Response::Left));
                if let Err(error) = told {
                    log::debug!("a client does not learn that the vault was closed: {error}");
                }
            }
        }
    }
}

/// Waits for a thread, unless it is this one: an observer may hold the last part of the vault.
fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        // A panic has been reported by the thread itself; here only its end counts.
        let _ = thread.join();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes connections until the other end of `woken` goes.
fn accept(shared: &Arc<Shared>, woken: &UnixStream) {
    while let Some(bound) = shared.listener.bound() {
        let mut waits = vec![
            PollFd::new(&bound.socket, PollFlags::IN),
            PollFd::new(woken, PollFlags::IN | PollFlags::HUP),
        ];
        let watch = bound.kept.watch();
        waits.extend(
            watch
                .as_ref()
                .map(|watch| PollFd::new(watch, PollFlags::IN)),
        );
        match poll(&mut waits, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !waits[1].revents().is_empty() => return,
            Ok(_) => {}
        }
        if waits
            .get(2)
            .is_some_and(|watch| !watch.revents().is_empty())
        {
            shared.listener.come_back();
        }
        if waits[0].revents().is_empty() {
            continue;
        }
        let Ok((stream, _)) = bound.socket.accept() else {
            continue;
        };
        if !is_same_user(&stream).unwrap_or(false) {
            continue;
        }
        begin(shared, stream);
    }
}

/// Gives a connection its thread.
fn begin(shared: &Arc<Shared>, stream: UnixStream) {
    let copy = stream.try_clone();
    begin_with(shared, stream, copy);
}

/// The same; `copy`: a second descriptor of it, or why there is none.
fn begin_with(shared: &Arc<Shared>, mut stream: UnixStream, copy: std::io::Result<UnixStream>) {
    // Without a descriptor or a thread for it this owner is full. A client that it hangs up on takes it for gone.
    let Ok(copy) = copy else {
        return refuse(&mut stream);
    };
    let number = {
        let mut clients = shared.clients.lock();
        if clients.leaving {
            return;
        }
        if clients.streams.len() >= CONNECTIONS_MAX {
            return refuse(&mut stream);
        }
        clients.next += 1;
        let number = clients.next;
        clients.streams.insert(number, copy);
        clients.threads.retain(|_, thread| !thread.is_finished());
        number
    };
    let serving = Arc::clone(shared);
    let thread = thread::Builder::new().name("vault-client".to_owned());
    let started = thread.spawn(move || {
        let connection = Connection {
            shared: &serving,
            number,
        };
        // A broken connection concerns only its client, who sees it broken.
        let _ = connection.serve(&mut stream);
    });
    match started {
        Ok(thread) => {
            shared.clients.lock().threads.insert(number, thread);
        }
        Err(_) => {
            let copy = shared.clients.lock().streams.remove(&number);
            copy.into_iter().for_each(|mut copy| refuse(&mut copy));
        }
    }
}

/// Says that no further connection can be served now.
fn refuse(stream: &mut UnixStream) {
    let mut frame = Vec::new();
    if frame::encode(&mut frame, &Welcome::Full).is_ok() {
        // The client waits; if it has gone instead, nobody is left to tell.
        let _ = stream.write(&frame);
    }
}

/// One connection while it is served; cleans up after itself even if a request panics.
struct Connection<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.shared.clients.lock().streams.remove(&self.number);
    }
}

impl Connection<'_> {
    fn serve(&self, stream: &mut UnixStream) -> Result<()> {
        let socket = Error::io("setting up a socket");
        stream
            .set_read_timeout(Some(SOCKET_WAIT))
            .and_then(|()| stream.set_write_timeout(Some(SOCKET_WAIT)))
            .map_err(socket)?;
        let mut buffer = Vec::new();
        let mut answer = Vec::new();
        if frame::receive(stream, &mut buffer)? == Arrival::Closed {
            return Ok(());
        }
        let greeting: Greeting = frame::decode(&buffer)?;
        let (joined, welcome) = self.join(&greeting, stream)?;
        frame::send(stream, &mut answer, &welcome)?;
        let Some(joined) = joined else { return Ok(()) };
        stream
            .set_read_timeout(None)
            .map_err(Error::io("setting up a socket"))?;
        while frame::receive(stream, &mut buffer)? == Arrival::Frame {
            let response = joined.answer(&buffer);
            if let Err(Error::Protocol(_)) = frame::encode(&mut answer, &response) {
                let failure = Failure::Storage("the answer is too long for a message".to_owned());
                frame::encode(&mut answer, &Response::Failed(failure))?;
            }
            stream
                .write_all(&answer)
                .map_err(Error::io("writing to the socket of the vault"))?;
        }
        Ok(())
    }

    /// Finds or makes the session that `greeting` asks for.
    fn join(
        &self,
        greeting: &Greeting,
        stream: &UnixStream,
    ) -> Result<(Option<Joined<'_>>, Welcome)> {
        if greeting.protocol != PROTOCOL {
            return Ok((None, Welcome::OtherVersion));
        }
        let peer = rustix::net::sockopt::socket_peercred(stream);
        let peer = peer.map_err(Error::system("identifying the other process of the socket"))?;
        let mut clients = self.shared.clients.lock();
        let number = match greeting.session {
            Some(number) if clients.sessions.contains_key(&number) => number,
            Some(_) => return Ok((None, Welcome::UnknownSession)),
            None => {
                clients.next += 1;
                clients.next
            }
        };
        let entry = clients.sessions.entry(number).or_insert_with(|| {
            let caller = Caller {
                uid: peer.uid.as_raw(),
                gid: peer.gid.as_raw(),
                groups: Vec::new(),
                checks: Checks::Above,
            };
            ClientSession {
                session: Arc::new(Session::new(
                    Arc::clone(&self.shared.vault),
                    caller,
                    greeting.access,
                )),
                successor: greeting.successor,
                connections: 0,
                busy: 0,
                last_request: Instant::now(),
            }
        });
        entry.connections += 1;
        let joined = Joined {
            shared: self.shared,
            number,
            session: Arc::clone(&entry.session),
        };
        Ok((Some(joined), Welcome::Session(number)))
    }
}

/// A connection's part in its session; the last one to go ends it.
struct Joined<'a> {
    shared: &'a Shared,
    number: u64,
    session: Arc<Session>,
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let ended = {
            let mut clients = self.shared.clients.lock();
            let last = clients
                .sessions
                .get_mut(&self.number)
                .is_some_and(|client| {
                    client.connections -= 1;
                    client.connections == 0
                });
            if last {
                clients.sessions.remove(&self.number)
            } else {
                None
            }
        };
        drop(ended); // outside of the lock: it gives references back to the file system
        self.shared.changed.notify_all();
    }
}

impl Joined<'_> {
    fn answer(&self, message: &[u8]) -> Response {
        let request = match frame::decode::<Request<'_>>(message) {
            Ok(request) => request,
            Err(error) => return Response::failed(&error),
        };
        // Who waits for a lock is idle: an owner that closes waits for nobody who waits for others.
        let waits = matches!(
            request,
            Request::Lock {
                patience: Patience::AMoment,
                ..
            }
        );
        let busy = match waits {
            true => None,
            false => Busy::begin(self),
        };
        if busy.is_none() && (!waits || self.shared.clients.lock().leaving) {
            return Response::Leaving;
        }
        match execute(&self.session, &request) {
            // It waited for its turn in vain, and did nothing.                                                   (1)
            Err(Error::Closed) => Response::Leaving,
            answer => answer.unwrap_or_else(|error| Response::failed(&error)),
        }
    }
}

/// Counts a request while it is carried out.
struct Busy<'a> {
    joined: &'a Joined<'a>,
}

impl<'a> Busy<'a> {
    fn begin(joined: &'a Joined<'a>) -> Option<Self> {
        let mut clients = joined.shared.clients.lock();
        if clients.leaving {
            return None;
        }
        clients.sessions.get_mut(&joined.number)?.busy += 1;
        Some(Self { joined })
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if let Some(client) = self
            .joined
            .shared
            .clients
            .lock()
            .sessions
            .get_mut(&self.joined.number)
        {
            client.busy -= 1;
            client.last_request = Instant::now();
        }
        self.joined.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::owner::port::Port;
    use crate::{CreateOptions, Vault};

    /// Goal: an owner that has no descriptor left for a further connection is not taken for one that has gone. Failed before: it hung up, and
    /// the client gave up the session that it had.
    #[test]
    fn who_cannot_be_served_for_want_of_descriptors_hears_that_the_owner_is_full() {
        let place = tempfile::tempdir().unwrap();
        let created = Vault::create(place.path().join("vault"), CreateOptions::new());
        let vault = created.unwrap().vault;
        let Port::Owner(owner) = vault.port() else {
            panic!("it was made here")
        };
        let server = owner.server.as_ref().expect("it serves clients");
        let (stream, mut client) = UnixStream::pair().unwrap();
        begin_with(&server.shared, stream, Err(ErrorKind::Other.into()));
        let mut buffer = Vec::new();
        let arrived = frame::receive(&mut client, &mut buffer).unwrap();
        assert_eq!(arrived, Arrival::Frame);
        assert!(matches!(frame::decode(&buffer), Ok(Welcome::Full)));
        drop(owner);
        vault.close().unwrap();
    }
}

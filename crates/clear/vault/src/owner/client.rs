//! Sends requests to the owner of a vault: another process, or another opening of the vault in this process.
//!
//! Takes   requests
//! Gives   the owner's answers; if none comes, whether the request may have been carried out
//! Never   sends a key, or repeats a request that may have been carried out

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::folder::Folder;
use crate::limits::{CLIENT_CONNECTIONS_MAX, GREETING_WAIT_MS};
use crate::owner::socket;
use crate::request::frame::{self, Arrival};
use crate::request::{Access, Greeting, PROTOCOL, Request, Response, Successor, Welcome};
use crate::retry::OWNER_WAIT;
use crate::{Error, Result};

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The owner has left or is leaving; the request was not carried out.
    NotDone,
    /// The owner has gone while it had the request: it may have been carried out or not.
    Unknown,
    /// Something else.
    Failed(Error),
}

/// A session with the owner.
pub(crate) struct Client {
    folder: Folder,
    greeting: Greeting,
    pool: Mutex<Pool>,
    returned: Condvar,
    gone: AtomicBool,
    /// It said that everything it acknowledged is durable.
    pub(crate) has_left: AtomicBool,
    /// How many writes of this process a sync of the vault through this owner covered.
    pub(crate) synced: AtomicU64,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Connection>,
    /// Idle ones and those in use.
    count: usize,
}

struct Connection {
    stream: UnixStream,
    buffer: Vec<u8>,
}

/// What greeting an owner gave.
enum Greeted {
    Session(Connection, u64),
    /// It went before it answered, or knows the session no more.
    Gone,
}

impl Client {
    /// Connects to the owner of `folder`; `None` if nobody listens.
    pub(crate) fn connect(
        folder: &Folder,
        access: Access,
        successor: Successor,
    ) -> Result<Option<Self>> {
        let greeting = Greeting {
            protocol: PROTOCOL,
            session: None,
            access,
            successor,
        };
        let Some(stream) = socket::connect(folder)? else {
            return Ok(None);
        };
        let Greeted::Session(connection, session) = greet(stream, &greeting)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            folder: folder.clone(),
            greeting: Greeting {
                session: Some(session),
                ..greeting
            },
            pool: Mutex::new(Pool {
                idle: vec![connection],
                count: 1,
            }),
            returned: Condvar::new(),
            gone: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            synced: AtomicU64::default(),
        }))
    }

    /// Whether the owner is known to have gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Asks; many threads may at once.
    pub(crate) fn ask(&self, request: &Request<'_>) -> std::result::Result<Response, Unanswered> {
        let mut connection = self.take()?;
        let answer = connection.ask(request);
        match answer {
            Ok(Response::Leaving) => {
                if connection.hears_that_it_left() {
                    self.has_left.store(true, Ordering::Release);
                }
                self.lose();
                Err(Unanswered::NotDone)
            }
            Ok(Response::Left) => {
                self.has_left.store(true, Ordering::Release);
                self.lose();
                Err(Unanswered::NotDone)
            }
            Ok(response) => {
                self.give_back(connection);
                Ok(response)
            }
            Err(Unanswered::Failed(error)) => {
                // Nothing was sent: the connection is as good as before.
                self.give_back(connection);
                Err(Unanswered::Failed(error))
            }
            Err(Unanswered::Unknown) if request.is_repeatable() => {
                self.lose();
                Err(Unanswered::NotDone)
            }
            Err(unanswered) => {
                self.lose();
                Err(unanswered)
            }
        }
    }

    /// An idle connection, a new one, or the next that is given back.
    fn take(&self) -> std::result::Result<Connection, Unanswered> {
        let mut pool = self.pool.lock();
        loop {
            if self.is_gone() {
                return Err(Unanswered::NotDone);
            }
            if let Some(connection) = pool.idle.pop() {
                return Ok(connection);
            }
            if pool.count < CLIENT_CONNECTIONS_MAX {
                pool.count += 1;
                drop(pool);
                return self.join();
            }
            self.returned.wait(&mut pool);
        }
    }

    /// One more connection for the session.
    fn join(&self) -> std::result::Result<Connection, Unanswered> {
        let joined = match socket::connect(&self.folder) {
            Ok(Some(stream)) => greet(stream, &self.greeting),
            Ok(None) => Ok(Greeted::Gone),
            Err(error) => Err(error),
        };
        match joined {
            Ok(Greeted::Session(connection, _)) => Ok(connection),
            Ok(Greeted::Gone) => {
                self.lose();
                Err(Unanswered::NotDone)
            }
            Err(error) => {
                self.pool.lock().count -= 1;
                self.returned.notify_one();
                Err(Unanswered::Failed(error))
            }
        }
    }

    fn give_back(&self, connection: Connection) {
        self.pool.lock().idle.push(connection);
        self.returned.notify_one();
    }

    /// Notes that the owner has gone, and wakes those who wait for a connection.
    fn lose(&self) {
        self.gone.store(true, Ordering::Release);
        let mut pool = self.pool.lock();
        pool.count -= 1;
        pool.idle.clear();
        self.returned.notify_all();
    }
}

impl Connection {
    fn ask(&mut self, request: &Request<'_>) -> std::result::Result<Response, Unanswered> {
        frame::encode(&mut self.buffer, request).map_err(Unanswered::Failed)?;
        if self.stream.write_all(&self.buffer).is_err() {
            // A frame that was not written whole is not carried out.
            return match self.hears_that_it_left() {
                true => Ok(Response::Left),
                false => Err(Unanswered::NotDone),
            };
        }
        match frame::receive(&mut self.stream, &mut self.buffer) {
            Ok(Arrival::Frame) => {}
            Ok(Arrival::Closed) | Err(_) => return Err(Unanswered::Unknown),
        }
        frame::decode(&self.buffer).map_err(|_| Unanswered::Unknown)
    }
}

impl Connection {
    /// Whether the owner, which answers nothing any more, says within `OWNER_WAIT` that it has closed and nothing is lost.
    fn hears_that_it_left(&mut self) -> bool {
        let waits = self.stream.set_read_timeout(Some(OWNER_WAIT));
        waits.is_ok()
            && matches!(
                frame::receive(&mut self.stream, &mut self.buffer),
                Ok(Arrival::Frame)
            )
            && matches!(frame::decode(&self.buffer), Ok(Response::Left))
    }
}

fn greet(mut stream: UnixStream, greeting: &Greeting) -> Result<Greeted> {
    let wait = Duration::from_millis(GREETING_WAIT_MS);
    stream
        .set_read_timeout(Some(wait))
        .map_err(Error::io("setting up a socket"))?;
    let mut buffer = Vec::new();
    // An owner that is just leaving, or one whose secret was wrong, hangs up here: as if nobody listened.
    if frame::send(&mut stream, &mut buffer, greeting).is_err() {
        return Ok(Greeted::Gone);
    }
    match frame::receive(&mut stream, &mut buffer) {
        Ok(Arrival::Frame) => {}
        Ok(Arrival::Closed) => return Ok(Greeted::Gone),
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::WouldBlock => {
            return Err(Error::OwnerUnreachable);
        }
        Err(_) => return Ok(Greeted::Gone),
    }
    match frame::decode(&buffer)? {
        Welcome::Session(session) => {
            stream
                .set_read_timeout(None)
                .map_err(Error::io("setting up a socket"))?;
            Ok(Greeted::Session(Connection { stream, buffer }, session))
        }
        Welcome::UnknownSession => Ok(Greeted::Gone),
        Welcome::OtherVersion => Err(Error::OtherVersion),
        Welcome::Full => Err(Error::OwnerUnreachable),
    }
}

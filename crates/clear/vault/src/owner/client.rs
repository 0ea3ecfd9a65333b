//! Sends requests to the owner of a vault: another process, or another opening of the vault in this process.
//!
//! Takes   requests
//! Gives   the owner's answers; if none comes, whether the request may have been carried out
//! Never   sends a key, or repeats a request that may have been carried out
//!
//! Invariants
//!  (1) Nobody waits for an owner that has ended, even if a process that it forked still has its end of the connection.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::folder::Folder;
use crate::limits::{CLIENT_CONNECTIONS_MAX, GREETING_WAIT_MS};
use crate::owner::socket;
use crate::request::frame::{self, Arrival};
use crate::request::{
    Access, Greeting, PROTOCOL, Request, Response, Successor, Welcome, WholeRequest,
};
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
    /// How many changes it acknowledged, and how many of those a sync covered.
    changed: AtomicU64,
    covered: AtomicU64,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Connection>,
    /// Idle ones and those in use.
    count: usize,
}

struct Connection {
    line: Line,
    buffer: Vec<u8>,
}

/// A socket, and who is at its other end.
struct Line {
    stream: UnixStream,
    /// Readable once that process has ended; `None` where the kernel does not say.                             (1)
    owner: Option<OwnedFd>,
    /// How long it may take with the next bytes.
    patience: Option<Duration>,
}

/// What greeting an owner gave.
enum Greeted {
    Session(Connection, u64),
    /// It went before it answered, or knows the session no more.
    Gone,
    /// It serves as many connections as it can now.
    Full,
}

impl Client {
    /// Connects to the owner of `folder`; `None` if nobody listens, or it can take no more connections now.
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
        let (connection, session) = match greet(stream, &greeting)? {
            Greeted::Session(connection, session) => (connection, session),
            // One that is full may have room when it is asked again.
            Greeted::Gone | Greeted::Full => return Ok(None),
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
            changed: AtomicU64::default(),
            covered: AtomicU64::default(),
        }))
    }

    /// Whether the owner is known to have gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Asks; many threads may at once.
    pub(crate) fn ask(&self, request: &Request<'_>) -> std::result::Result<Response, Unanswered> {
        let mut connection = self.take()?;
        let changed = self.changed.load(Ordering::Acquire);
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
                self.note(request, &response, changed);
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

    /// Notes what `response` acknowledges. `before`: how many changes had been acknowledged when `request` was sent.
    fn note(&self, request: &Request<'_>, response: &Response, before: u64) {
        match (request, response) {
            (_, Response::Failed(_) | Response::OperationFailed(..)) => {}
            (Request::Whole(WholeRequest::Sync), _) => {
                self.covered.fetch_max(before, Ordering::AcqRel);
            }
            (request, _) if request.needs_sync() => {
                self.changed.fetch_add(1, Ordering::AcqRel);
            }
            _ => {}
        }
    }

    /// Whether the owner acknowledged a change that may not be durable. It is asked about once: the second answer is no.
    pub(crate) fn takes_unsynced(&self) -> bool {
        let changed = self.changed.load(Ordering::Acquire);
        let covered = self.covered.fetch_max(changed, Ordering::AcqRel);
        covered < changed && !self.has_left.load(Ordering::Acquire)
    }

    /// Makes durable what the owner acknowledged; asks it nothing if a sync covered all of that.
    ///
    /// # Errors
    /// `OwnerGone` if it has gone, and did not say that nothing is lost.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.covered.load(Ordering::Acquire) >= self.changed.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.ask(&Request::Whole(WholeRequest::Sync)) {
            Ok(Response::Failed(failure)) => Err(failure.into()),
            Ok(_) => Ok(()),
            Err(Unanswered::Failed(error)) => Err(error),
            Err(Unanswered::NotDone | Unanswered::Unknown) => match self.takes_unsynced() {
                true => Err(Error::OwnerGone),
                false => Ok(()),
            },
        }
    }

    /// An idle connection, a new one, or the next that is given back.
    fn take(&self) -> std::result::Result<Connection, Unanswered> {
        let mut count_max = CLIENT_CONNECTIONS_MAX;
        let mut pool = self.pool.lock();
        loop {
            if self.is_gone() {
                return Err(Unanswered::NotDone);
            }
            if let Some(connection) = pool.idle.pop() {
                return Ok(connection);
            }
            if pool.count < count_max {
                pool.count += 1;
                drop(pool);
                if let Some(connection) = self.join()? {
                    return Ok(connection);
                }
                // One of those that are there has to do.
                count_max = 1;
                pool = self.pool.lock();
                continue;
            }
            self.returned.wait(&mut pool);
        }
    }

    /// One more connection for the session; `None` if the owner is full.
    fn join(&self) -> std::result::Result<Option<Connection>, Unanswered> {
        let joined = match socket::connect(&self.folder) {
            Ok(Some(stream)) => greet(stream, &self.greeting),
            Ok(None) => Ok(Greeted::Gone),
            Err(error) => Err(error),
        };
        match joined {
            Ok(Greeted::Session(connection, _)) => Ok(Some(connection)),
            Ok(Greeted::Gone) => {
                self.lose();
                Err(Unanswered::NotDone)
            }
            Ok(Greeted::Full) => {
                self.pool.lock().count -= 1;
                Ok(None)
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
        if self.line.write_all(&self.buffer).is_err() {
            // A frame that was not written whole is not carried out.
            return match self.hears_that_it_left() {
                true => Ok(Response::Left),
                false => Err(Unanswered::NotDone),
            };
        }
        match frame::receive(&mut self.line, &mut self.buffer) {
            Ok(Arrival::Frame) => {}
            Ok(Arrival::Closed) | Err(_) => return Err(Unanswered::Unknown),
        }
        frame::decode(&self.buffer).map_err(|_| Unanswered::Unknown)
    }
}

impl Connection {
    /// Whether the owner, which answers nothing any more, says within `OWNER_WAIT` that it has closed and nothing is lost.
    fn hears_that_it_left(&mut self) -> bool {
        self.line.patience = Some(OWNER_WAIT);
        let received = frame::receive(&mut self.line, &mut self.buffer);
        matches!(received, Ok(Arrival::Frame))
            && matches!(frame::decode(&self.buffer), Ok(Response::Left))
    }
}

impl Line {
    /// `None` if the process that listened has ended.
    fn new(stream: UnixStream) -> Result<Option<Self>> {
        let peer = rustix::net::sockopt::socket_peercred(&stream)
            .map_err(Error::system("identifying the other process of the socket"))?;
        let owner = match pidfd_open(peer.pid, PidfdFlags::empty()) {
            Ok(owner) => Some(owner),
            Err(Errno::SRCH) => return Ok(None),
            // An older kernel, or no descriptor is left.
            Err(_) => None,
        };
        Ok(Some(Self {
            stream,
            owner,
            patience: Some(Duration::from_millis(GREETING_WAIT_MS)),
        }))
    }

    /// Waits until the socket is ready for what `flags` say.                                                   (1)
    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let patience = self.patience.map(Timespec::try_from).transpose();
        let patience = patience.map_err(io::Error::other)?;
        let mut waits = vec![PollFd::new(&self.stream, flags)];
        waits.extend(
            self.owner
                .as_ref()
                .map(|owner| PollFd::new(owner, PollFlags::IN)),
        );
        if retry_on_intr(|| poll(&mut waits, patience.as_ref()))? == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        if !waits[0].revents().is_empty() {
            return Ok(());
        }
        // It has ended. What it said before has arrived.
        match poll(&mut waits[..1], Some(&Timespec::default()))? {
            0 => Err(ErrorKind::ConnectionReset.into()),
            _ => Ok(()),
        }
    }

    /// Does `work` as soon as it need not wait.
    fn when_ready(
        &self,
        flags: PollFlags,
        mut work: impl FnMut() -> rustix::io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match retry_on_intr(&mut work) {
                Err(Errno::AGAIN) => self.wait(flags)?,
                worked => return Ok(worked?),
            }
        }
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::IN, || {
            let (count, _) = recv(&self.stream, &mut *buffer, RecvFlags::DONTWAIT)?;
            Ok(count)
        })
    }
}

impl Write for Line {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        self.when_ready(PollFlags::OUT, || send(&self.stream, data, flags))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn greet(stream: UnixStream, greeting: &Greeting) -> Result<Greeted> {
    let Some(mut line) = Line::new(stream)? else {
        return Ok(Greeted::Gone);
    };
    let mut buffer = Vec::new();
    // One that is full hangs up before it reads this; what it said is there all the same.
    let _ = frame::send(&mut line, &mut buffer, greeting);
    match frame::receive(&mut line, &mut buffer) {
        Ok(Arrival::Frame) => {}
        // An owner that is just leaving, or one whose secret was wrong, hangs up: as if nobody listened.
        Ok(Arrival::Closed) => return Ok(Greeted::Gone),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::WouldBlock => {
            return Err(Error::OwnerUnreachable);
        }
        Err(_) => return Ok(Greeted::Gone),
    }
    match frame::decode(&buffer)? {
        Welcome::Session(session) => {
            line.patience = None;
            Ok(Greeted::Session(Connection { line, buffer }, session))
        }
        Welcome::UnknownSession => Ok(Greeted::Gone),
        Welcome::OtherVersion => Err(Error::OtherVersion),
        Welcome::Full => Ok(Greeted::Full),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::limits::TRANSFER_BYTES_MAX;
    use crate::request::Handle;
    use crate::request::frame::Bytes;

    /// An owner that forks, and is killed when it has a part of a request. The fork lives until its input ends.
    const FORKING: &str = "
import os, signal, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print('ready', flush=True)
connection, _ = listener.accept()
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
connection.recv(4096)
connection.send(bytes(int(sys.argv[2])))
os.kill(os.getpid(), signal.SIGKILL)
";

    /// Goal: an owner that can take no more connections is not taken for one that has gone. Method: it answers and hangs up before it is
    /// greeted. Failed before: the greeting met a closed socket, and the answer was not read.
    #[test]
    fn an_owner_that_is_full_is_heard_though_it_hung_up_before_the_greeting() {
        let (stream, mut owner) = UnixStream::pair().unwrap();
        frame::send(&mut owner, &mut Vec::new(), &Welcome::Full).unwrap();
        drop(owner);
        let greeting = Greeting {
            protocol: PROTOCOL,
            session: Some(1),
            access: Access::ReadWrite,
            successor: Successor::HasNone,
        };
        assert!(matches!(greet(stream, &greeting), Ok(Greeted::Full)));
    }

    /// Goal: a client gets its answers also where the owner takes no further connection. Method: two threads ask; the owner answers the
    /// first only after it has refused the connection of the second. Failed before: the second request failed, or the client took the
    /// owner for gone.
    #[test]
    fn who_gets_no_further_connection_waits_for_the_one_that_is_there() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let listener = socket::Listener::bind(&folder).unwrap();
        let bound = listener.bound().unwrap();
        let owner = std::thread::spawn(move || {
            let mut buffer = Vec::new();
            let (mut first, _) = bound.socket.accept().unwrap();
            frame::receive(&mut first, &mut buffer).unwrap();
            frame::send(&mut first, &mut buffer, &Welcome::Session(1)).unwrap();
            let (mut second, _) = bound.socket.accept().unwrap();
            frame::send(&mut second, &mut buffer, &Welcome::Full).unwrap();
            drop(second);
            for _ in 0..2 {
                frame::receive(&mut first, &mut buffer).unwrap();
                frame::send(&mut first, &mut buffer, &Response::from(true)).unwrap();
            }
        });
        let client = Client::connect(&folder, Access::ReadWrite, Successor::HasNone);
        let client = client.unwrap().expect("it listens");
        std::thread::scope(|scope| {
            let asking = [(); 2].map(|()| scope.spawn(|| client.ask(&Request::MakeWay)));
            for asked in asking {
                let answer = asked.join().unwrap();
                assert!(matches!(answer, Ok(Response::Whether(true))), "{answer:?}");
            }
        });
        assert!(!client.is_gone());
        owner.join().unwrap();
    }

    /// Method: what the owner has read, and what it has answered, varies: nothing, or a part. Its fork has the connection open all the
    /// time. Failed before: `ask` waited for as long as the fork lived.
    #[test]
    fn an_owner_that_has_ended_is_not_waited_for_though_its_fork_holds_the_connection() {
        let data = vec![7; TRANSFER_BYTES_MAX];
        for (len, answered) in [(10, "0"), (10, "2"), (data.len(), "0")] {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("a.sock");
            let mut owner = Command::new("python3")
                .args(["-c", FORKING])
                .args([path.as_os_str(), answered.as_ref()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut said = BufReader::new(owner.stdout.take().unwrap());
            said.read_line(&mut String::new()).unwrap();
            let stream = UnixStream::connect(&path).unwrap();
            let mut line = Line::new(stream).unwrap().unwrap();
            line.patience = None;
            let buffer = Vec::new();
            let unanswered = Connection { line, buffer }.ask(&Request::Write {
                handle: Handle(1),
                offset: 0,
                data: Bytes(&data[..len]),
            });
            let unanswered = unanswered.unwrap_err();
            let expected = match len == data.len() {
                true => matches!(unanswered, Unanswered::NotDone),
                false => matches!(unanswered, Unanswered::Unknown),
            };
            assert!(expected, "{len} bytes, {answered} answered: {unanswered:?}");
            drop(owner.stdin.take());
            owner.wait().unwrap();
        }
    }
}

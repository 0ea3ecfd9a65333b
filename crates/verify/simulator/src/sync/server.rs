//! A server for one history: a process of `strongroom-server` that is killed at random moments, and started again on the same folder
//! and port.
//!
//! Takes   the program, an empty folder, and the choices of moments
//! Gives   vaults there, which each device reaches through its client; what `strongroom-server check` says
//! Never   leaves a process behind; ends one that it did not start
//!
//! The seed determines which request meets a kill, how long after its beginning the kill is due, and how long the server stays away.
//! How much the server has done by then depends on real time: a repetition may find it a step earlier or later.
//!
//! Invariants
//!  (1) One process at a time serves the folder, and none does once this is dropped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use strongroom_remote::Address;

use crate::random::Choices;
use crate::sync::device::copy;

/// Of so many requests one meets a kill, and of so many deposits.
const KILL_EVERY: u64 = 40;
const KILL_EVERY_DEPOSIT: u64 = 3;

/// A kill comes so soon after its request: most requests are answered by then.
const KILL_WITHIN_US: u64 = 5_000;

/// Of so many kills one leaves the server away for a while, at most so long: requests are refused meanwhile, and tried again.
const AWAY_EVERY: u64 = 4;
const AWAY_MS_MAX: u64 = 150;

/// How often a start is tried while somebody else has the port of the server, and the pause between two tries.
const STARTS_MAX: usize = 50;
const START_PAUSE: Duration = Duration::from_millis(100);

/// What the server says if it cannot have its port.
const PORT_TAKEN: &str = "listening at that address";

const ACCOUNT: &str = "history";

/// Runs `strongroom-server` to its end; gives what it prints.
fn run(program: &Path, arguments: &[&OsStr]) -> Result<String, String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(out),
        false => {
            let error = String::from_utf8_lossy(&output.stderr);
            Err(format!("strongroom-server {arguments:?}: {out}{error}"))
        }
    }
}

/// A running process. It is killed when this is dropped, and has ended then.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What all starts of the server have in common.
struct Place {
    program: PathBuf,
    folder: PathBuf,
    /// Where it logs requests, and says why it does not start.
    log: PathBuf,
}

impl Place {
    /// Starts the server; gives where it listens.
    fn start(&self, listen: &str) -> Result<(Running, String), String> {
        let text = |error: std::io::Error| format!("{}: {error}", self.program.display());
        let log = File::options().create(true).append(true).open(&self.log);
        let child = Command::new(&self.program)
            .arg("serve")
            .arg(&self.folder)
            .args(["--listen", listen, "--no-tls"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.map_err(text)?)
            .spawn();
        let mut running = Running(child.map_err(text)?);
        let out = running.0.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).map_err(text)?;
        match line.trim_end().strip_prefix("listening at http://") {
            Some(at) => Ok((running, at.to_owned())),
            None => {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                let last = log.lines().next_back().unwrap_or_default();
                Err(format!("the server does not start: {line}{last}"))
            }
        }
    }

    /// Starts it at an address where it listened before. Meanwhile the system may have given the port to a connection for a moment.
    fn start_again(&self, listen: &str) -> Result<Running, String> {
        let mut started = self.start(listen);
        for _ in 1..STARTS_MAX {
            match &started {
                Err(why) if why.contains(PORT_TAKEN) => {}
                _ => break,
            }
            thread::sleep(START_PAUSE);
            started = self.start(listen);
        }
        started.map(|(running, _)| running)
    }
}

/// When the server is killed, and what came of it.
struct Moments {
    choices: Choices,
    kills: u64,
    /// A kill that is due, and the start after it. (1)
    restart: Option<JoinHandle<Result<(), String>>>,
    /// Why the server did not start again.
    failure: Option<String>,
}

impl Moments {
    /// Waits until the server runs again.
    fn rest(&mut self) {
        let ended = self.restart.take().map(JoinHandle::join);
        let ended = ended.unwrap_or(Ok(Ok(())));
        let ended = ended.unwrap_or_else(|_| Err("the restart of the server panics".to_owned()));
        if let Err(why) = ended {
            self.failure.get_or_insert(why);
        }
    }
}

/// The server, for whoever makes requests or restarts it.
struct Process {
    place: Place,
    /// Host and port.
    listen: String,
    running: Mutex<Option<Running>>,
    moments: Mutex<Moments>,
}

impl Process {
    /// Kills it, changes what it left, and starts it again.
    fn restart(&self, meanwhile: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let mut running = self.running.lock();
        *running = None;
        meanwhile()?;
        *running = Some(self.place.start_again(&self.listen)?);
        Ok(())
    }

    /// A request begins: of so many one meets a kill.
    fn meet_request(self: &Arc<Self>, every: u64) {
        let mut moments = self.moments.lock();
        if !moments.choices.chance(1, every) {
            return;
        }
        let after = Duration::from_micros(moments.choices.below(KILL_WITHIN_US));
        let away = match moments.choices.chance(1, AWAY_EVERY) {
            true => Duration::from_millis(moments.choices.below(AWAY_MS_MAX)),
            false => Duration::ZERO,
        };
        moments.rest();
        moments.kills += 1;
        let process = Arc::clone(self);
        moments.restart = Some(thread::spawn(move || {
            thread::sleep(after);
            process.restart(|| {
                thread::sleep(away);
                Ok(())
            })
        }));
    }
}

/// The server of a history. Its process ends with this.
pub(crate) struct Server {
    process: Arc<Process>,
    token: String,
}

impl Server {
    /// Starts a server in the empty folder `place`.
    pub(crate) fn start(program: &Path, place: &Path, choices: Choices) -> Result<Self, String> {
        let folder = place.join("server");
        let add = ["account", "add"].map(OsStr::new);
        let which = [folder.as_os_str(), OsStr::new(ACCOUNT)];
        let token = run(program, &[add, which].concat())?.trim().to_owned();
        let place = Place {
            program: program.to_owned(),
            folder,
            log: place.join("server.log"),
        };
        let (running, listen) = place.start("127.0.0.1:0")?;
        let process = Arc::new(Process {
            place,
            listen,
            running: Mutex::new(Some(running)),
            moments: Mutex::new(Moments {
                choices,
                kills: 0,
                restart: None,
                failure: None,
            }),
        });
        Ok(Self { process, token })
    }

    /// Where a vault is there.
    pub(crate) fn vault(&self, name: &str) -> Result<Address, String> {
        let (token, listen) = (&self.token, &self.process.listen);
        let url = format!("http://{token}@{listen}/{ACCOUNT}/{name}");
        Address::parse(&url).map_err(|error| error.to_string())
    }

    /// What is to be called before each request: some meet a kill.
    pub(crate) fn kills_at_requests(&self) -> impl FnMut() + Send + use<> {
        let process = Arc::clone(&self.process);
        move || process.meet_request(KILL_EVERY)
    }

    /// A deposit begins: several requests, of which some meets a kill now and then.
    pub(crate) fn meet_deposit(&self) {
        self.process.meet_request(KILL_EVERY_DEPOSIT);
    }

    /// How often it was killed at requests.
    pub(crate) fn kills(&self) -> u64 {
        self.process.moments.lock().kills
    }

    /// Waits until it runs, if it was killed.
    ///
    /// # Errors
    /// It did not start again.
    pub(crate) fn rest(&self) -> Result<(), String> {
        let mut moments = self.process.moments.lock();
        moments.rest();
        moments.failure.clone().map_or(Ok(()), Err)
    }

    /// Kills it once more, and starts it again.
    pub(crate) fn restart(&self) -> Result<(), String> {
        self.rest()?;
        self.process.restart(|| Ok(()))
    }

    fn backup_folder(&self) -> PathBuf {
        self.process.place.folder.with_extension("backup")
    }

    /// Makes a backup of it while it runs.
    pub(crate) fn back_up(&self) -> Result<(), String> {
        self.rest()?;
        let Place {
            program, folder, ..
        } = &self.process.place;
        let to = self.backup_folder();
        let arguments = [OsStr::new("backup"), folder.as_os_str(), to.as_os_str()];
        run(program, &arguments).map(drop)
    }

    /// Kills it, puts its backup in the place of its folder, and starts it again.
    pub(crate) fn put_back(&self) -> Result<(), String> {
        self.rest()?;
        let (folder, backup) = (&self.process.place.folder, self.backup_folder());
        self.process.restart(|| {
            let put = fs::remove_dir_all(folder).and_then(|()| copy(&backup, folder));
            put.map_err(|error| format!("the backup of the server is not put back: {error}"))
        })
    }

    /// Whether nothing is wrong with its folder, and nothing in it belongs to no object.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.rest()?;
        let Place {
            program, folder, ..
        } = &self.process.place;
        let said = run(program, &[OsStr::new("check"), folder.as_os_str()])?;
        match said.lines().count() == 1 && said.ends_with(", 0 problems\n") {
            true => Ok(()),
            false => Err(format!("strongroom-server check: {said}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // (1): no start comes after this.
        self.process.moments.lock().rest();
        *self.process.running.lock() = None;
    }
}

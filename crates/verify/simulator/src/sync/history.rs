//! Runs one history to its end.
//!
//! Takes   a seed, the kind of history, and where its remote is
//! Gives   the events in it; the first violation
//! Never   counts an error as a violation if a fault or the guide explains it

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use strongroom::filesystem::Error as FileError;
use strongroom::{
    CLONED_FROM, CloneContent, CreateOptions, Error, KeyFile, SyncReport, SystemRandom, Tuning,
    Vault,
};
use strongroom_remote::testing::{FarRemote, Fate, Line, MemoryRemote, Plan};
use strongroom_remote::{Address, Remote};

use crate::random::Choices;
use crate::sync::contents::{Piece, Truth};
use crate::sync::device::{Device, ShiftedClock, Standing, engine};
use crate::sync::files::{self, Fail};
use crate::sync::judge::judge;
use crate::sync::server::Server;
use crate::sync::steps::brief;
use crate::unseen;

/// Steps of one history.
const STEPS: u64 = 100;

/// Rounds in which all sync one after the other, after which nothing may be left to say.
const ROUNDS_MAX: usize = 12;

/// What the device that made the vault calls the remote.
const STICK: &str = "stick";

/// A day, in nanoseconds.
pub(crate) const DAY: i64 = 86_400_000_000_000;

/// The sort of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything that a vault promises to get over.
    Usual,
    /// The folder of a device is put back from an older copy, too.
    PutBack,
    /// A copy of the folder of a device is used beside it, too.
    Copied,
}

/// Where the remote of a history is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteKind {
    /// In the memory of this process.
    Memory,
    /// At a server of its own, a process of this program, which is killed and started again at random moments, and sometimes put back to
    /// a backup.
    Server(PathBuf),
}

impl RemoteKind {
    /// At a server, whose program is built into the folder of `simulator`.
    ///
    /// # Errors
    /// It is not there.
    pub fn server_beside(simulator: &Path) -> Result<Self, String> {
        let program = simulator.with_file_name("strongroom-server");
        match program.exists() {
            true => Ok(Self::Server(program)),
            false => Err("type first: cargo build --locked -p strongroom-server".to_owned()),
        }
    }

    /// As the command line calls it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Server(_) => "server",
        }
    }
}

/// What happened in a history.
#[derive(Debug, Default)]
pub struct Story {
    /// What was done, a line each.
    pub lines: Vec<String>,
    /// Whether each line is printed when it is told.
    pub is_told: bool,
    /// See `COUNTED`.
    pub counts: [u64; COUNTED.len()],
    /// How often the server was killed at a request.
    pub server_kills: u64,
    /// How often it was put back to a backup, and every device noticed.
    pub server_put_back: u64,
    /// Deposits that it acknowledged.
    pub deposits: u64,
}

/// What is counted.
pub(crate) const COUNTED: [&str; 12] = [
    "syncs that ended well",
    "that met a fault",
    "kills",
    "changes of keys",
    "clones",
    "folders put back",
    "syncs that merged texts",
    "folders copied",
    "evictions that gave room",
    "damaged segments repaired",
    "erased contents that were looked for",
    "erased contents that the remote had",
];

/// The index of each.
#[derive(Clone, Copy)]
pub(crate) enum Counted {
    Syncs,
    Faults,
    Kills,
    Keys,
    Clones,
    PutBack,
    Merges,
    Copied,
    Evictions,
    Repairs,
    Erased,
    ErasedAtRemote,
}

impl Story {
    /// Whether an older copy of a folder was used: it has what was erased since.
    pub(crate) fn has_older_copy(&self) -> bool {
        let used = [Counted::PutBack, Counted::Copied];
        used.iter().any(|what| self.counts[*what as usize] > 0)
    }

    pub(crate) fn count(&mut self, what: Counted) {
        self.counts[what as usize] += 1;
    }

    pub(crate) fn tell(&mut self, line: String) {
        if self.is_told {
            println!("  {line}");
        }
        self.lines.push(line);
    }
}

/// An older copy of the folder of a device.
pub(crate) struct Older {
    pub(crate) of: usize,
    pub(crate) folder: PathBuf,
    /// What was durable and not published then.
    pub(crate) durable: Vec<Piece>,
    /// What was erased and not published then.
    pub(crate) erasing: Vec<Piece>,
    /// Whom the device had removed by then, and had not published that: the copy has removed them too.
    pub(crate) leaving: Vec<usize>,
}

pub(crate) struct History<'a> {
    pub(crate) story: &'a mut Story,
    pub(crate) choices: Choices,
    pub(crate) remote: Arc<dyn Remote>,
    pub(crate) line: Arc<Line>,
    pub(crate) address: String,
    pub(crate) place: &'a Path,
    pub(crate) key: KeyFile,
    pub(crate) now: Arc<AtomicI64>,
    pub(crate) devices: Vec<Device>,
    pub(crate) truth: Truth,
    /// Who changed keys or members and has not published that.
    pub(crate) keys_by: Option<usize>,
    pub(crate) older: Option<Older>,
    /// A device and a copy of it, with the id that both have until one of them becomes another device: a change of keys.
    pub(crate) twins: Option<([usize; 2], String)>,
    pub(crate) copies: usize,
    /// Where the remote is, if it is not in memory. It ends last.
    pub(crate) server: Option<Server>,
    /// The step before which a backup of the server is made, to be put back at the end.
    pub(crate) backup_at: Option<u64>,
    /// What others deposit there.
    pub(crate) deposits: Option<Deposits>,
    pub(crate) erasures: Erasures,
}

/// What devices erase.
pub(crate) struct Erasures {
    /// Apart from those of other steps, which stay as they are without erasures as far as possible.
    pub(crate) choices: Choices,
    pub(crate) secrets: Vec<Secret>,
}

/// The only piece of a file that is there to be erased.
pub(crate) struct Secret {
    pub(crate) piece: Piece,
    /// A part of it as it was sealed under each of the keys of the moments in which it was written and erased.
    pub(crate) parts: Vec<Vec<u8>>,
    /// The devices on which it was erased.
    pub(crate) by: Vec<usize>,
}

/// What others deposit at a server.
pub(crate) struct Deposits {
    pub(crate) choices: Choices,
    /// The address by which they do, until a device withdraws it.
    pub(crate) url: Option<String>,
    /// What they began to deposit, and what of that the server acknowledged: each deposit is one piece.
    pub(crate) begun: Vec<Piece>,
    pub(crate) acknowledged: Vec<Piece>,
}

/// A remote at `memory:NAME`: in memory, or the vault at the server `far`; and the line to it.
pub(crate) fn remote_at(
    name: &str,
    far: Option<&Address>,
) -> Result<(Arc<dyn Remote>, Arc<Line>), String> {
    match far {
        None => {
            let remote = MemoryRemote::at(name);
            let line = Arc::clone(remote.line());
            Ok((remote, line))
        }
        Some(far) => {
            let remote = FarRemote::at_server(name, far).map_err(|error| error.to_string())?;
            let line = Arc::clone(remote.line());
            Ok((remote, line))
        }
    }
}

/// Runs the history of `seed` in the empty folder `place`.
///
/// # Errors
/// The violation, in words.
pub fn run(
    seed: u64,
    mode: Mode,
    kind: &RemoteKind,
    place: &Path,
    story: &mut Story,
) -> Result<(), String> {
    let name = format!("{seed}-{mode:?}-{}", kind.name());
    // Devices do the same wherever the remote is: moments of the server are choices of their own.
    let mut moments = Choices::named(seed, &[72, mode as u64]);
    let backup_at = moments.chance(1, 3).then(|| moments.below(STEPS));
    let server = match kind {
        RemoteKind::Memory => None,
        RemoteKind::Server(program) => Some(Server::start(program, place, moments)?),
    };
    let far = server.as_ref().map(|server| server.vault("history"));
    let (remote, line) = remote_at(&name, far.transpose()?.as_ref())?;
    let deposits = server.as_ref().map(|_| Deposits {
        choices: Choices::named(seed, &[73, mode as u64]),
        url: None,
        begun: Vec::new(),
        acknowledged: Vec::new(),
    });
    let mut history = History {
        story,
        choices: Choices::named(seed, &[71, mode as u64]),
        remote,
        line,
        address: format!("memory:{name}"),
        place,
        key: KeyFile::random(&SystemRandom).map_err(|error| error.to_string())?,
        now: Arc::new(AtomicI64::new(20_000 * DAY)),
        devices: Vec::new(),
        truth: Truth::default(),
        keys_by: None,
        older: None,
        twins: None,
        copies: 0,
        server,
        backup_at,
        deposits,
        erasures: Erasures {
            choices: Choices::named(seed, &[74, mode as u64]),
            secrets: Vec::new(),
        },
    };
    let lived = history.live(mode);
    match (history.check_server(), lived) {
        // If the server does not start again, that is why devices do not reach it.
        (Err(server), Err(devices)) => Err(format!("{devices}; {server}")),
        (server, lived) => lived.and(server),
    }
}

impl History<'_> {
    /// All of it.
    fn live(&mut self, mode: Mode) -> Result<(), String> {
        self.plan(None);
        self.begin()
            .map_err(|error| format!("(1): the first device: {error}"))?;
        self.make_address(0)?;
        for _ in 1..2 + self.choices.below(3) {
            self.add_device()?;
        }
        for step in 0..STEPS {
            if self.backup_at == Some(step) {
                self.back_up_server()?;
            }
            self.step(step, mode)?;
            self.deposit(step)?;
            self.erase(step)?;
        }
        self.end()
    }

    /// Lets `plan` decide every request from now on; `None` serves all. A server is killed at some of them in both cases.
    pub(crate) fn plan(&self, mut plan: Option<Plan>) {
        let Some(server) = &self.server else {
            return self.line.plan(plan);
        };
        let mut kill = server.kills_at_requests();
        self.line.plan(Some(Box::new(move |verb, name| {
            kill();
            match plan.as_mut() {
                Some(plan) => plan(verb, name),
                None => Fate::Served,
            }
        })));
    }

    pub(crate) fn clock(&mut self) -> ShiftedClock {
        let shift =
            self.choices.below(8) as i64 * DAY - 4 * DAY + self.choices.below(1_000_000) as i64;
        ShiftedClock {
            now: self.now.clone(),
            shift: AtomicI64::new(shift),
        }
    }

    /// The first device makes the vault, and the remote.
    fn begin(&mut self) -> Result<(), Error> {
        let folder = self.place.join("0");
        let options = CreateOptions::new()
            .key_file(self.key.clone())
            .seen(unseen().seen)
            .tuning(Tuning::AsItIs)
            .engine(engine());
        let vault = Vault::create(&folder, options)?.vault;
        vault.add_remote(STICK, &self.address)?;
        vault.close()?;
        let clock = self.clock();
        let device = Device::new(0, folder, STICK, clock, &self.key)?;
        device.sync()?;
        self.devices.push(device);
        Ok(())
    }

    /// A member, or somebody who does not know yet that he is none.
    fn some_device(&mut self) -> usize {
        let all: Vec<usize> = self.devices.iter().map(|device| device.number).collect();
        *self.choices.one_of(&all)
    }

    fn step(&mut self, step: u64, mode: Mode) -> Result<(), String> {
        let number = self.some_device();
        let kind = self.choices.below(100);
        let done = match kind {
            0..55 => {
                let device = &mut self.devices[number];
                files::change(device, &mut self.truth, &mut self.choices)
            }
            55..56 => self.make_durable(number),
            56..57 => self.repair(number),
            57..59 => self.evict(number),
            59..63 => self.snapshot(number),
            63..66 => self.remove_snapshot(number),
            66..68 => self.compact(number),
            68..71 => self.prune(number),
            71..78 => self.sync(number, 0, false),
            78..86 => self.sync(number, 12, false),
            86..91 => self.sync(number, 4, true),
            91..93 => self.kill(number),
            93..94 => self.devices[number]
                .reopen()
                .map(|()| "closed and opened".to_owned())
                .map_err(Fail::Vault),
            94..95 => self.rotate(number),
            95..96 => self.say_guessable(number),
            96..97 => self.remove_device(number),
            97..98 => self.add_device().map_err(Fail::Violation),
            98.. if mode != Mode::Usual => self.copy(number, mode),
            98..99 => self.shift_clock(number),
            _ => self.devices[number]
                .drive()
                .map(|()| "background work".to_owned())
                .map_err(Fail::Vault),
        };
        let number = match kind {
            97 => self.devices.len() - 1,
            _ => number,
        };
        match done {
            Ok(done) => self.story.tell(format!("{step}: device {number}: {done}")),
            Err(Fail::Violation(why)) => return Err(format!("step {step}: {why}")),
            Err(Fail::Vault(error)) => self
                .met(number, &error)
                .map_err(|why| format!("step {step}: {why}"))?,
        }
        Ok(())
    }

    /// An error that a device met: whether it may. (1)
    pub(crate) fn met(&mut self, number: usize, error: &Error) -> Result<(), String> {
        let device = &mut self.devices[number];
        let text = error.to_string();
        let is_of_remote = matches!(
            error,
            Error::Remote(_) | Error::File(FileError::OnlyAtRemote(_))
        );
        let is_cut = is_of_remote && text.contains("the line was cut");
        match () {
            () if is_cut => self.story.count(Counted::Faults),
            () if matches!(
                device.standing,
                Standing::Leaving { .. } | Standing::Removed
            ) => {}
            () => return Err(format!("(1): device {number}: {error}")),
        }
        self.story.tell(format!("device {number}: {text}"));
        Ok(())
    }

    /// All faults stop, everybody syncs until nothing is left to say, and all is judged; then a server is put back, if there is a backup.
    fn end(&mut self) -> Result<(), String> {
        self.line.plan(None);
        self.restart_server()?;
        self.settle()?;
        for number in 0..self.devices.len() {
            if self.devices[number].standing != Standing::Removed {
                continue;
            }
            if let Ok(report) = self.devices[number].sync() {
                self.has_pushed(number, &report)?; // (6)
            }
        }
        self.judge()?;
        self.judge_erasures()?;
        self.put_server_back()
    }

    /// A newcomer clones, and all is judged.
    pub(crate) fn judge(&mut self) -> Result<(), String> {
        let number = self.devices.len();
        let folder = self.place.join(format!("newcomer{number}"));
        let cloned = self.clone_into(&folder, CloneContent::Here);
        let report = cloned.map_err(|error| format!("(5): a newcomer cannot clone: {error}"))?;
        self.lacks_nothing(&report)?;
        let clock = self.clock();
        let newcomer = Device::new(number, folder, CLONED_FROM, clock, &self.key);
        let newcomer = newcomer.map_err(|error| format!("(5): a newcomer's vault: {error}"))?;
        self.devices.push(newcomer);
        let members = self.devices.iter().filter(|device| device.is_member());
        let members = members.collect::<Vec<_>>();
        judge(&members, &self.truth)?;
        self.judge_deposits(&members)
    }

    /// (3)
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        let mut said = String::new();
        for round in 0..ROUNDS_MAX {
            let mut is_quiet = true;
            for number in 0..self.devices.len() {
                if !matches!(
                    self.devices[number].standing,
                    Standing::Member | Standing::Leaving { .. }
                ) {
                    continue;
                }
                let synced = self.devices[number].sync_counting();
                let report = match synced {
                    // What others deposited is sealed as it comes.
                    Ok((report, sealed))
                        if sealed == 0 || report.pulled.merged + report.pulled.received > 0 =>
                    {
                        report
                    }
                    Ok((report, sealed)) => {
                        return Err(format!(
                            "(7): device {number} sealed {sealed} bytes of content to sync: {}",
                            brief(&report, &self.line)
                        ));
                    }
                    Err(error) => {
                        self.met(number, &error)?;
                        continue;
                    }
                };
                self.has_pushed(number, &report)?;
                if report != SyncReport::default() {
                    is_quiet = false;
                    said = format!(
                        "device {number} in round {round}: {}",
                        brief(&report, &self.line)
                    );
                    self.story.tell(said.clone());
                }
            }
            if is_quiet {
                return Ok(());
            }
        }
        Err(format!("(3): there is always something to say; {said}"))
    }
}

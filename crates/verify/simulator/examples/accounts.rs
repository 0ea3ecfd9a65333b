//! Devices of many accounts of a server: real vaults that push and pull for some time. `tools/server_accounts.py` starts the server.
//!
//! Takes   a folder, seconds, and threads as arguments; on its input one line for each account, with a URL of its vault for each device
//! Gives   the line `ready` when all devices have their vault; at last one line of JSON with how long pushes took
//! Never   ends well after an error, or writes a URL, which has a token
#![forbid(unsafe_code)]

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use strongroom::{
    CLONED_FROM, CloneOptions, CreateOptions, GoOn, KeyFile, OpenOptions, Secret, SystemRandom,
    Vault, clone,
};

/// What the first device calls the server.
const SERVER: &str = "server";

/// The longest file that a device writes, in bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// An account, and what opens its vault.
struct Account {
    folder: PathBuf,
    urls: Vec<String>,
    secret: Secret,
    /// The file that was written last, and by which device.
    last: Option<(String, Vec<u8>)>,
}

/// Numbers that look random, and are the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Account {
    /// Its vault with all devices.
    fn made(folder: PathBuf, urls: Vec<String>) -> Result<Self, String> {
        std::fs::create_dir(&folder).map_err(text)?;
        let key_file = KeyFile::random(&SystemRandom).map_err(text)?;
        let account = Self {
            folder,
            urls,
            secret: Secret::KeyFile(key_file.clone()),
            last: None,
        };
        let options = CreateOptions::new().key_file(key_file);
        let created = Vault::create(account.device(0), options).map_err(text)?;
        let vault = created.vault;
        vault.write("/first", b"first").map_err(text)?;
        vault.add_remote(SERVER, &account.urls[0]).map_err(text)?;
        vault.push(SERVER, &mut |_| GoOn::Yes).map_err(text)?;
        drop(vault);
        for (number, url) in account.urls.iter().enumerate().skip(1) {
            let (to, options) = (account.device(number), CloneOptions::default());
            clone(url, &to, &account.secret, options, &mut |_| GoOn::Yes).map_err(text)?;
        }
        Ok(account)
    }

    fn device(&self, number: usize) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// One device gets what is there, writes a file and pushes; gives how long the push took.
    fn turn(&mut self, chance: &mut Chance) -> Result<Duration, String> {
        let number = usize::try_from(chance.below(self.urls.len() as u64)).map_err(text)?;
        let remote = if number == 0 { SERVER } else { CLONED_FROM };
        let options = OpenOptions::default();
        let vault = Vault::open(self.device(number), self.secret.clone(), options).map_err(text)?;
        vault.sync_with(remote, &mut |_| GoOn::Yes).map_err(text)?;
        if let Some((path, bytes)) = &self.last
            && vault.read(path.as_str()).map_err(text)? != *bytes
        {
            return Err(format!("{path} has other content at device {number}"));
        }
        let len = usize::try_from(chance.below(FILE_BYTES_MAX)).map_err(text)?;
        let bytes: Vec<u8> = (0..len).map(|_| chance.below(256) as u8).collect();
        // A few names, so that vaults stay small.
        let path = format!("/file-{}", chance.below(8));
        vault.write(path.as_str(), &bytes).map_err(text)?;
        let begun = Instant::now();
        vault.push(remote, &mut |_| GoOn::Yes).map_err(text)?;
        let took = begun.elapsed();
        self.last = Some((path, bytes));
        Ok(took)
    }
}

/// The accounts of one thread: made, then used until the time is over. The thread waits at `barrier` between both.
fn work(
    folder: &Path,
    accounts: Vec<(usize, Vec<String>)>,
    barrier: &Barrier,
    time: Duration,
) -> Result<Vec<Duration>, String> {
    let seed = accounts.first().map_or(0, |(number, _)| *number as u64);
    let made: Result<Vec<Account>, String> = accounts
        .into_iter()
        .map(|(number, urls)| Account::made(folder.join(number.to_string()), urls))
        .collect();
    // Also after an error: the others wait.
    barrier.wait();
    let (mut made, mut chance) = (made?, Chance(0x9e37_79b9_7f4a_7c15 ^ seed));
    let (begun, mut took) = (Instant::now(), Vec::new());
    while begun.elapsed() < time && !made.is_empty() {
        let which = usize::try_from(chance.below(made.len() as u64)).map_err(text)?;
        took.push(made[which].turn(&mut chance)?);
    }
    Ok(took)
}

fn run() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, seconds, threads] = arguments.as_slice() else {
        return Err("usage: accounts FOLDER SECONDS THREADS".to_owned());
    };
    let time = Duration::from_secs(seconds.parse().map_err(text)?);
    let threads: usize = threads.parse().map_err(text)?;
    let mut parts: Vec<Vec<(usize, Vec<String>)>> = vec![Vec::new(); threads];
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line.map_err(text)?;
        let urls = line.split_whitespace().map(str::to_owned).collect();
        parts[number % threads].push((number, urls));
    }
    let count: usize = parts.iter().map(Vec::len).sum();
    let (folder, barrier) = (Path::new(folder), Barrier::new(threads + 1));
    let mut took = thread::scope(|scope| {
        let working: Vec<_> = parts
            .into_iter()
            .map(|part| scope.spawn(|| work(folder, part, &barrier, time)))
            .collect();
        barrier.wait();
        let said = writeln!(std::io::stdout(), "ready");
        let mut took = Vec::new();
        for one in working {
            let part = one.join().map_err(|_| "a thread panicked".to_owned())?;
            took.extend(part?);
        }
        said.map_err(text).map(|()| took)
    })?;
    took.sort_unstable();
    let at = |part: usize| {
        let of = took.get((took.len() * part / 1000).min(took.len().saturating_sub(1)));
        of.map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    };
    let (pushes, p50, p99, most) = (took.len(), at(500), at(990), at(1000));
    let line = format!(
        "{{\"accounts\":{count},\"pushes\":{pushes},\"p50_ms\":{p50:.1},\"p99_ms\":{p99:.1},\"max_ms\":{most:.1}}}"
    );
    writeln!(std::io::stdout(), "{line}").map_err(text)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

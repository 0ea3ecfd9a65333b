//! Distributes many cases among processes, each with its own user folders.
//!
//! Takes   the arguments of a worker, and how many may run at once
//! Gives   the lines that the workers print, as they arrive
//! Never   leaves a worker behind: each ends with the run, however that ends

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The folders of a user that programs keep records in.
pub const USER_FOLDERS: [&str; 5] = [
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// What a worker says last.
const END: &str = "\u{1}end";

/// Which cases a worker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    index: usize,
    of: usize,
}

impl Share {
    /// Every case.
    pub const ALL: Self = Self { index: 0, of: 1 };

    /// `PART/OF`, as people count: from 1.
    ///
    /// # Errors
    /// It is not.
    pub fn of_part(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let parts = parts.and_then(|(part, of)| Some((part.parse::<usize>().ok()?, of)));
        match parts {
            Some((part @ 1.., of)) => Self::parse(&format!("{}/{of}", part - 1)),
            _ => Err(format!("{text:?} is no part")),
        }
    }

    /// Which part of how many it is, counted from 1.
    #[must_use]
    pub const fn in_words(self) -> (usize, usize) {
        (self.index + 1, self.of)
    }

    /// Whether the case of that number is one of them.
    #[must_use]
    pub const fn has(self, case: usize) -> bool {
        case % self.of == self.index
    }

    /// `INDEX/OF`.
    ///
    /// # Errors
    /// It is not.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let parts = parts.and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((index, of)) if index < of => Ok(Self { index, of }),
            _ => Err(format!("{text:?} is no share")),
        }
    }
}

/// Makes the folders of a user below `place`, and gives the variables that name them, `HOME` too.
///
/// # Errors
/// Of the disk.
pub fn user_folders(place: &Path) -> std::io::Result<Vec<(&'static str, PathBuf)>> {
    use std::os::unix::fs::PermissionsExt;
    let mut variables = vec![("HOME", place.join("home"))];
    for name in USER_FOLDERS {
        variables.push((name, place.join(name.to_lowercase())));
    }
    for (_, folder) in &variables {
        fs::create_dir_all(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(variables)
}

/// In a worker: forgets what was kept for the user, so that one case does not meet another's records.
///
/// # Errors
/// Of the disk; or the folders are not those of a worker.
pub fn forget() -> Result<(), String> {
    for name in USER_FOLDERS {
        let folder = std::env::var_os(name).ok_or_else(|| format!("{name} is not set"))?;
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let gone = match path.is_dir() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
            gone.map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// In a worker: says a line.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "{line}").and_then(|()| out.flush());
    if said.is_err() {
        // Nobody listens: the run has ended, however it did.
        std::process::exit(1);
    }
}

/// In a worker: says that it is through.
pub fn end() {
    say(END);
}

/// The workers of a run; they end with it.
struct Running {
    children: Vec<Child>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs `jobs` workers of `program` with `arguments` and a share each; gives how many lines they said.
///
/// `patience`: how long a worker may take between two lines; then it hangs, which is a line too.
///
/// # Errors
/// One cannot be begun, or ended before it was through.
pub fn share(
    program: &Path,
    arguments: &[String],
    jobs: usize,
    place: &Path,
    patience: Duration,
    told: &mut dyn FnMut(&str),
) -> Result<u64, String> {
    let (sender, lines) = channel();
    let mut running = Running {
        children: Vec::new(),
    };
    for index in 0..jobs {
        let child = begin(program, arguments, (index, jobs), place, &sender)?;
        running.children.push(child);
    }
    drop(sender);
    hear(&lines, jobs, patience, told)
}

fn begin(
    program: &Path,
    arguments: &[String],
    (index, jobs): (usize, usize),
    place: &Path,
    sender: &Sender<(usize, String)>,
) -> Result<Child, String> {
    let own = place.join(format!("user {index}"));
    let variables = user_folders(&own).map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(&arguments[..1])
        .arg(format!("{index}/{jobs}"))
        .args(&arguments[1..])
        .envs(variables)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("a worker: {error}"))?;
    if let Some(out) = child.stdout.take() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send((index, line)).is_err() {
                    break;
                }
            }
        });
    }
    Ok(child)
}

fn hear(
    lines: &Receiver<(usize, String)>,
    jobs: usize,
    patience: Duration,
    told: &mut dyn FnMut(&str),
) -> Result<u64, String> {
    let mut heard = vec![Some(Instant::now()); jobs];
    let mut count = 0;
    while heard.iter().any(Option::is_some) {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok((index, line)) if line == END => heard[index] = None,
            Ok((index, line)) => {
                heard[index] = Some(Instant::now());
                count += 1;
                told(&line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err("a worker ended before it was through".to_owned());
            }
        }
        for (index, last) in heard.iter_mut().enumerate() {
            if last.is_some_and(|last| last.elapsed() > patience) {
                told(&format!(
                    "VIOLATION hang\tworker {index}\tno answer for {patience:?}"
                ));
                *last = None;
            }
        }
    }
    Ok(count)
}

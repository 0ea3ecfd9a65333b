//! Runs the real command as a separate process, within bounds.
//!
//! Takes   a program, its arguments, and the folders of a user
//! Gives   its output, its exit status, and its peak memory
//! Never   leaves a process or a mount behind
//!
//! Each process that must be killed if a run ends early is noted in `pids`, as a file named after it.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The longest that a command may take; only one that hangs takes so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The most memory that a command may have at once: no vault of the template asks for a costly key.
pub const MEMORY_BYTES_MAX: u64 = 600 << 20;

/// The most address space, in KiB: libraries, arenas and mapped logs beside the memory.
const ADDRESSES_KIB_MAX: u64 = 6 << 20;

/// The longest file that a command may write, in blocks of 512 bytes: 2 GiB.
const FILE_BLOCKS_MAX: u64 = 4 << 20;

/// The most that is kept of what a command says.
const SAID_BYTES_MAX: u64 = 8 << 20;

/// How a command ended.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Its exit code, if no signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It had to be killed.
    pub hung: bool,
    /// The most memory that was seen.
    pub memory_bytes: u64,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub error: Vec<u8>,
}

/// A process and all that it began; ended with this value.
#[derive(Debug)]
pub struct Running {
    child: Child,
    noted: PathBuf,
    memory_bytes: u64,
    out: PathBuf,
    error: PathBuf,
}

impl Running {
    /// Begins `program`. What it says goes to files beside `pids`.
    ///
    /// # Errors
    /// Of the system.
    pub fn begin(
        program: &Path,
        arguments: &[String],
        variables: &[(&'static str, PathBuf)],
        place: &Path,
    ) -> io::Result<Self> {
        let pids = place.join("pids");
        fs::create_dir_all(&pids)?;
        let (out, error) = (pids.join("said"), pids.join("complained"));
        let limits =
            format!("ulimit -v {ADDRESSES_KIB_MAX} -f {FILE_BLOCKS_MAX} && exec \"$0\" \"$@\"");
        let child = Command::new("/bin/bash")
            .arg("-c")
            .arg(limits)
            .arg(program)
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("RUST_BACKTRACE", "1")
            .envs(variables.iter().map(|(name, folder)| (name, folder)))
            .current_dir(place)
            .stdin(Stdio::null())
            .stdout(fs::File::create(&out)?)
            .stderr(fs::File::create(&error)?)
            .process_group(0)
            .spawn()?;
        let noted = pids.join(child.id().to_string());
        fs::write(&noted, "")?;
        Ok(Self {
            child,
            noted,
            memory_bytes: 0,
            out,
            error,
        })
    }

    /// Whether it has ended; notes its memory.
    pub fn has_ended(&mut self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let most = status.ok().and_then(|status| peak(&status));
        self.memory_bytes = self.memory_bytes.max(most.unwrap_or(0));
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it ends, or `patience` is over.
    ///
    /// # Errors
    /// Of the system.
    pub fn end(mut self, patience: Duration) -> io::Result<Ended> {
        self.finish(patience)
    }

    /// The same, of one that is kept.
    ///
    /// # Errors
    /// Of the system.
    pub fn finish(&mut self, patience: Duration) -> io::Result<Ended> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(1);
        let mut hung = false;
        while !self.has_ended() {
            if began.elapsed() > patience {
                hung = true;
                break;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
        if hung {
            self.kill();
        }
        let status = self.child.wait()?;
        Ok(Ended {
            code: status.code(),
            signal: status.signal(),
            hung,
            memory_bytes: self.memory_bytes,
            out: said(&self.out)?,
            error: said(&self.error)?,
        })
    }

    fn kill(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id())
            && let Some(pid) = Pid::from_raw(pid)
        {
            // It may have ended by itself.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
            let _ = self.child.wait();
        }
        let _ = fs::remove_file(&self.noted);
    }
}

fn said(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(file)?
        .take(SAID_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `VmHWM` in bytes.
#[must_use]
pub fn peak(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// Ends what an earlier end of a run left: mounts below `place`, and the processes that are noted there.
pub fn clean(place: &Path) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let shown = place.to_string_lossy().into_owned();
    for line in mounts.lines() {
        let Some(at) = line.split(' ').nth(4) else {
            continue;
        };
        if at.starts_with(&shown) {
            // Another may have been quicker.
            let _ = rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH);
        }
    }
    let mut folders = vec![place.to_path_buf()];
    for _ in 0..4 {
        let below = folders
            .iter()
            .flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
        let below: Vec<PathBuf> = below.flatten().map(|entry| entry.path()).collect();
        for path in &below {
            let is_noted = path.parent().is_some_and(|parent| parent.ends_with("pids"));
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if let Some(pid) = name.parse().ok().filter(|_| is_noted) {
                end_below(pid, place);
            }
        }
        folders = below;
        folders.retain(|path| fs::symlink_metadata(path).is_ok_and(|kind| kind.is_dir()));
    }
}

/// Ends a process that was noted, if it is still the one: it works below `place`.
fn end_below(pid: i32, place: &Path) {
    let is_ours = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(place));
    if let Some(pid) = Pid::from_raw(pid).filter(|_| is_ours) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::KILL);
    }
}

//! The folder in which workloads run, and how they are measured: clock, dropped caches, the server's processor time.

use std::cell::Cell;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::{Sizes, interrupt};

/// A server may still be at work in a directory that is removed, as rclone is after a file was closed.
const CLEAR_MAX: Duration = Duration::from_secs(15);
const CLEAR_PAUSE: Duration = Duration::from_millis(100);
/// Of processor time from one look to the next, in seconds: a server that is idle uses less, one that works more.
const IDLE_SECONDS: f64 = 0.02;
/// How soon a program that runs is killed after an interruption.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// When a server counts as being at rest.
pub(crate) struct Patience {
    pause: Duration,
    /// As many pauses in a row without work.
    quiet: usize,
    /// As many pauses until nobody waits any more.
    most: usize,
}

/// For who only does not want to be disturbed: ten seconds at most.
#[cfg(feature = "harness")]
pub(crate) const BRIEFLY: Patience = Patience {
    pause: Duration::from_millis(300),
    quiet: 1,
    most: 33,
};
/// For who wants to know all that its work cost. Some write back what lay untouched for up to a second: quiet is more than
/// that. A minute at most.
pub(crate) const THOROUGHLY: Patience = Patience {
    pause: Duration::from_millis(300),
    quiet: 4,
    most: 200,
};

/// A directory that is measured.
pub struct Place<'a> {
    /// Empty when a workload begins.
    pub directory: &'a Path,
    /// Makes durable what was written there.
    pub sync: &'a dyn Fn() -> io::Result<()>,
    /// The process that serves it, if one does.
    pub server: Option<u32>,
    /// How much work.
    pub sizes: Sizes,
    /// Whether this process may drop the kernel's caches. Rows that need it are left out otherwise.
    pub may_drop_caches: bool,
}

impl Place<'_> {
    /// Makes the kernel forget what it cached of every file. What a server keeps in its own memory stays.
    pub(crate) fn drop_caches(&self) -> io::Result<()> {
        (self.sync)()?;
        rustix::fs::sync();
        fs::write("/proc/sys/vm/drop_caches", "3\n")
    }

    /// Seconds of processor time that the server has used.
    pub(crate) fn server_seconds(&self) -> Option<f64> {
        processor_seconds(self.server?)
    }

    /// The same when it has done all that it was left to do; none if it does not come to that.
    ///
    /// # Errors
    /// If the run is interrupted.
    pub(crate) fn server_seconds_at_rest(&self) -> io::Result<Option<f64>> {
        self.server
            .map_or(Ok(None), |server| seconds_at_rest(server, &THOROUGHLY))
    }
}

/// A stretch of time, on the clock that only rises (`CLOCK_MONOTONIC`): a profiler's samples can be told by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Span {
    /// When it began, in nanoseconds.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

thread_local! {
    static LAST: Cell<Option<Span>> = const { Cell::new(None) };
}

/// The stretch that `timed` measured last on this thread, once.
pub(crate) fn take_span() -> Option<Span> {
    LAST.take()
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Neither is negative on this clock.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Seconds that `work` takes.
pub(crate) fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    let start_ns = now_ns();
    work()?;
    let end_ns = now_ns();
    LAST.set(Some(Span { start_ns, end_ns }));
    Ok((end_ns - start_ns) as f64 / 1e9)
}

/// Seconds of processor time, of all threads, that the process has used since it began.
pub(crate) fn processor_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; behind it utime and stime are the 12th and 13th.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let sum = ticks()? + ticks()?;
    Some(sum as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Waits until the process is at rest, and gives `processor_seconds` of it then; none if it stays at work or has ended.
///
/// # Errors
/// If the run is interrupted.
pub(crate) fn seconds_at_rest(pid: u32, patience: &Patience) -> io::Result<Option<f64>> {
    let look = || interrupt::check().map(|()| processor_seconds(pid));
    at_rest(look, patience)
}

/// What `look` gives when it rises no more.
fn at_rest(
    mut look: impl FnMut() -> io::Result<Option<f64>>,
    patience: &Patience,
) -> io::Result<Option<f64>> {
    let mut before = look()?;
    let mut quiet = 0;
    for _ in 0..patience.most {
        std::thread::sleep(patience.pause);
        let now = look()?;
        let Some(used) = now.zip(before).map(|(now, before)| now - before) else {
            return Ok(None);
        };
        quiet = if used < IDLE_SECONDS { quiet + 1 } else { 0 };
        if quiet == patience.quiet {
            return Ok(now);
        }
        before = now;
    }
    Ok(None)
}

/// Bytes of files in the kernel's page cache.
pub(crate) fn cached_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let sum = of("Cached:")
        .zip(of("Buffers:"))
        .map(|(cached, buffers)| (cached + buffers) * 1024);
    sum.ok_or_else(|| io::Error::other("/proc/meminfo does not tell what is cached"))
}

/// Removes a directory with all that is in it.
///
/// # Errors
/// Of the disk; if others keep making files in it, after `CLEAR_MAX`.
pub(crate) fn clear(directory: &Path) -> io::Result<()> {
    let start = Instant::now();
    clear_while(
        || start.elapsed() < CLEAR_MAX,
        || fs::remove_dir_all(directory),
    )
}

/// Tries `remove` again, while `patient`, after failures that pass when nobody else is at work in the directory any more.
fn clear_while(
    patient: impl Fn() -> bool,
    mut remove: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let mut tried = false;
    loop {
        match remove() {
            // What was in the way was all that was left.
            Err(error) if tried && error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if passes(error.kind()) && patient() => std::thread::sleep(CLEAR_PAUSE),
            done => return done,
        }
        tried = true;
    }
}

fn passes(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::ResourceBusy
    )
}

/// Runs a program of a workload to its end. It is killed if the run is interrupted.
///
/// # Errors
/// Its last line of standard error, if it fails.
pub(crate) fn run(command: &mut Command) -> io::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| about(&name, &error))?;
    let heard = child.stderr.take().map_or(Ok(Vec::new()), hear);
    if heard.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    judge(&name, status, &heard?)
}

/// Runs a program to its end, whatever comes: for what cleans up, and what has an input.
///
/// # Errors
/// Its last line of standard error, if it fails.
#[cfg(any(feature = "harness", test))]
pub(crate) fn run_to_end(command: &mut Command) -> io::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdout(Stdio::null()).output();
    let output = output.map_err(|error| about(&name, &error))?;
    judge(&name, output.status, &output.stderr)
}

/// All that a program says until it ends; a failure if the run is interrupted before.
fn hear(mut from: ChildStderr) -> io::Result<Vec<u8>> {
    let (mut heard, mut part) = (Vec::new(), [0; 4096]);
    loop {
        interrupt::check()?;
        match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match from.read(&mut part)? {
            0 => return Ok(heard),
            count => heard.extend_from_slice(&part[..count]),
        }
    }
}

fn about(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

fn judge(name: &str, status: ExitStatus, heard: &[u8]) -> io::Result<()> {
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(heard);
    let line = text
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("no message");
    Err(io::Error::other(format!("{name}: {status}: {line}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_of_a_process_only_rises() {
        let me = std::process::id();
        let before = processor_seconds(me).unwrap();
        assert!(processor_seconds(me).unwrap() >= before);
        assert!(cached_bytes().unwrap() > 0);
    }

    #[test]
    fn what_was_timed_last_is_told_once_with_its_place_on_the_clock() {
        let before = now_ns();
        let seconds = timed(|| Ok(())).unwrap();
        timed(|| Err(io::Error::other("what failed has no figure"))).unwrap_err();
        let span = take_span().unwrap();
        assert!(before <= span.start_ns && span.end_ns <= now_ns());
        assert_eq!((span.end_ns - span.start_ns) as f64 / 1e9, seconds);
        assert_eq!(take_span(), None);
    }

    /// Where a server comes to rest that has used `readings` at one look after the other.
    fn rest(readings: &[Option<f64>]) -> Option<f64> {
        let mut readings = readings.iter().copied();
        let patience = Patience {
            pause: Duration::ZERO,
            quiet: 2,
            most: 6,
        };
        at_rest(|| Ok(readings.next().flatten()), &patience).unwrap()
    }

    #[test]
    fn a_server_is_at_rest_after_as_many_quiet_looks_as_are_asked_for() {
        assert_eq!(rest(&[1.0, 1.0, 1.0, 9.0].map(Some)), Some(1.0));
        // One quiet look between two stretches of work is none.
        assert_eq!(
            rest(&[1.0, 2.0, 2.0, 3.0, 3.01, 3.01].map(Some)),
            Some(3.01)
        );
        // Still at work when patience ends; gone; never there.
        let working = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.0, 7.0];
        assert_eq!(rest(&working.map(Some)), None);
        assert_eq!(rest(&[Some(1.0), Some(1.0), None]), None);
        assert_eq!(rest(&[]), None);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        for run in [run, run_to_end] {
            run(&mut Command::new("true")).unwrap();
            let error = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
            assert!(error.to_string().ends_with("why"), "{error}");
            let error = run(&mut Command::new("no-such-program")).unwrap_err();
            assert!(error.to_string().starts_with("no-such-program"), "{error}");
        }
    }

    /// Clears with failures of `kinds` in turn and then none; gives the result and how often it was tried.
    fn tried(patient: bool, kinds: &[io::ErrorKind]) -> (io::Result<()>, usize) {
        let mut count = 0;
        let result = clear_while(
            || patient,
            || {
                count += 1;
                kinds
                    .get(count - 1)
                    .map_or(Ok(()), |kind| Err((*kind).into()))
            },
        );
        (result, count)
    }

    #[test]
    fn a_directory_in_which_a_server_is_still_at_work_is_cleared_when_it_has_ended() {
        use io::ErrorKind::{DirectoryNotEmpty, NotFound, PermissionDenied, ResourceBusy};
        let (result, count) = tried(true, &[DirectoryNotEmpty, ResourceBusy]);
        assert_eq!((result.is_ok(), count), (true, 3));
        let (result, count) = tried(true, &[DirectoryNotEmpty, NotFound]);
        assert_eq!((result.is_ok(), count), (true, 2));
        // Failures that do not pass, and patience that has an end.
        for (patient, kind) in [
            (true, PermissionDenied),
            (true, NotFound),
            (false, DirectoryNotEmpty),
        ] {
            let (result, count) = tried(patient, &[kind]);
            assert_eq!((result.unwrap_err().kind(), count), (kind, 1));
        }
    }

    #[test]
    fn clearing_removes_all_of_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a");
        fs::create_dir_all(directory.join("b")).unwrap();
        fs::write(directory.join("b/c"), "c").unwrap();
        clear(&directory).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(clear(&directory).is_err());
    }
}

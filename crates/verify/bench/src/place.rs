//! Where workloads run, and the clock, caches and processor time around them.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Sizes;

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

/// Runs a program to its end.
///
/// # Errors
/// Its last line of standard error, if it fails.
pub(crate) fn run(command: &mut Command) -> io::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let about = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
    let output = command.stdout(Stdio::null()).output().map_err(about)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("no message");
    Err(io::Error::other(format!(
        "{name}: {}: {line}",
        output.status
    )))
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

    #[test]
    fn a_program_that_fails_says_why() {
        run(&mut Command::new("true")).unwrap();
        let error = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().ends_with("why"), "{error}");
        assert!(run(&mut Command::new("no-such-program")).is_err());
    }
}

//! Shows operators the log of the library and the mount: on standard error, or in a file for a mount in the background.
//!
//! Takes   log records, and panics
//! Gives   lines on standard error, or in a log file that other users cannot read and that stays small
//! Never   writes a name, a target or content of the vault, or a secret: our records name only inodes and offsets. Records of
//!         `fuser`, the FUSE library, are left out: they would name files. A panic is logged only by its place in the code
//!
//! Invariants
//!  (1) The log takes at most twice `LOG_BYTES_MAX`, plus one line for each process that writes at the same moment.
//!  (2) Logging never waits for a lock that another process holds.
//!  (3) Nobody else can read or write a log file of this user, even if the file existed before this run.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use log::{Level, LevelFilter, Log, Metadata, Record};
use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock, openat, renameat};
use rustix::process::geteuid;
use strongroom::filesystem::Timestamp;

use crate::terminal::printable;
use crate::terminal::time::log_time;

/// A log file that has reached this takes the place of the older one.
const LOG_BYTES_MAX: u64 = 1024 * 1024;

/// The longest line: a record is cut there.
const LINE_BYTES_MAX: usize = 4096;

/// Begins to show records on standard error: what went wrong, with `-v` what happens, with `-vv` all.
pub(crate) fn to_stderr(verbosity: u8) {
    let level = match verbosity {
        0 => LevelFilter::Warn,
        1 => LevelFilter::Info,
        _ => LevelFilter::Trace,
    };
    install(Target::Stderr, level);
}

/// Begins to append records to the file at `path`; panics too, whose usual words go to nobody in the background.
pub(crate) fn to_file(path: &Path, verbosity: u8) -> io::Result<()> {
    let log = LogFile::new(path)?;
    let level = match verbosity {
        0 | 1 => LevelFilter::Info,
        _ => LevelFilter::Trace,
    };
    install(Target::File(log), level);
    strongroom::panics::report_places(|sentence| log::error!("{sentence}"));
    Ok(())
}

/// The log file of mounts in the background, unless another is named; `None` where this user has no home to write in.
///
/// `$XDG_STATE_HOME/strongroom/strongroom.log`, by default in `~/.local/state`.
pub(crate) fn default_file() -> Option<PathBuf> {
    let file = default_file_in(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"));
    // A home that cannot be written is no reason not to mount.
    file.filter(|path| LogFile::new(path).is_ok())
}

fn default_file_in(state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let state = state.and_then(absolute);
    let folder = state.or_else(|| Some(home.and_then(absolute)?.join(".local/state")))?;
    Some(folder.join("strongroom/strongroom.log"))
}

fn install(target: Target, level: LevelFilter) {
    // Refused only when there is one already, which then goes on.
    if log::set_logger(Box::leak(Box::new(Logger { target }))).is_ok() {
        log::set_max_level(level);
    }
}

enum Target {
    Stderr,
    File(LogFile),
}

struct Logger {
    target: Target,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // The records of this project name no file; those of others may.
        let ours = metadata.target().starts_with("strongroom");
        ours && metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let line = line(record);
        // Where a log cannot be written there is nobody to tell that.
        let _ = match &self.target {
            Target::Stderr => writeln!(io::stderr(), "strongroom: {line}"),
            Target::File(file) => file.append(&line),
        };
    }

    fn flush(&self) {}
}

fn line(record: &Record<'_>) -> String {
    let level = match record.level() {
        Level::Error => "error",
        Level::Warn => "warning",
        Level::Info => "info",
        Level::Debug | Level::Trace => "debug",
    };
    let mut line = format!("{level}: ");
    // Writing to a string does not fail.
    let _ = write!(line, "{}", record.args());
    let mut line = printable::line(&line).into_owned();
    if line.len() > LINE_BYTES_MAX {
        line.truncate(line.floor_char_boundary(LINE_BYTES_MAX));
    }
    line
}

/// A file that is opened for each line: another mount of this user may have begun a new one.
///
/// Its folder is opened once, before the mount: should the mount cover it, a log line must not become a request to the
/// mount that waits for itself.
struct LogFile {
    folder: File,
    name: OsString,
}

impl LogFile {
    /// Makes the folder, and the file, so that what cannot work is said at once.
    fn new(path: &Path) -> io::Result<Self> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let log = Self {
            folder: File::open(folder)?,
            name: path
                .file_name()
                .ok_or_else(|| io::Error::other("it has no name"))?
                .to_owned(),
        };
        log.open()?;
        Ok(log)
    }

    fn open(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        // No link that leads elsewhere, no pipe to wait at.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = File::from(openat(&self.folder, &self.name, flags, mode)?);
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        // (3). Of another's file the mode is not ours to change.
        if found.uid() == geteuid().as_raw() && found.mode() & 0o077 != 0 {
            fchmod(&file, mode)?;
        }
        Ok(file)
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        let time = log_time(Timestamp(i64::try_from(now).unwrap_or(i64::MAX)));
        let line = format!("{time} {} {line}\n", std::process::id());
        let mut file = self.open()?;
        if file.metadata()?.len() + line.len() as u64 > LOG_BYTES_MAX {
            self.begin_anew(&file)?;
            file = self.open()?;
        }
        // In one call: lines of several mounts do not mix.
        file.write_all(line.as_bytes())
    }

    /// Puts the full file in the place of the older one, unless another process is doing it.                  (1) (2)
    fn begin_anew(&self, full: &File) -> io::Result<()> {
        if flock(full, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        let (one, two) = (full.metadata()?, self.open()?.metadata()?);
        if (one.dev(), one.ino()) == (two.dev(), two.ino()) {
            let mut older = self.name.clone();
            older.push(".old");
            renameat(&self.folder, &self.name, &self.folder, older)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_log_file_lies_where_state_lies_and_nowhere_without_a_home() {
        let file = |state: Option<&str>, home: Option<&str>| {
            default_file_in(state.map(Into::into), home.map(Into::into))
        };
        let some = |path: &str| Some(PathBuf::from(path));
        assert_eq!(
            file(Some("/s"), Some("/h")),
            some("/s/strongroom/strongroom.log")
        );
        let in_home = some("/h/.local/state/strongroom/strongroom.log");
        assert_eq!(file(None, Some("/h")), in_home);
        assert_eq!(file(Some("relative"), Some("/h")), in_home);
        assert_eq!(file(None, None), None);
    }

    /// SECURITY.md, claim 7.
    #[test]
    fn a_log_stays_within_its_bound_and_is_its_users_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("state/strongroom.log");
        let log = LogFile::new(&path).unwrap();
        let line = "x".repeat(100_000);
        for _ in 0..25 {
            log.append(&line).unwrap();
        }
        let len = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(len(&path) <= LOG_BYTES_MAX);
        let older = place.path().join("state/strongroom.log.old");
        assert!(len(&older) <= LOG_BYTES_MAX && len(&older) > LOG_BYTES_MAX / 2);
        assert_eq!(fs::read_dir(place.path().join("state")).unwrap().count(), 2);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&path), mode(&place.path().join("state"))),
            (0o600, 0o700)
        );
    }

    /// Goal: a log file that was there before is readable by nobody else. Failed before: only a file that the log made itself was.
    /// SECURITY.md, claim 7.
    #[test]
    fn a_log_file_that_others_could_read_becomes_its_users_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("my.log");
        fs::write(&path, "a line of before\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        LogFile::new(&path).unwrap().append("another").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let logged = fs::read_to_string(&path).unwrap();
        assert!(logged.starts_with("a line of before\n"), "{logged}");
    }

    #[test]
    fn records_of_other_crates_are_left_out_and_a_line_is_one_line_of_bounded_length() {
        let logger = Logger {
            target: Target::Stderr,
        };
        log::set_max_level(LevelFilter::Trace);
        let metadata = |target| {
            Metadata::builder()
                .level(Level::Error)
                .target(target)
                .build()
        };
        assert!(logger.enabled(&metadata("strongroom_mount::errno")));
        assert!(!logger.enabled(&metadata("fuser::request")));
        let long = format!("a\nb\x1b{}", "ö".repeat(LINE_BYTES_MAX));
        let line = line(&Record::builder().args(format_args!("{long}")).build());
        assert!(line.starts_with("info: a\\u{a}b\\u{1b}ö") && line.len() <= LINE_BYTES_MAX);
    }
}

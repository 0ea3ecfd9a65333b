//! The failure of a command: its message and its exit code.

use std::fmt::Display;
use std::io::ErrorKind;

use strongroom::filesystem::Error as FileError;

use crate::terminal::exit_code::ExitCode;
use crate::terminal::printable::{line, printable};
use crate::terminal::time::text_day;

/// What commands give.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A failure on its way to standard error.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: ExitCode,
    /// Lower-case, with what to do next. `None` if there is nobody to read it, or it was printed already.
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: Some(message.into()),
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// Says what it was about: `SUBJECT: message`.
    pub(crate) fn about(mut self, subject: impl Display) -> Self {
        let subject = subject.to_string();
        let subject = line(&subject);
        self.message = self.message.map(|message| format!("{subject}: {message}"));
        self
    }

    /// Of a text that may hold names: it is one line, whatever they are.
    fn of_text(code: ExitCode, text: &str) -> Self {
        Self::new(code, line(text))
    }
}

impl From<strongroom::Error> for Failure {
    fn from(error: strongroom::Error) -> Self {
        let message = match &error {
            // The library's words name one of its functions.
            strongroom::Error::InUse => {
                "the vault is open in another process; close it there (a mount: with `strongroom umount`), then try again"
                    .to_owned()
            }
            strongroom::Error::File(FileError::Erased {
                when: Some(when), ..
            }) => {
                let day = text_day(*when);
                format!("the content was erased from all snapshots on {day}; it is gone for good")
            }
            strongroom::Error::File(FileError::QuotaExceeded) => {
                format!("{error}; remove something, or raise the quota with `strongroom quota`")
            }
            // Removing from a vault works on a full disk, too.
            strongroom::Error::File(FileError::NoSpace) => full_disk(&error),
            strongroom::Error::Io { source, .. } if source.kind() == ErrorKind::StorageFull => {
                full_disk(&error)
            }
            other => other.to_string(),
        };
        Self::of_text(ExitCode::of(&error), &message)
    }
}

fn full_disk(error: &strongroom::Error) -> String {
    format!("{error}; remove something from the vault or from its disk, then try again")
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // Whoever read our output has gone; that is no failure worth words.
        if error.kind() == ErrorKind::BrokenPipe {
            return Self {
                code: ExitCode::Other,
                message: None,
            };
        }
        Self::of_text(ExitCode::of_io(&error), &error.to_string())
    }
}

impl From<strongroom_mount::MountError> for Failure {
    fn from(error: strongroom_mount::MountError) -> Self {
        use strongroom_mount::MountError;
        let code = match &error {
            MountError::MountPointMissing(_) => ExitCode::NotFound,
            MountError::MountPointNotEmpty(_) => ExitCode::Exists,
            MountError::Busy(_) | MountError::AlreadyMounted(_) | MountError::StillRuns { .. } => {
                ExitCode::InUse
            }
            MountError::Permission(_) | MountError::AllowOtherNotPermitted => ExitCode::Permission,
            _ => ExitCode::Mount,
        };
        Self::of_text(code, &error.to_string())
    }
}

/// Says what a failure was about.
pub(crate) trait About<T> {
    /// Puts `subject` before the message.
    fn about(self, subject: impl Display) -> Result<T>;
}

impl<T, E: Into<Failure>> About<T> for std::result::Result<T, E> {
    fn about(self, subject: impl Display) -> Result<T> {
        self.map_err(|error| error.into().about(subject))
    }
}

/// Goes on after failures, as `rm` does, and remembers the first.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    first: Option<ExitCode>,
    count: u64,
    stops: bool,
}

impl Failures {
    /// Prints a failure at once.
    pub(crate) fn note(&mut self, result: Result<()>) {
        if let Err(failure) = result {
            print(&failure);
            self.first.get_or_insert(failure.code);
            self.count += 1;
            // What is full or cannot be written would say the same of everything that is left.
            self.stops |= matches!(failure.code, ExitCode::NoSpace | ExitCode::ReadOnly);
        }
    }

    /// Whether going on is of no use.
    pub(crate) fn stop(&self) -> bool {
        self.stops
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// What the whole command comes to.
    pub(crate) fn end(self) -> Result<()> {
        match self.first {
            None => Ok(()),
            Some(code) => Err(Failure {
                code,
                message: None,
            }),
        }
    }
}

/// Writes a failure to standard error.
pub(crate) fn print(failure: &Failure) {
    if let Some(message) = &failure.message {
        tell(&format!("strongroom: {message}"));
    }
}

/// Writes a line to standard error: every one but those of the log goes through here.
pub(crate) fn tell(message: &str) {
    use std::io::Write;
    // If standard error is closed there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{}", printable(message));
}

/// Says what clap makes of a command line: help as it is, of an error nothing that the words typed could fool with.
pub(crate) fn print_usage(error: &clap::Error) -> std::process::ExitCode {
    let code = u8::try_from(error.exit_code()).unwrap_or(ExitCode::Usage as u8);
    let plain = error.render().to_string();
    let safe = printable(&plain);
    if safe == plain {
        // If there is nobody to read it there is nobody to tell that either.
        let _ = error.print();
    } else {
        tell(safe.trim_end());
    }
    std::process::ExitCode::from(code)
}

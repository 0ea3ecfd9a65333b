//! Starts this program again as a daemon, and returns when it is ready or has failed.
//!
//! Takes   arguments for the new process, and a secret for its standard input
//! Gives   its report about the start: ready, or why not
//! Never   forks a process with threads, or puts a secret into arguments or environment
//!
//! The standard output of the daemon is a pipe until the daemon has written its report there: `ok`, or an error.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{inherited, limits};

const READY: &str = "ok\n";

/// What the daemon reads from its standard input.
pub enum DaemonInput<'a> {
    /// Nothing.
    Nothing,
    /// These bytes and then the end: a passphrase. Written to a pipe, never shown.
    Secret(&'a [u8]),
}

/// Starts this program with `arguments` and waits until it says that it is ready.
///
/// The arguments must make it run in the foreground, call `become_daemon` first, and end its start with
/// `report_ready` or `report_failure`.
///
/// # Errors
/// What the daemon reported, or why it could not be started, as text for a person.
pub fn spawn_background<S: AsRef<OsStr>>(
    arguments: &[S],
    input: &DaemonInput<'_>,
) -> Result<(), String> {
    let program =
        std::env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    spawn(&mut command, input)
}

fn spawn(command: &mut Command, input: &DaemonInput<'_>) -> Result<(), String> {
    let stdin = match input {
        DaemonInput::Nothing => Stdio::null(),
        DaemonInput::Secret(_) => Stdio::piped(),
    };
    let mut child = command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("starting the background process: {error}"))?;
    if let (Some(mut pipe), DaemonInput::Secret(secret)) = (child.stdin.take(), input) {
        // A daemon that ended before reading says why on the status pipe.
        let _ = pipe.write_all(secret);
    }
    let mut status = String::new();
    if let Some(pipe) = child.stdout.take() {
        pipe.take(limits::STATUS_BYTES_MAX)
            .read_to_string(&mut status)
            .map_err(|error| format!("reading the status of the background process: {error}"))?;
    }
    if status == READY {
        return Ok(());
    }
    // It has closed its status pipe without being ready, so it is ending.
    let exit = child
        .wait()
        .map_err(|error| format!("waiting for the background process: {error}"))?;
    let message = status.trim();
    if message.is_empty() {
        Err(format!(
            "the background process ended without a message ({exit}); try again with -f to see why"
        ))
    } else {
        Err(message.to_owned())
    }
}

/// In the daemon, before anything is opened and before a second thread begins: leaves the terminal's session and the
/// current folder, which could otherwise not be unmounted, and closes the files that its caller left open. Relative
/// paths must be made absolute before.
///
/// `needed`: paths that will be opened; a file that one of them names by its number (`/dev/fd/N`) stays open.
///
/// # Errors
/// What the system said.
pub fn become_daemon(needed: &[&Path]) -> io::Result<()> {
    inherited::close(needed)?;
    // Refused only to the leader of a process group, which a child of `spawn_background` is not; one
    // that was started by hand simply stays where it is.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")
}

/// In the daemon: tells who started it that it is ready, and lets go of its standard output.
///
/// # Errors
/// What the system said. That nobody listens any more is none.
pub fn report_ready() -> io::Result<()> {
    report(READY)
}

/// In the daemon: tells who started it why it is not ready. The process should end now.
///
/// # Errors
/// What the system said. That nobody listens any more is none.
pub fn report_failure(message: &str) -> io::Result<()> {
    report(message)
}

fn report(status: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(status.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
        _ => {}
    }
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    // The pipe's last writer goes, and the waiting process returns.
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &DaemonInput<'_>) -> Result<(), String> {
        spawn(Command::new("sh").arg("-c").arg(script), input)
    }

    #[test]
    fn a_daemon_that_is_ready_lets_its_starter_go_on() {
        assert_eq!(
            shell("echo ok; exec >/dev/null; exit 3", &DaemonInput::Nothing),
            Ok(())
        );
    }

    #[test]
    fn the_secret_arrives_and_nothing_else() {
        let secret = DaemonInput::Secret(b"correct horse");
        let script = "test \"$(cat)\" = 'correct horse' && echo ok";
        assert_eq!(shell(script, &secret), Ok(()));
        assert_eq!(
            shell("test -z \"$(cat)\" && echo ok", &DaemonInput::Nothing),
            Ok(())
        );
    }

    #[test]
    fn an_error_of_the_start_is_handed_on_in_its_own_words() {
        let error = shell("echo 'wrong passphrase'; exit 4", &DaemonInput::Nothing).unwrap_err();
        assert_eq!(error, "wrong passphrase");
    }

    #[test]
    fn a_daemon_that_dies_silently_is_told_from_one_that_is_ready() {
        let error = shell("exit 7", &DaemonInput::Nothing).unwrap_err();
        assert!(error.contains("without a message"), "{error}");
        let error = shell("printf ok; exit 7", &DaemonInput::Nothing).unwrap_err();
        assert_eq!(error, "ok");
    }

    #[test]
    fn a_daemon_that_does_not_read_its_secret_still_gets_to_speak() {
        let secret = vec![b'x'; 1 << 20];
        let error = shell("echo refused; exit 1", &DaemonInput::Secret(&secret)).unwrap_err();
        assert_eq!(error, "refused");
    }
}

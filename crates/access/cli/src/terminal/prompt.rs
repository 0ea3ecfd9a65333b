//! Asks a user on the terminal for a line that is not shown, or for a yes.
//!
//! Takes   a prompt
//! Gives   the typed line, wiped from memory when it is dropped
//! Never   leaves the terminal without echo, whether after an error or after Ctrl-C or Ctrl-\

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use zeroize::Zeroizing;

use crate::terminal::interrupt;

/// The longest line that a terminal gives at once, in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// How often is looked, while a person thinks, whether a signal came.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// The terminal of this process.
pub(crate) fn terminal() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

/// A terminal as it was, which it is again when this is dropped.
struct Hidden<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Hidden<'a> {
    /// Switches echo off. What would end the process at once becomes input that ends the line, so that the terminal
    /// can be put right first.
    fn begin(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut hidden = before.clone();
        hidden.local_modes -= LocalModes::ECHO | LocalModes::ISIG;
        hidden.local_modes |= LocalModes::ECHONL | LocalModes::ICANON;
        hidden.special_codes[SpecialCodeIndex::VEOL] =
            before.special_codes[SpecialCodeIndex::VINTR];
        hidden.special_codes[SpecialCodeIndex::VEOL2] =
            before.special_codes[SpecialCodeIndex::VQUIT];
        tcsetattr(terminal, OptionalActions::Now, &hidden)?;
        Ok(Self { terminal, before })
    }

    /// The signal that `byte` stood for before. 0 stands for none on any terminal.
    fn signal_of(&self, byte: u8) -> Option<Signal> {
        let is = |code| byte != 0 && self.before.special_codes[code] == byte;
        if is(SpecialCodeIndex::VINTR) {
            Some(Signal::INT)
        } else if is(SpecialCodeIndex::VQUIT) {
            Some(Signal::QUIT)
        } else {
            None
        }
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing any more.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Shows `question`; gives whether the whole word `yes` was typed. Anything else is no.
///
/// # Errors
/// As `shown_line`.
pub(crate) fn confirm(question: &str) -> io::Result<bool> {
    let line = shown_line(question)?;
    Ok(line.trim_ascii().eq_ignore_ascii_case(b"yes"))
}

/// Shows `question`, and gives what is typed up to the end of the line, which shows.
///
/// # Errors
/// Of the terminal; without one, that. `Interrupted` if a signal came that `interrupt::watch` notes.
pub(crate) fn shown_line(question: &str) -> io::Result<Vec<u8>> {
    let terminal = terminal()?;
    (&terminal).write_all(question.as_bytes())?;
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE_BYTES_MAX {
        let mut waits = [PollFd::new(&terminal, PollFlags::IN)];
        match poll(&mut waits, Some(&LOOK_EVERY)) {
            _ if interrupt::came() => return Err(io::ErrorKind::Interrupted.into()),
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match (&terminal).read(&mut byte) {
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(line)
}

/// Shows `prompt`, and gives what is typed up to the end of the line.
///
/// # Errors
/// `Interrupted` if the person does not want to answer and the signal of that did not end the process.
pub(crate) fn hidden_line(prompt: &str) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut terminal = terminal()?;
    let hidden = Hidden::begin(&terminal)?;
    (&terminal).write_all(prompt.as_bytes())?;
    // Reserved in one piece, so that no half of a secret stays in a buffer that was too small.
    let mut line = Zeroizing::new(Vec::with_capacity(LINE_BYTES_MAX));
    let signal = loop {
        let mut byte = Zeroizing::new([0]);
        match (&terminal).read(&mut byte[..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if let Some(signal) = hidden.signal_of(byte[0]) {
            break signal;
        }
        match byte[0] {
            b'\n' => return Ok(line),
            _ if line.len() == LINE_BYTES_MAX => return Err(io::ErrorKind::InvalidData.into()),
            byte => line.push(byte),
        }
    };
    drop(hidden);
    terminal.write_all(b"\n")?;
    kill_process(getpid(), signal)?;
    Err(io::ErrorKind::Interrupted.into())
}

//! What is typed at a terminal: asked for with a prompt, never shown, and right or refused.
//!
//! The terminal is the one that `script` of util-linux makes; without it the tests say so and leave that out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::termios::{LocalModes, tcgetattr};
use support::Place;

/// How long a prompt may take before the test gives up; decides nothing else.
const PATIENCE: Duration = Duration::from_secs(60);

fn has_script() -> bool {
    let has = Path::new("/usr/bin/script").exists();
    if !has {
        eprintln!("left out: this machine has no script(1)");
    }
    has
}

/// The command at a terminal of its own.
struct Terminal {
    script: Child,
    /// The command's side of it, to see whether it shows what is typed.
    side: File,
    shown: String,
}

impl Terminal {
    /// Runs `strongroom arguments` in `place`.
    fn run(place: &Place, arguments: &str) -> Self {
        let _ = fs::remove_file(place.path("tty"));
        let program = env!("CARGO_BIN_EXE_strongroom");
        let line = format!("tty > tty.new; mv tty.new tty; exec {program} {arguments}");
        let mut script = std::process::Command::new("/usr/bin/script")
            .args(["-q", "-e", "-c", &line, "/dev/null"])
            .current_dir(place.path(""))
            .env("XDG_RUNTIME_DIR", place.path("run"))
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !place.path("tty").exists() {
            assert!(Instant::now() < deadline, "the terminal begins");
            assert!(script.try_wait().unwrap().is_none(), "it has not ended");
            std::thread::yield_now();
        }
        let name = fs::read_to_string(place.path("tty")).unwrap();
        Self {
            script,
            side: File::options()
                .read(true)
                // It must not become the terminal of the test.
                .custom_flags(i32::try_from(OFlags::NOCTTY.bits()).unwrap())
                .open(name.trim())
                .unwrap(),
            shown: String::new(),
        }
    }

    /// Waits for `prompt`, and until nothing typed is shown any more; then types `line`.
    fn answer(&mut self, prompt: &str, line: &str) {
        let mut bytes = [0; 1];
        let mut fresh = String::new();
        while !fresh.ends_with(prompt) {
            let count = self.script.stdout.as_mut().unwrap().read(&mut bytes);
            assert_eq!(count.unwrap(), 1, "no {prompt:?} in {fresh:?}");
            fresh.push(char::from(bytes[0]));
        }
        self.shown.push_str(&fresh);
        let deadline = Instant::now() + PATIENCE;
        while tcgetattr(&self.side)
            .unwrap()
            .local_modes
            .contains(LocalModes::ECHO)
        {
            assert!(Instant::now() < deadline, "what is typed would be shown");
            std::thread::yield_now();
        }
        let input = self.script.stdin.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Waits for the end; gives the exit code and all that was shown.
    fn end(mut self) -> (i32, String) {
        drop(self.side);
        let mut rest = Vec::new();
        let mut output = self.script.stdout.take().unwrap();
        output.read_to_end(&mut rest).unwrap();
        self.shown.push_str(&String::from_utf8_lossy(&rest));
        let status = self.script.wait().unwrap();
        (status.code().unwrap(), self.shown)
    }
}

#[test]
fn a_passphrase_typed_at_the_terminal_makes_opens_and_changes_a_vault_and_is_never_shown() {
    if !has_script() {
        return;
    }
    let place = Place::empty();
    let mut terminal = Terminal::run(&place, "init v");
    terminal.answer("new passphrase of v: ", "first horse");
    terminal.answer("the same again: ", "first horse");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("recovery code  ") && !shown.contains("horse"));

    let mut terminal = Terminal::run(&place, "key change v");
    terminal.answer("passphrase of v: ", "first horse");
    terminal.answer("new passphrase of v: ", "second horse");
    terminal.answer("the same again: ", "second horse");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("horse"), "{shown}");

    for (typed, wanted) in [("first horse", 4), ("second horse", 0)] {
        let mut terminal = Terminal::run(&place, "ls v");
        terminal.answer("passphrase of v: ", typed);
        let (code, shown) = terminal.end();
        assert_eq!(code, wanted, "{shown}");
        assert!(!shown.contains("horse"), "{shown}");
    }
}

#[test]
fn two_new_passphrases_that_differ_and_an_empty_one_are_refused_and_make_no_vault() {
    if !has_script() {
        return;
    }
    let place = Place::empty();
    let mut terminal = Terminal::run(&place, "init v");
    terminal.answer("new passphrase of v: ", "one");
    terminal.answer("the same again: ", "two");
    let (code, shown) = terminal.end();
    assert_eq!(code, 2, "{shown}");
    assert!(shown.contains("differ"), "{shown}");
    let mut terminal = Terminal::run(&place, "init v");
    terminal.answer("new passphrase of v: ", "");
    let (code, shown) = terminal.end();
    assert_eq!(code, 2, "{shown}");
    assert!(!place.path("v").exists());
}

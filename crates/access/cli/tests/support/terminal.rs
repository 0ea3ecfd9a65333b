//! A terminal that runs a command, as a user has it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use super::Place;

/// A test that hears nothing for so long has failed, in seconds.
const PATIENCE_S: i64 = 120;

/// A terminal with a command on it, and what it showed so far.
pub(crate) struct Terminal {
    keyboard: File,
    /// Kept open, so that the terminal's settings outlive the command.
    screen: File,
    child: Child,
    pub(crate) shown: String,
}

impl Terminal {
    pub(crate) fn start(place: &Place, arguments: &[&str]) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let mut options = File::options();
        let screen = options
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        let command = place.command(arguments);
        // A session of its own, whose terminal this becomes.
        let child = Command::new("setsid")
            .args(["--ctty", "--wait"])
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(place.path(""))
            .env("XDG_RUNTIME_DIR", place.path("run"))
            .env("XDG_STATE_HOME", place.path("state"))
            .stdin(screen.try_clone().unwrap())
            .stdout(screen.try_clone().unwrap())
            .stderr(screen.try_clone().unwrap())
            .spawn()
            .unwrap();
        Self {
            keyboard: keyboard.into(),
            screen,
            child,
            shown: String::new(),
        }
    }

    /// Reads what is shown until `text` is in what was not looked at before; gives what stood before it.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        while !self.shown.contains(text) {
            self.read();
        }
        let at = self.shown.find(text).unwrap();
        let before: String = self.shown.drain(..at + text.len()).collect();
        before[..at].to_owned()
    }

    fn read(&mut self) {
        let patience = Timespec {
            tv_sec: PATIENCE_S,
            tv_nsec: 0,
        };
        let ready = poll(
            &mut [PollFd::new(&self.keyboard.as_fd(), PollFlags::IN)],
            Some(&patience),
        );
        assert_eq!(ready, Ok(1), "after {:?}", self.shown);
        let mut part = [0; 4096];
        let count = self.keyboard.read(&mut part).unwrap();
        self.shown
            .push_str(&String::from_utf8_lossy(&part[..count]));
        assert!(!self.shown.contains("horse"), "{}", self.shown);
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn shows_what_is_typed(&self) -> bool {
        let modes = tcgetattr(&self.screen).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ISIG | LocalModes::ICANON)
    }

    /// Waits for the prompt, and types an answer when nothing is shown any more.
    pub(crate) fn answer(&mut self, prompt: &str, answer: &str) {
        self.wait_for(prompt);
        assert!(!self.shows_what_is_typed(), "{prompt}");
        self.press(answer);
    }

    /// The exit code; the terminal must be as it was.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let code = self.child.wait().unwrap().code();
        assert!(self.shows_what_is_typed());
        code
    }
}

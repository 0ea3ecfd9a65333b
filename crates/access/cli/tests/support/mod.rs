//! A test environment for the real binary.
#![allow(
    dead_code,
    reason = "each test binary uses the part of this that it needs"
)]

pub(crate) mod serving;
pub(crate) mod terminal;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder with a vault in it that a key file unlocks, so that commands cost no second each.
pub(crate) struct Place {
    directory: tempfile::TempDir,
    /// Whether it remembers measurements by itself. The others share what one of them measured.
    measures: bool,
}

impl Place {
    pub(crate) fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("run")).unwrap();
        Self {
            directory,
            measures: false,
        }
    }

    /// One whose commands find nothing that was measured before.
    pub(crate) fn unmeasured() -> Self {
        Self {
            measures: true,
            ..Self::empty()
        }
    }

    pub(crate) fn new() -> Self {
        let place = Self::empty();
        place.done(&["init", "v", "--key-file", "key"]);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strongroom"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        // Sockets of one test are not in the way of another's, and none is left in the user's folder.
        command.env("XDG_RUNTIME_DIR", self.path("run"));
        command.env("XDG_STATE_HOME", self.path("state"));
        command.env("XDG_CONFIG_HOME", self.path("config"));
        // One measurement of the providers serves all tests but those that are about it.
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let cache = if self.measures {
            self.path("cache")
        } else {
            shared
        };
        command.env("XDG_CACHE_HOME", cache);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The same, with the key file.
    pub(crate) fn run_keyed(&self, arguments: &[&str]) -> Output {
        self.run(&[arguments, &["--key-file", "key"]].concat())
    }

    /// Runs a command that must succeed; gives what it printed.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{arguments:?}: {:?} {errors}",
            output.status
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same, with the key file.
    pub(crate) fn keyed(&self, arguments: &[&str]) -> String {
        self.done(&[arguments, &["--key-file", "key"]].concat())
    }

    /// What a command with the key file printed that is no text.
    pub(crate) fn keyed_bytes(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.run(&[arguments, &["--key-file", "key"]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        output.stdout
    }

    /// The same as `run`, with a terminal for its standard output, which changes nothing that is written to it.
    pub(crate) fn run_on_terminal(&self, arguments: &[&str]) -> Output {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let mut options = fs::File::options();
        let screen = options.read(true).write(true);
        let screen = screen.open(name.to_str().unwrap()).unwrap();
        let mut modes = tcgetattr(&screen).unwrap();
        modes.make_raw();
        tcsetattr(&screen, OptionalActions::Now, &modes).unwrap();
        let mut command = self.command(arguments);
        let child = command
            .stdout(screen)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The last writer of the terminal is the command.
        drop(command);
        let reading = std::thread::spawn(move || {
            let mut shown = Vec::new();
            let mut part = [0; 4096];
            // When all its writers are gone, reading it fails.
            while let Ok(count @ 1..) = rustix::io::read(&master, &mut part) {
                shown.extend_from_slice(&part[..count]);
            }
            shown
        });
        let mut output = child.wait_with_output().unwrap();
        output.stdout = reading.join().unwrap();
        output
    }

    /// Runs a command that must fail with `code`; gives its message.
    pub(crate) fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        message
    }

    pub(crate) fn keyed_fails(&self, code: i32, arguments: &[&str]) -> String {
        self.fails(code, &[arguments, &["--key-file", "key"]].concat())
    }
}

/// Copies a folder and what is in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Makes `user` the owner of a folder and all in it.
pub(crate) fn give(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
}

/// The user nobody.
pub(crate) const NOBODY: u32 = 65_534;

/// A command with the key file as the user nobody, who becomes the owner of everything in `place`.
pub(crate) fn as_nobody(place: &Place, arguments: &[&str]) -> Command {
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    give(&place.path(""), NOBODY);
    let binary = place.path("strongroom");
    copy_program(env!("CARGO_BIN_EXE_strongroom"), &binary);
    fs::set_permissions(place.path("run"), fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = Command::new(binary);
    command
        .args(arguments)
        .args(["--key-file", "key"])
        .current_dir(place.path(""))
        .env("XDG_RUNTIME_DIR", place.path("run"))
        .env("XDG_CONFIG_HOME", place.path("config"))
        .env("XDG_CACHE_HOME", place.path("cache"))
        .uid(NOBODY)
        .gid(NOBODY);
    command
}

/// Takes the mount away also when the test fails.
pub(crate) struct MountPoint<'a> {
    pub(crate) place: &'a Place,
    pub(crate) on: &'static str,
}

impl<'a> MountPoint<'a> {
    /// On the folder `m` of the place.
    pub(crate) fn new(place: &'a Place) -> Self {
        Self { place, on: "m" }
    }
}

impl Drop for MountPoint<'_> {
    fn drop(&mut self) {
        // Fails when the test has unmounted already, which is the rule.
        let _ = self.place.run(&["umount", "--lazy", self.on]);
    }
}

/// Copies a program, by a process of its own: a child that another test starts meanwhile would inherit the open copy, and what is
/// open for writing cannot be run ("Text file busy").
pub(crate) fn copy_program(from: impl AsRef<Path>, to: &Path) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to).status();
    assert!(copied.unwrap().success());
}

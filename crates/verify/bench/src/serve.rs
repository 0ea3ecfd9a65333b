//! Makes, mounts, syncs and unmounts a file system.
//!
//! Takes   an entry of the table in `system.rs`, its program, a work folder
//! Gives   a served directory, and the process that serves it

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::interrupt;
use crate::place::{BRIEFLY, THOROUGHLY, run, run_to_end, seconds_at_rest};
use crate::system::{SECRET, Served, Sync, System};

/// Deriving a key from a passphrase is slow on purpose, and slower on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);
const END_MAX: Duration = Duration::from_secs(60);
const LOOP_BYTES: u64 = 8 << 30;

/// A file system in use. Unmounts when dropped, best by `end`.
pub struct Running {
    /// What it is.
    pub system: System,
    /// In tables: that of the system, and the options it was asked to be mounted with.
    pub name: String,
    /// All that it keeps, and beside that the directory it is mounted at.
    pub place: PathBuf,
    /// Where its files are.
    pub directory: PathBuf,
    /// The first line of what it says of its version.
    pub version: String,
    program: PathBuf,
    options: Option<String>,
    store: PathBuf,
    secret: PathBuf,
    child: Option<Child>,
    loop_device: Option<String>,
}

impl System {
    /// In tables, if it is mounted with `options`.
    #[must_use]
    pub fn name_with(&self, options: Option<&str>) -> String {
        options.map_or_else(
            || self.name.to_owned(),
            |options| format!("{} -o {options}", self.name),
        )
    }

    /// Makes and mounts it below `work`, with `options` of its `mount` (`-o`) beside those that it always has.
    ///
    /// # Errors
    /// Why it does not work here; nothing stays mounted.
    pub fn start(
        &self,
        program: PathBuf,
        options: Option<&str>,
        work: &Path,
    ) -> io::Result<Running> {
        let name = self.name_with(options);
        let place = work.join(name.replace('/', "_"));
        fs::create_dir(&place)?;
        let version = self.version_of(&program);
        let mut running = Running {
            system: *self,
            name,
            directory: place.join("files"),
            version,
            program,
            options: options.map(str::to_owned),
            store: place.join("store"),
            secret: place.join("secret"),
            place,
            child: None,
            loop_device: None,
        };
        fs::create_dir(&running.directory)?;
        if let Served::Program { create, .. } = self.served {
            running.make_store(create)?;
        }
        running.serve()?;
        Ok(running)
    }
}

impl Running {
    /// The process that serves it.
    #[must_use]
    pub fn server(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn make_store(&self, create: &[&str]) -> io::Result<()> {
        fs::write(&self.secret, format!("{SECRET}\n"))?;
        // Strongroom makes the folder of a vault itself.
        if self.system.sync != Sync::Vault {
            fs::create_dir(&self.store)?;
        }
        if create.is_empty() {
            return Ok(());
        }
        run(Command::new(&self.program)
            .args(self.filled(create))
            .stdin(Stdio::null()))
    }

    /// Words of the table with the paths that they stand for.
    fn filled(&self, words: &[&str]) -> Vec<OsString> {
        let fill = |word: &&str| -> OsString {
            match *word {
                "STORE" => self.store.clone().into(),
                "MOUNT" => self.directory.clone().into(),
                "SECRETFILE" => self.secret.clone().into(),
                "CACHE" => self.place.join("cache").into(),
                other => other.into(),
            }
        };
        words.iter().map(fill).collect()
    }

    fn serve(&mut self) -> io::Result<()> {
        match self.system.served {
            Served::Plain => Ok(()),
            Served::Program {
                mount, environment, ..
            } => self.mount(mount, environment),
            Served::Encrypted => self.encrypt(),
        }
    }

    fn mount(&mut self, words: &[&str], environment: &[(&str, &str)]) -> io::Result<()> {
        let log = self.place.join("log");
        let mut command = Command::new(&self.program);
        command.args(self.filled(words));
        if let Some(options) = &self.options {
            command.args(["-o", options]);
        }
        let (names, values): (Vec<_>, Vec<_>) = environment.iter().copied().unzip();
        command.envs(names.into_iter().zip(self.filled(&values)));
        command.stdin(Stdio::piped());
        command
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?);
        let mut child = command.spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // Who does not ask does not read.
            let _ = input.write_all(format!("{SECRET}\n{SECRET}\n").as_bytes());
        }
        self.child = Some(child);
        self.wait_until_mounted(&log)
    }

    /// Ends the server with no chance to do anything more (SIGKILL), and detaches what it served. A file system without a
    /// server stays as it is.
    ///
    /// # Errors
    /// If it stays mounted.
    pub fn kill(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        child.kill()?;
        child.wait()?;
        if self.is_mounted().unwrap_or(true) {
            self.detach()?;
        }
        Ok(())
    }

    /// Serves again what was killed, from all that is left of it.
    ///
    /// # Errors
    /// What its program says if it does not mount.
    pub fn serve_again(&mut self) -> io::Result<()> {
        assert!(self.child.is_none(), "the server was killed before");
        match self.system.served {
            Served::Program { .. } => self.serve(),
            Served::Plain | Served::Encrypted => Ok(()),
        }
    }

    fn wait_until_mounted(&mut self, log: &Path) -> io::Result<()> {
        let start = Instant::now();
        loop {
            interrupt::check()?;
            if self.is_mounted()? {
                return Ok(());
            }
            let ended = self
                .child
                .as_mut()
                .map(Child::try_wait)
                .transpose()?
                .flatten();
            if ended.is_some() || start.elapsed() > START_MAX {
                let text = fs::read_to_string(log).unwrap_or_default();
                let line = telling_line(&text);
                return Err(io::Error::other(format!("does not mount: {line}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_mounted(&self) -> io::Result<bool> {
        Ok(fs::metadata(&self.directory)?.st_dev() != fs::metadata(&self.place)?.st_dev())
    }

    /// A file, a loop device on it with direct I/O, ext4 on that, and in it a directory with a key.
    fn encrypt(&mut self) -> io::Result<()> {
        if !Path::new("/sys/fs/ext4/features/encryption").exists() {
            return Err(io::Error::other("this kernel's ext4 does not encrypt"));
        }
        File::create(&self.store)?.set_len(LOOP_BYTES)?;
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-O", "encrypt"])
            .arg(&self.store))?;
        let mut losetup = Command::new("losetup");
        losetup
            .args(["--find", "--show", "--direct-io=on"])
            .arg(&self.store);
        let output = losetup.output()?;
        if !output.status.success() {
            return Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        }
        let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        self.loop_device = Some(device.clone());
        run(Command::new("mount").arg(&device).arg(&self.directory))?;
        let inner = self.directory.join("encrypted");
        fs::create_dir(&inner)?;
        fs::write(&self.secret, format!("{SECRET}\n"))?;
        let mut key = Command::new(&self.program);
        key.args(["add_key", "-S", "s:bench"])
            .arg(&inner)
            .stdin(File::open(&self.secret)?);
        run_to_end(&mut key)?;
        // A policy that was not taken would make this the figures of plain ext4.
        if !has_policy(&self.program, &inner)? {
            return Err(io::Error::other("the directory did not take the key"));
        }
        Ok(())
    }

    /// Where workloads work.
    #[must_use]
    pub fn workplace(&self) -> PathBuf {
        match self.system.served {
            Served::Encrypted => self.directory.join("encrypted"),
            _ => self.directory.clone(),
        }
    }

    /// Makes durable what was written, as far as the file system offers that.
    ///
    /// # Errors
    /// Of the disk, or of the program that syncs.
    pub fn sync(&self) -> io::Result<()> {
        let sync = |path: &Path| -> io::Result<()> { Ok(rustix::fs::syncfs(File::open(path)?)?) };
        match self.system.sync {
            Sync::Vault => run(Command::new(&self.program).arg("sync").arg(&self.store)),
            Sync::Directory => sync(&self.directory),
            Sync::Beneath => {
                sync(&self.directory)?;
                sync(&self.store)
            }
        }
    }

    /// Waits until the server has nothing left to do from before, so that it does not use up the next one's time.
    pub fn settle(&self) {
        if let Some(server) = self.server() {
            // One that stays at work is measured as it is; an interruption is found at the next step.
            let _ = seconds_at_rest(server, &BRIEFLY);
        }
    }

    /// Waits, a minute at most, until it is sure that the server has done what it puts off too.
    ///
    /// # Errors
    /// If the run is interrupted.
    pub fn rest(&self) -> io::Result<()> {
        let server = self.server();
        server.map_or(Ok(()), |server| {
            seconds_at_rest(server, &THOROUGHLY).map(|_| ())
        })
    }

    /// Unmounts, and waits for the server.
    ///
    /// # Errors
    /// If it does not end.
    pub fn end(mut self) -> io::Result<()> {
        self.unmount()
    }

    fn unmount(&mut self) -> io::Result<()> {
        if interrupt::came() {
            return self.abandon();
        }
        let mut result = Ok(());
        let served =
            !matches!(self.system.served, Served::Plain) && self.is_mounted().unwrap_or(true);
        if served {
            result = match self.system.sync {
                Sync::Vault => run_to_end(
                    Command::new(&self.program)
                        .arg("umount")
                        .arg(&self.directory),
                ),
                // `-i`: by the system call, and by no helper that somebody installed for the type.
                _ => run_to_end(Command::new("umount").arg("-i").arg(&self.directory)),
            };
            if result.is_err() {
                let _ = self.detach();
            }
        }
        if let Some(mut child) = self.child.take() {
            // One that does not serve yet is not left to mount when nobody looks any more.
            if !served {
                child.kill()?;
            }
            let start = Instant::now();
            while child.try_wait()?.is_none() {
                if start.elapsed() > END_MAX {
                    child.kill()?;
                    child.wait()?;
                    result = Err(io::Error::other("the server did not end and was killed"));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // It may have mounted between the look and its end.
        if !served && self.is_mounted().unwrap_or(true) {
            let _ = self.detach();
        }
        result.and(self.free_device())
    }

    /// Ends it at once, for a run that is interrupted: what it stores is removed too, so nothing is worth waiting for.
    fn abandon(&mut self) -> io::Result<()> {
        let killed = self.kill();
        let served = !matches!(self.system.served, Served::Plain);
        let detached = if served && self.is_mounted().unwrap_or(true) {
            self.detach()
        } else {
            killed
        };
        detached.and(self.free_device())
    }

    /// Unmounts lazily, so that even a dead mount, or one in use, does not outlive its run.
    fn detach(&self) -> io::Result<()> {
        run_to_end(
            Command::new("umount")
                .args(["-i", "-l"])
                .arg(&self.directory),
        )
    }

    fn free_device(&mut self) -> io::Result<()> {
        let Some(device) = self.loop_device.take() else {
            return Ok(());
        };
        run_to_end(Command::new("losetup").arg("-d").arg(device))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("{}: {error}", self.name);
        }
    }
}

/// The last line of a program's log that says what is wrong; the last one with words, if none claims to.
fn telling_line(log: &str) -> &str {
    let lines = || log.lines().map(str::trim);
    let wrong = lines().rfind(|line| line.to_lowercase().contains("error"));
    let words = || lines().rfind(|line| line.contains(char::is_alphanumeric));
    wrong.or_else(words).unwrap_or("no message")
}

/// Whether new files in `directory` will be encrypted.
fn has_policy(e4crypt: &Path, directory: &Path) -> io::Result<bool> {
    let output = Command::new(e4crypt)
        .arg("get_policy")
        .arg(directory)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(output.status.success()
        && text
            .trim()
            .rsplit(' ')
            .next()
            .is_some_and(|key| key.len() == 16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::PEERS;

    #[test]
    fn the_line_that_says_what_is_wrong_is_found_among_others() {
        let log = "Version 1\n[error] no store\nblock size: 16\n------\n\n";
        assert_eq!(telling_line(log), "[error] no store");
        assert_eq!(telling_line("Version 1\n give up \n----\n"), "give up");
        assert_eq!(telling_line("\n"), "no message");
    }

    #[test]
    fn a_program_that_does_not_mount_says_why_and_leaves_no_process() {
        let work = tempfile::tempdir().unwrap();
        let wrong = System {
            program: "sh",
            package: "sh",
            version: &[],
            served: Served::Program {
                create: &[],
                mount: &["-c", "echo no such option >&2; exit 1"],
                environment: &[],
            },
            ..PEERS[0]
        };
        let program = wrong.find(None).unwrap();
        let error = wrong.start(program, None, work.path()).err().unwrap();
        assert!(error.to_string().contains("no such option"), "{error}");
    }
}

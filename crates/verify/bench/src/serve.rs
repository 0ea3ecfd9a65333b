//! How a file system is made, mounted, synced and unmounted.
//!
//! Takes   an entry of the table in `system.rs`, its program, a work folder
//! Gives   a directory that is served, and the process that serves it

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::interrupt;
use crate::place::{processor_seconds, run, run_to_end};
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
    /// Where its files are.
    pub directory: PathBuf,
    /// The first line of what it says of its version.
    pub version: String,
    program: PathBuf,
    store: PathBuf,
    child: Option<Child>,
    loop_device: Option<String>,
}

impl System {
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
        let name = options.map_or_else(
            || self.name.to_owned(),
            |options| format!("{} -o {options}", self.name),
        );
        let place = work.join(name.replace('/', "_"));
        fs::create_dir(&place)?;
        let version = self.version_of(&program);
        let mut running = Running {
            system: *self,
            name,
            directory: place.join("files"),
            version,
            program,
            store: place.join("store"),
            child: None,
            loop_device: None,
        };
        fs::create_dir(&running.directory)?;
        match self.served {
            Served::Plain => {}
            Served::Program {
                create,
                mount,
                environment,
            } => {
                let options = options.map(|options| ["-o", options]);
                let mount = [mount, options.as_ref().map_or(&[], |two| two.as_slice())].concat();
                running.serve(&place, create, &mount, environment)?;
            }
            Served::Encrypted => running.encrypt(&place)?,
        }
        Ok(running)
    }
}

impl Running {
    /// The process that serves it.
    #[must_use]
    pub fn server(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn serve(
        &mut self,
        place: &Path,
        create: &[&str],
        mount: &[&str],
        environment: &[(&str, &str)],
    ) -> io::Result<()> {
        let secret = place.join("secret");
        fs::write(&secret, format!("{SECRET}\n"))?;
        // Strongroom makes the folder of a vault itself.
        if self.system.sync != Sync::Vault {
            fs::create_dir(&self.store)?;
        }
        let obscured = if environment.iter().any(|(_, value)| *value == "OBSCURED") {
            let output = Command::new(&self.program)
                .args(["obscure", SECRET])
                .output()?;
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        } else {
            String::new()
        };
        let fill = |word: &str| -> OsString {
            match word {
                "STORE" => self.store.clone().into(),
                "MOUNT" => self.directory.clone().into(),
                "SECRETFILE" => secret.clone().into(),
                "CACHE" => place.join("cache").into(),
                "OBSCURED" => obscured.clone().into(),
                other => other.into(),
            }
        };
        if !create.is_empty() {
            run(Command::new(&self.program)
                .args(create.iter().map(|word| fill(word)))
                .stdin(Stdio::null()))?;
        }
        let log = place.join("log");
        let mut command = Command::new(&self.program);
        command.args(mount.iter().map(|word| fill(word)));
        command.envs(environment.iter().map(|(name, value)| (name, fill(value))));
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
                let line = text
                    .lines()
                    .rfind(|line| !line.trim().is_empty())
                    .unwrap_or("no message");
                return Err(io::Error::other(format!("does not mount: {line}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_mounted(&self) -> io::Result<bool> {
        let above = self
            .directory
            .parent()
            .expect("it stands in the work folder");
        Ok(fs::metadata(&self.directory)?.st_dev() != fs::metadata(above)?.st_dev())
    }

    /// A file, a loop device on it with direct I/O, ext4 on that, and in it a directory with a key.
    fn encrypt(&mut self, place: &Path) -> io::Result<()> {
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
        let secret = place.join("secret");
        fs::write(&secret, format!("{SECRET}\n"))?;
        let mut key = Command::new(&self.program);
        key.args(["add_key", "-S", "s:bench"])
            .arg(&inner)
            .stdin(File::open(&secret)?);
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
        let Some(server) = self.server() else { return };
        let start = Instant::now();
        let mut before = processor_seconds(server);
        while start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(300));
            let now = processor_seconds(server);
            // Less than a thirtieth of a processor is what an idle server uses.
            if now
                .zip(before)
                .is_none_or(|(now, before)| now - before < 0.02)
            {
                return;
            }
            before = now;
        }
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
                _ => run_to_end(Command::new("umount").arg(&self.directory)),
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
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        let served = !matches!(self.system.served, Served::Plain);
        let detached = if served && self.is_mounted().unwrap_or(true) {
            self.detach()
        } else {
            Ok(())
        };
        detached.and(self.free_device())
    }

    /// Unmounts lazily, so that even a dead mount, or one in use, does not outlive its run.
    fn detach(&self) -> io::Result<()> {
        run_to_end(Command::new("umount").arg("-l").arg(&self.directory))
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

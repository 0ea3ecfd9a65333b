//! The file systems that are compared, and how each is made, mounted and unmounted. One entry of a table each.
//!
//! Takes   a work folder
//! Gives   a directory that is served, and the process that serves it
//! Never   installs: `make bench-peers` does; who is missing is named

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::interrupt;
use crate::place::{processor_seconds, run, run_to_end};

/// Deriving a key from a passphrase is slow on purpose, and slower on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);
const END_MAX: Duration = Duration::from_secs(60);
/// The passphrase of every file system here; nothing is secret in them.
const SECRET: &str = "bench";
const LOOP_BYTES: u64 = 8 << 30;

/// How a file system comes to its directory.
#[derive(Clone, Copy, Debug)]
pub enum Served {
    /// It is there.
    Plain,
    /// By a program in the foreground. Words `STORE`, `MOUNT` and `SECRETFILE` stand for paths; what the programs ask
    /// for is answered on standard input.
    Program {
        /// Makes the store; empty if mounting does.
        create: &'static [&'static str],
        /// Serves it until it is unmounted.
        mount: &'static [&'static str],
        /// Added to the environment.
        environment: &'static [(&'static str, &'static str)],
    },
    /// By the kernel: ext4 with encryption, in a file.
    Encrypted,
}

/// What is durable when its row's clock stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// `syncfs` on the directory.
    Directory,
    /// `strongroom sync`.
    Vault,
    /// `syncfs` on the directory, then on the file system beneath.
    Beneath,
}

/// One file system.
#[derive(Clone, Copy, Debug)]
pub struct System {
    /// In tables.
    pub name: &'static str,
    /// The program that must be installed.
    pub program: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// Its arguments that print its version.
    pub version: &'static [&'static str],
    /// How it is served.
    pub served: Served,
    /// How it is synced.
    pub sync: Sync,
    /// What a reader of its figures must know.
    pub note: &'static str,
}

/// The file system beneath all others.
pub const PLAIN: System = System {
    name: "plain",
    program: "",
    package: "",
    version: &[],
    served: Served::Plain,
    sync: Sync::Directory,
    note: "the file system beneath all others",
};

/// Ours.
pub const STRONGROOM: System = System {
    name: "strongroom",
    program: "strongroom",
    package: "",
    version: &["--version"],
    served: Served::Program {
        create: &["init", "--passphrase-file", "SECRETFILE", "STORE"],
        mount: &[
            "mount",
            "-f",
            "--passphrase-file",
            "SECRETFILE",
            "STORE",
            "MOUNT",
        ],
        environment: &[],
    },
    sync: Sync::Vault,
    note: "a sync is `strongroom sync`, the start of that program included",
};

/// The others.
pub const PEERS: &[System] = &[
    System {
        name: "gocryptfs",
        program: "gocryptfs",
        package: "gocryptfs",
        version: &["-version"],
        served: Served::Program {
            create: &[
                "-init",
                "-q",
                "-scryptn",
                "10",
                "-passfile",
                "SECRETFILE",
                "STORE",
            ],
            mount: &["-fg", "-q", "-passfile", "SECRETFILE", "STORE", "MOUNT"],
            environment: &[],
        },
        sync: Sync::Beneath,
        note: "writes through; what was written is durable when the file system beneath is synced",
    },
    System {
        name: "securefs",
        program: "securefs",
        package: "securefs",
        version: &["version"],
        served: Served::Program {
            create: &["create", "--pass", SECRET, "STORE"],
            mount: &["mount", "--pass", SECRET, "STORE", "MOUNT"],
            environment: &[],
        },
        sync: Sync::Beneath,
        note: "writes through; what was written is durable when the file system beneath is synced",
    },
    System {
        name: "encfs",
        program: "encfs",
        package: "encfs",
        version: &["--version"],
        served: Served::Program {
            create: &[],
            mount: &["-f", "--standard", "--stdinpass", "STORE", "MOUNT"],
            environment: &[],
        },
        sync: Sync::Beneath,
        note: "writes through; what was written is durable when the file system beneath is synced; content is not authenticated",
    },
    System {
        name: "cryfs",
        program: "cryfs",
        package: "cryfs",
        version: &["--version"],
        served: Served::Program {
            create: &[],
            mount: &["-f", "STORE", "MOUNT"],
            environment: &[
                ("CRYFS_FRONTEND", "noninteractive"),
                ("CRYFS_NO_UPDATE_CHECK", "true"),
            ],
        },
        sync: Sync::Beneath,
        note: "keeps blocks in its own memory for a while: neither fsync nor a sync is known to make them durable",
    },
    System {
        name: "rclone",
        program: "rclone",
        package: "rclone",
        version: &["version"],
        served: Served::Program {
            create: &[],
            // The password is SECRET in rclone's own notation, which hides it from nobody.
            mount: &[
                "mount",
                "bench:",
                "MOUNT",
                "--vfs-cache-mode",
                "writes",
                "--vfs-write-back",
                "0s",
                "--cache-dir",
                "CACHE",
            ],
            environment: &[
                ("RCLONE_CONFIG", "/dev/null"),
                ("RCLONE_CONFIG_BENCH_TYPE", "crypt"),
                ("RCLONE_CONFIG_BENCH_REMOTE", "STORE"),
                ("RCLONE_CONFIG_BENCH_PASSWORD", "OBSCURED"),
            ],
        },
        sync: Sync::Beneath,
        note: "writes go to a cache in clear, and are encrypted after the file is closed: neither fsync nor a sync waits for that",
    },
    System {
        name: "fscrypt",
        program: "e4crypt",
        package: "e2fsprogs",
        version: &[],
        served: Served::Encrypted,
        sync: Sync::Directory,
        note: "ext4's own encryption by the kernel, on a loop device with direct I/O; content is not authenticated",
    },
];

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
    /// The path of its program: `given`, or the one found in `PATH`.
    #[must_use]
    pub fn find(&self, given: Option<&Path>) -> Option<PathBuf> {
        if self.program.is_empty() {
            return Some(PathBuf::new());
        }
        if let Some(given) = given {
            return given.exists().then(|| given.to_path_buf());
        }
        let path = std::env::var_os("PATH")?;
        let extra = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        let mut folders = std::env::split_paths(&path).chain(extra);
        folders.find_map(|folder| Some(folder.join(self.program)).filter(|path| path.is_file()))
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

    /// What the program says of itself, or the version of its package, where it is installed from one.
    fn version_of(&self, program: &Path) -> String {
        let first = |command: &mut Command| {
            let output = command.stdin(Stdio::null()).output().ok()?;
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            let found = text
                .lines()
                .find(|line| line.contains(|letter: char| letter.is_ascii_digit()))?;
            output.status.success().then(|| found.trim().to_owned())
        };
        let mut package = Command::new("dpkg-query");
        package.args(["-W", "-f=${Package} ${Version}", self.package]);
        let packaged = program.starts_with("/usr") && !self.package.is_empty();
        let packaged = packaged.then(|| first(&mut package)).flatten();
        let asked = !self.version.is_empty();
        let told = || {
            asked
                .then(|| first(Command::new(program).args(self.version)))
                .flatten()
        };
        packaged.or_else(told).unwrap_or_default()
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

    #[test]
    fn names_differ_and_a_missing_program_is_not_found() {
        let mut names: Vec<_> = PEERS
            .iter()
            .chain([&PLAIN, &STRONGROOM])
            .map(|system| system.name)
            .collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        let none = System {
            program: "no-such-program",
            ..PEERS[0]
        };
        assert_eq!(none.find(None), None);
        assert_eq!(STRONGROOM.find(Some(Path::new("/no/such/program"))), None);
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

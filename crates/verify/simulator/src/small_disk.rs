//! Fills, empties and refills a mounted vault on a small disk, in random order, and checks the free space that `df` shows.
//!
//! Takes   a kind of disk, a seed, and a count of rounds
//! Gives   what was done; or each write that was refused although `df` showed enough space, each loss, and each finding
//!         of `verify`
//! Never   counts a refusal as wrong if `df` had shown too little space
//! Spec    spec/5-crash-contract.md, [5.8] and [5.11]
//!
//! Needs root and the FUSE device.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use strongroom::filesystem::{Filesystem, Proof, VerifyRange};
use strongroom::{CreateOptions, OpenOptions as VaultOptions, Secret, Vault};
use strongroom_mount::{MountOptions, Mounted};

use crate::random::Choices;
use crate::unseen;

const MIB: u64 = 1 << 20;

/// How often it is looked whether an emptied vault has its room again, and what passes between two looks: a minute in all.
const LOOKS_MAX: u32 = 600;
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(100);

/// Bytes that one call writes or reads.
const PIECE: u64 = MIB;

/// What `df` tells less than this is taken for a full disk.
const ROUND_BYTES_MIN: u64 = 64 * 1024;

/// Files that a vault holds at most: more are removed before others are made.
const FILES_MAX: usize = 400;

/// What bounds the vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file system in memory.
    Tmpfs,
    /// ext4 on a file.
    Ext4,
    /// A quota of the vault, on a disk with room.
    Quota,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tmpfs, Self::Ext4, Self::Quota];

    /// The kind of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::Ext4 => "ext4",
            Self::Quota => "quota",
        }
    }
}

/// A disk of so many bytes, gone with the value.
#[derive(Debug)]
pub struct SmallDisk {
    at: PathBuf,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts one.
    ///
    /// # Errors
    /// Of the system: only root mounts.
    pub fn new(kind: Kind, bytes: u64) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(text)?;
        let at = folder.path().join("disk");
        fs::create_dir(&at).map_err(text)?;
        match kind {
            Kind::Tmpfs => in_memory(&at, bytes)?,
            // Twice the room: the quota is to be met first.
            Kind::Quota => in_memory(&at, 2 * bytes + 256 * MIB)?,
            Kind::Ext4 => {
                let image = folder.path().join("image");
                let file = File::create(&image).map_err(text)?;
                file.set_len(bytes).map_err(text)?;
                run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
                run(Command::new("mount")
                    .args(["-o", "loop"])
                    .args([&image, &at]))?;
            }
        }
        Ok(Self {
            at,
            _folder: folder,
        })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A loop device goes with the mount that asked for it.
        let _ = unmount(&self.at, UnmountFlags::DETACH);
    }
}

fn in_memory(at: &Path, bytes: u64) -> Result<(), String> {
    let size = std::ffi::CString::new(format!("size={bytes}")).map_err(text)?;
    mount("tmpfs", at, "tmpfs", MountFlags::empty(), Some(&*size))
        .map_err(|error| format!("mounting needs root: {error}"))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(text)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A vault on a small disk, mounted.
pub struct Drive {
    // In the order in which they are to end.
    mounted: Option<Mounted>,
    vault: Option<Vault>,
    code: strongroom::RecoveryCode,
    mount_point: tempfile::TempDir,
    disk: SmallDisk,
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Drive")
            .field("disk", &self.disk)
            .finish_non_exhaustive()
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.mounted = None;
        self.vault = None;
    }
}

impl Drive {
    /// Makes a vault on a disk of `kind` with `bytes`, and mounts it.
    ///
    /// # Errors
    /// Of the system.
    pub fn new(kind: Kind, bytes: u64) -> Result<Self, String> {
        let disk = SmallDisk::new(kind, bytes)?;
        let mount_point = tempfile::tempdir().map_err(text)?;
        let options = CreateOptions::new().seen(unseen().seen);
        let created = Vault::create(disk.path().join("vault"), options).map_err(text)?;
        let mut drive = Self {
            mounted: None,
            vault: Some(created.vault),
            code: created.recovery_code,
            mount_point,
            disk,
        };
        if kind == Kind::Quota {
            drive.filesystem()?.set_quota(Some(bytes)).map_err(text)?;
        }
        drive.mount()?;
        Ok(drive)
    }

    fn filesystem(&self) -> Result<Filesystem, String> {
        let vault = self.vault.as_ref().ok_or("the vault is closed")?;
        vault
            .filesystem()
            .ok_or_else(|| "somebody else owns the vault".to_owned())
    }

    fn mount(&mut self) -> Result<(), String> {
        let filesystem = self.filesystem()?;
        let options = MountOptions::default();
        let mounted =
            Mounted::start(filesystem, self.mount_point.path(), &options).map_err(text)?;
        self.mounted = Some(mounted);
        Ok(())
    }

    /// Unmounts and closes the vault, and mounts it again.
    ///
    /// # Errors
    /// Of the vault.
    pub fn reopen(&mut self) -> Result<(), String> {
        if let Some(mounted) = self.mounted.take() {
            mounted.unmount().map_err(text)?;
        }
        if let Some(vault) = self.vault.take() {
            vault.close().map_err(text)?;
        }
        let options = VaultOptions {
            trust: unseen(),
            ..VaultOptions::default()
        };
        let secret = Secret::RecoveryCode(self.code.clone());
        let folder = self.disk.path().join("vault");
        self.vault = Some(Vault::open(folder, secret, options).map_err(text)?);
        self.mount()
    }

    /// A path on the drive.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.mount_point.path().join(name)
    }

    /// What `df` shows as available, in bytes.
    ///
    /// # Errors
    /// Of the drive.
    pub fn told(&self) -> Result<u64, String> {
        let told = rustix::fs::statvfs(self.mount_point.path()).map_err(text)?;
        Ok(told.f_bavail * told.f_frsize)
    }

    /// Does all background work that is due, so that nothing has to be waited for.
    ///
    /// # Errors
    /// Of the vault.
    pub fn settle(&self) -> Result<(), String> {
        let filesystem = self.filesystem()?;
        // What is empty after one look goes with the next.
        for _ in 0..3 {
            filesystem.tick().map_err(text)?;
        }
        Ok(())
    }

    /// Whether every sealed byte is as it was written.
    fn verify(&self) -> Result<(), String> {
        let range = VerifyRange {
            strangers: strongroom::filesystem::Strangers::Told,
            after: None,
            only: Vec::new(),
            bytes_max: u64::MAX,
            proof: Proof::Full,
        };
        let found = self.filesystem()?.verify_segments(&range).map_err(text)?;
        match found.damaged.is_empty() && found.problems.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "verify found {} damaged blocks and {:?}",
                found.damaged.len(),
                found.problems
            )),
        }
    }
}

/// Bytes of a file that were written by one act; all of them follow from `seed`.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u64,
    len: u64,
    seed: u64,
}

impl Part {
    /// The bytes from `from` on, at most a piece.
    fn piece(&self, from: u64) -> Vec<u8> {
        let len = (self.len - from).min(PIECE);
        // Each piece of its own, so that any can be made without those before it.
        let mut choices = Choices::named(self.seed, &[from]);
        choices.bytes(usize::try_from(len).unwrap_or(0))
    }

    /// Writes it all; gives the first error and how far it came.
    fn write(&self, file: &File) -> Result<(), (u64, io::Error)> {
        let mut done = 0;
        while done < self.len {
            let piece = self.piece(done);
            file.write_all_at(&piece, self.start + done)
                .map_err(|error| (done, error))?;
            done += piece.len() as u64;
        }
        Ok(())
    }
}

/// What a file holds, newest part last.
type Content = Vec<Part>;

fn len_of(content: &Content) -> u64 {
    let ends = content.iter().map(|part| part.start + part.len);
    ends.max().unwrap_or(0)
}

/// What was done in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Bytes that were written.
    pub bytes: u64,
    /// Writes of all that `df` told to be free.
    pub filled: u64,
    /// Writes that were refused, as `df` had announced.
    pub refused: u64,
    /// Files that were compared, byte by byte.
    pub compared: u64,
}

/// A run under way.
struct Trial {
    drive: Drive,
    choices: Choices,
    files: BTreeMap<String, Content>,
    made: u64,
    /// What `df` showed of the empty vault.
    empty: u64,
    done: Done,
}

/// Carries out `rounds` on a disk of `bytes`.
///
/// # Errors
/// The first sentence of the contract that was broken, with the round.
pub fn run_rounds(kind: Kind, bytes: u64, seed: u64, rounds: u64) -> Result<Done, String> {
    let drive = Drive::new(kind, bytes)?;
    let mut trial = Trial {
        empty: drive.told()?,
        drive,
        choices: Choices::new(seed),
        files: BTreeMap::new(),
        made: 0,
        done: Done::default(),
    };
    for round in 0..rounds {
        let act = trial.round();
        act.map_err(|why| format!("{}, seed {seed}, round {round}: {why}", kind.name()))?;
    }
    trial
        .end()
        .map_err(|why| format!("{}, seed {seed}, at the end: {why}", kind.name()))?;
    Ok(trial.done)
}

impl Trial {
    fn round(&mut self) -> Result<(), String> {
        match self.choices.below(100) {
            0..30 => self.put_new(1, 3),
            30..40 => self.put_new(1, 1),
            40..52 => self.put_many(),
            52..60 => self.put_too_much(),
            60..70 => self.overwrite(),
            70..86 => self.remove_some(),
            86..90 => self.empty_it(),
            90..98 => self.compare_one(),
            _ => {
                self.drive.reopen()?;
                self.compare_all()
            }
        }
    }

    fn end(&mut self) -> Result<(), String> {
        self.drive.reopen()?;
        self.compare_all()?;
        self.drive.verify()?;
        self.empty_it()
    }

    fn seed(&mut self) -> u64 {
        self.choices.number()
    }

    /// Writes a part that `df` has room for: to be refused is wrong.
    fn write_within(&mut self, name: &str, part: Part, told: u64) -> Result<(), String> {
        let path = self.drive.at(name);
        let wrong = |error: io::Error, at: u64| {
            format!(
                "{} bytes were refused at {at} although {told} were told to be free: {error}",
                part.len
            )
        };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = file.map_err(|error| wrong(error, 0))?;
        part.write(&file).map_err(|(at, error)| wrong(error, at))?;
        if self.choices.chance(1, 2) {
            file.sync_all().map_err(|error| wrong(error, part.len))?;
        }
        self.done.bytes += part.len;
        self.done.filled += u64::from(part.len == told);
        let content = self.files.entry(name.to_owned()).or_default();
        content.push(part);
        Ok(())
    }

    fn new_name(&mut self) -> String {
        self.made += 1;
        format!("file{}", self.made)
    }

    /// A new file of up to `share` of what is told to be free, or all of it.
    fn put_new(&mut self, share: u64, of: u64) -> Result<(), String> {
        let told = self.drive.told()?;
        if told < ROUND_BYTES_MIN {
            return self.remove_some();
        }
        let most = told * share / of;
        let len = match share == of {
            true => most,
            false => 1 + self.choices.below(most),
        };
        let part = Part {
            start: 0,
            len,
            seed: self.seed(),
        };
        let name = self.new_name();
        self.write_within(&name, part, told)
    }

    /// Many small files, for each of which `df` is asked.
    fn put_many(&mut self) -> Result<(), String> {
        let count = 1 + self.choices.below(60);
        for _ in 0..count {
            let told = self.drive.told()?;
            if told < ROUND_BYTES_MIN || self.files.len() >= FILES_MAX {
                return self.remove_some();
            }
            let part = Part {
                start: 0,
                len: 1 + self.choices.below(told.min(40_000)),
                seed: self.seed(),
            };
            let name = self.new_name();
            self.write_within(&name, part, told)?;
        }
        Ok(())
    }

    /// More than is told to be free: it may be refused, and then goes.
    fn put_too_much(&mut self) -> Result<(), String> {
        let told = self.drive.told()?;
        let part = Part {
            start: 0,
            len: told + 1 + self.choices.below(100 * MIB),
            seed: self.seed(),
        };
        let name = self.new_name();
        let path = self.drive.at(&name);
        let written = match File::create(&path) {
            Ok(file) => {
                let written = part.write(&file);
                written.and_then(|()| file.sync_all().map_err(|error| (part.len, error)))
            }
            Err(error) => Err((0, error)),
        };
        match written {
            Ok(()) => {
                self.files.insert(name, vec![part]);
                self.done.bytes += part.len;
                Ok(())
            }
            Err((_, error)) if is_full(&error) => {
                self.done.refused += 1;
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(format!("removing on a full disk: {error}"))
                    }
                    _ => Ok(()),
                }
            }
            Err((at, error)) => Err(format!("at {at}: {error}")),
        }
    }

    fn any_file(&mut self) -> Option<String> {
        let index = self.choices.index(self.files.len());
        self.files.keys().nth(index).cloned()
    }

    /// Other bytes within a file, or behind its end.
    fn overwrite(&mut self) -> Result<(), String> {
        let told = self.drive.told()?;
        let Some(name) = self.any_file().filter(|_| told >= ROUND_BYTES_MIN) else {
            return self.remove_some();
        };
        let len = len_of(&self.files[&name]);
        let part = Part {
            start: self.choices.below(len + 1),
            len: 1 + self.choices.below(told.min(30 * MIB)),
            seed: self.seed(),
        };
        self.write_within(&name, part, told)
    }

    fn remove_some(&mut self) -> Result<(), String> {
        let count = 1 + self.choices.index(self.files.len().max(1));
        for _ in 0..count {
            let Some(name) = self.any_file() else {
                return Ok(());
            };
            fs::remove_file(self.drive.at(&name)).map_err(|error| format!("removing: {error}"))?;
            self.files.remove(&name);
        }
        Ok(())
    }

    /// Removes everything: then all the room is there again.
    fn empty_it(&mut self) -> Result<(), String> {
        for name in std::mem::take(&mut self.files).into_keys() {
            fs::remove_file(self.drive.at(&name)).map_err(|error| format!("removing: {error}"))?;
        }
        // The log and the database of a used vault are longer than those of a new one.
        let expected = (self.empty - self.empty / 10).saturating_sub(32 * MIB);
        let mut told = 0;
        for _ in 0..LOOKS_MAX {
            self.drive.settle()?;
            told = self.drive.told()?;
            if told >= expected {
                return Ok(());
            }
            // The kernel says in its own time that nobody has these files any more.
            std::thread::sleep(LOOK_AGAIN);
        }
        Err(format!(
            "{told} bytes are told to be free of the empty vault, {} were at first",
            self.empty
        ))
    }

    fn compare_one(&mut self) -> Result<(), String> {
        match self.any_file() {
            Some(name) => self.compare(&name),
            None => Ok(()),
        }
    }

    fn compare_all(&mut self) -> Result<(), String> {
        let names: Vec<String> = self.files.keys().cloned().collect();
        names.iter().try_for_each(|name| self.compare(name))
    }

    fn compare(&mut self, name: &str) -> Result<(), String> {
        let content = &self.files[name];
        let mut expected = vec![0; usize::try_from(len_of(content)).map_err(text)?];
        for part in content {
            let mut done = 0;
            while done < part.len {
                let piece = part.piece(done);
                let start = usize::try_from(part.start + done).map_err(text)?;
                expected[start..start + piece.len()].copy_from_slice(&piece);
                done += piece.len() as u64;
            }
        }
        let mut found = Vec::with_capacity(expected.len());
        let file = File::open(self.drive.at(name));
        let read = file.and_then(|mut file| file.read_to_end(&mut found));
        read.map_err(|error| format!("{name} is not readable: {error}"))?;
        self.done.compared += 1;
        match found == expected {
            true => Ok(()),
            false => Err(format!("{name} does not hold what was written to it")),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

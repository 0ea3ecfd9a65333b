//! A device of a history: its vault folder, its clock, and the changes that other devices do not have yet.
//!
//! Takes   a folder in which a vault was made or cloned
//! Gives   the open vault; after a kill, the folder's content of that moment, opened again
//! Never   works in the background: callers use `drive`

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use strongroom::filesystem::{Background, Clock, Options, Timestamp, limits::Thresholds};
use strongroom::{Error, GoOn, IfOlder, KeyFile, OpenOptions, Secret, SyncReport, Tuning, Vault};
use strongroom_format::Header;

use crate::sync::contents::{Piece, Truth};
use crate::unseen;

/// Steps after which a change of keys must have come to its end.
const STEPS_MAX: usize = 1_000;

/// How often a sync is tried again that waits for what is being sealed again.
const PATIENCE: usize = 8;

/// What the reserve is called: an opening makes it again.
const RESERVE: &str = "reserve";

/// What a device is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Member,
    /// Another one removed it, and has not published that yet.
    Leaving {
        by: usize,
    },
    /// That is published.
    Removed,
}

/// The same time for all, but for a shift.
#[derive(Debug)]
pub(crate) struct ShiftedClock {
    pub(crate) now: Arc<AtomicI64>,
    pub(crate) shift: AtomicI64,
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        // No two moments are equal, also of two clocks.
        let now = self.now.fetch_add(1_000_003, Ordering::Relaxed);
        Timestamp(now + self.shift.load(Ordering::Relaxed))
    }
}

pub(crate) struct Device {
    pub(crate) number: usize,
    pub(crate) folder: PathBuf,
    /// What it calls the remote.
    pub(crate) remote: &'static str,
    pub(crate) clock: Arc<ShiftedClock>,
    pub(crate) standing: Standing,
    /// Acknowledged, and not durable yet.
    pub(crate) written: Vec<Piece>,
    /// Durable, and not at the remote yet.
    pub(crate) durable: Vec<Piece>,
    /// Erased here, durably, and not published yet.
    pub(crate) erasing: Vec<Piece>,
    /// Whether its folder is an older copy, and is opened by order.
    pub(crate) is_older_copy: bool,
    /// How many changes of what remotes get its header counted when it said something of that last.
    pub(crate) said: u64,
    vault: Option<Vault>,
    key: KeyFile,
}

/// How every vault here runs.
pub(crate) fn engine() -> Options {
    Options {
        background: Background::Manual,
        threads: Some(1),
        thresholds: Thresholds {
            drain_bytes: 64 * 1024,
            batch_bytes: 64 * 1024,
            move_blocks: 2,
            ..Thresholds::DEFAULT
        },
        ..Options::default()
    }
}

impl Device {
    pub(crate) fn new(
        number: usize,
        folder: PathBuf,
        remote: &'static str,
        clock: ShiftedClock,
        key: &KeyFile,
    ) -> Result<Self, Error> {
        let mut device = Self {
            number,
            folder,
            remote,
            clock: Arc::new(clock),
            standing: Standing::Member,
            written: Vec::new(),
            durable: Vec::new(),
            erasing: Vec::new(),
            is_older_copy: false,
            said: 0,
            vault: None,
            key: key.clone(),
        };
        device.open()?;
        Ok(device)
    }

    pub(crate) fn vault(&self) -> &Vault {
        self.vault
            .as_ref()
            .expect("it is closed only while it is opened again")
    }

    pub(crate) fn secret(&self) -> Secret {
        Secret::KeyFile(self.key.clone())
    }

    pub(crate) const fn key(&self) -> &KeyFile {
        &self.key
    }

    pub(crate) fn is_member(&self) -> bool {
        self.standing == Standing::Member
    }

    /// The id under which the header has it.
    pub(crate) fn id(&self) -> Result<String, Error> {
        let members = self.vault().information()?.members.into_iter();
        let mut own = members.filter(|member| member.is_device && member.is_this);
        Ok(own.next().map(|member| member.id).unwrap_or_default())
    }

    /// How many changes of what remotes get its header counts.
    pub(crate) fn guessable_changes(&self) -> Result<u64, String> {
        let path = self.folder.join("vault.json");
        let header = fs::read(path).map_err(|error| error.to_string())?;
        let stored = Header::decode(&header).map_err(|error| error.to_string())?;
        Ok(stored.header.guessable_changes)
    }

    /// Opens the vault again that was closed.
    pub(crate) fn open(&mut self) -> Result<(), Error> {
        let mut trust = unseen();
        if self.is_older_copy {
            // As a person does who uses an older copy, by the message of the first sync if not before.
            trust.older = IfOlder::Accept;
        }
        let options = OpenOptions {
            engine: engine(),
            trust,
            tuning: Tuning::AsItIs,
            clock: self.clock.clone(),
            ..OpenOptions::default()
        };
        self.vault = Some(Vault::open(&self.folder, self.secret(), options)?);
        Ok(())
    }

    /// Closes the vault, for somebody who works on its folder.
    pub(crate) fn close(&mut self) -> Result<(), String> {
        let closed = self.vault().close();
        self.vault = None;
        closed.map_err(|error| error.to_string())
    }

    /// Closes the vault and opens it again: all is durable.
    pub(crate) fn reopen(&mut self) -> Result<(), Error> {
        self.vault().close()?;
        self.made_durable();
        self.open()
    }

    /// Takes the folder as it was when it was copied to `copy`.
    pub(crate) fn go_on_from(&mut self, copy: &Path) -> Result<(), Error> {
        // What its end writes goes with the folder.
        let _ = self.vault().close();
        self.vault = None;
        let moved = fs::remove_dir_all(&self.folder).and_then(|()| fs::rename(copy, &self.folder));
        moved.expect("folders of a temporary folder can be moved");
        self.written.clear();
        self.open()
    }

    /// Everything acknowledged is durable.
    pub(crate) fn made_durable(&mut self) {
        self.durable.append(&mut self.written);
    }

    /// Everything durable is at the remote.
    pub(crate) fn published(&mut self, truth: &mut Truth) {
        self.made_durable();
        truth.published.extend(self.durable.drain(..));
        truth.erased.extend(self.erasing.drain(..));
    }

    /// Forgets what it knows of the remote, as a person does whom a message says so.
    pub(crate) fn add_remote_again(&self, address: &str) -> Result<(), Error> {
        self.vault().remove_remote(self.remote)?;
        self.vault().add_remote(self.remote, address)
    }

    /// Carries a change of keys as far as it can be carried now.
    fn seal_again(&self) -> Result<(), Error> {
        let mut steps = 0;
        while self.vault().rotate_step()? {
            steps += 1;
            assert!(steps < STEPS_MAX, "a change of keys has no end");
        }
        Ok(())
    }

    /// Does what the background would.
    pub(crate) fn drive(&self) -> Result<(), Error> {
        self.seal_again()?;
        let filesystem = self.vault().filesystem();
        filesystem
            .expect("this process owns it")
            .tick()
            .map_err(Error::File)
    }

    /// Syncs; what has to be sealed again first is.
    pub(crate) fn sync(&self) -> Result<SyncReport, Error> {
        for _ in 0..PATIENCE {
            match self.vault().sync_with(self.remote, &mut |_| GoOn::Yes) {
                Err(Error::KeysInUse) => self.seal_again()?,
                done => return done,
            }
        }
        Err(Error::KeysInUse)
    }

    /// Syncs, and gives the bytes of content that were sealed for it, but for those of older keys, and for a sync that had to wait until
    /// these were sealed again: it may have merged texts and not said so.
    pub(crate) fn sync_counting(&self) -> Result<(SyncReport, u64), Error> {
        self.seal_again()?;
        self.vault().sync()?;
        let (epoch, before) = (self.vault().information()?.epoch, self.sealed()?);
        let report = match self.vault().sync_with(self.remote, &mut |_| GoOn::Yes) {
            Err(Error::KeysInUse) => return Ok((self.sync()?, 0)),
            done => done?,
        };
        let has_same_keys = self.vault().information()?.epoch == epoch;
        let sealed = if has_same_keys {
            self.sealed()? - before
        } else {
            0
        };
        Ok((report, sealed))
    }

    /// Bytes of content that were sealed since the vault was opened.
    fn sealed(&self) -> Result<u64, Error> {
        let counters = self.vault().counters()?;
        let found = counters
            .iter()
            .find(|(name, _)| name == "filesystem.bytes_sealed");
        Ok(found.expect("it is counted").1)
    }
}

/// Copies a vault folder in which nobody works at this moment.
pub(crate) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() && entry.file_name() != RESERVE {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

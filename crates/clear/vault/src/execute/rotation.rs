//! Takes the keys of earlier epochs out of use: re-seals in the background everything under them, then forgets them.
//!
//! Takes   the request for it, which `Keys::rotate` stores in the metadata
//! Gives   a vault in which nothing needs the old keys, and a header without them
//! Never   forgets a key that something durable needs, or holds up other work meanwhile
//! Spec    spec/1-keys.md, section 1.10
//!
//! Invariants
//!  (1) Everything is re-sealed and durable, also records of revisions, before a header without the old keys is written.  [1.10.4]
//!  (2) The process that opens the vault after a crash continues where the rows say that the rotation stopped.  [1.10.1]
//!  (3) Old keys are forgotten only once every remote has the newest header, and nothing that is live there, or waits there in an inbox,
//!      is sealed under old keys. So later publications need no old key. A device that syncs late still finds an earlier header at the
//!      remote, with old and new keys.                                                                     [11.6.9]

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use strongroom_filesystem::{Caller, Error as FileError, Filesystem, InodeId, Resealed};
use strongroom_format::Epoch;
use strongroom_sync::RemoteState;

use crate::execute::session::OpenVault;
use crate::inbox_state::{AddressEntry, INBOX_STATE, InboxState};
use crate::keyring::held_keys::ROTATION;
use crate::request::Rotation;
use crate::{Error, Result};

/// How long a rotation that failed waits before it tries again: a full disk may have room then.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// A rest between two steps is as long as the step was, so that others get half of everything; at most this long.
const REST_MAX: Duration = Duration::from_millis(250);

/// What came of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    /// Nothing is wanted, or it is done.
    Idle,
    /// What is left does not open.
    Stuck,
    /// A remote does not have the newest keys, or has something under older ones.
    Unpublished,
}

/// What a rotation and those who ask about it share.
#[derive(Default)]
pub(crate) struct Rotating {
    notes: Mutex<Notes>,
    told: Condvar,
}

#[derive(Default)]
struct Notes {
    asked: bool,
    stop: bool,
    trouble: Option<String>,
}

impl Rotating {
    /// Somebody may want a rotation.
    pub(crate) fn wake(&self) {
        self.notes.lock().asked = true;
        self.told.notify_all();
    }
}

impl OpenVault {
    /// How far it is.
    pub(crate) fn rotation(&self) -> Result<Rotation> {
        let (oldest, newest) = self.epochs();
        let older = self.filesystem.older()?;
        Ok(Rotation {
            is_running: self.wanted()?.is_some(),
            newest_epoch: newest.0,
            oldest_epoch: oldest.0,
            bytes_left: older.bytes,
            unreadable_bytes: older.unreadable_bytes,
            trouble: self.rotating.notes.lock().trouble.clone(),
        })
    }

    /// Whether all is sealed again and old keys wait until a remote has nothing under them.
    pub(crate) fn rotation_needs_push(&self, remote: u64, joined: u64) -> Result<bool> {
        let is_sealed = self.wanted()?.is_some() && self.filesystem.older()?.bytes == 0;
        Ok(is_sealed && self.standing_at(remote, joined, &[])?.is_behind())
    }

    /// The epoch before which nothing is to be left, while something may be.
    fn wanted(&self) -> Result<Option<Epoch>> {
        let (oldest, newest) = self.epochs();
        let wanted = stored_wish(&self.filesystem)?;
        // An epoch that has not begun is that of a command which was interrupted before it had.
        Ok(wanted.filter(|wanted| oldest < *wanted && *wanted <= newest))
    }

    /// Does one step of what is wanted.
    pub(crate) fn rotate_step(&self) -> Result<Step> {
        if self.wanted()?.is_none() {
            return Ok(Step::Idle);
        }
        let first = match self.filesystem.reseal()? {
            Resealed::More => return Ok(Step::More),
            Resealed::Stuck => return Ok(Step::Stuck),
            Resealed::Done(first) => first,
        };
        // (3)
        if !is_published(self)? || !is_inbox_done(self, first)? {
            return Ok(Step::Unpublished);
        }
        // What a pull left that was cut off may be sealed under them. Of a remote that there is, all under such keys has been joined.
        if self.filesystem.engine().reader()?.remotes()?.is_empty() {
            self.remove_what_came()?;
        }
        // (1). Nothing is sealed under an earlier epoch any more, so all that is durable stays under `first` or a later one.
        self.records.reseal(&self.filesystem, || {
            self.on_keys(|keys| keys.forget_before(first, &self.filesystem))
                .map(drop)
        })?;
        Ok(Step::Idle)
    }
}

/// Whether the last publication of every remote names the header in use, and all that is live there is here, where it is sealed again.
/// What is not here others may need still: who has it publishes it under newer keys, once it hears that it was retired.
fn is_published(vault: &OpenVault) -> Result<bool> {
    let remotes = vault.filesystem.engine().reader()?.remotes()?;
    if remotes.is_empty() {
        return Ok(true);
    }
    let header = vault.remote_header_hash()?;
    for row in remotes {
        let state = RemoteState::decode(&row.state).filter(|state| state.header == header);
        let Some(state) = state else {
            return Ok(false);
        };
        if vault
            .standing_at(row.number, state.joined, &[])?
            .is_behind()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether nothing waits any more, at a remote of the vault, that was deposited by an address of an epoch before `first`: without the keys of
/// that nobody opens it.                                                                                    [12.1.5]
fn is_inbox_done(vault: &OpenVault, first: Epoch) -> Result<bool> {
    let found = vault
        .filesystem
        .xattr(&Caller::root(), InodeId::ROOT, INBOX_STATE);
    let value = match found {
        Err(FileError::NoAttribute) => return Ok(true),
        value => value?,
    };
    // One that nobody can read says nothing of addresses.
    let Ok(state) = InboxState::decode(&value) else {
        return Ok(true);
    };
    let remotes = vault.filesystem.engine().reader()?.remotes()?;
    let is_in_use = |one: &AddressEntry| {
        let is_there = remotes.iter().any(|row| row.id == one.remote);
        one.epoch < first && !one.is_withdrawn && is_there
    };
    Ok(!state.addresses.iter().any(is_in_use))
}

fn stored_wish(filesystem: &Filesystem) -> Result<Option<Epoch>> {
    let Some(bytes) = filesystem.setting(ROTATION)? else {
        return Ok(None);
    };
    match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(bytes) => Ok(Some(Epoch(u32::from_le_bytes(bytes)))),
        Err(_) => Err(Error::Damaged {
            what: "metadata.db",
            why: "the stored epoch of a rotation is not a number".to_owned(),
        }),
    }
}

/// The thread that rotates.
pub(crate) struct Rotator {
    vault: Arc<OpenVault>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Rotator {
    /// Starts it; it goes on at once with what an earlier run left. (2)
    pub(crate) fn start(vault: &Arc<OpenVault>) -> Result<Self> {
        let of_thread = Arc::clone(vault);
        let thread = std::thread::Builder::new().name("vault-rotation".to_owned());
        let thread = thread.spawn(move || run(&of_thread));
        Ok(Self {
            vault: Arc::clone(vault),
            thread: Mutex::new(Some(thread.map_err(Error::io("starting a thread"))?)),
        })
    }

    /// Ends it after the step at hand, and waits for that. Once is enough; more do nothing.
    pub(crate) fn stop(&self) {
        self.vault.rotating.notes.lock().stop = true;
        self.vault.rotating.told.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Rotator {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(vault: &OpenVault) {
    let rotating = &vault.rotating;
    loop {
        rotating.notes.lock().asked = false;
        let began = Instant::now();
        let (trouble, rest) = match vault.rotate_step() {
            Ok(Step::More) => (None, Some(began.elapsed().min(REST_MAX))),
            Ok(Step::Idle) => (None, None),
            Ok(Step::Stuck) => {
                let why = "some blocks do not open, or the database does not list some segments: `strongroom verify` names them. The old \
                     keys stay until these blocks and segments are repaired or removed";
                (Some(why.to_owned()), None)
            }
            Ok(Step::Unpublished) => {
                let why = "the old keys stay until `strongroom sync` has brought the new keys and the re-sealed content to every remote; \
                     remove a remote that no longer exists with `strongroom remote remove`";
                (Some(why.to_owned()), None)
            }
            Err(error) => (Some(error.to_string()), Some(TRY_AGAIN)),
        };
        let was_asked = {
            let mut notes = rotating.notes.lock();
            notes.trouble = trouble;
            match rest {
                Some(rest) if !notes.stop => {
                    rotating.told.wait_for(&mut notes, rest);
                }
                _ => {
                    while !notes.stop && !notes.asked {
                        rotating.told.wait(&mut notes);
                    }
                }
            }
            if notes.stop {
                return;
            }
            notes.asked
        };
        if was_asked {
            vault.filesystem.reseal_anew();
        }
    }
}

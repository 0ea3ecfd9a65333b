//! Changes which keys unlock a vault, whether or not a process has it open.
//!
//! Takes   a vault folder and a secret
//! Gives   the header with a key slot added, removed or changed; it applies to everything that is stored after the return
//! Never   sends a secret or a key to the process that has the vault open: it gets the new header, which is public
//!
//! Invariants
//!  (1) A change is made from the newest header. If another change came first, this change is made again from the header that the
//!      other one left.
//!  (2) A process whose own slot was meanwhile removed or changed by others makes no further change.

use std::path::Path;

use strongroom_crypto::{
    Changed, KeyError, Keyring, NewKey, NewSlot, Passphrase, Secret, SlotInfo, SystemRandom,
    UnlockError,
};
use strongroom_filesystem::DurableState;
use strongroom_format::pairing::Newcomer;
use strongroom_format::{SlotId, hex};
use strongroom_metadata::Store;

use crate::clock::now_s;
use crate::create::passphrase_cost;
use crate::folder::owner_lock::{Attempt, OwnerLock};
use crate::folder::switch;
use crate::folder::{Folder, HEADER, REPLICA};
use crate::keyring::held_keys::{HeldKeys, Installed};
use crate::keyring::own_replica::Files;
use crate::keyring::unlocked::Unlocked;
use crate::limits::KEY_CHANGE_ATTEMPTS_MAX;
use crate::owner::client::{Client, Unanswered};
use crate::request::Purpose;
use crate::request::failure::Failure;
use crate::request::frame::Bytes;
use crate::request::{Access, Request, Response, Successor, WholeRequest};
use crate::retry::{OWNER_WAIT, Retry};
use crate::seen::{Sight, Trust, Watch};
use crate::{Error, Result};

/// The keys of a vault. Others may use the vault meanwhile.
pub struct Keys {
    folder: Folder,
    unlocked: Unlocked,
    trust: Trust,
    /// Acts as the slot that the secret opened: it goes on to a header in which another made a new device.
    slot: Keyring,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// What everybody may know about the key slots of the vault in `folder`: nothing proves it.
///
/// # Errors
/// `NotAVault`, `Damaged`, `UnknownFormat`.
pub fn list_slots(folder: impl AsRef<Path>) -> Result<Vec<SlotInfo>> {
    Ok(strongroom_crypto::list_slots(
        &Folder::new(folder.as_ref()).header()?,
    )?)
}

/// Who can put a new header in its place.
enum Reached {
    /// This process: nobody has the vault open.
    Free(OwnerLock),
    /// The process that has it open.
    Owned(Client),
}

impl Keys {
    /// Unlocks the keys of the vault in `folder` with `secret`.
    ///
    /// # Errors
    /// `WrongSecret`, and what opening a vault can give; `OwnerUnreachable` if a process has the vault open and does
    /// not answer.
    pub fn open(folder: impl AsRef<Path>, secret: &Secret) -> Result<Self> {
        Self::open_with(folder, secret, Trust::default())
    }

    /// As `open`, of a vault that must be what `trust` says.
    ///
    /// # Errors
    /// As `open`; `OlderFolder`, `OtherVault`, `PathOfAnother`, `UnknownVault`.
    pub fn open_with(folder: impl AsRef<Path>, secret: &Secret, trust: Trust) -> Result<Self> {
        let folder = Folder::new(folder.as_ref()).absolute()?;
        folder.check_finished()?;
        if switch::is_pending(&folder)?
            && let Attempt::Taken(_lock) = OwnerLock::attempt(&folder)?
        {
            switch::finish(&folder)?;
        }
        let files = Files::read(&folder)?;
        let slot = files.unlock(secret)?;
        // Before a new passphrase gets into the hands of a stranger's vault.
        Watch::begin(&folder, &slot, Access::ReadWrite, &trust)?;
        let mut keyring = slot.clone();
        let replica = files.replica_of(&mut keyring)?;
        let keys = Self {
            folder,
            unlocked: Unlocked::made(keyring, replica),
            trust,
            slot,
        };
        // Says now what would be in the way, not when a new passphrase has been thought of and typed twice.
        if let Reached::Free(lock) = keys.reach()? {
            keys.hold(&lock)?;
        }
        Ok(keys)
    }

    /// The key slots, proved.
    #[must_use]
    pub fn slots(&self) -> Vec<SlotInfo> {
        self.unlocked.keyring.slots()
    }

    /// The slot that the secret opened.
    #[must_use]
    pub fn unlocked_by(&self) -> Option<SlotId> {
        self.unlocked.keyring.unlocked_by()
    }

    /// Adds a key slot; `label` is public.
    ///
    /// # Errors
    /// `Keys` says why: too many slots, a label that deceives. Else as `remove`.
    pub fn add(&mut self, label: &str, key: AddKey) -> Result<()> {
        let key = match key {
            AddKey::Passphrase(passphrase) => NewKey::Passphrase(passphrase, passphrase_cost()?),
            AddKey::Other(key) => key,
        };
        let slot = NewSlot {
            label: label.to_owned(),
            key,
        };
        self.change(Purpose::Future, |keyring| {
            keyring.add_slot(&slot, &SystemRandom, now_s())
        })
    }

    /// Removes a key slot: what is stored from now on it can never open.
    ///
    /// # Errors
    /// `Keys` says why: no such slot, or the last one. `WrongSecret` if the slot that unlocked these keys was removed
    /// or changed by somebody else meanwhile; `ReadOnly` if the process that has the vault open only reads it. After `KeysChanged`
    /// the change is in force, after any other nothing was changed.
    pub fn remove(&mut self, slot: SlotId) -> Result<()> {
        self.change(Purpose::Future, |keyring| {
            keyring.remove_slot(slot, &SystemRandom)
        })
    }

    /// Removes a device of the vault: it may change nothing any more, and what is stored from now on it can never open. The
    /// device that this copy acts as is made new instead.
    ///
    /// # Errors
    /// `Keys` if there is no such device, or `id` means several. Else as `remove`.
    pub fn remove_device(&mut self, id: &str) -> Result<()> {
        let devices = self.unlocked.keyring.devices();
        let id = id.to_ascii_lowercase();
        let found: Vec<_> = devices
            .filter(|device| hex::encode(&device.0).starts_with(&id))
            .collect();
        let device = match found.as_slice() {
            [device] => *device,
            [] => return Err(KeyError::NoSuchDevice.into()),
            _ => {
                let why = format!("{id:?} matches several devices; give more digits of the id");
                return Err(Error::Keys(why));
            }
        };
        self.change(Purpose::Future, |keyring| {
            keyring.revoke_device(device, &SystemRandom)
        })
    }

    /// The ids of the other devices of the vault. Whoever had a key that is removed here, and could read the folder of one of them, knows the
    /// keys of that device until `renew_device` has run there and the remote has its record.
    #[must_use]
    pub fn other_devices(&self) -> Vec<String> {
        let own = self.unlocked.keyring.device();
        let devices = self.unlocked.keyring.devices();
        devices
            .filter(|device| Some(*device) != own)
            .map(|device| hex::encode(&device.0[..8]))
            .collect()
    }

    /// Makes a device that asks for it a member, with a key slot of its own (`Invitation::admit`).
    pub(crate) fn admit(&mut self, newcomer: &Newcomer) -> Result<()> {
        self.change(Purpose::Future, |keyring| {
            keyring.admit(newcomer, &SystemRandom)
        })
    }

    /// The generation of the header that these keys are of.
    pub(crate) const fn generation(&self) -> u64 {
        self.unlocked.keyring.generation()
    }

    /// Makes the device that this copy acts as new: whoever knew the old one is out.
    ///
    /// # Errors
    /// As `remove`.
    pub fn renew_device(&mut self) -> Result<()> {
        self.change(Purpose::Future, |keyring| {
            keyring.replace_device(&SystemRandom)
        })
    }

    /// Begins a new epoch: what is stored from now on is sealed under it, and the process that has the vault open re-seals
    /// what was stored before, in the background, until the keys of earlier epochs are needed by nothing and go (`Vault::rotation`).
    ///
    /// # Errors
    /// As `remove`.
    pub fn rotate(&mut self) -> Result<()> {
        self.change(Purpose::Rotation, |keyring| {
            keyring.replace_device(&SystemRandom)
        })
    }

    /// Lets remotes have what a passphrase is tried against, or not any more: then a passphrase alone brings the vault back from there,
    /// and whoever can read a remote can guess. Gives whether that is a change. Remotes get it with the next push; what was there was seen.
    ///
    /// # Errors
    /// As `remove`.
    pub fn set_guessable(&mut self, guessable: Guessable) -> Result<bool> {
        let wanted = guessable == Guessable::Yes;
        if self.unlocked.keyring.is_guessable() == wanted {
            return Ok(false);
        }
        self.change(Purpose::Future, |keyring| keyring.set_guessable(wanted))?;
        Ok(true)
    }

    /// Replaces the passphrase of `slot`: what is stored from now on the old one can never open.
    ///
    /// # Errors
    /// `Keys` says why: no such slot, or none with a passphrase. Else as `remove`.
    pub fn change_passphrase(&mut self, slot: SlotId, passphrase: Passphrase) -> Result<()> {
        let cost = passphrase_cost()?;
        self.change(Purpose::Future, |keyring| {
            keyring.change_passphrase(slot, passphrase.clone(), cost, &SystemRandom, now_s())
        })
    }

    /// Makes a change and has it installed, again and again until it was made from the newest header.          (1)
    fn change(
        &mut self,
        purpose: Purpose,
        make: impl Fn(&Keyring) -> std::result::Result<Changed, KeyError>,
    ) -> Result<()> {
        for _ in 0..KEY_CHANGE_ATTEMPTS_MAX {
            let changed = make(&self.unlocked.keyring)?;
            let installed = self.install(&changed, purpose);
            let is_acknowledged = matches!(installed, Ok(Installed::Yes));
            // An owner may have done it and died before it could say so; or what comes behind the header failed.
            if is_acknowledged || self.is_in_force(&changed.keyring) {
                self.unlocked.keyring = changed.keyring;
                // It may also have died before the name of the header was durable.
                let synced = match is_acknowledged {
                    true => Ok(()),
                    false => self.folder.sync(),
                };
                let finished = installed.and(synced);
                return finished.map_err(|error| Error::KeysChanged {
                    error: Box::new(error),
                });
            }
            installed?;
            let next = self.newest()?;
            if self.unlocked_by().is_some() && next.unlocked_by().is_none() {
                return Err(removed_meanwhile()); // (2)
            }
            self.unlocked.keyring = next;
        }
        Err(Error::KeysContended)
    }

    /// Whether the header in the folder is that of `changed`, which was made from these keys, or goes on from it.
    fn is_in_force(&self, changed: &Keyring) -> bool {
        let header = self.folder.header().ok();
        match header.map(|header| changed.follow(&header)) {
            Some(Ok(next)) => next.is_guessable() == changed.is_guessable(),
            // By a later change than this one, if this one made a record.
            Some(Err(UnlockError::DeviceRemoved)) => !self.unlocked.keyring.includes(changed),
            _ => false,
        }
    }

    /// The keys of the header in the folder, acting as this copy's device, which may be another one by now.
    fn newest(&self) -> Result<Keyring> {
        let files = Files::read(&self.folder)?;
        match self.unlocked.keyring.follow(&files.header) {
            Err(UnlockError::DeviceRemoved) => {}
            followed => return Ok(followed?),
        }
        let mut keyring = match self.slot.follow(&files.header) {
            Err(UnlockError::DeviceRemoved) => return Err(removed_meanwhile()), // (2)
            followed => followed?,
        };
        files.replica_of(&mut keyring)?;
        Ok(keyring)
    }

    /// Has `changed` put in the place of the header that these keys are of; `Stale` also if the owner left over it.
    fn install(&self, changed: &Changed, purpose: Purpose) -> Result<Installed> {
        let (header, handover) = (changed.header.as_slice(), changed.handover.as_deref());
        let base = self.unlocked.keyring.generation();
        let client = match self.reach()? {
            Reached::Free(lock) => {
                let (mut held, store, sight) = self.hold(&lock)?;
                let installed = held.install(base, header, handover, purpose, &store);
                // The state of before is an older one from now on.
                sight.note(held.keyring(), durable_state(&store));
                return installed;
            }
            Reached::Owned(client) => client,
        };
        let request = Request::Whole(WholeRequest::InstallKeys {
            base,
            header: Bytes(header),
            handover: handover.map(Bytes),
            purpose,
        });
        match client.ask(&request) {
            Ok(Response::KeysStale | Response::Failed(Failure::Closed)) => Ok(Installed::Stale),
            Ok(Response::Failed(failure)) => Err(failure.into()),
            Ok(response) => <()>::try_from(response).map(|()| Installed::Yes),
            // The header in the folder tells what happened.
            Err(Unanswered::NotDone | Unanswered::Unknown) => Ok(Installed::Stale),
            Err(Unanswered::Failed(error)) => Err(error),
        }
    }

    /// What the folder holds now, and its metadata; finishes what an interrupted change left.
    ///
    /// `lock`: proof that nobody else has the vault open; keep it as long as the result.
    fn hold(&self, _lock: &OwnerLock) -> Result<(HeldKeys, Store, Sight)> {
        switch::finish(&self.folder)?;
        let mut keyring = self.newest()?;
        let replica = Files::read(&self.folder)?.replica_of(&mut keyring)?;
        let mut unlocked = Unlocked::made(keyring, replica);
        let access = Access::ReadWrite;
        let mut watch = Watch::begin(&self.folder, &unlocked.keyring, access, &self.trust)?;
        let store = unlocked.store(&self.folder, access, &mut watch)?;
        watch.name_anew(&self.folder, &mut unlocked, &store)?;
        let sight = watch.sight(unlocked.replica.instance());
        unlocked.refresh_replica(&self.folder)?;
        Ok((HeldKeys::new(&self.folder, unlocked)?, store, sight))
    }

    /// Takes the lock, or finds the process that has it.
    fn reach(&self) -> Result<Reached> {
        self.folder.check_is_no_backup()?;
        let mut retry = Retry::new(OWNER_WAIT);
        loop {
            match OwnerLock::attempt(&self.folder)? {
                Attempt::Taken(lock) => return Ok(Reached::Free(lock)),
                Attempt::NotWritable(source) => {
                    return Err(Error::Io {
                        what: "changing the vault folder",
                        source,
                    });
                }
                Attempt::HeldByAnother => {}
            }
            let access = Access::ReadWrite;
            if let Some(client) = Client::connect(&self.folder, access, Successor::HasSecret)? {
                return Ok(Reached::Owned(client));
            }
            if !retry.wait() {
                return Err(Error::OwnerUnreachable);
            }
        }
    }
}

fn removed_meanwhile() -> Error {
    let why = "the key that you gave was removed or changed meanwhile; use another one";
    Error::WrongSecret(why.to_owned())
}

/// Whether whoever can read a remote of the vault can try passphrases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guessable {
    /// They can, and a passphrase alone brings the vault back from there.
    Yes,
    /// They cannot: it takes another kind of key, or a device that has the vault.
    No,
}

/// A key to add. A passphrase's cost is measured here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AddKey {
    /// A passphrase.
    Passphrase(Passphrase),
    /// Anything else.
    Other(NewKey),
}

/// What the folder durably is; `None` if that cannot be said.
fn durable_state(store: &Store) -> Option<DurableState> {
    store.sync_log().ok()?;
    let commits = store.lock().commits().ok()?;
    let root = store.root();
    Some(DurableState { commits, root })
}

impl From<UnlockError> for Error {
    fn from(error: UnlockError) -> Self {
        let damaged = |what| Self::Damaged {
            what,
            why: error.to_string(),
        };
        match &error {
            UnlockError::WrongSecret { .. } | UnlockError::NoSlotOfThatKind { .. } => {
                Self::WrongSecret(error.to_string())
            }
            UnlockError::PassphrasesWithheld { .. } => Self::PassphraseWithheld(error.to_string()),
            UnlockError::Provider(provider) => Self::Provider(provider.clone()),
            UnlockError::Format(_) => Self::UnknownFormat(error.to_string()),
            UnlockError::GenerationBehind { seen, found } => Self::GenerationBehind {
                seen: *seen,
                found: *found,
            },
            UnlockError::HeadMissing { record } => Self::HeaderForeign { record: *record },
            UnlockError::OutOfMemory(_) => Self::Keys(error.to_string()),
            UnlockError::CostNotAllowed { .. } => Self::CostNotAllowed(error.to_string()),
            UnlockError::ReplicaForged | UnlockError::DeviceRemoved => damaged(REPLICA),
            _ => damaged(HEADER),
        }
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Provider(provider) => Self::Provider(provider),
            other => Self::Keys(other.to_string()),
        }
    }
}

impl From<strongroom_crypto::ProviderError> for Error {
    fn from(error: strongroom_crypto::ProviderError) -> Self {
        Self::Provider(error)
    }
}

impl From<strongroom_crypto::RandomError> for Error {
    fn from(error: strongroom_crypto::RandomError) -> Self {
        Self::Keys(error.to_string())
    }
}

impl From<strongroom_metadata::Error> for Error {
    fn from(error: strongroom_metadata::Error) -> Self {
        strongroom_filesystem::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use strongroom_crypto::{KeyFile, RecoveryCode};

    use super::*;
    use crate::folder::refusal;
    use crate::owner::socket::Listener;
    use crate::request::frame::{self, Arrival};
    use crate::request::{Greeting, Welcome};
    use crate::{CreateOptions, Vault};

    /// What an owner does with a change before it dies.
    #[derive(Clone, Copy, Debug)]
    enum Death {
        AfterTheHeader,
        BeforeTheHeader,
        /// It is leaving and says so.
        Leaving,
    }

    /// Takes one request on `listener`, and dies over it.
    fn die(folder: &Folder, lock: OwnerLock, listener: Listener, death: Death) {
        let (mut stream, _) = listener.bound().unwrap().socket.accept().unwrap();
        let mut buffer = Vec::new();
        let receive = |stream: &mut UnixStream, buffer: &mut Vec<u8>| {
            assert_eq!(frame::receive(stream, buffer).unwrap(), Arrival::Frame);
        };
        receive(&mut stream, &mut buffer);
        frame::decode::<Greeting>(&buffer).unwrap();
        frame::send(&mut stream, &mut buffer, &Welcome::Session(1)).unwrap();
        receive(&mut stream, &mut buffer);
        let Request::Whole(WholeRequest::InstallKeys {
            base: 1, header, ..
        }) = frame::decode(&buffer).unwrap()
        else {
            panic!("another request")
        };
        match death {
            Death::AfterTheHeader => folder.replace(HEADER, header.0).unwrap(),
            Death::BeforeTheHeader => {}
            Death::Leaving => {
                let mut answer = Vec::new();
                frame::send(&mut stream, &mut answer, &Response::Leaving).unwrap();
            }
        }
        drop((listener, stream, lock));
    }

    /// Goal: who changes keys learns what became of the change, and makes it once, however the owner ends.
    #[test]
    fn a_change_that_the_owner_dies_over_is_made_exactly_once() {
        for death in [
            Death::AfterTheHeader,
            Death::BeforeTheHeader,
            Death::Leaving,
        ] {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("vault");
            let key_file = KeyFile::random(&SystemRandom).unwrap();
            let options = CreateOptions::new().key_file(key_file.clone());
            Vault::create(&path, options)
                .unwrap()
                .vault
                .close()
                .unwrap();
            let mut keys = Keys::open(&path, &Secret::KeyFile(key_file)).unwrap();
            let folder = Folder::new(&path);
            let Attempt::Taken(lock) = OwnerLock::attempt(&folder).unwrap() else {
                panic!("nobody else has the vault")
            };
            let listener = Listener::bind(&folder).unwrap();
            let code = RecoveryCode::random(&SystemRandom).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| die(&folder, lock, listener, death));
                let key = NewKey::RecoveryCode(code.clone());
                keys.add("new", AddKey::Other(key)).unwrap();
            });
            assert_eq!(list_slots(&path).unwrap().len(), 3, "{death:?}");
            let secret = Secret::RecoveryCode(code);
            let vault = Vault::open(&path, secret, crate::OpenOptions::default()).unwrap();
            assert_eq!(vault.information().unwrap().generation, 2, "{death:?}");
            vault.close().unwrap();
        }
    }

    /// Goal: no change is acknowledged before a power cut leaves it in force. Method: the owner dies between the new name of the header and
    /// the sync of the folder; the sync that has to make up for that fails, and is heard of.
    /// Failed before: nobody synced the folder, and the change counted as made.
    #[test]
    fn a_change_that_the_owner_dies_over_is_synced_before_it_is_acknowledged() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("vault");
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let options = CreateOptions::new().key_file(key_file.clone());
        let created = Vault::create(&path, options).unwrap();
        created.vault.close().unwrap();
        let mut keys = Keys::open(&path, &Secret::KeyFile(key_file)).unwrap();
        let folder = Folder::new(&path);
        let Attempt::Taken(lock) = OwnerLock::attempt(&folder).unwrap() else {
            panic!("nobody else has the vault")
        };
        let listener = Listener::bind(&folder).unwrap();
        let code = RecoveryCode::random(&SystemRandom).unwrap();
        let added = std::thread::scope(|scope| {
            scope.spawn(|| die(&folder, lock, listener, Death::AfterTheHeader));
            refusal::set(Some(refusal::SYNC));
            let added = keys.add("new", AddKey::Other(NewKey::RecoveryCode(code)));
            refusal::set(None);
            added
        });
        assert!(matches!(added, Err(Error::KeysChanged { .. })), "{added:?}");
        assert_eq!(list_slots(&path).unwrap().len(), 3);
    }
}

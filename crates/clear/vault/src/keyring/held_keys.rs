//! Changes the keys that a vault works with: in its folder, and in everything that uses them.
//!
//! Takes   a header that was made from the keys in use
//! Gives   the same header in the folder, and its newest epoch in use
//! Never   trusts a header: it must continue the one in use, and must open for this device
//! Spec    spec/1-keys.md, sections 1.7 to 1.9
//!
//! Invariants
//!  (1) If a change is interrupted anywhere, the next opening finishes it. A change is stored in this order:   [1.8.5]
//!      1. in the metadata: the request (rotation only; if one is under way, after the last step); then the id of the membership record
//!         to be made here
//!      2. the replica file of the new device, as `replica.json.next`
//!      3. the header
//!      4. `replica.json.next` is renamed to `replica.json`
//!      5. the new epoch begins: from here on everything is sealed under it
//!      6. the membership records that were seen, in the metadata
//!      7. the second copies of header and replica file
//!      8. the new key of the database
//!  (2) Of several changes made from one header, exactly one is installed. The others fail as stale.
//!  (3) Nothing is sealed under an epoch before the header that grants it is durable in the folder that was opened.
//!  (4) Keys are forgotten only after it is durable that nothing needs them, and the newest keys are never forgotten.  [1.10.4]

use std::sync::Arc;

use strongroom_crypto::{BlockSealer, Changed, Keyring, Replica, SystemRandom, UnlockError};
use strongroom_filesystem::Filesystem;
use strongroom_format::{Epoch, InstanceId};
use strongroom_metadata::{Rekey, Store};

use crate::folder::{Folder, HEADER, Prepared, REPLICA, REPLICA_NEXT};
use crate::keyring::known_records;
use crate::keyring::known_records::Settings;
use crate::keyring::metadata_key;
use crate::keyring::own_replica;
use crate::keyring::unlocked::Unlocked;
use crate::own_login::OwnLogin;
use crate::request::member::Member;
use crate::request::{Access, Purpose};
use crate::{Error, Result};

/// The setting that keeps the wish for a rotation: the epoch before which nothing is to be left.           [1.10.1]
pub(crate) const ROTATION: &str = "rotation";

/// The keys of a vault that this process owns, and where they are kept.
pub(crate) struct HeldKeys {
    folder: Folder,
    /// Device and inode of the folder when it was opened.
    identity: (u64, u64),
    unlocked: Unlocked,
    /// A change whose header may be in the folder already: putting it there failed at its last step.
    pending: Option<Keyring>,
    /// The replica file in the folder is not that of the keys in use: putting it there failed.
    replica_is_behind: bool,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Installed {
    Yes,
    /// It was made from an older header; nothing was done.                                                    (2)
    Stale,
}

/// What works with the keys, and must follow when they change.
pub(crate) trait Follower: Settings {
    /// Fails if the change could not be followed.
    fn check(&self) -> Result<()>;
    /// Seals with `sealer` from now on.
    fn begin_epoch(&self, sealer: BlockSealer) -> Result<()>;
    /// Opens with `sealer` from now on, which lacks keys that nothing needs any more, or has some that were forgotten.
    fn forget_epochs(&self, sealer: BlockSealer);
    /// Gives the database another key.
    fn rekey(&self, rekey: &Rekey<'_>) -> Result<()>;
}

impl Settings for Filesystem {
    fn setting(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(Filesystem::setting(self, name)?)
    }

    fn keep_setting(&self, name: &str, value: &[u8]) -> Result<()> {
        Ok(Filesystem::keep_setting(self, name, value)?)
    }
}

impl Follower for Filesystem {
    fn check(&self) -> Result<()> {
        Ok(self.check_writable()?)
    }

    fn begin_epoch(&self, sealer: BlockSealer) -> Result<()> {
        Ok(Filesystem::begin_epoch(self, sealer)?)
    }

    fn forget_epochs(&self, sealer: BlockSealer) {
        Filesystem::forget_epochs(self, sealer);
    }

    fn rekey(&self, rekey: &Rekey<'_>) -> Result<()> {
        Ok(Filesystem::rekey(self, rekey)?)
    }
}

/// The metadata of a vault on which no file system runs.
impl Settings for Store {
    fn setting(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.lock().setting(name)?)
    }

    fn keep_setting(&self, name: &str, value: &[u8]) -> Result<()> {
        write_setting(self, name, value)
    }
}

impl Follower for Store {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn begin_epoch(&self, _: BlockSealer) -> Result<()> {
        Ok(())
    }

    fn forget_epochs(&self, _: BlockSealer) {}

    fn rekey(&self, rekey: &Rekey<'_>) -> Result<()> {
        Ok(Store::rekey(self, rekey)?)
    }
}

impl HeldKeys {
    /// Of the vault in `folder`, whose lock this process holds.
    pub(crate) fn new(folder: &Folder, unlocked: Unlocked) -> Result<Self> {
        Ok(Self {
            folder: folder.absolute()?,
            identity: folder.identity()?,
            unlocked,
            pending: None,
            replica_is_behind: false,
        })
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The name of this copy of the vault.
    pub(crate) fn instance(&self) -> InstanceId {
        self.unlocked.replica.instance()
    }

    /// This copy's own facts.
    pub(crate) fn replica(&self) -> &Replica {
        &self.unlocked.replica
    }

    pub(crate) fn keyring(&self) -> &Keyring {
        &self.unlocked.keyring
    }

    /// What logs in at servers as the device of this copy.
    pub(crate) fn login(&self) -> Arc<OwnLogin> {
        Arc::clone(&self.unlocked.login)
    }

    /// The same with the keys that are in use now.
    pub(crate) fn renew_login(&self) {
        self.unlocked.renew_login();
    }

    /// Who belongs to the vault.
    pub(crate) fn members(&self) -> Vec<Member> {
        let own = self.keyring().device();
        let members = self.keyring().members();
        members
            .iter()
            .map(|member| Member::new(member, own))
            .collect()
    }

    /// What people are shown of membership records that nobody here made.
    pub(crate) fn unknown_records(&self) -> Vec<String> {
        let places = self.unlocked.unknown.iter();
        places
            .filter_map(|place| known_records::describe(self.keyring(), *place))
            .collect()
    }

    /// Notes that a person knows of every record so far.
    pub(crate) fn accept_records(&mut self, follower: &dyn Follower) -> Result<()> {
        follower.check()?;
        known_records::accept(follower)?;
        self.unlocked.unknown.clear();
        Ok(())
    }

    /// Installs `header`, which was made from the one of generation `base`. `handover`: the device that acts from then on,
    /// if it is another one.
    ///
    /// # Errors
    /// Nothing was changed, unless it is one of making the last steps durable: those the next opening repeats.
    pub(crate) fn install(
        &mut self,
        base: u64,
        header: &[u8],
        handover: Option<&[u8]>,
        purpose: Purpose,
        follower: &dyn Follower,
    ) -> Result<Installed> {
        follower.check()?;
        self.check_place()?;
        self.catch_up(follower)?;
        if self.keyring().generation() != base {
            return Ok(Installed::Stale); // (2)
        }
        let next = self.keyring().follow_as(header, handover)?;
        if base.checked_add(1) != Some(next.generation()) {
            let why = "the new header of the vault skips a change number (generation); nothing was changed";
            return Err(Error::Keys(why.to_owned()));
        }
        let wish = next.epoch().0.to_le_bytes();
        let is_under_way = purpose == Purpose::Rotation && self.is_rotating(follower)?;
        if purpose == Purpose::Rotation && !is_under_way {
            // First: after a cut there may be a wish without a new epoch, which the next one fulfils, but never the epoch without the wish.
            follower.keep_setting(ROTATION, &wish)?;
        }
        let put = self.put(next, header, true, follower);
        if is_under_way && self.keyring().generation() != base {
            // Not before: if the epoch does not begin, the earlier wish must still be there. Until this moment it stands for both: whatever
            // is sealed again gets the newest keys, and none are forgotten meanwhile.
            follower.keep_setting(ROTATION, &wish)?;
        }
        put?;
        Ok(Installed::Yes)
    }

    /// Whether a rotation is wanted whose epoch has begun, and keys from before it are still here.
    fn is_rotating(&self, follower: &dyn Follower) -> Result<bool> {
        let wish = follower.setting(ROTATION)?;
        let wish = wish.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        let wish = wish.map(|bytes| Epoch(u32::from_le_bytes(bytes)));
        let has_older = |wish: &Epoch| self.keyring().epochs().any(|epoch| epoch < *wish);
        Ok(wish.is_some_and(|wish| wish <= self.keyring().epoch() && has_older(&wish)))
    }

    /// Takes in a later header of this vault, made by another device; it may have the form that remotes get, and what it withholds is in
    /// what the folder gets.                                                                                   [1.7.10]
    ///
    /// # Errors
    /// As `install`.
    pub(crate) fn take_in(&mut self, header: &[u8], follower: &dyn Follower) -> Result<()> {
        follower.check()?;
        self.check_place()?;
        self.catch_up(follower)?;
        let next = self.keyring().follow_at_remote(header)?;
        let is_later = next.generation() > self.keyring().generation();
        if !is_later && self.keyring().includes(&next) {
            return Ok(());
        }
        // What was said here, and is not known there yet, goes on to hold.                                   [1.7.11]
        match next.with_newer_of(self.keyring())? {
            Some(merged) => self.put(merged.keyring, &merged.header, false, follower),
            None => {
                let header = next.header_bytes()?;
                self.put(next, &header, false, follower)
            }
        }
    }

    /// Takes in what a header whose records are all here says newer of what remotes get, and goes beyond its generation; gives whether there
    /// is something.                                                                                        [1.7.11]
    ///
    /// # Errors
    /// As `install`.
    pub(crate) fn outdo(&mut self, header: &[u8], follower: &dyn Follower) -> Result<bool> {
        follower.check()?;
        self.check_place()?;
        self.catch_up(follower)?;
        let Some(merged) = self.keyring().with_newer_in(header)? else {
            return Ok(false);
        };
        self.put(merged.keyring, &merged.header, true, follower)?;
        Ok(true)
    }

    /// Adds a new device and acts as it from then on. `newest`: a later header, in which the device of this copy was replaced; the slot
    /// that opened the vault adds the new one then. Keys that it forgot come back: something here may be sealed under them. [11.10.4]
    ///
    /// # Errors
    /// `DeviceReplaced` without such a slot; `Keys` if the slot was removed, or the device by another one; else as `forget_before`.
    pub(crate) fn become_new_device(
        &mut self,
        newest: Option<&[u8]>,
        follower: &dyn Follower,
    ) -> Result<()> {
        follower.check()?;
        self.check_place()?;
        self.catch_up(follower)?;
        let from = match newest {
            None => self.keyring().clone(),
            Some(header) => {
                let slot = self.unlocked.slot.as_ref().ok_or(Error::DeviceReplaced)?;
                let found = match slot.follow_at_remote(header) {
                    Err(UnlockError::DeviceRemoved) => return Err(slot_removed()),
                    found => found?,
                };
                if !found.includes(self.keyring()) {
                    return Err(UnlockError::Diverged.into());
                }
                if !self.keyring().is_replaced_in(header) {
                    return Err(UnlockError::DeviceRemoved.into());
                }
                found.with_epochs_of(self.keyring())
            }
        };
        let Changed {
            header, keyring, ..
        } = from.add_device(&SystemRandom)?;
        self.put(keyring, &header, true, follower)?;
        self.unlocked.slot = None;
        Ok(())
    }

    /// Forgets the keys of every epoch before `first`, in the folder and in what runs on them; gives whether there were some.
    ///
    /// `first`: nothing that is durable is sealed under an older one.                                         (4)
    ///
    /// # Errors
    /// Nothing was forgotten, unless it is one of making the last steps durable: those the next opening repeats.
    pub(crate) fn forget_before(&mut self, first: Epoch, follower: &dyn Follower) -> Result<bool> {
        follower.check()?;
        self.check_place()?;
        self.catch_up(follower)?;
        if self.keyring().epochs().all(|epoch| epoch >= first) {
            return Ok(false);
        }
        let Changed {
            header, keyring, ..
        } = self.keyring().forget_epochs_before(first)?;
        self.put(keyring, &header, true, follower)?;
        Ok(true)
    }

    /// Puts `header` in the folder, with the replica file that belongs to it, and works with `next`. `is_own`: its newest
    /// record was made here, and need not be shown to anybody.                                                  (1)
    fn put(
        &mut self,
        next: Keyring,
        header: &[u8],
        is_own: bool,
        follower: &dyn Follower,
    ) -> Result<()> {
        let folder = self.folder.clone();
        let sealed = self.unlocked.resealed_replica(&next)?;
        let is_new_device = next.device() != Some(self.unlocked.replica.device());
        if let (true, Some(sealed)) = (is_new_device, &sealed) {
            return self.put_device(next, header, sealed, follower);
        }
        // Both are written before one is put in its place: a full disk is met while nothing is changed.
        let new_header = folder.prepare(HEADER, header)?;
        let new_replica = match &sealed {
            Some(sealed) => {
                let prepared = folder.prepare(REPLICA, sealed)?;
                Some((NewReplica::Prepared(prepared), sealed.as_slice()))
            }
            None => None,
        };
        if is_own {
            known_records::about_to_make(follower, &next)?;
        }
        if !next
            .epochs()
            .any(|epoch| epoch == self.unlocked.replica.epoch())
        {
            // (4): the file must open with the header that stands beside it.
            if let Some((new, sealed)) = new_replica {
                new.put(&folder)?;
                self.unlocked.replica = self.keyring().open_replica(sealed)?;
            }
            new_header.put()?;
            self.check_place()?;
            return self.adopt(next, None, follower);
        }
        new_header.put()?; // (1)
        self.check_place()?; // (3)
        self.adopt(next, new_replica, follower)
    }

    /// The same with a new device: no header is in its place before the device that it names is durable.       (1)
    fn put_device(
        &mut self,
        next: Keyring,
        header: &[u8],
        sealed: &[u8],
        follower: &dyn Follower,
    ) -> Result<()> {
        let folder = self.folder.clone();
        let new_header = folder.prepare(HEADER, header)?;
        let new_replica = folder.prepare(REPLICA_NEXT, sealed)?;
        // What a cut leaves in the folder is known as made here.
        known_records::about_to_make(follower, &next)?;
        new_replica.put()?;
        self.pending = Some(next.clone());
        new_header.put()?;
        self.check_place()?; // (3)
        self.pending = None;
        self.adopt(next, Some((NewReplica::Next, sealed)), follower)
    }

    /// Takes in a header that is in the folder already: a change that failed when it was half durable, or one that
    /// was put there from another copy of the vault.
    fn catch_up(&mut self, follower: &dyn Follower) -> Result<()> {
        let header = self.folder.header()?;
        let pending = self.pending.as_ref();
        let pending = pending.and_then(|pending| pending.follow(&header).ok());
        let next = match pending {
            Some(next) => next,
            None => self.keyring().follow(&header)?,
        };
        self.pending = None;
        if next.generation() == self.keyring().generation() {
            return self.finish_replica();
        }
        let folder = self.folder.clone();
        folder.sync()?; // (3)
        let sealed = self.unlocked.resealed_replica(&next)?;
        let new_replica = match &sealed {
            Some(sealed) => {
                let prepared = folder.prepare(REPLICA, sealed)?;
                Some((NewReplica::Prepared(prepared), sealed.as_slice()))
            }
            None => None,
        };
        self.adopt(next, new_replica, follower)?;
        self.finish_replica()
    }

    /// Puts the replica file in its place if that failed before.
    fn finish_replica(&mut self) -> Result<()> {
        if self.replica_is_behind {
            let (keyring, replica) = (&self.unlocked.keyring, &self.unlocked.replica);
            self.unlocked.replica = own_replica::settle(&self.folder, keyring, replica)?;
            self.replica_is_behind = false;
        }
        Ok(())
    }

    /// Works with `next`, whose header is durable. Goes on after an error: what is durable is in force.
    fn adopt(
        &mut self,
        next: Keyring,
        new_replica: Option<(NewReplica, &[u8])>,
        follower: &dyn Follower,
    ) -> Result<()> {
        let begins = next.epoch() != self.keyring().epoch();
        // Keys that go, or that another device brought back: those may be in the middle.                       [11.10.4]
        let has_others = !next.epochs().eq(self.keyring().epochs());
        self.unlocked.keyring = next;
        self.unlocked.slot = self.slot_that_follows();
        let replica = match new_replica {
            Some((new, sealed)) => {
                let put = new.put(&self.folder);
                self.replica_is_behind = put.is_err();
                let opened = self.unlocked.keyring.open_replica(sealed);
                // In use even if it is not in its place yet: the key of the database that is drawn below belongs to this device, and
                // with the one before it no opening would find it.
                let used = opened.map_err(Error::from).map(|replica| {
                    self.unlocked.replica = replica;
                });
                put.and(used)
            }
            None => Ok(()),
        };
        let epoch = match begins {
            true => follower.begin_epoch(self.keyring().block_sealer()),
            false => Ok(()),
        };
        if has_others && !begins {
            follower.forget_epochs(self.keyring().block_sealer());
        }
        let seen = known_records::see(follower, self.keyring(), Access::ReadWrite);
        let seen = seen.map(|unknown| self.unlocked.unknown = unknown);
        let saved = own_replica::save_copies(&self.folder);
        // Last: all that the old key opened until now stays as it was if there is no room for a second database.
        let rekeyed = self.renew_metadata_key(follower);
        replica.and(epoch).and(seen).and(saved).and(rekeyed)
    }

    /// The slot with the keys of the header in the folder, and no others; it goes if that does not have it any more.        (4)
    fn slot_that_follows(&mut self) -> Option<Keyring> {
        let slot = self.unlocked.slot.take()?;
        slot.follow(&self.folder.header().ok()?).ok()
    }

    fn renew_metadata_key(&mut self, follower: &dyn Follower) -> Result<()> {
        let Unlocked {
            keyring, replica, ..
        } = &self.unlocked;
        let renewed = metadata_key::renew(&self.folder, keyring, replica, |rekey| {
            follower.rekey(rekey)
        })?;
        if let Some(renewed) = renewed {
            self.unlocked.replica = renewed;
        }
        Ok(())
    }

    /// Whether the path still leads to the folder that was opened.                                            (3)
    fn check_place(&self) -> Result<()> {
        match self.folder.identity() {
            Ok(identity) if identity == self.identity => Ok(()),
            Ok(_) | Err(Error::NotAVault) => Err(Error::FolderMoved),
            Err(error) => Err(error),
        }
    }
}

fn slot_removed() -> Error {
    let why = "the key that opened this older copy of the vault was removed or changed since: copy out the files that only this folder \
         has, then clone the remote with a current key";
    Error::Keys(why.to_owned())
}

/// A replica file that waits to be put in its place.
enum NewReplica {
    Prepared(Prepared),
    /// Durable beside its place.
    Next,
}

impl NewReplica {
    fn put(self, folder: &Folder) -> Result<()> {
        match self {
            Self::Prepared(prepared) => prepared.put(),
            Self::Next => folder.put_in_place(REPLICA_NEXT, REPLICA),
        }
    }
}

/// Keeps a fact in the metadata, durably.
fn write_setting(store: &Store, name: &str, value: &[u8]) -> Result<()> {
    let mut transaction = store.lock();
    transaction.put_setting(name, value)?;
    transaction.commit()?;
    drop(transaction);
    Ok(store.sync_log()?)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::PathBuf;

    use strongroom_folder::NEW_PREFIX;

    use crate::folder::refusal;

    use strongroom_crypto::{NewKey, NewSlot, RecoveryCode, Secret};

    use super::*;
    use crate::{CreateOptions, KeyFile, Vault};

    /// Notes what it is told, and fails where it is told to.
    #[derive(Default)]
    struct Record {
        fail: &'static str,
        told: RefCell<Vec<String>>,
        settings: RefCell<BTreeMap<String, Vec<u8>>>,
        /// The vault whose progress is looked at while the database gets its key, and what was seen.
        watched: Option<PathBuf>,
        progress: RefCell<Option<(u64, u64)>>,
        /// Whether the database with its new key is put in place, and that key.
        puts: bool,
        key: RefCell<Vec<u8>>,
    }

    impl Record {
        fn failing(fail: &'static str) -> Self {
            Self {
                fail,
                ..Self::default()
            }
        }

        fn note(&self, step: &str, number: u64) -> Result<()> {
            if self.fail == step {
                return Err(Error::Storage(step.to_owned()));
            }
            self.told.borrow_mut().push(format!("{step} {number}"));
            Ok(())
        }
    }

    impl Settings for Record {
        fn setting(&self, name: &str) -> Result<Option<Vec<u8>>> {
            Ok(self.settings.borrow().get(name).cloned())
        }

        fn keep_setting(&self, name: &str, value: &[u8]) -> Result<()> {
            self.note(name, 0)?;
            let value = value.to_vec();
            self.settings.borrow_mut().insert(name.to_owned(), value);
            Ok(())
        }
    }

    impl Follower for Record {
        fn check(&self) -> Result<()> {
            if self.fail == "check" {
                return Err(Error::Closed);
            }
            Ok(())
        }

        fn begin_epoch(&self, sealer: BlockSealer) -> Result<()> {
            self.note("epoch", u64::from(sealer.epoch().0))
        }

        fn forget_epochs(&self, sealer: BlockSealer) {
            let epoch = u64::from(sealer.epoch().0);
            self.note("forget", epoch).expect("never told to fail");
        }

        fn rekey(&self, rekey: &Rekey<'_>) -> Result<()> {
            rekey
                .into
                .new_file(&[7; 5000])
                .unwrap()
                .put("metadata.db")
                .unwrap();
            let progress = self.watched.as_deref().map(crate::rekey_progress);
            if let Some(progress) = progress {
                *self.progress.borrow_mut() = progress;
            }
            self.note("rekey", 0)?;
            if self.puts {
                *self.key.borrow_mut() = rekey.key.to_vec();
                (rekey.put)().unwrap();
            }
            Ok(())
        }
    }

    /// A vault that is closed, and its keys.
    fn closed_vault() -> (tempfile::TempDir, Folder, HeldKeys) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("vault");
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let options = CreateOptions::new().key_file(key_file.clone());
        let vault = Vault::create(&path, options).unwrap().vault;
        vault.close().unwrap();
        let folder = Folder::new(&path);
        let unlocked = Unlocked::new(&folder, &Secret::KeyFile(key_file)).unwrap();
        let keys = HeldKeys::new(&folder, unlocked).unwrap();
        (place, folder, keys)
    }

    /// The vault of `keyring` without its recovery code.
    fn without_code(keyring: &Keyring) -> Changed {
        let slots = keyring.slots();
        let code = slots.iter().find(|slot| slot.label == "made at init");
        let removed = keyring.remove_slot(code.unwrap().id, &SystemRandom);
        removed.unwrap()
    }

    fn with_code(keyring: &Keyring) -> Changed {
        let slot = NewSlot {
            label: "added".to_owned(),
            key: NewKey::RecoveryCode(RecoveryCode::random(&SystemRandom).unwrap()),
        };
        keyring.add_slot(&slot, &SystemRandom, 1).unwrap()
    }

    fn install(
        keys: &mut HeldKeys,
        base: u64,
        changed: &Changed,
        follower: &Record,
    ) -> Result<Installed> {
        let handover = changed.handover.as_deref();
        keys.install(base, &changed.header, handover, Purpose::Future, follower)
    }

    fn files(folder: &Folder) -> (Vec<u8>, Vec<u8>) {
        (folder.header().unwrap(), folder.replica().unwrap())
    }

    #[test]
    fn a_removal_writes_both_files_begins_the_epoch_and_keeps_the_generation_in_this_order() {
        let (_place, folder, mut keys) = closed_vault();
        let (header, replica) = (without_code(keys.keyring()), folder.replica().unwrap());
        let record = Record::default();
        assert_eq!(
            install(&mut keys, 1, &header, &record).unwrap(),
            Installed::Yes
        );
        let steps = ["membership_made 0", "epoch 1", "header_seen 0", "rekey 0"];
        assert_eq!(*record.told.borrow(), steps);
        assert_eq!(folder.header().unwrap(), header.header);
        assert_ne!(folder.replica().unwrap(), replica);
        let added = with_code(keys.keyring());
        let record = Record::default();
        install(&mut keys, 2, &added, &record).unwrap();
        // A key of an earlier epoch than the newest stays the old one until it could be replaced.
        let steps = ["membership_made 0", "header_seen 0", "rekey 0"];
        assert_eq!(*record.told.borrow(), steps);
    }

    /// Goal: whoever waits for a change of keys sees how far it is, in whatever process it is made.
    #[test]
    fn how_much_of_the_database_has_its_new_key_shows_in_the_folder_while_it_changes() {
        let (_place, folder, mut keys) = closed_vault();
        let whole = fs::metadata(folder.path().join("metadata.db"))
            .unwrap()
            .len();
        let record = Record {
            watched: Some(folder.path().to_owned()),
            ..Record::default()
        };
        assert_eq!(crate::rekey_progress(folder.path()), None);
        let removal = without_code(keys.keyring());
        install(&mut keys, 1, &removal, &record).unwrap();
        assert_eq!(*record.progress.borrow(), Some((5000, whole)));
        assert_eq!(crate::rekey_progress(folder.path()), None);
    }

    /// SECURITY.md, claim 6: the slot that may add a new device has no key that this one has forgotten.
    #[test]
    fn the_slot_that_is_kept_for_a_new_device_forgets_keys_too() {
        let (_place, _folder, mut keys) = closed_vault();
        let record = Record::default();
        let rotated = keys.keyring().replace_device(&SystemRandom).unwrap();
        install(&mut keys, 1, &rotated, &record).unwrap();
        let newest = keys.keyring().epoch();
        assert!(keys.forget_before(newest, &record).unwrap());
        let slot = keys.unlocked.slot.as_ref().unwrap();
        assert_eq!(slot.epochs().collect::<Vec<_>>(), [newest]);
    }

    /// Goal: what a copy brings that became a new device opens here, whichever of its forgotten keys came back.
    /// Failed before: only the oldest keys were compared, and the file system did not get a key that came back between two others.
    #[test]
    fn a_key_that_comes_back_between_two_others_is_in_use() {
        let (_place, _folder, mut keys) = closed_vault();
        let record = Record::default();
        let first = keys.keyring().clone();
        let second = first.begin_epoch(&SystemRandom).unwrap().keyring;
        let third = second.begin_epoch(&SystemRandom).unwrap().keyring;
        let third = third.forget_epochs_before(third.epoch()).unwrap().keyring;
        let one = third.with_epochs_of(&first).add_device(&SystemRandom);
        let one = one.unwrap();
        keys.take_in(&one.header, &record).unwrap();
        let another = one.keyring.with_epochs_of(&second);
        let another = another.add_device(&SystemRandom).unwrap();
        let record = Record::default();
        keys.take_in(&another.header, &record).unwrap();
        let all = [Epoch(0), Epoch(1), Epoch(2)];
        assert_eq!(keys.keyring().epochs().collect::<Vec<_>>(), all);
        assert_eq!(record.told.borrow()[0], "forget 2");
    }

    #[test]
    fn what_is_stale_broken_or_skips_a_generation_is_refused_and_nothing_is_written() {
        let (_place, folder, mut keys) = closed_vault();
        let before = files(&folder);
        let record = Record::default();
        let one = with_code(keys.keyring());
        let two = with_code(&one.keyring);
        assert!(matches!(
            install(&mut keys, 1, &two, &record),
            Err(Error::Keys(_))
        ));
        let stale = install(&mut keys, 0, &one, &record).unwrap();
        assert_eq!(stale, Installed::Stale);
        let same = keys.install(1, &before.0, None, Purpose::Future, &record);
        assert!(matches!(same, Err(Error::Keys(_))), "{same:?}");
        for broken in [&b""[..], b"{", &one.header[..one.header.len() - 1]] {
            let broken = keys.install(1, broken, None, Purpose::Future, &record);
            assert!(broken.is_err());
        }
        assert!(install(&mut keys, 1, &one, &Record::failing("check")).is_err());
        assert_eq!(files(&folder), before);
        assert!(record.told.borrow().is_empty());
        install(&mut keys, 1, &one, &record).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_keys_as_they_were() {
        let (_place, folder, mut keys) = closed_vault();
        let before = files(&folder);
        let header = without_code(keys.keyring());
        for name in [HEADER, REPLICA_NEXT] {
            refusal::set(Some(name));
            let record = Record::default();
            assert!(install(&mut keys, 1, &header, &record).is_err());
            assert_eq!(files(&folder), before, "{name}");
            assert!(record.told.borrow().is_empty());
            refusal::set(None);
            let left = folder.list("listing").unwrap();
            assert!(left.iter().all(|entry| !entry.name.starts_with(NEW_PREFIX)));
            assert!(!folder.has(REPLICA_NEXT));
        }
        install(&mut keys, 1, &header, &Record::default()).unwrap();
    }

    /// Goal: a rotation that is under way goes on to its end, whatever becomes of a second one.
    /// Failed before: the wish for the second one took the place of the first before anything else was done. Where its epoch never began,
    /// nothing was wanted any more, and the old keys stayed.
    #[test]
    fn a_second_rotation_that_fails_does_not_end_the_first() {
        let (_place, folder, mut keys) = closed_vault();
        let record = Record::default();
        let rotate = |keys: &mut HeldKeys, base| {
            let changed = keys.keyring().replace_device(&SystemRandom).unwrap();
            let handover = changed.handover.as_deref();
            keys.install(base, &changed.header, handover, Purpose::Rotation, &record)
        };
        let wish = || record.settings.borrow().get(ROTATION).cloned().unwrap();
        assert_eq!(rotate(&mut keys, 1).unwrap(), Installed::Yes);
        assert_eq!(wish(), 1_u32.to_le_bytes());
        for name in [HEADER, REPLICA_NEXT] {
            let before = files(&folder);
            refusal::set(Some(name));
            assert!(rotate(&mut keys, 2).is_err());
            refusal::set(None);
            assert_eq!(files(&folder), before);
            assert_eq!(wish(), 1_u32.to_le_bytes(), "{name}");
        }
        assert_eq!(rotate(&mut keys, 2).unwrap(), Installed::Yes);
        assert_eq!(wish(), 2_u32.to_le_bytes());
        let newest = keys.keyring().epoch();
        assert!(keys.forget_before(newest, &record).unwrap());
        // Where none is under way the wish is first, and one that came to nothing is in nobody's way.
        refusal::set(Some(HEADER));
        assert!(rotate(&mut keys, 4).is_err());
        refusal::set(None);
        assert_eq!(wish(), 3_u32.to_le_bytes());
        assert_eq!(rotate(&mut keys, 4).unwrap(), Installed::Yes);
        assert_eq!(wish(), 3_u32.to_le_bytes());
    }

    /// Goal: an opening finds the key that the database has, whatever failed on the way. Failed before: where the new replica file could
    /// not be put in place, the key went into a file of the device that had just been removed, and nothing opened the vault.
    #[test]
    fn a_replica_file_that_was_not_put_in_place_does_not_lose_the_key_of_the_database() {
        let (_place, folder, mut keys) = closed_vault();
        let removal = without_code(keys.keyring());
        let follower = Record {
            puts: true,
            ..Record::default()
        };
        refusal::set(Some(refusal::IN_PLACE));
        assert!(install(&mut keys, 1, &removal, &follower).is_err());
        refusal::set(None);
        let mut keyring = removal.keyring;
        let files = own_replica::Files::read(&folder).unwrap();
        let replica = files.replica_of(&mut keyring).unwrap();
        assert_eq!(
            replica.metadata_key().bytes()[..],
            follower.key.borrow()[..]
        );
        own_replica::settle(&folder, &keyring, &replica).unwrap();
        assert!(!folder.has(REPLICA_NEXT));
    }

    /// Goal: once the header is durable the change is in force, whatever fails behind it; what failed is made up for.
    #[test]
    fn an_error_behind_the_header_is_told_and_the_new_keys_are_in_use() {
        let (_place, folder, mut keys) = closed_vault();
        let header = without_code(keys.keyring());
        let record = Record::failing("header_seen");
        assert!(install(&mut keys, 1, &header, &record).is_err());
        let steps = ["membership_made 0", "epoch 1", "rekey 0"];
        assert_eq!(*record.told.borrow(), steps);
        assert_eq!(folder.header().unwrap(), header.header);

        let (_place, folder, mut keys) = closed_vault();
        let header = without_code(keys.keyring());
        let replica = folder.replica().unwrap();
        fs::remove_file(folder.part(REPLICA)).unwrap();
        fs::create_dir(folder.part(REPLICA)).unwrap();
        let record = Record::default();
        assert!(install(&mut keys, 1, &header, &record).is_err());
        let steps = ["membership_made 0", "epoch 1", "header_seen 0", "rekey 0"];
        assert_eq!(*record.told.borrow(), steps);
        fs::remove_dir(folder.part(REPLICA)).unwrap();
        fs::write(folder.part(REPLICA), &replica).unwrap();
        let added = with_code(keys.keyring());
        install(&mut keys, 2, &added, &record).unwrap();
        assert_ne!(
            folder.replica().unwrap(),
            replica,
            "sealed under the newest epoch by the next change"
        );
    }
}

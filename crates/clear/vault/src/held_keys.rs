//! Changes the keys that a vault works with: in its folder, and in what runs on them.
//!
//! Takes   a header that somebody made from the keys in use
//! Gives   the same header in the folder, and its newest epoch in use
//! Never   believes a header: it must go on from the one in use, and open for this device
//! Spec    spec/1-keys.md, sections 1.7 to 1.9
//!
//! Invariants
//!  (1) Order: header, then replica file, then the generation in the metadata. A cut anywhere leaves a vault that the
//!      next opening finishes.
//!  (2) Of several changes made from one header exactly one is installed; the others are told that theirs is stale.
//!  (3) Nothing is sealed under an epoch before the header that grants it is durable in the folder that was opened.

use strongroom_crypto::{BlockSealer, Keyring};
use strongroom_filesystem::Filesystem;
use strongroom_metadata::Store;

use crate::folder::{Folder, HEADER, Prepared, REPLICA};
use crate::open::{GENERATION, Unlocked, write_generation};
use crate::{Error, Result};

/// The keys of a vault that this process owns, and where they are kept.
pub(crate) struct HeldKeys {
    folder: Folder,
    /// Device and inode of the folder when it was opened.
    identity: (u64, u64),
    unlocked: Unlocked,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Installed {
    Yes,
    /// It was made from an older header; nothing was done.                                                    (2)
    Stale,
}

/// What works with the keys, and must follow when they change.
pub(crate) trait Follower {
    /// Fails if the change could not be followed.
    fn check(&self) -> Result<()>;
    /// Seals with `sealer` from now on.
    fn begin_epoch(&self, sealer: BlockSealer) -> Result<()>;
    /// Keeps the newest generation that was seen.
    fn keep_generation(&self, generation: u64) -> Result<()>;
}

impl Follower for Filesystem {
    fn check(&self) -> Result<()> {
        Ok(self.check_writable()?)
    }

    fn begin_epoch(&self, sealer: BlockSealer) -> Result<()> {
        Ok(Filesystem::begin_epoch(self, sealer)?)
    }

    fn keep_generation(&self, generation: u64) -> Result<()> {
        Ok(self.keep_setting(GENERATION, &generation.to_le_bytes())?)
    }
}

/// The metadata of a vault on which no file system runs.
impl Follower for Store {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn begin_epoch(&self, _: BlockSealer) -> Result<()> {
        Ok(())
    }

    fn keep_generation(&self, generation: u64) -> Result<()> {
        write_generation(self, generation)
    }
}

impl HeldKeys {
    /// Of the vault in `folder`, whose lock this process holds.
    pub(crate) fn new(folder: &Folder, unlocked: Unlocked) -> Result<Self> {
        Ok(Self {
            folder: folder.absolute()?,
            identity: folder.identity()?,
            unlocked,
        })
    }

    pub(crate) fn keyring(&self) -> &Keyring {
        &self.unlocked.keyring
    }

    /// Installs `header`, which was made from the one of generation `base`.
    ///
    /// # Errors
    /// Nothing was changed, unless it is one of making the last steps durable: those the next opening repeats.
    pub(crate) fn install(
        &mut self,
        base: u64,
        header: &[u8],
        follower: &dyn Follower,
    ) -> Result<Installed> {
        follower.check()?;
        self.check_place()?;
        self.catch_up(follower)?;
        if self.keyring().generation() != base {
            return Ok(Installed::Stale); // (2)
        }
        let next = self.keyring().follow(header)?;
        if base.checked_add(1) != Some(next.generation()) {
            let why = "the new header of the vault skips a generation; nothing was changed";
            return Err(Error::Keys(why.to_owned()));
        }
        let folder = self.folder.clone();
        let sealed = self.unlocked.resealed_replica(&next)?;
        // Both are written before one is put in its place: a full disk is met while nothing is changed.
        let new_header = folder.prepare(HEADER, header)?;
        let new_replica = match &sealed {
            Some(sealed) => Some((folder.prepare(REPLICA, sealed)?, sealed.as_slice())),
            None => None,
        };
        new_header.put()?; // (1)
        self.check_place()?; // (3)
        self.adopt(next, new_replica, follower)?;
        Ok(Installed::Yes)
    }

    /// Takes in a header that is in the folder already: a change that failed when it was half durable, or one that
    /// was put there from another copy of the vault.
    fn catch_up(&mut self, follower: &dyn Follower) -> Result<()> {
        let next = self.keyring().follow(&self.folder.header()?)?;
        if next.generation() == self.keyring().generation() {
            return Ok(());
        }
        let folder = self.folder.clone();
        folder.sync()?; // (3)
        let sealed = self.unlocked.resealed_replica(&next)?;
        let new_replica = match &sealed {
            Some(sealed) => Some((folder.prepare(REPLICA, sealed)?, sealed.as_slice())),
            None => None,
        };
        self.adopt(next, new_replica, follower)
    }

    /// Works with `next`, whose header is durable. Goes on after an error: what is durable is in force.
    fn adopt(
        &mut self,
        next: Keyring,
        new_replica: Option<(Prepared<'_>, &[u8])>,
        follower: &dyn Follower,
    ) -> Result<()> {
        let begins = next.epoch() != self.keyring().epoch();
        self.unlocked.keyring = next;
        let replica = match new_replica {
            Some((prepared, sealed)) => prepared.put().and_then(|()| {
                self.unlocked.replica = self.unlocked.keyring.open_replica(sealed)?;
                Ok(())
            }),
            None => Ok(()),
        };
        let epoch = match begins {
            true => follower.begin_epoch(self.keyring().block_sealer()),
            false => Ok(()),
        };
        let generation = follower.keep_generation(self.keyring().generation());
        replica.and(epoch).and(generation)
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;

    use strongroom_crypto::{NewKey, NewSlot, RecoveryCode, Secret, SystemRandom};

    use super::*;
    use crate::{CreateOptions, KeyFile, Vault};

    /// Notes what it is told, and fails where it is told to.
    #[derive(Default)]
    struct Record {
        fail: &'static str,
        told: RefCell<Vec<String>>,
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

        fn keep_generation(&self, generation: u64) -> Result<()> {
            self.note("generation", generation)
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

    /// The header of `keyring` without its recovery code.
    fn without_code(keyring: &Keyring) -> Vec<u8> {
        let slots = keyring.slots();
        let code = slots.iter().find(|slot| slot.label == "made at init");
        let removed = keyring.remove_slot(code.unwrap().id, &SystemRandom);
        removed.unwrap().header
    }

    fn with_code(keyring: &Keyring) -> strongroom_crypto::Changed {
        let slot = NewSlot {
            label: "added".to_owned(),
            key: NewKey::RecoveryCode(RecoveryCode::random(&SystemRandom).unwrap()),
        };
        keyring.add_slot(&slot, &SystemRandom, 1).unwrap()
    }

    fn files(folder: &Folder) -> (Vec<u8>, Vec<u8>) {
        (folder.header().unwrap(), folder.replica().unwrap())
    }

    #[test]
    fn a_removal_writes_both_files_begins_the_epoch_and_keeps_the_generation_in_this_order() {
        let (_place, folder, mut keys) = closed_vault();
        let (header, replica) = (without_code(keys.keyring()), folder.replica().unwrap());
        let record = Record::default();
        assert_eq!(keys.install(1, &header, &record).unwrap(), Installed::Yes);
        assert_eq!(*record.told.borrow(), ["epoch 1", "generation 2"]);
        assert_eq!(folder.header().unwrap(), header);
        assert_ne!(folder.replica().unwrap(), replica);
        let added = with_code(keys.keyring());
        let record = Record::default();
        keys.install(2, &added.header, &record).unwrap();
        assert_eq!(*record.told.borrow(), ["generation 3"]);
    }

    #[test]
    fn what_is_stale_broken_or_skips_a_generation_is_refused_and_nothing_is_written() {
        let (_place, folder, mut keys) = closed_vault();
        let before = files(&folder);
        let record = Record::default();
        let one = with_code(keys.keyring());
        let two = with_code(&one.keyring);
        assert!(matches!(
            keys.install(1, &two.header, &record),
            Err(Error::Keys(_))
        ));
        let stale = keys.install(0, &one.header, &record).unwrap();
        assert_eq!(stale, Installed::Stale);
        let same = keys.install(1, &before.0, &record);
        assert!(matches!(same, Err(Error::Keys(_))), "{same:?}");
        for broken in [&b""[..], b"{", &one.header[..one.header.len() - 1]] {
            assert!(keys.install(1, broken, &record).is_err());
        }
        assert!(
            keys.install(1, &one.header, &Record::failing("check"))
                .is_err()
        );
        assert_eq!(files(&folder), before);
        assert!(record.told.borrow().is_empty());
        keys.install(1, &one.header, &record).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_keys_as_they_were() {
        let (_place, folder, mut keys) = closed_vault();
        let before = files(&folder);
        let header = without_code(keys.keyring());
        for name in ["vault.json.new", "replica.json.new"] {
            // In the way of what is to be written.
            fs::create_dir(folder.part(name)).unwrap();
            let record = Record::default();
            assert!(keys.install(1, &header, &record).is_err());
            assert_eq!(files(&folder), before, "{name}");
            assert!(record.told.borrow().is_empty());
            fs::remove_dir(folder.part(name)).unwrap();
            assert!(!folder.has("vault.json.new"));
        }
        keys.install(1, &header, &Record::default()).unwrap();
    }

    /// Goal: once the header is durable the change is in force, whatever fails behind it; what failed is made up for.
    #[test]
    fn an_error_behind_the_header_is_told_and_the_new_keys_are_in_use() {
        let (_place, folder, mut keys) = closed_vault();
        let header = without_code(keys.keyring());
        let record = Record::failing("generation");
        assert!(keys.install(1, &header, &record).is_err());
        assert_eq!(*record.told.borrow(), ["epoch 1"]);
        assert_eq!(folder.header().unwrap(), header);

        let (_place, folder, mut keys) = closed_vault();
        let header = without_code(keys.keyring());
        let replica = folder.replica().unwrap();
        fs::remove_file(folder.part(REPLICA)).unwrap();
        fs::create_dir(folder.part(REPLICA)).unwrap();
        let record = Record::default();
        assert!(keys.install(1, &header, &record).is_err());
        assert_eq!(*record.told.borrow(), ["epoch 1", "generation 2"]);
        fs::remove_dir(folder.part(REPLICA)).unwrap();
        fs::write(folder.part(REPLICA), &replica).unwrap();
        let added = with_code(keys.keyring());
        keys.install(2, &added.header, &record).unwrap();
        assert_ne!(
            folder.replica().unwrap(),
            replica,
            "sealed under the newest epoch by the next change"
        );
    }
}

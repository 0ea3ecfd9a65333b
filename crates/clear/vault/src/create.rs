//! Creates a vault: the folder becomes a complete vault, or stays marked as unfinished.
//!
//! Takes   a folder that does not exist or is empty, and the keys that will unlock the vault
//! Gives   an open vault, its recovery code, its fingerprint
//! Never   touches a folder that holds anything
//!
//! Invariants
//!  (1) The header is written last: a folder without it is no vault, and holds nothing of value.
//!  (2) While a vault is being created, a mark says so. A mark whose lock is free means that the creation was interrupted.
//!  (3) Of several creators exactly one wins: the one that holds the lock of the folder.

use std::path::Path;
use std::time::Instant;

use strongroom_crypto::{
    AgeRecipient, Argon2Cost, Changed, KeyFile, NewKey, NewSlot, Passphrase, RecoveryCode,
    SystemRandom, on_wiped_stack,
};
use strongroom_filesystem::Filesystem;
use strongroom_folder::NEW_PREFIX;
use strongroom_format::SuiteId;
use strongroom_metadata::{DATABASE_FILE, RESERVE_FILE, Store, TREE_FILE};

use crate::clock::now_s;
use crate::folder::owner_lock::{Attempt, OwnerLock};
use crate::folder::{
    Folder, HEADER, HEADER_SAVED, LOCK, REPLICA, REPLICA_NEXT, REPLICA_SAVED, SEGMENTS, UNFINISHED,
    below,
};
use crate::join::Joining;
use crate::keyring::held_keys::HeldKeys;
use crate::keyring::known_records;
use crate::keyring::own_replica::save_copies;
use crate::keyring::unlocked::Unlocked;
use crate::limits::CREATE_FREE_BYTES_MIN;
use crate::open::{self, OpenOptions};
use crate::own_login::OwnLogin;
use crate::owner::port::Port;
use crate::owner::socket::Listener;
use crate::request::Access;
use crate::seen::{self, SeenRecords, Sight};
use crate::tuning::{self, Tuning};
use crate::{Error, Result, Vault};

/// What a new vault is made with. A recovery code is always made too.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    suite: SuiteId,
    keys: Vec<Key>,
    engine: OpenOptions,
}

#[derive(Clone, Debug)]
enum Key {
    Passphrase(Passphrase),
    KeyFile(KeyFile),
    Recipient(AgeRecipient),
}

/// A new vault.
#[derive(Debug)]
pub struct Created {
    /// The vault, open.
    pub vault: Vault,
    /// To be shown once and written down: it opens the vault when all else is lost.
    pub recovery_code: RecoveryCode,
    /// What tells this vault from any other.
    pub fingerprint: String,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl CreateOptions {
    /// Only the recovery code will unlock it: add at least one key.
    #[must_use]
    pub fn new() -> Self {
        Self {
            suite: SuiteId::Aes256GcmBlake3,
            keys: Vec::new(),
            engine: OpenOptions::default(),
        }
    }

    /// Adds a passphrase.
    #[must_use]
    pub fn passphrase(mut self, passphrase: Passphrase) -> Self {
        self.keys.push(Key::Passphrase(passphrase));
        self
    }

    /// Adds a key file.
    #[must_use]
    pub fn key_file(mut self, key_file: KeyFile) -> Self {
        self.keys.push(Key::KeyFile(key_file));
        self
    }

    /// Adds an age or SSH recipient.
    #[must_use]
    pub fn recipient(mut self, recipient: AgeRecipient) -> Self {
        self.keys.push(Key::Recipient(recipient));
        self
    }

    /// Chooses the algorithms; AES-256-GCM and BLAKE3 unless told otherwise.
    #[must_use]
    pub fn suite(mut self, suite: SuiteId) -> Self {
        self.suite = suite;
        self
    }

    /// How the file system runs once it is made.
    #[must_use]
    pub fn engine(mut self, engine: crate::filesystem::Options) -> Self {
        self.engine.engine = engine;
        self
    }

    /// Whether the crypto providers of this machine may be measured first; they are unless told otherwise.
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.engine.tuning = tuning;
        self
    }

    /// Where it is recorded that this user has seen the vault.
    #[must_use]
    pub fn seen(mut self, seen: SeenRecords) -> Self {
        self.engine.trust.seen = seen;
        self
    }

    fn slots(&self, recovery_code: &RecoveryCode) -> Result<Vec<NewSlot>> {
        let slot = |label: &str, key| NewSlot {
            label: label.to_owned(),
            key,
        };
        let mut slots = Vec::new();
        for key in &self.keys {
            slots.push(match key {
                Key::Passphrase(passphrase) => slot(
                    "",
                    NewKey::Passphrase(passphrase.clone(), passphrase_cost()?),
                ),
                Key::KeyFile(key_file) => slot("", NewKey::KeyFile(key_file.clone())),
                Key::Recipient(recipient) => slot("", NewKey::Recipient(recipient.clone())),
            });
        }
        slots.push(slot(
            "made at init",
            NewKey::RecoveryCode(recovery_code.clone()),
        ));
        Ok(slots)
    }
}

/// What one try at a passphrase shall cost on this machine: about a second.
pub(crate) fn passphrase_cost() -> Result<Argon2Cost> {
    let start = Instant::now();
    Argon2Cost::calibrate(&mut || start.elapsed()).map_err(|error| Error::Keys(error.to_string()))
}

impl Vault {
    /// Says early whether `create` can succeed: before a person is asked for a passphrase.
    ///
    /// # Errors
    /// As `create`; `Provider`.
    pub fn check_new(folder: impl AsRef<Path>) -> Result<()> {
        tuning::check_ready()?;
        let folder = Folder::new(folder.as_ref());
        if !folder.path().exists() {
            folder.check_parent()?;
            return check_disk(&folder);
        }
        check_contents(&folder)?;
        if !folder.has(UNFINISHED) {
            return check_disk(&folder);
        }
        match OwnerLock::attempt(&folder)? {
            Attempt::HeldByAnother => Err(Error::BeingCreated),
            _ if folder.has(UNFINISHED) => Err(Error::InterruptedCreate),
            // Who was making it has just finished.
            _ => check_contents(&folder),
        }
    }

    /// Makes a vault in `folder`, which must not exist or be empty, and opens it.
    ///
    /// Takes about two seconds for each passphrase: its cost is measured first. If this is interrupted, the folder
    /// is no vault, and the next attempt says how to clear it.
    ///
    /// # Errors
    /// `AlreadyAVault`, `FolderNotEmpty`, `ParentMissing`, `DiskTooSmall`, `InterruptedCreate`; `BeingCreated` if another process
    /// does the same at this moment.
    pub fn create(folder: impl AsRef<Path>, options: CreateOptions) -> Result<Created> {
        let folder = Folder::new(folder.as_ref()).absolute()?;
        check_disk(&folder)?;
        let made_folder = folder.make()?;
        let lock = claim(&folder)?; // (3)
        let listener = Listener::bind(&folder)?;
        let built = seen::begin_new(&folder, &options.engine.trust)
            .and_then(|()| begin(&folder))
            .and_then(|()| on_wiped_stack(|| build(&folder, &options)));
        let (filesystem, keys, recovery_code) = match built {
            Ok(built) => built,
            Err(error) => {
                clear(&folder, made_folder);
                return Err(error);
            }
        };
        let durable = filesystem.durable_state();
        let sight = Sight::of_new(
            &folder,
            keys.keyring(),
            keys.instance(),
            durable,
            &options.engine.trust,
        )?;
        let owner = open::start(
            &folder,
            filesystem,
            keys,
            sight,
            Access::ReadWrite,
            Some((lock, listener)),
        )?;
        let fingerprint = owner.session.vault.information.lock().fingerprint.clone();
        let joining = Joining::new(folder.path(), options.engine, None)?;
        let vault = Self::new(Port::Owner(std::sync::Arc::new(owner)), joining);
        Ok(Created {
            vault,
            recovery_code,
            fingerprint,
        })
    }
}

/// Refuses a disk on which nothing could be stored once the vault is made.
fn check_disk(folder: &Folder) -> Result<()> {
    // A vault that is there, or a parent that is not, is reported by who looks at that.
    match folder.free_bytes() {
        Some(free_bytes) if free_bytes < CREATE_FREE_BYTES_MIN && !folder.has(HEADER) => {
            Err(Error::DiskTooSmall {
                free_bytes,
                needed_bytes: CREATE_FREE_BYTES_MIN,
            })
        }
        _ => Ok(()),
    }
}

/// Takes the lock of an empty folder, or says what is in it.
fn claim(folder: &Folder) -> Result<OwnerLock> {
    // Looked at before the lock file is made: a folder of other things is left as it was.
    check_contents(folder)?;
    let lock = match OwnerLock::attempt(folder)? {
        Attempt::Taken(lock) => lock,
        Attempt::HeldByAnother if folder.has(HEADER) => return Err(Error::AlreadyAVault),
        Attempt::HeldByAnother => return Err(Error::BeingCreated),
        Attempt::NotWritable(source) => {
            return Err(Error::Io {
                what: "making a vault in the folder",
                source,
            });
        }
    };
    // Whoever had the lock a moment ago may have finished a vault, or died over it.
    check_contents(folder)?;
    if folder.has(UNFINISHED) {
        Err(Error::InterruptedCreate)
    } else {
        Ok(lock)
    }
}

/// Takes the lock of an empty folder and leaves `mark` in it; or of one in which the same mark was left. What a clone makes
/// besides what comes down is gone then.
pub(crate) fn claim_for(folder: &Folder, mark: &[u8]) -> Result<OwnerLock> {
    if !folder.has(UNFINISHED) || folder.read_file(UNFINISHED)?.as_deref() != Some(mark) {
        let lock = claim(folder)?;
        folder.replace(UNFINISHED, mark)?;
        return Ok(lock);
    }
    match OwnerLock::attempt(folder)? {
        Attempt::Taken(lock) => {
            // Both may be of a device that was let in; a replica file that is of no member is made again, and so is the header.
            clear_files_but(folder, &[REPLICA, HEADER]);
            Ok(lock)
        }
        Attempt::HeldByAnother => Err(Error::BeingCreated),
        Attempt::NotWritable(source) => Err(Error::Io {
            what: "continuing a clone",
            source,
        }),
    }
}

/// Refuses a folder with anything but what an interrupted making leaves.
pub(crate) fn check_contents(folder: &Folder) -> Result<()> {
    if folder.has(HEADER) {
        return Err(Error::AlreadyAVault);
    }
    // The mark, or what it is written to first.
    let is_ours = |name: &std::ffi::OsStr| {
        let begins = |with: &str| name.as_encoded_bytes().starts_with(with.as_bytes());
        name == LOCK || begins(UNFINISHED) || begins(NEW_PREFIX)
    };
    match folder.has_only(is_ours)? || folder.has(UNFINISHED) {
        true => Ok(()),
        false => Err(Error::FolderNotEmpty),
    }
}

/// Leaves the mark.                                                                                             (2)
fn begin(folder: &Folder) -> Result<()> {
    folder.replace(
        UNFINISHED,
        b"A vault is being made in this folder, or its making was interrupted.\n",
    )
}

fn build(folder: &Folder, options: &CreateOptions) -> Result<(Filesystem, HeldKeys, RecoveryCode)> {
    let recovery_code = RecoveryCode::random(&SystemRandom)?;
    // Before the first key: nobody waits for a measurement later.
    tuning::settle(options.engine.tuning);
    let slots = options.slots(&recovery_code)?;
    let Changed {
        header, keyring, ..
    } = strongroom_crypto::create(&slots, options.suite, &SystemRandom, now_s())?;
    let replica = keyring.new_replica(&SystemRandom)?;
    let key = replica.metadata_key().bytes();
    let store = Store::create(folder.path(), key, strongroom_metadata::Options::default())?;
    known_records::see(&store, &keyring, Access::ReadWrite)?;
    let login = OwnLogin::of(&keyring);
    let keys = (&keyring, std::sync::Arc::clone(&login));
    let parts = open::parts(folder, keys, store, Access::ReadWrite, &options.engine)?;
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    Filesystem::format(&parts, uid, gid)?;
    let filesystem = Filesystem::open(parts)?;
    filesystem.sync()?;
    folder.replace(REPLICA, &keyring.seal_replica(&replica, &SystemRandom)?)?;
    folder.replace(HEADER, &header)?; // (1)
    save_copies(folder)?;
    folder
        .remove(UNFINISHED)
        .map_err(below("finishing the vault folder"))?;
    folder.sync()?;
    let unlocked = Unlocked {
        login,
        ..Unlocked::made(keyring, replica)
    };
    let keys = HeldKeys::new(folder, unlocked)?;
    Ok((filesystem, keys, recovery_code))
}

/// Removes what a failed creation left, and only that. What cannot be removed stays marked as unfinished.
fn clear(folder: &Folder, made_folder: bool) {
    clear_files(folder);
    let _ = folder.hold().and_then(|held| held.remove_tree(SEGMENTS));
    let _ = folder.remove_unfinished();
    let _ = folder.remove(UNFINISHED);
    if made_folder {
        let _ = folder.remove(LOCK);
        let _ = std::fs::remove_dir(folder.path());
    }
}

/// Takes away what a clone left that found no vault.
pub(crate) fn leave_empty(folder: &Folder, made_folder: bool) {
    let _ = folder.remove(UNFINISHED);
    if made_folder && check_contents(folder).is_ok() {
        let _ = folder.remove(LOCK);
        let _ = std::fs::remove_dir(folder.path());
    }
}

/// Removes database, replica file, header and their copies of a vault that is being made.
fn clear_files(folder: &Folder) {
    clear_files_but(folder, &[]);
}

/// The same but for these.
fn clear_files_but(folder: &Folder, kept: &[&str]) {
    let database = [
        DATABASE_FILE.to_owned(),
        format!("{DATABASE_FILE}-wal"),
        format!("{DATABASE_FILE}-shm"),
        TREE_FILE.to_owned(),
    ];
    let others = [
        RESERVE_FILE,
        REPLICA,
        REPLICA_NEXT,
        HEADER,
        REPLICA_SAVED,
        HEADER_SAVED,
    ];
    let others = others.map(str::to_owned);
    let all = database.into_iter().chain(others);
    for name in all.filter(|name| !kept.contains(&name.as_str())) {
        let _ = folder.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no type that holds a secret shows it when a program prints it to look for a fault. Method: all of the public API
    /// that can be printed, with secrets whose text is known.
    /// SECURITY.md, claim 7.
    #[test]
    fn debug_shows_no_secret_whatever_holds_it() {
        use strongroom_crypto::Secret;
        let passphrase = Passphrase::new(b"canary horse").unwrap();
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let code = RecoveryCode::random(&SystemRandom).unwrap();
        let options = CreateOptions::new()
            .passphrase(passphrase.clone())
            .key_file(key_file.clone());
        let new = |key| NewSlot {
            label: "label".to_owned(),
            key,
        };
        let shown = [
            format!("{options:?} {passphrase:?} {key_file:?} {code:?}"),
            format!("{:?}", Secret::Passphrase(passphrase.clone())),
            format!("{:?}", Secret::KeyFile(key_file.clone())),
            format!("{:?}", Secret::RecoveryCode(code.clone())),
            format!("{:?}", new(NewKey::KeyFile(key_file.clone()))),
            format!("{:?}", new(NewKey::RecoveryCode(code.clone()))),
            format!(
                "{:?}",
                new(NewKey::Passphrase(passphrase, Argon2Cost::FLOOR))
            ),
        ]
        .concat();
        let key_text = key_file.text();
        let key_text = key_text.trim().rsplit(':').next().unwrap();
        assert!(!shown.contains("canary") && !shown.contains(key_text));
        assert!(!shown.contains(&*code.text()));
        // Nor the bytes, one number after the other.
        assert!(!shown.contains(", 1") && !shown.contains("[1"), "{shown}");
        assert!(shown.contains("Passphrase(..)") && shown.contains("KeyFile(..)"));
    }

    /// Goal: whenever making a vault fails, another can be made there. Failed before: the page tree stayed.
    #[test]
    fn nothing_of_a_creation_that_failed_is_left() {
        let place = tempfile::tempdir().unwrap();
        let options = CreateOptions::new().key_file(KeyFile::random(&SystemRandom).unwrap());
        Vault::create(place.path(), options)
            .unwrap()
            .vault
            .close()
            .unwrap();
        let folder = Folder::new(place.path());
        clear(&folder, false);
        assert!(folder.has_only(|name| name == LOCK).unwrap());
    }

    /// Goal: no vault is made where something is, however many files of a kind that is ours are listed before it.
    /// Method: so many of them that the first names of a listing are theirs, whatever the order.
    /// Failed before: eight names were looked at, so a vault could be made over another one.
    #[test]
    fn many_unfinished_files_hide_nothing_from_who_makes_a_vault() {
        for (name, is_vault) in [
            (HEADER, true),
            (HEADER_SAVED, false),
            (DATABASE_FILE, false),
            (SEGMENTS, false),
            ("thesis", false),
        ] {
            let place = tempfile::tempdir().unwrap();
            let folder = Folder::new(place.path());
            std::fs::write(folder.part(name), "").unwrap();
            for number in 0..2000 {
                std::fs::write(folder.part(&format!("{NEW_PREFIX}{number}")), "").unwrap();
            }
            match claim(&folder).map(drop) {
                Err(Error::AlreadyAVault) => assert!(is_vault, "{name}"),
                Err(Error::FolderNotEmpty) => assert!(!is_vault, "{name}"),
                other => panic!("{name}: {other:?}"),
            }
            assert!(!folder.has(LOCK));
            std::fs::remove_file(folder.part(name)).unwrap();
            claim(&folder).unwrap();
        }
    }

    #[test]
    fn an_unfinished_vault_is_being_made_while_its_lock_is_held_and_interrupted_when_it_is_free() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let lock = claim(&folder).unwrap();
        begin(&folder).unwrap();
        assert!(matches!(
            Vault::check_new(place.path()),
            Err(Error::BeingCreated)
        ));
        drop(lock);
        assert!(matches!(
            Vault::check_new(place.path()),
            Err(Error::InterruptedCreate)
        ));
    }
}

//! Puts the parts of a vault together: the only place that names a concrete provider, store, clock and disk.
//!
//! Takes   a vault folder, the lock that makes this process its owner, a secret
//! Gives   a running owner
//! Never   asks a person anything, or writes if the vault is opened for reading only
//! Spec    spec/1-keys.md, section 1.9; spec/10-folder.md
//!
//! Invariants
//!  (1) The metadata records the newest header that was ever opened here. Only a header that continues it is opened.
//!  (2) The replica file is sealed under the newest epoch.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use strongroom_crypto::{Keyring, Random, SystemRandom, on_wiped_stack};
use strongroom_filesystem::{Clock, Disk, Filesystem, Options, Parts};
use strongroom_folder::is_full;
use strongroom_format::{Header, ReplicaFile, SegmentId, SuiteId};
use strongroom_metadata::Store;
use strongroom_segments::{self as segments, DirectIo, SegmentStore, StoreOptions};

use crate::away::RemoteSegments;
use crate::clock::SystemClock;
use crate::execute::session::OpenVault;
use crate::execute::verify::replay_words;
use crate::folder::owner_lock::OwnerLock;
use crate::folder::switch;
use crate::folder::{BACKUP, Folder, HEADER, REPLICA, SEGMENTS, below};
use crate::incoming;
use crate::keyring::copied::number_inodes;
use crate::keyring::held_keys::HeldKeys;
use crate::keyring::known_records;
use crate::keyring::metadata_key;
use crate::keyring::unlocked::{Unlocked, Way};
use crate::limits::PATIENCE_MS;
use crate::own_login::OwnLogin;
use crate::owner::Owner;
use crate::owner::socket::Listener;
use crate::pace::RemotePace;
use crate::provider_in_use::in_use;
use crate::records::Records;
use crate::request::{Access, Information};
use crate::seen::{Sight, Trust, Watch};
use crate::tuning::{self, Tuning};
use crate::{Error, Result};

/// How often a session is drawn until its folder can be one: with a tenth of them usable, one in 10^12 runs finds none.
const SESSION_DRAWS: usize = 256;

/// What becomes of a process that owns the vault already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfOwned {
    /// It stays the owner.
    #[default]
    Respected,
    /// It is asked to leave: if it has no file open in it and does not show it, it goes on through this process, as its client,
    /// and owns the vault again when this one leaves. If keys are rotated meanwhile, it has to open the vault again then. While it
    /// pushes, it does not leave for an opening that only reads.
    AskedToLeave,
}

/// How to open a vault.
#[derive(Clone)]
pub struct OpenOptions {
    /// What this opening may do.
    pub access: Access,
    /// How the file system runs if this process becomes the owner.
    pub engine: Options,
    /// How long `Vault::open` waits for an owner that may be just leaving.
    pub patience: Duration,
    /// Whether the first opening on a machine measures its crypto providers.
    pub tuning: Tuning,
    /// What tells the time if this process becomes the owner.
    pub clock: Arc<dyn Clock>,
    /// What becomes of a process that owns the vault already, if `Vault::open` meets one.
    pub if_owned: IfOwned,
    /// What the vault must be before anything of it is used: no older state, and no other vault.
    pub trust: Trust,
    /// How fast its remotes are used: also for content that lies only there and is read, if this process becomes the owner.
    pub pace: RemotePace,
}

impl std::fmt::Debug for OpenOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OpenOptions")
            .field("access", &self.access)
            .field("engine", &self.engine)
            .field("patience", &self.patience)
            .field("tuning", &self.tuning)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        let patience = Duration::from_millis(PATIENCE_MS);
        Self {
            access: Access::ReadWrite,
            engine: Options::default(),
            patience,
            clock: Arc::new(SystemClock),
            if_owned: IfOwned::default(),
            tuning: Tuning::default(),
            trust: Trust::default(),
            pace: RemotePace::default(),
        }
    }
}

impl OpenOptions {
    /// For reading only; the only way to open a vault on read-only media.
    #[must_use]
    pub fn read_only() -> Self {
        Self {
            access: Access::ReadOnly,
            ..Self::default()
        }
    }
}

impl Unlocked {
    /// Opens the metadata and compares the header with the one seen before, and all with what was last seen of the vault. (1)
    pub(crate) fn store(
        &mut self,
        folder: &Folder,
        access: Access,
        watch: &mut Watch,
    ) -> Result<Store> {
        let key = self.replica.metadata_key().bytes();
        let options = strongroom_metadata::Options {
            missing_tree: metadata_key::missing_tree(&self.replica),
            ..strongroom_metadata::Options::default()
        };
        let store = match access {
            Access::ReadWrite => Store::open(folder.path(), key, options),
            Access::ReadOnly => Store::open_read_only(folder.path(), key, options),
        }?;
        // What the folder itself says of the header names it more exactly.
        known_records::see(&store, &self.keyring, Access::ReadOnly)?;
        // Before the first write.
        watch.judge(folder, &self.keyring, &self.replica, &store)?;
        self.unknown = known_records::see(&store, &self.keyring, access)?;
        Ok(store)
    }
}

/// Opens the vault in `folder` and begins to serve its clients.
///
/// `lock`: `None` only for reading on media that cannot be written.
pub(crate) fn open(
    folder: &Folder,
    lock: Option<OwnerLock>,
    way: Way<'_>,
    access: Access,
    options: &OpenOptions,
) -> Result<Owner> {
    // Listening before the costly part lets others wait for the answer instead of trying again and again.
    let guard = match lock {
        Some(lock) => Some((lock, Listener::bind(folder)?)),
        None => None,
    };
    folder.check()?;
    match access {
        Access::ReadWrite => {
            folder.remove_unfinished()?;
            switch::finish(folder)?;
        }
        // A backup that was cut off in its last step; nobody opens it for writing.
        Access::ReadOnly if folder.has(BACKUP) && guard.is_some() => switch::finish(folder)?,
        Access::ReadOnly if switch::is_pending(folder)? => return Err(Error::InterruptedRecovery),
        Access::ReadOnly => {}
    }
    // Before the first key: nobody waits for a measurement later.
    tuning::settle(options.tuning);
    on_wiped_stack(|| unlock_and_start(folder, guard, way, access, options))
}

fn unlock_and_start(
    folder: &Folder,
    guard: Option<(OwnerLock, Listener)>,
    way: Way<'_>,
    access: Access,
    options: &OpenOptions,
) -> Result<Owner> {
    let mut unlocked = Unlocked::by(folder, way)?;
    let mut watch = Watch::begin(folder, &unlocked.keyring, access, &options.trust)?;
    let store = unlocked.store(folder, access, &mut watch)?;
    if access == Access::ReadWrite {
        watch.name_anew(folder, &mut unlocked, &store)?;
        unlocked.refresh_replica(folder)?;
        keep_second_copies(folder)?;
        renew_if_there_is_room(&mut unlocked, folder, &store)?;
    }
    if access == Access::ReadOnly || !watch.may_be_copy() {
        unlocked.slot = None;
    }
    unlocked.renew_login();
    let login = Arc::clone(&unlocked.login);
    let keyring = &unlocked.keyring;
    let parts = parts(folder, (keyring, login), store, access, options)?;
    let filesystem = Filesystem::open(parts)?;
    tell_replay(folder, &filesystem, access);
    if access == Access::ReadWrite {
        number_inodes(&unlocked.keyring, &filesystem)?;
        incoming::take_back(folder, &filesystem)?;
    }
    let sight = watch.sight(unlocked.replica.instance());
    let keys = HeldKeys::new(folder, unlocked)?;
    start(folder, filesystem, keys, sight, access, guard)
}

/// Gives the database a new key if it has to have one. Where there is no room for a second database the old one stays in use, until
/// the next opening: whoever makes room has to get at the files.                                              [4.13.3]
fn renew_if_there_is_room(unlocked: &mut Unlocked, folder: &Folder, store: &Store) -> Result<()> {
    match unlocked.renew_metadata_key(folder, store) {
        Err(error) if is_full(&error.io_kind().into()) => {
            log::warn!(
                "the database still has its old key, from before the last change of keys, because there is no room for a second database ({error}): \
                 free some space, then open the vault again"
            );
            Ok(())
        }
        renewed => renewed,
    }
}

/// Tells what became of the last syncs of a run that did not end well.
fn tell_replay(folder: &Folder, filesystem: &Filesystem, access: Access) {
    if access == Access::ReadOnly && folder.has(segments::INTENT_LOG) {
        log::warn!(
            "the vault was not closed: its last synced changes are in the file `{}`, and appear when the vault is opened for writing",
            segments::INTENT_LOG
        );
    }
    let replay = filesystem.replay();
    if replay.records > 0 {
        log::info!(
            "replayed {} records of the log `intents` (small `fsync`s), because the vault was not closed",
            replay.records
        );
    }
    if let Some(fault) = replay.fault {
        log::warn!("{}", replay_words(fault));
    }
    if replay.waits_for_room {
        log::warn!(
            "the log `{}` has writes for which the disk or the quota has no room yet: files already show these writes, and the log is kept \
             until there is room",
            segments::INTENT_LOG
        );
    }
}

/// Writes second copies of header and replica file that are missing or stale. One that is neither, but not the same, is
/// damaged: it stays, for a verification to name it.
fn keep_second_copies(folder: &Folder) -> Result<()> {
    let is_stale = |name: &'static str| match folder.saved(name) {
        Ok(None) => true,
        Ok(Some(saved)) if name == HEADER => Header::decode(&saved).is_ok(),
        // Whatever it is sealed under: it must not keep the device of somebody who was removed.
        Ok(Some(saved)) => ReplicaFile::decode(&saved).is_ok(),
        Err(_) => false,
    };
    if is_stale(HEADER) {
        folder.save(HEADER, &folder.header()?)?;
    }
    if is_stale(REPLICA) {
        folder.save(REPLICA, &folder.replica()?)?;
    }
    Ok(())
}

/// Everything a file system is made of. `login`: what logs in where content is away.
pub(crate) fn parts(
    folder: &Folder,
    (keyring, login): (&Keyring, Arc<OwnLogin>),
    store: Store,
    access: Access,
    options: &OpenOptions,
) -> Result<Parts> {
    let session = session(folder)?;
    let names = move || {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&session);
        SystemRandom
            .fill(&mut name[8..])
            .map_err(std::io::Error::other)?;
        Ok(SegmentId(name))
    };
    let store_options = StoreOptions {
        access: match access {
            Access::ReadWrite => segments::Access::ReadWrite,
            Access::ReadOnly => segments::Access::ReadOnly,
        },
        direct: DirectIo::Auto,
        names: Box::new(names),
        ..StoreOptions::new(keyring.suite())
    };
    let held = folder.hold().map_err(below("opening the vault folder"))?;
    let segments = SegmentStore::open_in(&held, SEGMENTS, store_options).map_err(no_segments)?;
    Ok(Parts {
        store,
        segments,
        sealer: keyring.block_sealer(),
        signer: keyring.revision_signer(),
        clock: Arc::clone(&options.clock),
        disk: Arc::new(FolderDisk {
            folder: folder.path().to_owned(),
        }),
        random: Arc::new(SystemRandom),
        session,
        intents: Some(folder.path().to_owned()),
        source: Some(Arc::new(RemoteSegments::new(
            keyring.vault_id(),
            options.pace.clone(),
            login,
        ))),
        options: Options {
            read_only: access == Access::ReadOnly,
            ..options.engine.clone()
        },
    })
}

/// What the names of segments that this run begins start with. Their first byte names a folder; one that is none takes no
/// file, and is left to a verification to name.
fn session(folder: &Folder) -> Result<[u8; 8]> {
    let mut session = [0; 8];
    let segments = folder.inside(SEGMENTS).hold();
    for _ in 0..SESSION_DRAWS {
        SystemRandom.fill(&mut session)?;
        let name = format!("{:02x}", session[0]);
        match &segments {
            Ok(segments) if segments.check_folder(&name).is_err() => {}
            _ => break,
        }
    }
    Ok(session)
}

/// Why there is no store of segments. What only reads does not make the folder.
fn no_segments(error: segments::Error) -> Error {
    match error {
        segments::Error::Io(source) if source.kind() == std::io::ErrorKind::NotFound => {
            Error::Damaged {
                what: SEGMENTS,
                why: "the folder is missing, and all content with it".to_owned(),
            }
        }
        error => storage(error),
    }
}

fn storage(error: segments::Error) -> Error {
    strongroom_filesystem::Error::from(error).into()
}

/// Begins to serve an open file system.
pub(crate) fn start(
    folder: &Folder,
    filesystem: Filesystem,
    keys: HeldKeys,
    sight: Sight,
    access: Access,
    guard: Option<(OwnerLock, Listener)>,
) -> Result<Owner> {
    let keyring = keys.keyring();
    let information = Information {
        fingerprint: keyring.fingerprint().to_string(),
        suite: suite_name(keyring.suite()).to_owned(),
        generation: keyring.generation(),
        epoch: keyring.epoch().0,
        owner_pid: std::process::id(),
        read_only: access == Access::ReadOnly,
        compare_fingerprint: keyring.needs_fingerprint_check(),
        attachments: Vec::new(),
        held_open: None,
        providers: in_use(keyring.suite())?,
        compression: String::new(),
        away_bytes: 0,
        here_bytes: 0,
        keep_at_most: None,
        guessable: keys.keyring().is_guessable(),
        members: keys.members(),
        unknown_records: keys.unknown_records(),
    };
    let records = Records::new(folder.path());
    if access == Access::ReadWrite {
        records.mend(&filesystem)?;
        // A history that cannot be read must not keep anybody from his files.
        if let Err(error) = filesystem.resume_erasing() {
            log::error!("an interrupted `erase` is not finished yet: {error}");
        }
    }
    let (lock, listener) = guard.unzip();
    let vault = OpenVault::new(filesystem, information, keys, sight, records, lock);
    Owner::start(vault, access, listener)
}

pub(crate) fn suite_name(suite: SuiteId) -> &'static str {
    match suite {
        SuiteId::Aes256GcmBlake3 => "AES-256-GCM and BLAKE3",
        SuiteId::ChaCha20Poly1305Blake3 => "ChaCha20-Poly1305 and BLAKE3",
        SuiteId::Aegis256Blake3 => "AEGIS-256 and BLAKE3",
    }
}

/// The disk that holds the vault folder.
struct FolderDisk {
    folder: PathBuf,
}

impl Disk for FolderDisk {
    fn space(&self) -> Option<(u64, u64)> {
        let space = rustix::fs::statvfs(&self.folder).ok()?;
        Some((
            space.f_blocks.saturating_mul(space.f_frsize),
            space.f_bavail.saturating_mul(space.f_frsize),
        ))
    }
}

#[cfg(test)]
mod tests {
    use strongroom_crypto::{KeyFile, Secret};

    use super::*;
    use crate::folder::refusal;
    use crate::{CreateOptions, Keys, Vault};

    /// Failed before: every opening for writing ended with that error, also one for `ls`, so that nobody could make room.
    #[test]
    fn a_vault_without_room_for_a_second_database_opens_with_the_key_that_it_has() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("vault");
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let options = CreateOptions::new().key_file(key_file.clone());
        let vault = Vault::create(&path, options).unwrap().vault;
        vault.write("/a", "text").unwrap();
        vault.close().unwrap();
        let secret = Secret::KeyFile(key_file);
        let folder = Folder::new(&path);
        let open = || {
            let mut unlocked = Unlocked::new(&folder, &secret)?;
            let trust = Trust::default();
            let mut watch = Watch::begin(&folder, &unlocked.keyring, Access::ReadWrite, &trust)?;
            let store = unlocked.store(&folder, Access::ReadWrite, &mut watch)?;
            renew_if_there_is_room(&mut unlocked, &folder, &store)?;
            let drawn = unlocked.replica.metadata_key_epoch();
            Ok::<_, Error>(drawn == Some(unlocked.keyring.epoch()))
        };
        assert!(open().unwrap());
        // The replica file that goes with the new database.
        refusal::set(Some(REPLICA));
        let changed = Keys::open(&path, &secret).unwrap().renew_device();
        assert!(changed.is_err(), "there was room");
        assert!(!open().unwrap());
        refusal::set(None);
        let vault = Vault::open(&path, secret.clone(), OpenOptions::default()).unwrap();
        assert_eq!(vault.read("/a").unwrap(), b"text");
        vault.close().unwrap();
        assert!(open().unwrap());
    }
}

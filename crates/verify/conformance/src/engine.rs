//! Opens the real file system in a folder, without passphrases, slots or owner processes.
//!
//! Takes   a folder and options
//! Gives   the `Filesystem`, made of the same parts as in a vault, with fixed test keys
//! Never   protects anything: the keys are public
//! Spec    none: test only

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use strongroom_crypto::{BlockSealer, EpochKey, IdKey, Random, RevisionSigner, SystemRandom};
use strongroom_filesystem::limits::Thresholds;
use strongroom_filesystem::{
    Background, Clock, Disk, Filesystem, Options, Parts, Result, Timestamp,
};
use strongroom_format::limits::SEGMENT_BYTES_MAX;
use strongroom_format::{Epoch, SegmentId, SuiteId, VaultId};
use strongroom_metadata::Store;
use strongroom_segments::{SegmentStore, StoreOptions};

/// SQLCipher's raw key, test only.
const METADATA_KEY: [u8; 80] = [7; 80];

/// Shows every time once.
#[derive(Default)]
struct Ticks(AtomicI64);

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1_000, Ordering::Relaxed) + 1_000)
    }
}

/// The disk below, as `statvfs` tells it.
struct Below(std::path::PathBuf);

impl Disk for Below {
    fn space(&self) -> Option<(u64, u64)> {
        let found = rustix::fs::statvfs(&self.0).ok()?;
        Some((
            found.f_blocks * found.f_frsize,
            found.f_bavail * found.f_frsize,
        ))
    }
}

/// Options under which nothing happens unless the caller asks: no background thread, two workers.
#[must_use]
pub fn quiet() -> Options {
    Options {
        background: Background::Manual,
        threads: Some(2),
        ..Options::default()
    }
}

/// Everything that can be chosen about the file system under test.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How it runs.
    pub options: Options,
    /// How its database runs, and who watches that.
    pub metadata: strongroom_metadata::Options,
    /// See `StoreOptions`.
    pub segment_bytes_max: u64,
}

impl From<Options> for Setup {
    fn from(options: Options) -> Self {
        Self {
            options,
            metadata: strongroom_metadata::Options::default(),
            segment_bytes_max: SEGMENT_BYTES_MAX,
        }
    }
}

/// As `quiet`, with every bound so small that a hundred operations fill many segments, and what usually takes gigabytes
/// (new segments, compaction, purges in steps, checkpoints, rewritten cells) happens all the time.
#[must_use]
pub fn small() -> Setup {
    Setup {
        options: Options {
            thresholds: Thresholds {
                drain_bytes: 64 * 1024,
                batch_bytes: 64 * 1024,
                carried_bytes_max: 16 * 1024,
                waiting_bytes_max: 32 * 1024,
                cell_fragments_max: 3,
                purge_regions_per_step: 1,
                purge_extents_per_step: 2,
                dirty_pages_max: 2,
                move_blocks: 2,
                small_segment_bytes: 24 * 1024,
                small_segments_max: 2,
                waste_bytes_max: 512 * 1024,
                intent_log_bytes: 96 * 1024,
            },
            ..quiet()
        },
        metadata: strongroom_metadata::Options {
            log_bytes: 64 * 1024,
            reserve_bytes: 1024 * 1024,
            ..strongroom_metadata::Options::default()
        },
        segment_bytes_max: 160 * 1024,
    }
}

/// Keeps the nonce ledger of this process in the file `path`, shared with all others that do.
///
/// # Errors
/// Of the disk; or if this build has no ledger.
pub fn keep_nonce_ledger(path: &Path) -> std::io::Result<()> {
    #[cfg(feature = "nonce-ledger")]
    return strongroom_crypto::ledger::keep_in(path);
    #[cfg(not(feature = "nonce-ledger"))]
    return Err(std::io::Error::other(format!(
        "built without the feature nonce-ledger, so nothing is kept in {}",
        path.display()
    )));
}

/// How many keys and nonces the nonce ledger knows of; `None` if this build has none.
#[must_use]
pub fn nonce_ledger_len() -> Option<usize> {
    #[cfg(feature = "nonce-ledger")]
    return Some(strongroom_crypto::ledger::len());
    #[cfg(not(feature = "nonce-ledger"))]
    return None;
}

/// The newest epoch that there are keys for.
pub const EPOCH_MAX: u32 = 7;

/// The keys of every epoch from 0 to `newest`, which seals.
#[must_use]
pub fn sealer(newest: u32) -> BlockSealer {
    sealer_from(0, newest)
}

/// The keys of every epoch from `oldest` to `newest`, which seals.
#[must_use]
pub fn sealer_from(oldest: u32, newest: u32) -> BlockSealer {
    let key = |epoch: u32| EpochKey::from_bytes([3 + epoch.to_le_bytes()[0]; 32]);
    let keys = (oldest..=newest).map(|epoch| (Epoch(epoch), key(epoch)));
    BlockSealer::new(
        SuiteId::Aes256GcmBlake3,
        [0; 16],
        IdKey::from_bytes([4; 32]),
        keys.collect(),
    )
}

fn parts(folder: &Path, store: Store, setup: Setup, sealer: BlockSealer) -> Result<Parts> {
    let mut session = [0; 8];
    SystemRandom.fill(&mut session)?;
    let mut segment_options = StoreOptions::new(SuiteId::Aes256GcmBlake3);
    segment_options.segment_bytes_max = setup.segment_bytes_max;
    segment_options.names = Box::new(move || {
        let mut name = strongroom_segments::random_name()?.0;
        name[..8].copy_from_slice(&session);
        Ok(SegmentId(name))
    });
    Ok(Parts {
        store,
        segments: SegmentStore::open(&folder.join("segments"), segment_options)?,
        sealer,
        signer: RevisionSigner::from_seed([5; 32], VaultId([6; 32])),
        clock: Arc::new(Ticks::default()),
        disk: Arc::new(Below(folder.to_path_buf())),
        random: Arc::new(SystemRandom),
        session,
        intents: Some(folder.to_path_buf()),
        source: None,
        options: setup.options,
    })
}

/// Makes a file system in the empty folder `folder`.
///
/// # Errors
/// Of the disk.
pub fn create(folder: &Path, setup: impl Into<Setup>) -> Result<Filesystem> {
    let setup = setup.into();
    let store = Store::create(folder, &METADATA_KEY, setup.metadata.clone())?;
    let parts = parts(folder, store, setup, sealer(0))?;
    Filesystem::format(&parts, 0, 0)?;
    Filesystem::open(parts)
}

/// Opens the file system that `create` made; every epoch that may have begun there is known.
///
/// # Errors
/// Of the disk, or if something is damaged.
pub fn open(folder: &Path, setup: impl Into<Setup>) -> Result<Filesystem> {
    open_from(folder, setup, 0)
}

/// The same without the keys of the epochs before `oldest`.
///
/// # Errors
/// As `open`.
pub fn open_from(folder: &Path, setup: impl Into<Setup>, oldest: u32) -> Result<Filesystem> {
    let setup = setup.into();
    let store = Store::open(folder, &METADATA_KEY, setup.metadata.clone())?;
    Filesystem::open(parts(folder, store, setup, sealer_from(oldest, EPOCH_MAX))?)
}

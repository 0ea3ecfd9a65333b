//! Opens the real file system in a folder, without passphrases, slots and owners.
//!
//! Takes   a folder and options
//! Gives   the `Filesystem`, made of the same parts as in a vault, under fixed test keys
//! Never   guards anything: the keys are public
//! Spec    none: test only

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use strongroom_crypto::{BlockSealer, EpochKey, IdKey, Random, SystemRandom};
use strongroom_filesystem::{
    Background, Clock, Disk, Filesystem, Options, Parts, Result, Timestamp,
};
use strongroom_format::{Epoch, SegmentId, SuiteId};
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
        threads: 2,
        ..Options::default()
    }
}

/// The newest epoch that there are keys for.
pub const EPOCH_MAX: u32 = 7;

/// The keys of every epoch from 0 to `newest`, which seals.
#[must_use]
pub fn sealer(newest: u32) -> BlockSealer {
    let key = |epoch: u32| EpochKey::from_bytes([3 + epoch.to_le_bytes()[0]; 32]);
    let keys = (0..=newest).map(|epoch| (Epoch(epoch), key(epoch)));
    BlockSealer::new(
        SuiteId::Aes256GcmBlake3,
        [0; 16],
        IdKey::from_bytes([4; 32]),
        keys.collect(),
    )
}

fn parts(folder: &Path, store: Store, options: Options, epoch: u32) -> Result<Parts> {
    let mut session = [0; 8];
    SystemRandom.fill(&mut session)?;
    let mut segment_options = StoreOptions::new(SuiteId::Aes256GcmBlake3);
    segment_options.names = Box::new(move || {
        let mut name = strongroom_segments::random_name()?.0;
        name[..8].copy_from_slice(&session);
        Ok(SegmentId(name))
    });
    Ok(Parts {
        store,
        segments: SegmentStore::open(&folder.join("segments"), segment_options)?,
        sealer: sealer(epoch),
        clock: Arc::new(Ticks::default()),
        disk: Arc::new(Below(folder.to_path_buf())),
        random: Arc::new(SystemRandom),
        session,
        options,
    })
}

/// Makes a file system in the empty folder `folder`.
///
/// # Errors
/// Of the disk.
pub fn create(folder: &Path, options: Options) -> Result<Filesystem> {
    let store = Store::create(
        folder,
        &METADATA_KEY,
        strongroom_metadata::Options::default(),
    )?;
    let parts = parts(folder, store, options, 0)?;
    Filesystem::format(&parts, 0, 0)?;
    Filesystem::open(parts)
}

/// Opens the file system that `create` made; every epoch that may have begun there is known.
///
/// # Errors
/// Of the disk, or if something is damaged.
pub fn open(folder: &Path, options: Options) -> Result<Filesystem> {
    let store = Store::open(
        folder,
        &METADATA_KEY,
        strongroom_metadata::Options::default(),
    )?;
    Filesystem::open(parts(folder, store, options, EPOCH_MAX)?)
}

//! Reads and writes the records of vaults: the record of one vault, and which vaults were seen at a path.
//!
//! Takes   a folder of records, a vault
//! Gives   the places where a vault was seen; what is wrong with a path; a record that continues the existing one
//! Never   lets an opening fail because nothing can be recorded
//! Spec    spec/9-seen.md, sections 9.2 and 9.5

use std::io;
use std::path::{Path, PathBuf};

use strongroom_crypto::Fingerprint;
use strongroom_format::{Header, InstanceId, VaultId};

use super::place::{Identity, Place};
use super::record::{PLACES_MAX, Record, is_rememberable};
use super::shelf::{IfMissing, Shelf};
use super::{SeenRecords, Trust, words};
use crate::folder::Folder;
use crate::older_folder::show;
use crate::{Error, Result};

/// How a place is put into a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// Its state counts if it is not behind the recorded one.
    Newer,
    /// Its state counts, by order of the user.
    Replace,
}

/// What is recorded of one vault, and where.
pub(super) struct Records {
    folder: Option<PathBuf>,
    record: Record,
}

impl Records {
    /// What is recorded of `vault`; nothing if it cannot be read, and then with a warning.
    pub(super) fn load(seen: &SeenRecords, vault: VaultId) -> Self {
        let folder = seen.folder();
        let record = match folder.as_deref().map(|folder| read(folder, vault)) {
            Some(Ok(Some(record))) => record,
            Some(Err(why)) => {
                log::warn!(
                    "the record of the last seen state of this vault cannot be read ({why}): an older state would not be noticed this time"
                );
                Record::new(vault)
            }
            _ => Record::new(vault),
        };
        Self { folder, record }
    }

    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    pub(super) fn places(&self) -> &[Place] {
        &self.record.places
    }

    /// The place of that folder; if there is none, the one of that path.
    pub(super) fn at(
        &self,
        path: &Path,
        identity: Identity,
        instance: InstanceId,
    ) -> Option<&Place> {
        let places = &self.record.places;
        let is_it =
            |place: &&Place| place.identity == identity && place.is_of(path, identity, instance);
        let found = places.iter().find(is_it);
        found.or_else(|| places.iter().find(|place| place.path == path))
    }

    /// Whether the vault of `fingerprint` may be the one at `path`.                              [9.5.1] [9.5.4]
    pub(super) fn check_path(
        &self,
        path: &Path,
        fingerprint: Fingerprint,
        trust: &Trust,
    ) -> Result<()> {
        if let Some(expected) = trust.expected_fingerprint {
            return match expected == fingerprint {
                true => Ok(()),
                false => Err(Error::OtherVault {
                    expected,
                    found: fingerprint,
                }),
            };
        }
        if self.record.places.iter().any(|place| place.path == path) {
            return Ok(());
        }
        match pinned(self.folder(), path, fingerprint).first() {
            None => Ok(()),
            Some(expected) => Err(Error::PathOfAnother {
                path: path.to_owned(),
                expected: *expected,
                found: fingerprint,
            }),
        }
    }

    /// Puts `place` into the record.
    pub(super) fn note(&self, place: Place, note: Note) -> io::Result<()> {
        if !is_rememberable(&place.path) {
            return Ok(());
        }
        self.change(IfMissing::Make, |record| {
            let mut place = place;
            let is_same = |old: &Place| old.identity == place.identity || old.path == place.path;
            let old: Vec<Place> = record.places.extract_if(.., |old| is_same(old)).collect();
            for old in old {
                if old.is_of(&place.path, place.identity, place.instance) {
                    place.take_over(&old, note);
                }
            }
            record.places.push(place);
            let surplus = record.places.len().saturating_sub(PLACES_MAX);
            record.places.drain(..surplus);
        })
    }

    /// Forgets how far the place was, if it is known.
    pub(super) fn forget_state(&self, path: &Path, identity: Identity) -> io::Result<()> {
        let is_same = |place: &Place| place.path == path || place.identity == identity;
        if !self.record.places.iter().any(is_same) {
            return Ok(());
        }
        self.change(IfMissing::Fail, |record| {
            for place in record.places.iter_mut().filter(|place| is_same(place)) {
                place.state = None;
            }
        })
    }

    /// Changes the record as it is now, under the lock: others may have written since it was loaded.
    fn change(&self, if_missing: IfMissing, change: impl FnOnce(&mut Record)) -> io::Result<()> {
        let Some(folder) = self.folder() else {
            return Ok(());
        };
        let shelf = Shelf::open(folder, if_missing)?;
        let turn = shelf.turn()?;
        let vault = self.record.vault;
        let mut record = match shelf.read(vault) {
            Ok(Some(bytes)) => Record::decode(vault, &bytes).unwrap_or_else(|_| Record::new(vault)),
            _ => Record::new(vault),
        };
        let before = record.clone();
        change(&mut record);
        match record == before {
            true => Ok(()),
            false => turn.replace(vault, &record.encode()),
        }
    }
}

impl Place {
    /// Keeps of `old`, which this one replaces, what must not go back.
    fn take_over(&mut self, old: &Self, note: Note) {
        if self.copy_of.is_none() && old.identity == self.identity {
            self.copy_of.clone_from(&old.copy_of);
        }
        let stays = match (&old.state, &self.state) {
            (Some(_), None) => true,
            (Some(old), Some(new)) => !new.is_not_behind(old),
            (None, _) => false,
        };
        if stays && note == Note::Newer {
            self.state = old.state;
        }
    }
}

/// The record of `vault`; why there is one that says nothing.
fn read(folder: &Path, vault: VaultId) -> std::result::Result<Option<Record>, String> {
    let shelf = match Shelf::open(folder, IfMissing::Fail) {
        Ok(shelf) => shelf,
        // Nothing is kept here: `last_seen` tells who asks.
        Err(_) => return Ok(None),
    };
    match shelf.read(vault) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => Ok(Some(Record::decode(vault, &bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err("it is not a file, or it is too long".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The other vaults that were seen at `path`; none if that of `fingerprint` was, too.
fn pinned(folder: Option<&Path>, path: &Path, fingerprint: Fingerprint) -> Vec<Fingerprint> {
    let shelf = folder.map(|folder| Shelf::open(folder, IfMissing::Fail));
    let Some(Ok(shelf)) = shelf else {
        return Vec::new();
    };
    let mut pinned = Vec::new();
    for vault in shelf.vaults().unwrap_or_default() {
        let Ok(Some(bytes)) = shelf.read(vault) else {
            continue;
        };
        // One that cannot be read pins nothing.
        let record = Record::decode(vault, &bytes);
        if record.is_ok_and(|record| record.places.iter().any(|place| place.path == path)) {
            match Fingerprint::of(vault) {
                this if this == fingerprint => return Vec::new(),
                other => pinned.push(other),
            }
        }
    }
    pinned
}

/// As `Records::check_path`, of a vault of which only the fingerprint is known.
pub(super) fn check_path_of(
    folder: &Folder,
    fingerprint: Fingerprint,
    trust: &Trust,
) -> Result<()> {
    let none = Records {
        folder: trust.seen.folder(),
        record: Record::new(VaultId([0; 32])),
    };
    if none.folder.is_none() && trust.expected_fingerprint.is_none() {
        return Ok(());
    }
    none.check_path(&folder.canonical()?, fingerprint, trust)
}

/// Takes `path` out of all records; gives whether it was in one.
pub(super) fn forget_path(folder: &Path, path: &Path) -> io::Result<bool> {
    let shelf = match Shelf::open(folder, IfMissing::Fail) {
        Ok(shelf) => shelf,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let turn = shelf.turn()?;
    let mut was_there = false;
    for vault in shelf.vaults()? {
        let bytes = shelf.read(vault).ok().flatten();
        let record = bytes.and_then(|bytes| Record::decode(vault, &bytes).ok());
        let Some(mut record) = record else {
            continue;
        };
        let before = record.places.len();
        record.places.retain(|place| place.path != path);
        if record.places.len() == before {
            continue;
        }
        was_there = true;
        match record.places.is_empty() {
            true => turn.remove(vault)?,
            false => turn.replace(vault, &record.encode())?,
        }
    }
    Ok(was_there)
}

/// Where a vault was seen, and what it was then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPlace {
    /// The vault folder.
    pub path: PathBuf,
    /// When, in seconds since 1970.
    pub seen_s: u64,
    /// The newest commit that was seen there; `None` if it was only read.
    pub commits: Option<u64>,
    /// How often the header had changed.
    pub generation: Option<u64>,
    /// The folder that it was found to be a copy of.
    pub copy_of: Option<PathBuf>,
}

/// What this user has seen of a vault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastSeen {
    /// The folder of the records; `None` if nothing is kept here, and then an older vault is not noticed.
    pub kept_in: Option<PathBuf>,
    /// Why nothing is kept, or the record of this vault says nothing.
    pub trouble: Option<String>,
    /// This folder.
    pub here: Option<SeenPlace>,
    /// All folders, the one seen last at the end.
    pub places: Vec<SeenPlace>,
    /// Fingerprints of the vaults that were seen at this path, where this one was not.
    pub path_of_others: Vec<String>,
}

/// What was last seen of the vault in `folder`, whose header nothing proves.
///
/// # Errors
/// `NotAVault`, `Damaged`, `UnknownFormat`.
pub fn last_seen(folder: impl AsRef<Path>, seen: &SeenRecords) -> Result<LastSeen> {
    let folder = Folder::new(folder.as_ref());
    let bytes = folder.header()?;
    let header = Header::decode(&bytes).map_err(strongroom_crypto::UnlockError::from)?;
    let vault = header.header.vault;
    let mut found = LastSeen::default();
    let Some(kept_in) = seen.folder() else {
        found.trouble = Some(words::no_folder(seen));
        return Ok(found);
    };
    match Shelf::open(&kept_in, IfMissing::Make).and_then(|shelf| shelf.turn().map(drop)) {
        Ok(()) => found.kept_in = Some(kept_in.clone()),
        Err(error) => found.trouble = Some(format!("{}: {error}", show(&kept_in))),
    }
    let record = match read(&kept_in, vault) {
        Ok(record) => record,
        Err(why) => {
            found.trouble.get_or_insert(why);
            None
        }
    };
    let records = Records {
        folder: Some(kept_in),
        record: record.unwrap_or_else(|| Record::new(vault)),
    };
    let path = folder.canonical()?;
    let identity = folder.identity()?;
    let is_here = |place: &&Place| place.path == path || place.identity == identity;
    found.here = records.places().iter().find(is_here).map(SeenPlace::from);
    found.places = records.places().iter().map(SeenPlace::from).collect();
    let others = pinned(records.folder(), &path, Fingerprint::of(vault));
    found.path_of_others = others.iter().map(ToString::to_string).collect();
    Ok(found)
}

impl From<&Place> for SeenPlace {
    fn from(place: &Place) -> Self {
        Self {
            path: place.path.clone(),
            seen_s: place.seen_s,
            commits: place.state.map(|state| state.commits),
            generation: place.state.map(|state| state.generation),
            copy_of: place.copy_of.clone(),
        }
    }
}

/// Forgets which vaults were seen at the path of `folder`, and how far they were; gives whether there was something.
///
/// # Errors
/// `Io`.
pub fn forget(folder: impl AsRef<Path>, seen: &SeenRecords) -> Result<bool> {
    let folder = Folder::new(folder.as_ref());
    // One that is gone can be forgotten, too.
    let path = match folder.canonical() {
        Ok(path) => path,
        Err(_) => folder.absolute()?.path().to_owned(),
    };
    match seen.folder() {
        None => Ok(false),
        Some(kept_in) => {
            forget_path(&kept_in, &path).map_err(Error::io("deleting the record of the vault"))
        }
    }
}

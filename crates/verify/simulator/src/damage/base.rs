//! The vault to damage: it has several segments, three snapshots and a current state. Copies of its earlier state are beside it.
//!
//! Takes   nothing
//! Gives   a closed vault folder, compressed in part; an older copy of it; another vault; and the content of every state
//! Never   has two files of equal content, so that a block belongs to one file

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use strongroom::{
    AddKey, Compression, CreateOptions, KeyFile, Keys, NewKey, NewRevision, OpenOptions,
    RecoveryCode, RevisionInfo, Secret, SystemRandom, Vault,
};

use super::inflict::Fault;
use super::look::State;
use crate::random::Choices;
use crate::unseen;

/// Files of each group; each group goes to a segment of its own.
const GROUPS: usize = 4;
const FILES: usize = 5;

/// A vault and all that is known of it.
#[derive(Debug)]
pub struct Base {
    _place: tempfile::TempDir,
    /// The vault as it is to be damaged; closed.
    pub now: PathBuf,
    /// An earlier copy of it.
    pub older: PathBuf,
    /// A segment of another vault.
    pub foreign: PathBuf,
    /// What opens it.
    pub key: KeyFile,
    /// The file of that key.
    pub key_path: PathBuf,
    /// The segments, in the order in which they were begun, relative to the folder.
    pub segments: Vec<String>,
    /// What the snapshots hold, oldest first.
    pub states: Vec<State>,
    /// Their revisions.
    pub revisions: Vec<RevisionInfo>,
    /// What the vault holds now.
    pub last: State,
    /// What the older copy holds.
    pub first: State,
}

impl Base {
    /// What a state holds that a reader sees, after `fault`: of an older database, what that knew.
    #[must_use]
    pub fn state(&self, state: Option<usize>, fault: Fault) -> &State {
        match (state, fault) {
            (Some(index), _) => &self.states[index],
            (None, Fault::OlderDatabase) => &self.first,
            (None, _) => &self.last,
        }
    }

    /// Makes one.
    ///
    /// # Errors
    /// Of the disk.
    pub fn new() -> Result<Self, String> {
        let place = tempfile::tempdir().map_err(text)?;
        let folder = place.path().join("now");
        let key = KeyFile::random(&SystemRandom).map_err(text)?;
        let key_path = place.path().join("key");
        fs::write(&key_path, key.text().as_bytes()).map_err(text)?;
        let made = Vault::create(
            &folder,
            CreateOptions::new()
                .seen(unseen().seen)
                .key_file(key.clone()),
        )
        .map_err(text)?;
        let mut building = Building {
            vault: made.vault,
            folder: folder.clone(),
            choices: Choices::new(41),
            state: BTreeMap::new(),
            segments: Vec::new(),
            states: Vec::new(),
            revisions: Vec::new(),
        };
        building.groups(0..2)?;
        building.keep("one")?;
        let first = building.state.clone();
        building.vault.close().map_err(text)?;
        let older = place.path().join("older");
        copy(&folder, &older).map_err(text)?;
        building.vault = Vault::open(
            &folder,
            Secret::KeyFile(key.clone()),
            OpenOptions {
                trust: unseen(),
                ..OpenOptions::default()
            },
        )
        .map_err(text)?;
        // A header of another generation, with the same keys.
        building.another_code(&key)?;
        // From here on some content and all nodes are compressed.
        building
            .vault
            .set_compression(Compression::Zstd)
            .map_err(text)?;
        building.groups(2..GROUPS)?;
        building.keep("two")?;
        building.changes()?;
        building.keep("three")?;
        building.note_segments();
        building.vault.close().map_err(text)?;
        let foreign = foreign(place.path())?;
        Ok(Self {
            now: folder,
            older,
            foreign,
            key,
            key_path,
            segments: building.segments,
            states: building.states,
            revisions: building.revisions,
            last: building.state,
            first,
            _place: place,
        })
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A base under way.
struct Building {
    vault: Vault,
    folder: PathBuf,
    choices: Choices,
    state: State,
    segments: Vec<String>,
    states: Vec<State>,
    revisions: Vec<RevisionInfo>,
}

impl Building {
    /// Writes what cannot be compressed, or by every other call what can.
    fn write(&mut self, path: &str, len: usize) -> Result<(), String> {
        let is_text = self.state.len() % 2 == 1;
        let mut bytes = Vec::with_capacity(len + 16);
        while bytes.len() < len {
            let number = self.choices.number();
            match is_text {
                true => bytes.extend_from_slice(format!("{number:016x}").as_bytes()),
                false => bytes.extend_from_slice(&number.to_le_bytes()),
            }
        }
        bytes.truncate(len);
        self.vault.write(path, &bytes).map_err(text)?;
        self.state.insert(path.as_bytes().to_vec(), bytes);
        Ok(())
    }

    fn groups(&mut self, groups: std::ops::Range<usize>) -> Result<(), String> {
        for group in groups {
            let directory = format!("/group {group}");
            self.vault.make_directory(&directory, 0o755).map_err(text)?;
            for file in 0..FILES {
                let len = [300, 5_000, 70_000, 140_000, 33_000][file % 5] + group * 17;
                self.write(&format!("{directory}/file {file}"), len)?;
            }
            // Ends the open segment, so that the next group begins another.
            self.vault.compact().map_err(text)?;
            self.note_segments();
        }
        Ok(())
    }

    fn changes(&mut self) -> Result<(), String> {
        self.write("/group 0/file 2", 71_000)?;
        self.write("/a new file", 90_000)?;
        self.vault.remove_file("/group 1/file 1").map_err(text)?;
        self.state.remove(&b"/group 1/file 1"[..]);
        for number in 0..130 {
            self.write(&format!("/group 3/small {number}"), 40 + number)?;
        }
        Ok(())
    }

    fn keep(&mut self, tag: &str) -> Result<(), String> {
        let new = NewRevision {
            tags: vec![tag.to_owned()],
            ..NewRevision::default()
        };
        let taken = self.vault.take_revision(&new).map_err(text)?;
        self.revisions.extend(taken);
        self.states.push(self.state.clone());
        Ok(())
    }

    fn another_code(&self, key: &KeyFile) -> Result<(), String> {
        let secret = Secret::KeyFile(key.clone());
        let mut keys = Keys::open_with(&self.folder, &secret, unseen()).map_err(text)?;
        let code = RecoveryCode::random(&SystemRandom).map_err(text)?;
        keys.add("another", AddKey::Other(NewKey::RecoveryCode(code)))
            .map_err(text)
    }

    fn note_segments(&mut self) {
        let mut found = segments(&self.folder);
        self.segments.retain(|known| found.contains(known));
        found.retain(|one| !self.segments.contains(one));
        self.segments.extend(found);
    }
}

/// The segments of a vault folder, relative to it.
fn segments(folder: &Path) -> Vec<String> {
    let all = files(folder);
    all.into_iter()
        .filter(|file| file.starts_with("segments/"))
        .collect()
}

/// A segment of another vault.
fn foreign(place: &Path) -> Result<PathBuf, String> {
    let folder = place.join("foreign");
    let made = Vault::create(&folder, CreateOptions::new().seen(unseen().seen)).map_err(text)?;
    made.vault.write("/x", vec![7; 90_000]).map_err(text)?;
    made.vault.close().map_err(text)?;
    let file = segments(&folder).pop().unwrap_or_default();
    Ok(folder.join(file))
}

/// Every file below `folder`, relative to it, in order.
#[must_use]
pub fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(relative) = path.strip_prefix(folder) {
                found.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

/// The bytes of every file that says something, to see whether any changed.
#[must_use]
pub fn digest(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = files(folder).into_iter();
    all.filter(|file| {
        !matches!(&file[..], "lock" | "reserve")
            && !file.ends_with("-shm")
            && !file.ends_with("-wal")
    })
    .map(|file| {
        let bytes = fs::read(folder.join(&file)).unwrap_or_default();
        (file, bytes)
    })
    .collect()
}

/// Copies a folder and what is in it.
///
/// # Errors
/// Of the disk.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for file in files(from) {
        let target = to.join(&file);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(from.join(&file), target)?;
    }
    Ok(())
}

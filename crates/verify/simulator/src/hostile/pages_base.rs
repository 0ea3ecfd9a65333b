//! The states of a vault whose pages are mixed: one older state, closed; and of each of two branches one closed state and several
//! states with a log.
//!
//! Takes   a folder to make them in
//! Gives   images of vault folders, each with a list of its content; every image has the segments of all images
//! Never   relies on the tested code alone: content is compared with what was written

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use strongroom::filesystem::XattrMode;
use strongroom::{
    AddKey, CreateOptions, FileOptions, KeyFile, Keys, Links, NewKey, NewRevision, OpenOptions,
    RecoveryCode, Secret, SystemRandom, Vault,
};

use super::reading::Reading;
use crate::damage::base::{copy, files};
use crate::random::Choices;
use crate::unseen;

/// Commits of each branch that are left in its log.
const COMMITS: usize = 4;

/// The two branches.
pub const BRANCHES: [&str; 2] = ["A", "B"];

/// Small syncs behind the last commit of the first branch. The first of all may take a commit.
pub const INTENT_ROUNDS: usize = 4;

/// What every file of a state holds, by path.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The images of one vault.
#[derive(Debug)]
pub struct Images {
    /// Where they lie, each in a folder of its name.
    pub place: PathBuf,
    /// What opens them.
    pub key: KeyFile,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The name of the image of `branch` after so many commits, killed.
#[must_use]
pub fn killed(branch: &str, commits: usize) -> String {
    format!("{branch} killed {commits}")
}

/// The name of the image of the first branch, killed after so many small syncs, which are in the intent log only.
#[must_use]
pub fn with_intents(count: usize) -> String {
    format!("A with {count} intents")
}

/// The name of the image of `branch` with its whole log.
#[must_use]
pub fn last_killed(branch: &str) -> String {
    killed(branch, COMMITS)
}

impl Images {
    /// Those that were made at `place`.
    ///
    /// # Errors
    /// There are none.
    pub fn at(place: &Path) -> Result<Self, String> {
        let key = fs::read(place.join("key")).map_err(text)?;
        Ok(Self {
            place: place.to_path_buf(),
            key: KeyFile::parse(&key).map_err(text)?,
        })
    }

    /// Makes them at `place`.
    ///
    /// # Errors
    /// Of the disk; or something that was written is not what is read.
    pub fn new(place: &Path, seed: u64) -> Result<Self, String> {
        let key = KeyFile::random(&SystemRandom).map_err(text)?;
        fs::write(place.join("key"), key.text().as_bytes()).map_err(text)?;
        let images = Self {
            place: place.to_path_buf(),
            key,
        };
        let work = place.join("work");
        let options = CreateOptions::new().key_file(images.key.clone());
        let made = Vault::create(&work, options).map_err(text)?;
        let mut making = Making {
            images: &images,
            vault: made.vault,
            choices: Choices::named(seed, &[11]),
            model: Model::new(),
        };
        making.trunk()?;
        making.vault.close().map_err(text)?;
        images.keep(&work, "older", &making.model)?;
        let trunk = making.model.clone();
        for (index, branch) in BRANCHES.iter().enumerate() {
            let folder = place.join("work").with_extension(branch);
            copy(&place.join("older"), &folder).map_err(text)?;
            making.vault = images.open(&folder, OpenOptions::default())?;
            making.model.clone_from(&trunk);
            making.choices = Choices::named(seed, &[12, index as u64]);
            making.branch(branch)?;
            making.vault.close().map_err(text)?;
            images.keep(&folder, branch, &making.model)?;
            making.vault = images.open(&folder, OpenOptions::default())?;
            for commit in 1..=COMMITS {
                making.commit(branch, commit)?;
                images.keep(&folder, &killed(branch, commit), &making.model)?;
            }
            if index == 0 {
                for round in 0..=INTENT_ROUNDS {
                    making.intent(round)?;
                    images.keep(&folder, &with_intents(round), &making.model)?;
                }
            }
            making.vault.close().map_err(text)?;
        }
        images.join_segments()?;
        Ok(images)
    }

    /// Opens the vault at `folder`.
    ///
    /// # Errors
    /// Of the vault.
    pub fn open(&self, folder: &Path, options: OpenOptions) -> Result<Vault, String> {
        // One path shows one state after another here, older ones too.
        let options = OpenOptions {
            trust: unseen(),
            ..options
        };
        Vault::open(folder, Secret::KeyFile(self.key.clone()), options).map_err(text)
    }

    /// The folder of an image.
    #[must_use]
    pub fn folder(&self, image: &str) -> PathBuf {
        self.place.join(image)
    }

    /// What an image holds, by reading it untouched.
    ///
    /// # Errors
    /// It cannot be read whole.
    pub fn state(&self, image: &str, scratch: &Path) -> Result<Reading, String> {
        let _ = fs::remove_dir_all(scratch);
        copy(&self.folder(image), scratch).map_err(text)?;
        let vault = self.open(scratch, OpenOptions::default())?;
        let reading = Reading::of(&vault);
        vault.close().map_err(text)?;
        match reading.errors {
            0 => Ok(reading),
            errors => Err(format!("{image}: {errors} errors without any damage")),
        }
    }

    /// Copies a folder as it is at this moment, and compares the copy with what was written.
    fn keep(&self, folder: &Path, image: &str, model: &Model) -> Result<(), String> {
        let kept = self.folder(image);
        copy(folder, &kept).map_err(text)?;
        for name in ["reserve", "lock", "metadata.db-shm"] {
            // It holds nothing.
            let _ = fs::remove_file(kept.join(name));
        }
        let state = self.state(image, &self.place.join("look"))?;
        for (path, bytes) in model {
            if state.bytes(path).as_ref() != Some(bytes) {
                return Err(format!("{image}: {} is wrong", path.escape_ascii()));
            }
        }
        Ok(())
    }

    /// Gives every image the segments of all others: who mixes states has them, too.
    fn join_segments(&self) -> Result<(), String> {
        let mut images = vec!["older".to_owned()];
        for branch in BRANCHES {
            images.push(branch.to_owned());
            if branch == BRANCHES[0] {
                images.extend((0..=INTENT_ROUNDS).map(with_intents));
            }
            images.extend((1..=COMMITS).map(|commit| killed(branch, commit)));
        }
        let mut longest: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for image in &images {
            let folder = self.folder(image);
            for file in files(&folder) {
                if file.starts_with("segments/") {
                    let bytes = fs::read(folder.join(&file)).map_err(text)?;
                    let known = longest.entry(file).or_default();
                    if known.len() < bytes.len() {
                        *known = bytes;
                    }
                }
            }
        }
        for image in &images {
            for (file, bytes) in &longest {
                let path = self.folder(image).join(file);
                if !path.exists() {
                    fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(text)?;
                    fs::write(path, bytes).map_err(text)?;
                }
            }
        }
        Ok(())
    }
}

/// A vault that is filled.
struct Making<'a> {
    images: &'a Images,
    vault: Vault,
    choices: Choices,
    model: Model,
}

impl Making<'_> {
    fn write(&mut self, path: &str, len: usize) -> Result<(), String> {
        let bytes = self.choices.bytes(len);
        self.vault.write(path, &bytes).map_err(text)?;
        self.model.insert(path.as_bytes().to_vec(), bytes);
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<(), String> {
        self.vault.remove_file(path).map_err(text)?;
        self.model.remove(path.as_bytes());
        Ok(())
    }

    fn snapshot(&self, tag: &str) -> Result<(), String> {
        let new = NewRevision {
            tags: vec![tag.to_owned()],
            ..NewRevision::default()
        };
        self.vault.take_revision(&new).map_err(text).map(drop)
    }

    fn trunk(&mut self) -> Result<(), String> {
        for directory in ["/desk", "/desk/drawer", "/shelf"] {
            self.vault.make_directory(directory, 0o755).map_err(text)?;
        }
        for index in 0..12 {
            let len = [300, 5_000, 70_000, 140_000][index % 4] + index;
            self.write(&format!("/desk/paper {index}"), len)?;
            if index == 5 {
                // What follows goes to another segment.
                self.vault.compact().map_err(text)?;
            }
        }
        self.removed_key()?;
        for index in 0..30 {
            self.write(&format!("/shelf/book {index}"), 40 + index)?;
        }
        self.write("/desk/drawer/key of the cellar", 900)?;
        self.vault
            .make_symlink("paper 0", "/desk/link")
            .map_err(text)?;
        self.vault
            .link("/desk/paper 1", "/shelf/the same")
            .map_err(text)?;
        let same = self.model[&b"/desk/paper 1"[..]].clone();
        self.model.insert(b"/shelf/the same".to_vec(), same);
        let node = "/desk/paper 2";
        self.xattr(node, "trunk")?;
        self.snapshot("trunk")
    }

    fn xattr(&self, path: &str, value: &str) -> Result<(), String> {
        let set = (Links::Stay, "user.note", value, XattrMode::Set);
        self.vault
            .set_xattr(path, set.0, set.1, set.2, set.3)
            .map_err(text)
    }

    /// As the other branch does, in the same order and with the same lengths, with other names and content.
    fn branch(&mut self, branch: &str) -> Result<(), String> {
        self.write(&format!("/desk/invoice of {branch}"), 2_000)?;
        self.write("/desk/paper 3", 140_003)?;
        self.write("/desk/paper 0", 300)?;
        self.write("/desk/new", 77_777)?;
        self.remove("/shelf/book 7")?;
        self.vault
            .make_directory(format!("/shelf/of {branch}"), 0o700)
            .map_err(text)?;
        for index in 0..8 {
            self.write(&format!("/shelf/of {branch}/page {index}"), 600)?;
        }
        self.xattr("/desk/paper 2", branch)?;
        self.snapshot("branch")?;
        self.write("/desk/paper 4", 65_536)?;
        self.vault
            .make_symlink(format!("paper of {branch}"), "/desk/second link")
            .map_err(text)
            .map(drop)
    }

    /// A small write that is synced without a commit.
    fn intent(&mut self, round: usize) -> Result<(), String> {
        let path = "/shelf/late 4";
        let file = self.vault.open_file(path, FileOptions::new().write());
        let file = file.map_err(text)?;
        let new = self.choices.bytes(80);
        let at = round * 100;
        file.write_all_at(&new, at as u64).map_err(text)?;
        file.sync_all().map_err(text)?;
        if let Some(bytes) = self.model.get_mut(path.as_bytes()) {
            bytes[at..at + new.len()].copy_from_slice(&new);
        }
        Ok(())
    }

    /// Another key comes and goes, so that there are two epochs.
    fn removed_key(&self) -> Result<(), String> {
        let folder = self.vault.folder().to_path_buf();
        let secret = Secret::KeyFile(self.images.key.clone());
        let mut keys = Keys::open(&folder, &secret).map_err(text)?;
        let code = RecoveryCode::random(&SystemRandom).map_err(text)?;
        keys.add("gone", AddKey::Other(NewKey::RecoveryCode(code)))
            .map_err(text)?;
        let gone = keys.slots().into_iter().find(|slot| slot.label == "gone");
        let gone = gone.map(|slot| slot.id).ok_or("no slot")?;
        keys.remove(gone).map_err(text)
    }

    /// One commit more in the log.
    fn commit(&mut self, branch: &str, commit: usize) -> Result<(), String> {
        self.write("/desk/paper 5", 5_000)?;
        self.write(&format!("/desk/late {commit} of {branch}"), 33_000)?;
        self.write(&format!("/shelf/late {commit}"), 700)?;
        self.vault.sync().map_err(text)?;
        let _ = self.images;
        Ok(())
    }
}

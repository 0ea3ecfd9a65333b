//! Cuts the power under a whole vault: during its creation, its opening, changes of its keys, and its closing.
//!
//! Takes   a simulated disk, and two key files
//! Gives   counts of what was checked, or the first violation
//! Never   uses a passphrase: measuring its cost takes seconds
//! Spec    spec/5-crash-contract.md, [5.10]
//!
//! Rules after a cut:
//!  (1) Before `create` returned, the folder is the new vault, or is as empty as before, or reports that the creation
//!      was interrupted and holds nothing. After the steps of that message, the vault can be created again.
//!  (2) From then on, a key opens the vault until its removal begins, and an added key opens it once the addition has
//!      returned. A key whose removal has returned opens it no more. In between it may or may not. Some key always opens it.
//!  (3) Everything that was synced exists, and neither the check nor a verification reports anything.
//!  (4) A rotation that was begun continues, and from its end on there are only the newest keys.

use std::path::{Path, PathBuf};

use strongroom::filesystem::{Background, Options};
use strongroom::{
    AddKey, CreateOptions, Error, KeyFile, Keys, NewKey, NewRevision, OpenOptions, Secret,
    SystemRandom, Vault,
};

use crate::alarms;
use crate::cut::{Cut, in_turns, left_by};
use crate::disk::{Frozen, Policy};
use crate::run::{Seen, Trial};
use crate::unseen;

/// What the worker does, one after the other; the number of an act is its place here, from 1.
const ACTS: [fn(&Scene) -> strongroom::Result<()>; 11] = [
    create,
    |scene| scene.store(&scene.first, "/one"),
    |scene| scene.store(&scene.first, "/two"),
    add_key,
    |scene| scene.store(&scene.second, "/three"),
    remove_key,
    |scene| scene.store(&scene.second, "/four"),
    |scene| keys(scene, &scene.second)?.rotate(),
    seal_anew,
    |scene| scene.store(&scene.second, "/five"),
    snapshot,
];

/// The acts that store a file, with its name.
const STORED: [(usize, &str); 5] = [
    (2, "/one"),
    (3, "/two"),
    (5, "/three"),
    (7, "/four"),
    (10, "/five"),
];

const CREATED: usize = 1;
const ADDED: usize = 4;
const REMOVED: usize = 6;
const ROTATED: usize = 8;
const SEALED_ANEW: usize = 9;

/// A vault and its two keys.
struct Scene {
    folder: PathBuf,
    first: KeyFile,
    second: KeyFile,
}

/// What is in each file.
fn content(path: &str) -> Vec<u8> {
    path.bytes().cycle().take(30_000).collect()
}

fn engine() -> Options {
    Options {
        background: Background::Manual,
        threads: Some(2),
        ..Options::default()
    }
}

fn keys(scene: &Scene, key: &KeyFile) -> strongroom::Result<Keys> {
    Keys::open_with(&scene.folder, &Secret::KeyFile(key.clone()), unseen())
}

fn create(scene: &Scene) -> strongroom::Result<()> {
    let options = CreateOptions::new()
        .key_file(scene.first.clone())
        .seen(unseen().seen)
        .engine(engine());
    Vault::create(&scene.folder, options)?.vault.close()
}

fn add_key(scene: &Scene) -> strongroom::Result<()> {
    let mut keys = keys(scene, &scene.first)?;
    let key = NewKey::KeyFile(scene.second.clone());
    keys.add("second", AddKey::Other(key))
}

fn remove_key(scene: &Scene) -> strongroom::Result<()> {
    let slot = keys(scene, &scene.first)?
        .unlocked_by()
        .expect("a key file opened a slot");
    keys(scene, &scene.second)?.remove(slot)
}

fn seal_anew(scene: &Scene) -> strongroom::Result<()> {
    let vault = scene.open(&scene.second)?;
    while vault.rotate_step()? {}
    vault.close()
}

/// What is about to be kept when the power fails is no damage.
fn snapshot(scene: &Scene) -> strongroom::Result<()> {
    let vault = scene.open(&scene.second)?;
    vault.take_revision(&NewRevision::default())?;
    vault.close()
}

impl Scene {
    fn open(&self, key: &KeyFile) -> strongroom::Result<Vault> {
        let options = OpenOptions {
            engine: engine(),
            trust: unseen(),
            ..OpenOptions::default()
        };
        Vault::open(&self.folder, Secret::KeyFile(key.clone()), options)
    }

    /// Opens, writes, syncs, closes.
    fn store(&self, key: &KeyFile, path: &str) -> strongroom::Result<()> {
        let vault = self.open(key)?;
        vault.write(path, content(path))?;
        vault.sync()?;
        vault.close()
    }
}

/// Carries the acts out in the folder `vault` of `folder`, and says so. Ends at the first error.
///
/// # Errors
/// If a key is none, or nobody listens.
pub fn work(folder: &Path, first: &str, second: &str) -> Result<(), String> {
    let key = |text: &str| KeyFile::parse(text.as_bytes()).map_err(|error| error.to_string());
    let scene = Scene {
        folder: folder.join("vault"),
        first: key(first)?,
        second: key(second)?,
    };
    in_turns(ACTS.len(), |number| ACTS[number](&scene))
}

/// Runs the acts on a simulated disk, with a cut before every `stride`-th request, or with a fault, as `trial` says.
///
/// # Errors
/// The violation, in words.
pub fn run(trial: &Trial) -> Result<Seen, String> {
    let key = || KeyFile::random(&SystemRandom).map_err(|error| error.to_string());
    let (first, second) = (key()?, key()?);
    let keys = [&first, &second].map(|key| key.text().trim().to_owned());
    let mut cut = Cut::run("vault-worker", &keys, trial)?;
    if trial.fault.is_none() && cut.seen.returned != ACTS.len() as u64 {
        return Err(format!(
            "only {} acts of the vault's run returned",
            cut.seen.returned
        ));
    }
    cut.judge(trial, 0, |moment, policy| {
        judge(moment, policy, &first, &second)
    })?;
    Ok(cut.seen)
}

fn judge(moment: &Frozen, policy: Policy, first: &KeyFile, second: &KeyFile) -> Result<(), String> {
    let left = left_by(moment, policy)?;
    let scene = Scene {
        folder: left.path().join("vault"),
        first: first.clone(),
        second: second.clone(),
    };
    let reached = moment.threads[0];
    let (started, returned) = (reached.started as usize, reached.returned as usize);
    if returned < CREATED {
        return judge_creation(&scene);
    }
    let opens = |key: &KeyFile| match scene.open(key) {
        Ok(vault) => judge_open(&vault, returned).map(|()| true),
        Err(Error::WrongSecret(_)) => Ok(false),
        Err(error) => Err(format!("the vault does not open: {error}")),
    };
    let (by_first, by_second) = (opens(first)?, opens(second)?);
    let told = |which: &str, what: &str| Err(format!("(2): the {which} key {what} the vault"));
    if started < REMOVED && !by_first {
        return told("first", "does not open");
    }
    if returned >= REMOVED && by_first {
        return told("first", "was removed and opens");
    }
    if returned >= ADDED && !by_second {
        return told("second", "was added and does not open");
    }
    if started < ADDED && by_second {
        return told("second", "was not added and opens");
    }
    if by_first || by_second {
        Ok(())
    } else {
        told("first or second", "does not open")
    }
}

/// (1)
fn judge_creation(scene: &Scene) -> Result<(), String> {
    match scene.open(&scene.first) {
        Ok(vault) => return judge_open(&vault, 0),
        Err(Error::NotAVault) => {}
        Err(Error::InterruptedCreate) => {
            match create(scene) {
                Err(Error::InterruptedCreate) => {}
                other => return Err(format!("(1): made over an interrupted one: {other:?}")),
            }
            std::fs::remove_dir_all(&scene.folder).map_err(|error| error.to_string())?;
        }
        Err(error) => return Err(format!("(1): a vault half made says {error}")),
    }
    create(scene).map_err(|error| format!("(1): it cannot be made again: {error}"))?;
    let vault = scene
        .open(&scene.first)
        .map_err(|error| format!("(1): made again, it does not open: {error}"))?;
    judge_open(&vault, 0)
}

/// (3)
fn judge_open(vault: &Vault, returned: usize) -> Result<(), String> {
    alarms::sound(vault).map_err(|told| format!("(3): {told}"))?;
    judge_rotation(vault, returned)?;
    for (act, path) in STORED {
        match vault.read(path) {
            Ok(found) if found == content(path) => {}
            _ if act > returned => {}
            Ok(found) => return Err(format!("(3): {path} has {} other bytes", found.len())),
            Err(error) => return Err(format!("(3): {path} was synced: {error}")),
        }
    }
    vault.close().map_err(|error| format!("closing: {error}"))
}

/// (4)
fn judge_rotation(vault: &Vault, returned: usize) -> Result<(), String> {
    let rotation = vault
        .rotation()
        .map_err(|error| format!("(4): the rotation: {error}"))?;
    let is_one = rotation.oldest_epoch == rotation.newest_epoch;
    if returned >= SEALED_ANEW && !is_one {
        return Err(format!("(4): older keys are back: {rotation:?}"));
    }
    if returned >= ROTATED && !is_one && !rotation.is_running {
        return Err(format!("(4): the rotation was forgotten: {rotation:?}"));
    }
    Ok(())
}

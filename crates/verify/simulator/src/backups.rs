//! Cuts the power during a backup of a vault folder: the first one, one after changes, and one after a change of keys.
//!
//! Takes   a simulated disk that holds the vault and the folder of its backup
//! Gives   counts of what was checked, or the first violation
//! Never   lets anything but the backup write into the backup's folder
//! Spec    spec/10-folder.md, 10.4
//!
//! Rules after a cut:
//!  (1) The vault is sound, and has everything that was synced.
//!  (2) Until the first backup has returned, its folder is no vault, or reports that its creation was interrupted, or
//!      is whole. From then on it is always whole: the state of the last backup that returned, or of the current one.
//!  (3) The next run completes it, and then it has the state of the vault.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use strongroom::filesystem::{Background, Options};
use strongroom::{
    Access, CreateOptions, Error, GoOn, KeyFile, Keys, NewRevision, OpenOptions, Secret,
    SystemRandom, Vault,
};

use crate::alarms;
use crate::cut::{Cut, in_turns, left_by};
use crate::disk::{Frozen, Policy};
use crate::random::Choices;
use crate::run::{Seen, Trial};
use crate::unseen;

/// What the worker does, one after the other; the number of an act is its place here, from 1.
const ACTS: [fn(&Scene) -> strongroom::Result<()>; 7] = [
    create,
    |scene| scene.change(1),
    Scene::backup,
    |scene| scene.change(2),
    Scene::backup,
    |scene| rotate(scene).and_then(|()| scene.change(3)),
    Scene::backup,
];

/// The acts that change the vault, and those that copy it: the number of a state is its place here, from 1.
const CHANGES: [u64; 3] = [2, 4, 6];
const BACKUPS: [u64; 3] = [3, 5, 7];

/// The files of a state, and what is in them.
type Files = BTreeMap<String, Vec<u8>>;

/// A vault, and the folder that it is copied to.
struct Scene {
    vault: PathBuf,
    target: PathBuf,
    key: KeyFile,
}

/// What the state `number` has: some files stay, some change, some go, and some are new.
fn files(number: u64) -> Files {
    let mut files = Files::new();
    let mut add = |path: String, seed: u64, len: usize| {
        files.insert(path, Choices::named(seed, &[44]).bytes(len));
    };
    if number > 0 {
        add("/stays".to_owned(), 0, 200_000);
        add("/changes".to_owned(), number, 90_000);
        add("/small".to_owned(), 10 + number, 700);
        add(format!("/of{number}"), 20 + number, 150_000);
    }
    files
}

fn engine() -> Options {
    Options {
        background: Background::Manual,
        threads: Some(2),
        ..Options::default()
    }
}

fn create(scene: &Scene) -> strongroom::Result<()> {
    let options = CreateOptions::new()
        .key_file(scene.key.clone())
        .seen(unseen().seen)
        .engine(engine());
    Vault::create(&scene.vault, options)?.vault.close()
}

fn rotate(scene: &Scene) -> strongroom::Result<()> {
    Keys::open_with(&scene.vault, &scene.secret(), unseen())?.rotate()?;
    let vault = scene.open(&scene.vault, Access::ReadWrite)?;
    while vault.rotate_step()? {}
    vault.close()
}

impl Scene {
    fn new(folder: &Path, key: &KeyFile) -> Self {
        Self {
            vault: folder.join("vault"),
            target: folder.join("backup"),
            key: key.clone(),
        }
    }

    fn secret(&self) -> Secret {
        Secret::KeyFile(self.key.clone())
    }

    fn open(&self, folder: &Path, access: Access) -> strongroom::Result<Vault> {
        let options = OpenOptions {
            access,
            engine: engine(),
            trust: unseen(),
            ..OpenOptions::default()
        };
        Vault::open(folder, self.secret(), options)
    }

    /// Makes the state `number` of the one before; keeps it in a snapshot, and ends every segment.
    fn change(&self, number: u64) -> strongroom::Result<()> {
        let vault = self.open(&self.vault, Access::ReadWrite)?;
        let new = files(number);
        for path in files(number - 1).keys() {
            if !new.contains_key(path) {
                vault.remove_file(path)?;
            }
        }
        for (path, content) in &new {
            vault.write(path, content)?;
        }
        vault.sync()?;
        vault.take_revision(&NewRevision::default())?;
        vault.compact()?;
        vault.close()
    }

    fn backup(&self) -> strongroom::Result<()> {
        let vault = self.open(&self.vault, Access::ReadWrite)?;
        vault.backup(&self.target, &mut |_| GoOn::Yes)?;
        vault.close()
    }
}

/// The process on the disk: carries the acts out in `folder`.
///
/// # Errors
/// If the key is none, or nobody listens.
pub fn work(folder: &Path, key: &str) -> Result<(), String> {
    let key = KeyFile::parse(key.as_bytes()).map_err(|error| error.to_string())?;
    let scene = Scene::new(folder, &key);
    in_turns(ACTS.len(), |number| ACTS[number](&scene))
}

/// Runs the acts on a simulated disk, with a cut before every `stride`-th request.
///
/// # Errors
/// The violation, in words.
pub fn run(trial: &Trial) -> Result<Seen, String> {
    let key = KeyFile::random(&SystemRandom).map_err(|error| error.to_string())?;
    let arguments = [key.text().trim().to_owned()];
    let mut cut = Cut::run("backups-worker", &arguments, trial)?;
    if cut.seen.returned != ACTS.len() as u64 {
        return Err(format!("only {} acts returned", cut.seen.returned));
    }
    cut.judge(trial, CHANGES[0], |moment, policy| {
        judge(moment, policy, &key)
    })?;
    Ok(cut.seen)
}

fn judge(moment: &Frozen, policy: Policy, key: &KeyFile) -> Result<(), String> {
    let left = left_by(moment, policy)?;
    let scene = Scene::new(left.path(), key);
    let (started, returned) = (moment.threads[0].started, moment.threads[0].returned);
    let count = |acts: &[u64], until: u64| acts.iter().filter(|act| **act <= until).count() as u64;
    let vault = scene
        .open(&scene.vault, Access::ReadWrite)
        .map_err(|error| format!("(1): the vault does not open: {error}"))?;
    alarms::sound(&vault).map_err(|told| format!("(1): {told}"))?;
    let living = read(&vault).map_err(|error| format!("(1): {error}"))?;
    let (at_least, at_most) = (count(&CHANGES, returned), count(&CHANGES, started));
    if at_least == at_most && living != files(at_least) {
        return Err("(1): the vault has not the files that were synced".to_owned());
    }
    judge_target(&scene, count(&BACKUPS, returned), count(&BACKUPS, started))
        .map_err(|complaint| format!("(2): {complaint}"))?;
    vault
        .backup(&scene.target, &mut |_| GoOn::Yes)
        .map_err(|error| format!("(3): the next run: {error}"))?;
    vault.close().map_err(|error| format!("closing: {error}"))?;
    match whole(&scene)? {
        Some(found) if found == living => Ok(()),
        Some(_) => Err("(3): after the next run the backup has other files".to_owned()),
        None => Err("(3): after the next run the backup is no vault".to_owned()),
    }
}

/// (2): `returned` backups had returned, `started` had begun.
fn judge_target(scene: &Scene, returned: u64, started: u64) -> Result<(), String> {
    match whole(scene)? {
        None if returned == 0 => Ok(()),
        None => Err("the earlier backup is gone".to_owned()),
        Some(found) if (returned.max(1)..=started).any(|number| found == files(number)) => Ok(()),
        Some(_) => Err("the backup has files of no state that was copied".to_owned()),
    }
}

/// The files of a backup that is sound; `None` if it says that it is not made yet.
fn whole(scene: &Scene) -> Result<Option<Files>, String> {
    let backup = match scene.open(&scene.target, Access::ReadOnly) {
        Ok(backup) => backup,
        Err(Error::NotAVault | Error::InterruptedCreate) => return Ok(None),
        Err(error) => return Err(format!("the backup does not open: {error}")),
    };
    alarms::sound(&backup).map_err(|told| format!("the backup: {told}"))?;
    let found = read(&backup).map_err(|error| format!("reading the backup: {error}"))?;
    backup
        .close()
        .map_err(|error| format!("closing: {error}"))?;
    Ok(Some(found))
}

fn read(vault: &Vault) -> strongroom::Result<Files> {
    let mut files = Files::new();
    for entry in vault.list("/")? {
        let path = format!("/{}", String::from_utf8_lossy(&entry?.name));
        files.insert(path.clone(), vault.read(&path)?);
    }
    Ok(files)
}

//! Cuts the power while keys are rotated again and again during writes.
//!
//! Takes   a simulated disk, and a count of rotations
//! Gives   counts of what was checked, or the first violation
//! Never   pauses: each rotation begins when the one before has ended
//! Spec    spec/5-crash-contract.md, spec/1-keys.md, 1.10
//!
//! Rules after a cut, while the first opening continues the rotation:
//!  (1) `verify`, `verify --deep` and `check` report nothing, at once and again after the rotation.
//!  (2) Everything that was synced exists.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use strongroom::{CreateOptions, KeyFile, Keys, OpenOptions, Secret, SystemRandom, Vault};

use crate::alarms;
use crate::cut::{Cut, in_turns, left_by};
use crate::disk::{Frozen, Policy};
use crate::random::Choices;
use crate::run::{Seen, Trial};
use crate::unseen;

/// Files that are made with the vault and stay.
const STILL: u64 = 24;

/// Files that are written while keys rotate.
const CHURNED: u64 = 6;

struct Scene {
    folder: PathBuf,
    key: KeyFile,
    open: OnceCell<Vault>,
}

/// The content of the file `number`, of the rotation `round`.
fn content(round: u64, number: u64) -> Vec<u8> {
    let len = [900, 20_000, 140_000][(number % 3) as usize];
    Choices::named(round, &[43, number]).bytes(len)
}

impl Scene {
    fn new(folder: &Path, key: &KeyFile) -> Self {
        Self {
            folder: folder.join("vault"),
            key: key.clone(),
            open: OnceCell::new(),
        }
    }

    fn secret(&self) -> Secret {
        Secret::KeyFile(self.key.clone())
    }

    fn open(&self) -> strongroom::Result<Vault> {
        let options = OpenOptions {
            engine: alarms::engine(),
            trust: unseen(),
            ..OpenOptions::default()
        };
        Vault::open(&self.folder, self.secret(), options)
    }

    /// Makes the vault, with the files that stay.
    fn create(&self) -> strongroom::Result<()> {
        let options = CreateOptions::new()
            .key_file(self.key.clone())
            .seen(unseen().seen)
            .engine(alarms::engine());
        let vault = Vault::create(&self.folder, options)?.vault;
        for number in 0..STILL {
            vault.write(format!("/still{number}"), content(0, number))?;
        }
        vault.sync()?;
        self.open.get_or_init(|| vault);
        Ok(())
    }

    /// One rotation, from its beginning to its end, under writes; then a file that says so.
    fn rotate(&self, round: u64) -> strongroom::Result<()> {
        let vault = self.open.get().expect("the vault was made first");
        Keys::open_with(&self.folder, &self.secret(), unseen())?.rotate()?;
        for step in 0.. {
            vault.write(
                format!("/churned{}", step % CHURNED),
                content(round, 100 + step),
            )?;
            vault.sync()?;
            if !vault.rotation()?.is_running {
                break;
            }
        }
        vault.write(format!("/round{round}"), content(round, round))?;
        vault.sync()
    }
}

/// The process on the disk: makes a vault in `folder` and rotates its keys `rounds` times.
///
/// # Errors
/// If the key is none, or nobody listens.
pub fn work(folder: &Path, key: &str, rounds: usize) -> Result<(), String> {
    let key = KeyFile::parse(key.as_bytes()).map_err(|error| error.to_string())?;
    let scene = Scene::new(folder, &key);
    let done = in_turns(rounds + 1, |number| match number {
        0 => scene.create(),
        round => scene.rotate(round as u64),
    });
    // A power cut closes nothing.
    std::mem::forget(scene);
    done
}

/// Runs as many rotations as `trial` has acts, with a cut before every `stride`-th request.
///
/// # Errors
/// The violation, in words.
pub fn run(trial: &Trial) -> Result<Seen, String> {
    let key = KeyFile::random(&SystemRandom).map_err(|error| error.to_string())?;
    let arguments = [key.text().trim().to_owned(), trial.acts.to_string()];
    let mut cut = Cut::run("rotations-worker", &arguments, trial)?;
    if cut.seen.returned != trial.acts as u64 + 1 {
        return Err(format!("only {} rotations returned", cut.seen.returned));
    }
    cut.judge(trial, 1, |moment, policy| judge(moment, policy, &key))?;
    Ok(cut.seen)
}

fn judge(moment: &Frozen, policy: Policy, key: &KeyFile) -> Result<(), String> {
    let left = left_by(moment, policy)?;
    let vault = Scene::new(left.path(), key)
        .open()
        .map_err(|error| format!("the vault does not open: {error}"))?;
    alarms::sound(&vault).map_err(|told| format!("(1), just opened: {told}"))?;
    let rounds = moment.threads[0].returned - 1;
    let still = (0..STILL).map(|number| (format!("/still{number}"), content(0, number)));
    let ended = (1..=rounds).map(|round| (format!("/round{round}"), content(round, round)));
    for (path, wanted) in still.chain(ended) {
        match vault.read(&path) {
            Ok(found) if found == wanted => {}
            Ok(found) => return Err(format!("(2): {path} has {} other bytes", found.len())),
            Err(error) => return Err(format!("(2): {path} was synced: {error}")),
        }
    }
    while rotates(&vault)? {
        std::thread::yield_now();
    }
    alarms::sound(&vault).map_err(|told| format!("(1), rotated: {told}"))?;
    vault.close().map_err(|error| format!("closing: {error}"))
}

fn rotates(vault: &Vault) -> Result<bool, String> {
    let rotation = vault.rotation();
    let rotation = rotation.map_err(|error| format!("the rotation: {error}"))?;
    match rotation.trouble {
        None => Ok(rotation.is_running),
        Some(trouble) => Err(format!("the rotation: {trouble}")),
    }
}

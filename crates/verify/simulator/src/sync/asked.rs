//! Runs a command on a device while the remote lies, and reports its output.
//!
//! Takes   a stage, a command, and a function that puts the lie into the remote's objects
//! Gives   the output; the devices that must be sound afterwards
//! Never   waits, except for the first event of a continuous sync

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use strongroom::{
    AskingStep, CloneOptions, Error, GoOn, InvitationStep, KeyFile, Keys, NewDevice, RepairOptions,
    Secret, SyncEvent, SystemRandom, repair,
};
use strongroom_format::hex;
use strongroom_format::segment::scan;
use strongroom_remote::ObjectName;
use strongroom_remote::testing::Objects;

use crate::sync::contents::Piece;
use crate::sync::device::Device;
use crate::sync::judge::intact;
use crate::sync::lies::{Command, Object};
use crate::sync::stage::{Stage, Template};
use crate::unseen;

/// How long the first event of a continuous sync may take; only one that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a pull is tried again that waits for what is sealed again.
const TRIES: usize = 8;

/// What a command came to.
pub(crate) struct Asked {
    /// What was said to be wrong, a line each.
    pub(crate) said: Vec<String>,
    /// The device that was asked.
    pub(crate) device: Device,
    /// What it had before.
    pub(crate) had: BTreeSet<Piece>,
    /// Where a clone was begun with the secret of the vault.
    pub(crate) cloned: Option<PathBuf>,
    /// The remote before it lied, and the names of what it had then.
    pub(crate) honest: Objects,
    pub(crate) spoiled: BTreeSet<ObjectName>,
}

/// Spoils the objects of the remote; false if that would be no lie.
pub(crate) type Spoil<'a> = dyn FnMut(&Stage, &mut Objects) -> Result<bool, String> + 'a;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn yes<T>(_: &T) -> GoOn {
    GoOn::Yes
}

impl Command {
    /// What the remote has when the command is run.
    pub(crate) fn base(self, stage: &Stage) -> (Template, &Objects) {
        match self {
            Self::Pull | Self::Sync => (Template::Behind, &stage.latest),
            Self::Push => (Template::Behind, &stage.known),
            _ => (Template::UpToDate, &stage.all),
        }
    }

    /// Runs it; `None` if there is nothing to lie about.
    pub(crate) fn run(
        self,
        stage: &mut Stage,
        spoil: &mut Spoil<'_>,
    ) -> Result<Option<Asked>, String> {
        let (template, objects) = self.base(stage);
        let objects = objects.clone();
        stage.put(&objects);
        let mut device = stage.take(template)?;
        let had = intact(&device, &stage.truth)?.1;
        let cloned = stage.new_folder();
        let (mut honest, mut spoiled) = (Objects::new(), BTreeSet::new());
        let mut lie = |stage: &Stage, spoil: &mut Spoil<'_>| -> Result<bool, String> {
            let mut objects = stage.objects();
            honest = objects.clone();
            let is_lie = spoil(stage, &mut objects)?;
            spoiled = objects.keys().cloned().collect();
            stage.put(&objects);
            Ok(is_lie)
        };
        let done = match self {
            Self::ClonePaired => {
                let Some(new) = let_in(stage, &device, &mut |stage| lie(stage, spoil))? else {
                    return Ok(None);
                };
                said(new.clone_to(&cloned))
            }
            _ if !lie(stage, spoil)? => return Ok(None),
            Self::Pull => said(pull(&device)),
            Self::Push => said(device.vault().push(device.remote, &mut yes)),
            Self::Sync => said(device.sync()),
            Self::Clone => said(stage.clone_into(&cloned)),
            Self::CloneOnDemand => said(stage.clone_on_demand_into(&cloned)),
            Self::Check | Self::CheckDeep => {
                let is_deep = self == Self::CheckDeep;
                let checked = device
                    .vault()
                    .check_remote(device.remote, is_deep, &mut yes);
                checked.map_or_else(|error| vec![text(error)], |report| report.problems)
            }
            Self::Prune => {
                let pruned = device
                    .vault()
                    .prune_remote(device.remote, Duration::ZERO, &mut yes);
                said(pruned)
            }
            Self::Repair => mend(stage, &mut device)?,
            Self::Watch => watch(stage, &device)?,
        };
        Ok(Some(Asked {
            said: done,
            device,
            had,
            cloned: matches!(self, Self::Clone | Self::CloneOnDemand).then_some(cloned),
            honest,
            spoiled,
        }))
    }
}

fn said<T>(done: Result<T, Error>) -> Vec<String> {
    done.err().iter().map(text).collect()
}

/// Pulls; what has to be sealed again first is.
fn pull(device: &Device) -> Result<(), Error> {
    for _ in 0..TRIES {
        match device.vault().pull(device.remote, &mut yes) {
            Err(Error::KeysInUse) => device.drive()?,
            done => return done.map(drop),
        }
    }
    Err(Error::KeysInUse)
}

/// Damages a segment that is at the remote too, and takes it from there.
fn mend(stage: &Stage, device: &mut Device) -> Result<Vec<String>, String> {
    let name = Object::Segment.find(stage, &stage.all)?;
    let name = name.ok_or("no segment to damage")?;
    let id = scan(&stage.all[&name]).map_err(text)?.header.id;
    let id = hex::encode(&id.0);
    let path = device.folder.join("segments").join(&id[..2]).join(&id);
    device.close()?;
    let mut bytes = fs::read(&path).map_err(text)?;
    let half = bytes.len() / 2;
    bytes[half..].fill(0x5a);
    fs::write(&path, bytes).map_err(text)?;
    let options = RepairOptions {
        dry_run: false,
        trust: unseen(),
        ..RepairOptions::default()
    };
    let report = repair(
        &device.folder,
        &stage.secret(),
        options.clone(),
        &mut |_| {},
    );
    let report = report.map_err(text)?;
    let mut problems: Vec<String> = report
        .remotes
        .into_iter()
        .flat_map(|one| one.problems)
        .collect();
    if problems.is_empty() && !report.left.is_sound() {
        problems.push(format!(
            "nobody said why it is not whole: {:?}",
            report.left
        ));
    }
    // Once the remote tells the truth, what is left is mended.
    if !report.left.is_sound() {
        stage.put(&stage.all);
        stage.remote.lie(None);
        stage.remote.plan(None);
        let report = repair(&device.folder, &stage.secret(), options, &mut |_| {});
        let report = report.map_err(text)?;
        if !report.left.is_sound() {
            return Err(format!(
                "a repair from an honest remote leaves {:?}",
                report.left
            ));
        }
    }
    device.open().map_err(text)?;
    Ok(problems)
}

/// The first that a continuous sync has to say.
fn watch(stage: &mut Stage, device: &Device) -> Result<Vec<String>, String> {
    stage.write(device, "watched", 20_000)?;
    let (tell, told) = channel();
    let running = device.vault().keep_in_sync(PATIENCE, move |event| {
        // Nobody listens behind the first.
        let _ = tell.send(match event {
            SyncEvent::Failed { error, .. } | SyncEvent::Ended { error } => vec![error.to_string()],
            SyncEvent::Moving { .. } => return,
            _ => Vec::new(),
        });
    });
    let running = running.map_err(text)?;
    let first = told.recv_timeout(PATIENCE);
    drop(running);
    first.map_err(|_| "a continuous sync says nothing".to_owned())
}

/// A device that was let in.
struct New {
    device: NewDevice,
    admitted: strongroom::Admitted,
}

impl New {
    fn clone_to(&self, folder: &Path) -> Result<(), Error> {
        let options = CloneOptions {
            trust: unseen(),
            ..CloneOptions::default()
        };
        let cloned = self
            .device
            .clone_as_admitted(self.admitted, folder, &options, &mut |_| GoOn::Yes);
        cloned.map(drop)
    }
}

/// Lets a new device in; then `lie` decides what it sees. `None` if that is no lie.
fn let_in(
    stage: &Stage,
    device: &Device,
    lie: &mut dyn FnMut(&Stage) -> Result<bool, String>,
) -> Result<Option<New>, String> {
    let vault = device.vault();
    let now = Instant::now();
    let key = KeyFile::random(&SystemRandom).map_err(text)?;
    let new = NewDevice::make(&stage.address, Secret::KeyFile(key), "laptop").map_err(text)?;
    let mut invitation = vault.invite(device.remote, now).map_err(text)?;
    let mut asking = new.ask(invitation.code(), now).map_err(text)?;
    invitation.look(now).map_err(text)?;
    asking.look(now).map_err(text)?;
    let InvitationStep::Asks(candidate) = invitation.look(now).map_err(text)? else {
        return Err("a device that has the code is not heard".to_owned());
    };
    let mut keys = Keys::open_with(&device.folder, &device.secret(), unseen()).map_err(text)?;
    let admitted = invitation.admit(vault, &mut keys, &candidate, &mut yes);
    admitted.map_err(text)?;
    drop(keys);
    let AskingStep::Admitted(admitted) = asking.look(now).map_err(text)? else {
        return Err("a device that was let in is not told".to_owned());
    };
    Ok(lie(stage)?.then_some(New {
        device: new,
        admitted,
    }))
}

//! Events that happen to whole vault folders: they are copied, restored, used beside their copies, damaged and repaired.
//!
//! Takes   a history, and the number of a device
//! Gives   a description of the event; a copied device becomes a different device with its next sync
//! Never   damages data that the remote does not have, or copies a folder with content that is away: the guide says
//!         what that may cost

use std::fs;
use std::path::{Path, PathBuf};

use strongroom::{Error, GoOn, RepairOptions, repair};
use strongroom_sync::{object_hash, segment_name};

use crate::sync::device::{Device, Standing, copy};
use crate::sync::files::Fail;
use crate::sync::history::{Counted, History, Mode, Older};
use crate::sync::steps::DEVICES_MAX;
use crate::unseen;

/// All segments of a vault folder.
pub(crate) fn segments(folder: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut all: Vec<PathBuf> = (inside(&folder.join("segments")).iter())
        .flat_map(|folder| inside(folder))
        .collect();
    all.sort();
    all
}

impl History<'_> {
    /// Damages or removes a segment that the remote has, if there is one, and repairs the vault.
    pub(crate) fn repair(&mut self, number: usize) -> Result<String, Fail> {
        let device = &mut self.devices[number];
        if !device.is_member() {
            return Ok("it is not repaired".to_owned());
        }
        // Whom others added is no damage.
        device.vault().accept_records()?;
        device.close().map_err(Fail::Violation)?;
        device.made_durable();
        let mut at_remote = Vec::new();
        for path in segments(&device.folder) {
            let bytes = fs::read(&path).unwrap_or_default();
            let there = self.remote.has(&segment_name(&object_hash(&bytes)));
            if there.map_err(Error::from)? {
                at_remote.push(path);
            }
        }
        let mut damaged = "nothing".to_owned();
        if !at_remote.is_empty() && !self.choices.chance(1, 4) {
            let path = self.choices.one_of(&at_remote);
            damaged = format!("{:?}", path.file_name().unwrap_or_default());
            damage(path, self.choices.chance(1, 3));
            self.story.count(Counted::Repairs);
        }
        let options = RepairOptions {
            dry_run: false,
            trust: unseen(),
            ..RepairOptions::default()
        };
        let report = repair(&device.folder, &device.secret(), options, &mut |_| {})?;
        if !report.left.is_sound() {
            return Err(Fail::Violation(format!(
                "(5): device {number} is not whole after a repair of {damaged}: {:?}; {:?}",
                report.left, report.remotes
            )));
        }
        device.open()?;
        Ok(format!("repaired, {damaged} was damaged"))
    }

    /// Keeps a copy of the folder of a device; later, puts it back, or uses it beside the device.
    pub(crate) fn copy(&mut self, number: usize, mode: Mode) -> Result<String, Fail> {
        let Some(older) = self.older.take() else {
            let into = self.new_copy();
            let device = &mut self.devices[number];
            if !device.is_member() {
                return Ok("no copy of it is kept".to_owned());
            }
            // Others may remove what only the copy needs.
            device.vault().bring_back(None, &mut |_| GoOn::Yes)?;
            device.vault().sync()?;
            device.made_durable();
            copy(&device.folder, &into).expect("a folder in memory can be copied");
            let (durable, erasing) = (device.durable.clone(), device.erasing.clone());
            let is_leaving = |one: &&Device| one.standing == (Standing::Leaving { by: number });
            let leaving = self.devices.iter().filter(is_leaving);
            self.older = Some(Older {
                of: number,
                folder: into,
                durable,
                erasing,
                leaving: leaving.map(|one| one.number).collect(),
            });
            return Ok("a copy of its folder is kept".to_owned());
        };
        if !self.devices[older.of].is_member() || self.twins.is_some() {
            return Ok("the copy of its folder is thrown away".to_owned());
        }
        match mode {
            Mode::Copied => self.use_beside(older),
            _ => self.put_back(older),
        }
    }

    /// It signs itself in with its next sync: a change of keys, like any other.
    fn put_back(&mut self, older: Older) -> Result<String, Fail> {
        let of = older.of;
        if self.keys_by.is_some_and(|by| by != of) {
            return Ok("no folder is put back".to_owned());
        }
        self.keys_by = Some(of);
        let device = &mut self.devices[of];
        device.is_older_copy = true;
        device.said = 0;
        device.durable = older.durable;
        device.erasing = older.erasing;
        device.go_on_from(&older.folder)?;
        // Whom it removed since, and had not said so, is no removed one.
        for other in &mut self.devices {
            let is_leaving = other.standing == (Standing::Leaving { by: of });
            if is_leaving && !older.leaving.contains(&other.number) {
                other.standing = Standing::Member;
            }
        }
        self.story.count(Counted::PutBack);
        Ok(format!("the folder of device {of} was put back"))
    }

    /// One of both becomes another device: the one that hears last of what the other published.
    fn use_beside(&mut self, older: Older) -> Result<String, Fail> {
        let of = older.of;
        let members = self.devices.iter().filter(|device| device.is_member());
        if members.count() >= DEVICES_MAX || self.keys_by.is_some() {
            return Ok("no copy is used".to_owned());
        }
        let (number, clock) = (self.devices.len(), self.clock());
        let original = &self.devices[of];
        let mut device = Device::new(number, older.folder, original.remote, clock, original.key())?;
        device.durable = older.durable;
        device.erasing = older.erasing;
        let id = device.id()?;
        // It may have become another device since it was copied.
        if original.id()? == id {
            self.twins = Some(([of, number], id));
        } else {
            // Otherwise its syncs are refused, and say that it must be.
            device.is_older_copy = true;
            device.reopen()?;
            self.keys_by = Some(number);
        }
        self.devices.push(device);
        self.story.count(Counted::Copied);
        Ok(format!(
            "a copy of the folder of device {of} is device {number}"
        ))
    }

    /// Notes that one of the twins has said that it is another device, if this is one of them.
    pub(crate) fn tell_twins_apart(&mut self, number: usize) -> Result<(), Error> {
        if let Some((twins, id)) = &self.twins
            && twins.contains(&number)
            && self.devices[number].id()? != *id
        {
            self.twins = None;
        }
        Ok(())
    }
}

/// Damages the second half of a file, or removes it.
fn damage(path: &Path, is_removed: bool) {
    let done = match is_removed {
        true => fs::remove_file(path),
        false => fs::read(path).and_then(|mut bytes| {
            let half = bytes.len() / 2;
            bytes[half..].fill(0x5a);
            fs::write(path, bytes)
        }),
    };
    done.expect("a file in memory can be changed");
}

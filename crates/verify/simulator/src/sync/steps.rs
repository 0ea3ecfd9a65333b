//! Events that happen to whole devices: they sync over a good or a faulty line, are killed, change keys, join, and are restored.
//!
//! Takes   a history, and the number of a device
//! Gives   a description of the event; the expected state records what is durable and published
//! Never   lets two devices change keys before either has synced: the guide says that this cannot be merged

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use strongroom::filesystem::Error as FileError;
use strongroom::{
    CLONED_FROM, CloneContent, CloneOptions, CloneReport, Error, EvictReport, GoOn, Guessable,
    Keys, NewRevision, SyncReport, Vault, clone,
};
use strongroom_remote::testing::{Fate, Line, Verb};

use crate::random::Choices;
use crate::sync::device::{Device, Standing, copy};
use crate::sync::files::Fail;
use crate::sync::history::{Counted, DAY, History};
use crate::unseen;

/// Devices that may be there at once, a newcomer at the end beside them.
pub(crate) const DEVICES_MAX: usize = 5;

/// What a request meets on a bad line.
struct BadLine {
    choices: Choices,
    /// Of a hundred requests, how many fail.
    faults: u64,
    asked: u64,
    /// At which request the process is killed.
    kill_at: u64,
}

/// What becomes of a request if so many of a hundred fail.
fn fate(choices: &mut Choices, faults: u64) -> Fate {
    match choices.below(100) < faults {
        true => *choices.one_of(&[Fate::Lost, Fate::AnswerLost, Fate::Repeated]),
        false => Fate::Served,
    }
}

impl History<'_> {
    pub(crate) fn make_durable(&mut self, number: usize) -> Result<String, Fail> {
        let device = &mut self.devices[number];
        device.vault().sync()?;
        device.made_durable();
        Ok("all made durable".to_owned())
    }

    pub(crate) fn snapshot(&mut self, number: usize) -> Result<String, Fail> {
        let device = &mut self.devices[number];
        let taken = device.vault().take_revision(&NewRevision::default())?;
        device.made_durable();
        Ok(format!(
            "snapshot {}",
            taken.map_or(String::new(), |one| one.id.to_string())
        ))
    }

    pub(crate) fn remove_snapshot(&mut self, number: usize) -> Result<String, Fail> {
        let vault = self.devices[number].vault();
        let mut all = vault.revisions()?;
        // From those with a tag a content is erased: devices that never got one keep it in snapshots of their own. [6.11.9]
        all.retain(|one| one.tags.is_empty());
        if all.len() < 2 {
            return Ok("no snapshot to remove".to_owned());
        }
        let one = self.choices.one_of(&all);
        vault.remove_revision(one.id)?;
        Ok(format!("snapshot {} of {} removed", one.id, all.len()))
    }

    pub(crate) fn compact(&mut self, number: usize) -> Result<String, Fail> {
        let device = &self.devices[number];
        device.vault().compact()?;
        device.drive()?;
        Ok("compacted".to_owned())
    }

    pub(crate) fn shift_clock(&mut self, number: usize) -> Result<String, Fail> {
        let clock = self.clock();
        let shift = clock.shift.into_inner();
        self.devices[number]
            .clock
            .shift
            .store(shift, Ordering::Relaxed);
        Ok(format!(
            "its clock is shifted by {} hours",
            shift / (DAY / 24)
        ))
    }

    pub(crate) fn new_copy(&mut self) -> PathBuf {
        self.copies += 1;
        self.place.join(format!("copy{}", self.copies))
    }

    pub(crate) fn kill(&mut self, number: usize) -> Result<String, Fail> {
        let into = self.new_copy();
        let device = &mut self.devices[number];
        copy(&device.folder, &into).expect("a folder in memory can be copied");
        device.go_on_from(&into)?;
        self.story.count(Counted::Kills);
        Ok("killed".to_owned())
    }

    /// Lets the line be bad; gives whether the process was killed at a request, and where its folder was copied to then.
    fn bad_line(&mut self, number: usize, faults: u64, kills: bool) -> (Arc<AtomicBool>, PathBuf) {
        let into = self.new_copy();
        let killed = Arc::new(AtomicBool::new(false));
        let mut line = BadLine {
            choices: Choices::new(self.choices.number()),
            faults,
            asked: 0,
            kill_at: if kills { 1 + self.choices.below(25) } else { 0 },
        };
        let (folder, copied, was) = (
            self.devices[number].folder.clone(),
            into.clone(),
            killed.clone(),
        );
        self.plan(Some(Box::new(move |_: Verb, _: &str| {
            line.asked += 1;
            if was.load(Ordering::Relaxed) {
                return Fate::Lost;
            }
            if line.asked == line.kill_at {
                copy(&folder, &copied).expect("a folder in memory can be copied");
                was.store(true, Ordering::Relaxed);
                return *line.choices.one_of(&[Fate::Lost, Fate::AnswerLost]);
            }
            fate(&mut line.choices, line.faults)
        })));
        (killed, into)
    }

    pub(crate) fn sync(&mut self, number: usize, faults: u64, kills: bool) -> Result<String, Fail> {
        let only = self.choices.below(6);
        let has_faults = faults > 0 || kills;
        let bad = has_faults.then(|| self.bad_line(number, faults, kills));
        let device = &self.devices[number];
        let done = match only {
            0 => device
                .vault()
                .pull(device.remote, &mut |_| GoOn::Yes)
                .map(|pulled| {
                    (
                        "pulled",
                        SyncReport {
                            pulled,
                            ..SyncReport::default()
                        },
                    )
                }),
            1 => device
                .vault()
                .push(device.remote, &mut |_| GoOn::Yes)
                .map(|pushed| {
                    (
                        "pushed",
                        SyncReport {
                            pushed,
                            ..SyncReport::default()
                        },
                    )
                }),
            _ => device.sync().map(|report| ("synced", report)),
        };
        self.plan(None);
        if let Some((killed, copied)) = bad
            && killed.load(Ordering::Relaxed)
        {
            self.story.count(Counted::Kills);
            self.devices[number].go_on_from(&copied)?;
            return Ok("killed while it synced".to_owned());
        }
        match done {
            Ok((what, report)) => {
                if only != 0 {
                    self.has_pushed(number, &report).map_err(Fail::Violation)?;
                }
                Ok(format!("{what}: {}", brief(&report, &self.line)))
            }
            // What is sealed again goes on by itself.
            Err(error @ Error::KeysInUse) => {
                self.devices[number].drive()?;
                Ok(error.to_string())
            }
            Err(error @ Error::RemoteAhead) if only == 1 => Ok(error.to_string()),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets content go, over a bad line or a good one; sometimes it comes back at once. Devices with odd numbers do so by a limit, down to
    /// half of what is here.
    pub(crate) fn evict(&mut self, number: usize) -> Result<String, Fail> {
        let faults = self.choices.below(3) * 6;
        let comes_back = self.choices.chance(1, 4);
        // What others have just said or what is not pushed yet keeps it from going.
        if self.choices.chance(2, 3) {
            self.sync(number, 0, false)?;
        }
        if faults > 0 {
            self.bad_line(number, faults, false);
        }
        let vault = self.devices[number].vault();
        let evicted = match number % 2 {
            1 => evict_half(vault),
            _ => vault.evict(None, &mut |_| GoOn::Yes),
        };
        let back = match comes_back {
            true => vault.bring_back(None, &mut |_| GoOn::Yes).map(|_| ()),
            false => Ok(()),
        };
        self.plan(None);
        let report = evicted?;
        match back {
            // The line was bad.
            Err(Error::File(FileError::OnlyAtRemote(_))) if faults > 0 => {}
            back => back?,
        }
        if report.segments > 0 {
            self.story.count(Counted::Evictions);
        }
        let (segments, problems) = (report.segments, report.problems.join("; "));
        Ok(format!(
            "{segments} segments evicted, {} stay; {problems}",
            report.kept
        ))
    }

    /// Removes from the remote what is not live there, over a bad line or a good one.
    pub(crate) fn prune(&mut self, number: usize) -> Result<String, Fail> {
        let faults = self.choices.below(2) * 8;
        if faults > 0 {
            self.bad_line(number, faults, false);
        }
        let device = &self.devices[number];
        let pruned = device
            .vault()
            .prune_remote(device.remote, Duration::ZERO, &mut |_| GoOn::Yes);
        self.plan(None);
        match pruned {
            Ok(report) => {
                self.has_pushed(number, &SyncReport::default())
                    .map_err(Fail::Violation)?;
                let (objects, bytes) = (report.objects, report.bytes);
                Ok(format!("pruned: {objects} objects of {bytes} bytes went"))
            }
            Err(error @ Error::KeysInUse) => {
                self.devices[number].drive()?;
                Ok(error.to_string())
            }
            Err(error @ Error::RemoteAhead) => Ok(error.to_string()),
            Err(error) => Err(error.into()),
        }
    }

    /// All of a device is at the remote. (6)
    pub(crate) fn has_pushed(&mut self, number: usize, report: &SyncReport) -> Result<(), String> {
        let device = &mut self.devices[number];
        if device.standing == Standing::Removed && report.pushed.publications > 0 {
            return Err(format!(
                "(6): device {number} was removed and has published"
            ));
        }
        if matches!(device.standing, Standing::Member | Standing::Leaving { .. }) {
            device.published(&mut self.truth);
        }
        self.story.count(Counted::Syncs);
        if report.pulled.merged > 0 {
            self.story.count(Counted::Merges);
        }
        self.keys_by = self.keys_by.filter(|by| *by != number);
        self.tell_twins_apart(number)
            .map_err(|error| format!("(1): device {number}: {error}"))?;
        for other in &mut self.devices {
            if other.standing == (Standing::Leaving { by: number }) {
                other.standing = Standing::Removed;
                other.durable.clear();
                other.erasing.clear();
            }
        }
        Ok(())
    }

    /// Whether this device may change keys now: it has all that others changed, and they will have what it changes.
    fn may_change_keys(&mut self, number: usize) -> Result<bool, Fail> {
        if !self.devices[number].is_member() || self.keys_by.is_some_and(|by| by != number) {
            return Ok(false);
        }
        let report = self.devices[number].sync()?;
        self.has_pushed(number, &report).map_err(Fail::Violation)?;
        if self.twins.is_some() {
            return Ok(false);
        }
        self.keys_by = Some(number);
        self.story.count(Counted::Keys);
        Ok(true)
    }

    fn keys(&self, number: usize) -> Result<Keys, Error> {
        let device = &self.devices[number];
        Keys::open_with(&device.folder, &device.secret(), unseen())
    }

    pub(crate) fn rotate(&mut self, number: usize) -> Result<String, Fail> {
        if !self.may_change_keys(number)? {
            return Ok("may not change keys".to_owned());
        }
        self.keys(number)?.rotate()?;
        Ok("keys rotated".to_owned())
    }

    /// At any time, also while others change keys: whatever a device said, and nobody took back, holds in the end.
    pub(crate) fn say_guessable(&mut self, number: usize) -> Result<String, Fail> {
        if !self.devices[number].is_member() || self.twins.is_some() {
            return Ok("may not say what remotes get".to_owned());
        }
        let mut keys = self.keys(number)?;
        let wish = *self.choices.one_of(&[Guessable::Yes, Guessable::No]);
        let changed = keys.set_guessable(wish)?;
        let device = &mut self.devices[number];
        device.said = device.guessable_changes().map_err(Fail::Violation)?;
        Ok(format!("{wish:?} to guessing, a change: {changed}"))
    }

    pub(crate) fn remove_device(&mut self, number: usize) -> Result<String, Fail> {
        let members = self
            .devices
            .iter()
            .filter(|device| device.is_member())
            .count();
        if members < 3 || !self.may_change_keys(number)? {
            return Ok("may not remove a device".to_owned());
        }
        let others: Vec<usize> = (0..self.devices.len())
            .filter(|other| *other != number && self.devices[*other].is_member())
            .collect();
        let other = *self.choices.one_of(&others);
        let id = self.devices[other].id()?;
        match self.keys(number)?.remove_device(&id) {
            Ok(()) => {}
            // It is a new device since it changed keys, and this one does not know that yet.
            Err(Error::Keys(why)) => return Ok(format!("device {other} is not removed: {why}")),
            Err(error) => return Err(error.into()),
        }
        self.devices[other].standing = Standing::Leaving { by: number };
        if self.choices.chance(1, 2) {
            self.keys(number)?.rotate()?;
        }
        Ok(format!("device {other} removed"))
    }

    /// A new device, over a bad line or a good one.
    pub(crate) fn add_device(&mut self) -> Result<String, String> {
        let members = self
            .devices
            .iter()
            .filter(|device| device.is_member())
            .count();
        if members >= DEVICES_MAX || self.keys_by.is_some() || self.twins.is_some() {
            return Ok("no new device now".to_owned());
        }
        let number = self.devices.len();
        let faults = self.choices.below(2) * 15;
        let mut line = Choices::new(self.choices.number());
        self.plan(Some(Box::new(move |_, _| fate(&mut line, faults))));
        let folder = self.place.join(number.to_string());
        let content = match number.is_multiple_of(2) {
            true => CloneContent::AtRemote,
            false => CloneContent::Here,
        };
        let mut cloned = self.clone_into(&folder, content);
        self.plan(None);
        if matches!(&cloned, Err(error) if error.to_string().contains("the line was cut")) {
            self.story.count(Counted::Faults);
            // It goes on.
            cloned = self.clone_into(&folder, content);
        }
        let report = match cloned {
            Err(error) if self.may_be_refused(&error) => {
                let emptied = fs::remove_dir_all(&folder);
                emptied.map_err(|error| format!("a refused clone: {error}"))?;
                return Ok("a clone on demand is refused".to_owned());
            }
            cloned => cloned.map_err(|error| format!("(1): a clone: {error}"))?,
        };
        self.lacks_nothing(&report)?;
        let clock = self.clock();
        let device = Device::new(number, folder, CLONED_FROM, clock, &self.key);
        self.devices
            .push(device.map_err(|error| format!("(1): a clone does not open: {error}"))?);
        self.keys_by = Some(number);
        self.story.count(Counted::Clones);
        Ok("cloned".to_owned())
    }

    pub(crate) fn clone_into(
        &self,
        folder: &Path,
        content: CloneContent,
    ) -> Result<CloneReport, Error> {
        let secret = strongroom::Secret::KeyFile(self.key.clone());
        let options = CloneOptions {
            trust: unseen(),
            content,
            ..CloneOptions::default()
        };
        clone(&self.address, folder, &secret, options, &mut |_| GoOn::Yes)
    }
}

/// Evicts by a limit, which is removed then: otherwise the judge, who reads everything, would never find a device at rest.
fn evict_half(vault: &Vault) -> Result<EvictReport, Error> {
    let here = vault.information()?.here_bytes;
    vault.set_keep_at_most(Some(here / 2))?;
    let evicted = vault.evict_to_limit(&mut |_| GoOn::Yes);
    vault.set_keep_at_most(None)?;
    evicted
}

/// A report in few words, with the kinds of objects that were made.
pub(crate) fn brief(report: &SyncReport, line: &Line) -> String {
    let SyncReport { pulled, pushed, .. } = report;
    let made = line.take_counts().into_iter();
    let made = made.filter(|((verb, _), count)| *verb == Verb::Create && count.bytes > 0);
    let made = made
        .map(|((_, kind), count)| format!("{} {kind} of {} bytes", count.requests, count.bytes));
    format!(
        "{} publications came, {} names, {} nodes, {} conflicts, {} merged; {} went, {}",
        pulled.publications,
        pulled.names,
        pulled.nodes,
        pulled.conflicts,
        pulled.merged,
        pushed.publications,
        made.collect::<Vec<_>>().join(", ")
    )
}

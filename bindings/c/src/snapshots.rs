//! Snapshots: taken, listed, read, restored.

use std::ffi::{c_char, c_int};

use strongroom::{Error, NewRevision, Retention, RevisionInfo, Snapshot, Whose};

use crate::border::{Outcome, asked, count, done, given, invalid, items, out, signed, text, utf8};
use crate::directories;
use crate::files;
use crate::handles::{Object, keep};
use crate::memory::{list, unlist};
use crate::types::{
    SR_SCHEDULED, SR_UNNAMED, links, sr_bytes, sr_directory, sr_erased, sr_file, sr_names,
    sr_retention, sr_snapshot, sr_stat, sr_usage, sr_vault, sr_walk,
};

/// A snapshot that is kept.
#[repr(C)]
#[derive(Debug)]
pub struct sr_snapshot_info {
    /// Its name: 64 hexadecimal digits and NUL. It is a selector, as is a beginning of it.
    pub id: [c_char; 65],
    /// When it was taken, in nanoseconds since 1970.
    pub time: i64,
    /// What somebody said about it.
    pub message: sr_bytes,
    /// Its tags.
    pub tags: sr_names,
}

/// Snapshots, oldest first. Give them back with sr_snapshots_free.
#[repr(C)]
#[derive(Debug)]
pub struct sr_snapshots {
    /// The snapshots; NULL if there is none.
    pub items: *mut sr_snapshot_info,
    /// How many. Do not change it.
    pub count: u64,
}

impl From<RevisionInfo> for sr_snapshot_info {
    fn from(one: RevisionInfo) -> Self {
        let mut id = [0; 65];
        for (place, digit) in id[..64].iter_mut().zip(one.id.to_string().bytes()) {
            *place = digit as c_char;
        }
        Self {
            id,
            time: one.time.0,
            message: one.message.into_bytes().into(),
            tags: one.tags.into(),
        }
    }
}

impl From<Vec<RevisionInfo>> for sr_snapshots {
    fn from(all: Vec<RevisionInfo>) -> Self {
        let (items, count) = list(all.into_iter().map(sr_snapshot_info::from).collect());
        Self { items, count }
    }
}

/// Takes a snapshot of everything, durable on return: 1, or 0 if `only_if_changed` and nothing changed since the newest. `message` may be
/// NULL; `tags`: `tag_count` names that select it, as "t:NAME".
///
/// Fails with -EEXIST if another snapshot has one of the tags, -EINVAL for what is no tag or a message above 16 KiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_take_snapshot(
    vault: sr_vault,
    message: *const c_char,
    tags: *const *const c_char,
    tag_count: u64,
    only_if_changed: bool,
) -> c_int {
    asked(|| {
        let message = match message.is_null() {
            true => String::new(),
            false => utf8(message)?.to_owned(),
        };
        let mut names = Vec::new();
        for tag in items(tags, tag_count)? {
            names.push(utf8(*tag)?.to_owned());
        }
        names.sort();
        let taken = vault.get()?.take_revision(&NewRevision {
            message,
            tags: names,
            only_if_changed,
        })?;
        Ok(taken.is_some())
    })
}

/// Gives all snapshots.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_list_snapshots(vault: sr_vault, snapshots: *mut sr_snapshots) -> c_int {
    done(|| {
        let answer = out(snapshots)?;
        answer.put(vault.get()?.revisions()?.into());
        Ok(())
    })
}

/// Gives back what sr_list_snapshots or sr_thin filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshots_free(snapshots: *mut sr_snapshots) {
    if snapshots.is_null() {
        return;
    }
    for mut one in unlist((*snapshots).items, (*snapshots).count) {
        crate::memory::sr_bytes_free(&raw mut one.message);
        crate::memory::sr_names_free(&raw mut one.tags);
    }
    (*snapshots).items = std::ptr::null_mut();
    (*snapshots).count = 0;
}

/// Removes the snapshot that `selector` means: a tag "t:…", a date "d:…", the beginning of an id. Its space comes back in the background.
///
/// Fails with -ENOENT if it means none or several.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_remove_snapshot(vault: sr_vault, selector: *const c_char) -> c_int {
    done(|| {
        let selector = utf8(selector)?;
        let vault = vault.get()?;
        let one = vault.select_revision(selector)?;
        Ok(vault.remove_revision(one.id)?)
    })
}

/// Brings back what the snapshot that `selector` means had at `path`, to the path `to`; gives how many nodes. What is at `to` is replaced at
/// once. Files below a directory whose content was erased are left out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_restore(
    vault: sr_vault,
    selector: *const c_char,
    path: *const c_char,
    to: *const c_char,
) -> i64 {
    count(|| {
        let (selector, path, to) = (utf8(selector)?, text(path)?, text(to)?);
        let vault = vault.get()?;
        let one = vault.select_revision(selector)?;
        Ok(signed(vault.restore(one.id, path, to)?.nodes))
    })
}

/// Gives the paths at and below `path` that differ between the snapshots that `before` and `after` mean, a directory before what lies in it.
/// `after` is NULL for now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_differences(
    vault: sr_vault,
    before: *const c_char,
    after: *const c_char,
    path: *const c_char,
    paths: *mut sr_names,
) -> c_int {
    done(|| {
        let (before, path, answer) = (utf8(before)?, text(path)?, out(paths)?);
        let vault = vault.get()?;
        let before = vault.select_revision(before)?.id;
        let after = match after.is_null() {
            true => None,
            false => Some(vault.select_revision(utf8(after)?)?.id),
        };
        let mut found = Vec::new();
        vault.differences(before, after, path, |one| {
            found.push(one.path);
            Ok::<_, Error>(())
        })?;
        answer.put(found.into());
        Ok(())
    })
}

// ---- the space that snapshots take

impl From<Retention> for sr_retention {
    fn from(rule: Retention) -> Self {
        Self {
            last: rule.last,
            hourly: rule.hourly,
            daily: rule.daily,
            weekly: rule.weekly,
            monthly: rule.monthly,
            yearly: rule.yearly,
            whose: match rule.whose {
                Whose::Scheduled => SR_SCHEDULED,
                Whose::Unnamed => SR_UNNAMED,
            },
        }
    }
}

impl sr_retention {
    fn rule(self) -> Outcome<Retention> {
        Ok(Retention {
            last: self.last,
            hourly: self.hourly,
            daily: self.daily,
            weekly: self.weekly,
            monthly: self.monthly,
            yearly: self.yearly,
            whose: match self.whose {
                SR_SCHEDULED => Whose::Scheduled,
                SR_UNNAMED => Whose::Unnamed,
                _ => return Err(invalid("`whose` must be SR_SCHEDULED or SR_UNNAMED")),
            },
        })
    }
}

/// Gives the rule of the vault for its snapshots, by which sr_thin goes: 1, or 0 if none was set, and `rule` is the default one. It is the
/// shared rule; where a rule was set on this device, it keeps what either of both keeps.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_get_retention(vault: sr_vault, rule: *mut sr_retention) -> c_int {
    asked(|| {
        let answer = out(rule)?;
        let found = vault.get()?.retention()?;
        answer.put(found.unwrap_or(Retention::DEFAULT).into());
        Ok(found.is_some())
    })
}

/// Gives the rule that was set last, on whichever device of a vault with remotes, as far as this device has synced: 1, or 0 if none was set,
/// and `rule` is the default one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_get_shared_retention(
    vault: sr_vault,
    rule: *mut sr_retention,
) -> c_int {
    asked(|| {
        let answer = out(rule)?;
        let found = vault.get()?.shared_retention()?;
        answer.put(found.unwrap_or(Retention::DEFAULT).into());
        Ok(found.is_some())
    })
}

/// Sets the rule of the vault for its snapshots, also for the other devices; durable on return. Nothing goes before sr_thin is called or a
/// schedule takes the next snapshot.
///
/// Fails with -EINVAL for a rule that keeps nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_set_retention(vault: sr_vault, rule: *const sr_retention) -> c_int {
    done(|| {
        let rule = given(rule)?.rule()?;
        Ok(vault.get()?.set_retention(&rule)?)
    })
}

/// Removes the snapshots that the rule of sr_get_retention lets go; gives how many. `gone` may be NULL.
/// Their space comes back in the background.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_thin(vault: sr_vault, gone: *mut sr_snapshots) -> i64 {
    count(|| {
        let vault = vault.get()?;
        let rule = vault.retention()?.unwrap_or(Retention::DEFAULT);
        let removed = vault.thin(&rule)?;
        let number = signed(removed.len() as u64);
        if let Ok(answer) = out(gone) {
            answer.put(removed.into());
        }
        Ok(number)
    })
}

/// Gives what the stored content is for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_get_usage(vault: sr_vault, usage: *mut sr_usage) -> c_int {
    done(|| {
        let answer = out(usage)?;
        let usage = vault.get()?.usage()?;
        answer.put(sr_usage {
            live_bytes: usage.live_bytes,
            kept_bytes: usage.kept_bytes,
            waste_bytes: usage.waste_bytes,
        });
        Ok(())
    })
}

/// Takes the content of what was at `path`, with all below a directory, out of every snapshot, for good: here, and on the other devices when
/// they have synced. Names and attributes stay there. With `trial` nothing is done. `erased` may be NULL.
///
/// Fails with -EINVAL if something is at `path` now: remove it first; -ENOENT if no snapshot has anything there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_erase(
    vault: sr_vault,
    path: *const c_char,
    trial: bool,
    erased: *mut sr_erased,
) -> c_int {
    done(|| {
        let path = text(path)?;
        let found = vault.get()?.erase(path, trial)?;
        if let Ok(answer) = out(erased) {
            answer.put(sr_erased {
                snapshots: found.states,
                files: found.files,
                bytes: found.bytes,
                shared_bytes: found.shared_bytes,
                segments_left: found.segments_left,
            });
        }
        Ok(())
    })
}

// ---- reading one state

fn kept(state: Snapshot, vault: sr_vault) -> Outcome<sr_snapshot> {
    let id = keep(Object::Snapshot(state), vault.id)?;
    Ok(sr_snapshot { id })
}

/// The handle of the vault, for what is opened through a snapshot of it.
fn vault_of(snapshot: sr_snapshot) -> Outcome<sr_vault> {
    let id = crate::handles::vault_of(snapshot.id)?;
    Ok(sr_vault { id })
}

/// Opens the state of now, to be read in many calls while others write. It goes when it is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_open(vault: sr_vault, snapshot: *mut sr_snapshot) -> c_int {
    done(|| {
        let answer = out(snapshot)?;
        let state = vault.get()?.snapshot()?;
        answer.put(kept(state, vault)?);
        Ok(())
    })
}

/// Opens the snapshot that `selector` means, to be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_at(
    vault: sr_vault,
    selector: *const c_char,
    snapshot: *mut sr_snapshot,
) -> c_int {
    done(|| {
        let (selector, answer) = (utf8(selector)?, out(snapshot)?);
        let state = vault.get()?.at(selector)?;
        answer.put(kept(state, vault)?);
        Ok(())
    })
}

/// Closes a state. Files and listings that were opened through it stay open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_close(snapshot: sr_snapshot) -> c_int {
    done(|| snapshot.take().map(drop))
}

/// As sr_read_file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_read_file(
    snapshot: sr_snapshot,
    path: *const c_char,
    content: *mut sr_bytes,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(content)?);
        answer.put(snapshot.get()?.read(path)?.into());
        Ok(())
    })
}

/// As sr_exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_exists(snapshot: sr_snapshot, path: *const c_char) -> c_int {
    asked(|| Ok(snapshot.get()?.exists(text(path)?)?))
}

/// As sr_get_stat.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_get_stat(
    snapshot: sr_snapshot,
    path: *const c_char,
    links: u32,
    stat: *mut sr_stat,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(stat)?);
        let links = self::links(links)?;
        answer.put(sr_stat::from(&snapshot.get()?.attributes(path, links)?));
        Ok(())
    })
}

/// As sr_read_link.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_read_link(
    snapshot: sr_snapshot,
    path: *const c_char,
    target: *mut sr_bytes,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(target)?);
        answer.put(snapshot.get()?.read_link(path)?.into());
        Ok(())
    })
}

/// As sr_get_xattr.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_get_xattr(
    snapshot: sr_snapshot,
    path: *const c_char,
    links: u32,
    name: *const c_char,
    value: *mut sr_bytes,
) -> c_int {
    done(|| {
        let (path, name, answer) = (text(path)?, text(name)?, out(value)?);
        let links = self::links(links)?;
        answer.put(snapshot.get()?.xattr(path, links, name)?.into());
        Ok(())
    })
}

/// As sr_list_xattrs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_list_xattrs(
    snapshot: sr_snapshot,
    path: *const c_char,
    links: u32,
    names: *mut sr_names,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(names)?);
        let links = self::links(links)?;
        answer.put(snapshot.get()?.xattrs(path, links)?.into());
        Ok(())
    })
}

/// As sr_file_open with SR_READ.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_file_open(
    snapshot: sr_snapshot,
    path: *const c_char,
    file: *mut sr_file,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(file)?);
        let vault = vault_of(snapshot)?;
        let opened = snapshot.get()?.open_file(path)?;
        answer.put(files::kept(opened, vault)?);
        Ok(())
    })
}

/// As sr_directory_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_directory_open(
    snapshot: sr_snapshot,
    path: *const c_char,
    directory: *mut sr_directory,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(directory)?);
        let vault = vault_of(snapshot)?;
        let listed = snapshot.get()?.list(path)?;
        answer.put(directories::kept(listed, vault.id)?);
        Ok(())
    })
}

/// As sr_walk_open; the paths are those of the state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_snapshot_walk_open(
    snapshot: sr_snapshot,
    path: *const c_char,
    walk: *mut sr_walk,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(walk)?);
        let vault = vault_of(snapshot)?;
        let walked = snapshot.get()?.walk(path)?;
        answer.put(directories::kept_walk(walked, vault.id)?);
        Ok(())
    })
}

//! Remotes: sync with other devices.

use std::ffi::{c_char, c_int, c_void};

use strongroom::{
    CloneProgress, DevicePublication, Error, Keep, PullReport, PushReport, Rates, RemoteInfo,
    RemoteProgress, RemoteStatus, Removal, SyncReport,
};

use crate::border::{
    Outcome, asked, check_not_called_back, count, done, given, invalid, machine_path, out, signed,
    text, utf8,
};
use crate::handles::check_not_forked;
use crate::memory::{list, unlist};
use crate::types::{sr_bytes, sr_names, sr_options, sr_secret, sr_told, sr_vault};
use crate::vaults::goes_on;

/// keep: the copy, under the name of the published one, which goes.
pub const SR_KEEP_MINE: u32 = 0;
/// keep: the published one; the copy goes.
pub const SR_KEEP_THEIRS: u32 = 1;
/// keep: both; the copy gets an ordinary name.
pub const SR_KEEP_BOTH: u32 = 2;

/// What went to a remote.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct sr_pushed {
    /// Objects that went up, but for publications.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Publications that were made; 0: there was nothing new.
    pub publications: u64,
}

impl From<PushReport> for sr_pushed {
    fn from(report: PushReport) -> Self {
        Self {
            objects: report.objects,
            bytes: report.bytes,
            publications: report.publications,
        }
    }
}

/// What came from a remote. Give it back with sr_pulled_free.
#[repr(C)]
#[derive(Debug)]
pub struct sr_pulled {
    /// Objects that came down, but for publications.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Publications that were taken in; 0: there was nothing new.
    pub publications: u64,
    /// Names that came, went or mean another file now.
    pub names: u64,
    /// Files, directories and others that are new or were changed.
    pub nodes: u64,
    /// Changes here and there that could not be joined.
    pub conflicts: u64,
    /// The paths of their copies, as far as they fit; sr_conflicts gives all.
    pub conflict_paths: sr_names,
    /// Texts that both sides changed in different lines: they have the lines of both.
    pub merged: u64,
    /// The paths of the first thousand of them.
    pub merged_paths: sr_names,
    /// Sealed bytes of content that another device erased, and that were erased here, too.
    pub erased_bytes: u64,
    /// Sealed bytes that stay, because a file here has that content now, or another file has it in a snapshot.
    pub unerased_bytes: u64,
    /// Why such content was not erased, a line each; it is tried again later.
    pub erase_problems: sr_names,
    /// Deposits that came into /Inbox.
    pub received: u64,
    /// The paths of the first thousand of them.
    pub received_paths: sr_names,
    /// Deposits that did not come, with the reason, a line each.
    pub deposit_problems: sr_names,
    /// Of a sync: what went up.
    pub pushed: sr_pushed,
    /// Of a sync: segments that went from this disk for the limit of this device.
    pub evicted_segments: u64,
    /// Their bytes.
    pub evicted_bytes: u64,
}

impl From<PullReport> for sr_pulled {
    fn from(report: PullReport) -> Self {
        Self {
            objects: report.objects,
            bytes: report.bytes,
            publications: report.publications,
            names: report.names,
            nodes: report.nodes,
            conflicts: report.conflicts,
            conflict_paths: report.conflict_paths.into(),
            merged: report.merged,
            merged_paths: report.merged_paths.into(),
            erased_bytes: report.erased_bytes,
            unerased_bytes: report.unerased_bytes,
            erase_problems: report.erase_problems.into(),
            received: report.received,
            received_paths: report.received_paths.into(),
            deposit_problems: report.deposit_problems.into(),
            pushed: sr_pushed::default(),
            evicted_segments: 0,
            evicted_bytes: 0,
        }
    }
}

impl From<SyncReport> for sr_pulled {
    fn from(report: SyncReport) -> Self {
        Self {
            pushed: report.pushed.into(),
            evicted_segments: report.evicted_segments,
            evicted_bytes: report.evicted_bytes,
            ..Self::from(report.pulled)
        }
    }
}

/// Gives back what sr_pull or sr_sync_with filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_pulled_free(pulled: *mut sr_pulled) {
    if !pulled.is_null() {
        crate::memory::sr_names_free(&raw mut (*pulled).conflict_paths);
        crate::memory::sr_names_free(&raw mut (*pulled).merged_paths);
        crate::memory::sr_names_free(&raw mut (*pulled).erase_problems);
        crate::memory::sr_names_free(&raw mut (*pulled).received_paths);
        crate::memory::sr_names_free(&raw mut (*pulled).deposit_problems);
    }
}

/// Adds a remote: `url` as "folder:/path", "s3://bucket/prefix" and so on. An empty place becomes this vault's. `keep`: this device removes
/// nothing there, also with sr_prune_remote.
///
/// Fails with -EEXIST if the name is taken or the place is another vault's, -EINVAL for what is no name or URL, -EHOSTUNREACH, -EACCES.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_add_remote(
    vault: sr_vault,
    name: *const c_char,
    url: *const c_char,
    keep: bool,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let (name, url) = (utf8(name)?, utf8(url)?);
        let removal = match keep {
            true => Removal::Never,
            false => Removal::Later,
        };
        Ok(vault.get()?.add_remote_with(name, url, removal)?)
    })
}

/// Gives the names of all remotes, in the order in which they were added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_remotes(vault: sr_vault, names: *mut sr_names) -> c_int {
    done(|| {
        let answer = out(names)?;
        let remotes = vault.get()?.remotes()?.into_iter();
        let names: Vec<String> = remotes.map(|one| one.name).collect();
        answer.put(names.into());
        Ok(())
    })
}

/// A remote of a vault. Give it back with sr_remote_free.
#[repr(C)]
#[derive(Debug)]
pub struct sr_remote {
    /// Where it is, without credentials.
    pub url: sr_bytes,
    /// What people compare on two devices: where `publications` are equal and these differ, the remote has shown them different histories.
    /// Empty before the first publication.
    pub code: sr_bytes,
    /// Publications that this vault made there or read.
    pub publications: u64,
    /// Segments and snapshots that it has.
    pub objects: u64,
    /// Whether this device removes nothing there.
    pub keeps: bool,
}

impl From<RemoteInfo> for sr_remote {
    fn from(remote: RemoteInfo) -> Self {
        Self {
            url: remote.address.into_bytes().into(),
            code: remote.code.into_bytes().into(),
            publications: remote.publications,
            objects: remote.objects,
            keeps: remote.removal == Removal::Never,
        }
    }
}

/// Gives back what sr_get_remote filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_remote_free(remote: *mut sr_remote) {
    if !remote.is_null() {
        crate::memory::sr_bytes_free(&raw mut (*remote).url);
        crate::memory::sr_bytes_free(&raw mut (*remote).code);
    }
}

/// Gives what this device knows of a remote. Fails with -ENOENT if none has that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_get_remote(
    vault: sr_vault,
    name: *const c_char,
    remote: *mut sr_remote,
) -> c_int {
    done(|| {
        let (name, answer) = (utf8(name)?, out(remote)?);
        let mut remotes = vault.get()?.remotes()?.into_iter();
        let found = remotes.find(|one| one.name == name);
        let found = found.ok_or_else(|| Error::UnknownRemote(name.to_owned()))?;
        answer.put(found.into());
        Ok(())
    })
}

/// The newest publication of a device at a remote.
#[repr(C)]
#[derive(Debug)]
pub struct sr_publication {
    /// The id of the device: 16 hexadecimal digits.
    pub device: sr_bytes,
    /// What people call it; empty if it has no name.
    pub name: sr_bytes,
    /// The number of the publication.
    pub number: u64,
    /// When it was made, in seconds since 1970, by the clock of that device.
    pub time_s: u64,
    /// Whether it is the device that this copy of the vault acts as.
    pub is_this: bool,
}

/// What waits for a remote, and which devices published there. Give it back with sr_remote_status_free.
#[repr(C)]
#[derive(Debug)]
pub struct sr_remote_status {
    /// Sealed bytes on this disk that the remote does not have, of all snapshots. Some of them may wait for the next change.
    pub waiting_bytes: u64,
    /// Files, symlinks and special files that were made, changed or moved since the state that the remote has; -1 if that is not known.
    pub waiting_files: i64,
    /// Sealed bytes of content that is not on this disk and that the remote has.
    pub away_bytes: u64,
    /// Those of them that no other remote has.
    pub alone_bytes: u64,
    /// When the remote answered last, in seconds since 1970; 0 if that is not known.
    pub contact_s: u64,
    /// Whether a push would publish something: also a removal or another name, for which no file waits.
    pub is_waiting: bool,
    /// The newest publication of each device, newest first; NULL if there is none.
    pub newest: *mut sr_publication,
    /// How many. Do not change it.
    pub newest_count: u64,
}

impl From<DevicePublication> for sr_publication {
    fn from(one: DevicePublication) -> Self {
        Self {
            device: one.device.into_bytes().into(),
            name: one.name.unwrap_or_default().into_bytes().into(),
            number: one.number,
            time_s: one.time_s,
            is_this: one.is_this,
        }
    }
}

impl From<RemoteStatus> for sr_remote_status {
    fn from(status: RemoteStatus) -> Self {
        let newest = status.newest.into_iter().map(sr_publication::from);
        let (newest, newest_count) = list(newest.collect());
        Self {
            waiting_bytes: status.waiting_bytes,
            waiting_files: status.waiting_files.map_or(-1, signed),
            away_bytes: status.away_bytes,
            alone_bytes: status.alone_bytes,
            contact_s: status.contact_s.unwrap_or(0),
            is_waiting: status.is_waiting,
            newest,
            newest_count,
        }
    }
}

/// Gives back what sr_get_remote_status filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_remote_status_free(status: *mut sr_remote_status) {
    if status.is_null() {
        return;
    }
    for mut one in unlist((*status).newest, (*status).newest_count) {
        crate::memory::sr_bytes_free(&raw mut one.device);
        crate::memory::sr_bytes_free(&raw mut one.name);
    }
    (*status).newest = std::ptr::null_mut();
    (*status).newest_count = 0;
}

/// Gives the state of a remote as this device knows it, and asks no remote. Everything that was done so far is durable then. It takes time in
/// proportion to what changed since the last push.
///
/// Fails with -ENOENT if no remote has that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_get_remote_status(
    vault: sr_vault,
    name: *const c_char,
    status: *mut sr_remote_status,
) -> c_int {
    done(|| {
        let (name, answer) = (utf8(name)?, out(status)?);
        answer.put(vault.get()?.remote_status(name)?.into());
        Ok(())
    })
}

/// Forgets a remote. What is there stays there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_remove_remote(vault: sr_vault, name: *const c_char) -> c_int {
    done(|| {
        check_not_called_back()?;
        let name = utf8(name)?;
        Ok(vault.get()?.remove_remote(name)?)
    })
}

/// Compares a remote with what its publications say that it has: 1 if all is there, 0 if not; then `problems`, unless it is NULL, says what is
/// missing or not as it was written, a line each. `deep`: also read every byte. `told` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_check_remote(
    vault: sr_vault,
    name: *const c_char,
    deep: bool,
    told: sr_told,
    context: *mut c_void,
    problems: *mut sr_names,
) -> c_int {
    asked(|| {
        check_not_called_back()?;
        let name = utf8(name)?;
        let report = vault
            .get()?
            .check_remote(name, deep, &mut |progress: &RemoteProgress| {
                goes_on(told, context, progress.bytes, progress.bytes_total)
            })?;
        let is_sound = report.problems.is_empty();
        if let Ok(answer) = out(problems) {
            answer.put(report.problems.into());
        }
        Ok(is_sound)
    })
}

/// From now on uses all remotes together at most so fast, in bytes per second; 0: as fast as the line is. An object, up to 16 MiB, goes up in
/// one request, and the next one waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_limit_remotes(vault: sr_vault, up: u64, down: u64) -> c_int {
    done(|| {
        let limit = |rate: u64| (rate > 0).then_some(rate);
        let (up, down) = (limit(up), limit(down));
        vault.get()?.limit_remotes(Rates { up, down });
        Ok(())
    })
}

/// Brings the remote to the state of the vault. `told` and `pushed` may be NULL. A push that was stopped is continued by the next one.
///
/// Fails with -EBUSY if the remote has changes of another device: use sr_sync_with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_push(
    vault: sr_vault,
    name: *const c_char,
    told: sr_told,
    context: *mut c_void,
    pushed: *mut sr_pushed,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let name = utf8(name)?;
        let report = vault.get()?.push(name, &mut |progress: &RemoteProgress| {
            goes_on(told, context, progress.bytes, progress.bytes_total)
        })?;
        if let Ok(answer) = out(pushed) {
            answer.put(report.into());
        }
        Ok(())
    })
}

/// Brings what others pushed into the vault, and joins it with what changed here. `told` and `pulled` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_pull(
    vault: sr_vault,
    name: *const c_char,
    told: sr_told,
    context: *mut c_void,
    pulled: *mut sr_pulled,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let name = utf8(name)?;
        let report = vault.get()?.pull(name, &mut |progress: &RemoteProgress| {
            goes_on(told, context, progress.bytes, progress.bytes_total)
        })?;
        if let Ok(answer) = out(pulled) {
            answer.put(report.into());
        }
        Ok(())
    })
}

/// Pulls, then pushes, until this device and the remote have the same; gives how many conflicts there were. `told` and `pulled` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_sync_with(
    vault: sr_vault,
    name: *const c_char,
    told: sr_told,
    context: *mut c_void,
    pulled: *mut sr_pulled,
) -> i64 {
    count(|| {
        check_not_called_back()?;
        let name = utf8(name)?;
        let report = vault
            .get()?
            .sync_with(name, &mut |progress: &RemoteProgress| {
                goes_on(told, context, progress.bytes, progress.bytes_total)
            })?;
        let conflicts = report.pulled.conflicts;
        if let Ok(answer) = out(pulled) {
            answer.put(report.into());
        }
        Ok(signed(conflicts))
    })
}

/// Makes a vault in `folder` of the machine out of the remote at `url`, where it is called "origin". Open it then, and sync it once, so that
/// the other devices know it. `options` and `told` may be NULL; with SR_ON_DEMAND the content of files stays there until it is read.
/// Interrupted at any moment, the same call continues.
///
/// Fails with -ENOENT if there is no vault, -EACCES for a wrong secret, and as sr_create for the folder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_clone(
    url: *const c_char,
    folder: *const c_char,
    secret: *const sr_secret,
    options: *const sr_options,
    told: sr_told,
    context: *mut c_void,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        check_not_forked()?;
        let (url, folder) = (utf8(url)?, machine_path(folder)?);
        let options = sr_options::read_for_clone(options)?;
        let secret = given(secret)?.to_open()?;
        strongroom::clone(url, folder, &secret, options, &mut |progress| {
            let CloneProgress::Down(down) = progress else {
                return goes_on(told, context, 0, 0);
            };
            goes_on(told, context, down.bytes, down.bytes_total)
        })?;
        Ok(())
    })
}

/// Gives the paths of all conflict copies: what one device had where another had published something else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_conflicts(vault: sr_vault, paths: *mut sr_names) -> c_int {
    done(|| {
        let answer = out(paths)?;
        let found = vault.get()?.conflicts(&mut |_| {})?.into_iter();
        answer.put(found.map(|one| one.path).collect::<Vec<_>>().into());
        Ok(())
    })
}

fn keep(keep: u32) -> Outcome<Keep> {
    match keep {
        SR_KEEP_MINE => Ok(Keep::Mine),
        SR_KEEP_THEIRS => Ok(Keep::Theirs),
        SR_KEEP_BOTH => Ok(Keep::Both),
        _ => Err(invalid("`keep` must be SR_KEEP_MINE or similar")),
    }
}

/// Ends a conflict. `path`: that of the copy. `kept`, unless NULL: the path of what stays, or with SR_KEEP_BOTH of the copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_settle_conflict(
    vault: sr_vault,
    path: *const c_char,
    keep: u32,
    kept: *mut sr_bytes,
) -> c_int {
    done(|| {
        let path = text(path)?;
        let keep = self::keep(keep)?;
        let stays = vault.get()?.settle_conflict(path, keep)?;
        if let Ok(answer) = out(kept) {
            answer.put(stays.into());
        }
        Ok(())
    })
}

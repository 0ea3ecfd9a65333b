//! Space here and at remotes: content that is only at remotes, what is pinned, and what nothing refers to any more.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use strongroom::{BringBackReport, EvictReport, PruneReport, RemoteProgress};

use crate::border::{Fail, Outcome, asked, check_not_called_back, done, out, text, utf8};
use crate::types::{sr_names, sr_told, sr_vault};
use crate::vaults::goes_on;

/// What an eviction did. Give it back with sr_evicted_free.
#[repr(C)]
#[derive(Debug)]
pub struct sr_evicted {
    /// Segments that went from this disk.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments that stayed, because no remote has shown that it has them.
    pub kept: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// Segments that stayed, because content of something pinned lies in them.
    pub pinned: u64,
    /// Their bytes.
    pub pinned_bytes: u64,
    /// Why remotes were not asked, a line each.
    pub problems: sr_names,
}

/// What came back from remotes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sr_brought {
    /// Segments that came.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments that no remote has any more: sr_verify names the files that this costs.
    pub lost: u64,
    /// Their bytes.
    pub lost_bytes: u64,
}

/// What was removed from a remote.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sr_pruned {
    /// Objects that were removed.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects to which nothing refers any more, and which stay until the grace is over.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Such objects that the remote itself keeps for some days.
    pub kept: u64,
    /// Their bytes.
    pub kept_bytes: u64,
}

impl From<EvictReport> for sr_evicted {
    fn from(report: EvictReport) -> Self {
        Self {
            segments: report.segments,
            bytes: report.bytes,
            kept: report.kept,
            kept_bytes: report.kept_bytes,
            pinned: report.pinned,
            pinned_bytes: report.pinned_bytes,
            problems: report.problems.into(),
        }
    }
}

impl From<PruneReport> for sr_pruned {
    fn from(report: PruneReport) -> Self {
        Self {
            objects: report.objects,
            bytes: report.bytes,
            waiting: report.waiting,
            waiting_bytes: report.waiting_bytes,
            kept: report.kept,
            kept_bytes: report.kept_bytes,
        }
    }
}

/// Gives back what sr_evict or sr_evict_to_limit filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_evicted_free(evicted: *mut sr_evicted) {
    if !evicted.is_null() {
        crate::memory::sr_names_free(&raw mut (*evicted).problems);
    }
}

const STOPPED: Fail = Fail::Here(libc::ECANCELED, "stopped by the progress function");

/// A path, or NULL for the whole vault.
unsafe fn path_or_all<'a>(path: *const c_char) -> Outcome<Option<&'a [u8]>> {
    match path.is_null() {
        true => Ok(None),
        false => text(path).map(Some),
    }
}

/// Removes content from this disk that remotes have, to free space: of files at or below `path`, or of all for NULL. What is read later
/// comes back by itself. `told` and `evicted` may be NULL; if `told` stops the call, that fails with -ECANCELED, and what went stays away.
///
/// What is wrong with a remote is in `evicted`: then the content stays here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_evict(
    vault: sr_vault,
    path: *const c_char,
    told: sr_told,
    context: *mut c_void,
    evicted: *mut sr_evicted,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let path = path_or_all(path)?;
        let report = vault.get()?.evict(path, &mut |progress: &RemoteProgress| {
            goes_on(told, context, progress.bytes, progress.bytes_total)
        })?;
        put_evicted(evicted, report)
    })
}

unsafe fn put_evicted(evicted: *mut sr_evicted, report: EvictReport) -> Outcome<()> {
    if report.is_stopped {
        return Err(STOPPED);
    }
    if let Ok(answer) = out(evicted) {
        answer.put(report.into());
    }
    Ok(())
}

unsafe fn put_brought(brought: *mut sr_brought, report: BringBackReport) -> Outcome<()> {
    if report.is_stopped {
        return Err(STOPPED);
    }
    if let Ok(answer) = out(brought) {
        answer.put(sr_brought {
            segments: report.segments,
            bytes: report.bytes,
            lost: report.lost,
            lost_bytes: report.lost_bytes,
        });
    }
    Ok(())
}

/// Brings evicted content back: that of files at or below `path`, or all for NULL. `told` and `brought` may be NULL; if `told` stops the
/// call, that fails with -ECANCELED, and what came stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_bring_back(
    vault: sr_vault,
    path: *const c_char,
    told: sr_told,
    context: *mut c_void,
    brought: *mut sr_brought,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let path = path_or_all(path)?;
        let report = vault
            .get()?
            .bring_back(path, &mut |progress: &RemoteProgress| {
                goes_on(told, context, progress.bytes, progress.bytes_total)
            })?;
        put_brought(brought, report)
    })
}

/// Brings the content of what is at `path` here, with all below a directory, and keeps it here: sr_evict leaves it. Only this copy of the
/// vault knows that. `told` and `brought` as in sr_bring_back; a call that was stopped has pinned it all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_pin(
    vault: sr_vault,
    path: *const c_char,
    told: sr_told,
    context: *mut c_void,
    brought: *mut sr_brought,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let path = text(path)?;
        let report = vault.get()?.pin(path, &mut |progress: &RemoteProgress| {
            goes_on(told, context, progress.bytes, progress.bytes_total)
        })?;
        put_brought(brought, report)
    })
}

/// Lets sr_evict take the content of what is at `path` again: 1 if it was pinned, 0 if not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_unpin(vault: sr_vault, path: *const c_char) -> c_int {
    asked(|| {
        let path = text(path)?;
        Ok(vault.get()?.unpin(path)?)
    })
}

/// Gives the paths of what is pinned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_pins(vault: sr_vault, paths: *mut sr_names) -> c_int {
    done(|| {
        let answer = out(paths)?;
        answer.put(vault.get()?.pins()?.into());
        Ok(())
    })
}

/// A limit that is none: this device keeps all that comes.
pub const SR_NO_LIMIT: u64 = u64::MAX;

/// Gives how many bytes of segments this device keeps at most; SR_NO_LIMIT if it keeps all that comes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_get_keep_at_most(vault: sr_vault, bytes: *mut u64) -> c_int {
    done(|| {
        let answer = out(bytes)?;
        answer.put(vault.get()?.keep_at_most()?.unwrap_or(SR_NO_LIMIT));
        Ok(())
    })
}

/// Limits the bytes of segments that this device keeps, or ends that with SR_NO_LIMIT; durable on return. Only this copy of the vault knows
/// of it. Every sync then evicts what was least recently read, down to nine tenths of the limit, as far as its remote shows that it has it;
/// sr_pulled says how much. What is pinned, was not pushed or was just read stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_set_keep_at_most(vault: sr_vault, bytes: u64) -> c_int {
    done(|| {
        let limit = (bytes != SR_NO_LIMIT).then_some(bytes);
        Ok(vault.get()?.set_keep_at_most(limit)?)
    })
}

/// Evicts at once what a sync would evict for the limit of sr_set_keep_at_most; nothing if there is none. `told` and `evicted` may be NULL; if
/// `told` stops the call, that fails with -ECANCELED, and what went stays away.
///
/// What is wrong with a remote is in `evicted`; what stayed is not counted there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_evict_to_limit(
    vault: sr_vault,
    told: sr_told,
    context: *mut c_void,
    evicted: *mut sr_evicted,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let report = vault
            .get()?
            .evict_to_limit(&mut |progress: &RemoteProgress| {
                goes_on(told, context, progress.bytes, progress.bytes_total)
            })?;
        put_evicted(evicted, report)
    })
}

/// Removes from a remote what nothing has referred to for `grace_s` seconds. Devices do this by themselves with 604800, a week: with less, a
/// device that is reading there now may have to begin again. First it pushes. `told` and `pruned` may be NULL.
///
/// Fails with -EACCES if this device may remove nothing there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_prune_remote(
    vault: sr_vault,
    name: *const c_char,
    grace_s: u64,
    told: sr_told,
    context: *mut c_void,
    pruned: *mut sr_pruned,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let (name, grace) = (utf8(name)?, Duration::from_secs(grace_s));
        let report = vault
            .get()?
            .prune_remote(name, grace, &mut |progress: &RemoteProgress| {
                goes_on(told, context, progress.bytes, progress.bytes_total)
            })?;
        if let Ok(answer) = out(pruned) {
            answer.put(report.into());
        }
        Ok(())
    })
}

/// Says what sr_prune_remote may remove from a remote sooner or later, and removes nothing: it is what waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_unused_at_remote(
    vault: sr_vault,
    name: *const c_char,
    unused: *mut sr_pruned,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let answer = out(unused)?;
        let name = utf8(name)?;
        answer.put(vault.get()?.unused_at_remote(name)?.into());
        Ok(())
    })
}

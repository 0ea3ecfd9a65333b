//! Continuous sync: a thread of the library keeps the vault and all its remotes in sync.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Arc, Weak};
use std::time::Duration;

use strongroom::{PushReport, SyncEvent};

use crate::border::{call_back, check_not_called_back, done, out};
use crate::handles::{Object, keep};
use crate::remotes::sr_pulled;
use crate::syncing::Syncing;
use crate::types::{sr_continuous_sync, sr_vault};

/// sr_sync_event.kind: bytes are on their way; about twice a second.
pub const SR_SYNC_MOVING: u32 = 1;
/// sr_sync_event.kind: something moved, here or there.
pub const SR_SYNC_DONE: u32 = 2;
/// sr_sync_event.kind: it did not work, and is tried again; once for as long as it fails in the same way.
pub const SR_SYNC_FAILED: u32 = 3;
/// sr_sync_event.kind: it works again.
pub const SR_SYNC_RECOVERED: u32 = 4;
/// sr_sync_event.kind: the vault itself cannot be used any more; nothing follows.
pub const SR_SYNC_ENDED: u32 = 5;

/// What happened in a continuous sync. It is the library's, and gone after the call.
#[repr(C)]
#[derive(Debug)]
pub struct sr_sync_event {
    /// SR_SYNC_MOVING and so on; ignore one that you do not know.
    pub kind: u32,
    /// With SR_SYNC_FAILED and SR_SYNC_ENDED: why, as a negative number of errno.h.
    pub error: c_int,
    /// With them: why, as a sentence; else NULL.
    pub message: *const c_char,
    /// The name of the remote; NULL with SR_SYNC_ENDED.
    pub remote: *const c_char,
    /// With SR_SYNC_MOVING: bytes that are where they belong.
    pub bytes: u64,
    /// With SR_SYNC_MOVING: bytes of all.
    pub bytes_total: u64,
    /// With SR_SYNC_DONE: objects that went up.
    pub pushed_objects: u64,
    /// With SR_SYNC_DONE: their bytes.
    pub pushed_bytes: u64,
    /// With SR_SYNC_DONE: what came; else NULL. Do not give it back.
    pub pulled: *const sr_pulled,
    /// With SR_SYNC_FAILED: after so many milliseconds it is tried again.
    pub again_in_ms: u64,
}

/// Hears what happens in a continuous sync: `context` is yours. What it gives other than 0 ends the sync. It is called by the thread of the sync:
/// in it, functions on files may be used, and sr_continuous_sync_close; those on remotes and keys, sr_verify and sr_close fail with -EDEADLK.
pub type sr_heard =
    Option<unsafe extern "C" fn(context: *mut c_void, event: *const sr_sync_event) -> c_int>;

/// The function of a program, and what it is called with.
struct Listener {
    heard: sr_heard,
    context: *mut c_void,
}

// SAFETY: the pointer is not followed here. Whoever gives it knows that another thread calls the function: the header says so.
unsafe impl Send for Listener {}

impl Listener {
    /// Whether the sync is to go on. `&self`: so a closure takes all of it.
    unsafe fn hears(&self, event: &SyncEvent) -> bool {
        let Some(heard) = self.heard else { return true };
        let mut said = sr_sync_event {
            kind: 0,
            error: 0,
            message: std::ptr::null(),
            remote: std::ptr::null(),
            bytes: 0,
            bytes_total: 0,
            pushed_objects: 0,
            pushed_bytes: 0,
            pulled: std::ptr::null(),
            again_in_ms: 0,
        };
        let (mut message, mut pulled) = (None, None);
        let remote = match event {
            SyncEvent::Moving { remote, progress } => {
                said.kind = SR_SYNC_MOVING;
                said.bytes = progress.bytes;
                said.bytes_total = progress.bytes_total.max(progress.bytes);
                Some(remote)
            }
            SyncEvent::Synced { remote, report } => {
                let PushReport { objects, bytes, .. } = report.pushed;
                said.kind = SR_SYNC_DONE;
                (said.pushed_objects, said.pushed_bytes) = (objects, bytes);
                pulled = Some(sr_pulled::from(report.clone()));
                Some(remote)
            }
            SyncEvent::Failed {
                remote,
                error,
                again_in,
            } => {
                said.kind = SR_SYNC_FAILED;
                said.error = -error.errno();
                said.again_in_ms = u64::try_from(again_in.as_millis()).unwrap_or(u64::MAX);
                message = Some(c_text(&error.to_string()));
                Some(remote)
            }
            SyncEvent::Recovered { remote } => {
                said.kind = SR_SYNC_RECOVERED;
                Some(remote)
            }
            SyncEvent::Ended { error } => {
                said.kind = SR_SYNC_ENDED;
                said.error = -error.errno();
                message = Some(c_text(&error.to_string()));
                None
            }
            // One that this header has no word for.
            _ => return true,
        };
        let remote = remote.map(|name| c_text(name));
        said.message = message.as_ref().map_or(said.message, |text| text.as_ptr());
        said.remote = remote.as_ref().map_or(said.remote, |text| text.as_ptr());
        said.pulled = pulled.as_ref().map_or(said.pulled, std::ptr::from_ref);
        let answer = call_back(|| heard(self.context, &raw const said));
        if let Some(pulled) = &mut pulled {
            crate::remotes::sr_pulled_free(pulled);
        }
        answer == 0
    }
}

/// Text for C, which knows no NUL inside.
fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

/// From now on brings what changes here to all remotes, and what others push there into the vault, in a thread of the library. Remotes are
/// asked each second while something moves, and less often the longer nothing does, down to every `every_ms` milliseconds.
///
/// `heard` and `context` may be NULL. Both must stay valid until the sync was closed by another thread than its own, or its vault was. If
/// `heard` closes the sync itself, nobody waits for it: then both must stay valid until it has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_keep_in_sync(
    vault: sr_vault,
    every_ms: u64,
    heard: sr_heard,
    context: *mut c_void,
    sync: *mut sr_continuous_sync,
) -> c_int {
    done(|| {
        check_not_called_back()?;
        let answer = out(sync)?;
        let open = vault.get()?;
        let listener = Listener { heard, context };
        let syncing = Arc::new(Syncing::default());
        let own: Weak<Syncing> = Arc::downgrade(&syncing);
        let hearing = Arc::clone(&syncing.hearing);
        let every = Duration::from_millis(every_ms);
        let started = open.keep_in_sync(every, move |event| {
            // It is held only to end it: whoever closes the vault waits for this thread by dropping what was kept.
            if hearing.goes_on()
                && !listener.hears(&event)
                && let Some(own) = own.upgrade()
            {
                own.end();
            }
        })?;
        syncing.begin(started);
        let id = keep(Object::ContinuousSync(syncing), vault.id)?;
        answer.put(sr_continuous_sync { id });
        Ok(())
    })
}

/// Ends a continuous sync when what waits has gone to the remotes that work. The handle is invalid then. Its own function cannot wait for
/// that: there it fails with -EDEADLK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_continuous_sync_finish(sync: sr_continuous_sync) -> c_int {
    done(|| {
        check_not_called_back()?;
        sync.take()?.finish();
        Ok(())
    })
}

/// Ends a continuous sync at once. The handle is invalid then, and its function is not called any more. In its own function this is allowed:
/// then the sync ends when that function returns. In another function that the library calls it fails with -EDEADLK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_continuous_sync_close(sync: sr_continuous_sync) -> c_int {
    done(|| {
        // Where something else called back, the thread of the sync may wait for that.
        if !sync.get()?.is_own_thread() {
            check_not_called_back()?;
        }
        sync.take()?.end();
        Ok(())
    })
}

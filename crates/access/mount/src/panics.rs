//! Ends a mount when one of its event loops panics. Otherwise the caller whose request the loop held would wait for
//! ever, and not even a kill would reach it.
//!
//! Takes   the panic hook of the process, which still does what it did before
//! Gives   one call for each affected mount, on a thread of its own
//! Never   reacts to panics of other threads: the pool catches those of workers
//!
//! `fuser`, the FUSE library, decodes requests before this crate sees them. With overflow checks it panics at some
//! requests that any user of the mount can send (a time of -2^63 seconds). So the workspace disables these checks for it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use parking_lot::Mutex;

/// How the protocol library names its loops.
const LOOP_NAME: &str = "fuser-";

type Action = Arc<dyn Fn() + Send + Sync>;

static WATCHED: Mutex<Vec<(MountId, Action)>> = Mutex::new(Vec::new());

thread_local! {
    /// Whose loop this thread is, as far as it has answered anything.
    static OWNER: Cell<Option<MountId>> = const { Cell::new(None) };
}

/// A mount of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MountId(u64);

impl MountId {
    /// One that no other mount of this process has.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Says that this thread is a loop of this mount.
    pub(crate) fn mark_this_thread(self) {
        OWNER.with(|owner| owner.set(Some(self)));
    }
}

/// Calls `action` when a loop of `mount` panics, until `forget`.
pub(crate) fn watch(mount: MountId, action: impl Fn() + Send + Sync + 'static) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |information| {
            before(information);
            if std::thread::current()
                .name()
                .is_some_and(|name| name.starts_with(LOOP_NAME))
            {
                a_loop_panicked();
            }
        }));
    });
    WATCHED.lock().push((mount, Arc::new(action)));
}

/// The mount is over.
pub(crate) fn forget(mount: MountId) {
    WATCHED.lock().retain(|(watched, _)| *watched != mount);
}

/// A loop that panics at its very first request is nobody's yet: then every mount of the process is
/// concerned, as one of them has a caller who waits.
fn a_loop_panicked() {
    let owner = OWNER.try_with(Cell::get).unwrap_or(None);
    let watched = WATCHED.lock();
    let concerned = watched
        .iter()
        .filter(|(mount, _)| owner.is_none_or(|owner| owner == *mount));
    for action in concerned.map(|(_, action)| Arc::clone(action)) {
        // Not in this thread, which unwinds. Without another thread there is nothing left to try.
        let _ = std::thread::Builder::new()
            .name("strongroom-abort".to_owned())
            .spawn(move || action());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panic_in_a_thread(name: &str, owner: Option<MountId>) {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                if let Some(owner) = owner {
                    owner.mark_this_thread();
                }
                panic!("a loop of a test");
            });
        assert!(thread.unwrap().join().is_err());
    }

    #[test]
    fn a_panic_of_a_loop_concerns_its_own_mount_or_if_unknown_all() {
        let (told, heard) = crossbeam_channel::unbounded();
        let (one, two) = (MountId::new(), MountId::new());
        for mount in [one, two] {
            let told = told.clone();
            watch(mount, move || told.send(mount).unwrap());
        }
        panic_in_a_thread("fuser-0", Some(two));
        assert_eq!(heard.recv(), Ok(two));
        panic_in_a_thread("something-else", Some(one));
        panic_in_a_thread("fuser-1", None);
        let both = [heard.recv().unwrap(), heard.recv().unwrap()];
        assert!(both.contains(&one) && both.contains(&two));
        forget(one);
        forget(two);
        panic_in_a_thread("fuser-0", None);
        drop(told);
        assert!(heard.recv().is_err());
    }
}

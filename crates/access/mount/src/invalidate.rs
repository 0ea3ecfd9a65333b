//! Makes the kernel drop its cache of what other processes changed, before their calls return.
//!
//! Takes   changes made through the vault by the library or by another process; and ranges whose unsent data the kernel
//!         should send
//! Gives   nothing; returns, or calls `then`, once the kernel has dropped its cache of them and has sent what programs wrote
//! Never   drops content on an event loop or a worker, or with a lock held: the kernel may meanwhile wait for a request
//!         to this mount (invariant 5 of the crate)
//!
//! Dropping only attributes never waits in the kernel, so the calling thread does it at once. Dropping content may wait
//! for a page whose writer waits for this mount to answer, so a thread of its own does it.

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use fuser::{INodeNo, Notifier};
use parking_lot::{Mutex, RwLock};
use strongroom::filesystem::InodeId;
use strongroom::{Change, Observer};

/// What the notifier thread is asked to drop.
enum Stale {
    Entry {
        parent: InodeId,
        name: Vec<u8>,
    },
    Content {
        inode: InodeId,
        offset: u64,
        len: u64,
    },
    /// All content of these.
    Contents {
        inodes: Vec<InodeId>,
    },
    Attributes {
        inode: InodeId,
    },
}

struct Request {
    stale: Stale,
    /// Called by the notifier thread when the kernel has dropped it; dropped uncalled when the mount has ended.
    then: Box<dyn FnOnce() + Send>,
}

/// What the notifier thread of a mount is asked for.
pub(crate) struct Requests {
    requests: Receiver<Request>,
    notifier: Arc<RwLock<Option<Notifier>>>,
}

/// The way to the notifier thread of a mount, which may begin later.
pub(crate) fn queue() -> (Invalidator, Requests) {
    let (sender, requests) = unbounded();
    let notifier = Arc::default();
    let invalidator = Invalidator {
        sender,
        notifier: Arc::clone(&notifier),
    };
    (invalidator, Requests { requests, notifier })
}

/// Hands changes to the notifier thread of one mount. Cheap to clone; usable from many threads, but not
/// from inside an operation of the file system. Subscribe it to the vault:
/// `vault.subscribe(Arc::new(mounted.invalidator()))`.
#[derive(Clone)]
pub struct Invalidator {
    sender: Sender<Request>,
    /// While the notifier thread runs: it keeps the connection open.
    notifier: Arc<RwLock<Option<Notifier>>>,
}

impl Invalidator {
    /// `name` in `parent` was added, removed or replaced.
    pub fn entry(&self, parent: InodeId, name: &[u8]) {
        self.ask(Stale::Entry {
            parent,
            name: name.to_vec(),
        });
    }

    /// Content of `inode` was changed from `offset`, `len` bytes; `u64::MAX` means to the end.
    pub fn content(&self, inode: InodeId, offset: u64, len: u64) {
        self.ask(Stale::Content { inode, offset, len });
    }

    /// Attributes of `inode` were changed, content was not.
    pub fn attributes(&self, inode: InodeId) {
        if let Some(notifier) = &*self.notifier.read() {
            notify(notifier, Stale::Attributes { inode });
        }
    }

    /// All that the kernel holds of `inodes`: returns when it has sent what programs wrote.
    pub(crate) fn contents(&self, inodes: Vec<InodeId>) {
        self.ask(Stale::Contents { inodes });
    }

    /// As `content`, for a caller that must not wait: `then` must not either.
    pub(crate) fn content_then(
        &self,
        inode: InodeId,
        range: Range<u64>,
        then: impl FnOnce() + Send + 'static,
    ) {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        self.send(Stale::Content { inode, offset, len }, then);
    }

    fn ask(&self, stale: Stale) {
        let (done, wait) = bounded(1);
        self.send(stale, move || {
            // Who asked waits for nothing else.
            let _ = done.send(());
        });
        // Fails only when the mount has ended: then nothing is cached.
        let _ = wait.recv();
    }

    fn send(&self, stale: Stale, then: impl FnOnce() + Send + 'static) {
        let then = Box::new(then);
        // Fails only when the mount has ended, and drops `then`.
        let _ = self.sender.send(Request { stale, then });
    }
}

impl Observer for Invalidator {
    fn changed(&self, change: &Change) {
        match change {
            Change::Entry { parent, name } => self.entry(*parent, name),
            Change::Content { inode, offset, len } => self.content(*inode, *offset, *len),
            Change::Attributes { inode } => self.attributes(*inode),
        }
    }
}

/// The notifier thread of one mount.
pub(crate) struct NotifierThread {
    notifier: Arc<RwLock<Option<Notifier>>>,
    stop: Sender<()>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl NotifierThread {
    pub(crate) fn start(notifier: Notifier, asked: Requests) -> std::io::Result<Self> {
        let (stop, stopped) = bounded(1);
        *asked.notifier.write() = Some(notifier.clone());
        let thread = std::thread::Builder::new()
            .name("strongroom-notifier".to_owned())
            .spawn(move || serve(&notifier, &asked.requests, &stopped))?;
        Ok(Self {
            notifier: asked.notifier,
            stop,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Ends the thread; later changes are passed over.
    pub(crate) fn stop(&self) {
        self.notifier.write().take();
        if let Some(thread) = self.thread.lock().take() {
            let _ = self.stop.send(());
            // It does not panic; if it did, it has ended all the same.
            let _ = thread.join();
        }
    }
}

fn serve(notifier: &Notifier, requests: &Receiver<Request>, stopped: &Receiver<()>) {
    loop {
        crossbeam_channel::select! {
            recv(stopped) -> _ => return,
            recv(requests) -> request => {
                let Ok(request) = request else { return };
                notify(notifier, request.stale);
                (request.then)();
            }
        }
    }
}

/// An error means that the kernel has nothing cached of it, or that the mount is ending.
fn notify(notifier: &Notifier, stale: Stale) {
    let result = match stale {
        Stale::Entry { parent, name } => notifier
            .inval_entry(INodeNo(parent.0), &OsString::from_vec(name))
            .and_then(|()| notifier.inval_inode(INodeNo(parent.0), 0, 0)),
        Stale::Content { inode, offset, len } => {
            let (offset, len) = kernel_range(offset, len);
            notifier.inval_inode(INodeNo(inode.0), offset, len)
        }
        Stale::Contents { inodes } => {
            for inode in inodes {
                // Most it does not know any more, if the mount was unmounted already.
                let _ = notifier.inval_inode(INodeNo(inode.0), 0, 0);
            }
            Ok(())
        }
        Stale::Attributes { inode } => notifier.inval_inode(INodeNo(inode.0), ATTRIBUTES_ONLY, 0),
    };
    if let Err(error) = result {
        log::debug!("the kernel did not accept a notification: {error}");
    }
}

/// An offset below zero leaves content alone.
const ATTRIBUTES_ONLY: i64 = -1;

/// For the kernel, no length means to the end.
fn kernel_range(offset: u64, len: u64) -> (i64, i64) {
    let Ok(first) = i64::try_from(offset) else {
        return (i64::MAX, 0);
    };
    match i64::try_from(len) {
        // The end itself must not exceed what the kernel can count to.
        Ok(len) if first.checked_add(len).is_some() => (first, len),
        _ => (first, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_beyond_what_the_kernel_counts_means_to_the_end() {
        assert_eq!(kernel_range(10, 20), (10, 20));
        assert_eq!(kernel_range(10, u64::MAX), (10, 0));
        assert_eq!(kernel_range(u64::MAX / 2, u64::MAX / 2), (i64::MAX, 0));
        assert_eq!(kernel_range(u64::MAX, 1), (i64::MAX, 0));
    }

    #[test]
    fn who_asks_after_the_end_is_not_held() {
        let (invalidator, requests) = queue();
        drop(requests);
        invalidator.attributes(InodeId(1));
        let (told, heard) = bounded::<()>(1);
        invalidator.content_then(InodeId(1), 0..1, move || told.send(()).unwrap());
        assert!(heard.recv().is_err());
    }
}

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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use fuser::{INodeNo, Notifier};
use parking_lot::{Mutex, RwLock};
use strongroom::filesystem::InodeId;
use strongroom::{Change, Observer};

use crate::limits;

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
        held: Arc::new(Held::new(held_max(granted_by_kernel()))),
    };
    (invalidator, Requests { requests, notifier })
}

/// Hands changes to the notifier thread of one mount. Cheap to clone; usable from many threads, but not
/// from inside an operation of the file system. Subscribe it to the vault, in `Mounted::start_with`:
/// `vault.subscribe(Arc::new(beginning.invalidator.clone()))`.
#[derive(Clone)]
pub struct Invalidator {
    sender: Sender<Request>,
    /// While the notifier thread runs: it keeps the connection open.
    notifier: Arc<RwLock<Option<Notifier>>>,
    held: Arc<Held>,
}

/// Counts the answers that the notifier thread holds back.
struct Held {
    count: AtomicUsize,
    max: usize,
}

impl Held {
    fn new(max: usize) -> Self {
        let count = AtomicUsize::new(0);
        Self { count, max }
    }

    /// Whether one more may be held back; then it is counted.
    fn take(&self) -> bool {
        let more = |count: usize| (count < self.max).then_some(count + 1);
        let (set, read) = (Ordering::AcqRel, Ordering::Acquire);
        self.count.fetch_update(set, read, more).is_ok()
    }

    fn give_back(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How many background requests the kernel grants a mount of a user, whatever is asked for. Depends on the memory of the machine.
fn granted_by_kernel() -> usize {
    let granted = std::fs::read_to_string("/sys/module/fuse/parameters/max_user_bgreq").ok();
    let granted = granted.and_then(|text| text.trim().parse().ok());
    granted.unwrap_or(limits::BACKGROUND_REQUESTS_OF_USERS)
}

/// How many answers may be held back: half of what may be in flight. The rest is for the requests that the notifier thread waits for.
fn held_max(granted: usize) -> usize {
    granted.min(limits::BACKGROUND_REQUESTS_MAX.into()) / 2
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

    /// As `content`, for a caller that must not wait: `then` must not either, and is the answer to a request in the background.
    ///
    /// If too many answers are held back already, `then` comes first, and the kernel drops its cache a moment later. Otherwise the
    /// kernel could not send the read-ahead that holds a page which is to be dropped, and all would wait for good.
    pub(crate) fn content_then(
        &self,
        inode: InodeId,
        range: Range<u64>,
        then: impl FnOnce() + Send + 'static,
    ) {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let stale = Stale::Content { inode, offset, len };
        if !self.held.take() {
            then();
            return self.send(stale, || ());
        }
        let held = Arc::clone(&self.held);
        self.send(stale, move || {
            then();
            held.give_back();
        });
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

    /// Goal: answers that are held back never take all background requests of the kernel. Method: no notifier thread runs, so that all
    /// that are held back stay so.
    /// Failed before: there was no bound. With as many direct writes as the kernel has background requests, and a read-ahead that held
    /// one of their pages, the mount stood still.
    #[test]
    fn an_answer_is_held_back_only_while_there_is_room_for_other_requests() {
        let (mut invalidator, requests) = queue();
        invalidator.held = Arc::new(Held::new(held_max(6)));
        let (answer, answers) = unbounded();
        for number in 0..5 {
            let answer = answer.clone();
            invalidator.content_then(InodeId(1), 0..1, move || answer.send(number).unwrap());
        }
        assert_eq!(answers.try_iter().collect::<Vec<_>>(), [3, 4]);
        // The kernel is asked to drop those, too.
        assert_eq!(requests.requests.len(), 5);
        for request in requests.requests.try_iter() {
            (request.then)();
        }
        assert_eq!(answers.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(invalidator.held.take());
        assert_eq!(held_max(usize::MAX), 32_767);
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

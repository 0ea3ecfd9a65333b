//! Makes the kernel drop cached data that other processes change, before their calls return.
//!
//! Takes   changes made through the vault by the library or by another process; and ranges whose unsent data the kernel
//!         should send, or of which it holds what is not there
//! Gives   nothing; returns, or calls `then`, once the kernel has dropped the cached data and has sent the data that
//!         programs wrote. If an answer that is older than the change is under way, the kernel is notified again, until that
//!         answer can no longer undo the notification
//! Never   drops content on an event loop or a worker, or with a lock held: the kernel may meanwhile wait for a request
//!         to this mount (invariant 5 of the crate)
//!
//! Dropping only attributes never waits in the kernel, so the calling thread does it at once. Dropping content may wait
//! for a page whose writer waits for this mount to answer, so a thread of its own does it.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, at, bounded, never, unbounded};
use parking_lot::{Mutex, RwLock};
use strongroom::filesystem::InodeId;
use strongroom::{Change, Observer};

use crate::answers::Answers;
use crate::limits;
use crate::notification::{Kernel, Known};
use crate::references::References;

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
    /// The same because of a request to this mount, whose answer says to the kernel what the node is like.
    Pages {
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

impl Stale {
    fn pages(inode: InodeId, range: Range<u64>) -> Self {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        Self::Pages { inode, offset, len }
    }

    /// The node that somebody else has changed, if so.
    fn inode(&self) -> Option<InodeId> {
        match self {
            Self::Entry { parent, .. } => Some(*parent),
            Self::Content { inode, .. } | Self::Attributes { inode } => Some(*inode),
            Self::Pages { .. } | Self::Contents { .. } => None,
        }
    }

    /// What of it an older answer can undo. A name it cannot: the kernel drops one only while nobody looks into the directory.
    fn undone(self) -> Self {
        match self {
            Self::Entry { parent, .. } => Self::Attributes { inode: parent },
            stale => stale,
        }
    }
}

struct Request {
    stale: Stale,
    /// Called by the notifier thread when the kernel has dropped it; dropped uncalled when the mount has ended.
    then: Box<dyn FnOnce() + Send>,
}

/// What the notifier thread of a mount is asked for.
pub(crate) struct Requests {
    requests: Receiver<Request>,
    notifier: Arc<RwLock<Option<Arc<Notifier>>>>,
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
    notifier: Arc<RwLock<Option<Arc<Notifier>>>>,
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
        let stale = Stale::Attributes { inode };
        let notifier = self.notifier.read().clone();
        let effect = notifier.map(|notifier| notifier.notify(&stale, Instant::now()));
        if effect.is_some_and(|effect| effect != Effect::Lasts) {
            self.send(stale, || ());
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
        if !self.held.take() {
            then();
            return self.content_later(inode, range);
        }
        let held = Arc::clone(&self.held);
        self.send(Stale::pages(inode, range), move || {
            then();
            held.give_back();
        });
    }

    /// As `content`, after a request to this mount was answered: does not wait.
    pub(crate) fn content_later(&self, inode: InodeId, range: Range<u64>) {
        self.send(Stale::pages(inode, range), || ());
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
    notifier: Arc<RwLock<Option<Arc<Notifier>>>>,
    stop: Sender<()>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl NotifierThread {
    /// `answered`: what the answers of the mount have given to the kernel, and those under way.
    pub(crate) fn start(
        kernel: Kernel,
        answered: (Arc<References>, Arc<Answers>),
        asked: Requests,
    ) -> io::Result<Self> {
        let (references, answers) = answered;
        let notifier = Arc::new(Notifier {
            send: Box::new(move |stale: &Stale| send_to(&kernel, stale)),
            references,
            answers,
        });
        let (stop, stopped) = bounded(1);
        *asked.notifier.write() = Some(Arc::clone(&notifier));
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
    let mut repeated = Repeated::default();
    loop {
        let due = repeated.next().map_or_else(never, at);
        crossbeam_channel::select! {
            recv(stopped) -> _ => return,
            recv(due) -> _ => {},
            recv(requests) -> request => {
                let Ok(request) = request else { return };
                repeated.notify(notifier, (request.stale, 0), Instant::now());
                (request.then)();
            }
        }
        repeated.notify_due(notifier, Instant::now());
    }
}

/// Notifies the kernel, and knows whether that lasts.
struct Notifier {
    send: Box<dyn Fn(&Stale) -> Known + Send + Sync>,
    references: Arc<References>,
    answers: Arc<Answers>,
}

/// What a notification has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The kernel has dropped it, and takes in nothing older.
    Lasts,
    /// The kernel may take in an older answer.
    MayEnd,
    /// None, as the kernel does not know the node. An answer that describes it is on its way, or a FORGET of it is.
    NoneYet,
}

impl Notifier {
    fn notify(&self, stale: &Stale, now: Instant) -> Effect {
        let known = (self.send)(stale);
        let Some(inode) = stale.inode() else {
            return Effect::Lasts;
        };
        match known {
            Known::Yes if self.answers.is_any_change_open(now) => Effect::MayEnd,
            Known::Yes => Effect::Lasts,
            Known::No => {
                // Asked first: a request counts its references before it ends.
                let is_any_open = self.answers.is_any_open();
                match (self.references.has(inode), is_any_open) {
                    (true, _) => Effect::NoneYet,
                    (false, true) => Effect::MayEnd,
                    (false, false) => Effect::Lasts,
                }
            }
        }
    }
}

/// What the kernel will hear again, by the time for it. The number distinguishes those of one moment.
#[derive(Default)]
struct Repeated {
    waiting: BTreeMap<(Instant, u64), (Stale, usize)>,
    number: u64,
}

impl Repeated {
    /// Notifies the kernel of `stale`, which it has heard `times` times before, and once more later if that may be undone.
    fn notify(&mut self, notifier: &Notifier, (stale, times): (Stale, usize), now: Instant) {
        let last = limits::REPEAT_AFTER.len() - 1;
        let pause = match notifier.notify(&stale, now) {
            Effect::Lasts => return,
            Effect::MayEnd if times > last => return,
            Effect::MayEnd | Effect::NoneYet => limits::REPEAT_AFTER[times.min(last)],
        };
        self.number += 1;
        let place = (now + pause, self.number);
        self.waiting.insert(place, (stale.undone(), times + 1));
        if self.waiting.len() > limits::REPEATED_MAX {
            self.waiting.pop_first();
        }
    }

    /// When the next one is due.
    fn next(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    fn notify_due(&mut self, notifier: &Notifier, now: Instant) {
        while self.next().is_some_and(|due| due <= now)
            && let Some((_, stale)) = self.waiting.pop_first()
        {
            self.notify(notifier, stale, now);
        }
    }
}

/// An error means that the kernel has nothing cached of it, or that the mount is ending.
fn send_to(kernel: &Kernel, stale: &Stale) -> Known {
    let known = match stale {
        Stale::Entry { parent, name } => kernel
            .drop_entry(*parent, name)
            .and_then(|_| kernel.drop_inode(*parent, 0, 0)),
        Stale::Content { inode, offset, len } | Stale::Pages { inode, offset, len } => {
            let (offset, len) = kernel_range(*offset, *len);
            kernel.drop_inode(*inode, offset, len)
        }
        Stale::Contents { inodes } => {
            for inode in inodes {
                // Most it does not know any more, if the mount was unmounted already.
                let _ = kernel.drop_inode(*inode, 0, 0);
            }
            Ok(Known::Yes)
        }
        Stale::Attributes { inode } => kernel.drop_inode(*inode, ATTRIBUTES_ONLY, 0),
    };
    known.unwrap_or_else(|error| {
        log::debug!("the kernel did not accept a notification: {error}");
        Known::Yes
    })
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
    use crate::counters::Opcode;
    use std::sync::atomic::AtomicBool;

    /// What a notifier of a test has to do with.
    #[derive(Default)]
    struct TestKernel {
        knows: AtomicBool,
        heard: AtomicUsize,
    }

    fn notifier() -> (Notifier, Arc<TestKernel>) {
        let kernel = Arc::new(TestKernel::default());
        let hears = Arc::clone(&kernel);
        let send = move |_: &Stale| {
            hears.heard.fetch_add(1, Ordering::Relaxed);
            match hears.knows.load(Ordering::Relaxed) {
                true => Known::Yes,
                false => Known::No,
            }
        };
        let notifier = Notifier {
            send: Box::new(send),
            references: Arc::new(References::new()),
            answers: Arc::default(),
        };
        (notifier, kernel)
    }

    const NODE: InodeId = InodeId(5);

    /// The kernel hears of a change of `NODE`; then, as often as `times`, the time of the next repetition comes. Gives when the next
    /// one would be.
    fn change(notifier: &Notifier, repeated: &mut Repeated, times: usize) -> Option<Instant> {
        let begin = Instant::now();
        repeated.notify(notifier, (Stale::Attributes { inode: NODE }, 0), begin);
        for _ in 0..times {
            let due = repeated.next()?;
            repeated.notify_due(notifier, due);
        }
        repeated.next()
    }

    /// Goal: what the kernel learns of a node is not older than a change which it heard of before. Method: the change comes while a
    /// look-up is answered; the kernel takes the answer in later than any pause. Nothing is repeated without such an answer, and
    /// nothing after a FORGET.
    /// Failed before: the kernel heard of the change once, while it did not know the node, and kept the old size for good.
    #[test]
    fn a_change_during_a_look_up_is_repeated_until_the_kernel_knows_the_node() {
        let (notifier, kernel) = notifier();
        let mut repeated = Repeated::default();
        assert_eq!(change(&notifier, &mut repeated, 0), None);
        let answer = notifier.answers.begin(Opcode::Lookup);
        let due = change(&notifier, &mut repeated, 0).unwrap();
        notifier.references.add(NODE);
        drop(answer);
        repeated.notify_due(&notifier, due - limits::REPEAT_AFTER[0]);
        assert_eq!(
            kernel.heard.load(Ordering::Relaxed),
            2,
            "not before its time"
        );
        for _ in 0..10 {
            let due = repeated.next().unwrap();
            repeated.notify_due(&notifier, due);
        }
        kernel.knows.store(true, Ordering::Relaxed);
        let due = repeated.next().unwrap();
        repeated.notify_due(&notifier, due);
        assert_eq!(kernel.heard.load(Ordering::Relaxed), 13);
        assert_eq!(repeated.next(), None);
        kernel.knows.store(false, Ordering::Relaxed);
        assert!(change(&notifier, &mut repeated, 10).is_some());
        notifier.references.take(NODE, 1);
        let due = repeated.next().unwrap();
        repeated.notify_due(&notifier, due);
        assert_eq!(repeated.next(), None);
    }

    /// Goal: an answer to LINK or SETATTR, which the kernel believes whatever it heard meanwhile, does not last. Method: the change
    /// comes while one is answered. A look-up causes no repetition if the kernel knows the node.
    /// Failed before: the kernel heard of the change once.
    #[test]
    fn a_change_during_another_is_repeated_some_times() {
        let (notifier, kernel) = notifier();
        kernel.knows.store(true, Ordering::Relaxed);
        let mut repeated = Repeated::default();
        let looks = notifier.answers.begin(Opcode::Lookup);
        assert_eq!(change(&notifier, &mut repeated, 0), None);
        drop(looks);
        let repetitions = limits::REPEAT_AFTER.len();
        for opcode in [Opcode::Link, Opcode::Setattr] {
            let answer = notifier.answers.begin(opcode);
            assert!(change(&notifier, &mut repeated, repetitions - 1).is_some());
            let due = repeated.next().unwrap();
            repeated.notify_due(&notifier, due);
            assert_eq!(repeated.next(), None);
            drop(answer);
        }
        let heard = kernel.heard.load(Ordering::Relaxed);
        assert_eq!(heard, 1 + 2 * (1 + repetitions));
    }

    #[test]
    fn no_more_than_a_bound_waits_for_a_repetition() {
        let (notifier, _kernel) = notifier();
        notifier.references.add(NODE);
        let mut repeated = Repeated::default();
        for _ in 0..limits::REPEATED_MAX + 10 {
            change(&notifier, &mut repeated, 0);
        }
        assert_eq!(repeated.waiting.len(), limits::REPEATED_MAX);
    }

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

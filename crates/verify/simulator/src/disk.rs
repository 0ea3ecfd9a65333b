//! A simulated disk that remembers what was synced, so that its power can be cut at any request.
//!
//! Takes   the requests of a file system (create, write, rename, sync, …), from the mount or from a test
//! Gives   what programs see; and for any moment the trees that a power cut could leave
//! Never   touches a real disk, except to write out a tree for reopening
//! Spec    none: test only
//!
//! The rules: content is durable after a sync of the file, and a name after a sync of the directory (or of anything, see
//! `NameSync`). Before that, each page, change of size and change of name may survive or not, in any version and any order,
//! within the rules of `content` and `names`. Mode and owner are durable at once, because nothing here depends on them.
//!
//! Invariants
//!  (1) A run that sends the same requests in the same order gets the same faults and leaves the same trees.
//!  (2) After the power cut every request fails, and nothing changes any more.

mod content;
mod cut;
mod fault;
mod limits;
mod mount;
mod names;
mod state;

pub use cut::{Keep, NameSync, Policy};
pub use fault::{Call, Failure, Fault};
pub use limits::{CAPACITY_BYTES, PAGE_BYTES, SECTOR_BYTES};
pub use mount::MountedDisk;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;
use strongroom_filesystem::Work;

use fault::{Fate, Faults};
use state::State;

/// How far the program on the disk has come: noted with every frozen moment.
///
/// The program runs in a process of its own (see `mount`) and says so by single bytes through a pipe, see `Mark`. A
/// byte is in the pipe before the next request can reach the disk, so what is drained when a moment is frozen belongs
/// to that moment.
#[derive(Debug, Default)]
pub struct Progress {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    threads: [Reached; THREADS_MAX],
    running: Running,
    pipe: Option<File>,
}

/// The most threads of a program that can be told apart.
pub const THREADS_MAX: usize = 8;

/// How far one thread of the program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Operations it has begun.
    pub started: u64,
    /// Operations that have returned to it without an error of the disk.
    pub returned: u64,
}

/// What a thread says of its next or last operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It begins. To be said before it can reach the disk.
    Start,
    /// It returned.
    Return,
}

impl Mark {
    /// The byte for thread `thread`, which is below `THREADS_MAX`. Never ASCII, so that other output does no harm.
    #[must_use]
    pub fn byte(self, thread: usize) -> u8 {
        assert!(thread < THREADS_MAX, "more threads than can be told apart");
        0x80 | (thread as u8) << 1 | u8::from(self == Self::Return)
    }
}

/// The byte that says that the program begins, or has ended, `work` in the background.
#[must_use]
pub fn work_byte(work: Work, mark: Mark) -> u8 {
    0xc0 | (work as u8) << 1 | u8::from(mark == Mark::Return)
}

/// How much of each sort of background work is under way, in the order of `Work::ALL`.
pub type Running = [u32; Work::ALL.len()];

impl Seen {
    fn take(&mut self, byte: u8) {
        if byte >= 0xc0 {
            if let Some(count) = self.running.get_mut(usize::from(byte & 0x3f) >> 1) {
                *count = count.saturating_add_signed(if byte & 1 == 0 { 1 } else { -1 });
            }
            return;
        }
        let thread = usize::from(byte & 0x7f) >> 1;
        if let Some(reached) = self.threads.get_mut(thread).filter(|_| byte >= 0x80) {
            if byte & 1 == 0 {
                reached.started += 1;
            } else {
                reached.returned += 1;
            }
        }
    }

    fn drain(&mut self) {
        let mut buffer = [0_u8; 4096];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => buffer[..count].iter().for_each(|byte| self.take(*byte)),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

impl Progress {
    /// Listens to the program at the other end of `pipe`.
    ///
    /// # Errors
    /// If the pipe cannot be made non-blocking.
    pub fn listen(&self, pipe: OwnedFd) -> std::io::Result<()> {
        rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK)?;
        self.seen.lock().pipe = Some(pipe.into());
        Ok(())
    }

    /// Notes a mark of a program in this process.
    pub fn note(&self, thread: usize, mark: Mark) {
        self.seen.lock().take(mark.byte(thread));
    }

    /// How far each thread is, and what goes on in the background.
    #[must_use]
    pub fn now(&self) -> ([Reached; THREADS_MAX], Running) {
        let mut seen = self.seen.lock();
        seen.drain();
        (seen.threads, seen.running)
    }
}

/// The disk at one moment.
#[derive(Clone, Debug)]
pub struct Frozen {
    state: State,
    /// Requests that had changed the disk.
    pub calls: u64,
    /// How far each thread of the program was.
    pub threads: [Reached; THREADS_MAX],
    /// What went on in its background.
    pub running: Running,
}

impl Frozen {
    /// A fresh disk with what a cut at this moment leaves, all of it durable.
    #[must_use]
    pub fn after_cut(&self, policy: Policy, seed: u64) -> Disk {
        Disk::from_state(self.state.after_cut(policy, seed))
    }

    /// How many changes a cut at this moment could lose: files with unsynced content, and unsynced names.
    #[must_use]
    pub fn at_risk(&self) -> (usize, usize) {
        self.state.at_risk()
    }
}

struct Inner {
    state: State,
    calls: u64,
    faults: Faults,
    freeze_at: BTreeSet<u64>,
    freeze_within_work: Option<u32>,
    requests_within: Running,
    frozen: Vec<Frozen>,
    cut_at: Option<u64>,
    powered: bool,
    lies: bool,
    progress: Arc<Progress>,
}

/// The disk. Clones share it.
#[derive(Clone)]
pub struct Disk {
    inner: Arc<Mutex<Inner>>,
}

impl Disk {
    /// An empty disk.
    #[must_use]
    pub fn new(mode: NameSync) -> Self {
        Self::from_state(State::new(mode))
    }

    fn from_state(state: State) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                state,
                calls: 0,
                faults: Faults::default(),
                freeze_at: BTreeSet::new(),
                freeze_within_work: None,
                requests_within: Running::default(),
                frozen: Vec::new(),
                cut_at: None,
                powered: true,
                lies: false,
                progress: Arc::new(Progress::default()),
            })),
        }
    }

    /// The counters that frozen moments are marked with.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.inner.lock().progress)
    }

    /// How many requests have changed the disk, those that failed included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.inner.lock().calls
    }

    /// How many requests failed by plan.
    #[must_use]
    pub fn faults_struck(&self) -> u64 {
        self.inner.lock().faults.struck()
    }

    /// Plans a failure. Requests count from here on.
    pub fn plan(&self, fault: Fault) {
        self.inner.lock().faults.plan(fault);
    }

    /// Nothing fails any more.
    pub fn clear_faults(&self) {
        self.inner.lock().faults.clear();
    }

    /// Remembers the moment before request number `call` (from 1) is carried out.
    pub fn freeze_before(&self, call: u64) {
        self.inner.lock().freeze_at.insert(call);
    }

    /// Remembers the moment before every `every`-th request that is made within each sort of background work, and before
    /// the first few of them.
    pub fn freeze_within_work(&self, every: u32) {
        self.inner.lock().freeze_within_work = Some(every.max(1));
    }

    /// Cuts the power before request number `call` is carried out; the moment is remembered.
    pub fn cut_before(&self, call: u64) {
        self.inner.lock().cut_at = Some(call);
    }

    /// The disk as it is now.
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        self.inner.lock().freeze()
    }

    /// Cuts the power now: every request from here on fails.
    pub fn cut(&self) -> Frozen {
        let mut inner = self.inner.lock();
        inner.powered = false;
        inner.freeze()
    }

    /// From now on every sync returns at once and keeps nothing, as broken disks do: to see that the judge notices.
    pub fn lie(&self) {
        self.inner.lock().lies = true;
    }

    /// Whether the power is on.
    #[must_use]
    pub fn is_powered(&self) -> bool {
        self.inner.lock().powered
    }

    /// Moves out the moments remembered so far, in order.
    #[must_use]
    pub fn take_frozen(&self) -> Vec<Frozen> {
        std::mem::take(&mut self.inner.lock().frozen)
    }

    /// Writes what programs see into the empty folder `folder`.
    ///
    /// # Errors
    /// Of the real disk.
    pub fn write_to(&self, folder: &Path) -> std::io::Result<()> {
        self.inner.lock().state.write_to(folder)
    }

    /// Runs `look` on what programs see; fails once the power is off.
    fn look<T>(&self, look: impl FnOnce(&State) -> Result<T, Errno>) -> Result<T, Errno> {
        let inner = self.inner.lock();
        if inner.powered {
            look(&inner.state)
        } else {
            Err(Errno::IO)
        }
    }

    /// Runs `change` if the request is not to fail. It is told whether only half of it may be done.
    fn change<T>(
        &self,
        call: Call,
        change: impl FnOnce(&mut State, bool) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut inner = self.inner.lock();
        match inner.count(call)? {
            Fate::Done => change(&mut inner.state, false),
            Fate::Half => change(&mut inner.state, true),
            Fate::Failed(error) => Err(error),
        }
    }

    /// Syncs a node by `sync`; if it is to fail, the pages it should have written are given up.
    fn sync(&self, number: u64) -> Result<(), Errno> {
        let mut inner = self.inner.lock();
        match inner.count(Call::Sync)? {
            Fate::Failed(error) => {
                inner.state.fail_sync(number);
                Err(error)
            }
            Fate::Done | Fate::Half if inner.lies => Ok(()),
            Fate::Done | Fate::Half => inner.state.sync(number),
        }
    }

    /// A page that a memory map wrote back when the kernel saw fit: no request of the program, so it does not count.
    fn write_back(&self, number: u64, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut inner = self.inner.lock();
        if inner.powered {
            inner.state.write(number, offset, data)
        } else {
            Err(Errno::IO)
        }
    }
}

impl Inner {
    fn freeze(&self) -> Frozen {
        let (threads, running) = self.progress.now();
        Frozen {
            state: self.state.clone(),
            calls: self.calls,
            threads,
            running,
        }
    }

    fn is_due_within_work(&mut self) -> bool {
        const FIRST: u32 = 4;
        let Some(every) = self.freeze_within_work else {
            return false;
        };
        let mut due = false;
        let running = self.progress.now().1;
        for (seen, _) in self
            .requests_within
            .iter_mut()
            .zip(running)
            .filter(|(_, running)| *running > 0)
        {
            *seen += 1;
            due |= *seen <= FIRST || seen.is_multiple_of(every);
        }
        due
    }

    fn count(&mut self, call: Call) -> Result<Fate, Errno> {
        if !self.powered {
            return Err(Errno::IO);
        }
        let number = self.calls + 1;
        let cut = self.cut_at.is_some_and(|at| at <= number);
        let within = self.is_due_within_work();
        if cut || self.freeze_at.remove(&number) || within {
            let moment = self.freeze();
            self.frozen.push(moment);
        }
        if cut {
            self.powered = false;
            return Err(Errno::IO);
        }
        self.calls = number;
        Ok(self.faults.fate(call))
    }
}

#[cfg(test)]
mod tests;

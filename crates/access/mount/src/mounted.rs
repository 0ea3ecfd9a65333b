//! One mount, from its beginning to its end.
//!
//! Takes   an open file system, a folder, options
//! Gives   a drive; when it ends, the result of the last sync
//! Never   reports an end before everything is durable, and never leaves a mount behind
//!
//! Invariants
//!  (1) The end of a mount runs once, whatever causes it: the kernel, a caller, a signal, or a drop.
//!  (2) The record is released after the last sync.                              [record]

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crossbeam_channel::{RecvTimeoutError, Sender};
use fuser::{Config, Session, SessionACL};
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use strongroom::filesystem::Filesystem;

use crate::adapter::Adapter;
use crate::counters::{Counters, RequestCounter, RequestCounts};
use crate::detach::{Detach, OwnMount};
use crate::error::MountError;
use crate::gate::Gate;
use crate::ignored::ignores;
use crate::invalidate::{Invalidator, NotifierThread};
use crate::notification::Kernel;
use crate::options::MountOptions;
use crate::panics::{self, MountId};
use crate::pool::Pool;
use crate::record::Record;
use crate::references::References;
use crate::shared::{Shared, Writes, Xattrs};
use crate::turns::Turns;
use crate::wakeful::Wakeful;
use crate::{attach, idle, invalidate, limits, mountpoint};

/// A running mount. Dropping it unmounts, lazily if it is in use, and waits until all is durable.
pub struct Mounted {
    core: Arc<Core>,
}

/// A mount whose kernel part is there, and that answers nothing yet.
pub struct Beginning<'a> {
    /// Where it is mounted, absolute and free of links.
    pub path: &'a Path,
    /// Tells the kernel of changes that do not come through this mount.
    pub invalidator: Invalidator,
    /// Counts the requests.
    pub requests: RequestCounter,
}

/// What the threads of a mount share.
struct Core {
    id: MountId,
    mount: OwnMount,
    shared: Arc<Shared>,
    notifier: NotifierThread,
    /// Who ends the mount takes this.
    record: Mutex<Option<Record>>,
    outcome: Mutex<Option<Result<(), String>>>,
    has_ended: Condvar,
    /// Dropped at the end, which the idle watch hears.
    alive: Mutex<Option<Sender<()>>>,
    signals: Mutex<Option<Handle>>,
    /// Dropped at the end, which who keeps the record there hears.
    keeping_record: Mutex<Option<UnixStream>>,
}

impl Mounted {
    /// Mounts `filesystem` on `directory`. On return the kernel has been answered and the drive works.
    ///
    /// # Errors
    /// `MountError` says what is wrong with the folder, the machine or the options; nothing is mounted
    /// then, and the file system is as it was.
    pub fn start(
        filesystem: Filesystem,
        directory: &Path,
        options: &MountOptions,
    ) -> Result<Self, MountError> {
        let nobody = |_: &Beginning<'_>| Ok::<_, MountError>(());
        Self::start_with(filesystem, directory, options, nobody).map(|(mounted, ())| mounted)
    }

    /// As `start`, and calls `before` before the first request is answered. A caller that subscribes to changes of the vault must do it
    /// there: the kernel keeps each answer for good, so it must hear of each change after that.
    ///
    /// # Errors
    /// As `start`, and the error of `before`; nothing is mounted then.
    pub fn start_with<T, E: From<MountError>>(
        filesystem: Filesystem,
        directory: &Path,
        options: &MountOptions,
        before: impl FnOnce(&Beginning<'_>) -> Result<T, E>,
    ) -> Result<(Self, T), E> {
        options.check()?;
        let place = mountpoint::prepare(directory)?;
        let record = Record::take(&place.path)?;
        let (invalidator, stale) = invalidate::queue();
        let shared = Arc::new(share(filesystem, options, invalidator)?);
        let device = attach::attach(&place, options)?;
        // Asked before anything can have covered or removed the mount.
        let (mount, device) = OwnMount::of(device, &place.path)?;
        drop(place.folder);
        let to = (mount.clone(), options);
        let started = Self::serve(device, to, record, (shared, stale), before);
        if started.is_err() {
            // The mount may be there but nobody answers: it is taken away. The first error is reported.
            let _ = mount.detach(Detach::Lazily);
        }
        started
    }

    fn serve<T, E: From<MountError>>(
        device: std::os::fd::OwnedFd,
        (mount, options): (OwnMount, &MountOptions),
        record: Record,
        (shared, stale): (Arc<Shared>, invalidate::Requests),
        before: impl FnOnce(&Beginning<'_>) -> Result<T, E>,
    ) -> Result<(Self, T), E> {
        let mut config = Config::default();
        config.n_threads = Some(options.threads);
        config.clone_fd = options.threads > 1;
        // The kernel itself keeps other users out of a mount without `allow_other`.
        config.acl = SessionACL::All;
        let id = MountId::new();
        let to_kernel = device
            .try_clone()
            .map_err(MountError::io("duplicating a descriptor"))?;
        let adapter = Adapter::new(Arc::clone(&shared), id);
        let session = Session::from_fd(adapter, device, SessionACL::All, config)
            .map_err(MountError::io("starting the session with the kernel"))?;
        attach::raise_read_ahead(&mount.device);
        if shared.writes == Writes::KeptByKernel {
            attach::raise_write_back(&mount.device);
        }
        let answered = (Arc::clone(&shared.references), Arc::clone(&shared.answers));
        let notifier = NotifierThread::start(Kernel::new(to_kernel), answered, stale)
            .map_err(MountError::io("starting a thread"))?;
        let begun = before(&Beginning {
            path: &mount.path,
            invalidator: shared.invalidator.clone(),
            requests: RequestCounter(Arc::clone(&shared.counters)),
        });
        if begun.is_err() {
            notifier.stop();
        }
        let begun = begun?;
        let (alive, ended) = crossbeam_channel::bounded(0);
        let core = Arc::new(Core {
            id,
            mount,
            shared,
            notifier,
            record: Mutex::new(Some(record)),
            outcome: Mutex::new(None),
            has_ended: Condvar::new(),
            alive: Mutex::new(Some(alive)),
            signals: Mutex::new(None),
            keeping_record: Mutex::new(None),
        });
        core.keep_record()?;
        if let Some(after) = options.idle_unmount {
            idle::watch(core.mount.clone(), after, Arc::clone(&core.shared), ended)
                .map_err(MountError::io("starting a thread"))?;
        }
        let of_panics = Arc::downgrade(&core);
        panics::watch(id, move || {
            if let Some(core) = of_panics.upgrade() {
                log::error!("an event loop failed because of a bug: the mount ends");
                core.mount.abort();
            }
        });
        let of_session = Arc::clone(&core);
        std::thread::Builder::new()
            .name("strongroom-session".to_owned())
            .spawn(move || of_session.run(session))
            .map_err(MountError::io("starting a thread"))?;
        Ok((Self { core }, begun))
    }

    /// Where it is mounted, absolute and free of links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.core.mount.path
    }

    /// Requests answered so far, by kind.
    #[must_use]
    pub fn requests(&self) -> RequestCounts {
        self.core.shared.counters.snapshot()
    }

    /// Reads the same later, also when the mount has ended.
    #[must_use]
    pub fn request_counter(&self) -> RequestCounter {
        RequestCounter(Arc::clone(&self.core.shared.counters))
    }

    /// Tells the kernel of changes that did not come through this mount.
    #[must_use]
    pub fn invalidator(&self) -> Invalidator {
        self.core.shared.invalidator.clone()
    }

    /// Waits until the mount is over, by whomever, and everything is durable.
    ///
    /// # Errors
    /// `EndedBadly` if the last sync failed or an operation panicked.
    pub fn wait(&self) -> Result<(), MountError> {
        self.core.wait()
    }

    /// Unmounts and waits until everything is durable.
    ///
    /// # Errors
    /// `Busy` if something is open in it or mounted over it: the mount goes on. `EndedBadly` as `wait`.
    pub fn unmount(&self) -> Result<(), MountError> {
        match self.core.mount.detach(Detach::IfUnused) {
            // Somebody was faster, or it was unmounted lazily and still has users.
            Ok(()) | Err(MountError::NotMounted(_)) => self.wait(),
            Err(error) => Err(error),
        }
    }

    /// Says that this process is there for the mount only and ends with it: `unmount` of another process then returns when
    /// this one is gone, and with it everything that it held open.
    pub fn process_ends_with_it(&self) {
        if let Some(record) = self.core.record.lock().as_mut() {
            record.process_ends_too();
        }
    }

    /// From now on SIGTERM, SIGINT and SIGHUP end the mount: everything is made durable, also when files are
    /// open, whose users then get an error. A SIGHUP that this process ignores, as below `nohup`, stays ignored.
    ///
    /// # Errors
    /// `Io` if the handlers cannot be installed.
    pub fn end_on_signals(&self) -> Result<(), MountError> {
        let hangs_up = (!ignores(SIGHUP)).then_some(SIGHUP);
        let mut signals = Signals::new([SIGTERM, SIGINT].into_iter().chain(hangs_up))
            .map_err(MountError::io("installing signal handlers"))?;
        *self.core.signals.lock() = Some(signals.handle());
        let core = Arc::clone(&self.core);
        std::thread::Builder::new()
            .name("strongroom-signals".to_owned())
            .spawn(move || {
                if signals.forever().next().is_some() {
                    core.end_now();
                }
            })
            .map(|_| ())
            .map_err(MountError::io("starting a thread"))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.core.end_now();
        if let Some(signals) = self.core.signals.lock().take() {
            signals.close();
        }
    }
}

impl Core {
    /// Serves until the kernel ends the connection, then ends the mount.
    fn run(&self, session: Session<Adapter>) {
        let served = session.run();
        if let Err(error) = &served {
            // A loop ended by itself: the path must not stay behind without an answer.
            log::error!("the connection to the kernel broke: {error}");
            let _ = self.mount.detach(Detach::Lazily);
        }
        self.end(served.err());
    }

    /// Ends the mount whether it is used or not. Returns when everything is durable.
    fn end_now(&self) {
        if self.outcome.lock().is_some() {
            return;
        }
        let freed = match self.mount.detach(Detach::IfUnused) {
            // The session may end by itself, but must not be waited for: a lazy unmount before, or another mount namespace, may
            // keep it.
            Ok(()) | Err(MountError::NotMounted(_)) => {
                self.collect();
                Ok(())
            }
            Err(_) => {
                self.send_all();
                self.collect();
                // Out of sight; open files answer with an error from now on.
                self.mount.detach(Detach::Lazily)
            }
        };
        self.end(None);
        if let Err(error) = freed {
            log::warn!("the mount point could not be freed: {error}");
            // It lies below another file system, perhaps: nobody shall wait for its answers. All that was sent is stored by now.
            self.mount.abort();
        }
        // The outcome is in `wait`, for whoever asks.
        let _ = self.wait();
    }

    /// Has the kernel send all that it keeps, many pages at once; but of a FUSE file system it does not wait for that.
    fn send_all(&self) {
        if !self.mount.is_seen() {
            return;
        }
        let sent = File::open(&self.mount.path).and_then(|root| Ok(rustix::fs::syncfs(&root)?));
        if let Err(error) = sent {
            log::error!("data in the kernel's cache could not be collected: {error}");
        }
    }

    /// Waits until what the kernel keeps is here, written to mapped memory or to files: after the end it would come too late. Before
    /// it forgets a page, it waits for that page to be written.
    fn collect(&self) {
        let inodes = self.shared.references.inodes();
        self.shared.invalidator.contents(inodes);
    }

    /// Makes the record again whenever its folder goes, as long as the mount lives.
    fn keep_record(self: &Arc<Self>) -> Result<(), MountError> {
        let (alive, ended) = UnixStream::pair().map_err(MountError::io("making a socket pair"))?;
        *self.keeping_record.lock() = Some(alive);
        let core = Arc::clone(self);
        let keep = move || {
            loop {
                let kept = core.record.lock().as_ref().map(Record::kept);
                let Some(kept) = kept else { return };
                let Some(watch) = kept.watch() else { return };
                let mut waits = [
                    PollFd::new(&watch, PollFlags::IN),
                    PollFd::new(&ended, PollFlags::IN | PollFlags::HUP),
                ];
                match poll(&mut waits, None) {
                    Err(rustix::io::Errno::INTR) => continue,
                    Ok(_) if waits[1].revents().is_empty() => {}
                    _ => return,
                }
                if let Some(record) = core.record.lock().as_mut()
                    && let Err(error) = record.come_back(&core.mount.path)
                {
                    log::error!("`strongroom umount` can no longer wait for this process: {error}");
                    return;
                }
            }
        };
        let named = std::thread::Builder::new().name("strongroom-record".to_owned());
        let started = named.spawn(keep).map(drop);
        started.map_err(MountError::io("starting a thread"))
    }

    /// Drains and syncs, once (invariant 1), and tells everybody how it went.
    fn end(&self, connection: Option<io::Error>) {
        let Some(record) = self.record.lock().take() else {
            return;
        };
        panics::forget(self.id);
        let result = self.drain(&record);
        let result = match connection {
            Some(error) if result.is_ok() => {
                Err(format!("the connection to the kernel broke: {error}"))
            }
            _ => result,
        };
        self.notifier.stop();
        // Before the record: who waits for the end reads the log next.
        match &result {
            Ok(()) => log::info!("the mount has ended; everything is stored"),
            Err(reason) => log::error!("the mount has ended: {reason}"),
        }
        record.end(&result);
        *self.outcome.lock() = Some(result);
        self.has_ended.notify_all();
        self.alive.lock().take();
        self.keeping_record.lock().take();
    }

    fn drain(&self, record: &Record) -> Result<(), String> {
        record.left(0);
        let filesystem = self.shared.gate.close();
        // What was accepted is done, with file systems of its own.
        self.shared.reading.close();
        self.shared.waiting.close();
        if self.shared.gate.has_failed() {
            return Err(
                "an operation failed because of a bug; synced data is safe; run `strongroom verify` on the vault"
                    .to_owned(),
            );
        }
        let Some(filesystem) = filesystem else {
            return Ok(());
        };
        for (inode, count) in self.shared.references.take_all() {
            filesystem.forget(inode, count);
        }
        let (stored, waits) = crossbeam_channel::bounded::<()>(0);
        std::thread::scope(|scope| {
            // Who unmounts is shown how much is left.
            let told = || {
                let left = || record.left(filesystem.counters().dirty_bytes);
                left();
                while waits.recv_timeout(limits::LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    left();
                }
            };
            let named = std::thread::Builder::new().name("strongroom-left".to_owned());
            // Without a thread for it, it is not shown.
            let _ = named.spawn_scoped(scope, told);
            let synced = filesystem.sync().map_err(|error| error.to_string());
            drop(stored);
            synced
        })
    }

    fn wait(&self) -> Result<(), MountError> {
        let mut outcome = self.outcome.lock();
        loop {
            match &*outcome {
                Some(result) => return result.clone().map_err(MountError::EndedBadly),
                None => self.has_ended.wait(&mut outcome),
            }
        }
    }
}

fn share(
    filesystem: Filesystem,
    options: &MountOptions,
    invalidator: Invalidator,
) -> Result<Shared, MountError> {
    let gate = Gate::new(filesystem);
    let pool = |name, count| {
        Pool::start(name, count, gate.failure_of_a_job())
            .map_err(MountError::io("starting a thread"))
    };
    let reading = pool("strongroom-read", limits::READING_THREADS)?;
    let waiting = pool("strongroom-wait", limits::WAITING_THREADS)?;
    let xattrs = if options.no_xattr {
        Xattrs::Refused
    } else {
        Xattrs::Offered
    };
    Ok(Shared {
        gate,
        view: options.view(),
        counters: Arc::new(Counters::new()),
        wakeful: if options.save_power {
            Wakeful::off()
        } else {
            Wakeful::start()
        },
        references: Arc::new(References::new()),
        answers: Arc::default(),
        invalidator,
        turns: Turns::new(),
        loops_occupied: AtomicUsize::new(0),
        reading,
        waiting,
        xattrs,
        writes: if options.writeback && !options.read_only {
            Writes::KeptByKernel
        } else {
            Writes::Through
        },
    })
}

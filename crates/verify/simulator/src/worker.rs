//! The process on the simulated disk: carries out the acts of a seed, on one thread or several, and reports its progress.
//!
//! Takes   a folder, a seed, and a count
//! Gives   a mark on standard output before each act and after it (see `disk::Mark`)
//! Never   judges, or continues after an error of its disk
//! Spec    none: test only

use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use strongroom::records::Records;
use strongroom_conformance::engine::{self, Setup};
use strongroom_conformance::operation::{Answer, Session};
use strongroom_filesystem::{
    Background, Caller, Filesystem, InodeId, NewNode, NodeKind, Options, Resealed, Watcher, Work,
};

use crate::database_faults::is_of_the_disk;
use crate::disk::{Mark, work_byte};
use crate::plan::{Act, acts};

/// How often the background thread commits while several threads work: often, so that it meets them.
const COMMIT_INTERVAL: Duration = Duration::from_millis(5);

/// How large things are in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As `engine::small` has it.
    Small,
    /// As in the product.
    Real,
}

impl Scale {
    /// The name it has at the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Real => "real",
        }
    }

    /// The scale of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Small, Self::Real]
            .into_iter()
            .find(|scale| scale.name() == name)
    }

    /// How the file system is made and opened.
    #[must_use]
    pub fn setup(self) -> Setup {
        match self {
            Self::Small => engine::small(),
            Self::Real => engine::quiet().into(),
        }
    }
}

/// Says through the standard output what goes on in the background.
#[derive(Debug)]
struct Announcer;

impl Watcher for Announcer {
    fn begins(&self, work: Work) {
        // Nobody listens any more: then the run is over anyway.
        let _ = say(work_byte(work, Mark::Start));
    }

    fn ends(&self, work: Work) {
        let _ = say(work_byte(work, Mark::Return));
    }
}

pub(crate) fn say(byte: u8) -> std::io::Result<()> {
    let mut listener = std::io::stdout().lock();
    listener.write_all(&[byte])?;
    listener.flush()
}

pub(crate) fn announcing(scale: Scale) -> Setup {
    let mut setup = scale.setup();
    setup.options.watcher = Some(std::sync::Arc::new(Announcer));
    setup
}

/// What a program does after the power came back: opens what is there, and cleans up.
///
/// # Errors
/// Whatever goes wrong.
pub fn recover(folder: &Path, scale: Scale) -> Result<(), String> {
    let system =
        engine::open(folder, announcing(scale)).map_err(|error| format!("open: {error}"))?;
    let system = ManuallyDrop::new(system);
    let records = Records::new(folder);
    system
        .resume_erasing()
        .map_err(|error| format!("erasing: {error}"))?;
    system.tick().map_err(|error| format!("tick: {error}"))?;
    system
        .compact()
        .map_err(|error| format!("compact: {error}"))?;
    reseal(&system, &records)
}

/// Re-seals everything that is not of the newest epoch, records of revisions too.
///
/// # Errors
/// In words.
pub fn reseal(system: &Filesystem, records: &Records) -> Result<(), String> {
    loop {
        match system.reseal().map_err(|error| error.to_string())? {
            Resealed::More => {}
            Resealed::Stuck => return Err("something does not open and stays as it is".to_owned()),
            Resealed::Done(_) => break,
        }
    }
    records
        .reseal(system, || Ok(()))
        .map_err(|error| error.to_string())
}

/// The name of a thread's own directory.
#[must_use]
pub fn thread_name(thread: usize) -> String {
    format!("thread{thread}")
}

/// The seed of a thread's own acts.
#[must_use]
pub fn thread_seed(seed: u64, thread: usize) -> u64 {
    seed.wrapping_add(thread as u64 * 1_000_003)
}

/// Runs the acts of `seed` in the empty folder `folder`: on the whole file system, or with `threads` above 1 each thread
/// its own acts in its own directory. Ends at the first error of the disk, without closing anything.
///
/// # Errors
/// If the file system cannot even be made, or nobody listens.
pub fn work(
    folder: &Path,
    seed: u64,
    count: usize,
    threads: usize,
    scale: Scale,
) -> Result<(), String> {
    let mut setup = announcing(scale);
    if threads > 1 {
        setup.options = Options {
            background: Background::Thread,
            commit_interval: COMMIT_INTERVAL,
            ..setup.options
        };
    }
    // Never dropped: closing is not part of a power cut.
    let system = ManuallyDrop::new(
        engine::create(folder, setup).map_err(|error| format!("create: {error}"))?,
    );
    let records = Records::new(folder);
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| error.to_string())?;
    let epochs = Epochs::default();
    if threads <= 1 {
        return carry_out(
            &system,
            (&epochs, &records),
            InodeId::ROOT,
            0,
            &acts(seed, count),
        );
    }
    let mut tops = Vec::new();
    for thread in 0..threads {
        let node = NewNode {
            kind: NodeKind::Directory,
            mode: 0o755,
            rdev: 0,
            target: Vec::new(),
        };
        let made = system.create(
            &Caller::root(),
            InodeId::ROOT,
            thread_name(thread).as_bytes(),
            &node,
        );
        tops.push(made.map_err(|error| format!("create: {error}"))?.inode);
    }
    system.sync().map_err(|error| format!("create: {error}"))?;
    let (system, epochs, records): (&Filesystem, _, &Records) = (&system, &epochs, &records);
    std::thread::scope(|scope| {
        let running: Vec<_> = tops
            .into_iter()
            .enumerate()
            .map(|(thread, top)| {
                scope.spawn(move || {
                    let acts = acts(thread_seed(seed, thread), count);
                    carry_out(system, (epochs, records), top, thread, &acts)
                })
            })
            .collect();
        running.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// The oldest epoch with keys and the newest, for all threads.
#[derive(Default)]
pub(crate) struct Epochs(Mutex<(u32, u32)>);

impl Epochs {
    /// Begins the next epoch, if the engine has keys for one more.
    pub(crate) fn begin_next(&self, system: &Filesystem) -> strongroom_filesystem::Result<()> {
        let mut epochs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        begin_next(&mut epochs, system)
    }

    /// Begins the next epoch, re-seals everything under it, and takes the older keys away.
    fn rotate(&self, system: &Filesystem, records: &Records) -> Result<(), String> {
        let mut epochs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        begin_next(&mut epochs, system).map_err(|error| error.to_string())?;
        reseal(system, records)?;
        epochs.0 = epochs.1;
        system.forget_epochs(engine::sealer_from(epochs.0, epochs.1));
        Ok(())
    }
}

fn begin_next(epochs: &mut (u32, u32), system: &Filesystem) -> strongroom_filesystem::Result<()> {
    epochs.1 = (epochs.1 + 1).min(engine::EPOCH_MAX);
    system.begin_epoch(engine::sealer_from(epochs.0, epochs.1))
}

fn carry_out(
    system: &Filesystem,
    (epochs, records): (&Epochs, &Records),
    top: InodeId,
    thread: usize,
    acts: &[Act],
) -> Result<(), String> {
    let mut session = ManuallyDrop::new(Session::rooted(system.clone(), top));
    let say = |mark: Mark| say(mark.byte(thread)).map_err(|error| error.to_string());
    for (at, act) in acts.iter().enumerate() {
        say(Mark::Start)?;
        let failure = match act {
            Act::Tick => session.system.tick().err().map(|error| error.to_string()),
            Act::Compact => session
                .system
                .compact()
                .err()
                .map(|error| error.to_string()),
            Act::Rotate => epochs.rotate(&session.system, records).err(),
            Act::Take => crate::revisions::take(records, system, at).err(),
            Act::Remove(which) => crate::revisions::remove(records, system, *which).err(),
            Act::Erase(which) => crate::revisions::erase(system, *which).err(),
            Act::BeginEpoch => epochs
                .begin_next(&session.system)
                .err()
                .map(|error| error.to_string()),
            Act::Compress(compression) => session
                .system
                .set_compression(*compression)
                .err()
                .map(|error| error.to_string()),
            Act::Operation(operation) => match session.apply(operation) {
                Answer::Refused(error) if is_of_the_disk(&error) => Some(error.to_string()),
                _ => None,
            },
        };
        if let Some(error) = failure {
            // To the judge the act never returned; how it failed is for the reader.
            eprintln!("stopped: {error}");
            return Ok(());
        }
        say(Mark::Return)?;
    }
    Ok(())
}

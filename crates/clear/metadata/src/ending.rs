//! Keeps threads off the database while the program ends.
//!
//! `exit`, and so a return from `main`, calls the functions that libraries have registered, while the other threads still run. SQLCipher then
//! frees its keys and its functions, even if a thread uses them. Our function was registered later, so it is called earlier: it lets no use
//! of a connection begin any more, and waits until those that have begun are over.
//!
//! Takes   each use of a connection
//! Gives   a `Running`, which lasts as long as that use; none once the program ends
//! Never   ends a program, or delays its end for longer than `ENDING_WAIT`
//!
//! Invariants
//!  (1) A thread that opens or closes a connection, or runs a statement on it, has a `Running` meanwhile.
//!  (2) The function does not wait for uses by its own thread: a signal may have led to `exit` in the middle of one.
//!  (3) In a child of `fork` nobody waits for threads of its parent: they do not exist there.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use rusqlite::{CachedStatement, Connection};

use crate::error::{Error, Result};
use crate::limits::ENDING_WAIT;

/// How many `Running` there are, and whether there may be more.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static ENDS: AtomicBool = AtomicBool::new(false);

/// The process that counts: its number.                                                                       (3)
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// For who waits until the last `Running` is gone.
static WAITING: Mutex<()> = Mutex::new(());
static GONE: Condvar = Condvar::new();

/// Connections that nobody may close any more.
static LEFT: Mutex<Vec<Connection>> = Mutex::new(Vec::new());

thread_local! {
    /// How many `Running` this thread has.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// A use of a connection, by the thread that has this.
pub(crate) struct Running(PhantomData<*const ()>);

impl Running {
    /// # Errors
    /// `Error::Failed` if the program ends.
    pub(crate) fn begin() -> Result<Self> {
        OWN.with(|own| own.set(own.get() + 1));
        // Counted before it is asked: either this sees that the program ends, or `end` sees this.
        RUNNING.fetch_add(1, Ordering::SeqCst);
        let running = Self(PhantomData);
        check()?;
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        OWN.with(|own| own.set(own.get() - 1));
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        if ENDS.load(Ordering::SeqCst) {
            // Whoever waits has looked before, or looks after this.
            drop(WAITING.lock());
            GONE.notify_all();
        }
    }
}

/// For a use that takes long: whether it may go on.
///
/// # Errors
/// `Error::Failed` if the program ends.
pub(crate) fn check() -> Result<()> {
    match ENDS.load(Ordering::SeqCst) {
        true => Err(Error::Failed),
        false => Ok(()),
    }
}

/// To be called before a connection is opened: this process counts from here on.
pub(crate) fn count_here() {
    let here = std::process::id();
    // Most do not lock: a process that is forked meanwhile could never do so again.
    if PROCESS.load(Ordering::SeqCst) == here {
        return;
    }
    let _one = WAITING.lock();
    if PROCESS.load(Ordering::SeqCst) != here {
        RUNNING.store(OWN.with(Cell::get), Ordering::SeqCst); // (3)
        PROCESS.store(here, Ordering::SeqCst);
    }
}

/// To be called when the program ends, before SQLCipher hears of it.
pub(crate) extern "C" fn end() {
    ENDS.store(true, Ordering::SeqCst);
    if PROCESS.load(Ordering::SeqCst) != std::process::id() {
        return; // (3)
    }
    let own = OWN.with(Cell::get); // (2)
    let deadline = Instant::now() + ENDING_WAIT;
    let mut waiting = WAITING.lock();
    while RUNNING.load(Ordering::SeqCst) > own {
        if GONE.wait_until(&mut waiting, deadline).timed_out() {
            return;
        }
    }
}

/// A prepared statement, and its use of the connection.                                                        (1)
pub(crate) struct Prepared<'c> {
    // Dropped in this order: giving a statement back ends what it does.
    statement: CachedStatement<'c>,
    _running: Running,
}

impl<'c> Prepared<'c> {
    pub(crate) fn new(connection: &'c Connection, sql: &str) -> Result<Self> {
        let running = Running::begin()?;
        Ok(Self {
            statement: connection.prepare_cached(sql)?,
            _running: running,
        })
    }
}

impl<'c> Deref for Prepared<'c> {
    type Target = CachedStatement<'c>;

    fn deref(&self) -> &CachedStatement<'c> {
        &self.statement
    }
}

impl<'c> DerefMut for Prepared<'c> {
    fn deref_mut(&mut self) -> &mut CachedStatement<'c> {
        &mut self.statement
    }
}

/// A connection that is closed when this is dropped, unless the program ends.                                  (1)
pub(crate) struct Open(Option<Connection>);

impl Open {
    pub(crate) fn new(connection: Connection) -> Self {
        Self(Some(connection))
    }
}

impl Deref for Open {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
            .as_ref()
            .expect("the connection is there until this is dropped")
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(connection) = self.0.take() else {
            return;
        };
        match Running::begin() {
            Ok(_running) => drop(connection),
            Err(_) => LEFT.lock().push(connection),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::{Command, exit};
    use std::sync::mpsc;
    use std::thread;

    use crate::limits::KEY_BYTES;
    use crate::{Options, Result, Store};

    const KEY: [u8; KEY_BYTES] = [1; KEY_BYTES];
    const THREADS: u64 = 8;
    const ROUNDS: usize = 10;
    /// Where the database of the program is.
    const PLACE: &str = "STRONGROOM_TEST_ENDING";

    fn options() -> Options {
        Options {
            reserve_bytes: 0,
            ..Options::default()
        }
    }

    /// Half of the threads write and commit, the others read.
    fn work(store: &Store, number: u64, round: u64) -> Result<()> {
        if number.is_multiple_of(2) {
            let mut writer = store.lock();
            writer.put_setting(&format!("own-{number}"), &round.to_le_bytes())?;
            writer.commit()?;
        } else {
            store.reader()?.snapshot()?.setting("own-0")?;
        }
        Ok(())
    }

    #[test]
    #[ignore = "a part of the next test, which runs it in a process of its own"]
    fn a_program_that_ends_amid_statements() {
        let folder = PathBuf::from(std::env::var_os(PLACE).expect("the next test sets it"));
        let store = Store::open(&folder, &KEY, options()).unwrap();
        let store: &'static Store = Box::leak(Box::new(store));
        let (sender, begun) = mpsc::channel();
        for number in 0..THREADS {
            let sender = sender.clone();
            thread::spawn(move || {
                let rounds = (0..).take_while(|round| work(store, number, *round).is_ok());
                for round in rounds {
                    if round == 20 {
                        sender.send(()).unwrap();
                    }
                }
            });
        }
        for _ in 0..THREADS {
            begun.recv().unwrap();
        }
        exit(0);
    }

    /// Goal: a program ends as it says while its threads are in the database, and leaves it whole. Method: `end` is what keeps SQLCipher from
    /// freeing functions that they call.
    #[test]
    fn a_program_ends_well_while_its_threads_are_in_statements() {
        let folder = tempfile::tempdir().unwrap();
        drop(Store::create(folder.path(), &KEY, options()).unwrap());
        for _ in 0..ROUNDS {
            let output = Command::new(std::env::current_exe().unwrap())
                .arg("ending::tests::a_program_that_ends_amid_statements")
                .args(["--exact", "--ignored", "--nocapture"])
                .env(PLACE, folder.path())
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let store = Store::open(folder.path(), &KEY, options()).unwrap();
            assert_eq!(store.integrity_check().unwrap(), Vec::<String>::new());
            assert!(store.lock().setting("own-0").unwrap().is_some());
        }
    }
}

//! Full and failing disks, syncs, and the length of the log.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use strongroom_metadata::limits::READERS_MAX;
use strongroom_metadata::{
    Checkpoint, DiskEvent, DiskFault, DiskObserver, Error, FileKind, InodeId, Options, Store,
};

use crate::fixture::{Faults, Folder, KEY, Plan, Target, create_file, names, small_options};

fn watched(folder: &Folder, faults: &Arc<Faults>, options: Options) -> Store {
    Store::create(
        folder.path(),
        &KEY,
        Options {
            observer: Some(faults.clone()),
            ..options
        },
    )
    .unwrap()
}

/// Creates and commits files until something fails; gives the names whose commit was acknowledged.
fn work(store: &Store) -> (Vec<String>, Option<Error>) {
    let mut acknowledged = Vec::new();
    for round in 0..4 {
        let name = format!("file {round}");
        create_file(store, &name);
        let step = (|| {
            store.lock().commit()?;
            store.sync_log()?;
            acknowledged.push(name);
            if round % 2 == 1 {
                store.checkpoint().map(drop)
            } else {
                Ok(())
            }
        })();
        if let Err(error) = step {
            return (acknowledged, Some(error));
        }
    }
    (acknowledged, None)
}

fn tiny_log() -> Options {
    Options {
        log_bytes: 4096,
        reserve_bytes: 0,
        ..small_options()
    }
}

/// Fails each write and each sync of the scenario in turn, once and from then on, in every way a disk can.
#[test]
fn whatever_fails_what_was_acknowledged_is_there_after_reopening() {
    let mut failures = 0;
    for target in [Target::Write, Target::Sync] {
        for (fault, lasting) in [
            (DiskFault::NoSpace, false),
            (DiskFault::NoSpace, true),
            (DiskFault::Failure, false),
            (DiskFault::Failure, true),
        ] {
            for nth in 1.. {
                let folder = Folder::new();
                let faults = Faults::new();
                let store = watched(&folder, &faults, tiny_log());
                faults.arm(Plan {
                    target,
                    nth,
                    fault,
                    lasting,
                });
                let (acknowledged, error) = work(&store);
                if faults.seen() < nth {
                    assert!(error.is_none(), "{error:?} without a fault");
                    break;
                }
                failures += 1;
                let error =
                    error.unwrap_or_else(|| panic!("{target:?} {nth} failed and nobody was told"));
                assert!(
                    matches!(error, Error::NoSpace | Error::Disk(_) | Error::Failed),
                    "{target:?} {nth}: {error:?}"
                );
                let crashed = folder.copy();
                drop(store);
                faults.disarm();
                for (how, folder) in [("crash", &crashed), ("close", &folder)] {
                    let reopened = folder.open();
                    let found = names(&reopened);
                    assert_eq!(
                        found[..acknowledged.len()],
                        acknowledged,
                        "{target:?} {nth} {fault:?}, {how}"
                    );
                    assert!(
                        found.len() <= acknowledged.len() + 1,
                        "{how}: only the failed commit is in doubt"
                    );
                    assert_eq!(
                        reopened.integrity_check().unwrap(),
                        [] as [String; 0],
                        "{how}"
                    );
                }
            }
        }
    }
    assert!(failures > 100, "{failures} faults were injected");
}

#[test]
fn a_failed_commit_fails_the_store_for_changes_but_not_for_reading() {
    let folder = Folder::new();
    let faults = Faults::new();
    let store = watched(&folder, &faults, tiny_log());
    create_file(&store, "a");
    store.lock().commit().unwrap();
    create_file(&store, "b");
    faults.arm(Plan {
        target: Target::Write,
        nth: 1,
        fault: DiskFault::NoSpace,
        lasting: false,
    });
    assert!(matches!(store.lock().commit(), Err(Error::NoSpace)));
    faults.disarm();
    assert!(store.has_failed());
    assert!(matches!(
        store.lock().put_setting("x", b""),
        Err(Error::Failed)
    ));
    assert!(matches!(store.lock().commit(), Err(Error::Failed) | Ok(_)));
    assert!(matches!(store.sync_log(), Err(Error::Failed)));
    assert!(matches!(store.checkpoint(), Err(Error::Failed)));
    assert_eq!(
        names(&store),
        ["a"],
        "the state of the last commit can be read"
    );
}

#[test]
fn a_failed_sync_fails_the_store_and_nothing_is_copied_into_the_database_any_more() {
    let folder = Folder::new();
    let faults = Faults::new();
    let store = watched(&folder, &faults, tiny_log());
    create_file(&store, "a");
    store.lock().commit().unwrap();
    faults.arm(Plan {
        target: Target::Sync,
        nth: 1,
        fault: DiskFault::Failure,
        lasting: false,
    });
    assert!(matches!(store.sync_log(), Err(Error::Disk(_))));
    assert!(
        matches!(store.sync_log(), Err(Error::Failed)),
        "a second sync would succeed and mean nothing"
    );
    let before = fs::read(folder.file("metadata.db")).unwrap();
    drop(store);
    assert_eq!(fs::read(folder.file("metadata.db")).unwrap(), before);
    assert!(
        folder.file("metadata.db-wal").exists(),
        "the log is left for recovery"
    );
}

/// Goal: SQLite gives up the whole transaction when a page of it cannot be read, by a question too. What was changed before
/// is gone then, and no later change may be stored as if it were there.
#[test]
fn a_read_that_fails_in_an_open_transaction_fails_the_store_for_changes() {
    let folder = Folder::new();
    let faults = Faults::new();
    let options = Options {
        cache_bytes: 40 * 1024,
        ..small_options()
    };
    let store = watched(&folder, &faults, options);
    for at in 0..500 {
        create_file(&store, &format!("file {at}"));
    }
    store.lock().commit().unwrap();
    store.sync_log().unwrap();
    create_file(&store, "given up");
    let ask_all = || {
        (0..500).try_for_each(|at| {
            let name = format!("file {at}");
            store.lock().entry(InodeId::ROOT, name.as_bytes()).map(drop)
        })
    };
    faults.arm(Plan {
        target: Target::Read,
        nth: 1,
        fault: DiskFault::Failure,
        lasting: false,
    });
    assert!(matches!(ask_all(), Err(Error::Disk(_))));
    faults.disarm();
    assert!(matches!(
        store.lock().put_setting("x", b""),
        Err(Error::Failed)
    ));
    assert!(matches!(store.lock().commit(), Err(Error::Failed)));
    assert!(matches!(store.sync_log(), Err(Error::Failed)));
    assert!(store.has_failed());
    // SQLCipher reads nothing more on this connection, but that is no damage.
    let again = ask_all();
    assert!(matches!(again, Err(Error::ReadFailed)), "{again:?}");
    drop(store);
    assert_eq!(names(&folder.open()).len(), 500);
}

#[test]
fn a_read_that_fails_costs_a_reader_its_connection_and_nothing_more() {
    let folder = Folder::new();
    let faults = Faults::new();
    let options = Options {
        reader_cache_bytes: 40 * 1024,
        ..small_options()
    };
    let store = watched(&folder, &faults, options);
    // More pages than the cache of a reader holds.
    let name = |at: usize| format!("{at} {}", "x".repeat(200));
    for at in 0..500 {
        create_file(&store, &name(at));
    }
    store.lock().commit().unwrap();
    let ask_all = || -> Result<(), Error> {
        (0..500).try_for_each(|at| {
            let reader = store.reader()?;
            reader.entry(InodeId::ROOT, name(at).as_bytes())?;
            Ok(())
        })
    };
    ask_all().unwrap();
    let mut failures = 0;
    for nth in 1..12 {
        faults.arm(Plan {
            target: Target::Read,
            nth,
            fault: DiskFault::Failure,
            lasting: false,
        });
        match ask_all() {
            // SQLite reads some pages a second time by itself.
            Ok(()) => {}
            Err(Error::Disk(_)) => failures += 1,
            Err(other) => panic!("read {nth}: {other:?}"),
        }
        faults.disarm();
        ask_all().unwrap();
    }
    assert!(failures > 3, "{failures} reads failed");
    assert!(!store.has_failed());
}

#[test]
fn a_full_disk_costs_the_reserve_and_the_commit_succeeds() {
    let folder = Folder::new();
    let faults = Faults::new();
    let store = watched(&folder, &faults, small_options());
    assert!(store.reserve_intact());
    assert_eq!(
        fs::metadata(folder.file("reserve")).unwrap().len(),
        64 * 1024
    );
    create_file(&store, "a");
    faults.arm(Plan {
        target: Target::Write,
        nth: 2,
        fault: DiskFault::NoSpace,
        lasting: false,
    });
    store.lock().commit().unwrap();
    faults.disarm();
    assert!(!store.reserve_intact());
    assert_eq!(fs::metadata(folder.file("reserve")).unwrap().len(), 0);
    assert!(!store.has_failed());
    store.restore_reserve().unwrap();
    assert!(store.reserve_intact());
    drop(store);
    let store = folder.open();
    assert_eq!(names(&store), ["a"]);
    assert!(store.reserve_intact(), "a reserve that is there is kept");
}

/// Lets a commit and a checkpoint meet a full disk at once: the commit's write is refused once the checkpoint has given the reserve away.
#[derive(Default)]
struct FullForTwo {
    step: Mutex<Step>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    #[default]
    Before,
    Armed,
    /// The commit writes.
    Writing,
    /// The write of the checkpoint was refused.
    Refused,
    /// It is tried again: the reserve was given away.
    Given,
}

impl FullForTwo {
    fn set(&self, step: Step) {
        *self.step.lock().unwrap() = step;
        self.changed.notify_all();
    }

    fn wait_for(&self, step: Step) -> MutexGuard<'_, Step> {
        let now = self.step.lock().unwrap();
        self.changed.wait_while(now, |now| *now < step).unwrap()
    }
}

impl DiskObserver for FullForTwo {
    fn before(&self, event: &DiskEvent<'_>) -> Result<(), DiskFault> {
        let DiskEvent::Write { file, .. } = event else {
            return Ok(());
        };
        let step = *self.step.lock().unwrap();
        match (file, step) {
            (FileKind::Log, Step::Armed) => {
                self.set(Step::Writing);
                drop(self.wait_for(Step::Given));
                Err(DiskFault::NoSpace)
            }
            (FileKind::Database, Step::Armed | Step::Writing) => {
                drop(self.wait_for(Step::Writing));
                self.set(Step::Refused);
                Err(DiskFault::NoSpace)
            }
            (FileKind::Database, Step::Refused) => {
                self.set(Step::Given);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Goal: a commit succeeds on a full disk if the reserve was there when it began to write, also if a checkpoint gives the reserve away in
/// that moment. Failed before: it found the reserve gone, and nothing more could be stored until the vault was opened again.
#[test]
fn a_reserve_that_a_checkpoint_gives_away_serves_the_commit_beside_it() {
    let folder = Folder::new();
    let full = Arc::new(FullForTwo::default());
    let options = Options {
        observer: Some(full.clone()),
        log_bytes: 1,
        ..small_options()
    };
    let store = Store::create(folder.path(), &KEY, options).unwrap();
    create_file(&store, "a");
    store.lock().commit().unwrap();
    create_file(&store, "b");
    full.set(Step::Armed);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint().unwrap());
        let committed = store.lock().commit();
        checkpoint.join().unwrap();
        committed.unwrap();
    });
    assert!(!store.reserve_intact());
    assert!(!store.has_failed());
    drop(store);
    assert_eq!(names(&folder.open()), ["a", "b"]);
}

#[test]
fn a_call_of_sync_log_is_one_sync_of_the_log_and_a_commit_is_none() {
    let folder = Folder::new();
    let faults = Faults::new();
    let store = watched(&folder, &faults, small_options());
    // The first write after a checkpoint also syncs the log's new header, once.
    create_file(&store, "first");
    store.lock().commit().unwrap();
    let before = (
        store.counters().disk,
        faults.log_syncs.load(Ordering::SeqCst),
    );
    for round in 0..10 {
        create_file(&store, &format!("file {round}"));
        store.lock().commit().unwrap();
    }
    assert_eq!(store.counters().disk.log.syncs, before.0.log.syncs);
    for calls in 1..=5 {
        store.sync_log().unwrap();
        assert_eq!(store.counters().disk.log.syncs, before.0.log.syncs + calls);
        assert_eq!(faults.log_syncs.load(Ordering::SeqCst), before.1 + calls);
    }
    assert_eq!(
        store.counters().disk.database,
        before.0.database,
        "the database itself is left alone"
    );
}

#[test]
fn the_log_is_synced_while_another_thread_holds_the_writer() {
    let folder = Folder::new();
    let store = folder.create();
    create_file(&store, "a");
    store.lock().commit().unwrap();
    let guard = store.lock();
    std::thread::scope(|scope| {
        // Would never return if it needed the connection.
        scope.spawn(|| store.sync_log().unwrap()).join().unwrap();
    });
    drop(guard);
}

#[test]
fn syncs_commits_readers_and_checkpoints_at_once_lose_nothing() {
    let folder = Folder::new();
    let store = Store::create(folder.path(), &KEY, tiny_log()).unwrap();
    let writers_left = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (store, writers_left) = (&store, &writers_left);
            scope.spawn(move || {
                for round in 0..100 {
                    create_file(store, &format!("{thread} {round}"));
                    store.lock().commit().unwrap();
                    store.sync_log().unwrap();
                }
                writers_left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        scope.spawn(|| {
            while writers_left.load(Ordering::SeqCst) > 0 {
                store.checkpoint().unwrap();
            }
        });
        // More than there are connections, so that some wait for one.
        for _ in 0..READERS_MAX + 2 {
            scope.spawn(|| {
                let mut last = 0;
                for _ in 0..50 {
                    let reader = store.reader().unwrap();
                    let snapshot = reader.snapshot().unwrap();
                    let found = snapshot.entries(InodeId::ROOT, 0, 1000).unwrap().len();
                    assert!(found >= last, "commits do not go backwards");
                    last = found;
                }
            });
        }
    });
    assert!(store.counters().checkpoints > 1);
    drop(store);
    let store = folder.open();
    assert_eq!(names(&store).len(), 200);
    assert_eq!(store.integrity_check().unwrap(), [] as [String; 0]);
}

#[test]
fn a_checkpoint_restarts_the_log_so_that_it_does_not_grow() {
    let folder = Folder::new();
    let limit = 256 * 1024;
    let store = Store::create(
        folder.path(),
        &KEY,
        Options {
            log_bytes: limit,
            ..small_options()
        },
    )
    .unwrap();
    let mut done = 0;
    let mut longest = 0;
    for round in 0..400 {
        create_file(&store, &format!("file {round}"));
        store.lock().commit().unwrap();
        let outcome = store.checkpoint().unwrap();
        assert_ne!(outcome, Checkpoint::Partial);
        if outcome == Checkpoint::Done {
            done += 1;
            assert_eq!(store.log_bytes(), 0);
        }
        longest = longest.max(fs::metadata(folder.file("metadata.db-wal")).unwrap().len());
    }
    assert!(done >= 3, "{done} checkpoints");
    assert!(longest < limit * 2, "the log grew to {longest} bytes");
}

#[test]
fn a_checkpoint_waits_for_a_commit_and_for_a_snapshot_without_failing() {
    let folder = Folder::new();
    let store = Store::create(folder.path(), &KEY, tiny_log()).unwrap();
    assert_eq!(store.checkpoint().unwrap(), Checkpoint::NotDue);
    create_file(&store, "a");
    store.lock().commit().unwrap();
    create_file(&store, "b");
    assert_eq!(
        store.checkpoint().unwrap(),
        Checkpoint::Partial,
        "a transaction is open"
    );
    assert_eq!(
        store.lock().checkpoint().unwrap(),
        Checkpoint::Partial,
        "a transaction is open"
    );
    store.lock().commit().unwrap();
    let reader = store.reader().unwrap();
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(
        store.checkpoint().unwrap(),
        Checkpoint::Partial,
        "a snapshot looks at the log"
    );
    drop(snapshot);
    let mut transaction = store.lock();
    assert_eq!(transaction.checkpoint().unwrap(), Checkpoint::Done);
    assert_eq!(transaction.checkpoint().unwrap(), Checkpoint::NotDue);
}

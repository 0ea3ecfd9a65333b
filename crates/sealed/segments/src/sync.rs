//! Makes written bytes durable, with one sync for all callers that wait.
//!
//! Takes   files and names when their writes are acknowledged, each with its sequence number
//! Gives   the guarantee that everything up to a sequence number survives a power cut
//! Never   gives that guarantee again after a sync failed: the system may have dropped data that it could not write
//!
//! Invariants
//!  (1) A sequence number is given out after its bytes are written, so that every sync begun later covers them.
//!  (2) `durable` rises only after every file and folder recorded up to it was synced without an error.
//!  (3) A folder is taken out of `thinned` only after a sync of the folder that began after the last removal in it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use strongroom_folder::odd_of;
use strongroom_format::SegmentId;

use crate::counters::{Counting, add};
use crate::disk::{Disk, Folder, SegmentFile};
use crate::{Error, Result};

#[derive(Default)]
pub(crate) struct Syncing {
    state: Mutex<State>,
    round_over: Condvar,
}

#[derive(Default)]
struct State {
    /// The last sequence given out.
    acknowledged: u64,
    /// Everything up to this one is durable.
    durable: u64,
    /// Somebody is syncing; everyone else waits for the end of that round.
    running: bool,
    failed: bool,
    pending: Pending,
    /// Folders whose own name is durable.
    settled: BTreeSet<u8>,
    /// Folders that lost names since they were last synced, with the number of the last removal in each.
    thinned: BTreeMap<u8, u64>,
    /// Removals so far.
    removals: u64,
}

/// What the next round must sync.
#[derive(Default)]
struct Pending {
    files: HashMap<SegmentId, Arc<SegmentFile>>,
    folders: BTreeSet<Folder>,
}

/// Whether a file's name is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// It must become durable together with the bytes.
    New,
    /// It was recorded before.
    Known,
}

impl Syncing {
    /// # Errors
    /// `Failed` once a sync has failed.
    pub(crate) fn check(&self) -> Result<()> {
        if self.state.lock().failed {
            Err(Error::Failed)
        } else {
            Ok(())
        }
    }

    /// Records what was written to `file` and gives its sequence.
    pub(crate) fn record(&self, id: SegmentId, file: &Arc<SegmentFile>, name: Name) -> u64 {
        let mut state = self.state.lock();
        state.pending.files.insert(id, Arc::clone(file));
        if name == Name::New {
            let byte = id.0[0];
            state.pending.folders.insert(Folder::Named(byte));
            if !state.settled.contains(&byte) {
                state.pending.folders.insert(Folder::Root);
            }
        }
        state.acknowledged += 1;
        state.acknowledged
    }

    /// Records that `id` has no name any more.
    pub(crate) fn record_removal(&self, id: SegmentId) {
        let mut state = self.state.lock();
        state.pending.files.remove(&id);
        state.removals += 1;
        let number = state.removals;
        state.thinned.insert(id.0[0], number);
    }

    /// Everything recorded up to `sequence` is durable on return.
    pub(crate) fn sync(&self, sequence: u64, disk: &Disk, counting: &Counting) -> Result<()> {
        let mut state = self.state.lock();
        let wanted = sequence.min(state.acknowledged);
        loop {
            if state.durable >= wanted {
                return Ok(());
            }
            if state.failed {
                return Err(Error::Failed);
            }
            if !state.running {
                break;
            }
            self.round_over.wait(&mut state);
        }
        state.running = true;
        let pending = std::mem::take(&mut state.pending);
        let covered = state.acknowledged;
        drop(state);

        let synced = pending.sync(disk, counting);

        let mut state = self.state.lock();
        state.running = false;
        match &synced {
            Ok(()) => {
                state.durable = covered;
                if pending.folders.contains(&Folder::Root) {
                    state.settled.extend(pending.named_folders());
                }
            }
            Err(_) => state.failed = true,
        }
        self.round_over.notify_all();
        synced.map_err(Error::Io)
    }

    /// Every removal recorded so far is durable on return. Who meets another one at it syncs the same folders too.
    pub(crate) fn sync_removals(&self, disk: &Disk, counting: &Counting) -> Result<()> {
        let thinned = self.state.lock().thinned.clone();
        for (byte, number) in thinned {
            add(&counting.directory_syncs, 1);
            // Without the folder there is nothing that could come back.
            let gone = |error: &io::Error| {
                error.kind() == io::ErrorKind::NotFound || odd_of(error).is_some()
            };
            if let Err(error) = disk.sync_folder(Folder::Named(byte))
                && !gone(&error)
            {
                return Err(Error::Io(error));
            }
            // (3)
            let mut state = self.state.lock();
            if state.thinned.get(&byte) == Some(&number) {
                state.thinned.remove(&byte);
            }
        }
        Ok(())
    }
}

impl Pending {
    /// Bytes before names, so that a name never leads to less than was promised.
    fn sync(&self, disk: &Disk, counting: &Counting) -> io::Result<()> {
        for file in self.files.values() {
            add(&counting.data_syncs, 1);
            file.sync_data()?;
        }
        for &folder in &self.folders {
            add(&counting.directory_syncs, 1);
            disk.sync_folder(folder)?;
        }
        Ok(())
    }

    fn named_folders(&self) -> impl Iterator<Item = u8> {
        self.folders.iter().filter_map(|folder| match folder {
            Folder::Named(byte) => Some(*byte),
            Folder::Root => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use rustix::io::Errno;
    use strongroom_format::{Epoch, SegmentId};

    use crate::Error;
    use crate::disk::faults::Call;
    use crate::testing::{Folder, block};

    #[test]
    fn a_sync_costs_one_call_per_changed_file_and_folder_and_nothing_twice() {
        let folder = Folder::new();
        let store = folder.open();
        let counts = || {
            (
                store.counters().data_syncs,
                store.counters().directory_syncs,
            )
        };
        let first = store.put(Epoch(0), &[&block(10)], b"").expect("appended");
        assert_eq!(counts(), (0, 0), "writing alone syncs nothing");
        store.sync(first.sequence).expect("synced");
        assert_eq!(counts(), (1, 2), "a new file in a new folder");
        store.sync(first.sequence).expect("synced");
        assert_eq!(counts(), (1, 2), "durable already");
        let second = store.put(Epoch(0), &[&block(10)], b"").expect("appended");
        store.sync(second.sequence).expect("synced");
        assert_eq!(counts(), (2, 2), "an old file");
        let finished = store.end(first.segment, b"contents").expect("finished");
        store.sync(finished).expect("synced");
        assert_eq!(counts(), (3, 2), "its ending");
        store.sync(u64::MAX).expect("synced");
        assert_eq!(counts(), (3, 2));
    }

    /// Method: the first sync is held inside the system call. All that is appended meanwhile can only be
    /// covered by a second round, however the callers are scheduled.
    #[test]
    fn all_who_wait_share_one_sync() {
        const CALLERS: usize = 8;
        let folder = Folder::new();
        let store = folder.open();
        let first = store.put(Epoch(0), &[&block(10)], b"").expect("appended");
        let entered = store.disk.faults.hold_next_sync();
        let appended = Barrier::new(CALLERS + 1);
        thread::scope(|scope| {
            scope.spawn(|| store.sync(first.sequence).expect("synced"));
            entered.wait_until_held();
            for _ in 0..CALLERS {
                scope.spawn(|| {
                    let own = store.put(Epoch(0), &[&block(10)], b"").expect("appended");
                    appended.wait();
                    store.sync(own.sequence).expect("synced");
                });
            }
            appended.wait();
            entered.release();
        });
        assert_eq!(store.counters().data_syncs, 2);
        assert_eq!(store.counters().batches, 1 + CALLERS as u64);
    }

    #[test]
    fn after_a_failed_sync_nothing_more_is_promised_and_reading_goes_on() {
        for calls_before in 0..3 {
            let folder = Folder::new();
            let store = folder.open();
            let one = block(100);
            let appended = store.put(Epoch(0), &[&one], b"").expect("appended");
            store.disk.faults.plan(Call::Sync, calls_before, Errno::IO);
            assert!(matches!(store.sync(appended.sequence), Err(Error::Io(_))));
            assert!(matches!(store.sync(appended.sequence), Err(Error::Failed)));
            assert!(matches!(
                store.put(Epoch(0), &[&one], b""),
                Err(Error::Failed)
            ));
            assert!(matches!(
                store.end(appended.segment, b""),
                Err(Error::Failed)
            ));
            let place = appended.locations[0];
            assert_eq!(*store.read(place, 0..place.len).expect("read"), *one.bytes);
        }
    }

    #[test]
    fn what_was_durable_before_a_failed_sync_still_is() {
        let folder = Folder::new();
        let store = folder.open();
        let safe = store.put(Epoch(0), &[&block(10)], b"").expect("appended");
        store.sync(safe.sequence).expect("synced");
        let unsafe_one = store.put(Epoch(0), &[&block(10)], b"").expect("appended");
        store.disk.faults.plan(Call::Sync, 0, Errno::IO);
        assert!(matches!(store.sync(unsafe_one.sequence), Err(Error::Io(_))));
        store.sync(safe.sequence).expect("still durable");
    }

    #[test]
    fn removals_cost_a_sync_only_when_asked_for() {
        let folder = Folder::new();
        let store = folder.open();
        let appended = store.put(Epoch(0), &[&block(10)], b"").expect("appended");
        store.sync(appended.sequence).expect("synced");
        let before = store.counters();
        store.remove(appended.segment).expect("removed");
        store.remove(appended.segment).expect("nothing to do");
        store.sync(u64::MAX).expect("synced");
        assert_eq!(store.counters(), before);
        store.disk.faults.plan(Call::Sync, 0, Errno::IO);
        assert!(matches!(store.sync_removals(), Err(Error::Io(_))));
        store.sync_removals().expect("a second try counts");
        store.sync_removals().expect("nothing left");
        assert_eq!(store.counters().directory_syncs, before.directory_syncs + 2);
    }

    /// Goal: whoever asks for removals to be durable gets that, also while another one is at it.
    /// Method: the first caller is held inside the system call.
    /// Failed before: the second found nothing left to do, and returned before anything was durable.
    #[test]
    fn removals_are_durable_for_everybody_who_asks() {
        let folder = Folder::new();
        let store = folder.open();
        let appended = store.put(Epoch(0), &[&block(10)], b"").expect("appended");
        store.sync(appended.sequence).expect("synced");
        store.remove(appended.segment).expect("removed");
        let before = store.counters().directory_syncs;
        let entered = store.disk.faults.hold_next_sync();
        thread::scope(|scope| {
            scope.spawn(|| store.sync_removals().expect("synced"));
            entered.wait_until_held();
            store.sync_removals().expect("synced");
            let syncs = store.counters().directory_syncs - before;
            entered.release();
            assert_eq!(syncs, 2, "one is held, one is done");
        });
        store.sync_removals().expect("nothing left");
        assert_eq!(store.counters().directory_syncs, before + 2);
    }

    /// Goal: a name that goes while its folder is being synced is not taken for durable. Method: as above.
    #[test]
    fn a_removal_during_a_sync_takes_another_one() {
        let folder = Folder::new();
        let store = folder.open();
        let appended = store.put(Epoch(0), &[&block(10)], b"").expect("appended");
        store.sync(appended.sequence).expect("synced");
        store.remove(appended.segment).expect("removed");
        let before = store.counters().directory_syncs;
        let entered = store.disk.faults.hold_next_sync();
        thread::scope(|scope| {
            scope.spawn(|| store.sync_removals().expect("synced"));
            entered.wait_until_held();
            // Also a file that is gone counts as removed.
            store.remove(appended.segment).expect("removed");
            entered.release();
        });
        store.sync_removals().expect("synced");
        assert_eq!(store.counters().directory_syncs, before + 2);
    }

    /// Goal: a file that is put in place is durable with the name of its folder, whoever made that. Method: the sync fails.
    /// Failed before: a folder that an append had made, and nobody had synced, was taken for durable.
    #[test]
    fn a_file_that_is_put_in_place_waits_for_the_name_of_its_folder() {
        let folder = Folder::new();
        let store = folder.open();
        let appended = store.put(Epoch(0), &[&block(10)], b"").expect("appended");
        let id = SegmentId([appended.segment.0[0]; 16]);
        store.disk.faults.plan(Call::Sync, 0, Errno::IO);
        let put = store.replace(id, &[7; 4096]);
        assert!(matches!(put, Err(Error::Io(_))), "{put:?}");
        store.replace(id, &[7; 4096]).expect("put there");
        // Once is enough.
        store.disk.faults.plan(Call::Sync, 0, Errno::IO);
        store.replace(id, &[8; 4096]).expect("put there");
    }
}

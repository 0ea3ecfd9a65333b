//! What observers, mounts among them, hear of when a vault is brought in step with a remote.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use strongroom::filesystem::HISTORY_INODE;
use strongroom::{CLONED_FROM, Change, GoOn, NewRevision, Observer, Vault};

use crate::{Devices, NAME, fill};

#[derive(Default)]
struct Record(Mutex<Vec<Change>>);

impl Observer for Record {
    fn changed(&self, change: &Change) {
        self.0.lock().unwrap().push(change.clone());
    }
}

/// Goal: `.history` of a mount lists the snapshots that a push takes and that a pull brings. Method: an observer of each device records
/// what it hears in one push and in one pull. Failed before: neither said so to anybody, and a mount went on to list the old ones.
#[test]
fn observers_hear_of_the_snapshots_that_a_push_takes_and_a_pull_brings() {
    let devices = Devices::new(2, fill);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    let hears = |vault: &Vault, work: &dyn Fn(&Vault)| {
        let record = Arc::new(Record::default());
        let subscription = vault.subscribe(Arc::clone(&record) as Arc<dyn Observer>);
        work(vault);
        drop(subscription.unwrap());
        let heard = record.0.lock().unwrap();
        heard.contains(&Change::Content {
            inode: HISTORY_INODE,
            offset: 0,
            len: u64::MAX,
        })
    };
    devices.settle();
    one.write("/letters/two", b"changed").unwrap();
    let push = |vault: &Vault| {
        vault.push(NAME, &mut |_| GoOn::Yes).unwrap();
    };
    let pull = |vault: &Vault| {
        vault.pull(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    };
    assert!(hears(one, &push), "a push");
    assert!(!hears(one, &push), "a push that takes none");
    assert!(hears(two, &pull), "a pull");
    assert_eq!(two.read("/letters/two").unwrap(), b"changed");
}

/// Takes a snapshot when it first hears of a name.
struct TakesOne {
    vault: Vault,
    has_taken: AtomicBool,
}

impl Observer for TakesOne {
    fn changed(&self, change: &Change) {
        let is_name = matches!(change, Change::Entry { .. });
        if is_name && !self.has_taken.swap(true, Ordering::Relaxed) {
            self.vault.take_revision(&NewRevision::default()).unwrap();
        }
    }
}

/// Goal: an observer may use the vault, also for what nobody else may do during a merge. Method: it takes a snapshot when it hears what
/// a pull brought. That it ends is the test. Failed before: the pull let nobody take one until the observer had returned.
#[test]
fn an_observer_may_take_a_snapshot_of_what_a_pull_brings() {
    let devices = Devices::new(2, fill);
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    devices.settle();
    one.write("/letters/three", b"three").unwrap();
    one.push(NAME, &mut |_| GoOn::Yes).unwrap();
    let takes = Arc::new(TakesOne {
        vault: two.clone(),
        has_taken: AtomicBool::new(false),
    });
    let subscription = two.subscribe(Arc::clone(&takes) as Arc<dyn Observer>);
    let before = two.revisions().unwrap().len();
    two.pull(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    drop(subscription.unwrap());
    assert!(takes.has_taken.load(Ordering::Relaxed));
    assert!(two.revisions().unwrap().len() > before);
    assert_eq!(two.read("/letters/three").unwrap(), b"three");
}

//! What observers, mounts among them, hear of when a vault is brought in step with a remote.

use std::sync::{Arc, Mutex};

use strongroom::filesystem::HISTORY_INODE;
use strongroom::{CLONED_FROM, Change, GoOn, Observer, Vault};

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

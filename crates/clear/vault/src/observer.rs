//! Notifies a mount, or another subscriber, of the changes that others make, before those others get their answer.
//!
//! Takes   changes, as requests make them
//! Gives   every change to every subscriber; the changes of one request in the order in which it made them
//! Never   reports changes that were made directly on the `Filesystem`: the code that makes such changes knows them

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use strongroom_filesystem::InodeId;

/// What a request changed: which knowledge of it others must drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The name `name` in `parent` now means something else, or nothing.
    Entry {
        /// The directory.
        parent: InodeId,
        /// 1 to 255 bytes.
        name: Vec<u8>,
    },
    /// Bytes of a file, and with them its attributes.
    Content {
        /// The file.
        inode: InodeId,
        /// First byte.
        offset: u64,
        /// Count of bytes; `u64::MAX` for "to the end".
        len: u64,
    },
    /// What `stat` shows of a node, or its extended attributes.
    Attributes {
        /// The node.
        inode: InodeId,
    },
}

/// Who wants to know.
pub trait Observer: Send + Sync {
    /// Called after the change is visible and before the one who made it is answered.
    ///
    /// No lock of the vault is held, so the vault may be used inside; what takes long here delays that client.
    fn changed(&self, change: &Change);

    /// Where this observer shows the vault, for `Information`; `None` if it does not.
    fn attachment(&self) -> Option<Attachment> {
        None
    }

    /// Until when this observer holds the vault open for others, for `Information`; `None` if it does not.
    fn held_open(&self) -> Option<HeldOpen> {
        None
    }

    /// Somebody wants the vault for himself. Whether this observer lets go of it now: it closes the vault then.
    fn lets_go(&self) -> bool {
        false
    }

    /// What this observer counted, for `Vault::counters`: names and numbers.
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// Where a vault is shown to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The path of the mount point.
    pub mount_point: Vec<u8>,
    /// The path of the file with the log of that mount; `None` if it has none.
    pub log_file: Option<Vec<u8>>,
}

/// A vault that a process holds open for others, as `strongroom unlock` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldOpen {
    /// Seconds since 1970 at which it ends.
    pub until_s: u64,
}

type List = Vec<(u64, Arc<dyn Observer>)>;

/// All subscribers of one vault.
#[derive(Default)]
pub(crate) struct Observers {
    list: RwLock<(u64, List)>,
    /// Lets requests skip even the lock while nobody listens.
    count: AtomicUsize,
}

impl Observers {
    /// Tells everyone.
    pub(crate) fn tell(&self, changes: &[Change]) {
        if changes.is_empty() || self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let observers = self.all();
        for change in changes {
            for observer in &observers {
                observer.changed(change);
            }
        }
    }

    /// Taken out, so that no lock is held while they are called.
    fn all(&self) -> Vec<Arc<dyn Observer>> {
        let list = self.list.read();
        let observers = list.1.iter().map(|(_, observer)| Arc::clone(observer));
        observers.collect()
    }

    /// Where all of them show the vault.
    pub(crate) fn attachments(&self) -> Vec<Attachment> {
        let observers = self.all();
        observers
            .iter()
            .filter_map(|observer| observer.attachment())
            .collect()
    }

    /// Until when one of them holds the vault open.
    pub(crate) fn held_open(&self) -> Option<HeldOpen> {
        let observers = self.all();
        observers.iter().find_map(|observer| observer.held_open())
    }

    /// Asks all of them to let go; whether one does.
    pub(crate) fn let_go(&self) -> bool {
        let observers = self.all();
        let going = observers.iter().filter(|observer| observer.lets_go());
        going.count() > 0
    }

    /// What all of them counted, by name; the same name of two is one sum.
    pub(crate) fn counters(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (name, count) in self.all().iter().flat_map(|observer| observer.counters()) {
            *sums.entry(name).or_insert(0) += count;
        }
        sums
    }

    /// Adds one until the subscription is dropped.
    pub(crate) fn subscribe(self: &Arc<Self>, observer: Arc<dyn Observer>) -> Subscription {
        let mut list = self.list.write();
        list.0 += 1;
        let number = list.0;
        list.1.push((number, observer));
        self.count.store(list.1.len(), Ordering::Release);
        Subscription {
            observers: Arc::clone(self),
            number,
        }
    }
}

/// Keeps an observer subscribed until it is dropped.
pub struct Subscription {
    observers: Arc<Observers>,
    number: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut list = self.observers.list.write();
        list.1.retain(|(number, _)| *number != self.number);
        self.observers.count.store(list.1.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Record(Mutex<Vec<Change>>);

    impl Observer for Record {
        fn changed(&self, change: &Change) {
            self.0.lock().push(change.clone());
        }
    }

    #[test]
    fn an_observer_hears_every_change_in_order_until_its_subscription_ends() {
        let observers = Arc::new(Observers::default());
        let record = Arc::new(Record::default());
        let changes = [
            Change::Entry {
                parent: InodeId(1),
                name: b"a".to_vec(),
            },
            Change::Content {
                inode: InodeId(2),
                offset: 0,
                len: 9,
            },
            Change::Attributes { inode: InodeId(2) },
        ];
        let subscription = observers.subscribe(Arc::clone(&record) as Arc<dyn Observer>);
        observers.tell(&changes);
        drop(subscription);
        observers.tell(&changes);
        assert_eq!(*record.0.lock(), changes);
    }
}

//! Counts the references that the kernel holds, because the kernel does not release them when a mount ends.
//!
//! Takes   each reference that a reply gives to the kernel, and each FORGET
//! Gives   the references that are left at the end, so that they can be released
//! Never   releases more than was given
//!
//! It costs about 20 bytes for each inode that the kernel knows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use parking_lot::Mutex;
use strongroom::filesystem::InodeId;

/// Threads that meet in one part of the table wait for one another; loops and workers are few.
const PARTS: usize = 16;

/// The references of one mount.
pub(crate) struct References([Mutex<HashMap<u64, u64>>; PARTS]);

impl References {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(HashMap::new())))
    }

    fn part(&self, inode: InodeId) -> &Mutex<HashMap<u64, u64>> {
        // The remainder is below PARTS, whatever the width of usize.
        &self.0[(inode.0 % PARTS as u64) as usize]
    }

    /// Counts one more. To be called before the reply.
    pub(crate) fn add(&self, inode: InodeId) {
        *self.part(inode).lock().entry(inode.0).or_insert(0) += 1;
    }

    /// Takes up to `count` back; gives how many there were.
    pub(crate) fn take(&self, inode: InodeId, count: u64) -> u64 {
        match self.part(inode).lock().entry(inode.0) {
            Entry::Vacant(_) => 0,
            Entry::Occupied(entry) if *entry.get() <= count => entry.remove(),
            Entry::Occupied(mut entry) => {
                *entry.get_mut() -= count;
                count
            }
        }
    }

    /// Whether the kernel knows it, or will when it has taken in an answer.
    pub(crate) fn has(&self, inode: InodeId) -> bool {
        self.part(inode).lock().contains_key(&inode.0)
    }

    /// Every node that the kernel knows now.
    pub(crate) fn inodes(&self) -> Vec<InodeId> {
        self.0
            .iter()
            .flat_map(|part| part.lock().keys().copied().collect::<Vec<_>>())
            .map(InodeId)
            .collect()
    }

    /// Takes back all that is left.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = (InodeId, u64)> + '_ {
        self.0.iter().flat_map(|part| {
            let left = std::mem::take(&mut *part.lock());
            left.into_iter()
                .map(|(inode, count)| (InodeId(inode), count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_back_is_left_at_the_end() {
        let references = References::new();
        for inode in [5, 5, 5, 21, 7] {
            references.add(InodeId(inode));
        }
        assert_eq!(references.take(InodeId(5), 2), 2);
        assert_eq!(references.take(InodeId(7), 1), 1);
        let mut left: Vec<_> = references.take_all().collect();
        left.sort_unstable();
        assert_eq!(left, [(InodeId(5), 1), (InodeId(21), 1)]);
        assert_eq!(references.take_all().count(), 0);
    }

    #[test]
    fn more_than_was_told_is_never_given_back() {
        let references = References::new();
        references.add(InodeId(5));
        assert_eq!(references.take(InodeId(5), u64::MAX), 1);
        assert_eq!(references.take(InodeId(5), 1), 0);
        assert_eq!(references.take(InodeId(6), 1), 0);
    }
}

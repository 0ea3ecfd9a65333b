//! Turns the tags of all pages into one value, so that pages of different states never pass as one state.
//!
//! Takes   the tag of each page, which SQLCipher writes at its end, and a key derived from the database key
//! Gives   the root of a hash tree over the tags; to change one page, only its path to the root is computed
//! Never   reads or writes a file
//! Spec    spec/4-metadata.md, 4.12
//!
//! Invariants
//!  (1) A node is the keyed hash of its level and its children in order, so no leaf can move.        [4.12.2]
//!  (2) `stale` names every group of leaves that changed since its node was computed.

use std::collections::BTreeSet;

use zeroize::Zeroizing;

/// Bytes of a hash, and of a key.
pub(crate) const HASH_BYTES: usize = 32;

/// Bytes of a leaf.
pub(crate) const LEAF_BYTES: usize = 16;

/// Leaves below one node of the lowest level: the path of one page costs a few hashes of 512 bytes.
const GROUP_LEAVES: usize = 32;

/// Nodes below one node of a higher level.
const FAN: usize = 16;

/// What a node is the hash of, with the byte of its level.
const NODE_BYTES_MAX: usize = FAN * HASH_BYTES + 1;

const _: () = assert!(
    GROUP_LEAVES * LEAF_BYTES < NODE_BYTES_MAX,
    "leaves of a group fit"
);

/// The hash of a node, or the root.
pub(crate) type Hash = [u8; HASH_BYTES];

/// What stands for the content of one page: the first bytes of its HMAC. No bytes for a page that was never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leaf(pub(crate) [u8; LEAF_BYTES]);

impl Leaf {
    /// A page that was never written.
    pub(crate) const NONE: Self = Self([0; LEAF_BYTES]);
}

/// The root of a tree over so many pages, and the proof that an owner of the key said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) pages: u32,
    pub(crate) root: Hash,
}

/// A hash tree over the pages of one database, numbered from 1.
pub(crate) struct Tree {
    key: Zeroizing<Hash>,
    leaves: Vec<Leaf>,
    /// From the nodes above the leaves up to a level of one.
    levels: Vec<Vec<Hash>>,
    stale: BTreeSet<usize>,
}

impl Tree {
    /// A tree over `leaves`, those of page 1 first.
    pub(crate) fn new(key: Hash, leaves: Vec<Leaf>) -> Self {
        let stale = (0..leaves.len().div_ceil(GROUP_LEAVES)).collect();
        Self {
            key: Zeroizing::new(key),
            leaves,
            levels: Vec::new(),
            stale,
        }
    }

    /// All leaves, that of page 1 first.
    pub(crate) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    pub(crate) fn pages(&self) -> u32 {
        u32::try_from(self.leaves.len()).expect("SQLite numbers pages by 32 bits")
    }

    /// The leaf of `page`; `Leaf::NONE` behind the last one.
    pub(crate) fn leaf(&self, page: u32) -> Leaf {
        index(page)
            .and_then(|index| self.leaves.get(index).copied())
            .unwrap_or(Leaf::NONE)
    }

    /// Gives `page` the leaf `leaf`; the tree grows to have it. There is no page 0.
    pub(crate) fn set(&mut self, page: u32, leaf: Leaf) {
        let Some(index) = index(page) else { return };
        if index >= self.leaves.len() {
            self.resize(page);
        }
        self.leaves[index] = leaf;
        self.stale.insert(index / GROUP_LEAVES);
    }

    /// Makes it a tree over `pages` pages.
    pub(crate) fn resize(&mut self, pages: u32) {
        let (before, after) = (self.leaves.len(), pages as usize);
        if before == after {
            return;
        }
        self.leaves.resize(after, Leaf::NONE);
        // The last group changes its length, and with it the node above; groups that are new have no node yet.
        let first = before.min(after).saturating_sub(1) / GROUP_LEAVES;
        let groups = after.div_ceil(GROUP_LEAVES);
        self.stale.extend(first..groups);
        self.stale.retain(|group| *group < groups);
    }

    /// The root. O(changed pages · log(pages)).
    pub(crate) fn root(&mut self) -> Hash {
        let mut changed: Vec<usize> = std::mem::take(&mut self.stale).into_iter().collect();
        let mut count = self.leaves.len().div_ceil(GROUP_LEAVES);
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].resize(count, [0; HASH_BYTES]);
            for &node in &changed {
                self.levels[level][node] = self.node(level, node);
            }
            if count <= 1 {
                self.levels.truncate(level + 1);
                break;
            }
            for node in &mut changed {
                *node /= FAN;
            }
            changed.dedup();
            count = count.div_ceil(FAN);
        }
        let top = self.levels.last().and_then(|level| level.first());
        top.copied().unwrap_or([0; HASH_BYTES])
    }

    /// The hash of a node from what lies below it.                                                        (1)
    fn node(&self, level: usize, node: usize) -> Hash {
        let mut bytes = [0; NODE_BYTES_MAX];
        let len = match level.checked_sub(1) {
            None => copy(
                &mut bytes,
                children(&self.leaves, node, GROUP_LEAVES).map(|leaf| &leaf.0),
            ),
            Some(below) => copy(&mut bytes, children(&self.levels[below], node, FAN)),
        };
        bytes[len] = u8::try_from(level).expect("2^32 pages have eight levels");
        *blake3::keyed_hash(&self.key, &bytes[..=len]).as_bytes()
    }
}

/// Puts `items` one behind the other; how many bytes they take.
fn copy<'a, const N: usize>(out: &mut [u8], items: impl Iterator<Item = &'a [u8; N]>) -> usize {
    let mut len = 0;
    for item in items {
        out[len..len + N].copy_from_slice(item);
        len += N;
    }
    len
}

/// The children of `node`, `fan` for each but the last.
fn children<T>(below: &[T], node: usize, fan: usize) -> std::slice::Iter<'_, T> {
    let start = (node * fan).min(below.len());
    below[start..below.len().min(start + fan)].iter()
}

fn index(page: u32) -> Option<usize> {
    Some(page.checked_sub(1)? as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Hash = [3; HASH_BYTES];

    fn leaf(number: u8) -> Leaf {
        Leaf([number; LEAF_BYTES])
    }

    proptest! {
        /// Goal: a root that follows changes is the root of the tree made at once. Method: random changes and lengths, with
        /// roots asked for in between.
        #[test]
        fn a_root_that_followed_changes_is_that_of_a_new_tree(
            steps in proptest::collection::vec((1u32..3000, any::<u8>(), 0u8..10), 1..60)
        ) {
            let mut followed = Tree::new(KEY, Vec::new());
            for (page, number, action) in steps {
                match action {
                    0 => followed.resize(page),
                    1 => { followed.root(); }
                    _ => followed.set(page, leaf(number)),
                }
            }
            let mut made = Tree::new(KEY, followed.leaves.clone());
            prop_assert_eq!(followed.root(), made.root());
            prop_assert_eq!(followed.root(), made.root());
        }
    }

    #[test]
    fn any_other_leaf_place_count_or_key_gives_another_root() {
        let leaves: Vec<Leaf> = (0..100).map(leaf).collect();
        let root = Tree::new(KEY, leaves.clone()).root();
        let mut swapped = leaves.clone();
        swapped.swap(40, 41);
        assert_ne!(Tree::new(KEY, swapped).root(), root);
        let mut longer = leaves.clone();
        longer.push(Leaf::NONE);
        assert_ne!(Tree::new(KEY, longer).root(), root);
        assert_ne!(Tree::new(KEY, leaves[..99].to_vec()).root(), root);
        assert_ne!(Tree::new([4; HASH_BYTES], leaves).root(), root);
    }

    #[test]
    fn a_page_that_is_not_there_has_no_leaf() {
        let mut tree = Tree::new(KEY, Vec::new());
        assert_eq!(tree.leaf(0), Leaf::NONE);
        tree.set(5, leaf(1));
        assert_eq!(
            (tree.pages(), tree.leaf(4), tree.leaf(5)),
            (5, Leaf::NONE, leaf(1))
        );
        tree.set(0, leaf(2));
        assert_eq!(tree.leaf(6), Leaf::NONE);
    }
}

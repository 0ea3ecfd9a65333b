//! Reads which changes are marked, and finds the names to look up when the next tree is built.
//!
//! Takes   a committed state, and the generation of the newest tree
//! Gives   for each directory of that tree, the names in it that may have changed
//! Never   reports a new directory: new directories are read whole
//! Spec    spec/6-history.md, section 6.6
//!
//! Invariants
//!  (1) If a name in a directory is reported, that directory is reported too, and so are its parents up to the root.

use std::collections::{BTreeSet, HashMap, HashSet};

use strongroom_metadata::{Base, ChangedItem, InodeId, Reads};

use crate::error::Result;
use crate::limits::PAGE_ROWS;

/// What differs between the newest tree and a committed state.
#[derive(Default)]
pub(crate) struct Changes {
    /// In each directory of the newest tree, the names to look at.
    pub(crate) names: HashMap<InodeId, BTreeSet<Vec<u8>>>,
    /// Regions of files that changed, the first left out.
    pub(crate) regions: HashMap<InodeId, BTreeSet<u64>>,
    /// Where a node was in the newest tree, perhaps: names that it lost.
    pub(crate) lost: HashMap<InodeId, Vec<(InodeId, Vec<u8>)>>,
    /// Nodes of this device numbered from here on are new.
    pub(crate) scan_from: u64,
    /// Whether the root itself changed, or anything below it.
    pub(crate) any: bool,
    /// Directories whose own names are in `names`.
    followed: HashSet<InodeId>,
}

impl Changes {
    /// Reads the marks behind `base`, up to `generation`.
    pub(crate) fn read(reads: &Reads, base: &Base, generation: u64) -> Result<Self> {
        let mut changes = Self {
            scan_from: base.scan_from,
            ..Self::default()
        };
        for generation in base.generation + 1..=generation {
            let mut after = None;
            loop {
                let page = reads.changed(generation, after.as_ref(), PAGE_ROWS)?;
                let Some(last) = page.last() else { break };
                after = Some(last.clone());
                for (inode, item) in page {
                    changes.take(reads, inode, item)?;
                }
            }
        }
        let mut from = InodeId(base.scan_from);
        loop {
            let page = reads.inodes_from(from, PAGE_ROWS)?;
            let Some(last) = page.last() else { break };
            from = InodeId(last.0 + 1);
            for inode in page {
                changes.node(reads, inode)?;
            }
        }
        Ok(changes)
    }

    pub(crate) const fn is_new(&self, inode: InodeId) -> bool {
        inode.is_from(self.scan_from)
    }

    fn take(&mut self, reads: &Reads, inode: InodeId, item: ChangedItem) -> Result<()> {
        match item {
            ChangedItem::Node => self.node(reads, inode),
            ChangedItem::Region(region) => {
                self.regions.entry(inode).or_default().insert(region);
                Ok(())
            }
            ChangedItem::Name(name, was) => {
                self.lost
                    .entry(was)
                    .or_default()
                    .push((inode, name.clone()));
                self.name(reads, inode, name)
            }
        }
    }

    /// Every name of a changed node.
    fn node(&mut self, reads: &Reads, inode: InodeId) -> Result<()> {
        if inode == InodeId::ROOT {
            self.any = true;
        }
        let mut after = None;
        loop {
            let page = reads.names_of(inode, after.as_ref(), PAGE_ROWS)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            let whole = page.len() < PAGE_ROWS;
            for (parent, name) in page {
                self.name(reads, parent, name)?;
            }
            if whole {
                return Ok(());
            }
        }
    }

    /// A name, and with it the directories above. (1)
    fn name(&mut self, reads: &Reads, directory: InodeId, name: Vec<u8>) -> Result<()> {
        self.any = true;
        // A new directory is read whole, and is itself among the new nodes.
        if self.is_new(directory) {
            return Ok(());
        }
        self.names.entry(directory).or_default().insert(name);
        let mut at = directory;
        while at != InodeId::ROOT && self.followed.insert(at) {
            // A directory has one name; one without is gone, and nothing of it is looked at.
            let Some((parent, name)) = reads.names_of(at, None, 1)?.pop() else {
                return Ok(());
            };
            if self.is_new(parent) {
                // It was moved below a new directory, whose own names are followed with it.
                return Ok(());
            }
            self.names.entry(parent).or_default().insert(name);
            at = parent;
        }
        Ok(())
    }
}

//! Lists directories: the entries in a fixed order, page by page.
//!
//! Takes   a directory, and the cookie of the entry after which to continue
//! Gives   entries, each with its own cookie
//! Never   repeats or skips an entry that existed during the whole listing; never gives an invalid name, which could
//!         lead outside the directory (`check` reports such names)
//!
//! Invariants
//!  (1) Cookies rise with every new entry and are never used for another. An entry keeps its cookie when it is renamed
//!      within the directory.

use strongroom_metadata::{Entry, Inode, InodeId, can_name};

use crate::core::Core;
use crate::limits::LIST_ENTRIES_MAX;
use crate::names::scene::{Live, Scene};
use crate::rules::attributes::attributes_of_row;
use crate::rules::permission::{self, EXECUTE, READ};
use crate::{Attributes, Caller, Error, Filesystem, ListedEntry, Listing, Result};

impl Filesystem {
    /// Up to `limit` entries with cookies above `after` (0: from the start), in the order of their cookies,
    /// without `.` and `..`. Only an empty page is the end: a page may be shorter than asked for.
    ///
    /// With `Listing::WithReferences` one reference is taken on each node whose attributes are given. An entry
    /// comes without attributes if its node is missing, which is damage that `check` reports.
    ///
    /// # Errors
    /// `NotADirectory`; `PermissionDenied` without leave to read, or with attributes to search, the directory.
    pub fn list(
        &self,
        caller: &Caller,
        inode: InodeId,
        after: u64,
        limit: usize,
        listing: Listing,
    ) -> Result<Vec<ListedEntry>> {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.list(caller, inode, after, limit, listing);
        }
        let core = &self.core;
        let limit = limit.min(LIST_ENTRIES_MAX);
        let mut live = Live::new(core, caller);
        let directory = live.held(inode)?;
        if !directory.is_directory() {
            return Err(Error::NotADirectory);
        }
        let mask = if listing == Listing::Names {
            READ
        } else {
            READ | EXECUTE
        };
        permission::require(&directory.inode, caller, mask)?;
        let mut after = after;
        let found = loop {
            let mut found: Vec<(Entry, Option<Inode>)> = match listing {
                Listing::Names => {
                    let entries = live.writer.entries(inode, after, limit)?.into_iter();
                    entries.map(|entry| (entry, None)).collect()
                }
                _ => live.writer.entries_with_inodes(inode, after, limit)?,
            };
            let Some((last, _)) = found.last() else {
                return Ok(Vec::new());
            };
            after = last.cookie;
            found.retain(|(entry, _)| can_name(&entry.name));
            // An empty page would be the end.
            if !found.is_empty() {
                break found;
            }
        };
        if listing == Listing::Names {
            let names = found.into_iter().map(|(entry, _)| listed(entry, None));
            return Ok(names.collect());
        }
        let mut page = Vec::new();
        for (entry, row) in found {
            let attributes = attributes_of_entry(core, &entry, row.as_ref());
            if listing == Listing::WithReferences && attributes.is_some() {
                // The writer is held, so the node cannot be purged before the reference counts.
                core.content.nodes.retain(entry.inode, 1);
            }
            page.push(listed(entry, attributes));
        }
        Ok(page)
    }
}

/// The state in memory is newer than the row, and a new node has no row yet. A node that is not in memory
/// stays out of it: a walk over a large tree must not push out what is in use.
fn attributes_of_entry(core: &Core, entry: &Entry, row: Option<&Inode>) -> Option<Attributes> {
    match core.content.nodes.find(entry.inode) {
        Some(node) => node.attributes().ok(),
        None => row.map(attributes_of_row),
    }
}

fn listed(entry: Entry, attributes: Option<Attributes>) -> ListedEntry {
    ListedEntry {
        name: entry.name,
        inode: entry.inode,
        kind: entry.kind,
        cookie: entry.cookie,
        attributes,
    }
}

//! Caches open segment files for the next read.
//!
//! Takes   the name of a segment
//! Gives   its open file, shared; a file that was removed stays readable to a thread that holds it
//! Never   keeps more than `OPEN_FILES_MAX` files, more than its share of the process's descriptors, or a removed file

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use strongroom_format::SegmentId;

use rustix::process::{Resource, getrlimit};

use crate::disk::{Disk, SegmentFile};
use crate::limits::{OPEN_FILES_MAX, OPEN_FILES_MIN, OPEN_FILES_SHARE};
use crate::{Error, Result};

/// What becomes of the pages of a file that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pages {
    /// There are none, or they go at once.
    Dropped,
    /// They stay for as long as the system likes.
    Kept,
}

pub(crate) struct Files {
    kept: Mutex<Kept>,
}

struct Kept {
    by_id: LruCache<(SegmentId, Pages), Arc<SegmentFile>>,
    /// Counts removals, so that a file opened before one is not kept after it.
    removals: u64,
}

impl Files {
    pub(crate) fn new() -> Self {
        Self {
            kept: Mutex::new(Kept {
                by_id: LruCache::new(share_of(getrlimit(Resource::Nofile).current)),
                removals: 0,
            }),
        }
    }

    /// The open file of `id`. No lock is held while the system looks for it.
    pub(crate) fn get(&self, disk: &Disk, id: SegmentId) -> Result<Arc<SegmentFile>> {
        self.get_for(disk, id, Pages::Dropped)
    }

    /// The same, opened so that `pages` is what becomes of what is read.
    pub(crate) fn get_for(
        &self,
        disk: &Disk,
        id: SegmentId,
        pages: Pages,
    ) -> Result<Arc<SegmentFile>> {
        let removals = {
            let mut kept = self.kept.lock();
            if let Some(file) = kept.by_id.get(&(id, pages)) {
                return Ok(Arc::clone(file));
            }
            kept.removals
        };
        let mut opened = self.open(disk, id, pages);
        if matches!(opened, Err(Error::Descriptors)) && self.keep_fewer() {
            opened = self.open(disk, id, pages);
        }
        let file = opened?;
        let mut kept = self.kept.lock();
        if kept.removals == removals {
            kept.by_id.put((id, pages), Arc::clone(&file));
        }
        Ok(file)
    }

    fn open(&self, disk: &Disk, id: SegmentId, pages: Pages) -> Result<Arc<SegmentFile>> {
        let opened = match pages {
            Pages::Dropped => disk.open_segment(id),
            Pages::Kept => disk.open_cached(id),
        };
        match opened {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::Missing(id)),
            Err(error) => Err(Error::of_io(error)),
        }
    }

    /// Closes what nobody uses at the moment, and keeps half as many from now on: others need descriptors too. Gives whether
    /// there was anything to close.
    fn keep_fewer(&self) -> bool {
        let mut kept = self.kept.lock();
        let had_some = !kept.by_id.is_empty();
        let half = (kept.by_id.len() / 2).clamp(OPEN_FILES_MIN, OPEN_FILES_MAX);
        kept.by_id.clear();
        kept.by_id
            .resize(NonZeroUsize::new(half).unwrap_or(NonZeroUsize::MIN));
        had_some
    }

    pub(crate) fn keep(&self, id: SegmentId, file: &Arc<SegmentFile>) {
        let key = (id, Pages::Dropped);
        self.kept.lock().by_id.put(key, Arc::clone(file));
    }

    /// Call after the name is gone.
    pub(crate) fn forget(&self, id: SegmentId) {
        let mut kept = self.kept.lock();
        kept.removals += 1;
        kept.by_id.pop(&(id, Pages::Dropped));
        kept.by_id.pop(&(id, Pages::Kept));
    }
}

/// How many files may be kept of the descriptors that a process may have; `None` for no limit.
fn share_of(descriptors: Option<u64>) -> NonZeroUsize {
    let share = descriptors.map_or(usize::MAX, |count| {
        usize::try_from(count / OPEN_FILES_SHARE).unwrap_or(usize::MAX)
    });
    let kept = share.clamp(OPEN_FILES_MIN, OPEN_FILES_MAX);
    NonZeroUsize::new(kept).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_shared_with_all_else_that_needs_some() {
        let share = |limit| share_of(limit).get();
        assert_eq!(share(None), OPEN_FILES_MAX);
        assert_eq!(share(Some(1024)), OPEN_FILES_MAX);
        assert_eq!(share(Some(64)), 16);
        assert_eq!(share(Some(0)), OPEN_FILES_MIN);
    }
}

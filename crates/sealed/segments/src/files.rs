//! Open segment files, kept for the next read.
//!
//! Takes   a segment's name
//! Gives   its open file, shared; a file that was removed stays readable to whoever holds it
//! Never   keeps more than `OPEN_FILES_MAX`, or a file that was removed

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use strongroom_format::SegmentId;

use crate::disk::{Disk, SegmentFile};
use crate::limits::OPEN_FILES_MAX;
use crate::{Error, Result};

pub(crate) struct Files {
    kept: Mutex<Kept>,
}

struct Kept {
    by_id: LruCache<SegmentId, Arc<SegmentFile>>,
    /// Counts removals, so that a file opened before one is not kept after it.
    removals: u64,
}

impl Files {
    pub(crate) fn new() -> Self {
        let capacity = NonZeroUsize::new(OPEN_FILES_MAX).unwrap_or(NonZeroUsize::MIN);
        Self {
            kept: Mutex::new(Kept {
                by_id: LruCache::new(capacity),
                removals: 0,
            }),
        }
    }

    /// The open file of `id`. No lock is held while the system looks for it.
    pub(crate) fn get(&self, disk: &Disk, id: SegmentId) -> Result<Arc<SegmentFile>> {
        let removals = {
            let mut kept = self.kept.lock();
            if let Some(file) = kept.by_id.get(&id) {
                return Ok(Arc::clone(file));
            }
            kept.removals
        };
        let file = match disk.open_segment(id) {
            Ok(file) => Arc::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::Missing(id));
            }
            Err(error) => return Err(Error::of_io(error)),
        };
        let mut kept = self.kept.lock();
        if kept.removals == removals {
            kept.by_id.put(id, Arc::clone(&file));
        }
        Ok(file)
    }

    pub(crate) fn keep(&self, id: SegmentId, file: &Arc<SegmentFile>) {
        self.kept.lock().by_id.put(id, Arc::clone(file));
    }

    /// Call after the name is gone.
    pub(crate) fn forget(&self, id: SegmentId) {
        let mut kept = self.kept.lock();
        kept.removals += 1;
        kept.by_id.pop(&id);
    }
}

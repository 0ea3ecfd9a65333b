//! Finds the offset at which data or a hole begins.
//!
//! Takes   an inode, an offset, and whether to find data or a hole
//! Gives   the first such offset
//! Never   reads content

use strongroom_metadata::{InodeId, NodeKind, REGION_BYTES};

use crate::blocks::place::Reason;
use crate::content::extents;
use crate::drain::drains::drain_node;
use crate::{Error, Filesystem, Result, SeekTarget};

impl Filesystem {
    /// The first offset at or after `offset` that holds data, or is in a hole. The end of the file counts
    /// as a hole.
    ///
    /// # Errors
    /// `NoSuchOffset` beyond the end, or if no data follow.
    pub fn seek(&self, inode: InodeId, offset: u64, target: SeekTarget) -> Result<u64> {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.seek(inode, offset, target);
        }
        let node = self.core.node(inode)?;
        if !self.core.options.read_only {
            match drain_node(&self.core, &node, Reason::Namespace) {
                // It stays pending, and who copies it away from a full disk asks this first.
                Err(Error::NoSpace) => {}
                drained => drained?,
            }
        }
        let mut writer = self.core.store.lock();
        let mut state = node.lock();
        if state.purged {
            return Err(Error::Stale);
        }
        if state.inode.kind != NodeKind::File {
            return Err(Error::InvalidArgument("not a regular file".into()));
        }
        let size = state.inode.size;
        if offset >= size {
            return Err(Error::NoSuchOffset);
        }
        if state.has_pending_content() {
            // Somebody writes right now, or there is no room to store it. That everything is data is always a correct answer.
            return Ok(if target == SeekTarget::Data {
                offset
            } else {
                size
            });
        }
        let mut at = offset;
        loop {
            let found = self
                .core
                .content
                .holes
                .next_region(&writer, inode, at / REGION_BYTES)?;
            let region = match (found, target) {
                (Some(region), _) if region * REGION_BYTES < size => region,
                (_, SeekTarget::Data) => return Err(Error::NoSuchOffset),
                (_, SeekTarget::Hole) => return Ok(at),
            };
            if target == SeekTarget::Hole && region > at / REGION_BYTES {
                return Ok(at);
            }
            at = at.max(region * REGION_BYTES);
            let list = self
                .core
                .content
                .region(&mut writer, inode, &mut state, region)?;
            let first = list.partition_point(|extent| extents::end(extent) <= at);
            for extent in &list[first..] {
                if target == SeekTarget::Data {
                    let data = at.max(extent.start);
                    return if data < size {
                        Ok(data)
                    } else {
                        Err(Error::NoSuchOffset)
                    };
                }
                if extent.start > at {
                    return Ok(at);
                }
                at = extents::end(extent);
                if at >= size {
                    return Ok(size);
                }
            }
            let next = (region + 1) * REGION_BYTES;
            if target == SeekTarget::Hole && at < next {
                return Ok(at);
            }
            at = next;
            if at >= size {
                return if target == SeekTarget::Data {
                    Err(Error::NoSuchOffset)
                } else {
                    Ok(size)
                };
            }
        }
    }
}

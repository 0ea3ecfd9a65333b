//! Finds data and holes, and never reports a hole for data that the kernel has not sent yet.
//!
//! Takes   a node, an offset, and whether to find data or a hole
//! Gives   the reply, from a worker, once the kernel caches nothing of the reported hole
//! Never   makes the kernel send ranges that are known to be data: only ranges that look like holes are sent
//!
//! Bytes written to shared memory stay in the kernel until it sends them; with `writeback` all written bytes do. The kernel
//! asks for data and holes without sending such bytes first. The mount cannot know of mappings, because files are opened
//! without a request. So before a reply names a hole, the kernel is made to drop its pages there, and it first sends the
//! written ones.

use std::ops::Range;
use std::sync::Arc;

use fuser::{Errno, INodeNo, ReplyLseek};
use strongroom::filesystem::{Error, Filesystem, InodeId, Result, SeekTarget};

use crate::attributes::inode;
use crate::errno::errno;
use crate::shared::{Shared, Writes};

const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// One question of the kernel.
struct Search {
    shared: Arc<Shared>,
    node: InodeId,
    offset: u64,
    target: SeekTarget,
    /// Of the holes behind `offset` and before this, the kernel has sent what it held.
    collected: u64,
}

/// Answers as `lseek(2)` says.
pub(crate) fn seek(
    shared: &Arc<Shared>,
    node: INodeNo,
    offset: i64,
    whence: i32,
    reply: ReplyLseek,
) {
    let target = match whence {
        SEEK_DATA => SeekTarget::Data,
        SEEK_HOLE => SeekTarget::Hole,
        _ => return reply.error(Errno::EINVAL),
    };
    let Ok(offset) = u64::try_from(offset) else {
        return reply.error(Errno::ENXIO);
    };
    let search = Search {
        shared: Arc::clone(shared),
        node: inode(node),
        offset,
        target,
        collected: 0,
    };
    search.begin(reply);
}

impl Search {
    fn begin(self, reply: ReplyLseek) {
        let shared = Arc::clone(&self.shared);
        shared.where_it_may_wait(reply, ReplyLseek::error, move |filesystem, reply| {
            self.run(filesystem, reply);
        });
    }

    /// Answers, or has a hole collected and begins again. Ends, as each time it knows of more of the file.
    fn run(mut self, filesystem: &Filesystem, reply: ReplyLseek) {
        let found = filesystem.seek(self.node, self.offset, self.target);
        match self.hole_of(filesystem, &found) {
            Ok(Some(hole)) if self.is_unknown(&hole) => {
                self.collected = hole.end;
                let (invalidator, node) = (self.shared.invalidator.clone(), self.node);
                invalidator.content_then(node, hole, move || self.begin(reply));
            }
            Ok(_) => match found.map(i64::try_from) {
                Ok(Ok(offset)) => reply.offset(offset),
                Ok(Err(_)) => reply.error(Errno::EOVERFLOW),
                Err(error) => reply.error(errno(&error)),
            },
            Err(error) => reply.error(errno(&error)),
        }
    }

    /// The hole that an answer names; none behind the end of the file, where only gathered writes can be.
    fn hole_of(&self, filesystem: &Filesystem, found: &Result<u64>) -> Result<Option<Range<u64>>> {
        let first = match found {
            Ok(hole) if self.target == SeekTarget::Hole => *hole,
            Ok(_) | Err(Error::NoSuchOffset) => self.offset,
            // The answer stays as it is.
            Err(_) => return Ok(None),
        };
        let end = match filesystem.seek(self.node, first, SeekTarget::Data) {
            Ok(data) => data,
            Err(Error::NoSuchOffset) if self.shared.writes == Writes::KeptByKernel => u64::MAX,
            Err(Error::NoSuchOffset) => filesystem.attributes(self.node)?.size,
            Err(error) => return Err(error),
        };
        Ok((first < end).then_some(first..end))
    }

    /// Whether the kernel may hold some of what the answer says of this hole: that it begins, or that it is one up to its end.
    fn is_unknown(&self, hole: &Range<u64>) -> bool {
        match self.target {
            SeekTarget::Data => hole.end > self.collected,
            SeekTarget::Hole => hole.start >= self.collected,
        }
    }
}

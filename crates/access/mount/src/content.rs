//! Requests about content. An event loop answers them, or a worker if they may wait (invariant 1 of the crate).
//!
//! Takes   a node, a range, bytes
//! Gives   the reply, from the thread that did the work
//! Never   allocates per request on a loop: buffers belong to threads and are reused

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use fuser::{Errno, INodeNo, OpenFlags, ReplyData, ReplyEmpty, ReplyWrite, WriteFlags};
use rustix::fs::OFlags;
use strongroom::filesystem::{AllocateMode, Caller, Error, Filesystem, InodeId};

use crate::attributes::inode;
use crate::errno::errno;
use crate::invalidate::Invalidator;
use crate::limits;
use crate::shared::{Shared, Writes};

const FALLOC_KEEP_SIZE: i32 = 0x01;
const FALLOC_PUNCH_HOLE: i32 = 0x02;
const FALLOC_ZERO_RANGE: i32 = 0x10;

thread_local! {
    /// Clear bytes on their way to the kernel. Grows to `REQUEST_BYTES_MAX` and stays: fresh memory costs
    /// a page fault per 4 KiB.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads and answers.
fn read_into_reply(
    filesystem: &Filesystem,
    node: INodeNo,
    offset: u64,
    size: u32,
    reply: ReplyData,
) {
    BUFFER.with_borrow_mut(|buffer| {
        let size = size.min(limits::REQUEST_BYTES_MAX) as usize;
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        match filesystem.read(inode(node), offset, &mut buffer[..size]) {
            // `read` gives at most what it was asked for; a larger count would be its bug, not a panic here.
            Ok(count) => reply.data(&buffer[..count.min(size)]),
            Err(error) => reply.error(errno(&error)),
        }
    });
}

/// What a caller who may not keep them loses of a file by changing it: suid, sgid, capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privileges {
    Keep,
    Drop,
}

impl Privileges {
    /// The kernel tells with a write whether the caller may keep them, and leaves everything else to the mount.
    pub(crate) fn of(caller: &Caller) -> Self {
        if caller.uid == 0 {
            Self::Keep
        } else {
            Self::Drop
        }
    }
}

/// Changes the content of `node`, and answers by `reply`. If privileges went, the kernel must hear of it first: it keeps the mode that
/// it knows.
fn change<T>(
    filesystem: &Filesystem,
    invalidator: &Invalidator,
    (node, privileges): (InodeId, Privileges),
    operation: impl FnOnce(&Filesystem) -> Result<T, Error>,
    reply: impl FnOnce(Result<T, Errno>),
) {
    let dropped = match privileges {
        Privileges::Keep => Ok(false),
        Privileges::Drop => filesystem.drop_privileges(node),
    };
    let (changed, dropped) = match dropped {
        Ok(dropped) => (operation(filesystem), dropped),
        Err(error) => (Err(error), false),
    };
    let changed = changed.map_err(|error| errno(&error));
    if dropped {
        invalidator.attributes(node);
    }
    reply(changed);
}

/// A request to write.
pub(crate) struct Write {
    pub(crate) node: InodeId,
    pub(crate) offset: u64,
    pub(crate) privileges: Privileges,
    pub(crate) way: Way,
    pub(crate) place: Place,
}

/// How what is written came to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Through its pages of the file.
    Pages,
    /// Past them, by `O_DIRECT`.
    Direct,
}

/// Where it goes in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To its offset.
    Offset,
    /// To the end. Its offset is the end that the kernel knows, and others may have moved the end since.
    End,
    /// To the end if the file reaches beyond its offset. Before its offset other parts of the same write may have to go.
    EndFromOffset,
}

impl Place {
    /// Where `len` bytes go that came by `way`. `opened`: how the file is open.
    ///
    /// Parts of a long direct write come at once, in any order, and do not say that they are parts: those keep their offsets. What the
    /// kernel sends of pages later is no append, and if it keeps writes, it knows of an end that the vault does not have yet.
    pub(crate) fn of(
        opened: OpenFlags,
        flags: WriteFlags,
        (way, len): (Way, usize),
        writes: Writes,
    ) -> Self {
        let opened = OFlags::from_bits_retain(opened.0.cast_unsigned());
        let kept = writes == Writes::KeptByKernel || flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        if kept || !opened.contains(OFlags::APPEND) {
            return Self::Offset;
        }
        match way {
            Way::Pages => Self::End,
            Way::Direct if len <= limits::DIRECT_APPEND_BYTES_MAX => Self::EndFromOffset,
            Way::Direct => Self::Offset,
        }
    }
}

impl Write {
    /// Writes and answers. After a direct write the kernel is made to drop the pages that it may have read meanwhile: of a write that it
    /// does not wait for, it does not do so itself. Nobody waits for the answer to a direct write with such a page locked, so the
    /// kernel drops them before it has the answer. Only of many thousand at once some are answered before: see `content_then`.
    fn run(
        self,
        filesystem: &Filesystem,
        invalidator: &Invalidator,
        data: &[u8],
        reply: ReplyWrite,
    ) {
        let (node, offset) = (self.node, self.offset);
        let write = |filesystem: &Filesystem| {
            let len = u32::try_from(data.len())
                .map_err(|_| Error::InvalidArgument("a request of more than 4 GiB".into()))?;
            let at = match self.place {
                Place::Offset => filesystem.write(node, offset, data).map(|()| offset),
                Place::End => filesystem.append(node, data),
                Place::EndFromOffset => filesystem.append_from(node, offset, data),
            };
            at.map(|at| (at, len))
        };
        let to = (node, self.privileges);
        change(
            filesystem,
            invalidator,
            to,
            write,
            |written| match written {
                Ok((at, len)) => self.answer(invalidator, at, len, reply),
                Err(error) => reply.error(error),
            },
        );
    }

    /// Answers that `len` bytes went to `at`. If the kernel named another offset, its pages from the first of both on are wrong. It
    /// holds the last page until it has the answer, unless the write was direct; so that answer must come before they are dropped.
    fn answer(&self, invalidator: &Invalidator, at: u64, len: u32, reply: ReplyWrite) {
        let wrong = match at == self.offset {
            true => at..at.saturating_add(u64::from(len)),
            false => at.min(self.offset)..u64::MAX,
        };
        match self.way {
            Way::Direct => {
                invalidator.content_then(self.node, wrong, move || reply.written(len));
            }
            Way::Pages => {
                reply.written(len);
                if at != self.offset {
                    invalidator.content_later(self.node, wrong);
                }
            }
        }
    }
}

fn reply_written(result: Result<u32, Errno>, reply: ReplyWrite) {
    match result {
        Ok(len) => reply.written(len),
        Err(error) => reply.error(error),
    }
}

pub(crate) fn reply_empty(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Shared {
    pub(crate) fn read(&self, node: INodeNo, offset: u64, size: u32, reply: ReplyData) {
        match self.gate.enter() {
            Err(error) => reply.error(error),
            Ok(filesystem) if size <= limits::READ_INLINE_BYTES_MAX && self.may_occupy_loop() => {
                read_into_reply(&filesystem, node, offset, size, reply);
                self.loops_occupied.fetch_sub(1, Ordering::Relaxed);
            }
            Ok(filesystem) => {
                let filesystem = filesystem.clone();
                self.reading.run(0, move || {
                    read_into_reply(&filesystem, node, offset, size, reply)
                });
            }
        }
    }

    /// Whether this loop may wait for the disk itself, because another one goes on listening. Then it counts as occupied.
    fn may_occupy_loop(&self) -> bool {
        let others = self.loops_occupied.fetch_add(1, Ordering::Relaxed);
        let may = others + 1 < self.turns.listening() || self.turns.call();
        if !may {
            self.loops_occupied.fetch_sub(1, Ordering::Relaxed);
        }
        may
    }

    pub(crate) fn write(&self, write: Write, data: &[u8], reply: ReplyWrite) {
        let filesystem = match self.gate.enter() {
            Ok(filesystem) => filesystem,
            Err(error) => return reply.error(error),
        };
        if filesystem.write_would_wait(data.len()) && self.waiting.has_room_for(data.len()) {
            let (filesystem, invalidator) = (filesystem.clone(), self.invalidator.clone());
            let data = data.to_vec();
            self.waiting.run(data.len(), move || {
                write.run(&filesystem, &invalidator, &data, reply);
            });
        } else {
            write.run(&filesystem, &self.invalidator, data, reply);
        }
    }

    /// Runs `operation` where it may wait.
    pub(crate) fn where_it_may_wait<R: Send + 'static>(
        &self,
        reply: R,
        refuse: impl FnOnce(R, Errno),
        operation: impl FnOnce(&Filesystem, R) + Send + 'static,
    ) {
        match self.gate.enter() {
            Err(error) => refuse(reply, error),
            Ok(filesystem) => {
                let filesystem = filesystem.clone();
                self.waiting.run(0, move || operation(&filesystem, reply));
            }
        }
    }

    /// Callers who find every other loop occupied sleep together in the pool, and share one commit there. One alone is
    /// answered by its loop, which spares waking another thread.
    pub(crate) fn sync_inode(&self, node: INodeNo, reply: ReplyEmpty) {
        let sync = move |filesystem: &Filesystem, reply: ReplyEmpty| {
            let synced = filesystem.sync_inode(inode(node));
            reply_empty(synced.map_err(|error| errno(&error)), reply);
        };
        match self.gate.enter() {
            Err(error) => reply.error(error),
            Ok(filesystem) if self.may_occupy_loop() => {
                sync(&filesystem, reply);
                self.loops_occupied.fetch_sub(1, Ordering::Relaxed);
            }
            Ok(filesystem) => {
                let filesystem = filesystem.clone();
                self.waiting.run(0, move || sync(&filesystem, reply));
            }
        }
    }

    pub(crate) fn allocate(
        &self,
        (node, privileges): (INodeNo, Privileges),
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = match allocate_mode(mode) {
            Ok(mode) => mode,
            Err(error) => return reply.error(error),
        };
        let (node, invalidator) = (inode(node), self.invalidator.clone());
        self.where_it_may_wait(reply, ReplyEmpty::error, move |filesystem, reply| {
            let allocate = |filesystem: &Filesystem| filesystem.allocate(node, mode, offset, len);
            let answer = |allocated| reply_empty(allocated, reply);
            change(
                filesystem,
                &invalidator,
                (node, privileges),
                allocate,
                answer,
            );
        });
    }

    pub(crate) fn copy_range(
        &self,
        (source, source_offset): (INodeNo, u64),
        (target, target_offset): (INodeNo, u64),
        len: u64,
        privileges: Privileges,
        reply: ReplyWrite,
    ) {
        let (source, target, len) = (inode(source), inode(target), copy_len(len));
        let copy = move |filesystem: &Filesystem, invalidator: &Invalidator, reply: ReplyWrite| {
            let copy = |filesystem: &Filesystem| {
                filesystem.copy_range(source, source_offset, target, target_offset, len)
            };
            change(
                filesystem,
                invalidator,
                (target, privileges),
                copy,
                |copied| {
                    let count =
                        copied.and_then(|count| u32::try_from(count).map_err(|_| Errno::EIO));
                    reply_written(count, reply);
                },
            );
        };
        match self.gate.enter() {
            Err(error) => reply.error(error),
            Ok(filesystem) if !filesystem.copy_would_wait(source, target, len) => {
                copy(&filesystem, &self.invalidator, reply);
            }
            // Not by `where_it_may_wait`: who is inside the gate must not enter once more, as `close` may stand between.
            Ok(filesystem) => {
                let (filesystem, invalidator) = (filesystem.clone(), self.invalidator.clone());
                self.waiting
                    .run(0, move || copy(&filesystem, &invalidator, reply));
            }
        }
    }
}

/// The reply has 32 bits; a short copy is continued by the caller, on a page boundary.
fn copy_len(len: u64) -> u64 {
    const PAGE: u64 = 4096;
    len.min(u64::from(u32::MAX) / PAGE * PAGE)
}

/// EOPNOTSUPP for what is not known: ENOSYS would switch `fallocate` off for good.
fn allocate_mode(mode: i32) -> Result<AllocateMode, Errno> {
    const PUNCH: i32 = FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE;
    const ZERO_KEEP: i32 = FALLOC_ZERO_RANGE | FALLOC_KEEP_SIZE;
    match mode {
        0 => Ok(AllocateMode::Reserve),
        FALLOC_KEEP_SIZE => Ok(AllocateMode::ReserveKeepSize),
        PUNCH => Ok(AllocateMode::PunchHole),
        FALLOC_ZERO_RANGE => Ok(AllocateMode::ZeroRange),
        ZERO_KEEP => Ok(AllocateMode::ZeroRangeKeepSize),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallocate_modes_are_those_of_the_manual() {
        assert_eq!(allocate_mode(0), Ok(AllocateMode::Reserve));
        assert_eq!(allocate_mode(1), Ok(AllocateMode::ReserveKeepSize));
        assert_eq!(allocate_mode(3), Ok(AllocateMode::PunchHole));
        assert_eq!(allocate_mode(0x10), Ok(AllocateMode::ZeroRange));
        assert_eq!(allocate_mode(0x11), Ok(AllocateMode::ZeroRangeKeepSize));
        for unknown in [2, 4, 8, 0x20, 0x40, -1, i32::MIN] {
            assert_eq!(
                allocate_mode(unknown),
                Err(Errno::EOPNOTSUPP),
                "{unknown:#x}"
            );
        }
    }

    #[test]
    fn only_what_the_kernel_sends_of_an_append_goes_to_the_end() {
        let append = OpenFlags(OFlags::APPEND.bits().cast_signed());
        let (none, cached) = (WriteFlags::empty(), WriteFlags::FUSE_WRITE_CACHE);
        let (pages, direct) = ((Way::Pages, 1 << 20), (Way::Direct, 64 << 10));
        let through = |opened, flags, sent| Place::of(opened, flags, sent, Writes::Through);
        assert_eq!(through(append, none, pages), Place::End);
        assert_eq!(through(append, none, direct), Place::EndFromOffset);
        let part = (Way::Direct, (64 << 10) + 1);
        assert_eq!(through(append, none, part), Place::Offset);
        assert_eq!(through(append, cached, pages), Place::Offset);
        assert_eq!(through(OpenFlags(0), none, pages), Place::Offset);
        let kept = Place::of(append, none, pages, Writes::KeptByKernel);
        assert_eq!(kept, Place::Offset);
    }

    #[test]
    fn a_copy_never_exceeds_what_its_reply_can_say() {
        assert_eq!(copy_len(10), 10);
        assert_eq!(copy_len(u64::MAX), 0xffff_f000);
        assert!(u32::try_from(copy_len(u64::MAX)).is_ok());
    }
}

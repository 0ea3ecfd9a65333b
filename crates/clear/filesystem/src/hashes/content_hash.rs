//! The hash of a file's whole content, computed once for each version of that content.
//!
//! Takes   numbers of files, an algorithm, and a bound of bytes to read
//! Gives   hashes, computed on all cores; the unfinished hash of a large file stays in memory for the next call
//! Never   gives a hash of a mix of two states of the content, or a stored hash of other content
//! Spec    spec/4-metadata.md, 4.11
//!
//! Invariants
//!  (1) A hash is stored only with the lock of the open transaction held, and only if the file still has the version
//!      that was read and has nothing pending. Then the transaction holds that content, and the row of the inode is
//!      part of the same commit.                                                                               [4.11.3]
//!  (2) Every change of content raises the file's version, under the same lock under which the new content becomes
//!      readable.                                                                                          [4.11.2]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use strongroom_crypto::{ContentHasher, HashAlgorithm};
use strongroom_metadata::{ContentHash, InodeId};

use crate::content::node::Node;
use crate::core::hashing::HalfHashed;
use crate::drain::drains::drain_grouped;
use crate::trees::engine::Engine;
use crate::{Error, Filesystem, Result};

/// Bytes of a file that are read at once.
const PART_BYTES: u64 = 1 << 20;

/// From so many bytes on, a file is read by one thread while another hashes what was read.
const BESIDE_BYTES: u64 = 8 << 20;

/// Parts on their way from the one to the other.
const PARTS_BESIDE: usize = 3;

/// How often a file is begun again in one call because somebody wrote to it.
const ATTEMPTS: usize = 4;

/// What a file costs beside its bytes, counted in bytes, so that many small files end a call too.
const FILE_COST_BYTES: u64 = 16 << 10;

/// About what a stored hash takes in the database.
const ROW_BYTES: u64 = 256;

/// What came of hashing one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashed {
    /// Its hash and its length.
    Whole {
        /// The hash.
        hash: [u8; 32],
        /// How many bytes it is of.
        size: u64,
        /// Whether it is stored; a vault that is read-only or full stores none.
        stored: bool,
    },
    /// The bytes of this call were used up; ask again.
    Unfinished,
    /// Somebody writes to it all the time.
    Changing,
}

/// What came of hashing files.
#[derive(Debug, Default)]
pub struct HashedFiles {
    /// One for each file, in the order in which they were given. Errors are `Stale`, `IsADirectory`, `InvalidArgument` for
    /// what is no regular file, `Damaged`, and those of the stores.
    pub files: Vec<Result<Hashed>>,
    /// How many bytes were read.
    pub bytes: u64,
}

/// What a call may still read.
struct Budget {
    left: AtomicU64,
    read: AtomicU64,
}

/// Why reading a content ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Whole,
    OutOfBudget,
    Changed,
}

/// What became of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Stored,
    /// It is right, and nothing could be stored.
    Told,
    /// It is of an earlier content.
    Changed,
}

impl Budget {
    const fn new(bytes: u64) -> Self {
        Self {
            left: AtomicU64::new(bytes),
            read: AtomicU64::new(0),
        }
    }

    /// Takes `bytes`, or what is left; gives whether anything was.
    fn take(&self, bytes: u64) -> bool {
        let taken = |left: u64| (left > 0).then(|| left.saturating_sub(bytes));
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken)
            .is_ok()
    }
}

impl Filesystem {
    /// Hashes the contents of `inodes`, as far as `bytes_max` bytes go; those whose hash is stored are not read.
    ///
    /// Holds no lock while it reads. Asked again with what is left, it goes on where it was.
    #[must_use]
    pub fn hash_files(
        &self,
        inodes: &[InodeId],
        algorithm: HashAlgorithm,
        bytes_max: u64,
    ) -> HashedFiles {
        self.drain_for_hashing(inodes);
        let budget = Budget::new(bytes_max);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(inode) = inodes.get(index) else {
                    return done;
                };
                done.push((index, self.hash_file(*inode, algorithm, &budget)));
            }
        };
        let threads = (self.core.blocks.pool.threads() + 1).min(inodes.len());
        let mut files: Vec<Result<Hashed>> =
            inodes.iter().map(|_| Ok(Hashed::Unfinished)).collect();
        std::thread::scope(|scope| {
            // Where the system refuses a thread there are fewer.
            let others: Vec<_> = (1..threads)
                .map_while(|_| beside(scope, work).ok())
                .collect();
            let mut done = work();
            for other in others {
                match other.join() {
                    Ok(of_other) => done.extend(of_other),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            for (index, result) in done {
                files[index] = result;
            }
        });
        HashedFiles {
            files,
            bytes: budget.read.into_inner(),
        }
    }

    /// Stores what is pending of `inodes`: only the hash of a stored content is stored.
    fn drain_for_hashing(&self, inodes: &[InodeId]) {
        let core = &self.core;
        if core.options.read_only {
            return;
        }
        let pending = inodes
            .iter()
            .filter_map(|inode| core.content.nodes.find(*inode))
            .filter(|node| node.lock().has_pending_content());
        // What cannot be drained is hashed from memory, and its hash is not stored; the writer learns of the error.
        let _ = drain_grouped(core, pending.collect());
    }

    fn hash_file(
        &self,
        inode: InodeId,
        algorithm: HashAlgorithm,
        budget: &Budget,
    ) -> Result<Hashed> {
        let core = &self.core;
        if crate::is_in_snapshot(inode) {
            return Err(Error::InvalidArgument("a file of a snapshot".into()));
        }
        let node = core.node(inode)?;
        for _ in 0..ATTEMPTS {
            let (version, size) = version_of(&node)?;
            let stored = core.store.lock().content_hash(inode, algorithm.number())?;
            if let Some(row) = stored.filter(|row| row.version == version) {
                return Ok(Hashed::Whole {
                    hash: row.hash,
                    size,
                    stored: true,
                });
            }
            if !budget.take(FILE_COST_BYTES) {
                return Ok(Hashed::Unfinished);
            }
            let begun = core.hashing.take(inode, algorithm, version);
            let mut content = begun.unwrap_or_else(|| HalfHashed {
                inode,
                algorithm,
                version,
                size,
                offset: 0,
                hasher: ContentHasher::new(algorithm),
            });
            match self.read_on(&node, &mut content, budget)? {
                Ended::Changed => continue,
                Ended::OutOfBudget => {
                    core.hashing.put_back(content);
                    return Ok(Hashed::Unfinished);
                }
                Ended::Whole => {}
            }
            let row = ContentHash {
                inode,
                algorithm: algorithm.number(),
                version,
                hash: content.hasher.finish(),
            };
            let stored = match self.keep(&node, &row)? {
                Outcome::Changed => continue,
                Outcome::Stored => true,
                Outcome::Told => false,
            };
            return Ok(Hashed::Whole {
                hash: row.hash,
                size,
                stored,
            });
        }
        Ok(Hashed::Changing)
    }

    /// Reads and hashes on from where `content` is.
    fn read_on(&self, node: &Node, content: &mut HalfHashed, budget: &Budget) -> Result<Ended> {
        if content.size - content.offset >= BESIDE_BYTES
            && let Some(ended) = self.read_beside(node, content, budget)
        {
            return ended;
        }
        let mut part = Vec::new();
        let place = (content.version, content.size);
        loop {
            match self.read_part(node, place, content.offset, budget, &mut part)? {
                Some(ended) => return Ok(ended),
                None => {
                    content.hasher.update(&part);
                    content.offset += part.len() as u64;
                }
            }
        }
    }

    /// The same with another thread that hashes; `None` if there is none to be had, and nothing was read.
    fn read_beside(
        &self,
        node: &Node,
        content: &mut HalfHashed,
        budget: &Budget,
    ) -> Option<Result<Ended>> {
        let place = (content.version, content.size);
        let (hasher, offset) = (&mut content.hasher, &mut content.offset);
        std::thread::scope(|scope| {
            let (filled, parts) = sync_channel::<Vec<u8>>(PARTS_BESIDE);
            let (emptied, empty) = sync_channel::<Vec<u8>>(PARTS_BESIDE);
            for _ in 0..PARTS_BESIDE {
                emptied.send(Vec::new()).ok()?;
            }
            let hash = move || {
                for part in parts {
                    hasher.update(&part);
                    // Nobody wants it any more when the reader has ended.
                    let _ = emptied.send(part);
                }
            };
            beside(scope, hash).ok()?;
            // The hashing thread ends only by a panic, which the scope passes on.
            while let Ok(mut part) = empty.recv() {
                match self.read_part(node, place, *offset, budget, &mut part) {
                    Ok(None) => {
                        *offset += part.len() as u64;
                        if filled.send(part).is_err() {
                            break;
                        }
                    }
                    Ok(Some(ended)) => return Some(Ok(ended)),
                    Err(error) => return Some(Err(error)),
                }
            }
            Some(Ok(Ended::Changed))
        })
    }

    /// Fills `part` with what follows at `offset` of the content of that version and size; gives why nothing does.
    fn read_part(
        &self,
        node: &Node,
        (version, size): (u64, u64),
        offset: u64,
        budget: &Budget,
        part: &mut Vec<u8>,
    ) -> Result<Option<Ended>> {
        if offset == size {
            return Ok(Some(Ended::Whole));
        }
        let len = (size - offset).min(PART_BYTES);
        if !budget.take(len) {
            return Ok(Some(Ended::OutOfBudget));
        }
        part.resize(usize::try_from(len).unwrap_or(0), 0);
        let count = self.read(node.id, offset, part)?;
        budget.read.fetch_add(count as u64, Ordering::Relaxed);
        // (2): were a byte of it newer, so would be the version by now.
        if count < part.len() || version_of(node)?.0 != version {
            return Ok(Some(Ended::Changed));
        }
        Ok(None)
    }

    /// Stores a hash, if its content is still that of the file. (1)
    fn keep(&self, node: &Arc<Node>, row: &ContentHash) -> Result<Outcome> {
        let core = &self.core;
        let admitted = core.admit(ROW_BYTES).and_then(|()| core.mutate());
        let Ok(gate) = admitted else {
            // Nothing more is to be written: it is told, and computed again another time.
            return match version_of(node)?.0 == row.version {
                true => Ok(Outcome::Told),
                false => Ok(Outcome::Changed),
            };
        };
        {
            let mut writer = core.store.lock();
            let state = node.lock();
            if state.purged {
                return Err(Error::Stale);
            }
            if state.inode.content_version != row.version {
                return Ok(Outcome::Changed);
            }
            if state.has_pending_content() {
                return Ok(Outcome::Told);
            }
            writer.put_content_hash(row)?;
            core.changed();
        }
        drop(gate);
        Engine::of(core).commit_if_large()?;
        Ok(Outcome::Stored)
    }
}

/// Starts a thread beside this one.
fn beside<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new()
        .name("strongroom-hash".into())
        .spawn_scoped(scope, work)
}

/// Version and length of a content.
fn version_of(node: &Node) -> Result<(u64, u64)> {
    let state = node.lock();
    state.check_file()?;
    Ok((state.inode.content_version, state.inode.size))
}

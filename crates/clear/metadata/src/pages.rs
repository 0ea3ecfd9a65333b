//! Checks that all pages that a store reads are of one state, the newest committed one, whichever file they come from.
//!
//! Takes   the key of a database, the contents of its files when it opens, then each write to database and log
//! Gives   permission to use the pages that were read, or a refusal; the seal of each commit; a file with one leaf for each page
//! Never   reads or writes the database or its log
//! Spec    spec/4-metadata.md, 4.12
//!
//! Invariants
//!  (1) `tree` covers the pages of the newest commit. Where the database file still has an older version of a page, `behind`
//!      holds the leaf of that older version.
//!  (2) The header of the file of leaves is written only for a commit whose pages are all in the database file, and before
//!      the log that held them is removed.                                                         [4.12.6]
//!  (3) No frame is written after the first `LOG_FRAMES_MAX` frames of the log, whichever part of a commit it would
//!      belong to. So bytes after those frames belong to no commit.

pub(crate) mod frames;
pub(crate) mod log_layout;
pub(crate) mod tree;
pub(crate) mod tree_file;

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read};

use parking_lot::{Mutex, RwLock};
use strongroom_folder::{Folder, Purpose};
use zeroize::Zeroizing;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::limits::{DATABASE_PAGES_MAX, KEY_BYTES, LOG_FRAMES_MAX};
use crate::pages::log_layout::{Frames, HEADER_BYTES, LogHeader, SEAL_BYTES};
use crate::pages::tree::{HASH_BYTES, Hash, Leaf, Root, Tree};
use crate::pages::tree_file::{BLOCK_LEAVES, TreeFile, TreeHeader};

/// The context that the key of the tree is derived in.
const TREE_CONTEXT: &str = "strongroom format 1 2026-11-23 page tree";
/// The context that the key of the seals is derived in.
const SEAL_CONTEXT: &str = "strongroom format 1 2026-11-23 page tree seal";

/// What a seal is of, so that one of a log is none of a file.
#[derive(Clone, Copy)]
enum Sealed {
    Commit { salts: [u8; 8], frame: u32 },
    File,
}

/// The key that seals roots.
struct SealKey(Zeroizing<Hash>);

impl SealKey {
    fn seal(&self, what: Sealed, root: &Root) -> Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        match what {
            Sealed::Commit { salts, frame } => {
                hasher
                    .update(&[1])
                    .update(&salts)
                    .update(&frame.to_le_bytes());
            }
            Sealed::File => {
                hasher.update(&[2]);
            }
        }
        hasher.update(&root.pages.to_le_bytes()).update(&root.root);
        *hasher.finalize().as_bytes()
    }

    /// Whether `seal` is that of `root`. In constant time, as `blake3::Hash` compares.
    fn fits(&self, what: Sealed, root: &Root, seal: &Hash) -> bool {
        blake3::Hash::from(self.seal(what, root)) == blake3::Hash::from(*seal)
    }
}

/// The pages of one open store.
pub(crate) struct Pages {
    key: SealKey,
    state: RwLock<State>,
    file: Mutex<TreeFile>,
    /// Held while a page of the database file is written and `state` does not say so yet.
    writing: Mutex<()>,
}

struct State {
    tree: Tree,
    behind: HashMap<u32, Leaf>,
    log: Log,
    /// Blocks of the file of leaves that say what the database file no longer has.
    stale: BTreeSet<u32>,
    /// What the header of the file of leaves says.
    filed: Option<Root>,
    /// Whether the database file is written directly, because the database is only being made.
    making: bool,
}

/// The log as this process has read or written it.
#[derive(Default)]
struct Log {
    salts: Option<[u8; 8]>,
    frames: Vec<(u32, Leaf)>,
    /// How many of them belong to commits.
    committed: usize,
}

/// A frame that SQLite writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewFrame {
    pub(crate) page: u32,
    pub(crate) leaf: Leaf,
    /// Pages of the database after the commit that this frame ends; 0 for any other frame.
    pub(crate) pages_after: u32,
}

/// What undoes a commit that could not be written.
pub(crate) struct Undo {
    pages: u32,
    committed: usize,
    /// Leaf in the tree, and what `behind` had, of each page, in the order of the changes.
    leaves: Vec<(u32, Leaf, Option<Leaf>)>,
}

/// Why something was read that may not be used, or cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mixed {
    /// It is not what the newest commit has there.
    OtherState,
    /// SQLite did what it does not do: better no database than one that nothing proves.
    Unexpected,
}

impl Pages {
    /// Of a database that is only being made in `folder`.
    pub(crate) fn make(folder: &Folder, key: &[u8; KEY_BYTES]) -> Result<Self> {
        let file = TreeFile::make_in(folder)?;
        let state = State::new(Tree::new(tree_key(key), Vec::new()), None, true);
        Ok(Self::new(key, state, file))
    }

    /// Of a database that has no file of leaves yet and is whole by itself: whatever its file has now is taken for sound.
    ///
    /// Reads all of the database once.
    ///
    /// # Errors
    /// The disk's; `Error::Damaged` if there is a log.
    pub(crate) fn adopt(folder: &Folder, key: &[u8; KEY_BYTES]) -> Result<()> {
        if LeftLog::read(folder)?.salts.is_some() {
            return Err(Error::Damaged("its log was not replayed"));
        }
        let leaves = TreeFile::leaves_of(folder)?;
        Self::put(folder, key, leaves)
    }

    /// Puts the file of leaves of a database into `folder` that is written there, whole, under `key`.
    pub(crate) fn put(folder: &Folder, key: &[u8; KEY_BYTES], leaves: Vec<Leaf>) -> Result<()> {
        let mut tree = Tree::new(tree_key(key), leaves);
        let root = Root {
            pages: tree.pages(),
            root: tree.root(),
        };
        let seal = SealKey::of(key).seal(Sealed::File, &root);
        Ok(TreeFile::put(
            folder,
            &TreeHeader { root, seal },
            tree.leaves(),
        )?)
    }

    /// Of the database in `folder`, with what its log says.
    ///
    /// # Errors
    /// `Error::WrongKey` if nothing there was sealed by this key; `Error::Damaged` if the file of leaves is
    /// missing, or it and the log are not of one state; the disk's.
    pub(crate) fn load(folder: &Folder, key: &[u8; KEY_BYTES], writable: bool) -> Result<Self> {
        let file = TreeFile::find_in(folder, writable)?.ok_or(Error::Damaged(
            "the file of its page tree, metadata.db-tree, is missing",
        ))?;
        let header = file.header()?;
        let seal = SealKey::of(key);
        let filed = header.filter(|header| seal.fits(Sealed::File, &header.root, &header.seal));
        let filed = filed.map(|header| header.root);
        let left = LeftLog::read(folder)?;
        let newest = left.newest(&seal);
        // Nothing that this key sealed: most likely it is not the key of this database.
        let (root, kept) = match (newest, filed) {
            (Ok(Some(newest)), _) => newest,
            (Ok(None), Some(filed)) => (filed, 0),
            (Ok(None) | Err(_), None) => return Err(Error::WrongKey),
            (Err(error), Some(_)) => return Err(error),
        };
        if root.pages > DATABASE_PAGES_MAX {
            return Err(Error::Damaged(
                "its page tree has more pages than a database may have",
            ));
        }
        let leaves = file.leaves(root.pages)?;
        let mut state = State::new(Tree::new(tree_key(key), leaves), filed, false);
        state.replay(&left, kept, root.pages);
        if state.tree.root() != root.root {
            return Err(Error::Damaged("its files belong to different states"));
        }
        Ok(Self::new(key, state, file))
    }

    fn new(key: &[u8; KEY_BYTES], state: State, file: TreeFile) -> Self {
        Self {
            key: SealKey::of(key),
            state: RwLock::new(state),
            file: Mutex::new(file),
            writing: Mutex::new(()),
        }
    }

    /// Runs `work` while no other page of the database file is written.
    pub(crate) fn while_nobody_writes<T>(&self, work: impl FnOnce() -> T) -> T {
        let _alone = self.writing.lock();
        work()
    }

    /// The database is made: from now on its file is written by checkpoints only.
    pub(crate) fn made(&self) {
        self.state.write().making = false;
    }

    /// The newest commit's root and count of pages.
    pub(crate) fn root(&self) -> Root {
        let mut state = self.state.write();
        state.root()
    }

    /// How many bytes of the database file are pages of it.
    pub(crate) fn database_len_max(&self) -> Option<u64> {
        let state = self.state.read();
        (!state.making).then(|| u64::from(state.tree.pages()) * crate::limits::PAGE_BYTES as u64)
    }

    /// How many frames the log has.
    pub(crate) fn log_frames(&self) -> Option<u32> {
        let log = &self.state.read().log;
        log.salts?;
        Some(u32::try_from(log.frames.len()).expect("LOG_FRAMES_MAX bounds them"))
    }

    /// Whether `bytes`, read from the database file as `page`, are what must be there.
    pub(crate) fn check_page(&self, page: u32, bytes: &[u8]) -> std::result::Result<(), Mixed> {
        let state = self.state.read();
        let expected = state.in_file(page);
        drop(state);
        match log_layout::leaf_of(bytes) == expected {
            true => Ok(()),
            false => Err(Mixed::OtherState),
        }
    }

    /// Whether `bytes`, read as the page of the frame with this number, are what was written there.
    pub(crate) fn check_frame(&self, frame: u32, bytes: &[u8]) -> std::result::Result<(), Mixed> {
        let expected = self
            .state
            .read()
            .log
            .frames
            .get(frame as usize)
            .map(|frame| frame.1);
        match Some(log_layout::leaf_of(bytes)) == expected {
            true => Ok(()),
            false => Err(Mixed::OtherState),
        }
    }

    /// The database file now has `bytes` as `page`.
    pub(crate) fn page_written(&self, page: u32, bytes: &[u8]) {
        let leaf = log_layout::leaf_of(bytes);
        let mut state = self.state.write();
        if state.making && state.log.frames.is_empty() {
            state.tree.set(page, leaf);
        } else if state.tree.leaf(page) == leaf {
            state.behind.remove(&page);
        } else {
            state.behind.insert(page, leaf);
        }
        state.stale.insert(page.saturating_sub(1) / BLOCK_LEAVES);
    }

    /// The frames from `first` on are about to be written. If the last one ends a commit, gives the seal that follows it, and what
    /// undoes it should the write fail.
    pub(crate) fn append(
        &self,
        first: u32,
        frames: &[NewFrame],
    ) -> std::result::Result<Option<([u8; SEAL_BYTES], Undo)>, Mixed> {
        let mut state = self.state.write();
        let state = &mut *state;
        let salts = state.log.salts.ok_or(Mixed::Unexpected)?;
        let first = first as usize;
        if first < state.log.committed || first > state.log.frames.len() {
            return Err(Mixed::Unexpected);
        }
        // (3)
        if first + frames.len() > LOG_FRAMES_MAX {
            return Err(Mixed::Unexpected);
        }
        // What an earlier commit that failed left there is written over.
        state.log.frames.truncate(first);
        let mut new = frames.iter().map(|frame| (frame.page, frame.leaf));
        state.log.frames.extend(&mut new);
        let Some(pages) = frames
            .last()
            .map(|frame| frame.pages_after)
            .filter(|pages| *pages != 0)
        else {
            return Ok(None);
        };
        let undo = state.commit(pages);
        let root = state.root();
        let frame = u32::try_from(state.log.frames.len() - 1).expect("LOG_FRAMES_MAX bounds them");
        let mut sealed = [0; SEAL_BYTES];
        sealed[..HASH_BYTES].copy_from_slice(&root.root);
        sealed[HASH_BYTES..]
            .copy_from_slice(&self.key.seal(Sealed::Commit { salts, frame }, &root));
        Ok(Some((sealed, undo)))
    }

    /// The commit was not written.
    pub(crate) fn undo(&self, undo: Undo) {
        let mut state = self.state.write();
        for (page, leaf, behind) in undo.leaves.into_iter().rev() {
            state.tree.set(page, leaf);
            match behind {
                Some(leaf) => state.behind.insert(page, leaf),
                None => state.behind.remove(&page),
            };
        }
        state.tree.resize(undo.pages);
        state.log.committed = undo.committed;
        state.log.frames.truncate(undo.committed);
    }

    /// The log is about to restart with `header`, or, for `None`, to be emptied. What it held is filed first.     (2)
    ///
    /// # Errors
    /// The disk's; or that the log holds something that no other file has.
    pub(crate) fn restart_log(&self, disk: &Disk, header: Option<&[u8]>) -> io::Result<()> {
        self.file_leaves(disk)?;
        let mut state = self.state.write();
        if !state.behind.is_empty() {
            return Err(io::Error::other(
                "the log has pages that the database file does not have",
            ));
        }
        let header = header.and_then(|bytes| <&[u8; HEADER_BYTES]>::try_from(bytes).ok());
        state.log = Log {
            salts: header
                .and_then(LogHeader::decode)
                .map(|header| header.salts),
            ..Log::default()
        };
        Ok(())
    }

    /// Whether the file of leaves covers the newest commit, so that no log is needed.
    pub(crate) fn is_filed(&self) -> bool {
        let mut state = self.state.write();
        let root = state.root();
        state.behind.is_empty() && state.stale.is_empty() && state.filed == Some(root)
    }

    /// Makes the file of leaves say what the database file has; with its header, if that is a commit.                  (2)
    pub(crate) fn file_leaves(&self, disk: &Disk) -> io::Result<()> {
        let mut file = self.file.lock();
        let (blocks, header) = {
            let mut state = self.state.write();
            let header = state.header_due(&self.key);
            let blocks: Vec<_> = std::mem::take(&mut state.stale)
                .into_iter()
                .map(|block| (block, state.block(block)))
                .collect();
            (blocks, header)
        };
        if blocks.is_empty() && header.is_none() {
            return Ok(());
        }
        let filed = file.write(disk, &blocks, header.as_ref());
        let mut state = self.state.write();
        match filed {
            Ok(()) => state.filed = header.map_or(state.filed, |header| Some(header.root)),
            Err(_) => state.stale.extend(blocks.iter().map(|block| block.0)),
        }
        filed
    }
}

impl SealKey {
    fn of(key: &[u8; KEY_BYTES]) -> Self {
        Self(Zeroizing::new(blake3::derive_key(SEAL_CONTEXT, key)))
    }
}

fn tree_key(key: &[u8; KEY_BYTES]) -> Hash {
    blake3::derive_key(TREE_CONTEXT, key)
}

impl State {
    fn new(tree: Tree, filed: Option<Root>, making: bool) -> Self {
        Self {
            tree,
            behind: HashMap::new(),
            log: Log::default(),
            stale: BTreeSet::new(),
            filed,
            making,
        }
    }

    /// What the database file has as `page`.                                                                   (1)
    fn in_file(&self, page: u32) -> Leaf {
        self.behind
            .get(&page)
            .copied()
            .unwrap_or_else(|| self.tree.leaf(page))
    }

    fn root(&mut self) -> Root {
        Root {
            pages: self.tree.pages(),
            root: self.tree.root(),
        }
    }

    /// The frames that belong to no commit yet are one now.                                                    (1)
    fn commit(&mut self, pages: u32) -> Undo {
        let mut undo = Undo {
            pages: self.tree.pages(),
            committed: self.log.committed,
            leaves: Vec::with_capacity(self.log.frames.len() - self.log.committed),
        };
        for &(page, leaf) in &self.log.frames[self.log.committed..] {
            if page > pages {
                // SQLite writes none such. One in a log that somebody altered has any number, and the tree would grow to that.
                continue;
            }
            let before = self.tree.leaf(page);
            undo.leaves
                .push((page, before, self.behind.get(&page).copied()));
            self.behind.entry(page).or_insert(before);
            self.tree.set(page, leaf);
        }
        self.tree.resize(pages);
        self.behind.retain(|page, _| *page <= pages);
        self.log.committed = self.log.frames.len();
        undo
    }

    /// Takes over the first `kept` frames of a log that was left behind.
    fn replay(&mut self, left: &LeftLog, kept: usize, pages: u32) {
        self.log.salts = left.salts;
        for frame in &left.frames[..kept] {
            self.log.frames.push((frame.page, frame.leaf));
        }
        self.commit(pages);
    }

    /// The header to write, if the database file has a commit that the header does not cover.                 (2)
    fn header_due(&mut self, key: &SealKey) -> Option<TreeHeader> {
        let is_commit = self.behind.is_empty() && self.log.committed == self.log.frames.len();
        if !is_commit || (self.making && self.tree.pages() == 0) {
            return None;
        }
        let root = self.root();
        (self.filed != Some(root)).then(|| TreeHeader {
            root,
            seal: key.seal(Sealed::File, &root),
        })
    }

    /// The leaves of one block of the file.
    fn block(&self, block: u32) -> Vec<Leaf> {
        let first = block * BLOCK_LEAVES + 1;
        (first..first.saturating_add(BLOCK_LEAVES))
            .map(|page| self.in_file(page))
            .collect()
    }
}

/// A log that was left behind, as far as SQLite would take it.
#[derive(Default)]
struct LeftLog {
    salts: Option<[u8; 8]>,
    frames: Vec<log_layout::Frame>,
}

impl LeftLog {
    fn read(folder: &Folder) -> Result<Self> {
        match folder.open_file("metadata.db-wal", Purpose::Read) {
            Err(error) if error.is_missing() => Ok(Self::default()),
            opened => Self::of(
                io::BufReader::with_capacity(1 << 20, opened?),
                LOG_FRAMES_MAX,
            ),
        }
    }

    /// The first `frames_max` frames of `log`.
    fn of(mut log: impl Read, frames_max: usize) -> Result<Self> {
        let mut header = [0; HEADER_BYTES];
        if log_layout::read_up_to(&mut log, &mut header)? < HEADER_BYTES {
            return Ok(Self::default());
        }
        let Some(header) = LogHeader::decode(&header) else {
            return Ok(Self::default());
        };
        let mut left = Self {
            salts: Some(header.salts),
            frames: Vec::new(),
        };
        let mut frames = Frames::new(log.by_ref(), &header);
        // (3): earlier versions wrote parts of a commit behind that, and never its end.
        while left.frames.len() < frames_max
            && let Some(frame) = frames.next()?
        {
            left.frames.push(frame);
        }
        Ok(left)
    }

    /// The root of the newest commit, and how many frames there are up to it; `None` if there is no commit.
    ///
    /// # Errors
    /// `Error::Damaged` if seals do not fit that no power cut can have torn: all but that of the last commit.
    fn newest(&self, key: &SealKey) -> Result<Option<(Root, usize)>> {
        let mut commits = self
            .frames
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, frame)| frame.pages_after != 0);
        let Some(last) = commits.next() else {
            return Ok(None);
        };
        let before = commits.next();
        if let Some(found) = self.sealed(key, last) {
            return Ok(Some(found));
        }
        match before {
            // The seal lies behind the page: a cut can tear it and leave the page whole.
            None => Ok(None),
            Some(commit) => self
                .sealed(key, commit)
                .map(Some)
                .ok_or(Error::Damaged("a commit in its log does not authenticate")),
        }
    }

    fn sealed(
        &self,
        key: &SealKey,
        (frame, commit): (usize, &log_layout::Frame),
    ) -> Option<(Root, usize)> {
        let (root, seal) = commit.seal.split_first_chunk::<HASH_BYTES>()?;
        let root = Root {
            pages: commit.pages_after,
            root: *root,
        };
        let what = Sealed::Commit {
            salts: self.salts?,
            frame: u32::try_from(frame).ok()?,
        };
        key.fits(what, &root, seal.try_into().ok()?)
            .then_some((root, frame + 1))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::store::Store;
    use crate::store::options::Options;

    const KEY: [u8; KEY_BYTES] = [7; KEY_BYTES];

    fn frame(pages_after: u32) -> NewFrame {
        NewFrame {
            page: 1,
            leaf: Leaf::NONE,
            pages_after,
        }
    }

    /// Goal: nothing is written behind the bound of the log, also nothing of a commit that goes on. (3)
    /// Failed before: only the part that ends a commit was refused, when the parts before it were in the file.
    #[test]
    fn no_part_of_a_commit_is_written_behind_the_bound_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let pages = Pages::make(&Folder::open(folder.path()).unwrap(), &KEY).unwrap();
        let len = LOG_FRAMES_MAX - 2;
        pages.state.write().log = Log {
            salts: Some([1; 8]),
            frames: vec![(1, Leaf::NONE); len],
            committed: len,
        };
        let first = u32::try_from(len).unwrap();
        let refused = pages.append(first, &[frame(0), frame(0), frame(0)]);
        assert_eq!(refused.err(), Some(Mixed::Unexpected));
        assert!(pages.append(first, &[frame(0)]).is_ok());
        let refused = pages.append(first + 1, &[frame(0), frame(1)]);
        assert_eq!(refused.err(), Some(Mixed::Unexpected));
        assert!(pages.append(first + 1, &[frame(1)]).unwrap().is_some());
    }

    /// Goal: the number of a page in a log, which nothing proves before the root is compared, makes no tree longer than the database.
    /// Failed before: the tree grew to that number, up to 64 GiB of memory for one altered frame.
    #[test]
    fn a_frame_of_a_page_behind_the_last_takes_no_memory() {
        let tree = Tree::new([3; HASH_BYTES], vec![Leaf([1; 16]); 2]);
        let mut state = State::new(tree, None, false);
        let root = state.root();
        state.log.frames = vec![(1 << 20, Leaf([2; 16])), (2, Leaf([1; 16]))];
        let undo = state.commit(2);
        let pages: Vec<u32> = undo.leaves.iter().map(|leaf| leaf.0).collect();
        assert_eq!(pages, [2]);
        assert_eq!((state.root(), state.log.committed), (root, 2));
    }

    /// Goal: a log that is longer than its bound counts up to its last commit before that.
    /// Failed before: such a log was damage, and the database did not open any more.
    #[test]
    fn a_log_counts_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path(), &KEY, Options::default()).unwrap();
        for number in 0..10_u8 {
            let mut writer = store.lock();
            writer.put_setting("setting", &[number; 9_000]).unwrap();
            writer.commit().unwrap();
        }
        let log = std::fs::read(folder.path().join("metadata.db-wal")).unwrap();
        let key = SealKey::of(&KEY);
        let all = LeftLog::of(&log[..], LOG_FRAMES_MAX).unwrap();
        assert!(all.frames.len() >= 30, "{}", all.frames.len());
        for bound in 1..all.frames.len() {
            let left = LeftLog::of(&log[..], bound).unwrap();
            assert_eq!(left.frames.len(), bound);
            let mut commits = (0..bound).filter(|number| all.frames[*number].pages_after != 0);
            let newest = left.newest(&key).unwrap().map(|(_, kept)| kept);
            assert_eq!(newest, commits.next_back().map(|number| number + 1));
        }
    }
}

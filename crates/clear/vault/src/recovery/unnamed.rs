//! Puts unreferenced content into `lost+found`, so that it has a name.
//!
//! Takes   a rebuild that has written its snapshots and the current state
//! Gives   one file for each segment with content that neither of these refers to
//! Never   drops such content: nobody can tell removed content from content that was just stored
//! Spec    spec/7-recovery.md, [7.4.5]

use strongroom_format::{BlockId, Kind, hex};
use strongroom_history::Blocks;
use strongroom_metadata::{Entry as Name, Extent, Inode, InodeId, NodeKind, Timestamp};

use crate::Result;
use crate::recovery::inventory::FoundBlock;
use crate::recovery::rebuild::{CELL, Work};

/// Where content without a name goes.
const LOST_FOUND: &[u8] = b"lost+found";

/// A block of content: its place in its segment, its name, its length.
type Unnamed = (u32, BlockId, u32);

impl Work<'_, '_> {
    /// (2): one file for each segment, each block in a cell of its own, in the order in which they were written.
    pub(crate) fn unnamed(&mut self) -> Result<()> {
        let mut unnamed: Vec<Vec<Unnamed>> = vec![Vec::new(); self.segments.len()];
        for (id, found) in &self.given.blocks.inventory.blocks {
            if found.kind.is_data() && found.clear_len > 0 && !self.numbers.contains_key(id) {
                let len = self.content_len(id, found)?;
                unnamed[found.segment as usize].push((found.offset, *id, len));
            }
        }
        if unnamed.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let directory = self.lost_found()?;
        for (index, mut blocks) in unnamed.into_iter().enumerate() {
            if blocks.is_empty() {
                continue;
            }
            blocks.sort_unstable_by_key(|(offset, _, _)| *offset);
            let name = hex::encode(&self.inventory().segments[index].id.0);
            self.unnamed_file(directory, name.as_bytes(), &blocks)?;
        }
        self.settle_references()
    }

    /// Rows for the lost blocks that only older snapshots name: who removes those takes references of them.
    ///                                                                                                     [7.4.2]
    ///
    /// Whether such a block is of content nobody knows. As one of content it names nothing, so what a lost node names is not counted
    /// before that node comes back.
    pub(crate) fn insert_missing(&mut self) -> Result<()> {
        let missing: Vec<BlockId> = self.missing.keys().copied().collect();
        for id in missing {
            if !self.numbers.contains_key(&id) {
                let number = self.lost_block(&id, CELL as u32)?;
                self.numbers.insert(id, number);
                self.commit_if_large()?;
            }
        }
        Ok(())
    }

    /// How long the content of a block is; of a compressed one only its content tells. Of one that does not open nobody
    /// knows, and reading it fails.
    fn content_len(&self, id: &BlockId, found: &FoundBlock) -> Result<u32> {
        if !found.kind.is_compressed() {
            return Ok(found.clear_len);
        }
        let content = self.given.blocks.open(Kind::Data, id)?;
        let len = content.and_then(|content| u32::try_from(content.len()).ok());
        Ok(len.unwrap_or(CELL as u32))
    }

    fn unnamed_file(&mut self, directory: InodeId, name: &[u8], blocks: &[Unnamed]) -> Result<()> {
        let mut rows = Vec::with_capacity(blocks.len());
        let mut size = 0;
        for ((_, id, len), cell) in blocks.iter().zip(0..) {
            let block = self.block(id, *len)?;
            let start = cell * CELL;
            size = start + u64::from(*len);
            rows.push(Extent {
                start,
                len: *len,
                block,
                block_offset: 0,
            });
        }
        let inode = self.writer.next_inode()?;
        let held = self.put_extents(inode, &rows)?;
        // Not content of the living state.
        self.result.bytes -= held;
        let node = Inode {
            birth_id: self.birth_id()?,
            mode: 0o600,
            nlink: 1,
            size,
            allocated: held,
            ..node_of(inode, NodeKind::File, self.given.now, self.given.owner)
        };
        self.writer.put_inode(&node)?;
        self.give_name(directory, name, &node)?;
        self.result.unnamed.0 += 1;
        self.result.unnamed.1 += held;
        self.commit_if_large()
    }

    fn give_name(&mut self, parent: InodeId, name: &[u8], node: &Inode) -> Result<()> {
        let cookie = self.writer.next_cookie();
        Ok(self.writer.insert_entry(
            parent,
            &Name {
                name: name.to_vec(),
                inode: node.id,
                kind: node.kind,
                cookie,
            },
        )?)
    }

    /// A new directory below the root, under the first of its names that is free.
    fn lost_found(&mut self) -> Result<InodeId> {
        let mut name = LOST_FOUND.to_vec();
        let mut number = 1;
        while self.writer.entry(InodeId::ROOT, &name)?.is_some() {
            number += 1;
            name = [LOST_FOUND, format!("-{number}").as_bytes()].concat();
        }
        let inode = self.writer.next_inode()?;
        let node = Inode {
            birth_id: self.birth_id()?,
            mode: 0o700,
            nlink: 2,
            parent: InodeId::ROOT,
            ..node_of(inode, NodeKind::Directory, self.given.now, self.given.owner)
        };
        self.writer.put_inode(&node)?;
        self.give_name(InodeId::ROOT, &name, &node)?;
        if let Some(root) = self.writer.inode(InodeId::ROOT)? {
            let nlink = root.nlink + 1;
            self.writer.put_inode(&Inode { nlink, ..root })?;
        }
        Ok(inode)
    }
}

/// A node of which nothing is known but that it is made now.
pub(crate) fn node_of(id: InodeId, kind: NodeKind, now: Timestamp, owner: (u32, u32)) -> Inode {
    Inode {
        id,
        birth_id: 0,
        kind,
        mode: 0o755,
        uid: owner.0,
        gid: owner.1,
        rdev: 0,
        nlink: 1,
        size: 0,
        allocated: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        content_version: 0,
        parent: match kind {
            NodeKind::Directory => InodeId::ROOT,
            _ => InodeId(0),
        },
        target: Vec::new(),
        reserved: 0,
    }
}

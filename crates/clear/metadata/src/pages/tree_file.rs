//! The file of leaves: a leaf for each page of the database file, and the root of the last commit whose pages are all in it.
//!
//! Takes   leaves in blocks, and a header
//! Gives   the same leaves and header, as far as the file reaches
//! Never   trusts the header: `pages.rs` checks its seal
//! Spec    spec/4-metadata.md, 4.12
//!
//! ```text
//! | header, zeros to 4096 | leaf of page 1 | leaf of page 2 | …   16 bytes each, by blocks of 4096 bytes
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;
use strongroom_folder::{Folder, Purpose, is_full};

use crate::disk::DATABASE_FILE;
use crate::disk::{Disk, DiskEvent, FileKind, fault_error};
use crate::limits::{DATABASE_PAGES_MAX, PAGE_BYTES};
use crate::pages::log_layout::{self, leaf_of};
use crate::pages::tree::{HASH_BYTES, LEAF_BYTES, Leaf, Root};

/// The file of leaves in a vault folder.
pub const TREE_FILE: &str = "metadata.db-tree";

/// Leaves in one block, which is written whole.
pub(crate) const BLOCK_LEAVES: u32 = (PAGE_BYTES / LEAF_BYTES) as u32;

/// Bytes of the header that are not zero at the end: one sector, so that a power cut leaves it old or new.
const HEADER_BYTES: usize = 128;
const MAGIC: &[u8; 8] = b"SRpgtree";
const VERSION: u16 = 0;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeHeader {
    pub(crate) root: Root,
    pub(crate) seal: [u8; HASH_BYTES],
}

impl TreeHeader {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.root.pages.to_le_bytes());
        bytes[32..64].copy_from_slice(&self.root.root);
        bytes[64..96].copy_from_slice(&self.seal);
        bytes
    }

    fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let pages = u32::from_le_bytes(bytes[16..20].try_into().ok()?);
        let root = bytes[32..64].try_into().ok()?;
        let seal = bytes[64..96].try_into().ok()?;
        let header = Self {
            root: Root { pages, root },
            seal,
        };
        (header.encode() == *bytes).then_some(header)
    }
}

/// The open file of leaves.
pub(crate) struct TreeFile {
    file: File,
}

impl TreeFile {
    /// An empty one, which must not be there yet.
    pub(crate) fn make_in(folder: &Folder) -> strongroom_folder::Result<Self> {
        let file = File::from(folder.create_with(TREE_FILE, OFlags::empty())?);
        Ok(Self { file })
    }

    /// Puts a whole file of leaves into `folder`, durably: it is there with everything or not at all.
    pub(crate) fn put(
        folder: &Folder,
        header: &TreeHeader,
        leaves: &[Leaf],
    ) -> strongroom_folder::Result<()> {
        let mut bytes = vec![0; PAGE_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        bytes.extend(leaves.iter().flat_map(|leaf| leaf.0));
        folder.replace(TREE_FILE, &bytes)
    }

    /// What stands for each page of the database file in `folder`.
    pub(crate) fn leaves_of(folder: &Folder) -> strongroom_folder::Result<Vec<Leaf>> {
        let file = folder.open_file(DATABASE_FILE, Purpose::Read)?;
        let mut file = io::BufReader::with_capacity(1 << 20, file);
        let mut leaves = Vec::new();
        let mut page = [0; PAGE_BYTES];
        while log_layout::read_up_to(&mut file, &mut page)? == PAGE_BYTES {
            if leaves.len() == DATABASE_PAGES_MAX as usize {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge).into());
            }
            leaves.push(leaf_of(&page));
        }
        Ok(leaves)
    }

    /// The one in `folder`; `None` if there is none.
    pub(crate) fn find_in(
        folder: &Folder,
        writable: bool,
    ) -> strongroom_folder::Result<Option<Self>> {
        let purpose = if writable {
            Purpose::Write
        } else {
            Purpose::Read
        };
        match folder.open_file(TREE_FILE, purpose) {
            Ok(file) => Ok(Some(Self { file })),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The header; `None` if there is none that this version could have written.
    pub(crate) fn header(&self) -> io::Result<Option<TreeHeader>> {
        let mut bytes = [0; HEADER_BYTES];
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(TreeHeader::decode(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The leaves of the first `pages` pages; those that the file does not reach were never written.
    pub(crate) fn leaves(&self, pages: u32) -> io::Result<Vec<Leaf>> {
        let stored = self
            .file
            .metadata()?
            .len()
            .saturating_sub(PAGE_BYTES as u64)
            / LEAF_BYTES as u64;
        let stored = stored.min(u64::from(pages)) as usize;
        let mut bytes = vec![0; stored * LEAF_BYTES];
        self.file.read_exact_at(&mut bytes, PAGE_BYTES as u64)?;
        let (leaves, _) = bytes.as_chunks::<LEAF_BYTES>();
        let mut leaves: Vec<Leaf> = leaves.iter().map(|bytes| Leaf(*bytes)).collect();
        leaves.resize(pages as usize, Leaf::NONE);
        Ok(leaves)
    }

    /// Writes `blocks`, then `header`, and makes both durable.
    ///
    /// # Errors
    /// The disk's. After a failed sync the store can change nothing any more.
    pub(crate) fn write(
        &mut self,
        disk: &Disk,
        blocks: &[(u32, Vec<Leaf>)],
        header: Option<&TreeHeader>,
    ) -> io::Result<()> {
        for (block, leaves) in blocks {
            let bytes: Vec<u8> = leaves.iter().flat_map(|leaf| leaf.0).collect();
            self.write_at(disk, &bytes, (u64::from(*block) + 1) * PAGE_BYTES as u64)?;
        }
        if let Some(header) = header {
            self.write_at(disk, &header.encode(), 0)?;
        }
        let synced = disk
            .before(&DiskEvent::Sync {
                file: FileKind::Tree,
            })
            .map_err(fault_error)
            .and_then(|()| self.file.sync_data());
        if synced.is_err() {
            disk.set_sync_failed();
        }
        synced
    }

    fn write_at(&self, disk: &Disk, bytes: &[u8], offset: u64) -> io::Result<()> {
        let event = DiskEvent::Write {
            file: FileKind::Tree,
            offset,
            bytes,
        };
        let attempt = || {
            disk.before(&event).map_err(fault_error)?;
            self.file.write_all_at(bytes, offset)
        };
        let releases = disk.reserve().releases();
        match attempt() {
            Err(error) if is_full(&error) && disk.reserve().release(releases) => attempt(),
            other => other,
        }
    }
}

//! Hashes of whole contents, each with the version of the content that was hashed.
//!
//! Takes   an inode, the number of an algorithm, a version and a hash
//! Gives   the same rows, by inode or in the order of hashes
//! Never   computes a hash, or decides whether it still matches the content: the reader compares versions
//! Spec    spec/4-metadata.md, 4.11

use rusqlite::Row;

use crate::error::{Error, Result};
use crate::rows::{ContentHash, InodeId};
use crate::store::transaction::{Transaction, check_numbers};
use crate::tables::columns::{bound, bytes, key, small, whole};
use crate::tables::reads::Reads;
use crate::tables::sql::Statement;

impl Transaction<'_> {
    /// Stores the hash of a content, in place of that of an earlier version.
    pub fn put_content_hash(&mut self, row: &ContentHash) -> Result<()> {
        check_numbers(&[row.inode.0, row.version])?;
        self.change(row.hash.len(), |writer| {
            let params = (
                key(row.inode.0),
                row.algorithm,
                key(row.version),
                &row.hash[..],
            );
            writer.run(Statement::HashPut, params)?;
            Ok(())
        })
    }
}

impl Reads {
    /// The stored hash of the content of `inode`, of whichever version it is.
    pub fn content_hash(&self, inode: InodeId, algorithm: u8) -> Result<Option<ContentHash>> {
        self.one(Statement::HashGet, (key(inode.0), algorithm), hash_at)
    }

    /// Up to `limit` hashes of `algorithm` behind the hash and inode `after`, and none above `last`, in order.
    pub fn content_hashes(
        &self,
        algorithm: u8,
        after: &([u8; 32], InodeId),
        last: &[u8; 32],
        limit: usize,
    ) -> Result<Vec<ContentHash>> {
        let (hash, inode) = after;
        self.all(
            Statement::HashList,
            (algorithm, &hash[..], key(inode.0), &last[..], bound(limit)),
            hash_at,
        )
    }

    /// Up to `limit` files above `after` that have a name and no hash of their content as it is stored, with their
    /// lengths, in order. Looks at every file from there on.
    pub fn files_without_hash(
        &self,
        algorithm: u8,
        after: InodeId,
        limit: usize,
    ) -> Result<Vec<(InodeId, u64)>> {
        self.all(
            Statement::HashMissing,
            (key(after.0), algorithm, bound(limit)),
            |row| Ok((InodeId(whole(row, 0)?), whole(row, 1)?)),
        )
    }

    /// Gives every stored hash to `take`.
    pub fn for_each_content_hash(&self, mut take: impl FnMut(ContentHash)) -> Result<()> {
        self.each(Statement::HashAll, |row| {
            take(hash_at(row)?);
            Ok(())
        })
    }
}

fn hash_at(row: &Row<'_>) -> Result<ContentHash> {
    let algorithm = u8::try_from(small(row, 1)?)
        .map_err(|_| Error::Damaged("the algorithm of a hash is out of range"))?;
    Ok(ContentHash {
        inode: InodeId(whole(row, 0)?),
        algorithm,
        version: whole(row, 2)?,
        hash: bytes(row, 3)?,
    })
}

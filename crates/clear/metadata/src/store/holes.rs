//! Holes: rows that declare a part of a file empty while rows of its content still exist there.
//!
//! Takes   an inode and a range of its regions
//! Gives   one row per hole, until the rows of content are removed
//! Never   touches the rows of content
//! Spec    spec/4-metadata.md, 4.5.9

use std::ops::Range;

use crate::error::{Error, Result};
use crate::rows::InodeId;
use crate::store::transaction::{Transaction, check_numbers};
use crate::tables::columns::key;
use crate::tables::sql::Statement;

impl Transaction<'_> {
    /// Notes that `inode` has a hole over all of `regions`, whatever rows it still has there. Replaces a hole with
    /// the same first region.
    ///
    /// # Errors
    /// `Error::Invalid` for no region.
    pub fn put_hole(&mut self, inode: InodeId, regions: &Range<u64>) -> Result<()> {
        check_numbers(&[inode.0, regions.start, regions.end])?;
        if regions.is_empty() {
            return Err(Error::Invalid("a hole is empty"));
        }
        self.change(0, |writer| {
            let params = [key(inode.0), key(regions.start), key(regions.end)];
            writer.run(Statement::HolePut, params)?;
            Ok(())
        })
    }

    /// Forgets the hole of `inode` that begins at region `first`: it has no rows there any more.
    pub fn remove_hole(&mut self, inode: InodeId, first: u64) -> Result<()> {
        self.change(0, |writer| {
            writer.run(Statement::HoleRemove, [key(inode.0), key(first)])?;
            Ok(())
        })
    }
}

//! The rows about the remotes of a vault: their addresses, how far their logs were read, and the objects that they have.
//!
//! Takes   queries only; `store/remotes.rs` writes
//! Gives   remotes by name, and the objects published there, one by one
//! Never   knows how to reach a remote, or the format of its log
//! Spec    spec/4-metadata.md, 4.14

use rusqlite::Row;
use strongroom_format::Epoch;

use crate::error::{Error, Result};
use crate::tables::columns::{bound, bytes, key, value_at, whole};
use crate::tables::reads::Reads;
use crate::tables::sql::Statement;

/// A remote of the vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its number here; 0 for one that is not stored yet.
    pub number: u64,
    /// What the user calls it.
    pub name: String,
    /// Its random id.
    pub id: [u8; 16],
    /// What whoever uses it keeps of it: address, how far it was read.
    pub state: Vec<u8>,
}

/// Something that a remote has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Published {
    /// The segment of that id.
    Segment([u8; 16]),
    /// The record of the revision of that id, sealed under that epoch.
    Revision([u8; 32], Epoch),
}

const SEGMENT: u8 = 1;
const REVISION: u8 = 2;

impl Published {
    pub(crate) fn encode(self) -> Vec<u8> {
        match self {
            Self::Segment(id) => [&[SEGMENT], &id[..]].concat(),
            Self::Revision(id, epoch) => [&[REVISION], &id[..], &epoch.0.to_le_bytes()].concat(),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::Damaged("a stored list of published objects is invalid");
        match bytes.split_first() {
            Some((&SEGMENT, id)) => Ok(Self::Segment(id.try_into().map_err(|_| damaged())?)),
            Some((&REVISION, rest)) => {
                let (id, epoch) = rest.split_first_chunk().ok_or_else(damaged)?;
                let epoch = epoch.try_into().map_err(|_| damaged())?;
                Ok(Self::Revision(*id, Epoch(u32::from_le_bytes(epoch))))
            }
            _ => Err(damaged()),
        }
    }
}

/// How a remote has an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedAs {
    /// BLAKE3 of its bytes.
    pub hash: [u8; 32],
    /// The last publication that named it.
    pub publication: u64,
}

impl PublishedAs {
    /// Whether it only stands for what was let go there while it is still here.                          [4.14]
    #[must_use]
    pub fn is_let_go(&self) -> bool {
        self.hash == [0; 32]
    }

    fn at(row: &Row<'_>, column: usize) -> Result<Self> {
        Ok(Self {
            hash: bytes(row, column)?,
            publication: whole(row, column + 1)?,
        })
    }
}

impl Reads {
    /// All remotes, in the order in which they were added.
    pub fn remotes(&self) -> Result<Vec<Remote>> {
        self.all(Statement::RemoteList, [], |row| {
            let damaged = || Error::Damaged("a stored remote is invalid");
            Ok(Remote {
                number: whole(row, 0)?,
                name: row.get(1).map_err(|_| damaged())?,
                id: bytes(row, 2)?,
                state: value_at(row, 3)?.to_vec(),
            })
        })
    }

    /// How the remote of that number has `item`; `None` if it has not.
    pub fn published(&self, remote: u64, item: Published) -> Result<Option<PublishedAs>> {
        self.one(
            Statement::PublishedGet,
            (key(remote), item.encode()),
            |row| PublishedAs::at(row, 0),
        )
    }

    /// How many items the remote of that number has; those of which the hash is zeros only stand for what was let go there.
    pub fn published_count(&self, remote: u64) -> Result<u64> {
        let count = self.one(Statement::PublishedCount, [key(remote)], |row| {
            whole(row, 0)
        })?;
        Ok(count.unwrap_or(0))
    }

    /// What the remote of that number has, behind `after`, in a fixed order; at most `limit` items.
    pub fn published_after(
        &self,
        remote: u64,
        after: Option<Published>,
        limit: usize,
    ) -> Result<Vec<(Published, PublishedAs)>> {
        let after = after.map_or_else(Vec::new, Published::encode);
        self.all(
            Statement::PublishedList,
            (key(remote), after, bound(limit)),
            |row| {
                let item: Vec<u8> = row.get(0)?;
                Ok((Published::decode(&item)?, PublishedAs::at(row, 1)?))
            },
        )
    }
}

//! Turns the counters of the store into the bytes of one setting, and back.
//!
//! Takes   counters, or the bytes of the setting `counters`
//! Gives   the reverse: bytes for counters, counters for bytes
//! Never   assigns a number twice, unless its commit was lost: then nothing durable refers to it
//! Spec    spec/4-metadata.md, 4.6

use crate::error::{Error, Result};
use crate::rows::InodeId;

/// The key of the setting.
pub(crate) const SETTING: &str = "counters";

/// Count of `u64` fields.
const FIELDS: usize = 7;

/// What is handed out next, and what would cost a scan to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) next_inode: u64,
    pub(crate) next_cookie: u64,
    pub(crate) next_block: u64,
    pub(crate) next_segment: u64,
    pub(crate) inodes: u64,
    pub(crate) waiting_bytes: u64,
    pub(crate) commits: u64,
}

impl Numbers {
    /// Those of an empty store: inode 1 is the root, cookies 1 and 2 are `.` and `..`.
    pub(crate) const EMPTY: Self = Self {
        next_inode: InodeId::ROOT.0 + 1,
        next_cookie: 3,
        next_block: 1,
        next_segment: 1,
        inodes: 0,
        waiting_bytes: 0,
        commits: 0,
    };

    /// The fields, little-endian, in the order of the struct.
    pub(crate) fn encode(&self) -> [u8; FIELDS * 8] {
        let fields = [
            self.next_inode,
            self.next_cookie,
            self.next_block,
            self.next_segment,
            self.inodes,
            self.waiting_bytes,
            self.commits,
        ];
        let mut bytes = [0; FIELDS * 8];
        for (slot, field) in bytes.chunks_exact_mut(8).zip(fields) {
            slot.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// # Errors
    /// `Error::Damaged` unless `encode` can give these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::Damaged("the stored counters are invalid");
        let bytes: &[u8; FIELDS * 8] = bytes.try_into().map_err(|_| damaged())?;
        let mut fields = [0; FIELDS];
        for (field, slot) in fields.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *field = u64::from_le_bytes(*slot);
        }
        // A number with its top bit set cannot be a key of SQLite in this order.
        if fields.iter().any(|&field| field > i64::MAX.cast_unsigned()) {
            return Err(damaged());
        }
        let [
            next_inode,
            next_cookie,
            next_block,
            next_segment,
            inodes,
            waiting_bytes,
            commits,
        ] = fields;
        Ok(Self {
            next_inode,
            next_cookie,
            next_block,
            next_segment,
            inodes,
            waiting_bytes,
            commits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_anything_else_is_damage() {
        let numbers = Numbers {
            next_inode: 9,
            commits: i64::MAX.cast_unsigned(),
            ..Numbers::EMPTY
        };
        let bytes = numbers.encode();
        assert_eq!(Numbers::decode(&bytes).unwrap(), numbers);
        assert!(Numbers::decode(&bytes[1..]).is_err());
        assert!(Numbers::decode(&[]).is_err());
        for field in 0..FIELDS {
            let mut high = bytes;
            high[field * 8 + 7] |= 0x80;
            assert!(Numbers::decode(&high).is_err(), "field {field}");
        }
    }
}

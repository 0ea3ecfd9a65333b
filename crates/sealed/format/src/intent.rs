//! The bytes of an intent log: what small files' syncs wrote since the last commit of the database.
//!
//! Takes   the values below, or the bytes of a file
//! Gives   the other of the two; of a file that ends badly, every record up to where it does
//! Never   opens anything: a record's content is opaque bytes until the gate opened it
//! Spec    spec/8-intents.md
//!
//! Invariants
//!  (1) Header and records begin and end on a sector boundary.                            [8.1]
//!  (2) A record names its file and follows the one before by number, so that bytes left over from an earlier use
//!      of the same place never join a later chain.                                       [8.3]

use crate::block::Epoch;
use crate::limits::{
    BLOCK_BYTES_MAX, INTENT_LOG_BYTES, INTENT_PIECES_MAX, INTENT_SEALED_BYTES_MAX, SECTOR_BYTES,
};
use crate::segment::{Record, SegmentFormatError, all_zero, checksum};

/// Bytes of an encoded header, and of an encoded head of a record.
const HEAD_BYTES: usize = 64;
/// First byte of the first record.
pub const FIRST_INTENT_OFFSET: usize = SECTOR_BYTES;

const VERSION: u16 = 0;
const LOG_MAGIC: &[u8; 8] = b"SRintent";
const RECORD_MAGIC: &[u8; 8] = b"SRintrec";
/// First byte of what must be zero in each of the two, up to the checksum.
const LOG_ZEROS: usize = 26;
const RECORD_ZEROS: usize = 44;
const CHECKSUM_OFFSET: usize = 60;
/// Bytes of an intent before its pieces, and of a piece before its content.
const FIXED_BYTES: usize = 6 * 8 + 4;
const PIECE_HEAD_BYTES: usize = 8 + 4;

/// The random name of an intent log, which the database knows before its first record counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentLogId(pub [u8; 16]);

/// One record as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedIntent<'a> {
    /// Counts up by one from record to record.
    pub sequence: u64,
    /// The keys that sealed it.
    pub epoch: Epoch,
    /// The sealed intent.
    pub sealed: &'a [u8],
}

/// What was written to one file since `base`, as bytes: the file with these bytes laid over any state from `base` on is the
/// file at `version`.
#[derive(Clone, PartialEq, Eq)]
pub struct Intent {
    /// The file's inode number, and
    pub inode: u64,
    /// its birth id.
    pub birth_id: u64,
    /// The content version that this builds on.
    pub base: u64,
    /// The content version that this leads to.
    pub version: u64,
    /// Nanoseconds since 1970, as of `version`.
    pub mtime: i64,
    /// The same.
    pub ctime: i64,
    /// Where, and what.
    pub pieces: Vec<(u64, Vec<u8>)>,
}

// Content is not for logs.
impl std::fmt::Debug for Intent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes: usize = self.pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        formatter
            .debug_struct("Intent")
            .field("inode", &self.inode)
            .field("base", &self.base)
            .field("version", &self.version)
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}

impl Intent {
    /// Its bytes, which are then sealed.
    ///
    /// # Panics
    /// If there are more pieces or bytes than a record may hold: the caller bounds what it logs.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let content: usize = self.pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(
            self.pieces.len() <= INTENT_PIECES_MAX && content <= BLOCK_BYTES_MAX,
            "an intent is bounded before it is encoded"
        );
        let len = FIXED_BYTES + self.pieces.len() * PIECE_HEAD_BYTES + content;
        let mut bytes = Vec::with_capacity(len);
        for field in [self.inode, self.birth_id, self.base, self.version] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&self.mtime.to_le_bytes());
        bytes.extend_from_slice(&self.ctime.to_le_bytes());
        bytes.extend_from_slice(&count(self.pieces.len()).to_le_bytes());
        for (offset, content) in &self.pieces {
            bytes.extend_from_slice(&offset.to_le_bytes());
            bytes.extend_from_slice(&count(content.len()).to_le_bytes());
            bytes.extend_from_slice(content);
        }
        bytes
    }

    /// The intent that `bytes`, opened, are.
    ///
    /// Allocates less than twice `bytes.len()`.
    ///
    /// # Errors
    /// Says what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, SegmentFormatError> {
        let mut rest = bytes;
        let inode = u64::from_le_bytes(take(&mut rest)?);
        let birth_id = u64::from_le_bytes(take(&mut rest)?);
        let base = u64::from_le_bytes(take(&mut rest)?);
        let version = u64::from_le_bytes(take(&mut rest)?);
        let mtime = i64::from_le_bytes(take(&mut rest)?);
        let ctime = i64::from_le_bytes(take(&mut rest)?);
        let count = u32::from_le_bytes(take(&mut rest)?) as usize;
        if count > INTENT_PIECES_MAX || version <= base {
            return Err(SegmentFormatError::Length);
        }
        let mut pieces = Vec::with_capacity(count);
        for _ in 0..count {
            let offset = u64::from_le_bytes(take(&mut rest)?);
            let len = u32::from_le_bytes(take(&mut rest)?) as usize;
            if len == 0 || len > rest.len() || offset.checked_add(len as u64).is_none() {
                return Err(SegmentFormatError::Length);
            }
            let (content, behind) = rest.split_at(len);
            pieces.push((offset, content.to_vec()));
            rest = behind;
        }
        let content: usize = pieces
            .iter()
            .map(|(_, bytes): &(u64, Vec<u8>)| bytes.len())
            .sum();
        if !rest.is_empty() || content > BLOCK_BYTES_MAX {
            return Err(SegmentFormatError::Length);
        }
        Ok(Self {
            inode,
            birth_id,
            base,
            version,
            mtime,
            ctime,
            pieces,
        })
    }
}

/// The first sector of a log.
#[must_use]
pub fn encode_header(id: IntentLogId) -> Vec<u8> {
    let mut record = Record::new(LOG_MAGIC);
    record.put(8, &id.0);
    record.put(24, &VERSION.to_le_bytes());
    let mut sector = record.finish().to_vec();
    sector.resize(SECTOR_BYTES, 0);
    sector
}

/// The sectors of a record.
///
/// # Panics
/// If `sealed` is longer than `INTENT_SEALED_BYTES_MAX`.
#[must_use]
pub fn encode_record(id: IntentLogId, sequence: u64, epoch: Epoch, sealed: &[u8]) -> Vec<u8> {
    assert!(
        sealed.len() <= INTENT_SEALED_BYTES_MAX,
        "an intent is bounded before it is sealed"
    );
    let mut record = Record::new(RECORD_MAGIC);
    record.put(8, &id.0);
    record.put(24, &sequence.to_le_bytes());
    record.put(32, &epoch.0.to_le_bytes());
    record.put(36, &count(sealed.len()).to_le_bytes());
    record.put(40, &checksum(&[sealed]).to_le_bytes());
    let mut bytes = Vec::with_capacity(record_len(sealed.len()));
    bytes.extend_from_slice(&record.finish());
    bytes.extend_from_slice(sealed);
    bytes.resize(record_len(sealed.len()), 0);
    bytes
}

/// Bytes that a record of `sealed_len` sealed bytes takes in the file.
#[must_use]
pub const fn record_len(sealed_len: usize) -> usize {
    HEAD_BYTES.saturating_add(sealed_len).div_ceil(SECTOR_BYTES) * SECTOR_BYTES
}

/// The log's name, and its records up to the first that is not whole or does not follow.
///
/// # Errors
/// If `bytes` do not begin like a log, or are longer than one; that says what is wrong.
pub fn scan(bytes: &[u8]) -> Result<(IntentLogId, Vec<LoggedIntent<'_>>), SegmentFormatError> {
    if bytes.len() > INTENT_LOG_BYTES {
        return Err(SegmentFormatError::Length);
    }
    let sector = bytes
        .get(..SECTOR_BYTES)
        .ok_or(SegmentFormatError::TooShort)?;
    let record = Record::open(sector, LOG_MAGIC)?;
    let version = record.u16_at(24);
    if version != VERSION {
        return Err(SegmentFormatError::Version(version));
    }
    if !all_zero(&record.0[LOG_ZEROS..CHECKSUM_OFFSET]) || !all_zero(&sector[HEAD_BYTES..]) {
        return Err(SegmentFormatError::NotZero);
    }
    let id = IntentLogId(record.segment_id().0);
    let mut found: Vec<LoggedIntent<'_>> = Vec::new();
    let mut at = FIRST_INTENT_OFFSET;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let expected = found.last().map(|last| last.sequence.checked_add(1));
        match next(rest, id, expected) {
            Ok(intent) => {
                at += record_len(intent.sealed.len());
                found.push(intent);
            }
            // A torn record was never acknowledged; what lies behind the last one is of an earlier use.
            Err(_) => break,
        }
    }
    Ok((id, found))
}

fn next(
    rest: &[u8],
    id: IntentLogId,
    expected: Option<Option<u64>>,
) -> Result<LoggedIntent<'_>, SegmentFormatError> {
    let record = Record::open(rest, RECORD_MAGIC)?;
    let mut sequence = [0; 8];
    sequence.copy_from_slice(&record.0[24..32]);
    let sequence = u64::from_le_bytes(sequence);
    if record.segment_id().0 != id.0
        || sequence == 0
        || expected.is_some_and(|expected| expected != Some(sequence))
    {
        return Err(SegmentFormatError::OutOfPlace);
    }
    let len = record.u32_at(36) as usize;
    if len > INTENT_SEALED_BYTES_MAX {
        return Err(SegmentFormatError::Length);
    }
    let whole = rest
        .get(..record_len(len))
        .ok_or(SegmentFormatError::TooShort)?;
    let (sealed, padding) = whole[HEAD_BYTES..].split_at(len);
    if !all_zero(&record.0[RECORD_ZEROS..CHECKSUM_OFFSET]) || !all_zero(padding) {
        return Err(SegmentFormatError::NotZero);
    }
    if checksum(&[sealed]) != record.u32_at(40) {
        return Err(SegmentFormatError::Checksum);
    }
    Ok(LoggedIntent {
        sequence,
        epoch: Epoch(record.u32_at(32)),
        sealed,
    })
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], SegmentFormatError> {
    let (field, behind) = rest
        .split_first_chunk::<N>()
        .ok_or(SegmentFormatError::TooShort)?;
    *rest = behind;
    Ok(*field)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    const ID: IntentLogId = IntentLogId([7; 16]);

    fn intent() -> Intent {
        Intent {
            inode: 5,
            birth_id: 6,
            base: 7,
            version: 9,
            mtime: -1,
            ctime: 2,
            pieces: vec![(0, b"abc".to_vec()), (65_536, vec![1; 4096])],
        }
    }

    fn log(records: &[(u64, &[u8])]) -> Vec<u8> {
        let mut bytes = encode_header(ID);
        for (sequence, sealed) in records {
            bytes.extend(encode_record(ID, *sequence, Epoch(3), sealed));
        }
        bytes.resize(INTENT_LOG_BYTES, 0);
        bytes
    }

    fn sequences(bytes: &[u8]) -> Vec<u64> {
        let (_, found) = scan(bytes).unwrap();
        found.iter().map(|intent| intent.sequence).collect()
    }

    #[test]
    fn an_intent_comes_back_from_its_bytes_and_from_no_part_of_them() {
        let bytes = intent().encode();
        assert_eq!(Intent::decode(&bytes).unwrap(), intent());
        for len in 0..bytes.len() {
            assert!(Intent::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        assert!(Intent::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn records_come_back_up_to_the_first_that_does_not_follow() {
        let long = vec![9; 5000];
        let bytes = log(&[(4, b"one"), (5, &long), (6, b"three"), (3, b"older")]);
        let (id, found) = scan(&bytes).unwrap();
        assert_eq!(id, ID);
        assert_eq!(found[1].sealed, long);
        assert_eq!(found[1].epoch, Epoch(3));
        assert_eq!(sequences(&bytes), [4, 5, 6]);
    }

    #[test]
    fn a_record_of_another_log_ends_the_chain() {
        let mut bytes = log(&[(1, b"one")]);
        let other = encode_record(IntentLogId([8; 16]), 2, Epoch(3), b"two");
        bytes[2 * SECTOR_BYTES..3 * SECTOR_BYTES].copy_from_slice(&other);
        assert_eq!(sequences(&bytes), [1]);
    }

    #[test]
    fn each_flipped_bit_of_a_record_ends_the_chain_before_it() {
        let whole = log(&[(1, b"one"), (2, b"two")]);
        for bit in 0..(HEAD_BYTES + 8) * 8 {
            let mut bytes = whole.clone();
            bytes[2 * SECTOR_BYTES + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(sequences(&bytes), [1], "bit {bit}");
        }
    }

    #[test]
    fn each_flipped_bit_of_the_header_is_found() {
        let whole = log(&[]);
        for bit in 0..SECTOR_BYTES * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(scan(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn the_longest_intent_fits_its_bound_when_it_is_sealed() {
        let clear = FIXED_BYTES + INTENT_PIECES_MAX * PIECE_HEAD_BYTES + BLOCK_BYTES_MAX;
        // A record begins with a salt and its name. [2.24]
        let sealed = 32 + 32 + crate::limits::sealed_len(clear);
        assert!(sealed <= INTENT_SEALED_BYTES_MAX, "{sealed}");
    }

    #[test]
    fn a_file_that_is_too_short_or_too_long_is_refused() {
        assert_eq!(scan(&[]), Err(SegmentFormatError::TooShort));
        let mut bytes = log(&[]);
        bytes.push(0);
        assert_eq!(scan(&bytes), Err(SegmentFormatError::Length));
        assert_eq!(sequences(&encode_header(ID)), [0; 0]);
    }
}

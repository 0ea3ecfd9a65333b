//! The bytes of an intent log: the writes of small `fsync`s since the last commit of the database.
//!
//! Takes   the values below, or the bytes of a file
//! Gives   bytes for values, values for bytes; from a damaged file its intact records (version 0: only those before the damage)
//! Never   opens anything: the sealed content of a record is opaque bytes here
//! Spec    spec/8-intents.md
//!
//! Invariants
//!  (1) Header and records begin and end on a sector boundary. A record has at most 17 sectors. [8.1]
//!  (2) A record names its log, and its number follows the previous record's. So bytes left over from an earlier use of
//!      the same place are never taken as part of a later chain.                               [8.3]
//!  (3) From version 1 on, the clear head shows a record's length in sectors only, and a record has no run of zeros.  [8.13]

use crate::block::Epoch;
use crate::limits::{
    BLOCK_BYTES_MAX, INTENT_LOG_BYTES, INTENT_PIECES_MAX, INTENT_SEALED_BYTES_MAX, SECTOR_BYTES,
};
use crate::segment::{Record, SegmentFormatError, all_zero, checksum};

/// Bytes of an encoded header, and of an encoded head of a record.
pub const INTENT_HEAD_BYTES: usize = 64;
const HEAD_BYTES: usize = INTENT_HEAD_BYTES;
/// First byte of the first record.
pub const FIRST_INTENT_OFFSET: usize = SECTOR_BYTES;

const LOG_MAGIC: &[u8; 8] = b"SRintent";
const RECORD_MAGIC: &[u8; 8] = b"SRintrec";
/// Bytes of the numbers that may precede an intent: its own, and that of what was acknowledged.
const NUMBERS_BYTES: usize = 2 * 8;
/// What a disk writes in one piece at least: a torn record is torn between two of these.
const PIECE_OF_DISK_BYTES: usize = 512;
const CHECKSUM_OFFSET: usize = 60;
/// Bytes of an intent before its pieces, and of a piece before its content.
const FIXED_BYTES: usize = 6 * 8 + 4;
const PIECE_HEAD_BYTES: usize = 8 + 4;

/// The random name of an intent log, which the database knows before its first record counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentLogId(pub [u8; 16]);

/// How the bytes of a log are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum IntentVersion {
    /// Lengths to the byte, zeros where nothing was written; read, and written no more.
    Told = 0,
    /// Lengths in sectors, noise where nothing was written.
    Sectors = 1,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLog<'a> {
    /// How it is laid out.
    pub version: IntentVersion,
    /// Its name.
    pub id: IntentLogId,
    /// Version 0: the records up to the first that is not whole or does not follow. Later ones: every whole record, in the
    /// order of their places, leftovers of earlier uses among them.
    pub records: Vec<LoggedIntent<'a>>,
    /// It is as long as it says, and nowhere zeros where only noise and sealed bytes were written. Always, for version 0.
    pub is_intact: bool,
}

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

/// What was written to one file since `base`, as bytes: these bytes written over any state from `base` on give the
/// file at `version`.
#[derive(Clone, PartialEq, Eq)]
pub struct Intent {
    /// The number of its record; 0 in version 0, which does not seal it.
    pub number: u64,
    /// The number up to which all records were durable when it was made; 0 in version 0.
    pub acknowledged: u64,
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
    /// Its bytes, which are then padded with zeros and sealed.
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
        let len = NUMBERS_BYTES + FIXED_BYTES + self.pieces.len() * PIECE_HEAD_BYTES + content;
        // Padding makes it longer by a sector at most.
        let mut bytes = Vec::with_capacity(len + SECTOR_BYTES);
        let fields = [
            self.number,
            self.acknowledged,
            self.inode,
            self.birth_id,
            self.base,
            self.version,
        ];
        for field in fields {
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
    pub fn decode(version: IntentVersion, bytes: &[u8]) -> Result<Self, SegmentFormatError> {
        let mut rest = bytes;
        let (number, acknowledged) = match version {
            IntentVersion::Told => (0, 0),
            IntentVersion::Sectors => (
                u64::from_le_bytes(take(&mut rest)?),
                u64::from_le_bytes(take(&mut rest)?),
            ),
        };
        let inode = u64::from_le_bytes(take(&mut rest)?);
        let birth_id = u64::from_le_bytes(take(&mut rest)?);
        let base = u64::from_le_bytes(take(&mut rest)?);
        let leads_to = u64::from_le_bytes(take(&mut rest)?);
        let mtime = i64::from_le_bytes(take(&mut rest)?);
        let ctime = i64::from_le_bytes(take(&mut rest)?);
        let count = u32::from_le_bytes(take(&mut rest)?) as usize;
        if count > INTENT_PIECES_MAX || leads_to <= base {
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
        let ends = match version {
            IntentVersion::Told => rest.is_empty(),
            IntentVersion::Sectors => all_zero(rest),
        };
        if !ends || content > BLOCK_BYTES_MAX {
            return Err(SegmentFormatError::Length);
        }
        Ok(Self {
            number,
            acknowledged,
            inode,
            birth_id,
            base,
            version: leads_to,
            mtime,
            ctime,
            pieces,
        })
    }
}

/// The first sector of a log of `len` bytes.
#[must_use]
pub fn encode_header(id: IntentLogId, len: usize) -> Vec<u8> {
    let mut record = Record::new(LOG_MAGIC);
    record.put(8, &id.0);
    record.put(24, &(IntentVersion::Sectors as u16).to_le_bytes());
    record.put(28, &count(len / SECTOR_BYTES).to_le_bytes());
    let mut sector = record.finish().to_vec();
    sector.resize(SECTOR_BYTES, 0);
    sector
}

/// The sectors of a record.
///
/// # Panics
/// If `sealed` and the head do not fill whole sectors, or it is longer than `INTENT_SEALED_BYTES_MAX`.
#[must_use]
pub fn encode_record(id: IntentLogId, sequence: u64, epoch: Epoch, sealed: &[u8]) -> Vec<u8> {
    let len = HEAD_BYTES + sealed.len();
    assert!(
        sealed.len() <= INTENT_SEALED_BYTES_MAX && len.is_multiple_of(SECTOR_BYTES),
        "an intent is bounded and padded before it is sealed"
    );
    let mut record = Record::new(RECORD_MAGIC);
    record.put(8, &id.0);
    record.put(24, &sequence.to_le_bytes());
    record.put(32, &epoch.0.to_le_bytes());
    record.put(36, &count(len / SECTOR_BYTES).to_le_bytes()); // (3)
    record.put(40, &checksum(&[sealed]).to_le_bytes());
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&record.finish());
    bytes.extend_from_slice(sealed);
    bytes
}

/// Bytes that a record of `sealed_len` sealed bytes takes in the file.
#[must_use]
pub const fn record_len(sealed_len: usize) -> usize {
    HEAD_BYTES.saturating_add(sealed_len).div_ceil(SECTOR_BYTES) * SECTOR_BYTES
}

/// What is in the bytes of a log.
///
/// O(n) time; allocates one entry per record found.
///
/// # Errors
/// If `bytes` do not begin like a log, or are longer than one; that says what is wrong.
pub fn scan(bytes: &[u8]) -> Result<FoundLog<'_>, SegmentFormatError> {
    if bytes.len() > INTENT_LOG_BYTES {
        return Err(SegmentFormatError::Length);
    }
    let sector = bytes
        .get(..SECTOR_BYTES)
        .ok_or(SegmentFormatError::TooShort)?;
    let record = Record::open(sector, LOG_MAGIC)?;
    let (version, zeros) = match record.u16_at(24) {
        0 => (IntentVersion::Told, 26),
        1 => (IntentVersion::Sectors, 32),
        other => return Err(SegmentFormatError::Version(other)),
    };
    let gap = &record.0[26..zeros.min(28)];
    if !all_zero(&record.0[zeros..CHECKSUM_OFFSET])
        || !all_zero(gap)
        || !all_zero(&sector[HEAD_BYTES..])
    {
        return Err(SegmentFormatError::NotZero);
    }
    let id = IntentLogId(record.segment_id().0);
    let is_intact = match version {
        IntentVersion::Told => true,
        IntentVersion::Sectors => {
            let said = (record.u32_at(28) as usize).saturating_mul(SECTOR_BYTES);
            let mut pieces = bytes[FIRST_INTENT_OFFSET..].chunks(PIECE_OF_DISK_BYTES);
            bytes.len() == said && !pieces.any(all_zero)
        }
    };
    let records = match version {
        IntentVersion::Told => chain(bytes, id),
        IntentVersion::Sectors => every(bytes, id),
    };
    Ok(FoundLog {
        version,
        id,
        records,
        is_intact,
    })
}

/// The records up to the first that is not whole or does not follow the one before.
fn chain(bytes: &[u8], id: IntentLogId) -> Vec<LoggedIntent<'_>> {
    let mut found: Vec<LoggedIntent<'_>> = Vec::new();
    let mut at = FIRST_INTENT_OFFSET;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let follows = |sequence| match found.last() {
            Some(last) => last.sequence.checked_add(1) == Some(sequence),
            None => true,
        };
        match next(rest, id, IntentVersion::Told) {
            Ok(intent) if follows(intent.sequence) => {
                at += record_len(intent.sealed.len());
                found.push(intent);
            }
            // A torn record was never acknowledged; what lies behind the last one is of an earlier use.
            _ => break,
        }
    }
    found
}

/// Every record that is whole.
fn every(bytes: &[u8], id: IntentLogId) -> Vec<LoggedIntent<'_>> {
    let mut found = Vec::new();
    let mut at = FIRST_INTENT_OFFSET;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match next(rest, id, IntentVersion::Sectors) {
            Ok(intent) => {
                at += record_len(intent.sealed.len());
                found.push(intent);
            }
            Err(_) => at += SECTOR_BYTES,
        }
    }
    found
}

fn next(
    rest: &[u8],
    id: IntentLogId,
    version: IntentVersion,
) -> Result<LoggedIntent<'_>, SegmentFormatError> {
    let record = Record::open(rest, RECORD_MAGIC)?;
    let mut sequence = [0; 8];
    sequence.copy_from_slice(&record.0[24..32]);
    let sequence = u64::from_le_bytes(sequence);
    if record.segment_id().0 != id.0 || sequence == 0 {
        return Err(SegmentFormatError::OutOfPlace);
    }
    let said = record.u32_at(36) as usize;
    let len = match version {
        IntentVersion::Told => Some(said),
        IntentVersion::Sectors => said
            .checked_mul(SECTOR_BYTES)
            .and_then(|len| len.checked_sub(HEAD_BYTES)),
    };
    let len = len
        .filter(|len| *len <= INTENT_SEALED_BYTES_MAX)
        .ok_or(SegmentFormatError::Length)?;
    let whole = rest
        .get(..record_len(len))
        .ok_or(SegmentFormatError::TooShort)?;
    let (sealed, padding) = whole[HEAD_BYTES..].split_at(len);
    if !all_zero(&record.0[44..CHECKSUM_OFFSET]) || !all_zero(padding) {
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
            number: 3,
            acknowledged: 2,
            inode: 5,
            birth_id: 6,
            base: 7,
            version: 9,
            mtime: -1,
            ctime: 2,
            pieces: vec![(0, b"abc".to_vec()), (65_536, vec![1; 4096])],
        }
    }

    const SECTORS: IntentVersion = IntentVersion::Sectors;

    /// Noise, and records of these numbers and sectors.
    fn log(records: &[(u64, usize)]) -> Vec<u8> {
        let mut bytes = encode_header(ID, INTENT_LOG_BYTES);
        for (sequence, sectors) in records {
            let sealed = vec![sequence.to_le_bytes()[0]; sectors * SECTOR_BYTES - HEAD_BYTES];
            bytes.extend(encode_record(ID, *sequence, Epoch(3), &sealed));
        }
        bytes.resize(INTENT_LOG_BYTES, 0x5a);
        bytes
    }

    fn sequences(bytes: &[u8]) -> Vec<u64> {
        let found = scan(bytes).unwrap().records;
        found.iter().map(|intent| intent.sequence).collect()
    }

    /// A log of version 0, as earlier versions wrote it.
    fn told(records: &[(u64, &[u8])]) -> Vec<u8> {
        let mut head = Record::new(LOG_MAGIC);
        head.put(8, &ID.0);
        let mut bytes = head.finish().to_vec();
        bytes.resize(SECTOR_BYTES, 0);
        for (sequence, sealed) in records {
            let mut head = Record::new(RECORD_MAGIC);
            head.put(8, &ID.0);
            head.put(24, &sequence.to_le_bytes());
            head.put(36, &count(sealed.len()).to_le_bytes());
            head.put(40, &checksum(&[sealed]).to_le_bytes());
            bytes.extend_from_slice(&head.finish());
            bytes.extend_from_slice(sealed);
            bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES), 0);
        }
        bytes.resize(INTENT_LOG_BYTES, 0);
        bytes
    }

    #[test]
    fn an_intent_comes_back_from_its_bytes_and_from_no_part_of_them() {
        let bytes = intent().encode();
        assert_eq!(Intent::decode(SECTORS, &bytes).unwrap(), intent());
        for len in 0..bytes.len() {
            assert!(
                Intent::decode(SECTORS, &bytes[..len]).is_err(),
                "{len} bytes"
            );
        }
        let padded = [&bytes[..], &[0; 99]].concat();
        assert_eq!(Intent::decode(SECTORS, &padded).unwrap(), intent());
        assert!(Intent::decode(SECTORS, &[&padded[..], &[1]].concat()).is_err());
        let old = IntentVersion::Told;
        let found = Intent::decode(old, &bytes[NUMBERS_BYTES..]).unwrap();
        assert_eq!((found.number, found.inode), (0, 5));
        assert!(Intent::decode(old, &padded[NUMBERS_BYTES..]).is_err());
    }

    #[test]
    fn every_whole_record_comes_back_wherever_it_is() {
        let bytes = log(&[(4, 1), (5, 3), (6, 1), (3, 2)]);
        let found = scan(&bytes).unwrap();
        assert_eq!(
            (found.id, found.version, found.is_intact),
            (ID, SECTORS, true)
        );
        assert_eq!(found.records[1].sealed.len(), 3 * SECTOR_BYTES - HEAD_BYTES);
        assert_eq!(found.records[1].epoch, Epoch(3));
        assert_eq!(sequences(&bytes), [4, 5, 6, 3]);
    }

    #[test]
    fn a_log_of_version_0_ends_at_the_first_record_that_does_not_follow() {
        let long = vec![9; 5000];
        let bytes = told(&[(4, b"one"), (5, &long), (6, b"three"), (3, b"older")]);
        let found = scan(&bytes).unwrap();
        assert_eq!(
            (found.version, found.is_intact),
            (IntentVersion::Told, true)
        );
        assert_eq!(found.records[1].sealed, long);
        assert_eq!(sequences(&bytes), [4, 5, 6]);
    }

    #[test]
    fn a_log_that_was_cut_or_has_zeros_is_not_intact() {
        let whole = log(&[(1, 1), (2, 1)]);
        let cut = &whole[..3 * SECTOR_BYTES];
        assert!(!scan(cut).unwrap().is_intact);
        assert_eq!(sequences(cut), [1, 2]);
        for start in [2 * SECTOR_BYTES, 9 * SECTOR_BYTES + 512] {
            let mut zeros = whole.clone();
            zeros[start..start + PIECE_OF_DISK_BYTES].fill(0);
            assert!(!scan(&zeros).unwrap().is_intact, "{start}");
        }
    }

    #[test]
    fn a_record_of_another_log_is_none() {
        let mut bytes = log(&[(1, 1)]);
        let sealed = vec![2; SECTOR_BYTES - HEAD_BYTES];
        let other = encode_record(IntentLogId([8; 16]), 2, Epoch(3), &sealed);
        bytes[2 * SECTOR_BYTES..3 * SECTOR_BYTES].copy_from_slice(&other);
        assert_eq!(sequences(&bytes), [1]);
    }

    #[test]
    fn a_record_with_a_flipped_bit_is_none() {
        let whole = log(&[(1, 1), (2, 1)]);
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
        let clear =
            NUMBERS_BYTES + FIXED_BYTES + INTENT_PIECES_MAX * PIECE_HEAD_BYTES + BLOCK_BYTES_MAX;
        // A record begins with a salt and its name. [2.24]
        let sealed = 32 + 32 + crate::limits::sealed_len(clear);
        assert!(
            record_len(sealed) <= record_len(INTENT_SEALED_BYTES_MAX),
            "{sealed}"
        );
        assert_eq!((HEAD_BYTES + INTENT_SEALED_BYTES_MAX) % SECTOR_BYTES, 0);
    }

    #[test]
    fn a_file_that_is_too_short_or_too_long_is_refused() {
        assert_eq!(scan(&[]), Err(SegmentFormatError::TooShort));
        let mut bytes = log(&[]);
        bytes.push(0);
        assert_eq!(scan(&bytes), Err(SegmentFormatError::Length));
        assert_eq!(sequences(&encode_header(ID, INTENT_LOG_BYTES)), [0; 0]);
    }
}

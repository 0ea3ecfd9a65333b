//! The bytes of a segment file: header, batches, table of contents, footer.
//!
//! Takes   the values below, or the bytes of a file
//! Gives   bytes for values, values for bytes; for a file with a broken end, everything before the break
//! Never   opens anything: blocks, indexes and contents are opaque bytes here
//! Spec    spec/3-segment.md
//!
//! Invariants
//!  (1) Header, batches and footer begin and end on a sector boundary.                    [3.1]
//!  (2) A batch names its file and the batch before it. So bytes left over from an earlier attempt are never taken as
//!      part of a later chain.                                                            [3.3]
//!  (3) Every byte of a whole file is covered by a checksum, or must be zero; readers refuse anything else.    [3.2]
//!  (4) From version 1 on, no clear field shows a length more exactly than in sectors.         [3.13]

mod scan;

use crate::block::{Epoch, SegmentId, SuiteId};
use crate::limits::{SECTOR_BYTES, SEGMENT_BYTES_MAX, sealed_len};

pub use scan::{Batch, Scan, ScanTail, scan};

/// Bytes of an encoded segment header. It is padded with zeros to one sector in the file.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// Bytes of an encoded batch header.
pub const BATCH_HEADER_BYTES: usize = 64;
/// Bytes of an encoded footer: the last ones of a finished file.
pub const FOOTER_BYTES: usize = 64;
/// First byte of the first batch.
pub const FIRST_BATCH_OFFSET: u64 = SECTOR_BYTES as u64;

/// Bytes of the sealed lengths that a batch ends with: a record of 12 bytes with its salt and name. [2.24]
pub const SEALED_LENGTHS_BYTES: usize = 32 + 32 + sealed_len(LENGTHS_BYTES);
/// Bytes of a batch's lengths before they are sealed.
pub const LENGTHS_BYTES: usize = 12;

const SEGMENT_MAGIC: &[u8; 8] = b"SRsegmnt";
/// The last byte is the version of the file that the batch is in.
const BATCH_MAGIC: [&[u8; 8]; 2] = [b"SRbatch\0", b"SRbatch\x01"];
const FOOTER_MAGIC: &[u8; 8] = b"SRfooter";
/// Each of the three records ends with the CRC-32 of what is before it.
const CHECKSUM_OFFSET: usize = 60;
const SECTOR: u32 = SECTOR_BYTES as u32;

/// Why bytes are no segment, batch or footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentFormatError {
    /// Fewer bytes than the record has.
    #[error("it ends too early")]
    TooShort,
    /// It begins with something else.
    #[error("it does not begin with the eight bytes that mark its kind")]
    Magic,
    /// Its checksum does not match: torn or altered.
    #[error("its checksum does not match")]
    Checksum,
    /// Written by a newer version.
    #[error("it has version {0}, which this build does not know")]
    Version(u16),
    /// Sealed by algorithms that this build does not know.
    #[error("it has suite {0}, which this build does not know")]
    Suite(u16),
    /// A byte that must be zero is not.
    #[error("a byte that must be zero is not zero")]
    NotZero,
    /// It belongs to another file, or to another place in this one.
    #[error("it belongs to another file or offset")]
    OutOfPlace,
    /// A length that reaches beyond the file or the limits.
    #[error("its length goes beyond the file or a limit")]
    Length,
}

/// How the bytes of a file are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum SegmentVersion {
    /// Clear lengths to the byte; read, and written no more.
    Told = 0,
    /// Clear lengths in sectors.
    Sectors = 1,
}

/// The lengths of what a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLengths {
    /// How many blocks.
    pub count: u32,
    /// Bytes of the blocks, back to back.
    pub blocks_len: u32,
    /// Bytes of the sealed index behind them.
    pub index_len: u32,
}

/// What a batch says of its lengths without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSize {
    /// Everything: version 0.
    Told(BatchLengths),
    /// How many sectors all of it takes.
    Sectors(u32),
}

/// What follows the header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPayload<'a> {
    bytes: &'a [u8],
    told: Option<BatchLengths>,
}

/// Where the lengths of a batch are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaidLengths<'a> {
    /// In its header.
    Told(BatchLengths),
    /// In this record, of kind `BatchLengths`.
    Sealed(&'a [u8]),
}

/// The first record of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// How the file is laid out.
    pub version: SegmentVersion,
    /// The algorithms that sealed its blocks.
    pub suite: SuiteId,
    /// The keys that sealed its blocks.
    pub epoch: Epoch,
    /// Its random name, the same as that of the file.
    pub id: SegmentId,
}

/// The first record of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The file it belongs to.
    pub segment: SegmentId,
    /// Counts up from 0 within the file.
    pub number: u32,
    /// What it says of its lengths.
    pub size: BatchSize,
    /// CRC-32 of blocks and index; from version 1 on of everything behind the header.
    pub payload_checksum: u32,
    /// `chain` of the record before it: of the segment header or of the batch before.
    pub previous: u32,
}

/// The last record of a finished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Says again what the header says, so that one ranged read of the end suffices.
    pub header: SegmentHeader,
    /// First byte of the sealed table of contents; also the end of the last batch.
    pub contents_offset: u32,
    /// Its bytes; from version 1 on they and the footer fill whole sectors.
    pub contents_len: u32,
    /// Its CRC-32.
    pub contents_checksum: u32,
    /// How many batches are before it.
    pub batches: u32,
    /// `chain` of the last batch, or of the segment header if there is none.
    pub previous: u32,
}

impl SegmentHeader {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut record = Record::new(SEGMENT_MAGIC);
        record.put(8, &self.id.0);
        record.put(24, &(self.version as u16).to_le_bytes());
        record.put(26, &(self.suite as u16).to_le_bytes());
        record.put(28, &self.epoch.0.to_le_bytes());
        record.finish()
    }

    /// The header that `bytes`, the first sector of a file, hold.
    ///
    /// # Errors
    /// Says what is wrong with them; a version or suite of a newer build is told apart from damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, SegmentFormatError> {
        let sector = bytes
            .get(..SECTOR_BYTES)
            .ok_or(SegmentFormatError::TooShort)?;
        let record = Record::open(sector, SEGMENT_MAGIC)?;
        let header = record.segment_header()?;
        if !all_zero(&record.0[32..CHECKSUM_OFFSET]) || !all_zero(&sector[SEGMENT_HEADER_BYTES..]) {
            return Err(SegmentFormatError::NotZero);
        }
        Ok(header)
    }

    /// What the first batch says as `previous`.
    #[must_use]
    pub fn chain(&self) -> u32 {
        chain(&self.encode())
    }
}

impl BatchHeader {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BATCH_HEADER_BYTES] {
        let mut record = Record::new(BATCH_MAGIC[self.version() as usize]);
        record.put(8, &self.segment.0);
        record.put(24, &self.number.to_le_bytes());
        let fields = match self.size {
            BatchSize::Told(lengths) => {
                record.put(28, &lengths.encode());
                40
            }
            BatchSize::Sectors(sectors) => {
                record.put(28, &sectors.to_le_bytes());
                32
            }
        };
        record.put(fields, &self.payload_checksum.to_le_bytes());
        record.put(fields + 4, &self.previous.to_le_bytes());
        record.finish()
    }

    /// The header that `bytes` begin with. Its lengths are not compared with anything yet.
    ///
    /// # Errors
    /// Says what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, SegmentFormatError> {
        let begins_like = |magic: &[u8; 8]| bytes.starts_with(magic);
        let is_of_sectors = begins_like(BATCH_MAGIC[1]);
        let record = Record::open(bytes, BATCH_MAGIC[usize::from(is_of_sectors)])?;
        let fields = if is_of_sectors { 32 } else { 40 };
        if !all_zero(&record.0[fields + 8..CHECKSUM_OFFSET]) {
            return Err(SegmentFormatError::NotZero);
        }
        let size = match is_of_sectors {
            true => BatchSize::Sectors(record.u32_at(28)),
            false => BatchSize::Told(BatchLengths {
                count: record.u32_at(28),
                blocks_len: record.u32_at(32),
                index_len: record.u32_at(36),
            }),
        };
        if size == BatchSize::Sectors(0) {
            return Err(SegmentFormatError::Length);
        }
        Ok(Self {
            segment: record.segment_id(),
            number: record.u32_at(24),
            size,
            payload_checksum: record.u32_at(fields),
            previous: record.u32_at(fields + 4),
        })
    }

    /// How the file that it is in is laid out.
    #[must_use]
    pub const fn version(&self) -> SegmentVersion {
        match self.size {
            BatchSize::Told(_) => SegmentVersion::Told,
            BatchSize::Sectors(_) => SegmentVersion::Sectors,
        }
    }

    /// What the record after this one says as `previous`.
    #[must_use]
    pub fn chain(&self) -> u32 {
        chain(&self.encode())
    }

    /// Bytes of the whole batch, padding included.
    #[must_use]
    pub fn batch_len(&self) -> u64 {
        match self.size {
            BatchSize::Told(lengths) => {
                batch_len(lengths.blocks_len.into(), lengths.index_len.into())
            }
            BatchSize::Sectors(sectors) => u64::from(sectors) * SECTOR_BYTES as u64,
        }
    }

    /// What follows the header in `batch`, its bytes from the first one on, which is at `offset` in the file; and whether that is as it
    /// was written.
    ///
    /// # Errors
    /// `TooShort` if there are fewer bytes than it says; `Length` if the longest file has no sector for an ending behind it.
    pub(crate) fn payload<'a>(
        &self,
        offset: u64,
        batch: &'a [u8],
    ) -> Result<(BatchPayload<'a>, Result<(), SegmentFormatError>), SegmentFormatError> {
        // Else nobody could ever finish the file.                                            [3.7]
        if offset + self.batch_len() + SECTOR_BYTES as u64 > SEGMENT_BYTES_MAX {
            return Err(SegmentFormatError::Length);
        }
        let len = usize::try_from(self.batch_len()).map_err(|_| SegmentFormatError::Length)?;
        let bytes = batch
            .get(BATCH_HEADER_BYTES..len)
            .ok_or(SegmentFormatError::TooShort)?;
        let (told, end) = match self.size {
            // Inside `bytes`, so that nothing overflows.
            BatchSize::Told(lengths) => (Some(lengths), lengths.end()),
            BatchSize::Sectors(_) => (None, bytes.len()),
        };
        let (covered, padding) = bytes.split_at(end);
        let state = if checksum(&[covered]) != self.payload_checksum {
            Err(SegmentFormatError::Checksum)
        } else if !all_zero(padding) {
            Err(SegmentFormatError::NotZero)
        } else {
            Ok(())
        };
        Ok((BatchPayload { bytes, told }, state))
    }
}

impl BatchLengths {
    /// Its bytes, which are then sealed.
    #[must_use]
    pub fn encode(&self) -> [u8; LENGTHS_BYTES] {
        let mut bytes = [0; LENGTHS_BYTES];
        let fields = [self.count, self.blocks_len, self.index_len];
        for (place, field) in bytes.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// The lengths that `bytes`, opened, are; `None` if they are none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTHS_BYTES] = bytes.try_into().ok()?;
        let field = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Some(Self {
            count: field(0),
            blocks_len: field(4),
            index_len: field(8),
        })
    }

    fn end(&self) -> usize {
        (self.blocks_len as usize).saturating_add(self.index_len as usize)
    }
}

impl<'a> BatchPayload<'a> {
    /// Where its lengths are found; `None` if there is no room for them.
    #[must_use]
    pub fn lengths(&self) -> Option<SaidLengths<'a>> {
        match self.told {
            Some(lengths) => Some(SaidLengths::Told(lengths)),
            None => {
                let start = self.bytes.len().checked_sub(SEALED_LENGTHS_BYTES)?;
                Some(SaidLengths::Sealed(&self.bytes[start..]))
            }
        }
    }

    /// The sealed blocks, back to back; `None` if they would reach beyond the batch.
    #[must_use]
    pub fn blocks(&self, lengths: &BatchLengths) -> Option<&'a [u8]> {
        self.bytes.get(..lengths.blocks_len as usize)
    }

    /// The sealed index; `None` if it would reach beyond the batch.
    #[must_use]
    pub fn sealed_index(&self, lengths: &BatchLengths) -> Option<&'a [u8]> {
        self.bytes.get(lengths.blocks_len as usize..lengths.end())
    }
}

impl Footer {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut record = Record::new(FOOTER_MAGIC);
        record.put(8, &self.header.id.0);
        record.put(24, &(self.header.version as u16).to_le_bytes());
        record.put(26, &(self.header.suite as u16).to_le_bytes());
        record.put(28, &self.header.epoch.0.to_le_bytes());
        record.put(32, &self.contents_offset.to_le_bytes());
        let len = match self.header.version {
            SegmentVersion::Told => self.contents_len,
            // (4)
            SegmentVersion::Sectors => (self.contents_len + FOOTER_BYTES as u32) / SECTOR,
        };
        record.put(36, &len.to_le_bytes());
        record.put(40, &self.contents_checksum.to_le_bytes());
        record.put(44, &self.batches.to_le_bytes());
        record.put(48, &self.previous.to_le_bytes());
        record.finish()
    }

    /// The footer that `bytes`, the last ones of a file of `file_len` bytes, end with.
    ///
    /// # Errors
    /// Says what is wrong with them; `Length` when the contents it describes do not fill the file to its end.
    pub fn decode(bytes: &[u8], file_len: u64) -> Result<Self, SegmentFormatError> {
        let start = bytes
            .len()
            .checked_sub(FOOTER_BYTES)
            .ok_or(SegmentFormatError::TooShort)?;
        let record = Record::open(&bytes[start..], FOOTER_MAGIC)?;
        let header = record.segment_header()?;
        if !all_zero(&record.0[52..CHECKSUM_OFFSET]) {
            return Err(SegmentFormatError::NotZero);
        }
        let said = record.u32_at(36);
        let contents_len = match header.version {
            SegmentVersion::Told => Some(said),
            SegmentVersion::Sectors => said
                .checked_mul(SECTOR)
                .and_then(|len| len.checked_sub(FOOTER_BYTES as u32)),
        };
        let footer = Self {
            header,
            contents_offset: record.u32_at(32),
            contents_len: contents_len.ok_or(SegmentFormatError::Length)?,
            contents_checksum: record.u32_at(40),
            batches: record.u32_at(44),
            previous: record.u32_at(48),
        };
        let offset = u64::from(footer.contents_offset);
        let fits = offset >= FIRST_BATCH_OFFSET
            && offset.is_multiple_of(SECTOR_BYTES as u64)
            && offset + ending_len(u64::from(footer.contents_len)) == file_len
            && file_len <= SEGMENT_BYTES_MAX;
        if fits {
            Ok(footer)
        } else {
            Err(SegmentFormatError::Length)
        }
    }
}

/// Bytes that a batch of `blocks_len` and `index_len` bytes takes in a file.
#[must_use]
pub const fn batch_len(blocks_len: u64, index_len: u64) -> u64 {
    to_sector(BATCH_HEADER_BYTES as u64 + blocks_len + index_len)
}

/// Bytes that a table of contents of `contents_len` bytes and the footer take in a file.
#[must_use]
pub const fn ending_len(contents_len: u64) -> u64 {
    to_sector(contents_len + FOOTER_BYTES as u64)
}

/// The checksum of payloads and contents: CRC-32 (IEEE 802.3). `parts` count as one run of bytes.
///
/// It tells torn from whole without a key. Who alters bytes on purpose is caught by the seal, not by this.
#[must_use]
pub fn checksum(parts: &[&[u8]]) -> u32 {
    let mut checksum = Checksum::default();
    parts.iter().for_each(|part| checksum.update(part));
    checksum.value()
}

/// The same checksum of bytes that come one after the other.
#[derive(Clone, Debug, Default)]
pub struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// Counts `bytes` behind those before.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Of all bytes so far.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

pub(crate) const fn to_sector(len: u64) -> u64 {
    len.div_ceil(SECTOR_BYTES as u64) * SECTOR_BYTES as u64
}

pub(crate) fn all_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

fn chain(record: &[u8; 64]) -> u32 {
    u32::from_le_bytes([record[60], record[61], record[62], record[63]])
}

fn suite(number: u16) -> Result<SuiteId, SegmentFormatError> {
    SuiteId::from_number(number).ok_or(SegmentFormatError::Suite(number))
}

/// 64 bytes: eight of magic, fields, zeros, and the CRC-32 of it all.
pub(crate) struct Record(pub(crate) [u8; 64]);

impl Record {
    pub(crate) fn new(magic: &[u8; 8]) -> Self {
        let mut record = Self([0; 64]);
        record.put(0, magic);
        record
    }

    pub(crate) fn put(&mut self, at: usize, field: &[u8]) {
        self.0[at..at + field.len()].copy_from_slice(field);
    }

    pub(crate) fn finish(mut self) -> [u8; 64] {
        let sum = checksum(&[&self.0[..CHECKSUM_OFFSET]]);
        self.put(CHECKSUM_OFFSET, &sum.to_le_bytes());
        self.0
    }

    pub(crate) fn open(bytes: &[u8], magic: &[u8; 8]) -> Result<Self, SegmentFormatError> {
        let record = Self(
            *bytes
                .first_chunk::<64>()
                .ok_or(SegmentFormatError::TooShort)?,
        );
        if record.0[..8] != *magic {
            return Err(SegmentFormatError::Magic);
        }
        if checksum(&[&record.0[..CHECKSUM_OFFSET]]) != chain(&record.0) {
            return Err(SegmentFormatError::Checksum);
        }
        Ok(record)
    }

    pub(crate) fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    pub(crate) fn u16_at(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    pub(crate) fn segment_id(&self) -> SegmentId {
        let mut id = [0; 16];
        id.copy_from_slice(&self.0[8..24]);
        SegmentId(id)
    }

    /// What header and footer share.
    fn segment_header(&self) -> Result<SegmentHeader, SegmentFormatError> {
        let version = match self.u16_at(24) {
            0 => SegmentVersion::Told,
            1 => SegmentVersion::Sectors,
            other => return Err(SegmentFormatError::Version(other)),
        };
        Ok(SegmentHeader {
            version,
            suite: suite(self.u16_at(26))?,
            epoch: Epoch(self.u32_at(28)),
            id: self.segment_id(),
        })
    }
}

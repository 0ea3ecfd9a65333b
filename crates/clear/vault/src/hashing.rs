//! Hashes of contents in the public API: the hash of a file, the files with a given hash, and files that are equal.
//!
//! Takes   paths, inode numbers, the first digits of a hash
//! Gives   hashes, and files with all their paths; the same whether this process owns the vault or another does
//! Never   reads content again if its hash is stored for its present version
//! Spec    spec/4-metadata.md, 4.11

use std::time::{Duration, Instant};

use strongroom_crypto::{ContentHasher, HashAlgorithm};
use strongroom_filesystem::{self as filesystem, InodeId, is_in_snapshot};
use strongroom_format::hex;

use crate::limits::{HASH_FAILURES_MAX, HASH_FILES_MAX, HASH_STEP_BYTES, TRANSFER_BYTES_MAX};
use crate::owner::port::unexpected;
use crate::path::{Links, VaultPath};
use crate::request::hash::{
    ContentHash, EqualContents, HashRequest, HashedContent, HashedFields, NamedContent,
};
use crate::request::{Request, Response};
use crate::{Error, FileOptions, GoOn, Result, Vault};

/// What one request should take.
const STEP: Duration = Duration::from_millis(500);

/// Unstored hashes that fit a prefix and are remembered.
const FOUND_MAX: usize = 65_536;

/// The first digits of hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashPrefix {
    first: ContentHash,
    last: ContentHash,
}

/// Why something is no prefix of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashPrefixError {
    /// Too many contents would fit.
    #[error("{0} digits of a hash match too many files; give at least {min}", min = HashPrefix::DIGITS_MIN)]
    TooShort(usize),
    /// Longer than a hash.
    #[error("a hash has 64 digits, not {0}")]
    TooLong(usize),
    /// Something else than digits.
    #[error("a hash has only the digits 0 to 9 and a to f")]
    NoDigits,
}

impl HashPrefix {
    /// The least digits that are taken.
    pub const DIGITS_MIN: usize = 4;

    /// Takes hexadecimal digits, in either case.
    ///
    /// # Errors
    /// `HashPrefixError` says what is wrong with them.
    pub fn parse(text: &str) -> std::result::Result<Self, HashPrefixError> {
        if !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(HashPrefixError::NoDigits);
        }
        if text.len() < Self::DIGITS_MIN {
            return Err(HashPrefixError::TooShort(text.len()));
        }
        if text.len() > 64 {
            return Err(HashPrefixError::TooLong(text.len()));
        }
        let filled = |with: char| -> Option<ContentHash> {
            let digits: String = text
                .to_ascii_lowercase()
                .chars()
                .chain(std::iter::repeat_n(with, 64 - text.len()))
                .collect();
            hex::decode(&digits).map(ContentHash)
        };
        match (filled('0'), filled('f')) {
            (Some(first), Some(last)) => Ok(Self { first, last }),
            _ => Err(HashPrefixError::NoDigits),
        }
    }

    /// Whether a hash begins with these digits.
    #[must_use]
    pub fn fits(&self, hash: &ContentHash) -> bool {
        (self.first..=self.last).contains(hash)
    }
}

/// How hashing every file went, or goes.
#[derive(Debug, Default)]
pub struct HashedAll {
    /// Whether it reached the end.
    pub finished: bool,
    /// Files that were hashed, without those whose hash was stored before.
    pub files: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Files whose hash could not be stored, because the vault is read-only or full.
    pub unstored: u64,
    /// Files that could not be hashed, the first of them, with a path if they have one.
    pub failed: Vec<(Option<Vec<u8>>, Error)>,
    /// How many more there are.
    pub failed_more: u64,
    /// Those of `unstored` that fit what is looked for.
    found: Vec<(InodeId, ContentHash)>,
}

impl Vault {
    /// The hash of the content of the file at `path`, also of one below `.history`.
    ///
    /// # Errors
    /// As `open_file`; `File(Damaged)`; `Changed` if somebody writes to it all the time.
    pub fn content_hash(
        &self,
        path: impl VaultPath,
        algorithm: HashAlgorithm,
    ) -> Result<ContentHash> {
        let inode = self.attributes(path.path_bytes(), Links::Follow)?.inode;
        let never = &mut |_: u64| GoOn::Yes;
        if is_in_snapshot(inode) {
            let hashed = self.content_hash_by_reading(path, algorithm, never)?;
            return hashed.map(|(hash, _)| hash).ok_or_else(unexpected);
        }
        let hashed = self.content_hashes(&[inode], algorithm, never)?;
        let hashed = hashed
            .and_then(|mut all| all.pop())
            .ok_or_else(unexpected)?;
        Ok(hashed?.hash)
    }

    /// The hash and the length of the content of the file at `path`, read through this process, and nothing stored: for a
    /// file of a snapshot. `None` if `told`, which hears how many more bytes were read, said no.
    ///
    /// # Errors
    /// As `open_file`; `File(Damaged)`.
    pub fn content_hash_by_reading(
        &self,
        path: impl VaultPath,
        algorithm: HashAlgorithm,
        told: &mut dyn FnMut(u64) -> GoOn,
    ) -> Result<Option<(ContentHash, u64)>> {
        let file = self.open_file(path, FileOptions::new().read())?;
        let mut hasher = ContentHasher::new(algorithm);
        let mut part = vec![0; TRANSFER_BYTES_MAX];
        let mut offset = 0;
        loop {
            let count = file.read_at(&mut part, offset)?;
            hasher.update(&part[..count]);
            offset += count as u64;
            if told(count as u64) == GoOn::No {
                return Ok(None);
            }
            if count < part.len() {
                return Ok(Some((ContentHash(hasher.finish()), offset)));
            }
        }
    }

    /// The hashes of the contents of `inodes`, in their order; on all cores. `None` if `told`, which hears twice a second or so
    /// how many more bytes were read, said no: what was hashed until then is stored.
    ///
    /// # Errors
    /// Of the owner. Of each file: `File(Stale)` if it is gone, `File(InvalidArgument)` or `File(IsADirectory)` if it is no
    /// regular file, `File(Damaged)`, `Changed`.
    pub fn content_hashes(
        &self,
        inodes: &[InodeId],
        algorithm: HashAlgorithm,
        told: &mut dyn FnMut(u64) -> GoOn,
    ) -> Result<Option<Vec<Result<HashedContent>>>> {
        let mut all = Vec::with_capacity(inodes.len());
        for some in inodes.chunks(HASH_FILES_MAX) {
            match self.hash_some(some, algorithm, told)? {
                Some(hashed) => all.extend(hashed.into_iter().map(|(result, _)| result)),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    /// Hashes as many as one request names.
    fn hash_some(
        &self,
        inodes: &[InodeId],
        algorithm: HashAlgorithm,
        told: &mut dyn FnMut(u64) -> GoOn,
    ) -> Result<Option<Vec<Outcome>>> {
        let mut done: Vec<Option<HashedFields>> = inodes.iter().map(|_| None).collect();
        let (mut bytes_max, least, most) = HASH_STEP_BYTES;
        loop {
            let left: Vec<usize> = (0..done.len()).filter(|at| done[*at].is_none()).collect();
            if left.is_empty() {
                let all = done.into_iter().flatten().map(outcome);
                return Ok(Some(all.collect()));
            }
            let begun = Instant::now();
            let (files, bytes): (Vec<_>, _) = self.ask_hash(HashRequest::Files {
                inodes: left.iter().map(|at| inodes[*at].0).collect(),
                algorithm: algorithm.number(),
                bytes_max,
            })?;
            if files.len() != left.len() {
                return Err(unexpected());
            }
            for (at, one) in left.into_iter().zip(files) {
                done[at] = Some(one).filter(|one| *one != HashedFields::Unfinished);
            }
            if told(bytes) == GoOn::No {
                return Ok(None);
            }
            let wanted = bytes_max.saturating_mul(milliseconds(STEP));
            bytes_max = (wanted / milliseconds(begun.elapsed()).max(1)).clamp(least, most);
        }
    }

    /// Hashes every file that has no stored hash of its content. Interrupted, what was hashed stays; `told` hears of the
    /// progress twice a second or so, and says whether to go on.
    ///
    /// # Errors
    /// Of the owner; a file that cannot be hashed is in the report.
    pub fn hash_everything(
        &self,
        algorithm: HashAlgorithm,
        wanted: Option<&HashPrefix>,
        told: &mut dyn FnMut(&HashedAll) -> GoOn,
    ) -> Result<HashedAll> {
        let mut report = HashedAll::default();
        let mut after = 0;
        loop {
            let request = HashRequest::Missing {
                after,
                algorithm: algorithm.number(),
            };
            let missing: Vec<(u64, u64)> = self.ask_hash(request)?;
            let Some((last, _)) = missing.last() else {
                report.finished = true;
                return Ok(report);
            };
            after = *last;
            let inodes: Vec<InodeId> = missing.iter().map(|(inode, _)| InodeId(*inode)).collect();
            let hashed = self.hash_some(&inodes, algorithm, &mut |bytes| {
                report.bytes += bytes;
                told(&report)
            })?;
            let Some(hashed) = hashed else {
                return Ok(report);
            };
            for (inode, (result, path)) in inodes.into_iter().zip(hashed) {
                report.take(inode, result, path, wanted);
            }
        }
    }

    /// Gives to `take` every file whose content has a hash that begins so, in the order of hashes, until it fails; `all` is
    /// what `hash_everything` gave for the same prefix and algorithm.
    ///
    /// # Errors
    /// Of the owner; those of `take`.
    pub fn contents_with<E: From<Error>>(
        &self,
        prefix: &HashPrefix,
        algorithm: HashAlgorithm,
        all: &HashedAll,
        mut take: impl FnMut(NamedContent) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut after = (prefix.first.0, 0);
        loop {
            let request = HashRequest::Named {
                algorithm: algorithm.number(),
                after,
                last: prefix.last.0,
            };
            let next = self.named(request, &mut take)?;
            let Some(next) = next else { break };
            after = next;
        }
        let mut left: Vec<(u64, [u8; 32])> = all
            .found
            .iter()
            .map(|(inode, hash)| (inode.0, hash.0))
            .collect();
        while !left.is_empty() {
            let files = left.iter().copied().take(HASH_FILES_MAX).collect();
            let next = self.named(HashRequest::Paths { files }, &mut take)?;
            let done = match next {
                Some((_, inode)) => left.iter().position(|(one, _)| *one == inode),
                None => None,
            };
            left.drain(..done.map_or(left.len().min(HASH_FILES_MAX), |done| done + 1));
        }
        Ok(())
    }

    fn named<E: From<Error>>(
        &self,
        request: HashRequest,
        take: &mut impl FnMut(NamedContent) -> std::result::Result<(), E>,
    ) -> std::result::Result<Option<([u8; 32], u64)>, E> {
        let (files, next): (Vec<_>, Option<_>) = self.ask_hash(request)?;
        for file in files {
            take(file)?;
        }
        Ok(next)
    }

    /// Gives to `take` every group of files of at least `size_min` bytes, and never without content, that are equal by their
    /// stored hashes, until it fails; in the order of hashes.
    ///
    /// # Errors
    /// Of the owner; those of `take`.
    pub fn equal_contents<E: From<Error>>(
        &self,
        algorithm: HashAlgorithm,
        size_min: u64,
        mut take: impl FnMut(EqualContents) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut after = None;
        loop {
            let request = HashRequest::Equal {
                algorithm: algorithm.number(),
                after,
                size_min,
            };
            let (groups, next): (Vec<EqualContents>, _) = self.ask_hash(request)?;
            for group in groups {
                take(group)?;
            }
            if next.is_none() {
                return Ok(());
            }
            after = next;
        }
    }

    fn ask_hash<T: TryFrom<Response, Error = Error>>(&self, request: HashRequest) -> Result<T> {
        self.ask_for(&Request::Hash(request))
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What came of one file, with a path of it where it failed.
type Outcome = (Result<HashedContent>, Option<Vec<u8>>);

fn outcome(fields: HashedFields) -> Outcome {
    match fields {
        HashedFields::Whole(content) => (Ok(content), None),
        // One that was not finished is asked for again.
        HashedFields::Unfinished => (Err(unexpected()), None),
        HashedFields::Changing => (Err(Error::Changed), None),
        HashedFields::Failed(failure, path) => (Err(failure.into()), path),
    }
}

impl HashedAll {
    fn take(
        &mut self,
        inode: InodeId,
        result: Result<HashedContent>,
        path: Option<Vec<u8>>,
        wanted: Option<&HashPrefix>,
    ) {
        match result {
            Ok(hashed) => {
                self.files += 1;
                self.unstored += u64::from(!hashed.stored);
                let fits = wanted.is_some_and(|wanted| wanted.fits(&hashed.hash));
                if !hashed.stored && fits && self.found.len() < FOUND_MAX {
                    self.found.push((inode, hashed.hash));
                }
            }
            // Removed since it was listed.
            Err(Error::File(filesystem::Error::Stale)) => {}
            Err(_) if self.failed.len() >= HASH_FAILURES_MAX => self.failed_more += 1,
            Err(error) => self.failed.push((path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_fits_what_begins_with_it_in_either_case_and_to_the_last_half_byte() {
        let prefix = HashPrefix::parse("Ab12c").unwrap();
        let hash = |start: [u8; 3], rest: u8| {
            let mut bytes = [rest; 32];
            bytes[..3].copy_from_slice(&start);
            ContentHash(bytes)
        };
        for (start, rest, fits) in [
            ([0xab, 0x12, 0xc0], 0, true),
            ([0xab, 0x12, 0xcf], 0xff, true),
            ([0xab, 0x12, 0xd0], 0, false),
            ([0xab, 0x12, 0xbf], 0xff, false),
        ] {
            assert_eq!(prefix.fits(&hash(start, rest)), fits);
        }
        let whole = ContentHash([0x5a; 32]);
        let prefix = HashPrefix::parse(&whole.to_string()).unwrap();
        assert!(prefix.fits(&whole) && prefix.first == prefix.last);
    }

    #[test]
    fn what_is_no_prefix_is_refused_with_the_reason() {
        assert_eq!(HashPrefix::parse("abc"), Err(HashPrefixError::TooShort(3)));
        assert_eq!(HashPrefix::parse(""), Err(HashPrefixError::TooShort(0)));
        assert_eq!(HashPrefix::parse("xyz1"), Err(HashPrefixError::NoDigits));
        assert_eq!(HashPrefix::parse("äöüß"), Err(HashPrefixError::NoDigits));
        let long = "0".repeat(65);
        assert_eq!(HashPrefix::parse(&long), Err(HashPrefixError::TooLong(65)));
    }
}

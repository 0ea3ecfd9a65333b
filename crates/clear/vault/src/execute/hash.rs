//! Carries out requests about hashes of contents in the process that owns the vault.
//!
//! Takes   a session and a request
//! Gives   the hashes of given files; the files with a given hash, and their paths
//! Never   gives an answer that is longer than one message
//! Spec    spec/4-metadata.md, 4.11

use strongroom_crypto::HashAlgorithm;
use strongroom_filesystem::{self as filesystem, Filesystem, Hashed, InodeId, NamedFile};

use crate::execute::session::Session;
use crate::limits::{HASH_FILES_MAX, HASH_NAMES_BYTES_MAX, HASH_NAMES_MAX, TRANSFER_BYTES_MAX};
use crate::request::Response;
use crate::request::failure::Failure;
use crate::request::hash::{
    ContentHash, EqualContents, HashRequest, HashedContent, HashedFields, NamedContent,
};
use crate::{Error, Result};

/// Carries out one request.
pub(crate) fn execute(session: &Session, request: &HashRequest) -> Result<Response> {
    let filesystem = session.filesystem();
    Ok(match request {
        HashRequest::Files {
            inodes,
            algorithm,
            bytes_max,
        } => files(filesystem, inodes, of(*algorithm)?, *bytes_max)?.into(),
        HashRequest::Missing { after, algorithm } => {
            let after = InodeId(*after);
            let missing = filesystem.files_without_hash(of(*algorithm)?, after, HASH_FILES_MAX)?;
            let missing = missing.into_iter().map(|(inode, size)| (inode.0, size));
            missing.collect::<Vec<(u64, u64)>>().into()
        }
        HashRequest::Named {
            algorithm,
            after: (hash, inode),
            last,
        } => {
            let after = (*hash, InodeId(*inode));
            let (files, next) = filesystem.files_with_hash(of(*algorithm)?, &after, last)?;
            let (files, cut) = page(filesystem, files)?;
            let next = cut.or(next.map(|(hash, inode)| (hash, inode.0)));
            (files, next).into()
        }
        HashRequest::Paths { files } => {
            let files: Vec<_> = files
                .iter()
                .take(HASH_FILES_MAX)
                .map(|(inode, hash)| (InodeId(*inode), *hash))
                .collect();
            page(filesystem, filesystem.named_files(&files)?)?.into()
        }
        HashRequest::Equal {
            algorithm,
            after,
            size_min,
        } => equal(filesystem, of(*algorithm)?, *after, *size_min)?.into(),
    })
}

fn of(algorithm: u8) -> Result<HashAlgorithm> {
    HashAlgorithm::from_number(algorithm).ok_or(Error::Protocol("an unknown algorithm"))
}

fn files(
    filesystem: &Filesystem,
    inodes: &[u64],
    algorithm: HashAlgorithm,
    bytes_max: u64,
) -> Result<(Vec<HashedFields>, u64)> {
    if inodes.len() > HASH_FILES_MAX {
        return Err(Error::Protocol("too many files at once"));
    }
    let inodes: Vec<InodeId> = inodes.iter().copied().map(InodeId).collect();
    let done = filesystem.hash_files(&inodes, algorithm, bytes_max);
    let files = inodes
        .iter()
        .zip(done.files)
        .map(|(inode, result)| fields(filesystem, *inode, result));
    Ok((files.collect(), done.bytes))
}

fn fields(
    filesystem: &Filesystem,
    inode: InodeId,
    result: filesystem::Result<Hashed>,
) -> HashedFields {
    match result {
        Ok(Hashed::Whole { hash, size, stored }) => HashedFields::Whole(HashedContent {
            hash: ContentHash(hash),
            size,
            stored,
        }),
        Ok(Hashed::Unfinished) => HashedFields::Unfinished,
        Ok(Hashed::Changing) => HashedFields::Changing,
        Err(error) => {
            // What has no path is told without one.
            let path = filesystem.paths_up_to(inode, 1).unwrap_or_default().pop();
            HashedFields::Failed(Failure::from(&Error::from(error)), path)
        }
    }
}

/// Files, and the place of the last if others were cut off.
type Page = (Vec<NamedContent>, Option<([u8; 32], u64)>);

/// Files with their paths, as many as one answer holds.
fn page(filesystem: &Filesystem, files: Vec<NamedFile>) -> Result<Page> {
    let mut page: Vec<NamedContent> = Vec::new();
    let mut left = TRANSFER_BYTES_MAX;
    let count = files.len();
    for file in files {
        let named = named(filesystem, &file)?;
        left = left.saturating_sub(named.len_on_its_way());
        page.push(named);
        if left == 0 {
            break;
        }
    }
    let cut = page.last().filter(|_| page.len() < count);
    let cut = cut.map(|last| (last.hash.0, last.inode.0));
    Ok((page, cut))
}

/// A file with its paths, as many of them as are told.
fn named(filesystem: &Filesystem, file: &NamedFile) -> Result<NamedContent> {
    let mut paths = filesystem.paths_up_to(file.inode, HASH_NAMES_MAX)?;
    let mut left = HASH_NAMES_BYTES_MAX;
    paths.retain(|path| {
        let fits = path.len() <= left;
        left = left.saturating_sub(path.len());
        fits
    });
    Ok(NamedContent {
        inode: file.inode,
        hash: ContentHash(file.hash),
        size: file.size,
        nlink: file.nlink,
        paths,
    })
}

fn equal(
    filesystem: &Filesystem,
    algorithm: HashAlgorithm,
    after: Option<[u8; 32]>,
    size_min: u64,
) -> Result<(Vec<EqualContents>, Option<[u8; 32]>)> {
    let (found, mut next) = filesystem.equal_files(algorithm, after, size_min)?;
    let mut groups: Vec<EqualContents> = Vec::new();
    let mut left = TRANSFER_BYTES_MAX;
    for group in found {
        let count = group.files.len();
        // What is cut off here is counted, as what was not listed is.
        let (files, _) = page(filesystem, group.files)?;
        let len: usize = files.iter().map(NamedContent::len_on_its_way).sum();
        if len > left && !groups.is_empty() {
            // It is told by the next answer.
            let last = groups.last().and_then(|last| last.files.first());
            next = last.map(|file| file.hash.0);
            break;
        }
        left = left.saturating_sub(len);
        groups.push(EqualContents {
            more: group.more + (count - files.len()) as u64,
            files,
            extra_bytes: group.extra_bytes,
        });
    }
    Ok((groups, next))
}

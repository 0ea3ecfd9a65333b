//! Reads local files for `put`.
//!
//! Takes   an open file, or its metadata from the system
//! Gives   the ranges of data between holes; kinds and times in the form that a vault uses
//! Never   assumes that a file stays the same while it is read

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, SeekFrom, seek};
use strongroom::filesystem::{Attributes, InodeId, NodeKind, Timestamp};

use super::mirror::below;
use crate::arguments::pattern::{Exclude, excludes};
use crate::terminal::failure::{Failure, Result};
use crate::terminal::progress::Totals;

/// Counts what is below `top`, but for what patterns name. False if it cannot be counted.
pub(super) fn count(top: &Path, patterns: &[Exclude], totals: &Totals) -> bool {
    let Ok(metadata) = fs::symlink_metadata(top) else {
        return false;
    };
    if !metadata.is_dir() {
        return totals.add(metadata.len());
    }
    let mut waiting = vec![(top.to_owned(), Vec::new())];
    while let Some((path, relative)) = waiting.pop() {
        // What cannot be read will fail, and is no work then.
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        for entry in entries {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let relative = below(&relative, entry.file_name().as_bytes());
            if excludes(patterns, &relative, metadata.is_dir()) {
                continue;
            }
            if metadata.is_dir() {
                waiting.push((entry.path(), relative));
            } else if !totals.add(metadata.len()) {
                return false;
            }
        }
    }
    totals.goes_on()
}

pub(super) fn open(local: &Path, flags: OFlags) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(local)
}

/// The kind as a vault has it.
pub(super) fn kind_of(metadata: &Metadata) -> Result<NodeKind> {
    let kind = metadata.file_type();
    if kind.is_file() {
        Ok(NodeKind::File)
    } else if kind.is_dir() {
        Ok(NodeKind::Directory)
    } else if kind.is_symlink() {
        Ok(NodeKind::Symlink)
    } else if kind.is_fifo() {
        Ok(NodeKind::Fifo)
    } else if kind.is_socket() {
        Ok(NodeKind::Socket)
    } else if kind.is_char_device() {
        Ok(NodeKind::CharDevice)
    } else if kind.is_block_device() {
        Ok(NodeKind::BlockDevice)
    } else {
        Err(Failure::new(
            crate::terminal::exit_code::ExitCode::Unsupported,
            "left out: no vault can hold this kind of file",
        ))
    }
}

/// The next run of data at or behind `offset`; everything up to the end where holes cannot be asked for.
///
/// A file without a size, as `/proc` has them, is read until its end.
pub(super) fn next_data(source: &File, offset: u64, size: u64) -> Option<(u64, u64)> {
    if size == 0 {
        return (offset == 0).then_some((0, u64::MAX));
    }
    if offset >= size {
        return None;
    }
    let rest = (offset, size);
    let from = match seek(source, SeekFrom::Data(offset)) {
        Ok(from) => from,
        Err(rustix::io::Errno::NXIO) => return None,
        Err(_) => return Some(rest),
    };
    match seek(source, SeekFrom::Hole(from)) {
        Ok(to) if offset <= from && from < to => (from < size).then_some((from, to.min(size))),
        // An answer that cannot be: holes are then read as zeros.
        _ => Some(rest),
    }
}

/// Fills `part` from `offset` as far as the file goes.
pub(super) fn fill_at(source: &File, part: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < part.len() {
        match source.read_at(&mut part[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Fills `part` as far as `source` goes.
pub(super) fn fill(source: &mut dyn Read, part: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < part.len() {
        match source.read(&mut part[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// What the system says of a node, as a vault has it; `None` of a kind that no vault has.
pub(super) fn attributes_of(metadata: &Metadata) -> Option<Attributes> {
    Some(Attributes {
        inode: InodeId(metadata.ino()),
        kind: kind_of(metadata).ok()?,
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: metadata.rdev(),
        nlink: u32::try_from(metadata.nlink()).unwrap_or(u32::MAX),
        size: metadata.len(),
        blocks: metadata.blocks(),
        atime: accessed(metadata),
        mtime: modified(metadata),
        ctime: timestamp(metadata.ctime(), metadata.ctime_nsec()),
        btime: timestamp(0, 0),
    })
}

pub(super) fn modified(metadata: &Metadata) -> Timestamp {
    timestamp(metadata.mtime(), metadata.mtime_nsec())
}

pub(super) fn accessed(metadata: &Metadata) -> Timestamp {
    timestamp(metadata.atime(), metadata.atime_nsec())
}

/// Whether a vault can store both times as they are.
pub(super) fn has_exact_times(metadata: &Metadata) -> bool {
    let exact = |seconds, nanoseconds| exact_timestamp(seconds, nanoseconds).is_some();
    exact(metadata.atime(), metadata.atime_nsec()) && exact(metadata.mtime(), metadata.mtime_nsec())
}

fn exact_timestamp(seconds: i64, nanoseconds: i64) -> Option<Timestamp> {
    let nanoseconds = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    i64::try_from(nanoseconds).ok().map(Timestamp)
}

/// Times beyond what a vault can store become its first or last.
fn timestamp(seconds: i64, nanoseconds: i64) -> Timestamp {
    let nearest = match seconds < 0 {
        true => i64::MIN,
        false => i64::MAX,
    };
    exact_timestamp(seconds, nanoseconds).unwrap_or(Timestamp(nearest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_ahead_is_what_is_not_excluded() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("t/sub/cache")).unwrap();
        for (path, len) in [
            ("t/a", 10),
            ("t/sub/b", 100),
            ("t/sub/cache/c", 1000),
            ("t/x.o", 5),
        ] {
            fs::write(place.path().join(path), vec![0; len]).unwrap();
        }
        let patterns = ["cache/", "*.o"].map(|one| Exclude::parse(one).unwrap());
        let counted = |patterns: &[Exclude]| {
            let totals = Totals::default();
            assert!(count(&place.path().join("t"), patterns, &totals));
            totals.so_far()
        };
        assert_eq!(counted(&patterns), (2, 110));
        assert_eq!(counted(&[]), (4, 1115));
        assert!(!count(&place.path().join("none"), &[], &Totals::default()));
    }

    #[test]
    fn data_and_holes_are_told_apart_and_a_file_without_size_is_read_to_its_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 30).unwrap();
        assert_eq!(next_data(&file, 0, 0), Some((0, u64::MAX)));
        assert_eq!(next_data(&file, 7, 0), None);
        assert_eq!(next_data(&file, 1 << 30, 1 << 30), None);
        file.write_all_at(b"x", 1 << 29).unwrap();
        let (from, to) = next_data(&file, 0, 1 << 30).unwrap();
        assert!(from <= 1 << 29 && 1 << 29 < to && to <= 1 << 30);
    }
}

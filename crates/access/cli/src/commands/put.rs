//! `put`: copies files and directories into a vault.
//!
//! A file gets its name when all of it is there: what is interrupted leaves the old file, or none.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, SeekFrom, seek};
use strongroom::filesystem::{
    Error as FileError, InodeId, NodeKind, RenameMode, SetAttributes, SetTime, Timestamp, XattrMode,
};
use strongroom::{Error, Links, Vault};

use super::account::Account;
use super::keep::{LinkTable, Owners, xattrs_of};
use super::placing::{directory_of, place, place_dressed};
use crate::arguments::Put;
use crate::failure::{About, Failure, Failures, Result};
use crate::interrupt;
use crate::location::{Location, join};
use crate::opening::{Intent, with};
use crate::output::Format;
use crate::printable::{show, show_path};
use crate::progress::Progress;

/// Bytes moved at once.
const PART_BYTES: usize = 1024 * 1024;

/// Copies into the vault.
pub(crate) fn put(arguments: &Put) -> Result<()> {
    if !arguments.sources.iter().any(|source| is_stdin(source)) {
        interrupt::watch()?;
    }
    with(
        &arguments.target.vault,
        &arguments.secret,
        Intent::ChangeFiles,
        |vault| {
            let mut putting = Putting {
                vault,
                owners: Owners::of(arguments.no_owner),
                part: vec![0; PART_BYTES],
                progress: Progress::new(arguments.quiet),
                failures: Failures::default(),
                account: Account::default(),
                links: LinkTable::new(),
            };
            let into = is_directory(vault, &arguments.target)?;
            if arguments.sources.len() > 1 && !into {
                return Err(Failure::usage(format!(
                    "{}: several files need a directory there",
                    arguments.target.shown()
                )));
            }
            for source in &arguments.sources {
                let result = putting
                    .source(source, &arguments.target, into)
                    .about(show_path(source));
                putting.failures.note(result);
                if interrupt::came() {
                    break;
                }
            }
            let Putting {
                account,
                failures,
                progress,
                ..
            } = putting;
            drop(progress);
            account.show(&failures, Format::of(arguments.json))?;
            failures.end()
        },
    )
}

fn is_stdin(source: &Path) -> bool {
    source == Path::new("-")
}

/// Whether `place` means a directory to copy into.
pub(crate) fn is_directory(vault: &Vault, place: &Location) -> Result<bool> {
    match vault.attributes(&place.path, Links::Follow) {
        Ok(attributes) => Ok(attributes.kind == NodeKind::Directory),
        Err(Error::File(FileError::NotFound)) if !place.path.ends_with(b"/") => Ok(false),
        Err(error) => Err(error).about(place.shown()),
    }
}

/// A copy under way.
struct Putting<'a> {
    vault: &'a Vault,
    owners: Owners,
    part: Vec<u8>,
    progress: Progress,
    failures: Failures,
    account: Account,
    /// Device and inode of files with several names; where in the vault the first one is, and its inode there.
    links: LinkTable<(u64, u64), (Vec<u8>, InodeId)>,
}

/// A directory that is being copied.
struct Level {
    local: PathBuf,
    path: Vec<u8>,
    metadata: Metadata,
    names: std::vec::IntoIter<OsString>,
}

impl Putting<'_> {
    fn source(&mut self, source: &Path, target: &Location, into: bool) -> Result<()> {
        if is_stdin(source) {
            if into {
                return Err(Failure::usage(
                    "standard input needs a name: put - VAULT:PATH",
                ));
            }
            return self.stream(&mut std::io::stdin().lock(), &target.path);
        }
        let path = match source.file_name() {
            _ if !into => target.path.clone(),
            Some(name) => join(&target.path, name.as_bytes()),
            // `.` or `/`: what is in it goes into the target itself.
            None => target.path.clone(),
        };
        self.tree(source, path)
    }

    fn tree(&mut self, source: &Path, path: Vec<u8>) -> Result<()> {
        let mut levels: Vec<Level> = self.node(source, path)?.into_iter().collect();
        while let Some(level) = levels.last_mut() {
            interrupt::check()?;
            let Some(name) = level.names.next() else {
                let result = self.leave_directory(level);
                self.failures.note(result);
                levels.pop();
                continue;
            };
            let (local, path) = (level.local.join(&name), join(&level.path, name.as_bytes()));
            match self.node(&local, path) {
                Ok(level) => levels.extend(level),
                // Told once, for the whole copy.
                Err(_) if interrupt::came() => {}
                Err(failure) => self.failures.note(Err(failure.about(show_path(&local)))),
            }
        }
        Ok(())
    }

    /// Copies one node; gives a directory to go into.
    fn node(&mut self, local: &Path, path: Vec<u8>) -> Result<Option<Level>> {
        let metadata = fs::symlink_metadata(local)?;
        if metadata.is_dir() {
            return self.enter_directory(local, path, metadata).map(Some);
        }
        let key = (metadata.dev(), metadata.ino());
        if metadata.nlink() > 1 && self.further_name(&key, &path)? {
            self.account.hard_links += 1;
            return Ok(None);
        }
        let inode = if metadata.is_file() {
            self.file(local, &path)?
        } else if metadata.is_symlink() {
            let target = fs::read_link(local)?.into_os_string().into_vec();
            self.account.symlinks += 1;
            self.small(&path, &metadata, |name| {
                self.vault.make_symlink(&target, name)
            })?
        } else {
            let (kind, mode) = (special_kind(&metadata)?, metadata.mode() & 0o7777);
            let rdev = match kind {
                NodeKind::CharDevice | NodeKind::BlockDevice => metadata.rdev(),
                _ => 0,
            };
            self.account.special += 1;
            self.small(&path, &metadata, |name| {
                self.vault.make_node(name, kind, mode, rdev)
            })?
        };
        self.links.put(key, (path, inode), metadata.nlink());
        Ok(None)
    }

    /// Gives what was copied before the further name `path`, if it still is what it was then.
    fn further_name(&mut self, key: &(u64, u64), path: &[u8]) -> Result<bool> {
        let Some((first, inode)) = self.links.take(key) else {
            return Ok(false);
        };
        let there = self.vault.attributes(path, Links::Stay);
        if there.is_ok_and(|there| there.inode == inode) {
            // A rename would leave both names.
            return Ok(true);
        }
        let mut same = false;
        let placed = place_dressed(self.vault, path, |beside| {
            same = self.vault.link(&first, beside)?.inode == inode;
            if same {
                Ok(())
            } else {
                Err(Error::File(FileError::Stale).into())
            }
        });
        // Moved, removed or replaced by somebody else, or it has too many names: then this name gets a copy.
        if same {
            placed.map(|()| true)
        } else {
            Ok(false)
        }
    }

    fn enter_directory(&self, local: &Path, path: Vec<u8>, metadata: Metadata) -> Result<Level> {
        self.make_directory(&path)?;
        let names = fs::read_dir(local)?.map(|entry| entry.map(|entry| entry.file_name()));
        let mut names = names.collect::<std::io::Result<Vec<_>>>()?;
        names.sort();
        Ok(Level {
            local: local.to_owned(),
            path,
            metadata,
            names: names.into_iter(),
        })
    }

    /// Makes a directory, or takes the one that is there.
    fn make_directory(&self, path: &[u8]) -> Result<()> {
        match self.vault.make_directory(path, 0o700) {
            Ok(_) => Ok(()),
            Err(Error::File(FileError::Exists | FileError::InvalidArgument(_))) => {
                let attributes = self.vault.attributes(path, Links::Follow)?;
                if attributes.kind == NodeKind::Directory {
                    Ok(())
                } else {
                    Err(Error::File(FileError::Exists).into())
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn leave_directory(&mut self, level: &Level) -> Result<()> {
        self.account.directories += 1;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let open = open(&level.local, flags).about(show_path(&level.local))?;
        let xattrs = xattrs_of(&open, self.owners, &level.local, &mut self.account)?;
        let set = self.attributes_of(&level.metadata, NodeKind::Directory, &level.local);
        self.vault
            .set_attributes(&level.path, Links::Follow, &set)
            .about(show(&level.path))?;
        self.set_xattrs(&level.path, &level.local, &xattrs);
        Ok(())
    }

    /// Makes what has no content, with its owner and times, and names it.
    fn small(
        &self,
        path: &[u8],
        metadata: &Metadata,
        make: impl FnOnce(&[u8]) -> strongroom::Result<strongroom::filesystem::Attributes>,
    ) -> Result<InodeId> {
        let mut inode = None;
        place_dressed(self.vault, path, |beside| {
            inode = Some(make(beside)?.inode);
            let (uid, gid) = self.owner_of(metadata);
            let set = SetAttributes {
                uid,
                gid,
                atime: Some(SetTime::At(accessed(metadata))),
                mtime: Some(SetTime::At(modified(metadata))),
                ..SetAttributes::default()
            };
            self.vault.set_attributes(beside, Links::Stay, &set)?;
            Ok(())
        })?;
        inode.ok_or_else(|| Error::File(FileError::Stale).into())
    }

    fn file(&mut self, local: &Path, path: &[u8]) -> Result<InodeId> {
        // Should a pipe have taken the name meanwhile, opening it must not wait for a writer.
        let source = open(local, OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
        let metadata = source.metadata()?;
        if !metadata.is_file() {
            return Err(std::io::Error::other("it became something else meanwhile").into());
        }
        self.progress.file(path);
        let inside = self.vault.unnamed_file(directory_of(path), 0o600)?;
        self.content(&source, metadata.len(), &inside)?;
        let now = source.metadata()?;
        if (now.len(), modified(&now)) != (metadata.len(), modified(&metadata)) {
            let why = "somebody wrote to it while it was copied";
            self.account
                .left_out(local.as_os_str().as_bytes(), "some newer content", why);
        }
        let set = self.attributes_of(&metadata, NodeKind::File, local);
        let inode = inside.set_attributes(&set)?.inode;
        let xattrs = xattrs_of(&source, self.owners, local, &mut self.account)?;
        if xattrs.is_empty() {
            place(self.vault, path, RenameMode::Replace, |name| {
                self.vault.name_file(&inside, name)
            })?;
        } else {
            let vault = self.vault;
            place_dressed(vault, path, |beside| {
                vault.name_file(&inside, beside)?;
                self.set_xattrs(beside, local, &xattrs);
                Ok(())
            })?;
        }
        self.account.files += 1;
        Ok(inode)
    }

    /// Copies data and leaves out holes.
    fn content(&mut self, source: &File, size: u64, inside: &strongroom::File) -> Result<()> {
        let mut at = 0;
        while let Some((from, to)) = next_data(source, at, size) {
            at = from;
            while at < to {
                interrupt::check()?;
                let wanted = usize::try_from(to - at)
                    .unwrap_or(PART_BYTES)
                    .min(PART_BYTES);
                let count = fill_at(source, &mut self.part[..wanted], at)?;
                inside.write_all_at(&self.part[..count], at)?;
                at += count as u64;
                self.progress.advance(count as u64);
                self.account.bytes += count as u64;
                if count < wanted {
                    // The end; it may be nearer than it was.
                    return Ok(());
                }
            }
        }
        if at < size {
            inside.set_len(size)?;
        }
        Ok(())
    }

    /// Copies what comes until its end, into an unnamed file that is then named.
    fn stream(&mut self, source: &mut dyn Read, path: &[u8]) -> Result<()> {
        self.progress.file(path);
        let file = self.vault.unnamed_file(directory_of(path), 0o644)?;
        let mut offset = 0;
        loop {
            let count = fill(source, &mut self.part)?;
            if count == 0 {
                break;
            }
            file.write_all_at(&self.part[..count], offset)?;
            offset += count as u64;
            self.progress.advance(count as u64);
        }
        place(self.vault, path, RenameMode::Replace, |name| {
            self.vault.name_file(&file, name)
        })?;
        self.account.files += 1;
        self.account.bytes += offset;
        Ok(())
    }

    fn owner_of(&self, metadata: &Metadata) -> (Option<u32>, Option<u32>) {
        match self.owners {
            Owners::Kept => (Some(metadata.uid()), Some(metadata.gid())),
            Owners::Dropped => (None, None),
        }
    }

    fn attributes_of(
        &mut self,
        metadata: &Metadata,
        kind: NodeKind,
        local: &Path,
    ) -> SetAttributes {
        let (uid, gid) = self.owner_of(metadata);
        let mode = metadata.mode() & 0o7777;
        let kept = self.owners.mode(kind, mode, metadata.uid(), metadata.gid());
        if kept != mode {
            let why = "the copy belongs to somebody else than the file";
            self.account
                .left_out(local.as_os_str().as_bytes(), "the set-user-id bits", why);
        }
        SetAttributes {
            mode: Some(kept),
            uid,
            gid,
            size: None,
            atime: Some(SetTime::At(accessed(metadata))),
            mtime: Some(SetTime::At(modified(metadata))),
        }
    }

    fn set_xattrs(&mut self, path: &[u8], local: &Path, xattrs: &[(Vec<u8>, Vec<u8>)]) {
        for (name, value) in xattrs {
            let set = self
                .vault
                .set_xattr(path, Links::Stay, name, value, XattrMode::Set);
            if let Err(error) = set {
                self.account
                    .left_out(local.as_os_str().as_bytes(), show(name), error);
            }
        }
    }
}

fn open(local: &Path, flags: OFlags) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(local)
}

/// The kind of what is no file, directory or symbolic link.
fn special_kind(metadata: &Metadata) -> Result<NodeKind> {
    let kind = metadata.file_type();
    if kind.is_fifo() {
        Ok(NodeKind::Fifo)
    } else if kind.is_socket() {
        Ok(NodeKind::Socket)
    } else if kind.is_char_device() {
        Ok(NodeKind::CharDevice)
    } else if kind.is_block_device() {
        Ok(NodeKind::BlockDevice)
    } else {
        Err(Failure::new(
            crate::exit_code::ExitCode::Unsupported,
            "left out: no vault can hold this kind of file",
        ))
    }
}

/// The next run of data at or behind `offset`; everything up to the end where holes cannot be asked for.
///
/// A file without a size, as `/proc` has them, is read until its end.
fn next_data(source: &File, offset: u64, size: u64) -> Option<(u64, u64)> {
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
fn fill_at(source: &File, part: &mut [u8], offset: u64) -> std::io::Result<usize> {
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
fn fill(source: &mut dyn Read, part: &mut [u8]) -> std::io::Result<usize> {
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

fn modified(metadata: &Metadata) -> Timestamp {
    timestamp(metadata.mtime(), metadata.mtime_nsec())
}

fn accessed(metadata: &Metadata) -> Timestamp {
    timestamp(metadata.atime(), metadata.atime_nsec())
}

/// Times beyond what the vault can store become its first or last.
fn timestamp(seconds: i64, nanoseconds: i64) -> Timestamp {
    Timestamp(
        seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(nanoseconds),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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

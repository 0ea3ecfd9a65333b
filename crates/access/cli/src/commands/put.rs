//! `put`: copies files and directories into a vault.
//!
//! A file gets its name when all of it is there: what is interrupted leaves the old file, or none.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use strongroom::filesystem::{
    Error as FileError, NodeKind, RenameMode, SetAttributes, SetTime, Timestamp,
};
use strongroom::{Error, Links, Vault};

use super::copy::place;
use crate::arguments::Put;
use crate::exit_code::ExitCode;
use crate::failure::{About, Failure, Failures, Result};
use crate::location::{Location, join, show};
use crate::opening::{Intent, with};
use crate::progress::Progress;

/// Bytes moved at once.
const PART_BYTES: usize = 1024 * 1024;

/// Copies into the vault.
pub(crate) fn put(arguments: &Put) -> Result<()> {
    with(
        &arguments.target.vault,
        &arguments.secret,
        Intent::Change,
        |vault| {
            let mut failures = Failures::default();
            let mut putting = Putting {
                vault,
                part: vec![0; PART_BYTES],
                progress: Progress::new(arguments.quiet),
                failures: &mut failures,
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
                    .about(source.display());
                putting.failures.note(result);
            }
            drop(putting);
            failures.end()
        },
    )
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
    part: Vec<u8>,
    progress: Progress,
    failures: &'a mut Failures,
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
        if source == Path::new("-") {
            if into {
                return Err(Failure::usage(
                    "standard input needs a name: put - VAULT:PATH",
                ));
            }
            return self.content(&mut std::io::stdin().lock(), &target.path, 0o644, None);
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
            let Some(name) = level.names.next() else {
                let result = self.attributes_of_directory(level);
                self.failures.note(result);
                levels.pop();
                continue;
            };
            let (local, path) = (level.local.join(&name), join(&level.path, name.as_bytes()));
            match self.node(&local, path) {
                Ok(level) => levels.extend(level),
                Err(failure) => self.failures.note(Err(failure.about(local.display()))),
            }
        }
        Ok(())
    }

    /// Copies one node; gives a directory to go into.
    fn node(&mut self, local: &Path, path: Vec<u8>) -> Result<Option<Level>> {
        let metadata = fs::symlink_metadata(local)?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            self.directory(&path)?;
            let names = fs::read_dir(local)?.map(|entry| entry.map(|entry| entry.file_name()));
            let mut names = names.collect::<std::io::Result<Vec<_>>>()?;
            names.sort();
            return Ok(Some(Level {
                local: local.to_owned(),
                path,
                metadata,
                names: names.into_iter(),
            }));
        }
        if kind.is_symlink() {
            let target = fs::read_link(local)?.into_os_string().into_vec();
            let named = |name: &[u8]| self.vault.make_symlink(&target, name).map(drop);
            return place(self.vault, &path, RenameMode::Replace, named).map(|()| None);
        }
        if !kind.is_file() {
            return Err(Failure::new(
                ExitCode::Unsupported,
                "left out: it is no file, directory or symbolic link",
            ));
        }
        let mut file = File::open(local)?;
        let mode = metadata.permissions().mode() & 0o7777;
        self.content(&mut file, &path, mode, Some(modified(&metadata)))?;
        Ok(None)
    }

    /// Makes a directory, or takes the one that is there.
    fn directory(&self, path: &[u8]) -> Result<()> {
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

    fn attributes_of_directory(&self, level: &Level) -> Result<()> {
        let mode = Some(level.metadata.permissions().mode() & 0o7777);
        let set = SetAttributes {
            mode,
            mtime: Some(SetTime::At(modified(&level.metadata))),
            ..SetAttributes::default()
        };
        self.vault
            .set_attributes(&level.path, Links::Follow, &set)
            .about(show(&level.path))?;
        Ok(())
    }

    /// Copies content into an unnamed file and then names it.
    fn content(
        &mut self,
        source: &mut dyn Read,
        path: &[u8],
        mode: u32,
        time: Option<Timestamp>,
    ) -> Result<()> {
        self.progress.file(path);
        let file = self.vault.unnamed_file(directory_of(path), mode)?;
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
        if let Some(time) = time {
            file.set_attributes(&SetAttributes {
                mtime: Some(SetTime::At(time)),
                ..SetAttributes::default()
            })?;
        }
        place(self.vault, path, RenameMode::Replace, |name| {
            self.vault.name_file(&file, name)
        })
    }
}

/// The directory that holds the last name of `path`.
pub(crate) fn directory_of(path: &[u8]) -> &[u8] {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    match path[..end].iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(slash) => &path[..slash],
    }
}

/// A name in the same directory that nobody else uses: of this process, and never long.
pub(crate) fn beside(path: &[u8]) -> Vec<u8> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    join(
        directory_of(path),
        format!(".strongroom-{}-{number}", std::process::id()).as_bytes(),
    )
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

/// When the content was changed last; times beyond what the vault can store become its first or last.
fn modified(metadata: &Metadata) -> Timestamp {
    Timestamp(
        metadata
            .mtime()
            .saturating_mul(1_000_000_000)
            .saturating_add(metadata.mtime_nsec()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_path_is_what_stands_before_its_last_name() {
        for (path, directory) in [
            ("/a", "/"),
            ("/a/b", "/a"),
            ("/a/b/", "/a"),
            ("/", "/"),
            ("/a//b", "/a/"),
        ] {
            assert_eq!(
                directory_of(path.as_bytes()),
                directory.as_bytes(),
                "{path}"
            );
        }
    }

    #[test]
    fn two_names_beside_a_path_differ_and_stay_in_its_directory() {
        let (one, two) = (beside(b"/a/b"), beside(b"/a/b"));
        assert_ne!(one, two);
        assert!(one.starts_with(b"/a/.strongroom-"));
    }
}

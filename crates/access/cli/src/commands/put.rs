//! `put`: copies files and directories into a vault.
//!
//! A file gets its name only when it is complete: an interruption leaves the old file, or none. Files that look
//! unchanged are skipped without being opened, unless --checksum is given.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, DirEntry, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use strongroom::filesystem::{
    Attributes, Error as FileError, InodeId, NodeKind, RenameMode, SetAttributes, SetTime,
    XattrMode,
};
use strongroom::{Error, Links, NewRevision, Vault};

use super::account::Account;
use super::keep::{LinkTable, Owners, xattrs_of};
use super::local::{
    accessed, attributes_of, count, fill, fill_at, has_exact_times, kind_of, modified, next_data,
    open,
};
use super::mirror::{self, below, is_in_the_way, precaution};
use super::placing::{directory_of, has_parent, is_directory, place, place_dressed, place_link};
use super::targets::{OwnMounts, Targets};
use super::unchanged::{There, differs, is_unchanged, node_at};
use crate::arguments::copy::{Copying, Put};
use crate::arguments::location::{Location, join};
use crate::arguments::pattern::excludes;
use crate::commands::opening::{Intent, with};
use crate::terminal::failure::{About, Failure, Failures, Result};
use crate::terminal::interrupt;
use crate::terminal::output::Format;
use crate::terminal::printable::{show, show_path};
use crate::terminal::progress::Progress;

/// Bytes moved at once.
const PART_BYTES: usize = 1024 * 1024;

/// Copies into the vault.
pub(crate) fn put(arguments: &Put) -> Result<()> {
    let (sources, target) = arguments.places()?;
    let copying = &arguments.copying;
    if !sources.iter().any(|source| is_stdin(source)) {
        interrupt::watch()?;
    }
    with(
        &target.vault,
        &copying.secret,
        Intent::ChangeFiles,
        |vault| {
            let into = is_directory(vault, &target)?;
            if sources.len() > 1 && !into {
                return Err(Failure::usage(format!(
                    "{}: several files can be copied only into an existing directory",
                    target.shown()
                )));
            }
            if !into {
                has_parent(vault, &target)?;
            }
            let mut putting = Putting::new(vault, copying);
            let (patterns, counted) = (copying.exclude.clone(), sources.clone());
            putting
                .progress
                .count(move |totals| counted.iter().all(|one| count(one, &patterns, totals)));
            for source in &sources {
                // A signal after the last step of the one before: then this one is missing.
                let result = interrupt::check();
                let result = result.and_then(|()| putting.source(source, &target, into));
                let is_whole = result.is_ok();
                putting.failures.note(result.about(show_path(source)));
                if (interrupt::came() && !is_whole) || putting.failures.stop() {
                    break;
                }
            }
            putting.end(Format::of(copying.json))
        },
    )
}

fn is_stdin(source: &Path) -> bool {
    source == Path::new("-")
}

/// A copy under way.
struct Putting<'a> {
    vault: &'a Vault,
    copying: &'a Copying,
    owners: Owners,
    part: Vec<u8>,
    progress: Progress,
    failures: Failures,
    account: Account,
    targets: Targets,
    mounts: OwnMounts,
    /// Whether what is removed is in a snapshot.
    kept: bool,
    /// Device and inode of files with several names; where in the vault the first one is, and its inode there.
    links: LinkTable<(u64, u64), (Vec<u8>, InodeId)>,
}

/// A directory that is being copied.
struct Level {
    local: PathBuf,
    path: Vec<u8>,
    /// As patterns name it.
    relative: Vec<u8>,
    metadata: Metadata,
    names: std::vec::IntoIter<OsString>,
    there: There,
    /// All names, if others are to be removed.
    all: HashSet<OsString>,
}

impl<'a> Putting<'a> {
    fn new(vault: &'a Vault, copying: &'a Copying) -> Self {
        Self {
            vault,
            copying,
            owners: Owners::of(copying.no_owner),
            part: vec![0; PART_BYTES],
            progress: Progress::new(copying.quiet),
            failures: Failures::default(),
            account: Account::default(),
            targets: Targets::default(),
            mounts: OwnMounts::of(vault),
            kept: false,
            links: LinkTable::new(),
        }
    }

    fn end(self, format: Format) -> Result<()> {
        drop(self.progress);
        self.account.show(&self.failures, format)?;
        self.failures.end()
    }

    fn source(&mut self, source: &Path, target: &Location, into: bool) -> Result<()> {
        if is_stdin(source) {
            if into {
                return Err(Failure::usage(
                    "content of standard input needs a name in the vault: put - VAULT:PATH",
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
        self.targets.take(&path, source.as_os_str().as_bytes())?;
        self.tree(source, path)
    }

    fn tree(&mut self, source: &Path, path: Vec<u8>) -> Result<()> {
        let there = node_at(self.vault, &path)?;
        let level = self.node(source, path, Vec::new(), there)?;
        let mut levels: Vec<Level> = level.into_iter().collect();
        while let Some(level) = levels.last_mut() {
            interrupt::check()?;
            let Some(name) = level.names.next() else {
                let result = self.leave_directory(level);
                self.failures.note(result);
                levels.pop();
                if self.failures.stop() {
                    return Ok(());
                }
                continue;
            };
            let (local, path) = (level.local.join(&name), join(&level.path, name.as_bytes()));
            let relative = below(&level.relative, name.as_bytes());
            let there = level.there.node(self.vault, name.as_bytes(), &path);
            let done = there.and_then(|there| self.node(&local, path, relative, there));
            match done {
                Ok(level) => levels.extend(level),
                // Told once, for the whole copy.
                Err(_) if interrupt::came() => {}
                Err(failure) => self.failures.note(Err(failure.about(show_path(&local)))),
            }
            if self.failures.stop() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Copies one node, in place of what is `there`; gives a directory to go into.
    fn node(
        &mut self,
        local: &Path,
        path: Vec<u8>,
        relative: Vec<u8>,
        mut there: Option<Attributes>,
    ) -> Result<Option<Level>> {
        let metadata = fs::symlink_metadata(local)?;
        let kind = kind_of(&metadata)?;
        if let Some(now) = &there
            && self.copying.delete
            && is_in_the_way(now.kind, kind)
            && !(kind == NodeKind::Directory && self.leads_to_directory(&path))
        {
            self.remove(&path, &relative)?;
            there = None;
        }
        if kind == NodeKind::Directory {
            let level = self.enter_directory(local, path, relative, metadata, there.as_ref());
            return level.map(Some);
        }
        let key = (metadata.dev(), metadata.ino());
        if metadata.nlink() > 1 && self.further_name(&key, &path)? {
            self.account.hard_links += 1;
            self.progress.advance(metadata.len());
            return Ok(None);
        }
        let is_there = match &there {
            Some(there) => self.is_there(local, &metadata, &path, there)?,
            None => None,
        };
        let inode = match is_there {
            Some(inode) => inode,
            None => self.make(local, &path, &metadata, kind)?,
        };
        self.links.put(key, (path, inode), metadata.nlink());
        Ok(None)
    }

    /// A link to a directory is a directory to copy into.
    fn leads_to_directory(&self, path: &[u8]) -> bool {
        let found = self.vault.attributes(path, Links::Follow);
        found.is_ok_and(|found| found.kind == NodeKind::Directory)
    }

    /// Gives the node that is `there` if it is as the local one; its mode, owner and times are after that.
    fn is_there(
        &mut self,
        local: &Path,
        metadata: &Metadata,
        path: &[u8],
        there: &Attributes,
    ) -> Result<Option<InodeId>> {
        let Some(source) = attributes_of(metadata) else {
            return Ok(None);
        };
        let is_same = is_unchanged(
            self.vault,
            path,
            local,
            (&source, there),
            (self.copying, &mut self.part),
        )?;
        if !is_same {
            return Ok(None);
        }
        let mut set = self.attributes_of(metadata, source.kind, local);
        if source.kind == NodeKind::Symlink {
            set.mode = None;
        }
        if differs(there, &set) {
            self.vault.set_attributes(path, Links::Stay, &set)?;
        }
        self.account.unchanged += 1;
        self.progress.file(path);
        self.progress.advance(metadata.len());
        Ok(Some(there.inode))
    }

    /// Copies a node that is no directory.
    fn make(
        &mut self,
        local: &Path,
        path: &[u8],
        metadata: &Metadata,
        kind: NodeKind,
    ) -> Result<InodeId> {
        match kind {
            NodeKind::File => self.file(local, path),
            NodeKind::Symlink => {
                let target = fs::read_link(local)?.into_os_string().into_vec();
                self.account.symlinks += 1;
                self.small(local, path, metadata, |vault, name| {
                    vault.make_symlink(&target, name)
                })
            }
            kind => {
                let mode = metadata.mode() & 0o7777;
                let rdev = match kind {
                    NodeKind::CharDevice | NodeKind::BlockDevice => metadata.rdev(),
                    _ => 0,
                };
                self.account.special += 1;
                self.small(local, path, metadata, |vault, name| {
                    vault.make_node(name, kind, mode, rdev)
                })
            }
        }
    }

    /// Gives what was copied before the further name `path`, if it still is what it was then.
    fn further_name(&mut self, key: &(u64, u64), path: &[u8]) -> Result<bool> {
        match self.links.take(key) {
            Some(copy) => place_link(self.vault, &copy, path, RenameMode::Replace),
            None => Ok(false),
        }
    }

    fn enter_directory(
        &mut self,
        local: &Path,
        path: Vec<u8>,
        relative: Vec<u8>,
        metadata: Metadata,
        there: Option<&Attributes>,
    ) -> Result<Level> {
        if !relative.is_empty() {
            self.mounts.check_no_target(&metadata)?;
        }
        let was_there = there.is_some_and(|there| there.kind == NodeKind::Directory);
        let there = match was_there || self.make_directory(&path)? {
            true => There::list(self.vault, &path)?,
            false => There::Nothing,
        };
        if relative.is_empty() {
            self.mounts.note_target(self.vault, &path)?;
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(local)? {
            let entry = entry?;
            let name = entry.file_name();
            if self.is_excluded(&entry, &below(&relative, name.as_bytes()))? {
                self.account.excluded += 1;
            } else {
                names.push(name);
            }
        }
        names.sort();
        let all = match self.copying.delete {
            true => names.iter().cloned().collect(),
            false => HashSet::new(),
        };
        Ok(Level {
            local: local.to_owned(),
            path,
            relative,
            metadata,
            names: names.into_iter(),
            there,
            all,
        })
    }

    fn is_excluded(&self, entry: &DirEntry, relative: &[u8]) -> Result<bool> {
        let patterns = &self.copying.exclude;
        Ok(!patterns.is_empty() && excludes(patterns, relative, entry.file_type()?.is_dir()))
    }

    /// Makes a directory, or takes the one that is there: then it says so.
    fn make_directory(&self, path: &[u8]) -> Result<bool> {
        match self.vault.make_directory(path, 0o700) {
            Ok(_) => Ok(false),
            Err(Error::File(FileError::Exists | FileError::InvalidArgument(_))) => {
                match self.leads_to_directory(path) {
                    true => Ok(true),
                    false => Err(Error::File(FileError::Exists).into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn leave_directory(&mut self, level: &Level) -> Result<()> {
        if self.copying.delete {
            self.remove_others(level)?;
        }
        self.account.directories += 1;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let open = open(&level.local, flags).about(show_path(&level.local))?;
        let xattrs = xattrs_of(&open, self.owners, &level.local, &mut self.account)?;
        let set = self.attributes_of(&level.metadata, NodeKind::Directory, &level.local);
        let set_all = || -> Result<()> {
            let there = self.vault.attributes(&level.path, Links::Follow)?;
            if differs(&there, &set) {
                self.vault
                    .set_attributes(&level.path, Links::Follow, &set)?;
            }
            Ok(())
        };
        set_all().about(show(&level.path))?;
        self.set_xattrs(&level.path, &level.local, &xattrs);
        Ok(())
    }

    /// Removes what a directory has that its source has not.
    fn remove_others(&mut self, level: &Level) -> Result<()> {
        let (mut others, targets) = (Vec::new(), self.targets.names_in(&level.path));
        for entry in self.vault.list(&level.path)? {
            let name = entry?.name;
            let is_target = targets.contains(&&name[..]);
            if !is_target && !level.all.contains(&OsString::from_vec(name.clone())) {
                others.push(name);
            }
        }
        for name in others {
            interrupt::check()?;
            let path = join(&level.path, &name);
            self.remove(&path, &below(&level.relative, &name))?;
        }
        Ok(())
    }

    /// Removes what is at `path`; before the first, a snapshot is taken.
    fn remove(&mut self, path: &[u8], relative: &[u8]) -> Result<()> {
        let is_directory =
            node_at(self.vault, path)?.is_some_and(|now| now.kind == NodeKind::Directory);
        if excludes(&self.copying.exclude, relative, is_directory) {
            return Ok(());
        }
        if !self.kept {
            let taken = self.vault.take_revision(&NewRevision {
                message: precaution(path),
                tags: Vec::new(),
                only_if_changed: true,
            })?;
            self.account.snapshot = taken.map(|taken| taken.id.to_string());
            self.kept = true;
        }
        self.account.removed += mirror::remove(self.vault, path, relative, &self.copying.exclude)?;
        Ok(())
    }

    /// Makes what has no content, with its owner and times, and names it.
    fn small(
        &mut self,
        local: &Path,
        path: &[u8],
        metadata: &Metadata,
        make: impl FnOnce(&Vault, &[u8]) -> strongroom::Result<Attributes>,
    ) -> Result<InodeId> {
        let set = self.owner_and_times(metadata, local);
        let (vault, mut inode) = (self.vault, None);
        place_dressed(vault, path, RenameMode::Replace, |beside| {
            inode = Some(make(vault, beside)?.inode);
            vault.set_attributes(beside, Links::Stay, &set)?;
            Ok(())
        })?;
        inode.ok_or_else(|| Error::File(FileError::Stale).into())
    }

    fn file(&mut self, local: &Path, path: &[u8]) -> Result<InodeId> {
        // Should a pipe have taken the name meanwhile, opening it must not wait for a writer.
        let source = open(local, OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
        let metadata = source.metadata()?;
        if !metadata.is_file() {
            return Err(std::io::Error::other("the file was replaced while it was copied").into());
        }
        self.progress.file(path);
        let inside = self.vault.unnamed_file(directory_of(path), 0o600)?;
        self.content(&source, metadata.len(), &inside)?;
        let now = source.metadata()?;
        if (now.len(), modified(&now)) != (metadata.len(), modified(&metadata)) {
            let why = "another program wrote to the file while it was copied";
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
            place_dressed(vault, path, RenameMode::Replace, |beside| {
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
            self.progress.advance(from - at);
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
            self.progress.advance(size - at);
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

    /// Owner and times of a local node, as a vault can store them.
    fn owner_and_times(&mut self, metadata: &Metadata, local: &Path) -> SetAttributes {
        if !has_exact_times(metadata) {
            self.account.nearest_times += 1;
            let why = "a vault stores times from 1677-09-21 to 2262-04-11";
            self.account
                .left_out(local.as_os_str().as_bytes(), "its times", why);
        }
        let is_kept = self.owners == Owners::Kept;
        SetAttributes {
            uid: is_kept.then(|| metadata.uid()),
            gid: is_kept.then(|| metadata.gid()),
            atime: Some(SetTime::At(accessed(metadata))),
            mtime: Some(SetTime::At(modified(metadata))),
            ..SetAttributes::default()
        }
    }

    fn attributes_of(
        &mut self,
        metadata: &Metadata,
        kind: NodeKind,
        local: &Path,
    ) -> SetAttributes {
        let mode = metadata.mode() & 0o7777;
        let kept = self.owners.mode(kind, mode, metadata.uid(), metadata.gid());
        if kept != mode {
            let why = "the copy has another owner than the file";
            self.account
                .left_out(local.as_os_str().as_bytes(), "the set-user-id bits", why);
        }
        SetAttributes {
            mode: Some(kept),
            ..self.owner_and_times(metadata, local)
        }
    }

    fn set_xattrs(&mut self, path: &[u8], local: &Path, xattrs: &[(Vec<u8>, Vec<u8>)]) {
        for (name, value) in xattrs {
            let set = self
                .vault
                .set_xattr(path, Links::Stay, name, value, XattrMode::Set);
            if let Err(error) = set {
                self.account
                    .left_out(local.as_os_str().as_bytes(), name, error);
            }
        }
    }
}

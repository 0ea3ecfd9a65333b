//! `get`: copies files and directories out of a vault.
//!
//! A file gets its name only when it is complete, and all are on the disk before the command ends. Nothing is written through a symbolic link that came from the vault. A
//! target that the user named is replaced only if it is a regular file, or a link to one.
//! Files that look unchanged are skipped without being opened, unless --checksum is given.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, syncfs};
use strongroom::filesystem::{Attributes, Error as FileError, InodeId, NodeKind, SeekTarget};
use strongroom::{Error, FileOptions, Links, Vault};

use super::account::Account;
use super::keep::{Dress, Keeping, LinkTable, Owners, Rights};
use super::local::attributes_of;
use super::making::{disk_of, make_directory, make_special, parent_of, place};
use super::mirror::{self, Spared, is_in_the_way};
use super::targets::{OwnMounts, Targets, check_named, check_not_vault, check_outside};
use super::unchanged::is_unchanged;
use crate::arguments::copy::{Copying, Get};
use crate::arguments::location::{Location, last_name};
use crate::arguments::pattern::{Exclude, excludes};
use crate::commands::opening::{Intent, same_vault, with};
use crate::commands::remote::limit_down;
use crate::commands::walk::{At, Step, Walk};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Failures, Result};
use crate::terminal::interrupt;
use crate::terminal::output::Format;
use crate::terminal::printable::{show, show_path};
use crate::terminal::progress::{Progress, Totals};

/// Bytes moved at once.
const PART_BYTES: usize = 1024 * 1024;

/// Copies out of the vault.
pub(crate) fn get(arguments: &Get) -> Result<()> {
    let (sources, target) = arguments.places()?;
    let copying = &arguments.copying;
    let vault = same_vault(&sources)?;
    let to_stdout = target == Path::new("-");
    let into = target.is_dir();
    check_target(
        &target,
        sources.len(),
        to_stdout || into,
        to_stdout,
        copying,
    )?;
    if !to_stdout {
        interrupt::watch()?;
    }
    with(vault, &copying.secret, Intent::Read, |vault| {
        let rights = match arguments.special {
            true => Rights::Given,
            false => Rights::Withheld,
        };
        limit_down(vault, arguments.limit_down);
        let mut getting = Getting::new(vault, copying, rights);
        if !to_stdout {
            getting.disk = disk_of(&target);
            let (vault, patterns) = (vault.clone(), copying.exclude.clone());
            let counted: Vec<_> = sources.iter().map(|one| one.path.clone()).collect();
            getting.progress.count(move |totals| {
                let mut paths = counted.iter();
                paths.all(|path| count(&vault, path, &patterns, totals))
            });
        }
        for source in &sources {
            let result = if to_stdout {
                getting.stream(&source.path, &mut io::stdout().lock())
            } else {
                // It looks whether a signal came before its first step.
                getting.source(source, &target, into)
            };
            let is_whole = result.is_ok();
            getting.failures.note(result.about(source.shown()));
            if (interrupt::came() && !is_whole) || getting.failures.stop() {
                break;
            }
        }
        getting.end(&target, Format::of(copying.json))
    })
}

/// Says what of the target cannot be, before anything is opened.
fn check_target(
    target: &Path,
    sources: usize,
    takes_many: bool,
    to_stdout: bool,
    copying: &Copying,
) -> Result<()> {
    if sources > 1 && !takes_many {
        return Err(Failure::usage(format!(
            "{}: several files can be copied only into an existing directory",
            show_path(target)
        )));
    }
    if to_stdout && copying.json {
        return Err(Failure::usage(
            "--json does not work when the files go to standard output",
        ));
    }
    let parent = parent_of(target);
    if !takes_many && !parent.is_dir() {
        let message = "no such local directory; make it first";
        return Err(Failure::new(ExitCode::NotFound, message)).about(show_path(parent));
    }
    Ok(())
}

/// Counts the files below `path`, but for what patterns name. False if they cannot be counted.
fn count(vault: &Vault, path: &[u8], patterns: &[Exclude], totals: &Totals) -> bool {
    let Ok(mut walk) = Walk::new(vault, path, usize::MAX) else {
        return false;
    };
    while let Some(step) = walk.next() {
        let Ok(step) = step else { return false };
        if excludes(patterns, relative(&step.path, path), step.at == At::Enter) {
            walk.pass_by(&step);
        } else if step.at == At::Node {
            totals.add(step.attributes.size);
        }
        if !totals.goes_on() {
            return false;
        }
    }
    true
}

/// `path` as patterns name it, in a copy of `top`.
fn relative<'a>(path: &'a [u8], top: &[u8]) -> &'a [u8] {
    let rest = path.strip_prefix(top).unwrap_or_default();
    rest.strip_prefix(b"/").unwrap_or(rest)
}

/// A copy under way.
struct Getting<'a> {
    vault: &'a Vault,
    copying: &'a Copying,
    owners: Owners,
    rights: Rights,
    part: Vec<u8>,
    progress: Progress,
    failures: Failures,
    account: Account,
    targets: Targets,
    mounts: OwnMounts,
    disk: Option<File>,
    /// Of files with several names: where the first one is, and its device and inode there.
    links: LinkTable<InodeId, (PathBuf, (u64, u64))>,
}

/// A directory that is being copied.
struct Level {
    /// `None` if it could not be made: what is in it is left out with it.
    local: Option<PathBuf>,
    /// All names, if others are to be removed.
    all: HashSet<Vec<u8>>,
}

impl<'a> Getting<'a> {
    fn new(vault: &'a Vault, copying: &'a Copying, rights: Rights) -> Self {
        Self {
            vault,
            copying,
            owners: Owners::of(copying.no_owner),
            rights,
            part: vec![0; PART_BYTES],
            progress: Progress::new(copying.quiet),
            failures: Failures::default(),
            account: Account::default(),
            targets: Targets::default(),
            mounts: OwnMounts::of(vault),
            disk: None,
            links: LinkTable::new(),
        }
    }

    /// Waits until what was written is on the disk: some disks say only then that they are full, or that a write failed.
    fn end(mut self, target: &Path, format: Format) -> Result<()> {
        if let Some(disk) = &self.disk
            && self.account.made() > 0
            && !interrupt::came()
        {
            let synced = syncfs(disk).map_err(|error| Failure::from(io::Error::from(error)));
            self.failures.note(synced.about(show_path(target)));
        }
        drop(self.progress);
        self.account.show(&self.failures, format)?;
        self.failures.end()
    }

    fn source(&mut self, source: &Location, target: &Path, into: bool) -> Result<()> {
        // A directory that was named by a link is that directory.
        let target = match into && target.is_symlink() {
            true => fs::canonicalize(target)?,
            false => target.to_owned(),
        };
        let top = match last_name(&source.path) {
            Some(name) if into => target.join(OsStr::from_bytes(name)),
            // The root: what is in it goes into the target itself.
            _ => target,
        };
        let key = top.as_os_str().as_bytes();
        self.targets.take(key, &source.path)?;
        check_outside(&top, self.vault.folder())?;
        self.mounts.check_not_inside(self.vault, &top, source)?;
        let mut walk = Walk::new(self.vault, &source.path, usize::MAX)?;
        let mut levels: Vec<Level> = Vec::new();
        while let Some(step) = walk.next() {
            interrupt::check()?;
            let step = step?;
            levels.truncate(step.depth + usize::from(step.at == At::Leave));
            if step.at == At::Again {
                if let (Some(level), Some(name)) = (levels.last_mut(), last_name(&step.path)) {
                    // Not copied, but there: what an earlier copy made of it stays.
                    level.child(name, self.copying.delete);
                }
                self.failures.note(Err(step.again()));
                continue;
            }
            let relative = relative(&step.path, &source.path);
            if step.at != At::Leave
                && excludes(&self.copying.exclude, relative, step.at == At::Enter)
            {
                self.account.excluded += 1;
                walk.pass_by(&step);
                continue;
            }
            let local = match step.at {
                At::Leave => levels[step.depth].local.clone(),
                _ => match (levels.last_mut(), last_name(&step.path)) {
                    (None, _) if !into => Some(check_named(&top, &step.attributes)?),
                    (None, _) => Some(top.clone()),
                    (Some(level), Some(name)) => level.child(name, self.copying.delete),
                    (Some(_), None) => None,
                },
            };
            let done = match &local {
                Some(local) if step.at == At::Leave => {
                    self.leave(&step, local, relative, &mut levels[step.depth].all)
                }
                Some(local) => self.step(&step, local, relative),
                None => Ok(()),
            };
            if step.at == At::Enter {
                let local = local.filter(|_| done.is_ok());
                let all = HashSet::new();
                levels.push(Level { local, all });
            }
            // An interruption is told once, for the whole copy.
            if !interrupt::came() {
                self.failures.note(done.about(show(&step.path)));
            }
            if self.failures.stop() {
                return Ok(());
            }
        }
        interrupt::check()
    }

    /// One step into a directory, or one node.
    fn step(&mut self, step: &Step, local: &Path, relative: &[u8]) -> Result<()> {
        let there = fs::symlink_metadata(local).ok();
        let there = there.and_then(|there| attributes_of(&there));
        if let Some(now) = &there
            && self.copying.delete
            && is_in_the_way(now.kind, step.attributes.kind)
        {
            let spared = Spared::of(self.vault.folder(), &self.copying.exclude);
            mirror::remove_local(local, relative, &spared, &mut self.account.removed)?;
        }
        match step.at {
            At::Enter => {
                check_not_vault(local, self.vault.folder())?;
                make_directory(local)
            }
            _ => self.node(step, local, there.as_ref()),
        }
    }

    fn leave(
        &mut self,
        step: &Step,
        local: &Path,
        relative: &[u8],
        all: &mut HashSet<Vec<u8>>,
    ) -> Result<()> {
        if self.copying.delete {
            let targets = self.targets.names_in(local.as_os_str().as_bytes());
            all.extend(targets.into_iter().map(<[u8]>::to_vec));
            let spared = Spared::of(self.vault.folder(), &self.copying.exclude);
            let removed = &mut self.account.removed;
            mirror::remove_local_others(local, relative, all, &spared, removed)?;
        }
        self.leave_directory(step, local)
    }

    fn leave_directory(&mut self, step: &Step, local: &Path) -> Result<()> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let directory = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(local)?;
        self.account.directories += 1;
        self.dress(step, |dress, account| dress.file(&directory, account))
    }

    fn node(&mut self, step: &Step, local: &Path, there: Option<&Attributes>) -> Result<()> {
        let Attributes {
            kind, nlink, inode, ..
        } = step.attributes;
        if self.rights == Rights::Withheld
            && matches!(kind, NodeKind::CharDevice | NodeKind::BlockDevice)
        {
            self.account.withheld_devices += 1;
            return Ok(());
        }
        if nlink > 1 && self.further_name(inode, local)? {
            self.account.hard_links += 1;
            self.progress.advance(step.attributes.size);
            return Ok(());
        }
        if let Some(there) = there
            && self.is_there(step, local, there)?
        {
            return self.remember(step, local);
        }
        match kind {
            NodeKind::File => self.file(step, local)?,
            NodeKind::Symlink => {
                let target = self.vault.read_link(&step.path)?;
                self.small(step, local, |beside| {
                    Ok(symlink(OsStr::from_bytes(&target), beside)?)
                })?;
                self.account.symlinks += 1;
            }
            kind => {
                let rdev = step.attributes.rdev;
                self.small(step, local, |beside| make_special(beside, kind, rdev))?;
                self.account.special += 1;
            }
        }
        self.remember(step, local)
    }

    /// Remembers the copy of a node with several names.
    fn remember(&mut self, step: &Step, local: &Path) -> Result<()> {
        let Attributes { nlink, inode, .. } = step.attributes;
        if nlink > 1 {
            let made = fs::symlink_metadata(local)?;
            let place = (local.to_owned(), (made.dev(), made.ino()));
            self.links.put(inode, place, u64::from(nlink));
        }
        Ok(())
    }

    /// Whether what is `there` is as the vault has it; its mode and owner are after that.
    fn is_there(&mut self, step: &Step, local: &Path, there: &Attributes) -> Result<bool> {
        let source = &step.attributes;
        let is_same = is_unchanged(
            self.vault,
            &step.path,
            local,
            (source, there),
            (self.copying, &mut self.part),
        )?;
        if !is_same {
            return Ok(false);
        }
        let (wanted, _) = self.rights.attributes(source);
        let (uid, gid) = (wanted.uid, wanted.gid);
        let mode = self.owners.mode(wanted.kind, wanted.mode, uid, gid);
        let is_owned = self.owners == Owners::Dropped || (uid, gid) == (there.uid, there.gid);
        let is_dated = there.mtime == wanted.mtime;
        let has_mode = there.mode == mode || wanted.kind == NodeKind::Symlink;
        if !(is_owned && is_dated && has_mode) {
            self.dress(step, |dress, account| dress.name(local, account))?;
        }
        self.account.unchanged += 1;
        self.progress.file(&step.path);
        self.progress.advance(source.size);
        Ok(true)
    }

    /// Gives what was copied before the further name `local`, if it still is there.
    fn further_name(&mut self, inode: InodeId, local: &Path) -> Result<bool> {
        let Some((first, identity)) = self.links.take(&inode) else {
            return Ok(false);
        };
        let is_it = |path: &Path| {
            fs::symlink_metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == identity)
        };
        if is_it(local) {
            // A rename would leave both names.
            return Ok(true);
        }
        let mut same = false;
        let placed = place(local, |beside| {
            fs::hard_link(&first, beside)?;
            same = is_it(beside);
            if same {
                Ok(())
            } else {
                Err(io::Error::from(ErrorKind::NotFound).into())
            }
        });
        if same {
            return placed.map(|()| true);
        }
        if let Err(failure) = placed {
            let why = failure.message.unwrap_or_default();
            self.account.left_out(
                local.as_os_str().as_bytes(),
                "the hard link; the copy is possibly a separate file",
                why,
            );
        }
        Ok(false)
    }

    /// Makes what has no content, with its attributes, and names it.
    fn small(
        &mut self,
        step: &Step,
        local: &Path,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        place(local, |beside| {
            make(beside)?;
            self.dress(step, |dress, account| dress.name(beside, account))
        })
    }

    fn file(&mut self, step: &Step, local: &Path) -> Result<()> {
        self.progress.file(&step.path);
        place(local, |beside| {
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(beside)?;
            self.content(&step.path, &file)?;
            self.dress(step, |dress, account| dress.file(&file, account))
        })?;
        self.account.files += 1;
        Ok(())
    }

    /// Puts onto a copy what belongs to the node besides its content.
    fn dress(
        &mut self,
        step: &Step,
        put: impl FnOnce(&Dress<'_>, &mut Account) -> Result<()>,
    ) -> Result<()> {
        let mut xattrs = Vec::new();
        let (attributes, mut withheld) = self.rights.attributes(&step.attributes);
        for name in self.vault.xattrs(&step.path, Links::Stay)? {
            if self.rights.withholds_xattr(&name) {
                withheld = true;
                continue;
            }
            match self.owners.keep_xattr(&name) {
                Keeping::Yes => match self.vault.xattr(&step.path, Links::Stay, &name) {
                    Ok(value) => xattrs.push((name, value)),
                    // Removed meanwhile.
                    Err(Error::File(FileError::NoAttribute)) => {}
                    Err(error) => return Err(error.into()),
                },
                Keeping::No(why) => self.account.left_out(&step.path, &name, why),
                Keeping::Silently => {}
            }
        }
        self.account.withheld_rights += u64::from(withheld);
        let dress = Dress {
            attributes: &attributes,
            xattrs: &xattrs,
            owners: self.owners,
            subject: &step.path,
        };
        put(&dress, &mut self.account)
    }

    /// Copies data and leaves out holes.
    fn content(&mut self, path: &[u8], target: &File) -> Result<()> {
        let file = self.vault.open_file(path, FileOptions::new().read())?;
        let size = file.attributes()?.size;
        let mut at = 0;
        while let Some((from, to)) = next_data(&file, at, size)? {
            self.progress.advance(from.saturating_sub(at));
            at = from;
            while at < to {
                interrupt::check()?;
                let wanted = usize::try_from(to - at)
                    .unwrap_or(PART_BYTES)
                    .min(PART_BYTES);
                let count = file.read_at(&mut self.part[..wanted], at)?;
                target.write_all_at(&self.part[..count], at)?;
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
            target.set_len(size)?;
        }
        Ok(())
    }

    /// Copies content to where there are no holes.
    fn stream(&mut self, path: &[u8], target: &mut dyn Write) -> Result<()> {
        let file = self.vault.open_file(path, FileOptions::new().read())?;
        let mut offset = 0;
        loop {
            let count = file.read_at(&mut self.part, offset)?;
            target.write_all(&self.part[..count])?;
            offset += count as u64;
            self.progress.advance(count as u64);
            if count < self.part.len() {
                return Ok(target.flush()?);
            }
        }
    }
}

impl Level {
    /// Where a node of that name goes.
    fn child(&mut self, name: &[u8], remembered: bool) -> Option<PathBuf> {
        if remembered {
            self.all.insert(name.to_vec());
        }
        let local = self.local.as_ref()?;
        Some(local.join(OsStr::from_bytes(name)))
    }
}

/// The next run of data at or behind `offset`, before `size`.
fn next_data(file: &strongroom::File, offset: u64, size: u64) -> Result<Option<(u64, u64)>> {
    let find = |target, offset| match file.find(target, offset) {
        Ok(found) => Ok(Some(found)),
        Err(Error::File(FileError::NoSuchOffset)) => Ok(None),
        Err(error) => Err(error),
    };
    let Some(from) = find(SeekTarget::Data, offset)?.filter(|from| *from < size) else {
        return Ok(None);
    };
    let to = find(SeekTarget::Hole, from)?.unwrap_or(size).min(size);
    // Punched in between: there is nothing there any more, which reading finds out as well.
    Ok(Some((from, if to > from { to } else { size })))
}

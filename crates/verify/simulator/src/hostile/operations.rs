//! The operations of an attacker who can write to the folder, on one of its files.
//!
//! Takes   a copy of the template, a path in it, and an operation
//! Gives   the operation carried out, and whether the folder is another vault because of it
//! Never   touches anything but that path, a new file beside it, and links to the outside

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use strongroom_format::intent::scan;

use super::log::{Log, PAGE};
use super::mixing::DATABASE;
use crate::damage::base::{copy, files};
use crate::random::Choices;

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// The log of small syncs.
const INTENTS: &str = "intents";

/// What a verification that was stopped leaves.
const STATE: &str = "verify-state.json";

/// The user to whom a file is given.
const ANOTHER_USER: u32 = 65_534;

/// Where the other states lie, and what is outside.
#[derive(Clone, Debug)]
pub struct Around {
    /// An older state of the folder.
    pub older: PathBuf,
    /// A copy of the folder that was written to differently.
    pub branch: PathBuf,
    /// Another vault.
    pub other: PathBuf,
    /// The canary: what must not be touched.
    pub outside: PathBuf,
    /// Of random places.
    pub seed: u64,
}

/// What is done to a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// One bit of the first byte is another.
    FlipStart,
    /// One bit of the byte in the middle is another.
    FlipMiddle,
    /// One bit of the last byte is another.
    FlipEnd,
    /// One bit somewhere is another.
    FlipRandom,
    /// Nothing of it is left.
    CutAll,
    /// Half of it is left.
    CutHalf,
    /// The last byte is missing.
    CutByte,
    /// The last sector is missing.
    CutSector,
    /// A byte follows.
    ExtendByte,
    /// A sector follows.
    ExtendSector,
    /// It is a TiB long, and takes no room.
    ExtendSparse,
    /// A sector of it is zeros.
    ZeroSector,
    /// All of it is zeros.
    ZeroAll,
    /// An older state of it stands there.
    Older,
    /// That of a copy of the vault, which was written to differently.
    Branch,
    /// That of another vault.
    OtherVault,
    /// A symbolic link to a file outside.
    LinkFile,
    /// A symbolic link to its own copy outside.
    LinkCopy,
    /// A symbolic link to a folder outside.
    LinkDirectory,
    /// A symbolic link to nothing, outside.
    LinkDangling,
    /// A symbolic link to itself.
    LinkSelf,
    /// A further name of a file outside.
    HardLink,
    /// A pipe, which nobody writes to.
    Pipe,
    /// A socket.
    Socket,
    /// A device that is empty.
    DeviceNull,
    /// A device that never ends.
    DeviceEndless,
    /// An empty folder.
    Directory,
    /// It is missing.
    Missing,
    /// It is there once more, under another name.
    Doubled,
    /// It belongs to another user.
    AnotherOwner,
    /// Its mode allows nothing.
    NoMode,
    /// Its mode allows reading only.
    ReadOnlyMode,
    /// Something made up, where the vault has nothing.
    Planted,
    /// One bit of a record of the log of small syncs is another; a later record says that it was acknowledged.
    FlipRecord,
    /// One bit of the last record of that log is another.
    FlipLastRecord,
    /// One bit of a segment is another, and the state of a stopped verification says that all segments were read.
    FlipBehindState,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The vault is another than before.
    Changed,
    /// It says the same as before.
    Equal,
    /// It says the same as before, for the log of the database holds all that was changed.
    Overlaid,
    /// There is nothing that this could be done to.
    Nothing,
}

impl Operation {
    /// Every one, in order.
    pub const ALL: [Self; 36] = [
        Self::FlipStart,
        Self::FlipMiddle,
        Self::FlipEnd,
        Self::FlipRandom,
        Self::CutAll,
        Self::CutHalf,
        Self::CutByte,
        Self::CutSector,
        Self::ExtendByte,
        Self::ExtendSector,
        Self::ExtendSparse,
        Self::ZeroSector,
        Self::ZeroAll,
        Self::Older,
        Self::Branch,
        Self::OtherVault,
        Self::LinkFile,
        Self::LinkCopy,
        Self::LinkDirectory,
        Self::LinkDangling,
        Self::LinkSelf,
        Self::HardLink,
        Self::Pipe,
        Self::Socket,
        Self::DeviceNull,
        Self::DeviceEndless,
        Self::Directory,
        Self::Missing,
        Self::Doubled,
        Self::AnotherOwner,
        Self::NoMode,
        Self::ReadOnlyMode,
        Self::Planted,
        Self::FlipRecord,
        Self::FlipLastRecord,
        Self::FlipBehindState,
    ];

    /// As the command line calls it.
    #[must_use]
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// Whether something else than a file or folder of this vault stands there after.
    #[must_use]
    pub const fn is_odd(self) -> bool {
        matches!(
            self,
            Self::LinkFile
                | Self::LinkCopy
                | Self::LinkDirectory
                | Self::LinkDangling
                | Self::LinkSelf
                | Self::HardLink
                | Self::Pipe
                | Self::Socket
                | Self::DeviceNull
                | Self::DeviceEndless
                | Self::Directory
        )
    }

    /// Whether it can be done to what is at `relative`: nothing, a file or a folder.
    #[must_use]
    pub fn fits(self, relative: &str, kind: Option<&fs::Metadata>) -> bool {
        use Operation as O;
        match (self, kind) {
            (O::Older | O::Branch | O::OtherVault, _) => true,
            (O::Planted, kind) => kind.is_none(),
            (O::LinkCopy | O::Missing | O::Doubled, kind) => kind.is_some() && relative != ".",
            (O::AnotherOwner | O::NoMode | O::ReadOnlyMode, kind) => kind.is_some(),
            (operation, _) if operation.is_odd() => relative != ".",
            (O::FlipRecord | O::FlipLastRecord, kind) => kind.is_some() && relative == INTENTS,
            (O::FlipBehindState, kind) => kind.is_some() && relative.starts_with("segments/"),
            (_, kind) => kind.is_some_and(fs::Metadata::is_file),
        }
    }

    /// Carries it out on `relative` in `folder`.
    ///
    /// # Errors
    /// Of the disk.
    pub fn apply(self, folder: &Path, relative: &str, around: &Around) -> io::Result<Applied> {
        let path = folder.join(relative);
        let kind = fs::symlink_metadata(&path).ok();
        let is_file = kind.as_ref().is_some_and(fs::Metadata::is_file);
        let is_folder = kind.as_ref().is_some_and(fs::Metadata::is_dir);
        let before = is_file.then(|| fs::read(&path)).transpose()?;
        let is_database = relative == DATABASE;
        let pages = is_database.then(|| newest_pages(folder)).flatten();
        let done = match self {
            Self::Older => replace(folder, relative, &around.older)?,
            Self::Branch => replace(folder, relative, &around.branch)?,
            Self::OtherVault => replace(folder, relative, &around.other)?,
            Self::AnotherOwner | Self::NoMode | Self::ReadOnlyMode => {
                self.mode(&path, is_folder)?
            }
            Self::Missing if kind.is_some() => remove(&path).map(|()| true)?,
            Self::Doubled if kind.is_some() => double(folder, relative)?,
            Self::Planted if kind.is_none() => plant(&path)?,
            Self::FlipBehindState if is_file && relative.starts_with("segments/") => {
                plant(&folder.join(STATE))? && Self::FlipMiddle.bytes(&path, around)?
            }
            Self::FlipRecord | Self::FlipLastRecord => self.flip_record(&path, around)?,
            Self::Missing | Self::Doubled | Self::Planted | Self::FlipBehindState => false,
            _ if self.is_odd() => self.replace_by_odd(&path, relative, around)?,
            _ if is_file => self.bytes(&path, around)?,
            _ => false,
        };
        if !done {
            return Ok(Applied::Nothing);
        }
        let is_equal = before.is_some_and(|before| says_the_same(relative, &path, &before))
            || matches!(self, Self::AnotherOwner | Self::NoMode | Self::ReadOnlyMode);
        let is_overlaid = pages.is_some() && pages == newest_pages(folder);
        if is_overlaid && !is_equal && !self.is_odd() && self != Self::Doubled {
            return Ok(Applied::Overlaid);
        }
        let is_beside = self == Self::Doubled;
        Ok(match is_equal && !is_beside && self != Self::HardLink {
            true => Applied::Equal,
            false => Applied::Changed,
        })
    }

    /// Changes bytes in their place.
    fn bytes(self, path: &Path, around: &Around) -> io::Result<bool> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let len = file.metadata()?.len();
        let mut choices = Choices::named(around.seed, &[17, len]);
        let sector = choices.below(len.div_ceil(SECTOR).max(1)) * SECTOR;
        match self {
            Self::FlipStart if len > 0 => flip(&file, 0)?,
            Self::FlipMiddle if len > 0 => flip(&file, len / 2)?,
            Self::FlipEnd if len > 0 => flip(&file, len - 1)?,
            Self::FlipRandom if len > 0 => flip(&file, choices.below(len))?,
            Self::CutAll if len > 0 => file.set_len(0)?,
            Self::CutHalf if len > 1 => file.set_len(len / 2)?,
            Self::CutByte if len > 0 => file.set_len(len - 1)?,
            Self::CutSector if len > SECTOR => file.set_len(len - SECTOR)?,
            Self::ExtendByte => file.write_all_at(&[7], len)?,
            Self::ExtendSector => file.write_all_at(&[7; SECTOR as usize], len)?,
            Self::ExtendSparse => return Ok(file.set_len(1 << 40).is_ok()),
            Self::ZeroSector if len > 0 => zero(&file, sector, SECTOR.min(len - sector))?,
            Self::ZeroAll if len > 0 => zero(&file, 0, len)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Flips a bit of a record of the log of small syncs: of the last, or of one before.
    fn flip_record(self, path: &Path, around: &Around) -> io::Result<bool> {
        let bytes = fs::read(path)?;
        let found = scan(&bytes).map(|found| found.records).unwrap_or_default();
        let Some((last, before)) = found.split_last() else {
            return Ok(false);
        };
        let mut choices = Choices::named(around.seed, &[18]);
        let record = match self {
            Self::FlipLastRecord => last,
            _ if before.is_empty() => return Ok(false),
            _ => &before[usize::try_from(choices.below(before.len() as u64)).unwrap_or(0)],
        };
        let begins = record.sealed.as_ptr().addr() - bytes.as_ptr().addr();
        let within = choices.below(record.sealed.len() as u64);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        flip(&file, begins as u64 + within)?;
        Ok(true)
    }

    fn mode(self, path: &Path, is_folder: bool) -> io::Result<bool> {
        // Of anybody but the superuser these take the permission to read.
        if !path.exists() || !rustix::process::geteuid().is_root() {
            return Ok(false);
        }
        let mode = |file, folder| if is_folder { folder } else { file };
        match self {
            Self::AnotherOwner => chown(path, Some(ANOTHER_USER), Some(ANOTHER_USER))?,
            Self::NoMode => fs::set_permissions(path, fs::Permissions::from_mode(0o000))?,
            _ => fs::set_permissions(path, fs::Permissions::from_mode(mode(0o400, 0o500)))?,
        }
        Ok(true)
    }

    fn replace_by_odd(self, path: &Path, relative: &str, around: &Around) -> io::Result<bool> {
        let outside = &around.outside;
        let copied = outside.join("copied");
        if self == Self::LinkCopy {
            match fs::symlink_metadata(path) {
                Ok(kind) if kind.is_dir() => copy(path, &copied)?,
                Ok(_) => drop(fs::copy(path, &copied)?),
                Err(_) => return Ok(false),
            }
        }
        if path.parent().is_none_or(|parent| !parent.is_dir()) || relative == "." {
            return Ok(false);
        }
        remove(path)?;
        match self {
            Self::LinkFile => symlink(outside.join("thesis"), path)?,
            Self::LinkCopy => symlink(copied, path)?,
            Self::LinkDirectory => symlink(outside.join("vault"), path)?,
            Self::LinkDangling => symlink(outside.join("to be"), path)?,
            Self::LinkSelf => symlink(path, path)?,
            Self::HardLink => fs::hard_link(outside.join("thesis"), path)?,
            Self::Directory => fs::create_dir(path)?,
            _ => return node(self, path),
        }
        Ok(true)
    }
}

fn node(operation: Operation, path: &Path) -> io::Result<bool> {
    let (kind, device) = match operation {
        Operation::Pipe => (FileType::Fifo, 0),
        Operation::Socket => (FileType::Socket, 0),
        Operation::DeviceNull => (FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
        _ => (FileType::CharacterDevice, rustix::fs::makedev(1, 5)),
    };
    // Only the superuser makes devices, and not in every container.
    match mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn flip(file: &fs::File, at: u64) -> io::Result<()> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    file.write_all_at(&[byte[0] ^ 0x10], at)
}

fn zero(mut file: &fs::File, at: u64, len: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    let mut zeros = io::repeat(0).take(len);
    io::copy(&mut zeros, &mut file)?;
    file.flush()
}

/// Removes what stands there, whatever it is.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(kind) if kind.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Puts what another state has there in its place: the file of that name, or one of the same sort, or none.
fn replace(folder: &Path, relative: &str, state: &Path) -> io::Result<bool> {
    let path = folder.join(relative);
    let theirs = state.join(relative);
    if relative == "." {
        fs::remove_dir_all(folder)?;
        copy(state, folder)?;
        return Ok(true);
    }
    if theirs.is_dir() {
        remove(&path)?;
        copy(&theirs, &path)?;
        return Ok(true);
    }
    let theirs = match theirs.is_file() {
        true => theirs,
        false => match like(relative, state) {
            Some(theirs) => theirs,
            None => return Ok(false),
        },
    };
    if path.parent().is_none_or(|parent| !parent.is_dir()) {
        return Ok(false);
    }
    remove(&path)?;
    fs::copy(theirs, &path)?;
    Ok(true)
}

/// A segment or record of another state: their names are never those of this one.
fn like(relative: &str, state: &Path) -> Option<PathBuf> {
    let sort = relative.split_once('/')?.0;
    let mut all = files(state).into_iter();
    let found = all.find(|file| file.starts_with(sort) && file.as_str() != relative)?;
    Some(state.join(found))
}

/// The same content once more, under a name that somebody could look for.
fn double(folder: &Path, relative: &str) -> io::Result<bool> {
    let path = folder.join(relative);
    let mut name = relative.to_owned();
    match relative.rsplit_once('/') {
        // One digit of the name of a segment or a record is another.
        Some((_, last)) if last.len() > 8 => {
            let end = name.pop();
            name.push(if end == Some('0') { '1' } else { '0' });
        }
        _ if relative == "." => return Ok(false),
        _ => name.push_str(".new"),
    }
    match path.is_dir() {
        true => copy(&path, &folder.join(name))?,
        false => drop(fs::copy(&path, folder.join(name))?),
    }
    Ok(true)
}

/// Content that somebody made up, under a name that means something.
fn plant(path: &Path) -> io::Result<bool> {
    if path.parent().is_none_or(|parent| !parent.is_dir()) {
        return Ok(false);
    }
    let state = r#"{"deep":false,"after":"ffffffffffffffffffffffffffffffff","bytes":1,"blocks":1,"suspects":[]}"#;
    fs::write(path, state)?;
    Ok(true)
}

/// More pages than the database of the template has.
const PAGES_MAX: usize = 1 << 14;

/// The pages of the database as its log has them.
fn newest_pages(folder: &Path) -> Option<Vec<Vec<u8>>> {
    let bytes = read_bounded(&folder.join(DATABASE))?;
    let log = read_bounded(&folder.join(format!("{DATABASE}-wal")))?;
    let frames = Log::parse(&log)?.frames;
    let mut pages: Vec<Vec<u8>> = bytes.chunks(PAGE).map(<[u8]>::to_vec).collect();
    let mut end = PAGES_MAX;
    for frame in frames {
        let index = (frame.page as usize)
            .checked_sub(1)
            .filter(|index| *index < PAGES_MAX)?;
        pages.resize(pages.len().max(index + 1), Vec::new());
        pages[index] = frame.bytes;
        if frame.ends > 0 {
            end = frame.ends as usize;
        }
    }
    pages.truncate(end);
    Some(pages)
}

/// The bytes of a file of the template; `None` for one that was extended beyond what any has, and for what is no file: a
/// device may never end, and nobody writes to a pipe.
fn read_bounded(path: &Path) -> Option<Vec<u8>> {
    let kind = fs::symlink_metadata(path).ok()?;
    let is_bounded = kind.is_file() && kind.len() <= (PAGES_MAX * PAGE) as u64;
    is_bounded.then(|| fs::read(path).ok())?
}

/// Whether the file says what it said before: noise behind the last record of the log of small syncs says nothing.
fn says_the_same(relative: &str, path: &Path, before: &[u8]) -> bool {
    let kind = fs::symlink_metadata(path);
    let is_file = kind.is_ok_and(|kind| kind.is_file() && kind.len() == before.len() as u64);
    let Some(bytes) = is_file.then(|| fs::read(path).ok()).flatten() else {
        return false;
    };
    let is_same_log = || match (scan(&bytes), scan(before)) {
        (Ok(now), Ok(then)) => now == then,
        _ => false,
    };
    bytes == before || relative == INTENTS && is_same_log()
}

//! The types of the header, and their Rust equivalents.

use std::ffi::{c_char, c_int, c_void};

use strongroom::filesystem::{
    AllocateMode, Attributes, Durability, NodeKind, RenameMode, SeekTarget, SetAttributes, SetTime,
    Timestamp, XattrMode,
};
use strongroom::{FileOptions, Links};

use crate::border::{Outcome, invalid, offset};

// ---- handles

/// An open vault. Close it with sr_close.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sr_vault {
    /// Only for the library.
    pub id: u64,
}

/// An open file. Close it with sr_file_close.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sr_file {
    /// Only for the library.
    pub id: u64,
}

/// A listing. Close it with sr_directory_close.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sr_directory {
    /// Only for the library.
    pub id: u64,
}

/// A walk over a tree. Close it with sr_walk_close.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sr_walk {
    /// Only for the library.
    pub id: u64,
}

/// One state of a vault, to be read. Close it with sr_snapshot_close.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sr_snapshot {
    /// Only for the library.
    pub id: u64,
}

/// Changes that happen all or not at all. It ends with sr_commit or sr_roll_back.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sr_transaction {
    /// Only for the library.
    pub id: u64,
}

/// The keys of a vault. Close it with sr_keys_close.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sr_keys {
    /// Only for the library.
    pub id: u64,
}

/// A continuous sync. It ends with sr_continuous_sync_finish or sr_continuous_sync_close.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sr_continuous_sync {
    /// Only for the library.
    pub id: u64,
}

/// The offer that a new device may join. Close it with sr_invitation_close.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sr_invitation {
    /// Only for the library.
    pub id: u64,
}

/// A device that wants to join a vault. Close it with sr_new_device_close.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sr_new_device {
    /// Only for the library.
    pub id: u64,
}

// ---- memory

/// Bytes that the library gave. Give them back with sr_bytes_free, which wipes them.
#[repr(C)]
#[derive(Debug)]
pub struct sr_bytes {
    /// The bytes, and a NUL behind them that does not count. Never NULL.
    pub data: *mut u8,
    /// How many. Do not change it.
    pub len: u64,
}

/// Names or paths that the library gave. Give them back with sr_names_free.
#[repr(C)]
#[derive(Debug)]
pub struct sr_names {
    /// The names; NULL if there is none.
    pub items: *mut sr_bytes,
    /// How many. Do not change it.
    pub count: u64,
}

// ---- secrets and options

/// sr_secret.kind: a passphrase, in UTF-8.
pub const SR_PASSPHRASE: u32 = 1;
/// sr_secret.kind: the content of a key file.
pub const SR_KEY_FILE: u32 = 2;
/// sr_secret.kind: a recovery code, as sr_create gave it.
pub const SR_RECOVERY_CODE: u32 = 3;
/// sr_secret.kind: an age identity file, or an SSH private key without a passphrase. It opens; it is not what a key is added with.
pub const SR_IDENTITY: u32 = 4;
/// sr_secret.kind: an age recipient, or a line of an SSH public key file. A key is added with it; it opens nothing.
pub const SR_RECIPIENT: u32 = 5;

/// What opens a vault, or shall open it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sr_secret {
    /// SR_PASSPHRASE, SR_KEY_FILE, SR_RECOVERY_CODE, SR_IDENTITY or SR_RECIPIENT.
    pub kind: u32,
    /// The bytes. The library keeps no pointer to them: wipe them after the call.
    pub data: *const c_void,
    /// How many.
    pub len: u64,
}

/// sr_options.flags: for reading only.
pub const SR_READ_ONLY: u32 = 1;
/// sr_options.flags: as the only one that opens it. Without it, a vault that another process has open is used through that one.
pub const SR_OWN: u32 = 2;
/// sr_options.flags: also if the folder is older than what was seen of the vault, as after a backup was put back.
pub const SR_ACCEPT_OLDER: u32 = 4;
/// sr_options.flags: nothing is recorded of the vault in the user's folder, and an older folder is not noticed.
pub const SR_NO_RECORDS: u32 = 8;
/// sr_options.flags, of a clone only: the content of files stays at the remote until it is read.
pub const SR_ON_DEMAND: u32 = 16;

/// How a vault is made or opened. Begin with SR_OPTIONS_INIT, so that fields which you do not know are right.
///
/// Fields of a later header, which this library does not know, must be 0: else, or with a size above 4096, a call fails with -E2BIG.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sr_options {
    /// sizeof (sr_options), as SR_OPTIONS_INIT sets it.
    pub size: u64,
    /// Flags, joined by |.
    pub flags: u32,
    /// The only vault that may be meant, by its fingerprint; NULL for any.
    pub fingerprint: *const c_char,
    /// The folder of the machine where it is recorded what was seen of vaults; NULL for that of the user.
    pub records_folder: *const c_char,
}

// ---- attributes

/// sr_stat.kind: a file.
pub const SR_KIND_FILE: u32 = 1;
/// sr_stat.kind: a directory.
pub const SR_KIND_DIRECTORY: u32 = 2;
/// sr_stat.kind: a symbolic link.
pub const SR_KIND_SYMLINK: u32 = 3;
/// sr_stat.kind: a named pipe.
pub const SR_KIND_PIPE: u32 = 4;
/// sr_stat.kind: a socket.
pub const SR_KIND_SOCKET: u32 = 5;
/// sr_stat.kind: a character device.
pub const SR_KIND_CHARACTER_DEVICE: u32 = 6;
/// sr_stat.kind: a block device.
pub const SR_KIND_BLOCK_DEVICE: u32 = 7;

/// What stat(2) shows of a node. Times are nanoseconds since 1970, negative before.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sr_stat {
    /// Its number.
    pub inode: u64,
    /// Bytes of content.
    pub size: u64,
    /// Units of 512 bytes that it takes.
    pub blocks: u64,
    /// The number of a device, else 0.
    pub rdev: u64,
    /// Last access.
    pub atime: i64,
    /// Last change of content.
    pub mtime: i64,
    /// Last change of anything.
    pub ctime: i64,
    /// When it was made.
    pub btime: i64,
    /// SR_KIND_FILE and so on.
    pub kind: u32,
    /// The low 12 bits of the mode.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// How many names it has.
    pub nlink: u32,
}

/// One name of a directory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sr_entry {
    /// What stat shows of the node, of a symlink itself.
    pub stat: sr_stat,
    /// 1 to 255 bytes, and NUL.
    pub name: [c_char; 256],
}

/// sr_set.what: the mode.
pub const SR_SET_MODE: u32 = 1;
/// sr_set.what: the owner.
pub const SR_SET_UID: u32 = 2;
/// sr_set.what: the group.
pub const SR_SET_GID: u32 = 4;
/// sr_set.what: the size.
pub const SR_SET_SIZE: u32 = 8;
/// sr_set.what: the time of last access.
pub const SR_SET_ATIME: u32 = 16;
/// sr_set.what: the time of last change of content.
pub const SR_SET_MTIME: u32 = 32;
/// sr_set.what: the time of last access, to now.
pub const SR_SET_ATIME_NOW: u32 = 64;
/// sr_set.what: the time of last change of content, to now.
pub const SR_SET_MTIME_NOW: u32 = 128;

/// Which attributes to change, and to what.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sr_set {
    /// SR_SET_MODE and so on, joined by |; all others stay.
    pub what: u32,
    /// The low 12 bits of the mode.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of content.
    pub size: u64,
    /// Last access, in nanoseconds since 1970.
    pub atime: i64,
    /// Last change of content.
    pub mtime: i64,
}

/// How full the disk is, or the quota.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sr_space {
    /// Of the disk, or the quota if that is less.
    pub total_bytes: u64,
    /// What can still be written.
    pub free_bytes: u64,
    /// Nodes in the vault.
    pub inodes: u64,
}

/// What stored content is for, in sealed bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sr_usage {
    /// What files name now, whether or not snapshots name it too.
    pub live_bytes: u64,
    /// What only snapshots hold.
    pub kept_bytes: u64,
    /// What nothing names any more: sr_compact gives it back.
    pub waste_bytes: u64,
}

/// sr_retention.last: all snapshots stay.
pub const SR_ALL_SNAPSHOTS: u32 = u32::MAX;

/// sr_retention.whose: snapshots that a schedule took, or a command as a precaution, and that have no tag.
pub const SR_SCHEDULED: u32 = 0;
/// sr_retention.whose: those too that have neither message nor tag.
pub const SR_UNNAMED: u32 = 1;

/// Which snapshots stay: of each of the last so many periods in which there is one, the newest. All that `whose` does not mean stay too.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sr_retention {
    /// The last ones, whenever they were taken; or SR_ALL_SNAPSHOTS.
    pub last: u32,
    /// Hours.
    pub hourly: u32,
    /// Days, in UTC as all of these.
    pub daily: u32,
    /// Weeks, which begin on Monday.
    pub weekly: u32,
    /// Months.
    pub monthly: u32,
    /// Years.
    pub yearly: u32,
    /// Which snapshots it is about: SR_SCHEDULED or SR_UNNAMED.
    pub whose: u32,
}

/// What sr_erase took out of snapshots, or would.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sr_erased {
    /// Snapshots that had something at the path.
    pub snapshots: u64,
    /// Files whose content it was, over all of them.
    pub files: u64,
    /// Sealed bytes that are gone.
    pub bytes: u64,
    /// Sealed bytes that stay, because other files have the same content.
    pub shared_bytes: u64,
    /// Files of the vault folder that still hold some of it, because other content in them is damaged.
    pub segments_left: u64,
}

// ---- flags of calls

/// links: go on to what a symlink at the end of the path points to.
pub const SR_FOLLOW: u32 = 0;
/// links: mean a symlink at the end of the path itself.
pub const SR_STAY: u32 = 1;

/// To read.
pub const SR_READ: u32 = 1;
/// To write.
pub const SR_WRITE: u32 = 2;
/// To write at the end only.
pub const SR_APPEND: u32 = 4;
/// To empty it first; with SR_WRITE.
pub const SR_TRUNCATE: u32 = 8;
/// To make it if it does not exist.
pub const SR_CREATE: u32 = 16;
/// To make it, and fail if it exists.
pub const SR_CREATE_NEW: u32 = 32;

/// whence: from the start.
pub const SR_FROM_START: u32 = 0;
/// whence: from the position now.
pub const SR_FROM_CURRENT: u32 = 1;
/// whence: from the end.
pub const SR_FROM_END: u32 = 2;

/// target: bytes that were written.
pub const SR_DATA: u32 = 0;
/// target: a hole; the end of the file counts as one.
pub const SR_HOLE: u32 = 1;

/// how: reserve room, extend the size.
pub const SR_RESERVE: u32 = 0;
/// how: reserve room, leave the size.
pub const SR_RESERVE_KEEP_SIZE: u32 = 1;
/// how: make a hole, leave the size.
pub const SR_PUNCH_HOLE: u32 = 2;
/// how: make zeros, extend the size.
pub const SR_ZERO: u32 = 3;
/// how: make zeros, leave the size.
pub const SR_ZERO_KEEP_SIZE: u32 = 4;

/// how: a lock that others may share.
pub const SR_LOCK_SHARED: u32 = 0;
/// how: a lock that nobody has beside it.
pub const SR_LOCK_EXCLUSIVE: u32 = 1;
/// how, joined by |: do not wait, fail with -EAGAIN.
pub const SR_LOCK_TRY: u32 = 2;

/// how: replace what has the new name.
pub const SR_RENAME_REPLACE: u32 = 0;
/// how: fail with -EEXIST if something has the new name.
pub const SR_RENAME_NO_REPLACE: u32 = 1;
/// how: swap the two.
pub const SR_RENAME_EXCHANGE: u32 = 2;
/// how: replace, and leave a whiteout at the old name, as overlay file systems use it.
pub const SR_RENAME_WHITEOUT: u32 = 3;

/// how: make or replace the attribute.
pub const SR_XATTR_SET: u32 = 0;
/// how: fail with -EEXIST if it is there.
pub const SR_XATTR_CREATE: u32 = 1;
/// how: fail with -ENODATA if it is not there.
pub const SR_XATTR_REPLACE: u32 = 2;

/// durability: the next commit, a moment later, makes it durable.
pub const SR_WRITE_BEHIND: u32 = 0;
/// durability: durable on return.
pub const SR_DURABLE: u32 = 1;

/// Hears how far a call is: `context` is yours; `bytes_total` may grow. What it gives other than 0 stops the call, which fails with -ECANCELED or says so in its
/// report. It is called by the thread that made the call; in it, functions on files may be used; those on remotes and keys, sr_verify and sr_close fail with -EDEADLK.
pub type sr_told =
    Option<unsafe extern "C" fn(context: *mut c_void, bytes: u64, bytes_total: u64) -> c_int>;

// ---- to Rust

pub(crate) fn links(links: u32) -> Outcome<Links> {
    match links {
        SR_FOLLOW => Ok(Links::Follow),
        SR_STAY => Ok(Links::Stay),
        _ => Err(invalid("`links` must be SR_FOLLOW or SR_STAY")),
    }
}

pub(crate) fn rename_mode(how: u32) -> Outcome<RenameMode> {
    match how {
        SR_RENAME_REPLACE => Ok(RenameMode::Replace),
        SR_RENAME_NO_REPLACE => Ok(RenameMode::NoReplace),
        SR_RENAME_EXCHANGE => Ok(RenameMode::Exchange),
        SR_RENAME_WHITEOUT => Ok(RenameMode::Whiteout),
        _ => Err(invalid("`how` must be SR_RENAME_REPLACE or similar")),
    }
}

pub(crate) fn xattr_mode(how: u32) -> Outcome<XattrMode> {
    match how {
        SR_XATTR_SET => Ok(XattrMode::Set),
        SR_XATTR_CREATE => Ok(XattrMode::CreateOnly),
        SR_XATTR_REPLACE => Ok(XattrMode::ReplaceOnly),
        _ => Err(invalid("`how` must be SR_XATTR_SET or similar")),
    }
}

pub(crate) fn durability(durability: u32) -> Outcome<Durability> {
    match durability {
        SR_WRITE_BEHIND => Ok(Durability::WriteBehind),
        SR_DURABLE => Ok(Durability::OnReturn),
        _ => Err(invalid("`durability` takes SR_WRITE_BEHIND or SR_DURABLE")),
    }
}

pub(crate) fn seek_target(target: u32) -> Outcome<SeekTarget> {
    match target {
        SR_DATA => Ok(SeekTarget::Data),
        SR_HOLE => Ok(SeekTarget::Hole),
        _ => Err(invalid("`target` must be SR_DATA or SR_HOLE")),
    }
}

pub(crate) fn allocate_mode(how: u32) -> Outcome<AllocateMode> {
    match how {
        SR_RESERVE => Ok(AllocateMode::Reserve),
        SR_RESERVE_KEEP_SIZE => Ok(AllocateMode::ReserveKeepSize),
        SR_PUNCH_HOLE => Ok(AllocateMode::PunchHole),
        SR_ZERO => Ok(AllocateMode::ZeroRange),
        SR_ZERO_KEEP_SIZE => Ok(AllocateMode::ZeroRangeKeepSize),
        _ => Err(invalid("`how` must be SR_RESERVE or similar")),
    }
}

pub(crate) fn file_options(flags: u32, mode: u32) -> Outcome<FileOptions> {
    const KNOWN: u32 = SR_READ | SR_WRITE | SR_APPEND | SR_TRUNCATE | SR_CREATE | SR_CREATE_NEW;
    if flags & !KNOWN != 0 {
        return Err(invalid("`flags` has an unknown flag"));
    }
    let wants = |flag| flags & flag != 0;
    let mut options = FileOptions::new().mode(mode);
    if wants(SR_READ) {
        options = options.read();
    }
    if wants(SR_WRITE) {
        options = options.write();
    }
    if wants(SR_APPEND) {
        options = options.append();
    }
    if wants(SR_TRUNCATE) {
        options = options.truncate();
    }
    // The stricter of the two counts.
    if wants(SR_CREATE) {
        options = options.create();
    }
    if wants(SR_CREATE_NEW) {
        options = options.create_new();
    }
    Ok(options)
}

pub(crate) fn kind(kind: u32) -> Outcome<NodeKind> {
    Ok(match kind {
        SR_KIND_FILE => NodeKind::File,
        SR_KIND_DIRECTORY => NodeKind::Directory,
        SR_KIND_SYMLINK => return Err(invalid("use sr_make_symlink to make a symlink")),
        SR_KIND_PIPE => NodeKind::Fifo,
        SR_KIND_SOCKET => NodeKind::Socket,
        SR_KIND_CHARACTER_DEVICE => NodeKind::CharDevice,
        SR_KIND_BLOCK_DEVICE => NodeKind::BlockDevice,
        _ => return Err(invalid("`kind` must be SR_KIND_FILE or similar")),
    })
}

impl sr_set {
    pub(crate) fn attributes(&self) -> Outcome<SetAttributes> {
        const KNOWN: u32 = 2 * SR_SET_MTIME_NOW - 1;
        if self.what & !KNOWN != 0 {
            return Err(invalid("`what` has an unknown flag"));
        }
        let wants = |flag| self.what & flag != 0;
        let time = |at, now, time| match (wants(at), wants(now)) {
            (true, true) => Err(invalid("`what` sets a time twice")),
            (true, false) => Ok(Some(SetTime::At(Timestamp(time)))),
            (false, true) => Ok(Some(SetTime::Now)),
            (false, false) => Ok(None),
        };
        Ok(SetAttributes {
            mode: wants(SR_SET_MODE).then_some(self.mode),
            uid: wants(SR_SET_UID).then_some(self.uid),
            gid: wants(SR_SET_GID).then_some(self.gid),
            size: match wants(SR_SET_SIZE) {
                true => Some(offset(self.size)?),
                false => None,
            },
            atime: time(SR_SET_ATIME, SR_SET_ATIME_NOW, self.atime)?,
            mtime: time(SR_SET_MTIME, SR_SET_MTIME_NOW, self.mtime)?,
        })
    }
}

// ---- from Rust

impl From<&Attributes> for sr_stat {
    fn from(node: &Attributes) -> Self {
        Self {
            inode: node.inode.0,
            size: node.size,
            blocks: node.blocks,
            rdev: node.rdev,
            atime: node.atime.0,
            mtime: node.mtime.0,
            ctime: node.ctime.0,
            btime: node.btime.0,
            kind: match node.kind {
                NodeKind::File => SR_KIND_FILE,
                NodeKind::Directory => SR_KIND_DIRECTORY,
                NodeKind::Symlink => SR_KIND_SYMLINK,
                NodeKind::Fifo => SR_KIND_PIPE,
                NodeKind::Socket => SR_KIND_SOCKET,
                NodeKind::CharDevice => SR_KIND_CHARACTER_DEVICE,
                NodeKind::BlockDevice => SR_KIND_BLOCK_DEVICE,
            },
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            nlink: node.nlink,
        }
    }
}

//! Transactions in the public API: a closed list of operations of which all are carried out, or none.
//!
//! Takes   operations by path, as the rest of the public API names them
//! Gives   the same operations as steps of one request, which `carry_out.rs` carries out
//! Never   sends a list beyond its bounds, or accepts such a list from the socket

use std::fmt;

use strongroom_filesystem::{Attributes, Durability, RenameMode, SetAttributes, XattrMode};

use crate::limits::TRANSACTION_OPERATIONS_MAX;
use crate::path::Links;
use crate::request::frame::Bytes;
use crate::request::steps::Step;
use crate::{Error, Result, Vault};

/// One operation of a transaction. Paths are those of `Vault`; each is resolved when its turn comes, so an
/// operation meets what the ones before it made.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Goes on only if nothing is at `path`: with `Links::Stay` not even a dangling symlink, which is as good as nothing with
    /// `Links::Follow`.
    RequireMissing {
        /// Where.
        path: Vec<u8>,
        /// What to do with a symlink at the end.
        links: Links,
    },
    /// Goes on only if the node at `path` is still as it was when `Vault::attributes` showed it: the same
    /// node, with the same kind, size, time of modification and time of change. Every change of its content,
    /// attributes, extended attributes or count of names changes one of these.
    RequireUnchanged {
        /// Where.
        path: Vec<u8>,
        /// What to do with a symlink at the end.
        links: Links,
        /// What it was.
        seen: Attributes,
    },
    /// As `Vault::make_directory`.
    MakeDirectory {
        /// Where.
        path: Vec<u8>,
        /// The low 12 bits of its mode.
        mode: u32,
    },
    /// As `Vault::make_symlink`.
    MakeSymlink {
        /// Where.
        path: Vec<u8>,
        /// Where it points.
        target: Vec<u8>,
    },
    /// Makes a file, or replaces the content of the one that is there, which stays the same node: its mode, owner,
    /// other names and extended attributes stay. Follows a symlink at the end.
    WriteFile {
        /// Where.
        path: Vec<u8>,
        /// The low 12 bits of the mode of a new file.
        mode: u32,
        /// All that it holds then.
        content: Vec<u8>,
    },
    /// Writes into an existing file. Follows a symlink at the end.
    WriteAt {
        /// Where.
        path: Vec<u8>,
        /// From which byte.
        offset: u64,
        /// What.
        data: Vec<u8>,
    },
    /// Cuts a file, or extends it by zeros. Follows a symlink at the end.
    Truncate {
        /// Where.
        path: Vec<u8>,
        /// To how many bytes.
        size: u64,
    },
    /// As `Vault::rename`.
    Rename {
        /// What.
        path: Vec<u8>,
        /// Where to.
        new_path: Vec<u8>,
        /// What if something is there.
        mode: RenameMode,
    },
    /// As `Vault::link`.
    Link {
        /// What.
        path: Vec<u8>,
        /// Its further name.
        new_path: Vec<u8>,
    },
    /// As `Vault::remove_file`.
    RemoveFile {
        /// What.
        path: Vec<u8>,
    },
    /// As `Vault::remove_directory`.
    RemoveDirectory {
        /// What.
        path: Vec<u8>,
    },
    /// As `Vault::set_attributes`.
    SetAttributes {
        /// Of what.
        path: Vec<u8>,
        /// What to do with a symlink at the end.
        links: Links,
        /// Which.
        set: SetAttributes,
    },
    /// As `Vault::set_xattr`.
    SetXattr {
        /// Of what.
        path: Vec<u8>,
        /// What to do with a symlink at the end.
        links: Links,
        /// Its name.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// What if it is there.
        mode: XattrMode,
    },
    /// As `Vault::remove_xattr`.
    RemoveXattr {
        /// Of what.
        path: Vec<u8>,
        /// What to do with a symlink at the end.
        links: Links,
        /// Its name.
        name: Vec<u8>,
    },
}

impl Operation {
    /// What it does, in a word or two; without names and content.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RequireMissing { .. } => "require-missing",
            Self::RequireUnchanged { .. } => "require-unchanged",
            Self::MakeDirectory { .. } => "make-directory",
            Self::MakeSymlink { .. } => "make-symlink",
            Self::WriteFile { .. } => "write-file",
            Self::WriteAt { .. } => "write-at",
            Self::Truncate { .. } => "truncate",
            Self::Rename { .. } => "rename",
            Self::Link { .. } => "link",
            Self::RemoveFile { .. } => "remove-file",
            Self::RemoveDirectory { .. } => "remove-directory",
            Self::SetAttributes { .. } => "set-attributes",
            Self::SetXattr { .. } => "set-xattr",
            Self::RemoveXattr { .. } => "remove-xattr",
        }
    }
}

impl Operation {
    /// The paths that it names.
    pub(crate) fn paths(&self) -> Vec<&[u8]> {
        match self {
            Self::RequireMissing { path, .. }
            | Self::RequireUnchanged { path, .. }
            | Self::MakeDirectory { path, .. }
            | Self::MakeSymlink { path, .. }
            | Self::WriteFile { path, .. }
            | Self::WriteAt { path, .. }
            | Self::Truncate { path, .. }
            | Self::RemoveFile { path }
            | Self::RemoveDirectory { path }
            | Self::SetAttributes { path, .. }
            | Self::SetXattr { path, .. }
            | Self::RemoveXattr { path, .. } => vec![path],
            Self::Rename { path, new_path, .. } | Self::Link { path, new_path } => {
                vec![path, new_path]
            }
        }
    }
}

// Names and content are not for logs.
impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl Vault {
    /// Carries out `operations` in order: all of them, or, if one fails, none.
    ///
    /// Whoever uses the vault, in this process or another, finds all of it or nothing of it in each call and in each
    /// listing; so does whoever opens the vault after a power cut. Two transactions never overlap. On a mount every
    /// request that reaches the file system sees all or nothing; what the kernel had cached of old names, attributes and
    /// pages is taken from it one by one after the transaction has happened, and before this returns: in between a
    /// program on the mount may meet old cached knowledge beside new. A reader who needs several calls to read a
    /// file (or the pages of one that it has mapped) may get the beginning before and the end after; to
    /// replace a file for such readers too, write a new one and rename it over the old one, in one transaction.
    /// What a program on the mount wrote and the kernel still holds back (a mapped file without `msync`, a mount
    /// with `writeback`) is not part of what a transaction sees, and lands after it.
    ///
    /// Everyone else waits meanwhile, so it is bounded: `TRANSACTION_OPERATIONS_MAX` operations with
    /// `TRANSACTION_BYTES_MAX` bytes of paths, names and values, and `TRANSACTION_CONTENT_BYTES_MAX` bytes of content. Content of more
    /// than a mebibyte is written to files without names first, while nobody waits. For still more write it under a temporary
    /// name, and let the transaction rename it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("vault");
    /// use strongroom::filesystem::{Durability, RenameMode};
    /// use strongroom::{CreateOptions, Error, Links, Operation, Vault};
    ///
    /// let vault = Vault::create(&folder, CreateOptions::new())?.vault;
    /// vault.write("/balance", "100")?;
    /// let seen = vault.attributes("/balance", Links::Follow)?;
    ///
    /// let operations = [
    ///     // Only if nobody has changed it since.
    ///     Operation::RequireUnchanged { path: "/balance".into(), links: Links::Follow, seen },
    ///     Operation::WriteFile { path: "/balance.new".into(), mode: 0o600, content: "90".into() },
    ///     Operation::Rename { path: "/balance.new".into(), new_path: "/balance".into(), mode: RenameMode::Replace },
    ///     Operation::WriteFile { path: "/receipt".into(), mode: 0o600, content: "10".into() },
    /// ];
    /// vault.transaction(&operations, Durability::OnReturn)?;
    /// assert_eq!(vault.read("/balance")?, b"90");
    ///
    /// // A second time the balance is another: nothing happens.
    /// let refused = vault.transaction(&operations, Durability::OnReturn);
    /// assert!(matches!(refused, Err(Error::Operation { index: 0, .. })));
    /// # vault.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Operation` with the index of the operation that failed and its reason, `Changed` for `RequireUnchanged`;
    /// `TransactionTooLarge`, `NoSpace`, `QuotaExceeded`, `ReadOnly` for the whole. After any of these nothing has
    /// happened. After `OwnerGone`, and with `Durability::OnReturn` after an error of the disk, all of it or
    /// nothing has.
    pub fn transaction(&self, operations: &[Operation], durability: Durability) -> Result<()> {
        // Before anything is gathered: the list may be of any length.
        if operations.len() > TRANSACTION_OPERATIONS_MAX {
            return Err(Error::TransactionTooLarge);
        }
        self.carry_out(operations.iter().map(Step::from).collect(), durability)
    }
}

/// What an operation owns, as the step that travels has it.
trait Lend<'a> {
    type Lent;

    fn lend(&'a self) -> Self::Lent;
}

impl<'a> Lend<'a> for Vec<u8> {
    type Lent = Bytes<'a>;

    fn lend(&'a self) -> Bytes<'a> {
        Bytes(self)
    }
}

macro_rules! lent_as_they_are {
    ($($kind:ty),+) => {
        $(impl Lend<'_> for $kind {
            type Lent = Self;

            fn lend(&self) -> Self {
                self.clone()
            }
        })+
    };
}

lent_as_they_are!(
    u32,
    u64,
    Links,
    Attributes,
    SetAttributes,
    RenameMode,
    XattrMode
);

/// The step of the same name, with the same fields; then the arms of those that have none.
macro_rules! step {
    ($operation:expr; $($variant:ident { $($field:ident),+ },)+ ; $($others:tt)+) => {
        match $operation {
            $(Operation::$variant { $($field),+ } => Step::$variant { $($field: $field.lend()),+ },)+
            $($others)+
        }
    };
}

impl<'a> From<&'a Operation> for Step<'a> {
    fn from(operation: &'a Operation) -> Self {
        step! { operation;
            RequireMissing { path, links },
            RequireUnchanged { path, links, seen },
            MakeDirectory { path, mode },
            MakeSymlink { path, target },
            WriteFile { path, mode, content },
            WriteAt { path, offset, data },
            Rename { path, new_path, mode },
            Link { path, new_path },
            RemoveFile { path },
            RemoveDirectory { path },
            SetAttributes { path, links, set },
            SetXattr { path, links, name, value, mode },
            RemoveXattr { path, links, name },
            ;
            Operation::Truncate { path, size } => Self::SetAttributes {
                path: Bytes(path),
                links: Links::Follow,
                set: SetAttributes {
                    size: Some(*size),
                    ..SetAttributes::default()
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{TRANSACTION_BYTES_MAX, TRANSACTION_OPERATIONS_MAX};
    use crate::request::steps::Steps;
    use crate::request::{Request, frame};

    #[test]
    fn a_list_beyond_its_bounds_is_not_taken_from_the_socket() {
        let step = Step::RemoveFile { path: Bytes(b"/a") };
        for (count, taken) in [
            (TRANSACTION_OPERATIONS_MAX, true),
            (TRANSACTION_OPERATIONS_MAX + 1, false),
        ] {
            let mut buffer = Vec::new();
            frame::encode(&mut buffer, &Steps(vec![step.clone(); count])).expect("fits a frame");
            let steps = frame::decode::<Steps<'_>>(&buffer[4..]);
            assert_eq!(steps.is_ok(), taken, "{count}");
        }
        let data = vec![0; TRANSACTION_BYTES_MAX - 1];
        let steps = |len: usize| {
            let (path, data) = (Bytes(b"/a"), Bytes(&data[..len]));
            Steps(vec![Step::WriteAt {
                path,
                offset: 0,
                data,
            }])
        };
        assert!(steps(data.len() - 1).check_bounds().is_ok());
        assert!(matches!(
            steps(data.len()).check_bounds(),
            Err(Error::TransactionTooLarge)
        ));
    }

    #[test]
    fn the_largest_list_fits_a_frame() {
        let seen = Attributes {
            inode: strongroom_filesystem::InodeId(u64::MAX),
            kind: strongroom_filesystem::NodeKind::File,
            mode: u32::MAX,
            uid: u32::MAX,
            gid: u32::MAX,
            rdev: u64::MAX,
            nlink: u32::MAX,
            size: u64::MAX,
            blocks: u64::MAX,
            atime: strongroom_filesystem::Timestamp(i64::MIN),
            mtime: strongroom_filesystem::Timestamp(i64::MIN),
            ctime: strongroom_filesystem::Timestamp(i64::MIN),
            btime: strongroom_filesystem::Timestamp(i64::MIN),
        };
        let path = vec![b'/'; TRANSACTION_BYTES_MAX / TRANSACTION_OPERATIONS_MAX];
        let step = Step::RequireUnchanged {
            path: Bytes(&path),
            links: Links::Follow,
            seen,
        };
        let steps = Steps(vec![step; TRANSACTION_OPERATIONS_MAX]);
        assert!(steps.check_bounds().is_ok());
        let request = Request::Transaction {
            steps,
            durable: true,
        };
        frame::encode(&mut Vec::new(), &request).expect("fits a frame");
    }

    #[test]
    fn no_debug_output_holds_a_name_or_content() {
        let operation = Operation::WriteFile {
            path: b"/secret name".to_vec(),
            mode: 0o600,
            content: b"secret content".to_vec(),
        };
        let shown = format!("{operation:?} {:?}", Step::from(&operation));
        assert!(!shown.contains("secret"), "{shown}");
    }
}

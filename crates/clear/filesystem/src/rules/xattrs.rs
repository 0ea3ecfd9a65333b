//! Decides, as Linux does, which extended attributes a caller may read and set.
//!
//! Takes   a name, an inode in its current state, and the caller
//! Gives   permission, or the error to return
//! Never   reads or changes a node: every function here is pure

use strongroom_metadata::{Inode, NodeKind};

use crate::limits::XATTR_NAME_BYTES_MAX;
use crate::rules::permission::{self, READ, WRITE};
use crate::{Caller, Checks, Error, Result};

/// Which rules hold for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Anyone's, on files and directories.
    User,
    /// The superuser's; others do not even see it.
    Trusted,
    /// The system's: all may read, the superuser writes.
    Security,
}

/// The space of a name.
///
/// # Errors
/// `ValueTooLarge` for its length, `NotSupported` for an unknown space, `InvalidArgument` for nothing behind
/// the dot or a NUL.
pub(crate) fn space_of(name: &[u8]) -> Result<Space> {
    if name.is_empty() || name.len() > XATTR_NAME_BYTES_MAX {
        return Err(Error::ValueTooLarge);
    }
    let spaces = [
        (&b"user."[..], Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
    ];
    let found = spaces
        .into_iter()
        .find_map(|(prefix, space)| Some((name.strip_prefix(prefix)?, space)));
    let (rest, space) = found.ok_or(Error::NotSupported)?;
    if rest.is_empty() || rest.contains(&0) {
        return Err(Error::InvalidArgument(
            "an extended attribute needs a name after its prefix, without NUL".into(),
        ));
    }
    Ok(space)
}

/// Demands leave to read a value.
///
/// # Errors
/// `NoAttribute` where the caller may not know whether it exists, else `PermissionDenied`.
pub(crate) fn require_readable(inode: &Inode, caller: &Caller, space: Space) -> Result<()> {
    if caller.checks == Checks::Above {
        return Ok(());
    }
    match space {
        Space::User if !carries_user_names(inode) => Err(Error::NoAttribute),
        Space::User => permission::require(inode, caller, READ),
        Space::Trusted if !permission::is_superuser(caller) => Err(Error::NoAttribute),
        Space::Trusted | Space::Security => Ok(()),
    }
}

/// Demands leave to read the value of `name`.
pub(crate) fn require_readable_by_name(inode: &Inode, caller: &Caller, name: &[u8]) -> Result<()> {
    require_readable(inode, caller, space_of(name)?)
}

/// Demands leave to set or remove a value.
///
/// # Errors
/// `NotPermitted` by kind, sticky bit or space, else `PermissionDenied`.
pub(crate) fn require_writable(inode: &Inode, caller: &Caller, space: Space) -> Result<()> {
    if space == Space::User && !carries_user_names(inode) {
        return Err(Error::NotPermitted);
    }
    match space {
        Space::User => {
            // Else anyone could leave notes on /tmp.
            if inode.kind == NodeKind::Directory && permission::is_sticky(inode) {
                permission::require_owner(inode, caller)?;
            }
            permission::require(inode, caller, WRITE)
        }
        Space::Trusted | Space::Security => permission::require_superuser(caller),
    }
}

/// The mode bits of other kinds mean something else than leave to write to them, and a quota would be evaded.
fn carries_user_names(inode: &Inode) -> bool {
    matches!(inode.kind, NodeKind::File | NodeKind::Directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lies_in_a_known_space_and_says_something() {
        assert_eq!(space_of(b"user.a").expect("known"), Space::User);
        assert_eq!(space_of(b"user.a.b/c").expect("known"), Space::User);
        assert_eq!(space_of(b"trusted.a").expect("known"), Space::Trusted);
        assert_eq!(
            space_of(b"security.capability").expect("known"),
            Space::Security
        );
        for name in [
            &b"a"[..],
            b"user",
            b"USER.a",
            b"system.posix_acl_access",
            b"system.posix_acl_default",
            b"os2.a",
        ] {
            assert!(
                matches!(space_of(name), Err(Error::NotSupported)),
                "{name:?}"
            );
        }
        for name in [&b"user."[..], b"trusted.", b"security.", b"user.a\0"] {
            assert!(
                matches!(space_of(name), Err(Error::InvalidArgument(_))),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_name_has_1_to_255_bytes() {
        let mut name = b"user.".to_vec();
        name.resize(XATTR_NAME_BYTES_MAX, b'n');
        assert_eq!(space_of(&name).expect("fits"), Space::User);
        name.push(b'n');
        assert!(matches!(space_of(&name), Err(Error::ValueTooLarge)));
        assert!(matches!(space_of(b""), Err(Error::ValueTooLarge)));
    }
}

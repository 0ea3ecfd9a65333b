//! Reads the kernel's table of mounts, which can be read even if a file system does not answer.
//!
//! Takes   the text of /proc/self/mountinfo
//! Gives   which file system is mounted at each place, the topmost last
//! Never   accesses a mount point, so a dead or hanging one does no harm

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::error::MountError;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    /// The kernel's number of this mount, and of the one that it is mounted in.
    pub(crate) id: u64,
    pub(crate) parent: u64,
    /// `major:minor` of the file system.
    pub(crate) device: String,
    pub(crate) mount_point: PathBuf,
    pub(crate) file_system_type: String,
    /// Who mounted it, for FUSE.
    pub(crate) user_id: Option<u32>,
}

/// All mounts of this process's world, oldest first.
pub(crate) fn mounts() -> Result<Vec<MountEntry>, MountError> {
    let text = std::fs::read("/proc/self/mountinfo")
        .map_err(MountError::io("reading /proc/self/mountinfo"))?;
    Ok(entries(&text).collect())
}

/// The mounts in the `text` of such a table.
pub(crate) fn entries(text: &[u8]) -> impl Iterator<Item = MountEntry> {
    text.split(|byte| *byte == b'\n').filter_map(parse)
}

/// The mount that is seen at `path`, which must be absolute and free of links.
pub(crate) fn mount_at(path: &Path) -> Result<Option<MountEntry>, MountError> {
    Ok(mounts()?
        .into_iter()
        .rev()
        .find(|entry| entry.mount_point == path))
}

/// One line: id, parent, device, root, mount point, options, optional fields, `-`, type, source, options.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut number = || text(fields.next()?).parse().ok();
    let (id, parent) = (number()?, number()?);
    let device = text(fields.next()?);
    let mount_point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let file_system_type = text(fields.next()?);
    let options = text(fields.nth(1).unwrap_or_default());
    let user_id = options
        .split(',')
        .find_map(|option| option.strip_prefix("user_id=")?.parse().ok());
    Some(MountEntry {
        id,
        parent,
        device,
        mount_point,
        file_system_type,
        user_id,
    })
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// Space, tab, newline and backslash stand as `\` and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            (
                b'\\',
                [
                    a @ b'0'..=b'3',
                    b @ b'0'..=b'7',
                    c @ b'0'..=b'7',
                    after @ ..,
                ],
            ) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_mount_names_device_place_type_and_user() {
        let line = b"36 35 0:52 / /mnt/a\\040b rw,nosuid,nodev shared:1 master:2 - fuse.strongroom strongroom rw,user_id=1000,group_id=1000";
        let entry = parse(line).unwrap();
        assert_eq!(entry.device, "0:52");
        assert_eq!(entry.mount_point, Path::new("/mnt/a b"));
        assert_eq!(entry.file_system_type, "fuse.strongroom");
        assert_eq!(entry.user_id, Some(1000));
    }

    #[test]
    fn a_line_without_optional_fields_is_read_too() {
        let entry = parse(b"25 1 254:0 / / rw,relatime - ext4 /dev/vda rw").unwrap();
        assert_eq!(
            (entry.file_system_type.as_str(), entry.user_id),
            ("ext4", None)
        );
    }

    #[test]
    fn escapes_are_undone_and_nothing_else_is() {
        assert_eq!(unescape(b"a\\040b\\011c\\012d\\134e"), b"a b\tc\nd\\e");
        assert_eq!(unescape(b"\\"), b"\\");
        assert_eq!(unescape(b"\\04"), b"\\04");
        assert_eq!(unescape(b"\\477"), b"\\477");
        assert_eq!(unescape(b"\\377"), [0xff]);
    }

    #[test]
    fn lines_that_are_none_are_passed_over() {
        for line in [
            &b""[..],
            b"-",
            b"1 2 3",
            b"1 2 3 4 5 6 -",
            b"\xff\xfe",
            b"1 2 3 4 5 6 7",
        ] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn the_table_of_this_machine_has_a_root() {
        assert!(mount_at(Path::new("/")).unwrap().is_some());
        assert_eq!(mount_at(Path::new("/no/such/place")).unwrap(), None);
    }
}

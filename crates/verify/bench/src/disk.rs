//! The disk beneath a folder, with counts of its write and cache flush requests.

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A whole disk, not a partition: the kernel counts flushes for disks alone.
pub(crate) struct Disk {
    stat: PathBuf,
}

/// Of all who use the disk, since it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) writes: u64,
    /// None before Linux 5.5.
    pub(crate) flushes: Option<u64>,
}

impl Disk {
    /// None beneath a file system that stands on no disk of its own: one in memory, or one that joins several.
    pub(crate) fn beneath(folder: &Path) -> Option<Self> {
        let device = fs::metadata(folder).ok()?.st_dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let mut found = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        if found.join("partition").exists() {
            found.pop();
        }
        Some(Self {
            stat: found.join("stat"),
        })
    }

    /// What it has done until now.
    pub(crate) fn counts(&self) -> Option<Counts> {
        parse(&fs::read_to_string(&self.stat).ok()?)
    }
}

/// Fields as in Documentation/block/stat.rst of the kernel: the 5th is writes, the 16th flushes, each when completed.
fn parse(stat: &str) -> Option<Counts> {
    let mut fields = stat.split_ascii_whitespace();
    let writes = fields.nth(4)?.parse().ok()?;
    let flushes = match fields.nth(10) {
        Some(field) => Some(field.parse().ok()?),
        None => None,
    };
    Some(Counts { writes, flushes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_flushes_are_the_5th_and_the_16th_number() {
        let counts = |writes, flushes| Some(Counts { writes, flushes });
        let text = "  1 2 3 4 50 6 7 8 9 10 11 12 13 14 15 160 17\n";
        assert_eq!(parse(text), counts(50, Some(160)));
        // A kernel that does not count flushes; the least that there is.
        assert_eq!(parse("1 2 3 4 50 6 7 8 9 10 11"), counts(50, None));
        assert_eq!(
            parse("0 0 0 0 18446744073709551615"),
            counts(u64::MAX, None)
        );
    }

    #[test]
    fn what_is_no_such_line_gives_nothing() {
        for text in [
            "",
            "\n",
            "1 2 3 4",
            "1 2 3 4 -5",
            "1 2 3 4 five",
            "1 2 3 4 18446744073709551616",
            "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 99999999999999999999999999 17",
            "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 \u{fffd}",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn no_disk_is_beneath_a_file_system_that_stands_on_none() {
        assert!(Disk::beneath(Path::new("/proc")).is_none());
        assert!(Disk::beneath(Path::new("/no/such/folder")).is_none());
    }
}

//! Records that can be recognized anywhere. They are appended with an fsync after each, counted after a kill, and
//! searched for as plaintext in stored files.
//!
//! Invariants
//!  (1) A search reads at most `SEARCHED_BYTES_MAX`, and never a file of another file system.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};

use crate::{Content, interrupt};

const RECORD_BYTES: usize = 4096;
const MARK_BYTES: usize = 32;
const SEARCHED_BYTES_MAX: u64 = 1 << 30;
const PART_BYTES: usize = 1 << 20;

/// Each begins with the mark, which no other content of any run has, and its number; the rest is random.
pub(crate) struct Records {
    mark: Vec<u8>,
    all: Vec<Vec<u8>>,
}

impl Records {
    pub(crate) fn new(count: usize, content: &mut Content) -> Self {
        let words = [(); MARK_BYTES / 8].map(|()| content.random().to_le_bytes());
        let mark = words.concat();
        let record = |number: usize| {
            let head = [mark.as_slice(), &(number as u64).to_le_bytes()].concat();
            let rest = content.take(RECORD_BYTES - head.len());
            [head.as_slice(), rest].concat()
        };
        let all = (0..count).map(record).collect();
        Self { mark, all }
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Appends all to `file`, with an fsync after each.
    pub(crate) fn append(&self, file: &mut File) -> io::Result<()> {
        self.all.iter().try_for_each(|record| {
            interrupt::check()?;
            file.write_all(record)?;
            file.sync_all()
        })
    }

    /// How many are at their place in the file, and right; one that cannot be read is not.
    pub(crate) fn count_in(&self, path: &Path) -> usize {
        let Ok(file) = File::open(path) else { return 0 };
        let mut found = [0; RECORD_BYTES];
        let mut right = |(number, record): &(usize, &Vec<u8>)| {
            let read = file.read_exact_at(&mut found, (number * RECORD_BYTES) as u64);
            read.is_ok() && found == record.as_slice()
        };
        self.all
            .iter()
            .enumerate()
            .filter(|record| right(record))
            .count()
    }

    /// Whether the mark lies in clear in a file below `folder`; what is mounted there is left out.
    ///
    /// # Errors
    /// Of the disk; if there is too much to read, or the run is interrupted.
    pub(crate) fn lie_in_clear_below(&self, folder: &Path) -> io::Result<bool> {
        let device = fs::symlink_metadata(folder)?.st_dev();
        let mut budget = SEARCHED_BYTES_MAX;
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let found = fs::symlink_metadata(&path)?;
                if found.st_dev() != device {
                    continue;
                }
                if found.is_dir() {
                    folders.push(path);
                } else if found.is_file() && self.lie_in(&File::open(&path)?, &mut budget)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether the mark lies in a stretch of `file` that is no hole.
    fn lie_in(&self, file: &File, budget: &mut u64) -> io::Result<bool> {
        let mut end = 0;
        while let Some(start) = data_from(file, end)? {
            end = seek(file, SeekFrom::Hole(start))?;
            if self.lie_between(file, start, end, budget)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn lie_between(&self, file: &File, start: u64, end: u64, budget: &mut u64) -> io::Result<bool> {
        let mut part = vec![0; PART_BYTES];
        let mut at = start;
        while at < end {
            interrupt::check()?;
            let wanted = (end - at).min(PART_BYTES as u64);
            // (1) holds.
            *budget = budget
                .checked_sub(wanted)
                .ok_or_else(|| io::Error::other("there is more than 1 GiB to search"))?;
            let count = file.read_at(&mut part[..wanted as usize], at)?;
            let mut places = part[..count].windows(MARK_BYTES);
            if places.any(|place| place == self.mark) {
                return Ok(true);
            }
            // The next part begins so far back that a mark between the two is whole in it.
            let next = at + count.saturating_sub(MARK_BYTES - 1) as u64;
            if next <= at || at + count as u64 >= end {
                break;
            }
            at = next;
        }
        Ok(false)
    }
}

/// Where the first content at or behind `offset` begins.
fn data_from(file: &File, offset: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(offset)) {
        Err(rustix::io::Errno::NXIO) => Ok(None),
        found => Ok(Some(found?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(seed: u64) -> Records {
        Records::new(3, &mut Content::new(seed))
    }

    #[test]
    fn what_was_appended_is_counted_and_what_is_missing_or_wrong_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let records = records(1);
        records.append(&mut File::create(&path).unwrap()).unwrap();
        assert_eq!(records.count_in(&path), 3);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(3 * RECORD_BYTES as u64 - 1).unwrap();
        assert_eq!(records.count_in(&path), 2);
        file.write_all_at(b"?", 4095).unwrap();
        assert_eq!(records.count_in(&path), 1);
        assert_eq!(records.count_in(&folder.path().join("none")), 0);
    }

    /// Goal: no place hides the mark: not deep in folders, not behind a hole, not across the parts that are read.
    #[test]
    fn the_mark_is_found_wherever_it_lies_and_only_there() {
        let records = records(2);
        for offset in [
            0,
            1,
            PART_BYTES - MARK_BYTES / 2,
            PART_BYTES - 1,
            5 * PART_BYTES,
        ] {
            let folder = tempfile::tempdir().unwrap();
            let deep = folder.path().join("a/b");
            fs::create_dir_all(&deep).unwrap();
            fs::write(folder.path().join("empty"), "").unwrap();
            fs::write(folder.path().join("else"), vec![7; 2 * PART_BYTES]).unwrap();
            let file = File::create(deep.join("file")).unwrap();
            file.write_all_at(&records.mark[1..], offset as u64)
                .unwrap();
            assert!(!records.lie_in_clear_below(folder.path()).unwrap());
            file.write_all_at(&records.mark, offset as u64).unwrap();
            assert!(
                records.lie_in_clear_below(folder.path()).unwrap(),
                "{offset}"
            );
        }
        assert!(records.lie_in_clear_below(Path::new("/no/such")).is_err());
    }

    #[test]
    fn a_search_ends_when_there_is_too_much_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [7; 100]).unwrap();
        let file = File::open(&path).unwrap();
        let records = records(3);
        assert!(!records.lie_in(&file, &mut 100).unwrap());
        let error = records.lie_in(&file, &mut 99).unwrap_err();
        assert!(error.to_string().contains("1 GiB"), "{error}");
    }

    #[test]
    fn a_link_is_not_followed() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let records = records(4);
        fs::write(other.path().join("file"), &records.mark).unwrap();
        for name in ["", "file"] {
            let link = folder.path().join(format!("link{name}"));
            std::os::unix::fs::symlink(other.path().join(name), link).unwrap();
        }
        assert!(!records.lie_in_clear_below(folder.path()).unwrap());
    }
}

//! The file of the sealed intent log, stored with the segments.
//!
//! Takes   sealed records, and their offsets
//! Gives   durable records; after a crash, the bytes of the file
//! Never   sees a key or plaintext; never changes the length of the file, so a record costs one write and one flush
//! Spec    spec/8-intents.md

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use strongroom_folder::{Folder, Purpose};
use strongroom_format::intent::{FIRST_INTENT_OFFSET, IntentLogId, encode_header};
use strongroom_format::limits::{INTENT_LOG_BYTES, SECTOR_BYTES};

/// Its name in the vault folder.
pub const INTENT_LOG: &str = "intents";
/// What it is called once nothing can be made of it.
pub const UNREADABLE: &str = "intents.unreadable";

/// One open log.
#[derive(Debug)]
pub struct IntentLog {
    file: File,
    id: IntentLogId,
    len: usize,
}

impl IntentLog {
    /// Makes a log in `folder`, durably, in place of one that is there.
    ///
    /// `len`: of the file in bytes. `noise`: what its room holds, over and over, until a record is written there.
    ///
    /// Noise is written, and no room only set aside: a first write to room that is set aside changes the file system's own metadata,
    /// and its sync would cost as much as an append.
    ///
    /// # Errors
    /// `InvalidInput` if it would be longer than `INTENT_LOG_BYTES`, or no whole sectors; those of the disk. Then what was begun is taken away again.
    pub fn create(folder: &Path, id: IntentLogId, len: usize, noise: &[u8]) -> io::Result<Self> {
        if len > INTENT_LOG_BYTES || !len.is_multiple_of(SECTOR_BYTES) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut header = encode_header(id, len);
        header.resize(FIRST_INTENT_OFFSET, 0);
        let new = Folder::open(folder)?.new_file_with(OFlags::empty())?;
        new.write_all_at(&header, 0)?;
        fill(&new, len, noise)?;
        new.sync_all()?;
        let file = new.put(INTENT_LOG)?;
        Ok(Self { file, id, len })
    }

    /// Writes `noise`, over and over, over all records. Durable after `sync`.
    ///
    /// # Errors
    /// Of the disk.
    pub fn wipe(&self, noise: &[u8]) -> io::Result<()> {
        fill(&self.file, self.len, noise)
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> IntentLogId {
        self.id
    }

    /// Its length in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.len
    }

    /// Writes a record to its place. Durable after `sync`.
    ///
    /// # Errors
    /// `InvalidInput` if it does not lie inside the file; those of the disk.
    pub fn write(&self, record: &[u8], offset: usize) -> io::Result<()> {
        let end = offset.checked_add(record.len());
        if end.is_none_or(|end| end > self.len) {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.file.write_all_at(record, offset as u64)
    }

    /// Everything written before is durable on return.
    ///
    /// # Errors
    /// Of the disk; then nothing is known of what was written.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Whether there is a log in `folder`.
    ///
    /// # Errors
    /// One that holds an `Odd` for anything but a regular file with one name; those of the disk.
    pub fn check(folder: &Path) -> io::Result<bool> {
        Ok(Folder::open(folder)?.check_file(INTENT_LOG)?.is_some())
    }

    /// The log in `folder`, as far as the disk can read it; `None` if there is none.
    ///
    /// # Errors
    /// `InvalidData` if it is no file, or longer than a log. Any other error says nothing of the log: read it again later.
    pub fn read(folder: &Path) -> io::Result<Option<WholeLog>> {
        let file = match Folder::open(folder)?.open_file(INTENT_LOG, Purpose::Read) {
            Err(error) if error.is_missing() => return Ok(None),
            opened => opened?,
        };
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if len > INTENT_LOG_BYTES {
            return Err(ErrorKind::InvalidData.into());
        }
        read_whole(len, |part, offset| file.read_exact_at(part, offset)).map(Some)
    }

    /// Takes the log away, durably. One that is not there is no error.
    ///
    /// # Errors
    /// Of the disk.
    pub fn remove(folder: &Path) -> io::Result<()> {
        let folder = Folder::open(folder)?;
        if folder.remove(INTENT_LOG)? {
            folder.sync()?;
        }
        Ok(())
    }

    /// Puts a log that cannot be read out of the way, for whoever wants to look at it. Gives the name it has then.
    ///
    /// # Errors
    /// Of the disk.
    pub fn set_aside(folder: &Path) -> io::Result<&'static str> {
        let folder = Folder::open(folder)?;
        if !put_away(&folder)? {
            return Err(ErrorKind::NotFound.into());
        }
        folder.sync()?;
        Ok(UNREADABLE)
    }
}

/// Gives the log in `folder` the name of one that nothing can be made of; gives whether there was a log. What has that name already gets a
/// number: an earlier log, which is kept too.
///
/// # Errors
/// Of the disk.
pub fn put_away(folder: &Folder) -> strongroom_folder::Result<bool> {
    if folder.kind(INTENT_LOG)?.is_none() {
        return Ok(false);
    }
    if folder.kind(UNREADABLE)?.is_some() {
        let mut number = 1_u32;
        while folder.kind(&format!("{UNREADABLE}-{number}"))?.is_some() {
            number += 1;
        }
        folder.move_to(UNREADABLE, folder, &format!("{UNREADABLE}-{number}"))?;
    }
    folder.move_to(INTENT_LOG, folder, UNREADABLE)?;
    Ok(true)
}

/// All bytes of a log that was left behind.
#[derive(Debug)]
pub struct WholeLog {
    /// Sectors that the disk cannot read are zeros.
    pub bytes: Vec<u8>,
    /// How many sectors these are.
    pub unreadable: usize,
}

/// Reads `len` bytes at once, or sector by sector where the disk has lost some.
fn read_whole(len: usize, read: impl Fn(&mut [u8], u64) -> io::Result<()>) -> io::Result<WholeLog> {
    let mut whole = WholeLog {
        bytes: vec![0; len],
        unreadable: 0,
    };
    match read(&mut whole.bytes, 0) {
        Err(error) if is_decay(&error) => {}
        done => return done.map(|()| whole),
    }
    for (index, sector) in whole.bytes.chunks_mut(SECTOR_BYTES).enumerate() {
        match read(sector, (index * SECTOR_BYTES) as u64) {
            Err(error) if is_decay(&error) => {
                sector.fill(0);
                whole.unreadable += 1;
            }
            done => done?,
        }
    }
    Ok(whole)
}

/// Whether the disk, or the file system on it, says that these bytes are lost. Another try gives the same.
#[must_use]
pub fn is_decay(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::IO | Errno::NODATA | Errno::ILSEQ | Errno::BADMSG | Errno::UCLEAN)
    )
}

/// Fills the room for records of a log of `len` bytes with `noise`, over and over: as much memory as that is long.
fn fill(file: &File, len: usize, noise: &[u8]) -> io::Result<()> {
    for offset in (FIRST_INTENT_OFFSET..len).step_by(noise.len()) {
        let part = noise.len().min(len - offset);
        file.write_all_at(&noise[..part], offset as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use strongroom_folder::odd_of;
    use strongroom_format::Epoch;
    use strongroom_format::intent::{encode_record, scan};

    use super::*;

    const ID: IntentLogId = IntentLogId([3; 16]);
    const LEN: usize = 64 * 1024;
    const NOISE: [u8; 5000] = [0x5a; 5000];
    const SEALED: [u8; SECTOR_BYTES - 64] = [9; SECTOR_BYTES - 64];

    #[test]
    fn what_was_written_is_read_back_and_the_length_stays() {
        let folder = tempfile::tempdir().unwrap();
        assert!(IntentLog::read(folder.path()).unwrap().is_none());
        let log = IntentLog::create(folder.path(), ID, LEN, &NOISE).unwrap();
        let record = encode_record(ID, 1, Epoch(0), &SEALED);
        log.write(&record, FIRST_INTENT_OFFSET).unwrap();
        log.sync().unwrap();
        let WholeLog { bytes, unreadable } = IntentLog::read(folder.path()).unwrap().unwrap();
        assert_eq!((bytes.len(), unreadable), (LEN, 0));
        let found = scan(&bytes).unwrap();
        assert!(found.is_intact);
        assert_eq!((found.id, found.records[0].sealed), (ID, &SEALED[..]));
        IntentLog::remove(folder.path()).unwrap();
        IntentLog::remove(folder.path()).unwrap();
        assert!(IntentLog::read(folder.path()).unwrap().is_none());
    }

    #[test]
    fn a_record_beyond_the_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let log = IntentLog::create(folder.path(), ID, LEN, &NOISE).unwrap();
        let record = encode_record(ID, 1, Epoch(0), &SEALED);
        let error = log.write(&record, LEN).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_new_log_takes_nothing_over_from_one_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let log = IntentLog::create(folder.path(), ID, LEN, &NOISE).unwrap();
        let record = encode_record(ID, 1, Epoch(0), &SEALED);
        log.write(&record, FIRST_INTENT_OFFSET).unwrap();
        let _ = IntentLog::create(folder.path(), ID, LEN, &NOISE).unwrap();
        let found = IntentLog::read(folder.path()).unwrap().unwrap();
        assert!(scan(&found.bytes).unwrap().records.is_empty());
    }

    /// Failed before: a log was made by following what had its name if that was a hard link, and no error said so.
    #[test]
    fn what_is_no_log_is_refused_and_followed_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(INTENT_LOG);
        let elsewhere = tempfile::tempdir().unwrap();
        let elsewhere = elsewhere.path().join("elsewhere");
        std::fs::write(&elsewhere, b"content").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        for link in ["symbolic", "hard"] {
            assert!(IntentLog::read(folder.path()).is_err(), "{link}");
            let error = IntentLog::check(folder.path()).unwrap_err();
            assert_eq!(odd_of(&error).unwrap().path, INTENT_LOG);
            // It takes the place of the link, not of what that leads to.
            drop(IntentLog::create(folder.path(), ID, LEN, &NOISE).unwrap());
            assert!(IntentLog::check(folder.path()).unwrap());
            assert_eq!(std::fs::read(&elsewhere).unwrap(), b"content");
            std::fs::remove_file(&path).unwrap();
            std::fs::hard_link(&elsewhere, &path).unwrap();
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(IntentLog::read(folder.path()).is_err());
        assert!(IntentLog::create(folder.path(), ID, LEN, &NOISE).is_err());
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, vec![0; INTENT_LOG_BYTES + 1]).unwrap();
        let error = IntentLog::read(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let aside = IntentLog::set_aside(folder.path()).unwrap();
        assert!(folder.path().join(aside).exists());
        assert!(IntentLog::read(folder.path()).unwrap().is_none());
    }

    /// Failed before: the first log, which may be all that is left of small syncs, was replaced by the second.
    #[test]
    fn a_log_that_is_set_aside_replaces_no_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        for log in ["one", "two", "three"] {
            std::fs::write(folder.path().join(INTENT_LOG), log).unwrap();
            IntentLog::set_aside(folder.path()).unwrap();
        }
        let refused = IntentLog::set_aside(folder.path()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
        assert_eq!(read(UNREADABLE), b"three");
        assert_eq!(read("intents.unreadable-1"), b"one");
        assert_eq!(read("intents.unreadable-2"), b"two");
    }

    /// Goal: a bad sector costs the record in it. Method: a log of three records, read from a disk that has lost one sector.
    /// Failed before: one read error gave no byte of the log.
    #[test]
    fn a_sector_that_cannot_be_read_is_zeros_and_the_rest_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let log = IntentLog::create(folder.path(), ID, LEN, &NOISE).unwrap();
        for number in 1..=3 {
            let record = encode_record(ID, number as u64, Epoch(0), &SEALED);
            log.write(&record, number * SECTOR_BYTES).unwrap();
        }
        for lost in [Errno::IO, Errno::NODATA, Errno::UCLEAN] {
            let read = |part: &mut [u8], offset: u64| {
                let hit = offset..offset + part.len() as u64;
                match hit.contains(&(2 * SECTOR_BYTES as u64)) {
                    true => Err(lost.into()),
                    false => log.file.read_exact_at(part, offset),
                }
            };
            let whole = read_whole(LEN, read).unwrap();
            assert_eq!((whole.bytes.len(), whole.unreadable), (LEN, 1));
            let found = scan(&whole.bytes).unwrap();
            assert!(!found.is_intact);
            let numbers: Vec<u64> = found.records.iter().map(|one| one.sequence).collect();
            assert_eq!(numbers, [1, 3]);
        }
    }

    /// Failed before: what the process lacked for a moment was taken for damage of the log.
    #[test]
    fn a_shortage_is_no_loss_of_sectors() {
        for shortage in [Errno::NOMEM, Errno::AGAIN, Errno::STALE, Errno::TIMEDOUT] {
            let error = read_whole(LEN, |_, _| Err(shortage.into())).unwrap_err();
            assert_eq!(Errno::from_io_error(&error), Some(shortage));
        }
    }
}

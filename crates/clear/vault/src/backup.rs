//! Copies a vault folder while it is in use; the copy is a vault too.
//!
//! Takes   an open vault, whichever process owns it, and a target folder: a new one, or one with an earlier backup
//! Gives   the same sealed bytes with the database of one moment. Only files that the target lacks are copied, and read back
//! Never   opens a block, touches the earlier backup before all new files are durable, or keeps files that the vault removed
//! Spec    spec/10-folder.md, 10.4
//!
//! Invariants
//!  (1) Segments are copied first, then header, database and replica file in one step. Files that are no longer needed are removed
//!      last. So an interruption leaves the earlier backup or the new one: unreferenced segments do no harm.
//!  (2) No segment that the copied database names is removed from the vault folder before it was copied: the owner keeps all
//!      segments, and the backup ends if the owner changes.
//!  (3) A segment file counts as copied if both files have a footer, and footers and lengths are equal: a file with a footer never
//!      changes. A copied file gets its name once it is whole.
//!  (4) A segment of the backup that the copied database needs is replaced only by a whole file, or by one that has all that is in it;
//!      and is not removed if the vault lost its own. If the vault lost content for good, no segment of the backup is removed, or
//!      replaced by a file with less: one of them may have it.                                             [10.21]
//!  (5) A session makes one backup at a time: what the owner keeps for a second would take the place of what it keeps for the first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Advice, FileType, fadvise};
use strongroom_filesystem::LOST_SEGMENT;
use strongroom_folder::{Error as BelowError, Folder as HeldFolder, Purpose};
use strongroom_format::survey::survey;
use strongroom_format::{SegmentId, hex};
use strongroom_metadata::DATABASE_FILE;
use strongroom_segments::{is_decay, read_readable};

use crate::create::check_contents;
use crate::folder::owner_lock::{Attempt, OwnerLock};
use crate::folder::switch;
use crate::folder::{BACKUP, Folder, HEADER, SEGMENTS, UNFINISHED, below};
use crate::incoming::placed_segment;
use crate::owner::port::{Port, unexpected};
use crate::request::frame::{ByteBuffer, Bytes};
use crate::request::{BackupRequest, Request, Response};
use crate::{Error, GoOn, Result, Vault, describe};

/// The longest segment file.
const SEGMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The last bytes of a finished segment, and what they begin with.
const FOOTER_BYTES: usize = 64;
const FOOTER: &[u8] = b"SRfooter";

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// Bytes of segments that are in the backup.
    pub bytes: u64,
    /// Bytes of all of them.
    pub bytes_total: u64,
}

/// What a backup did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Segment files that were copied, and their bytes.
    pub copied: u64,
    /// See `copied`.
    pub copied_bytes: u64,
    /// Segment files that an earlier backup had copied.
    pub kept: u64,
    /// Segment files that the vault has no more, and now the backup neither.
    pub removed: u64,
    /// Bytes of the database.
    pub database_bytes: u64,
}

impl Vault {
    /// Makes `target` a copy of the vault folder with everything that was acknowledged before, verified, while others use the
    /// vault. The copy opens with the same keys. Only what an earlier backup in `target` lacks is copied.
    ///
    /// `told` hears of the progress and says whether to go on. Interrupted at any moment, the earlier backup is as good as before.
    /// Through one opened vault and its clones goes one backup at a time.
    ///
    /// # Errors
    /// `Damaged` if the vault lacks segments or has damaged ones: then the backup is renewed too, and still has the copies of them that it
    /// had. `BackupTarget` says what is in the way, as another backup may be; `BackupStopped`; `OwnerGone` if the owner left meanwhile;
    /// those of the disks.
    pub fn backup(
        &self,
        target: impl AsRef<Path>,
        told: &mut dyn FnMut(&BackupProgress) -> GoOn,
    ) -> Result<BackupReport> {
        // (5). Not waited for: it may be the caller's own, whose progress it hears now.
        let Some(_turn) = self.shared.backup_turn.try_lock() else {
            let why = "this program makes another backup of the vault now; try again when that one has ended";
            return Err(Error::BackupTarget(why.to_owned()));
        };
        let source = Folder::new(self.folder()).absolute()?;
        let target = Folder::new(target.as_ref()).absolute()?;
        let is_new = self.look_at(&source, &target)?;
        let _lock = lock(&target)?;
        let (owner, _) = self.ask(&Request::Backup(BackupRequest::Begin))?;
        let done = Backup {
            vault: self,
            owner,
            source,
            target,
            is_new,
            needed: BTreeMap::new(),
            damaged: Vec::new(),
            report: BackupReport::default(),
        }
        .run(told);
        if done.is_err() {
            // If it does not arrive, the end of the session does the same.
            let _ = self.ask(&Request::Backup(BackupRequest::End { renewed: None }));
        }
        done
    }

    /// Refuses a target that is none; gives whether nothing of use is there yet.
    fn look_at(&self, source: &Folder, target: &Folder) -> Result<bool> {
        let refuse = |why: &str| Err(Error::BackupTarget(why.to_owned()));
        target.make()?;
        let (from, to) = (source.canonical()?, target.canonical()?);
        if from == to {
            return refuse("it is the vault itself");
        }
        if to.starts_with(&from) || from.starts_with(&to) {
            return refuse("one of the two folders is inside the other");
        }
        match describe(target.path()) {
            Ok(found) if found.fingerprint == self.information()?.fingerprint => {
                match target.has(BACKUP) {
                    true => Ok(false),
                    false => refuse(
                        "the folder is a copy of this vault, used as a vault and not as a backup",
                    ),
                }
            }
            Ok(_) => refuse("the folder is another vault"),
            // The first one was interrupted.
            Err(Error::InterruptedCreate) => Ok(true),
            Err(Error::NotAVault) if check_contents(target).is_ok() => Ok(true),
            Err(Error::NotAVault) => refuse("the folder is neither empty nor a backup of a vault"),
            Err(error) => Err(error),
        }
    }
}

fn lock(target: &Folder) -> Result<OwnerLock> {
    match OwnerLock::attempt(target)? {
        Attempt::Taken(lock) => Ok(lock),
        Attempt::HeldByAnother => Err(Error::BackupTarget(
            "another process has the folder open; end that process first".to_owned(),
        )),
        Attempt::NotWritable(source) => Err(Error::Io {
            what: "writing into the folder of the backup",
            source,
        }),
    }
}

/// One run.
struct Backup<'a> {
    vault: &'a Vault,
    owner: Port,
    source: Folder,
    target: Folder,
    is_new: bool,
    /// The segments that the copied database needs, and the bytes that each has at least.
    needed: BTreeMap<String, u64>,
    /// Those of them that the vault lacks, or that are not whole in it.
    damaged: Vec<String>,
    report: BackupReport,
}

impl Backup<'_> {
    fn run(mut self, told: &mut dyn FnMut(&BackupProgress) -> GoOn) -> Result<BackupReport> {
        let failed = || below("preparing the folder of the backup");
        let target = self.target.clone();
        target.check()?;
        target.remove_unfinished()?;
        switch::finish(&target)?;
        if self.is_new {
            target.replace(UNFINISHED, &[])?;
        }
        if !target.has(BACKUP) {
            target.replace(BACKUP, &[])?;
        }
        let making = switch::begin(&target)?;
        let header = self.database()?;
        let size = making
            .hold()
            .and_then(|held| held.check_file(DATABASE_FILE));
        self.report.database_bytes = size.map_err(failed())?.unwrap_or(0);
        self.needed = self.ask_needed()?;
        // Another owner keeps no segments, and does not say which are needed.                               (2) (4)
        self.check_owner()?;
        let segments = self.segments(told)?;
        self.check_owner()?; // (2)
        // (1)
        making.replace(HEADER, &header)?;
        switch::commit_rekeyed(&target, &making)?;
        target.remove_if_there(UNFINISHED)?;
        self.remove_others(&segments)?;
        match self.damaged.is_empty() {
            true => Ok(self.report),
            false => Err(damaged(&self.damaged)),
        }
    }

    fn check_owner(&self) -> Result<()> {
        match self.owner.is_same(&self.vault.port()) {
            true => Ok(()),
            false => Err(Error::OwnerGone),
        }
    }

    /// Asks the owner for the segments that the copied database needs.
    fn ask_needed(&self) -> Result<BTreeMap<String, u64>> {
        let mut all = BTreeMap::new();
        let mut after = None;
        loop {
            let request = Request::Backup(BackupRequest::Needed { after });
            let (_, Response::Needed(page)) = self.vault.ask(&request)? else {
                return Err(unexpected());
            };
            let Some((last, _)) = page.last() else {
                return Ok(all);
            };
            after = Some(*last);
            let named = page.into_iter();
            all.extend(named.map(|(id, len)| (placed_segment(SegmentId(id)), len)));
        }
    }

    /// The owner puts the database there; gives the header.
    fn database(&self) -> Result<Vec<u8>> {
        let target = Bytes(self.target.path().as_os_str().as_bytes());
        let request = Request::Backup(BackupRequest::Database { target });
        let header: std::result::Result<ByteBuffer, _> = self.vault.ask_for(&request)?;
        Ok(header.map_err(Error::BackupTarget)?.0)
    }

    /// Copies what is missing; gives the names of all segments.
    fn segments(
        &mut self,
        told: &mut dyn FnMut(&BackupProgress) -> GoOn,
    ) -> Result<BTreeSet<String>> {
        let failed = || below("copying segments into the backup");
        let from = self.source.inside(SEGMENTS).hold().map_err(failed())?;
        self.target.inside(SEGMENTS).make()?;
        let to = self.target.inside(SEGMENTS).hold().map_err(failed())?;
        let mut all = BTreeSet::new();
        let mut progress = BackupProgress::default();
        for path in segment_paths(&from).map_err(failed())? {
            // What is in the way of one file shows when that is read.
            let len = len(&from, &path).ok().flatten().unwrap_or(0);
            progress.bytes_total += len.min(SEGMENT_BYTES_MAX);
            all.insert(path);
        }
        let mut in_folder = String::new();
        for path in &all {
            if told(&progress) == GoOn::No {
                return Err(Error::BackupStopped);
            }
            if path[..2] != in_folder {
                path[..2].clone_into(&mut in_folder);
                to.make_folder(&in_folder).map_err(failed())?;
                let made = to
                    .folder(&in_folder)
                    .and_then(|made| made.remove_unfinished());
                made.map_err(failed())?;
            }
            let Some((mut bytes, mut unreadable)) = read_segment(&from, path)? else {
                // All that were listed stay while they are kept: the disk lost it, or something strange is in its place.
                self.note_if_needed(path);
                continue;
            };
            progress.bytes += bytes.len() as u64;
            if is_copied(&to, path, &bytes).map_err(failed())? {
                if unreadable > 0 {
                    self.note_if_needed(path);
                }
                self.report.kept += 1;
                continue;
            }
            if self.is_damaged(&to, path, &bytes)?
                && let Some(again) = read_segment(&from, path)?
            {
                // It may have been appended to while it was read.
                (bytes, unreadable) = again;
            }
            let is_damaged = self.is_damaged(&to, path, &bytes)?;
            if is_damaged || unreadable > 0 {
                self.note_if_needed(path);
            }
            // (4)
            if is_damaged && has_more(&to, path, &bytes).map_err(failed())? {
                self.report.kept += 1;
                continue;
            }
            copy(&to, path, &bytes)?;
            self.report.copied += 1;
            self.report.copied_bytes += bytes.len() as u64;
        }
        to.sync().map_err(failed())?;
        told(&progress);
        let lost = self.needed.keys().filter(|path| !all.contains(*path));
        let lost = lost.filter(|path| **path != placed_segment(LOST_SEGMENT));
        self.damaged.extend(lost.cloned());
        Ok(all)
    }

    fn note_if_needed(&mut self, path: &str) {
        if self.needed.contains_key(path) {
            self.damaged.push(path.to_owned());
        }
    }

    /// Whether a file of the vault lacks something that the copied database needs, or the footer that the backup's copy has. If the vault
    /// lost content for good, of a file that the database does not need: whether it lacks something of the backup's copy.   (4)
    fn is_damaged(&self, to: &HeldFolder, path: &str, bytes: &[u8]) -> Result<bool> {
        let failed = || below("copying segments into the backup");
        let committed = match self.needed.get(path) {
            None if self.lacks_content() => len(to, path).map_err(failed())?,
            needed => needed.copied(),
        };
        let id = hex::decode(&path[3..]).map(SegmentId);
        let (Some(committed), Some(id)) = (committed, id) else {
            return Ok(false);
        };
        if !is_whole(bytes, id, committed) {
            return Ok(true);
        }
        let there = footer_there(to, path).map_err(failed())?;
        Ok(there.is_some() && footer(bytes).is_none())
    }

    /// Whether the vault lost content for good.
    fn lacks_content(&self) -> bool {
        self.needed.contains_key(&placed_segment(LOST_SEGMENT))
    }

    /// Removes what the vault has no more, but for what it lost.                                                 (4)
    fn remove_others(&mut self, segments: &BTreeSet<String>) -> Result<()> {
        let failed = || below("removing from the backup files that the vault no longer has");
        let held = self.target.inside(SEGMENTS).hold().map_err(failed())?;
        let found = match self.lacks_content() {
            true => Vec::new(),
            false => segment_paths(&held).map_err(failed())?,
        };
        for path in found {
            if !segments.contains(&path) && !self.needed.contains_key(&path) {
                let (folder, name) = (&path[..2], &path[3..]);
                let removed = held.folder(folder).and_then(|held| held.remove(name));
                removed.map_err(failed())?;
                self.report.removed += 1;
            }
        }
        let renewed = Bytes(self.target.path().as_os_str().as_bytes());
        let renewed = Some(renewed);
        self.vault
            .ask_for(&Request::Backup(BackupRequest::End { renewed }))
    }
}

/// Whether the file of the segment `id` has every committed byte as it was written: what follows is none of a finished one's.
fn is_whole(bytes: &[u8], id: SegmentId, committed: u64) -> bool {
    let found = survey(bytes, id);
    let is_finished = footer(bytes).is_some();
    let mut faults = found.faults.iter();
    bytes.len() as u64 >= committed
        && found.end >= committed
        && faults.all(|fault| fault.start >= committed && !is_finished)
}

/// What is said at the end of segments that the vault lacks, or that are not whole in it.
fn damaged(paths: &[String]) -> Error {
    /// So many are named.
    const NAMED_MAX: usize = 8;
    let mut named: Vec<&str> = paths.iter().take(NAMED_MAX).map(String::as_str).collect();
    if paths.len() > NAMED_MAX {
        named.push("…");
    }
    let files = match paths.len() {
        1 => "1 segment file is".to_owned(),
        count => format!("{count} segment files are"),
    };
    Error::Damaged {
        what: SEGMENTS,
        why: format!(
            "{files} damaged or missing in the vault ({}). The backup keeps the copies that it had of these files, and is up to date otherwise. \
             To mend the vault, copy those files from the folder `segments` of the backup into that of the vault, then run \
             `strongroom repair`",
            named.join(", ")
        ),
    }
}

/// The segments in a folder of them, as `ab/abcdef…`.
fn segment_paths(segments: &HeldFolder) -> strongroom_folder::Result<Vec<String>> {
    let is_hex = |name: &str, len: usize| {
        name.len() == len && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let mut all = Vec::new();
    for folder in segments.list()? {
        if folder.kind != FileType::Directory || !is_hex(&folder.name, 2) {
            continue;
        }
        let files = segments.folder(&folder.name)?.list()?.into_iter();
        let files = files.filter(|file| file.kind == FileType::RegularFile);
        let named = files.filter(|file| is_hex(&file.name, 32));
        all.extend(named.map(|file| format!("{}/{}", folder.name, file.name)));
    }
    Ok(all)
}

/// The content of a segment file of the vault, with zeros where the disk does not give it, and how many bytes that are. `None` if there is
/// none, the disk has lost it, or it is strange.
fn read_segment(from: &HeldFolder, path: &str) -> Result<Option<(Vec<u8>, u64)>> {
    const WHAT: &str = "copying segments into the backup";
    let file = match from.open_file(path, Purpose::Read) {
        Err(BelowError::Odd(_)) => return Ok(None),
        Err(error) if error.is_missing() => return Ok(None),
        Err(BelowError::Io(error)) if is_decay(&error) => return Ok(None),
        opened => opened.map_err(below(WHAT))?,
    };
    let len = file.metadata().map_err(Error::io(WHAT))?.len();
    let len = usize::try_from(len.min(SEGMENT_BYTES_MAX)).expect("a segment fits into memory");
    let mut bytes = vec![0_u8; len];
    let read = read_readable(&mut bytes, |part, at| read_at(&file, part, at));
    let (len, unreadable) = read.map_err(strongroom_filesystem::Error::from)?;
    bytes.truncate(len);
    Ok(Some((bytes, unreadable)))
}

/// Reads until `part` is full or the file ends; gives the count of bytes.
fn read_at(file: &impl FileExt, part: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < part.len() {
        match file.read_at(&mut part[done..], at + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// How long a file is; `None` if there is none.
fn len(held: &HeldFolder, path: &str) -> strongroom_folder::Result<Option<u64>> {
    match held.open_file(path, Purpose::Read) {
        Err(error) if error.is_missing() => Ok(None),
        opened => Ok(Some(opened?.metadata()?.len())),
    }
}

/// The footer at the end of a file, if it has one.
fn footer(bytes: &[u8]) -> Option<[u8; FOOTER_BYTES]> {
    let end = bytes.last_chunk().copied();
    end.filter(|end: &[u8; FOOTER_BYTES]| end.starts_with(FOOTER))
}

/// The footer of a file in the backup, if it is there and has one.
fn footer_there(
    to: &HeldFolder,
    path: &str,
) -> strongroom_folder::Result<Option<[u8; FOOTER_BYTES]>> {
    let at = len(to, path)?.and_then(|len| len.checked_sub(FOOTER_BYTES as u64));
    let Some(at) = at else {
        return Ok(None);
    };
    let mut end = [0; FOOTER_BYTES];
    to.open_file(path, Purpose::Read)?
        .read_exact_at(&mut end, at)?;
    Ok(footer(&end))
}

/// Whether an earlier backup has this very file.                                                              (3)
fn is_copied(to: &HeldFolder, path: &str, bytes: &[u8]) -> strongroom_folder::Result<bool> {
    let end = footer(bytes);
    Ok(end.is_some()
        && len(to, path)? == Some(bytes.len() as u64)
        && footer_there(to, path)? == end)
}

/// Whether the backup has a file with something that `bytes`, which are damaged, lack. One that was copied while it was appended to may
/// be the beginning of `bytes`.                                                                               (4)
fn has_more(to: &HeldFolder, path: &str, bytes: &[u8]) -> strongroom_folder::Result<bool> {
    let Some(len) = len(to, path)? else {
        return Ok(false);
    };
    let Some(id) = hex::decode(&path[3..]).map(SegmentId) else {
        return Ok(true);
    };
    let found = survey(bytes, id);
    let is_beginning = found.end >= len && found.faults.iter().all(|fault| fault.start >= len);
    Ok(!is_beginning || footer_there(to, path)?.is_some())
}

/// Puts a segment file into the backup, durable, and reads it back.
fn copy(to: &HeldFolder, path: &str, bytes: &[u8]) -> Result<()> {
    let failed = || below("copying a segment into the backup");
    let (folder, name) = (&path[..2], &path[3..]);
    let folder = to.folder(folder).map_err(failed())?;
    let new = folder.new_file(bytes).map_err(failed())?;
    // From the disk, where the system lets go of what it keeps.
    let _ = fadvise(&*new, 0, None, Advice::DontNeed);
    new.put(name).map_err(failed())?;
    let found = folder.read(name, SEGMENT_BYTES_MAX).map_err(failed())?;
    if found.as_deref() == Some(bytes) {
        return Ok(());
    }
    Err(Error::Damaged {
        what: SEGMENTS,
        why: "reading the backup back gave other bytes than were copied; its disk is failing"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::fs;
    use std::path::PathBuf;

    use strongroom_crypto::{KeyFile, SystemRandom};

    use super::*;
    use crate::CreateOptions;

    /// A vault with a backup of it, and its longest segment, finished, which was zeroed in the vault since.
    struct Fixture {
        /// Closed before its folder goes.
        vault: Vault,
        place: tempfile::TempDir,
        /// Of the segment, below the folder of segments.
        path: String,
        good: Vec<u8>,
    }

    impl Fixture {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let key_file = KeyFile::random(&SystemRandom).unwrap();
            let created = CreateOptions::new().key_file(key_file);
            let vault = Vault::create(place.path().join("vault"), created)
                .unwrap()
                .vault;
            let content: Vec<u8> = (0..75_000_u32).flat_map(u32::to_le_bytes).collect();
            vault.write("/file", &content).unwrap();
            vault.compact().unwrap();
            let target = place.path().join("backup");
            vault.backup(&target, &mut |_| GoOn::Yes).unwrap();
            let segments = vault.folder().join(SEGMENTS);
            let held = Folder::new(vault.folder()).inside(SEGMENTS).hold().unwrap();
            let paths = segment_paths(&held).unwrap().into_iter();
            let path = paths
                .max_by_key(|path| fs::metadata(segments.join(path)).unwrap().len())
                .unwrap();
            let good = fs::read(segments.join(&path)).unwrap();
            let mut damaged = good.clone();
            damaged[4096..].fill(0);
            fs::write(segments.join(&path), damaged).unwrap();
            Self {
                vault,
                place,
                path,
                good,
            }
        }

        fn backup(&self, owner: Port) -> Backup<'_> {
            Backup {
                vault: &self.vault,
                owner,
                source: Folder::new(self.vault.folder()).absolute().unwrap(),
                target: Folder::new(&self.target()).absolute().unwrap(),
                is_new: false,
                needed: BTreeMap::new(),
                damaged: Vec::new(),
                report: BackupReport::default(),
            }
        }

        fn target(&self) -> PathBuf {
            self.place.path().join("backup")
        }

        fn has_good_copy(&self) -> bool {
            fs::read(self.target().join(SEGMENTS).join(&self.path)).unwrap() == self.good
        }
    }

    /// Goal: an owner that came after the backup began, and knows nothing of it, costs no good copy. Failed before: it said that no segment
    /// was needed. Damaged ones took the place of good copies, and only then the backup ended because the owner had gone.
    #[test]
    fn no_copy_is_replaced_if_the_owner_went_before_it_said_what_is_needed() {
        let fixture = Fixture::new();
        let done = fixture.backup(Port::Left).run(&mut |_| GoOn::Yes);
        assert!(matches!(done, Err(Error::OwnerGone)), "{done:?}");
        assert!(fixture.has_good_copy());
    }

    /// Goal: a repair that gives up blocks while a backup begins costs no good copy. Method: what such a backup hears: the database needs
    /// nothing of the damaged file, and refers to the lost segment. Failed before: the damaged file took the place of the good copy.
    #[test]
    fn what_a_repair_gave_up_meanwhile_replaces_no_good_copy() {
        let fixture = Fixture::new();
        let mut backup = fixture.backup(fixture.vault.port());
        backup.needed.insert(placed_segment(LOST_SEGMENT), 0);
        backup.segments(&mut |_| GoOn::Yes).unwrap();
        assert!(fixture.has_good_copy());
        assert_eq!(backup.damaged, Vec::<String>::new());
    }
}

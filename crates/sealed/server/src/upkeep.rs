//! The upkeep of what a server stores: compares it, copies it, and frees what nothing refers to, whether the server runs or not.
//!
//! Takes   where a server stores everything, and a folder for a backup
//! Gives   what is wrong, by account, vault and name; a backup that `serve` can run on; with an object store, a period for making one
//! Never   removes or changes an object
//!
//! Invariants
//!  (1) A backup is one state of the database with the bytes of all its objects. While it is made, the folder `TO` has
//!      the whole earlier backup, and beside it files that only the new one needs.
//!  (2) A file in `objects` without a row is garbage, also while a server runs: the row of an object is added before
//!      its file gets there, and removed after it has left. In an object store a file without a row in any table is
//!      garbage (`ledger/shared.rs`).
//!  (3) In a backup of several instances, the bytes of every object that was in the database at its beginning stay until its end.
//!  (4) What the disk does not give of one object ends neither a check nor a backup. A copy of a damaged object never has the length of the
//!      object: so the next backup copies it again, and names it again.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::io::Errno;
use strongroom_remote::ObjectName;

use crate::backup_lock::Keeping;
use crate::error::{Error, Result};
use crate::files::{Collecting, Files, sync_folder};
use crate::ledger::shared::BACKUP;
use crate::ledger::{DATABASE, Ledger, ListedObject};
use crate::limits::{PIECE_BYTES, PROBLEMS_MAX, UPLOAD_S_MAX};
use crate::named::Named;
use crate::objects::Objects;
use crate::storage::Storage;
use crate::store::{Store, Use, is_locked};
use crate::tls::copy_own;

/// The copy of the database while a backup is made.
const NEW_DATABASE: &str = "server.db.new";

/// How far a check or a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpkeepProgress {
    /// Objects that are done.
    pub objects: u64,
    /// All objects when it began.
    pub objects_total: u64,
    /// Bytes that were read.
    pub bytes: u64,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// The account; empty if it is about the whole database.
    pub account: String,
    /// The vault; empty if it is about the account.
    pub vault: String,
    /// The object; empty if it is about the vault.
    pub object: String,
    /// What is wrong.
    pub what: String,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CheckReport {
    /// Objects of all accounts.
    pub objects: u64,
    /// Their bytes, as the database has them.
    pub bytes: u64,
    /// How many problems there are.
    pub problem_count: u64,
    /// The first of them, up to 1,000.
    pub problems: Vec<Problem>,
    /// Files without an object, which `gc` removes.
    pub garbage_files: u64,
    /// Their bytes.
    pub garbage_bytes: u64,
}

/// What `gc` removed, or would remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct GarbageReport {
    /// Files without an object.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a backup did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct BackupReport {
    /// Objects that the backup has.
    pub objects: u64,
    /// Objects that were copied; the backup had the others already.
    pub copied: u64,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// How many objects are lost or damaged in the folder of the server.
    pub problem_count: u64,
    /// The first of them, up to 1,000.
    pub problems: Vec<Problem>,
}

/// Whether all bytes are read, or only lengths are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// All bytes are read and compared with the hash in the name of the object, if it has one.
    Content,
    /// Only lengths are compared.
    Lengths,
}

/// Which uploads without an end are taken for cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unfinished {
    /// Those that have taken longer than any may.
    #[default]
    Late,
    /// All: one that is under way fails, and is repeated by its client.
    All,
}

/// What a server stores, for its administrator.
#[derive(Debug)]
pub struct Upkeep(Store);

impl Upkeep {
    /// That in `storage`. A folder must have been made by a server.
    ///
    /// # Errors
    /// `NoServer`, `NewerSchema`, `Database`, `Io`; `Configuration`, `ForeignDatabase`, `DatabaseAway`.
    pub fn open(storage: impl Into<Storage>) -> Result<Self> {
        Store::open(&storage.into(), Use::Upkeep).map(Self)
    }

    /// Compares the database with the files: each object has its bytes, as many as it says, with the hash that its name says.
    /// O(objects), with `Content` O(bytes). `told` hears of the progress.
    ///
    /// # Errors
    /// `Database`, `Io`. What is wrong with objects is in the report.
    pub fn check(
        &self,
        reading: Reading,
        told: &mut dyn FnMut(UpkeepProgress),
    ) -> Result<CheckReport> {
        let ledger = &self.0.ledger;
        let mut problems = Problems::default();
        for what in ledger.unsound()? {
            problems.add(&[], what);
        }
        for account in ledger.miscounted()? {
            problems.add(
                &[&account],
                "its usage is not the sum of its objects".into(),
            );
        }
        for (account, vault, last) in ledger.without_newest()? {
            problems.add(
                &[&account, &vault],
                format!("its newest publication, number {last}, is missing"),
            );
        }
        let mut report = CheckReport::default();
        let mut progress = UpkeepProgress {
            objects_total: ledger.count()?,
            ..UpkeepProgress::default()
        };
        ledger.each_object(|object| {
            report.objects += 1;
            report.bytes += object.len;
            let found = match reading {
                Reading::Lengths => {
                    let len = self.0.objects.len(object.file);
                    len.map(|len| len.map(|len| wrong_len(object, len)))
                }
                Reading::Content => self.0.objects.reader(object.file).and_then(|opened| {
                    let bytes = &mut progress.bytes;
                    let read =
                        opened.map(|(_, from)| wrong_with(object, from, bytes, &mut io::sink()));
                    read.transpose()
                }),
            };
            let found = match found {
                Err(Error::Io { source, .. }) if is_decay(&source) => Some(unreadable(&source)),
                found => match found? {
                    Some(found) => found,
                    // It was removed meanwhile, or its bytes are lost.
                    None if ledger.has_file(object.file)? => Some(self.lost().to_owned()),
                    None => None,
                },
            };
            problems.of(object, found);
            progress.objects += 1;
            told(progress);
            Ok(())
        })?;
        let garbage = self.collect(Collecting::Count)?;
        (report.garbage_files, report.garbage_bytes) = (garbage.files, garbage.bytes);
        (report.problem_count, report.problems) = (problems.count, problems.first);
        Ok(report)
    }

    /// Removes, or counts, the files that no object has, as an older database leaves them that was put back, or an interrupted backup.
    /// O(files).  (2)
    ///
    /// # Errors
    /// `Database`, `Io`.
    pub fn collect(&self, collecting: Collecting) -> Result<GarbageReport> {
        self.collect_with(collecting, Unfinished::Late)
    }

    /// The same. In a folder no upload is unfinished but those of a server that runs.
    ///
    /// # Errors
    /// As `collect`; `BackupRunning` during a backup of several instances, and in a folder into which a backup is made.
    pub fn collect_with(
        &self,
        collecting: Collecting,
        unfinished: Unfinished,
    ) -> Result<GarbageReport> {
        let own = match &*self.0.objects {
            Objects::Folder(own) => &own.files,
            Objects::Bucket(bucket) => {
                let after_s = match unfinished {
                    Unfinished::Late => UPLOAD_S_MAX,
                    Unfinished::All => 0,
                };
                let (files, bytes) = bucket.collect(collecting, after_s)?;
                return Ok(GarbageReport { files, bytes });
            }
        };
        let (files, bytes) = self.0.release_kept(collecting)?;
        let mut report = GarbageReport { files, bytes };
        own.each_settled(|id, len| {
            if !self.0.ledger.has_file(id)? {
                report.files += 1;
                report.bytes += len;
                if collecting == Collecting::Remove {
                    // A backup copies files here before the database that knows them has its name.
                    if own.beside(NEW_DATABASE).exists() && is_locked(own)? {
                        return Err(Error::BackupRunning);
                    }
                    own.drop_settled(id)?;
                }
            }
            Ok(())
        })?;
        Ok(report)
    }

    /// Runs `copy`, which copies the database and then the object store, of a server of several instances: meanwhile the bytes of objects
    /// that are removed stay.  (3)
    ///
    /// # Errors
    /// `OnlyFolder`, `BackupRunning`; `BackupLost` if they may have gone all the same. Those of `copy` are in what it gives.
    pub fn during_backup<T>(&self, copy: impl FnOnce() -> T) -> Result<T> {
        let held = self.0.ledger.hold(BACKUP)?.ok_or(Error::BackupRunning)?;
        let copied = copy();
        match held.is_still_held() {
            Ok(true) => Ok(copied),
            Ok(false) | Err(Error::DatabaseAway(_)) => Err(Error::BackupLost),
            Err(error) => Err(error),
        }
    }

    fn lost(&self) -> &'static str {
        match *self.0.objects {
            Objects::Folder(_) => LOST,
            Objects::Bucket(_) => "it is missing from the object store",
        }
    }

    /// Brings the folder `to` to the state of the server, which may run meanwhile: objects that it has already are not copied again.
    /// The certificate that the server signed itself is copied, too, with its key. O(objects), and O(bytes) of what is copied.  (1)
    ///
    /// # Errors
    /// `NoFolder`; `Foreign` if `to` has something else, `InUse` if a server runs on it, `BackupRunning`, `SameFolder`, `EarlierServer`;
    /// `Database`, `Io`. Objects that are lost or damaged at the server are in the report.
    pub fn backup(
        &self,
        from: &Path,
        to: &Path,
        told: &mut dyn FnMut(UpkeepProgress),
    ) -> Result<BackupReport> {
        self.0.folder()?;
        if is_same(from, to)? {
            return Err(Error::SameFolder);
        }
        // Opening it ends what a server left in the log of the database, which would be taken for a part of the new one.
        let target = Store::open_folder(to, Use::Serving)?;
        let files = &target.folder()?.files;
        let keeping = self.0.keep_removed()?;
        let copied = self.copy_objects(to, files, &keeping, told);
        drop(keeping);
        let released = self.0.release_kept(Collecting::Remove);
        let report = copied?;
        copy_own(from, to)?;
        files.sync_settled()?;
        let (held, files) = target.without_ledger(to)?;
        fs::rename(to.join(NEW_DATABASE), to.join(DATABASE))
            .map_err(Error::io("replacing the database of the backup"))?;
        sync_folder(to)?;
        let ledger = Ledger::open(&to.join(DATABASE))?;
        files.each_settled(|id, _| match ledger.has_file(id)? {
            true => Ok(()),
            false => files.drop_settled(id),
        })?;
        drop(ledger);
        drop(held);
        released.map(|_| report)
    }

    /// Copies the database to its new name and the bytes of its objects into `files`. Files of objects that are removed meanwhile are kept.
    fn copy_objects(
        &self,
        to: &Path,
        files: &Files,
        keeping: &Keeping,
        told: &mut dyn FnMut(UpkeepProgress),
    ) -> Result<BackupReport> {
        let path = to.join(NEW_DATABASE);
        remove_database(&path)?;
        self.0.ledger.copy_to(&path)?;
        let copy = Ledger::open(&path)?;
        let newest_s = copy.newest_s()?;
        let database = &self.0.ledger.database;
        database.between_changes(|| keeping.only_until(newest_s))?;
        let (mut report, mut problems) = (BackupReport::default(), Problems::default());
        let mut progress = UpkeepProgress {
            objects_total: copy.count()?,
            ..UpkeepProgress::default()
        };
        copy.each_object(|object| {
            if !files.has_settled(object.file, object.len)? {
                match self.0.objects.reader(object.file) {
                    Err(Error::Io { source, .. }) if is_decay(&source) => {
                        problems.of(object, Some(unreadable(&source)));
                    }
                    opened => match opened? {
                        Some((_, from)) => {
                            let found = files.add_settled(object.file, |out| {
                                copy_of(object, from, &mut progress.bytes, out)
                            })?;
                            problems.of(object, found);
                            report.copied += 1;
                        }
                        None if self.0.ledger.has_file(object.file)? => {
                            problems.of(object, Some(LOST.to_owned()));
                        }
                        None => return Err(Error::EarlierServer),
                    },
                }
            }
            progress.objects += 1;
            told(progress);
            Ok(())
        })?;
        (report.objects, report.copied_bytes) = (progress.objects, progress.bytes);
        (report.problem_count, report.problems) = (problems.count, problems.first);
        drop(copy);
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced
            .map(|()| report)
            .map_err(Error::io("syncing the database of the backup"))
    }
}

const LOST: &str = "its file is missing from the folder of objects";

/// Problems: all counted, the first kept.
#[derive(Default)]
struct Problems {
    count: u64,
    first: Vec<Problem>,
}

impl Problems {
    /// `about` is the account, its vault and its object, as far as known.
    fn add(&mut self, about: &[&str], what: String) {
        self.count += 1;
        if self.first.len() < PROBLEMS_MAX {
            let of = |at: usize| {
                about
                    .get(at)
                    .map_or_else(String::new, |name| (*name).to_owned())
            };
            self.first.push(Problem {
                account: of(0),
                vault: of(1),
                object: of(2),
                what,
            });
        }
    }

    fn of(&mut self, object: &ListedObject, what: Option<String>) {
        if let Some(what) = what {
            self.add(&[&object.account, &object.vault, &object.name], what);
        }
    }
}

/// What is wrong with the length of an object, if anything is.
fn wrong_len(object: &ListedObject, len: u64) -> Option<String> {
    (len != object.len).then(|| format!("it has {len} bytes instead of {}", object.len))
}

/// Copies the bytes of an object; gives what is wrong with them, if anything is. (4)
fn copy_of(
    object: &ListedObject,
    from: impl Read,
    bytes: &mut u64,
    out: &mut File,
) -> Result<Option<String>> {
    let found = wrong_with(object, from, bytes, out)?;
    let failed = || Error::io("writing a copy of an object");
    if found.is_some() && out.metadata().map_err(failed())?.len() == object.len {
        // Nobody reads it: the database says where the object ends.
        out.write_all(&[0]).map_err(failed())?;
    }
    Ok(found)
}

/// What is wrong with the bytes of an object, if anything is, also that the disk has lost some; they are written to `out`, and counted.
fn wrong_with(
    object: &ListedObject,
    mut from: impl Read,
    bytes: &mut u64,
    out: &mut dyn Write,
) -> Result<Option<String>> {
    let failed = || Error::io("reading an object");
    let (mut hasher, mut read) = (blake3::Hasher::new(), 0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = match from.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_decay(&error) => return Ok(Some(unreadable(&error))),
            count => count.map_err(failed())?,
        };
        if count == 0 {
            break;
        }
        hasher.update(&piece[..count]);
        out.write_all(&piece[..count])
            .map_err(Error::io("writing a copy of an object"))?;
        read += count as u64;
        *bytes += count as u64;
    }
    if read != object.len {
        return Ok(wrong_len(object, read));
    }
    let admits = ObjectName::new(object.name.clone())
        .map(|name| Named::of(&name).admits(&hasher.finalize()));
    Ok(match admits {
        Ok(true) => None,
        Ok(false) => Some("its bytes do not have the hash in its name".to_owned()),
        Err(error) => Some(error.to_string()),
    })
}

/// Whether the disk, or the file system on it, says that these bytes are lost. Another try gives the same.
fn is_decay(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::IO | Errno::NODATA | Errno::ILSEQ | Errno::BADMSG | Errno::UCLEAN)
    )
}

fn unreadable(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

fn is_same(from: &Path, to: &Path) -> Result<bool> {
    let real = |path: &Path| match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        path => path.map(Some).map_err(Error::io("examining a folder")),
    };
    Ok(real(from)? == real(to)?)
}

/// Removes a database that nobody has open, with what SQLite puts beside it.
fn remove_database(path: &Path) -> Result<()> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        match fs::remove_file(Path::new(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(Error::io("removing an old copy of the database"))?,
        }
    }
    Ok(())
}

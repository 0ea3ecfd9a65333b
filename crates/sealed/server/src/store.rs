//! The storage of a server: its database and the bytes of its objects, used as one.
//!
//! Takes   a folder that no other server uses, or a database and an object store that other instances use, too
//! Gives   creation, reading, listing and removal of objects; accounts
//! Never   reports an object as present before its bytes and its row are durable
//!
//! ```text
//! FOLDER/server.db    accounts, vaults, names of objects           ledger.rs
//! FOLDER/objects/     their bytes                                  files.rs
//! FOLDER/moving/      bytes that are being added or removed     files.rs
//! FOLDER/tls/         the self-signed certificate of the server     tls.rs
//! FOLDER/kept/        bytes of objects that were removed while a backup was made
//! FOLDER/lock         locked by the running server
//! FOLDER/backup       locked by backups that are being made  backup_lock.rs
//! ```
//!
//! Several instances have PostgreSQL (`database/postgres.rs`) and an object store (`bucket.rs`) in the place of the folder, and nothing on the
//! disks of their own machines.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use strongroom_format::limits::HEADER_BYTES_MAX;
use strongroom_remote::ObjectName;
use strongroom_remote::protocol::{Page, Refusal, is_part};

use crate::backup_lock::{BackupLock, Keeping};
use crate::bucket::Bucket;
use crate::database::Database;
use crate::database::postgres::Postgres;
use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::files::{Aside, Collecting, Files, make_folder};
use crate::header_chain::HeaderChain;
use crate::inbox_rows::address_name;
use crate::ledger::{Account, DATABASE, Found, Ledger, Quota, Removed, Standing, VaultKey};
use crate::limits::DATABASE_UPKEEP;
use crate::named::Named;
use crate::objects::{Content, Folder, Incoming, Objects};
use crate::outside::Outside;
use crate::rights::Asker;
use crate::storage::{Shared, Storage};
use crate::token::{Token, TokenHash};

/// Objects that the removal of an account takes at a time.
const REMOVED_AT_ONCE: usize = 1000;

/// How long it leaves the database to others between two times: SQLite looks every 100 ms whether it is free.
const REMOVAL_PAUSE: Duration = Duration::from_millis(150);

/// All that a server stores.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) ledger: Ledger,
    pub(crate) objects: Arc<Objects>,
    /// Held while this lives.
    lock: Option<File>,
}

/// An object that is to be sent.
pub(crate) struct Opened {
    pub(crate) found: Found,
    /// `None`: the whole.
    pub(crate) part: Option<Range<u64>>,
    pub(crate) content: Content,
}

/// Who opens a folder: a server, or somebody who looks after it, perhaps beside one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Nobody else serves it meanwhile.
    Serving,
    /// It is made if it is not there.
    Accounts,
    /// It must be there.
    Upkeep,
}

/// What a server holds while it runs; the first file in its folder.
const LOCK: &str = "lock";

/// Refuses a folder that has something, and no database of a server: a vault, or somebody's home.
fn check_own(folder: &Path) -> Result<()> {
    let failed = || Error::io("examining the folder of the server");
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed())?,
    };
    if folder.join(DATABASE).exists() {
        return Ok(());
    }
    for entry in entries {
        if entry.map_err(failed())?.file_name() != LOCK {
            return Err(Error::Foreign);
        }
    }
    Ok(())
}

impl Store {
    /// What is there.
    ///
    /// # Errors
    /// As `open_folder` and `open_shared`.
    pub(crate) fn open(storage: &Storage, purpose: Use) -> Result<Self> {
        match storage {
            Storage::Folder(folder) => Self::open_folder(folder, purpose),
            Storage::Shared(shared) => Self::open_shared(shared, purpose),
        }
    }

    /// What several instances share. What one that was killed has left there is a matter of `gc`: another one may be at work.
    ///
    /// # Errors
    /// `Configuration`, `NewerSchema`, `ForeignDatabase`, `DatabaseAway`.
    fn open_shared(shared: &Shared, purpose: Use) -> Result<Self> {
        let outside = Arc::new(Outside::new()?);
        let statement = (purpose == Use::Upkeep).then_some(DATABASE_UPKEEP);
        let postgres = Postgres::new(shared, Arc::clone(&outside), statement)?;
        let database = Arc::new(Database::Postgres(Box::new(postgres)));
        let ledger = Ledger::shared(database)?;
        let bucket = Bucket::new(&shared.objects, outside, ledger.clone())?;
        Ok(Self {
            ledger,
            objects: Arc::new(Objects::Bucket(Arc::new(bucket))),
            lock: None,
        })
    }

    /// What is in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// `InUse`, `NewerSchema`, `Database`, `Io`; `NoServer` for `Upkeep`.
    pub(crate) fn open_folder(folder: &Path, purpose: Use) -> Result<Self> {
        if purpose == Use::Upkeep && !folder.join(DATABASE).exists() {
            return Err(Error::NoServer);
        }
        check_own(folder)?;
        make_folder(folder)?;
        let lock = match purpose {
            Use::Serving => Some(lock(&folder.join(LOCK))?),
            Use::Accounts | Use::Upkeep => None,
        };
        let ledger = Ledger::open(&folder.join(DATABASE))?;
        let files = Arc::new(Files::open(folder)?);
        let own = Folder {
            files: Arc::clone(&files),
            backups: BackupLock::of(folder)?,
        };
        let store = Self {
            ledger,
            objects: Arc::new(Objects::Folder(own)),
            lock,
        };
        if purpose == Use::Serving {
            for id in files.aside(Aside::Moving)? {
                match store.ledger.has_file(id)? {
                    // Where it lies it is found, too: on a full disk it may not be moved, and another process may be removing its account.
                    true => store.objects.settle(id),
                    false => files.drop_file(id)?,
                }
            }
            store.release_kept(Collecting::Remove)?;
        }
        Ok(store)
    }

    /// Whether several instances share it.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(*self.objects, Objects::Bucket(_))
    }

    /// What is in the folder of a server that is alone.
    ///
    /// # Errors
    /// `NoFolder`.
    pub(crate) fn folder(&self) -> Result<&Folder> {
        match &*self.objects {
            Objects::Folder(folder) => Ok(folder),
            Objects::Bucket(_) => Err(Error::NoFolder),
        }
    }

    /// The account of that name, if the token is its own and it may be used.
    ///
    /// # Errors
    /// `Refused`. Who has no token of an account learns nothing of what accounts there are.
    pub(crate) fn authorise(&self, token: TokenHash, name: &str) -> Result<Account> {
        let account = self.ledger.account_of(token)?;
        let account = account.ok_or(Refusal::WrongToken)?;
        if account.name != name {
            return Err(Refusal::OtherAccount.into());
        }
        match account.standing {
            Standing::Active => Ok(account),
            Standing::Suspended => Err(Refusal::Suspended.into()),
        }
    }

    /// Whether an object of that length could be created now.
    ///
    /// # Errors
    /// `Refused`.
    pub(crate) fn may_create(
        &self,
        by: (&VaultKey, &Asker),
        name: &ObjectName,
        len: u64,
    ) -> Result<()> {
        self.ledger.may_add(by, name, len)
    }

    /// At most `bytes_max` bytes of a file, and one more if it has more.
    ///
    /// # Errors
    /// `Lost` if it is gone.
    pub(crate) fn bytes(&self, file: FileId, bytes_max: u64) -> Result<Vec<u8>> {
        let opened = self.objects.reader(file)?;
        let (_, reader) = opened.ok_or_else(|| Error::Lost(file.to_string()))?;
        let mut bytes = Vec::new();
        let read = reader.take(bytes_max + 1).read_to_end(&mut bytes);
        read.map_err(Error::io("reading an object"))?;
        Ok(bytes)
    }

    /// The chain of the header that came, if the vault is followed.                             [11.11.5]
    fn chain_of(&self, vault: &VaultKey, incoming: &Incoming) -> Result<Option<HeaderChain>> {
        if self.ledger.noted(vault)?.is_none() {
            return Ok(None);
        }
        let bytes = self.bytes(incoming.id, HEADER_BYTES_MAX as u64)?;
        Ok(Some(HeaderChain::of_header(&bytes)?))
    }

    /// Creates an object of what came; gives the number of the newest publication then.
    ///
    /// # Errors
    /// `Refused`; then nothing has changed.
    pub(crate) fn create(
        &self,
        by: (&VaultKey, &Asker),
        name: &ObjectName,
        mut incoming: Incoming,
    ) -> Result<u64> {
        if !Named::of(name).admits(&incoming.hash()) {
            return Err(Refusal::Hash.into());
        }
        incoming.sync()?;
        let header = match is_header(name) {
            true => self.chain_of(by.0, &incoming)?,
            false => None,
        };
        let id = incoming.id;
        match self
            .ledger
            .add(by, name, (id, incoming.len()), header.as_ref())
        {
            Ok(last) => {
                incoming.keep();
                self.objects.settle(id);
                Ok(last)
            }
            Err(error @ Error::Uncertain(_)) => {
                // The next start, or `gc`, finds out whether there is an object of this file.
                incoming.keep();
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// An object, and of its bytes what `part` says of its length; `None` if there is none.
    ///
    /// # Errors
    /// Those of `part`; `Lost`.
    pub(crate) fn read(
        &self,
        vault: &VaultKey,
        name: &ObjectName,
        part: impl FnOnce(u64) -> std::result::Result<Option<Range<u64>>, Refusal>,
    ) -> Result<Option<Opened>> {
        let Some(found) = self.ledger.find(vault, name.as_str())? else {
            return Ok(None);
        };
        let part = part(found.len)?;
        let wanted = part.clone().unwrap_or(0..found.len);
        if let Some(content) = self.objects.open(&found, wanted)? {
            return Ok(Some(Opened {
                found,
                part,
                content,
            }));
        }
        // It was removed meanwhile, or its bytes are lost.
        match self.ledger.find(vault, name.as_str())? {
            Some(again) if again.file == found.file => Err(Error::Lost(found.file.to_string())),
            _ => Ok(None),
        }
    }

    /// The lock and the files, once the database is closed and its log ended.
    ///
    /// # Errors
    /// `InUse` if another process has the database open.
    pub(crate) fn without_ledger(self, folder: &Path) -> Result<(Option<File>, Arc<Files>)> {
        let files = Arc::clone(&self.folder()?.files);
        let Self { ledger, lock, .. } = self;
        drop(ledger);
        match folder.join(format!("{DATABASE}-wal")).exists() {
            true => Err(Error::InUse),
            false => Ok((lock, files)),
        }
    }

    /// The object of an address of the inbox, at most `bytes_max` bytes of it and one more; `None` if there is none.
    pub(crate) fn address(
        &self,
        vault: &VaultKey,
        token: TokenHash,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>> {
        let name = address_name(token);
        let Some(found) = self.ledger.find(vault, &name)? else {
            return Ok(None);
        };
        match self.bytes(found.file, bytes_max) {
            Err(Error::Lost(id)) => match self.ledger.find(vault, &name)? {
                Some(again) if again.file == found.file => Err(Error::Lost(id)),
                // It was withdrawn meanwhile.
                _ => Ok(None),
            },
            bytes => bytes.map(Some),
        }
    }

    pub(crate) fn find(&self, vault: &VaultKey, name: &ObjectName) -> Result<Option<Found>> {
        self.ledger.find(vault, name.as_str())
    }

    /// Removes an object, if there is one.
    ///
    /// # Errors
    /// `Refused`, with `Kept` if its account keeps it for now.
    pub(crate) fn remove(&self, by: (&VaultKey, &Asker), name: &ObjectName) -> Result<()> {
        let mut aside = Aside::Moving;
        let removed = self.ledger.remove(by, name, |change, id, created_s| {
            aside = self.objects.leave(change, &[id], created_s)?;
            Ok(())
        })?;
        match removed {
            Removed::Kept => Err(Refusal::Kept.into()),
            Removed::File(id) if aside == Aside::Moving => self.objects.left(&[id]),
            Removed::File(_) | Removed::Nothing => Ok(()),
        }
    }

    /// From here on, while what this gives lives, files of removed objects are kept.
    ///
    /// # Errors
    /// `BackupRunning`.
    pub(crate) fn keep_removed(&self) -> Result<Keeping> {
        let backups = &self.folder()?.backups;
        (self.ledger.database).between_changes(|| backups.begin())
    }

    /// What was kept for backups and no object has; nothing while a backup is made. What has an object after all is settled.
    fn kept_garbage(&self) -> Result<Vec<FileId>> {
        let Folder { files, backups } = self.folder()?;
        self.ledger.database.between_changes(|| {
            let Some(_alone) = backups.alone()? else {
                return Ok(Vec::new());
            };
            let mut garbage = Vec::new();
            for id in files.aside(Aside::Kept)? {
                match self.ledger.has_file(id)? {
                    true => files.settle_kept(id)?,
                    false => garbage.push(id),
                }
            }
            Ok(garbage)
        })
    }

    /// Removes, or counts, the files that were kept for backups, unless one is being made; gives how many, and their bytes.
    pub(crate) fn release_kept(&self, collecting: Collecting) -> Result<(u64, u64)> {
        let own = &self.folder()?.files;
        let (mut files, mut bytes) = (0, 0);
        // No later copy of the database has them.
        for id in self.kept_garbage()? {
            files += 1;
            bytes += match collecting {
                Collecting::Remove => own.drop_kept(id)?,
                Collecting::Count => own.kept_len(id)?,
            };
        }
        Ok((files, bytes))
    }

    pub(crate) fn page(&self, vault: &VaultKey, kind: &str, after: &str) -> Result<Page> {
        self.ledger.page(vault, kind, after)
    }

    pub(crate) fn last(&self, vault: &VaultKey) -> Result<u64> {
        self.ledger.last(vault)
    }

    /// Refuses while it cannot be used.
    ///
    /// # Errors
    /// `DatabaseAway`, `ObjectsAway`; others.
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.objects.check_usable()?;
        match self.ledger.account("") {
            Err(Error::UnknownAccount(_)) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(Error::Unsound("an account without a name")),
        }
    }
}

/// Whether an object of that name is a header.
pub(crate) fn is_header(name: &ObjectName) -> bool {
    name.split().0 == Some("headers")
}

/// Whether a server, or somebody who makes a backup there, holds the lock of a folder. Nothing is made.
pub(crate) fn is_locked(files: &Files) -> Result<bool> {
    let file = match File::open(files.beside(LOCK)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(Error::io("opening the lock of the folder"))?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(Error::io("locking the folder")(error.into())),
    }
}

fn lock(path: &Path) -> Result<File> {
    let opened = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    let file = opened.map_err(Error::io("opening the lock of the folder"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::InUse),
        Err(error) => Err(Error::io("locking the folder")(error.into())),
    }
}

/// The accounts of a server, whether it is running or not.
#[derive(Debug)]
pub struct Accounts(Store);

impl Accounts {
    /// Those in `storage`; a folder is made if it is not there.
    ///
    /// # Errors
    /// `NewerSchema`, `Database`, `Io`; `Configuration`, `ForeignDatabase`, `DatabaseAway`.
    pub fn open(storage: impl Into<Storage>) -> Result<Self> {
        Store::open(&storage.into(), Use::Accounts).map(Self)
    }

    /// Adds an account; gives its token, which nobody can show again.
    ///
    /// # Errors
    /// `AccountName`, `AccountExists`, `TooManyAccounts`.
    pub fn add(&self, name: &str, quota: Quota) -> Result<Token> {
        if !is_part(name) {
            return Err(Error::AccountName(name.to_owned()));
        }
        let token = Token::random()?;
        let hash = TokenHash::of(token.reveal());
        self.0.ledger.add_account(name, hash, quota)?;
        Ok(token)
    }

    /// All of them, in order of their names.
    ///
    /// # Errors
    /// `Database`.
    pub fn list(&self) -> Result<Vec<Account>> {
        self.0.ledger.accounts()
    }

    /// Gives an account another token; the one before is refused from now on.
    ///
    /// # Errors
    /// `UnknownAccount`.
    pub fn renew_token(&self, name: &str) -> Result<Token> {
        let token = Token::random()?;
        let hash = TokenHash::of(token.reveal());
        self.0.ledger.set_token(name, hash)?;
        Ok(token)
    }

    /// Suspends an account, or lets it be used again.
    ///
    /// # Errors
    /// `UnknownAccount`.
    pub fn set_standing(&self, name: &str, standing: Standing) -> Result<()> {
        self.0.ledger.set_standing(name, standing)
    }

    /// Says what an account may use. What it uses already stays.
    ///
    /// # Errors
    /// `UnknownAccount`.
    pub fn set_quota(&self, name: &str, quota: Quota) -> Result<()> {
        self.0.ledger.set_quota(name, quota)
    }

    /// Keeps from now on for `days` what clients ask to remove from the vaults of an account: such a request is refused until so many days
    /// have passed since the first one for the same object. 0: it is removed at once. The days of what was asked for before begin again.
    /// This binds clients, and not the administrator.
    ///
    /// # Errors
    /// `UnknownAccount`.
    pub fn keep(&self, name: &str, days: u32) -> Result<()> {
        self.0.ledger.set_keep_days(name, days)
    }

    /// What clients have asked to remove from the vaults of an account that keeps it.
    ///
    /// # Errors
    /// `Database`.
    pub fn asked_for(&self, name: &str) -> Result<Quota> {
        self.0.ledger.asked_for(name)
    }

    /// Removes an account with everything that it has. It may be run again if it was interrupted.
    ///
    /// # Errors
    /// `UnknownAccount`; `Io`, `Database`.
    pub fn remove(&self, name: &str) -> Result<()> {
        let account = self.0.ledger.account(name)?;
        // Nothing comes from here on.
        self.set_standing(name, Standing::Suspended)?;
        let Store {
            ledger, objects, ..
        } = &self.0;
        loop {
            let mut aside = Aside::Moving;
            let some =
                ledger.remove_some(account.id, REMOVED_AT_ONCE, |change, some, oldest_s| {
                    aside = objects.leave(change, some, oldest_s)?;
                    Ok(())
                })?;
            if aside == Aside::Moving {
                objects.left(&some)?;
            }
            if some.len() < REMOVED_AT_ONCE {
                break;
            }
            std::thread::sleep(REMOVAL_PAUSE);
        }
        ledger.remove_account(account.id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    /// Goal: a server starts although it cannot move the file of an object to its place, and has the object. Method: the file lies where a
    /// kill leaves it, and something is in its place that it cannot replace. Failed before: the server did not start.
    #[test]
    fn a_server_starts_although_a_file_cannot_be_moved_to_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_folder(folder.path(), Use::Serving).unwrap();
        let token = TokenHash::of("srt-00");
        let ledger = &store.ledger;
        ledger.add_account("anna", token, Quota::default()).unwrap();
        let vault = VaultKey {
            account: ledger.account("anna").unwrap().id,
            name: "v".to_owned(),
        };
        let name = ObjectName::new("segments/a").unwrap();
        let mut incoming = store.objects.begin(5).unwrap();
        incoming.write(b"bytes").unwrap();
        let by = (&vault, &Asker::Account);
        store.create(by, &name, incoming).unwrap();
        let file = store.find(&vault, &name).unwrap().unwrap().file;
        drop(store);
        let shelf = folder.path().join(format!("objects/{:02x}", file.shelf()));
        let (place, moving) = (shelf.join(file.to_string()), folder.path().join("moving"));
        std::fs::rename(&place, moving.join(file.to_string())).unwrap();
        std::fs::create_dir(&place).unwrap();
        let store = Store::open_folder(folder.path(), Use::Serving).unwrap();
        std::fs::remove_dir(&place).unwrap();
        assert_eq!(store.bytes(file, 5).unwrap(), b"bytes");
    }
}

//! Joins the history to a file system, and keeps the records of revisions in the vault folder.
//!
//! Takes   an open file system, what signs, and the vault folder
//! Gives   revisions taken, listed, looked into and removed
//! Never   removes what a kept revision needs, or keeps a revision without its record
//! Spec    spec/6-history.md, section 6.2
//!
//! Invariants
//!  (1) One revision is taken or removed at a time.
//!  (2) A record is a file of its own, sealed, durable before the database knows its revision.    [6.2.6]

pub(crate) mod below;
pub(crate) mod held;
pub(crate) mod nodes;
pub(crate) mod record;

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use strongroom_crypto::record::padded_len;
use strongroom_crypto::{BlockSealer, Compression, RevisionSigner};
use strongroom_filesystem::{
    self as filesystem, Attributes, Filesystem, History, InodeId, KeptExtent, ListedEntry, Listing,
    NodeKind, Timestamp,
};
use strongroom_format::{BlockId, Epoch, Kind, hex};
use strongroom_history::{
    self as history, Candidate, Difference, GiveBack, NewRevision, Revision, RevisionId, Taken,
    Tree,
};
use strongroom_metadata::{BlockNumber, Reader};

use crate::folder::{Folder, REVISIONS, below as below_folder};
use crate::kept::below::{Below, below};
use crate::kept::nodes::KeptNodes;
use crate::kept::record::{LISTING, open_revision, record_files, record_name};
use crate::{Error, Result};

/// The history of one open vault.
pub struct Kept {
    signer: Mutex<RevisionSigner>,
    folder: Folder,
    /// (1)
    turn: Mutex<()>,
    giving_back: Mutex<GiveBack>,
    nodes: KeptNodes,
    /// Revisions that have proven themselves.
    proven: Mutex<HashMap<[u8; 32], Arc<Revision>>>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Kept").finish_non_exhaustive()
    }
}

impl History for Kept {
    fn give_back(&self, engine: filesystem::Engine<'_>) -> filesystem::Result<bool> {
        // Somebody else is at it: enough.
        let Some(mut giving_back) = self.giving_back.try_lock() else {
            return Ok(false);
        };
        giving_back
            .step(&Below(engine, &self.nodes.blocks))
            .map_err(below)
    }

    fn references(
        &self,
        engine: filesystem::Engine<'_>,
        reader: &Reader<'_>,
    ) -> filesystem::Result<(HashMap<BlockNumber, u32>, u64)> {
        // Past what was opened before: the check asks about the disk.
        let nothing = Mutex::new(LruCache::new(NonZeroUsize::MIN));
        history::references(&Below(engine, &nothing), reader).map_err(below)
    }

    fn top(&self, engine: filesystem::Engine<'_>) -> filesystem::Result<Attributes> {
        let reader = engine.reader()?;
        let newest = reader.revisions().map_err(filesystem::Error::from)?.pop();
        let root = reader
            .inode(InodeId::ROOT)
            .map_err(filesystem::Error::from)?;
        let owner = root.map_or((0, 0), |root| (root.uid, root.gid));
        self.nodes
            .top(owner, newest.map_or(Timestamp(0), |newest| newest.taken))
    }

    fn lookup(
        &self,
        engine: filesystem::Engine<'_>,
        parent: InodeId,
        name: &[u8],
    ) -> filesystem::Result<Attributes> {
        let below = self.below(engine);
        if !KeptNodes::is_top(parent) {
            return self.nodes.lookup(&below, parent, name);
        }
        match name {
            b"." => return self.top(engine),
            b".." => return Err(filesystem::Error::NotFound),
            _ => {}
        }
        let selector = std::str::from_utf8(name).map_err(|_| filesystem::Error::NotFound)?;
        let selected = self.select_one(engine, selector);
        // A name below `.history` that means nothing, or too much, is no name.
        let revision = selected.map_err(|error| match error {
            Error::Revision(_) => filesystem::Error::NotFound,
            error => below::below(error),
        })?;
        self.nodes
            .revision_root(&below, name, revision.id, &revision.body.root)
    }

    fn attributes(
        &self,
        _: filesystem::Engine<'_>,
        inode: InodeId,
    ) -> filesystem::Result<Attributes> {
        self.nodes.attributes(inode)
    }

    fn parent(&self, inode: InodeId) -> filesystem::Result<InodeId> {
        self.nodes.parent(inode)
    }

    fn list(
        &self,
        engine: filesystem::Engine<'_>,
        inode: InodeId,
        after: u64,
        limit: usize,
        listing: Listing,
    ) -> filesystem::Result<Vec<ListedEntry>> {
        if !KeptNodes::is_top(inode) {
            return self
                .nodes
                .list(&self.below(engine), inode, after, limit, listing);
        }
        let names = self.names(engine)?;
        let first = usize::try_from(after.saturating_sub(2)).unwrap_or(usize::MAX);
        let mut listed = Vec::new();
        for (name, cookie) in names.into_iter().zip(3..).skip(first).take(limit) {
            let attributes = self.lookup(engine, inode, &name)?;
            let number = attributes.inode;
            if listing != Listing::WithReferences {
                self.nodes.forget(number, 1);
            }
            listed.push(ListedEntry {
                name,
                inode: number,
                kind: NodeKind::Directory,
                cookie,
                attributes: (listing != Listing::Names).then_some(attributes),
            });
        }
        Ok(listed)
    }

    fn read_link(&self, inode: InodeId) -> filesystem::Result<Vec<u8>> {
        self.nodes.read_link(inode)
    }

    fn xattrs(
        &self,
        engine: filesystem::Engine<'_>,
        inode: InodeId,
    ) -> filesystem::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.nodes.xattrs(&self.below(engine), inode)
    }

    fn extents(
        &self,
        engine: filesystem::Engine<'_>,
        inode: InodeId,
        from: u64,
        to: u64,
        limit: usize,
    ) -> filesystem::Result<Vec<KeptExtent>> {
        self.nodes
            .extents(&self.below(engine), inode, from, to, limit)
    }

    fn retain(&self, inode: InodeId) {
        self.nodes.retain(inode);
    }

    fn forget(&self, inode: InodeId, count: u64) {
        self.nodes.forget(inode, count);
    }
}

impl Kept {
    /// Joins a history to `filesystem`, and writes the records that are missing.
    ///
    /// # Errors
    /// Of the stores and the disk.
    #[doc(hidden)]
    pub fn attach(filesystem: &Filesystem, signer: RevisionSigner, folder: &Path) -> Arc<Self> {
        let kept = Arc::new(Self {
            signer: Mutex::new(signer),
            folder: Folder::new(folder),
            turn: Mutex::new(()),
            giving_back: Mutex::new(GiveBack::default()),
            nodes: KeptNodes::default(),
            proven: Mutex::default(),
        });
        filesystem.attach_history(Arc::<Self>::clone(&kept));
        kept
    }

    /// Writes the records of kept revisions that are not there: a removal was interrupted, or they were lost.
    ///
    /// # Errors
    /// Of the stores and the disk.
    #[doc(hidden)]
    pub fn mend_records(&self, filesystem: &Filesystem) -> Result<()> {
        self.forget_interrupted(filesystem)?;
        let rows = filesystem.engine().reader()?.revisions()?;
        if rows.is_empty() {
            return Ok(());
        }
        let there: HashSet<String> = self.record_names()?.into_iter().map(|(id, _)| id).collect();
        for row in rows {
            if !there.contains(&hex::encode(&row.id)) {
                self.write_record(filesystem, &RevisionId(row.id), &row.body)?;
            }
        }
        Ok(())
    }

    /// Removes the record of a revision that was cut off before the database knew it: nothing would explain it.
    fn forget_interrupted(&self, filesystem: &Filesystem) -> Result<()> {
        let named = filesystem.setting(history::TAKING)?.unwrap_or_default();
        let Ok(id) = <[u8; 32]>::try_from(named.as_slice()) else {
            return Ok(());
        };
        if filesystem.engine().reader()?.revision(&id)?.is_none() {
            self.remove_record(&RevisionId(id))?;
        }
        Ok(filesystem.keep_setting(history::TAKING, &[])?)
    }

    /// Signs with `signer` from now on: the keys of the vault changed.
    #[doc(hidden)]
    pub fn sign_with(&self, signer: RevisionSigner) {
        *self.signer.lock() = signer;
    }

    /// Takes a revision of everything; durable on return.
    ///
    /// # Errors
    /// `Invalid` for a message or tags beyond their bounds; those of the stores and the disk.
    #[doc(hidden)]
    pub fn take(&self, filesystem: &Filesystem, new: &NewRevision) -> Result<Taken> {
        let _turn = self.turn();
        let engine = filesystem.engine();
        self.has_no_tag_of(engine, &new.tags)?;
        let signer = self.signer.lock().clone();
        history::take(
            &self.below(engine),
            &signer,
            engine.now(),
            new,
            |revision| {
                let written = self.write_record(filesystem, &revision.id, &revision.encode());
                if written.is_err() {
                    // Whatever is left of it is removed by the next opening, if not now.
                    let _ = self.remove_record(&revision.id);
                }
                written
            },
        )
    }

    /// Refuses tags that a kept revision has: a tag that names two names none.                         [6.9.2]
    fn has_no_tag_of(&self, engine: filesystem::Engine<'_>, tags: &[String]) -> Result<()> {
        if tags.is_empty() {
            return Ok(());
        }
        for revision in self.proven(engine)? {
            if let Some(tag) = tags.iter().find(|tag| revision.body.tags.contains(tag)) {
                return Err(Error::TagTaken {
                    tag: tag.clone(),
                    revision: revision.id.to_string()[..16].to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The kept revisions, oldest first; each proven.
    ///
    /// # Errors
    /// Of the store; `Damaged` for one that does not prove itself.
    #[doc(hidden)]
    pub fn revisions(&self, filesystem: &Filesystem) -> Result<Vec<Arc<Revision>>> {
        self.proven(filesystem.engine())
    }

    pub(crate) fn proven(&self, engine: filesystem::Engine<'_>) -> Result<Vec<Arc<Revision>>> {
        let rows = engine.reader()?.revisions()?;
        let mut proven = self.proven.lock();
        proven.retain(|id, _| rows.iter().any(|row| row.id == *id));
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            if let Some(known) = proven.get(&row.id) {
                all.push(Arc::clone(known));
                continue;
            }
            let revision = Arc::new(Revision::decode(&row.body, &self.signer.lock())?);
            if revision.id.0 != row.id {
                return Err(history::Error::Forged.into());
            }
            proven.insert(row.id, Arc::clone(&revision));
            all.push(revision);
        }
        Ok(all)
    }

    /// The one revision that `selector` means.
    ///
    /// # Errors
    /// `Revision` if it means none or several, or nothing at all.
    pub(crate) fn select_one(
        &self,
        engine: filesystem::Engine<'_>,
        selector: &str,
    ) -> Result<Arc<Revision>> {
        let all = self.proven(engine)?;
        let candidates: Vec<Candidate<'_>> = all.iter().map(|one| candidate(one)).collect();
        let place = history::select_one(selector, &candidates, engine.now())
            .map_err(|error| Error::Revision(error.to_string()))?;
        Ok(Arc::clone(&all[place]))
    }

    /// A page of what differs between two kept revisions at and below `path`.
    pub(crate) fn differences(
        &self,
        filesystem: &Filesystem,
        (before, after): (&[u8; 32], Option<&[u8; 32]>),
        path: &[u8],
        behind: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Difference>> {
        let engine = filesystem.engine();
        let all = self.proven(engine)?;
        let below = self.below(engine);
        let tree = Tree::new(&below);
        let root = |id: &[u8; 32]| -> Result<BlockId> {
            let revision = all.iter().find(|one| one.id.0 == *id);
            let revision = revision.ok_or(history::Error::UnknownRevision)?;
            Ok(revision.body.root)
        };
        let before = tree.root(&root(before)?)?;
        let with = |after: &BlockId| {
            let after = tree.root(after)?;
            history::differences(&tree, (&before, &after), path, behind, limit)
        };
        match after {
            Some(after) => with(&root(after)?),
            None => {
                let _turn = self.turn();
                history::with_now(&below, with)
            }
        }
    }

    /// What a listing of `.history` shows: the beginning of each id, and the tags.
    fn names(&self, engine: filesystem::Engine<'_>) -> filesystem::Result<Vec<Vec<u8>>> {
        let all = self.proven(engine).map_err(below)?;
        let ids = all.iter().map(|one| one.id.to_string()[..16].to_owned());
        let mut tags: HashMap<String, u32> = HashMap::new();
        for tag in all.iter().flat_map(|one| &one.body.tags) {
            *tags.entry(format!("t:{tag}")).or_insert(0) += 1;
        }
        // What names several revisions names none; `*` in a tag would.
        let mut tags: Vec<String> = tags
            .into_iter()
            .filter(|(tag, count)| *count == 1 && !tag.contains('*') && tag.len() <= 255)
            .map(|(tag, _)| tag)
            .collect();
        tags.sort_unstable();
        Ok(ids.chain(tags).map(String::into_bytes).collect())
    }

    pub(crate) fn below<'a>(&'a self, engine: filesystem::Engine<'a>) -> Below<'a> {
        Below(engine, &self.nodes.blocks)
    }

    /// Lets a revision go; its space follows in the background.
    ///
    /// # Errors
    /// `UnknownRevision`; those of the stores and the disk.
    #[doc(hidden)]
    pub fn remove(&self, filesystem: &Filesystem, id: RevisionId) -> Result<()> {
        let _turn = self.turn();
        let engine = self.below(filesystem.engine());
        history::remove(&engine, id, || self.remove_record(&id))
    }

    /// Seals every record anew that is of an epoch before the newest, and runs `then` before the next revision is taken:
    /// nothing that is sealed under an earlier epoch is on its way meanwhile.
    ///
    /// # Errors
    /// Of the stores and the disk; those of `then`.
    #[doc(hidden)]
    pub fn reseal_records(
        &self,
        filesystem: &Filesystem,
        then: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let _turn = self.turn();
        let engine = filesystem.engine();
        let newest = engine.sealer().epoch();
        let rows = engine.reader()?.revisions()?;
        for (id, epoch) in self.record_names()? {
            if epoch >= newest.0 {
                continue;
            }
            let name = format!("{id}.{epoch}");
            let row = rows.iter().find(|row| hex::encode(&row.id) == id);
            let body = match row {
                Some(row) => Some(row.body.clone()),
                // Of a revision that was about to be kept, or of another copy of the metadata.
                None => self.open_record(&engine.sealer(), Epoch(epoch), &name)?,
            };
            // One that does not open tells nobody anything, with the old keys or without.
            if let Some(body) = body {
                self.write_record_of(filesystem, &id, &body)?;
                self.remove_record_file(&name)?;
            }
        }
        self.records_folder().sync_if_there()?;
        then()
    }

    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    // ---- records

    fn records_folder(&self) -> Folder {
        self.folder.inside(REVISIONS)
    }

    /// The id in hexadecimal and the epoch of every record.
    fn record_names(&self) -> Result<Vec<(String, u32)>> {
        let entries = self.records_folder().list(LISTING)?;
        let names = entries.iter().map(|entry| record_name(&entry.name));
        Ok(names
            .flatten()
            .map(|(id, epoch)| (id.to_owned(), epoch))
            .collect())
    }

    /// The records there are, by the names of their files, with their bytes; `None` for one that cannot be read, or that
    /// is longer than any record.
    pub(crate) fn record_files(&self) -> Result<Vec<(String, Option<Vec<u8>>)>> {
        record_files(&self.folder)
    }

    /// The revision in opened bytes, if it proves itself.
    pub(crate) fn prove(&self, bytes: &[u8]) -> Result<Revision> {
        Ok(Revision::decode(bytes, &self.signer.lock())?)
    }

    /// Stores every node of the tree of the living state that is not stored, or that does not open.
    pub(crate) fn store_nodes(
        &self,
        filesystem: &Filesystem,
        compression: Compression,
    ) -> Result<()> {
        let _turn = self.turn();
        self.nodes.blocks.lock().clear();
        history::store_nodes(&self.below(filesystem.engine()), compression)
    }

    /// Every kept revision, oldest first, or why its row cannot be trusted.
    pub(crate) fn each_revision(
        &self,
        filesystem: &Filesystem,
    ) -> Result<Vec<([u8; 32], Result<Revision>)>> {
        let rows = filesystem.engine().reader()?.revisions()?;
        let signer = self.signer.lock().clone();
        let proven = rows.into_iter().map(|row| {
            let revision = Revision::decode(&row.body, &signer).map_err(Error::from);
            let revision = revision.and_then(|revision| {
                if revision.id.0 == row.id {
                    Ok(revision)
                } else {
                    Err(history::Error::Forged.into())
                }
            });
            (row.id, revision)
        });
        Ok(proven.collect())
    }

    /// (2)
    fn write_record(&self, filesystem: &Filesystem, id: &RevisionId, bytes: &[u8]) -> Result<()> {
        self.write_record_of(filesystem, &id.to_string(), bytes)
    }

    fn write_record_of(&self, filesystem: &Filesystem, id: &str, bytes: &[u8]) -> Result<()> {
        let engine = filesystem.engine();
        let mut padded = bytes.to_vec();
        padded.resize(padded_len(bytes.len(), 0), 0);
        let (epoch, sealed) = engine.seal_record(Kind::Revision, &padded)?;
        let records = self.records_folder();
        records.make()?;
        records.replace(&format!("{id}.{}", epoch.0), &sealed)
    }

    /// What the record in the file `name` says; `None` if it does not open.
    fn open_record(
        &self,
        sealer: &BlockSealer,
        epoch: Epoch,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        let sealed = match self.records_folder().read_file(name) {
            // What is no record of ours tells nothing.
            Ok(None) | Err(Error::Odd { .. }) => return Ok(None),
            Ok(Some(sealed)) => sealed,
            Err(error) => return Err(error),
        };
        Ok(open_revision(sealer, epoch, &sealed))
    }

    fn remove_record(&self, id: &RevisionId) -> Result<()> {
        let id = id.to_string();
        let mut records = self.record_names()?;
        records.retain(|(of, _)| *of == id);
        for (id, epoch) in records {
            self.remove_record_file(&format!("{id}.{epoch}"))?;
        }
        self.records_folder().sync_if_there()
    }

    fn remove_record_file(&self, name: &str) -> Result<()> {
        match self.records_folder().remove(name) {
            // A folder of that name is none of ours; a verification names it.
            Ok(_) | Err(strongroom_folder::Error::Odd(_)) => Ok(()),
            Err(error) => Err(below_folder("removing the record of a revision")(error)),
        }
    }
}

/// A revision, as selectors see it.
fn candidate(revision: &Revision) -> Candidate<'_> {
    Candidate {
        id: revision.id,
        parents: &revision.body.parents,
        device: &revision.body.device.0,
        time: revision.body.time,
        tags: &revision.body.tags,
    }
}

impl From<history::Error> for Error {
    fn from(error: history::Error) -> Self {
        match error {
            history::Error::Metadata(error) => error.into(),
            history::Error::Invalid(why) => {
                Self::File(filesystem::Error::InvalidArgument(why.into()))
            }
            history::Error::NotFound => Self::File(filesystem::Error::NotFound),
            history::Error::NotADirectory => Self::File(filesystem::Error::NotADirectory),
            history::Error::UnknownRevision => Self::Revision(error.to_string()),
            error => Self::Damaged {
                what: "history",
                why: error.to_string(),
            },
        }
    }
}

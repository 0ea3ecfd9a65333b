//! Takes a revision of everything, admits a proven revision, and removes one.
//!
//! Takes   a message and tags; a proven revision; the id of one to remove
//! Gives   a signed, durable revision; the space of a removed one, freed later in the background
//! Never   blocks a caller longer than a barrier does, or keeps half a revision
//! Spec    spec/6-history.md, section 6.6
//!
//! Invariants
//!  (1) From the barrier until the revision is stored, no block that existed at the barrier is removed.  [6.6.2]
//!  (2) One transaction stores a revision, its references, and its tree as the base of the next revision.    [6.6.5]

use strongroom_crypto::{Compression, RevisionSigner};
use strongroom_format::BlockId;
use strongroom_history::{
    self as history, Built, NewRevision, Revision, RevisionBody, RevisionId, SCHEDULED, StoreNodes,
};
use strongroom_metadata::{self as metadata, Base, BlockNumber, InodeId, Transaction};

use crate::history::removed::{self, RemovedRevision};
use crate::trees::engine::{Engine, HeldBlocks};
use crate::upkeep::space::settle_until;
use crate::{Error, Filesystem, Result};

/// The setting that names the revision whose record may be there before its row is; else it is empty.       [6.6.8]
const TAKING: &str = "revision_taking";

/// The setting that names the revisions that the living state goes on from: one, or two that were joined.               [6.6.9]
pub(crate) const HEADS: &str = "revision_heads";

/// What came of taking one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A revision, durable.
    New(Box<Revision>),
    /// Nothing changed since the newest, and none was to be taken then.
    Unchanged,
}

/// The tree of the living state, built on that of the newest revision.
struct Living {
    history: metadata::History,
    newest_block: BlockNumber,
    built: Built,
}

impl Living {
    const fn root(&self) -> BlockId {
        match self.built {
            Built::AsBefore(root) | Built::New(root) => root,
        }
    }

    /// Changes count from this tree on, which has that number.
    fn become_base(&self, writer: &mut Transaction<'_>, root: BlockNumber) -> Result<()> {
        writer.change_references(root, 1)?;
        if let Some(base) = self.history.base {
            writer.change_references(base.root, -1)?;
        }
        Ok(writer.set_base(Some(Base {
            root,
            generation: self.history.generation - 1,
            scan_from: self.history.mark_below,
        }))?)
    }
}

/// A revision that is signed and not kept yet, with the tree that it shows.
struct Signed {
    revision: Revision,
    living: Living,
}

/// Keeps a revision that has proven itself (`Filesystem::prove_revision`) and whose tree is stored: its row, and one reference of
/// its tree. Every revision enters here: one that this vault took, one that a pull brought, and one that a repair found.
///
/// # Errors
/// Of the store; `MissingBlock` if its root is not there.
pub fn admit(writer: &mut Transaction<'_>, revision: &Revision) -> Result<()> {
    let root = root_number(writer, revision)?;
    writer.insert_revision(&metadata::Revision {
        number: 0,
        id: revision.id.0,
        root,
        taken: revision.body.time,
        body: revision.encode(),
    })?;
    writer.change_references(root, 1)?;
    Ok(writer.settle_released(root)?)
}

fn root_number(writer: &Transaction<'_>, revision: &Revision) -> Result<BlockNumber> {
    let root = writer.block_by_id(&revision.body.root)?;
    Ok(root.ok_or(history::Error::MissingBlock)?)
}

impl Filesystem {
    /// Takes a revision of everything; durable on return. `write_record` makes its stored form durable beside the database,
    /// before the database knows the revision.
    ///
    /// # Errors
    /// `InvalidArgument` for a message or tags beyond their bounds, `TagTaken`; of the stores and of `write_record`. Then nothing
    /// is kept, and what was stored for it is given back.
    pub fn take_revision<E: From<Error>>(
        &self,
        new: &NewRevision,
        write_record: impl FnOnce(&Revision) -> std::result::Result<(), E>,
    ) -> std::result::Result<Taken, E> {
        let _turn = self.hold_revisions();
        // One signer for all of it: keys may change meanwhile.
        let signer = self.core.history.signer.lock().clone();
        // Whether message and tags will do is known before anything is done.
        self.refuse_taken(&new.tags)?;
        let draft = new.draft(&signer, self.core.now()).map_err(Error::from)?;
        let held = self.engine().hold();
        let Some(signed) = self.sign_draft(&signer, draft, new.only_if_changed)? else {
            return Ok(Taken::Unchanged);
        };
        write_record(&signed.revision)?;
        Ok(Taken::New(Box::new(self.keep_signed(signed, held)?)))
    }

    /// Refuses tags that a snapshot has: a tag that names two names none.                         [6.9.2]
    fn refuse_taken(&self, tags: &[String]) -> Result<()> {
        if tags.is_empty() {
            return Ok(());
        }
        for revision in self.revisions()? {
            if let Some(tag) = tags.iter().find(|tag| revision.body.tags.contains(tag)) {
                return Err(Error::TagTaken {
                    tag: tag.clone(),
                    revision: revision.id.to_string()[..16].to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Builds the tree and signs; `None` if nothing changed and none is wanted then. What the record names is durable then, and
    /// outlives the database.                                                                            [6.6.7]
    fn sign_draft(
        &self,
        signer: &RevisionSigner,
        draft: RevisionBody,
        only_if_changed: bool,
    ) -> Result<Option<Signed>> {
        let engine = self.engine();
        let living = self.build_tree(engine)?;
        let heads = self.heads()?;
        // Two that were joined have no revision yet that goes on from both.
        if only_if_changed
            && let [head] = &heads[..]
            && !(is_to_stay(&draft) && self.may_pass(head))
            && engine.reader()?.block_id(head.root)? == Some(living.root())
        {
            // What changed meanwhile is as it was: it does not count as changed any more.
            engine.change(|writer| living.become_base(writer, head.root))?;
            return Ok(None);
        }
        let body = RevisionBody {
            parents: heads.iter().map(|head| RevisionId(head.id)).collect(),
            root: living.root(),
            sequence: living.history.sequence + 1,
            ..draft
        };
        let revision = Revision::sign(body, signer)?;
        settle_until(&self.core, living.newest_block)?;
        self.keep_setting(TAKING, &revision.id.0)?;
        Ok(Some(Signed { revision, living }))
    }

    /// The kept revisions that the living state goes on from, the nearest ones where it goes on from a removed one, and the newest one where
    /// that is not known.                                                                                [6.6.9]
    ///
    /// # Errors
    /// Of the store.
    pub fn heads(&self) -> Result<Vec<metadata::Revision>> {
        let reader = self.engine().reader()?;
        let named = reader.setting(HEADS)?.unwrap_or_default();
        let mut heads = removed::nearest_kept(&reader, &named)?;
        if heads.is_empty() {
            heads.extend(reader.revisions()?.pop());
        }
        Ok(heads)
    }

    /// Whether a kept revision may have been taken only to be read, and go with its last reader: it has neither message nor tags. Who has to
    /// keep a state must not count on it.
    #[must_use]
    pub fn may_pass(&self, row: &metadata::Revision) -> bool {
        let proven = self.core.history.prove(&row.id, &row.body);
        proven.is_ok_and(|one| one.body.message.is_empty() && one.body.tags.is_empty())
    }

    /// How many nodes are new or changed since the newest revision, counted to `limit`; `None` if there is no revision. Everything
    /// that was acknowledged before is durable on return.
    ///
    /// # Errors
    /// As `sync`.
    pub fn changed_since_revision(&self, limit: usize) -> Result<Option<usize>> {
        self.sync()?;
        let reader = self.engine().reader()?;
        let history = reader.history()?;
        let Some(base) = history.base else {
            return Ok(None);
        };
        let mut count = reader.inodes_from(InodeId(base.scan_from), limit)?.len();
        for generation in base.generation + 1..=history.generation {
            if count < limit {
                count += reader.changed(generation, None, limit - count)?.len();
            }
        }
        Ok(Some(count))
    }

    /// (2)
    fn keep_signed(&self, signed: Signed, held: HeldBlocks<'_>) -> Result<Revision> {
        let Signed { revision, living } = signed;
        let engine = self.engine();
        engine.change(|writer| {
            writer.put_setting(TAKING, &[])?;
            let heads = writer.setting(HEADS)?.unwrap_or_default();
            removed::note_removed_heads(writer, &revision, &heads)?;
            writer.put_setting(HEADS, &revision.id.0)?;
            admit(writer, &revision)?;
            living.become_base(writer, root_number(writer, &revision)?)
        })?;
        drop(held);
        engine.commit()?;
        Ok(revision)
    }

    /// Stores what is new of the tree of the living state. Only the caller's `HeldBlocks` keeps it.         (1)
    fn build_tree(&self, engine: Engine<'_>) -> Result<Living> {
        let reader = engine.reader()?;
        let ((history, newest_block), state) = engine.barrier(
            |writer| Ok::<_, Error>((writer.begin_generation()?, writer.newest_block())),
            || Ok(reader.snapshot()?),
        )?;
        let base = history.base.as_ref();
        let built = history::build(
            &engine.trees(),
            &state,
            engine.sealer(),
            base.map(|base| (base, history.generation - 1)),
            &mut *store(engine),
        )?;
        Ok(Living {
            history,
            newest_block,
            built,
        })
    }

    /// Gives `work` the root of the tree of the living state. Nothing keeps that tree: what is new of it goes after.
    pub(super) fn with_now<T>(&self, work: impl FnOnce(&BlockId) -> Result<T>) -> Result<T> {
        let _turn = self.hold_revisions();
        let engine = self.engine();
        let _held = engine.hold();
        let living = self.build_tree(engine)?;
        engine.commit()?;
        work(&living.root())
    }

    /// Stores every node of the tree of the living state that is not stored, or that does not open: the tree is built from
    /// nothing, and what no revision names of it is given back. `compression`: of the nodes that are stored.
    ///
    /// # Errors
    /// Of the stores.
    pub fn store_nodes(&self, compression: Compression) -> Result<()> {
        let _turn = self.hold_revisions();
        let engine = self.engine();
        self.core.history.blocks.clear();
        let _held = engine.hold();
        let reader = engine.reader()?;
        let ((), state) = engine.barrier(|_| Ok::<_, Error>(()), || Ok(reader.snapshot()?))?;
        let sealer = engine.sealer().with_compression(compression);
        let trees = engine.trees();
        history::build(&trees, &state, sealer, None, &mut *store(engine))?;
        drop(state);
        engine.commit()
    }

    /// Removes a snapshot; what only it held is given back in the background. `remove_record` removes its stored form beside
    /// the database, durably.
    ///
    /// # Errors
    /// `UnknownRevision`; of the stores and of `remove_record`.
    pub fn remove_revision<E: From<Error>>(
        &self,
        id: RevisionId,
        remove_record: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let _turn = self.hold_revisions();
        let row = self.revision_row(id)?;
        // In this order: a revision without its record is whole, a record without its tree is not.
        remove_record()?;
        Ok(self.remove_row(&row)?)
    }

    fn revision_row(&self, id: RevisionId) -> Result<metadata::Revision> {
        let row = self.engine().reader()?.revision(&id.0)?;
        Ok(row.ok_or(history::Error::UnknownRevision)?)
    }

    fn remove_row(&self, row: &metadata::Revision) -> Result<()> {
        let engine = self.engine();
        // Of one that does not prove itself nothing is believed.
        let proven = self.core.history.prove(&row.id, &row.body).ok();
        engine.change(|writer| {
            if let Some(revision) = &proven {
                removed::note(writer, &RemovedRevision::of(revision))?;
            }
            writer.remove_revision(row.number)?;
            writer.change_references(row.root, -1)?;
            let base = writer.history()?.base;
            let is_base = base.is_some_and(|base| base.root == row.root);
            if is_base && writer.revisions()?.iter().all(|one| one.root != row.root) {
                // The base would hold what nobody keeps any more; the next tree is then built from nothing.
                writer.change_references(row.root, -1)?;
                writer.set_base(None)?;
            }
            Ok::<_, Error>(())
        })?;
        engine.commit()
    }

    /// Removes the record of a revision that was cut off before the database knew it: nothing would explain it.
    ///
    /// # Errors
    /// Of the stores and of `remove_record`.
    pub fn forget_interrupted<E: From<Error>>(
        &self,
        remove_record: impl FnOnce(&RevisionId) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let named = self.setting(TAKING)?.unwrap_or_default();
        let Ok(id) = <[u8; 32]>::try_from(named.as_slice()) else {
            return Ok(());
        };
        match self.revision_row(RevisionId(id)) {
            Err(Error::UnknownRevision(_)) => remove_record(&RevisionId(id))?,
            row => drop(row?),
        }
        Ok(self.keep_setting(TAKING, &[])?)
    }
}

/// Whether somebody wants to find this revision later. What is taken by schedule, or for a remote, is taken again.
fn is_to_stay(draft: &RevisionBody) -> bool {
    (!draft.message.is_empty() || !draft.tags.is_empty()) && draft.message != SCHEDULED
}

/// Stores the nodes of a tree that is being built.
fn store<'a>(engine: Engine<'a>) -> Box<StoreNodes<'a, Error>> {
    Box::new(move |epoch, blocks, names| {
        engine.store(epoch, blocks, names)?;
        engine.commit_if_large()
    })
}

//! Takes a revision of everything, and lets one go.
//!
//! Takes   an engine, a device that signs, a message and tags
//! Gives   a signed revision, durable; or its space, given back bit by bit
//! Never   holds anybody up longer than a barrier, or keeps half a revision
//! Spec    spec/6-history.md, section 6.6
//!
//! Invariants
//!  (1) From the barrier until a revision's tree is counted, no block that the barrier saw goes.      [6.6.2]
//!  (2) A revision is kept in one transaction with its references and with the base of the next.      [6.6.5]

use strongroom_crypto::{Compression, RevisionSigner};
use strongroom_format::BlockId;
use strongroom_metadata::{self as metadata, Base, BlockNumber, History, Timestamp};

use crate::build::{Builder, Built};
use crate::changes::Changes;
use crate::engine::Engine;
use crate::error::Error;
use crate::revision::{Revision, RevisionBody, RevisionId};

/// The setting that names the revision whose record may be there before its row is; else it is empty.       [6.6.8]
pub const TAKING: &str = "revision_taking";

/// What a revision is to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRevision {
    /// What a person says about it.
    pub message: String,
    /// Names for it, sorted.
    pub tags: Vec<String>,
    /// Take none if nothing changed since the newest.
    pub only_if_changed: bool,
}

/// What came of taking one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A revision, durable.
    New(Box<Revision>),
    /// Nothing changed since the newest, and none was to be taken then.
    Unchanged,
}

/// Takes a revision. One at a time: the caller sees to that. `write_record` makes the stored form durable beside the
/// database, before the database knows the revision.
///
/// # Errors
/// Those of the engine; then nothing is kept, and what was stored for it is given back.
pub fn take<E: Engine>(
    engine: &E,
    signer: &RevisionSigner,
    now: Timestamp,
    new: &NewRevision,
    write_record: impl FnOnce(&Revision) -> Result<(), E::Error>,
) -> Result<Taken, E::Error> {
    // Whether message and tags will do is known before anything is done.
    draft(signer, now, new).check()?;
    let held = Held::begin(engine)?;
    let living = Now::build(engine)?;
    let root = match (&living.built, living.old_root) {
        (Built::AsBefore, Some(_)) if new.only_if_changed => return Ok(Taken::Unchanged),
        _ => living.root()?,
    };
    let Now {
        history,
        newest_block,
        ..
    } = living;
    let generation = history.generation - 1;
    let base = history.base.map(|base| base.root);
    let newest = engine.reader()?.revisions()?.pop();
    let body = RevisionBody {
        parents: newest.iter().map(|newest| RevisionId(newest.id)).collect(),
        root,
        sequence: history.sequence + 1,
        ..draft(signer, now, new)
    };
    let revision = Revision::sign(body, signer)?;
    // What the record names is durable before the record is, and outlives the database.                     [6.6.7]
    engine.settle(newest_block)?;
    engine.change(|writer| Ok(writer.put_setting(TAKING, &revision.id.0)?))?;
    engine.commit()?;
    write_record(&revision)?;
    engine.change(|writer| {
        writer.put_setting(TAKING, &[])?;
        let number = writer.block_by_id(&root)?.ok_or(Error::MissingBlock)?;
        writer.insert_revision(&metadata::Revision {
            number: 0,
            id: revision.id.0,
            root: number,
            taken: now,
            body: revision.encode(),
        })?;
        writer.change_references(number, 2)?;
        if let Some(base) = base {
            writer.change_references(base, -1)?;
        }
        writer.set_base(Some(Base {
            root: number,
            generation,
            scan_from: history.mark_below,
        }))?;
        Ok(())
    })?;
    drop(held);
    engine.commit()?;
    Ok(Taken::New(Box::new(revision)))
}

/// The tree of the living state, built on that of the newest revision.
struct Now {
    history: History,
    newest_block: BlockNumber,
    built: Built,
    old_root: Option<BlockId>,
}

impl Now {
    /// Stores what is new of it. Nothing keeps that but the caller's `Held`.                                    (1)
    fn build<E: Engine>(engine: &E) -> Result<Self, E::Error> {
        let reader = engine.reader()?;
        let ((history, newest_block), snapshot) = engine.barrier(
            |writer| Ok((writer.begin_generation()?, writer.newest_block())),
            || Ok(reader.snapshot()?),
        )?;
        let known = match history.base {
            Some(base) => {
                let root = snapshot.block_id(base.root)?.ok_or(Error::MissingBlock)?;
                let generation = history.generation - 1;
                Some((root, Changes::read(&snapshot, &base, generation)?))
            }
            None => None,
        };
        let old_root = known.as_ref().map(|(root, _)| *root);
        Ok(Self {
            built: Builder::new(engine, &snapshot, known)?.build()?,
            history,
            newest_block,
            old_root,
        })
    }

    fn root(&self) -> Result<BlockId, Error> {
        match (&self.built, self.old_root) {
            (Built::New(root), _) => Ok(*root),
            (Built::AsBefore, Some(root)) => Ok(root),
            (Built::AsBefore, None) => Err(Error::Damaged("a tree without a root")),
        }
    }
}

/// Gives `work` the root of the tree of the living state. Nothing keeps that tree: what is new of it goes after.
///
/// One at a time, as `take`.
///
/// # Errors
/// Those of the engine and of `work`.
pub fn with_now<E: Engine, T>(
    engine: &E,
    work: impl FnOnce(&BlockId) -> Result<T, E::Error>,
) -> Result<T, E::Error> {
    let _held = Held::begin(engine)?;
    let root = Now::build(engine)?.root()?;
    engine.commit()?;
    work(&root)
}

/// Stores every node of the tree of the living state, built from nothing: nodes of kept trees that are lost are stored
/// again if they are among them. What no kept tree names is given back.
///
/// `compression`: of those that are to be among them.
///
/// # Errors
/// Those of the engine.
pub fn store_nodes<E: Engine>(engine: &E, compression: Compression) -> Result<(), E::Error> {
    let _held = Held { engine };
    let reader = engine.reader()?;
    let ((), snapshot) = engine.barrier(
        |writer| {
            writer.hold();
            Ok(())
        },
        || Ok(reader.snapshot()?),
    )?;
    let builder = Builder::new(engine, &snapshot, None)?;
    builder.with_compression(compression).build()?;
    drop(snapshot);
    engine.commit()
}

fn draft(signer: &RevisionSigner, now: Timestamp, new: &NewRevision) -> RevisionBody {
    RevisionBody {
        vault: signer.vault(),
        parents: Vec::new(),
        root: BlockId([0; 32]),
        device: signer.device(),
        sequence: 0,
        membership_head: signer.membership_head(),
        time: now,
        message: new.message.clone(),
        tags: new.tags.clone(),
    }
}

/// (1): keeps the blocks where they are counted, and lets them go however the work ends.
pub(crate) struct Held<'e, E: Engine> {
    engine: &'e E,
}

impl<'e, E: Engine> Held<'e, E> {
    pub(crate) fn begin(engine: &'e E) -> Result<Self, E::Error> {
        engine.change(|writer| {
            writer.hold();
            Ok(())
        })?;
        Ok(Self { engine })
    }
}

impl<E: Engine> Drop for Held<'_, E> {
    fn drop(&mut self) {
        // Nothing is changed; a store that failed holds nothing any more anyway.
        let _ = self.engine.change(|writer| {
            writer.let_go();
            Ok(())
        });
    }
}

/// Lets a kept revision go; what only it held is given back by `GiveBack`. `remove_record` removes its stored form
/// beside the database, durably.
///
/// # Errors
/// `Error::UnknownRevision`; those of the engine.
pub fn remove<E: Engine>(
    engine: &E,
    id: RevisionId,
    remove_record: impl FnOnce() -> Result<(), E::Error>,
) -> Result<(), E::Error> {
    let kept = engine
        .reader()?
        .revision(&id.0)?
        .ok_or(Error::UnknownRevision)?;
    // In this order: a revision without its record is whole, a record without its tree is not.
    remove_record()?;
    engine.change(|writer| {
        writer.remove_revision(kept.number)?;
        writer.change_references(kept.root, -1)?;
        let base = writer.history()?.base;
        let is_base = base.is_some_and(|base| base.root == kept.root);
        if is_base && !has_root(&writer.revisions()?, kept.root) {
            // The base would hold what nobody keeps any more; the next tree is then built from nothing.
            writer.change_references(kept.root, -1)?;
            writer.set_base(None)?;
        }
        Ok(())
    })?;
    engine.commit()
}

fn has_root(revisions: &[metadata::Revision], root: BlockNumber) -> bool {
    revisions.iter().any(|revision| revision.root == root)
}

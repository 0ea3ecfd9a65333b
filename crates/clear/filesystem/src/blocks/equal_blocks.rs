//! Decides which stored blocks new content may share: only those whose bytes open (decrypt and prove authentic).
//!
//! Takes   the ids of sealed blocks
//! Gives   for each id, whether a block that opens is stored under it; if not, the caller stores its own bytes
//! Never   trusts a row alone: its block may have been damaged since it was written
//! Spec    spec/7-recovery.md, [7.7.10]
//!
//! Invariants
//!  (1) New content may share a stored block only if (a) all bytes of that block opened after the content was given, or
//!      (b) they opened in one of the last `2 * OPENED_BLOCKS_MAX` whole-block reads, or (c) they are stored in the
//!      database. Otherwise the new content's own bytes are stored.                                            [7.7.10]
//!
//! So storing the same content again repairs a damaged block: its row stays, and every file that uses it can be read
//! again. The check costs about as much as a write, and is made only if an equal block is stored. A copy through the
//! mount reads its source just before it writes. The blocks that this read opened are not read a second time: the copy
//! only computes their ids (`stream.rs`) and does not seal them.

use std::collections::HashMap;

use strongroom_format::BlockId;
use strongroom_metadata::{Block, BlockNumber, Place, Transaction};
use strongroom_segments::Part;

use crate::Result;
use crate::blocks::moving::{part_of, read_each};
use crate::blocks::place::Placed;
use crate::blocks::proof::{Proof, opens};
use crate::core::Core;

/// Of which of `ids` a block is stored that opens, so that it need not be appended. Those that do not open are suspect
/// from now on.
///
/// # Errors
/// Of the stores: what cannot be read for another reason than damage.
pub(crate) fn known<'a>(core: &Core, ids: impl Iterator<Item = &'a BlockId>) -> Result<Vec<bool>> {
    let mut known = Vec::new();
    // Where in `known` the answer about each block goes: one content may be there many times.
    let mut asked: HashMap<BlockNumber, Vec<usize>> = HashMap::new();
    let mut looked: Vec<(Block, Part)> = Vec::new();
    {
        let mut writer = core.store.lock();
        for (index, id) in ids.enumerate() {
            known.push(false);
            let Some(number) = writer.block_by_id(id)? else {
                continue;
            };
            if let Some(places) = asked.get_mut(&number) {
                places.push(index);
                continue;
            }
            match find(core, &mut writer, id, number)? {
                Found::Carried | Found::Opened => known[index] = true,
                Found::Nowhere => {}
                Found::At(block, part) => {
                    asked.insert(number, vec![index]);
                    looked.push((block, part));
                }
            }
        }
    }
    for (number, opened) in open_all(core, looked)? {
        match opened {
            true => asked[&number].iter().for_each(|index| known[*index] = true),
            false => core.blocks.suspect_block(number),
        }
    }
    Ok(known)
}

enum Found {
    /// In the database, whose pages prove themselves.
    Carried,
    /// It opened a short while ago.
    Opened,
    At(Block, Part),
    /// Nothing that is worth a look.
    Nowhere,
}

fn find(
    core: &Core,
    writer: &mut Transaction<'_>,
    id: &BlockId,
    number: BlockNumber,
) -> Result<Found> {
    // Of what a copy has just read nothing is left to be asked, as long as there are no suspects.
    if core.blocks.opened.is_known(id, number) && !core.blocks.is_suspect(writer, number)? {
        return Ok(Found::Opened);
    }
    let Some(block) = writer.block(number)? else {
        return Ok(Found::Nowhere);
    };
    if core.blocks.is_suspect_block(&block) {
        return Ok(Found::Nowhere);
    }
    let Place::Segment(segment, _) = block.place else {
        return Ok(Found::Carried);
    };
    let id = writer.segment_id(segment)?;
    let part = id.and_then(|id| part_of(id, &block));
    Ok(part.map_or(Found::Nowhere, |part| Found::At(block, part)))
}

/// Whether each of `blocks` opens, on all cores. Take no locks: the disk is waited for.
fn open_all(core: &Core, blocks: Vec<(Block, Part)>) -> Result<Vec<(BlockNumber, bool)>> {
    if blocks.is_empty() {
        return Ok(Vec::new());
    }
    let sealer = core.blocks.sealers.newest();
    let mut jobs = Vec::with_capacity(blocks.len());
    for (block, bytes) in read_each(core, blocks.into_iter().unzip())? {
        let sealer = sealer.clone();
        jobs.push(move || {
            let sealed = bytes.as_ref().map(AsRef::as_ref);
            let mut clear = Vec::new();
            let opened = opens(&sealer, &block, sealed, Proof::Tags, &mut clear);
            (block.number, opened)
        });
    }
    Ok(core.blocks.pool.run_all(jobs))
}

/// Where the stored bytes of a block are damaged, lost or erased, or nobody has looked, those of `placed`, the same
/// content, take their place. (1)
fn replace_unproven(
    core: &Core,
    writer: &mut Transaction<'_>,
    number: BlockNumber,
    placed: &Placed,
) -> Result<()> {
    let is_suspect = core.blocks.is_suspect(writer, number)?;
    // What a commit carries was not compared with anything: to store so little again costs less than a look.
    let is_unproven = || -> Result<bool> {
        let stored = writer.block(number)?.map(|block| block.place);
        Ok(matches!(stored, Some(Place::Segment(..))))
    };
    if is_suspect || (placed.is_carried() && is_unproven()?) {
        let (place, waiting) = placed.row();
        // One that was known and trusted when it was sealed may have no bytes here; then it stays as it is.
        if place == Place::Waiting && waiting.is_none() {
            return Ok(());
        }
        writer.replace_block(
            number,
            placed.kind,
            placed.clear_len,
            placed.epoch,
            place,
            waiting.as_deref(),
        )?;
        core.blocks.trust(number);
    }
    Ok(())
}

/// The block's number: that of an equal block, or of a new row; and whether it is new. It counts `references` more.
pub(crate) fn number_of(
    core: &Core,
    writer: &mut Transaction<'_>,
    placed: &Placed,
    references: u32,
) -> Result<(BlockNumber, bool)> {
    // What was appended found no equal block a moment ago: mostly there is none yet.
    if placed.is_appended() {
        match insert_block(writer, placed, references) {
            Err(strongroom_metadata::Error::BlockExists) => {}
            number => return Ok((number?, true)),
        }
    }
    if let Some(number) = writer.block_by_id(&placed.id)? {
        if references > 0 {
            writer.change_references(number, i64::from(references))?;
        }
        replace_unproven(core, writer, number, placed)?;
        return Ok((number, false));
    }
    // A block that was known when it was sealed may have gone since: then its bytes are carried.
    Ok((insert_block(writer, placed, references)?, true))
}

fn insert_block(
    writer: &mut Transaction<'_>,
    placed: &Placed,
    references: u32,
) -> strongroom_metadata::Result<BlockNumber> {
    let (place, waiting) = placed.row();
    writer.insert_block_of(
        placed.kind,
        &placed.id,
        placed.clear_len,
        placed.epoch,
        references,
        place,
        waiting.as_deref(),
    )
}

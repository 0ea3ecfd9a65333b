//! Turns clear content into stored blocks.
//!
//! Takes   pieces of clear content
//! Gives   their `Placement`
//! Never   holds more than two rounds of batches in memory
//!
//! Content longer than one batch is sealed directly into the memory from which it is written. One round of batches is
//! sealed while the round before is appended. Each job seals a whole batch, block after block. So all cores seal, each
//! block is still in its core's cache when the checksum is computed, and the disk gets one contiguous buffer. Content
//! that equals a recently opened block, for example when a copy writes, is not sealed: computing its id costs one hash.

use std::collections::BTreeMap;
use std::sync::Arc;

use strongroom_crypto::BlockSealer;
use strongroom_crypto::batch::tail_room;
use strongroom_format::Kind;
use strongroom_format::limits::sealed_len;
use strongroom_segments::Batch;

use crate::Result;
use crate::blocks::place::{Placement, Reason, SealedBatch, Unsealed, cut, may_carry};
use crate::core::Core;
use crate::core::opened_blocks::OpenedBlocks;
use crate::core::sealers::Sealing;

/// The most batches of one round, and so the most threads that seal for one drain. However short, each takes a buffer of 2 MiB:
/// two rounds are 32 MiB, as much as idle buffers may keep.
const ROUND_BATCHES_MAX: usize = 8;
/// Batches are not made shorter than this, in sealed bytes, only to have more of them.
const SHORT_BATCH_BYTES: usize = 512 << 10;

/// Seals `clear`, and finds its blocks a place: a commit carries what is little and what somebody waits for, segments take the
/// rest, except for what equal blocks exist for. Keep `sealing` until the rows are written.
///
/// # Errors
/// Nothing is placed: bytes that were appended before the error are waste in their segment.
pub(crate) fn place<'a, B>(
    core: &'a Core,
    sealing: &Sealing<'_>,
    clear: Vec<B>,
    reason: Reason,
) -> Result<Placement<'a>>
where
    B: AsRef<[u8]> + Send + 'static,
{
    place_from(Placement::empty, core, sealing, clear, reason)
}

/// As `place`, of content that is pending: it counts as on its way while it is appended.
pub(crate) fn place_pending<'a, B>(
    core: &'a Core,
    sealing: &Sealing<'_>,
    clear: Vec<B>,
    reason: Reason,
) -> Result<Placement<'a>>
where
    B: AsRef<[u8]> + Send + 'static,
{
    place_from(Placement::empty_of_pending, core, sealing, clear, reason)
}

/// `empty`: what batches are added to. What fits one batch is counted as pending until its rows are written.
fn place_from<'a, B>(
    empty: fn(&'a Core, &Sealing<'_>) -> Placement<'a>,
    core: &'a Core,
    sealing: &Sealing<'_>,
    clear: Vec<B>,
    reason: Reason,
) -> Result<Placement<'a>>
where
    B: AsRef<[u8]> + Send + 'static,
{
    let thresholds = &core.options.thresholds;
    if clear.iter().map(sealed_bytes).sum::<usize>() > thresholds.batch_bytes {
        return in_rounds(empty(core, sealing), core, sealing, clear);
    }
    let sealed = core.blocks.seal(sealing, clear);
    let total: usize = sealed.iter().map(|block| block.bytes.len()).sum();
    let is_little = reason != Reason::Background && total <= thresholds.carried_bytes_max;
    match is_little && may_carry(core, reason) {
        true => Ok(Placement::carried(sealing, sealed)),
        false => Placement::appended(core, sealing, sealed),
    }
}

/// More than one batch: a round of them is sealed while the one before is appended.
fn in_rounds<'a, B>(
    mut placement: Placement<'a>,
    core: &Core,
    sealing: &Sealing<'_>,
    clear: Vec<B>,
) -> Result<Placement<'a>>
where
    B: AsRef<[u8]> + Send + 'static,
{
    let threads = (core.blocks.pool.threads() + 1).min(ROUND_BATCHES_MAX);
    let total: usize = clear.iter().map(sealed_bytes).sum();
    let bytes_max = batch_bytes(total, threads, core.options.thresholds.batch_bytes);
    let mut batches = cut(clear, bytes_max, sealed_bytes).into_iter().peekable();
    let mut sealed = Vec::new();
    while batches.peek().is_some() {
        let round = batches.by_ref().take(threads);
        let jobs = round.map(|clear| job(core, sealing, clear));
        let jobs = placement.or_note_waste(core, jobs.collect::<Result<Vec<_>>>())?;
        let append = || append(core, sealing, &mut placement, sealed);
        let (next, appended) = core.blocks.pool.run_all_beside(jobs, append);
        appended?;
        sealed = next
            .into_iter()
            .map(|(batch, clear_bytes)| (counted(core, batch, clear_bytes), clear_bytes))
            .collect();
    }
    append(core, sealing, &mut placement, sealed)?;
    Ok(placement)
}

fn append(
    core: &Core,
    sealing: &Sealing<'_>,
    placement: &mut Placement<'_>,
    sealed: Vec<(SealedBatch, u64)>,
) -> Result<()> {
    sealed.into_iter().try_for_each(|(batch, clear_bytes)| {
        placement.append(core, sealing, batch)?;
        placement.note_on_way(clear_bytes);
        Ok(())
    })
}

/// What seals `clear` as one batch.
fn job<B: AsRef<[u8]> + Send + 'static>(
    core: &Core,
    sealing: &Sealing<'_>,
    clear: Vec<B>,
) -> Result<impl FnOnce() -> (SealedBatch, u64) + Send + use<B>> {
    let bytes = clear.iter().map(sealed_bytes).sum();
    let batch = core.blocks.segments.batch(bytes, tail_room(clear.len()))?;
    let sealer = BlockSealer::clone(sealing);
    let opened = Arc::clone(&core.blocks.opened);
    Ok(move || seal(&sealer, &opened, batch, clear))
}

/// The batch, and how many clear bytes it stands for. What equals a block that opened lately is only named: most likely
/// it is about to share that block.
fn seal<B: AsRef<[u8]> + Send + 'static>(
    sealer: &BlockSealer,
    opened: &OpenedBlocks,
    mut batch: Batch,
    clear: Vec<B>,
) -> (SealedBatch, u64) {
    let mut clear_bytes = 0;
    let mut heads = Vec::with_capacity(clear.len());
    let mut unsealed = BTreeMap::new();
    for (number, piece) in clear.into_iter().enumerate() {
        let bytes = piece.as_ref();
        clear_bytes += bytes.len() as u64;
        let mut is_named_only = false;
        heads.push(sealer.seal_into(Kind::Data, bytes, |id, len| {
            is_named_only = opened.has(id);
            (!is_named_only).then(|| batch.add(len))
        }));
        if is_named_only {
            unsealed.insert(number, Unsealed::new(sealer, piece));
        }
    }
    let sealed = SealedBatch {
        batch,
        heads,
        unsealed,
    };
    (sealed, clear_bytes)
}

fn counted(core: &Core, sealed: SealedBatch, clear_bytes: u64) -> SealedBatch {
    let SealedBatch {
        heads, unsealed, ..
    } = &sealed;
    let named: u64 = unsealed.values().map(Unsealed::clear_bytes).sum();
    let stored = (heads.iter().enumerate())
        .filter(|(number, _)| !unsealed.contains_key(number))
        .map(|(_, head)| u64::from(head.clear_len));
    let count = heads.len() - unsealed.len();
    (core.blocks).count_sealed(count, clear_bytes - named, stored.sum());
    sealed
}

/// Sealed bytes that one batch is to hold: so many that there are two rounds with a batch for each thread, if they do not get too
/// short by that.
fn batch_bytes(total: usize, threads: usize, most: usize) -> usize {
    total.div_ceil(2 * threads).max(SHORT_BATCH_BYTES).min(most)
}

fn sealed_bytes<B: AsRef<[u8]>>(piece: &B) -> usize {
    sealed_len(piece.as_ref().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_shorter_only_to_give_every_thread_some_work() {
        let most = 2 << 20;
        let mib = |count: usize| count << 20;
        // Two threads: a large drain has batches of full length, a small one two rounds.
        assert_eq!(batch_bytes(mib(64), 2, most), most);
        assert_eq!(batch_bytes(mib(4), 2, most), mib(1));
        // Eight: not too short.
        assert_eq!(batch_bytes(mib(64), 8, most), most);
        assert_eq!(batch_bytes(mib(3), 8, most), SHORT_BATCH_BYTES);
        // The bound of a batch is that of whoever asks.
        assert_eq!(batch_bytes(mib(64), 2, 4096), 4096);
    }
}

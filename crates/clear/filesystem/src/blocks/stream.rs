//! A large drain: sealed where it is written from, one round of batches while the one before is appended.
//!
//! Takes   clear pieces of content, more than one batch
//! Gives   their `Placement`
//! Never   copies a sealed block where no equal one exists, or holds more than two rounds of them
//!
//! Each job seals a batch of its own, one block behind the other: so all cores seal, no block leaves the cache of the one that
//! sealed it before it is part of the checksum, and what the disk takes is one stretch of memory.

use strongroom_crypto::BlockSealer;
use strongroom_crypto::batch::tail_room;
use strongroom_format::limits::sealed_len;
use strongroom_format::{BlockHead, Kind};
use strongroom_segments::Batch;

use crate::Result;
use crate::blocks::place::{BATCH_BLOCKS, Placement};
use crate::core::Core;
use crate::upkeep::epoch::Sealing;

/// The most batches of one round, and so the most threads that seal for one drain. However short, each takes a buffer of 2 MiB:
/// two rounds are 32 MiB, as much as idle buffers may keep.
const ROUND_BATCHES_MAX: usize = 8;
/// Batches are not made shorter than this, in sealed bytes, only to have more of them.
const SHORT_BATCH_BYTES: usize = 512 << 10;

/// A batch that was sealed, and what its blocks are.
pub(crate) struct SealedBatch {
    pub(crate) batch: Batch,
    /// One per block, in order.
    pub(crate) heads: Vec<BlockHead>,
    clear_bytes: u64,
}

/// Seals and appends `clear`, except for what equal blocks exist for. Keep `sealing` until the rows are written.
///
/// # Errors
/// Nothing is placed: bytes that were appended before the error are waste in their segment.
pub(crate) fn placed<'a, B>(
    core: &'a Core,
    sealing: &Sealing<'_>,
    clear: Vec<B>,
) -> Result<Placement<'a>>
where
    B: AsRef<[u8]> + Send + 'static,
{
    let threads = (core.pool.threads() + 1).min(ROUND_BATCHES_MAX);
    let total: usize = clear.iter().map(sealed_bytes).sum();
    let mut batches = cut(
        clear,
        batch_bytes(total, threads, core.options.thresholds.batch_bytes),
    )
    .into_iter()
    .peekable();
    let mut placement = Placement::empty(core, sealing);
    let mut sealed = Vec::new();
    while batches.peek().is_some() {
        let round = batches.by_ref().take(threads);
        let jobs = round.map(|clear| job(core, sealing, clear));
        let jobs = placement.or_note_waste(core, jobs.collect::<Result<Vec<_>>>())?;
        let append = || append(core, sealing, &mut placement, sealed);
        let (next, appended) = core.pool.run_all_beside(jobs, append);
        appended?;
        next.iter().for_each(|batch| count(core, batch));
        sealed = next;
    }
    append(core, sealing, &mut placement, sealed)?;
    Ok(placement)
}

fn append(
    core: &Core,
    sealing: &Sealing<'_>,
    placement: &mut Placement<'_>,
    sealed: Vec<SealedBatch>,
) -> Result<()> {
    sealed
        .into_iter()
        .try_for_each(|batch| placement.append_sealed(core, sealing, batch))
}

/// What seals `clear` as one batch.
fn job<B: AsRef<[u8]> + Send>(
    core: &Core,
    sealing: &Sealing<'_>,
    clear: Vec<B>,
) -> Result<impl FnOnce() -> SealedBatch + Send + use<B>> {
    let bytes = clear.iter().map(sealed_bytes).sum();
    let batch = core.segments.batch(bytes, tail_room(clear.len()))?;
    let sealer = BlockSealer::clone(sealing);
    Ok(move || seal(&sealer, batch, &clear))
}

fn seal<B: AsRef<[u8]>>(sealer: &BlockSealer, mut batch: Batch, clear: &[B]) -> SealedBatch {
    let mut clear_bytes = 0;
    let heads = clear.iter().map(|piece| {
        let piece = piece.as_ref();
        clear_bytes += piece.len() as u64;
        sealer.seal_into(Kind::Data, piece, |len| batch.add(len))
    });
    let heads = heads.collect();
    SealedBatch {
        batch,
        heads,
        clear_bytes,
    }
}

fn count(core: &Core, sealed: &SealedBatch) {
    let stored = sealed.heads.iter().map(|head| u64::from(head.clear_len));
    core.count_sealed(sealed.heads.len(), sealed.clear_bytes, stored.sum());
}

/// Sealed bytes that one batch is to hold: so many that there are two rounds with a batch for each thread, if they do not get too
/// short by that.
fn batch_bytes(total: usize, threads: usize, most: usize) -> usize {
    total.div_ceil(2 * threads).max(SHORT_BATCH_BYTES).min(most)
}

fn sealed_bytes<B: AsRef<[u8]>>(piece: &B) -> usize {
    sealed_len(piece.as_ref().len())
}

/// Cuts `clear` into runs that sealed are at most `bytes_max`, or one piece.
fn cut<B: AsRef<[u8]>>(clear: Vec<B>, bytes_max: usize) -> Vec<Vec<B>> {
    let mut runs: Vec<Vec<B>> = Vec::new();
    let mut bytes = usize::MAX;
    for piece in clear {
        let len = sealed_bytes(&piece);
        bytes = bytes.saturating_add(len);
        match runs.last_mut() {
            Some(run) if bytes <= bytes_max && run.len() < BATCH_BLOCKS => run.push(piece),
            _ => {
                runs.push(vec![piece]);
                bytes = len;
            }
        }
    }
    runs
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

    #[test]
    fn runs_are_cut_by_bytes_and_by_count() {
        let lens = |runs: Vec<Vec<Vec<u8>>>| runs.iter().map(Vec::len).collect::<Vec<_>>();
        let pieces = |count: usize, len: usize| vec![vec![0; len]; count];
        let three = 3 * sealed_len(100);
        assert_eq!(lens(cut(pieces(7, 100), three)), [3, 3, 1]);
        assert_eq!(lens(cut(pieces(2, 100), 1)), [1, 1]);
        assert_eq!(
            lens(cut(pieces(BATCH_BLOCKS + 1, 1), usize::MAX)),
            [BATCH_BLOCKS, 1]
        );
        assert!(cut(pieces(0, 0), 100).is_empty());
    }
}

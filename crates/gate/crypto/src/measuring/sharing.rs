//! Finds the size from which the pool should share sealing among threads, and the number of these threads.
//!
//! Takes   a sealer, a clock, sizes
//! Gives   speeds of sealing on the calling thread alone and with the pool; the size at which the pool becomes faster
//! Never   decides from a single round, or measures a pool that is still awake from the round before
//! Spec    none: nothing here affects the format. Why these rules: docs/adr/0010-providers-measured.md
//!
//! Invariants
//!  (1) If thread counts tie, the smallest is taken: each further thread costs memory and a wake-up.
//!  (2) Calls below a boundary are sealed on one thread, larger ones with the pool. For each boundary and each
//!      measured size, the slowdown is how much slower the way prescribed for that size (one thread, or the pool) is than
//!      the other way; 0 if it is faster. The chosen boundary is the one with the least sum of slowdowns over all
//!      measured sizes. So a disturbed measurement changes the sum only by its own share.

use std::time::Duration;

use super::benchmark::{Clock, Effort};
use super::figure::{Figure, fastest};
use crate::blocks::block_sealer::BlockSealer;
use crate::pool::Pool;
use strongroom_format::Kind;
use strongroom_format::limits::BLOCK_BYTES_MAX;

/// How long the calling thread stays busy by itself before each call, so that the workers sleep as deeply as they do when
/// a file is written: longer than a virtual processor polls before it halts (200 µs).
const WORKERS_FALL_ASLEEP: Duration = Duration::from_micros(300);

/// The size from which on sharing out pays, where it never does.
pub const NEVER: usize = usize::MAX;

/// One size, sealed both ways in turns.
#[derive(Clone, Debug, PartialEq)]
pub struct SharePoint {
    /// Clear bytes of one call.
    pub bytes: usize,
    /// On the calling thread, in MiB/s.
    pub inline: Figure,
    /// Through the pool, in MiB/s, by count of threads that seal, the caller among them.
    pub pooled: Vec<(usize, Figure)>,
}

/// The fewest threads that nobody seals faster with, beyond the spread; `None` if nothing was measured.        (1)
///
/// `figures`: speeds of one large call by count of threads, in rising order of the count.
#[must_use]
pub fn threads_of(figures: &[(usize, Figure)]) -> Option<usize> {
    let speeds: Vec<Figure> = figures.iter().map(|(_, figure)| figure.clone()).collect();
    let found = fastest(&speeds)?;
    let fewest = found.ties.iter().copied().fold(found.index, usize::min);
    Some(figures[fewest].0)
}

/// The size in bytes from which a call with `threads` threads is faster than one without; `NEVER` if none is.   (2)
///
/// `points` in rising order of their sizes. Between two sizes the crossing lies where the lines, drawn on logarithmic
/// scales, meet.
#[must_use]
pub fn crossing(points: &[SharePoint], threads: usize) -> usize {
    let of = |point: &SharePoint| {
        let pooled = point.pooled.iter().find(|(count, _)| *count == threads);
        pooled.map(|(_, pooled)| {
            // Above 0: pooled takes longer.
            let behind = (point.inline.median() / pooled.median()).ln();
            ((point.bytes as f64).ln(), behind)
        })
    };
    let lines: Vec<(f64, f64)> = points.iter().filter_map(of).collect();
    let loss = |first_pooled: usize| -> f64 {
        let (inline, pooled) = lines.split_at(first_pooled);
        let inline = inline.iter().map(|(_, behind)| (-behind).max(0.0));
        let pooled = pooled.iter().map(|(_, behind)| behind.max(0.0));
        inline.chain(pooled).sum()
    };
    // The last of equals: what is sealed inline wakes nobody.
    let first_pooled = (0..=lines.len())
        .rev()
        .min_by(|left, right| loss(*left).total_cmp(&loss(*right)))
        .unwrap_or(0);
    let Some(&(size, behind)) = lines.get(first_pooled) else {
        return NEVER;
    };
    let meet = match first_pooled.checked_sub(1).map(|before| lines[before]) {
        Some((size_before, behind_before)) if behind_before > behind => {
            size_before + (size - size_before) * behind_before / (behind_before - behind)
        }
        _ => size,
    };
    meet.clamp(0.0, 62.0 * std::f64::consts::LN_2).exp().round() as usize
}

/// The buffers of one call that seals `bytes` in all: full blocks as files are cut into, and never less than two, for one
/// cannot be shared out.
#[must_use]
pub fn cut(bytes: usize) -> Vec<Vec<u8>> {
    let len = BLOCK_BYTES_MAX.min(bytes.div_ceil(2)).max(1);
    let count = bytes.div_ceil(len);
    (0..count)
        .map(|number| {
            let len = len.min(bytes - number * len);
            // Blocks that differ: equal ones would share a name, and nothing but the content.
            vec![number as u8; len]
        })
        .collect()
}

/// Seals calls of several sizes in turns, inline and through pools.
pub struct Sharing<'a> {
    inline: BlockSealer,
    pooled: BlockSealer,
    pools: Vec<Pool>,
    elapsed: Clock<'a>,
}

impl<'a> Sharing<'a> {
    /// With one pool for each of `threads`: counts of threads that seal, the caller among them.
    #[must_use]
    pub fn new(sealer: &BlockSealer, threads: &[usize], elapsed: Clock<'a>) -> Self {
        let below = |bytes| {
            let chosen = sealer.chosen().with_inline_below_bytes(bytes);
            sealer.clone().with_chosen(chosen)
        };
        let pools = threads
            .iter()
            .map(|count| Pool::new(count.saturating_sub(1)))
            .collect();
        Self {
            inline: below(NEVER),
            pooled: below(0),
            pools,
            elapsed,
        }
    }

    /// Measures calls of each of `sizes` in turns, inline and with every pool, in as many rounds as `effort` asks for.
    ///
    /// After `end` nothing is begun, but for the first round of who is thorough; sizes that time was too short for are left
    /// out. The first round warms up, and counts only where it is the only one.
    #[must_use]
    pub fn points(&self, sizes: &[usize], effort: Effort, end: Duration) -> Vec<SharePoint> {
        let mut buffers: Vec<_> = sizes.iter().map(|bytes| cut(*bytes)).collect();
        let mut speeds = vec![vec![Vec::new(); self.pools.len() + 1]; sizes.len()];
        for round in 0..=effort.calls() {
            for ((bytes, buffers), speeds) in sizes.iter().zip(&mut buffers).zip(&mut speeds) {
                if (self.elapsed)() >= end && !effort.finishes(round) {
                    break;
                }
                if round == 1 {
                    speeds.iter_mut().for_each(Vec::clear);
                }
                let ways = std::iter::once(None).chain(self.pools.iter().map(Some));
                for (pool, speeds) in ways.zip(speeds) {
                    speeds.push(self.speed(pool, buffers, *bytes));
                }
            }
        }
        let point = |(bytes, speeds): (&usize, Vec<Vec<f64>>)| {
            let mut figures = speeds.into_iter().map(Figure::of);
            let inline = figures.next()??;
            let pooled = self.pools.iter().zip(figures);
            Some(SharePoint {
                bytes: *bytes,
                inline,
                pooled: pooled
                    .filter_map(|(pool, figure)| Some((pool.threads() + 1, figure?)))
                    .collect(),
            })
        };
        sizes.iter().zip(speeds).filter_map(point).collect()
    }

    /// One call, in MiB/s. Whichever way it goes, its bytes were sealed a moment ago, and only the caller was awake since.
    fn speed(&self, pool: Option<&Pool>, buffers: &mut Vec<Vec<u8>>, bytes: usize) -> f64 {
        let Some(some_pool) = self.pools.first() else {
            return 0.0;
        };
        let _ = self.call(&self.inline, some_pool, buffers);
        let begin = (self.elapsed)();
        while (self.elapsed)().saturating_sub(begin) < WORKERS_FALL_ASLEEP {
            std::hint::spin_loop();
        }
        let took = match pool {
            Some(pool) => self.call(&self.pooled, pool, buffers),
            None => self.call(&self.inline, some_pool, buffers),
        };
        bytes as f64 / took.as_secs_f64() / f64::from(1 << 20)
    }

    fn call(&self, sealer: &BlockSealer, pool: &Pool, buffers: &mut Vec<Vec<u8>>) -> Duration {
        let given = std::mem::take(buffers);
        let start = (self.elapsed)();
        let sealed = sealer.seal_all(pool, Kind::Data, given);
        let took = (self.elapsed)().saturating_sub(start);
        buffers.extend(sealed.into_iter().map(|(_, buffer)| buffer));
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point whose calls take `inline` and `pooled` microseconds.
    fn point(bytes: usize, inline: f64, pooled: f64) -> SharePoint {
        let speed = |time: f64| Figure::of([bytes as f64 / time]).unwrap();
        SharePoint {
            bytes,
            inline: speed(inline),
            pooled: vec![(2, speed(pooled))],
        }
    }

    /// Sealing takes a microsecond for each KiB, the pool halves it and takes 96 µs to wake: they cross at 192 KiB.
    fn plain_points() -> Vec<SharePoint> {
        [32, 64, 128, 256, 512, 1024]
            .into_iter()
            .map(|kib| point(kib << 10, kib as f64, kib as f64 / 2.0 + 96.0))
            .collect()
    }

    #[test]
    fn the_crossing_lies_where_the_lines_meet() {
        let found = crossing(&plain_points(), 2);
        assert!((180 << 10..200 << 10).contains(&found), "{found}");
    }

    #[test]
    fn one_disturbed_size_does_not_move_the_crossing_beyond_itself() {
        let mut points = plain_points();
        points[5] = point(1024 << 10, 1024.0, 1100.0);
        assert_eq!(crossing(&points, 2), crossing(&plain_points(), 2));
        let mut points = plain_points();
        points[0] = point(32 << 10, 32.0, 31.0);
        assert_eq!(crossing(&points, 2), crossing(&plain_points(), 2));
    }

    #[test]
    fn a_pool_that_never_pays_is_never_used_and_one_that_always_does_from_the_least_size() {
        let never: Vec<_> = (1..6).map(|n| point(n << 16, 10.0, 11.0)).collect();
        assert_eq!(crossing(&never, 2), NEVER);
        let always: Vec<_> = (1..6).map(|n| point(n << 16, 10.0, 9.0)).collect();
        assert_eq!(crossing(&always, 2), 1 << 16);
        assert_eq!(
            crossing(&always, 4),
            NEVER,
            "nothing was measured with four"
        );
        assert_eq!(crossing(&[], 2), NEVER);
    }

    #[test]
    fn the_fewest_threads_that_tie_are_taken() {
        let figure = |least: f64| Figure::of([least, least + 1.0, least + 2.0]).unwrap();
        let speeds = [(1, 10.0), (2, 19.0), (4, 20.0), (8, 18.5)];
        let figures = speeds.map(|(count, least)| (count, figure(least)));
        assert_eq!(threads_of(&figures), Some(2));
        assert_eq!(threads_of(&figures[..1]), Some(1));
        assert_eq!(threads_of(&[]), None);
    }

    #[test]
    fn a_call_is_cut_into_at_least_two_blocks_of_the_bytes_asked_for() {
        for bytes in [2, 4096, 100_000, 131_072, 131_073, 1 << 20] {
            let buffers = cut(bytes);
            assert!(buffers.len() >= 2, "{bytes}");
            assert!(buffers.iter().all(|buffer| buffer.len() <= BLOCK_BYTES_MAX));
            assert_eq!(buffers.iter().map(Vec::len).sum::<usize>(), bytes);
        }
    }
}

//! How fast blocks are named, sealed and opened on one core, and from where sharing them out pays.
//!
//! `cargo bench -p strongroom-crypto --bench seal`. Prints the median of several rounds, warmed up, in MB/s of clear bytes.
//! Times are reported and never a test's pass or fail.

use std::hint::black_box;
use std::time::Instant;
use strongroom_crypto::{BlockSealer, EpochKey, IdKey, Pool};
use strongroom_format::{Epoch, Kind, SuiteId};

/// Rounds of one figure.
const ROUNDS: usize = 15;

/// Clear bytes of one round.
const ROUND_BYTES: usize = 16 * 1024 * 1024;

/// Runs `work`, which handles `bytes` clear bytes, until a round is full, `ROUNDS` times; gives the median in MB/s.
fn median_mb_per_s(bytes: usize, mut work: impl FnMut()) -> f64 {
    let calls = (ROUND_BYTES / bytes).max(1);
    let mut round = || {
        let start = Instant::now();
        (0..calls).for_each(|_| work());
        (calls * bytes) as f64 / start.elapsed().as_secs_f64() / 1e6
    };
    round();
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn sealer(suite: SuiteId) -> BlockSealer {
    let epochs = vec![(Epoch(0), EpochKey::from_bytes([2; 32]))];
    BlockSealer::new(suite, [0; 16], IdKey::from_bytes([1; 32]), epochs)
}

fn main() {
    for suite in SuiteId::ALL {
        let sealer = sealer(*suite);
        for len in [4 * 1024, 16 * 1024, 64 * 1024] {
            let clear: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
            let block = sealer.seal(Kind::Data, &clear);
            let mut out = vec![0; len];
            let seal = median_mb_per_s(len, || {
                black_box(sealer.seal(Kind::Data, black_box(&clear)));
            });
            let name = median_mb_per_s(len, || {
                black_box(sealer.verify_id(Kind::Data, &block.id, black_box(&clear)));
            });
            let open = median_mb_per_s(len, || {
                black_box(sealer.open(
                    Epoch(0),
                    Kind::Data,
                    &block.id,
                    len,
                    black_box(&block.bytes),
                ))
                .expect("opens");
            });
            let range = median_mb_per_s(len, || {
                let sealed = black_box(&block.bytes);
                sealer
                    .open_range(
                        Epoch(0),
                        Kind::Data,
                        &block.id,
                        len,
                        0..len,
                        sealed,
                        &mut out,
                    )
                    .expect("opens");
            });
            println!(
                "{suite:?} {len:>6}: seal {seal:.0}, name alone {name:.0}, open {open:.0}, open by tags {range:.0} MB/s"
            );
        }
    }
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let (pool, alone) = (Pool::new(1), Pool::new(0));
    for count in [2, 4, 16, 64] {
        let mut both = [&alone, &pool].map(|pool| {
            let mut buffers: Vec<Vec<u8>> = (0..count)
                .map(|number| vec![number as u8; 64 * 1024])
                .collect();
            median_mb_per_s(count * 64 * 1024, || {
                let sealed = sealer.seal_all(pool, Kind::Data, std::mem::take(&mut buffers));
                buffers = sealed.into_iter().map(|(_, buffer)| buffer).collect();
            })
        });
        both.reverse();
        println!(
            "seal_all of {count:>2} x 64 KiB: {:.0} MB/s with one worker, {:.0} MB/s with none",
            both[0], both[1]
        );
    }
}

//! Measures how fast blocks are named, sealed and opened on one core, what the measured choice of providers gains, and
//! from which size on the pool is faster.
//!
//! `cargo bench -p strongroom-crypto --bench seal`. Prints the median of several rounds after a warm-up, in MB/s of
//! clear bytes. Times are only reported; they never decide a test.

use std::hint::black_box;
use std::time::{Duration, Instant};
use strongroom_crypto::measuring::figure::{Figure, fastest};
use strongroom_crypto::measuring::measured;
use strongroom_crypto::providers::{
    Algorithm, Chosen, Preferences, State, providers_of, set_choice,
};
use strongroom_crypto::{BlockSealer, EpochKey, IdKey, Pool};
use strongroom_format::{Epoch, Kind, SuiteId};

/// What the first use of a machine may take.
const FIRST_USE: Duration = Duration::from_millis(300);

/// Rounds in which the choice and the fixed providers take turns.
const TURNS: usize = 400;

/// Clear bytes of one turn.
const TURN_BYTES: usize = 512 * 1024;

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

/// Seals blocks of 64 KiB with what `first_use` chose and with each provider fixed, in turns.
fn choice_against_fixed(suite: SuiteId) {
    let algorithm = Algorithm::aead_of(suite);
    let mut competitors = vec![("the choice".to_owned(), sealer(suite))];
    for offer in providers_of(algorithm) {
        let name = offer.provider.name();
        let wished: Preferences = format!("{algorithm}={name}")
            .parse()
            .expect("it is offered");
        if offer.state == State::Ready {
            let chosen = Chosen::by(suite, &wished).expect("it is ready");
            competitors.push((format!("{name}, fixed"), sealer(suite).with_chosen(chosen)));
        }
    }
    let clear: Vec<u8> = (0..64 * 1024).map(|index| (index % 251) as u8).collect();
    let mut rounds = vec![Vec::new(); competitors.len()];
    for turn in 0..=TURNS {
        for ((_, sealer), rounds) in competitors.iter().zip(&mut rounds) {
            let start = Instant::now();
            for _ in 0..TURN_BYTES / clear.len() {
                black_box(sealer.seal(Kind::Data, black_box(&clear)));
            }
            if turn > 0 {
                rounds.push(TURN_BYTES as f64 / start.elapsed().as_secs_f64() / 1e6);
            }
        }
    }
    let figures: Vec<Figure> = rounds.into_iter().filter_map(Figure::of).collect();
    println!(
        "{algorithm}: seal of 64 KiB, {TURNS} turns, MB/s: median (middle half of the rounds)"
    );
    for ((name, _), figure) in competitors.iter().zip(&figures) {
        println!(
            "  {name:<20} {:>6.0} ({:.0} to {:.0})",
            figure.median(),
            figure.low(),
            figure.high()
        );
    }
    let (choice, fixed) = figures.split_first().expect("the choice competes");
    let Some(best) = fastest(fixed) else {
        return;
    };
    let best = &fixed[best.index];
    let worst = fixed.iter().map(Figure::median).fold(f64::MAX, f64::min);
    println!(
        "  the choice is {:.2} x the best fixed{}, {:.2} x the worst",
        choice.median() / best.median(),
        if choice.high() >= best.low() {
            " (not behind it beyond the spread)"
        } else {
            ""
        },
        choice.median() / worst
    );
}

fn main() {
    let start = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let found = measured::in_haste(FIRST_USE, cores, &|| start.elapsed());
    println!(
        "first use measured in {} ms: seal inline below {} KiB, {:?} threads",
        start.elapsed().as_millis(),
        found.choice.inline_below_bytes >> 10,
        found.choice.threads
    );
    set_choice(found.choice);
    SuiteId::ALL.iter().copied().for_each(choice_against_fixed);
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

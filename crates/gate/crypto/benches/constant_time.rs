//! Measures whether the time of a refused opening, of sealing or of comparing ids depends on secrets.
//!
//! `cargo bench -p strongroom-crypto --bench constant_time`. Two classes of input alternate in random order; Welch's t
//! of their times is printed, without slow outliers. A t above about 10 means a difference; below that, these samples
//! show none. Method: Reparaz, Balasch, Verbauwhede, "Dude, is my code constant time?", 2017. Times never decide a test.

use std::hint::black_box;
use std::time::Instant;

use strongroom_crypto::providers::{Aead, Algorithm, Implementation, Nonce, State, providers_of};
use strongroom_crypto::{BlockSealer, EpochKey, IdKey};
use strongroom_format::{BlockId, Epoch, Kind, SuiteId};

/// Calls of both classes together.
const SAMPLES: usize = 200_000;

/// Of each class, the part of the fastest samples that counts: the others met an interrupt.
const KEPT_PART: f64 = 0.9;

/// Clear bytes of one call.
const BYTES: usize = 256;

/// Numbers that no input depends on: which class is next, and random keys.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self) -> [u8; 32] {
        std::array::from_fn(|_| self.next().to_le_bytes()[3])
    }
}

/// Mean and variance of the fastest `KEPT_PART` of `times`.
fn moments(mut times: Vec<f64>) -> (f64, f64, f64) {
    times.sort_by(f64::total_cmp);
    times.truncate((times.len() as f64 * KEPT_PART) as usize);
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, variance, count)
}

/// Times `work` on both classes, in random order, and prints what tells them apart. `work` gives the nanoseconds of one call.
fn compare(what: &str, mut work: impl FnMut(bool, &mut Random) -> f64) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut times = [Vec::new(), Vec::new()];
    for sample in 0..SAMPLES {
        let class = random.next() & 1 == 1;
        let time = work(class, &mut random);
        // The first calls warm up.
        if sample > SAMPLES / 20 {
            times[usize::from(class)].push(time);
        }
    }
    let [one, other] = times.map(moments);
    let t = (one.0 - other.0) / (one.1 / one.2 + other.1 / other.2).sqrt();
    let verdict = if t.abs() > 10.0 { "DIFFERENT" } else { "alike" };
    println!(
        "{what:<58} {:>7.0} ns {:>7.0} ns   t {t:>7.1}  {verdict}",
        one.0, other.0
    );
}

fn nanoseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e9
}

fn aead(algorithm: Algorithm, name: &str, aead: &dyn Aead) {
    let nonce = Nonce([3; 32]);
    aead.with_key(&[7; 32], &mut |key| {
        let mut sealed = vec![5; BYTES];
        let tag = key.seal(&nonce, &mut sealed);
        let mut text = sealed.clone();
        let mut inputs = [vec![0; BYTES], vec![0; BYTES]];
        compare(
            &format!("{algorithm}, {name}: tag wrong at its start, at its end"),
            |class, _| {
                text.copy_from_slice(&sealed);
                let mut wrong = tag;
                wrong[if class { 15 } else { 0 }] ^= 1;
                nanoseconds(|| {
                    let _ = black_box(key.open(&nonce, &mut text, black_box(&wrong)));
                })
            },
        );
        compare(
            &format!("{algorithm}, {name}: sealing zeros, sealing random bytes"),
            |class, random| {
                // Both classes are prepared by the same steps: what differs is only what is sealed.
                for part in inputs[1].chunks_mut(32) {
                    part.copy_from_slice(&random.bytes());
                }
                text.copy_from_slice(&inputs[usize::from(class)]);
                nanoseconds(|| {
                    black_box(key.seal(&nonce, black_box(&mut text)));
                })
            },
        );
    });
}

fn ids() {
    let epochs = vec![(Epoch(0), EpochKey::from_bytes([2; 32]))];
    let sealer = BlockSealer::new(
        SuiteId::Aes256GcmBlake3,
        [0; 16],
        IdKey::from_bytes([1; 32]),
        epochs,
    );
    let clear = vec![9; BYTES];
    let id = sealer.seal(Kind::Data, &clear).id;
    compare("ids: wrong at the start, at the end", |class, _| {
        let mut wrong: BlockId = id;
        wrong.0[if class { 31 } else { 0 }] ^= 1;
        nanoseconds(|| {
            black_box(sealer.verify_id(Kind::Data, black_box(&wrong), &clear));
        })
    });
}

fn main() {
    for algorithm in [
        Algorithm::Aes256Gcm,
        Algorithm::ChaCha20Poly1305,
        Algorithm::Aegis256,
    ] {
        for offer in providers_of(algorithm) {
            if offer.state != State::Ready {
                continue;
            }
            if let Some(Implementation::Aead(found)) = offer.provider.implementation(algorithm) {
                aead(algorithm, offer.provider.name(), found);
            }
        }
    }
    ids();
}

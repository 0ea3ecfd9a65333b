//! Measures the providers on this machine, and chooses which provider computes which algorithm, and how sealing is shared among threads.
//!
//! Takes   a clock, a time limit, and the number of cores
//! Gives   every figure, and the `Choice` made from exactly these figures
//! Never   applies or stores the choice, or measures during an operation: the caller decides when
//! Spec    none: nothing here affects the format. Why these rules: docs/adr/0010-providers-measured.md
//!
//! Invariants
//!  (1) For each work and size the fastest on one thread is chosen.
//!  (2) A row that is incomplete because of the time limit decides nothing.
//!  (3) Only a long measurement can show that the pool brings no gain: in a short one (a third of a second), other work
//!      of the machine can hide the gain.

use std::fmt;
use std::time::Duration;

use strongroom_format::limits::BLOCK_BYTES_MAX;

use super::benchmark::{Clock, Effort, Row, contests, rows, run};
use super::figure::Figure;
use super::operation::sealer;
use super::sharing::{NEVER, SharePoint, Sharing, crossing, threads_of};
use crate::limits::POOL_THREADS_MAX;
use crate::providers::{Algorithm, Choice, Preferences, Provider, SizeClass, Work};

/// Of the time there is, the part after which no call is begun, so that the last ones end in time.
const LAST_CALL_PART: f64 = 0.95;

/// Blocks for each thread in one call when threads are counted.
const SCALING_BLOCKS: usize = 8;

/// The most clear bytes of such a call.
const SCALING_BYTES_MAX: usize = 16 << 20;

/// Clear bytes of the calls that are measured for the crossing; in haste only those in the middle.
const SHARED_BYTES: [usize; 9] = [
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
];

/// What a measurement found, and what follows from it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Of every algorithm, work, size and count of threads.
    pub rows: Vec<Row>,
    /// Speeds of one large call, in MiB/s, by count of threads that seal.
    pub scaling: Vec<(usize, Figure)>,
    /// Calls of several sizes, inline and shared out.
    pub points: Vec<SharePoint>,
    /// What follows.
    pub choice: Choice,
    /// How long it took.
    pub took: Duration,
}

/// Measures in at most about `time`: just enough for a choice.
///
/// # Panics
/// If AES-256-GCM or BLAKE3 has no provider: the caller has asked `providers::ready` before.
#[must_use]
pub fn in_haste(time: Duration, cores: usize, elapsed: Clock<'_>) -> Measured {
    let tried = contests(Algorithm::ALL, &sizes(), &[1]);
    measure(tried, Effort::Haste, time, cores, elapsed, &mut |_| ())
}

/// Measures everything that can run here, on one thread and on all cores, for a table.
///
/// `progress` gets the part that is done, 0 to 1.
///
/// # Panics
/// As `in_haste`.
#[must_use]
pub fn thoroughly(
    time: Duration,
    cores: usize,
    elapsed: Clock<'_>,
    progress: &mut dyn FnMut(f64),
) -> Measured {
    let threads = if cores > 1 { vec![1, cores] } else { vec![1] };
    let tried = contests(Algorithm::ALL, &sizes(), &threads);
    measure(tried, Effort::Thorough, time, cores, elapsed, progress)
}

fn sizes() -> [usize; SizeClass::ALL.len()] {
    SizeClass::ALL.map(SizeClass::bytes)
}

fn measure(
    mut tried: Vec<super::benchmark::Contest>,
    effort: Effort,
    time: Duration,
    cores: usize,
    elapsed: Clock<'_>,
    progress: &mut dyn FnMut(f64),
) -> Measured {
    let start = elapsed();
    let providers_part = effort.providers_part();
    let providers_time = time.mul_f64(providers_part);
    run(&mut tried, effort, providers_time, elapsed, &mut |part| {
        progress(part * providers_part);
    });
    let rows = rows(tried);
    let mut choice = decide(&rows);
    let sealer = sealer(Algorithm::Aes256Gcm, &wishes(&choice));
    let part = |part: f64| start + time.mul_f64(part);
    let counts = thread_counts(cores);
    let bytes = (cores * SCALING_BLOCKS * BLOCK_BYTES_MAX).min(SCALING_BYTES_MAX);
    let middle = f64::midpoint(providers_part, LAST_CALL_PART);
    let scaling = Sharing::new(&sealer, &counts, elapsed).points(&[bytes], effort, part(middle));
    let scaling = scaling.into_iter().next();
    let scaling = scaling.map_or_else(Vec::new, |point| point.pooled);
    progress(middle);
    let threads = threads_of(&scaling);
    // On two at least, so that the lines can be shown also where sharing out does not pay.
    let several = threads.unwrap_or(1).max(cores.min(2));
    let (sizes, counts) = match effort {
        Effort::Haste => (&SHARED_BYTES[2..7], vec![several]),
        Effort::Thorough => (&SHARED_BYTES[..], vec![1, several]),
    };
    let end = part(LAST_CALL_PART);
    let points = Sharing::new(&sealer, &counts, elapsed).points(sizes, effort, end);
    progress(1.0);
    // Where time was too short to tell, the default stays.                                                 (2)
    let is_whole = points.len() == sizes.len();
    let crossing = |threads| is_whole.then(|| crossing(&points, threads));
    let may_say_never = effort == Effort::Thorough || cores == 1;
    share_out(&mut choice, threads, crossing, may_say_never);
    Measured {
        rows,
        scaling,
        points,
        choice,
        took: elapsed().saturating_sub(start),
    }
}

/// Notes how sealing is shared out: on how many threads, and from which size on. What is not known, or not believed,
/// stays as it is.                                                                                       (2) (3)
fn share_out(
    choice: &mut Choice,
    threads: Option<usize>,
    crossing: impl FnOnce(usize) -> Option<usize>,
    may_say_never: bool,
) {
    let found = match threads {
        None => return,
        Some(1) => Some(NEVER),
        Some(threads) => crossing(threads),
    };
    if found == Some(NEVER) && !may_say_never {
        return;
    }
    choice.threads = threads;
    if let Some(bytes) = found {
        choice.inline_below_bytes = bytes;
    }
}

/// What `choice` names for sealing whole blocks of suite 1.
fn wishes(choice: &Choice) -> Preferences {
    let mut wished = Preferences::default();
    for (algorithm, work) in [
        (Algorithm::Aes256Gcm, Work::Encrypt),
        (Algorithm::Blake3, Work::Hash),
    ] {
        if let Some(provider) = choice.get(algorithm, work, SizeClass::Kib64) {
            wished
                .put(algorithm, provider.name())
                .expect("a choice names providers of this build");
        }
    }
    wished
}

/// 1, 2, 4 and so on, and `cores` itself.
fn thread_counts(cores: usize) -> Vec<usize> {
    let cores = cores.clamp(1, POOL_THREADS_MAX);
    let mut counts: Vec<usize> = std::iter::successors(Some(1), |count| Some(count * 2))
        .take_while(|count| *count < cores)
        .collect();
    counts.push(cores);
    counts
}

/// Who computes what, by these rows.                                                                     (1) (2)
#[must_use]
pub fn decide(rows: &[Row]) -> Choice {
    let mut choice = Choice::default();
    let deciding = |row: &&Row| row.threads == 1 && row.complete && row.work.decides();
    for row in rows.iter().filter(deciding) {
        let Some(fastest) = row.fastest() else {
            continue;
        };
        let name = row.entries[fastest.index].provider.name();
        for class in classes(row) {
            choice
                .put(row.algorithm, row.work, class, name)
                .expect("rows name providers of this build");
        }
    }
    choice
}

/// The size classes that `row` is about: all, if its work has a size of its own.
fn classes(row: &Row) -> Vec<SizeClass> {
    let has_sizes = row.work.sizes(&sizes()).len() > 1;
    let here = |class: &SizeClass| !has_sizes || class.bytes() == row.bytes;
    SizeClass::ALL.into_iter().filter(here).collect()
}

/// What can be said of a provider in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// There is no other.
    Only,
    /// Faster than the second by this part, beyond the spread.
    Fastest {
        /// 0.1 is ten percent.
        lead: f64,
    },
    /// Its median is the greatest, and these are within the spread.
    Ties {
        /// Names.
        with: Vec<&'static str>,
    },
    /// Its median is not the greatest, but it is within the spread of the one that has.
    Within {
        /// Whose spread it is in.
        of: &'static str,
    },
    /// Another is faster, beyond the spread.
    Behind {
        /// Which.
        fastest: &'static str,
        /// By which part of the speed of this one.
        by: f64,
    },
}

impl Row {
    /// What the figures say of the provider at `index`.
    ///
    /// # Panics
    /// If there is no entry at `index`.
    #[must_use]
    pub fn reason(&self, index: usize) -> Reason {
        let entry = &self.entries[index];
        let found = self.fastest().expect("there is an entry at `index`");
        let name = |place: &usize| self.entries[*place].provider.name();
        let best = &self.entries[found.index];
        match (found.lead, found.index == index) {
            (None, _) => Reason::Only,
            (Some(lead), true) if found.ties.is_empty() => Reason::Fastest { lead },
            (Some(_), true) => Reason::Ties {
                with: found.ties.iter().map(name).collect(),
            },
            (Some(_), false) if found.ties.contains(&index) => Reason::Within {
                of: name(&found.index),
            },
            (Some(_), false) => Reason::Behind {
                fastest: name(&found.index),
                by: best.figure.median() / entry.figure.median() - 1.0,
            },
        }
    }

    /// The place of `provider` among the entries.
    #[must_use]
    pub fn position(&self, provider: &dyn Provider) -> Option<usize> {
        let mut entries = self.entries.iter();
        entries.position(|entry| entry.provider.name() == provider.name())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only => formatter.write_str("the only one"),
            Self::Fastest { lead } => write!(formatter, "fastest, by {:.0} %", lead * 100.0),
            Self::Ties { with } => {
                let with = with.join(", ");
                write!(
                    formatter,
                    "fastest, tied with {with} within the error of measurement"
                )
            }
            Self::Within { of } => {
                write!(
                    formatter,
                    "as fast as {of}, within the error of measurement"
                )
            }
            Self::Behind { fastest, by } => {
                write!(formatter, "{fastest} is {:.0} % faster", by * 100.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measuring::benchmark::Entry;
    use crate::providers::catalog::provider_named;
    use std::sync::atomic::{AtomicU64, Ordering};

    const AES: Algorithm = Algorithm::Aes256Gcm;

    fn row(work: Work, bytes: usize, threads: usize, speeds: &[(&str, [f64; 3])]) -> Row {
        let entry = |(name, rounds): &(&str, [f64; 3])| Entry {
            provider: provider_named(AES, name).unwrap(),
            figure: Figure::of(*rounds).unwrap(),
        };
        Row {
            algorithm: AES,
            work,
            bytes,
            threads,
            entries: speeds.iter().map(entry).collect(),
            complete: true,
        }
    }

    fn named(choice: &Choice, work: Work, class: SizeClass) -> Option<&'static str> {
        choice.get(AES, work, class).map(Provider::name)
    }

    const RING_WINS: &[(&str, [f64; 3])] =
        &[("ring", [9.0, 10.0, 11.0]), ("rustcrypto", [1.0, 2.0, 3.0])];
    const RUSTCRYPTO_WINS: &[(&str, [f64; 3])] =
        &[("ring", [1.0, 2.0, 3.0]), ("rustcrypto", [9.0, 10.0, 11.0])];

    #[test]
    fn each_work_and_size_is_decided_by_its_own_row_on_one_thread() {
        let choice = decide(&[
            row(Work::Encrypt, 4096, 1, RING_WINS),
            row(Work::Encrypt, 4096, 2, RUSTCRYPTO_WINS),
            row(Work::Encrypt, 65_536, 1, RUSTCRYPTO_WINS),
            row(Work::Decrypt, 4096, 1, RUSTCRYPTO_WINS),
            row(Work::Seal, 65_536, 1, RING_WINS),
        ]);
        let (small, block) = (SizeClass::Kib4, SizeClass::Kib64);
        assert_eq!(named(&choice, Work::Encrypt, small), Some("ring"));
        assert_eq!(named(&choice, Work::Encrypt, block), Some("rustcrypto"));
        assert_eq!(named(&choice, Work::Decrypt, small), Some("rustcrypto"));
        assert_eq!(named(&choice, Work::Decrypt, block), None);
        assert_eq!(named(&choice, Work::Seal, block), None);
    }

    #[test]
    fn a_row_without_every_provider_decides_nothing() {
        let mut short = row(Work::Encrypt, 4096, 1, RING_WINS);
        short.complete = false;
        assert_eq!(
            named(&decide(&[short]), Work::Encrypt, SizeClass::Kib4),
            None
        );
        let empty = row(Work::Encrypt, 4096, 1, &[]);
        assert_eq!(
            named(&decide(&[empty]), Work::Encrypt, SizeClass::Kib4),
            None
        );
    }

    #[test]
    fn a_work_with_a_size_of_its_own_decides_for_all_sizes() {
        let signer = providers_of_ed25519();
        let mut signing = row(Work::Sign, 256, 1, &[]);
        signing.algorithm = Algorithm::Ed25519;
        signing.entries = vec![Entry {
            provider: signer,
            figure: Figure::of([1.0]).unwrap(),
        }];
        let choice = decide(&[signing]);
        for class in SizeClass::ALL {
            let found = choice.get(Algorithm::Ed25519, Work::Sign, class);
            assert_eq!(found.map(Provider::name), Some(signer.name()));
        }
    }

    fn providers_of_ed25519() -> &'static dyn Provider {
        crate::providers::providers_of(Algorithm::Ed25519)[0].provider
    }

    #[test]
    fn each_figure_has_its_reason() {
        let clear = row(Work::Encrypt, 4096, 1, RING_WINS);
        assert_eq!(clear.reason(0).to_string(), "fastest, by 400 %");
        assert_eq!(clear.reason(1).to_string(), "ring is 400 % faster");
        let close = &[
            ("ring", [9.0, 10.0, 11.0]),
            ("rustcrypto", [8.5, 9.5, 10.5]),
        ];
        let close = row(Work::Encrypt, 4096, 1, close);
        assert_eq!(
            close.reason(0).to_string(),
            "fastest, tied with rustcrypto within the error of measurement"
        );
        assert_eq!(
            close.reason(1).to_string(),
            "as fast as ring, within the error of measurement"
        );
        let alone = row(Work::Encrypt, 4096, 1, &RING_WINS[..1]);
        assert_eq!(alone.reason(0).to_string(), "the only one");
    }

    #[test]
    fn threads_are_counted_in_powers_of_two_and_all() {
        assert_eq!(thread_counts(0), [1]);
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
        assert_eq!(thread_counts(8), [1, 2, 4, 8]);
        assert_eq!(thread_counts(100_000).last(), Some(&POOL_THREADS_MAX));
    }

    /// The clock moves by a step whenever somebody looks at it, so the work itself costs nothing and looks are counted.
    #[test]
    fn a_measurement_in_haste_ends_in_time_and_decides() {
        let looks = AtomicU64::new(0);
        let clock = || Duration::from_micros(100 * looks.fetch_add(1, Ordering::Relaxed));
        let time = Duration::from_millis(300);
        let found = in_haste(time, 2, &clock);
        assert!(found.took <= time, "{:?}", found.took);
        for row in found
            .rows
            .iter()
            .filter(|row| row.complete && row.work.decides())
        {
            let class = classes(row)[0];
            let chosen = found.choice.get(row.algorithm, row.work, class);
            assert_eq!(chosen.is_some(), !row.entries.is_empty(), "{row:?}");
        }
        assert!(found.rows.iter().any(|row| row.complete));
    }

    #[test]
    fn that_sharing_out_does_not_pay_is_not_believed_in_haste() {
        let told = |threads, crossing, may_say_never| {
            let mut choice = Choice::default();
            share_out(&mut choice, threads, |_| crossing, may_say_never);
            (choice.threads, choice.inline_below_bytes)
        };
        let default = Choice::default();
        let as_it_is = (default.threads, default.inline_below_bytes);
        for may_say_never in [false, true] {
            assert_eq!(told(None, Some(7), may_say_never), as_it_is);
            assert_eq!(told(Some(2), Some(7), may_say_never), (Some(2), 7));
            assert_eq!(
                told(Some(2), None, may_say_never),
                (Some(2), default.inline_below_bytes)
            );
        }
        assert_eq!(told(Some(1), None, false), as_it_is);
        assert_eq!(told(Some(2), Some(NEVER), false), as_it_is);
        assert_eq!(told(Some(1), None, true), (Some(1), NEVER));
        assert_eq!(told(Some(2), Some(NEVER), true), (Some(2), NEVER));
    }

    #[test]
    fn with_no_time_the_choice_is_the_default() {
        let looks = AtomicU64::new(0);
        let clock = || Duration::from_micros(looks.fetch_add(1, Ordering::Relaxed));
        let found = in_haste(Duration::ZERO, 2, &clock);
        let default = Choice::default();
        assert!(
            found
                .rows
                .iter()
                .all(|row| !row.complete || row.entries.is_empty())
        );
        assert_eq!(found.choice.threads, default.threads);
        assert_eq!(found.choice.inline_below_bytes, default.inline_below_bytes);
        assert!(found.points.is_empty());
    }

    #[test]
    fn a_thorough_measurement_shows_both_counts_of_threads_and_its_progress() {
        let looks = AtomicU64::new(0);
        let clock = || Duration::from_micros(1000 * looks.fetch_add(1, Ordering::Relaxed));
        let mut parts = Vec::new();
        let found = thoroughly(Duration::from_secs(4), 2, &clock, &mut |part| {
            parts.push(part)
        });
        assert!(parts.is_sorted() && parts.last() == Some(&1.0));
        assert!(found.rows.iter().any(|row| row.threads == 2));
        assert_eq!(found.scaling.len(), 2);
        assert_eq!(found.points.len(), SHARED_BYTES.len());
        assert!(found.points.iter().all(|point| point.pooled.len() == 2));
    }
}

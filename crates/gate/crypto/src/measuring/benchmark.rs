//! Runs the providers of an algorithm against one another.
//!
//! Takes   algorithms, sizes, counts of threads, a clock, and a time limit
//! Gives   rows: for each algorithm, kind of work, size and count of threads, the figure of every provider that runs here
//! Never   finishes one provider before it begins the next: each round measures all of them, so that a machine that slows
//!         down meanwhile affects all equally
//! Spec    none: nothing here affects the format. Why these rules: docs/adr/0010-providers-measured.md
//!
//! Invariants
//!  (1) Every provider of a row does the same work, with its own key and buffers.
//!  (2) After the time limit nothing new begins, except that a thorough measurement finishes its first round. So every
//!      provider gets a figure on any machine, however slow.

use std::sync::Barrier;
use std::time::Duration;

use super::figure::{Figure, fastest};
use super::operation::{Operation, operation};
use crate::providers::catalog::implementation;
use crate::providers::{Algorithm, Provider, State, Work, providers_of};

/// Tells how much time has passed since some moment; threads ask it too.
pub type Clock<'a> = &'a (dyn Fn() -> Duration + Sync);

/// Between two looks at the clock at least this many bytes are worked on, so that looking costs nothing.
const BATCH_BYTES: usize = 64 * 1024;

/// After its first round a provider this many times slower than the fastest is out, where there is haste.
const HOPELESS: f64 = 1.5;

/// The figure of one provider.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Whose.
    pub provider: &'static dyn Provider,
    /// How fast: in MiB/s, or operations a second, as `Work::unit` says.
    pub figure: Figure,
}

/// Figures that may be compared: the same work by every provider.
#[derive(Clone, Debug)]
pub struct Row {
    /// What is computed.
    pub algorithm: Algorithm,
    /// What is done with it.
    pub work: Work,
    /// Over how many bytes in one operation.
    pub bytes: usize,
    /// By how many threads at once, each on bytes of its own.
    pub threads: usize,
    /// In the order of the registry; those without a figure are left out.
    pub entries: Vec<Entry>,
    /// Whether every provider that can run here has a figure.
    pub complete: bool,
}

impl Row {
    /// The place of the fastest among the entries.
    #[must_use]
    pub fn fastest(&self) -> Option<super::figure::Fastest> {
        let figures: Vec<Figure> = self
            .entries
            .iter()
            .map(|entry| entry.figure.clone())
            .collect();
        fastest(&figures)
    }
}

/// How much effort a measurement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A first look: few rounds, and who is far behind is not asked again.
    Haste,
    /// Figures to be shown.
    Thorough,
}

impl Effort {
    /// Rounds after the first. Many and short ones: whatever else the machine does for some milliseconds then spoils a few
    /// rounds whole instead of all of them a little, and the median stays.
    const fn rounds(self) -> usize {
        match self {
            Self::Haste => 12,
            Self::Thorough => 60,
        }
    }

    /// Whether that round, counted from 0, is finished even when the time is up.
    pub(super) fn finishes(self, round: usize) -> bool {
        self == Self::Thorough && round == 0
    }

    /// Of the time there is, the part that the providers take; the rest is for sharing out.
    pub(super) const fn providers_part(self) -> f64 {
        match self {
            Self::Haste => 0.7,
            Self::Thorough => 0.85,
        }
    }

    /// Rounds of calls that are shared out, after the first.
    pub(super) const fn calls(self) -> usize {
        match self {
            Self::Haste => 7,
            Self::Thorough => 40,
        }
    }
}

/// One provider in a contest.
struct Contestant {
    provider: &'static dyn Provider,
    /// One for each thread; made at the first round.
    operations: Vec<Operation>,
    speeds: Vec<f64>,
    out: bool,
}

/// A row before it is measured.
pub(super) struct Contest {
    algorithm: Algorithm,
    work: Work,
    bytes: usize,
    threads: usize,
    contestants: Vec<Contestant>,
}

/// The contests of `algorithms`, the small sizes of all of them first.
pub(super) fn contests(
    algorithms: &[Algorithm],
    sizes: &[usize],
    threads: &[usize],
) -> Vec<Contest> {
    let mut contests = Vec::new();
    for algorithm in algorithms {
        let usable: Vec<_> = providers_of(*algorithm)
            .into_iter()
            .filter(|offer| offer.state == State::Ready)
            .map(|offer| offer.provider)
            .collect();
        for work in Work::of(*algorithm) {
            for bytes in work.sizes(sizes) {
                let threads = threads.iter().filter(|threads| work.runs_on(**threads));
                contests.extend(threads.map(|threads| Contest {
                    algorithm: *algorithm,
                    work: *work,
                    bytes,
                    threads: *threads,
                    contestants: usable.iter().map(|by| Contestant::new(*by)).collect(),
                }));
            }
        }
    }
    contests.sort_by_key(|contest| (contest.threads, contest.bytes));
    contests
}

/// Runs all `contests` in turns, round by round, until all rounds are done or `time` is up.                    (2)
///
/// `progress` gets the part that is done, 0 to 1.
pub(super) fn run(
    contests: &mut [Contest],
    effort: Effort,
    time: Duration,
    elapsed: Clock<'_>,
    progress: &mut dyn FnMut(f64),
) {
    let end = elapsed() + time;
    let turns: usize = contests
        .iter()
        .map(|contest| contest.contestants.len())
        .sum();
    let rounds = effort.rounds() + 1;
    let slice = time / u32::try_from((turns * rounds).max(1)).unwrap_or(u32::MAX);
    for round in 0..rounds {
        let count = contests.len();
        for (number, contest) in contests.iter_mut().enumerate() {
            for contestant in &mut contest.contestants {
                if elapsed() >= end && !effort.finishes(round) {
                    return;
                }
                if !contestant.out {
                    contestant.run(
                        contest.algorithm,
                        contest.work,
                        contest.bytes,
                        contest.threads,
                        slice,
                        elapsed,
                    );
                }
            }
            let done = (round * count + number + 1) as f64;
            progress(done / (rounds * count) as f64);
        }
        if round == 0 && effort == Effort::Haste {
            contests.iter_mut().for_each(Contest::drop_hopeless);
        }
    }
}

/// What was measured.
pub(super) fn rows(contests: Vec<Contest>) -> Vec<Row> {
    let row = |contest: Contest| {
        let count = contest.contestants.len();
        let entry = |contestant: Contestant| {
            Some(Entry {
                provider: contestant.provider,
                figure: Figure::of(contestant.speeds)?,
            })
        };
        let entries: Vec<Entry> = contest.contestants.into_iter().filter_map(entry).collect();
        Row {
            algorithm: contest.algorithm,
            work: contest.work,
            bytes: contest.bytes,
            threads: contest.threads,
            complete: entries.len() == count,
            entries,
        }
    };
    let mut rows: Vec<Row> = contests.into_iter().map(row).collect();
    rows.sort_by_key(|row| (row.algorithm, row.work, row.bytes, row.threads));
    rows
}

impl Contest {
    /// Takes out who is far behind the fastest.
    fn drop_hopeless(&mut self) {
        let speed = |contestant: &Contestant| contestant.speeds.first().copied().unwrap_or(0.0);
        let best = self.contestants.iter().map(speed).fold(0.0, f64::max);
        for contestant in &mut self.contestants {
            contestant.out = speed(contestant) * HOPELESS < best;
            if contestant.out {
                contestant.operations.clear();
            }
        }
    }
}

impl Contestant {
    fn new(provider: &'static dyn Provider) -> Self {
        Self {
            provider,
            operations: Vec::new(),
            speeds: Vec::new(),
            out: false,
        }
    }

    /// One round: `slice` of time, and one operation at least.
    fn run(
        &mut self,
        algorithm: Algorithm,
        work: Work,
        bytes: usize,
        threads: usize,
        slice: Duration,
        elapsed: Clock<'_>,
    ) {
        if self.operations.is_empty() {
            let by = implementation(self.provider, algorithm);
            let operation = |_| operation(self.provider, by, algorithm, work, bytes);
            self.operations = (0..threads.max(1)).map(operation).collect();
            // The first of an operation touches its memory.
            self.operations.iter_mut().for_each(|operation| operation());
        }
        let batch = (BATCH_BYTES / bytes).max(1);
        let speed = match self.operations.as_mut_slice() {
            [alone] => alone_for(alone, batch, slice, elapsed),
            many => together_for(many, batch, slice, elapsed),
        };
        self.speeds.push(speed * work.amount(bytes));
    }
}

/// Operations a second of one thread.
fn alone_for(operation: &mut Operation, batch: usize, slice: Duration, elapsed: Clock<'_>) -> f64 {
    let start = elapsed();
    let mut count = 0;
    loop {
        (0..batch).for_each(|_| operation());
        count += batch;
        let passed = elapsed().saturating_sub(start);
        if passed >= slice {
            return count as f64 / passed.as_secs_f64();
        }
    }
}

/// Operations a second of several threads at once: the sum of their speeds while all were at work.
fn together_for(
    operations: &mut [Operation],
    batch: usize,
    slice: Duration,
    elapsed: Clock<'_>,
) -> f64 {
    let begin = Barrier::new(operations.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = operations
            .iter_mut()
            .map(|operation| {
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    alone_for(operation, batch, slice, elapsed)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a measured operation does not panic"))
            .sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::{Blake3, Implementation};
    use std::cell::{Cell, RefCell};
    use std::sync::atomic::{AtomicU64, Ordering};

    thread_local! {
        static NOW_NS: Cell<u64> = const { Cell::new(0) };
        static CALLS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    fn clock() -> Duration {
        Duration::from_nanos(NOW_NS.get())
    }

    /// Takes a time of its own for each hash, on a clock that only hashing moves; a machine that gets slower doubles it.
    struct Fake {
        name: &'static str,
        cost: Duration,
    }

    impl Provider for Fake {
        fn name(&self) -> &'static str {
            self.name
        }

        fn library(&self) -> String {
            self.name.to_owned()
        }

        fn implementation(&self, algorithm: Algorithm) -> Option<Implementation> {
            let fakes = [&QUICK, &SLOW, &HOPELESSLY_SLOW];
            let this = fakes.into_iter().find(|fake| fake.name == self.name)?;
            (algorithm == Algorithm::Blake3).then_some(Implementation::Blake3(this))
        }
    }

    impl Blake3 for Fake {
        fn hash(&self, _: &[u8]) -> [u8; 32] {
            unreachable!("only the keyed mode is measured")
        }

        fn derive_key(&self, _: &str, _: &[&[u8]]) -> [u8; 32] {
            unreachable!("only the keyed mode is measured")
        }

        fn keyed(&self, _: &[u8; 32], _: &[&[u8]], _: &mut [u8]) {
            CALLS.with_borrow_mut(|calls| calls.push(self.name));
            let slower = 1 + NOW_NS.get() / 50_000_000;
            NOW_NS.set(NOW_NS.get() + self.cost.as_nanos() as u64 * slower);
        }
    }

    static QUICK: Fake = Fake {
        name: "quick",
        cost: Duration::from_micros(100),
    };
    static SLOW: Fake = Fake {
        name: "slow",
        cost: Duration::from_micros(130),
    };
    static HOPELESSLY_SLOW: Fake = Fake {
        name: "hopeless",
        cost: Duration::from_micros(1000),
    };

    fn contest(fakes: &[&'static Fake]) -> Contest {
        Contest {
            algorithm: Algorithm::Blake3,
            work: Work::Hash,
            bytes: BATCH_BYTES,
            threads: 1,
            contestants: fakes.iter().map(|fake| Contestant::new(*fake)).collect(),
        }
    }

    fn measured(fakes: &[&'static Fake], effort: Effort, time: Duration) -> Row {
        let mut contests = vec![contest(fakes)];
        run(&mut contests, effort, time, &clock, &mut |_| ());
        rows(contests).remove(0)
    }

    #[test]
    fn the_quicker_wins_also_on_a_machine_that_gets_slower() {
        let row = measured(&[&SLOW, &QUICK], Effort::Thorough, Duration::from_secs(1));
        let found = row.fastest().unwrap();
        assert_eq!(row.entries[found.index].provider.name(), "quick");
        assert!(row.complete);
        let rounds = row.entries[0].figure.rounds();
        assert!(
            rounds.last().unwrap() > &(rounds[0] * 2.0),
            "the machine did get slower"
        );
    }

    #[test]
    fn rounds_take_turns() {
        let _ = measured(&[&QUICK, &SLOW], Effort::Thorough, Duration::from_secs(1));
        let mut turns = CALLS.with_borrow(Clone::clone);
        turns.dedup();
        // The last ones may find the time up.
        assert!(
            turns.len() > 2 * (Effort::Thorough.rounds() - 10),
            "{}",
            turns.len()
        );
        assert_eq!(turns[..4], ["quick", "slow", "quick", "slow"]);
    }

    #[test]
    fn in_haste_who_is_far_behind_is_asked_once() {
        let row = measured(
            &[&QUICK, &HOPELESSLY_SLOW],
            Effort::Haste,
            Duration::from_millis(50),
        );
        let rounds = |index: usize| row.entries[index].figure.rounds().len();
        assert_eq!((rounds(0), rounds(1)), (Effort::Haste.rounds() + 1, 1));
        assert!(row.complete);
    }

    #[test]
    fn nothing_begins_after_the_time_is_up_but_who_is_thorough_finishes_a_round() {
        let time = Duration::from_micros(1500);
        let fakes = [&QUICK, &HOPELESSLY_SLOW, &SLOW];
        let row = measured(&fakes, Effort::Haste, time);
        assert!(!row.complete);
        let mut names = row.entries.iter().map(|entry| entry.provider.name());
        assert!(!names.any(|name| name == "slow"));
        // The last one may still touch its memory and do one operation.
        assert!(clock() < time + 3 * HOPELESSLY_SLOW.cost, "{:?}", clock());
        let row = measured(&fakes, Effort::Thorough, time);
        assert!(row.complete);
        let rounds = |entry: &Entry| entry.figure.rounds().len();
        assert!(row.entries.iter().all(|entry| rounds(entry) == 1));
    }

    #[test]
    fn every_work_size_and_count_of_threads_has_a_row_with_every_provider() {
        let looks = AtomicU64::new(0);
        let clock = || Duration::from_micros(looks.fetch_add(1, Ordering::Relaxed));
        for algorithm in Algorithm::ALL {
            let mut contests = contests(&[*algorithm], &[4096, 65_536], &[1, 2]);
            let turns: usize = contests
                .iter()
                .map(|contest| contest.contestants.len())
                .sum();
            // A slice of three looks: the first of five rounds takes less than all the time.
            let time = Duration::from_micros((turns * (Effort::Haste.rounds() + 1) * 3) as u64);
            run(&mut contests, Effort::Haste, time, &clock, &mut |_| ());
            let rows = rows(contests);
            let ready = providers_of(*algorithm)
                .iter()
                .filter(|offer| offer.state == State::Ready)
                .count();
            for work in Work::of(*algorithm) {
                for bytes in work.sizes(&[4096, 65_536]) {
                    for threads in [1, 2].into_iter().filter(|count| work.runs_on(*count)) {
                        let row = rows.iter().find(|row| {
                            (row.work, row.bytes, row.threads) == (*work, bytes, threads)
                        });
                        let row = row.unwrap_or_else(|| panic!("{algorithm} {work:?} {bytes}"));
                        assert_eq!(row.entries.len(), ready, "{algorithm} {work:?}");
                    }
                }
            }
        }
    }
}

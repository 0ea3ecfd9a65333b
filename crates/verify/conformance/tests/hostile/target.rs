//! A decoder, in the form in which the fuzzer runs it.

/// Whether bytes are accepted.
type Decode = dyn Fn(&[u8]) -> bool;

/// A decoder, what it accepts, and what it promises.
pub(crate) struct Target {
    /// What it is called on the command line and in reports.
    pub(crate) name: &'static str,
    /// Bytes that it accepts.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// Decodes; gives whether it accepted. Panics where what it accepted is not in order.
    pub(crate) decode: Box<Decode>,
    /// Makes the unkeyed checksums of altered bytes right, so that more than the checksum is tried.
    pub(crate) repair: fn(&mut Vec<u8>),
    /// The most bytes it may hold at once for an input of a length.
    pub(crate) bound: fn(usize) -> usize,
    /// It meets one mutant where a cheap decoder meets so many.
    pub(crate) cost: u64,
}

impl Target {
    /// A cheap decoder that holds a few bytes for each of the input.
    pub(crate) fn new(
        name: &'static str,
        seeds: Vec<Vec<u8>>,
        decode: impl Fn(&[u8]) -> bool + 'static,
    ) -> Self {
        Self {
            name,
            seeds,
            decode: Box::new(decode),
            repair: |_| {},
            // A list that grows exists twice for a moment, and has room for as much again.
            bound: |len| 4 * len + 8192,
            cost: 1,
        }
    }

    pub(crate) fn repair(mut self, repair: fn(&mut Vec<u8>)) -> Self {
        self.repair = repair;
        self
    }

    pub(crate) fn bound(mut self, bound: fn(usize) -> usize) -> Self {
        self.bound = bound;
        self
    }

    pub(crate) fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }
}

//! Turns one seed into as many choices as a run needs, always the same ones for the same seed.
//!
//! Takes   a seed, and a name for each independent stream of choices
//! Gives   numbers that look random (SplitMix64)
//! Never   asks the system for randomness; its numbers are not secret and never used for keys
//! Spec    none: test only

/// A stream of choices.
#[derive(Clone, Debug)]
pub struct Choices {
    state: u64,
}

/// The finishing step of SplitMix64: every input bit moves about half of the output bits.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Choices {
    /// The stream of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            state: mix(seed ^ 0x9e37_79b9_7f4a_7c15),
        }
    }

    /// A stream of its own for the thing named by `parts`, whatever was drawn before: a page keeps its fate
    /// when an unrelated file draws once more.
    #[must_use]
    pub fn named(seed: u64, parts: &[u64]) -> Self {
        let mut state = mix(seed ^ 0x9e37_79b9_7f4a_7c15);
        for part in parts {
            state = mix(state ^ mix(*part).rotate_left(17));
        }
        Self { state }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.number() % bound }
    }

    /// An index into something of `len` items; 0 if it has none.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// True `parts` times out of `whole`.
    pub fn chance(&mut self, parts: u64, whole: u64) -> bool {
        self.below(whole) < parts
    }

    /// One of `items`, which must not be empty.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        assert!(!items.is_empty(), "a choice among nothing");
        &items[self.index(items.len())]
    }

    /// So many of `items`, in any order; all of them, in theirs, if there are no more.
    #[must_use]
    pub fn some_of<T>(&mut self, mut items: Vec<T>, count: usize) -> Vec<T> {
        if count < items.len() {
            for index in 0..count {
                let other = index + self.index(items.len() - index);
                items.swap(index, other);
            }
            items.truncate(count);
        }
        items
    }

    /// `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&self.number().to_le_bytes());
        }
        out.truncate(len);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_stream() {
        let (mut a, mut b, mut c) = (Choices::new(7), Choices::new(7), Choices::new(8));
        let (a, b, c): (Vec<_>, Vec<_>, Vec<_>) = (
            (0..64).map(|_| a.number()).collect(),
            (0..64).map(|_| b.number()).collect(),
            (0..64).map(|_| c.number()).collect(),
        );
        assert_eq!(a, b);
        assert_ne!(a, c);
    }

    #[test]
    fn a_named_stream_does_not_hang_on_what_was_drawn_before() {
        let first = Choices::named(1, &[2, 3]).number();
        Choices::named(1, &[9]).number();
        assert_eq!(Choices::named(1, &[2, 3]).number(), first);
        assert_ne!(Choices::named(1, &[3, 2]).number(), first);
    }

    #[test]
    fn every_value_below_a_small_bound_comes_up() {
        let mut choices = Choices::new(1);
        let mut seen = [0_u32; 5];
        for _ in 0..1000 {
            seen[choices.index(5)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }
}

//! Alters valid bytes as damage or an attacker would, to test decoders.
//!
//! Takes   seeds, which are bytes that a decoder accepts; and a number
//! Gives   mutants: execution `n` of a target gets the same bytes on every machine, whatever ran before
//! Never   decodes, measures or judges: the test does
//! Spec    none: test only

use std::collections::BTreeSet;

/// The longest mutant, in bytes.
pub const MUTANT_BYTES_MAX: usize = 256 * 1024;
/// How many alterations one mutant has at most.
const ALTERATIONS_MAX: u64 = 6;
/// One mutant in so many is not altered but made of chance alone.
const FROM_NOTHING_ONE_IN: u64 = 64;

/// Numbers at which lengths, counts and versions change their meaning.
const EDGES: [u64; 20] = [
    0,
    1,
    2,
    15,
    16,
    17,
    127,
    128,
    255,
    256,
    4095,
    4096,
    65_535,
    65_536,
    65_537,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// A stream of numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The stream of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of execution `number` of the target `name` in the run of `seed`.
    #[must_use]
    pub fn of(seed: u64, name: &str, number: u64) -> Self {
        let mut chance = Self(seed);
        for word in name.bytes().map(u64::from).chain([number]) {
            chance.0 ^= word;
            chance.0 = chance.next();
        }
        chance
    }

    /// The next number: SplitMix64.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 for the bound 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        let next = self.next();
        if bound == 0 { 0 } else { next % bound }
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a usize")
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    /// A stretch of `len` bytes: short ones are frequent, long ones happen.
    fn stretch(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.index(len + 1);
        let longest = match self.below(8) {
            0 => len - start,
            1..=3 => (len - start).min(64),
            _ => (len - start).min(8),
        };
        start..start + self.index(longest + 1)
    }
}

/// Makes the bytes of one execution from `seeds`.
///
/// # Panics
/// If there is no seed.
#[must_use]
pub fn mutant(seeds: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    assert!(!seeds.is_empty(), "a target has a seed");
    if chance.below(FROM_NOTHING_ONE_IN) == 0 {
        let len = chance.index(300);
        return (0..len).map(|_| chance.byte()).collect();
    }
    let mut bytes = seeds[chance.index(seeds.len())].clone();
    for _ in 0..=chance.below(ALTERATIONS_MAX) {
        alter(&mut bytes, seeds, chance);
    }
    bytes.truncate(MUTANT_BYTES_MAX);
    bytes
}

/// One alteration.
fn alter(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], chance: &mut Chance) {
    match chance.below(14) {
        0..=2 => with_byte(bytes, chance, |byte, chance| {
            *byte ^= 1 << chance.below(8);
        }),
        3 => with_byte(bytes, chance, |byte, chance| *byte = chance.byte()),
        4 | 5 => number(bytes, chance),
        6 => step(bytes, chance),
        7 => bytes.truncate(chance.index(bytes.len() + 1)),
        8 => {
            bytes.drain(chance.stretch(bytes.len()));
        }
        9 => {
            let copy = bytes[chance.stretch(bytes.len())].to_vec();
            insert(bytes, chance, &copy);
        }
        10 => {
            let filling = [0, 0xff, chance.byte()][chance.index(3)];
            let len = [1, 7, 64, 5000][chance.index(4)];
            insert(bytes, chance, &vec![filling; len]);
        }
        11 => {
            let other = &seeds[chance.index(seeds.len())];
            bytes.truncate(chance.index(bytes.len() + 1));
            bytes.extend_from_slice(&other[chance.index(other.len() + 1)..]);
        }
        12 => {
            let other = &seeds[chance.index(seeds.len())];
            let part = other[chance.stretch(other.len())].to_vec();
            overwrite(bytes, chance, &part);
        }
        _ => digit(bytes, chance),
    }
}

fn with_byte(bytes: &mut [u8], chance: &mut Chance, change: impl FnOnce(&mut u8, &mut Chance)) {
    if !bytes.is_empty() {
        let index = chance.index(bytes.len());
        change(&mut bytes[index], chance);
    }
}

fn insert(bytes: &mut Vec<u8>, chance: &mut Chance, part: &[u8]) {
    let at = chance.index(bytes.len() + 1);
    bytes.splice(at..at, part.iter().copied());
}

fn overwrite(bytes: &mut [u8], chance: &mut Chance, part: &[u8]) {
    let at = chance.index(bytes.len() + 1);
    let len = part.len().min(bytes.len() - at);
    bytes[at..at + len].copy_from_slice(&part[..len]);
}

/// Writes an edge, or something close to the length of all, as a number of 1 to 8 bytes.
fn number(bytes: &mut [u8], chance: &mut Chance) {
    let value = match chance.below(3) {
        0 => (bytes.len() as u64).wrapping_add(chance.below(9)) - 4.min(bytes.len() as u64),
        _ => EDGES[chance.index(EDGES.len())],
    };
    let width = [1, 2, 4, 8][chance.index(4)];
    if chance.below(2) == 0 {
        overwrite(bytes, chance, &value.to_le_bytes()[..width]);
    } else {
        overwrite(bytes, chance, &value.to_be_bytes()[8 - width..]);
    }
}

/// Adds a little to a number of 4 bytes, or takes a little away.
fn step(bytes: &mut [u8], chance: &mut Chance) {
    let at = chance.index(bytes.len() + 1);
    if let Some(field) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>) {
        let by = u32::try_from(chance.below(65)).expect("below 65");
        *field = u32::from_le_bytes(*field)
            .wrapping_add(by)
            .wrapping_sub(32)
            .to_le_bytes();
    }
}

/// Changes or lengthens a number that is written in digits, for JSON and for armoured keys.
fn digit(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let from = chance.index(bytes.len() + 1);
    let Some(at) = bytes[from..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let edge = EDGES[chance.index(EDGES.len())].to_string();
    let removed = usize::from(chance.below(2) == 0);
    bytes.splice(from + at..from + at + removed, edge.bytes());
}

/// The names in `wanted` that are in no list of `known`: a target that is asked for and does not exist.
#[must_use]
pub fn unknown<'a>(wanted: &'a [String], known: &[&str]) -> BTreeSet<&'a str> {
    wanted
        .iter()
        .map(String::as_str)
        .filter(|name| !known.contains(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_is_the_same_bytes_every_time_and_another_one_is_not() {
        let seeds = [b"{\"count\": 12, \"name\": \"x\"}".to_vec(), vec![7; 100]];
        let of = |seed, number| mutant(&seeds, &mut Chance::of(seed, "target", number));
        let run: Vec<_> = (0..500).map(|number| of(1, number)).collect();
        assert_eq!(
            run,
            (0..500).map(|number| of(1, number)).collect::<Vec<_>>()
        );
        assert_ne!(
            run,
            (0..500).map(|number| of(2, number)).collect::<Vec<_>>()
        );
        let different: BTreeSet<_> = run.iter().collect();
        assert!(
            different.len() > 400,
            "{} different mutants",
            different.len()
        );
    }

    #[test]
    fn mutants_are_shorter_longer_and_equally_long_and_never_beyond_the_bound() {
        let seeds = [vec![1; 100], vec![2; MUTANT_BYTES_MAX]];
        let lengths: Vec<_> = (0..2000)
            .map(|number| mutant(&seeds, &mut Chance::of(0, "", number)).len())
            .collect();
        assert!(lengths.iter().any(|len| *len < 100));
        assert!(lengths.contains(&100));
        assert!(lengths.iter().any(|len| (101..6000).contains(len)));
        assert_eq!(lengths.iter().max(), Some(&MUTANT_BYTES_MAX));
    }

    #[test]
    fn an_empty_seed_is_altered_too() {
        let grown = (0..100).any(|n| !mutant(&[Vec::new()], &mut Chance::new(n)).is_empty());
        assert!(grown);
    }

    #[test]
    fn a_target_that_does_not_exist_is_told() {
        let wanted = ["a".to_owned(), "b".to_owned()];
        assert_eq!(unknown(&wanted, &["b", "c"]), BTreeSet::from(["a"]));
    }
}

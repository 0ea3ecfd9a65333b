//! The notes of erased content in the tree of a vault, by which every device erases that content.
//!
//! Takes   the value of an attribute of the root directory, or those of both sides of a merge; a new erasure
//! Gives   the erasures in a value; a value for erasures; the value that joins both sides
//! Never   names a block: each device finds the blocks of the content in its own snapshots
//! Spec    spec/6-history.md, section 6.11
//!
//! Invariants
//!  (1) Equal sides give equal bytes, on every device.                                                        [11.6.2]
//!  (2) A value fits an attribute: the oldest erasures are dropped for newer ones.                             [6.11.10]

use std::collections::{BTreeMap, HashSet};

use strongroom_format::FormatError;
use strongroom_format::cbor::{Decoder, Encoder};

use crate::revision::Revision;

/// The attribute of the root directory. Only root sees it on a mount, and nothing copies it out.
pub const ERASURES: &[u8] = b"trusted.strongroom.erased";

/// What errors call it.
const WHAT: &str = "list of erasures";

/// The version inside it.
const FORMAT: u64 = 1;

/// Bytes of all erasures together, at most: an attribute has at most 65,536.
const BYTES_MAX: usize = 60_000;

/// The longest path of an erasure, in bytes; that of a vault is no longer.
const PATH_BYTES_MAX: usize = 32 * 1024;

/// Erasures in a value, at most: more do not fit.
const COUNT_MAX: usize = BYTES_MAX / 8;

/// Devices of which an erasure notes what was known, at most; snapshots of others count as unknown.
const DEVICES_MAX: usize = 256;

/// How many bytes of its id name a device here.
const DEVICE_BYTES: usize = 8;

/// That somebody erased what was at a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErasureNote {
    /// When, in seconds since 1970, by the clock of the device that erased; later than every erasure that it knew.
    pub time_s: u64,
    /// Drawn at random: two erasures of one path are two.
    pub id: u64,
    /// What was erased: the content of all files at and below it.
    pub path: Vec<u8>,
    /// Of each device, by the beginning of its id, the last snapshot that the erasing device had.
    known: BTreeMap<[u8; DEVICE_BYTES], u64>,
}

impl ErasureNote {
    /// An erasure on a device that had these snapshots.
    #[must_use]
    pub fn new<'a>(
        (id, time_s): (u64, u64),
        path: &[u8],
        had: impl Iterator<Item = &'a Revision>,
    ) -> Self {
        let mut known = BTreeMap::new();
        for revision in had {
            let device = device_of(revision);
            if known.len() < DEVICES_MAX || known.contains_key(&device) {
                let last: &mut u64 = known.entry(device).or_default();
                *last = revision.body.sequence.max(*last);
            }
        }
        Self {
            time_s,
            id,
            path: path.to_vec(),
            known,
        }
    }

    /// Whether the erasing device knew that snapshot, or a later one of the same device.
    #[must_use]
    pub fn knew(&self, revision: &Revision) -> bool {
        let last = self.known.get(&device_of(revision));
        last.is_some_and(|last| revision.body.sequence <= *last)
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder
            .array(4)
            .unsigned(self.time_s)
            .unsigned(self.id)
            .bytes(&self.path)
            .array(self.known.len());
        for (device, sequence) in &self.known {
            encoder.array(2).bytes(device).unsigned(*sequence);
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, FormatError> {
        decoder.array_exact(4)?;
        let (time_s, id) = (decoder.unsigned()?, decoder.unsigned()?);
        let path = decoder.bytes(PATH_BYTES_MAX)?.to_vec();
        let mut known = BTreeMap::new();
        for _ in 0..decoder.array(DEVICES_MAX)? {
            decoder.array_exact(2)?;
            let device = *decoder.bytes_exact::<DEVICE_BYTES>()?;
            if known
                .last_key_value()
                .is_some_and(|(last, _)| *last >= device)
            {
                return Err(decoder.invalid("has devices that are not sorted"));
            }
            known.insert(device, decoder.unsigned()?);
        }
        Ok(Self {
            time_s,
            id,
            path,
            known,
        })
    }

    /// How many bytes it takes in a value.
    fn len(&self) -> usize {
        let mut encoder = Encoder::new();
        self.encode(&mut encoder);
        encoder.finish().len()
    }
}

fn device_of(revision: &Revision) -> [u8; DEVICE_BYTES] {
    let mut front = [0; DEVICE_BYTES];
    front.copy_from_slice(&revision.body.device.0[..DEVICE_BYTES]);
    front
}

/// The erasures that a vault notes, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erasures(Vec<ErasureNote>);

impl Erasures {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[ErasureNote] {
        &self.0
    }

    /// With one more, as the newest; the oldest go if it does not fit. (2)
    #[must_use]
    pub fn with(mut self, mut note: ErasureNote) -> Self {
        // By a clock that is behind it would be the oldest, and might go at once.
        if let Some(newest) = self.0.last() {
            note.time_s = note.time_s.max(newest.time_s.saturating_add(1));
        }
        self.0.push(note);
        Self::of(self.0)
    }

    /// Sorted, and no more than fit. (1) (2)
    fn of(mut notes: Vec<ErasureNote>) -> Self {
        notes.sort_unstable();
        notes.dedup();
        let mut bytes = 0;
        let fitting = notes.iter().rev().take_while(|note| {
            bytes += note.len();
            bytes <= BYTES_MAX
        });
        let surplus = notes.len() - fitting.count();
        notes.drain(..surplus);
        Self(notes)
    }

    /// The one encoding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.array(2).unsigned(FORMAT).array(self.0.len());
        for note in &self.0 {
            note.encode(&mut encoder);
        }
        encoder.finish()
    }

    /// What `bytes` say.
    ///
    /// # Errors
    /// Any `FormatError` about it.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut decoder = Decoder::new(WHAT, bytes);
        decoder.array_exact(2)?;
        match decoder.unsigned()? {
            FORMAT => {}
            found => {
                return Err(FormatError::UnknownFormat {
                    what: WHAT,
                    found,
                    known: FORMAT,
                });
            }
        }
        let mut notes: Vec<ErasureNote> = Vec::new();
        let mut ids = HashSet::new();
        for _ in 0..decoder.array(COUNT_MAX)? {
            let note = ErasureNote::decode(&mut decoder)?;
            if notes.last().is_some_and(|last| *last >= note) {
                return Err(decoder.invalid("has erasures that are not sorted"));
            }
            if !ids.insert(note.id) {
                return Err(decoder.invalid("has an erasure twice"));
            }
            notes.push(note);
        }
        decoder.finish()?;
        Ok(Self(notes))
    }

    /// The value that joins what both sides of a merge have. Where one cannot be read, that of theirs counts. (1)
    #[must_use]
    pub fn joined(mine: Option<&[u8]>, theirs: Option<&[u8]>) -> Option<Vec<u8>> {
        let read = |value: Option<&[u8]>| match value {
            None => Some(Self::default()),
            Some(bytes) => Self::decode(bytes).ok(),
        };
        let (Some(own), Some(mut other)) = (read(mine), read(theirs)) else {
            return theirs.map(<[u8]>::to_vec);
        };
        let known: HashSet<u64> = other.0.iter().map(|note| note.id).collect();
        let new = own.0.into_iter().filter(|note| !known.contains(&note.id));
        other.0.extend(new);
        Some(Self::of(other.0).encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(time_s: u64, id: u64, path: &[u8]) -> ErasureNote {
        ErasureNote {
            time_s,
            id,
            path: path.to_vec(),
            known: BTreeMap::from([([1; 8], 7), ([2; 8], u64::MAX)]),
        }
    }

    fn value(notes: &[ErasureNote]) -> Vec<u8> {
        Erasures::of(notes.to_vec()).encode()
    }

    #[test]
    fn erasures_come_back_and_what_is_none_is_refused() {
        let all = Erasures::of(vec![note(2, 1, b"/b"), note(1, 2, b"/a")]);
        assert_eq!(all.all()[0].path, b"/a");
        let bytes = all.encode();
        assert_eq!(Erasures::decode(&bytes), Ok(all));
        for len in 0..bytes.len() {
            assert!(Erasures::decode(&bytes[..len]).is_err(), "{len}");
        }
        // Not sorted; and one id twice.
        for notes in [
            vec![note(2, 1, b"/b"), note(1, 2, b"/a")],
            vec![note(1, 1, b"/a"), note(2, 1, b"/a")],
        ] {
            assert!(Erasures::decode(&Erasures(notes).encode()).is_err());
        }
        let newer = [0x82, 0x02, 0x80];
        assert!(matches!(
            Erasures::decode(&newer),
            Err(FormatError::UnknownFormat { found: 2, .. })
        ));
    }

    #[test]
    fn both_sides_are_joined_to_the_same_bytes() {
        let (a, b, c) = (note(1, 1, b"/a"), note(2, 2, b"/b"), note(2, 3, b"/c"));
        let mine = value(&[a.clone(), b.clone()]);
        let theirs = value(&[a.clone(), c.clone()]);
        let both = Some(value(&[a, b, c]));
        assert_eq!(Erasures::joined(Some(&mine), Some(&theirs)), both);
        assert_eq!(Erasures::joined(Some(&theirs), Some(&mine)), both);
        assert_eq!(Erasures::joined(Some(&mine), None), Some(mine.clone()));
        assert_eq!(Erasures::joined(None, Some(&mine)), Some(mine.clone()));
        let unreadable = Some(&b"x"[..]);
        assert_eq!(
            Erasures::joined(Some(&mine), unreadable),
            Some(b"x".to_vec())
        );
        assert_eq!(Erasures::joined(unreadable, Some(&mine)), Some(mine));
    }

    #[test]
    fn the_oldest_go_for_newer_ones_and_a_value_fits_an_attribute() {
        let path = vec![b'p'; 1_000];
        let mut all = Erasures::default();
        for number in 0..100 {
            all = all.with(note(number, number, &path));
            assert!(all.encode().len() < 65_536);
        }
        let kept = all.all().len();
        assert!((50..60).contains(&kept), "{kept}");
        assert_eq!(all.all().last().map(|note| note.id), Some(99));
        assert_eq!(Erasures::decode(&all.encode()), Ok(all));
    }

    /// Failed before a device whose clock was behind dropped its own erasure from a full value: no other device heard of it.
    #[test]
    fn a_new_erasure_stays_whatever_the_clock_shows() {
        let path = vec![b'p'; 1_000];
        let mut all = Erasures::default();
        for number in 0..100 {
            all = all.with(note(1_000 + number, number, &path));
        }
        all = all.with(note(7, 100, &path));
        assert_eq!(all.all().last().map(|note| note.id), Some(100));
        assert_eq!(Erasures::decode(&all.encode()), Ok(all));
    }
}

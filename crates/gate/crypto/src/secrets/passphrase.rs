//! Turns a typed passphrase into the key of a slot, at a cost that makes guessing slow.
//!
//! Takes   bytes that should be a passphrase; the cost and salt of a slot
//! Gives   a normalized `Passphrase`, and the 32 bytes that Argon2id computes from it; both are wiped when dropped
//! Never   accepts a cost below the minimum or above the maximum, or allocates more memory than the cost states
//! Spec    spec/1-keys.md, section 1.6
//!
//! Invariants
//!  (1) One passphrase has one encoding: Unicode NFC, so that two keyboards agree.      [1.6.4]
//!  (2) A cost is checked against minimum and maximum before any memory is allocated.   [1.6.6]

use crate::limits::{
    ARGON2_CALIBRATED_MEMORY_KIB_MAX, ARGON2_TARGET, ARGON2_UNASKED_MEMORY_KIB_MAX,
    ARGON2_UNASKED_WORK_KIB_MAX, PASSPHRASE_BYTES_MAX,
};
use crate::providers::{Argon2idCost, NoMemory, registry};
use std::time::Duration;
use strongroom_format::limits::{
    ARGON2_MEMORY_KIB_MAX, ARGON2_MEMORY_KIB_MIN, ARGON2_PASSES_MAX, ARGON2_PASSES_MIN,
};
use strongroom_format::{Argon2Parameters, FormatError};
use unicode_normalization::UnicodeNormalization as _;
use zeroize::Zeroizing;

/// A passphrase, normalised. Wiped when dropped, never shown.
#[derive(Clone)]
pub struct Passphrase {
    text: Zeroizing<String>,
    /// `None` if nothing was said.
    memory_kib_allowed: Option<u32>,
}

/// Caller: these bytes cannot be a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassphraseError {
    /// No character.
    #[error("the passphrase is empty; choose several words")]
    Empty,
    /// Not text.
    #[error(
        "the passphrase is not UTF-8; check the encoding of the terminal or file it comes from"
    )]
    NotUtf8,
    /// More than `PASSPHRASE_BYTES_MAX`.
    #[error(
        "the passphrase is longer than {PASSPHRASE_BYTES_MAX} bytes; for longer secrets use a key file"
    )]
    TooLong,
}

/// What one try at a passphrase costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// Environment: the memory that a passphrase slot needs is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the passphrase slot needs {memory_kib} KiB of memory, more than is free; close programs or use another slot"
)]
pub struct OutOfMemory {
    /// What the slot asks for.
    pub memory_kib: u32,
}

impl std::fmt::Debug for Passphrase {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Passphrase(..)")
    }
}

impl Passphrase {
    /// The passphrase that `bytes` spell, every byte of it: a line end is the caller's to remove.
    ///
    /// # Errors
    /// `PassphraseError` if it is empty, not UTF-8 or too long.
    pub fn new(bytes: &[u8]) -> Result<Self, PassphraseError> {
        let text = std::str::from_utf8(bytes).map_err(|_| PassphraseError::NotUtf8)?;
        if text.is_empty() {
            return Err(PassphraseError::Empty);
        }
        if text.len() > PASSPHRASE_BYTES_MAX {
            return Err(PassphraseError::TooLong);
        }
        // NFC makes UTF-8 at most three times as long; with the room there, no half of a secret is left in a freed buffer.
        let mut normal = Zeroizing::new(String::with_capacity(3 * text.len()));
        normal.extend(text.nfc());
        if normal.len() > PASSPHRASE_BYTES_MAX {
            return Err(PassphraseError::TooLong);
        }
        Ok(Self {
            text: normal,
            memory_kib_allowed: None,
        })
    }

    /// The same, tried also at slots that want up to `memory_kib` of memory, and as much work as a header may ask for.
    ///
    /// Without this a slot above `ARGON2_UNASKED_MEMORY_KIB_MAX`, or beyond `ARGON2_UNASKED_WORK_KIB_MAX` with those
    /// before it, is not tried. It changes nothing of slots that are made with this passphrase.
    #[must_use]
    pub fn allow_memory(mut self, memory_kib: u32) -> Self {
        self.memory_kib_allowed = Some(memory_kib);
        self
    }

    /// Whether a slot of that cost may be tried, behind others that were `work_kib` of work together.
    pub(crate) fn allows(&self, parameters: &Argon2Parameters, work_kib: u64) -> bool {
        match self.memory_kib_allowed {
            Some(allowed) => parameters.memory_kib <= allowed.max(ARGON2_UNASKED_MEMORY_KIB_MAX),
            None => {
                parameters.memory_kib <= ARGON2_UNASKED_MEMORY_KIB_MAX
                    && work_kib.saturating_add(parameters.work_kib()) <= ARGON2_UNASKED_WORK_KIB_MAX
            }
        }
    }

    /// The 32 bytes that Argon2id makes of this passphrase. Takes as long and as much memory as `parameters` say; the
    /// memory is given back before the return, so that slots tried one after the other take no more than the largest.
    pub(crate) fn stretch(
        &self,
        parameters: &Argon2Parameters,
    ) -> Result<Zeroizing<[u8; 32]>, OutOfMemory> {
        let cost =
            Argon2Cost::of(parameters).expect("(2) holds: the caller checked the cost of the slot");
        argon2id(self.text.as_bytes(), &parameters.salt, cost)
    }
}

impl Argon2Cost {
    /// The least that is accepted: 64 MiB, 3 passes, 1 lane.
    pub const FLOOR: Self = Self {
        memory_kib: ARGON2_MEMORY_KIB_MIN,
        passes: ARGON2_PASSES_MIN,
        lanes: 1,
    };

    /// Far below the floor, so that tests of other things are quick. Builds without `cheap-argon2` refuse it.
    #[cfg(any(test, feature = "cheap-argon2"))]
    pub const CHEAP: Self = Self {
        memory_kib: 64,
        passes: 1,
        lanes: 1,
    };

    /// A cost within floor and ceiling.
    ///
    /// # Errors
    /// `FormatError::Argon2OutOfRange` naming the parameter and what is allowed.
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<Self, FormatError> {
        Self::of(&Argon2Parameters {
            memory_kib,
            passes,
            lanes,
            salt: [0; 16],
        })
    }

    /// The cost of a slot in a header, if it is within floor and ceiling.
    pub(crate) fn of(parameters: &Argon2Parameters) -> Result<Self, FormatError> {
        parameters.check_ceiling()?;
        let at_least = |parameter, found: u32, min: u32, max: u32| {
            let (found, min, max) = (found.into(), min.into(), max.into());
            if found < min {
                Err(FormatError::Argon2OutOfRange {
                    parameter,
                    found,
                    min,
                    max,
                })
            } else {
                Ok(())
            }
        };
        let Argon2Parameters {
            memory_kib,
            passes,
            lanes,
            ..
        } = *parameters;
        let (memory_kib_min, passes_min) = floor();
        at_least(
            "memory_kib",
            memory_kib,
            memory_kib_min,
            ARGON2_MEMORY_KIB_MAX,
        )?;
        at_least("passes", passes, passes_min, ARGON2_PASSES_MAX)?;
        Ok(Self {
            memory_kib,
            passes,
            lanes,
        })
    }

    /// A cost of about one second on this machine: more memory first, up to 1 GiB, then more passes; never below the floor.
    ///
    /// `elapsed` gives the time since some fixed moment, from a clock that never goes back. Takes as long as one try at
    /// the floor.
    ///
    /// # Errors
    /// `OutOfMemory` if not even the floor's memory is free.
    pub fn calibrate(elapsed: &mut dyn FnMut() -> Duration) -> Result<Self, OutOfMemory> {
        let start = elapsed();
        argon2id(b"calibration", &[0; 16], Self::FLOOR)?;
        Ok(Self::scaled(elapsed().saturating_sub(start)))
    }

    /// The cost of about `ARGON2_TARGET` on a machine where the floor took `floor`.
    fn scaled(floor: Duration) -> Self {
        let floor_us = floor.as_micros().max(1);
        let times = |target: Duration| {
            u32::try_from(target.as_micros() / floor_us)
                .unwrap_or(u32::MAX)
                .max(1)
        };
        let memory_kib = ARGON2_MEMORY_KIB_MIN
            .saturating_mul(times(ARGON2_TARGET))
            .min(ARGON2_CALIBRATED_MEMORY_KIB_MAX);
        // What the memory bound leaves of the second goes into passes.
        let one = floor * (memory_kib / ARGON2_MEMORY_KIB_MIN) / ARGON2_PASSES_MIN;
        let passes = ARGON2_TARGET.as_micros() / one.as_micros().max(1);
        let passes = u32::try_from(passes)
            .unwrap_or(u32::MAX)
            .clamp(ARGON2_PASSES_MIN, ARGON2_PASSES_MAX / 4);
        Self {
            memory_kib,
            passes,
            lanes: 1,
        }
    }

    /// These costs as the parameters of a slot with that salt.
    pub(crate) const fn with_salt(self, salt: [u8; 16]) -> Argon2Parameters {
        Argon2Parameters {
            memory_kib: self.memory_kib,
            passes: self.passes,
            lanes: self.lanes,
            salt,
        }
    }
}

/// The least memory and passes that this build accepts.
const fn floor() -> (u32, u32) {
    #[cfg(any(test, feature = "cheap-argon2"))]
    return (Argon2Cost::CHEAP.memory_kib, Argon2Cost::CHEAP.passes);
    #[cfg(not(any(test, feature = "cheap-argon2")))]
    return (ARGON2_MEMORY_KIB_MIN, ARGON2_PASSES_MIN);
}

fn argon2id(
    secret: &[u8],
    salt: &[u8],
    cost: Argon2Cost,
) -> Result<Zeroizing<[u8; 32]>, OutOfMemory> {
    let mut out = Zeroizing::new([0; 32]);
    let work = Argon2idCost {
        memory_kib: cost.memory_kib,
        passes: cost.passes,
        lanes: cost.lanes,
    };
    registry::argon2id()
        .stretch(secret, salt, work, &mut out)
        .map_err(|NoMemory| OutOfMemory {
            memory_kib: cost.memory_kib,
        })?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretched(passphrase: &str) -> [u8; 32] {
        *Passphrase::new(passphrase.as_bytes())
            .unwrap()
            .stretch(&Argon2Cost::CHEAP.with_salt([9; 16]))
            .unwrap()
    }

    #[test]
    fn empty_binary_and_endless_passphrases_are_refused() {
        assert_eq!(Passphrase::new(b"").unwrap_err(), PassphraseError::Empty);
        assert_eq!(
            Passphrase::new(b"caf\xe9").unwrap_err(),
            PassphraseError::NotUtf8
        );
        assert_eq!(
            Passphrase::new(&[b'x'; PASSPHRASE_BYTES_MAX + 1]).unwrap_err(),
            PassphraseError::TooLong
        );
        assert!(Passphrase::new(&[b'x'; PASSPHRASE_BYTES_MAX]).is_ok());
        // One character of three bytes that normalises to nine.
        let longer = "\u{fb2c}".repeat(PASSPHRASE_BYTES_MAX / 3);
        assert_eq!(
            Passphrase::new(longer.as_bytes()).unwrap_err(),
            PassphraseError::TooLong
        );
    }

    #[test]
    fn one_passphrase_typed_on_two_keyboards_is_one() {
        assert_eq!(stretched("caf\u{e9}"), stretched("cafe\u{301}"));
        assert_ne!(stretched("caf\u{e9}"), stretched("cafe"));
        // NFC, not NFKC: a ligature is not its letters.
        assert_ne!(stretched("\u{fb01}"), stretched("fi"));
    }

    #[test]
    fn salt_and_every_cost_change_the_key() {
        let passphrase = Passphrase::new(b"correct horse").unwrap();
        let base = Argon2Cost::CHEAP.with_salt([1; 16]);
        let mut keys = vec![*passphrase.stretch(&base).unwrap()];
        for changed in [
            Argon2Parameters {
                salt: [2; 16],
                ..base.clone()
            },
            Argon2Parameters {
                memory_kib: 128,
                ..base.clone()
            },
            Argon2Parameters {
                passes: 2,
                ..base.clone()
            },
            Argon2Parameters { lanes: 2, ..base },
        ] {
            keys.push(*passphrase.stretch(&changed).unwrap());
        }
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn costs_beyond_the_ceiling_are_refused() {
        for (memory_kib, passes, lanes) in [
            (ARGON2_MEMORY_KIB_MAX + 1, 3, 1),
            (65_536, ARGON2_PASSES_MAX + 1, 1),
            (65_536, 3, 17),
            (65_536, 3, 0),
            (63, 1, 1),
            (64, 0, 1),
        ] {
            assert!(matches!(
                Argon2Cost::new(memory_kib, passes, lanes),
                Err(FormatError::Argon2OutOfRange { .. })
            ));
        }
        assert_eq!(Argon2Cost::new(65_536, 3, 1), Ok(Argon2Cost::FLOOR));
    }

    #[test]
    fn calibration_stays_between_the_floor_and_the_ceiling_and_near_the_target() {
        for floor_ms in [0, 1, 10, 50, 100, 300, 900, 1500, 100_000] {
            let floor = Duration::from_millis(floor_ms);
            let cost = Argon2Cost::scaled(floor);
            assert_eq!(
                Argon2Cost::new(cost.memory_kib, cost.passes, cost.lanes),
                Ok(cost)
            );
            assert!(cost.memory_kib >= ARGON2_MEMORY_KIB_MIN && cost.passes >= ARGON2_PASSES_MIN);
            if (50..=900).contains(&floor_ms) {
                let factor = cost.memory_kib / ARGON2_MEMORY_KIB_MIN * cost.passes;
                let expected = floor * factor / ARGON2_PASSES_MIN;
                assert!(
                    expected > ARGON2_TARGET / 2 && expected <= ARGON2_TARGET,
                    "{floor_ms} {expected:?}"
                );
            }
        }
    }

    #[test]
    fn calibration_measures_the_floor_with_the_clock_it_is_given() {
        let mut times = [Duration::from_secs(5), Duration::from_millis(5250)].into_iter();
        let cost = Argon2Cost::calibrate(&mut || times.next().unwrap()).unwrap();
        assert_eq!(
            cost,
            Argon2Cost {
                memory_kib: 4 * 65_536,
                passes: 3,
                lanes: 1
            }
        );
        assert_eq!(times.next(), None);
    }

    #[test]
    fn debug_shows_no_character() {
        assert_eq!(
            format!("{:?}", Passphrase::new(b"secret").unwrap()),
            "Passphrase(..)"
        );
    }
}

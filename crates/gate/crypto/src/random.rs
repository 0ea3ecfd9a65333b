//! Randomness as a value, so that a test or the simulator can replace it.
//!
//! Takes   a buffer
//! Gives   the buffer filled with bytes that nobody can guess
//! Never   keeps state in the process: a fork or a cloned machine would repeat it
//! Spec    spec/1-keys.md

use crate::limits::KEY_BYTES;
use crate::providers::registry::blake3;
use zeroize::Zeroizing;

/// Environment: the system gave no randomness. Nothing was made; trying again later is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system's random generator failed; try again")]
pub struct RandomError;

/// A source of bytes that nobody can guess.
pub trait Random: Send + Sync {
    /// Fills `bytes`.
    ///
    /// # Errors
    /// `RandomError` if the source fails; what `bytes` holds then must not be used.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomError>;
}

/// The generator of the operating system, asked at each call.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomError> {
        getrandom::fill(bytes).map_err(|_| RandomError)
    }
}

/// Fills `bytes` with noise that nobody can tell from ciphertext: 32 bytes of `random`, stretched and forgotten.
///
/// O(n); one draw, however long `bytes` is.
///
/// # Errors
/// `RandomError` if `random` fails; what `bytes` holds then must not be used.
pub fn noise(random: &dyn Random, bytes: &mut [u8]) -> Result<(), RandomError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut seed = Zeroizing::new([0; KEY_BYTES]);
    random.fill(seed.as_mut_slice())?;
    blake3().keyed(&seed, &[], bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_of_the_system_generator_differ() {
        let (mut first, mut second) = ([0; 32], [0; 32]);
        SystemRandom.fill(&mut first).unwrap();
        SystemRandom.fill(&mut second).unwrap();
        assert_ne!(first, second);
    }
    #[test]
    fn noise_fills_every_sector_and_never_repeats() {
        let (mut first, mut second) = (vec![0; 10_000], vec![0; 10_000]);
        noise(&SystemRandom, &mut first).unwrap();
        noise(&SystemRandom, &mut second).unwrap();
        assert_ne!(first, second);
        assert!(
            first
                .chunks(64)
                .all(|part| part.iter().any(|byte| *byte != 0))
        );
        noise(&SystemRandom, &mut []).unwrap();
    }
}

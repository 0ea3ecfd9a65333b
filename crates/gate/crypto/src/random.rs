//! Randomness as a value, so that a test or the simulator can replace it.
//!
//! Takes   a buffer
//! Gives   the buffer filled with bytes nobody can guess
//! Never   keeps state in the process: a fork or a cloned machine would repeat it
//! Spec    spec/1-keys.md

/// Environment: the system gave no randomness. Nothing was made; trying again later is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system's random generator gave nothing; try again")]
pub struct RandomError;

/// A source of bytes that nobody can guess.
pub trait Random: Send + Sync {
    /// Fills `bytes`.
    ///
    /// # Errors
    /// `RandomError` if the source fails; what `bytes` holds then must not be used.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomError>;
}

/// The generator of the operating system, asked anew at each call.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomError> {
        getrandom::fill(bytes).map_err(|_| RandomError)
    }
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
}

//! The errors of preferences for providers, and of the providers themselves.

use super::Algorithm;

/// The environment variable that forces providers, for one run.
pub const ENVIRONMENT: &str = "STRONGROOM_PROVIDERS";

/// Caller: a wish for a provider that cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreferenceError {
    /// A part that is not `ALGORITHM=PROVIDER`.
    #[error("`{part}` is not of the form ALGORITHM=PROVIDER, as in AES-256-GCM=ring,BLAKE3=simd")]
    Form {
        /// The part.
        part: String,
    },
    /// No such algorithm.
    #[error("there is no algorithm `{name}`; there are: {}", names())]
    UnknownAlgorithm {
        /// What was written.
        name: String,
    },
    /// This build has no such provider of the algorithm.
    #[error("this build has no provider `{name}` of {algorithm}; it has: {}", known.join(", "))]
    UnknownProvider {
        /// Of what.
        algorithm: Algorithm,
        /// What was written.
        name: String,
        /// Those there are.
        known: Vec<&'static str>,
    },
    /// One algorithm stands there twice.
    #[error("{algorithm} is named twice; name one provider for it")]
    Twice {
        /// Which.
        algorithm: Algorithm,
    },
    /// The provider is known, and cannot compute here.
    #[error(
        "{provider} cannot compute {algorithm} here: {why}; `strongroom tune` shows those that can"
    )]
    Unusable {
        /// Of what.
        algorithm: Algorithm,
        /// Which.
        provider: &'static str,
        /// Why.
        why: String,
    },
}

/// Environment: why this process cannot seal or open anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// What the environment asks for cannot be met.
    #[error("{ENVIRONMENT}: {0}; correct or unset it")]
    Environment(PreferenceError),
    /// An algorithm that the vault needs has no provider that computes it rightly here.
    #[error(
        "this vault needs {algorithm}, and nothing here can compute it ({why}); open it with another build or on another machine"
    )]
    NoProvider {
        /// What is needed.
        algorithm: Algorithm,
        /// Each provider with what is wrong with it.
        why: String,
    },
}

fn names() -> String {
    let names: Vec<_> = Algorithm::ALL
        .iter()
        .map(|algorithm| algorithm.name())
        .collect();
    names.join(", ")
}

//! Which provider computes each algorithm of a vault, as `strongroom info` shows it.
//!
//! Takes   a suite, and what this process prefers now
//! Gives   the name of a provider for each algorithm that a vault of the suite uses
//! Never   chooses a provider: the gate (`crates/gate`) does

use serde::{Deserialize, Serialize};
use strongroom_crypto::ProviderError;
use strongroom_crypto::providers::{Algorithm, SizeClass, Work, preferred};
use strongroom_format::SuiteId;

/// Who computes an algorithm, from a size on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderInUse {
    /// The algorithm, by its standard name.
    pub algorithm: String,
    /// As in "encrypt", where what is done with the algorithm has more than one provider.
    pub work: Option<String>,
    /// The provider, as `STRONGROOM_PROVIDERS` names it; `none` if nothing here computes the algorithm.
    pub provider: String,
    /// For content of this length and more, up to the next entry of the same algorithm and work.
    pub from_bytes: u64,
}

/// Who computes the algorithms of a vault of `suite` in this process, by algorithm, work and then by size.
///
/// # Errors
/// `ProviderError::Environment` if the environment asks for what is not there.
pub(crate) fn in_use(suite: SuiteId) -> Result<Vec<ProviderInUse>, ProviderError> {
    let mut all = Vec::new();
    for algorithm in [
        Algorithm::aead_of(suite),
        Algorithm::Blake3,
        Algorithm::Argon2id,
        Algorithm::Ed25519,
    ] {
        let mut works = Vec::new();
        for work in Work::of(algorithm).iter().filter(|work| work.decides()) {
            works.push((*work, names(algorithm, *work)?));
        }
        all.extend(entries(algorithm, &works));
    }
    Ok(all)
}

/// What is to be said of `algorithm`: for each work the names for each size class.
fn entries(algorithm: Algorithm, works: &[(Work, Vec<&str>)]) -> Vec<ProviderInUse> {
    let is_one = works.windows(2).all(|pair| pair[0].1 == pair[1].1);
    let mut entries = Vec::new();
    for (work, names) in works.iter().take(if is_one { 1 } else { works.len() }) {
        let mut last = None;
        for (class, name) in SizeClass::ALL.into_iter().zip(names) {
            if last.replace(name) != Some(name) {
                entries.push(ProviderInUse {
                    algorithm: algorithm.name().to_owned(),
                    work: (!is_one).then(|| work.name().to_owned()),
                    provider: (*name).to_owned(),
                    from_bytes: class.from_bytes() as u64,
                });
            }
        }
    }
    entries
}

/// Who does `work` of `algorithm`, for each size class.
fn names(algorithm: Algorithm, work: Work) -> Result<Vec<&'static str>, ProviderError> {
    let name = |class| match preferred(algorithm, work, class) {
        Ok(provider) => Ok(provider.name()),
        Err(ProviderError::NoProvider { .. }) => Ok("none"),
        Err(error) => Err(error),
    };
    SizeClass::ALL.into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(works: &[(Work, [&str; 3])]) -> Vec<(Option<String>, String, u64)> {
        let works: Vec<_> = works
            .iter()
            .map(|(work, names)| (*work, names.to_vec()))
            .collect();
        let entries = entries(Algorithm::Aes256Gcm, &works).into_iter();
        entries
            .map(|entry| (entry.work, entry.provider, entry.from_bytes))
            .collect()
    }

    #[test]
    fn what_is_the_same_for_all_works_and_sizes_is_said_once() {
        let same = [(Work::Encrypt, ["ring"; 3]), (Work::Decrypt, ["ring"; 3])];
        assert_eq!(shown(&same), [(None, "ring".to_owned(), 0)]);
        let apart = [
            (Work::Encrypt, ["ring", "aws-lc", "aws-lc"]),
            (Work::Decrypt, ["ring"; 3]),
        ];
        let (encrypt, decrypt) = (Some("encrypt".to_owned()), Some("decrypt".to_owned()));
        let middle = SizeClass::Kib64.from_bytes() as u64;
        let expected = [
            (encrypt.clone(), "ring".to_owned(), 0),
            (encrypt, "aws-lc".to_owned(), middle),
            (decrypt, "ring".to_owned(), 0),
        ];
        assert_eq!(shown(&apart), expected);
    }

    #[test]
    fn each_algorithm_of_a_suite_has_a_provider() {
        for (suite, aead) in [
            (SuiteId::Aes256GcmBlake3, "AES-256-GCM"),
            (SuiteId::ChaCha20Poly1305Blake3, "ChaCha20-Poly1305"),
            (SuiteId::Aegis256Blake3, "AEGIS-256"),
        ] {
            let mut names: Vec<_> = in_use(suite).unwrap();
            names.dedup_by(|left, right| left.algorithm == right.algorithm);
            let names: Vec<_> = names.iter().map(|entry| entry.algorithm.as_str()).collect();
            assert_eq!(names, [aead, "BLAKE3", "Argon2id", "Ed25519"]);
        }
    }
}

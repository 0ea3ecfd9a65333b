//! Knows which providers are trusted here, and which one is currently preferred.
//!
//! Takes   preferences of the environment, of the program and of a measurement, in this order of priority
//! Gives   the provider of an algorithm for a size
//! Never   gives a provider that failed its self-test, or that this processor cannot run
//!
//! No function here is called per block: a `Chosen` holds the answers for the whole life of a sealer.
//!
//! Invariants
//!  (1) A provider is tested at most once per algorithm in a process, and the result never changes.
//!  (2) A provider's implementation of an algorithm has that algorithm's kind; the self-test refuses any other.

pub use super::catalog::{all, libraries};
pub use super::error::ENVIRONMENT;

use super::catalog::{implementation, of, provider_named};
use super::self_test;
use super::{
    Algorithm, Argon2id, Blake3, Choice, Ed25519, Implementation, PreferenceError, Preferences,
    Provider, ProviderError, SizeClass, Work,
};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use strongroom_format::SuiteId;

/// What may be expected of a provider for one algorithm, in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It gave the known answers.
    Ready,
    /// The processor or the build lacks this.
    Missing(&'static str),
    /// It gave a wrong answer and is used for nothing.
    Failed,
}

/// A provider of an algorithm.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Which.
    pub provider: &'static dyn Provider,
    /// Whether it may be used.
    pub state: State,
}

/// Wishes of the program and findings of a measurement. The environment's wishes stand apart and above.
#[derive(Default)]
struct Settings {
    preferred: Preferences,
    choice: Arc<Choice>,
}

static SETTINGS: LazyLock<RwLock<Settings>> = LazyLock::new(RwLock::default);

/// Verdicts of the self-tests, by provider and algorithm.                                                     (1)
static VERDICTS: Mutex<BTreeMap<(&'static str, Algorithm), bool>> = Mutex::new(BTreeMap::new());

/// Every provider of `algorithm` in this build, with what may be expected of it. Runs the self-tests not yet run.
#[must_use]
pub fn providers_of(algorithm: Algorithm) -> Vec<Offer> {
    of(algorithm)
        .map(|provider| Offer {
            provider,
            state: state(provider, algorithm),
        })
        .collect()
}

/// The provider that computes `algorithm` over that many bytes now.
///
/// # Errors
/// `ProviderError` if the environment asks for what is not there, or no provider works.
pub fn preferred(
    algorithm: Algorithm,
    work: Work,
    class: SizeClass,
) -> Result<&'static dyn Provider, ProviderError> {
    preferred_by(algorithm, work, class, environment()?)
}

/// As `preferred`, with `wished` in the place of the environment: the first that works of what `wished` says, what the program
/// prefers, what was measured, the registry's order.
pub(super) fn preferred_by(
    algorithm: Algorithm,
    work: Work,
    class: SizeClass,
    wished: &Preferences,
) -> Result<&'static dyn Provider, ProviderError> {
    let settings = SETTINGS.read();
    let ranked = [
        wished.get(algorithm),
        settings.preferred.get(algorithm),
        settings.choice.get(algorithm, work, class),
    ];
    drop(settings);
    let ranked = ranked.into_iter().flatten();
    ranked
        .chain(of(algorithm))
        .find(|provider| state(*provider, algorithm) == State::Ready)
        .ok_or_else(|| ProviderError::NoProvider {
            algorithm,
            why: complaints(algorithm),
        })
}

/// Has `provider` compute `algorithm` from now on, for every size; sealers that live keep what they have.
///
/// The environment still ranks above.
///
/// # Errors
/// `PreferenceError` if this build has no such provider or it cannot be used here; then nothing changed.
pub fn set_preferred(algorithm: Algorithm, provider: &str) -> Result<(), PreferenceError> {
    let provider = provider_named(algorithm, provider)?;
    if let Some(why) = complaint(provider, algorithm) {
        return Err(PreferenceError::Unusable {
            algorithm,
            provider: provider.name(),
            why,
        });
    }
    SETTINGS.write().preferred.put(algorithm, provider.name())
}

/// Takes back what `set_preferred` set for `algorithm`.
pub fn clear_preferred(algorithm: Algorithm) {
    SETTINGS.write().preferred.remove(algorithm);
}

/// Takes over what a measurement found, from now on; sealers that live keep what they have.
pub fn set_choice(choice: Choice) {
    SETTINGS.write().choice = Arc::new(choice);
}

/// What a measurement found, or the default.
#[must_use]
pub fn choice() -> Arc<Choice> {
    SETTINGS.read().choice.clone()
}

/// Whether this process can seal and open vaults of `suite`: every algorithm they need has a provider that works.
///
/// # Errors
/// `ProviderError` naming the algorithm, or what is wrong with the environment variable.
pub fn ready(suite: SuiteId) -> Result<(), ProviderError> {
    // Key slots are always of suite 1, whatever seals the content.
    let needed = [
        Algorithm::aead_of(suite),
        Algorithm::Aes256Gcm,
        Algorithm::Blake3,
        Algorithm::Argon2id,
        Algorithm::Ed25519,
    ];
    for algorithm in needed {
        preferred(algorithm, Work::of(algorithm)[0], SizeClass::Kib4)?;
    }
    Ok(())
}

/// The BLAKE3 that derives keys.
///
/// Total, because keys are derived before there is anybody to tell: where no provider works the first answers, and
/// `ready` refuses before anything is sealed or opened.
pub(crate) fn blake3() -> &'static dyn Blake3 {
    match any(Algorithm::Blake3, Work::Hash) {
        Implementation::Blake3(blake3) => blake3,
        _ => unreachable!("(2) holds: an implementation is of the algorithm it was asked for"),
    }
}

/// The Argon2id that stretches passphrases; total as `blake3` is.
pub(crate) fn argon2id() -> &'static dyn Argon2id {
    match any(Algorithm::Argon2id, Work::Stretch) {
        Implementation::Argon2id(argon2id) => argon2id,
        _ => unreachable!("(2) holds: an implementation is of the algorithm it was asked for"),
    }
}

/// The Ed25519 for `work`, which is `Sign` or `Verify`; total as `blake3` is.
pub(crate) fn ed25519(work: Work) -> &'static dyn Ed25519 {
    match any(Algorithm::Ed25519, work) {
        Implementation::Ed25519(ed25519) => ed25519,
        _ => unreachable!("(2) holds: an implementation is of the algorithm it was asked for"),
    }
}

fn any(algorithm: Algorithm, work: Work) -> Implementation {
    let provider = preferred(algorithm, work, SizeClass::Kib4)
        .ok()
        .or_else(|| of(algorithm).next())
        .expect("every algorithm but AEGIS-256 has a provider in each build");
    implementation(provider, algorithm)
}

/// What may be expected of `provider`; runs its self-test at the first question.                              (1)
///
/// Nothing is logged while a lock is held: a program's logger may itself ask for a provider.
fn state(provider: &dyn Provider, algorithm: Algorithm) -> State {
    if let Some(missing) = provider.missing() {
        return State::Missing(missing);
    }
    let key = (provider.name(), algorithm);
    let known = VERDICTS.lock().get(&key).copied();
    let passed = known.unwrap_or_else(|| {
        let passed = self_test::passes(provider, algorithm);
        let mut verdicts = VERDICTS.lock();
        let is_first = !verdicts.contains_key(&key);
        // Of two threads that tested at once, the first verdict stands.
        let passed = *verdicts.entry(key).or_insert(passed);
        drop(verdicts);
        if is_first && !passed {
            log::warn!(
                "provider {} gives wrong answers for {algorithm} and is not used; report it with the processor's model and {}, \
                 and use a newer build when there is one",
                provider.name(),
                provider.library()
            );
        }
        passed
    });
    if passed { State::Ready } else { State::Failed }
}

/// What keeps `provider` from computing `algorithm` here.
fn complaint(provider: &dyn Provider, algorithm: Algorithm) -> Option<String> {
    match state(provider, algorithm) {
        State::Ready => None,
        State::Missing(what) => Some(format!("it needs {what}")),
        State::Failed => Some("it failed its self-test".to_owned()),
    }
}

/// What is wrong with every provider of `algorithm`.
fn complaints(algorithm: Algorithm) -> String {
    let each: Vec<_> = of(algorithm)
        .filter_map(|provider| {
            Some(format!(
                "{}: {}",
                provider.name(),
                complaint(provider, algorithm)?
            ))
        })
        .collect();
    if each.is_empty() {
        return "this build has no provider of this algorithm".to_owned();
    }
    each.join("; ")
}

/// What the environment wishes for. Read once; a wish that cannot be met here is logged once.
pub(super) fn environment() -> Result<&'static Preferences, ProviderError> {
    static WISHED: LazyLock<Result<Preferences, PreferenceError>> = LazyLock::new(|| {
        let text = std::env::var_os(ENVIRONMENT).unwrap_or_default();
        text.to_string_lossy().parse()
    });
    static TOLD: AtomicBool = AtomicBool::new(false);
    let wished = WISHED.as_ref();
    let wished = wished.map_err(|error| ProviderError::Environment(error.clone()))?;
    if !TOLD.swap(true, Ordering::Relaxed) {
        for (algorithm, provider) in wished.iter() {
            if let Some(why) = complaint(provider, algorithm) {
                let name = provider.name();
                log::warn!(
                    "{ENVIRONMENT}: {name} cannot compute {algorithm} here: {why}; another provider does"
                );
            }
        }
    }
    Ok(wished)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyError, NewKey, NewSlot, RecoveryCode, Secret, SystemRandom, UnlockError};
    use std::process::Command;
    use std::sync::atomic::AtomicUsize;

    /// Says which check a child process is to make.
    const CHILD: &str = "STRONGROOM_PROVIDERS_TEST_CHILD";

    /// What a process finds depends on its environment, so each check runs in a process of its own: this test again, there with
    /// `CHILD` set.
    fn in_child(test: &str, variables: &[(&str, &str)]) {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([&format!("providers::registry::tests::{test}"), "--exact"]);
        child.env(CHILD, "1").envs(variables.iter().copied());
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
    }

    fn is_child() -> bool {
        std::env::var_os(CHILD).is_some()
    }

    fn name(algorithm: Algorithm) -> &'static str {
        preferred(algorithm, Work::of(algorithm)[0], SizeClass::Kib64)
            .unwrap()
            .name()
    }

    static WARNINGS: AtomicUsize = AtomicUsize::new(0);

    struct Counting;

    impl log::Log for Counting {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, record: &log::Record<'_>) {
            if record.level() == log::Level::Warn {
                WARNINGS.fetch_add(1, Ordering::SeqCst);
            }
        }
        fn flush(&self) {}
    }

    fn count_warnings() {
        log::set_logger(&Counting).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
    }

    fn slot(code: &RecoveryCode) -> NewSlot {
        NewSlot {
            label: "test".to_owned(),
            key: NewKey::RecoveryCode(code.clone()),
        }
    }

    #[test]
    fn every_algorithm_of_every_suite_is_ready() {
        for suite in SuiteId::ALL {
            let built = *suite != SuiteId::Aegis256Blake3 || cfg!(feature = "libaegis");
            assert_eq!(ready(*suite).is_ok(), built, "{suite:?}");
        }
        assert!(
            Algorithm::ALL
                .iter()
                .all(|algorithm| *algorithm == Algorithm::Aegis256
                    || !providers_of(*algorithm).is_empty())
        );
    }

    /// In a process of its own: settings are the whole process's.
    #[test]
    fn wish_setting_and_measurement_rank_in_this_order() {
        if !is_child() {
            return in_child("wish_setting_and_measurement_rank_in_this_order", &[]);
        }
        let of = Algorithm::Blake3;
        assert_eq!(name(of), "simd");
        let mut measured = Choice::default();
        measured
            .put(of, Work::Hash, SizeClass::Kib64, "portable")
            .unwrap();
        set_choice(measured);
        assert_eq!(name(of), "portable");
        assert_eq!(
            preferred(of, Work::Hash, SizeClass::Kib4).unwrap().name(),
            "simd"
        );
        set_preferred(of, "simd").unwrap();
        assert_eq!(name(of), "simd");
        let wished = "BLAKE3=portable".parse().unwrap();
        assert_eq!(
            preferred_by(of, Work::Hash, SizeClass::Kib64, &wished)
                .unwrap()
                .name(),
            "portable"
        );
        clear_preferred(of);
        set_choice(Choice::default());
        assert_eq!(name(of), "simd");
        let unknown = set_preferred(of, "dalek").unwrap_err();
        assert!(matches!(unknown, PreferenceError::UnknownProvider { .. }));
    }

    #[test]
    fn the_environment_forces_a_provider() {
        if !is_child() {
            let forced = "AES-256-GCM=rustcrypto,BLAKE3=portable";
            return in_child(
                "the_environment_forces_a_provider",
                &[(ENVIRONMENT, forced)],
            );
        }
        assert_eq!(
            (name(Algorithm::Aes256Gcm), name(Algorithm::Blake3)),
            ("rustcrypto", "portable")
        );
        set_preferred(Algorithm::Aes256Gcm, "ring").unwrap();
        assert_eq!(name(Algorithm::Aes256Gcm), "rustcrypto");
    }

    /// Goal: a wish that cannot be met is an error before the first key. Method: a vault is to be made, and the keys of a new device.
    /// Failed before: making the keys of a new device panicked.
    #[test]
    fn a_misspelt_environment_is_refused_before_anything_is_made_or_opened() {
        if !is_child() {
            let test = "a_misspelt_environment_is_refused_before_anything_is_made_or_opened";
            return in_child(test, &[(ENVIRONMENT, "AES-256-GCM=rign")]);
        }
        let error = ready(SuiteId::Aes256GcmBlake3).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("STRONGROOM_PROVIDERS: this build has no provider `rign`")
        );
        let code = RecoveryCode::random(&SystemRandom).unwrap();
        let made = crate::create(&[slot(&code)], SuiteId::Aes256GcmBlake3, &SystemRandom, 0);
        assert_eq!(made.unwrap_err(), KeyError::Provider(error.clone()));
        let vault = strongroom_format::VaultId([1; 32]);
        let made = crate::NewDeviceKeys::make(&slot(&code), vault, &SystemRandom, 0);
        assert_eq!(made.unwrap_err(), KeyError::Provider(error));
    }

    #[test]
    fn a_provider_that_fails_its_self_test_is_told_once_and_passed_over() {
        if !is_child() {
            return in_child(
                "a_provider_that_fails_its_self_test_is_told_once_and_passed_over",
                &[("STRONGROOM_FAIL_SELF_TEST", "AES-256-GCM=ring,BLAKE3=simd")],
            );
        }
        count_warnings();
        assert_ne!(name(Algorithm::Aes256Gcm), "ring");
        assert_eq!(name(Algorithm::Aes256Gcm), name(Algorithm::Aes256Gcm));
        assert_eq!(WARNINGS.load(Ordering::SeqCst), 1);
        assert_eq!(name(Algorithm::Blake3), "portable");
        assert_eq!(name(Algorithm::ChaCha20Poly1305), "ring");
        assert_eq!(WARNINGS.load(Ordering::SeqCst), 2);
        let offers = providers_of(Algorithm::Aes256Gcm);
        assert_eq!(
            (offers[0].provider.name(), &offers[0].state),
            ("ring", &State::Failed)
        );
        let refused = set_preferred(Algorithm::Aes256Gcm, "ring").unwrap_err();
        assert!(refused.to_string().contains("failed its self-test"));
    }

    /// A wish does not override a self-test, nor does it keep a vault shut.
    #[test]
    fn a_forced_provider_that_fails_is_passed_over_too() {
        if !is_child() {
            return in_child(
                "a_forced_provider_that_fails_is_passed_over_too",
                &[
                    (ENVIRONMENT, "AES-256-GCM=rustcrypto"),
                    ("STRONGROOM_FAIL_SELF_TEST", "rustcrypto"),
                ],
            );
        }
        assert_eq!(name(Algorithm::Aes256Gcm), "ring");
    }

    #[test]
    fn without_any_provider_of_a_suite_the_other_suites_open_and_it_is_named() {
        if !is_child() {
            let test = "without_any_provider_of_a_suite_the_other_suites_open_and_it_is_named";
            return in_child(test, &[("STRONGROOM_FAIL_SELF_TEST", "libaegis")]);
        }
        let error = ready(SuiteId::Aegis256Blake3).unwrap_err();
        assert!(
            error.to_string().starts_with("this vault needs AEGIS-256"),
            "{error}"
        );
        for suite in [SuiteId::Aes256GcmBlake3, SuiteId::ChaCha20Poly1305Blake3] {
            let code = RecoveryCode::random(&SystemRandom).unwrap();
            let made = crate::create(&[slot(&code)], suite, &SystemRandom, 0).unwrap();
            let opened = crate::unlock(&made.header, &Secret::RecoveryCode(code), None);
            assert!(opened.is_ok(), "{suite:?}");
        }
    }

    /// Goal: a vault of a suite that cannot be computed is refused with its name, at unlocking. Method: the header was made by
    /// this process's parent, which computes it.
    #[test]
    fn a_vault_whose_suite_has_no_provider_does_not_unlock() {
        let code = RecoveryCode::random(&SystemRandom).unwrap();
        let suite = SuiteId::ChaCha20Poly1305Blake3;
        let variable = "STRONGROOM_TEST_HEADER";
        if is_child() {
            let header = std::fs::read(std::env::var_os(variable).unwrap()).unwrap();
            let refused = crate::unlock(&header, &Secret::RecoveryCode(code), None).unwrap_err();
            let UnlockError::Provider(ProviderError::NoProvider { algorithm, why }) = refused
            else {
                panic!("{refused:?}");
            };
            assert_eq!(algorithm, Algorithm::ChaCha20Poly1305);
            assert!(why.contains("ring: it failed its self-test"), "{why}");
            return;
        }
        let made = crate::create(&[slot(&code)], suite, &SystemRandom, 0).unwrap();
        let path = std::env::temp_dir().join(format!("strongroom-suite-{}", std::process::id()));
        std::fs::write(&path, made.header).unwrap();
        let all: Vec<_> = of(Algorithm::ChaCha20Poly1305)
            .map(|provider| format!("ChaCha20-Poly1305={}", provider.name()))
            .collect();
        in_child(
            "a_vault_whose_suite_has_no_provider_does_not_unlock",
            &[
                ("STRONGROOM_FAIL_SELF_TEST", &all.join(",")),
                (variable, path.to_str().unwrap()),
            ],
        );
        std::fs::remove_file(path).unwrap();
    }
}

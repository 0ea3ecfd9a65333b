//! Chooses providers by measurement, and remembers the choice. The user's preferences come first.
//!
//! Takes   folders of the user, a clock, preferences
//! Gives   a choice that is in force before the first key of a process is used
//! Never   measures while a vault is in use, makes a vault fail, or writes into a vault
//! Spec    none: nothing here shows in the format. docs/providers.md; docs/adr/0010-providers-measured.md
//!
//! Order of precedence: the variable `STRONGROOM_PROVIDERS`, then `providers.conf` of the user's configuration, then the
//! measurement.
//!
//! Invariants
//!  (1) A process measures at most once by itself, before it unlocks the first vault it owns.
//!  (2) If the result cannot be remembered, nothing is measured: otherwise every command would measure again.

mod cache;
mod machine;
mod wishes;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use strongroom_crypto::measuring::measured::{self, Measured};
use strongroom_crypto::providers::{self, Choice, Preferences};
use strongroom_format::SuiteId;

use crate::limits::{FIRST_MEASUREMENT_MS, TUNE_MS, TURN_WAIT_MS};
use crate::private_folder::PrivateFolders;
use crate::retry::Retry;
use crate::{Error, Result};
use cache::{Cache, Found};
pub use machine::Machine;
use wishes::Wishes;

/// Whether opening a vault may measure the crypto providers of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tuning {
    /// What was measured decides; if nothing was yet, it is measured now, in at most 300 ms, and remembered in the
    /// user's cache folder.
    #[default]
    Measured,
    /// Nothing is looked up or measured; what `providers::set_choice` was told counts, or the default.
    AsItIs,
}

/// Where the choice of this process came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was measured before, on this machine and with these libraries.
    Remembered,
    /// It was measured just now.
    Measured,
    /// Nothing was measured, for this reason.
    Default(&'static str),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Remembered => formatter.write_str("measured before"),
            Self::Measured => formatter.write_str("measured now"),
            Self::Default(why) => write!(formatter, "not measured: {why}"),
        }
    }
}

/// Puts the choice of this machine in force, once in a process.                                              (1)
pub(crate) fn settle(tuning: Tuning) {
    if tuning == Tuning::Measured {
        origin();
    }
}

/// Puts the wishes and the remembered choice in force, for who only wants to know; measures nothing.
pub(crate) fn recall() {
    if ORIGIN.get().is_none() {
        let places = Places::of_user();
        places.apply_wishes();
        let machine = Machine::here();
        let mut found = places.caches.iter().map(|cache| cache.find(&machine));
        if let Some(Found::Choice(choice)) = found.find(|found| matches!(found, Found::Choice(_))) {
            providers::set_choice(choice);
        }
    }
}

static ORIGIN: OnceLock<Origin> = OnceLock::new();

/// Where the choice of this process comes from; puts it in force first, and may measure for that.
pub fn origin() -> Origin {
    *ORIGIN.get_or_init(|| {
        let places = Places::of_user();
        places.apply_wishes();
        // Nothing is opened or made then, and whoever tries to says why.
        if check_ready().is_err() {
            return Origin::Default("a provider that is asked for or needed is not there");
        }
        let machine = Machine::here();
        let patience = Duration::from_millis(TURN_WAIT_MS);
        let (choice, origin) = places.settle(&machine, patience, &mut || {
            let start = Instant::now();
            let time = Duration::from_millis(FIRST_MEASUREMENT_MS);
            let found = measured::in_haste(time, machine.cores, &|| start.elapsed());
            log::info!("crypto providers measured in {} ms", found.took.as_millis());
            found.choice
        });
        log::debug!("crypto providers: {origin}");
        providers::set_choice(choice);
        origin
    })
}

/// Measures every provider that can run here, for a table; takes about 25 s and keeps nothing.
///
/// `progress` is told the part that is done, 0 to 1.
///
/// # Errors
/// `Provider` if the environment asks for a provider that is not there, or an algorithm that every vault needs has none.
pub fn measure(progress: &mut dyn FnMut(f64)) -> Result<Measured> {
    check_ready()?;
    let start = Instant::now();
    let time = Duration::from_millis(TUNE_MS);
    let cores = Machine::here().cores;
    let elapsed = || start.elapsed();
    Ok(measured::thoroughly(time, cores, &elapsed, progress))
}

/// Whether the algorithms that every vault needs have providers: else nothing can be measured, opened or made.
pub(crate) fn check_ready() -> Result<()> {
    Ok(providers::ready(SuiteId::Aes256GcmBlake3)?)
}

/// Remembers `choice` for this machine, and puts it in force.
///
/// # Errors
/// `MeasuringElsewhere` if another process has been about it for too long, `NoUserFolder`, `Io`; it is in force all the same.
pub fn remember(choice: &Choice) -> Result<()> {
    providers::set_choice(choice.clone());
    let patience = Duration::from_millis(TURN_WAIT_MS);
    Places::of_user().remember(&Machine::here(), choice, patience)
}

/// Saves wishes beside those saved before, for every vault of this user, and puts them in force.
///
/// # Errors
/// `Preference` if one cannot be met here, `NoUserFolder`, `Io`; then nothing is saved.
pub fn prefer(wished: &Preferences) -> Result<()> {
    Places::of_user().prefer(wished)
}

/// The wishes that are saved.
///
/// # Errors
/// `Preference` if they name what this build does not have, `Io`.
pub fn preferred() -> Result<Preferences> {
    Places::of_user()
        .wishes
        .map_or_else(|| Ok(Preferences::default()), |wishes| wishes.read())
}

/// Forgets every measurement and every saved wish; gives whether there was something. Processes that run keep what they have.
///
/// # Errors
/// `Io`.
pub fn reset() -> Result<bool> {
    Places::of_user().reset()
}

/// Where this user's choices are kept.
struct Places {
    /// The first that holds the choice or can be written; those behind it are not looked into.
    caches: Vec<Cache>,
    wishes: Option<Wishes>,
}

impl Places {
    fn of_user() -> Self {
        let home = || std::env::var_os("HOME");
        let cache = folder(std::env::var_os("XDG_CACHE_HOME"), home(), ".cache");
        let config = folder(std::env::var_os("XDG_CONFIG_HOME"), home(), ".config");
        // A home that cannot be written still leaves a folder that lasts until the next start of the machine.
        let caches = cache.into_iter().chain(PrivateFolders::own().candidates());
        Self {
            caches: caches.map(Cache::in_folder).collect(),
            wishes: config.map(Wishes::in_folder),
        }
    }

    /// Has the saved wishes preferred; what is wrong with them is told and does not count.
    fn apply_wishes(&self) {
        let read = self.wishes.as_ref().map(Wishes::read);
        let wished = match read.unwrap_or_else(|| Ok(Preferences::default())) {
            Ok(wished) => wished,
            Err(error) => {
                log::warn!(
                    "the providers saved by `strongroom tune --prefer` are ignored: {error}; save others, or run `strongroom tune --reset`"
                );
                return;
            }
        };
        for (algorithm, provider) in wished.iter() {
            if let Err(error) = providers::set_preferred(algorithm, provider.name()) {
                log::warn!("a provider saved by `strongroom tune --prefer` is ignored: {error}");
            }
        }
    }

    /// The choice for `machine`: the remembered one, else what `measure` gives, else the default.
    ///
    /// Of several processes one measures; the others wait for it, up to `patience`.
    fn settle(
        &self,
        machine: &Machine,
        patience: Duration,
        measure: &mut dyn FnMut() -> Choice,
    ) -> (Choice, Origin) {
        for cache in &self.caches {
            match cache.find(machine) {
                Found::Choice(choice) => return (choice, Origin::Remembered),
                Found::Nothing => {}
                Found::Damaged => log::warn!(
                    "the saved measurement of the crypto providers cannot be read; they are measured again"
                ),
            }
            match settle_in(cache, machine, patience, measure) {
                Ok(settled) => return settled,
                Err(error) => {
                    log::debug!(
                        "the measurement cannot be saved in one of its folders, so the next folder, if any, is tried: {error}"
                    );
                }
            }
        }
        let why = "this user has no folder to save a measurement in";
        (Choice::default(), Origin::Default(why)) // (2)
    }

    fn remember(&self, machine: &Machine, choice: &Choice, patience: Duration) -> Result<()> {
        let mut refused = Error::NoUserFolder("XDG_CACHE_HOME");
        for cache in &self.caches {
            let mut retry = Retry::new(patience);
            loop {
                match cache.turn() {
                    Ok(Some(turn)) => {
                        return turn
                            .remember(machine, choice)
                            .map_err(Error::io("saving the measurement"));
                    }
                    Ok(None) if retry.wait() => {}
                    Ok(None) => return Err(Error::MeasuringElsewhere),
                    Err(source) => {
                        refused = Error::io("saving the measurement")(source);
                        break;
                    }
                }
            }
        }
        Err(refused)
    }

    fn prefer(&self, wished: &Preferences) -> Result<()> {
        let wishes = self.wishes.as_ref();
        let wishes = wishes.ok_or(Error::NoUserFolder("XDG_CONFIG_HOME"))?;
        // Whatever is wrong with what was saved before makes room for this.
        let mut all = wishes.read().unwrap_or_default();
        for (algorithm, provider) in wished.iter() {
            providers::set_preferred(algorithm, provider.name())?;
            all.put(algorithm, provider.name())?;
        }
        wishes.write(&all)
    }

    fn reset(&self) -> Result<bool> {
        let mut was_there = false;
        for (number, cache) in self.caches.iter().enumerate() {
            match cache.forget() {
                Ok(found) => was_there |= found,
                // The others are of use only where the first cannot be written; they may be another user's.
                Err(_) if number > 0 => {}
                Err(error) => return Err(Error::io("deleting the measurement")(error)),
            }
        }
        if let Some(wishes) = &self.wishes {
            was_there |= wishes.forget()?;
        }
        Ok(was_there)
    }
}

/// Measures when it is this process's turn in `cache`, or takes what another measured meanwhile.
///
/// # Errors
/// Of the system, if nothing can be written there; then nothing was measured.
fn settle_in(
    cache: &Cache,
    machine: &Machine,
    patience: Duration,
    measure: &mut dyn FnMut() -> Choice,
) -> std::io::Result<(Choice, Origin)> {
    let mut retry = Retry::new(patience);
    loop {
        let turn = cache.turn()?;
        // Who had the turn before has just measured.
        if let Found::Choice(choice) = cache.find(machine) {
            return Ok((choice, Origin::Remembered));
        }
        if let Some(turn) = turn {
            let choice = measure();
            if let Err(error) = turn.remember(machine, &choice) {
                log::info!("the measurement of the crypto providers cannot be saved: {error}");
            }
            return Ok((choice, Origin::Measured));
        }
        if !retry.wait() {
            let why = "another process is measuring";
            return Ok((Choice::default(), Origin::Default(why)));
        }
    }
}

/// `strongroom` in the folder of `variable`, or of `usual` in `home`; `None` where neither is an absolute path.
pub(crate) fn folder(
    variable: Option<OsString>,
    home: Option<OsString>,
    usual: &str,
) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let named = variable.and_then(absolute);
    let folder = named.or_else(|| Some(home.and_then(absolute)?.join(usual)))?;
    Some(folder.join("strongroom"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use strongroom_crypto::providers::Algorithm;

    fn machine() -> Machine {
        Machine {
            processor: "test".to_owned(),
            cores: 2,
            libraries: Vec::new(),
        }
    }

    /// A choice that can be told from the default.
    fn choice() -> Choice {
        let mut choice = Choice::default();
        choice.inline_below_bytes = 77_777;
        choice
    }

    fn places(folders: &[PathBuf]) -> Places {
        Places {
            caches: folders.iter().cloned().map(Cache::in_folder).collect(),
            wishes: folders
                .first()
                .map(|folder| Wishes::in_folder(folder.clone())),
        }
    }

    /// What settling with a count of measurements gives.
    fn settle(places: &Places, patience: Duration, count: &AtomicUsize) -> (usize, Origin) {
        let (choice, origin) = places.settle(&machine(), patience, &mut || {
            count.fetch_add(1, Ordering::SeqCst);
            choice()
        });
        (choice.inline_below_bytes, origin)
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn it_is_measured_once_and_then_remembered() {
        let place = tempfile::tempdir().unwrap();
        let places = places(&[place.path().join("a")]);
        let count = AtomicUsize::new(0);
        assert_eq!(settle(&places, LONG, &count), (77_777, Origin::Measured));
        assert_eq!(settle(&places, LONG, &count), (77_777, Origin::Remembered));
        assert_eq!(count.into_inner(), 1);
    }

    #[test]
    fn of_many_first_users_at_once_one_measures_and_all_have_its_choice() {
        let place = tempfile::tempdir().unwrap();
        let count = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let users: Vec<_> = (0..8)
                .map(|_| {
                    let places = places(&[place.path().join("a")]);
                    let count = &count;
                    scope.spawn(move || settle(&places, LONG, count).0)
                })
                .collect();
            for user in users {
                assert_eq!(user.join().unwrap(), 77_777);
            }
        });
        assert_eq!(count.into_inner(), 1);
    }

    #[test]
    fn who_has_no_patience_with_another_that_measures_takes_the_default() {
        let place = tempfile::tempdir().unwrap();
        let places = places(&[place.path().join("a")]);
        let other = Cache::in_folder(place.path().join("a"));
        let _turn = other.turn().unwrap().unwrap();
        let count = AtomicUsize::new(0);
        let (_, origin) = settle(&places, Duration::ZERO, &count);
        assert_eq!(origin, Origin::Default("another process is measuring"));
        assert_eq!(count.into_inner(), 0);
        let remembered = places.remember(&machine(), &choice(), Duration::ZERO);
        assert!(matches!(remembered, Err(Error::MeasuringElsewhere)));
    }

    #[test]
    fn where_the_first_folder_cannot_be_written_the_next_remembers_and_where_none_can_nothing_is_measured()
     {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), b"").unwrap();
        let none = place.path().join("file/cache");
        let count = AtomicUsize::new(0);
        let both = places(&[none.clone(), place.path().join("second")]);
        assert_eq!(settle(&both, LONG, &count).1, Origin::Measured);
        assert_eq!(settle(&both, LONG, &count).1, Origin::Remembered);
        let alone = places(&[none]);
        assert!(matches!(settle(&alone, LONG, &count).1, Origin::Default(_)));
        assert_eq!(count.into_inner(), 1);
        assert!(alone.remember(&machine(), &choice(), LONG).is_err());
    }

    #[test]
    fn resetting_forgets_measurements_and_wishes() {
        let place = tempfile::tempdir().unwrap();
        let places = places(&[place.path().join("a")]);
        let count = AtomicUsize::new(0);
        settle(&places, LONG, &count);
        let wished: Preferences = "Argon2id=rustcrypto".parse().unwrap();
        places.prefer(&wished).unwrap();
        assert!(places.reset().unwrap());
        assert!(!places.reset().unwrap());
        assert_eq!(settle(&places, LONG, &count).1, Origin::Measured);
        let wishes = places.wishes.as_ref().unwrap();
        assert_eq!(wishes.read().unwrap(), Preferences::default());
        providers::registry::clear_preferred(Algorithm::Argon2id);
    }

    #[test]
    fn wishes_add_up_and_one_that_cannot_be_met_saves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let places = places(&[place.path().join("a")]);
        let wish = |text: &str| places.prefer(&text.parse().unwrap());
        wish("Argon2id=rustcrypto").unwrap();
        wish("ChaCha20-Poly1305=rustcrypto").unwrap();
        let wishes = places.wishes.as_ref().unwrap();
        let saved = wishes.read().unwrap().to_string();
        assert_eq!(saved, "ChaCha20-Poly1305=rustcrypto,Argon2id=rustcrypto");
        providers::registry::clear_preferred(Algorithm::ChaCha20Poly1305);
        providers::registry::clear_preferred(Algorithm::Argon2id);
    }

    #[test]
    fn folders_are_those_of_the_user_and_absolute() {
        let of =
            |variable: &str, home: &str| folder(Some(variable.into()), Some(home.into()), ".cache");
        assert_eq!(of("/x", "/home/a"), Some("/x/strongroom".into()));
        assert_eq!(of("", "/home/a"), Some("/home/a/.cache/strongroom".into()));
        assert_eq!(
            of("relative", "/home/a"),
            Some("/home/a/.cache/strongroom".into())
        );
        assert_eq!(of("", ""), None);
    }
}

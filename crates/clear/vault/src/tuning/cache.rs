//! Remembers the results of measurements, in a folder of the user.
//!
//! Takes   a folder, a machine, a choice
//! Gives   the choice that was remembered for exactly this machine, or none
//! Never   makes a vault fail: if anything is wrong with the file, the measurement is repeated
//!
//! Invariants
//!  (1) The file is replaced whole, under a lock: a reader sees one state, and no writer undoes the work of another.
//!  (2) The file is bounded: the entry that was written longest ago is removed first.
//!  (3) Nothing is written into a folder of another user.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use strongroom_crypto::providers::{Algorithm, Choice, SizeClass, Work};

use super::machine::Machine;

/// The name of the file.
const FILE: &str = "providers.json";
/// What is written before it takes the place of `FILE`.
const UNFINISHED: &str = "providers.json.new";
/// Held by the process that measures or writes.
const LOCK: &str = "providers.lock";

/// Changes when the meaning of an entry does; entries of another number are no entries.
const VERSION: u32 = 2;

/// The most that is read of a file, in bytes.                                                               (2)
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Machines remembered at most: a home may be shared by several.                                            (2)
const ENTRIES_MAX: usize = 16;

/// The least border between inline and shared sealing that is believed, in bytes.
const INLINE_BELOW_BYTES_MIN: usize = 4 * 1024;

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    /// The newest last.
    measurements: Vec<Entry>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    machine: Machine,
    providers: Vec<Named>,
    /// `None`: never shared out.
    inline_below_bytes: Option<usize>,
    threads: Option<usize>,
}

/// Who computes one work at one size.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    algorithm: String,
    work: String,
    bytes: usize,
    provider: String,
}

/// A folder that remembers.
#[derive(Clone, Debug)]
pub(super) struct Cache(PathBuf);

/// The right to measure and to write, until it is dropped.
pub(super) struct Turn<'a> {
    cache: &'a Cache,
    _lock: File,
}

/// What was found.
#[derive(Debug)]
pub(super) enum Found {
    /// This was measured on this machine.
    Choice(Choice),
    /// Nothing was, yet.
    Nothing,
    /// The file cannot be understood.
    Damaged,
}

impl Cache {
    pub(super) fn in_folder(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// What is remembered for `machine`.
    pub(super) fn find(&self, machine: &Machine) -> Found {
        match self.read() {
            Ok(contents) => {
                let mut entries = contents.measurements.iter();
                let entry = entries.find(|entry| entry.machine == *machine);
                entry.map_or(Found::Nothing, |entry| {
                    choice_of(entry).map_or(Found::Damaged, Found::Choice)
                })
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Found::Damaged,
            Err(_) => Found::Nothing,
        }
    }

    /// The turn of this process; `None` if another has it.
    ///
    /// # Errors
    /// Of the system, if nothing can be written here.
    pub(super) fn turn(&self) -> io::Result<Option<Turn<'_>>> {
        self.make_folder()?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32)
            .open(self.0.join(LOCK))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Turn {
                cache: self,
                _lock: lock,
            })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Forgets everything; gives whether there was something.
    pub(super) fn forget(&self) -> io::Result<bool> {
        match fs::remove_file(self.0.join(FILE)) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&self) -> io::Result<Contents> {
        let text = read_bounded(&self.0.join(FILE), FILE_BYTES_MAX)?;
        // A text that ends too early is as damaged as one that is no JSON.
        let contents: Contents = serde_json::from_slice(&text)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if contents.version == VERSION {
            Ok(contents)
        } else {
            Ok(Contents::default())
        }
    }

    /// The folder exists and belongs to this user.                                                         (3)
    fn make_folder(&self) -> io::Result<()> {
        let above = self.0.ancestors().find(|folder| folder.exists());
        above.map_or(Err(io::ErrorKind::NotFound.into()), is_ours)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        is_ours(&self.0)
    }
}

impl Turn<'_> {
    /// Remembers `choice` for `machine`.                                                               (1) (2)
    ///
    /// # Errors
    /// Of the system; then what was remembered before still is.
    pub(super) fn remember(&self, machine: &Machine, choice: &Choice) -> io::Result<()> {
        // What cannot be read is not worth keeping.
        let mut contents = self.cache.read().unwrap_or_default();
        contents.version = VERSION;
        contents
            .measurements
            .retain(|entry| entry.machine != *machine);
        contents.measurements.push(entry_of(machine, choice));
        let surplus = contents.measurements.len().saturating_sub(ENTRIES_MAX);
        contents.measurements.drain(..surplus);
        let text = serde_json::to_vec_pretty(&contents)?;
        replace(&self.cache.0, FILE, UNFINISHED, &text)
    }
}

/// Puts `content` in the place of the file `name` of `folder`, whole or not at all.                         (1)
pub(super) fn replace(
    folder: &Path,
    name: &str,
    unfinished: &str,
    content: &[u8],
) -> io::Result<()> {
    let new = folder.join(unfinished);
    let write = || {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32)
            .open(&new)?;
        file.write_all(content)?;
        // Without this a power cut may leave a whole name with half a file.
        file.sync_data()?;
        fs::rename(&new, folder.join(name))
    };
    write().inspect_err(|_| {
        // Nothing refers to it; if it stays, the next writer begins it again.
        let _ = fs::remove_file(&new);
    })
}

/// The bytes of a regular file of at most `bytes_max`.
///
/// # Errors
/// `InvalidData` if it is longer or no regular file.
pub(super) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Without waiting, should it be a pipe.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut content = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(content)
}

fn is_ours(folder: &Path) -> io::Result<()> {
    let found = fs::metadata(folder)?;
    if found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Whether a name simply is not there.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn entry_of(machine: &Machine, choice: &Choice) -> Entry {
    let mut providers = Vec::new();
    for algorithm in Algorithm::ALL {
        for work in Work::of(*algorithm).iter().filter(|work| work.decides()) {
            for class in SizeClass::ALL {
                if let Some(provider) = choice.get(*algorithm, *work, class) {
                    providers.push(Named {
                        algorithm: algorithm.name().to_owned(),
                        work: work.name().to_owned(),
                        bytes: class.bytes(),
                        provider: provider.name().to_owned(),
                    });
                }
            }
        }
    }
    Entry {
        machine: machine.clone(),
        providers,
        inline_below_bytes: Some(choice.inline_below_bytes).filter(|bytes| *bytes != usize::MAX),
        threads: choice.threads,
    }
}

/// The choice of an entry; `None` if anything in it is not as this program writes it.
fn choice_of(entry: &Entry) -> Option<Choice> {
    let mut choice = Choice::default();
    for named in &entry.providers {
        let algorithm = Algorithm::from_name(&named.algorithm)?;
        let works = Work::of(algorithm).iter().copied();
        let work = works
            .filter(|work| work.decides())
            .find(|work| work.name() == named.work)?;
        let mut classes = SizeClass::ALL.into_iter();
        let class = classes.find(|class| class.bytes() == named.bytes)?;
        choice.put(algorithm, work, class, &named.provider).ok()?;
    }
    choice.inline_below_bytes = match entry.inline_below_bytes {
        None => usize::MAX,
        Some(bytes) if bytes >= INLINE_BELOW_BYTES_MIN => bytes,
        Some(_) => return None,
    };
    choice.threads = match entry.threads {
        Some(threads) if !(1..=entry.machine.cores).contains(&threads) => return None,
        threads => threads,
    };
    Some(choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: usize) -> Machine {
        Machine {
            processor: "test".to_owned(),
            cores,
            libraries: vec!["ring 1".to_owned()],
        }
    }

    fn choice(inline_below_bytes: usize) -> Choice {
        let mut choice = Choice::default();
        let (algorithm, work) = (Algorithm::Aes256Gcm, Work::Encrypt);
        choice
            .put(algorithm, work, SizeClass::Kib64, "ring")
            .unwrap();
        choice.inline_below_bytes = inline_below_bytes;
        choice.threads = Some(2);
        choice
    }

    fn place() -> (tempfile::TempDir, Cache) {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::in_folder(place.path().join("cache/strongroom"));
        (place, cache)
    }

    fn remember(cache: &Cache, machine: &Machine, choice: &Choice) {
        let turn = cache.turn().unwrap().expect("nobody else has it");
        turn.remember(machine, choice).unwrap();
    }

    fn inline_below(cache: &Cache, machine: &Machine) -> Option<usize> {
        match cache.find(machine) {
            Found::Choice(choice) => Some(choice.inline_below_bytes),
            _ => None,
        }
    }

    #[test]
    fn a_choice_is_found_for_its_machine_and_for_no_other() {
        let (_place, cache) = place();
        assert!(matches!(cache.find(&machine(2)), Found::Nothing));
        remember(&cache, &machine(2), &choice(70_000));
        remember(&cache, &machine(4), &choice(usize::MAX));
        let Found::Choice(found) = cache.find(&machine(2)) else {
            panic!("it was remembered");
        };
        let provider = found.get(Algorithm::Aes256Gcm, Work::Encrypt, SizeClass::Kib64);
        assert_eq!(provider.unwrap().name(), "ring");
        assert!(
            found
                .get(Algorithm::Aes256Gcm, Work::Decrypt, SizeClass::Kib64)
                .is_none()
        );
        assert_eq!((found.inline_below_bytes, found.threads), (70_000, Some(2)));
        assert_eq!(inline_below(&cache, &machine(4)), Some(usize::MAX));
        let mut newer = machine(2);
        newer.libraries = vec!["ring 2".to_owned()];
        assert!(matches!(cache.find(&newer), Found::Nothing));
    }

    #[test]
    fn a_new_measurement_takes_the_place_of_the_old_one_and_the_file_is_bounded() {
        let (_place, cache) = place();
        for cores in 2..40 {
            remember(&cache, &machine(cores), &choice(cores * 10_000));
        }
        remember(&cache, &machine(39), &choice(123_456));
        assert_eq!(inline_below(&cache, &machine(39)), Some(123_456));
        assert_eq!(inline_below(&cache, &machine(38)), Some(380_000));
        assert_eq!(inline_below(&cache, &machine(39 - ENTRIES_MAX)), None);
        assert_eq!(cache.read().unwrap().measurements.len(), ENTRIES_MAX);
    }

    #[test]
    fn a_damaged_file_is_told_from_none_and_replaced() {
        let (_place, cache) = place();
        remember(&cache, &machine(2), &choice(70_000));
        let file = cache.0.join(FILE);
        let good = fs::read_to_string(&file).unwrap();
        let damaged = [
            String::new(),
            good[..good.len() / 2].to_owned(),
            good.replace("\"ring\"", "\"rign\""),
            good.replace("\"encrypt\"", "\"seal\""),
            good.replace("70000", "1"),
            good.replace("\"threads\": 2", "\"threads\": 3"),
            good.replace("\"threads\": 2", "\"threads\": 0"),
            format!("{good}{}", " ".repeat(FILE_BYTES_MAX as usize)),
        ];
        for text in damaged {
            assert_ne!(text, good);
            fs::write(&file, &text).unwrap();
            assert!(matches!(cache.find(&machine(2)), Found::Damaged), "{text}");
        }
        remember(&cache, &machine(2), &choice(80_000));
        assert_eq!(inline_below(&cache, &machine(2)), Some(80_000));
    }

    #[test]
    fn a_file_of_another_version_holds_nothing() {
        let (_place, cache) = place();
        remember(&cache, &machine(2), &choice(70_000));
        let file = cache.0.join(FILE);
        let text = fs::read_to_string(&file).unwrap();
        let of = |version: u32| format!("\"version\": {version}");
        for other in [VERSION - 1, VERSION + 1] {
            let text = text.replace(&of(VERSION), &of(other));
            assert!(text.contains(&of(other)));
            fs::write(&file, text).unwrap();
            assert!(matches!(cache.find(&machine(2)), Found::Nothing), "{other}");
        }
    }

    #[test]
    fn a_pipe_or_directory_in_the_place_of_the_file_is_damage_and_hangs_nobody() {
        let (_place, cache) = place();
        remember(&cache, &machine(2), &choice(70_000));
        let file = cache.0.join(FILE);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(matches!(cache.find(&machine(2)), Found::Damaged));
        fs::remove_dir(&file).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(matches!(cache.find(&machine(2)), Found::Damaged));
    }

    #[test]
    fn only_one_has_the_turn() {
        let (_place, cache) = place();
        let first = cache.turn().unwrap();
        assert!(first.is_some());
        assert!(cache.turn().unwrap().is_none());
        drop(first);
        assert!(cache.turn().unwrap().is_some());
    }

    #[test]
    fn nothing_is_written_below_what_is_no_folder_of_ours() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("file"), b"").unwrap();
        let cache = Cache::in_folder(place.path().join("file/strongroom"));
        assert!(cache.turn().is_err());
        if rustix::process::geteuid().is_root() {
            let folder = place.path().join("theirs");
            fs::create_dir(&folder).unwrap();
            std::os::unix::fs::chown(&folder, Some(12_345), Some(12_345)).unwrap();
            let cache = Cache::in_folder(folder.join("strongroom"));
            assert!(cache.turn().is_err());
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        }
    }

    #[test]
    fn forgetting_says_whether_there_was_something() {
        let (_place, cache) = place();
        assert!(!cache.forget().unwrap());
        remember(&cache, &machine(2), &choice(70_000));
        assert!(cache.forget().unwrap());
        assert!(matches!(cache.find(&machine(2)), Found::Nothing));
    }
}

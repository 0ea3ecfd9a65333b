//! Checks that no pair of key and nonce is ever used for two plaintexts, in builds with the feature `nonce-ledger` only.
//!
//! Takes   each key, nonce and chunk before it is encrypted; a file, if several processes are to share one history
//! Gives   nothing; ends the process at the first pair that is used again for different bytes
//! Never   keeps a key or a plaintext, only hashes of them
//! Spec    spec/2-block.md, [2.14]
//!
//! It grows by 64 bytes and map overhead per distinct chunk and never shrinks, so it is only for test runs.

use crate::keys::KEY_BYTES;
use crate::providers::NONCE_BYTES_MAX;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;

/// Bytes of a pair and its plaintext in the file.
const RECORD_BYTES: usize = 64;

#[derive(Default)]
struct Ledger {
    /// For each hash of key and nonce, the hash of the one plaintext they met.
    seen: HashMap<[u8; 32], [u8; 32]>,
    /// Where all processes of a run write theirs, and how much of it is in `seen`.
    shared: Option<(File, u64)>,
}

static LEDGER: LazyLock<Mutex<Ledger>> = LazyLock::new(Mutex::default);

/// From now on the ledger is that in the file `path`, made if it is missing, and shared with all processes that keep
/// theirs there: a process that comes after a crash knows what was encrypted before it.
///
/// # Errors
/// Of the disk.
pub fn keep_in(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let mut ledger = LEDGER.lock();
    ledger.shared = Some((file, 0));
    let known: Vec<_> = ledger.seen.drain().collect();
    for (pair, plaintext) in known {
        ledger.enter(pair, plaintext)?;
    }
    Ok(())
}

/// How many pairs this process knows of.
#[must_use]
pub fn len() -> usize {
    LEDGER.lock().seen.len()
}

impl Ledger {
    /// Enters the pair, if it is new. Gives the plaintext that it stands for.
    fn enter(&mut self, pair: [u8; 32], plaintext: [u8; 32]) -> io::Result<[u8; 32]> {
        if let Some(known) = self.seen.get(&pair) {
            return Ok(*known);
        }
        if let Some((file, read)) = &mut self.shared {
            file.lock()?;
            let entered = take_over(file, read, &mut self.seen).and_then(|()| {
                if self.seen.contains_key(&pair) {
                    return Ok(());
                }
                file.write_all_at(&[pair, plaintext].concat(), *read)?;
                *read += RECORD_BYTES as u64;
                Ok(())
            });
            file.unlock()?;
            entered?;
        }
        Ok(*self.seen.entry(pair).or_insert(plaintext))
    }
}

/// Reads what others have entered since. Half a record at the end is of a process that was killed: it counts for nothing,
/// because that process encrypted nothing with it.
fn take_over(
    file: &File,
    read: &mut u64,
    seen: &mut HashMap<[u8; 32], [u8; 32]>,
) -> io::Result<()> {
    let new = file.metadata()?.len().saturating_sub(*read) / RECORD_BYTES as u64;
    let mut record = [0; RECORD_BYTES];
    for _ in 0..new {
        file.read_exact_at(&mut record, *read)?;
        let (pair, plaintext) = record.split_at(32);
        let (mut key, mut value) = ([0; 32], [0; 32]);
        key.copy_from_slice(pair);
        value.copy_from_slice(plaintext);
        if *seen.entry(key).or_insert(value) != value {
            abort();
        }
        *read += RECORD_BYTES as u64;
    }
    Ok(())
}

/// Not merely a panic: no handler may carry on past a broken invariant of this weight.
fn abort() -> ! {
    // Written past any capture of output, which an abort would lose. If even that fails, the abort still speaks.
    let _ = io::stderr().write_all(b"nonce ledger: one key and nonce met two plaintexts [2.14]\n");
    std::process::abort();
}

/// Notes that `key` and `nonce` are about to encrypt `chunk`; aborts if they have met another one.
///
/// # Panics
/// If the shared file cannot be used: a ledger with gaps proves nothing.
pub(crate) fn note(key: &[u8; KEY_BYTES], nonce: &[u8; NONCE_BYTES_MAX], chunk: &[u8]) {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key).update(nonce);
    let pair = *hasher.finalize().as_bytes();
    let plaintext = *blake3::hash(chunk).as_bytes();
    let known = LEDGER
        .lock()
        .enter(pair, plaintext)
        .expect("the file of the nonce ledger can be read and written");
    if known != plaintext {
        abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::seal::seal_chunks;
    use crate::blocks::suite::BlockSecret;
    use crate::keys::BlockKey;
    use crate::{BlockSealer, EpochKey, IdKey};
    use std::path::PathBuf;
    use std::process::{Command, Output};
    use strongroom_format::limits::sealed_len;
    use strongroom_format::{BlockId, Epoch, SuiteId};

    /// Set in a child process that is meant to abort, or to leave something for the next: what it shall do.
    const CHILD: &str = "STRONGROOM_TEST_LEDGER_CHILD";

    /// Runs the test `name` of this file in a child process, because an abort would end the test run.
    fn child(name: &str, what: &str) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("ledger::tests::{name}")])
            .env(CHILD, what)
            .output()
            .unwrap()
    }

    fn assert_aborted(child: &Output) {
        assert_eq!(
            child.status.code(),
            None,
            "ended by a signal, not by an exit code"
        );
        let complaint = b"one key and nonce met two plaintexts";
        assert!(
            child
                .stderr
                .windows(complaint.len())
                .any(|window| window == complaint)
        );
    }

    #[test]
    fn one_key_and_nonce_may_meet_the_same_plaintext_again() {
        note(&[1; 32], &[1; 32], b"same");
        note(&[1; 32], &[1; 32], b"same");
        note(&[1; 32], &[2; 32], b"other nonce");
        note(&[2; 32], &[1; 32], b"other key");
    }

    /// SECURITY.md, claim 2.
    #[test]
    fn a_second_plaintext_under_one_key_and_nonce_aborts_the_process() {
        if std::env::var_os(CHILD).is_some() {
            note(&[3; 32], &[3; 32], b"first");
            note(&[3; 32], &[3; 32], b"second");
            return;
        }
        assert_aborted(&child(
            "a_second_plaintext_under_one_key_and_nonce_aborts_the_process",
            "both",
        ));
    }

    /// Goal: a derivation that forgot the content would be found. Method: two plaintexts are sealed by the secret of one
    /// name, as if their names were equal.
    #[test]
    fn sealing_two_plaintexts_under_one_name_aborts_the_process() {
        if std::env::var_os(CHILD).is_some() {
            let suite = SuiteId::Aes256GcmBlake3;
            let epochs = vec![(Epoch(0), EpochKey::from_bytes([3; 32]))];
            let sealer = BlockSealer::new(suite, [0; 16], IdKey::from_bytes([4; 32]), epochs);
            let secret = BlockSecret::of(
                crate::providers::registry::blake3(),
                &BlockKey::from_bytes([5; 32]),
                suite,
                &BlockId([6; 32]),
            );
            seal_chunks(sealer.parts(), &secret, b"first", &mut [0; sealed_len(5)]);
            seal_chunks(sealer.parts(), &secret, b"second", &mut [0; sealed_len(6)]);
            return;
        }
        assert_aborted(&child(
            "sealing_two_plaintexts_under_one_name_aborts_the_process",
            "both",
        ));
    }

    /// Goal: what one process encrypted before it died is known to the next. Method: the second of three child processes
    /// repeats the pair with the same plaintext and goes on; the third has another plaintext and must not.
    #[test]
    fn a_ledger_in_a_file_outlives_the_process() {
        let name = "a_ledger_in_a_file_outlives_the_process";
        if let Some(what) = std::env::var_os(CHILD) {
            let what = what.into_string().unwrap();
            let (path, plaintext) = what.split_once('|').unwrap();
            note(&[8; 32], &[8; 32], b"before the file was named");
            keep_in(&PathBuf::from(path)).unwrap();
            note(&[9; 32], &[9; 32], plaintext.as_bytes());
            // As a power cut would: nothing is closed.
            std::process::exit(0);
        }
        let folder = std::env::temp_dir().join(format!("strongroom-ledger-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("ledger");
        let run = |plaintext| child(name, &format!("{}|{plaintext}", path.display()));
        assert!(run("first").status.success());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 2 * 64);
        assert!(run("first").status.success());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 2 * 64);
        assert_aborted(&run("second"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

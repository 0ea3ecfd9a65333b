//! Watches that no key and nonce ever meet two plaintexts. In builds with the feature `nonce-ledger` only.
//!
//! Takes   each key, nonce and chunk before it is encrypted
//! Gives   nothing; ends the process at the first pair used twice for different bytes
//! Never   keeps a key or a plaintext, only hashes of them
//! Spec    spec/2-block.md, [2.14]
//!
//! It grows by 64 bytes and map overhead per distinct chunk and forgets nothing: for test runs, not for use.

use crate::keys::KEY_BYTES;
use crate::suite::NONCE_BYTES;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::Write;
use std::sync::LazyLock;

/// For each hash of key and nonce, the hash of the one plaintext they met.
static SEEN: LazyLock<Mutex<HashMap<[u8; 32], [u8; 32]>>> = LazyLock::new(Mutex::default);

/// Notes that `key` and `nonce` are about to encrypt `chunk`.
///
/// Aborts, and does not merely panic: no handler may carry on past a broken invariant of this weight.
pub(crate) fn note(key: &[u8; KEY_BYTES], nonce: &[u8; NONCE_BYTES], chunk: &[u8]) {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key).update(nonce);
    let pair = *hasher.finalize().as_bytes();
    let plaintext = *blake3::hash(chunk).as_bytes();
    if *SEEN.lock().entry(pair).or_insert(plaintext) != plaintext {
        // Written past any capture of output, which an abort would lose. If even that fails, the abort still speaks.
        let _ = std::io::stderr()
            .write_all(b"nonce ledger: one key and nonce met two plaintexts [2.14]\n");
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Set in the child process that is meant to abort.
    const CHILD: &str = "STRONGROOM_TEST_LEDGER_CHILD";

    #[test]
    fn one_key_and_nonce_may_meet_the_same_plaintext_again() {
        note(&[1; 32], &[1; 12], b"same");
        note(&[1; 32], &[1; 12], b"same");
        note(&[1; 32], &[2; 12], b"other nonce");
        note(&[2; 32], &[1; 12], b"other key");
    }

    /// Runs itself in a child process, because the abort would end the test run.
    #[test]
    fn a_second_plaintext_under_one_key_and_nonce_aborts_the_process() {
        if std::env::var_os(CHILD).is_some() {
            note(&[3; 32], &[3; 12], b"first");
            note(&[3; 32], &[3; 12], b"second");
            return;
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "ledger::tests::a_second_plaintext_under_one_key_and_nonce_aborts_the_process",
            ])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(!child.status.success());
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
}

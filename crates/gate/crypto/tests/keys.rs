//! Vaults written by an independent implementation of spec/1-keys.md, and variants with one fault each.
//!
//! Argon2id runs here at the real minimum cost, without the feature `cheap-argon2`.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use strongroom_crypto::{KeyFile, Keyring, Passphrase, RecoveryCode, Secret, UnlockError, unlock};
use strongroom_format::{Epoch, Kind, hex};

/// How many cases there are; a file that is lost must not pass unseen.
const CASES: usize = 39;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    lines: Vec<String>,
    vault: String,
    generation: u64,
    epochs: Vec<u32>,
    slots: Vec<String>,
    id_of_text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    spec: String,
    expect: String,
    why: String,
    edits: Vec<(usize, usize, Vec<String>)>,
    secret: CaseSecret,
    last_seen: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseSecret {
    kind: String,
    text: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../spec/vectors/keys")
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> T {
    serde_json::from_slice(&std::fs::read(path).expect("the vector is there"))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Case {
    fn header(&self, base: &Base) -> Vec<u8> {
        let mut lines = base.lines.clone();
        for (first, removed, put) in &self.edits {
            lines.splice(*first..first + removed, put.iter().cloned());
        }
        lines.join("\n").into_bytes()
    }

    fn secret(&self) -> Secret {
        let text = &self.secret.text;
        match self.secret.kind.as_str() {
            "passphrase" => Secret::Passphrase(
                Passphrase::new(text.as_bytes()).expect("the secret of a vector is well-formed"),
            ),
            "recovery-code" => Secret::RecoveryCode(
                RecoveryCode::parse(text).expect("the secret of a vector is well-formed"),
            ),
            "key-file" => Secret::KeyFile(
                KeyFile::parse(text.as_bytes()).expect("the secret of a vector is well-formed"),
            ),
            other => panic!("{other} is no kind of secret"),
        }
    }
}

/// The word that a vector uses for an error.
fn word(error: &UnlockError) -> String {
    match error {
        UnlockError::Damaged { .. } => "damaged".to_owned(),
        UnlockError::Format(_) => "format".to_owned(),
        UnlockError::WrongSecret { .. } => "wrong-secret".to_owned(),
        UnlockError::NoSlotOfThatKind { .. } => "no-slot".to_owned(),
        UnlockError::Forged(forged) => format!("forged {}", forged.record),
        UnlockError::ForeignMembership => "foreign-membership".to_owned(),
        UnlockError::ForeignSlot { .. } => "foreign-slot".to_owned(),
        UnlockError::SlotNotMember { .. } => "slot-not-member".to_owned(),
        UnlockError::GrantMissing { epoch } => format!("grant-missing {}", epoch.0),
        UnlockError::GrantForged { epoch } => format!("grant-forged {}", epoch.0),
        UnlockError::HeaderEdited => "header-edited".to_owned(),
        UnlockError::GenerationBehind { .. } => "generation-behind".to_owned(),
        other => format!("{other:?}"),
    }
}

fn assert_opened(keyring: &Keyring, base: &Base, name: &str) {
    assert_eq!(hex::encode(&keyring.vault_id().0), base.vault, "{name}");
    assert_eq!(keyring.generation(), base.generation, "{name}");
    let epochs: Vec<_> = base.epochs.iter().copied().map(Epoch).collect();
    assert_eq!(keyring.epochs().collect::<Vec<_>>(), epochs, "{name}");
    let labels: Vec<_> = keyring.slots().into_iter().map(|slot| slot.label).collect();
    assert!(labels.starts_with(&base.slots), "{name}");
    // The id key came out right: a block gets the name that the other implementation gives it.
    let id = keyring.block_sealer().seal(Kind::Data, b"text").id;
    assert_eq!(hex::encode(&id.0), base.id_of_text, "{name}");
}

#[test]
fn every_vector_opens_or_fails_as_the_specification_says() {
    let base: Base = read(&folder().join("base.json"));
    let mut paths: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| !path.ends_with("base.json"));
    paths.sort();
    assert_eq!(paths.len(), CASES);
    for path in paths {
        let case: Case = read(&path);
        let name = format!(
            "{}: [{}] {}",
            path.file_name().unwrap().display(),
            case.spec,
            case.why
        );
        match unlock(&case.header(&base), &case.secret(), case.last_seen) {
            Ok(keyring) => {
                assert_eq!(case.expect, "ok", "{name}");
                assert_opened(&keyring, &base, &name);
            }
            Err(error) => assert_eq!(word(&error), case.expect, "{name}: {error}"),
        }
    }
}

/// A slot far below the floor, as only a test build makes them, is refused by a build without that feature.
/// SECURITY.md, claim 4.
#[cfg(not(feature = "cheap-argon2"))]
#[test]
fn this_build_makes_no_cheap_passphrase_slot() {
    let error = strongroom_crypto::Argon2Cost::new(64, 1, 1).unwrap_err();
    assert!(error.to_string().contains("memory_kib is 64"), "{error}");
}

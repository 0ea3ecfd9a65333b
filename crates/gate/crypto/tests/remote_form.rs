//! The form of a header for remotes, written by an independent implementation of spec/1-keys.md, and variants with one fault each.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use strongroom_crypto::{Keyring, Passphrase, RecoveryCode, Secret, UnlockError, unlock_at_remote};

/// How many cases there are; a file that is lost must not pass unseen.
const CASES: usize = 26;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    lines: Vec<String>,
    vault_json: Vec<String>,
}

/// First line, lines removed, lines put there.
type Edit = (usize, usize, Vec<String>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    spec: String,
    expect: String,
    why: String,
    edits: Vec<Edit>,
    secret: CaseSecret,
    /// What the `vault.json` has that it stands for, if another than that of the base.
    vault_json: Option<Vec<Edit>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseSecret {
    kind: String,
    text: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../spec/vectors/remote-form")
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> T {
    serde_json::from_slice(&std::fs::read(path).expect("the vector is there"))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Case {
    fn header(&self, base: &Base) -> Vec<u8> {
        edited(&base.lines, &self.edits)
    }

    fn secret(&self) -> Secret {
        let text = &self.secret.text;
        let well_formed = "the secret of a vector is well-formed";
        match self.secret.kind.as_str() {
            "passphrase" => {
                Secret::Passphrase(Passphrase::new(text.as_bytes()).expect(well_formed))
            }
            "recovery-code" => Secret::RecoveryCode(RecoveryCode::parse(text).expect(well_formed)),
            other => panic!("{other} is no kind of secret"),
        }
    }
}

fn edited(lines: &[String], edits: &[Edit]) -> Vec<u8> {
    let mut lines = lines.to_vec();
    for (first, removed, put) in edits {
        lines.splice(*first..first + removed, put.iter().cloned());
    }
    lines.join("\n").into_bytes()
}

/// The word that a vector uses for what came out.
fn word(opened: &Result<Keyring, UnlockError>) -> String {
    match opened {
        Ok(_) => "ok".to_owned(),
        Err(UnlockError::Format(_)) => "format".to_owned(),
        Err(UnlockError::WrongSecret { .. }) => "wrong-secret".to_owned(),
        Err(UnlockError::PassphrasesWithheld { .. }) => "withheld".to_owned(),
        Err(UnlockError::WithheldForged) => "withheld-forged".to_owned(),
        Err(UnlockError::HeaderEdited) => "header-edited".to_owned(),
        Err(other) => format!("{other:?}"),
    }
}

/// Goal: both implementations make the same bytes of either form from the other, and refuse the same.
/// SECURITY.md, claim 24.
#[test]
fn every_vector_of_the_form_for_remotes_opens_or_fails_as_the_specification_says() {
    let base: Base = read(&folder().join("base.json"));
    let form = base.lines.join("\n").into_bytes();
    let mut paths: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| !path.ends_with("base.json"));
    assert_eq!(paths.len(), CASES);
    for path in paths {
        let case: Case = read(&path);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let opened = unlock_at_remote(&case.header(&base), &case.secret());
        let about = format!("{name}, {}: {}", case.spec, case.why);
        assert_eq!(word(&opened), case.expect, "{about}");
        if let Ok(keyring) = opened {
            let edits = case.vault_json.as_deref();
            let vault_json = edited(&base.vault_json, edits.unwrap_or_default());
            let form = match edits {
                Some(_) => case.header(&base),
                None => form.clone(),
            };
            assert_eq!(keyring.header_bytes().unwrap(), vault_json, "{about}");
            assert_eq!(keyring.remote_header().unwrap(), form, "{about}");
        }
    }
}

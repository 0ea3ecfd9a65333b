//! Tests, on a real vault, forgeries by a person whose key was removed. An independent implementation made the forgeries.
//!
//! Takes   `spec/vectors/take-over`: the vault of `state.json`, one attempt per file
//! Gives   nothing; fails if an attempt is accepted as the vault's own
//! Never   is part of the product: it is a test
//! Spec    spec/1-keys.md, sections 1.8 and 1.9

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use strongroom_crypto::{KeyFile, Secret, unlock};
use strongroom_filesystem::{Background, Filesystem};
use strongroom_metadata::Store;

use crate::folder::{Folder, HEADER, REPLICA};
use crate::keyring::known_records;
use crate::keyring::own_replica::Files;
use crate::own_login::OwnLogin;
use crate::request::Access;
use crate::{
    Error, Keys, OpenOptions, Rebuild, RecoverOptions, Result, SeenRecords, Trust, Vault, open,
    recover,
};

/// How many attempts there are; one that is lost must not pass unseen.
const ATTEMPTS: usize = 34;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    lines: Vec<String>,
    replica: String,
    metadata_key: String,
    vault: String,
    owner: String,
    removed: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    spec: String,
    expect: String,
    why: String,
    header: Option<Vec<(usize, usize, Vec<String>)>>,
    files: BTreeMap<String, String>,
}

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../spec/vectors/take-over")
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> T {
    serde_json::from_slice(&fs::read(path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn attempts() -> Vec<(String, Attempt)> {
    let mut paths: Vec<_> = fs::read_dir(vectors())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("state.json"))
        .collect();
    paths.sort();
    assert_eq!(paths.len(), ATTEMPTS);
    let named = paths.iter().map(|path| {
        let attempt: Attempt = read(path);
        let name = path.file_name().unwrap().display().to_string();
        (
            format!("{name}: [{}] {}", attempt.spec, attempt.why),
            attempt,
        )
    });
    named.collect()
}

/// Every attempt is on the same vault, and what one folder says must not count for the next.
fn no_records() -> Trust {
    Trust {
        seen: SeenRecords::Nowhere,
        ..Trust::default()
    }
}

fn unseen(options: OpenOptions) -> OpenOptions {
    OpenOptions {
        trust: no_records(),
        ..options
    }
}

impl State {
    fn secret(text: &str) -> Secret {
        Secret::KeyFile(KeyFile::parse(text.as_bytes()).unwrap())
    }

    /// A vault with some content on the keys of the vectors, closed.
    fn vault(&self, path: &Path) {
        let folder = Folder::new(path);
        folder.make().unwrap();
        folder.replace(REPLICA, self.replica.as_bytes()).unwrap();
        let header = self.lines.join("\n");
        let found = strongroom_crypto::list_members(header.as_bytes()).unwrap();
        assert_eq!(found.len(), 2, "one device and the owner's slot");
        folder.replace(HEADER, header.as_bytes()).unwrap();
        let owner = Self::secret(&self.owner);
        let mut keyring = unlock(header.as_bytes(), &owner, None).unwrap();
        assert_eq!(
            strongroom_format::hex::encode(&keyring.vault_id().0),
            self.vault
        );
        let files = Files::read(&folder).unwrap();
        let replica = files.replica_of(&mut keyring).unwrap();
        let key = replica.metadata_key().bytes();
        assert_eq!(strongroom_format::hex::encode(key), self.metadata_key);
        assert_eq!(
            replica.metadata_key_epoch(),
            Some(strongroom_format::Epoch(1))
        );
        let options = strongroom_metadata::Options::default();
        let store = Store::create(path, key, options).unwrap();
        known_records::see(&store, &keyring, Access::ReadWrite).unwrap();
        let options = OpenOptions::default();
        let keys = (&keyring, OwnLogin::of(&keyring));
        let parts = open::parts(&folder, keys, store, Access::ReadWrite, &options).unwrap();
        Filesystem::format(&parts, 0, 0).unwrap();
        drop(parts);
        let vault = self.open(path).unwrap();
        vault.write("/secret", "of the owner").unwrap();
        vault.close().unwrap();
    }

    fn open(&self, path: &Path) -> Result<Vault> {
        Vault::open(
            path,
            Self::secret(&self.owner),
            unseen(OpenOptions::default()),
        )
    }
}

impl Attempt {
    /// Puts what he forged into the folder.
    fn make(&self, state: &State, path: &Path) {
        if let Some(edits) = &self.header {
            let mut lines = state.lines.clone();
            for (first, removed, put) in edits {
                lines.splice(*first..first + removed, put.iter().cloned());
            }
            fs::write(path.join(HEADER), lines.join("\n")).unwrap();
        }
        for (name, text) in &self.files {
            fs::write(path.join(name), text).unwrap();
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Nothing that he put there is left, and his key opens nothing.
fn assert_whole(state: &State, path: &Path, name: &str) {
    let vault = state.open(path).unwrap();
    assert_eq!(vault.read("/secret").unwrap(), b"of the owner", "{name}");
    let information = vault.information().unwrap();
    assert!(information.unknown_records.is_empty(), "{name}");
    vault.close().unwrap();
    for file in [HEADER, REPLICA] {
        let saved = fs::read(path.join(format!("{file}.saved"))).unwrap();
        assert_eq!(saved, fs::read(path.join(file)).unwrap(), "{name}");
    }
    assert!(!path.join("replica.json.next").exists(), "{name}");
    let his = State::secret(&state.removed);
    let opened = Vault::open(path, his, unseen(OpenOptions::default()));
    assert!(matches!(opened, Err(Error::WrongSecret(_))), "{name}");
}

/// Goal: with every secret that a removed holder can have, he gets neither in nor anything new taken for the vault's own.
/// Failed before: the device that he knew stayed a member (`next-by-device`, `old-replica`), and a header was believed for its
/// generation (`fork`, `old-header-raised`).
/// SECURITY.md, claim 5.
#[test]
fn every_forgery_of_a_removed_holder_is_refused_by_name_or_mended() {
    let state: State = read(&vectors().join("state.json"));
    let place = tempfile::tempdir().unwrap();
    let whole = place.path().join("whole");
    state.vault(&whole);
    assert_whole(&state, &whole, "state");
    for (number, (name, attempt)) in attempts().into_iter().enumerate() {
        let path = place.path().join(number.to_string());
        copy_folder(&whole, &path);
        attempt.make(&state, &path);
        match state.open(&path) {
            Ok(vault) => {
                vault.close().unwrap();
                assert_eq!(attempt.expect, "ok", "{name}");
                assert_whole(&state, &path, &name);
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(&attempt.expect), "{name}: {text}");
                // Who only looks is told the same, and a recovery takes nothing of it for the vault's.
                let owner = State::secret(&state.owner);
                let looked = Vault::open(&path, owner.clone(), unseen(OpenOptions::read_only()));
                assert_eq!(looked.unwrap_err().to_string(), text, "{name}");
                // A database whose key he knows would be rebuilt.
                let options = RecoverOptions {
                    rebuild: Rebuild::Never,
                    trust: no_records(),
                };
                if recover(&path, &owner, options, &mut |_| {}).is_ok() {
                    assert_whole(&state, &path, &name);
                }
            }
        }
        fs::remove_dir_all(&path).unwrap();
    }
}

/// The same after the owner has rotated the keys, and under a process that has the vault open: it keeps its own.
/// SECURITY.md, claim 6.
#[test]
fn after_a_rotation_and_under_an_owner_no_forgery_is_taken_either() {
    let state: State = read(&vectors().join("state.json"));
    let place = tempfile::tempdir().unwrap();
    let whole = place.path().join("whole");
    state.vault(&whole);
    let mut keys = Keys::open_with(&whole, &State::secret(&state.owner), no_records()).unwrap();
    keys.rotate().unwrap();
    assert_whole(&state, &whole, "rotated");
    for (number, (name, attempt)) in attempts().into_iter().enumerate() {
        let path = place.path().join(number.to_string());
        copy_folder(&whole, &path);
        attempt.make(&state, &path);
        let refused = match state.open(&path) {
            Ok(vault) => {
                vault.close().unwrap();
                assert_whole(&state, &path, &name);
                false
            }
            Err(error) => {
                let by_name = matches!(
                    error,
                    Error::Damaged { .. }
                        | Error::GenerationBehind { .. }
                        | Error::HeaderForeign { .. }
                        | Error::UnknownFormat(_)
                );
                assert!(by_name, "{name}: {error:?}");
                true
            }
        };
        assert_eq!(refused, attempt.expect != "ok", "{name}");
        fs::remove_dir_all(&path).unwrap();
        // Under an owner: whoever changes keys then is refused, and what the owner writes is sealed as before.
        if attempt.header.is_none() {
            continue;
        }
        copy_folder(&whole, &path);
        // Its background would end the rotation, and put a header of its own over his.
        let mut options = unseen(OpenOptions::default());
        options.engine.background = Background::Manual;
        let vault = Vault::open(&path, State::secret(&state.owner), options).unwrap();
        let epoch = vault.information().unwrap().epoch;
        attempt.make(&state, &path);
        let changed = Keys::open_with(&path, &State::secret(&state.owner), no_records())
            .and_then(|mut keys| keys.rotate());
        assert!(changed.is_err(), "{name}");
        let information = vault.information().unwrap();
        assert_eq!(information.epoch, epoch, "{name}");
        vault.close().unwrap();
        fs::remove_dir_all(&path).unwrap();
    }
}

//! A vault that is opened by a relative path, in a process of its own: it changes its working directory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::env::set_current_dir;
use std::fs;
use std::sync::Arc;

use strongroom::{
    CreateOptions, FileOptions, KeyFile, NewRevision, OpenOptions, Secret, SecretSource,
    SystemRandom, Vault,
};

/// Goal: the path means the folder that it meant when the vault was opened. Method: after it was made or opened, the process goes
/// elsewhere, and does what opens files of the vault folder by their paths: a snapshot, a small sync, taking over from an owner.
/// Failed before: the snapshot was written below the new working directory, or nowhere, and nobody could take over.
#[test]
fn a_relative_path_means_the_same_folder_after_the_process_has_gone_elsewhere() {
    let place = tempfile::tempdir().unwrap();
    let elsewhere = place.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let key = KeyFile::random(&SystemRandom).unwrap();
    let secret = Secret::KeyFile(key.clone());

    set_current_dir(place.path()).unwrap();
    let options = CreateOptions::new().key_file(key);
    let vault = Vault::create("vault", options).unwrap().vault;
    set_current_dir(&elsewhere).unwrap();
    let options = FileOptions::new().write().create();
    let file = vault.open_file("/file", options).unwrap();
    for content in ["first", "later"] {
        file.write_all_at(content.as_bytes(), 0).unwrap();
        file.sync_all().unwrap();
    }
    let new = NewRevision {
        message: String::new(),
        tags: Vec::new(),
        only_if_changed: false,
    };
    vault.take_revision(&new).unwrap().unwrap();
    drop(file);
    vault.close().unwrap();

    let folder = place.path().join("vault");
    let owner = Vault::open(&folder, secret.clone(), OpenOptions::default()).unwrap();
    set_current_dir(place.path()).unwrap();
    let source: SecretSource = Arc::new(move || Ok(secret.clone()));
    let client = Vault::open_or_connect("vault", source, OpenOptions::default()).unwrap();
    set_current_dir(&elsewhere).unwrap();
    owner.close().unwrap();
    assert_eq!(client.read("/file").unwrap(), b"later");
    assert!(client.is_owner());
    assert_eq!(client.revisions().unwrap().len(), 1);
    assert!(client.check().unwrap().problems.is_empty());
    assert!(client.folder().is_absolute());
    client.close().unwrap();
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

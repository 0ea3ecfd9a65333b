//! A mount and a program that has the vault open: each gets what it needs, in turns.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs;

use strongroom::{
    Error, FileOptions, KeyFile, Keys, OpenOptions, Secret, SeenRecords, Trust, Vault,
};
use support::{MountPoint, Place};

fn secret(place: &Place) -> Secret {
    Secret::KeyFile(KeyFile::parse(&fs::read(place.path("key")).unwrap()).unwrap())
}

/// As a program opens it that is there for long.
fn open(place: &Place) -> Vault {
    let options = OpenOptions {
        trust: Trust {
            seen: SeenRecords::Nowhere,
            ..Trust::default()
        },
        ..OpenOptions::default()
    };
    Vault::open(place.path("v"), secret(place), options).unwrap()
}

/// Mounts where the program of this test looks for who owns its vault.
fn mount(place: &Place) {
    let mut command = place.command(&["mount", "v", "m", "--key-file", "key"]);
    let mounted = command.env_remove("XDG_RUNTIME_DIR").output().unwrap();
    assert!(mounted.status.success(), "{mounted:?}");
}

/// Goal: a drive can be mounted although a program has the vault open, and the program goes on, during the mount and after it.
/// Failed before: the mount waited 10 seconds and was refused, for as long as the program lived.
#[test]
fn a_program_leaves_the_vault_to_a_mount_and_comes_back_after_it() {
    let place = Place::new();
    fs::create_dir(place.path("m")).unwrap();
    let program = open(&place);
    program.write("/early", "of the program").unwrap();
    assert!(program.is_owner());
    let _mount = MountPoint::new(&place);
    mount(&place);
    assert_eq!(fs::read(place.path("m/early")).unwrap(), b"of the program");
    program.write("/meanwhile", "through the mount").unwrap();
    assert!(!program.is_owner());
    assert_eq!(
        fs::read(place.path("m/meanwhile")).unwrap(),
        b"through the mount"
    );
    // Keys that are added are no hindrance.
    place.keyed(&["key", "add", "v", "--new-key-file", "another"]);
    fs::write(place.path("m/late"), "of the drive").unwrap();
    place.done(&["umount", "m"]);
    assert_eq!(program.read("/late").unwrap(), b"of the drive");
    assert!(program.is_owner());
    // Again, and nobody is left behind; only new keys take a secret.
    mount(&place);
    program.write("/last", "of the program").unwrap();
    place.keyed(&["key", "rotate", "v"]);
    place.done(&["umount", "m"]);
    assert!(matches!(program.read("/last"), Err(Error::OwnerGone)));
    program.close().unwrap();
    assert_eq!(place.keyed(&["cat", "v:/last"]), "of the program");
}

#[test]
fn a_program_with_an_open_file_keeps_the_vault_and_its_file() {
    let place = Place::new();
    fs::create_dir(place.path("m")).unwrap();
    let program = open(&place);
    let options = FileOptions::new().read().write().create();
    let file = program.open_file("/file", options).unwrap();
    place.keyed_fails(7, &["mount", "v", "m"]);
    file.write_all_at(b"still there", 0).unwrap();
    assert!(program.is_owner());
    drop(file);
    let _mount = MountPoint::new(&place);
    place.keyed(&["mount", "v", "m"]);
    assert_eq!(fs::read(place.path("m/file")).unwrap(), b"still there");
    place.done(&["umount", "m"]);
}

/// Who asked does not come: the program has lost nothing.
#[test]
fn a_program_that_left_for_a_mount_that_failed_comes_back() {
    let place = Place::new();
    let program = open(&place);
    place.keyed_fails(3, &["mount", "v", "nowhere"]);
    program.write("/file", "of the program").unwrap();
    assert_eq!(program.read("/file").unwrap(), b"of the program");
    program.close().unwrap();
    let keys = Keys::open(place.path("v"), &secret(&place));
    assert!(keys.is_ok());
}

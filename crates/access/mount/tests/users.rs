//! What other users may do on a drive, and what their changes cost a program. They are other processes.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use strongroom_mount::MountOptions;
use support::Drive;

/// Somebody who owns nothing.
const NOBODY: u32 = 65_534;

/// A drive that everybody can reach.
fn open_drive() -> Drive {
    let drive = Drive::with(&MountOptions {
        allow_other: true,
        ..MountOptions::default()
    });
    fs::set_permissions(drive.folder.path(), fs::Permissions::from_mode(0o755))
        .expect("a folder for a test");
    fs::set_permissions(drive.at(""), fs::Permissions::from_mode(0o777))
        .expect("a drive for a test");
    drive
}

/// Whether `script` succeeds when nobody runs it on the drive.
fn nobody(drive: &Drive, script: &str) -> bool {
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(script)
        .current_dir(drive.at(""))
        .uid(NOBODY)
        .gid(NOBODY)
        .stderr(Stdio::null());
    shell.status().expect("a shell to run").success()
}

/// SECURITY.md, claim 20.
#[test]
fn the_kernel_keeps_other_users_within_the_modes() {
    let drive = open_drive();
    for (name, mode) in [("secret", 0o600), ("public", 0o444)] {
        fs::write(drive.at(name), name).unwrap();
        fs::set_permissions(drive.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    assert!(nobody(&drive, "test \"$(cat public)\" = public"));
    assert!(!nobody(&drive, "cat secret"));
    assert!(!nobody(&drive, "echo x >> public"));
    assert!(nobody(
        &drive,
        "echo mine > own && test \"$(cat own)\" = mine"
    ));
    assert_eq!(fs::metadata(drive.at("own")).unwrap().uid(), NOBODY);
    assert!(!nobody(&drive, "chown 0 own"));
    assert!(nobody(&drive, "chmod 444 own && ! (echo x >> own)"));
}

/// SECURITY.md, claim 20.
#[test]
fn without_allow_other_nobody_else_gets_in() {
    let drive = Drive::new();
    fs::set_permissions(drive.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(drive.at("public"), b"public").unwrap();
    let path = drive.at("public");
    let mut cat = Command::new("cat");
    cat.arg(&path)
        .uid(NOBODY)
        .gid(NOBODY)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    assert!(!cat.status().unwrap().success());
    assert_eq!(fs::read(path).unwrap(), b"public");
}

#[test]
fn privileges_of_a_program_are_lost_when_it_is_changed() {
    let drive = open_drive();
    let path = drive.at("program");
    let arm = || fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
    let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
    fs::write(&path, b"program").unwrap();
    arm();
    assert_eq!(mode(), 0o6777);
    assert!(nobody(&drive, "echo more >> program"));
    assert_eq!(mode(), 0o777, "after a write");
    arm();
    assert!(nobody(&drive, "truncate -s 3 program"));
    assert_eq!(mode(), 0o777, "after a truncation");
    arm();
    std::os::unix::fs::chown(&path, Some(1), Some(1)).unwrap();
    assert_eq!(mode(), 0o777, "after a change of owner");
}

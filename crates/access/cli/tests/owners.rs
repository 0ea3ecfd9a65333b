//! A mount and a program that both want to own the vault: each gets access in turn.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use strongroom::{
    Error, FileOptions, KeyFile, Keys, OpenOptions, Secret, SeenRecords, Trust, Vault,
};
use support::{MountPoint, Place};

fn secret(place: &Place) -> Secret {
    Secret::KeyFile(KeyFile::parse(&fs::read(place.path("key")).unwrap()).unwrap())
}

/// As a program opens it that is there for long.
fn open(place: &Place) -> Vault {
    open_at(&place.path("v"), secret(place))
}

fn open_at(folder: &Path, secret: Secret) -> Vault {
    let options = OpenOptions {
        trust: Trust {
            seen: SeenRecords::Nowhere,
            ..Trust::default()
        },
        ..OpenOptions::default()
    };
    Vault::open(folder, secret, options).unwrap()
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

/// Goal: a drive that is killed takes nothing from the program that left the vault to it: what was acknowledged by either is there, the
/// program goes on by itself, and the next mount comes. Method: SIGKILL, again and again.
#[test]
fn a_program_comes_back_when_the_drive_it_left_the_vault_to_is_killed() {
    let place = Place::new();
    fs::create_dir(place.path("m")).unwrap();
    let program = open(&place);
    let _mount = MountPoint::new(&place);
    for round in 0..5 {
        mount(&place);
        let mut file = File::create(place.path(&format!("m/drive{round}"))).unwrap();
        file.write_all(b"of the drive").unwrap();
        file.sync_all().unwrap();
        program
            .write(format!("/program{round}"), "of the program")
            .unwrap();
        program.sync().unwrap();
        assert!(!program.is_owner(), "round {round}");
        let drive = program.information().unwrap().owner_pid;
        let drive = Pid::from_raw(i32::try_from(drive).unwrap()).unwrap();
        kill_process(drive, Signal::KILL).unwrap();
        for past in 0..=round {
            let read = |name: &str| program.read(format!("/{name}{past}")).unwrap();
            assert_eq!(read("drive"), b"of the drive", "round {round}");
            assert_eq!(read("program"), b"of the program", "round {round}");
        }
        assert!(program.is_owner(), "round {round}");
    }
    program.close().unwrap();
    place.keyed(&["verify", "--deep", "v"]);
}

/// Where the child of a test finds its place.
const CHILD_OF: &str = "STRONGROOM_TEST_PLACE";

/// In a child process: a program that has the vault open and syncs one file after the other, until it is killed.
fn as_program() -> Option<()> {
    let place = std::env::var_os(CHILD_OF)?;
    let key = fs::read(Path::new(&place).join("key")).unwrap();
    let secret = Secret::KeyFile(KeyFile::parse(&key).unwrap());
    let vault = open_at(&Path::new(&place).join("v"), secret);
    for number in 0.. {
        vault
            .write(format!("/{number}"), number.to_string())
            .unwrap();
        vault.sync().unwrap();
        println!("synced {number}");
    }
    Some(())
}

fn program_of(place: &Place, test: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD_OF, place.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Goal: a program that is killed while it leaves the vault to a drive takes nothing along: the drive comes, with all that the program
/// had synced. Method: the program syncs file after file before, while and after the drive takes over; it is killed a growing number of
/// files after the drive was asked for.
#[test]
fn a_drive_comes_when_the_program_that_leaves_the_vault_to_it_is_killed() {
    if as_program().is_some() {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("m")).unwrap();
    let _mount = MountPoint::new(&place);
    for round in 0..6 {
        let test = "a_drive_comes_when_the_program_that_leaves_the_vault_to_it_is_killed";
        let mut program = program_of(&place, test);
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let mut synced = || loop {
            let line = lines.next().unwrap().unwrap();
            if let Some((_, number)) = line.rsplit_once("synced ") {
                return number.parse::<u64>().unwrap();
            }
        };
        synced();
        let synced = std::thread::scope(|scope| {
            let drive = scope.spawn(|| mount(&place));
            let mut last = 0;
            for _ in 0..=(round * 40) {
                last = synced();
            }
            program.kill().unwrap();
            program.wait().unwrap();
            drive.join().unwrap();
            last
        });
        for number in 0..=synced {
            let found = fs::read_to_string(place.path(&format!("m/{number}"))).unwrap();
            assert_eq!(found, number.to_string(), "round {round}");
        }
        place.keyed(&["verify", "--deep", "v"]);
        let mut unmount = place.command(&["umount", "m"]);
        assert!(
            unmount
                .env_remove("XDG_RUNTIME_DIR")
                .status()
                .unwrap()
                .success()
        );
    }
}

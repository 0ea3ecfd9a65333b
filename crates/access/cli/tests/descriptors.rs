//! A mount under a low limit of open files. Needs /dev/fuse.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::process::{Command, Output};

use support::{MountPoint, Place};

/// Mounts in a shell that has set limits before.
fn mount(place: &Place, limits: &str) -> Output {
    let whole = place.command(&["mount", "v", "m", "--key-file", "key"]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{limits} && exec \"$@\""), "sh"])
        .arg(whole.get_program())
        .args(whole.get_args())
        .current_dir(whole.get_current_dir().unwrap());
    for (name, value) in whole.get_envs() {
        shell.env(name, value.unwrap());
    }
    shell.output().unwrap()
}

/// Failed before: the limit stayed as it was, and with fewer than are needed the mount ended some time later, or reads
/// failed, without a word.
#[test]
fn a_low_limit_is_raised_and_one_that_cannot_be_is_said() {
    let place = Place::new();
    fs::create_dir(place.path("m")).unwrap();
    let refused = mount(&place, "ulimit -n 40");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(13), "{words}");
    assert!(words.contains("may open only 40 files"), "{words}");
    assert!(words.contains("ulimit -n 1024"), "{words}");

    let mounted = mount(&place, "ulimit -S -n 64");
    let words = String::from_utf8_lossy(&mounted.stderr).into_owned();
    assert!(mounted.status.success(), "{words}");
    let _mount = MountPoint::new(&place);
    let information = place.keyed(&["info", "v", "--json"]);
    let pid = information.split("owner_pid").nth(1).unwrap();
    let pid: String = pid
        .chars()
        .skip_while(|character| !character.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = line.unwrap().split_whitespace().nth(3).unwrap();
    assert_eq!(soft, "1024", "{limits}");
}

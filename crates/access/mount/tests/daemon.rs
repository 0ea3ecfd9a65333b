//! Mounts in another process, which ends normally, ends while the mount is busy, or is killed.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]
mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use strongroom_mount::{MountError, MountOptions, Mounted, Unmount, Waiting};
use support::daemon::Daemon;
use support::new_vault;

/// Not a test: the process that the tests below start. Mounts and waits for its end.
#[test]
#[ignore = "started by the other tests"]
fn daemon() {
    support::daemon::serve();
}

/// Unmounts, however long it takes.
fn unmount(path: &Path, how: Unmount) -> Result<(), MountError> {
    strongroom_mount::unmount(path, how, &mut |_| ControlFlow::Continue(()))
}

fn is_mounted(path: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let path = path.canonicalize().unwrap();
    table
        .lines()
        .any(|line| line.split(' ').nth(4) == path.to_str())
}

#[test]
fn unmounting_returns_when_the_daemon_has_made_everything_durable() {
    let mut daemon = Daemon::start();
    fs::write(daemon.mount_point().join("file"), b"content").unwrap();
    unmount(&daemon.mount_point(), Unmount::IfUnused).unwrap();
    assert!(!is_mounted(&daemon.mount_point()));
    // The process is gone: nothing has to be waited for any more.
    assert!(daemon.child.try_wait().unwrap().unwrap().success());
    assert!(daemon.says("ended"));
    let again = unmount(&daemon.mount_point(), Unmount::IfUnused);
    assert!(matches!(again, Err(MountError::NotMounted(_))));
}

/// Failed before: nobody was named, and a lazy unmount waited for the last user.
#[test]
fn a_mount_in_use_is_refused_with_who_uses_it_or_let_go_at_once() {
    let mut daemon = Daemon::start();
    let path = daemon.mount_point();
    let mut file = File::create(path.join("file")).unwrap();
    let refused = unmount(&path, Unmount::IfUnused);
    let Err(MountError::Busy(in_use)) = refused else {
        panic!("{refused:?}")
    };
    let own = std::process::id();
    assert!(in_use.by.iter().any(|one| one.pid == own), "{in_use}");
    unmount(&path, Unmount::Lazily).unwrap();
    // The file works on until it is closed; only then the daemon ends.
    file.write_all(b"content").unwrap();
    file.sync_all().unwrap();
    assert!(!is_mounted(&path));
    assert!(daemon.child.try_wait().unwrap().is_none());
    drop(file);
    assert!(daemon.says("ended"));
    assert!(daemon.child.wait().unwrap().success());
}

/// Failed before: it stood in the mount, or had a program of it mapped, and nobody said who.
#[test]
fn a_process_that_stands_in_the_mount_and_a_mount_in_it_are_named() {
    let daemon = Daemon::start();
    let path = daemon.mount_point();
    let mut standing = Command::new("sleep")
        .arg("1000")
        .current_dir(&path)
        .spawn()
        .unwrap();
    let refused = unmount(&path, Unmount::IfUnused);
    standing.kill().unwrap();
    standing.wait().unwrap();
    let Err(MountError::Busy(in_use)) = refused else {
        panic!("{refused:?}")
    };
    let named = in_use.by.iter().any(|one| one.pid == standing.id());
    assert!(named, "{in_use}");
    fs::create_dir(path.join("inner")).unwrap();
    let none = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", path.join("inner"), "tmpfs", none, None).unwrap();
    let refused = unmount(&path, Unmount::IfUnused);
    rustix::mount::unmount(path.join("inner"), rustix::mount::UnmountFlags::empty()).unwrap();
    let Err(MountError::Busy(in_use)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(in_use.mounts, [path.canonicalize().unwrap().join("inner")]);
    unmount(&path, Unmount::IfUnused).unwrap();
}

/// Goal: whoever waits is told for what, and may stop. Failed before: `unmount` hung without a word as long as a mount namespace
/// that was made later kept the mount.
#[test]
fn a_mount_namespace_that_keeps_the_mount_is_named_and_nobody_has_to_wait_for_it() {
    let mut daemon = Daemon::start();
    let path = daemon.mount_point();
    let mut keeping = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .args(["sh", "-c", "echo kept; read end"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut kept = String::new();
    let mut output = BufReader::new(keeping.stdout.take().unwrap());
    output.read_line(&mut kept).unwrap();
    assert_eq!(kept, "kept\n");
    let mut heard = Vec::new();
    let stopped = strongroom_mount::unmount(&path, Unmount::IfUnused, &mut |waiting| {
        heard.push(waiting.clone());
        match waiting {
            Waiting::SeenElsewhere(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    let error = stopped.unwrap_err();
    assert!(matches!(error, MountError::StillRuns { .. }), "{error}");
    assert!(!is_mounted(&path));
    let Some(Waiting::SeenElsewhere(holders)) = heard.last() else {
        panic!("{heard:?}")
    };
    assert!(holders.iter().any(|one| one.pid == keeping.id()), "{error}");
    assert!(daemon.child.try_wait().unwrap().is_none());
    drop(keeping.stdin.take());
    keeping.wait().unwrap();
    assert!(daemon.says("ended"));
    assert!(daemon.child.wait().unwrap().success());
}

/// Failed before, of SIGHUP, which comes when the terminal of `mount -f` is closed: it killed the process, and the dead mount stayed.
#[test]
fn a_signal_ends_the_daemon_with_everything_durable_even_when_in_use() {
    // Below `nohup` it stays ignored.
    let hangs_up = (!strongroom_mount::ignores(Signal::HUP.as_raw())).then_some(Signal::HUP);
    for signal in [Signal::TERM, Signal::INT].into_iter().chain(hangs_up) {
        let mut daemon = Daemon::start();
        let mut file = File::create(daemon.mount_point().join("file")).unwrap();
        file.write_all(b"accepted").unwrap();
        daemon.signal(signal);
        assert!(daemon.says("ended"));
        assert!(daemon.child.wait().unwrap().success());
        assert!(!is_mounted(&daemon.mount_point()));
        assert!(file.write_all(b"too late").is_err());
    }
}

/// A file system that somebody mounts at a place. Taken away at the end, also of a test that fails.
struct Another(PathBuf);

impl Another {
    fn at(place: PathBuf) -> Self {
        let none = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", &place, "tmpfs", none, None).unwrap();
        fs::write(place.join("theirs"), b"theirs").unwrap();
        Self(place)
    }
}

impl Drop for Another {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Goal: a mount that ends takes no other file system away. Method: one is mounted over the mount, or in its place after a lazy
/// unmount that an open file outlives; it is unused or busy.
/// Failed before: the end unmounted whatever was mounted at the path, lazily if it was busy.
#[test]
fn the_end_of_a_mount_leaves_what_others_have_mounted_there() {
    for (covers, is_busy) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut daemon = Daemon::start();
        let place = daemon.mount_point();
        let _open = File::create(place.join("file")).unwrap();
        if !covers {
            rustix::mount::unmount(&place, rustix::mount::UnmountFlags::DETACH).unwrap();
        }
        let another = Another::at(place.clone());
        let _busy = is_busy.then(|| File::open(place.join("theirs")).unwrap());
        daemon.signal(Signal::TERM);
        assert!(daemon.says("ended"));
        assert!(daemon.child.wait().unwrap().success());
        let left = fs::read(place.join("theirs"));
        assert_eq!(
            left.unwrap(),
            b"theirs",
            "covers: {covers}, busy: {is_busy}"
        );
        drop(another);
        // The mount below is dead; without one, this is the folder.
        assert_eq!(rustix::fs::statfs(&place).is_err(), covers);
    }
}

/// What the kernel still knows of a dead mount must not make it look alive: attributes that were asked for before the kill are
/// answered without the process.
#[test]
fn a_killed_daemon_leaves_a_place_that_can_be_mounted_again() {
    let mut daemon = Daemon::start();
    let place = daemon.mount_point();
    fs::write(place.join("file"), b"before").unwrap();
    rustix::fs::stat(&place).unwrap();
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    let dead = fs::metadata(daemon.mount_point()).unwrap_err();
    assert_eq!(
        dead.raw_os_error(),
        Some(rustix::io::Errno::NOTCONN.raw_os_error())
    );
    let vault = new_vault(&daemon.folder.path().join("another"));
    let filesystem = vault.filesystem().unwrap();
    let mounted =
        Mounted::start(filesystem, &daemon.mount_point(), &MountOptions::default()).unwrap();
    fs::write(daemon.mount_point().join("file"), b"works").unwrap();
    mounted.unmount().unwrap();
}

/// Failed before: the protocol library panicked at the earliest time there is, and any user of the mount could end it so.
#[test]
fn a_time_that_cannot_be_kept_is_refused_and_ends_nothing() {
    use rustix::fs::{Timespec, Timestamps, futimens};
    let mut daemon = Daemon::start();
    let kept = File::create(daemon.mount_point().join("kept")).unwrap();
    let set = |tv_sec| {
        let time = Timespec { tv_sec, tv_nsec: 1 };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        futimens(&kept, &times)
    };
    let overflow = Err(rustix::io::Errno::OVERFLOW);
    for never in [
        i64::MIN,
        i64::MIN + 1,
        -1 << 40,
        1 << 40,
        i64::MAX - 1,
        i64::MAX,
    ] {
        assert_eq!(set(never), overflow, "{never}");
    }
    assert_eq!(set(-1), Ok(()));
    assert_eq!(kept.metadata().unwrap().mtime(), -1);
    drop(kept);
    daemon.signal(Signal::TERM);
    assert!(daemon.says("ended"));
}

#[test]
fn unmounting_after_a_killed_daemon_says_that_nothing_was_confirmed() {
    let mut daemon = Daemon::start();
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    let ended = unmount(&daemon.mount_point(), Unmount::IfUnused);
    assert!(
        matches!(ended, Err(MountError::Unconfirmed(_))),
        "{ended:?}"
    );
    assert!(!is_mounted(&daemon.mount_point()));
}

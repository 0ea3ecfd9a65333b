//! A mount in another process, which shares neither locks nor memory with this one. The reason: a thread that writes to
//! a mapped file waits for the mount while it holds the memory-map lock of its process.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal};
use strongroom::{CreateOptions, Secret, Vault};
use strongroom_mount::{MountOptions, Mounted};
use tempfile::TempDir;

use super::process_of_test;

const FOLDER: &str = "STRONGROOM_TEST_FOLDER";
/// Set for a daemon whose writes the kernel gathers.
const WRITEBACK: &str = "STRONGROOM_TEST_WRITEBACK";

/// What the ignored test `daemon` of each test program does in a process of its own: mounts, and waits for the end.
pub(crate) fn serve() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let created = Vault::create(folder.join("vault"), CreateOptions::new()).unwrap();
    let vault = created.vault;
    let filesystem = vault.filesystem().unwrap();
    let options = MountOptions {
        writeback: std::env::var_os(WRITEBACK).is_some(),
        ..MountOptions::default()
    };
    let mounted = Mounted::start(filesystem, &folder.join("mnt"), &options).unwrap();
    mounted.process_ends_with_it();
    mounted.end_on_signals().unwrap();
    println!("\nmounted");
    if let Err(error) = mounted.wait() {
        // The last sync still ran: only the connection was lost.
        println!("\n{error}");
        std::process::exit(3);
    }
    println!("\nended");
    drop(mounted);
    vault.close().unwrap();
    // For who compares: what is there when the vault is opened next.
    let secret = Secret::RecoveryCode(created.recovery_code);
    let vault = Vault::open(
        folder.join("vault"),
        secret,
        strongroom::OpenOptions::default(),
    )
    .unwrap();
    if let Ok(content) = vault.read("/live") {
        fs::write(folder.join("kept"), content).unwrap();
    }
    vault.close().unwrap();
}

/// One test at a time: a process being started holds, between fork and exec, the files of all others.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A daemon of its own. Killed, reaped and unmounted at the end, also of a test that fails.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    output: BufReader<std::process::ChildStdout>,
    pub(crate) folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Daemon {
    pub(crate) fn start() -> Self {
        Self::start_with(false)
    }

    pub(crate) fn start_with(writeback: bool) -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("mnt")).unwrap();
        let mut command = process_of_test("daemon");
        if writeback {
            command.env(WRITEBACK, "1");
        }
        let mut child = command
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut daemon = Self {
            child,
            output,
            folder,
            _alone: alone,
        };
        assert!(daemon.says("mounted"));
        daemon
    }

    /// Reads until that line or the end.
    pub(crate) fn says(&mut self, line: &str) -> bool {
        (&mut self.output)
            .lines()
            .any(|read| read.is_ok_and(|read| read == line))
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.mount_point().join(name)
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended; then both are no-ops, and the mount is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = rustix::mount::unmount(self.mount_point(), rustix::mount::UnmountFlags::DETACH);
    }
}

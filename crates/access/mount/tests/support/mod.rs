//! A vault on a drive, in temporary folders.
#![allow(dead_code, reason = "each test program uses a part of this")]

pub(crate) mod daemon;
pub(crate) mod libaio;
pub(crate) mod mapped;
pub(crate) mod requests;

use std::path::{Path, PathBuf};

use strongroom::filesystem::Filesystem;
use strongroom::{CreateOptions, Vault};
use strongroom_mount::{MountOptions, Mounted};
use tempfile::TempDir;

/// A mounted vault. The mount ends before the vault, and the vault before its folder.
pub(crate) struct Drive {
    pub(crate) mounted: Mounted,
    pub(crate) filesystem: Filesystem,
    pub(crate) vault: Vault,
    pub(crate) folder: TempDir,
}

impl Drive {
    pub(crate) fn new() -> Self {
        Self::with(&MountOptions::default())
    }

    pub(crate) fn with(options: &MountOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder for a test");
        std::fs::create_dir(folder.path().join("mnt")).expect("a mount point for a test");
        let vault = new_vault(&folder.path().join("vault"));
        let filesystem = vault.filesystem().expect("whoever creates a vault owns it");
        let mounted = Mounted::start(filesystem.clone(), &folder.path().join("mnt"), options)
            .expect("mounting needs root or fusermount3, and /dev/fuse");
        Self {
            mounted,
            filesystem,
            vault,
            folder,
        }
    }

    /// A path on the drive.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.mounted.path().join(path)
    }
}

/// A vault that only its recovery code opens: the cheapest to make.
pub(crate) fn new_vault(folder: &Path) -> Vault {
    Vault::create(folder, CreateOptions::new())
        .expect("a new vault in a new folder")
        .vault
}

/// Runs the ignored test `name` of this test program as a process of its own.
pub(crate) fn process_of_test(name: &str) -> std::process::Command {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = std::process::Command::new(program);
    command.args(["--ignored", "--exact", "--nocapture", name]);
    command
}

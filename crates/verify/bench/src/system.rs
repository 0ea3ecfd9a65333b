//! The compared file systems, as one table with an entry for each.
//!
//! Gives   how `serve.rs` makes and serves each; the path and the version of its program
//! Never   installs one: `make bench-peers` does; a missing one is named

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The passphrase of every file system here; nothing is secret in them.
pub(crate) const SECRET: &str = "bench";

/// How a file system comes to its directory.
#[derive(Clone, Copy, Debug)]
pub enum Served {
    /// It is there.
    Plain,
    /// By a program in the foreground. Words `STORE`, `MOUNT` and `SECRETFILE` stand for paths; what the programs ask
    /// for is answered on standard input.
    Program {
        /// Makes the store; empty if mounting does.
        create: &'static [&'static str],
        /// Serves it until it is unmounted.
        mount: &'static [&'static str],
        /// Added to the environment.
        environment: &'static [(&'static str, &'static str)],
    },
    /// By the kernel: ext4 with encryption, in a file.
    Encrypted,
}

/// What is durable when its row's clock stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// `syncfs` on the directory.
    Directory,
    /// `strongroom sync`.
    Vault,
    /// `syncfs` on the directory, then on the file system beneath.
    Beneath,
}

/// One file system.
#[derive(Clone, Copy, Debug)]
pub struct System {
    /// In tables.
    pub name: &'static str,
    /// The program that must be installed.
    pub program: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// Its arguments that print its version.
    pub version: &'static [&'static str],
    /// How it is served.
    pub served: Served,
    /// How it is synced.
    pub sync: Sync,
    /// What a reader of its figures must know.
    pub note: &'static str,
}

/// The file system beneath all others.
pub const PLAIN: System = System {
    name: "plain",
    program: "",
    package: "",
    version: &[],
    served: Served::Plain,
    sync: Sync::Directory,
    note: "the file system beneath all others",
};

/// Ours.
pub const STRONGROOM: System = System {
    name: "strongroom",
    program: "strongroom",
    package: "",
    version: &["--version"],
    served: Served::Program {
        create: &["init", "--passphrase-file", "SECRETFILE", "STORE"],
        mount: &[
            "mount",
            "-f",
            "--passphrase-file",
            "SECRETFILE",
            "STORE",
            "MOUNT",
        ],
        environment: &[],
    },
    sync: Sync::Vault,
    note: "a sync is `strongroom sync`, the start of that program included",
};

/// The others.
pub const PEERS: &[System] = &[
    System {
        name: "gocryptfs",
        program: "gocryptfs",
        package: "gocryptfs",
        version: &["-version"],
        served: Served::Program {
            create: &[
                "-init",
                "-q",
                "-scryptn",
                "10",
                "-passfile",
                "SECRETFILE",
                "STORE",
            ],
            mount: &["-fg", "-q", "-passfile", "SECRETFILE", "STORE", "MOUNT"],
            environment: &[],
        },
        sync: Sync::Beneath,
        note: "writes through",
    },
    System {
        name: "securefs",
        program: "securefs",
        package: "securefs",
        version: &["version"],
        served: Served::Program {
            create: &["create", "--pass", SECRET, "STORE"],
            mount: &["mount", "--pass", SECRET, "STORE", "MOUNT"],
            environment: &[],
        },
        sync: Sync::Beneath,
        note: "writes through",
    },
    System {
        name: "encfs",
        program: "encfs",
        package: "encfs",
        version: &["--version"],
        served: Served::Program {
            create: &[],
            mount: &["-f", "--standard", "--stdinpass", "STORE", "MOUNT"],
            environment: &[],
        },
        sync: Sync::Beneath,
        note: "writes through; content is not authenticated",
    },
    System {
        name: "cryfs",
        program: "cryfs",
        package: "cryfs",
        version: &["--version"],
        served: Served::Program {
            create: &[],
            mount: &["-f", "STORE", "MOUNT"],
            environment: &[
                ("CRYFS_FRONTEND", "noninteractive"),
                ("CRYFS_NO_UPDATE_CHECK", "true"),
            ],
        },
        sync: Sync::Beneath,
        note: "keeps blocks in its own memory for a while",
    },
    System {
        name: "rclone",
        program: "rclone",
        package: "rclone",
        version: &["version"],
        served: Served::Program {
            create: &[],
            mount: &[
                "mount",
                "bench:",
                "MOUNT",
                "--vfs-cache-mode",
                "writes",
                "--vfs-write-back",
                "0s",
                "--cache-dir",
                "CACHE",
            ],
            environment: &[
                ("RCLONE_CONFIG", "/dev/null"),
                ("RCLONE_CONFIG_BENCH_TYPE", "crypt"),
                ("RCLONE_CONFIG_BENCH_REMOTE", "STORE"),
                (
                    "RCLONE_CONFIG_BENCH_PASSWORD",
                    "UCD5zeL-0s30H1-uT6m02S9jAvAb",
                ),
            ],
        },
        sync: Sync::Beneath,
        note: "writes go to a cache, and to the encrypted store after the file is closed",
    },
    System {
        name: "fscrypt",
        program: "e4crypt",
        package: "e2fsprogs",
        version: &[],
        served: Served::Encrypted,
        sync: Sync::Directory,
        note: "ext4's own encryption by the kernel, on a loop device with direct I/O; content is not authenticated",
    },
];
impl System {
    /// The path of its program: `given`, or the one found in `PATH`.
    #[must_use]
    pub fn find(&self, given: Option<&Path>) -> Option<PathBuf> {
        if self.program.is_empty() {
            return Some(PathBuf::new());
        }
        if let Some(given) = given {
            return given.exists().then(|| given.to_path_buf());
        }
        let path = std::env::var_os("PATH")?;
        let extra = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        let mut folders = std::env::split_paths(&path).chain(extra);
        folders.find_map(|folder| Some(folder.join(self.program)).filter(|path| path.is_file()))
    }

    /// What the program says of itself, or the version of its package, where it is installed from one.
    pub(crate) fn version_of(&self, program: &Path) -> String {
        let first = |command: &mut Command| {
            let output = command.stdin(Stdio::null()).output().ok()?;
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            let found = text
                .lines()
                .find(|line| line.contains(|letter: char| letter.is_ascii_digit()))?;
            output.status.success().then(|| found.trim().to_owned())
        };
        let mut package = Command::new("dpkg-query");
        package.args(["-W", "-f=${Package} ${Version}", self.package]);
        let packaged = program.starts_with("/usr") && !self.package.is_empty();
        let packaged = packaged.then(|| first(&mut package)).flatten();
        let asked = !self.version.is_empty();
        let told = || {
            asked
                .then(|| first(Command::new(program).args(self.version)))
                .flatten()
        };
        packaged.or_else(told).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_a_missing_program_is_not_found() {
        let mut names: Vec<_> = PEERS
            .iter()
            .chain([&PLAIN, &STRONGROOM])
            .map(|system| system.name)
            .collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        let none = System {
            program: "no-such-program",
            ..PEERS[0]
        };
        assert_eq!(none.find(None), None);
        assert_eq!(STRONGROOM.find(Some(Path::new("/no/such/program"))), None);
    }
}

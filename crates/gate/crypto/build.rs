//! Writes the versions of the cryptographic libraries of this build into `versions.rs`, from the workspace's lock file.
//!
//! A saved measurement holds only for the library versions that it was made with. Without these versions nobody could
//! see that it is outdated.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The libraries behind the providers. OpenSSL is not here: it tells its version itself.
const LIBRARIES: &[&str] = &[
    "aegis",
    "aes-gcm",
    "argon2",
    "aws-lc-rs",
    "blake3",
    "chacha20poly1305",
    "ed25519-dalek",
    "graviola",
    "ring",
    "sha2",
];

fn main() {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .expect("cargo says where it builds");
    let out = std::env::var_os("OUT_DIR")
        .map(PathBuf::from)
        .expect("cargo says where to write");
    println!("cargo::rerun-if-changed=build.rs");
    let lock = here
        .ancestors()
        .map(|folder| folder.join("Cargo.lock"))
        .find(|path| path.is_file());
    let lock = lock.map_or(String::new(), |path| read(&path));
    let mut table = "const VERSIONS: &[(&str, &str)] = &[\n".to_owned();
    for name in LIBRARIES {
        if let Some(version) = newest(&lock, name) {
            writeln!(table, "    (\"{name}\", \"{version}\"),").expect("a string takes every text");
        }
    }
    table.push_str("];\n");
    std::fs::write(out.join("versions.rs"), table).expect("cargo made the folder to write to");
}

fn read(path: &Path) -> String {
    println!("cargo::rerun-if-changed={}", path.display());
    std::fs::read_to_string(path).expect("the lock file can be read")
}

/// The newest version of `name` in the lock file: this crate asks for that; older ones are there for others.
fn newest(lock: &str, name: &str) -> Option<String> {
    let wanted = format!("name = \"{name}\"");
    let mut lines = lock.lines();
    let mut versions = Vec::new();
    while lines.any(|line| line == wanted) {
        let version = lines
            .next()?
            .strip_prefix("version = \"")?
            .strip_suffix('"')?;
        versions.push(version.to_owned());
    }
    let numbers = |version: &String| -> Vec<u64> {
        version
            .split(['.', '-', '+'])
            .map_while(|part| part.parse().ok())
            .collect()
    };
    versions.into_iter().max_by_key(numbers)
}

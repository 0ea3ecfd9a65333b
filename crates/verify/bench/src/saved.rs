//! Saves runs: each in a folder of its own, named after day and machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Machine, today};

/// Makes a new folder below `into` for a run of today on `machine`.
///
/// `kind`: what sets the run apart from a full one, as in `quick`; empty for a full one.
///
/// # Errors
/// Of the disk.
pub fn new_folder(into: &Path, machine: &Machine, kind: &str) -> io::Result<PathBuf> {
    let mut name = format!("{}-{}", today(), machine.slug());
    if !kind.is_empty() {
        name = format!("{name}-{kind}");
    }
    fs::create_dir_all(into)?;
    for number in 1.. {
        let folder = match number {
            1 => into.join(&name),
            _ => into.join(format!("{name}-{number}")),
        };
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder),
        }
    }
    unreachable!("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_run_takes_the_folder_of_another() {
        let into = tempfile::tempdir().unwrap();
        let machine = Machine::here(into.path());
        let mut folders = Vec::new();
        for kind in ["", "", "engine", "engine"] {
            folders.push(new_folder(&into.path().join("deep"), &machine, kind).unwrap());
        }
        assert!(folders.iter().all(|folder| folder.is_dir()));
        folders.dedup();
        assert_eq!(folders.len(), 4);
        assert!(folders[3].to_string_lossy().ends_with("-engine-2"));
    }
}

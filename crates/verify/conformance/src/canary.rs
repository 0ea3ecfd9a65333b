//! Searches for plaintext in a folder that may hold only ciphertext.
//!
//! Takes   a folder, and names and contents that must not be readable in it
//! Gives   every file and offset at which one of them is found
//! Never   follows symlinks
//! Spec    none: test only

use std::path::{Path, PathBuf};

/// A piece of plaintext found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// Where.
    pub file: PathBuf,
    /// First byte, or `None` if the file's own name shows it.
    pub offset: Option<u64>,
    /// Which of the secrets, by its place in the list.
    pub secret: usize,
}

/// Searches every byte and every name below `folder` for each of `secrets`, which must be 4 bytes or longer: anything
/// shorter is in random bytes by chance.
///
/// # Errors
/// Of reading.
pub fn leaks(folder: &Path, secrets: &[&[u8]]) -> std::io::Result<Vec<Leak>> {
    assert!(
        secrets.iter().all(|secret| secret.len() >= 4),
        "a secret too short to be looked for"
    );
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        let kind = std::fs::symlink_metadata(&path)?.file_type();
        let name = path
            .file_name()
            .map(|name| name.as_encoded_bytes().to_vec())
            .unwrap_or_default();
        let bytes = if kind.is_file() {
            std::fs::read(&path)?
        } else {
            Vec::new()
        };
        if kind.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        }
        for (secret, wanted) in secrets.iter().enumerate() {
            if path != folder && contains_at(&name, wanted).is_some() {
                found.push(Leak {
                    file: path.clone(),
                    offset: None,
                    secret,
                });
            }
            if let Some(at) = contains_at(&bytes, wanted) {
                found.push(Leak {
                    file: path.clone(),
                    offset: Some(at as u64),
                    secret,
                });
            }
        }
    }
    Ok(found)
}

fn contains_at(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_content_and_in_names_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/plain"), b"....the secret....").unwrap();
        std::fs::write(folder.path().join("sub/the secret name"), b"").unwrap();
        let found = leaks(folder.path(), &[b"the secret", b"not there"]).unwrap();
        let mut places: Vec<_> = found
            .iter()
            .map(|leak| (leak.offset, leak.secret))
            .collect();
        places.sort();
        assert_eq!(places, [(None, 0), (Some(4), 0)]);
    }
}

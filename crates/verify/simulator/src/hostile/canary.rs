//! Notices every change outside of the vault folder.
//!
//! Takes   a folder
//! Gives   a record of everything below it: names, kinds, links, times, content
//! Never   follows a link

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Everything below a folder, by relative path.
pub type Picture = BTreeMap<Vec<u8>, String>;

/// The most bytes of one file that are read.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Which facts of a node are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Facts {
    /// All that anybody could have changed.
    All,
    /// The same without the count of names, and the time at which it changed.
    AllButLinks,
    /// Kind, size and content: what a copy of it has, too.
    Content,
}

/// A picture of everything below `folder`; what cannot be read is `error`.
#[must_use]
pub fn picture(folder: &Path, facts: Facts) -> Picture {
    let mut picture = Picture::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(at) = open.pop() {
        let relative = at.strip_prefix(folder).unwrap_or(&at);
        let key = relative.as_os_str().as_bytes().to_vec();
        match look(&at, facts) {
            Ok((text, is_folder)) => {
                let mut text = text;
                if is_folder {
                    match list(&at) {
                        Ok(below) => open.extend(below),
                        Err(_) => text = "error".to_owned(),
                    }
                }
                picture.insert(key, text);
            }
            Err(_) => drop(picture.insert(key, "error".to_owned())),
        }
    }
    picture
}

fn list(folder: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

fn look(path: &Path, facts: Facts) -> io::Result<(String, bool)> {
    let node = fs::symlink_metadata(path)?;
    let mut text = format!("{:o}", node.mode() & 0o170_000);
    if facts != Facts::Content {
        let owner = (node.uid(), node.gid());
        let mtime = (node.mtime(), node.mtime_nsec());
        text.push_str(&format!(
            " {:o} {owner:?} inode {} mtime {mtime:?}",
            node.mode(),
            node.ino()
        ));
    }
    if facts == Facts::All {
        let ctime = (node.ctime(), node.ctime_nsec());
        text.push_str(&format!(" links {} ctime {ctime:?}", node.nlink()));
    }
    if node.is_symlink() {
        text.push_str(&format!(" -> {}", fs::read_link(path)?.display()));
    }
    if node.is_file() {
        text.push_str(&format!(" {} bytes {:016x}", node.len(), hash(path)?));
    }
    Ok((text, node.is_dir()))
}

fn hash(path: &Path) -> io::Result<u64> {
    let mut file = fs::File::open(path)?.take(FILE_BYTES_MAX);
    let mut hasher = DefaultHasher::new();
    let mut part = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut part)?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.write(&part[..count]);
    }
}

/// The first difference between two pictures.
#[must_use]
pub fn difference(before: &Picture, after: &Picture) -> Option<String> {
    let gone = before.iter().find(|(path, _)| !after.contains_key(*path));
    if let Some((path, _)) = gone {
        return Some(format!("{} is gone", path.escape_ascii()));
    }
    after
        .iter()
        .find_map(|(path, text)| match before.get(path) {
            None => Some(format!("{} is new", path.escape_ascii())),
            Some(old) if old != text => {
                Some(format!("{}: {old} became {text}", path.escape_ascii()))
            }
            Some(_) => None,
        })
}

/// Makes the canary: files, an empty folder, a folder with something in it, a copy of another vault.
///
/// # Errors
/// Of the disk.
pub fn make(folder: &Path, vault: &Path) -> io::Result<()> {
    fs::create_dir_all(folder.join("empty"))?;
    fs::create_dir_all(folder.join("papers"))?;
    fs::write(folder.join("papers/letter"), "a letter\n")?;
    fs::write(
        folder.join("thesis"),
        "the only copy of a thesis\n".repeat(400),
    )?;
    let copied = folder.join("vault");
    crate::damage::base::copy(vault, &copied)?;
    // Of an open vault; most of it is zeros, which are read twice in each case.
    match fs::remove_file(copied.join("intents")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

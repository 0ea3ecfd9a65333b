//! Lists the entries of a folder.

use rustix::fs::{Dir, FileType};

use crate::error::Result;
use crate::folder::Folder;

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// What has it. Of a link: the link itself.
    pub kind: FileType,
}

impl Folder {
    /// Everything in this folder, in no order. Names that are no UTF-8 are left out: no file of a vault has one.
    ///
    /// # Errors
    /// Of the system.
    pub fn list(&self) -> Result<Vec<Entry>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(self)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if matches!(name, "." | "..") {
                continue;
            }
            let kind = match entry.file_type() {
                // The file system does not say it in passing.
                FileType::Unknown => self.kind(name)?,
                kind => Some(kind),
            };
            // Gone meanwhile.
            let Some(kind) = kind else { continue };
            found.push(Entry {
                name: name.to_owned(),
                kind,
            });
        }
        Ok(found)
    }
}

//! Gives segment files their names back: a file that says in its header that it is another.
//!
//! Takes   the folder of segments
//! Gives   each file whose header is sound under the name that it says, where that name is free or becomes free
//! Never   overwrites a file, or opens a block
//! Spec    spec/7-recovery.md, [7.7.2]
//!
//! Invariants
//!  (1) Killed between two renames, no file is under the name of another; what waits under a name of its own gets its
//!      place the next time.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use strongroom_format::limits::SECTOR_BYTES;
use strongroom_format::segment::SegmentHeader;
use strongroom_format::{SegmentId, hex};

use crate::folder::{Folder, SEGMENTS};
use crate::recover::Trial;
use crate::verify::show_segment;
use crate::{Error, Result};

/// What a file is called that waits for its place.
const WAITING: &str = ".misnamed";

/// Puts the names right; gives how many were wrong.
pub(crate) fn put_right(folder: &Folder, trial: Trial) -> Result<u64> {
    let mut misnamed: HashMap<PathBuf, SegmentId> = HashMap::new();
    for path in files(&folder.part(SEGMENTS))? {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let said = name.strip_suffix(WAITING).unwrap_or(name);
        let is_segment = said.len() == 32 && said.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_segment {
            continue;
        }
        if let Some(id) = header_id(&path)
            && hex::encode(&id.0) != name
        {
            misnamed.insert(path, id);
        }
    }
    let count = misnamed.len() as u64;
    if trial == Trial::OnlyLook {
        return Ok(count);
    }
    let failed = || Error::io("giving a segment its name back");
    // (1)
    let mut waiting: Vec<(PathBuf, SegmentId)> = Vec::new();
    for (path, id) in misnamed {
        let aside = match path.to_string_lossy().ends_with(WAITING) {
            true => path,
            false => {
                let mut aside = path.clone().into_os_string();
                aside.push(WAITING);
                fs::rename(&path, &aside).map_err(failed())?;
                aside.into()
            }
        };
        waiting.push((aside, id));
    }
    for (path, id) in waiting {
        let place = folder.part(&show_segment(id));
        if let Some(holder) = place.parent() {
            fs::create_dir_all(holder).map_err(failed())?;
        }
        if place.symlink_metadata().is_err() {
            fs::rename(&path, &place).map_err(failed())?;
        }
        for holder in [path.parent(), place.parent()].into_iter().flatten() {
            Folder::new(holder).sync()?;
        }
    }
    Ok(count)
}

/// Every file in the folders of segments.
fn files(segments: &Path) -> Result<Vec<PathBuf>> {
    let failed = || Error::io("listing the segments");
    let mut found = Vec::new();
    let folders = match fs::read_dir(segments) {
        Ok(folders) => folders,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(failed()(error)),
    };
    for folder in folders {
        let folder = folder.map_err(failed())?;
        if !folder.file_type().map_err(failed())?.is_dir() {
            continue;
        }
        for file in fs::read_dir(folder.path()).map_err(failed())? {
            let file = file.map_err(failed())?;
            if file.file_type().map_err(failed())?.is_file() {
                found.push(file.path());
            }
        }
    }
    Ok(found)
}

/// Which segment a file says that it is, if its header is sound.
fn header_id(path: &Path) -> Option<SegmentId> {
    let mut sector = vec![0; SECTOR_BYTES];
    File::open(path).ok()?.read_exact(&mut sector).ok()?;
    Some(SegmentHeader::decode(&sector).ok()?.id)
}

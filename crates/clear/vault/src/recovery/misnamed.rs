//! Renames segment files whose name differs from the name in their header.
//!
//! Takes   the folder of segments
//! Gives   each file with a sound header under the name that the header says, if that name is free or becomes free
//! Never   overwrites a file, or opens a block
//! Spec    spec/7-recovery.md, [7.7.2]
//!
//! Invariants
//!  (1) After a kill between two renames, no file has the name of another. A file that is left under a temporary name gets its name
//!      at the next repair.

use std::io::Read;

use rustix::fs::FileType;
use strongroom_folder::{Folder as HeldFolder, Purpose};
use strongroom_format::limits::SECTOR_BYTES;
use strongroom_format::segment::SegmentHeader;
use strongroom_format::{SegmentId, hex};

use crate::Result;
use crate::folder::{Folder, SEGMENTS, below};
use crate::recovery::recover::Trial;

/// What a file is called that waits for its place.
const WAITING: &str = ".misnamed";

/// A file under a name that is not its own.
struct Misnamed {
    /// The folder in that of segments.
    folder: String,
    name: String,
    id: SegmentId,
}

/// Puts the names right; gives how many were wrong.
pub(crate) fn put_right(folder: &Folder, trial: Trial) -> Result<u64> {
    put_right_below(folder, trial).map_err(below("renaming a segment to its right name"))
}

fn put_right_below(folder: &Folder, trial: Trial) -> strongroom_folder::Result<u64> {
    let segments = match folder.hold()?.folder(SEGMENTS) {
        Err(error) if error.is_missing() => return Ok(0),
        segments => segments?,
    };
    let misnamed = find(&segments)?;
    let count = misnamed.len() as u64;
    if trial == Trial::OnlyLook {
        return Ok(count);
    }
    // (1)
    let mut waiting = Vec::with_capacity(misnamed.len());
    for one in misnamed {
        let mut name = one.name;
        if !name.ends_with(WAITING) {
            let aside = format!("{name}{WAITING}");
            segments.folder(&one.folder)?.rename(&name, &aside)?;
            name = aside;
        }
        waiting.push(Misnamed { name, ..one });
    }
    for one in waiting {
        give_its_name(&segments, &one)?;
    }
    Ok(count)
}

fn give_its_name(segments: &HeldFolder, one: &Misnamed) -> strongroom_folder::Result<()> {
    let name = hex::encode(&one.id.0);
    let from = segments.folder(&one.folder)?;
    if segments.kind(&name[..2])?.is_none() && segments.make_folder(&name[..2])? {
        segments.sync()?;
    }
    let to = match segments.folder(&name[..2]) {
        // It waits until its folder is one.
        Err(strongroom_folder::Error::Odd(_)) => return from.sync(),
        to => to?,
    };
    if to.kind(&name)?.is_none() {
        from.move_to(&one.name, &to, &name)?;
    }
    from.sync()?;
    to.sync()
}

/// Every file in the folders of segments whose header says another name than it has.
fn find(segments: &HeldFolder) -> strongroom_folder::Result<Vec<Misnamed>> {
    let mut found = Vec::new();
    for folder in segments.list()? {
        if folder.kind != FileType::Directory {
            continue;
        }
        let inside = segments.folder(&folder.name)?;
        for file in inside.list()? {
            let said = file.name.strip_suffix(WAITING).unwrap_or(&file.name);
            let is_segment =
                said.len() == 32 && said.bytes().all(|digit| digit.is_ascii_hexdigit());
            if !is_segment || file.kind != FileType::RegularFile {
                continue;
            }
            if let Some(id) = header_id(&inside, &file.name)
                && hex::encode(&id.0) != file.name
            {
                found.push(Misnamed {
                    folder: folder.name.clone(),
                    name: file.name,
                    id,
                });
            }
        }
    }
    Ok(found)
}

/// Which segment a file says that it is, if its header is sound.
fn header_id(folder: &HeldFolder, name: &str) -> Option<SegmentId> {
    let mut sector = vec![0; SECTOR_BYTES];
    let mut file = folder.open_file(name, Purpose::Read).ok()?;
    file.read_exact(&mut sector).ok()?;
    Some(SegmentHeader::decode(&sector).ok()?.id)
}

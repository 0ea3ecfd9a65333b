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

use std::collections::HashSet;
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
    let misnamed = without_taken(&segments, misnamed)?;
    let count = misnamed.len() as u64;
    if trial == Trial::OnlyLook {
        return Ok(count);
    }
    // (1)
    let mut waiting = Vec::with_capacity(misnamed.len());
    for one in misnamed {
        let mut name = one.name;
        if !name.ends_with(WAITING) {
            let folder = segments.folder(&one.folder)?;
            let mut aside = format!("{name}{WAITING}");
            let mut number = 1;
            // One that waits there already is not replaced.
            while folder.kind(&aside)?.is_some() {
                number += 1;
                aside = format!("{name}.{number}{WAITING}");
            }
            folder.move_to(&name, &folder, &aside)?;
            name = aside;
        }
        waiting.push(Misnamed { name, ..one });
    }
    for one in waiting {
        give_its_name(&segments, &one)?;
    }
    Ok(count)
}

/// `misnamed` without those whose name is that of a file that stays: such a file stays too, unless another one needs the name that it has.
/// So a repair finds it, tells it and sets it aside; a file that waits nobody looks into.
fn without_taken(
    segments: &HeldFolder,
    misnamed: Vec<Misnamed>,
) -> strongroom_folder::Result<Vec<Misnamed>> {
    let leaving: HashSet<String> = misnamed.iter().map(|one| one.name.clone()).collect();
    let wanted: HashSet<String> = misnamed.iter().map(|one| hex::encode(&one.id.0)).collect();
    let mut left = Vec::new();
    for one in misnamed {
        let name = hex::encode(&one.id.0);
        let is_taken = !leaving.contains(&name)
            && match segments.folder(&name[..2]) {
                Ok(folder) => folder.kind(&name)?.is_some(),
                Err(_) => false,
            };
        if !is_taken || wanted.contains(&one.name) {
            left.push(one);
        }
    }
    Ok(left)
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
            let waiting = file.name.strip_suffix(WAITING);
            let said = waiting.and_then(|name| name.split('.').next());
            let said = said.unwrap_or(&file.name);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::fs;
    use std::path::{Path, PathBuf};

    use strongroom_format::segment::SegmentVersion;
    use strongroom_format::{Epoch, SuiteId};

    use super::*;

    /// The path of a segment below the vault folder, by the byte that its name is made of.
    fn path_of(folder: &Folder, byte: u8) -> PathBuf {
        let name = hex::encode(&[byte; 16]);
        folder.part(SEGMENTS).join(&name[..2]).join(name)
    }

    /// Writes a file under the name of one segment that says that it is another one; `rest` tells it from others.
    fn put(folder: &Folder, name: u8, id: u8, rest: &str) {
        let header = SegmentHeader {
            version: SegmentVersion::Sectors,
            suite: SuiteId::Aes256GcmBlake3,
            epoch: Epoch(0),
            id: SegmentId([id; 16]),
        };
        let path = path_of(folder, name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = header.encode().to_vec();
        bytes.resize(SECTOR_BYTES, 0);
        bytes.extend_from_slice(rest.as_bytes());
        fs::write(path, bytes).unwrap();
    }

    fn rest_of(path: &Path) -> String {
        let bytes = fs::read(path).unwrap();
        String::from_utf8(bytes[SECTOR_BYTES..].to_vec()).unwrap()
    }

    /// Goal: names that were exchanged are put right. A copy of a segment that is there stays where it is, counts as nothing that is to be
    /// done, and replaces no other file that waits. Failed before: each repair counted it again, and a second copy replaced the first.
    #[test]
    fn names_are_put_right_and_a_file_whose_name_is_taken_stays_where_it_is() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        put(&folder, 1, 2, "two");
        put(&folder, 2, 1, "one");
        put(&folder, 3, 3, "three");
        put(&folder, 4, 3, "copy of three");
        assert_eq!(put_right(&folder, Trial::OnlyLook).unwrap(), 2);
        assert_eq!(put_right(&folder, Trial::ForReal).unwrap(), 2);
        for (byte, rest) in [(1, "one"), (2, "two"), (3, "three"), (4, "copy of three")] {
            assert_eq!(rest_of(&path_of(&folder, byte)), rest);
        }
        assert_eq!(put_right(&folder, Trial::ForReal).unwrap(), 0);
        // It makes room for the file that has this name by right, and waits.
        put(&folder, 5, 4, "four");
        put_right(&folder, Trial::ForReal).unwrap();
        assert_eq!(rest_of(&path_of(&folder, 4)), "four");
        let waiting = path_of(&folder, 4).with_extension("misnamed");
        assert_eq!(rest_of(&waiting), "copy of three");
        put(&folder, 4, 3, "another copy");
        put(&folder, 5, 4, "four");
        put_right(&folder, Trial::ForReal).unwrap();
        assert_eq!(rest_of(&path_of(&folder, 4)), "four");
        let waiting = path_of(&folder, 4).with_extension("misnamed");
        assert_eq!(rest_of(&waiting), "copy of three");
        let waiting = path_of(&folder, 4).with_extension("2.misnamed");
        assert_eq!(rest_of(&waiting), "another copy");
    }
}

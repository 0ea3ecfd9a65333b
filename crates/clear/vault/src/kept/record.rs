//! Names, reads and opens the records of revisions in a vault folder.
//!
//! Takes   a vault folder; for their content, what opens it
//! Gives   which records there are, and what they say
//! Never   reads more of a file than a record can be long
//! Spec    spec/6-history.md, section 6.2

use strongroom_crypto::BlockSealer;
use strongroom_format::{Epoch, Kind};
use strongroom_history as history;

use crate::Result;
use crate::folder::{Folder, REVISIONS};

/// What an error of it is about.
pub(crate) const LISTING: &str = "listing the records of revisions";

/// Above every record of a revision, sealed, in bytes: body, signature and seal.
const RECORD_BYTES_MAX: u64 = 128 * 1024;

/// The records of revisions in a vault folder, as `Kept::record_files` gives them.
pub(crate) fn record_files(folder: &Folder) -> Result<Vec<(String, Option<Vec<u8>>)>> {
    let records = folder.inside(REVISIONS);
    let mut found = Vec::new();
    for entry in records.list(LISTING)? {
        if record_name(&entry.name).is_some() {
            let bytes = records
                .hold()
                .and_then(|held| held.read(&entry.name, RECORD_BYTES_MAX));
            found.push((entry.name, bytes.ok().flatten()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The stored form of a revision from the bytes of its record; `None` if it does not open. Records of earlier versions are not
/// padded.
pub(crate) fn open_revision(sealer: &BlockSealer, epoch: Epoch, sealed: &[u8]) -> Option<Vec<u8>> {
    let clear = sealer.open_record(epoch, Kind::Revision, sealed).ok()?;
    history::stored_form(&clear).map(<[u8]>::to_vec)
}

/// Id and epoch of a record, from its name.
pub(crate) fn record_name(name: &str) -> Option<(&str, u32)> {
    let (id, epoch) = name.split_once('.')?;
    let is_id = id.len() == 64 && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    Some((id, epoch.parse().ok()?)).filter(|_| is_id)
}

//! Stores which files and directories are pinned: their content stays on this disk.
//!
//! Takes   paths to pin, or to unpin
//! Gives   their nodes, stored in this copy of the vault only
//! Never   fetches or evicts content
//! Spec    spec/11-sync.md, [11.9.8]

use strongroom_filesystem::Error as FileError;
use strongroom_metadata::{InodeId, Reader, Reads};

use crate::execute::evict::show_all;
use crate::execute::published::change;
use crate::execute::session::Session;
use crate::limits::{PATH_BYTES_MAX, PINS_MAX};
use crate::path::{Links, resolve};
use crate::request::frame::ByteBuffer;
use crate::request::remote::Pinning;
use crate::{Error, Result};

/// The setting that keeps their numbers: 64 bits each, little-endian.                                          [4.6]
const PINNED: &str = "pinned";

/// The nodes that are pinned, as of the last commit; some may be gone.
pub(super) fn pins(session: &Session) -> Result<Vec<InodeId>> {
    let reader = session.filesystem().engine().reader()?;
    Ok(stored(&reader)?)
}

fn stored(reader: &Reads) -> strongroom_metadata::Result<Vec<InodeId>> {
    let bytes = reader.setting(PINNED)?.unwrap_or_default();
    let numbers = bytes.as_chunks().0.iter();
    Ok(numbers
        .map(|number| InodeId(u64::from_le_bytes(*number)))
        .collect())
}

/// Pins what `path` names, or does so no more; gives whether that is new. Durable on return.
pub(super) fn pin(session: &Session, path: &[u8], how: Pinning) -> Result<bool> {
    let held = resolve(session.filesystem(), &session.caller, path, Links::Stay)?;
    let node = held.inode();
    let pinned = change(session, |writer| {
        let mut pins = stored(writer)?;
        match (how, pins.contains(&node)) {
            (Pinning::Pin, false) => pins.push(node),
            (Pinning::Unpin, true) => pins.retain(|one| *one != node),
            _ => return Ok(Some(false)),
        }
        let mut kept = Vec::new();
        for one in pins {
            // What was removed since is forgotten.
            if writer.inode(one)?.is_some() || one == node {
                kept.extend_from_slice(&one.0.to_le_bytes());
            }
        }
        if kept.len() > PINS_MAX * 8 {
            return Ok(None);
        }
        writer.put_setting(PINNED, &kept)?;
        Ok(Some(true))
    })?;
    pinned.ok_or_else(|| {
        let why = format!("at most {PINS_MAX} paths can be pinned; pin a directory above them");
        Error::File(FileError::InvalidArgument(why.into()))
    })
}

/// Where what is pinned is now.
pub(super) fn paths(session: &Session) -> Result<Vec<ByteBuffer>> {
    show_all(session)?;
    let mut paths = Vec::new();
    let reader = session.filesystem().engine().reader()?;
    for node in stored(&reader)? {
        paths.extend(path_of(&reader, node)?.map(ByteBuffer));
    }
    paths.sort_unstable_by(|one, next| one.0.cmp(&next.0));
    Ok(paths)
}

/// `None` if it is gone.
fn path_of(reader: &Reader<'_>, mut at: InodeId) -> Result<Option<Vec<u8>>> {
    let mut path = Vec::new();
    while at != InodeId::ROOT {
        let found = reader.names_of(at, None, 1)?.pop();
        let Some((above, name)) = found.filter(|_| path.len() <= PATH_BYTES_MAX) else {
            return Ok(None);
        };
        path = [b"/", &name[..], &path[..]].concat();
        at = above;
    }
    Ok(Some(match path.is_empty() {
        true => b"/".to_vec(),
        false => path,
    }))
}

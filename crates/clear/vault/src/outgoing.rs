//! Reads objects of the vault folder that go up to a remote.
//!
//! Takes   the vault folder, and an object that a remote lacks, as the owner says
//! Gives   the bytes of the object, as they were written
//! Never   gives a segment that is damaged or was replaced: the damage would spread to the remote, from which a repair
//!         should get a sound copy
//! Spec    spec/11-sync.md, [11.4.5]

use strongroom_format::hex;
use strongroom_format::segment::{ScanTail, scan};
use strongroom_remote::{Buffer, Buffers};

use crate::folder::{Folder, REVISIONS, SEGMENTS, below};
use crate::incoming::read_segment_into;
use crate::request::Request;
use crate::request::remote::{RemoteRequest, VaultObject};
use crate::{Error, Result, Vault};

/// The bytes of an object in the vault folder, which are whole; of a segment in one of `buffers`.
pub(crate) fn read_object(
    folder: &Folder,
    object: VaultObject,
    buffers: &Buffers,
) -> Result<Buffer> {
    let damaged = |what, why: String| Err(Error::Damaged { what, why });
    match object {
        VaultObject::Segment { id, .. } => {
            let id = hex::encode(&id);
            let path = format!("{}/{id}", &id[..2]);
            let held = folder.inside(SEGMENTS).hold();
            let mut buffer = buffers.take();
            let read = held.and_then(|held| read_segment_into(&held, &path, buffer.bytes_mut()));
            if !read.map_err(below("reading a segment"))? {
                return damaged(
                    SEGMENTS,
                    format!(
                        "the file {path} is missing; run `strongroom repair` to fetch it from another remote that has it, then push again"
                    ),
                );
            }
            let tail = scan(buffer.as_ref()).map(|found| found.tail);
            match matches!(tail, Ok(ScanTail::Finished(_))) {
                true => Ok(buffer),
                // Damage is not to spread to where the copy should come from.
                false => damaged(
                    SEGMENTS,
                    format!(
                        "the file {path} is damaged or was replaced; run `strongroom repair` to fetch it from another remote that has it, then push again"
                    ),
                ),
            }
        }
        VaultObject::Revision { id, epoch } => {
            let name = format!("{}.{epoch}", hex::encode(&id));
            match folder.inside(REVISIONS).read_file(&name)? {
                Some(bytes) => Ok(bytes.into()),
                None => damaged(
                    REVISIONS,
                    format!("the record {name} is missing; open the vault once, then push again"),
                ),
            }
        }
    }
}

impl Vault {
    /// Objects that a remote lacks, at most `limit`, while a push to it goes on.
    pub(crate) fn missing_at(&self, remote: u64, limit: u64) -> Result<Vec<VaultObject>> {
        self.ask_for(&Request::Remote(RemoteRequest::Missing { remote, limit }))
    }

    /// Whether some of `missing`, as `missing_at` gave it, is not to go up any more.
    pub(crate) fn is_outdated(
        &self,
        remote: u64,
        limit: u64,
        missing: &[VaultObject],
    ) -> Result<bool> {
        let now = self.missing_at(remote, limit)?;
        Ok(missing.iter().any(|one| !now.contains(one)))
    }
}

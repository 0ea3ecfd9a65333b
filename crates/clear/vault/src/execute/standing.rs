//! Compares the live objects at a remote (published and not retired) with the objects of this vault.
//!
//! Takes   the rows about published objects
//! Gives   the objects that the next publication retires, that is, declares not live; the first publication that names something
//!         live
//! Never   counts objects of a push that another device has not ended: nobody here knows what they are for  [11.4.8]
//! Spec    spec/11-sync.md, 11.3, 11.4 and 11.8

use std::collections::HashSet;

use strongroom_format::hex;
use strongroom_metadata::{Published, PublishedAs, Reader};
use strongroom_sync::RemoteState;

use crate::Result;
use crate::execute::session::OpenVault;
use crate::limits::PUSH_PAGE;
use crate::request::remote::{NamedFields, UploadedObject};

/// What stands for the hash of what was let go there while it is still here.                          [4.14]
pub(crate) const LET_GO: [u8; 32] = [0; 32];

/// What of a remote is live, and what is not any more.
pub(crate) struct Standing {
    /// Hashes of segments that the vault has not any more.
    pub(crate) retired_segments: Vec<[u8; 32]>,
    /// Hashes of records that the vault has not any more, or has under a newer epoch.
    pub(crate) retired_revisions: Vec<[u8; 32]>,
    /// Hashes of all that stays.
    pub(crate) live: HashSet<[u8; 32]>,
    /// Whether another device began to push something that is not here.
    pub(crate) has_unknown: bool,
    /// The first publication that names something live.
    pub(crate) base: Option<u64>,
}

impl Standing {
    /// Whether a push would retire something, or another device's has not ended.
    pub(crate) const fn is_behind(&self) -> bool {
        self.has_unknown || !self.retired_segments.is_empty() || !self.retired_revisions.is_empty()
    }

    /// Nothing is retired in the middle of a push.
    pub(crate) fn in_the_middle(state: &RemoteState) -> Self {
        Self {
            retired_segments: Vec::new(),
            retired_revisions: Vec::new(),
            live: HashSet::new(),
            has_unknown: false,
            base: Some(state.base).filter(|base| *base > 0),
        }
    }

    /// Retires what lies at the remote and is not live, so that nobody who uploaded it names it any more.
    pub(crate) fn retire_unnamed(&mut self, named: &NamedFields) {
        let uploaded: HashSet<[u8; 32]> = named.uploaded.iter().map(|one| one.hash).collect();
        let live = &self.live;
        let is_nobodys = |hash: &&[u8; 32]| !live.contains(*hash) && !uploaded.contains(*hash);
        for (retired, unnamed) in [
            (&mut self.retired_segments, &named.unnamed_segments),
            (&mut self.retired_revisions, &named.unnamed_revisions),
        ] {
            retired.extend(unnamed.iter().filter(is_nobodys));
            retired.sort_unstable();
            retired.dedup();
        }
    }
}

impl OpenVault {
    /// How a remote stands, of which all is here up to the publication `joined`. `renamed`: what the next publication names once more.
    pub(crate) fn standing_at(
        &self,
        remote: u64,
        joined: u64,
        renamed: &[UploadedObject],
    ) -> Result<Standing> {
        let renamed: HashSet<[u8; 32]> = renamed.iter().map(|one| one.hash).collect();
        let reader = self.filesystem.engine().reader()?;
        let segments: HashSet<[u8; 16]> = reader.segments()?.iter().map(|row| row.id.0).collect();
        let records: HashSet<(String, u32)> = self.records.names()?.into_iter().collect();
        let mut standing = Standing {
            retired_segments: Vec::new(),
            retired_revisions: Vec::new(),
            live: HashSet::new(),
            has_unknown: false,
            base: None,
        };
        each_published(&reader, remote, &mut |item, how| {
            if how.hash == LET_GO {
                return;
            }
            // The rest goes with the next push.
            let (is_live, retired) = match item {
                Published::Segment(id) => (segments.contains(&id), &mut standing.retired_segments),
                Published::Revision(id, epoch) => (
                    records.contains(&(hex::encode(&id), epoch.0)),
                    &mut standing.retired_revisions,
                ),
            };
            let is_unknown = how.publication > joined;
            standing.has_unknown |= !is_live && is_unknown;
            standing.live.insert(how.hash);
            if !is_live && !is_unknown && retired.len() < PUSH_PAGE {
                retired.push(how.hash);
                standing.live.remove(&how.hash);
            } else if !renamed.contains(&how.hash) {
                let base = standing.base.unwrap_or(how.publication);
                standing.base = Some(base.min(how.publication));
            }
        })?;
        standing.retired_segments.sort_unstable();
        standing.retired_revisions.sort_unstable();
        Ok(standing)
    }
}

/// Hears of everything that is noted as published at a remote, in a fixed order: segments, then records.
pub(crate) fn each_published(
    reader: &Reader<'_>,
    remote: u64,
    each: &mut dyn FnMut(Published, PublishedAs),
) -> Result<()> {
    each_published_after(reader, remote, None, each)
}

/// The same of records alone, of which there are few.
pub(crate) fn each_published_record(
    reader: &Reader<'_>,
    remote: u64,
    each: &mut dyn FnMut(Published, PublishedAs),
) -> Result<()> {
    let last_segment = Published::Segment([0xff; 16]);
    each_published_after(reader, remote, Some(last_segment), each)
}

fn each_published_after(
    reader: &Reader<'_>,
    remote: u64,
    mut after: Option<Published>,
    each: &mut dyn FnMut(Published, PublishedAs),
) -> Result<()> {
    loop {
        let page = reader.published_after(remote, after, PUSH_PAGE)?;
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        after = Some(*last);
        page.into_iter().for_each(|(item, how)| each(item, how));
    }
}

//! Follows the log of a remote, its publications in order: which objects are live, and which pushes have not ended.
//!
//! Takes   verified publications, in the order of their numbers; the time
//! Gives   whether a publication follows the one before it; the live objects after all of them; the pushes that may
//!         still continue
//! Never   checks whether a device is still a member: a removed one cannot open the publication that it would have to link to
//! Spec    spec/11-sync.md, 11.3 and [11.4.8]

use std::collections::{BTreeMap, HashMap, HashSet};

use strongroom_format::PrincipalId;
use strongroom_format::publication::{
    Publication, PublicationId, PublishedRevision, PublishedSegment, RemoteId, SignedPublication,
};

use crate::error::{Error, Result};
use crate::names::publication_name;

/// Whether `next` is the publication behind the one of that number and id, in the log of that remote.             (2)
///
/// # Errors
/// `Damaged`.
pub fn follow(
    remote: RemoteId,
    before: (u64, PublicationId),
    next: &SignedPublication,
) -> Result<()> {
    let damaged = |why| Error::damaged(publication_name(next.body.number), why);
    if next.body.remote != remote {
        return Err(damaged("it belongs to another remote"));
    }
    if next.body.number != before.0 + 1 || next.body.link != before.1 {
        return Err(damaged("it does not follow the publication before it"));
    }
    Ok(())
}

/// The same behind the last publication that this device has seen.                                               (2)
///
/// # Errors
/// `Damaged`; `Forked` if it goes on from another one of that number.
pub fn follow_seen(
    remote: RemoteId,
    last: (u64, PublicationId),
    next: &SignedPublication,
) -> Result<()> {
    let is_next = next.body.remote == remote && next.body.number == last.0 + 1;
    match follow(remote, last, next) {
        Err(_) if is_next => Err(Error::Forked { number: last.0 }),
        followed => followed,
    }
}

/// How long a device that began a push has for the rest of it, in seconds: the grace of what does not count.
const PUSH_S_MAX: u64 = 7 * 24 * 60 * 60;

/// How far the clocks of two devices are apart at most, for that.
const CLOCKS_APART_S: u64 = 24 * 60 * 60;

/// Publications in the middle of pushes that may still go on: what they name is neither joined nor retired by others.  [11.4.8]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Their numbers.
    pub numbers: HashSet<u64>,
    /// The number before the first of them; without one, that of the last publication.
    pub before: u64,
    /// When the first of them does not count as unfinished any more, in seconds since 1970.
    pub until_s: u64,
}

/// Those of `publications`, which are in order, that are unfinished: their device has published no head since, and they are younger than
/// `PUSH_S_MAX`. What is older counts as cut off.
pub fn unfinished<'p>(
    publications: impl Iterator<Item = &'p Publication>,
    now_s: u64,
) -> Unfinished {
    let mut open: HashMap<PrincipalId, Vec<(u64, u64)>> = HashMap::new();
    let mut last = 0;
    for body in publications {
        last = body.number;
        let made_s = u64::try_from(body.time / 1_000_000_000).unwrap_or(0);
        // A time in the future is that of a clock that is wrong, or of a device that wants to hold everybody up.
        let until_s = made_s.saturating_add(PUSH_S_MAX);
        let may_go_on = until_s > now_s && made_s < now_s + CLOCKS_APART_S;
        if body.head != [0; 32] {
            open.remove(&body.device);
        } else if may_go_on {
            let of_it = open.entry(body.device).or_default();
            of_it.push((body.number, until_s));
        }
    }
    let open: Vec<(u64, u64)> = open.into_values().flatten().collect();
    let first = open.iter().map(|(number, _)| *number).min();
    Unfinished {
        before: first.map_or(last, |first| first - 1),
        until_s: open.iter().map(|(_, until_s)| *until_s).min().unwrap_or(0),
        numbers: open.into_iter().map(|(number, _)| number).collect(),
    }
}

/// What is live at a remote: the sum of its publications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Segments by the hashes of their bytes.
    pub segments: BTreeMap<[u8; 32], PublishedSegment>,
    /// Revisions by the hashes of their records.
    pub revisions: BTreeMap<[u8; 32], PublishedRevision>,
}

impl Live {
    /// Takes in the next publication.
    pub fn add(&mut self, publication: &SignedPublication) {
        let body = &publication.body;
        for hash in &body.retired_revisions {
            self.revisions.remove(hash);
        }
        for hash in &body.retired_segments {
            self.segments.remove(hash);
        }
        for revision in &body.revisions {
            self.revisions.insert(revision.hash, *revision);
        }
        for segment in &body.segments {
            self.segments.insert(segment.hash, *segment);
        }
    }
}

#[cfg(test)]
mod tests {
    use strongroom_format::{RecordId, VaultId};

    use super::*;

    fn publication(number: u64, device: u8, is_whole: bool) -> Publication {
        Publication {
            vault: VaultId([1; 32]),
            remote: RemoteId([2; 16]),
            number,
            link: PublicationId([0; 32]),
            device: PrincipalId([device; 32]),
            sequence: number,
            base: 1,
            time: 1_000_000_000_000,
            membership_head: RecordId([0; 32]),
            header: (1, [0; 32]),
            head: [u8::from(is_whole); 32],
            revisions: Vec::new(),
            retired_revisions: Vec::new(),
            segments: Vec::new(),
            retired_segments: Vec::new(),
        }
    }

    #[test]
    fn a_push_that_may_go_on_is_neither_joined_nor_passed_over() {
        // One device begins at 3 and goes on at 5; another one publishes in between, and has ended.
        let log = [
            publication(1, 1, true),
            publication(2, 2, false),
            publication(3, 1, false),
            publication(4, 2, true),
            publication(5, 1, false),
            publication(6, 2, true),
        ];
        let found = |numbers: &[u64], before, until_s| Unfinished {
            numbers: numbers.iter().copied().collect(),
            before,
            until_s,
        };
        let until_s = 1_000 + PUSH_S_MAX;
        assert_eq!(unfinished(log.iter(), 1_000), found(&[3, 5], 2, until_s));
        // It ends.
        let ended = [&log[..], &[publication(7, 1, true)]].concat();
        assert_eq!(unfinished(ended.iter(), 1_000), found(&[], 7, 0));
        // It never does.
        assert_eq!(unfinished(log.iter(), until_s), found(&[], 6, 0));
        // Its clock is years ahead.
        let mut ahead = publication(1, 1, false);
        ahead.time = i64::MAX;
        assert_eq!(unfinished([&ahead].into_iter(), 1_000), found(&[], 1, 0));
    }
}

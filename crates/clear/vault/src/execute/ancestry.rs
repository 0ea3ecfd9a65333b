//! Which revisions go on from which others.
//!
//! Takes   revisions that are here, and what is remembered of removed ones
//! Gives   everything that a revision goes on from
//! Never   ends at a revision because it was removed here
//! Spec    spec/11-sync.md, 11.6

use std::collections::{HashMap, HashSet};

use strongroom_filesystem::RemovedRevision;
use strongroom_history::{Revision, RevisionId};

/// What each known revision goes on from.
pub(super) struct Ancestry {
    parents: HashMap<RevisionId, Vec<RevisionId>>,
}

impl Ancestry {
    /// That of revisions that are here, or were.
    pub(super) fn of<'r>(
        known: impl Iterator<Item = &'r Revision>,
        removed: Vec<RemovedRevision>,
    ) -> Self {
        let known = known.map(|one| (one.id, one.body.parents.clone()));
        Self::among(known.chain(removed.into_iter().map(|one| (one.id, one.parents))))
    }

    /// The same revision may come several times: it goes on from all that is said.
    fn among(all: impl Iterator<Item = (RevisionId, Vec<RevisionId>)>) -> Self {
        let mut parents: HashMap<_, Vec<_>> = HashMap::new();
        for (id, of) in all {
            parents.entry(id).or_default().extend(of);
        }
        Self { parents }
    }

    /// The revision and those that it goes on from, as far as they are known.
    pub(super) fn behind(&self, id: RevisionId) -> HashSet<RevisionId> {
        let mut open = vec![id];
        let mut seen = HashSet::new();
        while let Some(at) = open.pop() {
            if seen.insert(at) {
                open.extend(self.parents.get(&at).into_iter().flatten());
            }
        }
        seen
    }

    /// Whether `at` goes on from `id`, or is it.
    pub(super) fn is_behind(&self, id: RevisionId, at: RevisionId) -> bool {
        self.behind(at).contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(number: u8) -> RevisionId {
        RevisionId([number; 32])
    }

    fn removed(number: u8, parents: &[u8]) -> RemovedRevision {
        RemovedRevision {
            id: id(number),
            sequence: number.into(),
            parents: parents.iter().copied().map(id).collect(),
        }
    }

    fn behind(ancestry: &Ancestry, number: u8) -> Vec<u8> {
        let mut all: Vec<u8> = ancestry
            .behind(id(number))
            .iter()
            .map(|id| id.0[0])
            .collect();
        all.sort_unstable();
        all
    }

    /// Goal: the way leads through removed revisions, also through those that joined two. Method: all but the newest are removed, and one
    /// goes on from one that nobody knows.
    #[test]
    fn the_way_leads_through_removed_revisions() {
        let gone = vec![
            removed(5, &[4, 3]),
            removed(4, &[2]),
            removed(3, &[1]),
            removed(2, &[]),
        ];
        let newest = std::iter::once((id(6), vec![id(5)]));
        let gone = gone.into_iter().map(|one| (one.id, one.parents));
        let ancestry = Ancestry::among(newest.chain(gone));
        assert_eq!(behind(&ancestry, 6), [1, 2, 3, 4, 5, 6]);
        assert_eq!(behind(&ancestry, 4), [2, 4]);
        assert!(ancestry.is_behind(id(2), id(6)) && ancestry.is_behind(id(6), id(6)));
        assert!(!ancestry.is_behind(id(6), id(2)) && !ancestry.is_behind(id(3), id(4)));
    }

    #[test]
    fn a_revision_goes_on_from_all_that_is_said_and_a_circle_ends() {
        let again = vec![
            removed(3, &[1]),
            removed(3, &[2]),
            removed(2, &[3]),
            removed(3, &[1]),
        ];
        let ancestry = Ancestry::of(std::iter::empty(), again);
        assert_eq!(behind(&ancestry, 3), [1, 2, 3]);
        assert_eq!(behind(&ancestry, 2), [1, 2, 3]);
        assert_eq!(behind(&ancestry, 9), [9]);
    }
}

//! Remembers what removed revisions went on from.
//!
//! Takes   a revision that goes, in the transaction that removes its row
//! Gives   its id and parents, for as long as a merge may have to walk through it
//! Never   keeps more than `REMOVED_REVISIONS_MAX`, or fails on what is not as it was written: that is passed over
//! Spec    spec/6-history.md, [6.7.4]
//!
//! Invariants
//!  (1) What a removed revision went on from is committed together with its removal.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use strongroom_history::{Revision, RevisionId};
use strongroom_metadata::{self as metadata, Reads, Transaction};

use crate::limits::{REMOVED_REVISIONS_MAX, REMOVED_REVISIONS_PAGE};
use crate::{Filesystem, Result};

/// The setting that says how many were noted; those behind `REMOVED_REVISIONS_MAX` took the places of the oldest. The settings with a number
/// behind this name are the pages.
const NOTED: &str = "removed_revisions";

/// The first byte of all these settings.
const VERSION: u8 = 1;

/// A revision goes on from no more than that.
const PARENTS_MAX: usize = 2;

const PAGES_MAX: u64 = REMOVED_REVISIONS_MAX / REMOVED_REVISIONS_PAGE;

/// What is remembered of a removed revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedRevision {
    /// Its id. It may be here again, or still: the state of a kept one may also go on from others than its record names.
    pub id: RevisionId,
    /// Its sequence number.
    pub sequence: u64,
    /// What it goes on from, two at most.
    pub parents: Vec<RevisionId>,
}

impl RemovedRevision {
    pub(super) fn of(revision: &Revision) -> Self {
        Self {
            id: revision.id,
            sequence: revision.body.sequence,
            parents: revision.body.parents.clone(),
        }
    }
}

fn encode(page: &[RemovedRevision]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    for one in page {
        let parents = &one.parents[..one.parents.len().min(PARENTS_MAX)];
        bytes.extend_from_slice(&one.sequence.to_le_bytes());
        bytes.extend_from_slice(&one.id.0);
        bytes.push(parents.len() as u8);
        for parent in parents {
            bytes.extend_from_slice(&parent.0);
        }
    }
    bytes
}

/// The revisions that `bytes` spell, up to the first that is none.
fn decode(bytes: &[u8]) -> Vec<RemovedRevision> {
    let mut page = Vec::new();
    let mut left = match bytes.split_first() {
        Some((&VERSION, entries)) => entries,
        _ => return page,
    };
    while (page.len() as u64) < REMOVED_REVISIONS_PAGE
        && let Some((one, behind)) = decode_one(left)
    {
        page.push(one);
        left = behind;
    }
    page
}

fn decode_one(bytes: &[u8]) -> Option<(RemovedRevision, &[u8])> {
    let (sequence, left) = bytes.split_first_chunk::<8>()?;
    let (id, left) = left.split_first_chunk::<32>()?;
    let (count, left) = left.split_first()?;
    let count = Some(usize::from(*count)).filter(|count| *count <= PARENTS_MAX)?;
    let (parents, left) = left.split_at_checked(count * 32)?;
    let parents = parents.as_chunks::<32>().0.iter();
    let one = RemovedRevision {
        id: RevisionId(*id),
        sequence: u64::from_le_bytes(*sequence),
        parents: parents.map(|parent| RevisionId(*parent)).collect(),
    };
    Some((one, left))
}

/// How many were noted.
fn noted(reads: &Reads) -> Result<u64> {
    let value = reads.setting(NOTED)?.unwrap_or_default();
    let number = match value.split_first() {
        Some((&VERSION, number)) => <[u8; 8]>::try_from(number).ok(),
        _ => None,
    };
    Ok(number.map_or(0, u64::from_le_bytes))
}

fn put_noted(writer: &mut Transaction<'_>, noted: u64) -> Result<()> {
    let value = [&[VERSION][..], &noted.to_le_bytes()].concat();
    Ok(writer.put_setting(NOTED, &value)?)
}

/// How many pages there are if so many were noted.
fn pages(noted: u64) -> u64 {
    noted.div_ceil(REMOVED_REVISIONS_PAGE).min(PAGES_MAX)
}

fn page_name(page: u64) -> String {
    format!("{NOTED}-{page}")
}

fn read_page(reads: &Reads, page: u64) -> Result<Vec<RemovedRevision>> {
    let value = reads.setting(&page_name(page))?;
    Ok(decode(&value.unwrap_or_default()))
}

/// All that are remembered, in no order.
fn all(reads: &Reads) -> Result<Vec<RemovedRevision>> {
    let mut all = Vec::new();
    for page in 0..pages(noted(reads)?) {
        all.extend(read_page(reads, page)?);
    }
    Ok(all)
}

/// Remembers one; a vault without remotes needs none. A page that begins again loses the oldest that were in it.               (1)
pub(super) fn note(writer: &mut Transaction<'_>, one: &RemovedRevision) -> Result<()> {
    if writer.remotes()?.is_empty() {
        return Ok(());
    }
    let before = noted(writer)?;
    let page = (before / REMOVED_REVISIONS_PAGE) % PAGES_MAX;
    let mut entries = read_page(writer, page)?;
    entries.truncate((before % REMOVED_REVISIONS_PAGE) as usize);
    entries.push(one.clone());
    writer.put_setting(&page_name(page), &encode(&entries))?;
    put_noted(writer, before.wrapping_add(1))
}

/// Remembers that `taken` goes on from what `heads` names and is kept no more, too: its record names only what is kept.
pub(super) fn note_removed_heads(
    writer: &mut Transaction<'_>,
    taken: &Revision,
    heads: &[u8],
) -> Result<()> {
    let mut one = RemovedRevision {
        parents: Vec::new(),
        ..RemovedRevision::of(taken)
    };
    for id in heads.as_chunks::<32>().0.iter().take(PARENTS_MAX) {
        if writer.revision(id)?.is_none() {
            one.parents.push(RevisionId(*id));
        }
    }
    match one.parents.is_empty() {
        true => Ok(()),
        false => note(writer, &one),
    }
}

/// Keeps only `needed` of all.
fn keep_only(writer: &mut Transaction<'_>, needed: &[RemovedRevision]) -> Result<()> {
    let mut filled = needed.chunks(REMOVED_REVISIONS_PAGE as usize);
    for page in 0..pages(noted(writer)?) {
        let entries = filled.next().unwrap_or_default();
        writer.put_setting(&page_name(page), &encode(entries))?;
    }
    put_noted(writer, needed.len() as u64)
}

/// The kept revisions that `heads` names; for one that was removed those that it went on from, as far as that is remembered. Two at most:
/// so many parents a revision has. What is named itself comes first.
pub(super) fn nearest_kept(reads: &Reads, heads: &[u8]) -> Result<Vec<metadata::Revision>> {
    let mut open: VecDeque<[u8; 32]> = heads.as_chunks::<32>().0.iter().copied().collect();
    let mut removed: Option<HashMap<RevisionId, Vec<RevisionId>>> = None;
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    while found.len() < PARENTS_MAX
        && let Some(id) = open.pop_front()
    {
        if !seen.insert(id) {
            continue;
        }
        if let Some(row) = reads.revision(&id)? {
            found.push(row);
            continue;
        }
        if removed.is_none() {
            let mut parents: HashMap<_, Vec<_>> = HashMap::new();
            for one in all(reads)? {
                parents.entry(one.id).or_default().extend(one.parents);
            }
            removed = Some(parents);
        }
        let parents = removed
            .as_ref()
            .and_then(|removed| removed.get(&RevisionId(id)));
        open.extend(parents.into_iter().flatten().map(|parent| parent.0));
    }
    Ok(found)
}

impl Filesystem {
    /// What is remembered of removed revisions, in no order; `REMOVED_REVISIONS_MAX` at most.
    ///
    /// # Errors
    /// Of the store.
    pub fn removed_revisions(&self) -> Result<Vec<RemovedRevision>> {
        let reader = self.engine().reader()?;
        all(&reader)
    }

    /// Forgets removed revisions that are older than all of `heads`, those which this device and its remotes had last in common: no merge
    /// walks that far. If it is not known how old one of these is, nothing is forgotten. To be called after each removal; it looks only
    /// when a page is full, and writes only if half or more of all can go.
    ///
    /// # Errors
    /// `ReadOnly`, `Failed`; of the store.
    pub fn forget_removed(&self, heads: &[RevisionId]) -> Result<()> {
        let _turn = self.hold_revisions();
        let reader = self.engine().reader()?;
        let noted = noted(&reader)?;
        if !has_filled_a_page(noted) {
            return Ok(());
        }
        let all = all(&reader)?;
        drop(reader);
        let Some(oldest) = oldest_sequence(&self.revisions()?, &all, heads) else {
            return Ok(());
        };
        let is_needed = |one: &&RemovedRevision| one.sequence >= oldest;
        let needed: Vec<_> = all.iter().filter(is_needed).cloned().collect();
        if needed.len() > all.len() / 2 {
            return Ok(());
        }
        let engine = self.engine();
        engine.change(|writer| keep_only(writer, &needed))
    }
}

/// Whether a page was filled since the last removal. That noted one, and what was taken before it at most one more: a state that goes on from a
/// removed one. So each page is noticed, once or twice.
const fn has_filled_a_page(noted: u64) -> bool {
    noted >= REMOVED_REVISIONS_PAGE && noted % REMOVED_REVISIONS_PAGE < 2
}

/// The least sequence number of `heads`; `None` if that of one is not known. Without heads nothing is needed.
fn oldest_sequence(
    kept: &[Arc<Revision>],
    removed: &[RemovedRevision],
    heads: &[RevisionId],
) -> Option<u64> {
    let mut oldest = u64::MAX;
    for head in heads {
        let kept = kept.iter().find(|one| one.id == *head);
        let kept = kept.map(|one| one.body.sequence);
        let removed = || removed.iter().find(|one| one.id == *head);
        oldest = oldest.min(kept.or_else(|| removed().map(|one| one.sequence))?);
    }
    Some(oldest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use strongroom_metadata::limits::{KEY_BYTES, VALUE_BYTES_MAX};
    use strongroom_metadata::{Options, Remote, Store};

    use super::*;

    fn id(number: u64) -> RevisionId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&number.to_le_bytes());
        RevisionId(id)
    }

    fn one(number: u64) -> RemovedRevision {
        let parents = number % 3;
        RemovedRevision {
            id: id(number),
            sequence: number,
            parents: (0..parents).map(|parent| id(number + 1 + parent)).collect(),
        }
    }

    fn store(folder: &tempfile::TempDir) -> Store {
        let options = Options {
            reserve_bytes: 0,
            ..Options::default()
        };
        Store::create(folder.path(), &[7; KEY_BYTES], options).unwrap()
    }

    fn add_remote(store: &Store) {
        let remote = Remote {
            number: 0,
            name: "stick".to_owned(),
            id: [1; 16],
            state: Vec::new(),
        };
        store.lock().put_remote(&remote).unwrap();
    }

    /// The numbers of all that are remembered, lowest first.
    fn numbers(reads: &Reads) -> Vec<u64> {
        let mut numbers: Vec<u64> = all(reads).unwrap().iter().map(|one| one.sequence).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn a_page_comes_back_and_what_is_no_entry_ends_it() {
        let page: Vec<_> = (0..REMOVED_REVISIONS_PAGE).map(one).collect();
        let bytes = encode(&page);
        assert!(bytes.len() <= VALUE_BYTES_MAX);
        assert_eq!(decode(&bytes), page);
        for len in 0..bytes.len() {
            let some = decode(&bytes[..len]);
            assert!(page.starts_with(&some) && some.len() < page.len(), "{len}");
        }
        let longer = [&bytes[..], &bytes[1..]].concat();
        assert_eq!(decode(&longer), page);
        assert!(decode(&[&[VERSION + 1][..], &bytes[1..]].concat()).is_empty());
        let mut parents = encode(&[one(0), one(3)]);
        parents[1 + 40] = 3;
        assert!(decode(&parents).is_empty());
    }

    #[test]
    fn a_vault_without_remotes_remembers_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        note(&mut store.lock(), &one(1)).unwrap();
        assert!(numbers(&store.lock()).is_empty());
        add_remote(&store);
        note(&mut store.lock(), &one(2)).unwrap();
        assert_eq!(numbers(&store.lock()), [2]);
    }

    /// Goal: however many are removed, the newest are remembered, and no more than the bound. Method: half as many again.
    #[test]
    fn the_oldest_make_room_for_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        add_remote(&store);
        let mut writer = store.lock();
        let count = REMOVED_REVISIONS_MAX * 3 / 2 + 10;
        // As if so many had been noted: each page is written once, not for each of its entries.
        for first in (0..count - 10).step_by(REMOVED_REVISIONS_PAGE as usize) {
            let page: Vec<_> = (first..first + REMOVED_REVISIONS_PAGE).map(one).collect();
            let number = (first / REMOVED_REVISIONS_PAGE) % PAGES_MAX;
            writer
                .put_setting(&page_name(number), &encode(&page))
                .unwrap();
        }
        put_noted(&mut writer, count - 10).unwrap();
        for number in count - 10..count {
            note(&mut writer, &one(number)).unwrap();
        }
        let numbers = numbers(&writer);
        assert!(numbers.len() as u64 <= REMOVED_REVISIONS_MAX);
        let first = count - REMOVED_REVISIONS_MAX + REMOVED_REVISIONS_PAGE - 10;
        assert_eq!(numbers, (first..count).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_kept_of_them_stands_for_itself_and_more_come_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        add_remote(&store);
        let mut writer = store.lock();
        for number in 0..200 {
            note(&mut writer, &one(number)).unwrap();
        }
        let needed: Vec<_> = (130..200).map(one).collect();
        keep_only(&mut writer, &needed).unwrap();
        assert_eq!(numbers(&writer), (130..200).collect::<Vec<_>>());
        note(&mut writer, &one(200)).unwrap();
        assert_eq!(numbers(&writer), (130..=200).collect::<Vec<_>>());
        assert_eq!(noted(&writer).unwrap(), 71);
    }

    /// Goal: settings that are not as they were written are passed over. Method: other versions, lengths and counts.
    #[test]
    fn damaged_settings_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        add_remote(&store);
        let mut writer = store.lock();
        let damaged: [&[u8]; 5] = [&[], &[VERSION], &[VERSION, 1, 2], &[9; 9], &[9; 100]];
        for damaged in damaged {
            for name in [NOTED.to_owned(), page_name(0)] {
                writer.put_setting(&name, damaged).unwrap();
            }
            assert!(numbers(&writer).is_empty());
            note(&mut writer, &one(5)).unwrap();
            assert_eq!(numbers(&writer), [5]);
        }
        put_noted(&mut writer, u64::MAX).unwrap();
        note(&mut writer, &one(6)).unwrap();
        assert!(all(&writer).unwrap().len() as u64 <= REMOVED_REVISIONS_MAX);
        note(&mut writer, &one(7)).unwrap();
        assert!(numbers(&writer).contains(&7));
    }

    /// Goal: what no merge needs is forgotten whatever is noted beside the removals. Method: each removal comes after a snapshot that notes one,
    /// too, and the first did not. Failed before: the number of those noted was odd after each removal, and no page was ever looked at.
    #[test]
    fn a_page_is_noticed_when_snapshots_note_removed_ones_too() {
        for (first, step) in [(0, 1), (0, 2), (1, 2)] {
            let looks = |page: u64| {
                let of_page = page * REMOVED_REVISIONS_PAGE..(page + 1) * REMOVED_REVISIONS_PAGE;
                let noted = (of_page.start + first..of_page.end).step_by(step);
                noted.filter(|noted| has_filled_a_page(*noted)).count()
            };
            assert_eq!(looks(0), 0);
            assert!((1..9).all(|page| (1..=2).contains(&looks(page))));
        }
    }

    #[test]
    fn the_oldest_head_says_what_is_needed_if_all_are_known() {
        let removed: Vec<_> = (3..9).map(one).collect();
        let oldest = |heads: &[RevisionId]| oldest_sequence(&[], &removed, heads);
        assert_eq!(oldest(&[id(7), id(4), id(8)]), Some(4));
        assert_eq!(oldest(&[id(7), id(0)]), None);
        assert_eq!(oldest(&[]), Some(u64::MAX));
    }
}

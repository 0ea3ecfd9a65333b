//! The bytes of one file of the simulated disk, in two layers: as programs see them, and as they are durable.
//!
//! Takes   writes, truncations and syncs
//! Gives   the bytes a program reads, and the bytes a power cut would leave
//! Never   knows names, requests or faults
//! Spec    none: test only
//!
//! Invariants
//!  (1) If no sync failed, every cut between `sync` and the next change leaves exactly the bytes that programs see.
//!  (2) Sizes become durable in their order. Pages between two syncs become durable in any order, each in any of its versions.
//!  (3) No page shows bytes that a kept truncation removed. If a truncation is lost, so are later writes to pages from its size on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cut::{Keep, Policy};
use super::{PAGE_BYTES, SECTOR_BYTES};
use crate::random::Choices;

/// `PAGE_BYTES`, for offsets.
const PAGE: u64 = PAGE_BYTES as u64;

/// One page. Shared between the layers until one of them changes it.
pub(super) type Page = Arc<[u8; PAGE_BYTES]>;

/// The bytes of a file; pages that are missing read as zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pages: BTreeMap<u64, Page>,
    size: u64,
}

/// What happened to a file since its last sync.
#[derive(Clone, Debug)]
enum Event {
    /// A page got this content. `doomed`: a sync that should have kept it failed, and no later one will.
    Page {
        page: u64,
        content: Page,
        doomed: bool,
    },
    /// The size became this.
    Size(u64),
}

/// One file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileState {
    live: Content,
    durable: Content,
    events: Vec<Event>,
}

/// The pages that `len` bytes from `offset` touch, with the part of each page.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let within = (at % PAGE) as usize;
        let count = (PAGE_BYTES - within).min((end - at) as usize);
        let part = (at / PAGE, within, count);
        at += count as u64;
        Some(part)
    })
}

fn blank() -> Page {
    Arc::new([0; PAGE_BYTES])
}

/// `content` without what lies at or behind byte `size` of the file; `None` if nothing of the page is left.
fn page_cut_at(page: u64, content: &Page, size: u64) -> Option<Page> {
    let start = page * PAGE;
    if size <= start {
        return None;
    }
    let keep = (size - start).min(PAGE) as usize;
    let mut cut = Arc::clone(content);
    if keep < PAGE_BYTES {
        Arc::make_mut(&mut cut)[keep..].fill(0);
    }
    Some(cut)
}

impl Content {
    fn truncate(&mut self, size: u64) {
        let gone = self.pages.split_off(&size.div_ceil(PAGE));
        drop(gone);
        let last = size / PAGE;
        if let Some(content) = self.pages.get(&last)
            && let Some(cut) = page_cut_at(last, content, size)
        {
            self.pages.insert(last, cut);
        }
        self.size = size;
    }

    /// Length in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that pages hold.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Up to `len` bytes from `offset`, fewer at the end.
    pub(super) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let count = usize::try_from(self.size.saturating_sub(offset))
            .unwrap_or(usize::MAX)
            .min(len);
        let mut out = Vec::with_capacity(count);
        for (page, within, count) in parts(offset, count) {
            match self.pages.get(&page) {
                Some(content) => out.extend_from_slice(&content[within..within + count]),
                None => out.resize(out.len() + count, 0),
            }
        }
        out
    }

    /// The stored pages, each with its first byte's offset, cut at the end of the file.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pages.iter().filter_map(|(page, content)| {
            let start = page * PAGE;
            let count = usize::try_from(self.size.checked_sub(start)?)
                .unwrap_or(usize::MAX)
                .min(PAGE_BYTES);
            (count > 0).then(|| (start, &content[..count]))
        })
    }
}

impl FileState {
    /// A file whose `content` is durable.
    pub(super) fn durable(content: Content) -> Self {
        Self {
            live: content.clone(),
            durable: content,
            events: Vec::new(),
        }
    }

    /// What programs see.
    pub(super) fn live(&self) -> &Content {
        &self.live
    }

    /// Whether a cut could leave anything else than what programs see.
    pub(super) fn is_dirty(&self) -> bool {
        !self.events.is_empty()
    }

    /// Puts `data` at `offset`, extending the file if it ends before.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (page, within, count) in parts(offset, data.len()) {
            let (now, later) = rest.split_at(count);
            self.change_page(page, |bytes| {
                bytes[within..within + count].copy_from_slice(now)
            });
            rest = later;
        }
        let end = offset + data.len() as u64;
        if !data.is_empty() && end > self.live.size {
            self.live.size = end;
            self.events.push(Event::Size(end));
        }
    }

    /// Zeros in `len` bytes from `offset`, within the file's size.
    pub(super) fn zero(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.live.size);
        let touched: Vec<u64> = self
            .live
            .pages
            .range(offset / PAGE..end.div_ceil(PAGE).max(offset / PAGE))
            .map(|(page, _)| *page)
            .collect();
        for page in touched {
            let start = page * PAGE;
            let from = (offset.max(start) - start) as usize;
            let to = (end.min(start + PAGE) - start) as usize;
            self.change_page(page, |bytes| bytes[from..to].fill(0));
        }
    }

    /// Truncates or extends to `size`.
    pub(super) fn set_size(&mut self, size: u64) {
        if size < self.live.size {
            self.live.truncate(size);
        } else if size > self.live.size {
            self.live.size = size;
        } else {
            return;
        }
        self.events.push(Event::Size(size));
    }

    /// Makes everything so far durable, except pages that a failed sync gave up.
    pub(super) fn sync(&mut self) {
        let mut given_up: BTreeMap<u64, Page> = BTreeMap::new();
        for event in &self.events {
            match event {
                Event::Page {
                    page,
                    content,
                    doomed: true,
                } => drop(given_up.insert(*page, Arc::clone(content))),
                Event::Page {
                    page,
                    doomed: false,
                    ..
                } => drop(given_up.remove(page)),
                Event::Size(size) => given_up.retain(|page, _| page * PAGE < *size),
            }
        }
        let mut durable = self.live.clone();
        for page in given_up.keys() {
            match self
                .durable
                .pages
                .get(page)
                .and_then(|old| page_cut_at(*page, old, durable.size))
            {
                Some(old) => drop(durable.pages.insert(*page, old)),
                None => drop(durable.pages.remove(page)),
            }
        }
        self.durable = durable;
        self.events = given_up
            .into_iter()
            .map(|(page, content)| Event::Page {
                page,
                content,
                doomed: true,
            })
            .collect();
    }

    /// What a failed sync does on Linux: the pages count as clean from now on, and no later sync writes them.
    pub(super) fn fail_sync(&mut self) {
        for event in &mut self.events {
            if let Event::Page { doomed, .. } = event {
                *doomed = true;
            }
        }
    }

    /// What a power cut leaves. `number` names the file's stream of choices.
    pub(super) fn after_cut(&self, policy: Policy, seed: u64, number: u64) -> Content {
        let sizes = self
            .events
            .iter()
            .filter(|event| matches!(event, Event::Size(_)))
            .count();
        let sizes_kept = match policy.sizes {
            Keep::All => sizes,
            Keep::Nothing => 0,
            Keep::Some => Choices::named(seed, &[number, u64::MAX]).index(sizes + 1),
        };
        let mut content = Content {
            pages: BTreeMap::new(),
            size: self.size_after(sizes_kept),
        };
        for (page, versions) in self.versions(sizes_kept) {
            let mut choices = Choices::named(seed, &[number, page]);
            let chosen = match policy.pages {
                Keep::All => versions.last().cloned().flatten(),
                Keep::Nothing => versions.first().cloned().flatten(),
                Keep::Some => choose(&versions, policy.torn, &mut choices),
            };
            if let Some(chosen) = chosen {
                content.pages.insert(page, chosen);
            }
        }
        let size = content.size;
        content.truncate(size);
        content
    }

    fn size_after(&self, sizes_kept: usize) -> u64 {
        let mut sizes = self.events.iter().filter_map(|event| {
            if let Event::Size(size) = event {
                Some(*size)
            } else {
                None
            }
        });
        if sizes_kept == 0 {
            self.durable.size
        } else {
            sizes.nth(sizes_kept - 1).unwrap_or(self.live.size)
        }
    }

    /// For each page, the contents it may have after a cut that keeps the first `sizes_kept` changes of size.
    /// The first is the one that needs no unsynced page at all. (2) (3)
    fn versions(&self, sizes_kept: usize) -> BTreeMap<u64, Vec<Option<Page>>> {
        let mut versions: BTreeMap<u64, Vec<Option<Page>>> = self
            .durable
            .pages
            .iter()
            .map(|(page, content)| (*page, vec![Some(Arc::clone(content))]))
            .collect();
        let mut seen = 0;
        let mut size = self.durable.size;
        // Behind a truncation that the cut lost, no page written later can be reached.
        let mut horizon = u64::MAX;
        for event in &self.events {
            match event {
                Event::Page { page, content, .. } if *page < horizon => {
                    versions
                        .entry(*page)
                        .or_insert_with(|| vec![None])
                        .push(Some(Arc::clone(content)));
                }
                Event::Page { .. } => {}
                Event::Size(new) => {
                    if *new < size && seen < sizes_kept {
                        for (page, versions) in versions.range_mut(new / PAGE..) {
                            for version in versions.iter_mut() {
                                *version = version
                                    .take()
                                    .and_then(|content| page_cut_at(*page, &content, *new));
                            }
                        }
                    } else if *new < size {
                        horizon = horizon.min(new / PAGE);
                    }
                    seen += 1;
                    size = *new;
                }
            }
        }
        versions
    }

    fn change_page(&mut self, page: u64, change: impl FnOnce(&mut [u8; PAGE_BYTES])) {
        let content = self.live.pages.entry(page).or_insert_with(blank);
        change(Arc::make_mut(content));
        self.events.push(Event::Page {
            page,
            content: Arc::clone(content),
            doomed: false,
        });
    }
}

/// One of `versions`, or with `torn` now and then two neighbours mixed sector by sector.
fn choose(versions: &[Option<Page>], torn: bool, choices: &mut Choices) -> Option<Page> {
    let at = choices.index(versions.len());
    let chosen = versions.get(at).cloned().flatten();
    if !torn || at == 0 || !choices.chance(1, 4) {
        return chosen;
    }
    let older = versions
        .get(at - 1)
        .cloned()
        .flatten()
        .unwrap_or_else(blank);
    let mut mixed = chosen.unwrap_or_else(blank);
    for (sector, old) in Arc::make_mut(&mut mixed)
        .chunks_mut(SECTOR_BYTES)
        .zip(older.chunks(SECTOR_BYTES))
    {
        if choices.chance(1, 2) {
            sector.copy_from_slice(old);
        }
    }
    Some(mixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(content: &Content) -> Vec<u8> {
        content.read(0, usize::MAX)
    }

    /// Every content that some cut of `file` leaves, over many seeds and all policies.
    fn outcomes(file: &FileState) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for policy in Policy::ALL {
            for seed in 0..200 {
                all.push(bytes(&file.after_cut(policy, seed, 1)));
            }
        }
        all.sort();
        all.dedup();
        all
    }

    #[test]
    fn what_was_synced_survives_every_cut() {
        let mut file = FileState::default();
        file.write(100, &[7; 9000]);
        file.set_size(5000);
        file.write(20_000, b"end");
        file.sync();
        assert_eq!(outcomes(&file), [bytes(file.live())]);
    }

    #[test]
    fn what_was_not_synced_may_be_there_or_not() {
        let mut file = FileState::default();
        file.write(0, &[1; PAGE_BYTES]);
        file.sync();
        file.write(0, &[2; PAGE_BYTES]);
        let all = outcomes(&file);
        assert!(all.contains(&vec![1; PAGE_BYTES]));
        assert!(all.contains(&vec![2; PAGE_BYTES]));
        assert!(
            all.iter()
                .any(|content| content.contains(&1) && content.contains(&2)),
            "no torn page among {}",
            all.len()
        );
    }

    #[test]
    fn pages_are_lost_one_by_one() {
        let mut file = FileState::default();
        file.set_size(2 * PAGE);
        file.sync();
        file.write(0, &[1; 2 * PAGE_BYTES]);
        let all = outcomes(&file);
        let first_only = [vec![1; PAGE_BYTES], vec![0; PAGE_BYTES]].concat();
        let second_only = [vec![0; PAGE_BYTES], vec![1; PAGE_BYTES]].concat();
        assert!(all.contains(&first_only) && all.contains(&second_only));
    }

    #[test]
    fn bytes_behind_a_kept_truncation_do_not_come_back() {
        let mut file = FileState::default();
        file.write(0, &[1; 3 * PAGE_BYTES]);
        file.sync();
        file.set_size(10);
        file.set_size(3 * PAGE);
        for content in outcomes(&file) {
            let whole = content == vec![1; 3 * PAGE_BYTES];
            assert!(
                whole || content[10..].iter().all(|byte| *byte == 0),
                "size {}",
                content.len()
            );
        }
    }

    #[test]
    fn a_lost_truncation_hides_what_was_written_behind_it() {
        let mut file = FileState::default();
        file.write(0, &[1; PAGE_BYTES]);
        file.sync();
        file.set_size(0);
        file.write(0, &[2; PAGE_BYTES]);
        for content in outcomes(&file) {
            assert!(
                !(content.contains(&1) && content.contains(&2)),
                "two lives of one page met"
            );
        }
    }

    #[test]
    fn a_failed_sync_gives_pages_up_for_good() {
        let mut file = FileState::default();
        file.write(0, &[1; PAGE_BYTES]);
        file.sync();
        file.write(0, &[2; PAGE_BYTES]);
        file.fail_sync();
        file.sync();
        assert!(
            outcomes(&file).contains(&vec![1; PAGE_BYTES]),
            "a later sync brought the page back"
        );
        file.write(0, &[3; PAGE_BYTES]);
        file.sync();
        assert_eq!(
            outcomes(&file),
            [vec![3; PAGE_BYTES]],
            "written again, it is an ordinary page"
        );
    }

    #[test]
    fn zeroing_keeps_the_neighbours() {
        let mut file = FileState::default();
        file.write(0, &[1; 3 * PAGE_BYTES]);
        file.zero(10, 2 * PAGE);
        let seen = bytes(file.live());
        assert!(
            seen[..10]
                .iter()
                .chain(&seen[10 + 2 * PAGE_BYTES..])
                .all(|byte| *byte == 1)
        );
        assert!(seen[10..10 + 2 * PAGE_BYTES].iter().all(|byte| *byte == 0));
    }
}

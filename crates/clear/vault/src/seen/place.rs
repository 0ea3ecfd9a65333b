//! Decides what a vault folder is to this user: the folder that was seen before, a copy, a moved folder, or an older state.
//!
//! Takes   the recorded places of a vault, and the folder at hand
//! Gives   a verdict. The function is pure, and one table of test cases covers it
//! Never   looks at a disk or a clock
//! Spec    spec/9-seen.md, section 9.3

use std::path::{Path, PathBuf};

use strongroom_format::{InstanceId, RecordId};

use crate::older_folder::How;

/// Device and inode of a folder: what names it whatever path leads to it.
pub(crate) type Identity = (u64, u64);

/// What a vault was seen to be. Only what was durable in its folder counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The newest membership record that does more than add devices.
    pub(crate) head: RecordId,
    pub(crate) epoch: u32,
    pub(crate) generation: u64,
    pub(crate) commits: u64,
    /// Stands for the whole database as of that commit; `None` of one that keeps no such value.
    pub(crate) root: Option<[u8; 32]>,
}

/// Where a vault was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Absolute, without links.
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    pub(crate) instance: InstanceId,
    /// `None` if nothing of it could be known to be durable: it was only read.
    pub(crate) state: Option<State>,
    /// The folder that this one was found to be a copy of.
    pub(crate) copy_of: Option<PathBuf>,
    /// Seconds since 1970.
    pub(crate) seen_s: u64,
}

impl Place {
    /// Whether this is the folder of that path, or the folder itself under another one.
    ///
    /// The number of a folder that was removed is given to another one: under another path the name must be the same, too.
    pub(crate) fn is_of(&self, path: &Path, identity: Identity, instance: InstanceId) -> bool {
        self.path == path || (self.identity == identity && self.instance == instance)
    }
}

/// A recorded place, and what it is now.
pub(crate) struct Known<'a> {
    pub(crate) place: &'a Place,
    /// Whether its path leads to a folder of its identity.
    pub(crate) stands: bool,
}

/// The folder that is being opened.
pub(crate) struct Here<'a> {
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    pub(crate) instance: InstanceId,
    pub(crate) state: State,
    /// Whether its chain of membership contains a record.
    pub(crate) has_record: &'a dyn Fn(RecordId) -> bool,
}

/// What a folder is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The vault was never seen.
    First,
    /// The vault is known, and this is it, where it was or elsewhere.
    Known,
    /// Another one that stands beside this one: of that path.
    Copy(PathBuf),
    /// It is not what was seen last, of the place of that index.
    Behind(usize, How),
}

impl State {
    /// In which way `here` is behind this; `None` if it is the same or newer.
    fn ahead_of(&self, here: &Here<'_>) -> Option<How> {
        let now = &here.state;
        if !(here.has_record)(self.head) {
            return Some(How::Keys);
        }
        if now.commits < self.commits || now.generation < self.generation || now.epoch < self.epoch
        {
            return Some(How::Older);
        }
        let differs = matches!((self.root, now.root), (Some(seen), Some(found)) if seen != found);
        (now.commits == self.commits && differs).then_some(How::Fork)
    }

    /// Whether this may take the place of `other` in a record without an order to: it is not behind.
    pub(crate) fn is_not_behind(&self, other: &Self) -> bool {
        self.commits >= other.commits
            && self.generation >= other.generation
            && self.epoch >= other.epoch
    }
}

/// What `here` is, of a vault that was seen at `known`.                                           [9.3.1 to 9.3.5]
pub(crate) fn judge(known: &[Known<'_>], here: &Here<'_>) -> Verdict {
    if known.is_empty() {
        return Verdict::First;
    }
    let is_here = |known: &Known<'_>| {
        let place = known.place;
        place.is_of(&here.path, here.identity, here.instance)
    };
    let is_this = known.iter().any(is_here);
    let standing = known.iter().rev().find(|known| known.stands);
    if let Some(other) = standing.filter(|_| !is_this) {
        return Verdict::Copy(other.place.path.clone());
    }
    let same_name = |known: &Known<'_>| known.place.instance == here.instance;
    let is_named = known.iter().any(same_name);
    for (index, known) in known.iter().enumerate() {
        // Moved: of several that are gone it is the one of its name, or else any of them.
        let counts = match (is_this, is_named) {
            (true, _) => is_here(known),
            (false, true) => same_name(known),
            (false, false) => true,
        };
        let how = known.place.state.and_then(|seen| seen.ahead_of(here));
        if let Some(how) = how.filter(|_| counts) {
            return Verdict::Behind(index, how);
        }
    }
    Verdict::Known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(head: u8, commits: u64) -> State {
        State {
            head: RecordId([head; 32]),
            epoch: u32::from(head),
            generation: u64::from(head) + 1,
            commits,
            root: Some([commits.to_le_bytes()[0]; 32]),
        }
    }

    fn place(path: &str, inode: u64, instance: u8, state: State) -> Place {
        Place {
            path: path.into(),
            identity: (1, inode),
            instance: InstanceId([instance; 16]),
            state: Some(state),
            copy_of: None,
            seen_s: 0,
        }
    }

    /// The verdict over a folder whose chain holds the records 0 to `state.head`.
    fn verdict(known: &[(Place, bool)], here: (&str, u64, u8, State)) -> Verdict {
        let (path, inode, instance, state) = here;
        let known: Vec<_> = known
            .iter()
            .map(|(place, stands)| Known {
                place,
                stands: *stands,
            })
            .collect();
        let has_record = |id: RecordId| id.0[0] <= state.head.0[0];
        let here = Here {
            path: path.into(),
            identity: (1, inode),
            instance: InstanceId([instance; 16]),
            state,
            has_record: &has_record,
        };
        judge(&known, &here)
    }

    /// Goal: the table of spec 9.3. One recorded folder: /v, inode 7, instance 1, head 2, commit 50.
    #[test]
    fn each_case_of_one_recorded_folder_has_its_verdict() {
        use How::{Fork, Keys, Older};
        let copy = || Verdict::Copy("/v".into());
        let behind = |how| Verdict::Behind(0, how);
        let (here, gone) = (true, false);
        let mut fork = state(2, 50);
        fork.root = Some([99; 32]);
        let mut without_root = state(2, 50);
        without_root.root = None;
        let mut fewer_generations = state(2, 60);
        fewer_generations.generation = 1;
        let cases = [
            // The same folder at its path.
            (here, "/v", 7, state(2, 50), Verdict::Known),
            (here, "/v", 7, state(2, 51), Verdict::Known),
            (here, "/v", 7, state(3, 50), Verdict::Known),
            (here, "/v", 7, without_root, Verdict::Known),
            (here, "/v", 7, state(2, 49), behind(Older)),
            (here, "/v", 7, state(1, 49), behind(Keys)),
            (here, "/v", 7, state(1, 80), behind(Keys)),
            (here, "/v", 7, fewer_generations, behind(Older)),
            (here, "/v", 7, fork, behind(Fork)),
            // The same folder under another path: renamed.
            (gone, "/w", 7, state(2, 50), Verdict::Known),
            (gone, "/w", 7, state(2, 49), behind(Older)),
            // Another folder at its path: restored over it, or put there by somebody.
            (gone, "/v", 8, state(2, 50), Verdict::Known),
            (gone, "/v", 8, state(2, 60), Verdict::Known),
            (gone, "/v", 8, state(2, 49), behind(Older)),
            (gone, "/v", 8, fork, behind(Fork)),
            // Another folder elsewhere while the recorded one stands: a copy, of whatever age.
            (here, "/w", 8, state(2, 50), copy()),
            (here, "/w", 8, state(1, 3), copy()),
            (here, "/w", 8, state(4, 90), copy()),
            // Another folder elsewhere, and the recorded one is gone: moved, or restored elsewhere.
            (gone, "/w", 8, state(2, 50), Verdict::Known),
            (gone, "/w", 8, state(2, 70), Verdict::Known),
            (gone, "/w", 8, state(2, 49), behind(Older)),
        ];
        for (number, (stands, path, inode, now, expected)) in cases.into_iter().enumerate() {
            let known = [(place("/v", 7, 1, state(2, 50)), stands)];
            assert_eq!(
                verdict(&known, (path, inode, 1, now)),
                expected,
                "case {number}"
            );
        }
    }

    #[test]
    fn a_vault_that_was_never_seen_is_new_at_any_age() {
        assert_eq!(verdict(&[], ("/v", 7, 1, state(0, 0))), Verdict::First);
    }

    /// Goal: an older copy that is known itself, put in the place of the newer folder, is compared with both.
    #[test]
    fn a_known_copy_in_the_place_of_the_newer_folder_is_behind() {
        let known = [
            (place("/backup", 8, 1, state(2, 20)), false),
            (place("/v", 7, 1, state(2, 50)), false),
        ];
        let swapped = verdict(&known, ("/v", 8, 1, state(2, 20)));
        assert_eq!(swapped, Verdict::Behind(1, How::Older));
        let at_home = verdict(&known, ("/backup", 8, 1, state(2, 20)));
        assert_eq!(at_home, Verdict::Known);
    }

    /// Goal: a copy that was removed and one that was made later, whose folder got the number of the first.
    #[test]
    fn a_folder_that_got_the_number_of_a_removed_one_is_not_taken_for_it() {
        let known = [
            (place("/removed", 8, 2, state(2, 90)), false),
            (place("/v", 7, 1, state(2, 50)), true),
        ];
        let later = verdict(&known, ("/later", 8, 1, state(2, 40)));
        assert_eq!(later, Verdict::Copy("/v".into()));
    }

    #[test]
    fn of_several_that_are_gone_the_one_of_the_same_name_was_moved() {
        let known = [
            (place("/a", 7, 1, state(2, 50)), false),
            (place("/b", 8, 2, state(2, 20)), false),
        ];
        assert_eq!(verdict(&known, ("/c", 9, 2, state(2, 21))), Verdict::Known);
        let older = verdict(&known, ("/c", 9, 2, state(2, 19)));
        assert_eq!(older, Verdict::Behind(1, How::Older));
        // A name that nobody knows: not behind any of them.
        let unknown = verdict(&known, ("/c", 9, 3, state(2, 21)));
        assert_eq!(unknown, Verdict::Behind(0, How::Older));
    }

    #[test]
    fn a_place_that_was_only_read_compares_with_nothing() {
        let mut only_read = place("/v", 7, 1, state(2, 50));
        only_read.state = None;
        let here = ("/v", 7, 1, state(0, 0));
        assert_eq!(verdict(&[(only_read, true)], here), Verdict::Known);
    }
}

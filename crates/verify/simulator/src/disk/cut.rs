//! Policies that decide which unsynced changes survive a power cut.
//!
//! Takes   nothing
//! Gives   the policies, from the mildest to the harshest
//! Never   decides alone: `content` and `names` draw at random by the policy
//! Spec    none: test only

/// How much of one sort of unsynced change a cut keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All of it.
    All,
    /// Nothing.
    Nothing,
    /// Some, drawn from the seed.
    Some,
}

/// What a cut keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Of pages: each alone, in any of its versions, whatever became of others.
    pub pages: Keep,
    /// Of changes of a file's size: always the first few, as a journal would.
    pub sizes: Keep,
    /// Of directory operations.
    pub names: Keep,
    /// Whether a page may come out half old, half new, cut on 512 bytes.
    pub torn: bool,
}

impl Policy {
    /// Everything was written just in time.
    pub const KEEP_ALL: Self = Self {
        pages: Keep::All,
        sizes: Keep::All,
        names: Keep::All,
        torn: false,
    };
    /// Nothing but what was synced.
    pub const LOSE_ALL: Self = Self {
        pages: Keep::Nothing,
        sizes: Keep::Nothing,
        names: Keep::Nothing,
        torn: false,
    };
    /// The journal was written, the data was not: files have their names and sizes, and zeros in them.
    pub const NAMES_ONLY: Self = Self {
        pages: Keep::Nothing,
        sizes: Keep::All,
        names: Keep::All,
        torn: false,
    };
    /// The data was written, the journal was not.
    pub const PAGES_ONLY: Self = Self {
        pages: Keep::All,
        sizes: Keep::Nothing,
        names: Keep::Nothing,
        torn: false,
    };
    /// Any part of anything.
    pub const RANDOM: Self = Self {
        pages: Keep::Some,
        sizes: Keep::Some,
        names: Keep::Some,
        torn: false,
    };
    /// Any part of anything, and torn pages.
    pub const TORN: Self = Self {
        torn: true,
        ..Self::RANDOM
    };

    /// All of the above, mildest first.
    pub const ALL: [Self; 6] = [
        Self::KEEP_ALL,
        Self::LOSE_ALL,
        Self::NAMES_ONLY,
        Self::PAGES_ONLY,
        Self::RANDOM,
        Self::TORN,
    ];

    /// The name it has at the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, policy)| *policy == self)
            .map_or("mixed", |(name, _)| name)
    }

    /// The policy of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, policy)| *policy)
    }

    const NAMES: [(&'static str, Self); 6] = [
        ("keep-all", Self::KEEP_ALL),
        ("lose-all", Self::LOSE_ALL),
        ("names-only", Self::NAMES_ONLY),
        ("pages-only", Self::PAGES_ONLY),
        ("random", Self::RANDOM),
        ("torn", Self::TORN),
    ];
}

/// When a directory operation is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSync {
    /// After the directory itself was synced, and not sooner. POSIX promises no more.
    Directory,
    /// After anything was synced: one journal, written in order, as ext4 has it. A cut keeps the first few.
    Journal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_name_that_finds_it() {
        for policy in Policy::ALL {
            assert_eq!(Policy::by_name(policy.name()), Some(policy));
        }
        assert_eq!(Policy::by_name("none-such"), None);
    }
}

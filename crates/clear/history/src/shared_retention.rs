//! The rule for snapshots that the devices of a vault share.
//!
//! Takes   the value of an attribute of the root directory, or those of both sides of a merge; a rule that a person sets
//! Gives   the rule in a value; a value for a rule; the value that joins both sides
//! Never   lets a device follow a rule that keeps less than its own: the caller compares them
//! Spec    spec/6-history.md, section 6.10
//!
//! Invariants
//!  (1) The rule that was set last counts. The number of changes that its device knew decides which one that is, and no clock. If
//!      two rules were set at the same time, all devices choose the same one.                                [6.10.6]

use crate::retention::Retention;

/// The attribute of the root directory. Only root sees it on a mount.
pub const SHARED_RETENTION: &[u8] = b"trusted.strongroom.keep";

/// The version inside it.
const FORMAT: u8 = 1;

/// A rule that devices share. Later ones are greater. (1)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRetention {
    /// How many rules were set, one behind the other.
    change: u64,
    /// The device on which it was set.
    device: [u8; 32],
    /// What it says.
    pub rule: Retention,
}

impl SharedRetention {
    /// A rule that is set on `device`, which knows the rule `before`.
    #[must_use]
    pub fn after(before: Option<&Self>, device: [u8; 32], rule: Retention) -> Self {
        Self {
            change: before.map_or(0, |before| before.change).saturating_add(1),
            device,
            rule,
        }
    }

    /// The value of the attribute.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (change, rule) = (self.change.to_le_bytes(), self.rule.encode());
        [&[FORMAT][..], &change[..], &self.device[..], &rule[..]].concat()
    }

    /// What a value says; `None` if it is none that this version knows.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[FORMAT])?;
        let (change, rest) = rest.split_first_chunk::<8>()?;
        let (device, rule) = rest.split_first_chunk::<32>()?;
        Some(Self {
            change: u64::from_le_bytes(*change),
            device: *device,
            rule: Retention::decode(rule)?,
        })
    }

    /// The value that joins what both sides of a merge have. Where one cannot be read, that of theirs counts. (1)
    #[must_use]
    pub fn joined(mine: Option<&[u8]>, theirs: Option<&[u8]>) -> Option<Vec<u8>> {
        let order = |one: &Self| (one.change, one.device, one.rule.encode());
        let read = |value: Option<&[u8]>| value.map(Self::decode);
        match (read(mine), read(theirs)) {
            (Some(Some(own)), Some(Some(other))) if order(&own) > order(&other) => {
                Some(own.encode())
            }
            (Some(Some(own)), None) => Some(own.encode()),
            _ => theirs.map(<[u8]>::to_vec),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(change: u64, device: u8, daily: u32) -> SharedRetention {
        SharedRetention {
            change,
            device: [device; 32],
            rule: Retention {
                daily,
                ..Retention::DEFAULT
            },
        }
    }

    #[test]
    fn a_shared_rule_comes_back_and_what_is_none_is_refused() {
        let value = shared(3, 7, 5).encode();
        assert_eq!(SharedRetention::decode(&value), Some(shared(3, 7, 5)));
        for len in 0..value.len() {
            assert_eq!(SharedRetention::decode(&value[..len]), None, "{len}");
        }
        let mut wrong = value;
        wrong[0] = 2;
        assert_eq!(SharedRetention::decode(&wrong), None);
    }

    #[test]
    fn the_rule_that_was_set_last_counts_on_every_device() {
        let (first, other) = (shared(1, 7, 5), shared(1, 8, 6));
        let next = SharedRetention::after(Some(&first), [1; 32], Retention::DEFAULT);
        for (older, newer) in [(first, other), (first, next), (other, next)] {
            let [older, newer] = [older, newer].map(|one| one.encode());
            let both = Some(newer.clone());
            assert_eq!(SharedRetention::joined(Some(&older), Some(&newer)), both);
            assert_eq!(SharedRetention::joined(Some(&newer), Some(&older)), both);
            assert_eq!(SharedRetention::joined(Some(&newer), None), both);
            assert_eq!(SharedRetention::joined(None, Some(&newer)), both);
            let unknown = SharedRetention::joined(Some(&newer), Some(&b"x"[..]));
            assert_eq!(unknown, Some(b"x".to_vec()));
        }
    }
}

//! Decides whether an object stays although somebody asks to remove it: an account can keep it for some days.
//!
//! Takes   when somebody first asked, when the object came, and for how many days the account keeps
//! Gives   whether it stays for now; until when
//! Never   counts a day before somebody has asked
//! Spec    spec/11-sync.md, [11.8.8]
//!
//! The days count from the first request to remove the object, and not from when it came: otherwise somebody with the keys of a device could
//! remove everything older at once. So a clock that jumps forward frees nothing that nobody had asked to remove before. Times are those of
//! the clock of the database.
//!
//! Invariants
//!  (1) An object that an account keeps stays until its days have passed since the first request to remove it.   [11.8.8]
//!  (2) No publication is removed before an earlier one that somebody asked to remove: that one's days may have begun later. [11.8.5]

use strongroom_remote::ObjectName;

use crate::database::{View, values};
use crate::error::Result;
use crate::named::Named;

const DAY_S: u64 = 24 * 60 * 60;

/// Kinds of objects that are messages: they go once they were read. Everything else is a part of the vault.
const MESSAGES: [&str; 6] = [
    "addresses",
    "deposits",
    "needs",
    "pairing",
    "pieces",
    "probes",
];

/// What says whether an object stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// When somebody first asked to remove it; 0 if nobody has.
    pub(super) asked_s: u64,
    /// When it came.
    pub(super) created_s: u64,
    /// For how many days its account keeps; 0 if it does not.
    pub(super) days: u64,
}

impl Kept {
    /// Since when somebody has asked, if it stays at `now_s`; `None` if it can go. (1)
    fn stays_since(self, now_s: u64) -> Option<u64> {
        // A clock that was ahead when it came says nothing of later requests.
        let came_s = if self.created_s > now_s {
            0
        } else {
            self.created_s
        };
        // Nobody has asked, or a clock was wrong then: before the object came, or later than now.
        let is_known = self.asked_s > 0 && (came_s..=now_s).contains(&self.asked_s);
        let since_s = if is_known { self.asked_s } else { now_s };
        (until_s(since_s, self.days) > now_s).then_some(since_s)
    }
}

/// Until when an account that keeps for so many days keeps what somebody first asked to remove at `asked_s`; 0 if it does not, or nobody has.
pub(super) const fn until_s(asked_s: u64, days: u64) -> u64 {
    match (asked_s, days) {
        (0, _) | (_, 0) => 0,
        _ => asked_s.saturating_add(days.saturating_mul(DAY_S)),
    }
}

/// Whether the object of that name stays for now, which somebody asks to remove; notes that, if it is the first time.
pub(super) fn stays(
    change: &View<'_>,
    (vault, name): (i64, &ObjectName),
    kept: Kept,
) -> Result<bool> {
    if name.split().0.is_some_and(|kind| MESSAGES.contains(&kind)) {
        return Ok(false);
    }
    if kept.days > 0 {
        let now_s: u64 = change.value("SELECT unixepoch()", values![])?;
        if let Some(since_s) = kept.stays_since(now_s) {
            if since_s != kept.asked_s {
                change.execute(
                    "UPDATE object SET asked_s = ?3 WHERE vault = ?1 AND name = ?2",
                    values![vault, name.as_str(), since_s],
                )?;
            }
            return Ok(true);
        }
    }
    match Named::of(name) {
        Named::Publication(_) => is_behind_one_asked_for(change, vault, name),
        _ => Ok(false),
    }
}

/// Whether an earlier publication is there that somebody asked to remove. (2)
fn is_behind_one_asked_for(change: &View<'_>, vault: i64, name: &ObjectName) -> Result<bool> {
    change.exists(
        "SELECT 1 FROM object WHERE vault = ?1 AND name > 'publications/' AND name < ?2 AND asked_s > 0 LIMIT 1",
        values![vault, name.as_str()],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_800_000_000;

    /// Goal: the days count from the first request, by a clock that may be wrong now and then. Method: every order of the times.
    #[test]
    fn an_object_stays_for_its_days_after_the_first_request_whatever_a_clock_did() {
        let of = |asked_s, created_s, days| Kept {
            asked_s,
            created_s,
            days,
        };
        let (old_s, days) = (NOW_S - 1000 * DAY_S, 30);
        for (kept, now_s, since_s) in [
            // However old it is.
            (of(0, old_s, days), NOW_S, Some(NOW_S)),
            (of(NOW_S, old_s, days), NOW_S, Some(NOW_S)),
            (of(NOW_S, old_s, days), NOW_S + 30 * DAY_S - 1, Some(NOW_S)),
            (of(NOW_S, old_s, days), NOW_S + 30 * DAY_S, None),
            // A clock that was ahead, or behind, when somebody asked.
            (of(NOW_S + 1, old_s, days), NOW_S, Some(NOW_S)),
            (of(100, old_s, days), NOW_S, Some(NOW_S)),
            // One that was ahead when it came: by years, or by less than the days.
            (of(NOW_S, NOW_S + 9, days), NOW_S + 5, Some(NOW_S)),
            (of(NOW_S, u64::MAX, days), NOW_S + 30 * DAY_S, None),
            (of(NOW_S, NOW_S + 9, days), NOW_S + 9, Some(NOW_S + 9)),
            // One that jumps forward frees what nobody has asked for as little as before.
            (of(0, old_s, days), u64::MAX - 1, Some(u64::MAX - 1)),
            (of(0, old_s, 1), NOW_S, Some(NOW_S)),
        ] {
            assert_eq!(kept.stays_since(now_s), since_s, "{kept:?} at {now_s}");
        }
        assert_eq!(until_s(0, 30), 0);
        assert_eq!(until_s(NOW_S, 0), 0);
        assert_eq!(until_s(NOW_S, 1), NOW_S + DAY_S);
        assert_eq!(until_s(u64::MAX - 1, u64::MAX), u64::MAX);
    }
}

//! Judges whether a file system's fsync kept what it acknowledged, and whether its figures for synced content fully count.
//!
//! Takes   counts that `probe.rs` found
//! Gives   a judgement in words
//! Never   uses the name of a file system

use serde::Serialize;

/// A disk that was not asked to flush its cache by every other fsync loses what was acknowledged when its power fails. Half
/// of them is enough, as one flush may serve several that wait.
const FLUSHES_LEAST: f64 = 0.5;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Kept {
    /// Records appended to a file, with an fsync after each.
    pub records: usize,
    /// How often the disk beneath flushed its cache meanwhile, per fsync; none if that cannot be told.
    pub flushes_per_fsync: Option<f64>,
    /// How often it wrote.
    pub writes_per_fsync: Option<f64>,
    /// Records that were there and right after the server was killed and the store mounted again; none without a server.
    pub records_after_kill: Option<usize>,
    /// Whether their content lay in clear where the file system keeps what it stores.
    pub in_clear: Option<bool>,
    /// What could not be done, and why.
    pub failure: Option<String>,
}

impl Kept {
    /// Of a file system with which nothing could be found out.
    #[must_use]
    pub fn unknown(failure: String) -> Self {
        Self {
            failure: Some(failure),
            ..Self::default()
        }
    }

    /// Whether flushes were seen: if not even the plain file system has them, they are not counted on this disk, or it needs none.
    pub(crate) fn has_flushes(&self) -> bool {
        self.flushes_per_fsync
            .is_some_and(|flushes| flushes >= FLUSHES_LEAST)
    }

    /// Why its figures of synced content stand for less than those of who encrypts it and keeps it; none if they do not.
    #[must_use]
    pub fn shortfall(&self) -> Option<String> {
        let flushes = self
            .flushes_per_fsync
            .map(|flushes| format!("{flushes:.2} flushes per fsync"));
        let lost = self
            .records_after_kill
            .is_some_and(|records| records < self.records);
        let mut short = Vec::new();
        if lost {
            let killed = format!("{} records after a kill", self.after_kill());
            let counts: Vec<_> = [killed].into_iter().chain(flushes).collect();
            let counts = counts.join(", ");
            short.push(format!("does not keep what it acknowledged: {counts}"));
        } else if let Some(flushes) = flushes.filter(|_| !self.has_flushes()) {
            let what = "does not keep what it acknowledged when the power fails";
            short.push(format!("{what}: {flushes}"));
        }
        if self.in_clear == Some(true) {
            short.push("content in clear".to_owned());
        }
        short.extend(self.failure.clone());
        (!short.is_empty()).then(|| short.join("; "))
    }

    /// As in "3 of 100".
    pub(crate) fn after_kill(&self) -> String {
        self.records_after_kill.map_or_else(
            || "–".to_owned(),
            |found| format!("{found} of {}", self.records),
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Who keeps and encrypts everything.
    pub(crate) fn all() -> Kept {
        Kept {
            records: 100,
            flushes_per_fsync: Some(1.0),
            writes_per_fsync: Some(3.0),
            records_after_kill: Some(100),
            in_clear: Some(false),
            failure: None,
        }
    }

    #[test]
    fn who_keeps_and_encrypts_everything_falls_short_of_nothing() {
        assert_eq!(all().shortfall(), None);
        for flushes in [None, Some(0.5), Some(7.0)] {
            let kept = Kept {
                flushes_per_fsync: flushes,
                ..all()
            };
            assert_eq!(kept.shortfall(), None, "{flushes:?}");
        }
        let without_server = Kept {
            records_after_kill: None,
            ..all()
        };
        assert_eq!(without_server.shortfall(), None);
    }

    #[test]
    fn what_is_missing_is_told_in_figures() {
        let short = |kept: Kept| kept.shortfall().unwrap();
        let lost = Kept {
            records_after_kill: Some(0),
            flushes_per_fsync: Some(0.0),
            ..all()
        };
        assert_eq!(
            short(lost),
            "does not keep what it acknowledged: 0 of 100 records after a kill, 0.00 flushes per fsync"
        );
        let one = Kept {
            records_after_kill: Some(99),
            flushes_per_fsync: None,
            ..all()
        };
        assert_eq!(
            short(one),
            "does not keep what it acknowledged: 99 of 100 records after a kill"
        );
        let in_memory_of_the_kernel = Kept {
            flushes_per_fsync: Some(0.49),
            ..all()
        };
        assert_eq!(
            short(in_memory_of_the_kernel),
            "does not keep what it acknowledged when the power fails: 0.49 flushes per fsync"
        );
        let clear = Kept {
            in_clear: Some(true),
            ..all()
        };
        assert_eq!(short(clear), "content in clear");
        assert_eq!(short(Kept::unknown("no disk".to_owned())), "no disk");
    }
}

//! Explains to a person, who has to decide, in what respect a vault folder is older than its last seen state.
//!
//! Gives   sentences: what is older, since when, and what to do
//! Never   prints a path with characters that control a terminal

use std::path::Path;

/// In which way a folder is behind what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Its chain of membership lacks the newest record.
    Keys,
    /// Fewer commits, generations or epochs.
    Older,
    /// As many commits, and another content.
    Fork,
}

/// A vault folder that is behind what was seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OlderFolder {
    /// When the vault was last seen, in seconds since 1970.
    pub seen_s: u64,
    /// The newest commit that was seen.
    pub seen_commits: u64,
    /// The newest commit of the folder now.
    pub found_commits: u64,
    /// How often the header had changed when it was seen.
    pub seen_generation: u64,
    /// How often the header of the folder has changed.
    pub found_generation: u64,
    pub(crate) how: How,
}

impl OlderFolder {
    /// What was seen when, and what is there.
    pub(crate) fn facts(&self) -> String {
        let what = match self.how {
            How::Keys => "the newest change of its keys is missing",
            How::Older => "its newest changes are missing",
            How::Fork => "the commit number is the same, but the content is different",
        };
        format!(
            "{what}. Last seen at {}: commit {}, generation (number of key changes) {}. Now: commit {}, generation {}",
            show_time(self.seen_s),
            self.seen_commits,
            self.seen_generation,
            self.found_commits,
            self.found_generation,
        )
    }
}

impl std::fmt::Display for OlderFolder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "the vault is in an older or a different state than the one last seen here: {}. Put the newer folder back; if \
             you restored a backup yourself, open it once with --accept-older",
            self.facts()
        )
    }
}

/// A path in quotes, without characters that act on a terminal.
pub(crate) fn show(path: &Path) -> String {
    format!("{path:?}")
}

/// Seconds since 1970 as date and time in UTC.
fn show_time(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Year, month and day of a count of days since 1970-01-01, in the Gregorian calendar.
///
/// Counts from 1 March of year 0, so that the leap day is the last of its year; 146,097 days are 400 years.
fn date(days: u64) -> (u64, u64, u64) {
    let from_march = days.saturating_add(719_468);
    let (era, day_of_era) = (from_march / 146_097, from_march % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = match month_from_march {
        early @ 0..10 => early + 3,
        late => late - 9,
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_dates() {
        assert_eq!(show_time(0), "1970-01-01 00:00 UTC");
        assert_eq!(show_time(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(show_time(1_798_761_599), "2026-12-31 23:59 UTC");
        assert!(show_time(u64::MAX).ends_with("UTC"));
    }

    #[test]
    fn a_path_cannot_act_on_a_terminal() {
        let evil = "/a\u{1b}[2J\u{202e}b\u{9b}";
        let shown = show(Path::new(evil));
        assert_eq!(shown, "\"/a\\u{1b}[2J\\u{202e}b\\u{9b}\"");
    }
}

//! Finds the revisions that a selector means.
//!
//! Takes   a selector, and the facts about the snapshots
//! Gives   the selected snapshots, oldest first; or what is wrong with the selector
//! Never   guesses if several match and one is wanted
//! Spec    spec/6-history.md, section 6.9

use strongroom_format::hex;
use strongroom_metadata::Timestamp;

use crate::revision::RevisionId;

/// The shortest beginning of an id that selects.
const PREFIX_DIGITS_MIN: usize = 2;

/// A day.
pub(crate) const DAY_S: i64 = 86_400;

/// What selectors and rules ask of a revision.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its name.
    pub id: RevisionId,
    /// What it follows.
    pub parents: &'a [RevisionId],
    /// Who took it.
    pub device: &'a [u8; 32],
    /// When it was taken, as the clock was then.
    pub time: Timestamp,
    /// What was said about it.
    pub message: &'a str,
    /// Its tags.
    pub tags: &'a [String],
}

/// What is wrong with a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// It is none.
    #[error("`{0}` is not a selector: {1}")]
    Malformed(String, &'static str),
    /// It selects nothing.
    #[error("no snapshot matches `{0}`")]
    None(String),
    /// It selects several, and one is wanted.
    #[error("`{selector}` matches {} snapshots: {}", matches.len(), shortened(matches))]
    Several {
        /// What was given.
        selector: String,
        /// What it selects, oldest first.
        matches: Vec<RevisionId>,
    },
}

/// How many candidates an error lists.
const LISTED: usize = 10;

fn shortened(matches: &[RevisionId]) -> String {
    let shown = matches
        .iter()
        .rev()
        .take(LISTED)
        .map(|id| id.to_string()[..16].to_owned());
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if matches.len() > LISTED {
        text.push_str(", and older ones");
    }
    text
}

/// The places in `all` (oldest first) of the revisions that `selector` selects, in order.
///
/// Terms are joined by `/` (and) and `|` (or, weaker). `now` is what relative dates count from.
///
/// # Errors
/// `SelectError::Malformed`.
pub fn select(
    selector: &str,
    all: &[Candidate<'_>],
    now: Timestamp,
) -> Result<Vec<usize>, SelectError> {
    let mut chosen = vec![false; all.len()];
    for alternative in selector.split('|') {
        let mut matches: Vec<usize> = (0..all.len()).collect();
        for term in alternative.split('/') {
            let of_term = select_term(term.trim(), all, now)?;
            matches.retain(|place| of_term.contains(place));
        }
        for place in matches {
            chosen[place] = true;
        }
    }
    Ok((0..all.len()).filter(|place| chosen[*place]).collect())
}

/// The place of the one revision that `selector` selects.
///
/// # Errors
/// `SelectError::None`, or `SelectError::Several` with all that it could be.
pub fn select_one(
    selector: &str,
    all: &[Candidate<'_>],
    now: Timestamp,
) -> Result<usize, SelectError> {
    let matches = select(selector, all, now)?;
    match matches[..] {
        [] => Err(SelectError::None(selector.to_owned())),
        [only] => Ok(only),
        _ => Err(SelectError::Several {
            selector: selector.to_owned(),
            matches: matches.iter().map(|place| all[*place].id).collect(),
        }),
    }
}

fn select_term(
    term: &str,
    all: &[Candidate<'_>],
    now: Timestamp,
) -> Result<Vec<usize>, SelectError> {
    let malformed = |why| SelectError::Malformed(term.to_owned(), why);
    let places = |matches: &dyn Fn(&Candidate<'_>) -> bool| -> Vec<usize> {
        (0..all.len())
            .filter(|place| matches(&all[*place]))
            .collect()
    };
    let (kind, value) = match term.as_bytes() {
        [kind, b':', ..] => (*kind, &term[2..]),
        _ => (b'i', term),
    };
    match kind {
        b'i' => {
            let prefix = prefix(value).ok_or_else(|| {
                malformed("an id needs at least two hexadecimal digits; see `strongroom log`")
            })?;
            Ok(places(&|one| hex::encode(&one.id.0).starts_with(&prefix)))
        }
        b'a' => {
            let prefix = prefix(value)
                .ok_or_else(|| malformed("`a:` needs at least two hexadecimal digits"))?;
            Ok(places(&|one| hex::encode(one.device).starts_with(&prefix)))
        }
        b't' if value.is_empty() => Err(malformed("`t:` needs a tag after it")),
        b't' => Ok(places(&|one| one.tags.iter().any(|tag| like(value, tag)))),
        b'h' if value.is_empty() => Ok(heads(all)),
        b'h' => Err(malformed("nothing may follow `h:`")),
        b'p' => parents(value, all, now),
        b'd' => {
            let period = period(value, now).ok_or_else(|| malformed(DATES))?;
            let last = (0..all.len()).rfind(|place| all[*place].time.0 < period.1);
            Ok(last.into_iter().collect())
        }
        b'e' => {
            let period = period(value, now).ok_or_else(|| malformed(DATES))?;
            Ok(places(&|one| one.time.0 < period.0))
        }
        b'l' => {
            let period = period(value, now).ok_or_else(|| malformed(DATES))?;
            Ok(places(&|one| one.time.0 >= period.1))
        }
        _ => Err(malformed(
            "a selector begins with i: t: d: e: l: p: h: or a:, or is the beginning of an id",
        )),
    }
}

const DATES: &str =
    "a date is like 2026-11-22, 2026-11-22T14:30, `now`, `today`, `yesterday` or `3 days ago`";

/// The digits of a beginning of an id, in lower case.
fn prefix(value: &str) -> Option<String> {
    let sound = value.len() >= PREFIX_DIGITS_MIN
        && value.len() <= 64
        && value.bytes().all(|digit| digit.is_ascii_hexdigit());
    sound.then(|| value.to_ascii_lowercase())
}

/// Whether `pattern`, in which `*` stands for anything, is like `tag`.
fn like(pattern: &str, tag: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = tag.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(part) = last.replace(part) {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
    }
    match last {
        None => rest.is_empty(),
        Some(last) => rest.ends_with(last),
    }
}

/// Those that nothing follows: no kept one by name, and none of the same device that was taken later. What lay between
/// may have been removed.
fn heads(all: &[Candidate<'_>]) -> Vec<usize> {
    let followed = |place: usize| {
        let id = &all[place].id;
        let by_name = all.iter().any(|one| one.parents.contains(id));
        by_name
            || all[place + 1..]
                .iter()
                .any(|one| one.device == all[place].device)
    };
    (0..all.len()).filter(|place| !followed(*place)).collect()
}

/// What the selected ones follow; of nothing given, what the heads follow. Where that was removed, the newest of the same
/// device before it.
fn parents(value: &str, all: &[Candidate<'_>], now: Timestamp) -> Result<Vec<usize>, SelectError> {
    let children = if value.is_empty() {
        heads(all)
    } else {
        select_term(value, all, now)?
    };
    let mut wanted = vec![false; all.len()];
    for child in children {
        let one = &all[child];
        let mut is_kept = false;
        for (place, other) in all.iter().enumerate() {
            if one.parents.contains(&other.id) {
                (wanted[place], is_kept) = (true, true);
            }
        }
        let before = all[..child]
            .iter()
            .rposition(|other| other.device == one.device);
        if let (false, false, Some(before)) = (is_kept, one.parents.is_empty(), before) {
            wanted[before] = true;
        }
    }
    Ok((0..all.len()).filter(|place| wanted[*place]).collect())
}

/// First nanosecond of a period, and the first behind it.
fn period(text: &str, now: Timestamp) -> Option<(i64, i64)> {
    let text = text.trim();
    let now_s = now.0.div_euclid(1_000_000_000);
    let today = now_s.div_euclid(DAY_S);
    let days = |first: i64| Some(nanoseconds(first * DAY_S, (first + 1) * DAY_S));
    match text {
        "now" => return Some((now.0, now.0.saturating_add(1))),
        "today" => return days(today)?,
        "yesterday" => return days(today - 1)?,
        _ => {}
    }
    if let Some(ago) = text.strip_suffix(" ago") {
        return relative(ago, now_s);
    }
    absolute(text)
}

fn nanoseconds(from_s: i64, to_s: i64) -> Option<(i64, i64)> {
    Some((
        from_s.checked_mul(1_000_000_000)?,
        to_s.checked_mul(1_000_000_000)?,
    ))
}

/// `3 days`, `1 hour`, `2 weeks`: the moment so long ago; of days and more, the day.
fn relative(text: &str, now_s: i64) -> Option<(i64, i64)> {
    let (count, unit) = text.split_once(' ')?;
    let count: i64 = match count {
        "a" | "an" => 1,
        count => count
            .parse()
            .ok()
            .filter(|count| (0..=1_000_000).contains(count))?,
    };
    let unit = unit.trim().trim_end_matches('s');
    let seconds = match unit {
        "second" => 1,
        "minute" => 60,
        "hour" => 3_600,
        "day" => DAY_S,
        "week" => 7 * DAY_S,
        "month" => 30 * DAY_S,
        "year" => 365 * DAY_S,
        _ => return None,
    };
    let at = now_s.checked_sub(count.checked_mul(seconds)?)?;
    if seconds < DAY_S {
        return nanoseconds(at, at + 1);
    }
    let day = at.div_euclid(DAY_S);
    nanoseconds(day * DAY_S, (day + 1) * DAY_S)
}

/// `2026`, `2026-11`, `2026-11-22`, `2026-11-22T14`, `…:30`, `…:05`: the whole year, month, day, hour, minute, second.
fn absolute(text: &str) -> Option<(i64, i64)> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = parts.next().map(|part| digits(part, 2));
    let day = parts.next().map(|part| digits(part, 2));
    if parts.next().is_some() {
        return None;
    }
    let (Some(month), day) = (month, day) else {
        return time.is_none().then(|| {
            nanoseconds(
                days_of(year, 1, 1)? * DAY_S,
                days_of(year + 1, 1, 1)? * DAY_S,
            )
        })?;
    };
    let month = month.filter(|month| (1..=12).contains(month))?;
    let Some(day) = day else {
        let (next_year, next) = if month == 12 {
            (year + 1, 1)
        } else {
            (year, month + 1)
        };
        return time.is_none().then(|| {
            nanoseconds(
                days_of(year, month, 1)? * DAY_S,
                days_of(next_year, next, 1)? * DAY_S,
            )
        })?;
    };
    let midnight = days_of(year, month, day?)? * DAY_S;
    let Some(time) = time else {
        return nanoseconds(midnight, midnight + DAY_S);
    };
    let mut at = midnight;
    let mut unit = DAY_S;
    for (index, part) in time.split(':').enumerate() {
        let (bound, seconds) = *[(24, 3_600), (60, 60), (60, 1)].get(index)?;
        let number = digits(part, 2).filter(|number| *number < bound)?;
        at += number * seconds;
        unit = seconds;
    }
    nanoseconds(at, at + unit)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let sound = text.len() == count && text.bytes().all(|digit| digit.is_ascii_digit());
    sound.then(|| text.parse().ok())?
}

/// Days since 1970-01-01 of a day of the Gregorian calendar; `None` for one that does not exist.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [
        31,
        if leap { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let months = usize::try_from(month - 1).ok()?;
    if !(1..=*lengths.get(months)?).contains(&day) {
        return None;
    }
    let before = year - 1;
    let years = before * 365 + before / 4 - before / 100 + before / 400;
    let days: i64 = lengths[..months].iter().sum();
    // 719,162 days lie before 1970.
    Some(years + days + day - 1 - 719_162)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_357_800; // 2026-11-22T14:30:00Z

    struct One {
        id: RevisionId,
        parents: Vec<RevisionId>,
        device: [u8; 32],
        time: Timestamp,
        tags: Vec<String>,
    }

    fn at(text: &str) -> i64 {
        absolute(text).unwrap().0
    }

    fn history() -> Vec<One> {
        let one = |first: u8, second: u8, time: &str, parent: Option<u8>, tags: &[&str]| {
            let mut id = [0; 32];
            (id[0], id[1]) = (first, second);
            let parents = parent.map(|parent| {
                let mut id = [0; 32];
                (id[0], id[1]) = (parent, 0x10);
                RevisionId(id)
            });
            One {
                id: RevisionId(id),
                parents: parents.into_iter().collect(),
                device: [0xd0 | first & 1; 32],
                time: Timestamp(at(time)),
                tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            }
        };
        vec![
            one(0x3e, 0x10, "2026-11-01T10:00", None, &["v1"]),
            one(0x40, 0x10, "2026-11-20T10:00", Some(0x3e), &["v2", "good"]),
            one(0x3e, 0xbb, "2026-11-21T09:00", Some(0x40), &[]),
            one(0x51, 0x10, "2026-11-22T09:00", Some(0x40), &["v2-late"]),
        ]
    }

    fn selected(selector: &str) -> Result<Vec<usize>, SelectError> {
        let all = history();
        let all: Vec<Candidate<'_>> = all
            .iter()
            .map(|one| Candidate {
                id: one.id,
                parents: &one.parents,
                device: &one.device,
                time: one.time,
                message: "",
                tags: &one.tags,
            })
            .collect();
        select(selector, &all, Timestamp(NOW * 1_000_000_000))
    }

    #[test]
    fn each_kind_of_selector_selects_what_it_says() {
        let table: [(&str, &[usize]); 26] = [
            ("3e", &[0, 2]),
            ("3ebb", &[2]),
            ("3EBB", &[2]),
            ("i:3e10", &[0]),
            ("i:ffff", &[]),
            ("t:v1", &[0]),
            ("t:v2", &[1]),
            ("t:v2*", &[1, 3]),
            ("t:*oo*", &[1]),
            ("t:none", &[]),
            ("h:", &[2, 3]),
            ("p:", &[1]),
            ("p:t:v2", &[0]),
            ("p:t:v1", &[]),
            ("a:d0", &[0, 1, 2]),
            ("a:d1", &[3]),
            ("d:2026-11-20", &[1]),
            ("d:2026-11-19", &[0]),
            ("d:2026-10", &[]),
            ("d:yesterday", &[2]),
            ("d:now", &[3]),
            ("e:2026-11-20", &[0]),
            ("l:2026-11-20", &[2, 3]),
            ("l:2 days ago", &[2, 3]),
            ("e:today/l:2026-11-01", &[1, 2]),
            ("t:v1 | h:/a:d1", &[0, 3]),
        ];
        for (selector, expected) in table {
            assert_eq!(selected(selector).unwrap(), expected, "{selector}");
        }
    }

    #[test]
    fn after_a_removal_the_newest_is_still_one_and_follows_the_one_before_it() {
        let all = history();
        // All of one device, and what the last two follow is gone.
        let left: Vec<Candidate<'_>> = [0, 2, 3]
            .iter()
            .map(|place| &all[*place])
            .map(|one| Candidate {
                id: one.id,
                parents: &one.parents,
                device: &[7; 32],
                time: one.time,
                message: "",
                tags: &one.tags,
            })
            .collect();
        let now = Timestamp(NOW * 1_000_000_000);
        for (selector, places) in [("h:", vec![2]), ("p:", vec![1]), ("p:p:", vec![0])] {
            assert_eq!(select(selector, &left, now).unwrap(), places, "{selector}");
        }
        assert_eq!(select("p:p:p:", &left, now).unwrap(), [0; 0]);
    }

    #[test]
    fn what_is_no_selector_is_refused_and_says_why() {
        for selector in [
            "",
            "3",
            "xyz",
            "i:",
            "t:",
            "h:3e",
            "q:x",
            "d:",
            "d:2026-13",
            "d:2026-02-29",
            "d:22.11.2026",
            "e:2026-11-22T25",
            "l:some days ago",
            "d:-1 days ago",
            "t:v1/",
            "|",
        ] {
            assert!(
                matches!(selected(selector), Err(SelectError::Malformed(..))),
                "{selector}"
            );
        }
    }

    #[test]
    fn one_is_one_and_the_error_lists_the_candidates() {
        let (one, other) = (RevisionId([1; 32]), RevisionId([2; 32]));
        let devices = [[1; 32], [2; 32]];
        let candidate = |id, device| Candidate {
            id,
            parents: &[],
            device,
            time: Timestamp(0),
            message: "",
            tags: &[],
        };
        let all = [candidate(one, &devices[0]), candidate(other, &devices[1])];
        assert_eq!(select_one("0101", &all, Timestamp(0)), Ok(0));
        assert_eq!(
            select_one("i:ff", &all, Timestamp(0)),
            Err(SelectError::None("i:ff".to_owned()))
        );
        let error = select_one("h:", &all, Timestamp(0))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("2 snapshots: 0202020202020202, 0101010101010101"),
            "{error}"
        );
    }

    #[test]
    fn days_are_counted_as_the_calendar_counts_them() {
        assert_eq!(days_of(1970, 1, 1), Some(0));
        assert_eq!(days_of(2000, 2, 29), Some(11_016));
        assert_eq!(days_of(2026, 11, 22), Some(NOW.div_euclid(DAY_S)));
        assert_eq!(days_of(1900, 2, 29), None);
        assert_eq!(days_of(2026, 4, 31), None);
        assert_eq!(absolute("2026-11-22T14:30").unwrap().0, NOW * 1_000_000_000);
    }
}

//! Converts the dates in a selector from local time to UTC, which a vault uses.
//!
//! Takes   a selector that a user typed
//! Gives   the selector with each date replaced by a second in UTC: the first or the last one of the period that the
//!         date names (a day, a minute), whichever the selector needs
//! Never   judges a selector: unknown parts stay as they are, and the vault reports what is wrong
//! Spec    spec/6-history.md, section 6.9

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use crate::terminal::time::zone;

/// The selector for a vault.
pub(crate) fn in_utc(selector: &str) -> String {
    alternatives(selector, &Zoned::now().with_time_zone(zone().clone()))
}

fn alternatives(selector: &str, now: &Zoned) -> String {
    let all = selector.split('|').map(|alternative| {
        let terms = alternative.split('/').map(|one| term(one, now));
        terms.collect::<Vec<_>>().join("/")
    });
    all.collect::<Vec<_>>().join("|")
}

fn term(text: &str, now: &Zoned) -> String {
    let trimmed = text.trim();
    if let Some(child) = trimmed.strip_prefix("p:") {
        return format!("p:{}", term(child, now));
    }
    let period = match trimmed.get(..2) {
        Some("d:" | "e:" | "l:") => period(trimmed[2..].trim(), now),
        _ => None,
    };
    let Some((from, to)) = period else {
        return text.to_owned();
    };
    // `e:` asks for what is before the period, the others for what is before its end, or not.
    let second = match trimmed.starts_with("e:") {
        true => Some(from),
        false => to.checked_sub(Span::new().seconds(1)).ok(),
    };
    let Some(second) = second else {
        return text.to_owned();
    };
    let shown = second.to_zoned(TimeZone::UTC);
    format!("{}{}", &trimmed[..2], shown.strftime("%Y-%m-%dT%H:%M:%S"))
}

/// A period by the clock on the wall: its beginning, and the beginning of the next.
fn period(text: &str, now: &Zoned) -> Option<(Timestamp, Timestamp)> {
    let zone = now.time_zone();
    let between = |from: DateTime, long: Span| {
        let at = |time: DateTime| Some(time.to_zoned(zone.clone()).ok()?.timestamp());
        Some((at(from)?, at(from.checked_add(long).ok()?)?))
    };
    let day = |date: Date| {
        between(
            date.to_datetime(jiff::civil::Time::midnight()),
            Span::new().days(1),
        )
    };
    match text {
        "today" => return day(now.date()),
        "yesterday" => return day(now.date().yesterday().ok()?),
        _ => {}
    }
    if let Some(ago) = text.strip_suffix(" ago") {
        let (count, unit) = ago.split_once(' ')?;
        let count: i64 = match count {
            "a" | "an" => 1,
            count => count
                .parse()
                .ok()
                .filter(|count| (0..=1_000_000).contains(count))?,
        };
        // As a vault counts them. What is shorter than a day is the same everywhere.
        let days = match unit.trim().trim_end_matches('s') {
            "day" => 1,
            "week" => 7,
            "month" => 30,
            "year" => 365,
            _ => return None,
        };
        let long = Span::new().try_days(count.checked_mul(days)?).ok()?;
        return day(now.date().checked_sub(long).ok()?);
    }
    let (from, long) = absolute(text)?;
    between(from, long)
}

/// `2026`, `2026-11`, `2026-11-22`, `2026-11-22T14`, `…:30`, `…:05`, and how long that is.
fn absolute(text: &str) -> Option<(DateTime, Span)> {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let numbers = |text: &str, mark: char, len: usize| -> Option<Vec<i16>> {
        let parts = text.split(mark).enumerate();
        let parts = parts.map(|(place, part)| {
            let wanted = if mark == '-' && place == 0 { 4 } else { 2 };
            let is_number = part.len() == wanted && part.bytes().all(|one| one.is_ascii_digit());
            part.parse().ok().filter(|_| is_number)
        });
        parts
            .collect::<Option<Vec<i16>>>()
            .filter(|all| all.len() <= len)
    };
    let date = numbers(date, '-', 3)?;
    let part = |all: &[i16], place: usize, otherwise: i16| -> Option<i8> {
        i8::try_from(all.get(place).copied().unwrap_or(otherwise)).ok()
    };
    let day = Date::new(*date.first()?, part(&date, 1, 1)?, part(&date, 2, 1)?).ok()?;
    let Some(time) = time else {
        let long = match date.len() {
            1 => Span::new().years(1),
            2 => Span::new().months(1),
            _ => Span::new().days(1),
        };
        return Some((day.at(0, 0, 0, 0), long));
    };
    let time = numbers(time, ':', 3).filter(|_| date.len() == 3)?;
    let clock = [part(&time, 0, 0)?, part(&time, 1, 0)?, part(&time, 2, 0)?];
    let clock = jiff::civil::Time::new(clock[0], clock[1], clock[2], 0).ok()?;
    let long = match time.len() {
        1 => Span::new().hours(1),
        2 => Span::new().minutes(1),
        _ => Span::new().seconds(1),
    };
    Some((day.to_datetime(clock), long))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_this_zone_become_seconds_of_utc() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let now: Timestamp = "2026-11-22T23:30:00Z".parse().unwrap();
        let now = now.to_zoned(zone);
        for (typed, known) in [
            ("d:2026-11-22", "d:2026-11-22T22:59:59"),
            ("e:2026-11-22", "e:2026-11-21T23:00:00"),
            ("l:2026-11-22T14:30", "l:2026-11-22T13:30:59"),
            ("d:2026-07-01 12", "d:2026-07-01T10:59:59"),
            ("d:2026", "d:2026-12-31T22:59:59"),
            // It is the 23rd here already.
            ("d:today", "d:2026-11-23T22:59:59"),
            ("d:yesterday", "d:2026-11-22T22:59:59"),
            ("e:2 days ago", "e:2026-11-20T23:00:00"),
            ("p:d:2026-11-22", "p:d:2026-11-22T22:59:59"),
            ("t:a/e:2026-11|h:", "t:a/e:2026-10-31T23:00:00|h:"),
            // What is the same everywhere, or wrong, is the vault's.
            ("d:now", "d:now"),
            ("d:3 hours ago", "d:3 hours ago"),
            ("d:2026-11-22T14:30Z", "d:2026-11-22T14:30Z"),
            ("d:2026-13-01", "d:2026-13-01"),
            ("d:26-1-1", "d:26-1-1"),
            ("3ebb", "3ebb"),
            ("", ""),
        ] {
            assert_eq!(alternatives(typed, &now), known, "{typed}");
        }
    }
}

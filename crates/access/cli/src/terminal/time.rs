//! Shows times as local time: in the zone of TZ, or else in the zone of this machine.
//!
//! Takes   nanoseconds since 1970
//! Gives   for people, date and time with the offset from UTC; for programs, ISO 8601 with the offset and nanoseconds
//! Never   uses a network: zones come from this machine's files; without any, UTC is used

use std::sync::OnceLock;

use jiff::Zoned;
use jiff::tz::TimeZone;
use strongroom::filesystem::Timestamp;

/// The zone of this process.
pub(crate) fn zone() -> &'static TimeZone {
    static ZONE: OnceLock<TimeZone> = OnceLock::new();
    ZONE.get_or_init(|| TimeZone::try_system().unwrap_or(TimeZone::UTC))
}

fn shown(time: Timestamp, zone: &TimeZone, format: &str) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(time.0));
    // 64 bits of nanoseconds are three centuries around 1970; jiff knows twenty thousand years.
    let time = time.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    Zoned::new(time, zone.clone()).strftime(format).to_string()
}

/// For programs: `2026-11-22T14:30:05.000000000+01:00`, and `Z` for no offset.
pub(crate) fn json_time(time: Timestamp) -> String {
    json_time_in(time, zone())
}

fn json_time_in(time: Timestamp, zone: &TimeZone) -> String {
    let text = shown(time, zone, "%Y-%m-%dT%H:%M:%S.%9f%:z");
    match text.strip_suffix("+00:00") {
        Some(text) => format!("{text}Z"),
        None => text,
    }
}

/// For people: `2026-11-22 14:30:05 +0100`.
pub(crate) fn text_time(time: Timestamp) -> String {
    shown(time, zone(), "%Y-%m-%d %H:%M:%S %z")
}

/// The same without seconds.
pub(crate) fn text_minute(time: Timestamp) -> String {
    shown(time, zone(), "%Y-%m-%d %H:%M %z")
}

/// For a log: `2026-11-22T14:30:05+01:00`.
pub(crate) fn log_time(time: Timestamp) -> String {
    shown(time, zone(), "%Y-%m-%dT%H:%M:%S%:z")
}

/// The day, here.
pub(crate) fn text_day(time: Timestamp) -> String {
    shown(time, zone(), "%Y-%m-%d")
}

/// The moment so many seconds after 1970.
pub(crate) fn seconds(since_1970: u64) -> Timestamp {
    let seconds = i64::try_from(since_1970).unwrap_or(i64::MAX);
    Timestamp(seconds.saturating_mul(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_the_calendar_has_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (-1, "1969-12-31T23:59:59.000000000Z"),
            (4_102_444_800, "2100-01-01T00:00:00.000000000Z"),
        ] {
            let time = Timestamp(seconds * 1_000_000_000);
            assert_eq!(json_time_in(time, &TimeZone::UTC), text);
        }
        let time = |nanoseconds| json_time_in(Timestamp(nanoseconds), &TimeZone::UTC);
        assert_eq!(time(-1), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(time(i64::MIN), "1677-09-21T00:12:43.145224192Z");
        assert_eq!(time(i64::MAX), "2262-04-11T23:47:16.854775807Z");
    }

    #[test]
    fn a_zone_moves_the_hour_and_is_said() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let summer = Timestamp(1_782_900_000 * 1_000_000_000);
        assert_eq!(
            json_time_in(summer, &zone),
            "2026-07-01T12:00:00.000000000+02:00"
        );
        let text = shown(summer, &zone, "%Y-%m-%d %H:%M:%S %z");
        assert_eq!(text, "2026-07-01 12:00:00 +0200");
    }
}

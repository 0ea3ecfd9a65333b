//! Decides which snapshots of a schedule are kept and which are removed.
//!
//! Takes   a rule, and the facts about the snapshots, in the order in which they were taken
//! Gives   the snapshots that the rule removes
//! Never   removes a snapshot that a person named, or the newest one that the rule applies to
//! Spec    spec/6-history.md, section 6.10
//!
//! Invariants
//!  (1) Periods are counted back from the newest snapshot, not from the present time. So no snapshot is removed merely
//!      because the clock jumped.                                                                      [6.10.3]

use std::collections::HashSet;

use crate::select::{Candidate, DAY_S, days_of};

/// What the message of a state says that nobody but a schedule asked for.
pub const SCHEDULED: &str = "scheduled";

/// Whether a command took a state as a precaution, before it replaced or removed something: by the message that it writes.
fn is_precaution(message: &str) -> bool {
    let is_id = |text: &str| text.len() == 16 && text.bytes().all(|one| one.is_ascii_hexdigit());
    let restoring = message.strip_prefix("before restoring /");
    let restoring = restoring.and_then(|rest| Some(is_id(rest.rsplit_once(" from ")?.1)));
    restoring == Some(true) || message.starts_with("before put --delete into /")
}

/// Numbers of an encoded rule.
const FIELDS: usize = 7;

/// Which states a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those that a schedule took, or a command as a precaution.
    Scheduled,
    /// Those too that have neither message nor tag.
    Unnamed,
}

/// How many states stay: of each of the last so many periods in which there is one, the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The last ones, whenever they were taken.
    pub last: u32,
    /// Hours.
    pub hourly: u32,
    /// Days, in UTC as all of these.
    pub daily: u32,
    /// Weeks, which begin on Monday.
    pub weekly: u32,
    /// Months.
    pub monthly: u32,
    /// Years.
    pub yearly: u32,
    /// Which states it is about.
    pub whose: Whose,
}

/// Whether a rule is about `one`.
fn is_about(whose: Whose, one: &Candidate<'_>) -> bool {
    let scheduled = one.message == SCHEDULED || is_precaution(one.message);
    let unnamed = one.message.is_empty() && whose == Whose::Unnamed;
    one.tags.is_empty() && (scheduled || unnamed)
}

/// One sort of period, and how many of it stay.
struct Period {
    number_of: fn(i64) -> i64,
    count_max: u32,
    seen: HashSet<i64>,
}

impl Period {
    /// Whether the state taken at `second` stays as the newest of its period.
    fn keeps(&mut self, second: i64) -> bool {
        (self.seen.len() as u64) < u64::from(self.count_max)
            && self.seen.insert((self.number_of)(second))
    }
}

impl Retention {
    /// What a schedule keeps unless told otherwise.
    pub const DEFAULT: Self = Self {
        last: 0,
        hourly: 24,
        daily: 30,
        weekly: 0,
        monthly: 12,
        yearly: 0,
        whose: Whose::Scheduled,
    };

    /// Keeps everything.
    pub const EVERYTHING: Self = Self {
        last: u32::MAX,
        hourly: 0,
        daily: 0,
        weekly: 0,
        monthly: 0,
        yearly: 0,
        whose: Whose::Scheduled,
    };

    /// The places in `all`, oldest first taken, of those that go.
    #[must_use]
    pub fn lets_go(&self, all: &[Candidate<'_>]) -> Vec<usize> {
        let mut periods = self.periods();
        let mut taken = 0_u64;
        let mut going = Vec::new();
        for (place, state) in all.iter().enumerate().rev() {
            if !is_about(self.whose, state) {
                continue;
            }
            taken += 1;
            let second = state.time.0.div_euclid(1_000_000_000);
            // Each sort is asked: a state may be the newest of an hour and of a day.
            let mut stays = taken <= u64::from(self.last.max(1));
            for period in &mut periods {
                stays |= period.keeps(second);
            }
            if !stays {
                going.push(place);
            }
        }
        going.reverse();
        going
    }

    fn periods(&self) -> [Period; 5] {
        let period = |count_max, number_of| Period {
            number_of,
            count_max,
            seen: HashSet::new(),
        };
        [
            period(self.hourly, |second| second.div_euclid(3_600)),
            period(self.daily, day_of),
            // 1970-01-01 was a Thursday.
            period(self.weekly, |second| (day_of(second) + 3).div_euclid(7)),
            period(self.monthly, |second| month_of(day_of(second))),
            period(self.yearly, |second| {
                month_of(day_of(second)).div_euclid(12)
            }),
        ]
    }

    /// Whether it would keep nothing of its own accord: a mistake.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        let Self {
            last,
            hourly,
            daily,
            weekly,
            monthly,
            yearly,
            whose: _,
        } = *self;
        last == 0 && hourly == 0 && daily == 0 && weekly == 0 && monthly == 0 && yearly == 0
    }

    const fn counts(&self) -> [u32; 6] {
        [
            self.last,
            self.hourly,
            self.daily,
            self.weekly,
            self.monthly,
            self.yearly,
        ]
    }

    /// Whether it keeps every snapshot that `other` keeps, whatever there is.
    #[must_use]
    pub fn keeps_at_least(&self, other: &Self) -> bool {
        if self.last == u32::MAX {
            return true;
        }
        // All that a rule is not about stays.
        let is_about_no_more = self.whose == Whose::Scheduled || other.whose == Whose::Unnamed;
        let mut counts = self.counts().into_iter().zip(other.counts());
        is_about_no_more && counts.all(|(own, least)| own >= least)
    }

    /// The rule that keeps every snapshot that this one or `other` keeps.                             [6.10.7]
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut counts = self.counts();
        for (own, least) in counts.iter_mut().zip(other.counts()) {
            *own = least.max(*own);
        }
        let whose = match (self.whose, other.whose) {
            (Whose::Unnamed, Whose::Unnamed) => Whose::Unnamed,
            _ => Whose::Scheduled,
        };
        let [last, hourly, daily, weekly, monthly, yearly] = counts;
        match last {
            u32::MAX => Self {
                whose,
                ..Self::EVERYTHING
            },
            _ => Self {
                last,
                hourly,
                daily,
                weekly,
                monthly,
                yearly,
                whose,
            },
        }
    }

    /// Its stored form.                                                                             [6.10.4]
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let whose = match self.whose {
            Whose::Scheduled => 0,
            Whose::Unnamed => 1,
        };
        let fields: [u32; FIELDS] = [
            self.last,
            self.hourly,
            self.daily,
            self.weekly,
            self.monthly,
            self.yearly,
            whose,
        ];
        fields
            .iter()
            .flat_map(|field| field.to_le_bytes())
            .collect()
    }

    /// The rule of a stored form; `None` if it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; FIELDS * 4] = bytes.try_into().ok()?;
        let mut fields = [0; FIELDS];
        for (field, slot) in fields.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *field = u32::from_le_bytes(*slot);
        }
        let [last, hourly, daily, weekly, monthly, yearly, whose] = fields;
        let rule = Self {
            last,
            hourly,
            daily,
            weekly,
            monthly,
            yearly,
            whose: match whose {
                0 => Whose::Scheduled,
                1 => Whose::Unnamed,
                _ => return None,
            },
        };
        (!rule.is_empty()).then_some(rule)
    }
}

fn day_of(second: i64) -> i64 {
    second.div_euclid(DAY_S)
}

/// The month of a day, counted from year 0: twelve a year.
fn month_of(day: i64) -> i64 {
    // 146,097 days are 400 years; that is never off by more than one.
    let guess = 1970 + (day * 400).div_euclid(146_097);
    let begins = |year: i64, month: i64| days_of(year, month, 1).is_some_and(|first| first <= day);
    let year = (guess - 1..=guess + 1).rev().find(|year| begins(*year, 1));
    let year = year.unwrap_or(guess);
    let month = (1..=12).rev().find(|month| begins(year, *month));
    year * 12 + month.unwrap_or(1) - 1
}

#[cfg(test)]
mod tests {
    use strongroom_metadata::Timestamp;

    use super::*;
    use crate::revision::RevisionId;

    const HOUR_S: i64 = 3_600;

    #[test]
    fn a_rule_keeps_at_least_what_one_with_lower_counts_keeps() {
        let rule = Retention::DEFAULT;
        let fewer = Retention { daily: 3, ..rule };
        let other = Retention { weekly: 9, ..fewer };
        let unnamed = Retention {
            whose: Whose::Unnamed,
            ..rule
        };
        assert!(rule.keeps_at_least(&rule) && rule.keeps_at_least(&fewer));
        assert!(!fewer.keeps_at_least(&rule) && !rule.keeps_at_least(&other));
        assert!(rule.keeps_at_least(&unnamed) && !unnamed.keeps_at_least(&rule));
        let everything = Retention::EVERYTHING;
        assert!(everything.keeps_at_least(&rule) && !rule.keeps_at_least(&everything));
    }

    /// Failed before a rule that keeps all snapshots, or more of some and fewer of others, was passed over for one that lets some go.
    #[test]
    fn two_rules_keep_together_what_either_keeps() {
        let rule = Retention::DEFAULT;
        let other = Retention {
            daily: 3,
            weekly: 9,
            whose: Whose::Unnamed,
            ..rule
        };
        let both = Retention { weekly: 9, ..rule };
        assert_eq!(rule.with(&other), both);
        assert_eq!(other.with(&rule), both);
        assert_eq!(other.with(&other), other);
        for one in [rule, other] {
            assert_eq!(one.with(&Retention::EVERYTHING), Retention::EVERYTHING);
            assert!(one.with(&both).keeps_at_least(&one));
        }
    }

    /// Midnight of 2026-11-22.
    fn midnight() -> i64 {
        days_of(2026, 11, 22).unwrap() * DAY_S
    }

    fn states(seconds: &[i64]) -> Vec<Candidate<'static>> {
        let state = |second: &i64| Candidate {
            id: RevisionId([0; 32]),
            parents: &[],
            device: &[0; 32],
            time: Timestamp(second * 1_000_000_000),
            message: SCHEDULED,
            tags: &[],
        };
        seconds.iter().map(state).collect()
    }

    fn rule() -> Retention {
        Retention {
            last: 0,
            hourly: 0,
            daily: 0,
            weekly: 0,
            monthly: 0,
            yearly: 0,
            whose: Whose::Scheduled,
        }
    }

    fn stay(rule: Retention, seconds: &[i64]) -> Vec<i64> {
        let going = rule.lets_go(&states(seconds));
        let places = 0..seconds.len();
        places
            .filter(|place| !going.contains(place))
            .map(|place| seconds[place])
            .collect()
    }

    #[test]
    fn of_each_of_the_last_periods_the_newest_state_stays() {
        let at = |hours: i64| midnight() + hours * HOUR_S;
        let hourly = Retention {
            hourly: 2,
            ..rule()
        };
        let all = [at(1), at(2), at(2) + 60, at(3), at(3) + 60];
        assert_eq!(stay(hourly, &all), [at(2) + 60, at(3) + 60]);
        let daily = Retention { daily: 2, ..rule() };
        let all = [at(-30), at(-20), at(-2), at(1), at(5)];
        assert_eq!(stay(daily, &all), [at(-2), at(5)]);
        let both = Retention {
            hourly: 1,
            daily: 3,
            ..rule()
        };
        assert_eq!(stay(both, &all), [at(-30), at(-2), at(5)]);
    }

    /// Failed before: what `restore` took before it began stayed for ever.
    #[test]
    fn what_a_command_took_as_a_precaution_goes_like_what_a_schedule_took() {
        for (message, goes) in [
            ("before restoring /a b from 0123456789abcdef", true),
            ("before put --delete into /t", true),
            ("before restoring /home from the laptop", false),
            ("before restoring everything", false),
            ("before sorting", false),
        ] {
            let state = |second: i64| Candidate {
                id: RevisionId([0; 32]),
                parents: &[],
                device: &[0; 32],
                time: Timestamp(second * 1_000_000_000),
                message,
                tags: &[],
            };
            let going = rule().lets_go(&[state(1), state(2)]);
            assert_eq!(going.len(), usize::from(goes), "{message}");
        }
    }

    #[test]
    fn weeks_begin_on_monday_and_months_and_years_are_those_of_the_calendar() {
        let at = |year, month, day| days_of(year, month, day).unwrap() * DAY_S + 7 * HOUR_S;
        // 2026-11-22 is a Sunday.
        let all = [
            at(2026, 11, 15),
            at(2026, 11, 16),
            at(2026, 11, 22),
            at(2026, 11, 23),
        ];
        let weekly = Retention {
            weekly: 3,
            ..rule()
        };
        assert_eq!(stay(weekly, &all), [all[0], all[2], all[3]]);
        let all = [
            at(2024, 2, 29),
            at(2024, 3, 1),
            at(2025, 12, 31),
            at(2026, 1, 1),
        ];
        let monthly = Retention {
            monthly: 9,
            ..rule()
        };
        assert_eq!(stay(monthly, &all), all);
        let yearly = Retention {
            yearly: 9,
            ..rule()
        };
        assert_eq!(stay(yearly, &all), all[1..]);
    }

    #[test]
    fn every_day_of_four_centuries_has_the_month_that_it_is_in() {
        let mut months = HashSet::new();
        let mut before = i64::MIN;
        for day in days_of(1800, 1, 1).unwrap()..days_of(2200, 1, 1).unwrap() {
            let month = month_of(day);
            assert!(month >= before);
            before = month;
            months.insert(month);
        }
        assert_eq!(months.len(), 400 * 12);
        assert_eq!(month_of(days_of(2026, 11, 30).unwrap()), 2026 * 12 + 10);
    }

    #[test]
    fn what_a_person_named_stays_and_counts_for_nothing() {
        let tags = ["kept".to_owned()];
        let mut all = states(&[1, 2, 3, 4, 5]);
        all[0].tags = &tags;
        all[1].message = "before sorting";
        all[2].message = "";
        let one = Retention { last: 1, ..rule() };
        assert_eq!(one.lets_go(&all), [3]);
        let unnamed = Retention {
            whose: Whose::Unnamed,
            ..one
        };
        assert_eq!(unnamed.lets_go(&all), [2, 3]);
        assert_eq!(Retention::EVERYTHING.lets_go(&all), [0; 0]);
    }

    /// Goal: (1). Method: an hour's snapshots for two days, in between a day during which the clock is years ahead or behind.
    #[test]
    fn a_clock_that_jumps_and_comes_back_costs_no_state_that_was_taken_before_or_after() {
        for jump in [-20 * 365 * DAY_S, -90 * 60, 90 * 60, 20 * 365 * DAY_S] {
            let at = |hour: i64| midnight() + hour * HOUR_S;
            let mut all: Vec<i64> = (0..24).map(at).collect();
            all.extend((24..30).map(|hour| at(hour) + jump));
            all.extend((30..36).map(at));
            let rule = Retention {
                hourly: 12,
                daily: 4,
                ..rule()
            };
            let stayed = stay(rule, &all);
            let newest = &all[30..];
            assert!(newest.iter().all(|hour| stayed.contains(hour)), "{jump}");
            let of_the_day_before = |second: &i64| (at(0)..at(24)).contains(second);
            assert!(stayed.iter().any(of_the_day_before), "{jump}");
            assert!(stayed.len() <= 16, "{jump}: {stayed:?}");
        }
    }

    #[test]
    fn the_newest_stays_whatever_the_rule_says() {
        assert_eq!(rule().lets_go(&states(&[1, 2, 3])), [0, 1]);
    }

    #[test]
    fn a_rule_comes_back_and_anything_else_is_none() {
        for rule in [Retention::DEFAULT, Retention::EVERYTHING] {
            assert_eq!(Retention::decode(&rule.encode()), Some(rule));
        }
        assert_eq!(Retention::decode(&rule().encode()), None);
        assert_eq!(Retention::decode(&[1; 28]), None);
        assert_eq!(Retention::decode(&[0; 27]), None);
    }
}

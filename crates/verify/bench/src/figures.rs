//! The results of a run of workloads: figures by row, or why a figure is missing.

use std::collections::BTreeMap;

use crate::Row;
use crate::place::{Span, take_span};

/// Figures of one directory.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    wanted: Option<Vec<Row>>,
    /// One for each round.
    pub values: BTreeMap<Row, Vec<f64>>,
    /// Why a row has none.
    pub failures: BTreeMap<Row, String>,
    /// When each of `values` was measured, for those that are of one stretch of time.
    pub spans: BTreeMap<Row, Vec<Span>>,
}

impl Figures {
    /// Of the rows `wanted`; of all, if `None`.
    #[must_use]
    pub fn of(wanted: Option<Vec<Row>>) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }

    /// Whether one of `rows` is asked for.
    #[must_use]
    pub fn want(&self, rows: &[Row]) -> bool {
        rows.iter().any(|row| {
            self.wanted
                .as_ref()
                .is_none_or(|wanted| wanted.contains(row))
        })
    }

    /// Takes a figure, if it was asked for: the first of what this thread timed last.
    pub fn add(&mut self, row: Row, value: f64) {
        let span = take_span();
        if self.want(&[row]) {
            self.values.entry(row).or_default().push(value);
            self.spans.entry(row).or_default().extend(span);
        }
    }

    /// Notes why those of `rows` that have fewer than `rounds` figures have no more; gives whether there are any.
    pub fn fail(&mut self, rows: &[Row], rounds: usize, reason: &str) -> bool {
        let mut short = false;
        for &row in rows {
            let count = self.values.get(&row).map_or(0, Vec::len);
            if self.want(&[row]) && count < rounds {
                short = true;
                self.failures
                    .entry(row)
                    .or_insert_with(|| reason.to_owned());
            }
        }
        short
    }

    /// The median of a row.
    #[must_use]
    pub fn median(&self, row: Row) -> Option<f64> {
        median(self.values.get(&row)?)
    }
}

/// The middle of `values`, or of the two in the middle their mean.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Three digits that matter, thousands apart.
#[must_use]
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        value if value >= 100.0 => 0,
        value => (2 - value.log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{value:.decimals$}");
    let (whole, part) = text
        .split_once('.')
        .map_or((text.as_str(), None), |(whole, part)| (whole, Some(part)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    part.map_or(grouped.clone(), |part| format!("{grouped}.{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn figures_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1234.5, "1,234"),
            (1_234_567.0, "1,234,567"),
            (123.4, "123"),
            (12.34, "12.3"),
            (1.0, "1.00"),
            (0.012_34, "0.0123"),
        ] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn only_what_is_wanted_is_kept_and_a_failure_tells_of_what_is_missing() {
        let mut figures = Figures::of(Some(vec![Row::Append, Row::Create]));
        figures.add(Row::Append, 1.0);
        figures.add(Row::Remove, 1.0);
        assert!(figures.fail(&[Row::Append, Row::Create, Row::Remove], 1, "why"));
        // What failed after all figures were taken is no reason to take none in the next round.
        assert!(!figures.fail(&[Row::Append, Row::Remove], 1, "why"));
        assert_eq!(figures.values.keys().collect::<Vec<_>>(), [&Row::Append]);
        assert_eq!(figures.failures.keys().collect::<Vec<_>>(), [&Row::Create]);
    }
}

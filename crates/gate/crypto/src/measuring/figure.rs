//! Turns the rounds of a measurement into a figure with its spread, and finds the fastest of several figures.
//!
//! Takes   speeds of the same work, one for each round, of providers measured in turn
//! Gives   median and spread; the fastest figure, and the figures that tie with it
//! Never   reads the clock
//! Spec    none: nothing here affects the format. Why these rules: docs/adr/0010-providers-measured.md
//!
//! Invariants
//!  (1) The fastest figure has the greatest median; of equal ones it is the first. Spreads change only how the fastest is
//!      reported.
//!  (2) A figure ties with the fastest if their spreads overlap.

/// Speeds of one competitor: rounds that took turns with the others'.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// In rising order; not empty.
    rounds: Vec<f64>,
}

impl Figure {
    /// Of `rounds`, each a finite speed above 0; the others are left out. `None` if none is left.
    #[must_use]
    pub fn of(rounds: impl IntoIterator<Item = f64>) -> Option<Self> {
        let usable = |speed: &f64| speed.is_finite() && *speed > 0.0;
        let mut rounds: Vec<f64> = rounds.into_iter().filter(usable).collect();
        rounds.sort_by(f64::total_cmp);
        (!rounds.is_empty()).then_some(Self { rounds })
    }

    /// The middle of the rounds.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// The lower end of the spread: a quarter of the rounds were slower.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.at(0.25)
    }

    /// The upper end of the spread: a quarter of the rounds were faster.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.at(0.75)
    }

    /// Every round, slowest first.
    #[must_use]
    pub fn rounds(&self) -> &[f64] {
        &self.rounds
    }

    /// The speed below which `part` of the rounds lie; between two rounds on the line that joins them.
    fn at(&self, part: f64) -> f64 {
        let place = part * (self.rounds.len() - 1) as f64;
        let below = self.rounds[place.floor() as usize];
        let above = self.rounds[place.ceil() as usize];
        below + (above - below) * place.fract()
    }
}

/// Who is fastest among several.
#[derive(Clone, Debug, PartialEq)]
pub struct Fastest {
    /// Its place in the list.
    pub index: usize,
    /// How much faster than the second by their medians: 0.1 is ten percent. `None` if there is no second.
    pub lead: Option<f64>,
    /// Places of those within its spread.                                                                  (2)
    pub ties: Vec<usize>,
}

/// The fastest of `figures`; `None` if there is none.                                                        (1)
#[must_use]
pub fn fastest(figures: &[Figure]) -> Option<Fastest> {
    let mut order: Vec<usize> = (0..figures.len()).collect();
    // Stable, so that the first of equals stays the first.
    order.sort_by(|left, right| {
        let medians = (figures[*right].median(), figures[*left].median());
        medians.0.total_cmp(&medians.1)
    });
    let (&index, others) = order.split_first()?;
    let best = &figures[index];
    let ties = others.iter().copied();
    Some(Fastest {
        index,
        lead: others
            .first()
            .map(|second| best.median() / figures[*second].median() - 1.0),
        ties: ties
            .filter(|other| figures[*other].high() >= best.low())
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(rounds: &[f64]) -> Figure {
        Figure::of(rounds.iter().copied()).unwrap()
    }

    #[test]
    fn median_and_spread_lie_between_the_rounds() {
        let five = figure(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((five.low(), five.median(), five.high()), (2.0, 3.0, 4.0));
        let two = figure(&[1.0, 2.0]);
        assert_eq!((two.low(), two.median(), two.high()), (1.25, 1.5, 1.75));
        let one = figure(&[7.0]);
        assert_eq!((one.low(), one.median(), one.high()), (7.0, 7.0, 7.0));
    }

    #[test]
    fn rounds_that_are_no_speeds_are_left_out() {
        assert_eq!(Figure::of([f64::NAN, f64::INFINITY, 0.0, -1.0]), None);
        assert_eq!(Figure::of([f64::NAN, 2.0]).unwrap().rounds(), [2.0]);
    }

    #[test]
    fn the_fastest_has_the_greatest_median_whoever_has_the_fastest_round() {
        let figures = [
            figure(&[1.0, 1.0, 9.0]),
            figure(&[3.0, 3.1, 3.2]),
            figure(&[2.0, 2.0, 2.0]),
        ];
        let found = fastest(&figures).unwrap();
        assert_eq!(found.index, 1);
        assert!((found.lead.unwrap() - 0.55).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn who_reaches_the_spread_of_the_fastest_ties_with_it() {
        let figures = [
            figure(&[10.0, 11.0, 12.0, 13.0, 14.0]),
            figure(&[9.0, 10.0, 10.5, 11.0, 12.0]),
            figure(&[8.0, 8.1, 8.2, 8.3, 20.0]),
        ];
        let found = fastest(&figures).unwrap();
        assert_eq!((found.index, found.ties), (0, vec![1]));
    }

    #[test]
    fn of_equals_the_first_is_the_fastest_and_one_alone_has_no_lead() {
        let equals = [figure(&[1.0]), figure(&[1.0])];
        let found = fastest(&equals).unwrap();
        assert_eq!((found.index, found.ties), (0, vec![1]));
        let alone = fastest(&equals[..1]).unwrap();
        assert_eq!((alone.index, alone.lead, alone.ties), (0, None, Vec::new()));
        assert_eq!(fastest(&[]), None);
    }
}

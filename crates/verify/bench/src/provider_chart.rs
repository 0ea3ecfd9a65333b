//! The chart of the crypto providers: bars for each provider and size, scaling over threads, and the size from which
//! threads share the work.
//!
//! Takes   figures and their names, from the code that measured them
//! Gives   one SVG, readable on light and dark pages
//! Never   measures

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::ink::{Area, Drawn, FAINT, FIRM, themed, write};

const WIDTH: i32 = 1200;
const COLUMNS: usize = 4;
const COLUMN: i32 = WIDTH / COLUMNS as i32;
/// Left and right of what is drawn inside a panel, for its axis.
const AXIS: i32 = 52;
const MARGIN: i32 = 12;
const TOP: i32 = 96;
const BARS: i32 = 190;
const LINES: i32 = 330;

/// Tones that differ for the colour-blind too; providers take them in the order in which they are named.
const TONES: [RGBColor; 9] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xb5, 0x9b, 0x00),
    RGBColor(0x8a, 0x6f, 0xd1),
    RGBColor(0xa0, 0x6a, 0x4a),
    RGBColor(0x7f, 0x8c, 0x4d),
];

/// Everything on the chart.
#[derive(Clone, Debug, Default)]
pub struct ProviderChart {
    /// The line below the title: what it was measured on.
    pub subtitle: String,
    /// One for each algorithm and what was done with it; empty ones leave a gap, so that columns may line up.
    pub panels: Vec<Panel>,
    /// Speed over threads.
    pub scaling: Vec<Line>,
    /// Time of one call over its size, in microseconds and bytes.
    pub sharing: Vec<Line>,
    /// From how many bytes on calls are shared out; `None` if none is.
    pub shared_from_bytes: Option<usize>,
}

/// Bars of one algorithm.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// As in "AES-256-GCM, encrypt".
    pub title: String,
    /// One for each size.
    pub groups: Vec<Group>,
}

/// Bars of one size.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// As in "64 KiB".
    pub label: String,
    /// One for each provider.
    pub bars: Vec<Bar>,
}

/// One provider's figure.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// Whose.
    pub provider: String,
    /// The median, in MiB/s.
    pub median: f64,
    /// The lower end of the spread.
    pub low: f64,
    /// The upper end of the spread.
    pub high: f64,
    /// Whether it is the one that is used.
    pub chosen: bool,
}

/// A line through points.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// What it is of.
    pub name: String,
    /// Where it leads: across, up, and the ends of the spread there.
    pub points: Vec<Point>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up: the median.
    pub y: f64,
    /// The lower end of the spread.
    pub low: f64,
    /// The upper end of the spread.
    pub high: f64,
}

/// Draws the chart.
///
/// # Errors
/// Of the drawing library.
pub fn draw(chart: &ProviderChart) -> Result<String, Box<dyn std::error::Error>> {
    let rows = chart.panels.len().div_ceil(COLUMNS) as i32;
    let height = TOP + rows * BARS + LINES;
    let mut svg = String::new();
    {
        let area =
            SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        write(&area, "Crypto providers", (MARGIN, 24), 20, HPos::Left)?;
        write(&area, &chart.subtitle, (MARGIN, 46), 13, HPos::Left)?;
        let names = names(chart);
        legend(&area, &names)?;
        for (index, panel) in chart.panels.iter().enumerate() {
            let frame = Frame {
                left: COLUMN * (index % COLUMNS) as i32 + AXIS,
                right: COLUMN * (index % COLUMNS) as i32 + COLUMN - MARGIN,
                top: TOP + BARS * (index / COLUMNS) as i32 + 32,
                bottom: TOP + BARS * (index / COLUMNS) as i32 + BARS - 30,
            };
            bars(&area, &frame, panel, &names)?;
        }
        let top = TOP + rows * BARS;
        scaling(&area, top, &chart.scaling)?;
        sharing(&area, top, chart)?;
        area.present()?;
    }
    Ok(themed(svg))
}

/// Where something is drawn.
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Frame {
    /// The place of `part` of the way up.
    fn up(&self, part: f64) -> i32 {
        self.bottom - (part.clamp(0.0, 1.0) * f64::from(self.bottom - self.top)) as i32
    }

    /// The place of `part` of the way across.
    fn across(&self, part: f64) -> i32 {
        self.left + (part.clamp(0.0, 1.0) * f64::from(self.right - self.left)) as i32
    }
}

/// The providers in the order in which they first occur.
fn names(chart: &ProviderChart) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let groups = chart.panels.iter().flat_map(|panel| &panel.groups);
    for bar in groups.flat_map(|group| &group.bars) {
        if !names.contains(&bar.provider.as_str()) {
            names.push(&bar.provider);
        }
    }
    names
}

fn tone(index: usize) -> RGBColor {
    TONES[index % TONES.len()]
}

fn legend(area: &Area<'_>, names: &[&str]) -> Drawn {
    let mut x = MARGIN + 6;
    let y = 74;
    for (index, name) in names.iter().enumerate() {
        area.draw(&Rectangle::new(
            [(x - 5, y - 5), (x + 5, y + 5)],
            tone(index).filled(),
        ))?;
        write(area, name, (x + 12, y), 14, HPos::Left)?;
        x += 34 + 8 * name.len() as i32;
    }
    chosen(area, (x, y))?;
    let text = "chosen; MiB/s on one thread, bars are medians, lines the middle half of the rounds";
    write(area, text, (x + 12, y), 13, HPos::Left)
}

/// The mark of what is used.
fn chosen(area: &Area<'_>, at: (i32, i32)) -> Drawn {
    area.draw(&TriangleMarker::new(at, -5, FIRM.filled()))?;
    area.draw(&PathElement::new(
        vec![
            (at.0 - 4, at.1 - 3),
            (at.0 + 4, at.1 - 3),
            (at.0, at.1 + 4),
            (at.0 - 4, at.1 - 3),
        ],
        FIRM.stroke_width(2),
    ))?;
    Ok(())
}

/// A round number at or above `most`, so that ticks are round too.
fn ceiling(most: f64) -> f64 {
    let magnitude = 10_f64.powf(most.max(1.0).log10().floor());
    [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * magnitude)
        .find(|step| *step >= most && step.is_finite())
        .unwrap_or(most)
}

/// A whole number with a comma between thousands.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Horizontal lines with their numbers, up to `most`.
fn ticks(area: &Area<'_>, frame: &Frame, most: f64) -> Drawn {
    for part in [0.0, 0.5, 1.0] {
        let y = frame.up(part);
        area.draw(&PathElement::new(
            vec![(frame.left, y), (frame.right, y)],
            FAINT,
        ))?;
        write(
            area,
            &thousands(most * part),
            (frame.left - 5, y),
            11,
            HPos::Right,
        )?;
    }
    Ok(())
}

fn bars(area: &Area<'_>, frame: &Frame, panel: &Panel, names: &[&str]) -> Drawn {
    if panel.groups.is_empty() {
        return Ok(());
    }
    let speeds = panel.groups.iter().flat_map(|group| &group.bars);
    let most = ceiling(
        speeds
            .map(|bar| bar.high.max(bar.median))
            .fold(0.0, f64::max),
    );
    write(
        area,
        &panel.title,
        (frame.left - 5, frame.top - 20),
        14,
        HPos::Left,
    )?;
    ticks(area, frame, most)?;
    let count = panel.groups.len() as f64;
    for (number, group) in panel.groups.iter().enumerate() {
        let (from, to) = (
            frame.across((number as f64 + 0.06) / count),
            frame.across((number as f64 + 0.94) / count),
        );
        let middle = i32::midpoint(from, to);
        write(
            area,
            &group.label,
            (middle, frame.bottom + 12),
            12,
            HPos::Center,
        )?;
        let width = ((to - from) / group.bars.len().max(1) as i32).min(26);
        let first = middle - width * group.bars.len() as i32 / 2;
        for (place, bar) in group.bars.iter().enumerate() {
            let x = first + width * place as i32;
            let top = frame.up(bar.median / most);
            let index = names.iter().position(|name| *name == bar.provider);
            area.draw(&Rectangle::new(
                [(x + 1, top), (x + width - 1, frame.bottom)],
                tone(index.unwrap_or(0)).filled(),
            ))?;
            let centre = x + width / 2;
            let (low, high) = (frame.up(bar.low / most), frame.up(bar.high / most));
            area.draw(&PathElement::new(
                vec![(centre, low), (centre, high)],
                FIRM.stroke_width(2),
            ))?;
            if bar.chosen {
                chosen(area, (centre, high.min(top) - 8))?;
            }
        }
    }
    Ok(())
}

/// Where a point of a line lies, and the heights of its least and greatest figure.
type Place = ((i32, i32), (i32, i32));

/// The line `number` with its spread and, at its end, its name.
fn line(area: &Area<'_>, number: usize, places: &[Place]) -> Drawn {
    let path = places.iter().map(|(at, _)| *at).collect::<Vec<_>>();
    area.draw(&PathElement::new(path, tone(number).stroke_width(2)))?;
    for ((x, y), (low, high)) in places {
        area.draw(&PathElement::new(
            vec![(*x, *low), (*x, *high)],
            FIRM.stroke_width(1),
        ))?;
        area.draw(&Circle::new((*x, *y), 4, tone(number).filled()))?;
    }
    Ok(())
}

/// The names of lines, one below the other from `at`.
fn keys(area: &Area<'_>, lines: &[Line], at: (i32, i32)) -> Drawn {
    for (number, line) in lines.iter().enumerate() {
        let y = at.1 + 18 * number as i32;
        area.draw(&PathElement::new(
            vec![(at.0, y), (at.0 + 18, y)],
            tone(number).stroke_width(3),
        ))?;
        write(area, &line.name, (at.0 + 24, y), 13, HPos::Left)?;
    }
    Ok(())
}

fn scaling(area: &Area<'_>, top: i32, lines: &[Line]) -> Drawn {
    let frame = Frame {
        left: AXIS,
        right: WIDTH / 2 - 40,
        top: top + 60,
        bottom: top + LINES - 50,
    };
    let title = "Scaling: seal of 64 KiB blocks, MiB/s over threads";
    write(area, title, (frame.left - 5, top + 26), 15, HPos::Left)?;
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = ceiling(points().map(|point| point.high).fold(0.0, f64::max));
    let threads = points().map(|point| point.x).fold(1.0, f64::max);
    // With a little room on both sides.
    let across = |x: f64| frame.across(0.06 + 0.88 * ((x - 1.0) / (threads - 1.0).max(1.0)));
    ticks(area, &frame, most)?;
    let mut shown: Vec<f64> = points().map(|point| point.x).collect();
    shown.sort_by(f64::total_cmp);
    shown.dedup();
    for x in shown {
        let at = (across(x), frame.bottom + 14);
        write(area, &thousands(x), at, 12, HPos::Center)?;
    }
    for (number, drawn) in lines.iter().enumerate() {
        let place = |point: &Point| {
            let up = |y: f64| frame.up(y / most);
            (
                (across(point.x), up(point.y)),
                (up(point.low), up(point.high)),
            )
        };
        let places: Vec<_> = drawn.points.iter().map(place).collect();
        line(area, number, &places)?;
    }
    // Lines rise from left to right and seldom begin near zero.
    let below = frame.bottom - 18 * lines.len() as i32;
    keys(area, lines, (frame.left + 10, below))
}

/// A size in the unit that leaves no fraction.
fn size(bytes: f64) -> String {
    if bytes >= f64::from(1 << 20) {
        format!("{:.0} MiB", bytes / f64::from(1 << 20))
    } else {
        format!("{:.0} KiB", bytes / 1024.0)
    }
}

fn sharing(area: &Area<'_>, top: i32, chart: &ProviderChart) -> Drawn {
    let frame = Frame {
        left: WIDTH / 2 + AXIS,
        right: WIDTH - MARGIN,
        top: top + 60,
        bottom: top + LINES - 50,
    };
    let title = "Sharing out: time of one seal_all over its size, µs (both scales logarithmic)";
    write(area, title, (frame.left - 5, top + 26), 15, HPos::Left)?;
    let points = || chart.sharing.iter().flat_map(|line| &line.points);
    let ends = |of: fn(&Point) -> f64| {
        let least = points().map(of).fold(f64::MAX, f64::min).max(0.1);
        (least, points().map(of).fold(least * 2.0, f64::max))
    };
    let (least_x, most_x) = ends(|point| point.x);
    let ((least_y, _), (_, most_y)) = (ends(|point| point.low), ends(|point| point.high));
    let across = |x: f64| frame.across(0.03 + 0.94 * (x / least_x).ln() / (most_x / least_x).ln());
    let up = |y: f64| frame.up((y / least_y).ln() / (most_y / least_y).ln());
    for y in (-1..8).map(|power| 10_f64.powi(power)) {
        if (least_y..=most_y).contains(&y) {
            let at = up(y);
            let across = vec![(frame.left, at), (frame.right, at)];
            area.draw(&PathElement::new(across, FAINT))?;
            write(area, &thousands(y), (frame.left - 5, at), 11, HPos::Right)?;
        }
    }
    for point in chart.sharing.first().map_or(&[][..], |line| &line.points) {
        let at = (across(point.x), frame.bottom + 14);
        write(area, &size(point.x), at, 11, HPos::Center)?;
    }
    if let Some(bytes) = chart.shared_from_bytes {
        let x = across(bytes as f64);
        let path = vec![(x, frame.top), (x, frame.bottom)];
        area.draw(&PathElement::new(path, FIRM.stroke_width(2)))?;
        let text = format!("shared out from {}", size(bytes as f64));
        write(area, &text, (x + 6, frame.bottom - 10), 12, HPos::Left)?;
    }
    for (number, drawn) in chart.sharing.iter().enumerate() {
        let place = |point: &Point| {
            (
                (across(point.x), up(point.y)),
                (up(point.low), up(point.high)),
            )
        };
        let places: Vec<_> = drawn.points.iter().map(place).collect();
        line(area, number, &places)?;
    }
    keys(area, &chart.sharing, (frame.left + 10, frame.top + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> ProviderChart {
        let bar = |provider: &str, median: f64, chosen| Bar {
            provider: provider.to_owned(),
            median,
            low: median * 0.9,
            high: median * 1.1,
            chosen,
        };
        let group = |label: &str| Group {
            label: label.to_owned(),
            bars: vec![bar("one", 1000.0, false), bar("two", 3000.0, true)],
        };
        let point = |x, y| Point {
            x,
            y,
            low: y,
            high: y,
        };
        let line = |name: &str, points: &[(f64, f64)]| Line {
            name: name.to_owned(),
            points: points.iter().map(|(x, y)| point(*x, *y)).collect(),
        };
        ProviderChart {
            subtitle: "a <machine>".to_owned(),
            panels: vec![
                Panel {
                    title: "AES-256-GCM, encrypt".to_owned(),
                    groups: vec![group("4 KiB"), group("64 KiB")],
                },
                Panel::default(),
            ],
            scaling: vec![line("AES-256-GCM", &[(1.0, 1000.0), (2.0, 1900.0)])],
            sharing: vec![line("inline", &[(65536.0, 30.0), (1048576.0, 500.0)])],
            shared_from_bytes: Some(131_072),
        }
    }

    #[test]
    fn every_name_stands_on_the_chart_and_hostile_text_is_escaped() {
        let svg = draw(&chart()).unwrap();
        for text in [
            "one",
            "two",
            "AES-256-GCM, encrypt",
            "64 KiB",
            "inline",
            "shared out from 128 KiB",
            "a &lt;machine&gt;",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn a_chart_of_nothing_and_figures_beyond_reason_are_drawn_inside_the_frame() {
        draw(&ProviderChart::default()).unwrap();
        let mut wild = chart();
        wild.shared_from_bytes = Some(usize::MAX);
        wild.panels[0].groups[0].bars[0].high = f64::MAX;
        wild.sharing[0].points[0].x = 0.0;
        let svg = draw(&wild).unwrap();
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(
            [1.0, 5300.0, 9001.0, 0.2].map(ceiling),
            [1.0, 6000.0, 10_000.0, 1.0]
        );
        assert_eq!(
            [0.0, 999.0, 1_234_567.0].map(thousands),
            ["0", "999", "1,234,567"]
        );
    }
}

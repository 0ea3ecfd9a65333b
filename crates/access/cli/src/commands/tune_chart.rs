//! Draws the measurements of `tune` as a picture.

use strongroom::providers::benchmark::Row;
use strongroom::providers::figure::Figure;
use strongroom::providers::measured::Measured;
use strongroom::providers::sharing::{NEVER, SharePoint};
use strongroom::providers::{Algorithm, SizeClass, Work};
use strongroom_bench::provider_chart::{self, Bar, Group, Line, Panel, Point, ProviderChart};
use strongroom_bench::{Machine, today};

use super::tune::Places;
use crate::terminal::output::show_bytes;

/// The panels, four in a line.
const PANELS: &[(Algorithm, Work)] = &[
    (Algorithm::Aes256Gcm, Work::Encrypt),
    (Algorithm::Aes256Gcm, Work::Decrypt),
    (Algorithm::Aes256Gcm, Work::Seal),
    (Algorithm::Aes256Gcm, Work::Open),
    (Algorithm::ChaCha20Poly1305, Work::Encrypt),
    (Algorithm::ChaCha20Poly1305, Work::Decrypt),
    (Algorithm::ChaCha20Poly1305, Work::Seal),
    (Algorithm::ChaCha20Poly1305, Work::Open),
    (Algorithm::Aegis256, Work::Encrypt),
    (Algorithm::Aegis256, Work::Decrypt),
    (Algorithm::Aegis256, Work::Seal),
    (Algorithm::Aegis256, Work::Open),
    (Algorithm::Blake3, Work::Hash),
    (Algorithm::Argon2id, Work::Stretch),
];

/// Draws what was measured; `chosen` has for each row the place of the provider in use.
pub(super) fn draw(
    measured: &Measured,
    chosen: &Places,
) -> Result<String, Box<dyn std::error::Error>> {
    let kind = Machine::here(std::path::Path::new("/")).kind;
    // Without the disk, which nothing here touches.
    let kind: Vec<&str> = kind.split(", ").take(3).collect();
    let panel = |(algorithm, work): &(Algorithm, Work)| panel(measured, chosen, *algorithm, *work);
    provider_chart::draw(&ProviderChart {
        subtitle: format!("{}; {}", kind.join(", "), today()),
        panels: PANELS.iter().map(panel).collect(),
        scaling: scaling(measured, chosen),
        sharing: sharing(&measured.points),
        shared_from_bytes: Some(measured.choice.inline_below_bytes).filter(|bytes| *bytes != NEVER),
    })
}

fn panel(measured: &Measured, chosen: &Places, algorithm: Algorithm, work: Work) -> Panel {
    let rows = measured.rows.iter().zip(chosen);
    let mine =
        rows.filter(|(row, _)| (row.algorithm, row.work, row.threads) == (algorithm, work, 1));
    let group = |(row, chosen): (&Row, &Option<usize>)| Group {
        label: show_bytes(row.bytes as u64).replace(".0 ", " "),
        bars: row
            .entries
            .iter()
            .enumerate()
            .map(|(index, entry)| Bar {
                provider: entry.provider.name().to_owned(),
                median: entry.figure.median(),
                low: entry.figure.low(),
                high: entry.figure.high(),
                chosen: *chosen == Some(index),
            })
            .collect(),
    };
    let has_entries = |group: &Group| !group.bars.is_empty();
    Panel {
        title: format!("{algorithm}, {}", work.name()),
        groups: mine.map(group).filter(has_entries).collect(),
    }
}

fn point(across: f64, figure: &Figure) -> Point {
    Point {
        x: across,
        y: figure.median(),
        low: figure.low(),
        high: figure.high(),
    }
}

/// Speed over threads: callers of their own with each algorithm, and one caller with the pool.
fn scaling(measured: &Measured, chosen: &Places) -> Vec<Line> {
    let aeads = [
        Algorithm::Aes256Gcm,
        Algorithm::ChaCha20Poly1305,
        Algorithm::Aegis256,
    ];
    let apart = aeads.into_iter().map(|algorithm| {
        let rows = measured.rows.iter().zip(chosen);
        let mine = rows.filter(|(row, _)| {
            (row.algorithm, row.work) == (algorithm, Work::Seal)
                && row.bytes == SizeClass::Kib64.bytes()
        });
        let points = mine.filter_map(|(row, chosen)| {
            let entry = row.entries.get((*chosen)?)?;
            Some(point(row.threads as f64, &entry.figure))
        });
        Line {
            name: format!("{algorithm}, a caller for each thread"),
            points: points.collect(),
        }
    });
    let pooled = measured.scaling.iter();
    let pooled = Line {
        name: "AES-256-GCM, one caller and worker threads".to_owned(),
        points: pooled
            .map(|(threads, figure)| point(*threads as f64, figure))
            .collect(),
    };
    let mut lines: Vec<Line> = apart.chain([pooled]).collect();
    lines.retain(|line| !line.points.is_empty());
    lines
}

/// Time over size: speeds turned into microseconds.
fn sharing(points: &[SharePoint]) -> Vec<Line> {
    let time = |bytes: usize, figure: &Figure| {
        let microseconds = |speed: f64| bytes as f64 / speed / f64::from(1 << 20) * 1e6;
        Point {
            x: bytes as f64,
            y: microseconds(figure.median()),
            low: microseconds(figure.high()),
            high: microseconds(figure.low()),
        }
    };
    let inline = Line {
        name: "by the calling thread".to_owned(),
        points: points
            .iter()
            .map(|point| time(point.bytes, &point.inline))
            .collect(),
    };
    let counts = points.first().map_or(&[][..], |point| &point.pooled);
    let shared = counts.iter().enumerate().map(|(place, (threads, _))| Line {
        name: match threads {
            1 => "by 1 worker thread".to_owned(),
            more => format!("by {more} worker threads"),
        },
        points: points
            .iter()
            .filter_map(|point| Some(time(point.bytes, &point.pooled.get(place)?.1)))
            .collect(),
    });
    std::iter::once(inline).chain(shared).collect()
}

//! Charts of a run: for each row, every file system beside the plain one, on a logarithmic scale.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::figures::figure;
use crate::ink::{Area, Drawn, FAINT, FIRM, themed, write};
use crate::report::{Report, RowReport};
use crate::system::{PLAIN, STRONGROOM};

const WIDTH: i32 = 960;
const LEFT: i32 = 350;
const RIGHT: i32 = 40;
const TOP: i32 = 100;
const BOTTOM: i32 = 50;
const ROW: i32 = 36;

/// Ours; the others after it. Tones that differ for the colour-blind too, and for whom they do not: shapes do.
const OURS: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
const OTHERS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xb5, 0x9b, 0x00),
    RGBColor(0x8a, 0x6f, 0xd1),
];

/// Which rows stand together, under which file name and title.
const CHARTS: &[(&str, &str, &[&str])] = &[
    (
        "content.svg",
        "Large files",
        &[
            "write-sequential",
            "read-cold",
            "read-warm",
            "read-four-streams",
            "read-random",
            "read-random-four",
            "write-random",
            "copy-dd",
            "copy-cp",
        ],
    ),
    (
        "files.svg",
        "Small files and trees",
        &[
            "create",
            "copy-tree",
            "read-files",
            "walk-cold",
            "walk-warm",
            "remove",
            "untar",
            "git-add",
            "git-status",
            "library",
        ],
    ),
    (
        "trees.svg",
        "A large source tree",
        &[
            "tree-clone",
            "tree-checkout",
            "tree-back",
            "tree-grep",
            "tree-grep-cold",
            "tree-status",
            "tree-status-cold",
            "tree-commit",
            "tree-worktree",
            "tree-copy",
            "tree-rm",
        ],
    ),
    (
        "syncs.svg",
        "Small writes",
        &[
            "append",
            "write-256b",
            "write-8k",
            "sqlite-rollback",
            "sqlite-wal",
        ],
    ),
];

/// The charts of a run, by file name; those without a row are left out.
///
/// # Errors
/// Of the drawing library.
pub fn charts(report: &Report) -> Result<Vec<(&'static str, String)>, Box<dyn std::error::Error>> {
    let mut drawn = Vec::new();
    for (file, title, names) in CHARTS {
        let has = |row: &&RowReport| {
            names.contains(&row.name) && row.speed(STRONGROOM.name, PLAIN.name).is_some()
        };
        let rows: Vec<_> = report.rows.iter().filter(has).collect();
        if !rows.is_empty() {
            let mut svg = String::new();
            draw(&mut svg, title, &rows, report)?;
            drawn.push((*file, themed(svg)));
        }
    }
    Ok(drawn)
}

/// Where a speed stands across the chart.
struct Scale {
    least: f64,
    most: f64,
}

impl Scale {
    fn of(speeds: &[f64]) -> Self {
        let least = speeds.iter().copied().fold(0.5, f64::min);
        let most = speeds.iter().copied().fold(2.0, f64::max);
        Self {
            least: (least * 0.8).max(0.0005),
            most: (most * 1.25).min(2000.0),
        }
    }

    fn x(&self, speed: f64) -> i32 {
        let part =
            (speed.clamp(self.least, self.most) / self.least).ln() / (self.most / self.least).ln();
        LEFT + (part * f64::from(WIDTH - LEFT - RIGHT)) as i32
    }

    fn ticks(&self) -> Vec<f64> {
        let decades = (-4..4).flat_map(|power| [10f64.powi(power), 3.0 * 10f64.powi(power)]);
        decades
            .filter(|tick| (self.least..=self.most).contains(tick))
            .collect()
    }
}

fn draw(svg: &mut String, title: &str, rows: &[&RowReport], report: &Report) -> Drawn {
    let height = TOP + BOTTOM + ROW * rows.len() as i32;
    let area = SVGBackend::with_string(svg, (WIDTH as u32, height as u32)).into_drawing_area();
    let names: Vec<&str> = report
        .systems
        .iter()
        .map(|system| system.name.as_str())
        .filter(|name| *name != PLAIN.name)
        .collect();
    let speeds: Vec<f64> = rows
        .iter()
        .flat_map(|row| names.iter().filter_map(|name| row.speed(name, PLAIN.name)))
        .collect();
    let scale = Scale::of(&speeds);
    write(&area, title, (16, 26), 20, HPos::Left)?;
    legend(&area, &names)?;
    axis(&area, &scale, height)?;
    for (index, row) in rows.iter().enumerate() {
        let y = TOP + ROW * index as i32 + ROW / 2;
        write(
            &area,
            &row.title.replace('`', ""),
            (LEFT - 14, y),
            14,
            HPos::Right,
        )?;
        area.draw(&PathElement::new(
            vec![(LEFT, y), (WIDTH - RIGHT, y)],
            FAINT,
        ))?;
        if let Some(target) = row.against_plain {
            let x = scale.x(target);
            area.draw(&PathElement::new(
                vec![(x, y - 11), (x, y + 11)],
                FIRM.stroke_width(2),
            ))?;
        }
        // Ours last, on top of the others.
        for (number, name) in names.iter().enumerate().rev() {
            if let Some(speed) = row.speed(name, PLAIN.name) {
                marker(&area, number, (scale.x(speed), y))?;
            }
        }
    }
    area.present()?;
    Ok(())
}

fn axis(area: &Area<'_>, scale: &Scale, height: i32) -> Drawn {
    let (top, bottom) = (TOP - 6, height - BOTTOM + 4);
    for tick in scale.ticks() {
        let x = scale.x(tick);
        let style = if tick == 1.0 {
            FIRM.stroke_width(2)
        } else {
            FAINT.stroke_width(1)
        };
        area.draw(&PathElement::new(vec![(x, top), (x, bottom)], style))?;
        let text = if tick == 1.0 {
            "plain".to_owned()
        } else {
            format!(
                "{}×",
                figure(tick).trim_end_matches('0').trim_end_matches('.')
            )
        };
        write(area, &text, (x, bottom + 12), 13, HPos::Center)?;
    }
    let text = "how many times as fast as the plain file system beneath; further right is better; the short vertical mark is the target";
    write(area, text, (WIDTH - RIGHT, bottom + 32), 13, HPos::Right)
}

fn legend(area: &Area<'_>, names: &[&str]) -> Drawn {
    let mut x = 24;
    for (number, name) in names.iter().enumerate() {
        marker(area, number, (x, 62))?;
        write(area, name, (x + 14, 62), 14, HPos::Left)?;
        x += 40 + 8 * name.len() as i32;
    }
    Ok(())
}

/// The mark of the file system `number`: 0 is ours.
fn marker(area: &Area<'_>, number: usize, at: (i32, i32)) -> Drawn {
    let (x, y) = at;
    let Some(tone) = number
        .checked_sub(1)
        .map(|other| OTHERS[other % OTHERS.len()])
    else {
        area.draw(&Circle::new(at, 8, OURS.filled()))?;
        return Ok(());
    };
    match number % 4 {
        0 => area.draw(&Circle::new(at, 5, tone.filled()))?,
        1 => area.draw(&TriangleMarker::new(at, 7, tone.filled()))?,
        2 => area.draw(&Rectangle::new(
            [(x - 4, y - 4), (x + 4, y + 4)],
            tone.filled(),
        ))?,
        _ => area.draw(&Cross::new(at, 5, tone.stroke_width(3)))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ROWS;

    #[test]
    fn each_charted_name_is_a_row_and_stands_once() {
        let mut names: Vec<&str> = CHARTS
            .iter()
            .flat_map(|(_, _, names)| names.iter().copied())
            .collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for name in names {
            let facts = ROWS.iter().find(|facts| facts.name == name);
            assert!(facts.is_some_and(|facts| facts.at_most.is_none()), "{name}");
        }
    }

    #[test]
    fn what_is_beyond_the_scale_stands_at_its_edge() {
        let scale = Scale::of(&[1.0, 20.0, 0.1]);
        assert_eq!(scale.x(f64::MAX), WIDTH - RIGHT);
        assert_eq!(scale.x(0.0), LEFT);
        assert!(scale.x(1.0) < scale.x(20.0));
        assert!(scale.ticks().contains(&1.0) && !scale.ticks().contains(&100.0));
    }
}

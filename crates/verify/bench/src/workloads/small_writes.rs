//! Small writes: with a sync after each, and with one sync after many.

use std::fs::File;
use std::io::{self, Write};

use crate::figures::median;
use crate::place::timed;
use crate::{Content, Figures, Place, Row, interrupt};

const FILE_BYTES: usize = 2 << 20;
const FILES: usize = 3;

pub(super) const ROWS: &[Row] = &[Row::Append, Row::WriteTiny, Row::WriteSmall];

pub(super) fn run(
    place: &Place<'_>,
    content: &mut Content,
    figures: &mut Figures,
) -> io::Result<()> {
    if figures.want(&[Row::Append]) {
        let mut file = File::create(place.directory.join("log"))?;
        (place.sync)()?;
        let count = place.sizes.appends;
        let seconds = timed(|| {
            for _ in 0..count {
                interrupt::check()?;
                file.write_all(content.take(4096))?;
                file.sync_all()?;
            }
            Ok(())
        })?;
        figures.add(Row::Append, count as f64 / seconds);
    }
    for (row, len) in [(Row::WriteTiny, 256), (Row::WriteSmall, 8192)] {
        if !figures.want(&[row]) {
            continue;
        }
        // One is over within milliseconds: the middle of several.
        let mut times = Vec::new();
        for number in 0..FILES {
            let path = place.directory.join(format!("{len}-{number}"));
            let bytes = content.take(FILE_BYTES);
            times.push(timed(|| {
                let mut file = File::create(path)?;
                for part in bytes.chunks(len) {
                    interrupt::check()?;
                    file.write_all(part)?;
                }
                file.sync_all()
            })?);
        }
        median(&times).inspect(|seconds| figures.add(row, *seconds));
    }
    Ok(())
}

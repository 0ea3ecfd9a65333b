//! A file copied within the directory: block by block, and by the file system's own way.

use std::fs::File;
use std::io::{self, Write};
use std::process::Command;

use crate::place::{run as program, timed};
use crate::{Content, Figures, Place, Row, interrupt};

const MIB: u64 = 1 << 20;

pub(super) const ROWS: &[Row] = &[Row::CopyBlocks, Row::CopyFile];

pub(super) fn run(
    place: &Place<'_>,
    content: &mut Content,
    figures: &mut Figures,
) -> io::Result<()> {
    let len = place.sizes.copy_bytes;
    let source = place.directory.join("source");
    let mut file = File::create(&source)?;
    let mut left = len;
    while left > 0 {
        interrupt::check()?;
        let part = left.min(MIB);
        file.write_all(content.take(part as usize))?;
        left -= part;
    }
    file.sync_all()?;
    drop(file);

    let target = place.directory.join("target");
    let mut dd = Command::new("dd");
    let operand = |name: &str, path: &std::path::Path| {
        let mut operand = std::ffi::OsString::from(name);
        operand.push(path);
        operand
    };
    dd.args([operand("if=", &source), operand("of=", &target)]);
    dd.args(["bs=1M", "conv=fsync"]);
    let mut cp = Command::new("cp");
    cp.args([&source, &target]);
    for (row, command) in [(Row::CopyBlocks, &mut dd), (Row::CopyFile, &mut cp)] {
        if !figures.want(&[row]) {
            continue;
        }
        // Cold, so that the second copy does not read what the first left in memory.
        if place.may_drop_caches {
            place.drop_caches()?;
        }
        let seconds = timed(|| {
            program(command)?;
            File::open(&target)?.sync_all()
        })?;
        if std::fs::metadata(&target)?.len() != len {
            return Err(io::Error::other("the copy is not as long as its source"));
        }
        figures.add(row, len as f64 / 1e6 / seconds);
        std::fs::remove_file(&target)?;
    }
    Ok(())
}

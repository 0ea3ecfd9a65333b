//! Programs that people run: `tar` and `git`.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::source::{git, text};
use crate::place::{run as program, timed};
use crate::{Content, Figures, Place, Row, interrupt};

pub(super) const ROWS: &[Row] = &[Row::Untar, Row::GitAdd, Row::GitStatus];

pub(super) fn run(
    place: &Place<'_>,
    content: &mut Content,
    figures: &mut Figures,
) -> io::Result<()> {
    let tree = &place.directory.join("source");
    std::fs::create_dir(tree)?;
    let archive = archive(place.sizes.sources, content);
    let seconds = timed(|| {
        unpack(tree, &archive)?;
        (place.sync)()
    })?;
    figures.add(Row::Untar, seconds);
    if !figures.want(&[Row::GitAdd, Row::GitStatus]) {
        return Ok(());
    }
    program(git(tree).args(["init", "--quiet"]))?;
    let seconds = timed(|| {
        program(git(tree).args(["add", "-A"]))?;
        (place.sync)()
    })?;
    figures.add(Row::GitAdd, seconds);
    // The first look writes times into the index.
    program(git(tree).arg("status"))?;
    figures.add(Row::GitStatus, timed(|| program(git(tree).arg("status")))?);
    Ok(())
}

fn unpack(tree: &Path, archive: &[u8]) -> io::Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["-x", "-C"])
        .arg(tree)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = tar.spawn()?;
    // If tar stops early its own message says more than the broken pipe.
    let written = child.stdin.take().map_or(Ok(()), |mut input| {
        archive.chunks(1 << 16).try_for_each(|part| {
            interrupt::check()?;
            input.write_all(part)
        })
    });
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!(
            "tar: {}",
            text.lines().next().unwrap_or("no message")
        )));
    }
    written
}

/// An archive of `count` files of text, ten to a directory: sizes as in source trees, a few hundred bytes to some
/// ten thousand, most of them small.
fn archive(count: usize, content: &mut Content) -> Vec<u8> {
    let mut archive = Vec::new();
    for number in 0..count {
        let (outer, inner) = (number / 200, number / 10 % 20);
        if number % 200 == 0 {
            append(&mut archive, &format!("part-{outer}/"), b'5', &[]);
        }
        if number % 10 == 0 {
            append(
                &mut archive,
                &format!("part-{outer}/unit-{inner}/"),
                b'5',
                &[],
            );
        }
        let text = text(content);
        append(
            &mut archive,
            &format!("part-{outer}/unit-{inner}/file-{number}.rs"),
            b'0',
            &text,
        );
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// Adds an entry to an archive of the form ustar.
fn append(archive: &mut Vec<u8>, name: &str, kind: u8, bytes: &[u8]) {
    let mut header = [0; 512];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, if kind == b'5' { "0000755" } else { "0000644" });
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", bytes.len()));
    put(136, "14000000000");
    put(148, "        ");
    put(257, "ustar\x0000");
    header[156] = kind;
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.extend_from_slice(&header);
    archive.extend_from_slice(bytes);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

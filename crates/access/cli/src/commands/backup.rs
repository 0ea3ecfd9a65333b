//! `backup`: copies the state of one moment to a second vault folder, even while the vault is in use.

use serde_json::json;
use strongroom::BackupReport;

use crate::arguments::backup::Backup;
use crate::commands::opening::{Intent, with};
use crate::terminal::failure::{About, Result};
use crate::terminal::interrupt;
use crate::terminal::output::{counted, print_json, show_bytes, stdout};
use crate::terminal::printable::show_path;
use crate::terminal::progress::Meter;

/// Makes or renews a backup.
pub(crate) fn backup(arguments: &Backup) -> Result<()> {
    interrupt::watch()?;
    let secret = &arguments.common.secret;
    with(&arguments.vault, secret, Intent::Change, |vault| {
        let mut meter = Meter::new(arguments.quiet, "in the backup");
        let report = vault.backup(&arguments.folder, &mut |progress| {
            meter.show(progress.bytes, progress.bytes_total);
            interrupt::go_on()
        });
        drop(meter);
        let report = report.about(show_path(&arguments.folder))?;
        match arguments.common.json {
            true => print_json(&json!({
                "segments_copied": report.copied,
                "bytes_copied": report.copied_bytes,
                "segments_kept": report.kept,
                "segments_removed": report.removed,
                "database_bytes": report.database_bytes,
            })),
            false => print(&report),
        }
    })
}

fn print(report: &BackupReport) -> Result<()> {
    use std::io::Write;
    let BackupReport {
        copied,
        copied_bytes,
        kept,
        removed,
        database_bytes,
    } = *report;
    writeln!(
        stdout(),
        "copied {} with {}, and the database with {}; segments already in the backup: {kept}, removed from it: {removed}; everything copied was read back",
        counted(copied, "segment"),
        show_bytes(copied_bytes),
        show_bytes(database_bytes),
    )?;
    Ok(())
}

//! `clone`: makes a vault out of a remote.

use std::path::Path;

use serde_json::json;
use strongroom::{
    CLONED_FROM, CloneContent, CloneOptions, CloneProgress, CloneReport, GoOn, OpenOptions, Rates,
    RecoverProgress, Secret, Trust, Vault,
};

use crate::arguments::remote::Clone;
use crate::commands::opening::unlocking;
use crate::commands::pair::clone_paired;
use crate::commands::recover::{print, recover_json};
use crate::commands::repair::ALL_ARE_KEPT;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result, tell};
use crate::terminal::interrupt;
use crate::terminal::output::{counted, joined, print_json, print_line, show_bytes};
use crate::terminal::printable::show_path;
use crate::terminal::progress::Meter;

/// Lets the other devices know the one that was just made: they take nothing of a device that they do not know.
pub(crate) fn publish(
    folder: &Path,
    secret: Secret,
    trust: Trust,
    rates: Rates,
) -> strongroom::Result<()> {
    let options = OpenOptions {
        trust,
        ..OpenOptions::default()
    };
    let vault = Vault::open(folder, secret, options)?;
    vault.limit_remotes(rates);
    let synced = vault.sync_with(CLONED_FROM, &mut |_| interrupt::go_on());
    vault.close()?;
    synced.map(drop)
}

/// Shows how far a clone is, and whether it should go on.
pub(crate) fn show_cloning(meter: &mut Meter, progress: CloneProgress) -> GoOn {
    match progress {
        CloneProgress::Down(down) => meter.show(down.bytes, down.bytes_total),
        CloneProgress::Made(RecoverProgress::Segments(bytes, total)) => meter.show(bytes, total),
        CloneProgress::Made(RecoverProgress::Nodes(nodes)) => {
            meter.say(format!("{nodes} files restored"));
        }
        // All of it came before.
        CloneProgress::Made(RecoverProgress::FromRemotes(..)) => {}
    }
    interrupt::go_on()
}

/// Shows how much a clone has brought, or of how much it knows what it is.
pub(crate) fn clone_meter(arguments: &Clone) -> Meter {
    let done = match arguments.content() {
        CloneContent::Here => "fetched",
        CloneContent::AtRemote => "examined",
    };
    Meter::new(arguments.quiet, done)
}

/// Makes a vault out of a remote.
pub(crate) fn clone(arguments: &Clone) -> Result<()> {
    interrupt::watch()?;
    if arguments.pair {
        return clone_paired(arguments);
    }
    let Clone { url, vault, .. } = arguments;
    let mut meter = clone_meter(arguments);
    let mut told = |progress| show_cloning(&mut meter, progress);
    let mut published = Ok(());
    let report = unlocking(
        &arguments.common.secret,
        Path::new(vault),
        |source, trust| {
            let options = CloneOptions {
                trust: trust.clone(),
                rates: arguments.limits.rates(),
                content: arguments.content(),
            };
            let secret = source()?;
            let report = strongroom::clone(url, vault, &secret, options, &mut told)?;
            let rates = arguments.limits.rates();
            // What it lacks is not to be published as if somebody had changed it.
            if report.made.is_whole() {
                published = publish(Path::new(vault), secret, trust.clone(), rates);
            }
            Ok(report)
        },
    );
    drop(meter);
    show_clone(arguments, &report.about(show_path(vault))?, published)
}

/// Says what a clone brought, and whether the other devices know of it. One that lacks something was not published.
pub(crate) fn show_clone(
    arguments: &Clone,
    report: &CloneReport,
    published: strongroom::Result<()>,
) -> Result<()> {
    let is_whole = report.made.is_whole();
    if let Err(error) = &published {
        tell(&format!(
            "strongroom: the vault was cloned, but the other devices do not know this device yet ({error}); run `strongroom sync`"
        ));
    }
    if arguments.common.json {
        // Its database is always a new one, and made of the newest snapshot at the remote: that does not make it incomplete.
        let whole = json!({ "whole": is_whole });
        print_json(&json!({
            "fingerprint": report.fingerprint,
            "objects": report.objects,
            "bytes": report.bytes,
            "away_segments": report.away.segments,
            "away_bytes": report.away.bytes,
            "published": is_whole && published.is_ok(),
            "made": joined(recover_json(&report.made), whole),
        }))?;
    } else if is_whole {
        print_cloned(report)?;
    } else {
        print(&report.made, false)?;
    }
    match is_whole {
        true => Ok(()),
        false => Err(Failure::new(
            ExitCode::DamageFound,
            "the clone is incomplete; run `strongroom remote check --deep` on the device that pushed, to see what the remote has lost",
        )),
    }
}

fn print_cloned(report: &CloneReport) -> Result<()> {
    print_line(&format!(
        "cloned {} with {} and {}; the fingerprint is {}",
        counted(report.made.nodes, "file"),
        show_bytes(report.made.bytes),
        counted(report.made.revisions, "snapshot"),
        report.fingerprint
    ))?;
    print_line(&format!(
        "the clone has no rule for snapshots: {ALL_ARE_KEPT}"
    ))?;
    match report.away.segments {
        0 => Ok(()),
        _ => print_line(&format!(
            "fetched {}; {} in {} are only at the remote and are fetched when they are read",
            show_bytes(report.bytes),
            show_bytes(report.away.bytes),
            counted(report.away.segments, "segment")
        )),
    }
}

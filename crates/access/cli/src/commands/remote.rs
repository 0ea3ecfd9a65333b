//! `remote`, `push` and `clone`: a vault at places outside of this machine, and back.

use std::io::Write;
use std::path::Path;

use serde_json::json;
use strongroom::{CloneOptions, CloneProgress, GoOn, RecoverProgress, RemoteReport, Vault};

use crate::arguments::remote::{Clone, Push, RemoteAdd, RemoteCheck, RemoteCommand};
use crate::commands::opening::{Intent, unlocking, with};
use crate::commands::recover::{print, recover_json};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result, tell};
use crate::terminal::interrupt;
use crate::terminal::output::{counted, print_json, print_line, show_bytes, stdout};
use crate::terminal::printable::show_path;
use crate::terminal::progress::Meter;

/// Runs one of the remote commands.
pub(crate) fn remote(command: &RemoteCommand) -> Result<()> {
    match command {
        RemoteCommand::Add(arguments) => add(arguments),
        RemoteCommand::List(arguments) => {
            let secret = &arguments.common.secret;
            with(&arguments.vault, secret, Intent::Read, |vault| {
                list(vault, arguments.common.json)
            })
        }
        RemoteCommand::Remove(arguments) => {
            let secret = &arguments.common.secret;
            with(&arguments.vault, secret, Intent::Change, |vault| {
                vault.remove_remote(&arguments.name)?;
                match arguments.common.json {
                    true => print_json(&json!({ "removed": arguments.name })),
                    false => Ok(()),
                }
            })
        }
        RemoteCommand::Check(arguments) => check(arguments),
    }
}

fn add(arguments: &RemoteAdd) -> Result<()> {
    let RemoteAdd {
        vault, name, url, ..
    } = arguments;
    let common = &arguments.common;
    with(vault, &common.secret, Intent::Change, |vault| {
        vault.add_remote(name, url).about(name)?;
        if common.json {
            return print_json(&json!({ "added": name }));
        }
        tell(
            "strongroom: whoever can read the remote can try passphrases on this vault's passphrase slots; use a long one, or a key file",
        );
        print_line(&format!(
            "added {name}; `strongroom push` brings the vault there"
        ))
    })
}

fn list(vault: &Vault, json: bool) -> Result<()> {
    let remotes = vault.remotes()?;
    if json {
        let all = remotes.iter().map(|one| {
            json!({
                "name": one.name,
                "address": one.address,
                "publications": one.publications,
                "objects": one.objects,
            })
        });
        return print_json(&json!({ "remotes": all.collect::<Vec<_>>() }));
    }
    let mut out = stdout();
    for one in remotes {
        let has = match one.publications {
            0 => "nothing pushed yet".to_owned(),
            _ => counted(one.objects, "object"),
        };
        writeln!(out, "{}  {}  {has}", one.name, one.address)?;
    }
    Ok(out.flush()?)
}

/// The remote that is meant: the one that was named, or the only one.
fn meant(vault: &Vault, name: Option<&str>) -> Result<String> {
    if let Some(name) = name {
        return Ok(name.to_owned());
    }
    let mut names: Vec<String> = vault.remotes()?.into_iter().map(|one| one.name).collect();
    match (names.pop(), names.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => Err(Failure::usage(
            "the vault has no remote; `strongroom remote add` adds one",
        )),
        (Some(_), false) => Err(Failure::usage(
            "the vault has several remotes; say which one (`strongroom remote list` shows them)",
        )),
    }
}

fn check(arguments: &RemoteCheck) -> Result<()> {
    interrupt::watch()?;
    let common = &arguments.common;
    with(&arguments.vault, &common.secret, Intent::Change, |vault| {
        let name = meant(vault, arguments.name.as_deref())?;
        let mut meter = Meter::new(arguments.quiet, "compared");
        let report = vault.check_remote(&name, arguments.deep, &mut |progress| {
            meter.show(progress.bytes, progress.bytes_total);
            interrupt::go_on()
        });
        drop(meter);
        let report = report.about(&name)?;
        match common.json {
            true => print_json(&json!({
                "remote": name,
                "sound": report.problems.is_empty(),
                "objects": report.objects,
                "bytes": report.bytes,
                "problems": report.problems,
            }))?,
            false => show_check(&report)?,
        }
        match report.problems.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(
                ExitCode::DamageFound,
                "the remote lost something; the vault still has it: `strongroom remote remove` this remote, and push to an empty place",
            )),
        }
    })
}

fn show_check(report: &RemoteReport) -> Result<()> {
    let mut out = stdout();
    for problem in &report.problems {
        writeln!(out, "{problem}")?;
    }
    let sound = if report.problems.is_empty() {
        "sound: "
    } else {
        ""
    };
    let objects = counted(report.objects, "object");
    match report.bytes {
        0 => writeln!(out, "{sound}{objects} looked for")?,
        bytes => writeln!(
            out,
            "{sound}{objects} looked for, {} compared",
            show_bytes(bytes)
        )?,
    }
    Ok(out.flush()?)
}

/// Brings a remote to the state of the vault.
pub(crate) fn push(arguments: &Push) -> Result<()> {
    interrupt::watch()?;
    let common = &arguments.common;
    with(&arguments.vault, &common.secret, Intent::Change, |vault| {
        let name = meant(vault, arguments.remote.as_deref())?;
        let mut meter = Meter::new(arguments.quiet, "at the remote");
        let report = vault.push(&name, &mut |progress| {
            meter.show(progress.bytes, progress.bytes_total);
            interrupt::go_on()
        });
        drop(meter);
        let report = report.about(&name)?;
        if common.json {
            return print_json(&json!({
                "remote": name,
                "objects": report.objects,
                "bytes": report.bytes,
                "publications": report.publications,
            }));
        }
        print_line(&match report.publications {
            0 => format!("{name} has everything already"),
            _ => format!(
                "pushed {} with {} to {name}",
                counted(report.objects, "object"),
                show_bytes(report.bytes)
            ),
        })
    })
}

/// Makes a vault out of a remote.
pub(crate) fn clone(arguments: &Clone) -> Result<()> {
    interrupt::watch()?;
    let Clone { url, vault, .. } = arguments;
    let mut meter = Meter::new(arguments.quiet, "from the remote");
    let mut told = |progress| {
        match progress {
            CloneProgress::Down(down) => meter.show(down.bytes, down.bytes_total),
            CloneProgress::Made(RecoverProgress::Segments(bytes, total)) => {
                meter.show(bytes, total)
            }
            CloneProgress::Made(RecoverProgress::Nodes(nodes)) => {
                meter.say(format!("{nodes} files brought back"));
            }
        }
        match interrupt::go_on() {
            GoOn::Yes => GoOn::Yes,
            GoOn::No => GoOn::No,
        }
    };
    let report = unlocking(
        &arguments.common.secret,
        Path::new(vault),
        |source, trust| {
            let trust = trust.clone();
            strongroom::clone(url, vault, &source()?, CloneOptions { trust }, &mut told)
        },
    );
    drop(meter);
    let report = report.about(show_path(vault))?;
    if arguments.common.json {
        return print_json(&json!({
            "fingerprint": report.fingerprint,
            "objects": report.objects,
            "bytes": report.bytes,
            "made": recover_json(&report.made),
        }));
    }
    if !report.made.is_whole() {
        print(&report.made, false)?;
        let advice = "not everything came back; `strongroom remote check --deep` on the device that pushed names what the remote lost";
        return Err(Failure::new(ExitCode::DamageFound, advice));
    }
    print_line(&format!(
        "cloned {} with {}, {} of snapshots included; the fingerprint is {}",
        counted(report.made.nodes, "file"),
        show_bytes(report.made.bytes),
        counted(report.made.revisions, "state"),
        report.fingerprint
    ))
}

//! `remote`, `pull`, `push` and `sync`: exchange a vault with remotes, which are places outside of its folder.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use strongroom::{
    GRACE, Guessable, Keys, OpenOptions, PullReport, PushReport, Rates, RemoteReport, Removal,
    SlotKind, SyncReport, Vault, describe,
};

use crate::arguments::remote::{
    Answer, Push, RemoteAdd, RemoteCheck, RemoteCommand, RemoteGuessable, RemotePrune, Sync,
};
use crate::commands::continuous::watch;
use crate::commands::opening::{Intent, ended, finish, unlocking, warn_of_records, with};
use crate::commands::remote_status::{status_json, status_lines, statuses};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Failures, Result, tell};
use crate::terminal::interrupt;
use crate::terminal::output::{counted, path_json, print_json, print_line, show_bytes, stdout};
use crate::terminal::printable::{show, show_path};
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
        RemoteCommand::Guessable(arguments) => guessable(arguments),
        RemoteCommand::Prune(arguments) => prune(arguments),
    }
}

fn add(arguments: &RemoteAdd) -> Result<()> {
    let RemoteAdd {
        vault, name, url, ..
    } = arguments;
    let (folder, common) = (vault.as_path(), &arguments.common);
    let removal = match arguments.keep {
        true => Removal::Never,
        false => Removal::Later,
    };
    if !arguments.guessable {
        return with(folder, &common.secret, Intent::Change, |vault| {
            vault.add_remote_with(name, url, removal).about(name)?;
            say_added(arguments, vault.information()?.guessable)
        });
    }
    let opened = unlocking(&common.secret, folder, |source, trust| {
        let keys = Keys::open_with(folder, &source()?, trust.clone())?;
        let options = OpenOptions {
            trust: trust.clone(),
            ..OpenOptions::default()
        };
        Ok((
            keys,
            Vault::open_or_connect(folder, Arc::clone(source), options)?,
        ))
    });
    let (mut keys, vault) = opened.about(show_path(folder))?;
    warn_of_records(&vault)?;
    let added = vault.add_remote_with(name, url, removal).about(name);
    let changed = added.and_then(|()| {
        keys.set_guessable(Guessable::Yes)
            .about(show_path(folder))?;
        say_added(arguments, true)
    });
    ended(changed, finish(&vault))
}

/// Says that a remote was added, and what brings the vault back from there.
fn say_added(arguments: &RemoteAdd, guessable: bool) -> Result<()> {
    let (name, folder) = (&arguments.name, show_path(&arguments.vault));
    let mut kinds: Vec<SlotKind> = Vec::new();
    for slot in describe(&arguments.vault).about(&folder)?.slots {
        if !kinds.contains(&slot.kind) {
            kinds.push(slot.kind);
        }
    }
    let has_passphrase = kinds.contains(&SlotKind::Passphrase);
    kinds.retain(|kind| guessable || *kind != SlotKind::Passphrase);
    if arguments.common.json {
        let kinds: Vec<String> = kinds.iter().map(SlotKind::to_string).collect();
        return print_json(&json!({ "added": name, "guessable": guessable, "clones_with": kinds }));
    }
    match (guessable, kinds.is_empty()) {
        (true, _) => tell(
            "strongroom: anyone who can read a remote of this vault can try to guess its passphrases; use a long passphrase, or a key file",
        ),
        (false, true) => tell(&format!(
            "strongroom: the vault has only passphrases, and they do not open the copy at a remote: if every device is lost, the vault is \
             lost too. `strongroom key add {folder} --new-recovery-code` makes a key that opens that copy; a device that has the vault can \
             also let another device in (`strongroom device add`)"
        )),
        (false, false) => {}
    }
    if !guessable && has_passphrase && !kinds.is_empty() {
        let kinds: Vec<String> = kinds.iter().map(SlotKind::to_string).collect();
        print_line(&format!(
            "passphrases do not open the vault at a remote, so nobody can guess them there; to clone it, use: {}, or another device that adds the new one",
            kinds.join(", ")
        ))?;
    }
    print_line(&format!(
        "added {name}; `strongroom push` uploads the vault to it"
    ))
}

/// Lets remotes have what passphrases are tried against, or not any more.
fn guessable(arguments: &RemoteGuessable) -> Result<()> {
    let (folder, common) = (arguments.vault.as_path(), &arguments.common);
    // Before a person types a passphrase for nothing.
    describe(folder).about(show_path(folder))?;
    let keys = unlocking(&common.secret, folder, |source, trust| {
        Keys::open_with(folder, &source()?, trust.clone())
    });
    let wish = match arguments.answer {
        Answer::Yes => Guessable::Yes,
        Answer::No => Guessable::No,
    };
    let changed = keys.and_then(|mut keys| keys.set_guessable(wish));
    let changed = changed.about(show_path(folder))?;
    if common.json {
        let guessable = wish == Guessable::Yes;
        return print_json(&json!({ "guessable": guessable, "changed": changed }));
    }
    print_line(match (changed, wish) {
        (false, _) => "nothing changed: the vault already has this setting",
        (true, Guessable::Yes) => {
            "from the next push on, a passphrase opens the vault at a remote, and anyone who can read a remote can try passphrases"
        }
        (true, Guessable::No) => {
            "from the next push on, remotes have nothing to try passphrases against. Anyone who read a remote before may have a copy: \
             change the passphrases too (`strongroom key change`). If another device changes keys or devices \
             before you push, the setting takes effect only after `strongroom sync` here; then check it with `strongroom info`"
        }
    })
}

fn list(vault: &Vault, json: bool) -> Result<()> {
    let remotes = statuses(vault)?;
    if json {
        let all: Vec<Value> = remotes.iter().map(status_json).collect();
        return print_json(&json!({ "remotes": all }));
    }
    let mut out = stdout();
    for status in remotes {
        let one = &status.remote;
        let mut has = match one.publications {
            0 => "nothing pushed yet".to_owned(),
            _ => counted(one.objects, "object"),
        };
        if one.removal == Removal::Never {
            has += ", nothing is removed";
        }
        writeln!(out, "{}  {}  {has}", one.name, one.address)?;
        for line in status_lines(&status) {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(out.flush()?)
}

/// The remote that is meant: the one that was named, or the only one.
pub(crate) fn meant(vault: &Vault, name: Option<&str>) -> Result<String> {
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
                "the remote has lost something. Fetch evicted content with `strongroom evict --undo`, check with `strongroom verify` that the vault is complete, add and push to a new remote, then remove this one with `strongroom remote remove`",
            )),
        }
    })
}

fn prune(arguments: &RemotePrune) -> Result<()> {
    interrupt::watch()?;
    let common = &arguments.common;
    with(&arguments.vault, &common.secret, Intent::Change, |vault| {
        let name = meant(vault, arguments.name.as_deref())?;
        let report = if arguments.dry_run {
            vault.unused_at_remote(&name)
        } else {
            let grace = if arguments.now { Duration::ZERO } else { GRACE };
            let mut meter = Meter::new(arguments.quiet, "done");
            vault.prune_remote(&name, grace, &mut |progress| {
                meter.show(progress.bytes, progress.bytes_total);
                interrupt::go_on()
            })
        };
        let report = report.about(&name)?;
        if common.json {
            return print_json(&json!({
                "remote": name,
                "removed": report.objects,
                "removed_bytes": report.bytes,
                "unused": report.waiting,
                "unused_bytes": report.waiting_bytes,
                "kept": report.kept,
                "kept_bytes": report.kept_bytes,
            }));
        }
        let removed = (counted(report.objects, "object"), show_bytes(report.bytes));
        let unused = (
            counted(report.waiting, "object"),
            show_bytes(report.waiting_bytes),
        );
        let line = match arguments.dry_run {
            true => format!("{name}: unused: {} with {}", unused.0, unused.1),
            false => format!(
                "{name}: removed {} with {}; unused, but kept for some more days: {} with {}",
                removed.0, removed.1, unused.0, unused.1
            ),
        };
        print_line(&line)?;
        if report.kept == 0 {
            return Ok(());
        }
        print_line(&format!(
            "{name}: {} with {} stay for now, because the operator of the server keeps for some days what is to be removed; a later push removes them",
            counted(report.kept, "object"),
            show_bytes(report.kept_bytes)
        ))
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
        0 => writeln!(out, "{sound}{objects} checked")?,
        bytes => writeln!(
            out,
            "{sound}{objects} checked, {} compared",
            show_bytes(bytes)
        )?,
    }
    Ok(out.flush()?)
}

/// Bounds how fast content comes that lies only at a remote; says so if another program fetches it.
pub(crate) fn limit_down(vault: &Vault, down: Option<u64>) {
    if down.is_none() {
        return;
    }
    if !vault.is_owner() {
        tell(
            "strongroom: --limit-down has no effect: another process has the vault open and fetches at its own rate (`strongroom mount --limit-down`)",
        );
    }
    vault.limit_remotes(Rates { up: None, down });
}

/// Brings a remote to the state of the vault.
pub(crate) fn push(arguments: &Push) -> Result<()> {
    interrupt::watch()?;
    let common = &arguments.common;
    with(&arguments.vault, &common.secret, Intent::Change, |vault| {
        vault.limit_remotes(arguments.limits.rates());
        let name = meant(vault, arguments.remote.as_deref())?;
        let mut meter = Meter::new(arguments.quiet, "pushed");
        let report = vault.push(&name, &mut |progress| {
            meter.show(progress.bytes, progress.bytes_total);
            interrupt::go_on()
        });
        drop(meter);
        let report = report.about(&name)?;
        match common.json {
            true => print_json(&push_json(&name, &report)),
            false => show_push(&name, &report),
        }
    })
}

pub(crate) fn push_json(name: &str, report: &PushReport) -> Value {
    json!({
        "remote": name,
        "objects": report.objects,
        "bytes": report.bytes,
        "publications": report.publications,
    })
}

pub(crate) fn show_push(name: &str, report: &PushReport) -> Result<()> {
    print_line(&match report.publications {
        0 => format!("{name} already has everything"),
        _ => format!(
            "pushed {} with {} to {name}",
            counted(report.objects, "object"),
            show_bytes(report.bytes)
        ),
    })
}

/// What a sync evicted for the limit of this device.
pub(crate) fn evicted_json(report: &SyncReport) -> Value {
    json!({ "segments": report.evicted_segments, "bytes": report.evicted_bytes })
}

pub(crate) fn show_evicted(report: &SyncReport) -> Result<()> {
    match report.evicted_segments {
        0 => Ok(()),
        segments => print_line(&format!(
            "evicted {} in {}, for the limit of this device",
            show_bytes(report.evicted_bytes),
            counted(segments, "segment")
        )),
    }
}

/// Brings what others pushed into the vault.
pub(crate) fn pull(arguments: &Push) -> Result<()> {
    interrupt::watch()?;
    let common = &arguments.common;
    with(&arguments.vault, &common.secret, Intent::Change, |vault| {
        vault.limit_remotes(arguments.limits.rates());
        let name = meant(vault, arguments.remote.as_deref())?;
        let mut meter = Meter::new(arguments.quiet, "pulled");
        let report = vault.pull(&name, &mut |progress| {
            meter.show(progress.bytes, progress.bytes_total);
            interrupt::go_on()
        });
        drop(meter);
        let report = report.about(&name)?;
        match common.json {
            true => print_json(&pull_json(&name, &report)),
            false => show_pull(&name, &report),
        }
    })
}

pub(crate) fn pull_json(name: &str, report: &PullReport) -> Value {
    let paths = |paths: &[Vec<u8>]| paths.iter().map(|path| path_json(path)).collect::<Vec<_>>();
    json!({
        "remote": name,
        "objects": report.objects,
        "bytes": report.bytes,
        "publications": report.publications,
        "names": report.names,
        "changed": report.nodes,
        "conflicts": report.conflicts,
        "conflict_paths": paths(&report.conflict_paths),
        "merged": report.merged,
        "merged_paths": paths(&report.merged_paths),
        "erased_bytes": report.erased_bytes,
        "unerased_bytes": report.unerased_bytes,
        "erase_problems": report.erase_problems,
        "received": report.received,
        "received_paths": paths(&report.received_paths),
        "deposit_problems": report.deposit_problems,
    })
}

pub(crate) fn show_pull(name: &str, report: &PullReport) -> Result<()> {
    let mut out = stdout();
    let has_others = report.received > 0 || !report.deposit_problems.is_empty();
    match report.publications {
        0 if has_others => {}
        0 => writeln!(out, "{name} has nothing new")?,
        _ => writeln!(
            out,
            "pulled {} with {} from {name}: {} changed",
            counted(report.objects, "object"),
            show_bytes(report.bytes),
            counted(report.nodes, "file")
        )?,
    }
    show_paths(
        &mut out,
        "merged: changed here and on another device, in different lines:",
        (report.merged, &report.merged_paths),
    )?;
    show_paths(
        &mut out,
        "in conflict: changed here and on another device; both versions are kept, yours as:",
        (report.conflicts, &report.conflict_paths),
    )?;
    if report.erased_bytes > 0 {
        writeln!(
            out,
            "{} that another device erased: erased here, too",
            show_bytes(report.erased_bytes)
        )?;
    }
    if report.unerased_bytes > 0 {
        writeln!(
            out,
            "{} that another device erased stay, because a file here still has that content, or another file in a snapshot",
            show_bytes(report.unerased_bytes)
        )?;
    }
    show_paths(
        &mut out,
        "deposited by others:",
        (report.received, &report.received_paths),
    )?;
    out.flush()?;
    for problem in &report.deposit_problems {
        tell(&format!("strongroom: {problem}"));
    }
    for problem in &report.erase_problems {
        tell(&format!(
            "strongroom: content that another device erased is still here: {problem}"
        ));
    }
    Ok(())
}

/// How many files something is so of, and which.
fn show_paths(out: &mut impl Write, what: &str, (count, paths): (u64, &[Vec<u8>])) -> Result<()> {
    if count > 0 {
        writeln!(out, "{} {what}", counted(count, "file"))?;
    }
    for path in paths {
        writeln!(out, "  {}", show(path))?;
    }
    let more = count.saturating_sub(paths.len() as u64);
    if more > 0 {
        writeln!(out, "  and {more} more")?;
    }
    Ok(())
}

/// Makes everything durable, and brings the vault and its remotes to the same state.
pub(crate) fn sync(whole: &Sync) -> Result<()> {
    interrupt::watch()?;
    let arguments = &whole.moved;
    let common = &arguments.common;
    with(&arguments.vault, &common.secret, Intent::Change, |vault| {
        vault.limit_remotes(arguments.limits.rates());
        vault.sync()?;
        if whole.watch {
            return watch(vault, whole);
        }
        let names: Vec<String> = match &arguments.remote {
            Some(name) => vec![name.clone()],
            None => vault.remotes()?.into_iter().map(|one| one.name).collect(),
        };
        let (mut all, mut failures) = (Vec::new(), Failures::default());
        for name in names {
            let mut meter = Meter::new(arguments.quiet, "synced");
            let report = vault.sync_with(&name, &mut |progress| {
                meter.show(progress.bytes, progress.bytes_total);
                interrupt::go_on()
            });
            drop(meter);
            match report {
                Ok(report) if common.json => all.push(json!({
                    "pulled": pull_json(&name, &report.pulled),
                    "pushed": push_json(&name, &report.pushed),
                    "evicted": evicted_json(&report),
                })),
                Ok(report) => {
                    show_pull(&name, &report.pulled)?;
                    show_push(&name, &report.pushed)?;
                    show_evicted(&report)?;
                }
                Err(error) => {
                    failures.note(Err(error).about(&name));
                    if interrupt::came() {
                        break;
                    }
                }
            }
        }
        if common.json {
            print_json(&json!({
                "durable": true,
                "remotes": all,
                // Each was reported on standard error.
                "failed": failures.count(),
            }))?;
        }
        failures.end()
    })
}

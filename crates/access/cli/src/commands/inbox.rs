//! `inbox`: the addresses by which others deposit files for a vault, and what waits there.

use std::io::Write;

use serde_json::json;
use strongroom::{InboxReport, RemoteProgress, WaitingDeposit};

use crate::arguments::inbox::{InboxAdd, InboxCommand, InboxDeposit, InboxDiscard, InboxNamed};
use crate::commands::opening::{Intent, with};
use crate::commands::remote::{meant, pull_json, show_pull};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{Failure, Result, tell};
use crate::terminal::interrupt;
use crate::terminal::output::{counted, print_json, print_line, stdout};
use crate::terminal::printable::show;
use crate::terminal::progress::Meter;
use crate::terminal::time::{json_time, seconds, text_minute};

/// Runs one of the inbox commands.
pub(crate) fn inbox(command: &InboxCommand) -> Result<()> {
    match command {
        InboxCommand::Add(arguments) => add(arguments),
        InboxCommand::Address(InboxNamed {
            vault,
            label,
            common,
        }) => with(vault, &common.secret, Intent::Read, |vault| {
            let url = vault.inbox_url(label)?;
            match common.json {
                true => print_json(&json!({ "address": label, "url": url })),
                false => print_line(&url),
            }
        }),
        InboxCommand::List(arguments) => {
            let common = &arguments.common;
            with(&arguments.vault, &common.secret, Intent::Read, |vault| {
                let report = vault.inbox()?;
                for problem in &report.problems {
                    tell(&format!("strongroom: {problem}"));
                }
                match common.json {
                    true => list_json(&report),
                    false => list(&report),
                }
            })
        }
        InboxCommand::Remove(arguments) => remove(arguments),
        InboxCommand::Discard(arguments) => discard(arguments),
        InboxCommand::Retry(InboxDeposit { vault, id, common }) => {
            with(vault, &common.secret, Intent::Change, |vault| {
                said(vault.retry_deposit(id)?, "retried", id, common.json)
            })
        }
    }
}

fn add(arguments: &InboxAdd) -> Result<()> {
    interrupt::watch()?;
    let (label, common) = (&arguments.label, &arguments.common);
    with(&arguments.vault, &common.secret, Intent::Change, |vault| {
        let name = meant(vault, arguments.remote.as_deref())?;
        let mut meter = Meter::new(arguments.quiet, "synced");
        let added = vault.add_inbox_address(label, &name, &mut |progress: &RemoteProgress| {
            meter.show(progress.bytes, progress.bytes_total);
            interrupt::go_on()
        });
        drop(meter);
        let added = added?;
        if common.json {
            return print_json(&json!({
                "added": label,
                "url": added.url,
                "pulled": pull_json(&name, &added.synced.pulled),
            }));
        }
        if added.synced.pulled.publications > 0 || added.synced.pulled.received > 0 {
            show_pull(&name, &added.synced.pulled)?;
        }
        print_line(&added.url)
    })
}

fn remove(arguments: &InboxNamed) -> Result<()> {
    interrupt::watch()?;
    let (label, common) = (&arguments.label, &arguments.common);
    with(&arguments.vault, &common.secret, Intent::Change, |vault| {
        let synced = vault.remove_inbox_address(label, &mut |_| interrupt::go_on())?;
        if common.json {
            return print_json(&json!({
                "removed": label,
                "pulled": pull_json(label, &synced.pulled),
            }));
        }
        if synced.pulled.received > 0 || !synced.pulled.deposit_problems.is_empty() {
            show_pull(label, &synced.pulled)?;
        }
        print_line(&format!("removed {}", show(label)))
    })
}

fn discard(arguments: &InboxDiscard) -> Result<()> {
    let common = &arguments.common;
    with(&arguments.vault, &common.secret, Intent::Change, |vault| {
        if let Some(id) = &arguments.id {
            return said(vault.discard_deposit(id)?, "discarded", id, common.json);
        }
        if arguments.set_aside {
            let count = vault.discard_set_aside_deposits()?;
            return match common.json {
                true => print_json(&json!({ "discarded_deposits": count })),
                false => print_line(&format!(
                    "deleted {} that could not be opened",
                    counted(count, "deposit")
                )),
            };
        }
        let count = vault.discard_unfinished_deposits()?;
        match common.json {
            true => print_json(&json!({ "discarded_objects": count })),
            false => print_line(&format!(
                "deleted {} of unfinished deposits",
                counted(count, "part")
            )),
        }
    })
}

/// Says that something was done with a deposit, or that there is none of that id.
fn said(was_there: bool, done: &str, id: &str, json: bool) -> Result<()> {
    match (was_there, json) {
        (false, _) => Err(Failure::new(
            ExitCode::NotFound,
            format!("there is no such deposit: {}", show(id)),
        )),
        (true, true) => print_json(&json!({ done: id })),
        (true, false) => Ok(()),
    }
}

/// What a deposit waits for.
const fn state(deposit: &WaitingDeposit) -> (&'static str, &'static str) {
    match (deposit.is_taken, deposit.is_set_aside) {
        (true, _) => (
            "taken",
            "in the vault; the next sync deletes it at the server",
        ),
        (false, true) => (
            "set-aside",
            "set aside: it could not be opened; `inbox discard` deletes it",
        ),
        (false, false) => ("waiting", "the next pull takes it in"),
    }
}

fn list_json(report: &InboxReport) -> Result<()> {
    let addresses: Vec<_> = (report.addresses.iter())
        .map(|one| {
            json!({
                "label": one.label,
                "remote": one.remote,
                "created": json_time(seconds(one.created_s)),
                "works": !one.is_old,
            })
        })
        .collect();
    let deposits: Vec<_> = (report.deposits.iter())
        .map(|one| {
            json!({
                "id": one.id,
                "remote": one.remote,
                "came": json_time(seconds(one.came_s)),
                "state": state(one).0,
            })
        })
        .collect();
    print_json(&json!({
        "addresses": addresses,
        "deposits": deposits,
        "problems": report.problems,
    }))
}

fn list(report: &InboxReport) -> Result<()> {
    if report.addresses.is_empty() {
        return print_line("the inbox has no address; `strongroom inbox add` makes one");
    }
    let mut out = stdout();
    for one in &report.addresses {
        let works = match one.is_old {
            true => "  works no more: the keys of the vault were changed, or it was removed",
            false => "",
        };
        writeln!(
            out,
            "address  {}  at {}  since {}{works}",
            show(&one.label),
            show(&one.remote),
            text_minute(seconds(one.created_s)),
        )?;
    }
    for one in &report.deposits {
        writeln!(
            out,
            "deposit  {}  at {}  {}  {}",
            one.id,
            show(&one.remote),
            text_minute(seconds(one.came_s)),
            state(one).1,
        )?;
    }
    Ok(out.flush()?)
}

//! `snapshot keep`: sets which snapshots are kept.

use std::io::Write;

use serde_json::{Value, json};
use strongroom::{Retention, RevisionInfo, Vault, Whose};

use super::history::{line, revision_json};
use crate::arguments::history::{RuleArguments, SnapshotKeep};
use crate::commands::opening::{Intent, with};
use crate::terminal::failure::{Failure, Result};
use crate::terminal::output::{print_json, stdout};

fn rule_json(rule: &Retention) -> Value {
    let everything = rule.last == u32::MAX;
    json!({
        "everything": everything,
        "last": if everything { 0 } else { rule.last },
        "hourly": rule.hourly,
        "daily": rule.daily,
        "weekly": rule.weekly,
        "monthly": rule.monthly,
        "yearly": rule.yearly,
        "scheduled_only": rule.whose == Whose::Scheduled,
    })
}

/// `set`: whether the rule was set, else it is what a mount keeps unless another one is, or a trial.
fn keep_json(rule: &Retention, set: bool, removed: bool, going: &[RevisionInfo]) -> Value {
    json!({
        "rule": rule_json(rule),
        "set": set,
        "removed": removed,
        "snapshots": going.iter().map(revision_json).collect::<Vec<_>>(),
    })
}

/// Sets the rule and carries it out; or shows it.
pub(crate) fn keep(arguments: &SnapshotKeep) -> Result<()> {
    let rule = rule_of(&arguments.rule)?;
    let intent = match (&rule, arguments.dry_run) {
        (Some(_), false) => Intent::Change,
        _ => Intent::Read,
    };
    with(
        &arguments.vault,
        &arguments.common.secret,
        intent,
        |vault| match rule {
            Some(rule) => apply(vault, &rule, arguments),
            None => show(vault, arguments),
        },
    )
}

/// The rule that the options say; `None` if they say none.
fn rule_of(options: &RuleArguments) -> Result<Option<Retention>> {
    let whose = match options.scheduled_only {
        true => Whose::Scheduled,
        false => Whose::Unnamed,
    };
    if options.everything {
        return Ok(Some(Retention {
            whose,
            ..Retention::EVERYTHING
        }));
    }
    let numbers = [
        options.last,
        options.hourly,
        options.daily,
        options.weekly,
        options.monthly,
        options.yearly,
    ];
    if numbers.iter().all(Option::is_none) {
        return Ok(None);
    }
    let [last, hourly, daily, weekly, monthly, yearly] = numbers.map(|number| number.unwrap_or(0));
    let rule = Retention {
        last,
        hourly,
        daily,
        weekly,
        monthly,
        yearly,
        whose,
    };
    if rule.is_empty() {
        return Err(Failure::usage(
            "this rule keeps no snapshot; to remove snapshots, use `strongroom snapshot remove`",
        ));
    }
    Ok(Some(rule))
}

fn apply(vault: &Vault, rule: &Retention, arguments: &SnapshotKeep) -> Result<()> {
    let going = if arguments.dry_run {
        vault.let_go_by(rule)?
    } else {
        vault.set_retention(rule)?;
        vault.thin(rule)?
    };
    if arguments.common.json {
        let done = !arguments.dry_run;
        return print_json(&keep_json(rule, done, done, &going));
    }
    let mut out = stdout();
    for revision in &going {
        writeln!(out, "{}", line(revision, ""))?;
    }
    let verb = match arguments.dry_run {
        true => "would be removed",
        false => "removed",
    };
    writeln!(out, "{} {verb}", going.len())?;
    Ok(out.flush()?)
}

fn show(vault: &Vault, arguments: &SnapshotKeep) -> Result<()> {
    let set = vault.retention()?;
    let rule = set.unwrap_or(Retention::DEFAULT);
    let shared = vault.shared_retention()?;
    let unused = shared.filter(|shared| !shared.keeps_at_least(&rule));
    if arguments.common.json {
        let mut shown = keep_json(&rule, set.is_some(), false, &[]);
        shown["unused"] = unused.as_ref().map_or(Value::Null, rule_json);
        return print_json(&shown);
    }
    let mut out = stdout();
    writeln!(out, "{}", words(&rule))?;
    if set.is_none() {
        writeln!(out, "no rule was set; this is the default rule")?;
    }
    if let Some(unused) = unused {
        writeln!(
            out,
            "another device set a rule that keeps fewer snapshots ({}); it is used here only if you set it here, too",
            words(&unused)
        )?;
    }
    Ok(out.flush()?)
}

/// A rule in words.
fn words(rule: &Retention) -> String {
    if rule.last == u32::MAX {
        return "all snapshots stay".to_owned();
    }
    let numbers = [
        (rule.last, "last"),
        (rule.hourly, "hourly"),
        (rule.daily, "daily"),
        (rule.weekly, "weekly"),
        (rule.monthly, "monthly"),
        (rule.yearly, "yearly"),
    ];
    let parts: Vec<String> = numbers
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, name)| format!("{number} {name}"))
        .collect();
    let of = match rule.whose {
        Whose::Scheduled => "",
        Whose::Unnamed => " and snapshots without tag and message",
    };
    let (last, rest) = parts
        .split_last()
        .map_or(("none", &[][..]), |(last, rest)| (last.as_str(), rest));
    let numbers = match rest {
        [] => last.to_owned(),
        rest => format!("{} and {last}", rest.join(", ")),
    };
    format!("automatic snapshots{of}: {numbers} stay; other snapshots: all stay")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> RuleArguments {
        RuleArguments {
            last: None,
            hourly: None,
            daily: None,
            weekly: None,
            monthly: None,
            yearly: None,
            everything: false,
            scheduled_only: false,
        }
    }

    #[test]
    fn a_rule_that_keeps_nothing_is_refused_and_none_is_none() {
        assert_eq!(rule_of(&options()).unwrap(), None);
        let nothing = RuleArguments {
            daily: Some(0),
            ..options()
        };
        assert!(rule_of(&nothing).is_err());
        let everything = RuleArguments {
            everything: true,
            ..options()
        };
        let rule = rule_of(&everything).unwrap().unwrap();
        assert_eq!(words(&rule), "all snapshots stay");
        let some = RuleArguments {
            hourly: Some(24),
            monthly: Some(2),
            scheduled_only: true,
            ..options()
        };
        let rule = rule_of(&some).unwrap().unwrap();
        assert_eq!(
            words(&rule),
            "automatic snapshots: 24 hourly and 2 monthly stay; other snapshots: all stay"
        );
    }
}

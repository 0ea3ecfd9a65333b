//! Compares the results of a command with what is promised.
//!
//! Takes   the case, the results of the command, and the results of the same command on an untouched state
//! Gives   the verdicts; each that begins with VIOLATION is a broken promise
//! Never   treats every error as wrong, or every silence as right

use std::collections::BTreeSet;

use super::canary::Picture;
use super::child::MEMORY_BYTES_MAX;
use super::commands::{Command, Judge};
use super::known::{May, by_design};
use super::operations::{Applied, Operation};
use super::stage::Done;

/// The exit code of a verification that found no damage, but keys or devices that nobody accepted.
const KEYS_UNDECIDED: i32 = 16;

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the file is called in reports: the same in every run.
    pub label: String,
    /// Where it is in the folder.
    pub relative: String,
    /// What is done to it.
    pub operation: Operation,
    /// What is run then.
    pub command: &'static Command,
    /// Whether this user has seen the vault before it was changed.
    pub seen: bool,
}

/// A class, and the facts.
pub type Verdict = (String, String);

/// What a hostile person could have wanted a terminal to do.
fn control(bytes: &[u8]) -> Option<u8> {
    let mut odd = bytes.iter().copied();
    odd.find(|byte| (*byte < 0x20 && !matches!(byte, b'\n' | b'\t')) || *byte == 0x7f)
}

/// The words that name a file to a person.
fn names(case: &Case) -> Vec<String> {
    let relative = case.relative.as_str();
    let last = relative.rsplit('/').next().unwrap_or(relative);
    let mut names = vec![relative.to_owned(), last.to_owned()];
    let spoken: &[&str] = match relative {
        // A header of another vault has other keys.
        _ if relative.starts_with("vault.json") => &["header", "vault.json", "no such key"],
        _ if relative.starts_with("replica.json") => &["replica"],
        _ if relative.starts_with("metadata.db") => &["metadata.db", "database"],
        _ if relative.starts_with("segments") => &["segment", "/desk/", "/shelf/", "blocks"],
        _ if relative.starts_with("revisions") => &["revision", "snapshot"],
        "recovered-1" | "rekeyed" => &["was interrupted"],
        "intents" => &["intent"],
        "." => &["vault", "secret", "older"],
        _ => &[],
    };
    names.extend(spoken.iter().map(|word| (*word).to_owned()));
    names
}

/// Whether what was said names the file to a person.
#[must_use]
pub fn is_named(case: &Case, said: &str) -> bool {
    names(case).iter().any(|name| said.contains(name))
}

/// What holds whatever the case is: bounds, codes, words, and the world outside.
#[must_use]
pub fn bounds(done: &Done, codes: &BTreeSet<i32>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut broken =
        |class: &str, what: String| verdicts.push((format!("VIOLATION {class}"), what));
    if let Some(what) = &done.touched {
        broken("outside", what.clone());
    }
    let ended = &done.ended;
    let said = String::from_utf8_lossy(&ended.error).into_owned();
    match (ended.hung, ended.code) {
        (true, _) => broken("hang", said.clone()),
        (_, None) => broken("signal", format!("{:?}: {said}", ended.signal)),
        (_, Some(code)) if !codes.contains(&code) => {
            broken("exit code", format!("{code}: {said}"));
        }
        _ => {}
    }
    if said.contains("panicked") {
        broken("panic", said.clone());
    }
    if ended.memory_bytes > MEMORY_BYTES_MAX {
        broken("memory", format!("{} MiB", ended.memory_bytes >> 20));
    }
    if let Some(byte) = control(&ended.error) {
        broken("control character", format!("{byte:#x} in {said:?}"));
    }
    if let Some(what) = &done.complaint {
        broken("mount", what.clone());
    }
    verdicts
}

/// How an answer stands to that of an untouched state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It is the same.
    Same,
    /// It is a part of it, with an error for the rest.
    Part,
    /// It is another.
    Other,
}

/// Compares what was read with `right`, what the same command gives on an untouched state.
#[must_use]
pub fn stands(command: &Command, done: &Done, right: &Done) -> Stands {
    let is_failed = done.ended.code != right.ended.code;
    let same = match command.judge {
        Judge::Lines => done.ended.out == right.ended.out,
        _ => done.picture == right.picture,
    };
    let part = match command.judge {
        Judge::Lines if command.name == "cat" => right.ended.out.starts_with(&done.ended.out),
        Judge::Lines => {
            let lines = |bytes: &[u8]| -> BTreeSet<Vec<u8>> {
                let lines = bytes.split(|byte| *byte == b'\n');
                lines.map(<[u8]>::to_vec).collect()
            };
            lines(&done.ended.out).is_subset(&lines(&right.ended.out))
        }
        _ => is_part(
            done.picture.as_ref(),
            right.picture.as_ref(),
            command.judge,
            is_failed,
        ),
    };
    match (is_failed, same, part) {
        (false, true, _) => Stands::Same,
        // A mount ends well, whatever was read there: its errors are in the picture.
        (false, false, true) if command.judge == Judge::Mount => Stands::Part,
        (true, _, true) => Stands::Part,
        _ => Stands::Other,
    }
}

/// Whether every answer of `seen` is that of `right`, or an error. What is missing must lie below an error, or have been told.
fn is_part(seen: Option<&Picture>, right: Option<&Picture>, judge: Judge, is_failed: bool) -> bool {
    let (Some(seen), Some(right)) = (seen, right) else {
        return is_failed;
    };
    let is_right = seen
        .iter()
        .all(|(path, text)| text == "error" || right.get(path) == Some(text));
    let is_told = |path: &[u8]| {
        let mut above = path;
        loop {
            match seen.get(above) {
                Some(text) if text == "error" => return true,
                Some(_) => return false,
                None if above.is_empty() => return false,
                None => {}
            }
            let cut = above.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            above = &above[..cut];
        }
    };
    let missing = || {
        right
            .keys()
            .all(|path| seen.contains_key(path) || is_told(path))
    };
    is_right && (is_failed && judge != Judge::Mount || missing())
}

/// What is said of a damage: the code, and the words.
#[must_use]
pub fn words(case: &Case, applied: Applied, done: &Done, right: &Done) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let (Some(code), Some(usual)) = (done.ended.code, right.ended.code) else {
        return verdicts;
    };
    let said = [&done.ended.error[..], &done.ended.out[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let must_name = case.command.judge == Judge::Verify && applied == Applied::Changed;
    if code == usual && must_name {
        // What may be passed over in silence may be so whoever looks; an older state may not be shown to who saw a newer one.
        let whoever = case.label.trim_end_matches(" (seen)");
        let why = by_design(whoever, case.operation, May::BeSilent)
            .or_else(|| by_design(&case.label, case.operation, May::BeOlder));
        verdicts.push(match why {
            Some(why) => (format!("by design, silent: {why}"), String::new()),
            None if is_named(case, &String::from_utf8_lossy(&done.ended.error)) => (
                "VIOLATION verify warns, exit code 0".to_owned(),
                said.clone(),
            ),
            None => ("VIOLATION verify is silent".to_owned(), said.clone()),
        });
    }
    if code == usual {
        return verdicts;
    }
    if by_design(&case.label, case.operation, May::BeOlder).is_some() {
        // The older state may lack what was asked for.
        verdicts.push(("by design, older: another answer".to_owned(), said));
        return verdicts;
    }
    if applied == Applied::Equal {
        verdicts.push((
            "VIOLATION error without damage".to_owned(),
            format!("{code}: {said}"),
        ));
    }
    // An older database does not know which devices were accepted since.
    let may_ask = case.relative.starts_with("metadata.db");
    if code == KEYS_UNDECIDED && applied == Applied::Changed && !may_ask {
        verdicts.push((
            "VIOLATION damage is left to a decision".to_owned(),
            said.clone(),
        ));
    }
    if code == 1 {
        verdicts.push(("VIOLATION exit code 1".to_owned(), said.clone()));
    }
    if done.ended.error.is_empty() && done.ended.out.is_empty() {
        verdicts.push(("VIOLATION no words".to_owned(), code.to_string()));
    } else if !is_named(case, &said) {
        verdicts.push(("VIOLATION not named".to_owned(), format!("{code}: {said}")));
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::child::Ended;
    use super::super::commands::by_name;
    use super::*;

    /// Goal: a damage for which a verification only asks to accept a device is a broken promise, also where its words seem to name the file, as
    /// those for the blocks that were read do. Method: the answers of a verification of a segment that was changed.
    #[test]
    fn damage_that_is_left_to_a_decision_is_a_violation() {
        let case = |relative: &str| Case {
            label: relative.to_owned(),
            relative: relative.to_owned(),
            operation: Operation::FlipMiddle,
            command: by_name("verify").unwrap(),
            seen: false,
        };
        let done = |code| Done {
            ended: Ended {
                code: Some(code),
                out: b"vault.json: a device\n3 blocks in 1 KiB read\n".to_vec(),
                error: b"no damage found, but a device".to_vec(),
                ..Ended::default()
            },
            ..Done::default()
        };
        let classes = |relative, code| -> Vec<String> {
            let verdicts = words(&case(relative), Applied::Changed, &done(code), &done(0));
            verdicts.into_iter().map(|one| one.0).collect()
        };
        let violation = "VIOLATION damage is left to a decision";
        assert_eq!(classes("segments/00/0", 16), [violation]);
        assert_eq!(classes("vault.json", 16), [violation]);
        assert!(classes("segments/00/0", 14).is_empty());
        assert!(!classes("metadata.db", 16).contains(&violation.to_owned()));
    }
}

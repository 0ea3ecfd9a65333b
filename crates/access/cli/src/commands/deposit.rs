//! `deposit`: seals files for a vault, by an address of its inbox, and brings them to its server.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use strongroom::filesystem::Timestamp;
use strongroom::{DEPOSIT_BYTES_MAX, DepositOutcome, Depositor, NewDeposit};

use crate::arguments::inbox::Deposit;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Failures, Result};
use crate::terminal::interrupt;
use crate::terminal::output::{joined, path_json, print_json, print_line, show_bytes};
use crate::terminal::printable::{show, show_path};
use crate::terminal::progress::Meter;

/// Deposits files.
pub(crate) fn deposit(arguments: &Deposit) -> Result<()> {
    interrupt::watch()?;
    let is_one = arguments.files.len() == 1;
    if arguments.name.is_some() && !is_one {
        return Err(Failure::usage("--name needs exactly one FILE"));
    }
    let is_stdin = |file: &Path| file == Path::new("-");
    if arguments.files.iter().any(|file| is_stdin(file)) && arguments.name.is_none() {
        return Err(Failure::usage(
            "standard input has no name; --name gives the file one",
        ));
    }
    let depositor = Depositor::open(&arguments.url)?;
    let (mut all, mut failures) = (Vec::new(), Failures::default());
    for file in &arguments.files {
        let done = match is_stdin(file) {
            true => one(arguments, &depositor, &mut Source::stdin()),
            false => {
                Source::open(file).and_then(|mut source| one(arguments, &depositor, &mut source))
            }
        };
        match done {
            Ok(value) => all.push(value),
            Err(failure) => {
                failures.note(Err(failure).about(show_path(file)));
                if failures.stop() || interrupt::came() {
                    break;
                }
            }
        }
    }
    if arguments.json {
        print_json(&json!({
            "deposits": all,
            // Each was reported on standard error.
            "failed": failures.count(),
        }))?;
    }
    failures.end()
}

/// Something to deposit.
struct Source {
    content: Box<dyn Read + Send>,
    name: Vec<u8>,
    /// Nobody knows that of standard input.
    size: Option<u64>,
    modified: Option<SystemTime>,
}

impl Source {
    fn stdin() -> Self {
        Self {
            content: Box::new(io::stdin()),
            name: Vec::new(),
            size: None,
            modified: None,
        }
    }

    fn open(path: &Path) -> Result<Self> {
        // Before it is opened: to open a pipe waits for who writes it.
        let seen = fs::metadata(path)?;
        if seen.is_dir() {
            return Err(Failure::usage(
                "it is a directory; deposit an archive of it, as in `tar -c DIR | strongroom deposit URL - --name NAME.tar`",
            ));
        }
        if !seen.is_file() {
            return Err(Failure::usage(
                "it is not a file; give its content to standard input, which is called \"-\"",
            ));
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.len() > DEPOSIT_BYTES_MAX {
            return Err(Failure::new(
                ExitCode::Usage,
                format!(
                    "it has {}; a deposit has at most {}",
                    show_bytes(metadata.len()),
                    show_bytes(DEPOSIT_BYTES_MAX)
                ),
            ));
        }
        Ok(Self {
            content: Box::new(file),
            name: path.file_name().unwrap_or_default().as_bytes().to_vec(),
            size: Some(metadata.len()),
            modified: metadata.modified().ok(),
        })
    }
}

fn one(arguments: &Deposit, depositor: &Depositor, source: &mut Source) -> Result<Value> {
    let name = arguments.name.as_deref().map(OsStr::as_bytes);
    let name = name.unwrap_or(&source.name).to_vec();
    let repeatable_as = arguments.id.as_ref().map(|id| {
        // A name cannot hold a zero byte, so no two pairs are the same bytes.
        [id.as_bytes(), &name].join(&0_u8)
    });
    let new = NewDeposit {
        name,
        sender: arguments.from.clone().unwrap_or_default(),
        modified: timestamp(source.modified.unwrap_or_else(SystemTime::now)),
        repeatable_as,
    };
    let mut meter = Meter::new(arguments.quiet, "deposited");
    let size = source.size;
    let outcome = depositor.deposit(&new, &mut *source.content, &mut |bytes| {
        match size {
            Some(size) => meter.show(bytes, size),
            None => meter.count(format!("deposited {}", show_bytes(bytes))),
        }
        interrupt::go_on()
    });
    drop(meter);
    let DepositOutcome {
        id,
        bytes,
        was_there,
    } = outcome?;
    if !arguments.json {
        let name = show(&new.name);
        print_line(&match was_there {
            true => format!("{name} was deposited before"),
            false => format!("deposited {name} ({})", show_bytes(bytes)),
        })?;
    }
    let said = json!({ "id": id, "size": bytes, "was_there": was_there });
    Ok(joined(path_json(&new.name), said))
}

/// The same time; the first one if it is beyond what can be said.
fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or_default())
}

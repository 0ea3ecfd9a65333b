//! The command `strongroom-server`: runs a server, manages its accounts, checks it and backs it up. It contains no code for keys of vaults.
//!
//! Takes   a command line
//! Gives   exit codes: 0, 1 for an error or a problem that was found, 2 for a wrong command line
//! Never   shows a token except once, to the administrator who made it
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use strongroom_server::limits::KEEP_DAYS_MAX;
use strongroom_server::{
    Account, Accounts, Collecting, Configuration, Problem, Quota, Reading, Server, Standing, Tls,
    Token, Unfinished, Upkeep, UpkeepProgress, raise_open_files,
};

/// Stores the encrypted vaults of many accounts.
#[derive(Parser, Debug)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Runs a server until SIGTERM or SIGINT; the log goes to standard error
    #[command(after_help = not_on_command_line())]
    Serve(Serve),
    /// Adds, lists, suspends and removes accounts, whether the server is running or not
    #[command(subcommand)]
    Account(AccountCommand),
    /// Compares the database with the files, whether the server is running or not; exit code 1 if something is wrong
    Check {
        /// The folder of the server, or the file with its settings
        folder: PathBuf,
        /// Compare only lengths, without reading the content of the objects
        #[arg(long)]
        quick: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Brings a second folder to the state of the server, whether the server is running or not; `serve` can run on it
    ///
    /// Objects that the backup already has are not copied again. The backup has the hashes of tokens, and the key of
    /// the certificate that the server signed itself: protect the backup like the folder of the server.
    Backup {
        /// The folder of the server
        folder: PathBuf,
        /// The folder of the backup: a new one, or the folder of an earlier backup
        to: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Keeps the content of objects that are removed while a command runs, which copies the database and then the object store
    ///
    /// For a server that stores everything in PostgreSQL and an object store. Ends with the exit code of the command, or with 1 if
    /// content may have been removed all the same.
    DuringBackup {
        /// The file with the settings of the server
        settings: PathBuf,
        /// The command, and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Removes files that belong to no object; such files remain if an older database was restored or a backup or an
    /// upload was interrupted
    Gc {
        /// The folder of the server, or the file with its settings
        folder: PathBuf,
        /// Only show what would be removed
        #[arg(long)]
        dry_run: bool,
        /// With an object store: also remove what uploads have sent that are not finished. Those that are under way fail, and clients
        /// repeat them
        #[arg(long)]
        unfinished: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// The file of `--config` can set each of these; what is given here, or else in the environment, takes precedence.
#[derive(Args, Debug)]
struct Serve {
    /// The folder of the server
    #[arg(env = "STRONGROOM_SERVER_FOLDER")]
    folder: Option<PathBuf>,
    /// A file in TOML with these settings: folder, listen, certificate, key, no_tls, metrics, names, requests_per_second; or database,
    /// database_ca, database_connections and objects in the place of the folder
    #[arg(long, value_name = "FILE", env = "STRONGROOM_SERVER_CONFIG")]
    config: Option<PathBuf>,
    /// Where to listen; 127.0.0.1:8443 unless given
    #[arg(long, value_name = "ADDRESS:PORT", env = "STRONGROOM_SERVER_LISTEN")]
    listen: Option<SocketAddr>,
    /// A certificate in PEM, followed by intermediate certificates; without this option the server signs its own certificate
    #[arg(long, value_name = "FILE", env = "STRONGROOM_SERVER_CERTIFICATE")]
    certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", env = "STRONGROOM_SERVER_KEY")]
    key: Option<PathBuf>,
    /// Listen without TLS, on this machine only, for a proxy that does TLS
    #[arg(long, env = "STRONGROOM_SERVER_NO_TLS")]
    no_tls: bool,
    /// Answer at http://ADDRESS:PORT/metrics with numbers for Prometheus, without a token
    #[arg(long, value_name = "ADDRESS:PORT", env = "STRONGROOM_SERVER_METRICS")]
    metrics: Option<SocketAddr>,
    /// A name by which devices reach the server, as in their URLs; needed behind a proxy that does TLS. Give the option once for each name
    #[arg(
        long = "name",
        value_name = "NAME",
        env = "STRONGROOM_SERVER_NAMES",
        value_delimiter = ','
    )]
    names: Vec<String>,
    /// How many requests a second each account may make on average, and each network address without a valid token; 1000 unless given, 0
    /// for no limit
    #[arg(
        long,
        value_name = "COUNT",
        env = "STRONGROOM_SERVER_REQUESTS_PER_SECOND"
    )]
    requests_per_second: Option<u32>,
}

/// What else says how a server runs.
fn not_on_command_line() -> String {
    let names = Configuration::NOT_ON_COMMAND_LINE.join("\n  ");
    format!("In the environment, or in the file, but not on the command line:\n  {names}")
}

#[derive(Subcommand, Debug)]
enum AccountCommand {
    /// Adds an account, and shows its token, once
    Add {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        quota: QuotaArguments,
    },
    /// Lists the accounts, with their usage and quotas
    List {
        /// The folder of the server, or the file with its settings
        folder: PathBuf,
    },
    /// Refuses every request of an account from now on
    Suspend(Which),
    /// Accepts requests of a suspended account again
    Resume(Which),
    /// Replaces the token of an account, and shows the new token, once; the old token is refused from now on
    Token(Which),
    /// Sets the quota of an account
    Quota {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        quota: QuotaArguments,
    },
    /// Keeps objects of an account for some days after a client first asked to remove them, whoever asks
    ///
    /// Until then the server refuses to remove them, and clients ask again later. It protects against a stolen device and a stolen token, and
    /// takes space of the quota. The days of what was asked for before begin again. `account list` shows how much clients have asked for.
    Keep {
        #[command(flatten)]
        which: Which,
        /// For how many days; 0 to remove at once what clients ask to remove
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(..=i64::from(KEEP_DAYS_MAX)))]
        days: u32,
    },
    /// Removes an account and everything that it has stored
    Remove(Which),
}

#[derive(Args, Debug)]
struct Which {
    /// The folder of the server, or the file with its settings
    folder: PathBuf,
    /// The name of the account: small letters, digits, `.` and `-`
    name: String,
}

#[derive(Args, Debug)]
struct QuotaArguments {
    /// The most bytes of all its objects, for example 500M or 20G; without this option there is no limit
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: Option<u64>,
    /// The most objects; without this option there is no limit
    #[arg(long, value_name = "COUNT")]
    objects: Option<u64>,
}

impl QuotaArguments {
    fn quota(&self) -> Quota {
        let none = Quota::default();
        Quota {
            bytes: self.bytes.unwrap_or(none.bytes),
            objects: self.objects.unwrap_or(none.objects),
        }
    }
}

/// A number of bytes, with K, M, G or T for powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("{text} is not a size: use a number, or a number followed by K, M, G or T");
    let (digits, power) = match text.chars().last() {
        Some('K') => (&text[..text.len() - 1], 1),
        Some('M') => (&text[..text.len() - 1], 2),
        Some('G') => (&text[..text.len() - 1], 3),
        Some('T') => (&text[..text.len() - 1], 4),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1024_u64.pow(power)).ok_or_else(wrong)
}

type Done = Result<ExitCode, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(serve) => run(serve),
        Command::Account(command) => account(command),
        Command::Check {
            folder,
            quick,
            json,
        } => check(&folder, quick, json),
        Command::Backup { folder, to, json } => backup(&folder, &to, json),
        Command::DuringBackup { settings, command } => during_backup(&settings, &command),
        Command::Gc {
            folder,
            dry_run,
            unfinished,
            json,
        } => collect(&folder, dry_run, unfinished, json),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "strongroom-server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(serve: Serve) -> Done {
    let file = match &serve.config {
        Some(path) => Configuration::read(path)?,
        None => Configuration::default(),
    };
    let given = Configuration {
        folder: serve.folder,
        listen: serve.listen,
        certificate: serve.certificate,
        key: serve.key,
        no_tls: serve.no_tls.then_some(true),
        metrics: serve.metrics,
        names: (!serve.names.is_empty()).then_some(serve.names),
        requests_per_second: serve.requests_per_second,
        ..Configuration::environment()?
    };
    let settings = given.or(file).settings()?;
    // Before anybody can reach it, so that no signal is missed.
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    raise_open_files();
    let server = Server::start(&settings)?;
    let scheme = match settings.tls {
        Tls::Off => "http",
        _ => "https",
    };
    let mut out = std::io::stdout();
    writeln!(out, "listening at {scheme}://{}", server.address())?;
    if let Some(fingerprint) = server.fingerprint() {
        writeln!(out, "fingerprint {fingerprint}")?;
    }
    if let Some(address) = server.metrics() {
        writeln!(out, "metrics at http://{address}/metrics")?;
    }
    out.flush()?;
    signals.forever().next();
    server.stop();
    Ok(ExitCode::SUCCESS)
}

fn account(command: AccountCommand) -> Done {
    let mut out = std::io::stdout().lock();
    let mut show = |token: &Token| writeln!(out, "{}", token.reveal());
    let open = |folder: &Path| Accounts::open(Configuration::storage_at(folder)?);
    match command {
        AccountCommand::Add { which, quota } => {
            let accounts = open(&which.folder)?;
            show(&accounts.add(&which.name, quota.quota())?)?;
        }
        AccountCommand::List { folder } => {
            let accounts = open(&folder)?;
            for account in accounts.list()? {
                let asked_for = match account.keep_days {
                    0 => None,
                    _ => Some(accounts.asked_for(&account.name)?),
                };
                writeln!(out, "{}", line(&account, asked_for))?;
            }
        }
        AccountCommand::Suspend(which) => {
            open(&which.folder)?.set_standing(&which.name, Standing::Suspended)?;
        }
        AccountCommand::Resume(which) => {
            open(&which.folder)?.set_standing(&which.name, Standing::Active)?;
        }
        AccountCommand::Token(which) => {
            show(&open(&which.folder)?.renew_token(&which.name)?)?;
        }
        AccountCommand::Quota { which, quota } => {
            open(&which.folder)?.set_quota(&which.name, quota.quota())?;
        }
        AccountCommand::Keep { which, days } => {
            open(&which.folder)?.keep(&which.name, days)?;
        }
        AccountCommand::Remove(which) => {
            open(&which.folder)?.remove(&which.name)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check(folder: &Path, quick: bool, json: bool) -> Done {
    let reading = if quick {
        Reading::Lengths
    } else {
        Reading::Content
    };
    let report = upkeep(folder)?.check(reading, &mut meter())?;
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        show_problems(&mut out, &report.problems, report.problem_count)?;
        writeln!(
            out,
            "{} objects, {} bytes, {} problems",
            report.objects, report.bytes, report.problem_count
        )?;
        if report.garbage_files > 0 {
            writeln!(
                out,
                "{} files with {} bytes belong to no object: `strongroom-server gc` removes them",
                report.garbage_files, report.garbage_bytes
            )?;
        }
    }
    Ok(code(report.problem_count))
}

fn backup(folder: &Path, to: &Path, json: bool) -> Done {
    let report = upkeep(folder)?.backup(folder, to, &mut meter())?;
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        show_problems(&mut out, &report.problems, report.problem_count)?;
        writeln!(
            out,
            "{} objects, {} of them copied now with {} bytes, {} problems",
            report.objects, report.copied, report.copied_bytes, report.problem_count
        )?;
    }
    Ok(code(report.problem_count))
}

/// What is stored there.
fn upkeep(folder: &Path) -> strongroom_server::Result<Upkeep> {
    Upkeep::open(Configuration::storage_at(folder)?)
}

fn during_backup(settings: &Path, command: &[OsString]) -> Done {
    let [program, arguments @ ..] = command else {
        return Ok(ExitCode::from(2));
    };
    let upkeep = upkeep(settings)?;
    let ended = upkeep.during_backup(|| {
        let mut command = std::process::Command::new(program);
        command.args(arguments).status()
    })??;
    // What a signal ended has no code.
    let code = ended.code().unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn collect(folder: &Path, dry_run: bool, unfinished: bool, json: bool) -> Done {
    let (collecting, done) = match dry_run {
        true => (Collecting::Count, "would be removed"),
        false => (Collecting::Remove, "removed"),
    };
    let unfinished = match unfinished {
        true => Unfinished::All,
        false => Unfinished::Late,
    };
    let report = upkeep(folder)?.collect_with(collecting, unfinished)?;
    let mut out = std::io::stdout().lock();
    match json {
        true => writeln!(out, "{}", serde_json::to_string(&report)?)?,
        false => writeln!(
            out,
            "{} files with {} bytes {done}",
            report.files, report.bytes
        )?,
    }
    Ok(ExitCode::SUCCESS)
}

fn code(problems: u64) -> ExitCode {
    match problems {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// One line for each problem. No name holds a control character: the server admits none.
fn show_problems(out: &mut impl Write, problems: &[Problem], count: u64) -> std::io::Result<()> {
    for Problem {
        account,
        vault,
        object,
        what,
    } in problems
    {
        let names = [account, vault, object];
        let about: Vec<&str> = names
            .iter()
            .map(|name| name.as_str())
            .take_while(|name| !name.is_empty())
            .collect();
        match about.is_empty() {
            true => writeln!(out, "the database: {what}")?,
            false => writeln!(out, "{}: {what}", about.join("/"))?,
        }
    }
    match count.saturating_sub(problems.len() as u64) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more problems"),
    }
}

/// Shows how far a check or a backup is, on a terminal only.
fn meter() -> impl FnMut(UpkeepProgress) {
    const EVERY: Duration = Duration::from_millis(200);
    let is_shown = std::io::stderr().is_terminal();
    let mut next = Instant::now() + EVERY;
    move |progress: UpkeepProgress| {
        let is_last = progress.objects == progress.objects_total;
        if !is_shown || Instant::now() < next && !is_last {
            return;
        }
        next = Instant::now() + EVERY;
        let end = if is_last { "\r\x1b[K" } else { "" };
        let mut out = std::io::stderr();
        // A terminal that is gone stops nothing.
        let _ = write!(
            out,
            "\r{} of {} objects, {} MiB{end}",
            progress.objects,
            progress.objects_total,
            progress.bytes >> 20
        );
        let _ = out.flush();
    }
}

/// An account as a line. `asked_for`: what clients have asked to remove, if it keeps that.
fn line(account: &Account, asked_for: Option<Quota>) -> String {
    let of = |used: u64, max: u64| match max < i64::MAX as u64 {
        true => format!("{used} of {max}"),
        false => used.to_string(),
    };
    let suspended = match account.standing {
        Standing::Suspended => "  suspended",
        Standing::Active => "",
    };
    let keeps = asked_for.map_or_else(String::new, |asked_for| {
        format!(
            "  keeps removed objects {} days: {} objects with {} bytes",
            account.keep_days, asked_for.objects, asked_for.bytes
        )
    });
    format!(
        "{}  {} bytes  {} objects{suspended}{keeps}",
        account.name,
        of(account.used.bytes, account.quota.bytes),
        of(account.used.objects, account.quota.objects),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_with_a_unit_or_without() {
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("20G"), Ok(20 << 30));
        assert_eq!(size("3K"), Ok(3072));
        for bad in ["", "G", "-1", "1.5G", "1g", "99999999999999T", "ä"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}

//! The command `strongroom-server`: runs a server and manages its accounts. It contains no code for keys of vaults.
//!
//! Takes   a command line
//! Gives   exit codes: 0, 1 for an error, 2 for a wrong command line
//! Never   shows a token except once, to the administrator who made it
#![forbid(unsafe_code)]

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use strongroom_server::{Account, Accounts, Quota, Server, Settings, Standing, Tls, Token};

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
    Serve(Serve),
    /// Adds, lists, suspends and removes accounts, whether the server is running or not
    #[command(subcommand)]
    Account(AccountCommand),
}

#[derive(Args, Debug)]
struct Serve {
    /// The folder of the server
    folder: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443")]
    listen: SocketAddr,
    /// A certificate in PEM, followed by intermediate certificates; without this option the server signs its own certificate
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Listen without TLS, on this machine only, for a proxy that does TLS
    #[arg(long, conflicts_with_all = ["certificate", "key"])]
    no_tls: bool,
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
        /// The folder of the server
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
    /// Removes an account and everything that it has stored
    Remove(Which),
}

#[derive(Args, Debug)]
struct Which {
    /// The folder of the server
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

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(serve) => run(serve),
        Command::Account(command) => account(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "strongroom-server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(serve: Serve) -> Result<(), Box<dyn std::error::Error>> {
    let tls = match (serve.certificate, serve.key) {
        (Some(certificate), Some(key)) => Tls::Files { certificate, key },
        _ if serve.no_tls => Tls::Off,
        _ => Tls::SelfSigned,
    };
    // Before anybody can reach it, so that no signal is missed.
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let server = Server::start(&Settings {
        folder: serve.folder,
        listen: serve.listen,
        tls: tls.clone(),
    })?;
    let scheme = if tls == Tls::Off { "http" } else { "https" };
    let mut out = std::io::stdout();
    writeln!(out, "listening at {scheme}://{}", server.address())?;
    if let Some(fingerprint) = server.fingerprint() {
        writeln!(out, "fingerprint {fingerprint}")?;
    }
    out.flush()?;
    signals.forever().next();
    server.stop();
    Ok(())
}

fn account(command: AccountCommand) -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    let mut show = |token: &Token| writeln!(out, "{}", token.reveal());
    match command {
        AccountCommand::Add { which, quota } => {
            let accounts = Accounts::open(&which.folder)?;
            show(&accounts.add(&which.name, quota.quota())?)?;
        }
        AccountCommand::List { folder } => {
            for account in Accounts::open(&folder)?.list()? {
                writeln!(out, "{}", line(&account))?;
            }
        }
        AccountCommand::Suspend(which) => {
            Accounts::open(&which.folder)?.set_standing(&which.name, Standing::Suspended)?;
        }
        AccountCommand::Resume(which) => {
            Accounts::open(&which.folder)?.set_standing(&which.name, Standing::Active)?;
        }
        AccountCommand::Token(which) => {
            show(&Accounts::open(&which.folder)?.renew_token(&which.name)?)?;
        }
        AccountCommand::Quota { which, quota } => {
            Accounts::open(&which.folder)?.set_quota(&which.name, quota.quota())?;
        }
        AccountCommand::Remove(which) => {
            Accounts::open(&which.folder)?.remove(&which.name)?;
        }
    }
    Ok(())
}

/// An account as a line.
fn line(account: &Account) -> String {
    let of = |used: u64, max: u64| match max < i64::MAX as u64 {
        true => format!("{used} of {max}"),
        false => used.to_string(),
    };
    let suspended = match account.standing {
        Standing::Suspended => "  suspended",
        Standing::Active => "",
    };
    format!(
        "{}  {} bytes  {} objects{suspended}",
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

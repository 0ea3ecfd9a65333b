//! `serve`: runs a server that is a remote for the vaults of this user and of others.

use std::thread;
use std::time::Duration;

use strongroom_server::limits::REQUESTS_PER_SECOND;
use strongroom_server::{
    Accounts, Error, Quota, Server, Settings, Storage, Tls, Token, raise_open_files,
};

use crate::arguments::serve::Serve;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{Failure, Result};
use crate::terminal::interrupt;
use crate::terminal::output::print_line;

/// How often is looked whether the user wants to end it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs a server until it is interrupted.
pub(crate) fn serve(arguments: &Serve) -> Result<()> {
    interrupt::watch()?;
    let tls = match (&arguments.certificate, &arguments.key) {
        (Some(certificate), Some(key)) => Tls::Files {
            certificate: certificate.clone(),
            key: key.clone(),
        },
        _ if arguments.no_tls => Tls::Off,
        _ => Tls::SelfSigned,
    };
    raise_open_files();
    let signs_itself = tls == Tls::SelfSigned;
    let server = Server::start(&Settings {
        storage: Storage::from(&arguments.folder),
        listen: arguments.listen,
        tls,
        metrics: None,
        names: arguments.names.clone(),
        requests_per_second: REQUESTS_PER_SECOND,
    })
    .map_err(explain)?;
    let scheme = if arguments.no_tls { "http" } else { "https" };
    print_line(&format!("listening at {scheme}://{}", server.address()))?;
    let print = server.fingerprint().filter(|_| signs_itself);
    if let Some(print) = print {
        print_line(&format!("fingerprint {print}"))?;
    }
    if let Some(name) = &arguments.account
        && let Some(token) = added(arguments, name)?
    {
        let print = print.map_or_else(String::new, |print| format!("?fingerprint={print}"));
        let (at, token) = (server.address(), token.reveal());
        print_line(&format!(
            "account {name}; the token in its URL is not shown again. On each device:"
        ))?;
        print_line(&format!(
            "    strongroom remote add VAULT server '{scheme}://{token}@{at}/{name}/NAME{print}'"
        ))?;
    }
    while !interrupt::came() {
        thread::sleep(LOOK_EVERY);
    }
    server.stop();
    Ok(())
}

/// The token of the account if it was not there yet.
fn added(arguments: &Serve, name: &str) -> Result<Option<Token>> {
    let accounts = Accounts::open(&arguments.folder).map_err(explain)?;
    match accounts.add(name, Quota::default()) {
        Ok(token) => Ok(Some(token)),
        Err(Error::AccountExists(_)) => Ok(None),
        Err(error) => Err(explain(error)),
    }
}

fn explain(error: Error) -> Failure {
    let code = match &error {
        Error::AccountName(_) | Error::ClearBeyond | Error::Certificate(_) | Error::Foreign => {
            ExitCode::Usage
        }
        Error::InUse => ExitCode::InUse,
        Error::NewerSchema { .. } => ExitCode::Unsupported,
        Error::Io { source, .. } => ExitCode::of_io(source),
        _ => ExitCode::Other,
    };
    Failure::new(code, error.to_string())
}

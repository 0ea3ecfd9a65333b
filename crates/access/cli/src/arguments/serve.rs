//! The arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The folder of the server, which is made if it is not there; it is no vault
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Where to listen; 0.0.0.0 instead of 127.0.0.1 lets other machines in
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443")]
    pub(crate) listen: SocketAddr,
    /// Add this account, unless it is there, and print its URL with the token, once: small letters, digits, `.` and `-`
    #[arg(long, value_name = "NAME")]
    pub(crate) account: Option<String>,
    /// A certificate in PEM, with those that lead to one that devices know; without it the server signs its own
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// Speak in clear, on this machine only: for something before it that speaks TLS
    #[arg(long, conflicts_with_all = ["certificate", "key"])]
    pub(crate) no_tls: bool,
}

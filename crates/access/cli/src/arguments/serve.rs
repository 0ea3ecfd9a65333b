//! The arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The folder of the server, created if it does not exist; it is not a vault folder
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Where to listen; with 0.0.0.0 instead of 127.0.0.1, other machines can connect
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443")]
    pub(crate) listen: SocketAddr,
    /// Add this account if it does not exist, and print its URL with the token, once. NAME has small letters, digits, `.` and `-`
    #[arg(long, value_name = "NAME")]
    pub(crate) account: Option<String>,
    /// A certificate in PEM, followed by intermediate certificates; without this option the server signs its own certificate
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// Listen without TLS, on this machine only, for a proxy that does TLS
    #[arg(long, conflicts_with_all = ["certificate", "key"])]
    pub(crate) no_tls: bool,
    /// A name by which devices reach the server, as in their URLs; needed behind a proxy that does TLS. Give the option once for each name
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

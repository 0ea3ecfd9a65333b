//! The settings of a server: from a file, from the environment, from the command line.
//!
//! Takes   a file in TOML; settings that come from elsewhere
//! Gives   how a server is to run
//! Never   ignores a setting that it does not know, or starts with settings that contradict each other

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::limits::CONFIGURATION_BYTES_MAX;
use crate::server::Settings;
use crate::tls::Tls;

/// Where a server listens if nothing says so.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8443);

/// Settings, each of which may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// The folder of the server.
    pub folder: Option<PathBuf>,
    /// Where it listens.
    pub listen: Option<SocketAddr>,
    /// A certificate in PEM.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// Whether it listens without TLS.
    pub no_tls: Option<bool>,
    /// Where it answers with its metrics.
    pub metrics: Option<SocketAddr>,
    /// Names by which devices reach it.
    pub names: Option<Vec<String>>,
}

impl Configuration {
    /// Those in the file at `path`.
    ///
    /// # Errors
    /// `Configuration`, with the path and the line.
    pub fn read(path: &Path) -> Result<Self> {
        let about = |what: &dyn std::fmt::Display| {
            Error::Configuration(format!("{}: {what}", path.display()))
        };
        let len = std::fs::metadata(path)
            .map_err(|error| about(&error))?
            .len();
        if len > CONFIGURATION_BYTES_MAX {
            return Err(about(&"the file is too long"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| about(&error))?;
        toml_edit::de::from_str(&text).map_err(|error| about(&error))
    }

    /// These settings; where one is missing, that of `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            folder: self.folder.or(others.folder),
            listen: self.listen.or(others.listen),
            certificate: self.certificate.or(others.certificate),
            key: self.key.or(others.key),
            no_tls: self.no_tls.or(others.no_tls),
            metrics: self.metrics.or(others.metrics),
            names: self.names.or(others.names),
        }
    }

    /// How a server is to run.
    ///
    /// # Errors
    /// `Configuration` if there is no folder, or two settings contradict each other.
    pub fn settings(self) -> Result<Settings> {
        let wrong = |what: &str| Err(Error::Configuration(what.to_owned()));
        let tls = match (self.certificate, self.key, self.no_tls.unwrap_or(false)) {
            (None, None, true) => Tls::Off,
            (None, None, false) => Tls::SelfSigned,
            (Some(certificate), Some(key), false) => Tls::Files { certificate, key },
            (Some(_), Some(_), true) => return wrong("`no_tls` contradicts a certificate"),
            _ => return wrong("`certificate` and `key` are needed together"),
        };
        let Some(folder) = self.folder else {
            return wrong(
                "the folder of the server is missing: name it on the command line, or as `folder` in the file",
            );
        };
        Ok(Settings {
            folder,
            listen: self.listen.unwrap_or(LISTEN),
            tls,
            metrics: self.metrics,
            names: self.names.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn read(text: &str) -> Result<Configuration> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Configuration::read(file.path())
    }

    #[test]
    fn the_first_that_says_something_decides() {
        let text =
            "folder = '/srv'\nlisten = '[::1]:1'\nmetrics = '127.0.0.1:9'\nnames = ['a', 'b']\n";
        let file = read(text).unwrap();
        let line = Configuration {
            listen: Some("127.0.0.1:7".parse().unwrap()),
            no_tls: Some(true),
            ..Configuration::default()
        };
        let settings = line.or(file).settings().unwrap();
        assert_eq!(settings.folder, Path::new("/srv"));
        assert_eq!(settings.listen, "127.0.0.1:7".parse().unwrap());
        assert_eq!(settings.metrics, Some("127.0.0.1:9".parse().unwrap()));
        assert_eq!(settings.tls, Tls::Off);
        assert_eq!(settings.names, ["a", "b"]);
        let least = read("folder = 'srv'").unwrap().settings().unwrap();
        assert_eq!((least.listen, least.tls), (LISTEN, Tls::SelfSigned));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("folder = ", "TOML parse error at line 1"),
            ("listne = '127.0.0.1:1'", "unknown field `listne`"),
            ("listen = 'here'", "invalid socket address"),
            ("listen = 8443", "line 1"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        for (text, why) in [
            ("", "the folder of the server is missing"),
            ("folder = 'a'\nkey = 'k'", "are needed together"),
            (
                "folder = 'a'\nkey = 'k'\ncertificate = 'c'\nno_tls = true",
                "contradicts",
            ),
        ] {
            let error = read(text).unwrap().settings().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let long = "#".repeat(CONFIGURATION_BYTES_MAX as usize + 1);
        assert!(read(&long).unwrap_err().to_string().contains("too long"));
        assert!(Configuration::read(Path::new("/nowhere/x")).is_err());
    }
}

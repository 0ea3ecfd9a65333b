//! The settings of a server: from a file, from the environment, from the command line.
//!
//! Takes   a file in TOML; settings that come from elsewhere
//! Gives   how a server is to run
//! Never   ignores a setting that it does not know, or starts with settings that contradict each other

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use object_store::ClientOptions;
use serde::Deserialize;
use strongroom_remote::Address;

use crate::error::{Error, Result};
use crate::limits::{
    CONFIGURATION_BYTES_MAX, DATABASE_CONNECTIONS, DATABASE_CONNECTIONS_MAX, REQUESTS_PER_SECOND,
};
use crate::server::Settings;
use crate::storage::{Shared, Storage};
use crate::tls::Tls;

/// Where a server listens if nothing says so.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8443);

/// What the environment says beside the command line: here a password can be, which everybody sees on a command line.
const DATABASE: &str = "STRONGROOM_SERVER_DATABASE";
const DATABASE_CA: &str = "STRONGROOM_SERVER_DATABASE_CA";
const CONNECTIONS: &str = "STRONGROOM_SERVER_DATABASE_CONNECTIONS";
const OBJECTS: &str = "STRONGROOM_SERVER_OBJECTS";

/// Settings, each of which may be missing.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// The folder of the server.
    pub folder: Option<PathBuf>,
    /// The URL of a database of PostgreSQL, in the place of a folder.
    pub database: Option<String>,
    /// Certificates in PEM that sign that of the database.
    pub database_ca: Option<PathBuf>,
    /// Connections to the database, at most.
    pub database_connections: Option<usize>,
    /// The URL of a place in S3 for the bytes of objects, with the database.
    pub objects: Option<String>,
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
    /// Requests of a caller in a second, on average.
    pub requests_per_second: Option<u32>,
}

impl std::fmt::Debug for Configuration {
    /// Nothing of the URLs: they have passwords.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Configuration")
            .field("folder", &self.folder)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

impl Configuration {
    /// What only a file and the environment can say, by its name in the environment.
    pub const NOT_ON_COMMAND_LINE: [&str; 4] = [DATABASE, DATABASE_CA, CONNECTIONS, OBJECTS];

    /// Those that only the environment has, of all that may be there.
    ///
    /// # Errors
    /// `Configuration` for a number that is none.
    pub fn environment() -> Result<Self> {
        let said = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let connections = said(CONNECTIONS).map(|number| number.parse::<usize>());
        let connections = connections
            .transpose()
            .map_err(|_| Error::Configuration(format!("{CONNECTIONS} is not a number")))?;
        Ok(Self {
            database: said(DATABASE),
            database_ca: said(DATABASE_CA).map(PathBuf::from),
            database_connections: connections,
            objects: said(OBJECTS),
            ..Self::default()
        })
    }

    /// Where the server stores everything that `path` names: a folder, or a file with settings. The environment goes before the file.
    ///
    /// # Errors
    /// As `read` and `settings`.
    pub fn storage_at(path: &Path) -> Result<Storage> {
        match path.is_file() {
            true => Self::environment()?.or(Self::read(path)?).storage(),
            false => Ok(Storage::from(path)),
        }
    }

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
        // Not the lines around it, which may have a password.
        toml_edit::de::from_str(&text).map_err(|error: toml_edit::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            about(&format!("{} in line {line}", error.message()))
        })
    }

    /// These settings; where one is missing, that of `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            folder: self.folder.or(others.folder),
            database: self.database.or(others.database),
            database_ca: self.database_ca.or(others.database_ca),
            database_connections: self.database_connections.or(others.database_connections),
            objects: self.objects.or(others.objects),
            listen: self.listen.or(others.listen),
            certificate: self.certificate.or(others.certificate),
            key: self.key.or(others.key),
            no_tls: self.no_tls.or(others.no_tls),
            metrics: self.metrics.or(others.metrics),
            names: self.names.or(others.names),
            requests_per_second: self.requests_per_second.or(others.requests_per_second),
        }
    }

    /// Where a server stores everything.
    ///
    /// # Errors
    /// `Configuration` if that is not said, or said twice.
    pub fn storage(&self) -> Result<Storage> {
        let wrong = |what: &str| Err(Error::Configuration(what.to_owned()));
        let (database, objects) = match (&self.folder, &self.database, &self.objects) {
            (Some(folder), None, None) => return Ok(Storage::Folder(folder.clone())),
            (None, Some(database), Some(objects)) => (database, objects),
            (None, None, None) => {
                return wrong(
                    "the folder of the server is missing: name it on the command line, or as `folder` in the file",
                );
            }
            (Some(_), ..) => return wrong("`folder` contradicts `database` and `objects`"),
            _ => return wrong("`database` and `objects` are needed together"),
        };
        let connections = self.database_connections.unwrap_or(DATABASE_CONNECTIONS);
        // One is held while another is needed by who looks after everything.
        if !(2..=DATABASE_CONNECTIONS_MAX).contains(&connections) {
            return wrong("`database_connections` has to be between 2 and 1000");
        }
        let objects = Address::parse(objects)
            .map_err(|error| Error::Configuration(format!("`objects`: {error}")))?;
        if objects.s3(ClientOptions::new()).is_none() {
            return wrong("`objects` has the form s3://BUCKET/PATH, as the URL of a remote");
        }
        Ok(Storage::Shared(Shared {
            database: database.clone(),
            authority: self.database_ca.clone(),
            connections,
            objects,
        }))
    }

    /// How a server is to run.
    ///
    /// # Errors
    /// `Configuration` if it is not said where everything is stored, or two settings contradict each other.
    pub fn settings(self) -> Result<Settings> {
        let wrong = |what: &str| Err(Error::Configuration(what.to_owned()));
        let storage = self.storage()?;
        let tls = match (self.certificate, self.key, self.no_tls.unwrap_or(false)) {
            (None, None, true) => Tls::Off,
            (None, None, false) => Tls::SelfSigned,
            (Some(certificate), Some(key), false) => Tls::Files { certificate, key },
            (Some(_), Some(_), true) => return wrong("`no_tls` contradicts a certificate"),
            _ => return wrong("`certificate` and `key` are needed together"),
        };
        Ok(Settings {
            storage,
            listen: self.listen.unwrap_or(LISTEN),
            tls,
            metrics: self.metrics,
            names: self.names.unwrap_or_default(),
            requests_per_second: self.requests_per_second.unwrap_or(REQUESTS_PER_SECOND),
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
        let text = "folder = '/srv'\nlisten = '[::1]:1'\nmetrics = '127.0.0.1:9'\nnames = ['a', 'b']\nrequests_per_second = 7\n";
        let file = read(text).unwrap();
        let line = Configuration {
            listen: Some("127.0.0.1:7".parse().unwrap()),
            no_tls: Some(true),
            ..Configuration::default()
        };
        let settings = line.or(file).settings().unwrap();
        assert_eq!(settings.storage.folder(), Some(Path::new("/srv")));
        assert_eq!(settings.listen, "127.0.0.1:7".parse().unwrap());
        assert_eq!(settings.metrics, Some("127.0.0.1:9".parse().unwrap()));
        assert_eq!(settings.tls, Tls::Off);
        assert_eq!(settings.names, ["a", "b"]);
        assert_eq!(settings.requests_per_second, 7);
        let least = read("folder = 'srv'").unwrap().settings().unwrap();
        assert_eq!((least.listen, least.tls), (LISTEN, Tls::SelfSigned));
        assert_eq!(least.requests_per_second, REQUESTS_PER_SECOND);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("folder = ", "in line 1"),
            ("listne = '127.0.0.1:1'", "unknown field `listne`"),
            ("listen = 'here'", "invalid socket address"),
            ("listen = 8443", "in line 1"),
            ("requests_per_second = -1", "in line 1"),
            ("requests_per_second = 0.5", "in line 1"),
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
            ("database = 'postgres://h/s'", "are needed together"),
            ("objects = 's3://b/p'", "are needed together"),
            ("folder = 'a'\nobjects = 's3://b/p'", "`folder` contradicts"),
            (
                "database = 'postgres://h/s'\nobjects = 'folder:/srv'",
                "has the form s3://BUCKET/PATH",
            ),
            (
                "database = 'postgres://h/s'\nobjects = 's3://b/p'\ndatabase_connections = 1",
                "between 2 and 1000",
            ),
        ] {
            let error = read(text).unwrap().settings().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let long = "#".repeat(CONFIGURATION_BYTES_MAX as usize + 1);
        assert!(read(&long).unwrap_err().to_string().contains("too long"));
        assert!(Configuration::read(Path::new("/nowhere/x")).is_err());
    }

    /// Goal: no password of a database and no key of an object store is in what a server says of its settings. Method: words that stand out,
    /// in settings that are right and in some that are wrong.
    /// SECURITY.md, claim 22.
    #[test]
    fn settings_show_no_password_and_no_key() {
        let right = "database = 'postgres://anna:canary@h/s'\nobjects = 's3://canary:canary@b/p'\nno_tls = true";
        let configuration = read(right).unwrap();
        let shown = format!("{configuration:?}");
        let settings = configuration.settings().unwrap();
        let shown = format!("{shown} {settings:?} {:?}", settings.storage);
        assert!(!shown.contains("canary"), "{shown}");
        for wrong in [
            "database = 'canary'\nobjects = 's3://canary:canary@b/p?canary=1'",
            "database = 'postgres://anna:canary@h/s'\nobjects = 's3://canary:canary@/'",
            "database = 'postgres://anna:canary@h/s'\nobjects = 'canary'",
        ] {
            let error = read(wrong).unwrap().settings().unwrap_err().to_string();
            assert!(!error.replace("`canary`", "").contains("canary"), "{error}");
        }
        for wrong in [
            "database = 'canary' 'canary'",
            "database = ['canary']",
            "database = 'canary",
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(!error.contains("canary"), "{error}");
        }
    }
}

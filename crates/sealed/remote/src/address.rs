//! The address of a remote: a URL, which may hold credentials, and the remote that it names.
//!
//! Takes   `folder:/media/usb/vault`, `https://server/account/vault`, `s3://bucket/path`, `gs://bucket/path`, `az://container/path`
//! Gives   the remote; a text that can be shown
//! Never   shows the user, password or query of a URL

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use url::{Host, Url};

use crate::cloud::{Cloud, explain};
use crate::cloud_client::Connector;
use crate::error::{Error, Result};
use crate::folder_remote::FolderRemote;
use crate::inbox_door::InboxDoor;
use crate::limits::{ADDRESS_BYTES_MAX, CONNECT, RETRIES, RETRY, SILENCE};
use crate::pinned::Fingerprint;
use crate::protocol::{TOKEN_BYTES_MAX, is_part};
use crate::remote::Remote;
use crate::server_remote::ServerRemote;
#[cfg(feature = "testing")]
use crate::testing::{MEMORY, held, server_behind};

/// What the URL of a folder begins with.
const FOLDER: &str = "folder:";

/// What may come after the `?` of the URL of an object store.
const OPTIONS: &[&str] = &["endpoint", "region"];

/// The same of a server: SHA-256 of its certificate.
const FINGERPRINT: &str = "fingerprint";

/// Where the token of an account at a server is taken from if the URL has none.
const TOKEN: &str = "STRONGROOM_TOKEN";

/// Where a remote is. `Display` and `Debug` show no credential.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    text: String,
    place: Place,
}

#[derive(Clone, PartialEq, Eq)]
enum Place {
    Folder(PathBuf),
    Store(Scheme, Url),
    Server(Url),
    #[cfg(feature = "testing")]
    Memory,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    S3,
    Google,
    Azure,
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Folder(path) => write!(out, "{FOLDER}{}", path.display()),
            #[cfg(feature = "testing")]
            Place::Memory => out.write_str(&self.text),
            Place::Server(url) => {
                let bare = without_user(url.clone());
                out.write_str(bare.as_str())
            }
            Place::Store(_, url) => {
                let host = url.host_str().unwrap_or_default();
                write!(out, "{}://{host}{}", url.scheme(), url.path())?;
                // Which server it is says no secret, unless it holds one itself.
                match option(url, "endpoint").and_then(|endpoint| Url::parse(&endpoint).ok()) {
                    Some(endpoint) => match endpoint.host_str() {
                        Some(host) => write!(out, " at {host}"),
                        None => Ok(()),
                    },
                    None => Ok(()),
                }
            }
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Address({self})")
    }
}

impl Address {
    /// The address that `text` spells.
    ///
    /// # Errors
    /// `Error::Address`, which says what is wrong and repeats nothing that could be a credential.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = |why: &str| Err(Error::Address(why.to_owned()));
        if text.len() > ADDRESS_BYTES_MAX {
            return refuse("the URL is too long");
        }
        if let Some(path) = text.strip_prefix(FOLDER) {
            let path = PathBuf::from(path);
            if !path.is_absolute() {
                return refuse("a folder needs its absolute path, as in folder:/media/usb/vault");
            }
            return Ok(Self {
                text: text.to_owned(),
                place: Place::Folder(path),
            });
        }
        #[cfg(feature = "testing")]
        if text
            .strip_prefix(MEMORY)
            .is_some_and(|name| held(name).is_some())
        {
            return Ok(Self {
                text: text.to_owned(),
                place: Place::Memory,
            });
        }
        let Ok(url) = Url::parse(text) else {
            return refuse(
                "this is not the URL of a remote; use one of folder:/PATH, https://SERVER/ACCOUNT/VAULT, s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH",
            );
        };
        let scheme = match url.scheme() {
            "s3" => Scheme::S3,
            "gs" => Scheme::Google,
            "az" => Scheme::Azure,
            "https" | "http" => {
                check_server(&url)?;
                return Ok(Self {
                    text: text.to_owned(),
                    place: Place::Server(url),
                });
            }
            _ => {
                return refuse(
                    "no remote has this kind of URL; use folder:, https:, s3:, gs: or az:",
                );
            }
        };
        if url.host_str().is_none_or(str::is_empty) {
            return refuse("the URL names no bucket, as in s3://bucket/path");
        }
        if Path::parse(url.path().trim_matches('/')).is_err() {
            return refuse("the path in the URL has parts that no object name may have");
        }
        if let Some((name, _)) = url
            .query_pairs()
            .find(|(name, _)| !OPTIONS.contains(&&**name))
        {
            let why = format!(
                "the URL has the unknown option `{name}`; `endpoint` and `region` are known"
            );
            return Err(Error::Address(why));
        }
        Ok(Self {
            text: text.to_owned(),
            place: Place::Store(scheme, url),
        })
    }

    /// The whole URL, with the credentials that it may hold: to be kept encrypted, and never shown.
    #[must_use]
    pub fn with_credentials(&self) -> &str {
        &self.text
    }

    /// The URL without any credential: whoever has their own reaches the same place with it.
    #[must_use]
    pub fn without_credentials(&self) -> String {
        let url = match &self.place {
            Place::Store(_, url) | Place::Server(url) => url,
            _ => return self.text.clone(),
        };
        let mut bare = without_user(url.clone());
        let mut pairs = Vec::new();
        if let Some(endpoint) = option(url, "endpoint").and_then(|text| Url::parse(&text).ok())
            && endpoint.has_host()
        {
            pairs.push(("endpoint", without_user(endpoint).into()));
        }
        for name in ["region", FINGERPRINT] {
            pairs.extend(option(url, name).map(|value| (name, value)));
        }
        if !pairs.is_empty() {
            bare.query_pairs_mut().extend_pairs(pairs);
        }
        bare.into()
    }

    /// Whether it is a folder of this machine, whose disk others may want to unmount.
    #[must_use]
    pub const fn is_folder(&self) -> bool {
        matches!(self.place, Place::Folder(_))
    }

    /// What opens the store of a URL with `s3:`, and the path in it: for a server that keeps objects there. `None` for any other remote.
    /// Credentials come from the URL, or else from the environment. Options that are given later would replace whether TLS may be missing.
    #[must_use]
    pub fn s3(&self, options: ClientOptions) -> Option<(AmazonS3Builder, Path)> {
        let Place::Store(Scheme::S3, url) = &self.place else {
            return None;
        };
        let below = Path::parse(url.path().trim_matches('/')).ok()?;
        Some((s3(url, options), below))
    }

    /// The remote. Object stores are reached at the first request.
    ///
    /// Credentials that the URL does not hold are taken from the environment, as the tools of each store do.
    ///
    /// # Errors
    /// `Unreachable` if there is no such folder; `Address`, `Refused` if the environment says something that cannot be.
    pub fn open(&self) -> Result<Arc<dyn Remote>> {
        let (scheme, url) = match &self.place {
            Place::Folder(path) => return Ok(Arc::new(FolderRemote::open(path)?)),
            #[cfg(feature = "testing")]
            Place::Memory => {
                let remote = self.text.strip_prefix(MEMORY).and_then(held);
                let gone = || Error::Unreachable("no test holds it any more".to_owned());
                return remote.ok_or_else(gone);
            }
            Place::Server(url) => return server(url),
            Place::Store(scheme, url) => (*scheme, url),
        };
        let bucket = url.host_str().unwrap_or_default();
        let store: object_store::Result<Box<dyn ObjectStore>> = match scheme {
            Scheme::S3 => s3(url, client())
                .with_http_connector(Connector)
                .with_retry(retry())
                .build()
                .map(|store| Box::new(store) as _),
            Scheme::Google => GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(bucket)
                .with_client_options(client())
                .with_http_connector(Connector)
                .with_retry(retry())
                .build()
                .map(|store| Box::new(store) as _),
            Scheme::Azure => MicrosoftAzureBuilder::from_env()
                .with_container_name(bucket)
                .with_client_options(client())
                .with_http_connector(Connector)
                .with_retry(retry())
                .build()
                .map(|store| Box::new(store) as _),
        };
        let below = Path::parse(url.path().trim_matches('/')).map_err(|_| {
            Error::Address("the path in the URL has parts that no object name may have".into())
        })?;
        Ok(Arc::new(Cloud::new(store.map_err(explain)?, below)?))
    }
}

impl Address {
    /// The inbox at a server, whose address this is.
    ///
    /// # Errors
    /// `Address` if it is none of a server; `Refused` if there is no token.
    pub fn open_inbox(&self) -> Result<InboxDoor> {
        let Place::Server(url) = &self.place else {
            let why = "this is not the address of an inbox, which looks like https://sra-…@server/account/vault";
            return Err(Error::Address(why.to_owned()));
        };
        let token = token(url).ok_or_else(|| {
            Error::Refused(format!(
                "the address of an inbox has a token, as in https://sra-…@server/account/vault: write it there, or into {TOKEN}"
            ))
        })?;
        Ok(InboxDoor::new(server_with(url, &token)?, token))
    }

    /// Whether it is a vault at a Strongroom server.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.at_server().is_some()
    }

    /// The URL of the same vault with that token in the place of its own; `None` if it is none of a server.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Option<String> {
        let mut url = self.at_server()?;
        // A server has a host, so that its URL can have a user.
        url.set_password(None).ok()?;
        url.set_username(token).ok()?;
        Some(url.into())
    }

    /// The URL of the vault at a server that it is.
    fn at_server(&self) -> Option<Url> {
        match &self.place {
            Place::Server(url) => Some(url.clone()),
            #[cfg(feature = "testing")]
            Place::Memory => server_behind(self.text.strip_prefix(MEMORY)?)?.at_server(),
            _ => None,
        }
    }
}

/// The URL without user, password, query and fragment.
fn without_user(mut url: Url) -> Url {
    // Refused where a URL can have none.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Refuses what is no URL of a vault at a server.
fn check_server(url: &Url) -> Result<()> {
    let refuse = |why: &str| Err(Error::Address(why.to_owned()));
    if url.path().split_once('/').is_none_or(|(before, path)| {
        !before.is_empty()
            || path
                .split_once('/')
                .is_none_or(|(account, vault)| !is_part(account) || !is_part(vault))
    }) {
        return refuse(
            "the URL of a server names an account and a vault, with only lower-case letters, digits, `.` and `-`, as in https://server/account/vault",
        );
    }
    // Who listens on the line would have the token.
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if url.scheme() == "http" && !is_here {
        return refuse("a server needs https:; http: works only on this machine");
    }
    if url.password().is_some() {
        return refuse(
            "the URL of a server takes a token, no password: https://TOKEN@server/account/vault",
        );
    }
    if url.username().len() > TOKEN_BYTES_MAX {
        return refuse("the token in the URL is too long");
    }
    if let Some((name, _)) = url.query_pairs().find(|(name, _)| name != FINGERPRINT) {
        let why = format!("the URL has the unknown option `{name}`; `{FINGERPRINT}` is known");
        return Err(Error::Address(why));
    }
    match option(url, FINGERPRINT) {
        Some(text) if Fingerprint::parse(&text).is_none() => refuse(
            "the fingerprint in the URL is invalid: it needs 64 hexadecimal digits, as the server shows it",
        ),
        _ => Ok(()),
    }
}

/// The vault at a server.
fn server(url: &Url) -> Result<Arc<dyn Remote>> {
    let token = token(url).ok_or_else(|| {
        Error::Refused(format!(
            "the server needs a token: write it into the URL, https://TOKEN@server/account/vault, or into {TOKEN}"
        ))
    })?;
    Ok(Arc::new(server_with(url, &token)?))
}

/// The token in the URL, or in the environment.
fn token(url: &Url) -> Option<String> {
    let mut token = decoded(url.username());
    if token.is_empty() {
        token = std::env::var(TOKEN).unwrap_or_default();
    }
    (!token.is_empty() && token.len() <= TOKEN_BYTES_MAX).then_some(token)
}

/// The vault at a server, for who shows that token.
fn server_with(url: &Url, token: &str) -> Result<ServerRemote> {
    let fingerprint = option(url, FINGERPRINT).and_then(|text| Fingerprint::parse(&text));
    let mut bare = without_user(url.clone());
    bare.set_path("/");
    let path = url.path().trim_start_matches('/');
    ServerRemote::new(&bare, path, token, fingerprint)
}

fn option(url: &Url, wanted: &str) -> Option<String> {
    let mut pairs = url.query_pairs();
    pairs
        .find(|(name, _)| name == wanted)
        .map(|(_, value)| value.into_owned())
}

fn s3(url: &Url, options: ClientOptions) -> AmazonS3Builder {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(url.host_str().unwrap_or_default())
        .with_client_options(options);
    if let Some(region) = option(url, "region") {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = option(url, "endpoint") {
        // What is stored is sealed; who asks for a server without TLS gets it.
        builder = builder
            .with_allow_http(endpoint.starts_with("http://"))
            .with_endpoint(endpoint);
    }
    if !url.username().is_empty() {
        builder = builder
            .with_access_key_id(decoded(url.username()))
            .with_secret_access_key(decoded(url.password().unwrap_or_default()));
    }
    builder
}

/// A part of a URL without its percent signs.
fn decoded(part: &str) -> String {
    let pair = format!("k={}", part.replace('+', "%2B"));
    let mut pairs = url::form_urlencoded::parse(pair.as_bytes());
    pairs
        .next()
        .map_or_else(String::new, |(_, value)| value.into_owned())
}

/// A line may be slow, but not silent.
fn client() -> ClientOptions {
    ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT)
        .with_read_timeout(SILENCE)
}

fn retry() -> RetryConfig {
    RetryConfig {
        max_retries: RETRIES,
        retry_timeout: RETRY,
        ..RetryConfig::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    /// Goal: no way of showing an address shows a credential. Method: credentials everywhere that a URL can hold one.
    /// SECURITY.md, claim 22.
    #[test]
    fn no_credential_in_an_address_is_shown() {
        let text = "s3://canary:ca%2Fnary@bucket/path?region=r&endpoint=http%3A%2F%2Fcanary:canary@store.example:9";
        let address = Address::parse(text).unwrap();
        assert_eq!(address.with_credentials(), text);
        let shown = format!("{address} {address:?} {:?}", address.open().unwrap());
        assert!(
            shown.contains("s3://bucket/path at store.example") && !shown.contains("canary"),
            "{shown}"
        );
        let bare = address.without_credentials();
        assert!(
            bare == "s3://bucket/path?endpoint=http%3A%2F%2Fstore.example%3A9%2F&region=r",
            "{bare}"
        );
        assert!(!bare.contains("canary"), "{bare}");
        assert!(Address::parse(&bare).is_ok());
        let print = "0f".repeat(32);
        let text = format!("https://canary@server.example:8443/anna/photos?fingerprint={print}");
        let address = Address::parse(&text).unwrap();
        assert_eq!(address.with_credentials(), text);
        let shown = format!("{address} {address:?} {:?}", address.open().unwrap());
        assert!(
            shown.contains("https://server.example:8443/anna/photos") && !shown.contains("canary"),
            "{shown}"
        );
        let bare = address.without_credentials();
        assert_eq!(bare, text.replace("canary@", ""));
        assert!(Address::parse(&bare).is_ok());
        for bad in [
            "canary",
            "http://canary:canary@host",
            "http://canary@host/anna/photos",
            "https://canary:canary@host/anna/photos",
            "https://canary@host/anna/photos?canary=1",
            "https://canary@host/anna/photos?fingerprint=canary",
            "s3://canary:canary@/",
            "s3://canary:canary@b/?canary=1",
        ] {
            let error = Address::parse(bad).unwrap_err().to_string();
            assert!(!error.replace("`canary`", "").contains("canary"), "{error}");
        }
        assert_eq!(decoded("a%2Fb+c%20d"), "a/b+c d");
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_one_is() {
        for (bad, why) in [
            ("", "not the URL"),
            ("folder:relative", "absolute path"),
            ("/media/usb", "not the URL"),
            ("ftp://host/path", "no remote has this kind of URL"),
            ("memory:nowhere", "no remote has this kind of URL"),
            ("s3://bucket/a//b", "path in the URL"),
            ("s3://bucket/a?acl=1", "unknown option `acl`"),
            ("https://host", "names an account and a vault"),
            ("https://host/anna", "names an account and a vault"),
            ("https://host/anna/a/b", "names an account and a vault"),
            ("https://host/anna/%2e%2e", "names an account and a vault"),
            ("https://host/Anna/photos", "names an account and a vault"),
            ("https://host//photos", "names an account and a vault"),
            ("http://host/anna/photos", "only on this machine"),
            ("https://a:b@host/anna/photos", "no password"),
            (
                "https://host/anna/photos?region=1",
                "unknown option `region`",
            ),
            (
                "https://host/anna/photos?fingerprint=00",
                "fingerprint in the URL is invalid",
            ),
        ] {
            let error = Address::parse(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
        let missing = Address::parse("folder:/nowhere/at/all")
            .unwrap()
            .open()
            .unwrap_err();
        assert!(
            missing.is_passing() && missing.to_string().contains("/nowhere/at/all"),
            "{missing}"
        );
    }
}

//! The certificate of a server: from files, or self-signed and recognized by its fingerprint.
//!
//! Takes   paths of PEM files, or the folder of the server
//! Gives   the configuration for TLS; the fingerprint, SHA-256 of the certificate
//! Never   makes another certificate if one exists

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::PKey;
use openssl::x509::extension::SubjectAlternativeName;
use openssl::x509::{X509, X509NameBuilder};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::error::{Error, Result};
use crate::files::{make_folder, sync_folder};
use crate::limits::CERTIFICATE_DAYS;

/// How a server is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// With a certificate that the server signs itself, once.
    SelfSigned,
    /// With that of somebody else, and its key, from PEM files.
    Files {
        /// The certificate, and those that lead to one that clients know.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// In clear: only on this machine, behind something that speaks TLS.
    Off,
}

/// Where its own certificate is.
const FOLDER: &str = "tls";
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// What accepts connections with TLS.
pub(crate) struct Accepting {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) fingerprint: String,
    /// The certificate, without those that lead to it.
    pub(crate) certificate: Vec<u8>,
}

/// What `tls` asks for; `None` without TLS.
///
/// # Errors
/// `Certificate`; `Configuration` if the server has no folder for a certificate of its own.
pub(crate) fn accepting(tls: &Tls, folder: Option<&Path>) -> Result<Option<Accepting>> {
    let (certificate, key) = match tls {
        Tls::Off => return Ok(None),
        Tls::Files { certificate, key } => (certificate.clone(), key.clone()),
        Tls::SelfSigned => own(&folder.ok_or_else(no_folder)?.join(FOLDER))?,
    };
    let cannot = |path: &Path| {
        let path = path.display().to_string();
        move |error: rustls::pki_types::pem::Error| Error::Certificate(format!("{path}: {error}"))
    };
    let chain = CertificateDer::pem_file_iter(&certificate)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(cannot(&certificate))?;
    let first = chain.first().ok_or_else(|| {
        Error::Certificate(format!(
            "{}: the file has no certificate",
            certificate.display()
        ))
    })?;
    let fingerprint = shown(&openssl::sha::sha256(first));
    let certificate = first.to_vec();
    let key = PrivateKeyDer::from_pem_file(&key).map_err(cannot(&key))?;
    let refuse = |error: rustls::Error| Error::Certificate(error.to_string());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(refuse)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(refuse)?;
    // Not HTTP/2: docs/adr/0035-a-server-of-our-own.md says why.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(Accepting {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        fingerprint,
        certificate,
    }))
}

/// Each instance would sign another one.
fn no_folder() -> Error {
    Error::Configuration(
        "with a database and an object store the server needs `certificate` and `key`, the same for each instance, or `no_tls` behind a proxy"
            .to_owned(),
    )
}

fn shown(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The server's own certificate and key in `folder`.
fn own(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    make_folder(folder)?;
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    if !certificate.exists() {
        let (certificate_pem, key_pem) =
            signed().map_err(|error| Error::Certificate(error.to_string()))?;
        // The certificate last: with it there is a key.
        write(&key, &key_pem)?;
        write(&certificate, &certificate_pem)?;
    }
    // Also if it was there: a start that was cut off may have written it. After a cut devices would not know another one.
    sync_folder(folder)?;
    folder.parent().map_or(Ok(()), sync_folder)?;
    Ok((certificate, key))
}

/// Copies the server's own certificate and key from one folder of a server to another, if there are any.
pub(crate) fn copy_own(from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (from.join(FOLDER), to.join(FOLDER));
    for name in [KEY, CERTIFICATE] {
        let bytes = match fs::read(from.join(name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            bytes => bytes.map_err(Error::io("reading the certificate of the server"))?,
        };
        make_folder(&to)?;
        write(&to.join(name), &bytes)?;
    }
    sync_folder(&to)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = || Error::io("writing the certificate of the server");
    let fresh = path.with_extension("new");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        .map_err(failed())?;
    file.write_all(bytes).map_err(failed())?;
    file.sync_all().map_err(failed())?;
    fs::rename(&fresh, path).map_err(failed())
}

/// A new certificate that signs itself, and its key, in PEM.
fn signed() -> std::result::Result<(Vec<u8>, Vec<u8>), ErrorStack> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    let key = PKey::from_ec_key(EcKey::generate(&group)?)?;
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_nid(Nid::COMMONNAME, "strongroom-server")?;
    let name = name.build();
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::MAYBE_ZERO, false)?;
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    builder.set_serial_number(&*serial.to_asn1_integer()?)?;
    builder.set_subject_name(&name)?;
    builder.set_issuer_name(&name)?;
    builder.set_pubkey(&key)?;
    builder.set_not_before(&*Asn1Time::days_from_now(0)?)?;
    builder.set_not_after(&*Asn1Time::days_from_now(CERTIFICATE_DAYS)?)?;
    let names = SubjectAlternativeName::new()
        .dns("localhost")
        .ip("127.0.0.1")
        .ip("::1")
        .build(&builder.x509v3_context(None, None))?;
    builder.append_extension(names)?;
    builder.sign(&key, MessageDigest::sha256())?;
    Ok((builder.build().to_pem()?, key.private_key_to_pem_pkcs8()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn a_server_keeps_the_certificate_that_it_signed() {
        let folder = tempfile::tempdir().unwrap();
        let fingerprint = || {
            let accepting = accepting(&Tls::SelfSigned, Some(folder.path())).unwrap();
            accepting.unwrap().fingerprint
        };
        let first = fingerprint();
        assert_eq!(first.len(), 64);
        assert_eq!(fingerprint(), first);
        assert!(accepting(&Tls::Off, Some(folder.path())).unwrap().is_none());
        let refused = accepting(&Tls::SelfSigned, None).map(|_| ());
        assert!(matches!(refused, Err(Error::Configuration(_))));
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_said_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = own(&folder.path().join("one")).unwrap();
        let (_, other) = own(&folder.path().join("two")).unwrap();
        let empty = folder.path().join("empty.pem");
        fs::write(&empty, "").unwrap();
        let said = |certificate: &Path, key: &Path| {
            let tls = Tls::Files {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
            };
            accepting(&tls, Some(folder.path()))
                .map(|_| ())
                .unwrap_err()
                .to_string()
        };
        assert!(said(&empty, &key).contains("empty.pem: the file has no certificate"));
        assert!(said(&certificate, &empty).contains("empty.pem"));
        assert!(said(&folder.path().join("none.pem"), &key).contains("none.pem"));
        assert!(said(&certificate, &other).contains("cannot be used"));
    }
}

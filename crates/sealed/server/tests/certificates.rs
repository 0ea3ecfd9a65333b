//! Which certificate of a server a device accepts whose URL has no fingerprint: one that the system trusts, for that name and at this time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, KeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509Name, X509NameBuilder};
use strongroom_remote::{Address, Error, ObjectName};
use strongroom_server::{Quota, Server, Tls};
use support::{accounts, start};

/// Gives the child of the test the URLs, with what is to come of each.
const CHILD: &str = "STRONGROOM_TEST_CERTIFICATES";

const DAY_S: i64 = 24 * 60 * 60;

/// Somebody who signs certificates.
struct Authority {
    key: PKey<Private>,
    certificate: X509,
}

impl Authority {
    fn new() -> Self {
        let key = key();
        let certificate = certificate("authority", &key, None, [-99, 99]);
        Self { key, certificate }
    }
}

fn key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn called(text: &str) -> X509Name {
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_nid(Nid::COMMONNAME, text).unwrap();
    name.build()
}

/// A certificate for that name, from so many days on until so many, counted from now; without somebody who signs it, that of an authority.
fn certificate(
    name: &str,
    key: &PKey<Private>,
    by: Option<&Authority>,
    [from, until]: [i64; 2],
) -> X509 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now_s = i64::try_from(since.as_secs()).unwrap();
    let at = |days: i64| Asn1Time::from_unix(now_s + days * DAY_S).unwrap();
    let mut serial = BigNum::new().unwrap();
    serial.rand(127, MsbOption::MAYBE_ZERO, false).unwrap();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder
        .set_serial_number(&serial.to_asn1_integer().unwrap())
        .unwrap();
    builder.set_subject_name(&called(name)).unwrap();
    builder.set_issuer_name(&called("authority")).unwrap();
    builder.set_pubkey(key).unwrap();
    builder.set_not_before(&at(from)).unwrap();
    builder.set_not_after(&at(until)).unwrap();
    let extensions = match by {
        None => vec![
            BasicConstraints::new().critical().ca().build().unwrap(),
            KeyUsage::new().critical().key_cert_sign().build().unwrap(),
        ],
        Some(_) => {
            let names = SubjectAlternativeName::new()
                .dns(name)
                .build(&builder.x509v3_context(None, None));
            vec![names.unwrap()]
        }
    };
    for extension in extensions {
        builder.append_extension(extension).unwrap();
    }
    let signs = by.map_or(key, |by| &by.key);
    builder.sign(signs, MessageDigest::sha256()).unwrap();
    builder.build()
}

/// A server in `folder` with such a certificate, and a URL of a vault there.
fn serve(folder: &Path, name: &str, by: &Authority, days: [i64; 2]) -> (Server, String) {
    let own = key();
    let paths = ["certificate.pem", "key.pem"].map(|file| folder.join(file));
    let [certificate_pem, key_pem] = [
        certificate(name, &own, Some(by), days).to_pem().unwrap(),
        own.private_key_to_pem_pkcs8().unwrap(),
    ];
    std::fs::write(&paths[0], certificate_pem).unwrap();
    std::fs::write(&paths[1], key_pem).unwrap();
    let [certificate, key] = paths;
    let storage = folder.join("server");
    let token = accounts(&storage).add("anna", Quota::default()).unwrap();
    let server = start(storage, Tls::Files { certificate, key });
    let port = server.address().port();
    let url = format!("https://{}@localhost:{port}/anna/v", token.reveal());
    (server, url)
}

/// What the child of the test does, in whose environment the system trusts the authority.
fn ask_each(cases: &str) {
    let object = ObjectName::new("segments/a").unwrap();
    for case in cases.lines() {
        let (expected, url) = case.split_once(' ').unwrap();
        let has = Address::parse(url).unwrap().open().unwrap().has(&object);
        match expected {
            "accepted" => assert!(!has.unwrap()),
            what => {
                let is_it = |words: &str| words.contains("not the expected server");
                assert!(
                    matches!(&has, Err(Error::Refused(words)) if is_it(words)),
                    "{what}: {has:?}"
                );
            }
        }
    }
}

/// Goal: a certificate that is over, not valid yet, for another name, or signed by nobody whom the system trusts is refused before the server
/// gets the token. Method: this test runs itself with an environment in which the system trusts one authority.
#[test]
fn a_certificate_is_accepted_for_its_name_and_its_time_only() {
    if let Ok(cases) = env::var(CHILD) {
        return ask_each(&cases);
    }
    let folder = tempfile::tempdir().unwrap();
    let (trusted, other) = (Authority::new(), Authority::new());
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, trusted.certificate.to_pem().unwrap()).unwrap();
    let mut cases = String::new();
    let mut servers = Vec::new();
    for (what, name, by, days) in [
        ("accepted", "localhost", &trusted, [-1, 9]),
        ("expired", "localhost", &trusted, [-9, -1]),
        ("early", "localhost", &trusted, [1, 9]),
        ("another-name", "server.example", &trusted, [-1, 9]),
        ("unknown", "localhost", &other, [-1, 9]),
    ] {
        let own = folder.path().join(what);
        std::fs::create_dir(&own).unwrap();
        let (server, url) = serve(&own, name, by, days);
        cases.push_str(&format!("{what} {url}\n"));
        servers.push((what, server));
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args([
        "--exact",
        "a_certificate_is_accepted_for_its_name_and_its_time_only",
    ]);
    child.env(CHILD, cases).env("SSL_CERT_FILE", &ca);
    child.env_remove("SSL_CERT_DIR");
    let ended = child.output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    for (what, server) in servers {
        let is_asked = server.requests() > 0;
        assert_eq!(is_asked, what == "accepted", "{what}");
    }
}

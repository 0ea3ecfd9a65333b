//! Addresses of an inbox and deposits, written by an independent implementation of spec/12-inbox.md, and variants with one fault each.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde::Deserialize;
use std::path::{Path, PathBuf};
use strongroom_crypto::{Keyring, OpenDepositError, RecoveryCode, Secret, unlock};
use strongroom_format::deposit::{AddressCode, AddressId, DepositId, InboxAddress};
use strongroom_format::hex;

/// How many cases there are; a file that is lost must not pass unseen.
const CASES: usize = 44;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    vault: String,
    epoch: u32,
    address: String,
    document: String,
    code: String,
    token: String,
    object: String,
    text: String,
    deposit_of_text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    spec: String,
    expect: String,
    why: String,
    document: Option<String>,
    deposit: String,
    envelope: Option<String>,
    pieces: Vec<(u64, String)>,
    info: Option<Info>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Info {
    name: String,
    sender: String,
    size: u64,
    modified: i64,
    run: String,
    content: String,
}

fn vectors(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../spec/vectors")
        .join(folder)
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> T {
    serde_json::from_slice(&std::fs::read(path).expect("the vector is there"))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn bytes(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| hex::decode::<1>(std::str::from_utf8(pair).unwrap()).unwrap()[0];
    pairs.map(byte).collect()
}

fn id<const N: usize>(text: &str) -> [u8; N] {
    hex::decode(text).expect("an id of a vector is well-formed")
}

/// The vault of `spec/vectors/keys`, to which the addresses belong.
fn keyring() -> Keyring {
    let folder = vectors("keys");
    let base: serde_json::Value = read(&folder.join("base.json"));
    let lines: Vec<&str> = base["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    let case: serde_json::Value = read(&folder.join("ok-recovery-code.json"));
    let code = RecoveryCode::parse(case["secret"]["text"].as_str().unwrap()).unwrap();
    unlock(
        lines.join("\n").as_bytes(),
        &Secret::RecoveryCode(code),
        None,
    )
    .unwrap()
}

/// The word that a vector uses for what came out.
fn word(error: OpenDepositError) -> &'static str {
    match error {
        OpenDepositError::UnknownEpoch(_) => "unknown-epoch",
        OpenDepositError::Unreadable => "unreadable",
    }
}

/// Opens what a case has; gives the content of its last piece.
fn opened(keyring: &Keyring, case: &Case) -> Result<Option<Vec<u8>>, OpenDepositError> {
    let envelope = bytes(case.envelope.as_deref().expect("a deposit has an envelope"));
    let opened = keyring.open_deposit(DepositId(id(&case.deposit)), &envelope)?;
    if let Some(info) = &case.info {
        assert_eq!(opened.info.name, bytes(&info.name));
        assert_eq!(opened.info.sender, info.sender);
        assert_eq!(
            (opened.info.size, opened.info.modified_ns),
            (info.size, info.modified)
        );
        assert_eq!(opened.run.0, id(&info.run));
    }
    let mut content = None;
    for (number, sealed) in &case.pieces {
        content = Some(opened.open_piece(*number, &bytes(sealed))?.to_vec());
    }
    Ok(content)
}

#[test]
fn every_vector_of_an_inbox_opens_or_fails_as_the_specification_says() {
    let keyring = keyring();
    let mut paths: Vec<_> = std::fs::read_dir(vectors("inbox"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| !path.ends_with("base.json"));
    assert_eq!(paths.len(), CASES);
    for path in paths {
        let case: Case = read(&path);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let about = format!("{name}, {}: {}", case.spec, case.why);
        if let Some(document) = &case.document {
            let document = bytes(document);
            let found = match InboxAddress::decode(&document) {
                Ok(address) => {
                    assert!(address.encode() == document, "{about}");
                    "ok"
                }
                Err(_) => "format",
            };
            assert_eq!(found, case.expect, "{about}");
            continue;
        }
        match opened(&keyring, &case) {
            Ok(content) => {
                assert_eq!(case.expect, "ok", "{about}");
                let expected = bytes(
                    &case
                        .info
                        .expect("a case that is ok says what it holds")
                        .content,
                );
                assert!(content.unwrap_or_default() == expected, "{about}");
            }
            Err(error) => assert_eq!(word(error), case.expect, "{about}"),
        }
    }
}

/// Goal: both implementations give an address the same key, code, token and object, and a deposit the same id.
#[test]
fn the_address_of_the_vectors_is_that_of_the_vault() {
    let base: Base = read(&vectors("inbox").join("base.json"));
    let keyring = keyring();
    let address = keyring.inbox_address(AddressId(id(&base.address)));
    assert_eq!(hex::encode(&address.vault.0), base.vault);
    assert_eq!(address.epoch.0, base.epoch);
    assert_eq!(hex::encode(&address.encode()), base.document);
    let code = address.code();
    assert_eq!(hex::encode(&code.0), base.code);
    assert_eq!(code.token(), base.token);
    assert!(AddressCode::of_token(&base.token) == Some(code));
    let deposit = code.deposit_id(base.text.as_bytes());
    assert_eq!(hex::encode(&deposit.0), base.deposit_of_text);
    let hash = blake3::hash(base.token.as_bytes()).to_hex();
    assert_eq!(format!("addresses/{hash}"), base.object);
}

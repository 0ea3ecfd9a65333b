//! Vaults whose members log in, made with the code of the gate: a server has none of it.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::{Arc, Mutex};

use strongroom_crypto::{
    KeyFile, Keyring, LoginSigner, LoginTerms, NewKey, NewSlot, Secret, SystemRandom, create,
    unlock,
};
use strongroom_format::{Role, SuiteId, hex};
use strongroom_remote::login::{ChallengeDocument, LoginDocument, PassDocument, exact};
use strongroom_remote::{
    Challenge, Created, LoginAs, ObjectName, Remote, Result, SignedLogin, Signer,
};

use crate::support::{Answer, Place, ask};

/// How these tests reach the server.
pub(crate) const HERE: &str = "127.0.0.1";

/// A new vault: its first device, and what unlocks it as its slot.
pub(crate) fn vault() -> (Keyring, Secret) {
    let key_file = KeyFile::random(&SystemRandom).unwrap();
    let slot = NewSlot {
        label: "file".to_owned(),
        key: NewKey::KeyFile(key_file.clone()),
    };
    let made = create(&[slot], SuiteId::Aes256GcmBlake3, &SystemRandom, 1).unwrap();
    (made.keyring, Secret::KeyFile(key_file))
}

/// The slot of `keyring`'s vault.
pub(crate) fn slot_of(keyring: &Keyring, secret: &Secret) -> Keyring {
    unlock(&keyring.header_bytes().unwrap(), secret, None).unwrap()
}

/// A second device, which `keyring` adds; and `keyring` with it.
pub(crate) fn with_device(keyring: &Keyring) -> (Keyring, Keyring) {
    let added = keyring.add_device(&SystemRandom).unwrap();
    let with = keyring.follow(&added.header).unwrap();
    (with, added.keyring)
}

#[derive(Debug)]
struct Keys(LoginSigner);

impl Signer for Keys {
    fn sign(&self, role: LoginAs, challenge: &Challenge<'_>) -> Result<Option<SignedLogin>> {
        let role = match role {
            LoginAs::Device => Role::Device,
            LoginAs::Slot => Role::Slot,
        };
        let terms = LoginTerms {
            server: challenge.server,
            account: challenge.account,
            name: challenge.vault,
            nonce: challenge.nonce,
            issued_s: challenge.issued_s,
            valid_s: challenge.valid_s,
        };
        Ok((self.0.role() == Some(role)).then(|| SignedLogin {
            principal: self.0.principal().0,
            signature: self.0.sign(&terms),
            records: self.0.records_behind(challenge.records),
        }))
    }
}

/// The same with keys that change.
#[derive(Debug)]
pub(crate) struct Changing(Mutex<Keys>);

impl Changing {
    pub(crate) fn of(keyring: &Keyring) -> Self {
        Self(Mutex::new(Keys(keyring.login_signer())))
    }

    pub(crate) fn change(&self, keyring: &Keyring) {
        *self.0.lock().unwrap() = Keys(keyring.login_signer());
    }
}

impl Signer for Changing {
    fn sign(&self, role: LoginAs, challenge: &Challenge<'_>) -> Result<Option<SignedLogin>> {
        self.0.lock().unwrap().sign(role, challenge)
    }
}

/// What logs in as who signs with `keyring`.
pub(crate) fn signer(keyring: &Keyring) -> Arc<dyn Signer> {
    Arc::new(Keys(keyring.login_signer()))
}

/// The vault of that name of `anna`, for a member.
pub(crate) fn as_member(place: &Place, vault: &str, keyring: &Keyring) -> Arc<dyn Remote> {
    let remote = place.vault(vault);
    remote.sign_with(signer(keyring));
    remote
}

pub(crate) fn object(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

/// The name of the header of `keyring` at a remote, and its bytes.
pub(crate) fn header(keyring: &Keyring) -> (ObjectName, Vec<u8>) {
    let bytes = keyring.remote_header().unwrap();
    let hash = blake3::hash(&bytes).to_hex();
    let name = format!("headers/{:016}-{hash}", keyring.generation());
    (object(&name), bytes)
}

pub(crate) fn put_header(remote: &dyn Remote, keyring: &Keyring) -> Result<Created> {
    let (name, bytes) = header(keyring);
    remote.create(&name, bytes)
}

/// Does what a first push does: marker, a segment, header, publication.
pub(crate) fn push_first(remote: &dyn Remote, keyring: &Keyring) {
    let marker = format!(
        r#"{{"format":1,"vault":"{}","remote":"{}"}}"#,
        hex::encode(&keyring.vault_id().0),
        "0".repeat(32)
    );
    let objects = [
        ("strongroom.json", marker.into_bytes()),
        ("segments/a", b"canary".to_vec()),
    ];
    for (name, bytes) in objects {
        assert_eq!(remote.create(&object(name), bytes).unwrap(), Created::New);
    }
    assert_eq!(put_header(remote, keyring).unwrap(), Created::New);
    let first = object("publications/0000000000000001");
    assert_eq!(
        remote.create(&first, b"canary".to_vec()).unwrap(),
        Created::New
    );
}

/// Asks below the vault with the token of the account.
fn post(place: &Place, vault: &str, what: &str, body: &[u8]) -> Answer {
    let path = format!("/v1/vaults/anna/{vault}/{what}");
    let head = format!(
        "authorization: Bearer {}\r\ncontent-length: {}\r\n",
        place.token,
        body.len()
    );
    ask(place.address(), "POST", &path, &head, body)
}

pub(crate) fn challenge(place: &Place, vault: &str) -> ChallengeDocument {
    let answer = post(place, vault, "challenge", b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

/// The answer of `keyring` to a challenge, as of a server that was reached by that name, for that account and vault.
pub(crate) fn answer_of(
    keyring: &Keyring,
    (server, account, vault): (&str, &str, &str),
    challenge: &ChallengeDocument,
) -> LoginDocument {
    let signer = keyring.login_signer();
    let terms = LoginTerms {
        server,
        account,
        name: vault,
        nonce: exact(&challenge.nonce).unwrap(),
        issued_s: challenge.issued_s,
        valid_s: challenge.valid_s,
    };
    let signed = SignedLogin {
        principal: signer.principal().0,
        signature: signer.sign(&terms),
        records: signer.records_behind(challenge.records),
    };
    LoginDocument::new(server, &challenge.nonce, &signed)
}

/// Sends the document of a login.
pub(crate) fn log_in(place: &Place, vault: &str, document: &LoginDocument) -> Answer {
    post(
        place,
        vault,
        "login",
        &serde_json::to_vec(document).unwrap(),
    )
}

/// Sends anything as one.
pub(crate) fn log_in_with(place: &Place, vault: &str, body: &[u8]) -> Answer {
    post(place, vault, "login", body)
}

/// The token of a login.
pub(crate) fn pass(place: &Place, vault: &str, keyring: &Keyring) -> String {
    let challenge = challenge(place, vault);
    let document = answer_of(keyring, (HERE, "anna", vault), &challenge);
    let answer = log_in(place, vault, &document);
    assert_eq!(answer.status, 200, "{answer:?}");
    let pass: PassDocument = serde_json::from_slice(&answer.body).unwrap();
    pass.token
}

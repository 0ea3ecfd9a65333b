//! Turns the secret from a Java program into one that opens a vault.
//!
//! Takes   the kind of a secret, and its bytes
//! Gives   a `Secret`, or a key for a new slot; wiped when dropped. Java's own copy is wiped by `Secret.close`
//! Never   shows a secret in an error

use jni::Env;
use jni::objects::{JByteArray, JIntArray, JObjectArray};
use jni::sys::jint;
use strongroom::{
    AddKey, AgeIdentity, AgeRecipient, CreateOptions, Fingerprint, IfOlder, KeyFile, NewKey,
    Passphrase, RecoveryCode, Secret, SeenRecords, Trust,
};
use zeroize::Zeroizing;

use crate::border::{Outcome, bytes, invalid, optional_bytes, optional_text};

/// `Secret.kind` in Java.
const PASSPHRASE: jint = 1;
const KEY_FILE: jint = 2;
const RECOVERY_CODE: jint = 3;
const IDENTITY: jint = 4;
const RECIPIENT: jint = 5;

/// `Options.flags` in Java.
pub(crate) const READ_ONLY: jint = 1;
pub(crate) const OWN: jint = 2;
const ACCEPT_OLDER: jint = 4;
const NO_RECORDS: jint = 8;
pub(crate) const ON_DEMAND: jint = 16;

/// A secret as Java gives it.
pub(crate) struct Given {
    kind: jint,
    bytes: Zeroizing<Vec<u8>>,
    /// The passphrase of an SSH key.
    inner: Option<Zeroizing<Vec<u8>>>,
}

/// Takes a secret out of Java's arrays.
pub(crate) fn given(
    env: &Env<'_>,
    kind: jint,
    secret: &JByteArray<'_>,
    inner: &JByteArray<'_>,
) -> Outcome<Given> {
    Ok(Given {
        kind,
        bytes: Zeroizing::new(bytes(env, secret)?),
        inner: optional_bytes(env, inner)?.map(Zeroizing::new),
    })
}

fn passphrase(bytes: &[u8]) -> Outcome<Passphrase> {
    let none = "a passphrase is UTF-8 text of 1 to 1024 bytes";
    Passphrase::new(bytes).map_err(|_| invalid(none))
}

fn key_file(bytes: &[u8]) -> Outcome<KeyFile> {
    let none = "this is not the content of a key file, or it is damaged";
    KeyFile::parse(bytes).map_err(|_| invalid(none))
}

fn text(bytes: &[u8]) -> Outcome<&str> {
    std::str::from_utf8(bytes).map_err(|_| invalid("a secret of this kind is text in UTF-8"))
}

fn recovery_code(bytes: &[u8]) -> Outcome<RecoveryCode> {
    let none = "this is not a recovery code; look for a mistyped character";
    RecoveryCode::parse(text(bytes)?).map_err(|_| invalid(none))
}

fn recipient(bytes: &[u8]) -> Outcome<AgeRecipient> {
    let none = "this is not an age recipient or SSH public key that age supports";
    AgeRecipient::parse(text(bytes)?).map_err(|_| invalid(none))
}

impl Given {
    /// What opens a vault.
    pub(crate) fn to_open(&self) -> Outcome<Secret> {
        Ok(match self.kind {
            PASSPHRASE => Secret::Passphrase(passphrase(&self.bytes)?),
            KEY_FILE => Secret::KeyFile(key_file(&self.bytes)?),
            RECOVERY_CODE => Secret::RecoveryCode(recovery_code(&self.bytes)?),
            IDENTITY => {
                let none = "this is not an age identity or SSH private key, or its passphrase is wrong or missing";
                let inner = self.inner.as_ref().map(|inner| text(inner)).transpose()?;
                let identity = AgeIdentity::parse(&self.bytes, inner);
                Secret::Identity(identity.map_err(|_| invalid(none))?)
            }
            RECIPIENT => return Err(invalid("a recipient opens no vault; give its identity")),
            _ => return Err(invalid("a kind of secret that the library does not know")),
        })
    }

    /// The options of a new vault, with one more key.
    fn on_creation(&self, options: CreateOptions) -> Outcome<CreateOptions> {
        Ok(match self.kind {
            PASSPHRASE => options.passphrase(passphrase(&self.bytes)?),
            KEY_FILE => options.key_file(key_file(&self.bytes)?),
            RECIPIENT => options.recipient(recipient(&self.bytes)?),
            RECOVERY_CODE => return Err(invalid("a new vault makes its own recovery code")),
            _ => return Err(invalid("to add an age or SSH key, give its recipient")),
        })
    }

    /// A key for a slot.
    pub(crate) fn to_add(&self) -> Outcome<AddKey> {
        Ok(match self.kind {
            PASSPHRASE => AddKey::Passphrase(passphrase(&self.bytes)?),
            KEY_FILE => AddKey::Other(NewKey::KeyFile(key_file(&self.bytes)?)),
            RECOVERY_CODE => AddKey::Other(NewKey::RecoveryCode(recovery_code(&self.bytes)?)),
            RECIPIENT => AddKey::Other(NewKey::Recipient(recipient(&self.bytes)?)),
            _ => return Err(invalid("to add an age or SSH key, give its recipient")),
        })
    }

    /// A passphrase, for a slot that has one.
    pub(crate) fn to_replace(&self) -> Outcome<Passphrase> {
        match self.kind {
            PASSPHRASE => passphrase(&self.bytes),
            _ => Err(invalid("a passphrase can be replaced only by a passphrase")),
        }
    }
}

/// The options of a new vault with all keys of Java's two arrays.
pub(crate) fn with_keys<'local>(
    env: &mut Env<'local>,
    mut options: CreateOptions,
    kinds: &JIntArray<'local>,
    keys: &JObjectArray<'local, JByteArray<'local>>,
) -> Outcome<CreateOptions> {
    let mut all = vec![0; kinds.len(env)?];
    kinds.get_region(env, 0, &mut all)?;
    for (index, kind) in all.into_iter().enumerate() {
        let key = keys.get_element(env, index)?;
        options = given(env, kind, &key, &JByteArray::default())?.on_creation(options)?;
    }
    Ok(options)
}

/// Where it is recorded what was seen of vaults.
pub(crate) const fn records(flags: jint) -> SeenRecords {
    match flags & NO_RECORDS {
        0 => SeenRecords::OfUser,
        _ => SeenRecords::Nowhere,
    }
}

/// What a vault that is opened must be.
pub(crate) fn trust(env: &Env<'_>, flags: jint, expected: &JByteArray<'_>) -> Outcome<Trust> {
    let parse = |text: String| {
        let none = "this is not the fingerprint of a vault";
        Fingerprint::parse(&text).ok_or(invalid(none))
    };
    Ok(Trust {
        seen: records(flags),
        expected_fingerprint: optional_text(env, expected)?.map(parse).transpose()?,
        older: match flags & ACCEPT_OLDER {
            0 => IfOlder::Refuse,
            _ => IfOlder::Accept,
        },
    })
}

//! Seals a seed as an age file for a person's age or SSH key, and opens it with the private half.
//!
//! Takes   a public key as people exchange it, or an identity file; bytes to seal or to open
//! Gives   an age file for one recipient, or its content
//! Never   proves the author of the file: anyone with the public key can make one. unlock.rs compares the vault id
//! Spec    spec/1-keys.md, section 1.6
//!
//! Neither X25519 nor SSH keys are post-quantum. The `age` library draws its own randomness from the system.

use crate::limits::SECRET_TEXT_BYTES_MAX;
use age::secrecy::SecretString;
use std::io::Read as _;
use strongroom_format::SlotKind;
use strongroom_format::limits::SLOT_SEALED_BYTES_MAX;
use zeroize::Zeroizing;

/// The public key a slot is made for.
#[derive(Clone)]
pub struct AgeRecipient(Recipient);

#[derive(Clone)]
enum Recipient {
    Age(age::x25519::Recipient),
    Ssh(age::ssh::Recipient),
}

/// The private keys that open such a slot. Never shown.
#[derive(Clone)]
pub struct AgeIdentity(Identity);

#[derive(Clone)]
enum Identity {
    Age(Vec<age::x25519::Identity>),
    Ssh(Box<age::ssh::Identity>),
}

/// Caller: this is no key that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgeKeyError {
    /// Not `age1…` and not an SSH public key line.
    #[error(
        "this is neither an age recipient nor an SSH public key; a valid one begins with `age1`, `ssh-ed25519` or `ssh-rsa`"
    )]
    NoRecipient,
    /// An SSH key of a type or size that age does not use.
    #[error("this SSH key cannot be used; use an ed25519 key, or an RSA key of 2048 to 4096 bits")]
    UnsupportedSshKey,
    /// Not an age identity file and not an SSH private key.
    #[error("this is neither an age identity file nor an SSH private key")]
    NoIdentity,
    /// The SSH private key is protected.
    #[error("the SSH private key is protected by a passphrase; give it too")]
    PassphraseNeeded,
    /// The SSH private key did not open.
    #[error("the passphrase does not open the SSH private key")]
    WrongPassphrase,
    /// The age library could not seal.
    #[error("the secret of the new key slot could not be encrypted to this age or SSH key")]
    NotSealed,
}

impl std::fmt::Debug for AgeRecipient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "AgeRecipient({})", self.kind())
    }
}

impl std::fmt::Debug for AgeIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "AgeIdentity({}, ..)", self.kind())
    }
}

impl AgeRecipient {
    /// The recipient that `text` names: `age1…`, or a line of an SSH public key file.
    ///
    /// # Errors
    /// `AgeKeyError` if it is neither, or of a kind that age does not use.
    pub fn parse(text: &str) -> Result<Self, AgeKeyError> {
        use age::ssh::ParseRecipientKeyError as Error;
        let text = text.trim();
        if text.len() > SECRET_TEXT_BYTES_MAX {
            return Err(AgeKeyError::NoRecipient);
        }
        if let Ok(recipient) = text.parse() {
            return Ok(Self(Recipient::Age(recipient)));
        }
        match text.parse() {
            Ok(recipient) => Ok(Self(Recipient::Ssh(recipient))),
            Err(Error::Invalid(_)) => Err(AgeKeyError::NoRecipient),
            Err(
                Error::Ignore
                | Error::RsaModulusTooLarge
                | Error::RsaModulusTooSmall
                | Error::Unsupported(_),
            ) => Err(AgeKeyError::UnsupportedSshKey),
        }
    }

    /// The kind of the slots made for this key.
    #[must_use]
    pub const fn kind(&self) -> SlotKind {
        match self.0 {
            Recipient::Age(_) => SlotKind::Age,
            Recipient::Ssh(_) => SlotKind::Ssh,
        }
    }

    /// `clear` as an age file to this recipient.
    pub(crate) fn seal(&self, clear: &[u8]) -> Result<Vec<u8>, AgeKeyError> {
        let sealed = match &self.0 {
            Recipient::Age(recipient) => age::encrypt(recipient, clear),
            Recipient::Ssh(recipient) => age::encrypt(recipient, clear),
        };
        match sealed {
            Ok(sealed) if sealed.len() <= SLOT_SEALED_BYTES_MAX => Ok(sealed),
            _ => Err(AgeKeyError::NotSealed),
        }
    }
}

impl AgeIdentity {
    /// The keys in `content`: an age identity file, or an SSH private key with its passphrase if it has one.
    ///
    /// # Errors
    /// `AgeKeyError` if it is neither, or the passphrase is missing or wrong.
    pub fn parse(content: &[u8], ssh_passphrase: Option<&str>) -> Result<Self, AgeKeyError> {
        let text = std::str::from_utf8(content).map_err(|_| AgeKeyError::NoIdentity)?;
        if text.len() > SECRET_TEXT_BYTES_MAX {
            return Err(AgeKeyError::NoIdentity);
        }
        if text.trim_start().starts_with("-----BEGIN") {
            return Self::parse_ssh(text.trim_start(), ssh_passphrase);
        }
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let keys: Vec<_> = lines
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| AgeKeyError::NoIdentity)?;
        if keys.is_empty() {
            Err(AgeKeyError::NoIdentity)
        } else {
            Ok(Self(Identity::Age(keys)))
        }
    }

    /// The kind of slots these keys can open.
    #[must_use]
    pub const fn kind(&self) -> SlotKind {
        match self.0 {
            Identity::Age(_) => SlotKind::Age,
            Identity::Ssh(_) => SlotKind::Ssh,
        }
    }

    fn parse_ssh(text: &str, passphrase: Option<&str>) -> Result<Self, AgeKeyError> {
        use age::ssh::Identity as Ssh;
        let key = Ssh::from_buffer(text.as_bytes(), None).map_err(|_| AgeKeyError::NoIdentity)?;
        let key = match key {
            Ssh::Unencrypted(_) => key,
            Ssh::Unsupported(_) => return Err(AgeKeyError::UnsupportedSshKey),
            Ssh::Encrypted(locked) => {
                let passphrase = passphrase.ok_or(AgeKeyError::PassphraseNeeded)?;
                let open = locked.decrypt(SecretString::from(passphrase.to_owned()));
                Ssh::from(open.map_err(|_| AgeKeyError::WrongPassphrase)?)
            }
        };
        Ok(Self(Identity::Ssh(Box::new(key))))
    }

    /// The `N` bytes in `sealed`; `None` if it is for somebody else, damaged, or of another length.
    pub(crate) fn open<const N: usize>(&self, sealed: &[u8]) -> Option<Zeroizing<[u8; N]>> {
        if sealed.len() > SLOT_SEALED_BYTES_MAX {
            return None;
        }
        let file = age::Decryptor::new_buffered(sealed).ok()?;
        let mut reader = match &self.0 {
            Identity::Age(keys) => file
                .decrypt(keys.iter().map(|key| key as &dyn age::Identity))
                .ok()?,
            Identity::Ssh(key) => file
                .decrypt(std::iter::once(key.as_ref() as &dyn age::Identity))
                .ok()?,
        };
        let mut clear = Zeroizing::new([0; N]);
        reader.read_exact(clear.as_mut_slice()).ok()?;
        // One byte more proves that the end, and with it the last tag, was reached.
        matches!(reader.read(&mut [0]), Ok(0)).then_some(clear)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use age::secrecy::ExposeSecret as _;

    fn pair() -> (AgeIdentity, AgeRecipient) {
        let identity = age::x25519::Identity::generate();
        let file = format!("# a comment\n\n{}\n", identity.to_string().expose_secret());
        let recipient = AgeRecipient::parse(&format!(" {}\n", identity.to_public())).unwrap();
        (
            AgeIdentity::parse(file.as_bytes(), None).unwrap(),
            recipient,
        )
    }

    #[test]
    fn what_is_sealed_to_a_key_opens_with_it_alone() {
        let (identity, recipient) = pair();
        let sealed = recipient.seal(&[7; 64]).unwrap();
        assert_eq!(*identity.open::<64>(&sealed).unwrap(), [7; 64]);
        assert!(pair().0.open::<64>(&sealed).is_none());
        assert!(identity.open::<63>(&sealed).is_none());
        assert!(identity.open::<65>(&sealed).is_none());
    }

    #[test]
    fn an_age_file_cut_or_changed_anywhere_does_not_open() {
        let (identity, recipient) = pair();
        let sealed = recipient.seal(&[7; 64]).unwrap();
        for place in 0..sealed.len() {
            assert!(identity.open::<64>(&sealed[..place]).is_none(), "{place}");
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(identity.open::<64>(&changed).is_none(), "{place}");
        }
    }

    #[test]
    fn a_slot_sealed_with_an_age_passphrase_costs_an_opener_nothing() {
        let scrypt = age::Encryptor::with_user_passphrase("x".to_owned().into());
        let mut sealed = Vec::new();
        let mut writer = scrypt.wrap_output(&mut sealed).unwrap();
        std::io::Write::write_all(&mut writer, &[7; 64]).unwrap();
        writer.finish().unwrap();
        assert!(pair().0.open::<64>(&sealed).is_none());
    }

    #[test]
    fn texts_that_are_no_keys_are_refused() {
        for text in [
            "",
            "age1",
            "AGE-SECRET-KEY-1",
            "ssh-ed25519",
            "ssh-ed25519 AAAA",
            "hello",
        ] {
            assert!(AgeRecipient::parse(text).is_err(), "{text}");
            assert_eq!(
                AgeIdentity::parse(text.as_bytes(), None).unwrap_err(),
                AgeKeyError::NoIdentity,
                "{text}"
            );
        }
        let pem = b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n";
        assert_eq!(
            AgeIdentity::parse(pem, None).unwrap_err(),
            AgeKeyError::NoIdentity
        );
        assert_eq!(
            AgeIdentity::parse(b"\xff", None).unwrap_err(),
            AgeKeyError::NoIdentity
        );
    }

    /// Keys made for this test alone; they open nothing else.
    const SSH_KEY: &str = "\
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACBW3Bup/vUgyScPUAecrUCcIwoxolVZoEifOLLTAWZsCgAAAIiSiN6kkoje
pAAAAAtzc2gtZWQyNTUxOQAAACBW3Bup/vUgyScPUAecrUCcIwoxolVZoEifOLLTAWZsCg
AAAEChl0TdTKHRYrYmMaRWVNX4xGvlu7r8is8aSHn6XHJpIFbcG6n+9SDJJw9QB5ytQJwj
CjGiVVmgSJ84stMBZmwKAAAABHRlc3QB
-----END OPENSSH PRIVATE KEY-----
";
    const SSH_PUBLIC: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFbcG6n+9SDJJw9QB5ytQJwjCjGiVVmgSJ84stMBZmwK test";
    /// Protected by the passphrase "tést".
    const SSH_LOCKED_KEY: &str = "\
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABAXWOza06
K1bsk2I7vE0om1AAAAEAAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAIKVZvscXQ1j+wMPQ
GnH48GIaI/oe5LP1ty9Yre82q+CtAAAAkG0WOwG5P3DWFtBoAP06bdWbv8kOKt7EuRT0YJ
qdJutReoGCMT/3UGajktNW5PBtXJM5aWBCFzoqAMLJPPLxUo2bCaTy25NwZTrrTqFDcSkp
BTtaar7OiCoQNwS9n5sB8jpZSwO+7fD4vY7q/ELw4Kip16xM41T74XifARs1NN9swLSb3A
odQOi0ffB8qt9RAA==
-----END OPENSSH PRIVATE KEY-----
";
    const SSH_LOCKED_PUBLIC: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKVZvscXQ1j+wMPQGnH48GIaI/oe5LP1ty9Yre82q+Ct test";

    #[test]
    fn an_ssh_slot_opens_with_its_key_alone() {
        let recipient = AgeRecipient::parse(SSH_PUBLIC).unwrap();
        assert_eq!(recipient.kind(), SlotKind::Ssh);
        let sealed = recipient.seal(&[7; 64]).unwrap();
        let identity = AgeIdentity::parse(SSH_KEY.as_bytes(), None).unwrap();
        assert_eq!(*identity.open::<64>(&sealed).unwrap(), [7; 64]);
        let other = AgeRecipient::parse(SSH_LOCKED_PUBLIC)
            .unwrap()
            .seal(&[7; 64])
            .unwrap();
        assert!(identity.open::<64>(&other).is_none());
        assert!(pair().0.open::<64>(&sealed).is_none());
    }

    #[test]
    fn a_protected_ssh_key_needs_its_passphrase() {
        let parse = |passphrase| AgeIdentity::parse(SSH_LOCKED_KEY.as_bytes(), passphrase);
        assert_eq!(parse(None).unwrap_err(), AgeKeyError::PassphraseNeeded);
        assert_eq!(
            parse(Some("test")).unwrap_err(),
            AgeKeyError::WrongPassphrase
        );
        let sealed = AgeRecipient::parse(SSH_LOCKED_PUBLIC)
            .unwrap()
            .seal(&[7; 64])
            .unwrap();
        assert_eq!(
            *parse(Some("tést")).unwrap().open::<64>(&sealed).unwrap(),
            [7; 64]
        );
    }

    #[test]
    fn debug_shows_the_kind_only() {
        let (identity, recipient) = pair();
        assert_eq!(
            format!("{identity:?} {recipient:?}"),
            "AgeIdentity(age identity, ..) AgeRecipient(age identity)"
        );
    }
}

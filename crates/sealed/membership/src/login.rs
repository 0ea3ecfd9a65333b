//! The statement that a device or a key slot signs to log in at a server.
//!
//! Takes   the challenge of the server, and the principal that logs in to a vault there
//! Gives   the bytes to sign; whether a signature over them is valid
//! Never   decides who may log in: the server does, by the chain of the vault
//! Spec    spec/11-sync.md, section 11.11
//!
//! Invariants
//!  (1) A statement has one encoding, and each of its fields is in it.                             [11.11.2]
//!  (2) A signature over it is valid for nothing else: it covers a label of its own.               [11.11.2]

use strongroom_format::cbor::Encoder;
use strongroom_format::{PrincipalId, VaultId};

use crate::signature::{Verify, verify_strict};

/// The version of the statement.
const FORMAT: u64 = 1;

/// What every signature over a login begins with.
const LABEL: &[u8] = b"strongroom format 1 2026-11-27 server login signature";

/// BLAKE3 context that names a statement by its bytes, which are public.
const ID_CONTEXT: &str = "strongroom format 1 2026-11-27 server login id";

/// A statement: this principal logs in there, now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement<'a> {
    /// The server, as the one who logs in reached it.                                            [11.11.3]
    pub server: &'a str,
    /// The account there.
    pub account: &'a str,
    /// What the vault is called there.
    pub name: &'a str,
    /// The vault.
    pub vault: VaultId,
    /// Who logs in.
    pub principal: PrincipalId,
    /// The random bytes of the challenge.
    pub nonce: [u8; 32],
    /// When it was issued, by the clock of the server, in seconds since 1970.
    pub issued_s: u64,
    /// How many seconds it is valid.
    pub valid_s: u64,
}

impl Statement<'_> {
    /// What is signed.
    #[must_use]
    pub fn signed_bytes(&self) -> Vec<u8> {
        let id = blake3::derive_key(ID_CONTEXT, &self.encode());
        [LABEL, &id].concat() // (2)
    }

    /// Whether `signature` over this statement is by the holder of that public key. Who calls compares it with `principal`.
    #[must_use]
    pub fn is_signed_by(
        &self,
        public_key: &[u8; 32],
        signature: &[u8; 64],
        verify: Verify<'_>,
    ) -> bool {
        verify_strict(verify, public_key, &self.signed_bytes(), signature)
    }

    fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.array(9).unsigned(FORMAT);
        for text in [self.server, self.account, self.name] {
            encoder.bytes(text.as_bytes());
        }
        for bytes in [&self.vault.0, &self.principal.0, &self.nonce] {
            encoder.bytes(bytes);
        }
        encoder.unsigned(self.issued_s).unsigned(self.valid_s);
        encoder.finish() // (1)
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer as _, SigningKey};
    use strongroom_format::RecordId;

    use super::*;
    use crate::signature::{by_dalek, signed_record};

    fn statement() -> Statement<'static> {
        Statement {
            server: "server.example",
            account: "anna",
            name: "photos",
            vault: VaultId([1; 32]),
            principal: PrincipalId([2; 32]),
            nonce: [3; 32],
            issued_s: 4,
            valid_s: 5,
        }
    }

    /// Goal: a signature for one login is valid for no other. Method: each field is changed alone, and text moves between two of them.
    #[test]
    fn every_field_of_a_statement_is_signed() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let public = key.verifying_key().to_bytes();
        let signature = key.sign(&statement().signed_bytes()).to_bytes();
        let is_valid = |one: &Statement<'_>| one.is_signed_by(&public, &signature, &by_dalek);
        assert!(is_valid(&statement()));
        let changed = [
            Statement {
                server: "server.exampl",
                ..statement()
            },
            Statement {
                account: "anni",
                ..statement()
            },
            Statement {
                name: "photo",
                ..statement()
            },
            Statement {
                account: "annap",
                name: "hotos",
                ..statement()
            },
            Statement {
                vault: VaultId([9; 32]),
                ..statement()
            },
            Statement {
                principal: PrincipalId([9; 32]),
                ..statement()
            },
            Statement {
                nonce: [9; 32],
                ..statement()
            },
            Statement {
                issued_s: 9,
                ..statement()
            },
            Statement {
                valid_s: 9,
                ..statement()
            },
        ];
        for one in &changed {
            assert!(!is_valid(one), "{one:?}");
        }
    }

    #[test]
    fn a_signature_over_a_record_is_none_over_a_login_and_the_other_way_round() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let public = key.verifying_key().to_bytes();
        let id = blake3::derive_key(ID_CONTEXT, &statement().encode());
        let record = signed_record(RecordId(id));
        let over_record = key.sign(&record).to_bytes();
        assert!(!statement().is_signed_by(&public, &over_record, &by_dalek));
        let over_login = key.sign(&statement().signed_bytes()).to_bytes();
        assert!(!verify_strict(&by_dalek, &public, &record, &over_login));
    }

    /// The bytes of the specification, written out.
    #[test]
    fn a_statement_has_the_bytes_of_the_specification() {
        let mut bytes = vec![0x89, 1, 0x4e];
        bytes.extend(b"server.example");
        bytes.extend([0x44]);
        bytes.extend(b"anna");
        bytes.extend([0x46]);
        bytes.extend(b"photos");
        for fill in [1, 2, 3] {
            bytes.extend([0x58, 32]);
            bytes.extend([fill; 32]);
        }
        bytes.extend([4, 5]);
        assert_eq!(statement().encode(), bytes);
    }
}

//! Turns a 32-byte seed into a principal (a device or a slot), which can receive keys and sign.
//!
//! Takes   random bytes, or the seed from a slot or a replica file
//! Gives   public keys, signatures over membership records, and opened grants (grant.rs)
//! Never   shows the seed or a secret key, or decides what a principal may sign (the crate `membership` does)
//! Spec    spec/1-keys.md, section 1.3
//!
//! Invariants
//!  (1) Each use of the seed has its own purpose in the key table.                [1.3.1]
//!  (2) A signature covers a label and a record's id, so it is valid for nothing else.  [1.4.6]

use crate::keys::{Purpose, derive};
use crate::locked::Locked;
use crate::providers::registry::ed25519;
use crate::providers::{Ed25519, Work};
use crate::random::{Random, RandomError};
use hpke::kem::XWing;
use hpke::{Deserializable as _, Kem as _, Serializable as _};
use strongroom_format::limits::KEM_PUBLIC_BYTES;
use strongroom_format::publication::PublicationId;
use strongroom_format::{PrincipalId, PublicKeys, RecordId};
use strongroom_membership::login::Statement;
use strongroom_membership::signed_record;
use zeroize::Zeroizing;

/// Bytes of a principal's seed.
pub(crate) const SEED_BYTES: usize = 32;
/// What every signature over a publication begins with.
const PUBLICATION_LABEL: &[u8] = b"strongroom format 1 2026-11-23 publication signature";

/// What every signature over a revision begins with.
const REVISION_LABEL: &[u8] = b"strongroom format 1 2026-11-22 revision signature";

/// A device or a key slot, with its secrets.
#[derive(Clone)]
pub(crate) struct Principal {
    seed: Locked<SEED_BYTES>,
    keys: PublicKeys,
    id: PrincipalId,
}

impl std::fmt::Debug for Principal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Principal({})",
            strongroom_format::hex::encode(&self.id.0)
        )
    }
}

impl Principal {
    /// A new principal that nobody knows yet.
    pub(crate) fn random(random: &dyn Random) -> Result<Self, RandomError> {
        Locked::filled(|seed| random.fill(seed)).map(Self::from_seed)
    }

    /// The principal that `seed` makes, always the same.
    pub(crate) fn from_seed(seed: Locked<SEED_BYTES>) -> Self {
        let mut kem_public = Box::new([0; KEM_PUBLIC_BYTES]);
        XWing::sk_to_pk(&kem_of(&seed)).write_exact(kem_public.as_mut_slice());
        let keys = PublicKeys {
            signing: ed25519(Work::Sign).public_key(&signing_of(&seed)),
            kem: kem_public,
        };
        let id = keys.id();
        Self { seed, keys, id }
    }

    /// The hash of the public keys.
    pub(crate) const fn id(&self) -> PrincipalId {
        self.id
    }

    /// The public keys.
    pub(crate) const fn keys(&self) -> &PublicKeys {
        &self.keys
    }

    /// The seed, to be wrapped in a slot or a replica.
    pub(crate) fn seed(&self) -> &[u8; SEED_BYTES] {
        self.seed.bytes()
    }

    /// The secret half for grants.
    pub(crate) fn kem(&self) -> <XWing as hpke::Kem>::PrivateKey {
        kem_of(&self.seed)
    }

    /// This principal's signature over the record of that id.
    pub(crate) fn sign(&self, record: RecordId) -> [u8; 64] {
        ed25519(Work::Sign).sign(&signing_of(&self.seed), &signed_record(record))
    }
}

/// The secret half for signatures. Derived each time: it lies nowhere between two of them.
fn signing_of(seed: &Locked<SEED_BYTES>) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(derive(Purpose::PrincipalSigning, seed.bytes()))
}

/// The secret half for grants, derived each time.
fn kem_of(seed: &Locked<SEED_BYTES>) -> <XWing as hpke::Kem>::PrivateKey {
    let key = Zeroizing::new(derive(Purpose::PrincipalKem, seed.bytes()));
    <XWing as hpke::Kem>::PrivateKey::from_bytes(key.as_slice())
        .expect("(kem) holds: an X-Wing decapsulation key is any 32 bytes")
}

impl Principal {
    /// This principal's signature over the publication of that id.
    pub(crate) fn sign_publication(&self, publication: PublicationId) -> [u8; 64] {
        let signed = [PUBLICATION_LABEL, &publication.0].concat();
        ed25519(Work::Sign).sign(&signing_of(&self.seed), &signed)
    }

    /// This principal's signature over a login at a server, which says that it is by this one.
    pub(crate) fn sign_login(&self, statement: &Statement<'_>) -> [u8; 64] {
        let signed = statement.signed_bytes();
        ed25519(Work::Sign).sign(&signing_of(&self.seed), &signed)
    }

    /// This principal's signature over the revision of that id.
    pub(crate) fn sign_revision(&self, revision: &[u8; 32]) -> [u8; 64] {
        let signed = [REVISION_LABEL, revision].concat();
        ed25519(Work::Sign).sign(&signing_of(&self.seed), &signed)
    }
}

/// Whether `signature` over the publication of that id is by the holder of `keys`; as strict as `verify`.
pub(crate) fn verify_publication(
    keys: &PublicKeys,
    publication: PublicationId,
    signature: &[u8; 64],
) -> bool {
    let signed = [PUBLICATION_LABEL, &publication.0].concat();
    verify_strict(ed25519(Work::Verify), &keys.signing, &signed, signature)
}

/// Whether `signature` over the revision of that id is by the holder of `keys`; as strict as `verify`.
pub(crate) fn verify_revision(
    keys: &PublicKeys,
    revision: &[u8; 32],
    signature: &[u8; 64],
) -> bool {
    let signed = [REVISION_LABEL, revision].concat();
    verify_strict(ed25519(Work::Verify), &keys.signing, &signed, signature)
}

/// What the chosen provider says of a signature, which need not be strict.
pub(crate) fn by_provider(public_key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    ed25519(Work::Verify).verify(public_key, message, signature)
}

/// Verifies with `ed25519`, and refuses what libraries differ in.                                     [1.4.6]
fn verify_strict(
    ed25519: &dyn Ed25519,
    public_key: &[u8; 32],
    message: &[u8],
    signature: &[u8; 64],
) -> bool {
    let verify = |key: &[u8; 32], message: &[u8], signature: &[u8; 64]| {
        ed25519.verify(key, message, signature)
    };
    strongroom_membership::verify_strict(&verify, public_key, message, signature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::{Algorithm, Implementation, State, providers_of};
    use crate::random::SystemRandom;
    use strongroom_format::hex;

    /// Whether `signature` over the record is by the holder of `keys`.
    fn verify(keys: &PublicKeys, record: RecordId, signature: &[u8; 64]) -> bool {
        let signed = signed_record(record);
        verify_strict(ed25519(Work::Verify), &keys.signing, &signed, signature)
    }

    #[test]
    fn a_seed_makes_the_same_principal_again() {
        let first = Principal::random(&SystemRandom).unwrap();
        let again = Principal::from_seed(Locked::copy_of(first.seed()));
        assert_eq!(first.keys(), again.keys());
        assert_eq!(first.id(), again.id());
    }

    #[test]
    fn a_signature_counts_for_one_record_and_one_principal() {
        let (one, other) = (
            Principal::random(&SystemRandom).unwrap(),
            Principal::random(&SystemRandom).unwrap(),
        );
        let signature = one.sign(RecordId([1; 32]));
        assert!(verify(one.keys(), RecordId([1; 32]), &signature));
        assert!(!verify(one.keys(), RecordId([2; 32]), &signature));
        assert!(!verify(other.keys(), RecordId([1; 32]), &signature));
        for place in 0..64 {
            let mut signature = signature;
            signature[place] ^= 1;
            assert!(
                !verify(one.keys(), RecordId([1; 32]), &signature),
                "{place}"
            );
        }
    }

    #[test]
    fn a_key_of_small_order_signs_nothing() {
        let mut keys = Principal::random(&SystemRandom).unwrap().keys().clone();
        keys.signing = [0; 32];
        keys.signing[0] = 1; // the neutral element: with it, R = identity and S = 0 verify any message when not strict
        let mut signature = [0; 64];
        signature[0] = 1;
        assert!(!verify(&keys, RecordId([1; 32]), &signature));
    }

    #[test]
    fn debug_shows_public_values_only() {
        let principal = Principal::from_seed(Locked::copy_of(&[0xab; SEED_BYTES]));
        assert_eq!(
            format!("{principal:?}"),
            format!("Principal({})", hex::encode(&principal.id().0))
        );
    }

    /// Goal: every provider of signatures agrees with the world's collection of traps, and with the others. Method: every
    /// Wycheproof case; strict verification may only be stricter where the collection itself says that implementations
    /// differ.
    #[test]
    fn wycheproof_ed25519_agrees_with_every_provider() {
        use wycheproof::eddsa::{TestName, TestSet};
        let set = TestSet::load(TestName::Ed25519).unwrap();
        for (provider, ed25519) in every_ed25519() {
            let mut cases = 0;
            for group in &set.test_groups {
                let key: [u8; 32] = group.key.pk.as_slice().try_into().unwrap();
                for test in &group.tests {
                    cases += 1;
                    let valid = <[u8; 64]>::try_from(test.sig.as_slice())
                        .is_ok_and(|signature| verify_strict(ed25519, &key, &test.msg, &signature));
                    let expected = test.result == wycheproof::TestResult::Valid;
                    assert_eq!(valid, expected, "{provider}, case {}", test.tc_id);
                }
            }
            assert!(cases > 100, "{cases}");
        }
    }

    #[test]
    fn every_provider_signs_alike_and_verifies_what_the_others_signed() {
        let all = every_ed25519();
        let seed = [0x5e; 32];
        let (_, first) = all[0];
        let (key, signature) = (first.public_key(&seed), first.sign(&seed, b"message"));
        for (provider, ed25519) in all {
            assert_eq!(ed25519.public_key(&seed), key, "{provider}");
            assert_eq!(ed25519.sign(&seed, b"message"), signature, "{provider}");
            assert!(
                verify_strict(ed25519, &key, b"message", &signature),
                "{provider}"
            );
            for bit in 0..512 {
                let mut altered = signature;
                altered[bit / 8] ^= 1 << (bit % 8);
                assert!(
                    !verify_strict(ed25519, &key, b"message", &altered),
                    "{provider}, bit {bit}"
                );
            }
        }
    }

    fn every_ed25519() -> Vec<(&'static str, &'static dyn Ed25519)> {
        let offers = providers_of(Algorithm::Ed25519);
        let ready = offers.iter().filter(|offer| offer.state == State::Ready);
        ready
            .map(
                |offer| match offer.provider.implementation(Algorithm::Ed25519) {
                    Some(Implementation::Ed25519(ed25519)) => (offer.provider.name(), ed25519),
                    _ => panic!("{} has Ed25519", offer.provider.name()),
                },
            )
            .collect()
    }
}

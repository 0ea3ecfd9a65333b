//! Seals an epoch's keys as grants, one for each member, and opens a grant.
//!
//! Takes   the keys of an epoch and a member's public keys, or a grant and a member's secrets
//! Gives   a grant for keys, keys for a grant
//! Never   trusts a grant, which anyone can make: its keys must match the epoch's commitment in a membership record
//! Spec    spec/1-keys.md, section 1.5
//!
//! Invariants
//!  (1) An opened grant is returned only if its keys match the commitment given.       [1.5.4]
//!  (2) The `info` of HPKE binds a grant to vault, epoch and principal: it opens nowhere else.          [1.5.2]

use crate::keys::{EpochKey, IdKey, KEY_BYTES, Purpose};
use crate::membership::principal::Principal;
use crate::providers::registry::blake3;
use crate::random::{Random, RandomError};
use hpke::aead::AesGcm256;
use hpke::inout::InOutBuf;
use hpke::kdf::HkdfSha256;
use hpke::kem::XWing;
use hpke::{Deserializable as _, Kem as KemTrait, OpModeR, OpModeS, Serializable as _};
use std::convert::Infallible;
use strongroom_format::limits::{
    GRANT_BYTES, GRANT_ENCAPSULATED_BYTES, KEM_PUBLIC_BYTES, TAG_BYTES,
};
use strongroom_format::{Commitment, Epoch, Grant, PrincipalId, PublicKeys, VaultId};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// What the HPKE info of every grant begins with.
const GRANT_LABEL: &[u8] = b"strongroom format 1 2026-11-21 grant";
/// Bytes of random that one X-Wing encapsulation draws.
const ENCAPSULATION_RANDOM_BYTES: usize = 64;

/// What one grant carries.
#[derive(Clone, Debug)]
pub(crate) struct EpochKeys {
    /// Seals what is written in this epoch.
    pub(crate) epoch_key: EpochKey,
    /// Names blocks; the same in every epoch of a vault.
    pub(crate) id_key: IdKey,
}

/// What a public key was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantError {
    /// The public key is none.
    PublicKey,
    /// The system gave no randomness.
    Random,
}

impl EpochKeys {
    /// The public value that fixes these keys for `epoch` of the vault whose genesis holds `nonce`.
    pub(crate) fn commitment(&self, nonce: &[u8; 32], epoch: Epoch) -> Commitment {
        let epoch = epoch.0.to_le_bytes();
        let keys = [self.epoch_key.bytes(), self.id_key.bytes()];
        let parts: [&[u8]; 4] = [nonce, &epoch, keys[0], keys[1]];
        Commitment(blake3().derive_key(Purpose::EpochCommitment.context(), &parts))
    }

    /// The grant of these keys to the holder of `keys`.
    pub(crate) fn grant(
        &self,
        vault: VaultId,
        epoch: Epoch,
        keys: &PublicKeys,
        random: &dyn Random,
    ) -> Result<Grant, GrantError> {
        let clear = [*self.epoch_key.bytes(), *self.id_key.bytes()];
        let clear = Zeroizing::new(clear);
        let info = info(vault, epoch, keys.id());
        let sealed = seal_to(&keys.kem, &info, clear.as_flattened(), random)?;
        let bytes = <Box<[u8; GRANT_BYTES]>>::try_from(sealed.into_boxed_slice())
            .expect("(length) holds: two keys seal to the length of a grant");
        Ok(Grant {
            epoch,
            principal: keys.id(),
            bytes,
        })
    }

    /// The keys in `grant`, if it is for `principal` and they match `commitment`.
    pub(crate) fn open(
        grant: &Grant,
        principal: &Principal,
        vault: VaultId,
        nonce: &[u8; 32],
        commitment: Commitment,
    ) -> Option<Self> {
        let info = info(vault, grant.epoch, principal.id());
        let clear = open_with(&principal.kem(), &info, grant.bytes.as_slice())?;
        if clear.len() != 2 * KEY_BYTES {
            return None;
        }
        let (epoch_key, id_key) = clear.split_at(KEY_BYTES);
        let keys = Self {
            epoch_key: EpochKey::from_bytes(epoch_key.try_into().ok()?),
            id_key: IdKey::from_bytes(id_key.try_into().ok()?),
        };
        let matches = keys.commitment(nonce, grant.epoch).0.ct_eq(&commitment.0);
        bool::from(matches).then_some(keys)
    }
}

/// Whether something can be granted to the holder of `keys`: the record that adds a member does not say so.          [1.5.7]
pub(crate) fn can_be_granted(keys: &PublicKeys) -> bool {
    public_key(&keys.kem).is_ok()
}

/// A grant that nobody opens, for a member to whom nothing can be granted.                                     [1.5.7]
pub(crate) fn grant_to_nobody(
    epoch: Epoch,
    principal: PrincipalId,
    random: &dyn Random,
) -> Result<Grant, RandomError> {
    let mut bytes = Box::new([0; GRANT_BYTES]);
    random.fill(bytes.as_mut_slice())?;
    Ok(Grant {
        epoch,
        principal,
        bytes,
    })
}

fn public_key(kem: &[u8; KEM_PUBLIC_BYTES]) -> Result<<XWing as KemTrait>::PublicKey, GrantError> {
    let public = <XWing as KemTrait>::PublicKey::from_bytes(kem.as_slice());
    public.map_err(|_| GrantError::PublicKey)
}

/// `clear` sealed to the holder of the secret half of `kem`: HPKE as a grant has it, under `info`.
pub(crate) fn seal_to(
    kem: &[u8; KEM_PUBLIC_BYTES],
    info: &[u8],
    clear: &[u8],
    random: &dyn Random,
) -> Result<Vec<u8>, GrantError> {
    let public = public_key(kem)?;
    let mut drawn = Zeroizing::new([0; ENCAPSULATION_RANDOM_BYTES]);
    random
        .fill(drawn.as_mut_slice())
        .map_err(|RandomError| GrantError::Random)?;
    let mut bytes = vec![0; GRANT_ENCAPSULATED_BYTES + clear.len() + TAG_BYTES];
    let (encapsulated, sealed) = bytes.split_at_mut(GRANT_ENCAPSULATED_BYTES);
    let (text, tag) = sealed.split_at_mut(clear.len());
    text.copy_from_slice(clear);
    let (encapsulation, made) = hpke::single_shot_seal_inout_detached_with_rng::<
        AesGcm256,
        HkdfSha256,
        XWing,
    >(
        &OpModeS::Base,
        &public,
        info,
        InOutBuf::from(text),
        b"",
        &mut Drawn {
            bytes: drawn.as_slice(),
        },
    )
    .expect(
        "(hpke) holds: base mode with a valid public key and a short message has no way to fail",
    );
    encapsulation.write_exact(encapsulated);
    made.write_exact(tag);
    Ok(bytes)
}

/// What `seal_to` sealed to the public half of `kem` under `info`.
pub(crate) fn open_with(
    kem: &<XWing as KemTrait>::PrivateKey,
    info: &[u8],
    bytes: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let (encapsulated, sealed) = bytes.split_at_checked(GRANT_ENCAPSULATED_BYTES)?;
    let (clear, tag) = sealed.split_at_checked(sealed.len().checked_sub(TAG_BYTES)?)?;
    let encapsulation = <XWing as KemTrait>::EncappedKey::from_bytes(encapsulated).ok()?;
    let tag = hpke::aead::AeadTag::<AesGcm256>::from_bytes(tag).ok()?;
    let mut clear = Zeroizing::new(clear.to_vec());
    hpke::single_shot_open_inout_detached::<AesGcm256, HkdfSha256, XWing>(
        &OpModeR::Base,
        kem,
        &encapsulation,
        info,
        InOutBuf::from(clear.as_mut_slice()),
        b"",
        &tag,
    )
    .ok()?;
    Some(clear)
}

fn info(vault: VaultId, epoch: Epoch, principal: PrincipalId) -> Vec<u8> {
    [GRANT_LABEL, &vault.0, &epoch.0.to_le_bytes(), &principal.0].concat()
}

/// Hands bytes drawn beforehand to HPKE, so that a failing generator is an error of ours and no panic of its.
struct Drawn<'a> {
    bytes: &'a [u8],
}

impl hpke::rand_core::TryRng for Drawn<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut word = [0; 4];
        self.try_fill_bytes(&mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut word = [0; 8];
        self.try_fill_bytes(&mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    fn try_fill_bytes(&mut self, filled: &mut [u8]) -> Result<(), Infallible> {
        // Repeating bytes would make two keys equal; a library that suddenly draws more must fail loudly.
        let (drawn, rest) = self
            .bytes
            .split_at_checked(filled.len())
            .expect("(hpke) holds: one X-Wing encapsulation draws 64 bytes");
        filled.copy_from_slice(drawn);
        self.bytes = rest;
        Ok(())
    }
}

impl hpke::rand_core::TryCryptoRng for Drawn<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    const NONCE: [u8; 32] = [7; 32];

    fn keys() -> EpochKeys {
        EpochKeys {
            epoch_key: EpochKey::from_bytes([1; 32]),
            id_key: IdKey::from_bytes([2; 32]),
        }
    }

    fn opens(
        grant: &Grant,
        principal: &Principal,
        vault: u8,
        nonce: [u8; 32],
        commitment: Commitment,
    ) -> bool {
        EpochKeys::open(grant, principal, VaultId([vault; 32]), &nonce, commitment).is_some()
    }

    #[test]
    fn a_grant_gives_its_principal_both_keys() {
        let member = Principal::random(&SystemRandom).unwrap();
        let grant = keys()
            .grant(VaultId([3; 32]), Epoch(4), member.keys(), &SystemRandom)
            .unwrap();
        let commitment = keys().commitment(&NONCE, Epoch(4));
        let opened =
            EpochKeys::open(&grant, &member, VaultId([3; 32]), &NONCE, commitment).unwrap();
        assert_eq!(opened.epoch_key.bytes(), &[1; 32]);
        assert_eq!(opened.id_key.bytes(), &[2; 32]);
    }

    #[test]
    fn a_grant_opens_for_nobody_else_and_nowhere_else() {
        let (member, other) = (
            Principal::random(&SystemRandom).unwrap(),
            Principal::random(&SystemRandom).unwrap(),
        );
        let grant = keys()
            .grant(VaultId([3; 32]), Epoch(4), member.keys(), &SystemRandom)
            .unwrap();
        let commitment = keys().commitment(&NONCE, Epoch(4));
        assert!(opens(&grant, &member, 3, NONCE, commitment));
        assert!(!opens(&grant, &other, 3, NONCE, commitment));
        assert!(!opens(&grant, &member, 9, NONCE, commitment));
        let moved = Grant {
            epoch: Epoch(5),
            ..grant.clone()
        };
        assert!(!opens(
            &moved,
            &member,
            3,
            NONCE,
            keys().commitment(&NONCE, Epoch(5))
        ));
        assert!(!opens(
            &grant,
            &member,
            3,
            NONCE,
            keys().commitment(&NONCE, Epoch(5))
        ));
        assert!(!opens(&grant, &member, 3, [8; 32], commitment));
    }

    /// Whoever knows the public keys can seal a key of their own; it must not be taken for the vault's.
    #[test]
    fn a_grant_of_a_foreign_key_does_not_count() {
        let member = Principal::random(&SystemRandom).unwrap();
        let commitment = keys().commitment(&NONCE, Epoch(4));
        for (epoch, id) in [(9, 2), (1, 9)] {
            let foreign = EpochKeys {
                epoch_key: EpochKey::from_bytes([epoch; 32]),
                id_key: IdKey::from_bytes([id; 32]),
            };
            let grant = foreign
                .grant(VaultId([3; 32]), Epoch(4), member.keys(), &SystemRandom)
                .unwrap();
            assert!(!opens(&grant, &member, 3, NONCE, commitment));
        }
    }

    #[test]
    fn a_grant_with_any_byte_changed_does_not_open() {
        let member = Principal::random(&SystemRandom).unwrap();
        let grant = keys()
            .grant(VaultId([3; 32]), Epoch(4), member.keys(), &SystemRandom)
            .unwrap();
        let commitment = keys().commitment(&NONCE, Epoch(4));
        for place in (0..GRANT_BYTES)
            .step_by(31)
            .chain(GRANT_BYTES - 80..GRANT_BYTES)
        {
            let mut grant = grant.clone();
            grant.bytes[place] ^= 0x40;
            assert!(!opens(&grant, &member, 3, NONCE, commitment), "{place}");
        }
    }

    #[test]
    fn a_public_key_that_is_none_and_a_dead_generator_are_errors() {
        struct Dead;
        impl Random for Dead {
            fn fill(&self, _: &mut [u8]) -> Result<(), RandomError> {
                Err(RandomError)
            }
        }
        let mut public = Principal::random(&SystemRandom).unwrap().keys().clone();
        let dead = keys().grant(VaultId([3; 32]), Epoch(4), &public, &Dead);
        assert_eq!(dead.err(), Some(GrantError::Random));
        public.kem.fill(0xff); // coefficients beyond the modulus
        let none = keys().grant(VaultId([3; 32]), Epoch(4), &public, &SystemRandom);
        assert_eq!(none.err(), Some(GrantError::PublicKey));
    }
}

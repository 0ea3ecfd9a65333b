//! Hands the secrets of a new device only to the process of the device that the new one replaces.
//!
//! Takes   the old device and the new one
//! Gives   bytes for a message between two processes, and the new device from these bytes
//! Never   stores these bytes: anyone who ever had the secrets of the old device could open them
//! Spec    spec/1-keys.md, [1.4.11]

use crate::locked::Locked;
use crate::membership::grant::{GrantError, open_with, seal_to};
use crate::membership::principal::{Principal, SEED_BYTES};
use crate::random::Random;
use strongroom_format::{PrincipalId, VaultId};

/// What the HPKE info of every handover begins with.
const LABEL: &[u8] = b"strongroom 2026-11-23 device handover";

/// The seed of `next`, sealed to the device `acting`.
pub(crate) fn hand_over(
    vault: VaultId,
    acting: &Principal,
    next: &Principal,
    random: &dyn Random,
) -> Result<Vec<u8>, GrantError> {
    let info = info(vault, acting.id());
    seal_to(&acting.keys().kem, &info, next.seed().as_slice(), random)
}

/// The device in `bytes`, which were sealed to `acting`.
pub(crate) fn take_over(vault: VaultId, acting: &Principal, bytes: &[u8]) -> Option<Principal> {
    let clear = open_with(&acting.kem(), &info(vault, acting.id()), bytes)?;
    let seed: &[u8; SEED_BYTES] = clear.as_slice().try_into().ok()?;
    Some(Principal::from_seed(Locked::copy_of(seed)))
}

fn info(vault: VaultId, acting: PrincipalId) -> Vec<u8> {
    [LABEL, &vault.0, &acting.0].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn a_handover_opens_for_the_device_that_goes_in_its_vault_only() {
        let [acting, next, other] = [0; 3].map(|_| Principal::random(&SystemRandom).unwrap());
        let vault = VaultId([1; 32]);
        let bytes = hand_over(vault, &acting, &next, &SystemRandom).unwrap();
        assert_eq!(take_over(vault, &acting, &bytes).unwrap().id(), next.id());
        assert!(take_over(vault, &other, &bytes).is_none());
        assert!(take_over(VaultId([2; 32]), &acting, &bytes).is_none());
        for len in [0, 1119, 1120, bytes.len() - 1] {
            assert!(take_over(vault, &acting, &bytes[..len]).is_none(), "{len}");
        }
        let mut edited = bytes;
        edited[1125] ^= 1;
        assert!(take_over(vault, &acting, &edited).is_none());
    }
}

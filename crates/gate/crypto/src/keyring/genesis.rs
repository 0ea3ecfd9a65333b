//! Makes a new vault's keys: its first device, its key slots, epoch 0, and the record whose hash is the vault id.
//!
//! Takes   at least one key slot to make, a suite, randomness and the time
//! Gives   the bytes of the first header, and the keyring of the first device
//! Never   writes anything
//! Spec    spec/1-keys.md, section 1.4

use crate::keyring::error::KeyError;
use crate::keyring::slot::NewSlot;
use crate::keyring::{Changed, Keyring};
use crate::keys::{EpochKey, IdKey};
use crate::membership::Membership;
use crate::membership::grant::EpochKeys;
use crate::membership::principal::Principal;
use crate::providers::ready;
use crate::random::Random;
use std::collections::BTreeMap;
use strongroom_format::limits::SLOTS_MAX;
use strongroom_format::{Change, Epoch, Header, RecordBody, Role, SuiteId};

/// Makes the keys of a new vault that each of `slots` opens. Takes as long as their Argon2id.
///
/// `now_s`: seconds since 1970, noted in the slots. The keyring acts as the vault's first device; its seed is kept
/// by `Keyring::new_replica` and `Keyring::seal_replica`.
///
/// # Errors
/// `KeyError::LastSlot` without a slot, `KeyError::TooMany` beyond the limit, or what making a slot can give.
pub fn create(
    slots: &[NewSlot],
    suite: SuiteId,
    random: &dyn Random,
    now_s: u64,
) -> Result<Changed, KeyError> {
    if slots.is_empty() {
        return Err(KeyError::LastSlot);
    }
    if slots.len() > SLOTS_MAX {
        return Err(KeyError::TooMany);
    }
    ready(suite)?;
    let device = Principal::random(random)?;
    let principals = slots
        .iter()
        .map(|_| Principal::random(random))
        .collect::<Result<Vec<_>, _>>()?;
    let keys = EpochKeys {
        epoch_key: EpochKey::random(random)?,
        id_key: IdKey::random(random)?,
    };
    let mut nonce = [0; 32];
    random.fill(&mut nonce)?;

    let add = |role, principal: &Principal| Change::Add {
        role,
        keys: principal.keys().clone(),
    };
    let mut changes = vec![add(Role::Device, &device)];
    changes.extend(
        principals
            .iter()
            .map(|principal| add(Role::Slot, principal)),
    );
    changes.push(Change::Begin {
        epoch: Epoch(0),
        commitment: keys.commitment(&nonce, Epoch(0)),
    });
    let body = RecordBody {
        sequence: 0,
        link: nonce,
        author: device.id(),
        changes,
    };
    let signature = device.sign(body.id());
    let genesis = body.signed(signature);
    let membership =
        Membership::begin(&genesis).expect("(genesis) holds: what is made here follows the rules");

    let vault = membership.vault();
    let made = slots
        .iter()
        .zip(&principals)
        .map(|(slot, principal)| slot.make(principal, vault, random, now_s));
    let header = Header {
        vault,
        generation: 1,
        suite,
        records: vec![genesis],
        slots: made.collect::<Result<_, _>>()?,
        grants: Vec::new(),
        guessable_changes: 0,
        withheld: None,
    };
    let epochs = BTreeMap::from([(Epoch(0), keys.epoch_key)]);
    let mut keyring = Keyring {
        header,
        membership,
        epochs,
        id_key: keys.id_key,
        signer: device,
        unlocked_by: None,
    };
    keyring.grant_what_is_missing(random)?;
    keyring.into_changed()
}

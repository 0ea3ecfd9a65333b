//! Turns a chain of signed records into the current members and epochs, or names the record that is forged.
//!
//! Takes   the records of a header, oldest first, and a function that verifies signatures
//! Gives   a `Chain`
//! Never   needs a secret: a device, a server and a stranger get the same result
//! Spec    spec/1-keys.md, section 1.4
//!
//! Invariants
//!  (1) Each record after the first holds the id of the one before, so none can be left out or moved.    [1.4.4]
//!  (2) A slot signs only records that add devices.                                                      [1.4.7]
//!  (3) A removed member never returns, and the record that removes it begins an epoch.                  [1.4.8]
//!  (4) Epochs count up by one.                                                                          [1.4.9]

use std::collections::{BTreeMap, BTreeSet};

use strongroom_format::limits::{DEVICES_MAX, RECORDS_MAX, SLOTS_MAX};
use strongroom_format::{
    Change, Commitment, Epoch, PrincipalId, PublicKeys, Record, RecordId, Role, VaultId,
};

use crate::signature::{Verify, signed_record, verify_strict};

/// Tampering: a record does not follow from those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("membership record {record} is forged: it {why}")]
pub struct Forged {
    /// Its place in the chain, from 0.
    pub record: usize,
    /// What is wrong with it.
    pub why: &'static str,
}

/// A member: what it may sign, and its public keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it is.
    pub role: Role,
    /// Its public keys.
    pub keys: PublicKeys,
}

/// What a verified chain says.
#[derive(Clone, Debug)]
pub struct Chain {
    vault: VaultId,
    nonce: [u8; 32],
    head: RecordId,
    count: usize,
    active: BTreeMap<PrincipalId, Member>,
    retired: BTreeSet<PrincipalId>,
    commitments: Vec<Commitment>,
    /// The epoch that the newest retiring record began.
    unknown_to_retired_from: Epoch,
}

impl Chain {
    /// Verifies `records` from the first to the last.
    ///
    /// # Errors
    /// `Forged`, with the first that does not follow.
    pub fn verify(records: &[Record], verify: Verify<'_>) -> Result<Self, Forged> {
        let (genesis, later) = records.split_first().ok_or(Forged {
            record: 0,
            why: "is missing",
        })?;
        let mut chain = Self::begin(genesis, verify)?;
        for record in later {
            chain.apply(record, verify)?;
        }
        Ok(chain)
    }

    /// Begins a chain with its genesis record, signed by the first device.
    ///
    /// # Errors
    /// `Forged` with record 0.
    pub fn begin(genesis: &Record, verify: Verify<'_>) -> Result<Self, Forged> {
        let mut chain = Self {
            vault: VaultId(genesis.id.0),
            nonce: genesis.body.link,
            head: genesis.id,
            count: 0,
            active: BTreeMap::new(),
            retired: BTreeSet::new(),
            commitments: Vec::new(),
            unknown_to_retired_from: Epoch(0),
        };
        let forged = |why| Err(Forged { record: 0, why });
        if genesis.body.sequence != 0 {
            return forged("is in the wrong place in the chain");
        }
        let [
            Change::Add {
                role: Role::Device,
                keys,
            },
            slots @ ..,
            Change::Begin {
                epoch: Epoch(0), ..
            },
        ] = genesis.body.changes.as_slice()
        else {
            return forged("must only add one device, then key slots, then begin epoch 0");
        };
        if !slots.iter().all(|change| {
            matches!(
                change,
                Change::Add {
                    role: Role::Slot,
                    ..
                }
            )
        }) {
            return forged("must only add one device, then key slots, then begin epoch 0");
        }
        if keys.id() != genesis.body.author || !is_signed(genesis, keys, verify) {
            return forged("is not signed by its device");
        }
        chain.change(&genesis.body.changes)?;
        chain.count = 1;
        Ok(chain)
    }

    /// Takes in the next record. On an error this value must not be used any more.
    ///
    /// # Errors
    /// `Forged`.
    pub fn apply(&mut self, record: &Record, verify: Verify<'_>) -> Result<(), Forged> {
        let Record { body, id, .. } = record;
        if body.sequence != self.count as u64 || body.link != self.head.0 {
            return Err(self.forged("does not follow the record before it"));
        }
        if self.count >= RECORDS_MAX {
            return Err(self.forged("is beyond the largest allowed number of records"));
        }
        let author = self
            .active
            .get(&body.author)
            .ok_or(self.forged("is signed by somebody who is not a member"))?;
        if !is_signed(record, &author.keys, verify) {
            return Err(self.forged("has a wrong signature"));
        }
        let adds_a_device = |change: &Change| {
            matches!(
                change,
                Change::Add {
                    role: Role::Device,
                    ..
                }
            )
        };
        if author.role == Role::Slot && !body.changes.iter().all(adds_a_device) {
            return Err(self.forged("is signed by a key slot, which may only add devices"));
        }
        let retires = body
            .changes
            .iter()
            .any(|change| matches!(change, Change::Retire { .. }));
        let begins = body
            .changes
            .iter()
            .filter(|change| matches!(change, Change::Begin { .. }))
            .count();
        if begins > 1 || (retires && begins == 0) {
            return Err(self.forged("removes a member and does not begin exactly one epoch"));
        }
        self.change(&body.changes)?;
        if retires {
            self.unknown_to_retired_from = self.epoch();
        }
        self.head = *id;
        self.count += 1;
        Ok(())
    }

    /// The hash of the genesis record.
    #[must_use]
    pub const fn vault(&self) -> VaultId {
        self.vault
    }

    /// The newest record.
    #[must_use]
    pub const fn head(&self) -> RecordId {
        self.head
    }

    /// The random bytes of the genesis record, which every commitment covers.
    #[must_use]
    pub const fn nonce(&self) -> &[u8; 32] {
        &self.nonce
    }

    /// The members of now.
    #[must_use]
    pub const fn active(&self) -> &BTreeMap<PrincipalId, Member> {
        &self.active
    }

    /// Whether `principal` is a member in `role` now.
    #[must_use]
    pub fn is(&self, principal: PrincipalId, role: Role) -> bool {
        self.active
            .get(&principal)
            .is_some_and(|member| member.role == role)
    }

    /// How many members have `role` now.
    #[must_use]
    pub fn count_of(&self, role: Role) -> usize {
        self.active
            .values()
            .filter(|member| member.role == role)
            .count()
    }

    /// The newest epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        let count =
            u32::try_from(self.commitments.len()).expect("(4) holds: at most one epoch a record");
        Epoch(
            count
                .checked_sub(1)
                .expect("(4) holds: genesis begins epoch 0"),
        )
    }

    /// The oldest epoch whose keys nobody was granted who is retired by now: whoever is retired knows those of before.
    #[must_use]
    pub const fn unknown_to_retired_from(&self) -> Epoch {
        self.unknown_to_retired_from
    }

    /// How many records it has.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Those who were members and are none any more.
    pub fn retired(&self) -> impl Iterator<Item = PrincipalId> {
        self.retired.iter().copied()
    }

    /// What the keys of `epoch` must match; `None` if the chain does not begin it.
    #[must_use]
    pub fn commitment(&self, epoch: Epoch) -> Option<Commitment> {
        self.commitments
            .get(usize::try_from(epoch.0).ok()?)
            .copied()
    }

    fn forged(&self, why: &'static str) -> Forged {
        Forged {
            record: self.count,
            why,
        }
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), Forged> {
        for change in changes {
            match change {
                Change::Add { role, keys } => self.add(*role, keys)?,
                Change::Retire { principal } => {
                    self.active
                        .remove(principal)
                        .ok_or(self.forged("removes somebody who is not a member"))?;
                    self.retired.insert(*principal);
                }
                Change::Begin { epoch, commitment } => {
                    if usize::try_from(epoch.0).ok() != Some(self.commitments.len()) {
                        return Err(self.forged("begins an epoch with the wrong number"));
                    }
                    self.commitments.push(*commitment);
                }
            }
        }
        if self.count_of(Role::Slot) == 0 {
            return Err(self.forged("leaves no key slot"));
        }
        if self.count_of(Role::Slot) > SLOTS_MAX || self.count_of(Role::Device) > DEVICES_MAX {
            return Err(self.forged("adds more members than are allowed"));
        }
        Ok(())
    }

    /// Whether `principal` is or was a member: then it cannot be added.                                    (3)
    #[must_use]
    pub fn has_known(&self, principal: PrincipalId) -> bool {
        self.retired.contains(&principal) || self.active.contains_key(&principal)
    }

    fn add(&mut self, role: Role, keys: &PublicKeys) -> Result<(), Forged> {
        let id = keys.id();
        if self.has_known(id) {
            return Err(self.forged("adds somebody who is or was a member"));
        }
        self.active.insert(
            id,
            Member {
                role,
                keys: keys.clone(),
            },
        );
        Ok(())
    }
}

/// Whether the holder of `keys` signed the record.
fn is_signed(record: &Record, keys: &PublicKeys, verify: Verify<'_>) -> bool {
    let signed = signed_record(record.id);
    verify_strict(verify, &keys.signing, &signed, &record.signature)
}

//! Lists the members of a vault, with the record that added each and its signer.
//!
//! Takes   a verified chain of membership records
//! Gives   its current members, and the changes that single records made
//! Never   needs a secret: the chain is public
//! Spec    spec/1-keys.md, section 1.4

use crate::keyring::error::UnlockError;
use crate::keyring::{Keyring, SlotInfo};
use crate::membership::Membership;
use std::collections::BTreeMap;
use strongroom_format::{Change, Epoch, Header, PrincipalId, RecordId, Role};

/// A member of a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Its name.
    pub id: PrincipalId,
    /// What it is.
    pub role: Role,
    /// The slot that it is, if the header has one of it.
    pub slot: Option<SlotInfo>,
    /// The place of the record that added it, from 0.
    pub added_in: u64,
    /// Who signed that record.
    pub added_by: PrincipalId,
}

/// What one membership record did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordInfo {
    /// Its place in the chain, from 0.
    pub sequence: u64,
    /// Its name.
    pub id: RecordId,
    /// Who signed it.
    pub author: PrincipalId,
    /// Who was added, and as what.
    pub added: Vec<(PrincipalId, Role)>,
    /// Who was retired, and from what.
    pub retired: Vec<(PrincipalId, Role)>,
    /// The epoch that it began.
    pub epoch: Option<Epoch>,
}

/// The members that `header`, the content of a `vault.json`, names: its chain is verified, but nothing proves that it is the
/// newest one, nor the slots' labels.
///
/// # Errors
/// As `unlock` before a secret is tried.
pub fn list_members(header: &[u8]) -> Result<Vec<MemberInfo>, UnlockError> {
    let header = Header::decode(header)?.header;
    if Membership::verify(&header.records)?.vault() != header.vault {
        return Err(UnlockError::ForeignMembership);
    }
    Ok(members(&header))
}

impl Keyring {
    /// The members of now, devices first, in the order in which they were added.
    #[must_use]
    pub fn members(&self) -> Vec<MemberInfo> {
        members(&self.header)
    }

    /// What each record from place `first` on did.
    #[must_use]
    pub fn records_from(&self, first: u64) -> Vec<RecordInfo> {
        let mut all = records(&self.header);
        all.retain(|record| record.sequence >= first);
        all
    }

    /// Whether a key slot was removed while the device that this keyring acts as stayed: another device did so, or a version of the program
    /// before [1.4.10]. Whoever had that slot, and could read the replica file of this copy, had the secrets of this device.
    #[must_use]
    pub fn device_outlived_a_slot(&self) -> bool {
        self.slots_removed_beside_the_device(|_| true)
    }

    /// The same if this device removed the slot itself, as versions before [1.4.10] did.
    #[must_use]
    pub fn device_outlived_its_own_removal_of_a_slot(&self) -> bool {
        let device = self.signer.id();
        self.slots_removed_beside_the_device(|record| record.author == device)
    }

    fn slots_removed_beside_the_device(&self, counts: impl Fn(&RecordInfo) -> bool) -> bool {
        let records = records(&self.header);
        let device = self.signer.id();
        let added = records
            .iter()
            .position(|record| record.added.contains(&(device, Role::Device)));
        added.is_some_and(|added| {
            let mut later = records[added + 1..].iter().filter(|record| counts(record));
            later.any(RecordInfo::removes_a_slot)
        })
    }
}

impl RecordInfo {
    /// Whether it removed a key slot.
    #[must_use]
    pub fn removes_a_slot(&self) -> bool {
        self.retired.iter().any(|(_, role)| *role == Role::Slot)
    }
}

fn records(header: &Header) -> Vec<RecordInfo> {
    let mut roles = BTreeMap::new();
    let described = header.records.iter().map(|record| {
        let mut info = RecordInfo {
            sequence: record.body.sequence,
            id: record.id,
            author: record.body.author,
            added: Vec::new(),
            retired: Vec::new(),
            epoch: None,
        };
        for change in &record.body.changes {
            match change {
                Change::Add { role, keys } => {
                    let id = keys.id();
                    roles.insert(id, *role);
                    info.added.push((id, *role));
                }
                Change::Retire { principal } => {
                    let role = roles.get(principal).copied().unwrap_or(Role::Device);
                    info.retired.push((*principal, role));
                }
                Change::Begin { epoch, .. } => info.epoch = Some(*epoch),
            }
        }
        info
    });
    described.collect()
}

fn members(header: &Header) -> Vec<MemberInfo> {
    let mut members = Vec::new();
    for record in records(header) {
        members.retain(|member: &MemberInfo| {
            !record
                .retired
                .iter()
                .any(|(retired, _)| *retired == member.id)
        });
        let retired_at_once =
            |id: &PrincipalId| record.retired.iter().any(|(other, _)| other == id);
        for (id, role) in record.added.iter().filter(|(id, _)| !retired_at_once(id)) {
            let slot = header.slots.iter().find(|slot| slot.principal == *id);
            members.push(MemberInfo {
                id: *id,
                role: *role,
                slot: slot.map(SlotInfo::from),
                added_in: record.sequence,
                added_by: record.author,
            });
        }
    }
    members.sort_by_key(|member| (member.role as u8, member.added_in));
    members
}

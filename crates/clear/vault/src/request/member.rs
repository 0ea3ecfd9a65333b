//! The members of a vault, as they are shown to a person.
//!
//! Takes   the verified chain of membership records
//! Gives   shortened names, and which member added which
//! Never   shows a key

use serde::{Deserialize, Serialize};
use strongroom_crypto::MemberInfo;
use strongroom_format::{PrincipalId, Role, hex};

/// A device or a key slot of a vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The name of the principal, 16 digits of it.
    pub id: String,
    /// What people call it, if it is a device that has a name and the vault is open.
    pub name: Option<String>,
    /// Whether it is a device.
    pub is_device: bool,
    /// Whether it is the device that this copy of the vault acts as.
    pub is_this: bool,
    /// The key slot that it is, as `SlotInfo` names it.
    pub key: Option<String>,
    /// The place of the membership record that added it, from 0.
    pub added_in: u64,
    /// Who signed that record.
    pub added_by: String,
}

impl Member {
    pub(crate) fn new(member: &MemberInfo, this: Option<PrincipalId>) -> Self {
        Self {
            id: short(&member.id.0),
            name: None,
            is_device: member.role == Role::Device,
            is_this: Some(member.id) == this,
            key: member.slot.as_ref().map(|slot| slot.id.to_string()),
            added_in: member.added_in,
            added_by: short(&member.added_by.0),
        }
    }
}

/// How a principal is called in front of people.
pub(crate) fn short(id: &[u8; 32]) -> String {
    hex::encode(&id[..8])
}

//! Signs revisions as a device, and checks whether a signature was made by a device that ever belonged to the vault.
//!
//! Takes   an unlocked keyring, and the ids of revisions
//! Gives   signatures, and whether a signature is valid
//! Never   shows a secret key, or knows the content of a revision
//! Spec    spec/6-history.md, section 6.2
//!
//! Invariants
//!  (1) A signature covers a label and a revision's id, so it is valid for nothing else.  [6.2.3]

use crate::keyring::Keyring;
use crate::locked::Locked;
use crate::membership::principal::{Principal, verify_publication, verify_revision};
use std::collections::BTreeMap;
use strongroom_format::publication::PublicationId;
use strongroom_format::{Change, PrincipalId, PublicKeys, RecordId, Role, VaultId};

/// A device that signs revisions of one vault. Cheap to clone.
#[derive(Clone)]
pub struct RevisionSigner {
    principal: Principal,
    vault: VaultId,
    membership_head: RecordId,
    devices: Devices,
}

/// The devices that are or were members, with what verifies their signatures.
#[derive(Clone)]
struct Devices(BTreeMap<PrincipalId, PublicKeys>);

impl std::fmt::Debug for RevisionSigner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RevisionSigner({:?})", self.principal)
    }
}

impl RevisionSigner {
    /// A signer outside any membership, for tests: it believes itself alone.
    #[must_use]
    pub fn from_seed(seed: [u8; 32], vault: VaultId) -> Self {
        let principal = Principal::from_seed(Locked::copy_of(&seed));
        let devices = Devices([(principal.id(), principal.keys().clone())].into());
        Self {
            principal,
            vault,
            membership_head: RecordId(vault.0),
            devices,
        }
    }

    /// The vault whose revisions it signs.
    #[must_use]
    pub const fn vault(&self) -> VaultId {
        self.vault
    }

    /// Who signs.
    #[must_use]
    pub const fn device(&self) -> PrincipalId {
        self.principal.id()
    }

    /// The newest membership record that the signer knows.
    #[must_use]
    pub const fn membership_head(&self) -> RecordId {
        self.membership_head
    }

    /// The signature over the revision of that id. (1)
    #[must_use]
    pub fn sign(&self, revision: &[u8; 32]) -> [u8; 64] {
        self.principal.sign_revision(revision)
    }

    /// Whether `device` is or was a device of the vault.
    #[must_use]
    pub fn knows(&self, device: PrincipalId) -> bool {
        self.devices.0.contains_key(&device)
    }

    /// The signature over the publication of that id.
    #[must_use]
    pub fn sign_publication(&self, publication: PublicationId) -> [u8; 64] {
        self.principal.sign_publication(publication)
    }

    /// Whether `signature` over the publication of that id is by `device`, and that is or was a device of the vault.
    #[must_use]
    pub fn verify_publication(
        &self,
        device: PrincipalId,
        publication: PublicationId,
        signature: &[u8; 64],
    ) -> bool {
        let keys = self.devices.0.get(&device);
        keys.is_some_and(|keys| verify_publication(keys, publication, signature))
    }

    /// Whether `signature` over the revision of that id is by `device`, and that is or was a device of the vault. (1)
    #[must_use]
    pub fn verify(&self, device: PrincipalId, revision: &[u8; 32], signature: &[u8; 64]) -> bool {
        let keys = self.devices.0.get(&device);
        keys.is_some_and(|keys| verify_revision(keys, revision, signature))
    }
}

impl Keyring {
    /// What signs and verifies revisions. After the device was retired by another, what it signs counts for nobody
    /// else; a vault must still be able to keep its own history.
    #[must_use]
    pub fn revision_signer(&self) -> RevisionSigner {
        let added = self
            .header
            .records
            .iter()
            .flat_map(|record| &record.body.changes);
        let devices = added.filter_map(|change| match change {
            Change::Add {
                role: Role::Device,
                keys,
            } => Some((keys.id(), keys.clone())),
            _ => None,
        });
        let mut devices: BTreeMap<_, _> = devices.collect();
        devices.insert(self.signer.id(), self.signer.keys().clone());
        RevisionSigner {
            principal: self.signer.clone(),
            vault: self.vault_id(),
            membership_head: self.membership.head(),
            devices: Devices(devices),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_counts_for_one_revision_of_a_known_device() {
        let one = RevisionSigner::from_seed([1; 32], VaultId([9; 32]));
        let other = RevisionSigner::from_seed([2; 32], VaultId([9; 32]));
        let signature = one.sign(&[7; 32]);
        assert!(one.verify(one.device(), &[7; 32], &signature));
        assert!(!one.verify(one.device(), &[8; 32], &signature));
        assert!(!other.verify(one.device(), &[7; 32], &signature));
        assert!(!other.verify(other.device(), &[7; 32], &signature));
    }

    #[test]
    fn a_signature_over_a_membership_record_is_none_over_a_revision() {
        let signer = RevisionSigner::from_seed([1; 32], VaultId([9; 32]));
        let signature = signer.principal.sign(RecordId([7; 32]));
        assert!(!signer.verify(signer.device(), &[7; 32], &signature));
    }

    #[test]
    fn a_signature_over_a_publication_counts_for_one_of_a_known_device_and_is_none_over_a_revision()
    {
        let one = RevisionSigner::from_seed([1; 32], VaultId([9; 32]));
        let other = RevisionSigner::from_seed([2; 32], VaultId([9; 32]));
        let id = PublicationId([7; 32]);
        let signature = one.sign_publication(id);
        assert!(one.verify_publication(one.device(), id, &signature));
        assert!(!one.verify_publication(one.device(), PublicationId([8; 32]), &signature));
        assert!(!other.verify_publication(one.device(), id, &signature));
        assert!(!one.verify(one.device(), &[7; 32], &signature));
        assert!(!one.verify_publication(one.device(), id, &one.sign(&[7; 32])));
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!(
            "{:?}",
            RevisionSigner::from_seed([0xab; 32], VaultId([9; 32]))
        );
        assert!(shown.starts_with("RevisionSigner(Principal(") && !shown.contains("abab"));
    }
}

//! The errors of keys: when a vault is opened, and when its key slots or devices are changed.

use crate::membership::Forged;
use crate::membership::grant::GrantError;
use crate::providers::ProviderError;
use crate::random::RandomError;
use crate::secrets::age_key::AgeKeyError;
use crate::secrets::passphrase::OutOfMemory;
use strongroom_format::{Epoch, FormatError, SlotId, SlotKind};

/// Why a vault did not open. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnlockError {
    /// Environment: an accident changed the bytes; the unkeyed checksum shows it.
    #[error(
        "the {what} is damaged; `strongroom repair` restores it from its second copy; if there is none, restore it from a backup or another device"
    )]
    Damaged {
        /// Which file.
        what: &'static str,
    },
    /// Another version wrote it, or somebody edited it: unknown format, flag, suite or field, or beyond a bound.
    #[error(transparent)]
    Format(FormatError),
    /// Caller: no slot opened. Tampering with a slot looks the same.
    #[error(
        "the {kind} does not open this vault; try again (if somebody altered the key slot, the message would be the same)"
    )]
    WrongSecret {
        /// What was given.
        kind: SlotKind,
    },
    /// Caller: there is nothing that such a secret could open.
    #[error("this vault has no key slot for a {kind}; `strongroom key list` shows its key slots")]
    NoSlotOfThatKind {
        /// What was given.
        kind: SlotKind,
    },
    /// Tampering: a membership record does not follow from those before it.
    #[error(transparent)]
    Forged(#[from] Forged),
    /// Tampering: the membership chain is of another vault than the header says.
    #[error(
        "the membership records belong to another vault; the header was put together from two vaults"
    )]
    ForeignMembership,
    /// Tampering or a mix-up: the membership chain does not continue the one that was in use.
    #[error(
        "the membership records in the header (the signed list of devices and keys) do not continue the records that are in use; another header \
         was put in the place of the vault's header"
    )]
    Diverged,
    /// Tampering: a slot of another vault, or a forged one.
    #[error(
        "key slot {slot} was made for another vault; compare the fingerprint, and store nothing in this vault"
    )]
    ForeignSlot {
        /// Which slot.
        slot: SlotId,
    },
    /// Tampering: the slot is not one the members know, or was removed.
    #[error(
        "key slot {slot} was never added to this vault, or was removed from it; the header was edited"
    )]
    SlotNotMember {
        /// Which slot.
        slot: SlotId,
    },
    /// Tampering: a slot is a member, and is not there.
    #[error(
        "a key slot that belongs to this vault is missing from the header; somebody with a valid key or device of this vault wrote that header. Put \
         an earlier vault.json back, or restore it from another device"
    )]
    SlotMissing,
    /// Tampering: the generation is higher than the number of records permits, so that soon no change would have a
    /// number left.
    #[error(
        "the vault header has change number (generation) {found}, but its membership records account for fewer changes; restore vault.json from \
         another device"
    )]
    GenerationBeyond {
        /// The one found.
        found: u64,
    },
    /// Tampering: the keys of an epoch were not granted to this slot.
    #[error("the keys of epoch {} are missing for this key slot or device; the header was edited", epoch.0)]
    GrantMissing {
        /// Which epoch.
        epoch: Epoch,
    },
    /// Tampering: a grant does not open, or its keys do not match the commitment in the membership chain.
    #[error("the keys stored for epoch {} are not the vault's own; the header was edited", epoch.0)]
    GrantForged {
        /// Which epoch.
        epoch: Epoch,
    },
    /// Tampering: the MAC over the header does not fit.
    #[error(
        "the vault header was edited by somebody without the keys; restore it from another device"
    )]
    HeaderEdited,
    /// Tampering or a restored backup: the header is older than one seen before.
    #[error(
        "the vault header is an older one: its change number (generation) is {found}, but {seen} was seen; keys that were removed since then would \
         open the vault with this header"
    )]
    GenerationBehind {
        /// The newest generation seen before.
        seen: u64,
        /// The one found.
        found: u64,
    },
    /// Tampering or a restored backup: a header that does not continue the newest one that was seen.
    #[error(
        "this is an older or foreign header (of an earlier state, or of another vault): its list of added and removed devices and keys (the \
         membership chain) lacks record {record}, which was seen here; a key that was removed since might open it. Put the newer vault.json back"
    )]
    HeadMissing {
        /// The place of the record that was seen.
        record: u64,
    },
    /// Tampering or an older copy of the replica file: its device is no member any more.
    #[error(
        "the device that replica.json names is no longer a member of the vault: replica.json was replaced by an older one, or another device removed this device; run `strongroom repair`: it restores the saved replica.json, or makes this copy of the vault a new device"
    )]
    DeviceRemoved,
    /// Tampering or bug: the secrets of a new device that were handed over do not open for the device that it replaces.
    #[error(
        "the new device keys for this copy, which another process handed over, are not valid; nothing was changed"
    )]
    HandoverForged,
    /// Caller: a passphrase cannot be tried against the header at a remote, which lacks the data for that.
    #[error(
        "this vault cannot be cloned with a passphrase, because remotes have nothing to try passphrases against. Instead, {}add this device from one \
         that has the vault, with `strongroom device add` there and `strongroom clone --pair` here",
        instead(others)
    )]
    PassphrasesWithheld {
        /// The kinds of key that open it.
        others: Vec<SlotKind>,
    },
    /// Tampering or bug: the data that a header of a remote withholds is not that of its passphrase slots.
    #[error(
        "in the header from the remote, the sealed data of the passphrase slots does not open or is invalid; somebody with a valid key or device of \
         this vault wrote this data"
    )]
    WithheldForged,
    /// Tampering or a mix-up: the header of a remote is in the place of `vault.json`.
    #[error(
        "the vault's own header was replaced by the form for remotes, which no passphrase opens; run `strongroom repair`, which restores the saved \
         copy"
    )]
    FormForRemotes,
    /// Environment: the passphrase slot needs more memory than is free.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// Caller, or tampering: a passphrase slot needs more memory or time than is allowed by default, so it was not
    /// tried; no other one opened.
    #[error(
        "key slot {slot} was not tried: one try would take {} MiB of memory and {passes} passes over that memory. If the slot is \
         yours, add --allow-memory {}M (a header from somebody else may ask for this only to keep your machine busy)",
        memory_kib.div_ceil(1024), memory_kib.div_ceil(1024)
    )]
    CostNotAllowed {
        /// Which slot.
        slot: SlotId,
        /// What it asks for.
        memory_kib: u32,
        /// How often it goes over that.
        passes: u32,
    },
    /// Environment: nothing here computes what the vault's suite asks for.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// Tampering or a mix-up: the replica file does not open with the vault's keys.
    #[error(
        "the replica file does not belong to this vault, or was edited; run `strongroom repair`: it restores the saved copy, or says what is in the way"
    )]
    ReplicaForged,
}

/// Why keys were not changed. Nothing was changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Environment: no randomness.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// Environment: no memory for Argon2id.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// Environment: nothing here computes what the vault's suite asks for.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// Caller: a label, a cost or the size of the header is beyond what the format allows.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Caller: the recipient cannot be used.
    #[error(transparent)]
    AgeKey(#[from] AgeKeyError),
    /// Caller: a vault that nobody can unlock is not made.
    #[error("a vault needs at least one key slot; add another before you remove this one")]
    LastSlot,
    /// Caller: more key slots or devices than the format allows.
    #[error("the vault has the largest allowed number of key slots or devices; remove one first")]
    TooMany,
    /// Caller: there is no such slot.
    #[error("there is no key slot {slot}; `strongroom key list` shows them")]
    NoSuchSlot {
        /// The slot asked for.
        slot: SlotId,
    },
    /// Caller: there is no such device.
    #[error("there is no such device; `strongroom device list` shows them")]
    NoSuchDevice,
    /// Caller: only a device may do this, and the keyring was opened by a key slot alone.
    #[error(
        "only a device of this vault may change its keys, and the device keys of this copy (in replica.json) were not decrypted: decrypt them first, \
         or add this copy as a device"
    )]
    NotADevice,
    /// Tampering or bug: a public key of the device that asks to join is none, so nothing could be granted to it.
    #[error("the device that asks to join has a broken public key, so it was not let in")]
    BrokenPublicKey,
    /// Tampering or bug: a device that wants to be a member sent something that no member has.
    #[error("the device that asks to join sent {0}, so it was not let in")]
    Newcomer(&'static str),
    /// Tampering or bug: the membership record of the change would not follow from those before it.
    #[error(
        "the membership record for this change {0}; the vault header does not match the members of the vault: restore vault.json from another device"
    )]
    Record(&'static str),
    /// Caller: the counters of generations or epochs are at their end.
    #[error("the header has no change numbers or epoch numbers left; make a new vault")]
    Exhausted,
}

/// What a person can use in the place of a passphrase.
fn instead(others: &[SlotKind]) -> String {
    let named = |kind: &SlotKind| match kind {
        SlotKind::Passphrase => "a passphrase",
        SlotKind::RecoveryCode => "the recovery code",
        SlotKind::KeyFile => "a key file",
        SlotKind::Age => "an age identity",
        SlotKind::Ssh => "an SSH key",
    };
    match others.is_empty() {
        true => String::new(),
        false => {
            let named: Vec<_> = others.iter().map(named).collect();
            format!("use {}, or ", named.join(" or "))
        }
    }
}

impl From<FormatError> for UnlockError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Damaged { what } => Self::Damaged { what },
            other => Self::Format(other),
        }
    }
}

impl From<GrantError> for KeyError {
    fn from(error: GrantError) -> Self {
        match error {
            GrantError::PublicKey => Self::BrokenPublicKey,
            GrantError::Random => Self::Random(RandomError),
        }
    }
}

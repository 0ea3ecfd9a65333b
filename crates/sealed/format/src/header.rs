//! Turns `vault.json` into typed values within bounds, and back into the exact bytes that its MAC covers.
//!
//! Takes   the bytes of a header from anywhere, or a `Header` and a function that makes the MAC
//! Gives   a `Header` for bytes, bytes for a `Header`; or a `FormatError` that names the fault
//! Never   judges signatures, grants or the MAC: that needs keys, and the crates of the gate (`crates/gate`) do it
//! Spec    spec/1-keys.md, sections 1.5 to 1.7
//!
//! Invariants
//!  (1) A decoded header is within every bound of limits.rs.                         [1.7.1]
//!  (2) The MAC covers every byte before its own line, as stored and not as re-encoded.                 [1.7.3]

use crate::header_json::{JsonBody, JsonFile, fixed};
use crate::json_file;
use crate::limits::{
    ARGON2_LANES_MAX, ARGON2_MEMORY_KIB_MAX, ARGON2_PASSES_MAX, ARGON2_WORK_KIB_MAX, GRANT_BYTES,
    GRANTS_MAX, HEADER_BYTES_MAX, LABEL_BYTES_MAX, RECORDS_MAX, SLOT_SEALED_BYTES_MAX, SLOTS_MAX,
    WITHHELD_BYTES_MAX,
};
use crate::{Epoch, FormatError, PrincipalId, Record, SuiteId, VaultId, hex};
use serde::{Deserialize, Serialize};

/// What errors call the header.
pub(crate) const WHAT: &str = "vault header";

/// The public header of a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The hash of the first membership record.
    pub vault: VaultId,
    /// Counts up with each new header of this vault.
    pub generation: u64,
    /// What new blocks are sealed with.
    pub suite: SuiteId,
    /// The membership chain, oldest first.
    pub records: Vec<Record>,
    /// The ways to unlock this vault.
    pub slots: Vec<Slot>,
    /// The epoch keys, sealed to each member.
    pub grants: Vec<Grant>,
    /// How often it was changed whether remotes get what passphrase slots take, too. If odd, they do: then a passphrase alone brings the
    /// vault back from there, and whoever reads the header there can try passphrases.                         [1.7.6]
    pub guessable_changes: u64,
    /// In the form for remotes, what `Lock::Withheld` lacks: the sealed record of it. `None` in a `vault.json`.  [1.7.7]
    pub withheld: Option<Vec<u8>>,
}

/// A header as it was stored: its values, its MAC, and how many of its bytes the MAC covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHeader {
    /// The values.
    pub header: Header,
    /// The MAC found at the end. Not checked here.
    pub mac: [u8; 32],
    /// The MAC covers the first so many bytes of the file.
    pub covered_bytes: usize,
}

/// The random name of a key slot, for people and commands to point at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub [u8; 8]);

/// One way to unlock: a principal's seed, wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its name.
    pub id: SlotId,
    /// What the person calls it. Public.
    pub label: String,
    /// When it was made, in seconds since 1970. Advisory.
    pub created_s: u64,
    /// The principal whose seed it wraps.
    pub principal: PrincipalId,
    /// What opens it.
    pub lock: Lock,
    /// Seed and vault id, sealed.
    pub sealed: Vec<u8>,
}

/// What opens a key slot, with the public parameters that takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lock {
    /// A passphrase, through Argon2id.
    Passphrase(Argon2Parameters),
    /// A passphrase, in the form for remotes: what it takes is sealed for members, and the payload is empty.
    Withheld,
    /// The code printed when the slot was made.
    RecoveryCode,
    /// A file of random bytes.
    KeyFile,
    /// An age identity (X25519). Not post-quantum.
    Age,
    /// An SSH key, through age. Not post-quantum.
    Ssh,
}

/// The kind of a key slot, without parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlotKind {
    /// A passphrase.
    Passphrase,
    /// A recovery code.
    RecoveryCode,
    /// A key file.
    KeyFile,
    /// An age identity.
    Age,
    /// An SSH key.
    Ssh,
}

/// Cost and salt of Argon2id for one slot. The floor is checked by the gate, the ceiling here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argon2Parameters {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
    /// Random salt.
    pub salt: [u8; 16],
}

/// One epoch's keys, sealed to one principal.
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    /// Whose keys.
    pub epoch: Epoch,
    /// To whom.
    pub principal: PrincipalId,
    /// HPKE encapsulation and ciphertext.
    pub bytes: Box<[u8; GRANT_BYTES]>,
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Grant({:?} to {})",
            self.epoch,
            hex::encode(&self.principal.0)
        )
    }
}

impl std::fmt::Display for SlotId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&hex::encode(&self.0))
    }
}

impl std::str::FromStr for SlotId {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let why = "is not 16 lower-case hexadecimal digits; see the list of key slots";
        hex::decode(text).map(Self).ok_or(FormatError::Invalid {
            what: "key slot id",
            why,
        })
    }
}

impl std::fmt::Display for SlotKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Passphrase => "passphrase",
            Self::RecoveryCode => "recovery code",
            Self::KeyFile => "key file",
            Self::Age => "age identity",
            Self::Ssh => "SSH key",
        })
    }
}

impl Lock {
    /// The kind, without parameters.
    #[must_use]
    pub const fn kind(&self) -> SlotKind {
        match self {
            Self::Passphrase(_) | Self::Withheld => SlotKind::Passphrase,
            Self::RecoveryCode => SlotKind::RecoveryCode,
            Self::KeyFile => SlotKind::KeyFile,
            Self::Age => SlotKind::Age,
            Self::Ssh => SlotKind::Ssh,
        }
    }
}

impl Argon2Parameters {
    /// Checks the ceilings, so that a hostile header can ask for no more.
    ///
    /// # Errors
    /// `FormatError::Argon2OutOfRange`.
    pub fn check_ceiling(&self) -> Result<(), FormatError> {
        let within = |parameter, found: u64, min: u64, max: u64| {
            let out_of_range = FormatError::Argon2OutOfRange {
                parameter,
                found,
                min,
                max,
            };
            if (min..=max).contains(&found) {
                Ok(())
            } else {
                Err(out_of_range)
            }
        };
        within("lanes", self.lanes.into(), 1, ARGON2_LANES_MAX.into())?;
        // Argon2 itself needs eight blocks of 1 KiB a lane.
        within(
            "memory_kib",
            self.memory_kib.into(),
            u64::from(self.lanes) * 8,
            ARGON2_MEMORY_KIB_MAX.into(),
        )?;
        within("passes", self.passes.into(), 1, ARGON2_PASSES_MAX.into())
    }

    /// Memory in KiB times passes.
    #[must_use]
    pub fn work_kib(&self) -> u64 {
        u64::from(self.memory_kib) * u64::from(self.passes)
    }
}

impl Header {
    /// The file, with the MAC that `mac` gives for the bytes it covers.
    ///
    /// # Errors
    /// `FormatError` if this header is beyond a bound, so that nobody could read it back.
    pub fn encode(&self, mac: impl FnOnce(&[u8]) -> [u8; 32]) -> Result<Vec<u8>, FormatError> {
        self.check_bounds()?;
        let mut bytes = json_file::open_object(&JsonBody::from(self));
        let mac = mac(&bytes);
        json_file::push_member(&mut bytes, MAC_NAME, &mac);
        let bytes = json_file::close_object(bytes);
        bounded(WHAT, bytes.len(), HEADER_BYTES_MAX)?;
        Ok(bytes)
    }

    /// The values in `bytes`, the content of `vault.json`.
    ///
    /// # Errors
    /// Any `FormatError`: too long, damaged, of another format, with an unknown flag, suite or field, or beyond a bound.
    pub fn decode(bytes: &[u8]) -> Result<StoredHeader, FormatError> {
        let covered = json_file::checked(WHAT, bytes, HEADER_BYTES_MAX)?;
        let json: JsonFile = json_file::parse(WHAT, bytes)?;
        // The MAC line has a fixed length; with another one before the checksum the file was not written by us.
        let mut line = Vec::new();
        let mac = fixed(&json.mac, "has a MAC that is not 64 hexadecimal digits")?;
        json_file::push_member(&mut line, MAC_NAME, &mac);
        let covered = covered
            .strip_suffix(line.as_slice())
            .ok_or_else(|| invalid("has its MAC in the wrong place"))?;
        let header = json.into_header()?;
        header.check_bounds()?;
        Ok(StoredHeader {
            header,
            mac,
            covered_bytes: covered.len(),
        })
    }

    pub(crate) fn check_bounds(&self) -> Result<(), FormatError> {
        bounded("membership chain", self.records.len(), RECORDS_MAX)?;
        bounded("list of key slots", self.slots.len(), SLOTS_MAX)?;
        bounded("list of grants", self.grants.len(), GRANTS_MAX)?;
        self.check_withheld()?;
        let mut work_kib = 0;
        for slot in &self.slots {
            check_label(&slot.label)?;
            bounded(
                "sealed payload of a key slot",
                slot.sealed.len(),
                SLOT_SEALED_BYTES_MAX,
            )?;
            if let Lock::Passphrase(parameters) = &slot.lock {
                parameters.check_ceiling()?;
                work_kib += parameters.work_kib();
            }
        }
        if work_kib > ARGON2_WORK_KIB_MAX {
            let parameter = "the sum of memory_kib times passes";
            return Err(FormatError::Argon2OutOfRange {
                parameter,
                found: work_kib,
                min: 0,
                max: ARGON2_WORK_KIB_MAX,
            });
        }
        let mut ids: Vec<_> = self.slots.iter().map(|slot| slot.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(invalid("gives two key slots the same id"));
        }
        let mut grants: Vec<_> = self
            .grants
            .iter()
            .map(|grant| (grant.epoch, grant.principal))
            .collect();
        grants.sort_unstable();
        if grants.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(invalid("grants an epoch to a principal twice"));
        }
        Ok(())
    }
}

impl Header {
    /// Whether remotes get what passphrase slots take, too.                                                   [1.7.6]
    #[must_use]
    pub const fn is_guessable(&self) -> bool {
        self.guessable_changes % 2 == 1
    }

    /// Checks that it has one of the two forms, and no mixture.                                              [1.7.7]
    fn check_withheld(&self) -> Result<(), FormatError> {
        let is_withheld = |slot: &Slot| slot.lock == Lock::Withheld;
        let has = self.slots.iter().any(is_withheld);
        if has != self.withheld.is_some() {
            return Err(invalid(
                "has only one of two things that belong together: the field `withheld`, and a passphrase slot whose data belongs in that field",
            ));
        }
        let Some(withheld) = &self.withheld else {
            return Ok(());
        };
        bounded(
            "header field `withheld`",
            withheld.len(),
            WITHHELD_BYTES_MAX,
        )?;
        let is_mixed = |slot: &Slot| {
            slot.lock.kind() == SlotKind::Passphrase
                && !(is_withheld(slot) && slot.sealed.is_empty())
        };
        match self.is_guessable() || self.slots.iter().any(is_mixed) {
            true => Err(invalid("is only partly in the form for remotes")),
            false => Ok(()),
        }
    }
}

/// Checks that `label` may name a key slot: short, and without characters that could deceive a terminal.
///
/// # Errors
/// `FormatError::TooLong` or `FormatError::Invalid`.
pub fn check_label(label: &str) -> Result<(), FormatError> {
    bounded("label of a key slot", label.len(), LABEL_BYTES_MAX)?;
    // Bidirectional controls reorder what a terminal shows; they are not of the class `char::is_control`.
    let deceives = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}')
    };
    if label.chars().any(deceives) {
        let why = "has a control character; use letters, digits and spaces";
        return Err(FormatError::Invalid {
            what: "label of a key slot",
            why,
        });
    }
    Ok(())
}

const MAC_NAME: &str = "mac";

pub(crate) fn bounded(what: &'static str, len: usize, max: usize) -> Result<(), FormatError> {
    if len <= max {
        Ok(())
    } else {
        Err(FormatError::TooLong {
            what,
            len: len as u64,
            max: max as u64,
        })
    }
}

pub(crate) fn invalid(why: &'static str) -> FormatError {
    FormatError::Invalid { what: WHAT, why }
}

#[cfg(test)]
mod tests;

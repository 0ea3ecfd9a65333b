//! Turns the values of a header into the fields of its JSON object, and back.
//!
//! Takes   a `Header`, or the fields that were read
//! Gives   fields for a `Header`, a `Header` for fields
//! Never   judges more than the form of a field and the lengths of lists: bounds are checked on the values
//! Spec    spec/1-keys.md, section 1.7

use crate::error::printable;
use crate::header::{
    Argon2Parameters, Grant, Header, Lock, Slot, SlotId, SlotKind, WHAT, bounded, invalid,
};
use crate::json_file::FORMAT;
use crate::limits::{
    GRANT_BYTES, GRANTS_MAX, RECORD_BYTES_MAX, RECORDS_MAX, SLOT_SEALED_BYTES_MAX, SLOTS_MAX,
    WITHHELD_BYTES_MAX,
};
use crate::{Epoch, FormatError, PrincipalId, Record, SuiteId, VaultId, hex};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};

/// The flag of a header that remotes get as it is.                                                         [1.7.6]
const GUESSABLE: &str = "guessable";

/// The flag of the form for remotes.                                                                       [1.7.7]
const WITHHELD: &str = "withheld";

/// The flags that a header has.
fn flags(header: &Header) -> impl Iterator<Item = &'static str> {
    let guessable = header.is_guessable().then_some(GUESSABLE);
    guessable
        .into_iter()
        .chain(header.withheld.is_some().then_some(WITHHELD))
}

/// `vault.json` without its last two members.
#[derive(Serialize)]
pub(crate) struct JsonBody {
    format: u64,
    flags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guessable_changes: Option<u64>,
    vault: String,
    generation: u64,
    suite: u64,
    membership: Vec<String>,
    slots: Vec<JsonSlot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    withheld: Option<String>,
    grants: Vec<JsonGrant>,
}

/// All of `vault.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonFile {
    #[serde(rename = "format")]
    _format: u64,
    flags: Vec<String>,
    guessable_changes: Option<u64>,
    vault: String,
    generation: u64,
    suite: u64,
    membership: Vec<String>,
    slots: Vec<JsonSlot>,
    withheld: Option<String>,
    grants: Vec<JsonGrant>,
    pub(crate) mac: String,
    #[serde(rename = "checksum")]
    _checksum: String,
}

/// A key slot in `vault.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonSlot {
    id: String,
    kind: SlotKind,
    label: String,
    created: u64,
    principal: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    argon2: Option<JsonArgon2>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
}

/// The parameters of a passphrase slot in `vault.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonArgon2 {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: String,
}

/// A grant in `vault.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonGrant {
    epoch: u32,
    principal: String,
    sealed: String,
}

impl From<&Header> for JsonBody {
    fn from(header: &Header) -> Self {
        Self {
            format: FORMAT,
            flags: flags(header).map(str::to_owned).collect(),
            guessable_changes: Some(header.guessable_changes).filter(|changes| *changes > 1),
            vault: hex::encode(&header.vault.0),
            generation: header.generation,
            suite: header.suite.number().into(),
            membership: header
                .records
                .iter()
                .map(|record| BASE64.encode(record.encode()))
                .collect(),
            slots: header.slots.iter().map(JsonSlot::from).collect(),
            withheld: header
                .withheld
                .as_ref()
                .map(|withheld| BASE64.encode(withheld)),
            grants: header.grants.iter().map(JsonGrant::from).collect(),
        }
    }
}

impl From<&Slot> for JsonSlot {
    fn from(slot: &Slot) -> Self {
        let argon2 = match &slot.lock {
            Lock::Passphrase(parameters) => Some(JsonArgon2 {
                memory_kib: parameters.memory_kib,
                passes: parameters.passes,
                lanes: parameters.lanes,
                salt: hex::encode(&parameters.salt),
            }),
            _ => None,
        };
        Self {
            id: slot.id.to_string(),
            kind: slot.lock.kind(),
            label: slot.label.clone(),
            created: slot.created_s,
            principal: hex::encode(&slot.principal.0),
            argon2,
            sealed: (slot.lock != Lock::Withheld).then(|| BASE64.encode(&slot.sealed)),
        }
    }
}

impl From<&Grant> for JsonGrant {
    fn from(grant: &Grant) -> Self {
        Self {
            epoch: grant.epoch.0,
            principal: hex::encode(&grant.principal.0),
            sealed: BASE64.encode(grant.bytes.as_slice()),
        }
    }
}

impl JsonFile {
    pub(crate) fn into_header(self) -> Result<Header, FormatError> {
        let is_known = |flag: &&String| [GUESSABLE, WITHHELD].contains(&flag.as_str());
        if let Some(flag) = self.flags.iter().find(|flag| !is_known(flag)) {
            return Err(FormatError::UnknownFlag {
                what: WHAT,
                flag: printable(flag),
            });
        }
        let guessable_changes = match self.guessable_changes {
            None => self.flags.iter().any(|flag| flag == GUESSABLE).into(),
            Some(0 | 1) => return Err(invalid("has a `guessable_changes` below 2")),
            Some(changes) => changes,
        };
        let withheld = self.withheld.as_ref();
        let withheld =
            withheld.map(|text| base64(text, "header field `withheld`", WITHHELD_BYTES_MAX));
        // Counted before the contents are decoded.
        bounded("membership chain", self.membership.len(), RECORDS_MAX)?;
        bounded("list of key slots", self.slots.len(), SLOTS_MAX)?;
        bounded("list of grants", self.grants.len(), GRANTS_MAX)?;
        let suite = u16::try_from(self.suite)
            .ok()
            .and_then(SuiteId::from_number);
        let suite = suite.ok_or(FormatError::UnknownSuite {
            what: WHAT,
            suite: self.suite,
        })?;
        let record =
            |text: &String| Record::decode(&base64(text, "membership record", RECORD_BYTES_MAX)?);
        let header = Header {
            vault: VaultId(fixed(
                &self.vault,
                "has a vault id that is not 64 hexadecimal digits",
            )?),
            generation: self.generation,
            suite,
            records: self
                .membership
                .iter()
                .map(record)
                .collect::<Result<_, _>>()?,
            slots: self
                .slots
                .into_iter()
                .map(JsonSlot::into_slot)
                .collect::<Result<_, _>>()?,
            grants: self
                .grants
                .into_iter()
                .map(JsonGrant::into_grant)
                .collect::<Result<_, _>>()?,
            guessable_changes,
            withheld: withheld.transpose()?,
        };
        match flags(&header).eq(self.flags.iter().map(String::as_str)) {
            true => Ok(header),
            false => Err(invalid("has flags that do not match its content")),
        }
    }
}

impl JsonSlot {
    fn into_slot(self) -> Result<Slot, FormatError> {
        let lock = match (self.kind, self.argon2) {
            (SlotKind::Passphrase, None) if self.sealed.is_none() => Lock::Withheld,
            (SlotKind::Passphrase, Some(argon2)) => Lock::Passphrase(argon2.into_parameters()?),
            (SlotKind::RecoveryCode, None) => Lock::RecoveryCode,
            (SlotKind::KeyFile, None) => Lock::KeyFile,
            (SlotKind::Age, None) => Lock::Age,
            (SlotKind::Ssh, None) => Lock::Ssh,
            (SlotKind::Passphrase, None) => {
                return Err(invalid("has a passphrase slot without argon2"));
            }
            (_, Some(_)) => {
                return Err(invalid("has argon2 in a slot that is not of a passphrase"));
            }
        };
        Ok(Slot {
            id: SlotId(fixed(
                &self.id,
                "has a slot id that is not 16 hexadecimal digits",
            )?),
            label: self.label,
            created_s: self.created,
            principal: PrincipalId(fixed(
                &self.principal,
                "has a principal that is not 64 hexadecimal digits",
            )?),
            sealed: match (&self.sealed, &lock) {
                (None, Lock::Withheld) => Vec::new(),
                (None, _) => return Err(invalid("has a key slot without its payload")),
                (Some(text), _) => {
                    base64(text, "sealed payload of a key slot", SLOT_SEALED_BYTES_MAX)?
                }
            },
            lock,
        })
    }
}

impl JsonArgon2 {
    fn into_parameters(self) -> Result<Argon2Parameters, FormatError> {
        let Self {
            memory_kib,
            passes,
            lanes,
            salt,
        } = self;
        Ok(Argon2Parameters {
            memory_kib,
            passes,
            lanes,
            salt: fixed(&salt, "has a salt that is not 32 hexadecimal digits")?,
        })
    }
}

impl JsonGrant {
    fn into_grant(self) -> Result<Grant, FormatError> {
        let bytes = base64(&self.sealed, "grant", GRANT_BYTES)?;
        let bytes = <[u8; GRANT_BYTES]>::try_from(bytes);
        Ok(Grant {
            epoch: Epoch(self.epoch),
            principal: PrincipalId(fixed(
                &self.principal,
                "has a principal that is not 64 hexadecimal digits",
            )?),
            bytes: Box::new(bytes.map_err(|_| FormatError::Invalid {
                what: "grant",
                why: "has the wrong length",
            })?),
        })
    }
}

pub(crate) fn fixed<const N: usize>(text: &str, why: &'static str) -> Result<[u8; N], FormatError> {
    hex::decode(text).ok_or_else(|| invalid(why))
}

fn base64(text: &str, what: &'static str, max: usize) -> Result<Vec<u8>, FormatError> {
    bounded(what, text.len() / 4 * 3, max + 3)?;
    BASE64.decode(text).map_err(|_| FormatError::Invalid {
        what,
        why: "is not base64",
    })
}

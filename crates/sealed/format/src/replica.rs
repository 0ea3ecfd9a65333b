//! Turns `replica.json`, the private data of one copy of a vault, into typed values and back.
//!
//! Takes   the bytes of the file from anywhere, or a `ReplicaFile`
//! Gives   a `ReplicaFile` for bytes, bytes for a `ReplicaFile`; or a `FormatError` that names the fault
//! Never   opens the sealed parts
//! Spec    spec/1-keys.md, section 1.8

use crate::json_file;
use crate::limits::REPLICA_BYTES_MAX;
use crate::{Epoch, FormatError, VaultId, hex};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};

/// What errors call the file.
const WHAT: &str = "replica file";

/// What the sealed record of a replica file holds.                                                         [1.8.1]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReplicaFormat {
    /// Instance id, device seed, metadata key.
    One = 1,
    /// These, and the epoch in which the metadata key was drawn.
    Two = 2,
}

/// The random name of one copy of a vault on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub [u8; 16]);

/// The public values of `replica.json` and its one sealed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaFile {
    /// What its record holds.
    pub format: ReplicaFormat,
    /// The vault this is a copy of.
    pub vault: VaultId,
    /// The name of this copy.
    pub instance: InstanceId,
    /// The epoch that the record is sealed under.
    pub epoch: Epoch,
    /// What the format says, sealed.
    pub sealed: Vec<u8>,
}

/// All of `replica.json` but the checksum.
#[derive(Serialize)]
struct JsonBody {
    format: u64,
    vault: String,
    instance: String,
    epoch: u32,
    sealed: String,
}

/// All of `replica.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonFile {
    #[serde(rename = "format")]
    _format: u64,
    vault: String,
    instance: String,
    epoch: u32,
    sealed: String,
    #[serde(rename = "checksum")]
    _checksum: String,
}

impl ReplicaFile {
    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        json_file::close_object(json_file::open_object(&JsonBody {
            format: self.format as u64,
            vault: hex::encode(&self.vault.0),
            instance: hex::encode(&self.instance.0),
            epoch: self.epoch.0,
            sealed: BASE64.encode(&self.sealed),
        }))
    }

    /// The values in `bytes`.
    ///
    /// # Errors
    /// Any `FormatError`: too long, damaged, of another format, or with an unknown or wrong field.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let newest = ReplicaFormat::Two as u64;
        let (_, format) = json_file::checked_format(WHAT, bytes, REPLICA_BYTES_MAX, newest)?;
        let json: JsonFile = json_file::parse(WHAT, bytes)?;
        let invalid = |why| FormatError::Invalid { what: WHAT, why };
        Ok(Self {
            format: match format {
                1 => ReplicaFormat::One,
                _ => ReplicaFormat::Two,
            },
            vault: VaultId(hex::decode(&json.vault).ok_or(invalid("has a wrong vault id"))?),
            instance: InstanceId(
                hex::decode(&json.instance).ok_or(invalid("has a wrong instance id"))?,
            ),
            epoch: Epoch(json.epoch),
            sealed: BASE64
                .decode(&json.sealed)
                .map_err(|_| invalid("has a sealed part that is not base64"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> ReplicaFile {
        ReplicaFile {
            format: ReplicaFormat::Two,
            vault: VaultId([1; 32]),
            instance: InstanceId([2; 16]),
            epoch: Epoch(3),
            sealed: vec![4; 200],
        }
    }

    #[test]
    fn a_replica_file_comes_back() {
        for format in [ReplicaFormat::One, ReplicaFormat::Two] {
            let file = ReplicaFile { format, ..file() };
            assert_eq!(ReplicaFile::decode(&file.encode()), Ok(file));
        }
    }

    #[test]
    fn a_format_of_the_future_is_named_and_none_is_below_1() {
        let text = String::from_utf8(file().encode()).unwrap();
        for found in [0, 3] {
            let other = text.replace("\"format\": 2", &format!("\"format\": {found}"));
            let body = other.split("  \"checksum\"").next().unwrap().to_owned();
            assert_eq!(
                ReplicaFile::decode(&json_file::close_object(body.into_bytes())),
                Err(FormatError::UnknownFormat {
                    what: WHAT,
                    found,
                    known: 2
                })
            );
        }
    }

    #[test]
    fn an_unknown_field_is_named() {
        let text = String::from_utf8(file().encode()).unwrap();
        let body = text.split("  \"checksum\"").next().unwrap().to_owned() + "  \"colour\": 1,\n";
        let error = ReplicaFile::decode(&json_file::close_object(body.into_bytes())).unwrap_err();
        assert!(
            error.to_string().contains("unknown field `colour`"),
            "{error}"
        );
    }

    #[test]
    fn a_replica_file_cut_anywhere_is_damaged() {
        let bytes = file().encode();
        for len in 0..bytes.len() {
            assert_eq!(
                ReplicaFile::decode(&bytes[..len]),
                Err(FormatError::Damaged { what: WHAT })
            );
        }
    }
}

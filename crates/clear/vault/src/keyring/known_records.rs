//! Stores in the metadata which header was seen last, and which of its membership records were not made by this copy.
//!
//! Takes   the settings of a vault, and a header that opened
//! Gives   an error for an older header or one of another vault; else the records that this copy learned from the folder
//! Never   refuses a record because another member made it: the record is reported until a person accepts it
//! Spec    spec/1-keys.md, [1.9.7] and [1.9.11]

use strongroom_crypto::{Keyring, RecordInfo, Seen};

use crate::request::Access;
use crate::request::member::short;
use crate::{Error, Result};

/// The setting in which earlier versions kept the newest generation seen.
const GENERATION: &str = "header_generation";

/// The newest header that was seen.
const SEEN: &str = "header_seen";
/// The id of the record that this copy was about to make: after a cut it is known from there.
const MADE: &str = "membership_made";
/// The places of records that nobody here made or accepted.
const UNKNOWN: &str = "membership_unknown";
/// The most places that are kept; of more the first ones tell enough.
const UNKNOWN_MAX: usize = 64;

/// Facts that the metadata keeps.
pub(crate) trait Settings {
    /// What was kept under `name`.
    fn setting(&self, name: &str) -> Result<Option<Vec<u8>>>;
    /// Keeps a fact; durable on return.
    fn keep_setting(&self, name: &str, value: &[u8]) -> Result<()>;
}

/// Compares the header of `keyring` with what was seen before, notes it, and gives the places of the records that nobody
/// here made.
pub(crate) fn see(settings: &dyn Settings, keyring: &Keyring, access: Access) -> Result<Vec<u64>> {
    let seen = settings.setting(SEEN)?;
    let mut unknown = unknown(settings)?;
    match &seen {
        // Kept by a version that knew the generation only: what is there now is believed this once.
        None => keyring.check_generation(generation(settings)?)?,
        Some(bytes) => {
            let seen = Seen::decode(bytes).ok_or_else(|| broken("its record of the header"))?;
            keyring.check_seen(&seen)?;
            let made = settings.setting(MADE)?;
            let new = keyring.records_from(seen.sequence.saturating_add(1));
            let new = new
                .iter()
                .filter(|record| made.as_deref() != Some(&record.id.0));
            unknown.extend(new.map(|record| record.sequence));
            unknown.sort_unstable();
            unknown.dedup();
            unknown.truncate(UNKNOWN_MAX);
        }
    }
    let now = keyring.seen().encode();
    if access == Access::ReadWrite && seen.as_deref() != Some(&now) {
        // In this order: a cut between the two finds the same records once more.
        keep_unknown(settings, &unknown)?;
        settings.keep_setting(SEEN, &now)?;
    }
    Ok(unknown)
}

/// Notes the newest record of `next` as one that is made here, before its header is durable.
pub(crate) fn about_to_make(settings: &dyn Settings, next: &Keyring) -> Result<()> {
    settings.keep_setting(MADE, &next.seen().head.0)
}

/// Notes that a person knows of every record so far.
pub(crate) fn accept(settings: &dyn Settings) -> Result<()> {
    keep_unknown(settings, &[])
}

/// What a device has to do that another one removed a key beside.
const REPLACE_THE_DEVICE: &str = ". Anyone who had that key, and could read this folder, may know the keys of this device: sync, then run \
     `strongroom device remove` here without an id, then sync again";

/// What a person is shown of the record at `sequence`.
pub(crate) fn describe(keyring: &Keyring, sequence: u64) -> Option<String> {
    let records = keyring.records_from(sequence);
    let record: &RecordInfo = records.first()?;
    let named = |list: &[(strongroom_format::PrincipalId, strongroom_format::Role)]| {
        let names = list.iter().map(|(id, role)| {
            let role = match role {
                strongroom_format::Role::Device => "device",
                strongroom_format::Role::Slot => "key",
            };
            format!("{role} {}", short(&id.0))
        });
        names.collect::<Vec<_>>().join(", ")
    };
    let mut did = Vec::new();
    if !record.added.is_empty() {
        did.push(format!("adds {}", named(&record.added)));
    }
    if !record.retired.is_empty() {
        did.push(format!("removes {}", named(&record.retired)));
    }
    if let Some(epoch) = record.epoch {
        did.push(format!("begins epoch {}", epoch.0));
    }
    let mut line = format!(
        "membership record {sequence} was not made here; member {} signed it: it {}",
        short(&record.author.0),
        did.join(", ")
    );
    if record.removes_a_slot() && keyring.device_outlived_a_slot() {
        line.push_str(REPLACE_THE_DEVICE);
    }
    Some(line)
}

fn unknown(settings: &dyn Settings) -> Result<Vec<u64>> {
    let bytes = settings.setting(UNKNOWN)?.unwrap_or_default();
    let (places, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() || places.len() > UNKNOWN_MAX {
        return Err(broken("its list of membership records"));
    }
    Ok(places
        .iter()
        .map(|place| u64::from_le_bytes(*place))
        .collect())
}

fn keep_unknown(settings: &dyn Settings, unknown: &[u64]) -> Result<()> {
    let bytes: Vec<u8> = unknown
        .iter()
        .flat_map(|place| place.to_le_bytes())
        .collect();
    match settings.setting(UNKNOWN)?.unwrap_or_default() == bytes {
        true => Ok(()),
        false => settings.keep_setting(UNKNOWN, &bytes),
    }
}

fn generation(settings: &dyn Settings) -> Result<u64> {
    match settings.setting(GENERATION)? {
        None => Ok(0),
        Some(bytes) => <[u8; 8]>::try_from(bytes.as_slice())
            .map(u64::from_le_bytes)
            .map_err(|_| broken("its record of the header generation")),
    }
}

fn broken(what: &str) -> Error {
    Error::Damaged {
        what: "metadata.db",
        why: format!("{what} cannot be read"),
    }
}

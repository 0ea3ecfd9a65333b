//! Turns the record of one vault into the bytes of its file, and back.
//!
//! Takes   places, or bytes
//! Gives   the reverse: bytes for places, places for bytes
//! Never   accepts bytes beyond the bounds, or keeps more places than `PLACES_MAX`
//! Spec    spec/9-seen.md, section 9.2

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strongroom_format::{InstanceId, RecordId, VaultId, hex};

use super::place::{Place, State};

/// Changes when the meaning of a field does.
const VERSION: u32 = 1;

/// Places that are remembered of one vault; the one seen longest ago makes room.
pub(crate) const PLACES_MAX: usize = 16;

/// The most that is read of a file, in bytes: `PLACES_MAX` places with two of the longest paths each.
pub(crate) const RECORD_BYTES_MAX: usize = 512 * 1024;

/// The longest path that is remembered, in bytes.
const PATH_BYTES_MAX: usize = 4096;

/// What a path begins with that is no plain text.
const HEX_PATH: &str = "hex:";

/// What was seen of one vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) vault: VaultId,
    /// The one seen last stands last.
    pub(crate) places: Vec<Place>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordFields {
    version: u32,
    vault: String,
    places: Vec<PlaceFields>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceFields {
    path: String,
    device: u64,
    inode: u64,
    instance: String,
    state: Option<StateFields>,
    copy_of: Option<String>,
    seen: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFields {
    head: String,
    epoch: u32,
    generation: u64,
    commits: u64,
    root: Option<String>,
}

impl Record {
    pub(crate) const fn new(vault: VaultId) -> Self {
        Self {
            vault,
            places: Vec::new(),
        }
    }

    /// The file of this record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let surplus = self.places.len().saturating_sub(PLACES_MAX);
        let fields = RecordFields {
            version: VERSION,
            vault: hex::encode(&self.vault.0),
            places: self.places[surplus..].iter().map(fields_of).collect(),
        };
        let mut bytes =
            serde_json::to_vec_pretty(&fields).expect("numbers and text are always JSON");
        bytes.push(b'\n');
        bytes
    }

    /// The record in `bytes`, the file of `vault`; why there is none.
    pub(crate) fn decode(vault: VaultId, bytes: &[u8]) -> Result<Self, &'static str> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let damaged = "it is damaged";
        let found: Version = serde_json::from_slice(bytes).map_err(|_| damaged)?;
        if found.version != VERSION {
            return Err("another version of strongroom wrote it");
        }
        let fields: RecordFields = serde_json::from_slice(bytes).map_err(|_| damaged)?;
        if fields.vault != hex::encode(&vault.0) {
            return Err("it is about another vault");
        }
        if fields.places.len() > PLACES_MAX {
            return Err(damaged);
        }
        let places = fields.places.iter().map(place_of);
        let places = places.collect::<Option<_>>().ok_or(damaged)?;
        Ok(Self { vault, places })
    }
}

fn fields_of(place: &Place) -> PlaceFields {
    PlaceFields {
        path: text_of(&place.path),
        device: place.identity.0,
        inode: place.identity.1,
        instance: hex::encode(&place.instance.0),
        state: place.state.map(|state| StateFields {
            head: hex::encode(&state.head.0),
            epoch: state.epoch,
            generation: state.generation,
            commits: state.commits,
            root: state.root.map(|root| hex::encode(&root)),
        }),
        copy_of: place.copy_of.as_deref().map(text_of),
        seen: place.seen_s,
    }
}

fn place_of(fields: &PlaceFields) -> Option<Place> {
    let state = match &fields.state {
        None => None,
        Some(state) => Some(State {
            head: RecordId(hex::decode(&state.head)?),
            epoch: state.epoch,
            generation: state.generation,
            commits: state.commits,
            root: match &state.root {
                None => None,
                Some(root) => Some(hex::decode(root)?),
            },
        }),
    };
    let copy_of = match &fields.copy_of {
        None => None,
        Some(path) => Some(path_of(path)?),
    };
    Some(Place {
        path: path_of(&fields.path)?,
        identity: (fields.device, fields.inode),
        instance: InstanceId(hex::decode(&fields.instance)?),
        state,
        copy_of,
        seen_s: fields.seen,
    })
}

/// A path as text that gives it back exactly.
fn text_of(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) if text.starts_with('/') && !text.chars().any(char::is_control) => text.to_owned(),
        _ => format!("{HEX_PATH}{}", hex::encode(bytes)),
    }
}

fn path_of(text: &str) -> Option<PathBuf> {
    let bytes = match text.strip_prefix(HEX_PATH) {
        None => text.as_bytes().to_vec(),
        Some(digits) => {
            let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
            let pairs = pairs.iter().map(|pair| {
                let [byte] = hex::decode::<1>(std::str::from_utf8(pair).ok()?)?;
                Some(byte)
            });
            pairs
                .collect::<Option<Vec<u8>>>()
                .filter(|_| rest.is_empty())?
        }
    };
    let is_path = bytes.first() == Some(&b'/') && bytes.len() <= PATH_BYTES_MAX;
    is_path.then(|| PathBuf::from(OsString::from_vec(bytes)))
}

/// Whether `path` can be remembered.
pub(crate) fn is_rememberable(path: &Path) -> bool {
    let bytes = OsStr::as_bytes(path.as_os_str());
    bytes.first() == Some(&b'/') && bytes.len() <= PATH_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const VAULT: VaultId = VaultId([0xab; 32]);

    fn place(path: &[u8]) -> Place {
        Place {
            path: PathBuf::from(OsStr::from_bytes(path)),
            identity: (u64::MAX, 3),
            instance: InstanceId([4; 16]),
            state: Some(State {
                head: RecordId([5; 32]),
                epoch: 6,
                generation: 7,
                commits: 8,
                root: Some([9; 32]),
            }),
            copy_of: Some("/original".into()),
            seen_s: 10,
        }
    }

    fn record() -> Record {
        let mut read_only = place(b"/b");
        read_only.state = None;
        read_only.copy_of = None;
        let places = vec![place(b"/a \xff\x1b[0m"), read_only, place("/ü".as_bytes())];
        Record {
            vault: VAULT,
            places,
        }
    }

    #[test]
    fn a_record_comes_back_with_paths_of_any_bytes() {
        let bytes = record().encode();
        assert_eq!(Record::decode(VAULT, &bytes).unwrap(), record());
        assert!(bytes.iter().all(|byte| *byte == b'\n' || *byte >= b' '));
    }

    #[test]
    fn the_places_seen_longest_ago_make_room() {
        let mut record = record();
        record.places = (0..40)
            .map(|number| place(format!("/{number}").as_bytes()))
            .collect();
        let kept = Record::decode(VAULT, &record.encode()).unwrap().places;
        assert_eq!(kept, record.places[40 - PLACES_MAX..]);
    }

    #[test]
    fn the_largest_record_stays_within_what_is_read() {
        let mut longest = place(&[b"/".as_slice(), &[1; PATH_BYTES_MAX - 1]].concat());
        longest.copy_of = Some(longest.path.clone());
        let record = Record {
            vault: VAULT,
            places: vec![longest; PLACES_MAX],
        };
        let bytes = record.encode();
        assert!(bytes.len() <= RECORD_BYTES_MAX, "{}", bytes.len());
        assert_eq!(Record::decode(VAULT, &bytes).unwrap(), record);
    }

    #[test]
    fn what_is_cut_altered_or_of_another_vault_is_no_record() {
        let good = String::from_utf8(record().encode()).unwrap();
        let other = Record::decode(VaultId([0; 32]), good.as_bytes());
        assert_eq!(other.unwrap_err(), "it is about another vault");
        let newer = good.replace("\"version\": 1", "\"version\": 2");
        let newer = Record::decode(VAULT, newer.as_bytes()).unwrap_err();
        assert_eq!(newer, "another version of strongroom wrote it");
        for damaged in [
            String::new(),
            good[..good.len() / 2].to_owned(),
            good.replace("\"/b\"", "\"b\""),
            good.replace("\"/b\"", "\"hex:2f6\""),
            good.replace("0505", "05"),
            good.replace("\"epoch\": 6", "\"epoch\": -6"),
            good.replace("\"seen\"", "\"sawn\""),
            format!("{good}x"),
            "[".repeat(100_000),
        ] {
            assert_ne!(damaged, good);
            let decoded = Record::decode(VAULT, damaged.as_bytes());
            assert_eq!(decoded.unwrap_err(), "it is damaged", "{damaged:.80}");
        }
    }
}

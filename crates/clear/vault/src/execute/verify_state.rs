//! The saved state of a stopped verification, from which the next one can continue. It is sealed, and has no other use.
//!
//! Takes   the progress of a verification; later, the request to continue
//! Gives   the saved progress, if only this vault can have written it, and if the segments that it lists are unchanged
//! Never   continues from any other state: then the verification starts from the beginning, and says why
//! Spec    spec/7-recovery.md, [7.2.8] to [7.2.11]
//!
//! Invariants
//!  (1) An accepted state was sealed under the newest epoch of this vault, and is the last one that was saved.  [7.2.9]
//!  (2) The segments that an accepted state lists as read are still the same segments, with the same lengths.  [7.2.10]

use serde::{Deserialize, Serialize};
use strongroom_crypto::{ContentHasher, HashAlgorithm, SystemRandom};
use strongroom_filesystem::Filesystem;
use strongroom_format::{Kind, hex};

use crate::clock::now_s;
use crate::execute::session::Session;
use crate::folder::Folder;
use crate::limits::VERIFY_SUSPECTS_MAX;
use crate::request::verify::{FileProblem, ResumeFields, StoppedAt};
use crate::{Error, Result};

/// The file of a verification that was stopped.
const FILE: &str = "verify-state.json";

/// The version of that file. The first was not sealed.
const FORMAT: u32 = 2;

/// The setting that names the last state that was kept; empty if none may be gone on from.
const LAST: &str = "verification";

/// The file as it is written.
#[derive(Serialize, Deserialize)]
struct File {
    format: u32,
    /// In hex.
    sealed: String,
}

/// What is sealed.
#[derive(Debug, Serialize, Deserialize)]
struct Sealed {
    /// Names this state. The database knows the name of the last one.                                     (1)
    name: [u8; 16],
    /// The segments up to the last one that was read, and their lengths.                                  (2)
    segments: [u8; 32],
    kept_s: u64,
    state: StoppedAt,
}

/// What a verification of this depth can go on from.
pub(crate) fn resume(session: &Session, deep: bool) -> Result<ResumeFields> {
    Ok(match load(session, deep)? {
        Ok(sealed) => ResumeFields {
            kept_s: sealed.kept_s,
            state: Some(sealed.state),
            refused: String::new(),
        },
        Err(why) => ResumeFields {
            refused: why.to_owned(),
            ..ResumeFields::default()
        },
    })
}

fn load(session: &Session, deep: bool) -> Result<std::result::Result<Sealed, &'static str>> {
    const FOREIGN: &str = "the saved state was not sealed with this vault's newest keys: an older version wrote it, the keys changed, or \
         somebody else put it there";
    let folder = folder(session);
    let Some(bytes) = folder.read_state(FILE) else {
        return Ok(Err("no verification was stopped here"));
    };
    let Some(sealed) = open(session, &bytes)? else {
        return Ok(Err(FOREIGN));
    };
    let last = session.filesystem().setting(LAST)?.unwrap_or_default();
    if last != sealed.name {
        return Ok(Err(
            "the saved state is not from the verification that was stopped last",
        ));
    }
    if sealed.state.deep != deep {
        return Ok(Err(
            "the stopped verification and this one differ in --deep",
        ));
    }
    if sealed.segments != segments(session.filesystem(), &sealed.state.after)? {
        return Ok(Err(
            "files that the stopped verification had read have changed",
        ));
    }
    Ok(Ok(sealed))
}

fn open(session: &Session, bytes: &[u8]) -> Result<Option<Sealed>> {
    let Ok(file) = serde_json::from_slice::<File>(bytes) else {
        return Ok(None);
    };
    let Some(record) = unhex(&file.sealed).filter(|_| file.format == FORMAT) else {
        return Ok(None);
    };
    let sealer = session.filesystem().engine().sealer();
    let Ok(clear) = sealer.open_record(sealer.epoch(), Kind::VerifyState, &record) else {
        return Ok(None);
    };
    // No other vault has that key.
    Ok(postcard::from_bytes(&clear).ok())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    if !digits.remainder().is_empty() {
        return None;
    }
    digits
        .map(|pair| hex::decode::<1>(std::str::from_utf8(pair).ok()?).map(|[byte]| byte))
        .collect()
}

/// Keeps `state`; the one before is good for nothing from now on. Gives false where nothing can be kept.
pub(crate) fn keep(session: &Session, state: &StoppedAt) -> bool {
    let kept = state.suspects.len() <= VERIFY_SUSPECTS_MAX && write(session, state).is_ok();
    if !kept {
        // Media that cannot be written keep no state, and have none to remove.
        folder(session).remove_state(FILE);
    }
    kept
}

fn write(session: &Session, state: &StoppedAt) -> Result<()> {
    let filesystem = session.filesystem();
    filesystem.check_writable()?;
    let random = || Error::Keys("the system provides no random bytes".to_owned());
    let mut name = [0; 16];
    strongroom_crypto::Random::fill(&SystemRandom, &mut name).map_err(|_| random())?;
    let sealed = Sealed {
        name,
        segments: segments(filesystem, &state.after)?,
        kept_s: now_s(),
        state: state.clone(),
    };
    let invalid = |_| Error::Protocol("a state of a verification that cannot be written");
    let clear = postcard::to_stdvec(&sealed).map_err(invalid)?;
    let record = filesystem
        .engine()
        .sealer()
        .seal_record(&SystemRandom, Kind::VerifyState, &clear)
        .map_err(|_| random())?;
    let file = File {
        format: FORMAT,
        sealed: hex::encode(&record),
    };
    let bytes = serde_json::to_vec(&file).map_err(std::io::Error::from);
    let bytes = bytes.map_err(Error::io("saving the state of the verification"))?;
    folder(session).replace(FILE, &bytes)?;
    Ok(filesystem.keep_setting(LAST, &name)?)
}

/// The verification came to its end: nothing may be gone on from.
pub(crate) fn end(session: &Session) -> Result<()> {
    let filesystem = session.filesystem();
    folder(session).remove_state(FILE);
    let known = filesystem.setting(LAST)?.unwrap_or_default();
    if !known.is_empty() && filesystem.check_writable().is_ok() {
        filesystem.keep_setting(LAST, &[])?;
    }
    Ok(())
}

/// Something else than a file in the place of the state: nothing is lost by it, and nobody but a stranger put it there.
pub(crate) fn problem(session: &Session) -> Option<FileProblem> {
    match folder(session).read_file(FILE) {
        Err(Error::Odd { what, .. }) => Some(FileProblem {
            file: FILE.to_owned(),
            what: format!("it is {what}, not a saved verification; remove it"),
            is_damage: true,
        }),
        _ => None,
    }
}

fn folder(session: &Session) -> Folder {
    session.vault.with_keys(|keys| keys.folder().clone())
}

/// The segments up to `last` that hold something, with their lengths, as one number.                      (2)
fn segments(filesystem: &Filesystem, last: &[u8; 16]) -> Result<[u8; 32]> {
    let mut rows = filesystem.engine().reader()?.segments()?;
    rows.retain(|row| row.live_bytes > 0 && row.id.0 <= *last);
    rows.sort_unstable_by_key(|row| row.id);
    let mut hasher = ContentHasher::new(HashAlgorithm::Blake3);
    for row in rows {
        hasher.update(&row.id.0);
        hasher.update(&row.committed_len.to_le_bytes());
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_read_back_and_nothing_else_is() {
        let bytes = vec![0, 1, 0xfe, 0xff];
        assert_eq!(unhex(&hex::encode(&bytes)), Some(bytes));
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("zz"), None);
        assert_eq!(unhex("aäb"), None);
    }
}

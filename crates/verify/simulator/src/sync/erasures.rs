//! Devices erase contents. Each of these is the whole content of a file, and of no other file.
//!
//! Takes   a history
//! Gives   a description of the event; the first violation of the rules (11) to (13) in the head of `sync.rs`
//! Never   erases what other steps change: vault/tests/sync/erased.rs tests what comes back then, and why
//! Spec    spec/6-history.md, section 6.11

use std::collections::BTreeSet;
use std::fs;

use strongroom::filesystem::{Error as FileError, NodeKind};
use strongroom::{CloneContent, CloneReport, Error, GoOn, NewRevision};
use strongroom_format::Kind;
use strongroom_remote::{ObjectName, Remote};
use strongroom_sync::limits::SEGMENT_OBJECT_BYTES_MAX;

use crate::sync::contents::{Form, Piece};
use crate::sync::device::Device;
use crate::sync::files::{Fail, TO_ERASE};
use crate::sync::folders::segments;
use crate::sync::history::{Counted, History, Secret};

/// Behind so many steps a device writes or erases something once.
const EVERY: u64 = 12;

/// Bytes of a content that is to be erased: it is one block.
const LEN: usize = 30_000;

/// Bytes of it that are looked for, as they are sealed.
const PART: usize = 64;

/// A content of which nothing may be left.
struct Gone {
    piece: Piece,
    parts: Vec<Vec<u8>>,
    /// Whether a device on which it was erased is a member still: that one removes it from the remote.
    has_eraser: bool,
}

fn path_of(piece: Piece) -> String {
    format!("{TO_ERASE}{piece}")
}

/// A part of a content as the device would seal it now. The same content is sealed to the same bytes under the same keys.
fn sealed_part(device: &Device, content: &[u8]) -> Vec<u8> {
    let filesystem = device.vault().filesystem();
    let filesystem = filesystem.expect("this process owns it");
    let sealed = filesystem.engine().sealer().seal(Kind::Data, content);
    let middle = sealed.bytes.len() / 2;
    sealed.bytes[middle..middle + PART].to_vec()
}

/// A snapshot that no step removes.
fn tagged(tag: String) -> NewRevision {
    NewRevision {
        tags: vec![tag],
        ..NewRevision::default()
    }
}

/// Parts of contents that are looked for in one pass, however many there are: thousands of histories have many segments each.
struct Sought<'a> {
    parts: Vec<(Piece, &'a [u8])>,
    /// For each two bytes, whether a part begins with them.
    begins: Vec<bool>,
}

impl<'a> Sought<'a> {
    /// All parts of these contents, each of `PART` bytes.
    fn new(contents: impl Iterator<Item = (Piece, &'a [Vec<u8>])>) -> Self {
        let parts =
            contents.flat_map(|(piece, parts)| parts.iter().map(move |part| (piece, &**part)));
        let parts: Vec<(Piece, &[u8])> = parts.collect();
        let mut begins = vec![false; 1 << 16];
        for (_, part) in &parts {
            begins[beginning(part)] = true;
        }
        Self { parts, begins }
    }

    /// The content of the first part in `bytes`.
    fn find_in(&self, bytes: &[u8]) -> Option<Piece> {
        let windows = bytes.windows(PART);
        let mut likely = windows.filter(|window| self.begins[beginning(window)]);
        likely.find_map(|window| {
            let found = self.parts.iter().find(|(_, part)| *part == window);
            found.map(|(piece, _)| *piece)
        })
    }
}

/// The first two bytes as a number.
fn beginning(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[0], bytes[1]]))
}

impl History<'_> {
    /// Sometimes a member writes a content that is to be erased, or erases one.
    pub(crate) fn erase(&mut self, step: u64) -> Result<(), String> {
        if !self.erasures.choices.chance(1, EVERY) {
            return Ok(());
        }
        let members = self.devices.iter().filter(|device| device.is_member());
        let members: Vec<usize> = members.map(|device| device.number).collect();
        let number = *self.erasures.choices.one_of(&members);
        match self.write_or_erase(number) {
            Ok(done) => self.story.tell(format!("{step}: device {number}: {done}")),
            Err(Fail::Violation(why)) => return Err(format!("step {step}: {why}")),
            Err(Fail::Vault(error)) => self
                .met(number, &error)
                .map_err(|why| format!("step {step}: {why}"))?,
        }
        Ok(())
    }

    fn write_or_erase(&mut self, number: usize) -> Result<String, Fail> {
        let vault = self.devices[number].vault();
        let mut here = Vec::new();
        for (index, secret) in self.erasures.secrets.iter().enumerate() {
            if vault.exists(path_of(secret.piece))? {
                here.push(index);
            }
        }
        if here.is_empty() || self.erasures.choices.chance(1, 3) {
            return self.write_secret(number);
        }
        let index = *self.erasures.choices.one_of(&here);
        self.erase_secret(number, index)
    }

    fn write_secret(&mut self, number: usize) -> Result<String, Fail> {
        let piece = self.truth.piece(LEN, Form::Bytes);
        let path = path_of(piece);
        self.truth.gave(&[piece]);
        self.truth.names.insert(path.trim_matches('/').to_owned());
        let content = self.truth.bytes(&[piece]);
        let device = &mut self.devices[number];
        let part = sealed_part(device, &content);
        device.written.push(piece);
        device.vault().write(&path, &content)?;
        device
            .vault()
            .take_revision(&tagged(format!("written-{piece}")))?;
        device.made_durable();
        self.erasures.secrets.push(Secret {
            piece,
            parts: vec![part],
            by: Vec::new(),
        });
        Ok(format!("write {path}, and a snapshot of it"))
    }

    /// Erases it from a snapshot that has it for sure, and which other devices get, and from all others.
    fn erase_secret(&mut self, number: usize, index: usize) -> Result<String, Fail> {
        let piece = self.erasures.secrets[index].piece;
        let path = path_of(piece);
        let device = &mut self.devices[number];
        let times = self.erasures.secrets[index].by.len();
        device
            .vault()
            .take_revision(&tagged(format!("erased-{piece}-{times}")))?;
        device.made_durable();
        let part = sealed_part(device, &self.truth.bytes(&[piece]));
        self.truth.removed.insert(piece);
        let secret = &mut self.erasures.secrets[index];
        secret.parts.push(part);
        secret.by.push(number);
        if self.server.is_none() {
            let sought = Sought::new([(piece, &*secret.parts)].into_iter());
            let found = in_remote(&*self.remote, &sought);
            if found.map_err(Fail::Violation)?.is_some() {
                self.story.count(Counted::ErasedAtRemote);
            }
        }
        device.vault().remove_file(&path)?;
        let erased = device.vault().erase(&path, false)?;
        device.vault().sync()?;
        if erased.segments_left > 0 && !self.story.has_older_copy() {
            return Err(Fail::Violation(format!(
                "(11): device {number} cannot erase all of {path}: {erased:?}"
            )));
        }
        device.erasing.push(piece);
        Ok(format!("erase {path}: {} bytes", erased.bytes))
    }

    /// Brings everything here, so that no device needs anything of a remote any more, and judges what is left of erased content.
    pub(crate) fn judge_erasures(&mut self) -> Result<(), String> {
        let mut secrets = self.erasures.secrets.iter();
        if secrets.all(|secret| secret.by.is_empty()) {
            return Ok(());
        }
        for device in self.devices.iter_mut().filter(|device| device.is_member()) {
            let number = device.number;
            let failed = |error: Error| format!("(1): device {number}: {error}");
            let back = device.vault().bring_back(None, &mut |_| GoOn::Yes);
            back.map_err(failed)?;
            // An opening erases what could not be erased before.
            device.reopen().map_err(failed)?;
        }
        // In the first all say that they need nothing any more, and in the second those who erased remove it from the remote.
        self.settle()?;
        self.settle()?;
        let gone = self.gone();
        self.judge_remote(&gone)?;
        let pieces: BTreeSet<Piece> = gone.iter().map(|one| one.piece).collect();
        for device in self.devices.iter().filter(|device| device.is_member()) {
            self.judge_snapshots(device, &pieces)?;
            judge_segments(device, &gone)?;
        }
        for _ in &gone {
            self.story.count(Counted::Erased);
        }
        self.judge_clone_on_demand()
    }

    /// (13): snapshots name erased content now, and a new device that wants no content gets them all the same. Nothing may follow at this
    /// remote, which keeps from now on what that device needs; at a server the steps clone on demand, too.
    fn judge_clone_on_demand(&self) -> Result<(), String> {
        if self.server.is_some() {
            return Ok(());
        }
        let folder = self.place.join("on demand");
        let cloned = self.clone_into(&folder, CloneContent::AtRemote);
        let report = match cloned {
            Err(error) if self.may_be_refused(&error) => return Ok(()),
            cloned => cloned.map_err(|error| format!("(13): a clone on demand: {error}"))?,
        };
        self.lacks_nothing(&report)
    }

    /// Whether a clone on demand may fail so: an older copy brought references to erased content back, which counts as lost. (13)
    pub(crate) fn may_be_refused(&self, error: &Error) -> bool {
        self.story.has_older_copy() && error.to_string().contains("clone without --on-demand")
    }

    /// (13), of what a clone says.
    pub(crate) fn lacks_nothing(&self, report: &CloneReport) -> Result<(), String> {
        match report.made.missing_blocks {
            blocks if blocks > 0 && !self.story.has_older_copy() => {
                Err(format!("(13): a clone says that {blocks} blocks are lost"))
            }
            _ => Ok(()),
        }
    }

    /// What is to be gone for good. What an older copy of a folder brought back is not.
    fn gone(&self) -> Vec<Gone> {
        let members = || self.devices.iter().filter(|device| device.is_member());
        let is_gone = |secret: &&Secret| {
            self.truth.erased.contains(&secret.piece) && !self.story.has_older_copy()
        };
        let gone = self.erasures.secrets.iter().filter(is_gone);
        gone.map(|secret| {
            let content = self.truth.bytes(&[secret.piece]);
            let now = members().take(1);
            let now = now.map(|device| sealed_part(device, &content));
            Gone {
                piece: secret.piece,
                parts: secret.parts.iter().cloned().chain(now).collect(),
                has_eraser: members().any(|device| secret.by.contains(&device.number)),
            }
        })
        .collect()
    }

    /// (11), of the remote. A server keeps what is removed for some days, and everything stays that a device may need which never synced
    /// again after it had let content go.
    fn judge_remote(&self, gone: &[Gone]) -> Result<(), String> {
        let needs = self.remote.list("needs");
        let needs = needs.map_err(|error| format!("(11): the remote: {error}"))?;
        if self.server.is_some() || !needs.is_empty() {
            return Ok(());
        }
        let gone = gone.iter().filter(|one| one.has_eraser);
        let sought = Sought::new(gone.map(|one| (one.piece, &*one.parts)));
        match in_remote(&*self.remote, &sought)? {
            None => Ok(()),
            Some(piece) => Err(format!(
                "(11): the remote has the erased content of {}",
                path_of(piece)
            )),
        }
    }

    /// (11) and (12), of the snapshots of a device.
    fn judge_snapshots(&self, device: &Device, gone: &BTreeSet<Piece>) -> Result<(), String> {
        let (number, vault) = (device.number, device.vault());
        let failed = |error: Error| format!("(1): device {number}: {error}");
        // Most snapshots have most files as the one before had them: each state of a file is read once.
        let mut looked: BTreeSet<(String, i64, u64)> = BTreeSet::new();
        for revision in vault.revisions().map_err(failed)? {
            let root = format!("/.history/{}", revision.id);
            for entry in vault.walk(&root).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let is = &entry.attributes;
                if is.kind != NodeKind::File {
                    continue;
                }
                let path = String::from_utf8_lossy(&entry.path[root.len()..]).into_owned();
                let erasing = self.erasing_at(&path);
                if erasing.is_none() && !looked.insert((path.clone(), is.ctime.0, is.size)) {
                    continue;
                }
                let read = vault.read(&entry.path);
                let is_erased = matches!(read, Err(Error::File(FileError::Erased { .. })));
                let why = match erasing {
                    Some(piece) if read.is_ok() && gone.contains(&piece) => {
                        "(11): what was erased is there"
                    }
                    Some(_) => continue,
                    None if is_erased => "(12): what nobody erased is erased",
                    None => {
                        read.map_err(failed)?;
                        continue;
                    }
                };
                return Err(format!(
                    "{why}: {path} in snapshot {} of device {number}",
                    revision.id
                ));
            }
        }
        Ok(())
    }

    /// What some device erased at that path.
    fn erasing_at(&self, path: &str) -> Option<Piece> {
        let mut erasing = self.erasures.secrets.iter();
        let found = erasing.find(|one| !one.by.is_empty() && path_of(one.piece) == path);
        found.map(|one| one.piece)
    }
}

/// (11), of the segments of a device. What came from others may hold erased content that nothing names here, until it is compacted.
fn judge_segments(device: &Device, gone: &[Gone]) -> Result<(), String> {
    if gone.is_empty() {
        return Ok(());
    }
    let sought = Sought::new(gone.iter().map(|one| (one.piece, &*one.parts)));
    let number = device.number;
    let failed = |error: Error| format!("(1): device {number}: {error}");
    device.vault().compact().map_err(failed)?;
    device.drive().map_err(failed)?;
    for path in segments(&device.folder) {
        let bytes = fs::read(&path).map_err(|error| format!("(11): {error}"))?;
        if let Some(piece) = sought.find_in(&bytes) {
            return Err(format!(
                "(11): device {number} has the erased content of {} in {path:?}",
                path_of(piece)
            ));
        }
    }
    Ok(())
}

/// A content that is sought and that a segment of the remote has.
fn in_remote(remote: &dyn Remote, sought: &Sought<'_>) -> Result<Option<Piece>, String> {
    let failed = |error: strongroom_remote::Error| format!("(11): the remote: {error}");
    for listed in remote.list("segments").map_err(failed)? {
        let name = ObjectName::new(format!("segments/{}", listed.name)).map_err(failed)?;
        let bytes = remote.read(&name, SEGMENT_OBJECT_BYTES_MAX);
        let bytes = bytes.map_err(failed)?.unwrap_or_default();
        if let Some(piece) = sought.find_in(&bytes) {
            return Ok(Some(piece));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Choices;

    /// Goal: what is left of an erased content is found wherever it lies, and says which one it is. Method: each of two parts at the beginning,
    /// inside and at the end, and one of which a byte is missing.
    #[test]
    fn a_part_of_a_content_is_found_wherever_it_lies() {
        let [one, two] = [1, 2].map(|seed| vec![Choices::new(seed).bytes(PART)]);
        let sought = Sought::new([(7, &one[..]), (9, &two[..])].into_iter());
        for (piece, part) in [(7, &one[0]), (9, &two[0])] {
            for (before, behind) in [(0, 100), (100, 100), (100, 0), (0, 0)] {
                let bytes = [&vec![0; before][..], &part[..], &vec![0; behind][..]].concat();
                assert_eq!(sought.find_in(&bytes), Some(piece), "{before} {behind}");
            }
            assert_eq!(sought.find_in(&part[1..]), None);
            assert_eq!(sought.find_in(&[&part[1..], &[0; 100][..]].concat()), None);
        }
        assert_eq!(sought.find_in(&[]), None);
    }
}

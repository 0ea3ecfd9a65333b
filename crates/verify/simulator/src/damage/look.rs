//! Compares what can be read of a vault with what was written, and with what a report calls lost.
//!
//! Takes   an open vault, models of its states, and reports
//! Gives   the first contradiction
//! Never   changes anything

use std::collections::{BTreeMap, HashMap};

use strongroom::filesystem::NodeKind;
use strongroom::{FileOptions, Loss, RepairReport, RevisionId, Vault, VerifyReport};

use super::base::Base;
use super::inflict::{Fault, Inflicted, Sort};

/// The files of a state, by path.
pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// Bytes that are read at a time: less than what is lost at a time.
const PIECE: usize = 4096;

/// What could be read of a file: its length, and piece by piece its bytes or nothing.
#[derive(Debug)]
struct SeenFile {
    len: u64,
    pieces: Vec<Option<Vec<u8>>>,
}

/// What could be read of a state.
#[derive(Debug, Default)]
pub struct Seen {
    files: BTreeMap<Vec<u8>, SeenFile>,
    /// Directories that could not be listed.
    unlisted: u64,
    /// Whether the state could be found at all.
    missing: bool,
}

/// What a report says is lost of one state.
#[derive(Debug, Default)]
pub struct Lost {
    content: HashMap<Vec<u8>, Vec<(u64, u64)>>,
    /// Directories of which names are lost, and whole states.
    names: Vec<Vec<u8>>,
}

/// What `report` says is lost of the living state, or of a kept one.
#[must_use]
pub fn lost_of(report: &VerifyReport, revision: Option<&RevisionId>) -> Lost {
    let mut lost = Lost::default();
    for damage in &report.damages {
        let is_it = match revision {
            None => damage.now,
            Some(id) => damage.revisions.contains(id),
        };
        if !is_it {
            continue;
        }
        match damage.what {
            Loss::Content(start, end) => {
                let ranges = lost.content.entry(damage.path.clone()).or_default();
                ranges.push((start, end));
            }
            Loss::Names(_) | Loss::Tree | Loss::Structure => lost.names.push(damage.path.clone()),
            Loss::Xattrs | Loss::Unnamed => {}
        }
    }
    lost
}

/// Reads the living state and every kept one. After a repair those that it lost are left out.
#[must_use]
pub fn see(
    vault: &Vault,
    base: &Base,
    repaired: Option<&RepairReport>,
) -> Vec<(Option<usize>, Seen)> {
    let mut all = vec![(None, see_below(vault, b""))];
    let is_kept = |id: &RevisionId| match repaired {
        // A record that was lost with the database is told, and gone.
        Some(report) => !report
            .recovered
            .lost_revisions
            .iter()
            .any(|lost| lost.contains(&id.to_string())),
        None => true,
    };
    for (index, revision) in base.revisions.iter().enumerate() {
        if is_kept(&revision.id) {
            let root = format!("/.history/{}", revision.id);
            all.push((Some(index), see_below(vault, root.as_bytes())));
        }
    }
    all
}

fn see_below(vault: &Vault, root: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut directories = vec![Vec::new()];
    while let Some(path) = directories.pop() {
        let at = [root, &path, b"/"].concat();
        let listed = match vault.list(&at) {
            Ok(listed) => listed,
            Err(_) => {
                seen.missing |= path.is_empty();
                seen.unlisted += 1;
                continue;
            }
        };
        for entry in listed {
            let Ok(entry) = entry else {
                seen.unlisted += 1;
                break;
            };
            let below = [&path[..], b"/", &entry.name].concat();
            match entry.attributes.kind {
                NodeKind::Directory => directories.push(below),
                _ => drop(
                    seen.files
                        .insert(below.clone(), see_file(vault, &[root, &below].concat())),
                ),
            }
        }
    }
    seen
}

fn see_file(vault: &Vault, path: &[u8]) -> SeenFile {
    let mut file = SeenFile {
        len: 0,
        pieces: Vec::new(),
    };
    let Ok(open) = vault.open_file(path, FileOptions::new().read()) else {
        return file;
    };
    file.len = open.attributes().map_or(0, |node| node.size);
    let mut at = 0;
    while at < file.len {
        let mut piece = vec![0; PIECE];
        let read = open.read_at(&mut piece, at);
        file.pieces.push(read.ok().map(|count| {
            piece.truncate(count);
            piece
        }));
        at += PIECE as u64;
    }
    file
}

impl Seen {
    /// Whether any byte that was read is another than in `model`.
    ///
    /// # Errors
    /// The first one.
    pub fn wrong(&self, model: &State) -> Result<(), String> {
        for (path, seen) in &self.files {
            let shown = String::from_utf8_lossy(path);
            if path.starts_with(b"/lost+found") {
                continue;
            }
            let Some(bytes) = model.get(path) else {
                return Err(format!("{shown} is there, and was never written"));
            };
            for (piece, start) in seen.pieces.iter().zip((0..).step_by(PIECE)) {
                let end = bytes.len().min(start + PIECE);
                if let Some(piece) = piece
                    && bytes.get(start..end) != Some(piece)
                {
                    return Err(format!("{shown} at {start}: bytes that nobody wrote"));
                }
            }
        }
        Ok(())
    }

    /// Whether everything of `model` can be read but what is `lost`, and nothing of that.
    ///
    /// # Errors
    /// The first difference.
    pub fn agrees(&self, model: &State, lost: &Lost) -> Result<(), String> {
        self.wrong(model)?;
        if (self.missing || self.unlisted > 0) && lost.names.is_empty() {
            return Err(
                "a directory cannot be listed, and no names are said to be lost".to_owned(),
            );
        }
        for (path, bytes) in model {
            let shown = String::from_utf8_lossy(path);
            let Some(seen) = self.files.get(path) else {
                let is_told = lost
                    .names
                    .iter()
                    .any(|at| at == b"/" || path.starts_with(at));
                if is_told {
                    continue;
                }
                return Err(format!("{shown} is missing, and that is not said"));
            };
            if seen.len != bytes.len() as u64 {
                return Err(format!(
                    "{shown} has {} bytes, not {}",
                    seen.len,
                    bytes.len()
                ));
            }
            let none = Vec::new();
            let ranges = lost.content.get(path).unwrap_or(&none);
            for (piece, start) in seen.pieces.iter().zip((0_u64..).step_by(PIECE)) {
                let end = (start + PIECE as u64).min(seen.len);
                let is_told = ranges.iter().any(|(from, to)| *from < end && start < *to);
                if is_told == piece.is_some() {
                    return Err(format!(
                        "{shown}, bytes {start} to {end}: said to be lost {is_told}, read {}",
                        piece.is_some()
                    ));
                }
            }
        }
        Ok(())
    }
}

/// What the living state must hold after the repair of a damage.
#[must_use]
pub fn living<'b>(base: &'b Base, inflicted: &Inflicted, repaired: &RepairReport) -> &'b State {
    if inflicted.fault == Fault::OlderDatabase {
        return &base.first;
    }
    if inflicted.sort == Sort::Database || !repaired.recovered.is_untouched() {
        // What came after the newest snapshot has no names without the database; here it is the same.
        return base.states.last().unwrap_or(&base.last);
    }
    &base.last
}

//! Reads everything that a vault shows: names, attributes, content, snapshots.
//!
//! Takes   an open vault that may be manipulated
//! Gives   what could be read, piece by piece; the first difference from every whole state
//! Never   reads without bound, or follows a link

use std::collections::{BTreeMap, BTreeSet};

use strongroom::filesystem::{Attributes, NodeKind};
use strongroom::{FileOptions, Links, Vault};

/// Bytes that are read at a time.
const PIECE: u64 = 16 * 1024;

/// The most nodes that are looked at: more than any template has.
const NODES_MAX: usize = 5_000;

/// The most bytes of one file that are read: more than any file of a template has.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What a look at a node gave: of each part nothing if it was an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Look {
    facts: Option<String>,
    target: Option<Vec<u8>>,
    xattrs: Option<BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
    pieces: Vec<Option<Vec<u8>>>,
}

/// What could be read of a vault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    names: BTreeMap<Vec<u8>, Option<BTreeSet<Vec<u8>>>>,
    nodes: BTreeMap<Vec<u8>, Look>,
    /// How many answers were errors.
    pub errors: u64,
    /// How many answers were given.
    pub answers: u64,
    /// More nodes than any state has.
    beyond: bool,
}

/// What of the attributes does not change by being looked at.
fn facts(node: &Attributes) -> String {
    format!(
        "{:?} {:o} {}:{} {:x} links {} size {} mtime {:?}",
        node.kind, node.mode, node.uid, node.gid, node.rdev, node.nlink, node.size, node.mtime
    )
}

impl Reading {
    /// Reads all of `vault`, its snapshots too.
    #[must_use]
    pub fn of(vault: &Vault) -> Self {
        let mut reading = Self::default();
        let mut open: Vec<Vec<u8>> = vec![b"/.history".to_vec(), Vec::new()];
        while let Some(path) = open.pop() {
            if reading.nodes.len() > NODES_MAX {
                reading.beyond = true;
                break;
            }
            reading.directory(vault, &path, &mut open);
        }
        reading
    }

    fn count<T, E>(&mut self, answer: Result<T, E>) -> Option<T> {
        match answer {
            Ok(answer) => {
                self.answers += 1;
                Some(answer)
            }
            Err(_) => {
                self.errors += 1;
                None
            }
        }
    }

    fn directory(&mut self, vault: &Vault, path: &[u8], open: &mut Vec<Vec<u8>>) {
        let at = if path.is_empty() { b"/" } else { path };
        let listed = vault.list(at).and_then(|listed| {
            let bounded = listed.take(NODES_MAX);
            bounded.collect::<Result<Vec<_>, _>>()
        });
        let Some(listed) = self.count(listed) else {
            self.names.insert(path.to_vec(), None);
            return;
        };
        let names = listed.iter().map(|entry| entry.name.clone()).collect();
        self.names.insert(path.to_vec(), Some(names));
        for entry in listed {
            let below = [path, b"/", &entry.name].concat();
            if entry.attributes.kind == NodeKind::Directory {
                open.push(below.clone());
            }
            let look = self.node(vault, &below, &entry.attributes);
            self.nodes.insert(below, look);
        }
    }

    fn node(&mut self, vault: &Vault, path: &[u8], listed: &Attributes) -> Look {
        let mut look = Look::default();
        let node = self.count(vault.attributes(path, Links::Stay));
        look.facts = node.as_ref().map(facts);
        if let Some(names) = self.count(vault.xattrs(path, Links::Stay)) {
            let values = names.into_iter().map(|name| {
                let value = self.count(vault.xattr(path, Links::Stay, &name));
                (name, value)
            });
            look.xattrs = Some(values.collect());
        }
        match node.map_or(listed.kind, |node| node.kind) {
            NodeKind::Symlink => look.target = self.count(vault.read_link(path)),
            NodeKind::File => look.pieces = self.content(vault, path),
            _ => {}
        }
        look
    }

    fn content(&mut self, vault: &Vault, path: &[u8]) -> Vec<Option<Vec<u8>>> {
        let file = vault.open_file(path, FileOptions::new().read());
        let Some(file) = self.count(file) else {
            return Vec::new();
        };
        let Some(node) = self.count(file.attributes()) else {
            return Vec::new();
        };
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < node.size.min(FILE_BYTES_MAX) {
            let mut piece = vec![0; usize::try_from(PIECE.min(node.size - at)).unwrap_or(0)];
            let read = self.count(file.read_at(&mut piece, at));
            pieces.push(read.map(|count| {
                piece.truncate(count);
                piece
            }));
            at += PIECE;
        }
        pieces
    }

    /// Whether every answer is the one that `state` gives, which was read without any error.
    ///
    /// # Errors
    /// The first that is not.
    pub fn is_of(&self, state: &Self) -> Result<(), String> {
        if self.beyond {
            return Err(format!("more than {NODES_MAX} nodes"));
        }
        for (path, names) in &self.names {
            let shown = path.escape_ascii();
            match (names, state.names.get(path)) {
                (None, _) => {}
                (Some(names), Some(Some(right))) if names == right => {}
                (Some(names), Some(Some(right))) => {
                    let odd = names.symmetric_difference(right);
                    let odd: Vec<_> = odd.map(|name| name.escape_ascii().to_string()).collect();
                    return Err(format!(
                        "the names in {shown}/ differ in {}",
                        odd.join(", ")
                    ));
                }
                (Some(_), _) => return Err(format!("{shown}/ is listed, and is no directory")),
            }
        }
        for (path, look) in &self.nodes {
            if let Some(right) = state.nodes.get(path) {
                look.is_of(right)
                    .map_err(|what| format!("{}: {what}", path.escape_ascii()))?;
            }
        }
        Ok(())
    }

    /// The content of the file at `path`, if all of it was read.
    #[must_use]
    pub fn bytes(&self, path: &[u8]) -> Option<Vec<u8>> {
        let pieces = &self.nodes.get(path)?.pieces;
        let pieces: Option<Vec<&Vec<u8>>> = pieces.iter().map(Option::as_ref).collect();
        Some(pieces?.into_iter().flatten().copied().collect())
    }
}

impl Look {
    fn is_of(&self, right: &Self) -> Result<(), String> {
        if let (Some(facts), Some(right)) = (&self.facts, &right.facts)
            && facts != right
        {
            return Err(format!("it is said to be {facts}, and is {right}"));
        }
        if self.target.is_some() && self.target != right.target {
            return Err("it points elsewhere".to_owned());
        }
        if self.xattrs.is_some() && !self.same_xattrs(right) {
            return Err("it has other extended attributes".to_owned());
        }
        for (index, piece) in self.pieces.iter().enumerate() {
            let Some(piece) = piece else { continue };
            let wrong = match right.pieces.get(index) {
                Some(Some(right)) if right == piece => continue,
                _ if piece.iter().all(|byte| *byte == 0) => "zeros that nobody wrote",
                _ => "content that is not its own",
            };
            return Err(format!("from byte {}: {wrong}", index as u64 * PIECE));
        }
        Ok(())
    }

    fn same_xattrs(&self, right: &Self) -> bool {
        let (Some(mine), Some(right)) = (&self.xattrs, &right.xattrs) else {
            return false;
        };
        mine.len() == right.len()
            && mine.iter().all(|(name, value)| match right.get(name) {
                Some(right) => value.is_none() || value == right,
                None => false,
            })
    }
}

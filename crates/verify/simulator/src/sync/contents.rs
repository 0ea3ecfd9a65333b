//! Contents that say what they are: a file is a list of pieces, each with a number that no other has.
//!
//! Takes   numbers and lengths of pieces
//! Gives   their bytes; the numbers in a content, if it is made of whole pieces and nothing else

use std::collections::{BTreeSet, HashSet};

use crate::random::Choices;

/// The number of a piece: from 0, in the order in which they were written.
pub(crate) type Piece = usize;

/// Number and length, 8 bytes each.
const HEAD: usize = 16;

/// What was written, by whom it was removed, and what must be there in the end.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// The length of each piece that was written.
    lens: Vec<usize>,
    /// Contents that a file had at a time.
    contents: HashSet<Vec<Piece>>,
    /// Names that somebody gave.
    pub(crate) names: BTreeSet<String>,
    /// Pieces that are durable and at the remote.
    pub(crate) published: BTreeSet<Piece>,
    /// Pieces that somebody removed who knew of them.
    pub(crate) removed: BTreeSet<Piece>,
}

fn bytes(number: Piece, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&(number as u64).to_le_bytes());
    bytes.extend_from_slice(&(len as u64).to_le_bytes());
    bytes.extend(Choices::new(number as u64).bytes(len - HEAD));
    bytes
}

impl Truth {
    /// A new piece.
    pub(crate) fn piece(&mut self, len: usize) -> Piece {
        self.lens.push(len.max(HEAD));
        self.lens.len() - 1
    }

    pub(crate) fn len(&self, pieces: &[Piece]) -> usize {
        pieces.iter().map(|piece| self.lens[*piece]).sum()
    }

    pub(crate) fn bytes(&self, pieces: &[Piece]) -> Vec<u8> {
        let each = pieces.iter().map(|piece| bytes(*piece, self.lens[*piece]));
        each.collect::<Vec<_>>().concat()
    }

    /// Notes that a file has this content from now on.
    pub(crate) fn gave(&mut self, content: &[Piece]) {
        self.contents.insert(content.to_vec());
    }

    /// The pieces of a content that somebody gave a file.
    pub(crate) fn read(&self, content: &[u8]) -> Result<Vec<Piece>, String> {
        let mut pieces = Vec::new();
        let mut rest = content;
        while !rest.is_empty() {
            let number = rest.first_chunk().map(|head| u64::from_le_bytes(*head));
            let number = number.map_or(usize::MAX, |number| number as usize);
            let known = self.lens.get(number).filter(|len| **len <= rest.len());
            let is_it = known.filter(|len| bytes(number, **len) == rest[..**len]);
            let Some(len) = is_it else {
                let at = content.len() - rest.len();
                return Err(format!(
                    "bytes that nobody wrote, behind {pieces:?} at {at}"
                ));
            };
            pieces.push(number);
            rest = &rest[*len..];
        }
        match pieces.is_empty() || self.contents.contains(&pieces) {
            true => Ok(pieces),
            false => Err(format!("pieces that nobody put together: {pieces:?}")),
        }
    }
}

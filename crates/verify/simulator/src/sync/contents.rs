//! Recognizable contents: a file is a list of pieces, each with a unique number.
//!
//! Takes   numbers and lengths of pieces
//! Gives   their bytes; and for any content the numbers in it, if it consists only of whole pieces in a combination that
//!         some device wrote. A content of lines is also accepted if each line occurs once, because merges combine lines

use std::collections::{BTreeSet, HashSet};

use crate::random::Choices;

/// The number of a piece: from 0, in the order in which they were written.
pub(crate) type Piece = usize;

/// Number and length, 8 bytes each; of a line its beginning, 10 digits and a space.
const HEAD: usize = 16;

/// How a piece that is a line begins: as no number does that a piece of bytes can have.
const LINE: &[u8] = b"line ";

/// What a piece is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Bytes that are no text.
    Bytes,
    /// One line of text.
    Line,
}

/// What was written, by whom it was removed, and what must be there in the end.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// The length and form of each piece that was written.
    lens: Vec<(usize, Form)>,
    /// Contents that a file had at a time.
    contents: HashSet<Vec<Piece>>,
    /// Names that somebody gave.
    pub(crate) names: BTreeSet<String>,
    /// Pieces that are durable and at the remote.
    pub(crate) published: BTreeSet<Piece>,
    /// Pieces that somebody removed who knew of them.
    pub(crate) removed: BTreeSet<Piece>,
    /// Those of them whose erasure is published.
    pub(crate) erased: BTreeSet<Piece>,
}

fn bytes(number: Piece, (len, form): (usize, Form)) -> Vec<u8> {
    if form == Form::Line {
        let mut line = format!("line {number:010} ").into_bytes();
        line.resize(len - 1, b'x');
        line.push(b'\n');
        return line;
    }
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&(number as u64).to_le_bytes());
    bytes.extend_from_slice(&(len as u64).to_le_bytes());
    bytes.extend(Choices::new(number as u64).bytes(len - HEAD));
    bytes
}

impl Truth {
    /// A new piece.
    pub(crate) fn piece(&mut self, len: usize, form: Form) -> Piece {
        self.lens.push((len.max(HEAD + 1), form));
        self.lens.len() - 1
    }

    pub(crate) fn form(&self, piece: Piece) -> Form {
        self.lens[piece].1
    }

    pub(crate) fn len(&self, pieces: &[Piece]) -> usize {
        pieces.iter().map(|piece| self.lens[*piece].0).sum()
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
            let number = number_of(rest).unwrap_or(usize::MAX);
            let known = self.lens.get(number).filter(|one| one.0 <= rest.len());
            let is_it = known.filter(|one| bytes(number, **one) == rest[..one.0]);
            let Some((len, _)) = is_it else {
                let at = content.len() - rest.len();
                let (len, some) = (content.len(), &rest[..rest.len().min(HEAD)]);
                return Err(format!(
                    "bytes that nobody wrote, behind {pieces:?} at {at} of {len}: {some:02x?}"
                ));
            };
            pieces.push(number);
            rest = &rest[*len..];
        }
        let are_lines = || pieces.iter().all(|piece| self.form(*piece) == Form::Line);
        let are_once = || pieces.iter().collect::<HashSet<_>>().len() == pieces.len();
        match self.contents.contains(&pieces) || (are_lines() && are_once()) {
            true => Ok(pieces),
            false => Err(format!("pieces that nobody put together: {pieces:?}")),
        }
    }
}

/// The number that the first piece of `content` says it has.
fn number_of(content: &[u8]) -> Option<Piece> {
    if let Some(line) = content.strip_prefix(LINE) {
        return std::str::from_utf8(line.get(..10)?).ok()?.parse().ok();
    }
    let number = u64::from_le_bytes(*content.first_chunk()?);
    usize::try_from(number).ok()
}

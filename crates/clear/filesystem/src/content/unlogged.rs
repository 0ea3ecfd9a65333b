//! Tracks which bytes of a file a record of the intent log could hold: those written since the file was last durable.
//!
//! Takes   notes of writes and of other changes
//! Gives   the written ranges, as long as nothing else changed
//! Never   does I/O; the invariants are those of `commit/intents.rs`

use std::ops::Range;

use strongroom_format::limits::{BLOCK_BYTES_MAX, INTENT_PIECES_MAX};

/// Of one node: what was written that neither a durable commit nor a record has.
#[derive(Debug, Default)]
pub(crate) struct Unlogged {
    /// The count of changes that must be durable before a record may build on it; `None` while only a commit can make durable
    /// all that changed.
    settled_at: Option<u64>,
    /// What was written since. Ranges may overlap: content is taken when the record is made.
    pub(crate) ranges: Vec<Range<u64>>,
    /// Their lengths together.
    pub(crate) bytes: u64,
    /// Times were set since, and nothing else: a record of what is written tells them too.
    pub(crate) times: bool,
    /// The content version of that commit, or of the last record.                                             (1)
    pub(crate) base: u64,
    /// The last record; 0 if there is none.
    pub(crate) sequence: u64,
}

impl Unlogged {
    /// Bytes were written to `range`.
    pub(crate) fn note_write(&mut self, range: Range<u64>) {
        if self.settled_at.is_none() {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => {
                self.bytes += range.end - range.start;
                last.end = range.end;
            }
            Some(last) if last.start <= range.start && range.end <= last.end => {}
            _ => {
                self.bytes += range.end - range.start;
                self.ranges.push(range);
            }
        }
        if self.ranges.len() > INTENT_PIECES_MAX || self.bytes > BLOCK_BYTES_MAX as u64 {
            self.note_other();
        }
    }

    /// Only the times of the last change have changed.
    pub(crate) fn note_times(&mut self) {
        self.times = true;
    }

    /// Something else changed.
    pub(crate) fn note_other(&mut self) {
        self.settled_at = None;
        self.ranges = Vec::new();
        self.bytes = 0;
        self.times = false;
    }

    /// (2): the content begins to leave memory.
    pub(crate) fn note_drain(&mut self) {
        if !self.ranges.is_empty() {
            self.note_other();
        }
    }

    /// The commit that covers `covered` changes has all of the node, content of `version`.
    pub(crate) fn note_stored(&mut self, covered: u64, version: u64) {
        self.settled_at = Some(covered);
        self.ranges.clear();
        self.bytes = 0;
        self.times = false;
        self.base = version;
    }

    /// A commit that covers `covered` changes is durable, and the node was not changed in this run.
    pub(crate) fn note_unchanged(&mut self, covered: u64, version: u64) {
        if self.settled_at.is_none() {
            self.note_stored(covered, version);
        }
    }

    /// Whether a record can tell all that is not durable.
    pub(crate) fn fits(&self, durable: u64) -> bool {
        // A record is known by the version of its content, and changed times alone make no new one.
        let is_telling = !self.times || !self.ranges.is_empty();
        is_telling && self.settled_at.is_some_and(|at| at <= durable)
    }
}

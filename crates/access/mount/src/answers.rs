//! Knows whether the kernel may still cache an answer that was made before a change.
//!
//! Takes   the beginning and the end of each request whose answer describes a node
//! Gives   whether such an answer may undo the notification of a change
//! Never   waits
//!
//! The kernel processes an answer some time after the mount has sent it. It ignores an answer to LOOKUP or READDIRPLUS
//! if, since the request, it was notified about the node; but it can remember a notification only for a node that it
//! already knows. It always accepts an answer to a request that changes a node.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::counters::Opcode;
use crate::limits;

/// The answers of one mount that describe nodes.
#[derive(Default)]
pub(crate) struct Answers {
    /// Requests that are being answered.
    open: AtomicUsize,
    changes: Mutex<Changes>,
}

/// Requests that change the node which their answer describes.
#[derive(Default)]
struct Changes {
    open: usize,
    last_answered: Option<Instant>,
}

/// One such request. To be dropped when its answer was sent.
pub(crate) struct Answer<'a> {
    answers: &'a Answers,
    is_change: bool,
}

impl Answers {
    /// A request begins. `None` if its answer describes no node, or if the kernel always compares it with notifications.
    pub(crate) fn begin(&self, opcode: Opcode) -> Option<Answer<'_>> {
        let is_change = match opcode {
            Opcode::Lookup | Opcode::Readdirplus => false,
            Opcode::Mknod | Opcode::Mkdir | Opcode::Symlink | Opcode::Link | Opcode::Setattr => {
                true
            }
            _ => return None,
        };
        self.open.fetch_add(1, Ordering::Relaxed);
        if is_change {
            self.changes.lock().open += 1;
        }
        Some(Answer {
            answers: self,
            is_change,
        })
    }

    /// Whether one is under way that may describe a node which the kernel does not know. Of one that is not under way any more,
    /// `References` has the nodes.
    pub(crate) fn is_any_open(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }

    /// Whether the kernel may, at the time `now`, have to take in one that it always believes.
    pub(crate) fn is_any_change_open(&self, now: Instant) -> bool {
        let changes = self.changes.lock();
        let is_recent = |last| now.saturating_duration_since(last) < limits::TAKEN_IN;
        changes.open > 0 || changes.last_answered.is_some_and(is_recent)
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if self.is_change {
            let mut changes = self.answers.changes.lock();
            changes.open -= 1;
            changes.last_answered = Some(Instant::now());
        }
        // Who sees that it has ended sees its references, too.
        self.answers.open.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_answer_that_the_kernel_believes_counts_until_it_is_surely_taken_in() {
        let (answers, begin) = (Answers::default(), Instant::now());
        assert!(answers.begin(Opcode::Getattr).is_none());
        let lookup = answers.begin(Opcode::Lookup);
        assert!(answers.is_any_open() && !answers.is_any_change_open(begin));
        drop(lookup);
        assert!(!answers.is_any_open());
        let change = answers.begin(Opcode::Link);
        let later = begin + Duration::from_secs(100_000);
        assert!(answers.is_any_open() && answers.is_any_change_open(later));
        drop(change);
        assert!(!answers.is_any_open());
        assert!(answers.is_any_change_open(begin) && !answers.is_any_change_open(later));
    }
}

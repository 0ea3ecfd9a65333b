//! Histories of several devices of one vault, each from one seed: they write, sync over a bad line, are killed, come and go.
//!
//! Takes   a seed: devices, steps, faults and clocks follow from it
//! Gives   that the history was sound, or the first violation, and what was done until then
//! Never   waits, or works in the background: each step is done before the next begins
//! Spec    spec/11-sync.md; docs/guide/sync.md
//!
//! `strongroom-sim sync --seeds N --tell` repeats the history of seed N and tells each step; it does but for one thing: the system draws keys and ids. So requests about objects of one push or pull, which
//! are sorted by hash, may come in another order, and a fault may meet another one of them.
//!
//! What must hold:
//!  (1) Nothing but a fault that was made, or a case that the guide names, keeps anybody from working.
//!  (2) Every content is one that somebody gave a file, or lines of several of them, each once; every name is one that somebody gave, a
//!      conflict name, or `moved`.
//!  (3) Without faults all come to one tree, in a bounded number of rounds, and then have nothing to say any more.
//!  (4) What was acknowledged as durable is there then, unless somebody who knew of it removed it.
//!  (5) All are sound then: `verify --deep`, `check`, `remote check --deep`; a newcomer has the same.
//!  (6) A device that was removed publishes nothing once that was published.
//!  (7) A sync seals no content again while keys stay, but for texts that it merges.

mod asked;
mod command;
mod contents;
mod device;
mod files;
mod folders;
mod history;
pub mod hostile;
mod judge;
mod lies;
mod stage;
mod steps;
mod whole_lies;

pub use command::{command, hostile_command, mode};
pub use history::{Mode, Story, run};

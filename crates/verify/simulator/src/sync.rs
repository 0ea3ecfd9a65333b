//! Random histories of several devices of one vault, each from one seed: devices write, sync over a faulty line, are
//! killed, erase, join and leave. The remote is in memory, or at a server. The server is a process that is killed, started
//! again and restored from a backup, and others deposit files there.
//!
//! Takes   a seed, which determines devices, steps, faults and clocks; where the remote is
//! Gives   that the history was correct; or the first violation, and the steps before it
//! Never   waits, or works in the background: each step is done before the next begins
//! Spec    spec/6-history.md, section 6.11; spec/11-sync.md, spec/12-inbox.md; docs/guide/sync.md
//!
//! `target/debug/strongroom-sim sync --seeds N --tell`, built with the feature `testing`, repeats the history of seed N and prints each
//! step. A history at a server is repeated only with `--remote server`: without it, the same seed runs in memory and is another history.
//! It also needs `cargo build -p strongroom-server`. The repetition is exact, except that keys and ids are random. Requests for the
//! objects of one push or pull are sorted by hash. So their order may differ, and a fault may hit another request. With
//! `--remote server`, how much of a request the server has carried out when it is killed depends on real time, and so
//! does how often the client tries again.
//!
//! Rules:
//!  (1) Only an injected fault, or a case that the guide names, keeps a device from working.
//!  (2) Every content was written to a file by some device, or consists of lines of several such contents, each once.
//!      Every name was given by some device, or is a conflict name or `moved`.
//!  (3) Without faults all devices reach the same tree in a bounded number of rounds, and then have nothing left to publish.
//!  (4) At the end all data acknowledged as durable exists, unless a device that knew of it removed it.
//!  (5) At the end all devices are sound, by `verify --deep`, `check` and `remote check --deep`; a new device gets the same tree.
//!  (6) A removed device publishes nothing once its removal was published.
//!  (7) While keys stay the same, a sync seals no content again, except texts that it merges.
//!  (8) Devices do not notice that a server was killed and started again. `strongroom-server check` finds no problem, and no file
//!      without an object.
//!  (9) Every device notices that a server was restored from an older backup, and then syncs nothing. Once all use a new, empty vault there,
//!      as the guide says, (3) to (5) and (7) hold, for everything that was published before.
//! (10) At the end each deposit that a server acknowledged is in `/Inbox` of every device once, and any other at most once. None waits at
//!      the server. Depositors do not notice that the server was killed.
//! (11) At the end, if an erasure was published, its content is in no snapshot of any device, in no segment of a device after compaction, and
//!      in no segment of the remote. At a server, and where an older copy of a folder was used, only (12) is checked.
//! (12) No snapshot lost other content by an erasure.
//! (13) Erased content never prevents a clone, with content or on demand, and no clone reports it as lost. Where an older copy of a folder
//!      was used, a clone may report it so.

mod asked;
mod command;
mod contents;
mod deposits;
mod device;
mod erasures;
mod files;
mod folders;
mod history;
pub mod hostile;
mod judge;
mod lies;
mod server;
mod server_steps;
mod stage;
mod steps;
mod whole_lies;

pub use command::{command, hostile_command, mode};
pub use history::{Mode, RemoteKind, Story, run};

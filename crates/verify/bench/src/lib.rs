//! Measures how fast a directory is, by the workloads that `docs/performance.md` explains. The sync is inside the timed
//! part of each.
//!
//! Takes   a directory, sizes, and a way to make written content durable
//! Gives   figures by row; with the feature `harness` also every installed peer, a table, JSON and charts
//! Never   judges: times are shown, and no test depends on one
#![forbid(unsafe_code)]

#[cfg(feature = "harness")]
pub mod chart;
mod content;
#[cfg(feature = "harness")]
mod disk;
mod figures;
#[cfg(feature = "charts")]
mod ink;
pub mod interrupt;
#[cfg(feature = "harness")]
pub mod kept;
mod machine;
mod place;
#[cfg(feature = "harness")]
pub mod probe;
#[cfg(feature = "charts")]
pub mod provider_chart;
#[cfg(feature = "harness")]
mod records;
#[cfg(feature = "harness")]
pub mod report;
mod row;
#[cfg(feature = "harness")]
pub mod run;
mod saved;
#[cfg(feature = "harness")]
pub mod serve;
mod sizes;
#[cfg(feature = "harness")]
pub mod system;
mod workloads;

pub use content::Content;
pub use figures::{Figures, figure, median};
pub use machine::{Machine, is_root, today};
pub use place::{Place, Span};
pub use row::{Better, Promise, ROWS, Row, RowFacts, parse_rows};
pub use saved::new_folder;
pub use sizes::Sizes;
pub use workloads::{GROUPS, Group, bench_directory, warm_up};

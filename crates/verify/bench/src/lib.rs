//! How fast a directory is: the workloads that `docs/performance.md` explains, each with its sync inside the timed part.
//!
//! Takes   a directory, sizes, and how to make what was written there durable
//! Gives   figures by row; with the feature `harness` also every installed peer, a table, JSON and charts
//! Never   judges: times are shown, no test depends on one
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

//! Reads `bindings/conformance.toml`, the table of what a vault does in every language. Its head explains each line.
//!
//! Takes   the text of the table
//! Gives   its cases, for the runner of each language; malformed parts are named
//! Never   carries out a step: `tests/rust` does, with the library; `bindings/c` does, with a program in C
#![forbid(unsafe_code)]

mod errno;
mod table;
mod value;

pub use errno::errno;
pub use table::{Begin, Case, Outcome, Step, Table};
pub use value::Value;

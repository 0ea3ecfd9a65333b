//! Measures the providers on this machine against one another, and makes a choice from the results.
//!
//! Takes   a clock, and a time limit
//! Gives   figures, and the `Choice` that follows from them
//! Never   applies a choice, or affects the format
//! Spec    none; why these rules: docs/adr/0010-providers-measured.md

pub mod benchmark;
pub mod figure;
pub mod measured;
mod operation;
pub mod sharing;

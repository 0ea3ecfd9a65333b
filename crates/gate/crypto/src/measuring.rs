//! Measures the providers of this machine against one another, and says what follows.
//!
//! Takes   a clock, and how long it may take
//! Gives   figures, and the `Choice` that follows from them
//! Never   sets a choice, or shows in the format
//! Spec    none; why these rules: docs/adr/0010-providers-measured.md

pub mod benchmark;
pub mod figure;
pub mod measured;
mod operation;
pub mod sharing;

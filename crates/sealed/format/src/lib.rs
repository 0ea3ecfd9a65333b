//! The types and bytes of a vault, as the specification writes them down.
//!
//! Takes   bytes, or values of the types below
//! Gives   the other of the two, or a `FormatError` that names what is wrong
//! Never   reads, writes, asks the time, or panics on any input
//! Spec    spec/
#![forbid(unsafe_code)]

pub mod block;
pub mod limits;
pub mod segment;

pub use block::{BlockId, Epoch, Kind, Location, SealedBlock, SegmentId, SuiteId, VaultId};

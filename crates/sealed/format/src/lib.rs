//! The types and bytes of a vault, as the specification defines them.
//!
//! Takes   bytes, or values of the types below
//! Gives   bytes for values, values for bytes; or a `FormatError` that names the fault
//! Never   reads or writes files, reads the clock, or panics on any input
//! Spec    spec/
#![forbid(unsafe_code)]

pub mod block;
pub mod cbor;
pub mod deposit;
pub mod error;
pub mod header;
mod header_json;
pub mod hex;
pub mod index;
pub mod intent;
mod json_file;
pub mod limits;
pub mod membership;
pub mod pairing;
pub mod publication;
pub mod replica;
pub mod segment;
pub mod span;
pub mod survey;
mod withheld;

pub use block::{
    BlockHead, BlockId, Epoch, Kind, Location, SealedBlock, SegmentId, SuiteId, VaultId,
};
pub use error::FormatError;
pub use header::{Argon2Parameters, Grant, Header, Lock, Slot, SlotId, SlotKind, StoredHeader};
pub use json_file::FORMAT;
pub use membership::{
    Change, Commitment, PrincipalId, PublicKeys, Record, RecordBody, RecordId, Role,
};
pub use replica::{InstanceId, ReplicaFile, ReplicaFormat};
pub use span::chunk_span;

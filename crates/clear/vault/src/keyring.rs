//! The keys of an open vault, and the files and settings of its folder that depend on them.
//!
//! Takes   a vault folder, and a secret or keys that this process had before
//! Gives   the keys in use; headers and membership records that continue those seen before; a replica file of the newest epoch
//! Never   asks for a secret, or knows of sessions and requests in progress
//! Spec    spec/1-keys.md

pub(crate) mod copied;
pub(crate) mod held_keys;
pub(crate) mod known_records;
pub(crate) mod metadata_key;
pub(crate) mod own_replica;
pub(crate) mod unlocked;

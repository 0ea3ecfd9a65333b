//! The native part of the Python package `strongroom`: the vault API as functions that Python can call.
//!
//! Takes   calls of `strongroom/*.py`, the API for Python programs
//! Gives   numbers, bytes and dictionaries; errors as the exceptions of `strongroom/_errors.py`
//! Never   decides what Python programs expect of a file or a path: the Python sources do
//!
//! Invariants
//!  (1) The interpreter's lock is released in every call that uses the vault.                           [calls]
//!  (2) A process that was forked from the one that opened a vault uses nothing of that vault.             [opened]
//!  (3) Nothing here is `unsafe`: bytes are copied between Python's objects and the vault's, in pieces.   [file]

mod attributes;
mod calls;
mod error;
mod file;
mod history;
mod keys;
mod names;
mod opened;
mod pairing;
mod remotes;
mod secrets;
mod space;
mod told;
mod transaction;
mod vault;
mod whole;

/// What `strongroom/*.py` calls.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    const _BLOCK_BYTES: u32 = super::attributes::BLOCK_BYTES;
    #[pymodule_export]
    use super::attributes::stat_result;
    #[cfg(feature = "panic-test")]
    #[pymodule_export]
    use super::calls::panics;
    #[pymodule_export]
    use super::calls::wait_for_calls;
    #[pymodule_export]
    use super::file::{File, open_file};
    #[pymodule_export]
    use super::history::{
        Snapshot, differences, erase, read_snapshot, remove_snapshot, restore, retention,
        select_snapshots, set_retention, shared_retention, take_snapshot, thin, usage,
    };
    #[pymodule_export]
    use super::keys::{Keys, key_slots, new_key_file, new_recovery_code, open_keys};
    #[pymodule_export]
    use super::names::{
        Listing, get_xattr, link, list_directory, list_xattrs, make_directories, make_directory,
        make_node, make_symlink, read_link, remove_directory, remove_file, remove_tree,
        remove_xattr, rename, set_attributes, set_xattr, stat,
    };
    #[pymodule_export]
    use super::pairing::{Candidate, Invitation, NewDevice, invite, new_device};
    #[pymodule_export]
    use super::remotes::{
        ContinuousSync, add_remote, check_remote, clone, conflicts, keep_in_sync, limit_remotes,
        pull, push, remote_status, remotes, remove_remote, settle_conflict, sync_with,
    };
    #[pymodule_export]
    use super::space::{
        bring_back, evict, evict_to_limit, keep_at_most, pin, pins, prune_remote, set_keep_at_most,
        unpin, unused_at_remote,
    };
    #[pymodule_export]
    use super::transaction::{Transaction, begin, replace};
    #[pymodule_export]
    use super::vault::{Vault, create, open};
    #[pymodule_export]
    use super::whole::{accept_records, backup, check, information, rotation, space, sync, verify};

    /// Runs when the module is loaded.
    #[pymodule_init]
    fn set_panic_hook(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        super::calls::hide_messages_of_panics();
        Ok(())
    }
}

//! The progress of a rotation of keys, in the public API.
//!
//! Takes   a vault, whichever process owns it
//! Gives   the work that `execute/rotation.rs` has done, and the work that is left

use crate::execute::rotation::Step;
use crate::owner::port::Port;
use crate::request::{Request, Rotation, WholeRequest};
use crate::{Error, Result, Vault};

impl Vault {
    /// How far a rotation of keys is; see `Keys::rotate`.
    ///
    /// # Errors
    /// Of the stores.
    pub fn rotation(&self) -> Result<Rotation> {
        self.ask_for(&Request::Whole(WholeRequest::Rotation))
    }

    /// Does one step of a rotation in the caller's thread, for a vault that does nothing in the background; gives whether
    /// more is left to do.
    ///
    /// # Errors
    /// `OwnerOnly` if another process owns the vault; those of the stores and the disk.
    #[doc(hidden)]
    pub fn rotate_step(&self) -> Result<bool> {
        match self.port() {
            Port::Owner(owner) => Ok(owner.session.vault.rotate_step()? == Step::More),
            _ => Err(Error::OwnerOnly("a step of a rotation")),
        }
    }
}

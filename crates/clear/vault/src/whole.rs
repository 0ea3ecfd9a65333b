//! Calls about a vault as a whole: its space, its facts, its structure.

use std::sync::atomic::Ordering;

use strongroom_filesystem::Space;

use crate::request::{CheckReport, Information, Request, WholeRequest};
use crate::{Result, Vault};

impl Vault {
    /// How full the disk, or the quota, is.
    ///
    /// # Errors
    /// If the disk does not say.
    pub fn space(&self) -> Result<Space> {
        self.ask_for(&Request::Whole(WholeRequest::Space))
    }

    /// Barrier: everything done so far is durable on return.
    ///
    /// # Errors
    /// If the disk fails, the vault accepts no change until it is opened again. `OwnerGone`, once, if another process owned the vault and
    /// was killed before changes made through this `Vault` were durable: which of them are there, only a look can tell. What was done
    /// since is durable then too.
    pub fn sync(&self) -> Result<()> {
        let written = self.shared.writes.load(Ordering::Acquire);
        let (port, done) = self.ask(&Request::Whole(WholeRequest::Sync))?;
        <()>::try_from(done)?;
        port.note_synced(written);
        self.shared.check_no_loss()
    }

    /// What the vault is.
    ///
    /// # Errors
    /// `OwnerGone`.
    pub fn information(&self) -> Result<Information> {
        self.ask_for(&Request::Whole(WholeRequest::Information))
    }

    /// Notes that a person knows of every membership record so far: those that nobody here made are shown until then.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub fn accept_records(&self) -> Result<()> {
        self.ask_for(&Request::Whole(WholeRequest::AcceptRecords))
    }

    /// What was counted since the owner opened the vault: names and numbers.
    ///
    /// # Errors
    /// `OwnerGone`.
    pub fn counters(&self) -> Result<Vec<(String, u64)>> {
        self.ask_for(&Request::Whole(WholeRequest::Counters))
    }

    /// Checks the structure: every table against every other.
    ///
    /// # Errors
    /// Only if the check itself cannot run; what it finds is in the report.
    pub fn check(&self) -> Result<CheckReport> {
        self.ask_for(&Request::Whole(WholeRequest::Check))
    }

    /// Gives the space of removed content back now, instead of when the vault is idle.
    ///
    /// # Errors
    /// What was moved until an error stays moved.
    pub fn compact(&self) -> Result<()> {
        self.ask_for(&Request::Whole(WholeRequest::Compact))
    }
}

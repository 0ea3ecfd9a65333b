//! Supports a backup of the vault folder: meanwhile segment files stay, and the database is copied in one state.
//!
//! Takes   an empty folder for the database
//! Gives   the database as it is at one moment; every segment that it names stays until the backup ends
//! Never   blocks readers, or blocks writers for longer than the copy of the database takes
//!
//! Invariants
//!  (1) No segment that the copied database names is removed while a `KeptSegments` from before the copy exists.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use strongroom_metadata::Copying;

use crate::commit::commits::{behind_a_commit, once_nobody_reads};
use crate::commit::intents;
use crate::core::Core;
use crate::{Filesystem, Result};

/// As long as one lives, no segment file is removed.                                                           (1)
#[derive(Debug)]
pub struct KeptSegments {
    core: Arc<Core>,
}

/// What becomes of segments that are there, and that the database does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strangers {
    /// A verification reports them.
    Told,
    /// An interrupted backup brought them.
    PassedOver,
}

impl Drop for KeptSegments {
    fn drop(&mut self) {
        self.core.blocks.keepers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Filesystem {
    /// Keeps every segment file that is there.
    #[must_use]
    pub fn keep_segments(&self) -> KeptSegments {
        // Whoever removes one looks while it holds the writer.
        let _writer = self.core.store.lock();
        self.core.blocks.keepers.fetch_add(1, Ordering::AcqRel);
        KeptSegments {
            core: Arc::clone(&self.core),
        }
    }

    /// Copies the database, with everything that was acknowledged before. The copy needs no log of small syncs.
    ///
    /// # Errors
    /// `ReadOnly`, `Failed`, `NoSpace`; then what lies in the folder is of no use.
    pub fn copy_database(&self, copying: &Copying<'_>) -> Result<()> {
        once_nobody_reads(&self.core, || {
            intents::without_log(&self.core, || {
                self.sync()?;
                behind_a_commit(&self.core, |writer| writer.copy(copying))
            })
        })
    }
}

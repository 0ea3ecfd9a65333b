//! The report of a recovery: what it did, and what it could not do.

use crate::request::history::RevisionInfo;
use crate::{Damage, FileProblem, Loss};

/// What was done about a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Brought {
    /// It was sound.
    #[default]
    Sound,
    /// The second copy was put in its place.
    PutBack,
    /// It was sound, and what was behind its last page was cut off.
    Cut,
    /// It was rebuilt. With the name under which the old one is kept, if there was one.
    Rebuilt(Option<String>),
}

/// What a recovery did, and what it could not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverReport {
    /// The header.
    pub header: Brought,
    /// This copy's own facts; rebuilt, it acts as a new device.
    pub replica: Brought,
    /// The database.
    pub database: Brought,
    /// The state in which the vault is now, if its database was rebuilt and there was one.
    pub revision: Option<RevisionInfo>,
    /// How many revisions are kept.
    pub revisions: u64,
    /// Revisions whose record or whose root is lost.
    pub lost_revisions: Vec<String>,
    /// Nodes that were brought back.
    pub nodes: u64,
    /// Their content in bytes.
    pub bytes: u64,
    /// What is lost of them.
    pub damages: Vec<Damage>,
    /// Segment files that stood under the name of another, and got their own back.
    pub renamed: u64,
    /// Files of the vault folder that are damaged, or not of this vault.
    pub files: Vec<FileProblem>,
    /// Blocks that snapshots name and that are nowhere, without those that were erased by what the tree of the newest snapshot notes. Where
    /// nothing was noted, erased ones are among them.
    pub missing_blocks: u64,
    /// Files with content that no snapshot names, in `lost+found`, and their bytes.
    pub unnamed: (u64, u64),
    /// Files of the living state of which it is not known where all of their content was.
    pub(crate) unlisted: u64,
}

impl RecoverReport {
    /// Whether everything was brought back, as far as anybody can tell.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let is_nothing_newer = match self.database {
            // Content that no snapshot names was stored behind the newest one, or removed; nothing says which.
            Brought::Rebuilt(_) => self.revision.is_some() && self.unnamed.0 == 0,
            _ => true,
        };
        is_nothing_newer
            && self.lost_revisions.is_empty()
            && self.damages.is_empty()
            && self.files.is_empty()
    }

    /// Whether the state has every node of the tree of its revision: only bytes of files may be lost, and everybody knows which.
    pub(crate) fn has_whole_tree(&self) -> bool {
        let is_content = |damage: &Damage| matches!(damage.what, Loss::Content(..));
        self.unlisted == 0 && self.damages.iter().all(is_content)
    }

    /// Whether something may have been lost of which nothing is left to tell: names, attributes and small content that were
    /// newer than the newest snapshot lay in the lost database alone.
    #[must_use]
    pub const fn may_lack_newer(&self) -> bool {
        matches!(self.database, Brought::Rebuilt(_))
    }

    /// Whether header, replica file and database were sound, and every segment had its name.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        let brought = [&self.header, &self.replica, &self.database];
        self.renamed == 0
            && brought
                .into_iter()
                .all(|brought| *brought == Brought::Sound)
    }
}

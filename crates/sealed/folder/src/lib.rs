//! The one way to open files below a vault folder. An attacker who changes the folder cannot use it to make Strongroom
//! read or write outside.
//!
//! Takes   a trusted path that the user gave; untrusted names below it
//! Gives   regular files with one name, real folders, and replacement that leaves the old or the new file after a power cut
//! Never   follows a link below the folder, waits on a pipe, or gives out a socket or a device
//! Spec    spec/10-folder.md
//!
//! Invariants
//!  (1) Below the folder no symbolic link is followed, at no step of a path.                              [10.3]
//!  (2) A file that is opened for reading or writing is a regular file with one name, or with none if it was removed
//!      after it was opened.                                                                              [10.4]
//!  (3) A file is created only exclusively, and for its user alone.                                       [10.6]
//!  (4) A file is replaced by write, sync, rename, sync of the folder, in this order.                     [10.7]
//!
//! The owner of a file is not checked: on a memory stick or a network share everything may belong to one user, and the
//! superuser opens files of others. The system decides what the caller may do with a file.
#![forbid(unsafe_code)]

mod beneath;
mod error;
mod folder;
mod list;
mod new_file;

pub use error::{Error, Odd, Oddity, Result, is_full, odd_of};
pub use folder::{Folder, Purpose};
pub use list::Entry;
pub use new_file::{NEW_PREFIX, NewFile};

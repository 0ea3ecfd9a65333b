//! The one way to open things below a vault folder, so that nothing outside of it is read or written because of what
//! lies in it.
//!
//! Takes   a path that the user gave, which is trusted; names below it, which are not
//! Gives   regular files with one name, real folders, replacement that a power cut leaves old or new
//! Never   follows a link below the folder, waits on a pipe, or hands out a socket or a device
//! Spec    spec/10-folder.md
//!
//! Invariants
//!  (1) Below the folder no symbolic link is followed, at no step of a path.                              [10.3]
//!  (2) A file that is given to be read or written is a regular file with one name, or with none if it was removed
//!      after it was opened.                                                                              [10.4]
//!  (3) A file is made by exclusive creation only, for its user alone.                                    [10.6]
//!  (4) A file is replaced by write, sync, rename, sync of the folder, in this order.                     [10.7]
//!
//! Nobody asks who owns a file: on a memory stick or a network share everything may belong to one user, and the
//! superuser opens what belongs to others. What the caller may do with a file the system decides.
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

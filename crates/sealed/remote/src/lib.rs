//! Remotes, which keep objects outside the vault folder: a folder on another disk, a Strongroom server, or an object store.
//!
//! Takes   a URL; names and bytes of objects that are already sealed or public
//! Gives   the same bytes back, or parts of them; the list of objects
//! Never   knows a key, changes an object, reads more than it was asked for, or shows the credentials in a URL
//! Spec    spec/11-sync.md, section 11.1
//!
//! Invariants
//!  (1) An object is created whole, under a name that no other has, or not at all.                       [11.1.2]
//!  (2) The size of a remote's answer is bounded by the request: by a length, or by a count of names.     [11.1.5]
#![forbid(unsafe_code)]

mod address;
mod buffers;
mod cloud;
mod cloud_client;
mod error;
mod folder_remote;
mod inbox_door;
mod lanes;
mod limited;
pub mod limits;
mod listing;
pub mod login;
mod object_name;
mod pinned;
mod probe;
pub mod protocol;
mod remote;
mod response;
mod server_login;
mod server_remote;
#[cfg(feature = "testing")]
pub mod testing;
mod upload;

pub use address::Address;
pub use buffers::{Buffer, Buffers};
pub use error::{Error, Result};
pub use inbox_door::InboxDoor;
pub use limited::{Clock, Limited, Pace, Rates, SystemClock};
pub use login::{Challenge, LoginAs, SignedLogin, Signer};
pub use object_name::ObjectName;
pub use probe::{CreateOnly, probe};
pub use remote::{Created, Listed, Remote, Waited, memory};

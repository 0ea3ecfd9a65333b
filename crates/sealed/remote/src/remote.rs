//! The operations of every remote.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::buffers::Buffer;
use crate::cloud::Cloud;
use crate::error::Result;
use crate::limits::TRANSFERS;
use crate::login::Signer;
use crate::object_name::ObjectName;

/// What came of creating an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is there, durably.
    New,
    /// Something has that name already; nothing was done.
    AlreadyThere,
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name below the kind that was listed; together they are an `ObjectName`.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
    /// The second since 1970 in which it came, by the clock of the place.
    pub created_s: u64,
    /// The second since 1970 until which the place keeps it although somebody asked to remove it, by the clock of the place; 0 if nobody
    /// asked, or the place keeps nothing.
    pub kept_until_s: u64,
}

/// What came of waiting for a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The newest has this number, which is greater than the one that was known.
    Published(u64),
    /// There was none for as long as a request may wait, or nobody wants to wait any more.
    Nothing,
    /// One cannot wait at this remote, only ask.
    Unable,
}

/// A place that keeps objects. An object is created once and never changed.
///
/// All calls block. They may be made from many threads at once. What is returned is what the place says: nobody may believe it
/// before it is proven.
pub trait Remote: Send + Sync + fmt::Debug {
    /// Creates an object, durable on return, unless one of that name is there.                                  (1)
    ///
    /// A request that took effect although its answer was lost may be repeated: then its own object is `AlreadyThere`. The bytes are
    /// taken, not copied: a segment in memory twice for each transfer is what a push would cost most.
    ///
    /// # Errors
    /// `Unreachable`, `Refused`, `Full`, `NoCreateOnly`.
    fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<Created>;

    /// The same of the bytes in a buffer, which comes back once they are sent.
    ///
    /// # Errors
    /// As `create`.
    fn create_from(&self, name: &ObjectName, buffer: Buffer) -> Result<Created> {
        self.create(name, buffer.as_ref().to_vec())
    }

    /// All bytes of an object; `None` if there is none.                                                        (2)
    ///
    /// # Errors
    /// `TooLong` if it has more than `bytes_max`; `Unreachable`, `Refused`.
    fn read(&self, name: &ObjectName, bytes_max: u64) -> Result<Option<Vec<u8>>>;

    /// The bytes of an object in `range`, fewer if it ends before; `None` if there is none.                      (2)
    ///
    /// # Errors
    /// `Unreachable`, `Refused`.
    fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Result<Option<Vec<u8>>>;

    /// Whether there is an object of that name: an answer without a byte of it.                                 (2)
    ///
    /// # Errors
    /// `Unreachable`, `Refused`.
    fn has(&self, name: &ObjectName) -> Result<bool> {
        Ok(self.read_range(name, 0..1)?.is_some())
    }

    /// The objects whose names begin with `kind` and a slash, in no order.                                      (2)
    ///
    /// # Errors
    /// `Unreachable`, `Refused`; `Other` for more than `LISTED_MAX`.
    fn list(&self, kind: &str) -> Result<Vec<Listed>>;

    /// Those of them whose names are behind `after` in the order of bytes, in no order: where a place can begin there, what is before it
    /// is not listed first.                                                                                     (2)
    ///
    /// # Errors
    /// As `list`.
    fn list_behind(&self, kind: &str, after: &str) -> Result<Vec<Listed>> {
        let mut listed = self.list(kind)?;
        listed.retain(|one| one.name.as_str() > after);
        Ok(listed)
    }

    /// Removes an object, if there is one.
    ///
    /// # Errors
    /// `Kept` if the place keeps it for now; `Unreachable`, `Refused`.
    fn remove(&self, name: &ObjectName) -> Result<()>;

    /// Removes what creating objects of `kind` left there, without a name of its own, if it was last written before that second since
    /// 1970. Most remotes keep nothing of that.
    ///
    /// # Errors
    /// `Unreachable`, `Refused`.
    fn remove_unfinished(&self, _kind: &str, _before_s: u64) -> Result<()> {
        Ok(())
    }

    /// Waits for a publication with a greater number than `last`, for a minute at most. `go_on` is asked meanwhile, many times a second.
    ///
    /// # Errors
    /// `Unreachable`, `Refused`. It is not tried again.
    fn wait_behind(&self, _last: u64, _go_on: &dyn Fn() -> bool) -> Result<Waited> {
        Ok(Waited::Unable)
    }

    /// Lets `signer` log in from now on, if it is a remote that asks who asks.                                     [11.11.10]
    fn sign_with(&self, _signer: Arc<dyn Signer>) {}

    /// How many requests it is to be sent at a time.
    fn transfers(&self) -> usize {
        TRANSFERS
    }
}

/// A remote in memory, for tests of what is built on remotes.
///
/// # Errors
/// Of the system, which has only so many threads.
pub fn memory() -> Result<Arc<dyn Remote>> {
    Ok(Arc::new(Cloud::new(
        Box::new(object_store::memory::InMemory::new()),
        object_store::path::Path::default(),
    )?))
}

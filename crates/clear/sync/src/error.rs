//! Why a remote, or an object at it, cannot be used, and whose fault it is.

/// What every operation of this crate gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. The side at fault is said with each variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Environment, or as that says.
    #[error("{0}")]
    Remote(#[from] strongroom_remote::Error),
    /// Caller: there is no vault at that remote.
    #[error("there is no vault at this remote; `strongroom remote add` prepares an empty one")]
    NoVault,
    /// Caller: the remote belongs to another vault.
    #[error("the remote belongs to another vault")]
    OtherVault,
    /// Caller: it is of this vault, and another one than was added under this name.
    #[error(
        "this is another remote of this vault than the one that was added under this name: bring that one back, or add this one under a name \
         of its own"
    )]
    OtherRemote,
    /// Caller: it was made by a newer version.
    #[error(
        "the remote has format {found}; this version of Strongroom knows format 1: use a newer one"
    )]
    NewerFormat {
        /// What it says.
        found: u64,
    },
    /// Tampering or environment: an object that has to be there is not.
    #[error("the remote has lost {object}")]
    Missing {
        /// Its name.
        object: String,
    },
    /// Tampering or environment: an object is not what it has to be.
    #[error("{object} at the remote is not as it was written: {why}")]
    Damaged {
        /// Its name.
        object: String,
        /// What is wrong.
        why: &'static str,
    },
    /// Tampering: what a remote showed once is not there any more.
    #[error(
        "the remote went back: it has no publication {number}, which this device has seen. An older copy of the remote was put in its \
         place, or it hides what is newer. To go on from what it has now, run `strongroom remote remove`, then `strongroom remote add`"
    )]
    WentBack {
        /// The number of the publication.
        number: u64,
    },
    /// Tampering: it goes on from another state than this device has seen.
    #[error(
        "the remote shows another history than this device has seen, from publication {number} on: an older copy of it was put in its place \
         and others went on there, or it shows each device another one. To join what it has now, run `strongroom remote remove`, then \
         `strongroom remote add`"
    )]
    Forked {
        /// The number of the first publication that is another one, as far as this device knows.
        number: u64,
    },
    /// Caller: whoever made a publication has the keys, and is no device that this vault knows.
    #[error("publication {number} at the remote is of a device that this vault does not know")]
    UnknownDevice {
        /// The number of the publication.
        number: u64,
    },
    /// Caller: the first push has not ended.
    #[error(
        "no push to this remote has ended yet; run `strongroom push` on the device that has the vault"
    )]
    Empty,
    /// Somebody asked to stop.
    #[error("stopped")]
    Stopped,
    /// Environment: no randomness.
    #[error("{0}")]
    Random(#[from] strongroom_crypto::RandomError),
}

impl Error {
    pub(crate) fn damaged(object: impl ToString, why: &'static str) -> Self {
        Self::Damaged {
            object: object.to_string(),
            why,
        }
    }
}

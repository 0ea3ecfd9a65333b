//! Why a remote, or an object at it, cannot be used, and whose fault it is.

/// What every operation of this crate gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. The side at fault is said with each variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The side that the inner error names.
    #[error("{0}")]
    Remote(#[from] strongroom_remote::Error),
    /// Caller: there is no vault at that remote.
    #[error("there is no vault at this remote; `strongroom remote add` prepares an empty remote")]
    NoVault,
    /// Caller: the remote belongs to another vault.
    #[error("the remote belongs to another vault")]
    OtherVault,
    /// Caller: the remote is of this vault, but it is not the one that was added under this name.
    #[error(
        "the remote at this address is not the one that was added under this name, but another remote of this vault: make the earlier remote available \
         again, or add the present one under another name"
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
    #[error("{object} at the remote is damaged or was replaced: {why}")]
    Damaged {
        /// Its name.
        object: String,
        /// What is wrong.
        why: &'static str,
    },
    /// Tampering: a publication that a remote once showed is not there any more.
    #[error(
        "this device saw a newer state of the remote: publication {number} (the record of a push) is missing. An older copy of the remote was put in \
         its place, or the remote hides newer publications. To continue from what it has now, run `strongroom remote remove`, then `strongroom \
         remote add`"
    )]
    WentBack {
        /// The number of the publication.
        number: u64,
    },
    /// Tampering: the log continues from another state than this device has seen.
    #[error(
        "from publication {number} (the record of a push) on, the remote shows a different history than this device saw. An older copy of the remote \
         was put in its place and other devices continued there, or the remote shows each device a different history. To join what it has now, run \
         `strongroom remote remove`, then `strongroom remote add`"
    )]
    Forked {
        /// The number of the first publication that is another one, as far as this device knows.
        number: u64,
    },
    /// Caller: a publication is sealed with the right keys, but signed by a device that this vault does not know.
    #[error(
        "publication {number} (the record of a push) at the remote is from a device that this vault does not know"
    )]
    UnknownDevice {
        /// The number of the publication.
        number: u64,
    },
    /// Caller: the first push has not ended.
    #[error(
        "no push to this remote is complete yet; run `strongroom push` on the device that has the vault"
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

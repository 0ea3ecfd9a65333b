//! The facts that both sides of a pairing share: how long a code is valid, how often it may be tried, and what can go
//! wrong.
//!
//! Spec    spec/11-sync.md, section 11.7

use std::time::Duration;

use crate::Error;

/// How long a pairing code is good.
pub const PAIRING_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// How often a pairing code can be tried at the old device, by anyone; and, apart from that, how often a new device
/// asks.
pub const PAIRING_TRIES: usize = 5;

/// How often each side should look for what the other one said.
pub const PAIRING_LOOK_EVERY: Duration = Duration::from_secs(1);

/// The byte that stands for an answer to a request that did not open. Whoever writes to the remote can put it there too.
pub(crate) const NOT_OPENED: [u8; 1] = [0];

/// Why two devices did not pair. The side at fault is said with each variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairingError {
    /// Caller: on the new device, nobody waits under that code.
    #[error(
        "no device at this remote waits for a code that begins with {place}: the code is mistyped, was already used, or is older than 10 \
         minutes; `strongroom device add` on the other device shows a new code"
    )]
    NoOffer {
        /// The public part of the code.
        place: String,
    },
    /// Caller: on the new device, the code is not the one that the other device shows.
    #[error("this is not the code that the other device shows; type it again")]
    WrongCode,
    /// Caller or tampering: on either device, every try was used up.
    #[error(
        "5 wrong codes were tried, so the code is no longer valid. If that was not you, somebody else can write to the remote. To begin \
         again, run `strongroom device add` on the device that has the vault: it shows a new code"
    )]
    TriesUsed,
    /// Caller: on the old device, nobody came in time.
    #[error(
        "no device asked to join within 10 minutes, so the code is no longer valid; `strongroom device add` shows a new one"
    )]
    TooLate,
    /// Caller: on the new device, the other one stopped, or let another one in.
    #[error(
        "the other device no longer waits for this one: it was stopped, or it let another device in; `strongroom device add` on the other \
         device shows a new code"
    )]
    Withdrawn,
    /// Environment or tampering: on the new device, the other one said nothing.
    #[error(
        "the other device did not answer within 10 minutes. If it has let this one in and you chose a key file here, run `strongroom \
         clone` without --pair. Otherwise begin again with `strongroom device add` on the other device"
    )]
    NoAnswer,
    /// Caller: on the new device, the person at the other one said no.
    #[error("the other device did not let this one in")]
    Refused,
    /// Environment: on the old device, the one that asked waits no more.
    #[error(
        "the device that asked to join no longer waits; nothing was changed, and `strongroom device add` shows a new code"
    )]
    Gone,
    /// Environment: on the old device, the other one is a member by now and cannot know.
    #[error(
        "the device was let in, but the remote does not know it yet ({why}). Run `strongroom sync` here. If the new device has a key file, \
         then run `strongroom clone` without --pair there. If it has a passphrase, remove that device with `strongroom device remove` and its \
         key with `strongroom key remove`, then begin again with `strongroom device add`"
    )]
    NotPublished {
        /// What was in the way.
        why: Box<Error>,
    },
    /// Environment: on the old device, other pairings are under way.
    #[error("too many pairings are under way at this remote; try again in an hour")]
    Crowded,
    /// Caller: a device cannot be called so.
    #[error(
        "the name of a device has 1 to 64 bytes, and no characters that could deceive a reader"
    )]
    Name,
    /// Caller: on the new device, it cannot make a slot for such a secret.
    #[error("a device that is let in needs a passphrase or a key file of its own")]
    Secret,
    /// Caller: that pairing has ended.
    #[error("this pairing has ended; begin another")]
    Ended,
}

impl PairingError {
    /// The kind of error of the standard library that comes nearest.
    pub(crate) fn io_kind(&self) -> std::io::ErrorKind {
        use std::io::ErrorKind as Kind;
        match self {
            Self::NoOffer { .. } => Kind::NotFound,
            Self::WrongCode | Self::TriesUsed | Self::Refused => Kind::PermissionDenied,
            Self::TooLate | Self::NoAnswer => Kind::TimedOut,
            Self::Withdrawn | Self::Gone => Kind::ConnectionAborted,
            Self::NotPublished { why } => why.io_kind(),
            Self::Crowded => Kind::ResourceBusy,
            Self::Name | Self::Secret | Self::Ended => Kind::InvalidInput,
        }
    }
}

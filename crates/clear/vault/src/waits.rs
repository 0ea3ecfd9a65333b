//! What a pull did not join because pushes of other devices have not ended.                                  [11.4.8]

/// What is not joined at a remote because somebody is in the middle of a push.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// Up to which publication everything is joined, and the last that was taken in.
    pub(crate) state: (u64, u64),
    /// When the first of those pushes does not count as unfinished any more, in seconds since 1970.
    pub(crate) until_s: u64,
}

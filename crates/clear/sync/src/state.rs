//! What a vault keeps of a remote between two visits.

use strongroom_format::cbor::{Decoder, Encoder};
use strongroom_format::publication::PublicationId;
use strongroom_remote::limits::ADDRESS_BYTES_MAX;

/// What a vault knows of one of its remotes.                                                              [4.14]
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteState {
    /// Where it is, with the credentials that the address may hold.
    pub address: String,
    /// The last publication that was read or made, and its id; 0 and zeros before the first.
    pub last: (u64, PublicationId),
    /// The last publication that this device made there; 0 before the first.
    pub sequence: u64,
    /// A push began and did not end.
    pub is_pushing: bool,
    /// The `base` of the last publication; 0 before the first.
    pub base: u64,
    /// BLAKE3 of the header that the last publication names; zeros before the first.
    pub header: [u8; 32],
    /// The revision that the last publication names as its head; zeros before the first whole one.
    pub head: [u8; 32],
    /// The last publication up to which all that is live there is here; 0 before the first. Behind it others began to push.
    pub joined: u64,
}

impl RemoteState {
    /// Of a remote of which nothing was read.
    #[must_use]
    pub fn new(address: String) -> Self {
        Self {
            address,
            last: (0, PublicationId([0; 32])),
            sequence: 0,
            is_pushing: false,
            base: 0,
            header: [0; 32],
            head: [0; 32],
            joined: 0,
        }
    }

    /// The canonical bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder
            .array(9)
            .bytes(self.address.as_bytes())
            .unsigned(self.last.0)
            .bytes(&self.last.1.0)
            .unsigned(self.sequence)
            .unsigned(self.is_pushing.into())
            .unsigned(self.base)
            .bytes(&self.header)
            .bytes(&self.head)
            .unsigned(self.joined);
        encoder.finish()
    }

    /// The state that `bytes` spell; `None` if they spell none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new("state of a remote", bytes);
        // Versions that joined nothing kept no ninth: they had everything up to the last.
        let fields = decoder.array(9).ok().filter(|fields| *fields >= 8)?;
        let address = decoder.bytes(ADDRESS_BYTES_MAX).ok()?.to_vec();
        let mut state = Self {
            address: String::from_utf8(address).ok()?,
            last: (
                decoder.unsigned().ok()?,
                PublicationId(*decoder.bytes_exact().ok()?),
            ),
            sequence: decoder.unsigned().ok()?,
            is_pushing: match decoder.unsigned().ok()? {
                0 => false,
                1 => true,
                _ => return None,
            },
            base: decoder.unsigned().ok()?,
            header: *decoder.bytes_exact().ok()?,
            head: *decoder.bytes_exact().ok()?,
            joined: 0,
        };
        state.joined = match fields {
            8 => state.last.0,
            _ => decoder.unsigned().ok()?,
        };
        decoder.finish().ok()?;
        Some(state)
    }
}

impl std::fmt::Debug for RemoteState {
    /// Without the address, which may hold credentials.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RemoteState")
            .field("last", &self.last)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SECURITY.md, claim 22.
    #[test]
    fn a_state_comes_back_and_shows_no_credential() {
        let state = RemoteState {
            last: (7, PublicationId([1; 32])),
            sequence: 3,
            is_pushing: true,
            base: 5,
            header: [3; 32],
            head: [2; 32],
            joined: 6,
            ..RemoteState::new("s3://user:canary@bucket/path".to_owned())
        };
        let bytes = state.encode();
        assert!(!format!("{state:?}").contains("canary"));
        assert_eq!(RemoteState::decode(&bytes), Some(state));
        for len in 0..bytes.len() {
            assert_eq!(RemoteState::decode(&bytes[..len]), None);
        }
        // What the first versions wrote: an array of 8, without what was joined, which was all.
        let earlier = [&[0x88], &bytes[1..bytes.len() - 1]].concat();
        let read = RemoteState::decode(&earlier).unwrap();
        assert_eq!((read.last.0, read.joined), (7, 7));
    }
}

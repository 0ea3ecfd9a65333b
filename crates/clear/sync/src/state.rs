//! What a vault stores about a remote between two connections to it.

use strongroom_format::PrincipalId;
use strongroom_format::cbor::{Decoder, Encoder};
use strongroom_format::limits::DEVICES_MAX;
use strongroom_format::publication::{Publication, PublicationId};
use strongroom_remote::limits::ADDRESS_BYTES_MAX;

/// The newest publication of a device at a remote, of those that this device has read or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestOf {
    /// The device.
    pub device: PrincipalId,
    /// The number of the publication.
    pub number: u64,
    /// When it was made by the clock of that device, in seconds since 1970.
    pub time_s: u64,
}

/// What a vault knows of one of its remotes.                                                              [4.14]
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteState {
    /// Where it is, with the credentials that the address may hold.
    pub address: String,
    /// The last publication that was read or made, and its id; 0 and zeros before the first.
    pub last: (u64, PublicationId),
    /// The last publication that this device made there; 0 before the first.
    pub sequence: u64,
    /// The publications that this copy sealed for it last, whether they got there or not. Another one by its device was made by another
    /// copy of it.
    pub made: Vec<PublicationId>,
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
    /// The last publication of this device that retired what was there and not live, and when it began to remove that, in seconds since
    /// 1970. Number 0: nothing was to be retired then, or the first push was at that time.
    pub fence: (u64, u64),
    /// Whether this device removes nothing there.
    pub keeps: bool,
    /// Under which name this device says there that it let content go, and the last publication for which it said so. Zeros: never; number
    /// 0: it needs nothing of it now.
    pub needs: ([u8; 16], u64),
    /// When it said so, in seconds since 1970.
    pub needs_since_s: u64,
    /// When it answered last, as far as that was stored, in seconds since 1970; 0: that is not known.
    pub contact_s: u64,
    /// The newest publication of each device, the newest of all last. Of those that earlier versions read it has none.
    pub newest: Vec<NewestOf>,
}

/// Publications of its own that a copy knows again: several may be under way, and each try is another one.
const MADE_MAX: usize = 8;

impl RemoteState {
    /// Of a remote of which nothing was read.
    #[must_use]
    pub fn new(address: String) -> Self {
        Self {
            address,
            last: (0, PublicationId([0; 32])),
            sequence: 0,
            made: Vec::new(),
            is_pushing: false,
            base: 0,
            header: [0; 32],
            head: [0; 32],
            joined: 0,
            fence: (0, 0),
            keeps: false,
            needs: ([0; 16], 0),
            needs_since_s: 0,
            contact_s: 0,
            newest: Vec::new(),
        }
    }

    /// Notes the next publication, whoever made it.
    #[must_use]
    pub fn having_read(mut self, body: &Publication) -> Self {
        self.newest.retain(|one| one.device != body.device);
        // More than that were no members at one time.
        let surplus = (self.newest.len() + 1).saturating_sub(DEVICES_MAX);
        self.newest.drain(..surplus);
        self.newest.push(NewestOf {
            device: body.device,
            number: body.number,
            time_s: u64::try_from(body.time / 1_000_000_000).unwrap_or(0),
        });
        self
    }

    /// Notes a publication that this copy sealed.
    #[must_use]
    pub fn having_made(mut self, id: PublicationId) -> Self {
        let surplus = (self.made.len() + 1).saturating_sub(MADE_MAX);
        self.made.drain(..surplus);
        self.made.push(id);
        self
    }

    /// The canonical bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder
            .array(18)
            .bytes(self.address.as_bytes())
            .unsigned(self.last.0)
            .bytes(&self.last.1.0)
            .unsigned(self.sequence)
            .unsigned(self.is_pushing.into())
            .unsigned(self.base)
            .bytes(&self.header)
            .bytes(&self.head)
            .unsigned(self.joined)
            .unsigned(self.fence.0)
            .unsigned(self.fence.1)
            .unsigned(self.keeps.into())
            .bytes(&self.needs.0)
            .unsigned(self.needs.1)
            .unsigned(self.needs_since_s)
            .array(self.made.len());
        for id in &self.made {
            encoder.bytes(&id.0);
        }
        encoder.unsigned(self.contact_s).array(self.newest.len());
        for one in &self.newest {
            encoder
                .array(3)
                .bytes(&one.device.0)
                .unsigned(one.number)
                .unsigned(one.time_s);
        }
        encoder.finish()
    }

    /// The state that `bytes` spell; `None` if they spell none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new("state of a remote", bytes);
        // Versions that joined nothing kept no ninth: they had everything up to the last. Those that removed nothing ended there; those
        // that let no content go, and knew no copies, at the twelfth; those that did not note who published what, at the sixteenth.
        let fields = decoder.array(18).ok()?;
        if !matches!(fields, 8 | 9 | 12 | 16 | 18) {
            return None;
        }
        let address = decoder.bytes(ADDRESS_BYTES_MAX).ok()?.to_vec();
        let mut state = Self {
            address: String::from_utf8(address).ok()?,
            last: (
                decoder.unsigned().ok()?,
                PublicationId(*decoder.bytes_exact().ok()?),
            ),
            sequence: decoder.unsigned().ok()?,
            is_pushing: flag(&mut decoder)?,
            base: decoder.unsigned().ok()?,
            header: *decoder.bytes_exact().ok()?,
            head: *decoder.bytes_exact().ok()?,
            ..Self::new(String::new())
        };
        state.joined = match fields {
            8 => state.last.0,
            _ => decoder.unsigned().ok()?,
        };
        if fields >= 12 {
            state.fence = (decoder.unsigned().ok()?, decoder.unsigned().ok()?);
            state.keeps = flag(&mut decoder)?;
        }
        if fields >= 16 {
            state.needs = (*decoder.bytes_exact().ok()?, decoder.unsigned().ok()?);
            state.needs_since_s = decoder.unsigned().ok()?;
            for _ in 0..decoder.array(MADE_MAX).ok()? {
                state.made.push(PublicationId(*decoder.bytes_exact().ok()?));
            }
        }
        if fields == 18 {
            state.contact_s = decoder.unsigned().ok()?;
            for _ in 0..decoder.array(DEVICES_MAX).ok()? {
                decoder.array_exact(3).ok()?;
                state.newest.push(NewestOf {
                    device: PrincipalId(*decoder.bytes_exact().ok()?),
                    number: decoder.unsigned().ok()?,
                    time_s: decoder.unsigned().ok()?,
                });
            }
        }
        decoder.finish().ok()?;
        Some(state)
    }
}

fn flag(decoder: &mut Decoder<'_>) -> Option<bool> {
    match decoder.unsigned().ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
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
    use strongroom_format::publication::RemoteId;
    use strongroom_format::{RecordId, VaultId};

    use super::*;

    #[test]
    fn the_newest_publications_of_a_copy_are_known_again() {
        let made = |state: RemoteState, number: u8| state.having_made(PublicationId([number; 32]));
        let state = (0..20).fold(RemoteState::new(String::new()), made);
        let newest: Vec<u8> = state.made.iter().map(|id| id.0[0]).collect();
        assert_eq!(newest, (12..20).collect::<Vec<u8>>());
        assert_eq!(RemoteState::decode(&state.encode()), Some(state));
    }

    /// Goal: a state has the newest publication of each device, and of a bounded number of them. Method: many devices publish, one of them again.
    #[test]
    fn the_newest_publication_of_each_device_is_known() {
        let body = |number: u64, device: u8, time: i64| Publication {
            vault: VaultId([1; 32]),
            remote: RemoteId([2; 16]),
            number,
            link: PublicationId([0; 32]),
            device: PrincipalId([device; 32]),
            sequence: 1,
            base: 1,
            time,
            membership_head: RecordId([0; 32]),
            header: (1, [0; 32]),
            head: [0; 32],
            revisions: Vec::new(),
            retired_revisions: Vec::new(),
            segments: Vec::new(),
            retired_segments: Vec::new(),
        };
        let newest = |device: u8, number, time_s| NewestOf {
            device: PrincipalId([device; 32]),
            number,
            time_s,
        };
        let state = RemoteState::new(String::new())
            .having_read(&body(1, 1, 7_000_000_000))
            .having_read(&body(2, 2, i64::MIN))
            .having_read(&body(3, 1, i64::MAX));
        let expected = [newest(2, 2, 0), newest(1, 3, 9_223_372_036)];
        assert_eq!(state.newest, expected);
        let many = (4..1_000).fold(state, |state, number| {
            let mut body = body(number, 0, 0);
            body.device.0[..8].copy_from_slice(&number.to_le_bytes());
            state.having_read(&body)
        });
        assert_eq!(many.newest.len(), DEVICES_MAX);
        assert_eq!(many.newest.last().unwrap().number, 999);
        assert_eq!(RemoteState::decode(&many.encode()), Some(many));
    }

    /// SECURITY.md, claim 22.
    #[test]
    fn a_state_comes_back_and_shows_no_credential() {
        let state = RemoteState {
            last: (7, PublicationId([1; 32])),
            sequence: 3,
            made: vec![PublicationId([4; 32]), PublicationId([5; 32])],
            is_pushing: true,
            base: 5,
            header: [3; 32],
            head: [2; 32],
            joined: 6,
            fence: (4, 1_800_000_000),
            keeps: true,
            needs: ([9; 16], 7),
            needs_since_s: 9,
            contact_s: 5,
            newest: vec![NewestOf {
                device: PrincipalId([6; 32]),
                number: 2,
                time_s: 3,
            }],
            ..RemoteState::new("s3://user:canary@bucket/path".to_owned())
        };
        let bytes = state.encode();
        assert!(!format!("{state:?}").contains("canary"));
        assert_eq!(RemoteState::decode(&bytes).as_ref(), Some(&state));
        for len in 0..bytes.len() {
            assert_eq!(RemoteState::decode(&bytes[..len]), None);
        }
        // What the first versions wrote: an array of 8, without what was joined, which was all.
        let state = RemoteState {
            contact_s: 0,
            newest: Vec::new(),
            ..state
        };
        let made = [&[0x82][..], &[0x58, 32], &[4; 32], &[0x58, 32], &[5; 32]];
        let latest = [&[0x50][..], &[9; 16], &[7, 9], &made.concat()].concat();
        let tail = [6, 4, 0x1a, 0x6b, 0x49, 0xd2, 0x00, 1];
        let newest = [&[5, 0x81, 0x83, 0x58, 32][..], &[6; 32], &[2, 3]].concat();
        let sixteen = bytes.strip_suffix(&newest[..]).unwrap();
        let twelve = sixteen.strip_suffix(&latest[..]).unwrap();
        let front = twelve.strip_suffix(&tail).unwrap();
        let earlier = [&[0x88], &front[1..]].concat();
        let read = RemoteState::decode(&earlier).unwrap();
        assert_eq!((read.last.0, read.joined), (7, 7));
        // Then an array of 9, which knows of no fence.
        let earlier = [&[0x89], &front[1..], &[6]].concat();
        let expected = RemoteState {
            needs: ([0; 16], 0),
            needs_since_s: 0,
            made: Vec::new(),
            fence: (0, 0),
            keeps: false,
            ..state.clone()
        };
        assert_eq!(RemoteState::decode(&earlier), Some(expected));
        // Then one of 12, which knows of no content that was let go, and of no copies.
        let earlier = [&[0x8c], &twelve[1..]].concat();
        let expected = RemoteState {
            needs: ([0; 16], 0),
            needs_since_s: 0,
            made: Vec::new(),
            ..state.clone()
        };
        assert_eq!(RemoteState::decode(&earlier), Some(expected));
        // Then one of 16, which knows nothing of who published what.
        let earlier = [&[0x90], &sixteen[1..]].concat();
        assert_eq!(RemoteState::decode(&earlier), Some(state));
    }
}

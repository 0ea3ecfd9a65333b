//! The state of the inbox in the tree of a vault: its addresses, and the deposits that were taken in.
//!
//! Takes   the value of an attribute of the root directory, or those of both sides of a merge; changes
//! Gives   the state in a value; a value for a state; the value that joins both sides
//! Never   has a secret: the key of an address follows from the keys of the vault
//! Spec    spec/12-inbox.md, section 12.6
//!
//! Invariants
//!  (1) A deposit that either side of a merge took in is noted as taken in afterwards, as long as the note fits. What either side settled
//!      is settled.                                                                                       [12.6.4]
//!  (2) Equal sides give equal bytes, on every device.                                                        [11.6.2]
//!  (3) A deposit that may still wait at a remote stays noted, even while that remote cannot be asked.          [12.6.6]

use std::collections::HashSet;

use strongroom_format::cbor::{Decoder, Encoder};
use strongroom_format::deposit::{AddressId, DepositId};
use strongroom_format::{Epoch, FormatError, hex};

/// The attribute of the root directory. Only root sees it on a mount, and nothing copies it out.
pub(crate) const INBOX_STATE: &[u8] = b"trusted.strongroom.inbox";

/// The attribute of the file of a deposit: id, number of its node, size, time of modification, name.                    [12.7.3]
pub(crate) const NOTE: &[u8] = b"user.strongroom.deposit";

/// What errors call it.
const WHAT: &str = "state of the inbox";

/// The version inside it.
const FORMAT: u64 = 1;

/// Addresses of a vault, at most.
pub const INBOX_ADDRESSES_MAX: usize = 64;

/// The longest label of an address, in bytes.
pub const INBOX_LABEL_BYTES_MAX: usize = 128;

/// Takings that are noted, at most. With the longest labels of all addresses that is 59,000 bytes: an attribute has at most 65,536.
pub(crate) const RECEIVED_MAX: usize = 1500;

/// Takings that stay noted although their deposits are gone from their remotes.                                       [12.6.6]
const RECEIVED_KEPT: usize = 500;

/// The node of what was set aside, and so became no file.
pub(crate) const SET_ASIDE: u64 = 0;

/// What the note of a file begins with.
pub(crate) fn note_head(deposit: DepositId, node: u64) -> Vec<u8> {
    format!("{} {node:016x} ", hex::encode(&deposit.0)).into_bytes()
}

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressEntry {
    pub(crate) id: AddressId,
    /// The remote where it is.
    pub(crate) remote: [u8; 16],
    /// The hash in the name of its object there.
    pub(crate) object: [u8; 32],
    pub(crate) epoch: Epoch,
    pub(crate) label: String,
    pub(crate) created_s: u64,
    /// It was withdrawn there, and what came by it was taken in.
    pub(crate) is_withdrawn: bool,
}

/// A taking: that one device took one deposit in, or set it aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) deposit: DepositId,
    /// The number of the node that it became; no other taking has it.
    pub(crate) node: u64,
    /// Its file went, because another device took the deposit in, too.
    pub(crate) is_settled: bool,
    /// The remote where the deposit waited; `None` once no address is there.
    pub(crate) remote: Option<[u8; 16]>,
}

/// What is known of where deposits wait, when one is noted.
pub(crate) struct Listing<'a> {
    /// The remote where it waits.
    pub(crate) remote: [u8; 16],
    /// All that this remote lists.
    pub(crate) listed: &'a HashSet<DepositId>,
    /// What is noted and was found gone from its remote, whichever that is.
    pub(crate) gone: &'a HashSet<DepositId>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InboxState {
    pub(crate) addresses: Vec<AddressEntry>,
    /// Takings, oldest first: two devices that take one deposit in have two of it.
    pub(crate) received: Vec<Received>,
}

impl InboxState {
    /// The one encoding.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder
            .array(3)
            .unsigned(FORMAT)
            .array(self.addresses.len());
        for one in &self.addresses {
            encoder
                .array(7)
                .bytes(&one.id.0)
                .bytes(&one.remote)
                .bytes(&one.object)
                .unsigned(one.epoch.0.into())
                .bytes(one.label.as_bytes())
                .unsigned(one.created_s)
                .unsigned(one.is_withdrawn.into());
        }
        encoder.array(self.received.len());
        for one in &self.received {
            let place = one.remote.map_or(0, |remote| self.place_of(&remote));
            encoder
                .array(4)
                .bytes(&one.deposit.0)
                .unsigned(one.node)
                .unsigned(one.is_settled.into())
                .unsigned(place);
        }
        encoder.finish()
    }

    /// What `bytes` say.
    ///
    /// # Errors
    /// Any `FormatError` about it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut decoder = Decoder::new(WHAT, bytes);
        decoder.array_exact(3)?;
        match decoder.unsigned()? {
            FORMAT => {}
            found => {
                return Err(FormatError::UnknownFormat {
                    what: WHAT,
                    found,
                    known: FORMAT,
                });
            }
        }
        let mut state = Self::default();
        let mut ids = HashSet::new();
        for _ in 0..decoder.array(INBOX_ADDRESSES_MAX)? {
            let entry = address(&mut decoder)?;
            if !ids.insert(entry.id) {
                return Err(decoder.invalid("has an address twice"));
            }
            state.addresses.push(entry);
        }
        for _ in 0..decoder.array(RECEIVED_MAX)? {
            decoder.array_exact(4)?;
            let deposit = DepositId(*decoder.bytes_exact()?);
            let (node, is_settled) = (decoder.unsigned()?, flag(&mut decoder)?);
            let remote = match decoder.unsigned()? {
                0 => None,
                place => match state.remote_at(place) {
                    None => return Err(decoder.invalid("has a place without an address")),
                    remote => remote,
                },
            };
            state.received.push(Received {
                deposit,
                node,
                is_settled,
                remote,
            });
        }
        decoder.finish()?;
        Ok(state)
    }

    /// Whether the inbox is, or was, at that remote.
    pub(crate) fn is_at(&self, remote: &[u8; 16]) -> bool {
        self.addresses.iter().any(|one| one.remote == *remote)
    }

    /// Which of the addresses, counted from 1, is the first at that remote; 0 if there is none.
    fn place_of(&self, remote: &[u8; 16]) -> u64 {
        let first = self.addresses.iter().position(|one| one.remote == *remote);
        first.map_or(0, |index| index as u64 + 1)
    }

    /// The remote for which `place_of` gives that, which is not 0; `None` if there is none.
    fn remote_at(&self, place: u64) -> Option<[u8; 16]> {
        let index = usize::try_from(place.checked_sub(1)?).ok()?;
        let remote = self.addresses.get(index)?.remote;
        (self.place_of(&remote) == place).then_some(remote)
    }

    /// Whether that deposit was set aside, and no device took it in.
    pub(crate) fn is_set_aside(&self, deposit: DepositId) -> bool {
        let is_taken = self.takings(deposit).any(|one| one.node != SET_ASIDE);
        self.has_received(deposit) && !is_taken
    }

    /// Whether that deposit was taken in, or set aside.
    pub(crate) fn has_received(&self, deposit: DepositId) -> bool {
        self.takings(deposit).next().is_some()
    }

    /// What became of that deposit, on one device or several.
    pub(crate) fn takings(&self, deposit: DepositId) -> impl Iterator<Item = &Received> {
        self.received
            .iter()
            .filter(move |one| one.deposit == deposit)
    }

    /// Notes a taking of a deposit; `None` if there is no place for it.                                             [12.6.6]
    pub(crate) fn with_received(
        &self,
        deposit: DepositId,
        node: u64,
        listing: &Listing<'_>,
    ) -> Option<Self> {
        let mut state = self.clone();
        state.received.push(Received {
            deposit,
            node,
            is_settled: false,
            remote: Some(listing.remote),
        });
        // (3)
        let may_wait = |one: &Received| {
            let is_at_remote = one.remote.is_some_and(|remote| self.is_at(&remote));
            let is_gone = listing.gone.contains(&one.deposit);
            listing.listed.contains(&one.deposit) || is_at_remote && !is_gone
        };
        let mut left = state.received.len();
        state.received.retain(|one| {
            left -= 1;
            left < RECEIVED_KEPT || may_wait(one)
        });
        (state.received.len() <= RECEIVED_MAX).then_some(state)
    }

    /// Deposits that were taken in several times.                                                          [12.6.5]
    pub(crate) fn doubles(&self) -> Vec<DepositId> {
        let mut seen: HashSet<DepositId> = HashSet::new();
        let all = self.received.iter().map(|one| one.deposit);
        let mut ids: Vec<DepositId> = all.filter(|id| !seen.insert(*id)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

fn address(decoder: &mut Decoder<'_>) -> Result<AddressEntry, FormatError> {
    decoder.array_exact(7)?;
    let id = AddressId(*decoder.bytes_exact()?);
    let (remote, object) = (*decoder.bytes_exact()?, *decoder.bytes_exact()?);
    let epoch = u32::try_from(decoder.unsigned()?);
    let epoch = Epoch(epoch.map_err(|_| decoder.invalid("has an epoch out of range"))?);
    let label = std::str::from_utf8(decoder.bytes(INBOX_LABEL_BYTES_MAX)?)
        .map_err(|_| decoder.invalid("has a label that is not UTF-8"))?
        .to_owned();
    let created_s = decoder.unsigned()?;
    let is_withdrawn = flag(decoder)?;
    Ok(AddressEntry {
        id,
        remote,
        object,
        epoch,
        label,
        created_s,
        is_withdrawn,
    })
}

fn flag(decoder: &mut Decoder<'_>) -> Result<bool, FormatError> {
    match decoder.unsigned()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(decoder.invalid("has a state that is unknown")),
    }
}

/// The value that joins what both sides of a merge made of one. Where one cannot be read, that of theirs counts.  (1) (2)
pub(crate) fn joined(
    base: Option<&[u8]>,
    mine: Option<&[u8]>,
    theirs: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let read = |value: Option<&[u8]>| value.and_then(|bytes| InboxState::decode(bytes).ok());
    let was = match base {
        None => Some(InboxState::default()),
        base => read(base),
    };
    match (was, read(mine), read(theirs)) {
        (Some(base), Some(mine), Some(theirs)) => Some(merged(&base, &mine, theirs).encode()),
        _ => theirs.map(<[u8]>::to_vec),
    }
}

fn merged(base: &InboxState, mine: &InboxState, theirs: InboxState) -> InboxState {
    let find = |state: &InboxState, id: AddressId| {
        let mut all = state.addresses.iter();
        all.find(|one| one.id == id).cloned()
    };
    let mut addresses = Vec::new();
    for other in theirs.addresses {
        match (find(base, other.id), find(mine, other.id)) {
            // Mine removed it.
            (Some(_), None) => {}
            (Some(was), Some(own)) if was == other => addresses.push(own),
            _ => addresses.push(other),
        }
    }
    for own in &mine.addresses {
        let is_there = addresses.iter().any(|one| one.id == own.id);
        if !is_there && find(base, own.id).is_none() && addresses.len() < INBOX_ADDRESSES_MAX {
            addresses.push(own.clone());
        }
    }
    let key = |one: &Received| (one.deposit, one.node);
    let settled = mine.received.iter().filter(|one| one.is_settled);
    let settled: HashSet<_> = settled.map(key).collect();
    let known = theirs.received.iter().chain(&base.received);
    let known: HashSet<_> = known.map(key).collect();
    let mut received = theirs.received;
    for one in &mut received {
        one.is_settled |= settled.contains(&key(one));
    }
    let own = mine
        .received
        .iter()
        .filter(|one| !known.contains(&key(one)));
    received.extend(own);
    let above = received.len().saturating_sub(RECEIVED_MAX);
    received.drain(..above);
    InboxState {
        addresses,
        received,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where all addresses here are, unless they say otherwise.
    const PLACE: [u8; 16] = [1; 16];

    fn entry(id: u8) -> AddressEntry {
        AddressEntry {
            id: AddressId([id; 16]),
            remote: PLACE,
            object: [2; 32],
            epoch: Epoch(3),
            label: "post".to_owned(),
            created_s: 7,
            is_withdrawn: false,
        }
    }

    fn deposit(number: u64) -> DepositId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        DepositId(id)
    }

    fn taking(id: u64, node: u64) -> Received {
        Received {
            deposit: deposit(id),
            node,
            is_settled: false,
            remote: None,
        }
    }

    fn state(addresses: &[u8], received: &[(u64, u64)]) -> InboxState {
        let received = received.iter().map(|(id, node)| taking(*id, *node));
        InboxState {
            addresses: addresses.iter().map(|id| entry(*id)).collect(),
            received: received.collect(),
        }
    }

    fn join(base: &InboxState, mine: &InboxState, theirs: &InboxState) -> InboxState {
        let bytes = [base, mine, theirs].map(InboxState::encode);
        let joined = joined(Some(&bytes[0]), Some(&bytes[1]), Some(&bytes[2]));
        InboxState::decode(&joined.expect("there is one")).expect("it can be read")
    }

    #[test]
    fn a_state_comes_back_and_the_longest_fits_an_attribute() {
        let mut longest = InboxState::default();
        for id in 0..INBOX_ADDRESSES_MAX {
            longest.addresses.push(AddressEntry {
                remote: [id as u8; 16],
                label: "l".repeat(INBOX_LABEL_BYTES_MAX),
                epoch: Epoch(u32::MAX),
                created_s: u64::MAX,
                is_withdrawn: true,
                ..entry(id as u8)
            });
        }
        let all = (0..RECEIVED_MAX as u64).map(|number| Received {
            is_settled: true,
            remote: Some([INBOX_ADDRESSES_MAX as u8 - 1; 16]),
            ..taking(number, u64::MAX)
        });
        longest.received.extend(all);
        for state in [InboxState::default(), state(&[1, 2], &[(3, 4)]), longest] {
            let bytes = state.encode();
            assert!(bytes.len() <= 65_536, "{}", bytes.len());
            assert_eq!(InboxState::decode(&bytes), Ok(state));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let bytes = state(&[1], &[(2, 3)]).encode();
        for len in 0..bytes.len() {
            assert!(InboxState::decode(&bytes[..len]).is_err(), "{len}");
        }
        assert!(InboxState::decode(&state(&[1, 1], &[]).encode()).is_err());
        let many: Vec<_> = (0..=RECEIVED_MAX as u64).map(|id| (id, 1)).collect();
        assert!(InboxState::decode(&state(&[], &many).encode()).is_err());
    }

    /// Goal: where a deposit waited has one encoding, and is a remote that has an address. Method: the number of the place, which is last.
    #[test]
    fn a_place_is_that_of_the_first_address_there() {
        let mut now = state(&[1, 2, 3], &[(4, 5)]);
        now.addresses[2].remote = [9; 16];
        for (remote, place) in [
            (None, 0),
            (Some(PLACE), 1),
            (Some([9; 16]), 3),
            // No address is there any more.
            (Some([8; 16]), 0),
        ] {
            now.received[0].remote = remote;
            let mut bytes = now.encode();
            assert_eq!(bytes.last(), Some(&place));
            let read = InboxState::decode(&bytes).expect("it can be read");
            let is_there = place > 0;
            assert_eq!(read.received[0].remote, remote.filter(|_| is_there));
            for wrong in [2, 4, 23] {
                *bytes.last_mut().expect("there is one") = wrong;
                assert!(InboxState::decode(&bytes).is_err(), "{wrong}");
            }
        }
    }

    #[test]
    fn what_either_side_took_in_counts_and_what_either_removed_is_gone() {
        let base = state(&[1, 2, 3], &[(1, 11)]);
        let mine = state(&[1, 3, 4], &[(1, 11), (2, 21), (3, 31)]);
        let theirs = state(&[2, 3, 5], &[(1, 11), (3, 32), (6, 61)]);
        let both = join(&base, &mine, &theirs);
        // Mine removed 2, theirs removed 1.
        assert_eq!(
            both,
            state(&[3, 5, 4], &[(1, 11), (3, 32), (6, 61), (2, 21), (3, 31)])
        );
        assert_eq!(both.doubles(), [deposit(3)]);
        // What theirs no longer notes does not come back.
        let shorter = join(&base, &mine, &state(&[3], &[(6, 61)]));
        assert!(!shorter.has_received(deposit(1)) && shorter.has_received(deposit(2)));
        assert!(shorter.doubles().is_empty());
    }

    #[test]
    fn what_either_side_settled_is_settled() {
        let base = state(&[], &[(1, 11), (2, 21)]);
        let (mut mine, mut theirs) = (base.clone(), base.clone());
        mine.received[0].is_settled = true;
        theirs.received[1].is_settled = true;
        theirs.received.push(taking(1, 12));
        mine.received.push(taking(1, 13));
        let both = join(&base, &mine, &theirs);
        let settled: Vec<bool> = both.received.iter().map(|one| one.is_settled).collect();
        assert_eq!(settled, [true, true, false, false]);
        let nodes: Vec<u64> = both.takings(deposit(1)).map(|one| one.node).collect();
        assert_eq!(nodes, [11, 12, 13]);
        assert_eq!(both.doubles(), [deposit(1)]);
    }

    #[test]
    fn an_address_that_one_side_withdrew_is_withdrawn() {
        let base = state(&[1, 2], &[]);
        let (mut mine, mut theirs) = (base.clone(), base.clone());
        mine.addresses[0].is_withdrawn = true;
        theirs.addresses[1].is_withdrawn = true;
        let both = join(&base, &mine, &theirs);
        assert!(both.addresses.iter().all(|one| one.is_withdrawn));
    }

    #[test]
    fn what_cannot_be_read_is_as_theirs_has_it() {
        let good = state(&[1], &[]).encode();
        for (base, mine, theirs) in [
            (Some(&good[..]), Some(&b"x"[..]), Some(&good[..])),
            (Some(&b"x"[..]), Some(&good[..]), Some(&b"y"[..])),
            (Some(&good[..]), None, Some(&good[..])),
            (Some(&good[..]), Some(&good[..]), None),
        ] {
            assert_eq!(joined(base, mine, theirs).as_deref(), theirs);
        }
        // There was none, and both made one.
        let other = state(&[2], &[]).encode();
        let both = joined(None, Some(&good), Some(&other));
        let both = InboxState::decode(&both.expect("there is one"));
        assert_eq!(both, Ok(state(&[2, 1], &[])));
    }

    /// Goal: what a remote still lists is never forgotten, nor are the newest. Method: far more deposits than are kept.
    #[test]
    fn what_a_remote_lists_stays_noted() {
        let listed: HashSet<DepositId> = (0..1000).map(deposit).collect();
        let gone: HashSet<DepositId> = (1000..3000).map(deposit).collect();
        let listing = Listing {
            remote: PLACE,
            listed: &listed,
            gone: &gone,
        };
        let mut now = state(&[1], &[]);
        for number in 0..3000 {
            now = now
                .with_received(deposit(number), 1, &listing)
                .expect("room");
        }
        assert_eq!(now.received.len(), 1000 + RECEIVED_KEPT);
        assert!(
            (0..1000)
                .chain(2500..3000)
                .all(|id| now.has_received(deposit(id)))
        );
        assert!(!now.has_received(deposit(2499)));
        // Nobody removes anything at the remote: no more is taken in.
        let listed: HashSet<DepositId> = (0..3000).map(deposit).collect();
        let listing = Listing {
            listed: &listed,
            ..listing
        };
        let mut full = state(&[1], &[]);
        for number in 0..RECEIVED_MAX as u64 {
            full = full
                .with_received(deposit(number), 1, &listing)
                .expect("room");
        }
        assert_eq!(full.with_received(deposit(2000), 1, &listing), None);
    }

    /// Goal: what waited at a remote that cannot be asked is not forgotten for what comes at another one, until it is known to be gone there,
    /// or no address is there. Method: far more deposits at the other one than are kept.
    #[test]
    fn what_may_wait_at_another_remote_stays_noted() {
        const OTHER: [u8; 16] = [9; 16];
        let (nothing, early) = (HashSet::new(), HashSet::from([deposit(7)]));
        let all: HashSet<DepositId> = (1000..2000).map(deposit).collect();
        let both: HashSet<DepositId> = all.union(&early).copied().collect();
        for (gone, has_address, stays) in [
            (&all, true, true),
            (&both, true, false),
            (&all, false, false),
        ] {
            let mut now = state(&[1, 2], &[]);
            if has_address {
                now.addresses[1].remote = OTHER;
            }
            now.received.push(Received {
                remote: Some(OTHER),
                ..taking(7, 70)
            });
            let listing = Listing {
                remote: PLACE,
                listed: &nothing,
                gone,
            };
            for number in 1000..2000 {
                let next = now.with_received(deposit(number), 1, &listing);
                now = InboxState::decode(&next.expect("room").encode()).expect("it can be read");
            }
            assert_eq!(now.has_received(deposit(7)), stays);
            assert_eq!(now.received.len(), RECEIVED_KEPT + usize::from(stays));
        }
    }
}

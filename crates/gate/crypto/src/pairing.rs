//! Turns a short code that two devices have into a key that only they have.
//!
//! Takes   a pairing code, and one message of the other device
//! Gives   one message for the other device; then a channel that seals messages
//! Never   lets an attacker who carries the messages try more than one code per exchange, or try any code on recorded messages
//! Spec    spec/11-sync.md, section 11.7
//!
//! Invariants
//!  (1) One exchange accepts one message of the other device: a second guess needs a second exchange.       [11.7.4]
//!  (2) A message sealed by one device cannot be sent back to it as a message of the other.           [11.7.5]

use rand_core::{CryptoRng, RngCore};
use spake2::{Ed25519Group, Identity, Password, Spake2};
use strongroom_format::publication::RemoteId;
use strongroom_format::{Epoch, Kind, SuiteId};
use zeroize::Zeroizing;

use crate::blocks::block_sealer::BlockSealer;
use crate::keys::{EpochKey, IdKey, KEY_BYTES, Purpose, derive};
use crate::locked::Locked;
use crate::random::{Random, RandomError};
use crate::secrets::pairing_code::PairingCode;

/// Bytes of random that one exchange draws.
const DRAWN_BYTES: usize = 64;

/// Which of the two devices this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairingSide {
    /// The one that has the vault.
    Old,
    /// The one that wants to join.
    New,
}

/// What is said over a channel; each is sealed under a key of its own. (2)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairingMessage {
    /// By the new device.
    Request,
    /// By the old one.
    Answer,
}

/// An exchange that has begun.
pub struct Handshake {
    state: Spake2<Ed25519Group>,
    message: Vec<u8>,
}

impl std::fmt::Debug for Handshake {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Handshake(..)")
    }
}

impl Handshake {
    /// Begins an exchange at that remote, as that side.
    ///
    /// # Errors
    /// `RandomError` if the source fails.
    pub fn begin(
        side: PairingSide,
        code: &PairingCode,
        remote: RemoteId,
        random: &dyn Random,
    ) -> Result<Self, RandomError> {
        let mut drawn = Zeroizing::new([0; DRAWN_BYTES]);
        random.fill(drawn.as_mut_slice())?;
        let source = Drawn {
            bytes: drawn.as_slice(),
        };
        let name = |role: &[u8]| {
            let label = b"strongroom format 1 2026-11-25 pairing ".as_slice();
            Identity::new(&[label, role, &remote.0].concat())
        };
        let (old, new) = (name(b"old device "), name(b"new device "));
        // The library does not wipe its copy, which is worth nothing once the code is used or too old.
        let password = Password::new(code.digits());
        let (state, message) = match side {
            PairingSide::Old => Spake2::start_a_with_rng(&password, &old, &new, source),
            PairingSide::New => Spake2::start_b_with_rng(&password, &old, &new, source),
        };
        Ok(Self { state, message })
    }

    /// What the other side has to get.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// The channel to whoever sent `message`; `None` if that is no message of the other side. Whether they have the same code shows
    /// when something that they sealed opens. (1)
    #[must_use]
    pub fn finish(self, message: &[u8]) -> Option<PairingChannel> {
        let key = Zeroizing::new(self.state.finish(message).ok()?);
        let key: &[u8; KEY_BYTES] = key.as_slice().try_into().ok()?;
        Some(PairingChannel(Locked::copy_of(key)))
    }
}

/// A key that two devices have agreed on, if both have the same code.
pub struct PairingChannel(Locked<KEY_BYTES>);

impl std::fmt::Debug for PairingChannel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PairingChannel(..)")
    }
}

impl PairingChannel {
    /// Seals `clear` as that message.
    ///
    /// # Errors
    /// `RandomError` if the source fails.
    pub fn seal(
        &self,
        message: PairingMessage,
        random: &dyn Random,
        clear: &[u8],
    ) -> Result<Vec<u8>, RandomError> {
        self.sealer(message)
            .seal_record(random, Kind::Pairing, clear)
    }

    /// What was sealed as that message by somebody with the same key.
    #[must_use]
    pub fn open(&self, message: PairingMessage, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let sealer = self.sealer(message);
        sealer.open_record(Epoch(0), Kind::Pairing, sealed).ok()
    }

    fn sealer(&self, message: PairingMessage) -> BlockSealer {
        let purpose = match message {
            PairingMessage::Request => Purpose::PairingRequest,
            PairingMessage::Answer => Purpose::PairingAnswer,
        };
        let key = EpochKey::from_bytes(derive(purpose, self.0.bytes()));
        // It names blocks, and here is none.
        let none = IdKey::from_bytes([0; KEY_BYTES]);
        BlockSealer::new(
            SuiteId::Aes256GcmBlake3,
            [0; 16],
            none,
            vec![(Epoch(0), key)],
        )
    }
}

/// Hands bytes drawn beforehand to the exchange, so that a failing generator is an error of ours.
struct Drawn<'a> {
    bytes: &'a [u8],
}

impl RngCore for Drawn<'_> {
    fn next_u32(&mut self) -> u32 {
        let mut word = [0; 4];
        self.fill_bytes(&mut word);
        u32::from_le_bytes(word)
    }

    fn next_u64(&mut self) -> u64 {
        let mut word = [0; 8];
        self.fill_bytes(&mut word);
        u64::from_le_bytes(word)
    }

    fn fill_bytes(&mut self, filled: &mut [u8]) {
        // Repeating bytes would make two exchanges equal; a library that suddenly draws more must fail loudly.
        let (drawn, rest) = self
            .bytes
            .split_at_checked(filled.len())
            .expect("(spake2) holds: one exchange draws 64 bytes");
        filled.copy_from_slice(drawn);
        self.bytes = rest;
    }

    fn try_fill_bytes(&mut self, filled: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(filled);
        Ok(())
    }
}

impl CryptoRng for Drawn<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;
    use strongroom_format::hex;

    const HERE: RemoteId = RemoteId([1; 16]);

    fn code(text: &str) -> PairingCode {
        PairingCode::parse(text).unwrap()
    }

    fn begin(side: PairingSide, text: &str, remote: RemoteId) -> Handshake {
        Handshake::begin(side, &code(text), remote, &SystemRandom).unwrap()
    }

    /// Both ends of an exchange between an old device and a new one with these codes.
    fn channels(old: (&str, RemoteId), new: (&str, RemoteId)) -> (PairingChannel, PairingChannel) {
        let old = begin(PairingSide::Old, old.0, old.1);
        let new = begin(PairingSide::New, new.0, new.1);
        let (to_old, to_new) = (new.message().to_vec(), old.message().to_vec());
        (old.finish(&to_old).unwrap(), new.finish(&to_new).unwrap())
    }

    fn understand(old: &PairingChannel, new: &PairingChannel) -> bool {
        let sealed = new.seal(PairingMessage::Request, &SystemRandom, b"hello");
        let opened = old.open(PairingMessage::Request, &sealed.unwrap());
        opened.is_some_and(|clear| clear.as_slice() == b"hello")
    }

    /// SECURITY.md, claim 23.
    #[test]
    fn two_devices_with_one_code_at_one_remote_understand_one_another_and_no_others_do() {
        let one = "123-4567-8901";
        let (old, new) = channels((one, HERE), (one, HERE));
        assert!(understand(&old, &new));
        let answer = old.seal(PairingMessage::Answer, &SystemRandom, b"come in");
        let answer = answer.unwrap();
        let opened = new.open(PairingMessage::Answer, &answer).unwrap();
        assert_eq!(opened.as_slice(), b"come in");
        for other in [("123-4567-8902", HERE), (one, RemoteId([2; 16]))] {
            let (old, new) = channels((one, HERE), other);
            assert!(!understand(&old, &new));
        }
    }

    #[test]
    fn nothing_said_opens_as_said_by_the_other_in_another_exchange_or_changed() {
        let one = "123-4567-8901";
        let (old, new) = channels((one, HERE), (one, HERE));
        let request = new.seal(PairingMessage::Request, &SystemRandom, b"hello");
        let request = request.unwrap();
        assert!(new.open(PairingMessage::Answer, &request).is_none());
        let (later, _) = channels((one, HERE), (one, HERE));
        assert!(later.open(PairingMessage::Request, &request).is_none());
        for place in 0..request.len() {
            let mut changed = request.clone();
            changed[place] ^= 1;
            assert!(old.open(PairingMessage::Request, &changed).is_none());
            let cut = &request[..place];
            assert!(old.open(PairingMessage::Request, cut).is_none());
        }
    }

    #[test]
    fn what_is_no_message_of_the_other_side_gives_no_channel() {
        let one = "123-4567-8901";
        let own = begin(PairingSide::Old, one, HERE).message().to_vec();
        let other = begin(PairingSide::New, one, HERE).message().to_vec();
        let mut off_the_curve = other.clone();
        off_the_curve[1..].fill(2);
        for message in [&own[..], &[], &other[1..], &off_the_curve] {
            let old = begin(PairingSide::Old, one, HERE);
            assert!(old.finish(message).is_none(), "{message:?}");
        }
    }

    /// Goal: another implementation of the page understands this one. Method: messages and key that `python-spake2` 0.9 gave for the same
    /// code, identities and scalars.
    #[test]
    fn the_exchange_is_the_one_of_another_implementation() {
        struct Fixed(u8);
        impl Random for Fixed {
            fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomError> {
                bytes.fill(self.0);
                Ok(())
            }
        }
        let old = "41727d2032feb3adc0f279acb52dfa2455cba3e368ac1dca9ec7b6a48418934115";
        let new = "421aa009a77957adaf996b8133269267ef45de899b39c983567c84f8817136eb2d";
        let key = "87a73dd0baf9eea06dad99796a39478cc175fe3d9923463f612755ec35040ea9";
        let one = code("123-4567-8901");
        for (side, drawn, own, other) in [
            (PairingSide::Old, 7, old, new),
            (PairingSide::New, 9, new, old),
        ] {
            let begun = Handshake::begin(side, &one, HERE, &Fixed(drawn)).unwrap();
            assert_eq!(hex::encode(begun.message()), own);
            let other = hex::decode::<33>(other).unwrap();
            let channel = begun.finish(&other).unwrap();
            assert_eq!(hex::encode(channel.0.bytes()), key);
        }
    }

    #[test]
    fn a_dead_generator_is_an_error() {
        struct Dead;
        impl Random for Dead {
            fn fill(&self, _: &mut [u8]) -> Result<(), RandomError> {
                Err(RandomError)
            }
        }
        let one = code("123-4567-8901");
        assert!(Handshake::begin(PairingSide::Old, &one, HERE, &Dead).is_err());
        assert!(PairingCode::random(&Dead).is_err());
    }
}

//! Seals what somebody leaves in an inbox, and opens it with the keys of the vault.
//!
//! Takes   the address of an inbox, a name, a sender and pieces of content; or an envelope and pieces, and a keyring
//! Gives   an envelope and sealed pieces; or what they hold
//! Never   opens an envelope as that of another deposit, address or vault, or a piece in the place of another piece
//! Spec    spec/12-inbox.md
//!
//! Invariants
//!  (1) The key of an address follows from the key of its epoch and its id: whoever has no key of that epoch opens nothing.  [12.1.1]
//!  (2) What is sealed in an envelope is bound to the code of the address and the id of the deposit.             [12.3.2]
//!  (3) A piece is bound to its number, and to the key in one envelope.                                         [12.4.1]

use hpke::kem::XWing;
use hpke::{Deserializable as _, Kem as _, Serializable as _};
use strongroom_format::cbor::{Decoder, Encoder, unzigzag, zigzag};
use strongroom_format::deposit::{
    AddressCode, AddressId, DepositId, ENVELOPE_CLEAR_BYTES, InboxAddress, RunId, envelope_of,
    parts_of_envelope,
};
use strongroom_format::limits::{
    DEPOSIT_BYTES_MAX, DEPOSIT_NAME_BYTES_MAX, DEPOSIT_PIECE_BYTES, DEPOSITOR_BYTES_MAX,
    KEM_PUBLIC_BYTES,
};
use strongroom_format::{Epoch, FormatError, Kind, SuiteId};
use zeroize::Zeroizing;

use crate::blocks::block_sealer::BlockSealer;
use crate::blocks::record::padded_len;
use crate::keyring::Keyring;
use crate::keys::{EpochKey, IdKey, KEY_BYTES, Purpose, derive};
use crate::membership::grant::{GrantError, open_with, seal_to};
use crate::random::{Random, RandomError};

/// What the HPKE info of every envelope begins with.
const LABEL: &[u8] = b"strongroom format 1 2026-11-27 deposit";

/// What errors call what an envelope holds.
const WHAT: &str = "content of an envelope";

/// The version inside it.
const FORMAT: u64 = 1;

/// Bytes of the length before what an envelope holds.
const LEN_BYTES: usize = 2;

/// Bytes of the number before the content of a piece.
const NUMBER_BYTES: usize = 8;

/// What a depositor says of a deposit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepositInfo {
    /// What it is to be called; whoever takes it in makes a name for a directory of it.
    pub name: Vec<u8>,
    /// Who they say they are.
    pub sender: String,
    /// Bytes of content.
    pub size: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub modified_ns: i64,
}

/// Why nothing was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealDepositError {
    /// Tampering: the public key of the address is none.
    #[error("the address has no valid public key")]
    Address,
    /// Caller: the content, its name or the sender is too long.
    #[error(
        "a deposit has at most 1 GiB, its name at most 1024 bytes, and its sender at most 128 bytes"
    )]
    TooLong,
    /// Environment: the system gave no randomness.
    #[error("{0}")]
    Random(#[from] RandomError),
}

/// Why an envelope or a piece was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenDepositError {
    /// It was sealed for an epoch whose keys are not here.
    #[error("it was sealed for keys that this device does not have")]
    UnknownEpoch(Epoch),
    /// Whoever made it did not seal it as this specification says, or somebody changed it.
    #[error("it is not sealed for this inbox, or it was changed")]
    Unreadable,
}

/// Seals one deposit: its pieces, in any order, then its envelope.
pub struct DepositSealer {
    run: RunId,
    key: EpochKey,
    pieces: BlockSealer,
}

impl std::fmt::Debug for DepositSealer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("DepositSealer(..)")
    }
}

impl DepositSealer {
    /// With a new key, for one attempt to deposit one thing.
    ///
    /// # Errors
    /// `RandomError` if the source fails.
    pub fn begin(random: &dyn Random) -> Result<Self, RandomError> {
        let mut run = [0; 8];
        random.fill(&mut run)?;
        let key = EpochKey::random(random)?;
        Ok(Self {
            run: RunId(run),
            pieces: sealer_of(&key),
            key,
        })
    }

    /// What its pieces are called by.
    #[must_use]
    pub const fn run(&self) -> RunId {
        self.run
    }

    /// The piece of that number, counted from 0: `DEPOSIT_PIECE_BYTES` of content, the last one at most so many.   (3)
    ///
    /// # Errors
    /// `RandomError` if the source fails.
    ///
    /// # Panics
    /// If `content` is longer.
    pub fn seal_piece(
        &self,
        number: u64,
        content: &[u8],
        random: &dyn Random,
    ) -> Result<Vec<u8>, RandomError> {
        assert!(
            content.len() <= DEPOSIT_PIECE_BYTES,
            "a piece is cut before it is sealed"
        );
        let mut clear = Zeroizing::new(Vec::with_capacity(padded_piece(content.len())));
        clear.extend_from_slice(&number.to_le_bytes());
        clear.extend_from_slice(content);
        clear.resize(padded_piece(content.len()), 0);
        self.pieces.seal_record(random, Kind::Deposit, &clear)
    }

    /// The envelope of the deposit `id`, for the inbox of `address`.                                           (2)
    ///
    /// # Errors
    /// See `SealDepositError`.
    pub fn seal_envelope(
        &self,
        address: &InboxAddress,
        id: DepositId,
        info: &DepositInfo,
        random: &dyn Random,
    ) -> Result<Vec<u8>, SealDepositError> {
        if info.size > DEPOSIT_BYTES_MAX
            || info.name.len() > DEPOSIT_NAME_BYTES_MAX
            || info.sender.len() > DEPOSITOR_BYTES_MAX
        {
            return Err(SealDepositError::TooLong);
        }
        let mut encoder = Encoder::new();
        encoder
            .array(7)
            .unsigned(FORMAT)
            .bytes(&self.run.0)
            .bytes(self.key.bytes())
            .bytes(&info.name)
            .bytes(info.sender.as_bytes())
            .unsigned(info.size)
            .unsigned(zigzag(info.modified_ns));
        let said = Zeroizing::new(encoder.finish());
        let len = u16::try_from(said.len()).map_err(|_| SealDepositError::TooLong)?;
        let mut clear = Zeroizing::new(Vec::with_capacity(ENVELOPE_CLEAR_BYTES));
        clear.extend_from_slice(&len.to_le_bytes());
        clear.extend_from_slice(&said);
        if clear.len() > ENVELOPE_CLEAR_BYTES {
            return Err(SealDepositError::TooLong);
        }
        clear.resize(ENVELOPE_CLEAR_BYTES, 0);
        let info = info_of(address.code(), id);
        let sealed = seal_to(&address.kem, &info, &clear, random).map_err(|error| match error {
            GrantError::PublicKey => SealDepositError::Address,
            GrantError::Random => SealDepositError::Random(RandomError),
        })?;
        Ok(envelope_of(address.epoch, address.id, &sealed))
    }
}

/// An envelope that was opened: it opens the pieces of its deposit.
pub struct OpenedDeposit {
    /// What the depositor says.
    pub info: DepositInfo,
    /// By which address it came.
    pub address: AddressId,
    /// What its pieces are called by.
    pub run: RunId,
    pieces: BlockSealer,
}

impl std::fmt::Debug for OpenedDeposit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("OpenedDeposit(..)")
    }
}

impl OpenedDeposit {
    /// The content in the piece of that number. (3)
    ///
    /// # Errors
    /// `Unreadable`, also for one that is beyond the deposit, or as long as no other writer makes it.
    pub fn open_piece(
        &self,
        number: u64,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, OpenDepositError> {
        let before = number.checked_mul(DEPOSIT_PIECE_BYTES as u64);
        let left = before.and_then(|before| self.info.size.checked_sub(before));
        let len = match left {
            Some(left @ 1..) => {
                usize::try_from(left.min(DEPOSIT_PIECE_BYTES as u64)).unwrap_or(DEPOSIT_PIECE_BYTES)
            }
            _ => return Err(OpenDepositError::Unreadable),
        };
        let opened = self.pieces.open_record(Epoch(0), Kind::Deposit, sealed);
        let mut clear = opened.map_err(|_| OpenDepositError::Unreadable)?;
        let is_padded = clear.len() == padded_piece(len)
            && clear[NUMBER_BYTES + len..].iter().all(|byte| *byte == 0);
        if !is_padded || clear[..NUMBER_BYTES] != number.to_le_bytes() {
            return Err(OpenDepositError::Unreadable);
        }
        clear.truncate(NUMBER_BYTES + len);
        clear.drain(..NUMBER_BYTES);
        Ok(clear)
    }
}

impl Keyring {
    /// The address of that id: under the newest epoch, so that whoever was removed before opens nothing of what it gets.     (1)
    #[must_use]
    pub fn inbox_address(&self, id: AddressId) -> InboxAddress {
        self.address_under(self.epoch(), self.newest_key(), id)
    }

    fn address_under(&self, epoch: Epoch, key: &EpochKey, id: AddressId) -> InboxAddress {
        let mut kem = Box::new([0; KEM_PUBLIC_BYTES]);
        XWing::sk_to_pk(&kem_of(key, id)).write_exact(kem.as_mut_slice());
        InboxAddress {
            vault: self.vault_id(),
            epoch,
            id,
            kem,
        }
    }

    /// Opens the envelope of the deposit `id`.                                                                (2)
    ///
    /// # Errors
    /// `UnknownEpoch`; `Unreadable` for everything else.
    pub fn open_deposit(
        &self,
        id: DepositId,
        envelope: &[u8],
    ) -> Result<OpenedDeposit, OpenDepositError> {
        let parts = parts_of_envelope(envelope);
        let (epoch, address, sealed) = parts.map_err(|_| OpenDepositError::Unreadable)?;
        if epoch > self.epoch() {
            // No header has said so yet, or none ever will.
            return Err(OpenDepositError::UnknownEpoch(epoch));
        }
        let key = self.epoch_key(epoch);
        let key = key.ok_or(OpenDepositError::UnknownEpoch(epoch))?;
        let code = self.address_under(epoch, key, address).code();
        let clear = open_with(&kem_of(key, address), &info_of(code, id), sealed);
        let clear = clear.ok_or(OpenDepositError::Unreadable)?;
        opened(address, &clear).map_err(|_| OpenDepositError::Unreadable)
    }
}

/// What an envelope holds.
fn opened(address: AddressId, clear: &[u8]) -> Result<OpenedDeposit, FormatError> {
    let invalid = |why| FormatError::Invalid { what: WHAT, why };
    let (len, rest) = clear
        .split_first_chunk::<LEN_BYTES>()
        .ok_or(invalid("is truncated"))?;
    let (said, padding) = rest
        .split_at_checked(u16::from_le_bytes(*len).into())
        .ok_or(invalid("is truncated"))?;
    if padding.iter().any(|byte| *byte != 0) {
        return Err(invalid("has something behind its end"));
    }
    let mut decoder = Decoder::new(WHAT, said);
    decoder.array_exact(7)?;
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
    let run = RunId(*decoder.bytes_exact()?);
    let key = EpochKey::from_bytes(*decoder.bytes_exact::<KEY_BYTES>()?);
    let name = decoder.bytes(DEPOSIT_NAME_BYTES_MAX)?.to_vec();
    let sender = std::str::from_utf8(decoder.bytes(DEPOSITOR_BYTES_MAX)?)
        .map_err(|_| invalid("has a sender that is not UTF-8"))?
        .to_owned();
    let size = decoder.unsigned()?;
    if size > DEPOSIT_BYTES_MAX {
        return Err(FormatError::TooLong {
            what: "deposit",
            len: size,
            max: DEPOSIT_BYTES_MAX,
        });
    }
    let modified_ns = unzigzag(decoder.unsigned()?);
    decoder.finish()?;
    Ok(OpenedDeposit {
        info: DepositInfo {
            name,
            sender,
            size,
            modified_ns,
        },
        address,
        run,
        pieces: sealer_of(&key),
    })
}

/// The secret half of an address, derived each time. (1)
fn kem_of(key: &EpochKey, id: AddressId) -> <XWing as hpke::Kem>::PrivateKey {
    let mut secret = Zeroizing::new([0; KEY_BYTES + 16]);
    secret[..KEY_BYTES].copy_from_slice(key.bytes());
    secret[KEY_BYTES..].copy_from_slice(&id.0);
    let kem = Zeroizing::new(derive(Purpose::InboxKem, secret.as_slice()));
    <XWing as hpke::Kem>::PrivateKey::from_bytes(kem.as_slice())
        .expect("(kem) holds: an X-Wing decapsulation key is any 32 bytes")
}

fn info_of(code: AddressCode, id: DepositId) -> Vec<u8> {
    [LABEL, &code.0, &id.0].concat()
}

/// Seals and opens pieces under the key of an envelope.
fn sealer_of(key: &EpochKey) -> BlockSealer {
    // It names blocks, and here is none.
    let none = IdKey::from_bytes([0; KEY_BYTES]);
    BlockSealer::new(
        SuiteId::Aes256GcmBlake3,
        [0; 16],
        none,
        vec![(Epoch(0), key.clone())],
    )
}

/// How long what is sealed of a piece with so many bytes of content is: its object fills whole sectors.
const fn padded_piece(content: usize) -> usize {
    padded_len(NUMBER_BYTES + content, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::genesis::create;
    use crate::keyring::slot::{NewKey, NewSlot};
    use crate::random::SystemRandom;
    use crate::secrets::key_file::KeyFile;
    use strongroom_format::limits::{ENVELOPE_BYTES, SECTOR_BYTES};

    const ADDRESS: AddressId = AddressId([7; 16]);
    const DEPOSIT: DepositId = DepositId([8; 16]);

    fn keyring() -> Keyring {
        let slot = NewSlot {
            label: "file".to_owned(),
            key: NewKey::KeyFile(KeyFile::random(&SystemRandom).unwrap()),
        };
        let made = create(&[slot], SuiteId::Aes256GcmBlake3, &SystemRandom, 1);
        made.unwrap().keyring
    }

    fn info(size: u64) -> DepositInfo {
        DepositInfo {
            name: b"letter.txt".to_vec(),
            sender: "a friend".to_owned(),
            size,
            modified_ns: -5,
        }
    }

    fn sealed(keyring: &Keyring, size: u64) -> (DepositSealer, Vec<u8>) {
        let sealer = DepositSealer::begin(&SystemRandom).unwrap();
        let address = keyring.inbox_address(ADDRESS);
        let envelope = sealer.seal_envelope(&address, DEPOSIT, &info(size), &SystemRandom);
        (sealer, envelope.unwrap())
    }

    #[test]
    fn what_was_deposited_comes_back_piece_by_piece() {
        let keyring = keyring();
        for size in [0, 1, 5000, DEPOSIT_PIECE_BYTES, DEPOSIT_PIECE_BYTES + 1] {
            let content: Vec<u8> = (0..size).map(|at| at as u8).collect();
            let (sealer, envelope) = sealed(&keyring, size as u64);
            assert_eq!(envelope.len(), ENVELOPE_BYTES);
            let opened = keyring.open_deposit(DEPOSIT, &envelope).unwrap();
            assert_eq!(
                (opened.address, opened.run, &opened.info),
                (ADDRESS, sealer.run(), &info(size as u64))
            );
            for (number, piece) in (0..).zip(content.chunks(DEPOSIT_PIECE_BYTES)) {
                let sealed = sealer.seal_piece(number, piece, &SystemRandom).unwrap();
                assert_eq!(sealed.len() % SECTOR_BYTES, 0);
                assert!(opened.open_piece(number, &sealed).unwrap().as_slice() == piece);
            }
            let beyond = sealer.seal_piece(2, b"", &SystemRandom).unwrap();
            let refused = opened.open_piece(2, &beyond);
            assert_eq!(refused.err(), Some(OpenDepositError::Unreadable));
        }
    }

    #[test]
    fn an_envelope_opens_as_that_deposit_of_that_address_of_that_vault_and_as_nothing_else() {
        let (keyring, other) = (keyring(), keyring());
        let (_, envelope) = sealed(&keyring, 3);
        let unreadable = Some(OpenDepositError::Unreadable);
        assert!(keyring.open_deposit(DEPOSIT, &envelope).is_ok());
        assert_eq!(other.open_deposit(DEPOSIT, &envelope).err(), unreadable);
        let moved = keyring.open_deposit(DepositId([9; 16]), &envelope);
        assert_eq!(moved.err(), unreadable);
        for at in (4..ENVELOPE_BYTES).step_by(97).chain([4, 19, 20]) {
            let mut edited = envelope.clone();
            edited[at] ^= 0x40;
            let opened = keyring.open_deposit(DEPOSIT, &edited);
            assert_eq!(opened.err(), unreadable, "{at}");
        }
        for len in [0, 3, 20, ENVELOPE_BYTES - 1] {
            let opened = keyring.open_deposit(DEPOSIT, &envelope[..len]);
            assert_eq!(opened.err(), unreadable, "{len}");
        }
        let mut later = envelope;
        later[0] = 1;
        assert_eq!(
            keyring.open_deposit(DEPOSIT, &later).err(),
            Some(OpenDepositError::UnknownEpoch(Epoch(1)))
        );
    }

    #[test]
    fn a_piece_is_good_in_its_place_of_its_run_only() {
        let keyring = keyring();
        let size = 2 * DEPOSIT_PIECE_BYTES as u64;
        let (sealer, envelope) = sealed(&keyring, size);
        let opened = keyring.open_deposit(DEPOSIT, &envelope).unwrap();
        let content = vec![3; DEPOSIT_PIECE_BYTES];
        let piece = sealer.seal_piece(0, &content, &SystemRandom).unwrap();
        let short = &content[4096..]; // a whole sector: fewer bytes are padding, as only the depositor can know
        let short = sealer.seal_piece(0, short, &SystemRandom).unwrap();
        let again = DepositSealer::begin(&SystemRandom).unwrap();
        let other = again.seal_piece(0, &content, &SystemRandom).unwrap();
        assert!(opened.open_piece(0, &piece).is_ok());
        for (number, bytes) in [
            (1, &piece[..]),
            (2, &piece[..]),
            (u64::MAX, &piece[..]),
            (0, &piece[..piece.len() - 1]),
            (0, &short[..]),
            (0, &other[..]),
            (0, &[][..]),
        ] {
            let refused = opened.open_piece(number, bytes);
            assert_eq!(
                refused.err(),
                Some(OpenDepositError::Unreadable),
                "{number}"
            );
        }
    }

    /// Goal: nobody who was removed opens what is deposited at an address that was made after that.
    #[test]
    fn a_new_epoch_makes_another_key_of_the_same_address() {
        let before = keyring();
        let (_, old) = sealed(&before, 3);
        let after = before.begin_epoch(&SystemRandom).unwrap().keyring;
        let (_, new) = sealed(&after, 3);
        assert!(before.inbox_address(ADDRESS).code() != after.inbox_address(ADDRESS).code());
        assert!(after.open_deposit(DEPOSIT, &old).is_ok());
        assert!(after.open_deposit(DEPOSIT, &new).is_ok());
        let epoch = after.epoch();
        assert_eq!(
            before.open_deposit(DEPOSIT, &new).err(),
            Some(OpenDepositError::UnknownEpoch(epoch))
        );
    }

    #[test]
    fn what_is_too_long_is_not_sealed() {
        let keyring = keyring();
        let sealer = DepositSealer::begin(&SystemRandom).unwrap();
        let address = keyring.inbox_address(ADDRESS);
        let longest = DepositInfo {
            name: vec![b'n'; DEPOSIT_NAME_BYTES_MAX],
            sender: "s".repeat(DEPOSITOR_BYTES_MAX),
            size: DEPOSIT_BYTES_MAX,
            modified_ns: i64::MIN,
        };
        let sealed = |info: &DepositInfo| {
            let sealed = sealer.seal_envelope(&address, DEPOSIT, info, &SystemRandom);
            sealed.map(|envelope| keyring.open_deposit(DEPOSIT, &envelope).unwrap().info)
        };
        assert_eq!(sealed(&longest), Ok(longest.clone()));
        for wrong in [
            DepositInfo {
                name: vec![b'n'; DEPOSIT_NAME_BYTES_MAX + 1],
                ..longest.clone()
            },
            DepositInfo {
                sender: "s".repeat(DEPOSITOR_BYTES_MAX + 1),
                ..longest.clone()
            },
            DepositInfo {
                size: DEPOSIT_BYTES_MAX + 1,
                ..longest.clone()
            },
        ] {
            assert_eq!(sealed(&wrong), Err(SealDepositError::TooLong));
        }
    }
}

//! Deposits something in the inbox of a vault, for a depositor: somebody who has only an address of that inbox.
//!
//! Takes   the URL of an address; a name, a sender, and content of any kind
//! Gives   a deposit, sealed to the vault; whether it was there before
//! Never   holds more than some pieces of the content in memory, or seals to a key that is not that of the address
//! Spec    spec/12-inbox.md, 12.1 to 12.4

use std::fmt;
use std::io::Read;

use strongroom_crypto::providers::ready;
use strongroom_crypto::{DepositInfo, DepositSealer, Random, SealDepositError, SystemRandom};
use strongroom_filesystem::Timestamp;
use strongroom_format::deposit::{AddressCode, DepositId, InboxAddress};
use strongroom_format::limits::{
    DEPOSIT_BYTES_MAX, DEPOSIT_NAME_BYTES_MAX, DEPOSIT_PIECE_BYTES, DEPOSITOR_BYTES_MAX,
};
use strongroom_format::{SuiteId, hex};
use strongroom_remote::{Address, Created, InboxDoor};
use strongroom_sync::{deposit_name, in_parallel, piece_name};

use crate::clock::Moment;
use crate::limits::DEPOSIT_TAKES_MAX;
use crate::{Error, GoOn, Result};

/// Pieces on their way at a time. Each takes about two mebibytes of memory.
const TRANSFERS: usize = 4;

/// What is to be deposited, beside its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewDeposit {
    /// What it is to be called; the vault makes a safe name of it.
    pub name: Vec<u8>,
    /// Who deposits it, as they say; may be empty.
    pub sender: String,
    /// When it was changed last.
    pub modified: Timestamp,
    /// What stays the same if the deposit is repeated: then it is there once. Without it each is another one.
    pub repeatable_as: Option<Vec<u8>>,
}

/// What came of a deposit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepositOutcome {
    /// Its id, in hexadecimal, by which the owner of the vault sees it too.
    pub id: String,
    /// Bytes of its content.
    pub bytes: u64,
    /// It was there already, as an earlier attempt had deposited it.
    pub was_there: bool,
}

/// An address of an inbox, which was checked.
pub struct Depositor {
    door: InboxDoor,
    address: InboxAddress,
    code: AddressCode,
}

impl fmt::Debug for Depositor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Depositor({:?})", self.door)
    }
}

impl Depositor {
    /// Asks the server for the key of the address at `url`, and checks that it is the right one.              [12.1.4]
    ///
    /// # Errors
    /// `Inbox` if `url` is no address; `Remote` if the server cannot be reached, or the address was withdrawn; `RemoteUntrue` if the
    /// server shows another key.
    pub fn open(url: &str) -> Result<Self> {
        ready(SuiteId::Aes256GcmBlake3).map_err(Error::Provider)?;
        let door = Address::parse(url)?.open_inbox()?;
        let code = AddressCode::of_token(door.token()).ok_or_else(|| {
            let why = "this URL is not an address of an inbox: the owner of the vault gets one with `strongroom inbox add`";
            Error::Inbox(why.to_owned())
        })?;
        let address = InboxAddress::decode(&door.document()?).ok();
        let address = address.filter(|address| address.code() == code);
        let address = address.ok_or_else(|| {
            let why =
                "the server shows another key than the one of this address; nothing was deposited";
            Error::RemoteUntrue(why.to_owned())
        })?;
        Ok(Self {
            door,
            address,
            code,
        })
    }

    /// Deposits what `content` gives until its end, durably on return. `told` hears how many bytes are there, and says whether to go on.
    ///
    /// After an error nothing of it comes into the vault; it may be repeated.
    ///
    /// # Errors
    /// `Inbox` if it is too long; `Remote` with `Quota` if the inbox is full; `Io` if `content` fails; `RemoteStopped`.
    pub fn deposit(
        &self,
        new: &NewDeposit,
        content: &mut (dyn Read + Send),
        told: &mut dyn FnMut(u64) -> GoOn,
    ) -> Result<DepositOutcome> {
        if new.name.len() > DEPOSIT_NAME_BYTES_MAX || new.sender.len() > DEPOSITOR_BYTES_MAX {
            return Err(too_long());
        }
        let id = match &new.repeatable_as {
            Some(text) => self.code.deposit_id(text),
            None => {
                let mut id = [0; 16];
                SystemRandom.fill(&mut id)?;
                DepositId(id)
            }
        };
        let (sealer, begun) = (DepositSealer::begin(&SystemRandom)?, Moment::now());
        let mut size = 0;
        in_parallel(
            Pieces {
                content,
                number: 0,
                is_over: false,
            },
            TRANSFERS,
            |piece: Result<(u64, Vec<u8>)>| -> Result<u64> {
                let (number, bytes) = piece?;
                let sealed = sealer.seal_piece(number, &bytes, &SystemRandom)?;
                let name = piece_name(id, sealer.run(), number);
                // If it is there, its answer was lost; or the whole deposit is, which its envelope shows.
                self.door.create(name.split().1, sealed)?;
                Ok(bytes.len() as u64)
            },
            &mut |len| {
                size += len;
                match told(size) {
                    GoOn::Yes => Ok(()),
                    GoOn::No => Err(Error::RemoteStopped),
                }
            },
        )?;
        check_time(begun)?;
        let info = DepositInfo {
            name: new.name.clone(),
            sender: new.sender.clone(),
            size,
            modified_ns: new.modified.0,
        };
        let envelope = sealer.seal_envelope(&self.address, id, &info, &SystemRandom);
        let envelope = envelope.map_err(|error| match error {
            SealDepositError::TooLong => too_long(),
            SealDepositError::Address => Error::RemoteUntrue(error.to_string()),
            SealDepositError::Random(error) => error.into(),
        })?;
        let created = self.door.create(deposit_name(id).split().1, envelope)?;
        Ok(DepositOutcome {
            id: hex::encode(&id.0),
            bytes: size,
            was_there: created == Created::AlreadyThere,
        })
    }
}

/// Refuses to complete a deposit that was begun so long ago that devices may have removed its first pieces: this machine was suspended, or
/// the server was away.                                                                                      [12.2.2]
fn check_time(begun: Moment) -> Result<()> {
    match begun.has_passed(DEPOSIT_TAKES_MAX) {
        false => Ok(()),
        true => Err(Error::Inbox(
            "it took longer than the vault waits for the parts of a deposit, or the clock was set meanwhile; deposit it again".to_owned(),
        )),
    }
}

fn too_long() -> Error {
    let why = SealDepositError::TooLong;
    Error::Inbox(why.to_string())
}

/// Content, cut into pieces as it is read.
struct Pieces<'c> {
    content: &'c mut (dyn Read + Send),
    number: u64,
    is_over: bool,
}

impl Iterator for Pieces<'_> {
    type Item = Result<(u64, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let mut bytes = Vec::with_capacity(DEPOSIT_PIECE_BYTES);
        let mut part = (&mut *self.content).take(DEPOSIT_PIECE_BYTES as u64);
        let read = part.read_to_end(&mut bytes);
        self.is_over = read.is_err() || bytes.len() < DEPOSIT_PIECE_BYTES;
        if let Err(error) = read {
            return Some(Err(Error::io("reading what is to be deposited")(error)));
        }
        if bytes.is_empty() {
            return None;
        }
        if self.number * DEPOSIT_PIECE_BYTES as u64 >= DEPOSIT_BYTES_MAX {
            self.is_over = true;
            return Some(Err(too_long()));
        }
        self.number += 1;
        Some(Ok((self.number - 1, bytes)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn lens(content: &mut (dyn Read + Send)) -> Vec<usize> {
        let pieces = Pieces {
            content,
            number: 0,
            is_over: false,
        };
        pieces.map(|piece| piece.unwrap().1.len()).collect()
    }

    #[test]
    fn content_is_cut_into_pieces_of_which_only_the_last_is_shorter() {
        const PIECE: usize = DEPOSIT_PIECE_BYTES;
        for (len, expected) in [
            (0, vec![]),
            (1, vec![1]),
            (PIECE, vec![PIECE]),
            (PIECE + 1, vec![PIECE, 1]),
            (2 * PIECE, vec![PIECE, PIECE]),
        ] {
            assert_eq!(lens(&mut std::io::repeat(7).take(len as u64)), expected);
        }
    }

    /// Goal: nobody is told that a deposit is there whose first pieces devices have removed. Method: one that began so long ago by one clock.
    /// Failed before: it was completed, however long it had taken.
    #[test]
    fn a_deposit_that_takes_too_long_is_not_completed() {
        let now = Moment::now();
        let (shorter, longer) = (DEPOSIT_TAKES_MAX / 2, DEPOSIT_TAKES_MAX * 2);
        // Of a machine that was suspended only the one clock says so.
        let before = |time| Moment {
            system: now.system - time,
            ..now
        };
        assert!(check_time(before(shorter)).is_ok());
        let refused = check_time(before(longer));
        assert!(matches!(refused, Err(Error::Inbox(_))), "{refused:?}");
        // One that was set back says nothing.
        let set_back = Moment {
            system: now.system + longer,
            ..now
        };
        assert!(check_time(set_back).is_ok());
    }

    /// Goal: what never ends is refused once it is too long, and a source that fails ends it.
    #[test]
    fn a_source_without_end_or_that_fails_ends() {
        let mut endless = std::io::repeat(7);
        let pieces = Pieces {
            content: &mut endless,
            number: 0,
            is_over: false,
        };
        let (mut count, mut last) = (0, None);
        for piece in pieces {
            count += 1;
            last = piece.err();
        }
        assert_eq!(count, 1025);
        assert!(matches!(last, Some(Error::Inbox(_))), "{last:?}");

        #[derive(Debug)]
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
        }
        let mut broken = Broken;
        let pieces = Pieces {
            content: &mut broken,
            number: 0,
            is_over: false,
        };
        let all: Vec<_> = pieces.collect();
        assert!(matches!(&all[..], [Err(Error::Io { .. })]), "{all:?}");
    }

    #[test]
    fn what_is_no_address_is_refused_before_anybody_is_asked() {
        for url in [
            "folder:/tmp",
            "https://srt-00@server.example/anna/v",
            "https://server.example/anna/v",
            "letter.txt",
        ] {
            let error = Depositor::open(url).unwrap_err();
            let is_refused = matches!(error, Error::Inbox(_) | Error::Remote(_));
            assert!(is_refused, "{url}: {error:?}");
        }
    }
}

//! Removes the data of passphrase slots from a header, which then has the form for remotes; and restores that data.
//!
//! Takes   a header of a vault; or one in the form for remotes, and the withheld data
//! Gives   the form for remotes and the withheld data; or the header of the vault again
//! Never   seals or opens: the withheld data is clear here, and the crate `crypto` seals and opens it
//! Spec    spec/1-keys.md, [1.7.6] to [1.7.10]
//!
//! Invariants
//!  (1) Restoring the withheld data gives the original header; no other data is accepted.                     [1.7.9]

use crate::FormatError;
use crate::cbor::{Decoder, Encoder};
use crate::header::{Argon2Parameters, Header, Lock, Slot, SlotId};
use crate::limits::{SLOT_SEALED_BYTES_MAX, SLOTS_MAX};

/// What errors call what is withheld.
const WHAT: &str = "header field `withheld`";

/// The version inside it.
const FORMAT: u64 = 1;

impl Header {
    /// What remotes do not get of this header, in canonical bytes; `None` if they get it as it is.
    #[must_use]
    pub fn to_withhold(&self) -> Option<Vec<u8>> {
        if self.is_guessable() {
            return None;
        }
        let with_argon2 = |slot: &&Slot| matches!(slot.lock, Lock::Passphrase(_));
        let count = self.slots.iter().filter(with_argon2).count();
        if count == 0 {
            return None;
        }
        let mut encoder = Encoder::new();
        encoder.array(2).unsigned(FORMAT).array(count);
        for slot in &self.slots {
            if let Lock::Passphrase(argon2) = &slot.lock {
                encoder
                    .array(6)
                    .bytes(&slot.id.0)
                    .unsigned(argon2.memory_kib.into())
                    .unsigned(argon2.passes.into())
                    .unsigned(argon2.lanes.into())
                    .bytes(&argon2.salt)
                    .bytes(&slot.sealed);
            }
        }
        Some(encoder.finish())
    }

    /// The form for remotes; `sealed`: the record of what `to_withhold` gave.
    #[must_use]
    pub fn for_remotes(&self, sealed: Vec<u8>) -> Self {
        let mut header = self.clone();
        header.withheld = Some(sealed);
        for slot in &mut header.slots {
            if let Lock::Passphrase(_) = slot.lock {
                slot.lock = Lock::Withheld;
                slot.sealed = Vec::new();
            }
        }
        header
    }

    /// The header of which this is the form for remotes; `clear`: what the record in it holds. (1)
    ///
    /// # Errors
    /// Any `FormatError`: it is not of these slots, has another encoding, or is beyond a bound.
    pub fn with_withheld(mut self, clear: &[u8]) -> Result<Self, FormatError> {
        let mut decoder = Decoder::new(WHAT, clear);
        decoder.array_exact(2)?;
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
        let count = decoder.array(SLOTS_MAX)?;
        let withheld = |slot: &&mut Slot| slot.lock == Lock::Withheld;
        let mut slots: Vec<_> = self.slots.iter_mut().filter(withheld).collect();
        if slots.len() != count {
            return Err(decoder.invalid("has a different number of slots than the header"));
        }
        for slot in &mut slots {
            decoder.array_exact(6)?;
            if SlotId(*decoder.bytes_exact()?) != slot.id {
                return Err(decoder.invalid("belongs to another slot"));
            }
            let mut number = || {
                let number = decoder.unsigned()?;
                u32::try_from(number).map_err(|_| decoder.invalid("has too high a cost"))
            };
            let (memory_kib, passes, lanes) = (number()?, number()?, number()?);
            slot.lock = Lock::Passphrase(Argon2Parameters {
                memory_kib,
                passes,
                lanes,
                salt: *decoder.bytes_exact()?,
            });
            slot.sealed = decoder.bytes(SLOT_SEALED_BYTES_MAX)?.to_vec();
        }
        decoder.finish()?;
        self.withheld = None;
        self.check_bounds()?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::GRANT_BYTES;
    use crate::{Epoch, Grant, PrincipalId, SuiteId, VaultId};

    fn slot(number: u8, lock: Lock) -> Slot {
        Slot {
            id: SlotId([number; 8]),
            label: format!("slot {number}"),
            created_s: 7,
            principal: PrincipalId([number; 32]),
            lock,
            sealed: vec![number; 144],
        }
    }

    fn passphrase(number: u8) -> Slot {
        let argon2 = Argon2Parameters {
            memory_kib: 65536,
            passes: u32::from(number),
            lanes: 1,
            salt: [number + 0x40; 16],
        };
        slot(number, Lock::Passphrase(argon2))
    }

    fn header(slots: Vec<Slot>) -> Header {
        Header {
            vault: VaultId([1; 32]),
            generation: 4,
            suite: SuiteId::Aes256GcmBlake3,
            records: Vec::new(),
            slots,
            grants: vec![Grant {
                epoch: Epoch(0),
                principal: PrincipalId([3; 32]),
                bytes: Box::new([5; GRANT_BYTES]),
            }],
            guessable_changes: 0,
            withheld: None,
        }
    }

    fn mixed() -> Header {
        let slots = vec![
            slot(1, Lock::RecoveryCode),
            passphrase(3),
            slot(4, Lock::Age),
            passphrase(5),
        ];
        header(slots)
    }

    /// SECURITY.md, claim 24.
    #[test]
    fn the_form_for_remotes_has_no_byte_of_a_salt_or_payload_and_gives_the_header_back() {
        let whole = mixed();
        let clear = whole.to_withhold().unwrap();
        let remote = whole.for_remotes(b"sealed".to_vec());
        let bytes = remote.encode(|_| [0; 32]).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(!text.contains("argon2") && !text.contains(&"43".repeat(16)));
        assert_eq!(
            text.matches("\"sealed\"").count(),
            3,
            "two slots and a grant"
        );
        let read = Header::decode(&bytes).unwrap().header;
        assert_eq!(read, remote);
        assert_eq!(read.to_withhold(), None);
        assert_eq!(read.with_withheld(&clear).unwrap(), whole);
    }

    #[test]
    fn nothing_is_withheld_where_there_is_no_passphrase_or_the_header_says_so() {
        assert_eq!(header(vec![slot(1, Lock::KeyFile)]).to_withhold(), None);
        let guessable = Header {
            guessable_changes: 1,
            ..mixed()
        };
        assert_eq!(guessable.to_withhold(), None);
        let bytes = guessable.encode(|_| [0; 32]).unwrap();
        assert_eq!(Header::decode(&bytes).unwrap().header, guessable);
    }

    #[test]
    fn what_was_withheld_of_other_slots_is_not_put_back() {
        let remote = mixed().for_remotes(Vec::new());
        let of = |slots| header(slots).to_withhold().unwrap();
        let wrong = [
            of(vec![passphrase(3)]),
            of(vec![passphrase(5), passphrase(3)]),
            of(vec![passphrase(3), passphrase(6)]),
            of(vec![passphrase(3), passphrase(5), passphrase(6)]),
        ];
        for clear in wrong {
            let put = remote.clone().with_withheld(&clear);
            assert!(matches!(put, Err(FormatError::Invalid { .. })), "{put:?}");
        }
        let right = mixed().to_withhold().unwrap();
        for place in 0..right.len() {
            assert!(remote.clone().with_withheld(&right[..place]).is_err());
        }
        let longer = [right.as_slice(), &[0]].concat();
        assert!(remote.clone().with_withheld(&longer).is_err());
        let mut costly = mixed();
        costly.slots[1] = {
            let mut slot = passphrase(3);
            if let Lock::Passphrase(argon2) = &mut slot.lock {
                argon2.memory_kib = u32::MAX;
            }
            slot
        };
        let put = remote.with_withheld(&costly.to_withhold().unwrap());
        assert!(matches!(put, Err(FormatError::Argon2OutOfRange { .. })));
    }

    #[test]
    fn a_mixture_of_both_forms_is_refused() {
        let refused = |change: &dyn Fn(&mut Header)| {
            let mut remote = mixed().for_remotes(vec![1]);
            change(&mut remote);
            remote.encode(|_| [0; 32]).unwrap_err()
        };
        refused(&|one| one.withheld = None);
        refused(&|one| one.guessable_changes = 1);
        refused(&|one| one.slots[1] = passphrase(3));
        refused(&|one| one.slots[1].sealed = vec![1]);
        refused(&|one| one.slots.retain(|slot| slot.lock != Lock::Withheld));
        refused(&|one| one.withheld = Some(vec![0; crate::limits::WITHHELD_BYTES_MAX + 1]));
        let text = |one: &Header| String::from_utf8(one.encode(|_| [0; 32]).unwrap()).unwrap();
        let edited = |text: String, old: &str, new: &str| {
            assert!(text.contains(old), "{old}");
            let text = text.replacen(old, new, 1);
            let covered = &text[..text.find("  \"checksum\"").unwrap()];
            let bytes = crate::json_file::close_object(covered.as_bytes().to_vec());
            Header::decode(&bytes).unwrap_err()
        };
        let remote = text(&mixed().for_remotes(vec![1]));
        edited(remote.clone(), "\"withheld\"\n", "\"guessable\"\n");
        edited(
            remote.clone(),
            "\"withheld\"\n",
            "\"withheld\", \"withheld\"\n",
        );
        edited(remote, "\n    \"withheld\"\n", "\n");
        let whole = text(&mixed());
        edited(whole.clone(), "\"flags\": []", "\"flags\": [\"withheld\"]");
        let error = edited(whole, "\"flags\": []", "\"flags\": [\"other\"]");
        assert!(matches!(error, FormatError::UnknownFlag { .. }));
    }
}

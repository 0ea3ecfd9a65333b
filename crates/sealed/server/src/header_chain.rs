//! The chain of members that is public in a header.
//!
//! Takes   the bytes of a header, in either form
//! Gives   its membership records, verified
//! Never   needs a key, looks at key slots and grants, or verifies their MAC: holders of the keys of the vault do
//! Spec    spec/1-keys.md, 1.4 and 1.7; spec/11-sync.md, [11.11.5]

use strongroom_format::limits::HEADER_BYTES_MAX;
use strongroom_format::{Header, Record, VaultId};
use strongroom_membership::{Chain, by_dalek};
use strongroom_remote::protocol::Refusal;

/// Bytes of the id of a record.
pub(crate) const ID_BYTES: usize = 32;

/// A chain that follows its rules from the first record to the last.
#[derive(Clone, Debug)]
pub(crate) struct HeaderChain {
    records: Vec<Record>,
    pub(crate) chain: Chain,
}

impl HeaderChain {
    /// The chain of a header.
    ///
    /// # Errors
    /// `WrongHeader` if the bytes are none of a vault.
    pub(crate) fn of_header(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.len() > HEADER_BYTES_MAX {
            return Err(Refusal::WrongHeader);
        }
        let stored = Header::decode(bytes).map_err(|_| Refusal::WrongHeader)?;
        let records = stored.header.records;
        let chain = Chain::verify(&records, &by_dalek).map_err(|_| Refusal::WrongHeader)?;
        match chain.vault() == stored.header.vault {
            true => Ok(Self { records, chain }),
            false => Err(Refusal::WrongHeader),
        }
    }

    /// The vault.
    pub(crate) const fn vault(&self) -> VaultId {
        self.chain.vault()
    }

    /// The ids of the records, one after the other: what was noted of a chain, and begins every chain that goes on from it.
    pub(crate) fn ids(&self) -> Vec<u8> {
        ids_of(&self.records)
    }

    /// This chain and what `shown`, records from `from` on, says behind it.
    ///
    /// # Errors
    /// `OtherMembers` if they part from this chain, or do not follow.
    pub(crate) fn with(mut self, from: usize, shown: &[Record]) -> Result<Self, Refusal> {
        let known = self.records.get(from..).unwrap_or_default();
        let both = known.len().min(shown.len());
        // A gap between the two shows at its first record.
        if ids_of(&known[..both]) != ids_of(&shown[..both]) {
            return Err(Refusal::OtherMembers);
        }
        for record in &shown[both..] {
            self.chain
                .apply(record, &by_dalek)
                .map_err(|_| Refusal::OtherMembers)?;
            self.records.push(record.clone());
        }
        Ok(self)
    }
}

fn ids_of(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(|record| record.id.0).collect()
}

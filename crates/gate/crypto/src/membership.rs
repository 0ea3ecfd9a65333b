//! The chain of membership records, verified with the chosen provider of signatures; and the record that continues it.
//!
//! Takes   the records of a header, oldest first; or the changes to make and the member that signs them
//! Gives   a `Membership`, or the next record
//! Never   decides whether a record follows: the crate `membership` does, for servers and strangers too
//! Spec    spec/1-keys.md, section 1.4

pub(crate) mod grant;
pub(crate) mod handover;
pub(crate) mod principal;

use crate::membership::principal::{Principal, by_provider};
use std::ops::Deref;
use strongroom_format::{Change, Record, RecordBody};
use strongroom_membership::Chain;

pub use strongroom_membership::Forged;

/// What a verified chain says.
#[derive(Clone, Debug)]
pub(crate) struct Membership(Chain);

impl Deref for Membership {
    type Target = Chain;

    fn deref(&self) -> &Chain {
        &self.0
    }
}

impl Membership {
    /// Verifies `records` from the first to the last.
    pub(crate) fn verify(records: &[Record]) -> Result<Self, Forged> {
        Chain::verify(records, &by_provider).map(Self)
    }

    /// Begins a chain with its genesis record, signed by the first device.
    pub(crate) fn begin(genesis: &Record) -> Result<Self, Forged> {
        Chain::begin(genesis, &by_provider).map(Self)
    }

    /// Takes in the next record. On an error this value must not be used any more.
    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), Forged> {
        self.0.apply(record, &by_provider)
    }

    /// The record that makes `changes` after this chain, signed by `author`. `apply` says whether it may.
    pub(crate) fn next(&self, changes: Vec<Change>, author: &Principal) -> Record {
        let body = RecordBody {
            sequence: self.count() as u64,
            link: self.head().0,
            author: author.id(),
            changes,
        };
        let signature = author.sign(body.id());
        body.signed(signature)
    }
}

#[cfg(test)]
mod tests;

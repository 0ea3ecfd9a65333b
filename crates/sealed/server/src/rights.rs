//! Decides who may do what with the objects of a vault.
//!
//! Takes   the asker, as far as the server knows it, and the request
//! Gives   nothing, or a refusal
//! Never   looks anything up: `ledger/chains.rs` does
//! Spec    spec/11-sync.md, [11.11.7] and [11.11.8]; spec/12-inbox.md, [12.5.1]

use strongroom_format::Role;
use strongroom_remote::ObjectName;
use strongroom_remote::protocol::{DEPOSIT_OBJECT_BYTES_MAX, PAIRING_BYTES_MAX, Refusal};

use crate::token::TokenHash;

/// The object that says which vault it is; it has no kind.
pub(crate) const MARKER: &str = "strongroom.json";

/// Who asks, as the token of the request shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Somebody with the token of the account.
    Account,
    /// Somebody who logged in as a principal of the vault.
    Principal {
        /// The id of it.
        id: [u8; 32],
        /// What it showed, if the server has not noted it.
        shown: Option<Shown>,
    },
    /// Somebody with the token of an address of the inbox, of which this is the hash.
    Depositor(TokenHash),
}

/// Membership records behind those that the server has noted made a principal a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The last record that was noted then.
    pub(crate) head: [u8; 32],
    /// As what it is a member.
    pub(crate) role: Role,
}

/// What somebody may do in a vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Everything: the server does not follow the vault.
    NotFollowed,
    /// What a device may do.
    Device,
    /// What a key slot may do.
    Slot,
    /// What the token of the account is good for where the server follows the vault.
    FirstFetch,
    /// What an address of the inbox is good for.
    Deposit,
}

/// Objects that are treated alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The marker and headers: public, and needed before anybody can log in.
    Public,
    /// Messages of a pairing.
    Pairing,
    /// What a device says that it needs.
    Needs,
    /// Deposits, and their pieces.
    Deposit,
    /// Everything else.
    Other,
}

/// What somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// To read or list objects.
    Read(Kind),
    /// To hear of publications.
    Follow,
    /// To create an object of that length.
    Create(Kind, u64),
    /// To remove an object.
    Remove(Kind),
}

impl Kind {
    /// Of the objects whose names begin so.
    pub(crate) fn of_kind(kind: &str) -> Self {
        match kind {
            "headers" => Self::Public,
            "pairing" => Self::Pairing,
            "needs" => Self::Needs,
            "deposits" | "pieces" => Self::Deposit,
            _ => Self::Other,
        }
    }

    /// Of the object of that name.
    pub(crate) fn of(name: &ObjectName) -> Self {
        match name.split() {
            (None, MARKER) => Self::Public,
            (kind, _) => Self::of_kind(kind.unwrap_or_default()),
        }
    }
}

impl Rights {
    /// # Errors
    /// The refusal for who has these rights only.
    pub(crate) fn allow(self, deed: Deed) -> Result<(), Refusal> {
        use Kind::{Needs, Pairing, Public};
        match (self, deed) {
            (Self::NotFollowed, _) => Ok(()),
            (Self::Device | Self::Slot, Deed::Remove(Public)) => Err(Refusal::Stays),
            (Self::Device, _)
            | (Self::Slot, Deed::Read(_) | Deed::Follow)
            | (Self::Slot, Deed::Create(Pairing | Needs, _) | Deed::Remove(Pairing | Needs))
            | (Self::FirstFetch, Deed::Read(Public | Pairing) | Deed::Remove(Pairing)) => Ok(()),
            (Self::FirstFetch, Deed::Create(Pairing, len)) => match len <= PAIRING_BYTES_MAX {
                true => Ok(()),
                false => Err(Refusal::TooLong),
            },
            (Self::Deposit, Deed::Create(Kind::Deposit, len)) => {
                match len <= DEPOSIT_OBJECT_BYTES_MAX {
                    true => Ok(()),
                    false => Err(Refusal::TooLong),
                }
            }
            (Self::Deposit, _) => Err(Refusal::NoAddress),
            (Self::Slot, _) => Err(Refusal::OnlyDevices),
            (Self::FirstFetch, _) => Err(Refusal::LoginNeeded),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    /// Goal: the table of the specification, whole. Method: every right × every deed × every kind, counted.
    #[test]
    fn who_may_do_what_is_as_the_specification_says() {
        const KINDS: [Kind; 5] = [
            Kind::Public,
            Kind::Pairing,
            Kind::Needs,
            Kind::Deposit,
            Kind::Other,
        ];
        let deeds = || {
            let of_kind = |kind| [Deed::Read(kind), Deed::Create(kind, 1), Deed::Remove(kind)];
            KINDS.into_iter().flat_map(of_kind).chain([Deed::Follow])
        };
        let allowed = |rights: Rights| -> Vec<Deed> {
            deeds().filter(|deed| rights.allow(*deed).is_ok()).collect()
        };
        assert_eq!(allowed(Rights::NotFollowed).len(), 16);
        let device = allowed(Rights::Device);
        assert!(device.len() == 15 && !device.contains(&Deed::Remove(Kind::Public)));
        let slot = [
            Deed::Read(Kind::Public),
            Deed::Read(Kind::Pairing),
            Deed::Create(Kind::Pairing, 1),
            Deed::Remove(Kind::Pairing),
            Deed::Read(Kind::Needs),
            Deed::Create(Kind::Needs, 1),
            Deed::Remove(Kind::Needs),
            Deed::Read(Kind::Deposit),
            Deed::Read(Kind::Other),
            Deed::Follow,
        ];
        assert_eq!(allowed(Rights::Slot), slot);
        let first = [
            Deed::Read(Kind::Public),
            Deed::Read(Kind::Pairing),
            Deed::Create(Kind::Pairing, 1),
            Deed::Remove(Kind::Pairing),
        ];
        assert_eq!(allowed(Rights::FirstFetch), first);
        let deposit = [Deed::Create(Kind::Deposit, 1)];
        assert_eq!(allowed(Rights::Deposit), deposit);
        let long = Deed::Create(Kind::Deposit, DEPOSIT_OBJECT_BYTES_MAX + 1);
        assert_eq!(Rights::Deposit.allow(long), Err(Refusal::TooLong));
        let long = Deed::Create(Kind::Pairing, PAIRING_BYTES_MAX + 1);
        assert_eq!(Rights::FirstFetch.allow(long), Err(Refusal::TooLong));
        let refused = Rights::Slot.allow(Deed::Create(Kind::Public, 1));
        assert_eq!(refused, Err(Refusal::OnlyDevices));
        let refused = Rights::FirstFetch.allow(Deed::Follow);
        assert_eq!(refused, Err(Refusal::LoginNeeded));
    }

    #[test]
    fn an_object_is_of_the_kind_that_its_name_says() {
        for (name, kind) in [
            (MARKER, Kind::Public),
            ("strongroom.jso", Kind::Other),
            ("headers/0-a", Kind::Public),
            ("headers", Kind::Other),
            ("pairing/123", Kind::Pairing),
            ("needs/a.1", Kind::Needs),
            ("deposits/0", Kind::Deposit),
            ("pieces/0.1.2", Kind::Deposit),
            ("addresses/0", Kind::Other),
            ("segments/a", Kind::Other),
            ("segments/strongroom.json", Kind::Other),
        ] {
            assert_eq!(Kind::of(&ObjectName::new(name).unwrap()), kind, "{name}");
        }
    }
}

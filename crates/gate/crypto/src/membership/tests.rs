//! Every error in a chain is found, at the record that has it.

use super::*;
use crate::random::SystemRandom;
use strongroom_format::limits::SLOTS_MAX;
use strongroom_format::{Commitment, Epoch, Role};

/// A vault with one device and one slot.
struct Made {
    device: Principal,
    slot: Principal,
    records: Vec<Record>,
    membership: Membership,
}

fn principal() -> Principal {
    Principal::random(&SystemRandom).unwrap()
}

fn add(role: Role, principal: &Principal) -> Change {
    Change::Add {
        role,
        keys: principal.keys().clone(),
    }
}

fn begin(epoch: u32) -> Change {
    Change::Begin {
        epoch: Epoch(epoch),
        commitment: Commitment([3; 32]),
    }
}

fn genesis(device: &Principal, changes: Vec<Change>) -> Record {
    let body = RecordBody {
        sequence: 0,
        link: [5; 32],
        author: device.id(),
        changes,
    };
    let signature = device.sign(body.id());
    body.signed(signature)
}

fn chain() -> Made {
    let (device, slot) = (principal(), principal());
    let first = genesis(
        &device,
        vec![add(Role::Device, &device), add(Role::Slot, &slot), begin(0)],
    );
    let membership = Membership::begin(&first).unwrap();
    Made {
        device,
        slot,
        records: vec![first],
        membership,
    }
}

impl Made {
    fn try_push(&mut self, changes: Vec<Change>, author: &Principal) -> Result<(), Forged> {
        let record = self.membership.next(changes, author);
        let mut next = self.membership.clone();
        next.apply(&record)?;
        self.membership = next;
        self.records.push(record);
        Ok(())
    }

    fn push(&mut self, changes: Vec<Change>) {
        let device = self.device.clone();
        self.try_push(changes, &device).unwrap();
    }
}

/// A chain of five records: two slots more, one of them retired, and a second device.
fn long_chain() -> Made {
    let mut chain = chain();
    let (second, third, device) = (principal(), principal(), principal());
    chain.push(vec![add(Role::Slot, &second)]);
    chain.push(vec![add(Role::Slot, &third)]);
    chain.push(vec![
        Change::Retire {
            principal: second.id(),
        },
        begin(1),
    ]);
    let slot = chain.slot.clone();
    chain
        .try_push(vec![add(Role::Device, &device)], &slot)
        .unwrap();
    chain
}

fn verified(records: &[Record]) -> Result<(), Forged> {
    Membership::verify(records).map(|_| ())
}

#[test]
fn a_chain_says_who_is_a_member_and_which_epoch_it_is() {
    let chain = long_chain();
    let membership = Membership::verify(&chain.records).unwrap();
    assert_eq!(membership.vault().0, chain.records[0].id.0);
    assert_eq!(membership.epoch(), Epoch(1));
    assert_eq!(
        (
            membership.count_of(Role::Device),
            membership.count_of(Role::Slot)
        ),
        (2, 2)
    );
    assert!(membership.is(chain.slot.id(), Role::Slot));
    assert!(!membership.is(chain.slot.id(), Role::Device));
}

#[test]
fn a_record_dropped_anywhere_but_at_the_end_is_found_where_it_is_missing() {
    let chain = long_chain();
    for dropped in 1..chain.records.len() - 1 {
        let mut records = chain.records.clone();
        records.remove(dropped);
        assert_eq!(
            verified(&records),
            Err(Forged {
                record: dropped,
                why: "does not follow the record before it"
            })
        );
    }
    assert_eq!(
        verified(&[]),
        Err(Forged {
            record: 0,
            why: "is missing"
        })
    );
    assert_eq!(verified(&chain.records[1..]).unwrap_err().record, 0);
}

#[test]
fn two_records_that_changed_places_are_found() {
    let chain = long_chain();
    for place in 1..chain.records.len() - 1 {
        let mut records = chain.records.clone();
        records.swap(place, place + 1);
        assert_eq!(verified(&records).unwrap_err().record, place);
    }
}

#[test]
fn a_record_of_another_vault_is_found() {
    let (mut chain, foreign) = (long_chain(), long_chain());
    chain.records[2] = foreign.records[2].clone();
    assert_eq!(
        verified(&chain.records),
        Err(Forged {
            record: 2,
            why: "does not follow the record before it"
        })
    );
}

#[test]
fn a_record_changed_after_signing_is_found() {
    let chain = long_chain();
    for place in 0..chain.records.len() {
        let mut records = chain.records.clone();
        let mut body = records[place].body.clone();
        body.changes.push(add(Role::Device, &principal()));
        records[place] = body.signed(records[place].signature);
        assert_eq!(verified(&records).unwrap_err().record, place);
        let mut records = chain.records.clone();
        records[place].signature[40] ^= 1;
        assert_eq!(verified(&records).unwrap_err().record, place);
    }
}

#[test]
fn a_stranger_signs_nothing() {
    let mut chain = chain();
    let stranger = principal();
    let why = "is signed by somebody who is not a member";
    assert_eq!(
        chain.try_push(vec![add(Role::Device, &stranger)], &stranger),
        Err(Forged { record: 1, why })
    );
}

#[test]
fn a_member_cannot_sign_in_the_name_of_another() {
    let chain = chain();
    let body = RecordBody {
        sequence: 1,
        link: chain.records[0].id.0,
        author: chain.device.id(),
        changes: vec![add(Role::Slot, &principal())],
    };
    let signature = chain.slot.sign(body.id());
    let records = [chain.records[0].clone(), body.signed(signature)];
    assert_eq!(
        verified(&records),
        Err(Forged {
            record: 1,
            why: "has a wrong signature"
        })
    );
}

#[test]
fn a_slot_adds_devices_and_nothing_else() {
    let mut chain = chain();
    let slot = chain.slot.clone();
    assert_eq!(
        chain.try_push(vec![add(Role::Device, &principal())], &slot),
        Ok(())
    );
    for changes in [
        vec![add(Role::Slot, &principal())],
        vec![begin(1)],
        vec![
            Change::Retire {
                principal: chain.device.id(),
            },
            begin(1),
        ],
        vec![add(Role::Device, &principal()), begin(1)],
    ] {
        let error = chain.try_push(changes, &slot).unwrap_err();
        assert_eq!(
            error.why,
            "is signed by a key slot, which may only add devices"
        );
    }
}

#[test]
fn who_is_retired_signs_nothing_and_never_comes_back() {
    let mut chain = chain();
    let second = principal();
    chain.push(vec![add(Role::Device, &second)]);
    chain.push(vec![
        Change::Retire {
            principal: second.id(),
        },
        begin(1),
    ]);
    let why = "is signed by somebody who is not a member";
    assert_eq!(
        chain.try_push(vec![begin(2)], &second),
        Err(Forged { record: 3, why })
    );
    let device = chain.device.clone();
    let why = "adds somebody who is or was a member";
    assert_eq!(
        chain.try_push(vec![add(Role::Slot, &second)], &device),
        Err(Forged { record: 3, why })
    );
    assert_eq!(
        chain.try_push(vec![add(Role::Slot, &device)], &device),
        Err(Forged { record: 3, why })
    );
}

#[test]
fn retiring_begins_exactly_one_epoch_and_epochs_count_by_one() {
    let mut chain = chain();
    let (device, second) = (chain.device.clone(), principal());
    chain.push(vec![add(Role::Slot, &second)]);
    let retire = Change::Retire {
        principal: second.id(),
    };
    for changes in [
        vec![retire.clone()],
        vec![retire.clone(), begin(1), begin(2)],
        vec![retire.clone(), begin(0)],
        vec![retire, begin(2)],
        vec![begin(u32::MAX)],
        vec![
            Change::Retire {
                principal: principal().id(),
            },
            begin(1),
        ],
    ] {
        assert!(
            chain.try_push(changes.clone(), &device).is_err(),
            "{changes:?}"
        );
    }
}

#[test]
fn the_last_slot_cannot_be_retired() {
    let mut chain = chain();
    let device = chain.device.clone();
    let changes = vec![
        Change::Retire {
            principal: chain.slot.id(),
        },
        begin(1),
    ];
    assert_eq!(
        chain.try_push(changes, &device),
        Err(Forged {
            record: 1,
            why: "leaves no key slot"
        })
    );
}

#[test]
fn a_genesis_of_another_shape_is_refused() {
    let (device, slot) = (principal(), principal());
    for changes in [
        vec![add(Role::Device, &device), begin(0)],
        vec![add(Role::Device, &device), add(Role::Slot, &slot)],
        vec![add(Role::Device, &device), add(Role::Slot, &slot), begin(1)],
        vec![add(Role::Slot, &slot), add(Role::Device, &device), begin(0)],
        vec![add(Role::Device, &slot), add(Role::Slot, &device), begin(0)],
        vec![
            add(Role::Device, &device),
            add(Role::Device, &slot),
            begin(0),
        ],
        vec![
            add(Role::Device, &device),
            add(Role::Slot, &slot),
            add(Role::Slot, &slot),
            begin(0),
        ],
    ] {
        let record = genesis(&device, changes);
        assert_eq!(verified(&[record]).unwrap_err().record, 0);
    }
}

#[test]
fn no_more_slots_than_the_limit_are_members() {
    let mut chain = chain();
    let device = chain.device.clone();
    let many = (1..SLOTS_MAX)
        .map(|_| add(Role::Slot, &principal()))
        .collect();
    chain.push(many);
    let why = "adds more members than are allowed";
    assert_eq!(
        chain.try_push(vec![add(Role::Slot, &principal())], &device),
        Err(Forged { record: 2, why })
    );
}

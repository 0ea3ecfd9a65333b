//! Deposits that others make at the server of a history, and the address that they use.
//!
//! Takes   a history; nothing happens if its remote is in memory
//! Gives   deposits that the server acknowledged; the first violation of the rule (10) in the head of `sync.rs`
//! Never   changes a deposit: vault/tests/inbox.rs tests what users do to one
//! Spec    spec/12-inbox.md

use std::collections::BTreeMap;

use strongroom::{Depositor, Error, GoOn, NewDeposit};

use crate::sync::contents::{Form, Piece};
use crate::sync::device::Device;
use crate::sync::files::{INBOX, nodes, pieces};
use crate::sync::history::History;
use crate::sync::judge::words;

/// What devices call the address.
const LABEL: &str = "post";

/// Behind so many steps somebody deposits something once.
const EVERY: u64 = 8;

/// Lengths of deposits: most have one part, some have two.
const LENS: [usize; 4] = [40, 5_000, 150_000, 1_100_000];

/// What a depositor hears whose address is of no use any more.
const WITHDRAWN: &str = "withdrawn";

impl History<'_> {
    /// A device makes an address by which others deposit.
    pub(crate) fn make_address(&mut self, number: usize) -> Result<(), String> {
        let Some(deposits) = &mut self.deposits else {
            return Ok(());
        };
        self.truth.names.insert(INBOX.trim_matches('/').to_owned());
        let device = &self.devices[number];
        let added = (device.vault()).add_inbox_address(LABEL, device.remote, &mut |_| GoOn::Yes);
        match added {
            Ok(added) => {
                deposits.url = Some(added.url);
                self.has_pushed(number, &added.synced)?;
                self.story
                    .tell(format!("device {number}: an address of the inbox"));
                Ok(())
            }
            // The one before is not withdrawn yet, or keys were changed meanwhile.
            Err(Error::Inbox(why)) => {
                self.story
                    .tell(format!("device {number}: no address: {why}"));
                Ok(())
            }
            // What is sealed again goes on by itself.
            Err(Error::KeysInUse) => {
                let driven = device.drive();
                driven.map_err(|error| format!("(1): device {number}: {error}"))
            }
            Err(error) => self.met(number, &error),
        }
    }

    /// Somebody deposits something now and then, while the server may be killed.
    pub(crate) fn deposit(&mut self, step: u64) -> Result<(), String> {
        let (Some(deposits), Some(server)) = (&mut self.deposits, &self.server) else {
            return Ok(());
        };
        if !deposits.choices.chance(1, EVERY) {
            return Ok(());
        }
        let Some(url) = deposits.url.clone() else {
            let members = self.devices.iter().filter(|device| device.is_member());
            let members: Vec<usize> = members.map(|device| device.number).collect();
            let number = *deposits.choices.one_of(&members);
            return self.make_address(number);
        };
        let len = *deposits.choices.one_of(&LENS);
        let piece = self.truth.piece(len, Form::Bytes);
        self.truth.gave(&[piece]);
        let name = format!("deposit-{piece}");
        self.truth.names.insert(name.clone());
        deposits.begun.push(piece);
        let (new, content) = (
            NewDeposit {
                name: name.into_bytes(),
                ..NewDeposit::default()
            },
            self.truth.bytes(&[piece]),
        );
        server.meet_deposit();
        let done = Depositor::open(&url)
            .and_then(|depositor| depositor.deposit(&new, &mut &*content, &mut |_| GoOn::Yes));
        match done {
            Ok(_) => {
                deposits.acknowledged.push(piece);
                self.truth.published.insert(piece);
                self.story.deposits += 1;
                self.story
                    .tell(format!("{step}: a deposit: {piece} of {len} bytes"));
                Ok(())
            }
            Err(error) if error.to_string().contains(WITHDRAWN) => {
                deposits.url = None;
                self.story.tell(format!("{step}: no deposit: {error}"));
                Ok(())
            }
            Err(error) => Err(format!("(10): step {step}: a depositor: {error}")),
        }
    }

    /// Of devices that have the same. (10)
    pub(crate) fn judge_deposits(&self, devices: &[&Device]) -> Result<(), String> {
        let Some(deposits) = &self.deposits else {
            return Ok(());
        };
        for device in devices {
            let number = device.number;
            let failed = |error: Error| format!("(10): device {number}: {error}");
            let mut found: BTreeMap<Piece, usize> = BTreeMap::new();
            for node in nodes(device).map_err(failed)? {
                let is_inside = node.path.strip_prefix(INBOX);
                if is_inside.is_none_or(str::is_empty) {
                    continue;
                }
                for piece in pieces(device, &self.truth, &node.path).map_err(words)? {
                    *found.entry(piece).or_default() += 1;
                }
            }
            for piece in &deposits.begun {
                let count = found.remove(piece).unwrap_or(0);
                let is_acknowledged = deposits.acknowledged.contains(piece);
                if count > 1 || count == 0 && is_acknowledged {
                    return Err(format!(
                        "(10): device {number} has the deposit {piece} {count} times, acknowledged: {is_acknowledged}"
                    ));
                }
            }
            if let Some(piece) = found.keys().next() {
                return Err(format!(
                    "(10): device {number} has in its inbox what nobody deposited: {piece}"
                ));
            }
            let inbox = device.vault().inbox().map_err(failed)?;
            if !inbox.deposits.is_empty() || !inbox.problems.is_empty() {
                return Err(format!("(10): device {number}: {inbox:?}"));
            }
        }
        Ok(())
    }
}

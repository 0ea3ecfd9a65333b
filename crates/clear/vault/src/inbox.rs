//! The inbox of a vault in the public API: its addresses, and what waits there.
//!
//! Takes   labels, names of remotes, ids of deposits
//! Gives   addresses as URLs, for depositors; what waits at servers
//! Never   shows the URL of an address in a list, or anything of a remote except what waits in its inbox
//! Spec    spec/12-inbox.md, 12.1 and 12.6

use std::collections::HashSet;
use std::sync::Arc;

use strongroom_crypto::{Random, SystemRandom};
use strongroom_format::deposit::{AddressId, DepositId, InboxAddress};
use strongroom_format::hex;
use strongroom_remote::{Address, Remote};
use strongroom_sync::{address_name, deposit_name, object_hash};

use crate::clock::now_s;
use crate::inbox_state::{
    AddressEntry, INBOX_ADDRESSES_MAX, INBOX_LABEL_BYTES_MAX, InboxState, SET_ASIDE,
};
use crate::place_clock::PlaceClock;
use crate::receive::{Waiting, remove_pieces};
use crate::remotes::RemoteProgress;
use crate::request::Request;
use crate::request::frame::ByteBuffer;
use crate::request::remote::{RemoteFields, RemoteRequest};
use crate::{Error, GoOn, Result, SyncReport, Vault};

/// An address of the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxAddressInfo {
    /// What the owner of the vault calls it.
    pub label: String,
    /// The remote where it is; empty if the vault has none of that kind any more.
    pub remote: String,
    /// When it was made, in seconds since 1970.
    pub created_s: u64,
    /// Whether it works no more, because keys were changed since: the next sync withdraws it, or has.
    pub is_old: bool,
}

/// An address that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInboxAddress {
    /// Its URL, which is all that a depositor needs.
    pub url: String,
    /// What the sync before that did.
    pub synced: SyncReport,
}

/// A deposit that waits at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingDeposit {
    /// Its id, in hexadecimal.
    pub id: String,
    /// The remote where it waits.
    pub remote: String,
    /// When it came, in seconds since 1970, by the clock of the server.
    pub came_s: u64,
    /// Whether this vault has taken it in: the next sync removes it there.
    pub is_taken: bool,
    /// Whether it was set aside, because it could not be opened.
    pub is_set_aside: bool,
}

/// The inbox of a vault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxReport {
    /// Its addresses.
    pub addresses: Vec<InboxAddressInfo>,
    /// What waits at the servers that were asked.
    pub deposits: Vec<WaitingDeposit>,
    /// Why servers were not asked, a line each.
    pub problems: Vec<String>,
}

impl Vault {
    /// Makes an address by which others deposit files for this vault at a server, and syncs with that. An address of that label which was
    /// withdrawn is replaced.
    ///
    /// # Errors
    /// `Inbox` if the remote is no Strongroom server, there is such an address or too many, or keys were changed meanwhile; those of
    /// `sync_with`.
    pub fn add_inbox_address(
        &self,
        label: &str,
        remote: &str,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<NewInboxAddress> {
        let is_plain = !label.is_empty()
            && label.len() <= INBOX_LABEL_BYTES_MAX
            && !label.chars().any(char::is_control);
        if !is_plain {
            return refuse("the label of an address has 1 to 128 bytes and no control characters");
        }
        let _turn = self.shared.remote_turns.take()?;
        let (row, remote) = self.reach_server(remote)?;
        // Keys may have been changed elsewhere, and whoever deposits seals to the newest.                       [12.1.2]
        let synced = self.sync_at(row.number, &*remote, told)?;
        let mut id = [0; 16];
        SystemRandom.fill(&mut id)?;
        let address = self.inbox_address(AddressId(id))?;
        let token = address.code().token();
        let entry = AddressEntry {
            id: address.id,
            remote: row.id,
            object: object_hash(token.as_bytes()),
            epoch: address.epoch,
            label: label.to_owned(),
            created_s: now_s(),
            is_withdrawn: false,
        };
        self.make_inbox()?;
        self.change_inbox(|state| {
            let is_other = |one: &AddressEntry| one.label != label;
            let mut all = state.addresses.iter();
            // What came by one that is not withdrawn yet would be forgotten with it.
            match all.find(|one| !is_other(one) && !one.is_withdrawn) {
                Some(one) if one.epoch < entry.epoch => {
                    return refuse(&format!(
                        "the earlier address {label} is not withdrawn yet: sync with its server, or choose another label \
                         (`strongroom inbox list` shows what waits there)"
                    ));
                }
                Some(_) => {
                    return refuse(&format!(
                        "there is already an address called {label}; `strongroom inbox address` shows its URL"
                    ));
                }
                None => {}
            }
            state.addresses.retain(is_other);
            if state.addresses.len() >= INBOX_ADDRESSES_MAX {
                return refuse("the inbox has 64 addresses already; remove one first");
            }
            state.addresses.push(entry.clone());
            Ok(true)
        })?;
        remote.create(&address_name(&entry.object), address.encode())?;
        // The other devices hear of it.
        self.sync_at(row.number, &*remote, told)?;
        // What came with that may have been other keys: then it is withdrawn already.
        if self.inbox_address(address.id)?.epoch != address.epoch {
            return refuse(
                "keys of the vault were changed on another device meanwhile, so the new address works no more; run the command again",
            );
        }
        let url = url_of(&row, &token)?;
        Ok(NewInboxAddress { url, synced })
    }

    /// The URL of an address of the inbox once more; what is missing of it at the server is put there.
    ///
    /// # Errors
    /// `Inbox` if there is none of that label, or keys were changed since it was made; `Remote`.
    pub fn inbox_url(&self, label: &str) -> Result<String> {
        let _turn = self.shared.remote_turns.take()?;
        let entry = self.address_called(label)?;
        let address = self.inbox_address(entry.id)?;
        if entry.is_withdrawn || address.epoch != entry.epoch {
            return refuse(&format!(
                "keys of the vault were changed after the address {label} was made, so it works no more: `strongroom inbox add` makes \
                 another one of that label"
            ));
        }
        let row = self.row_of(&entry)?;
        let remote = self.connect(&row)?;
        remote.create(&address_name(&entry.object), address.encode())?;
        url_of(&row, &address.code().token())
    }

    /// Withdraws an address of the inbox: from then on nobody deposits by it. What was deposited before is taken in; the vault syncs with that
    /// server, and it is given what that did. The last address there stays listed, as one that works no more, while something waits there that
    /// could not be taken in; to remove it again then ends that.
    ///
    /// # Errors
    /// `Inbox` if there is none of that label; `RemoteKept` if this device removes nothing there; those of `sync_with`.
    pub fn remove_inbox_address(
        &self,
        label: &str,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<SyncReport> {
        let _turn = self.shared.remote_turns.take()?;
        let entry = self.address_called(label)?;
        let mut synced = SyncReport::default();
        let place = match self.row_of(&entry) {
            Ok(row) if row.keeps => return Err(Error::RemoteKept(row.name)),
            Ok(row) => Some((row.number, self.connect(&row)?)),
            Err(_) => None,
        };
        if let Some((number, remote)) = &place {
            remote.remove(&address_name(&entry.object))?;
            synced = self.sync_at(*number, &**remote, told)?;
        }
        let waiting = match &place {
            Some((_, remote)) => Waiting::at(&**remote)?,
            None => Waiting::default(),
        };
        self.change_inbox(|state| {
            let before = state.clone();
            let is_other = |one: &AddressEntry| one.id != entry.id;
            let is_last =
                !(before.addresses.iter()).any(|one| is_other(one) && one.remote == entry.remote);
            match is_last && !entry.is_withdrawn && !waiting.deposits.is_empty() {
                true => {
                    for one in state.addresses.iter_mut().filter(|one| one.id == entry.id) {
                        one.is_withdrawn = true;
                    }
                }
                false => state.addresses.retain(is_other),
            }
            Ok(*state != before)
        })?;
        // The other devices hear of it.
        if let Some((number, remote)) = &place {
            self.sync_at(*number, &**remote, told)?;
        }
        Ok(synced)
    }

    /// The addresses of the inbox, and what waits at the servers, as far as they can be asked.
    ///
    /// # Errors
    /// `Inbox` if what the vault has of it cannot be read; `OwnerGone`.
    pub fn inbox(&self) -> Result<InboxReport> {
        let _turn = self.shared.remote_turns.take()?;
        let state = self.inbox_state()?;
        let newest = self.information()?.epoch;
        let rows = self.remote_rows()?;
        let name_of = |id: &[u8; 16]| {
            let row = rows.iter().find(|row| row.id == *id);
            row.map_or_else(String::new, |row| row.name.clone())
        };
        let shown_address = |one: &AddressEntry| InboxAddressInfo {
            label: one.label.clone(),
            remote: name_of(&one.remote),
            created_s: one.created_s,
            is_old: one.is_withdrawn || one.epoch.0 < newest,
        };
        let mut report = InboxReport {
            addresses: state.addresses.iter().map(shown_address).collect(),
            ..InboxReport::default()
        };
        for row in rows.iter().filter(|row| state.is_at(&row.id)) {
            let waiting = self.connect(row).and_then(|remote| Waiting::at(&*remote));
            match waiting {
                Ok(waiting) => report.deposits.extend(shown(&state, row, &waiting)),
                Err(error) => report.problems.push(format!("{}: {error}", row.name)),
            }
        }
        Ok(report)
    }

    /// Removes a deposit from the server where it waits; gives whether there was one of that id.
    ///
    /// # Errors
    /// `Inbox` if that is no id; `Remote`.
    pub fn discard_deposit(&self, id: &str) -> Result<bool> {
        let id = parse_id(id)?;
        let _turn = self.shared.remote_turns.take()?;
        let mut was_there = false;
        for (row, remote) in self.inbox_servers()? {
            if row.keeps || !remote.has(&deposit_name(id))? {
                continue;
            }
            was_there = true;
            remote.remove(&deposit_name(id))?;
            let waiting = Waiting::at(&*remote)?;
            let clock = PlaceClock::of(&*remote, false);
            remove_pieces(&*remote, &waiting, &HashSet::from([id]), Some(&clock))?;
        }
        Ok(was_there)
    }

    /// Removes the deposits that were set aside from the servers where they wait; gives how many.
    ///
    /// # Errors
    /// `Remote`; `RemoteKept` if this device removes nothing there; `Inbox`.
    pub fn discard_set_aside_deposits(&self) -> Result<u64> {
        let _turn = self.shared.remote_turns.take()?;
        let state = self.inbox_state()?;
        let mut count = 0;
        for (row, remote) in self.inbox_servers()? {
            if row.keeps {
                return Err(Error::RemoteKept(row.name));
            }
            let waiting = Waiting::at(&*remote)?;
            let ids = waiting.deposits.iter().map(|(id, _)| *id);
            let gone: HashSet<DepositId> = ids.filter(|id| state.is_set_aside(*id)).collect();
            for id in &gone {
                remote.remove(&deposit_name(*id))?;
                count += 1;
            }
            if !gone.is_empty() {
                let clock = PlaceClock::of(&*remote, false);
                remove_pieces(&*remote, &waiting, &gone, Some(&clock))?;
            }
        }
        Ok(count)
    }

    /// Removes from the servers what belongs to no complete deposit, also of deposits that are on their way; gives how many objects.
    ///
    /// # Errors
    /// `Remote`; `RemoteKept` if this device removes nothing there.
    pub fn discard_unfinished_deposits(&self) -> Result<u64> {
        let _turn = self.shared.remote_turns.take()?;
        let mut count = 0;
        for (row, remote) in self.inbox_servers()? {
            if row.keeps {
                return Err(Error::RemoteKept(row.name));
            }
            let waiting = Waiting::at(&*remote)?;
            count += remove_pieces(&*remote, &waiting, &HashSet::new(), None)?;
        }
        Ok(count)
    }

    /// Lets the next pull try a deposit again that was set aside; gives whether there was one of that id.
    ///
    /// # Errors
    /// `Inbox` if that is no id.
    pub fn retry_deposit(&self, id: &str) -> Result<bool> {
        let id = parse_id(id)?;
        let mut was_there = false;
        self.change_inbox(|state| {
            let before = state.received.len();
            state
                .received
                .retain(|one| one.deposit != id || one.node != SET_ASIDE);
            was_there = state.received.len() < before;
            Ok(was_there)
        })?;
        Ok(was_there)
    }

    /// The document of an address, under the newest keys.
    fn inbox_address(&self, id: AddressId) -> Result<InboxAddress> {
        let request = RemoteRequest::InboxAddress { id: id.0 };
        let ByteBuffer(document) = self.ask_for(&Request::Remote(request))?;
        let address = InboxAddress::decode(&document);
        address.map_err(|_| Error::Protocol("an invalid address of an inbox"))
    }

    /// The remote of that name, which must be a Strongroom server.
    fn reach_server(&self, name: &str) -> Result<(RemoteFields, Arc<dyn Remote>)> {
        let (row, remote) = self.reach(name)?;
        match Address::parse(&row.address).is_ok_and(|address| address.is_server()) {
            true => Ok((row, remote)),
            false => refuse(&format!(
                "an inbox needs a Strongroom server, and {name} is none; `strongroom serve` runs one"
            )),
        }
    }

    fn address_called(&self, label: &str) -> Result<AddressEntry> {
        let mut all = self.inbox_state()?.addresses.into_iter();
        let found = all.find(|one| one.label == label);
        found.ok_or_else(|| {
            Error::Inbox(format!(
                "the inbox has no address called {label}; `strongroom inbox list` shows all"
            ))
        })
    }

    /// The remote where an address is.
    fn row_of(&self, entry: &AddressEntry) -> Result<RemoteFields> {
        let mut rows = self.remote_rows()?.into_iter();
        let row = rows.find(|row| row.id == entry.remote);
        row.ok_or_else(|| {
            Error::Inbox(format!(
                "the server of the address {} is not a remote of this vault any more",
                entry.label
            ))
        })
    }

    /// The remotes that have an inbox of this vault.
    fn inbox_servers(&self) -> Result<Vec<(RemoteFields, Arc<dyn Remote>)>> {
        let state = self.inbox_state()?;
        let rows = self.remote_rows()?.into_iter();
        rows.filter(|row| state.is_at(&row.id))
            .map(|row| {
                let remote = self.connect(&row)?;
                Ok((row, remote))
            })
            .collect()
    }
}

/// What waits at a remote, as a list shows it.
fn shown(state: &InboxState, row: &RemoteFields, waiting: &Waiting) -> Vec<WaitingDeposit> {
    let deposits = waiting.deposits.iter();
    deposits
        .map(|(id, came_s)| {
            let is_set_aside = state.is_set_aside(*id);
            WaitingDeposit {
                id: hex::encode(&id.0),
                remote: row.name.clone(),
                came_s: *came_s,
                is_taken: state.has_received(*id) && !is_set_aside,
                is_set_aside,
            }
        })
        .collect()
}

fn url_of(row: &RemoteFields, token: &str) -> Result<String> {
    let url = Address::parse(&row.address)?.with_token(token);
    url.ok_or(Error::Protocol("an inbox at a remote that is no server"))
}

fn parse_id(id: &str) -> Result<DepositId> {
    let parsed = hex::decode(id).map(DepositId);
    parsed.ok_or_else(|| {
        Error::Inbox(
            "the id of a deposit has 32 hexadecimal digits; `strongroom inbox list` shows the ids"
                .to_owned(),
        )
    })
}

fn refuse<T>(why: &str) -> Result<T> {
    Err(Error::Inbox(why.to_owned()))
}

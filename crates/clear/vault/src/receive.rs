//! Brings deposits from the inbox at a remote into the vault: each once, whichever device is first.
//!
//! Takes   an open vault, whichever process owns it, and a remote of it from which everything was pulled
//! Gives   files in `/Inbox`; for each deposit that did not come, the reason
//! Never   lets a deposit end a pull, gives a name to an incomplete one, or removes one before its note is published
//! Spec    spec/12-inbox.md, 12.6
//!
//! Invariants
//!  (1) A deposit stays at the remote until a head that notes it is published there.                          [12.6.3]
//!  (2) The name of a deposit and the note that it was taken in come in one transaction.                      [12.6.2]

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use strongroom_filesystem::{Durability, Error as FileError};
use strongroom_format::deposit::{AddressId, DepositId, InboxAddress};
use strongroom_format::hex;
use strongroom_remote::protocol::{ADDRESS_OBJECT_BYTES_MAX, INBOX_DEPOSITS_MAX};
use strongroom_remote::{Error as RemoteError, ObjectName, Remote};
use strongroom_sync::{address_name, deposit_name, deposit_of, in_parallel, piece_of};

use crate::clock::now_s;
use crate::inbox_state::{AddressEntry, INBOX_STATE, InboxState, Listing, SET_ASIDE};
use crate::inbox_taking::{Came, NO_SPACE, Taken};
use crate::limits::{DEPOSIT_GRACE, SET_ASIDE_STAYS};
use crate::path::Links;
use crate::place_clock::PlaceClock;
use crate::pull::PullReport;
use crate::push::PushReport;
use crate::remotes::{RemoteProgress, go_on};
use crate::request::remote::RemoteFields;
use crate::{Error, GoOn, Operation, Result, Vault};

/// How often a change is begun again because somebody changed the root directory meanwhile.
const ATTEMPTS: usize = 64;

/// So many deposits are fetched in one pull although there was no room for them.
const TRIES_WITHOUT_ROOM: u32 = 3;

/// Addresses that are looked at of which the tree says nothing, so that no server makes that long.
const ADDRESSES_LOOKED_AT: usize = 1_000;

/// Paths that a report gives; the rest is counted.
const PATHS_TOLD_MAX: usize = 1_000;

/// What waits in the inbox at a remote.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Deposits, and when they came, oldest first.
    pub(crate) deposits: Vec<(DepositId, u64)>,
    /// Whether the remote was asked.
    pub(crate) is_asked: bool,
}

impl Waiting {
    /// The first so many that the remote lists.                                                                 [12.6.7]
    pub(crate) fn at(remote: &dyn Remote) -> Result<Self> {
        let listed = remote.list("deposits")?;
        let mut deposits: Vec<(DepositId, u64)> = listed
            .iter()
            .filter_map(|one| Some((deposit_of(&one.name)?, one.created_s)))
            .collect();
        deposits.sort_unstable_by_key(|(id, came_s)| (*came_s, *id));
        deposits.truncate(INBOX_DEPOSITS_MAX);
        Ok(Self {
            deposits,
            is_asked: true,
        })
    }

    fn ids(&self) -> HashSet<DepositId> {
        self.deposits.iter().map(|(id, _)| *id).collect()
    }
}

impl Vault {
    /// What the tree says of the inbox.
    ///
    /// # Errors
    /// `Inbox` if it cannot be read.
    pub(crate) fn inbox_state(&self) -> Result<InboxState> {
        match self.xattr("/", Links::Stay, INBOX_STATE) {
            Err(Error::File(FileError::NoAttribute)) => Ok(InboxState::default()),
            value => InboxState::decode(&value?).map_err(|error| {
                let name = String::from_utf8_lossy(INBOX_STATE);
                Error::Inbox(format!(
                    "{error}: somebody changed the attribute {name} of the root directory; restore it from a snapshot, or remove it \
                     and make new addresses"
                ))
            }),
        }
    }

    /// The same where one that cannot be read is as good as none.
    pub(crate) fn inbox_to_publish(&self) -> Result<InboxState> {
        match self.inbox_state() {
            Err(Error::Inbox(_)) => Ok(InboxState::default()),
            state => state,
        }
    }

    /// Changes what the tree says of the inbox, whoever else does at the same time; nothing if `change` says that there is nothing to do.
    pub(crate) fn change_inbox(
        &self,
        mut change: impl FnMut(&mut InboxState) -> Result<bool>,
    ) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let seen = self.attributes("/", Links::Stay)?;
            let mut state = self.inbox_state()?;
            if !change(&mut state)? {
                return Ok(());
            }
            let operations = [require_root(seen), set_state(&state)];
            match self.transaction(&operations, Durability::OnReturn) {
                Err(error) if is_changed(&error) => {}
                done => return done,
            }
        }
        Err(Error::RemoteBusy)
    }

    /// Takes in what was deposited at a remote that was reached, and from which everything was pulled.
    pub(crate) fn receive(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        report: &mut PullReport,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<Waiting> {
        let state = match self.inbox_state() {
            Err(Error::Inbox(why)) => {
                report.deposit_problems.push(why);
                return Ok(Waiting::default());
            }
            state => state?,
        };
        self.settle()?;
        if !state.is_at(&row.id) {
            return Ok(Waiting::default());
        }
        let old = self.withdraw_old(&state, row, remote)?;
        let waiting = Waiting::at(remote)?;
        let (listed, pieces) = (waiting.ids(), OnceCell::new());
        let clock = PlaceClock::of(remote, row.keeps);
        let gone = (self.shared.inbox.lock()).gone_after(&state, &row.id, &listed);
        let listing = Listing {
            remote: row.id,
            listed: &listed,
            gone: &gone,
        };
        let (mut has_left, mut without_room) = (false, 0);
        for (id, came_s) in &waiting.deposits {
            go_on(told(&RemoteProgress::default()))?;
            let came = Came {
                id: *id,
                came_s: *came_s,
                listing: &listing,
                pieces: &pieces,
                clock: &clock,
            };
            if self.inbox_state()?.has_received(*id) {
                continue;
            }
            let taken = match self.take_in(remote, &came, told) {
                Err(error) if is_full(&error) => {
                    has_left = true;
                    self.say(report, *id, NO_SPACE);
                    // There may be room for a smaller one.
                    without_room += 1;
                    match without_room < TRIES_WITHOUT_ROOM {
                        true => continue,
                        false => break,
                    }
                }
                taken => taken?,
            };
            match taken {
                Taken::In(path) => {
                    report.received += 1;
                    if report.received_paths.len() < PATHS_TOLD_MAX {
                        report.received_paths.push(path);
                    }
                }
                Taken::Gone => {}
                Taken::SetAside(why) => self.say(report, *id, why),
                Taken::Left { why, is_final } => {
                    has_left |= !is_final;
                    self.say(report, *id, why);
                }
            }
        }
        if !old.is_empty() && !has_left {
            self.change_inbox(|state| {
                let mut is_changed = false;
                for one in &mut state.addresses {
                    if old.contains(&one.id) && !one.is_withdrawn {
                        one.is_withdrawn = true;
                        is_changed = true;
                    }
                }
                Ok(is_changed)
            })?;
        }
        Ok(waiting)
    }

    /// Says once why a deposit does not come.
    fn say(&self, report: &mut PullReport, id: DepositId, why: &str) {
        if self.shared.inbox.lock().is_news(id) {
            let id = hex::encode(&id.0);
            report.deposit_problems.push(format!("deposit {id}: {why}"));
        }
    }

    /// Withdraws the addresses of earlier epochs at that remote; gives those that are not noted as withdrawn.       [12.1.5]
    fn withdraw_old(
        &self,
        state: &InboxState,
        row: &RemoteFields,
        remote: &dyn Remote,
    ) -> Result<HashSet<AddressId>> {
        if row.keeps {
            return Ok(HashSet::new());
        }
        let newest = self.information()?.epoch;
        let is_old =
            |one: &&AddressEntry| one.remote == row.id && one.epoch.0 < newest && !one.is_withdrawn;
        let mut old = HashSet::new();
        for one in state.addresses.iter().filter(is_old) {
            remote.remove(&address_name(&one.object))?;
            old.insert(one.id);
        }
        self.withdraw_unknown(state, (row.number, remote), newest)?;
        Ok(old)
    }

    /// Withdraws addresses of earlier epochs there of which the tree says nothing: somebody removed what it said, or a merge had no place for
    /// them. Once for each epoch while the vault is open.                                                        [12.1.5]
    fn withdraw_unknown(
        &self,
        state: &InboxState,
        (number, remote): (u64, &dyn Remote),
        newest: u32,
    ) -> Result<()> {
        if self.shared.inbox.lock().has_withdrawn(number, newest) {
            return Ok(());
        }
        let known = state.addresses.iter();
        let known: HashSet<ObjectName> = known.map(|one| address_name(&one.object)).collect();
        let listed = remote.list("addresses")?.into_iter();
        let names =
            listed.filter_map(|one| ObjectName::new(format!("addresses/{}", one.name)).ok());
        let unknown = names.filter(|name| !known.contains(name));
        for name in unknown.take(ADDRESSES_LOOKED_AT) {
            let document = match remote.read(&name, ADDRESS_OBJECT_BYTES_MAX) {
                Ok(Some(document)) => document,
                // It is no address, or not any more.
                Ok(None) | Err(RemoteError::TooLong { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            // One of a later epoch another device has made just now.
            if InboxAddress::decode(&document).is_ok_and(|address| address.epoch.0 < newest) {
                remote.remove(&name)?;
            }
        }
        self.shared.inbox.lock().note_withdrawn(number, newest);
        Ok(())
    }

    /// Removes deposits that a push behind `published` made safe, and what nobody completes.  (1)
    pub(crate) fn clear_inbox(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        waiting: &Waiting,
        published: &InboxState,
    ) -> Result<()> {
        if row.keeps || !waiting.is_asked {
            return Ok(());
        }
        // Where one device set it aside and another took it in, it came.
        let mut came: HashMap<DepositId, bool> = HashMap::new();
        for one in &published.received {
            *came.entry(one.deposit).or_default() |= one.node != SET_ASIDE;
        }
        let clock = PlaceClock::of(remote, false);
        let mut gone = HashSet::new();
        for (id, came_s) in &waiting.deposits {
            let goes = match came.get(id) {
                Some(true) => true,
                Some(false) => clock.is_over(*came_s, SET_ASIDE_STAYS)?,
                None => false,
            };
            if goes {
                remote.remove(&deposit_name(*id))?;
                gone.insert(*id);
            }
        }
        let looks = {
            let mut looks = self.shared.inbox.lock();
            looks.note_cleared(row.number, published);
            looks.looks_for_pieces(row.number, Instant::now())
        };
        match looks || !gone.is_empty() {
            true => remove_pieces(remote, waiting, &gone, Some(&clock)).map(drop),
            false => Ok(()),
        }
    }

    /// A push to a remote that was reached; and deposits go from there that were taken in.
    pub(crate) fn push_and_clear(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<PushReport> {
        let published = self.inbox_to_publish()?;
        let report = self.push_to(row, remote, told)?;
        self.clear_inbox_if_due(row, remote, &published)?;
        self.note_contact(row.number, now_s(), true)?;
        Ok(report)
    }

    /// Removes what was published where no push is due: the remote has all that this vault has.
    pub(crate) fn clear_published(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        waiting: &Waiting,
    ) -> Result<()> {
        let state = self.inbox_to_publish()?;
        let is_known = |(id, _): &(DepositId, u64)| state.has_received(*id);
        if waiting.deposits.iter().any(is_known) && !self.is_waiting(row.number)? {
            self.clear_inbox(row, remote, waiting, &state)?;
        }
        Ok(())
    }

    /// The same behind a push without a pull: the remote is asked only if something was taken in since it was last.
    fn clear_inbox_if_due(
        &self,
        row: &RemoteFields,
        remote: &dyn Remote,
        published: &InboxState,
    ) -> Result<()> {
        let is_due = self.shared.inbox.lock().is_due(row.number, published);
        if row.keeps || !published.is_at(&row.id) || !is_due {
            return Ok(());
        }
        self.clear_inbox(row, remote, &Waiting::at(remote)?, published)
    }
}

/// Removes the pieces of deposits that are gone, and those without an envelope that came long ago by `clock`, or whenever they
/// came without one; gives how many.                                                                         [12.6.3]
pub(crate) fn remove_pieces(
    remote: &dyn Remote,
    waiting: &Waiting,
    gone: &HashSet<DepositId>,
    clock: Option<&PlaceClock<'_>>,
) -> Result<u64> {
    let (complete, mut now) = (waiting.ids(), None::<HashSet<DepositId>>);
    let mut names: Vec<ObjectName> = Vec::new();
    for one in remote.list("pieces")? {
        let Some(id) = piece_of(&one.name) else {
            continue;
        };
        let is_old = || {
            clock.map_or(Ok(true), |clock| {
                clock.is_over(one.created_s, DEPOSIT_GRACE)
            })
        };
        let goes = match gone.contains(&id) {
            true => true,
            false if complete.contains(&id) || !is_old()? => false,
            // Its envelope may have come just now, or be beyond those that were looked at. All are asked for at once.
            false => {
                if now.is_none() {
                    now = Some(listed_deposits(remote)?);
                }
                now.as_ref().is_some_and(|now| !now.contains(&id))
            }
        };
        if goes {
            names.extend(ObjectName::new(format!("pieces/{}", one.name)));
        }
    }
    let mut count = 0;
    in_parallel(
        names.into_iter(),
        remote.transfers(),
        |name| -> Result<()> { Ok(remote.remove(&name)?) },
        &mut |()| {
            count += 1;
            Ok(())
        },
    )?;
    Ok(count)
}

/// All deposits that a remote has now.
fn listed_deposits(remote: &dyn Remote) -> Result<HashSet<DepositId>> {
    let listed = remote.list("deposits")?;
    Ok(listed
        .iter()
        .filter_map(|one| deposit_of(&one.name))
        .collect())
}

/// Goes on only if nobody changed the root directory, and with it the state of the inbox.
pub(crate) fn require_root(seen: strongroom_filesystem::Attributes) -> Operation {
    Operation::RequireUnchanged {
        path: b"/".to_vec(),
        links: Links::Stay,
        seen,
    }
}

pub(crate) fn set_state(state: &InboxState) -> Operation {
    Operation::SetXattr {
        path: b"/".to_vec(),
        links: Links::Stay,
        name: INBOX_STATE.to_vec(),
        value: state.encode(),
        mode: strongroom_filesystem::XattrMode::Set,
    }
}

/// Whether there is no room here.
fn is_full(error: &Error) -> bool {
    match error {
        Error::Operation { error, .. } => is_full(error),
        Error::File(error) => matches!(error, FileError::NoSpace | FileError::QuotaExceeded),
        _ => false,
    }
}

/// Whether a transaction failed because somebody changed what it is about.
pub(crate) fn is_changed(error: &Error) -> bool {
    match error {
        Error::Operation { error, .. } => matches!(
            **error,
            Error::Changed | Error::File(FileError::Exists | FileError::NotFound)
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use strongroom_format::deposit::RunId;
    use strongroom_remote::memory;
    use strongroom_sync::piece_name;

    use super::*;

    /// Goal: pieces of a deposit that is on its way stay, whatever the clock of a device says: the server takes the envelope all the same, and
    /// the depositor believes that all is there. Method: a device whose clock is ahead by a month; then a place whose clock is there, too.
    /// Failed before: the age was counted by the clock of the device alone.
    #[test]
    fn pieces_on_their_way_stay_although_the_clock_of_a_device_is_ahead() {
        let remote = memory().unwrap();
        let piece = piece_name(DepositId([1; 16]), RunId([2; 8]), 0);
        remote.create(&piece, vec![3]).unwrap();
        let later_s = now_s() + 30 * 24 * 60 * 60;
        let removed = |there_s| {
            let clock = PlaceClock::with(&*remote, later_s, there_s);
            remove_pieces(&*remote, &Waiting::default(), &HashSet::new(), Some(&clock)).unwrap()
        };
        assert_eq!(removed(None), 0);
        assert!(remote.has(&piece).unwrap());
        assert_eq!(removed(Some(later_s)), 1);
        assert!(!remote.has(&piece).unwrap());
        // Whoever asks for that removes them at once.
        remote.create(&piece, vec![3]).unwrap();
        let all = remove_pieces(&*remote, &Waiting::default(), &HashSet::new(), None);
        assert_eq!(all.unwrap(), 1);
    }
}

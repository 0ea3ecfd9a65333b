//! Lets a new device into a vault that is open here: shows a code, and waits at a remote for a device that knows it.
//!
//! Takes   a vault, one of its remotes, the time; and, after a person has agreed, the `Keys` of the vault
//! Gives   a code; the name and fingerprint of a device that knows it; a header in which that device is a member
//! Never   lets a device in without a person's agreement, or answers more exchanges than a code has tries
//! Spec    spec/11-sync.md, section 11.7
//!
//! Invariants
//!  (1) Each exchange that was answered counts as a try, whatever its result.                            [11.7.4]
//!  (2) The new device learns that it is a member only once its membership is at the remote.             [11.7.8]
//!  (3) Keys are changed only right after the publications of others at the remote were pulled.

use std::sync::Arc;
use std::time::Instant;

use strongroom_crypto::{
    Handshake, PairingChannel, PairingCode, PairingMessage, PairingSide, SystemRandom,
};
use strongroom_format::VaultId;
use strongroom_format::header::check_label;
use strongroom_format::pairing::{Admission, Newcomer};
use strongroom_format::publication::RemoteId;
use strongroom_remote::{Address, Remote};
use strongroom_sync::{Letter, Mailbox, Run, remove_stale_pairings};

use crate::clock::now_s;
use crate::folder::Folder;
use crate::pairing::{NOT_OPENED, PAIRING_LIFETIME, PAIRING_TRIES, PairingError};
use crate::remotes::{RemoteProgress, vault_id};
use crate::{Error, GoOn, Keys, Result, Vault};

/// How many places are tried until one is free.
const PLACES_MAX: usize = 20;

/// A pairing that is offered. When it is dropped the code is void.
#[derive(Debug)]
pub struct Invitation {
    vault: VaultId,
    remote_name: String,
    remote_id: RemoteId,
    remote: Arc<dyn Remote>,
    /// Without credentials.
    url: String,
    code: PairingCode,
    mailbox: Mailbox,
    begun: Instant,
    tries: Vec<Try>,
    is_open: bool,
}

/// One exchange that was begun with the code. (1)
#[derive(Debug)]
struct Try {
    run: Run,
    /// The channel, until it is clear that the other side has another code.
    channel: Option<PairingChannel>,
}

/// A device that has the code and asks to be let in.
#[derive(Clone, Debug)]
pub struct Candidate {
    run: Run,
    newcomer: Box<Newcomer>,
}

impl Candidate {
    /// What it calls itself.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.newcomer.slot.label
    }

    /// What the new device shows too, if nobody sits between the two.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.newcomer.fingerprint()
    }
}

/// What a look at the remote came to.
#[derive(Clone, Debug)]
pub enum InvitationStep {
    /// Nothing new.
    Waiting,
    /// Somebody tried another code.
    WrongCode {
        /// How often one can be tried still.
        left: usize,
    },
    /// A device has the code.
    Asks(Candidate),
}

impl Vault {
    /// Offers a new device to join through the remote of that name; a person tells it the code. Look for it (`Invitation::look`) about
    /// every `PAIRING_LOOK_EVERY`.
    ///
    /// # Errors
    /// `UnknownRemote`, `Remote`; `Pairing` if others offer too much there.
    pub fn invite(&self, remote: &str, now: Instant) -> Result<Invitation> {
        let (row, reached) = self.reach(remote)?;
        let at_s = now_s();
        remove_stale_pairings(&*reached, at_s)?;
        for _ in 0..PLACES_MAX {
            let code = PairingCode::random(&SystemRandom)?;
            let mailbox = Mailbox::at(code.place())?;
            if !mailbox.offer(&*reached, at_s)? {
                continue;
            }
            return Ok(Invitation {
                vault: vault_id(&Folder::new(self.folder()))?,
                remote_name: row.name,
                remote_id: RemoteId(row.id),
                remote: reached,
                url: Address::parse(&row.address)?.without_credentials(),
                code,
                mailbox,
                begun: now,
                tries: Vec::new(),
                is_open: true,
            });
        }
        Err(PairingError::Crowded.into())
    }
}

impl Invitation {
    /// What the person types on the new device.
    #[must_use]
    pub const fn code(&self) -> &PairingCode {
        &self.code
    }

    /// Where the remote is, without credentials.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Looks once whether somebody came. After an error of the remote it can look again.
    ///
    /// # Errors
    /// `Pairing`: `TooLate`, `TriesUsed`; `Remote`.
    pub fn look(&mut self, now: Instant) -> Result<InvitationStep> {
        if !self.is_open {
            return Err(PairingError::Ended.into());
        }
        if now.saturating_duration_since(self.begun) > PAIRING_LIFETIME {
            return self.end(PairingError::TooLate);
        }
        let letters = self.mailbox.letters(&*self.remote)?;
        if let Some(step) = self.welcome_new(&letters)? {
            return Ok(step);
        }
        if let Some(step) = self.hear(&letters)? {
            return Ok(step);
        }
        let has_ended = |one: &Try| one.channel.is_none();
        if self.tries.len() == PAIRING_TRIES && self.tries.iter().all(has_ended) {
            return self.end(PairingError::TriesUsed);
        }
        Ok(InvitationStep::Waiting)
    }

    /// Answers who is new, as long as there are tries.
    fn welcome_new(&mut self, letters: &[(Run, Letter)]) -> Result<Option<InvitationStep>> {
        for (run, letter) in letters {
            let is_new = !self.tries.iter().any(|one| one.run == *run);
            if *letter == Letter::Hello && is_new && self.tries.len() < PAIRING_TRIES {
                self.welcome(*run)?;
                if self.tries.last().is_some_and(|one| one.channel.is_none()) {
                    return Ok(Some(self.not_opened(*run)));
                }
            }
        }
        Ok(None)
    }

    /// The first request that came of those who were answered.
    fn hear(&mut self, letters: &[(Run, Letter)]) -> Result<Option<InvitationStep>> {
        for place in 0..self.tries.len() {
            let Try { run, channel } = &self.tries[place];
            let (run, Some(channel)) = (*run, channel) else {
                continue;
            };
            if !letters.contains(&(run, Letter::Request)) {
                continue;
            }
            let Some(sealed) = self.mailbox.read(&*self.remote, run, Letter::Request)? else {
                continue;
            };
            let opened = channel.open(PairingMessage::Request, &sealed);
            let newcomer = opened.and_then(|clear| Newcomer::decode(&clear).ok());
            // Whoever asks for another vault was lied to by the remote; and no name may fool who reads it.
            let can_be_shown =
                |one: &Newcomer| one.vault == self.vault && check_label(&one.slot.label).is_ok();
            return Ok(Some(match newcomer.filter(can_be_shown) {
                Some(newcomer) => {
                    let newcomer = Box::new(newcomer);
                    InvitationStep::Asks(Candidate { run, newcomer })
                }
                None => {
                    self.tries[place].channel = None;
                    self.not_opened(run)
                }
            }));
        }
        Ok(None)
    }

    /// Takes part in an exchange that somebody began. It is a try once the answer may be there; after an error nobody is understood
    /// by what was answered before.                                                                       (1)
    fn welcome(&mut self, run: Run) -> Result<()> {
        let (remote, side) = (&*self.remote, PairingSide::Old);
        let hello = self.mailbox.read(remote, run, Letter::Hello)?;
        let handshake = Handshake::begin(side, &self.code, self.remote_id, &SystemRandom)?;
        let welcome = handshake.message();
        let is_ours = self.mailbox.put(remote, run, Letter::Welcome, welcome)?;
        let channel = hello.filter(|_| is_ours);
        let channel = channel.and_then(|hello| handshake.finish(&hello));
        self.tries.push(Try { run, channel });
        Ok(())
    }

    /// Says that a try was none.
    fn not_opened(&self, run: Run) -> InvitationStep {
        let remote = &*self.remote;
        // If it does not arrive, whoever tried waits for nothing.
        let _ = self.mailbox.put(remote, run, Letter::Answer, &NOT_OPENED);
        let left = PAIRING_TRIES - self.tries.len();
        InvitationStep::WrongCode { left }
    }

    /// Makes the device a member of the vault, with a key slot of its own, and lets it and the remote know. The code is void then.
    ///
    /// `keys`: of the same vault. `told` hears of what comes down and goes up.
    ///
    /// # Errors
    /// `Pairing`: `NotPublished`, then the device is a member. After any other nothing was changed: `Pairing` (`Gone`, `Ended`); those of
    /// `Vault::sync_with`, and it can be tried again; those of `Keys::remove`.
    pub fn admit(
        &mut self,
        vault: &Vault,
        keys: &mut Keys,
        candidate: &Candidate,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<()> {
        let run = candidate.run;
        if !self.is_open {
            return Err(PairingError::Ended.into());
        }
        self.require_asking(run)?;
        // By the newest header: of two changes of keys that do not know of one another one is refused for ever.      (3)
        vault.sync_with(&self.remote_name, told)?;
        // That may have taken longer than the device waited.
        self.require_asking(run)?;
        match keys.admit(&candidate.newcomer) {
            // It is a member, and has to hear of that.
            Err(error @ Error::KeysChanged { .. }) => log::warn!("{error}"),
            admitted => admitted?,
        }
        let published = vault.sync_with(&self.remote_name, told);
        let known = published.and_then(|_| {
            let mut rows = vault.remote_rows()?.into_iter();
            let row = rows.find(|row| row.id == self.remote_id.0);
            row.ok_or_else(|| Error::UnknownRemote(self.remote_name.clone()))
        });
        let answered = known.and_then(|row| {
            let admission = Admission::Admitted {
                generation: keys.generation(),
                publication: row.last,
            };
            self.answer(run, admission) // (2)
        });
        self.close();
        answered.map_err(|error| PairingError::NotPublished { why: error.into() }.into())
    }

    /// Ends the offer if the device no longer asks.
    fn require_asking(&mut self, run: Run) -> Result<()> {
        match self.mailbox.read(&*self.remote, run, Letter::Request)? {
            Some(_) => Ok(()),
            None => self.end(PairingError::Gone),
        }
    }

    /// Lets the device know that it is not let in. The code is void then.
    ///
    /// # Errors
    /// `Remote`.
    pub fn refuse(&mut self, candidate: &Candidate) -> Result<()> {
        let answered = self.answer(candidate.run, Admission::Refused);
        self.close();
        answered
    }

    fn answer(&self, run: Run, admission: Admission) -> Result<()> {
        let of_run = |one: &&Try| one.run == run;
        let channel = self.tries.iter().find(of_run);
        let channel = channel.and_then(|one| one.channel.as_ref());
        let channel = channel.ok_or(PairingError::Ended)?;
        let clear = admission.encode();
        let sealed = channel.seal(PairingMessage::Answer, &SystemRandom, &clear)?;
        match self
            .mailbox
            .put(&*self.remote, run, Letter::Answer, &sealed)?
        {
            true => Ok(()),
            false => {
                let why = "another device answered the device that asked to join";
                Err(Error::RemoteUntrue(why.to_owned()))
            }
        }
    }

    fn end<T>(&mut self, error: PairingError) -> Result<T> {
        self.close();
        Err(error.into())
    }

    /// Takes the offer back. What cannot be removed is removed by the next that is made at this remote.
    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let _ = self.mailbox.close(&*self.remote);
        }
    }
}

impl Drop for Invitation {
    fn drop(&mut self) {
        self.close();
    }
}

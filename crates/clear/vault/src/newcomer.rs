//! Asks another device to let this one into its vault, with a code that the other shows; then clones the vault.
//!
//! Takes   the address of a remote, a code, a name, and the secret that will unlock the vault here
//! Gives   a fingerprint to compare; a vault in which this device is a member and has its own key slot
//! Never   sends the code, the secret or a private key, or trusts data at the remote that is not sealed with the code
//! Spec    spec/11-sync.md, section 11.7
//!
//! Invariants
//!  (1) A new device asks at most `PAIRING_TRIES` times: each time, an attacker who answers instead of the other device
//!      can try one code, and only the new device can count these tries.                             [11.7.4]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use strongroom_crypto::{
    Handshake, NewDeviceKeys, NewKey, NewSlot, PairingChannel, PairingCode, PairingMessage,
    PairingSide, Secret, SystemRandom,
};
use strongroom_format::header::check_label;
use strongroom_format::pairing::Admission;
use strongroom_remote::{Address, Remote};
use strongroom_sync::{Letter, Mailbox, Marker, Run};

use crate::clock::now_s;
use crate::clone::{CloneOptions, CloneProgress, CloneReport, LetIn, clone_as};
use crate::create::passphrase_cost;
use crate::pairing::{NOT_OPENED, PAIRING_LIFETIME, PAIRING_TRIES, PairingError};
use crate::{Error, GoOn, Result};

/// The longest name of a device, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// This device, before it is one of the vault.
#[derive(Debug)]
pub struct NewDevice {
    address: String,
    remote: Arc<dyn Remote>,
    marker: Marker,
    secret: Secret,
    keys: NewDeviceKeys,
    /// How often it may ask yet. (1)
    tries_left: AtomicUsize,
}

/// One try of a code. When it is dropped, what it left at the remote is removed.
#[derive(Debug)]
pub struct Asking {
    remote: Arc<dyn Remote>,
    mailbox: Mailbox,
    run: Run,
    begun: Instant,
    request: Vec<u8>,
    handshake: Option<Handshake>,
    channel: Option<PairingChannel>,
    /// The request, sealed, until it is at the remote.
    to_send: Option<Vec<u8>>,
    is_last: bool,
}

/// What a look at the remote came to.
#[derive(Debug)]
pub enum AskingStep {
    /// The other device has not answered yet.
    Waiting,
    /// It has let this one in: `NewDevice::clone_as_admitted` comes next.
    Admitted(Admitted),
}

/// What the other device said of the state in which this one is a member.
#[derive(Clone, Copy, Debug)]
pub struct Admitted {
    generation: u64,
    publication: u64,
}

/// Whether a device waits at that remote for a code that begins as this one: says so before a person chooses a passphrase.
///
/// # Errors
/// `Pairing` (`NoOffer`) if not; `Remote`.
pub fn check_offered(address: &str, code: &PairingCode) -> Result<()> {
    let remote = Address::parse(address)?.open()?;
    offered(&*remote, code).map(drop)
}

fn offered(remote: &dyn Remote, code: &PairingCode) -> Result<Mailbox> {
    let mailbox = Mailbox::at(code.place())?;
    match mailbox.is_offered(remote)? {
        true => Ok(mailbox),
        false => {
            let place = code.place().to_owned();
            Err(PairingError::NoOffer { place }.into())
        }
    }
}

impl NewDevice {
    /// A device that is called `name` and wants to join the vault at that remote; `secret`, a passphrase or a key file, shall open the
    /// vault here, and becomes a key slot of its own. A passphrase takes about a second.
    ///
    /// # Errors
    /// `Pairing` (`Name`, `Secret`), `Remote`.
    pub fn make(address: &str, secret: Secret, name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || check_label(name).is_err() {
            return Err(PairingError::Name.into());
        }
        let key = match &secret {
            Secret::Passphrase(passphrase) => {
                NewKey::Passphrase(passphrase.clone(), passphrase_cost()?)
            }
            Secret::KeyFile(key_file) => NewKey::KeyFile(key_file.clone()),
            Secret::RecoveryCode(_) | Secret::Identity(_) => {
                return Err(PairingError::Secret.into());
            }
        };
        let remote = Address::parse(address)?.open()?;
        let marker = Marker::read(&*remote)?.ok_or(strongroom_sync::Error::NoVault)?;
        let label = name.to_owned();
        let slot = NewSlot { label, key };
        Ok(Self {
            address: address.to_owned(),
            keys: NewDeviceKeys::make(&slot, marker.vault, &SystemRandom, now_s())?,
            remote,
            marker,
            secret,
            tries_left: AtomicUsize::new(PAIRING_TRIES),
        })
    }

    /// What the other device shows too, if nobody sits between the two.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.keys.newcomer().fingerprint()
    }

    /// Whether this device may ask once more.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        self.tries_left.load(Ordering::Relaxed) > 0
    }

    /// Asks the device that shows `code` to let this one in. Look for the answer (`Asking::look`) about every `PAIRING_LOOK_EVERY`.
    ///
    /// # Errors
    /// `Pairing`: `NoOffer`, `TriesUsed` if it has asked `PAIRING_TRIES` times; `Remote`.
    pub fn ask(&self, code: &PairingCode, now: Instant) -> Result<Asking> {
        let remote = &*self.remote;
        let mailbox = offered(remote, code)?;
        let taken = self
            .tries_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        // (1)
        let left = taken.map_err(|_| PairingError::TriesUsed)?;
        let run = Run::random(&SystemRandom)?;
        let (side, at) = (PairingSide::New, self.marker.remote);
        let handshake = Handshake::begin(side, code, at, &SystemRandom)?;
        let hello = handshake.message().to_vec();
        let asking = Asking {
            remote: Arc::clone(&self.remote),
            mailbox,
            run,
            begun: now,
            request: self.keys.newcomer().encode(),
            handshake: Some(handshake),
            channel: None,
            to_send: None,
            is_last: left == 1,
        };
        asking.put(Letter::Hello, &hello)?;
        Ok(asking)
    }

    /// Makes a vault in `folder` as `clone` does, as the device that was let in.
    ///
    /// Interrupted, `clone` with the same secret goes on.
    ///
    /// # Errors
    /// As `clone`; `RemoteUntrue` if the remote shows an older state than the one in which this device was let in.
    pub fn clone_as_admitted(
        &self,
        admitted: Admitted,
        folder: impl AsRef<Path>,
        options: &CloneOptions,
        told: &mut dyn FnMut(CloneProgress) -> GoOn,
    ) -> Result<CloneReport> {
        let let_in = LetIn {
            keys: &self.keys,
            generation: admitted.generation,
            publication: admitted.publication,
        };
        let (address, folder) = (self.address.as_str(), folder.as_ref());
        clone_as(address, folder, &self.secret, Some(let_in), options, told)
    }

    /// The secret that opens the vault here.
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }
}

impl Asking {
    /// Looks once whether the other device said something. After an error of the remote it can look again.
    ///
    /// # Errors
    /// `Pairing`: `WrongCode`, or `TriesUsed` if the device may not ask again; `Refused`, `Withdrawn`, `NoAnswer`; `RemoteUntrue`, `Remote`.
    pub fn look(&mut self, now: Instant) -> Result<AskingStep> {
        if now.saturating_duration_since(self.begun) > PAIRING_LIFETIME {
            return Err(PairingError::NoAnswer.into());
        }
        let remote = &*self.remote;
        // Before the answer is looked for: whoever ends takes the offer back after it has answered.
        let is_offered = self.mailbox.is_offered(remote)?;
        if self.handshake.is_some()
            && let Some(welcome) = self.mailbox.read(remote, self.run, Letter::Welcome)?
        {
            self.enter(&welcome)?;
        }
        if let Some(request) = &self.to_send {
            self.put(Letter::Request, request)?;
            self.to_send = None;
        }
        let answer = self.mailbox.read(&*self.remote, self.run, Letter::Answer)?;
        match answer {
            Some(answer) => self.understand(&answer),
            None if !is_offered => Err(PairingError::Withdrawn.into()),
            None => Ok(AskingStep::Waiting),
        }
    }

    /// Ends the exchange with what the other device said.
    fn enter(&mut self, welcome: &[u8]) -> Result<()> {
        let handshake = self.handshake.take();
        let channel = handshake.and_then(|handshake| handshake.finish(welcome));
        let untrue = || Error::RemoteUntrue("the other device's message is invalid".to_owned());
        let channel = channel.ok_or_else(untrue)?;
        let sealed = channel.seal(PairingMessage::Request, &SystemRandom, &self.request)?;
        (self.channel, self.to_send) = (Some(channel), Some(sealed));
        Ok(())
    }

    fn understand(&self, answer: &[u8]) -> Result<AskingStep> {
        if answer == NOT_OPENED {
            let wrong = match self.is_last {
                true => PairingError::TriesUsed,
                false => PairingError::WrongCode,
            };
            return Err(wrong.into());
        }
        let opened = self.channel.as_ref();
        let opened = opened.and_then(|channel| channel.open(PairingMessage::Answer, answer));
        match opened.and_then(|clear| Admission::decode(&clear).ok()) {
            Some(Admission::Admitted {
                generation,
                publication,
            }) => Ok(AskingStep::Admitted(Admitted {
                generation,
                publication,
            })),
            Some(Admission::Refused) => Err(PairingError::Refused.into()),
            None => {
                let why = "the answer of the other device is invalid";
                Err(Error::RemoteUntrue(why.to_owned()))
            }
        }
    }

    fn put(&self, letter: Letter, bytes: &[u8]) -> Result<()> {
        match self.mailbox.put(&*self.remote, self.run, letter, bytes)? {
            true => Ok(()),
            false => {
                let why = "a message of this device was replaced there";
                Err(Error::RemoteUntrue(why.to_owned()))
            }
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // What cannot be removed is removed by the next device that offers a pairing at this remote.
        let _ = self.mailbox.forget(&*self.remote, self.run);
    }
}

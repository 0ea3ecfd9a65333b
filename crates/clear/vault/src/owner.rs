//! What a process holds while it owns a vault, and in which order it releases these parts.
//!
//! Invariants
//!  (1) Order of closing: clients, then the file system, then the lock, when `OpenVault` is dropped. So the next holder of the
//!      lock finds nobody else at work.
//!  (2) `close` makes every acknowledged change durable, including changes by other threads of this process.

pub(crate) mod client;
pub(crate) mod keeper;
pub(crate) mod port;
pub(crate) mod server;
pub(crate) mod socket;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use strongroom_filesystem::{Caller, Checks};

use crate::execute::execute;
use crate::execute::rotation::Rotator;
use crate::execute::session::{OpenVault, Session};
use crate::owner::keeper::Keeper;
use crate::owner::server::Server;
use crate::owner::socket::Listener;
use crate::request::{Access, Request, Response};
use crate::{Error, Result};

/// A vault that this process owns.
pub(crate) struct Owner {
    /// The session of this process itself.
    pub(crate) session: Session,
    /// `None` for a vault on read-only media: everyone may read it at once.
    server: Option<Server>,
    /// `None` where nothing is done in the background.
    rotator: Option<Rotator>,
    /// `None` where nothing is recorded meanwhile.
    keeper: Option<Keeper>,
    closed: AtomicBool,
    /// Shared by the changes of this process while they are made, and taken alone by who closes.                (2)
    changing: RwLock<()>,
}

thread_local! {
    /// How many changes this thread is making: an observer may make one in another.
    static CHANGING: Cell<u32> = const { Cell::new(0) };
}

/// Counts a change of this thread while it is made.
struct Changing;

impl Changing {
    fn begin() -> Self {
        CHANGING.with(|count| count.set(count.get() + 1));
        Self
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGING.with(|count| count.set(count.get() - 1));
    }
}

/// Whether this thread is amid a change, as an observer is that was called: it must not wait for changes.
pub(crate) fn is_changing() -> bool {
    CHANGING.with(Cell::get) > 0
}

impl Owner {
    /// Begins to serve those who connect to `listener`; there is none on read-only media.
    pub(crate) fn start(
        vault: OpenVault,
        access: Access,
        listener: Option<Listener>,
    ) -> Result<Self> {
        let vault = Arc::new(vault);
        let server = listener
            .map(|listener| Server::start(Arc::clone(&vault), listener))
            .transpose()?;
        let rotator = vault
            .filesystem
            .has_background()
            .then(|| Rotator::start(&vault))
            .transpose()?;
        let keeper = (vault.filesystem.has_background() && vault.keeps_seen())
            .then(|| Keeper::start(&vault))
            .transpose()?;
        let caller = Caller {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: Vec::new(),
            checks: Checks::Above,
        };
        let session = Session::new(vault, caller, access);
        Ok(Self {
            session,
            server,
            rotator,
            keeper,
            closed: AtomicBool::new(false),
            changing: RwLock::new(()),
        })
    }

    /// Carries out a request of this process.                                                                  (2)
    pub(crate) fn execute(&self, request: &Request<'_>) -> Result<Response> {
        if !request.changes() {
            return execute(&self.session, request);
        }
        // Recursive, for an observer.
        let _waited_for = self.changing.read_recursive();
        let _counted = Changing::begin();
        let executed = execute(&self.session, request);
        if !self.closed.load(Ordering::Acquire) {
            return executed;
        }
        // It may have begun one.
        self.end_push();
        match executed {
            // The push that it was part of ended when the vault was closed.
            Err(Error::Protocol(_)) => Err(Error::Closed),
            executed => executed,
        }
    }

    /// Ends the push of this process: nobody can go on with it any more, and clients wait for their turn.
    fn end_push(&self) {
        *self.session.push.lock() = None;
    }

    pub(crate) fn client_count(&self) -> usize {
        self.server.as_ref().map_or(0, Server::session_count)
    }

    /// Whether every client but session `asker` can do without this owner now, and go on at one with the access `next`; then nothing
    /// that they ask is carried out any more, and `close` has to follow.
    pub(crate) fn refuses_if_free(&self, asker: u64, next: Access) -> bool {
        let server = self.server.as_ref();
        server.is_none_or(|server| server.refuses_if_free(asker, next))
    }

    /// Gives everything back; the second call does nothing.                                                   (1)
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Nobody can use them here any more, and clients are waited for that wait for them.
        self.session.unlock_all();
        self.end_push();
        if let Some(server) = &self.server {
            server.stop();
        }
        if let Some(rotator) = &self.rotator {
            rotator.stop();
        }
        if let Some(keeper) = &self.keeper {
            keeper.stop();
        }
        self.session.vault.refuse_requests();
        if !is_changing() {
            // Waits for the changes that began before.                                                         (2)
            drop(self.changing.write());
        }
        let closed = self.session.filesystem().close();
        // What is durable is recorded, also if the rest could not be made so.
        self.session.vault.note_seen();
        if let Some(server) = &self.server {
            server.part(closed.is_ok());
        }
        Ok(closed?)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Nobody is left to tell; who wants to know calls `close`.
        let _ = self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;
    use crate::execute::session::Leaver;
    use crate::owner::port::Port;
    use crate::request::remote::RemoteRequest;
    use crate::{
        CreateOptions, GoOn, KeyFile, OpenOptions, Secret, SecretSource, SystemRandom, Vault,
    };

    /// Goal: an owner can close amid a push, whoever waits for that push. Method: a client waits for its turn when the owner's push
    /// closes the vault. Failed before: the owner waited for the client, which waited for a push that nobody went on with, and `close`
    /// never returned.
    #[test]
    fn an_owner_that_closes_amid_a_push_lets_those_push_who_wait_for_it() {
        let place = tempfile::tempdir().unwrap();
        let (folder, remote) = (place.path().join("vault"), place.path().join("remote"));
        fs::create_dir(&remote).unwrap();
        let key = KeyFile::random(&SystemRandom).unwrap();
        let options = CreateOptions::new().key_file(key);
        let vault = Vault::create(&folder, options).unwrap().vault;
        let address = format!("folder:{}", remote.display());
        vault.add_remote("stick", &address).unwrap();
        vault.write("/file", "content").unwrap();
        let Port::Owner(owner) = vault.port() else {
            panic!("it was made here")
        };
        let turns = Arc::clone(&owner.session.vault.push_turns);
        drop(owner);
        let client = Vault::connect_if_owned(&folder, OpenOptions::default()).unwrap();
        let mut client = Some(client.expect("it is owned"));
        thread::scope(|scope| {
            let mut pushing = None;
            let pushed = vault.push("stick", &mut |_| {
                if let Some(client) = client.take() {
                    let push = move || client.push("stick", &mut |_| GoOn::Yes);
                    pushing = Some(scope.spawn(push));
                    while !turns.are_waited_for() {
                        thread::yield_now();
                    }
                    vault.close().unwrap();
                }
                GoOn::Yes
            });
            assert!(matches!(pushed, Err(Error::Closed)), "{pushed:?}");
            let by_client = pushing.unwrap().join().unwrap();
            assert!(by_client.is_ok(), "{by_client:?}");
        });
    }

    /// Goal: a push that waits for the push of the owner does not keep the vault there. Method: a client that can open the vault waits for its
    /// turn when the owner, which pushes, is asked for the vault. Failed before: the client counted as busy, and the owner stayed.
    #[test]
    fn an_owner_that_pushes_leaves_although_another_push_waits_for_its_turn() {
        let place = tempfile::tempdir().unwrap();
        let (folder, remote) = (place.path().join("vault"), place.path().join("remote"));
        fs::create_dir(&remote).unwrap();
        let key = KeyFile::random(&SystemRandom).unwrap();
        let options = CreateOptions::new().key_file(key.clone());
        let vault = Vault::create(&folder, options).unwrap().vault;
        let address = format!("folder:{}", remote.display());
        vault.add_remote("stick", &address).unwrap();
        vault.write("/file", "content").unwrap();
        let Port::Owner(owner) = vault.port() else {
            panic!("it was made here")
        };
        let turns = Arc::clone(&owner.session.vault.push_turns);
        drop(owner);
        let secret = Secret::KeyFile(key);
        let source: SecretSource = Arc::new(move || Ok(secret.clone()));
        let client = Vault::open_or_connect(&folder, source, OpenOptions::default()).unwrap();
        let (mut client, mut has_left) = (Some(client), false);
        let client = thread::scope(|scope| {
            let mut pushing = None;
            let pushed = vault.push("stick", &mut |_| {
                if let Some(client) = client.take() {
                    let push = move || {
                        let pushed = client.push("stick", &mut |_| GoOn::Yes);
                        (client, pushed)
                    };
                    pushing = Some(scope.spawn(push));
                    while !turns.are_waited_for() {
                        thread::yield_now();
                    }
                    vault.shared.leave(u64::MAX, Access::ReadWrite);
                    has_left = !vault.is_owner();
                }
                GoOn::Yes
            });
            assert!(pushed.is_ok(), "{pushed:?}");
            let (client, by_client) = pushing.unwrap().join().unwrap();
            assert!(by_client.is_ok(), "{by_client:?}");
            client
        });
        assert!(has_left);
        vault.close().unwrap();
        client.close().unwrap();
    }

    /// Goal: a push that ended because another thread closed the vault is not called damage. Method: the vault counts as closed when a
    /// request of a push that is gone has been carried out. Failed before: `Protocol`.
    #[test]
    fn a_request_of_a_push_that_ended_with_its_owner_says_that_the_vault_is_closed() {
        let place = tempfile::tempdir().unwrap();
        let options = CreateOptions::new();
        let vault = Vault::create(place.path().join("vault"), options);
        let vault = vault.unwrap().vault;
        let Port::Owner(owner) = vault.port() else {
            panic!("it was made here")
        };
        let (remote, limit) = (1, 1);
        let missing = Request::Remote(RemoteRequest::Missing { remote, limit });
        let asked = owner.execute(&missing);
        assert!(matches!(asked, Err(Error::Protocol(_))), "{asked:?}");
        owner.closed.store(true, Ordering::Release);
        let asked = owner.execute(&missing);
        assert!(matches!(asked, Err(Error::Closed)), "{asked:?}");
        owner.closed.store(false, Ordering::Release);
        drop(owner);
        vault.close().unwrap();
    }
}

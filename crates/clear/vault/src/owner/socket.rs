//! The place of a vault's socket, and which processes may be at its other end.
//!
//! Takes   the identity of a vault folder
//! Gives   a listening socket in a folder that only this user can enter, or a connection to one
//! Never   talks to a process of another user
//!
//! Invariants
//!  (1) Each side asks the kernel which user the other side runs as, before it trusts a byte.
//!  (2) An owner can be reached as long as it runs, even if the folder of its socket is removed.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::folder::Folder;
use crate::limits::SOCKET_PATH_BYTES_MAX;
use crate::private_folder::{PrivateFolders, WatchedName};
use crate::{Error, Result};

/// The name of the socket: the vault may lie at a long path, or where sockets cannot be made.
fn socket_name(identity: (u64, u64)) -> String {
    format!("{:x}-{:x}.sock", identity.0, identity.1)
}

/// A listening socket and its name, which goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Of the socket.
    name: String,
    /// The one that listens now; `None` once nobody new shall connect.
    bound: Mutex<Option<Arc<Bound>>>,
}

/// A socket, and its name in the file system.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) socket: UnixListener,
    /// Its folder may go while the owner runs, with the session of its user.                                  (2)
    pub(crate) kept: WatchedName,
}

impl Listener {
    /// Listens for `folder`'s clients. Call with the owner's lock held: a socket that is there is a dead one's.
    pub(crate) fn bind(folder: &Folder) -> Result<Self> {
        let name = socket_name(folder.identity()?);
        let bound = bind(&name)?;
        Ok(Self {
            name,
            bound: Mutex::new(Some(Arc::new(bound))),
        })
    }

    /// What listens now; `None` once it is hidden.
    pub(crate) fn bound(&self) -> Option<Arc<Bound>> {
        self.bound.lock().clone()
    }

    /// Listens somewhere else if the name is gone.                                                             (2)
    pub(crate) fn come_back(&self) {
        let mut bound = self.bound.lock();
        if !bound.as_ref().is_some_and(|bound| bound.kept.is_gone()) {
            return;
        }
        match bind(&self.name) {
            Ok(again) => *bound = Some(Arc::new(again)),
            Err(error) => log::error!("other commands can no longer reach this process: {error}"),
        }
    }

    /// Removes the name, so that nobody new connects.
    pub(crate) fn hide(&self) {
        if let Some(bound) = self.bound.lock().take() {
            // Already gone is as good; a leftover is removed by the next owner.
            let _ = fs::remove_file(bound.kept.path());
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.hide();
    }
}

fn bind(name: &str) -> Result<Bound> {
    let bound = PrivateFolders::own().first(|folder| bind_in(folder, name));
    bound.map_err(Error::NoRuntimeFolder)
}

fn bind_in(folder: &Path, name: &str) -> std::result::Result<Bound, &'static str> {
    let path = folder.join(name);
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err("its path is too long for a socket");
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err("an old socket cannot be removed");
        }
        _ => {}
    }
    let socket = UnixListener::bind(&path).map_err(|_| "a socket cannot be made there")?;
    let kept = WatchedName::of(&path);
    Ok(Bound { socket, kept })
}

/// Connects to the owner of `folder`, if one listens.
pub(crate) fn connect(folder: &Folder) -> Result<Option<UnixStream>> {
    let name = socket_name(folder.identity()?);
    for candidate in PrivateFolders::own().existing() {
        match UnixStream::connect(candidate.join(&name)) {
            Ok(stream) if is_same_user(&stream)? => return Ok(Some(stream)),
            // It says nothing about the owner, which may be there.
            Err(error) if is_shortage(&error) => {
                return Err(Error::io("connecting to the owner of the vault")(error));
            }
            // A socket nobody listens on is a dead owner's; `connect` says so and the next candidate is asked.
            _ => {}
        }
    }
    Ok(None)
}

/// Whether this process lacks something that it may have again soon.
fn is_shortage(error: &std::io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)
    )
}

/// Whether the process on the other side runs as this user.                                                   (1)
pub(crate) fn is_same_user(stream: &UnixStream) -> Result<bool> {
    let peer = rustix::net::sockopt::socket_peercred(stream)
        .map_err(Error::system("identifying the other process of the socket"))?;
    Ok(peer.uid == rustix::process::geteuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_owners_socket_is_replaced_and_goes_with_its_listener() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let dead = bind_in(folder, "a.sock").unwrap();
        let path = dead.kept.path().to_owned();
        drop(dead);
        assert!(path.exists());
        let listener = Listener {
            name: "a.sock".to_owned(),
            bound: Mutex::new(Some(Arc::new(bind_in(folder, "a.sock").unwrap()))),
        };
        assert!(UnixStream::connect(&path).is_ok());
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn both_ends_of_a_pair_in_one_process_are_the_same_user() {
        let (left, right) = UnixStream::pair().unwrap();
        assert!(is_same_user(&left).unwrap() && is_same_user(&right).unwrap());
    }
}

//! A session: the nodes that one user of the vault holds open. That user is the local process or one client.
//!
//! Takes   nodes with their references
//! Gives   handles for them
//! Never   keeps a reference after its end: however a session ends, all its references are released

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use strongroom_crypto::{Keyring, UnlockError};
use strongroom_filesystem::{
    self as filesystem, Caller, Filesystem, InodeId, KeptSegments, Resealed,
};
use strongroom_format::{Epoch, Header, SegmentId, StoredHeader};
use strongroom_metadata::SegmentNumber;
use strongroom_sync::{object_hash, open_publication};

use crate::execute::backup::Backup;
use crate::execute::device_names::give_names;
use crate::execute::limit_looks::LimitLooks;
use crate::execute::locks::Locks;
use crate::execute::push_turn::{PushTurn, PushTurns};
use crate::execute::rotation::Rotating;
use crate::folder::Folder;
use crate::folder::owner_lock::OwnerLock;
use crate::incoming;
use crate::keyring::held_keys::{HeldKeys, Installed, ROTATION};
use crate::limits::HANDLES_MAX;
use crate::observer::{Change, Observers};
use crate::own_login::OwnLogin;
use crate::path::HeldNode;
use crate::records::Records;
use crate::request::Purpose;
use crate::request::lock::{LockKind, Patience};
use crate::request::{Access, Handle, Information, Opening};
use crate::seen::Sight;
use crate::{Error, Result, counters};

/// What the owner keeps for somebody who pushes, and what the push is about: what is made meanwhile is left to the next one.
pub(crate) struct Push {
    #[expect(dead_code, reason = "kept until the push ends")]
    pub(crate) segments: KeptSegments,
    #[expect(dead_code, reason = "kept until the push ends")]
    pub(crate) turn: PushTurn,
    pub(crate) newest_segment: SegmentNumber,
    pub(crate) head: [u8; 32],
    /// The snapshots that were here when it began. One that a pull brings meanwhile may be older than the head, and needs segments that do
    /// not go up now.
    pub(crate) revisions: Arc<HashSet<[u8; 32]>>,
    /// Publications of pushes of other devices that have not ended: readers leave them out, so what they name is named again.  [11.4.3]
    pub(crate) unfinished: HashSet<u64>,
}

/// Who can end the ownership of this process.
pub(crate) trait Leaver: Send + Sync {
    /// Ends it if neither this process needs it nor any session but `asker`, which would own the vault with the access `next`.
    fn leave(&self, asker: u64, next: Access);
}

/// An open file system and what all its sessions share.
pub(crate) struct OpenVault {
    pub(crate) filesystem: Filesystem,
    pub(crate) observers: Arc<Observers>,
    pub(crate) information: Mutex<Information>,
    folder: Folder,
    /// Held over a change of keys: one after the other. A change, and a backup, wait with it until nobody reads the database: so nobody
    /// may wait for it who holds a `Reader`.
    keys: Mutex<HeldKeys>,
    /// What logs in at servers.
    pub(crate) login: Arc<OwnLogin>,
    pub(crate) records: Records,
    pub(crate) rotating: Rotating,
    pub(crate) locks: Locks,
    /// Held while what came from a remote is joined: one after the other.
    pub(crate) joining: Mutex<()>,
    pub(crate) push_turns: Arc<PushTurns>,
    /// When remotes answered last, by their numbers, in seconds since 1970: idle polls too, of which nothing is stored.
    pub(crate) contacts: Mutex<HashMap<u64, u64>>,
    pub(crate) limit_looks: LimitLooks,
    /// Held while content is let go, and while it is noted what a remote hears of that.                        [11.9.2]
    pub(crate) evicting: Mutex<()>,
    /// How many sessions there were.
    sessions: AtomicU64,
    sight: Sight,
    closed: AtomicBool,
    /// Whether this process uses the vault in ways that end with its ownership.
    lent: AtomicBool,
    /// Who can end the ownership.
    leaver: Mutex<Option<Weak<dyn Leaver>>>,
    /// Given back after the file system is gone, whoever holds the last part of it; `None` on read-only media.
    _lock: Option<OwnerLock>,
}

impl OpenVault {
    pub(crate) fn new(
        filesystem: Filesystem,
        information: Information,
        keys: HeldKeys,
        sight: Sight,
        records: Records,
        lock: Option<OwnerLock>,
    ) -> Self {
        Self {
            filesystem,
            observers: Arc::default(),
            information: Mutex::new(information),
            folder: keys.folder().clone(),
            login: keys.login(),
            keys: Mutex::new(keys),
            records,
            rotating: Rotating::default(),
            locks: Locks::default(),
            sessions: AtomicU64::default(),
            joining: Mutex::new(()),
            push_turns: Arc::default(),
            contacts: Mutex::default(),
            limit_looks: LimitLooks::default(),
            evicting: Mutex::new(()),
            sight,
            closed: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            leaver: Mutex::new(None),
            _lock: lock,
        }
    }

    /// From now on every request of every session fails with `Closed`.
    pub(crate) fn refuse_requests(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Takes in a header that a client made from the one of generation `base`.
    pub(crate) fn install_keys(
        &self,
        base: u64,
        header: &[u8],
        handover: Option<&[u8]>,
        purpose: Purpose,
    ) -> Result<Installed> {
        if purpose == Purpose::Rotation {
            // The database gets another key, for which nobody may read. Whoever reads long is waited for while others can use the keys.
            self.filesystem.wait_for_readers();
        }
        let installed =
            self.on_keys(|keys| keys.install(base, header, handover, purpose, &self.filesystem));
        self.rotating.wake();
        installed
    }

    /// Whether publication `number` opens with a header that a remote has and that goes on from the one in use.
    pub(crate) fn opens_under(&self, header: &[u8], number: u64, object: &[u8]) -> Result<bool> {
        self.with_keys(|keys| {
            let keyring = keys.keyring();
            if has_all_changes_of(keyring, header) {
                return Ok(false);
            }
            let next = follow(keyring, header)?;
            let (signer, sealer) = (next.revision_signer(), next.block_sealer());
            Ok::<_, Error>(open_publication(number, object, &signer, &sealer).is_ok())
        })
    }

    /// Takes in a header that a remote has; gives whether it is a newer one. One that lacks keys of epoch `needed` or later is left;
    /// one that lacks keys which something here needs, until that is sealed again, which begins then.
    pub(crate) fn take_header(&self, header: &[u8], needed: Epoch) -> Result<bool> {
        let followed = self.with_keys(|keys| {
            let keyring = keys.keyring();
            if has_all_changes_of(keyring, header) {
                return Ok(None);
            }
            let next = follow(keyring, header)?;
            let held: Vec<Epoch> = keyring.epochs().collect();
            let has = |epoch: &&Epoch| next.epochs().all(|other| other != **epoch);
            let lacks: Vec<Epoch> = held.iter().filter(has).copied().collect();
            Ok::<_, Error>(Some(lacks))
        })?;
        let Some(lacks) = followed else {
            return self.on_keys(|keys| keys.outdo(header, &self.filesystem));
        };
        if lacks.iter().any(|epoch| *epoch >= needed) {
            return Ok(false);
        }
        let take = || self.on_keys(|keys| keys.take_in(header, &self.filesystem));
        // The newest one: a header may have keys from before those that it lacks, which a device brought back.      [11.10.4]
        if let Some(newest) = lacks.last() {
            match self.filesystem.reseal()? {
                Resealed::Done(sealed) if *newest < sealed => {}
                _ => {
                    self.seal_again()?;
                    return Err(Error::KeysInUse);
                }
            }
            // Nothing is on its way under an earlier epoch meanwhile.
            self.records.reseal(&self.filesystem, take)?;
        } else {
            self.filesystem.wait_for_readers();
            take()?;
        }
        self.rotating.wake();
        Ok(true)
    }

    /// Lets everything be sealed again that is sealed under earlier keys than the newest.
    pub(crate) fn seal_again(&self) -> Result<()> {
        let newest = self.with_keys(|keys| keys.keyring().epoch());
        self.filesystem
            .keep_setting(ROTATION, &newest.0.to_le_bytes())?;
        self.rotating.wake();
        Ok(())
    }

    /// Removes what came from remotes and was not joined. A pull that is under way ends with `RemoteBusy`.
    pub(crate) fn remove_what_came(&self) -> Result<()> {
        let _turn = self.joining.lock();
        let folder = self.with_keys(|keys| keys.folder().clone());
        incoming::take_back(&folder, &self.filesystem)?;
        incoming::remove(&folder)
    }

    /// Runs `work` on the keys; what is shown of them is true of them afterwards.
    pub(crate) fn on_keys<T>(&self, work: impl FnOnce(&mut HeldKeys) -> Result<T>) -> Result<T> {
        let mut keys = self.hold_keys();
        let worked = work(&mut keys);
        // After an error too: another change may have been taken in before.
        let mut information = self.information.lock();
        information.generation = keys.keyring().generation();
        information.epoch = keys.keyring().epoch().0;
        information.members = keys.members();
        information.guessable = keys.keyring().is_guessable();
        information.unknown_records = keys.unknown_records();
        self.filesystem.sign_with(keys.keyring().revision_signer());
        keys.renew_login();
        worked
    }

    /// The header in use, in the form that remotes get, and its generation.
    pub(crate) fn remote_header(&self) -> Result<(Vec<u8>, u64)> {
        self.with_keys(|keys| {
            let keyring = keys.keyring();
            Ok((keyring.remote_header()?, keyring.generation()))
        })
    }

    /// By which publications name it.                                                                        [1.7.8]
    pub(crate) fn remote_header_hash(&self) -> Result<[u8; 32]> {
        Ok(object_hash(&self.remote_header()?.0))
    }

    /// The oldest and the newest epoch whose keys are there.
    pub(crate) fn epochs(&self) -> (Epoch, Epoch) {
        let keys = self.hold_keys();
        let newest = keys.keyring().epoch();
        (keys.keyring().epochs().next().unwrap_or(newest), newest)
    }

    /// The folder of the vault. Waits for nobody.
    pub(crate) const fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Looks at the keys and at what keeps them. Hold no `Reader`.
    pub(crate) fn with_keys<T>(&self, look: impl FnOnce(&HeldKeys) -> T) -> T {
        look(&self.hold_keys())
    }

    fn hold_keys(&self) -> MutexGuard<'_, HeldKeys> {
        debug_assert!(
            !self.filesystem.is_read_here(),
            "the keys, with a reader: who has them may wait for readers"
        );
        self.keys.lock()
    }

    /// Whether what is seen of the vault is recorded.
    pub(crate) fn keeps_seen(&self) -> bool {
        self.sight.keeps()
    }

    /// Records how far the vault is durable.
    pub(crate) fn note_seen(&self) {
        // The two are read one after the other and compared one by one: each only grows.
        let keyring = self.with_keys(|keys| keys.keyring().clone());
        self.sight.note(&keyring, self.filesystem.durable_state());
    }

    /// What was counted since the vault was opened, by name: here, and by who shows the vault.
    pub(crate) fn counters(&self) -> Vec<(String, u64)> {
        let mut counters = counters::read(&self.filesystem.counters());
        counters.extend(self.observers.counters());
        counters
    }

    /// What the vault is, and where it is shown now.
    pub(crate) fn information(&self) -> Result<Information> {
        let mut members = self.information.lock().members.clone();
        give_names(&self.filesystem, &mut members);
        let (away, here_bytes) = self.filesystem.away_and_here()?;
        Ok(Information {
            members,
            attachments: self.observers.attachments(),
            held_open: self.observers.held_open(),
            compression: self.filesystem.compression().name().to_owned(),
            away_bytes: away.bytes,
            here_bytes,
            keep_at_most: self.filesystem.keep_at_most(),
            ..self.information.lock().clone()
        })
    }

    /// Notes that this process must stay the owner from now on.
    pub(crate) fn lend(&self) {
        self.lent.store(true, Ordering::Release);
    }

    /// Whether it must.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent.load(Ordering::Acquire)
    }

    /// Says who can end the ownership.
    pub(crate) fn set_leaver(&self, leaver: Weak<dyn Leaver>) {
        *self.leaver.lock() = Some(leaver);
    }

    /// Ends a session that only holds the vault open, and says so; else the ownership ends soon, if nobody but session `asker` needs
    /// it. That happens in a thread of its own: the end waits for the caller that asked.
    pub(crate) fn make_way(&self, asker: &Session) -> bool {
        if self.observers.let_go() {
            return true;
        }
        let Some(leaver) = self.leaver.lock().clone() else {
            return false;
        };
        let (asker, next) = (asker.number, asker.access);
        let leave = move || {
            if let Some(leaver) = leaver.upgrade() {
                leaver.leave(asker, next);
            }
        };
        let named = std::thread::Builder::new().name("vault-leave".to_owned());
        // Without a thread it stays the owner; who asked asks again.
        if let Err(error) = named.spawn(leave) {
            log::warn!("starting a thread: {error}");
        }
        false
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// The keyring of a later header, which a remote has.
fn follow(keyring: &Keyring, header: &[u8]) -> Result<Keyring> {
    keyring
        .follow_at_remote(header)
        .map_err(|error| match error {
            UnlockError::DeviceRemoved if keyring.is_replaced_in(header) => Error::DeviceReplaced,
            UnlockError::Diverged => Error::keys_diverged(),
            // It is that of the remote, not that of this vault, of which somebody without keys made another one.
            UnlockError::HeaderEdited
            | UnlockError::SlotMissing
            | UnlockError::GenerationBeyond { .. }
            | UnlockError::WithheldForged
            | UnlockError::Forged(_) => Error::RemoteUntrue(format!("its header: {error}")),
            error => error.into(),
        })
}

/// Whether a header has no change of members or keys that `keyring` does not have, and is no later one. Two devices that forgot keys
/// and changed them make headers of one generation: the one with the change counts.
fn has_all_changes_of(keyring: &Keyring, header: &[u8]) -> bool {
    Header::decode(header).is_ok_and(|StoredHeader { header, .. }| {
        // With fewer records it is the earlier one, although somebody who did not know of the others raised its generation.    [1.7.11]
        keyring.goes_on_from(&header.records)
            && (header.generation <= keyring.generation() || keyring.goes_beyond(&header.records))
    })
}

/// A node that a session holds open, and what for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenNode {
    pub(crate) inode: InodeId,
    pub(crate) opening: Opening,
}

/// One user of the vault.
pub(crate) struct Session {
    pub(crate) vault: Arc<OpenVault>,
    pub(crate) caller: Caller,
    pub(crate) access: Access,
    /// Which one of its vault's: who holds its locks.
    pub(crate) number: u64,
    nodes: Mutex<(u64, HashMap<Handle, OpenNode>)>,
    /// While it copies the vault folder.
    pub(crate) backup: Mutex<Option<Backup>>,
    /// While it pushes to a remote.
    pub(crate) push: Mutex<Option<Push>>,
    /// Hashes of files that wait to be published, as this pull or push read them: each publication may ask for them again.
    pub(crate) waiting: Mutex<HashMap<SegmentId, [u8; 32]>>,
}

impl Session {
    pub(crate) fn new(vault: Arc<OpenVault>, caller: Caller, access: Access) -> Self {
        let number = vault.sessions.fetch_add(1, Ordering::Relaxed);
        Self {
            vault,
            caller,
            access,
            number,
            nodes: Mutex::default(),
            backup: Mutex::default(),
            push: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    pub(crate) fn filesystem(&self) -> &Filesystem {
        &self.vault.filesystem
    }

    /// Tells the observers.
    pub(crate) fn tell(&self, changes: &[Change]) {
        self.vault.observers.tell(changes);
    }

    /// Keeps `node` open.
    pub(crate) fn keep(&self, node: HeldNode, opening: Opening) -> Result<Handle> {
        let mut nodes = self.nodes.lock();
        if nodes.1.len() >= HANDLES_MAX {
            return Err(Error::TooManyOpenFiles);
        }
        nodes.0 += 1;
        let handle = Handle(nodes.0);
        nodes.1.insert(
            handle,
            OpenNode {
                inode: node.keep().inode,
                opening,
            },
        );
        Ok(handle)
    }

    /// The node behind `handle`; a handle that was never given, or was closed, is `Stale`.
    pub(crate) fn node(&self, handle: Handle) -> Result<OpenNode> {
        self.nodes
            .lock()
            .1
            .get(&handle)
            .copied()
            .ok_or(Error::File(filesystem::Error::Stale))
    }

    /// The node behind `handle`, if it was opened for reading.
    pub(crate) fn readable(&self, handle: Handle) -> Result<InodeId> {
        let node = self.node(handle)?;
        if node.opening.read {
            Ok(node.inode)
        } else {
            Err(Error::NotOpenFor("reading"))
        }
    }

    /// The node behind `handle`, if it was opened for writing.
    pub(crate) fn writable(&self, handle: Handle) -> Result<OpenNode> {
        let node = self.node(handle)?;
        if node.opening.write || node.opening.append {
            Ok(node)
        } else {
            Err(Error::NotOpenFor("writing"))
        }
    }

    /// Locks the node behind `handle`; gives false if somebody else has a lock on it.
    pub(crate) fn lock(&self, handle: Handle, kind: LockKind, patience: Patience) -> Result<bool> {
        let inode = self.node(handle)?.inode;
        let holder = (self.number, handle);
        let locked = self.vault.locks.lock(inode, holder, kind, patience);
        // Closed by another thread meanwhile: nobody else would give the lock back.
        if let Err(closed) = self.node(handle) {
            self.vault.locks.unlock(inode, holder);
            return Err(closed);
        }
        Ok(locked)
    }

    /// Gives back the lock of the node behind `handle`.
    pub(crate) fn unlock(&self, handle: Handle) -> Result<()> {
        let inode = self.node(handle)?.inode;
        self.vault.locks.unlock(inode, (self.number, handle));
        Ok(())
    }

    /// Gives back all locks.
    pub(crate) fn unlock_all(&self) {
        self.vault.locks.unlock_all(self.number);
    }

    /// Gives the node back; closing twice does nothing.
    pub(crate) fn close(&self, handle: Handle) {
        let node = self.nodes.lock().1.remove(&handle);
        if let Some(node) = node {
            self.vault.locks.unlock(node.inode, (self.number, handle));
            self.filesystem().forget(node.inode, 1);
        }
    }

    pub(crate) fn holds_nothing(&self) -> bool {
        self.holds_at_most_a_push() && !self.is_pushing()
    }

    /// Whether it holds nothing but perhaps a push, which begins again at the next owner that writes.
    pub(crate) fn holds_at_most_a_push(&self) -> bool {
        self.nodes.lock().1.is_empty() && self.backup.lock().is_none()
    }

    pub(crate) fn is_pushing(&self) -> bool {
        self.push.lock().is_some()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.unlock_all();
        let nodes = std::mem::take(&mut self.nodes.get_mut().1);
        for node in nodes.into_values() {
            self.vault.filesystem.forget(node.inode, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use strongroom_crypto::{KeyFile, Secret, SystemRandom};
    use strongroom_filesystem::{Background, Options};

    use super::*;
    use crate::owner::port::Port;
    use crate::{CreateOptions, OpenOptions, Vault};

    /// Goal: no header is taken in that lacks keys under which something is sealed here, also if it has older ones: a copy that became a
    /// new device brought those back, and the headers in between do not come.
    /// Failed before: what the header had first was compared with what is sealed here. So the replica file was sealed under keys that the
    /// header in the folder did not have, and nothing opened the vault.
    #[test]
    fn a_header_without_the_keys_in_use_is_not_taken_in_although_it_has_older_ones() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("vault");
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let by_hand = Options {
            background: Background::Manual,
            ..Options::default()
        };
        let options = CreateOptions::new().key_file(key_file.clone());
        let created = Vault::create(&folder, options.engine(by_hand)).unwrap();
        let vault = created.vault;
        let Port::Owner(owner) = vault.port() else {
            panic!("it was made here")
        };
        let take = |header: &[u8]| owner.session.vault.take_header(header, Epoch(u32::MAX));
        let keyring = || (owner.session.vault).with_keys(|keys| keys.keyring().clone());
        let before = keyring();
        let begun = before.begin_epoch(&SystemRandom).unwrap().keyring;
        assert!(take(&begun.remote_header().unwrap()).unwrap());
        vault.write("/file", vec![1_u8; 50_000]).unwrap();
        let later = begun.begin_epoch(&SystemRandom).unwrap().keyring;
        let later = later.forget_epochs_before(later.epoch()).unwrap().keyring;
        let copy = later.with_epochs_of(&before).add_device(&SystemRandom);
        let copy = copy.unwrap().keyring;
        assert_eq!(copy.epochs().collect::<Vec<_>>(), [Epoch(0), Epoch(2)]);
        let header = copy.remote_header().unwrap();
        for _ in 0..2 {
            assert!(matches!(take(&header), Err(Error::KeysInUse)));
            // The second time all is under the keys that the header lacks.
            while vault.rotate_step().unwrap() {}
        }
        assert_eq!(keyring().epochs().collect::<Vec<_>>(), [Epoch(1)]);
        drop(owner);
        vault.close().unwrap();
        let secret = Secret::KeyFile(key_file);
        let vault = Vault::open(&folder, secret, OpenOptions::default()).unwrap();
        assert_eq!(vault.read("/file").unwrap(), vec![1_u8; 50_000]);
        vault.close().unwrap();
    }
}

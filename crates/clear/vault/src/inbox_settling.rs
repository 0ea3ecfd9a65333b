//! Settles deposits that several devices took in at the same time, so that one file of each deposit is left.
//!
//! Takes   a state of the inbox that notes a deposit several times
//! Gives   one file of it, or those that users touched; the others are noted as settled
//! Never   removes a file that somebody changed or moved
//! Spec    spec/12-inbox.md, [12.6.5]

use strongroom_filesystem::{Attributes, Durability, Error as FileError, NodeKind, RenameMode};
use strongroom_format::deposit::DepositId;
use strongroom_history::ConflictName;

use crate::inbox_state::{NOTE, SET_ASIDE};
use crate::inbox_taking::{ATTEMPTS, INBOX, note};
use crate::path::{Links, join};
use crate::receive::{is_changed, require_root, set_state};
use crate::request::Request;
use crate::request::remote::RemoteRequest;
use crate::{Error, Operation, Result, Vault};

impl Vault {
    /// Lets one file be left of each deposit that several devices took in before they heard of one another.          [12.6.5]
    pub(crate) fn settle(&self) -> Result<()> {
        let state = self.inbox_state()?;
        if self.shared.inbox.lock().is_settled(&state) {
            return Ok(());
        }
        for id in state.doubles() {
            self.settle_one(id)?;
        }
        self.shared.inbox.lock().note_settled(state);
        Ok(())
    }

    fn settle_one(&self, id: DepositId) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let root = self.attributes("/", Links::Stay)?;
            let mut state = self.inbox_state()?;
            let (mut there, mut is_removed) = (Vec::new(), false);
            for one in state.takings(id).filter(|one| one.node != SET_ASIDE) {
                match self.is_there(id, one.node)? {
                    true => there.push(one.node),
                    // By a user.
                    false => is_removed |= !one.is_settled,
                }
            }
            if there.is_empty() || there.len() == 1 && !is_removed {
                return Ok(());
            }
            let untouched = self.untouched(id, &there)?;
            let is_touched = there.len() > untouched.len();
            let stays = match is_touched || is_removed {
                true => None,
                false => there.iter().min().copied(),
            };
            let goes = |one: &&Untouched| Some(one.node) != stays;
            let mut operations = vec![require_root(root)];
            for one in untouched.iter().filter(goes) {
                operations.push(one.require());
                operations.push(Operation::RemoveFile {
                    path: one.path.clone(),
                });
            }
            if operations.len() == 1 {
                return Ok(());
            }
            // No file is called a conflict copy of one that is gone.
            let renamed = untouched.iter().find(|one| !goes(one)).and_then(|one| {
                let new_path = one.own_path.clone()?;
                let is_free = untouched.iter().any(|other| other.path == new_path);
                is_free.then_some((one, new_path))
            });
            if let Some((one, new_path)) = renamed {
                operations.push(one.require());
                operations.push(Operation::Rename {
                    path: one.path.clone(),
                    new_path,
                    mode: RenameMode::NoReplace,
                });
            }
            let gone: Vec<u64> = (untouched.iter().filter(goes))
                .map(|one| one.node)
                .collect();
            for one in &mut state.received {
                one.is_settled |= one.deposit == id && gone.contains(&one.node);
            }
            operations.push(set_state(&state));
            match self.transaction(&operations, Durability::OnReturn) {
                Err(error) if is_changed(&error) => {}
                done => return done,
            }
        }
        Err(Error::RemoteBusy)
    }

    /// Whether the file of a taking is there, wherever it lies.
    fn is_there(&self, id: DepositId, node: u64) -> Result<bool> {
        let deposit = id.0;
        self.ask_for(&Request::Remote(RemoteRequest::IsDepositThere {
            deposit,
            node,
        }))
    }

    /// Which of these files of a deposit lie in `/Inbox` as they came.
    fn untouched(&self, id: DepositId, nodes: &[u64]) -> Result<Vec<Untouched>> {
        let entries = match self.list(INBOX) {
            Err(Error::File(FileError::NotFound | FileError::NotADirectory)) => {
                return Ok(Vec::new());
            }
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.attributes.kind != NodeKind::File {
                continue;
            }
            let path = join(INBOX.as_bytes(), &entry.name);
            let said = match self.xattr(&path, Links::Stay, NOTE) {
                Err(Error::File(FileError::NoAttribute | FileError::NotFound)) => continue,
                said => said?,
            };
            let seen = entry.attributes;
            let conflict = ConflictName::read(&entry.name);
            let is_as_it_came = |node: &&u64| {
                let says = |name: &[u8]| {
                    let name = String::from_utf8_lossy(name);
                    said == note((id, **node), seen.size, seen.mtime, &name)
                };
                // A copy that a user made of it, or brought back from a snapshot, says the same and is not it.
                seen.inode.0 == **node
                    && (says(&entry.name) || conflict.as_ref().is_some_and(|one| says(&one.of)))
            };
            if let Some(node) = nodes.iter().find(is_as_it_came)
                && seen.nlink == 1
            {
                let own_path = conflict.as_ref().map(|one| join(INBOX.as_bytes(), &one.of));
                found.push(Untouched {
                    node: *node,
                    path,
                    own_path,
                    seen,
                });
            }
        }
        Ok(found)
    }
}

/// A file in `/Inbox` as it came.
struct Untouched {
    /// The number that it had when it came.
    node: u64,
    path: Vec<u8>,
    /// Where it lay before it got a conflict name.
    own_path: Option<Vec<u8>>,
    seen: Attributes,
}

impl Untouched {
    fn require(&self) -> Operation {
        Operation::RequireUnchanged {
            path: self.path.clone(),
            links: Links::Stay,
            seen: self.seen.clone(),
        }
    }
}

//! Takes one deposit into the vault.
//!
//! Takes   a deposit at a remote that is not noted as taken in
//! Gives   a file in `/Inbox`, or why there is none
//! Never   follows a link, and never replaces or removes anything
//! Spec    spec/12-inbox.md, [12.6.2], [12.6.7] and 12.7

use std::cell::OnceCell;
use std::collections::HashSet;

use strongroom_filesystem::{
    Attributes, Error as FileError, NodeKind, SetAttributes, SetTime, Space, Timestamp, XattrMode,
};
use strongroom_format::deposit::{AddressId, DepositId, RunId};
use strongroom_format::hex;
use strongroom_format::limits::{DEPOSIT_PIECE_BYTES, ENVELOPE_BYTES};
use strongroom_remote::protocol::DEPOSIT_OBJECT_BYTES_MAX;
use strongroom_remote::{Error as RemoteError, Remote};
use strongroom_sync::{deposit_name, in_parallel, piece_name};

use crate::deposit_name::{folded, free_name, plain_name};
use crate::inbox_state::{INBOX_STATE, InboxState, Listing, NOTE, SET_ASIDE, note_head};
use crate::limits::DEPOSIT_GRACE;
use crate::owner::client::Unanswered;
use crate::path::{Links, join};
use crate::place_clock::PlaceClock;
use crate::receive::is_changed;
use crate::remotes::{RemoteProgress, go_on};
use crate::request::Request;
use crate::request::frame::{ByteBuffer, Bytes};
use crate::request::remote::{DepositFields, RemoteRequest};
use crate::request::steps::{Step, Steps};
use crate::{Error, File, GoOn, Result, Vault};

/// Where deposits come.
pub(crate) const INBOX: &str = "/Inbox";

/// The mode of that directory, and of what comes there.
const INBOX_MODE: u32 = 0o700;
const DEPOSIT_MODE: u32 = 0o600;

/// Who says to have deposited it.
const SENDER: &[u8] = b"user.strongroom.sender";
/// By which address it came.
const ADDRESS: &[u8] = b"user.strongroom.address";

/// How often content is fetched once more because the owner of the vault went.
const STAGINGS_MAX: usize = 4;

/// How often a transaction is begun again because somebody changed the root directory meanwhile.
pub(crate) const ATTEMPTS: usize = 64;

/// From 2200 on: a time that no depositor means.
const TIME_END: i64 = 7_258_118_400_000_000_000;

const NOT_OURS: &str = "it is not sealed for this vault, or it was changed; it was set aside";
const OTHER_KEYS: &str = "it was sealed for keys that this device does not have";
const NO_KEYS: &str =
    "it was sealed for keys that this device does not have after a week; it was set aside";
const INCOMPLETE: &str = "a part of it is missing at the server; it is looked for again";
const NEVER_COMPLETE: &str = "a part of it has been missing for a week; it was set aside";
pub(crate) const NO_SPACE: &str =
    "there is no room for it in the vault or on its disk; it stays at the server";
const NO_ROOM: &str = "servers still have, or may have, too many deposits that were taken in; sync a device that may remove them, and remove \
     the addresses of a server that is gone for good";
const NO_DIRECTORY: &str =
    "/Inbox is not a directory; rename it, so that the directory can be made";

/// A deposit that a remote lists.
pub(crate) struct Came<'a> {
    pub(crate) id: DepositId,
    /// When it came, by the clock of the place.
    pub(crate) came_s: u64,
    /// Where it and others wait.
    pub(crate) listing: &'a Listing<'a>,
    /// Names of all pieces there, listed behind the deposits if one has content: an envelope comes after its pieces.
    pub(crate) pieces: &'a OnceCell<HashSet<String>>,
    /// What says how long ago it came.
    pub(crate) clock: &'a PlaceClock<'a>,
}

/// What became of a deposit.
pub(crate) enum Taken {
    /// It is there, under this path.
    In(Vec<u8>),
    /// Another device has removed it from the remote, or this one has taken it in, meanwhile.
    Gone,
    SetAside(&'static str),
    /// It stays as it is. `is_final`: no later look can help.
    Left {
        why: &'static str,
        is_final: bool,
    },
}

/// What an envelope says.
struct About {
    name: String,
    sender: String,
    size: u64,
    modified: Timestamp,
    address: AddressId,
    run: RunId,
}

/// Why the content of a deposit did not come.
enum NotFetched {
    Missing,
    Unreadable,
    Failed(Error),
}

impl From<Error> for NotFetched {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Vault {
    /// Takes a deposit in.
    ///
    /// # Errors
    /// `Remote` if it cannot be asked; `File` if the vault has no room.
    pub(crate) fn take_in(
        &self,
        remote: &dyn Remote,
        came: &Came<'_>,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> Result<Taken> {
        let envelope = match remote.read(&deposit_name(came.id), ENVELOPE_BYTES as u64) {
            Ok(None) => return Ok(Taken::Gone),
            Ok(Some(envelope)) => envelope,
            // As one that is too short.
            Err(RemoteError::TooLong { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let opened: DepositFields = self.ask_for(&Request::Remote(RemoteRequest::OpenDeposit {
            deposit: came.id.0,
            envelope: Bytes(&envelope),
        }))?;
        let about = match opened {
            DepositFields::Opened {
                name,
                sender,
                size,
                modified_ns,
                address,
                run,
            } => About {
                name: plain_name(&name.0),
                sender,
                size,
                modified: plain_time(modified_ns),
                address: AddressId(address),
                run: RunId(run),
            },
            // Whoever has an address can write any epoch into an envelope: it would wait for ever, and fill the inbox.
            DepositFields::UnknownEpoch if is_late(came)? => return self.set_aside(came, NO_KEYS),
            DepositFields::UnknownEpoch => {
                return Ok(Taken::Left {
                    why: OTHER_KEYS,
                    is_final: true,
                });
            }
            DepositFields::Unreadable => return self.set_aside(came, NOT_OURS),
        };
        if let Some(taken) = self.not_now(remote, came, &about)? {
            return Ok(taken);
        }
        for _ in 0..STAGINGS_MAX {
            let file = match self.unnamed_file("/", DEPOSIT_MODE) {
                Err(Error::OwnerGone) => continue,
                file => file?,
            };
            match self.fetch(remote, (came.id, &envelope), &about, &file, told) {
                Ok(()) => {}
                Err(NotFetched::Missing) => return self.left_incomplete(remote, came),
                Err(NotFetched::Unreadable) => return self.set_aside(came, NOT_OURS),
                Err(NotFetched::Failed(Error::OwnerGone)) => continue,
                Err(NotFetched::Failed(error)) => return Err(error),
            }
            if let Some(taken) = self.name_deposit(&file, came, &about)? {
                return Ok(taken);
            }
        }
        Err(Error::OwnerGone)
    }

    /// What becomes of a deposit that could not be taken in now. Nothing of its content is fetched to find that out: it would be again with
    /// each pull, and anybody who has an address could make a gibibyte of which a piece is missing.
    fn not_now(
        &self,
        remote: &dyn Remote,
        came: &Came<'_>,
        about: &About,
    ) -> Result<Option<Taken>> {
        let there = match self.attributes(INBOX, Links::Stay) {
            Err(Error::File(FileError::NotFound)) => None,
            found => Some(found?.kind),
        };
        if there.is_some_and(|kind| kind != NodeKind::Directory) {
            return Ok(Some(left(NO_DIRECTORY)));
        }
        let state = self.inbox_state()?;
        let noted = state.with_received(came.id, SET_ASIDE, came.listing);
        if noted.is_none() {
            return Ok(Some(left(NO_ROOM)));
        }
        if !has_pieces(remote, came, about)? {
            return self.left_incomplete(remote, came).map(Some);
        }
        // A disk that does not say is found out by writing.
        let is_too_large = |space: Space| about.size > space.free_bytes;
        Ok(self.space().is_ok_and(is_too_large).then(|| left(NO_SPACE)))
    }

    /// A piece is not there: the deposit was removed, or its depositor has not created it.
    fn left_incomplete(&self, remote: &dyn Remote, came: &Came<'_>) -> Result<Taken> {
        if !remote.has(&deposit_name(came.id))? {
            return Ok(Taken::Gone);
        }
        match is_late(came)? {
            true => self.set_aside(came, NEVER_COMPLETE),
            false => Ok(Taken::Left {
                why: INCOMPLETE,
                is_final: false,
            }),
        }
    }

    /// Notes that no device tries a deposit again.                                                            [12.6.7]
    fn set_aside(&self, came: &Came<'_>, why: &'static str) -> Result<Taken> {
        let mut has_room = true;
        self.change_inbox(|state| {
            if state.has_received(came.id) {
                return Ok(false);
            }
            match state.with_received(came.id, SET_ASIDE, came.listing) {
                Some(with) => *state = with,
                None => {
                    has_room = false;
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(match has_room {
            true => Taken::SetAside(why),
            false => Taken::Left {
                why: NO_ROOM,
                is_final: false,
            },
        })
    }

    /// Brings the content of a deposit into a file.
    fn fetch(
        &self,
        remote: &dyn Remote,
        (id, envelope): (DepositId, &[u8]),
        about: &About,
        file: &File,
        told: &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> std::result::Result<(), NotFetched> {
        let mut progress = RemoteProgress {
            bytes: 0,
            bytes_total: about.size,
        };
        in_parallel(
            0..about.size.div_ceil(DEPOSIT_PIECE_BYTES as u64),
            remote.transfers(),
            |number| -> std::result::Result<u64, NotFetched> {
                let name = piece_name(id, about.run, number);
                let piece = match remote.read(&name, DEPOSIT_OBJECT_BYTES_MAX) {
                    Ok(piece) => piece.ok_or(NotFetched::Missing)?,
                    Err(RemoteError::TooLong { .. }) => return Err(NotFetched::Unreadable),
                    Err(error) => return Err(NotFetched::Failed(error.into())),
                };
                let opened: std::result::Result<ByteBuffer, String> =
                    self.ask_for(&Request::Remote(RemoteRequest::OpenPiece {
                        deposit: id.0,
                        envelope: Bytes(envelope),
                        number,
                        piece: Bytes(&piece),
                    }))?;
                let ByteBuffer(content) = opened.map_err(|_| NotFetched::Unreadable)?;
                file.write_all_at(&content, number * DEPOSIT_PIECE_BYTES as u64)?;
                Ok(content.len() as u64)
            },
            &mut |len| {
                progress.bytes += len;
                Ok(go_on(told(&progress))?)
            },
        )
    }

    /// Gives the content of a deposit its name, and notes that it was taken in, in one transaction; `None` if the owner of the vault went
    /// before that.                                                                                          [12.6.2]
    fn name_deposit(&self, file: &File, came: &Came<'_>, about: &About) -> Result<Option<Taken>> {
        let (port, source) = file.at();
        let node = file.inode().0;
        for _ in 0..ATTEMPTS {
            let root = self.attributes("/", Links::Stay)?;
            let state = self.inbox_state()?;
            if state.has_received(came.id) {
                return Ok(Some(Taken::Gone));
            }
            let Some(with) = state.with_received(came.id, node, came.listing) else {
                return Ok(Some(left(NO_ROOM)));
            };
            let Some(place) = self.place_of_inbox()? else {
                return Ok(Some(left(NO_DIRECTORY)));
            };
            let name = free_name(&about.name, &place.names);
            let path = join(INBOX.as_bytes(), name.as_bytes());
            let label = label_of(&state, about.address);
            let note = note((came.id, node), about.size, about.modified, &name);
            let value = with.encode();
            let set = SetAttributes {
                uid: place.directory.as_ref().map(|directory| directory.uid),
                gid: place.directory.as_ref().map(|directory| directory.gid),
                mtime: Some(SetTime::At(about.modified)),
                ..SetAttributes::default()
            };
            let mut steps = vec![Step::RequireUnchanged {
                path: Bytes(b"/"),
                links: Links::Stay,
                seen: root,
            }];
            if place.directory.is_none() {
                steps.push(Step::MakeDirectory {
                    path: Bytes(INBOX.as_bytes()),
                    mode: INBOX_MODE,
                });
            }
            steps.push(Step::NameFrom {
                path: Bytes(&path),
                source,
            });
            steps.push(xattr(&path, NOTE, &note));
            steps.push(xattr(&path, ADDRESS, label.as_bytes()));
            if !about.sender.is_empty() {
                steps.push(xattr(&path, SENDER, about.sender.as_bytes()));
            }
            steps.push(Step::SetAttributes {
                path: Bytes(&path),
                links: Links::Stay,
                set,
            });
            steps.push(xattr(b"/", INBOX_STATE, &value));
            let request = Request::Transaction {
                steps: Steps(steps),
                durable: true,
            };
            match port.ask(&request) {
                Ok(response) => {
                    let () = response.try_into()?;
                    return Ok(Some(Taken::In(path)));
                }
                Err(Unanswered::Failed(error)) if is_changed(&error) => {}
                Err(Unanswered::Failed(error)) => return Err(error),
                Err(Unanswered::Unknown) => return Err(Error::OwnerGone),
                Err(Unanswered::NotDone) => {
                    self.succeed(&port)?;
                    return Ok(None);
                }
            }
        }
        Err(Error::RemoteBusy)
    }

    /// Where deposits come; `None` if something else has that name.
    fn place_of_inbox(&self) -> Result<Option<InboxPlace>> {
        let directory = match self.attributes(INBOX, Links::Stay) {
            Err(Error::File(FileError::NotFound)) => return Ok(Some(InboxPlace::default())),
            found => found?,
        };
        if directory.kind != NodeKind::Directory {
            return Ok(None);
        }
        let mut names = HashSet::new();
        for entry in self.list(INBOX)? {
            names.insert(folded(&String::from_utf8_lossy(&entry?.name)));
        }
        Ok(Some(InboxPlace {
            directory: Some(directory),
            names,
        }))
    }

    /// Makes the directory of the inbox, unless there is something of that name.
    pub(crate) fn make_inbox(&self) -> Result<()> {
        match self.make_directory(INBOX, INBOX_MODE) {
            Err(Error::File(FileError::Exists)) => Ok(()),
            made => made.map(drop),
        }
    }
}

/// Whether it came so long ago that nobody waits for what it lacks.
fn is_late(came: &Came<'_>) -> Result<bool> {
    came.clock.is_over(came.came_s, DEPOSIT_GRACE)
}

/// Whether the remote lists every piece of a deposit.
fn has_pieces(remote: &dyn Remote, came: &Came<'_>, about: &About) -> Result<bool> {
    let count = about.size.div_ceil(DEPOSIT_PIECE_BYTES as u64);
    if count == 0 {
        return Ok(true);
    }
    let pieces = match came.pieces.get() {
        Some(pieces) => pieces,
        None => {
            let listed = remote.list("pieces")?.into_iter();
            let names = listed.map(|one| one.name).collect();
            came.pieces.get_or_init(|| names)
        }
    };
    let is_there = |number| {
        let name = piece_name(came.id, about.run, number);
        pieces.contains(name.split().1)
    };
    Ok((0..count).all(is_there))
}

/// The directory of the inbox, if there is one, and its names as `folded` gives them.
#[derive(Default)]
struct InboxPlace {
    directory: Option<Attributes>,
    names: HashSet<String>,
}

/// Sets an attribute of the node at `path`.
fn xattr<'s>(path: &'s [u8], name: &'s [u8], value: &'s [u8]) -> Step<'s> {
    Step::SetXattr {
        path: Bytes(path),
        links: Links::Stay,
        name: Bytes(name),
        value: Bytes(value),
        mode: XattrMode::Set,
    }
}

const fn left(why: &'static str) -> Taken {
    Taken::Left {
        why,
        is_final: false,
    }
}

/// What the file of a deposit says of it.                                                                      [12.7.3]
pub(crate) fn note(
    (id, node): (DepositId, u64),
    size: u64,
    modified: Timestamp,
    name: &str,
) -> Vec<u8> {
    let mut note = note_head(id, node);
    note.extend_from_slice(format!("{size} {} {name}", modified.0).as_bytes());
    note
}

/// The label of an address, or its id.
fn label_of(state: &InboxState, id: AddressId) -> String {
    let found = state.addresses.iter().find(|one| one.id == id);
    found.map_or_else(|| hex::encode(&id.0), |one| one.label.clone())
}

/// The time that a depositor says, if it can be meant.
const fn plain_time(said_ns: i64) -> Timestamp {
    match said_ns {
        0..TIME_END => Timestamp(said_ns),
        _ => Timestamp(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_nobody_means_is_the_first() {
        let year_2200 = 7_258_118_400;
        assert_eq!(TIME_END, year_2200 * 1_000_000_000);
        for (said, time) in [
            (0, 0),
            (1_764_000_000_000_000_000, 1_764_000_000_000_000_000),
            (-1, 0),
            (TIME_END, 0),
            (i64::MIN, 0),
            (i64::MAX, 0),
        ] {
            assert_eq!(plain_time(said), Timestamp(time));
        }
    }
}

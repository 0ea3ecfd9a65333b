//! Requests about the remotes of a vault.
//!
//! Takes   the calls of the public API
//! Gives   values that are sent with `request.rs`, under its protocol version
//! Never   carries a key in clear. An address may hold credentials, which its `Debug` does not show

use serde::{Deserialize, Serialize};
use strongroom_remote::SignedLogin;
use strongroom_sync::object_hash;

use crate::request::frame::{ByteBuffer, Bytes};
use crate::{Error, Result};

/// What is asked about remotes. Who asks reaches the remote; the owner of the vault has its keys.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) enum RemoteRequest<'a> {
    List,
    Add {
        name: Bytes<'a>,
        address: Bytes<'a>,
        id: [u8; 16],
        /// This device removes nothing there.
        keeps: bool,
    },
    /// Forgets a remote, if what is away is still what the caller has asked the other remotes for; gives whether it is.
    Remove {
        name: Bytes<'a>,
        /// `hash_of` what is away.
        asked_for: [u8; 32],
    },
    /// Takes a revision if anything changed, ends the open segments, and keeps all segments until `EndPush` or the end of the session.
    BeginPush {
        remote: u64,
    },
    /// What that remote lacks: the next page, of `limit` objects at most.
    Missing {
        remote: u64,
        limit: u64,
    },
    /// These publications, each with its device, name no head and are of pushes that have not ended. What only those of other devices
    /// name is missing from now on until the push ends; gives whether there are such.
    Unfinished {
        remote: u64,
        publications: Vec<(u64, [u8; 32])>,
    },
    /// The publication behind `last`, sealed; no bytes if there is nothing to publish.
    Seal {
        remote: u64,
        last: u64,
        header: [u8; 32],
        named: NamedFields,
    },
    /// Those of the hashes, of which the first bytes are given, that nothing live at that remote has which a publication up to `last`
    /// named.
    NotLive {
        remote: u64,
        hashes: Vec<[u8; 8]>,
        last: u64,
    },
    /// Notes the publication of this device that retired what was not live at that remote.
    Fence {
        remote: u64,
        number: u64,
    },
    /// Notes that erased content is gone from that remote, unless something is left to retire there, or something was erased since
    /// `RemoteFields::erased` was that.
    NotePruned {
        remote: u64,
        erased: u64,
    },
    /// Takes in publication `number` of that remote: the next one, or of a remote of which nothing was read any one.
    Publication {
        remote: u64,
        number: u64,
        #[serde(borrow)]
        object: Bytes<'a>,
        /// What it names is in the vault. Otherwise it is taken in only if it names nothing else.
        is_joined: bool,
    },
    /// Proves publication `number`, wherever it comes from; gives what it says, in clear.
    Open {
        number: u64,
        #[serde(borrow)]
        object: Bytes<'a>,
    },
    /// Ends the push; gives whether there was one: it ends with its session.
    EndPush,
    /// The next segments of that kind behind `after` in which content at or below `path` lies; none of them: that was all. One for each
    /// remote that is noted to have it, or one of remote 0, which there is not. Of those that are not here the length is that of what was
    /// committed.
    Segments {
        which: WhichSegments,
        #[serde(borrow)]
        path: Option<Bytes<'a>>,
        after: Option<[u8; 16]>,
    },
    /// Notes up to which publication this device says at that remote that it let content go; 0: it needs nothing there. The first time
    /// it gets a name.
    NoteNeeds {
        remote: u64,
        number: u64,
        /// Under another name from now on.
        renames: bool,
    },
    /// Lets the files of segments go that the remotes named have shown; gives those that went.
    Evict {
        segments: Vec<SegmentFields>,
        spared: Spared,
    },
    /// Segments that may go for the limit of this device and that a remote is noted to have, least recently used first, a page of them;
    /// none while content is within the limit.
    AboveLimit {
        remote: u64,
        look: LimitLook,
    },
    /// Brings the file of a segment back; gives whether it was away.
    BringBack {
        segment: [u8; 16],
    },
    /// BLAKE3 of the header in use, in the form that remotes get.
    HeaderHash,
    /// Pins what a path names, or does so no more; gives whether that is new.
    Pin {
        #[serde(borrow)]
        path: Bytes<'a>,
        how: Pinning,
    },
    /// Paths of what is pinned.
    Pins,
    /// A number that is another one after every change.
    ChangesMark,
    /// Whether a push to that remote would publish something.
    IsWaiting {
        remote: u64,
    },
    /// What is known of that remote without asking it.
    Status {
        remote: u64,
    },
    /// That remote answered at that time, in seconds since 1970. `stores`: this is worth a commit if the last time that is stored is long ago.
    NoteContact {
        remote: u64,
        at_s: u64,
        stores: bool,
    },
    /// A header that the remote has: taken in if it goes on from the one in use, with all keys of epoch `needed` and later ones.
    TakeHeader {
        #[serde(borrow)]
        header: Bytes<'a>,
        needed: u32,
    },
    /// Whether publication `number` opens with a header that the remote has, which goes on from the one in use.
    OpensUnder {
        #[serde(borrow)]
        header: Bytes<'a>,
        number: u64,
        #[serde(borrow)]
        object: Bytes<'a>,
    },
    /// Adds a new device, as which this copy goes on. With a header that the remote has: the device of this copy was replaced in it.
    BecomeNewDevice {
        #[serde(borrow)]
        newest: Option<Bytes<'a>>,
    },
    /// Takes in the publications of these numbers with what they name, all in the folder of what came, and joins them.
    Join {
        remote: u64,
        first: u64,
        behind: u64,
        from: Start,
    },
    /// A login at a server, signed as the device, or as the slot that opened the vault; nothing if there is no key for that. `records`:
    /// how many membership records the server has noted.
    SignLogin {
        as_slot: bool,
        #[serde(borrow)]
        server: Bytes<'a>,
        #[serde(borrow)]
        account: Bytes<'a>,
        #[serde(borrow)]
        vault: Bytes<'a>,
        nonce: [u8; 32],
        issued_s: u64,
        valid_s: u64,
        records: u64,
    },
    /// The document of the address of that id, under the newest keys.
    InboxAddress {
        id: [u8; 16],
    },
    /// What an envelope says.
    OpenDeposit {
        deposit: [u8; 16],
        #[serde(borrow)]
        envelope: Bytes<'a>,
    },
    /// Whether the node of that number is there, and is the file of that deposit.
    IsDepositThere {
        deposit: [u8; 16],
        node: u64,
    },
    /// The content in a piece of the deposit of an envelope, or why there is none.
    OpenPiece {
        deposit: [u8; 16],
        #[serde(borrow)]
        envelope: Bytes<'a>,
        number: u64,
        #[serde(borrow)]
        piece: Bytes<'a>,
    },
}

/// Where a pull begins to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Start {
    /// Behind what this device joined last.
    Joined,
    /// At the first publication that names something live, as a newcomer: what it had and let go counts too.
    Base,
}

impl RemoteRequest<'_> {
    /// Whether asking twice does no harm.
    pub(crate) const fn is_repeatable(&self) -> bool {
        matches!(
            self,
            Self::List
                | Self::Open { .. }
                | Self::HeaderHash
                | Self::OpensUnder { .. }
                | Self::ChangesMark
                | Self::IsWaiting { .. }
                | Self::Status { .. }
                | Self::NoteContact { .. }
                | Self::NotLive { .. }
                | Self::Segments { .. }
                | Self::AboveLimit { .. }
                | Self::Pins
                | Self::SignLogin { .. }
                | Self::InboxAddress { .. }
                | Self::OpenDeposit { .. }
                | Self::IsDepositThere { .. }
                | Self::OpenPiece { .. }
        )
    }

    /// Whether the vault may be another one afterwards.
    pub(crate) const fn changes(&self) -> bool {
        match self {
            Self::NoteContact { stores, .. } => *stores,
            _ => !self.is_repeatable() && !matches!(self, Self::EndPush),
        }
    }
}

/// A remote of the vault, as the database has it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct RemoteFields {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) id: [u8; 16],
    pub(crate) address: String,
    /// The last publication that was read or made; 0 before the first.
    pub(crate) last: u64,
    /// Its id; zeros before the first.
    pub(crate) last_id: [u8; 32],
    /// The last one up to which all that it has is here.
    pub(crate) joined: u64,
    pub(crate) head: [u8; 32],
    /// BLAKE3 of the header that the last publication names; zeros before the first.
    pub(crate) header: [u8; 32],
    /// Segments and revisions that it has.
    pub(crate) published: u64,
    /// The first publication that names something live; 0 before the first.
    pub(crate) base: u64,
    /// See `RemoteState`.
    pub(crate) fence: (u64, u64),
    /// See `RemoteState`.
    pub(crate) keeps: bool,
    /// See `RemoteState`.
    pub(crate) needs: ([u8; 16], u64),
    /// See `RemoteState`.
    pub(crate) needs_since_s: u64,
    /// Another copy of the folder may act as the same device: this one has to become a new one before it publishes anything.
    pub(crate) is_copied: bool,
    /// Content was erased here that it may still have: everything that is not live goes at once.
    pub(crate) has_erased: bool,
    /// Sealed bytes of all that was erased here so far.
    pub(crate) erased: u64,
}

impl std::fmt::Debug for RemoteFields {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "RemoteFields({})", self.name)
    }
}

/// What is known of a remote without asking it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusFields {
    /// A push would publish something.
    pub(crate) is_waiting: bool,
    /// Sealed bytes here that it does not have.
    pub(crate) waiting_bytes: u64,
    /// Files that changed since its head; `None` if that is not known.
    pub(crate) waiting_files: Option<u64>,
    /// Sealed bytes that it has and that are not here,
    pub(crate) away_bytes: u64,
    /// and those of them that no other remote has.
    pub(crate) alone_bytes: u64,
    /// When it answered last, in seconds since 1970; 0: that is not known.
    pub(crate) contact_s: u64,
    /// The newest publication of each device: its number, and its time in seconds since 1970.
    pub(crate) newest: Vec<([u8; 32], u64, u64)>,
}

/// What a push begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PushFields {
    /// The header of the vault, in the form that remotes get.
    pub(crate) header: ByteBuffer,
    /// Its generation.
    pub(crate) generation: u64,
    /// The newest revision.
    pub(crate) head: [u8; 32],
    /// The last publication there names that header.
    pub(crate) is_header_there: bool,
    /// A push to that remote began before and did not end.
    pub(crate) was_pushing: bool,
    /// Bytes of segments that the remote lacks.
    pub(crate) bytes: u64,
    /// Segments and revisions that it has.
    pub(crate) published: u64,
}

/// An object that a remote is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum VaultObject {
    Segment { id: [u8; 16], epoch: u32 },
    Revision { id: [u8; 32], epoch: u32 },
}

/// An object that is at the remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UploadedObject {
    pub(crate) object: VaultObject,
    pub(crate) hash: [u8; 32],
    pub(crate) len: u64,
}

/// What a publication is to say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedFields {
    /// What went up.
    pub(crate) uploaded: Vec<UploadedObject>,
    /// What earlier publications named, once more.
    pub(crate) renamed: Vec<UploadedObject>,
    /// Hashes of what is there and not live: segments,
    pub(crate) unnamed_segments: Vec<[u8; 32]>,
    /// and records.
    pub(crate) unnamed_revisions: Vec<[u8; 32]>,
}

/// Which segments are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WhichSegments {
    /// Those whose files are here and need not be.
    Here,
    /// Those that only remotes have.
    Away,
    /// Those of them in which something pinned lies.
    AwayAndPinned,
    /// Those whose files are missing: no remote had them when they were to come back.
    GivenUp,
}

/// Which segments stay, whatever is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Spared {
    Nothing,
    /// Those that were read last.
    JustRead,
}

/// When to look for what may go for the limit of this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LimitLook {
    Now,
    /// Unless the last look has shown that it would find little.
    IfDue,
}

/// Whether the content of something is to stay here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Pinning {
    Pin,
    Unpin,
}

/// A segment, and how a remote has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentFields {
    pub(crate) id: [u8; 16],
    pub(crate) remote: u64,
    pub(crate) hash: [u8; 32],
    pub(crate) len: u64,
    /// Content of something pinned lies in it.
    pub(crate) is_pinned: bool,
}

/// One hash of these segments, and of where each is under which hash.
pub(crate) fn hash_of(segments: &[SegmentFields]) -> [u8; 32] {
    let each = segments.iter();
    let bytes = each.flat_map(|one| [&one.id[..], &one.remote.to_le_bytes(), &one.hash].concat());
    object_hash(&bytes.collect::<Vec<u8>>())
}

/// A login that was signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginFields {
    pub(crate) principal: [u8; 32],
    pub(crate) signature: ByteBuffer,
    /// The membership records that the server has not noted.
    pub(crate) records: Vec<ByteBuffer>,
}

impl LoginFields {
    /// The fields of a login that the owner signed.
    pub(crate) fn of(signed: SignedLogin) -> Self {
        Self {
            principal: signed.principal,
            signature: ByteBuffer(signed.signature.to_vec()),
            records: signed.records.into_iter().map(ByteBuffer).collect(),
        }
    }

    /// The login that they are.
    pub(crate) fn signed(self) -> Result<SignedLogin> {
        let signature = self.signature.0.try_into();
        Ok(SignedLogin {
            principal: self.principal,
            signature: signature.map_err(|_| Error::Protocol("an invalid signature"))?,
            records: self.records.into_iter().map(|one| one.0).collect(),
        })
    }
}

/// What the envelope of a deposit says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DepositFields {
    Opened {
        name: ByteBuffer,
        sender: String,
        size: u64,
        modified_ns: i64,
        /// By which address it came.
        address: [u8; 16],
        /// What its pieces are called by.
        run: [u8; 8],
    },
    /// It is sealed under keys that are not here.
    UnknownEpoch,
    Unreadable,
}

/// What a join did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JoinedFields {
    /// Names that mean another node now.
    pub(crate) names: u64,
    /// Nodes that are new or others.
    pub(crate) nodes: u64,
    /// Names that were given because of a conflict,
    pub(crate) conflicts: u64,
    /// and the paths of some of them.
    pub(crate) conflict_paths: Vec<Vec<u8>>,
    /// Files that have what both sides wrote, merged,
    pub(crate) merged: u64,
    /// and the paths of some of them.
    pub(crate) merged_paths: Vec<Vec<u8>>,
    /// Sealed bytes of content that another device erased and that were erased here, too;
    pub(crate) erased_bytes: u64,
    /// those that stay, because something here still needs them;
    pub(crate) unerased_bytes: u64,
    /// and why this failed, if it did.
    pub(crate) erase_problem: String,
}

/// A publication that was taken in, or why it was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PublicationFields {
    Taken {
        number: u64,
    },
    /// Its head is a revision that this vault does not have.
    Ahead {
        number: u64,
    },
    Refused(String),
}

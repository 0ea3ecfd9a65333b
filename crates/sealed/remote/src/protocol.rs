//! The protocol between a Strongroom server and its clients, except the objects themselves.
//!
//! Takes   nothing
//! Gives   paths, names of HTTP headers, documents, and reasons for refusals
//! Never   contains sealed data
//! Spec    docs/adr/0035-a-server-of-our-own.md, docs/adr/0038-devices-log-in-at-a-server.md
//!
//! | request below `/v1/vaults/ACCOUNT/VAULT/` | answer |
//! |---|---|
//! | `PUT objects/NAME`, with `HASH_HEADER` | 201; `AlreadyThere`, and nothing is done, if an object has that name |
//! | `GET objects/NAME`, whole or a range; `HEAD` | its bytes; for `HEAD` only its length and when it was created |
//! | `DELETE objects/NAME` | 204, also if there is no such object; `Kept` if the account keeps it for now |
//! | `GET objects?kind=KIND&after=NAME` | `Page`: names of that kind in order |
//! | `GET publications?after=N&wait=SECONDS` | `Newest`: at once if there is a publication after N, otherwise when the next one is created or the time is over |
//! | `GET publications/events?after=N` | `Newest` as server-sent events, one whenever it changes, for some minutes |
//! | `POST challenge` | `ChallengeDocument`; `NoHeader` if nobody can log in yet |
//! | `POST login`, a `LoginDocument` | `PassDocument`: later requests carry its token; `POST challenge` and `POST login` carry the token of the account |
//! | `GET inbox` | the object of the address whose token the request carries; `PUT inbox/NAME` carries the same token |
//! | `PUT inbox/NAME`, with `HASH_HEADER` | 201: `deposits/NAME`, or for a name with dots `pieces/NAME`, is created; `AlreadyThere` |
//!
//! A refusal has its code in `REFUSAL_HEADER`, and a `Problem` as its body. `server_remote.rs` turns it into an `Error`. `operations.rs`
//! of the server says which request gets which refusal. The server serves the same list as an OpenAPI document at `/v1/openapi.json`.

use serde::{Deserialize, Serialize};

use crate::object_name::ObjectName;

/// What every path of this version begins with.
pub const VERSION: &str = "/v1";

/// The header with BLAKE3 of the bytes of an object that is created, in hexadecimal.
pub const HASH_HEADER: &str = "strongroom-blake3";

/// The header with the code of a refusal.
pub const REFUSAL_HEADER: &str = "strongroom-refusal";

/// The type of the document of a refusal.
pub const PROBLEM_TYPE: &str = "application/problem+json";

/// The longest time that a request may ask to wait for a publication, in seconds: proxies give up after a minute.
pub const WAIT_S_MAX: u64 = 50;

/// The most names of one page of a listing.
pub const PAGE_NAMES_MAX: usize = 4096;

/// The longest name of an account or of a vault at a server, in bytes.
pub const PART_BYTES_MAX: usize = 64;

/// For how many seconds a challenge may be valid that a device signs.                              [11.11.1]
pub const LOGIN_VALID_S_MAX: u64 = 300;

/// What the token of a login begins with; that of an account begins with `srt-`.
pub const PASS_PREFIX: &str = "srd-";

/// The most membership records in the document of a login: as many as a header has.
pub const LOGIN_RECORDS_MAX: usize = 4096;

/// The longest document of a login, in bytes: as many records as a header has, in base64, and what is around each.
pub const LOGIN_BYTES_MAX: usize = 3 << 19;

/// With the token of the account alone an object of a pairing in a vault that is followed has so many bytes at most …   [11.11.8]
pub const PAIRING_BYTES_MAX: u64 = 16 << 10;

/// … and is created while there are fewer than so many.
pub const PAIRING_OBJECTS_MAX: usize = 64;

/// The longest object of an address of an inbox, in bytes.                                             [12.1]
pub const ADDRESS_OBJECT_BYTES_MAX: u64 = 2048;

/// The longest object that a depositor creates, in bytes: a piece of a mebibyte, and what is around it.
pub const DEPOSIT_OBJECT_BYTES_MAX: u64 = (1 << 20) + (64 << 10);

/// The most deposits that wait in the inbox of a vault, and that a device looks at in one pull.              [12.6.7]
pub const INBOX_DEPOSITS_MAX: usize = 1000;

/// The longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 200;

/// One object in a listing.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct PageObject {
    /// Its name below the kind.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
    /// The second since 1970 in which it came.
    pub created_s: u64,
    /// The second since 1970 until which the account keeps it although somebody asked to remove it; 0 if nobody asked, or it keeps nothing.
    /// Earlier servers do not say it.
    #[serde(default)]
    pub kept_until_s: u64,
}

/// A part of a listing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Page {
    /// In order of names.
    pub objects: Vec<PageObject>,
    /// Whether there are more behind the last.
    pub more: bool,
}

/// The number of the newest publication.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Newest {
    /// 0 before the first.
    pub last: u64,
}

/// A refusal.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Problem {
    /// `urn:strongroom:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is wrong, in a sentence.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// Which refusal it is.
    pub code: String,
}

/// Whether `name` can be that of an account or of a vault at a server.
#[must_use]
pub fn is_part(name: &str) -> bool {
    name.len() <= PART_BYTES_MAX && !name.contains('/') && ObjectName::new(name).is_ok()
}

macro_rules! refusals {
    ($($(#[doc = $doc:literal])* $name:ident $status:literal $code:literal $title:literal)*) => {
        /// Why a server does not do what it was asked.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Refusal { $($(#[doc = $doc])* $name),* }

        impl Refusal {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Status of the answer, code, a sentence for people.
            const fn parts(self) -> (u16, &'static str, &'static str) {
                match self { $(Self::$name => ($status, $code, $title)),* }
            }
        }
    };
}

refusals! {
    /// The request has no token.
    NoToken 401 "no-token" "the server needs a token"
    /// No account has the token.
    WrongToken 401 "wrong-token" "the server does not know this token"
    /// The token is that of another account than the one in the path.
    OtherAccount 403 "other-account" "the token belongs to another account"
    /// The server follows the vault, and the request has only the token of the account.
    LoginNeeded 401 "login-needed" "the server needs a login with the key of a device of this vault"
    /// Nobody is logged in with the token of the request, or not any more.
    LoginOver 401 "login-over" "the login has ended"
    /// The login is for another vault than the one in the path.
    OtherVault 403 "other-vault" "the login is for another vault"
    /// The principal was a member of the vault.
    DeviceRemoved 403 "device-removed" "this device was removed from the vault"
    /// The server does not know the principal as a member of the vault.
    NotMember 403 "not-member" "the server does not know this device as a member of the vault"
    /// A key slot made a request that only a device may make.
    OnlyDevices 403 "only-devices" "only a device of the vault may do this"
    /// The challenge was not issued, was used, or is too old.
    NoChallenge 409 "no-challenge" "this is no challenge of the server, or it was used or is too old"
    /// The signature is over another statement.
    WrongLogin 403 "wrong-login" "the signature of the login is not valid"
    /// The device reached the server by a name that the server does not know as its own.
    OtherServer 403 "other-server" "the server does not recognize the name by which it was reached: ask the operator of the server to add it with `--name`"
    /// There is no header from which the server could tell who is a member.
    NoHeader 409 "no-header" "the server has no header of the vault yet"
    /// The chain of membership records does not continue the one that the server has noted.
    OtherMembers 409 "other-members" "another device changed keys or devices of the vault first"
    /// The object should be a header of the vault, and is not.
    WrongHeader 400 "wrong-header" "this is not a header of the vault"
    /// The client wants to remove a header or the marker of a vault that the server follows.
    Stays 409 "stays" "headers and the marker of a vault cannot be removed"
    /// The account may not be used for now.
    Suspended 403 "suspended" "the account is suspended: ask the operator of the server"
    /// The server does not have this path.
    NoSuchPath 404 "no-such-path" "the server has nothing at this path"
    /// There is no object of that name.
    NoObject 404 "no-object" "there is no such object"
    /// The path does not have this method.
    NoSuchMethod 405 "no-such-method" "this method is not possible at this path"
    /// An account, a vault or an object cannot have that name.
    Name 400 "name" "this name is not allowed for an account, a vault or an object"
    /// A parameter of the request is not what it has to be.
    Parameter 400 "parameter" "a parameter of the request is missing or wrong"
    /// There is an object of that name.
    AlreadyThere 409 "already-there" "an object of that name already exists"
    /// A publication has another number than the next one.
    OutOfOrder 409 "out-of-order" "this is not the next publication"
    /// The newest publication is to be removed.
    NewestStays 409 "newest-stays" "the newest publication cannot be removed"
    /// The account keeps for some days what somebody asks to remove.
    Kept 409 "kept" "the account keeps what is to be removed for some days, as the operator of the server has set it: try again later"
    /// The request does not give the length of its content.
    NoLength 411 "no-length" "the request does not give its length"
    /// An object of that length is refused.
    TooLong 413 "too-long" "the object is longer than the server accepts"
    /// Fewer bytes came than the request announced.
    Length 400 "length" "the content ended early"
    /// The request does not give BLAKE3 of its content.
    NoHash 400 "no-hash" "the request does not give the hash of its content"
    /// The content has another hash than the request gives, or than is in the name of the object.
    Hash 400 "hash" "the content does not have the given hash"
    /// The requested part begins after the end of the object.
    Range 416 "range" "the object ends before the requested range"
    /// Nothing came for too long.
    Slow 408 "slow" "no data arrived for too long"
    /// Too much at once.
    Busy 503 "busy" "the server is overloaded"
    /// The database of the server is away.
    DatabaseAway 503 "database-away" "the server cannot reach its database for now"
    /// Where the server stores objects is away.
    ObjectsAway 503 "objects-away" "the server cannot reach its object store for now"
    /// The account has no bytes left.
    BytesUsed 507 "bytes-used" "the account has no space left for this: remove something, or ask the operator of the server for more"
    /// The account has no objects left.
    ObjectsUsed 507 "objects-used" "the account may have no more objects: remove something, or ask the operator of the server for more"
    /// The account has no vaults left.
    VaultsUsed 507 "vaults-used" "the account may have no more vaults"
    /// The disk of the server is full.
    DiskFull 507 "disk-full" "the disk of the server is full"
    /// The token is that of no address of the inbox, or not any more.
    NoAddress 401 "no-address" "this is not an address of an inbox, or it was withdrawn: ask the owner of the vault for a new one"
    /// More waits in the inbox already than may.
    InboxFull 507 "inbox-full" "the inbox has no room left: try again after the owner of the vault has synced a device"
    /// Too many deposits came by one address.
    TooMany 429 "too-many" "too many deposits in a short time: try again in a minute"
    /// Somebody makes too many requests.
    TooFast 429 "too-fast" "too many requests in a short time: try again in a moment"
    /// The server failed.
    Failed 500 "failed" "the server failed; its log says why"
}

impl Refusal {
    /// The status of an answer that refuses so.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.parts().0
    }

    /// How it is spelled in an answer.
    #[must_use]
    pub const fn code(self) -> &'static str {
        self.parts().1
    }

    /// A sentence for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.parts().2
    }

    /// Whether the same request may succeed a moment later.
    pub(crate) const fn is_passing(self) -> bool {
        use Refusal::{
            Busy, DatabaseAway, Failed, Hash, Length, ObjectsAway, Slow, TooFast, TooMany,
        };
        matches!(
            self,
            Busy | DatabaseAway | ObjectsAway | Slow | Failed | Length | Hash | TooFast | TooMany
        )
    }

    /// The document that says so.
    #[must_use]
    pub fn problem(self) -> Problem {
        Problem {
            kind: format!("urn:strongroom:problem:{}", self.code()),
            title: self.title().to_owned(),
            status: self.status(),
            code: self.code().to_owned(),
        }
    }

    /// The refusal that is spelled so.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.code() == code)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn every_refusal_has_a_code_of_its_own_and_comes_back_from_it() {
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::of_code(refusal.code()), Some(*refusal));
            assert!((400..600).contains(&refusal.status()), "{refusal:?}");
            let text = serde_json::to_string(&refusal.problem()).unwrap();
            let back: Problem = serde_json::from_str(&text).unwrap();
            assert_eq!(back, refusal.problem());
        }
        assert_eq!(Refusal::of_code("none"), None);
    }

    #[test]
    fn a_part_of_an_address_leads_nowhere_else() {
        for good in ["anna", "photos-2026", "a.b", "0"] {
            assert!(is_part(good), "{good}");
        }
        let long = "a".repeat(PART_BYTES_MAX + 1);
        for bad in ["", ".", "..", ".a", "a/b", "A", "a b", "ä", "%2e", &long] {
            assert!(!is_part(bad), "{bad}");
        }
    }
}

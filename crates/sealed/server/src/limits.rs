//! The bounds of this crate, except those that one file alone uses: they are at the head of that file.

use std::time::Duration;

/// The longest object, in bytes: a segment, with room for what is sealed around the longest publication.
pub const OBJECT_BYTES_MAX: u64 = 64 << 20;

/// Vaults of an account, at most.
pub const VAULTS_MAX: i64 = 1000;

/// Accounts of a server, at most: they are listed at once.
pub const ACCOUNTS_MAX: i64 = 1_000_000;

/// For how many days an account can keep what is to be removed.
pub const KEEP_DAYS_MAX: u32 = 36_500;

/// Requests of one caller in a second on average, unless the settings say another number. A device waits for answers, so that it makes some
/// hundred a second at most over a network; on the machine of the server some thousand, and not for long.
pub const REQUESTS_PER_SECOND: u32 = 1000;

/// So many seconds' requests a caller may make at once.
pub(crate) const REQUESTS_BURST: Duration = Duration::from_secs(60);

/// Callers whose requests are counted, less than 100 bytes each.
pub(crate) const CALLERS_MAX: usize = 131_072;

/// How often those are looked for that are not busy, at most.
pub(crate) const CALLERS_SWEPT: Duration = Duration::from_secs(1);

/// Objects that one account sends at a time, and objects that are sent to it at a time; further ones wait.
pub(crate) const TURNS_OF_ACCOUNT: usize = 32;

/// Objects that all accounts send at a time, and objects that are sent to them. Each takes a file and a piece of memory.
pub(crate) const TURNS: usize = 256;

/// How long a request waits for its turn to send an object, or to be sent one.
pub(crate) const TURN: Duration = Duration::from_secs(20);

/// What is read or written of an object at once, in bytes.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;

/// How long nothing may come of an object that is sent, or of a handshake or the head of a request.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);

/// So many bytes a second have to come of an object at least, beside a first `SILENCE`, and have to be taken of one: who sends or takes a
/// byte now and then holds up others.
pub(crate) const RATE_MIN: u64 = 8 * 1024;

/// How long who gets an answer may take nothing of it.
pub(crate) const UNREAD: Duration = Duration::from_secs(60);

/// Connections at a time; further ones wait until one ends.
pub(crate) const CONNECTIONS: usize = 16_384;

/// The head of a request, in bytes.
pub(crate) const HEAD_BYTES: usize = 16 * 1024;

/// A server that ends waits so long for requests that are under way.
pub(crate) const LAST_REQUESTS: Duration = Duration::from_secs(20);

/// Who follows publications gets a sign of life so often, so that no proxy takes the line for dead.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(20);

/// How long another process may hold the database.
pub(crate) const DATABASE_BUSY: Duration = Duration::from_secs(10);

/// Connections of an instance to PostgreSQL, unless its settings say another number.
pub(crate) const DATABASE_CONNECTIONS: usize = 16;

/// The most that settings may say.
pub(crate) const DATABASE_CONNECTIONS_MAX: usize = 1000;

/// How long a request waits for one of them.
pub(crate) const DATABASE_TURN: Duration = Duration::from_secs(5);

/// How long making one may take.
pub(crate) const DATABASE_CONNECT: Duration = Duration::from_secs(3);

/// How long PostgreSQL works on one statement of a request …
pub(crate) const DATABASE_STATEMENT: Duration = Duration::from_secs(10);

/// … and on one of an administrator, who looks at everything.
pub(crate) const DATABASE_UPKEEP: Duration = Duration::from_secs(3600);

/// How long a statement waits for a lock: changes of one account wait for one another.
pub(crate) const DATABASE_LOCK: Duration = Duration::from_secs(5);

/// How long a connection is silent before it is looked at whether the other end is there.
pub(crate) const DATABASE_IDLE: Duration = Duration::from_secs(10);

/// A database that could not be reached is not tried for so long.
pub(crate) const DATABASE_AWAY: Duration = Duration::from_secs(1);

/// How long after a broken connection for notifications the next one is made.
pub(crate) const HEAR_AGAIN: Duration = Duration::from_secs(1);

/// How often it is looked whether such a connection is there.
pub(crate) const HEARING: Duration = Duration::from_secs(20);

/// How long an object store may be silent, and how long a request to it is repeated.
pub(crate) const OBJECTS_SILENCE: Duration = Duration::from_secs(20);

/// How long an object store may take for its answer once it has all bytes of an object.
pub(crate) const OBJECTS_ANSWER: Duration = Duration::from_secs(30);

/// For how long an idle connection to an object store is used again for an upload, which cannot be repeated: stores end them after some
/// seconds.
pub(crate) const OBJECTS_IDLE: Duration = Duration::from_secs(4);

/// What came of an object is given on after that time, also if it is less than a piece: an object store ends uploads that rest.
pub(crate) const GIVE_ON: Duration = Duration::from_secs(5);

/// Whether an object store is there is asked once in that time, however often somebody wants to know …
pub(crate) const OBJECTS_LOOK: Duration = Duration::from_secs(5);

/// … and once in that time after it was not.
pub(crate) const OBJECTS_AWAY: Duration = Duration::from_secs(1);

/// How often a request to an object store is repeated.
pub(crate) const OBJECTS_RETRIES: usize = 2;

/// How long an address is good at which an object store takes one object: the slowest upload, and more.
pub(crate) const OBJECTS_PUT: Duration = Duration::from_secs(4 * 60 * 60);

/// Requests to an object store at a time by which one request, or an administrator, removes objects.
pub(crate) const OBJECTS_REMOVED: usize = 8;

/// After so many seconds without an end `gc` takes an upload for one that was cut off: longer than the slowest takes.
pub(crate) const UPLOAD_S_MAX: u64 = 6 * 60 * 60;

/// Ended logins and challenges that a new one removes.
pub(crate) const PASSED_AT_ONCE: usize = 64;

/// How often whoever waits for a gap between changes waits that long.
pub(crate) const TURN_TRIES: usize = 12;

/// A file with settings, in bytes.
pub(crate) const CONFIGURATION_BYTES_MAX: u64 = 1 << 20;

/// Problems that a check lists; it counts all of them.
pub(crate) const PROBLEMS_MAX: usize = 1000;

/// Random bytes of a token.
pub(crate) const TOKEN_RANDOM_BYTES: usize = 32;

/// How long a certificate that the server signs itself is good, in days. Who knows its fingerprint asks for no date.
pub(crate) const CERTIFICATE_DAYS: u32 = 3650;

/// How long a challenge can be answered.
pub(crate) const CHALLENGE: Duration = Duration::from_secs(60);

/// Challenges of an account that are open at a time; the oldest goes for a new one.
pub(crate) const CHALLENGES_OF_ACCOUNT: usize = 64;

/// Challenges of all accounts that are open at a time, about 200 bytes each.
pub(crate) const CHALLENGES: usize = 16_384;

/// How long a login is good.                                                                    [11.11.9]
pub(crate) const LOGIN: Duration = Duration::from_secs(15 * 60);

/// Logins of an account at a time: of each device several processes. The oldest goes for a new one.
pub(crate) const LOGINS_OF_ACCOUNT: usize = 1024;

/// Logins of all accounts at a time, about 300 bytes each.
pub(crate) const LOGINS: usize = 131_072;

/// Chains of members that one account has verified at a time, and all accounts: one takes up to a quarter of a second of a core, and
/// some megabytes.
pub(crate) const CHAINS_OF_ACCOUNT: usize = 1;
/// See `CHAINS_OF_ACCOUNT`.
pub(crate) const CHAINS: usize = 2;

/// Documents of logins that one account sends at a time, and all accounts: one has at most a mebibyte and a half.
pub(crate) const DOCUMENTS_OF_ACCOUNT: usize = 4;
/// See `DOCUMENTS_OF_ACCOUNT`.
pub(crate) const DOCUMENTS: usize = 64;

/// The newest headers among which the chain is looked for that a server notes first, as clients do.
pub(crate) const FIRST_HEADERS: usize = 4;

/// The longest marker, in bytes.
pub(crate) const MARKER_BYTES_MAX: u64 = 4096;

/// Bytes that wait in the inbox of a vault, at most.
pub(crate) const INBOX_BYTES_MAX: u64 = 4 << 30;

/// Objects that wait there, at most. They are counted whenever one comes.
pub(crate) const INBOX_OBJECTS_MAX: u64 = 8192;

/// Deposits that may come by one address at once …
pub(crate) const DEPOSITS_AT_ONCE: u64 = 60;

/// … and after how many seconds another one may, after that.
pub(crate) const DEPOSIT_EVERY_S: u64 = 6;

/// Pieces that may come by one address at once: a mebibyte each, so half of what may wait in an inbox, and twice the longest deposit …
pub(crate) const PIECES_AT_ONCE: u64 = 2048;

/// … and after how many seconds another one may, after that.
pub(crate) const PIECE_EVERY_S: u64 = 1;

/// Requests by addresses of the inboxes of one account that an instance carries out at a time, and of all accounts: so that depositors do
/// not hold up devices.
pub(crate) const DEPOSIT_TURNS_OF_ACCOUNT: usize = 8;
/// See `DEPOSIT_TURNS_OF_ACCOUNT`.
pub(crate) const DEPOSIT_TURNS: usize = 64;

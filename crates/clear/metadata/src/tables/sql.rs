//! Every SQL statement that an open store executes, by name, and how often each was executed. Not here: the schema
//! (`migrations.rs`), the settings of a connection (`store/connect.rs`), and the two checks of the whole database
//! (`integrity_check` in `reads.rs`).
//!
//! Takes   nothing
//! Gives   the text of a statement, and a counter for it
//! Never   builds SQL from values: everything variable is a parameter
//! Spec    spec/4-metadata.md, 4.4

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! statements {
    ($($name:ident = $text:expr;)*) => {
        /// A statement of the store; each is prepared once per connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Statement {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Statement {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The SQL.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

statements! {
    Begin = "BEGIN IMMEDIATE";
    Commit = "COMMIT";
    Savepoint = "SAVEPOINT mark";
    SavepointKeep = "RELEASE mark";
    SavepointRollBack = "ROLLBACK TO mark";
    SnapshotBegin = "BEGIN DEFERRED";
    SnapshotEnd = "ROLLBACK";
    CheckpointPassive = "PRAGMA wal_checkpoint(PASSIVE)";
    CheckpointRestart = "PRAGMA wal_checkpoint(RESTART)";
    CheckpointTruncate = "PRAGMA wal_checkpoint(TRUNCATE)";
    PageCount = "PRAGMA page_count";
    FreePageCount = "PRAGMA freelist_count";

    InodeGet = "SELECT id, birth, kind, mode, uid, gid, rdev, nlink, size, allocated, atime, mtime, ctime, btime, content_version, parent, reserved, target FROM inode WHERE id = ?1";
    InodeInsert = "INSERT INTO inode (id, birth, kind, mode, uid, gid, rdev, nlink, size, allocated, atime, mtime, ctime, btime, content_version, parent, reserved, target) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";
    InodeUpdate = "UPDATE inode SET birth = ?2, kind = ?3, mode = ?4, uid = ?5, gid = ?6, rdev = ?7, nlink = ?8, size = ?9, allocated = ?10, atime = ?11, mtime = ?12, ctime = ?13, btime = ?14, content_version = ?15, parent = ?16, reserved = ?17, target = ?18 WHERE id = ?1";
    InodeRemove = "DELETE FROM inode WHERE id = ?1";
    InodeGreatest = "SELECT max(id) FROM inode WHERE id <= ?1";
    InodeCount = "SELECT count(*) FROM inode";
    InodeAll = "SELECT id, birth, kind, mode, uid, gid, rdev, nlink, size, allocated, atime, mtime, ctime, btime, content_version, parent, reserved, target FROM inode";
    InodeFrom = "SELECT id FROM inode WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3";
    InodeOrphans = "SELECT id FROM inode INDEXED BY inode_orphan WHERE nlink = 0 AND id > ?1 ORDER BY id LIMIT ?2";

    EntryGet = "SELECT name, inode, kind, cookie FROM entry WHERE parent = ?1 AND name = ?2";
    EntryInsert = "INSERT INTO entry (parent, name, inode, kind, cookie) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (parent, name) DO NOTHING";
    EntryReplace = "UPDATE entry SET inode = ?3, kind = ?4 WHERE parent = ?1 AND name = ?2";
    EntryRemove = "DELETE FROM entry WHERE parent = ?1 AND name = ?2 RETURNING inode";
    EntryList = "SELECT name, inode, kind, cookie FROM entry INDEXED BY entry_order WHERE parent = ?1 AND cookie > ?2 ORDER BY cookie LIMIT ?3";
    EntryListInodes = "SELECT e.name, e.inode, e.kind, e.cookie, i.id, i.birth, i.kind, i.mode, i.uid, i.gid, i.rdev, i.nlink, i.size, i.allocated, i.atime, i.mtime, i.ctime, i.btime, i.content_version, i.parent, i.reserved, i.target FROM entry AS e INDEXED BY entry_order LEFT JOIN inode AS i ON i.id = e.inode WHERE e.parent = ?1 AND e.cookie > ?2 ORDER BY e.cookie LIMIT ?3";
    EntryAll = "SELECT name, inode, kind, cookie, parent FROM entry";
    EntryAny = "SELECT 1 FROM entry INDEXED BY entry_order WHERE parent = ?1 LIMIT 1";

    EntryNames = "SELECT parent, name FROM entry INDEXED BY entry_inode WHERE inode = ?1 AND (parent, name) > (?2, ?3) ORDER BY parent, name LIMIT ?4";

    XattrGet = "SELECT value FROM xattr WHERE inode = ?1 AND name = ?2";
    XattrPut = "INSERT INTO xattr (inode, name, value) VALUES (?1, ?2, ?3) ON CONFLICT (inode, name) DO UPDATE SET value = excluded.value";
    XattrRemove = "DELETE FROM xattr WHERE inode = ?1 AND name = ?2";
    XattrRemoveAll = "DELETE FROM xattr WHERE inode = ?1";
    XattrList = "SELECT name FROM xattr WHERE inode = ?1 ORDER BY name";
    XattrBytes = "SELECT coalesce(sum(length(name) + length(value) - 1), 0) FROM xattr WHERE inode = ?1";

    RegionGet = "SELECT data FROM extent WHERE inode = ?1 AND region = ?2";
    RegionPut = "INSERT INTO extent (inode, region, data) VALUES (?1, ?2, ?3) ON CONFLICT (inode, region) DO UPDATE SET data = excluded.data";
    RegionRemove = "DELETE FROM extent WHERE inode = ?1 AND region = ?2";
    RegionList = "SELECT region FROM extent WHERE inode = ?1 AND region >= ?2 ORDER BY region LIMIT ?3";
    RegionAll = "SELECT data, inode, region FROM extent";

    BlockGet = "SELECT number, id, clear_len, epoch, refs, segment, start, kind FROM block WHERE number = ?1";
    BlockRun = "SELECT number, id, clear_len, epoch, refs, segment, start, kind FROM block WHERE number BETWEEN ?1 AND ?2 ORDER BY number";
    BlockById = "SELECT number FROM block WHERE id = ?1";
    BlockInsert = "INSERT INTO block (number, id, clear_len, epoch, refs, segment, start, kind) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING";
    BlockCount = "UPDATE block SET refs = refs + ?2 WHERE number = ?1 AND refs + ?2 BETWEEN 0 AND 4294967295 RETURNING refs, clear_len, segment, kind";
    BlocksCountable = "SELECT count(*) FROM block WHERE number BETWEEN ?1 AND ?2 AND refs BETWEEN 1 AND 4294967294";
    BlocksShare = "UPDATE block SET refs = refs + 1 WHERE number BETWEEN ?1 AND ?2";
    BlockRemove = "DELETE FROM block WHERE number = ?1";
    BlockReplace = "UPDATE block SET segment = ?2, start = ?3, epoch = ?4, clear_len = ?5, kind = ?6 WHERE number = ?1";
    BlockMove = "UPDATE block SET segment = ?2, start = ?3, epoch = ?4 WHERE number = ?1";
    BlockAll = "SELECT b.number, b.id, b.clear_len, b.epoch, b.refs, b.segment, b.start, b.kind, length(w.bytes) - 1 FROM block AS b LEFT JOIN waiting AS w ON w.number = b.number";
    BlocksInSegment = "SELECT number, id, clear_len, epoch, refs, segment, start, kind FROM block INDEXED BY block_segment WHERE segment = ?1 AND number > ?2 ORDER BY number LIMIT ?3";

    WaitingGet = "SELECT bytes FROM waiting WHERE number = ?1";
    WaitingPut = "INSERT INTO waiting (number, bytes) VALUES (?1, ?2)";
    WaitingRemove = "DELETE FROM waiting WHERE number = ?1";
    WaitingList = "SELECT number, bytes FROM waiting WHERE number > ?1 ORDER BY number LIMIT ?2";
    WaitingNumbers = "SELECT number FROM waiting WHERE number > ?1 ORDER BY number LIMIT ?2";
    WaitingBytes = "SELECT coalesce(sum(length(bytes) - 1), 0) FROM waiting";

    SegmentList = "SELECT number, id, epoch, state, live_bytes, total_bytes, committed_len FROM segment ORDER BY number";
    SegmentGet = "SELECT number, id, epoch, state, live_bytes, total_bytes, committed_len FROM segment WHERE number = ?1";
    SegmentById = "SELECT number, id, epoch, state, live_bytes, total_bytes, committed_len FROM segment WHERE id = ?1";
    SegmentInsert = "INSERT INTO segment (number, id, epoch, state, live_bytes, total_bytes, committed_len) VALUES (?1, ?2, ?3, ?4, 0, 0, 0)";
    SegmentState = "UPDATE segment SET state = ?2 WHERE number = ?1";
    SegmentCommitted = "UPDATE segment SET committed_len = ?2 WHERE number = ?1";
    SegmentGrow = "UPDATE segment SET live_bytes = live_bytes + ?2, total_bytes = total_bytes + ?3 WHERE number = ?1 AND live_bytes + ?2 >= 0";
    SegmentRemove = "DELETE FROM segment WHERE number = ?1";

    HolePut = "INSERT INTO hole (inode, first, past) VALUES (?1, ?2, ?3) ON CONFLICT (inode, first) DO UPDATE SET past = excluded.past";
    HoleRemove = "DELETE FROM hole WHERE inode = ?1 AND first = ?2";
    HoleList = "SELECT inode, first, past FROM hole ORDER BY inode, first";

    ReservationPut = "INSERT INTO reservation (inode, bytes, ranges) VALUES (?1, ?2, ?3) ON CONFLICT (inode) DO UPDATE SET bytes = excluded.bytes, ranges = excluded.ranges";
    ReservationRemove = "DELETE FROM reservation WHERE inode = ?1";
    ReservationGet = "SELECT bytes, ranges FROM reservation WHERE inode = ?1";
    ReservationList = "SELECT inode, bytes FROM reservation ORDER BY inode";

    ChangedPut = "INSERT INTO changed (generation, inode, item, was) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (generation, inode, item) DO NOTHING";
    ChangedList = "SELECT inode, item, was FROM changed WHERE generation = ?1 AND (inode, item) > (?2, ?3) ORDER BY inode, item LIMIT ?4";
    ChangedOldest = "SELECT generation, inode, item FROM changed WHERE generation <= ?1 ORDER BY generation, inode, item LIMIT ?2";
    ChangedRemove = "DELETE FROM changed WHERE generation = ?1 AND inode = ?2 AND item = ?3";

    ReleasedPut = "INSERT INTO released (number) VALUES (?1) ON CONFLICT (number) DO NOTHING";
    ReleasedList = "SELECT number FROM released WHERE number > ?1 ORDER BY number LIMIT ?2";
    ReleasedRemove = "DELETE FROM released WHERE number = ?1";

    RevisionList = "SELECT number, id, root, taken, body FROM revision ORDER BY number";
    RevisionGet = "SELECT number, id, root, taken, body FROM revision WHERE id = ?1";
    RevisionInsert = "INSERT INTO revision (number, id, root, taken, body) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (id) DO NOTHING";
    RevisionRemove = "DELETE FROM revision WHERE number = ?1";
    RevisionGreatest = "SELECT max(number) FROM revision";

    HashPut = "INSERT INTO content_hash (inode, algorithm, version, hash) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (inode, algorithm) DO UPDATE SET version = excluded.version, hash = excluded.hash";
    HashGet = "SELECT inode, algorithm, version, hash FROM content_hash WHERE inode = ?1 AND algorithm = ?2";
    HashRemove = "DELETE FROM content_hash WHERE inode = ?1";
    HashList = "SELECT inode, algorithm, version, hash FROM content_hash INDEXED BY content_hash_order WHERE algorithm = ?1 AND (hash, inode) > (?2, ?3) AND hash <= ?4 ORDER BY hash, inode LIMIT ?5";
    HashMissing = "SELECT i.id, i.size FROM inode AS i LEFT JOIN content_hash AS h ON h.inode = i.id AND h.algorithm = ?2 WHERE i.id > ?1 AND i.kind = 1 AND i.nlink > 0 AND (h.version IS NULL OR h.version <> i.content_version) ORDER BY i.id LIMIT ?3";
    HashAll = "SELECT inode, algorithm, version, hash FROM content_hash";

    RemoteList = "SELECT number, name, id, state FROM remote ORDER BY number";
    RemotePut = "INSERT INTO remote (number, name, id, state) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (number) DO UPDATE SET name = excluded.name, id = excluded.id, state = excluded.state";
    RemoteRemove = "DELETE FROM remote WHERE number = ?1";

    PublishedGet = "SELECT hash, publication FROM published WHERE remote = ?1 AND item = ?2";
    PublishedList = "SELECT item, hash, publication FROM published WHERE remote = ?1 AND item > ?2 ORDER BY item LIMIT ?3";
    PublishedCount = "SELECT count(*) FROM published WHERE remote = ?1 AND hash <> zeroblob(32)";
    PublishedPut = "INSERT INTO published (remote, item, hash, publication) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (remote, item) DO UPDATE SET hash = excluded.hash, publication = excluded.publication";
    PublishedRemove = "DELETE FROM published WHERE remote = ?1 AND item = ?2";
    PublishedClear = "DELETE FROM published WHERE remote = ?1";

    SettingGet = "SELECT value FROM setting WHERE key = ?1";
    SettingPut = "INSERT INTO setting (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
}

/// How often each statement ran, over all connections of a store. Only ever rises.
#[derive(Debug)]
pub(crate) struct StatementCounts {
    counts: Vec<AtomicU64>,
}

impl StatementCounts {
    pub(crate) fn new() -> Self {
        Self {
            counts: Statement::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(crate) fn add(&self, statement: Statement) {
        self.counts[statement as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often `statement` ran.
    pub(crate) fn of(&self, statement: Statement) -> u64 {
        self.counts[statement as usize].load(Ordering::Relaxed)
    }

    /// How many statements ran in all.
    pub(crate) fn total(&self) -> u64 {
        self.counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }
}

//! The bytes of objects in an object store (S3), for several instances of a server.
//!
//! Takes   bytes, piece by piece
//! Gives   an object of the store under a random name
//! Never   makes a name from anything that a client sends, holds more than a few pieces of an object in memory, or shows a key or a signed
//!         address
//!
//! Invariants
//!  (1) Before the first byte of a file goes to the store, `coming` has the file (`ledger/shared.rs`). So if no table knows a file in the
//!      store, a lost answer or an older database left it there, and it is garbage.
//!  (2) The store gets the last piece of an object once all of it is known to be right, and takes it whole or not at all: one request, which
//!      states its length.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{
    ClientOptions, Error as StoreError, GetOptions, GetRange, GetResult, ObjectStore,
    ObjectStoreExt, RetryConfig,
};
use parking_lot::Mutex;
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Client, Method, Response, StatusCode};
use strongroom_remote::Address;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::files::Collecting;
use crate::ledger::shared::BACKUP;
use crate::ledger::{Found, Ledger};
use crate::limits::{
    DATABASE_CONNECT, DATABASE_TURN, OBJECTS_ANSWER, OBJECTS_AWAY, OBJECTS_IDLE, OBJECTS_LOOK,
    OBJECTS_PUT, OBJECTS_REMOVED, OBJECTS_RETRIES, OBJECTS_SILENCE,
};
use crate::outside::Outside;

/// Pieces of an object, as the store sends them.
pub(crate) type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// Files that are asked for, or removed, at once by who looks at all.
const AT_ONCE: usize = 1000;

/// What stores call it that they, or the bucket, have no space left, whatever the status: Ceph and others, and MinIO.
const FULL: [&str; 3] = [
    "QuotaExceeded",
    "XMinioAdminBucketQuotaExceeded",
    "XMinioStorageFull",
];

/// So much of the document of a refusal is looked at, in bytes.
const REFUSAL_BYTES_MAX: usize = 16 << 10;

/// A place in an object store.
pub(crate) struct Bucket {
    store: AmazonS3,
    below: Path,
    /// What sends objects: the crate of the store would want to have them whole in memory.
    sender: Client,
    outside: Arc<Outside>,
    ledger: Ledger,
    look: Mutex<Option<Look>>,
}

/// What the store answered when it was looked at last.
struct Look {
    at: Instant,
    /// Why it is away.
    away: Option<String>,
}

/// An object that is sent to the store. It is removed again when this is dropped, unless it was kept.
pub(crate) struct NewObject {
    pub(crate) id: FileId,
    bucket: Arc<Bucket>,
    /// The last piece that came.  (2)
    held: Bytes,
    pieces: Option<mpsc::Sender<io::Result<Bytes>>>,
    answer: Option<JoinHandle<Result<()>>>,
    is_kept: bool,
}

/// An object that is read by who may wait.
pub(crate) struct Reader {
    outside: Arc<Outside>,
    pieces: Pieces,
    rest: Bytes,
}

impl fmt::Debug for Bucket {
    /// Nothing of the store itself: it knows keys.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Bucket({})", self.below)
    }
}

impl fmt::Debug for NewObject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "NewObject({})", self.id)
    }
}

impl Bucket {
    /// The place at `address`. Nobody asks it yet.
    ///
    /// # Errors
    /// `Configuration` if that is no address of S3, or the environment says something that cannot be.
    pub(crate) fn new(address: &Address, outside: Arc<Outside>, ledger: Ledger) -> Result<Self> {
        let options = ClientOptions::new()
            .with_timeout_disabled()
            .with_connect_timeout(DATABASE_CONNECT)
            .with_read_timeout(OBJECTS_SILENCE);
        let Some((builder, below)) = address.s3(options) else {
            return Err(Error::Configuration(
                "`objects` has the form s3://BUCKET/PATH, as the URL of a remote".to_owned(),
            ));
        };
        let retry = RetryConfig {
            max_retries: OBJECTS_RETRIES,
            retry_timeout: OBJECTS_SILENCE,
            ..RetryConfig::default()
        };
        let refuse = |error: StoreError| Error::Configuration(innermost(&error));
        let store = builder.with_retry(retry);
        let sender = Client::builder()
            .connect_timeout(DATABASE_CONNECT)
            .pool_idle_timeout(OBJECTS_IDLE)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("strongroom-server/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            store: store.build().map_err(refuse)?,
            below: below.join("objects"),
            sender: sender.map_err(|error| Error::Configuration(error.to_string()))?,
            outside,
            ledger,
            look: Mutex::default(),
        })
    }

    fn path(&self, id: FileId) -> Path {
        self.below.clone().join(id.to_string().as_str())
    }

    /// A new object of so many bytes.
    pub(crate) fn begin(self: &Arc<Self>, len: u64) -> Result<NewObject> {
        let id = FileId::random()?;
        self.ledger.begin_file(id)?; // (1)
        let (pieces, came) = mpsc::channel(1);
        let answer = self.outside.begin(Arc::clone(self).put(id, len, came));
        Ok(NewObject {
            id,
            bucket: Arc::clone(self),
            held: Bytes::new(),
            pieces: Some(pieces),
            answer: Some(answer),
            is_kept: false,
        })
    }

    /// Sends what comes to the store, as one request.  (2)
    async fn put(
        self: Arc<Self>,
        id: FileId,
        len: u64,
        came: mpsc::Receiver<io::Result<Bytes>>,
    ) -> Result<()> {
        let path = self.path(id);
        let address = self.store.signed_url(Method::PUT, &path, OBJECTS_PUT);
        let address = address.await.map_err(|error| away(&error))?;
        let pieces = stream::unfold(came, |mut came| async move {
            let piece = came.recv().await?;
            Some((piece, came))
        });
        let request = self
            .sender
            .put(address)
            .header(CONTENT_LENGTH, len)
            .body(Body::wrap_stream(pieces));
        // Its text would have the address, which is signed.
        let said = |error: reqwest::Error| Error::ObjectsAway(innermost(&error.without_url()));
        let answer = request.send().await.map_err(said)?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(refused(answer).await),
        }
    }

    fn get(&self, id: FileId, range: Option<Range<u64>>) -> Result<Option<GetResult>> {
        let options = GetOptions {
            range: range.map(GetRange::Bounded),
            ..GetOptions::default()
        };
        let path = self.path(id);
        let answer = self.outside.wait(self.store.get_opts(&path, options));
        match answer {
            Err(StoreError::NotFound { .. }) => Ok(None),
            answer => answer.map(Some).map_err(|error| away(&error)),
        }
    }

    /// A part of an object; `None` if it is gone.
    ///
    /// # Errors
    /// `Lost` if the store has another one than the database says.
    pub(crate) fn pieces(&self, found: &Found, part: Range<u64>) -> Result<Option<Pieces>> {
        if part.is_empty() {
            return Ok(Some(stream::empty().boxed()));
        }
        let is_whole = part == (0..found.len);
        let asked = (!is_whole).then(|| part.clone());
        let Some(answer) = self.get(found.file, asked)? else {
            return Ok(None);
        };
        match answer.meta.size == found.len && answer.range == part {
            true => Ok(Some(pieces_of(answer))),
            false => Err(Error::Lost(found.file.to_string())),
        }
    }

    /// An object, and its length; `None` if there is none.
    pub(crate) fn reader(&self, id: FileId) -> Result<Option<(u64, Reader)>> {
        let Some(answer) = self.get(id, None)? else {
            return Ok(None);
        };
        let len = answer.meta.size;
        let reader = Reader {
            outside: Arc::clone(&self.outside),
            pieces: pieces_of(answer),
            rest: Bytes::new(),
        };
        Ok(Some((len, reader)))
    }

    /// The length of an object; `None` if there is none.
    pub(crate) fn len(&self, id: FileId) -> Result<Option<u64>> {
        let path = self.path(id);
        match self.outside.wait(self.store.head(&path)) {
            Err(StoreError::NotFound { .. }) => Ok(None),
            found => found
                .map(|found| Some(found.size))
                .map_err(|error| away(&error)),
        }
    }

    /// Removes objects that no row refers to, and then what is noted of them.
    ///
    /// # Errors
    /// `ObjectsAway`, `DatabaseAway`: what was not removed stays noted.
    pub(crate) fn remove(&self, ids: &[FileId]) -> Result<()> {
        let removed: Vec<Result<FileId>> = self.outside.wait(async {
            let each = stream::iter(ids.iter().copied()).map(|id| async move {
                let path = self.path(id);
                match self.store.delete(&path).await {
                    Ok(()) | Err(StoreError::NotFound { .. }) => Ok(id),
                    Err(error) => Err(away(&error)),
                }
            });
            each.buffer_unordered(OBJECTS_REMOVED).collect().await
        });
        removed
            .into_iter()
            .try_for_each(|id| self.ledger.forget_file(id?))
    }

    /// Refuses while the store is away, or has no such bucket. However often this is called, the store is asked once in `OBJECTS_LOOK`, or
    /// in `OBJECTS_AWAY` while it is away.
    pub(crate) fn check_usable(&self) -> Result<()> {
        // Whoever calls meanwhile waits for the same answer.
        let mut look = self.look.lock();
        let is_over = |look: &Look| {
            let good = match look.away {
                None => OBJECTS_LOOK,
                Some(_) => OBJECTS_AWAY,
            };
            look.at.elapsed() >= good
        };
        if look.as_ref().is_none_or(is_over) {
            let away = self.away_now();
            let at = Instant::now();
            *look = Some(Look { at, away });
        }
        match look.as_ref().and_then(|look| look.away.clone()) {
            None => Ok(()),
            Some(why) => Err(Error::ObjectsAway(why)),
        }
    }

    /// Asks the store whether it is there; gives why not.
    fn away_now(&self) -> Option<String> {
        // No file has this name, and a list of nothing is short. To a question for one object, a store without the bucket answers as one
        // without the object.
        let nothing = self.below.clone().join("ready");
        let mut listed = self.store.list(Some(&nothing));
        let asked = async { tokio::time::timeout(DATABASE_TURN, listed.next()).await };
        match self.outside.wait(asked) {
            Ok(None | Some(Ok(_))) => None,
            Ok(Some(Err(error))) => Some(innermost(&error)),
            Err(_) => Some("it does not answer".to_owned()),
        }
    }

    /// Removes, or counts, what no object has: of uploads that began so many seconds ago and did not end, of removals, and what no table
    /// knows, as an older database leaves it that was put back. Gives how many files, and their bytes.
    ///
    /// # Errors
    /// `BackupRunning` if they are to be removed; a backup may need them.
    pub(crate) fn collect(&self, collecting: Collecting, after_s: u64) -> Result<(u64, u64)> {
        match collecting {
            Collecting::Count => {
                let (files, bytes) = self.each_garbage(&mut |_| Ok(()))?;
                Ok((files + self.ledger.late_uploads(after_s)?, bytes))
            }
            Collecting::Remove => {
                // No backup begins meanwhile.
                let freeing = self.ledger.share(BACKUP)?.ok_or(Error::BackupRunning)?;
                self.ledger.give_up_uploads(after_s)?;
                // What was found while the lock was held is in no backup that begins after it was lost.
                let found = self.each_garbage(&mut |ids| match freeing.is_still_held()? {
                    true => self.remove(ids),
                    false => Err(Error::BackupRunning),
                });
                drop(freeing);
                found
            }
        }
    }

    /// Calls `each` with ids of files that no object has; gives how many there are, and their bytes.
    fn each_garbage(&self, each: &mut dyn FnMut(&[FileId]) -> Result<()>) -> Result<(u64, u64)> {
        let (mut files, mut bytes) = (0, 0);
        let mut after = Vec::new();
        loop {
            let some = self.ledger.going_after(&after, AT_ONCE)?;
            let Some(last) = some.last() else { break };
            after = last.bytes().to_vec();
            for id in &some {
                // It may never have come.
                if let Some(len) = self.len(*id)? {
                    files += 1;
                    bytes += len;
                }
            }
            each(&some)?;
        }
        let mut listed = self.store.list(Some(&self.below)).chunks(AT_ONCE);
        while let Some(some) = self.outside.wait(listed.next()) {
            let mut found = Vec::new();
            for object in some {
                let object = object.map_err(|error| away(&error))?;
                // Somebody else's objects are left alone.
                let id = object.location.filename().and_then(FileId::parse);
                let id = id.filter(|id| self.path(*id) == object.location);
                found.extend(id.map(|id| (id, object.size)));
            }
            let ids: Vec<FileId> = found.iter().map(|(id, _)| *id).collect();
            // Each was in the store before its row is looked for.  (1)
            let unknown = self.ledger.unknown_files(&ids)?;
            for (_, len) in found.iter().filter(|(id, _)| unknown.contains(id)) {
                files += 1;
                bytes += len;
            }
            each(&unknown)?;
        }
        Ok((files, bytes))
    }
}

fn pieces_of(answer: GetResult) -> Pieces {
    answer
        .into_stream()
        .map(|piece| piece.map_err(|error| io::Error::other(innermost(&error))))
        .boxed()
}

impl NewObject {
    pub(crate) fn write(&mut self, piece: &[u8]) -> Result<()> {
        if piece.is_empty() {
            return Ok(());
        }
        let held = std::mem::replace(&mut self.held, Bytes::copy_from_slice(piece));
        self.send(held)
    }

    fn send(&mut self, piece: Bytes) -> Result<()> {
        let Some(pieces) = self.pieces.as_ref().filter(|_| !piece.is_empty()) else {
            return Ok(());
        };
        let sent = async { tokio::time::timeout(OBJECTS_SILENCE, pieces.send(Ok(piece))).await };
        match self.bucket.outside.wait(sent) {
            Ok(Ok(())) => Ok(()),
            // The request has ended before its body, and says why.
            Ok(Err(_)) => self.answered(),
            Err(_) => Err(Error::ObjectsAway("it takes no bytes".to_owned())),
        }
    }

    /// Sends the last piece, and waits until the store has all of them.  (2)
    pub(crate) fn finish(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        self.send(held)?;
        self.pieces = None;
        self.answered()
    }

    /// What the store says, once.
    fn answered(&mut self) -> Result<()> {
        let silent = |why: &str| Err(Error::ObjectsAway(why.to_owned()));
        let Some(mut answer) = self.answer.take() else {
            return silent("it has ended the upload");
        };
        let answered = async { tokio::time::timeout(OBJECTS_ANSWER, &mut answer).await };
        match self.bucket.outside.wait(answered) {
            Ok(Ok(answer)) if self.pieces.is_none() => answer,
            Ok(Ok(Err(error))) => Err(error),
            Ok(_) => silent("it answered before it had all bytes"),
            Err(_) => {
                answer.abort();
                silent("it does not answer")
            }
        }
    }

    /// It stays: the database has it, or may have it.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewObject {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Some(answer) = self.answer.take() {
            answer.abort();
        }
        let (id, bucket) = (self.id, Arc::clone(&self.bucket));
        // Nobody may wait here. What cannot be removed now stays noted, and `gc` removes it.
        self.bucket.outside.apart(move || {
            let _ = bucket.remove(&[id]);
        });
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.outside.wait(self.pieces.next()) {
                Some(piece) => self.rest = piece?,
                None => return Ok(0),
            }
        }
        let len = self.rest.len().min(into.len());
        into[..len].copy_from_slice(&self.rest.split_to(len));
        Ok(len)
    }
}

fn away(error: &StoreError) -> Error {
    Error::ObjectsAway(innermost(error))
}

/// Why a store does not take an upload.
async fn refused(mut answer: Response) -> Error {
    let status = answer.status();
    // To come again soon helps nobody.
    if status == StatusCode::INSUFFICIENT_STORAGE {
        return Error::ObjectsFull;
    }
    let mut document = Vec::new();
    while document.len() < REFUSAL_BYTES_MAX
        && let Ok(Some(piece)) = answer.chunk().await
    {
        let left = REFUSAL_BYTES_MAX - document.len();
        document.extend_from_slice(&piece[..piece.len().min(left)]);
    }
    if says_full(&String::from_utf8_lossy(&document)) {
        return Error::ObjectsFull;
    }
    let status = status.as_u16();
    Error::ObjectsAway(format!("it answers an upload with the status {status}"))
}

/// Whether the document of a refusal names one of `FULL` as its error.
fn says_full(document: &str) -> bool {
    let begun = document.split_once("<Code>").map(|(_, rest)| rest);
    let code = begun.and_then(|rest| rest.split_once("</Code>"));
    code.is_some_and(|(code, _)| FULL.contains(&code.trim()))
}

/// What failed, from the inside out: the innermost text says most, and has no address with a key. An answer of a store may be a page: its
/// first line says what it is about.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    let words = inner.to_string();
    words
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(300)
        .collect()
}

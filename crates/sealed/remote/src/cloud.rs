//! A remote in an object store, through the crate `object_store`.
//!
//! Takes   a store of that crate, and the path in it below which the objects are stored
//! Gives   blocking calls, for threads
//! Never   keeps more of an answer than was asked for
//!
//! Requests run on one thread of their own; the caller waits for the answer.

use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use object_store::{
    Error as StoreError, GetOptions, GetRange, GetResult, ObjectStore, ObjectStoreExt, PutMode,
    PutOptions, PutPayload, PutResult,
};
use tokio::runtime::{Builder, Runtime};

use crate::buffers::Buffer;
use crate::error::{Error, Result};
use crate::lanes::{Carried, Extent, Lanes, Patience};
use crate::limits::LISTED_MAX;
use crate::object_name::{ObjectName, is_object};
use crate::remote::{Created, Listed, Remote};
use crate::upload::Sent;

/// The longest name of an error, in bytes.
const CODE_BYTES_MAX: usize = 64;

/// What S3 calls an upload that is too slow, with the status 400.
const TOO_SLOW: &str = "RequestTimeout";

/// What S3 calls an upload beside which another request creates or deletes the same object, with the status 409.
const CONTESTED: &str = "ConditionalRequestConflict";

/// A path in an object store, and what runs the requests.
pub(crate) struct Cloud {
    store: Box<dyn ObjectStore>,
    below: Path,
    up: Lanes,
    down: Lanes,
    runtime: Runtime,
}

impl fmt::Debug for Cloud {
    /// Nothing of the store itself: it knows credentials.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Cloud({})", self.below)
    }
}

impl Cloud {
    pub(crate) fn new(store: Box<dyn ObjectStore>, below: Path) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("remote")
            .enable_all()
            .build()?;
        Ok(Self {
            store,
            below,
            up: Lanes::default(),
            down: Lanes::default(),
            runtime,
        })
    }

    fn path(&self, name: &ObjectName) -> Path {
        let (kind, last) = name.split();
        let folder = match kind {
            Some(kind) => self.below.clone().join(kind),
            None => self.below.clone(),
        };
        folder.join(last)
    }

    fn wait<T>(&self, answer: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        self.runtime.block_on(answer).map_err(explain)
    }

    /// Creates an object. A name that is contested is tried again: what took it may be gone a moment later, or never have been there.
    fn put(&self, name: &ObjectName, bytes: Bytes) -> Result<Created> {
        let path = self.path(name);
        let mut patience = Patience::new(Instant::now(), self.up.progress());
        loop {
            let error = match self.put_once(&path, &bytes) {
                Ok(_) => return Ok(Created::New),
                Err(error) => error,
            };
            match &error {
                StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }
                    if !is_contested(&error) || self.has(name)? =>
                {
                    return Ok(Created::AlreadyThere);
                }
                StoreError::AlreadyExists { .. } => {
                    match patience.pause(Instant::now(), self.up.progress(), Duration::ZERO) {
                        Some(pause) => thread::sleep(pause),
                        None => return Err(explain(error)),
                    }
                }
                StoreError::NotImplemented { .. } | StoreError::NotSupported { .. } => {
                    return Err(Error::NoCreateOnly(words_of(&error)));
                }
                _ => return Err(explain(error)),
            }
        }
    }

    fn put_once(&self, path: &Path, bytes: &Bytes) -> object_store::Result<PutResult> {
        // If it was created although the answer was lost, it is there already.
        self.runtime
            .block_on(often(&self.up, Extent::Object, async || {
                let sent = Sent::default();
                let mut options = PutOptions::from(PutMode::Create);
                options.extensions.insert(sent.clone());
                let payload = PutPayload::from(bytes.clone());
                let put = self.store.put_opts(path, payload, options).await;
                let carried = match &put {
                    Ok(_) => Carried::Whole,
                    Err(error) if sent.has_begun() && is_cut(error) => Carried::Part,
                    Err(_) => Carried::Unknown,
                };
                (put, carried)
            }))
    }

    /// Bytes of an object, at most `bytes_max` and one more if it has more, and where in it they begin; `None` if there is none.
    fn get(
        &self,
        name: &ObjectName,
        range: Option<GetRange>,
        bytes_max: u64,
    ) -> Result<Option<(u64, Vec<u8>)>> {
        let options = GetOptions {
            range,
            ..GetOptions::default()
        };
        let path = self.path(name);
        let extent = Extent::of(options.range.as_ref());
        let got = often(&self.down, extent, async || {
            let answer = match self.store.get_opts(&path, options.clone()).await {
                Ok(answer) => answer,
                Err(error) => return (Err(error), Carried::Unknown),
            };
            let came = collect(answer, bytes_max).await;
            let carried = Carried::of_came(&came);
            (came, carried)
        });
        match self.runtime.block_on(got) {
            Err(StoreError::NotFound { .. }) => Ok(None),
            got => got.map(Some).map_err(explain),
        }
    }
}

impl Remote for Cloud {
    fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<Created> {
        self.put(name, bytes.into())
    }

    fn create_from(&self, name: &ObjectName, buffer: Buffer) -> Result<Created> {
        self.put(name, Bytes::from_owner(buffer))
    }

    fn read(&self, name: &ObjectName, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let Some((_, bytes)) = self.get(name, None, bytes_max)? else {
            return Ok(None);
        };
        match bytes.len() as u64 > bytes_max {
            true => Err(Error::TooLong {
                name: name.to_string(),
                max: bytes_max,
            }),
            false => Ok(Some(bytes)),
        }
    }

    fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Result<Option<Vec<u8>>> {
        let wanted = range.end.saturating_sub(range.start);
        let part = Some(GetRange::Bounded(range.clone()));
        let Some((start, mut bytes)) = self.get(name, part, wanted)? else {
            return Ok(None);
        };
        // A store may answer with the whole object: that is another range than the one that was asked for.
        if start != range.start {
            return Err(Error::Other(format!(
                "the remote returned another part of {name} than was requested"
            )));
        }
        bytes.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        Ok(Some(bytes))
    }

    fn has(&self, name: &ObjectName) -> Result<bool> {
        let path = self.path(name);
        match self.runtime.block_on(self.store.head(&path)) {
            Err(StoreError::NotFound { .. }) => Ok(false),
            answer => answer.map(|_| true).map_err(explain),
        }
    }

    fn list(&self, kind: &str) -> Result<Vec<Listed>> {
        self.list_behind(kind, "")
    }

    fn list_behind(&self, kind: &str, after: &str) -> Result<Vec<Listed>> {
        let below = self.below.clone().join(kind);
        self.wait(async {
            let mut found = match after {
                "" => self.store.list(Some(&below)),
                _ => (self.store).list_with_offset(Some(&below), &below.clone().join(after)),
            };
            let (mut all, mut came) = (Vec::new(), 0);
            while let Some(object) = found.try_next().await? {
                if came == LISTED_MAX {
                    return Err(too_many(kind));
                }
                came += 1;
                let name = right_below(&below, &object.location);
                // A place may begin with `after` itself, or know no such beginning.
                let is_meant = |name: &String| name.as_str() > after && is_object(kind, name);
                if let Some(name) = name.filter(is_meant) {
                    all.push(Listed {
                        name,
                        len: object.size,
                        created_s: u64::try_from(object.last_modified.timestamp()).unwrap_or(0),
                        kept_until_s: 0,
                    });
                }
            }
            Ok(all)
        })
    }

    fn remove(&self, name: &ObjectName) -> Result<()> {
        let path = self.path(name);
        match self.runtime.block_on(self.store.delete(&path)) {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(explain(error)),
        }
    }
}

/// Does `attempt`, which says how the line carried so much, in one of `lanes`, and again if the line broke off.
async fn often<T>(
    lanes: &Lanes,
    extent: Extent,
    attempt: impl AsyncFn() -> (object_store::Result<T>, Carried),
) -> object_store::Result<T> {
    let mut patience = Patience::new(Instant::now(), lanes.progress());
    loop {
        let lane = lanes.take(extent).await;
        let (done, carried) = attempt().await;
        lane.end(carried);
        let error = match (done, carried) {
            (Err(error), Carried::Part) => error,
            // What did not begin at all was tried often enough by the crate.
            (done, _) => return done,
        };
        match patience.pause(Instant::now(), lanes.progress(), Duration::ZERO) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(error),
        }
    }
}

/// At most `bytes_max` bytes of an answer, and one more if it has more; and where they begin.
async fn collect(answer: GetResult, bytes_max: u64) -> object_store::Result<(u64, Vec<u8>)> {
    let start = answer.range.start;
    let said = answer.range.end.saturating_sub(start);
    let mut pieces = answer.into_stream();
    // A buffer that grows takes up to three times as much meanwhile.
    let mut bytes = Vec::with_capacity(usize::try_from(said.min(bytes_max)).unwrap_or(0));
    while let Some(piece) = pieces.try_next().await? {
        let left = bytes_max.saturating_add(1) - bytes.len() as u64;
        let len = usize::try_from(left).map_or(piece.len(), |left| piece.len().min(left));
        bytes.extend_from_slice(&piece[..len]);
        if len < piece.len() || bytes.len() as u64 > bytes_max {
            break;
        }
    }
    Ok((start, bytes))
}

/// The name of what lies right below `below`; `None` for what lies deeper, which is somebody else's: a store lists that, too.
fn right_below(below: &Path, location: &Path) -> Option<String> {
    let mut parts = location.prefix_match(below)?;
    let name = parts.next()?.as_ref().to_owned();
    parts.next().is_none().then_some(name)
}

/// What failed, from the inside out: the innermost text says most, and holds no URL with a credential.
fn words_of(error: &StoreError) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        words = inner.to_string();
        source = inner.source();
    }
    // An answer of a server may be a page; the first line says what it is about.
    words
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(300)
        .collect()
}

/// Of no kind that passes when the command is run again.
fn too_many(kind: &str) -> StoreError {
    let source = format!("too many {kind}: over {LISTED_MAX}").into();
    StoreError::NotSupported { source }
}

/// The error of a store, by who can do something about it.
pub(crate) fn explain(error: StoreError) -> Error {
    let code = code_of(&error);
    if let Some(named) = code.as_deref().and_then(explain_code) {
        return named;
    }
    // The name says more than the document around it.
    let words = code.unwrap_or_else(|| words_of(&error));
    match &error {
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
            Error::Refused(words)
        }
        StoreError::NotImplemented { .. } | StoreError::NotSupported { .. } => Error::Other(words),
        StoreError::Generic { .. } => match status_of(&error) {
            // Insufficient storage.
            Some(507) => Error::Full,
            Some(401 | 403) => Error::Refused(words),
            Some(400..500) => Error::Other(words),
            _ => Error::Unreachable(words),
        },
        _ => Error::Other(words),
    }
}

/// Whether an upload failed because the line broke off, or was too slow.
fn is_cut(error: &StoreError) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(inner) = inner.downcast_ref::<HttpError>() {
            let kind = inner.kind();
            return matches!(kind, HttpErrorKind::Timeout | HttpErrorKind::Interrupted);
        }
        source = inner.source();
    }
    code_of(error).as_deref() == Some(TOO_SLOW)
}

/// Whether all that a store said by "it exists" is that another request works on that name: S3 does while one creates or deletes the
/// object (409), and its end is open. That the condition of the request failed (412) is the proof that an object is there.
fn is_contested(error: &StoreError) -> bool {
    let StoreError::AlreadyExists { source, .. } = error else {
        return false;
    };
    !matches!(
        source.downcast_ref(),
        Some(StoreError::Precondition { .. } | StoreError::NotModified { .. })
    )
}

/// What a store means by the name of an error, where its status says something else or nothing.
fn explain_code(code: &str) -> Option<Error> {
    let refused = |why: &str| Some(Error::Refused(format!("{why} ({code})")));
    match code {
        "ExpiredToken" | "ExpiredTokenException" | "InvalidToken" | "TokenRefreshRequired" => {
            refused("the credentials are no longer valid")
        }
        "RequestTimeTooSkewed" => {
            refused("its clock and the clock of this machine differ too much")
        }
        CONTESTED => Some(Error::Unreachable(format!(
            "other requests created or deleted the same object there for too long ({code})"
        ))),
        TOO_SLOW => Some(Error::Unreachable(format!(
            "no data arrived there for too long ({code})"
        ))),
        "QuotaExceeded" | "XMinioAdminBucketQuotaExceeded" => Some(Error::Quota(format!(
            "the quota at the remote is used up ({code})"
        ))),
        _ => None,
    }
}

/// The name of the error in the document that a store answered with; `None` if there is none, or it is no plain word.
fn code_of(error: &StoreError) -> Option<String> {
    let mut source = error.source();
    while let Some(inner) = source {
        let text = inner.to_string();
        let begun = text.split_once("<Code>").map(|(_, rest)| rest);
        if let Some((code, _)) = begun.and_then(|rest| rest.split_once("</Code>")) {
            let is_plain = code.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let is_code = is_plain && (1..=CODE_BYTES_MAX).contains(&code.len());
            return is_code.then(|| code.to_owned());
        }
        source = inner.source();
    }
    None
}

/// The HTTP status that an error is about, from its text: the crate keeps the type to itself.
fn status_of(error: &StoreError) -> Option<u16> {
    let mut source = error.source();
    while let Some(inner) = source {
        let text = inner.to_string();
        if let Some((_, status)) = text.split_once("non-2xx status code: ") {
            let digits = status.chars().take_while(char::is_ascii_digit);
            return digits.collect::<String>().parse().ok();
        }
        source = inner.source();
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    /// Failed before: `segments/x/1` was listed as `segments/1`.
    #[test]
    fn a_listing_has_only_what_lies_right_below_its_kind() {
        let store = object_store::memory::InMemory::new();
        let remote = Cloud::new(Box::new(store), Path::from("vault")).unwrap();
        for path in ["vault/segments/2", "vault/segments/x/1", "vault/segments"] {
            let path = Path::from(path);
            let put = remote.store.put(&path, PutPayload::new());
            remote.wait(put).unwrap();
        }
        let listed = remote.list("segments").unwrap();
        let names: Vec<_> = listed.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["2"]);
    }

    #[test]
    fn a_listing_that_is_too_long_is_no_remote_out_of_reach() {
        let error = explain(too_many("segments"));
        assert!(!error.is_passing());
        assert_eq!(
            error.to_string(),
            format!("too many segments: over {LISTED_MAX}")
        );
    }
}

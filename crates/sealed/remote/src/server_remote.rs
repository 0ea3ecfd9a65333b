//! A remote on a Strongroom server, or on another server with the same protocol.
//!
//! Takes   the address of the server, the account and the vault there, and a token
//! Gives   blocking calls, for threads
//! Never   shows the token, follows a redirect of the server, or shows the server's texts: refusals have texts of their own here
//! Spec    docs/adr/0035-a-server-of-our-own.md; the requests: `protocol.rs`
//!
//! Requests run on one thread of their own; the caller waits for the answer.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderValue, RANGE,
};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};
use url::Url;

use crate::buffers::Buffer;
use crate::error::{Error, Result};
use crate::limits::{
    ANSWER_BYTES_MAX, CONNECT, LISTED_MAX, LOOK_WHILE_WAITING, RATE_MIN, RETRIES, RETRY,
    RETRY_FIRST, SILENCE,
};
use crate::object_name::{ObjectName, is_object};
use crate::pinned::{self, Fingerprint};
use crate::protocol::{HASH_HEADER, Newest, Page, REFUSAL_HEADER, Refusal, VERSION, WAIT_S_MAX};
use crate::remote::{Created, Listed, Remote, Waited};
use crate::upload::Sent;

/// A vault at a server, and what runs the requests.
pub(crate) struct ServerRemote {
    client: Client,
    /// Ends with the vault and a slash.
    base: Url,
    token: HeaderValue,
    runtime: Runtime,
}

impl fmt::Debug for ServerRemote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ServerRemote({})", self.base)
    }
}

/// Why a request gave nothing.
enum Failure {
    /// The same may succeed soon.
    Passing(Error),
    /// The server says why it refuses.
    Refused(Refusal),
    /// Nothing else comes of it.
    Final(Error),
}

type Tried<T> = std::result::Result<T, Failure>;

impl ServerRemote {
    /// The vault at `path`, which is ACCOUNT/VAULT, of the server at `server`, which has neither user nor path.
    pub(crate) fn new(
        server: &Url,
        path: &str,
        token: &str,
        fingerprint: Option<Fingerprint>,
    ) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("remote")
            .enable_all()
            .build()?;
        let cannot = |_| Error::Address("the URL names no server".to_owned());
        let base = server.join(&format!("{VERSION}/vaults/{path}/"));
        let mut token = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::Address("the token in the URL is invalid".to_owned()))?;
        token.set_sensitive(true);
        let mut client = Client::builder()
            .connect_timeout(CONNECT)
            // Sooner than the server, so that none is used that is just being closed.
            .pool_idle_timeout(SILENCE / 2)
            .http1_only()
            .redirect(Policy::none())
            .user_agent(concat!("strongroom/", env!("CARGO_PKG_VERSION")));
        if server.scheme() == "http" {
            // In clear it stays on this machine.
            client = client.no_proxy();
        }
        if let Some(fingerprint) = fingerprint {
            let only =
                pinned::only(fingerprint).map_err(|error| Error::Other(error.to_string()))?;
            client = client.tls_backend_preconfigured(only);
        }
        let client = client.build();
        Ok(Self {
            client: client.map_err(|error| Error::Other(words_of(&error)))?,
            base: base.map_err(cannot)?,
            token,
            runtime,
        })
    }

    fn object(&self, method: Method, name: &ObjectName) -> RequestBuilder {
        self.request(method, &format!("objects/{name}"), &[])
    }

    fn request(&self, method: Method, below: &str, query: &[(&str, &str)]) -> RequestBuilder {
        // Names of objects are plain, so that nothing leads elsewhere.
        let mut url = self.base.join(below).unwrap_or_else(|_| self.base.clone());
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.client.request(method, url);
        request.header(AUTHORIZATION, self.token.clone())
    }

    /// Does `attempt` until it does not fail for a passing reason, or often and long enough.
    fn persist<T>(&self, attempt: impl AsyncFn() -> Tried<T>) -> std::result::Result<T, Stop> {
        self.runtime.block_on(async {
            let begun = Instant::now();
            let mut pause = RETRY_FIRST;
            for last in 0..=RETRIES {
                match attempt().await {
                    Ok(done) => return Ok(done),
                    Err(Failure::Refused(refusal)) => return Err(Stop::Refused(refusal)),
                    Err(Failure::Final(error)) => return Err(Stop::Error(error)),
                    Err(Failure::Passing(error)) => {
                        if last == RETRIES || begun.elapsed() + pause > RETRY {
                            return Err(Stop::Error(error));
                        }
                    }
                }
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(Stop::Error(Error::Unreachable("it does not answer".into())))
        })
    }

    /// The answer to a request without a body, or why there is none.
    async fn answer(&self, request: RequestBuilder) -> Tried<Response> {
        let answer = match tokio::time::timeout(CONNECT + SILENCE, request.send()).await {
            Ok(answer) => answer.map_err(passing)?,
            Err(_) => return Err(silent()),
        };
        refused(answer)
    }

    fn put(&self, name: &ObjectName, bytes: &Bytes) -> Result<Created> {
        let hash = blake3::hash(bytes).to_hex();
        let created = self.persist(async || {
            let sent = Sent::default();
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
            let request = self
                .object(Method::PUT, name)
                .headers(headers)
                .header(HASH_HEADER, hash.as_str())
                .body(sent.body_of(bytes.clone()));
            let answer = sent.while_moving(request.send(), SILENCE, RATE_MIN).await;
            refused(answer.ok_or_else(silent)?.map_err(passing)?)
        });
        match created {
            Ok(_) => Ok(Created::New),
            Err(Stop::Refused(Refusal::AlreadyThere)) => Ok(Created::AlreadyThere),
            Err(stop) => Err(stop.into()),
        }
    }

    /// Bytes of an object, at most `bytes_max` and one more if it has more.
    fn get(
        &self,
        name: &ObjectName,
        range: Option<Range<u64>>,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>> {
        let got = self.persist(async || {
            let mut request = self.object(Method::GET, name);
            if let Some(range) = &range {
                let last = range.end.saturating_sub(1);
                request = request.header(RANGE, format!("bytes={}-{last}", range.start));
            }
            let answer = self.answer(request).await?;
            if let Some(range) = &range
                && first_byte(&answer) != Some(range.start)
            {
                let text = format!("the remote returned another part of {name} than was requested");
                return Err(Failure::Final(Error::Other(text)));
            }
            collect(answer, bytes_max).await
        });
        match got {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Stop::Refused(Refusal::NoObject)) => Ok(None),
            Err(Stop::Refused(Refusal::Range)) => Ok(Some(Vec::new())),
            Err(stop) => Err(stop.into()),
        }
    }

    fn page(&self, kind: &str, after: &str) -> Result<Page> {
        let page = self.persist(async || {
            let query = [("kind", kind), ("after", after)];
            let request = self.request(Method::GET, "objects", &query);
            document(self.answer(request).await?).await
        });
        Ok(page?)
    }
}

/// Why a request was given up.
enum Stop {
    Refused(Refusal),
    Error(Error),
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Self {
        let refusal = match stop {
            Stop::Error(error) => return error,
            Stop::Refused(refusal) => refusal,
        };
        let title = refusal.title().to_owned();
        match refusal {
            Refusal::NoToken | Refusal::WrongToken | Refusal::OtherAccount | Refusal::Suspended => {
                Self::Refused(title)
            }
            Refusal::BytesUsed | Refusal::ObjectsUsed | Refusal::VaultsUsed => Self::Quota(title),
            Refusal::DiskFull => Self::Full,
            Refusal::Busy | Refusal::Slow | Refusal::Failed | Refusal::Length | Refusal::Hash => {
                Self::Unreachable(title)
            }
            _ => Self::Other(title),
        }
    }
}

impl Remote for ServerRemote {
    fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<Created> {
        self.put(name, &Bytes::from(bytes))
    }

    fn create_from(&self, name: &ObjectName, buffer: Buffer) -> Result<Created> {
        self.put(name, &Bytes::from_owner(buffer))
    }

    fn read(&self, name: &ObjectName, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        match self.get(name, None, bytes_max)? {
            Some(bytes) if bytes.len() as u64 > bytes_max => Err(Error::TooLong {
                name: name.to_string(),
                max: bytes_max,
            }),
            read => Ok(read),
        }
    }

    fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Result<Option<Vec<u8>>> {
        let wanted = range.end.saturating_sub(range.start);
        if wanted == 0 {
            return Ok(self.has(name)?.then(Vec::new));
        }
        let mut bytes = self.get(name, Some(range), wanted)?;
        if let Some(bytes) = &mut bytes {
            bytes.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        }
        Ok(bytes)
    }

    fn has(&self, name: &ObjectName) -> Result<bool> {
        let found = self.persist(async || {
            let request = self.object(Method::HEAD, name);
            self.answer(request).await
        });
        match found {
            Ok(_) => Ok(true),
            Err(Stop::Refused(Refusal::NoObject)) => Ok(false),
            Err(stop) => Err(stop.into()),
        }
    }

    fn list(&self, kind: &str) -> Result<Vec<Listed>> {
        self.list_behind(kind, "")
    }

    fn list_behind(&self, kind: &str, after: &str) -> Result<Vec<Listed>> {
        let mut listing = Listing {
            after: after.to_owned(),
            ..Listing::default()
        };
        loop {
            let page = self.page(kind, &listing.after)?;
            if !listing.take(kind, page, LISTED_MAX)? {
                return Ok(listing.all);
            }
        }
    }

    fn remove(&self, name: &ObjectName) -> Result<()> {
        let removed = self.persist(async || {
            let request = self.object(Method::DELETE, name);
            self.answer(request).await
        });
        match removed {
            Ok(_) | Err(Stop::Refused(Refusal::NoObject)) => Ok(()),
            Err(stop) => Err(stop.into()),
        }
    }

    fn wait_behind(&self, last: u64, go_on: &dyn Fn() -> bool) -> Result<Waited> {
        let (after, wait) = (last.to_string(), WAIT_S_MAX.to_string());
        let query = [("after", &*after), ("wait", &*wait)];
        let request = self.request(Method::GET, "publications", &query);
        self.runtime.block_on(async {
            let asked = async {
                let longest = CONNECT + SILENCE + Duration::from_secs(WAIT_S_MAX);
                let answer = tokio::time::timeout(longest, request.send()).await;
                let answer = answer.map_err(|_| silent())?.map_err(passing)?;
                document::<Newest>(refused(answer)?).await
            };
            let mut asked = std::pin::pin!(asked);
            loop {
                match tokio::time::timeout(LOOK_WHILE_WAITING, &mut asked).await {
                    Ok(Ok(newest)) if newest.last > last => {
                        return Ok(Waited::Published(newest.last));
                    }
                    Ok(Ok(_)) => return Ok(Waited::Nothing),
                    Ok(Err(failure)) => return Err(failure.into_error()),
                    Err(_) if go_on() => {}
                    Err(_) => return Ok(Waited::Nothing),
                }
            }
        })
    }
}

/// A listing, as far as it came.
#[derive(Default)]
struct Listing {
    all: Vec<Listed>,
    /// Names that came, also those that are no objects.
    came: usize,
    /// The last of them, or what comes before the first.
    after: String,
}

impl Listing {
    /// Takes the next page; gives whether there are more. Whatever a server says, `names_max` names are the end of it.
    fn take(&mut self, kind: &str, page: Page, names_max: usize) -> Result<bool> {
        if page.more && page.objects.is_empty() {
            let text = "the remote says that it has more names, and lists none";
            return Err(Error::Other(text.to_owned()));
        }
        for object in page.objects {
            if object.name <= self.after {
                return Err(Error::Other("the remote lists names out of order".into()));
            }
            if self.came == names_max {
                return Err(Error::Other(format!("too many {kind}: over {names_max}")));
            }
            self.came += 1;
            self.after.clone_from(&object.name);
            if is_object(kind, &object.name) {
                self.all.push(Listed {
                    name: object.name,
                    len: object.len,
                    created_s: object.created_s,
                });
            }
        }
        Ok(page.more)
    }
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Self::Passing(error) | Self::Final(error) => error,
            Self::Refused(refusal) => Stop::Refused(refusal).into(),
        }
    }
}

/// The answer, if it is none that refuses.
fn refused(answer: Response) -> Tried<Response> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let code = answer.headers().get(REFUSAL_HEADER);
    let refusal = code
        .and_then(|code| code.to_str().ok())
        .and_then(Refusal::of_code);
    let refusal = match (refusal, status) {
        (Some(refusal), _) => refusal,
        // Of a proxy.
        (None, StatusCode::UNAUTHORIZED) => Refusal::WrongToken,
        (None, StatusCode::INSUFFICIENT_STORAGE) => Refusal::DiskFull,
        (None, StatusCode::RANGE_NOT_SATISFIABLE) => Refusal::Range,
        (None, _) => {
            let text = format!("it answered with status {}", status.as_u16());
            let is_passing = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
            return Err(match is_passing {
                true => Failure::Passing(Error::Unreachable(text)),
                false => Failure::Final(Error::Other(format!(
                    "this is not a Strongroom server: {text}"
                ))),
            });
        }
    };
    match refusal {
        Refusal::Busy | Refusal::Slow | Refusal::Failed | Refusal::Length | Refusal::Hash => {
            Err(Failure::Passing(Stop::Refused(refusal).into()))
        }
        refusal => Err(Failure::Refused(refusal)),
    }
}

/// The first byte of the object that an answer has.
fn first_byte(answer: &Response) -> Option<u64> {
    if answer.status() != StatusCode::PARTIAL_CONTENT {
        return Some(0);
    }
    let range = answer.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    let (first, _) = range.strip_prefix("bytes ")?.split_once('-')?;
    first.parse().ok()
}

/// At most `bytes_max` bytes of an answer, and one more if it has more.
async fn collect(mut answer: Response, bytes_max: u64) -> Tried<Vec<u8>> {
    let said = answer.content_length().unwrap_or(0);
    // A buffer that grows takes up to three times as much meanwhile.
    let mut bytes = Vec::with_capacity(usize::try_from(said.min(bytes_max)).unwrap_or(0));
    loop {
        let piece = tokio::time::timeout(SILENCE, answer.chunk()).await;
        let Some(piece) = piece.map_err(|_| silent())?.map_err(passing)? else {
            return Ok(bytes);
        };
        let left = bytes_max.saturating_add(1) - bytes.len() as u64;
        let len = usize::try_from(left).map_or(piece.len(), |left| piece.len().min(left));
        bytes.extend_from_slice(&piece[..len]);
        if bytes.len() as u64 > bytes_max {
            return Ok(bytes);
        }
    }
}

/// The document that an answer is.
async fn document<T: DeserializeOwned>(answer: Response) -> Tried<T> {
    let bytes = collect(answer, ANSWER_BYTES_MAX).await?;
    serde_json::from_slice(&bytes).map_err(|_| {
        let text = "the answer is not from a Strongroom server".to_owned();
        Failure::Final(Error::Other(text))
    })
}

fn silent() -> Failure {
    Failure::Passing(Error::Unreachable("it does not answer in time".into()))
}

fn passing(error: reqwest::Error) -> Failure {
    let words = words_of(&error);
    // Another certificate stays another one.
    if words.contains("certificate") {
        let text = format!("it is not the expected server: {words}");
        return Failure::Final(Error::Refused(text));
    }
    Failure::Passing(Error::Unreachable(words))
}

/// What failed, from the inside out: the innermost text says most, and holds no URL.
fn words_of(error: &reqwest::Error) -> String {
    let mut words = String::from("the request failed");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        words = inner.to_string();
        source = inner.source();
    }
    let first = words.lines().next().unwrap_or_default();
    first
        .chars()
        .filter(|one| !one.is_control())
        .take(300)
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::protocol::PageObject;

    fn page(names: &[&str], more: bool) -> Page {
        let object = |name: &&str| PageObject {
            name: (*name).to_owned(),
            len: 1,
            created_s: 0,
        };
        let objects = names.iter().map(object).collect();
        Page { objects, more }
    }

    /// Goal: no server makes a listing endless, or its names unbounded. Failed before: a page without a name was asked for again and again,
    /// and names that are no objects did not count.
    #[test]
    fn a_listing_ends_whatever_the_server_says() {
        let mut listing = Listing::default();
        assert!(listing.take("a", page(&["1", "X"], true), 3).unwrap());
        let error = listing.take("a", page(&[], true), 3).unwrap_err();
        assert!(error.to_string().contains("lists none"), "{error}");
        let error = listing.take("a", page(&["X"], true), 3).unwrap_err();
        assert!(error.to_string().contains("out of order"), "{error}");
        assert!(!listing.take("a", page(&["Y"], false), 3).unwrap());
        let error = listing.take("a", page(&["Z"], false), 3).unwrap_err();
        assert!(error.to_string().contains("too many a: over 3"), "{error}");
        let names: Vec<_> = listing.all.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["1"]);
    }
}

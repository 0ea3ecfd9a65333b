//! A remote on a Strongroom server, or on another server with the same protocol.
//!
//! Takes   the address of the server, the account and the vault there, and a token; the signer of logins
//!         (`server_login.rs`)
//! Gives   blocking calls, for threads
//! Never   shows a token, follows a redirect of the server, or shows the server's texts: refusals have texts of their own here
//! Spec    docs/adr/0035-a-server-of-our-own.md; the requests: `protocol.rs`
//!
//! Requests run on one thread of their own; the caller waits for the answer.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};
use url::Url;

use crate::buffers::Buffer;
use crate::error::{Error, Result};
use crate::lanes::{Carried, Extent, Lanes, Patience};
use crate::limits::{
    ANSWER_BYTES_MAX, CONNECT, LISTED_MAX, LOGINS, LOOK_WHILE_WAITING, RATE_MIN, SILENCE,
};
use crate::listing::Listing;
use crate::login::{ChallengeDocument, LoginDocument, PassDocument, Signer};
use crate::object_name::ObjectName;
use crate::pinned::{self, Fingerprint};
use crate::protocol::{HASH_HEADER, Newest, Page, REFUSAL_HEADER, Refusal, VERSION, WAIT_S_MAX};
use crate::remote::{Created, Listed, Remote, Waited};
use crate::response::{first_byte, retry_after, words_of};
use crate::server_login::{Asks, Login, NoLogin, name_of};
use crate::upload::Sent;

/// A vault at a server, and what runs the requests.
pub(crate) struct ServerRemote {
    client: Client,
    /// Ends with the vault and a slash.
    base: Url,
    login: Login,
    up: Lanes,
    down: Lanes,
    runtime: Runtime,
}

/// How often a request is made.
#[derive(Clone, Copy)]
enum Way<'w> {
    /// Again after a passing failure, while patience with what goes in those lanes lasts.
    Persisting(&'w Lanes),
    /// Once, and for no longer than this says.
    Once(&'w dyn Fn() -> bool),
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
    /// The same may succeed after that time, which the server says.
    Later(Error, Duration),
    /// The server says why it refuses.
    Refused(Refusal),
    /// Nothing else comes of it.
    Final(Error),
}

type Tried<T> = std::result::Result<T, Failure>;
type Done<T> = std::result::Result<T, Stop>;

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
        let login = Login::new(name_of(server, fingerprint), path, token)?;
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
            login,
            up: Lanes::default(),
            down: Lanes::default(),
            runtime,
        })
    }

    fn object(&self, pass: &HeaderValue, method: Method, name: &ObjectName) -> RequestBuilder {
        self.request(pass, method, &format!("objects/{name}"), &[])
    }

    /// A request that shows `pass`.
    fn request(
        &self,
        pass: &HeaderValue,
        method: Method,
        below: &str,
        query: &[(&str, &str)],
    ) -> RequestBuilder {
        // Names of objects are plain, so that nothing leads elsewhere.
        let mut url = self.base.join(below).unwrap_or_else(|_| self.base.clone());
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.client.request(method, url);
        request.header(AUTHORIZATION, pass.clone())
    }

    /// Does `attempt`, which shows what it is given, until it does not fail for a passing reason, or often and long enough.
    fn persist<T>(
        &self,
        lanes: &Lanes,
        attempt: impl AsyncFn(&HeaderValue) -> Tried<T>,
    ) -> Done<T> {
        self.logged_in(Way::Persisting(lanes), attempt)
    }

    /// Does `attempt` with what the server wants to see: logs in first if somebody can, and again if that has ended.
    fn logged_in<T>(
        &self,
        way: Way<'_>,
        attempt: impl AsyncFn(&HeaderValue) -> Tried<T>,
    ) -> Done<T> {
        let asking = Asking { remote: self, way };
        let mut logins = 0;
        loop {
            // Not in the runtime: who signs may ask another process.
            let pass = self.login.pass(&asking)?;
            match self.run(way, async || attempt(&pass).await) {
                Err(Stop::Refused(refusal))
                    if logins < LOGINS && self.login.is_over(&pass, refusal) =>
                {
                    logins += 1;
                }
                done => return done,
            }
        }
    }

    /// Does `attempt` in that way.
    fn run<T>(&self, way: Way<'_>, attempt: impl AsyncFn() -> Tried<T>) -> Done<T> {
        match way {
            Way::Persisting(lanes) => self.run_often(lanes, attempt),
            Way::Once(go_on) => match self.runtime.block_on(while_wanted(attempt(), go_on)) {
                None => Err(Stop::Unwanted),
                Some(tried) => tried.map_err(Failure::into_stop),
            },
        }
    }

    /// Does `attempt` until it does not fail for a passing reason, or often and long enough.
    fn run_often<T>(&self, lanes: &Lanes, attempt: impl AsyncFn() -> Tried<T>) -> Done<T> {
        self.runtime.block_on(async {
            let mut patience = Patience::new(Instant::now(), lanes.progress());
            loop {
                let (error, least) = match attempt().await {
                    Ok(done) => return Ok(done),
                    Err(Failure::Refused(refusal)) => return Err(Stop::Refused(refusal)),
                    Err(Failure::Final(error)) => return Err(Stop::Error(error)),
                    Err(Failure::Passing(error)) => (error, Duration::ZERO),
                    Err(Failure::Later(error, after)) => (error, after),
                };
                match patience.pause(Instant::now(), lanes.progress(), least) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(Stop::Error(error)),
                }
            }
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
        let created = self.put_at(&format!("objects/{name}"), bytes)?;
        if created == Created::New && name.split().0 == Some("headers") {
            self.login.ask_again();
        }
        Ok(created)
    }

    /// Creates what is at that path below the vault.
    pub(crate) fn put_at(&self, below: &str, bytes: &Bytes) -> Result<Created> {
        let hash = blake3::hash(bytes).to_hex();
        let created = self.persist(&self.up, async |pass| {
            let lane = self.up.take(Extent::Object).await;
            let sent = Sent::default();
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
            let request = self
                .request(pass, Method::PUT, below, &[])
                .headers(headers)
                .header(HASH_HEADER, hash.as_str())
                .body(sent.body_of(bytes.clone()));
            let answer = sent.while_moving(request.send(), SILENCE, RATE_MIN).await;
            let answer = answer.ok_or_else(silent);
            let answer = answer.and_then(|answer| answer.map_err(passing));
            let status = answer.as_ref().ok().map(Response::status);
            lane.end(Carried::of(status, &sent));
            refused(answer?)
        });
        match created {
            Ok(_) => Ok(Created::New),
            Err(Stop::Refused(Refusal::AlreadyThere)) => Ok(Created::AlreadyThere),
            Err(stop) => Err(stop.into()),
        }
    }

    /// What is at that path below the vault: at most `bytes_max` bytes, and one more if it has more.
    pub(crate) fn read_at(&self, below: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let read = self.persist(&self.down, async |pass| {
            let request = self.request(pass, Method::GET, below, &[]);
            collect(self.answer(request).await?, bytes_max).await
        });
        Ok(read?)
    }

    /// Bytes of an object, at most `bytes_max` and one more if it has more.
    fn get(
        &self,
        name: &ObjectName,
        range: Option<Range<u64>>,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>> {
        let got = self.persist(&self.down, async |pass| {
            let lane = self.down.take(Extent::of(range.as_ref())).await;
            let mut request = self.object(pass, Method::GET, name);
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
            let came = collect(answer, bytes_max).await;
            lane.end(Carried::of_came(&came));
            came
        });
        match got {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Stop::Refused(Refusal::NoObject)) => Ok(None),
            Err(Stop::Refused(Refusal::Range)) => Ok(Some(Vec::new())),
            Err(stop) => Err(stop.into()),
        }
    }

    fn page(&self, kind: &str, after: &str) -> Result<Page> {
        let page = self.persist(&self.down, async |pass| {
            let query = [("kind", kind), ("after", after)];
            let request = self.request(pass, Method::GET, "objects", &query);
            document(self.answer(request).await?).await
        });
        Ok(page?)
    }
}

/// Why a request was given up.
enum Stop {
    Refused(Refusal),
    Error(Error),
    /// Nobody wants to wait any more.
    Unwanted,
}

impl From<NoLogin> for Stop {
    fn from(no_login: NoLogin) -> Self {
        match no_login {
            NoLogin::Refused(refusal) => Self::Refused(refusal),
            NoLogin::Error(error) => Self::Error(error),
            NoLogin::Unwanted => Self::Unwanted,
        }
    }
}

impl From<Stop> for NoLogin {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Refused(refusal) => Self::Refused(refusal),
            Stop::Error(error) => Self::Error(error),
            Stop::Unwanted => Self::Unwanted,
        }
    }
}

/// A server that is asked for a login in that way.
struct Asking<'a> {
    remote: &'a ServerRemote,
    way: Way<'a>,
}

impl Asks for Asking<'_> {
    fn challenge(&self) -> std::result::Result<ChallengeDocument, NoLogin> {
        let Self { remote, way } = self;
        let challenge = remote.run(*way, async || {
            let request = remote.request(remote.login.of_account(), Method::POST, "challenge", &[]);
            document(remote.answer(request).await?).await
        });
        Ok(challenge?)
    }

    fn log_in(&self, login: &LoginDocument) -> std::result::Result<PassDocument, NoLogin> {
        let Self { remote, way } = self;
        let text = serde_json::to_vec(login).map_err(|_| {
            let text = "the login cannot be written as JSON".to_owned();
            NoLogin::Error(Error::Other(text))
        })?;
        let body = Bytes::from(text);
        let pass = remote.run(*way, async || {
            let request = remote
                .request(remote.login.of_account(), Method::POST, "login", &[])
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone());
            document(remote.answer(request).await?).await
        });
        Ok(pass?)
    }
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Self {
        let refusal = match stop {
            Stop::Error(error) => return error,
            Stop::Refused(refusal) => refusal,
            Stop::Unwanted => return Error::Unreachable("nobody waits for it".to_owned()),
        };
        let title = refusal.title().to_owned();
        match refusal {
            Refusal::NoToken
            | Refusal::WrongToken
            | Refusal::OtherAccount
            | Refusal::Suspended
            | Refusal::LoginNeeded
            | Refusal::LoginOver
            | Refusal::WrongLogin
            | Refusal::OtherVault
            | Refusal::OtherServer
            | Refusal::OnlyDevices
            | Refusal::NoAddress => Self::Refused(title),
            Refusal::DeviceRemoved => Self::DeviceRemoved,
            // Its records end elsewhere, or it was added beside what the server has noted.
            Refusal::OtherMembers | Refusal::NotMember => Self::OtherMembers,
            Refusal::BytesUsed
            | Refusal::ObjectsUsed
            | Refusal::VaultsUsed
            | Refusal::InboxFull => Self::Quota(title),
            Refusal::DiskFull => Self::Full,
            Refusal::Kept => Self::Kept,
            refusal if refusal.is_passing() => Self::Unreachable(title),
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
        let found = self.persist(&self.down, async |pass| {
            let request = self.object(pass, Method::HEAD, name);
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
        let mut listing = Listing::behind(after);
        loop {
            let page = self.page(kind, &listing.after)?;
            if !listing.take(kind, page, LISTED_MAX)? {
                return Ok(listing.all);
            }
        }
    }

    fn remove(&self, name: &ObjectName) -> Result<()> {
        let removed = self.persist(&self.down, async |pass| {
            let request = self.object(pass, Method::DELETE, name);
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
        let asked = self.logged_in(Way::Once(go_on), async |pass| {
            let request = self.request(pass, Method::GET, "publications", &query);
            let longest = CONNECT + SILENCE + Duration::from_secs(WAIT_S_MAX);
            let answer = tokio::time::timeout(longest, request.send()).await;
            let answer = answer.map_err(|_| silent())?.map_err(passing)?;
            document::<Newest>(refused(answer)?).await
        });
        match asked {
            Ok(newest) if newest.last > last => Ok(Waited::Published(newest.last)),
            Ok(_) | Err(Stop::Unwanted) => Ok(Waited::Nothing),
            Err(stop) => Err(stop.into()),
        }
    }

    fn sign_with(&self, signer: Arc<dyn Signer>) {
        self.login.sign_with(signer);
    }
}

/// What `asked` gives; `None` once `go_on` says no.
async fn while_wanted<T>(asked: impl Future<Output = T>, go_on: &dyn Fn() -> bool) -> Option<T> {
    let mut asked = std::pin::pin!(asked);
    loop {
        match tokio::time::timeout(LOOK_WHILE_WAITING, &mut asked).await {
            Ok(done) => return Some(done),
            Err(_) if go_on() => {}
            Err(_) => return None,
        }
    }
}

impl Failure {
    fn into_stop(self) -> Stop {
        match self {
            Self::Passing(error) | Self::Later(error, _) | Self::Final(error) => Stop::Error(error),
            Self::Refused(refusal) => Stop::Refused(refusal),
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
                true => for_now(Error::Unreachable(text), &answer),
                false => Failure::Final(Error::Other(format!(
                    "this is not a Strongroom server: {text}"
                ))),
            });
        }
    };
    Err(match refusal.is_passing() {
        true => for_now(Stop::Refused(refusal).into(), &answer),
        false => Failure::Refused(refusal),
    })
}

/// What failed for now. Of too many requests the server says when to come again.
fn for_now(error: Error, answer: &Response) -> Failure {
    match retry_after(answer) {
        Some(after) if answer.status() == StatusCode::TOO_MANY_REQUESTS => {
            Failure::Later(error, after)
        }
        _ => Failure::Passing(error),
    }
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

//! The handlers of the requests in `operations.rs`, which also names the refusals of each.
//!
//! Takes   requests
//! Gives   answers
//! Never   acts without the token of the account in the path or of a login there, except for the health pages and `/v1/what-we-see`
//!
//! Blocking work runs on threads of its own: nothing here waits for a disk.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{MatchedPath, Path, RawQuery, Request, State};
use axum::http::header::{
    ACCEPT_RANGES, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use strongroom_remote::ObjectName;
use strongroom_remote::login::{ChallengeDocument, LoginDocument, PassDocument, encoded};
use strongroom_remote::protocol::{
    LOGIN_BYTES_MAX, Newest, REFUSAL_HEADER, Refusal, WAIT_S_MAX, is_part,
};
use tokio::sync::watch;

use crate::answers::{Refused, document};
use crate::authority::{Asked, Authority};
use crate::download::{bytes_of, range_of};
use crate::error::Error;
use crate::followers::Followers;
use crate::ledger::Found;
use crate::limits::{
    CHAINS, CHAINS_OF_ACCOUNT, CHALLENGE, DEPOSIT_TURNS, DEPOSIT_TURNS_OF_ACCOUNT, DOCUMENTS,
    DOCUMENTS_OF_ACCOUNT, LOGIN, SIGN_OF_LIFE, TURNS, TURNS_OF_ACCOUNT,
};
use crate::login::At;
use crate::logins::LoggedIn;
use crate::metrics::{Metrics, Moment};
use crate::names::Names;
use crate::objects::Incoming;
use crate::operations::{Operation, of_route};
use crate::request_log;
use crate::request_rates::{Caller, RequestRates};
use crate::rights::{Deed, Kind};
use crate::store::{Opened, Store, is_header};
use crate::turns::Turns;
use crate::upload::{Said, Upload, apart, whole};

/// What answers requests.
pub(crate) struct App {
    pub(crate) store: Arc<Store>,
    pub(crate) followers: Arc<Followers>,
    uploads: Turns,
    downloads: Turns,
    /// To send the document of a login, and to have a chain of members verified.
    documents: Turns,
    chains: Turns,
    /// For whoever has an address of an inbox.
    pub(crate) deposits: Turns,
    authority: Authority,
    pub(crate) rates: Arc<RequestRates>,
    names: Names,
    /// True once the server ends.
    ending: watch::Receiver<bool>,
    requests: AtomicU64,
    pub(crate) metrics: Arc<Metrics>,
}

/// The peer of a connection, and the account that it turned out to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

#[derive(Clone, Debug)]
struct Name(String);

/// The form of `/metrics`.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) type Answer = Result<Response, Refused>;

impl App {
    pub(crate) fn new(
        store: Store,
        names: Names,
        rates: RequestRates,
        ending: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let (store, rates) = (Arc::new(store), Arc::new(rates));
        Arc::new(Self {
            authority: Authority::new(Arc::clone(&store), Arc::clone(&rates)),
            rates,
            store,
            followers: Arc::default(),
            uploads: Turns::new(TURNS_OF_ACCOUNT, TURNS),
            downloads: Turns::new(TURNS_OF_ACCOUNT, TURNS),
            documents: Turns::new(DOCUMENTS_OF_ACCOUNT, DOCUMENTS),
            chains: Turns::new(CHAINS_OF_ACCOUNT, CHAINS),
            deposits: Turns::new(DEPOSIT_TURNS_OF_ACCOUNT, DEPOSIT_TURNS),
            names,
            ending,
            requests: AtomicU64::new(0),
            metrics: Arc::new(Metrics::new()),
        })
    }

    /// Requests that were begun.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Creates an object of what came, and lets those hear of it who follow the vault. It blocks.
    fn create(&self, by: &Asked, name: &ObjectName, incoming: Incoming) -> Result<(), Error> {
        let len = incoming.len();
        let last = self.store.create((&by.key, &by.by), name, incoming)?;
        self.metrics.received(len);
        if name.split().0 == Some("publications") {
            self.followers.publish(&by.key, last);
        }
        Ok(())
    }
}

/// Writes a line for every request.
pub(crate) async fn log(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    app.requests.fetch_add(1, Ordering::Relaxed);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let route = route.as_ref().map_or("", |route| route.as_str());
    let mut answer = match bounded(&app, route, peer, request, next).await {
        Ok(answer) => answer,
        Err(refusal) => Refused(refusal).into_response(),
    };
    let is_refused = answer.status().is_client_error() || answer.status().is_server_error();
    if is_refused && !answer.headers().contains_key(REFUSAL_HEADER) {
        // A path that is no text, for which no handler was asked.
        let refusal = match answer.status().is_client_error() {
            true => Refusal::Name,
            false => Refusal::Failed,
        };
        answer = Refused(refusal).into_response();
    }
    let (method, status) = (method.as_str(), answer.status().as_u16());
    app.metrics.answered(method, route, status, begun.elapsed());
    request_log::answered(&request_log::Line {
        method,
        route,
        status,
        peer,
        account: answer.extensions().get::<Name>().map(|name| &*name.0),
        ms: request_log::millis(begun.elapsed()),
    });
    answer
}

/// The answer to a request at that route. One that shows no valid token counts for the address from which it comes.
///
/// # Errors
/// `TooFast`.
async fn bounded(
    app: &App,
    route: &str,
    peer: Option<SocketAddr>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let operation = of_route(route);
    let is_bounded = operation.is_none_or(Operation::is_bounded);
    let Some(caller) = peer
        .filter(|_| is_bounded)
        .map(|peer| Caller::at(peer.ip()))
    else {
        return Ok(next.run(request).await);
    };
    let shows_token = operation.is_some_and(Operation::needs_token)
        && request.headers().contains_key(AUTHORIZATION);
    if !shows_token {
        app.rates.take(caller, Instant::now())?;
    }
    let answer = next.run(request).await;
    let refusal = shows_token.then(|| refusal_of(&answer)).flatten();
    if refusal.is_some_and(is_to_a_stranger) {
        let taken = app.rates.take(caller, Instant::now());
        // A device has to hear that, to log in again, whatever others do from the address of its proxy.
        if refusal != Some(Refusal::LoginOver) {
            taken?;
        }
    }
    Ok(answer)
}

/// Why an answer refuses, if it does.
fn refusal_of(answer: &Response) -> Option<Refusal> {
    let code = answer.headers().get(REFUSAL_HEADER)?;
    Refusal::of_code(code.to_str().ok()?)
}

/// Whether that refuses somebody whose token was no valid one of the account in the path: nobody else is counted for the request.
const fn is_to_a_stranger(refusal: Refusal) -> bool {
    use Refusal::{LoginOver, NoAddress, NoToken, OtherAccount, Suspended, WrongToken};
    matches!(
        refusal,
        LoginOver | NoAddress | NoToken | OtherAccount | Suspended | WrongToken
    )
}

pub(crate) async fn ready(State(app): State<Arc<App>>) -> Answer {
    let store = Arc::clone(&app.store);
    apart(move || store.check_usable()).await?;
    match *app.ending.borrow() {
        false => Ok("ready\n".into_response()),
        true => Err(Refusal::Busy.into()),
    }
}

pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Answer {
    let store = Arc::clone(&app.store);
    let totals = apart(move || store.ledger.totals()).await?;
    let moment = Moment {
        followers: app.followers.count(),
        uploads: app.uploads.taken() + app.deposits.taken(),
        downloads: app.downloads.taken(),
        totals,
    };
    let text = app.metrics.text(moment).map_err(|_| Refusal::Failed)?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

/// What an account has, for who asks about their own.
#[derive(Serialize)]
struct AccountDocument {
    name: String,
    bytes: u64,
    objects: u64,
    bytes_max: Option<u64>,
    objects_max: Option<u64>,
    keep_days: u64,
}

pub(crate) async fn account(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let account = app.authority.authorise(&headers, &name).await?.account;
    let limit = |max: u64| (max < i64::MAX as u64).then_some(max);
    Ok(document(&AccountDocument {
        bytes: account.used.bytes,
        objects: account.used.objects,
        bytes_max: limit(account.quota.bytes),
        objects_max: limit(account.quota.objects),
        keep_days: account.keep_days,
        name: account.name,
    }))
}

pub(crate) async fn create_object(
    State(app): State<Arc<App>>,
    Path((account, vault, name)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let by = app.authority.vault(&headers, &account, &vault).await?;
    let name = object_name(name)?;
    let said = Said::by(&headers)?;
    let upload = Upload::new(body, said);
    let (store, asked, object) = (Arc::clone(&app.store), by.clone(), name.clone());
    let may = apart(move || store.may_create((&asked.key, &asked.by), &object, said.len)).await;
    if let Err(Refused(refusal)) = may {
        return Err(upload.refuse(refusal).await);
    }
    let _turn = match app.uploads.take(by.key.account).await {
        Ok(turn) => turn,
        Err(refusal) => return Err(upload.refuse(refusal).await),
    };
    let incoming = upload.into_file(&app.store.objects, said).await?;
    let chain = match is_header(&name) {
        true => Some(app.chains.take(by.key.account).await?),
        false => None,
    };
    // From here on all of it is carried out even if nobody waits for the answer.
    let create = move || {
        let _chain = chain;
        app.create(&by, &name, incoming)
    };
    apart(create).await?;
    Ok(named(StatusCode::CREATED.into_response(), account))
}

pub(crate) async fn read_object(
    State(app): State<Arc<App>>,
    Path((account, vault, name)): Path<(String, String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Answer {
    let by = app.authority.vault(&headers, &account, &vault).await?;
    let name = object_name(name)?;
    by.may(Deed::Read(Kind::of(&name)))?;
    let (store, vault) = (Arc::clone(&app.store), by.key);
    if method == Method::HEAD {
        let found = apart(move || store.find(&vault, &name)).await?;
        let found = found.ok_or(Refusal::NoObject)?;
        let answer = head(&found, 0..found.len, StatusCode::OK);
        return Ok(named(answer, account));
    }
    let turn = app.downloads.take(vault.account).await?;
    let asked = headers.get(RANGE).cloned();
    let read = apart(move || {
        let part = |len| match &asked {
            None => Ok(None),
            Some(range) => range_of(range, len),
        };
        store.read(&vault, &name, part)
    });
    let Opened {
        found,
        part,
        content,
    } = read.await?.ok_or(Refusal::NoObject)?;
    let status = match part {
        Some(_) => StatusCode::PARTIAL_CONTENT,
        None => StatusCode::OK,
    };
    let range = part.unwrap_or(0..found.len);
    app.metrics.sent(range.end - range.start);
    let mut answer = head(&found, range.clone(), status);
    *answer.body_mut() = bytes_of(content, range, turn);
    Ok(named(answer, account))
}

/// An answer about an object that has yet no bytes.
fn head(found: &Found, range: Range<u64>, status: StatusCode) -> Response {
    let mut answer = status.into_response();
    let headers = answer.headers_mut();
    let octets = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, octets);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    headers.insert("strongroom-created", HeaderValue::from(found.created_s));
    if status == StatusCode::PARTIAL_CONTENT {
        let text = format!("bytes {}-{}/{}", range.start, range.end - 1, found.len);
        let value = HeaderValue::from_str(&text).expect("digits can be in a header");
        headers.insert(CONTENT_RANGE, value);
    }
    answer
}

pub(crate) async fn remove_object(
    State(app): State<Arc<App>>,
    Path((account, vault, name)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Answer {
    let by = app.authority.vault(&headers, &account, &vault).await?;
    let name = object_name(name)?;
    let store = Arc::clone(&app.store);
    apart(move || store.remove((&by.key, &by.by), &name)).await?;
    Ok(named(StatusCode::NO_CONTENT.into_response(), account))
}

pub(crate) async fn list_objects(
    State(app): State<Arc<App>>,
    Path((account, vault)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let by = app.authority.vault(&headers, &account, &vault).await?;
    let [kind, after] = parameters(query.as_deref(), ["kind", "after"])?;
    let kind = kind
        .filter(|kind| is_part(kind))
        .ok_or(Refusal::Parameter)?;
    let after = after.unwrap_or_default();
    if !after.is_empty() && ObjectName::new(format!("{kind}/{after}")).is_err() {
        return Err(Refusal::Parameter.into());
    }
    by.may(Deed::Read(Kind::of_kind(&kind)))?;
    let store = Arc::clone(&app.store);
    let page = apart(move || store.page(&by.key, &kind, &after)).await?;
    Ok(named(document(&page), account))
}

pub(crate) async fn publications(
    State(app): State<Arc<App>>,
    Path((account, vault)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let by = app.authority.vault(&headers, &account, &vault).await?;
    by.may(Deed::Follow)?;
    let [after, wait] = parameters(query.as_deref(), ["after", "wait"])?;
    let after = number(after)?;
    let wait = Duration::from_secs(number(wait)?.min(WAIT_S_MAX));
    // First it follows, then it looks: what comes between is heard of.
    let mut follower = app.followers.follow(&by.key);
    let (store, key) = (Arc::clone(&app.store), by.key.clone());
    let mut last = apart(move || store.last(&key)).await?;
    if last <= after && !wait.is_zero() {
        let mut ending = app.ending.clone();
        let heard = async {
            tokio::select! {
                newest = follower.behind(after) => newest,
                _ = ending.wait_for(|ending| *ending) => last,
            }
        };
        last = tokio::time::timeout(wait, heard).await.unwrap_or(last);
    }
    // Who was removed meanwhile, or whose token has ended, does not hear of it.         [11.11.6] [11.11.9]
    app.authority.again(&by).await?.may(Deed::Follow)?;
    Ok(named(document(&Newest { last }), account))
}

pub(crate) async fn events(
    State(app): State<Arc<App>>,
    Path((account, vault)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let by = app.authority.vault(&headers, &account, &vault).await?;
    by.may(Deed::Follow)?;
    let [after] = parameters(query.as_deref(), ["after"])?;
    let known = number(after)?;
    let follower = app.followers.follow(&by.key);
    let (store, key) = (Arc::clone(&app.store), by.key.clone());
    let last = apart(move || store.last(&key)).await?;
    let ending = app.ending.clone();
    let first = (last > known).then_some(last);
    // For no longer than a login is good: whoever still may asks again.
    let end = tokio::time::Instant::now() + LOGIN;
    let state = (follower, ending, first, known, app, by);
    let events = stream::unfold(
        state,
        move |(mut follower, mut ending, first, known, app, by)| async move {
            let newest = match first {
                Some(newest) => newest,
                None => tokio::select! {
                    newest = follower.behind(known) => newest,
                    _ = ending.wait_for(|ending| *ending) => return None,
                    () = tokio::time::sleep_until(end) => return None,
                },
            };
            // Who was removed meanwhile, or whose token has ended, does not hear of it. [11.11.6] [11.11.9]
            let by = app.authority.again(&by).await.ok()?;
            by.may(Deed::Follow).ok()?;
            let text = serde_json::to_string(&Newest { last: newest }).unwrap_or_default();
            let event = Event::default().id(newest.to_string()).data(text);
            let state = (follower, ending, None, newest, app, by);
            Some((Ok::<_, Infallible>(event), state))
        },
    );
    let events = Sse::new(events).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE));
    Ok(named(events.into_response(), account))
}

pub(crate) async fn challenge(
    State(app): State<Arc<App>>,
    Path((account, vault)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let (key, _) = app
        .authority
        .before_login(&headers, &account, &vault)
        .await?;
    let (store, logins) = (Arc::clone(&app.store), Arc::clone(&app.authority.logins));
    let challenged = apart(move || {
        let records = store.records_noted(&key)?;
        Ok((records, logins.challenge(&key, Instant::now())?))
    });
    let (records, issued) = challenged.await?;
    let challenge = ChallengeDocument {
        nonce: encoded(&issued.nonce),
        issued_s: issued.issued_s,
        valid_s: CHALLENGE.as_secs(),
        records,
    };
    Ok(named(document(&challenge), account))
}

pub(crate) async fn log_in(
    State(app): State<Arc<App>>,
    Path((account, vault)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let (key, account_token) = app
        .authority
        .before_login(&headers, &account, &vault)
        .await?;
    // Before the document comes: it takes memory.
    let _document = app.documents.take(key.account).await?;
    let came = whole(body, LOGIN_BYTES_MAX).await?;
    let login: LoginDocument = serde_json::from_slice(&came).map_err(|_| Refusal::Parameter)?;
    let (nonce, signed) = login.signed().ok_or(Refusal::Parameter)?;
    let (logins, of_logins) = (Arc::clone(&app.authority.logins), key.clone());
    let answered = apart(move || logins.answered(&nonce, &of_logins, Instant::now()));
    let issued = answered.await?;
    if !app.names.has(&login.server) {
        return Err(Refusal::OtherServer.into());
    }
    let at = At {
        server: login.server,
        account: account.clone(),
        nonce,
        issued_s: issued.issued_s,
        valid_s: CHALLENGE.as_secs(),
    };
    // It ends with the work, also if nobody waits for the answer any more.
    let turn = app.chains.take(key.account).await?;
    let (store, of_store) = (Arc::clone(&app.store), key.clone());
    let asker = apart(move || {
        let _turn = turn;
        store.log_in(&of_store, &at, &signed)
    });
    let login = LoggedIn {
        asker: asker.await?,
        vault: key,
        account_token,
    };
    let logins = Arc::clone(&app.authority.logins);
    let pass = apart(move || logins.begin(login, Instant::now())).await?;
    let pass = PassDocument {
        token: pass.reveal().to_owned(),
        valid_s: LOGIN.as_secs(),
    };
    let mut answer = document(&pass);
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(named(answer, account))
}

fn object_name(name: String) -> Result<ObjectName, Refusal> {
    ObjectName::new(name).map_err(|_| Refusal::Name)
}

/// The parameters of a query, each once; a query with any other is refused.
fn parameters<const N: usize>(
    query: Option<&str>,
    names: [&str; N],
) -> Result<[Option<String>; N], Refusal> {
    let mut found = [const { None }; N];
    for pair in query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
    {
        // Nothing that may be said here needs a percent sign.
        let (name, value) = pair.split_once('=').ok_or(Refusal::Parameter)?;
        let at = names.iter().position(|known| *known == name);
        let place = &mut found[at.ok_or(Refusal::Parameter)?];
        if place.replace(value.to_owned()).is_some() {
            return Err(Refusal::Parameter);
        }
    }
    Ok(found)
}

/// A number; 0 if none is said.
fn number(text: Option<String>) -> Result<u64, Refusal> {
    let text = text.as_deref().unwrap_or("0");
    // `parse` would take a plus sign, too.
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().map_err(|_| Refusal::Parameter),
        false => Err(Refusal::Parameter),
    }
}

/// The answer with the name of the account, for the log.
pub(crate) fn named(mut answer: Response, account: String) -> Response {
    answer.extensions_mut().insert(Name(account));
    answer
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn a_query_has_known_parameters_once() {
        let of = |query| parameters(query, ["after", "wait"]);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(of(None), Ok([None, None]));
        assert_eq!(of(Some("wait=3&after=2")), Ok([some("2"), some("3")]));
        for bad in ["x=1", "after", "after=1&after=1"] {
            assert_eq!(of(Some(bad)), Err(Refusal::Parameter), "{bad}");
        }
        assert_eq!((number(None), number(some("07"))), (Ok(0), Ok(7)));
        for bad in ["-1", "+1", "", " 1", "1.0", "18446744073709551616"] {
            assert_eq!(number(some(bad)), Err(Refusal::Parameter), "{bad}");
        }
    }
}

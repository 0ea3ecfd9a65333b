//! Sends the requests of object stores.
//!
//! Takes   requests of the crate `object_store`
//! Gives   their answers
//! Never   gives up an upload that makes progress, however slow the line is, or keeps more than `ANSWER_BYTES_MAX` of the
//!         answer to an upload
//!
//! All requests but uploads are sent by that crate, with its read timeout: see `upload.rs`. An upload that broke off is sent again by `cloud.rs`,
//! and not by that crate: it gets a new signature, and fewer others run at the same time.

use std::time::Duration;

use http_body_util::BodyExt as _;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpResponse, HttpResponseBody, HttpService, ReqwestConnector,
};
use object_store::{ClientOptions, Error as StoreError};
use reqwest::header::{CONTENT_LENGTH, HeaderValue};
use reqwest::{Client, Method, Request, StatusCode, Url};

use crate::limits::{ANSWER_BYTES_MAX, CONNECT, RATE_MIN, SILENCE};
use crate::upload::Sent;

/// Makes what sends the requests of a store.
#[derive(Debug)]
pub(crate) struct Connector;

#[derive(Debug)]
struct Service {
    ordinary: HttpClient,
    uploads: Client,
    silence: Duration,
    rate_min: u64,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let uploads = Client::builder()
            .connect_timeout(CONNECT)
            .https_only(allows_http.as_deref() != Some("true"))
            .user_agent(concat!("strongroom/", env!("CARGO_PKG_VERSION")));
        let uploads = uploads.build().map_err(|error| StoreError::Generic {
            store: "remote",
            source: Box::new(error),
        })?;
        Ok(HttpClient::new(Service {
            ordinary: ReqwestConnector::default().connect(options)?,
            uploads,
            silence: SILENCE,
            rate_min: RATE_MIN,
        }))
    }
}

#[async_trait::async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // Without a body it sends no object: clouds hand out credentials so, and are waited for more briefly.
        // `is_empty` of a body in pieces, as uploads are, says the contrary.
        if request.method() != Method::PUT || request.body().content_length() == 0 {
            return self.ordinary.execute(request).await;
        }
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let url = Url::parse(&parts.uri.to_string());
        let url = url.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        // How much of it was taken, for those who asked for the upload.
        let sent = parts.extensions.get::<Sent>().cloned().unwrap_or_default();
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        let len = HeaderValue::from(bytes.len());
        request.headers_mut().insert(CONTENT_LENGTH, len);
        *request.body_mut() = Some(sent.body_of(bytes));
        let answer = async {
            let failed = |error| failed(error, &sent);
            let mut answer = self.uploads.execute(request).await.map_err(failed)?;
            let mut bytes = Vec::new();
            while let Some(piece) = answer.chunk().await.map_err(failed)? {
                if (bytes.len() + piece.len()) as u64 > ANSWER_BYTES_MAX {
                    return Err(HttpError::new(HttpErrorKind::Decode, Said::TooMuch));
                }
                bytes.extend_from_slice(&piece);
            }
            Ok((answer, bytes))
        };
        let answered = sent.while_moving(answer, self.silence, self.rate_min).await;
        let (answer, bytes) =
            answered.ok_or_else(|| HttpError::new(HttpErrorKind::Timeout, Said::Nothing))??;
        if answer.status() == StatusCode::REQUEST_TIMEOUT {
            return Err(HttpError::new(HttpErrorKind::Timeout, Said::Slow));
        }
        let mut response = HttpResponse::new(HttpResponseBody::from(bytes));
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        Ok(response)
    }
}

/// What is wrong with what a store answered.
#[derive(Debug, thiserror::Error)]
enum Said {
    #[error("it does not answer in time")]
    Nothing,
    #[error("no data arrived there for too long")]
    Slow,
    #[error("its answer is too long")]
    TooMuch,
}

/// As the crate itself sorts them, which tries again what failed on the line; but not what had begun.
fn failed(error: reqwest::Error, sent: &Sent) -> HttpError {
    let kind = match () {
        () if error.is_timeout() => HttpErrorKind::Timeout,
        () if error.is_connect() => HttpErrorKind::Connect,
        () if sent.has_begun() => HttpErrorKind::Interrupted,
        () if error.is_request() || error.is_body() => HttpErrorKind::Request,
        () => HttpErrorKind::Unknown,
    };
    // A URL may hold a signature.
    HttpError::new(kind, error.without_url())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use object_store::PutPayload;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread::{JoinHandle, sleep, spawn};
    use tokio::runtime::Builder;

    /// More than the system keeps between two programs.
    const LEN: usize = 12 << 20;

    /// A store that does `with` to one connection.
    fn store(with: impl FnOnce(TcpStream) + Send + 'static) -> (String, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/object", listener.local_addr().unwrap());
        let thread = spawn(move || with(listener.accept().unwrap().0));
        (url, thread)
    }

    /// The status of the answer to an upload of `LEN` bytes.
    fn upload(url: &str, silence: Duration) -> Result<u16, HttpErrorKind> {
        let options = ClientOptions::new().with_allow_http(true);
        let service = Service {
            ordinary: ReqwestConnector::default().connect(&options).unwrap(),
            uploads: Client::builder().no_proxy().build().unwrap(),
            silence,
            rate_min: u64::MAX,
        };
        let mut request = HttpRequest::new(PutPayload::from(vec![7; LEN]).into());
        *request.method_mut() = Method::PUT;
        *request.uri_mut() = url.parse().unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(service.call(request));
        answer
            .map(|answer| answer.status().as_u16())
            .map_err(|error| error.kind())
    }

    /// Takes the head of a request, and gives how much of the body came with it.
    fn take_head(line: &mut TcpStream) -> usize {
        let mut taken = Vec::new();
        loop {
            let mut some = [0; 1024];
            let len = line.read(&mut some).unwrap();
            taken.extend_from_slice(&some[..len]);
            if let Some(end) = taken.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&taken[..end]).to_lowercase();
                assert!(head.contains(&format!("content-length: {LEN}")), "{head}");
                return taken.len() - end - 4;
            }
        }
    }

    /// Goal: an upload may take longer than a store may be silent. Seen failing with the client of `object_store`, whose timeout for
    /// reading began with the request.
    #[test]
    fn an_upload_over_a_slow_line_comes_to_its_end() {
        let silence = Duration::from_secs(2);
        let (url, thread) = store(move |mut line| {
            let mut taken = take_head(&mut line);
            let mut some = vec![0; 1 << 20];
            while taken < LEN {
                sleep(Duration::from_millis(20));
                taken += line.read(&mut some[..64 << 10]).unwrap();
            }
            line.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
        });
        assert_eq!(upload(&url, silence), Ok(200));
        thread.join().unwrap();
    }

    #[test]
    fn a_store_that_takes_nothing_and_answers_nothing_is_silent() {
        let (done, ended) = std::sync::mpsc::channel::<()>();
        let (url, thread) = store(move |line| {
            let _ = ended.recv();
            drop(line);
        });
        assert_eq!(upload(&url, Duration::ZERO), Err(HttpErrorKind::Timeout));
        drop(done);
        thread.join().unwrap();
    }

    #[test]
    fn an_answer_to_an_upload_that_never_ends_is_refused() {
        let (url, thread) = store(|mut line| {
            let mut taken = take_head(&mut line);
            let mut some = vec![0; 1 << 20];
            while taken < LEN {
                taken += line.read(&mut some).unwrap();
            }
            let _ = line.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while line.write_all(&some).is_ok() {}
        });
        assert_eq!(upload(&url, SILENCE), Err(HttpErrorKind::Decode));
        thread.join().unwrap();
    }
}

//! Accepts, bounds and ends the connections of a server.
//!
//! Takes   a listening socket
//! Gives   each request, passed to the routes
//! Never   has more than `CONNECTIONS` connections, or waits without bound for a client that sends or reads nothing

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;

use crate::app::Peer;
use crate::limits::{CONNECTIONS, HEAD_BYTES, LAST_REQUESTS, RATE_MIN, SILENCE, UNREAD};
use crate::metrics::Metrics;

/// Accepts until `ending` is true; returns when the last request has ended, or had its time.
pub(crate) async fn run(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    mut ending: watch::Receiver<bool>,
    metrics: Arc<Metrics>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(_) => {
                // No file is left for it, most of the time: others end meanwhile.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (tls, router, ending) = (tls.clone(), router.clone(), ending.clone());
        let connected = metrics.connected();
        tokio::spawn(async move {
            serve(stream, peer, tls, router, ending).await;
            drop((place, connected));
        });
    }
    drop(listener);
    let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(LAST_REQUESTS, places.acquire_many(all)).await;
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
    ending: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream);
    match tls {
        None => speak(stream, with_peer(router, peer), ending).await,
        Some(tls) => {
            // Who speaks no TLS, or breaks off, has no more to say.
            if let Ok(Ok(stream)) = tokio::time::timeout(SILENCE, tls.accept(stream)).await {
                speak(stream, with_peer(router, peer), ending).await;
            }
        }
    }
}

/// The routes, for requests of one connection.
fn with_peer(router: Router, peer: SocketAddr) -> Router {
    router.layer(axum::middleware::map_request(
        move |mut request: Request| async move {
            request.extensions_mut().insert(Peer(peer));
            request
        },
    ))
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    router: Router,
    mut ending: watch::Receiver<bool>,
) {
    let mut builder = Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_header_size(HEAD_BYTES)
        // A bound for bodies: of heads it takes some more.
        .max_buf_size(64 * 1024);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // A broken line is no fault of the server.
        _ = connection.as_mut() => return,
        _ = ending.wait_for(|ending| *ending) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A connection that fails when nothing of what is written is taken for `UNREAD`, or less than `RATE_MIN` of it.
struct Patient {
    stream: TcpStream,
    /// When it fails; `None` once all that was written is taken.
    until: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            until: None,
        }
    }

    /// `polled`, which says how many bytes were taken, unless that took too long.
    fn in_time(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(taken)), Some(until)) = (&polled, &mut self.until) {
            let later = later(until.deadline(), Instant::now(), *taken);
            until.as_mut().reset(later);
        }
        if polled.is_ready() {
            return polled;
        }
        let until = self
            .until
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + UNREAD)));
        match until.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// When a connection fails that would fail at `until`, now that so many bytes were taken.
fn later(until: Instant, now: Instant, taken: usize) -> Instant {
    let earned = Duration::from_micros(taken as u64 * 1_000_000 / RATE_MIN);
    (until + earned).min(now + UNREAD)
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.in_time(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Whoever flushes has written all that waited.
        self.until = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: who takes a little now and then is cut off in bounded time. Failed before: each byte that was taken gave another `UNREAD`.
    #[test]
    fn what_is_taken_earns_the_time_of_the_least_rate_and_no_more() {
        let now = Instant::now();
        let until = now + Duration::from_secs(10);
        assert_eq!(later(until, now, 0), until);
        let taken = usize::try_from(RATE_MIN).unwrap_or(usize::MAX);
        assert_eq!(later(until, now, taken), until + Duration::from_secs(1));
        assert_eq!(later(until, now, 1000 * taken), now + UNREAD);
    }
}

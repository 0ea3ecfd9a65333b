//! A running server, until it is stopped.
//!
//! Takes   where it stores everything, an address to listen on, and how connections are encrypted
//! Gives   the address that it listens on, and the fingerprint of its certificate
//! Never   accepts unencrypted connections from another machine

use std::net::SocketAddr;
use std::sync::Arc;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::connections;
use crate::error::{Error, Result};
use crate::hearing::hear;
use crate::names::Names;
use crate::request_rates::RequestRates;
use crate::routes;
use crate::storage::Storage;
use crate::store::{Store, Use};
use crate::tls::{Accepting, Tls, accepting};

/// How a server is to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it stores everything; a folder is made if it is not there.
    pub storage: Storage,
    /// Where it listens; port 0 for any that is free.
    pub listen: SocketAddr,
    /// How it is spoken to.
    pub tls: Tls,
    /// Where it answers with its metrics, without TLS and without asking who asks; nowhere if this is `None`.
    pub metrics: Option<SocketAddr>,
    /// Names by which devices reach it, as their URLs have them, beside those of its certificate: behind a proxy that does TLS.
    pub names: Vec<String>,
    /// How many requests a second an account may make on average, and an address from which requests come without a valid token; 0 for no
    /// bound. `limits::REQUESTS_PER_SECOND` is a good value.
    pub requests_per_second: u32,
}

/// Lets this process have as many open files as the system allows it: each connection is one. For programs that serve.
pub fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With fewer the server works, too: connections wait.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// A server. It ends when this is dropped, gracefully by `stop`.
pub struct Server {
    runtime: Runtime,
    running: Vec<JoinHandle<()>>,
    ending: watch::Sender<bool>,
    app: Arc<App>,
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    fingerprint: Option<String>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Server({})", self.address)
    }
}

impl Server {
    /// Starts one; it is reached on return.
    ///
    /// # Errors
    /// `InUse`, `NewerSchema`, `Certificate`, `ClearBeyond`; `Io` if it cannot listen there; `Configuration`, `ForeignDatabase`,
    /// `DatabaseAway`.
    pub fn start(settings: &Settings) -> Result<Self> {
        if settings.tls == Tls::Off && !settings.listen.ip().is_loopback() {
            return Err(Error::ClearBeyond);
        }
        let store = Store::open(&settings.storage, Use::Serving)?;
        let tls = accepting(&settings.tls, settings.storage.folder())?;
        let runtime = Builder::new_multi_thread()
            .thread_name("server")
            .enable_all()
            .build()
            .map_err(Error::io("starting threads"))?;
        let listen = |at: SocketAddr| -> Result<(TcpListener, SocketAddr)> {
            let listening = runtime.block_on(TcpListener::bind(at));
            let listener = listening.map_err(Error::io("listening at that address"))?;
            let address = listener.local_addr();
            let address = address.map_err(Error::io("asking for the address"))?;
            Ok((listener, address))
        };
        let (listener, address) = listen(settings.listen)?;
        let metrics = settings.metrics.map(listen).transpose()?;
        let (ending, heard) = watch::channel(false);
        let rates = RequestRates::new(settings.requests_per_second);
        let app = App::new(store, names(settings, tls.as_ref()), rates, heard.clone());
        let (acceptor, fingerprint) = tls.map_or((None, None), |tls| {
            (Some(tls.acceptor), Some(tls.fingerprint))
        });
        let accepting = connections::run(
            listener,
            acceptor,
            routes::for_clients(&app),
            heard.clone(),
            Arc::clone(&app.metrics),
        );
        let mut running = vec![runtime.spawn(accepting)];
        if app.store.is_shared() {
            let (store, followers) = (Arc::clone(&app.store), Arc::clone(&app.followers));
            running.push(runtime.spawn(hear(store, followers, heard.clone())));
        }
        let metrics = metrics.map(|(listener, address)| {
            let answering = connections::run(
                listener,
                None,
                routes::for_metrics(&app),
                heard,
                Arc::clone(&app.metrics),
            );
            running.push(runtime.spawn(answering));
            address
        });
        Ok(Self {
            runtime,
            running,
            ending,
            app,
            address,
            metrics,
            fingerprint,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it answers with its metrics, at `/metrics`.
    #[must_use]
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// SHA-256 of its certificate, in hexadecimal; `None` without TLS.
    #[must_use]
    pub fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// Requests that were begun since it started.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.app.requests()
    }

    /// Ends it: no new connection, an end for who waits, some time for what is under way.
    pub fn stop(mut self) {
        self.ending.send_replace(true);
        for running in std::mem::take(&mut self.running) {
            // A panic there has been reported by the panic hook.
            let _ = self.runtime.block_on(running);
        }
    }
}

/// The names of a server that runs so.
fn names(settings: &Settings, tls: Option<&Accepting>) -> Names {
    let given = Names::given(&settings.names);
    match tls {
        Some(tls) => given.and_of(&tls.certificate, &tls.fingerprint),
        None => given.and_here(settings.listen.ip()),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.send_replace(true);
    }
}

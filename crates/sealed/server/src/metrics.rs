//! The numbers of a running server, for Prometheus.
//!
//! Takes   requests, connections and bytes as they happen; the rest is asked when somebody reads the numbers
//! Gives   them as text
//! Never   has the name of an account, vault or object, or an address

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::ledger::Totals;

/// Of which kind a request was, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    method: String,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    method: String,
    route: String,
}

/// What is true at the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) followers: usize,
    pub(crate) uploads: usize,
    pub(crate) downloads: usize,
    pub(crate) totals: Totals,
}

/// All numbers.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Route, Histogram>,
    received: Counter,
    sent: Counter,
    connections: Gauge,
    followers: Gauge,
    uploads: Gauge,
    downloads: Gauge,
    accounts: Gauge,
    objects: Gauge<u64, AtomicU64>,
    bytes: Gauge<u64, AtomicU64>,
}

/// A connection, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("strongroom");
        let requests = Family::<Request, Counter>::default();
        registry.register("requests", "Requests that were answered", requests.clone());
        let seconds = Family::<Route, Histogram>::new_with_constructor(|| {
            // 1 ms to 65 s: a request may wait for a publication.
            Histogram::new(exponential_buckets(0.001, 2.0, 17))
        });
        let what = "Time until the head of the answer";
        registry.register_with_unit("request", what, Unit::Seconds, seconds.clone());
        let mut counter = |name, what, unit| {
            let counter = Counter::default();
            registry.register_with_unit(name, what, unit, counter.clone());
            counter
        };
        let received = counter("received", "Bytes of created objects", Unit::Bytes);
        let sent = counter("sent", "Bytes of objects in answers", Unit::Bytes);
        let mut gauge = |name, what| {
            let gauge = Gauge::<i64, _>::default();
            registry.register(name, what, gauge.clone());
            gauge
        };
        let connections = gauge("connections", "Open connections");
        let followers = gauge("followers", "Devices that wait for a publication");
        let uploads = gauge("uploads", "Objects that are being received");
        let downloads = gauge("downloads", "Objects that are being sent");
        let accounts = gauge("accounts", "Accounts");
        let (objects, bytes) = (Gauge::default(), Gauge::default());
        registry.register("objects", "Stored objects", objects.clone());
        registry.register_with_unit(
            "stored",
            "Bytes of stored objects",
            Unit::Bytes,
            bytes.clone(),
        );
        Self {
            registry,
            requests,
            seconds,
            received,
            sent,
            connections,
            followers,
            uploads,
            downloads,
            accounts,
            objects,
            bytes,
        }
    }

    /// A request was answered. Routes and statuses are few; whatever method a client invents counts as one.
    pub(crate) fn answered(&self, method: &str, route: &str, status: u16, time: Duration) {
        let known = ["GET", "HEAD", "PUT", "POST", "DELETE"];
        let method = if known.contains(&method) {
            method
        } else {
            "other"
        };
        let (method, route) = (method.to_owned(), route.to_owned());
        let request = Request {
            method: method.clone(),
            route: route.clone(),
            status,
        };
        self.requests.get_or_create(&request).inc();
        self.seconds
            .get_or_create(&Route { method, route })
            .observe(time.as_secs_f64());
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.received.inc_by(bytes);
    }

    pub(crate) fn sent(&self, bytes: u64) {
        self.sent.inc_by(bytes);
    }

    pub(crate) fn connected(&self) -> Connected {
        self.connections.inc();
        Connected(self.connections.clone())
    }

    /// All of them as text.
    pub(crate) fn text(&self, moment: Moment) -> Result<String, std::fmt::Error> {
        let shown = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.followers.set(shown(moment.followers));
        self.uploads.set(shown(moment.uploads));
        self.downloads.set(shown(moment.downloads));
        self.accounts
            .set(i64::try_from(moment.totals.accounts).unwrap_or(i64::MAX));
        self.objects.set(moment.totals.objects);
        self.bytes.set(moment.totals.bytes);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
